/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for each test, gone afterwards. */
#include "tests/unit/control/folder.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/guestshot-test-XXXXXX";

void folder_enter(void)
{
	strcpy(folder, "/tmp/guestshot-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

void folder_leave(void)
{
	DIR *d = opendir(folder);
	const struct dirent *e;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		if (unlinkat(dirfd(d), e->d_name, 0))
			(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR); /* "." and ".." stay */
	}
	closedir(d);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

unsigned int folder_count(void)
{
	DIR *d = opendir(folder);
	const struct dirent *e;
	unsigned int n = 0;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(d);
	return n;
}

const char *folder_path(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

void folder_put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

int folder_has(const char *name, const void *data, size_t len)
{
	FILE *f = fopen(name, "r");
	char *got = malloc(len + 1);
	int same;

	if (!f) {
		free(got);
		return 0;
	}
	same = fread(got, 1, len + 1, f) == len && !memcmp(got, data, len);
	fclose(f);
	free(got);
	return same;
}

size_t folder_size(const char *name)
{
	struct stat st;

	ck_assert_int_eq(lstat(name, &st), 0);
	return (size_t)st.st_size;
}

int folder_mode(const char *name)
{
	struct stat st;

	return lstat(name, &st) ? -1 : (int)(st.st_mode & 07777);
}
