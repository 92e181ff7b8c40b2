/* SPDX-License-Identifier: Apache-2.0 */
/* Writing dumps: what is written comes back, holes and registers included. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/dump_write.h"
#include "introspect/guest/memory_guest.h"
#include "tests/unit/guest/dump_bytes.h"
#include "tests/unit/guest/suites.h"

#define MIB UINT64_C(1048576)

static struct memory_guest m;
static uint8_t *low, *high;

/* 3 MiB with a page at 1 MiB and the last byte; 64 KiB + 1 byte, all filled. Four vCPUs. */
static void make_guest(void)
{
	low = calloc(1, 3 * MIB);
	high = malloc(0x10001);
	low[MIB + 5] = 1;
	low[3 * MIB - 1] = 2;
	memset(high, 0x77, 0x10001);
	memory_guest_init(&m, 4);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x40000000), low, 3 * MIB), GS_OK);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x880000000), high, 0x10001), GS_OK);
	for (uint64_t i = 0; i < 4; i++) {
		struct guest_vcpu_regs *r = &m.regs[i];
		uint64_t *word = r->x; // all fields from here on are 64 bits

		for (size_t w = 0; w < (sizeof(*r) - offsetof(struct guest_vcpu_regs, x)) / 8; w++)
			word[w] = i << 32 | (w + 1);
		r->pstate = i & 1 ? 0x3c5 : 0;
	}
	m.regs[1].valid = GUEST_REGS_GENERAL;
	m.regs[2].valid = 0;
	m.regs[2].state = GUEST_VCPU_OFF;
}

static void drop_guest(void)
{
	free(low);
	free(high);
}

static void same_regs(const struct guest_source *s)
{
	for (uint32_t i = 0; i < 4; i++) {
		struct guest_vcpu_regs r;

		ck_assert_int_eq(guest_vcpu_regs(s->guest, i, &r), GS_OK);
		ck_assert_uint_eq(r.valid, m.regs[i].valid);
		ck_assert_int_eq(r.state, m.regs[i].state);
		if (r.valid == GUEST_REGS_ALL)
			ck_assert(!memcmp(&r, &m.regs[i], sizeof(r)));
		if (r.valid & GUEST_REGS_GENERAL)
			ck_assert(!memcmp(r.x, m.regs[i].x, sizeof(r.x)) && r.pc == m.regs[i].pc &&
				  r.pstate == m.regs[i].pstate && r.sp_el0 == m.regs[i].sp_el0 &&
				  r.sp_el1 == m.regs[i].sp_el1);
	}
}

START_TEST(written_dump_comes_back_the_same)
{
	static const char info[] = "OSRELEASE=6.1\nPAGESIZE=4096\n";
	GS_CLOSE int fd = memfd_create("written", MFD_CLOEXEC);
	struct guest_dump_written w;
	struct guest_source s;
	struct gs_error err = { 0 };
	struct stat st;
	size_t size;

	make_guest();
	enum gs_code rc =
		guest_dump_write(&m.guest, fd,
				 &(struct guest_dump_write_options){
					 .vmcoreinfo = info, .vmcoreinfo_size = sizeof(info) - 1 },
				 &w, &err);
	ck_assert_msg(rc == GS_OK, "%s", err.text);
	ck_assert_uint_eq(w.data, 4096 + 4096 + 0x10001);
	ck_assert_uint_eq(w.unreadable, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, w.file_size);
	ck_assert_int_lt(st.st_blocks, 300); // of 512 bytes: 3 MiB are mostly holes

	ck_assert_int_eq(open_fd(fd, NULL, &s, &err), GS_OK);
	ck_assert_str_eq(s.note, "");
	ck_assert_uint_eq(s.guest->range_count, 2);
	ck_assert(!memcmp(s.guest->ranges,
			  (struct guest_range[]){ { GPA(0x40000000), 3 * MIB, NULL },
						  { GPA(0x880000000), 0x10001, NULL } },
			  2 * sizeof(struct guest_range)));
	GS_FREE uint8_t *buf = malloc(3 * MIB);
	ck_assert_int_eq(guest_read(s.guest, GPA(0x40000000), buf, 3 * MIB), GS_OK);
	ck_assert(!memcmp(buf, low, 3 * MIB));
	ck_assert_int_eq(guest_read(s.guest, GPA(0x880000000), buf, 0x10001), GS_OK);
	ck_assert(!memcmp(buf, high, 0x10001));
	ck_assert_uint_eq(s.guest->vcpu_count, 4);
	same_regs(&s);
	ck_assert_str_eq(guest_dump_vmcoreinfo(&s, &size), info);

	// And once more, now with holes and a read callback as the source.
	GS_CLOSE int again = memfd_create("again", MFD_CLOEXEC);
	struct guest_dump_written w2;
	ck_assert_int_eq(
		guest_dump_write(s.guest, again,
				 &(struct guest_dump_write_options){
					 .vmcoreinfo = info, .vmcoreinfo_size = sizeof(info) - 1 },
				 &w2, &err),
		GS_OK);
	ck_assert_uint_eq(w2.file_size, w.file_size);
	uint8_t *one = mmap(NULL, w.file_size, PROT_READ, MAP_SHARED, fd, 0);
	uint8_t *two = mmap(NULL, w.file_size, PROT_READ, MAP_SHARED, again, 0);
	ck_assert(one != MAP_FAILED && two != MAP_FAILED && !memcmp(one, two, w.file_size));
	munmap(one, w.file_size);
	munmap(two, w.file_size);
	guest_source_close(&s);
	drop_guest();
}
END_TEST

/* Against literal bytes, so that reader and writer cannot be wrong together. */
START_TEST(written_bytes_are_those_of_the_format)
{
	GS_CLOSE int fd = memfd_create("written", MFD_CLOEXEC);
	static const uint8_t ident[] = { 0x7f, 'E', 'L', 'F', 2, 1, 1,	 0, 0, 0, 0, 0,
					 0,    0,   0,	 0,   4, 0, 183, 0, 1, 0, 0, 0 };
	uint8_t head[64 + 2 * 56 + 12 + 8 + 392];
	uint64_t v;
	static uint8_t page[4096] = { 9 };

	memory_guest_init(&m, 1);
	m.regs[0].x[0] = 0x1122334455667788;
	m.regs[0].sp_el1 = 0xffff800012345678;
	m.regs[0].pc = 0xffff800011111111;
	m.regs[0].pstate = 5;
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x40000000), page, sizeof(page)), GS_OK);
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, NULL, NULL, NULL), GS_OK);
	ck_assert_int_eq(pread(fd, head, sizeof(head), 0), sizeof(head));
	ck_assert(!memcmp(head, ident, sizeof(ident)));
	ck_assert(!memcmp(head + 54, "\x38\0\2\0", 4));	       // 2 headers of 56 bytes
	ck_assert(!memcmp(head + 64, "\4\0\0\0", 4));	       // PT_NOTE
	ck_assert(!memcmp(head + 120, "\1\0\0\0\7\0\0\0", 8)); // PT_LOAD
	ck_assert(!memcmp(head + 136, "\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0\0", 16)); // vaddr, paddr
	ck_assert(!memcmp(head + 152, "\0\x10\0\0\0\0\0\0\0\x10\0\0\0\0\0\0", 16));
	ck_assert(!memcmp(head + 176, "\5\0\0\0\x88\1\0\0\1\0\0\0CORE\0\0\0\0", 20));
	memcpy(&v, head + 196 + 112, 8);
	ck_assert_uint_eq(v, 0x1122334455667788);
	memcpy(&v, head + 196 + 112 + 31 * 8, 8);
	ck_assert_uint_eq(v, 0xffff800012345678);
	memcpy(&v, head + 196 + 112 + 32 * 8, 8);
	ck_assert_uint_eq(v, 0xffff800011111111);
	memcpy(&v, head + 128, 8); // p_offset
	ck_assert_int_eq(pread(fd, page, 1, (off_t)v), 1);
	ck_assert_uint_eq(page[0], 9);
}
END_TEST

/* Readers that go by virtual addresses: the linear map, and the image, which is cut to its range. */
START_TEST(virtual_addresses_of_linear_map_and_image_are_told)
{
	GS_CLOSE int fd = memfd_create("written", MFD_CLOEXEC);
	static uint8_t first[8192], second[16384];
	const struct guest_dump_write_options o = {
		.linear_offset = 0xffff000000000000 - 0x40000000,
		.image = GPA(0x50001000),
		.image_size = 0x10000, /* more than there is */
		.image_offset = 0xffffa00010000000 - 0x50000000,
	};
	Elf64_Phdr ph[4];
	struct guest_source s;

	second[4096] = 7;
	memory_guest_init(&m, 1);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x40000000), first, sizeof(first)), GS_OK);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x50000000), second, sizeof(second)), GS_OK);
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, &o, NULL, NULL), GS_OK);
	ck_assert_int_eq(pread(fd, ph, sizeof(ph), 64), sizeof(ph));
	ck_assert_uint_eq(ph[1].p_vaddr, 0xffff000000000000);
	ck_assert_uint_eq(ph[2].p_vaddr, 0xffff000010000000);
	ck_assert_uint_eq(ph[3].p_type, PT_LOAD);
	ck_assert_uint_eq(ph[3].p_vaddr, 0xffffa00010001000);
	ck_assert_uint_eq(ph[3].p_paddr, 0x50001000);
	ck_assert_uint_eq(ph[3].p_filesz, sizeof(second) - 4096);
	ck_assert_uint_eq(ph[3].p_offset, ph[2].p_offset + 4096);

	// The same bytes under two addresses are no damage.
	ck_assert_int_eq(open_fd(fd, NULL, &s, NULL), GS_OK);
	ck_assert_uint_eq(s.guest->range_count, 2);
	ck_assert_str_eq(s.note, "");
	guest_source_close(&s);
}
END_TEST

/* --- a guest with a hole that cannot be read --- */

static enum gs_code holey_read(void *priv, gpa_t at, void *buf, size_t len)
{
	(void)priv;
	if (at.a < 0x40005000 && at.a + len > 0x40004000)
		return GS_EFAULT;
	memset(buf, 0xee, len);
	return GS_OK;
}

static bool lying_next_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	(void)priv;
	*start_out = GPA(from.a - 1); // before what was asked, and beyond
	*end_out = GPA(end.a + 1);
	return true;
}

START_TEST(unreadable_pages_are_counted_and_zero)
{
	GS_CLOSE int fd = memfd_create("holey", MFD_CLOEXEC);
	struct guest_ops ops;
	struct guest_dump_written w;
	struct guest_source s;

	memory_guest_init(&m, 0);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x40000000), &m, 2 * MIB), GS_OK);
	m.ranges[0].host = NULL;
	ops = *m.guest.ops;
	ops.read = holey_read;
	ops.next_data = lying_next_data;
	m.guest.ops = &ops;
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, NULL, &w, NULL), GS_OK);
	ck_assert_uint_eq(w.unreadable, 4096);
	ck_assert_uint_eq(w.data, 2 * MIB - 4096);
	ck_assert_int_eq(open_fd(fd, NULL, &s, NULL), GS_OK);
	ck_assert_uint_eq(byte_of(&s, 0x40003fff), 0xee);
	ck_assert_uint_eq(byte_of(&s, 0x40004000), 0);
	ck_assert_uint_eq(byte_of(&s, 0x40005000), 0xee);
	guest_source_close(&s);
}
END_TEST

static bool count_progress(uint64_t done, uint64_t total, void *arg)
{
	uint64_t *left = arg;

	ck_assert_uint_le(done, total);
	return --*left != 0;
}

START_TEST(progress_is_told_and_can_stop_it)
{
	GS_CLOSE int fd = memfd_create("stopped", MFD_CLOEXEC);
	uint64_t left = UINT64_MAX;
	struct guest_dump_write_options o = { .progress = count_progress, .arg = &left };
	struct gs_error err = { 0 };

	make_guest();
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, &o, NULL, &err), GS_OK);
	ck_assert_uint_eq(UINT64_MAX - left, 3 + 1 + 1); // MiBs, the end
	left = 2;
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, &o, NULL, &err), GS_ETIMEDOUT);
	ck_assert(strstr(err.text, "stopped at 1 of 3 MiB"));
	drop_guest();
}
END_TEST

START_TEST(only_a_regular_file_is_written_and_a_full_disk_is_told)
{
	struct gs_error err = { 0 };
	int pipes[2];

	make_guest();
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	ck_assert_int_eq(guest_dump_write(&m.guest, pipes[1], NULL, NULL, &err), GS_EINVAL);
	close(pipes[0]);
	close(pipes[1]);
	GS_CLOSE int fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	ck_assert_int_eq(guest_dump_write(&m.guest, fd, NULL, NULL, &err), GS_EDENIED);
	ck_assert(strstr(err.text, "writing the dump"));
	drop_guest();
}
END_TEST

Suite *suite_write(void)
{
	Suite *s = suite_create("dump writer");
	TCase *c = tcase_create("dump writer");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, written_dump_comes_back_the_same);
	tcase_add_test(c, written_bytes_are_those_of_the_format);
	tcase_add_test(c, virtual_addresses_of_linear_map_and_image_are_told);
	tcase_add_test(c, unreadable_pages_are_counted_and_zero);
	tcase_add_test(c, progress_is_told_and_can_stop_it);
	tcase_add_test(c, only_a_regular_file_is_written_and_a_full_disk_is_told);
	suite_add_tcase(s, c);
	return s;
}
