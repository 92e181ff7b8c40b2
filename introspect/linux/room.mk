linux_SRCS  :=
linux_DOORS :=
