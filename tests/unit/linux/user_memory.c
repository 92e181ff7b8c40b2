/* SPDX-License-Identifier: Apache-2.0 */
/* What processes of a made-up guest have in user mode. */
#include "tests/unit/linux/user_memory.h"

#include <check.h>
#include <string.h>

#define USER_PAGE    UINT64_C(0x20000000000f43) // valid, user, not global, no execution in the kernel
#define PAGE_ADDRESS UINT64_C(0xfffffffff000)

/* With pages of 4 KiB. */
static uint8_t *byte_at(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	uint64_t *entry = lg_entry(g, lg_directory(g, mm), va);

	ck_assert_uint_eq(g->page, 4096);
	if (!*entry)
		*entry = lg_pages(g, 1) | USER_PAGE;
	return (uint8_t *)lg_at(g, *entry & PAGE_ADDRESS) + va % 4096;
}

uint64_t *um_word(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	ck_assert_uint_eq(va % 8, 0);
	return (uint64_t *)(void *)byte_at(g, mm, va);
}

void um_insn(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, uint32_t word)
{
	memcpy(byte_at(g, mm, va), &word, sizeof(word));
}

void um_write(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, const void *buf,
	      size_t len)
{
	for (size_t i = 0; i < len; i++)
		*byte_at(g, mm, va + i) = ((const uint8_t *)buf)[i];
}

/* @return where the next one goes */
static uint32_t append_note(uint8_t *at, uint32_t offset, const char *name, uint32_t type,
			    const void *data, uint32_t size)
{
	const Elf64_Nhdr note = { (uint32_t)strlen(name) + 1, size, type };

	memcpy(at + offset, &note, sizeof(note));
	offset += (uint32_t)sizeof(note);
	memcpy(at + offset, name, note.n_namesz);
	offset += (note.n_namesz + 3) & ~3u;
	memcpy(at + offset, data, size);
	return offset + ((size + 3) & ~3u);
}

void um_program(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, const void *id,
		uint32_t id_size)
{
	uint8_t notes[256] = { 0 };
	const Elf64_Ehdr e = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB },
		.e_type = ET_DYN,
		.e_phoff = sizeof(e),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 2,
	};
	Elf64_Phdr ph[2] = {
		{ .p_type = PT_LOAD, .p_filesz = 0x1000 },
		{ .p_type = PT_NOTE, .p_offset = UM_NOTES_AT, .p_align = 4 },
	};
	uint32_t n = append_note(notes, 0, "GNU", NT_GNU_ABI_TAG, "sixteen bytes...", 16);

	n = append_note(notes, n, "GNU", NT_GNU_BUILD_ID, id, id_size);
	n = append_note(notes, n, "Linux", NT_GNU_BUILD_ID, "no build id", 11);
	ph[1].p_filesz = n;
	um_write(g, mm, va, &e, sizeof(e));
	um_write(g, mm, va + sizeof(e), ph, sizeof(ph));
	um_write(g, mm, va + UM_NOTES_AT, notes, n);
}

void um_unmap(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	// a swap entry: not valid, but not 0 either
	*lg_entry(g, lg_directory(g, mm), va) = 0x1234500;
}

void um_record(struct linux_guest *g, const struct lg_mm *mm, uint64_t fp, uint64_t next,
	       uint64_t lr)
{
	*um_word(g, mm, fp) = next;
	*um_word(g, mm, fp + 8) = lr;
}

struct lg_regs *um_saved(struct linux_guest *g, struct lg_thread *t)
{
	const size_t size = g->form.meta ? LG_REGS_META_SIZE : LG_REGS_SIZE;

	ck_assert_ptr_nonnull(t->stack_bytes);
	return (struct lg_regs *)(void *)(t->stack_bytes + LG_STACK - size);
}

void um_enter(struct linux_guest *g, struct lg_thread *t, uint64_t pc, uint64_t fp, uint64_t lr)
{
	struct lg_regs *r = um_saved(g, t);

	r->pc = pc;
	r->regs[29] = fp;
	r->regs[30] = lr;
	r->pstate = 0;
}

/* --- mappings --------------------------------------------------------------------------------- */

/* Each in a page of its own: there are few. */
static uint64_t new_object(struct linux_guest *g)
{
	return lg_linear(g, lg_pages(g, 1));
}

void *um_object(struct linux_guest *g, uint64_t address)
{
	return lg_at(g, address - g->linear + g->ram_start);
}

uint64_t um_dentry(struct linux_guest *g, uint64_t parent, const char *name)
{
	const uint64_t at = new_object(g);
	struct lg_dentry *d = um_object(g, at);

	ck_assert_uint_lt(strlen(name), sizeof(d->inline_name));
	*d = (struct lg_dentry){
		.parent = parent ? parent : at,
		.hash = 0x12345678,
		.len = (uint32_t)strlen(name),
		.name = at + offsetof(struct lg_dentry, inline_name),
	};
	strcpy(d->inline_name, name);
	return at;
}

uint64_t um_file(struct linux_guest *g, uint64_t dentry, uint64_t inode)
{
	const uint64_t at = new_object(g), inode_at = new_object(g);

	((struct lg_inode *)um_object(g, inode_at))->number = inode;
	*(struct lg_file *)um_object(g, at) =
		(struct lg_file){ .dentry = dentry, .inode = inode_at };
	return at;
}

static uint64_t new_vma(struct linux_guest *g, const struct um_mapping *m)
{
	const uint64_t at = new_object(g);

	*(struct lg_vma *)um_object(g, at) = (struct lg_vma){
		.start = m->start, .end = m->end, .pgoff = m->pgoff, .file = m->file
	};
	return at;
}

#define RB offsetof(struct lg_vma, rb)

/* @return the node of the middle one, with the others below it */
static uint64_t rb_tree(struct linux_guest *g, const struct um_mapping *m, uint32_t n)
{
	if (!n)
		return 0;
	const uint64_t vma = new_vma(g, &m[n / 2]);
	const uint64_t left = rb_tree(g, m, n / 2);
	const uint64_t right = rb_tree(g, m + n / 2 + 1, n - n / 2 - 1);
	struct lg_vma *v = um_object(g, vma);

	v->rb[1] = right;
	v->rb[2] = left;
	return vma + RB;
}

#define LEAF_MAPPINGS	  7
#define LEAF_64		  1
#define ARANGE_64	  3
#define ENTRY(node, type) ((node) | (type) << 3 | 4)

/* Seven at most, with what lies between them; the last slot reaches as far as the node does. */
static uint64_t maple_leaf(struct linux_guest *g, const struct um_mapping *m, uint32_t n)
{
	const uint64_t at = new_object(g);
	struct lg_maple_range *leaf = um_object(g, at);
	uint32_t slot = 0;

	for (uint32_t i = 0; i < n; i++) {
		leaf->pivot[slot++] = m[i].start - 1; // nothing there
		leaf->slot[slot] = new_vma(g, &m[i]);
		leaf->pivot[slot++] = m[i].end - 1;
	}
	leaf->slot[15] = UINT64_C(0xdead); // meta data of the node
	return ENTRY(at, LEAF_64);
}

static uint64_t maple_tree(struct linux_guest *g, const struct um_mapping *m, uint32_t n)
{
	if (n <= LEAF_MAPPINGS)
		return maple_leaf(g, m, n) | 2;
	const uint64_t at = new_object(g);
	struct lg_maple_arange *root = um_object(g, at);

	for (uint32_t i = 0, slot = 0; i < n; i += LEAF_MAPPINGS, slot++) {
		const uint32_t here = n - i < LEAF_MAPPINGS ? n - i : LEAF_MAPPINGS;

		root->slot[slot] = maple_leaf(g, m + i, here);
		if (i + here < n)
			root->pivot[slot] = m[i + here].start - 1;
	}
	return ENTRY(at, ARANGE_64) | 2;
}

void um_map(struct linux_guest *g, struct lg_mm *mm, const struct um_mapping *m, uint32_t n)
{
	ck_assert(n && n <= UM_MAPPINGS_MAX);
	if (g->form.old)
		mm->rb_root = rb_tree(g, m, n);
	else
		mm->maple[1] = maple_tree(g, m, n);
}
