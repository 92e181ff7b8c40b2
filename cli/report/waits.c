/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for: lines, JSON, and who waits for whom. */
#include "cli/report/waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/report/ids.h"
#include "cli/report/lines.h"
#include "introspect/linux/linux.h"

/* Deeper chains are drawn no farther to the right. */
#define INDENT_MAX 32

#define TAKEN UINT32_MAX /* by whom a thread of a cycle was seen, once that is told */

/* How what a record has besides the object is shown. */
enum form { NO_EXTRA, NUMBER, HEX, FUNCTION, DUE, LEFT };

static const struct {
	const char *name; /* in JSON */
	const char *text;
	enum form form;
	const char *extra;	/* in JSON */
	const char *extra_text; /* before it; of numbers "%s N" */
} kinds[LNX_WAIT_KINDS] = {
	[LNX_WAIT_MUTEX] = { "mutex", "mutex" },
	[LNX_WAIT_RWSEM_READ] = { "rwsem-read", "rw_semaphore (to read)" },
	[LNX_WAIT_RWSEM_WRITE] = { "rwsem-write", "rw_semaphore (to write)" },
	[LNX_WAIT_COMPLETION] = { "completion", "completion" },
	[LNX_WAIT_QUEUE] = { "wait-queue", "wait queue", FUNCTION, "waker", "woken by" },
	[LNX_WAIT_FUTEX] = { "futex", "futex" },
	[LNX_WAIT_FUTEX_SHARED] = { "futex-shared", "futex of a file at offset", NUMBER, "file",
				    "of file" },
	[LNX_WAIT_TIMER] = { "timer", "timer", DUE, "due_ns", "due at" },
	[LNX_WAIT_FLOCK] = { "flock", "flock", NUMBER, "inode", "of inode" },
	[LNX_WAIT_RECORD_LOCK] = { "record-lock", "record lock", NUMBER, "inode", "of inode" },
	[LNX_WAIT_LEASE] = { "lease", "lease", NUMBER, "inode", "of inode" },
	[LNX_WAIT_RT_MUTEX] = { "rt-mutex", "rt_mutex" },
	[LNX_WAIT_SEMAPHORE] = { "semaphore", "semaphore" },
	[LNX_WAIT_CHILD] = { "child", "children of" },
	[LNX_WAIT_PIPE] = { "pipe", "pipe", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_SOCKET] = { "socket", "socket", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_EPOLL] = { "epoll", "epoll", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_EVENTFD] = { "eventfd", "eventfd", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_TIMERFD] = { "timerfd", "timerfd", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_INOTIFY] = { "inotify", "inotify", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_FILE] = { "file", "file", NUMBER, "descriptor", "descriptor" },
	[LNX_WAIT_MESSAGE] = { "message", "message in queue", NUMBER, "id", "id" },
	[LNX_WAIT_MESSAGE_ROOM] = { "message-room", "room in message queue", NUMBER, "id", "id" },
	[LNX_WAIT_SYSV_SEMAPHORE] = { "sysv-semaphore", "System V semaphores", NUMBER, "id", "id" },
	[LNX_WAIT_PAGE] = { "page", "page", NUMBER, "bit", "bit" },
	[LNX_WAIT_BIT] = { "bit", "word", NUMBER, "bit", "bit" },
	[LNX_WAIT_USERFAULT] = { "userfault", "userfaultfd", HEX, "address", "to fill in" },
	[LNX_WAIT_RCU] = { "rcu", "RCU grace period, completion" },
	[LNX_WAIT_SIGNAL] = { "signal", "signal", HEX, "signals", "of" },
	[LNX_WAIT_FREEZER] = { "freezer", "thaw of" },
	[LNX_WAIT_WORK] = { "work", "work, idle", FUNCTION, "function", "in" },
	[LNX_WAIT_TIMEOUT] = { "timeout", "timeout", LEFT, "left_ms", "due in" },
	[LNX_WAIT_BLOCK] = { "block", "block request" },
	[LNX_WAIT_TAG] = { "tag", "free block request of" },
	[LNX_WAIT_BUFFER] = { "buffer", "buffer", NUMBER, "block", "block" },
};

/* Kinds of later captures are here as 0. */
static uint32_t kind_of(const struct rep_wait *w)
{
	return w->record.kind < LNX_WAIT_KINDS ? w->record.kind : 0;
}

static const char *kind_text(uint32_t kind)
{
	return kind ? kinds[kind].text : "something unknown";
}

static bool is_rwsem(uint32_t kind)
{
	return kind == LNX_WAIT_RWSEM_READ || kind == LNX_WAIT_RWSEM_WRITE;
}

/* --- owners --- */

/* Threads that are not alone in their process, as far as the capture tells. */
static bool *find_others(const struct rep_capture *c)
{
	bool *others = calloc(c->thread_count + 1, sizeof(*others));

	for (size_t i = 0; others && i < c->task_count; i++) {
		const struct rep_task *t = &c->tasks[i];

		for (uint32_t k = 0; k < t->thread_count; k++)
			others[t->first_thread + k] =
				t->thread_count > 1 || t->linux_facts.threads > 1;
	}
	return others;
}

bool rep_waits_resolve(struct rep_capture *c)
{
	if (!c->wait_count)
		return true;
	/* an owner may be a thread of any task */
	GS_FREE struct rep_id *ids = gs_array_alloc(c->thread_count, sizeof(*ids));
	GS_FREE bool *others = find_others(c);
	if (!ids || !others)
		return false;
	for (size_t i = 0; i < c->thread_count; i++)
		ids[i] = (struct rep_id){ c->threads[i].id, i };
	rep_id_sort(ids, c->thread_count);
	for (size_t i = 0; i < c->wait_count; i++) {
		struct rep_wait *w = &c->waits[i];

		w->owner = w->record.owner ? rep_id_find(ids, c->thread_count, w->record.owner)
					   : REP_NONE;
		w->has_others = lnx_wait_is_for_process(w->record.kind) && w->owner != REP_NONE &&
				others[w->owner];
		if (lnx_wait_has_function(w->record.kind))
			w->function = rep_symbol_at(c, w->record.extra);
	}
	return true;
}

/* --- lines --- */

static void put_who(const struct rep_thread *t, FILE *to)
{
	struct rep_shown s;

	fprintf(to, "%" PRId64 " %s",
		t->has_linux ? t->linux_facts.tid : (int64_t)t->stock.ths_thread_id,
		rep_show(t->comm, sizeof(t->comm), &s));
}

static void put_owner(const struct rep_capture *c, const struct rep_wait *w, FILE *to)
{
	if (w->owner != REP_NONE) {
		fputs(" held by ", to);
		put_who(&c->threads[w->owner], to);
	} else if (w->record.owner) {
		fprintf(to, " held by %" PRId32 ", which is not in this capture",
			w->record.owner_tid);
	} else if (is_rwsem(kind_of(w)) && w->record.extra & LNX_RWSEM_READER_OWNED) {
		fputs(" held by readers", to);
	} else if (lnx_wait_is_for_process(kind_of(w))) {
		fputs(" held by a process that is not known", to);
	} else if (kind_of(w) == LNX_WAIT_MUTEX || kind_of(w) == LNX_WAIT_RT_MUTEX ||
		   is_rwsem(kind_of(w))) {
		fputs(" that nobody holds now", to);
	}
}

/* " woken by pollwake", ", due at 3.000000000 s" */
static void put_extra(const struct rep_wait *w, FILE *to)
{
	const uint64_t extra = w->record.extra;
	const char *text = kinds[kind_of(w)].extra_text;

	switch (kinds[kind_of(w)].form) {
	case NO_EXTRA: break;
	case NUMBER: fprintf(to, " (%s %" PRIu64 ")", text, extra); break;
	case HEX: fprintf(to, " (%s %#" PRIx64 ")", text, extra); break;
	case DUE:
		fprintf(to, ", %s %" PRIu64 ".%09" PRIu64 " s", text, extra / 1000000000,
			extra % 1000000000);
		break;
	case LEFT:
		if (extra != LNX_TIMEOUT_UNKNOWN)
			fprintf(to, ", %s %" PRIu64 " ms", text, extra);
		break;
	case FUNCTION:
		if (!w->function)
			break;
		fprintf(to, " %s ", text);
		rep_put(w->function->name, strlen(w->function->name), to);
		break;
	}
}

/* A device's number as ls(1) and /proc have it. */
#define MAJOR(device) ((device) >> 20)
#define MINOR(device) ((device)&0xfffff)

/* " of inode 12 on device 254:1" */
static void put_device(const struct ss_wait_record *r, FILE *to)
{
	if (r->inode)
		fprintf(to, " of inode %" PRIu64, r->inode);
	if (r->device)
		fprintf(to, " on device %" PRIu32 ":%" PRIu32, MAJOR(r->device), MINOR(r->device));
}

/* "waits for mutex 0x… held by 123 name" */
static void put_wait(const struct rep_capture *c, const struct rep_wait *w, FILE *to)
{
	const struct ss_wait_record *r = &w->record;

	fprintf(to, "waits for %s", kind_text(kind_of(w)));
	if (r->object)
		fprintf(to, " %#" PRIx64, r->object);
	put_extra(w, to);
	put_device(r, to);
	put_owner(c, w, to);
}

void rep_put_waits(const struct rep_capture *c, const struct rep_thread *t, const char *indent,
		   FILE *to)
{
	for (uint32_t i = 0; i < t->wait_count; i++) {
		fputs(indent, to);
		put_wait(c, &c->waits[t->first_wait + i], to);
		fputc('\n', to);
	}
}

/* --- who waits for whom --- */

/*
 * Each thread waits for one owner at most, so that cycles do not meet. What a process holds any of its
 * threads may let go: a ring through one that has others is no deadlock, and is cut there.
 */
struct graph {
	const struct rep_capture *c;
	size_t *wait;	 /* of each thread: its wait with an owner; REP_NONE: none */
	size_t *waiters; /* threads that have one, by owner */
	size_t waiter_count;
	size_t *stack;	/* of threads, each at most once */
	uint32_t *seen; /* of each thread: by which search, from 1 */
	bool *in_cycle;
};

static size_t owner_of(const struct graph *g, size_t thread)
{
	return g->wait[thread] == REP_NONE ? REP_NONE : g->c->waits[g->wait[thread]].owner;
}

static int compare_waiters(const void *a, const void *b, void *arg)
{
	const struct graph *g = arg;
	const size_t x = *(const size_t *)a, y = *(const size_t *)b;
	const size_t p = owner_of(g, x), q = owner_of(g, y);

	if (p != q)
		return p < q ? -1 : 1;
	return (x > y) - (x < y);
}

/* The thread of a cycle that waits for a process with other threads; REP_NONE: none does. */
static size_t find_cut(const struct graph *g, size_t first)
{
	size_t at = first;

	do {
		if (g->c->waits[g->wait[at]].has_others)
			return at;
		at = owner_of(g, at);
	} while (at != first);
	return REP_NONE;
}

/* Follow owners from each thread: one that this search has seen closes a cycle. */
static void find_cycles(struct graph *g)
{
	for (size_t i = 0; i < g->c->thread_count; i++) {
		size_t at = i;

		while (at != REP_NONE && !g->seen[at]) {
			g->seen[at] = (uint32_t)i + 1;
			at = owner_of(g, at);
		}
		if (at == REP_NONE || g->seen[at] != (uint32_t)i + 1)
			continue;
		const size_t cut = find_cut(g, at);
		if (cut != REP_NONE) {
			g->wait[cut] = REP_NONE;
			continue;
		}
		for (; !g->in_cycle[at]; at = owner_of(g, at))
			g->in_cycle[at] = true;
	}
}

static void graph_deinit(struct graph *g)
{
	free(g->wait);
	free(g->waiters);
	free(g->stack);
	free(g->seen);
	free(g->in_cycle);
}

static bool graph_init(struct graph *g, const struct rep_capture *c)
{
	const size_t n = c->thread_count;

	*g = (struct graph){ .c = c };
	g->wait = gs_array_alloc(n + 1, sizeof(*g->wait));
	g->waiters = gs_array_alloc(n + 1, sizeof(*g->waiters));
	g->stack = gs_array_alloc(n + 1, sizeof(*g->stack));
	g->seen = calloc(n + 1, sizeof(*g->seen));
	g->in_cycle = calloc(n + 1, sizeof(*g->in_cycle));
	if (n >= UINT32_MAX || !g->wait || !g->waiters || !g->stack || !g->seen || !g->in_cycle) {
		graph_deinit(g);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		const struct rep_thread *t = &c->threads[i];

		g->wait[i] = REP_NONE;
		for (uint32_t k = 0; g->wait[i] == REP_NONE && k < t->wait_count; k++)
			if (c->waits[t->first_wait + k].owner != REP_NONE)
				g->wait[i] = t->first_wait + k;
	}
	find_cycles(g);
	for (size_t i = 0; i < n; i++)
		if (g->wait[i] != REP_NONE)
			g->waiters[g->waiter_count++] = i;
	qsort_r(g->waiters, g->waiter_count, sizeof(*g->waiters), compare_waiters, g);
	return true;
}

/* The first of waiters that waits for a thread, or for a later one. */
static size_t first_waiter(const struct graph *g, size_t thread)
{
	size_t lo = 0, hi = g->waiter_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (owner_of(g, g->waiters[mid]) < thread)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void put_waiter(const struct graph *g, size_t thread, uint32_t depth, FILE *to)
{
	fprintf(to, "%*s", (int)(2 * depth), "");
	rep_put_name(&g->c->threads[thread], to);
	if (g->wait[thread] != REP_NONE) {
		fputs(" ", to);
		put_wait(g->c, &g->c->waits[g->wait[thread]], to);
	}
	fputc('\n', to);
}

static size_t push_waiters(const struct graph *g, size_t thread, size_t n)
{
	const size_t first = first_waiter(g, thread);
	size_t end = first;

	while (end < g->waiter_count && owner_of(g, g->waiters[end]) == thread)
		end++;
	/* the first one last, so that it is the next one */
	while (end-- > first)
		if (!g->in_cycle[g->waiters[end]])
			g->stack[n++] = g->waiters[end];
	return n;
}

/* Those who wait for a thread, and those who wait for these; outside of cycles nobody comes twice. */
static void put_tree(const struct graph *g, size_t root, FILE *to)
{
	size_t n = push_waiters(g, root, 0);

	while (n) {
		const size_t at = g->stack[--n];
		uint32_t depth = 1;

		for (size_t up = owner_of(g, at); up != root && depth < INDENT_MAX;
		     up = owner_of(g, up))
			depth++;
		put_waiter(g, at, depth, to);
		n = push_waiters(g, at, n);
	}
}

/* Whether a thread is in a cycle that has not been taken. Asked in order, the lowest stands for each. */
static bool take_cycle(struct graph *g, size_t thread)
{
	if (!g->in_cycle[thread] || g->seen[thread] == TAKEN)
		return false;
	for (size_t at = thread; g->seen[at] != TAKEN; at = owner_of(g, at))
		g->seen[at] = TAKEN;
	return true;
}

static void put_deadlocks(struct graph *g, FILE *to)
{
	for (size_t i = 0; i < g->c->thread_count; i++) {
		if (!take_cycle(g, i))
			continue;
		fputs("Deadlock:\n", to);
		size_t at = i;
		do {
			put_waiter(g, at, 1, to);
			at = owner_of(g, at);
		} while (at != i);
		fputc('\n', to);
	}
}

static void put_chains(const struct graph *g, FILE *to)
{
	for (size_t i = 0; i < g->c->thread_count; i++) {
		const bool is_root = g->wait[i] == REP_NONE || g->in_cycle[i];

		if (!is_root)
			continue;
		/* of a cycle: those who wait for it without being in it */
		const size_t n = push_waiters(g, i, 0);
		if (!n)
			continue;
		rep_put_name(&g->c->threads[i], to);
		fputs(" is waited for by\n", to);
		put_tree(g, i, to);
		fputc('\n', to);
	}
}

static void put_others(const struct rep_capture *c, FILE *to)
{
	size_t count[LNX_WAIT_KINDS] = { 0 };

	for (size_t i = 0; i < c->wait_count; i++)
		if (c->waits[i].owner == REP_NONE)
			count[kind_of(&c->waits[i])]++;
	fputs("Waits for what has no owner in this capture:\n", to);
	for (uint32_t k = 1; k <= LNX_WAIT_KINDS; k++) {
		const uint32_t kind = k % LNX_WAIT_KINDS; /* the unknown ones last */

		if (count[kind])
			fprintf(to, "  %zu for %s\n", count[kind], kind_text(kind));
	}
}

bool rep_waits(const struct rep_capture *c, FILE *to)
{
	struct graph g;

	if (!graph_init(&g, c))
		return false;
	put_deadlocks(&g, to);
	put_chains(&g, to);
	if (c->wait_count)
		put_others(c, to);
	else
		fputs("No thread waits for anything that was recognised.\n", to);
	graph_deinit(&g);
	return fflush(to) == 0 && !ferror(to);
}

bool rep_put_deadlocks(const struct rep_capture *c, FILE *to)
{
	struct graph g;

	if (!graph_init(&g, c))
		return false;
	put_deadlocks(&g, to);
	graph_deinit(&g);
	return true;
}

/* --- JSON --- */

static void json_owner(struct kcd_json *j, const struct rep_capture *c, const struct rep_wait *w)
{
	kcd_json_key(j, "owner");
	if (!w->record.owner) {
		kcd_json_null(j);
		return;
	}
	kcd_json_object_begin(j);
	kcd_json_member_i64(j, "tid", w->record.owner_tid);
	kcd_json_key(j, "comm");
	if (w->owner != REP_NONE)
		kcd_json_string(j, c->threads[w->owner].comm);
	else
		kcd_json_null(j);
	kcd_json_object_end(j);
}

/* For kinds that may have these. */
static void json_device(struct kcd_json *j, const struct ss_wait_record *r)
{
	char device[32];

	if (r->kind != LNX_WAIT_BLOCK && r->kind != LNX_WAIT_BUFFER && r->kind != LNX_WAIT_PAGE)
		return;
	snprintf(device, sizeof(device), "%" PRIu32 ":%" PRIu32, MAJOR(r->device),
		 MINOR(r->device));
	kcd_json_key(j, "device");
	if (r->device)
		kcd_json_string(j, device);
	else
		kcd_json_null(j);
	if (r->kind != LNX_WAIT_PAGE)
		return;
	kcd_json_key(j, "inode");
	if (r->inode)
		kcd_json_u64(j, r->inode);
	else
		kcd_json_null(j);
}

static void json_wait(struct kcd_json *j, const struct rep_capture *c, const struct rep_wait *w)
{
	const uint32_t kind = kind_of(w);

	kcd_json_object_begin(j);
	kcd_json_member_string(j, "kind", kind ? kinds[kind].name : "unknown");
	kcd_json_member_hex(j, "object", w->record.object);
	json_owner(j, c, w);
	if (is_rwsem(kind))
		kcd_json_member_bool(j, "held_by_readers",
				     w->record.extra & LNX_RWSEM_READER_OWNED);
	switch (kinds[kind].form) {
	case NO_EXTRA: break;
	case NUMBER:
	case DUE: kcd_json_member_u64(j, kinds[kind].extra, w->record.extra); break;
	case HEX: kcd_json_member_hex(j, kinds[kind].extra, w->record.extra); break;
	case LEFT:
		kcd_json_key(j, kinds[kind].extra);
		if (w->record.extra == LNX_TIMEOUT_UNKNOWN)
			kcd_json_null(j);
		else
			kcd_json_u64(j, w->record.extra);
		break;
	case FUNCTION:
		kcd_json_key(j, kinds[kind].extra);
		w->function ? kcd_json_string(j, w->function->name)
			    : kcd_json_hex(j, w->record.extra);
		break;
	}
	json_device(j, &w->record);
	kcd_json_object_end(j);
}

void rep_json_waits(struct kcd_json *j, const struct rep_capture *c, const struct rep_thread *t)
{
	if (!c->has_waits)
		return;
	kcd_json_key(j, "waits");
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < t->wait_count; i++)
		json_wait(j, c, &c->waits[t->first_wait + i]);
	kcd_json_array_end(j);
}

bool rep_json_deadlocks(struct kcd_json *j, const struct rep_capture *c)
{
	struct graph g;

	if (!c->has_waits)
		return true;
	if (!graph_init(&g, c))
		return false;
	kcd_json_key(j, "deadlocks");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < c->thread_count; i++) {
		if (!take_cycle(&g, i))
			continue;
		kcd_json_array_begin(j);
		size_t at = i;
		do {
			kcd_json_i64(j, c->threads[at].linux_facts.tid);
			at = owner_of(&g, at);
		} while (at != i);
		kcd_json_array_end(j);
	}
	kcd_json_array_end(j);
	graph_deinit(&g);
	return true;
}
