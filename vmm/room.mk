# vmm: the KVM ARM64 machine
# the portable part has no KVM in it and is built, and tested, on every machine
vmm_portable_SRCS := vmm/boot.c vmm/breaks.c vmm/console.c vmm/execute.c vmm/fdt.c vmm/memory.c vmm/pl011.c \
                     vmm/thread.c vmm/topology.c
vmm_SRCS  := $(vmm_portable_SRCS) vmm/clock.c vmm/debug.c vmm/gic.c vmm/regs.c vmm/vcpu.c vmm/vmm.c
vmm_DOORS := vmm/vmm.h
