/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that are not our own VMM's, as named on a command line. */
#include "cli/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "introspect/guest/dump.h"

/* How far apart the tries are while the guest is waited for. */
#define SOURCE_WAIT_MS 100

error_t cli_source_key(struct cli_source_options *o, int key, const char *arg,
		       struct argp_state *state)
{
	switch (key) {
	case CLI_KEY_DOMAIN: o->domain = arg; return 0;
	case CLI_KEY_CONNECT: o->connect = arg; return 0;
	case CLI_KEY_QMP: o->qmp = arg; return 0;
	case CLI_KEY_CORE: o->core = arg; return 0;
	case CLI_KEY_RAM_BASE:
		o->has_ram_base = true;
		if (cli_parse_address(arg, &o->ram_base))
			return 0;
		argp_error(state,
			   "--ram-base %s: not an address such as %#" PRIx64 " (QEMU's virt)", arg,
			   GUEST_DUMP_RAM_BASE);
		return EINVAL;
	case CLI_KEY_IMAGE: o->image = arg; return 0;
	case CLI_KEY_PROFILE: o->profile = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cli_source_count(const struct cli_source_options *o)
{
	return (o->domain != NULL) + (o->qmp != NULL) + (o->core != NULL);
}

error_t cli_source_end(const struct cli_source_options *o, struct argp_state *state)
{
	if (o->connect && !o->domain)
		argp_error(state, "--connect goes with --domain");
	else if (o->has_ram_base && !o->core)
		argp_error(state, "--ram-base goes with --core");
	else if ((o->image || o->profile) && !cli_source_count(o))
		argp_error(state, "hints go with --domain, --qmp or --core");
	else
		return 0;
	return EINVAL;
}

error_t cli_any_guest_key(struct cli_source_options *o, struct cli_remote *r, int key,
			  const char *arg, struct argp_state *state)
{
	error_t e = cli_source_key(o, key, arg, state);

	return e == ARGP_ERR_UNKNOWN ? cli_remote_key(r, key, arg, state) : e;
}

error_t cli_any_guest_end(const struct cli_source_options *o, const struct cli_remote *r,
			  struct argp_state *state)
{
	if (cli_source_count(o) + (r->control != NULL) == 1)
		return cli_source_end(o, state);
	argp_error(state, "one guest, please: --control, --domain, --qmp or --core");
	return EINVAL;
}

static enum gs_code open_once(const struct cli_source_options *o, uint64_t answer_ns,
			      struct guest_source *source_out, struct gs_error *err)
{
	const struct guest_dump_options dump = { .raw = o->has_ram_base,
						 .ram_base = GPA(o->ram_base) };
	uint64_t deadline = gs_clock_ns() + answer_ns;

	if (o->domain)
		return guest_source_open_libvirt(o->connect, o->domain, deadline, source_out, err);
	if (o->qmp)
		return guest_source_open_qmp(o->qmp, deadline, source_out, err);
	return guest_source_open_dump(o->core, &dump, source_out, err);
}

static enum gs_code open_guest(const struct cli_source_options *o, uint64_t answer_ns,
			       uint64_t wait_ns, struct guest_source *source_out,
			       struct gs_error *err)
{
	const struct timespec pause = { .tv_nsec = SOURCE_WAIT_MS * (long)GS_NS_PER_MS };
	const uint64_t give_up = gs_clock_ns() + wait_ns;

	for (;;) {
		enum gs_code rc = open_once(o, answer_ns, source_out, err);
		if (rc != GS_ENOENT || gs_clock_ns() >= give_up)
			return rc;
		nanosleep(&pause, NULL);
	}
}

enum gs_code cli_source_open(const struct cli_source_options *o, uint64_t answer_ns,
			     uint64_t wait_ns, struct cli_source *source_out, struct gs_error *err)
{
	struct cli_source s = { 0 };
	enum gs_code rc = o->image ? lnx_reference_open(o->image, &s.reference, err) : GS_OK;

	if (!rc)
		rc = cli_profiles_open(o->profile, &s.profiles, &s.hints, err);
	if (!rc)
		rc = open_guest(o, answer_ns, wait_ns, &s.guest, err);
	if (rc) {
		cli_source_close(&s);
		return rc;
	}
	s.hints.reference = s.reference;
	s.hints.vmcoreinfo = guest_dump_vmcoreinfo(&s.guest, &s.hints.vmcoreinfo_size);
	*source_out = s;
	return GS_OK;
}

void cli_source_close(struct cli_source *s)
{
	guest_source_close(&s->guest);
	lnx_reference_destroy(s->reference);
	cli_profiles_close(&s->profiles);
	free(s->no_kernel);
	*s = (struct cli_source){ 0 };
}

void cli_source_say(const struct guest_source *s, const char *lead)
{
	char size[CLI_TEXT_MAX];

	fprintf(stderr, "guestshot: %s%s: %" PRIu32 " vCPUs, %s; memory: %s%s%s\n", lead,
		s->guest->source, s->guest->vcpu_count,
		cli_format_size(guest_ram_size(s->guest), size), s->access, *s->note ? "; " : "",
		s->note);
}

static void say_types(const struct lnx_found *f)
{
	static const char *const why[] = {
		[LNX_PROFILE_OF_ANY] = "not known whether of this kernel",
		[LNX_PROFILE_OTHER] = "of another kernel",
		[LNX_PROFILE_SAME_BANNER] = "it has this kernel's banner",
		[LNX_PROFILE_SAME_BUILD_ID] = "it has this kernel's build id",
	};
	char took[CLI_TEXT_MAX];

	cli_format_duration(f->types_ns, took);
	if (f->types_by == LNX_BY_PROFILE)
		gs_log(GS_LOG_INFO, "types: the profile %s, %s (%s)", f->profile,
		       why[f->profile_match], took);
	else
		gs_log(GS_LOG_INFO, "types: %s (%s)", lnx_way_name(f->types_by), took);
}

void cli_kernel_say(const struct lnx_kernel *k)
{
	char took[CLI_TEXT_MAX];

	if (!k)
		return; /* the capture says why */
	const struct lnx_found *f = lnx_kernel_found(k);
	struct lnx_kernel_info info = lnx_kernel_info_get(k);
	gs_log(GS_LOG_INFO, "kernel %s, %" PRIu32 "K pages, %" PRIu32 "-bit addresses",
	       *info.release ? info.release : "of unknown release", info.page_size >> 10,
	       info.va_bits);
	gs_log(GS_LOG_INFO,
	       "symbols: %" PRIu32 " of style %c at guest-physical %#" PRIx64
	       ", found by %s, %" PRIu32 " tables looked at (%s)",
	       info.symbols, info.kallsyms_style, f->symbols_at.a, lnx_way_name(f->symbols_by),
	       f->candidates, cli_format_duration(f->symbols_ns, took));
	gs_log(GS_LOG_INFO, "place: _stext at %#" PRIx64 ", found by %s (%s)", info.text,
	       f->place_by == LNX_BY_SCAN ? "a page directory in the image"
					  : lnx_way_name(f->place_by),
	       cli_format_duration(f->place_ns, took));
	say_types(f);
	gs_log(GS_LOG_INFO, "roots: init_task at %#" PRIx64 " (%s); vCPUs that prove it: %d",
	       lnx_init_task(k).a, cli_format_duration(f->roots_ns, took), f->evidence);
}

/* "--timeout 0": longer than anybody waits, but a time that can be added to. */
#define ANSWER_NEVER_NS (UINT64_C(365) * 24 * 3600 * GS_NS_PER_SEC)

static enum gs_code capture(struct ss_session *session, const struct ss_request *ask,
			    uint64_t deadline_ns, struct ss_result *result_out,
			    struct gs_error *err)
{
	struct ss_request request = *ask;
	enum gs_code rc = GS_OK;

	request.version = SS_REQUEST_VERSION;
	request.size = sizeof(request);
	if (deadline_ns) {
		rc = ss_session_prepare(session, err);
		request.deadline_ns = gs_clock_ns() + deadline_ns;
	}
	if (!rc)
		rc = ss_capture(session, &request, result_out, err);
	if (!rc)
		cli_kernel_say(ss_session_kernel(session));
	return rc;
}

enum gs_code cli_source_capture(const struct cli_source_options *o, const struct cli_remote *remote,
				const struct ss_request *ask, uint64_t deadline_ns,
				struct cli_source *source_out, struct ss_result *result_out,
				struct gs_error *err)
{
	const uint64_t answer_ns = remote->timeout_ns ? remote->timeout_ns : ANSWER_NEVER_NS;
	struct ss_session *session;
	enum gs_code rc = cli_source_open(o, answer_ns, remote->wait_ns, source_out, err);

	if (!rc)
		rc = ss_session_create(source_out->guest.guest, &session, err);
	if (rc)
		return rc;
	ss_session_hint(session, &source_out->hints);
	rc = capture(session, ask, deadline_ns, result_out, err);
	if (!rc && !ss_session_kernel(session))
		source_out->no_kernel = strdup(ss_session_why_no_kernel(session)->text);
	ss_session_destroy(session);
	return rc;
}
