# introspect/linux: the guest OS
linux_SRCS  := introspect/linux/context.c introspect/linux/cpu.c introspect/linux/data.c introspect/linux/find.c \
               introspect/linux/kallsyms.c introspect/linux/layout.c introspect/linux/log.c introspect/linux/memory.c \
               introspect/linux/module.c introspect/linux/place.c introspect/linux/profile.c introspect/linux/profile_check.c \
               introspect/linux/profile_make.c introspect/linux/reference.c \
               introspect/linux/roots.c introspect/linux/search.c introspect/linux/symbol_file.c \
               introspect/linux/system.c introspect/linux/task.c \
               introspect/linux/types.c introspect/linux/unwind.c introspect/linux/variable.c introspect/linux/view.c \
               introspect/linux/vmcoreinfo.c
linux_DOORS := introspect/linux/context.h introspect/linux/linux.h introspect/linux/system.h
