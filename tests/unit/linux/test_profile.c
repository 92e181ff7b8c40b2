/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from a file: as good as the kernel's own where it has none. */
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/profile_json.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_profile *profile;
static struct gs_error err;

static void expect_good(const json_t *root)
{
	ck_assert_msg(profile_open_json(root, &profile, &err) == GS_OK, "%s", err.text);
}

/* --- good ones -------------------------------------------------------------------------------- */

static void expect_same_field(const struct lnx_field *a, const struct lnx_field *b,
			      const char *what)
{
	ck_assert_msg(a->present == b->present && a->offset == b->offset && a->size == b->size,
		      "%s", what);
}

static void expect_same(const struct lnx_types *a, const struct lnx_types *b)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++)
		expect_same_field(&a->member[m], &b->member[m],
				  lnx_member_name((enum lnx_member)m).path);
	for (size_t p = 0; p < LNX_PERCPUS; p++)
		expect_same_field(&a->percpu[p], &b->percpu[p],
				  lnx_percpu_name((enum lnx_percpu)p));
	for (size_t c = 0; c < LNX_COUNTERS; c++)
		ck_assert_msg(a->counter[c].present == b->counter[c].present &&
				      a->counter[c].of_nodes == b->counter[c].of_nodes &&
				      a->counter[c].index == b->counter[c].index,
			      "%s", lnx_counter_name((enum lnx_counter)c));
	ck_assert_uint_eq(a->task_size, b->task_size);
	ck_assert_uint_eq(a->pt_regs_size, b->pt_regs_size);
	ck_assert(a->has_frame_record_meta == b->has_frame_record_meta);
}

static const struct typeinfo_form kernels[] = {
	{ 0 },
	{ .old = true, .no_percpu = true },
	{ .meta = true },
	{ .int_on_cpu = true },
};

START_TEST(good_profile_is_equal_to_the_kernels_own_layouts)
{
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++) {
		static struct lnx_types types;

		types_of(&kernels[i], &types);
		json_t *root = profile_of(&types, kernels[i].old);

		expect_good(root);
		expect_same(&types, &profile->types);
		lnx_profile_destroy(profile);
		json_decref(root);
	}
}
END_TEST

START_TEST(what_a_profile_has_besides_is_ignored)
{
	json_t *root = good_profile();

	json_object_set_new(root, "comment", json_string("made by hand"));
	json_object_set_new(json_object_get(root, "structs"), "vm_area_struct", json_integer(7));
	json_object_set_new(members_in(root, "task_struct"), "seccomp", json_null());
	json_object_set_new(json_object_get(json_object_get(root, "percpu"), "runqueues"), "x",
			    json_true());
	expect_good(root);
	lnx_profile_destroy(profile);
	json_decref(root);
}
END_TEST

START_TEST(members_that_are_not_needed_may_be_missing)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name name = lnx_member_name((enum lnx_member)m);
		json_t *root = good_profile();
		char path[64];

		member_name((enum lnx_member)m, false, path, sizeof(path));
		if (!name.needed) {
			json_object_del(members_in(root, name.in), path);
			expect_good(root);
			ck_assert(!profile->types.member[m].present);
			lnx_profile_destroy(profile);
		}
		json_decref(root);
	}
	json_t *root = good_profile();
	json_object_del(root, "percpu");
	json_object_del(root, "enums");
	json_object_del(json_object_get(root, "structs"), "rq");
	json_object_del(json_object_get(root, "structs"), "mm_struct");
	expect_good(root);
	ck_assert(!profile->types.counter[LNX_C_FREE_PAGES].present);
	ck_assert(!profile->types.member[LNX_M_MM_PGD].present);
	ck_assert(!profile->types.percpu[LNX_P_RUNQUEUES].present);
	ck_assert(!profile->types.member[LNX_M_RQ_IDLE].present);
	lnx_profile_destroy(profile);
	json_decref(root);
}
END_TEST

// The first and the last places there are.
START_TEST(members_may_lie_at_both_ends_of_their_structure)
{
	json_t *root = good_profile();
	json_t *pid = json_object_get(members_in(root, "task_struct"), "pid");
	json_t *size = json_object_get(struct_in(root, "task_struct"), "size");

	json_integer_set(size, 1 << 20);
	json_integer_set(json_object_get(pid, "offset"), 0);
	json_integer_set(json_object_get(pid, "size"), 1 << 20);
	expect_good(root);
	ck_assert_uint_eq(profile->types.member[LNX_M_TASK_PID].size, 1 << 20);
	lnx_profile_destroy(profile);
	json_integer_set(json_object_get(pid, "offset"), (1 << 20) - 1);
	json_integer_set(json_object_get(pid, "size"), 1);
	expect_good(root);
	ck_assert_uint_eq(profile->types.member[LNX_M_TASK_PID].offset, (1 << 20) - 1);
	lnx_profile_destroy(profile);
	json_decref(root);
}
END_TEST

/* --- of use ----------------------------------------------------------------------------------- */

static enum gs_code find(const struct lnx_reference *reference)
{
	const struct lnx_hints hints = { .profile = profile, .reference = reference };

	err = (struct gs_error){ 0 };
	k = NULL;
	return lnx_kernel_find(&g.m.guest, g.m.regs, g.m.guest.vcpu_count, &hints, &k, &err);
}

static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	lg_populate(&g);
}

static void done(void)
{
	lnx_kernel_destroy(k);
	lnx_profile_destroy(profile);
	k = NULL;
	profile = NULL;
	lg_destroy(&g);
}

static void open_profile_of(const struct typeinfo_form *form)
{
	static struct lnx_types types;

	types_of(form, &types);
	json_t *root = profile_of(&types, form->old);

	expect_good(root);
	json_decref(root);
}

static void expect_tasks(void)
{
	struct lnx_view v;
	struct lnx_task task;
	gva_t tasks[8];
	uint32_t n;

	ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_processes_collect(&v, tasks, ARRAY_SIZE(tasks), &n), GS_OK);
	ck_assert_uint_eq(n, 4);
	ck_assert_int_eq(lnx_task_read(&v, tasks[2], &task), GS_OK);
	ck_assert_str_eq(task.comm, "worker");
	ck_assert_int_eq(task.pid, 100);
}

START_TEST(profile_is_used_when_the_kernel_has_no_types)
{
	for (size_t i = 0; i < 3; i++) {
		make(&(struct lg_form){ .style = "AABC"[i],
					.old = kernels[i].old,
					.meta = kernels[i].meta,
					.no_types = true });
		open_profile_of(&kernels[i]);
		ck_assert_msg(find(NULL) == GS_OK, "%s", err.text);
		ck_assert_int_eq(lnx_kernel_found(k)->types_by, LNX_BY_PROFILE);
		expect_same(&k->types, &profile->types);
		expect_tasks();
		done();
	}
}
END_TEST

START_TEST(profile_is_used_when_the_types_are_broken)
{
	make(&(struct lg_form){ 0 });
	memset(lg_image(&g, LG_BTF + 24), 0xff, 64);
	open_profile_of(&kernels[0]);
	ck_assert_msg(find(NULL) == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_kernel_found(k)->types_by, LNX_BY_PROFILE);
	expect_tasks();
	done();
}
END_TEST

START_TEST(profile_is_not_used_when_the_kernel_has_types)
{
	make(&(struct lg_form){ 0 });
	open_profile_of(&kernels[1]); // it would be wrong
	ck_assert_msg(find(NULL) == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_kernel_found(k)->types_by, LNX_BY_BTF);
	expect_tasks();
	done();
}
END_TEST

START_TEST(types_of_an_image_come_before_a_profile)
{
	struct lnx_reference *reference;
	size_t size;

	make(&(struct lg_form){ 0 });
	uint8_t *image = image_make(&g, 0, &size);
	struct image_file f = image_file_make(image, size);
	ck_assert_int_eq(lnx_reference_open(f.path, &reference, NULL), GS_OK);
	image_file_close(&f);
	memset(lg_image(&g, LG_BTF), 0, 24);
	open_profile_of(&kernels[1]);
	ck_assert_msg(find(reference) == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_kernel_found(k)->types_by, LNX_BY_REFERENCE);
	expect_tasks();
	lnx_reference_destroy(reference);
	free(image);
	done();
}
END_TEST

// A task that is larger than what is read of one is refused before it is read.
START_TEST(profile_of_huge_tasks_is_refused_when_it_is_used)
{
	make(&(struct lg_form){ .no_types = true });
	json_t *root = good_profile();
	json_integer_set(json_object_get(struct_in(root, "task_struct"), "size"),
			 LNX_TASK_SIZE_MAX + 1);
	expect_good(root);
	json_decref(root);
	ck_assert_int_eq(find(NULL), GS_ETOOBIG);
	ck_assert_ptr_nonnull(strstr(err.text, "task_struct of 16385 bytes"));
	done();
}
END_TEST

// Offsets that are those of no task: the kernel is not found, and nothing else happens.
START_TEST(profile_of_another_kernel_finds_no_tasks)
{
	static const uint32_t tasks_at[] = { 0, 1, 500, 16384 - 16 };

	for (size_t i = 0; i < ARRAY_SIZE(tasks_at); i++) {
		make(&(struct lg_form){ .no_types = true });
		json_t *root = good_profile();
		json_t *tasks = json_object_get(members_in(root, "task_struct"), "tasks");
		json_integer_set(json_object_get(struct_in(root, "task_struct"), "size"),
				 LNX_TASK_SIZE_MAX);
		json_integer_set(json_object_get(tasks, "offset"), tasks_at[i]);
		expect_good(root);
		json_decref(root);
		ck_assert_int_eq(find(NULL), GS_ENOENT);
		done();
	}
}
END_TEST

Suite *suite_profile(void)
{
	Suite *s = suite_create("profile");
	TCase *tc = tcase_create("profile");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, good_profile_is_equal_to_the_kernels_own_layouts);
	tcase_add_test(tc, what_a_profile_has_besides_is_ignored);
	tcase_add_test(tc, members_that_are_not_needed_may_be_missing);
	tcase_add_test(tc, members_may_lie_at_both_ends_of_their_structure);
	tcase_add_test(tc, profile_is_used_when_the_kernel_has_no_types);
	tcase_add_test(tc, profile_is_used_when_the_types_are_broken);
	tcase_add_test(tc, profile_is_not_used_when_the_kernel_has_types);
	tcase_add_test(tc, types_of_an_image_come_before_a_profile);
	tcase_add_test(tc, profile_of_huge_tasks_is_refused_when_it_is_used);
	tcase_add_test(tc, profile_of_another_kernel_finds_no_tasks);
	suite_add_tcase(s, tc);
	return s;
}
