cli_SRCS  :=
cli_DOORS :=
