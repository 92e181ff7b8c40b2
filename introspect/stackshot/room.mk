# introspect/stackshot: taking captures
stackshot_SRCS  := introspect/stackshot/assemble.c introspect/stackshot/capture.c \
                   introspect/stackshot/collect.c introspect/stackshot/context.c \
                   introspect/stackshot/engine.c introspect/stackshot/history.c \
                   introspect/stackshot/item.c introspect/stackshot/linux_context.c introspect/stackshot/memory.c \
                   introspect/stackshot/missing.c introspect/stackshot/modules.c \
                   introspect/stackshot/pool.c \
                   introspect/stackshot/queue.c introspect/stackshot/records.c \
                   introspect/stackshot/request.c introspect/stackshot/saved.c \
                   introspect/stackshot/session.c \
                   introspect/stackshot/storage.c introspect/stackshot/system.c introspect/stackshot/user.c introspect/stackshot/waits.c \
                   introspect/stackshot/worker.c \
                   introspect/stackshot/write.c
stackshot_DOORS := introspect/stackshot/records.h introspect/stackshot/stackshot.h
