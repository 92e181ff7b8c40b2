/* SPDX-License-Identifier: Apache-2.0 */
/* Parked threads. */
#include "introspect/stackshot/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"

struct thread {
	struct ss_pool *pool;
	uint32_t number;
	pthread_t id;
};

struct ss_pool {
	void (*run)(void *arg, uint32_t thread);
	void *arg;
	pthread_mutex_t lock; /* guards round and quit */
	pthread_cond_t wake;
	uint64_t round; /* calls of ss_pool_run() */
	bool quit;
	uint32_t threads; /* started */
	struct thread *thread;
	cpu_set_t cpus;	 /* that the process may use */
	int avoided_cpu; /* of these, the one that the threads keep off; -1: none */
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct ss_pool *p = t->pool;
	char name[16];

	(void)snprintf(name, sizeof(name), "stackshot-%u", t->number + 1);
	(void)pthread_setname_np(pthread_self(), name); /* for people only */
	for (uint64_t done = 0;;) {
		pthread_mutex_lock(&p->lock);
		while (p->round == done && !p->quit)
			pthread_cond_wait(&p->wake, &p->lock);
		bool quit = p->quit;
		done = p->round;
		pthread_mutex_unlock(&p->lock);
		if (quit)
			return NULL;
		p->run(p->arg, t->number);
	}
}

static int start_thread(struct thread *t)
{
	sigset_t all, before;

	/* signals are for the threads of others: vCPUs, the event loop */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&t->id, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

enum gs_code ss_pool_create(uint32_t threads, void (*run)(void *arg, uint32_t thread), void *arg,
			    struct ss_pool **pool_out, struct gs_error *err)
{
	struct ss_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	p->run = run;
	p->avoided_cpu = -1;
	/* fails on machines of more than 1,024 CPUs; it is only a matter of speed */
	if (sched_getaffinity(0, sizeof(p->cpus), &p->cpus))
		CPU_ZERO(&p->cpus);
	p->arg = arg;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	p->thread = gs_array_alloc(threads, sizeof(*p->thread));
	if (threads && !p->thread) {
		ss_pool_destroy(p);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	for (; p->threads < threads; p->threads++) {
		struct thread *t = &p->thread[p->threads];

		*t = (struct thread){ .pool = p, .number = p->threads };
		int sys_errno = start_thread(t);
		if (sys_errno) {
			ss_pool_destroy(p);
			return gs_fail_errno(err, GS_ENOSPC, sys_errno,
					     "starting a thread for captures");
		}
	}
	*pool_out = p;
	return GS_OK;
}

void ss_pool_destroy(struct ss_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->threads; i++)
		pthread_join(p->thread[i].id, NULL);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p->thread);
	free(p);
}

void ss_pool_run(struct ss_pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->round++;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

void ss_pool_avoid_own_cpu(struct ss_pool *p)
{
	const int cpu = sched_getcpu();
	cpu_set_t others = p->cpus;

	if (cpu < 0 || cpu >= CPU_SETSIZE || cpu == p->avoided_cpu || !CPU_ISSET(cpu, &others) ||
	    CPU_COUNT(&others) < 2)
		return;
	CPU_CLR(cpu, &others);
	for (uint32_t i = 0; i < p->threads; i++)
		(void)pthread_setaffinity_np(p->thread[i].id, sizeof(others), &others);
	p->avoided_cpu = cpu;
}
