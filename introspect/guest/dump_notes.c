/* SPDX-License-Identifier: Apache-2.0 */
/* ELF notes of a dump: registers of its CPUs, VMCOREINFO, and what tells a process's core. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/guest/dump_priv.h"

/* Longest VMCOREINFO kept: the kernel gives it one page (include/linux/crash_core.h), at most 64 KiB. */
#define VMCOREINFO_MAX 65536

/* Types of notes named "CORE" (include/uapi/linux/elf.h). */
enum {
	NOTE_PRSTATUS = 1,
	NOTE_TASKSTRUCT = 4,	   /* /proc/kcore */
	NOTE_AUXV = 6,		   /* a process */
	NOTE_FILE = 0x46494c45,	   /* a process: its mapped files */
	NOTE_SIGINFO = 0x53494749, /* a process: the signal that ended it */
};

struct note {
	uint32_t type;
	const char *name;
	size_t name_size; /* with its NUL */
	const uint8_t *desc;
	size_t desc_size;
};

/* The note at *at, which moves behind it. @return false: the end, or what is there is damaged */
static bool note_next(const uint8_t *notes, size_t size, size_t *at, struct note *note_out)
{
	uint32_t head[3]; /* n_namesz, n_descsz, n_type */

	if (size - *at < sizeof(head))
		return false;
	memcpy(head, notes + *at, sizeof(head));
	// 64 bits hold the sum of two rounded 32-bit sizes: nothing wraps.
	uint64_t desc = sizeof(head) + gs_align_up(head[0], 4);
	uint64_t left = size - *at;

	if (desc > left || head[1] > left - desc)
		return false;
	*note_out = (struct note){
		.type = head[2],
		.name = (const char *)notes + *at + sizeof(head),
		.name_size = head[0],
		.desc = notes + *at + desc,
		.desc_size = head[1],
	};
	*at += (size_t)gs_min(desc + gs_align_up(head[1], 4), left);
	return true;
}

/* Some writers count the NUL of the name and some do not. */
static bool is_named(const struct note *n, const char *name)
{
	size_t len = strlen(name);

	return (n->name_size == len || (n->name_size == len + 1 && !n->name[len])) &&
	       !memcmp(n->name, name, len);
}

static void take_prstatus(struct guest_dump *d, const struct note *n)
{
	uint64_t reg[DUMP_PRSTATUS_NREG], any = 0;

	if (!d->prstatus_size)
		d->prstatus_size = n->desc_size;
	if (n->desc_size < DUMP_PRSTATUS_REGS + sizeof(reg)) {
		guest_dump_remark(d, "registers of CPU %" PRIu32 " are cut off", d->cpus);
		return;
	}
	if (d->cpus == GUEST_VCPUS_MAX) {
		guest_dump_remark(d, "only the first %d CPUs are looked at", GUEST_VCPUS_MAX);
		return;
	}
	memcpy(reg, n->desc + DUMP_PRSTATUS_REGS, sizeof(reg));
	for (size_t i = 0; i < ARRAY_SIZE(reg); i++)
		any |= reg[i];

	struct guest_vcpu_regs *r = &d->regs[d->cpus++];
	// All zero is a place kept for a CPU of which nothing is known (see dump_write.c).
	if (!any)
		return;
	memcpy(r->x, reg, sizeof(r->x));
	// The note has one SP, the one in use; the other bank is not in it.
	if (guest_dump_sp_is_el0(reg[33]))
		r->sp_el0 = reg[31];
	else
		r->sp_el1 = reg[31];
	r->pc = reg[32];
	r->pstate = reg[33];
	r->valid = GUEST_REGS_GENERAL;
}

uint64_t *guest_dump_note_word(struct guest_vcpu_regs *r, unsigned int i)
{
	uint64_t *const word[DUMP_NOTE_WORDS] = {
		&r->sp_el0,    &r->sp_el1,	   &r->elr_el1,	  &r->spsr_el1,	 &r->ttbr0_el1,
		&r->ttbr1_el1, &r->tcr_el1,	   &r->mair_el1,  &r->sctlr_el1, &r->vbar_el1,
		&r->tpidr_el1, &r->contextidr_el1, &r->mpidr_el1,
	};

	return word[i];
}

/* Ours: belongs to a CPU whose PRSTATUS came before. */
static void take_vcpu(struct guest_dump *d, const struct note *n)
{
	struct guest_dump_vcpu_note v;

	if (n->desc_size < sizeof(v))
		return;
	memcpy(&v, n->desc, sizeof(v));
	if (v.vcpu >= d->cpus || v.state > GUEST_VCPU_OFF)
		return;
	struct guest_vcpu_regs *r = &d->regs[v.vcpu];
	// The general registers are in the other note: this one cannot make them valid.
	r->valid |= v.valid & GUEST_REGS_ALL & ~(uint32_t)GUEST_REGS_GENERAL;
	r->state = v.state;
	for (unsigned int i = 0; i < DUMP_NOTE_WORDS; i++)
		*guest_dump_note_word(r, i) = v.word[i];
}

enum gs_code guest_dump_vmcoreinfo_keep(struct guest_dump *d, const void *text, size_t size,
					struct gs_error *err)
{
	size = (size_t)gs_min(size, VMCOREINFO_MAX);
	if (d->vmcoreinfo || !size)
		return GS_OK;
	d->vmcoreinfo = calloc(1, size + 1);
	if (!d->vmcoreinfo)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	memcpy(d->vmcoreinfo, text, size);
	d->vmcoreinfo_size = size;
	return GS_OK;
}

static void take_core(struct guest_dump *d, const struct note *n)
{
	switch (n->type) {
	case NOTE_PRSTATUS: take_prstatus(d, n); break;
	case NOTE_TASKSTRUCT:
	case NOTE_AUXV:
	case NOTE_FILE:
	case NOTE_SIGINFO: d->has_process_notes = true; break;
	default: break; // vector registers and the like
	}
}

enum gs_code guest_dump_notes_parse(struct guest_dump *d, const uint8_t *notes, size_t size,
				    struct gs_error *err)
{
	struct note n;
	size_t at = 0;
	enum gs_code rc = GS_OK;

	// Each note is 12 bytes or more, so the size is the budget.
	while (!rc && note_next(notes, size, &at, &n)) {
		if (is_named(&n, "CORE"))
			take_core(d, &n);
		else if (is_named(&n, "VMCOREINFO"))
			rc = guest_dump_vmcoreinfo_keep(d, n.desc, n.desc_size, err);
		else if (is_named(&n, DUMP_NOTE_NAME) && n.type == DUMP_NOTE_VCPU)
			take_vcpu(d, &n);
	}
	if (!rc && size - at >= 12)
		guest_dump_remark(d, "notes are damaged at byte %zu of %zu", at, size);
	return rc;
}

enum gs_code guest_dump_notes_read(struct guest_dump *d, const struct guest_dump_file *f,
				   uint64_t offset, uint64_t size, struct gs_error *err)
{
	uint64_t there = offset < f->size ? gs_min(size, f->size - offset) : 0;

	if (there < size)
		guest_dump_remark(d, "cut off in its notes");
	if (there > d->notes_left) {
		there = d->notes_left;
		guest_dump_remark(d, "only the first %" PRIu64 " MiB of notes are looked at",
				  DUMP_NOTES_BYTES_MAX >> 20);
	}
	if (!there)
		return GS_OK;
	d->notes_left -= (size_t)there;
	GS_FREE uint8_t *notes = malloc((size_t)there);
	if (!notes)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	if (guest_dump_file_read(f, offset, notes, (size_t)there)) {
		guest_dump_remark(d, "its notes cannot be read");
		return GS_OK;
	}
	return guest_dump_notes_parse(d, notes, (size_t)there, err);
}
