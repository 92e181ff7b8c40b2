kcdata_SRCS  :=
kcdata_DOORS :=
