control_SRCS  :=
control_DOORS :=
