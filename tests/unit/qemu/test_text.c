/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what QEMU's human monitor prints. */
#include <stdlib.h>
#include <string.h>

#include "introspect/guest/qemu_text.h"
#include "tests/unit/qemu/suites.h"

/* As QEMU 7.2 prints it for -cpu max, cut after the first vector register. */
static const char two_cpus[] =
	"\r\nCPU#0\r\n"
	" PC=ffffab6819baf4fc X00=000000000003946c X01=ffff00003fd6f558\r\n"
	"X02=0000000000000002 X03=0000000000000003 X04=0000000000000004\r\n"
	"X05=0000000000000005 X06=0000000000000006 X07=0000000000000007\r\n"
	"X08=0000000000000008 X09=0000000000000009 X10=000000000000000a\r\n"
	"X11=000000000000000b X12=000000000000000c X13=000000000000000d\r\n"
	"X14=000000000000000e X15=000000000000000f X16=0000000000000010\r\n"
	"X17=0000000000000011 X18=0000000000000012 X19=0000000000000013\r\n"
	"X20=0000000000000014 X21=0000000000000015 X22=0000000000000016\r\n"
	"X23=0000000000000017 X24=0000000000000018 X25=0000000000000019\r\n"
	"X26=000000000000001a X27=000000000000001b X28=000000000000001c\r\n"
	"X29=ffffab681a813d50 X30=9fd2ab6819baf514  SP=ffffab681a813d50\r\n"
	"PSTATE=404000c5 -Z-- EL1h  SVCR=00000000 --  BTYPE=0     FPCR=00000000 FPSR=00000000\r\n"
	"P00=0000000000000001 P01=0000000000000000 P02=0000000000000000\r\n"
	"Z00[3-2]=0000000000000000:0000000000000000:0000000000000000:0000000000000000\r\n"
	"\r\nCPU#1\r\n"
	" PC=0000000000401234 X00=0000000000000001 X01=0000000000000001\r\n"
	"X02=0000000000000002 X03=0000000000000003 X04=0000000000000004\r\n"
	"X05=0000000000000005 X06=0000000000000006 X07=0000000000000007\r\n"
	"X08=0000000000000008 X09=0000000000000009 X10=000000000000000a\r\n"
	"X11=000000000000000b X12=000000000000000c X13=000000000000000d\r\n"
	"X14=000000000000000e X15=000000000000000f X16=0000000000000010\r\n"
	"X17=0000000000000011 X18=0000000000000012 X19=0000000000000013\r\n"
	"X20=0000000000000014 X21=0000000000000015 X22=0000000000000016\r\n"
	"X23=0000000000000017 X24=0000000000000018 X25=0000000000000019\r\n"
	"X26=000000000000001a X27=000000000000001b X28=000000000000001c\r\n"
	"X29=0000000000000000 X30=0000000000401000  SP=0000fffff0000000\r\n"
	"PSTATE=60001000 -ZC- EL0t  SVCR=00000000 --  BTYPE=0     FPU disabled\r\n";

/* The PSTATE of the first CPU, to be written over. */
static char *with_pstate(const char *pstate)
{
	char *text = strdup(two_cpus);

	memcpy(strstr(text, "404000c5"), pstate, 8);
	return text;
}

static uint32_t parse(const char *text, struct guest_vcpu_regs *regs, uint32_t vcpus)
{
	/* without its NUL, so that a sanitizer sees a read behind the end */
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);

	memcpy(copy, text, len);
	uint32_t complete = guest_qemu_parse_registers(copy, len, regs, vcpus);
	free(copy);
	return complete;
}

START_TEST(registers_of_each_cpu_are_taken)
{
	struct guest_vcpu_regs r[3];

	ck_assert_uint_eq(parse(two_cpus, r, 3), 2);
	ck_assert_uint_eq(r[0].valid, GUEST_REGS_GENERAL);
	ck_assert_uint_eq(r[0].pc, 0xffffab6819baf4fc);
	ck_assert_uint_eq(r[0].pstate, 0x404000c5);
	ck_assert_uint_eq(r[0].x[0], 0x3946c);
	for (unsigned int i = 2; i < 29; i++)
		ck_assert_uint_eq(r[0].x[i], i);
	ck_assert_uint_eq(r[0].x[30], 0x9fd2ab6819baf514);
	ck_assert_uint_eq(r[1].valid, GUEST_REGS_GENERAL);
	ck_assert_uint_eq(r[1].pc, 0x401234);
	ck_assert_uint_eq(r[2].valid, 0);
}
END_TEST

START_TEST(stack_pointer_goes_to_the_bank_in_use)
{
	static const struct {
		const char *pstate;
		bool el1;
	} cases[] = {
		{ "404000c5", true },  /* EL1h */
		{ "404000c4", false }, /* EL1t */
		{ "40400000", false }, /* EL0t */
		{ "404000c9", true },  /* EL2h: a host's kernel in its own hypervisor mode */
	};
	char *text = with_pstate(cases[_i].pstate);
	struct guest_vcpu_regs r;

	ck_assert_uint_eq(parse(text, &r, 1), 1);
	ck_assert_uint_eq(r.sp_el1, cases[_i].el1 ? 0xffffab681a813d50 : 0);
	ck_assert_uint_eq(r.sp_el0, cases[_i].el1 ? 0 : 0xffffab681a813d50);
	free(text);
}
END_TEST

START_TEST(thirty_two_bit_state_is_not_taken)
{
	char *text = with_pstate("400001d3");
	struct guest_vcpu_regs r;

	ck_assert_uint_eq(parse(text, &r, 1), 0);
	ck_assert_uint_eq(r.valid, 0);
	free(text);
}
END_TEST

START_TEST(text_cut_anywhere_gives_whole_cpus_or_none)
{
	size_t first = (size_t)(strstr(two_cpus, "404000c5") - two_cpus);
	struct guest_vcpu_regs r[2];

	for (size_t len = 0; len < sizeof(two_cpus); len++) {
		char *text = strndup(two_cpus, len);

		parse(text, r, 2);
		ck_assert(len > first || !r[0].valid);
		ck_assert(len < first + 8 || r[0].valid);
		free(text);
	}
}
END_TEST

START_TEST(a_register_that_is_missing_makes_the_cpu_incomplete)
{
	static const char *const names[] = { "X00=", "X17=", "X30=", "SP=", "PC=", "PSTATE=" };
	char *text = strdup(two_cpus);
	struct guest_vcpu_regs r[2];

	*strstr(text, names[_i]) = 'Q';
	ck_assert_uint_eq(parse(text, r, 2), 1);
	ck_assert_uint_eq(r[0].valid, 0);
	ck_assert_uint_eq(r[1].valid, GUEST_REGS_GENERAL);
	free(text);
}
END_TEST

START_TEST(rubbish_gives_no_registers)
{
	static const char *const texts[] = {
		"",
		"CPU#",
		"CPU#0",
		"CPU#99999999999999999999\n PC=1",
		"CPU#0\n PC=11112222333344445\n",
		"CPU#0\n=\n = =\nX=1 X0=1 X000=1 X31=1 XFF=2 X-1=3\n",
		"CPU#0\nR00=00000000 R01=00000000 PSR=400001d3\n",
		"RAX=0000000000000000 RBX=0000000000000000\n",
		" PC=1 PSTATE=5\n",
		"Error: no CPU available\r\n",
	};
	struct guest_vcpu_regs r;

	ck_assert_uint_eq(parse(texts[_i], &r, 1), 0);
	ck_assert_uint_eq(r.valid, 0);
}
END_TEST

START_TEST(a_cpu_beyond_the_known_ones_is_skipped)
{
	struct guest_vcpu_regs r[2];

	memset(r, 0x55, sizeof(r));
	ck_assert_uint_eq(parse(two_cpus, r, 1), 1);
	ck_assert_uint_eq(r[1].pc, 0x5555555555555555);
}
END_TEST

/* --- memory map --- */

static const char map[] =
	"FlatView #0\r\n"
	" AS \"I/O\", root: io\r\n"
	"  0000000000000000-000000000000ffff (prio 0, ram): not the machine's\r\n"
	"\r\n"
	"FlatView #1\r\n"
	" AS \"memory\", root: system\r\n"
	" AS \"cpu-memory-0\", root: system\r\n"
	" Root memory region: system\r\n"
	"  0000000000000000-0000000003ffffff (prio 0, romd): virt.flash0\r\n"
	"  0000000009000000-0000000009000fff (prio 0, i/o): pl011\r\n"
	"  000000000a000000-000000000a0001ff (prio 0, i/o): (prio 0, ram): named to fool\r\n"
	"  0000000040000000-000000005fffffff (prio 0, ram): mem\r\n"
	"  0000000060000000-000000006fffffff (prio 0, ram): mem @0000000030000000 KVM\r\n"
	"  0000000080000000-000000008fffffff (prio -1, ram): dimm 1 KVM\r\n"
	"  0000004010000000-000000401fffffff (prio 0, i/o): pcie-mmcfg-mmio\r\n"
	"\r\n"
	"FlatView #2\r\n"
	"  00000000c0000000-00000000cfffffff (prio 0, ram): another view\r\n";

static enum gs_code parse_map(const char *text, struct guest_range *ranges,
			      struct guest_qemu_block *blocks, uint32_t max, uint32_t *count)
{
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	struct gs_error err;

	memcpy(copy, text, len);
	enum gs_code rc = guest_qemu_parse_ram(copy, len, ranges, blocks, max, count, &err);
	free(copy);
	return rc;
}

START_TEST(ram_of_the_machine_is_taken)
{
	struct guest_range r[4];
	struct guest_qemu_block b[4];
	uint32_t n;

	ck_assert_int_eq(parse_map(map, r, b, 4, &n), GS_OK);
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(r[0].start.a, 0x40000000);
	ck_assert_uint_eq(r[0].size, 0x20000000);
	ck_assert_str_eq(b[0].name, "mem");
	ck_assert_uint_eq(b[0].offset, 0);
	ck_assert_str_eq(b[1].name, "mem");
	ck_assert_uint_eq(b[1].offset, 0x30000000);
	ck_assert_str_eq(b[2].name, "dimm 1");
	ck_assert_int_eq(parse_map(map, r, b, 2, &n), GS_ETOOBIG);
}
END_TEST

START_TEST(a_map_that_contradicts_itself_is_refused)
{
#define HEAD " AS \"memory\", root: system\n"
	static const char *const maps[] = {
		"",
		"  0000000040000000-000000005fffffff (prio 0, ram): mem\n",
		HEAD,
		HEAD "  0000000040000000-000000005fffffff (prio 0, rom): mem\n",
		HEAD "  0000000040000000-0000000030000000 (prio 0, ram): mem\n",
		HEAD "  0000000000000000-ffffffffffffffff (prio 0, ram): mem\n",
		HEAD "  00000000040000000-11112222333344445 (prio 0, ram): mem\n",
		HEAD "  40000000-5fffffff (prio 0, ram): a\n  50000000-6fffffff (prio 0, ram): b\n",
		HEAD "  40000000-4fffffff (prio 0, ram): a\n  30000000-3fffffff (prio 0, ram): b\n",
	};
	struct guest_range r[4];
	struct guest_qemu_block b[4];
	uint32_t n;

	ck_assert_int_eq(parse_map(maps[_i], r, b, 4, &n), GS_EMALFORMED);
}
END_TEST

START_TEST(map_cut_anywhere_is_read_or_refused)
{
	struct guest_range r[4];
	struct guest_qemu_block b[4];
	uint32_t n;

	for (size_t len = 0; len < sizeof(map); len++) {
		char *text = strndup(map, len);

		if (!parse_map(text, r, b, 4, &n))
			ck_assert_uint_le(n, 3);
		free(text);
	}
}
END_TEST

START_TEST(host_address_is_taken)
{
	static const char good[] =
		"Host virtual address for 0x40000000 (a (b) is 0x1) is 0x7fee87fff000\r\n";
	static const char *const bad[] = {
		"",
		"No memory is mapped at address 0x10",
		"Memory at address 0x10 is not RAM",
		"Host virtual address for 0x40000000 (mem) is 0x0",
		"Host virtual address for 0x40000000 (mem) is 0x",
		"Host virtual address for 0x40000000 (mem) is 0x11112222333344445",
	};
	uint64_t hva;

	ck_assert(guest_qemu_parse_hva(good, strlen(good), &hva));
	ck_assert_uint_eq(hva, 0x7fee87fff000);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert(!guest_qemu_parse_hva(bad[i], strlen(bad[i]), &hva));
}
END_TEST

START_TEST(words_are_taken_without_a_gap)
{
	static const char good[] = "0000000040000000: 0x0706050403020100 0x0f0e0d0c0b0a0908\r\n"
				   "0000000040000010: 0xffffffffffffffff\r\n";
	static const char *const bad[] = {
		"",
		"0000000040000000: Cannot access memory\r\n",
		"0000000040000000: 0x1 0x2\n0000000040000018: 0x3\n",
		"0000000040000008: 0x1 0x2\n0000000040000018: 0x3\n",
		"0000000040000000: 0x1 0x2\n",
		"0000000040000000: 0x1 0x2 0x3 0x4\n",
		"0000000040000000: 0x1 2 3\n",
	};
	uint8_t buf[24];

	ck_assert(guest_qemu_parse_words(good, strlen(good), GPA(0x40000000), buf, 24));
	for (uint8_t i = 0; i < 24; i++)
		ck_assert_uint_eq(buf[i], i < 16 ? i : 0xff);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert(
			!guest_qemu_parse_words(bad[i], strlen(bad[i]), GPA(0x40000000), buf, 24));
}
END_TEST

Suite *suite_text(void)
{
	Suite *s = suite_create("qemu text");
	TCase *tc = tcase_create("registers");

	tcase_add_test(tc, registers_of_each_cpu_are_taken);
	tcase_add_loop_test(tc, stack_pointer_goes_to_the_bank_in_use, 0, 4);
	tcase_add_test(tc, thirty_two_bit_state_is_not_taken);
	tcase_add_test(tc, text_cut_anywhere_gives_whole_cpus_or_none);
	tcase_add_loop_test(tc, a_register_that_is_missing_makes_the_cpu_incomplete, 0, 6);
	tcase_add_loop_test(tc, rubbish_gives_no_registers, 0, 10);
	tcase_add_test(tc, a_cpu_beyond_the_known_ones_is_skipped);
	suite_add_tcase(s, tc);
	tc = tcase_create("memory");
	tcase_add_test(tc, ram_of_the_machine_is_taken);
	tcase_add_loop_test(tc, a_map_that_contradicts_itself_is_refused, 0, 9);
	tcase_add_test(tc, map_cut_anywhere_is_read_or_refused);
	tcase_add_test(tc, host_address_is_taken);
	tcase_add_test(tc, words_are_taken_without_a_gap);
	suite_add_tcase(s, tc);
	return s;
}
