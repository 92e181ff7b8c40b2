/* SPDX-License-Identifier: Apache-2.0 */
/* ELF cores as they are meant to be, and those of something else. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/unit/guest/dump_bytes.h"
#include "tests/unit/guest/suites.h"

START_TEST(core_gives_memory_by_physical_address)
{
	struct bytes b = { 0 };
	static uint8_t buf[0x3000];

	elf_two_ranges(&b);
	struct guest_source s = open_good(&b);
	ck_assert_str_eq(s.note, "");
	ck_assert_str_eq(s.access, "mapped ELF core");
	ck_assert_uint_eq(s.guest->range_count, 2);
	ck_assert_uint_eq(s.guest->ranges[0].start.a, TWO_RANGES_A);
	ck_assert_uint_eq(s.guest->ranges[0].size, 0x3000);
	ck_assert_uint_eq(s.guest->ranges[1].start.a, TWO_RANGES_B);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A), 0x10);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x2fff), 0x12);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_B), 0x80);
	ck_assert_int_eq(guest_read(s.guest, GPA(TWO_RANGES_A), buf, 0x3000), GS_OK);
	ck_assert_uint_eq(buf[0x1000], 0x11);
	// At and around each end, and in no range at all.
	ck_assert(!is_readable(&s, TWO_RANGES_A - 1, 1) && !is_readable(&s, TWO_RANGES_A - 1, 2));
	ck_assert(!is_readable(&s, TWO_RANGES_A + 0x3000, 1));
	ck_assert(!is_readable(&s, TWO_RANGES_A + 0x2fff, 2));
	ck_assert(!is_readable(&s, TWO_RANGES_A + 0x200000, 1)); // p_vaddr
	ck_assert(!is_readable(&s, 0, 1) && !is_readable(&s, UINT64_MAX, 1));
	use_all(&s);
	guest_source_close(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(core_gives_registers_of_each_cpu_in_order)
{
	struct bytes b = { 0 };
	struct guest_vcpu_regs r;
	size_t size = 0;

	elf_two_ranges(&b);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->vcpu_count, 2);
	ck_assert_int_eq(guest_vcpu_regs(s.guest, 0, &r), GS_OK);
	ck_assert_uint_eq(r.valid, GUEST_REGS_GENERAL);
	ck_assert_int_eq(r.state, GUEST_VCPU_UNKNOWN);
	ck_assert_uint_eq(r.x[0], 0x1000);
	ck_assert_uint_eq(r.x[30], 0x101e);
	ck_assert_uint_eq(r.sp_el1, 0x101f); // EL1h
	ck_assert_uint_eq(r.sp_el0, 0);
	ck_assert_uint_eq(r.pc, 0x1020);
	ck_assert_uint_eq(r.pstate, 0x3c5);
	ck_assert_int_eq(guest_vcpu_regs(s.guest, 1, &r), GS_OK);
	ck_assert_uint_eq(r.sp_el0, 0x201f); // EL0t
	ck_assert_uint_eq(r.sp_el1, 0);

	const char *info = guest_dump_vmcoreinfo(&s, &size);
	ck_assert(info && size == 14);
	ck_assert_str_eq(info, "OSRELEASE=6.1\n");
	guest_source_close(&s);
	ck_assert(!guest_dump_vmcoreinfo(&s, &size));
	bytes_free(&b);
}
END_TEST

START_TEST(stack_pointer_is_that_of_the_mode)
{
	static const struct {
		uint64_t pstate;
		bool el0;
	} modes[] = { { 0, true }, { 4, true },	 { 5, false },
		      { 8, true }, { 9, false }, { 0x600003c5, false } };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct bytes b = { 0 };
		struct guest_vcpu_regs r;

		elf_header(&b, 2);
		size_t end = elf_prstatus(&b, 0x200, 7, modes[i].pstate);
		elf_phdr(&b, 0,
			 (Elf64_Phdr){
				 .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = end - 0x200 });
		elf_load(&b, 1, 0x1000, TWO_RANGES_A, 16, 16, 1);
		struct guest_source s = open_good(&b);
		ck_assert_int_eq(guest_vcpu_regs(s.guest, 0, &r), GS_OK);
		ck_assert_uint_eq(modes[i].el0 ? r.sp_el0 : r.sp_el1, 38);
		ck_assert_uint_eq(modes[i].el0 ? r.sp_el1 : r.sp_el0, 0);
		guest_source_close(&s);
		bytes_free(&b);
	}
}
END_TEST

START_TEST(core_without_registers_says_so)
{
	struct bytes b = { 0 };

	elf_header(&b, 1);
	elf_load(&b, 0, 0x1000, TWO_RANGES_A, 0x1000, 0x1000, 1);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->vcpu_count, 0);
	ck_assert(strstr(s.note, "no CPU registers"));
	use_all(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

/* QEMU writes a note of its own for x86 CPUs; vmcores have ERASEINFO, empty notes and others. */
START_TEST(unknown_notes_are_skipped)
{
	struct bytes b = { 0 };
	static const uint8_t state[440] = { 1 };

	elf_header(&b, 2);
	size_t end = elf_note(&b, 0x200, "QEMU", 0, state, sizeof(state));
	end = elf_note(&b, end, "LINUX", 0x405, state, 3);
	end += 24; // two empty ones
	end = elf_prstatus(&b, end, 0x1000, 5);
	end = elf_note(&b, end, "ERASEINFO", 0, "x", 1);
	elf_phdr(&b, 0,
		 (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = end - 0x200 });
	elf_load(&b, 1, 0x2000, TWO_RANGES_A, 0x1000, 0x1000, 1);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->vcpu_count, 1);
	ck_assert_str_eq(s.note, "");
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(memory_beyond_filesz_is_missing_not_zero)
{
	struct bytes b = { 0 };

	elf_header(&b, 2);
	elf_load(&b, 0, 0x1000, TWO_RANGES_A, 0x1000, 0x200000, 1);
	elf_load(&b, 1, 0x2000, TWO_RANGES_B, 0, 0x100000, 1);
	struct guest_source s = open_good(&b);
	ck_assert(is_readable(&s, TWO_RANGES_A + 0xfff, 1));
	ck_assert(!is_readable(&s, TWO_RANGES_A + 0x1000, 1));
	ck_assert(!is_readable(&s, TWO_RANGES_B, 1));
	ck_assert_msg(strstr(s.note, "3 MiB of memory were not dumped"), "%s", s.note);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(touching_segments_are_one_range_and_reads_cross_them)
{
	struct bytes b = { 0 };
	uint8_t buf[4];

	elf_header(&b, 3);
	elf_load(&b, 0, 0x3000, TWO_RANGES_A + 0x1000, 0x1000, 0x1000, 2);
	elf_load(&b, 1, 0x1000, TWO_RANGES_A, 0x1000, 0x1000, 1);
	elf_load(&b, 2, 0x6000, TWO_RANGES_A + 0x2000, 1, 1, 3);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->range_count, 1);
	ck_assert_uint_eq(s.guest->ranges[0].size, 0x2001);
	ck_assert_int_eq(guest_read(s.guest, GPA(TWO_RANGES_A + 0xffe), buf, 4), GS_OK);
	ck_assert(!memcmp(buf, "\1\1\2\2", 4));
	ck_assert_int_eq(guest_read(s.guest, GPA(TWO_RANGES_A + 0x1ffe), buf, 3), GS_OK);
	ck_assert(!memcmp(buf, "\2\2\3", 3));
	ck_assert(!is_readable(&s, TWO_RANGES_A + 0x1ffe, 4));
	use_all(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

/* QEMU's dump with paging lists a page once for each virtual address. */
START_TEST(overlapping_segments_are_sorted_out)
{
	struct bytes b = { 0 };

	elf_header(&b, 5);
	elf_load(&b, 0, 0x10000, TWO_RANGES_A + 0x1000, 0x2000, 0x2000, 0x50);
	elf_load(&b, 1, 0x1000, TWO_RANGES_A, 0x2000, 0x2000, 0x10);
	elf_load(&b, 2, 0x20000, TWO_RANGES_A + 0x800, 0x10, 0x10, 0x90); // inside
	elf_load(&b, 3, 0x5000, TWO_RANGES_A, 0x1000, 0x1000, 0x70);	  // begins with it
	elf_load(&b, 4, 0x30000, TWO_RANGES_A + 0x2fff, 2, 2, 0xa0);	  // one byte more
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->range_count, 1);
	ck_assert_uint_eq(s.guest->ranges[0].size, 0x3001);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A), 0x10);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x800), 0x10);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x1fff), 0x11);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x2000), 0x51);
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x3000), 0xa0);
	ck_assert(strstr(s.note, "twice"));
	use_all(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(more_headers_than_16_bits_count)
{
	const uint32_t loads = 70000;
	struct bytes b = { 0 };
	size_t data = 64 + (size_t)loads * 56 + 64;

	elf_header(&b, PN_XNUM);
	bytes_put64(&b, 40, 64 + (uint64_t)loads * 56); // e_shoff
	bytes_put(&b, data + loads - 1, "", 1);
	for (uint32_t i = 0; i < loads; i++) {
		// One byte each, 4 KiB apart; every other pair touches its neighbour.
		elf_phdr(&b, i,
			 (Elf64_Phdr){ .p_type = PT_LOAD,
				       .p_offset = data + i,
				       .p_paddr = TWO_RANGES_A + i * UINT64_C(4096) + (i & 1),
				       .p_filesz = 1,
				       .p_memsz = 1 });
		b.at[data + i] = (uint8_t)i;
	}
	bytes_put32(&b, 64 + (size_t)loads * 56 + 44, loads); // sh_info of section 0
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->range_count, 1); // equal gaps: all bridged, and unreadable
	for (uint32_t i = 0; i < loads; i += 997) {
		uint64_t at = TWO_RANGES_A + i * UINT64_C(4096) + (i & 1);

		ck_assert_uint_eq(byte_of(&s, at), (uint8_t)i);
		ck_assert(!is_readable(&s, at + 1, 1) && !is_readable(&s, at, 2));
	}
	use_all(&s);
	guest_source_close(&s);

	b.at[64 + (size_t)loads * 56 + 44 + 3] = 0xff; // 4 billion: as many as there is room for
	s = open_good(&b);
	ck_assert(strstr(s.note, "program headers are there"));
	guest_source_close(&s);

	bytes_put64(&b, 40, UINT64_MAX - 4);
	open_bad(&b, GS_EMALFORMED, "section header");
	bytes_free(&b);
}
END_TEST

START_TEST(too_many_ranges_bridge_the_narrowest_gaps)
{
	const uint32_t loads = 4200;
	struct bytes b = { 0 };
	size_t data = 64 + (size_t)loads * 56;

	elf_header(&b, (uint16_t)loads);
	bytes_put(&b, data, "\x5a", 1);
	for (uint32_t i = 0; i < loads; i++)
		elf_phdr(&b, i,
			 (Elf64_Phdr){ .p_type = PT_LOAD,
				       .p_offset = data,
				       // gaps grow from one to the next
				       .p_paddr = 2 * (uint64_t)i + (uint64_t)i * (i + 1) / 2,
				       .p_filesz = 1,
				       .p_memsz = 1 });
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->range_count, GUEST_RANGES_MAX);
	for (uint64_t i = 0; i < loads; i++)
		ck_assert_uint_eq(byte_of(&s, 2 * i + i * (i + 1) / 2), 0x5a);
	ck_assert(!is_readable(&s, 1, 1));
	use_all(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(cores_of_something_else_are_named)
{
	static const struct {
		size_t at;
		uint8_t value;
		enum gs_code code;
		const char *text;
	} others[] = {
		{ EI_DATA, ELFDATA2MSB, GS_ENOTSUP, "big-endian" },
		{ EI_DATA, 0, GS_EMALFORMED, "byte order" },
		{ EI_CLASS, ELFCLASS32, GS_EMALFORMED, "class 1" },
		{ 18, EM_X86_64, GS_ENOTSUP, "x86-64" },
		{ 18, EM_386, GS_ENOTSUP, "x86" },
		{ 18, EM_ARM, GS_ENOTSUP, "32-bit ARM" },
		{ 18, EM_RISCV, GS_ENOTSUP, "RISC-V" },
		{ 18, 99, GS_EMALFORMED, "number 99" },
		{ 16, ET_EXEC, GS_ENOTSUP, "not a core" },
		{ 16, ET_DYN, GS_ENOTSUP, "vmlinux" },
		{ 54, 32, GS_EMALFORMED, "program headers of 32" },
		{ 56, 0, GS_EMALFORMED, "no memory" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct bytes b = { 0 };

		elf_two_ranges(&b);
		b.at[others[i].at] = others[i].value;
		open_bad(&b, others[i].code, others[i].text);
		bytes_free(&b);
	}
}
END_TEST

START_TEST(core_of_a_process_is_refused)
{
	static const uint32_t types[] = { 6, 0x46494c45, 0x53494749, 4 };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct bytes b = { 0 };

		elf_header(&b, 2);
		size_t end = elf_prstatus(&b, 0x200, 1, 0);
		end = elf_note(&b, end, "CORE", types[i], "12345678", 8);
		elf_phdr(&b, 0,
			 (Elf64_Phdr){
				 .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = end - 0x200 });
		elf_load(&b, 1, 0x1000, 0, 0x1000, 0x1000, 1);
		open_bad(&b, GS_ENOTSUP, "core of a process");
		bytes_free(&b);
	}

	struct bytes b = { 0 };
	elf_header(&b, 2);
	elf_load(&b, 0, 0x1000, 0, 0x1000, 0x1000, 1);
	elf_load(&b, 1, 0x2000, 0, 0x1000, 0x1000, 1);
	open_bad(&b, GS_ENOTSUP, "no physical addresses");
	bytes_free(&b);
}
END_TEST

Suite *suite_elf(void)
{
	Suite *s = suite_create("ELF core");
	TCase *c = tcase_create("good and foreign");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, core_gives_memory_by_physical_address);
	tcase_add_test(c, core_gives_registers_of_each_cpu_in_order);
	tcase_add_test(c, stack_pointer_is_that_of_the_mode);
	tcase_add_test(c, core_without_registers_says_so);
	tcase_add_test(c, unknown_notes_are_skipped);
	tcase_add_test(c, memory_beyond_filesz_is_missing_not_zero);
	tcase_add_test(c, touching_segments_are_one_range_and_reads_cross_them);
	tcase_add_test(c, overlapping_segments_are_sorted_out);
	tcase_add_test(c, more_headers_than_16_bits_count);
	tcase_add_test(c, too_many_ranges_bridge_the_narrowest_gaps);
	tcase_add_test(c, cores_of_something_else_are_named);
	tcase_add_test(c, core_of_a_process_is_refused);
	suite_add_tcase(s, c);
	return s;
}
