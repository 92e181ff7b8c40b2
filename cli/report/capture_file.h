/* SPDX-License-Identifier: Apache-2.0 */
/* A finished capture read back into memory, for the views of it. */
#ifndef CLI_REPORT_CAPTURE_FILE_H
#define CLI_REPORT_CAPTURE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/stackshot/records.h"
#include "kcdata/stackshot_types.h"

/* A capture of 100,000 threads has some 100 MiB. */
#define REP_FILE_MAX (UINT64_C(4) << 30)

/** A function that frames lie in. */
struct rep_symbol {
	uint64_t start, size;
	uint64_t flags; /* enum ss_symbol_flags */
	char *name;	/* unescaped guest text */
};

struct rep_frame {
	uint64_t address;
	uint32_t kind;			 /* enum lnx_frame_kind */
	uint32_t doubt;			 /* enum lnx_doubt */
	const struct rep_symbol *symbol; /* NULL: not known */
	const char *module; /* unescaped guest text; NULL: in the kernel, or not known */
};

#define REP_NONE SIZE_MAX /* no place in an array */

/** Something that a thread waits for. */
struct rep_wait {
	struct ss_wait_record record;
	size_t owner; /* in rep_capture.threads; REP_NONE: none, or not here */
	const struct rep_symbol
		*function; /* that extra is the address of; NULL: not known, or none */
	bool has_others;   /* the owner is a process, of which any other thread may let go, too */
};

struct rep_user_frame {
	uint64_t address;
	size_t mapping; /* in rep_capture.mappings, from 1; 0: not known */
};

struct rep_thread {
	uint64_t id; /* of its container: the same in every capture it is in */
	struct ss_thread_record linux_facts; /* zeroed unless has_linux */
	struct kcd_thread_snapshot_v4 stock; /* zeroed unless it was there */
	bool has_linux;
	char comm[KCD_SS_THREAD_NAME_SIZE + 1];
	size_t first_frame; /* in rep_capture.frames */
	uint32_t frame_count;
	size_t first_wait; /* in rep_capture.waits */
	uint32_t wait_count;
	bool hidden; /* by a filter (filter.h): views for people leave it out */

	bool has_user;			  /* its user stack was asked for */
	struct ss_user_stack_record user; /* zeroed unless has_user */
	size_t first_user_frame;	  /* in rep_capture.user_frames */
	uint32_t user_frame_count;
	bool has_context;
	struct ss_thread_context_record context;
	/* of one that waits for a CPU: its place in the queue, from 1, of how many; 0: not known */
	uint32_t queue_place, queue_length;
};

struct rep_task {
	struct ss_task_record linux_facts;
	uint64_t id;
	int32_t pid, ppid; /* ppid -1: not known */
	char comm[KCD_SS_COMM_SIZE + 1];
	size_t first_thread; /* in rep_capture.threads */
	uint32_t thread_count;
	size_t first_mapping; /* in rep_capture.mappings */
	uint32_t mapping_count;
	size_t context; /* in rep_capture.contexts, + 1; 0: none */

	/* of a delta's; threads that are in none of the three are gone */
	bool has_facts;	       /* pid, comm and so on are here; else they are as they were */
	size_t first_runnable; /* in rep_capture.still_runnable */
	size_t first_waiting;  /* in rep_capture.still_waiting */
	uint32_t runnable_count, waiting_count;
};

/** Arrays own their memory; everything in them is as hostile as the file was. */
struct rep_capture {
	char *banner, *release; /* NULL: kernel not found, or a delta */
	uint64_t start_ns;	/* host's monotonic clock: the guest had stopped; 0: not known */
	uint64_t wall_us;
	int32_t only_pid; /* of this process alone; -1: of all */
	bool has_guest;	  /* else not one of ours */
	bool has_system;
	struct ss_system_record system; /* the message terminated */
	struct ss_guest_record guest;
	struct ss_times_record times;
	struct kcd_duration_v2 duration;
	struct ss_reason_record reason; /* why it was taken; text terminated; reason 0: not said */

	struct ss_vcpu_record *vcpus;
	struct rep_task *tasks;
	struct rep_thread *threads;
	struct rep_frame *frames;
	struct rep_user_frame *user_frames;
	struct ss_mapping_record *mappings; /* names terminated, unescaped; of a task ascending */
	struct rep_symbol *symbols;	    /* ascending */
	struct ss_module_record *modules;   /* ascending; names terminated */
	struct ss_missing_record *missing;
	struct rep_wait *waits;
	struct ss_process_context_record *contexts; /* strings terminated */
	struct ss_log_record *log;	   /* lines, as they are in the file; texts terminated */
	struct ss_console_record *console; /* lines before the capture; terminated */
	size_t init_context;		   /* of process 1, as rep_task.context */
	size_t vcpu_count, task_count, thread_count, frame_count, user_frame_count, mapping_count,
		symbol_count, missing_count;
	size_t module_count, wait_count, log_count, context_count, console_count;
	bool has_waits; /* what threads wait for was looked at */

	/* A delta has what changed since a time, and says of the rest that it is as it was. */
	bool is_delta;
	uint64_t since_ns;				     /* of the clock of start_ns */
	struct kcd_thread_delta_snapshot_v3 *still_runnable; /* threads by task, as they were */
	uint64_t *still_waiting;			     /* ids of others, by task */
	uint64_t *still_tasks; /* ids: with all threads as they were */
	size_t runnable_count, waiting_count, still_task_count;

	bool damaged; /* the file breaks off: what was before is here */
	char damage[256];
};

/**
 * Read a capture, full or a delta (delta.h completes it). A damaged one gives what stands before the
 * damage, and says so in it.
 *
 * @param path  "-": standard input
 * @param out   freed by rep_capture_deinit()
 * @return GS_OK, also for a damaged one; GS_ENOENT, GS_EDENIED, GS_ESYS: the file; GS_EMALFORMED:
 * not a stackshot; GS_ETOOBIG: over REP_FILE_MAX; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code rep_capture_read(const char *path, struct rep_capture *out,
					  struct gs_error *err);

/**
 * The same of a capture in memory.
 *
 * @param name  what messages call it
 * @param data  borrowed for the call
 */
GS_MUST_USE enum gs_code rep_capture_parse(const char *name, const void *data, size_t size,
					   struct rep_capture *out, struct gs_error *err);

void rep_capture_deinit(struct rep_capture *c);

/** The symbol that covers an address, once they are sorted; NULL: none. */
const struct rep_symbol *rep_symbol_at(const struct rep_capture *c, uint64_t address);

/** Find each frame's symbol and module, after any has changed: both are ascending. */
void rep_capture_name_frames(struct rep_capture *c);

/** What a frame of a user stack lies in; NULL: not known, or of no file. */
const struct ss_mapping_record *rep_user_frame_file(const struct rep_capture *c,
						    const struct rep_user_frame *f);

/** Processes and threads without the idle ones, which are counted nowhere. */
struct rep_totals {
	size_t processes, threads;
};

struct rep_totals rep_capture_totals(const struct rep_capture *c);

/** Whether nothing is missing in it. */
static inline bool rep_is_complete(const struct rep_capture *c)
{
	return !c->damaged && c->missing_count == 0;
}

/** "interruptible sleep" and so on for a letter of /proc/PID/stat. */
const char *rep_state_text(char letter);

/** "kernel", "user", "idle", … for enum ss_vcpu_state. */
const char *rep_vcpu_state_name(uint32_t state);

/** "stack", "tasks", … for enum ss_missing. */
const char *rep_missing_name(uint32_t what);

/** "return", "pc", "lr", "interrupted" for enum lnx_frame_kind. */
const char *rep_frame_kind_name(uint32_t kind);

/** Why a frame is uncertain, for enum lnx_doubt. */
const char *rep_doubt_name(uint32_t doubt);

/** "complete", … for enum lnx_unwind_end, and for enum lnx_user_end. */
const char *rep_stack_end_name(uint32_t end);
const char *rep_user_end_name(uint32_t end);

/**
 * Read a kcdata stream of any kind from a file, decompressed.
 *
 * @param data_out returned: free with free()
 * @return as rep_capture_read(); a damaged compressed file is GS_EMALFORMED
 */
GS_MUST_USE enum gs_code rep_stream_read(const char *path, uint8_t **data_out, size_t *size_out,
					 struct gs_error *err);

#endif
