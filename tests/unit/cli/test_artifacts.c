/* SPDX-License-Identifier: Apache-2.0 */
/* The folder that keeps what a run has left. */
#include "cli/artifacts.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/results.h"
#include "tests/unit/cli/suites.h"

static struct cli_artifacts a;
static struct gs_error err;
static char top[] = "/tmp/unit-artifacts-XXXXXX";
static char dir[64], path[160];

static void setup(void)
{
	a = (struct cli_artifacts)CLI_ARTIFACTS_NONE;
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/results", top);
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

static const char *in_dir(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

/* The file's text; "(none)": there is none. */
static const char *text_of(const char *name)
{
	static char text[4096];
	FILE *f = fopen(in_dir(name), "r");

	if (!f)
		return "(none)";
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void begin(void)
{
	ck_assert_msg(!cli_artifacts_open(&a, dir, &err) && !cli_artifacts_begin(&a, &err), "%s",
		      err.text);
}

START_TEST(folder_is_made_and_locked)
{
	struct cli_artifacts second = CLI_ARTIFACTS_NONE;
	struct stat st;

	ck_assert_int_eq(cli_artifacts_open(&a, dir, &err), GS_OK);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
	ck_assert_int_eq(cli_artifacts_open(&second, dir, &err), GS_EBUSY);
	ck_assert(cli_artifacts_close(&second));
	ck_assert(cli_artifacts_close(&a));
	ck_assert_int_eq(cli_artifacts_open(&second, dir, &err), GS_OK);
	ck_assert(cli_artifacts_close(&second));
}
END_TEST

START_TEST(folder_without_its_own_one_is_refused)
{
	snprintf(dir, sizeof(dir), "%s/not/there", top);
	ck_assert_int_eq(cli_artifacts_open(&a, dir, &err), GS_ENOENT);
	snprintf(dir, sizeof(dir), "%s", top);
	put("file", "");
	snprintf(dir, sizeof(dir), "%s/file", top);
	ck_assert_int_ne(cli_artifacts_open(&a, dir, &err), GS_OK);
}
END_TEST

START_TEST(old_results_are_gone_when_the_next_run_begins)
{
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	put("summary.json", "old");
	put("junit.xml", "old");
	put("console.log", "old and long");
	put("mine.txt", "mine");
	begin();
	ck_assert_str_eq(text_of("summary.json"), "(none)");
	ck_assert_str_eq(text_of("junit.xml"), "(none)");
	ck_assert_str_eq(text_of("console.log"), "");
	ck_assert_str_eq(text_of("mine.txt"), "mine");
	cli_artifacts_console(&a, "one\ntw", 6);
	cli_artifacts_console(&a, "o\n", 2);
	ck_assert_str_eq(text_of("console.log"), "one\ntwo\n");
	ck_assert(cli_artifacts_close(&a));
}
END_TEST

START_TEST(what_is_no_file_is_not_replaced)
{
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	ck_assert_int_eq(symlink("/etc/hostname", in_dir("console.log")), 0);
	ck_assert_int_eq(cli_artifacts_open(&a, dir, &err), GS_OK);
	ck_assert_int_eq(cli_artifacts_begin(&a, &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "console.log"));
	ck_assert(cli_artifacts_close(&a));
	ck_assert_int_eq(cli_artifacts_remove_old(in_dir("console.log"), &err), GS_EINVAL);
	ck_assert_int_eq(cli_artifacts_remove_old(in_dir("nothing"), &err), GS_OK);
}
END_TEST

START_TEST(full_disk_costs_what_is_written_meanwhile)
{
	begin();
	const int file = a.console;
	cli_artifacts_console(&a, "before\n", 7);
	a.console = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ck_assert_int_ge(a.console, 0);
	cli_artifacts_console(&a, "lost\n", 5);
	cli_artifacts_console(&a, "more\n", 5);
	ck_assert_uint_eq(a.lost, 10);
	close(a.console);
	a.console = file;
	cli_artifacts_console(&a, "after\n", 6);
	ck_assert_uint_eq(a.lost, 0);
	ck_assert(!cli_artifacts_close(&a));
	ck_assert_str_eq(text_of("console.log"),
			 "before\n\n[guestshot: 10 bytes could not be written here]\nafter\n");
}
END_TEST

static const struct rep_summary summary = {
	.name = "boot",
	.result = "failed",
	.type = "fail-on",
	.text = "--fail-on has matched: BUG: <x>",
	.line = "BUG: <x>\x1b",
	.exit_code = 8,
	.took_ns = 1500000000,
};

START_TEST(results_are_written)
{
	begin();
	ck_assert(cli_results_write(&a, NULL, &summary, 0));
	ck_assert_str_eq(text_of("summary.txt"),
			 "FAILED: --fail-on has matched: BUG: <x>\n"
			 "  test: boot\n  took: 1.50 s\n"
			 "  exit code: 8 (fail-on)\n  line: BUG: <x>\\x1b\n");
	json_t *root = json_loads(text_of("summary.json"), JSON_REJECT_DUPLICATES, NULL);
	ck_assert_ptr_nonnull(root);
	ck_assert_str_eq(json_string_value(json_object_get(root, "type")), "fail-on");
	ck_assert_int_eq(json_integer_value(json_object_get(root, "exit_code")), 8);
	ck_assert(json_is_null(json_object_get(root, "capture")));
	json_decref(root);
	ck_assert_ptr_nonnull(strstr(text_of("junit.xml"),
				     "<failure type=\"fail-on\" message=\"--fail-on has matched: "
				     "BUG: &lt;x&gt;\">FAILED: "));
	// elsewhere, also without a folder
	ck_assert(cli_artifacts_close(&a));
	ck_assert(cli_results_write(&a, in_dir("elsewhere.xml"), &summary, 0));
	ck_assert_ptr_nonnull(strstr(text_of("elsewhere.xml"), "<failure"));
}
END_TEST

START_TEST(results_that_cannot_be_written_are_told)
{
	begin();
	ck_assert_int_eq(mkdir(in_dir("summary.json"), 0700), 0);
	ck_assert(!cli_results_write(&a, NULL, &summary, 0));
	// the others are there
	ck_assert_str_ne(text_of("junit.xml"), "(none)");
	ck_assert_str_ne(text_of("summary.txt"), "(none)");
	ck_assert(!cli_artifacts_close(&a));
}
END_TEST

START_TEST(capture_is_found_by_its_time)
{
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	ck_assert_ptr_null(cli_artifacts_find_capture(dir, 1));
	put("index.json", "{\"captures\": [{\"file\": \"a.kcdata\", \"time_ns\": 1}, 5, "
			  "{\"file\": \"../b\", \"time_ns\": 2}, {\"time_ns\": 3}, "
			  "{\"file\": \"c.kcdata\", \"time_ns\": -1}]}");
	char *found = cli_artifacts_find_capture(dir, 1);
	ck_assert_str_eq(found, in_dir("a.kcdata"));
	free(found);
	ck_assert_ptr_null(cli_artifacts_find_capture(dir, 2));
	ck_assert_ptr_null(cli_artifacts_find_capture(dir, 3));
	ck_assert_ptr_null(cli_artifacts_find_capture(dir, UINT64_MAX));
	put("index.json", "{\"captures\": ");
	ck_assert_ptr_null(cli_artifacts_find_capture(dir, 1));
}
END_TEST

Suite *suite_artifacts(void)
{
	Suite *s = suite_create("cli/artifacts");
	TCase *tc = tcase_create("artifacts");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, folder_is_made_and_locked);
	tcase_add_test(tc, folder_without_its_own_one_is_refused);
	tcase_add_test(tc, old_results_are_gone_when_the_next_run_begins);
	tcase_add_test(tc, what_is_no_file_is_not_replaced);
	tcase_add_test(tc, full_disk_costs_what_is_written_meanwhile);
	tcase_add_test(tc, results_are_written);
	tcase_add_test(tc, results_that_cannot_be_written_are_told);
	tcase_add_test(tc, capture_is_found_by_its_time);
	suite_add_tcase(s, tc);
	return s;
}
