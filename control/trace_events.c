/* SPDX-License-Identifier: Apache-2.0 */
/* Providers "vcpu" and "guest": events that somebody tells. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "control/trace_priv.h"

/* Function and name of each probe. */
static const char *const vcpu_names[][2] = {
	[CTL_TRACE_EXIT_MMIO] = { "mmio", "exit" },
	[CTL_TRACE_EXIT_INTERRUPTED] = { "interrupted", "exit" },
	[CTL_TRACE_EXIT_OTHER] = { "other", "exit" },
	[CTL_TRACE_STOP] = { "", "stop" },
	[CTL_TRACE_RESUME] = { "", "resume" },
};

static const char *const guest_names[][2] = {
	[CTL_TRACE_BOOT] = { "", "boot" },
	[CTL_TRACE_PANIC] = { "", "panic" },
	[CTL_TRACE_OOPS] = { "", "oops" },
	[CTL_TRACE_CONSOLE] = { "", "console" },
	[CTL_TRACE_HUNG_TASK] = { "", "hung-task" },
	[CTL_TRACE_SOFT_LOCKUP] = { "", "soft-lockup" },
	[CTL_TRACE_POWEROFF] = { "poweroff", "end" },
	[CTL_TRACE_REBOOT] = { "reboot", "end" },
	[CTL_TRACE_CRASH] = { "crash", "end" },
};

/* Relaxed: an event that comes while its probe is being enabled may be seen or not. */
static enum gs_code enable(void *arg, uint64_t key, uint32_t id, struct gs_error *err)
{
	struct trace_event *event = arg;

	(void)err;
	atomic_store_explicit(&event[key].id, id, memory_order_relaxed);
	return GS_OK;
}

static void disable(void *arg, uint64_t key)
{
	struct trace_event *event = arg;

	atomic_store_explicit(&event[key].id, 0, memory_order_relaxed);
}

static enum gs_code add(struct ctl_trace *t, const char *provider, const char *const (*names)[2],
			size_t count, struct trace_event *event, struct probe_provider **p_out,
			struct gs_error *err)
{
	static const struct probe_provider_ops ops = { .enable = enable, .disable = disable };
	enum gs_code rc = probe_provider_add(t->e, provider, &ops, event, p_out, err);
	uint32_t id;

	for (size_t i = 0; !rc && i < count; i++) {
		rc = probe_create(*p_out, "", names[i][0], names[i][1], i, &id);
		if (rc)
			return gs_fail(err, rc, "probe %s:%s: %s", provider, names[i][1],
				       gs_code_name(rc));
	}
	return rc;
}

enum gs_code ctl_trace_add_events(struct ctl_trace *t, struct gs_error *err)
{
	enum gs_code rc =
		add(t, "vcpu", vcpu_names, ARRAY_SIZE(vcpu_names), t->vcpu_event, &t->vcpu, err);

	return rc ? rc
		  : add(t, "guest", guest_names, ARRAY_SIZE(guest_names), t->guest_event, &t->guest,
			err);
}

void ctl_trace_vcpu(struct ctl_trace *t, uint32_t vcpu, enum ctl_trace_vcpu what, uint64_t value,
		    bool (*fetch)(void *arg, struct guest_vcpu_regs *regs_out), void *arg)
{
	const uint32_t id = atomic_load_explicit(&t->vcpu_event[what].id, memory_order_relaxed);

	if (id)
		probe_fire(t->e, id,
			   &(struct probe_context){ .vcpu = vcpu,
						    .fetch = fetch,
						    .arg = arg,
						    .args = { value },
						    .arg_count = 1 });
}

bool ctl_trace_wants_guest(const struct ctl_trace *t, enum ctl_trace_guest what)
{
	return t && atomic_load_explicit(&t->guest_event[what].id, memory_order_relaxed);
}

void ctl_trace_guest(struct ctl_trace *t, enum ctl_trace_guest what, uint64_t value, uint64_t more)
{
	const uint32_t id =
		t ? atomic_load_explicit(&t->guest_event[what].id, memory_order_relaxed) : 0;

	/* of no vCPU: it goes where the session's own records are */
	if (id)
		probe_fire(t->e, id,
			   &(struct probe_context){ .args = { value, more }, .arg_count = 2 });
}
