/* SPDX-License-Identifier: Apache-2.0 */
/* The view for people. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/user_memory.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

static char *text;

static void show(bool group)
{
	free(text);
	sample_take();
	sample_load();
	sample_show_all();
	text = sample_text(group);
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static void has(const char *line)
{
	sample_has(text, line);
}

static uint32_t count(const char *line)
{
	uint32_t n = 0;

	for (const char *at = text; (at = strstr(at, line)); at++)
		n++;
	return n;
}

START_TEST(text_shows_guest_vcpus_processes_and_stacks)
{
	show(false);
	has("memory guest, 2 vCPUs in 1 cluster, ");
	has("\nLinux version 6.1.0-made-up (someone@somewhere) #1 SMP\n");
	has("\n4 processes, 6 threads; guest stopped for ");
	has("\nvCPU 0 (cluster 0): thread 101 (runner) in kernel mode, pc 0x");
	has("\nvCPU 1 (cluster 0): idle\n");
	has("\nprocess 100 worker, parent 0, 3 threads\n");
	has("\n  thread 101 runner: on vCPU 0\n    pipe_read+0x40/0x200\n    "
	    "vfs_read+0x14/0x200\n");
	has("\n  thread 102 waiter: D (disk sleep)\n");
	has("\n    futex_wait+0x14/0x200\n    el0_svc+0x14/0x200\n    el0t_64_sync+0x14/0x200\n");
	has("\n  thread 200 zombie: Z (zombie)\n    (no stack)\n");
	has("\nprocess 0 swapper, 2 threads\n");
	ck_assert_ptr_null(strstr(text, "NOT complete"));
	// the idle task last
	ck_assert_ptr_null(strstr(strstr(text, "\nprocess 0 "), "\nprocess 1"));
}
END_TEST

START_TEST(text_says_first_what_is_missing)
{
	guest.threads[4].task->pc = 0;
	memset(guest.threads[5].task->comm, 'x', 16);
	show(false);
	has("\nThis capture is NOT complete:\n");
	has("\n  stack of thread 102: kernel stack ends after 0 frames: return address outside of "
	    "kernel text\n");
	has("\n  task: a process could not be read: malformed (at 0xffff");
	ck_assert(strstr(text, "NOT complete") < strstr(text, "vCPU 0"));
	has("    (return address outside of kernel text)\n");
}
END_TEST

START_TEST(text_of_a_guest_without_a_kernel_shows_registers)
{
	memset(lg_image(&guest, LG_KALLSYMS), 0, guest.symtab.size);
	show(false);
	has("\n  kernel: no kernel symbol table in guest memory");
	has("\nvCPU 0 (cluster 0): kernel mode, pc 0xffff");
	has("\n0 processes, 0 threads");
}
END_TEST

START_TEST(vcpus_in_other_states_are_shown)
{
	lg_run_user(&guest, 0, &guest.threads[3], false);
	guest.m.regs[1].state = GUEST_VCPU_OFF;
	show(false);
	has("\nvCPU 0 (cluster 0): thread 101 (runner) in user mode, pc 0xaaaab0001234\n");
	has("\nvCPU 1 (cluster 0): off\n");
	has("\n  thread 101 runner: on vCPU 0\n    (in user mode)\n");
}
END_TEST

// X11: a guest's strings must not drive the terminal; sample_show_all() checks every byte.
START_TEST(strings_of_the_guest_are_escaped)
{
	static const char nasty[] = "\x1b]0;x\x07\r\n\x7f\xc3\xa9\\\x9b";

	memcpy(guest.threads[4].task->comm, nasty, sizeof(nasty));
	memcpy(guest.threads[2].task->comm, "\x1b[2J\xff\xfe", 7);
	memcpy(lg_image(&guest, LG_BANNER + 20), "\x1b[31mred\x1b[0m\t\xff", 14);
	for (int group = 0; group < 2; group++) {
		show(group);
		has("thread 102 \\x1b]0;x\\x07\\x0d\\x0a\\x7f\\xc3\\xa9\\\\\\x9b" +
		    (group ? 7 : 0));
		has("\\x1b[31mred\\x1b[0m\\x09\\xff");
	}
	show(false);
	has("process 100 \\x1b[2J\\xff\\xfe");
}
END_TEST

START_TEST(symbols_of_the_guest_are_escaped)
{
	struct symtab_form form = { .style = 'A' };
	char name[8] = "vfs_re";

	// in the table itself: the token for 'q' stands for an escape
	symtab_free(&guest.symtab);
	for (uint32_t i = 0; i < guest.symbol_count; i++)
		if (strcmp(guest.symbols[i].name, "futex_wait") == 0)
			guest.symbols[i].name = strcat(name, "q");
	guest.symtab = symtab_make(guest.symbols, guest.symbol_count, &form);
	uint8_t *tokens = guest.symtab.data + guest.symtab.token_table;
	uint16_t q;
	memcpy(&q, guest.symtab.data + guest.symtab.token_index + 2 * 'q', 2);
	ck_assert_int_eq(tokens[q], 'q');
	tokens[q] = 0x1b;
	memset(lg_image(&guest, LG_KALLSYMS), 0, 0x10000);
	memcpy(lg_image(&guest, LG_KALLSYMS), guest.symtab.data, guest.symtab.size);
	show(false);
	has("\n    vfs_re\\x1b+0x14/0x200\n");
}
END_TEST

// W07, U10: equal stacks once, with their number; a cut one is not equal to a whole one.
START_TEST(equal_stacks_are_shown_once_with_their_number)
{
	struct lg_thread *t = lg_add_process(&guest, 300, "pool");
	const char *const stack[] = { "el0t_64_sync", "el0_svc", "pipe_read", NULL };

	lg_block(&guest, t, stack);
	for (int32_t i = 1; i < 12; i++)
		lg_block(&guest, lg_add_thread(&guest, &guest.threads[6], 300 + i, "pool"), stack);
	lg_block(&guest, lg_add_process(&guest, 400, "other"), stack);
	// the same frames, but it does not end well
	t = lg_add_process(&guest, 401, "broken");
	lg_block(&guest, t, stack);
	*lg_word(&guest, t->stack + LG_STACK - LG_REGS_SIZE - 0x40) = 8;
	// the same frames in another state
	t = lg_add_process(&guest, 402, "stuck");
	lg_block(&guest, t, stack);
	t->task->state = 2;
	show(true);
	has("\n13 threads, sleeping: 300 pool, 301 pool, 302 pool, 303 pool, 304 pool, 305 pool, "
	    "306 pool, 307 pool and 5 more\n");
	has("\n1 thread, sleeping: 401 broken\n");
	has("\n1 thread, disk sleep: 402 stuck\n");
	has("\n1 thread, disk sleep: 102 waiter\n");
	ck_assert_uint_eq(count("    pipe_read+0x14/0x200\n"), 3);
	// the largest group first
	ck_assert(strstr(text, "\n13 threads") < strstr(text, "\n1 thread,"));
	// every thread is in one group
	uint32_t sum = 0;
	for (const char *at = text; (at = strstr(at, "\n")); at++) {
		unsigned int n;
		char word[10];

		if (sscanf(at + 1, "%u %9[a-z], ", &n, word) == 2 &&
		    strncmp(word, "thread", 6) == 0 && at[1] != '\n')
			sum += n;
	}
	ck_assert_uint_eq(sum, capture.thread_count);
}
END_TEST

START_TEST(interrupted_frames_are_pointed_out)
{
	struct lg_thread *t = &guest.threads[4];
	uint64_t record[2];

	lg_block(&guest, t,
		 (const char *const[]){ "el0t_64_sync", "el0_svc", "vfs_read", "el1h_64_irq",
					"el1_interrupt", NULL });
	memcpy(record, t->stack_bytes, 16);
	show(false);
	has("\n    el1h_64_irq+0x14/0x200\n    vfs_read+0x14/0x200  <- interrupted here\n    "
	    "el0_svc+");
}
END_TEST

START_TEST(user_stacks_stand_under_the_kernel_s)
{
	sample_give_user_stack();
	show(false);
	has("\n    el0t_64_sync+0x14/0x200\n    user 0x400100 /bin/tool+0x2100\n"
	    "    user 0x400200 /bin/tool+0x2200  <- by the link register, not certain\n"
	    "    user 0x400300 /bin/tool+0x2300\n"
	    "    (user stack: bad frame pointer)\n");
	// its file's build id stands once, with the process
	has("\n  build id b10d5eed00ff1001 of /bin/tool\n  thread 100 ");
	ck_assert_uint_eq(count("build id"), 1);
	// no other thread has one, and none has it unasked
	ck_assert_uint_eq(count("    user 0x"), 3);
	sample_flags = 0;
	show(false);
	ck_assert_uint_eq(count("user"), 0);
	ck_assert_uint_eq(count("build id"), 0);
}
END_TEST

START_TEST(threads_with_other_user_stacks_are_in_other_groups)
{
	const char *const stack[] = { "el0t_64_sync", "el0_svc", "pipe_read", NULL };
	struct lg_thread *t[3] = { lg_add_process(&guest, 300, "pool") };

	sample_give_user_stack();
	for (int32_t i = 0; i < 3; i++) {
		if (i)
			t[i] = lg_add_thread(&guest, t[0], 300 + i, "pool");
		t[i]->task->mm = guest.threads[4].task->mm;
		lg_block(&guest, t[i], stack);
		um_enter(&guest, t[i], i ? 0x400700 : 0x400800, 0, 0);
	}
	show(true);
	has("\n2 threads, sleeping: 301 pool, 302 pool\n");
	has("\n1 thread, sleeping: 300 pool\n");
	ck_assert_uint_eq(count("    user 0x400700\n"), 1);
	sample_flags = 0;
	show(true);
	has("\n3 threads, sleeping: 300 pool, 301 pool, 302 pool\n");
}
END_TEST

START_TEST(output_that_refuses_bytes_is_a_failure)
{
	FILE *full = fopen("/dev/full", "w");

	sample_load();
	ck_assert_ptr_nonnull(full);
	ck_assert(!rep_text(&capture, false, full));
	ck_assert(!rep_text(&capture, true, full));
	ck_assert(!rep_json(&capture, full));
	fclose(full);
}
END_TEST

Suite *suite_text(void)
{
	Suite *s = suite_create("text");
	TCase *tc = tcase_create("text");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, sample_setup, teardown);
	tcase_add_test(tc, text_shows_guest_vcpus_processes_and_stacks);
	tcase_add_test(tc, text_says_first_what_is_missing);
	tcase_add_test(tc, text_of_a_guest_without_a_kernel_shows_registers);
	tcase_add_test(tc, vcpus_in_other_states_are_shown);
	tcase_add_test(tc, strings_of_the_guest_are_escaped);
	tcase_add_test(tc, symbols_of_the_guest_are_escaped);
	tcase_add_test(tc, equal_stacks_are_shown_once_with_their_number);
	tcase_add_test(tc, interrupted_frames_are_pointed_out);
	tcase_add_test(tc, user_stacks_stand_under_the_kernel_s);
	tcase_add_test(tc, threads_with_other_user_stacks_are_in_other_groups);
	tcase_add_test(tc, output_that_refuses_bytes_is_a_failure);
	suite_add_tcase(s, tc);
	return s;
}
