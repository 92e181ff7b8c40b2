/* SPDX-License-Identifier: Apache-2.0 */
/* Views with much room, reading ahead, stacks side by side: nothing of it changes what is read. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"

#define PROCESSES 300u
#define TASKS	  (PROCESSES + 16u)

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view plain, cached;
static struct lnx_cache cache;
static gva_t tasks[TASKS], expected[TASKS], got[TASKS];
static uint32_t count;

static void setup(void)
{
	struct gs_error err = { 0 };

	lg_create(&g, &(struct lg_form){ .seqs = true, .ram_size = UINT64_C(12) << 20 });
	lg_populate(&g);
	for (uint32_t i = 0; i < PROCESSES; i++)
		lg_add_light_process(&g, (int32_t)(1000 + i), &g.threads[i % 5]);
	enum gs_code rc =
		lnx_kernel_find(&g.m.guest, g.m.regs, g.m.guest.vcpu_count, NULL, &k, &err);
	ck_assert_msg(rc == GS_OK, "%s", err.text);
	lnx_view_init(&plain, k, &g.m.guest);
	lnx_view_init(&cached, k, &g.m.guest);
	lnx_view_use_cache(&cached, &cache);
	ck_assert(cached.can_prefetch && !plain.can_prefetch);
	ck_assert_int_eq(lnx_processes_collect(&plain, tasks, TASKS, &count), GS_OK);
	ck_assert_uint_ge(count, PROCESSES);
}

static void teardown(void)
{
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

/* The list of processes with something expected of it. */
static void walk_expecting(uint32_t n)
{
	struct lnx_list l;
	gva_t task;

	memset(got, 0, sizeof(got));
	lnx_processes_begin(&l, &cached, got, TASKS);
	lnx_list_expect(&l, expected, n);
	for (uint32_t i = 0; lnx_list_next(&l, &task); i++)
		ck_assert_uint_eq(task.a, tasks[i].a);
	ck_assert_int_eq(l.rc, GS_OK);
	ck_assert_uint_eq(l.n, count);
	ck_assert_mem_eq(got, tasks, count * sizeof(tasks[0]));
	for (size_t i = 0; i < A64_FAULTS; i++)
		ck_assert_uint_eq(cached.faults[i], 0);
}

START_TEST(what_is_expected_of_a_list_changes_nothing)
{
	uint64_t seed = 3;

	walk_expecting(0);
	memcpy(expected, tasks, sizeof(tasks));
	for (uint32_t n = 0; n <= count; n += 7)
		walk_expecting(n);
	// some are gone, some are new
	for (uint32_t i = 0, n = 0; i < count; i++) {
		if (prng_below(&seed, 3))
			expected[n++] = tasks[i];
		if (i == count - 1)
			walk_expecting(n);
	}
	// another order, and addresses of nothing
	for (int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < TASKS; i++)
			expected[i] = prng_below(&seed, 2) ? tasks[prng_below(&seed, count)]
							   : GVA(prng(&seed));
		walk_expecting(TASKS);
	}
	expected[0] = GVA(UINT64_MAX);
	expected[1] = GVA(UINT64_MAX - 4095);
	walk_expecting(2);
}
END_TEST

START_TEST(cached_view_reads_what_a_plain_one_reads)
{
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < count; i++) {
			struct lnx_task a, b;

			memset(&a, 0, sizeof(a));
			memset(&b, 0, sizeof(b));
			lnx_task_prefetch_entry(&cached, tasks[i]);
			lnx_task_prefetch(&cached, tasks[i]);
			ck_assert_int_eq(lnx_task_read(&plain, tasks[i], &a), GS_OK);
			ck_assert_int_eq(lnx_task_read(&cached, tasks[i], &b), GS_OK);
			ck_assert_int_eq(memcmp(&a, &b, sizeof(a)), 0);
			lnx_relatives_prefetch_entry(&cached, &b);
			lnx_relatives_prefetch(&cached, &b);
		}
	}
	ck_assert_uint_eq(plain.reads, cached.reads + count + 1); // and the list of setup()
}
END_TEST

START_TEST(cached_view_finds_a_page_gone_only_after_it_is_emptied)
{
	uint64_t at = g.threads[3].stack, word;

	ck_assert_int_eq(lnx_read_u64(&cached, GVA(at), &word), GS_OK);
	lg_unmap(&g, at & ~UINT64_C(4095));
	// caches are for one stop: within it nothing changes
	ck_assert_int_eq(lnx_read_u64(&cached, GVA(at), &word), GS_OK);
	lnx_view_use_cache(&cached, &cache);
	ck_assert_int_eq(lnx_read_u64(&cached, GVA(at), &word), GS_EFAULT);
	ck_assert_uint_eq(cached.faults[A64_NOT_MAPPED], 1);
	// reading ahead of it is no fault
	lnx_prefetch_entry(&cached, GVA(at));
	lnx_prefetch(&cached, GVA(at), 100);
	lnx_prefetch(&cached, GVA(UINT64_MAX - 50), 100);
	lnx_prefetch(&cached, GVA(UINT64_MAX - 50), 51);
	lnx_prefetch(&cached, GVA(0), 1);
	ck_assert_uint_eq(cached.faults[A64_NOT_MAPPED], 1);
}
END_TEST

#define STACKS 6u

START_TEST(stacks_side_by_side_are_as_one_by_one)
{
	static uint64_t address[2][LNX_WALKS_MAX][LNX_FRAMES_MAX];
	static uint8_t kind[2][LNX_WALKS_MAX][LNX_FRAMES_MAX];
	static struct lnx_stack stack[2][LNX_WALKS_MAX];
	static struct lnx_walk walk[LNX_WALKS_MAX];
	struct lnx_walk *walks[LNX_WALKS_MAX];
	uint64_t seed = 11;

	// ones that break off, and one that is empty
	g.threads[2].task->fp = UINT64_MAX - 7;
	lg_stack_reset(&g, &g.threads[4]);
	g.threads[4].task->fp = g.threads[4].stack + 0x1238;
	for (int round = 0; round < 50; round++) {
		uint32_t n = (uint32_t)prng_below(&seed, LNX_WALKS_MAX + 1);

		for (uint32_t i = 0; i < n; i++) {
			const struct lg_thread *t = &g.threads[prng_below(&seed, STACKS)];
			struct lnx_task task;

			for (int w = 0; w < 2; w++)
				stack[w][i] = (struct lnx_stack){ .address = address[w][i],
								  .kind = kind[w][i] };
			ck_assert_int_eq(lnx_task_read(&cached, GVA(t->address), &task), GS_OK);
			if (t == &g.threads[3]) {
				lnx_unwind_running(&plain, &task, &g.m.regs[0], &stack[0][i]);
				lnx_walk_running(&walk[i], &cached, &task, &g.m.regs[0],
						 &stack[1][i]);
			} else {
				lnx_unwind_blocked(&plain, &task, &stack[0][i]);
				lnx_walk_blocked(&walk[i], &cached, &task, &stack[1][i]);
			}
			walks[i] = &walk[i];
		}
		lnx_walk_finish(walks, n);
		for (uint32_t i = 0; i < n; i++) {
			ck_assert_uint_eq(stack[0][i].count, stack[1][i].count);
			ck_assert_int_eq(stack[0][i].end, stack[1][i].end);
			ck_assert_uint_eq(stack[0][i].end_at, stack[1][i].end_at);
			ck_assert_int_eq(memcmp(address[0][i], address[1][i],
						stack[0][i].count * sizeof(uint64_t)),
					 0);
			ck_assert_int_eq(memcmp(kind[0][i], kind[1][i], stack[0][i].count), 0);
		}
	}
}
END_TEST

Suite *suite_ahead(void)
{
	Suite *s = suite_create("ahead");
	TCase *tc = tcase_create("ahead");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, what_is_expected_of_a_list_changes_nothing);
	tcase_add_test(tc, cached_view_reads_what_a_plain_one_reads);
	tcase_add_test(tc, cached_view_finds_a_page_gone_only_after_it_is_emptied);
	tcase_add_test(tc, stacks_side_by_side_are_as_one_by_one);
	suite_add_tcase(s, tc);
	return s;
}
