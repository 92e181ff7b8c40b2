/* SPDX-License-Identifier: Apache-2.0 */
/* kdump-compressed dumps, of makedumpfile and QEMU, plain and flattened. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/dump_flat.h"
#include "introspect/guest/dump_priv.h"
#include "introspect/guest/kdump_codec.h"
#include "introspect/guest/page_cache.h"

/*
 * File (makedumpfile 1.7.2, diskdump_mod.h), little-endian, in blocks of block_size bytes, which is
 * the size of a page too:
 *
 *	block 0                    struct disk_dump_header, of which the fields below are looked at
 *	block 1 …                  struct kdump_sub_header and what it points to: notes, VMCOREINFO
 *	block 1 + sub_hdr_size     bitmap of the pages that are RAM, bitmap of those in the dump (one
 *	                           bitmap alone, if there is no room for two)
 *	… + bitmap_blocks          page descriptors, one a page in the dump: offset (8), size (4),
 *	                           flags (4), page_flags (8); then the pages
 *
 * libkdumpfile is not used: with damaged pages 0.5.1 loses buffers of its cache until it writes to
 * address 0, it writes to memory it has freed when a dump is closed, and it takes a page's size of up
 * to 256 KiB from the file into a buffer of one page (0.5.1 … 0.5.4, diskdump_read_page()).
 */
#define HEAD_VERSION	  8
#define HEAD_MACHINE	  272 /* utsname.machine, 65 bytes */
#define HEAD_BLOCK_SIZE32 416 /* where a 32-bit dump has its block size: in our time stamp */
#define HEAD_STATUS	  424
#define HEAD_BLOCK_SIZE	  428
#define HEAD_SUB_SIZE	  432
#define HEAD_BITMAP	  436
#define HEAD_MAX_MAPNR	  440
#define HEAD_BYTES	  464
#define UTS_LEN		  65

#define SUB_SPLIT      12
#define SUB_VMCOREINFO 32
#define SUB_NOTE       48
#define SUB_MAX_MAPNR  96
#define SUB_BYTES      104

#define DESC_BYTES 24

#define STATUS_INCOMPLETE 0x8 /* DUMP_DH_COMPRESSED_INCOMPLETE: the disk was full */

/* Decompressed pages that are kept. */
#define KDUMP_CACHE_BYTES (8 << 20)
#define BITMAP_CHUNK	  65536

/* Descriptors with data of their own that are looked at for the file's true end, and at most in all. */
#define CUT_DESCS     64
#define CUT_DESCS_MAX 65536

struct guest_dump_kdump {
	struct kdump_codec *codec;
	struct guest_page_cache *cache;
	unsigned int shift;
};

struct layout {
	uint32_t version;
	uint32_t status;
	uint64_t block;
	unsigned int shift;
	uint64_t bitmap; /* file offset of the bitmap of pages in the dump */
	uint64_t ram_bitmap;
	uint64_t bits;	/* in each */
	uint64_t descs; /* file offset of the descriptors */
	uint64_t note, note_size;
	uint64_t info, info_size;
	bool nameless; /* the header does not say of which machine */
};

/* --- header --- */

static bool is_page_size(uint32_t size)
{
	return size >= 4096 && size <= 65536 && !(size & (size - 1));
}

/*
 * makedumpfile writes uname's answer. QEMU writes "Unknown" for a machine that it has no name for,
 * ARM64 among them (7.2 … 9.2, dump/dump.c): then the size of the register notes tells.
 */
static bool is_nameless(const char *machine)
{
	return !*machine || !strncmp(machine, "Unknown", UTS_LEN);
}

static enum gs_code check_machine(const char *machine, struct gs_error *err)
{
	char name[UTS_LEN];
	size_t n = 0;

	if (!strncmp(machine, "aarch64", UTS_LEN) || is_nameless(machine))
		return GS_OK;
	for (; n < UTS_LEN - 1 && machine[n] > ' ' && machine[n] < 0x7f; n++)
		name[n] = machine[n];
	name[n] = '\0';
	return gs_fail(err, GS_ENOTSUP, "is of machine '%s': only ARM64 guests are read", name);
}

static enum gs_code check_nameless(const struct guest_dump *d, struct gs_error *err)
{
	if (d->prstatus_size == DUMP_PRSTATUS_SIZE)
		return GS_OK;
	return gs_fail(err, GS_EMALFORMED,
		       "does not name its machine, and has no registers of an ARM64 CPU (notes of "
		       "%zu bytes, not %d)",
		       d->prstatus_size, DUMP_PRSTATUS_SIZE);
}

/* The sub header's own places: notes and VMCOREINFO. */
static enum gs_code read_sub_header(const struct guest_dump *d, struct layout *l,
				    uint64_t *max_mapnr, struct gs_error *err)
{
	uint8_t sub[SUB_BYTES];

	if (guest_dump_file_read(&d->file, l->block, sub, sizeof(sub)))
		return gs_fail(err, GS_EMALFORMED, "is cut off in its second header");
	if (l->version >= 2 && gs_get_u32(sub + SUB_SPLIT))
		return gs_fail(err, GS_ENOTSUP,
			       "is one part of a split dump: join the parts with makedumpfile "
			       "--reassemble");
	if (l->version >= 3) {
		l->info = gs_get_u64(sub + SUB_VMCOREINFO);
		l->info_size = gs_get_u64(sub + SUB_VMCOREINFO + 8);
	}
	if (l->version >= 4) {
		l->note = gs_get_u64(sub + SUB_NOTE);
		l->note_size = gs_get_u64(sub + SUB_NOTE + 8);
	}
	if (l->version >= 6)
		*max_mapnr = gs_get_u64(sub + SUB_MAX_MAPNR);
	if (!gs_in_range(l->note, l->note_size, 0, d->file.size) ||
	    !gs_in_range(l->info, l->info_size, 0, d->file.size))
		return gs_fail(err, GS_EMALFORMED,
			       "second header: notes of %" PRIu64 " bytes at %#" PRIx64
			       ": beyond the file's end",
			       l->note_size, l->note);
	if (l->note_size > DUMP_NOTES_BYTES_MAX || l->info_size > DUMP_NOTES_BYTES_MAX)
		return gs_fail(err, GS_EMALFORMED, "second header: notes of %" PRIu64 " bytes",
			       gs_max(l->note_size, l->info_size));
	return GS_OK;
}

static enum gs_code read_layout(const struct guest_dump *d, struct layout *l, struct gs_error *err)
{
	uint8_t head[HEAD_BYTES];

	if (guest_dump_file_read(&d->file, 0, head, sizeof(head)))
		return gs_fail(err, GS_EMALFORMED, "is cut off in its header");
	enum gs_code rc = check_machine((const char *)head + HEAD_MACHINE, err);
	if (rc)
		return rc;

	uint32_t block = gs_get_u32(head + HEAD_BLOCK_SIZE);
	uint32_t before = gs_get_u32(head + HEAD_BLOCK_SIZE32);
	uint64_t sub = gs_get_u32(head + HEAD_SUB_SIZE), blocks = gs_get_u32(head + HEAD_BITMAP);
	uint64_t max_mapnr = gs_get_u32(head + HEAD_MAX_MAPNR);

	l->nameless = is_nameless((const char *)head + HEAD_MACHINE);
	l->version = gs_get_u32(head + HEAD_VERSION);
	l->status = gs_get_u32(head + HEAD_STATUS);
	if (!is_page_size(block) || l->version < 1 || l->version > 64)
		return gs_fail(err, GS_EMALFORMED,
			       "header of version %" PRIu32 ", blocks of %" PRIu32
			       " bytes: damaged, or of no ARM64 machine",
			       l->version, block);
	// 32-bit machines have the block size where we have a time stamp; readers try that first.
	if (is_page_size(before) || is_page_size(__builtin_bswap32(before)))
		return gs_fail(err, GS_EMALFORMED, "header has a page size for its time stamp");
	l->block = block;
	l->shift = (unsigned int)__builtin_ctz(block);
	rc = read_sub_header(d, l, &max_mapnr, err);
	if (rc)
		return rc;
	// All three are 32-bit numbers: the sum of their products fits.
	l->ram_bitmap = (1 + sub) * block;
	l->descs = l->ram_bitmap + blocks * block;
	if (sub > INT32_MAX || blocks > INT32_MAX || l->descs > d->file.size)
		return gs_fail(err, GS_EMALFORMED,
			       "is cut off in its page bitmaps (they end at "
			       "%#" PRIx64 ")",
			       l->descs);
	l->bits = blocks * block * 8;
	l->bitmap = l->ram_bitmap;
	if (max_mapnr <= l->bits / 2) {
		blocks /= 2;
		l->bits = blocks * block * 8;
		l->bitmap += blocks * block;
	}
	l->bits = gs_min(l->bits, gs_min(max_mapnr, DUMP_PHYS_END >> l->shift));
	return GS_OK;
}

/* --- bitmaps --- */

struct run {
	struct guest_dump_pieces *pieces;
	const struct layout *l;
	uint64_t start; /* first page of the run; UINT64_MAX: in none */
	uint64_t pages; /* in the dump so far, this run not included */
};

static enum gs_code run_end(struct run *r, uint64_t page)
{
	if (r->start == UINT64_MAX)
		return GS_OK;
	struct guest_dump_piece piece = {
		.start = r->start << r->l->shift,
		.size = (page - r->start) << r->l->shift,
		.offset = r->l->descs + r->pages * DESC_BYTES, /* of its first descriptor */
	};
	r->pages += page - r->start;
	r->start = UINT64_MAX;
	return guest_dump_pieces_add(r->pieces, piece);
}

static enum gs_code run_byte(struct run *r, uint64_t page, uint8_t bits, unsigned int count)
{
	// The usual cases: all eight alike, and like what came before.
	if (count == 8 && (bits == 0 ? r->start == UINT64_MAX : bits == 0xff && r->start < page))
		return GS_OK;
	for (unsigned int i = 0; i < count; i++) {
		bool set = bits >> i & 1;

		if (set && r->start == UINT64_MAX)
			r->start = page + i;
		if (set)
			continue;
		enum gs_code rc = run_end(r, page + i);
		if (rc)
			return rc;
	}
	return GS_OK;
}

static uint64_t count_bits(const uint8_t *bytes, size_t len)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += (uint64_t)__builtin_popcount(bytes[i]);
	return n;
}

/* Turn the bitmap into pieces. @param ram_out pages set in the other bitmap, about */
static enum gs_code read_bitmaps(struct guest_dump *d, const struct layout *l, uint64_t *pages_out,
				 uint64_t *ram_out, struct gs_error *err)
{
	struct run r = { &d->pieces, l, UINT64_MAX, 0 };
	GS_FREE uint8_t *chunk = malloc(BITMAP_CHUNK);
	enum gs_code rc = GS_OK;

	if (!chunk)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	*ram_out = 0;
	for (uint64_t at = 0; at * 8 < l->bits && !rc; at += BITMAP_CHUNK) {
		size_t n = (size_t)gs_min(BITMAP_CHUNK, (l->bits + 7) / 8 - at);

		if (guest_dump_file_read(&d->file, l->ram_bitmap + at, chunk, n))
			return gs_fail(err, GS_EMALFORMED, "is cut off in its page bitmaps");
		*ram_out += count_bits(chunk, n);
		if (guest_dump_file_read(&d->file, l->bitmap + at, chunk, n))
			return gs_fail(err, GS_EMALFORMED, "is cut off in its page bitmaps");
		for (size_t i = 0; i < n && !rc; i++) {
			uint64_t page = (at + i) * 8;

			rc = run_byte(&r, page, chunk[i], (unsigned int)gs_min(8, l->bits - page));
		}
	}
	if (!rc)
		rc = run_end(&r, l->bits);
	*pages_out = r.pages;
	if (rc == GS_ETOOBIG) {
		guest_dump_remark(d, "only the first %" PRIu32 " stretches of memory are used",
				  DUMP_PIECES_MAX);
		rc = GS_OK;
	}
	return rc ? gs_fail(err, rc, "out of memory") : GS_OK;
}

/* --- pages --- */

/* Where a page's data lies. */
struct desc {
	uint64_t offset;
	uint32_t size, flags;
};

/* @return false: it is cut off, or makes no sense (F06) */
static bool read_desc(const struct guest_dump *d, uint64_t at, uint64_t page_size,
		      struct desc *desc_out)
{
	uint8_t bytes[DESC_BYTES];

	if (guest_dump_file_read(&d->file, at, bytes, sizeof(bytes)))
		return false;
	*desc_out =
		(struct desc){ gs_get_u64(bytes), gs_get_u32(bytes + 8), gs_get_u32(bytes + 12) };
	return desc_out->size && desc_out->size <= page_size &&
	       gs_in_range(desc_out->offset, desc_out->size, 0, d->file.size);
}

/* Fetch one page; called by the cache. */
static enum gs_code kdump_fill(void *priv, gpa_t page, void *buf)
{
	static _Thread_local uint8_t packed[KDUMP_PAGE_MAX];
	struct guest_dump *d = priv;
	struct guest_dump_kdump *k = d->kdump;
	uint32_t i = guest_dump_piece_find(d, page.a);
	const size_t len = (size_t)1 << k->shift;
	struct desc desc;

	if (i == d->pieces.count || page.a < d->pieces.at[i].start)
		return GS_EFAULT; // filtered out, or no memory
	const struct guest_dump_piece *p = &d->pieces.at[i];
	if (!read_desc(d, p->offset + ((page.a - p->start) >> k->shift) * DESC_BYTES, len, &desc) ||
	    guest_dump_file_read(&d->file, desc.offset, packed, desc.size))
		return GS_EFAULT;
	return guest_kdump_codec_page(k->codec, desc.flags, packed, desc.size, buf, len);
}

static enum gs_code kdump_read(void *priv, gpa_t at, void *buf, size_t len)
{
	struct guest_dump *d = priv;

	return guest_page_cache_read(d->kdump->cache, at, buf, len);
}

static bool kdump_next_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	const struct guest_dump *d = priv;
	uint32_t i = guest_dump_piece_find(d, from.a);

	if (i == d->pieces.count || d->pieces.at[i].start >= end.a || from.a >= end.a)
		return false;
	const struct guest_dump_piece *p = &d->pieces.at[i];
	*start_out = GPA(gs_max(from.a, p->start));
	*end_out = GPA(gs_min(end.a, p->start + p->size));
	return true;
}

static const struct guest_ops kdump_ops = {
	.stop = guest_dump_op_stop,
	.resume = guest_dump_op_resume,
	.vcpu_regs = guest_dump_op_vcpu_regs,
	.read = kdump_read,
	.next_data = kdump_next_data,
};

/* --- opening --- */

void guest_dump_kdump_close(struct guest_dump_kdump *k)
{
	if (!k)
		return;
	guest_page_cache_destroy(k->cache);
	guest_kdump_codec_destroy(k->codec);
	free(k);
}

/* The first page tells the method: a dump has one for all its pages (F05). */
static enum gs_code load_method(struct guest_dump *d, const struct layout *l, struct gs_error *err)
{
	uint8_t bytes[DESC_BYTES];

	if (guest_dump_file_read(&d->file, l->descs, bytes, sizeof(bytes)))
		return GS_OK; // cut off, which is said elsewhere
	uint32_t flags = gs_get_u32(bytes + 12), of_all = l->status & KDUMP_METHODS;
	if (flags & ~(uint32_t)KDUMP_METHODS)
		guest_dump_remark(d,
				  "has pages compressed with an unknown method (flags %#" PRIx32
				  "), which are left out",
				  flags);
	enum gs_code rc = guest_kdump_codec_load(d->kdump->codec, flags, err);
	// A page that did not get smaller is stored as it is: then the header tells.
	return rc ? rc : guest_kdump_codec_load(d->kdump->codec, of_all, err);
}

/*
 * Pages are written in order, so that a file that was cut lacks the last ones. Backwards through the
 * descriptors until some with data of their own were seen: pages of zeros share theirs, at the front.
 */
static uint64_t last_data_end(const struct guest_dump *d, const struct layout *l, uint64_t pages)
{
	uint64_t last = 0, previous = 0;
	unsigned int own = 0;

	for (uint64_t n = 1; n <= gs_min(pages, CUT_DESCS_MAX) && own < CUT_DESCS; n++) {
		uint8_t desc[DESC_BYTES];

		if (guest_dump_file_read(&d->file, l->descs + (pages - n) * DESC_BYTES, desc,
					 sizeof(desc)))
			break;
		uint64_t offset = gs_get_u64(desc);
		// No page lies further away than if all were stored as they are: that is damage.
		if (offset <= d->file.size + pages * l->block && gs_get_u32(desc + 8) <= l->block)
			last = gs_max(last, offset + gs_get_u32(desc + 8));
		own += offset != previous;
		previous = offset;
	}
	return last;
}

static void remark_cut(struct guest_dump *d, const struct layout *l, uint64_t pages)
{
	uint64_t room = (d->file.size - l->descs) / DESC_BYTES;

	if (pages > room) {
		guest_dump_remark(d,
				  "cut off: %" PRIu64 " of %" PRIu64 " page descriptors are there",
				  room, pages);
		return;
	}
	uint64_t last = last_data_end(d, l, pages);
	if (last > d->file.size)
		guest_dump_remark(d,
				  "cut off: the last %" PRIu64 " KiB, with the highest pages, are "
				  "missing",
				  (last - d->file.size + 1023) >> 10);
}

static enum gs_code unflatten(struct guest_dump *d, struct gs_error *err)
{
	struct guest_dump_file file;
	uint8_t magic[8] = { 0 };
	bool complete;
	enum gs_code rc = guest_dump_flat_rearrange(&d->file, &file, &complete, err);

	if (rc)
		return rc;
	guest_dump_file_close(&d->file);
	d->file = file;
	if (!complete)
		guest_dump_remark(d, "flattened, and cut off before its end mark");
	d->access = "kdump-compressed, rearranged in a temporary file";
	if (guest_dump_file_read(&d->file, 0, magic, sizeof(magic)) || memcmp(magic, "KDUMP   ", 8))
		return gs_fail(err, GS_ENOTSUP,
			       "is flattened, but not kdump-compressed: makedumpfile -R makes an "
			       "ELF core of it");
	return GS_OK;
}

static enum gs_code take_notes(struct guest_dump *d, const struct layout *l, struct gs_error *err)
{
	enum gs_code rc = guest_dump_notes_read(d, &d->file, l->note, l->note_size, err);

	if (rc || d->vmcoreinfo || !l->info_size)
		return rc;
	GS_FREE uint8_t *text = malloc((size_t)l->info_size);
	if (!text)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	if (guest_dump_file_read(&d->file, l->info, text, (size_t)l->info_size))
		return GS_OK; // a hint; without it the search takes longer
	return guest_dump_vmcoreinfo_keep(d, text, (size_t)l->info_size, err);
}

static enum gs_code kdump_create(struct guest_dump *d, unsigned int shift, struct gs_error *err)
{
	struct guest_dump_kdump *k = calloc(1, sizeof(*k));

	if (!k)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	k->shift = shift;
	k->cache = guest_page_cache_create(shift, KDUMP_CACHE_BYTES, kdump_fill, d);
	d->kdump = k; // closed with the dump from here on
	return k->cache ? guest_kdump_codec_create(&k->codec, err)
			: gs_fail(err, GS_ENOSPC, "out of memory");
}

enum gs_code guest_dump_kdump_open(struct guest_dump *d, struct gs_error *err)
{
	struct layout l = { 0 };
	uint8_t first = 0;
	uint64_t pages, ram;
	enum gs_code rc = GS_OK;

	d->access = "kdump-compressed";
	if (guest_dump_file_read(&d->file, 0, &first, 1))
		return gs_fail(err, GS_ESYS, "cannot be read");
	if (first == 'm')
		rc = unflatten(d, err);
	if (!rc)
		rc = read_layout(d, &l, err);
	if (!rc)
		rc = take_notes(d, &l, err);
	if (!rc && l.nameless)
		rc = check_nameless(d, err);
	if (!rc)
		rc = read_bitmaps(d, &l, &pages, &ram, err);
	if (!rc)
		rc = guest_dump_ranges_make(d, &d->pieces, err);
	if (!rc)
		rc = kdump_create(d, l.shift, err);
	if (!rc)
		rc = load_method(d, &l, err);
	if (rc)
		return rc;
	remark_cut(d, &l, pages);
	if (l.status & STATUS_INCOMPLETE)
		guest_dump_remark(d, "its writer ran out of disk");
	if (ram > pages)
		guest_dump_remark(d, "%" PRIu64 " MiB of memory were filtered out",
				  guest_dump_mib((ram - pages) << l.shift));
	d->guest.source = "kdump";
	d->guest.ops = &kdump_ops;
	return GS_OK;
}
