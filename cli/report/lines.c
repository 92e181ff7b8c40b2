/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text that the views for people share. */
#include "cli/report/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "base/util.h"
#include "introspect/linux/linux.h"
#include "introspect/linux/user.h"

/* Names of a group's threads that are listed before "and N more". */
#define GROUP_NAMES 8

const char *rep_show(const char *guest_text, size_t max, struct rep_shown *s)
{
	gs_escape_terminal(guest_text, max, s->text, sizeof(s->text));
	return s->text;
}

/* Piece by piece. */
void rep_put(const char *guest_text, size_t max, FILE *to)
{
	const size_t step = KCD_SS_THREAD_NAME_SIZE;
	struct rep_shown s;

	for (size_t len = strnlen(guest_text, max), i = 0; i < len; i += step)
		fputs(rep_show(guest_text + i, gs_min(step, len - i), &s), to);
}

const char *rep_time(uint64_t wall_us, bool milliseconds, char out[static REP_TIME_TEXT])
{
	time_t seconds = (time_t)(wall_us / 1000000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm)) {
		snprintf(out, REP_TIME_TEXT, "unknown time");
		return out;
	}
	size_t n = strftime(out, REP_TIME_TEXT, "%Y-%m-%d %H:%M:%S", &tm);
	if (milliseconds)
		n += (size_t)snprintf(out + n, REP_TIME_TEXT - n, ".%03u",
				      (unsigned int)(wall_us / 1000 % 1000));
	snprintf(out + n, REP_TIME_TEXT - n, " UTC");
	return out;
}

void rep_put_missing(const struct rep_capture *c, FILE *to)
{
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
		rep_put(m->reason, sizeof(m->reason), to);
		if (m->address)
			fprintf(to, " (at %#" PRIx64 ")", m->address);
		fputc('\n', to);
	}
	if (c->damaged)
		fprintf(to, "  file: %s\n", c->damage);
}

void rep_put_task(const struct rep_task *t, FILE *to)
{
	struct rep_shown s;

	fprintf(to, "process %" PRId32 " %s", t->pid, rep_show(t->comm, sizeof(t->comm), &s));
	if (t->pid && t->ppid >= 0)
		fprintf(to, ", parent %" PRId32, t->ppid);
	if (t->thread_count != 1)
		fprintf(to, ", %" PRIu32 " threads", t->thread_count);
	fputc('\n', to);
}

void rep_put_state(const struct rep_thread *t, FILE *to)
{
	const struct ss_thread_record *r = &t->linux_facts;

	if (r->vcpu >= 0)
		fprintf(to, "on vCPU %" PRId32, r->vcpu);
	else
		fprintf(to, "%c (%s)", r->state >= 0x20 && r->state < 0x7f ? (char)r->state : '?',
			rep_state_text((char)r->state));
}

void rep_put_name(const struct rep_thread *t, FILE *to)
{
	struct rep_shown s;

	rep_show(t->comm, sizeof(t->comm), &s);
	if (t->has_linux)
		fprintf(to, "thread %" PRId32 " %s", t->linux_facts.tid, s.text);
	else
		fprintf(to, "thread %" PRIu64 " %s", t->stock.ths_thread_id, s.text);
}

void rep_put_thread(const struct rep_thread *t, FILE *to)
{
	rep_put_name(t, to);
	if (!t->has_linux)
		return;
	fputs(": ", to);
	rep_put_state(t, to);
}

static bool is_of_scheduler(const struct rep_frame *f)
{
	return f->symbol && f->symbol->flags & SS_SYMBOL_SCHED;
}

/*
 * Which of its frames is the innermost that says something. All that sleep are in the scheduler: its functions
 * are passed, and __switch_to() before them, which old kernels do not count among these.
 */
static uint32_t place_of(const struct rep_capture *c, const struct rep_thread *t)
{
	const struct rep_frame *f = &c->frames[t->first_frame];
	uint32_t i = t->frame_count > 1 && is_of_scheduler(&f[1]);

	while (t->linux_facts.vcpu < 0 && i < t->frame_count && is_of_scheduler(&f[i]))
		i++;
	return t->linux_facts.vcpu < 0 && i < t->frame_count ? i : 0;
}

/* " [module]", as the kernel's own traces have it. */
static void put_module(const struct rep_frame *f, FILE *to)
{
	if (!f->module)
		return;
	fputs(" [", to);
	rep_put(f->module, strlen(f->module), to);
	fputc(']', to);
}

/* "pipe_read", "0xffff… [module]" */
static void put_function(const struct rep_frame *f, FILE *to)
{
	if (f->symbol)
		rep_put(f->symbol->name, strlen(f->symbol->name), to);
	else
		fprintf(to, "%#" PRIx64, f->address);
	put_module(f, to);
}

void rep_put_functions(const struct rep_capture *c, const struct rep_thread *t, FILE *to)
{
	for (uint32_t first = place_of(c, t), i = first; i < t->frame_count; i++) {
		fputs(i > first ? " < " : "", to);
		put_function(&c->frames[t->first_frame + i], to);
	}
}

void rep_put_place(const struct rep_capture *c, const struct rep_thread *t, FILE *to)
{
	rep_put_state(t, to);
	if (t->frame_count) {
		const struct rep_frame *f = &c->frames[t->first_frame + place_of(c, t)];

		fputs(f->symbol ? " in " : " at ", to);
		put_function(f, to);
	} else if (t->has_linux && t->linux_facts.stack_end == LNX_END_COMPLETE) {
		fputs(" in user mode", to);
	}
}

static void put_user_stack(const struct rep_capture *c, const struct rep_thread *t,
			   const char *indent, FILE *to)
{
	for (uint32_t i = 0; i < t->user_frame_count; i++) {
		const struct rep_user_frame *f = &c->user_frames[t->first_user_frame + i];
		const struct ss_mapping_record *m = rep_user_frame_file(c, f);

		fprintf(to, "%suser %#" PRIx64, indent, f->address);
		if (m) {
			fputs(" ", to);
			rep_put(m->file, sizeof(m->file), to);
			fprintf(to, "+%#" PRIx64, f->address - m->start + m->offset);
		}
		if (i == 1 && t->user.has_lr)
			fputs("  <- by the link register, not certain", to);
		fputc('\n', to);
	}
	if (t->has_user && t->user.end != LNX_USER_COMPLETE)
		fprintf(to, "%s(user stack: %s)\n", indent, rep_user_end_name(t->user.end));
}

void rep_put_stack(const struct rep_capture *c, const struct rep_thread *t, const char *indent,
		   FILE *to)
{
	const struct ss_thread_record *r = &t->linux_facts;

	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct rep_frame *f = &c->frames[t->first_frame + i];

		fputs(indent, to);
		if (f->symbol) {
			rep_put(f->symbol->name, strlen(f->symbol->name), to);
			fprintf(to, "+%#" PRIx64 "/%#" PRIx64, f->address - f->symbol->start,
				f->symbol->size);
		} else {
			fprintf(to, "%#" PRIx64, f->address);
		}
		put_module(f, to);
		if (f->doubt)
			fprintf(to, "  ? %s", rep_doubt_name(f->doubt));
		fputs(f->kind == LNX_FRAME_INTERRUPTED ? "  <- interrupted here\n" : "\n", to);
	}
	if (t->has_linux && r->stack_end != LNX_END_COMPLETE)
		fprintf(to, "%s(%s)\n", indent, rep_stack_end_name(r->stack_end));
	else if (!t->frame_count)
		fprintf(to, "%s(in user mode)\n", indent);
	put_user_stack(c, t, indent, to);
}

/* --- groups --- */

int rep_compare_stacks(const struct rep_member *a, const struct rep_member *b)
{
	const struct rep_thread *x = a->thread, *y = b->thread;

	if (x->linux_facts.state != y->linux_facts.state)
		return x->linux_facts.state < y->linux_facts.state ? -1 : 1;
	if (x->linux_facts.stack_end != y->linux_facts.stack_end)
		return x->linux_facts.stack_end < y->linux_facts.stack_end ? -1 : 1;
	if (x->frame_count != y->frame_count)
		return x->frame_count < y->frame_count ? -1 : 1;
	for (uint32_t i = 0; i < x->frame_count; i++) {
		const struct rep_frame *p = &a->c->frames[x->first_frame + i];
		const struct rep_frame *q = &b->c->frames[y->first_frame + i];

		if (p->address != q->address)
			return p->address < q->address ? -1 : 1;
		if (p->doubt != q->doubt)
			return p->doubt < q->doubt ? -1 : 1;
	}
	return 0;
}

/* Of a group the user stack is shown, too, so that it is to be the same. */
static int compare_user_stacks(const struct rep_member *a, const struct rep_member *b)
{
	const struct rep_thread *x = a->thread, *y = b->thread;

	if (x->has_user != y->has_user)
		return x->has_user ? 1 : -1;
	if (x->user.end != y->user.end)
		return x->user.end < y->user.end ? -1 : 1;
	if (x->user_frame_count != y->user_frame_count)
		return x->user_frame_count < y->user_frame_count ? -1 : 1;
	for (uint32_t i = 0; i < x->user_frame_count; i++) {
		uint64_t p = a->c->user_frames[x->first_user_frame + i].address;
		uint64_t q = b->c->user_frames[y->first_user_frame + i].address;

		if (p != q)
			return p < q ? -1 : 1;
	}
	return 0;
}

static int compare_group(const struct rep_member *a, const struct rep_member *b)
{
	int order = rep_compare_stacks(a, b);

	return order ? order : compare_user_stacks(a, b);
}

static int compare_members(const void *a, const void *b)
{
	const struct rep_member *x = a, *y = b;
	int order = compare_group(x, y);

	/* pointers into one array: its order, so that the result does not depend on the sort */
	return order ? order : (x->thread > y->thread) - (x->thread < y->thread);
}

/* Largest first; among equals the one with the lower thread. */
static int compare_groups(const void *a, const void *b)
{
	const struct rep_group *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->first->thread > y->first->thread) - (x->first->thread < y->first->thread);
}

void rep_put_group(const struct rep_group *g, FILE *to)
{
	const struct rep_thread *t = g->first->thread;
	struct rep_shown s;

	fprintf(to, "%zu thread%s, %s:", g->count, g->count == 1 ? "" : "s",
		rep_state_text((char)t->linux_facts.state));
	for (size_t i = 0; i < g->count && i < GROUP_NAMES; i++) {
		const struct rep_member *m = &g->first[i];
		int64_t tid = m->thread->has_linux ? m->thread->linux_facts.tid
						   : (int64_t)m->thread->stock.ths_thread_id;

		fprintf(to, "%s %" PRId64 " %s", i ? "," : "", tid,
			rep_show(m->thread->comm, sizeof(m->thread->comm), &s));
	}
	if (g->count > GROUP_NAMES)
		fprintf(to, " and %zu more", g->count - GROUP_NAMES);
}

size_t rep_groups_find(struct rep_member *members, size_t count, struct rep_group *groups_out)
{
	size_t n = 0;

	qsort(members, count, sizeof(*members), compare_members);
	for (size_t i = 0; i < count; i++) {
		if (!i || compare_group(&members[i - 1], &members[i]))
			groups_out[n++] = (struct rep_group){ .first = &members[i] };
		groups_out[n - 1].count++;
	}
	qsort(groups_out, n, sizeof(*groups_out), compare_groups);
	return n;
}

bool rep_put_groups(struct rep_member *members, size_t count, FILE *to)
{
	GS_FREE struct rep_group *groups = gs_array_alloc(count, sizeof(*groups));

	if (!count)
		return true;
	if (!groups)
		return false;
	const size_t n = rep_groups_find(members, count, groups);
	for (size_t i = 0; i < n; i++) {
		fputc('\n', to);
		rep_put_group(&groups[i], to);
		fputc('\n', to);
		rep_put_stack(groups[i].first->c, groups[i].first->thread, "    ", to);
	}
	return true;
}
