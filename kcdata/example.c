/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses libkcdata and nothing else of guestshot: writes a stream, compresses it, shows it. */
#include <stdio.h>
#include <stdlib.h>

#include <kcdata/compress.h>
#include <kcdata/json_view.h>
#include <kcdata/kcdata.h>
#include <kcdata/stackshot_types.h>

static bool to_stdout(void *arg, const void *data, size_t len)
{
	(void)arg;
	return fwrite(data, 1, len, stdout) == len;
}

static enum kcd_code write_stream(struct kcd_writer *w, void *memory, size_t size)
{
	static const uint64_t frames[] = { 0xffff800008012340, 0xffff800008056780 };
	enum kcd_code rc;

	if ((rc = kcd_writer_init(w, memory, size, KCD_MAGIC_STACKSHOT, 0)) ||
	    (rc = kcd_append_u64(w, "stackshot_in_flags", KCD_SS_KCDATA_FORMAT)) ||
	    (rc = kcd_container_begin(w, KCD_SS_CONTAINER_TASK, 1)) ||
	    (rc = kcd_container_begin(w, KCD_SS_CONTAINER_THREAD, 2)) ||
	    (rc = kcd_append_array(w, KCD_SS_KERN_STACKLR64, 2, sizeof(frames[0]), frames)) ||
	    (rc = kcd_container_end(w, 2)))
		return rc;
	return kcd_container_end(w, 1);
}

int main(void)
{
	static uint8_t memory[4096], compressed[4096];
	struct kcd_buffer out = { compressed, sizeof(compressed), 0 };
	const struct kcd_output to = kcd_buffer_output(&out);
	const struct kcd_compression how = { KCD_COMPRESS_ZSTD, 0 };
	struct kcd_writer w;
	struct kcd_error err = { .code = KCD_OK };
	struct kcd_json j;
	uint8_t *plain = NULL;
	size_t len;

	enum kcd_code rc = write_stream(&w, memory, sizeof(memory));
	if (!rc)
		rc = kcd_compress_stream(memory, kcd_writer_used(&w), &how, 0, &to, NULL, &err);
	if (!rc)
		rc = kcd_inflate(compressed, out.used, NULL, 0, &plain, &len, &err);
	if (!rc) {
		kcd_json_init(&j, to_stdout, NULL, KCD_JSON_PRETTY);
		rc = kcd_json_view(plain, len, KCD_STRICT, 0, NULL, &j, NULL, &err);
		if (!rc)
			rc = kcd_json_finish(&j);
	}
	free(plain);
	if (rc)
		fprintf(stderr, "%s: %s\n", kcd_code_name(rc), err.reason);
	return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
