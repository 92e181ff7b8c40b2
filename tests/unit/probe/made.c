/* SPDX-License-Identifier: Apache-2.0 */
/* An engine over a guest without RAM, with a provider of made-up probes. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/probe/suites.h"

uint32_t made_matched;
struct gs_error made_error;

static void provide(void *arg, const struct probe_name *pattern)
{
	struct made *m = arg;

	for (uint32_t i = 0; i < m->there; i++) {
		char function[16];
		uint32_t id;

		snprintf(function, sizeof(function), "f%u", i);
		if (!probe_name_matches(pattern,
					&(struct probe_name){ "made", "m", function, "hit" }))
			continue;
		enum gs_code rc = probe_create(m->p, "m", function, "hit", i, &id);
		ck_assert(rc == GS_OK || rc == GS_EEXIST);
		ck_assert(!m->id[i] || m->id[i] == id);
		if (!m->id[i]) /* those who fire read it */
			m->id[i] = id;
	}
}

static enum gs_code enable(void *arg, uint64_t key, uint32_t id, struct gs_error *err)
{
	struct made *m = arg;

	ck_assert_uint_eq(id, m->id[key]);
	ck_assert(!(m->enabled & (1u << key)));
	if (m->refuse & (1u << key))
		return gs_fail(err, GS_ENOSPC, "no breakpoint is left");
	m->enabled |= 1u << key;
	m->enables++;
	return GS_OK;
}

static void disable(void *arg, uint64_t key)
{
	struct made *m = arg;

	ck_assert(m->enabled & (1u << key));
	m->enabled &= ~(1u << key);
	m->disables++;
}

static enum gs_code arg_type(void *arg, uint64_t key, uint32_t n, struct probe_arg_type *type_out)
{
	(void)arg;
	if (key != 0 || n != 0)
		return GS_ENOENT;
	snprintf(type_out->native, sizeof(type_out->native), "struct file *");
	snprintf(type_out->name, sizeof(type_out->name), "file");
	return GS_OK;
}

static const struct probe_provider_ops ops = {
	.provide = provide, .enable = enable, .disable = disable, .arg_type = arg_type
};

static void stackshot(void *arg, uint32_t session)
{
	struct made *m = arg;

	(void)session;
	atomic_fetch_add(&m->stackshots, 1);
}

void made_create(struct made *m, uint64_t (*clock)(void), uint64_t deadman_ns)
{
	*m = (struct made){ .there = MADE_PROBES };
	memory_guest_init(&m->memory, MADE_VCPUS);
	const struct probe_engine_config config = { .guest = &m->memory.guest,
						    .clock = clock,
						    .deadman_ns = deadman_ns,
						    .stackshot = stackshot,
						    .arg = m };
	ck_assert_int_eq(probe_engine_create(&config, &m->e, &made_error), GS_OK);
	ck_assert_int_eq(probe_provider_add(m->e, "made", &ops, m, &m->p, &made_error), GS_OK);
}

void made_destroy(struct made *m)
{
	ck_assert_uint_eq(m->enabled, 0);
	ck_assert_uint_eq(m->enables, m->disables);
	probe_engine_destroy(m->e);
}

void made_fire(struct made *m, uint32_t n, uint32_t vcpu, uint64_t arg0, uint64_t arg1)
{
	probe_fire(m->e, m->id[n],
		   &(struct probe_context){ .vcpu = vcpu, .args = { arg0, arg1 }, .arg_count = 2 });
}

struct probe_session *made_session(struct made *m)
{
	struct probe_session *s = NULL;

	ck_assert_int_eq(probe_session_create(m->e, &s, &made_error), GS_OK);
	return s;
}

enum gs_code made_enable(struct probe_session *s, const char *text)
{
	struct probe_program p;
	enum gs_code rc = probe_program_parse(text, strlen(text), &p, &made_error);

	ck_assert_msg(rc == GS_OK, "%s: %s", text, made_error.text);
	rc = probe_session_enable(s, &p, NULL, &made_matched, &made_error);
	probe_program_deinit(&p);
	return rc;
}

void made_go(struct probe_session *s)
{
	uint32_t vcpu = 99;

	ck_assert_msg(probe_session_go(s, &vcpu, &made_error) == GS_OK, "%s", made_error.text);
	ck_assert_uint_eq(vcpu, 0);
}

void made_stop(struct probe_session *s)
{
	uint32_t vcpu = 99;

	ck_assert_msg(probe_session_stop(s, &vcpu, &made_error) == GS_OK, "%s", made_error.text);
	ck_assert_uint_eq(vcpu, 0);
}

/* All pages of what @p page gives, joined. */
static json_t *pages(struct probe_session *s, uint32_t vcpu, const char *member,
		     enum gs_code (*page)(struct probe_session *s, uint32_t vcpu, json_t **json_out,
					  struct gs_error *err),
		     uint64_t *drops_out, uint64_t *errors_out)
{
	json_t *all = json_array(), *answer;
	bool more;

	do {
		enum gs_code rc;

		/* a vCPU that has no time to switch is asked again */
		do {
			rc = page(s, vcpu, &answer, &made_error);
		} while (rc == GS_EBUSY && strstr(made_error.text, "did not switch"));
		ck_assert_msg(rc == GS_OK, "%s", made_error.text);
		ck_assert_int_eq(json_array_extend(all, json_object_get(answer, member)), 0);
		if (drops_out)
			*drops_out +=
				(uint64_t)json_integer_value(json_object_get(answer, "drops"));
		if (errors_out)
			*errors_out +=
				(uint64_t)json_integer_value(json_object_get(answer, "errors"));
		more = json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
	} while (more);
	return all;
}

json_t *made_records(struct probe_session *s, uint32_t vcpu, uint64_t *drops_out,
		     uint64_t *errors_out)
{
	return pages(s, vcpu, "records", probe_session_buffer, drops_out, errors_out);
}

json_t *made_entries(struct probe_session *s, uint32_t vcpu, uint64_t *drops_out)
{
	return pages(s, vcpu, "entries", probe_session_aggregates, drops_out, NULL);
}

int64_t made_sum(struct probe_session *s)
{
	int64_t sum = 0;

	for (uint32_t vcpu = 0; vcpu < MADE_VCPUS; vcpu++) {
		json_t *entries = made_entries(s, vcpu, NULL), *entry;
		size_t i;

		json_array_foreach(entries, i, entry)
		{
			sum += json_integer_value(json_object_get(entry, "value"));
		}
		json_decref(entries);
	}
	return sum;
}
