/* SPDX-License-Identifier: Apache-2.0 */
/* Gives files, or all files of folders, to a fuzz target: findings stay fixed without a fuzzer. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static unsigned long files;

static void give_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	rewind(f);
	// exactly as large as the file, so that a sanitizer sees reads behind it
	data = malloc(size ? (size_t)size : 1);
	if (!data || fread(data, 1, (size_t)size, f) != (size_t)size) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	fclose(f);
	(void)LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
	files++;
}

static void give_folder(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;

	if (!dir) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	while ((e = readdir(dir))) {
		char name[4096];
		struct stat st;

		if (snprintf(name, sizeof(name), "%s/%s", path, e->d_name) >= (int)sizeof(name))
			continue;
		if (!stat(name, &st) && S_ISREG(st.st_mode))
			give_file(name);
	}
	closedir(dir);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (!stat(argv[i], &st) && S_ISDIR(st.st_mode))
			give_folder(argv[i]);
		else
			give_file(argv[i]);
	}
	printf("%s: %lu files\n", argv[0], files);
	return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
