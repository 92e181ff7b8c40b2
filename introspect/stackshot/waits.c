/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for, as records. */
#include <string.h>

#include "introspect/stackshot/capture.h"
#include "kcdata/stackshot_types.h"

/* The thread that a task is; only ones that an owner word led to get here. */
static void set_owner(struct ss_worker *w, gva_t owner, struct ss_wait_record *r)
{
	struct lnx_task t;

	if (!owner.a || lnx_task_read(&w->v, owner, &t))
		return;
	r->owner = ss_unique_id(&t);
	r->owner_tid = t.pid;
}

uint32_t ss_find_waits(struct ss_worker *w, const struct ss_slot *slot,
		       struct ss_wait_record waits_out[static LNX_WAITS_MAX])
{
	struct lnx_wait found[LNX_WAITS_MAX];

	if (!(w->e->t.honoured & KCD_SS_REQ_THREAD_WAITINFO) || slot->vcpu >= 0)
		return 0;
	const uint32_t n = lnx_waits_find(&w->v, &slot->task, &slot->stack, w->stack, found);
	for (uint32_t i = 0; i < n; i++) {
		waits_out[i] = (struct ss_wait_record){ .kind = found[i].kind,
							.owner_tid = -1,
							.object = found[i].object,
							.extra = found[i].extra,
							.device = found[i].device,
							.inode = found[i].inode };
		set_owner(w, found[i].owner, &waits_out[i]);
	}
	return n;
}

/* The original's type of a wait; KCD_WAIT_NONE: it has none. */
static uint8_t stock_type(uint32_t kind)
{
	switch (kind) {
	case LNX_WAIT_MUTEX: return KCD_WAIT_KERNEL_MUTEX;
	case LNX_WAIT_RWSEM_READ: return KCD_WAIT_KERNEL_RWLOCK_READ;
	case LNX_WAIT_RWSEM_WRITE: return KCD_WAIT_KERNEL_RWLOCK_WRITE;
	case LNX_WAIT_RT_MUTEX: return KCD_WAIT_KERNEL_MUTEX;
	case LNX_WAIT_SEMAPHORE: return KCD_WAIT_SEMAPHORE;
	case LNX_WAIT_FUTEX: return KCD_WAIT_USER_LOCK;
	default: return KCD_WAIT_NONE;
	}
}

enum gs_code ss_write_waitinfo(struct ss_worker *w, uint64_t id, const struct ss_wait_record *waits,
			       uint32_t n)
{
	struct kcd_thread_waitinfo_v2 info[LNX_WAITS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint8_t type = stock_type(waits[i].kind);

		if (type != KCD_WAIT_NONE)
			info[count++] = (struct kcd_thread_waitinfo_v2){ .owner = waits[i].owner,
									 .waiter = id,
									 .context = waits[i].object,
									 .wait_type = type };
	}
	return count ? ss_code(kcd_append_array(&w->out, KCD_SS_THREAD_WAITINFO, count,
						sizeof(info[0]), info))
		     : GS_OK;
}
