/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of kallsyms from a list of symbols, in each of the styles kernels have had. */
#ifndef TESTS_UNIT_LINUX_SYMTAB_H
#define TESTS_UNIT_LINUX_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symtab_symbol {
	uint64_t address;
	const char *name;
	char type;
};

/* Zeros between two tables: before ... */
struct symtab_padding {
	unsigned int base, num_syms, names, markers, token_table, token_index, offsets, seqs;
};

struct symtab_form {
	char style;	/* 'A', 'B', 'C': see introspect/linux/kallsyms.h */
	bool seqs;	/* A and B; C has them always */
	bool no_digits; /* the codes '0' … '9' stand for something else, as may happen */
	bool long_tokens;
	uint8_t seqs_fill;	   /* not 0: instead of what seqs_of_names should be */
	uint64_t base;		   /* relative_base; 0: that of the first symbol */
	uint64_t place;		   /* virtual address of the first byte, for style C */
	struct symtab_padding pad; /* on top of the alignment to 4 (C) or 8 */
};

struct symtab {
	uint8_t *data;
	size_t size, room; /* bytes used and allocated */
	/* offsets; SIZE_MAX: not in this style */
	size_t num_syms, names, markers, token_table, token_index, offsets, base, seqs;
};

/** @param symbols  ascending addresses. The result is freed by symtab_free(). */
struct symtab symtab_make(const struct symtab_symbol *symbols, uint32_t n,
			  const struct symtab_form *form);

void symtab_free(struct symtab *t);

/** Offset in names of the entry of symbol @p i. */
size_t symtab_entry(const struct symtab *t, uint32_t i);

#endif
