/* SPDX-License-Identifier: Apache-2.0 */
/* Every finding has a stream that shows it, and a name. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "kcdata/validate.h"
#include "tests/unit/kcdata/suites.h"

#define BEGIN		"0758a259 00000000 80000000 00000000 "
#define END		"ed5891f1 00000000 00000000 00000000 "
#define PAGE_SIZE_IS(v) "10090000 10000000 8c000000 00000000 " v "~ "
#define TASK(id)	"13000000 10000000 " id "000000 00000000 03090000~ "
#define CLOSE(id)	"14000000 00000000 " id "000000 00000000 "
#define NAMED(name)	"02000000 30000000 8c000000 00000000 " name "~00*16 01~ "
#define WRAPPER(type, in, span)                                                                \
	"504d4f43 00000000 80000000 00000000 "                                                 \
	"03000000 30000000 88000000 00000000 6b63645f635f7479706500~ 00*16 " type "00*7 00*8 " \
	"03000000 30000000 88000000 00000000 6b63645f635f746f74616c6f757400~ 00*16 " span      \
	"00*7 00*8 "                                                                           \
	"03000000 30000000 88000000 00000000 6b63645f635f746f74616c696e00~ 00*16 " in          \
	"00*7 00*8 " BEGIN

/* The zlib stream of nothing at all: 48 0d 03 00 00 00 00 01 */
#define NOTHING "480d030000000001"

static const struct {
	const char *hex;
	enum kcd_finding finding; /* KCD_FIND_NONE: nothing is wrong */
	const char *name;
} cases[] = {
	{ BEGIN END, KCD_FIND_NONE, "none" },
	{ BEGIN PAGE_SIZE_IS("01") TASK("01") PAGE_SIZE_IS("01") CLOSE("01") TASK("02") CLOSE("02")
		  END "00*32",
	  KCD_FIND_NONE, "none" },
	{ "01000000 00*12", KCD_FIND_NO_MAGIC, "no-magic" },
	{ "", KCD_FIND_TRUNCATED_HEADER, "truncated-header" },
	{ BEGIN, KCD_FIND_TRUNCATED_HEADER, "truncated-header" },
	{ BEGIN "10090000 10000000 00*8", KCD_FIND_TRUNCATED_ITEM, "truncated-item" },
	{ BEGIN "20000000 10000000 03000000 14090000 00*16" END, KCD_FIND_ARRAY_SIZE,
	  "array-size" },
	{ BEGIN "11000000 10000000 01000000 05090000 00*16" END, KCD_FIND_ARRAY_ELEMENT,
	  "array-element-unknown" },
	{ BEGIN "13000000 00000000 00*8" END, KCD_FIND_CONTAINER_SHORT, "container-too-short" },
	{ BEGIN TASK("01") CLOSE("02") END, KCD_FIND_CONTAINER_ID, "container-id-mismatch" },
	{ BEGIN TASK("01") END, KCD_FIND_CONTAINER_OPEN, "container-not-closed" },
	{ BEGIN TASK("01") TASK("01") TASK("01") TASK("01") TASK("01") TASK("01") TASK("01")
		  TASK("01") TASK("01") TASK("01") TASK("01") TASK("01") TASK("01") TASK("01")
			  TASK("01") TASK("01") TASK("01"),
	  KCD_FIND_TOO_DEEP, "too-deep" },
	{ BEGIN CLOSE("01") END, KCD_FIND_CONTAINER_STRAY, "container-end-stray" },
	{ BEGIN "10090000 10000000 8c000000 00000000 00*15 01" END, KCD_FIND_PADDING,
	  "padding-not-zero" },
	{ BEGIN "10090000 04000000 80000000 00000000 00*4" END, KCD_FIND_UNALIGNED,
	  "size-unaligned" },
	{ "0758a259 04000000 80000000 00000000 00*4" END, KCD_FIND_UNALIGNED, "size-unaligned" },
	{ BEGIN BEGIN END, KCD_FIND_MAGIC_INSIDE, "magic-inside" },
	{ BEGIN END "00 01", KCD_FIND_TRAILING, "trailing-bytes" },
	{ BEGIN "38000000 10000000 80000000 00000000 00*16" END, KCD_FIND_NESTED, "nested-buffer" },
	{ BEGIN PAGE_SIZE_IS("01") PAGE_SIZE_IS("01") END, KCD_FIND_KEY_REPEATED, "key-repeated" },
	{ BEGIN NAMED("6100") NAMED("6100") END, KCD_FIND_KEY_REPEATED, "key-repeated" },
	{ BEGIN TASK("01") CLOSE("01") TASK("01") CLOSE("01") END, KCD_FIND_CONTAINER_REPEATED,
	  "container-repeated" },
	{ BEGIN "12000000 30000000 00*8 00*48" END, KCD_FIND_TYPEDEF, "type-definition" },
	{ BEGIN "10090000 10000000 8c010000 00000000 01~" END, KCD_FIND_FLAGS, "flags" },
	{ BEGIN "10090000 00000000 8c000000 00000000" END, KCD_FIND_FLAGS, "flags" },
	{ BEGIN "10090000 10000000 8e000000 00000000 0100~" END, KCD_FIND_VALUE_SHORT,
	  "value-too-short" },
	{ BEGIN "02000000 20000000 80000000 00000000 6100~00*16" END, KCD_FIND_VALUE_SHORT,
	  "value-too-short" },
	{ BEGIN NAMED("00") END, KCD_FIND_VALUE_NAME, "value-name" },
	{ BEGIN NAMED("2200") END, KCD_FIND_VALUE_NAME, "value-name" },
	{ BEGIN "02000000 30000000 8c000000 00000000 61*32 01~" END, KCD_FIND_VALUE_NAME,
	  "value-name" },
	{ "474e4146 00*12" END, KCD_FIND_MAGIC_UNCOMMON, "magic-uncommon" },
	{ WRAPPER("01", "00", "08") NOTHING END, KCD_FIND_NONE, "none" },
	{ WRAPPER("01", "00", "99") NOTHING END, KCD_FIND_FRAME, "compressed-frame" },
	{ "504d4f43 00*12" END, KCD_FIND_FRAME, "compressed-frame" },
	{ WRAPPER("02", "00", "08") NOTHING END, KCD_FIND_ALGORITHM,
	  "compressed-algorithm-unknown" },
	{ WRAPPER("01", "00", "08") "00*8" END, KCD_FIND_DATA, "compressed-data" },
	{ WRAPPER("01", "10", "08") NOTHING END, KCD_FIND_LENGTH, "compressed-length" },
	{ WRAPPER("01", "00", "08") NOTHING, KCD_FIND_FRAME_END, "compressed-frame-end" },
	{ WRAPPER("01", "00", "09") NOTHING "00" END, KCD_FIND_SPAN_TAIL, "compressed-span-tail" },
};

static struct kcd_error seen[64];
static uint32_t count;

static void take(void *arg, const struct kcd_error *e)
{
	(void)arg;
	if (count < COUNT_OF(seen))
		seen[count] = *e;
	count++;
}

START_TEST(a_stream_shows_its_finding)
{
	static uint8_t tmp[4096];
	struct kcd_verdict v;

	size_t len = hex_bytes(cases[_i].hex, tmp, sizeof(tmp));
	uint8_t *bytes = malloc(len ? len : 1);
	memcpy(bytes, tmp, len);
	count = 0;
	ck_assert_int_eq(kcd_validate(bytes, len, NULL, take, NULL, &v), KCD_OK);
	free(bytes);
	ck_assert_uint_eq(v.findings, count);
	if (cases[_i].finding == KCD_FIND_NONE) {
		ck_assert_msg(count == 0, "%s: %s", kcd_finding_name(seen[0].finding),
			      seen[0].reason);
		ck_assert(v.whole);
		return;
	}
	ck_assert_msg(v.count[cases[_i].finding] >= 1, "case %d: %u findings, the first %s: %s", _i,
		      count, count ? kcd_finding_name(seen[0].finding) : "-", seen[0].reason);
	ck_assert_str_eq(kcd_finding_name(cases[_i].finding), cases[_i].name);
	ck_assert_int_eq(v.errors > 0, kcd_finding_is_error(cases[_i].finding));
}
END_TEST

START_TEST(every_finding_has_its_own_name)
{
	for (int i = 0; i < KCD_FINDINGS; i++) {
		ck_assert_str_ne(kcd_finding_name((enum kcd_finding)i), "unknown");
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(kcd_finding_name((enum kcd_finding)i),
					 kcd_finding_name((enum kcd_finding)k));
	}
}
END_TEST

START_TEST(every_finding_of_the_table_is_shown)
{
	// a limit needs a limit, and 4 GiB are not made here
	for (int f = KCD_FIND_NO_MAGIC; f < KCD_FINDINGS; f++) {
		bool shown =
			f == KCD_FIND_LIMIT || f == KCD_FIND_TOO_LARGE || f == KCD_FIND_FRAME_EXTRA;
		for (size_t i = 0; i < COUNT_OF(cases); i++)
			shown |= cases[i].finding == (enum kcd_finding)f;
		ck_assert_msg(shown, "%s", kcd_finding_name((enum kcd_finding)f));
	}
}
END_TEST

START_TEST(a_limit_is_a_finding)
{
	static const struct kcd_inflate_limits limits = { .totalin_max = 1 };
	uint8_t bytes[512];
	size_t len = hex_bytes(WRAPPER("01", "10", "08") NOTHING END, bytes, sizeof(bytes));
	struct kcd_verdict v;

	ck_assert_int_eq(kcd_validate(bytes, len, &limits, take, NULL, &v), KCD_OK);
	ck_assert_uint_eq(v.count[KCD_FIND_LIMIT], 1);
}
END_TEST

START_TEST(oddities_do_not_hide_what_follows)
{
	uint8_t bytes[512];
	size_t len =
		hex_bytes(BEGIN CLOSE("01") "10090000 10000000 8c010000 00000000 01~" PAGE_SIZE_IS(
				  "02") "10090000 10000000 8c000000 00000000 00*15 01" END "01",
			  bytes, sizeof(bytes));
	struct kcd_verdict v;

	ck_assert_int_eq(kcd_validate(bytes, len, NULL, take, NULL, &v), KCD_OK);
	ck_assert_uint_eq(v.count[KCD_FIND_CONTAINER_STRAY], 1);
	ck_assert_uint_eq(v.count[KCD_FIND_FLAGS], 1);
	ck_assert_uint_eq(v.count[KCD_FIND_PADDING], 1);
	ck_assert_uint_eq(v.count[KCD_FIND_KEY_REPEATED], 2);
	ck_assert_uint_eq(v.count[KCD_FIND_TRAILING], 1);
	ck_assert_uint_eq(v.findings, 6);
	ck_assert(v.whole);
}
END_TEST

/* Many names in one container: tables grow, nothing takes quadratic time. */
START_TEST(many_names_are_no_problem)
{
	enum { N = 200000 };
	size_t size = (size_t)N * 16 + 64;
	uint8_t *bytes = calloc(1, size);
	struct kcd_header h = { KCD_MAGIC_STACKSHOT, 0, KCD_FLAG_HAS_PADDING };
	struct kcd_verdict v;
	size_t at = 0;

	ck_assert_ptr_nonnull(bytes);
	memcpy(bytes, &h, 16);
	for (uint32_t i = 0; i < N; i++) {
		h.type = 0x10000 + i;
		memcpy(bytes + (at += 16), &h, 16);
	}
	h = (struct kcd_header){ .type = KCD_MAGIC_END };
	memcpy(bytes + at + 16, &h, 16);
	ck_assert_int_eq(kcd_validate(bytes, at + 32, NULL, NULL, NULL, &v), KCD_OK);
	ck_assert_uint_eq(v.findings, 0);
	ck_assert_uint_eq(v.records, N);
	free(bytes);
}
END_TEST

Suite *suite_validate(void)
{
	Suite *s = suite_create("validate");
	TCase *t = tcase_create("validate");

	tcase_add_loop_test(t, a_stream_shows_its_finding, 0, COUNT_OF(cases));
	tcase_add_test(t, every_finding_has_its_own_name);
	tcase_add_test(t, every_finding_of_the_table_is_shown);
	tcase_add_test(t, a_limit_is_a_finding);
	tcase_add_test(t, oddities_do_not_hide_what_follows);
	tcase_add_test(t, many_names_are_no_problem);
	suite_add_tcase(s, t);
	return s;
}
