/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of what is not in a capture, as numbers while the guest is stopped. Private. */
#ifndef INTROSPECT_STACKSHOT_MISSING_H
#define INTROSPECT_STACKSHOT_MISSING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "introspect/linux/linux.h"
#include "introspect/stackshot/records.h"

/* What is listed one by one; the rest is counted in a last record. */
#define SS_MISSING_LISTED 256

/** Why, as the texts of missing.c; a and b of the note are what they name. */
enum ss_why {
	SS_WHY_NO_KERNEL, /* the session's text says it */
	SS_WHY_KERNEL_GONE,
	SS_WHY_NO_REGISTERS, /* a: vCPU */
	SS_WHY_NO_CURRENT,   /* a: vCPU */
	SS_WHY_NO_IDLE,	     /* a: vCPU */
	SS_WHY_NO_INIT_TASK,
	SS_WHY_PROCESS_LIST, /* a: processes before, b: enum gs_code */
	SS_WHY_PROCESS,	     /* b: enum gs_code */
	SS_WHY_PROCESS_IDLE,
	SS_WHY_THREAD_LIST,	  /* comm; a: threads before, b: enum gs_code */
	SS_WHY_THREAD,		  /* comm; b: enum gs_code */
	SS_WHY_THREAD_FOREIGN,	  /* comm */
	SS_WHY_THREAD_IDLE,	  /* comm */
	SS_WHY_STACK,		  /* a: frames, b: enum lnx_unwind_end */
	SS_WHY_LATE_THREADS,	  /* comm; a: threads recorded, b: of so many */
	SS_WHY_LATE_PROCESSES,	  /* a: processes */
	SS_WHY_NO_ROOM_THREADS,	  /* comm; a: threads recorded, b: of so many */
	SS_WHY_NO_ROOM_PROCESSES, /* a: processes */
	SS_WHY_ASID,		  /* comm; b: enum gs_code */
	SS_WHY_PAGE_DIRECTORY,	  /* comm; b: enum gs_code */
	SS_WHY_PAGE_TABLES,	  /* comm; a: tables */
	SS_WHY_MANY_TABLES,	  /* comm; a: tables before */
	SS_WHY_LATE_TABLES,	  /* comm; a: tables before */
	SS_WHY_NO_ROOM_TABLES,	  /* comm; a: tables before */
	SS_WHY_NO_ROOM_MAPPINGS,  /* comm */
	SS_WHY_NO_LOG,		  /* b: enum gs_code */
	SS_WHY_EMPTY_LOG,
};

struct ss_note {
	uint32_t item; /* index of the struct ss_item + 1; 0: of none */
	uint32_t seq;  /* in it */
	enum ss_missing what;
	enum ss_why why;
	uint32_t count;
	int32_t pid, tid; /* -1: none */
	uint64_t address;
	uint64_t a, b;
	char comm[LNX_COMM_LEN];
};

/** Say which process a note is about. */
void ss_note_process(struct ss_note *note, const struct lnx_task *leader);

/** One worker's notes: those that come first in the capture. */
struct ss_notes {
	uint32_t n;
	uint32_t last; /* index of the one that comes last, once the list is full */
	struct ss_note note[SS_MISSING_LISTED];
};

/** Add a note; the list keeps the SS_MISSING_LISTED first ones by item and seq. */
void ss_notes_add(struct ss_notes *notes, const struct ss_note *note);

/**
 * The records of a list.
 *
 * @param notes    ordered by item and seq here
 * @param total    how many there were in all
 * @param kernel   text of SS_WHY_NO_KERNEL
 * @param out      room for SS_MISSING_LISTED
 * @return how many
 */
uint32_t ss_notes_to_records(struct ss_note *notes, uint32_t n, uint64_t total, const char *kernel,
			     struct ss_missing_record *out);

#endif
