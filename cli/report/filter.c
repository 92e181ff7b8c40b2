/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of a capture are shown. */
#include "cli/report/filter.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/report/since.h"

bool rep_filter_is_set(const struct rep_filter *f)
{
	return f->states || f->process || f->function || f->waiting_ns;
}

bool rep_filter_are_states(const char *letters)
{
	return *letters && letters[strspn(letters, "RSDTtZXIP")] == '\0';
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
		   const struct rep_filter *f, const struct rep_since *since)
{
	uint64_t waited_ns;
	const uint32_t state = t->linux_facts.state;

	if (f->states &&
	    (!t->has_linux || !state || state > 0x7f || !strchr(f->states, (int)state)))
		return false;
	if (f->waiting_ns && (!rep_since_run(since, t, &waited_ns) || waited_ns < f->waiting_ns))
		return false;
	return !f->function || is_in(c, t, f->function);
}

size_t rep_filter_apply(struct rep_capture *c, const struct rep_filter *f)
{
	static struct rep_since since; /* too large for a stack */
	size_t shown = 0;

	rep_since_init(&since, c);
	for (size_t i = 0; i < c->thread_count; i++)
		c->threads[i].hidden = true;
	for (size_t i = 0; i < c->task_count; i++) {
		const struct rep_task *task = &c->tasks[i];

		if (f->process && !is_process(task, f->process))
			continue;
		for (uint32_t k = 0; k < task->thread_count; k++) {
			struct rep_thread *t = &c->threads[task->first_thread + k];

			t->hidden = !agrees(c, t, f, &since);
			shown += !t->hidden;
		}
	}
	return shown;
}
