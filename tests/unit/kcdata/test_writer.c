/* SPDX-License-Identifier: Apache-2.0 */
/* The writer against literal bytes, and what it leaves behind when it cannot go on. */
#include <string.h>

#include "kcdata/kcdata.h"
#include "kcdata/schema.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/kcdata/suites.h"

#define BEGIN "0758a259 00000000 80000000 00000000 "
#define END   "ed5891f1 00000000 00000000 00000000 "

static uint8_t buf[65536];
static struct kcd_writer w;

/* A writer over @p size bytes of buf, which hold garbage. */
static void start(size_t size)
{
	memset(buf, 0xa5, sizeof(buf));
	ck_assert_int_eq(kcd_writer_init(&w, buf, size, KCD_MAGIC_STACKSHOT, 0), KCD_OK);
}

/* What the stream holds, its BEGIN and END included. */
static void assert_stream(const char *hex)
{
	assert_bytes(buf, kcd_writer_used(&w), hex);
}

START_TEST(a_new_stream_is_begin_and_end)
{
	static const struct {
		uint32_t magic;
		const char *bytes;
	} row[] = {
		{ KCD_MAGIC_CRASHINFO, "57f1adde" },	   { KCD_MAGIC_STACKSHOT, "0758a259" },
		{ KCD_MAGIC_DELTA_STACKSHOT, "9aa517de" }, { KCD_MAGIC_COMPRESSED, "504d4f43" },
		{ KCD_MAGIC_BTINFO, "474e4146" },	   { KCD_MAGIC_OS_REASON, "0009a253" },
		{ KCD_MAGIC_XNUPOST_CONFIG, "9fc0211e" },
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		ck_assert_int_eq(kcd_writer_init(&w, buf, 32, row[i].magic, 0), KCD_OK);
		ck_assert_uint_eq(kcd_writer_used(&w), 32);
		assert_bytes(buf, 4, row[i].bytes);
		assert_bytes(buf + 4, 28, "00000000 80000000 00000000" END);
	}
}
END_TEST

START_TEST(a_stream_needs_a_magic_and_room_for_its_end)
{
	ck_assert_int_eq(kcd_writer_init(&w, buf, 64, KCD_MAGIC_END, 0), KCD_EINVAL);
	ck_assert_int_eq(kcd_writer_init(&w, buf, 64, 0x905, 0), KCD_EINVAL);
	ck_assert_int_eq(kcd_writer_init(&w, buf, 31, KCD_MAGIC_STACKSHOT, 0), KCD_ENOSPC);
	ck_assert_int_eq(kcd_writer_init(&w, buf, 15, 0, KCD_WRITER_FRAGMENT), KCD_ENOSPC);
	ck_assert_int_eq(kcd_writer_init(&w, buf, 16, 0, KCD_WRITER_FRAGMENT), KCD_OK);
	assert_stream(END);
}
END_TEST

START_TEST(a_record_has_zero_padding_that_its_flags_count)
{
	static const struct {
		size_t len;
		const char *bytes;
	} row[] = {
		{ 0, "10090000 00000000 80000000 00000000" },
		{ 1, "10090000 10000000 8f000000 00000000 11 ~" },
		{ 4, "10090000 10000000 8c000000 00000000 11111111 ~" },
		{ 15, "10090000 10000000 81000000 00000000 11*15 00" },
		{ 16, "10090000 10000000 80000000 00000000 11*16" },
		{ 17, "10090000 20000000 8f000000 00000000 11*17 ~" },
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		char data[32];

		start(sizeof(buf));
		memset(data, 0x11, sizeof(data));
		ck_assert_int_eq(kcd_append(&w, KCD_SS_KERN_PAGE_SIZE, data, row[i].len), KCD_OK);
		assert_bytes(buf + 16, kcd_writer_used(&w) - 32, row[i].bytes);
		assert_bytes(buf + kcd_writer_used(&w) - 16, 16, END);
	}
}
END_TEST

START_TEST(named_values_have_their_name_in_32_bytes)
{
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_u64(&w, "stackshot_in_flags", 0x10000), KCD_OK);
	ck_assert_int_eq(kcd_append_u32(&w, "stackshot_in_pid", 0xffffffff), KCD_OK);
	assert_stream(BEGIN "03000000 30000000 88000000 00000000"
			    "73746163 6b73686f 745f696e 5f666c61 6773 ~"
			    "0000010000000000 ~"
			    "02000000 30000000 8c000000 00000000"
			    "73746163 6b73686f 745f696e 5f706964 00*16 "
			    "ffffffff ~" END);
}
END_TEST

START_TEST(names_that_break_readers_are_refused)
{
	static const char *const bad[] = {
		"",
		"quo\"te",
		"back\\slash",
		"tab\t",
		"\x7f",
		"\xc3\xa4",
		"32 characters, which are too many",
	};

	start(sizeof(buf));
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		ck_assert_int_eq(kcd_append_u32(&w, bad[i], 1), KCD_EINVAL);
		ck_assert_int_eq(kcd_append_u64(&w, bad[i], 1), KCD_EINVAL);
	}
	assert_stream(BEGIN END);
	ck_assert_int_eq(kcd_append_u32(&w, "exactly thirty-one characters..", 1), KCD_OK);
}
END_TEST

START_TEST(a_string_is_stored_with_its_nul)
{
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_string(&w, KCD_SS_OSVERSION, "Linux version 6.1", 256), KCD_OK);
	ck_assert_int_eq(kcd_append_string(&w, KCD_SS_BOOTARGS, "console=ttyAMA0", 8), KCD_OK);
	ck_assert_int_eq(kcd_append_string(&w, KCD_SS_BOOTARGS, "", 1), KCD_OK);
	ck_assert_int_eq(kcd_append_string(&w, KCD_SS_BOOTARGS, "", 0), KCD_EINVAL);
	assert_stream(BEGIN "0f090000 20000000 8e000000 00000000"
			    "4c696e75 78207665 7273696f 6e20362e 31 ~"
			    "0e090000 10000000 88000000 00000000 636f6e73 6f6c65 ~"
			    "0e090000 10000000 8f000000 00000000 00*16 " END);
}
END_TEST

START_TEST(an_array_has_its_padding_in_its_type)
{
	static const uint64_t lr[3] = { 0xffff800008000000, 0xffff800008000001,
					0xffff800008000002 };
	uint8_t info[2 * 31];

	start(sizeof(buf));
	memset(info, 0x33, sizeof(info));
	ck_assert_int_eq(kcd_append_array(&w, KCD_SS_KERN_STACKLR64, 3, 8, lr), KCD_OK);
	ck_assert_int_eq(kcd_append_array(&w, KCD_SS_THREAD_WAITINFO, 2, 31, info), KCD_OK);
	ck_assert_int_eq(kcd_append_array(&w, KCD_SS_DONATING_PIDS, 0, 4, NULL), KCD_OK);
	assert_stream(BEGIN "28000000 20000000 03000000 14090000"
			    "0000000800 80ffff 0100000800 80ffff 0200000800 80ffff ~"
			    "22000000 40000000 02000000 1d090000 33*62 0000"
			    "20000000 00000000 00000000 07090000" END);
}
END_TEST

START_TEST(an_array_of_each_padding_is_encoded)
{
	for (uint32_t n = 1; n <= 16; n++) {
		uint8_t elems[16];
		uint32_t head[4];

		start(sizeof(buf));
		memset(elems, 0x77, sizeof(elems));
		ck_assert_int_eq(kcd_append_array(&w, 0x1234, n, 1, elems), KCD_OK);
		memcpy(head, buf + 16, sizeof(head));
		ck_assert_uint_eq(head[0], 0x30 - n == 0x20 ? 0x20 : 0x20 + (16 - n));
		ck_assert_uint_eq(head[1], 16);
		ck_assert_uint_eq(head[2], n);
		ck_assert_uint_eq(head[3], 0x1234);
		ck_assert_mem_eq(buf + 32, elems, n);
		for (uint32_t i = n; i < 16; i++)
			ck_assert_uint_eq(buf[32 + i], 0);
	}
}
END_TEST

START_TEST(an_array_without_element_size_or_data_is_refused)
{
	void *at;

	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_array(&w, 0x914, 1, 0, buf), KCD_EINVAL);
	ck_assert_int_eq(kcd_append_array(&w, 0x914, 1, 8, NULL), KCD_EINVAL);
	ck_assert_int_eq(kcd_append_array(&w, 0x914, UINT32_MAX, 8, buf), KCD_ETOOBIG);
	ck_assert_int_eq(kcd_reserve_array(&w, 0x914, UINT32_MAX, SIZE_MAX, &at), KCD_ETOOBIG);
	assert_stream(BEGIN END);
}
END_TEST

START_TEST(containers_carry_their_id_in_the_flags)
{
	start(sizeof(buf));
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 7), KCD_OK);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, 0x123456789abcdef0),
			 KCD_OK);
	ck_assert_uint_eq(kcd_writer_depth(&w), 2);
	ck_assert_int_eq(kcd_container_end(&w, 0x123456789abcdef0), KCD_OK);
	ck_assert_int_eq(kcd_container_end(&w, 7), KCD_OK);
	ck_assert_uint_eq(kcd_writer_depth(&w), 0);
	assert_stream(BEGIN "13000000 10000000 07000000 00000000 03090000 ~"
			    "13000000 10000000 f0debc9a 78563412 04090000 ~"
			    "14000000 00000000 f0debc9a 78563412"
			    "14000000 00000000 07000000 00000000" END);
}
END_TEST

START_TEST(containers_are_closed_in_order)
{
	start(sizeof(buf));
	ck_assert_int_eq(kcd_container_end(&w, 0), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1), KCD_OK);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, 2), KCD_OK);
	ck_assert_int_eq(kcd_container_end(&w, 1), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_end(&w, 2), KCD_OK);
	ck_assert_int_eq(kcd_container_end(&w, 2), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_end(&w, 1), KCD_OK);
}
END_TEST

START_TEST(containers_nest_sixteen_deep_and_no_deeper)
{
	start(sizeof(buf));
	for (uint32_t i = 0; i < 16; i++)
		ck_assert_int_eq(kcd_container_begin(&w, 0x903, i), KCD_OK);
	ck_assert_int_eq(kcd_container_begin(&w, 0x903, 16), KCD_ETOOBIG);
	for (uint32_t i = 16; i-- > 0;)
		ck_assert_int_eq(kcd_container_end(&w, i), KCD_OK);
}
END_TEST

START_TEST(types_with_their_own_encoding_are_no_records)
{
	static const uint32_t bad[] = {
		0,
		0x11,
		0x12,
		0x13,
		0x14,
		0x20,
		0x2f,
		KCD_MAGIC_STACKSHOT,
		KCD_MAGIC_COMPRESSED,
		KCD_MAGIC_END,
	};
	static const uint32_t good[] = { 1, 0x10, 0x30, 0x38, 0x905, 0x10ff, 0x11000, UINT32_MAX };

	start(sizeof(buf));
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		ck_assert_int_eq(kcd_append(&w, bad[i], "", 1), KCD_EINVAL);
	ck_assert_int_eq(kcd_append(&w, 0x905, NULL, 1), KCD_EINVAL);
	ck_assert_int_eq(kcd_append(&w, 0x905, buf, (size_t)UINT32_MAX - 14), KCD_ETOOBIG);
	ck_assert_int_eq(kcd_append(&w, 0x905, buf, SIZE_MAX), KCD_ETOOBIG);
	ck_assert_int_eq(kcd_append(&w, 0x905, buf, (size_t)UINT32_MAX - 15), KCD_ENOSPC);
	assert_stream(BEGIN END);
	for (size_t i = 0; i < COUNT_OF(good); i++)
		ck_assert_int_eq(kcd_append(&w, good[i], "", 1), KCD_OK);
}
END_TEST

START_TEST(a_reserved_record_is_zero_and_can_be_filled_later)
{
	struct kcd_thread_snapshot_v4 *t;
	void *data;
	uint64_t *lr;

	start(sizeof(buf));
	ck_assert_int_eq(kcd_reserve(&w, KCD_SS_THREAD_SNAPSHOT, sizeof(*t), &data), KCD_OK);
	t = data;
	ck_assert_int_eq(kcd_reserve_array(&w, KCD_SS_KERN_STACKLR64, 1, 8, &data), KCD_OK);
	lr = data;
	ck_assert_ptr_eq(t, buf + 32);
	for (size_t i = 0; i < sizeof(*t); i++)
		ck_assert_uint_eq(((uint8_t *)t)[i], 0);
	ck_assert_int_eq(kcd_append_u32(&w, "later", 1), KCD_OK);
	t->ths_thread_id = 0x63;
	t->ths_ss_flags = KCD_SS_KERNEL64 | KCD_THREAD_STACKS_PC_ONLY;
	t->ths_state = KCD_THREAD_RUN;
	t->ths_base_priority = -1;
	*lr = 0x1122334455667788;
	assert_bytes(buf + 16, 144 + 32,
		     "06090000 80000000 80000000 00000000"
		     "63 00*7 00*56 0a 00*7 00*16 04000000 00000000 ffff 00*30 "
		     "28000000 10000000 01000000 14090000 8877665544332211 ~");
}
END_TEST

static bool copy_but_not_a_bad_byte(void *arg, void *dst, const void *src, size_t len)
{
	unsigned *calls = arg;

	(*calls)++;
	if (memchr(src, 0xbd, len)) {
		memset(dst, 0xee, len / 2);
		return false;
	}
	memcpy(dst, src, len);
	return true;
}

START_TEST(payloads_go_through_the_copy_callback)
{
	static const uint8_t good[16] = { 1 };
	static const uint8_t bad[16] = { 1, 0xbd };
	unsigned calls = 0;

	start(sizeof(buf));
	kcd_writer_set_copy(&w, copy_but_not_a_bad_byte, &calls);
	ck_assert_int_eq(kcd_append(&w, 0x905, good, 16), KCD_OK);
	ck_assert_int_eq(kcd_append(&w, 0x905, bad, 16), KCD_ECOPY);
	ck_assert_int_eq(kcd_append_array(&w, 0x914, 2, 8, bad), KCD_ECOPY);
	ck_assert_uint_eq(calls, 3);
	assert_stream(BEGIN "05090000 10000000 80000000 00000000 01 ~" END);
}
END_TEST

struct sample {
	uint64_t a;
	char name[24];
	uint16_t b[3];
	int8_t c;
} __attribute__((packed));

static const struct kcd_field sample_fields[] = {
	KCD_FIELD(struct sample, a),
	KCD_FIELD_AS(struct sample, name, "comm"),
	KCD_FIELD(struct sample, b),
	KCD_FIELD(struct sample, c),
};

START_TEST(a_definition_describes_each_field)
{
	struct kcd_type t = KCD_STRUCT_TYPE(0x11001, "SAMPLE", "sample", sample_fields);

	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_OK);
	assert_stream(BEGIN "12000000 d0000000 08000000 00000000"
			    "01100100 04000000 73616d706c65 00*26 "
			    "00 09 0000 08000000 61 00*31 "
			    "01 01 0800 01001800 636f6d6d 00*28 "
			    "01 05 2000 02000300 62 00*31 "
			    "00 02 2600 01000000 63 00*31 "
			    "00*8 " END);
}
END_TEST

START_TEST(a_definition_of_an_odd_number_of_fields_needs_no_padding)
{
	struct kcd_type t = KCD_STRUCT_TYPE(0x1100, "SAMPLE", "sample", sample_fields);

	t.field_count = 3;
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_OK);
	assert_bytes(buf + 16, 24, "12000000 a0000000 00000000 00000000 00110000 03000000");
	ck_assert_uint_eq(kcd_writer_used(&w), 16 + 16 + 160 + 16);
}
END_TEST

START_TEST(a_definition_of_one_field_asks_for_a_struct)
{
	struct kcd_type t = KCD_STRUCT_TYPE(0x11001, "SAMPLE", "sample", sample_fields);

	t.field_count = 1;
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_OK);
	assert_bytes(buf + 16 + 16 + 40, 10, "02 09 0000 08000000 61 00");
	// an array is one too: both bits
	t.fields = &sample_fields[1];
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_OK);
	assert_bytes(buf + 16 + 112 + 40, 8, "03 01 0800 01001800");
}
END_TEST

START_TEST(definitions_that_readers_would_miss_are_refused)
{
	const struct kcd_type good = KCD_STRUCT_TYPE(0x11001, "SAMPLE", "sample", sample_fields);
	struct kcd_field field = sample_fields[0];
	struct kcd_type t;

	start(sizeof(buf));
	t = good;
	t.code = 0x10ff; // Apple's
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	t = good;
	t.code = KCD_MAGIC_STACKSHOT;
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	t = good;
	t.field_count = 0;
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	t = good;
	t.key = "a name of more than 31 characters";
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	t = good;
	t.fields = &field;
	t.field_count = 1;
	field.kind = 10;
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	field = sample_fields[0];
	field.offset = 0x10000;
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	field = sample_fields[0];
	field.name = "";
	ck_assert_int_eq(kcd_append_typedef(&w, &t), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_begin(&w, 0x903, 1), KCD_OK);
	ck_assert_int_eq(kcd_append_typedef(&w, &good), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_end(&w, 1), KCD_OK);
}
END_TEST

/* Does append number @p n of a small stream; the last one returns KCD_DONE. */
static enum kcd_code do_step(unsigned n)
{
	static const struct kcd_type t =
		KCD_STRUCT_TYPE(0x11001, "SAMPLE", "sample", sample_fields);
	static const uint64_t lr[3] = { 1, 2, 3 };
	void *data;

	switch (n) {
	case 0: return kcd_append_typedef(&w, &t);
	case 1: return kcd_append_u64(&w, "stackshot_in_flags", 1);
	case 2: return kcd_append_u32(&w, "stackshot_in_pid", 1);
	case 3: return kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1);
	case 4: return kcd_reserve(&w, KCD_SS_TASK_SNAPSHOT, 120, &data);
	case 5: return kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, 2);
	case 6: return kcd_append_string(&w, KCD_SS_THREAD_NAME, "kworker/0:1", 64);
	case 7: return kcd_append_array(&w, KCD_SS_KERN_STACKLR64, 3, 8, lr);
	case 8: return kcd_reserve_array(&w, KCD_SS_USER_STACKLR64, 2, 8, &data);
	case 9: return kcd_container_end(&w, 2);
	case 10: return kcd_container_end(&w, 1);
	case 11: return kcd_append(&w, KCD_SS_DURATION, lr, 24);
	case 12: return kcd_append_items(&w, buf + 16, 224 + 64);
	default: return KCD_DONE;
	}
}

/* The stream read to its END, which only lacks the ENDs of the containers that are open. */
static void assert_ends_well(void)
{
	static uint8_t copy[8192];
	size_t used = kcd_writer_used(&w);
	struct kcd_writer closing = w;
	struct kcd_error err;
	struct kcd_reader r;
	struct kcd_item it;

	ck_assert_uint_le(used, sizeof(copy));
	assert_bytes(buf + used - 16, 16, END);
	memcpy(copy, buf, sizeof(copy));
	closing.buf = copy;
	while (closing.depth)
		ck_assert_int_eq(kcd_container_end(&closing, closing.open_id[closing.depth - 1]),
				 KCD_OK);
	used = kcd_writer_used(&closing);
	ck_assert_uint_le(used, w.size);

	enum kcd_code rc = kcd_reader_init(&r, copy, used, KCD_STRICT, &err);
	while (!rc)
		rc = kcd_reader_next(&r, &it);
	ck_assert_msg(rc == KCD_DONE, "%s", err.reason);
}

START_TEST(a_stream_cut_at_any_append_ends_well)
{
	start(8192);
	assert_ends_well();
	for (unsigned n = 0;; n++) {
		enum kcd_code rc = do_step(n);
		if (rc == KCD_DONE)
			break;
		ck_assert_int_eq(rc, KCD_OK);
		assert_ends_well();
	}
}
END_TEST

START_TEST(a_full_stream_stays_as_it_was_and_can_be_closed)
{
	size_t whole;

	start(8192);
	for (unsigned n = 0; do_step(n) == KCD_OK; n++)
		;
	whole = kcd_writer_used(&w);
	for (size_t size = 32; size <= whole; size++) {
		enum kcd_code rc = KCD_OK;

		start(size);
		for (unsigned n = 0; rc == KCD_OK; n++) {
			static uint8_t before[8192];
			size_t used = kcd_writer_used(&w);

			memcpy(before, buf, used);
			rc = do_step(n);
			if (rc == KCD_OK || rc == KCD_DONE)
				continue;
			ck_assert_int_eq(rc, KCD_ENOSPC);
			ck_assert_uint_eq(kcd_writer_used(&w), used);
			ck_assert_mem_eq(buf, before, used);
			assert_ends_well();
		}
		ck_assert_int_eq(rc, size < whole ? KCD_ENOSPC : KCD_DONE);
		for (size_t i = size; i < size + 256; i++) // nothing behind the buffer
			ck_assert_uint_eq(buf[i], 0xa5);
	}
}
END_TEST

START_TEST(the_room_is_what_a_record_can_have)
{
	for (size_t size = 32; size < 200; size++) {
		void *data;

		start(size);
		if (size >= 112)
			ck_assert_int_eq(kcd_container_begin(&w, 0x903, 1), KCD_OK);
		size_t room = kcd_writer_room(&w);
		ck_assert_int_eq(kcd_reserve(&w, 0x905, room + 1, &data), KCD_ENOSPC);
		if (size - (size >= 112 ? 48 : 0) >= 48)
			ck_assert_int_eq(kcd_reserve(&w, 0x905, room, &data), KCD_OK);
		else
			ck_assert_uint_eq(room, 0);
	}
}
END_TEST

START_TEST(rewinding_drops_what_came_after_the_mark)
{
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append(&w, KCD_SS_KERN_PAGE_SIZE, "\0\x10\0", 4), KCD_OK);
	struct kcd_mark mark = kcd_writer_mark(&w);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 7), KCD_OK);
	struct kcd_mark inside = kcd_writer_mark(&w);
	ck_assert_int_eq(kcd_append(&w, KCD_SS_ASID, "\1\0\0", 4), KCD_OK);
	ck_assert_int_eq(kcd_writer_rewind(&w, mark), KCD_OK);
	assert_stream(BEGIN "10090000 10000000 8c000000 00000000 00100000 ~" END);
	// what a mark refers to is gone now
	ck_assert_int_eq(kcd_writer_rewind(&w, inside), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 8), KCD_OK);
	ck_assert_int_eq(kcd_writer_rewind(&w, inside), KCD_EINVAL);
	ck_assert_int_eq(kcd_container_end(&w, 8), KCD_OK);
	ck_assert_int_eq(kcd_writer_rewind(&w, mark), KCD_OK);
	ck_assert_uint_eq(kcd_writer_used(&w), 16 + 32 + 16);
}
END_TEST

START_TEST(items_of_a_fragment_are_appended_as_they_are)
{
	static uint8_t part[256];
	struct kcd_writer f;

	ck_assert_int_eq(kcd_writer_init(&f, part, sizeof(part), 0, KCD_WRITER_FRAGMENT), KCD_OK);
	ck_assert_int_eq(kcd_container_begin(&f, KCD_SS_CONTAINER_TASK, 7), KCD_OK);
	ck_assert_int_eq(kcd_container_end(&f, 7), KCD_OK);
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_items(&w, part, 0), KCD_OK);
	ck_assert_int_eq(kcd_append_items(&w, part, kcd_writer_used(&f) - 16), KCD_OK);
	assert_stream(BEGIN "13000000 10000000 07000000 00000000 03090000 ~"
			    "14000000 00000000 07000000 00000000" END);
}
END_TEST

START_TEST(items_that_are_not_whole_are_refused)
{
	static const char *const bad[] = {
		"10090000 00000000 8000",		     // cut header
		"10090000 20000000 80000000 00000000 11*16", // cut payload
		"10090000 18000000 80000000 00000000 11*24 10090000 00000000 80000000" // unaligned
		"00000000 0000000000000000",
		"13000000 10000000 07000000 00000000 03090000 ~", // open
		"14000000 00000000 07000000 00000000",		  // stray
		"10090000 00000000 80000000 00000000" END,	  // END inside
		BEGIN,						  // BEGIN inside
	};

	start(sizeof(buf));
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		static uint8_t items[256];
		size_t len = hex_bytes(bad[i], items, sizeof(items));

		ck_assert_int_eq(kcd_append_items(&w, items, len), KCD_EINVAL);
	}
	assert_stream(BEGIN END);
}
END_TEST

START_TEST(the_buffer_needs_no_alignment)
{
	for (size_t shift = 1; shift < 16; shift++) {
		ck_assert_int_eq(
			kcd_writer_init(&w, buf + shift, 4096, KCD_MAGIC_DELTA_STACKSHOT, 0),
			KCD_OK);
		ck_assert_int_eq(kcd_append_u64(&w, "value", 0x0102030405060708), KCD_OK);
		assert_bytes(buf + shift, kcd_writer_used(&w),
			     "9aa517de 00000000 80000000 00000000"
			     "03000000 30000000 88000000 00000000"
			     "76616c7565 00*27 0807060504030201 ~" END);
	}
}
END_TEST

START_TEST(the_worked_example_of_the_format_comes_out)
{
	struct kcd_task_snapshot_v2 task = { .ts_unique_pid = 7, .ts_ss_flags = 3, .ts_pid = 42 };

	memcpy(task.ts_p_comm, "init", 4);
	start(sizeof(buf));
	ck_assert_int_eq(kcd_append_u64(&w, "stackshot_in_flags", 0x10000), KCD_OK);
	ck_assert_int_eq(kcd_append_string(&w, KCD_SS_OSVERSION, "Linux version 6.1", 256), KCD_OK);
	ck_assert_int_eq(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 7), KCD_OK);
	ck_assert_int_eq(kcd_append(&w, KCD_SS_TASK_SNAPSHOT, &task, sizeof(task)), KCD_OK);
	ck_assert_int_eq(kcd_container_end(&w, 7), KCD_OK);
	assert_stream("07 58 a2 59  00 00 00 00  80 00 00 00 00 00 00 00"
		      "03 00 00 00  30 00 00 00  88 00 00 00 00 00 00 00"
		      "737461636b73686f745f696e5f666c616773 ~"
		      "00 00 01 00 00 00 00 00 ~"
		      "0f 09 00 00  20 00 00 00  8e 00 00 00 00 00 00 00"
		      "4c696e75782076657273696f6e20362e31 ~"
		      "13 00 00 00  10 00 00 00  07 00 00 00 00 00 00 00"
		      "03 09 00 00 ~"
		      "05 09 00 00  80 00 00 00  88 00 00 00 00 00 00 00"
		      "07 00*7 03 00*7 00*68 2a000000 696e6974 00*28 ~"
		      "14 00 00 00  00 00 00 00  07 00 00 00 00 00 00 00" END);
}
END_TEST

Suite *suite_writer(void)
{
	Suite *s = suite_create("writer");
	TCase *tc = tcase_create("writer");

	tcase_add_test(tc, a_new_stream_is_begin_and_end);
	tcase_add_test(tc, a_stream_needs_a_magic_and_room_for_its_end);
	tcase_add_test(tc, a_record_has_zero_padding_that_its_flags_count);
	tcase_add_test(tc, named_values_have_their_name_in_32_bytes);
	tcase_add_test(tc, names_that_break_readers_are_refused);
	tcase_add_test(tc, a_string_is_stored_with_its_nul);
	tcase_add_test(tc, an_array_has_its_padding_in_its_type);
	tcase_add_test(tc, an_array_of_each_padding_is_encoded);
	tcase_add_test(tc, an_array_without_element_size_or_data_is_refused);
	tcase_add_test(tc, containers_carry_their_id_in_the_flags);
	tcase_add_test(tc, containers_are_closed_in_order);
	tcase_add_test(tc, containers_nest_sixteen_deep_and_no_deeper);
	tcase_add_test(tc, types_with_their_own_encoding_are_no_records);
	tcase_add_test(tc, a_reserved_record_is_zero_and_can_be_filled_later);
	tcase_add_test(tc, payloads_go_through_the_copy_callback);
	tcase_add_test(tc, a_definition_describes_each_field);
	tcase_add_test(tc, a_definition_of_an_odd_number_of_fields_needs_no_padding);
	tcase_add_test(tc, a_definition_of_one_field_asks_for_a_struct);
	tcase_add_test(tc, definitions_that_readers_would_miss_are_refused);
	tcase_add_test(tc, a_stream_cut_at_any_append_ends_well);
	tcase_add_test(tc, a_full_stream_stays_as_it_was_and_can_be_closed);
	tcase_add_test(tc, the_room_is_what_a_record_can_have);
	tcase_add_test(tc, rewinding_drops_what_came_after_the_mark);
	tcase_add_test(tc, items_of_a_fragment_are_appended_as_they_are);
	tcase_add_test(tc, items_that_are_not_whole_are_refused);
	tcase_add_test(tc, the_buffer_needs_no_alignment);
	tcase_add_test(tc, the_worked_example_of_the_format_comes_out);
	suite_add_tcase(s, tc);
	return s;
}
