# introspect/probe: probes on a running guest: providers, programs, sessions, buffers, aggregations
probe_SRCS  := introspect/probe/fbt.c introspect/probe/glob.c
probe_DOORS := introspect/probe/fbt.h introspect/probe/provider.h
