// SPDX-License-Identifier: Apache-2.0
// What the parts of the test guest's program share.
#ifndef TESTS_GUEST_WORKLOAD_H
#define TESTS_GUEST_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LOCK_PATH "/tmp/lock" // of the lock that w_holder holds

_Noreturn void die(const char *what);

// A child that ends with this process; 0 in the child.
pid_t child_start(const char *name);
// Kill a child, if there is one.
void child_end(pid_t *pid);
// Write into a file that is there.
void setting_write(const char *path, const char *value);

// --- waits.c

_Noreturn void sleep_forever(void);

// One kind of wait; the thread that is in it is named after it.
struct wait {
	const char *name;
	void (*run)(void); // does not return
};

extern const struct wait waits[];
extern const size_t wait_count;

#define MODULE_PATH "/modules/0-vsock.ko" // of the cloud kernel

void module_load(void);
_Noreturn void block_module(void);

// --- listing.c

// What the listing says of this program itself.
struct testimony {
	pid_t spin_pid;			    // 0: no spinners
	int spin_user_cpu, spin_kernel_cpu; // negative: not there
	int crowd_processes, crowd_threads; // 0: no crowd
};

// The listing ID of all threads; packed on request.
void print_truth(const char *id, bool pack, const struct testimony *about);

// Call for each thread with its line of /proc/TGID/task/TID/stat.
void each_thread_stat(void (*visit)(const char *stat, void *arg), void *arg);

// --- kinds.c

// Start processes that wait in every known way, and say on what; they stay until the end.
void kinds_start(void);
// Locks that are fought for.
void load_start(void);
void load_end(void);

// A process's state in /proc/PID/stat.
char state_of(pid_t pid);

// --- mix.c

void mix_start(void);
void mix_end(void);
// Print how much CPU time each part of the mix has had.
void mix_report(const char *id);

// --- count.c

// Make so many calls of sched_get_priority_max(), on all CPUs, and say whether each was answered right.
void count_calls(long calls);
// Run into a breakpoint, and say whether that was noticed.
void trap_self(void);

// --- bpf.c

// A process w_bpf that executes a BPF program; which programs there are is printed.
void bpf_start(void);
void bpf_end(void);

// --- retprobe.c

// Processes w_plain and w_probed that read from a pipe; the kernel probes the returns of what the second one calls.
void retprobe_start(void);
void retprobe_end(void);

// --- calls.c

void calls_start(void);

#endif
