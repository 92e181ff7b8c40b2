/* SPDX-License-Identifier: Apache-2.0 */
/* JSON and text of literal streams, types that streams define, and statistics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/json_view.h"
#include "kcdata/stackshot_types.h"
#include "kcdata/stat.h"
#include "kcdata/text.h"
#include "tests/unit/kcdata/suites.h"

#define BEGIN		"0758a259 00000000 80000000 00000000 "
#define END		"ed5891f1 00000000 00000000 00000000 "
#define OPEN(type, id)	"13000000 10000000 " id "000000 00000000 " type "~ "
#define CLOSE(id)	"14000000 00000000 " id "000000 00000000 "
#define TASK(id)	OPEN("03090000", id)
#define PAGE_SIZE_IS(v) "10090000 10000000 8c000000 00000000 " v "~ "
#define LR64(n, v)	"20000000 10000000 0" n "000000 14090000 " v " "

static uint8_t *bytes;
static size_t length;
static char text[65536];
static size_t text_len;
static struct kcd_error err;

static void load(const char *hex)
{
	static uint8_t tmp[16384];

	free(bytes);
	length = hex_bytes(hex, tmp, sizeof(tmp));
	bytes = malloc(length ? length : 1);
	memcpy(bytes, tmp, length);
	memset(&err, 0, sizeof(err));
	text_len = 0;
	text[0] = 0;
}

static bool take(void *arg, const void *data, size_t len)
{
	(void)arg;
	ck_assert_uint_lt(text_len + len, sizeof(text));
	memcpy(text + text_len, data, len);
	text_len += len;
	text[text_len] = 0;
	return true;
}

static enum kcd_code view(uint32_t flags)
{
	struct kcd_json j;

	kcd_json_init(&j, take, NULL, 0);
	enum kcd_code rc = kcd_json_view(bytes, length, KCD_TOLERANT, flags, NULL, &j, NULL, &err);
	if (!rc || flags & KCD_VIEW_SALVAGE)
		ck_assert_int_eq(kcd_json_finish(&j), KCD_OK);
	return rc;
}

/* A buffer of these items is shown as this dictionary. */
static void assert_view(const char *items, const char *dictionary)
{
	static char hex[16384], want[16384];

	snprintf(hex, sizeof(hex), BEGIN "%s" END, items);
	snprintf(want, sizeof(want), "{\"kcdata_stackshot\":{%s}}", dictionary);
	load(hex);
	ck_assert_msg(view(0) == KCD_OK, "%s", err.reason);
	ck_assert_str_eq(text, want);
}

START_TEST(kinds_of_records_are_shown)
{
	static const struct {
		const char *items, *json;
	} cases[] = {
		{ "", "" },
		{ PAGE_SIZE_IS("00100000"), "\"kernel_page_size\":4096" },
		{ "0f090000 10000000 8d000000 00000000 6100ff~", "\"osversion\":\"a\"" },
		{ "32000000 10000000 88000000 00000000 0100000002000000~",
		  "\"mach_timebase_info\":{\"numer\":1,\"denom\":2}" },
		// a version of a struct that lacks its last field
		{ "19090000 10000000 80000000 00000000 0100*7 0200*7",
		  "\"cpu_times\":{\"user_usec\":1,\"system_usec\":2}" },
		// a scalar without room
		{ "10090000 00000000 80000000 00000000", "\"kernel_page_size\":null" },
		{ "77770000 10000000 8d000000 00000000 0102fe~", "\"0x7777\":[1,2,254]" },
		{ "77770000 00000000 80000000 00000000", "\"0x7777\":[]" },
		{ "2a000000 10000000 03000000 77770000 010203040506~",
		  "\"0x7777\":[[1,2],[3,4],[5,6]]" },
		{ LR64("2", "0100*7 0200*7"), "\"kernel_stack_frames\":[{\"lr\":1},{\"lr\":2}]" },
		{ "20000000 00000000 00000000 14090000", "\"kernel_stack_frames\":[]" },
	};

	for (size_t i = 0; i < COUNT_OF(cases); i++)
		assert_view(cases[i].items, cases[i].json);
}
END_TEST

START_TEST(named_values_are_shown_under_their_names)
{
	assert_view("02000000 30000000 8c000000 00000000 6100~00*16 ffffffff~", "\"a\":4294967295");
	assert_view("03000000 30000000 88000000 00000000 6200~00*16 ff*8~",
		    "\"b\":18446744073709551615");
	assert_view("04000000 30000000 8c000000 00000000 6300~00*16 ffffffff~", "\"c\":-1");
	assert_view("05000000 30000000 88000000 00000000 6400~00*16 feff*7~", "\"d\":-2");
	assert_view("01000000 30000000 8d000000 00000000 6500~00*16 686900~", "\"e\":\"hi\"");
	assert_view("06000000 30000000 8d000000 00000000 6600~00*16 010203~", "\"f\":[1,2,3]");
	// a name without an end, and one that needs escapes
	assert_view("02000000 30000000 8c000000 00000000 61*32 01~",
		    "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\":1");
	assert_view("02000000 30000000 8c000000 00000000 225c0a~00*16 01~", "\"\\\"\\\\\\n\":1");
	// too short for a value: bytes, under the type's name
	assert_view("02000000 10000000 8e000000 00000000 6162~",
		    "\"KCDATA_TYPE_UINT32_DESC\":[97,98]");
}
END_TEST

START_TEST(of_records_with_one_key_the_first_is_shown)
{
	assert_view(PAGE_SIZE_IS("01") PAGE_SIZE_IS("02"), "\"kernel_page_size\":1");
	// under a named value's name too
	assert_view("02000000 30000000 8c000000 00000000 6b65726e656c5f706167655f73697a65 00*16 "
		    "05~" PAGE_SIZE_IS("02"),
		    "\"kernel_page_size\":5");
}
END_TEST

START_TEST(arrays_of_one_key_are_one_array)
{
	assert_view(
		LR64("2", "0100*7 0200*7") PAGE_SIZE_IS("01") LR64(
			"1",
			"0300*7 00*8") "28000000 10000000 02000000 13090000 0400*3 0500*3 00*8",
		"\"kernel_stack_frames\":[{\"lr\":1},{\"lr\":2},{\"lr\":3},{\"lr\":4},{\"lr\":5}],"
		"\"kernel_page_size\":1");
	// a record of that key beside them is not shown, and none of them beside a record
	assert_view("14090000 10000000 88000000 00000000 0700*7~" LR64("2", "0100*7 0200*7"),
		    "\"kernel_stack_frames\":{\"lr\":7}");
}
END_TEST

START_TEST(containers_of_one_type_are_gathered)
{
	assert_view(TASK("01") PAGE_SIZE_IS("01") CLOSE("01") PAGE_SIZE_IS("02") TASK("02")
			    CLOSE("02"),
		    "\"task_snapshots\":{\"1\":{\"kernel_page_size\":1},\"2\":{}},\"kernel_page_"
		    "size\":2");
	// the last one of an id
	assert_view(TASK("01") PAGE_SIZE_IS("01") CLOSE("01") TASK("01") PAGE_SIZE_IS("03")
			    CLOSE("01"),
		    "\"task_snapshots\":{\"1\":{\"kernel_page_size\":3}}");
	assert_view(OPEN("99990000", "07") CLOSE("07"), "\"0x9999\":{\"7\":{}}");
	// a child of its parent's id
	assert_view(TASK("01") OPEN("04090000", "01") CLOSE("01") CLOSE("01"),
		    "\"task_snapshots\":{\"1\":{\"thread_snapshots\":{\"1\":{}}}}");
}
END_TEST

START_TEST(merged_fields_are_members_of_what_is_around_them)
{
#define DURATION "1a090000 20000000 88000000 00000000 0100*7 0200*7 0300*7~ "
	assert_view(DURATION, "\"stackshot_duration\":1,\"stackshot_duration_outer\":2,"
			      "\"stackshot_duration_prior\":3");
	// no key twice: what comes later in the stock reader's text wins
#define OUTER(v)                               \
	"03000000 30000000 88000000 00000000 " \
	"737461636b73686f745f6475726174696f6e5f6f7574657200*8 " v "00*7~ "
	assert_view(OUTER("09") DURATION, "\"stackshot_duration_outer\":2,\"stackshot_duration\":1,"
					  "\"stackshot_duration_prior\":3");
	assert_view(DURATION OUTER("09"), "\"stackshot_duration\":1,\"stackshot_duration_outer\":9,"
					  "\"stackshot_duration_prior\":3");
	// only the first of two
	assert_view(DURATION "1a090000 10000000 80000000 00000000 0700*7 0800*7",
		    "\"stackshot_duration\":1,\"stackshot_duration_outer\":2,\"stackshot_duration_"
		    "prior\":3");
	// a container takes the name, whatever else has it
	assert_view("02000000 30000000 8c000000 00000000 7461736b5f736e617073686f74730000 00*16 "
		    "05~" TASK("01") CLOSE("01") "02000000 30000000 8c000000 00000000 "
						 "7461736b5f736e617073686f74730000 00*16 06~",
		    "\"task_snapshots\":{\"1\":{}}");
}
END_TEST

#define NESTED(inner, size) "38000000 " size " 80000000 00000000 " inner
#define REASON		    "0009a253 00*12 "

START_TEST(a_nested_buffer_is_merged_under_its_own_key)
{
	assert_view(NESTED(REASON PAGE_SIZE_IS("05") END, "40000000") PAGE_SIZE_IS("06"),
		    "\"kcdata_reason\":{\"kernel_page_size\":5},\"kernel_page_size\":6");
	// four in each other at most
	load(BEGIN NESTED(REASON NESTED(REASON NESTED(REASON END, "20000000") END, "50000000") END,
			  "80000000") END);
	ck_assert_int_eq(view(0), KCD_OK);
	load(BEGIN NESTED(REASON NESTED(REASON NESTED(REASON NESTED(REASON END, "20000000") END,
						      "50000000") END,
					"80000000") END,
			  "b0000000") END);
	ck_assert_int_eq(view(0), KCD_ETOOBIG);
	// none, cut, compressed
	load(BEGIN NESTED("00*16", "10000000") END);
	ck_assert_int_eq(view(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_NESTED);
	load(BEGIN NESTED("504d4f43 00*12" END, "20000000") END);
	ck_assert_int_eq(view(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_NESTED);
	load(BEGIN NESTED(REASON, "10000000") END);
	ck_assert_int_eq(view(0), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_TRUNCATED_HEADER);
	ck_assert_uint_eq(err.offset, 48);
}
END_TEST

START_TEST(damage_gives_nothing_or_what_came_before)
{
	load(BEGIN PAGE_SIZE_IS("01") TASK("01") PAGE_SIZE_IS("02") "10090000 ff000000 00*8");
	ck_assert_int_eq(view(0), KCD_EMALFORMED);
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(view(KCD_VIEW_SALVAGE), KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_TRUNCATED_ITEM);
	ck_assert_uint_eq(err.offset, 16 + 32 + 32 + 32);
	ck_assert_str_eq(text, "{\"kcdata_stackshot\":{\"kernel_page_size\":1,\"task_snapshots\":"
			       "{\"1\":{\"kernel_page_size\":2}}}}");
}
END_TEST

START_TEST(every_cut_of_a_stream_can_be_salvaged)
{
	load(BEGIN PAGE_SIZE_IS("01") TASK("01") LR64("2", "0100*7 0200*7") CLOSE("01")
		     NESTED(REASON PAGE_SIZE_IS("05") END, "40000000") END);
	size_t whole = length;
	for (length = KCD_HEADER_SIZE; length < whole; length++) {
		text_len = 0;
		ck_assert_int_eq(view(KCD_VIEW_SALVAGE), KCD_EMALFORMED);
		ck_assert_msg(!strncmp(text, "{\"kcdata_stackshot\":{", 21), "%s", text);
	}
	length = whole;
	text_len = 0;
	ck_assert_int_eq(view(KCD_VIEW_SALVAGE), KCD_OK);
}
END_TEST

START_TEST(the_end_of_the_buffer_is_told)
{
	struct kcd_json j;
	size_t end = 0;

	load(BEGIN PAGE_SIZE_IS("01") END "00*32 " BEGIN END);
	kcd_json_init(&j, take, NULL, 0);
	ck_assert_int_eq(kcd_json_view(bytes, length, KCD_TOLERANT, 0, NULL, &j, &end, &err),
			 KCD_OK);
	ck_assert_uint_eq(end, 64);
}
END_TEST

/* --- definitions ----------------------------------------------------------------------------- */

/* A definition of 0x47530001 "pt" with fields, of which there are as many as its count says. */
#define NAME1(hex) hex "00*31 "
#define NAME2(hex) hex "00*30 "
#define PT	   "01005347 02000000 " NAME2("7074")
#define FIELD_X	   "00 07 0000 04000000 " NAME1("78")
#define FIELD_Y	   "01 01 0400 01000400 " NAME1("79")
#define DEFINITION "12000000 80000000 08000000 00000000 " PT FIELD_X FIELD_Y "00*8 "
#define POINT	   "01005347 10000000 88000000 00000000 07000000 616263ff~ "

START_TEST(a_stream_defines_types)
{
	assert_view(DEFINITION POINT, "\"typedef[pt]\":{\"name\":\"pt\",\"typeID\":1196621825,"
				      "\"numOfFields\":2,\"fields\":"
				      "[\"[0,4] uint32_t  x;\",\"[4,4] char  "
				      "y[4];\"]},\"pt\":{\"x\":7,\"y\":\"abc\\ufffd\"}");
}
END_TEST

START_TEST(a_definition_overrides_a_built_in_type)
{
	// 0x910, a bare value otherwise
	assert_view("12000000 50000000 00000000 00000000 10090000 01000000 " NAME1(
			    "71") "02 05 0200 02000000 " NAME1("7a") PAGE_SIZE_IS("01000200"),
		    "\"typedef[q]\":{\"name\":\"q\",\"typeID\":2320,\"numOfFields\":1,\"fields\":"
		    "[\"[2,2] uint16_t  z;\"]},\"q\":{\"z\":2}");
}
END_TEST

/* Bytes of a hostile definition, and why it is refused. */
static const struct {
	const char *definition, *why;
} hostile[] = {
	{ "12000000 20000000 00*8 00*32", "too short" },
	{ "12000000 80000000 08*1 00*7 "
	  "01005347 02000000 00*32 " FIELD_X FIELD_Y "00*8",
	  "the name" },
	{ "12000000 80000000 08*1 00*7 "
	  "01005347 02000000 61*32 " FIELD_X FIELD_Y "00*8",
	  "the name" },
	{ "12000000 80000000 08*1 00*7 "
	  "01005347 00000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "number of fields" },
	{ "12000000 80000000 08*1 00*7 "
	  "01005347 03000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "number of fields" },
	{ "12000000 80000000 08*1 00*7 "
	  "01005347 ffffffff " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "number of fields" },
	{ "12000000 80000000 08*1 00*7 "
	  "13000000 02000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "format itself" },
	{ "12000000 80000000 08*1 00*7 "
	  "03090000 02000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "format itself" },
	{ "12000000 80000000 08*1 00*7 "
	  "ed5891f1 02000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "format itself" },
	{ "12000000 80000000 08*1 00*7 "
	  "38000000 02000000 " NAME2("7074") FIELD_X FIELD_Y "00*8",
	  "format itself" },
	{ "12000000 80000000 08*1 00*7 " PT "00 00 0000 04000000 " NAME1("78") FIELD_Y "00*8",
	  "element type" },
	{ "12000000 80000000 08*1 00*7 " PT "00 0a 0000 04000000 " NAME1("78") FIELD_Y "00*8",
	  "element type" },
	{ "12000000 80000000 08*1 00*7 " PT "00 07 0000 05000000 " NAME1("78") FIELD_Y "00*8",
	  "size is not" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0400 01000000 " NAME1("79") "00*8",
	  "without elements" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0400 00000400 " NAME1("79") "00*8",
	  "size is not" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0300 01000400 " NAME1("79") "00*8",
	  "in each other" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0400 01000400 00*32 "
	  "00*8",
	  "field's name" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0400 01000400 61*32 "
	  "00*8",
	  "field's name" },
	{ "12000000 80000000 08*1 00*7 " PT FIELD_X "01 01 0400 01000400 " NAME1("78") "00*8",
	  "of one name" },
	{ DEFINITION "12000000 80000000 08*1 00*7 " PT FIELD_X
		     "01 01 0500 01000400 " NAME1("79") "00*8",
	  "something else" },
};

START_TEST(a_hostile_definition_is_refused)
{
	static struct kcd_definitions defs;
	static char hex[4096];
	struct kcd_reader r;
	struct kcd_item it;

	snprintf(hex, sizeof(hex), BEGIN "%s" END, hostile[_i].definition);
	load(hex);
	kcd_definitions_init(&defs, NULL);
	ck_assert_int_eq(kcd_reader_init(&r, bytes, length, KCD_TOLERANT, &err), KCD_OK);
	enum kcd_code rc = KCD_OK, last = KCD_OK;
	while (!(rc = kcd_reader_next(&r, &it)))
		last = kcd_definitions_add(&defs, &it, NULL, &err);
	ck_assert_int_eq(rc, KCD_DONE);
	ck_assert_int_eq(last, KCD_EMALFORMED);
	ck_assert_int_eq(err.finding, KCD_FIND_TYPEDEF);
	ck_assert_msg(strstr(err.reason, hostile[_i].why), "%s", err.reason);
	// its records, and it itself, are bytes
	ck_assert_int_eq(view(0), KCD_OK);
}
END_TEST

START_TEST(the_table_of_definitions_is_bounded)
{
	static struct kcd_definitions defs;
	uint8_t payload[40 * 2] = { 0 };
	struct kcd_item it = { .kind = KCD_ITEM_TYPEDEF, .data = payload, .size = sizeof(payload) };
	const struct kcd_type *t;
	uint32_t code, one = 1, size = 8, i;

	kcd_definitions_init(&defs, NULL);
	memcpy(payload + 4, &one, 4);
	memcpy(payload + 8, "t", 2);
	payload[41] = KCD_UINT64;
	memcpy(payload + 44, &size, 4);
	memcpy(payload + 48, "f", 2);
	for (i = 0; i < 2 * KCD_DEFINITIONS_MAX; i++) {
		code = 0x10000 + i;
		memcpy(payload, &code, 4);
		enum kcd_code rc = kcd_definitions_add(&defs, &it, &t, &err);
		ck_assert_int_eq(rc, i < KCD_DEFINITIONS_MAX ? KCD_OK : KCD_ETOOBIG);
	}
	ck_assert_ptr_nonnull(kcd_schema_find_in(&defs.schema, 0x10000));
	ck_assert_ptr_null(kcd_schema_find_in(&defs.schema, code));
	it.kind = KCD_ITEM_RECORD;
	ck_assert_int_eq(kcd_definitions_add(&defs, &it, &t, &err), KCD_EINVAL);
}
END_TEST

START_TEST(keys_of_the_table_fit)
{
	const struct kcd_schema *s = kcd_schema_builtin();
	char room[KCD_KEY_MAX];

	for (size_t i = 0; i < s->count; i++) {
		ck_assert_uint_lt(strlen(kcd_type_key(&s->types[i], s->types[i].code, room)),
				  KCD_KEY_MAX);
		for (uint32_t f = 0; f < s->types[i].field_count; f++)
			ck_assert_uint_lt(strlen(s->types[i].fields[f].name), KCD_KEY_MAX);
	}
	ck_assert_str_eq(kcd_type_key(NULL, 0xabcd, room), "0xabcd");
}
END_TEST

/* --- text and statistics --------------------------------------------------------------------- */

START_TEST(text_shows_every_item_with_its_offset)
{
	load(BEGIN PAGE_SIZE_IS("00100000") TASK("07") LR64("2", "0100*7 0200*7") CLOSE("07") END);
	ck_assert_int_eq(kcd_text_dump(bytes, length, KCD_STRICT, NULL, take, NULL, &err), KCD_OK);
	ck_assert_str_eq(text, "00000000  STACKSHOT {\n"
			       "00000010    KERN_PAGE_SIZE = 4096\n"
			       "00000030    TASK 7 {\n"
			       "00000050      KERN_STACKLR64 [2], 8 bytes each\n"
			       "                [0] lr = 0x1\n"
			       "                [1] lr = 0x2\n"
			       "00000070    }\n"
			       "00000080  }\n");
}
END_TEST

START_TEST(text_has_nothing_that_a_terminal_acts_on)
{
	load(BEGIN "0f090000 10000000 88000000 00000000 1b5b33316d220a00~ "
		   "02000000 30000000 8c000000 00000000 1b5d~00*16 01~ "
		   "12000000 80000000 08000000 00000000 01005347 02000000 " NAME2(
			   "1b63") "00 07 0000 04000000 " NAME1("9b") FIELD_Y "00*8 " POINT END);
	ck_assert_int_eq(kcd_text_dump(bytes, length, KCD_TOLERANT, NULL, take, NULL, &err),
			 KCD_OK);
	ck_assert_ptr_nonnull(strstr(text, "\"\\x1b[31m\\\"\\x0a\""));
	for (const char *c = text; *c; c++)
		ck_assert(*c == '\n' || (*c >= 0x20 && *c < 0x7f));
}
END_TEST

START_TEST(text_ends_at_the_damage)
{
	load(BEGIN PAGE_SIZE_IS("00100000") "10090000 ff000000 00*8");
	ck_assert_int_eq(kcd_text_dump(bytes, length, KCD_TOLERANT, NULL, take, NULL, &err),
			 KCD_EMALFORMED);
	ck_assert_uint_eq(err.offset, 0x30);
	ck_assert_str_eq(text, "00000000  STACKSHOT {\n00000010    KERN_PAGE_SIZE = 4096\n");
}
END_TEST

START_TEST(statistics_count_records_and_bytes)
{
	struct kcd_stat s;

	load(BEGIN PAGE_SIZE_IS("01") TASK("07") LR64("2", "0100*7 0200*7") PAGE_SIZE_IS("02")
		     CLOSE("07") NESTED(REASON PAGE_SIZE_IS("05") END, "40000000") END);
	ck_assert_int_eq(kcd_stat_collect(bytes, length, NULL, &s, &err), KCD_OK);
	ck_assert_uint_eq(s.bytes, length);
	ck_assert_uint_eq(s.records, 6);
	ck_assert_uint_eq(s.depth, 1);
	ck_assert_uint_eq(s.count, 4);
	uint64_t sum = 2 * KCD_HEADER_SIZE;
	for (size_t i = 0; i < s.count; i++)
		sum += s.rows[i].bytes;
	ck_assert_uint_eq(sum, length);
	ck_assert_str_eq(s.rows[0].name, "NESTED_KCDATA");
	ck_assert_str_eq(s.rows[1].name, "KERN_PAGE_SIZE");
	ck_assert_uint_eq(s.rows[1].records, 2);
	ck_assert_uint_eq(s.rows[1].bytes, 64);
	kcd_stat_deinit(&s);
}
END_TEST

/* --- writing what was read ------------------------------------------------------------------- */

START_TEST(items_of_every_encoding_are_written_as_they_were)
{
	static uint8_t again[4096];
	struct kcd_writer w;
	struct kcd_reader r;
	struct kcd_item it;
	enum kcd_code rc;

	load("0758a259 00000000 00000000 00000000 "		  // an old BEGIN
	     "06090000 70000000 00*8 07*112 "			  // legacy struct
	     "11000000 20000000 02000000 0b090000 09*32 "	  // old-style array
	     "11000000 10000000 03000000 07090000 05*16 "	  // its padding is not zero
	     "05080000 08000000 00*8 01020304 00*4 "		  // an unaligned size
	     "13000000 08000000 01000000 00000000 03090000 ff*4 " // a container's BEGIN of 8 bytes
	     "14000000 00000000 01000000 00000000 " END);
	ck_assert_int_eq(kcd_writer_init(&w, again, sizeof(again), KCD_MAGIC_STACKSHOT,
					 KCD_WRITER_OLD_BEGIN),
			 KCD_OK);
	ck_assert_int_eq(kcd_reader_init(&r, bytes, length, KCD_TOLERANT, &err), KCD_OK);
	while (!(rc = kcd_reader_next(&r, &it)))
		ck_assert_int_eq(kcd_append_item(&w, &it), KCD_OK);
	ck_assert_int_eq(rc, KCD_DONE);
	ck_assert_uint_eq(kcd_writer_used(&w), length);
	ck_assert_int_eq(memcmp(again, bytes, length), 0);
}
END_TEST

START_TEST(items_that_do_not_fit_in_are_refused)
{
	uint8_t small[48];
	struct kcd_writer w;
	struct kcd_item end = { .kind = KCD_ITEM_CONTAINER_END,
				.raw_type = KCD_TYPE_CONTAINER_END };
	struct kcd_item magic = { .kind = KCD_ITEM_RECORD, .raw_type = KCD_MAGIC_CRASHINFO };
	struct kcd_item large = {
		.kind = KCD_ITEM_RECORD, .raw_type = 0x9999, .raw_size = 16, .data = small
	};

	ck_assert_int_eq(kcd_writer_init(&w, small, sizeof(small), KCD_MAGIC_STACKSHOT, 0), KCD_OK);
	ck_assert_int_eq(kcd_append_item(&w, &end), KCD_EINVAL);
	ck_assert_int_eq(kcd_append_item(&w, &magic), KCD_EINVAL);
	ck_assert_int_eq(kcd_append_item(&w, &large), KCD_ENOSPC);
	ck_assert_uint_eq(kcd_writer_used(&w), 32);
}
END_TEST

Suite *suite_view(void)
{
	Suite *s = suite_create("view");
	TCase *t = tcase_create("view");

	tcase_add_test(t, kinds_of_records_are_shown);
	tcase_add_test(t, named_values_are_shown_under_their_names);
	tcase_add_test(t, of_records_with_one_key_the_first_is_shown);
	tcase_add_test(t, arrays_of_one_key_are_one_array);
	tcase_add_test(t, containers_of_one_type_are_gathered);
	tcase_add_test(t, merged_fields_are_members_of_what_is_around_them);
	tcase_add_test(t, a_nested_buffer_is_merged_under_its_own_key);
	tcase_add_test(t, damage_gives_nothing_or_what_came_before);
	tcase_add_test(t, every_cut_of_a_stream_can_be_salvaged);
	tcase_add_test(t, the_end_of_the_buffer_is_told);
	tcase_add_test(t, a_stream_defines_types);
	tcase_add_test(t, a_definition_overrides_a_built_in_type);
	tcase_add_loop_test(t, a_hostile_definition_is_refused, 0, COUNT_OF(hostile));
	tcase_add_test(t, the_table_of_definitions_is_bounded);
	tcase_add_test(t, keys_of_the_table_fit);
	tcase_add_test(t, text_shows_every_item_with_its_offset);
	tcase_add_test(t, text_has_nothing_that_a_terminal_acts_on);
	tcase_add_test(t, text_ends_at_the_damage);
	tcase_add_test(t, statistics_count_records_and_bytes);
	tcase_add_test(t, items_of_every_encoding_are_written_as_they_were);
	tcase_add_test(t, items_that_do_not_fit_in_are_refused);
	suite_add_tcase(s, t);
	return s;
}
