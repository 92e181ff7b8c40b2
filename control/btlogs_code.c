/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and BPF programs of a guest, to name frames of its backtrace logs. */
#include "control/btlogs_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/stackshot/records.h"
#include "kcdata/kcdata.h"

/* Places that are remembered; what comes after these has no names. 384 KiB. */
#define PLACES_MAX 16384u
/* Symbols that are read for one book, as for one capture. */
#define SYMBOLS_MAX (UINT32_C(1) << 20)

#define SEVERAL UINT64_C(0)

_Static_assert(sizeof(((struct btl_name *)0)->module) >= LNX_MODULE_NAME, "names fit");

struct btlogs_code *ctl_code_create(const struct lnx_kernel *k, const struct guest *g)
{
	struct btlogs_code *code = calloc(1, sizeof(*code));

	if (!code)
		return NULL;
	code->k = k;
	code->g = g;
	code->image = lnx_kernel_info_get(k).text;
	code->image_size = lnx_kernel_info_get(k).size;
	code->symbols_of = LNX_MODULES_MAX;
	return code;
}

static void drop_symbols(struct btlogs_code *code)
{
	lnx_module_symbols_deinit(&code->symbols);
	code->symbols_of = LNX_MODULES_MAX;
}

void ctl_code_destroy(struct btlogs_code *code)
{
	if (!code)
		return;
	drop_symbols(code);
	free(code->place);
	free(code);
}

void ctl_code_forget(struct btlogs_code *code)
{
	code->count = 0;
}

/* --- places --- */

/* A module is told by what captures say of it, too; never SEVERAL. FNV-1a. */
static uint64_t identity_of_module(const char *name, const uint8_t build_id[LNX_BUILD_ID])
{
	uint64_t hash = lnx_bpf_hash_name(name);

	for (size_t i = 0; i < LNX_BUILD_ID; i++)
		hash = (hash ^ build_id[i]) * UINT64_C(0x100000001b3);
	return hash | 1;
}

/* Not that of a module. */
static uint64_t identity_of_program(uint64_t name_hash)
{
	return (name_hash | 1) + 1;
}

/* Index of the first place that ends behind an address. */
static uint32_t first_behind(const struct btlogs_code *code, uint64_t address)
{
	uint32_t lo = 0, hi = code->count;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (code->place[mid].end <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool make_room(struct btlogs_code *code)
{
	if (code->count < code->room)
		return true;
	const uint32_t room = (uint32_t)gs_min(code->room ? code->room * 2 : 64, PLACES_MAX);
	if (code->count >= room)
		return false;
	struct btlogs_place *grown = reallocarray(code->place, room, sizeof(*grown));
	if (!grown)
		return false;
	code->place = grown;
	code->room = room;
	return true;
}

/* What is at @p p now; where something else has been, all that overlaps becomes one place of several. */
static void see(struct btlogs_code *code, struct btlogs_place p)
{
	const uint32_t at = first_behind(code, p.start);
	uint32_t end = at;

	/* nothing lies around the end of all addresses */
	if (p.end <= p.start)
		return;
	while (end < code->count && code->place[end].start < p.end)
		end++;
	if (end == at) {
		if (!make_room(code))
			return;
		memmove(&code->place[at + 1], &code->place[at],
			(code->count - at) * sizeof(code->place[0]));
		code->place[at] = p;
		code->count++;
		return;
	}
	struct btlogs_place *all = &code->place[at];
	if (end == at + 1 && all->start == p.start && all->end == p.end &&
	    all->identity == p.identity) {
		all->now = p.now;
		return;
	}
	all->start = gs_min(all->start, p.start);
	all->end = gs_max(code->place[end - 1].end, p.end);
	all->identity = SEVERAL;
	memmove(all + 1, &code->place[end], (code->count - end) * sizeof(code->place[0]));
	code->count -= end - at - 1;
}

void ctl_code_look(struct btlogs_code *code)
{
	lnx_view_init(&code->v, code->k, code->g);
	drop_symbols(code);
	code->symbols_left = SYMBOLS_MAX;
	lnx_modules_read(&code->v, &code->modules);
	lnx_bpf_read(&code->v, &code->bpf);
	for (uint32_t i = 0; i < code->count; i++)
		code->place[i].now = BTL_NONE;
	for (uint32_t i = 0; i < code->modules.count; i++) {
		const struct lnx_module *m = &code->modules.module[i];
		const uint64_t identity = identity_of_module(m->name, m->build_id);

		for (int part = 0; part < LNX_MODULE_PARTS; part++) {
			const uint64_t start = m->text[part].start, size = m->text[part].size;

			if (size)
				see(code,
				    (struct btlogs_place){ start, start + size, identity, i });
		}
	}
	for (uint32_t i = 0; i < code->bpf.count; i++) {
		const struct lnx_bpf_program *p = &code->bpf.program[i];

		see(code, (struct btlogs_place){ p->start, p->start + p->size,
						 identity_of_program(p->name_hash),
						 LNX_MODULES_MAX + i });
	}
}

/* --- what captures say --- */

/* Arrays of a capture that tell of modules and symbols. */
struct told {
	struct kcd_item modules, shorts, longs;
};

static void read_told(const void *data, size_t size, struct told *t)
{
	struct kcd_reader r;
	struct kcd_item it;

	if (kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL))
		return; /* our own stream */
	while (kcd_reader_next(&r, &it) == KCD_OK) {
		if (it.kind != KCD_ITEM_ARRAY || it.depth)
			continue;
		if (it.elem_type == SS_RECORD_MODULE)
			t->modules = it;
		else if (it.elem_type == SS_RECORD_SYMBOL)
			t->shorts = it;
		else if (it.elem_type == SS_RECORD_LONG_SYMBOL)
			t->longs = it;
	}
}

/* The symbol that begins at an address, of an array that ascends; false: none does. */
static bool symbol_at(const struct kcd_item *symbols, uint64_t start,
		      struct ss_long_symbol_record *r)
{
	uint32_t lo = 0, hi = symbols->count;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;

		*r = (struct ss_long_symbol_record){ 0 };
		(void)kcd_item_copy_elem(symbols, mid, r, sizeof(*r));
		r->name[sizeof(r->name) - 1] = '\0';
		if (r->start == start)
			return true;
		if (r->start < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

void ctl_code_see_capture(struct btlogs_code *code, const void *data, size_t size)
{
	struct told t = { 0 };

	read_told(data, size, &t);
	for (uint32_t i = 0; i < t.modules.count; i++) {
		struct ss_module_record m = { 0 };
		struct ss_long_symbol_record s;
		uint64_t identity = SEVERAL;

		(void)kcd_item_copy_elem(&t.modules, i, &m, sizeof(m));
		m.name[sizeof(m.name) - 1] = '\0';
		if (!(m.flags & SS_MODULE_BPF))
			identity = identity_of_module(m.name, m.build_id);
		else if (symbol_at(&t.shorts, m.start, &s) || symbol_at(&t.longs, m.start, &s))
			identity = identity_of_program(lnx_bpf_hash_name(s.name));
		if (m.size && m.start <= UINT64_MAX - m.size)
			see(code,
			    (struct btlogs_place){ m.start, m.start + m.size, identity, BTL_NONE });
	}
}

/* --- what is recorded --- */

/* Whether a frame is outside of the kernel's image, and in no place. */
static bool is_unknown(const struct btlogs_code *code, uint64_t frame)
{
	const uint64_t address = btl_frame_code(frame);

	if (btl_frame_is_pseudo(frame) || address - code->image < code->image_size)
		return false;
	const uint32_t i = first_behind(code, address);
	return i == code->count || code->place[i].start > address;
}

bool ctl_code_knows(const struct btlogs_code *code, const uint64_t *frames, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (is_unknown(code, frames[i]))
			return false;
	return true;
}

void ctl_code_meet(struct btlogs_code *code, const uint64_t *frames, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (is_unknown(code, frames[i])) {
			const uint64_t at = btl_frame_code(frames[i]) & ~UINT64_C(3);

			see(code, (struct btlogs_place){ at, at + 4, SEVERAL, BTL_NONE });
		}
}

/* --- names --- */

/* Its symbols stay until those of another one are asked for: addresses come in ascending order. */
static bool have_symbols(struct btlogs_code *code, const struct lnx_module *m)
{
	const uint32_t i = (uint32_t)(m - code->modules.module);

	if (code->symbols_of == i)
		return code->symbols.count > 0;
	drop_symbols(code);
	lnx_view_init(&code->v, code->k, code->g);
	if (lnx_module_symbols_read(&code->v, m, code->symbols_left, &code->symbols))
		code->symbols.count = 0;
	code->symbols_left -= code->symbols.read;
	code->symbols_of = i;
	return code->symbols.count > 0;
}

static void put_name(struct btl_name *out, const struct lnx_symbol *s, const char *module)
{
	out->start = s->start;
	out->size = s->size;
	out->flags = *module ? BTL_SYMBOL_MODULE : 0;
	snprintf(out->name, sizeof(out->name), "%s", s->name);
	snprintf(out->module, sizeof(out->module), "%s", module);
}

static bool name_in_module(struct btlogs_code *code, const struct lnx_module *m, uint64_t address,
			   struct btl_name *name_out)
{
	struct lnx_symbol s;

	if (!have_symbols(code, m))
		return false;
	lnx_view_init(&code->v, code->k, code->g);
	if (lnx_module_symbol_at(&code->v, m, &code->symbols, GVA(address), &s))
		return false;
	/* only now is it sure that what was read was the module's */
	lnx_view_init(&code->v, code->k, code->g);
	if (!lnx_module_is_there(&code->v, m))
		return false;
	put_name(name_out, &s, m->name);
	return true;
}

static bool name_in_program(struct btlogs_code *code, const struct lnx_bpf_program *p,
			    struct btl_name *name_out)
{
	struct lnx_symbol s;

	lnx_view_init(&code->v, code->k, code->g);
	if (lnx_bpf_symbol(&code->v, p, &s))
		return false;
	put_name(name_out, &s, "bpf");
	return true;
}

bool ctl_code_name(void *arg, uint64_t address, struct btl_name *name_out)
{
	struct btlogs_code *code = arg;
	struct lnx_symbol s;

	if (!lnx_symbol_at(code->k, GVA(address), &s)) {
		put_name(name_out, &s, "");
		return true;
	}
	const uint32_t i = first_behind(code, address);
	if (i == code->count)
		return false;
	const struct btlogs_place *p = &code->place[i];
	if (p->start > address || p->identity == SEVERAL || p->now == BTL_NONE)
		return false;
	return p->now < LNX_MODULES_MAX
		       ? name_in_module(code, &code->modules.module[p->now], address, name_out)
		       : name_in_program(code, &code->bpf.program[p->now - LNX_MODULES_MAX],
					 name_out);
}
