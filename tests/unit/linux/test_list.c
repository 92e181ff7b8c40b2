/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel lists: whole ones, and all the ways in which a list has no end. */
#include <string.h>

#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

#define NODES 200
#define STEP  0x20

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static gva_t got[NODES + 1];
static uint32_t n;
static uint64_t nodes; /* address of the first; node i is STEP bytes on; the head is before it */

static uint64_t node(uint32_t i)
{
	return nodes + STEP * i;
}

static void link_to(uint64_t from, uint64_t to)
{
	*lg_word(&g, from) = to;
}

static void setup(void)
{
	struct gs_error err = { 0 };

	lg_create(&g, &(struct lg_form){ 0 });
	lg_populate(&g);
	ck_assert_msg(!lnx_kernel_find(&g.m.guest, g.m.regs, 2, NULL, &k, &err), "%s", err.text);
	lnx_view_init(&v, k, &g.m.guest);
	nodes = LG_LINEAR + (lg_pages(&g, 2) - LG_RAM) + STEP;
}

static void teardown(void)
{
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

#define HEAD (nodes - STEP)

/* A good list of so many nodes. */
static void make_list(uint32_t count)
{
	link_to(HEAD, count ? node(0) : HEAD);
	for (uint32_t i = 0; i < count; i++)
		link_to(node(i), i + 1 < count ? node(i + 1) : HEAD);
}

static enum gs_code collect(uint32_t max)
{
	memset(got, 0xee, sizeof(got));
	n = 77777;
	return lnx_list_collect(&v, GVA(HEAD), got, max, &n);
}

static void expect_first(uint32_t count)
{
	ck_assert_uint_eq(n, count);
	for (uint32_t i = 0; i < count; i++)
		ck_assert_uint_eq(got[i].a, node(i));
}

START_TEST(empty_list_has_no_nodes)
{
	make_list(0);
	ck_assert_int_eq(collect(NODES), GS_OK);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(collect(0), GS_OK);
	ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(whole_lists_are_collected_in_order)
{
	for (uint32_t count = 1; count <= NODES; count++) {
		make_list(count);
		ck_assert_int_eq(collect(NODES), GS_OK);
		expect_first(count);
		ck_assert_int_eq(collect(count), GS_OK);
		expect_first(count);
	}
}
END_TEST

START_TEST(list_with_more_nodes_than_room_is_cut)
{
	for (uint32_t count = 1; count <= 40; count++) {
		make_list(count);
		for (uint32_t max = 0; max < count; max++) {
			ck_assert_int_eq(collect(max), GS_ENOSPC);
			expect_first(max);
			ck_assert_uint_eq(got[max].a, UINT64_C(0xeeeeeeeeeeeeeeee));
		}
	}
}
END_TEST

// T01, X02: every length of way in and of loop.
START_TEST(loop_gives_exactly_its_distinct_nodes)
{
	for (uint32_t count = 1; count <= 50; count++) {
		for (uint32_t back = 0; back < count; back++) {
			make_list(count);
			link_to(node(count - 1), node(back));
			ck_assert_int_eq(collect(NODES), GS_ELOOP);
			expect_first(count);
		}
	}
}
END_TEST

START_TEST(node_that_links_to_itself_is_a_loop)
{
	make_list(3);
	link_to(node(0), node(0));
	ck_assert_int_eq(collect(NODES), GS_ELOOP);
	expect_first(1);
}
END_TEST

START_TEST(loop_longer_than_the_room_is_too_much_and_not_more_than_the_room)
{
	make_list(100);
	link_to(node(99), node(50));
	ck_assert_int_eq(collect(60), GS_ENOSPC);
	expect_first(60);
}
END_TEST

START_TEST(link_that_cannot_be_read_ends_the_list_with_what_was_before)
{
	uint64_t away = LG_LINEAR + g.ram_size; // canonical, mapped nowhere

	for (uint32_t at = 0; at < 20; at++) {
		make_list(20);
		link_to(node(at), away);
		ck_assert_int_eq(collect(NODES), GS_EFAULT);
		ck_assert_uint_eq(n, at + 2);
		ck_assert_uint_eq(got[at].a, node(at));
		ck_assert_uint_eq(got[at + 1].a, away);
	}
	link_to(HEAD, away);
	ck_assert_int_eq(collect(NODES), GS_EFAULT);
	ck_assert_uint_eq(n, 1);
}
END_TEST

START_TEST(link_that_is_no_kernel_pointer_ends_the_list)
{
	static const uint64_t bad[] = { 0,
					1,
					8,
					UINT64_C(0x0000aaaab0000000),
					UINT64_C(0xffff000000000001),
					UINT64_C(0xfffe000000000000),
					UINT64_C(0xdead000000000100), // LIST_POISON1
					UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		make_list(5);
		link_to(node(2), bad[i]);
		ck_assert_int_eq(collect(NODES), GS_EFAULT);
		expect_first(3);
	}
}
END_TEST

START_TEST(head_that_cannot_be_read_gives_nothing)
{
	ck_assert_int_eq(lnx_list_collect(&v, GVA(LG_LINEAR + g.ram_size), got, NODES, &n),
			 GS_EFAULT);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(lnx_list_collect(&v, GVA(0), got, NODES, &n), GS_EFAULT);
	ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(threads_of_what_is_no_signal_structure_are_malformed)
{
	n = 5;
	ck_assert_int_eq(lnx_threads_collect(&v, GVA(0), got, NODES, &n), GS_EMALFORMED);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(
		lnx_threads_collect(&v, GVA(g.threads[0].signal_address + 1), got, NODES, &n),
		GS_EMALFORMED);
}
END_TEST

START_TEST(processes_and_their_threads_are_tasks_not_nodes)
{
	ck_assert_int_eq(lnx_processes_collect(&v, got, NODES, &n), GS_OK);
	ck_assert_uint_eq(n, 4);
	ck_assert_uint_eq(got[0].a, g.threads[0].address);
	ck_assert_uint_eq(got[1].a, g.threads[1].address);
	ck_assert_uint_eq(got[2].a, g.threads[2].address);
	ck_assert_uint_eq(got[3].a, g.threads[5].address);
	ck_assert_int_eq(lnx_threads_collect(&v, GVA(g.threads[2].signal_address), got, NODES, &n),
			 GS_OK);
	ck_assert_uint_eq(n, 3);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_eq(got[i].a, g.threads[2 + i].address);
}
END_TEST

START_TEST(nodes_before_an_error_are_tasks_too)
{
	g.threads[2].task->tasks.next = g.threads[2].address + offsetof(struct lg_task, tasks);
	ck_assert_int_eq(lnx_processes_collect(&v, got, NODES, &n), GS_ELOOP);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(got[2].a, g.threads[2].address);
}
END_TEST

// M16: what was translated while the guest ran is not used in the next stop.
START_TEST(reads_are_counted_and_translations_die_with_the_view)
{
	uint64_t word;

	ck_assert_int_eq(lnx_read_u64(&v, GVA(node(0)), &word), GS_OK);
	ck_assert_uint_eq(v.reads, 1);
	ck_assert_uint_eq(v.bytes, 8);
	lg_unmap(&g, node(0));
	ck_assert_int_eq(lnx_read_u64(&v, GVA(node(0)), &word), GS_OK);
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_read_u64(&v, GVA(node(0)), &word), GS_EFAULT);
	ck_assert_uint_eq(v.faults[A64_NOT_MAPPED], 1);
	ck_assert_uint_eq(v.reads, 0);
	ck_assert_uint_eq(v.bytes, 0);
	// mapped to what is no RAM
	lg_map(&g, node(0), UINT64_C(0x09000000), false);
	ck_assert_int_eq(lnx_read_u64(&v, GVA(node(0)), &word), GS_EFAULT);
	ck_assert_uint_eq(v.faults[A64_NOT_RAM], 1);
	ck_assert_int_eq(lnx_read_u64(&v, GVA(8), &word), GS_EFAULT);
	ck_assert_uint_eq(v.faults[A64_DISABLED], 1);
	ck_assert_int_eq(lnx_read_u64(&v, GVA(UINT64_C(0xfff0000000000000)), &word), GS_EFAULT);
	ck_assert_uint_eq(v.faults[A64_NOT_CANONICAL], 1);
}
END_TEST

START_TEST(reads_cross_pages_and_stop_at_the_first_that_fails)
{
	uint64_t at = (nodes | 0xfff) + 1; // the second page
	uint8_t buf[16];

	memset(lg_word(&g, at - 8), 0x11, 8);
	memset(lg_word(&g, at), 0x22, 8);
	ck_assert_int_eq(lnx_read(&v, GVA(at - 5), buf, 10), GS_OK);
	ck_assert_mem_eq(buf, "\x11\x11\x11\x11\x11\x22\x22\x22\x22\x22", 10);
	lg_unmap(&g, at);
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_read(&v, GVA(at - 5), buf, 10), GS_EFAULT);
	ck_assert_int_eq(lnx_read(&v, GVA(at - 5), buf, 5), GS_OK);
	ck_assert_int_eq(lnx_read(&v, GVA(at - 5), buf, SIZE_MAX), GS_EFAULT);
}
END_TEST

START_TEST(read_does_not_run_over_the_end_of_the_address_space)
{
	static uint8_t buf[0x2000];

	lg_map(&g, UINT64_MAX & ~UINT64_C(0xfff), LG_RAM, false);
	ck_assert_int_eq(lnx_read(&v, GVA(UINT64_MAX - 7), buf, 8), GS_OK);
	ck_assert_int_eq(lnx_read(&v, GVA(UINT64_MAX - 7), buf, 9), GS_EFAULT);
}
END_TEST

Suite *suite_list(void)
{
	Suite *s = suite_create("list");
	TCase *tc = tcase_create("list");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, empty_list_has_no_nodes);
	tcase_add_test(tc, whole_lists_are_collected_in_order);
	tcase_add_test(tc, list_with_more_nodes_than_room_is_cut);
	tcase_add_test(tc, loop_gives_exactly_its_distinct_nodes);
	tcase_add_test(tc, node_that_links_to_itself_is_a_loop);
	tcase_add_test(tc, loop_longer_than_the_room_is_too_much_and_not_more_than_the_room);
	tcase_add_test(tc, link_that_cannot_be_read_ends_the_list_with_what_was_before);
	tcase_add_test(tc, link_that_is_no_kernel_pointer_ends_the_list);
	tcase_add_test(tc, head_that_cannot_be_read_gives_nothing);
	tcase_add_test(tc, threads_of_what_is_no_signal_structure_are_malformed);
	tcase_add_test(tc, processes_and_their_threads_are_tasks_not_nodes);
	tcase_add_test(tc, nodes_before_an_error_are_tasks_too);
	tcase_add_test(tc, reads_are_counted_and_translations_die_with_the_view);
	tcase_add_test(tc, reads_cross_pages_and_stop_at_the_first_that_fails);
	tcase_add_test(tc, read_does_not_run_over_the_end_of_the_address_space);
	suite_add_tcase(s, tc);
	return s;
}
