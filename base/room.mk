# base: what has no domain
base_SRCS  := base/error.c base/log.c base/escape.c base/file.c
base_DOORS := base/error.h base/log.h base/escape.h base/file.h base/util.h base/clock.h
