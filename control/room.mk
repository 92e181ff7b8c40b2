# control: the control socket and what serves it
control_SRCS  := control/protocol.c control/worker.c control/socket.c control/connection.c \
                 control/server.c control/client.c control/dump.c control/btlogs.c control/sampler.c
control_DOORS := control/protocol.h control/worker.h control/server.h control/client.h control/dump.h control/btlogs.h
