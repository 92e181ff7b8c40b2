/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a buffer together with the buffers nested in it. */
#include "kcdata/walk.h"

#include <stdio.h>
#include <stdlib.h>

struct walk {
	const uint8_t *buf;
	const struct kcd_walk_how *how;
	kcd_step_fn step;
	void *arg;
	struct kcd_error *err;
	struct kcd_error reader_err;
	struct kcd_reader reader[KCD_NEST_MAX];
	uint32_t nest;	/* readers in use */
	uint32_t level; /* buffers and containers open */
};

static struct kcd_reader *innermost(struct walk *w)
{
	return &w->reader[w->nest - 1];
}

/* Offset of the current reader's buffer in the outermost one. */
static size_t base(struct walk *w)
{
	return (size_t)(innermost(w)->buf - w->buf);
}

static void pass_finding(void *arg, const struct kcd_error *finding)
{
	struct walk *w = arg;
	struct kcd_error e = *finding;

	e.offset += base(w);
	w->how->finding(w->how->finding_arg, &e);
}

static enum kcd_code refuse(struct walk *w, const struct kcd_item *it, enum kcd_code code,
			    enum kcd_finding finding, const char *why)
{
	if (w->err) {
		*w->err = (struct kcd_error){
			.code = code,
			.finding = finding,
			.offset = it->offset,
			.record = it->record,
			.type = it->raw_type,
		};
		(void)snprintf(w->err->reason, sizeof(w->err->reason), "%s", why);
	}
	return code;
}

/* A reader has been started on a buffer. */
static enum kcd_code begin_buffer(struct walk *w, size_t at)
{
	if (w->how->finding)
		kcd_reader_on_finding(&w->reader[w->nest], pass_finding, w);
	w->nest++;
	w->level++;

	struct kcd_step step = {
		.kind = KCD_STEP_BUFFER,
		.at = at,
		.next = base(w) + innermost(w)->pos,
		.magic = innermost(w)->magic,
		.level = w->level - 1,
	};
	return w->step(w->arg, &step);
}

static enum kcd_code end_buffer(struct walk *w)
{
	struct kcd_step step = {
		.kind = KCD_STEP_BUFFER_END,
		.at = base(w) + innermost(w)->pos,
		.magic = innermost(w)->magic,
		.level = w->level - 1,
	};

	w->nest--;
	w->level--;
	// what follows a nested buffer is what follows the record that it is
	step.next = w->nest ? base(w) + innermost(w)->pos : step.at;
	return w->step(w->arg, &step);
}

/* A record that is a buffer: read on inside of it. */
static enum kcd_code enter_nested(struct walk *w, const struct kcd_item *it)
{
	struct kcd_error err = { .code = KCD_OK };

	if (w->nest == KCD_NEST_MAX || w->level == KCD_LEVELS_MAX)
		return refuse(w, it, KCD_ETOOBIG, KCD_FIND_TOO_DEEP,
			      "too many buffers in each other");
	struct kcd_reader *r = &w->reader[w->nest];
	if (kcd_reader_init(r, it->data, it->size, w->how->mode, &err))
		return refuse(w, it, KCD_EMALFORMED, KCD_FIND_NESTED,
			      err.code == KCD_ECOMPRESSED ? "the nested buffer is compressed"
							  : "the nested buffer is none");
	r->err = &w->reader_err;
	return begin_buffer(w, (size_t)(it->data - w->buf));
}

static enum kcd_code take_item(struct walk *w, struct kcd_item *it)
{
	it->offset += base(w);

	bool opens = it->kind == KCD_ITEM_CONTAINER_BEGIN;
	if (opens && w->level == KCD_LEVELS_MAX)
		return refuse(w, it, KCD_ETOOBIG, KCD_FIND_TOO_DEEP,
			      "too many containers and buffers in each other");
	if (it->kind == KCD_ITEM_CONTAINER_END)
		w->level--;

	struct kcd_step step = {
		.kind = KCD_STEP_ITEM,
		.item = it,
		.at = it->offset,
		.next = base(w) + innermost(w)->pos,
		.magic = innermost(w)->magic,
		.level = w->level,
	};
	enum kcd_code rc = w->step(w->arg, &step);
	if (rc)
		return rc;
	if (opens)
		w->level++;
	if (it->kind == KCD_ITEM_RECORD && it->type == KCD_TYPE_NESTED_KCDATA)
		return enter_nested(w, it);
	return KCD_OK;
}

static enum kcd_code walk_items(struct walk *w)
{
	enum kcd_code rc = KCD_OK;

	while (!rc && w->nest) {
		struct kcd_item it;

		rc = kcd_reader_next(innermost(w), &it);
		if (rc == KCD_DONE) {
			rc = end_buffer(w);
		} else if (!rc) {
			rc = take_item(w, &it);
		} else if (w->err) {
			*w->err = w->reader_err;
			w->err->offset += base(w);
		}
	}
	return rc;
}

enum kcd_code kcd_walk(const void *buf, size_t len, const struct kcd_walk_how *how,
		       kcd_step_fn step, void *arg, size_t *stop_out, struct kcd_error *err)
{
	struct walk *w = calloc(1, sizeof(*w));

	if (stop_out)
		*stop_out = 0;
	if (!w) {
		if (err)
			*err = (struct kcd_error){ .code = KCD_ENOMEM, .reason = "out of memory" };
		return KCD_ENOMEM;
	}
	w->buf = buf;
	w->how = how;
	w->step = step;
	w->arg = arg;
	w->err = err;
	enum kcd_code rc = kcd_reader_init(&w->reader[0], buf, len, how->mode, err);
	if (!rc) {
		w->reader[0].err = &w->reader_err;
		rc = begin_buffer(w, 0);
		if (!rc)
			rc = walk_items(w);
		if (stop_out)
			*stop_out = w->nest ? base(w) + innermost(w)->pos : w->reader[0].pos;
	}
	free(w);
	return rc;
}
