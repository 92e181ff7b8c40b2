/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads at once: vCPUs that fire, clients that ask. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/unit/probe/suites.h"

#define FIRINGS 30000u
#define STEPS	1500u

static struct made m;
static atomic_bool over;

static void *firing(void *arg)
{
	const uint32_t vcpu = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < FIRINGS; i++)
		made_fire(&m, i % MADE_PROBES, vcpu, i, vcpu);
	return NULL;
}

/* Whatever is handed over when: nothing is lost, nothing is there twice. */
START_TEST(every_firing_is_counted_once)
{
	pthread_t thread[MADE_VCPUS];
	uint64_t drops = 0, errors = 0, records = 0;
	int64_t sum = 0;

	made_create(&m, NULL, 0);
	struct probe_session *s = made_session(&m);
	ck_assert_int_eq(made_enable(s, "made::f?: { count(); trace(arg0) }"), GS_OK);
	made_go(s);
	for (uint32_t i = 0; i < MADE_VCPUS; i++)
		pthread_create(&thread[i], NULL, firing, (void *)(uintptr_t)i);
	for (uint32_t i = 0; i < MADE_VCPUS; i++)
		sum += made_sum(s);
	for (uint32_t round = 0; round < 40; round++) {
		json_t *page = made_records(s, round % MADE_VCPUS, &drops, &errors);

		records += json_array_size(page);
		json_decref(page);
		sum += made_sum(s);
	}
	for (uint32_t i = 0; i < MADE_VCPUS; i++)
		pthread_join(thread[i], NULL);
	made_stop(s);
	for (uint32_t i = 0; i < 2 * MADE_VCPUS; i++) {
		json_t *page = made_records(s, i % MADE_VCPUS, &drops, &errors);

		records += json_array_size(page);
		json_decref(page);
	}
	sum += made_sum(s) + made_sum(s);
	ck_assert_int_eq(sum, FIRINGS * MADE_VCPUS);
	ck_assert_uint_eq(records + drops, FIRINGS * MADE_VCPUS);
	ck_assert_uint_eq(errors, 0);
	probe_session_destroy(s);
	made_destroy(&m);
}
END_TEST

/* --- clients --------------------------------------------------------------------------------------
 */

/* What a session must be, as its one client knows it. */
struct client {
	uint32_t seed;
	struct probe_session *s;
	enum probe_state state;
	bool exits;
	uint32_t transitions;
};

static uint32_t chance(struct client *c, uint32_t n)
{
	c->seed = c->seed * 1664525 + 1013904223;
	return (c->seed >> 16) % n;
}

static void renew(struct client *c)
{
	probe_session_destroy(c->s);
	c->s = NULL;
	ck_assert_int_eq(probe_session_create(m.e, &c->s, NULL), GS_OK);
	c->state = PROBE_INACTIVE;
	c->exits = false;
}

static bool may_drain(const struct client *c, enum probe_state seen)
{
	return c->exits && c->state == PROBE_ACTIVE && seen == PROBE_DRAINING;
}

static void step_status(struct client *c)
{
	struct probe_status status;
	enum gs_code rc = probe_session_status(c->s, &status, NULL);

	ck_assert_int_eq(rc, c->state == PROBE_INACTIVE ? GS_ENOENT : GS_OK);
	if (rc)
		return;
	if (may_drain(c, status.state))
		c->state = PROBE_DRAINING;
	ck_assert_int_eq(status.state, c->state);
}

static void step_enable(struct client *c)
{
	static const char *const texts[] = { "made::f?: { count() by arg1 }",
					     "made::f1: /arg0 > 20/ { trace(arg0, arg1) }",
					     "session:::begin, session:::end { trace(vcpu) }",
					     "made::f2: /arg0 > 1000/ { exit() }" };
	const uint32_t which = chance(c, 4);
	struct probe_program p;
	uint32_t n;

	ck_assert_int_eq(probe_program_parse(texts[which], strlen(texts[which]), &p, NULL), GS_OK);
	enum gs_code rc = probe_session_enable(c->s, &p, NULL, &n, NULL);
	ck_assert_int_eq(rc, c->state == PROBE_INACTIVE ? GS_OK : GS_EBUSY);
	c->exits |= !rc && which == 3;
	probe_program_deinit(&p);
}

static void step_go(struct client *c)
{
	uint32_t vcpu = 9;

	ck_assert_int_eq(probe_session_go(c->s, &vcpu, NULL),
			 c->state == PROBE_INACTIVE ? GS_OK : GS_EBUSY);
	c->transitions += c->state == PROBE_INACTIVE;
	if (c->state == PROBE_INACTIVE)
		c->state = PROBE_ACTIVE;
}

static void step_stop(struct client *c)
{
	const bool may = c->state == PROBE_ACTIVE || c->state == PROBE_DRAINING;
	uint32_t vcpu = 9;

	ck_assert_int_eq(probe_session_stop(c->s, &vcpu, NULL), may ? GS_OK : GS_EBUSY);
	c->transitions += may;
	if (may)
		c->state = PROBE_STOPPED;
}

static void step_match(struct client *c)
{
	struct probe_pattern match = { .provider = "made", .function = "f9" };
	struct probe_pattern create = { .provider = "made", .function = "f3" };
	uint32_t n;
	const bool may = c->state == PROBE_INACTIVE || c->state == PROBE_ACTIVE;
	enum gs_code rc = probe_session_rematch(c->s, &n, NULL);

	/* it may drain at any moment */
	if (!(c->exits && rc == GS_EBUSY))
		ck_assert_int_eq(rc, may ? GS_OK : GS_EBUSY);
	rc = probe_session_replicate(c->s, &match, &create, &n, NULL);
	if (!(c->exits && rc == GS_EBUSY))
		ck_assert_int_eq(rc, may ? GS_ENOENT : GS_EBUSY);
}

static void step_data(struct client *c)
{
	const enum gs_code expected = c->state == PROBE_INACTIVE ? GS_EBUSY : GS_OK;
	json_t *json;
	const uint32_t vcpu = chance(c, MADE_VCPUS);
	enum gs_code rc;

	/* on a machine that has other things to do a vCPU may not be there to switch: then it is asked again */
	do {
		rc = probe_session_buffer(c->s, vcpu, &json, NULL);
	} while (rc == GS_EBUSY && expected == GS_OK);
	if (!rc)
		json_decref(json);
	ck_assert_int_eq(rc, expected);
	do {
		rc = probe_session_aggregates(c->s, vcpu, &json, NULL);
	} while (rc == GS_EBUSY && expected == GS_OK);
	if (!rc)
		json_decref(json);
	ck_assert_int_eq(rc, expected);
	ck_assert_int_eq(probe_session_buffer(c->s, MADE_VCPUS, &json, NULL), GS_ENOENT);
}

static void step_describe(struct client *c)
{
	json_t *json;

	if (!probe_session_eprobe(c->s, 1 + chance(c, 20), 4, &json, NULL))
		json_decref(json);
	if (!probe_session_aggregation(c->s, 1 + chance(c, 20), 4, &json, NULL))
		json_decref(json);
	ck_assert_int_eq(probe_session_format(c->s, 1, 4, &json, NULL), GS_ENOENT);
	ck_assert_int_eq(probe_session_enablings(c->s, 10, &json, NULL), GS_OK);
	json_decref(json);
	ck_assert_int_eq(probe_engine_list(m.e, NULL, chance(c, 3), &json, NULL), GS_OK);
	json_decref(json);
	json_decref(probe_engine_conf(m.e));
	probe_engine_deadman(m.e);
}

static void *client_main(void *arg)
{
	static void (*const step[])(struct client *) = { step_status, step_enable,  step_go,
							 step_stop,   step_match,   step_data,
							 step_data,   step_describe };
	struct client *c = arg;

	renew(c);
	for (uint32_t i = 0; i < STEPS; i++) {
		if (chance(c, 20) == 0)
			renew(c);
		else
			step[chance(c, sizeof(step) / sizeof(step[0]))](c);
	}
	probe_session_destroy(c->s);
	return NULL;
}

static void *fire_on(void *arg)
{
	const uint32_t vcpu = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; !atomic_load(&over); i++) {
		made_fire(&m, i % MADE_PROBES, vcpu, i % 2000, i % 5);
		if (i % 16 == 0)
			sched_yield();
	}
	return NULL;
}

START_TEST(three_clients_in_and_out_of_order)
{
	struct client c[3] = { { .seed = 1 }, { .seed = 2 }, { .seed = 3 } };
	pthread_t client[3], vcpu[MADE_VCPUS];
	json_t *json;

	made_create(&m, NULL, 0);
	/* all ids are known before anybody fires them */
	ck_assert_int_eq(probe_engine_list(m.e, NULL, 0, &json, NULL), GS_OK);
	json_decref(json);
	atomic_store(&over, false);
	for (uint32_t i = 0; i < MADE_VCPUS; i++)
		pthread_create(&vcpu[i], NULL, fire_on, (void *)(uintptr_t)i);
	for (uint32_t i = 0; i < 3; i++)
		pthread_create(&client[i], NULL, client_main, &c[i]);
	for (uint32_t i = 0; i < 3; i++)
		pthread_join(client[i], NULL);
	atomic_store(&over, true);
	for (uint32_t i = 0; i < MADE_VCPUS; i++)
		pthread_join(vcpu[i], NULL);
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_uint_gt(c[i].transitions, 10);
	made_destroy(&m);
}
END_TEST

Suite *suite_threads(void)
{
	Suite *suite = suite_create("threads");
	TCase *t = tcase_create("threads");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, every_firing_is_counted_once);
	tcase_add_test(t, three_clients_in_and_out_of_order);
	suite_add_tcase(suite, t);
	return suite;
}
