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

/* __switch_to() comes before the scheduler's functions, and old kernels do not count it among these. */
const struct rep_frame *rep_place(const struct rep_capture *c, const struct rep_thread *t)
{
	if (!t->frame_count)
		return NULL;

	const struct rep_frame *f = &c->frames[t->first_frame];
	uint32_t i = t->frame_count > 1 && is_of_scheduler(&f[1]);

	while (t->linux_facts.vcpu < 0 && i < t->frame_count && is_of_scheduler(&f[i]))
		i++;
	return t->linux_facts.vcpu < 0 && i < t->frame_count ? &f[i] : f;
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
	const struct rep_frame *first = rep_place(c, t),
			       *end = &c->frames[t->first_frame + t->frame_count];

	for (const struct rep_frame *f = first; f && f < end; f++) {
		fputs(f > first ? " < " : "", to);
		put_function(f, to);
	}
}

void rep_put_place(const struct rep_capture *c, const struct rep_thread *t, FILE *to)
{
	const struct rep_frame *f = rep_place(c, t);

	rep_put_state(t, to);
	if (f) {
		fputs(f->symbol ? " in " : " at ", to);
		put_function(f, to);
	} else if (t->has_linux && t->linux_facts.stack_end == LNX_END_COMPLETE) {
		fputs(" in user mode", to);
	}
}

const char *rep_build_id(const struct ss_mapping_record *m, char text_out[static REP_BUILD_ID_TEXT])
{
	*text_out = '\0';
	for (uint32_t i = 0; i < m->build_id_size; i++)
		snprintf(text_out + 2 * i, 3, "%02x", m->build_id[i]);
	return text_out;
}

/* Files that are told of one process: as many as a capture has of it. */
#define FILES_MAX 64

struct files {
	const struct ss_mapping_record *at[FILES_MAX];
	uint32_t n;
};

/* A file has several mappings; its build id need not be known in all of them. */
static void add_file(struct files *f, const struct ss_mapping_record *m)
{
	if (!m || !m->build_id_size || f->n == FILES_MAX)
		return;
	for (uint32_t i = 0; i < f->n; i++)
		if (f->at[i] == m ||
		    (f->at[i]->inode == m->inode && !strcmp(f->at[i]->file, m->file) &&
		     f->at[i]->build_id_size == m->build_id_size &&
		     !memcmp(f->at[i]->build_id, m->build_id, m->build_id_size)))
			return;
	f->at[f->n++] = m;
}

void rep_put_build_ids(const struct rep_capture *c, const struct rep_task *t, FILE *to)
{
	struct files files = { .n = 0 };
	char text[REP_BUILD_ID_TEXT];

	for (uint32_t i = 0; i < t->thread_count; i++) {
		const struct rep_thread *th = &c->threads[t->first_thread + i];

		for (uint32_t k = 0; k < th->user_frame_count; k++)
			add_file(&files,
				 rep_user_frame_file(c, &c->user_frames[th->first_user_frame + k]));
	}
	for (uint32_t i = 0; i < files.n; i++) {
		fprintf(to, "  build id %s of ", rep_build_id(files.at[i], text));
		rep_put(files.at[i]->file, sizeof(files.at[i]->file), to);
		fputc('\n', to);
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

void rep_put_console(const struct ss_console_record *lines, size_t count, const char *indent,
		     FILE *to)
{
	for (size_t i = 0; i < count; i++) {
		fputs(indent, to);
		rep_put(lines[i].text, sizeof(lines[i].text), to);
		fputc('\n', to);
	}
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

/* By rank, then largest first; among equals the one with the lower thread. */
static int compare_groups(const void *a, const void *b)
{
	const struct rep_group *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->first->thread > y->first->thread) - (x->first->thread < y->first->thread);
}

bool rep_groups_make(struct rep_member *members, size_t count,
		     uint64_t (*rank)(const struct rep_member *m, void *arg), void *arg,
		     struct rep_group **groups_out, size_t *count_out)
{
	struct rep_group *groups = gs_array_alloc(count, sizeof(*groups));
	size_t n = 0;

	if (count && !groups)
		return false;
	if (count)
		qsort(members, count, sizeof(*members), compare_members);
	for (size_t i = 0; i < count; i++) {
		if (!i || compare_group(&members[i - 1], &members[i]))
			groups[n++].first = &members[i];
		struct rep_group *g = &groups[n - 1];
		g->count++;
		if (rank)
			g->rank = gs_max(g->rank, rank(&members[i], arg));
	}
	if (n)
		qsort(groups, n, sizeof(*groups), compare_groups);
	*groups_out = groups;
	*count_out = n;
	return true;
}

void rep_put_group_names(const struct rep_group *g, FILE *to)
{
	struct rep_shown s;

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

void rep_put_group(const struct rep_group *g, FILE *to)
{
	fprintf(to, "%zu thread%s, %s:", g->count, g->count == 1 ? "" : "s",
		rep_state_text((char)g->first->thread->linux_facts.state));
	rep_put_group_names(g, to);
}

bool rep_put_groups(struct rep_member *members, size_t count, FILE *to)
{
	GS_FREE struct rep_group *groups = NULL;
	size_t n;

	if (!rep_groups_make(members, count, NULL, NULL, &groups, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		fputc('\n', to);
		rep_put_group(&groups[i], to);
		fputc('\n', to);
		rep_put_stack(groups[i].first->c, groups[i].first->thread, "    ", to);
	}
	return true;
}
