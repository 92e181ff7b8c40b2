/* SPDX-License-Identifier: Apache-2.0 */
/* The provider fbt: which breakpoints it wants, and what it makes of a hit. */
#include "introspect/probe/fbt.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/guest/breaks.h"
#include "introspect/linux/functions.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/probe/suites.h"

#define NOP 0xd503201fu
#define RET 0xd65f03c0u
#define B   0x14000000u
#define BRK 0xd4200000u

static struct linux_guest g;
static struct lnx_kernel *k;
static struct probe_engine *e;
static struct probe_fbt *fbt;
static struct probe_session *s;
static uint64_t vfs_read, pipe_read;

/* The guest's breakpoints. */
static struct guest_break list[64];
static struct guest_break_set set;
static uint32_t sets;
static enum gs_code refusal;

static enum gs_code break_set(void *priv, const struct guest_break_set *wanted,
			      struct gs_error *err)
{
	(void)priv;
	sets++;
	if (refusal)
		return gs_fail(err, refusal, "this place will not do");
	ck_assert_uint_le(wanted->count, ARRAY_SIZE(list));
	set = *wanted;
	if (set.count)
		memcpy(list, set.list, set.count * sizeof(list[0]));
	return GS_OK;
}

static bool break_original(void *priv, uint64_t va, uint32_t *insn_out)
{
	(void)priv;
	(void)va;
	(void)insn_out;
	return false;
}

static void break_counts(void *priv, struct guest_break_counts *counts_out)
{
	(void)priv;
	*counts_out = (struct guest_break_counts){ .hardware_max = 6, .text = set.count };
}

static const struct guest_break_ops breaks = { break_set, break_original, break_counts };

static void put(uint64_t at, const uint32_t *words, uint32_t n)
{
	memcpy(lg_image(&g, at - lg_image_va(&g, 0)), words, n * 4);
}

/* How many words a function has. */
static uint32_t words_of(uint64_t at)
{
	struct lnx_symbol symbol;

	ck_assert_int_eq(lnx_symbol_at(k, GVA(at), &symbol), GS_OK);
	return (uint32_t)(symbol.size / 4);
}

static void setup(void)
{
	static const uint32_t nop = NOP, ret = RET;

	sets = 0;
	refusal = GS_OK;
	set = (struct guest_break_set){ 0 };
	lg_create(&g, &(struct lg_form){ .vcpus = 3 });
	lg_populate(&g);
	g.ops.breaks = &breaks;
	ck_assert_int_eq(lnx_kernel_find(&g.m.guest, g.m.regs, 3, NULL, &k, &made_error), GS_OK);
	vfs_read = lg_symbol(&g, "vfs_read");
	pipe_read = lg_symbol(&g, "pipe_read");
	for (uint32_t i = 0; i < words_of(vfs_read); i++)
		put(vfs_read + i * 4, i == 2 || i == 5 ? &ret : &nop, 1);
	for (uint32_t i = 0; i < words_of(pipe_read); i++)
		put(pipe_read + i * 4, i ? &nop : &ret, 1);
	put(lg_symbol(&g, "schedule"), &nop, 1);
	const struct probe_engine_config config = { .guest = &g.m.guest };
	ck_assert_int_eq(probe_engine_create(&config, &e, &made_error), GS_OK);
	ck_assert_int_eq(probe_fbt_create(e, &g.m.guest, &fbt, &made_error), GS_OK);
	probe_fbt_kernel_set(fbt, k);
	probe_engine_world_set(e, &(struct probe_world){ .kernel = k });
	ck_assert_int_eq(probe_session_create(e, &s, &made_error), GS_OK);
}

static void teardown(void)
{
	probe_session_destroy(s);
	ck_assert_uint_eq(set.count, 0);
	probe_engine_world_set(e, NULL);
	probe_fbt_destroy(fbt);
	probe_engine_destroy(e);
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

static bool fetch(void *arg, struct guest_vcpu_regs *regs_out)
{
	*regs_out = g.m.regs[*(uint32_t *)arg];
	return true;
}

/* A vCPU comes to an address. @return whether there is a breakpoint */
static bool come_to(uint64_t va, uint32_t vcpu)
{
	for (uint32_t i = 0; i < set.count; i++) {
		struct guest_hit hit = { &list[i], vcpu, fetch, &vcpu };

		if (list[i].va != va)
			continue;
		set.on_hit(set.arg, &hit);
		return true;
	}
	return false;
}

static uint64_t place_of(uint64_t va)
{
	return va - g.voffset;
}

START_TEST(entries_and_returns_are_where_the_code_says)
{
	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry, fbt::vfs_read:return { count() }"),
			 GS_OK);
	ck_assert_uint_eq(made_matched, 2);
	ck_assert_uint_eq(sets, 1);
	ck_assert_uint_eq(set.count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint32_t word[] = { 0, 2, 5 };

		ck_assert_uint_eq(list[i].va, vfs_read + word[i] * 4);
		ck_assert_uint_eq(list[i].at.a, place_of(list[i].va));
	}
	made_go(s);
	for (uint32_t i = 0; i < 10; i++) {
		ck_assert(come_to(vfs_read, i % 3));
		ck_assert(come_to(vfs_read + (i % 2 ? 8 : 20), i % 3));
		ck_assert(!come_to(vfs_read + 4, 0));
	}
	ck_assert_int_eq(made_sum(s), 20);
}
END_TEST

START_TEST(a_function_that_returns_at_once_has_both_in_one_place)
{
	ck_assert_int_eq(
		made_enable(s,
			    "fbt::pipe_read:entry { count() }; fbt::pipe_read:return { count() }"),
		GS_OK);
	ck_assert_uint_eq(set.count, 1);
	made_go(s);
	ck_assert(come_to(pipe_read, 1));
	ck_assert_int_eq(made_sum(s), 2);
}
END_TEST

START_TEST(arguments_are_registers)
{
	struct guest_vcpu_regs *regs = &g.m.regs[0];
	json_t *records;
	char *text;

	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry { trace(arg0, arg7) }; "
					"fbt::vfs_read:return { trace(arg0, arg1) }"),
			 GS_OK);
	made_go(s);
	regs->x[0] = 11;
	regs->x[7] = 77;
	ck_assert(come_to(vfs_read, 0));
	ck_assert(come_to(vfs_read + 20, 0));
	records = made_records(s, 0, NULL, NULL);
	for (size_t i = 0; i < 2; i++) {
		text = json_dumps(json_object_get(json_array_get(records, i), "terms"),
				  JSON_COMPACT);
		ck_assert_str_eq(text, i ? "[20,11]" : "[11,77]");
		free(text);
	}
	json_decref(records);
}
END_TEST

START_TEST(a_return_has_no_third_argument)
{
	uint64_t errors = 0;

	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:return { trace(arg2) }"), GS_OK);
	made_go(s);
	ck_assert(come_to(vfs_read + 20, 0));
	json_decref(made_records(s, 0, NULL, &errors));
	ck_assert_uint_eq(errors, 1);
}
END_TEST

START_TEST(a_program_is_one_change_of_breakpoints)
{
	struct probe_session *other;

	ck_assert_int_eq(made_enable(s, "fbt::*_read:entry { count() }"), GS_OK);
	ck_assert_uint_ge(made_matched, 2);
	ck_assert_uint_eq(sets, 1);
	const uint32_t count = set.count;
	ck_assert_int_eq(probe_session_create(e, &other, &made_error), GS_OK);
	// the same again changes nothing; another one is added, and goes with its session
	ck_assert_int_eq(made_enable(other, "fbt::vfs_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, count);
	ck_assert_int_eq(made_enable(other, "fbt::schedule:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, count + 1);
	probe_session_destroy(other);
	ck_assert_uint_eq(set.count, count);
}
END_TEST

START_TEST(what_the_guest_refuses_is_not_enabled)
{
	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry { count() }"), GS_OK);
	refusal = GS_ENOTSUP;
	ck_assert_int_eq(made_enable(s, "fbt::schedule:entry { count() }"), GS_ENOTSUP);
	ck_assert_ptr_nonnull(strstr(made_error.text, "this place will not do"));
	refusal = GS_OK;
	ck_assert_int_eq(made_enable(s, "fbt::pipe_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, 2);
	made_go(s);
	ck_assert(!come_to(lg_symbol(&g, "schedule"), 0));
	ck_assert(come_to(pipe_read, 0));
	ck_assert_int_eq(made_sum(s), 1);
}
END_TEST

START_TEST(a_kernel_that_goes_takes_its_probes_along)
{
	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, 1);
	probe_fbt_kernel_set(fbt, NULL);
	ck_assert_uint_eq(set.count, 0);
	ck_assert_int_eq(made_enable(s, "fbt::pipe_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(made_matched, 0);
	// the one that was made is of another kernel now
	struct probe_session *other;
	probe_fbt_kernel_set(fbt, k);
	probe_session_destroy(s);
	ck_assert_int_eq(probe_session_create(e, &other, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(other, "fbt::vfs_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, 1);
	s = other;
}
END_TEST

START_TEST(a_probe_of_the_kernel_before_is_one_of_this_one_once_asked_for)
{
	struct probe_session *other;

	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry { count() }"), GS_OK);
	made_go(s);
	probe_fbt_kernel_set(fbt, NULL);
	probe_fbt_kernel_set(fbt, k);
	ck_assert_uint_eq(set.count, 0);
	ck_assert_int_eq(probe_session_create(e, &other, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(other, "fbt::vfs_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, 1);
	made_go(other);
	ck_assert(come_to(vfs_read, 0));
	ck_assert_int_eq(made_sum(other), 1);
	ck_assert_int_eq(made_sum(s), 1);
	probe_session_destroy(other);
	ck_assert_uint_eq(set.count, 1);
}
END_TEST

START_TEST(code_that_is_not_there_is_said)
{
	lg_unmap(&g, vfs_read & ~UINT64_C(0xfff));
	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:return { count() }"), GS_EFAULT);
	ck_assert_ptr_nonnull(strstr(made_error.text, "not in memory"));
	ck_assert_uint_eq(set.count, 0);
}
END_TEST

START_TEST(where_the_guest_has_a_breakpoint_is_none_of_ours)
{
	put(pipe_read, &(uint32_t){ BRK | 4 << 5 }, 1);
	ck_assert_int_eq(made_enable(s, "fbt::vfs_read:entry, fbt::pipe_read:entry { count() }"),
			 GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(made_error.text, "fbt:vmlinux:pipe_read:entry"));
	ck_assert_ptr_nonnull(strstr(made_error.text, "kprobe"));
	ck_assert_uint_eq(set.count, 0);
	put(pipe_read, &(uint32_t){ BRK | 0x400 << 5 }, 1);
	ck_assert_int_eq(made_enable(s, "fbt::pipe_read:entry { count() }"), GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(made_error.text, "BRK 0x400"));
	put(pipe_read, &(uint32_t){ RET }, 1);
	ck_assert_int_eq(made_enable(s, "fbt::pipe_read:entry { count() }"), GS_OK);
	ck_assert_uint_eq(set.count, 1);
}
END_TEST

/* --- modules --- */

static struct lg_loaded load(const char *name)
{
	struct lg_loaded one = lg_load_module(&g, name, LG_MODULE);
	const uint64_t page = *lg_entry(&g, g.swapper, LG_MODULE) & UINT64_C(0xfffffffff000);
	uint32_t *word = lg_at(&g, page);

	for (uint32_t i = 0; i < 64; i++)
		word[i] = i % 16 == 15 ? RET : NOP;
	lg_module_symbol(&one, "one_open", LG_MODULE);
	lg_module_symbol(&one, "one_read", LG_MODULE + 64);
	// of two with one name it is the first
	lg_module_symbol(&one, "one_read", LG_MODULE + 128);
	return one;
}

static uint32_t gone(void)
{
	struct probe_status status;

	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	return status.gone;
}

START_TEST(a_module_that_comes_is_matched)
{
	ck_assert_int_eq(made_enable(s, "fbt:one::entry, fbt:one:one_read:return { count() }"),
			 GS_OK);
	ck_assert_uint_eq(made_matched, 0);
	load("one");
	ck_assert_int_eq(probe_session_rematch(s, &made_matched, &made_error), GS_OK);
	ck_assert_uint_eq(made_matched, 3);
	ck_assert_uint_eq(set.count, 3);
	made_go(s);
	ck_assert(come_to(LG_MODULE, 0));
	ck_assert(come_to(LG_MODULE + 64, 0));
	ck_assert(come_to(LG_MODULE + 124, 1));
	ck_assert(!come_to(LG_MODULE + 128, 1));
	ck_assert_int_eq(made_sum(s), 3);
	ck_assert_int_eq(probe_session_rematch(s, &made_matched, &made_error), GS_OK);
	ck_assert_uint_eq(made_matched, 0);
	ck_assert_uint_eq(set.count, 3);
}
END_TEST

START_TEST(a_module_that_goes_takes_its_probes_along)
{
	struct lg_loaded one = load("one");
	struct guest_break was;

	ck_assert_int_eq(made_enable(s, "fbt:one:one_read:, fbt::vfs_read:entry { count() }"),
			 GS_OK);
	ck_assert_uint_eq(set.count, 3);
	made_go(s);
	ck_assert_uint_eq(gone(), 0);
	for (uint32_t i = 0; i < set.count; i++)
		ck_assert(set.is_there(set.arg, &list[i]));
	was = list[list[0].va == LG_MODULE + 64 ? 0 : 1];
	ck_assert_uint_eq(was.va, LG_MODULE + 64);
	lg_unload_module(&g, &one);
	lg_unmap(&g, LG_MODULE);
	ck_assert(!set.is_there(set.arg, &was));
	ck_assert_uint_eq(gone(), 2);
	ck_assert_uint_eq(set.count, 1);
	ck_assert(!come_to(LG_MODULE + 64, 0));
	ck_assert(come_to(vfs_read, 0));
	ck_assert_int_eq(made_enable(s, "fbt:one:one_open:entry { count() }"), GS_EBUSY);
	// another one in its place is not it; when it is back, it is probed again
	struct lg_loaded two = load("two");
	probe_engine_deadman(e);
	ck_assert_uint_eq(set.count, 1);
	lg_unload_module(&g, &two);
	load("one");
	ck_assert_uint_eq(gone(), 2);
	ck_assert_int_eq(probe_session_rematch(s, &made_matched, &made_error), GS_OK);
	ck_assert_uint_eq(made_matched, 0);
	ck_assert_uint_eq(gone(), 0);
	ck_assert_uint_eq(set.count, 3);
	ck_assert(come_to(LG_MODULE + 64, 0));
	ck_assert_int_eq(made_sum(s), 2);
}
END_TEST

START_TEST(a_module_that_went_before_it_was_enabled_is_said)
{
	struct lg_loaded one = load("one");
	struct probe_session *other;

	ck_assert_int_eq(made_enable(s, "fbt:one:one_read:entry { count() }"), GS_OK);
	lg_unload_module(&g, &one);
	ck_assert_int_eq(probe_session_create(e, &other, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(other, "fbt:one:one_read:return { count() }"), GS_OK);
	ck_assert_uint_eq(made_matched, 0);
	ck_assert_uint_eq(set.count, 0);
	probe_session_destroy(other);
	// the probe is there still, its function is not
	probe_session_destroy(s);
	ck_assert_int_eq(probe_session_create(e, &s, &made_error), GS_OK);
	ck_assert_int_eq(made_enable(s, "fbt:one:one_read:entry { count() }"), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(made_error.text, "module"));
}
END_TEST

START_TEST(arguments_have_types)
{
	struct probe_arg_type type;
	json_t *found;
	const struct probe_pattern *pattern;
	struct probe_program p;
	static const char text[] = "fbt::vfs_read:entry { count() }";

	ck_assert_int_eq(probe_program_parse(text, strlen(text), &p, &made_error), GS_OK);
	pattern = &p.clause[0].pattern[0];
	ck_assert_int_eq(probe_engine_list(e, pattern, 0, &found, &made_error), GS_OK);
	const uint32_t id = (uint32_t)json_integer_value(
		json_object_get(json_array_get(json_object_get(found, "probes"), 0), "id"));
	json_decref(found);
	probe_program_deinit(&p);
	ck_assert_int_eq(probe_engine_arg(e, id, 1, &type, &made_error), GS_OK);
	ck_assert_str_eq(type.native, "const char *");
	ck_assert_str_eq(type.name, "text");
	ck_assert_int_eq(probe_engine_arg(e, id, 6, &type, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_engine_arg(e, id, 8, &type, &made_error), GS_ENOENT);
}
END_TEST

START_TEST(a_guest_without_breakpoints_has_no_such_provider)
{
	struct probe_fbt *none;

	g.ops.breaks = NULL;
	ck_assert_int_eq(probe_fbt_create(e, &g.m.guest, &none, &made_error), GS_ENOTSUP);
	ck_assert_int_eq(guest_breaks_set(&g.m.guest,
					  &(struct guest_break_set){ .list = list, .count = 1 },
					  &made_error),
			 GS_ENOTSUP);
	ck_assert_int_eq(guest_breaks_set(&g.m.guest, &(struct guest_break_set){ 0 }, NULL), GS_OK);
	g.ops.breaks = &breaks;
}
END_TEST

Suite *suite_fbt(void)
{
	Suite *suite = suite_create("fbt");
	TCase *c = tcase_create("fbt");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, entries_and_returns_are_where_the_code_says);
	tcase_add_test(c, a_function_that_returns_at_once_has_both_in_one_place);
	tcase_add_test(c, arguments_are_registers);
	tcase_add_test(c, a_return_has_no_third_argument);
	tcase_add_test(c, a_program_is_one_change_of_breakpoints);
	tcase_add_test(c, what_the_guest_refuses_is_not_enabled);
	tcase_add_test(c, a_kernel_that_goes_takes_its_probes_along);
	tcase_add_test(c, a_probe_of_the_kernel_before_is_one_of_this_one_once_asked_for);
	tcase_add_test(c, code_that_is_not_there_is_said);
	tcase_add_test(c, where_the_guest_has_a_breakpoint_is_none_of_ours);
	tcase_add_test(c, a_module_that_comes_is_matched);
	tcase_add_test(c, a_module_that_goes_takes_its_probes_along);
	tcase_add_test(c, a_module_that_went_before_it_was_enabled_is_said);
	tcase_add_test(c, arguments_have_types);
	tcase_add_test(c, a_guest_without_breakpoints_has_no_such_provider);
	suite_add_tcase(suite, c);
	return suite;
}
