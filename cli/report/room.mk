# cli/report: views of a finished capture, and of what changed between two
cli_SRCS += cli/cmd_show.c cli/cmd_diff.c cli/report/capture_file.c cli/report/context.c cli/report/delta.c cli/report/diff.c \
            cli/report/diff_json.c cli/report/diff_text.c cli/report/filter.c cli/report/ids.c cli/report/json.c \
            cli/report/lines.c cli/report/live.c cli/report/queues.c cli/report/since.c cli/report/summary.c cli/report/system.c cli/report/text.c cli/report/waits.c
