/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions executed for the guest. */
#include "tests/unit/vmm/vmm_tests.h"

#include <string.h>

#include "base/util.h"
#include "vmm/execute.h"

#define BASE   UINT64_C(0xffff800008012340)
#define BTYPE  UINT64_C(0xc00)
#define EL1H   UINT64_C(5)
#define N_FLAG (UINT64_C(1) << 31)
#define Z_FLAG (UINT64_C(1) << 30)
#define C_FLAG (UINT64_C(1) << 29)
#define V_FLAG (UINT64_C(1) << 28)

struct cpu {
	uint64_t reg[VMM_EXECUTE_PSTATE + 1];
	uint32_t broken; /* of this register nothing is known; UINT32_MAX: none is broken */
};

static bool get(void *arg, uint32_t reg, uint64_t *value_out)
{
	struct cpu *c = arg;

	*value_out = c->reg[reg];
	return reg != c->broken;
}

static bool set(void *arg, uint32_t reg, uint64_t value)
{
	struct cpu *c = arg;

	if (reg == c->broken)
		return false;
	c->reg[reg] = value;
	return true;
}

/* Each register has a value of its own. */
static uint64_t own(uint32_t reg)
{
	return UINT64_C(0x0101010100000000) * reg + reg;
}

static struct cpu cpu_make(uint64_t pstate)
{
	struct cpu c = { .broken = UINT32_MAX };

	for (uint32_t i = 0; i <= VMM_EXECUTE_SP; i++)
		c.reg[i] = own(i);
	c.reg[VMM_EXECUTE_PC] = BASE;
	c.reg[VMM_EXECUTE_PSTATE] = pstate;
	return c;
}

static enum vmm_execute_result execute(struct cpu *c, uint32_t insn)
{
	const struct vmm_execute_cpu cpu = { .get = get, .set = set, .arg = c };

	return vmm_execute(&cpu, insn);
}

/* Assembled by GNU as; the comment is its input. */
static const struct {
	uint32_t insn;
	uint64_t pc;  /* after it */
	uint32_t reg; /* that it changes; UINT32_MAX: none */
	uint64_t value;
	uint64_t pstate;
} cases[] = {
#define NEXT (BASE + 4)
#define NONE UINT32_MAX, 0
	{ 0xd503201f, NEXT, NONE, EL1H },			     // nop
	{ 0xd503245f, NEXT, NONE, EL1H },			     // bti c
	{ 0xd503241f, NEXT, NONE, EL1H },			     // bti
	{ 0xd50324df, NEXT, NONE, EL1H },			     // bti jc
	{ 0xaa1e03e9, NEXT, 9, UINT64_C(0x1e1e1e1e0000001e), EL1H }, // mov x9, x30
	{ 0x2a0203e1, NEXT, 1, 2, EL1H },			     // mov w1, w2
	{ 0xaa1f03e1, NEXT, 1, 0, EL1H },			     // mov x1, xzr
	{ 0xaa0103ff, NEXT, NONE, EL1H },			     // mov xzr, x1
	{ 0x92800001, NEXT, 1, UINT64_MAX, EL1H },		     // mov x1, #-1
	{ 0x12800001, NEXT, 1, UINT32_MAX, EL1H },		     // mov w1, #-1
	{ 0xd2a24681, NEXT, 1, UINT64_C(0x12340000), EL1H },	     // movz x1, #0x1234, lsl #16
	{ 0xf2a00061, NEXT, 1, UINT64_C(0x0101010100030001), EL1H }, // movk x1, #3, lsl #16
	{ 0xf2e00061, NEXT, 1, UINT64_C(0x0003010100000001), EL1H }, // movk x1, #3, lsl #48
	{ 0x72800061, NEXT, 1, 3, EL1H },			     // movk w1, #3
	{ 0xd10083ff, NEXT, VMM_EXECUTE_SP, UINT64_C(0x1f1f1f1effffffff), EL1H }, // sub sp, sp, #32
	{ 0x910003fd, NEXT, 29, UINT64_C(0x1f1f1f1f0000001f), EL1H },		  // mov x29, sp
	{ 0x91400420, NEXT, 0, UINT64_C(0x0101010100001001), EL1H },  // add x0, x1, #1, lsl #12
	{ 0x11000420, NEXT, 0, 2, EL1H },			      // add w0, w1, #1
	{ 0x10000103, NEXT, 3, BASE + 32, EL1H },		      // adr x3, .+32
	{ 0xd0ffffe3, NEXT, 3, UINT64_C(0xffff800008010000), EL1H },  // adrp x3, .-8192
	{ 0x14000004, BASE + 16, NONE, EL1H },			      // b .+16
	{ 0x17fffffe, BASE - 8, NONE, EL1H },			      // b .-8
	{ 0x97fffffe, BASE - 8, 30, NEXT, EL1H },		      // bl .-8
	{ 0xd61f00a0, UINT64_C(0x0505050500000005), NONE, EL1H },     // br x5
	{ 0xd63f00a0, UINT64_C(0x0505050500000005), 30, NEXT, EL1H }, // blr x5
	{ 0xd63f03c0, UINT64_C(0x1e1e1e1e0000001e), 30, NEXT, EL1H }, // blr x30
	{ 0xd65f03c0, UINT64_C(0x1e1e1e1e0000001e), NONE, EL1H },     // ret
	{ 0xd65f0020, UINT64_C(0x0101010100000001), NONE, EL1H },     // ret x1
	{ 0x34000043, NEXT, NONE, EL1H },			      // cbz w3, .+8
	{ 0x35000043, BASE + 8, NONE, EL1H },			      // cbnz w3, .+8
	{ 0x3400005f, BASE + 8, NONE, EL1H },			      // cbz wzr, .+8
	{ 0xb7500084, BASE + 16, NONE, EL1H },			      // tbnz x4, #42, .+16
	{ 0xb6400084, BASE + 16, NONE, EL1H },			      // tbz x4, #40, .+16
	{ 0x37100084, BASE + 16, NONE, EL1H },			      // tbnz w4, #2, .+16
	{ 0x54ffffc1, BASE - 8, NONE, EL1H },			      // b.ne .-8
	{ 0x54ffffc1, NEXT, NONE, EL1H | Z_FLAG },		      // b.ne .-8
	{ 0x54000040, BASE + 8, NONE, EL1H | Z_FLAG },		      // b.eq .+8
	{ 0x54000042, BASE + 8, NONE, EL1H | C_FLAG },		      // b.cs .+8
	{ 0x54000048, BASE + 8, NONE, EL1H | C_FLAG },		      // b.hi .+8
	{ 0x54000048, NEXT, NONE, EL1H | C_FLAG | Z_FLAG },	      // b.hi .+8
	{ 0x54000049, BASE + 8, NONE, EL1H | C_FLAG | Z_FLAG },	      // b.ls .+8
	{ 0x5400004b, BASE + 8, NONE, EL1H | N_FLAG },		      // b.lt .+8
	{ 0x5400004b, NEXT, NONE, EL1H | N_FLAG | V_FLAG },	      // b.lt .+8
	{ 0x5400004c, BASE + 8, NONE, EL1H | N_FLAG | V_FLAG },	      // b.gt .+8
	{ 0x5400004d, BASE + 8, NONE, EL1H | Z_FLAG },		      // b.le .+8
	{ 0x54000044, BASE + 8, NONE, EL1H | N_FLAG },		      // b.mi .+8
	{ 0x54000046, BASE + 8, NONE, EL1H | V_FLAG },		      // b.vs .+8
	{ 0x5400004e, BASE + 8, NONE, EL1H },			      // b.al .+8
#undef NEXT
#undef NONE
};

START_TEST(what_functions_begin_and_end_with_is_executed)
{
	struct cpu c = cpu_make(cases[_i].pstate | BTYPE), want = cpu_make(cases[_i].pstate);

	want.reg[VMM_EXECUTE_PC] = cases[_i].pc;
	if (cases[_i].reg != UINT32_MAX)
		want.reg[cases[_i].reg] = cases[_i].value;
	ck_assert(vmm_can_execute(cases[_i].insn));
	ck_assert_int_eq(execute(&c, cases[_i].insn), VMM_EXECUTE_DONE);
	for (uint32_t i = 0; i <= VMM_EXECUTE_PSTATE; i++)
		ck_assert_msg(c.reg[i] == want.reg[i], "%#x: register %u is %#lx, not %#lx",
			      cases[_i].insn, i, (unsigned long)c.reg[i],
			      (unsigned long)want.reg[i]);
}
END_TEST

static const struct {
	uint32_t insn;
	bool can_step;
} others[] = {
	{ 0xd503233f, true },  // paciasp
	{ 0xa9bf7bfd, true },  // stp x29, x30, [sp, #-16]!
	{ 0xb1000420, true },  // adds x0, x1, #1
	{ 0x91810420, true },  // addg x0, x1, #16, #1
	{ 0xd65f0bff, true },  // retaa
	{ 0xd71f0822, true },  // braa x1, x2
	{ 0x54000031, true },  // bc.ne .+4
	{ 0xaa0207e1, true },  // orr x1, xzr, x2, lsl #1
	{ 0x52c00001, true },  // movz of 32 bits shifted by 32: not allocated
	{ 0xf9400020, true },  // ldr x0, [x1]
	{ 0xd69f03e0, false }, // eret
	{ 0xd69f0bff, false }, // eretaa
	{ 0xd6bf03e0, false }, // drps
	{ 0xc85f7c20, false }, // ldxr x0, [x1]
	{ 0xd4000001, false }, // svc #0
	{ 0xd4200080, false }, // brk #4
	{ 0xd50342df, false }, // msr daifset, #2
	{ 0xd53b4220, false }, // mrs x0, daif
	{ 0xd503207f, false }, // wfi
	{ 0xd503205f, false }, // wfe
	{ 0xd5033fdf, false }, // isb
};

START_TEST(anything_else_is_left_to_the_cpu)
{
	struct cpu c = cpu_make(EL1H | BTYPE), want = c;

	ck_assert(!vmm_can_execute(others[_i].insn));
	ck_assert_int_eq(execute(&c, others[_i].insn), VMM_EXECUTE_UNKNOWN);
	ck_assert(!memcmp(&c, &want, sizeof(c)));
	ck_assert_int_eq(vmm_can_step(others[_i].insn), others[_i].can_step);
}
END_TEST

START_TEST(a_register_that_cannot_be_had_leaves_the_instruction_undone)
{
	static const struct {
		uint32_t insn, reg;
	} broken[] = {
		{ 0xaa1e03e9, 30 }, { 0xaa1e03e9, 9 },	{ 0xd10083ff, VMM_EXECUTE_SP },
		{ 0x97fffffe, 30 }, { 0xd65f03c0, 30 }, { 0x54ffffc1, VMM_EXECUTE_PSTATE },
		{ 0x34000043, 3 },  { 0xf2a00061, 1 },	{ 0xd503201f, VMM_EXECUTE_PC },
	};
	struct cpu c = cpu_make(EL1H);

	c.broken = broken[_i].reg;
	ck_assert_int_eq(execute(&c, broken[_i].insn), VMM_EXECUTE_FAILED);
	ck_assert_uint_eq(c.reg[VMM_EXECUTE_PC], BASE);
}
END_TEST

START_TEST(no_word_is_too_strange)
{
	uint32_t insn = 1, wrong = 0;

	for (int i = 0; i < 1000000; i++) {
		struct cpu c = cpu_make(EL1H);

		insn = insn * 1664525 + 1013904223;
		bool can = vmm_can_execute(insn);
		wrong += execute(&c, insn) != (can ? VMM_EXECUTE_DONE : VMM_EXECUTE_UNKNOWN);
		wrong += can && !vmm_can_step(insn);
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

TCase *execute_case(void)
{
	TCase *c = tcase_create("execute");

	tcase_add_loop_test(c, what_functions_begin_and_end_with_is_executed, 0, ARRAY_SIZE(cases));
	tcase_add_loop_test(c, anything_else_is_left_to_the_cpu, 0, ARRAY_SIZE(others));
	tcase_add_loop_test(c, a_register_that_cannot_be_had_leaves_the_instruction_undone, 0, 9);
	tcase_add_test(c, no_word_is_too_strange);
	return c;
}
