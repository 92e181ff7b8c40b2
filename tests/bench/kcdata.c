/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast kcdata is: append, iterate, JSON, compress, decompress. Each figure stands beside memcpy of
 * the same bytes, measured in the same run by turns, because other work on the machine slows both. The
 * best of many rounds counts.
 *
 * usage: bench-kcdata | bench-kcdata FILE THREADS (only write the capture that it makes)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "introspect/stackshot/records.h"
#include "kcdata/compress.h"
#include "kcdata/json_view.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "kcdata/text.h"
#include "kcdata/validate.h"
#include "tests/bench/kcdata_capture.h"

#define THREADS 10000u
#define ROUNDS	25u
#define AREA	(16u << 20) /* of the append test: stays out of the nearest caches, as captures do */
#define PAYLOAD 64u
#define ITEM	(KCD_HEADER_SIZE + PAYLOAD)
#define RECORDS (AREA / ITEM - 2)
#define SOURCES 512u /* different records */

static uint8_t *capture;
static size_t capture_len;
static uint8_t *area;
static uint8_t items[SOURCES][ITEM];
static uint8_t payloads[SOURCES][PAYLOAD];
static struct kcd_buffer packed;
static size_t json_bytes;

/* What the compiler must believe is looked at. */
static volatile uint64_t sink_value;

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "bench: %s failed\n", what);
		exit(EXIT_FAILURE);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- what is measured; each does all of its work once ----------------------------------------- */

static void append(void)
{
	struct kcd_writer w;
	enum kcd_code rc = kcd_writer_init(&w, area, AREA, KCD_MAGIC_STACKSHOT, 0);

	for (uint32_t i = 0; i < RECORDS && !rc; i++)
		rc = kcd_append(&w, KCD_SS_JETSAM_COALITION_SNAPSHOT, payloads[i % SOURCES],
				PAYLOAD);
	must(!rc, "append");
}

/* The same records with their headers ready made: a call of memcpy for each, of a size that the
 * compiler does not know, as kcd_append() does not. */
static void copy_items(void)
{
	static volatile size_t item_size = ITEM;
	size_t size = item_size;
	uint8_t *at = area + KCD_HEADER_SIZE;

	for (uint32_t i = 0; i < RECORDS; i++, at += ITEM)
		memcpy(at, items[i % SOURCES], size);
	sink_value = *area;
}

static void copy_capture(void)
{
	memcpy(area, capture, capture_len);
	sink_value = *area;
}

static void iterate_buffer(const uint8_t *buf, size_t len, enum kcd_mode mode)
{
	struct kcd_reader r;
	struct kcd_item it;
	uint64_t sum = 0;
	enum kcd_code rc = kcd_reader_init(&r, buf, len, mode, NULL);

	while (!rc && !(rc = kcd_reader_next(&r, &it)))
		sum += it.size + it.type;
	must(rc == KCD_DONE, "iterate");
	sink_value = sum;
}

static void iterate(void)
{
	iterate_buffer(capture, capture_len, KCD_TOLERANT);
}

static void iterate_strict(void)
{
	iterate_buffer(capture, capture_len, KCD_STRICT);
}

static bool count_bytes(void *arg, const void *data, size_t len)
{
	(void)data;
	*(size_t *)arg += len;
	return true;
}

static void json(void)
{
	struct kcd_json j;

	json_bytes = 0;
	kcd_json_init(&j, count_bytes, &json_bytes, 0);
	must(!kcd_json_view(capture, capture_len, KCD_TOLERANT, 0, &ss_schema, &j, NULL, NULL) &&
		     !kcd_json_finish(&j),
	     "json");
}

static void text(void)
{
	size_t n = 0;

	must(!kcd_text_dump(capture, capture_len, KCD_TOLERANT, &ss_schema, count_bytes, &n, NULL),
	     "text");
}

static void validate(void)
{
	struct kcd_verdict v;

	must(!kcd_validate(capture, capture_len, NULL, NULL, NULL, &v) && !v.errors, "validate");
}

static void compress_as(enum kcd_algorithm algorithm, int level, size_t run)
{
	const struct kcd_compression how = { algorithm, level };
	struct kcd_output out = kcd_buffer_output(&packed);

	packed.used = 0;
	must(!kcd_compress_stream(capture, capture_len, &how, run, &out, NULL, NULL), "compress");
}

static void compress_zlib(void)
{
	compress_as(KCD_COMPRESS_ZLIB, 0, 0);
}

static void compress_zlib_items(void)
{
	compress_as(KCD_COMPRESS_ZLIB, 0, KCD_RUN_ITEM);
}

static void compress_zstd(void)
{
	compress_as(KCD_COMPRESS_ZSTD, 0, 0);
}

static void compress_zstd3(void)
{
	compress_as(KCD_COMPRESS_ZSTD, 3, 0);
}

static void decompress(void)
{
	size_t n = 0;

	must(!kcd_inflate_stream(packed.data, packed.used, NULL, 0, count_bytes, &n, NULL) &&
		     n == capture_len,
	     "decompress");
}

/* --- measuring ------------------------------------------------------------------------------- */

static double once(void (*work)(void))
{
	double start = now();

	work();
	return now() - start;
}

static void report(const char *name, void (*work)(void), void (*copy)(void), size_t bytes)
{
	double best = 1e9, best_copy = 1e9;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		double t = once(copy);
		best_copy = t < best_copy ? t : best_copy;
		t = once(work);
		best = t < best ? t : best;
	}
	printf("%-28s %9.1f MB/s   memcpy %9.1f MB/s   ratio %.3f\n", name,
	       (double)bytes / best / 1e6, (double)bytes / best_copy / 1e6, best_copy / best);
}

static void report_packed(const char *name, void (*work)(void))
{
	char title[64];

	report(name, work, copy_capture, capture_len);
	printf("%-28s %9zu bytes, 1/%.2f of the plain ones\n", "", packed.used,
	       (double)capture_len / (double)packed.used);
	snprintf(title, sizeof(title), "de%s", name);
	report(title, decompress, copy_capture, capture_len);
}

static void print_machine(void)
{
	struct utsname u;
	char line[256] = "";
	FILE *f = fopen("/proc/cpuinfo", "re");

	must(!uname(&u), "uname");
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "model name", 10))
		;
	if (f)
		fclose(f);
	char *model = strchr(line, ':');
	printf("machine: %s, %s", u.machine, model ? model + 2 : "model not known\n");
}

static void make_items(void)
{
	struct kcd_writer w;
	uint64_t state = 1;

	for (uint32_t i = 0; i < SOURCES; i++) {
		uint8_t stream[2 * KCD_HEADER_SIZE + ITEM];

		for (uint32_t b = 0; b < PAYLOAD; b++)
			payloads[i][b] =
				(uint8_t)((state = state * 6364136223846793005u + 1) >> 56);
		must(!kcd_writer_init(&w, stream, sizeof(stream), KCD_MAGIC_STACKSHOT, 0) &&
			     !kcd_append(&w, KCD_SS_JETSAM_COALITION_SNAPSHOT, payloads[i],
					 PAYLOAD),
		     "items");
		memcpy(items[i], stream + KCD_HEADER_SIZE, ITEM);
	}
}

/* The made capture as a file, for other tests. */
static int write_capture(const char *path)
{
	FILE *f = fopen(path, "wbe");

	must(f && fwrite(capture, 1, capture_len, f) == capture_len && !fclose(f), path);
	free(capture);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	capture =
		kcdata_capture_make(argc == 3 ? (uint32_t)atoi(argv[2]) : THREADS, 1, &capture_len);
	must(capture != NULL, "making the capture");
	if (argc == 3)
		return write_capture(argv[1]);
	area = calloc(1, AREA > capture_len ? AREA : capture_len);
	packed.size = 2 * capture_len + (1 << 20);
	packed.data = calloc(1, packed.size);
	must(area && packed.data, "memory");
	make_items();

	print_machine();
	printf("input: %u records of %u bytes; a made capture of %u threads, %zu bytes; best of "
	       "%u\n\n",
	       RECORDS, PAYLOAD, THREADS, capture_len, ROUNDS);
	report("append, 64-byte records", append, copy_items, (size_t)RECORDS * ITEM);
	report("iterate", iterate, copy_capture, capture_len);
	report("iterate, strict", iterate_strict, copy_capture, capture_len);
	report("validate", validate, copy_capture, capture_len);
	report("json", json, copy_capture, capture_len);
	printf("%-28s %9zu bytes of JSON\n", "", json_bytes);
	report("text", text, copy_capture, capture_len);
	report_packed("compress zlib", compress_zlib);
	report_packed("compress zlib, item by item", compress_zlib_items);
	report_packed("compress zstd", compress_zstd);
	report_packed("compress zstd:3", compress_zstd3);
	free(capture);
	free(area);
	free(packed.data);
	return EXIT_SUCCESS;
}
