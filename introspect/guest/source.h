/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that are not our own VMM's: dumps, and the domains of another VMM. */
#ifndef INTROSPECT_GUEST_SOURCE_H
#define INTROSPECT_GUEST_SOURCE_H

/*
 *	struct guest_source s;
 *	if (!guest_source_open_core("vmcore", NULL, &s, &err)) {
 *		…use s.guest as any other…
 *		guest_source_close(&s);
 *	}
 *
 * Threads: a source is opened and closed on one thread; its guest is used as guest.h says.
 */

#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

#define GUEST_SOURCE_NOTE_MAX 256

/** A guest and the way to let go of it. Zeroed means closed. */
struct guest_source {
	struct guest *guest;
	void (*close)(void *priv);
	void *priv;
	/** How memory is read, for people: "mapped ELF core", "shared memory backend", … */
	const char *access;
	/** What the source lacks and why (a truncated file, no registers), one line; "" if nothing. */
	char note[GUEST_SOURCE_NOTE_MAX];
};

/** Let go: a live guest is left running, or paused if it was found paused. Safe twice. */
static inline void guest_source_close(struct guest_source *s)
{
	if (s->close)
		s->close(s->priv);
	*s = (struct guest_source){ 0 };
}

/** For dumps. Zeroed: defaults. */
struct guest_dump_options {
	bool raw; /* the file is bare RAM from ram_base on */
	gpa_t ram_base;
};

/**
 * Open a dump: an ELF core (QEMU's dump-guest-memory, virsh dump --memory-only, vmcore), a
 * kdump-compressed file, or bare RAM.
 *
 * @param options  may be NULL
 * @return GS_OK, also for a truncated file (see note); GS_ENOENT, GS_EDENIED, GS_ESYS: the file;
 *         GS_EMALFORMED: not a dump of an ARM64 guest; GS_ENOTSUP: a kind that is not read here,
 *         named, with what to do
 */
GS_MUST_USE enum gs_code guest_source_open_dump(const char *path,
						const struct guest_dump_options *options,
						struct guest_source *source_out,
						struct gs_error *err);

/**
 * Attach to a QEMU process by its QMP socket.
 *
 * @param deadline_ns  monotonic time by which each wait for QEMU ends
 */
GS_MUST_USE enum gs_code guest_source_open_qmp(const char *socket_path, uint64_t deadline_ns,
					       struct guest_source *source_out,
					       struct gs_error *err);

/**
 * Attach to a libvirt domain. libvirt is loaded only now; GS_ENOTSUP when it is not installed.
 *
 * @param uri  NULL: libvirt's default
 */
GS_MUST_USE enum gs_code guest_source_open_libvirt(const char *uri, const char *domain,
						   uint64_t deadline_ns,
						   struct guest_source *source_out,
						   struct gs_error *err);

#endif
