/* SPDX-License-Identifier: Apache-2.0 */
/* What is mapped in an address space, and of which file. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/user.h"

/* Deeper than either tree is with the most mappings that there may be, and than damage needs to be. */
#define TREE_DEPTH_MAX 64
/* Directories of a path that are looked at: it is as long as a name at most, "/a/b/c…". */
#define PATH_PARTS_MAX (LNX_FILE_NAME / 2)

/*
 * struct rb_node: the colour and the parent, then these two (include/linux/rbtree_types.h, ever since).
 */
#define RB_RIGHT 8
#define RB_LEFT	 16

/* An entry of a maple tree that leads to a node: its type is in bits 6:3 (lib/maple_tree.c). */
#define MAPLE_NODE_MASK UINT64_C(0xff)
#define MAPLE_IS_NODE	UINT64_C(2) /* in the root alone: else that is the only entry */
enum maple_type { MAPLE_DENSE, MAPLE_LEAF_64, MAPLE_RANGE_64, MAPLE_ARANGE_64 };

/* NAME_MAX (include/uapi/linux/limits.h); those of anonymous files are no longer (mm/memfd.c). */
#define NAME_LENGTH_MAX 255

#define MAPLE_SLOTS_MAX 32 /* there are 16 and 10 */

/*
 * Mappings and gaps before one of a file in which its beginning is looked for: linkers make four or five
 * mappings of a file, one after another.
 */
#define MAPPINGS_BEFORE 8

static bool has(const struct lnx_kernel *k, enum lnx_member m)
{
	return lnx_field_of(k, m)->present;
}

static bool is_table_good(const struct lnx_field *pivot, const struct lnx_field *slot)
{
	return slot->size / 8 >= 1 && slot->size / 8 <= MAPLE_SLOTS_MAX &&
	       pivot->size / 8 == slot->size / 8 - 1;
}

static bool knows_maple_tree(const struct lnx_kernel *k)
{
	return lnx_has_all(k, LNX_M_MAPLE_RANGE_PIVOT, LNX_M_MAPLE_ARANGE_SLOT) &&
	       has(k, LNX_M_MM_MAPLE_ROOT) &&
	       is_table_good(lnx_field_of(k, LNX_M_MAPLE_RANGE_PIVOT),
			     lnx_field_of(k, LNX_M_MAPLE_RANGE_SLOT)) &&
	       is_table_good(lnx_field_of(k, LNX_M_MAPLE_ARANGE_PIVOT),
			     lnx_field_of(k, LNX_M_MAPLE_ARANGE_SLOT));
}

static bool knows_rb_tree(const struct lnx_kernel *k)
{
	return has(k, LNX_M_MM_RB_ROOT) && has(k, LNX_M_VMA_RB);
}

bool lnx_knows_mappings(const struct lnx_kernel *k)
{
	return lnx_has_all(k, LNX_M_VMA_START, LNX_M_VMA_FILE) &&
	       lnx_has_all(k, LNX_M_FILE_DENTRY, LNX_M_DENTRY_NAME_LEN) &&
	       has(k, LNX_M_FILE_INODE) && has(k, LNX_M_INODE_NUMBER) &&
	       (knows_maple_tree(k) || knows_rb_tree(k));
}

static enum gs_code read_member(struct lnx_view *v, uint64_t object, enum lnx_member m,
				uint64_t *value_out)
{
	if (!lnx_is_object(v->k, object))
		return GS_EMALFORMED;
	return lnx_read_u64(v, GVA(object + lnx_field_of(v->k, m)->offset), value_out);
}

/* --- trees --- */

/* What was found at an address. */
struct found {
	uint64_t vma;	/* if there is one */
	uint64_t below; /* else the last address that one below could have; 0: there is none */
};

/*
 * One node: the entry of the slot that covers the address. A pivot is the last address of its slot; one
 * of 0 behind the first, like the missing one of the last slot, is the last address of the node.
 *
 * @param below_out  the last address before the slot; as it was if the slot is the node's first
 */
static enum gs_code maple_step(struct lnx_view *v, uint64_t node, bool is_arange, uint64_t address,
			       uint64_t *entry_out, uint64_t *below_out)
{
	const struct lnx_field *pivots =
		lnx_field_of(v->k, is_arange ? LNX_M_MAPLE_ARANGE_PIVOT : LNX_M_MAPLE_RANGE_PIVOT);
	const struct lnx_field *slots =
		lnx_field_of(v->k, is_arange ? LNX_M_MAPLE_ARANGE_SLOT : LNX_M_MAPLE_RANGE_SLOT);
	const uint32_t n = pivots->size / 8;
	uint64_t pivot[MAPLE_SLOTS_MAX];
	uint32_t i = 0;

	enum gs_code rc = lnx_read(v, GVA(node + pivots->offset), pivot, n * sizeof(pivot[0]));
	if (rc)
		return rc;
	while (i < n && (pivot[i] || !i) && address > pivot[i])
		i++;
	if (i)
		*below_out = pivot[i - 1];
	return lnx_read_u64(v, GVA(node + slots->offset + i * sizeof(uint64_t)), entry_out);
}

static enum gs_code maple_find(struct lnx_view *v, gva_t mm, uint64_t address, struct found *f)
{
	uint64_t entry;
	enum gs_code rc = read_member(v, mm.a, LNX_M_MM_MAPLE_ROOT, &entry);

	if (rc)
		return rc;
	if (!(entry & MAPLE_IS_NODE))
		return GS_ENOENT; /* empty, or one entry for address 0 */
	for (uint32_t depth = 0; depth < TREE_DEPTH_MAX; depth++) {
		const enum maple_type type = BITS(entry, 6, 3);
		const uint64_t node = entry & ~MAPLE_NODE_MASK;

		if (type == MAPLE_DENSE || type > MAPLE_ARANGE_64 || !lnx_is_object(v->k, node))
			return GS_EMALFORMED;
		rc = maple_step(v, node, type == MAPLE_ARANGE_64, address, &entry, &f->below);
		if (rc)
			return rc;
		if (type == MAPLE_LEAF_64) {
			f->vma = entry;
			return entry ? GS_OK : GS_ENOENT;
		}
	}
	return GS_ELOOP;
}

static enum gs_code rb_find(struct lnx_view *v, gva_t mm, uint64_t address, struct found *f)
{
	uint64_t node, start, end;
	enum gs_code rc = read_member(v, mm.a, LNX_M_MM_RB_ROOT, &node);

	for (uint32_t depth = 0; !rc && depth < TREE_DEPTH_MAX; depth++) {
		const uint64_t vma = node - lnx_field_of(v->k, LNX_M_VMA_RB)->offset;

		if (!node)
			return GS_ENOENT;
		if (!lnx_is_object(v->k, node))
			return GS_EMALFORMED;
		if ((rc = read_member(v, vma, LNX_M_VMA_START, &start)) ||
		    (rc = read_member(v, vma, LNX_M_VMA_END, &end)))
			return rc;
		if (address >= start && address < end) {
			f->vma = vma;
			return GS_OK;
		}
		if (address >= end && end)
			f->below = end - 1;
		rc = lnx_read_u64(v, GVA(node + (address < start ? RB_LEFT : RB_RIGHT)), &node);
	}
	return rc ? rc : GS_ELOOP;
}

/* --- files --- */

/* The name of a directory entry, its last characters if there is no room for all, before @p at. */
static enum gs_code put_name(struct lnx_view *v, uint64_t dentry, char *file, size_t *at)
{
	uint64_t name;
	uint32_t len;
	enum gs_code rc = read_member(v, dentry, LNX_M_DENTRY_NAME, &name);

	if (!rc)
		rc = lnx_read_u32(
			v, GVA(dentry + lnx_field_of(v->k, LNX_M_DENTRY_NAME_LEN)->offset), &len);
	if (rc)
		return rc;
	if (len > NAME_LENGTH_MAX)
		return GS_EMALFORMED;
	const size_t n = (size_t)gs_min(len, *at);
	rc = lnx_read(v, GVA(name + (len - n)), file + *at - n, n);
	if (!rc)
		*at -= n;
	return rc;
}

/*
 * From the last part to the root of its file system, which is its own parent. What has no directory is
 * so, too, and has no '/' then ("memfd:name").
 */
static void read_path(struct lnx_view *v, uint64_t dentry, char *out)
{
	char file[LNX_FILE_NAME];
	size_t at = sizeof(file) - 1;
	uint64_t parent;
	bool is_whole = false;

	file[at] = '\0';
	for (uint32_t parts = 0; parts < PATH_PARTS_MAX; parts++, dentry = parent) {
		if (read_member(v, dentry, LNX_M_DENTRY_PARENT, &parent))
			break;
		is_whole = parent == dentry;
		if ((is_whole && parts) || !at || put_name(v, dentry, file, &at) || is_whole)
			break;
		if (at)
			file[--at] = '/';
	}
	if (!is_whole && file[at] == '/')
		at++; /* without its beginning it is no absolute path */
	memcpy(out, file + at, sizeof(file) - at);
}

/*
 * The mapping at an address, but for its file's name and number.
 *
 * @param file_out   struct file; 0: of none
 * @param below_out  of GS_ENOENT: see struct found
 */
static enum gs_code find_vma(struct lnx_view *v, gva_t mm, uint64_t address, struct lnx_mapping *m,
			     uint64_t *file_out, uint64_t *below_out)
{
	struct found f = { 0 };
	uint64_t pages;
	enum gs_code rc = knows_maple_tree(v->k) ? maple_find(v, mm, address, &f)
						 : rb_find(v, mm, address, &f);

	*below_out = f.below;
	if (rc || (rc = read_member(v, f.vma, LNX_M_VMA_START, &m->start)) ||
	    (rc = read_member(v, f.vma, LNX_M_VMA_END, &m->end)) ||
	    (rc = read_member(v, f.vma, LNX_M_VMA_PGOFF, &pages)) ||
	    (rc = read_member(v, f.vma, LNX_M_VMA_FILE, file_out)))
		return rc;
	if (address < m->start || address >= m->end)
		return GS_EMALFORMED;
	if (!*file_out)
		return GS_OK;
	m->offset = pages << v->k->regime.half[1].granule_bits;
	if (read_member(v, *file_out, LNX_M_FILE_INODE, &m->inode_at.a))
		m->inode_at = GVA(0);
	return GS_OK;
}

static void name_file(struct lnx_view *v, uint64_t file, struct lnx_mapping *m)
{
	uint64_t dentry;

	if (m->inode_at.a)
		GS_IGNORE(read_member(v, m->inode_at.a, LNX_M_INODE_NUMBER, &m->inode));
	if (!read_member(v, file, LNX_M_FILE_DENTRY, &dentry))
		read_path(v, dentry, m->file);
}

/* The kernel's own piece of code in each process is a mapping of no file. */
static void name_vdso(struct lnx_view *v, gva_t mm, struct lnx_mapping *m)
{
	uint64_t vdso;

	if (has(v->k, LNX_M_MM_VDSO) && !read_member(v, mm.a, LNX_M_MM_VDSO, &vdso) &&
	    vdso == m->start)
		memcpy(m->file, LNX_VDSO_NAME, sizeof(LNX_VDSO_NAME));
}

enum gs_code lnx_mapping_find(struct lnx_view *v, gva_t mm, uint64_t address,
			      struct lnx_mapping *mapping_out)
{
	struct lnx_mapping m = { 0 };
	uint64_t file, below;

	if (!lnx_knows_mappings(v->k))
		return GS_ENOENT;
	enum gs_code rc = find_vma(v, mm, address, &m, &file, &below);
	if (rc)
		return rc;
	if (file)
		name_file(v, file, &m);
	else
		name_vdso(v, mm, &m);
	*mapping_out = m;
	return GS_OK;
}

enum gs_code lnx_mapping_find_begin(struct lnx_view *v, gva_t mm, const struct lnx_mapping *of,
				    uint64_t *start_out, uint64_t *end_out)
{
	uint64_t address = of->start, file, below;
	struct lnx_mapping m = *of;

	for (uint32_t i = 0; i < MAPPINGS_BEFORE; i++) {
		if (m.inode_at.a == of->inode_at.a && !m.offset) {
			*start_out = m.start;
			*end_out = m.end;
			return GS_OK;
		}
		if (!address)
			return GS_ENOENT;
		m = (struct lnx_mapping){ 0 };
		enum gs_code rc = find_vma(v, mm, address - 1, &m, &file, &below);
		if (rc && rc != GS_ENOENT)
			return rc;
		/* what is not mapped is of no file; what lies before it comes next */
		if (rc && below >= address - 1)
			return GS_EMALFORMED;
		address = rc ? below + (below != 0) : m.start;
	}
	return GS_ENOENT;
}
