/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share: their entries, the exit codes, arguments and values. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/stackshot/stackshot.h"

/**
 * Exit codes of every subcommand: the one table. docs/exit-codes.md says the same for users; a code
 * keeps its meaning for ever. Below 64: how a guest or a capture turned out. 64 … 78, as in
 * <sysexits.h>: the command could not do its work. From 124 on, as timeout(1) and shells have it.
 */
enum cli_exit {
	CLI_EXIT_OK = 0,      /* done; run: the guest powered off, or a line says that it is good */
	CLI_EXIT_FAILURE = 1, /* failed in a way that no other code names */
	CLI_EXIT_INCOMPLETE = 2,   /* there is a capture, but something is missing in it */
	CLI_EXIT_REBOOT = 3,	   /* run: the guest asked for a reboot */
	CLI_EXIT_CRASH = 4,	   /* run: the guest reported that it crashed */
	CLI_EXIT_VM_ERROR = 5,	   /* run: KVM could not go on; a report is on standard error */
	CLI_EXIT_REQUESTED = 6,	   /* run: ended by "quit" or by Ctrl-A x */
	CLI_EXIT_NO_MATCH = 7,	   /* run: the guest powered off before --until had matched */
	CLI_EXIT_FAIL_ON = 8,	   /* run: a line of the console matched --fail-on */
	CLI_EXIT_TEST_FAILED = 9,  /* run: the guest's test ended with a status other than 0 */
	CLI_EXIT_USAGE = 64,	   /* arguments make no sense */
	CLI_EXIT_BAD_DATA = 65,	   /* an input is not what it should be: no Image, no capture */
	CLI_EXIT_NO_INPUT = 66,	   /* what was asked for is not there: a file, a process */
	CLI_EXIT_UNAVAILABLE = 69, /* no KVM for ARM64 here; nobody answers at the control socket */
	CLI_EXIT_SYSTEM = 71,	   /* the system refused: out of memory, a failing system call */
	CLI_EXIT_OUTPUT = 73,	   /* an output cannot be written */
	CLI_EXIT_BUSY = 75,	   /* in use; may work later */
	CLI_EXIT_PROTOCOL = 76,	   /* what answers does not speak our protocol */
	CLI_EXIT_DENIED = 77,	   /* permission missing */
	CLI_EXIT_TIMEOUT = 124,	   /* --timeout passed */
	CLI_EXIT_SIGNAL = 128,	   /* + number of the signal that ended it */
};

/** The exit code for a failure that a room reported. */
enum cli_exit cli_exit_of(enum gs_code code);

/** Print "guestshot: error: text". @return cli_exit_of(err->code), for `return cli_error(&err)` */
int cli_error(const struct gs_error *err);

/** The same when an output could not be written. @return CLI_EXIT_DENIED or CLI_EXIT_OUTPUT */
int cli_output_error(const struct gs_error *err);

/* Entries of the subcommands; argv[0] is "guestshot <name>"; they return an exit code. */
int cli_cmd_run(int argc, char **argv);
int cli_cmd_snap(int argc, char **argv);
int cli_cmd_show(int argc, char **argv);
int cli_cmd_diff(int argc, char **argv);
int cli_cmd_status(int argc, char **argv);
int cli_cmd_kcdata(int argc, char **argv);
int cli_cmd_dump(int argc, char **argv);
int cli_cmd_sample(int argc, char **argv);
int cli_cmd_trace(int argc, char **argv);
int cli_cmd_btlog(int argc, char **argv);
int cli_cmd_attach(int argc, char **argv);
int cli_cmd_profile(int argc, char **argv);
int cli_cmd_log(int argc, char **argv);
int cli_cmd_watch(int argc, char **argv);

/**
 * Child of every subcommand's argp: --help and --usage, which argp's own would answer with its own
 * exit. Parse through cli_parse() only.
 */
extern const struct argp_child cli_argp_children[];

/**
 * Parse arguments without exiting.
 *
 * @param exit_out what to return from the subcommand when the result is false: help was shown, or
 *                 the arguments were wrong and standard error says so
 * @return whether to go on
 */
GS_MUST_USE bool cli_parse(const struct argp *argp, int argc, char **argv, void *input,
			   int *exit_out);

/** Parse bytes: "1048576", "64K", "512M", "2G" (powers of 1024). @return false: not that */
GS_MUST_USE bool cli_parse_size(const char *text, uint64_t *bytes_out);

/** Parse a duration: "500ms", "60s", "2m", "1h", "1.5s"; a bare number is seconds. */
GS_MUST_USE bool cli_parse_duration(const char *text, uint64_t *ns_out);

/** Parse a decimal number in [@p min, @p max], nothing before or after it. */
GS_MUST_USE bool cli_parse_number(const char *text, uint64_t min, uint64_t max,
				  uint64_t *number_out);

/** Parse a share: "0.1%", "5", "0.0001%", to 100%. @param ppm_out  parts of a million, from 1 */
GS_MUST_USE bool cli_parse_percent(const char *text, uint32_t *ppm_out);

/** Parse an address: "0xffff000002a85140", or decimal; nothing before or after it. */
GS_MUST_USE bool cli_parse_address(const char *text, uint64_t *address_out);

/**
 * Take the first word off a list divided by commas.
 *
 * @param list  is moved behind it; NULL afterwards: it was the last one
 * @return its place in @p names; @p count: it is none of them
 */
size_t cli_take_word(const char **list, const char *const *names, size_t count);

/** What the clusters of a guest are, in their order; those beyond are not said. */
struct cli_kinds {
	uint32_t count;
	enum ss_cluster_kind kind[SS_WORKERS_MAX];
};

#define CLI_KINDS_WRONG "not a list of big, little and same"

/** Parse kinds of clusters: "big", "little,big", "same,same,big". @return false: not that, or too many */
GS_MUST_USE bool cli_parse_kinds(const char *text, struct cli_kinds *kinds_out);

/* Longest text of the two below, NUL included. */
#define CLI_TEXT_MAX 32

/** "512 MiB", "1.5 KiB"; @return @p buf */
const char *cli_format_size(uint64_t bytes, char buf[static CLI_TEXT_MAX]);

/** "3.21 ms", "1.50 s"; @return @p buf */
const char *cli_format_duration(uint64_t ns, char buf[static CLI_TEXT_MAX]);

#endif
