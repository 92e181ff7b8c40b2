/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's kernel says of its functions' parameters. */
#include "introspect/linux/prototype.h"

#include <bpf/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/layouts.h"

/* Qualifiers, pointers and names of types one after the other: real ones have up to six. */
#define DEPTH_MAX 16

struct lnx_prototypes {
	struct btf *btf;
};

enum gs_code lnx_prototypes_open(const struct lnx_kernel *k, const struct guest *g,
				 struct lnx_prototypes **prototypes_out, struct gs_error *err)
{
	if (!k->types_size)
		return gs_fail(err, GS_ENOENT, "this kernel has no type information in memory");
	struct lnx_prototypes *p = calloc(1, sizeof(*p));
	uint8_t *blob = malloc(k->types_size);
	enum gs_code rc = p && blob ? guest_read(g, k->types_at, blob, k->types_size) : GS_ENOSPC;

	if (!rc)
		rc = lnx_btf_open(blob, k->types_size, &p->btf, err);
	else
		(void)gs_fail(err, rc, "the kernel's type information cannot be read");
	free(blob);
	if (rc) {
		free(p);
		return rc;
	}
	*prototypes_out = p;
	return GS_OK;
}

void lnx_prototypes_close(struct lnx_prototypes *p)
{
	if (p)
		btf__free(p->btf);
	free(p);
}

/* --- text of a type ------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t room;
	bool is_cut;
};

/* Bytes of the guest that are no part of a name are told as such. */
static void add(struct text *t, const char *s)
{
	for (; *s; s++) {
		if (t->room <= 1) {
			t->is_cut = true;
			break;
		}
		*t->at++ = *s >= ' ' && *s <= '~' ? *s : '?';
		t->room--;
	}
	*t->at = '\0';
}

static void add_named(struct text *t, const struct btf *btf, const char *keyword,
		      const struct btf_type *type)
{
	const char *name = btf__name_by_offset(btf, type->name_off);

	add(t, keyword);
	add(t, name && *name ? name : "(unnamed)");
}

static const char *keyword_of(const struct btf_type *type)
{
	switch (btf_kind(type)) {
	case BTF_KIND_STRUCT: return "struct ";
	case BTF_KIND_UNION: return "union ";
	case BTF_KIND_FWD: return btf_kflag(type) ? "union " : "struct ";
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64: return "enum ";
	default: return "";
	}
}

static bool describe(struct text *t, const struct btf *btf, uint32_t id, int depth);

/* What qualifies a pointer stands behind its star. */
static bool qualify(struct text *t, const struct btf *btf, const struct btf_type *type,
		    const char *word, int depth)
{
	const struct btf_type *what = type->type ? btf__type_by_id(btf, type->type) : NULL;
	const bool is_pointer = what && btf_kind(what) == BTF_KIND_PTR;

	if (!is_pointer) {
		add(t, word);
		add(t, " ");
	}
	if (!describe(t, btf, type->type, depth - 1))
		return false;
	if (is_pointer) {
		add(t, " ");
		add(t, word);
	}
	return true;
}

/*
 * A type as C has it, but for functions and arrays, of which there is no more than what they are. Innermost
 * first: what is pointed to stands before the star.
 */
static bool describe(struct text *t, const struct btf *btf, uint32_t id, int depth)
{
	const struct btf_type *type = id ? btf__type_by_id(btf, id) : NULL;
	char count[16];

	if (!id) {
		add(t, "void");
		return true;
	}
	if (!type || !depth)
		return false;
	switch (btf_kind(type)) {
	case BTF_KIND_PTR:
		if (!describe(t, btf, type->type, depth - 1))
			return false;
		add(t, t->at[-1] == '*' ? "*" : " *");
		return true;
	case BTF_KIND_CONST: return qualify(t, btf, type, "const", depth);
	case BTF_KIND_VOLATILE: return qualify(t, btf, type, "volatile", depth);
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG: return describe(t, btf, type->type, depth - 1);
	case BTF_KIND_ARRAY:
		if (!describe(t, btf, btf_array(type)->type, depth - 1))
			return false;
		snprintf(count, sizeof(count), "[%u]", btf_array(type)->nelems);
		add(t, count);
		return true;
	case BTF_KIND_FUNC_PROTO: add(t, "function"); return true;
	default: add_named(t, btf, keyword_of(type), type); return true;
	}
}

static bool describe_whole(const struct btf *btf, uint32_t id, char *out, size_t room)
{
	static const char ellipsis[] = "...";
	struct text t = { out, room, false };

	*out = '\0';
	if (!describe(&t, btf, id, DEPTH_MAX))
		return false;
	if (t.is_cut)
		memcpy(out + room - sizeof(ellipsis), ellipsis, sizeof(ellipsis));
	return true;
}

enum gs_code lnx_prototype_parameter(const struct lnx_prototypes *p, const char *function,
				     uint32_t n, struct lnx_parameter *out)
{
	const int32_t id = btf__find_by_name_kind(p->btf, function, BTF_KIND_FUNC);
	const struct btf_type *f = id > 0 ? btf__type_by_id(p->btf, (uint32_t)id) : NULL;
	const struct btf_type *proto = f ? btf__type_by_id(p->btf, f->type) : NULL;
	const char *name = "";
	uint32_t type;

	if (!proto || btf_kind(proto) != BTF_KIND_FUNC_PROTO)
		return GS_ENOENT;
	if (n == LNX_PROTOTYPE_RETURN) {
		type = proto->type;
	} else {
		/* further arguments of a variable number of them are one of type 0 */
		if (n >= btf_vlen(proto) || !btf_params(proto)[n].type)
			return GS_ENOENT;
		type = btf_params(proto)[n].type;
		name = btf__name_by_offset(p->btf, btf_params(proto)[n].name_off);
	}
	if (!describe_whole(p->btf, type, out->type, sizeof(out->type)))
		return GS_ENOENT;
	struct text t = { out->name, sizeof(out->name), false };
	out->name[0] = '\0';
	add(&t, name ? name : "");
	return GS_OK;
}
