/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed buffers: the wrapper byte by byte, both algorithms, and every way a file can lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "kcdata/compress.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/kcdata/suites.h"

static uint8_t plain[64 << 10];
static size_t plain_len;
static uint8_t packed[128 << 10];
static struct kcd_buffer out;
static struct kcd_output to;
static struct kcd_error err;
static uint8_t *back;
static size_t back_len;

static const struct kcd_compression zlib_how = { KCD_COMPRESS_ZLIB, 0 };
static const struct kcd_compression zstd_how = { KCD_COMPRESS_ZSTD, 0 };

#define OK(call) ck_assert_int_eq((call), KCD_OK)

static void put_items(struct kcd_writer *w, uint32_t threads)
{
	for (uint32_t i = 0; i < threads; i++) {
		struct kcd_thread_snapshot_v4 s = { .ths_thread_id = i, .ths_user_time = i * 977u };
		uint64_t lr[3] = { i, i * 2u, 7 };

		OK(kcd_container_begin(w, KCD_SS_CONTAINER_THREAD, i));
		OK(kcd_append(w, KCD_SS_THREAD_SNAPSHOT, &s, sizeof(s)));
		OK(kcd_append_array(w, KCD_SS_KERN_STACKLR64, 3, 8, lr));
		OK(kcd_container_end(w, i));
	}
	OK(kcd_append_u64(w, "stackshot_out_flags", 0x10000));
}

static void make_plain(uint32_t threads)
{
	struct kcd_writer w;

	OK(kcd_writer_init(&w, plain, sizeof(plain), KCD_MAGIC_STACKSHOT, 0));
	put_items(&w, threads);
	plain_len = kcd_writer_used(&w);
}

static void start_output(size_t size)
{
	out = (struct kcd_buffer){ packed, size, 0 };
	to = kcd_buffer_output(&out);
	free(back);
	back = NULL;
}

static void pack(const struct kcd_compression *how, size_t run)
{
	start_output(sizeof(packed));
	ck_assert_msg(kcd_compress_stream(plain, plain_len, how, run, &to, NULL, &err) == KCD_OK,
		      "%s", err.reason);
}

static enum kcd_code unpack(uint32_t flags)
{
	memset(&err, 0, sizeof(err));
	free(back);
	return kcd_inflate(packed, out.used, NULL, flags, &back, &back_len, &err);
}

static void assert_back(void)
{
	enum kcd_code rc = unpack(KCD_INFLATE_STRICT);

	ck_assert_msg(rc == KCD_OK, "%s: %s", kcd_code_name(rc), err.reason);
	ck_assert_uint_eq(back_len, plain_len);
	ck_assert_int_eq(memcmp(back, plain, plain_len), 0);
}

static uint64_t word(size_t at)
{
	uint64_t v;

	memcpy(&v, packed + at, sizeof(v));
	return v;
}

static void set_word(size_t at, uint64_t v)
{
	memcpy(packed + at, &v, sizeof(v));
}

START_TEST(the_wrapper_has_these_bytes)
{
	make_plain(3);
	pack(&zlib_how, 0);
	uint8_t head[KCD_C_HEADER_SIZE];
	memcpy(head, packed, sizeof(head));
	memset(head + 0x80, 0, 8); // the totals are looked at below
	memset(head + 0xC0, 0, 8);
	assert_bytes(
		head, sizeof(head),
		"504d4f43 00000000 80000000 00000000 "
		"03000000 30000000 88000000 00000000 6b63645f635f7479706500~ 00*16 0100*7 00*8 "
		"03000000 30000000 88000000 00000000 6b63645f635f746f74616c6f757400~ 00*16 00*16 "
		"03000000 30000000 88000000 00000000 6b63645f635f746f74616c696e00~ 00*16 00*16 "
		"0758a259 00000000 80000000 00000000");
	ck_assert_uint_eq(word(0x80), out.used - KCD_C_HEADER_SIZE - KCD_HEADER_SIZE);
	ck_assert_uint_eq(word(0xC0), plain_len - 2 * KCD_HEADER_SIZE);
	assert_bytes(packed + KCD_C_HEADER_SIZE, 2, "480d");
	assert_bytes(packed + out.used - 16, 16, "ed5891f1 00000000 00000000 00000000");
	assert_back();
}
END_TEST

/* What the original does for each item: header, payload, padding; sync, the last one finish. */
static size_t reference_items(uint8_t *to_bytes, size_t room)
{
	z_stream z = { 0 };
	size_t pos = KCD_HEADER_SIZE, end = plain_len - KCD_HEADER_SIZE;

	ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 12, 3, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_out = to_bytes;
	z.avail_out = (uInt)room;
	while (pos < end) {
		struct kcd_header h;

		memcpy(&h, plain + pos, sizeof(h));
		size_t pad = h.type == KCD_TYPE_CONTAINER_BEGIN	       ? 12
			     : h.type == KCD_TYPE_CONTAINER_END	       ? 0
			     : (h.type & ~0xfu) == KCD_TYPE_ARRAY_PAD0 ? h.type & 0xf
								       : h.flags & 0xf;
		size_t part[] = { sizeof(h), h.size - pad, pad };
		bool last = pos + sizeof(h) + h.size == end;
		for (int i = 0; i < 3; i++) {
			bool final = i == 2 || (!part[2] && (i == 1 || !part[1]));
			z.next_in = plain + pos;
			z.avail_in = (uInt)part[i];
			(void)deflate(&z, !final ? Z_NO_FLUSH : last ? Z_FINISH : Z_SYNC_FLUSH);
			pos += part[i];
			if (final)
				break;
		}
	}
	size_t n = room - z.avail_out;
	deflateEnd(&z);
	return n;
}

START_TEST(item_by_item_gives_the_originals_bytes)
{
	static uint8_t want[64 << 10];

	make_plain(20);
	pack(&zlib_how, KCD_RUN_ITEM);
	size_t n = reference_items(want, sizeof(want));
	ck_assert_uint_eq(word(0x80), n);
	ck_assert_int_eq(memcmp(packed + KCD_C_HEADER_SIZE, want, n), 0);
	assert_back();
}
END_TEST

static uint32_t sync_points(void)
{
	static const uint8_t marker[] = { 0, 0, 0xff, 0xff };
	uint32_t n = 0;

	for (size_t i = KCD_C_HEADER_SIZE; i + 4 <= out.used; i++)
		n += !memcmp(packed + i, marker, 4);
	return n;
}

START_TEST(a_window_has_one_sync_point)
{
	struct kcd_compress_params params = { .how = zlib_how, .magic = KCD_MAGIC_STACKSHOT };
	struct kcd_compressor *c;
	size_t half, end;

	make_plain(4);
	end = plain_len - KCD_HEADER_SIZE;
	half = KCD_HEADER_SIZE + 2 * (32 + 144 + 16 + 32 + 16); // two threads
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_compressor_run(c, plain + KCD_HEADER_SIZE, half - KCD_HEADER_SIZE));
	ck_assert_uint_eq(sync_points(), 1);
	kcd_compressor_finalise(c);
	OK(kcd_compressor_run(c, plain + half, end - half));
	ck_assert_uint_eq(sync_points(), 1);
	ck_assert_int_eq(kcd_compressor_run(c, plain + half, end - half), KCD_EINVAL);
	struct kcd_compressed result;
	OK(kcd_compressor_end(c, &result));
	ck_assert_int_eq(kcd_compressor_end(c, NULL), KCD_EINVAL);
	kcd_compressor_destroy(c);
	ck_assert_uint_eq(result.written, out.used);
	ck_assert_uint_eq(result.totalin, end - KCD_HEADER_SIZE);
	assert_back();
}
END_TEST

START_TEST(ending_without_a_last_item_finishes_too)
{
	static const enum kcd_algorithm algorithms[] = { KCD_COMPRESS_ZLIB, KCD_COMPRESS_ZSTD };
	struct kcd_compress_params params = { .how = { algorithms[_i], 0 },
					      .magic = KCD_MAGIC_STACKSHOT };
	struct kcd_compressor *c;

	make_plain(1);
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_compressor_run(c, plain + KCD_HEADER_SIZE, plain_len - 2 * KCD_HEADER_SIZE));
	OK(kcd_compressor_end(c, NULL));
	kcd_compressor_destroy(c);
	assert_back();
}
END_TEST

START_TEST(what_is_flushed_survives_a_cut)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };

	make_plain(5);
	pack(hows[_i], KCD_RUN_ITEM);
	size_t whole = out.used;
	size_t best = 0;
	for (size_t cut = KCD_C_HEADER_SIZE; cut < whole - KCD_HEADER_SIZE; cut++) {
		out.used = cut;
		ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
		ck_assert_ptr_null(back);
		ck_assert_int_eq(unpack(KCD_INFLATE_SALVAGE), KCD_EMALFORMED);
		ck_assert_int_eq(err.finding, KCD_FIND_FRAME);
		ck_assert_uint_ge(back_len, best);
		best = back_len;
		ck_assert_uint_le(back_len, plain_len);
		ck_assert_int_eq(memcmp(back, plain, back_len), 0);
	}
	// all but the last item, whose end is the stream's
	ck_assert_uint_ge(best, plain_len - KCD_HEADER_SIZE - 64);
}
END_TEST

START_TEST(an_interrupted_writer_leaves_what_is_seen_to_be_incomplete)
{
	struct kcd_compress_params params = { .how = zlib_how, .magic = KCD_MAGIC_STACKSHOT };
	struct kcd_compressor *c;

	make_plain(1);
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_compressor_run(c, plain + KCD_HEADER_SIZE, plain_len - 2 * KCD_HEADER_SIZE));
	kcd_compressor_destroy(c);
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
}
END_TEST

START_TEST(zstd_frames_have_size_and_checksum)
{
	make_plain(50);
	pack(&zstd_how, 4096);
	ck_assert_uint_eq(word(0x40), 0x6474737A);
	ck_assert_uint_eq(ZSTD_getFrameContentSize(packed + KCD_C_HEADER_SIZE, word(0x80)),
			  word(0xC0));
	ck_assert_uint_ne(packed[KCD_C_HEADER_SIZE + 4] & 4, 0); // checksum flag
	assert_back();
	packed[out.used - KCD_HEADER_SIZE - 1] ^= 1; // the checksum's last byte
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_DATA);
}
END_TEST

START_TEST(levels_and_runs_all_come_back)
{
	static const struct kcd_compression hows[] = { { KCD_COMPRESS_ZLIB, 0 },
						       { KCD_COMPRESS_ZSTD, 1 },
						       { KCD_COMPRESS_ZSTD, 3 },
						       { KCD_COMPRESS_ZSTD, 19 } };
	static const size_t runs[] = { 0, KCD_RUN_ITEM, 100, 5000 };

	for (uint32_t threads = 0; threads < 200; threads += 67) {
		make_plain(threads);
		for (size_t i = 0; i < COUNT_OF(runs); i++) {
			pack(&hows[_i], runs[i]);
			assert_back();
		}
	}
}
END_TEST

START_TEST(an_empty_buffer_comes_back)
{
	static const enum kcd_algorithm algorithms[] = { KCD_COMPRESS_NONE, KCD_COMPRESS_ZLIB,
							 KCD_COMPRESS_ZSTD };
	struct kcd_compression how = { algorithms[_i], 0 };
	struct kcd_writer w;

	OK(kcd_writer_init(&w, plain, sizeof(plain), KCD_MAGIC_DELTA_STACKSHOT, 0));
	plain_len = kcd_writer_used(&w);
	pack(&how, 0);
	if (how.algorithm == KCD_COMPRESS_NONE)
		ck_assert_int_eq(memcmp(packed, plain, plain_len), 0);
	else
		assert_back();
}
END_TEST

START_TEST(zero_fill_and_an_old_begin_are_kept)
{
	make_plain(2);
	memset(plain + 8, 0, 8);
	memset(plain + plain_len, 0, 48);
	plain_len += 48;
	pack(&zstd_how, 0);
	ck_assert_int_eq(unpack(0), KCD_OK);
	ck_assert_uint_eq(back_len, plain_len);
	ck_assert_int_eq(memcmp(back, plain, plain_len), 0);
}
END_TEST

START_TEST(limits_are_kept_before_memory_is_taken)
{
	struct kcd_inflate_limits limits = { .totalin_max = 1000 };

	make_plain(50);
	pack(&zstd_how, 0);
	ck_assert_int_eq(kcd_inflate(packed, out.used, &limits, 0, &back, &back_len, &err),
			 KCD_ETOOBIG);
	ck_assert_int_eq(err.finding, KCD_FIND_LIMIT);
	limits.totalin_max = plain_len - 2 * KCD_HEADER_SIZE;
	OK(kcd_inflate(packed, out.used, &limits, 0, &back, &back_len, &err));
	set_word(0xC0, UINT64_MAX);
	ck_assert_int_eq(unpack(0), KCD_ETOOBIG);
}
END_TEST

START_TEST(a_large_window_is_refused)
{
	static uint8_t frame[1024];
	ZSTD_CCtx *z = ZSTD_createCCtx();
	ZSTD_inBuffer in = { plain + KCD_HEADER_SIZE, 64, 0 };
	ZSTD_outBuffer o = { frame, sizeof(frame), 0 };
	int window = _i ? 24 : 23;

	make_plain(1);
	pack(&zstd_how, 0);
	ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, window);
	ZSTD_compressStream2(z, &o, &in, ZSTD_e_flush); // without a known size the window is stated
	ZSTD_compressStream2(z, &o, &in, ZSTD_e_end);
	ZSTD_freeCCtx(z);
	memcpy(packed + KCD_C_HEADER_SIZE, frame, o.pos);
	set_word(0x80, o.pos);
	set_word(0xC0, 64);
	out.used = KCD_C_HEADER_SIZE + o.pos;
	ck_assert_int_eq(unpack(0), _i ? KCD_ETOOBIG : KCD_OK);
	if (_i)
		ck_assert_int_eq(err.finding, KCD_FIND_LIMIT);
}
END_TEST

START_TEST(several_frames_are_one_stream)
{
	make_plain(1);
	pack(&zstd_how, 0);
	size_t half = 32, n, m;
	n = ZSTD_compress(packed + KCD_C_HEADER_SIZE, 4096, plain + KCD_HEADER_SIZE, half, 1);
	m = ZSTD_compress(packed + KCD_C_HEADER_SIZE + n, 4096, plain + KCD_HEADER_SIZE + half,
			  plain_len - 2 * KCD_HEADER_SIZE - half, 1);
	set_word(0x80, n + m);
	out.used = KCD_C_HEADER_SIZE + n + m;
	OK(unpack(0));
	ck_assert_int_eq(memcmp(back, plain, plain_len), 0);
}
END_TEST

START_TEST(a_wrong_length_is_an_error)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };

	make_plain(3);
	pack(hows[_i], 0);
	uint64_t right = word(0xC0);
	set_word(0xC0, right + 16);
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_LENGTH);
	set_word(0xC0, right - 16);
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_LENGTH);
	set_word(0xC0, 0);
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
}
END_TEST

START_TEST(damaged_data_is_an_error)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };

	make_plain(3);
	pack(hows[_i], 0);
	packed[KCD_C_HEADER_SIZE] ^= 0xff;
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_DATA);
	ck_assert_uint_ge(err.offset, KCD_C_HEADER_SIZE);
	packed[KCD_C_HEADER_SIZE] ^= 0xff;
	set_word(0x80, word(0x80) - 7); // the end of the data is outside of the span
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_DATA);
}
END_TEST

START_TEST(an_unknown_algorithm_is_named)
{
	make_plain(1);
	pack(&zlib_how, 0);
	set_word(0x40, _i ? 2 : 0);
	ck_assert_int_eq(unpack(0), KCD_ENOTSUP);
	ck_assert_int_eq(err.finding, KCD_FIND_ALGORITHM);
	ck_assert_ptr_nonnull(strstr(err.reason, _i ? "0x2" : "kcd_c_type 0 "));
}
END_TEST

START_TEST(the_wrapper_must_be_whole)
{
	make_plain(1);
	pack(&zlib_how, 0);
	for (size_t cut = 16; cut < KCD_C_HEADER_SIZE; cut++) {
		out.used = cut;
		ck_assert_int_eq(unpack(KCD_INFLATE_SALVAGE), KCD_EMALFORMED);
		ck_assert_int_eq(err.finding, KCD_FIND_FRAME);
		ck_assert_ptr_null(back);
	}
}
END_TEST

START_TEST(descriptors_are_needed_once_each)
{
	make_plain(1);
	for (int i = 0; i < 3; i++) {
		pack(&zlib_how, 0);
		packed[0x20 + 0x40 * i] ^= 1; // its name
		ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
		ck_assert_int_eq(err.finding, KCD_FIND_FRAME);
	}
	pack(&zlib_how, 0);
	memcpy(packed + 0x50, packed + 0x10, 64); // kcd_c_type twice
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.reason, "second kcd_c_type"));
}
END_TEST

START_TEST(descriptors_may_come_in_any_order)
{
	uint8_t first[64];

	make_plain(1);
	pack(&zlib_how, 0);
	memcpy(first, packed + 0x10, 64);
	memcpy(packed + 0x10, packed + 0x50, 64);
	memcpy(packed + 0x50, packed + 0x90, 64);
	memcpy(packed + 0x90, first, 64);
	assert_back();
}
END_TEST

START_TEST(compressed_inside_of_compressed_is_refused)
{
	static const uint32_t magic = KCD_MAGIC_COMPRESSED;

	make_plain(1);
	pack(&zlib_how, 0);
	memcpy(packed + 0xD0, &magic, 4);
	ck_assert_int_eq(unpack(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_FRAME);
}
END_TEST

static unsigned int oddities;
static enum kcd_finding oddity;

static void take(void *arg, const struct kcd_error *e)
{
	(void)arg;
	oddities++;
	oddity = e->finding;
}

START_TEST(oddities_of_the_wrapper_are_told_or_refused)
{
	struct kcd_frame frame;

	make_plain(1);
	pack(&zlib_how, 0);
	for (int i = 0; i < 3; i++) {
		enum kcd_finding want;

		pack(&zlib_how, 0);
		switch (i) {
		case 0: // the END is missing
			out.used -= KCD_HEADER_SIZE;
			want = KCD_FIND_FRAME_END;
			break;
		case 1: // something behind it
			packed[out.used++] = 1;
			want = KCD_FIND_TRAILING;
			break;
		default: // one item more
			memmove(packed + 0x50, packed + 0x10, out.used - 0x10);
			memcpy(packed + 0x10, packed + 0x50, 64);
			packed[0x20] = 'x';
			out.used += 64;
			want = KCD_FIND_FRAME_EXTRA;
		}
		oddities = 0;
		OK(kcd_frame_parse(packed, out.used, KCD_TOLERANT, take, NULL, &frame, &err));
		ck_assert_uint_eq(oddities, 1);
		ck_assert_int_eq(oddity, want);
		OK(unpack(0));
		ck_assert_int_eq(memcmp(back, plain, plain_len), 0);
		ck_assert_int_eq(unpack(KCD_INFLATE_STRICT), KCD_EMALFORMED);
		ck_assert_int_eq(err.finding, want);
	}
	// bytes of the span behind the data
	pack(&zlib_how, 0);
	memset(packed + out.used - 16, 0, 16);
	set_word(0x80, word(0x80) + 4);
	out.used -= 12;
	OK(unpack(0));
	ck_assert_int_eq(unpack(KCD_INFLATE_STRICT), KCD_EMALFORMED);
}
END_TEST

START_TEST(plain_is_not_compressed)
{
	make_plain(1);
	ck_assert_int_eq(kcd_inflate(plain, plain_len, NULL, 0, &back, &back_len, &err),
			 KCD_EINVAL);
	memcpy(packed, plain, plain_len);
	static const uint32_t magic = KCD_MAGIC_COMPRESSED;
	memcpy(packed, &magic, 4);
	start_output(sizeof(packed));
	ck_assert_int_eq(kcd_compress_stream(packed, plain_len, &zlib_how, 0, &to, NULL, &err),
			 KCD_ECOMPRESSED);
}
END_TEST

START_TEST(out_of_room_is_seen_beforehand)
{
	static const enum kcd_algorithm algorithms[] = { KCD_COMPRESS_NONE, KCD_COMPRESS_ZLIB,
							 KCD_COMPRESS_ZSTD };
	struct kcd_compress_params params = { .how = { algorithms[_i], 0 },
					      .magic = KCD_MAGIC_STACKSHOT };
	static uint8_t noise[4096 + KCD_HEADER_SIZE];
	struct kcd_header h = { KCD_SS_DYLD_COMPACTINFO, 4096, KCD_FLAG_HAS_PADDING };
	struct kcd_compressor *c;
	uint32_t n = 0;
	enum kcd_code rc;

	memcpy(noise, &h, sizeof(h));
	for (size_t i = sizeof(h); i < sizeof(noise); i++)
		noise[i] = (uint8_t)(i * i >> 5 ^ i * 2654435761u >> 13);
	start_output(20000);
	OK(kcd_compressor_create(&params, &to, &c));
	while (!(rc = kcd_compressor_item(c, noise, sizeof(noise))))
		n++;
	ck_assert_int_eq(rc, KCD_ENOSPC);
	ck_assert_uint_ge(n, 3);
	// the stream is as it was: it can be ended and read
	OK(kcd_compressor_end(c, NULL));
	kcd_compressor_destroy(c);
	if (algorithms[_i] == KCD_COMPRESS_NONE) {
		ck_assert_uint_eq(out.used, n * sizeof(noise) + 2 * KCD_HEADER_SIZE);
		return;
	}
	OK(unpack(KCD_INFLATE_STRICT));
	ck_assert_uint_eq(back_len, n * sizeof(noise) + 2 * KCD_HEADER_SIZE);
	start_output(100);
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_ENOSPC);
}
END_TEST

struct failing {
	struct kcd_buffer buffer;
	uint32_t calls;
	uint32_t fail_at;
};

static bool failing_sink(void *arg, const void *data, size_t len)
{
	struct failing *f = arg;

	if (f->calls++ == f->fail_at || len > f->buffer.size - f->buffer.used)
		return false;
	memcpy(f->buffer.data + f->buffer.used, data, len);
	f->buffer.used += len;
	return true;
}

static bool failing_patch(void *arg, uint64_t offset, const void *data, size_t len)
{
	struct failing *f = arg;

	if (f->calls++ == f->fail_at)
		return false;
	memcpy(f->buffer.data + offset, data, len);
	return true;
}

START_TEST(each_failing_write_is_an_error)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };
	struct failing f;
	enum kcd_code rc = KCD_EIO;
	uint32_t n;

	make_plain(30);
	for (n = 0; rc; n++) {
		f = (struct failing){ { packed, sizeof(packed), 0 }, 0, n };
		const struct kcd_output failing = { failing_sink, failing_patch, NULL, &f };
		rc = kcd_compress_stream(plain, plain_len, hows[_i], 1000, &failing, NULL, &err);
		ck_assert(rc == KCD_EIO || rc == KCD_OK);
	}
	ck_assert_uint_ge(n, 6); // wrapper, runs, END, two patches
	out.used = f.buffer.used;
	assert_back();

	// and reading
	rc = KCD_EIO;
	for (n = 0; rc; n++) {
		f = (struct failing){ { plain, sizeof(plain), 0 }, 0, n };
		rc = kcd_inflate_stream(packed, out.used, NULL, 0, failing_sink, &f, &err);
		ck_assert(rc == KCD_EIO || rc == KCD_OK);
	}
	ck_assert_uint_ge(n, 3);
}
END_TEST

START_TEST(only_whole_items_are_taken)
{
	struct kcd_compress_params params = { .how = zlib_how, .magic = KCD_MAGIC_STACKSHOT };
	struct kcd_compressor *c;

	make_plain(1);
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	ck_assert_int_eq(kcd_compressor_run(c, plain, 16), KCD_EINVAL);	      // BEGIN
	ck_assert_int_eq(kcd_compressor_run(c, plain + 16, 20), KCD_EINVAL);  // cut
	ck_assert_int_eq(kcd_compressor_item(c, plain + 16, 64), KCD_EINVAL); // more than one
	ck_assert_int_eq(kcd_compressor_run(c, plain + plain_len - 16, 16), KCD_EINVAL); // END
	OK(kcd_compressor_item(c, plain + 16, 32));
	OK(kcd_compressor_run(c, plain, 0));
	kcd_compressor_destroy(c);
	kcd_compressor_destroy(NULL);
}
END_TEST

START_TEST(bad_parameters_are_refused)
{
	struct kcd_compress_params params = { .how = zstd_how, .magic = KCD_MAGIC_STACKSHOT };
	struct kcd_compressor *c = NULL;

	start_output(sizeof(packed));
	params.magic = KCD_MAGIC_END;
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_EINVAL);
	params.magic = KCD_MAGIC_COMPRESSED;
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_EINVAL);
	params.magic = KCD_MAGIC_STACKSHOT;
	params.how.level = 20;
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_EINVAL);
	params.how = (struct kcd_compression){ KCD_COMPRESS_ZLIB, 3 };
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_EINVAL);
	params.how.level = 0;
	to.patch = NULL;
	ck_assert_int_eq(kcd_compressor_create(&params, &to, &c), KCD_EINVAL);
	ck_assert_ptr_null(c);
}
END_TEST

START_TEST(an_announced_size_must_be_true)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };
	struct kcd_compress_params params = { .how = *hows[_i],
					      .magic = KCD_MAGIC_STACKSHOT,
					      .totalin = 1000 };
	struct kcd_compressor *c;

	make_plain(1);
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_compressor_item(c, plain + 16, 32));
	ck_assert_int_eq(kcd_compressor_end(c, NULL), KCD_EINVAL);
	kcd_compressor_destroy(c);
}
END_TEST

START_TEST(a_writer_in_front_needs_little_memory)
{
	static const struct kcd_compression *const hows[] = { &zlib_how, &zstd_how };
	struct kcd_compress_params params = { .how = *hows[_i], .magic = KCD_MAGIC_STACKSHOT };
	static uint8_t memory[2048];
	struct kcd_compressor *c;
	struct kcd_zwriter z;

	make_plain(100);
	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	ck_assert_int_eq(kcd_zwriter_init(&z, c, memory, 40), KCD_ENOSPC);
	OK(kcd_zwriter_init(&z, c, memory, sizeof(memory)));
	put_items(&z.w, 100);
	OK(kcd_zwriter_close(&z));
	OK(kcd_compressor_end(c, NULL));
	kcd_compressor_destroy(c);
	assert_back();
}
END_TEST

START_TEST(a_writer_in_front_reports_what_fails_behind)
{
	struct kcd_compress_params params = { .how = zlib_how, .magic = KCD_MAGIC_STACKSHOT };
	uint8_t memory[512];
	struct kcd_compressor *c;
	struct kcd_zwriter z;
	enum kcd_code rc = KCD_OK;

	start_output(1500);
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_zwriter_init(&z, c, memory, sizeof(memory)));
	for (uint32_t i = 0; i < 1000 && !rc; i++) {
		uint64_t noise[4] = { i * 0x9e3779b97f4a7c15u, i * 0xd1b54a32d192ed03u, ~i, i };
		rc = kcd_append(&z.w, 0x9999, noise, sizeof(noise));
	}
	ck_assert_int_eq(rc, KCD_ENOSPC);
	ck_assert_int_eq(z.status, KCD_ENOSPC);
	ck_assert_int_eq(kcd_zwriter_close(&z), KCD_ENOSPC);
	OK(kcd_compressor_end(c, NULL)); // what was compressed is a stream
	kcd_compressor_destroy(c);
	OK(unpack(KCD_INFLATE_STRICT));

	start_output(sizeof(packed));
	OK(kcd_compressor_create(&params, &to, &c));
	OK(kcd_zwriter_init(&z, c, memory, sizeof(memory)));
	OK(kcd_container_begin(&z.w, 1, 1));
	ck_assert_int_eq(kcd_zwriter_close(&z), KCD_EINVAL);
	OK(kcd_container_end(&z.w, 1));
	OK(kcd_zwriter_close(&z));
	kcd_compressor_destroy(c);
}
END_TEST

START_TEST(a_stream_that_is_not_whole_is_not_compressed)
{
	make_plain(2);
	start_output(sizeof(packed));
	ck_assert_int_eq(kcd_compress_stream(plain, plain_len - 16, &zlib_how, 0, &to, NULL, &err),
			 KCD_EMALFORMED);
	ck_assert_uint_eq(out.used, 0);
	// what the wrapper cannot keep: a BEGIN or an END with a payload
	hex_bytes("0758a259 10000000 80000000 00000000 00*16 ed5891f1 00*12", plain, sizeof(plain));
	ck_assert_int_eq(kcd_compress_stream(plain, 48, &zlib_how, 0, &to, NULL, &err), KCD_EINVAL);
	hex_bytes("0758a259 00000000 80000000 00000000 ed5891f1 10000000 00*8 00*16", plain,
		  sizeof(plain));
	ck_assert_int_eq(kcd_compress_stream(plain, 48, &zlib_how, 0, &to, NULL, &err), KCD_EINVAL);
}
END_TEST

START_TEST(wishes_are_parsed)
{
	static const struct {
		const char *text;
		bool good;
		enum kcd_algorithm algorithm;
		int level;
	} cases[] = {
		{ "none", true, KCD_COMPRESS_NONE, 0 },
		{ "zlib", true, KCD_COMPRESS_ZLIB, 0 },
		{ "zstd", true, KCD_COMPRESS_ZSTD, 0 },
		{ "zstd:1", true, KCD_COMPRESS_ZSTD, 1 },
		{ "zstd:19", true, KCD_COMPRESS_ZSTD, 19 },
		{ "", false, 0, 0 },
		{ "zstd:", false, 0, 0 },
		{ "zstd:0", false, 0, 0 },
		{ "zstd:20", false, 0, 0 },
		{ "zstd:99999999999999999999", false, 0, 0 },
		{ "zstd:-1", false, 0, 0 },
		{ "zstd:3x", false, 0, 0 },
		{ "zstdx", false, 0, 0 },
		{ "zlib:1", false, 0, 0 },
		{ "lz4", false, 0, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct kcd_compression how = { 0 };

		ck_assert_msg(kcd_compression_parse(cases[i].text, &how) == cases[i].good, "%s",
			      cases[i].text);
		ck_assert_int_eq(how.algorithm, cases[i].algorithm);
		ck_assert_int_eq(how.level, cases[i].level);
	}
	ck_assert_str_eq(kcd_algorithm_name(KCD_COMPRESS_ZSTD), "zstd");
}
END_TEST

Suite *suite_compress(void)
{
	Suite *s = suite_create("compress");
	TCase *t = tcase_create("compress");

	tcase_add_test(t, the_wrapper_has_these_bytes);
	tcase_add_test(t, item_by_item_gives_the_originals_bytes);
	tcase_add_test(t, a_window_has_one_sync_point);
	tcase_add_loop_test(t, ending_without_a_last_item_finishes_too, 0, 2);
	tcase_add_loop_test(t, what_is_flushed_survives_a_cut, 0, 2);
	tcase_add_test(t, an_interrupted_writer_leaves_what_is_seen_to_be_incomplete);
	tcase_add_test(t, zstd_frames_have_size_and_checksum);
	tcase_add_loop_test(t, levels_and_runs_all_come_back, 0, 4);
	tcase_add_loop_test(t, an_empty_buffer_comes_back, 0, 3);
	tcase_add_test(t, zero_fill_and_an_old_begin_are_kept);
	tcase_add_test(t, limits_are_kept_before_memory_is_taken);
	tcase_add_loop_test(t, a_large_window_is_refused, 0, 2);
	tcase_add_test(t, several_frames_are_one_stream);
	tcase_add_loop_test(t, a_wrong_length_is_an_error, 0, 2);
	tcase_add_loop_test(t, damaged_data_is_an_error, 0, 2);
	tcase_add_loop_test(t, an_unknown_algorithm_is_named, 0, 2);
	tcase_add_test(t, the_wrapper_must_be_whole);
	tcase_add_test(t, descriptors_are_needed_once_each);
	tcase_add_test(t, descriptors_may_come_in_any_order);
	tcase_add_test(t, compressed_inside_of_compressed_is_refused);
	tcase_add_test(t, oddities_of_the_wrapper_are_told_or_refused);
	tcase_add_test(t, plain_is_not_compressed);
	tcase_add_loop_test(t, out_of_room_is_seen_beforehand, 0, 3);
	tcase_add_loop_test(t, each_failing_write_is_an_error, 0, 2);
	tcase_add_test(t, only_whole_items_are_taken);
	tcase_add_test(t, bad_parameters_are_refused);
	tcase_add_loop_test(t, an_announced_size_must_be_true, 0, 2);
	tcase_add_loop_test(t, a_writer_in_front_needs_little_memory, 0, 2);
	tcase_add_test(t, a_writer_in_front_reports_what_fails_behind);
	tcase_add_test(t, a_stream_that_is_not_whole_is_not_compressed);
	tcase_add_test(t, wishes_are_parsed);
	suite_add_tcase(s, t);
	return s;
}
