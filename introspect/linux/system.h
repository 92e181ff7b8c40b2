/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel says of itself as a whole: its log, taint, load, memory, panic. */
#ifndef INTROSPECT_LINUX_SYSTEM_H
#define INTROSPECT_LINUX_SYSTEM_H

/*
 *	struct lnx_log log;
 *	struct lnx_log_message m;
 *	if (!lnx_log_begin(&log, &v))
 *		while (lnx_log_previous(&log, &m))
 *			…lnx_read(&v, m.text, buf, m.size)…
 *
 * Threads: any, each with its own view. Nothing is allocated; legal while the guest is stopped, and only
 * then all of one moment.
 */

#include "introspect/linux/linux.h"

/* --- the log --- */

/*
 * Messages that are looked at: a ring of the largest size that Linux offers (CONFIG_LOG_BUF_SHIFT 25) with
 * one for each 32 bytes has more, but takes longer to read than a guest is to stand still.
 */
#define LNX_LOG_MESSAGES_MAX 65536

/** A walk through the log, newest message first; fields but the counts are private. */
struct lnx_log {
	struct lnx_view *v;
	gva_t descs, infos, data;
	uint64_t desc_size, info_size;
	uint32_t count_bits, size_bits;
	uint64_t id;	  /* of the next descriptor */
	uint32_t left;	  /* that are still to be looked at */
	uint64_t seq;	  /* of the message before; UINT64_MAX: none yet */
	uint32_t skipped; /* descriptors that have no message: being written, reused, nonsense */
};

/** A message of the log. */
struct lnx_log_message {
	uint64_t seq;
	uint64_t time_ns; /* of the scheduler's clock, since boot */
	uint32_t caller;  /* number of the thread; with bit 31 of the CPU, where it was none */
	uint8_t facility; /* as in syslog: 0 is the kernel */
	uint8_t level;	  /* 0 (emergency) … 7 (debug) */
	uint8_t flags;	  /* enum printk_info_flags */
	gva_t text;	  /* where it is: size bytes, not terminated */
	uint32_t size;
};

/**
 * Begin with the newest message.
 *
 * @return GS_OK; GS_ENOENT: the kernel's types or symbols do not tell where the log is; GS_EFAULT;
 *         GS_EMALFORMED: what is there is no log
 * Origin: struct printk_ringbuffer (kernel/printk/printk_ringbuffer.h, since 5.10).
 */
GS_MUST_USE enum gs_code lnx_log_begin(struct lnx_log *log, struct lnx_view *v);

/**
 * The message before. Those that are being written or reused are skipped and counted; so is a text that
 * is gone.
 *
 * @return false: there are no more
 */
bool lnx_log_previous(struct lnx_log *log, struct lnx_log_message *message_out);

/* --- the rest --- */

enum lnx_system_known {
	LNX_SYSTEM_TAINT = 1u << 0,
	LNX_SYSTEM_UPTIME = 1u << 1,
	LNX_SYSTEM_LOAD = 1u << 2,
	LNX_SYSTEM_MEMORY = 1u << 3,
	LNX_SYSTEM_PANIC = 1u << 4,
};

#define LNX_LOADS	  3
#define LNX_PANIC_MESSAGE 256

struct lnx_system {
	uint32_t known;	   /* enum lnx_system_known; what is not is 0 */
	int32_t panic_cpu; /* -1: it has not panicked, or that is not known */
	uint64_t taint;	   /* as /proc/sys/kernel/tainted */
	uint64_t
		uptime_ns; /* when a CPU last looked at the time: that may be a while ago if all are idle */
	uint64_t load[LNX_LOADS]; /* averages of 1, 5 and 15 minutes, times LNX_LOAD_ONE */
	uint64_t total_pages, free_pages, file_pages;
	char panic[LNX_PANIC_MESSAGE]; /* the message, terminated, unescaped; "": none was found */
};

#define LNX_LOAD_ONE 2048 /* FIXED_1 (include/linux/sched/loadavg.h) */

/**
 * Read what there is of it. What cannot be read or makes no sense is not known.
 *
 * @param regs  of @p n vCPUs, with TPIDR_EL1: run queues have the clock
 * Origin: tainted_mask and panic_cpu (kernel/panic.c), avenrun (kernel/sched/loadavg.c), rq.clock
 * (kernel/sched/sched.h), _totalram_pages (mm/), 5.10 to 7.3; the message is the log's.
 */
void lnx_system_read(struct lnx_view *v, const struct guest_vcpu_regs *regs, uint32_t n,
		     struct lnx_system *system_out);

#define LNX_TAINTS 20

/** Letter and meaning of a bit of the taint: 'O', "out-of-tree module". @return false: there is none */
bool lnx_taint_name(uint32_t bit, char *letter_out, const char **name_out);

#endif
