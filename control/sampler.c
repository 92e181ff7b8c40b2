/* SPDX-License-Identifier: Apache-2.0 */
/* Sampling: what each vCPU executes, some times a second, one stopped at a time. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "control/btlogs_code.h"
#include "control/btlogs_priv.h"

/* Rounds between two looks whether the kernel is still the same. */
#define KERNEL_CHECK_NS GS_NS_PER_SEC
/* Frames may lie where nothing is ever known to be: filters in the classic form. */
#define CODE_LOOK_NS (GS_NS_PER_SEC / 10)

/* The thread's own; frames are too many for a stack. */
struct sampler {
	struct ctl_btlogs *b;
	uint64_t address[LNX_FRAMES_MAX];
	uint8_t kind[LNX_FRAMES_MAX];
	uint64_t frames[LNX_FRAMES_MAX];
	uint64_t tpidr[GUEST_VCPUS_MAX]; /* of each vCPU, once known; 0: not yet */
	uint64_t checked_ns, looked_ns;	 /* after the kernel; at its modules */
	struct ctl_sample_stats add;	 /* of the round under way */
};

/* A vCPU that waits for work need not be stopped: its run queue says so. */
static bool is_idle(struct sampler *s, struct lnx_view *v, uint32_t vcpu)
{
	bool idle;

	return s->tpidr[vcpu] && !lnx_cpu_is_idle(v, s->tpidr[vcpu], &idle) && idle;
}

/* What the vCPU executes is there as long as that is stopped. */
static void meet(struct sampler *s, const uint64_t *frames, uint32_t count)
{
	struct btlogs_code *code = s->b->state.code;
	const uint64_t now = gs_clock_ns();

	if (ctl_code_knows(code, frames, count))
		return;
	if (now - s->looked_ns > CODE_LOOK_NS) {
		s->looked_ns = now;
		ctl_code_look(code);
	}
	ctl_code_meet(code, frames, count);
}

static void record(struct sampler *s, uint64_t element, uint32_t op, const uint64_t *frames,
		   uint32_t count)
{
	struct btlogs_state *state = &s->b->state;
	uint32_t ref;

	if (!btl_log_wants(state->samples) || btl_get(state->lib, frames, count, 0, &ref))
		return; /* counted by the library and the log */
	meet(s, frames, count);
	if (!btl_log_record(state->samples, element, op, ref, gs_clock_ns()))
		s->add.samples++;
}

/* Without a stack, since one that is idle is mostly not stopped for it. */
static void record_idle(struct sampler *s, uint32_t vcpu)
{
	s->add.idle++;
	record(s, vcpu, BTL_OP_IDLE, NULL, 0);
}

/* The vCPU is stopped. */
static void look_at(struct sampler *s, struct lnx_view *v, uint32_t vcpu)
{
	static const uint64_t user = BTL_FRAME_PSEUDO(BTL_PSEUDO_USER);
	struct lnx_stack stack = { .address = s->address, .kind = s->kind };
	struct guest_vcpu_regs regs;
	struct lnx_task task;
	gva_t current;

	if (guest_vcpu_regs(s->b->g, vcpu, &regs) || regs.state == GUEST_VCPU_OFF ||
	    !guest_regs_have_frame(&regs)) {
		s->add.unknown++;
		return;
	}
	if (!(regs.valid & GUEST_REGS_TPIDR) && !lnx_percpu_offset(v, vcpu, &regs.tpidr_el1))
		regs.valid |= GUEST_REGS_TPIDR;
	if (regs.valid & GUEST_REGS_TPIDR)
		s->tpidr[vcpu] = regs.tpidr_el1;
	if (lnx_vcpu_current(v, &regs, &current) || lnx_task_read(v, current, &task)) {
		s->add.unknown++;
		return;
	}
	if (a64_pstate_el(regs.pstate) == 0) {
		s->add.user++;
		record(s, current.a, BTL_OP_RUNNING, &user, 1);
		return;
	}
	if (task.pid == 0) {
		record_idle(s, vcpu);
		return;
	}
	lnx_unwind_running(v, &task, &regs, &stack);
	uint32_t n = ctl_btlogs_frames(stack.address, stack.kind, stack.count, s->frames);
	record(s, current.a, BTL_OP_RUNNING, s->frames, n);
}

static void sample_vcpu(struct sampler *s, struct lnx_view *v, uint32_t vcpu)
{
	struct guest *g = s->b->g;

	if (is_idle(s, v, vcpu)) {
		record_idle(s, vcpu);
		return;
	}
	uint64_t start = gs_clock_ns();
	if (guest_hold_vcpu(g, vcpu, NULL)) {
		s->add.failed++;
		return;
	}
	look_at(s, v, vcpu);
	GS_IGNORE(guest_release_vcpu(g, vcpu, NULL)); /* what was held can be released */
	s->add.held_ns += gs_clock_ns() - start;
}

/* The source can only stop all: one stop for all vCPUs. */
static void sample_stopped(struct sampler *s, struct lnx_view *v)
{
	struct guest *g = s->b->g;
	uint64_t start = gs_clock_ns();

	if (guest_stop(g, NULL)) {
		s->add.failed += g->vcpu_count;
		return;
	}
	for (uint32_t i = 0; i < g->vcpu_count; i++)
		look_at(s, v, i);
	GS_IGNORE(guest_resume(g, &s->add.end)); /* a failure stays there, and ends it all */
	s->add.held_ns += (gs_clock_ns() - start) * g->vcpu_count;
}

static enum gs_code sample_round(struct sampler *s, struct gs_error *err)
{
	struct ctl_btlogs *b = s->b;
	const uint64_t now = gs_clock_ns();
	enum gs_code rc = GS_OK;

	pthread_mutex_lock(&b->lock);
	if (!b->state.k || now - s->checked_ns > KERNEL_CHECK_NS) {
		s->checked_ns = now;
		rc = ctl_btlogs_ready_locked(b, err);
		if (!rc)
			ctl_code_look(b->state.code);
	}
	if (!rc) {
		struct lnx_view v;

		/* of the running guest: no translation is kept from one round to the next */
		lnx_view_init(&v, b->state.k, b->g);
		s->add.one_by_one = b->g->ops->hold_vcpu != NULL;
		if (!s->add.one_by_one)
			sample_stopped(s, &v);
		for (uint32_t i = 0; s->add.one_by_one && i < b->g->vcpu_count; i++)
			sample_vcpu(s, &v, i);
	}
	pthread_mutex_unlock(&b->lock);
	return rc;
}

static void count_locked(struct ctl_sample_stats *sum, const struct ctl_sample_stats *add)
{
	sum->rounds++;
	sum->samples += add->samples;
	sum->idle += add->idle;
	sum->user += add->user;
	sum->unknown += add->unknown;
	sum->failed += add->failed;
	sum->held_ns += add->held_ns;
	sum->one_by_one = add->one_by_one;
}

/* Wait for the next round; those that passed meanwhile are counted as late. @return false: the end */
static bool await_round_locked(struct ctl_btlogs *b, uint64_t *next_ns)
{
	const uint64_t period = GS_NS_PER_SEC / b->hz;

	*next_ns += period;
	for (;;) {
		uint64_t now = gs_clock_ns();

		if (b->ending)
			return false;
		if (now >= *next_ns) {
			uint64_t late = (now - *next_ns) / period;

			b->stats.late += late;
			*next_ns += late * period;
			return true;
		}
		struct timespec until = { .tv_sec = (time_t)(*next_ns / GS_NS_PER_SEC),
					  .tv_nsec = (long)(*next_ns % GS_NS_PER_SEC) };
		pthread_cond_timedwait(&b->sampler_wake, &b->sampler_lock, &until);
	}
}

static void *sampler_main(void *arg)
{
	struct sampler *s = arg;
	struct ctl_btlogs *b = s->b;
	uint64_t start = gs_clock_ns(), next = start;

	pthread_setname_np(pthread_self(), "gs-sample");
	pthread_mutex_lock(&b->sampler_lock);
	while (await_round_locked(b, &next)) {
		struct gs_error err = { 0 };

		pthread_mutex_unlock(&b->sampler_lock);
		s->add = (struct ctl_sample_stats){ 0 };
		enum gs_code rc = sample_round(s, &err);
		ctl_btlogs_give_way();
		pthread_mutex_lock(&b->sampler_lock);
		count_locked(&b->stats, &s->add);
		b->stats.run_ns = gs_clock_ns() - start;
		b->stats.end = rc ? err : s->add.end;
		if (b->stats.end.code)
			break;
	}
	b->stats.hz = 0;
	pthread_mutex_unlock(&b->sampler_lock);
	free(s);
	return NULL;
}

static void end_sampler(struct ctl_btlogs *b)
{
	pthread_mutex_lock(&b->sampler_lock);
	bool was = b->sampling;
	b->ending = true;
	pthread_cond_signal(&b->sampler_wake);
	pthread_mutex_unlock(&b->sampler_lock);
	if (was)
		pthread_join(b->sampler, NULL);
	b->sampling = false;
	b->ending = false;
}

static enum gs_code start_sampler(struct ctl_btlogs *b, uint32_t hz, struct gs_error *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	sigset_t all, old;

	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	s->b = b;
	b->hz = hz;
	b->stats = (struct ctl_sample_stats){ .hz = hz };
	/* signals are others'; a fault of a file that was cut while it is mapped is this thread's */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int e = pthread_create(&b->sampler, NULL, sampler_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (e) {
		free(s);
		b->stats.hz = 0;
		return gs_fail_errno(err, GS_ESYS, e, "start the sampling thread");
	}
	b->sampling = true;
	return GS_OK;
}

enum gs_code ctl_btlogs_sample(struct ctl_btlogs *b, uint32_t hz, struct gs_error *err)
{
	if (hz > CTL_SAMPLE_HZ_MAX)
		return gs_fail(err, GS_EINVAL, "%u Hz: at most %u", hz, CTL_SAMPLE_HZ_MAX);
	end_sampler(b);
	if (!hz)
		return GS_OK;
	pthread_mutex_lock(&b->lock);
	enum gs_code rc = ctl_btlogs_ready_locked(b, err);
	pthread_mutex_unlock(&b->lock);
	return rc ? rc : start_sampler(b, hz, err);
}
