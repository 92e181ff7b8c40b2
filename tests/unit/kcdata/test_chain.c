/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that continue from piece to piece. */
#include <stdlib.h>
#include <string.h>

#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/kcdata/suites.h"

#define PIECES 64

/* Pieces of a given size; every piece is its own allocation, so that a sanitizer sees its ends. */
struct pool {
	size_t size; /* of each piece, unless more is needed */
	unsigned given;
	unsigned fail_at; /* which request fails; 0: none */
	unsigned back;
	bool shrink;
	struct kcd_chunk piece[PIECES];
};

static struct pool p;
static struct kcd_writer w;

static struct kcd_chunk *new_piece(size_t min_size)
{
	if (++p.given == p.fail_at)
		return NULL;
	ck_assert_uint_lt(p.given, PIECES);

	struct kcd_chunk *c = &p.piece[p.given - 1];
	c->size = min_size > p.size ? min_size : p.size;
	c->buf = malloc(c->size);
	ck_assert_ptr_nonnull(c->buf);
	memset(c->buf, 0xa5, c->size);
	return c;
}

static struct kcd_chunk *more(void *arg, struct kcd_chunk *full, size_t keep, size_t min_size)
{
	ck_assert_ptr_eq(arg, &p);
	ck_assert_uint_le(full->used + KCD_HEADER_SIZE, keep);
	ck_assert_uint_le(keep, full->size);
	struct kcd_chunk *c = new_piece(min_size);
	if (c && p.shrink) {
		full->buf = realloc(full->buf, keep);
		full->size = keep;
	}
	return c;
}

static void less(void *arg, struct kcd_chunk *chunk)
{
	ck_assert_ptr_eq(arg, &p);
	p.back++;
	free(chunk->buf);
	chunk->buf = NULL;
}

static void free_pool(void)
{
	for (size_t i = 0; i < PIECES; i++)
		free(p.piece[i].buf);
	memset(&p, 0, sizeof(p));
}

/* A small stream with everything that moves from piece to piece. @return the first failure */
static enum kcd_code write_stream(void)
{
	uint64_t lr[7] = { 1, 2, 3, 4, 5, 6, 7 };
	enum kcd_code rc = kcd_append_u64(&w, "stackshot_in_flags", 1);

	for (uint64_t task = 0; task < 3 && !rc; task++) {
		rc = kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, task);
		for (uint64_t thread = 0; thread < 3 && !rc; thread++) {
			rc = kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, thread);
			if (!rc)
				rc = kcd_append(&w, KCD_SS_THREAD_SNAPSHOT, lr, sizeof(lr));
			if (!rc)
				rc = kcd_append_array(&w, KCD_SS_KERN_STACKLR64,
						      (uint32_t)(thread * 3), 8, lr);
			if (!rc)
				rc = kcd_container_end(&w, thread);
		}
		if (!rc)
			rc = kcd_container_end(&w, task);
	}
	return rc;
}

/* The items of all pieces, and an END. @return bytes */
static size_t concatenate(const struct kcd_chunk *c, uint8_t *out, size_t size)
{
	static const uint8_t end[16] = { 0xed, 0x58, 0x91, 0xf1 };
	size_t n = 0;

	for (; c; c = c->next) {
		ck_assert_uint_le(n + c->used + 16, size);
		ck_assert_mem_eq((uint8_t *)c->buf + c->used, end, 16);
		memcpy(out + n, c->buf, c->used);
		n += c->used;
	}
	memcpy(out + n, end, 16);
	return n + 16;
}

/* Start a chain of pieces of @p size bytes; each request from the @p fail_at'th fails. */
static struct kcd_chunk *start(size_t size, bool shrink, unsigned fail_at, uint32_t flags)
{
	p = (struct pool){ .size = size, .shrink = shrink, .fail_at = fail_at };

	struct kcd_chunk *first = new_piece(0);
	ck_assert_int_eq(
		kcd_writer_init_chain(&w, first, KCD_MAGIC_STACKSHOT, flags, more, less, &p),
		KCD_OK);
	return first;
}

START_TEST(pieces_of_any_size_hold_the_same_stream)
{
	static uint8_t whole[8192], joined[8192];
	ck_assert_int_eq(kcd_writer_init(&w, whole, sizeof(whole), KCD_MAGIC_STACKSHOT, 0), KCD_OK);
	ck_assert_int_eq(write_stream(), KCD_OK);
	size_t len = kcd_writer_used(&w);
	for (size_t size = 32; size < 600; size++) {
		struct kcd_chunk *first = start(size, size & 1, 0, 0);

		ck_assert_int_eq(write_stream(), KCD_OK);
		ck_assert_uint_eq(concatenate(first, joined, sizeof(joined)), len);
		ck_assert_mem_eq(joined, whole, len);
		free_pool();
	}
}
END_TEST

START_TEST(a_piece_that_cannot_be_had_leaves_a_stream_that_can_be_closed)
{
	static uint8_t joined[8192];
	enum kcd_code rc = KCD_ENOSPC;

	for (unsigned n = 2; rc; n++) {
		struct kcd_chunk *first = start(128, false, n, 0);
		struct kcd_reader r;
		struct kcd_error err;
		struct kcd_item it;

		rc = write_stream();
		ck_assert(rc == KCD_OK || rc == KCD_ENOSPC);
		while (kcd_writer_depth(&w))
			ck_assert_int_eq(kcd_container_end(&w, w.open_id[w.depth - 1]), KCD_OK);
		size_t len = concatenate(first, joined, sizeof(joined));
		enum kcd_code read = kcd_reader_init(&r, joined, len, KCD_STRICT, &err);
		while (!read)
			read = kcd_reader_next(&r, &it);
		ck_assert_msg(read == KCD_DONE, "%s", err.reason);
		free_pool();
	}
}
END_TEST

START_TEST(only_the_first_piece_has_a_begin_and_a_fragment_has_none)
{
	struct kcd_chunk *first = start(80, false, 0, KCD_WRITER_FRAGMENT);

	ck_assert_int_eq(kcd_append(&w, 0x925, "\1\0\0", 4), KCD_OK);
	ck_assert_int_eq(kcd_append(&w, 0x925, "\2\0\0", 4), KCD_OK);
	ck_assert_int_eq(kcd_append(&w, 0x925, "\3\0\0", 4), KCD_OK);
	assert_bytes(first->buf, first->used + 16,
		     "25090000 10000000 8c000000 00000000 01 ~"
		     "25090000 10000000 8c000000 00000000 02 ~"
		     "ed5891f1 ~");
	ck_assert_ptr_nonnull(first->next);
	assert_bytes(first->next->buf, first->next->used + 16,
		     "25090000 10000000 8c000000 00000000 03 ~ ed5891f1 ~");
	ck_assert_ptr_null(first->next->next);
	free_pool();
}
END_TEST

START_TEST(rewinding_over_pieces_gives_them_back)
{
	static uint8_t before[8192], after[8192];

	for (size_t size = 32; size < 300; size++) {
		struct kcd_chunk *first = start(size, size & 1, 0, 0);

		ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1), KCD_OK);
		struct kcd_mark mark = kcd_writer_mark(&w);
		unsigned had = p.given;
		size_t len = concatenate(first, before, sizeof(before));

		ck_assert_int_eq(kcd_append(&w, 0x905, before, 16), KCD_OK);
		ck_assert_int_eq(write_stream(), KCD_OK);
		ck_assert_int_eq(kcd_writer_rewind(&w, mark), KCD_OK);
		ck_assert_uint_eq(p.given - p.back, had);
		ck_assert_uint_eq(concatenate(first, after, sizeof(after)), len);
		ck_assert_mem_eq(before, after, len);
		ck_assert_int_eq(kcd_container_end(&w, 1), KCD_OK);
		free_pool();
	}
}
END_TEST

START_TEST(a_chain_of_fragments_is_spliced_into_a_stream)
{
	static uint8_t whole[8192], spliced[8192];
	struct kcd_writer out;

	ck_assert_int_eq(kcd_writer_init(&w, whole, sizeof(whole), KCD_MAGIC_STACKSHOT, 0), KCD_OK);
	ck_assert_int_eq(write_stream(), KCD_OK);
	size_t len = kcd_writer_used(&w);

	for (size_t size = 16; size < 400; size += 7) {
		struct kcd_chunk *first = start(size, false, 0, KCD_WRITER_FRAGMENT);
		ck_assert_int_eq(write_stream(), KCD_OK);
		ck_assert_int_eq(kcd_writer_init(&out, spliced, len, KCD_MAGIC_STACKSHOT, 0),
				 KCD_OK);
		ck_assert_int_eq(kcd_append_chain(&out, first), KCD_OK);
		ck_assert_uint_eq(kcd_writer_used(&out), len);
		ck_assert_mem_eq(spliced, whole, len);
		// one byte less: nothing of it
		ck_assert_int_eq(kcd_writer_init(&out, spliced, len - 1, KCD_MAGIC_STACKSHOT, 0),
				 KCD_OK);
		ck_assert_int_eq(kcd_append_chain(&out, first), KCD_ENOSPC);
		ck_assert_uint_eq(kcd_writer_used(&out), 32);
		free_pool();
	}
}
END_TEST

Suite *suite_chain(void)
{
	Suite *s = suite_create("chain");
	TCase *tc = tcase_create("chain");

	tcase_add_test(tc, pieces_of_any_size_hold_the_same_stream);
	tcase_add_test(tc, a_piece_that_cannot_be_had_leaves_a_stream_that_can_be_closed);
	tcase_add_test(tc, only_the_first_piece_has_a_begin_and_a_fragment_has_none);
	tcase_add_test(tc, rewinding_over_pieces_gives_them_back);
	tcase_add_test(tc, a_chain_of_fragments_is_spliced_into_a_stream);
	suite_add_tcase(s, tc);
	return s;
}
