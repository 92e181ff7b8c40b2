/* SPDX-License-Identifier: Apache-2.0 */
/* The reader against literal bytes: every encoding, and an invalid twin for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/kcdata/suites.h"

#define BEGIN "0758a259 00000000 80000000 00000000 "
#define END   "ed5891f1 00000000 00000000 00000000 "

/* A buffer of exactly the bytes given, so that a sanitizer sees reads behind it. */
static uint8_t *bytes;
static size_t length;
static struct kcd_reader r;
static struct kcd_error err;
static struct kcd_item it;

static void free_bytes(void)
{
	free(bytes);
	bytes = NULL;
}

static void load(const char *hex)
{
	static uint8_t tmp[4096];

	free_bytes();
	length = hex_bytes(hex, tmp, sizeof(tmp));
	bytes = malloc(length ? length : 1);
	ck_assert_ptr_nonnull(bytes);
	memcpy(bytes, tmp, length);
	memset(&err, 0, sizeof(err));
}

static enum kcd_code open_hex(const char *hex, enum kcd_mode mode)
{
	load(hex);
	return kcd_reader_init(&r, bytes, length, mode, &err);
}

/* Read one item of a buffer that holds it alone; it has to be good in both modes. */
static void read_one(const char *item)
{
	static char hex[4096];

	snprintf(hex, sizeof(hex), BEGIN "%s" END, item);
	ck_assert_int_eq(open_hex(hex, KCD_STRICT), KCD_OK);
	ck_assert_msg(kcd_reader_next(&r, &it) == KCD_OK, "%s: %s", item, err.reason);

	struct kcd_item next;
	enum kcd_code rc = kcd_reader_next(&r, &next);
	ck_assert_msg(rc == KCD_DONE, "%s: %s", item, err.reason);
}

/* What a buffer of these items comes to. */
static enum kcd_code read_all(const char *items, enum kcd_mode mode)
{
	static char hex[8192];

	snprintf(hex, sizeof(hex), BEGIN "%s", items);
	enum kcd_code rc = open_hex(hex, mode);
	while (!rc)
		rc = kcd_reader_next(&r, &it);
	return rc;
}

static unsigned findings;
static enum kcd_finding last_finding;
static struct kcd_error last;

static void take_finding(void *arg, const struct kcd_error *finding)
{
	(void)arg;
	findings++;
	last_finding = finding->finding;
	last = *finding;
}

/* Wrong in both modes, at this offset, for this reason. */
static void assert_wrong(const char *items, enum kcd_finding finding, size_t offset)
{
	for (int mode = KCD_TOLERANT; mode <= KCD_STRICT; mode++) {
		enum kcd_code rc = read_all(items, (enum kcd_mode)mode);

		ck_assert_msg(err.finding == finding, "%s: %s, not %s", items,
			      kcd_finding_name(err.finding), kcd_finding_name(finding));
		ck_assert_int_eq(rc, finding == KCD_FIND_TOO_DEEP ? KCD_ETOOBIG : KCD_EMALFORMED);
		ck_assert_int_eq(err.code, rc);
		ck_assert_uint_eq(err.offset, offset);
		ck_assert_uint_gt(strlen(err.reason), 0);
		ck_assert_int_eq(kcd_reader_next(&r, &it), rc); // it stays
	}
}

/* An error for a strict reader; a tolerant one reports it once and goes on. */
static void assert_odd(const char *items, enum kcd_finding finding, size_t offset)
{
	static char hex[8192];

	ck_assert_int_eq(read_all(items, KCD_STRICT), KCD_EMALFORMED);
	ck_assert_msg(err.finding == finding, "%s: %s", items, kcd_finding_name(err.finding));
	ck_assert_uint_eq(err.offset, offset);
	ck_assert_int_eq(read_all(items, KCD_TOLERANT), KCD_DONE);

	snprintf(hex, sizeof(hex), BEGIN "%s", items);
	findings = 0;
	enum kcd_code rc = open_hex(hex, KCD_TOLERANT);
	kcd_reader_on_finding(&r, take_finding, NULL);
	while (!rc)
		rc = kcd_reader_next(&r, &it);
	ck_assert_int_eq(rc, KCD_DONE);
	ck_assert_uint_eq(findings, 1);
	ck_assert_int_eq(last_finding, finding);
	ck_assert_uint_eq(last.offset, offset);
}

START_TEST(each_magic_begins_a_buffer)
{
	static const struct {
		const char *bytes;
		uint32_t magic;
		enum kcd_code rc;
	} row[] = {
		{ "57f1adde", KCD_MAGIC_CRASHINFO, KCD_OK },
		{ "0758a259", KCD_MAGIC_STACKSHOT, KCD_OK },
		{ "9aa517de", KCD_MAGIC_DELTA_STACKSHOT, KCD_OK },
		{ "504d4f43", KCD_MAGIC_COMPRESSED, KCD_ECOMPRESSED },
		{ "474e4146", KCD_MAGIC_BTINFO, KCD_OK },
		{ "0009a253", KCD_MAGIC_OS_REASON, KCD_OK },
		{ "9fc0211e", KCD_MAGIC_XNUPOST_CONFIG, KCD_OK },
		{ "ed5891f1", 0, KCD_EMALFORMED },
		{ "00000000", 0, KCD_EMALFORMED },
		{ "59a25807", 0, KCD_EMALFORMED }, // the wrong byte order
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		char hex[256];

		snprintf(hex, sizeof(hex), "%s 00000000 00000000 00000000" END, row[i].bytes);
		ck_assert_int_eq(open_hex(hex, KCD_STRICT), row[i].rc);
		ck_assert_uint_eq(r.magic, row[i].magic);
		if (row[i].rc == KCD_OK) {
			ck_assert_int_eq(kcd_reader_next(&r, &it), KCD_DONE);
		} else {
			ck_assert_int_eq(err.code, row[i].rc);
			ck_assert_int_eq(kcd_reader_next(&r, &it), row[i].rc);
		}
	}
}
END_TEST

START_TEST(an_empty_or_short_buffer_is_malformed)
{
	ck_assert_int_eq(kcd_reader_init(&r, NULL, 0, KCD_TOLERANT, &err), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_TRUNCATED_HEADER);
	ck_assert_int_eq(open_hex("0758a259 00000000 80000000 000000", KCD_TOLERANT),
			 KCD_EMALFORMED);
	ck_assert_int_eq(open_hex("0758a259 01000000 80000000 00000000", KCD_TOLERANT),
			 KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_TRUNCATED_ITEM);
	// without a place for the error
	ck_assert_int_eq(kcd_reader_init(&r, NULL, 0, KCD_TOLERANT, NULL), KCD_EMALFORMED);
}
END_TEST

START_TEST(a_record_has_its_logical_size)
{
	static const struct {
		const char *bytes;
		uint32_t size;
	} row[] = {
		{ "10090000 10000000 8c000000 00000000 01 ~", 4 },
		{ "10090000 10000000 80000000 00000000 01 ~", 16 },
		{ "10090000 10000000 8f000000 00000000 01 ~", 1 },
		{ "10090000 00000000 80000000 00000000", 0 },
		{ "10090000 10000000 00000000 00000000 01 ~", 16 }, // written before padding
		{ "10090000 00000000 81000000 00000000", 0 },	    // more padding than bytes
		{ "10090000 10000000 0c000000 00000000 01 ~", 4 },  // without bit 7
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		read_one(row[i].bytes);
		ck_assert_int_eq(it.kind, KCD_ITEM_RECORD);
		ck_assert_uint_eq(it.type, 0x910);
		ck_assert_uint_eq(it.size, row[i].size);
		ck_assert_uint_eq(it.elem_size, row[i].size);
		ck_assert_uint_eq(it.count, 1);
		ck_assert_uint_eq(it.record, 1);
		ck_assert_uint_eq(it.offset, 16);
		ck_assert_ptr_eq(it.data, bytes + 32);
	}
}
END_TEST

START_TEST(two_types_have_a_legacy_size)
{
	static const struct {
		const char *bytes;
		uint32_t size;
	} row[] = {
		{ "06090000 70000000 00000000 00000000 11*104 00*8", 104 },
		{ "06090000 70000000 80000000 00000000 11*112", 112 }, // v3, padding recorded
		{ "06090000 80000000 00000000 00000000 11*128", 128 }, // v4: no legacy size
		{ "08090000 20000000 00000000 00000000 11*24 00*8", 24 },
		{ "08090000 20000000 80000000 00000000 11*32", 32 },
		{ "08090000 30000000 00000000 00000000 11*48", 48 },
		{ "05090000 70000000 00000000 00000000 11*112", 112 },	    // any other type
		{ "06090000 70000000 00010000 00000000 11*104 00*8", 104 }, // high flags: no matter
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		read_one(row[i].bytes);
		ck_assert_uint_eq(it.size, row[i].size);
	}
}
END_TEST

START_TEST(new_arrays_have_their_padding_in_the_type)
{
	static const struct {
		const char *bytes;
		uint32_t elem_type, count, elem_size;
	} row[] = {
		{ "28000000 20000000 03000000 14090000 01*24 00*8", 0x914, 3, 8 },
		{ "22000000 40000000 02000000 1d090000 01*62 00*2", 0x91d, 2, 31 },
		{ "20000000 10000000 10000000 34120000 01*16", 0x1234, 16, 1 },
		{ "2f000000 10000000 01000000 34120000 01 ~", 0x1234, 1, 1 },
		{ "20000000 00000000 00000000 14090000", 0x914, 0, 0 },
		// elements larger than what is known of the type
		{ "20000000 40000000 02000000 14090000 01*64", 0x914, 2, 32 },
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		read_one(row[i].bytes);
		ck_assert_int_eq(it.kind, KCD_ITEM_ARRAY);
		ck_assert_uint_eq(it.type, KCD_TYPE_ARRAY);
		ck_assert_uint_eq(it.elem_type, row[i].elem_type);
		ck_assert_uint_eq(it.count, row[i].count);
		ck_assert_uint_eq(it.elem_size, row[i].elem_size);
		ck_assert_uint_eq(it.size, row[i].count * row[i].elem_size);
	}
}
END_TEST

START_TEST(every_padding_of_an_array_is_read)
{
	for (uint32_t pad = 0; pad < 16; pad++) {
		char hex[128];

		snprintf(hex, sizeof(hex), "2%x000000 10000000 %02x000000 34120000 00*16", pad,
			 16 - pad);
		read_one(hex);
		ck_assert_uint_eq(it.raw_type, 0x20 + pad);
		ck_assert_uint_eq(it.count, 16 - pad);
		ck_assert_uint_eq(it.elem_size, 1);
		ck_assert_uint_eq(it.size, 16 - pad);
	}
}
END_TEST

START_TEST(new_arrays_that_contradict_themselves_are_malformed)
{
	static const char *const bad[] = {
		"20000000 10000000 00000000 14090000 00*16", // no elements, but bytes
		"28000000 00000000 00000000 14090000",	     // padding without bytes
		"28000000 00000000 01000000 14090000",
		"20000000 10000000 03000000 14090000 00*16", // 16 / 3
		"20000000 10000000 11000000 14090000 00*16", // more elements than bytes
		"2f000000 10000000 02000000 14090000 00*16",
		"20000000 10000000 ffffffff 14090000 00*16",
	};

	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		char items[256];

		snprintf(items, sizeof(items), "%s" END, bad[i]);
		assert_wrong(items, KCD_FIND_ARRAY_SIZE, 16);
	}
}
END_TEST

START_TEST(old_arrays_have_known_elements)
{
	static const struct {
		const char *bytes;
		uint32_t elem_type, count, elem_size;
	} row[] = {
		{ "11000000 30000000 02000000 30000000 01*40 00*8", 0x30, 2, 20 },
		{ "11000000 30000000 02000000 31000000 01*48", 0x31, 2, 24 },
		{ "11000000 10000000 02000000 0a090000 01*16", 0x90a, 2, 8 },
		{ "11000000 10000000 01000000 0b090000 01*16", 0x90b, 1, 16 },
		{ "11000000 10000000 02000000 0c090000 01*16", 0x90c, 2, 8 },
		{ "11000000 20000000 02000000 0d090000 01*32", 0x90d, 2, 16 },
		{ "11000000 10000000 03000000 07090000 01*12 00*4", 0x907, 3, 4 },
		{ "11000000 30000000 01000000 41090000 01*48", 0x941, 1, 48 },
		{ "11000000 10000000 01000000 1a080000 01*8 00*8", 0x81a, 1, 8 },
		{ "11000000 00000000 00000000 0b090000", 0x90b, 0, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(row); i++) {
		read_one(row[i].bytes);
		ck_assert_int_eq(it.kind, KCD_ITEM_ARRAY);
		ck_assert_uint_eq(it.elem_type, row[i].elem_type);
		ck_assert_uint_eq(it.count, row[i].count);
		ck_assert_uint_eq(it.elem_size, row[i].elem_size);
		ck_assert_uint_eq(it.size, row[i].count * row[i].elem_size);
	}
}
END_TEST

START_TEST(old_arrays_that_cannot_be_measured_are_malformed)
{
	assert_wrong("11000000 10000000 01000000 06090000 00*16 " END, KCD_FIND_ARRAY_ELEMENT, 16);
	assert_wrong("11000000 10000000 01000000 14090000 00*16 " END, KCD_FIND_ARRAY_ELEMENT, 16);
	assert_wrong("11000000 10000000 01000000 34120000 00*16 " END, KCD_FIND_ARRAY_ELEMENT, 16);
	assert_wrong("11000000 10000000 02000000 0b090000 00*16 " END, KCD_FIND_ARRAY_SIZE, 16);
	assert_wrong("11000000 10000000 00000000 0b090000 00*16 " END, KCD_FIND_ARRAY_SIZE, 16);
	assert_wrong("11000000 10000000 ffffffff 07090000 00*16 " END, KCD_FIND_ARRAY_SIZE, 16);
}
END_TEST

START_TEST(items_know_the_container_they_are_in)
{
	static const struct {
		enum kcd_item_kind kind;
		uint32_t type, depth, container_type;
		uint64_t container_id;
		size_t offset;
	} want[] = {
		{ KCD_ITEM_RECORD, 0x910, 0, 0, 0, 16 },
		{ KCD_ITEM_CONTAINER_BEGIN, 0x13, 0, 0x903, 7, 48 },
		{ KCD_ITEM_RECORD, 0x925, 1, 0x903, 7, 80 },
		{ KCD_ITEM_CONTAINER_BEGIN, 0x13, 1, 0x904, 7, 112 },
		{ KCD_ITEM_ARRAY, 0x11, 2, 0x904, 7, 144 },
		{ KCD_ITEM_CONTAINER_END, 0x14, 1, 0x904, 7, 160 },
		{ KCD_ITEM_RECORD, 0x925, 1, 0x903, 7, 176 },
		{ KCD_ITEM_CONTAINER_END, 0x14, 0, 0x903, 7, 208 },
		{ KCD_ITEM_RECORD, 0x911, 0, 0, 0, 224 },
	};

	ck_assert_int_eq(open_hex(BEGIN "10090000 10000000 8c000000 00000000 00*16 "
					"13000000 10000000 07000000 00000000 03090000 ~"
					"25090000 10000000 8c000000 00000000 00*16 "
					"13000000 10000000 07000000 00000000 04090000 ~"
					"20000000 00000000 00000000 14090000"
					"14000000 00000000 07000000 00000000"
					"25090000 10000000 8c000000 00000000 00*16 "
					"14000000 00000000 07000000 00000000"
					"11090000 10000000 8c000000 00000000 00*16 " END,
				  KCD_STRICT),
			 KCD_OK);
	for (size_t i = 0; i < COUNT_OF(want); i++) {
		ck_assert_int_eq(kcd_reader_next(&r, &it), KCD_OK);
		ck_assert_int_eq(it.kind, want[i].kind);
		ck_assert_uint_eq(it.type, want[i].type);
		ck_assert_uint_eq(it.depth, want[i].depth);
		ck_assert_uint_eq(it.container_type, want[i].container_type);
		ck_assert_uint_eq(it.container_id, want[i].container_id);
		ck_assert_uint_eq(it.offset, want[i].offset);
		ck_assert_uint_eq(it.record, i + 1);
	}
	ck_assert_int_eq(kcd_reader_next(&r, &it), KCD_DONE);
	ck_assert_int_eq(kcd_reader_next(&r, &it), KCD_DONE);
	ck_assert_uint_eq(r.pos, length);
}
END_TEST

START_TEST(containers_that_do_not_match_are_malformed)
{
	// another id; not closed; too short for its type
	assert_wrong("13000000 10000000 07000000 00000000 03090000 ~"
		     "14000000 00000000 08000000 00000000" END,
		     KCD_FIND_CONTAINER_ID, 48);
	assert_wrong("13000000 10000000 07000000 00000000 03090000 ~" END, KCD_FIND_CONTAINER_OPEN,
		     48);
	assert_wrong("13000000 00000000 07000000 00000000" END, KCD_FIND_CONTAINER_SHORT, 16);
}
END_TEST

START_TEST(containers_of_unaligned_size_are_only_odd)
{
	assert_odd("13000000 04000000 07000000 00000000 03090000"
		   "14000000 00000000 07000000 00000000" END,
		   KCD_FIND_UNALIGNED, 16);
}
END_TEST

START_TEST(more_than_sixteen_levels_are_refused)
{
	static char items[8192];
	size_t n = 0;

	for (int i = 0; i < 17; i++)
		n += (size_t)snprintf(items + n, sizeof(items) - n,
				      "13000000 10000000 07000000 00000000 03090000"
				      "000000000000000000000000 ");
	assert_wrong(items, KCD_FIND_TOO_DEEP, 16 + 16 * 32);
}
END_TEST

START_TEST(a_stray_end_of_a_container_is_skipped_in_tolerant_mode)
{
	assert_odd("14000000 00000000 07000000 00000000"
		   "10090000 10000000 8c000000 00000000 00*16 " END,
		   KCD_FIND_CONTAINER_STRAY, 16);
	ck_assert_uint_eq(it.type, 0x910);
	ck_assert_uint_eq(it.record, 2);
}
END_TEST

START_TEST(padding_that_is_not_zero_is_odd)
{
	assert_odd("10090000 10000000 8c000000 00000000 01000000 00*11 01" END, KCD_FIND_PADDING,
		   16);
	assert_odd("28000000 10000000 01000000 14090000 00*8 01 ~" END, KCD_FIND_PADDING, 16);
	assert_odd("11000000 10000000 01000000 07090000 00*15 01" END, KCD_FIND_PADDING, 16);
	assert_odd("06090000 70000000 00000000 00000000 00*111 01" END, KCD_FIND_PADDING, 16);
	assert_odd("13000000 10000000 07000000 00000000 03090000 01 ~"
		   "14000000 00000000 07000000 00000000" END,
		   KCD_FIND_PADDING, 16);
}
END_TEST

START_TEST(unaligned_payloads_are_odd_but_readable)
{
	assert_odd("05080000 08000000 00000000 00000000 2a 00*7 " END, KCD_FIND_UNALIGNED, 16);
	ck_assert_uint_eq(it.size, 8);
}
END_TEST

START_TEST(a_magic_inside_of_a_buffer_is_odd)
{
	assert_odd(BEGIN END, KCD_FIND_MAGIC_INSIDE, 16);
}
END_TEST

START_TEST(only_zeros_may_follow_the_end)
{
	ck_assert_int_eq(read_all(END "00*64", KCD_STRICT), KCD_DONE);
	assert_odd(END "00*63 01", KCD_FIND_TRAILING, 16);
	assert_odd(END "7f", KCD_FIND_TRAILING, 16);
}
END_TEST

START_TEST(a_type_definition_is_an_item_of_its_own)
{
	read_one("12000000 80000000 08000000 00000000 01100100 02000000 00*120");
	ck_assert_int_eq(it.kind, KCD_ITEM_TYPEDEF);
	ck_assert_uint_eq(it.size, 120);
}
END_TEST

START_TEST(a_buffer_cut_anywhere_is_never_read_beyond_the_cut)
{
	static uint8_t whole[1024];
	size_t len = hex_bytes(BEGIN "10090000 10000000 8c000000 00000000 00*16 "
				     "13000000 10000000 07000000 00000000 03090000 ~"
				     "28000000 20000000 03000000 14090000 01*24 ~"
				     "14000000 00000000 07000000 00000000" END,
			       whole, sizeof(whole));

	for (size_t cut = 0; cut < len; cut++) {
		uint8_t *part = malloc(cut ? cut : 1);
		ck_assert_ptr_nonnull(part);
		memcpy(part, whole, cut);

		enum kcd_code rc = kcd_reader_init(&r, part, cut, KCD_TOLERANT, &err);
		while (!rc) {
			size_t before = r.pos;
			rc = kcd_reader_next(&r, &it);
			if (!rc)
				ck_assert_uint_ge(r.pos, before + 16);
		}
		ck_assert_int_eq(rc, KCD_EMALFORMED);
		ck_assert(err.finding == KCD_FIND_TRUNCATED_HEADER ||
			  err.finding == KCD_FIND_TRUNCATED_ITEM);
		ck_assert_uint_le(err.offset, cut);
		free(part);
	}
}
END_TEST

START_TEST(a_payload_larger_than_the_buffer_is_malformed)
{
	assert_wrong("10090000 f0ffffff 8c000000 00000000" END, KCD_FIND_TRUNCATED_ITEM, 16);
	assert_wrong("10090000 ffffffff 8c000000 00000000" END, KCD_FIND_TRUNCATED_ITEM, 16);
	ck_assert_uint_eq(err.record, 1);
	ck_assert_uint_eq(err.type, 0x910);
}
END_TEST

/* The value of an item, or nothing. */
static bool value_of(const char *item, const char *want_name, uint64_t want)
{
	const char *name;
	uint64_t value;

	read_one(item);
	if (!kcd_item_value(&it, &name, &value))
		return false;
	ck_assert_str_eq(name, want_name);
	ck_assert_uint_eq(value, want);
	return true;
}

START_TEST(named_values_are_read)
{
	ck_assert(value_of("03000000 30000000 88000000 00000000 6162 00*30 efcdab8967452301 ~",
			   "ab", 0x0123456789abcdef));
	ck_assert(value_of("02000000 30000000 8c000000 00000000 6162 00*30 ffffffff ~", "ab",
			   0xffffffff));
	ck_assert(value_of("04000000 30000000 8c000000 00000000 6162 00*30 feffffff ~", "ab",
			   (uint64_t)-2));
	ck_assert(value_of("05000000 30000000 88000000 00000000 6162 00*30 ff*8 ~", "ab",
			   UINT64_MAX));
	// old writers: no padding flags
	ck_assert(value_of("03000000 30000000 00000000 00000000 6162 00*30 01 ~", "ab", 1));
	// other type; one byte short; a name without end
	ck_assert(!value_of("06000000 30000000 88000000 00000000 6162 00*46", "", 0));
	ck_assert(!value_of("03000000 30000000 89000000 00000000 6162 00*46", "", 0));
	ck_assert(!value_of("03000000 30000000 88000000 00000000 61*32 00*16", "", 0));
}
END_TEST

START_TEST(records_are_copied_into_any_version_of_their_struct)
{
	struct kcd_cpu_times_v2 v2;
	uint8_t v1[KCD_SS_CPU_TIMES_V1_SIZE];

	memset(&v2, 0xff, sizeof(v2));
	read_one("19090000 10000000 80000000 00000000 01 00*7 02 00*7");
	ck_assert_uint_eq(kcd_item_copy(&it, &v2, sizeof(v2)), 16);
	ck_assert_uint_eq(v2.user_usec, 1);
	ck_assert_uint_eq(v2.system_usec, 2);
	ck_assert_uint_eq(v2.runnable_usec, 0);
	read_one("19090000 20000000 88000000 00000000 01 00*7 02 00*7 03 ~");
	ck_assert_uint_eq(kcd_item_copy(&it, v1, sizeof(v1)), 16);
	ck_assert_uint_eq(kcd_item_copy(&it, &v2, sizeof(v2)), 24);
	ck_assert_uint_eq(v2.runnable_usec, 3);
}
END_TEST

START_TEST(elements_are_copied_by_index)
{
	uint64_t lr;
	uint16_t narrow;

	read_one("28000000 20000000 03000000 14090000 01 00*7 02 00*7 0304 ~");
	ck_assert_uint_eq(kcd_item_copy_elem(&it, 2, &lr, sizeof(lr)), 8);
	ck_assert_uint_eq(lr, 0x0403);
	ck_assert_uint_eq(kcd_item_copy_elem(&it, 1, &narrow, sizeof(narrow)), 2);
	ck_assert_uint_eq(narrow, 2);
	ck_assert_uint_eq(kcd_item_copy_elem(&it, 3, &lr, sizeof(lr)), 0);
	ck_assert_uint_eq(lr, 0);
}
END_TEST

START_TEST(codes_and_findings_have_names)
{
	for (int i = KCD_OK; i <= KCD_EIO; i++)
		ck_assert_str_ne(kcd_code_name((enum kcd_code)i), "unknown");
	for (int i = KCD_FIND_NONE; i <= KCD_FIND_TRAILING; i++)
		ck_assert_str_ne(kcd_finding_name((enum kcd_finding)i), "unknown");
	ck_assert_str_eq(kcd_code_name((enum kcd_code)99), "unknown");
	ck_assert_str_eq(kcd_finding_name((enum kcd_finding)99), "unknown");
}
END_TEST

Suite *suite_reader(void)
{
	Suite *s = suite_create("reader");
	TCase *tc = tcase_create("reader");

	tcase_add_checked_fixture(tc, NULL, free_bytes);
	tcase_add_test(tc, each_magic_begins_a_buffer);
	tcase_add_test(tc, an_empty_or_short_buffer_is_malformed);
	tcase_add_test(tc, a_record_has_its_logical_size);
	tcase_add_test(tc, two_types_have_a_legacy_size);
	tcase_add_test(tc, new_arrays_have_their_padding_in_the_type);
	tcase_add_test(tc, every_padding_of_an_array_is_read);
	tcase_add_test(tc, new_arrays_that_contradict_themselves_are_malformed);
	tcase_add_test(tc, old_arrays_have_known_elements);
	tcase_add_test(tc, old_arrays_that_cannot_be_measured_are_malformed);
	tcase_add_test(tc, items_know_the_container_they_are_in);
	tcase_add_test(tc, containers_that_do_not_match_are_malformed);
	tcase_add_test(tc, containers_of_unaligned_size_are_only_odd);
	tcase_add_test(tc, more_than_sixteen_levels_are_refused);
	tcase_add_test(tc, a_stray_end_of_a_container_is_skipped_in_tolerant_mode);
	tcase_add_test(tc, padding_that_is_not_zero_is_odd);
	tcase_add_test(tc, unaligned_payloads_are_odd_but_readable);
	tcase_add_test(tc, a_magic_inside_of_a_buffer_is_odd);
	tcase_add_test(tc, only_zeros_may_follow_the_end);
	tcase_add_test(tc, a_type_definition_is_an_item_of_its_own);
	tcase_add_test(tc, a_buffer_cut_anywhere_is_never_read_beyond_the_cut);
	tcase_add_test(tc, a_payload_larger_than_the_buffer_is_malformed);
	tcase_add_test(tc, named_values_are_read);
	tcase_add_test(tc, records_are_copied_into_any_version_of_their_struct);
	tcase_add_test(tc, elements_are_copied_by_index);
	tcase_add_test(tc, codes_and_findings_have_names);
	suite_add_tcase(s, tc);
	return s;
}
