/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed buffers. Whatever the bytes are: not more comes out than the limit allows, in pieces and
 * in one buffer the same; what is plain comes back as it was from every algorithm, in runs and item by
 * item; a full output is noticed before it is written to.
 */
#include <string.h>

#include "kcdata/compress.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT ((uint64_t)1 << 20)

static const struct kcd_inflate_limits limits = { .totalin_max = LIMIT, .window_log_max = 20 };

struct compare {
	const uint8_t *data;
	size_t len;
	size_t at;
};

static bool is_same(void *arg, const void *piece, size_t len)
{
	struct compare *c = arg;

	HOLDS(len <= c->len - c->at);
	HOLDS(!memcmp(c->data + c->at, piece, len));
	c->at += len;
	return true;
}

/* Both ways of reading a compressed buffer. @return the plain stream, or NULL */
static uint8_t *inflate_both(const uint8_t *data, size_t size, size_t *len_out)
{
	struct kcd_error err = { .code = KCD_OK };
	uint8_t *salvaged, *plain;
	size_t salvaged_len;
	enum kcd_code saved = kcd_inflate(data, size, &limits, KCD_INFLATE_SALVAGE, &salvaged,
					  &salvaged_len, NULL);
	enum kcd_code rc = kcd_inflate(data, size, &limits, 0, &plain, len_out, &err);

	HOLDS((rc == KCD_OK) == (saved == KCD_OK));
	HOLDS(rc == KCD_OK || (!plain && err.code == rc && err.offset <= size));
	if (salvaged) {
		struct compare c = { salvaged, salvaged_len, 0 };

		HOLDS(kcd_inflate_stream(data, size, &limits, KCD_INFLATE_SALVAGE, is_same, &c,
					 NULL) == saved);
		HOLDS(c.at == c.len);
		HOLDS(salvaged_len <= LIMIT + 2 * KCD_HEADER_SIZE + size);
	}
	if (plain) {
		uint8_t *strict;
		size_t strict_len;

		HOLDS(*len_out == salvaged_len && !memcmp(plain, salvaged, salvaged_len));
		if (!kcd_inflate(data, size, &limits, KCD_INFLATE_STRICT, &strict, &strict_len,
				 NULL))
			HOLDS(strict_len == salvaged_len && !memcmp(plain, strict, strict_len));
		free(strict);
	}
	free(salvaged);
	return plain;
}

/* What the stream is after it went through the wrapper: BEGIN and END have standard flags. */
static void check_plain(const uint8_t *got, size_t got_len, const uint8_t *data, size_t size)
{
	size_t h = KCD_HEADER_SIZE;

	HOLDS(got_len >= 2 * h && got_len <= size);
	HOLDS(!memcmp(got, data, 8));
	struct kcd_reader r;
	struct kcd_item it;
	HOLDS(!kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL));
	while (!kcd_reader_next(&r, &it))
		;
	HOLDS(r.status == KCD_DONE && got_len >= r.pos);
	HOLDS(!memcmp(got + h, data + h, r.pos - 2 * h + 8));
	for (size_t i = r.pos; i < got_len; i++)
		HOLDS(got[i] == 0 && data[i] == 0);
}

static void compress_and_back(const uint8_t *data, size_t size, const struct kcd_compression *how,
			      size_t run)
{
	struct kcd_buffer out = { .size = 4 * size + 4096 };
	struct kcd_compressed result;
	struct kcd_error err;

	out.data = malloc(out.size);
	HOLDS(out.data);
	struct kcd_output to = kcd_buffer_output(&out);
	enum kcd_code rc = kcd_compress_stream(data, size, how, run, &to, &result, &err);
	HOLDS(rc != KCD_EIO);
	if (rc == KCD_OK) {
		HOLDS(result.written == out.used);
		if (how->algorithm == KCD_COMPRESS_NONE) {
			check_plain(out.data, out.used, data, size);
		} else if (result.totalin <= LIMIT) {
			uint8_t *plain;
			size_t len;

			HOLDS(kcd_inflate(out.data, out.used, &limits, KCD_INFLATE_STRICT, &plain,
					  &len, &err) == KCD_OK);
			check_plain(plain, len, data, size);
			free(plain);
		}
		// half of the room: refused, never written behind the end
		uint8_t *small = malloc(out.used / 2);
		struct kcd_buffer half = { small, out.used / 2, 0 };
		HOLDS(small);
		to = kcd_buffer_output(&half);
		HOLDS(kcd_compress_stream(data, size, how, run, &to, NULL, NULL) == KCD_ENOSPC);
		free(small);
	}
	free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kcd_compression how[] = { { KCD_COMPRESS_NONE, 0 },
						      { KCD_COMPRESS_ZLIB, 0 },
						      { KCD_COMPRESS_ZSTD, 1 } };
	size_t plain_len;
	uint8_t *plain = inflate_both(data, size, &plain_len);
	const uint8_t *again = plain ? plain : data;
	size_t len = plain ? plain_len : size;

	if (len <= 65536) {
		for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
			compress_and_back(again, len, &how[i], 0);
			compress_and_back(again, len, &how[i], KCD_RUN_ITEM);
		}
	}
	free(plain);
	return 0;
}
