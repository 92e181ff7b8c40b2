/* SPDX-License-Identifier: Apache-2.0 */
/* Terms of the guest's kernel: threads, symbols, stacks; and what becomes of them when it goes. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/probe/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct btl_library *lib;
static struct btl_log *log_of;
static struct probe_engine *e;
static struct probe_session *s;
static struct probe_provider *p;
static uint32_t id;
static uint32_t fetches;

static const struct probe_provider_ops ops = { 0 };

static void begin(const char *text)
{
	lg_create(&g, &(struct lg_form){ .style = 'A', .vcpus = 3 });
	lg_populate(&g); /* vCPU 0 executes thread 101 of "worker" in pipe_read */
	ck_assert_int_eq(lnx_kernel_find(&g.m.guest, g.m.regs, 3, NULL, &k, &made_error), GS_OK);
	const struct btl_library_options options = { .base = lnx_kernel_info_get(k).text };
	const struct btl_log_options log_options = { .name = "probes",
						     .kind = BTL_LOG_HASH,
						     .capacity = 64 };
	ck_assert_int_eq(btl_library_create(&options, &lib, &made_error), GS_OK);
	ck_assert_int_eq(btl_log_create(lib, &log_options, &log_of, &made_error), GS_OK);
	const struct probe_engine_config config = { .guest = &g.m.guest };
	ck_assert_int_eq(probe_engine_create(&config, &e, &made_error), GS_OK);
	ck_assert_int_eq(probe_provider_add(e, "made", &ops, NULL, &p, &made_error), GS_OK);
	ck_assert_int_eq(probe_create(p, "", "", "hit", 0, &id), GS_OK);
	probe_engine_world_set(e,
			       &(struct probe_world){ .kernel = k, .library = lib, .log = log_of });
	ck_assert_int_eq(probe_session_create(e, &s, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(s, text), GS_OK);
	made_go(s);
}

static void end(void)
{
	struct btl_library_stats stats;

	probe_session_destroy(s);
	probe_engine_world_set(e, NULL);
	probe_engine_destroy(e);
	btl_log_destroy(log_of);
	btl_library_settle(lib);
	btl_library_stats_get(lib, &stats);
	ck_assert_uint_eq(stats.misuses, 0);
	ck_assert_uint_eq(stats.stacks, 0); /* every reference was given back */
	btl_library_destroy(lib);
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

static bool fetch(void *arg, struct guest_vcpu_regs *regs_out)
{
	const uint32_t *vcpu = arg;

	fetches++;
	*regs_out = g.m.regs[*vcpu];
	return true;
}

static void fire(uint32_t vcpu)
{
	probe_fire(e, id, &(struct probe_context){ .vcpu = vcpu, .regs = &g.m.regs[vcpu] });
}

static char *first_terms(void)
{
	json_t *records = made_records(s, 0, NULL, NULL);
	char *text = json_dumps(json_object_get(json_array_get(records, 0), "terms"), JSON_COMPACT);

	json_decref(records);
	return text;
}

START_TEST(thread_and_place_are_known)
{
	char *text;

	begin("hit /comm == \"worker-1\" || pid == 100/ { trace(pid, tid, symbol, vcpu) }");
	fire(0);
	text = first_terms();
	ck_assert_str_eq(text, "[100,101,\"pipe_read\",0]");
	free(text);
	end();
}
END_TEST

START_TEST(registers_are_fetched_once_and_only_when_wanted)
{
	uint32_t vcpu = 0;
	const struct probe_context c = { .fetch = fetch, .arg = &vcpu };
	char *text;

	begin("hit { count() }; hit /vcpu == 9/ { trace(pid) }");
	fetches = 0;
	probe_fire(e, id, &c);
	ck_assert_uint_eq(fetches, 0);
	probe_session_destroy(s);
	ck_assert_int_eq(probe_session_create(e, &s, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(s, "hit { trace(pid, x0, comm, stack) }"), GS_OK);
	made_go(s);
	g.m.regs[0].x[0] = 0x1234;
	probe_fire(e, id, &c);
	ck_assert_uint_eq(fetches, 1);
	text = first_terms();
	ck_assert_ptr_nonnull(strstr(text, "[100,\"0x1234\",\""));
	ck_assert_ptr_nonnull(strstr(text, "[\"pipe_read"));
	free(text);
	end();
}
END_TEST

START_TEST(stacks_are_keys_and_records)
{
	json_t *entries;
	char *text;

	begin("hit { count() by stack; trace(stack) }");
	for (uint32_t i = 0; i < 10; i++)
		fire(0);
	entries = made_entries(s, 0, NULL);
	ck_assert_uint_eq(json_array_size(entries), 1);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(entries, 0), "value")),
			 10);
	text = json_dumps(json_object_get(json_array_get(entries, 0), "keys"), JSON_COMPACT);
	ck_assert_ptr_nonnull(strstr(text, "[[\"pipe_read"));
	free(text);
	json_decref(entries);
	fire(0);
	text = first_terms();
	ck_assert_ptr_nonnull(strstr(text, "[[\"pipe_read"));
	free(text);
	fire(0);
	end(); /* with records and an entry left */
}
END_TEST

/* Records that are overwritten give their stacks back, too. */
START_TEST(ring_gives_stacks_back)
{
	const struct probe_options options = { PROBE_POLICY_RING, PROBE_BUFFER_MIN, 0 };
	struct probe_program program;

	begin("none {}");
	probe_session_destroy(s);
	ck_assert_int_eq(probe_session_create(e, &s, &made_error), GS_OK);
	ck_assert_int_eq(probe_program_parse("hit { trace(stack) }", 20, &program, &made_error),
			 GS_OK);
	ck_assert_int_eq(probe_session_enable(s, &program, &options, &made_matched, &made_error),
			 GS_OK);
	probe_program_deinit(&program);
	made_go(s);
	for (uint32_t i = 0; i < 1000; i++)
		fire(0);
	end();
}
END_TEST

static bool name_outside(void *arg, uint64_t address, struct btl_name *name_out)
{
	const uint64_t start = *(const uint64_t *)arg;

	if (address - start >= 0x100)
		return false;
	*name_out = (struct btl_name){ .start = start, .name = "one_read", .module = "one" };
	return true;
}

/* Where the image has no names, somebody else may; a key that is one function is told as one. */
START_TEST(modules_have_names)
{
	static uint64_t start = LG_MODULE + 0x100;
	char *text;

	begin("hit { trace(symbol, stack) }");
	probe_engine_world_set(e, &(struct probe_world){ .kernel = k,
							 .library = lib,
							 .log = log_of,
							 .name = name_outside,
							 .arg = &start });
	g.m.regs[0].pc = start + 0x20;
	fire(0);
	text = first_terms();
	ck_assert_ptr_nonnull(strstr(text, "[\"one_read [one]\",[\"one_read+0x20 [one]\","));
	free(text);
	g.m.regs[0].pc = start + 0x100;
	fire(0);
	text = first_terms();
	ck_assert_ptr_nonnull(strstr(text, "[\"0xffff800001000200\",[\"0xffff800001000200\","));
	free(text);
	end();
}
END_TEST

START_TEST(user_mode_has_a_name_of_its_own)
{
	char *text;

	begin("hit { trace(symbol, stack) }");
	lg_run_user(&g, 0, &g.threads[3], false);
	fire(0);
	text = first_terms();
	ck_assert_str_eq(text, "[\"[user]\",[\"[user]\"]]");
	free(text);
	end();
}
END_TEST

START_TEST(stack_is_recorded_for_an_element_until_it_is_erased)
{
	struct btl_record *records;
	uint32_t n;

	begin("hit /arg1 == 0/ { record(arg0, 9) }; hit /arg1 == 1/ { erase(arg0) }");
	for (uint64_t i = 0; i < 10; i++)
		probe_fire(e, id,
			   &(struct probe_context){
				   .regs = &g.m.regs[0], .args = { i }, .arg_count = 2 });
	for (uint64_t i = 0; i < 9; i++)
		probe_fire(e, id, &(struct probe_context){ .args = { i, 1 }, .arg_count = 2 });
	ck_assert_int_eq(btl_log_records(log_of, &records, &n, &made_error), GS_OK);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(records[0].element, 9);
	ck_assert_uint_eq(records[0].op, 9);
	btl_records_release(log_of, records, n);
	end();
}
END_TEST

START_TEST(kernel_that_goes_takes_its_stacks_along)
{
	struct probe_status status;
	char *text;

	begin("hit { trace(stack); trace(arg0) }");
	probe_fire(e, id,
		   &(struct probe_context){ .regs = &g.m.regs[0], .args = { 5 }, .arg_count = 1 });
	probe_engine_world_set(e, NULL);
	btl_log_destroy(log_of);
	btl_library_destroy(lib);
	const struct btl_library_options options = { .base = lnx_kernel_info_get(k).text };
	const struct btl_log_options log_options = { .name = "probes",
						     .kind = BTL_LOG_HASH,
						     .capacity = 64 };
	ck_assert_int_eq(btl_library_create(&options, &lib, &made_error), GS_OK);
	ck_assert_int_eq(btl_log_create(lib, &log_options, &log_of, &made_error), GS_OK);
	probe_engine_world_set(e,
			       &(struct probe_world){ .kernel = k, .library = lib, .log = log_of });
	/* of two libraries one session cannot have stacks */
	fire(0);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.errors, 1);
	text = first_terms();
	ck_assert_str_eq(text, "[null,5]");
	free(text);
	end();
}
END_TEST

Suite *suite_kernel(void)
{
	Suite *suite = suite_create("kernel");
	TCase *t = tcase_create("kernel");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, thread_and_place_are_known);
	tcase_add_test(t, registers_are_fetched_once_and_only_when_wanted);
	tcase_add_test(t, stacks_are_keys_and_records);
	tcase_add_test(t, ring_gives_stacks_back);
	tcase_add_test(t, modules_have_names);
	tcase_add_test(t, user_mode_has_a_name_of_its_own);
	tcase_add_test(t, stack_is_recorded_for_an_element_until_it_is_erased);
	tcase_add_test(t, kernel_that_goes_takes_its_stacks_along);
	suite_add_tcase(suite, t);
	return suite;
}
