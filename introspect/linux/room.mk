# introspect/linux: the guest OS
linux_SRCS  := introspect/linux/alias.c introspect/linux/bpf.c introspect/linux/build_id.c introspect/linux/code.c introspect/linux/context.c introspect/linux/cpu.c introspect/linux/data.c introspect/linux/dwarf.c \
               introspect/linux/find.c introspect/linux/functions.c introspect/linux/kallsyms.c introspect/linux/layout.c \
               introspect/linux/layouts.c introspect/linux/log.c introspect/linux/profile_choose.c \
               introspect/linux/memory.c introspect/linux/module.c introspect/linux/place.c \
               introspect/linux/profile.c introspect/linux/profile_check.c \
               introspect/linux/profile_make.c introspect/linux/prototype.c introspect/linux/reference.c \
               introspect/linux/roots.c introspect/linux/search.c introspect/linux/symbol_file.c introspect/linux/system.c \
               introspect/linux/task.c introspect/linux/traced.c introspect/linux/types.c introspect/linux/unwind.c \
               introspect/linux/user.c introspect/linux/variable.c introspect/linux/view.c introspect/linux/vma.c \
               introspect/linux/vmcoreinfo.c introspect/linux/wait_block.c introspect/linux/wait_files.c introspect/linux/wait_locks.c \
               introspect/linux/wait_others.c introspect/linux/wait_timeout.c introspect/linux/waits.c
linux_DOORS := introspect/linux/context.h introspect/linux/functions.h introspect/linux/linux.h introspect/linux/prototype.h introspect/linux/system.h introspect/linux/user.h
