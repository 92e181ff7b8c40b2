/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to a QEMU guest's memory, and which one is taken. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/qemu_source.h"
#include "tests/unit/qemu/fake_qemu.h"
#include "tests/unit/qemu/suites.h"

#define PAGE	  4096u
#define RAM_PAGES 256u
#define RAM_SIZE  (RAM_PAGES * PAGE)

static void fill(char *ram, uint8_t seed)
{
	for (uint32_t i = 0; i < RAM_SIZE; i++)
		ram[i] = (char)(i * 7 + i / PAGE + seed);
}

static char *private_ram(void)
{
	char *ram =
		mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(ram, MAP_FAILED);
	return ram;
}

/* A memory file, mapped shared from its second page on. @param fd_out may be NULL */
static char *shared_ram(bool sealed, int *fd_out)
{
	int fd = memfd_create("ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, RAM_SIZE + PAGE), 0);
	if (sealed)
		ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	char *ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE);
	ck_assert_ptr_ne(ram, MAP_FAILED);
	if (fd_out)
		*fd_out = fd;
	return ram;
}

static void open_fake(struct fake_qemu *f, struct guest_source *s)
{
	struct guest_link *link;
	struct gs_error err = { 0 };

	f->ram_size = RAM_SIZE;
	int fd = fake_start(f);
	ck_assert_msg(!guest_qmp_link_start(fd, gs_clock_ns() + 5 * GS_NS_PER_SEC, &link, &err),
		      "%s", err.text);
	ck_assert_msg(!guest_qemu_source_create(link, 5 * GS_NS_PER_SEC, s, &err), "%s", err.text);
}

static void close_fake(struct fake_qemu *f, struct guest_source *s)
{
	guest_source_close(s);
	fake_end(f);
}

/* Reads of many sizes and places equal @p ram. */
static void check_reads(const struct guest *g, const char *ram)
{
	static const uint32_t sizes[] = { 1, 8, 13, 4095, 4096, 4097, 65536, RAM_SIZE };
	char *buf = malloc(RAM_SIZE);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (uint32_t at = 0; at <= RAM_SIZE - sizes[i]; at += 35003) {
			ck_assert_int_eq(guest_read(g, GPA(FAKE_RAM_START + at), buf, sizes[i]),
					 GS_OK);
			ck_assert_int_eq(memcmp(buf, ram + at, sizes[i]), 0);
		}
		uint32_t last = RAM_SIZE - sizes[i];
		ck_assert_int_eq(guest_read(g, GPA(FAKE_RAM_START + last), buf, sizes[i]), GS_OK);
		ck_assert_int_eq(memcmp(buf, ram + last, sizes[i]), 0);
	}
	ck_assert_int_eq(guest_read(g, GPA(FAKE_RAM_START + RAM_SIZE), buf, 1), GS_EFAULT);
	ck_assert_int_eq(guest_read(g, GPA(FAKE_RAM_START - 1), buf, 1), GS_EFAULT);
	free(buf);
}

START_TEST(each_way_reads_what_is_there)
{
	static const struct {
		const char *access;
		bool shared, sealed, hidden, no_pmemsave;
	} cases[] = {
		{ .access = "shared memory backend, mapped", .shared = true, .sealed = true },
		{ .access = "shared memory backend, mapped", .shared = true },
		{ .access = "process_vm_readv" },
		{ .access = "pmemsave", .hidden = true },
		{ .access = "(xp)", .hidden = true, .no_pmemsave = true },
	};
	char *ram = cases[_i].shared ? shared_ram(cases[_i].sealed, NULL) : private_ram();
	struct fake_qemu f = {
		.ram = cases[_i].hidden ? NULL : ram,
		.shown = ram,
		.no_pmemsave = cases[_i].no_pmemsave,
	};
	struct guest_source s;

	fill(ram, 1);
	open_fake(&f, &s);
	ck_assert_msg(strstr(s.access, cases[_i].access), "%s", s.access);
	ck_assert_int_eq(s.guest->ranges[0].host != NULL, cases[_i].sealed);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	check_reads(s.guest, ram);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	close_fake(&f, &s);
}
END_TEST

/* Read until @p value is seen, at most 10 s: while the guest runs it may come late. */
static bool comes_to(const struct guest *g, char value)
{
	const struct timespec moment = { .tv_nsec = 10 * (long)GS_NS_PER_MS };
	uint64_t give_up = gs_clock_ns() + 10 * GS_NS_PER_SEC;
	char byte;

	do {
		ck_assert_int_eq(guest_read(g, GPA(FAKE_RAM_START), &byte, 1), GS_OK);
	} while (byte != value && gs_clock_ns() < give_up && !nanosleep(&moment, NULL));
	return byte == value;
}

START_TEST(memory_is_read_anew_in_each_stop_and_soon_while_it_runs)
{
	char *ram = private_ram();
	struct fake_qemu f = { .ram = _i ? NULL : ram, .shown = ram };
	struct guest_source s;

	fill(ram, 1);
	open_fake(&f, &s);
	for (int i = 0; i < 3; i++) {
		char byte;

		fill(ram, (uint8_t)i);
		ck_assert(comes_to(s.guest, ram[0]));
		ram[0] = 77;
		ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
		ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START), &byte, 1), GS_OK);
		ck_assert_int_eq(byte, 77);
		ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	}
	close_fake(&f, &s);
}
END_TEST

START_TEST(words_that_lie_near_cost_one_question)
{
	char *ram = private_ram();
	struct fake_qemu f = { .shown = ram };
	struct guest_source s;
	uint64_t word;

	fill(ram, 1);
	open_fake(&f, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	const uint32_t before = f.saves;
	for (uint32_t at = 0; at < 256u << 10; at += 520) {
		ck_assert_int_eq(guest_read_u64(s.guest, GPA(FAKE_RAM_START + at), &word), GS_OK);
		ck_assert_int_eq(memcmp(&word, ram + at, sizeof(word)), 0);
	}
	ck_assert_uint_eq(f.saves - before, 1);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	close_fake(&f, &s);
}
END_TEST

START_TEST(the_file_of_the_slow_way_is_where_TMPDIR_says)
{
	char folder[] = "/tmp/guestshot-test-XXXXXX", *ram = private_ram();
	struct fake_qemu f = { .shown = ram };
	struct guest_source s;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(setenv("TMPDIR", folder, 1), 0);
	fill(ram, 1);
	open_fake(&f, &s);
	ck_assert_msg(strstr(s.access, "pmemsave"), "%s", s.access);
	ck_assert_int_ne(rmdir(folder), 0); /* it is in use */
	close_fake(&f, &s);
	ck_assert_int_eq(rmdir(folder), 0); /* and nothing is left in it */
	/* one that is not there: the way after it */
	f = (struct fake_qemu){ .shown = ram };
	open_fake(&f, &s);
	ck_assert_msg(strstr(s.access, "(xp)"), "%s", s.access);
	close_fake(&f, &s);
}
END_TEST

START_TEST(a_process_that_has_other_memory_is_not_believed)
{
	char *ram = private_ram(), *other = _i ? shared_ram(true, NULL) : private_ram();
	struct fake_qemu f = { .ram = other, .shown = ram };
	struct guest_source s;

	fill(ram, 1);
	fill(other, 2);
	open_fake(&f, &s);
	ck_assert_msg(strstr(s.access, "pmemsave"), "%s", s.access);
	ck_assert_msg(strstr(s.note, "other memory"), "%s", s.note);
	check_reads(s.guest, ram);
	close_fake(&f, &s);
}
END_TEST

START_TEST(an_address_that_is_not_mapped_is_not_believed)
{
	char *ram = private_ram();
	char *gone = private_ram();
	struct fake_qemu f = { .ram = gone, .shown = ram };
	struct guest_source s;

	fill(ram, 1);
	munmap(gone + (_i ? RAM_SIZE / 2 : 0), RAM_SIZE / 2);
	open_fake(&f, &s);
	ck_assert_msg(strstr(s.access, "pmemsave"), "%s", s.access);
	close_fake(&f, &s);
}
END_TEST

START_TEST(no_way_to_memory_is_an_error)
{
	struct fake_qemu f = { .no_pmemsave = true, .no_xp = true, .ram_size = RAM_SIZE };
	struct guest_source s;
	struct guest_link *link;
	struct gs_error err = { 0 };
	int fd = fake_start(&f);

	ck_assert_int_eq(guest_qmp_link_start(fd, gs_clock_ns() + 5 * GS_NS_PER_SEC, &link, NULL),
			 GS_OK);
	ck_assert_int_eq(guest_qemu_source_create(link, GS_NS_PER_SEC, &s, &err), GS_EDENIED);
	ck_assert_msg(strstr(err.text, "cannot be read"), "%s", err.text);
	fake_end(&f);
}
END_TEST

START_TEST(a_file_that_is_cut_costs_its_pages_only)
{
	int file;
	char *ram = shared_ram(false, &file), byte;
	struct fake_qemu f = { .ram = ram };
	struct guest_source s;

	fill(ram, 1);
	open_fake(&f, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(ftruncate(file, PAGE + RAM_SIZE / 2), 0);
	ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START + RAM_SIZE / 2 - 1), &byte, 1),
			 GS_OK);
	ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START + RAM_SIZE / 2), &byte, 1),
			 GS_EFAULT);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	close_fake(&f, &s);
}
END_TEST

/* Stretches of data in pages, as a string of digits. */
static void list_data(const struct guest *g, char *text, size_t size)
{
	gpa_t at = GPA(FAKE_RAM_START), end = GPA(FAKE_RAM_START + RAM_SIZE), from, to;
	size_t n = 0;

	text[0] = '\0';
	while (at.a < end.a && g->ops->next_data(g->priv, at, end, &from, &to)) {
		n += (size_t)snprintf(text + n, size - n, "%u-%u ",
				      (unsigned int)(from.a - FAKE_RAM_START) / PAGE,
				      (unsigned int)(to.a - FAKE_RAM_START) / PAGE);
		at = to;
	}
}

START_TEST(pages_never_written_are_holes_and_stay_so)
{
	char *ram = _i ? shared_ram(true, NULL) : private_ram();
	struct fake_qemu f = { .ram = ram };
	struct guest_source s;
	char text[256], byte;

	madvise(ram, RAM_SIZE, MADV_NOHUGEPAGE);
	ram[3 * PAGE] = 1;
	ram[4 * PAGE] = 1;
	ram[200 * PAGE] = 1;
	ram[255 * PAGE] = 1;
	open_fake(&f, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	list_data(s.guest, text, sizeof(text));
	ck_assert_str_eq(text, "3-5 200-201 255-256 ");
	gpa_t from, to;
	ck_assert(!s.guest->ops->next_data(s.guest->priv, GPA(FAKE_RAM_START + 5 * PAGE),
					   GPA(FAKE_RAM_START + 200 * PAGE), &from, &to));
	ck_assert(s.guest->ops->next_data(s.guest->priv, GPA(FAKE_RAM_START + 3 * PAGE + 5),
					  GPA(FAKE_RAM_START + 4 * PAGE + 9), &from, &to));
	ck_assert_uint_eq(from.a, FAKE_RAM_START + 3 * PAGE + 5);
	ck_assert_uint_eq(to.a, FAKE_RAM_START + 4 * PAGE + 9);
	if (_i == 0) { /* a read through QEMU's process does not fill the hole */
		ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START + 100 * PAGE), &byte, 1),
				 GS_OK);
		ck_assert_int_eq(byte, 0);
		list_data(s.guest, text, sizeof(text));
		ck_assert_str_eq(text, "3-5 200-201 255-256 ");
	}
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	close_fake(&f, &s);
}
END_TEST

Suite *suite_memory(void)
{
	Suite *s = suite_create("qemu memory");
	TCase *tc = tcase_create("ways");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, each_way_reads_what_is_there, 0, 5);
	tcase_add_loop_test(tc, memory_is_read_anew_in_each_stop_and_soon_while_it_runs, 0, 2);
	tcase_add_test(tc, words_that_lie_near_cost_one_question);
	tcase_add_test(tc, the_file_of_the_slow_way_is_where_TMPDIR_says);
	tcase_add_loop_test(tc, a_process_that_has_other_memory_is_not_believed, 0, 2);
	tcase_add_loop_test(tc, an_address_that_is_not_mapped_is_not_believed, 0, 2);
	tcase_add_test(tc, no_way_to_memory_is_an_error);
	tcase_add_test(tc, a_file_that_is_cut_costs_its_pages_only);
	tcase_add_loop_test(tc, pages_never_written_are_holes_and_stay_so, 0, 2);
	suite_add_tcase(s, tc);
	return s;
}
