/* SPDX-License-Identifier: Apache-2.0 */
/* Making a capture without a guest. */
#include "tests/bench/kcdata_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/records.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

enum {
	FUNCTIONS = 40000,
	PATHS = 400,
	FRAMES_MAX = 32,
	A_PROCESS = 12, /* threads */
	A_THREAD = 1200 /* most bytes of one */
};

struct maker {
	uint64_t state;
	struct kcd_writer w;
	struct {
		uint32_t frames;
		uint32_t function[FRAMES_MAX];
		uint32_t offset[FRAMES_MAX]; /* of the call in its function */
	} path[PATHS];
};

static uint64_t draw(struct maker *m)
{
	uint64_t z = m->state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t below(struct maker *m, uint64_t n)
{
	return draw(m) % n;
}

/* A number of any magnitude up to 2^bits, small ones as likely as large ones. */
static uint64_t spread(struct maker *m, uint32_t bits)
{
	return draw(m) >> (64 - below(m, bits) - 1);
}

/* Paths share their outer frames in groups: system calls, kthreads, faults. */
static void make_paths(struct maker *m)
{
	for (uint32_t p = 0; p < PATHS; p++) {
		uint32_t outer = p ? (uint32_t)below(m, p) : 0;
		uint32_t n = 6 + (uint32_t)below(m, 18);

		m->path[p].frames = n;
		for (uint32_t i = 0; i < n; i++) {
			m->path[p].function[i] = (uint32_t)below(m, FUNCTIONS);
			m->path[p].offset[i] = 4 * (uint32_t)(4 + below(m, 200));
		}
		if (!p)
			continue;
		uint32_t shared = 3 + (uint32_t)below(m, 5);
		for (uint32_t i = 1; i <= shared && i <= n && i <= m->path[outer].frames; i++) {
			m->path[p].function[n - i] =
				m->path[outer].function[m->path[outer].frames - i];
			m->path[p].offset[n - i] = m->path[outer].offset[m->path[outer].frames - i];
		}
	}
}

static uint64_t address(struct maker *m)
{
	return UINT64_C(0xffff000000000000) + (below(m, UINT64_C(1) << 33) & ~UINT64_C(0xfff)) +
	       0x40 * below(m, 2);
}

#define TRY(call)                               \
	do {                                    \
		enum kcd_code try_rc_ = (call); \
		if (try_rc_)                    \
			return try_rc_;         \
	} while (0)

static enum kcd_code put_stack(struct maker *m, bool busy)
{
	/* half of the threads wait in the same few places */
	uint32_t p = (uint32_t)(below(m, 2) ? below(m, 12) : below(m, PATHS));
	uint64_t lr[FRAMES_MAX];
	uint32_t n = m->path[p].frames;

	for (uint32_t i = 0; i < n; i++)
		lr[i] = UINT64_C(0xffff800080010000) + (uint64_t)m->path[p].function[i] * 416 +
			m->path[p].offset[i];
	if (busy)
		lr[0] += 4 * below(m, 60);
	TRY(kcd_append_array(&m->w, KCD_SS_KERN_STACKLR64, n, sizeof(lr[0]), lr));
	if (!busy)
		return KCD_OK;
	struct ss_frame_kind_record kind = { .index = 0, .kind = 1 };
	return kcd_append_array(&m->w, SS_RECORD_FRAME_KIND, 1, sizeof(kind), &kind);
}

static enum kcd_code put_thread(struct maker *m, uint32_t pid, uint32_t tid, const char *comm)
{
	bool busy = below(m, 50) == 0;
	uint64_t start = UINT64_C(1000000000) * (1 + spread(m, 18)) + below(m, 1000000000);
	uint64_t id = start / 1000 << 20 | tid;
	struct ss_thread_record r = {
		.tid = (int32_t)tid,
		.vcpu = busy ? (int32_t)below(m, 8) : -1,
		.state = busy		? 'R'
			 : below(m, 12) ? 'S'
					: 'I',
		.raw_state = busy ? 0 : 1,
		.flags = 0x400040,
		.known = 0x7f,
		.cpu = (uint32_t)below(m, 8),
		.prio = 120,
		.static_prio = 120,
		.utime_ns = spread(m, 42),
		.stime_ns = spread(m, 40),
		.nvcsw = spread(m, 22),
		.nivcsw = spread(m, 14),
		.start_time_ns = start,
		.start_boottime_ns = start,
		.exec_start_ns = UINT64_C(400000000000000) - spread(m, 46),
		.min_flt = spread(m, 18),
		.maj_flt = spread(m, 5),
		.address = address(m),
	};
	struct kcd_thread_snapshot_v4 snapshot = {
		.ths_thread_id = id,
		.ths_user_time = r.utime_ns,
		.ths_sys_time = r.stime_ns,
		.ths_ss_flags =
			KCD_SS_USER64 | KCD_SS_KERNEL64 | (pid == tid ? KCD_THREAD_MAIN : 0),
		.ths_last_run_time = r.exec_start_ns,
		.ths_state = busy ? KCD_THREAD_RUN : KCD_THREAD_WAIT,
		.ths_base_priority = 120,
		.ths_sched_priority = 120,
		.ths_thread_t = r.address,
	};
	struct kcd_cpu_times_v2 times = { r.utime_ns / 1000, r.stime_ns / 1000, 0 };
	char name[KCD_SS_THREAD_NAME_SIZE] = { 0 };

	r.sum_exec_runtime_ns = r.utime_ns + r.stime_ns + below(m, 4000000);
	snprintf(r.comm, sizeof(r.comm), "%s", comm);
	snprintf(name, sizeof(name), "%s", r.comm);
	TRY(kcd_container_begin(&m->w, KCD_SS_CONTAINER_THREAD, id));
	TRY(kcd_append(&m->w, KCD_SS_THREAD_SNAPSHOT, &snapshot, sizeof(snapshot)));
	TRY(kcd_append(&m->w, SS_RECORD_THREAD, &r, sizeof(r)));
	TRY(kcd_append(&m->w, KCD_SS_THREAD_NAME, name, sizeof(name)));
	TRY(kcd_append(&m->w, KCD_SS_CPU_TIMES, &times, sizeof(times)));
	TRY(put_stack(m, busy));
	return kcd_container_end(&m->w, id);
}

static enum kcd_code put_process(struct maker *m, uint32_t pid, uint32_t threads)
{
	static const char *const names[] = { "postgres", "nginx",	  "java",    "kworker/3:1",
					     "systemd",	 "containerd-sh", "python3", "redis-server",
					     "kubelet",	 "sshd",	  "bash",    "node" };
	const char *comm = names[below(m, sizeof(names) / sizeof(names[0]))];
	uint64_t start = UINT64_C(1000000000) * (1 + spread(m, 18));
	uint64_t id = start / 1000 << 20 | pid;
	struct ss_task_record r = { .pid = (int32_t)pid,
				    .ppid = 1,
				    .flags = 0x400000,
				    .threads = threads,
				    .address = address(m) };
	struct kcd_task_snapshot_v2 snapshot = {
		.ts_unique_pid = id,
		.ts_ss_flags = KCD_SS_USER64 | KCD_SS_KERNEL64 | KCD_TASK_SHARED_REGION_NONE,
		.ts_p_start_sec = start / 1000000000,
		.ts_faults = (uint32_t)spread(m, 22),
		.ts_pageins = (uint32_t)spread(m, 8),
		.ts_pid = (int32_t)pid,
	};

	snprintf(r.comm, sizeof(r.comm), "%s", comm);
	snprintf(snapshot.ts_p_comm, sizeof(snapshot.ts_p_comm), "%s", comm);
	TRY(kcd_container_begin(&m->w, KCD_SS_CONTAINER_TASK, id));
	TRY(kcd_append(&m->w, KCD_SS_TASK_SNAPSHOT, &snapshot, sizeof(snapshot)));
	TRY(kcd_append(&m->w, SS_RECORD_TASK, &r, sizeof(r)));
	for (uint32_t i = 0; i < threads; i++) {
		char thread[16];

		snprintf(thread, sizeof(thread), i ? "%.8s-wrk%u" : "%.15s", comm, i % 32);
		TRY(put_thread(m, pid, pid + i, thread));
	}
	return kcd_container_end(&m->w, id);
}

static enum kcd_code put_all(struct maker *m, uint32_t threads)
{
	static const struct kcd_timebase nanoseconds = { 1, 1 };
	uint32_t pid = 1;

	for (size_t i = 0; i < ss_schema.count; i++)
		TRY(kcd_append_typedef(&m->w, &ss_schema.types[i]));
	TRY(kcd_append_u64(&m->w, "stackshot_in_flags", KCD_SS_KCDATA_FORMAT));
	TRY(kcd_append_u32(&m->w, "stackshot_in_pid", UINT32_MAX));
	TRY(kcd_append_string(&m->w, KCD_SS_OSVERSION, "Linux version 6.1.0-18-arm64",
			      KCD_SS_OSVERSION_MAX));
	TRY(kcd_append(&m->w, KCD_TYPE_TIMEBASE, &nanoseconds, sizeof(nanoseconds)));
	while (threads) {
		uint32_t n = 1 + (uint32_t)below(m, 2 * A_PROCESS - 1);

		n = n < threads ? n : threads;
		TRY(put_process(m, pid, n));
		pid += n + (uint32_t)below(m, 20);
		threads -= n;
	}
	for (uint32_t i = 0; i < 1500; i++) {
		struct ss_symbol_record s = { .start = UINT64_C(0xffff800080010000) +
						       416 * below(m, FUNCTIONS),
					      .size = 400 };

		snprintf(s.name, sizeof(s.name), "subsys%u_do_thing_%u", (unsigned)below(m, 40), i);
		TRY(kcd_append_array(&m->w, SS_RECORD_SYMBOL, 1, sizeof(s), &s));
	}
	return kcd_append_u64(&m->w, "stackshot_out_flags", KCD_SS_KCDATA_FORMAT);
}

uint8_t *kcdata_capture_make(uint32_t threads, uint64_t seed, size_t *len_out)
{
	size_t size = (size_t)threads * A_THREAD + (1 << 20);
	struct maker *m = calloc(1, sizeof(*m));
	uint8_t *buf = calloc(1, size);

	if (m && buf) {
		m->state = seed;
		make_paths(m);
		if (!kcd_writer_init(&m->w, buf, size, KCD_MAGIC_STACKSHOT, 0) &&
		    !put_all(m, threads)) {
			*len_out = kcd_writer_used(&m->w);
			free(m);
			return buf;
		}
	}
	free(m);
	free(buf);
	return NULL;
}
