/* SPDX-License-Identifier: Apache-2.0 */
/* Copying out of a file mapping that somebody may cut short meanwhile. */
#include "introspect/guest/dump_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

/*
 * Why a jump out of the handler is sound here: the fault is synchronous, and the only code that it
 * can interrupt is the memcpy below, which holds no lock and owns nothing. Why not simpler: pread
 * for each word costs a system call, and a page replaced in the handler would read as zeros where
 * the caller must learn that there is nothing.
 */
struct guard {
	sigjmp_buf env;
	uintptr_t src;
	size_t len;
};

/* The copy that runs on this thread, for the handler. */
static _Thread_local struct guard *volatile guard_armed;
static _Thread_local bool guard_unblocked;

/* Signal state of the process: written once, under guard_once, before any copy. */
static pthread_once_t guard_once = PTHREAD_ONCE_INIT;
static struct sigaction guard_previous;

/* Not ours: as if this handler were not there. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	if (guard_previous.sa_flags & SA_SIGINFO) {
		guard_previous.sa_sigaction(sig, info, context);
		return;
	}
	if (guard_previous.sa_handler != SIG_DFL && guard_previous.sa_handler != SIG_IGN) {
		guard_previous.sa_handler(sig);
		return;
	}
	// A fault comes again on return, and then ends the process; a sent signal has to be repeated.
	(void)sigaction(sig, &guard_previous, NULL);
	if (info->si_code <= 0)
		(void)raise(sig);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	struct guard *g = guard_armed;

	// si_code above 0: the kernel's own, not a kill(2). si_addr may be that of the page.
	if (g && info->si_code > 0 && ((uintptr_t)info->si_addr | 4095) >= g->src &&
	    (uintptr_t)info->si_addr < g->src + g->len) {
		guard_armed = NULL;
		siglongjmp(g->env, 1);
	}
	pass_on(sig, info, context);
}

static void install(void)
{
	// SA_NODEFER: the jump does not restore the mask, so the signal must not be blocked in it.
	struct sigaction act = { .sa_sigaction = on_sigbus,
				 .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	sigemptyset(&act.sa_mask);
	(void)sigaction(SIGBUS, &act, &guard_previous); /* cannot fail with these arguments */
}

void guest_guard_install(void)
{
	(void)pthread_once(&guard_once, install);
}

static void unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGBUS);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	guard_unblocked = true;
}

bool guest_guard_copy(void *dst, const void *src, size_t len)
{
	struct guard g = { .src = (uintptr_t)src, .len = len };

	if (!guard_unblocked)
		unblock();
	if (sigsetjmp(g.env, 0)) {
		unblock(); // a handler that wraps ours (ThreadSanitizer's) may have left it blocked
		return false;
	}
	guard_armed = &g;
	// Fences for the compiler: the copy stays between the two stores. Same thread, so no others.
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(dst, src, len);
	atomic_signal_fence(memory_order_seq_cst);
	guard_armed = NULL;
	return true;
}
