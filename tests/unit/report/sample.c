/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of the made-up guest. */
#include "tests/unit/report/sample.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/summary.h"
#include "introspect/stackshot/stackshot.h"
#include "tests/unit/linux/user_memory.h"

struct linux_guest guest;
uint8_t *sample;
size_t sample_size;
struct rep_capture capture;
struct gs_error error;
uint64_t sample_flags;

static char path[] = "/tmp/unit-report-XXXXXX";

void sample_take(void)
{
	struct ss_request request = { .version = SS_REQUEST_VERSION,
				      .size = sizeof(request),
				      .flags = sample_flags,
				      .pid = SS_PID_ALL };
	struct ss_session *session;
	struct ss_result result = { 0 };

	ck_assert_int_eq(ss_session_create(&guest.m.guest, &session, &error), GS_OK);
	ck_assert_msg(ss_capture(session, &request, &result, &error) == GS_OK, "%s", error.text);
	free(sample);
	sample_size = result.size;
	sample = malloc(sample_size);
	ck_assert_ptr_nonnull(sample);
	memcpy(sample, result.data, sample_size);
	ss_result_deinit(&result);
	ss_session_destroy(session);
}

void sample_give_user_stack(void)
{
	struct lg_mm *mm = lg_add_mm(&guest, &guest.threads[4], 0x10001);

	um_enter(&guest, &guest.threads[4], 0x400100, 0x500000, 0x400200);
	um_insn(&guest, mm, 0x4001fc, 0xd63f0020); // blr x1
	um_record(&guest, mm, 0x500000, 0x500003, 0x400300);
	const uint64_t bin = um_dentry(&guest, um_dentry(&guest, 0, "/"), "bin");
	const uint64_t tool = um_file(&guest, um_dentry(&guest, bin, "tool"), 77);
	const struct um_mapping m[] = {
		{ 0x3f0000, 0x3f1000, 0, tool },
		{ 0x400000, 0x400300, 2, tool },
		{ 0x400300, 0x800000, 0, 0 },
	};
	um_map(&guest, mm, m, 3);
	um_program(&guest, mm, 0x3f0000, "\xb1\x0d\x5e\xed\x00\xff\x10\x01", 8);
	sample_flags = SS_USER_STACKS;
}

void sample_setup(void)
{
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	lg_create(&guest, &(struct lg_form){ .seqs = true });
	lg_populate(&guest);
	sample_take();
}

void sample_teardown(void)
{
	rep_capture_deinit(&capture);
	unlink(path);
	free(sample);
	sample = NULL;
	lg_destroy(&guest);
}

enum gs_code sample_read_to(const void *data, size_t size, struct rep_capture *out)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(data, 1, size, f), size);
	ck_assert_int_eq(fclose(f), 0);
	error = (struct gs_error){ 0 };
	return rep_capture_read(path, out, &error);
}

enum gs_code sample_read(const void *data, size_t size)
{
	rep_capture_deinit(&capture);
	return sample_read_to(data, size, &capture);
}

void sample_load(void)
{
	ck_assert_msg(sample_read(sample, sample_size) == GS_OK, "%s", error.text);
	ck_assert(!capture.damaged);
}

static char *print(bool (*view)(FILE *to, bool group), bool group)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(f);
	ck_assert(view(f, group));
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_uint_eq(strlen(text), size);
	return text;
}

static bool view_text(FILE *to, bool group)
{
	return rep_text(&capture, group, to);
}

static bool view_json(FILE *to, bool group)
{
	(void)group;
	return rep_json(&capture, to);
}

static struct rep_summary summary_of(void)
{
	return (struct rep_summary){
		.name = "test",
		.result = "failed",
		.type = "timeout",
		.text = "timeout",
		.capture = &capture,
		.capture_file = "c.kcdata",
	};
}

static bool view_summary(FILE *to, bool group)
{
	const struct rep_summary s = summary_of();

	(void)group;
	return rep_summary_text(&s, to);
}

static bool view_summary_json(FILE *to, bool group)
{
	const struct rep_summary s = summary_of();

	(void)group;
	return rep_summary_json(&s, to);
}

char *sample_summary(void)
{
	return print(view_summary, false);
}

char *sample_text(bool group)
{
	return print(view_text, group);
}

char *sample_json(void)
{
	return print(view_json, false);
}

char *sample_json_compact(void)
{
	json_error_t why;
	char *text = sample_json();
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &why);

	ck_assert_msg(root, "line %d: %s", why.line, why.text);
	free(text);
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

void sample_has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part), "no \"%s\" in:\n%s", part, text);
}

static void check_text(char *text)
{
	for (const char *c = text; *c; c++)
		ck_assert_msg(*c == '\n' || *c == '\t' || (*c >= ' ' && *c <= '~'), "byte %#x",
			      *c & 0xff);
	ck_assert(*text && text[strlen(text) - 1] == '\n');
	free(text);
}

static void check_json(char *json)
{
	json_error_t why;
	// numbers of a hostile file may have 64 bits, which jansson takes for reals only
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);

	ck_assert_msg(root, "line %d: %s", why.line, why.text);
	json_decref(root);
	free(json);
}

void sample_show_all(void)
{
	static unsigned int calls;

	check_json(sample_json());
	check_text(sample_text(false));
	check_text(sample_text(true));
	/* tests of damage call this thousands of times */
	if (calls++ % 8)
		return;
	check_json(print(view_summary_json, false));
	check_text(sample_summary());
}

const struct rep_thread *sample_thread(int32_t tid)
{
	for (size_t i = 0; i < capture.thread_count; i++)
		if (capture.threads[i].has_linux && capture.threads[i].linux_facts.tid == tid)
			return &capture.threads[i];
	ck_abort_msg("no thread %d", tid);
	return NULL;
}
