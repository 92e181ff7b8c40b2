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

// A process on each CPU does its part of so many things. @return how many processes did not return 0
int on_each_cpu(const char *name, int (*run)(long part), long things, int *cpus_out);

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
#define MODULE_NAME "vsock"

void module_load(void);
void module_unload(void);
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

// --- surroundings.c

// A process in a control group of its own.
void cgroup_start(void);
void cgroup_end(void);
// Processes that wait for one CPU.
void queue_start(void);
void queue_end(void);
// The listing ID of control groups, load, memory, taint and time.
void print_surroundings(const char *id);

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

// Make so many calls of sched_get_priority_max(), or sockets of the module's kind, on all CPUs, and say
// whether each was answered right.
void count_calls(long calls, bool sockets);
// Run into a breakpoint, and say whether that was noticed.
void trap_self(void);

// --- leak.c

// Have the module leak so many times, and print what it says of it; 0: it is loaded, and no more.
void leak_rounds(long rounds);

// --- kprobe.c

#define TRACEFS "/sys/kernel/tracing"
// @return 0, or errno
int tracefs_mount(void);
// "add" a kprobe event for a function, say its "hits", or "del" it.
void kprobe(const char *what, const char *function);

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
