/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for: each kind, and what only looks like it. */
#include "base/util.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/waiting.h"

/* --- mutexes ---------------------------------------------------------------------------------- */

static uint64_t mutex;

static void block_both(uint64_t owner_word)
{
	mutex = lg_mutex_make(&made.g, owner_word);
	lg_mutex_wait(&made.g, mutex, a);
	lg_mutex_wait(&made.g, mutex, b);
}

START_TEST(mutex_says_what_it_is_and_who_has_it)
{
	block_both(owner->address | 1);
	expect(a, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect(b, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect_none(owner);
}
END_TEST

// Whoever it was handed over to, or got it and was pre-empted, waits for nobody any more.
START_TEST(waiter_that_has_the_mutex_already_is_not_held_up)
{
	block_both(a->address | 1 | 4);
	expect(a, LNX_WAIT_MUTEX, mutex, 0, a->address | 1 | 4);
	expect(b, LNX_WAIT_MUTEX, mutex, a->address, a->address | 1 | 4);
	*word(mutex + AT(lg_mutex, owner)) = a->address | 1;
	expect(a, LNX_WAIT_MUTEX, mutex, a->address, a->address | 1); // it locks what it has
	a->task->on_rq = 1;
	expect(a, LNX_WAIT_MUTEX, mutex, 0, a->address | 1);
}
END_TEST

START_TEST(owner_words_are_masked_and_proved)
{
	const struct {
		uint64_t word, task;
		bool good;
	} words[] = {
		{ owner->address | 7, owner->address, true },
		{ a->address | 1, a->address, true }, // it waits for itself
		{ 1, 0, true },			      // about to be handed on
		{ 3, 0, true },
		{ 0, 0, false }, // says that nobody waits
		{ owner->address, 0, false },
		{ 0x4141414141414141, 0, false },
		{ UINT64_MAX, 0, false },
		{ lg_object(&made.g) | 1, 0, false }, // readable, but no task
		{ made.g.linear + (UINT64_C(1) << 40) + 1, 0, false },
	};

	block_both(1);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		*word(mutex + AT(lg_mutex, owner)) = words[i].word;
		if (words[i].good)
			expect(b, LNX_WAIT_MUTEX, mutex, words[i].task, words[i].word);
		else
			expect_none(b);
	}
}
END_TEST

START_TEST(neighbours_that_do_not_lead_back_are_no_list)
{
	const uint64_t node = lg_slot(a, 0) + AT(lg_mutex_waiter, list);
	const uint64_t next = lg_slot(b, 0) + AT(lg_mutex_waiter, list);

	block_both(owner->address | 1);
	const uint64_t head = mutex + AT(lg_mutex, wait_list);
	uint64_t *const lies[] = { word(next + 8), word(head), word(node), word(node + 8) };
	const uint64_t values[] = { head, next, node, 0, 8, UINT64_MAX, made.g.linear };

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		const uint64_t right = *lies[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			if (values[k] == right)
				continue;
			*lies[i] = values[k];
			expect_none(a);
		}
		*lies[i] = right;
		look(a);
		ck_assert_uint_eq(found, 1);
	}
}
END_TEST

START_TEST(task_on_the_stack_by_chance_is_no_waiter)
{
	lg_sleep(&made.g, a, "__mutex_lock.constprop.0");
	for (uint64_t at = a->task->sp; at < lg_slot(a, LG_SLOTS); at += 8)
		*word(at) = a->address;
	expect_none(a);
}
END_TEST

START_TEST(waiters_without_a_head_are_none)
{
	block_both(owner->address | 1);
	const uint64_t x = lg_slot(a, 0) + AT(lg_mutex_waiter, list);
	const uint64_t y = lg_slot(b, 0) + AT(lg_mutex_waiter, list);
	lg_list_init(&made.g, x);
	expect_none(a);
	lg_list_add(&made.g, x, y);
	expect_none(a);
	expect_none(b);
}
END_TEST

START_TEST(list_that_is_too_long_ends_the_walk)
{
	done();
	make_form(&(struct lg_form){ .seqs = true, .ram_size = UINT64_C(32) << 20 });
	mutex = lg_mutex_make(&made.g, owner->address | 1);
	struct lg_thread *const t = a;
	for (int i = 0; i < 400; i++) {
		a = i == 200 ? t : lg_add_process(&made.g, 1000 + i, "many");
		lg_mutex_wait(&made.g, mutex, a);
	}
	expect_none(t);
	// near either end the head is found
	expect(a, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect(&made.g.threads[made.g.thread_count - 100], LNX_WAIT_MUTEX, mutex, owner->address,
	       owner->address | 1);
}
END_TEST

START_TEST(functions_have_to_agree_for_locks)
{
	block_both(owner->address | 1);
	// a semaphore's waiter has the same form; so has another's list
	static const char *const others[] = { "futex_wait", "rwsem_down_write_slowpath", "leaf" };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		lg_block(&made.g, a,
			 (const char *const[]){ "el0t_64_sync", others[i], "schedule", NULL });
		a->task->sp = a->stack + 0x1000;
		a->task->state = 2;
		expect_none(a);
	}
}
END_TEST

START_TEST(only_what_sleeps_and_is_not_executed_waits)
{
	static const uint32_t states[] = { 0, 4, 8, 0x40, 0x402 };

	block_both(owner->address | 1);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		a->task->state = states[i];
		expect_none(a);
	}
	a->task->state = 1;
	look(a);
	ck_assert_uint_eq(found, 1);
	a->task->on_cpu = 1;
	expect_none(a);
	a->task->on_cpu = 0;
	// saved stack pointers that are none of this stack
	const uint64_t sps[] = { 0,
				 4,
				 a->stack - 8,
				 a->stack + 0x1004,
				 a->stack + LG_STACK,
				 a->stack + LG_STACK - LG_REGS_SIZE,
				 UINT64_MAX - 7,
				 lg_slot(a, 1) };
	for (size_t i = 0; i < ARRAY_SIZE(sps); i++) {
		a->task->sp = sps[i];
		expect_none(a);
	}
}
END_TEST

/* --- rwsems ----------------------------------------------------------------------------------- */

START_TEST(rwsem_says_for_what_and_who_has_it)
{
	const uint64_t sem = lg_object(&made.g), head = sem + AT(lg_rwsem, wait_list);

	lg_list_init(&made.g, head);
	lg_sleep(&made.g, a, "rwsem_down_write_slowpath");
	uint64_t at = wait_at(a, 2, AT(lg_rwsem_waiter, task), AT(lg_rwsem_waiter, list), head);
	*word(sem + AT(lg_rwsem, count)) = 3;
	*word(sem + AT(lg_rwsem, owner)) = owner->address | 2;
	expect(a, LNX_WAIT_RWSEM_WRITE, sem, owner->address, owner->address | 2);
	*word(at + AT(lg_rwsem_waiter, type)) = 1;
	expect(a, LNX_WAIT_RWSEM_READ, sem, owner->address, owner->address | 2);
	// of readers nobody is named
	*word(sem + AT(lg_rwsem, owner)) = owner->address | LNX_RWSEM_READER_OWNED;
	expect(a, LNX_WAIT_RWSEM_READ, sem, 0, owner->address | LNX_RWSEM_READER_OWNED);
	*word(sem + AT(lg_rwsem, owner)) = 0;
	expect(a, LNX_WAIT_RWSEM_READ, sem, 0, 0);
	*word(sem + AT(lg_rwsem, owner)) = lg_object(&made.g);
	expect_none(a);
	*word(sem + AT(lg_rwsem, owner)) = owner->address;
	*word(at + AT(lg_rwsem_waiter, type)) = 2;
	expect_none(a);
	*word(at + AT(lg_rwsem_waiter, type)) = 0;
	*word(sem + AT(lg_rwsem, count)) = 1; // says that nobody waits
	expect_none(a);
}
END_TEST

/* --- queues ----------------------------------------------------------------------------------- */

START_TEST(completion_is_one_that_is_not_done)
{
	const uint64_t it = lg_object(&made.g), head = it + AT(lg_completion, task_list);

	lg_list_init(&made.g, head);
	lg_sleep(&made.g, a, "wait_for_completion");
	lg_sleep(&made.g, b, "wait_for_completion");
	wait_at(a, 1, AT(lg_swait, task), AT(lg_swait, task_list), head);
	wait_at(b, 3, AT(lg_swait, task), AT(lg_swait, task_list), head);
	expect(a, LNX_WAIT_COMPLETION, it, 0, 0);
	expect(b, LNX_WAIT_COMPLETION, it, 0, 0);
	*word(it + AT(lg_completion, done)) = 1;
	expect_none(a);
	*word(it + AT(lg_completion, done)) = 0;
	lg_block(&made.g, a, (const char *const[]){ "el0t_64_sync", "kthread", "schedule", NULL });
	a->task->sp = a->stack + 0x1000;
	expect_none(a);
}
END_TEST

START_TEST(wait_queue_says_which_and_what_wakes)
{
	const uint64_t queue = lg_object(&made.g), head = queue + AT(lg_wait_head, head);
	const uint64_t func = lg_symbol(&made.g, "autoremove_wake_function");

	lg_list_init(&made.g, head);
	lg_sleep(&made.g, a, "pipe_read");
	lg_sleep(&made.g, b, "pipe_read");
	uint64_t at = wait_at(a, 0, AT(lg_wait_entry, private), AT(lg_wait_entry, entry), head);
	*word(at + AT(lg_wait_entry, func)) = func;
	*word(wait_at(b, 1, AT(lg_wait_entry, private), AT(lg_wait_entry, entry), head) +
	      AT(lg_wait_entry, func)) = func;
	expect(a, LNX_WAIT_QUEUE, queue, 0, func);
	expect(b, LNX_WAIT_QUEUE, queue, 0, func);
	*word(at + AT(lg_wait_entry, func)) = queue;
	expect_none(a);
	*word(at + AT(lg_wait_entry, func)) = func;
	// left the queue: list_del_init()
	lg_list_init(&made.g, at + AT(lg_wait_entry, entry));
	expect_none(a);
}
END_TEST

static uint64_t poll_entry(uint32_t i)
{
	return lg_slot(a, 0) + AT(lg_poll, inline_entries) + i * sizeof(struct lg_poll_entry);
}

START_TEST(poll_waits_in_all_its_queues)
{
	const uint64_t poll = lg_slot(a, 0), func = lg_symbol(&made.g, "leaf");
	uint64_t queue[2];

	lg_sleep(&made.g, a, "vfs_read");
	*word(poll + AT(lg_poll, polling_task)) = a->address;
	*word(poll + AT(lg_poll, inline_index)) = 2;
	for (uint32_t i = 0; i < 2; i++) {
		const uint64_t at = poll_entry(i), waiter = at + AT(lg_poll_entry, wait);

		queue[i] = lg_object(&made.g);
		lg_list_init(&made.g, queue[i] + AT(lg_wait_head, head));
		lg_list_add(&made.g, queue[i] + AT(lg_wait_head, head),
			    waiter + AT(lg_wait_entry, entry));
		*word(waiter + AT(lg_wait_entry, private)) = poll;
		*word(waiter + AT(lg_wait_entry, func)) = func;
		*word(at + AT(lg_poll_entry, wait_address)) = queue[i];
	}
	look(a);
	ck_assert_uint_eq(found, 2);
	ck_assert_uint_eq(waits[0].object, queue[0]);
	ck_assert_uint_eq(waits[1].object, queue[1]);
	ck_assert_uint_eq(waits[1].extra, func);
	// more than there is room for in it; entries that are not in use
	*word(poll + AT(lg_poll, inline_index)) = 3;
	expect_none(a);
	*word(poll + AT(lg_poll, inline_index)) = 1;
	expect(a, LNX_WAIT_QUEUE, queue[0], 0, func);
	// an entry of another structure; a queue that is none; one that it has left
	*word(poll_entry(0) + AT(lg_poll_entry, wait) + AT(lg_wait_entry, private)) = poll + 8;
	expect_none(a);
	*word(poll_entry(0) + AT(lg_poll_entry, wait) + AT(lg_wait_entry, private)) = poll;
	*word(poll_entry(0) + AT(lg_poll_entry, wait_address)) = lg_object(&made.g);
	expect_none(a);
	*word(poll_entry(0) + AT(lg_poll_entry, wait_address)) = queue[0];
	lg_list_init(&made.g, poll_entry(0) + AT(lg_poll_entry, wait) + AT(lg_wait_entry, entry));
	expect_none(a);
}
END_TEST

/* --- futexes and timers ----------------------------------------------------------------------- */

static uint64_t bucket;

static uint64_t futex_at(uint32_t slot)
{
	bucket = lg_object(&made.g);
	lg_list_init(&made.g, bucket + AT(lg_futex_bucket, chain));
	lg_sleep(&made.g, a, "futex_wait");
	lg_add_mm(&made.g, a, 0x10001);
	uint64_t q = wait_at(a, slot, AT(lg_futex_q, task), AT(lg_futex_q, node_list),
			     bucket + AT(lg_futex_bucket, chain));
	*word(q + AT(lg_futex_q, lock_ptr)) = bucket + AT(lg_futex_bucket, lock);
	*word(q + AT(lg_futex_q, key_ptr)) = a->task->mm;
	*word(q + AT(lg_futex_q, key_word)) = 0xaaaa00001000;
	*word(q + AT(lg_futex_q, key_offset)) = 0x234;
	return q;
}

START_TEST(futex_has_the_address_that_the_process_knows)
{
	const uint64_t q = futex_at(0);

	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001234, 0, 0);
	*word(q + AT(lg_futex_q, key_offset)) = 0x236; // FUT_OFF_MMSHARED
	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001234, 0, 0);
	*word(q + AT(lg_futex_q, key_offset)) = 0x1000;
	expect_none(a);
	*word(q + AT(lg_futex_q, key_offset)) = 0x234;
	*word(q + AT(lg_futex_q, key_ptr)) = a->task->mm + 8; // another's address space
	expect_none(a);
	*word(q + AT(lg_futex_q, key_ptr)) = 77;
	*word(q + AT(lg_futex_q, key_word)) = 3;
	*word(q + AT(lg_futex_q, key_offset)) = 0x235; // FUT_OFF_INODE
	expect(a, LNX_WAIT_FUTEX_SHARED, 0x3234, 0, 77);
}
END_TEST

START_TEST(futex_has_to_be_in_its_bucket)
{
	const uint64_t q = futex_at(0);

	*word(q + AT(lg_futex_q, lock_ptr)) = lg_object(&made.g);
	expect_none(a);
	*word(q + AT(lg_futex_q, lock_ptr)) = 0;
	expect_none(a);
	*word(q + AT(lg_futex_q, lock_ptr)) = bucket + AT(lg_futex_bucket, lock);
	lg_list_init(&made.g, bucket + AT(lg_futex_bucket, chain));
	expect_none(a);
}
END_TEST

static uint64_t timer_at(uint32_t slot, uint64_t base)
{
	const uint64_t at = lg_slot(a, slot);

	*word(at + AT(lg_sleeper, task)) = a->address;
	*word(at + AT(lg_sleeper, base)) = base;
	*word(at + AT(lg_sleeper, expires)) = 123456789;
	*word(at + AT(lg_sleeper, state)) = 1;
	*word(base + AT(lg_clock_base, root)) = at + AT(lg_sleeper, parent);
	return at;
}

START_TEST(timer_is_one_in_a_tree)
{
	const uint64_t base = lg_object(&made.g), parent = lg_object(&made.g);

	lg_sleep(&made.g, a, "leaf");
	const uint64_t at = timer_at(1, base), node = at + AT(lg_sleeper, parent);
	expect(a, LNX_WAIT_TIMER, node, 0, 123456789);
	*word(at + AT(lg_sleeper, state)) = 0;
	expect_none(a);
	*word(at + AT(lg_sleeper, state)) = 1;
	*word(base + AT(lg_clock_base, root)) = parent;
	expect_none(a);
	*word(node) = parent | 1; // its colour
	expect_none(a);
	*word(parent + 16) = node;
	expect(a, LNX_WAIT_TIMER, node, 0, 123456789);
	*word(parent + 16) = 0;
	*word(parent + 8) = node;
	expect(a, LNX_WAIT_TIMER, node, 0, 123456789);
	*word(node) = 0x1000;
	expect_none(a);
}
END_TEST

START_TEST(several_at_once_are_all_found)
{
	futex_at(0);
	timer_at(2, lg_object(&made.g));
	look(a);
	ck_assert_uint_eq(found, 2);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_FUTEX);
	ck_assert_uint_eq(waits[1].kind, LNX_WAIT_TIMER);
}
END_TEST

START_TEST(more_waits_than_there_is_room_for_are_left_out)
{
	const uint64_t queue = lg_object(&made.g), head = queue + AT(lg_wait_head, head);

	lg_list_init(&made.g, head);
	lg_sleep(&made.g, a, "pipe_read");
	for (uint32_t i = 0; i < LNX_WAITS_MAX + 4; i++)
		*word(wait_at(a, i, AT(lg_wait_entry, private), AT(lg_wait_entry, entry), head) +
		      AT(lg_wait_entry, func)) = lg_symbol(&made.g, "leaf");
	look(a);
	ck_assert_uint_eq(found, LNX_WAITS_MAX);
}
END_TEST

/* --- kernels ---------------------------------------------------------------------------------- */

static const char *const without[] = { "mutex.owner", "mutex", "mutex_waiter.task",
				       "mutex.wait_list" };

START_TEST(kind_of_which_types_do_not_tell_is_left_out)
{
	const struct typeinfo_form types = { .omit = without[_i] };

	done();
	make_form(&(struct lg_form){ .seqs = true, .types = &types });
	ck_assert(lnx_knows_waits(made.k)); // of other kinds
	block_both(owner->address | 1);
	expect_none(a);
}
END_TEST

Suite *suite_waits(void)
{
	Suite *s = suite_create("waits");
	TCase *tc = tcase_create("waits");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, waiting_setup, done);
	tcase_add_test(tc, mutex_says_what_it_is_and_who_has_it);
	tcase_add_test(tc, waiter_that_has_the_mutex_already_is_not_held_up);
	tcase_add_test(tc, owner_words_are_masked_and_proved);
	tcase_add_test(tc, neighbours_that_do_not_lead_back_are_no_list);
	tcase_add_test(tc, task_on_the_stack_by_chance_is_no_waiter);
	tcase_add_test(tc, waiters_without_a_head_are_none);
	tcase_add_test(tc, list_that_is_too_long_ends_the_walk);
	tcase_add_test(tc, functions_have_to_agree_for_locks);
	tcase_add_test(tc, only_what_sleeps_and_is_not_executed_waits);
	tcase_add_test(tc, rwsem_says_for_what_and_who_has_it);
	tcase_add_test(tc, completion_is_one_that_is_not_done);
	tcase_add_test(tc, wait_queue_says_which_and_what_wakes);
	tcase_add_test(tc, poll_waits_in_all_its_queues);
	tcase_add_test(tc, futex_has_the_address_that_the_process_knows);
	tcase_add_test(tc, futex_has_to_be_in_its_bucket);
	tcase_add_test(tc, timer_is_one_in_a_tree);
	tcase_add_test(tc, several_at_once_are_all_found);
	tcase_add_test(tc, more_waits_than_there_is_room_for_are_left_out);
	tcase_add_loop_test(tc, kind_of_which_types_do_not_tell_is_left_out, 0,
			    ARRAY_SIZE(without));
	suite_add_tcase(s, tc);
	return s;
}
