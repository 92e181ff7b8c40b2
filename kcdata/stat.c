/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what a buffer is made of. */
#include "kcdata/stat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/dict.h"
#include "kcdata/walk.h"

/* A row for every type that a hostile file can have would be a row a record. */
#define ROWS_MAX 4096u

struct count {
	struct kcd_stat *stat;
	struct kcd_definitions defs;
	struct kcd_dict dict; /* from code and kind to a row: the entry's index */
	uint32_t nested;      /* buffers that are records around this item */
};

static enum kcd_code add_row(struct kcd_stat *s, uint32_t code, bool container)
{
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 64;
		struct kcd_stat_row *p = realloc(s->rows, room * sizeof(*p));
		if (!p)
			return KCD_ENOMEM;
		s->rows = p;
		s->room = room;
	}
	s->rows[s->count] = (struct kcd_stat_row){ .code = code, .container = container };
	// the last row is the sum of the types for which there is none any more
	if (++s->count == ROWS_MAX)
		(void)snprintf(s->rows[ROWS_MAX - 1].name, sizeof(s->rows->name), "(other types)");
	return KCD_OK;
}

static enum kcd_code find_row(struct count *c, uint32_t code, bool container,
			      struct kcd_stat_row **row_out)
{
	struct kcd_stat *s = c->stat;
	char key[8] = { 0 };
	uint32_t index;
	bool fresh;

	memcpy(key, &code, sizeof(code));
	key[4] = container;
	enum kcd_code rc = kcd_dict_entry(&c->dict, key, sizeof(key), &index, &fresh);
	if (!rc && fresh && s->count < ROWS_MAX)
		rc = add_row(s, code, container);
	if (rc)
		return rc;
	*row_out = &s->rows[index < ROWS_MAX ? index : ROWS_MAX - 1];
	return KCD_OK;
}

static void name_row(struct count *c, struct kcd_stat_row *row)
{
	const struct kcd_type *t = kcd_schema_find_in(&c->defs.schema, row->code);

	if (row->name[0])
		return;
	if (t)
		(void)snprintf(row->name, sizeof(row->name), "%s", t->name);
	else
		(void)snprintf(row->name, sizeof(row->name), "type 0x%x", (unsigned int)row->code);
}

static enum kcd_code count_item(struct count *c, const struct kcd_item *it)
{
	bool container = it->kind == KCD_ITEM_CONTAINER_BEGIN || it->kind == KCD_ITEM_CONTAINER_END;
	struct kcd_stat_row *row;
	enum kcd_code rc =
		find_row(c, container ? it->container_type : it->elem_type, container, &row);

	if (rc)
		return rc;
	if (it->kind == KCD_ITEM_TYPEDEF)
		(void)!kcd_definitions_add(&c->defs, it, NULL, NULL); // one refused has no name
	c->stat->records++;
	row->records += it->kind != KCD_ITEM_CONTAINER_END;
	row->elements += container ? 0 : it->count;
	row->bytes += KCD_HEADER_SIZE + it->raw_size;
	if (it->kind == KCD_ITEM_CONTAINER_BEGIN && it->depth + 1 > c->stat->depth)
		c->stat->depth = it->depth + 1;
	return KCD_OK;
}

static enum kcd_code count_step(void *arg, const struct kcd_step *step)
{
	struct count *c = arg;

	switch (step->kind) {
	case KCD_STEP_BUFFER:
		if (step->level)
			c->nested++;
		else
			c->stat->magic = step->magic;
		break;
	case KCD_STEP_BUFFER_END: c->nested -= step->level > 0; break;
	case KCD_STEP_ITEM:
		// what is in a nested buffer counts as its record
		if (!c->nested)
			return count_item(c, step->item);
	}
	return KCD_OK;
}

static int by_bytes(const void *a, const void *b)
{
	const struct kcd_stat_row *x = a;
	const struct kcd_stat_row *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->code < y->code ? -1 : x->code > y->code;
}

enum kcd_code kcd_stat_collect(const void *buf, size_t len, const struct kcd_schema *extra,
			       struct kcd_stat *stat_out, struct kcd_error *err)
{
	const struct kcd_walk_how how = { .mode = KCD_TOLERANT };
	struct count *c = calloc(1, sizeof(*c));
	size_t stop;

	*stat_out = (struct kcd_stat){ .rows = NULL };
	if (err)
		*err = (struct kcd_error){ .code = KCD_ENOMEM, .reason = "out of memory" };
	if (!c)
		return KCD_ENOMEM;
	c->stat = stat_out;
	kcd_definitions_init(&c->defs, extra);
	kcd_dict_init(&c->dict);
	enum kcd_code rc = kcd_dict_push(&c->dict);
	if (!rc) {
		rc = kcd_walk(buf, len, &how, count_step, c, &stop, err);
		stat_out->bytes = stop;
	}
	for (size_t i = 0; i < stat_out->count; i++)
		name_row(c, &stat_out->rows[i]);
	if (stat_out->count)
		qsort(stat_out->rows, stat_out->count, sizeof(*stat_out->rows), by_bytes);
	kcd_dict_deinit(&c->dict);
	free(c);
	return rc;
}

void kcd_stat_deinit(struct kcd_stat *stat)
{
	free(stat->rows);
}
