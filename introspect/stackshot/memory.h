/* SPDX-License-Identifier: Apache-2.0 */
/* What captures say of memory and of the kernel itself, when they are asked for it. Private. */
#ifndef INTROSPECT_STACKSHOT_MEMORY_H
#define INTROSPECT_STACKSHOT_MEMORY_H

/*
 * Page counts of the guest (GET_GLOBAL_MEM_STATS), where the kernel lies (SAVE_KEXT_LOADINFO), ASIDs
 * (REQ_ASID) and page tables of a process (REQ_PAGE_TABLES). docs/stackshot.md says what the records
 * mean.
 */

#include "introspect/stackshot/capture.h"

/** Flags that only a kernel with the right types and symbols lets honour. */
#define SS_MEMORY_FLAGS                                                              \
	(KCD_SS_GET_GLOBAL_MEM_STATS | KCD_SS_SAVE_KEXT_LOADINFO | KCD_SS_REQ_ASID | \
	 KCD_SS_REQ_PAGE_TABLES | SS_USER_STACKS)

/** Bytes of records, at least, that a request for page tables is given for the first try; or 0. */
uint64_t ss_memory_room(const struct ss_request *q);

/**
 * See which of these flags can be honoured, and read what is read once.
 * Legal while the guest is stopped; before the workers begin, who go by the try's honoured.
 */
void ss_memory_begin(struct ss_engine *e);

/** ... and which of them were, with the guest running again. */
void ss_memory_end(struct ss_engine *e);

/** Read ahead what ss_write_memory() reads of a process, in the rounds of lnx_prefetch(). */
void ss_memory_prefetch_entry(struct ss_worker *w, const struct lnx_task *leader);
void ss_memory_prefetch(struct ss_worker *w, const struct lnx_task *leader);

/**
 * Write what was asked for of a process's memory, last in its container: want of time or room then
 * costs that, and no thread. What cannot be read is noted, and is no failure.
 *
 * @param mm   its struct mm_struct; 0: it has none, and there is nothing to write
 * @param cut  GS_OK, or what has ended the capture: then all is noted as missing
 * @return GS_OK; @p cut; GS_ETIMEDOUT, GS_EBUSY: as ss_context_check(); GS_ENOSPC: no room
 */
GS_MUST_USE enum gs_code ss_write_memory(struct ss_worker *w, struct ss_item *item,
					 const struct lnx_task *leader, gva_t mm, enum gs_code cut);

/** Write where the kernel lies, if asked for, into the idle task's container. @return GS_OK; GS_ENOSPC */
GS_MUST_USE enum gs_code ss_write_load_info(struct ss_worker *w);

/** Write the levels of page tables that are selected, and the page counts, into the head. */
KCD_MUST_USE enum kcd_code ss_write_pagetable_mask(struct kcd_writer *out, const struct ss_try *t);
KCD_MUST_USE enum kcd_code ss_write_page_counts(struct kcd_writer *out, const struct ss_try *t);

#endif
