/* SPDX-License-Identifier: Apache-2.0 */
/* A vCPU followed instruction by instruction, and its backtrace judged at each. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"
#include "tests/e2e/steps/backtrace.h"
#include "tests/e2e/steps/calls.h"
#include "tests/e2e/steps/machine.h"

#define SHOWN_MAX 12

/* System calls by number, in x8 (include/uapi/asm-generic/unistd.h). */
#define CALL_EPOLL_CTL 21
#define CALL_NANOSLEEP 115 /* clock_nanosleep */
#define CALL_YIELD     124 /* sched_yield */

enum verdict { RIGHT, FLAGGED, WRONG, VERDICTS };

struct judge {
	struct machine m;
	struct lnx_kernel *k;
	struct lnx_view v;
	struct calls calls;
	uint32_t goal, seed;
	uint32_t count[VERDICTS], of_user, lost, interrupts, switches, recursions;
	uint32_t shown[VERDICTS];
	uint32_t entered[512]; /* by system call */
};

static void show(struct judge *j, const char *what, const struct backtrace *b)
{
	const struct calls *c = &j->calls;

	printf("# %s in %s: %s\n", what, backtrace_name(j->k, j->m.regs.pc, true),
	       lnx_unwind_end_name(b->s.end));
	for (uint32_t i = 0; i < b->s.count || i <= c->count; i++)
		backtrace_print_beside(b, j->k, i,
				       !i	       ? j->m.regs.pc
				       : i <= c->count ? calls_at(c, i - 1)->address
						       : 0,
				       !i);
}

static enum verdict verdict_of(struct judge *j, const struct backtrace *b)
{
	const struct calls *c = &j->calls;

	if (backtrace_is_flagged(b))
		return FLAGGED;
	if (b->s.count != c->count + 1 || b->address[0] != j->m.regs.pc)
		return WRONG;
	for (uint32_t i = 1; i < b->s.count; i++) {
		const struct call *call = calls_at(c, i - 1);

		if (!backtrace_is_same_place(j->k, call->is_interrupted, call->address,
					     b->address[i]))
			return WRONG;
	}
	return RIGHT;
}

static void judge_stop(struct judge *j)
{
	static const char *const names[] = { [FLAGGED] = "flagged", [WRONG] = "wrong" };
	static struct backtrace b;

	backtrace_take(&b, &j->v, j->k, &j->m.memory.guest, &j->m.regs);
	enum verdict verdict = verdict_of(j, &b);
	j->count[verdict]++;
	j->recursions += backtrace_is_recursive(&b, j->k);
	if (verdict != RIGHT && j->shown[verdict]++ < SHOWN_MAX)
		show(j, names[verdict], &b);
}

static uint32_t word_at(struct judge *j, uint64_t pc)
{
	uint32_t word;

	lnx_view_init(&j->v, j->k, &j->m.memory.guest);
	return lnx_read_u32(&j->v, GVA(pc), &word) ? 0 : word;
}

/* The chain of a task that the vCPU has not been seen to leave: as its saved context has it. */
static void know_task(struct judge *j, uint64_t address)
{
	static uint64_t frames[LNX_FRAMES_MAX];
	static uint8_t kind[LNX_FRAMES_MAX];
	struct lnx_stack s = { .address = frames, .kind = kind };
	static struct lnx_task task;

	if (calls_knows(&j->calls, address) || lnx_task_read(&j->v, GVA(address), &task))
		return;
	lnx_unwind_blocked(&j->v, &task, &s);
	if (s.end == LNX_END_COMPLETE)
		calls_learn(&j->calls, address, frames, kind, s.count);
}

/* One instruction, with what it does to the calls. @return false: the machine does not answer */
static bool step(struct judge *j)
{
	const struct guest_vcpu_regs before = j->m.regs;
	const uint32_t word = word_at(j, before.pc);

	calls_before(&j->calls, &before, word);
	if (j->calls.next_task)
		know_task(j, j->calls.next_task);
	if (!machine_step(&j->m, word))
		return false;
	enum calls_event event = calls_after(&j->calls, &before, word, &j->m.regs);
	j->interrupts += event == CALLS_INTERRUPT;
	j->switches += event == CALLS_SWITCH;
	j->lost += event == CALLS_LOST;
	return true;
}

/*
 * How far to follow this entry from user mode: a system call that was often followed not far. In
 * epoll_ctl, behind some hundred instructions, is a function that calls itself; those that sleep switch to
 * another task; an interrupt is long.
 */
static uint32_t wanted(struct judge *j)
{
	const uint64_t number = j->m.regs.x[8] % ARRAY_SIZE(j->entered);
	const bool is_long =
		number == CALL_EPOLL_CTL || number == CALL_NANOSLEEP || number == CALL_YIELD;

	if (j->m.with_interrupts)
		return 2500;
	if (j->entered[number]++ >= (is_long ? 4 : 2))
		return 40;
	return is_long ? 5000 : 300;
}

/* From one entry out of user mode until it is back there, or for @p most instructions. */
static bool follow(struct judge *j, uint32_t most)
{
	calls_begin(&j->calls);
	j->of_user++;
	for (uint32_t i = 0; i < most; i++) {
		if (a64_pstate_el(j->m.regs.pstate) == 0)
			return true;
		if (j->calls.is_known)
			judge_stop(j);
		if (j->count[RIGHT] + j->count[FLAGGED] + j->count[WRONG] >= j->goal)
			return true;
		if (!step(j))
			return false;
	}
	return true;
}

static bool run(struct judge *j)
{
	for (uint32_t round = 0; j->count[RIGHT] + j->count[FLAGGED] + j->count[WRONG] < j->goal;
	     round++) {
		if (!machine_run_to_entry(&j->m))
			return false;
		/* interrupts are let in seldom: they are all alike */
		j->m.with_interrupts = round % 24 == 7;
		if (!follow(j, wanted(j)))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct judge j;
	struct gs_error err = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 4) {
		fprintf(stderr, "usage: steps GDB-SOCKET RAM-FILE STOPS\n");
		return 2;
	}
	j.goal = (uint32_t)strtoul(argv[3], NULL, 10);
	if (!machine_open(&j.m, argv[1], argv[2], &err) ||
	    lnx_kernel_find(&j.m.memory.guest, &j.m.regs, 1, NULL, &j.k, &err)) {
		printf("not ok - the kernel is found: %s\n", err.text);
		return 1;
	}
	printf("# %s\n", lnx_kernel_banner(j.k));
	bool answers = run(&j);
	if (!answers)
		printf("# no answer after %s, to '%s'\n", backtrace_name(j.k, j.m.regs.pc, true),
		       j.m.asked);
	uint32_t all = j.count[RIGHT] + j.count[FLAGGED] + j.count[WRONG];
	printf("# %" PRIu32 " stops, %" PRIu32 " entries from user mode, %" PRIu32
	       " interrupts of the kernel, %" PRIu32 " switches, %" PRIu32
	       " in functions called by themselves, %" PRIu32 " times lost\n",
	       all, j.of_user, j.interrupts, j.switches, j.recursions, j.lost);
	printf("# right %" PRIu32 ", flagged %" PRIu32 ", wrong %" PRIu32 "\n", j.count[RIGHT],
	       j.count[FLAGGED], j.count[WRONG]);
	printf("%s - all of %" PRIu32 " stops are judged\n", answers ? "ok" : "not ok", j.goal);
	printf("%s - no backtrace is wrong\n", j.count[WRONG] ? "not ok" : "ok");
	printf("%s - at most 0.5 %% are flagged\n",
	       j.count[FLAGGED] * 200 <= all ? "ok" : "not ok");
	lnx_kernel_destroy(j.k);
	machine_close(&j.m);
	return !answers || j.count[WRONG] || j.count[FLAGGED] * 200 > all;
}
