/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kcdata does when memory runs out: allocation n fails, for n = 1, 2, 3 ... until none does. Each time
 * the result is KCD_ENOMEM (or success, where it was not needed), and a leak sanitizer finds nothing left.
 * Linked with --wrap for malloc, calloc and realloc: only kcdata's own calls count, not zlib's and zstd's.
 *
 * usage: faults FILE... (plain streams)
 */
#include <string.h>

#include "kcdata/compress.h"
#include "kcdata/json_view.h"
#include "kcdata/stat.h"
#include "kcdata/text.h"
#include "kcdata/validate.h"
#include "tests/fuzz/fuzz.h"

static uint32_t allocations;
static uint32_t fail_at; /* 0: never */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
	return fail_at && ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

static const uint8_t *data;
static size_t size;
static uint8_t packed[1 << 20];
static size_t packed_len;

static bool drop(void *arg, const void *text, size_t len)
{
	(void)arg;
	(void)text;
	(void)len;
	return true;
}

static enum kcd_code json(void)
{
	struct kcd_json j;

	kcd_json_init(&j, drop, NULL, 0);
	return kcd_json_view(data, size, KCD_TOLERANT, 0, NULL, &j, NULL, NULL);
}

static enum kcd_code text(void)
{
	return kcd_text_dump(data, size, KCD_TOLERANT, NULL, drop, NULL, NULL);
}

static enum kcd_code statistics(void)
{
	struct kcd_stat s;
	enum kcd_code rc = kcd_stat_collect(data, size, NULL, &s, NULL);

	kcd_stat_deinit(&s);
	return rc;
}

static enum kcd_code validate(void)
{
	struct kcd_verdict v;

	return kcd_validate(data, size, NULL, NULL, NULL, &v);
}

static enum kcd_code validate_packed(void)
{
	struct kcd_verdict v;

	return kcd_validate(packed, packed_len, NULL, NULL, NULL, &v);
}

static enum kcd_code compress(void)
{
	static const struct kcd_compression how = { KCD_COMPRESS_ZSTD, 1 };
	struct kcd_buffer out = { packed, sizeof(packed), 0 };
	const struct kcd_output to = kcd_buffer_output(&out);
	enum kcd_code rc = kcd_compress_stream(data, size, &how, 0, &to, NULL, NULL);

	packed_len = out.used;
	return rc;
}

static enum kcd_code inflate(void)
{
	uint8_t *plain;
	size_t len;
	enum kcd_code rc =
		kcd_inflate(packed, packed_len, NULL, KCD_INFLATE_SALVAGE, &plain, &len, NULL);

	free(plain);
	return rc;
}

static void walk(const char *name, enum kcd_code (*work)(void))
{
	enum kcd_code right, rc;
	uint32_t n = 0;

	fail_at = 0;
	right = work();
	do {
		fail_at = ++n;
		allocations = 0;
		rc = work();
		HOLDS(rc == KCD_ENOMEM || rc == right);
	} while (allocations >= fail_at);
	fail_at = 0;
	HOLDS(work() == right);
	printf("%s: %u allocations\n", name, n - 1);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		static uint8_t bytes[256 << 10];
		FILE *f = fopen(argv[i], "rb");

		if (!f) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		size = fread(bytes, 1, sizeof(bytes), f);
		data = bytes;
		fclose(f);
		walk("json", json);
		walk("text", text);
		walk("stat", statistics);
		walk("validate", validate);
		walk("compress", compress);
		HOLDS(compress() == KCD_OK);
		walk("inflate", inflate);
		walk("validate compressed", validate_packed);
	}
	return argc > 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
