/* SPDX-License-Identifier: Apache-2.0 */
/* ELF cores that were cut, or hold what no writer writes. */
#include <string.h>

#include "base/util.h"
#include "tests/unit/guest/dump_bytes.h"
#include "tests/unit/guest/suites.h"

/* Opens or fails with a text; in either case nothing breaks. */
static void try_bytes(const struct bytes *b)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc = open_bytes(b, &s, &err);

	if (rc) {
		ck_assert_int_eq(err.code, rc);
		ck_assert(*err.text && !s.guest);
		return;
	}
	use_all(&s);
	guest_source_close(&s);
}

START_TEST(core_cut_at_each_byte_gives_what_is_there)
{
	struct bytes b = { 0 };

	elf_two_ranges(&b);
	size_t whole = b.size;
	for (b.size = 0; b.size < whole; b.size += b.size < 0x800 ? 1 : 61)
		try_bytes(&b);

	b.size = 0x4000 + 0x800; // in the memory that comes last in the file
	struct guest_source s = open_good(&b);
	ck_assert(strstr(s.note, "cut off: 1 MiB of memory are missing"));
	ck_assert_uint_eq(byte_of(&s, TWO_RANGES_A + 0x2fff), 0x12);
	ck_assert(is_readable(&s, TWO_RANGES_B + 0x7ff, 1));
	ck_assert(!is_readable(&s, TWO_RANGES_B + 0x800, 1));
	guest_source_close(&s);

	b.size = 0x1000; // all headers, no memory
	open_bad(&b, GS_EMALFORMED, "holds no memory: cut off");
	b.size = 63;
	open_bad(&b, GS_EMALFORMED, "cut off in its ELF header");
	b.size = 0;
	open_bad(&b, GS_EMALFORMED, "empty");
	b.size = whole;
	bytes_free(&b);
}
END_TEST

START_TEST(core_cut_in_its_notes_keeps_the_registers_before)
{
	struct bytes b = { 0 };

	elf_header(&b, 2);
	elf_load(&b, 1, 0x400, TWO_RANGES_A, 0x1000, 0x1000, 1);
	size_t end = elf_prstatus(&b, 0x1400, 1, 5);
	size_t second = end;
	end = elf_prstatus(&b, end, 1, 5);
	elf_phdr(&b, 0,
		 (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0x1400, .p_filesz = end - 0x1400 });
	b.size = second + 100;
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->vcpu_count, 1);
	ck_assert(strstr(s.note, "cut off in its notes"));
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

static const uint64_t extremes[] = {
	0,
	1,
	2,
	7,
	8,
	0xfff,
	0x1000,
	0x7fffffff,
	0x80000000,
	0xffffffff,
	0x100000000,
	UINT64_C(1) << 55,
	(UINT64_C(1) << 56) - 1,
	UINT64_C(1) << 56,
	INT64_MAX,
	UINT64_C(1) << 63,
	UINT64_MAX - 0x1fff,
	UINT64_MAX - 7,
	UINT64_MAX - 1,
	UINT64_MAX,
};

START_TEST(header_fields_at_their_extremes_break_nothing)
{
	// e_phoff, e_shoff; of program header 1: p_offset, p_paddr, p_filesz, p_memsz; both of notes
	static const size_t fields[] = { 32,	      40,	    64 + 8,	  64 + 32,
					 64 + 56 + 8, 64 + 56 + 24, 64 + 56 + 32, 64 + 56 + 40 };
	static const size_t halves[] = { 16, 18, 52, 54, 56, 58 };

	for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
		for (size_t i = 0; i < ARRAY_SIZE(extremes); i++)
			for (size_t j = 0; j < ARRAY_SIZE(extremes); j++) {
				struct bytes b = { 0 };

				elf_two_ranges(&b);
				bytes_put64(&b, fields[f], extremes[i]);
				bytes_put64(&b, fields[(f + 1) % ARRAY_SIZE(fields)], extremes[j]);
				try_bytes(&b);
				bytes_free(&b);
			}
	for (size_t f = 0; f < ARRAY_SIZE(halves); f++)
		for (size_t i = 0; i < ARRAY_SIZE(extremes); i++) {
			struct bytes b = { 0 };

			elf_two_ranges(&b);
			bytes_put(&b, halves[f], &extremes[i], 2);
			try_bytes(&b);
			bytes_free(&b);
		}
}
END_TEST

START_TEST(note_sizes_at_their_extremes_break_nothing)
{
	static const uint32_t sizes[] = { 0,	      1,	  3,	      4,
					  5,	      11,	  12,	      0x7f,
					  383,	      384,	  392,	      0x7fffffff,
					  0x80000000, 0xfffffffc, 0xfffffffd, 0xffffffff };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			struct bytes b = { 0 };

			elf_two_ranges(&b);
			bytes_put32(&b, 0x200, sizes[i]);
			bytes_put32(&b, 0x204, sizes[j]);
			struct guest_source s =
				open_good(&b); // memory is there, whatever the notes
			use_all(&s);
			guest_source_close(&s);
			bytes_free(&b);
		}
}
END_TEST

START_TEST(segments_that_wrap_are_cut_or_dropped)
{
	struct bytes b = { 0 };

	elf_header(&b, 3);
	elf_load(&b, 0, 0x1000, UINT64_MAX - 0xfff, 0x2000, 0x2000, 1);
	elf_load(&b, 1, 0x3000, (UINT64_C(1) << 56) - 0x1000, 0x2000, 0x2000, 2);
	elf_load(&b, 2, 0x5000, TWO_RANGES_A, 0x1000, 0x1000, 3);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->range_count, 2);
	ck_assert_uint_eq(s.guest->ranges[1].size, 0x1000);
	ck_assert(strstr(s.note, "2 segments have impossible addresses"));
	ck_assert(!is_readable(&s, UINT64_MAX - 0xfff, 1) && !is_readable(&s, 0, 1));
	use_all(&s);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

/* Thousands of note segments over the same bytes, each claiming all of the file. */
START_TEST(notes_have_one_budget)
{
	struct bytes b = { 0 };

	elf_header(&b, 60001);
	for (unsigned int i = 0; i < 60000; i++)
		elf_phdr(&b, i,
			 (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0, .p_filesz = 1 << 22 });
	elf_load(&b, 60000, 1 << 22, TWO_RANGES_A, 0x1000, 0x1000, 1);
	struct guest_source s = open_good(&b);
	ck_assert(strstr(s.note, "only the first 16 MiB of notes"));
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

START_TEST(more_cpus_than_we_know_are_left_out)
{
	struct bytes b = { 0 };
	size_t end = 0x200;

	elf_header(&b, 2);
	for (int i = 0; i < 600; i++)
		end = elf_prstatus(&b, end, (uint64_t)i, 5);
	elf_phdr(&b, 0,
		 (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = end - 0x200 });
	elf_load(&b, 1, end, TWO_RANGES_A, 0x1000, 0x1000, 1);
	struct guest_source s = open_good(&b);
	ck_assert_uint_eq(s.guest->vcpu_count, GUEST_VCPUS_MAX);
	ck_assert(strstr(s.note, "only the first 512 CPUs"));
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

START_TEST(flipped_bits_in_headers_break_nothing)
{
	for (int i = 0; i < 1000; i++) {
		struct bytes b = { 0 };

		elf_two_ranges(&b);
		for (uint64_t n = 1 + random_next() % 4; n; n--) {
			// Headers and notes, not the memory.
			uint64_t at = random_next() % 0x600;

			b.at[at] ^= (uint8_t)(1 << (random_next() & 7));
		}
		try_bytes(&b);
		bytes_free(&b);
	}
}
END_TEST

Suite *suite_elf_damaged(void)
{
	Suite *s = suite_create("ELF core, damaged");
	TCase *c = tcase_create("damaged");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, core_cut_at_each_byte_gives_what_is_there);
	tcase_add_test(c, core_cut_in_its_notes_keeps_the_registers_before);
	tcase_add_test(c, header_fields_at_their_extremes_break_nothing);
	tcase_add_test(c, note_sizes_at_their_extremes_break_nothing);
	tcase_add_test(c, segments_that_wrap_are_cut_or_dropped);
	tcase_add_test(c, notes_have_one_budget);
	tcase_add_test(c, more_cpus_than_we_know_are_left_out);
	tcase_add_test(c, flipped_bits_in_headers_break_nothing);
	suite_add_tcase(s, c);
	return s;
}
