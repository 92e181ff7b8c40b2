/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles are made of: BTF, DWARF, symbol files. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_LAYOUTS_H
#define INTROSPECT_LINUX_LAYOUTS_H

#include <jansson.h>

#include "introspect/linux/linux.h"
#include "introspect/linux/types.h"

/** Files larger than this are no kernels and no symbol files: 47 MB and 60 MB are the largest seen. */
#define LNX_INPUT_MAX (UINT64_C(256) << 20)

/** Type information of a kernel, whatever its form. Zeroed: none. */
struct lnx_layouts {
	void *priv;
	const struct lnx_layouts_ops *ops;
	char banner[LNX_BANNER_MAX]; /* one line; "": not known */
	bool has_build_id;
	uint8_t build_id[LNX_BUILD_ID];
};

/** All answer false for what the input does not have, or has in a way that makes no sense. */
struct lnx_layouts_ops {
	/** Bytes of a structure. */
	bool (*size)(void *priv, const char *in, uint32_t *size_out);
	/** A member by its path, "a.b", which lies inside of its structure. */
	bool (*member)(void *priv, const char *in, const char *path, struct lnx_field *field_out);
	/** A per-CPU variable, from __per_cpu_start on. */
	bool (*percpu)(void *priv, const char *name, struct lnx_field *field_out);
	/** The value of an enumerator, below LNX_ELEMENTS_MAX. */
	bool (*enumerator)(void *priv, const char *in, const char *name, uint32_t *value_out);
	void (*close)(void *priv);
};

/** Safe on a zeroed one, and twice. */
static inline void lnx_layouts_close(struct lnx_layouts *l)
{
	if (l->ops)
		l->ops->close(l->priv);
	l->ops = NULL;
}

/*
 * The forms. Each reads hostile input; banner and build id are filled where it has them.
 *
 * @param layouts_out zeroed; end with lnx_layouts_close()
 * @return GS_OK; GS_EMALFORMED, GS_ETOOBIG: not what it should be; GS_ENOENT: has none of this kind;
 *         GS_ENOSPC: out of memory; GS_ESYS: the file
 */
GS_MUST_USE enum gs_code lnx_layouts_open_btf(const void *blob, size_t size,
					      struct lnx_layouts *layouts_out,
					      struct gs_error *err);
struct btf;
/** The types themselves; end with btf__free(). @return as lnx_layouts_open_btf() */
GS_MUST_USE enum gs_code lnx_btf_open(const void *blob, size_t size, struct btf **btf_out,
				      struct gs_error *err);
/** @param fd an ELF file; borrowed until the end */
GS_MUST_USE enum gs_code lnx_layouts_open_dwarf(int fd, struct lnx_layouts *layouts_out,
						struct gs_error *err);
/** @param text what Volatility 3 reads; borrowed for the call */
GS_MUST_USE enum gs_code lnx_layouts_open_symbol_file(const char *text, size_t size,
						      struct lnx_layouts *layouts_out,
						      struct gs_error *err);

/** Longest name of a member or an enumerator, NUL included. */
#define LNX_NAME_SIZE 128

/**
 * A member by its place in the table of types.c.
 *
 * @param path_out the name it has here: of alternatives, the first that is there
 * @return false: it has none
 */
GS_MUST_USE bool lnx_layouts_member(const struct lnx_layouts *l, enum lnx_member m,
				    char path_out[static LNX_NAME_SIZE],
				    struct lnx_field *field_out);

/** The same for a counter's enumerator in the enumeration of nodes, or of zones. */
GS_MUST_USE bool lnx_layouts_counter(const struct lnx_layouts *l, bool of_nodes, enum lnx_counter c,
				     char name_out[static LNX_NAME_SIZE], uint32_t *index_out);

/** All that the tables ask for. @return as lnx_types_read() */
GS_MUST_USE enum gs_code lnx_layouts_read(const struct lnx_layouts *l, struct lnx_types *types_out,
					  struct gs_error *err);

/** The version of the form (docs/profiles.md). */
#define LNX_PROFILE_VERSION 1

/** The first banner in @p size bytes. @param banner_out room for LNX_BANNER_MAX; left alone: none */
void lnx_banner_find(const uint8_t *bytes, size_t size, char *banner_out);

/** What a profile says, checked. @return as lnx_profile_open(), but for the file */
GS_MUST_USE enum gs_code lnx_profile_take(const json_t *root, struct lnx_types *types_out,
					  struct gs_error *err);

#endif
