/* SPDX-License-Identifier: Apache-2.0 */
/* Taint, time, load, memory and panic of a whole kernel. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/kernel.h"
#include "introspect/linux/system.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

#define ALL                                                                           \
	(LNX_SYSTEM_TAINT | LNX_SYSTEM_UPTIME | LNX_SYSTEM_LOAD | LNX_SYSTEM_MEMORY | \
	 LNX_SYSTEM_PANIC)

static struct lnx_system sys;
static struct guest_vcpu_regs regs[LG_VCPUS_MAX];

static void set(uint64_t offset, uint64_t value)
{
	memcpy(lg_image(&made.g, offset), &value, sizeof(value));
}

static void panic(int32_t cpu)
{
	memcpy(lg_image(&made.g, LG_PANIC_CPU), &cpu, sizeof(cpu));
}

static struct lg_rq *runqueue(uint32_t cpu)
{
	return (void *)(made.g.cpu[cpu].bytes + LG_PERCPU_RUNQUEUES);
}

static void begin_form(const struct lg_form *form)
{
	make(form);
	lg_log_create(&made.g);
	lg_populate(&made.g);
	set(LG_TAINT, 0x1200);
	set(LG_LOAD, LNX_LOAD_ONE);
	set(LG_LOAD + 8, 3 * LNX_LOAD_ONE / 2);
	set(LG_LOAD + 16, 0);
	set(LG_TOTAL_PAGES, 131072);
	set(LG_ZONE_STAT + 8 * LG_NR_FREE_PAGES, 1000);
	set(LG_NODE_STAT + 8 * LG_NR_FILE_PAGES, 50);
	runqueue(0)->clock = 5000000000;
	runqueue(1)->clock = 5000000700;
	ck_assert_msg(!find(NULL), "%s", made.err.text);
}

static void begin(void)
{
	begin_form(&(struct lg_form){ 0 });
}

static void look(void)
{
	struct lnx_view view;

	memcpy(regs, made.g.m.regs, sizeof(regs));
	lnx_view_init(&view, made.k, &made.g.m.guest);
	memset(&sys, 0xff, sizeof(sys));
	lnx_system_read(&view, regs, made.g.form.vcpus, &sys);
}

START_TEST(state_is_read_with_and_without_symbols_of_data)
{
	for (size_t i = 0; i < ARRAY_SIZE(data_forms); i++) {
		done();
		begin_form(&data_forms[i]);
		look();
		ck_assert_uint_eq(sys.known, ALL);
		ck_assert_uint_eq(sys.taint, 0x1200);
		ck_assert_uint_eq(sys.uptime_ns, 5000000700);
		ck_assert_uint_eq(sys.load[0], LNX_LOAD_ONE);
		ck_assert_uint_eq(sys.load[1], 3 * LNX_LOAD_ONE / 2);
		ck_assert_uint_eq(sys.load[2], 0);
		ck_assert_uint_eq(sys.total_pages, 131072);
		ck_assert_uint_eq(sys.free_pages, 1000);
		ck_assert_uint_eq(sys.file_pages, 50);
		ck_assert_int_eq(sys.panic_cpu, -1);
		ck_assert_str_eq(sys.panic, "");
	}
}
END_TEST

static void expect_panic(int32_t cpu, const char *message)
{
	look();
	ck_assert(sys.known & LNX_SYSTEM_PANIC);
	ck_assert_int_eq(sys.panic_cpu, cpu);
	ck_assert_str_eq(sys.panic, message);
}

START_TEST(panic_is_told_with_its_cpu_and_message)
{
	panic(3);
	lg_log_add(&made.g, 1, 0, "Kernel panic - not syncing: Fatal exception");
	lg_log_add(&made.g, 2, 0, "CPU: 1 PID: 1");
	expect_panic(3, "Fatal exception");
	lg_log_add(&made.g, 3, 0,
		   "---[ end Kernel panic - not syncing: Attempted to kill init! ]---");
	expect_panic(3, "Attempted to kill init!");
}
END_TEST

START_TEST(long_message_is_cut)
{
	char text[300], wanted[LNX_PANIC_MESSAGE];
	const size_t skip = strlen("Kernel panic - not syncing: ");

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "Kernel panic - not syncing: ", skip);
	snprintf(wanted, sizeof(wanted), "%.*s", (int)(LNX_PANIC_MESSAGE - 1 - skip), text + skip);
	panic(0);
	lg_log_add(&made.g, 1, 0, text);
	expect_panic(0, wanted);
}
END_TEST

START_TEST(panic_without_a_message_is_one_all_the_same)
{
	panic(0);
	expect_panic(0, "");
	lg_log_add(&made.g, 1, 0, "nothing of the kind: Kernel panic - not syncing: x");
	expect_panic(0, "");
	set(LG_PRB, 0);
	expect_panic(0, "");
}
END_TEST

// An old message is no panic of a kernel that goes on.
START_TEST(message_alone_is_no_panic)
{
	lg_log_add(&made.g, 1, 0, "Kernel panic - not syncing: not really");
	expect_panic(-1, "");
}
END_TEST

START_TEST(nonsense_is_not_known)
{
	const struct {
		uint64_t offset, value;
		uint32_t what;
	} bad[] = {
		{ LG_TAINT, UINT64_C(1) << 32, LNX_SYSTEM_TAINT },
		{ LG_LOAD + 16, UINT64_MAX, LNX_SYSTEM_LOAD },
		{ LG_TOTAL_PAGES, UINT64_C(1) << 40, LNX_SYSTEM_MEMORY },
		{ LG_PANIC_CPU, 0xfffffffe, LNX_SYSTEM_PANIC },
		{ LG_PANIC_CPU, 8192, LNX_SYSTEM_PANIC },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		done();
		begin();
		set(bad[i].offset, bad[i].value);
		look();
		ck_assert_uint_eq(sys.known, ALL & ~bad[i].what);
		ck_assert_int_eq(sys.panic_cpu, -1);
	}
	runqueue(0)->clock = runqueue(1)->clock = UINT64_MAX;
	look();
	ck_assert(!(sys.known & LNX_SYSTEM_UPTIME));
	runqueue(1)->clock = 7;
	look();
	ck_assert_uint_eq(sys.uptime_ns, 7);
}
END_TEST

START_TEST(uptime_needs_to_know_the_cpus)
{
	for (uint32_t i = 0; i < made.g.form.vcpus; i++)
		made.g.m.regs[i].valid &= ~GUEST_REGS_TPIDR;
	look();
	ck_assert_uint_eq(sys.known, ALL & ~LNX_SYSTEM_UPTIME);
	ck_assert_uint_eq(sys.uptime_ns, 0);
}
END_TEST

START_TEST(kernel_without_the_clock_has_no_uptime)
{
	const struct typeinfo_form types = { .omit = "rq.clock" };

	done();
	begin_form(&(struct lg_form){ .types = &types });
	look();
	ck_assert_uint_eq(sys.known, ALL & ~LNX_SYSTEM_UPTIME);
}
END_TEST

START_TEST(what_is_not_mapped_is_not_known)
{
	lg_unmap(&made.g, lg_image_va(&made.g, LG_TAINT));
	look();
	ck_assert_uint_eq(sys.known, LNX_SYSTEM_UPTIME);
}
END_TEST

/* Functions that say something else than in the kernels that were looked at. */
static void spoil(const char *function)
{
	const uint32_t nop = 0xd503201f;
	uint8_t *code = lg_image(&made.g, lg_symbol(&made.g, function) - lg_image_va(&made.g, 0));

	for (size_t i = 0; i < 0x200; i += 4)
		memcpy(code + i, &nop, sizeof(nop));
}

START_TEST(functions_that_tell_nothing_leave_variables_unknown)
{
	static const struct {
		const char *function;
		enum lnx_variable variable;
	} each[] = {
		{ "get_taint", LNX_V_TAINT },
		{ "nmi_panic", LNX_V_PANIC_CPU },
		{ "log_buf_vmcoreinfo_setup", LNX_V_LOG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(each); i++) {
		done();
		make(&(struct lg_form){ 0 });
		lg_log_create(&made.g);
		spoil(each[i].function);
		ck_assert_int_eq(find(NULL), GS_OK);
		for (size_t k = 0; k < ARRAY_SIZE(each); k++)
			ck_assert_int_eq(made.k->variable[each[k].variable].a != 0, k != i);
	}
}
END_TEST

START_TEST(taints_have_letters)
{
	const char *name;
	char letter;

	ck_assert(lnx_taint_name(0, &letter, &name));
	ck_assert_int_eq(letter, 'P');
	ck_assert(lnx_taint_name(12, &letter, &name));
	ck_assert_int_eq(letter, 'O');
	ck_assert(lnx_taint_name(LNX_TAINTS - 1, &letter, &name));
	ck_assert(!lnx_taint_name(LNX_TAINTS, &letter, &name));
}
END_TEST

Suite *suite_system(void)
{
	Suite *s = suite_create("system");
	TCase *tc = tcase_create("system");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, begin, done);
	tcase_add_test(tc, state_is_read_with_and_without_symbols_of_data);
	tcase_add_test(tc, panic_is_told_with_its_cpu_and_message);
	tcase_add_test(tc, long_message_is_cut);
	tcase_add_test(tc, panic_without_a_message_is_one_all_the_same);
	tcase_add_test(tc, message_alone_is_no_panic);
	tcase_add_test(tc, nonsense_is_not_known);
	tcase_add_test(tc, uptime_needs_to_know_the_cpus);
	tcase_add_test(tc, kernel_without_the_clock_has_no_uptime);
	tcase_add_test(tc, what_is_not_mapped_is_not_known);
	tcase_add_test(tc, functions_that_tell_nothing_leave_variables_unknown);
	tcase_add_test(tc, taints_have_letters);
	suite_add_tcase(s, tc);
	return s;
}
