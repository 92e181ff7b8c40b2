/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from a file: as good as the kernel's own, or refused with the reason. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/reference.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_profile *profile;
static struct gs_error err;

/* --- a profile from BTF ----------------------------------------------------------------------- */

static struct lnx_types types_of(const struct typeinfo_form *form)
{
	struct lnx_types types;
	size_t size;
	uint8_t *blob = typeinfo_make(form, &size);

	ck_assert_int_eq(lnx_types_read(blob, size, &types, NULL), GS_OK);
	free(blob);
	return types;
}

static json_t *json_of(const struct lnx_field *f)
{
	return json_pack("{s:I, s:I}", "offset", (json_int_t)f->offset, "size",
			 (json_int_t)f->size);
}

/* The name of a member, of several the old or the new one. */
static void name_of(enum lnx_member m, bool old, char *name, size_t size)
{
	const char *path = lnx_member_name(m).path, *bar = strchr(path, '|');

	if (old && bar)
		snprintf(name, size, "%s", bar + 1);
	else
		snprintf(name, size, "%.*s", (int)(bar ? bar - path : (ptrdiff_t)strlen(path)),
			 path);
}

static json_t *profile_of(const struct lnx_types *types, bool old)
{
	json_t *structs =
		json_pack("{s:{s:I,s:{}}, s:{s:I,s:{}}, s:{s:I,s:{}}, s:{s:I,s:{}}}", "task_struct",
			  "size", (json_int_t)types->task_size, "members", "pt_regs", "size",
			  (json_int_t)types->pt_regs_size, "members", "signal_struct", "size",
			  (json_int_t)sizeof(struct lg_signal), "members", "rq", "size",
			  (json_int_t)sizeof(struct lg_rq), "members");
	json_t *percpu = json_object();

	ck_assert(structs && percpu);
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		json_t *in = json_object_get(structs, lnx_member_name((enum lnx_member)m).in);
		char name[64];

		name_of((enum lnx_member)m, old, name, sizeof(name));
		if (types->member[m].present)
			json_object_set_new(json_object_get(in, "members"), name,
					    json_of(&types->member[m]));
	}
	for (size_t p = 0; p < LNX_PERCPUS; p++)
		if (types->percpu[p].present)
			json_object_set_new(percpu, lnx_percpu_name((enum lnx_percpu)p),
					    json_of(&types->percpu[p]));
	if (types->has_frame_record_meta)
		json_object_set_new(structs, "frame_record_meta", json_pack("{s:i}", "size", 24));
	return json_pack("{s:i, s:o, s:o}", "guestshot-profile", 1, "structs", structs, "percpu",
			 percpu);
}

static json_t *good_profile(void)
{
	const struct lnx_types types = types_of(&(struct typeinfo_form){ 0 });

	return profile_of(&types, false);
}

static enum gs_code open_text(const char *text, size_t size)
{
	struct image_file f = image_file_make(text, size);

	err = (struct gs_error){ 0 };
	profile = NULL;
	enum gs_code rc = lnx_profile_open(f.path, &profile, &err);
	if (rc)
		ck_assert_msg(!strncmp(err.text, "profile ", 8) && strstr(err.text, f.path), "%s",
			      err.text);
	image_file_close(&f);
	return rc;
}

static enum gs_code open_json(const json_t *root)
{
	char *text = json_dumps(root, JSON_INDENT(1));

	ck_assert_ptr_nonnull(text);
	enum gs_code rc = open_text(text, strlen(text));
	free(text);
	return rc;
}

static void expect_good(const json_t *root)
{
	ck_assert_msg(open_json(root) == GS_OK, "%s", err.text);
}

static void expect_bad_text(const char *text, size_t size, const char *why)
{
	enum gs_code rc = open_text(text, size);

	ck_assert_msg(rc == GS_EMALFORMED && err.code == rc, "%d, %d: %.60s", rc, err.code, text);
	ck_assert_msg(strstr(err.text, why), "%s: not %s", err.text, why);
	ck_assert_ptr_null(profile);
}

/* Takes @p root. */
static void expect_bad(json_t *root, const char *why)
{
	char *text = json_dumps(root, 0);

	ck_assert_ptr_nonnull(text);
	expect_bad_text(text, strlen(text), why);
	free(text);
	json_decref(root);
}

static json_t *struct_in(json_t *root, const char *name)
{
	return json_object_get(json_object_get(root, "structs"), name);
}

static json_t *members_in(json_t *root, const char *name)
{
	return json_object_get(struct_in(root, name), "members");
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
		struct lnx_types types = types_of(&kernels[i]);
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
	json_object_set_new(json_object_get(root, "structs"), "mm_struct", json_integer(7));
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

		name_of((enum lnx_member)m, false, path, sizeof(path));
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
	json_object_del(json_object_get(root, "structs"), "rq");
	expect_good(root);
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
	struct lnx_types types = types_of(form);
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

/* --- bad ones --------------------------------------------------------------------------------- */

START_TEST(profile_of_another_version_is_refused)
{
	json_t *versions[] = { NULL,
			       json_integer(0),
			       json_integer(2),
			       json_integer(-1),
			       json_string("1"),
			       json_real(1),
			       json_true(),
			       json_null(),
			       json_integer((json_int_t)1 << 32 | 1) };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		json_t *root = good_profile();

		if (versions[i])
			json_object_set_new(root, "guestshot-profile", versions[i]);
		else
			json_object_del(root, "guestshot-profile");
		expect_bad(root, "is no profile of version 1");
	}
}
END_TEST

START_TEST(each_needed_member_is_named_when_it_is_missing)
{
	uint32_t needed = 0;

	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name name = lnx_member_name((enum lnx_member)m);
		json_t *root = good_profile();
		char path[64], text[128];

		name_of((enum lnx_member)m, false, path, sizeof(path));
		if (!name.needed) {
			json_decref(root);
			continue;
		}
		json_object_del(members_in(root, name.in), path);
		snprintf(text, sizeof(text), "lacks %s.%s", name.in, name.path);
		expect_bad(root, text);
		needed++;
	}
	ck_assert_uint_gt(needed, 15);
}
END_TEST

START_TEST(structures_that_are_missing_are_refused)
{
	static const char *const names[] = { "task_struct", "signal_struct", "pt_regs" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *root = good_profile();
		json_object_del(json_object_get(root, "structs"), names[i]);
		expect_bad(root, names[i]);
		root = good_profile();
		json_object_del(struct_in(root, names[i]), "members");
		expect_bad(root, names[i]);
		root = good_profile();
		json_object_set_new(json_object_get(root, "structs"), names[i], json_array());
		expect_bad(root, names[i]);
	}
	json_t *root = good_profile();
	json_object_del(root, "structs");
	expect_bad(root, "lacks task_struct.");
	root = good_profile();
	json_object_set_new(root, "structs", json_string("all"));
	expect_bad(root, "lacks task_struct.");
}
END_TEST

START_TEST(sizes_of_structures_that_make_no_sense_are_refused)
{
	static const char *const names[] = { "task_struct", "signal_struct", "pt_regs", "rq" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *sizes[] = { NULL,
				    json_integer(0),
				    json_integer(-1),
				    json_integer((1 << 20) + 1),
				    json_integer((json_int_t)1 << 32),
				    json_integer(INT64_MAX),
				    json_integer(INT64_MIN),
				    json_string("4096"),
				    json_real(4096),
				    json_null(),
				    json_array() };

		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			json_t *root = good_profile();

			if (sizes[s])
				json_object_set_new(struct_in(root, names[i]), "size", sizes[s]);
			else
				json_object_del(struct_in(root, names[i]), "size");
			expect_bad(root, names[i]);
		}
	}
}
END_TEST

static const struct {
	const char *offset, *size; /* NULL: none */
} wrong[] = {
	// the structure of each test has 64 bytes
	{ "64", "1" },
	{ "65", "1" },
	{ "60", "8" },
	{ "0", "65" },
	{ "4294967296", "8" },
	{ "4294967295", "8" },
	{ "9223372036854775807", "8" },
	{ "8", "9223372036854775807" },
	{ "-1", "8" },
	{ "-9223372036854775808", "8" },
	{ "8", "-8" },
	{ "8", "0" },
	{ NULL, "8" },
	{ "8", NULL },
	{ NULL, NULL },
	{ "\"8\"", "8" },
	{ "8", "\"8\"" },
	{ "8.0", "8" },
	{ "8", "8.5" },
	{ "true", "8" },
	{ "null", "8" },
	{ "[8]", "8" },
};

static json_t *wrong_place(size_t i)
{
	json_t *place = json_object();

	if (wrong[i].offset)
		json_object_set_new(place, "offset",
				    json_loads(wrong[i].offset, JSON_DECODE_ANY, NULL));
	if (wrong[i].size)
		json_object_set_new(place, "size",
				    json_loads(wrong[i].size, JSON_DECODE_ANY, NULL));
	return place;
}

// For a member that is needed and for one that is not.
START_TEST(places_outside_of_their_structure_are_refused)
{
	static const struct {
		const char *in, *path;
	} members[] = { { "signal_struct", "thread_head" }, { "rq", "cpu" } };

	for (size_t m = 0; m < ARRAY_SIZE(members); m++) {
		for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
			json_t *root = good_profile();
			char text[64];

			json_integer_set(json_object_get(struct_in(root, members[m].in), "size"),
					 64);
			json_object_set_new(members_in(root, members[m].in), members[m].path,
					    wrong_place(i));
			snprintf(text, sizeof(text), "%s.%s is no {\"offset\", \"size\"}",
				 members[m].in, members[m].path);
			expect_bad(root, text);
		}
		json_t *odd[] = { json_integer(8), json_string("8"), json_array(), json_null() };
		for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
			json_t *root = good_profile();

			json_object_set_new(members_in(root, members[m].in), members[m].path,
					    odd[i]);
			expect_bad(root, members[m].path);
		}
	}
}
END_TEST

START_TEST(places_of_per_cpu_variables_that_make_no_sense_are_refused)
{
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		for (size_t i = 4; i < ARRAY_SIZE(wrong); i++) {
			json_t *root = good_profile();
			char text[64];

			json_object_set_new(json_object_get(root, "percpu"),
					    lnx_percpu_name((enum lnx_percpu)p), wrong_place(i));
			snprintf(text, sizeof(text), "per-CPU %s is no {\"offset\", \"size\"}",
				 lnx_percpu_name((enum lnx_percpu)p));
			expect_bad(root, text);
		}
	}
}
END_TEST

#define BAD(text, why) expect_bad_text((text), sizeof(text) - 1, (why))

START_TEST(what_is_not_json_is_refused_with_its_line)
{
	BAD("", "line 1: ");
	BAD("\n\n\n", "line 4: ");
	BAD("{", "line 1: ");
	BAD("{}}", "line 1: ");
	BAD("{} {}", "line 1: ");
	BAD("1", "line 1: ");
	BAD("\"guestshot-profile\"", "line 1: ");
	BAD("{\n\"guestshot-profile\": 1,\n}", "line 3: ");
	BAD("{\"guestshot-profile\": 01}", "line 1: ");
	BAD("{\"guestshot-profile\": 1} // x", "line 1: ");
	BAD("{\"guestshot-profile\": 99999999999999999999}", "line 1: ");
	BAD("{\"guestshot-profile\": 1, \"a\\u0000b\": 1}", "line 1: ");
	BAD("{\"guestshot-profile\": 1, \"\xff\": 1}", "line 1: ");
	BAD("{\"guestshot-profile\": 1}\0", "line 1: ");
	BAD("\x7f"
	    "ELF\2\1\1",
	    "line 1: ");
	BAD("[]", "is no profile of version 1");
	BAD("[{\"guestshot-profile\": 1}]", "is no profile of version 1");
	BAD("{}", "is no profile of version 1");
}
END_TEST

// At each level: a reader that took the first would read another profile than one that took the last.
START_TEST(keys_that_are_there_twice_are_refused)
{
	BAD("{\"guestshot-profile\": 1, \"guestshot-profile\": 1}", "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {}, \"rq\": {}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {\"size\": 1, \"size\": 2}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {\"members\": {\"a\": {}, \"a\": "
	    "{}}}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"percpu\": {\"a\": {\"offset\": 1, \"offset\": 1}}}",
	    "duplicate object key");
}
END_TEST

START_TEST(profiles_that_are_cut_off_are_refused)
{
	json_t *root = good_profile();
	char *text = json_dumps(root, JSON_INDENT(1));
	const size_t size = strlen(text);

	for (size_t cut = 0; cut < size; cut += cut + 200 < size ? 37 : 1)
		expect_bad_text(text, cut, "line ");
	ck_assert_msg(open_text(text, size) == GS_OK, "%s", err.text);
	lnx_profile_destroy(profile);
	free(text);
	json_decref(root);
}
END_TEST

START_TEST(nesting_without_end_is_refused)
{
	static char text[1 << 20];

	memset(text, '[', sizeof(text));
	expect_bad_text(text, sizeof(text), "line 1: ");
	for (size_t i = 0; i + 5 <= sizeof(text); i += 5)
		memcpy(text + i, "{\"a\":", 5);
	expect_bad_text(text, sizeof(text), "line 1: ");
}
END_TEST

START_TEST(files_larger_than_any_profile_are_refused)
{
	json_t *root = good_profile();
	char *text = json_dumps(root, 0);
	struct image_file f = image_file_make(text, strlen(text));
	static char blanks[4096];

	memset(blanks, ' ', sizeof(blanks));
	for (off_t at = (off_t)strlen(text); at < 1 << 20; at += (off_t)sizeof(blanks))
		ck_assert_int_ge(pwrite(f.fd, blanks, sizeof(blanks), at), 0);
	ck_assert_int_eq(ftruncate(f.fd, 1 << 20), 0);
	ck_assert_msg(lnx_profile_open(f.path, &profile, &err) == GS_OK, "%s", err.text);
	lnx_profile_destroy(profile);
	ck_assert_int_eq(pwrite(f.fd, " ", 1, 1 << 20), 1);
	ck_assert_int_eq(lnx_profile_open(f.path, &profile, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "not a file of up to 1024 KiB"));
	image_file_close(&f);
	free(text);
	json_decref(root);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	int ends[2];
	char path[32];

	ck_assert_int_eq(lnx_profile_open("/no/such/file", &profile, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "profile /no/such/file: "));
	ck_assert_int_eq(lnx_profile_open("/proc", &profile, &err), GS_EMALFORMED);
	ck_assert_int_eq(lnx_profile_open("/dev/zero", &profile, &err), GS_EMALFORMED);
	ck_assert_int_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	ck_assert_int_eq(lnx_profile_open(path, &profile, &err), GS_EMALFORMED);
	close(ends[0]);
	close(ends[1]);
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
	tcase_add_test(tc, profile_of_another_version_is_refused);
	tcase_add_test(tc, each_needed_member_is_named_when_it_is_missing);
	tcase_add_test(tc, structures_that_are_missing_are_refused);
	tcase_add_test(tc, sizes_of_structures_that_make_no_sense_are_refused);
	tcase_add_test(tc, places_outside_of_their_structure_are_refused);
	tcase_add_test(tc, places_of_per_cpu_variables_that_make_no_sense_are_refused);
	tcase_add_test(tc, what_is_not_json_is_refused_with_its_line);
	tcase_add_test(tc, keys_that_are_there_twice_are_refused);
	tcase_add_test(tc, profiles_that_are_cut_off_are_refused);
	tcase_add_test(tc, nesting_without_end_is_refused);
	tcase_add_test(tc, files_larger_than_any_profile_are_refused);
	tcase_add_test(tc, what_is_no_file_is_refused);
	suite_add_tcase(s, tc);
	return s;
}
