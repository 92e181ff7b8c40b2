/* SPDX-License-Identifier: Apache-2.0 */
/* How a run of a guest ended, and what the guest was doing. */
#include "cli/report/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/lines.h"
#include "cli/report/members.h"
#include "cli/report/since.h"
#include "cli/report/system.h"
#include "cli/report/waits.h"
#include "introspect/linux/linux.h"
#include "introspect/linux/system.h"

/* More are in the capture; guests with thousands of threads have some dozens of stacks. */
#define GROUPS_MAX 40

/* What a thread is worth telling first, above how long it has been so. */
#define RANK_BLOCKED  (UINT64_C(3) << 62)
#define RANK_RUNNABLE (UINT64_C(2) << 62)
#define RANK_ASLEEP   (UINT64_C(1) << 62)
#define RANK_TIME     (RANK_ASLEEP - 1)

/* The threads that are told, and the rest. */
struct picture {
	const struct rep_capture *c;
	uint64_t now_ns; /* newest clock of any CPU; 0: not known */
	struct rep_member *members;
	struct rep_group *groups;
	size_t group_count;
	size_t idle; /* kernel threads that have nothing to do */
};

static bool is_executed(const struct rep_thread *t)
{
	return t->linux_facts.vcpu >= 0 || t->linux_facts.state == 'R';
}

/*
 * For how long a thread has not been executed. The clocks of CPUs differ by what interrupts took, so
 * that is no more than an estimate. 0: not known, or it is executed.
 */
static uint64_t blocked_ns(const struct picture *p, const struct rep_thread *t)
{
	const uint64_t last = t->linux_facts.exec_start_ns;

	return !is_executed(t) && rep_has_run_time(t) && p->now_ns > last ? p->now_ns - last : 0;
}

static uint64_t rank_of(const struct rep_member *m, void *arg)
{
	const struct rep_thread *t = m->thread;
	const uint64_t ns = gs_min(blocked_ns(arg, t), RANK_TIME);

	if (is_executed(t))
		return RANK_RUNNABLE;
	switch (t->linux_facts.state) {
	case 'D': return RANK_BLOCKED | ns;
	case 'Z':
	case 'X': return 0; /* they have ended */
	default: return RANK_ASLEEP | ns;
	}
}

static bool waits_for_somebody(const struct rep_capture *c, const struct rep_thread *t)
{
	for (uint32_t i = 0; i < t->wait_count; i++)
		if (c->waits[t->first_wait + i].owner != REP_NONE)
			return true;
	return false;
}

/* A kernel thread that sleeps otherwise than uninterruptibly waits for something to do. */
static bool is_idle(const struct rep_capture *c, const struct rep_thread *t)
{
	const struct ss_thread_record *r = &t->linux_facts;

	return t->has_linux && r->flags & LNX_PF_KTHREAD && r->vcpu < 0 &&
	       (r->state == 'S' || r->state == 'I') && !waits_for_somebody(c, t);
}

static uint64_t newest_clock(const struct rep_capture *c)
{
	uint64_t ns =
		c->has_system && c->system.known & LNX_SYSTEM_UPTIME ? c->system.uptime_ns : 0;

	for (size_t i = 0; i < c->thread_count; i++)
		if (rep_has_run_time(&c->threads[i]))
			ns = gs_max(ns, c->threads[i].linux_facts.exec_start_ns);
	return ns;
}

static void picture_deinit(struct picture *p)
{
	free(p->groups);
	free(p->members);
}

static bool picture_init(struct picture *p, const struct rep_capture *c)
{
	size_t n = 0;

	*p = (struct picture){ .c = c, .now_ns = newest_clock(c) };
	p->members = gs_array_alloc(c->thread_count + 1, sizeof(*p->members));
	if (!p->members)
		return false;
	for (size_t i = 0; i < c->task_count; i++) {
		const struct rep_task *task = &c->tasks[i];

		for (uint32_t k = 0; task->pid && k < task->thread_count; k++) {
			const struct rep_thread *t = &c->threads[task->first_thread + k];

			if (is_idle(c, t))
				p->idle++;
			else
				p->members[n++] = (struct rep_member){ c, t };
		}
	}
	if (rep_groups_make(p->members, n, rank_of, p, &p->groups, &p->group_count))
		return true;
	picture_deinit(p);
	return false;
}

/* Who of a group has been so for longest. */
static const struct rep_thread *longest_of(const struct picture *p, const struct rep_group *g)
{
	const struct rep_thread *t = g->first->thread;

	for (size_t i = 1; i < g->count; i++)
		if (blocked_ns(p, g->first[i].thread) > blocked_ns(p, t))
			t = g->first[i].thread;
	return t;
}

/* --- text --- */

static void put_duration(const struct picture *p, const struct rep_thread *t, FILE *to)
{
	char text[CLI_TEXT_MAX];
	const uint64_t ns = blocked_ns(p, t);

	if (ns)
		fprintf(to, ", not executed for some %s", cli_format_duration(ns, text));
}

static void put_stuck(const struct picture *p, const struct rep_thread *t, FILE *to)
{
	rep_put_name(t, to);
	fputs(": ", to);
	rep_put_place(p->c, t, to);
	put_duration(p, t, to);
}

/* The thread that is blocked longest; NULL: none is. */
static const struct rep_thread *find_stuck(const struct picture *p)
{
	return p->group_count && p->groups[0].rank >= RANK_BLOCKED ? longest_of(p, &p->groups[0])
								   : NULL;
}

bool rep_put_stuck(const struct rep_capture *c, FILE *to)
{
	struct picture p;

	if (!picture_init(&p, c))
		return false;
	const struct rep_thread *t = find_stuck(&p);
	if (t)
		put_stuck(&p, t, to);
	picture_deinit(&p);
	return t;
}

static void put_group(const struct picture *p, const struct rep_group *g, FILE *to)
{
	const struct rep_thread *t = longest_of(p, g);

	fprintf(to, "\n%zu thread%s, ", g->count, g->count == 1 ? "" : "s");
	rep_put_place(p->c, t, to);
	put_duration(p, t, to);
	fputc(':', to);
	rep_put_group_names(g, to);
	fputc('\n', to);
	rep_put_waits(p->c, t, "    ", to);
	rep_put_stack(p->c, t, "    ", to);
}

static void put_groups(const struct picture *p, FILE *to)
{
	size_t threads = 0;

	for (size_t i = 0; i < p->group_count; i++) {
		if (i < GROUPS_MAX)
			put_group(p, &p->groups[i], to);
		else
			threads += p->groups[i].count;
	}
	if (threads)
		fprintf(to, "\nand %zu threads more, with %zu other stacks\n", threads,
			p->group_count - GROUPS_MAX);
	if (p->idle)
		fprintf(to, "\n%zu idle kernel thread%s left out\n", p->idle,
			p->idle == 1 ? " is" : "s are");
}

static void put_capture_head(const struct rep_summary *s, FILE *to)
{
	const struct rep_capture *c = s->capture;
	const struct rep_totals sum = rep_capture_totals(c);
	const char *reason = ss_reason_name(c->reason.reason);
	char taken[REP_TIME_TEXT];

	fprintf(to, "\nWhat the guest was doing when the capture of %s was taken",
		rep_time(c->wall_us, true, taken));
	if (reason)
		fprintf(to, " (%s)", reason);
	fprintf(to, ": %zu processes, %zu threads\n", sum.processes, sum.threads);
	if (s->capture_file) {
		fputs("  guestshot show ", to);
		rep_put(s->capture_file, strlen(s->capture_file), to);
		fputs(" has all of it\n", to);
	}
	if (!rep_is_complete(c)) {
		fputs("This capture is NOT complete:\n", to);
		rep_put_missing(c, to);
	}
	fputc('\n', to);
}

static bool put_capture(const struct rep_summary *s, FILE *to)
{
	struct picture p;

	put_capture_head(s, to);
	rep_put_panic(s->capture, to);
	if (!rep_put_deadlocks(s->capture, to) || !picture_init(&p, s->capture))
		return false;
	const struct rep_thread *stuck = find_stuck(&p);
	if (stuck) {
		fputs("Longest blocked: ", to);
		put_stuck(&p, stuck, to);
		fputc('\n', to);
	}
	put_groups(&p, to);
	picture_deinit(&p);
	return true;
}

static void put_guest_text(const char *what, const char *guest_text, FILE *to)
{
	if (!guest_text)
		return;
	fprintf(to, "  %s: ", what);
	rep_put(guest_text, strlen(guest_text), to);
	fputc('\n', to);
}

bool rep_summary_text(const struct rep_summary *s, FILE *to)
{
	char took[CLI_TEXT_MAX];
	bool ok = true;

	fputs(s->passed ? "PASSED" : "FAILED", to);
	fprintf(to, ": %s\n", s->text);
	put_guest_text("test", s->name, to);
	fprintf(to, "  took: %s\n  exit code: %d (%s)\n", cli_format_duration(s->took_ns, took),
		s->exit_code, s->type);
	put_guest_text("panic", s->panic, to);
	put_guest_text("line", s->line, to);
	if (!s->passed) {
		if (s->report)
			fputs(s->report, to);
		if (s->capture)
			ok = put_capture(s, to);
		if (s->console_lines)
			fputs("\nThe console's last lines:\n", to);
		rep_put_console(s->console, s->console_lines, "  ", to);
	}
	return fflush(to) == 0 && !ferror(to) && ok;
}

/* --- JSON --- */

static void json_stack(struct kcd_json *j, const struct rep_capture *c, const struct rep_thread *t)
{
	char text[CLI_TEXT_MAX];

	kcd_json_key(j, "kernel_stack");
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct rep_frame *f = &c->frames[t->first_frame + i];

		snprintf(text, sizeof(text), "%#" PRIx64, f->address);
		kcd_json_string(j, f->symbol ? f->symbol->name : text);
	}
	kcd_json_array_end(j);
}

static void json_group(struct kcd_json *j, const struct picture *p, const struct rep_group *g)
{
	const struct rep_thread *t = longest_of(p, g);
	const struct rep_frame *place = rep_place(p->c, t);
	const char state[2] = { (char)t->linux_facts.state, 0 };

	kcd_json_object_begin(j);
	kcd_json_member_string(j, "state", state);
	kcd_json_member_string(j, "function", place && place->symbol ? place->symbol->name : NULL);
	kcd_json_member_u64(j, "not_executed_ns", blocked_ns(p, t));
	kcd_json_key(j, "threads");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < g->count; i++) {
		kcd_json_object_begin(j);
		kcd_json_member_i64(j, "tid", g->first[i].thread->linux_facts.tid);
		kcd_json_member_string(j, "comm", g->first[i].thread->comm);
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
	rep_json_waits(j, p->c, t);
	json_stack(j, p->c, t);
	kcd_json_object_end(j);
}

static bool json_capture(struct kcd_json *j, const struct rep_summary *s)
{
	const struct rep_capture *c = s->capture;
	const struct rep_totals sum = rep_capture_totals(c);
	struct picture p;

	if (!picture_init(&p, c))
		return false;
	kcd_json_object_begin(j);
	kcd_json_member_string(j, "file", s->capture_file);
	rep_json_taken(j, c);
	kcd_json_member_string(j, "reason", ss_reason_name(c->reason.reason));
	kcd_json_member_u64(j, "processes", sum.processes);
	kcd_json_member_u64(j, "threads", sum.threads);
	bool ok = rep_json_deadlocks(j, c);
	kcd_json_key(j, "groups");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < p.group_count; i++)
		json_group(j, &p, &p.groups[i]);
	kcd_json_array_end(j);
	kcd_json_member_u64(j, "idle_kernel_threads", p.idle);
	kcd_json_object_end(j);
	picture_deinit(&p);
	return ok;
}

static void json_end(struct kcd_json *j, const struct rep_summary *s)
{
	kcd_json_member_string(j, "test", s->name);
	kcd_json_member_string(j, "result", s->result);
	kcd_json_member_string(j, "type", s->type);
	kcd_json_member_string(j, "text", s->text);
	kcd_json_member_i64(j, "exit_code", s->exit_code);
	kcd_json_member_u64(j, "took_ns", s->took_ns);
	kcd_json_key(j, "status");
	s->has_status ? kcd_json_u64(j, s->status) : kcd_json_null(j);
	kcd_json_member_string(j, "line", s->line);
	kcd_json_member_string(j, "panic", s->panic);
	kcd_json_member_string(j, "report", s->report);
}

bool rep_summary_json(const struct rep_summary *s, FILE *to)
{
	struct kcd_json j;
	bool ok = true;

	kcd_json_init(&j, rep_json_sink, to, KCD_JSON_PRETTY);
	kcd_json_object_begin(&j);
	kcd_json_member_u64(&j, "schema_version", REP_SUMMARY_SCHEMA_VERSION);
	json_end(&j, s);
	kcd_json_key(&j, "capture");
	if (s->capture)
		ok = json_capture(&j, s);
	else
		kcd_json_null(&j);
	if (!ok)
		return false; /* out of memory: the document is not whole */
	kcd_json_key(&j, "console");
	kcd_json_array_begin(&j);
	for (uint32_t i = 0; i < s->console_lines; i++)
		kcd_json_string_n(&j, s->console[i].text, sizeof(s->console[i].text));
	kcd_json_array_end(&j);
	kcd_json_object_end(&j);
	return kcd_json_finish(&j) == KCD_OK && fflush(to) == 0;
}
