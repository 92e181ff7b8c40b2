/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for: kinds whose structures lie where each test says. */
#include "base/util.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/waiting.h"

/* Members of task_struct that the made-up kernel's own types do not have: words in a gap of it. */
static void place_in_task(enum lnx_member m, uint32_t i)
{
	place(m, (uint32_t)gs_align_up(AT(lg_task, gap), 8) + 8 * i);
}

/* --- locks ------------------------------------------------------------------------------------ */

#define RT_NODE 0x08
#define RT_TASK 0x28
#define RT_LOCK 0x30

static uint64_t rt_mutex_of(struct lg_thread *t, uint32_t slot, uint64_t owner_word)
{
	const uint64_t waiter = lg_slot(t, slot), lock = lg_object(&made.g);

	place(LNX_M_RT_WAITER_NODE, RT_NODE);
	place(LNX_M_RT_WAITER_TASK, RT_TASK);
	place(LNX_M_RT_WAITER_LOCK, RT_LOCK);
	place(LNX_M_RT_MUTEX_ROOT, 0x18);
	place(LNX_M_RT_MUTEX_OWNER, 0x28);
	*word(waiter + RT_TASK) = t->address;
	*word(waiter + RT_LOCK) = lock;
	*member(lock, LNX_M_RT_MUTEX_ROOT) = waiter + RT_NODE;
	*member(lock, LNX_M_RT_MUTEX_OWNER) = owner_word;
	return lock;
}

START_TEST(rt_mutex_says_who_has_it)
{
	lg_sleep(&made.g, a, "leaf");
	const uint64_t lock = rt_mutex_of(a, 1, owner->address | 1), node = lg_slot(a, 1) + RT_NODE;
	uint64_t *const says = member(lock, LNX_M_RT_MUTEX_OWNER);

	expect(a, LNX_WAIT_RT_MUTEX, lock, owner->address, owner->address | 1);
	*says = 1; // about to be taken by the first of those who wait
	expect(a, LNX_WAIT_RT_MUTEX, lock, 0, 1);
	*says = owner->address; // says that nobody waits
	expect_none(a);
	*says = lg_object(&made.g) | 1;
	expect_none(a);
	*says = owner->address | 1;
	*member(lock, LNX_M_RT_MUTEX_ROOT) = lg_object(&made.g);
	expect_none(a);
	// below another waiter
	const uint64_t parent = lg_object(&made.g);
	*word(node) = parent | 1;
	expect_none(a);
	*word(parent + 16) = node;
	expect(a, LNX_WAIT_RT_MUTEX, lock, owner->address, owner->address | 1);
	*member(lock, LNX_M_RT_MUTEX_ROOT) = 0;
	expect_none(a);
}
END_TEST

START_TEST(futex_that_lends_its_priority_has_an_owner)
{
	const uint64_t bucket = lg_object(&made.g), state = lg_object(&made.g);

	lg_list_init(&made.g, bucket + AT(lg_futex_bucket, chain));
	lg_sleep(&made.g, a, "futex_wait");
	lg_add_mm(&made.g, a, 0x10001);
	const uint64_t q = wait_at(a, 0, AT(lg_futex_q, task), AT(lg_futex_q, node_list),
				   bucket + AT(lg_futex_bucket, chain));
	*word(q + AT(lg_futex_q, lock_ptr)) = bucket + AT(lg_futex_bucket, lock);
	*word(q + AT(lg_futex_q, key_ptr)) = a->task->mm;
	*word(q + AT(lg_futex_q, key_word)) = 0xaaaa00001000;
	place(LNX_M_FUTEX_PI_STATE, 0x60);
	place(LNX_M_PI_STATE_MUTEX, 0x10);
	place(LNX_M_PI_STATE_OWNER, 0x40);
	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001000, 0, 0);
	*word(q + 0x60) = state;
	*member(state, LNX_M_PI_STATE_OWNER) = owner->address;
	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001000, owner->address, 0);
	*member(state, LNX_M_PI_STATE_OWNER) = a->address; // handed over, and still to be woken
	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001000, 0, 0);
	*member(state, LNX_M_PI_STATE_OWNER) = bucket; // no task
	expect(a, LNX_WAIT_FUTEX, 0xaaaa00001000, 0, 0);
	*member(state, LNX_M_PI_STATE_OWNER) = owner->address;
	// its rt_mutex is the same wait; another one is not
	rt_mutex_of(a, 2, owner->address | 1);
	look(a);
	ck_assert_uint_eq(found, 2);
	const uint64_t inner = state + 0x10;
	*word(lg_slot(a, 2) + RT_LOCK) = inner;
	*member(inner, LNX_M_RT_MUTEX_ROOT) = lg_slot(a, 2) + RT_NODE;
	*member(inner, LNX_M_RT_MUTEX_OWNER) = owner->address | 1;
	*member(state, LNX_M_PI_STATE_OWNER) = owner->address;
	look(a);
	ck_assert_uint_eq(found, 1);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_FUTEX);
}
END_TEST

/* As 7.1 has it: no head among the waiters, the first of whom the lock knows. */
static uint64_t headless_mutex(void)
{
	const uint64_t mutex = lg_object(&made.g);

	made.k->types.member[LNX_M_MUTEX_WAIT_LIST].present = false;
	place(LNX_M_MUTEX_FIRST, AT(lg_mutex, wait_list));
	*word(mutex + AT(lg_mutex, owner)) = owner->address | 1;
	for (int i = 0; i < 2; i++) {
		struct lg_thread *t = i ? b : a;
		const uint64_t node = lg_slot(t, 0) + AT(lg_mutex_waiter, list);

		lg_sleep(&made.g, t, "__mutex_lock.constprop.0");
		*word(lg_slot(t, 0) + AT(lg_mutex_waiter, task)) = t->address;
		if (i)
			lg_list_add(&made.g, lg_slot(a, 0) + AT(lg_mutex_waiter, list), node);
		else
			lg_list_init(&made.g, node);
	}
	*member(mutex, LNX_M_MUTEX_FIRST) = lg_slot(a, 0);
	return mutex;
}

START_TEST(lock_without_a_head_is_found_by_its_first_waiter)
{
	const uint64_t mutex = headless_mutex();

	expect_none(b);		      // nothing leads to the lock
	*word(lg_slot(b, 5)) = mutex; // a saved register
	expect(b, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect_none(a);
	*word(lg_slot(a, 6)) = mutex;
	expect(a, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	*member(mutex, LNX_M_MUTEX_FIRST) = lg_object(&made.g); // another list
	expect_none(a);
	expect_none(b);
	// alone
	*member(mutex, LNX_M_MUTEX_FIRST) = lg_slot(a, 0);
	lg_list_init(&made.g, lg_slot(a, 0) + AT(lg_mutex_waiter, list));
	expect(a, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect_none(b);
}
END_TEST

START_TEST(lock_without_a_head_is_found_by_the_kernels_note)
{
	const uint64_t mutex = headless_mutex();

	place_in_task(LNX_M_TASK_BLOCKER, 0);
	place_in_task(LNX_M_TASK_BLOCKED_ON, 1);
	*member(a->address, LNX_M_TASK_BLOCKER) = mutex;
	*member(b->address, LNX_M_TASK_BLOCKED_ON) = mutex | 2;
	expect(a, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	expect(b, LNX_WAIT_MUTEX, mutex, owner->address, owner->address | 1);
	*member(a->address, LNX_M_TASK_BLOCKER) = lg_object(&made.g);
	expect_none(a);
}
END_TEST

START_TEST(semaphore_is_one_that_nobody_can_take)
{
	const uint64_t sem = lg_object(&made.g);

	place(LNX_M_SEM_WAITER_LIST, 0x08);
	place(LNX_M_SEM_WAITER_TASK, 0x18);
	place(LNX_M_SEM_COUNT, 0x04);
	place(LNX_M_SEM_WAIT_LIST, 0x20);
	lg_list_init(&made.g, sem + 0x20);
	lg_sleep(&made.g, a, "down_interruptible");
	wait_at(a, 2, 0x18, 0x08, sem + 0x20);
	expect(a, LNX_WAIT_SEMAPHORE, sem, 0, 0);
	*word(sem) = UINT64_C(1) << 32;
	expect_none(a);
	*word(sem) = 0;
	// a rw_semaphore's waiter looks the same, and its functions begin the same
	lg_block(&made.g, a,
		 (const char *const[]){ "el0t_64_sync", "rwsem_down_write_slowpath", "schedule",
					NULL });
	a->task->sp = a->stack + 0x1000;
	a->task->state = 2;
	expect_none(a);
}
END_TEST

/* --- locks of files --------------------------------------------------------------------------- */

static uint64_t files, table, array, space, level;

/* A process's table of files, and the tree of all processes by their numbers. */
static void make_files(void)
{
	place_in_task(LNX_M_TASK_FILES, 0);
	place_in_task(LNX_M_TASK_NSPROXY, 1);
	place_in_task(LNX_M_TASK_PID_LINKS, 2); // 16 bytes for each of two kinds
	place_all(LNX_M_FILES_TABLE, LNX_M_TABLE_FILES, 0x10);
	place_all(LNX_M_FILE_INODE, LNX_M_FILE_MODE, 0x20);
	place(LNX_M_OPS_RELEASE, 0x30);
	place_all(LNX_M_INODE_NUMBER, LNX_M_INODE_PIPE, 0x18);
	place(LNX_M_NSPROXY_PID, 0x08);
	place_all(LNX_M_SPACE_PARENT, LNX_M_SPACE_PIDS, 0x28);
	place(LNX_M_PID_TASKS, 0x20);
	place(LNX_M_XA_SHIFT, 0);
	place(LNX_M_XA_SLOTS, 0x28);
	files = lg_object(&made.g);
	table = lg_object(&made.g);
	array = lg_object(&made.g);
	*member(files, LNX_M_FILES_TABLE) = table;
	*member(table, LNX_M_TABLE_MAX) = 32;
	*member(table, LNX_M_TABLE_FILES) = array;
}

static void number_processes(void)
{
	const uint64_t proxy = lg_object(&made.g), inner = lg_object(&made.g),
		       top = lg_object(&made.g), pid = lg_object(&made.g);

	// a namespace in the first one
	space = lg_object(&made.g);
	level = lg_object(&made.g);
	*member(a->address, LNX_M_TASK_NSPROXY) = proxy;
	*member(proxy, LNX_M_NSPROXY_PID) = inner;
	*member(inner, LNX_M_SPACE_PARENT) = space;
	*member(space, LNX_M_SPACE_PIDS) = top + 2;
	*word(top) = 6; // shift
	*word(top + at(LNX_M_XA_SLOTS) + 8 * (302 >> 6)) = level + 2;
	*word(level + at(LNX_M_XA_SLOTS) + 8 * (302 & 63)) = pid;
	*word(pid + at(LNX_M_PID_TASKS) + 8) = owner->address + at(LNX_M_TASK_PID_LINKS) + 16;
}

static uint64_t inode, file, held, request;

static uint64_t make_file(uint64_t of_inode)
{
	const uint64_t f = lg_object(&made.g);

	*member(f, LNX_M_FILE_INODE) = of_inode;
	return f;
}

static uint64_t make_lock(uint64_t of_file, uint64_t flags)
{
	const uint64_t lock = lg_object(&made.g);

	*member(lock, LNX_M_LOCK_FILE) = *member(lock, LNX_M_LOCK_OWNER) = of_file;
	*member(lock, LNX_M_LOCK_FLAGS) = flags;
	*member(lock, LNX_M_LOCK_PID) = 302;
	lg_list_init(&made.g, lock + at(LNX_M_LOCK_REQUESTS));
	return lock;
}

static void block_request(uint64_t lock, uint64_t by)
{
	*member(lock, LNX_M_LOCK_BLOCKER) = by;
	lg_list_add(&made.g, by + at(LNX_M_LOCK_REQUESTS), lock + at(LNX_M_LOCK_MEMBER));
}

/* a waits for a flock that process 302 holds, of inode 77. */
static void make_locks(uint64_t flags)
{
	make_files();
	number_processes();
	for (size_t m = LNX_M_LOCK_BLOCKER; m <= LNX_M_LOCK_FILE; m++)
		place((enum lnx_member)m, 0x10 * (uint32_t)(m - LNX_M_LOCK_BLOCKER));
	made.k->types.member[LNX_M_LOCK_WAIT].offset = 0xa0;
	inode = lg_object(&made.g);
	*member(inode, LNX_M_INODE_NUMBER) = 77;
	file = make_file(inode);
	held = make_lock(file, flags);
	request = make_lock(make_file(inode), flags);
	block_request(request, held);
	*member(owner->address, LNX_M_TASK_FILES) = files;
	*word(array + 8 * 5) = file;
	lg_sleep(&made.g, a, "leaf");
	queue_at(a, 1, request + at(LNX_M_LOCK_WAIT), "leaf");
}

static void expect_queue(void)
{
	look(a);
	ck_assert_uint_eq(found, 1);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_QUEUE);
}

START_TEST(flock_is_held_by_a_process_that_has_the_file)
{
	make_locks(2);
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
	*word(array + 8 * 5) = 0; // closed, or another process with the same number
	expect(a, LNX_WAIT_FLOCK, held, 0, 77);
	*word(array + 8 * 5) = file;
	*member(table, LNX_M_TABLE_MAX) = 5;
	expect(a, LNX_WAIT_FLOCK, held, 0, 77);
	*member(table, LNX_M_TABLE_MAX) = UINT32_MAX;
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
}
END_TEST

START_TEST(numbers_that_lead_to_no_process_name_nobody)
{
	make_locks(2);
	static const uint32_t numbers[] = { 0, 1, 301, 303, 5000, 1u << 30, UINT32_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		*member(held, LNX_M_LOCK_PID) = numbers[i];
		expect(a, LNX_WAIT_FLOCK, held, 0, 77);
	}
	*member(held, LNX_M_LOCK_PID) = 302;
	owner->task->tgid = 300; // a thread of another process
	expect(a, LNX_WAIT_FLOCK, held, 0, 77);
	owner->task->tgid = 302;
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
	*word(level) = 6; // a tree that leads to itself
	*word(level + at(LNX_M_XA_SLOTS) + 8 * (302 >> 6)) = level + 2;
	expect(a, LNX_WAIT_FLOCK, held, 0, 77);
	*member(space, LNX_M_SPACE_PARENT) = space;
	expect(a, LNX_WAIT_FLOCK, held, 0, 77);
}
END_TEST

START_TEST(record_lock_belongs_to_a_table_or_an_open_file)
{
	make_locks(1);
	expect(a, LNX_WAIT_RECORD_LOCK, held, owner->address, 77); // of an open file
	*member(held, LNX_M_LOCK_OWNER) = files;
	*word(array + 8 * 5) = 0;
	expect(a, LNX_WAIT_RECORD_LOCK, held, owner->address, 77);
	*member(held, LNX_M_LOCK_OWNER) = table;
	expect(a, LNX_WAIT_RECORD_LOCK, held, 0, 77);
}
END_TEST

START_TEST(lease_is_of_the_file_of_who_has_it)
{
	make_locks(32);
	*member(request, LNX_M_LOCK_FILE) = 0;
	expect(a, LNX_WAIT_LEASE, held, owner->address, 77);
	*member(held, LNX_M_LOCK_FILE) = 0;
	expect_queue();
	*member(held, LNX_M_LOCK_FILE) = file;
	*member(held, LNX_M_LOCK_FLAGS) = 0;
	expect_queue();
}
END_TEST

START_TEST(request_behind_another_one_waits_for_who_holds_the_lock)
{
	make_locks(2);
	const uint64_t first = make_lock(make_file(inode), 2);

	lg_list_init(&made.g, held + at(LNX_M_LOCK_REQUESTS));
	block_request(first, held);
	block_request(request, first);
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
	*member(held, LNX_M_LOCK_BLOCKER) = first; // in a ring
	expect_queue();
	lg_list_add(&made.g, first + at(LNX_M_LOCK_REQUESTS), held + at(LNX_M_LOCK_MEMBER));
	expect_queue();
}
END_TEST

START_TEST(flock_behind_very_many_is_looked_for_at_the_file)
{
	make_locks(2);
	const uint64_t context = lg_object(&made.g);
	uint64_t behind = held;

	place(LNX_M_INODE_LOCKS, 0x60);
	place(LNX_M_LOCKS_FLOCK, 0x20);
	place(LNX_M_LOCK_LIST, 0xd0);
	lg_list_init(&made.g, held + at(LNX_M_LOCK_REQUESTS));
	for (int i = 0; i < 20; i++) {
		const uint64_t next = make_lock(make_file(inode), 2);

		block_request(next, behind);
		behind = next;
	}
	block_request(request, behind);
	expect_queue();
	*member(inode, LNX_M_INODE_LOCKS) = context;
	lg_list_init(&made.g, context + 0x20);
	expect_queue();
	lg_list_add(&made.g, context + 0x20, held + 0xd0);
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
	// what is on the list is not held, or of another file
	*member(held, LNX_M_LOCK_BLOCKER) = behind;
	expect_queue();
	*member(held, LNX_M_LOCK_BLOCKER) = 0;
	*member(held, LNX_M_LOCK_FILE) = make_file(lg_object(&made.g));
	expect_queue();
	*member(held, LNX_M_LOCK_FILE) = file;
	*member(request, LNX_M_LOCK_FLAGS) = 1; // of a range
	expect_queue();
}
END_TEST

START_TEST(lock_that_does_not_lead_back_is_none)
{
	make_locks(2);
	uint64_t *const right[] = { word(held + at(LNX_M_LOCK_REQUESTS)),
				    word(request + at(LNX_M_LOCK_MEMBER) + 8),
				    member(request, LNX_M_LOCK_BLOCKER),
				    member(request, LNX_M_LOCK_FILE) };

	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		const uint64_t kept = *right[i];

		*right[i] = lg_object(&made.g);
		expect_queue();
		*right[i] = kept;
	}
	expect(a, LNX_WAIT_FLOCK, held, owner->address, 77);
	// a lock of another file cannot be in the way
	*member(file, LNX_M_FILE_INODE) = lg_object(&made.g);
	expect_queue();
}
END_TEST

/* --- files ------------------------------------------------------------------------------------ */

#define OBJECT_QUEUE 0x40 /* of pipes to timers, in what private_data points to */

/* a waits in a queue of an object that its descriptor 9 has. */
static uint64_t make_object(enum lnx_member queue)
{
	const uint64_t object = lg_object(&made.g);

	make_files();
	lg_add_mm(&made.g, a, 0x10001);
	place(queue, OBJECT_QUEUE);
	inode = lg_object(&made.g);
	file = make_file(inode);
	*member(file, LNX_M_FILE_PRIVATE) = object;
	*member(a->address, LNX_M_TASK_FILES) = files;
	*word(array + 8 * 4) = make_file(inode);
	*word(array + 8 * 9) = file;
	lg_sleep(&made.g, a, "leaf");
	queue_at(a, 3, object + OBJECT_QUEUE, "leaf");
	return object;
}

START_TEST(pipe_is_one_of_a_fifo_that_is_open_at_that_end)
{
	const bool writes = _i;
	const uint64_t pipe = make_object(writes ? LNX_M_PIPE_WRITERS : LNX_M_PIPE_READERS);

	expect_queue();
	*member(file, LNX_M_FILE_MODE) = 3;
	*member(inode, LNX_M_INODE_MODE) = 0010600;
	*member(inode, LNX_M_INODE_PIPE) = pipe;
	expect(a, LNX_WAIT_PIPE, pipe, 0, 9);
	*member(file, LNX_M_FILE_MODE) = writes ? 1 : 2;
	expect_queue();
	*member(file, LNX_M_FILE_MODE) = writes ? 2 : 1;
	expect(a, LNX_WAIT_PIPE, pipe, 0, 9);
	*member(inode, LNX_M_INODE_MODE) = 0100600;
	expect_queue();
	*member(inode, LNX_M_INODE_MODE) = 0010600;
	*member(inode, LNX_M_INODE_PIPE) = inode;
	expect_queue();
}
END_TEST

START_TEST(socket_and_epoll_lead_back_to_the_file)
{
	static const struct {
		enum lnx_member queue, back;
		enum lnx_wait_kind kind;
	} kinds[] = { { LNX_M_SOCKET_QUEUE, LNX_M_SOCKET_FILE, LNX_WAIT_SOCKET },
		      { LNX_M_EPOLL_QUEUE, LNX_M_EPOLL_FILE, LNX_WAIT_EPOLL } };
	const uint64_t object = make_object(kinds[_i].queue);

	expect_queue();
	place(kinds[_i].back, 0x18);
	expect_queue();
	*member(object, kinds[_i].back) = file;
	expect(a, kinds[_i].kind, object, 0, 9);
	*word(array + 8 * 9) = 0; // not open
	expect_queue();
	*word(array + 8 * 9) = file;
	a->task->flags |= LNX_PF_KTHREAD; // has no files
	expect_queue();
}
END_TEST

START_TEST(eventfd_is_what_the_files_operations_say)
{
	const uint64_t object = make_object(LNX_M_EVENTFD_QUEUE), ops = lg_object(&made.g);

	expect_queue();
	*member(file, LNX_M_FILE_OPS) = ops;
	*member(ops, LNX_M_OPS_RELEASE) = lg_symbol(&made.g, "leaf");
	expect_queue();
	*member(ops, LNX_M_OPS_RELEASE) = lg_symbol(&made.g, "eventfd_release") + 4;
	expect_queue();
	*member(ops, LNX_M_OPS_RELEASE) = lg_symbol(&made.g, "eventfd_release");
	expect(a, LNX_WAIT_EVENTFD, object, 0, 9);
}
END_TEST

START_TEST(poll_names_its_files)
{
	const uint64_t object = make_object(LNX_M_SOCKET_QUEUE), poll = lg_slot(a, 0);
	const uint64_t entry = poll + AT(lg_poll, inline_entries);
	const uint64_t waiter = entry + AT(lg_poll_entry, wait);

	place(LNX_M_POLL_FILE, AT(lg_poll_entry, file));
	place(LNX_M_SOCKET_FILE, 0x18);
	lg_sleep(&made.g, a, "do_sys_poll");
	lg_list_init(&made.g, object + OBJECT_QUEUE + AT(lg_wait_head, head));
	lg_list_add(&made.g, object + OBJECT_QUEUE + AT(lg_wait_head, head),
		    waiter + AT(lg_wait_entry, entry));
	*word(poll + AT(lg_poll, polling_task)) = a->address;
	*word(poll + AT(lg_poll, inline_index)) = 1;
	*word(waiter + AT(lg_wait_entry, private)) = poll;
	*word(waiter + AT(lg_wait_entry, func)) = lg_symbol(&made.g, "leaf");
	*word(entry + AT(lg_poll_entry, wait_address)) = object + OBJECT_QUEUE;
	expect_queue(); // of no file
	*word(entry + AT(lg_poll_entry, file)) = file;
	expect(a, LNX_WAIT_FILE, file, 0, 9); // of none that leads to the queue
	*member(object, LNX_M_SOCKET_FILE) = file;
	expect(a, LNX_WAIT_SOCKET, object, 0, 9);
	*word(array + 8 * 9) = 0;
	expect_queue();
}
END_TEST

/* --- queues that tell of themselves ----------------------------------------------------------- */

#define AROUND 0x20 /* of a queue's entry in the structure around it */

START_TEST(child_is_waited_for_in_the_processs_own_queue)
{
	lg_sleep(&made.g, a, "leaf");
	queue_at(a, 1, a->signal_address + 0x40, "leaf");
	expect_queue();
	place(LNX_M_SIGNAL_CHILD_QUEUE, 0x40);
	expect(a, LNX_WAIT_CHILD, a->signal_address, 0, 0);
	place(LNX_M_SIGNAL_CHILD_QUEUE, 0x48);
	expect_queue();
}
END_TEST

START_TEST(bit_that_is_waited_for_is_set)
{
	const bool page = _i;
	const uint64_t object = lg_object(&made.g), waiter = lg_slot(a, 2) - AROUND;

	place(LNX_M_PAGE_WAIT_PAGE, 0);
	place(LNX_M_PAGE_WAIT_BIT, 8);
	place(LNX_M_PAGE_WAIT_ENTRY, AROUND);
	place(LNX_M_PAGE_FLAGS, 0);
	place(LNX_M_BIT_WAIT_WORD, 0);
	place(LNX_M_BIT_WAIT_BIT, 8);
	place(LNX_M_BIT_WAIT_ENTRY, AROUND);
	lg_sleep(&made.g, a, "leaf");
	queue_at(a, 2, lg_object(&made.g), page ? "wake_page_function" : "wake_bit_function");
	*word(waiter) = object;
	*word(waiter + 8) = 7;
	expect_queue();
	*word(object) = 1 << 7;
	expect(a, page ? LNX_WAIT_PAGE : LNX_WAIT_BIT, object, 0, 7);
	*word(waiter + 8) = 64;
	expect_queue();
	*word(waiter + 8) = UINT64_MAX; // of a variable, not a bit
	expect_queue();
}
END_TEST

START_TEST(fault_for_user_mode_has_an_address)
{
	const uint64_t context = lg_object(&made.g), waiter = lg_slot(a, 2) - AROUND;

	place(LNX_M_FAULT_ADDRESS, 0);
	place(LNX_M_FAULT_ENTRY, AROUND);
	place(LNX_M_FAULT_CONTEXT, 8);
	place(LNX_M_FAULT_CONTEXT_PENDING, 0x10);
	place(LNX_M_FAULT_CONTEXT_TAKEN, 0x30);
	place(LNX_M_FAULT_CONTEXT_MM, 0x50);
	lg_sleep(&made.g, a, "leaf");
	lg_add_mm(&made.g, a, 0x10001);
	queue_at(a, 2, context + 0x10, "userfaultfd_wake_function");
	*word(waiter) = 0x5555000;
	*word(waiter + 8) = context;
	expect_queue(); // of another address space
	*word(context + 0x50) = a->task->mm;
	expect(a, LNX_WAIT_USERFAULT, context, 0, 0x5555000);
	*word(waiter + 8) = lg_object(&made.g);
	expect_queue();
}
END_TEST

START_TEST(grace_period_is_a_completion_on_the_stack)
{
	const uint64_t on_stack = lg_slot(a, 3), it = on_stack + 0x20;

	place(LNX_M_RCU_FUNC, 8);
	place(LNX_M_RCU_COMPLETION, 0x20);
	lg_sleep(&made.g, a, "wait_for_completion");
	lg_list_init(&made.g, it + AT(lg_completion, task_list));
	wait_at(a, 1, AT(lg_swait, task), AT(lg_swait, task_list),
		it + AT(lg_completion, task_list));
	expect(a, LNX_WAIT_COMPLETION, it, 0, 0);
	*word(on_stack + 8) = lg_symbol(&made.g, "wakeme_after_rcu");
	expect(a, LNX_WAIT_RCU, it, 0, 0);
}
END_TEST

/* --- System V --------------------------------------------------------------------------------- */

START_TEST(message_queues_have_numbers)
{
	const bool sends = _i;
	const uint64_t queue = lg_object(&made.g);

	place(LNX_M_RECEIVER_LIST, 0);
	place(LNX_M_RECEIVER_TASK, 0x10);
	place(LNX_M_SENDER_LIST, 0x20);
	place(LNX_M_SENDER_TASK, 0x08);
	place(LNX_M_MSG_QUEUE_RECEIVERS, 0x30);
	place(LNX_M_MSG_QUEUE_SENDERS, 0x50);
	place(LNX_M_MSG_QUEUE_ID, 0x08);
	lg_sleep(&made.g, a, "do_msgrcv");
	*member(queue, LNX_M_MSG_QUEUE_ID) = 32769;
	lg_list_init(&made.g, queue + (sends ? 0x50 : 0x30));
	wait_at(a, 1, sends ? 0x08 : 0x10, sends ? 0x20 : 0, queue + (sends ? 0x50 : 0x30));
	expect(a, sends ? LNX_WAIT_MESSAGE_ROOM : LNX_WAIT_MESSAGE, queue, 0, 32769);
	// the head is no waiter though what is around leads to an address shortly before it
	const uint64_t near = lg_object(&made.g);
	*word(sends ? queue + 0x50 - 0x20 + 0x08 : queue + 0x30 + 0x10) = near;
	*word(near + AT(lg_task, stack)) = queue;
	expect(a, sends ? LNX_WAIT_MESSAGE_ROOM : LNX_WAIT_MESSAGE, queue, 0, 32769);
	*member(queue, LNX_M_MSG_QUEUE_ID) = UINT32_MAX;
	expect_none(a);
}
END_TEST

START_TEST(semaphores_of_system_v_are_a_set)
{
	// lists in the set, and of its second semaphore
	static const uint32_t heads[] = { 0x10, 0x20, 0x80 + 64 + 0x18, 0x80 + 64 + 0x28 };
	const uint64_t set = lg_object(&made.g) & ~UINT64_C(63);

	place(LNX_M_SEM_QUEUE_LIST, 0);
	place(LNX_M_SEM_QUEUE_TASK, 0x10);
	place(LNX_M_SET_ID, 0x08);
	place(LNX_M_SET_COUNT, 0x40);
	place(LNX_M_SET_ALTERING, 0x10);
	place(LNX_M_SET_WATCHING, 0x20);
	place(LNX_M_SET_LAST, 0x44);
	place(LNX_M_SYSV_ALTERING, 0x18);
	place(LNX_M_SYSV_WATCHING, 0x28);
	lg_sleep(&made.g, a, "__do_semtimedop");
	*word(set + 0x08) = 5;
	*word(set + 0x40) = 2;
	lg_list_init(&made.g, set + heads[_i]);
	wait_at(a, 1, 0x10, 0, set + heads[_i]);
	expect_none(a);
	*word(lg_slot(a, 4)) = set; // a saved register
	expect(a, LNX_WAIT_SYSV_SEMAPHORE, set, 0, 5);
	*word(set + 0x40) = 0;
	expect_none(a);
	*word(set + 0x40) = 1;
	look(a);
	ck_assert_uint_eq(found, _i < 2);
}
END_TEST

/* --- what a thread's own state tells ---------------------------------------------------------- */

START_TEST(signals_are_those_that_are_not_blocked)
{
	place(LNX_M_PT_REGS_SYSCALL, AT(lg_regs, syscallno));
	place_in_task(LNX_M_TASK_BLOCKED, 0);
	lg_sleep(&made.g, a, "sigsuspend");
	const uint64_t regs = a->stack + LG_STACK - made.k->types.pt_regs_size;
	a->task->state = 1;
	*member(a->address, LNX_M_TASK_BLOCKED) = ~UINT64_C(0x300);
	expect_none(a);
	*word(regs + AT(lg_regs, syscallno)) = 133;
	expect(a, LNX_WAIT_SIGNAL, 0, 0, 0x300);
	*word(regs + AT(lg_regs, pstate)) = 0x10; // a number of 32-bit programs
	expect_none(a);
	*word(regs + AT(lg_regs, pstate)) = 0;
	a->task->state = 2;
	expect_none(a);
	a->task->state = 1;
	a->task->flags |= LNX_PF_KTHREAD;
	expect_none(a);
}
END_TEST

START_TEST(poll_of_nothing_waits_for_signals)
{
	place(LNX_M_PT_REGS_SYSCALL, AT(lg_regs, syscallno));
	place(LNX_M_POLL_TABLE, AT(lg_poll, gap));
	place_in_task(LNX_M_TASK_BLOCKED, 0);
	lg_sleep(&made.g, a, "do_sys_poll");
	a->task->state = 1;
	*word(a->stack + LG_STACK - made.k->types.pt_regs_size + AT(lg_regs, syscallno)) = 73;
	expect_none(a);
	*word(lg_slot(a, 0) + AT(lg_poll, polling_task)) = a->address;
	expect(a, LNX_WAIT_SIGNAL, 0, 0, UINT64_MAX);
	*word(lg_slot(a, 0) + AT(lg_poll, gap)) = a->address; // further entries
	expect_none(a);
	*word(lg_slot(a, 0) + AT(lg_poll, gap)) = 0;
	*word(lg_slot(a, 0) + AT(lg_poll, inline_index)) = 1;
	expect_none(a);
}
END_TEST

START_TEST(frozen_thread_has_the_bit_and_is_in_the_trap)
{
	place_in_task(LNX_M_TASK_JOBCTL, 0);
	lg_sleep(&made.g, a, "do_freezer_trap");
	expect_none(a);
	*member(a->address, LNX_M_TASK_JOBCTL) = 1 << 23;
	expect(a, LNX_WAIT_FREEZER, a->address, 0, 0);
	lg_sleep(&made.g, a, "leaf");
	expect_none(a);
}
END_TEST

static uint64_t kthread_of(const char *function, const char *const *frames)
{
	const uint64_t kthread = lg_object(&made.g);

	place_in_task(LNX_M_TASK_KTHREAD, 0);
	place(LNX_M_KTHREAD_FUNCTION, 0x10);
	place(LNX_M_KTHREAD_DATA, 0x18);
	lg_block(&made.g, a, frames);
	a->task->state = 0x402;
	a->task->flags |= LNX_PF_KTHREAD;
	*member(a->address, LNX_M_TASK_KTHREAD) = kthread;
	*member(kthread, LNX_M_KTHREAD_FUNCTION) = lg_symbol(&made.g, function);
	return kthread;
}

START_TEST(kernel_thread_is_idle_in_its_main_function)
{
	const uint64_t main = lg_symbol(&made.g, "leaf");
	const uint64_t kthread =
		kthread_of("leaf", (const char *const[]){ "ret_from_fork", "kthread", "leaf",
							  "schedule", NULL });

	expect(a, LNX_WAIT_WORK, kthread, 0, main);
	a->task->state = 1;
	expect(a, LNX_WAIT_WORK, kthread, 0, main);
	a->task->flags &= ~LNX_PF_KTHREAD;
	expect_none(a);
	a->task->flags |= LNX_PF_KTHREAD;
	a->task->on_cpu = 1;
	expect_none(a);
	a->task->on_cpu = 0;
	*member(kthread, LNX_M_KTHREAD_FUNCTION) = lg_symbol(&made.g, "vfs_read");
	expect_none(a);
	// in a function that the main one calls
	kthread_of("leaf", (const char *const[]){ "ret_from_fork", "kthread", "leaf", "pipe_read",
						  "schedule", NULL });
	expect_none(a);
}
END_TEST

START_TEST(worker_is_idle_if_it_says_so)
{
	const uint64_t worker = lg_object(&made.g), main = lg_symbol(&made.g, "worker_thread");
	const uint64_t kthread = kthread_of(
		"worker_thread", (const char *const[]){ "ret_from_fork", "kthread", "worker_thread",
							"schedule", NULL });

	for (size_t m = LNX_M_WORKER_TASK; m <= LNX_M_WORKER_RESCUES; m++)
		place((enum lnx_member)m, 0x10 * (uint32_t)(m - LNX_M_WORKER_TASK));
	a->task->flags |= 0x20;
	*member(kthread, LNX_M_KTHREAD_DATA) = worker;
	expect_none(a);
	*member(worker, LNX_M_WORKER_TASK) = a->address;
	expect_none(a);
	*member(worker, LNX_M_WORKER_FLAGS) = 4;
	expect(a, LNX_WAIT_WORK, kthread, 0, main);
	*member(worker, LNX_M_WORKER_WORK) = worker;
	expect_none(a);
	*member(worker, LNX_M_WORKER_WORK) = 0;
	*member(worker, LNX_M_WORKER_FLAGS) = 0;
	*member(worker, LNX_M_WORKER_RESCUES) = worker;
	expect(a, LNX_WAIT_WORK, kthread, 0, main);
}
END_TEST

Suite *suite_wait_kinds(void)
{
	Suite *s = suite_create("wait_kinds");
	TCase *tc = tcase_create("wait_kinds");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, waiting_setup, done);
	tcase_add_test(tc, rt_mutex_says_who_has_it);
	tcase_add_test(tc, futex_that_lends_its_priority_has_an_owner);
	tcase_add_test(tc, lock_without_a_head_is_found_by_its_first_waiter);
	tcase_add_test(tc, lock_without_a_head_is_found_by_the_kernels_note);
	tcase_add_test(tc, semaphore_is_one_that_nobody_can_take);
	tcase_add_test(tc, flock_is_held_by_a_process_that_has_the_file);
	tcase_add_test(tc, numbers_that_lead_to_no_process_name_nobody);
	tcase_add_test(tc, record_lock_belongs_to_a_table_or_an_open_file);
	tcase_add_test(tc, lease_is_of_the_file_of_who_has_it);
	tcase_add_test(tc, request_behind_another_one_waits_for_who_holds_the_lock);
	tcase_add_test(tc, flock_behind_very_many_is_looked_for_at_the_file);
	tcase_add_test(tc, lock_that_does_not_lead_back_is_none);
	tcase_add_loop_test(tc, pipe_is_one_of_a_fifo_that_is_open_at_that_end, 0, 2);
	tcase_add_loop_test(tc, socket_and_epoll_lead_back_to_the_file, 0, 2);
	tcase_add_test(tc, eventfd_is_what_the_files_operations_say);
	tcase_add_test(tc, poll_names_its_files);
	tcase_add_test(tc, child_is_waited_for_in_the_processs_own_queue);
	tcase_add_loop_test(tc, bit_that_is_waited_for_is_set, 0, 2);
	tcase_add_test(tc, fault_for_user_mode_has_an_address);
	tcase_add_test(tc, grace_period_is_a_completion_on_the_stack);
	tcase_add_loop_test(tc, message_queues_have_numbers, 0, 2);
	tcase_add_loop_test(tc, semaphores_of_system_v_are_a_set, 0, 4);
	tcase_add_test(tc, signals_are_those_that_are_not_blocked);
	tcase_add_test(tc, poll_of_nothing_waits_for_signals);
	tcase_add_test(tc, frozen_thread_has_the_bit_and_is_in_the_trap);
	tcase_add_test(tc, kernel_thread_is_idle_in_its_main_function);
	tcase_add_test(tc, worker_is_idle_if_it_says_so);
	suite_add_tcase(s, tc);
	return s;
}
