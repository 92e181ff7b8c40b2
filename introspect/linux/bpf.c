/* SPDX-License-Identifier: Apache-2.0 */
/* BPF programs in machine code, and the trampolines that lead to them: the kernel's own list. */
#include <string.h>

#include "introspect/linux/kernel.h"

/* A program may have a million instructions (BPF_COMPLEXITY_LIMIT_INSNS), each some machine's ones. */
#define CODE_SIZE_MAX (UINT64_C(64) << 20)

static bool knows_programs(const struct lnx_kernel *k)
{
	return lnx_has(k, LNX_M_BPF_START, 8) && lnx_has(k, LNX_M_BPF_END, 8) &&
	       lnx_has(k, LNX_M_BPF_LIST, 16) && lnx_field_of(k, LNX_M_BPF_NAME)->present;
}

static enum gs_code read_name(struct lnx_view *v, gva_t program, char name[static LNX_SYMBOL_MAX])
{
	const size_t room = gs_min(lnx_field_of(v->k, LNX_M_BPF_NAME)->size, LNX_SYMBOL_MAX);

	if (lnx_read_string(v, lnx_member_of(v->k, program, LNX_M_BPF_NAME), name, room))
		return GS_EFAULT;
	for (const char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~')
			return GS_EMALFORMED;
	return *name ? GS_OK : GS_EMALFORMED;
}

/* So that a list needs no room for names: one with another name is another program. FNV-1a. */
uint64_t lnx_bpf_hash_name(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return hash;
}

/* Only what can be code of a program counts; the kernel's own text has names of its own. */
static bool is_code(struct lnx_view *v, uint64_t start, uint64_t end)
{
	const struct lnx_kernel *k = v->k;

	return !(start & 3) && lnx_is_object(k, start & ~UINT64_C(7)) && end > start &&
	       end - start <= CODE_SIZE_MAX && k->text.start - start >= end - start &&
	       !lnx_range_has(k->text, start) && lnx_is_text(v, start);
}

static enum gs_code read_program(struct lnx_view *v, gva_t address, struct lnx_bpf_program *p,
				 char name[static LNX_SYMBOL_MAX])
{
	const struct lnx_kernel *k = v->k;
	uint64_t end;

	p->address = address;
	if (lnx_read_u64(v, lnx_member_of(k, address, LNX_M_BPF_START), &p->start) ||
	    lnx_read_u64(v, lnx_member_of(k, address, LNX_M_BPF_END), &end))
		return GS_EFAULT;
	if (!is_code(v, p->start, end))
		return GS_EMALFORMED;
	p->size = end - p->start;
	enum gs_code rc = read_name(v, address, name);
	if (!rc)
		p->name_hash = lnx_bpf_hash_name(name);
	return rc;
}

/* Of what may be the list's head, the one that is: what is first on it points back, and is a program. */
static bool find_head(struct lnx_view *v, gva_t *head_out)
{
	const struct lnx_kernel *k = v->k;
	char name[LNX_SYMBOL_MAX];

	for (uint32_t i = 0; i < k->bpf_lists; i++) {
		const gva_t head = k->bpf_list[i];
		struct lnx_bpf_program p;
		uint64_t first, back;

		if (!lnx_is_object(k, head.a) || lnx_read_u64(v, head, &first) || first == head.a ||
		    !lnx_is_object(k, first) || lnx_read_u64(v, GVA(first + 8), &back) ||
		    back != head.a ||
		    read_program(v, GVA(first - lnx_field_of(k, LNX_M_BPF_LIST)->offset), &p, name))
			continue;
		*head_out = head;
		return true;
	}
	return false;
}

void lnx_bpf_read(struct lnx_view *v, struct lnx_bpf *out)
{
	char name[LNX_SYMBOL_MAX];
	struct lnx_list l;
	gva_t head, program;

	out->count = 0;
	if (!knows_programs(v->k) || !find_head(v, &head))
		return;
	lnx_list_begin(&l, v, head, lnx_field_of(v->k, LNX_M_BPF_LIST)->offset, out->listed,
		       LNX_BPF_MAX);
	while (lnx_list_next(&l, &program))
		;
	/* afterwards: of a list that loops they are distinct only now */
	for (uint32_t i = 0; i < l.n; i++)
		if (!read_program(v, out->listed[i], &out->program[out->count], name))
			out->count++;
}

enum gs_code lnx_bpf_symbol(struct lnx_view *v, const struct lnx_bpf_program *program,
			    struct lnx_symbol *symbol_out)
{
	struct lnx_bpf_program now;
	struct lnx_symbol s = { .type = 't' };
	enum gs_code rc = read_program(v, program->address, &now, s.name);

	if (rc)
		return rc;
	if (now.start != program->start || now.size != program->size ||
	    now.name_hash != program->name_hash ||
	    !lnx_list_has(v, lnx_member_of(v->k, program->address, LNX_M_BPF_LIST)))
		return GS_ENOENT;
	s.start = now.start;
	s.size = now.size;
	*symbol_out = s;
	return GS_OK;
}
