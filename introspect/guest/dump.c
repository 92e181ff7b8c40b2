/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as guests: which kind a file is, and what all kinds have in common. */
#include "introspect/guest/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/guest/dump_priv.h"

void guest_dump_remark(struct guest_dump *d, const char *fmt, ...)
{
	char text[GUEST_SOURCE_NOTE_MAX];
	size_t used = strlen(d->note);
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	// Said once is enough: a file may give the same reason a million times.
	if (n <= 0 || used + (size_t)n + 3 > sizeof(d->note) || strstr(d->note, text))
		return;
	if (used) {
		memcpy(d->note + used, "; ", 2);
		used += 2;
	}
	memcpy(d->note + used, text, (size_t)n + 1);
}

/* --- what all dumps answer alike --- */

enum gs_code guest_dump_op_stop(void *priv, struct gs_error *err)
{
	struct guest_dump *d = priv;

	(void)err; // cannot fail: nothing runs
	atomic_fetch_add_explicit(&d->stops, 1, memory_order_relaxed);
	return GS_OK;
}

enum gs_code guest_dump_op_resume(void *priv, struct gs_error *err)
{
	struct guest_dump *d = priv;
	unsigned int stops = atomic_load_explicit(&d->stops, memory_order_relaxed);

	do {
		if (!stops)
			return gs_fail(err, GS_EBUSY, "resume without a stop");
	} while (!atomic_compare_exchange_weak_explicit(
		&d->stops, &stops, stops - 1, memory_order_relaxed, memory_order_relaxed));
	return GS_OK;
}

enum gs_code guest_dump_op_vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	const struct guest_dump *d = priv;

	*regs_out = d->regs[vcpu];
	return GS_OK;
}

/* --- dumps that hold memory as it is: ELF cores, bare RAM --- */

static enum gs_code plain_read(void *priv, gpa_t at, void *buf, size_t len)
{
	const struct guest_dump *d = priv;

	for (uint32_t i = guest_dump_piece_find(d, at.a); len; i++) {
		// A range may consist of several pieces, and bridge gaps between them.
		if (i == d->pieces.count || at.a < d->pieces.at[i].start)
			return GS_EFAULT;
		const struct guest_dump_piece *p = &d->pieces.at[i];
		uint64_t skip = at.a - p->start;
		size_t n = (size_t)gs_min(len, p->size - skip);
		enum gs_code rc = guest_dump_file_read(&d->file, p->offset + skip, buf, n);
		if (rc)
			return rc;
		buf = (char *)buf + n;
		len -= n;
		at.a += n;
	}
	return GS_OK;
}

static bool plain_next_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	const struct guest_dump *d = priv;

	for (uint32_t i = guest_dump_piece_find(d, from.a); i < d->pieces.count; i++) {
		const struct guest_dump_piece *p = &d->pieces.at[i];
		uint64_t a = gs_max(from.a, p->start), b = gs_min(end.a, p->start + p->size);
		uint64_t start, stop;

		if (p->start >= end.a)
			return false;
		if (a >= b || !guest_dump_file_next_data(&d->file, p->offset + (a - p->start),
							 p->offset + (b - p->start), &start, &stop))
			continue;
		*start_out = GPA(p->start + (start - p->offset));
		*end_out = GPA(p->start + (stop - p->offset));
		return true;
	}
	return false;
}

const struct guest_ops guest_dump_plain_ops = {
	.stop = guest_dump_op_stop,
	.resume = guest_dump_op_resume,
	.vcpu_regs = guest_dump_op_vcpu_regs,
	.read = plain_read,
	.next_data = plain_next_data,
};

enum gs_code guest_dump_raw_open(struct guest_dump *d, gpa_t base, struct gs_error *err)
{
	if (base.a & 4095)
		return gs_fail(err, GS_EINVAL, "RAM base %#" PRIx64 " is not the start of a page",
			       base.a);
	if (!gs_in_range(base.a, d->file.size, 0, DUMP_PHYS_END))
		return gs_fail(err, GS_EINVAL,
			       "RAM of %" PRIu64 " bytes from %#" PRIx64
			       " ends beyond the highest physical address",
			       d->file.size, base.a);
	enum gs_code rc = guest_dump_pieces_add(
		&d->pieces, (struct guest_dump_piece){ .start = base.a, .size = d->file.size });
	if (rc)
		return gs_fail(err, rc, "out of memory");
	rc = guest_dump_ranges_make(d, &d->pieces, err);
	if (rc)
		return rc;
	guest_dump_file_map(&d->file);
	d->access = d->file.map ? "mapped RAM image" : "RAM image";
	d->guest.source = "raw";
	d->guest.ops = &guest_dump_plain_ops;
	return GS_OK;
}

/* --- kinds of file --- */

static const struct {
	uint16_t at;
	uint16_t size;
	const char *magic;
	const char *is; /* and what to do */
} unread_kinds[] = {
	{ 0, 16, "LibvirtQemudSave",
	  "a saved domain (virsh save, or virsh dump without --memory-only): use virsh dump "
	  "--memory-only, or restore it and attach" },
	{ 0, 16, "LibvirtQemudPart", "a saved domain that was not written to its end" },
	{ 0, 4, "QEVM", "QEMU's migration stream: use dump-guest-memory, or load it and attach" },
	{ 0, 4, "QFI\xfb",
	  "a qcow2 disk image: load its snapshot (-loadvm) and use dump-guest-memory, or attach" },
	{ 0, 4, "EMiL", "a LiME image: take it again with format=raw, and give its --ram-base" },
	{ 0, 8, "DISKDUMP", "an old diskdump: makedumpfile converts it" },
	{ 0, 8, "\xed\x23\x8f\x61\x73\x01\x19\xa8", "an LKCD dump: no ARM64 kernel writes these" },
	{ 0, 8, "PAGEDU64", "a Windows crash dump: the guest must run Linux" },
	{ 0, 8, "PAGEDUMP", "a Windows crash dump: the guest must run Linux" },
	{ 0, 4, "\xd2\xbe\xd2\xbe", "a VMware snapshot: vmss2core converts it" },
	{ 0, 4, "\x07\x58\xa2\x59", "a finished capture: guestshot show reads it" },
	{ 0, 2, "\x1f\x8b", "compressed: unpack it with gunzip first" },
	{ 0, 6, "\3757zXZ\0", "compressed: unpack it with unxz first" },
	{ 0, 4, "\x28\xb5\x2f\xfd", "compressed: unpack it with unzstd first" },
	{ 0, 4, "\x04\x22\x4d\x18", "compressed: unpack it with unlz4 first" },
	{ 0, 3, "BZh", "compressed: unpack it with bunzip2 first" },
	{ 56, 4, "ARM\x64", "a kernel image, not a dump of a running one" },
};

static enum gs_code refuse(const uint8_t *head, size_t size, struct gs_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(unread_kinds); i++) {
		if ((size_t)unread_kinds[i].at + unread_kinds[i].size <= size &&
		    !memcmp(head + unread_kinds[i].at, unread_kinds[i].magic, unread_kinds[i].size))
			return gs_fail(err, GS_ENOTSUP, "is %s", unread_kinds[i].is);
	}
	return gs_fail(err, GS_EMALFORMED,
		       "is no ELF core and no kdump-compressed dump (bare RAM needs --ram-base "
		       "ADDRESS, %#" PRIx64 " for QEMU's virt machine)",
		       GUEST_DUMP_RAM_BASE);
}

static enum gs_code open_kind(struct guest_dump *d, const struct guest_dump_options *options,
			      struct gs_error *err)
{
	uint8_t head[64] = { 0 };
	size_t size = (size_t)gs_min(sizeof(head), d->file.size);

	if (options && options->raw)
		return guest_dump_raw_open(d, options->ram_base, err);
	if (guest_dump_file_read(&d->file, 0, head, size))
		return gs_fail(err, GS_ESYS, "cannot be read");
	if (size >= 4 && !memcmp(head, "\177ELF", 4))
		return guest_dump_elf_open(d, err);
	if (size >= 8 && !memcmp(head, "KDUMP   ", 8))
		return guest_dump_kdump_open(d, err);
	if (size >= 16 && !memcmp(head, "makedumpfile\0\0\0", 16))
		return guest_dump_kdump_open(d, err);
	return refuse(head, size, err);
}

/* --- the source --- */

static void dump_destroy(struct guest_dump *d)
{
	if (!d)
		return;
	guest_dump_kdump_close(d->kdump);
	guest_dump_file_close(&d->file);
	free(d->pieces.at);
	free(d->ranges);
	free(d->clusters);
	free(d->regs);
	free(d->vmcoreinfo);
	free(d);
}

static void dump_close(void *priv)
{
	dump_destroy(priv);
}

static enum gs_code dump_create(struct guest_dump **d_out, struct gs_error *err)
{
	struct guest_dump *d = calloc(1, sizeof(*d));

	if (!d)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	d->file.fd = -1;
	d->notes_left = DUMP_NOTES_BYTES_MAX;
	d->regs = gs_array_alloc(GUEST_VCPUS_MAX, sizeof(*d->regs));
	d->clusters = gs_array_alloc(GUEST_VCPUS_MAX, sizeof(*d->clusters));
	if (!d->regs || !d->clusters) {
		dump_destroy(d);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	*d_out = d;
	return GS_OK;
}

static void publish(struct guest_dump *d, struct guest_source *source_out)
{
	if (!d->cpus)
		guest_dump_remark(d, "no CPU registers in it: threads that ran have no stack");
	d->guest.priv = d;
	d->guest.ranges = d->ranges;
	d->guest.vcpu_count = d->cpus;
	d->guest.cluster_count = 1;
	d->guest.vcpu_cluster = d->clusters;
	*source_out = (struct guest_source){
		.guest = &d->guest,
		.close = dump_close,
		.priv = d,
		.access = d->access,
	};
	memcpy(source_out->note, d->note, sizeof(source_out->note));
}

enum gs_code guest_source_open_dump(const char *path, const struct guest_dump_options *options,
				    struct guest_source *source_out, struct gs_error *err)
{
	struct guest_dump *d;
	enum gs_code rc = dump_create(&d, err);

	if (!rc) {
		rc = guest_dump_file_open(path, &d->file, err);
		if (!rc)
			rc = open_kind(d, options, err);
		if (rc)
			dump_destroy(d);
	}
	if (rc)
		return gs_wrap(err, rc, "%s", path);
	publish(d, source_out);
	return GS_OK;
}

const char *guest_dump_vmcoreinfo(const struct guest_source *s, size_t *size_out)
{
	if (s->close != dump_close)
		return NULL;
	const struct guest_dump *d = s->priv;
	if (d->vmcoreinfo)
		*size_out = d->vmcoreinfo_size;
	return d->vmcoreinfo;
}
