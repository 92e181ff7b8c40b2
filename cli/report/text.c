/* SPDX-License-Identifier: Apache-2.0 */
/* A capture as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/report.h"
#include "introspect/linux/linux.h"

/* Names of a group's threads that are listed before "and N more". */
#define GROUP_NAMES 8

/* Room for any short string of a record (names of threads), every byte escaped. */
struct shown {
	char text[4 * (KCD_SS_THREAD_NAME_SIZE + 1) + 1];
};

static const char *show(const char *guest_text, size_t max, struct shown *s)
{
	gs_escape_terminal(guest_text, max, s->text, sizeof(s->text));
	return s->text;
}

/* A longer string: piece by piece. */
static void put(const char *guest_text, size_t max, FILE *to)
{
	const size_t step = KCD_SS_THREAD_NAME_SIZE;
	struct shown s;

	for (size_t len = strnlen(guest_text, max), i = 0; i < len; i += step)
		fputs(show(guest_text + i, gs_min(step, len - i), &s), to);
}

static void write_head(const struct rep_capture *c, FILE *to)
{
	const struct ss_times_record *t = &c->times;
	time_t seconds = (time_t)(c->wall_us / 1000000);
	size_t processes = 0, threads = 0;
	struct shown s;
	struct tm tm;
	char taken[40] = "unknown time", ram[CLI_TEXT_MAX], d[4][CLI_TEXT_MAX];

	if (gmtime_r(&seconds, &tm))
		strftime(taken, sizeof(taken), "%Y-%m-%d %H:%M:%S UTC", &tm);
	for (size_t i = 0; i < c->task_count; i++) {
		if (c->tasks[i].pid == 0)
			continue;
		processes++;
		threads += c->tasks[i].thread_count;
	}
	fprintf(to, "Capture of %s", taken);
	if (c->guest.vcpus)
		fprintf(to, ": %s guest, %" PRIu32 " vCPU%s in %" PRIu32 " cluster%s, %s",
			show(c->guest.source, sizeof(c->guest.source), &s), c->guest.vcpus,
			c->guest.vcpus == 1 ? "" : "s", c->guest.clusters,
			c->guest.clusters == 1 ? "" : "s", cli_format_size(c->guest.ram_size, ram));
	fputc('\n', to);
	if (c->banner) {
		put(c->banner, strlen(c->banner), to);
		fputc('\n', to);
	}
	fprintf(to, "%zu processes, %zu threads", processes, threads);
	if (t->tries)
		fprintf(to, "; guest stopped for %s (stop %s, read %s, resume %s",
			cli_format_duration(t->prior_ns + t->stop_ns + t->collect_ns + t->resume_ns,
					    d[0]),
			cli_format_duration(t->stop_ns, d[1]),
			cli_format_duration(t->collect_ns, d[2]),
			cli_format_duration(t->resume_ns, d[3]));
	/* the first capture looks at the registers before it searches the kernel; so do new tries */
	if (t->tries && t->prior_ns)
		fprintf(to, ", before that %s", cli_format_duration(t->prior_ns, d[0]));
	fputs(t->tries ? ")" : "", to);
	fputc('\n', to);
}

static void write_missing(const struct rep_capture *c, FILE *to)
{
	if (rep_is_complete(c))
		return;
	fputs("\nThis capture is NOT complete:\n", to);
	for (size_t i = 0; i < c->missing_count; i++) {
		const struct ss_missing_record *m = &c->missing[i];

		fprintf(to, "  %s", rep_missing_name(m->what));
		if (m->tid >= 0)
			fprintf(to, " of thread %" PRId32, m->tid);
		else if (m->pid >= 0)
			fprintf(to, " of process %" PRId32, m->pid);
		if (m->count > 1)
			fprintf(to, " (%" PRIu32 " of them)", m->count);
		fputs(": ", to);
		put(m->reason, sizeof(m->reason), to);
		if (m->address)
			fprintf(to, " (at %#" PRIx64 ")", m->address);
		fputc('\n', to);
	}
	if (c->damaged)
		fprintf(to, "  file: %s\n", c->damage);
}

static void write_vcpus(const struct rep_capture *c, FILE *to)
{
	struct shown s;

	if (c->vcpu_count)
		fputc('\n', to);
	for (size_t i = 0; i < c->vcpu_count; i++) {
		const struct ss_vcpu_record *v = &c->vcpus[i];

		fprintf(to, "vCPU %" PRIu32 " (cluster %" PRIu32 "): ", v->vcpu, v->cluster);
		if (v->state == SS_VCPU_OFF)
			fputs("off\n", to);
		else if (v->state == SS_VCPU_IDLE)
			fputs("idle\n", to);
		else if (v->pid >= 0)
			fprintf(to, "thread %" PRId32 " (%s) in %s mode, pc %#" PRIx64 "\n", v->tid,
				show(v->comm, sizeof(v->comm), &s), rep_vcpu_state_name(v->state),
				v->pc);
		else
			fprintf(to, "%s mode, pc %#" PRIx64 ", lr %#" PRIx64 ", sp %#" PRIx64 "\n",
				rep_vcpu_state_name(v->state), v->pc, v->x[30],
				v->state == SS_VCPU_USER ? v->sp_el0 : v->sp_el1);
	}
}

static void write_stack(const struct rep_capture *c, const struct rep_thread *t, const char *indent,
			FILE *to)
{
	const struct ss_thread_record *r = &t->linux_facts;

	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct rep_frame *f = &c->frames[t->first_frame + i];

		fputs(indent, to);
		if (f->symbol) {
			put(f->symbol->name, strlen(f->symbol->name), to);
			fprintf(to, "+%#" PRIx64 "/%#" PRIx64, f->address - f->symbol->start,
				f->symbol->size);
		} else {
			fprintf(to, "%#" PRIx64, f->address);
		}
		fputs(f->kind == LNX_FRAME_INTERRUPTED ? "  <- interrupted here\n" : "\n", to);
	}
	if (t->has_linux && r->stack_end != LNX_END_COMPLETE)
		fprintf(to, "%s(%s)\n", indent, rep_stack_end_name(r->stack_end));
	else if (!t->frame_count)
		fprintf(to, "%s(in user mode)\n", indent);
}

static void write_thread_line(const struct rep_thread *t, FILE *to)
{
	const struct ss_thread_record *r = &t->linux_facts;
	struct shown s;

	show(t->comm, sizeof(t->comm), &s);
	if (!t->has_linux) {
		fprintf(to, "thread %" PRIu64 " %s", t->stock.ths_thread_id, s.text);
		return;
	}
	fprintf(to, "thread %" PRId32 " %s: ", r->tid, s.text);
	if (r->vcpu >= 0)
		fprintf(to, "on vCPU %" PRId32, r->vcpu);
	else
		fprintf(to, "%c (%s)", r->state >= 0x20 && r->state < 0x7f ? (char)r->state : '?',
			rep_state_text((char)r->state));
}

static void write_task(const struct rep_capture *c, const struct rep_task *t, FILE *to)
{
	struct shown s;

	fprintf(to, "\nprocess %" PRId32 " %s", t->pid, show(t->comm, sizeof(t->comm), &s));
	if (t->pid && t->ppid >= 0)
		fprintf(to, ", parent %" PRId32, t->ppid);
	if (t->thread_count != 1)
		fprintf(to, ", %" PRIu32 " threads", t->thread_count);
	fputc('\n', to);
	for (uint32_t i = 0; i < t->thread_count; i++) {
		const struct rep_thread *th = &c->threads[t->first_thread + i];

		fputs("  ", to);
		write_thread_line(th, to);
		fputc('\n', to);
		write_stack(c, th, "    ", to);
	}
}

/* --- groups --- */

struct member {
	const struct rep_capture *c;
	const struct rep_task *task;
	const struct rep_thread *thread;
};

/* Same state, same way to end, same frames; a cut stack never equals a whole one. */
static int compare_stacks(const struct member *a, const struct member *b)
{
	const struct rep_thread *x = a->thread, *y = b->thread;

	if (x->linux_facts.state != y->linux_facts.state)
		return x->linux_facts.state < y->linux_facts.state ? -1 : 1;
	if (x->linux_facts.stack_end != y->linux_facts.stack_end)
		return x->linux_facts.stack_end < y->linux_facts.stack_end ? -1 : 1;
	if (x->frame_count != y->frame_count)
		return x->frame_count < y->frame_count ? -1 : 1;
	for (uint32_t i = 0; i < x->frame_count; i++) {
		uint64_t p = a->c->frames[x->first_frame + i].address;
		uint64_t q = b->c->frames[y->first_frame + i].address;

		if (p != q)
			return p < q ? -1 : 1;
	}
	return 0;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = compare_stacks(x, y);

	/* pointers into one array: its order, so that the result does not depend on the sort */
	return order ? order : (x->thread > y->thread) - (x->thread < y->thread);
}

struct group {
	const struct member *first;
	size_t count;
};

/* Largest first; among equals the one with the lower thread. */
static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->first->thread > y->first->thread) - (x->first->thread < y->first->thread);
}

static void write_group(const struct group *g, FILE *to)
{
	const struct rep_thread *t = g->first->thread;
	struct shown s;

	fprintf(to, "\n%zu thread%s, %s:", g->count, g->count == 1 ? "" : "s",
		rep_state_text((char)t->linux_facts.state));
	for (size_t i = 0; i < g->count && i < GROUP_NAMES; i++) {
		const struct member *m = &g->first[i];
		int64_t tid = m->thread->has_linux ? m->thread->linux_facts.tid
						   : (int64_t)m->thread->stock.ths_thread_id;

		fprintf(to, "%s %" PRId64 " %s", i ? "," : "", tid,
			show(m->thread->comm, sizeof(m->thread->comm), &s));
	}
	if (g->count > GROUP_NAMES)
		fprintf(to, " and %zu more", g->count - GROUP_NAMES);
	fputc('\n', to);
	write_stack(g->first->c, t, "    ", to);
}

static bool write_groups(const struct rep_capture *c, FILE *to)
{
	GS_FREE struct member *members = gs_array_alloc(c->thread_count, sizeof(*members));
	GS_FREE struct group *groups = gs_array_alloc(c->thread_count, sizeof(*groups));
	size_t n = 0, group_count = 0;

	if (!c->thread_count)
		return true;
	if (!members || !groups)
		return false;
	for (size_t i = 0; i < c->task_count; i++)
		for (uint32_t k = 0; k < c->tasks[i].thread_count; k++)
			members[n++] = (struct member){ c, &c->tasks[i],
							&c->threads[c->tasks[i].first_thread + k] };
	qsort(members, n, sizeof(*members), compare_members);
	for (size_t i = 0; i < n; i++) {
		if (!i || compare_stacks(&members[i - 1], &members[i]))
			groups[group_count++].first = &members[i];
		groups[group_count - 1].count++;
	}
	qsort(groups, group_count, sizeof(*groups), compare_groups);
	for (size_t i = 0; i < group_count; i++)
		write_group(&groups[i], to);
	return true;
}

bool rep_text(const struct rep_capture *c, bool group, FILE *to)
{
	bool ok = true;

	write_head(c, to);
	write_missing(c, to);
	write_vcpus(c, to);
	if (group)
		ok = write_groups(c, to);
	/* the idle threads last: they are many, and say least */
	for (int idle = 0; !group && idle < 2; idle++)
		for (size_t i = 0; i < c->task_count && !ferror(to); i++)
			if ((c->tasks[i].pid == 0) == idle)
				write_task(c, &c->tasks[i], to);
	return fflush(to) == 0 && !ferror(to) && ok;
}
