/* SPDX-License-Identifier: Apache-2.0 */
/* What any guest is to the introspector: physical memory, vCPU registers, stop and resume. */
#ifndef INTROSPECT_GUEST_GUEST_H
#define INTROSPECT_GUEST_GUEST_H

/*
 * A source of guests (our VMM, built memory in tests; dumps and other VMMs are further files of
 * this room) fills a struct guest; everything above is written against it alone:
 *
 *	enum gs_code rc = guest_stop(g, &err);
 *	if (!rc) {
 *		rc = guest_read(g, GPA(0x40000000), buf, sizeof(buf));
 *		guest_resume(g, NULL);
 *	}
 *
 * Memory is what the guest has as RAM: nothing else can be read, so that no read ever reaches a
 * device. A read outside of RAM is GS_EFAULT and leaves the buffer as it was.
 *
 * Threads: reads may run side by side on one guest. Stop and resume nest and may be called from any
 * thread that is not a vCPU's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "introspect/guest/addr.h"
#include "introspect/guest/breaks.h"

/* Memory ranges a guest may have; a VMM needs a handful, a dump of a fragmented host more. */
#define GUEST_RANGES_MAX 4096
#define GUEST_VCPUS_MAX	 512

#define GUEST_NO_DEADLINE UINT64_MAX

/** A piece of RAM; [start, start + size) does not wrap and overlaps no other. */
struct guest_range {
	gpa_t start;
	uint64_t size;
	const void *host; /* where it is mapped here for reading; NULL: through ops->read */
};

enum guest_vcpu_state {
	GUEST_VCPU_UNKNOWN, /* the source cannot tell */
	GUEST_VCPU_ON,	    /* executes when the guest runs (an idle one included) */
	GUEST_VCPU_OFF,	    /* not started, or off by PSCI: its registers mean nothing */
};

/** Which parts of struct guest_vcpu_regs a source knows. */
enum guest_regs_valid {
	GUEST_REGS_GENERAL = 1u << 0, /* x, pc, pstate, sp_el0, sp_el1 */
	GUEST_REGS_EXC = 1u << 1,     /* elr_el1, spsr_el1 */
	GUEST_REGS_MMU = 1u << 2,     /* ttbr0_el1, ttbr1_el1, tcr_el1, mair_el1, sctlr_el1 */
	GUEST_REGS_VBAR = 1u << 3,    /* vbar_el1 */
	GUEST_REGS_TPIDR = 1u << 4,   /* tpidr_el1 */
	GUEST_REGS_CONTEXT = 1u << 5, /* contextidr_el1 */
	GUEST_REGS_MPIDR = 1u << 6,   /* mpidr_el1 */
	/*
	 * Of the general ones only x29, x30, pc, pstate, sp_el0, sp_el1: what a vCPU that is held alone
	 * has, where the others take time to read. Implied by GENERAL.
	 */
	GUEST_REGS_FRAME = 1u << 7,
};

#define GUEST_REGS_ALL 0x7fu /* what a source may know */

struct guest_vcpu_regs {
	uint32_t valid; /* enum guest_regs_valid */
	enum guest_vcpu_state state;
	uint64_t x[31]; /* x29 frame pointer, x30 link register */
	uint64_t sp_el0;
	uint64_t sp_el1;
	uint64_t pc;
	uint64_t pstate; /* SPSR layout: mode in bits 3:0 */
	uint64_t elr_el1;
	uint64_t spsr_el1;
	uint64_t ttbr0_el1;
	uint64_t ttbr1_el1;
	uint64_t tcr_el1;
	uint64_t mair_el1;
	uint64_t sctlr_el1;
	uint64_t vbar_el1;
	uint64_t tpidr_el1;
	uint64_t contextidr_el1;
	uint64_t mpidr_el1;
};

struct guest;

struct guest_ops {
	/** Returns once every vCPU has left the guest and its registers are saved. Nests. */
	enum gs_code (*stop)(void *priv, struct gs_error *err);
	/** Undoes one stop; the last one lets the vCPUs run again. */
	enum gs_code (*resume)(void *priv, struct gs_error *err);
	/** Registers of vCPU @p vcpu (below vcpu_count); only while it is stopped or held. */
	enum gs_code (*vcpu_regs)(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out);
	/** NULL when each range is mapped. Whole ranges only: the caller has checked them. */
	enum gs_code (*read)(void *priv, gpa_t at, void *buf, size_t len);
	/**
	 * Ask for the cache line that a later read of the byte at @p at will want. NULL when reads
	 * do not come from memory here.
	 */
	void (*prefetch)(void *priv, gpa_t at);
	/**
	 * The first stretch of memory at or after @p from, below @p end, that has ever been
	 * written, so that a search does not make the host allocate the holes. NULL: all has.
	 * @return false when there is none
	 */
	bool (*next_data)(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out);
	/** Stop one vCPU alone; nests. NULL, both: the source can only stop all. */
	enum gs_code (*hold_vcpu)(void *priv, uint32_t vcpu, struct gs_error *err);
	enum gs_code (*release_vcpu)(void *priv, uint32_t vcpu, struct gs_error *err);
	/** See guest_set_deadline(). NULL: stop, reads and resume wait for nobody. */
	uint64_t (*set_deadline)(void *priv, uint64_t deadline_ns);
	const struct guest_break_ops *breaks; /* see breaks.h; NULL: the source takes none */
};

struct guest {
	const struct guest_ops *ops;
	void *priv;
	const char *source; /* short name of where it comes from: "kvm", "memory", … */
	const struct guest_range *ranges; /* ascending, range_count of them */
	uint32_t range_count;
	uint32_t vcpu_count;
	uint32_t cluster_count;	      /* at least 1 */
	const uint32_t *vcpu_cluster; /* cluster of each vCPU, below cluster_count */
};

static inline enum gs_code guest_stop(struct guest *g, struct gs_error *err)
{
	return g->ops->stop(g->priv, err);
}

static inline enum gs_code guest_resume(struct guest *g, struct gs_error *err)
{
	return g->ops->resume(g->priv, err);
}

/**
 * Say until when the guest may be stopped. Call it before a stop; it holds until the guest runs.
 *
 * A source that has to ask somebody for a stop, memory or a resume then
 *
 *	gives up a stop that takes longer: GS_ETIMEDOUT, and the guest is resumed;
 *	fails reads with GS_ETIMEDOUT from the time returned here on, so that the resume that
 *	follows is through by the deadline;
 *	resumes the guest at the deadline if we have not (this process may be stopped, or hang).
 *
 * Memory that is mapped here can be read all the same: who reads looks at the clock, and drops what
 * was read after the time returned here.
 *
 * @param deadline_ns  monotonic time; GUEST_NO_DEADLINE: as long as it takes
 * @return the time by which reading has to end, deadline_ns or somewhat before
 * Threads: not during a stop.
 */
static inline uint64_t guest_set_deadline(struct guest *g, uint64_t deadline_ns)
{
	return g->ops->set_deadline ? g->ops->set_deadline(g->priv, deadline_ns) : deadline_ns;
}

/** Whether there is what unwinding a stack begins with. */
static inline bool guest_regs_have_frame(const struct guest_vcpu_regs *regs)
{
	return regs->valid & (GUEST_REGS_GENERAL | GUEST_REGS_FRAME);
}

/**
 * Take one vCPU out of the guest while the others run: memory may change under the reader. Its
 * registers are those of GUEST_REGS_FRAME, EXC and TPIDR at least.
 *
 * @return GS_OK; GS_ENOTSUP: the source can only stop all; GS_ENOENT: no such vCPU; GS_ETIMEDOUT
 * Threads: as guest_stop(). The guest's clock goes on: keep it short.
 */
static inline enum gs_code guest_hold_vcpu(struct guest *g, uint32_t vcpu, struct gs_error *err)
{
	if (vcpu >= g->vcpu_count)
		return GS_ENOENT;
	return g->ops->hold_vcpu ? g->ops->hold_vcpu(g->priv, vcpu, err) : GS_ENOTSUP;
}

static inline enum gs_code guest_release_vcpu(struct guest *g, uint32_t vcpu, struct gs_error *err)
{
	if (vcpu >= g->vcpu_count)
		return GS_ENOENT;
	return g->ops->release_vcpu ? g->ops->release_vcpu(g->priv, vcpu, err) : GS_ENOTSUP;
}

static inline enum gs_code guest_vcpu_regs(struct guest *g, uint32_t vcpu,
					   struct guest_vcpu_regs *regs_out)
{
	if (vcpu >= g->vcpu_count)
		return GS_ENOENT;
	return g->ops->vcpu_regs(g->priv, vcpu, regs_out);
}

/** Registers of all vCPUs, for @p regs_out[vcpu_count]; all zero where there are none to be had. */
static inline void guest_all_vcpu_regs(struct guest *g, struct guest_vcpu_regs *regs_out)
{
	for (uint32_t i = 0; i < g->vcpu_count; i++)
		if (guest_vcpu_regs(g, i, &regs_out[i]))
			regs_out[i] = (struct guest_vcpu_regs){ 0 };
}

/**
 * The same, of a stop that ends at once: for searches that run beside the guest.
 *
 * @return GS_OK: the guest runs again; others from its stop or resume
 */
GS_MUST_USE static inline enum gs_code guest_regs_of_short_stop(struct guest *g,
								struct guest_vcpu_regs *regs_out,
								struct gs_error *err)
{
	enum gs_code rc = guest_stop(g, err);

	if (rc)
		return rc;
	guest_all_vcpu_regs(g, regs_out);
	return guest_resume(g, err);
}

/** The range that holds @p at, or NULL. */
static inline const struct guest_range *guest_range_find(const struct guest *g, gpa_t at)
{
	uint32_t lo = 0, hi = g->range_count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const struct guest_range *r = &g->ranges[mid];

		if (at.a < r->start.a)
			hi = mid;
		else if (at.a - r->start.a >= r->size)
			lo = mid + 1;
		else
			return r;
	}
	return NULL;
}

/**
 * Copy guest-physical memory; the bytes may span ranges that touch each other.
 *
 * @param g    the guest; borrowed
 * @param at   first byte
 * @param buf  gets @p len bytes; on failure the part before the first unreadable range may be
 *             overwritten, the rest is untouched
 * @return GS_OK; GS_EFAULT: part of it is not RAM, or the source could not read it; GS_ETIMEDOUT:
 *         the source did not answer in time, or the time for reading is over (guest_set_deadline())
 * Threads: any. Allocates nothing; legal while the guest is stopped. The guest may write the bytes
 * meanwhile unless it is stopped: look at the copy only.
 */
GS_MUST_USE static inline enum gs_code guest_read(const struct guest *g, gpa_t at, void *buf,
						  size_t len)
{
	while (len) {
		const struct guest_range *r = guest_range_find(g, at);

		if (!r)
			return GS_EFAULT;
		size_t n = (size_t)gs_min(len, r->size - (at.a - r->start.a));
		if (r->host) {
			memcpy(buf, (const char *)r->host + (at.a - r->start.a), n);
		} else {
			enum gs_code rc = g->ops->read(g->priv, at, buf, n);
			if (rc)
				return rc;
		}
		buf = (char *)buf + n;
		len -= n;
		at.a += n; /* cannot wrap: a range does not, and a zero is in none but the first */
	}
	return GS_OK;
}

/** One little-endian 64-bit word, read by a single load where the range is mapped and it is
 * aligned. */
GS_MUST_USE static inline enum gs_code guest_read_u64(const struct guest *g, gpa_t at,
						      uint64_t *value_out)
{
	const struct guest_range *r = guest_range_find(g, at);

	if (!r)
		return GS_EFAULT;
	uint64_t offset = at.a - r->start.a;
	if (r->host && !(offset & 7) && r->size - offset >= 8) {
		*value_out =
			*(const volatile uint64_t *)(const void *)((const char *)r->host + offset);
		return GS_OK;
	}
	return guest_read(g, at, value_out, sizeof(*value_out));
}

/** Whether guest_prefetch() can do anything: callers save themselves the search for addresses. */
static inline bool guest_can_prefetch(const struct guest *g)
{
	return g->ops->prefetch || (g->range_count && g->ranges[0].host);
}

/**
 * Ask for the cache line that holds a byte, ahead of reading it. Reads nothing, never faults, and
 * does nothing for what is not RAM or not mapped.
 */
static inline void guest_prefetch(const struct guest *g, gpa_t at)
{
	const struct guest_range *r = guest_range_find(g, at);

	if (!r)
		return;
	if (r->host)
		__builtin_prefetch((const char *)r->host + (at.a - r->start.a));
	else if (g->ops->prefetch)
		g->ops->prefetch(g->priv, at);
}

/** Bytes of RAM in all ranges. */
static inline uint64_t guest_ram_size(const struct guest *g)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < g->range_count; i++)
		sum += g->ranges[i].size;
	return sum;
}

#endif
