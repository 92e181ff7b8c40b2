/* SPDX-License-Identifier: Apache-2.0 */
/* What schedules do and have done, for the control socket. */
#include "base/util.h"
#include "control/protocol.h"
#include "control/schedules_priv.h"

static json_t *wishes(const struct ctl_schedule_config *c)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "dir",
			 ctl_json_text(c->dir), "every_ns", ctl_json_number(c->every_ns), "jitter",
			 ctl_json_number(c->jitter), "full_every",
			 ctl_json_number(gs_max(c->full_every, 1)), "keep",
			 ctl_json_number(c->keep), "max_bytes", ctl_json_number(c->max_bytes),
			 "max_stopped_ppm", ctl_json_number(c->max_stopped), "triggers",
			 (int)c->triggers, "hung_task_ns", ctl_json_number(c->hung_ns),
			 "soft_lockup_ns", ctl_json_number(c->lockup_ns));
}

static json_t *counters(const struct schedule *s)
{
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "interval_ns",
			 ctl_json_number(s->pace.interval_ns), "stretched",
			 (int)s->pace.is_stretched, "left_out", ctl_json_number(s->pace.left_out),
			 "written", ctl_json_number(s->written), "triggered",
			 ctl_json_number(s->triggered), "failed", ctl_json_number(s->lost), "kept",
			 ctl_json_number(s->kept_now), "suppressed", ctl_json_number(s->suppressed),
			 "looks", ctl_json_number(s->looks), "stopped_ns",
			 ctl_json_number(s->pace.stopped_ns), "failure",
			 s->failing ? ctl_json_text(s->failure.text) : json_null());
}

static json_t *folder(const struct ctl_store_stats *f)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "captures", ctl_json_number(f->captures), "bytes",
			 ctl_json_number(f->bytes), "removed", ctl_json_number(f->removed), "last",
			 *f->last ? json_string(f->last) : json_null());
}

static json_t *schedule_object(const struct schedule *s)
{
	json_t *o = json_pack("{s:o}", "id", ctl_json_number(s->id));

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
