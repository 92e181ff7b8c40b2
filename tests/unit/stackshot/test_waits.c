/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for, in captures. */
#include "base/util.h"
#include "tests/unit/stackshot/picture.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/trap.h"

static struct lg_thread *owner, *first, *second;
static uint64_t mutex;

static void setup(void)
{
	lg_create(&guest, &(struct lg_form){ .seqs = true });
	lg_populate(&guest);
	owner = lg_add_process(&guest, 300, "owner");
	first = lg_add_process(&guest, 301, "first");
	second = lg_add_thread(&guest, first, 302, "second");
	mutex = lg_mutex_make(&guest, owner->address | 1);
	lg_mutex_wait(&guest, mutex, first);
	lg_mutex_wait(&guest, mutex, second);
	session_begin();
}

static struct ss_request asking(void)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.flags = KCD_SS_REQ_THREAD_WAITINFO;
	return q;
}

static void capture(void)
{
	const struct ss_request q = asking();

	ck_assert_msg(session_capture_with(&q) == GS_OK, "%s", error.text);
	ck_assert(result.complete);
}

static void expect_wait(int32_t tid)
{
	const struct view_thread *t = view_thread(&view, tid);
	struct ss_wait_record r = { 0 };
	struct kcd_thread_waitinfo_v2 info = { 0 };

	ck_assert_uint_eq(t->waits.count, 1);
	kcd_item_copy_elem(&t->waits, 0, &r, sizeof(r));
	ck_assert_uint_eq(r.kind, LNX_WAIT_MUTEX);
	ck_assert_int_eq(r.owner_tid, 300);
	ck_assert_uint_eq(r.owner, view_thread(&view, 300)->id);
	ck_assert_uint_eq(r.object, mutex);
	ck_assert_uint_eq(r.extra, owner->address | 1);
	ck_assert_uint_eq(t->waitinfo.count, 1);
	kcd_item_copy_elem(&t->waitinfo, 0, &info, sizeof(info));
	ck_assert_uint_eq(info.owner, r.owner);
	ck_assert_uint_eq(info.waiter, t->id);
	ck_assert_uint_eq(info.context, mutex);
	ck_assert_uint_eq(info.wait_type, KCD_WAIT_KERNEL_MUTEX);
}

START_TEST(threads_have_what_they_wait_for)
{
	capture();
	ck_assert_uint_eq(view.out_flags, KCD_SS_REQ_THREAD_WAITINFO | KCD_SS_KCDATA_FORMAT);
	expect_wait(301);
	expect_wait(302);
	ck_assert_uint_eq(view_thread(&view, 300)->waits.count, 0);
	ck_assert_uint_eq(view_thread(&view, 300)->waitinfo.count, 0);
}
END_TEST

START_TEST(nothing_of_it_is_recorded_unasked)
{
	session_capture_all();
	ck_assert_uint_eq(view.out_flags, KCD_SS_KCDATA_FORMAT);
	ck_assert_uint_eq(view_thread(&view, 301)->waits.count, 0);
	ck_assert_uint_eq(view_thread(&view, 301)->waitinfo.count, 0);
}
END_TEST

START_TEST(mutex_without_an_owner_names_nobody)
{
	struct ss_wait_record r = { 0 };

	*lg_word(&guest, mutex + offsetof(struct lg_mutex, owner)) = 1;
	capture();
	kcd_item_copy_elem(&view_thread(&view, 301)->waits, 0, &r, sizeof(r));
	ck_assert_uint_eq(r.kind, LNX_WAIT_MUTEX);
	ck_assert_int_eq(r.owner_tid, -1);
	ck_assert_uint_eq(r.owner, 0);
}
END_TEST

START_TEST(executed_thread_waits_for_nothing)
{
	lg_run(&guest, 1, first, lg_symbol(&guest, "pipe_read") + 0x40);
	capture();
	ck_assert_uint_eq(view_thread(&view, 301)->waits.count, 0);
	expect_wait(302);
}
END_TEST

START_TEST(function_that_wakes_has_its_name)
{
	const uint64_t queue = lg_object(&guest), at = lg_slot(owner, 0);
	const uint64_t func = lg_symbol(&guest, "autoremove_wake_function");
	struct ss_wait_record r = { 0 };
	uint32_t named = 0;

	lg_list_init(&guest, queue + offsetof(struct lg_wait_head, head));
	lg_sleep(&guest, owner, "pipe_read");
	*lg_word(&guest, at + offsetof(struct lg_wait_entry, private)) = owner->address;
	*lg_word(&guest, at + offsetof(struct lg_wait_entry, func)) = func;
	lg_list_add(&guest, queue + offsetof(struct lg_wait_head, head),
		    at + offsetof(struct lg_wait_entry, entry));
	capture();
	kcd_item_copy_elem(&view_thread(&view, 300)->waits, 0, &r, sizeof(r));
	ck_assert_uint_eq(r.kind, LNX_WAIT_QUEUE);
	ck_assert_uint_eq(r.object, queue);
	ck_assert_uint_eq(r.extra, func);
	// the original has no type for it
	ck_assert_uint_eq(view_thread(&view, 300)->waitinfo.count, 0);
	for (uint32_t i = 0; i < view.symbols; i++)
		named += view.symbol[i].start == func;
	ck_assert_uint_eq(named, 1);
}
END_TEST

START_TEST(any_number_of_workers_finds_the_same)
{
	struct picture one = { 0 }, more = { 0 };
	const struct ss_request q = asking();

	for (uint32_t n = 1; n <= 4; n += 3) {
		session_options.workers = n;
		session_restart();
		ck_assert_int_eq(session_capture_only(&q), GS_OK);
		ck_assert(picture_take(&result, n == 1 ? &one : &more));
	}
	ck_assert(picture_is(&one, &more));
	picture_drop(&one);
	picture_drop(&more);
}
END_TEST

static enum gs_code set_trap(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_arm();
	return GS_OK;
}

static enum gs_code clear_trap(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_set = false;
	return GS_OK;
}

START_TEST(nothing_is_allocated_or_locked_while_it_is_looked_for)
{
	const struct ss_request q = asking();

	trap_reset();
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	guest.on_stop = set_trap;
	guest.on_resume = clear_trap;
	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(session_capture_only(&q), GS_OK);
		ck_assert_msg(trap_calls == 0, "%s while the guest was stopped", trap_first);
	}
	view_read(&view, &result);
	expect_wait(302);
}
END_TEST

static void teardown(void)
{
	trap_reset();
	session_end();
}

Suite *suite_waits(void)
{
	Suite *s = suite_create("waits");
	TCase *tc = tcase_create("waits");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, threads_have_what_they_wait_for);
	tcase_add_test(tc, nothing_of_it_is_recorded_unasked);
	tcase_add_test(tc, mutex_without_an_owner_names_nobody);
	tcase_add_test(tc, executed_thread_waits_for_nothing);
	tcase_add_test(tc, function_that_wakes_has_its_name);
	tcase_add_test(tc, any_number_of_workers_finds_the_same);
	tcase_add_test(tc, nothing_is_allocated_or_locked_while_it_is_looked_for);
	suite_add_tcase(s, tc);
	return s;
}
