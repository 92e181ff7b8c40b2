# introspect/guest: what any guest is to us
guest_SRCS  := introspect/guest/breaks.c introspect/guest/dump.c introspect/guest/dump_elf.c introspect/guest/dump_file.c \
               introspect/guest/dump_flat.c introspect/guest/dump_guard.c introspect/guest/dump_kdump.c introspect/guest/kdump_codec.c \
               introspect/guest/dump_notes.c introspect/guest/dump_pieces.c introspect/guest/dump_write.c \
               introspect/guest/memory_guest.c introspect/guest/page_cache.c
guest_DOORS := introspect/guest/addr.h introspect/guest/breaks.h introspect/guest/dump.h introspect/guest/dump_write.h \
               introspect/guest/guest.h introspect/guest/memory_guest.h introspect/guest/page_cache.h \
               introspect/guest/source.h
guest_SRCS  += introspect/guest/libvirt_helper.c introspect/guest/libvirt_link.c introspect/guest/qemu_child.c \
               introspect/guest/qemu_memory.c introspect/guest/qemu_monitor.c introspect/guest/qemu_proc.c \
               introspect/guest/qemu_reads.c introspect/guest/qemu_source.c introspect/guest/qemu_text.c \
               introspect/guest/qmp.c introspect/guest/qmp_link.c introspect/guest/qmp_watch.c
