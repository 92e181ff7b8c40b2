/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: form, escaping, numbers at their ends, and a sink that refuses. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "kcdata/json.h"
#include "tests/unit/kcdata/suites.h"

static char text[65536];
static size_t text_len;
static size_t sink_limit;
static struct kcd_json j;

static bool to_text(void *arg, const void *data, size_t len)
{
	(void)arg;
	if (len > sink_limit - text_len)
		return false;
	memcpy(text + text_len, data, len);
	text_len += len;
	text[text_len] = '\0';
	return true;
}

static void start(uint32_t flags)
{
	text_len = 0;
	text[0] = '\0';
	sink_limit = sizeof(text) - 1;
	kcd_json_init(&j, to_text, NULL, flags);
}

static void assert_text(const char *want)
{
	ck_assert_int_eq(kcd_json_finish(&j), KCD_OK);
	ck_assert_str_eq(text, want);
}

/* A document with everything in it. */
static void write_all_kinds(void)
{
	kcd_json_object_begin(&j);
	kcd_json_member_u64(&j, "n", 1);
	kcd_json_key(&j, "list");
	kcd_json_array_begin(&j);
	kcd_json_u64(&j, 1);
	kcd_json_string(&j, "two");
	kcd_json_object_begin(&j);
	kcd_json_object_end(&j);
	kcd_json_array_begin(&j);
	kcd_json_array_end(&j);
	kcd_json_array_end(&j);
	kcd_json_key(&j, "o");
	kcd_json_object_begin(&j);
	kcd_json_member_bool(&j, "t", true);
	kcd_json_member_bool(&j, "f", false);
	kcd_json_key(&j, "null");
	kcd_json_null(&j);
	kcd_json_member_string(&j, "none", NULL);
	kcd_json_member_hex(&j, "x", 0xffff800008000000);
	kcd_json_member_i64(&j, "i", -1);
	kcd_json_object_end(&j);
	kcd_json_object_end(&j);
}

START_TEST(compact_output_has_no_blanks)
{
	start(0);
	write_all_kinds();
	assert_text("{\"n\":1,\"list\":[1,\"two\",{},[]],\"o\":{\"t\":true,\"f\":false,"
		    "\"null\":null,\"none\":null,\"x\":\"0xffff800008000000\",\"i\":-1}}");
}
END_TEST

START_TEST(pretty_output_is_indented_and_empty_things_stay_short)
{
	start(KCD_JSON_PRETTY);
	write_all_kinds();
	assert_text("{\n"
		    "  \"n\": 1,\n"
		    "  \"list\": [\n"
		    "    1,\n"
		    "    \"two\",\n"
		    "    {},\n"
		    "    []\n"
		    "  ],\n"
		    "  \"o\": {\n"
		    "    \"t\": true,\n"
		    "    \"f\": false,\n"
		    "    \"null\": null,\n"
		    "    \"none\": null,\n"
		    "    \"x\": \"0xffff800008000000\",\n"
		    "    \"i\": -1\n"
		    "  }\n"
		    "}\n");
}
END_TEST

START_TEST(numbers_are_written_whole_up_to_their_ends)
{
	start(0);
	kcd_json_array_begin(&j);
	kcd_json_u64(&j, 0);
	kcd_json_u64(&j, UINT64_MAX);
	kcd_json_i64(&j, INT64_MIN);
	kcd_json_i64(&j, INT64_MAX);
	kcd_json_i64(&j, 0);
	kcd_json_hex(&j, 0);
	kcd_json_hex(&j, UINT64_MAX);
	kcd_json_fixed(&j, 1234567, 6);
	kcd_json_fixed(&j, 7, 3);
	kcd_json_fixed(&j, 7, 0);
	kcd_json_fixed(&j, UINT64_MAX, 18);
	kcd_json_array_end(&j);
	assert_text("[0,18446744073709551615,-9223372036854775808,9223372036854775807,0,"
		    "\"0x0\",\"0xffffffffffffffff\",1.234567,0.007,7,18.446744073709551615]");
}
END_TEST

/* One string in a document of its own. */
static void assert_string(uint32_t flags, const void *in, size_t len, const char *want)
{
	start(flags);
	kcd_json_string_bytes(&j, in, len);
	assert_text(want);
}

#define BYTES(literal) (literal), sizeof(literal) - 1

START_TEST(control_characters_quotes_and_backslashes_are_escaped)
{
	assert_string(0, BYTES("a\"b\\c"), "\"a\\\"b\\\\c\"");
	assert_string(0, BYTES("\n\r\t\b\x1b[2J\x7f"), "\"\\n\\r\\t\\u0008\\u001b[2J\\u007f\"");
	assert_string(0, BYTES("a\0b"), "\"a\\u0000b\"");
	assert_string(0, BYTES(""), "\"\"");
	assert_string(0, BYTES("</script>&"), "\"</script>&\"");
	assert_string(KCD_JSON_HTML_SAFE, BYTES("</script>&"), "\"\\u003c/script\\u003e\\u0026\"");
}
END_TEST

START_TEST(valid_utf8_passes_except_what_harms_a_display)
{
	assert_string(0, BYTES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
		      "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
	assert_string(0, BYTES("\xc2\x80\xc2\x9f\xc2\xa0"), "\"\\u0080\\u009f\xc2\xa0\"");
	assert_string(0, BYTES("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
		      "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\"");
	// the ends of each length
	assert_string(0, BYTES("\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"),
		      "\"\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"");
}
END_TEST

/* Sequences of bytes that are not UTF-8, and how many bytes of each stand alone. */
static const struct {
	const char *bytes;
	size_t len;
} bad[] = {
	{ BYTES("\x80") },	       // a continuation alone
	{ BYTES("\xff") },	       // never legal
	{ BYTES("\xc3") },	       // cut
	{ BYTES("\xe2\x82") },	       // cut after two
	{ BYTES("\xf0\x9f\x98") },     // cut after three
	{ BYTES("\xc0\x80") },	       // overlong NUL
	{ BYTES("\xc1\xbf") },	       // overlong
	{ BYTES("\xe0\x9f\xbf") },     // overlong
	{ BYTES("\xf0\x8f\xbf\xbf") }, // overlong
	{ BYTES("\xed\xa0\x80") },     // a surrogate
	{ BYTES("\xf4\x90\x80\x80") }, // over U+10FFFF
	{ BYTES("\xf5\x80\x80\x80") },
};

START_TEST(bytes_that_are_no_utf8_become_a_replacement_or_a_surrogate_each)
{
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		char replaced[64] = "\"";
		char surrogate[64] = "\"";

		for (size_t b = 0; b < bad[i].len; b++) {
			snprintf(replaced + strlen(replaced), 16, "\\ufffd");
			snprintf(surrogate + strlen(surrogate), 16, "\\udc%02x",
				 (unsigned char)bad[i].bytes[b]);
		}
		strcat(replaced, "\"");
		strcat(surrogate, "\"");
		assert_string(0, bad[i].bytes, bad[i].len, replaced);
		assert_string(KCD_JSON_BYTES_SURROGATE, bad[i].bytes, bad[i].len, surrogate);
	}
	assert_string(KCD_JSON_BYTES_SURROGATE, BYTES("\xc3\xa4\xe4"), "\"\xc3\xa4\\udce4\"");
	assert_string(0, BYTES("\xe2\x82z"), "\"\\ufffd\\ufffdz\"");
}
END_TEST

START_TEST(the_stock_mode_escapes_each_byte_beyond_ascii)
{
	assert_string(KCD_JSON_BYTES_STOCK, BYTES("a\xc3\xa4\xff"), "\"a\\udcc3\\udca4\\udcff\"");
}
END_TEST

START_TEST(strings_without_certain_end_are_bounded)
{
	start(0);
	kcd_json_object_begin(&j);
	kcd_json_key_n(&j, "keyword", 3);
	kcd_json_string_n(&j, "abc\0def", 7);
	kcd_json_key_n(&j, "a\"b", 99);
	kcd_json_string_n(&j, "abcdef", 3);
	kcd_json_object_end(&j);
	assert_text("{\"key\":\"abc\",\"a\\\"b\":\"abc\"}");
}
END_TEST

START_TEST(documents_can_follow_one_another)
{
	start(0);
	kcd_json_u64(&j, 1);
	kcd_json_next_document(&j);
	kcd_json_array_begin(&j);
	kcd_json_array_end(&j);
	assert_text("1\n[]");
}
END_TEST

START_TEST(output_longer_than_the_buffer_arrives_whole)
{
	static char want[40000];
	size_t n = 0;

	start(0);
	kcd_json_array_begin(&j);
	want[n++] = '[';
	for (unsigned i = 0; i < 5000; i++) {
		kcd_json_u64(&j, i);
		n += (size_t)sprintf(want + n, "%s%u", i ? "," : "", i);
	}
	kcd_json_array_end(&j);
	strcpy(want + n, "]");
	assert_text(want);
}
END_TEST

START_TEST(a_sink_that_refuses_ends_in_an_error)
{
	for (size_t limit = 0; limit < 4000; limit += 500) {
		start(0);
		sink_limit = limit;
		kcd_json_array_begin(&j);
		for (unsigned i = 0; i < 2000; i++)
			kcd_json_u64(&j, i);
		kcd_json_array_end(&j);
		ck_assert(kcd_json_failed(&j));
		ck_assert_int_eq(kcd_json_finish(&j), KCD_EIO);
		ck_assert_uint_le(text_len, limit);
	}
}
END_TEST

START_TEST(a_flush_gives_what_is_there)
{
	start(0);
	kcd_json_array_begin(&j);
	kcd_json_u64(&j, 12);
	ck_assert_str_eq(text, "");
	kcd_json_flush(&j);
	ck_assert_str_eq(text, "[12");
	kcd_json_array_end(&j);
	assert_text("[12]");
}
END_TEST

START_TEST(nesting_goes_to_its_cap)
{
	start(0);
	for (unsigned i = 0; i < KCD_JSON_DEPTH_MAX; i++)
		kcd_json_array_begin(&j);
	kcd_json_u64(&j, 1);
	for (unsigned i = 0; i < KCD_JSON_DEPTH_MAX; i++)
		kcd_json_array_end(&j);
	ck_assert_int_eq(kcd_json_finish(&j), KCD_OK);
	ck_assert_uint_eq(text_len, 2 * KCD_JSON_DEPTH_MAX + 1);
}
END_TEST

static void value_without_key(void)
{
	kcd_json_object_begin(&j);
	kcd_json_u64(&j, 1);
}

static void key_without_value(void)
{
	kcd_json_object_begin(&j);
	kcd_json_key(&j, "a");
	kcd_json_object_end(&j);
}

static void key_after_key(void)
{
	kcd_json_object_begin(&j);
	kcd_json_key(&j, "a");
	kcd_json_key(&j, "b");
}

static void key_in_array(void)
{
	kcd_json_array_begin(&j);
	kcd_json_key(&j, "a");
}

static void wrong_end(void)
{
	kcd_json_array_begin(&j);
	kcd_json_object_end(&j);
}

static void end_of_nothing(void)
{
	kcd_json_array_end(&j);
}

static void two_values(void)
{
	kcd_json_u64(&j, 1);
	kcd_json_u64(&j, 2);
}

static void unfinished(void)
{
	kcd_json_array_begin(&j);
	ck_assert_int_eq(kcd_json_finish(&j), KCD_OK); // trips before it returns
}

static void nothing_at_all(void)
{
	ck_assert_int_eq(kcd_json_finish(&j), KCD_OK); // trips before it returns
}

static void too_deep(void)
{
	for (unsigned i = 0; i <= KCD_JSON_DEPTH_MAX; i++)
		kcd_json_array_begin(&j);
}

static void (*const misuse[])(void) = {
	value_without_key, key_without_value, key_after_key, key_in_array,   wrong_end,
	end_of_nothing,	   two_values,	      unfinished,    nothing_at_all, too_deep,
};

START_TEST(misuse_trips_an_assert)
{
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr)); // the assert's text is no news
	start(0);
	misuse[_i]();
}
END_TEST

Suite *suite_json(void)
{
	Suite *s = suite_create("json");
	TCase *tc = tcase_create("json");

	tcase_add_test(tc, compact_output_has_no_blanks);
	tcase_add_test(tc, pretty_output_is_indented_and_empty_things_stay_short);
	tcase_add_test(tc, numbers_are_written_whole_up_to_their_ends);
	tcase_add_test(tc, control_characters_quotes_and_backslashes_are_escaped);
	tcase_add_test(tc, valid_utf8_passes_except_what_harms_a_display);
	tcase_add_test(tc, bytes_that_are_no_utf8_become_a_replacement_or_a_surrogate_each);
	tcase_add_test(tc, the_stock_mode_escapes_each_byte_beyond_ascii);
	tcase_add_test(tc, strings_without_certain_end_are_bounded);
	tcase_add_test(tc, documents_can_follow_one_another);
	tcase_add_test(tc, output_longer_than_the_buffer_arrives_whole);
	tcase_add_test(tc, a_sink_that_refuses_ends_in_an_error);
	tcase_add_test(tc, a_flush_gives_what_is_there);
	tcase_add_test(tc, nesting_goes_to_its_cap);
	tcase_add_loop_test_raise_signal(tc, misuse_trips_an_assert, SIGABRT, 0,
					 (int)COUNT_OF(misuse));
	suite_add_tcase(s, tc);
	return s;
}
