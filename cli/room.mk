# cli: the guestshot command
cli_SRCS  := cli/main.c cli/common.c cli/remote.c cli/console.c cli/until.c cli/console_lines.c cli/console_watch.c \
             cli/schedule_options.c cli/run_options.c cli/outcome.c cli/artifacts.c cli/results.c cli/junit.c \
             cli/snap_options.c cli/files.c cli/cmd_run.c cli/cmd_snap.c cli/cmd_status.c
# the part of run that needs the machine
ifeq ($(ARCH),aarch64)
  cli_SRCS += cli/run_machine.c
endif
cli_SRCS += cli/cmd_kcdata.c
cli_SRCS += cli/source.c cli/cmd_attach.c cli/cmd_dump.c cli/cmd_sample.c cli/cmd_btlog.c cli/book_view.c
cli_SRCS += cli/cmd_trace.c cli/trace_view.c
cli_SRCS += cli/cmd_log.c cli/cmd_profile.c cli/profiles.c
cli_SRCS += cli/cmd_watch.c cli/watch_loop.c cli/watch_screen.c
cli_DOORS :=
