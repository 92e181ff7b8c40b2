/* SPDX-License-Identifier: Apache-2.0 */
/* The other judge: who has called whom, by the call frame information of the kernel's vmlinux. */
#ifndef TESTS_E2E_STEPS_CFI_H
#define TESTS_E2E_STEPS_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include <elfutils/libdw.h>

#include "base/error.h"
#include "introspect/linux/linux.h"

struct cfi_function {
	uint64_t start, end; /* at link time */
};

struct cfi {
	int fd;
	Dwarf *dwarf;
	Dwarf_CFI *table;
	struct cfi_function *functions; /* sorted */
	size_t function_count;
	uint64_t entry_start, entry_end, text; /* at link time */
	uint64_t slide;			       /* address in the guest, minus that */
	uint64_t stack_size, pt_regs_size;
	unsigned int va_bits;
};

enum cfi_end {
	CFI_COMPLETE,
	CFI_BARE,	/* code of which neither CFI nor a rule tells */
	CFI_UNREADABLE, /* memory */
	CFI_ENDLESS
};

struct cfi_frame {
	uint64_t address;
	bool is_exact; /* where it stopped or was interrupted; else a return address */
};

struct cfi_chain {
	enum cfi_end end;
	uint32_t count;
	struct cfi_frame frame[LNX_FRAMES_MAX];
	bool has_link; /* the return address of the innermost function was in x30 */
	uint32_t interrupts;
};

/**
 * Open the vmlinux of a kernel.
 *
 * @param pt_regs_size  bytes of the structure
 * @return GS_OK; GS_ENOENT: its build id is not the kernel's; GS_EMALFORMED, GS_ESYS
 */
GS_MUST_USE enum gs_code cfi_open(struct cfi *c, const char *path, const struct lnx_kernel *k,
				  uint64_t pt_regs_size, struct gs_error *err);
void cfi_close(struct cfi *c);

/** Unwind a vCPU that has stopped in the kernel. */
void cfi_unwind(const struct cfi *c, struct lnx_view *v, const struct guest_vcpu_regs *regs,
		struct cfi_chain *chain);

#endif
