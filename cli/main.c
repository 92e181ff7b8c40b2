/* SPDX-License-Identifier: Apache-2.0 */
/* The guestshot command: finds the subcommand and gives it its arguments. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"

static const struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} subcommands[] = {
	{ "run", cli_cmd_run, "boot a guest on ARM64 KVM" },
	{ "snap", cli_cmd_snap, "take a capture of a running guest" },
	{ "show", cli_cmd_show, "show a capture: every thread and its kernel stack" },
	{ "watch", cli_cmd_watch, "show a running guest, again and again" },
	{ "diff", cli_cmd_diff, "compare captures: what ran, and what has not" },
	{ "log", cli_cmd_log, "print the log of a guest's kernel" },
	{ "dump", cli_cmd_dump, "write a guest's memory as an ELF core" },
	{ "attach", cli_cmd_attach, "serve a guest of QEMU or libvirt, or a dump" },
	{ "sample", cli_cmd_sample, "sample what vCPUs execute, and show it" },
	{ "trace", cli_cmd_trace, "probe a running guest, and show what that records" },
	{ "btlog", cli_cmd_btlog, "look at the backtraces that captures and samples collected" },
	{ "status", cli_cmd_status, "show how a guest and its captures are doing" },
	{ "profile", cli_cmd_profile, "make and check structure layouts for kernels without BTF" },
	{ "kcdata", cli_cmd_kcdata, "look into kcdata files, check them, convert them" },
};

static void print_help(FILE *to)
{
	fputs("Usage: guestshot COMMAND [ARGUMENT...]\n"
	      "What is every thread of a guest's kernel doing, seen from outside.\n\n",
	      to);
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++)
		fprintf(to, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
	fputs("\n  guestshot COMMAND --help   says more; so does man guestshot\n"
	      "  guestshot --version\n",
	      to);
}

/* Without them the first files we open would be standard input, output and error. */
static void ensure_standard_files(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			exit(CLI_EXIT_SYSTEM); /* nowhere to say why */
	}
}

static int run_subcommand(int argc, char **argv)
{
	for (size_t i = 0; i < ARRAY_SIZE(subcommands); i++) {
		if (strcmp(argv[0], subcommands[i].name) != 0)
			continue;
		char name[64];
		snprintf(name, sizeof(name), "guestshot %s", subcommands[i].name);
		argv[0] = name; /* what argp puts before its messages */
		return subcommands[i].run(argc, argv);
	}
	fprintf(stderr, "guestshot: no command '%s' (try: guestshot --help)\n", argv[0]);
	return CLI_EXIT_USAGE;
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return CLI_EXIT_USAGE;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts("guestshot " GUESTSHOT_VERSION);
		return CLI_EXIT_OK;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
		return CLI_EXIT_OK;
	}
	if (!strcmp(argv[1], "help")) {
		static char help[] = "--help";
		char *arguments[] = { argc > 2 ? argv[2] : NULL, help, NULL };

		if (argc > 2)
			return run_subcommand(2, arguments);
		print_help(stdout);
		return CLI_EXIT_OK;
	}
	return run_subcommand(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	ensure_standard_files();
	/* A reader that goes away and a full quota are errors of a write, with a message. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);

	int code = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && code == CLI_EXIT_OK) {
		gs_log(GS_LOG_ERROR, "standard output: %m");
		code = CLI_EXIT_OUTPUT;
	}
	return code;
}
