/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that lack something: each says what, and where. */
#include <string.h>

#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define NODE(member) offsetof(struct lg_task, member)

/* Everything but what is missing must be there all the same. */
static void expect_others(const int32_t *tids)
{
	for (; *tids; tids++)
		ck_assert_msg(view_has_thread(&view, *tids), "no thread %d", *tids);
}

#define OTHERS(...) expect_others((const int32_t[]){ __VA_ARGS__, 0 })

static const struct ss_missing_record *expect_one(enum ss_missing what)
{
	ck_assert(!result.complete);
	ck_assert_uint_eq(view.missing_count, 1);
	return view_missing(&view, what, 0);
}

START_TEST(guest_without_a_kernel_gives_its_registers)
{
	session_end();
	session_make(&(struct lg_form){ .no_table = true, .vcpus = 3 });
	guest.m.regs[1].x[7] = 77;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_KERNEL);
	ck_assert_ptr_nonnull(strstr(m->reason, "no kernel symbol table in guest memory"));
	ck_assert_int_eq(m->pid, -1);
	ck_assert_int_eq(m->tid, -1);
	ck_assert_uint_eq(result.tasks, 0);
	ck_assert_uint_eq(result.threads, 0);
	ck_assert_uint_eq(view.vcpus, 3);
	ck_assert_uint_eq(view.vcpu[1].x[7], 77);
	ck_assert_uint_eq(view.vcpu[1].state, SS_VCPU_KERNEL);
	ck_assert_int_eq(view.vcpu[1].pid, -1);
	ck_assert_uint_eq(view.guest.kernel_text, 0);
	ck_assert_str_eq(view.banner, "");
	// so does a request for one process: nothing is known of it
	ck_assert_int_eq(session_capture(100), GS_OK);
	ck_assert(!result.complete);
}
END_TEST

START_TEST(kernel_that_comes_later_is_found_later)
{
	uint8_t *table = lg_image(&guest, LG_KALLSYMS), last[512];

	memcpy(last, table + guest.symtab.token_index, 512);
	memset(table + guest.symtab.token_index, 0, 512);
	session_capture_all();
	ck_assert(!result.complete);
	memcpy(table + guest.symtab.token_index, last, 512);
	session_capture_all();
	ck_assert(result.complete);
}
END_TEST

START_TEST(loop_in_the_list_of_processes_is_said)
{
	// 1 -> 2 -> 100 -> 2
	guest.threads[2].task->tasks.next = guest.threads[1].address + NODE(tasks);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASKS);
	ck_assert_ptr_nonnull(strstr(m->reason, "breaks off after 3: loop"));
	ck_assert_uint_eq(m->address, guest.threads[2].address);
	ck_assert_uint_eq(result.tasks, 3);
	OTHERS(1, 2, 100, 101, 102);
	ck_assert(!view_has_thread(&view, 200));
}
END_TEST

START_TEST(list_of_processes_that_leaves_memory_is_said)
{
	guest.threads[1].task->tasks.next = 0x1230;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASKS);
	ck_assert_ptr_nonnull(strstr(m->reason, "breaks off after 2: "));
	OTHERS(1, 2);
	ck_assert_uint_eq(result.tasks, 2);
}
END_TEST

START_TEST(loop_in_a_list_of_threads_is_said)
{
	guest.threads[4].task->thread_node.next = guest.threads[3].address + NODE(thread_node);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_THREADS);
	ck_assert_ptr_nonnull(strstr(m->reason, "the threads of worker break off after 3: loop"));
	ck_assert_int_eq(m->pid, 100);
	ck_assert_uint_eq(m->address, guest.threads[2].signal_address);
	OTHERS(1, 2, 100, 101, 102, 200);
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 3);
}
END_TEST

START_TEST(signal_structure_that_is_none_is_said)
{
	guest.threads[2].task->signal = 12;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_THREADS);
	ck_assert_int_eq(m->pid, 100);
	ck_assert_uint_eq(view_task(&view, 100)->count, 0);
	OTHERS(1, 2, 200);
}
END_TEST

START_TEST(task_that_is_none_is_said)
{
	memset(guest.threads[4].task->comm, 'x', 16);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASK);
	ck_assert_int_eq(m->pid, 100);
	ck_assert_uint_eq(m->address, guest.threads[4].address);
	ck_assert_ptr_nonnull(strstr(m->reason, "a thread of worker could not be read: malformed"));
	OTHERS(1, 2, 100, 101, 200);
	ck_assert(!view_has_thread(&view, 102));
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 3);
}
END_TEST

// Nobody can say that it is not there.
START_TEST(one_process_that_was_not_seen_may_be_there)
{
	guest.threads[5].task->pid = -5;
	ck_assert_int_eq(session_capture(4711), GS_OK);
	(void)expect_one(SS_MISSING_TASK);
	ck_assert_uint_eq(result.tasks, 0);
	ck_assert_int_eq(session_capture(100), GS_OK);
	ck_assert_uint_eq(result.tasks, 1);
	guest.threads[5].task->pid = 200;
	ck_assert_int_eq(session_capture(4711), GS_ENOENT);
	guest.threads[1].task->tasks.next = 0x1230;
	ck_assert_int_eq(session_capture(4711), GS_OK);
	(void)expect_one(SS_MISSING_TASKS);
}
END_TEST

START_TEST(leader_that_is_none_is_said)
{
	guest.threads[5].task->pid = -5;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASK);
	ck_assert_int_eq(m->pid, -1);
	ck_assert_uint_eq(m->address, guest.threads[5].address);
	ck_assert_ptr_nonnull(strstr(m->reason, "a process could not be read"));
	OTHERS(1, 2, 100, 101, 102);
}
END_TEST

START_TEST(thread_of_another_process_in_the_list_is_said)
{
	guest.threads[4].task->tgid = 1;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASK);
	ck_assert_ptr_nonnull(strstr(m->reason, "it belongs to another process"));
	ck_assert(!view_has_thread(&view, 102));
}
END_TEST

// X16: what claims to be idle must not hide among the idle threads.
START_TEST(process_that_claims_to_be_the_idle_task_is_said)
{
	guest.threads[5].task->tgid = 0;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_TASK);
	ck_assert_str_eq(m->reason, "a process could not be read: it claims to be the idle task");
	ck_assert_uint_eq(m->address, guest.threads[5].address);
	ck_assert_uint_eq(view_task(&view, 0)->count, 2);
	guest.threads[5].task->tgid = 200;
	guest.threads[4].task->pid = 0;
	session_capture_all();
	m = expect_one(SS_MISSING_TASK);
	ck_assert_str_eq(m->reason,
			 "a thread of worker could not be read: it claims to be an idle thread");
	ck_assert_uint_eq(m->address, guest.threads[4].address);
}
END_TEST

START_TEST(task_on_a_page_that_is_gone_is_said)
{
	// a page of its own
	struct lg_thread *t = lg_add_process(&guest, 300, "gone");
	if (guest.next_half == 0)
		t = lg_add_process(&guest, 301, "gone too");
	lg_unmap(&guest, t->address);
	session_capture_all();
	ck_assert(!result.complete);
	ck_assert_uint_ge(view_count_missing(&view, SS_MISSING_TASK), 1);
	OTHERS(1, 2, 100, 101, 102, 200);
	ck_assert_uint_gt(view.times.faults[A64_NOT_MAPPED], 0);
}
END_TEST

START_TEST(broken_stack_is_said_and_costs_itself_only)
{
	struct lg_thread *t = &guest.threads[4];

	// the record of futex_wait leads below the stack
	*lg_word(&guest, t->fp + 0x40) = t->stack - 64;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_STACK);
	ck_assert_str_eq(m->reason, "kernel stack ends after 3 frames: bad frame pointer");
	ck_assert_int_eq(m->pid, 100);
	ck_assert_int_eq(m->tid, 102);
	ck_assert_uint_eq(m->address, t->stack - 64);
	ck_assert_uint_eq(view_thread(&view, 102)->frames.count, 3);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end, LNX_END_BAD_RECORD);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end_at, t->stack - 64);
	OTHERS(1, 2, 100, 101, 200);
}
END_TEST

START_TEST(stack_on_a_page_that_is_gone_is_said)
{
	lg_unmap(&guest, guest.threads[4].stack + LG_STACK - 0x1000);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_STACK);
	ck_assert_str_eq(m->reason, "kernel stack ends after 1 frames: unreadable frame record");
}
END_TEST

START_TEST(stack_with_too_many_frames_is_said_to_be_cut)
{
	struct lg_thread *t = &guest.threads[4];
	uint64_t lr = lg_in(&guest, "vfs_read");

	// 1010 records: fewer than an unwinder takes, more than a record of a stack
	for (uint64_t at = 0; at < 1010 * 16; at += 16) {
		uint64_t record[2] = { t->stack + at + 16, lr };

		if (at == 1009 * 16)
			record[0] = t->stack + LG_TOP;
		memcpy(t->stack_bytes + at, record, 16);
	}
	t->task->fp = t->stack;
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_STACK);
	ck_assert_str_eq(m->reason, "kernel stack ends after 1000 frames: too many frames");
	ck_assert_uint_eq(view_thread(&view, 102)->frames.count, 1000);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end, LNX_END_TRUNCATED);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end_at, lr);
}
END_TEST

START_TEST(vcpu_that_executes_nothing_known_is_said)
{
	session_capture_all(); // the kernel is known
	guest.m.regs[0].sp_el0 = 0;
	memset(guest.cpu[0].bytes + LG_PERCPU_ENTRY_TASK, 0, 8);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_CURRENT);
	ck_assert_ptr_nonnull(strstr(m->reason, "what vCPU 0 executes is not known"));
	ck_assert_int_eq(view.vcpu[0].tid, -1);
	ck_assert_uint_eq(view.vcpu[0].state, SS_VCPU_KERNEL);
	// its stack is read as that of a thread that does not run
	ck_assert_int_eq(view_thread(&view, 101)->r.vcpu, -1);
}
END_TEST

START_TEST(registers_that_cannot_be_had_are_said)
{
	session_capture_all();
	guest.deaf = 1;
	session_capture_all();
	ck_assert(!result.complete);
	ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_CURRENT), 1);
	// what runs, on which vCPU is not known: no stack rather than that of an earlier sleep
	ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_STACK), view.missing_count - 1);
	ck_assert_ptr_nonnull(strstr(view_missing(&view, SS_MISSING_STACK, 0)->reason,
				     "its registers are not known"));
	ck_assert_uint_eq(view.vcpu[0].state, SS_VCPU_UNKNOWN);
	ck_assert_uint_eq(view.vcpu[0].known, 0);
	guest.deaf = 3;
	session_capture_all();
	ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_CURRENT), 2);
	OTHERS(1, 2, 100, 101, 102, 200);
}
END_TEST

START_TEST(idle_thread_that_is_not_found_is_said)
{
	session_capture_all();
	memset(guest.cpu[1].bytes + LG_PERCPU_RUNQUEUES, 0, sizeof(struct lg_rq));
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_IDLE);
	ck_assert_ptr_nonnull(strstr(m->reason, "idle thread of vCPU 1"));
	ck_assert_uint_eq(view_task(&view, 0)->count, 1);
}
END_TEST

START_TEST(init_task_that_became_unreadable_is_said)
{
	session_capture_all();
	lg_unmap(&guest, guest.init.address);
	session_capture_all();
	ck_assert(!result.complete);
	ck_assert_str_eq(view_missing(&view, SS_MISSING_TASK, 0)->reason,
			 "init_task could not be read");
	ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_TASKS), 1);
	ck_assert_uint_eq(view.tasks, 0);
}
END_TEST

START_TEST(parent_that_cannot_be_read_is_not_known)
{
	guest.threads[5].task->real_parent = LG_LINEAR + guest.ram_size;
	session_capture_all();
	ck_assert_int_eq(view_task(&view, 200)->r.ppid, -1);
	ck_assert_int_eq(view_task(&view, 1)->r.ppid, 0);
}
END_TEST

// The last record of a full list says how many more things there are.
START_TEST(more_missing_things_than_are_listed_are_counted)
{
	struct lg_thread *leader = lg_add_process(&guest, 300, "many");
	const uint32_t bad[] = { 255, 256, 257, 300 };

	for (int32_t i = 1; i < 300; i++)
		lg_add_light_thread(&guest, leader, 300 + i, leader);
	for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
		// leader included
		for (uint32_t i = 0; i < bad[k]; i++)
			guest.threads[6 + i].task->pc = 0;
		session_capture_all();
		ck_assert(!result.complete);
		ck_assert_uint_eq(result.threads, 306);
		ck_assert_uint_eq(view.missing_count, bad[k] < 256 ? bad[k] : 256);
		const struct ss_missing_record *last = &view.missing[view.missing_count - 1];
		if (bad[k] <= 256) {
			ck_assert_uint_eq(last->what, SS_MISSING_STACK);
		} else {
			ck_assert_uint_eq(last->what, SS_MISSING_MORE);
			ck_assert_uint_eq(last->count, bad[k] - 255);
			ck_assert_int_eq(last->pid, -1);
			ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_STACK), 255);
		}
	}
}
END_TEST

/* --- the kernel is replaced ------------------------------------------------------------------- */

START_TEST(kernel_that_was_replaced_is_found_again)
{
	uint8_t *table = lg_image(&guest, LG_KALLSYMS);
	struct symtab_form form = { .style = 'B', .seqs = true };

	session_capture_all();
	// the tables in another style: as another kernel would have them
	struct symtab t = symtab_make(guest.symbols, guest.symbol_count, &form);
	memset(table, 0, guest.symtab.size);
	memcpy(table + 0x100, t.data, t.size);
	symtab_free(&t);
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_eq(result.tries, 2);
	ck_assert_uint_eq(view.tasks, 5);
	session_capture_all();
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(kernel_that_is_gone_is_said)
{
	session_capture_all();
	memset(lg_image(&guest, LG_KALLSYMS), 0, guest.symtab.size);
	session_capture_all();
	const struct ss_missing_record *m = expect_one(SS_MISSING_KERNEL);
	ck_assert_ptr_nonnull(strstr(m->reason, "no kernel symbol table"));
	ck_assert_str_eq(view.banner, "");
	ck_assert_uint_eq(view.guest.symbols, 0);
}
END_TEST

/* Changes a token that no name needs at each stop: also between the search and the capture. */
static enum gs_code replace_always(struct linux_guest *g, uint32_t nth)
{
	const uint8_t *own = memmem(g->symtab.data + g->symtab.token_table, 256, "write", 6);
	uint8_t *proof = lg_image(g, LG_KALLSYMS + (uint64_t)(own - g->symtab.data));

	(void)nth;
	proof[0] ^= 'w' ^ 'W';
	return GS_OK;
}

START_TEST(kernel_that_is_replaced_again_and_again_is_said)
{
	session_capture_all();
	guest.on_stop = replace_always;
	session_capture_all();
	ck_assert(!result.complete);
	ck_assert_ptr_nonnull(
		strstr(view_missing(&view, SS_MISSING_KERNEL, 0)->reason, "no longer in memory"));
	ck_assert_uint_le(result.tries, 4);
	ck_assert_uint_eq(view.tasks, 0);
	guest.on_stop = NULL;
	session_capture_all();
	ck_assert(result.complete);
}
END_TEST

/* --- stop and resume -------------------------------------------------------------------------- */

static enum gs_code stop_code;
static uint32_t stop_nth;

static enum gs_code fail_nth(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	return nth == stop_nth ? stop_code : GS_OK;
}

static const enum gs_code stop_codes[] = { GS_EBUSY, GS_ETIMEDOUT, GS_ESYS, GS_ENOENT, GS_ENOSPC };

START_TEST(guest_that_cannot_be_stopped_is_a_failure_that_says_so)
{
	for (size_t i = 0; i < ARRAY_SIZE(stop_codes); i++) {
		// the stop for the registers of the search, that for the capture, that of later ones
		for (stop_nth = 1; stop_nth <= 3; stop_nth++) {
			guest.on_stop = NULL;
			if (stop_nth == 3)
				session_capture_all();
			guest.stops = stop_nth == 3 ? 2 : 0;
			guest.on_stop = fail_nth;
			stop_code = stop_codes[i];
			ck_assert_int_eq(session_capture(SS_PID_ALL), stop_codes[i]);
			ck_assert_msg(strstr(error.text, "the test says no"), "%s", error.text);
			ck_assert_uint_eq(guest.stops, stop_nth);
			guest.on_stop = NULL;
			session_capture_all();
			ck_assert(result.complete);
			session_end();
			session_setup();
		}
	}
}
END_TEST

START_TEST(guest_that_cannot_be_resumed_is_a_failure_that_says_so)
{
	for (size_t i = 0; i < ARRAY_SIZE(stop_codes); i++) {
		for (stop_nth = 1; stop_nth <= 2; stop_nth++) {
			guest.resumes = 0;
			guest.on_resume = fail_nth;
			stop_code = stop_codes[i];
			ck_assert_int_eq(session_capture(SS_PID_ALL), stop_codes[i]);
			ck_assert_msg(strstr(error.text, "the test says no"), "%s", error.text);
			guest.on_resume = NULL;
			session_capture_all();
			session_end();
			session_setup();
		}
	}
}
END_TEST

/* With one worker, and with three: nothing is different. */
static void setup_three(void)
{
	session_options.workers = 3;
	session_setup();
}

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, guest_without_a_kernel_gives_its_registers);
	tcase_add_test(tc, kernel_that_comes_later_is_found_later);
	tcase_add_test(tc, loop_in_the_list_of_processes_is_said);
	tcase_add_test(tc, list_of_processes_that_leaves_memory_is_said);
	tcase_add_test(tc, loop_in_a_list_of_threads_is_said);
	tcase_add_test(tc, signal_structure_that_is_none_is_said);
	tcase_add_test(tc, task_that_is_none_is_said);
	tcase_add_test(tc, one_process_that_was_not_seen_may_be_there);
	tcase_add_test(tc, leader_that_is_none_is_said);
	tcase_add_test(tc, thread_of_another_process_in_the_list_is_said);
	tcase_add_test(tc, process_that_claims_to_be_the_idle_task_is_said);
	tcase_add_test(tc, task_on_a_page_that_is_gone_is_said);
	tcase_add_test(tc, broken_stack_is_said_and_costs_itself_only);
	tcase_add_test(tc, stack_on_a_page_that_is_gone_is_said);
	tcase_add_test(tc, stack_with_too_many_frames_is_said_to_be_cut);
	tcase_add_test(tc, vcpu_that_executes_nothing_known_is_said);
	tcase_add_test(tc, registers_that_cannot_be_had_are_said);
	tcase_add_test(tc, idle_thread_that_is_not_found_is_said);
	tcase_add_test(tc, init_task_that_became_unreadable_is_said);
	tcase_add_test(tc, parent_that_cannot_be_read_is_not_known);
	tcase_add_test(tc, more_missing_things_than_are_listed_are_counted);
	tcase_add_test(tc, kernel_that_was_replaced_is_found_again);
	tcase_add_test(tc, kernel_that_is_gone_is_said);
	tcase_add_test(tc, kernel_that_is_replaced_again_and_again_is_said);
	tcase_add_test(tc, guest_that_cannot_be_stopped_is_a_failure_that_says_so);
	tcase_add_test(tc, guest_that_cannot_be_resumed_is_a_failure_that_says_so);
}

Suite *suite_incomplete(void)
{
	Suite *s = suite_create("incomplete");
	TCase *one = tcase_create("one worker"), *three = tcase_create("three workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(three, 300);
	tcase_add_checked_fixture(one, session_setup, session_end);
	tcase_add_checked_fixture(three, setup_three, session_end);
	add_tests(one);
	add_tests(three);
	suite_add_tcase(s, one);
	suite_add_tcase(s, three);
	return s;
}
