# introspect/probe: probes on a running guest: providers, programs, sessions, buffers, aggregations
probe_SRCS  := introspect/probe/fbt.c introspect/probe/fbt_names.c introspect/probe/glob.c introspect/probe/program.c introspect/probe/parse.c \
               introspect/probe/text.c introspect/probe/json.c introspect/probe/engine.c \
               introspect/probe/enable.c introspect/probe/session.c introspect/probe/store.c \
               introspect/probe/fire.c introspect/probe/values.c introspect/probe/hand.c \
               introspect/probe/describe.c
probe_DOORS := introspect/probe/fbt.h introspect/probe/provider.h introspect/probe/program.h introspect/probe/session.h
