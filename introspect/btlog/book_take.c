/* SPDX-License-Identifier: Apache-2.0 */
/* From a log into a book. */
#include "introspect/btlog/book_priv.h"
#include "introspect/btlog/log_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"

/* A stack of the log and its index in the book. */
struct taken {
	uint32_t ref;
	uint32_t stack;
};

/* An address of the stacks and its index among the book's frames. */
struct place {
	uint64_t frame;
	uint32_t index;
};

struct take {
	struct btl_book *book;
	struct btl_library *lib;
	btl_name_fn name;
	void *arg;
	struct btl_record *record;
	uint32_t records;
	struct taken *stack; /* ascending references */
	uint32_t stacks;
	struct place *place; /* ascending frames */
	uint32_t places;
};

static int compare_taken(const void *a, const void *b)
{
	const struct taken *x = a, *y = b;

	return (x->ref > y->ref) - (x->ref < y->ref);
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->frame > y->frame) - (x->frame < y->frame);
}

static bool find_stacks(struct take *t)
{
	t->stack = gs_array_alloc(t->records, sizeof(*t->stack));
	if (!t->stack)
		return false;
	for (uint32_t i = 0; i < t->records; i++)
		t->stack[i].ref = t->record[i].ref & ~BTL_REF_PERMANENT;
	qsort(t->stack, t->records, sizeof(*t->stack), compare_taken);
	for (uint32_t i = 0; i < t->records; i++)
		if (!i || t->stack[i].ref != t->stack[t->stacks - 1].ref)
			t->stack[t->stacks++] = t->stack[i];
	return true;
}

/* The records hold references, so this cannot fail. */
static struct btl_stack stack_at(const struct take *t, uint32_t i)
{
	struct btl_stack stack;

	btl_entry_unpack(t->lib, btl_entry_of(t->lib, t->stack[i].ref), &stack);
	return stack;
}

static bool find_places(struct take *t)
{
	size_t room;

	if (!gs_mul((size_t)t->stacks, BTL_FRAMES_MAX, &room))
		return false;
	t->place = gs_array_alloc(room, sizeof(*t->place));
	if (!t->place)
		return false;
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->stacks; i++) {
		struct btl_stack stack = stack_at(t, i);

		for (uint32_t k = 0; k < stack.count; k++)
			t->place[n++].frame = stack.frame[k];
	}
	if (n)
		qsort(t->place, n, sizeof(*t->place), compare_places);
	for (uint32_t i = 0; i < n; i++)
		if (!i || t->place[i].frame != t->place[t->places - 1].frame)
			t->place[t->places++] = t->place[i];
	return true;
}

/* The function of an address, in @p found as long as addresses lie in it: they ascend. */
static bool name_frame(struct take *t, uint64_t frame, struct btl_name *found)
{
	uint64_t code = btl_frame_code(frame);

	if (found->size && code - found->start < found->size)
		return true;
	memset(found, 0, sizeof(*found));
	if (!t->name(t->arg, code, found) || code < found->start ||
	    btl_frame_address(frame) - found->start > UINT32_MAX) {
		found->size = 0;
		return false;
	}
	found->name[sizeof(found->name) - 1] = '\0';
	found->module[sizeof(found->module) - 1] = '\0';
	return true;
}

static uint32_t add_symbol(struct take *t, struct btl_name *found)
{
	const bool is_of_module = found->module[0];
	const struct btl_symbol s = {
		.start = found->start,
		.size = found->size,
		.flags = found->flags,
		.module = is_of_module ? btl_book_module(t->book, found->module) : BTL_NONE,
		.name = found->name,
	};

	return is_of_module && s.module == BTL_NONE ? BTL_NONE : btl_book_symbol(t->book, &s);
}

static bool add_frames(struct take *t, struct btl_name *found)
{
	for (uint32_t i = 0; i < t->places; i++) {
		struct btl_frame_record f = { t->place[i].frame, BTL_NONE, 0 };

		if (t->name && !btl_frame_is_pseudo(f.frame) && name_frame(t, f.frame, found)) {
			f.symbol = add_symbol(t, found);
			if (f.symbol == BTL_NONE)
				return false;
			f.offset = (uint32_t)(btl_frame_address(f.frame) - found->start);
		}
		t->place[i].index = btl_book_frame(t->book, &f);
		if (t->place[i].index == BTL_NONE)
			return false;
	}
	return true;
}

static bool add_stacks(struct take *t)
{
	for (uint32_t i = 0; i < t->stacks; i++) {
		struct btl_stack stack = stack_at(t, i);
		struct btl_stack_record r = { .flags = stack.cut ? BTL_STACK_CUT : 0,
					      .count = stack.count };

		for (uint32_t k = 0; k < stack.count; k++) {
			const struct place *p =
				bsearch(&(struct place){ stack.frame[k], 0 }, t->place, t->places,
					sizeof(*t->place), compare_places);
			r.frame[k] = p->index;
		}
		t->stack[i].stack = btl_book_stack(t->book, &r);
		if (t->stack[i].stack == BTL_NONE)
			return false;
	}
	return true;
}

static bool add_ops(struct take *t, const struct btl_log *log, uint32_t index)
{
	uint64_t met = 0;

	for (uint32_t i = 0; i < t->records; i++)
		met |= UINT64_C(1) << t->record[i].op;
	for (uint32_t op = 0; op < BTL_OPS; op++) {
		struct btl_op_record r = { .log = index, .op = op };
		const char *name = log->op_name(op);

		if (!(met >> op & 1) || !name)
			continue;
		snprintf(r.name, sizeof(r.name), "%s", name);
		if (!btl_book_add_op(t->book, &r))
			return false;
	}
	return true;
}

/* The clocks are read once, so that the distances of records stay what they were. */
static bool add_entries(struct take *t, uint32_t log, uint64_t now_us, uint64_t now_ns)
{
	for (uint32_t i = 0; i < t->records; i++) {
		const struct btl_record *r = &t->record[i];
		const struct taken *s =
			bsearch(&(struct taken){ r->ref & ~BTL_REF_PERMANENT, 0 }, t->stack,
				t->stacks, sizeof(*t->stack), compare_taken);
		uint64_t ago = now_ns > r->time_ns ? (now_ns - r->time_ns) / 1000 : 0;
		struct btl_entry_record e = { .time_us = now_us > ago ? now_us - ago : 0,
					      .element = r->element,
					      .log = log,
					      .stack = s->stack,
					      .op = r->op };

		if (!btl_book_add_entry(t->book, &e))
			return false;
	}
	return true;
}

static bool add_log(struct take *t, struct btl_log *log, uint32_t kernel)
{
	uint64_t now_ns = gs_clock_ns(), now_us = gs_clock_wall_us();
	struct btl_library_stats lib;
	struct btl_log_stats s;

	btl_library_stats_get(t->lib, &lib);
	btl_log_stats_get(log, &s);
	struct btl_log_record r = {
		.kernel = kernel,
		.kind = s.kind,
		.capacity = s.capacity,
		.sample = s.sample,
		.from_us = now_us - (now_ns - s.enabled_at_ns) / 1000,
		.to_us = now_us,
		.recorded = s.recorded,
		.overwritten = s.overwritten,
		.erased = s.erased,
		.dropped = s.dropped,
		.skipped = s.skipped,
		.lost = lib.lost,
	};
	memcpy(r.name, s.name, sizeof(r.name));
	uint32_t index = t->book->logs;
	return btl_book_add_log(t->book, &r) && add_ops(t, log, index) &&
	       add_entries(t, index, now_us, now_ns);
}

static enum gs_code make_kernel(const struct btl_book *book, const struct btl_kernel *kernel,
				uint64_t text, struct btl_kernel_record *out, struct gs_error *err)
{
	*out = (struct btl_kernel_record){ .text = text };
	if (kernel->build_id_len > sizeof(out->build_id))
		return gs_fail(err, GS_EINVAL, "a build id of %u bytes", kernel->build_id_len);
	out->build_id_len = kernel->build_id_len;
	if (out->build_id_len)
		memcpy(out->build_id, kernel->build_id, out->build_id_len);
	snprintf(out->banner, sizeof(out->banner), "%s", kernel->banner ? kernel->banner : "");
	if (book->flags & BTL_BOOK_BY_NAME || book->kernels > 1 ||
	    (book->kernels == 1 && memcmp(&book->kernel[0], out, sizeof(*out)) != 0))
		return gs_fail(err, GS_EINVAL, "the book has stacks of another kernel");
	return GS_OK;
}

static bool add_all(struct take *t, struct btl_log *log, const struct btl_kernel_record *kernel)
{
	struct btl_book *book = t->book;
	uint32_t logs = book->logs, ops = book->ops, entries = book->entries;
	struct btl_name *found = gs_array_alloc(1, sizeof(*found));
	bool ok =
		found && find_stacks(t) && find_places(t) && add_frames(t, found) && add_stacks(t);
	uint32_t k = ok ? btl_book_kernel(book, kernel) : BTL_NONE;

	ok = k != BTL_NONE && add_log(t, log, k);
	if (!ok) {
		book->logs = logs;
		book->ops = ops;
		book->entries = entries;
	}
	free(found);
	free(t->place);
	free(t->stack);
	return ok;
}

enum gs_code btl_book_take(struct btl_book *book, struct btl_log *log,
			   const struct btl_kernel *kernel, btl_name_fn name, void *arg,
			   struct gs_error *err)
{
	struct take t = { .book = book, .lib = log->lib, .name = name, .arg = arg };
	struct btl_kernel_record k;
	enum gs_code rc = make_kernel(book, kernel, log->lib->base, &k, err);

	if (!rc)
		rc = btl_log_records(log, &t.record, &t.records, err);
	if (rc)
		return rc;
	bool ok = add_all(&t, log, &k);
	btl_records_release(log, t.record, t.records);
	return ok ? GS_OK : btl_book_no_memory(err);
}
