/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and BPF programs of a guest, to name frames of its backtrace logs. Private to control. */
#ifndef CONTROL_BTLOGS_CODE_H
#define CONTROL_BTLOGS_CODE_H

/*
 * A log has addresses, and what is at an address outside of the kernel's image changes while the guest runs.
 * So all that is known of it is put together: a capture says which modules and programs its frames lie in,
 * and their lists are read with each capture, once a second while vCPUs are sampled or there is a session of tracing,
 * when a sample lies where nothing is known to be, and when a log is read. A place in which all of these saw one and the same module or
 * program has names, if it is still there when the log is read. A place that several have had, one after the
 * other, and one that was met before it was known has none.
 */

#include "introspect/btlog/book.h"
#include "introspect/linux/linux.h"

/** What has been at some addresses. */
struct btlogs_place {
	uint64_t start, end;
	uint64_t identity; /* of what is there, a hash; 0: several have been, or it is not known */
	uint32_t now; /* index in modules, or LNX_MODULES_MAX and that in bpf; BTL_NONE: gone */
};

struct btlogs_code {
	const struct lnx_kernel *k;
	const struct guest *g;
	uint64_t image, image_size;
	struct btlogs_place *place; /* ascending, none overlaps another one */
	uint32_t count, room;
	struct lnx_modules modules; /* as they were when last looked at */
	struct lnx_bpf bpf;
	struct lnx_view v;
	uint32_t symbols_left;
	struct lnx_module_symbols symbols; /* of modules.module[symbols_of] */
	uint32_t symbols_of;		   /* LNX_MODULES_MAX: of none */
};

/** @return returned: free with ctl_code_destroy(); NULL: out of memory. Both arguments are borrowed. */
struct btlogs_code *ctl_code_create(const struct lnx_kernel *k, const struct guest *g);
void ctl_code_destroy(struct btlogs_code *code); /* NULL is fine */

/** Forget all that was seen: the logs are empty. */
void ctl_code_forget(struct btlogs_code *code);

/** See what there is now. The guest may be running; what cannot be remembered is not named. */
void ctl_code_look(struct btlogs_code *code);

/** See what a capture says of its frames; before they are met, and before ctl_code_look(). */
void ctl_code_see_capture(struct btlogs_code *code, const void *data, size_t size);

/** Whether it is known what all frames (as btlog.h has them) lie in. */
bool ctl_code_knows(const struct btlogs_code *code, const uint64_t *frames, uint32_t n);

/** These frames are in a log from now on: where nothing is known to be, nothing will have names. */
void ctl_code_meet(struct btlogs_code *code, const uint64_t *frames, uint32_t n);

/** For btl_book_take(), soon after ctl_code_look(): functions of the image, modules, BPF programs. */
bool ctl_code_name(void *code, uint64_t address, struct btl_name *name_out);

#endif
