# introspect/btlog: unique guest backtraces, logs of them, and what is made of logs
btlog_SRCS  := introspect/btlog/library.c introspect/btlog/frames.c introspect/btlog/table.c \
               introspect/btlog/rehash.c introspect/btlog/memory.c introspect/btlog/keeper.c \
               introspect/btlog/drop.c introspect/btlog/log.c introspect/btlog/log_read.c \
               introspect/btlog/records.c introspect/btlog/intern.c introspect/btlog/book.c \
               introspect/btlog/book_take.c introspect/btlog/book_save.c introspect/btlog/book_load.c \
               introspect/btlog/book_merge.c introspect/btlog/book_count.c
btlog_DOORS := introspect/btlog/btlog.h introspect/btlog/book.h introspect/btlog/records.h
