arm64_SRCS  :=
arm64_DOORS :=
