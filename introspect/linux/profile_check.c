/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a profile is what its kernel says of itself. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/finder.h"
#include "introspect/linux/kernel.h"
#include "introspect/linux/reference.h"

struct comparison {
	void (*visit)(const struct lnx_difference *d, void *arg);
	void *arg;
	uint32_t differences;
};

static void report(struct comparison *c, const char *name, const char *profile, const char *kernel)
{
	const struct lnx_difference d = { name, profile, kernel };

	c->differences++;
	c->visit(&d, c->arg);
}

static void compare_fields(struct comparison *c, const char *name, const struct lnx_field *profile,
			   const struct lnx_field *kernel)
{
	char ours[64], theirs[64];

	if (profile->present == kernel->present &&
	    (!profile->present ||
	     (profile->offset == kernel->offset && profile->size == kernel->size)))
		return;
	snprintf(ours, sizeof(ours), "offset %" PRIu32 ", size %" PRIu32, profile->offset,
		 profile->size);
	snprintf(theirs, sizeof(theirs), "offset %" PRIu32 ", size %" PRIu32, kernel->offset,
		 kernel->size);
	report(c, name, profile->present ? ours : NULL, kernel->present ? theirs : NULL);
}

static void compare_sizes(struct comparison *c, const char *name, uint32_t profile, uint32_t kernel)
{
	char ours[32], theirs[32];

	if (profile == kernel)
		return;
	snprintf(ours, sizeof(ours), "%" PRIu32 " bytes", profile);
	snprintf(theirs, sizeof(theirs), "%" PRIu32 " bytes", kernel);
	report(c, name, ours, theirs);
}

static const char *element_text(const struct lnx_element *e, char buf[static 64])
{
	if (!e->present)
		return NULL;
	snprintf(buf, 64, "%s %" PRIu32, e->of_nodes ? LNX_NODE_ENUM : LNX_ZONE_ENUM, e->index);
	return buf;
}

static void compare_elements(struct comparison *c, const char *name,
			     const struct lnx_element *profile, const struct lnx_element *kernel)
{
	char ours[64], theirs[64];

	if (profile->present == kernel->present &&
	    (!profile->present ||
	     (profile->of_nodes == kernel->of_nodes && profile->index == kernel->index)))
		return;
	report(c, name, element_text(profile, ours), element_text(kernel, theirs));
}

uint32_t lnx_profile_compare(const struct lnx_profile *profile, const struct lnx_kernel *k,
			     void (*visit)(const struct lnx_difference *d, void *arg), void *arg)
{
	const struct lnx_types *ours = &profile->types, *theirs = &k->types;
	struct comparison c = { visit, arg, 0 };
	char name[128];

	compare_sizes(&c, "task_struct", ours->task_size, theirs->task_size);
	compare_sizes(&c, "pt_regs", ours->pt_regs_size, theirs->pt_regs_size);
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name n = lnx_member_name((enum lnx_member)m);

		snprintf(name, sizeof(name), "%s.%s", n.in, n.path);
		compare_fields(&c, name, &ours->member[m], &theirs->member[m]);
	}
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		snprintf(name, sizeof(name), "per-CPU %s", lnx_percpu_name((enum lnx_percpu)p));
		compare_fields(&c, name, &ours->percpu[p], &theirs->percpu[p]);
	}
	for (size_t e = 0; e < LNX_COUNTERS; e++)
		compare_elements(&c, lnx_counter_name((enum lnx_counter)e), &ours->counter[e],
				 &theirs->counter[e]);
	if (ours->has_frame_record_meta != theirs->has_frame_record_meta)
		report(&c, LNX_FRAME_RECORD_META, ours->has_frame_record_meta ? "there" : NULL,
		       theirs->has_frame_record_meta ? "there" : NULL);
	return c.differences;
}

/*
 * The number of the build is left out: in 6.1 the banner of init/version.c, which is met first, lacks
 * what the one that is printed has ("# SMP", "#1 SMP").
 */
static bool is_same_banner(const char *a, const char *b)
{
	static const char digits[] = "0123456789";

	while (*a && *a == *b) {
		const bool number = *a == '#';

		a++;
		b++;
		if (number) {
			a += strspn(a, digits);
			b += strspn(b, digits);
		}
	}
	return *a == *b;
}

enum lnx_profile_match lnx_profile_match(const struct lnx_profile *profile,
					 const struct lnx_kernel *k)
{
	if (profile->has_build_id && lnx_is_build_id(k->build_id))
		return memcmp(profile->build_id, k->build_id, LNX_BUILD_ID)
			       ? LNX_PROFILE_OTHER
			       : LNX_PROFILE_SAME_BUILD_ID;
	if (*profile->banner && *k->banner)
		return is_same_banner(profile->banner, k->banner) ? LNX_PROFILE_SAME_BANNER
								  : LNX_PROFILE_OTHER;
	return LNX_PROFILE_OF_ANY;
}

enum gs_code lnx_kernel_retype(struct lnx_kernel *k, const struct lnx_profile *profile,
			       struct guest *g, const struct guest_vcpu_regs *regs, uint32_t n,
			       struct gs_error *err)
{
	static const struct lnx_hints none;
	struct gs_error own = { 0 }; /* the steps report into it, whether the caller asks or not */
	struct lnx_finder f = {
		.g = g, .regs = regs, .vcpus = n, .hints = &none, .err = &own, .k = k
	};

	lnx_take_profile(k, profile);
	enum gs_code rc = lnx_plan_spans(&f);
	if (!rc)
		rc = lnx_find_roots(&f);
	if (rc && err)
		*err = own;
	return rc;
}
