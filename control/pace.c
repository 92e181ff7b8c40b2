/* SPDX-License-Identifier: Apache-2.0 */
/* When the next capture of a schedule is due: interval, jitter, and what the guest may be stopped. */
#include "control/pace.h"

#include "base/util.h"

/* Longest time that one capture pays for: a day, so that one odd stop ends no schedule. */
#define PAY_MAX_NS (UINT64_C(86400) * 1000000000)

void ctl_pace_start(struct ctl_pace *p, uint64_t now_ns)
{
	p->slot_ns = p->paid_ns = now_ns;
	p->late_ns = 0;
}

uint64_t ctl_pace_due(const struct ctl_pace *p)
{
	return p->every_ns ? gs_max(p->slot_ns + p->late_ns, p->paid_ns) : UINT64_MAX;
}

void ctl_pace_begin(struct ctl_pace *p, uint64_t now_ns, uint64_t random)
{
	const uint64_t range = p->every_ns / 100 * p->jitter;

	if (p->began_ns)
		p->interval_ns = now_ns - p->began_ns;
	p->began_ns = now_ns;
	p->taken++;
	p->slot_ns += p->every_ns;
	if (p->slot_ns <= now_ns) {
		const uint64_t passed = (now_ns - p->slot_ns) / p->every_ns + 1;

		p->left_out += passed;
		p->slot_ns += passed * p->every_ns;
	}
	p->late_ns = range ? random % range : 0;
}

/* How long a stop of this length pays for, rounded up. */
static uint64_t pays_for(const struct ctl_pace *p, uint64_t stopped_ns)
{
	uint64_t scaled;

	if (!p->max_stopped)
		return 0;
	if (!gs_mul(stopped_ns, CTL_PPM, &scaled))
		return PAY_MAX_NS;
	return gs_min(scaled / p->max_stopped + (scaled % p->max_stopped != 0), PAY_MAX_NS);
}

bool ctl_pace_pay(struct ctl_pace *p, uint64_t now_ns, uint64_t stopped_ns)
{
	const bool was = p->is_stretched;

	p->stopped_ns += stopped_ns;
	/* what was not paid for yet is still to be */
	p->paid_ns =
		gs_max(p->paid_ns, now_ns - gs_min(stopped_ns, now_ns)) + pays_for(p, stopped_ns);
	p->is_stretched = p->every_ns && p->paid_ns > gs_max(p->slot_ns + p->late_ns, now_ns);
	return p->is_stretched != was;
}
