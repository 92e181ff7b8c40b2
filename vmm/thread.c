/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the machine: named, every signal blocked but at most the kick. */
#include "vmm/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define KICK_INTERVAL_NS (10 * GS_NS_PER_MS)
#define KICK_LATEST_NS	 (60 * GS_NS_PER_SEC)

static void kick_handler(int sig)
{
	(void)sig; /* exists to interrupt a system call */
}

enum gs_code vmm_thread_kick_install(struct gs_error *err)
{
	struct sigaction action = { .sa_handler = kick_handler };

	// No SA_RESTART: the call has to come back.
	sigemptyset(&action.sa_mask);
	if (sigaction(VMM_SIGNAL_KICK, &action, NULL))
		return gs_fail_errno(err, GS_ESYS, errno, "installing the kick signal's handler");
	return GS_OK;
}

static void *thread_main(void *arg)
{
	struct vmm_thread *t = arg;

	t->fn(t->arg);
	sem_post(&t->ended);
	return NULL;
}

enum gs_code vmm_thread_start(struct vmm_thread *t, const char *name, bool kickable,
			      void (*fn)(void *), void *arg, struct gs_error *err)
{
	sigset_t mask, old;

	t->fn = fn;
	t->arg = arg;
	sem_init(&t->ended, 0, 0); // cannot fail with these arguments

	// The new thread inherits the mask, so that no signal finds it with the wrong one. Faults
	// stay open: blocked, they would end the process without a word.
	sigfillset(&mask);
	sigdelset(&mask, SIGSEGV);
	sigdelset(&mask, SIGBUS);
	sigdelset(&mask, SIGFPE);
	sigdelset(&mask, SIGILL);
	if (kickable)
		sigdelset(&mask, VMM_SIGNAL_KICK);
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	int rc = pthread_create(&t->id, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return gs_fail_errno(err, GS_ESYS, rc, "starting thread %s", name);
	t->started = true;
	(void)pthread_setname_np(t->id, name); // only a name
	return GS_OK;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / GS_NS_PER_SEC), (long)(ns % GS_NS_PER_SEC) };
}

void vmm_thread_join(struct vmm_thread *t, uint64_t kick_after_ns)
{
	if (!t->started)
		return;
	struct timespec until = timespec_of(gs_clock_ns() + gs_min(kick_after_ns, KICK_LATEST_NS));
	// A kick may come just before the call it is meant for: repeat it.
	while (sem_clockwait(&t->ended, CLOCK_MONOTONIC, &until) && kick_after_ns != UINT64_MAX) {
		if (errno == ETIMEDOUT)
			pthread_kill(t->id, VMM_SIGNAL_KICK);
		until = timespec_of(gs_clock_ns() + KICK_INTERVAL_NS);
	}
	pthread_join(t->id, NULL);
	sem_destroy(&t->ended);
	t->started = false;
}

enum gs_code vmm_lock_init(pthread_mutex_t *lock, struct gs_error *err)
{
	int rc = pthread_mutex_init(lock, NULL);

	return rc ? gs_fail_errno(err, GS_ESYS, rc, "making a lock") : GS_OK;
}

enum gs_code vmm_cond_init(pthread_cond_t *cond, struct gs_error *err)
{
	pthread_condattr_t attr;
	int rc = pthread_condattr_init(&attr);

	if (rc)
		return gs_fail_errno(err, GS_ESYS, rc, "making a condition");
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	rc = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return rc ? gs_fail_errno(err, GS_ESYS, rc, "making a condition") : GS_OK;
}

bool vmm_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
	struct timespec until = timespec_of(until_ns);

	return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
