/* SPDX-License-Identifier: Apache-2.0 */
/* What is used of libkdumpfile, so that it need not be there when guestshot is built. */
#ifndef INTROSPECT_GUEST_KDUMP_ABI_H
#define INTROSPECT_GUEST_KDUMP_ABI_H

/*
 * From <libkdumpfile/kdumpfile.h> 0.5.1, soname libkdumpfile.so.10, which 0.5.4 still has. A unit
 * test holds this against the real header where that is installed.
 */

#include <stddef.h>
#include <stdint.h>

#define KDUMP_ABI_SONAME  "libkdumpfile.so.10"
#define KDUMP_ABI_PACKAGE "libkdumpfile10"

enum kdump_abi_status {
	KDUMP_ABI_OK = 0,
	KDUMP_ABI_ERR_NOTIMPL = 2,
};

enum {
	KDUMP_ABI_MACHPHYSADDR = 1, /* address space */
	KDUMP_ABI_NUMBER = 2,	    /* type of an attribute */
	KDUMP_ABI_MMAP_NEVER = 0,   /* value of "file.mmap_policy" */
};

struct kdump_abi_attr {
	int type;
	union {
		uint_fast64_t number;
		const void *pointer;
	} val;
};

/* The functions, as they are looked up; the context is opaque. */
struct kdump_abi {
	void *(*new_ctx)(void);
	const char *(*get_err)(void *ctx);
	int (*open_fdset)(void *ctx, unsigned int nfds, const int *fds);
	int (*set_attr)(void *ctx, const char *key, const struct kdump_abi_attr *value);
	int (*read)(void *ctx, int space, uint_fast64_t addr, void *buf, size_t *len);
};

#endif
