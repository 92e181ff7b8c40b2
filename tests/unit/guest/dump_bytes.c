/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as bytes: an ELF core is put together header by header, and opened from a file. */
#include "tests/unit/guest/dump_bytes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"

void bytes_put(struct bytes *b, size_t offset, const void *data, size_t size)
{
	if (offset + size > b->room) {
		b->room = gs_max(offset + size, 2 * b->room);
		b->at = realloc(b->at, b->room);
		ck_assert(b->at);
	}
	if (offset + size > b->size) {
		memset(b->at + b->size, 0, offset + size - b->size);
		b->size = offset + size;
	}
	if (size)
		memcpy(b->at + offset, data, size);
}

void bytes_put32(struct bytes *b, size_t offset, uint32_t value)
{
	bytes_put(b, offset, &value, sizeof(value));
}

void bytes_put64(struct bytes *b, size_t offset, uint64_t value)
{
	bytes_put(b, offset, &value, sizeof(value));
}

void bytes_free(struct bytes *b)
{
	free(b->at);
	*b = (struct bytes){ 0 };
}

int bytes_file(const struct bytes *b)
{
	int fd = memfd_create("dump", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, b->at, b->size, 0), (ssize_t)b->size);
	return fd;
}

enum gs_code open_fd(int fd, const struct guest_dump_options *options, struct guest_source *s,
		     struct gs_error *err)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return guest_source_open_dump(path, options, s, err);
}

enum gs_code open_bytes(const struct bytes *b, struct guest_source *s, struct gs_error *err)
{
	GS_CLOSE int fd = bytes_file(b);

	return open_fd(fd, NULL, s, err);
}

struct guest_source open_good(const struct bytes *b)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc = open_bytes(b, &s, &err);

	ck_assert_msg(rc == GS_OK, "%s: %s", gs_code_name(rc), err.text);
	ck_assert(s.guest && s.access && s.close);
	return s;
}

void open_bad(const struct bytes *b, enum gs_code code, const char *text)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc = open_bytes(b, &s, &err);

	ck_assert_msg(rc == code, "%s: %s", gs_code_name(rc), err.text);
	ck_assert_msg(strstr(err.text, text), "'%s' is not in '%s'", text, err.text);
	ck_assert(!s.guest && !s.close);
}

void elf_header(struct bytes *b, uint16_t phnum)
{
	Elf64_Ehdr h = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
		.e_type = ET_CORE,
		.e_machine = EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = 64,
		.e_ehsize = 64,
		.e_phentsize = 56,
		.e_phnum = phnum,
	};

	bytes_put(b, 0, &h, sizeof(h));
}

void elf_phdr(struct bytes *b, unsigned int index, Elf64_Phdr ph)
{
	bytes_put(b, 64 + (size_t)index * 56, &ph, sizeof(ph));
}

void elf_load(struct bytes *b, unsigned int index, uint64_t offset, uint64_t paddr, uint64_t filesz,
	      uint64_t memsz, uint8_t fill)
{
	// p_vaddr is wrong on purpose: it must not be looked at.
	elf_phdr(b, index,
		 (Elf64_Phdr){ .p_type = PT_LOAD,
			       .p_offset = offset,
			       .p_vaddr = paddr + 0x200000,
			       .p_paddr = paddr,
			       .p_filesz = filesz,
			       .p_memsz = memsz });
	if (!filesz)
		return;
	bytes_put(b, offset + filesz - 1, "", 1);
	for (uint64_t i = 0; i < filesz; i++)
		b->at[offset + i] = (uint8_t)(fill + i / 4096);
}

size_t elf_note(struct bytes *b, size_t offset, const char *name, uint32_t type, const void *desc,
		size_t size)
{
	size_t name_size = strlen(name) + 1;
	size_t end = offset + 12 + gs_align_up(name_size, 4) + gs_align_up(size, 4);

	bytes_put32(b, offset, (uint32_t)name_size);
	bytes_put32(b, offset + 4, (uint32_t)size);
	bytes_put32(b, offset + 8, type);
	bytes_put(b, offset + 12, name, name_size);
	bytes_put(b, offset + 12 + gs_align_up(name_size, 4), desc, size);
	bytes_put(b, end, NULL, 0);
	return end;
}

size_t elf_prstatus(struct bytes *b, size_t offset, uint64_t first, uint64_t pstate)
{
	uint8_t desc[392] = { 0 };

	for (uint64_t i = 0; i < 34; i++) {
		uint64_t value = i == 33 ? pstate : first + i;

		memcpy(desc + 112 + i * 8, &value, 8);
	}
	return elf_note(b, offset, "CORE", 1, desc, sizeof(desc));
}

void elf_two_ranges(struct bytes *b)
{
	elf_header(b, 3);
	size_t end = elf_prstatus(b, 0x200, 0x1000, 0x3c5);
	end = elf_prstatus(b, end, 0x2000, 0);
	end = elf_note(b, end, "VMCOREINFO", 0, "OSRELEASE=6.1\n", 14);
	elf_phdr(b, 0,
		 (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = end - 0x200 });
	// The higher one first: the order in the file means nothing.
	elf_load(b, 1, 0x4000, TWO_RANGES_B, 0x1000, 0x1000, 0x80);
	elf_load(b, 2, 0x1000, TWO_RANGES_A, 0x3000, 0x3000, 0x10);
}

uint8_t byte_of(const struct guest_source *s, uint64_t gpa)
{
	uint8_t value = 0;

	ck_assert_msg(guest_read(s->guest, GPA(gpa), &value, 1) == GS_OK, "%#lx", (long)gpa);
	return value;
}

bool is_readable(const struct guest_source *s, uint64_t gpa, size_t len)
{
	GS_FREE uint8_t *buf = malloc(len);
	enum gs_code rc = guest_read(s->guest, GPA(gpa), buf, len);

	ck_assert(rc == GS_OK || rc == GS_EFAULT);
	return rc == GS_OK;
}

static const char *use_range(struct guest *g, const struct guest_range *r)
{
	static uint8_t buf[65536];
	gpa_t at = r->start, end = GPA(r->start.a + r->size), from, to;

	if (end.a <= at.a)
		return "an empty range, or one that wraps";
	// No more than this: a damaged header can make much of a little.
	for (int i = 0; i < 4096 && at.a < end.a; i++) {
		if (!g->ops->next_data(g->priv, at, end, &from, &to))
			break;
		if (from.a < at.a || to.a <= from.a || to.a > end.a)
			return "next_data outside of what was asked";
		GS_IGNORE(guest_read(g, from, buf, gs_min(sizeof(buf), to.a - from.a)));
		at = GPA(gs_min(to.a, from.a + sizeof(buf)));
	}
	GS_IGNORE(guest_read(g, r->start, buf, 1));
	GS_IGNORE(guest_read(g, GPA(r->start.a + r->size - 1), buf, 1));
	return NULL;
}

static const char *use_regs(struct guest *g)
{
	struct guest_vcpu_regs regs;

	for (uint32_t i = 0; i < g->vcpu_count; i++) {
		if (guest_vcpu_regs(g, i, &regs))
			return "no registers";
		if (regs.valid & ~GUEST_REGS_ALL || regs.state > GUEST_VCPU_OFF)
			return "registers of an unknown kind";
		if (g->vcpu_cluster[i] >= g->cluster_count)
			return "a cluster that is not there";
	}
	return guest_vcpu_regs(g, g->vcpu_count, &regs) == GS_ENOENT ? NULL : "one vCPU too many";
}

const char *use_fault(const struct guest_source *s)
{
	struct guest *g = s->guest;

	if (guest_stop(g, NULL))
		return "cannot be stopped";
	const char *fault = use_regs(g);
	for (uint32_t i = 0; i < g->range_count && !fault; i++) {
		const struct guest_range *r = &g->ranges[i];

		if (i && (r->start.a <= r[-1].start.a || r->start.a - r[-1].start.a < r[-1].size))
			fault = "ranges that overlap or are not sorted";
		else
			fault = use_range(g, r);
	}
	if (guest_resume(g, NULL) != GS_OK || guest_resume(g, NULL) != GS_EBUSY)
		return "resume does not answer to stop";
	return fault;
}

void use_all(const struct guest_source *s)
{
	const char *fault = use_fault(s);

	ck_assert_msg(!fault, "%s", fault);
}
