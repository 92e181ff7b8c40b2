/* SPDX-License-Identifier: Apache-2.0 */
/* One link to QEMU, shared by threads, each wait of the same length. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_MONITOR_H
#define INTROSPECT_GUEST_QEMU_MONITOR_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/qemu_link.h"

struct guest_monitor {
	struct guest_link *link;
	pthread_mutex_t lock; /* one call of the link at a time */
	uint64_t wait_ns;     /* longest wait for an answer */
	/*
	 * When reading ends; GUEST_NO_DEADLINE: never. Relaxed: set while nobody reads.
	 */
	_Atomic uint64_t end_ns;
};

/** When a wait that begins now ends; what must not be left undone has more time. */
static inline uint64_t guest_monitor_limit(const struct guest_monitor *m)
{
	return gs_min(gs_clock_ns() + m->wait_ns,
		      atomic_load_explicit(&m->end_ns, memory_order_relaxed));
}

/** Whether reading has ended. */
static inline bool guest_monitor_is_over(const struct guest_monitor *m)
{
	uint64_t end_ns = atomic_load_explicit(&m->end_ns, memory_order_relaxed);

	return end_ns != GUEST_NO_DEADLINE && gs_clock_ns() >= end_ns;
}

/** Run a QMP command; see guest_qmp_execute(). Threads: any. */
GS_MUST_USE enum gs_code guest_monitor_execute(struct guest_monitor *m, const char *command,
					       json_t *arguments, json_t **value_out,
					       struct gs_error *err);

/**
 * Run a command of the human monitor.
 *
 * @param text_out  returned: a JSON string, json_decref() it
 * @return as guest_monitor_execute(); GS_EMALFORMED: the answer is no text. What the human monitor
 *         refuses it says in its text.
 */
GS_MUST_USE enum gs_code guest_monitor_text(struct guest_monitor *m, json_t **text_out,
					    struct gs_error *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** Where the host has the guest-physical address mapped in QEMU. */
GS_MUST_USE enum gs_code guest_monitor_hva(struct guest_monitor *m, gpa_t at, uint64_t *hva_out,
					   struct gs_error *err);

/** Guest-physical words as the human monitor prints them. @param len a multiple of 8, up to 64 KiB */
GS_MUST_USE enum gs_code guest_monitor_words(struct guest_monitor *m, gpa_t at, void *buf,
					     size_t len, struct gs_error *err);

#endif
