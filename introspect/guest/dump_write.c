/* SPDX-License-Identifier: Apache-2.0 */
/* Writing any guest as an ELF core, for crash, drgn and guest_source_open_dump(). */
#include "introspect/guest/dump_write.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/dump_priv.h"

#define WRITE_CHUNK (UINT64_C(1) << 20)
#define WRITE_PAGE  UINT64_C(4096) /* grain of holes, and of what one unreadable place costs */

struct writer {
	struct guest *g;
	int fd;
	const struct guest_dump_write_options *options;
	struct guest_dump_written written;
	uint64_t done; /* bytes of RAM */
	uint64_t total;
	uint8_t *buf; /* WRITE_CHUNK */
	struct gs_error *err;
};

static enum gs_code write_at(struct writer *w, const void *data, size_t len, uint64_t at)
{
	const char *from = data;

	while (len) {
		ssize_t n = pwrite(w->fd, from, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int e = errno;
			return gs_fail_errno(w->err, gs_code_of_errno(e), e, "writing the dump");
		}
		from += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return GS_OK;
}

/* --- notes --- */

static size_t note_size(const char *name, size_t desc)
{
	return sizeof(Elf64_Nhdr) + gs_align_up(strlen(name) + 1, 4) + gs_align_up(desc, 4);
}

static size_t notes_size(const struct writer *w)
{
	size_t one = note_size("CORE", DUMP_PRSTATUS_SIZE) +
		     note_size(DUMP_NOTE_NAME, sizeof(struct guest_dump_vcpu_note));
	size_t info = w->options->vmcoreinfo ? w->options->vmcoreinfo_size : 0;

	return w->g->vcpu_count * one + (info ? note_size("VMCOREINFO", info) : 0);
}

/* @return behind the note; @p at is zeroed memory with room for it */
static uint8_t *note_put(uint8_t *at, const char *name, uint32_t type, const void *desc,
			 size_t size)
{
	Elf64_Nhdr head = { (uint32_t)strlen(name) + 1, (uint32_t)size, type };

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), name, head.n_namesz);
	memcpy(at + sizeof(head) + gs_align_up(head.n_namesz, 4), desc, size);
	return at + note_size(name, size);
}

static uint8_t *vcpu_put(uint8_t *at, uint32_t vcpu, struct guest_vcpu_regs *r)
{
	uint8_t prstatus[DUMP_PRSTATUS_SIZE] = { 0 };
	struct guest_dump_vcpu_note v = { .vcpu = vcpu, .valid = r->valid, .state = r->state };

	if (r->valid & GUEST_REGS_GENERAL) {
		uint64_t reg[DUMP_PRSTATUS_NREG];
		uint32_t pid = vcpu + 1; // as QEMU does; crash takes 0 for the idle task

		memcpy(reg, r->x, sizeof(r->x));
		reg[31] = guest_dump_sp_is_el0(r->pstate) ? r->sp_el0 : r->sp_el1;
		reg[32] = r->pc;
		reg[33] = r->pstate;
		memcpy(prstatus + DUMP_PRSTATUS_PID, &pid, sizeof(pid));
		memcpy(prstatus + DUMP_PRSTATUS_REGS, reg, sizeof(reg));
	}
	for (unsigned int i = 0; i < DUMP_NOTE_WORDS; i++)
		v.word[i] = *guest_dump_note_word(r, i);
	at = note_put(at, "CORE", NT_PRSTATUS, prstatus, sizeof(prstatus));
	return note_put(at, DUMP_NOTE_NAME, DUMP_NOTE_VCPU, &v, sizeof(v));
}

static enum gs_code notes_write(struct writer *w, uint64_t offset, size_t size)
{
	GS_FREE uint8_t *notes = calloc(1, size + 1);
	uint8_t *at = notes;

	if (!notes)
		return gs_fail(w->err, GS_ENOSPC, "out of memory");
	for (uint32_t i = 0; i < w->g->vcpu_count; i++) {
		struct guest_vcpu_regs r = { 0 };

		// One vCPU without registers costs its registers, not the dump.
		if (guest_vcpu_regs(w->g, i, &r))
			r = (struct guest_vcpu_regs){ 0 };
		at = vcpu_put(at, i, &r);
	}
	if (w->options->vmcoreinfo && w->options->vmcoreinfo_size)
		(void)note_put(at, "VMCOREINFO", 0, w->options->vmcoreinfo,
			       w->options->vmcoreinfo_size);
	return write_at(w, notes, size, offset);
}

/* --- headers --- */

static enum gs_code headers_write(struct writer *w, uint64_t *data_out)
{
	const struct guest *g = w->g;
	const struct guest_dump_write_options *o = w->options;
	const struct guest_range *image = guest_range_find(g, o->image);
	const uint64_t image_size =
		image ? gs_min(o->image_size, image->size - (o->image.a - image->start.a)) : 0;
	const uint32_t phnum = g->range_count + (image_size ? 2 : 1);
	size_t heads = sizeof(Elf64_Ehdr) + phnum * sizeof(Elf64_Phdr);
	size_t notes = notes_size(w);
	uint64_t data = gs_align_up(heads + notes, WRITE_PAGE);
	GS_FREE uint8_t *buf = calloc(1, heads);

	if (!buf)
		return gs_fail(w->err, GS_ENOSPC, "out of memory");
	Elf64_Ehdr eh = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT, ELFOSABI_NONE },
		.e_type = ET_CORE,
		.e_machine = EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(eh),
		.e_ehsize = sizeof(eh),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = (uint16_t)phnum,
	};
	Elf64_Phdr ph = { .p_type = PT_NOTE,
			  .p_offset = heads,
			  .p_filesz = notes,
			  .p_memsz = notes,
			  .p_align = 4 };

	memcpy(buf, &eh, sizeof(eh));
	memcpy(buf + sizeof(eh), &ph, sizeof(ph));
	*data_out = data;
	for (uint32_t i = 0; i < g->range_count; i++) {
		if (image_size && image == &g->ranges[i]) {
			Elf64_Phdr again = {
				.p_type = PT_LOAD,
				.p_flags = PF_R | PF_W | PF_X,
				.p_offset = data + (o->image.a - image->start.a),
				.p_vaddr = o->image.a + o->image_offset,
				.p_paddr = o->image.a,
				.p_filesz = image_size,
				.p_memsz = image_size,
			};
			memcpy(buf + sizeof(eh) + (phnum - 1) * sizeof(ph), &again, sizeof(again));
		}
		ph = (Elf64_Phdr){ .p_type = PT_LOAD,
				   .p_flags = PF_R | PF_W | PF_X,
				   .p_offset = data,
				   .p_vaddr = o->linear_offset
						      ? g->ranges[i].start.a + o->linear_offset
						      : 0,
				   .p_paddr = g->ranges[i].start.a,
				   .p_filesz = g->ranges[i].size,
				   .p_memsz = g->ranges[i].size };
		memcpy(buf + sizeof(eh) + (i + 1) * sizeof(ph), &ph, sizeof(ph));
		data = gs_align_up(data + g->ranges[i].size, WRITE_PAGE);
	}
	w->written.file_size = data;
	enum gs_code rc = write_at(w, buf, heads, 0);
	return rc ? rc : notes_write(w, heads, notes);
}

/* --- memory --- */

static bool is_zero(const uint8_t *p, size_t len)
{
	// Each byte equals its predecessor, and the first is zero: at memcmp's speed.
	return !p[0] && !memcmp(p, p + 1, len - 1);
}

/* Write the pages of the buffer that are not zero, neighbours together. */
static enum gs_code chunk_write(struct writer *w, size_t len, uint64_t offset)
{
	size_t at = 0;

	while (at < len) {
		size_t end = at;

		while (end < len) {
			size_t n = (size_t)gs_min(WRITE_PAGE, len - end);

			if (is_zero(w->buf + end, n))
				break;
			end += n;
		}
		if (end > at) {
			enum gs_code rc = write_at(w, w->buf + at, end - at, offset + at);
			if (rc)
				return rc;
			w->written.data += end - at;
		}
		at = (size_t)gs_min(len, end + WRITE_PAGE);
	}
	return GS_OK;
}

/* Fill the buffer; what cannot be read is zero and counted, page by page. */
static void chunk_read(struct writer *w, gpa_t from, size_t len)
{
	if (!guest_read(w->g, from, w->buf, len))
		return;
	for (size_t at = 0; at < len; at += WRITE_PAGE) {
		size_t n = (size_t)gs_min(WRITE_PAGE, len - at);

		if (!guest_read(w->g, GPA(from.a + at), w->buf + at, n))
			continue;
		memset(w->buf + at, 0, n);
		w->written.unreadable += n;
	}
}

/* The next stretch at or after *from that holds data, on page boundaries. @return false: none */
static bool next_data(const struct guest *g, const struct guest_range *r, uint64_t from,
		      uint64_t *start_out, uint64_t *end_out)
{
	uint64_t size = r->size;
	gpa_t start = GPA(r->start.a + from), end = GPA(r->start.a + size);

	if (from >= size)
		return false;
	if (g->ops->next_data && !g->ops->next_data(g->priv, start, end, &start, &end))
		return false;
	// A source that contradicts itself: all of it is data.
	if (start.a < r->start.a + from || end.a <= start.a || end.a > r->start.a + size) {
		*start_out = from;
		*end_out = size;
		return true;
	}
	*start_out = (start.a - r->start.a) & ~(WRITE_PAGE - 1);
	*end_out = gs_min(gs_align_up(end.a - r->start.a, WRITE_PAGE), size);
	return true;
}

static enum gs_code range_write(struct writer *w, const struct guest_range *r, uint64_t offset)
{
	uint64_t at = 0, end = 0;

	while (next_data(w->g, r, end, &at, &end)) {
		for (; at < end; at += WRITE_CHUNK) {
			size_t len = (size_t)gs_min(WRITE_CHUNK, end - at);

			if (w->options->progress &&
			    !w->options->progress(w->done + at, w->total, w->options->arg))
				return gs_fail(w->err, GS_ETIMEDOUT,
					       "stopped at %" PRIu64 " of %" PRIu64 " MiB",
					       (w->done + at) >> 20, w->total >> 20);
			chunk_read(w, GPA(r->start.a + at), len);
			enum gs_code rc = chunk_write(w, len, offset + at);
			if (rc)
				return rc;
		}
	}
	w->done += r->size;
	return GS_OK;
}

static enum gs_code check(const struct writer *w, struct stat *st)
{
	if (fstat(w->fd, st) || !S_ISREG(st->st_mode))
		return gs_fail(w->err, GS_EINVAL,
			       "a dump has holes: write it to a regular file, not to a pipe");
	if (w->g->range_count > GUEST_RANGES_MAX || w->g->vcpu_count > GUEST_VCPUS_MAX ||
	    w->options->vmcoreinfo_size > UINT32_MAX)
		return gs_fail(w->err, GS_ETOOBIG, "guest of %" PRIu32 " ranges, %" PRIu32 " vCPUs",
			       w->g->range_count, w->g->vcpu_count);
	return GS_OK;
}

static enum gs_code write_all(struct writer *w)
{
	uint64_t offset;
	enum gs_code rc = headers_write(w, &offset);

	for (uint32_t i = 0; i < w->g->range_count && !rc; i++) {
		rc = range_write(w, &w->g->ranges[i], offset);
		offset = gs_align_up(offset + w->g->ranges[i].size, WRITE_PAGE);
	}
	// The last page may be a hole.
	if (!rc && ftruncate(w->fd, (off_t)w->written.file_size)) {
		int e = errno;
		return gs_fail_errno(w->err, gs_code_of_errno(e), e, "giving the dump its size");
	}
	if (!rc && w->options->progress) // its answer comes too late to stop anything
		(void)w->options->progress(w->total, w->total, w->options->arg);
	return rc;
}

enum gs_code guest_dump_write(struct guest *g, int fd,
			      const struct guest_dump_write_options *options,
			      struct guest_dump_written *written_out, struct gs_error *err)
{
	static const struct guest_dump_write_options none = { 0 };
	GS_FREE uint8_t *buf = malloc(WRITE_CHUNK);
	struct writer w = { .g = g,
			    .fd = fd,
			    .options = options ? options : &none,
			    .total = guest_ram_size(g),
			    .buf = buf,
			    .err = err };
	struct stat st;

	if (!buf)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = check(&w, &st);
	if (!rc)
		rc = write_all(&w);
	if (!rc && written_out)
		*written_out = w.written;
	return rc;
}
