/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may ask for. docs/stackshot.md has the table for people. */
#include "introspect/stackshot/request.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/stackshot/records.h"
#include "kcdata/stackshot_types.h"

/* In the order of their values; what is not here is no flag. */
static const struct {
	uint64_t flag;
	const char *name;
	const char *refused; /* why; NULL: it has a meaning here */
} flags[] = {
	{ KCD_SS_GET_DQ, "GET_DQ", "Linux has no dispatch queues" },
	{ KCD_SS_SAVE_LOADINFO, "SAVE_LOADINFO", "load addresses of programs are not recorded" },
	{ KCD_SS_GET_GLOBAL_MEM_STATS, "GET_GLOBAL_MEM_STATS", NULL },
	{ KCD_SS_SAVE_KEXT_LOADINFO, "SAVE_KEXT_LOADINFO", NULL },
	{ KCD_SS_ACTIVE_KERNEL_THREADS_ONLY, "ACTIVE_KERNEL_THREADS_ONLY", NULL },
	{ KCD_SS_GET_BOOT_PROFILE, "GET_BOOT_PROFILE", "there is no boot profile" },
	{ KCD_SS_DO_COMPRESS, "DO_COMPRESS", "compress the finished capture" },
	{ KCD_SS_SAVE_IMP_DONATION_PIDS, "SAVE_IMP_DONATION_PIDS", "Linux donates no importance" },
	{ KCD_SS_SAVE_IN_KERNEL_BUFFER, "SAVE_IN_KERNEL_BUFFER", NULL },
	{ KCD_SS_RETRIEVE_EXISTING_BUFFER, "RETRIEVE_EXISTING_BUFFER", NULL },
	{ KCD_SS_KCDATA_FORMAT, "KCDATA_FORMAT", NULL },
	{ KCD_SS_ENABLE_BT_FAULTING, "ENABLE_BT_FAULTING", "a guest's pages are not faulted in" },
	{ KCD_SS_COLLECT_DELTA_SNAPSHOT, "COLLECT_DELTA_SNAPSHOT", NULL },
	{ KCD_SS_COLLECT_SHAREDCACHE_LAYOUT, "COLLECT_SHAREDCACHE_LAYOUT",
	  "Linux has no shared cache" },
	{ KCD_SS_TRYLOCK, "TRYLOCK", NULL },
	{ KCD_SS_ENABLE_UUID_FAULTING, "ENABLE_UUID_FAULTING",
	  "a guest's pages are not faulted in" },
	{ KCD_SS_FROM_PANIC, "FROM_PANIC", NULL },
	{ KCD_SS_NO_IO_STATS, "NO_IO_STATS", NULL },
	{ KCD_SS_REQ_THREAD_WAITINFO, "THREAD_WAITINFO", NULL },
	{ KCD_SS_REQ_THREAD_GROUP, "THREAD_GROUP", "Linux has no thread groups of that kind" },
	{ KCD_SS_SAVE_JETSAM_COALITIONS, "SAVE_JETSAM_COALITIONS", "Linux has no coalitions" },
	{ KCD_SS_REQ_INSTRS_CYCLES, "INSTRS_CYCLES", "Linux does not count them for each thread" },
	{ KCD_SS_REQ_ASID, "ASID", NULL },
	{ KCD_SS_REQ_PAGE_TABLES, "PAGE_TABLES", NULL },
	{ KCD_SS_DISABLE_LATENCY_INFO, "DISABLE_LATENCY_INFO", NULL },
	{ KCD_SS_SAVE_DYLD_COMPACTINFO, "SAVE_DYLD_COMPACTINFO", "Linux has no dyld" },
	{ KCD_SS_INCLUDE_DRIVER_THREADS, "INCLUDE_DRIVER_THREADS_IN_KERNEL",
	  "Linux has no drivers outside of its kernel" },
	{ KCD_SS_REQ_EXCLAVES, "EXCLAVES", "Linux has no exclaves" },
	{ KCD_SS_SKIP_EXCLAVES, "SKIP_EXCLAVES", "Linux has no exclaves" },
	{ SS_LATENCY_INFO, "LATENCY_INFO", NULL },
	{ SS_USER_STACKS, "USER_STACKS", NULL },
	{ SS_CONTEXT, "CONTEXT", NULL },
	{ SS_KERNEL_LOG, "KERNEL_LOG", NULL },
	{ SS_NO_PROCESSES, "NO_PROCESSES", NULL },
};

uint64_t ss_request_flag(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (!strcmp(name, flags[i].name))
			return flags[i].flag;
	return 0;
}

const char *ss_request_flag_name(uint64_t flag)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (flags[i].flag == flag)
			return flags[i].name;
	return NULL;
}

static enum gs_code check_flags(const struct ss_request *q, struct gs_error *err)
{
	uint64_t left = q->flags;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (!(left & flags[i].flag))
			continue;
		left &= ~flags[i].flag;
		if (flags[i].refused)
			return gs_fail(err, GS_ENOTSUP, "request flag %s: %s", flags[i].name,
				       flags[i].refused);
	}
	if (left)
		return gs_fail(err, GS_EINVAL, "unknown request flags %#" PRIx64, left);
	return GS_OK;
}

/* Two flags, or a flag and something else, that exclude each other. */
static enum gs_code check_combinations(const struct ss_request *q, struct gs_error *err)
{
	const uint64_t f = q->flags;
	const bool delta = f & KCD_SS_COLLECT_DELTA_SNAPSHOT;
	const bool retrieve = f & KCD_SS_RETRIEVE_EXISTING_BUFFER;

	if (delta && !q->since_ns)
		return gs_fail(err, GS_EINVAL, "a delta capture without a time to compare with");
	if (!delta && q->since_ns)
		return gs_fail(err, GS_EINVAL,
			       "a time to compare with, but no delta capture is asked for");
	if (q->since_ns > gs_clock_ns())
		return gs_fail(err, GS_EINVAL, "a time to compare with that is still to come");
	if (delta && q->pid != SS_PID_ALL)
		return gs_fail(err, GS_EINVAL, "a delta capture of one process");
	if (delta && (f & (KCD_SS_REQ_PAGE_TABLES | KCD_SS_FROM_PANIC)))
		return gs_fail(err, GS_EINVAL, "a delta capture in a panic, or of page tables");
	if (delta && (f & KCD_SS_REQ_THREAD_WAITINFO))
		return gs_fail(err, GS_EINVAL,
			       "a delta capture of what threads wait for: a lock goes to another "
			       "owner while those that wait for it stay as they are");
	if ((f & KCD_SS_REQ_PAGE_TABLES) && q->pid == SS_PID_ALL)
		return gs_fail(err, GS_EINVAL, "page tables are captured of one process: pid");
	if (!(f & KCD_SS_REQ_PAGE_TABLES) && q->pagetable_mask)
		return gs_fail(err, GS_EINVAL, "a page table mask, but no page tables");
	if (q->pagetable_mask && !(q->pagetable_mask & SS_PAGETABLE_LEVELS))
		return gs_fail(err, GS_EINVAL,
			       "page table mask %#" PRIx64
			       " has none of the levels' bits %#" PRIx64,
			       q->pagetable_mask, SS_PAGETABLE_LEVELS);
	if (delta && (f & SS_CONTEXT))
		return gs_fail(err, GS_EINVAL,
			       "a delta capture with CONTEXT: signals, say, come to threads that "
			       "do not run");
	if ((f & SS_NO_PROCESSES) && (delta || q->pid != SS_PID_ALL))
		return gs_fail(err, GS_EINVAL,
			       "a delta capture, or one of one process, without processes");
	if (retrieve &&
	    (f & ~(KCD_SS_RETRIEVE_EXISTING_BUFFER | KCD_SS_KCDATA_FORMAT | KCD_SS_TRYLOCK)))
		return gs_fail(
			err, GS_EINVAL,
			"a saved capture is retrieved as it is: other flags have no meaning");
	if (retrieve && (q->pid != SS_PID_ALL || q->threads_max || q->size_hint || q->deadline_ns))
		return gs_fail(err, GS_EINVAL,
			       "a saved capture is retrieved as it is: a process, limits and a "
			       "deadline have no meaning");
	if (q->cause && q->cause->console_lines > SS_CONSOLE_LINES)
		return gs_fail(err, GS_EINVAL, "%" PRIu32 " lines of the console: at most %d",
			       q->cause->console_lines, SS_CONSOLE_LINES);
	if ((f & KCD_SS_FROM_PANIC) && (f & (KCD_SS_TRYLOCK | KCD_SS_SAVE_IN_KERNEL_BUFFER)))
		return gs_fail(err, GS_EINVAL, "a panic capture takes no lock and saves nothing");
	if ((f & SS_LATENCY_INFO) && (f & KCD_SS_DISABLE_LATENCY_INFO))
		return gs_fail(err, GS_EINVAL, "LATENCY_INFO with DISABLE_LATENCY_INFO");
	return GS_OK;
}

enum gs_code ss_request_check(const struct ss_request *q, uint64_t size_max, struct gs_error *err)
{
	if (q->version != SS_REQUEST_VERSION)
		return gs_fail(err, GS_EINVAL, "request version %" PRIu32 ": only %d is known",
			       q->version, SS_REQUEST_VERSION);
	if (q->size != sizeof(*q))
		return gs_fail(err, GS_EINVAL, "request of %" PRIu32 " bytes instead of %zu",
			       q->size, sizeof(*q));
	enum gs_code rc = check_flags(q, err);
	if (!rc)
		rc = check_combinations(q, err);
	if (rc)
		return rc;
	if (q->pid < SS_PID_ALL || q->pid == 0)
		return gs_fail(err, GS_EINVAL, "pid %" PRId32 " is no process", q->pid);
	if (q->size_hint > size_max)
		return gs_fail(err, GS_EINVAL, "size hint of %" PRIu64 " bytes: at most %" PRIu64,
			       q->size_hint, size_max);
	return GS_OK;
}

bool ss_request_is_parallel(const struct ss_request *q)
{
	return q->pid == SS_PID_ALL &&
	       !(q->flags & (KCD_SS_FROM_PANIC | KCD_SS_REQ_PAGE_TABLES | SS_NO_PROCESSES));
}
