/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader and what walks with it. Whatever the bytes are: items lie in the buffer and move on; what
 * a strict reader takes a tolerant one takes; writing the items again gives the same bytes; text has
 * nothing in it that a terminal acts on.
 */
#include <string.h>

#include "kcdata/kcdata.h"
#include "kcdata/stat.h"
#include "kcdata/text.h"
#include "kcdata/validate.h"
#include "tests/fuzz/fuzz.h"

/* Findings after which items cannot be written again as they were. */
static void note_loss(void *arg, const struct kcd_error *e)
{
	bool *lossy = arg;

	HOLDS(e->finding != KCD_FIND_NONE);
	HOLDS(memchr(e->reason, 0, sizeof(e->reason)));
	if (e->finding == KCD_FIND_CONTAINER_STRAY || e->finding == KCD_FIND_MAGIC_INSIDE)
		*lossy = true;
}

static void check_item(const struct kcd_item *it, const uint8_t *data, size_t size, size_t last)
{
	HOLDS(it->offset >= last);
	HOLDS(it->offset <= size && size - it->offset >= KCD_HEADER_SIZE);
	HOLDS(it->data == data + it->offset + KCD_HEADER_SIZE);
	HOLDS(it->raw_size <= size - it->offset - KCD_HEADER_SIZE);
	HOLDS(it->size <= it->raw_size);
	HOLDS(it->depth <= KCD_DEPTH_MAX);
	HOLDS((uint64_t)it->count * it->elem_size <= it->raw_size);
	if (it->kind == KCD_ITEM_ARRAY && it->count)
		HOLDS(it->elem_size > 0);

	uint8_t copy[64];
	HOLDS(kcd_item_copy(it, copy, sizeof(copy)) <= sizeof(copy));
	if (it->count)
		HOLDS(kcd_item_copy_elem(it, it->count - 1, copy, sizeof(copy)) <= it->elem_size);
	const char *name;
	uint64_t value;
	if (kcd_item_value(it, &name, &value))
		HOLDS(strlen(name) < KCD_NAME_SIZE);
}

static enum kcd_code read_all(const uint8_t *data, size_t size, enum kcd_mode mode, size_t *end_out)
{
	struct kcd_reader r;
	struct kcd_error err = { .code = KCD_OK };
	struct kcd_item it;
	size_t last = 0;
	enum kcd_code rc = kcd_reader_init(&r, data, size, mode, &err);

	while (!rc && !(rc = kcd_reader_next(&r, &it))) {
		check_item(&it, data, size, last);
		last = it.offset + KCD_HEADER_SIZE;
	}
	if (rc != KCD_DONE) {
		HOLDS(err.code == rc && err.offset <= size);
		HOLDS(kcd_reader_next(&r, &it) == rc);
	}
	*end_out = r.pos;
	HOLDS(r.pos <= size);
	return rc;
}

/* Items written again are the same bytes. */
static void write_again(const uint8_t *data, size_t size, size_t end)
{
	struct kcd_header begin, last;
	struct kcd_reader r;
	struct kcd_item it;
	struct kcd_writer w;
	bool lossy = false;

	memcpy(&begin, data, sizeof(begin));
	memcpy(&last, data + end - sizeof(last), sizeof(last));
	if (begin.size || last.type != KCD_MAGIC_END || last.size || last.flags)
		return;
	if (begin.flags != 0 && begin.flags != KCD_FLAG_HAS_PADDING)
		return;

	uint8_t *out = malloc(end);
	HOLDS(out);
	HOLDS(!kcd_writer_init(&w, out, end, begin.type, begin.flags ? 0 : KCD_WRITER_OLD_BEGIN));
	HOLDS(!kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL));
	kcd_reader_on_finding(&r, note_loss, &lossy);
	while (!kcd_reader_next(&r, &it) && !lossy)
		HOLDS(!kcd_append_item(&w, &it));
	if (!lossy) {
		HOLDS(kcd_writer_used(&w) == end);
		HOLDS(!memcmp(out, data, end));
	}
	free(out);
}

static bool is_harmless(void *arg, const void *text, size_t len)
{
	const char *c = text;

	*(size_t *)arg += len;
	for (size_t i = 0; i < len; i++)
		HOLDS(c[i] == '\n' || (c[i] >= 0x20 && c[i] < 0x7f));
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct kcd_inflate_limits limits = { .totalin_max = 1 << 20, .window_log_max = 20 };
	struct kcd_verdict v;
	struct kcd_stat stat;
	size_t end, strict_end, text = 0;
	enum kcd_code rc = read_all(data, size, KCD_TOLERANT, &end);
	enum kcd_code strict = read_all(data, size, KCD_STRICT, &strict_end);

	if (strict == KCD_DONE)
		HOLDS(rc == KCD_DONE && strict_end == end);
	if (rc == KCD_DONE)
		write_again(data, size, end);

	HOLDS(!kcd_validate(data, size, &limits, NULL, NULL, &v));
	HOLDS(v.errors <= v.findings);
	if (rc != KCD_ECOMPRESSED) {
		if (!v.findings)
			HOLDS(strict == KCD_DONE && v.whole);
		if (rc != KCD_DONE)
			HOLDS(v.errors && !v.whole);
	}

	enum kcd_code dumped =
		kcd_text_dump(data, size, KCD_TOLERANT, NULL, is_harmless, &text, NULL);
	HOLDS(dumped != KCD_EIO);
	if (dumped == KCD_OK)
		HOLDS(rc == KCD_DONE && text > 0);

	enum kcd_code counted = kcd_stat_collect(data, size, NULL, &stat, NULL);
	HOLDS(counted == dumped);
	if (counted == KCD_OK)
		HOLDS(stat.bytes == end);
	kcd_stat_deinit(&stat);
	return 0;
}
