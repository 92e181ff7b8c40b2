/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction words as the GNU assembler makes them, and stripping of signed addresses. */
#include <inttypes.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "tests/unit/arm64/suites.h"

#define PC UINT64_C(0xffff800080010000)

struct insn_case {
	const char *text; /* what was assembled */
	uint32_t word;
	uint64_t pc;
	struct a64_insn expected;
};

static void check_cases(const struct insn_case *c, size_t n)
{
	for (; n; n--, c++) {
		struct a64_insn i = a64_decode(c->word, c->pc);

		ck_assert_msg(i.kind == c->expected.kind, "%s: kind %d", c->text, (int)i.kind);
		ck_assert_msg(i.rd == c->expected.rd, "%s: rd %d", c->text, i.rd);
		ck_assert_msg(i.rd2 == c->expected.rd2, "%s: rd2 %d", c->text, i.rd2);
		ck_assert_msg(i.rn == c->expected.rn, "%s: rn %d", c->text, i.rn);
		ck_assert_msg(i.imm == c->expected.imm, "%s: imm %#" PRIx64, c->text, i.imm);
	}
}

START_TEST(addresses_relative_to_pc)
{
	static const struct insn_case row[] = {
		{ "adrp x0, .+0x1000",
		  0xb0000000,
		  PC,
		  { A64_INSN_ADRP, .rd = 0, .imm = 0xffff800080011000 } },
		{ "adrp x1, .-0x1000",
		  0xf0ffffe1,
		  PC + 4,
		  { A64_INSN_ADRP, .rd = 1, .imm = 0xffff80008000f000 } },
		{ "adrp x30, .+0xfffff000",
		  0xf07ffffe,
		  PC + 8,
		  { A64_INSN_ADRP, .rd = 30, .imm = 0xffff80018000f000 } },
		{ "adrp x2, .-0x100000000",
		  0x90800002,
		  PC + 12,
		  { A64_INSN_ADRP, .rd = 2, .imm = 0xffff7fff80010000 } },
		{ "adrp x3, .",
		  0x90000003,
		  PC + 0xffc,
		  { A64_INSN_ADRP, .rd = 3, .imm = 0xffff800080010000 } },
		{ "adrp past the end",
		  0xb0000000,
		  0xfffffffffffff000,
		  { A64_INSN_ADRP, .rd = 0, .imm = 0 } },
		{ "adr x3, .+4", 0x10000023, 0x10, { A64_INSN_ADR, .rd = 3, .imm = 0x14 } },
		{ "adr x4, .-1",
		  0x70ffffe4,
		  PC + 0x1000,
		  { A64_INSN_ADR, .rd = 4, .imm = 0xffff800080010fff } },
		{ "adr x5, .+0xfffff",
		  0x707fffe5,
		  0x18,
		  { A64_INSN_ADR, .rd = 5, .imm = 0x100017 } },
		{ "adr x6, .-0x100000",
		  0x10800006,
		  0x1c,
		  { A64_INSN_ADR, .rd = 6, .imm = 0xfffffffffff0001c } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

START_TEST(add_and_ldr_with_immediate)
{
	static const struct insn_case row[] = {
		{ "add x0, x1, #1", 0x91000420, PC, { A64_INSN_ADD_IMM, 0, 1, 1, 0 } },
		{ "mov x29, sp", 0x910003fd, PC, { A64_INSN_ADD_IMM, 29, 31, 0, 0 } },
		{ "add x1, x2, #0xfff", 0x913ffc41, PC, { A64_INSN_ADD_IMM, 1, 2, 0xfff, 0 } },
		{ "add x1, x2, #1, lsl #12",
		  0x91400441,
		  PC,
		  { A64_INSN_ADD_IMM, 1, 2, 0x1000, 0 } },
		{ "add x30, x30, #0xfff, lsl #12",
		  0x917fffde,
		  PC,
		  { A64_INSN_ADD_IMM, 30, 30, 0xfff000, 0 } },
		{ "ldr x0, [x1]", 0xf9400020, PC, { A64_INSN_LDR_IMM, 0, 1, 0, 0 } },
		{ "ldr x2, [sp, #8]", 0xf94007e2, PC, { A64_INSN_LDR_IMM, 2, 31, 8, 0 } },
		{ "ldr x30, [x29, #32760]",
		  0xf97fffbe,
		  PC,
		  { A64_INSN_LDR_IMM, 30, 29, 32760, 0 } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

START_TEST(system_registers)
{
	static const struct insn_case row[] = {
		{ "mrs x0, tpidr_el1",
		  0xd538d080,
		  PC,
		  { A64_INSN_MRS, .rd = 0, .imm = A64_SYSREG_TPIDR_EL1 } },
		{ "mrs x30, sp_el0",
		  0xd538411e,
		  PC,
		  { A64_INSN_MRS, .rd = 30, .imm = A64_SYSREG_SP_EL0 } },
		{ "mrs x1, tpidr_el0",
		  0xd53bd041,
		  PC,
		  { A64_INSN_MRS, .rd = 1, .imm = A64_SYSREG(3, 3, 13, 0, 2) } },
		{ "mrs x2, mdscr_el1",
		  0xd5300242,
		  PC,
		  { A64_INSN_MRS, .rd = 2, .imm = A64_SYSREG(2, 0, 0, 2, 2) } },
		{ "mrs x3, s3_7_c15_c15_7",
		  0xd53fffe3,
		  PC,
		  { A64_INSN_MRS, .rd = 3, .imm = 0xffff } },
		{ "msr sp_el0, x1",
		  0xd5184101,
		  PC,
		  { A64_INSN_MSR, .rd = 1, .imm = A64_SYSREG_SP_EL0 } },
		{ "msr tpidr_el1, x28",
		  0xd518d09c,
		  PC,
		  { A64_INSN_MSR, .rd = 28, .imm = A64_SYSREG_TPIDR_EL1 } },
		{ "msr sp_el0, xzr",
		  0xd518411f,
		  PC,
		  { A64_INSN_MSR, .rd = 31, .imm = A64_SYSREG_SP_EL0 } },
	};

	check_cases(row, ARRAY_SIZE(row));
	ck_assert_uint_eq(A64_SYSREG_TPIDR_EL1, 0xc684);
	ck_assert_uint_eq(A64_SYSREG_SP_EL0, 0xc208);
}
END_TEST

START_TEST(branches)
{
	static const struct insn_case row[] = {
		{ "b .", 0x14000000, 0x9c, { A64_INSN_BRANCH, .imm = 0x9c } },
		{ "b .+0x7fffffc", 0x15ffffff, 0xa0, { A64_INSN_BRANCH, .imm = 0x800009c } },
		{ "b .-0x8000000",
		  0x16000000,
		  0xa4,
		  { A64_INSN_BRANCH, .imm = 0xfffffffff80000a4 } },
		{ "bl .+4", 0x94000001, 0xa8, { A64_INSN_CALL, .imm = 0xac } },
		{ "bl .-4", 0x97ffffff, PC, { A64_INSN_CALL, .imm = PC - 4 } },
		{ "ret", 0xd65f03c0, PC, { A64_INSN_RET, .rn = 30 } },
		{ "ret x1", 0xd65f0020, PC, { A64_INSN_RET, .rn = 1 } },
		{ "ret xzr", 0xd65f03e0, PC, { A64_INSN_RET, .rn = 31 } },
		{ "retaa", 0xd65f0bff, PC, { A64_INSN_RET, .rn = 30 } },
		{ "retab", 0xd65f0fff, PC, { A64_INSN_RET, .rn = 30 } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

// Neighbours of the patterns: each differs from one that matches in a field the decoder must look
// at.
START_TEST(branches_that_may_not_be_taken_or_go_by_register)
{
	static const struct insn_case row[] = {
		{ "b.eq .+8", 0x54000040, PC, { A64_INSN_BRANCH_IF, .imm = PC + 8 } },
		{ "b.ne .-0x100000", 0x54800001, PC, { A64_INSN_BRANCH_IF, .imm = PC - 0x100000 } },
		{ "bc.eq .+8", 0x54000050, PC, { A64_INSN_BRANCH_IF, .imm = PC + 8 } },
		{ "cbz x0, .+8", 0xb4000040, PC, { A64_INSN_BRANCH_IF, .imm = PC + 8 } },
		{ "cbnz w3, .+0xffffc",
		  0x357fffe3,
		  PC,
		  { A64_INSN_BRANCH_IF, .imm = PC + 0xffffc } },
		{ "tbz w0, #1, .+8", 0x36080040, PC, { A64_INSN_BRANCH_IF, .imm = PC + 8 } },
		{ "tbnz x1, #40, .-0x8000",
		  0xb7440001,
		  PC,
		  { A64_INSN_BRANCH_IF, .imm = PC - 0x8000 } },
		{ "br x16", 0xd61f0200, PC, { A64_INSN_BRANCH_REG, .rn = 16 } },
		{ "braa x1, x2", 0xd71f0822, PC, { A64_INSN_BRANCH_REG, .rn = 1 } },
		{ "brabz x4", 0xd61f0c9f, PC, { A64_INSN_BRANCH_REG, .rn = 4 } },
		{ "blr x16", 0xd63f0200, PC, { A64_INSN_CALL_REG, .rn = 16 } },
		{ "blraa x1, x2", 0xd73f0822, PC, { A64_INSN_CALL_REG, .rn = 1 } },
		{ "blrab x1, sp", 0xd73f0c3f, PC, { A64_INSN_CALL_REG, .rn = 1 } },
		{ "blraaz x3", 0xd63f087f, PC, { A64_INSN_CALL_REG, .rn = 3 } },
		{ "eret", 0xd69f03e0, PC, { .kind = A64_INSN_ERET } },
		{ "eretaa", 0xd69f0bff, PC, { .kind = A64_INSN_ERET } },
		{ "eretab", 0xd69f0fff, PC, { .kind = A64_INSN_ERET } },
		{ "brk #0x800", 0xd4210000, PC, { .kind = A64_INSN_TRAP } },
		{ "udf #0", 0x00000000, PC, { .kind = A64_INSN_TRAP } },
		{ "udf #3", 0x00000003, PC, { .kind = A64_INSN_TRAP } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

START_TEST(frames_are_made_and_undone)
{
	static const struct insn_case row[] = {
		{ "stp x29, x30, [sp, #-16]!",
		  0xa9bf7bfd,
		  PC,
		  { .kind = A64_INSN_STP, .rd = 29, .rn = 31, .rd2 = 30 } },
		{ "stp x29, x30, [sp], #16",
		  0xa8817bfd,
		  PC,
		  { .kind = A64_INSN_STP, .rd = 29, .rn = 31, .rd2 = 30 } },
		{ "stp x29, x30, [sp, #16]",
		  0xa9017bfd,
		  PC,
		  { .kind = A64_INSN_STP, .rd = 29, .rn = 31, .rd2 = 30 } },
		{ "stnp x29, x30, [sp, #16]",
		  0xa8017bfd,
		  PC,
		  { .kind = A64_INSN_STP, .rd = 29, .rn = 31, .rd2 = 30 } },
		{ "ldp x29, x30, [sp], #16",
		  0xa8c17bfd,
		  PC,
		  { .kind = A64_INSN_LDP, .rd = 29, .rn = 31, .rd2 = 30 } },
		{ "ldpsw x1, x2, [sp]", 0x69400be1, PC, { .kind = A64_INSN_OTHER } },
		{ "stp w1, w2, [sp]", 0x29000be1, PC, { .kind = A64_INSN_OTHER } },
		{ "stp q1, q2, [sp]", 0xad000be1, PC, { .kind = A64_INSN_OTHER } },
		{ "mov x9, x30", 0xaa1e03e9, PC, { .kind = A64_INSN_MOV_REG, .rd = 9, .rn = 30 } },
		{ "orr x9, x1, x30", 0xaa1e0029, PC, { .kind = A64_INSN_OTHER } },
		{ "nop", 0xd503201f, PC, { .kind = A64_INSN_NOP } },
		{ "paciasp", 0xd503233f, PC, { .kind = A64_INSN_PAC_LR } },
		{ "pacibsp", 0xd503237f, PC, { .kind = A64_INSN_PAC_LR } },
		{ "autiasp", 0xd50323bf, PC, { .kind = A64_INSN_PAC_LR } },
		{ "autibsp", 0xd50323ff, PC, { .kind = A64_INSN_PAC_LR } },
		{ "paciaz", 0xd503231f, PC, { .kind = A64_INSN_OTHER } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

START_TEST(everything_else_is_other)
{
	static const struct insn_case row[] = {
		{ "add w0, w1, #1", 0x11000420, PC, { .kind = A64_INSN_OTHER } },
		{ "adds x0, x1, #1", 0xb1000420, PC, { .kind = A64_INSN_OTHER } },
		{ "sub x0, x1, #1", 0xd1000420, PC, { .kind = A64_INSN_OTHER } },
		{ "addg x0, x1, #16, #1", 0x91810420, PC, { .kind = A64_INSN_OTHER } },
		{ "add x0, x1, x2", 0x8b020020, PC, { .kind = A64_INSN_OTHER } },
		{ "ldr w0, [x1, #8]", 0xb9400820, PC, { .kind = A64_INSN_OTHER } },
		{ "str x0, [x1, #8]", 0xf9000420, PC, { .kind = A64_INSN_OTHER } },
		{ "ldr d0, [x1, #8]", 0xfd400420, PC, { .kind = A64_INSN_OTHER } },
		{ "ldr x0, [x1, #8]!", 0xf8408c20, PC, { .kind = A64_INSN_OTHER } },
		{ "ldr x0, [x1], #8", 0xf8408420, PC, { .kind = A64_INSN_OTHER } },
		{ "ldur x0, [x1, #8]", 0xf8408020, PC, { .kind = A64_INSN_OTHER } },
		{ "ldrsw x0, [x1, #8]", 0xb9800820, PC, { .kind = A64_INSN_OTHER } },
		{ "prfm pldl1keep, [x1, #8]", 0xf9800420, PC, { .kind = A64_INSN_OTHER } },
		{ "ldraa x0, [x1]", 0xf8200420, PC, { .kind = A64_INSN_OTHER } },
		{ "ldr x0, .+8", 0x58000040, PC, { .kind = A64_INSN_OTHER } },
		{ "msr daifset, #2", 0xd50342df, PC, { .kind = A64_INSN_OTHER } },
		{ "msr spsel, #1", 0xd50041bf, PC, { .kind = A64_INSN_OTHER } },
		{ "ic iallu", 0xd508751f, PC, { .kind = A64_INSN_OTHER } },
		{ "isb", 0xd5033fdf, PC, { .kind = A64_INSN_OTHER } },
		{ "bti c", 0xd503245f, PC, { .kind = A64_INSN_OTHER } },
		{ "pacia x0, x1", 0xdac10020, PC, { .kind = A64_INSN_OTHER } },
		{ "ret, bit 21 set: unallocated", 0xd67f03c0, PC, { .kind = A64_INSN_OTHER } },
		{ "ret, bit 0 set: unallocated", 0xd65f03c1, PC, { .kind = A64_INSN_OTHER } },
		{ "ret, bit 10 set: unallocated", 0xd65f07c0, PC, { .kind = A64_INSN_OTHER } },
		{ "all ones", 0xffffffff, PC, { .kind = A64_INSN_OTHER } },
	};

	check_cases(row, ARRAY_SIZE(row));
}
END_TEST

START_TEST(strip_gives_the_address_that_was_signed)
{
	static const struct {
		uint64_t address;
		unsigned int va_bits;
		uint64_t expected;
	} row[] = {
		/* signed kernel addresses */
		{ 0xadcaca3672b5fb88, 48, 0xffffca3672b5fb88 },
		{ 0x17a5ffc010081234, 39, 0xffffffc010081234 },
		{ 0x2bb3ffd012345678, 39, 0xffffffd012345678 },
		{ 0x2b9ac00080012344, 47, 0xffffc00080012344 },
		{ 0x9abb800080012344, 48, 0xffff800080012344 },
		{ 0x9abf800080012344, 52, 0xffff800080012344 },
		{ 0x9ab0123456789abc, 52, 0xfff0123456789abc },
		/* unsigned ones stay */
		{ 0xffffffc010081234, 39, 0xffffffc010081234 },
		{ 0xffffc00080012344, 47, 0xffffc00080012344 },
		{ 0xffff800080012344, 48, 0xffff800080012344 },
		{ 0xfff1000040000000, 52, 0xfff1000040000000 },
		/* with a tag instead of a code */
		{ 0xf3ff800080012344, 48, 0xffff800080012344 },
		/* NULL, signed and not */
		{ 0x0001000000000000, 48, 0 },
		{ 0xff7f000000000000, 48, 0 },
		{ 0x0000800000000000, 47, 0 },
		{ 0x0000008000000000, 39, 0 },
		{ 0, 48, 0 },
		/* 52 bits keep bits 51:48 */
		{ 0x0001000000000000, 52, 0x0001000000000000 },
		{ 0x0010000000000000, 52, 0 },
		/* user addresses */
		{ 0x0000ffffdeadbeef, 48, 0x0000ffffdeadbeef },
		{ 0x1a2bffffdeadbeef, 48, 0x0000ffffdeadbeef },
		{ 0x1a2bffffdeadbeef, 47, 0x00007fffdeadbeef },
		{ 0x1a2b007fdeadbeef, 39, 0x0000007fdeadbeef },
		{ 0x1a2bffffdeadbeef, 52, 0x000bffffdeadbeef },
		{ 0xb400007812345678, 48, 0x0000007812345678 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint64_t stripped = a64_strip(row[i].address, row[i].va_bits);

		ck_assert_msg(stripped == row[i].expected, "row %zu: %#" PRIx64, i, stripped);
		ck_assert_uint_eq(a64_strip(stripped, row[i].va_bits), stripped);
	}
}
END_TEST

START_TEST(exception_level_is_bits_3_2)
{
	ck_assert_uint_eq(a64_pstate_el(0x80000000), 0);
	ck_assert_uint_eq(a64_pstate_el(0x604000c5), 1); /* EL1h */
	ck_assert_uint_eq(a64_pstate_el(0x604000c4), 1); /* EL1t */
	ck_assert_uint_eq(a64_pstate_el(0x3c9), 2);
}
END_TEST

Suite *suite_insn(void)
{
	Suite *s = suite_create("insn");
	TCase *tc = tcase_create("insn");

	tcase_add_test(tc, addresses_relative_to_pc);
	tcase_add_test(tc, add_and_ldr_with_immediate);
	tcase_add_test(tc, system_registers);
	tcase_add_test(tc, branches);
	tcase_add_test(tc, branches_that_may_not_be_taken_or_go_by_register);
	tcase_add_test(tc, frames_are_made_and_undone);
	tcase_add_test(tc, everything_else_is_other);
	tcase_add_test(tc, strip_gives_the_address_that_was_signed);
	tcase_add_test(tc, exception_level_is_bits_3_2);
	suite_add_tcase(s, tc);
	return s;
}
