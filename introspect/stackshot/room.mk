stackshot_SRCS  :=
stackshot_DOORS :=
