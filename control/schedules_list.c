/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules do and have done, for the control socket. */
#include "base/util.h"
#include "control/protocol.h"
#include "control/schedules_priv.h"

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)gs_min(value, INT64_MAX));
}

static json_t *wishes(const struct ctl_schedule_config *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "dir",
			 ctl_json_text(c->dir), "every_ns", number(c->every_ns), "jitter",
			 number(c->jitter), "full_every", number(gs_max(c->full_every, 1)), "keep",
			 number(c->keep), "max_bytes", number(c->max_bytes), "max_stopped_ppm",
			 number(c->max_stopped), "triggers", (int)c->triggers, "hung_task_ns",
			 number(c->hung_ns), "soft_lockup_ns", number(c->lockup_ns));
}

static json_t *counters(const struct schedule *s)
{
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "interval_ns",
			 number(s->pace.interval_ns), "stretched", (int)s->pace.is_stretched,
			 "left_out", number(s->pace.left_out), "written", number(s->written),
			 "triggered", number(s->triggered), "failed", number(s->lost), "suppressed",
			 number(s->suppressed), "looks", number(s->looks), "stopped_ns",
			 number(s->pace.stopped_ns), "failure",
			 s->failing ? ctl_json_text(s->failure.text) : json_null());
}

static json_t *folder(const struct ctl_store_stats *f)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "captures", number(f->captures), "bytes",
			 number(f->bytes), "removed", number(f->removed), "last",
			 *f->last ? json_string(f->last) : json_null());
}

static json_t *schedule_object(const struct schedule *s)
{
	json_t *o = json_pack("{s:o}", "id", number(s->id));

	/* a NULL anywhere makes the update fail */
	if (o && !json_object_update_new(o, wishes(&s->config)) &&
	    !json_object_update_new(o, counters(s)) &&
	    !json_object_update_new(o, folder(&s->folder)))
		return o;
	json_decref(o);
	return NULL;
}

json_t *ctl_schedules_list(const struct ctl_schedules *all)
{
	json_t *list = json_array();
	const struct schedule *s;

	LIST_FOREACH(s, &all->list, link)
	{
		/* the newest is first in ours */
		if (!s->removed && json_array_insert_new(list, 0, schedule_object(s))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
