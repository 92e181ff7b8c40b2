/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded modules of a made-up Linux guest. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define LIST offsetof(struct lg_module, list)

static void map_text(struct linux_guest *g, uint64_t text)
{
	if (!*lg_entry(g, g->swapper, text))
		lg_map(g, text, lg_code_page(g), true);
}

static void put_on_list(struct linux_guest *g, uint64_t head, uint64_t node)
{
	const uint64_t last = *lg_word(g, head + 8);

	*lg_word(g, node) = head;
	*lg_word(g, node + 8) = last;
	*lg_word(g, last) = node;
	*lg_word(g, head + 8) = node;
}

struct lg_loaded lg_load_module(struct linux_guest *g, const char *name, uint64_t text)
{
	const uint64_t pa = lg_pages(g, 3);
	struct lg_loaded l = {
		.address = lg_linear(g, pa),
		.m = lg_at(g, pa),
		.kallsyms = lg_at(g, pa + 0x800),
		.symtab = lg_at(g, pa + g->page),
		.strtab = lg_at(g, pa + 2 * g->page),
		.strtab_used = 1,
	};

	_Static_assert(sizeof(struct lg_module) <= 0x800, "the table is behind it");
	map_text(g, text);
	snprintf(l.m->name, sizeof(l.m->name), "%s", name);
	memset(l.m->build_id, name[0], sizeof(l.m->build_id));
	l.m->kallsyms = l.address + 0x800;
	l.kallsyms->symtab = l.address + g->page;
	l.kallsyms->strtab = l.address + 2 * g->page;
	l.kallsyms->num_symtab = 1;
	l.m->core_layout = (struct lg_layout){ text, 0x3000, (uint32_t)g->page, 0x2000, 0 };
	l.m->mem[LG_MEM_TEXT] = (struct lg_memory){ text, 1, (uint32_t)g->page, { 0 } };
	// what is not text must not be taken for it
	l.m->mem[LG_MEM_TEXT + 1] = (struct lg_memory){ l.address, 0, (uint32_t)g->page, { 0 } };
	put_on_list(g, lg_image_va(g, LG_MODULES), l.address + LIST);
	return l;
}

void lg_module_init_text(struct linux_guest *g, struct lg_loaded *l, uint64_t text)
{
	const uint32_t size = text ? (uint32_t)g->page : 0;

	if (text)
		map_text(g, text);
	l->m->init_layout = (struct lg_layout){ text, size, size, 0, 0 };
	l->m->mem[LG_MEM_INIT] = (struct lg_memory){ text, 1, size, { 0 } };
}

uint32_t lg_module_symbol(struct lg_loaded *l, const char *name, uint64_t value)
{
	const uint32_t index = l->kallsyms->num_symtab++;

	ck_assert_uint_lt((index + 1) * sizeof(Elf64_Sym), 4096);
	ck_assert_uint_lt(l->strtab_used + strlen(name) + 1, 4096);
	l->symtab[index] = (Elf64_Sym){
		.st_name = l->strtab_used,
		.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		.st_shndx = 2,
		.st_value = value,
		.st_size = 4, // the kernel does not look at it
	};
	strcpy(l->strtab + l->strtab_used, name);
	l->strtab_used += (uint32_t)strlen(name) + 1;
	return index;
}

void lg_unload_module(struct linux_guest *g, const struct lg_loaded *l)
{
	const struct lg_list list = l->m->list;

	*lg_word(g, list.next + 8) = list.prev;
	*lg_word(g, list.prev) = list.next;
}

struct lg_bpf_ksym *lg_load_program(struct linux_guest *g, const char *name, uint64_t start,
				    uint64_t size, uint64_t *address_out)
{
	const uint64_t pa = lg_pages(g, 1);
	struct lg_bpf_ksym *p = lg_at(g, pa);

	for (uint64_t at = start & ~(g->page - 1); at < start + size; at += g->page)
		map_text(g, at);
	p->start = start;
	p->end = start + size;
	snprintf(p->name, sizeof(p->name), "%s", name);
	*address_out = lg_linear(g, pa);
	put_on_list(g, lg_image_va(g, LG_BPF), *address_out + offsetof(struct lg_bpf_ksym, lnode));
	return p;
}
