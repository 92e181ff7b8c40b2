/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files whole or not at all. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/suites.h"

START_TEST(new_file_has_bytes_and_mode)
{
	struct gs_error err;

	umask(0);
	ck_assert_int_eq(gs_file_write_atomic("f", "abc", 3, 0600, &err), GS_OK);
	ck_assert(folder_has("f", "abc", 3));
	ck_assert_int_eq(folder_mode("f"), 0600);
	umask(0777);
	ck_assert_int_eq(gs_file_write_atomic(folder_path("g"), "", 0, 0640, &err), GS_OK);
	ck_assert(folder_has("g", "", 0));
	ck_assert_int_eq(folder_mode("g"), 0640);
	ck_assert_uint_eq(folder_count(), 2);
}
END_TEST

START_TEST(old_file_is_replaced_not_written_into)
{
	struct gs_error err;

	folder_put("f", "old and longer");
	ck_assert_int_eq(link("f", "other"), 0);
	ck_assert_int_eq(gs_file_write_atomic("f", "new", 3, 0600, &err), GS_OK);
	ck_assert(folder_has("f", "new", 3));
	ck_assert(folder_has("other", "old and longer", 14));
}
END_TEST

START_TEST(link_is_not_followed)
{
	struct gs_error err;

	folder_put("target", "precious");
	ck_assert_int_eq(symlink("target", "f"), 0);
	ck_assert_int_eq(gs_file_write_atomic("f", "x", 1, 0600, &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "symbolic link"));
	ck_assert(folder_has("target", "precious", 8));
	ck_assert_uint_eq(folder_count(), 2);
}
END_TEST

START_TEST(what_is_no_file_stays)
{
	struct gs_error err;
	struct stat st;

	ck_assert_int_eq(mkfifo("pipe", 0600), 0);
	ck_assert_int_eq(mkdir("folder", 0700), 0);
	ck_assert_int_eq(gs_file_write_atomic("pipe", "x", 1, 0600, &err), GS_EINVAL);
	ck_assert_int_eq(gs_file_write_atomic("folder", "x", 1, 0600, &err), GS_EINVAL);
	ck_assert_int_eq(gs_file_write_atomic("/dev/null", "x", 1, 0600, &err), GS_EINVAL);
	ck_assert_int_eq(gs_file_write_atomic("folder/", "x", 1, 0600, &err), GS_EINVAL);
	ck_assert(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
	ck_assert_uint_eq(folder_count(), 2);
}
END_TEST

START_TEST(missing_folder_is_named)
{
	struct gs_error err;

	ck_assert_int_eq(gs_file_write_atomic("no/f", "x", 1, 0600, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "no/f"));
	ck_assert_int_eq(gs_file_write_atomic("", "x", 1, 0600, NULL), GS_EINVAL);
}
END_TEST

START_TEST(full_disk_leaves_nothing_behind)
{
	const struct rlimit limit = { 4096, 4096 };
	static char data[100000];
	struct gs_error err;

	folder_put("f", "old");
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(gs_file_write_atomic("f", data, sizeof(data), 0600, &err), GS_ENOSPC);
	ck_assert(folder_has("f", "old", 3));
	ck_assert_uint_eq(folder_count(), 1);
}
END_TEST

/* A file system of 64 KiB in "small", for this process only. @return false: not permitted here */
static bool mount_small(const char *test)
{
	ck_assert_int_eq(mkdir("small", 0700), 0);
	if (!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	    !mount("small", "small", "tmpfs", 0, "size=64k"))
		return true;
	fprintf(stderr, "SKIP %s: only root can mount a small file system\n", test);
	return false;
}

START_TEST(file_system_that_is_full_leaves_nothing_behind)
{
	static char data[1 << 20];
	struct gs_error err;

	if (!mount_small("file_system_that_is_full_leaves_nothing_behind"))
		return;
	folder_put("small/f", "old");
	ck_assert_int_eq(gs_file_write_atomic("small/f", data, sizeof(data), 0600, &err),
			 GS_ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.text, "small/f: write: No space left on device"));
	ck_assert(folder_has("small/f", "old", 3));
	/* what was written is gone: there is room again */
	ck_assert_int_eq(gs_file_write_atomic("small/g", data, 48 << 10, 0600, &err), GS_OK);
	ck_assert_int_eq(umount("small"), 0);
}
END_TEST

START_TEST(file_system_that_cannot_be_written_is_named)
{
	struct gs_error err;

	if (!mount_small("file_system_that_cannot_be_written_is_named"))
		return;
	folder_put("small/f", "old");
	ck_assert_int_eq(mount(NULL, "small", NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ck_assert_int_eq(gs_file_write_atomic("small/f", "new", 3, 0600, &err), GS_EDENIED);
	ck_assert_ptr_nonnull(strstr(err.text, "small/f: "));
	ck_assert_ptr_nonnull(strstr(err.text, "Read-only file system"));
	ck_assert(folder_has("small/f", "old", 3));
	ck_assert_int_eq(umount("small"), 0);
}
END_TEST

START_TEST(reader_that_goes_away_is_an_error)
{
	static char data[1 << 20];
	struct gs_error err;
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	ck_assert_int_eq(gs_file_write_all(ends[1], data, sizeof(data), &err), GS_ESYS);
	close(ends[1]);
}
END_TEST

Suite *suite_file(void)
{
	Suite *s = suite_create("base/file");
	TCase *tc = tcase_create("write");

	tcase_add_checked_fixture(tc, folder_enter, folder_leave);
	tcase_add_test(tc, new_file_has_bytes_and_mode);
	tcase_add_test(tc, old_file_is_replaced_not_written_into);
	tcase_add_test(tc, link_is_not_followed);
	tcase_add_test(tc, what_is_no_file_stays);
	tcase_add_test(tc, missing_folder_is_named);
	tcase_add_test(tc, full_disk_leaves_nothing_behind);
	tcase_add_test(tc, file_system_that_is_full_leaves_nothing_behind);
	tcase_add_test(tc, file_system_that_cannot_be_written_is_named);
	tcase_add_test(tc, reader_that_goes_away_is_an_error);
	suite_add_tcase(s, tc);
	return s;
}
