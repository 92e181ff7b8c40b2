// SPDX-License-Identifier: Apache-2.0
// A BPF program that is executed for ever, in machine code.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// So long that there is little time beside it; unprivileged users may have 4096.
#define ADDITIONS 4000

static long ask_bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int program_load(void)
{
	static struct bpf_insn code[ADDITIONS + 2];
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER };

	code[0] = (struct bpf_insn){ .code = BPF_ALU64 | BPF_MOV | BPF_K };
	for (int i = 1; i <= ADDITIONS; i++)
		code[i] = (struct bpf_insn){ .code = BPF_ALU64 | BPF_ADD | BPF_K, .imm = i };
	code[ADDITIONS + 1] = (struct bpf_insn){ .code = BPF_JMP | BPF_EXIT };
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = ADDITIONS + 2;
	attr.license = (uintptr_t) "Apache-2.0";
	strcpy(attr.prog_name, "w_spin");
	int fd = (int)ask_bpf(BPF_PROG_LOAD, &attr);
	if (fd < 0)
		die("bpf");
	return fd;
}

static _Noreturn void program_run(int fd)
{
	static uint8_t packet[64];

	for (;;) {
		union bpf_attr attr = { .test = {
						.prog_fd = (uint32_t)fd,
						.data_in = (uintptr_t)packet,
						.data_size_in = sizeof(packet),
						.repeat = UINT32_C(1) << 30,
					} };

		if (ask_bpf(BPF_PROG_TEST_RUN, &attr) && errno != EINTR)
			die("bpf: test run");
	}
}

// The kernel's own list of what it has: "address type name [bpf]".
static void print_symbols(void)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[1024], name[512], owner[64];
	unsigned long long address;
	char type;

	if (!f)
		die("/proc/kallsyms");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %c %511s [%63[^]]]", &address, &type, name, owner) == 4 &&
		    !strcmp(owner, "bpf"))
			printf("BPF %#llx %s\n", address, name);
	fclose(f);
}

static pid_t bpf_pid;

void bpf_start(void)
{
	if (bpf_pid)
		return;
	const int fd = program_load();

	bpf_pid = child_start("w_bpf");
	if (!bpf_pid)
		program_run(fd);
	close(fd);
	print_symbols();
}

void bpf_end(void)
{
	child_end(&bpf_pid);
}
