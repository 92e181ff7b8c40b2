/* SPDX-License-Identifier: Apache-2.0 */
/* Build ids of programs and libraries, out of their first pages as a process has them. */
#include <elf.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/user.h"

/*
 * Program headers, notes in all, and bytes of a segment of notes that are looked at. Linkers make some ten, two,
 * and a hundred; what a process makes up costs the guest no more time than these.
 */
#define HEADERS_MAX    64
#define NOTES_MAX      16
#define NOTE_BYTES_MAX UINT64_C(4096)

/* A file's beginning in an address space. */
struct beginning {
	struct lnx_user_space *u;
	uint64_t start, end;
	uint32_t notes; /* looked at */
};

/* @return whether all of it is in the mapping, and in memory */
static bool read_at(struct beginning *b, uint64_t offset, void *buf, size_t len)
{
	return gs_in_range(offset, len, 0, b->end - b->start) &&
	       lnx_user_read(b->u, b->start + offset, buf, len) == A64_OK;
}

/* Only 64-bit programs for this CPU are read: the stacks of others are not, either. */
static bool is_program(const Elf64_Ehdr *e)
{
	return !memcmp(e->e_ident, ELFMAG, SELFMAG) && e->e_ident[EI_CLASS] == ELFCLASS64 &&
	       e->e_ident[EI_DATA] == ELFDATA2LSB &&
	       (e->e_type == ET_EXEC || e->e_type == ET_DYN) &&
	       e->e_phentsize == sizeof(Elf64_Phdr) && e->e_phnum <= HEADERS_MAX;
}

/* @return whether there is one among the notes of a segment */
static bool find_in_notes(struct beginning *b, const Elf64_Phdr *ph, struct lnx_build_id *id_out)
{
	const uint64_t align = ph->p_align == 8 ? 8 : 4;
	const uint64_t size = gs_min(ph->p_filesz, NOTE_BYTES_MAX);
	struct lnx_build_id id = { 0 };
	Elf64_Nhdr note;
	char name[4];

	for (uint64_t at = 0; at + sizeof(note) + sizeof(name) <= size;) {
		uint64_t data, next;

		if (b->notes++ >= NOTES_MAX || !gs_add(ph->p_offset, at, &data) ||
		    !read_at(b, data, &note, sizeof(note)) ||
		    !read_at(b, data + sizeof(note), name, sizeof(name)))
			return false;
		/* the sizes have 32 bits: no sum of them overflows */
		data = at + gs_align_up(sizeof(note) + (uint64_t)note.n_namesz, align);
		next = gs_align_up(data + note.n_descsz, align);
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(name) &&
		    !memcmp(name, ELF_NOTE_GNU, sizeof(name))) {
			if (!note.n_descsz || note.n_descsz > sizeof(id.byte) ||
			    data + note.n_descsz > size ||
			    !read_at(b, ph->p_offset + data, id.byte, note.n_descsz))
				return false;
			id.size = note.n_descsz;
			*id_out = id;
			return true;
		}
		at = next;
	}
	return false;
}

static void find_in_file(struct beginning *b, struct lnx_build_id *id_out)
{
	Elf64_Ehdr e;
	Elf64_Phdr ph;

	if (!read_at(b, 0, &e, sizeof(e)) || !is_program(&e))
		return;
	for (uint32_t i = 0; i < e.e_phnum; i++) {
		uint64_t at;

		if (!gs_add(e.e_phoff, i * sizeof(ph), &at) || !read_at(b, at, &ph, sizeof(ph)))
			return;
		if (ph.p_type == PT_NOTE && find_in_notes(b, &ph, id_out))
			return;
	}
}

/* --- those that are known --- */

/* Inodes are 8-aligned, most of them in steps of their size, some 600 bytes. */
static struct lnx_known_id *place_of(struct lnx_known_ids *known, gva_t inode)
{
	return &known->at[(inode.a >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

_Static_assert(LNX_KNOWN_IDS == 1 << 8, "the upper 8 bits of the product");

void lnx_mapping_identify(struct lnx_user_space *u, struct lnx_known_ids *known,
			  struct lnx_mapping *m)
{
	struct lnx_known_id *k = place_of(known, m->inode_at);
	struct lnx_build_id id = { 0 };
	struct beginning b = { .u = u };

	m->build_id = id;
	if (u->rc || (!m->inode_at.a && strcmp(m->file, LNX_VDSO_NAME) != 0))
		return;
	if (m->inode_at.a && k->inode.a == m->inode_at.a) {
		m->build_id = k->id;
		return;
	}
	if (lnx_mapping_find_begin(u->v, u->mm, m, &b.start, &b.end))
		return;
	find_in_file(&b, &id);
	if (!id.size)
		return; /* another process may have the page that this one lacks */
	m->build_id = id;
	if (m->inode_at.a)
		*k = (struct lnx_known_id){ .inode = m->inode_at, .id = id };
}
