/* SPDX-License-Identifier: Apache-2.0 */
/* Page counts, where the kernel lies, ASIDs and page tables. */
#include "introspect/stackshot/memory.h"

#include <string.h>

#include "base/clock.h"
#include "kcdata/stackshot_types.h"

/* Room for 500 tables of 4 KiB: most processes have fewer, and a second try is a second stop. */
#define TABLES_ROOM (UINT64_C(2) << 20)
/*
 * Tables of a process that are looked at: 4 GiB of them. Those that are recorded are bounded by the
 * storage; ones that lead to each other, or nowhere, are not.
 */
#define TABLES_MAX UINT64_C(1048576)
/* What stands before the entries of a table, in words. */
#define TABLE_HEAD 4

uint64_t ss_memory_room(const struct ss_request *q)
{
	return q->flags & KCD_SS_REQ_PAGE_TABLES ? TABLES_ROOM : 0;
}

/* --- of the whole guest --- */

bool ss_is_late(const struct ss_engine *e)
{
	return e->context.deadline_ns && gs_clock_ns() >= e->context.deadline_ns;
}

void ss_memory_begin(struct ss_engine *e)
{
	const struct lnx_kernel *k = ss_kernel(e);
	struct ss_try *t = &e->t;
	uint64_t can = 0;

	if (lnx_knows_asid(k))
		can |= KCD_SS_REQ_ASID;
	if (lnx_knows_page_tables(k))
		can |= KCD_SS_REQ_PAGE_TABLES;
	if (lnx_knows_waits(k))
		can |= KCD_SS_REQ_THREAD_WAITINFO;
	if (lnx_knows_user_stacks(k))
		can |= SS_USER_STACKS;
	if ((t->request->flags & KCD_SS_GET_GLOBAL_MEM_STATS) && lnx_knows_page_counts(k) &&
	    !lnx_page_counts_read(&e->worker[0]->v, &t->pages) && !ss_is_late(e))
		can |= KCD_SS_GET_GLOBAL_MEM_STATS;
	t->honoured |= t->request->flags & can;
}

void ss_memory_end(struct ss_engine *e)
{
	if (e->t.has_load_info)
		e->t.honoured |= KCD_SS_SAVE_KEXT_LOADINFO;
}

enum gs_code ss_write_load_info(struct ss_worker *w)
{
	struct ss_engine *e = w->e;
	struct lnx_kernel_info kernel = lnx_kernel_info_get(ss_kernel(e));
	struct kcd_uuid_info record = { .imageLoadAddress = kernel.text };

	if (!(e->t.request->flags & KCD_SS_SAVE_KEXT_LOADINFO))
		return GS_OK;
	/* its first 16 of 20 bytes, as many as a UUID has */
	if (kernel.build_id)
		memcpy(record.imageUUID, kernel.build_id, sizeof(record.imageUUID));
	enum gs_code rc =
		ss_code(kcd_append(&w->out, KCD_SS_KERNELCACHE_LOADINFO, &record, sizeof(record)));
	if (!rc)
		e->t.has_load_info = true;
	return rc;
}

static uint32_t saturated(uint64_t pages)
{
	return (uint32_t)gs_min(pages, UINT32_MAX);
}

enum kcd_code ss_write_page_counts(struct kcd_writer *out, const struct ss_try *t)
{
	const struct lnx_page_counts *n = &t->pages;
	struct kcd_mem_and_io record = {
		.snapshot_magic = KCD_SS_MEM_AND_IO_MAGIC,
		.free_pages = saturated(n->free),
		.active_pages = saturated(n->active),
		.inactive_pages = saturated(n->inactive),
		.wired_pages = saturated(n->unevictable + n->slab_unreclaimable),
		.filebacked_pages = saturated(n->file),
		.compressor_size = saturated(n->zspages),
	};

	if (!(t->honoured & KCD_SS_GET_GLOBAL_MEM_STATS))
		return KCD_OK;
	return kcd_append(out, KCD_SS_GLOBAL_MEM_STATS, &record, sizeof(record));
}

/* --- ASIDs --- */

void ss_memory_prefetch_entry(struct ss_worker *w, const struct lnx_task *leader)
{
	if (w->e->t.honoured & KCD_SS_REQ_ASID)
		lnx_mm_prefetch_entry(&w->v, lnx_task_mm(leader));
}

void ss_memory_prefetch(struct ss_worker *w, const struct lnx_task *leader)
{
	if (w->e->t.honoured & KCD_SS_REQ_ASID)
		lnx_mm_prefetch(&w->v, lnx_task_mm(leader));
}

static void note_missing(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
			 struct ss_note note)
{
	note.tid = -1;
	if (!note.count)
		note.count = 1;
	ss_note_process(&note, leader);
	ss_worker_note(w, item, note);
}

static enum gs_code write_asid(struct ss_worker *w, struct ss_item *item,
			       const struct lnx_task *leader, gva_t mm, enum gs_code cut)
{
	uint32_t asid;
	enum gs_code rc = cut, full = GS_OK;

	if (!rc)
		rc = lnx_mm_asid(&w->v, mm, &asid);
	if (!rc)
		rc = full = ss_code(kcd_append(&w->out, KCD_SS_ASID, &asid, sizeof(asid)));
	if (rc)
		note_missing(w, item, leader,
			     (struct ss_note){ .what = SS_MISSING_ASID,
					       .why = SS_WHY_ASID,
					       .address = mm.a,
					       .b = rc });
	return cut ? cut : full;
}

/* --- page tables --- */

static uint64_t mask_of(const struct ss_request *q)
{
	return q->pagetable_mask ? q->pagetable_mask : UINT32_MAX;
}

enum kcd_code ss_write_pagetable_mask(struct kcd_writer *out, const struct ss_try *t)
{
	if (!(t->request->flags & KCD_SS_REQ_PAGE_TABLES))
		return KCD_OK;
	return kcd_append_u32(out, "stackshot_pagetable_mask", (uint32_t)mask_of(t->request));
}

/* The page tables of a process while they are written. */
struct tables {
	struct ss_worker *w;
	struct a64_half half;
	struct a64_tables walk;
	uint64_t mask;	     /* of levels */
	uint64_t looked_at;  /* tables, recorded or not */
	uint64_t recorded;   /* ... of these */
	uint64_t unreadable; /* ... and the first one's address */
	gpa_t first_unreadable;
};

/* A table as it is recorded: what it is, and its entries. For kcd_writer_set_copy(). */
static bool copy_table(void *arg, void *dst, const void *src, size_t len)
{
	const struct a64_table *table = src;
	const uint64_t head[TABLE_HEAD] = {
		table->at.a,
		table->entries,
		table->first,
		table->first + table->entries * table->entry_size,
	};

	memcpy(dst, head, sizeof(head));
	return !lnx_read_physical(arg, table->at, (uint8_t *)dst + sizeof(head),
				  len - sizeof(head));
}

static enum kcd_code append_table(struct tables *x, const struct a64_table *table)
{
	struct kcd_writer *out = &x->w->out;

	kcd_writer_set_copy(out, copy_table, &x->w->v);
	enum kcd_code rc = kcd_append_array(out, KCD_SS_PAGE_TABLES, TABLE_HEAD + table->entries,
					    sizeof(uint64_t), table);
	kcd_writer_set_copy(out, NULL, NULL);
	return rc;
}

static bool is_selected(uint64_t mask, int level)
{
	return mask & SS_PAGETABLE_LEVEL(level);
}

/*
 * Look at the next table.
 *
 * @return GS_OK; GS_ENOENT: that was the last one; GS_ENOSPC; as ss_context_check()
 */
static enum gs_code next_table(struct tables *x)
{
	struct ss_worker *w = x->w;
	struct kcd_mark mark = kcd_writer_mark(&w->out);
	struct a64_table table;
	enum gs_code read = a64_tables_next(&x->walk, &table);
	enum kcd_code rc = KCD_OK;

	if (read == GS_ENOENT)
		return read;
	const bool is_new = read == GS_OK;
	const bool is_wanted = is_new && is_selected(x->mask, table.level);
	if (is_wanted)
		rc = append_table(x, &table);
	if (rc == KCD_ECOPY) {
		a64_tables_skip(&x->walk);
		read = GS_EFAULT;
	} else if (rc) {
		return ss_code(rc);
	}
	/* what was read after the deadline is not to be believed */
	enum gs_code late = ss_context_check(&w->e->context);
	if (late) {
		GS_IGNORE(kcd_writer_rewind(&w->out, mark)); /* to a place that is there */
		return late;
	}
	x->looked_at += is_new;
	x->recorded += is_wanted && !read;
	if (read && !x->unreadable++)
		x->first_unreadable = table.at;
	return GS_OK;
}

/* What is not there of a process's tables, in up to two notes. */
static void note_tables(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
			const struct tables *x, enum gs_code rc)
{
	struct ss_note note = { .what = SS_MISSING_PAGE_TABLES, .address = x->first_unreadable.a };

	if (x->unreadable) {
		note.why = SS_WHY_PAGE_TABLES;
		note.count = saturated(x->unreadable);
		note.a = x->unreadable;
		note_missing(w, item, leader, note);
	}
	note.address = 0;
	note.count = 1;
	note.a = x->recorded;
	if (rc == GS_ETIMEDOUT) {
		note.why = SS_WHY_LATE_TABLES;
	} else if (rc == GS_ENOSPC) {
		note.why = SS_WHY_NO_ROOM_TABLES;
		w->no_room = true;
	} else if (x->looked_at == TABLES_MAX) {
		note.why = SS_WHY_MANY_TABLES;
		note.a = x->looked_at;
	} else {
		return;
	}
	note_missing(w, item, leader, note);
}

static enum gs_code write_tables(struct ss_worker *w, struct ss_item *item,
				 const struct lnx_task *leader, gva_t mm, enum gs_code cut)
{
	const struct ss_try *t = &w->e->t;
	struct tables x = { .w = w, .mask = mask_of(t->request) };
	int last = 3;
	enum gs_code rc = cut;

	if (!rc && (rc = lnx_mm_half(&w->v, mm, t->regs, w->e->s->g->vcpu_count, &x.half))) {
		note_missing(w, item, leader,
			     (struct ss_note){ .what = SS_MISSING_PAGE_TABLES,
					       .why = SS_WHY_PAGE_DIRECTORY,
					       .address = mm.a,
					       .b = rc });
		return GS_OK;
	}
	while (last > -1 && !is_selected(x.mask, last))
		last--;
	a64_tables_begin(&x.walk, &x.half, w->v.g, last);
	while (!rc && x.looked_at < TABLES_MAX)
		rc = next_table(&x);
	if (rc == GS_ENOENT)
		rc = GS_OK;
	note_tables(w, item, leader, &x, rc);
	return rc;
}

enum gs_code ss_write_memory(struct ss_worker *w, struct ss_item *item,
			     const struct lnx_task *leader, gva_t mm, enum gs_code cut)
{
	const uint64_t flags = w->e->t.honoured;

	if (mm.a && (flags & KCD_SS_REQ_ASID))
		cut = write_asid(w, item, leader, mm, cut);
	if (mm.a && (flags & KCD_SS_REQ_PAGE_TABLES))
		cut = write_tables(w, item, leader, mm, cut);
	return cut;
}
