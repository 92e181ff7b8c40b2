# introspect/guest: what any guest is to us
guest_SRCS  := introspect/guest/memory_guest.c
guest_DOORS := introspect/guest/addr.h introspect/guest/guest.h introspect/guest/memory_guest.h
