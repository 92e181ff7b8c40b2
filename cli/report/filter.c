/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of a capture are shown. */
#include "cli/report/filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"

/* CPUs of which the newest run is kept: more than any guest has here. */
#define CPUS 512

bool rep_filter_is_set(const struct rep_filter *f)
{
	return f->states || f->process || f->function || f->waiting_ns;
}

bool rep_filter_are_states(const char *letters)
{
	return *letters && letters[strspn(letters, "RSDTtZXIP")] == '\0';
}

bool rep_has_run_time(const struct rep_thread *t)
{
	const uint32_t both = LNX_TASK_HAS_LAST_RUN | LNX_TASK_HAS_CPU;

	return t->has_linux && (t->linux_facts.known & both) == both;
}

static void find_newest(const struct rep_capture *c, uint64_t newest[static CPUS])
{
	memset(newest, 0, CPUS * sizeof(*newest));
	for (size_t i = 0; i < c->thread_count; i++) {
		const struct ss_thread_record *r = &c->threads[i].linux_facts;

		/* clocks of different CPUs cannot be compared: one without a place is left out */
		if (rep_has_run_time(&c->threads[i]) && r->cpu < CPUS)
			newest[r->cpu] = gs_max(newest[r->cpu], r->exec_start_ns);
	}
}

static bool has_waited(const struct rep_thread *t, const uint64_t *newest, uint64_t ns)
{
	const struct ss_thread_record *r = &t->linux_facts;

	return rep_has_run_time(t) && r->vcpu < 0 && r->state != 'R' && r->cpu < CPUS &&
	       newest[r->cpu] - r->exec_start_ns >= ns;
}

static bool is_in(const struct rep_capture *c, const struct rep_thread *t, const char *function)
{
	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct rep_symbol *s = c->frames[t->first_frame + i].symbol;

		if (s && !strcmp(s->name, function))
			return true;
	}
	return false;
}

static bool is_process(const struct rep_task *t, const char *process)
{
	char number[16];

	snprintf(number, sizeof(number), "%" PRId32, t->pid);
	return !strcmp(process, number) || !strcmp(process, t->comm);
}

static bool agrees(const struct rep_capture *c, const struct rep_thread *t,
		   const struct rep_filter *f, const uint64_t *newest)
{
	const uint32_t state = t->linux_facts.state;

	if (f->states &&
	    (!t->has_linux || !state || state > 0x7f || !strchr(f->states, (int)state)))
		return false;
	if (f->waiting_ns && !has_waited(t, newest, f->waiting_ns))
		return false;
	return !f->function || is_in(c, t, f->function);
}

size_t rep_filter_apply(struct rep_capture *c, const struct rep_filter *f)
{
	static uint64_t newest[CPUS]; /* too large for a stack */
	size_t shown = 0;

	find_newest(c, newest);
	for (size_t i = 0; i < c->thread_count; i++)
		c->threads[i].hidden = true;
	for (size_t i = 0; i < c->task_count; i++) {
		const struct rep_task *task = &c->tasks[i];

		if (f->process && !is_process(task, f->process))
			continue;
		for (uint32_t k = 0; k < task->thread_count; k++) {
			struct rep_thread *t = &c->threads[task->first_thread + k];

			t->hidden = !agrees(c, t, f, newest);
			shown += !t->hidden;
		}
	}
	return shown;
}
