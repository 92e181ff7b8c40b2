/* SPDX-License-Identifier: Apache-2.0 */
/* ELF cores of an ARM64 machine: QEMU's dump-guest-memory, virsh dump --memory-only, vmcores, ours. */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "introspect/guest/dump_priv.h"

/*
 * Parsed here rather than by libelf, which wants the whole file sane before it gives out the first
 * header; a dump that was cut off or damaged is to give what it holds. Nothing of the file is
 * looked at but in a copy, and no size is added before it is checked.
 */

/* Program headers read at a time. */
#define PHDR_CHUNK 512

struct elf {
	struct guest_dump *d;
	struct gs_error *err;
	uint64_t phoff;
	uint64_t phnum;
	uint64_t cut_off;    /* bytes of memory that lay behind the file's end */
	uint64_t not_dumped; /* bytes of memory that were not written (p_memsz > p_filesz) */
	uint64_t impossible; /* segments whose place in memory makes no sense */
	uint32_t loads;
	bool has_paddr; /* any p_paddr is not 0 */
};

/* --- header --- */

static const char *machine_name(uint16_t machine)
{
	switch (machine) {
	case EM_X86_64: return "x86-64";
	case EM_386: return "32-bit x86";
	case EM_ARM: return "32-bit ARM";
	case EM_RISCV: return "RISC-V";
	case EM_PPC64: return "POWER";
	case EM_S390: return "IBM Z";
	case EM_LOONGARCH: return "LoongArch";
	case EM_MIPS: return "MIPS";
	default: return NULL;
	}
}

static enum gs_code check_header(const Elf64_Ehdr *h, struct gs_error *err)
{
	if (h->e_ident[EI_DATA] == ELFDATA2MSB)
		return gs_fail(err, GS_ENOTSUP,
			       "is big-endian: only little-endian ARM64 guests are read");
	if (h->e_ident[EI_DATA] != ELFDATA2LSB)
		return gs_fail(err, GS_EMALFORMED, "ELF header: no such byte order: %u",
			       h->e_ident[EI_DATA]);
	// The machine stands at the same place in 32-bit files, and says more than "32 bits".
	if (h->e_machine != EM_AARCH64) {
		const char *name = machine_name(h->e_machine);

		return name ? gs_fail(err, GS_ENOTSUP,
				      "is of %s machine: only ARM64 guests are read", name)
			    : gs_fail(err, GS_EMALFORMED,
				      "is of an unknown machine (ELF number %u): only ARM64 guests "
				      "are read",
				      h->e_machine);
	}
	if (h->e_ident[EI_CLASS] != ELFCLASS64)
		return gs_fail(err, GS_EMALFORMED, "ELF header: class %u, not 64 bits",
			       h->e_ident[EI_CLASS]);
	if (h->e_type != ET_CORE)
		return gs_fail(err, GS_ENOTSUP,
			       "is an ELF file of type %u, not a core: a kernel (vmlinux) is no "
			       "dump of a guest",
			       h->e_type);
	if (h->e_phentsize != sizeof(Elf64_Phdr))
		return gs_fail(err, GS_EMALFORMED,
			       "ELF header: program headers of %u bytes instead of %zu",
			       h->e_phentsize, sizeof(Elf64_Phdr));
	return GS_OK;
}

/* More headers than 16 bits count: the number is in the first section header (gABI, PN_XNUM). */
static enum gs_code count_headers(struct elf *e, const Elf64_Ehdr *h)
{
	Elf64_Shdr s;

	e->phoff = h->e_phoff;
	e->phnum = h->e_phnum;
	if (h->e_phnum != PN_XNUM)
		return GS_OK;
	if (guest_dump_file_read(&e->d->file, h->e_shoff, &s, sizeof(s)))
		return gs_fail(e->err, GS_EMALFORMED,
			       "has too many program headers for 16 bits, and the section header "
			       "that counts them (at %#" PRIx64 ") is cut off",
			       (uint64_t)h->e_shoff);
	e->phnum = s.sh_info;
	return GS_OK;
}

/* What lies behind the end of the file is not there, whatever the header says (F10, X13). */
static void cut_headers(struct elf *e)
{
	uint64_t size = e->d->file.size;
	uint64_t room = e->phoff < size ? (size - e->phoff) / sizeof(Elf64_Phdr) : 0;

	if (e->phnum <= room)
		return;
	guest_dump_remark(e->d, "cut off: %" PRIu64 " of %" PRIu64 " program headers are there",
			  room, e->phnum);
	e->phnum = room;
}

/* --- program headers --- */

static void add_saturated(uint64_t *sum, uint64_t bytes)
{
	*sum = gs_min(DUMP_PHYS_END, *sum + gs_min(bytes, DUMP_PHYS_END));
}

static enum gs_code take_load(struct elf *e, const Elf64_Phdr *p)
{
	uint64_t file_size = e->d->file.size;

	e->loads++;
	e->has_paddr |= p->p_paddr != 0;
	if (!p->p_memsz && !p->p_filesz)
		return GS_OK;
	if (p->p_paddr >= DUMP_PHYS_END || p->p_filesz > p->p_memsz) {
		e->impossible++;
		if (p->p_paddr >= DUMP_PHYS_END)
			return GS_OK;
	}
	uint64_t size = gs_min(p->p_filesz, p->p_memsz);

	add_saturated(&e->not_dumped, p->p_memsz - size);
	if (size > DUMP_PHYS_END - p->p_paddr) {
		e->impossible++;
		size = DUMP_PHYS_END - p->p_paddr;
	}
	uint64_t there = p->p_offset < file_size ? gs_min(size, file_size - p->p_offset) : 0;
	add_saturated(&e->cut_off, size - there);
	if (!there)
		return GS_OK;
	return guest_dump_pieces_add(&e->d->pieces,
				     (struct guest_dump_piece){ p->p_paddr, there, p->p_offset });
}

static enum gs_code take_header(struct elf *e, const Elf64_Phdr *p)
{
	enum gs_code rc = GS_OK;

	if (p->p_type == PT_NOTE)
		return guest_dump_notes_read(e->d, &e->d->file, p->p_offset, p->p_filesz, e->err);
	if (p->p_type == PT_LOAD)
		rc = take_load(e, p);
	return rc == GS_ENOSPC ? gs_fail(e->err, rc, "out of memory") : rc;
}

static enum gs_code take_headers(struct elf *e)
{
	GS_FREE Elf64_Phdr *chunk = gs_array_alloc(PHDR_CHUNK, sizeof(*chunk));

	if (!chunk)
		return gs_fail(e->err, GS_ENOSPC, "out of memory");
	for (uint64_t i = 0; i < e->phnum; i += PHDR_CHUNK) {
		uint64_t n = gs_min(PHDR_CHUNK, e->phnum - i);

		if (guest_dump_file_read(&e->d->file, e->phoff + i * sizeof(*chunk), chunk,
					 (size_t)n * sizeof(*chunk)))
			return gs_fail(e->err, GS_ESYS, "program header %" PRIu64 ": unreadable",
				       i);
		for (uint64_t j = 0; j < n; j++) {
			enum gs_code rc = take_header(e, &chunk[j]);

			if (rc == GS_ETOOBIG) {
				guest_dump_remark(e->d,
						  "only the first %" PRIu32 " segments are used",
						  DUMP_PIECES_MAX);
				return GS_OK;
			}
			if (rc)
				return rc;
		}
	}
	return GS_OK;
}

/* --- what it is --- */

static enum gs_code check_is_guest(const struct elf *e)
{
	// O14: QEMU's and the kernel's cores have none of these notes.
	if (e->d->has_process_notes)
		return gs_fail(e->err, GS_ENOTSUP,
			       "is the core of a process, not of a guest: gdb reads it (a guest is "
			       "dumped by virsh dump --memory-only or QEMU's dump-guest-memory)");
	// Several pieces of memory, all at 0: nobody wrote down where they were.
	if (e->loads > 1 && !e->has_paddr)
		return gs_fail(e->err, GS_ENOTSUP,
			       "has no physical addresses (p_paddr is 0 in all %" PRIu32
			       " segments): is it the core of a process?",
			       e->loads);
	return GS_OK;
}

static void remark_missing(struct elf *e, uint64_t twice)
{
	if (e->cut_off)
		guest_dump_remark(e->d, "cut off: %" PRIu64 " MiB of memory are missing at its end",
				  guest_dump_mib(e->cut_off));
	if (e->not_dumped)
		guest_dump_remark(e->d, "%" PRIu64 " MiB of memory were not dumped",
				  guest_dump_mib(e->not_dumped));
	if (e->impossible)
		guest_dump_remark(e->d, "%" PRIu64 " segments have impossible addresses or sizes",
				  e->impossible);
	if (twice)
		guest_dump_remark(e->d, "%" PRIu64 " MiB of memory are in it twice",
				  guest_dump_mib(twice));
}

enum gs_code guest_dump_elf_open(struct guest_dump *d, struct gs_error *err)
{
	struct elf e = { .d = d, .err = err };
	Elf64_Ehdr h;

	if (guest_dump_file_read(&d->file, 0, &h, sizeof(h)))
		return gs_fail(err, GS_EMALFORMED,
			       "is cut off in its ELF header (%" PRIu64 " bytes)", d->file.size);
	enum gs_code rc = check_header(&h, err);
	if (!rc)
		rc = count_headers(&e, &h);
	if (rc)
		return rc;
	cut_headers(&e);
	rc = take_headers(&e);
	if (!rc)
		rc = check_is_guest(&e);
	if (rc)
		return rc;
	remark_missing(&e, guest_dump_pieces_clean(&d->pieces));
	rc = guest_dump_ranges_make(d, &d->pieces, err);
	if (rc)
		return rc;
	guest_dump_file_map(&d->file);
	d->access = d->file.map ? "mapped ELF core" : "ELF core";
	d->guest.source = "elf-core";
	d->guest.ops = &guest_dump_plain_ops;
	return GS_OK;
}
