/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a guest that is captured again and again. */
#include "cli/report/live.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/lines.h"
#include "cli/report/since.h"
#include "cli/report/system.h"
#include "cli/report/waits.h"
#include "introspect/linux/linux.h"

/* Lines that go on do so farther in by this. */
#define GO_ON_INDENT 4
/* Narrower screens do not exist for this view: lines are cut there. */
#define WIDTH_MIN 20
/* With fewer lines below the head it moves along with the rest. */
#define BODY_MIN 5

/* --- threads by state --- */

enum state { RUNNING, RUNNABLE, SLEEPING, BLOCKED, STOPPED, ZOMBIE, IDLE, OTHER, STATES };

static const char *const state_names[STATES] = {
	[RUNNING] = "running",	 [RUNNABLE] = "runnable",
	[SLEEPING] = "sleeping", [BLOCKED] = "uninterruptible",
	[STOPPED] = "stopped",	 [ZOMBIE] = "zombie",
	[IDLE] = "idle",	 [OTHER] = "in another state",
};

static enum state state_of(const struct rep_thread *t)
{
	if (!t->has_linux)
		return OTHER;
	if (t->linux_facts.vcpu >= 0)
		return RUNNING;
	switch (t->linux_facts.state) {
	case 'R': return RUNNABLE;
	case 'S': return SLEEPING;
	case 'D': return BLOCKED;
	case 'T':
	case 't': return STOPPED;
	case 'Z':
	case 'X': return ZOMBIE;
	case 'I': return IDLE;
	default: return OTHER;
	}
}

/* The threads that count: not the idle ones of the CPUs. */
struct threads {
	const struct rep_thread **thread;
	size_t count;
};

/* @return false: out of memory */
static bool threads_find(const struct rep_capture *c, struct threads *out)
{
	out->count = 0;
	// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what it is
	out->thread = gs_array_alloc(c->thread_count + 1, sizeof(*out->thread));
	if (!out->thread)
		return false;
	for (size_t i = 0; i < c->task_count; i++)
		for (uint32_t k = 0; c->tasks[i].pid && k < c->tasks[i].thread_count; k++)
			out->thread[out->count++] = &c->threads[c->tasks[i].first_thread + k];
	return true;
}

static void put_states(const struct rep_capture *c, const struct threads *all, FILE *to)
{
	const struct rep_totals sum = rep_capture_totals(c);
	size_t count[STATES] = { 0 };

	for (size_t i = 0; i < all->count; i++)
		count[state_of(all->thread[i])]++;
	fprintf(to, "%zu threads in %zu processes: ", sum.threads, sum.processes);
	for (int s = 0; s < STATES; s++)
		if (s != OTHER || count[s])
			fprintf(to, "%s%zu %s", s ? ", " : "", count[s], state_names[s]);
	fputc('\n', to);
}

/* --- the head --- */

static void put_guest(const struct rep_live *l, FILE *to)
{
	const struct rep_capture *c = l->capture;
	struct rep_shown s;
	char text[CLI_TEXT_MAX];

	fprintf(to, "Guest %s", l->state ? l->state : "in a state that is not known");
	if (l->machine_up_ns)
		fprintf(to, ", its machine up %s", cli_format_duration(l->machine_up_ns, text));
	if (c && c->guest.vcpus)
		fprintf(to, ": %s, %" PRIu32 " vCPU%s, %s",
			rep_show(c->guest.source, sizeof(c->guest.source), &s), c->guest.vcpus,
			c->guest.vcpus == 1 ? "" : "s", cli_format_size(c->guest.ram_size, text));
	if (c && c->release && *c->release) {
		fputs(", Linux ", to);
		rep_put(c->release, strlen(c->release), to);
	}
	fputc('\n', to);
}

static void put_capture(const struct rep_live *l, FILE *to)
{
	const struct rep_capture *c = l->capture;
	char when[REP_TIME_TEXT], stopped[CLI_TEXT_MAX];

	if (c)
		fprintf(to, "Capture of %s%s: guest stopped for %s\n",
			rep_time(c->wall_us, true, when),
			rep_is_complete(c) ? "" : ", NOT complete (see the end)",
			cli_format_duration(l->last_stopped_ns, stopped));
	if (l->failure)
		fprintf(to, "No new capture: %s\n", l->failure);
	else if (!c)
		fputs("No capture yet\n", to);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void put_cost(const struct rep_live *l, FILE *to)
{
	const struct ctl_pace *p = l->pace;
	char stopped[CLI_TEXT_MAX], watched[CLI_TEXT_MAX], every[CLI_TEXT_MAX], late[CLI_TEXT_MAX];

	fprintf(to,
		"Stopped for %s of %s by %" PRIu64
		" capture%s: %.3g%%, at most %.6g%% when the next comes; ",
		cli_format_duration(p->stopped_ns, stopped),
		cli_format_duration(l->watched_ns, watched), p->taken, p->taken == 1 ? "" : "s",
		percent(p->stopped_ns, l->watched_ns), percent(p->max_stopped, CTL_PPM));
	if (l->is_paused)
		fputs("paused", to);
	else
		fprintf(to, "one every %s", cli_format_duration(p->every_ns, every));
	if (!l->is_paused && p->is_stretched)
		fprintf(to, ", the next %s later for the budget",
			cli_format_duration(ctl_pace_due(p) - gs_min(p->slot_ns, ctl_pace_due(p)),
					    late));
	fputc('\n', to);
}

static void put_head(const struct rep_live *l, const struct threads *all, FILE *to)
{
	if (l->capture)
		rep_put_panic(l->capture, to);
	put_guest(l, to);
	if (l->capture) {
		rep_put_system(l->capture, to);
		put_states(l->capture, all, to);
	}
	put_capture(l, to);
	put_cost(l, to);
}

/* --- the longest blocked --- */

enum { BLOCKED_MOST, BLOCKED_BY_ANOTHER, BLOCKED_LEAST, BLOCKED_NOT };

struct blocked {
	const struct rep_thread *thread;
	int class;
	bool is_known;
	uint64_t ns;
};

static bool waits_for_another(const struct rep_capture *c, const struct rep_thread *t)
{
	for (uint32_t i = 0; i < t->wait_count; i++)
		if (c->waits[t->first_wait + i].owner != REP_NONE)
			return true;
	return false;
}

/* Threads of the kernel that sleep interruptibly wait for work, unless somebody holds what they need. */
static int class_of(const struct rep_capture *c, const struct rep_thread *t)
{
	const enum state s = state_of(t);

	if (s == BLOCKED)
		return BLOCKED_MOST;
	if (s != SLEEPING)
		return BLOCKED_NOT;
	if (waits_for_another(c, t))
		return BLOCKED_BY_ANOTHER;
	return t->linux_facts.flags & LNX_PF_KTHREAD ? BLOCKED_NOT : BLOCKED_LEAST;
}

/* Uninterruptible ones first; of a class the longest first, and those last of which that is not known. */
static int compare_blocked(const void *a, const void *b)
{
	const struct blocked *x = a, *y = b;

	if (x->class != y->class)
		return x->class - y->class;
	if (x->is_known != y->is_known)
		return x->is_known ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

static size_t blocked_find(const struct rep_capture *c, const struct threads *all,
			   struct rep_since *since, struct blocked *out)
{
	size_t n = 0;

	rep_since_init(since, c);
	for (size_t i = 0; i < all->count; i++) {
		struct blocked b = { .thread = all->thread[i],
				     .class = class_of(c, all->thread[i]) };

		if (b.class == BLOCKED_NOT)
			continue;
		b.is_known = rep_since_run(since, b.thread, &b.ns);
		out[n++] = b;
	}
	qsort(out, n, sizeof(*out), compare_blocked);
	return n;
}

static void put_blocked(const struct rep_capture *c, const struct blocked *b, FILE *to)
{
	char text[CLI_TEXT_MAX];

	fputs("  ", to);
	rep_put_name(b->thread, to);
	fputs(": ", to);
	rep_put_place(c, b->thread, to);
	if (b->ns)
		fprintf(to, ", for at least %s", cli_format_duration(b->ns, text));
	fputc('\n', to);
	rep_put_waits(c, b->thread, "    ", to);
}

static bool put_longest_blocked(const struct rep_live *l, const struct threads *all, FILE *to)
{
	GS_FREE struct blocked *blocked = gs_array_alloc(all->count + 1, sizeof(*blocked));
	GS_FREE struct rep_since *since = malloc(sizeof(*since)); /* too large for a stack */

	if (!blocked || !since)
		return false;
	const size_t n = blocked_find(l->capture, all, since, blocked);
	fputs(n ? "Longest blocked:\n" : "No thread is blocked.\n", to);
	for (size_t i = 0; i < n && i < l->top; i++)
		put_blocked(l->capture, &blocked[i], to);
	if (n > l->top)
		fprintf(to, "  and %zu more\n", n - l->top);
	return true;
}

/* --- the most frequent stacks --- */

static bool has_stack(const struct rep_thread *t)
{
	return t->frame_count || (t->has_linux && t->linux_facts.stack_end == LNX_END_COMPLETE);
}

static bool put_top_stacks(const struct rep_live *l, const struct threads *all, FILE *to)
{
	GS_FREE struct rep_member *members = gs_array_alloc(all->count + 1, sizeof(*members));
	GS_FREE struct rep_group *groups = NULL;
	size_t n = 0;

	if (!members)
		return false;
	for (size_t i = 0; i < all->count; i++)
		if (has_stack(all->thread[i]))
			members[n++] = (struct rep_member){ l->capture, all->thread[i] };
	if (!rep_groups_make(members, n, NULL, NULL, &groups, &n))
		return false;
	fputs(n ? "\nTop stacks:\n" : "", to);
	for (size_t i = 0; i < n && i < l->top; i++) {
		const struct rep_thread *t = groups[i].first->thread;

		fputs("  ", to);
		rep_put_group(&groups[i], to);
		fputs("\n    ", to);
		if (t->frame_count)
			rep_put_functions(l->capture, t, to);
		else
			fputs("(in user mode)", to);
		fputc('\n', to);
	}
	if (n > l->top)
		fprintf(to, "  and %zu other stacks\n", n - l->top);
	return true;
}

static bool put_body(const struct rep_live *l, const struct threads *all, FILE *to)
{
	if (!l->capture)
		return true;
	fputc('\n', to);
	if (l->capture->has_waits && !rep_put_deadlocks(l->capture, to))
		return false;
	if (!put_longest_blocked(l, all, to) || !put_top_stacks(l, all, to))
		return false;
	if (!rep_is_complete(l->capture)) {
		fputs("\nThis capture is NOT complete:\n", to);
		rep_put_missing(l->capture, to);
	}
	return true;
}

/* --- lines --- */

struct text {
	char *bytes;
	size_t size;
};

/* How much of a line fits, up to a blank where there is one. */
static size_t fitting(const char *line, size_t len, size_t indent, uint32_t width)
{
	if (!width || len <= width)
		return len;
	for (size_t n = width; n > indent; n--)
		if (line[n] == ' ')
			return n;
	return width;
}

/* Lines that are too long go on in the next, farther in. */
static void fold_line(const char *line, size_t len, uint32_t width, FILE *to)
{
	const size_t indent = strspn(line, " ");
	const size_t more = indent + GO_ON_INDENT < width / 2 ? indent + GO_ON_INDENT : 0;
	size_t n = fitting(line, len, indent, width);

	fwrite(line, 1, n, to);
	while (width >= WIDTH_MIN && n < len) {
		line += n;
		len -= n;
		const size_t blank = *line == ' ';
		line += blank;
		len -= blank;
		fprintf(to, "\n%*s", (int)more, "");
		n = fitting(line, len, 0, width - (uint32_t)more);
		fwrite(line, 1, n, to);
	}
	fputc('\n', to);
}

/* @return false: out of memory; else the text is to be freed */
static bool fold(const struct text *in, uint32_t width, struct text *out)
{
	FILE *to = open_memstream(&out->bytes, &out->size);

	if (!to)
		return false;
	for (const char *at = in->bytes, *end = in->bytes + in->size; at < end;) {
		const size_t len = strcspn(at, "\n");

		fold_line(at, len, width, to);
		at += len + 1;
	}
	const bool failed = ferror(to);
	return !fclose(to) && !failed;
}

static size_t count_lines(const struct text *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->size; i++)
		n += t->bytes[i] == '\n';
	return n;
}

/* The first byte of a line. */
static const char *line_at(const struct text *t, size_t line)
{
	const char *at = t->bytes;

	while (line--)
		at = strchr(at, '\n') + 1;
	return at;
}

static void put_lines(const struct text *t, size_t first, size_t count, FILE *to)
{
	const char *at = line_at(t, first);

	fwrite(at, 1, (size_t)(line_at(t, first + count) - at), to);
}

static void put_keys(const struct rep_live *l, size_t first, size_t shown, size_t count,
		     uint32_t width, FILE *to)
{
	char line[512];
	int n = 0;

	if (shown < count)
		n = snprintf(line, sizeof(line), "lines %zu-%zu of %zu | ", first + 1,
			     first + shown, count);
	n += snprintf(
		line + n, sizeof(line) - (size_t)n, "%s",
		l->note ? l->note
			: (l->is_paused
				   ? "paused: space goes on, s saves, q quits"
				   : "space pauses, s saves, q quits, arrow and page keys scroll"));
	fprintf(to, "%.*s\n", width ? (int)gs_min(width, sizeof(line) - 1) : n, line);
}

/* What of it is on the screen, from v->first on, which is put right. */
static void put_screen(const struct rep_live *l, const struct text *head, const struct text *body,
		       uint32_t width, uint32_t height, struct rep_live_view *v, FILE *to)
{
	const size_t keys = height > 1, heads = count_lines(head);
	/* on a small screen the head does not stay */
	const bool stays = height >= heads + BODY_MIN + keys;
	const size_t count = count_lines(body) + (stays ? 0 : heads);

	v->shown = gs_min(count, height - keys - (stays ? heads : 0));
	v->first = gs_min(v->first, count - v->shown);
	if (stays) {
		put_lines(head, 0, heads, to);
		put_lines(body, v->first, v->shown, to);
	} else {
		const size_t from_head = v->first < heads ? gs_min(heads - v->first, v->shown) : 0;

		put_lines(head, gs_min(v->first, heads), from_head, to);
		put_lines(body, v->first > heads ? v->first - heads : 0, v->shown - from_head, to);
	}
	if (keys)
		put_keys(l, v->first, v->shown, count, width, to);
}

/* --- the view --- */

static bool make_part(const struct rep_live *l, const struct threads *all, uint32_t width,
		      bool is_head, struct text *out)
{
	struct text raw = { 0 };
	FILE *to = open_memstream(&raw.bytes, &raw.size);
	bool ok = to != NULL;

	if (ok && is_head)
		put_head(l, all, to);
	else if (ok)
		ok = put_body(l, all, to);
	ok = to && !ferror(to) && ok;
	if (to && fclose(to))
		ok = false;
	ok = ok && fold(&raw, width, out);
	free(raw.bytes);
	return ok;
}

/* Cut the text into its lines. */
static bool split(struct text *t, struct rep_live_view *v)
{
	const size_t count = count_lines(t);

	v->line = gs_array_alloc(count + 1, sizeof(*v->line));
	v->text = t->bytes;
	if (!v->line)
		return false;
	for (char *at = t->bytes; v->count < count;) {
		char *end = strchr(at, '\n');

		*end = '\0';
		v->line[v->count++] = at;
		at = end + 1;
	}
	return true;
}

static bool put_together(const struct rep_live *l, const struct text *head, const struct text *body,
			 uint32_t width, uint32_t height, struct rep_live_view *v)
{
	struct text all = { 0 };
	FILE *to = open_memstream(&all.bytes, &all.size);

	if (!to)
		return false;
	if (height) {
		put_screen(l, head, body, width, height, v, to);
	} else {
		put_lines(head, 0, count_lines(head), to);
		put_lines(body, 0, count_lines(body), to);
	}
	bool ok = !ferror(to);
	if (fclose(to) || !ok) {
		free(all.bytes);
		return false;
	}
	return split(&all, v);
}

bool rep_live_view(const struct rep_live *l, uint32_t width, uint32_t height, size_t first,
		   struct rep_live_view *view_out)
{
	struct threads all = { 0 };
	struct text head = { 0 }, body = { 0 };

	*view_out = (struct rep_live_view){ .first = first };
	bool ok = !l->capture || threads_find(l->capture, &all);
	ok = ok && make_part(l, &all, width, true, &head) &&
	     make_part(l, &all, width, false, &body) &&
	     put_together(l, &head, &body, width, height, view_out);
	free(head.bytes);
	free(body.bytes);
	free(all.thread);
	if (!ok)
		rep_live_view_deinit(view_out);
	return ok;
}

void rep_live_view_deinit(struct rep_live_view *v)
{
	free(v->line);
	free(v->text);
	*v = (struct rep_live_view){ 0 };
}
