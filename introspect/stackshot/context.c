/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a capture in progress. */
#include "introspect/stackshot/context.h"

#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Rounds of a waiting loop without giving up the CPU. */
#define SPIN_ROUNDS 256
/*
 * How long a worker spins for the guest to stop before it sleeps. No longer: the vCPUs want the CPUs to
 * leave the guest, and a thread that gives way to them again and again stays in the queue of its CPU,
 * where the calling thread may then collect, while another CPU is idle. One that is woken gets that.
 */
#define SPIN_FOR_STOP_NS (200 * GS_NS_PER_US)
/* ... and the calling thread for the workers: if it takes longer, they need its CPU. */
#define SPIN_FOR_WORKERS_NS (100 * GS_NS_PER_US)

#define CLOSED (UINT32_C(1) << 31) /* in working */

static enum ss_state state_of(uint32_t word)
{
	return word & ((1u << SS_STATE_BITS) - 1);
}

static enum gs_code code_of(uint32_t word)
{
	switch (state_of(word)) {
	case SS_ERRORED: return word >> SS_STATE_BITS;
	case SS_PANICKED: return GS_EBUSY;
	case SS_INACTIVE:
	case SS_SETUP:
	case SS_RUNNING: break;
	}
	return GS_OK;
}

/*
 * Acquire and release on every transition: what was written before one is seen by who finds the state
 * that it made, in ss_context_enter() above all.
 */
static bool change(struct ss_context *c, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong_explicit(&c->state, &from, to, memory_order_acq_rel,
						       memory_order_relaxed);
}

static uint32_t load(const struct ss_context *c)
{
	return atomic_load_explicit(&c->state, memory_order_acquire);
}

enum ss_state ss_context_state(const struct ss_context *c)
{
	return state_of(load(c));
}

/* Wake who sleeps on a word that has just been changed. */
static void wake(struct ss_context *c, _Atomic uint32_t *word)
{
	/*
	 * Sequentially consistent with the counterpart in sleep_on(): either the new value is seen
	 * there, or the sleeper here.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&c->sleepers, memory_order_relaxed))
		(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Sleep until a word has another value than @p seen; may come back before. */
static void sleep_on(struct ss_context *c, _Atomic uint32_t *word, uint32_t seen)
{
	atomic_fetch_add_explicit(&c->sleepers, 1, memory_order_seq_cst);
	/* comes back at once if the value is another one already */
	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	atomic_fetch_sub_explicit(&c->sleepers, 1, memory_order_relaxed);
}

/*
 * One round of waiting for a word to change from @p seen: spin for @p ns, then sleep.
 *
 * @param start  0 before the first round
 */
static void wait_round(struct ss_context *c, _Atomic uint32_t *word, uint32_t seen, uint64_t ns,
		       uint32_t *rounds, uint64_t *start)
{
	ss_relax(rounds);
	if (*rounds % SPIN_ROUNDS)
		return;
	uint64_t now = gs_clock_ns();
	if (!*start)
		*start = now;
	else if (now - *start > ns)
		sleep_on(c, word, seen);
}

bool ss_context_setup(struct ss_context *c, uint64_t deadline_ns)
{
	if (!change(c, SS_INACTIVE, SS_SETUP))
		return false;
	atomic_store_explicit(&c->working, 1, memory_order_relaxed);
	atomic_store_explicit(&c->late, false, memory_order_relaxed);
	c->deadline_ns = deadline_ns;
	return true;
}

bool ss_context_run(struct ss_context *c)
{
	bool done = change(c, SS_SETUP, SS_RUNNING);

	wake(c, &c->state);
	return done;
}

void ss_context_fail(struct ss_context *c, enum gs_code code)
{
	uint32_t word = (uint32_t)code << SS_STATE_BITS | SS_ERRORED;

	if (!change(c, SS_RUNNING, word))
		(void)change(c, SS_SETUP, word);
	wake(c, &c->state);
}

void ss_context_panic(struct ss_context *c)
{
	uint32_t word = load(c);

	while (state_of(word) != SS_INACTIVE && state_of(word) != SS_PANICKED &&
	       !atomic_compare_exchange_weak_explicit(&c->state, &word, SS_PANICKED,
						      memory_order_acq_rel, memory_order_acquire))
		;
	wake(c, &c->state);
}

enum gs_code ss_context_end(struct ss_context *c)
{
	uint32_t word = load(c);

	while (!atomic_compare_exchange_weak_explicit(&c->state, &word, SS_INACTIVE,
						      memory_order_acq_rel, memory_order_acquire))
		;
	wake(c, &c->state);
	return code_of(word);
}

void ss_relax(uint32_t *rounds)
{
	if (++*rounds % SPIN_ROUNDS == 0) {
		(void)sched_yield();
		return;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void ss_context_join(struct ss_context *c, uint32_t helpers)
{
	atomic_store_explicit(&c->arrived, 0, memory_order_relaxed);
	atomic_store_explicit(&c->joined, helpers, memory_order_relaxed);
}

void ss_context_wait_arrived(struct ss_context *c)
{
	const uint32_t all = atomic_load_explicit(&c->joined, memory_order_relaxed);
	uint32_t rounds = 0, now;
	uint64_t start = 0;

	while ((now = atomic_load_explicit(&c->arrived, memory_order_relaxed)) < all)
		wait_round(c, &c->arrived, now, SPIN_FOR_WORKERS_NS, &rounds, &start);
}

bool ss_context_enter(struct ss_context *c)
{
	uint32_t rounds = 0, word, working;
	uint64_t start = 0;

	atomic_fetch_add_explicit(&c->arrived, 1, memory_order_relaxed);
	wake(c, &c->arrived);
	while (state_of(word = load(c)) == SS_SETUP)
		wait_round(c, &c->state, word, SPIN_FOR_STOP_NS, &rounds, &start);
	if (state_of(word) != SS_RUNNING)
		return false;
	working = atomic_load_explicit(&c->working, memory_order_relaxed);
	do {
		if (working & CLOSED)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		&c->working, &working, working + 1, memory_order_relaxed, memory_order_relaxed));
	return true;
}

void ss_context_leave(struct ss_context *c)
{
	/* release: pairs with the acquire in ss_context_wait_done(): all that was recorded is there */
	atomic_fetch_sub_explicit(&c->working, 1, memory_order_release);
	wake(c, &c->working);
}

void ss_context_gone(struct ss_context *c)
{
	/* release: pairs with the acquire in ss_context_wait_gone(): the helper uses nothing more */
	atomic_fetch_sub_explicit(&c->joined, 1, memory_order_release);
	wake(c, &c->joined);
}

void ss_context_wait_done(struct ss_context *c)
{
	uint32_t rounds = 0, now;
	uint64_t start = 0;

	atomic_fetch_or_explicit(&c->working, CLOSED, memory_order_relaxed);
	/* acquire: pairs with the release in ss_context_leave() */
	while ((now = atomic_load_explicit(&c->working, memory_order_acquire)) != CLOSED)
		wait_round(c, &c->working, now, SPIN_FOR_WORKERS_NS, &rounds, &start);
}

void ss_context_wait_gone(struct ss_context *c)
{
	uint32_t rounds = 0, now;
	uint64_t start = 0;

	/* acquire: pairs with the release in ss_context_gone() */
	while ((now = atomic_load_explicit(&c->joined, memory_order_acquire)))
		wait_round(c, &c->joined, now, SPIN_FOR_WORKERS_NS, &rounds, &start);
}

enum gs_code ss_context_check(struct ss_context *c)
{
	if (ss_context_state(c) != SS_RUNNING)
		return GS_EBUSY;
	if (!c->deadline_ns)
		return GS_OK;
	if (!atomic_load_explicit(&c->late, memory_order_relaxed)) {
		if (gs_clock_ns() < c->deadline_ns)
			return GS_OK;
		/* one look at the clock says it to all */
		atomic_store_explicit(&c->late, true, memory_order_relaxed);
	}
	return GS_ETIMEDOUT;
}
