/* SPDX-License-Identifier: Apache-2.0 */
/* A capture as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/context.h"
#include "cli/report/lines.h"
#include "cli/report/report.h"
#include "cli/report/system.h"
#include "cli/report/waits.h"

/* Why it was taken, if not for somebody who wanted to see the guest. */
static void write_reason(const struct rep_capture *c, FILE *to)
{
	const struct ss_reason_record *r = &c->reason;
	const char *name = ss_reason_name(r->reason);
	char text[CLI_TEXT_MAX];

	if (!r->reason)
		return;
	fprintf(to, "Taken because of: %s", name ? name : "something unknown");
	if (r->vcpu >= 0)
		fprintf(to, ", vCPU %" PRId32, r->vcpu);
	if (r->tid >= 0)
		fprintf(to, ", thread %" PRId32, r->tid);
	if (*r->text) {
		fputs(r->tid >= 0 ? " " : ": ", to);
		rep_put(r->text, sizeof(r->text), to);
	}
	if (r->for_ns)
		fprintf(to, ", for %s", cli_format_duration(r->for_ns, text));
	fputc('\n', to);
}

static void write_console(const struct rep_capture *c, FILE *to)
{
	if (c->console_count)
		fputs("\nThe console's last lines before it:\n", to);
	rep_put_console(c->console, c->console_count, "  ", to);
}

static void write_head(const struct rep_capture *c, FILE *to)
{
	const struct ss_times_record *t = &c->times;
	struct rep_totals sum = rep_capture_totals(c);
	struct rep_shown s;
	char taken[REP_TIME_TEXT], ram[CLI_TEXT_MAX], d[4][CLI_TEXT_MAX];

	rep_put_panic(c, to);
	fprintf(to, "Capture of %s", rep_time(c->wall_us, false, taken));
	if (c->guest.vcpus)
		fprintf(to, ": %s guest, %" PRIu32 " vCPU%s in %" PRIu32 " cluster%s, %s",
			rep_show(c->guest.source, sizeof(c->guest.source), &s), c->guest.vcpus,
			c->guest.vcpus == 1 ? "" : "s", c->guest.clusters,
			c->guest.clusters == 1 ? "" : "s", cli_format_size(c->guest.ram_size, ram));
	fputc('\n', to);
	if (c->banner) {
		rep_put(c->banner, strlen(c->banner), to);
		fputc('\n', to);
	}
	fprintf(to, "%zu processes, %zu threads", sum.processes, sum.threads);
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
	write_reason(c, to);
	rep_put_system(c, to);
}

static void write_hidden(const struct rep_capture *c, FILE *to)
{
	size_t hidden = 0;

	for (size_t i = 0; i < c->thread_count; i++)
		hidden += c->threads[i].hidden;
	if (hidden)
		fprintf(to, "%zu of %zu threads are shown\n", c->thread_count - hidden,
			c->thread_count);
}

static void write_missing(const struct rep_capture *c, FILE *to)
{
	if (rep_is_complete(c))
		return;
	fputs("\nThis capture is NOT complete:\n", to);
	rep_put_missing(c, to);
}

static void write_vcpus(const struct rep_capture *c, FILE *to)
{
	struct rep_shown s;

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
				rep_show(v->comm, sizeof(v->comm), &s),
				rep_vcpu_state_name(v->state), v->pc);
		else
			fprintf(to, "%s mode, pc %#" PRIx64 ", lr %#" PRIx64 ", sp %#" PRIx64 "\n",
				rep_vcpu_state_name(v->state), v->pc, v->x[30],
				v->state == SS_VCPU_USER ? v->sp_el0 : v->sp_el1);
	}
}

static void write_task(const struct rep_capture *c, const struct rep_task *t, FILE *to)
{
	bool is_first = true;

	for (uint32_t i = 0; i < t->thread_count; i++) {
		const struct rep_thread *th = &c->threads[t->first_thread + i];

		if (th->hidden)
			continue;
		if (is_first) {
			fputc('\n', to);
			rep_put_task(t, to);
			rep_put_process_context(c, t, to);
			rep_put_build_ids(c, t, to);
		}
		is_first = false;
		fputs("  ", to);
		rep_put_thread(th, to);
		rep_put_thread_context(th, to);
		fputc('\n', to);
		rep_put_waits(c, th, "    ", to);
		rep_put_stack(c, th, "    ", to);
	}
}

static bool write_groups(const struct rep_capture *c, FILE *to)
{
	GS_FREE struct rep_member *members = gs_array_alloc(c->thread_count, sizeof(*members));

	size_t n = 0;

	if (!members)
		return c->thread_count == 0;
	for (size_t i = 0; i < c->thread_count; i++)
		if (!c->threads[i].hidden)
			members[n++] = (struct rep_member){ c, &c->threads[i] };
	return rep_put_groups(members, n, to);
}

bool rep_text(const struct rep_capture *c, bool group, FILE *to)
{
	bool ok = true;

	write_head(c, to);
	write_hidden(c, to);
	write_missing(c, to);
	write_console(c, to);
	write_vcpus(c, to);
	if (group)
		ok = write_groups(c, to);
	/* the idle threads last: they are many, and say least */
	for (int idle = 0; !group && idle < 2; idle++)
		for (size_t i = 0; i < c->task_count && !ferror(to); i++)
			if ((c->tasks[i].pid == 0) == idle)
				write_task(c, &c->tasks[i], to);
	if (c->log_count) {
		fputs("\nlog\n", to);
		rep_put_log(c, "  ", to);
	}
	return fflush(to) == 0 && !ferror(to) && ok;
}
