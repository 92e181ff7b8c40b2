# introspect/arm64: the architecture
arm64_SRCS  := introspect/arm64/translate.c introspect/arm64/insn.c
arm64_DOORS := introspect/arm64/arm64.h
