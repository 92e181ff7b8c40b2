/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot profile: structure layouts as a file, made of type information, and tried on a guest. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/source.h"

/* Longest wait for each answer of QEMU or libvirt. */
#define ANSWER_NS (10 * GS_NS_PER_SEC)

/* --- make --------------------------------------------------------------------------------------- */

struct make_options {
	const char *input, *output;
};

static const struct argp_option make_argp_options[] = {
	{ "output", 'o', "FILE", 0, "Write to FILE (default: standard output)", 1 },
	{ 0 },
};

static error_t parse_make(int key, char *arg, struct argp_state *state)
{
	struct make_options *o = state->input;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case ARGP_KEY_ARG:
		if (o->input) {
			argp_error(state, "one INPUT, please: unexpected argument: %s", arg);
			return EINVAL;
		}
		o->input = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->input)
			return 0;
		argp_error(state, "INPUT is missing");
		return EINVAL;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp make_argp = {
	.options = make_argp_options,
	.parser = parse_make,
	.args_doc = "INPUT",
	.doc = "Write a profile, the structure layouts of a kernel, from INPUT: a vmlinux with "
	       "DWARF or "
	       "BTF, an Image with BTF, or a symbol file of Volatility 3 (JSON).",
	.children = cli_argp_children,
};

static int do_make(int argc, char **argv)
{
	struct make_options o = { 0 };
	struct gs_error err = { 0 };
	GS_FREE char *text = NULL;
	int code;

	if (!cli_parse(&make_argp, argc, argv, &o, &code))
		return code;
	if (lnx_profile_make(o.input, &text, &err))
		return cli_error(&err);
	if (!o.output)
		return puts(text) < 0 ? CLI_EXIT_OUTPUT : CLI_EXIT_OK;
	if (gs_file_write_atomic(o.output, text, strlen(text), 0644, &err))
		return cli_output_error(&err);
	return CLI_EXIT_OK;
}

/* --- check -------------------------------------------------------------------------------------- */

struct check_options {
	struct cli_source_options source;
};

static const struct argp_option check_argp_options[] = {
	CLI_SOURCE_OPTIONS,
	{ 0 },
};

static error_t parse_check(int key, char *arg, struct argp_state *state)
{
	struct check_options *o = state->input;

	switch (key) {
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END:
		if (cli_source_count(&o->source) != 1)
			argp_error(state, "one guest, please: --domain, --qmp or --core");
		else if (!o->source.profile)
			argp_error(state, "which profile? --profile FILE is missing");
		else
			return cli_source_end(&o->source, state);
		return EINVAL;
	default: return cli_source_key(&o->source, key, arg, state);
	}
}

static const struct argp check_argp = {
	.options = check_argp_options,
	.parser = parse_check,
	.doc = "Try a profile on a guest: compare it with the kernel's own types, if there are "
	       "any, search the kernel with it, and read every thread.",
	.children = cli_argp_children,
};

/* What was found out, best first: the exit code is of the worst. */
enum finding { FITS, LACKS, WRONG };

struct check {
	const struct cli_source *source;
	const struct lnx_profile *profile;
	struct guest_vcpu_regs *regs; /* of a short stop: the search runs beside the guest */
	struct lnx_kernel *k;	      /* NULL: handed over, or none was found */
	enum finding finding;
};

static void find_out(struct check *c, enum finding finding)
{
	if (finding > c->finding)
		c->finding = finding;
}

static void print_difference(const struct lnx_difference *d, void *arg)
{
	printf("  %s: profile %s; kernel %s\n", d->name, d->profile ? d->profile : "has none",
	       d->kernel ? d->kernel : "has none");
	find_out(arg, d->profile ? WRONG : LACKS);
}

/* Text of the guest, for a terminal. */
static void print_banner(const struct lnx_kernel *k)
{
	const char *banner = lnx_kernel_banner(k);
	char text[LNX_BANNER_MAX * 2]; /* what is escaped may be cut */

	(void)gs_escape_terminal(banner, strlen(banner), text, sizeof(text));
	printf("kernel: %s\n", *text ? text : "without a banner");
}

static void print_match(struct check *c, const struct lnx_kernel *k)
{
	switch (lnx_profile_match(c->profile, k)) {
	case LNX_PROFILE_OF_ANY:
		puts("made for: not known: no build id or banner to compare");
		return;
	case LNX_PROFILE_SAME_BANNER: puts("made for: this kernel, by its banner"); return;
	case LNX_PROFILE_SAME_BUILD_ID: puts("made for: this kernel, by its build id"); return;
	case LNX_PROFILE_OTHER:
		puts("made for: ANOTHER kernel, as build id or banner say");
		find_out(c, WRONG);
	}
}

/* Step one: the kernel as it is found, whatever types it has. */
static void compare(struct check *c)
{
	const enum lnx_way by = lnx_kernel_found(c->k)->types_by;

	print_banner(c->k);
	print_match(c, c->k);
	if (by == LNX_BY_PROFILE) {
		puts("types: the kernel has none of its own to compare with");
		return;
	}
	printf("types: compared with %s\n", lnx_way_name(by));
	uint32_t n = lnx_profile_compare(c->profile, c->k, print_difference, c);
	printf("differences: %" PRIu32 "\n", n);
}

/* Step two: the same kernel with the profile. @return whether its tasks are there */
static bool retype(struct check *c, struct gs_error *err)
{
	struct guest *g = c->source->guest.guest;

	if (lnx_kernel_retype(c->k, c->profile, g, c->regs, g->vcpu_count, err)) {
		printf("with the profile: NOT found: %s\n", err->text);
		find_out(c, WRONG);
		return false;
	}
	printf("with the profile: found, init_task at %#" PRIx64 "\n", lnx_init_task(c->k).a);
	return true;
}

/* Step three: a capture. */
static enum gs_code try_capture(struct check *c, struct gs_error *err)
{
	const struct ss_request request = { .version = SS_REQUEST_VERSION,
					    .size = sizeof(request),
					    .pid = SS_PID_ALL };
	struct ss_result result = { 0 };
	struct ss_session *session;
	enum gs_code rc = ss_session_create(c->source->guest.guest, &session, err);

	if (rc)
		return rc;
	ss_session_hint(session, &c->source->hints);
	ss_session_give_kernel(session, GS_TAKE(c->k));
	rc = ss_capture(session, &request, &result, err);
	if (!rc) {
		printf("tasks: %" PRIu32 " processes, %" PRIu32 " threads%s\n", result.tasks,
		       result.threads,
		       result.complete ? "" : "; NOT complete: a capture says what is missing");
		if (!result.threads || !ss_session_kernel(session))
			find_out(c, WRONG);
		else if (!result.complete)
			find_out(c, LACKS);
	}
	ss_result_deinit(&result);
	ss_session_destroy(session);
	return rc;
}

static int conclude(const struct check *c)
{
	switch (c->finding) {
	case FITS: puts("the profile fits"); return CLI_EXIT_OK;
	case LACKS: puts("the profile fits, but something is missing"); return CLI_EXIT_INCOMPLETE;
	case WRONG: break;
	}
	puts("the profile does NOT fit");
	return CLI_EXIT_BAD_DATA;
}

static int check_source(const struct cli_source *source, struct gs_error *err)
{
	struct guest *g = source->guest.guest;
	GS_FREE struct guest_vcpu_regs *regs =
		gs_array_alloc(g->vcpu_count ? g->vcpu_count : 1, sizeof(*regs));
	struct check c = { .source = source, .profile = source->hints.profile, .regs = regs };
	enum gs_code rc;

	if (!c.profile)
		rc = gs_fail(err, GS_EINVAL, "--profile: check tries one file, not a folder");
	else if (!regs)
		rc = gs_fail(err, GS_ENOSPC, "out of memory");
	else
		rc = guest_regs_of_short_stop(g, regs, err);
	if (!rc)
		rc = lnx_kernel_find(g, regs, g->vcpu_count, &source->hints, &c.k, err);
	if (!rc) {
		compare(&c);
		if (retype(&c, err))
			rc = try_capture(&c, err);
	}
	lnx_kernel_destroy(c.k);
	if (rc)
		return cli_error(err);
	return conclude(&c);
}

static int do_check(int argc, char **argv)
{
	struct check_options o = { 0 };
	struct cli_source source = { 0 };
	struct gs_error err = { 0 };
	int code;

	if (!cli_parse(&check_argp, argc, argv, &o, &code))
		return code;
	if (cli_source_open(&o.source, ANSWER_NS, 0, &source, &err))
		return cli_error(&err);
	code = check_source(&source, &err);
	cli_source_close(&source);
	return code;
}

/* ------------------------------------------------------------------------------------------------ */

static void print_usage(FILE *to)
{
	fputs("Usage: guestshot profile make [-o FILE] INPUT\n"
	      "       guestshot profile check --profile FILE --core FILE|--domain NAME|--qmp "
	      "SOCKET\n"
	      "Structure layouts as a file, for kernels without type information.\n\n"
	      "  guestshot profile make --help    says more; so does man guestshot-profile\n",
	      to);
}

int cli_cmd_profile(int argc, char **argv)
{
	static char make[] = "guestshot profile make", check[] = "guestshot profile check";

	if (argc > 1 && !strcmp(argv[1], "make")) {
		argv[1] = make; /* what argp puts before its messages */
		return do_make(argc - 1, argv + 1);
	}
	if (argc > 1 && !strcmp(argv[1], "check")) {
		argv[1] = check;
		return do_check(argc - 1, argv + 1);
	}
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-?"))) {
		print_usage(stdout);
		return CLI_EXIT_OK;
	}
	print_usage(stderr);
	return CLI_EXIT_USAGE;
}
