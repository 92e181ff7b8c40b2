/* SPDX-License-Identifier: Apache-2.0 */
/* Build ids of programs: where they are, and first pages that are none. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/user.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/user_memory.h"

#define BASE UINT64_C(0xaaaab0000000)

static const uint8_t id[LNX_BUILD_ID] = { 0xe1, 2,  3,	4,  5,	6,  7,	8,  9,	10,
					  11,	12, 13, 14, 15, 16, 17, 18, 19, 0xf4 };

static struct lnx_view view;
static struct lnx_user_space space;
static struct lnx_known_ids known;
static struct lnx_mapping mapping;
static struct lg_thread *worker;
static struct lg_mm *mm;
static uint64_t file;

/* A file of three mappings behind each other: from its beginning, from page 2 and from page 5 on. */
static const uint64_t offsets[] = { 0, 2, 5 };
static struct um_mapping three[3];

static uint64_t file_named(const char *name, uint64_t inode)
{
	return um_file(&made.g, um_dentry(&made.g, um_dentry(&made.g, 0, "/"), name), inode);
}

static void begin(struct lg_thread *t)
{
	memset(&space, 0, sizeof(space));
	lnx_user_space_init(&space, &view, GVA(t->task->mm), made.g.m.regs, 2);
	ck_assert_int_eq(space.rc, GS_OK);
}

static void make_form(const struct lg_form *form)
{
	make(form);
	worker = &made.g.threads[2];
	mm = lg_add_mm(&made.g, worker, 0x10001);
	file = file_named("tool", 77);
	for (uint32_t i = 0; i < 3; i++)
		three[i] = (struct um_mapping){ BASE + 4096 * offsets[i],
						BASE + 4096 * (i < 2 ? offsets[i + 1] : 8),
						offsets[i], file };
	um_map(&made.g, mm, three, 3);
	um_program(&made.g, mm, BASE, id, sizeof(id));
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
	memset(&known, 0, sizeof(known));
	begin(worker);
}

static void setup(void)
{
	make_form(&(struct lg_form){ .seqs = true });
}

/* @return bytes of the build id */
static uint32_t look(uint64_t address)
{
	ck_assert_int_eq(lnx_mapping_find(&view, space.mm, address, &mapping), GS_OK);
	memset(&mapping.build_id, 0xa5, sizeof(mapping.build_id));
	lnx_mapping_identify(&space, &known, &mapping);
	return mapping.build_id.size;
}

/* ... with nothing known of any file */
static uint32_t look_anew(uint64_t address)
{
	memset(&known, 0, sizeof(known));
	begin(worker);
	return look(address);
}

static void expect(uint64_t address)
{
	ck_assert_uint_eq(look_anew(address), sizeof(id));
	ck_assert_mem_eq(mapping.build_id.byte, id, sizeof(id));
}

static Elf64_Ehdr *header(void)
{
	return (Elf64_Ehdr *)(void *)um_word(&made.g, mm, BASE);
}

static Elf64_Phdr *segments(void)
{
	return (Elf64_Phdr *)(void *)um_word(&made.g, mm, BASE + sizeof(Elf64_Ehdr));
}

/* The note of the build id: behind one with 4 bytes of name and 16 of data. */
static uint32_t *note(void)
{
	return (uint32_t *)(void *)um_word(&made.g, mm, BASE + UM_NOTES_AT + 32);
}

/* --- where it is ------------------------------------------------------------------------------ */

START_TEST(each_mapping_of_a_file_has_its_build_id)
{
	for (uint32_t i = 0; i < 3; i++)
		expect(three[i].start + 8);
}
END_TEST

START_TEST(mappings_are_found_in_the_tree_of_before)
{
	done();
	make_form(&(struct lg_form){ .old = true });
	three[2].start = three[2].end - 4096;
	um_map(&made.g, mm, three, 3);
	expect(three[2].start);
	expect(three[0].start);
}
END_TEST

START_TEST(gaps_and_other_files_in_between_are_passed)
{
	const uint64_t other = file_named("other", 78);
	struct um_mapping m[] = {
		{ BASE - 0x9000, BASE - 0x8000, 0, other },
		three[0],
		{ BASE + 0x20000, BASE + 0x21000, 3, file },
		{ BASE + 0x21000, BASE + 0x22000, 0, 0 },
		{ BASE + 0x40000, BASE + 0x41000, 0, other },
		{ BASE + 0x80000, BASE + 0x81000, 6, file },
	};

	um_map(&made.g, mm, m, ARRAY_SIZE(m));
	expect(m[5].start);
	expect(m[2].start);
	// nothing of the file's beginning is mapped, or not near
	m[1].file = other;
	um_map(&made.g, mm, m, ARRAY_SIZE(m));
	ck_assert_uint_eq(look_anew(m[5].start), 0);
	ck_assert_uint_eq(look_anew(m[2].start), 0);
	m[1].file = file;
	m[1].pgoff = 1;
	um_map(&made.g, mm, m, ARRAY_SIZE(m));
	ck_assert_uint_eq(look_anew(m[2].start), 0);
}
END_TEST

START_TEST(far_from_the_beginning_no_more_is_looked_for)
{
	static struct um_mapping m[UM_MAPPINGS_MAX];

	for (uint32_t i = 0; i < UM_MAPPINGS_MAX; i++)
		m[i] = (struct um_mapping){ BASE + 0x1000 * i, BASE + 0x1000 * (i + 1), i, file };
	um_map(&made.g, mm, m, UM_MAPPINGS_MAX);
	expect(m[7].start);
	ck_assert_uint_eq(look_anew(m[8].start), 0);
	ck_assert_uint_eq(look_anew(m[UM_MAPPINGS_MAX - 1].start), 0);
}
END_TEST

START_TEST(notes_may_lie_in_a_later_page_of_the_mapping)
{
	uint8_t notes[64];

	for (uint32_t i = 0; i < sizeof(notes); i++)
		notes[i] = ((uint8_t *)note())[i];
	um_write(&made.g, mm, BASE + 0x1ffc, notes, 4);
	segments()[1].p_offset = 0x1fd0;
	segments()[1].p_filesz = 0x30;
	um_write(&made.g, mm, BASE + 0x1fd0, notes, 36);
	// the last byte of the mapping is the last one of the note
	segments()[1].p_filesz = 36;
	expect(BASE);
	// across pages
	um_write(&made.g, mm, BASE + 0xff0, notes, 36);
	segments()[1].p_offset = 0xff0;
	expect(BASE);
	// not all of it is in the mapping
	um_write(&made.g, mm, BASE + 0x1fe8, notes, 36);
	segments()[1].p_offset = 0x1fe8;
	ck_assert_uint_eq(look_anew(BASE), 0);
}
END_TEST

START_TEST(ids_have_other_lengths_too)
{
	for (uint32_t n = 1; n <= LNX_BUILD_ID; n++) {
		um_program(&made.g, mm, BASE, id, n);
		ck_assert_uint_eq(look_anew(BASE), n);
		ck_assert_mem_eq(mapping.build_id.byte, id, n);
		for (uint32_t i = n; i < LNX_BUILD_ID; i++)
			ck_assert_uint_eq(mapping.build_id.byte[i], 0);
	}
	// notes that are aligned to 8 bytes: the first one is as long in both
	um_program(&made.g, mm, BASE, id, sizeof(id));
	segments()[1].p_align = 8;
	expect(BASE);
}
END_TEST

START_TEST(vdso_has_one_too)
{
	struct um_mapping m = { BASE, BASE + 0x2000, 0, 0 };

	um_map(&made.g, mm, &m, 1);
	ck_assert_uint_eq(look_anew(BASE), 0);
	ck_assert_str_eq(mapping.file, "");
	mm->vdso = BASE;
	expect(BASE + 0x1004);
	ck_assert_str_eq(mapping.file, "[vdso]");
	ck_assert_uint_eq(mapping.inode, 0);
	ck_assert_uint_eq(mapping.inode_at.a, 0);
	// each process is looked at: it is no file
	header()->e_type = ET_CORE;
	ck_assert_uint_eq(look(BASE), 0);
}
END_TEST

/* --- what is known already -------------------------------------------------------------------- */

START_TEST(file_that_is_known_is_not_read_again)
{
	struct lg_mm *other = lg_add_mm(&made.g, &made.g.threads[3], 0x10002);

	expect(BASE);
	// another process, which lacks the page
	um_map(&made.g, other, three, 3);
	begin(&made.g.threads[3]);
	ck_assert_uint_eq(look(BASE + 0x2000), sizeof(id));
	ck_assert_mem_eq(mapping.build_id.byte, id, sizeof(id));
	// what one has not, another may have
	memset(&known, 0, sizeof(known));
	ck_assert_uint_eq(look(BASE), 0);
	begin(worker);
	ck_assert_uint_eq(look(BASE), sizeof(id));
}
END_TEST

START_TEST(files_do_not_get_each_others)
{
	enum { MANY = 600 };
	static uint64_t files[MANY];
	uint8_t own[8] = { 0 };

	for (uint32_t i = 0; i < MANY; i++)
		files[i] = i % 50 ? files[i - i % 50] + 8 * (i % 50) : file_named("x", i);
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < MANY; i++) {
			ck_assert_int_eq(lnx_mapping_find(&view, space.mm, BASE, &mapping), GS_OK);
			memcpy(own, &i, sizeof(i));
			um_program(&made.g, mm, BASE, own, sizeof(own));
			// as if it were of another inode; so it is not found before this mapping, but in it
			mapping.inode_at = GVA(files[i]);
			lnx_mapping_identify(&space, &known, &mapping);
			ck_assert_uint_eq(mapping.build_id.size, sizeof(own));
			ck_assert_mem_eq(mapping.build_id.byte, own, sizeof(own));
		}
}
END_TEST

/* --- what is none ----------------------------------------------------------------------------- */

START_TEST(pages_that_are_not_in_memory_leave_it_unknown)
{
	expect(BASE);
	segments()[1].p_offset = 0x1000; // not there
	ck_assert_uint_eq(look_anew(BASE), 0);
	segments()[1].p_offset = UM_NOTES_AT;
	expect(BASE);
	um_unmap(&made.g, mm, BASE);
	ck_assert_uint_eq(look_anew(BASE + 0x2000), 0);
	ck_assert_str_eq(mapping.file, "/tool");
	*lg_entry(&made.g, lg_directory(&made.g, mm), BASE) = 0;
	um_program(&made.g, mm, BASE, id, sizeof(id));
	expect(BASE);
	space.rc = GS_EFAULT;
	memset(&known, 0, sizeof(known));
	ck_assert_uint_eq(look(BASE), 0);
}
END_TEST

static void spoil_header(uint32_t i)
{
	Elf64_Ehdr *e = header();

	switch (i) {
	case 0: e->e_ident[0] = 0; break;
	case 1: e->e_ident[EI_CLASS] = ELFCLASS32; break;
	case 2: e->e_ident[EI_DATA] = ELFDATA2MSB; break;
	case 3: e->e_type = ET_REL; break;
	case 4: e->e_phentsize = 32; break;
	case 5: e->e_phnum = 65; break;
	case 6: e->e_phnum = 1; break;
	case 7: e->e_phoff = UINT64_MAX; break;
	case 8: e->e_phoff = UINT64_MAX - 55; break; // the second one would be the file's beginning
	case 9: e->e_phoff = 0x1ff0; break;	     // half of it is in the mapping
	default: ck_abort();
	}
}

START_TEST(first_pages_that_are_of_no_program)
{
	expect(BASE);
	spoil_header((uint32_t)_i);
	ck_assert_uint_eq(look_anew(BASE), 0);
}
END_TEST

static void spoil_note(uint32_t i)
{
	Elf64_Phdr *ph = &segments()[1];

	switch (i) {
	case 0: ph->p_type = PT_LOAD; break;
	case 1: ph->p_offset = UINT64_MAX - 8; break;
	case 2:
		ph->p_offset = UINT64_MAX - 31;
		break;			       // the second note would be the file's beginning
	case 3: ph->p_filesz = 32 + 35; break; // the id lacks its last byte
	case 4: ph->p_filesz = 0; break;
	case 5: note()[0] = 5; break;
	case 6: note()[1] = 0; break;
	case 7: note()[1] = LNX_BUILD_ID + 1; break;
	case 8: note()[1] = UINT32_MAX; break;
	case 9: note()[2] = NT_GNU_PROPERTY_TYPE_0; break;
	case 10: note()[3] = 0; break;
	case 11: note()[-8] = UINT32_MAX; break; // the name of the first one
	case 12: note()[-7] = UINT32_MAX; break; // its data
	case 13: note()[-7] = UINT32_MAX - 3; break;
	default: ck_abort();
	}
}

START_TEST(notes_that_are_no_build_ids)
{
	expect(BASE);
	spoil_note((uint32_t)_i);
	ck_assert_uint_eq(look_anew(BASE), 0);
}
END_TEST

// As many notes and segments as there can be: no more is read than is set.
START_TEST(very_many_notes_come_to_an_end)
{
	static const uint32_t empty[4] = { 4, 0, 1, 0x00554e47 };
	Elf64_Phdr ph = { .p_type = PT_NOTE, .p_offset = 0x1000, .p_filesz = UINT64_MAX };

	for (uint32_t at = 0; at < 0x1000; at += sizeof(empty))
		um_write(&made.g, mm, BASE + 0x1000 + at, empty, sizeof(empty));
	header()->e_phnum = 60;
	for (uint32_t i = 0; i < 60; i++)
		um_write(&made.g, mm, BASE + sizeof(Elf64_Ehdr) + i * sizeof(ph), &ph, sizeof(ph));
	const uint64_t before = view.reads;
	ck_assert_uint_eq(look_anew(BASE), 0);
	ck_assert_uint_lt(view.reads - before, 200);
	// behind as few as are looked at it is found
	for (uint32_t n = 16; n >= 14; n--) {
		um_program(&made.g, mm, BASE, id, sizeof(id));
		um_write(&made.g, mm, BASE + 0x1000 + 16 * n, note(), 36);
		segments()[1].p_offset = 0x1000;
		segments()[1].p_filesz = 0x1000;
		ck_assert_uint_eq(look_anew(BASE), n < 16 ? sizeof(id) : 0);
	}
}
END_TEST

START_TEST(kernel_that_does_not_tell_of_the_vdso_has_it_without_a_name)
{
	const struct typeinfo_form types = { .omit = "mm_struct.context" };
	struct um_mapping m = { BASE, BASE + 0x2000, 0, 0 };

	done();
	make_form(&(struct lg_form){ .seqs = true, .types = &types });
	um_map(&made.g, mm, &m, 1);
	mm->vdso = BASE;
	ck_assert_uint_eq(look_anew(BASE), 0);
	ck_assert_str_eq(mapping.file, "");
}
END_TEST

Suite *suite_build_id(void)
{
	Suite *s = suite_create("build_id");
	TCase *tc = tcase_create("build_id");

	tcase_add_checked_fixture(tc, setup, done);
	tcase_add_test(tc, each_mapping_of_a_file_has_its_build_id);
	tcase_add_test(tc, mappings_are_found_in_the_tree_of_before);
	tcase_add_test(tc, gaps_and_other_files_in_between_are_passed);
	tcase_add_test(tc, far_from_the_beginning_no_more_is_looked_for);
	tcase_add_test(tc, notes_may_lie_in_a_later_page_of_the_mapping);
	tcase_add_test(tc, ids_have_other_lengths_too);
	tcase_add_test(tc, vdso_has_one_too);
	tcase_add_test(tc, file_that_is_known_is_not_read_again);
	tcase_add_test(tc, files_do_not_get_each_others);
	tcase_add_test(tc, pages_that_are_not_in_memory_leave_it_unknown);
	tcase_add_loop_test(tc, first_pages_that_are_of_no_program, 0, 10);
	tcase_add_loop_test(tc, notes_that_are_no_build_ids, 0, 14);
	tcase_add_test(tc, very_many_notes_come_to_an_end);
	tcase_add_test(tc, kernel_that_does_not_tell_of_the_vdso_has_it_without_a_name);
	suite_add_tcase(s, tc);
	return s;
}
