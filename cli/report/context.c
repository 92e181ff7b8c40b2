/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in. */
#include "cli/report/context.h"

#include <inttypes.h>
#include <string.h>

#include "cli/report/lines.h"
#include "cli/report/queues.h"
#include "introspect/linux/context.h"

static const struct ss_process_context_record *context_of(const struct rep_capture *c,
							  const struct rep_task *t)
{
	return t->context ? &c->contexts[t->context - 1] : NULL;
}

static bool knows_namespace(const struct ss_process_context_record *r, int n)
{
	return r->known & (uint32_t)LNX_PROCESS_NAMESPACE << n;
}

/* --- text --- */

/* " 15 17": numbers of the signals in a set. */
static void put_signals(uint64_t set, FILE *to)
{
	for (uint32_t bit = 0; bit < 64; bit++)
		if (set >> bit & 1)
			fprintf(to, " %" PRIu32, bit + 1);
}

static size_t command_size(const struct ss_process_context_record *r)
{
	size_t n = sizeof(r->command);

	while (n && !r->command[n - 1])
		n--;
	return n;
}

/* The arguments with spaces between them, as ps shows them. */
static void put_command(const struct ss_process_context_record *r, FILE *to)
{
	const char *text = (const char *)r->command;
	const size_t size = command_size(r);

	for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
		fputs(at ? " " : "  command ", to);
		rep_put(text + at, strlen(text + at), to);
	}
	fputc('\n', to);
}

static void put_namespaces(const struct rep_capture *c, const struct ss_process_context_record *r,
			   FILE *to)
{
	/* those that share all with it say nothing */
	const struct ss_process_context_record *init =
		c->init_context ? &c->contexts[c->init_context - 1] : NULL;
	const char *lead = "  namespaces of its own:";

	for (int i = 0; init && i < SS_NAMESPACES; i++) {
		if (!knows_namespace(r, i) || !knows_namespace(init, i) ||
		    r->namespace[i] == init->namespace[i])
			continue;
		fprintf(to, "%s %s %" PRIu32, lead, lnx_namespace_name((enum lnx_namespace)i),
			r->namespace[i]);
		lead = ",";
	}
	if (*lead == ',')
		fputc('\n', to);
}

void rep_put_process_context(const struct rep_capture *c, const struct rep_task *t, FILE *to)
{
	const struct ss_process_context_record *r = context_of(c, t);

	if (!r)
		return;
	if (r->known & LNX_PROCESS_COMMAND && command_size(r))
		put_command(r, to);
	if (r->known & LNX_PROCESS_CGROUP) {
		fputs("  cgroup ", to);
		rep_put(r->cgroup, strlen(r->cgroup), to);
		fputc('\n', to);
	}
	put_namespaces(c, r, to);
	if (r->pending) {
		fputs("  signals pending:", to);
		put_signals(r->pending, to);
		fputc('\n', to);
	}
}

void rep_put_thread_context(const struct rep_thread *t, FILE *to)
{
	const struct ss_thread_context_record *r = &t->context;

	if (!t->has_context)
		return;
	if (rep_waits_for_cpu(t))
		fprintf(to, ", waits for CPU %" PRIu32, t->linux_facts.cpu);
	if (t->queue_place)
		fprintf(to, " (%" PRIu32 " of %" PRIu32 " in its queue)", t->queue_place,
			t->queue_length);
	if (r->locks)
		fprintf(to, ", holds %" PRIu32 " lock%s", r->locks, r->locks == 1 ? "" : "s");
	if (r->pending) {
		fputs(", signals pending:", to);
		put_signals(r->pending, to);
	}
}

/* --- JSON --- */

static void write_signals(struct kcd_json *j, const char *key, uint64_t set)
{
	kcd_json_key(j, key);
	kcd_json_array_begin(j);
	for (uint32_t bit = 0; bit < 64; bit++)
		if (set >> bit & 1)
			kcd_json_u64(j, bit + 1);
	kcd_json_array_end(j);
}

static void write_command(struct kcd_json *j, const struct ss_process_context_record *r)
{
	const char *text = (const char *)r->command;
	const size_t size = command_size(r);

	kcd_json_key(j, "command");
	kcd_json_array_begin(j);
	for (size_t at = 0; at < size; at += strlen(text + at) + 1)
		kcd_json_string(j, text + at);
	kcd_json_array_end(j);
}

void rep_json_process_context(struct kcd_json *j, const struct rep_capture *c,
			      const struct rep_task *t)
{
	const struct ss_process_context_record *r = context_of(c, t);

	if (!r)
		return;
	kcd_json_key(j, "context");
	kcd_json_object_begin(j);
	if (r->known & LNX_PROCESS_COMMAND)
		write_command(j, r);
	if (r->known & LNX_PROCESS_CGROUP)
		kcd_json_member_string(j, "cgroup", r->cgroup);
	kcd_json_key(j, "namespaces");
	kcd_json_object_begin(j);
	for (int i = 0; i < SS_NAMESPACES; i++)
		if (knows_namespace(r, i))
			kcd_json_member_u64(j, lnx_namespace_name((enum lnx_namespace)i),
					    r->namespace[i]);
	kcd_json_object_end(j);
	if (r->known & LNX_PROCESS_PENDING)
		write_signals(j, "pending", r->pending);
	kcd_json_object_end(j);
}

void rep_json_thread_context(struct kcd_json *j, const struct rep_thread *t)
{
	const struct ss_thread_context_record *r = &t->context;

	if (!t->has_context)
		return;
	kcd_json_key(j, "context");
	kcd_json_object_begin(j);
	if (r->known & LNX_THREAD_QUEUE) {
		kcd_json_member_u64(j, "on_rq", r->on_rq);
		kcd_json_member_u64(j, "vruntime", r->vruntime);
		kcd_json_member_hex(j, "cfs_rq", r->cfs_rq);
		if (r->known & LNX_THREAD_DEADLINE)
			kcd_json_member_u64(j, "deadline", r->deadline);
		if (r->on_rq)
			kcd_json_member_bool(j, "delayed", r->delayed);
	}
	if (r->known & LNX_THREAD_SIGNALS) {
		write_signals(j, "pending", r->pending);
		write_signals(j, "blocked", r->blocked);
	}
	if (t->queue_place) {
		kcd_json_member_u64(j, "queue_place", t->queue_place);
		kcd_json_member_u64(j, "queue_length", t->queue_length);
	}
	if (r->known & LNX_THREAD_LOCKS)
		kcd_json_member_u64(j, "locks_held", r->locks);
	kcd_json_object_end(j);
}
