/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, in the views. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/waits.h"
#include "introspect/linux/linux.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define THREADS 6

static struct lg_thread *t[THREADS];
static uint64_t mutex[THREADS];
static char *text;

/* Threads 300 to 305, and a mutex that each of them holds. */
static void setup(void)
{
	sample_flags = KCD_SS_REQ_THREAD_WAITINFO;
	sample_setup();
	for (int i = 0; i < THREADS; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "t%d", i);
		t[i] = lg_add_process(&guest, 300 + i, comm);
		mutex[i] = lg_mutex_make(&guest, t[i]->address | 1);
	}
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static void let_wait(int who, int whom)
{
	lg_mutex_wait(&guest, mutex[whom], t[who]);
}

static void show(void)
{
	size_t size = 0;

	sample_take();
	sample_load();
	sample_show_all();
	free(text);
	FILE *f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	ck_assert(rep_waits(&capture, f));
	ck_assert_int_eq(fclose(f), 0);
}

static void expect_text(const char *expected)
{
	ck_assert_msg(strncmp(text, expected, strlen(expected)) == 0, "not\n%s but\n%s", expected,
		      text);
}

static char *line(int who, int whom, const char *indent)
{
	static char lines[4][160];
	static unsigned int next;
	char *out = lines[next++ % 4];

	snprintf(out, sizeof(lines[0]), "%sthread %d t%d waits for mutex 0x%llx held by %d t%d\n",
		 indent, 300 + who, who, (unsigned long long)mutex[whom], 300 + whom, whom);
	return out;
}

START_TEST(two_that_wait_for_each_other_are_a_deadlock)
{
	char expected[1024];

	let_wait(4, 1);
	let_wait(1, 4);
	let_wait(2, 4); // waits for it, but is none of it
	let_wait(3, 0);
	show();
	snprintf(expected, sizeof(expected),
		 "Deadlock:\n%s%s\nthread 300 t0 is waited for by\n%s\n"
		 "thread 304 t4 is waited for by\n%s\nWaits for what has no owner",
		 line(1, 4, "  "), line(4, 1, "  "), line(3, 0, "  "), line(2, 4, "  "));
	expect_text(expected);
	free(text);
	text = sample_json();
	ck_assert_ptr_nonnull(
		strstr(text, "\"deadlocks\": [\n    [\n      301,\n      304\n    ]\n"));
	ck_assert_ptr_nonnull(strstr(text, "\"kind\": \"mutex\""));
}
END_TEST

START_TEST(chains_are_drawn_from_who_waits_for_nobody)
{
	char expected[1024];

	let_wait(0, 1);
	let_wait(1, 2);
	let_wait(2, 3);
	let_wait(4, 2);
	show();
	snprintf(expected, sizeof(expected), "thread 303 t3 is waited for by\n%s%s%s%s\n",
		 line(2, 3, "  "), line(1, 2, "    "), line(0, 1, "      "), line(4, 2, "    "));
	expect_text(expected);
	ck_assert_ptr_null(strstr(text, "Deadlock"));
}
END_TEST

START_TEST(one_that_waits_for_itself_is_a_deadlock)
{
	char expected[256];

	let_wait(5, 5);
	show();
	snprintf(expected, sizeof(expected), "Deadlock:\n%s\nWaits", line(5, 5, "  "));
	expect_text(expected);
}
END_TEST

START_TEST(ring_of_all_is_one_deadlock)
{
	for (int i = 0; i < THREADS; i++)
		let_wait(i, (i + 1) % THREADS);
	show();
	expect_text("Deadlock:\n  thread 300 t0 ");
	ck_assert_ptr_null(strstr(strstr(text, "Deadlock") + 1, "Deadlock"));
	ck_assert_ptr_null(strstr(text, "is waited for by"));
}
END_TEST

START_TEST(thread_says_what_it_waits_for)
{
	let_wait(1, 0);
	*lg_word(&guest, mutex[2] + offsetof(struct lg_mutex, owner)) = 1;
	let_wait(3, 2);
	show();
	free(text);
	text = sample_text(false);
	char *held = line(1, 0, "");
	ck_assert_ptr_nonnull(strstr(text, strstr(held, "waits")));
	ck_assert_ptr_nonnull(strstr(text, " that nobody holds now\n"));
}
END_TEST

START_TEST(owner_that_is_not_in_the_capture_is_named_by_number)
{
	let_wait(1, 0);
	sample_take();
	sample_load();
	// as if its process had been left out
	capture.waits[0].owner = REP_NONE;
	text = sample_text(false);
	ck_assert_ptr_nonnull(strstr(text, " held by 300, which is not in this capture\n"));
}
END_TEST

/* As if threads waited for another kind of thing. */
static void make_kind(enum lnx_wait_kind kind)
{
	for (size_t i = 0; i < capture.wait_count; i++)
		capture.waits[i].record.kind = kind;
	ck_assert(rep_waits_resolve(&capture));
	free(text);
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	ck_assert(rep_waits(&capture, f));
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(ring_through_a_process_with_other_threads_is_no_deadlock)
{
	let_wait(4, 1);
	let_wait(1, 4);
	let_wait(2, 1);
	show();
	make_kind(LNX_WAIT_FLOCK);
	expect_text("Deadlock:\n  thread 301 t1 waits for flock ");
	lg_add_thread(&guest, t[4], 310, "other");
	show();
	expect_text("Deadlock:\n  thread 301 t1 waits for mutex "); // a mutex only t4 can let go
	make_kind(LNX_WAIT_FLOCK);
	// t1 waits for a process of which another thread may go on
	expect_text("thread 301 t1 is waited for by\n  thread 302 t2 waits for flock ");
	ck_assert_ptr_nonnull(strstr(text, "\n  thread 304 t4 waits for flock "));
	ck_assert_ptr_null(strstr(text, "Deadlock"));
	free(text);
	text = sample_json();
	ck_assert_ptr_nonnull(strstr(text, "\"deadlocks\": []"));
}
END_TEST

START_TEST(every_kind_has_a_name_and_a_text_of_its_own)
{
	static char names[LNX_WAIT_KINDS][64] = { "\"kind\": \"unknown\"" };

	let_wait(1, 0);
	show();
	for (uint32_t kind = 1; kind < LNX_WAIT_KINDS; kind++) {
		make_kind((enum lnx_wait_kind)kind);
		ck_assert_ptr_null(strstr(text, "something unknown"));
		free(text);
		text = sample_json();
		for (const char *at = text; (at = strstr(at, "\"kind\": \"")); at++) {
			const char *end = strchr(at, '\n');
			if (end && strstr(end, "\"object\"") == end + strspn(end, " \n"))
				snprintf(names[kind], sizeof(names[kind]), "%.*s", (int)(end - at),
					 at);
		}
		ck_assert_str_ne(names[kind], "");
		for (uint32_t i = 0; i < kind; i++)
			ck_assert_str_ne(names[i], names[kind]);
	}
}
END_TEST

START_TEST(what_a_wait_has_besides_is_shown)
{
	static const struct {
		enum lnx_wait_kind kind;
		const char *text, *json;
	} shown[] = {
		{ LNX_WAIT_FLOCK, " (of inode 258) held by 300 t0\n", "\"inode\": 258" },
		{ LNX_WAIT_PIPE, " (descriptor 258) held", "\"descriptor\": 258" },
		{ LNX_WAIT_SIGNAL, " (of 0x102) held", "\"signals\": \"0x102\"" },
		{ LNX_WAIT_TIMER, ", due at 0.000000258 s held", "\"due_ns\": 258" },
		{ LNX_WAIT_WORK, "waits for work, idle 0x", "\"function\": \"0x102\"" },
		{ LNX_WAIT_TIMEOUT, ", due in 258 ms held", "\"left_ms\": 258" },
		{ LNX_WAIT_BLOCK, " held", "\"device\": null" },
		{ LNX_WAIT_BUFFER, " (block 258) held", "\"block\": 258" },
		{ LNX_WAIT_PAGE, " (bit 258) held", "\"inode\": null" },
	};

	let_wait(1, 0);
	show();
	capture.waits[0].record.extra = 258;
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		make_kind(shown[i].kind);
		ck_assert_msg(strstr(text, shown[i].text) != NULL, "%s", text);
		free(text);
		text = sample_json();
		ck_assert_ptr_nonnull(strstr(text, shown[i].json));
	}
}
END_TEST

START_TEST(devices_and_files_are_shown)
{
	let_wait(1, 0);
	show();
	struct ss_wait_record *r = &capture.waits[0].record;
	r->extra = 0;
	r->device = UINT32_C(254) << 20 | 17;
	r->inode = 12;
	make_kind(LNX_WAIT_PAGE);
	ck_assert_ptr_nonnull(strstr(text, " (bit 0) of inode 12 on device 254:17 held"));
	free(text);
	text = sample_json();
	ck_assert_ptr_nonnull(strstr(text, "\"device\": \"254:17\""));
	ck_assert_ptr_nonnull(strstr(text, "\"inode\": 12"));
	r->inode = 0;
	r->device = UINT32_MAX;
	make_kind(LNX_WAIT_BLOCK);
	ck_assert_ptr_nonnull(strstr(text, " on device 4095:1048575 held"));
	r->extra = LNX_TIMEOUT_UNKNOWN;
	make_kind(LNX_WAIT_TIMEOUT);
	ck_assert_ptr_null(strstr(text, "due in"));
	free(text);
	text = sample_json();
	ck_assert_ptr_nonnull(strstr(text, "\"left_ms\": null"));
}
END_TEST

/* As the first version had them: without devices. */
START_TEST(waits_of_older_captures_are_shown)
{
	const uint64_t id = 300;
	uint8_t old[2][offsetof(struct ss_wait_record, device)] = { { LNX_WAIT_PAGE },
								    { LNX_WAIT_BLOCK } };
	static uint8_t buf[4096];
	struct kcd_writer w;

	enum kcd_code rc = kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0);
	rc = rc ? rc : kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, id);
	rc = rc ? rc : kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, id);
	rc = rc ? rc : kcd_append_array(&w, SS_RECORD_WAIT, 2, sizeof(old[0]), old);
	rc = rc ? rc : kcd_container_end(&w, id);
	rc = rc ? rc : kcd_container_end(&w, id);
	ck_assert_int_eq(rc, KCD_OK);
	ck_assert_msg(!sample_read(buf, kcd_writer_used(&w)), "%s", error.text);
	ck_assert_uint_eq(capture.wait_count, 2);
	ck_assert_uint_eq(capture.waits[0].record.kind, LNX_WAIT_PAGE);
	for (size_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(capture.waits[i].record.device, 0);
		ck_assert_uint_eq(capture.waits[i].record.inode, 0);
	}
}
END_TEST

START_TEST(capture_that_was_not_asked_says_nothing)
{
	sample_flags = 0;
	let_wait(1, 0);
	show();
	ck_assert(!capture.has_waits);
	expect_text("No thread waits for anything");
	free(text);
	text = sample_json();
	ck_assert_ptr_null(strstr(text, "\"waits\""));
	ck_assert_ptr_null(strstr(text, "\"deadlocks\""));
}
END_TEST

START_TEST(kinds_of_later_versions_are_shown_as_unknown)
{
	let_wait(1, 0);
	show();
	ck_assert_uint_eq(capture.wait_count, 1);
	for (uint32_t kind = 0; kind < 40; kind++) {
		capture.waits[0].record.kind = kind;
		capture.waits[0].record.extra = UINT64_MAX;
		sample_show_all();
	}
	free(text);
	text = sample_json();
	ck_assert_ptr_nonnull(strstr(text, "\"kind\": \"unknown\""));
}
END_TEST

Suite *suite_waits(void)
{
	Suite *s = suite_create("waits");
	TCase *tc = tcase_create("waits");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, two_that_wait_for_each_other_are_a_deadlock);
	tcase_add_test(tc, chains_are_drawn_from_who_waits_for_nobody);
	tcase_add_test(tc, one_that_waits_for_itself_is_a_deadlock);
	tcase_add_test(tc, ring_of_all_is_one_deadlock);
	tcase_add_test(tc, thread_says_what_it_waits_for);
	tcase_add_test(tc, owner_that_is_not_in_the_capture_is_named_by_number);
	tcase_add_test(tc, ring_through_a_process_with_other_threads_is_no_deadlock);
	tcase_add_test(tc, every_kind_has_a_name_and_a_text_of_its_own);
	tcase_add_test(tc, what_a_wait_has_besides_is_shown);
	tcase_add_test(tc, devices_and_files_are_shown);
	tcase_add_test(tc, waits_of_older_captures_are_shown);
	tcase_add_test(tc, capture_that_was_not_asked_says_nothing);
	tcase_add_test(tc, kinds_of_later_versions_are_shown_as_unknown);
	suite_add_tcase(s, tc);
	return s;
}
