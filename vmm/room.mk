# vmm: the KVM ARM64 machine
vmm_SRCS  :=
vmm_DOORS := vmm/vmm.h
