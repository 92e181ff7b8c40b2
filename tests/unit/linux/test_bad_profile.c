/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that are none, each refused with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/profile_json.h"
#include "tests/unit/linux/suites.h"

static struct lnx_profile *profile;
static struct gs_error err;

static void expect_bad_text(const char *text, size_t size, const char *why)
{
	enum gs_code rc = profile_open_text(text, size, &profile, &err);

	ck_assert_msg(rc == GS_EMALFORMED && err.code == rc, "%d, %d: %.60s", rc, err.code, text);
	ck_assert_msg(strstr(err.text, why), "%s: not %s", err.text, why);
	ck_assert_ptr_null(profile);
}

/* Takes @p root. */
static void expect_bad(json_t *root, const char *why)
{
	char *text = json_dumps(root, 0);

	ck_assert_ptr_nonnull(text);
	expect_bad_text(text, strlen(text), why);
	free(text);
	json_decref(root);
}

START_TEST(profile_of_another_version_is_refused)
{
	json_t *versions[] = { NULL,
			       json_integer(0),
			       json_integer(2),
			       json_integer(-1),
			       json_string("1"),
			       json_real(1),
			       json_true(),
			       json_null(),
			       json_integer((json_int_t)1 << 32 | 1) };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		json_t *root = good_profile();

		if (versions[i])
			json_object_set_new(root, "guestshot-profile", versions[i]);
		else
			json_object_del(root, "guestshot-profile");
		expect_bad(root, "is no profile of version 1");
	}
}
END_TEST

START_TEST(each_needed_member_is_named_when_it_is_missing)
{
	uint32_t needed = 0;

	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name name = lnx_member_name((enum lnx_member)m);
		json_t *root = good_profile();
		char path[64], text[128];

		member_name((enum lnx_member)m, false, path, sizeof(path));
		if (!name.needed) {
			json_decref(root);
			continue;
		}
		json_object_del(members_in(root, name.in), path);
		snprintf(text, sizeof(text), "lacks %s.%s", name.in, name.path);
		expect_bad(root, text);
		needed++;
	}
	ck_assert_uint_gt(needed, 15);
}
END_TEST

START_TEST(structures_that_are_missing_are_refused)
{
	static const char *const names[] = { "task_struct", "signal_struct", "pt_regs" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *root = good_profile();
		json_object_del(json_object_get(root, "structs"), names[i]);
		expect_bad(root, names[i]);
		root = good_profile();
		json_object_del(struct_in(root, names[i]), "members");
		expect_bad(root, names[i]);
		root = good_profile();
		json_object_set_new(json_object_get(root, "structs"), names[i], json_array());
		expect_bad(root, names[i]);
	}
	json_t *root = good_profile();
	json_object_del(root, "structs");
	expect_bad(root, "lacks task_struct.");
	root = good_profile();
	json_object_set_new(root, "structs", json_string("all"));
	expect_bad(root, "lacks task_struct.");
}
END_TEST

START_TEST(sizes_of_structures_that_make_no_sense_are_refused)
{
	static const char *const names[] = { "task_struct", "signal_struct", "pt_regs", "rq" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		json_t *sizes[] = { NULL,
				    json_integer(0),
				    json_integer(-1),
				    json_integer((1 << 20) + 1),
				    json_integer((json_int_t)1 << 32),
				    json_integer(INT64_MAX),
				    json_integer(INT64_MIN),
				    json_string("4096"),
				    json_real(4096),
				    json_null(),
				    json_array() };

		for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
			json_t *root = good_profile();

			if (sizes[s])
				json_object_set_new(struct_in(root, names[i]), "size", sizes[s]);
			else
				json_object_del(struct_in(root, names[i]), "size");
			expect_bad(root, names[i]);
		}
	}
}
END_TEST

static const struct {
	const char *offset, *size; /* NULL: none */
} wrong[] = {
	// the structure of each test has 64 bytes
	{ "64", "1" },
	{ "65", "1" },
	{ "60", "8" },
	{ "0", "65" },
	{ "4294967296", "8" },
	{ "4294967295", "8" },
	{ "9223372036854775807", "8" },
	{ "8", "9223372036854775807" },
	{ "-1", "8" },
	{ "-9223372036854775808", "8" },
	{ "8", "-8" },
	{ "8", "0" },
	{ NULL, "8" },
	{ "8", NULL },
	{ NULL, NULL },
	{ "\"8\"", "8" },
	{ "8", "\"8\"" },
	{ "8.0", "8" },
	{ "8", "8.5" },
	{ "true", "8" },
	{ "null", "8" },
	{ "[8]", "8" },
};

static json_t *wrong_place(size_t i)
{
	json_t *place = json_object();

	if (wrong[i].offset)
		json_object_set_new(place, "offset",
				    json_loads(wrong[i].offset, JSON_DECODE_ANY, NULL));
	if (wrong[i].size)
		json_object_set_new(place, "size",
				    json_loads(wrong[i].size, JSON_DECODE_ANY, NULL));
	return place;
}

// For a member that is needed and for one that is not.
START_TEST(places_outside_of_their_structure_are_refused)
{
	static const struct {
		const char *in, *path;
	} members[] = { { "signal_struct", "thread_head" }, { "rq", "cpu" } };

	for (size_t m = 0; m < ARRAY_SIZE(members); m++) {
		for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
			json_t *root = good_profile();
			char text[64];

			json_integer_set(json_object_get(struct_in(root, members[m].in), "size"),
					 64);
			json_object_set_new(members_in(root, members[m].in), members[m].path,
					    wrong_place(i));
			snprintf(text, sizeof(text), "%s.%s is no {\"offset\", \"size\"}",
				 members[m].in, members[m].path);
			expect_bad(root, text);
		}
		json_t *odd[] = { json_integer(8), json_string("8"), json_array(), json_null() };
		for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
			json_t *root = good_profile();

			json_object_set_new(members_in(root, members[m].in), members[m].path,
					    odd[i]);
			expect_bad(root, members[m].path);
		}
	}
}
END_TEST

START_TEST(places_of_per_cpu_variables_that_make_no_sense_are_refused)
{
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		for (size_t i = 4; i < ARRAY_SIZE(wrong); i++) {
			json_t *root = good_profile();
			char text[64];

			json_object_set_new(json_object_get(root, "percpu"),
					    lnx_percpu_name((enum lnx_percpu)p), wrong_place(i));
			snprintf(text, sizeof(text), "per-CPU %s is no {\"offset\", \"size\"}",
				 lnx_percpu_name((enum lnx_percpu)p));
			expect_bad(root, text);
		}
	}
}
END_TEST

START_TEST(enumerators_that_are_no_element_of_an_array_are_refused)
{
	static const char *const values[] = {
		"-1",
		"1024",
		"9223372036854775807",
		"-9223372036854775808",
		"\"0\"",
		"null",
		"true",
		"[]",
		"{}",
		"1.0",
	};

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		json_t *root = good_profile();
		json_t *node = json_object_get(json_object_get(root, "enums"), "node_stat_item");

		json_object_set_new(node, "NR_FILE_PAGES",
				    json_loads(values[i], JSON_DECODE_ANY, NULL));
		expect_bad(root, "NR_FILE_PAGES is no number from 0 to 1023");
	}
}
END_TEST

#define BAD(text, why) expect_bad_text((text), sizeof(text) - 1, (why))

START_TEST(what_is_not_json_is_refused_with_its_line)
{
	BAD("", "line 1: ");
	BAD("\n\n\n", "line 4: ");
	BAD("{", "line 1: ");
	BAD("{}}", "line 1: ");
	BAD("{} {}", "line 1: ");
	BAD("1", "line 1: ");
	BAD("\"guestshot-profile\"", "line 1: ");
	BAD("{\n\"guestshot-profile\": 1,\n}", "line 3: ");
	BAD("{\"guestshot-profile\": 01}", "line 1: ");
	BAD("{\"guestshot-profile\": 1} // x", "line 1: ");
	BAD("{\"guestshot-profile\": 99999999999999999999}", "line 1: ");
	BAD("{\"guestshot-profile\": 1, \"a\\u0000b\": 1}", "line 1: ");
	BAD("{\"guestshot-profile\": 1, \"\xff\": 1}", "line 1: ");
	BAD("{\"guestshot-profile\": 1}\0", "line 1: ");
	BAD("\x7f"
	    "ELF\2\1\1",
	    "line 1: ");
	BAD("[]", "is no profile of version 1");
	BAD("[{\"guestshot-profile\": 1}]", "is no profile of version 1");
	BAD("{}", "is no profile of version 1");
}
END_TEST

// At each level: a reader that took the first would read another profile than one that took the last.
START_TEST(keys_that_are_there_twice_are_refused)
{
	BAD("{\"guestshot-profile\": 1, \"guestshot-profile\": 1}", "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {}, \"rq\": {}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {\"size\": 1, \"size\": 2}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"structs\": {\"rq\": {\"members\": {\"a\": {}, \"a\": "
	    "{}}}}}",
	    "duplicate object key");
	BAD("{\"guestshot-profile\": 1, \"percpu\": {\"a\": {\"offset\": 1, \"offset\": 1}}}",
	    "duplicate object key");
}
END_TEST

START_TEST(profiles_that_are_cut_off_are_refused)
{
	json_t *root = good_profile();
	char *text = json_dumps(root, JSON_INDENT(1));
	const size_t size = strlen(text);

	for (size_t cut = 0; cut < size; cut += cut + 200 < size ? 37 : 1)
		expect_bad_text(text, cut, "line ");
	ck_assert_msg(profile_open_text(text, size, &profile, &err) == GS_OK, "%s", err.text);
	lnx_profile_destroy(profile);
	free(text);
	json_decref(root);
}
END_TEST

START_TEST(nesting_without_end_is_refused)
{
	static char text[1 << 20];

	memset(text, '[', sizeof(text));
	expect_bad_text(text, sizeof(text), "line 1: ");
	for (size_t i = 0; i + 5 <= sizeof(text); i += 5)
		memcpy(text + i, "{\"a\":", 5);
	expect_bad_text(text, sizeof(text), "line 1: ");
}
END_TEST

START_TEST(files_larger_than_any_profile_are_refused)
{
	json_t *root = good_profile();
	char *text = json_dumps(root, 0);
	struct image_file f = image_file_make(text, strlen(text));
	static char blanks[4096];

	memset(blanks, ' ', sizeof(blanks));
	for (off_t at = (off_t)strlen(text); at < 1 << 20; at += (off_t)sizeof(blanks))
		ck_assert_int_ge(pwrite(f.fd, blanks, sizeof(blanks), at), 0);
	ck_assert_int_eq(ftruncate(f.fd, 1 << 20), 0);
	ck_assert_msg(lnx_profile_open(f.path, &profile, &err) == GS_OK, "%s", err.text);
	lnx_profile_destroy(profile);
	ck_assert_int_eq(pwrite(f.fd, " ", 1, 1 << 20), 1);
	ck_assert_int_eq(lnx_profile_open(f.path, &profile, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "not a file of up to 1024 KiB"));
	image_file_close(&f);
	free(text);
	json_decref(root);
}
END_TEST

START_TEST(what_is_no_file_is_refused)
{
	int ends[2];
	char path[32];

	ck_assert_int_eq(lnx_profile_open("/no/such/file", &profile, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "profile /no/such/file: "));
	ck_assert_int_eq(lnx_profile_open("/proc", &profile, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "not a file of up to 1024 KiB"));
	ck_assert_int_eq(lnx_profile_open("/dev/null", &profile, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "not a file of up to 1024 KiB"));
	ck_assert_int_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	ck_assert_int_eq(lnx_profile_open(path, &profile, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "not a file of up to 1024 KiB"));
	close(ends[0]);
	close(ends[1]);
}
END_TEST

Suite *suite_bad_profile(void)
{
	Suite *s = suite_create("bad_profile");
	TCase *tc = tcase_create("bad_profile");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, profile_of_another_version_is_refused);
	tcase_add_test(tc, each_needed_member_is_named_when_it_is_missing);
	tcase_add_test(tc, structures_that_are_missing_are_refused);
	tcase_add_test(tc, sizes_of_structures_that_make_no_sense_are_refused);
	tcase_add_test(tc, places_outside_of_their_structure_are_refused);
	tcase_add_test(tc, places_of_per_cpu_variables_that_make_no_sense_are_refused);
	tcase_add_test(tc, enumerators_that_are_no_element_of_an_array_are_refused);
	tcase_add_test(tc, what_is_not_json_is_refused_with_its_line);
	tcase_add_test(tc, keys_that_are_there_twice_are_refused);
	tcase_add_test(tc, profiles_that_are_cut_off_are_refused);
	tcase_add_test(tc, nesting_without_end_is_refused);
	tcase_add_test(tc, files_larger_than_any_profile_are_refused);
	tcase_add_test(tc, what_is_no_file_is_refused);
	suite_add_tcase(s, tc);
	return s;
}
