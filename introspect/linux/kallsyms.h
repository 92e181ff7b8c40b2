/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own symbol table, found and decoded from bare memory. Private to introspect/linux.
 */
#ifndef INTROSPECT_LINUX_KALLSYMS_H
#define INTROSPECT_LINUX_KALLSYMS_H

/*
 * The tables lie in .rodata (scripts/kallsyms.c). What differs between kernels is their order and
 * how an address is encoded; which it is, is decided by which reading makes the table sorted, never
 * by a version (6.1 stable took 6.2's tables):
 *
 *   style A  offsets u32[n], relative_base u64, num_syms u32, names, markers u32[],
 *            (seqs_of_names u8[3n],) token_table, token_index u16[256]
 *   style B  num_syms, names, markers, token_table, token_index, offsets u32[n], relative_base,
 *            (seqs_of_names)
 *   style C  as B, but offsets s32[n] count from their own place, and there is no relative_base
 *
 * Up to 15 zero bytes may lie between two tables.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The tables of the largest kernel seen (7.3, 240,018 symbols) span 6 MiB around token_index. */
#define KALLSYMS_REACH_BEFORE (UINT64_C(8) << 20)
#define KALLSYMS_REACH_AFTER  (UINT64_C(4) << 20)

#define KALLSYMS_MIN_SYMS 1024
#define KALLSYMS_MAX_SYMS (1u << 21)

struct kallsyms {
	char style; /* 'A', 'B', 'C' */
	/*
	 * Addresses are guest-virtual; else they count from the bytes they were found in (style C),
	 * or from relative_base (A and B of an image that was never relocated).
	 */
	bool absolute;
	uint32_t n;
	uint64_t relative_base; /* styles A and B */
	uint64_t base_at;	/* offset of relative_base in the bytes it was found in */
	uint64_t token_table;	/* ... of token_table */
	uint64_t names_at;	/* ... of names */
	uint64_t *address;	/* n, ascending; style C: offset in those bytes + bias */
	uint32_t *name_offset;	/* n, into names */
	uint8_t *names;		/* compressed */
	size_t names_size;
	char tokens[4096 + 1]; /* token_table, every token terminated */
	uint16_t token_index[256];
	uint32_t *hash; /* open addressing, index + 1; hash_size is a power of two */
	uint32_t hash_size;
};

/**
 * Where the next token_index may begin: 256 ascending u16 of which the first is 0.
 *
 * @param data, size  the bytes to look through
 * @param from        offset to start at
 * @return offset of the candidate, or @p size when there is none (more)
 */
size_t kallsyms_next_candidate(const uint8_t *data, size_t size, size_t from);

/** Whether the bytes before a candidate really are a token table, which tells nearly all others
 * apart. */
bool kallsyms_has_tokens(const uint8_t *data, size_t size, size_t token_index);

/**
 * Decode the tables around a candidate.
 *
 * @param data, size   bytes that hold all tables: KALLSYMS_REACH_… around the candidate where there
 * are
 * @param token_index  offset of the candidate in them
 * @param is_file      the bytes are an image that was never relocated: its base may still be 0
 * @param ks_out       freed by kallsyms_deinit(), also after a failure
 * @return GS_OK; GS_ENOENT: not the tables; GS_EMALFORMED: they are, but no encoding of the
 * addresses makes them ascend; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code kallsyms_decode(const uint8_t *data, size_t size, size_t token_index,
					 bool is_file, struct kallsyms *ks_out,
					 struct gs_error *err);

/** Whether a word is an address in the kernel's half, as a base that was relocated is. */
static inline bool kallsyms_is_address(uint64_t word)
{
	return word >> 52 == 0xfff;
}

/** Whether both are the table of one build, wherever it was loaded. */
bool kallsyms_is_same(const struct kallsyms *a, const struct kallsyms *b);

/** @return GS_OK; GS_ENOSPC. @p to: freed by kallsyms_deinit(), also after a failure */
GS_MUST_USE enum gs_code kallsyms_copy(const struct kallsyms *from, struct kallsyms *to);

void kallsyms_deinit(struct kallsyms *ks);

/** Move all addresses of a table that is not absolute to where the image really is. */
void kallsyms_rebase(struct kallsyms *ks, uint64_t delta);

/**
 * Expand the name of symbol @p i.
 *
 * @param type_out  nm letter; may be NULL
 * @param name      gets it, terminated, cut at @p size
 */
void kallsyms_name(const struct kallsyms *ks, uint32_t i, char *type_out, char *name, size_t size);

/** Index of the first symbol above @p address; the one that covers it is before. */
uint32_t kallsyms_upper_bound(const struct kallsyms *ks, uint64_t address);

/**
 * The symbols with a name, one a call, ascending by address.
 *
 * @param passed  0 at first; kept between the calls
 * @return false: there is no further one
 */
bool kallsyms_next_named(const struct kallsyms *ks, const char *name, uint32_t *passed,
			 uint64_t *address_out);

/** Lowest address of a name. @return GS_OK, GS_ENOENT */
GS_MUST_USE enum gs_code kallsyms_find(const struct kallsyms *ks, const char *name,
				       uint64_t *address_out);

#endif
