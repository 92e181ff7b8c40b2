/* SPDX-License-Identifier: Apache-2.0 */
/* Hung threads and locked-up vCPUs in made-up captures. */
#include "control/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/control/suites.h"

#define SEC	    UINT64_C(1000000000)
#define STREAM_MAX  (32u << 20)
#define THREADS_MAX 70000

/* What is in the next capture. */
struct made_thread {
	int32_t tid;
	char state;
	int32_t vcpu; /* -1: none */
	uint64_t switches;
	uint64_t ran_ns;
};

static struct made_thread threads[THREADS_MAX];
static uint32_t thread_count;
static uint32_t vcpu_state[4];
static uint8_t stream[STREAM_MAX];
static struct ctl_watch *watch;
static struct ctl_watch_found found;

#define OK(call) ck_assert_int_eq((call), KCD_OK)

static void put_thread(struct kcd_writer *w, const struct made_thread *t)
{
	struct ss_thread_record r = {
		.tid = t->tid,
		.vcpu = t->vcpu,
		.state = (unsigned char)t->state,
		.known = LNX_TASK_HAS_SWITCHES | LNX_TASK_HAS_LAST_RUN,
		.nvcsw = t->switches / 2,
		.nivcsw = t->switches - t->switches / 2,
		.exec_start_ns = t->ran_ns,
	};

	snprintf(r.comm, sizeof(r.comm), "t%d", t->tid);
	OK(kcd_container_begin(w, KCD_SS_CONTAINER_THREAD, 5000 + (uint64_t)t->tid));
	OK(kcd_append(w, SS_RECORD_THREAD, &r, sizeof(r)));
	OK(kcd_container_end(w, 5000 + (uint64_t)t->tid));
}

static size_t make(void)
{
	const struct ss_task_record task = { .pid = 100, .threads = thread_count };
	struct ss_vcpu_record vcpu[ARRAY_SIZE(vcpu_state)];
	struct kcd_writer w;

	memset(vcpu, 0, sizeof(vcpu));
	for (uint32_t i = 0; i < ARRAY_SIZE(vcpu); i++) {
		vcpu[i].vcpu = i;
		vcpu[i].state = vcpu_state[i];
	}
	OK(kcd_writer_init(&w, stream, sizeof(stream), KCD_MAGIC_STACKSHOT, 0));
	OK(kcd_append_array(&w, SS_RECORD_VCPU, ARRAY_SIZE(vcpu), sizeof(vcpu[0]), vcpu));
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1));
	OK(kcd_append(&w, SS_RECORD_TASK, &task, sizeof(task)));
	for (uint32_t i = 0; i < thread_count; i++)
		put_thread(&w, &threads[i]);
	OK(kcd_container_end(&w, 1));
	return kcd_writer_used(&w);
}

/* A look at @p s seconds of the guest's clock, and of the host's. */
static void look(double s)
{
	const uint64_t ns = (uint64_t)(s * (double)SEC);

	ctl_watch_look(watch, stream, make(), ns, ns, &found);
}

static void setup(void)
{
	memset(vcpu_state, 0, sizeof(vcpu_state));
	thread_count = 0;
	watch = ctl_watch_create(10 * SEC, 20 * SEC);
	ck_assert_ptr_nonnull(watch);
}

static void teardown(void)
{
	ctl_watch_destroy(watch);
}

static struct made_thread *add(int32_t tid, char state, int32_t vcpu)
{
	struct made_thread *t = &threads[thread_count++];

	*t = (struct made_thread){ .tid = tid, .state = state, .vcpu = vcpu, .switches = 7 };
	return t;
}

START_TEST(hung_thread_is_found_once_after_its_time)
{
	(void)add(1, 'S', -1);
	(void)add(2, 'D', -1);
	look(100);
	ck_assert(!found.has_hung);
	look(109.9);
	ck_assert(!found.has_hung);
	look(110);
	ck_assert(found.has_hung && !found.has_lockup);
	ck_assert_uint_eq(found.hung.reason, SS_REASON_HUNG_TASK);
	ck_assert_int_eq(found.hung.tid, 2);
	ck_assert_int_eq(found.hung.pid, 100);
	ck_assert_int_eq(found.hung.vcpu, -1);
	ck_assert_uint_eq(found.hung.for_ns, 10 * SEC);
	ck_assert_str_eq(found.hung.text, "t2");
	for (int i = 111; i < 200; i++) {
		look(i);
		ck_assert(!found.has_hung);
	}
}
END_TEST

START_TEST(thread_that_ran_meanwhile_is_not_hung)
{
	struct made_thread *t = add(2, 'D', -1);

	for (int i = 100; i < 200; i += 5) {
		t->switches += i % 2;
		look(i);
		ck_assert(!found.has_hung);
	}
	look(220); /* not since 195 */
	ck_assert_uint_eq(found.hung.for_ns, 25 * SEC);
}
END_TEST

START_TEST(thread_that_was_awake_at_a_look_is_not_hung)
{
	struct made_thread *t = add(2, 'D', -1);

	look(100);
	t->state = 'S';
	look(105);
	t->state = 'D';
	look(111);
	ck_assert(!found.has_hung);
	look(121);
	ck_assert(found.has_hung);
}
END_TEST

START_TEST(first_look_knows_when_threads_ran_last)
{
	struct made_thread *t = add(2, 'D', -1);

	t->ran_ns = 3 * SEC;
	add(3, 'S', -1)->ran_ns = 9 * SEC; /* the scheduler's clock is at 9 s or more */
	look(100);
	ck_assert(!found.has_hung);
	look(104);
	ck_assert(found.has_hung);
	ck_assert_uint_eq(found.hung.for_ns, 10 * SEC);
}
END_TEST

START_TEST(stopped_guest_has_no_hung_threads)
{
	(void)add(2, 'D', -1);
	/* its clock stands still, the host's does not */
	for (uint64_t i = 1; i < 1000; i++) {
		ctl_watch_look(watch, stream, make(), 50 * SEC, i * SEC, &found);
		ck_assert(!found.has_hung);
	}
}
END_TEST

START_TEST(clock_of_the_threads_is_used_when_there_is_no_other)
{
	struct made_thread *t = add(2, 'D', -1), *other = add(3, 'S', -1);

	t->ran_ns = 100 * SEC;
	for (uint64_t i = 0; i < 100; i++) {
		other->ran_ns = (104 + gs_min(i, 5)) * SEC;
		ctl_watch_look(watch, stream, make(), 0, i * SEC, &found);
		ck_assert(!found.has_hung);
	}
	other->ran_ns = 110 * SEC;
	ctl_watch_look(watch, stream, make(), 0, 1000 * SEC, &found);
	ck_assert(found.has_hung);
	ck_assert_uint_eq(found.hung.for_ns, 10 * SEC);
}
END_TEST

START_TEST(of_several_the_longest_is_told)
{
	(void)add(2, 'D', -1);
	look(100);
	(void)add(3, 'D', -1);
	look(101);
	look(115);
	ck_assert(found.has_hung);
	ck_assert_int_eq(found.hung.tid, 2);
	look(117);
	ck_assert(!found.has_hung); /* the other was in the capture for this one */
}
END_TEST

START_TEST(later_one_is_told_after_a_pause)
{
	(void)add(2, 'D', -1);
	look(100);
	(void)add(3, 'D', -1);
	look(100.5);
	look(110);
	ck_assert_int_eq(found.hung.tid, 2);
	look(110.6);
	ck_assert(!found.has_hung); /* due, but too soon after the other */
	look(111.2);
	ck_assert(found.has_hung);
	ck_assert_int_eq(found.hung.tid, 3);
}
END_TEST

START_TEST(vcpu_in_the_kernel_without_a_switch_is_locked_up)
{
	(void)add(5, 'R', 2);
	vcpu_state[2] = SS_VCPU_KERNEL;
	for (int i = 100; i < 120; i++) {
		look(i);
		ck_assert(!found.has_lockup);
	}
	look(120);
	ck_assert(found.has_lockup && !found.has_hung);
	ck_assert_uint_eq(found.lockup.reason, SS_REASON_SOFT_LOCKUP);
	ck_assert_int_eq(found.lockup.vcpu, 2);
	ck_assert_int_eq(found.lockup.tid, 5);
	ck_assert_uint_eq(found.lockup.for_ns, 20 * SEC);
	look(140);
	ck_assert(!found.has_lockup);
}
END_TEST

START_TEST(vcpu_that_goes_on_is_not_locked_up)
{
	struct made_thread *switches = add(5, 'R', 0), *in_user = add(6, 'R', 1),
			   *changes = add(7, 'R', 2), *idles = add(8, 'R', 3);

	for (int i = 0; i < 4; i++)
		vcpu_state[i] = SS_VCPU_KERNEL;
	for (int i = 100; i < 300; i += 5) {
		switches->switches++;
		vcpu_state[1] = i % 15 ? SS_VCPU_KERNEL : SS_VCPU_USER;
		changes->tid = 1000 + i;
		vcpu_state[3] = i % 10 ? SS_VCPU_KERNEL : SS_VCPU_IDLE;
		look(i);
		ck_assert(!found.has_lockup);
	}
	(void)in_user;
	(void)idles;
}
END_TEST

START_TEST(what_is_not_asked_for_is_not_looked_for)
{
	ctl_watch_destroy(watch);
	watch = ctl_watch_create(0, 5 * SEC);
	(void)add(2, 'D', -1);
	(void)add(5, 'R', 0);
	vcpu_state[0] = SS_VCPU_KERNEL;
	look(100);
	look(200);
	ck_assert(!found.has_hung && found.has_lockup);
}
END_TEST

START_TEST(any_number_of_threads_is_taken)
{
	for (int32_t i = 0; i < THREADS_MAX; i++)
		(void)add(THREADS_MAX - i, 'D', -1);
	look(100);
	look(200);
	ck_assert(found.has_hung);
}
END_TEST

START_TEST(damaged_streams_are_looked_at_without_harm)
{
	(void)add(2, 'D', -1);
	(void)add(INT32_MAX, 'R', INT32_MAX);
	(void)add(7, 'R', INT32_MIN);
	look(100);
	const size_t size = make();
	for (size_t cut = 0; cut < size; cut += 3) {
		ctl_watch_look(watch, stream, cut, 300 * SEC, 300 * SEC, &found);
		ck_assert(!found.has_hung);
	}
	for (size_t at = 0; at < size; at++) {
		(void)make();
		stream[at] ^= 0xff;
		ctl_watch_look(watch, stream, size, 101 * SEC, 101 * SEC, &found);
	}
}
END_TEST

Suite *suite_watch(void)
{
	Suite *s = suite_create("watch");
	TCase *tc = tcase_create("watch");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, hung_thread_is_found_once_after_its_time);
	tcase_add_test(tc, thread_that_ran_meanwhile_is_not_hung);
	tcase_add_test(tc, thread_that_was_awake_at_a_look_is_not_hung);
	tcase_add_test(tc, first_look_knows_when_threads_ran_last);
	tcase_add_test(tc, stopped_guest_has_no_hung_threads);
	tcase_add_test(tc, clock_of_the_threads_is_used_when_there_is_no_other);
	tcase_add_test(tc, of_several_the_longest_is_told);
	tcase_add_test(tc, later_one_is_told_after_a_pause);
	tcase_add_test(tc, vcpu_in_the_kernel_without_a_switch_is_locked_up);
	tcase_add_test(tc, vcpu_that_goes_on_is_not_locked_up);
	tcase_add_test(tc, what_is_not_asked_for_is_not_looked_for);
	tcase_add_test(tc, any_number_of_threads_is_taken);
	tcase_add_test(tc, damaged_streams_are_looked_at_without_harm);
	suite_add_tcase(s, tc);
	return s;
}
