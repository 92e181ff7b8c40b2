/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that are not our own VMM's, as named on a command line: options, opening, what is said. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/source.h"
#include "cli/profiles.h"
#include "cli/remote.h"
#include "introspect/linux/linux.h"
#include "introspect/stackshot/stackshot.h"

struct cli_source_options {
	const char *domain, *connect, *qmp, *core; /* at most one guest: connect goes with domain */
	bool has_ram_base;
	uint64_t ram_base;
	const char *image, *profile; /* hints; NULL: none */
};

/** An open guest with what is known of its kernel beforehand. Zeroed: closed. */
struct cli_source {
	struct guest_source guest;
	struct lnx_hints hints;
	struct lnx_reference *reference;
	struct cli_profiles profiles;
	char *no_kernel; /* of a capture: why none was found; NULL: one was, or no memory to say it */
};

enum {
	CLI_KEY_DOMAIN = 0x300,
	CLI_KEY_CONNECT,
	CLI_KEY_QMP,
	CLI_KEY_CORE,
	CLI_KEY_RAM_BASE,
	CLI_KEY_IMAGE,
	CLI_KEY_PROFILE,
};

/* clang-format off */
#define CLI_SOURCE_OPTIONS \
	{ "domain", CLI_KEY_DOMAIN, "NAME", 0, "A libvirt domain, by name or UUID", 2 }, \
	{ "connect", CLI_KEY_CONNECT, "URI", 0, "libvirt's URI (default: libvirt's own)", 2 }, \
	{ "qmp", CLI_KEY_QMP, "SOCKET", 0, "A QEMU, by its QMP socket", 2 }, \
	{ "core", CLI_KEY_CORE, "FILE", 0, "A memory dump: ELF core, kdump, RAM", 2 }, \
	{ "ram-base", CLI_KEY_RAM_BASE, "ADDRESS", 0, "The dump is bare RAM, from this guest-physical address on", 2 }, \
	{ "image", CLI_KEY_IMAGE, "FILE", 0, "The guest's kernel image, to tell it from others in memory", 2 }, \
	{ "vmlinux", CLI_KEY_IMAGE, "FILE", 0, "The same as an ELF file", 2 }, \
	{ "profile", CLI_KEY_PROFILE, "FILE|FOLDER", 0, "Structure layouts, for a kernel without type information", 2 }
/* clang-format on */

/** Take one of CLI_SOURCE_OPTIONS; ARGP_ERR_UNKNOWN for other keys. */
error_t cli_source_key(struct cli_source_options *o, int key, const char *arg,
		       struct argp_state *state);

/** How many guests are named. */
int cli_source_count(const struct cli_source_options *o);

/** For ARGP_KEY_END, once the number of guests is right: options that go with others only. */
error_t cli_source_end(const struct cli_source_options *o, struct argp_state *state);

/** The two above for a subcommand that takes a guest of any kind: by its control socket, or these. */
error_t cli_any_guest_key(struct cli_source_options *o, struct cli_remote *r, int key,
			  const char *arg, struct argp_state *state);
error_t cli_any_guest_end(const struct cli_source_options *o, const struct cli_remote *r,
			  struct argp_state *state);

/**
 * Open the guest, as soon as it is there.
 *
 * @param answer_ns  longest wait for each answer of QEMU or libvirt
 * @param wait_ns    for the guest to appear
 * @param source_out cli_source_close()
 * @return GS_OK; GS_ENOENT: not there in time; others as guest_source_open_…()
 */
GS_MUST_USE enum gs_code cli_source_open(const struct cli_source_options *o, uint64_t answer_ns,
					 uint64_t wait_ns, struct cli_source *source_out,
					 struct gs_error *err);

/**
 * Open the guest and take one capture of it.
 *
 * @param remote       its timeout and how long to wait for the guest
 * @param ask          but for version, size and deadline_ns
 * @param deadline_ns  most that the guest is stopped; 0: no limit
 * @param source_out   cli_source_close(), also after a failure: a live guest is to be let go before
 *                     anything is written
 * @param result_out   zeroed; ss_result_deinit()
 * @return as cli_source_open() and ss_capture()
 */
GS_MUST_USE enum gs_code cli_source_capture(const struct cli_source_options *o,
					    const struct cli_remote *remote,
					    const struct ss_request *ask, uint64_t deadline_ns,
					    struct cli_source *source_out,
					    struct ss_result *result_out, struct gs_error *err);

/** Let the guest go. Safe twice. */
void cli_source_close(struct cli_source *s);

/** "memory: shared memory backend; note" on standard error, after @p lead. */
void cli_source_say(const struct guest_source *s, const char *lead);

/** How a kernel was found, on standard error: a line for each step. @p k may be NULL: nothing. */
void cli_kernel_say(const struct lnx_kernel *k);

#endif
