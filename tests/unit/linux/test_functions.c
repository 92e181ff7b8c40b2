/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's functions, and the instructions by which they return. */
#include "introspect/linux/functions.h"

#include <string.h>

#include "introspect/linux/prototype.h"

#include "base/util.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

#define NOP  0xd503201fu
#define RET  0xd65f03c0u
#define BR_3 0xd61f0060u
#define BR16 0xd61f0200u
#define B    0x14000000u
#define LDR8 0x58000000u /* ldr x0, . */
#define LDRQ 0x9c000000u /* ldr q0, . */

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static struct lnx_returns returns;
static uint64_t f; /* where the test's code is */

static void setup(void)
{
	lg_create(&g, &(struct lg_form){ 0 });
	lg_populate(&g);
	k = lg_kernel_find(&g);
	lnx_view_init(&v, k, &g.m.guest);
	f = lg_symbol(&g, "fn_0000");
}

static void teardown(void)
{
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

static uint32_t *code_at(uint64_t at)
{
	return lg_image(&g, at - lg_image_va(&g, 0));
}

static uint32_t to(uint32_t insn, int64_t words)
{
	return insn | ((uint32_t)words & 0x3ffffff);
}

static uint32_t literal(uint32_t insn, uint32_t words)
{
	return insn | words << 5;
}

START_TEST(functions_come_once_each_and_in_order)
{
	uint64_t after = 0, last = 0;
	uint32_t count = 0;
	bool has_vfs_read = false;
	struct lnx_symbol s, same;

	while (lnx_function_next(k, &after, &s)) {
		ck_assert_uint_gt(s.start, last);
		ck_assert_uint_eq(after, s.start + s.size);
		last = s.start;
		ck_assert_int_eq(lnx_symbol_at(k, GVA(s.start), &same), GS_OK);
		ck_assert_str_eq(s.name, same.name);
		ck_assert_ptr_nonnull(strchr("tTwW", s.type));
		ck_assert_uint_lt(s.start, lg_image_va(&g, LG_ETEXT));
		has_vfs_read |= !strcmp(s.name, "vfs_read");
		count++;
	}
	ck_assert(has_vfs_read);
	ck_assert_uint_gt(count, 20);
	ck_assert(!lnx_function_next(k, &after, &s));
}
END_TEST

START_TEST(returns_are_what_leads_out_of_a_function)
{
	const struct lnx_text parts[] = { { f, 40 }, { f + 400, 8 } };
	uint32_t *code = code_at(f), *cold = code_at(f + 400);

	code[0] = to(B, 2);  // inside
	code[1] = RET;	     // 1
	code[2] = to(B, -3); // before it
	code[3] = to(B, 100 - 3);
	code[4] = BR_3; // a jump table
	code[5] = BR16;
	code[6] = to(B, 4); // just behind the end
	code[7] = NOP;
	code[8] = RET;
	code[9] = NOP;
	cold[0] = to(B, 1 - 100);
	cold[1] = to(B, 50);
	ck_assert_int_eq(lnx_function_returns(&v, parts, 2, &returns), GS_OK);
	const uint64_t want[] = { f + 4, f + 8, f + 20, f + 24, f + 32, f + 404 };
	ck_assert_uint_eq(returns.count, ARRAY_SIZE(want));
	for (uint32_t i = 0; i < returns.count; i++)
		ck_assert_uint_eq(returns.address[i], want[i]);
	// alone, the way to the cold part is one out, too
	ck_assert_int_eq(lnx_function_returns(&v, parts, 1, &returns), GS_OK);
	ck_assert_uint_eq(returns.count, 6);
	ck_assert_uint_eq(returns.address[2], f + 12);
}
END_TEST

START_TEST(data_is_no_return)
{
	const struct lnx_text part = { f, 48 };
	uint32_t *code = code_at(f);

	for (uint32_t i = 0; i < 12; i++)
		code[i] = RET;
	code[0] = literal(LDR8, 4);
	code[1] = literal(LDRQ, 7);
	ck_assert_int_eq(lnx_function_returns(&v, &part, 1, &returns), GS_OK);
	// left: 2, 3, 6, 7
	ck_assert_uint_eq(returns.count, 4);
	ck_assert_uint_eq(returns.address[1], f + 12);
	ck_assert_uint_eq(returns.address[2], f + 24);
	ck_assert_uint_eq(returns.address[3], f + 28);
}
END_TEST

START_TEST(what_cannot_be_a_function_is_refused)
{
	const struct {
		struct lnx_text part;
		enum gs_code want;
	} bad[] = {
		{ { f + 2, 8 }, GS_EMALFORMED },
		{ { f, 6 }, GS_EMALFORMED },
		{ { f, UINT64_C(4) << 20 }, GS_ETOOBIG },
		{ { f, UINT64_MAX & ~UINT64_C(3) }, GS_ETOOBIG },
		{ { 0x1000, 8 }, GS_EFAULT },
		{ { UINT64_C(0xffffffffffffffe0), 0x40 }, GS_EFAULT },
		{ { f, 4 * (LNX_RETURNS_MAX + 1) }, GS_ETOOBIG },
		{ { f, 4 * LNX_RETURNS_MAX }, GS_OK },
		{ { f, 0 }, GS_OK },
	};

	for (uint32_t i = 0; i <= LNX_RETURNS_MAX; i++)
		code_at(f)[i] = RET;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(lnx_function_returns(&v, &bad[i].part, 1, &returns), bad[i].want);
	ck_assert_uint_eq(returns.count, 0);
}
END_TEST

START_TEST(code_has_a_place)
{
	gpa_t place;

	ck_assert_int_eq(lnx_code_place(&v, GVA(f), &place), GS_OK);
	ck_assert_uint_eq(place.a, f - g.voffset);
	ck_assert_int_eq(lnx_code_place(&v, GVA(g.threads[4].address), &place), GS_EFAULT);
	ck_assert_int_eq(lnx_code_place(&v, GVA(0), &place), GS_EFAULT);
}
END_TEST

static bool original(void *priv, uint64_t va, uint32_t *insn_out)
{
	(void)priv;
	*insn_out = va == f + 4 ? RET : NOP;
	return true;
}

START_TEST(breakpoints_of_ours_are_not_seen)
{
	static const struct guest_break_ops breaks = { .original = original };
	const struct lnx_text part = { f, 12 };
	uint32_t *code = code_at(f);

	code[0] = code[1] = code[2] = GUEST_BREAK_INSN;
	ck_assert_int_eq(lnx_function_returns(&v, &part, 1, &returns), GS_OK);
	ck_assert_uint_eq(returns.count, 0);
	g.ops.breaks = &breaks;
	ck_assert_int_eq(lnx_function_returns(&v, &part, 1, &returns), GS_OK);
	ck_assert_uint_eq(returns.count, 1);
	ck_assert_uint_eq(returns.address[0], f + 4);
}
END_TEST

static const struct {
	const char *function;
	uint32_t n;
	const char *type, *name; /* NULL: not known */
} parameters[] = {
	{ "vfs_read", 0, "struct list_head *", "file" },
	{ "vfs_read", 1, "const char *", "text" },
	{ "vfs_read", 2, "u64", "" },
	{ "vfs_read", 3, "function **", "hooks" },
	{ "vfs_read", 4, "const char * const", "fixed" },
	{ "vfs_read", 5, "unsigned int[1]", "words" },
	{ "vfs_read", 6, NULL, NULL },
	{ "vfs_read", 7, NULL, NULL },
	{ "vfs_read", LNX_PROTOTYPE_RETURN, "pid_t", "" },
	{ "schedule", LNX_PROTOTYPE_RETURN, "void", "" },
	{ "schedule", 0, NULL, NULL },
	{ "list_head", 0, NULL, NULL },
	{ "no_such_function", 0, NULL, NULL },
};

START_TEST(parameters_have_types)
{
	struct lnx_prototypes *p;
	struct lnx_parameter parameter;

	ck_assert_int_eq(lnx_prototypes_open(k, &g.m.guest, &p, NULL), GS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++) {
		ck_assert_int_eq(lnx_prototype_parameter(p, parameters[i].function, parameters[i].n,
							 &parameter),
				 parameters[i].type ? GS_OK : GS_ENOENT);
		if (parameters[i].type) {
			ck_assert_str_eq(parameter.type, parameters[i].type);
			ck_assert_str_eq(parameter.name, parameters[i].name);
		}
	}
	lnx_prototypes_close(p);
	lnx_prototypes_close(NULL);
}
END_TEST

START_TEST(types_that_are_gone_are_no_types)
{
	struct lnx_prototypes *p;
	struct gs_error err = { 0 };
	uint8_t *types = lg_image(&g, LG_BTF);

	memset(types + 100, 0xff, 4096);
	ck_assert_int_ne(lnx_prototypes_open(k, &g.m.guest, &p, &err), GS_OK);
	ck_assert_uint_ne(err.text[0], 0);
}
END_TEST

START_TEST(broken_types_end)
{
	struct lnx_prototypes *p;
	struct lnx_parameter parameter;
	uint8_t *types = lg_image(&g, LG_BTF);
	uint32_t opened = 0;

	/* each word of the last types, where functions are, becomes another one */
	const uint32_t string_at = gs_get_u32(types + 16) + 24 /* of the header */;
	for (uint32_t at = string_at - 600; at < string_at; at += 4) {
		uint8_t old[4];

		memcpy(old, types + at, 4);
		for (uint32_t value = 0; value < 3; value++) {
			memset(types + at, value ? (int)(value * 0x7f) : 0, 4);
			if (lnx_prototypes_open(k, &g.m.guest, &p, NULL))
				continue;
			opened++;
			for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
				(void)!lnx_prototype_parameter(p, parameters[i].function,
							       parameters[i].n, &parameter);
			lnx_prototypes_close(p);
		}
		memcpy(types + at, old, 4);
	}
	ck_assert_uint_gt(opened, 0);
}
END_TEST

Suite *suite_functions(void)
{
	Suite *s = suite_create("functions");
	TCase *c = tcase_create("functions");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, functions_come_once_each_and_in_order);
	tcase_add_test(c, returns_are_what_leads_out_of_a_function);
	tcase_add_test(c, data_is_no_return);
	tcase_add_test(c, what_cannot_be_a_function_is_refused);
	tcase_add_test(c, code_has_a_place);
	tcase_add_test(c, breakpoints_of_ours_are_not_seen);
	tcase_add_test(c, parameters_have_types);
	tcase_add_test(c, types_that_are_gone_are_no_types);
	tcase_add_test(c, broken_types_end);
	suite_add_tcase(s, c);
	return s;
}
