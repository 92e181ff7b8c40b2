/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from the DWARF of a vmlinux, read by libdw. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <gelf.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/finder.h"
#include "introspect/linux/layouts.h"

/* Steps through typedef, const, volatile … of one member, and arrays in arrays. */
#define CHAIN_MAX 32
/* Anonymous structures still to look into, and members looked at for one name. */
#define PENDING_MAX   32
#define MEMBER_BUDGET 65536
/*
 * Entries that are looked at for one file: a kernel with all drivers built in has some ten million at
 * the top. Broken ones may lead in circles.
 */
#define ENTRIES_MAX (UINT64_C(1) << 27)
/* A file of source is a unit: a kernel with all drivers has some 30,000. libdw keeps 200 bytes of each. */
#define UNITS_MAX (1 << 18)
/* Symbols that are looked at: 7.3 has 500,000. */
#define SYMBOLS_MAX (1 << 24)

/* A type by name. */
struct wanted {
	const char *name;
	int tag;
	bool is_there;
	Dwarf_Die die;
};

/* Each member may be of a structure of its own; and two enumerations, and one that has no members. */
#define WANTED_MAX (LNX_MEMBERS + 3)

struct dwarf_file {
	Elf *elf;
	Dwarf *dwarf;
	struct wanted wanted[WANTED_MAX];
	uint32_t count;
	uint64_t entries; /* looked at */
	struct lnx_field percpu[LNX_PERCPUS];
};

/* --- entries --- */

static bool first_child(struct dwarf_file *d, Dwarf_Die *die, Dwarf_Die *child_out)
{
	return d->entries++ < ENTRIES_MAX && dwarf_child(die, child_out) == 0;
}

static bool next_sibling(struct dwarf_file *d, Dwarf_Die *die)
{
	Dwarf_Die next;

	if (d->entries++ >= ENTRIES_MAX || dwarf_siblingof(die, &next) != 0)
		return false;
	*die = next;
	return true;
}

static bool number(Dwarf_Die *die, unsigned int attribute, uint64_t *value_out)
{
	Dwarf_Attribute a;
	Dwarf_Word value;

	if (!dwarf_attr(die, attribute, &a) || dwarf_formudata(&a, &value))
		return false;
	*value_out = value;
	return true;
}

/* What it is of, names and qualifiers followed. @return false: a broken chain, or void */
static bool type_of(Dwarf_Die *die, Dwarf_Die *type_out)
{
	Dwarf_Die at = *die;

	for (int i = 0; i < CHAIN_MAX; i++) {
		Dwarf_Attribute a;
		Dwarf_Die next;

		if (!dwarf_attr(&at, DW_AT_type, &a) || !dwarf_formref_die(&a, &next))
			return false;
		at = next;
		switch (dwarf_tag(&at)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type: break;
		default: *type_out = at; return true;
		}
	}
	return false;
}

/* How many elements an array has, in all of its dimensions; 0: not known. */
static uint64_t count_of(struct dwarf_file *d, Dwarf_Die *array)
{
	uint64_t all = 1;
	Dwarf_Die range;

	for (bool more = first_child(d, array, &range); more; more = next_sibling(d, &range)) {
		uint64_t count;

		if (dwarf_tag(&range) != DW_TAG_subrange_type)
			continue;
		if (!number(&range, DW_AT_count, &count) &&
		    (!number(&range, DW_AT_upper_bound, &count) || !gs_add(count, 1, &count)))
			return 0;
		if (!gs_mul(all, count, &all))
			return 0;
	}
	return all;
}

/* 0: it has none that makes sense. */
static uint64_t size_of(struct dwarf_file *d, Dwarf_Die type)
{
	uint64_t count = 1, size;

	for (int i = 0; i < CHAIN_MAX; i++) {
		switch (dwarf_tag(&type)) {
		case DW_TAG_array_type:
			if (!gs_mul(count, count_of(d, &type), &count) || !type_of(&type, &type))
				return 0;
			break;
		case DW_TAG_pointer_type: return gs_mul(count, 8u, &count) ? count : 0;
		case DW_TAG_base_type:
		case DW_TAG_enumeration_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
			return number(&type, DW_AT_byte_size, &size) && gs_mul(count, size, &count)
				       ? count
				       : 0;
		default: return 0;
		}
	}
	return 0;
}

/* --- members --- */

struct pending {
	Dwarf_Die die;
	uint64_t offset;
};

static bool is_composite(Dwarf_Die *die)
{
	const int tag = dwarf_tag(die);

	return tag == DW_TAG_structure_type || tag == DW_TAG_union_type;
}

/* Where a member is in its structure; members of unions need not say that. */
static bool offset_of(Dwarf_Die *member, uint64_t *offset_out)
{
	*offset_out = 0;
	return !dwarf_hasattr(member, DW_AT_data_member_location) ||
	       number(member, DW_AT_data_member_location, offset_out);
}

/* The member of this name, of @p len bytes, also inside of anonymous ones. Bit fields do not count. */
static bool find_member(struct dwarf_file *d, Dwarf_Die *in, const char *name, size_t len,
			Dwarf_Die *member_out, uint64_t *offset_out)
{
	struct pending stack[PENDING_MAX] = { { *in, 0 } };
	int depth = 1, budget = MEMBER_BUDGET;

	while (depth) {
		struct pending p = stack[--depth];
		Dwarf_Die m, type;

		for (bool more = first_child(d, &p.die, &m); more; more = next_sibling(d, &m)) {
			uint64_t offset;

			if (--budget < 0)
				return false;
			if (dwarf_tag(&m) != DW_TAG_member || !offset_of(&m, &offset) ||
			    !gs_add(p.offset, offset, &offset))
				continue;
			const char *have = dwarf_diename(&m);
			if (have && strlen(have) == len && !memcmp(have, name, len)) {
				*member_out = m;
				*offset_out = offset;
				return !dwarf_hasattr(&m, DW_AT_bit_size);
			}
			if (!have && depth < PENDING_MAX && type_of(&m, &type) &&
			    is_composite(&type))
				stack[depth++] = (struct pending){ type, offset };
		}
	}
	return false;
}

/* A member by its path "a.b" of a structure. */
static bool find_path(struct dwarf_file *d, Dwarf_Die *outer, const char *path,
		      struct lnx_field *field_out)
{
	Dwarf_Die in = *outer, member;
	uint64_t offset = 0, inner, whole;

	for (;;) {
		const size_t n = strcspn(path, ".");

		if (!is_composite(&in) || !find_member(d, &in, path, n, &member, &inner) ||
		    !gs_add(offset, inner, &offset) || !type_of(&member, &in))
			return false;
		path += n;
		if (!*path++)
			break;
	}
	const uint64_t size = size_of(d, in);
	if (!size || !number(outer, DW_AT_byte_size, &whole) || whole > UINT32_MAX ||
	    !gs_in_range(offset, size, 0, whole))
		return false;
	*field_out = (struct lnx_field){ true, (uint32_t)offset, (uint32_t)size };
	return true;
}

/* --- types by name --- */

static struct wanted *wanted_of(struct dwarf_file *d, int tag, const char *name)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (d->wanted[i].tag == tag && !strcmp(d->wanted[i].name, name))
			return &d->wanted[i];
	return NULL;
}

static void want(struct dwarf_file *d, int tag, const char *name)
{
	if (!wanted_of(d, tag, name) && d->count < WANTED_MAX)
		d->wanted[d->count++] = (struct wanted){ .name = name, .tag = tag };
}

static void want_all(struct dwarf_file *d)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++)
		want(d, DW_TAG_structure_type, lnx_member_name((enum lnx_member)m).in);
	want(d, DW_TAG_structure_type, LNX_FRAME_RECORD_META);
	want(d, DW_TAG_enumeration_type, LNX_ZONE_ENUM);
	want(d, DW_TAG_enumeration_type, LNX_NODE_ENUM);
}

/* A driver may have a structure of that name, too: only one with members that are asked for counts. */
static bool is_the_one(struct dwarf_file *d, const char *name, Dwarf_Die *die)
{
	bool asked = false;
	Dwarf_Die member;
	uint64_t offset;

	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name n = lnx_member_name((enum lnx_member)m);

		if (strcmp(n.in, name) != 0)
			continue;
		asked = true;
		if (find_member(d, die, n.path, strcspn(n.path, "|."), &member, &offset))
			return true;
	}
	return !asked;
}

static void look_at(struct dwarf_file *d, Dwarf_Die *die)
{
	const int tag = dwarf_tag(die);

	if (tag != DW_TAG_structure_type && tag != DW_TAG_enumeration_type)
		return;
	const char *name = dwarf_diename(die);
	struct wanted *w = name ? wanted_of(d, tag, name) : NULL;
	if (!w || w->is_there || dwarf_hasattr(die, DW_AT_declaration) ||
	    (tag == DW_TAG_structure_type && !is_the_one(d, name, die)))
		return;
	w->die = *die;
	w->is_there = true;
}

static bool has_all(const struct dwarf_file *d)
{
	for (uint32_t i = 0; i < d->count; i++)
		if (!d->wanted[i].is_there)
			return false;
	return true;
}

static enum gs_code find_types(struct dwarf_file *d, struct gs_error *err)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die top, die;
	int rc, units = 0;

	want_all(d);
	while (!(rc = dwarf_get_units(d->dwarf, cu, &cu, NULL, NULL, &top, NULL))) {
		for (bool more = first_child(d, &top, &die); more; more = next_sibling(d, &die))
			look_at(d, &die);
		if (d->entries >= ENTRIES_MAX || ++units > UNITS_MAX)
			return gs_fail(err, GS_EMALFORMED, "has DWARF that does not end");
		if (has_all(d))
			return GS_OK;
	}
	return rc < 0 ? gs_fail(err, GS_EMALFORMED, "has broken DWARF: %s", dwarf_errmsg(-1))
		      : GS_OK;
}

/* --- symbols and sections --- */

static void take_percpu(struct dwarf_file *d, const GElf_Sym *sym, size_t p, uint64_t start)
{
	if (sym->st_size && gs_in_range(sym->st_value, sym->st_size, start, INT32_MAX))
		d->percpu[p] = (struct lnx_field){ true, (uint32_t)(sym->st_value - start),
						   (uint32_t)sym->st_size };
}

static void read_symbols(struct dwarf_file *d, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const int n = (int)gs_min(header->sh_size / sizeof(Elf64_Sym), SYMBOLS_MAX);
	GElf_Sym sym, variable[LNX_PERCPUS] = { 0 };
	uint64_t start = 0;

	for (int i = 0; data && i < n && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(d->elf, header->sh_link, sym.st_name);

		if (name && !strcmp(name, "__per_cpu_start"))
			start = sym.st_value;
		for (size_t p = 0; name && p < LNX_PERCPUS; p++)
			if (!strcmp(name, lnx_percpu_name((enum lnx_percpu)p)))
				variable[p] = sym;
	}
	for (size_t p = 0; start && p < LNX_PERCPUS; p++)
		take_percpu(d, &variable[p], p, start);
}

static void read_sections(struct dwarf_file *d, struct lnx_layouts *l)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(d->elf, section))) {
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_SYMTAB)
			read_symbols(d, section, &header);
		if (header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_ALLOC) ||
		    (header.sh_flags & SHF_EXECINSTR) || *l->banner)
			continue;
		Elf_Data *data = elf_getdata(section, NULL);
		if (data && data->d_buf)
			lnx_banner_find(data->d_buf, data->d_size, l->banner);
	}
}

/* --- by name, for profiles --- */

static struct wanted *found(void *priv, int tag, const char *name)
{
	struct wanted *w = wanted_of(priv, tag, name);

	return w && w->is_there ? w : NULL;
}

static bool dwarf_size_of(void *priv, const char *in, uint32_t *size_out)
{
	struct wanted *w = found(priv, DW_TAG_structure_type, in);
	uint64_t size;

	if (!w || !number(&w->die, DW_AT_byte_size, &size) || !size || size > UINT32_MAX)
		return false;
	*size_out = (uint32_t)size;
	return true;
}

static bool dwarf_member_of(void *priv, const char *in, const char *path,
			    struct lnx_field *field_out)
{
	struct wanted *w = found(priv, DW_TAG_structure_type, in);

	return w && find_path(priv, &w->die, path, field_out);
}

static bool dwarf_percpu_of(void *priv, const char *name, struct lnx_field *field_out)
{
	const struct dwarf_file *d = priv;

	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		if (!d->percpu[p].present || strcmp(lnx_percpu_name((enum lnx_percpu)p), name))
			continue;
		*field_out = d->percpu[p];
		return true;
	}
	return false;
}

static bool dwarf_enumerator_of(void *priv, const char *in, const char *name, uint32_t *value_out)
{
	struct wanted *w = found(priv, DW_TAG_enumeration_type, in);
	Dwarf_Die e;

	for (bool more = w && first_child(priv, &w->die, &e); more; more = next_sibling(priv, &e)) {
		const char *have = dwarf_diename(&e);
		uint64_t value;

		if (!have || strcmp(have, name) != 0)
			continue;
		if (!number(&e, DW_AT_const_value, &value) || value >= LNX_ELEMENTS_MAX)
			return false;
		*value_out = (uint32_t)value;
		return true;
	}
	return false;
}

static void dwarf_close(void *priv)
{
	struct dwarf_file *d = priv;

	if (d->dwarf)
		dwarf_end(d->dwarf);
	if (d->elf)
		elf_end(d->elf);
	free(d);
}

/* --- the file --- */

static enum gs_code open_file(struct dwarf_file *d, int fd, struct gs_error *err)
{
	GElf_Ehdr header;

	elf_version(EV_CURRENT);
	d->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!d->elf || !gelf_getehdr(d->elf, &header) || header.e_machine != EM_AARCH64 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return gs_fail(err, GS_ENOENT, "is no ELF file for little-endian ARM64");
	/* what its DWARF refers to is known only once it is linked */
	if (header.e_type == ET_REL)
		return gs_fail(err, GS_ENOENT, "is not linked");
	d->dwarf = dwarf_begin_elf(d->elf, DWARF_C_READ, NULL);
	return d->dwarf ? GS_OK : gs_fail(err, GS_ENOENT, "has no DWARF");
}

enum gs_code lnx_layouts_open_dwarf(int fd, struct lnx_layouts *layouts_out, struct gs_error *err)
{
	static const struct lnx_layouts_ops ops = {
		.size = dwarf_size_of,
		.member = dwarf_member_of,
		.percpu = dwarf_percpu_of,
		.enumerator = dwarf_enumerator_of,
		.close = dwarf_close,
	};
	struct dwarf_file *d = calloc(1, sizeof(*d));
	const void *id;

	if (!d)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = open_file(d, fd, err);
	if (!rc)
		rc = find_types(d, err);
	if (rc) {
		dwarf_close(d);
		return rc;
	}
	read_sections(d, layouts_out);
	if (dwelf_elf_gnu_build_id(d->elf, &id) == LNX_BUILD_ID) {
		memcpy(layouts_out->build_id, id, LNX_BUILD_ID);
		layouts_out->has_build_id = true;
	}
	layouts_out->priv = d;
	layouts_out->ops = &ops;
	return GS_OK;
}
