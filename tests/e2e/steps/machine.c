/* SPDX-License-Identifier: Apache-2.0 */
/* A guest of QEMU by its debug stub: one vCPU that goes step by step, or several that are stopped. */
#include "tests/e2e/steps/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "introspect/arm64/arm64.h"

/*
 * The protocol is gdb's ("GDB Remote Serial Protocol"): $packet#checksum. QEMU's stub adds Qqemu.sstep:
 * bit 0 steps, bit 1 holds interrupts off, bit 2 timers (docs/system/gdb.rst).
 */

#define RAM_BASE  GPA(0x40000000) /* of the "virt" machine */
#define WFI	  UINT32_C(0xd503207f)
#define ANSWER_S  10	/* to one question; a guest that idles has a timer before that */
#define FROM_USER 0x400 /* vectors of exceptions from EL0, to 0x5ff */

enum { R_ELR, R_SPSR, R_SP_EL0, R_TPIDR, R_TTBR0, R_TTBR1, R_TCR, R_VBAR, R_SCTLR, R_MAIR };
static const char *const sysregs[] = { "ELR_EL1",   "SPSR_EL1", "SP_EL0", "TPIDR_EL1", "TTBR0_EL1",
				       "TTBR1_EL1", "TCR_EL1",	"VBAR",	  "SCTLR",     "MAIR_EL1" };
_Static_assert(ARRAY_SIZE(sysregs) <= MACHINE_SYSREGS, "room for all");

/* --- packets --- */

static bool fail(struct machine *m)
{
	m->is_failed = true;
	return false;
}

static int next_byte(struct machine *m)
{
	if (m->in_at == m->in_end) {
		ssize_t n = recv(m->fd, m->in, sizeof(m->in), 0);

		if (n <= 0)
			return -1;
		m->in_at = 0;
		m->in_end = (size_t)n;
	}
	return m->in[m->in_at++];
}

static bool put(struct machine *m, const char *text)
{
	char packet[256];
	uint8_t sum = 0;

	snprintf(m->asked, sizeof(m->asked), "%s", text);
	for (const char *c = text; *c; c++)
		sum = (uint8_t)(sum + (uint8_t)*c);
	int n = snprintf(packet, sizeof(packet), "$%s#%02x", text, sum);
	return send(m->fd, packet, (size_t)n, MSG_NOSIGNAL) == n || fail(m);
}

/* The next packet; what acknowledges ours is passed over. */
static bool get(struct machine *m)
{
	size_t n = 0;
	int c;

	do
		c = next_byte(m);
	while (c >= 0 && c != '$');
	while ((c = next_byte(m)) >= 0 && c != '#') {
		if (n == sizeof(m->packet) - 1)
			return fail(m);
		m->packet[n++] = (char)c;
	}
	m->packet[n] = '\0';
	if (c < 0 || next_byte(m) < 0 || next_byte(m) < 0)
		return fail(m);
	return send(m->fd, "+", 1, MSG_NOSIGNAL) == 1 || fail(m);
}

static bool ask(struct machine *m, const char *text)
{
	return put(m, text) && get(m);
}

static bool expect_ok(struct machine *m, const char *text)
{
	return ask(m, text) && (!strcmp(m->packet, "OK") || fail(m));
}

/* --- registers --- */

/* A little-endian number of so many bytes in hexadecimal. */
static uint64_t number(const char *hex, unsigned int bytes)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < bytes; i++) {
		unsigned int byte;

		if (sscanf(hex + (size_t)2 * i, "%2x", &byte) != 1)
			return 0;
		value |= (uint64_t)byte << 8 * i;
	}
	return value;
}

static uint64_t sysreg(struct machine *m, unsigned int i)
{
	char text[16];

	snprintf(text, sizeof(text), "p%x", m->sysreg[i]);
	if (!ask(m, text))
		return 0;
	return number(m->packet, (unsigned int)gs_min(strlen(m->packet) / 2, 8));
}

#define HEX_X (16) /* digits of a register of 64 bits */
#define CORE  (33 * HEX_X + 8)

static bool read_regs(struct machine *m)
{
	struct guest_vcpu_regs *r = &m->regs;

	if (!ask(m, "g") || strlen(m->packet) < CORE)
		return fail(m);
	for (unsigned int i = 0; i < 31; i++)
		r->x[i] = number(m->packet + (size_t)i * HEX_X, 8);
	r->sp_el1 = number(m->packet + (size_t)31 * HEX_X, 8);
	r->pc = number(m->packet + (size_t)32 * HEX_X, 8);
	r->pstate = number(m->packet + (size_t)33 * HEX_X, 4);
	r->elr_el1 = sysreg(m, R_ELR);
	r->spsr_el1 = sysreg(m, R_SPSR);
	r->sp_el0 = sysreg(m, R_SP_EL0);
	r->vbar_el1 = sysreg(m, R_VBAR);
	r->state = GUEST_VCPU_ON;
	r->valid = GUEST_REGS_GENERAL | GUEST_REGS_EXC | GUEST_REGS_MMU | GUEST_REGS_VBAR |
		   GUEST_REGS_TPIDR;
	return !m->is_failed;
}

/* Those that do not change on one vCPU while tasks of one kernel run on it, or of which nothing depends. */
static bool read_constant_regs(struct machine *m)
{
	struct guest_vcpu_regs *r = &m->regs;

	r->tpidr_el1 = sysreg(m, R_TPIDR);
	r->ttbr0_el1 = sysreg(m, R_TTBR0);
	r->ttbr1_el1 = sysreg(m, R_TTBR1);
	r->tcr_el1 = sysreg(m, R_TCR);
	r->sctlr_el1 = sysreg(m, R_SCTLR);
	r->mair_el1 = sysreg(m, R_MAIR);
	return !m->is_failed;
}

/* The number that the stub has given a system register: <reg name="ELR_EL1" … regnum="123" …/>. */
static bool number_sysregs(struct machine *m)
{
	static char xml[8 * MACHINE_PACKET];
	size_t n = 0;

	for (;;) {
		char text[96];

		snprintf(text, sizeof(text), "qXfer:features:read:system-registers.xml:%zx,800", n);
		if (!ask(m, text) || (m->packet[0] != 'm' && m->packet[0] != 'l') ||
		    n + strlen(m->packet) > sizeof(xml))
			return fail(m);
		strcpy(xml + n, m->packet + 1);
		n += strlen(m->packet + 1);
		if (m->packet[0] == 'l')
			break;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sysregs); i++) {
		char name[32];

		snprintf(name, sizeof(name), "name=\"%s\"", sysregs[i]);
		const char *at = strstr(xml, name);
		at = at ? strstr(at, "regnum=\"") : NULL;
		if (!at)
			return fail(m);
		m->sysreg[i] = (unsigned int)strtoul(at + strlen("regnum=\""), NULL, 10);
	}
	return true;
}

/* Their names, in one answer or several: m<name>[,<name>…], and l at the end. */
static bool name_vcpus(struct machine *m)
{
	bool answers = ask(m, "qfThreadInfo");

	for (; answers && m->packet[0] == 'm'; answers = ask(m, "qsThreadInfo")) {
		char *rest = NULL;

		for (char *name = strtok_r(m->packet + 1, ",", &rest); name;
		     name = strtok_r(NULL, ",", &rest)) {
			if (m->vcpus == MACHINE_VCPUS || strlen(name) >= sizeof(m->vcpu[0]))
				return fail(m);
			strcpy(m->vcpu[m->vcpus++], name);
		}
	}
	return answers && (m->vcpus || fail(m));
}

bool machine_look_at(struct machine *m, uint32_t vcpu)
{
	char text[32];

	snprintf(text, sizeof(text), "Hg%s", m->vcpu[vcpu]);
	return expect_ok(m, text) && read_regs(m) && read_constant_regs(m);
}

/* --- the machine --- */

static bool connect_to(struct machine *m, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval answer = { .tv_sec = ANSWER_S };

	if (strlen(path) >= sizeof(address.sun_path))
		return false;
	strcpy(address.sun_path, path);
	m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return m->fd >= 0 && !setsockopt(m->fd, SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof(answer)) &&
	       !connect(m->fd, (struct sockaddr *)&address, sizeof(address));
}

static bool map_ram(struct machine *m, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st))
		return false;
	m->ram_size = (size_t)st.st_size;
	m->ram = mmap(NULL, m->ram_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	memory_guest_init(&m->memory, 1);
	return m->ram != MAP_FAILED && !memory_guest_add(&m->memory, RAM_BASE, m->ram, m->ram_size);
}

/* That the vCPU has stopped for us may be said at once, or before the first answer. */
static bool greet(struct machine *m)
{
	if (!ask(m, "qSupported:"))
		return false;
	while (strncmp(m->packet, "PacketSize", strlen("PacketSize")))
		if (!get(m))
			return false;
	return true;
}

bool machine_open(struct machine *m, const char *socket, const char *ram_file, struct gs_error *err)
{
	*m = (struct machine){ .fd = -1 };
	if (!map_ram(m, ram_file) || !connect_to(m, socket)) {
		*err = (struct gs_error){ 0 };
		GS_IGNORE(gs_fail(err, GS_ESYS, "%s, %s: %s", ram_file, socket, strerror(errno)));
		return false;
	}
	if (greet(m) && ask(m, "qXfer:features:read:target.xml:0,800") && number_sysregs(m) &&
	    name_vcpus(m) && machine_look_at(m, 0))
		return true;
	GS_IGNORE(gs_fail(err, GS_EMALFORMED, "the debug stub says '%s'", m->packet));
	return false;
}

void machine_close(struct machine *m)
{
	if (m->fd >= 0)
		close(m->fd);
	if (m->ram)
		munmap(m->ram, m->ram_size);
}

static bool set_mode(struct machine *m, char mode)
{
	char text[] = "Qqemu.sstep=?";

	if (m->mode == mode)
		return true;
	m->mode = text[sizeof(text) - 2] = mode;
	return expect_ok(m, text);
}

bool machine_run_for(struct machine *m, uint32_t us)
{
	const struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	if (!put(m, "c"))
		return false;
	nanosleep(&t, NULL);
	/* what stops them is no packet; the answer is that to "c" */
	if (send(m->fd, "\x03", 1, MSG_NOSIGNAL) != 1)
		return fail(m);
	return get(m) && (m->packet[0] == 'T' || fail(m));
}

bool machine_step(struct machine *m, uint32_t word)
{
	const uint64_t vector = m->regs.vbar_el1;

	if (!set_mode(m, m->with_interrupts || word == WFI ? '1' : '7') || !ask(m, "s") ||
	    !read_regs(m))
		return false;
	/* one interrupt an entry: while we look at the guest, its time goes on */
	if (gs_in_range(m->regs.pc, 4, vector + 0x280, 0x80))
		m->with_interrupts = false;
	return true;
}

/*
 * Breakpoints at the vectors of synchronous exceptions and of interrupts, once and for all. KPTI's
 * trampoline goes to the second instruction.
 */
static bool break_at_entries(struct machine *m)
{
	static const uint64_t entries[] = { 0, 4, 0x80, 0x84 };

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		char text[64];

		snprintf(text, sizeof(text), "Z1,%" PRIx64 ",4",
			 m->regs.vbar_el1 + FROM_USER + entries[i]);
		if (!expect_ok(m, text))
			return false;
	}
	m->has_breakpoints = true;
	return true;
}

bool machine_run_to_entry(struct machine *m)
{
	return (m->has_breakpoints || break_at_entries(m)) && ask(m, "c") && read_regs(m);
}
