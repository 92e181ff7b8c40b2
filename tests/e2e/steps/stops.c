/* SPDX-License-Identifier: Apache-2.0 */
/* vCPUs stopped at random, and their backtraces judged by the kernel's call frame information. See README.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/kernel.h"
#include "tests/e2e/steps/backtrace.h"
#include "tests/e2e/steps/cfi.h"
#include "tests/e2e/steps/machine.h"

#define SHOWN_MAX   12
#define RUN_US_MIN  100
#define RUN_US_MAX  4000
#define BARE_MAX    256	  /* functions of which nothing tells */
#define PLACES	    65536 /* of a table of addresses */
#define STOPS_MAX_X 50	  /* so many times the goal there may be stops altogether */

enum verdict { RIGHT, FLAGGED, WRONG, UNJUDGED, VERDICTS };

static const char *const names[] = { "right", "flagged", "wrong", "not judged" };

struct bare_place {
	char name[LNX_SYMBOL_MAX];
	uint32_t count;
};

struct judge {
	struct machine m;
	struct lnx_kernel *k;
	struct lnx_view v;
	struct cfi cfi;
	uint32_t goal;
	uint64_t seed;
	uint32_t count[VERDICTS], shown[VERDICTS];
	/* of those that were judged */
	uint32_t idle, with_link, interrupted, recursions, places, frames;
	uint32_t user, stops;
	uint64_t place[PLACES];
	struct bare_place bare[BARE_MAX];
	uint32_t bares;
};

static uint32_t random_below(struct judge *j, uint32_t n)
{
	j->seed ^= j->seed << 13;
	j->seed ^= j->seed >> 7;
	j->seed ^= j->seed << 17;
	return (uint32_t)(j->seed >> 16) % n;
}

/* Whether an address is a new one; of too many some are taken for old. */
static bool is_new_place(struct judge *j, uint64_t pc)
{
	size_t slot = (pc >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 48;

	for (int i = 0; i < 64; i++, slot = (slot + 1) % PLACES) {
		if (j->place[slot] == pc)
			return false;
		if (!j->place[slot]) {
			j->place[slot] = pc;
			return true;
		}
	}
	return false;
}

static void show(struct judge *j, enum verdict verdict, const struct backtrace *b,
		 const struct cfi_chain *c)
{
	const struct guest_vcpu_regs *r = &j->m.regs;

	printf("# %s in %s: %s; pc %#" PRIx64 ", x29 %#" PRIx64 ", x30 %#" PRIx64 ", SP %#" PRIx64
	       "\n",
	       names[verdict], backtrace_name(j->k, r->pc, true), lnx_unwind_end_name(b->s.end),
	       r->pc, r->x[29], r->x[30], r->sp_el1);
	for (uint32_t i = 0; i < b->s.count || i < c->count; i++) {
		const bool is_there = i < c->count;

		backtrace_print_beside(b, j->k, i, is_there ? c->frame[i].address : 0,
				       is_there && c->frame[i].is_exact);
	}
}

/* Where the judge knew nothing more of. */
static void note_bare(struct judge *j, const struct cfi_frame *f)
{
	const char *name = backtrace_name(j->k, f->address, f->is_exact);
	uint32_t i = 0;
	char function[LNX_SYMBOL_MAX];

	snprintf(function, sizeof(function), "%.*s", (int)strcspn(name, "+"), name);
	while (i < j->bares && strcmp(j->bare[i].name, function) != 0)
		i++;
	if (i == BARE_MAX)
		return;
	if (i == j->bares)
		strcpy(j->bare[j->bares++].name, function);
	j->bare[i].count++;
}

static bool is_same_so_far(struct judge *j, const struct backtrace *b, const struct cfi_chain *c)
{
	if (b->s.count < c->count)
		return false;
	for (uint32_t i = 0; i < c->count; i++)
		if (!backtrace_is_same_place(j->k, i && c->frame[i].is_exact, c->frame[i].address,
					     b->address[i]))
			return false;
	return true;
}

static enum verdict verdict_of(struct judge *j, const struct backtrace *b,
			       const struct cfi_chain *c)
{
	if (backtrace_is_flagged(b))
		return FLAGGED;
	if (!is_same_so_far(j, b, c))
		return WRONG;
	if (c->end != CFI_COMPLETE)
		return UNJUDGED;
	return b->s.count == c->count ? RIGHT : WRONG;
}

static void judge_stop(struct judge *j)
{
	static struct backtrace b;
	static struct cfi_chain c;

	backtrace_take(&b, &j->v, j->k, &j->m.memory.guest, &j->m.regs);
	cfi_unwind(&j->cfi, &j->v, &j->m.regs, &c);
	enum verdict verdict = verdict_of(j, &b, &c);
	j->count[verdict]++;
	if (c.end == CFI_BARE)
		note_bare(j, &c.frame[c.count - 1]);
	if (verdict != UNJUDGED) {
		j->idle += b.is_idle;
		j->with_link += c.has_link;
		j->interrupted += c.interrupts != 0;
		j->recursions += backtrace_is_recursive(&b, j->k);
		j->places += is_new_place(j, j->m.regs.pc);
		j->frames += c.count;
	}
	if ((verdict == FLAGGED || verdict == WRONG ||
	     (verdict == UNJUDGED && c.end != CFI_BARE)) &&
	    j->shown[verdict]++ < SHOWN_MAX)
		show(j, verdict, &b, &c);
}

static uint32_t judged(const struct judge *j)
{
	return j->count[RIGHT] + j->count[FLAGGED] + j->count[WRONG];
}

static bool run(struct judge *j)
{
	while (judged(j) < j->goal && j->stops < j->goal * STOPS_MAX_X) {
		if (!machine_run_for(&j->m, RUN_US_MIN + random_below(j, RUN_US_MAX - RUN_US_MIN)))
			return false;
		for (uint32_t i = 0; i < j->m.vcpus && judged(j) < j->goal; i++) {
			if (!machine_look_at(&j->m, i))
				return false;
			j->stops++;
			if (a64_pstate_el(j->m.regs.pstate) == 0)
				j->user++;
			else
				judge_stop(j);
		}
	}
	return judged(j) == j->goal;
}

static int compare_bare(const void *a, const void *b)
{
	const struct bare_place *x = a, *y = b;

	return x->count < y->count ? 1 : -(x->count > y->count);
}

static void report(struct judge *j)
{
	printf("# %" PRIu32 " vCPUs stopped, %" PRIu32 " in user mode, %" PRIu32
	       " in code that the judge knows nothing of\n",
	       j->stops, j->user, j->count[UNJUDGED]);
	qsort(j->bare, j->bares, sizeof(j->bare[0]), compare_bare);
	for (uint32_t i = 0; i < j->bares; i++)
		printf("#   %6" PRIu32 " %s\n", j->bare[i].count, j->bare[i].name);
	printf("# of the others: %" PRIu32 " different places, %" PRIu32
	       " frames on average, %" PRIu32 " with the caller in x30, %" PRIu32
	       " in exceptions of the kernel, %" PRIu32
	       " in functions called by themselves, %" PRIu32 " idle\n",
	       j->places, judged(j) ? j->frames / judged(j) : 0, j->with_link, j->interrupted,
	       j->recursions, j->idle);
	printf("# right %" PRIu32 ", flagged %" PRIu32 ", wrong %" PRIu32 "\n", j->count[RIGHT],
	       j->count[FLAGGED], j->count[WRONG]);
}

static bool begin(struct judge *j, char **argv)
{
	struct gs_error err = { 0 };

	j->goal = (uint32_t)strtoul(argv[3], NULL, 10);
	j->seed = UINT64_C(0x2545f4914f6cdd1d);
	if (!machine_open(&j->m, argv[1], argv[2], &err) ||
	    lnx_kernel_find(&j->m.memory.guest, &j->m.regs, 1, NULL, &j->k, &err)) {
		printf("not ok - the kernel is found: %s\n", err.text);
		return false;
	}
	printf("# %s\n", lnx_kernel_banner(j->k));
	if (cfi_open(&j->cfi, argv[4], j->k, j->k->types.pt_regs_size, &err)) {
		printf("not ok - its vmlinux can be used: %s\n", err.text);
		return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct judge j;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 5) {
		fprintf(stderr, "usage: stops GDB-SOCKET RAM-FILE STOPS VMLINUX\n");
		return 2;
	}
	if (!begin(&j, argv))
		return 1;
	bool is_done = run(&j);
	if (j.m.is_failed)
		printf("# the debug stub does not answer to '%s'\n", j.m.asked);
	report(&j);
	const bool few = j.count[FLAGGED] * 200 <= judged(&j);
	printf("%s - %" PRIu32 " stops are judged\n", is_done ? "ok" : "not ok", judged(&j));
	printf("%s - no backtrace is wrong\n", j.count[WRONG] ? "not ok" : "ok");
	printf("%s - at most 0.5 %% are flagged\n", few ? "ok" : "not ok");
	cfi_close(&j.cfi);
	lnx_kernel_destroy(j.k);
	machine_close(&j.m);
	return !is_done || j.count[WRONG] || !few;
}
