# introspect/probe: probes on a running guest: providers, programs, sessions, buffers, aggregations
probe_SRCS  := introspect/probe/glob.c
probe_DOORS := introspect/probe/provider.h
