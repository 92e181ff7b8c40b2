# cli/report: views of a finished capture
cli_SRCS += cli/cmd_show.c cli/report/capture_file.c cli/report/json.c cli/report/lines.c \
            cli/report/text.c
