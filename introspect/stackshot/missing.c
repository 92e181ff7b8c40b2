/* SPDX-License-Identifier: Apache-2.0 */
/* What is not in a capture: noted as numbers, told as text when the guest runs again. */
#include "introspect/stackshot/missing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_before(const struct ss_note *a, const struct ss_note *b)
{
	return a->item != b->item ? a->item < b->item : a->seq < b->seq;
}

void ss_note_process(struct ss_note *note, const struct lnx_task *leader)
{
	note->pid = leader->tgid;
	memcpy(note->comm, leader->comm, sizeof(note->comm));
}

static void find_last(struct ss_notes *notes)
{
	notes->last = 0;
	for (uint32_t i = 1; i < notes->n; i++)
		if (is_before(&notes->note[notes->last], &notes->note[i]))
			notes->last = i;
}

void ss_notes_add(struct ss_notes *notes, const struct ss_note *note)
{
	if (notes->n < SS_MISSING_LISTED) {
		notes->note[notes->n++] = *note;
		if (notes->n == SS_MISSING_LISTED)
			find_last(notes);
	} else if (is_before(note, &notes->note[notes->last])) {
		notes->note[notes->last] = *note;
		find_last(notes);
	}
}

static void explain(const struct ss_note *n, const char *kernel, char *out, size_t size)
{
	const char *code = gs_code_name((enum gs_code)n->b);
	const char *comm = n->comm;

	switch (n->why) {
	case SS_WHY_NO_KERNEL: (void)snprintf(out, size, "%s", kernel); break;
	case SS_WHY_KERNEL_GONE:
		(void)snprintf(out, size, "the kernel that was found is no longer in memory");
		break;
	case SS_WHY_NO_REGISTERS:
		(void)snprintf(out, size, "the registers of vCPU %" PRIu64 " are not known", n->a);
		break;
	case SS_WHY_NO_CURRENT:
		(void)snprintf(out, size,
			       "what vCPU %" PRIu64
			       " executes is not known: neither SP_EL0 nor its "
			       "__entry_task is a task",
			       n->a);
		break;
	case SS_WHY_NO_IDLE:
		(void)snprintf(out, size, "the idle thread of vCPU %" PRIu64 " was not found",
			       n->a);
		break;
	case SS_WHY_NO_INIT_TASK: (void)snprintf(out, size, "init_task could not be read"); break;
	case SS_WHY_PROCESS_LIST:
		(void)snprintf(out, size, "the list of processes breaks off after %" PRIu64 ": %s",
			       n->a, code);
		break;
	case SS_WHY_PROCESS:
		(void)snprintf(out, size, "a process could not be read: %s", code);
		break;
	case SS_WHY_PROCESS_IDLE:
		(void)snprintf(out, size,
			       "a process could not be read: it claims to be the idle task");
		break;
	case SS_WHY_THREAD_LIST:
		(void)snprintf(out, size, "the threads of %s break off after %" PRIu64 ": %s", comm,
			       n->a, code);
		break;
	case SS_WHY_THREAD:
		(void)snprintf(out, size, "a thread of %s could not be read: %s", comm, code);
		break;
	case SS_WHY_THREAD_FOREIGN:
		(void)snprintf(out, size,
			       "a thread of %s could not be read: it belongs to another process",
			       comm);
		break;
	case SS_WHY_THREAD_IDLE:
		(void)snprintf(out, size,
			       "a thread of %s could not be read: it claims to be an idle thread",
			       comm);
		break;
	case SS_WHY_STACK:
		(void)snprintf(out, size, "kernel stack ends after %" PRIu64 " frames: %s", n->a,
			       lnx_unwind_end_name((enum lnx_unwind_end)n->b));
		break;
	case SS_WHY_LATE_THREADS:
		(void)snprintf(out, size,
			       "the deadline passed after %" PRIu64 " of the %" PRIu64
			       " threads of %s",
			       n->a, n->b, comm);
		break;
	case SS_WHY_LATE_PROCESSES:
		(void)snprintf(out, size,
			       "the deadline passed before %" PRIu64 " processes were looked at",
			       n->a);
		break;
	case SS_WHY_NO_ROOM_THREADS:
		(void)snprintf(out, size,
			       "the buffer was full after %" PRIu64 " of the %" PRIu64
			       " threads of %s",
			       n->a, n->b, comm);
		break;
	case SS_WHY_NO_ROOM_PROCESSES:
		(void)snprintf(out, size,
			       "the buffer was full before %" PRIu64 " processes were looked at",
			       n->a);
		break;
	case SS_WHY_ASID:
		(void)snprintf(out, size, "the ASID of %s could not be read: %s", comm, code);
		break;
	case SS_WHY_PAGE_DIRECTORY:
		(void)snprintf(out, size, "the page directory of %s could not be found: %s", comm,
			       code);
		break;
	case SS_WHY_PAGE_TABLES:
		(void)snprintf(out, size, "%" PRIu64 " page tables of %s could not be read", n->a,
			       comm);
		break;
	case SS_WHY_MANY_TABLES:
		(void)snprintf(out, size,
			       "page tables of %s after the first %" PRIu64
			       " were left alone: they seem to lead to each other",
			       comm, n->a);
		break;
	case SS_WHY_LATE_TABLES:
		(void)snprintf(out, size, "the deadline passed after %" PRIu64 " page tables of %s",
			       n->a, comm);
		break;
	case SS_WHY_NO_ROOM_MAPPINGS:
		(void)snprintf(out, size, "the buffer was full before the mappings of %s", comm);
		break;
	case SS_WHY_NO_LOG:
		(void)snprintf(out, size, "the kernel's log could not be read: %s", code);
		break;
	case SS_WHY_EMPTY_LOG: (void)snprintf(out, size, "the kernel's log has no message"); break;
	case SS_WHY_NO_ROOM_TABLES:
		(void)snprintf(out, size, "the buffer was full after %" PRIu64 " page tables of %s",
			       n->a, comm);
		break;
	}
}

static int compare_notes(const void *a, const void *b)
{
	return is_before(a, b) ? -1 : is_before(b, a);
}

uint32_t ss_notes_to_records(struct ss_note *notes, uint32_t n, uint64_t total, const char *kernel,
			     struct ss_missing_record *out)
{
	qsort(notes, n, sizeof(*notes), compare_notes);
	if (n > SS_MISSING_LISTED)
		n = SS_MISSING_LISTED;
	for (uint32_t i = 0; i < n; i++) {
		const struct ss_note *note = &notes[i];

		out[i] = (struct ss_missing_record){ .what = note->what,
						     .count = note->count,
						     .pid = note->pid,
						     .tid = note->tid,
						     .address = note->address };
		explain(note, kernel, out[i].reason, sizeof(out[i].reason));
	}
	/* the last place of a full list says how many more there are */
	if (n && total > n)
		out[n - 1] = (struct ss_missing_record){ .what = SS_MISSING_MORE,
							 .count = (uint32_t)(total - n + 1),
							 .pid = -1,
							 .tid = -1,
							 .reason = "too many to list each" };
	return n;
}
