/* SPDX-License-Identifier: Apache-2.0 */
/* Taint, time, load, memory, panic. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/system.h"

/* Messages behind that of a panic: a stack, registers, modules. */
#define PANIC_MESSAGES 1024

/* panic_cpu of a kernel that has not panicked (PANIC_CPU_INVALID in include/linux/panic.h). */
#define NO_CPU	 (-1)
#define CPUS_MAX 8192 /* NR_CPUS of arm64 is 4096 at most */

/* Load averages and uptimes above these are not to be believed: as many tasks as there can be, 1,000 years. */
#define LOAD_MAX   ((uint64_t)LNX_TASKS_MAX * LNX_LOAD_ONE)
#define UPTIME_MAX (UINT64_C(1000) * 366 * 24 * 3600 * 1000000000)

/* In the order of their bits (TAINT_… in include/linux/panic.h, 5.10 to 7.3; Documentation/admin-guide/tainted-kernels.rst). */
static const struct {
	char letter;
	const char *name;
} taints[LNX_TAINTS] = {
	{ 'P', "proprietary module" },
	{ 'F', "module was force loaded" },
	{ 'S', "CPU out of specification" },
	{ 'R', "module was force unloaded" },
	{ 'M', "machine check" },
	{ 'B', "bad page" },
	{ 'U', "requested by user space" },
	{ 'D', "died: oops or BUG" },
	{ 'A', "ACPI table overridden" },
	{ 'W', "warning" },
	{ 'C', "staging driver" },
	{ 'I', "firmware bug worked around" },
	{ 'O', "out-of-tree module" },
	{ 'E', "unsigned module" },
	{ 'L', "soft lockup" },
	{ 'K', "live patched" },
	{ 'X', "auxiliary, set by the distribution" },
	{ 'T', "built with structure randomisation" },
	{ 'N', "test of the kernel has run" },
	{ 'J', "fwctl debug write" },
};

bool lnx_taint_name(uint32_t bit, char *letter_out, const char **name_out)
{
	if (bit >= LNX_TAINTS)
		return false;
	*letter_out = taints[bit].letter;
	*name_out = taints[bit].name;
	return true;
}

static bool read_word(struct lnx_view *v, enum lnx_variable variable, uint64_t *value_out)
{
	const gva_t at = v->k->variable[variable];

	return at.a && !lnx_read_u64(v, at, value_out);
}

static void read_taint(struct lnx_view *v, struct lnx_system *s)
{
	uint64_t taint;

	/* 20 flags in 7.3: a word that is half full is another one */
	if (!read_word(v, LNX_V_TAINT, &taint) || taint > UINT32_MAX)
		return;
	s->taint = taint;
	s->known |= LNX_SYSTEM_TAINT;
}

/* Each CPU's scheduler has its clock's last reading; that of the one that ran last counts. */
static void read_uptime(struct lnx_view *v, const struct guest_vcpu_regs *regs, uint32_t n,
			struct lnx_system *s)
{
	uint64_t now = 0;

	for (uint32_t i = 0; lnx_has(v->k, LNX_M_RQ_CLOCK, 8) && i < n; i++) {
		uint64_t ns;
		gva_t rq, idle;

		if (regs[i].state != GUEST_VCPU_OFF && (regs[i].valid & GUEST_REGS_TPIDR) &&
		    !lnx_runqueue(v, regs[i].tpidr_el1, &rq, &idle) &&
		    !lnx_read_u64(v, lnx_member_of(v->k, rq, LNX_M_RQ_CLOCK), &ns) &&
		    ns <= UPTIME_MAX)
			now = gs_max(now, ns);
	}
	s->uptime_ns = now;
	if (now)
		s->known |= LNX_SYSTEM_UPTIME;
}

static void read_load(struct lnx_view *v, struct lnx_system *s)
{
	const gva_t at = v->k->variable[LNX_V_LOAD];
	uint64_t load[LNX_LOADS];

	if (!at.a || lnx_read(v, at, load, sizeof(load)))
		return;
	for (int i = 0; i < LNX_LOADS; i++)
		if (load[i] > LOAD_MAX)
			return;
	memcpy(s->load, load, sizeof(load));
	s->known |= LNX_SYSTEM_LOAD;
}

static void read_memory(struct lnx_view *v, struct lnx_system *s)
{
	struct lnx_page_counts pages;
	uint64_t total;

	if (!read_word(v, LNX_V_TOTAL_PAGES, &total) || !lnx_knows_page_counts(v->k) ||
	    lnx_page_counts_read(v, &pages) || total >> 40)
		return;
	s->total_pages = total;
	s->free_pages = pages.free;
	s->file_pages = pages.file;
	s->known |= LNX_SYSTEM_MEMORY;
}

/* --- panic --- */

/*
 * What panic() prints begins with one of these, the second with " ]---" at its end (kernel/panic.c). Both
 * have the same message.
 */
static const char *const begins[] = {
	"Kernel panic - not syncing: ",
	"---[ end Kernel panic - not syncing: ",
};
#define END " ]---"

/* @return whether @p text, of @p n bytes, is one of a panic: then the message alone is left */
static bool take_panic(char *text, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		const size_t skip = strlen(begins[i]), end = strlen(END);

		if (n < skip || memcmp(text, begins[i], skip) != 0)
			continue;
		n -= skip;
		memmove(text, text + skip, n);
		if (i && n >= end && !memcmp(text + n - end, END, end))
			n -= end;
		memset(text + n, 0, LNX_PANIC_MESSAGE - n);
		return true;
	}
	return false;
}

static void find_message(struct lnx_view *v, struct lnx_system *s)
{
	struct lnx_log log;
	struct lnx_log_message m;

	if (lnx_log_begin(&log, v))
		return;
	for (uint32_t i = 0; i < PANIC_MESSAGES && lnx_log_previous(&log, &m); i++) {
		const size_t n = (size_t)gs_min(m.size, LNX_PANIC_MESSAGE - 1);

		if (n && !lnx_read(v, m.text, s->panic, n) && take_panic(s->panic, n))
			return;
	}
	memset(s->panic, 0, sizeof(s->panic));
}

static void read_panic(struct lnx_view *v, struct lnx_system *s)
{
	const gva_t at = v->k->variable[LNX_V_PANIC_CPU];
	uint32_t value;

	if (!at.a || lnx_read_u32(v, at, &value))
		return;
	const int32_t cpu = (int32_t)value;
	if (cpu < NO_CPU || cpu >= CPUS_MAX)
		return;
	s->known |= LNX_SYSTEM_PANIC;
	s->panic_cpu = cpu;
	if (cpu != NO_CPU)
		find_message(v, s);
}

void lnx_system_read(struct lnx_view *v, const struct guest_vcpu_regs *regs, uint32_t n,
		     struct lnx_system *system_out)
{
	*system_out = (struct lnx_system){ .panic_cpu = NO_CPU };
	read_taint(v, system_out);
	read_uptime(v, regs, n, system_out);
	read_load(v, system_out);
	read_memory(v, system_out);
	read_panic(v, system_out);
}
