/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, namespaces and user memory of a made-up Linux guest. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <string.h>

/* A page with css_set, cgroup and the nodes of its path, innermost last, and their names. */
#define NODE_AT(i) (0x100 + 0x40 * (uint64_t)(i))
#define NAME_AT(i) (0x800 + 0x101 * (uint64_t)(i)) /* aligned to nothing */

void lg_set_cgroup(struct linux_guest *g, struct lg_thread *t, const char *path)
{
	const uint64_t pa = lg_pages(g, 1), va = lg_linear(g, pa);
	uint8_t *page = lg_at(g, pa);
	uint32_t nodes = 1;

	*(struct lg_kernfs_node *)(void *)(page + NODE_AT(0)) =
		(struct lg_kernfs_node){ .name = va + NAME_AT(0) };
	for (const char *at = path; *at && at[1]; nodes++) {
		const size_t len = strcspn(at + 1, "/");

		ck_assert_uint_lt(NAME_AT(nodes) + len + 1, 4096);
		memcpy(page + NAME_AT(nodes), at + 1, len);
		*(struct lg_kernfs_node *)(void *)(page + NODE_AT(nodes)) =
			(struct lg_kernfs_node){ .parent = va + NODE_AT(nodes - 1),
						 .name = va + NAME_AT(nodes) };
		at += 1 + len;
	}
	*(struct lg_css_set *)(void *)page = (struct lg_css_set){ .dfl_cgrp = va + 0x40 };
	*(struct lg_cgroup *)(void *)(page + 0x40) =
		(struct lg_cgroup){ .kn = va + NODE_AT(nodes - 1) };
	t->task->cgroups = va;
}

struct lg_nsproxy *lg_set_namespaces(struct linux_guest *g, struct lg_thread *t, uint32_t first)
{
	const uint64_t pa = lg_pages(g, 1), va = lg_linear(g, pa);
	uint8_t *page = lg_at(g, pa);
	struct lg_nsproxy *proxy = (void *)page;
	uint64_t *pointer = &proxy->uts;

	for (uint32_t i = 0; i < 7; i++) {
		struct lg_namespace *ns = (void *)(page + 0x100 * (i + 1));

		ns->inum = first + i;
		pointer[i] = va + 0x100 * (i + 1);
	}
	t->task->nsproxy = va;
	return proxy;
}

uint8_t *lg_user_page(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	const uint64_t pa = lg_pages(g, 1);

	*lg_entry(g, lg_directory(g, mm), va) = pa | 0xfc3; // read and write in EL0
	return lg_at(g, pa);
}
