/* SPDX-License-Identifier: Apache-2.0 */
/* Provider "profile": profile-N on each vCPU, tick-N on one, by a thread; and the deadman rule. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "control/trace_priv.h"

/* --- probes --------------------------------------------------------------------------------------
 */

/* "99", "99hz", "10ms", "1s" as a period. @return false: none, or out of range */
static bool parse_period(const char *text, uint64_t *period_ns_out)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ms", GS_NS_PER_MS }, { "s", GS_NS_PER_SEC }, { "us", GS_NS_PER_US } };
	uint64_t n = 0;
	size_t digits = 0;

	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 9; digits++)
		n = 10 * n + (uint64_t)(text[digits] - '0');
	const char *unit = text + digits;
	/* one spelling for each number, or a rate would be two probes */
	if (!digits || text[0] == '0')
		return false;
	if (!*unit || !strcmp(unit, "hz")) {
		*period_ns_out = GS_NS_PER_SEC / n;
		return n <= CTL_TRACE_HZ_MAX;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].unit) != 0)
			continue;
		*period_ns_out = n * units[i].ns;
		return *period_ns_out >= GS_NS_PER_SEC / CTL_TRACE_HZ_MAX &&
		       *period_ns_out <= 3600 * GS_NS_PER_SEC;
	}
	return false;
}

/* A rate is a probe as soon as somebody names it. */
static void provide(void *arg, const struct probe_name *pattern)
{
	struct ctl_trace *t = arg;
	const bool is_tick = !strncmp(pattern->name, "tick-", 5);
	uint64_t period_ns;
	uint32_t id;

	if (!is_tick && strncmp(pattern->name, "profile-", 8) != 0)
		return;
	if (*pattern->module || *pattern->function ||
	    !parse_period(strchr(pattern->name, '-') + 1, &period_ns) ||
	    probe_find(t->profile, "", "", pattern->name, &id))
		return;
	pthread_mutex_lock(&t->lock);
	const uint32_t key = t->rates;
	const bool room = key < TRACE_RATES_MAX;
	if (room)
		t->rate[t->rates++] =
			(struct trace_rate){ .period_ns = period_ns, .is_tick = is_tick };
	pthread_mutex_unlock(&t->lock);
	/* without room, or memory, it matches nothing, which the answer says */
	if (room)
		GS_IGNORE(probe_create(t->profile, "", "", pattern->name, key, &id));
}

static enum gs_code enable(void *arg, uint64_t key, uint32_t id, struct gs_error *err)
{
	struct ctl_trace *t = arg;
	struct trace_rate *rate = &t->rate[key];

	(void)err;
	pthread_mutex_lock(&t->lock);
	rate->next_ns = gs_clock_ns() + rate->period_ns;
	rate->due = rate->late = 0;
	rate->id = id;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	return GS_OK;
}

static void disable(void *arg, uint64_t key)
{
	struct ctl_trace *t = arg;

	pthread_mutex_lock(&t->lock);
	t->rate[key].id = 0;
	pthread_mutex_unlock(&t->lock);
}

enum gs_code ctl_trace_add_profile(struct ctl_trace *t, struct gs_error *err)
{
	static const struct probe_provider_ops ops = { .provide = provide,
						       .enable = enable,
						       .disable = disable };

	return probe_provider_add(t->e, "profile", &ops, t, &t->profile, err);
}

/* --- firing --------------------------------------------------------------------------------------
 */

static void fire_profiles(struct ctl_trace *t, const struct trace_due *due, uint32_t vcpu,
			  const struct guest_vcpu_regs *regs)
{
	for (uint32_t i = 0; i < due->count; i++)
		if (!due->probe[i].is_tick)
			probe_fire(t->e, due->probe[i].id,
				   &(struct probe_context){
					   .vcpu = vcpu,
					   .regs = regs,
					   .args = { due->probe[i].late, due->probe[i].due },
					   .arg_count = 2 });
}

/* The vCPU is stopped. An idle one executes nothing. */
static void look_at(struct ctl_trace *t, const struct trace_due *due, struct lnx_view *v,
		    uint32_t vcpu)
{
	struct guest_vcpu_regs regs;
	bool idle = false;

	if (guest_vcpu_regs(t->g, vcpu, &regs) || regs.state == GUEST_VCPU_OFF ||
	    !guest_regs_have_frame(&regs))
		return;
	if (v && !(regs.valid & GUEST_REGS_TPIDR) && !lnx_percpu_offset(v, vcpu, &regs.tpidr_el1))
		regs.valid |= GUEST_REGS_TPIDR;
	if (regs.valid & GUEST_REGS_TPIDR)
		t->tpidr[vcpu] = regs.tpidr_el1;
	if (v && t->tpidr[vcpu] && !lnx_cpu_is_idle(v, t->tpidr[vcpu], &idle) && idle)
		return;
	fire_profiles(t, due, vcpu, &regs);
}

static void profile_vcpu(struct ctl_trace *t, const struct trace_due *due, struct lnx_view *v,
			 uint32_t vcpu)
{
	bool idle;

	if (v && t->tpidr[vcpu] && !lnx_cpu_is_idle(v, t->tpidr[vcpu], &idle) && idle)
		return; /* not stopped for nothing */
	if (guest_hold_vcpu(t->g, vcpu, NULL))
		return;
	look_at(t, due, v, vcpu);
	GS_IGNORE(guest_release_vcpu(t->g, vcpu, NULL)); /* what was held can be released */
}

static void profile_stopped(struct ctl_trace *t, const struct trace_due *due, struct lnx_view *v)
{
	if (guest_stop(t->g, NULL))
		return;
	for (uint32_t i = 0; i < t->g->vcpu_count; i++)
		look_at(t, due, v, i);
	GS_IGNORE(guest_resume(t->g, NULL)); /* the source says so itself */
}

/* The kernel stays while its lock is held, as it does for the sampler. */
static void profile(struct ctl_trace *t, const struct trace_due *due)
{
	struct ctl_btlogs *b = t->btlogs;
	struct lnx_view view;
	bool known = false;

	if (b) {
		pthread_mutex_lock(&b->lock);
		known = b->state.k && lnx_kernel_is_current(b->state.k, t->g);
		if (known)
			lnx_view_init(&view, b->state.k, t->g);
	}
	if (!t->g->ops->hold_vcpu)
		profile_stopped(t, due, known ? &view : NULL);
	for (uint32_t i = 0; t->g->ops->hold_vcpu && i < t->g->vcpu_count; i++)
		profile_vcpu(t, due, known ? &view : NULL, i);
	if (b)
		pthread_mutex_unlock(&b->lock);
}

static void fire_ticks(struct ctl_trace *t, const struct trace_due *due)
{
	for (uint32_t i = 0; i < due->count; i++)
		if (due->probe[i].is_tick)
			probe_fire(t->e, due->probe[i].id,
				   &(struct probe_context){
					   .args = { due->probe[i].late, due->probe[i].due },
					   .arg_count = 2 });
}

/* --- the thread ----------------------------------------------------------------------------------
 */

/* @return when the next one is due */
static uint64_t take_due_locked(struct ctl_trace *t, uint64_t now_ns, struct trace_due *due_out)
{
	uint64_t next_ns = UINT64_MAX;

	*due_out = (struct trace_due){ 0 };
	for (uint32_t i = 0; i < t->rates; i++) {
		struct trace_rate *r = &t->rate[i];

		if (!r->id)
			continue;
		if (r->next_ns <= now_ns) {
			const uint64_t late = (now_ns - r->next_ns) / r->period_ns;

			r->late += late;
			r->due += late + 1;
			r->next_ns += (late + 1) * r->period_ns;
			due_out->probe[due_out->count].id = r->id;
			due_out->probe[due_out->count].is_tick = r->is_tick;
			due_out->probe[due_out->count].due = r->due;
			due_out->probe[due_out->count++].late = r->late;
			due_out->profiles += !r->is_tick;
		}
		next_ns = gs_min(next_ns, r->next_ns);
	}
	return next_ns;
}

static void *thread_main(void *arg)
{
	struct ctl_trace *t = arg;
	uint64_t deadman_ns = gs_clock_ns() + GS_NS_PER_SEC;
	struct trace_due *due = &t->due;

	pthread_setname_np(pthread_self(), "gs-trace");
	pthread_mutex_lock(&t->lock);
	while (!t->ending) {
		const uint64_t now_ns = gs_clock_ns();
		const uint64_t next_ns = gs_min(take_due_locked(t, now_ns, due), deadman_ns);
		const bool look = now_ns >= deadman_ns;
		const bool traced = !LIST_EMPTY(&t->sessions);

		if (!due->count && !look) {
			const struct timespec until = { .tv_sec = (time_t)(next_ns / GS_NS_PER_SEC),
							.tv_nsec =
								(long)(next_ns % GS_NS_PER_SEC) };

			pthread_cond_timedwait(&t->wake, &t->lock, &until);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		fire_ticks(t, due);
		if (due->profiles) {
			profile(t, due);
			ctl_btlogs_give_way();
		}
		if (look) {
			probe_engine_deadman(t->e);
			if (traced && t->btlogs)
				ctl_btlogs_look(t->btlogs);
			deadman_ns = gs_clock_ns() + GS_NS_PER_SEC;
		}
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

enum gs_code ctl_trace_start(struct ctl_trace *t, struct gs_error *err)
{
	sigset_t all, old;

	/* signals are others'; a fault of a file that was cut while it is mapped is this thread's */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int e = pthread_create(&t->thread, NULL, thread_main, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	t->has_thread = !e;
	return e ? gs_fail_errno(err, GS_ENOSPC, e, "start the tracing thread") : GS_OK;
}

void ctl_trace_join(struct ctl_trace *t)
{
	if (!t->has_thread)
		return;
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	t->has_thread = false;
}
