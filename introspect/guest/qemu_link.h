/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to one QEMU, whichever way it goes. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_LINK_H
#define INTROSPECT_GUEST_QEMU_LINK_H

/*
 * What the source of QEMU's guests needs: monitor commands, stop and resume, and who QEMU is. There
 * are two: QMP's own socket (qmp_link.c) and libvirt (libvirt_link.c).
 *
 * Each call ends at its deadline. An answer that comes later is skipped, and the link stays good.
 * The one promise that is kept after a deadline, a lost connection or our death: a guest that
 * suspend() may have stopped is resumed as soon as the other side can.
 *
 * Threads: one call at a time; the source serialises them.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "introspect/guest/addr.h"
#include "introspect/guest/guest.h"

struct guest_link {
	const struct guest_link_ops *ops;
	const char *name;   /* of the source: "qmp", "libvirt" */
	uint64_t resume_ns; /* what a resume takes, about, as long as none has been measured */
};

struct guest_link_ops {
	/** As guest_qmp_execute(); @p arguments is taken. */
	enum gs_code (*execute)(struct guest_link *l, const char *command, json_t *arguments,
				uint64_t deadline_ns, json_t **value_out, struct gs_error *err);
	/**
	 * Whether the guest executes. A link that was lost is made again, if it leads to the same
	 * guest: GS_ENOENT if not.
	 */
	enum gs_code (*is_running)(struct guest_link *l, uint64_t deadline_ns, bool *running_out,
				   struct gs_error *err);
	/**
	 * Stop a running guest.
	 *
	 * @param resume_ns  when another process of ours resumes it if we have not;
	 *                   GUEST_NO_DEADLINE
	 * @return GS_OK; GS_ETIMEDOUT: it may be stopped, or will be: resume() has to follow; others:
	 *         it is not stopped, or is resumed, sooner or later
	 */
	enum gs_code (*suspend)(struct guest_link *l, uint64_t resume_ns, uint64_t deadline_ns,
				struct gs_error *err);
	/** Undo suspend(). On failure it happens without us, later. */
	enum gs_code (*resume)(struct guest_link *l, uint64_t deadline_ns, struct gs_error *err);
	/** QEMU's process on this host; 0: not here, or not known. */
	pid_t (*pid)(struct guest_link *l);
	/** Guest-physical memory, up to GUEST_LINK_PEEK_MAX bytes; NULL: the link has no such way. */
	enum gs_code (*peek)(struct guest_link *l, gpa_t at, void *buf, size_t len,
			     uint64_t deadline_ns, struct gs_error *err);
	/** Ends the connection; a guest that suspend() stopped is resumed. */
	void (*close)(struct guest_link *l);
};

/*
 * libvirt's daemons of all versions answer with 64 KiB (include/libvirt/libvirt-domain.h), those
 * since 1.0.6 with 4 MiB (src/remote/remote_protocol.x).
 */
#define GUEST_LINK_PEEK_MAX (2u << 20)
#define GUEST_LINK_PEEK_MIN 65536

/**
 * Connect to a QMP socket.
 *
 * @param link_out returned: end with ops->close()
 */
GS_MUST_USE enum gs_code guest_qmp_link_open(const char *socket_path, uint64_t deadline_ns,
					     struct guest_link **link_out, struct gs_error *err);

/** The same over a connected socket, which is taken. For tests. */
GS_MUST_USE enum gs_code guest_qmp_link_start(int fd, uint64_t deadline_ns,
					      struct guest_link **link_out, struct gs_error *err);

/** Connect to a libvirt domain. @param uri NULL: libvirt's default */
GS_MUST_USE enum gs_code guest_libvirt_link_open(const char *uri, const char *domain,
						 uint64_t deadline_ns, struct guest_link **link_out,
						 struct gs_error *err);

#endif
