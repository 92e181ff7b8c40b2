/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own thread: grace periods, rehash, memory ahead of use, dropping at the limit. */
#include "introspect/btlog/priv.h"

#include <signal.h>

/* After a grace period nobody reads these entries any more. */
static void wait_out_readers(struct btl_library *lib)
{
	btl_dead_append(lib, &lib->grace, &lib->pending);
	pthread_mutex_unlock(&lib->lock);
	btl_synchronize(&lib->rcu_tag);
	pthread_mutex_lock(&lib->lock);
	btl_dead_append(lib, &lib->ready, &lib->grace);
	lib->stats.grace_periods++;
}

static void run_unlocked(struct btl_library *lib, void (*job)(struct btl_library *lib))
{
	pthread_mutex_unlock(&lib->lock);
	job(lib);
	pthread_mutex_lock(&lib->lock);
}

static void finish_locked(struct btl_library *lib)
{
	lib->rounds++;
	pthread_cond_broadcast(&lib->done);
}

/* Each thing that is wanted, once: none waits for another one that is wanted all the time. */
static bool do_what_is_wanted(struct btl_library *lib)
{
	uint64_t rounds = lib->rounds;

	if (lib->pending.count) {
		wait_out_readers(lib);
		finish_locked(lib);
	}
	if (lib->want_rehash) {
		run_unlocked(lib, btl_rehash_run);
		finish_locked(lib);
	}
	if (lib->want_touch) {
		lib->want_touch = false;
		(void)btl_memory_touch_locked(lib); // at the limit: callers see that for themselves
		finish_locked(lib);
	}
	if (lib->want_drop) {
		run_unlocked(lib, btl_drop_run);
		lib->want_drop = false;
		lib->drop_rounds++;
		finish_locked(lib);
	}
	return lib->rounds != rounds;
}

static void *keeper(void *arg)
{
	struct btl_library *lib = arg;

	pthread_mutex_lock(&lib->lock);
	while (!lib->quit) {
		lib->busy = true;
		if (do_what_is_wanted(lib))
			continue;
		lib->busy = false;
		pthread_cond_broadcast(&lib->done);
		pthread_cond_wait(&lib->work, &lib->lock);
	}
	pthread_mutex_unlock(&lib->lock);
	return NULL;
}

static bool start_thread(struct btl_library *lib)
{
	sigset_t all, old;

	/* signals are for other threads */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&lib->thread, NULL, keeper, lib);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!rc)
		pthread_setname_np(lib->thread, "btlog");
	return rc == 0;
}

static void deinit_locks(struct btl_library *lib)
{
	pthread_cond_destroy(&lib->done);
	pthread_cond_destroy(&lib->work);
	pthread_mutex_destroy(&lib->log_list);
	pthread_mutex_destroy(&lib->lock);
}

enum gs_code btl_keeper_start(struct btl_library *lib, struct gs_error *err)
{
	pthread_mutex_init(&lib->lock, NULL);
	pthread_mutex_init(&lib->log_list, NULL);
	pthread_cond_init(&lib->work, NULL);
	pthread_cond_init(&lib->done, NULL);
	if (start_thread(lib))
		return GS_OK;
	deinit_locks(lib);
	return gs_fail(err, GS_ESYS, "no thread for the backtrace library");
}

void btl_keeper_stop(struct btl_library *lib)
{
	pthread_mutex_lock(&lib->lock);
	lib->quit = true;
	btl_keeper_kick_locked(lib);
	pthread_mutex_unlock(&lib->lock);
	pthread_join(lib->thread, NULL);
	deinit_locks(lib);
}

void btl_keeper_kick_locked(struct btl_library *lib)
{
	if (!lib->busy)
		pthread_cond_signal(&lib->work);
}

void btl_keeper_wait_locked(struct btl_library *lib)
{
	uint64_t rounds = lib->rounds;

	while (lib->rounds == rounds && !lib->ready.count)
		pthread_cond_wait(&lib->done, &lib->lock);
}

void btl_library_settle(struct btl_library *lib)
{
	pthread_mutex_lock(&lib->lock);
	while (lib->busy || lib->pending.count || lib->want_rehash || lib->want_touch ||
	       lib->want_drop)
		pthread_cond_wait(&lib->done, &lib->lock);
	pthread_mutex_unlock(&lib->lock);
}
