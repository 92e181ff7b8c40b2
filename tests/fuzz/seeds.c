/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seeds of the fuzz targets: small streams of every kind of item, plain and compressed. */
#include <string.h>
#include <sys/stat.h>

#include "kcdata/compress.h"
#include "kcdata/crashinfo_types.h"
#include "kcdata/kcdata.h"
#include "kcdata/schema.h"
#include "kcdata/stackshot_types.h"
#include "tests/fuzz/fuzz.h"

static uint8_t memory[64 << 10];
static struct kcd_writer w;

#define OK(call) HOLDS((call) == KCD_OK)

struct sample {
	uint64_t address;
	uint16_t pair[2];
	char name[12];
};

static const struct kcd_field sample_fields[] = {
	KCD_FIELD(struct sample, address),
	KCD_FIELD(struct sample, pair),
	KCD_FIELD(struct sample, name),
};
static const struct kcd_field one_field[] = { KCD_FIELD(struct sample, address) };
static const struct kcd_type sample_types[] = {
	KCD_STRUCT_TYPE(0x47537001, "SAMPLE", "sample", sample_fields),
	KCD_STRUCT_TYPE(0x47537002, "ONE", "one", one_field),
};

static void write_file(const char *folder, const char *name, const void *data, size_t len)
{
	char path[4096];

	(void)mkdir(folder, 0777); // there already, or fopen() tells
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "wb");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

static void begin(uint32_t magic)
{
	OK(kcd_writer_init(&w, memory, sizeof(memory), magic, 0));
}

static void thread(uint64_t id, uint32_t frames)
{
	struct kcd_thread_snapshot_v4 snapshot = { .ths_thread_id = id, .ths_base_priority = -5 };
	char name[KCD_SS_THREAD_NAME_SIZE] = "worker \"\xc3\xa9\xff\n";
	uint64_t lr[16];

	for (uint32_t i = 0; i < frames; i++)
		lr[i] = UINT64_C(0xffff800008000000) + i * 0x40 + id;
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, id));
	OK(kcd_append(&w, KCD_SS_THREAD_SNAPSHOT, &snapshot, sizeof(snapshot)));
	OK(kcd_append(&w, KCD_SS_THREAD_NAME, name, sizeof(name)));
	OK(kcd_append_array(&w, KCD_SS_KERN_STACKLR64, frames, 8, lr));
	OK(kcd_append_array(&w, KCD_SS_USER_STACKLR, frames, 4, lr));
	OK(kcd_container_end(&w, id));
}

static void stackshot(void)
{
	struct kcd_task_snapshot_v2 task = { .ts_pid = 42, .ts_p_comm = "init" };
	struct kcd_thread_waitinfo_v2 wait[2] = { { .owner = KCD_WAIT_OWNER_KERNEL } };
	struct kcd_duration_v2 duration = { 1, 2, 3 };
	struct kcd_portlabel label = { -1, 2, 7 };
	struct sample sample = { 1, { 2, 3 }, "x" };

	begin(KCD_MAGIC_STACKSHOT);
	OK(kcd_append_typedef(&w, &sample_types[0]));
	OK(kcd_append_typedef(&w, &sample_types[1]));
	OK(kcd_append_u64(&w, "stackshot_in_flags", 0x10000));
	OK(kcd_append_u32(&w, "stackshot_in_pid", UINT32_MAX));
	OK(kcd_append_string(&w, KCD_SS_OSVERSION, "Linux version 6.1", 256));
	OK(kcd_append(&w, 0x47537001, &sample, sizeof(sample)));
	OK(kcd_append_array(&w, 0x47537002, 1, 8, &sample));
	OK(kcd_append(&w, 0x7777, "unknown", 7));
	OK(kcd_append_array(&w, 0x7778, 3, 5, "abcdefghijklmno"));
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 7));
	OK(kcd_append(&w, KCD_SS_TASK_SNAPSHOT, &task, sizeof(task)));
	thread(99, 5);
	thread(100, 0);
	OK(kcd_append_array(&w, KCD_SS_THREAD_WAITINFO, 2, sizeof(wait[0]), wait));
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_PORTLABEL, 1));
	OK(kcd_append(&w, KCD_SS_PORTLABEL, &label, sizeof(label)));
	OK(kcd_container_end(&w, 1));
	OK(kcd_container_end(&w, 7));
	OK(kcd_container_begin(&w, 0x9999, 7));
	OK(kcd_container_end(&w, 7));
	OK(kcd_append(&w, KCD_SS_DURATION, &duration, sizeof(duration)));
	OK(kcd_append_u64(&w, "stackshot_out_flags", 0x10000));
}

/* Old encodings are not written by the library: made by hand. */
static size_t legacy(uint8_t *out)
{
	static const struct {
		struct kcd_header h;
		uint8_t payload[112];
	} items[] = {
		{ { KCD_MAGIC_STACKSHOT, 0, 0 }, { 0 } },
		{ { KCD_SS_THREAD_SNAPSHOT, 112, 0 }, { 1, 2, 3 } },
		{ { KCD_TYPE_ARRAY, 32, (uint64_t)KCD_SS_KERN_STACKFRAME64 << 32 | 2 }, { 9 } },
		{ { KCD_TYPE_ARRAY, 16, (uint64_t)KCD_SS_DONATING_PIDS << 32 | 3 }, { 5 } },
		{ { KCD_SS_SHAREDCACHE_LOADINFO, 32, 0 }, { 4 } },
		{ { KCD_TYPE_STRING_DESC, 48, 0x8a }, "a string\0" },
		{ { KCD_TYPE_INT32_DESC, 48, 0x8c }, "negative\0" },
		{ { KCD_TYPE_BINDATA_DESC, 40, 0 }, "bytes\0" },
		{ { KCD_MAGIC_END, 0, 0 }, { 0 } },
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
		memcpy(out + n, &items[i].h, sizeof(items[i].h));
		n += sizeof(items[i].h);
		memcpy(out + n, items[i].payload, items[i].h.size);
		n += items[i].h.size;
	}
	return n;
}

static void nested(void)
{
	uint8_t inner[1024];
	struct kcd_writer v;
	uint64_t thread_id = 42;

	OK(kcd_writer_init(&v, inner, sizeof(inner), KCD_MAGIC_OS_REASON, 0));
	OK(kcd_append(&v, KCD_EXIT_REASON_WORKLOOP_ID, &thread_id, 8));
	OK(kcd_container_begin(&v, 0x9999, 1));
	OK(kcd_container_end(&v, 1));
	begin(KCD_MAGIC_CRASHINFO);
	OK(kcd_append(&w, KCD_CRASH_CRASHED_THREADID, &thread_id, 8));
	OK(kcd_append(&w, KCD_TYPE_NESTED_KCDATA, inner, kcd_writer_used(&v)));
}

static void deep(void)
{
	begin(KCD_MAGIC_DELTA_STACKSHOT);
	for (uint64_t i = 0; i < KCD_DEPTH_MAX; i++)
		OK(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, i));
	for (uint64_t i = KCD_DEPTH_MAX; i--;)
		OK(kcd_container_end(&w, i));
}

static void plain_seed(const char *root, const char *name, const void *data, size_t len)
{
	static const char *const targets[] = { "reader", "json", "inflate" };
	char folder[4096];

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		snprintf(folder, sizeof(folder), "%s/%s", root, targets[i]);
		write_file(folder, name, data, len);
	}
}

static void compressed_seed(const char *root, const char *name, enum kcd_algorithm algorithm,
			    size_t run)
{
	static uint8_t bytes[128 << 10];
	struct kcd_buffer out = { bytes, sizeof(bytes), 0 };
	const struct kcd_output to = kcd_buffer_output(&out);
	const struct kcd_compression how = { algorithm, 0 };
	char folder[4096];

	OK(kcd_compress_stream(memory, kcd_writer_used(&w), &how, run, &to, NULL, NULL));
	snprintf(folder, sizeof(folder), "%s/inflate", root);
	write_file(folder, name, bytes, out.used);
	snprintf(folder, sizeof(folder), "%s/reader", root);
	write_file(folder, name, bytes, out.used);
}

int main(int argc, char **argv)
{
	static uint8_t old[4096];

	if (argc != 2) {
		fputs("usage: seeds FOLDER\n", stderr);
		return EXIT_FAILURE;
	}
	(void)mkdir(argv[1], 0777); // there already, or the first file tells
	stackshot();
	plain_seed(argv[1], "seed-stackshot", memory, kcd_writer_used(&w));
	compressed_seed(argv[1], "seed-zlib", KCD_COMPRESS_ZLIB, 0);
	compressed_seed(argv[1], "seed-zlib-items", KCD_COMPRESS_ZLIB, KCD_RUN_ITEM);
	compressed_seed(argv[1], "seed-zstd", KCD_COMPRESS_ZSTD, 0);
	compressed_seed(argv[1], "seed-zstd-items", KCD_COMPRESS_ZSTD, KCD_RUN_ITEM);
	nested();
	plain_seed(argv[1], "seed-nested", memory, kcd_writer_used(&w));
	deep();
	plain_seed(argv[1], "seed-deep", memory, kcd_writer_used(&w));
	plain_seed(argv[1], "seed-legacy", old, legacy(old));
	begin(KCD_MAGIC_XNUPOST_CONFIG);
	plain_seed(argv[1], "seed-empty", memory, kcd_writer_used(&w));
	return EXIT_SUCCESS;
}
