# introspect/stackshot: taking captures
stackshot_SRCS  := introspect/stackshot/assemble.c introspect/stackshot/capture.c \
                   introspect/stackshot/collect.c introspect/stackshot/records.c
stackshot_DOORS := introspect/stackshot/records.h introspect/stackshot/stackshot.h
