/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas of captures, made from two full ones or by hand. */
#ifndef TESTS_UNIT_REPORT_DELTAS_H
#define TESTS_UNIT_REPORT_DELTAS_H

#include "cli/report/report.h"
#include "kcdata/kcdata.h"

struct bytes {
	uint8_t *data; /* freed by the caller */
	size_t size;
};

/** A copy of sample. */
struct bytes bytes_of_sample(void);

/**
 * What a delta has of a full capture, when a capture taken at or after @p since_ns is known: what differs
 * in containers, what does not as ids.
 */
struct bytes delta_of(struct bytes base, struct bytes full, uint64_t since_ns);

/** Read a stream, which must work. */
void load(struct bytes b, struct rep_capture *out);

/* --- by hand --- */

/** A stream that is being written; its guest has 2 vCPUs. */
struct made {
	struct kcd_writer w;
	uint8_t *data;
};

#define MADE_ROOM (64u << 20)

#define OK(call) ck_assert_int_eq((call), KCD_OK)

/** since_ns 0: a full capture */
void made_begin(struct made *m, uint64_t start_ns, uint64_t since_ns);

struct made_thread {
	uint64_t id;
	int32_t tid;
	const char *comm;
	char state; /* 0: 'S' */
	int32_t vcpu_and_1;
	uint32_t not_known; /* enum lnx_task_valid */
	uint64_t switches, cpu_ns, exec_start_ns;
	uint64_t frame[4]; /* until 0 */
};

/** Begin a task with its records, or with a 0x940 alone when @p comm is NULL. */
void made_task(struct made *m, uint64_t id, int32_t pid, const char *comm);
void made_thread(struct made *m, const struct made_thread *t);
void made_runnable(struct made *m, uint64_t id, int16_t prio);
void made_waiting(struct made *m, uint64_t id);
void made_task_end(struct made *m, uint64_t id);
void made_still(struct made *m, uint64_t id);
void made_symbol(struct made *m, uint64_t start, const char *name, bool sched);
void made_missing(struct made *m, uint32_t what, int32_t pid, int32_t tid, const char *reason);

/** Read what was made, and free it. */
void made_end(struct made *m, struct rep_capture *out);

/** The bytes of what was made instead. */
struct bytes made_bytes(struct made *m);

#endif
