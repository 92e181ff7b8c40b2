# control: the control socket and what serves it
control_SRCS  := control/protocol.c control/worker.c control/socket.c control/connection.c \
                 control/server.c control/client.c control/dump.c control/btlogs.c control/btlogs_code.c control/sampler.c \
                 control/pace.c control/store.c control/store_index.c control/watch.c control/schedules.c \
                   control/schedules_list.c control/kept.c control/trace.c control/trace_events.c control/trace_profile.c
control_DOORS := control/protocol.h control/worker.h control/server.h control/client.h control/dump.h control/btlogs.h \
                   control/schedules.h control/pace.h control/trace.h
