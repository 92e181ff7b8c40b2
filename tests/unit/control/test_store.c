/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of captures: what is in it, whatever fails or is killed, and however damaged it was. */
#include "control/store.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "control/kept.h"
#include "control/store_priv.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/suites.h"

#define DIR	   "captures"
#define STREAM_MAX 4096

static struct ctl_store *store;
static struct ctl_kept kept;
static struct gs_error err;

/* --- writing that fails, or that ends the process ------------------------------------------------
 */

static int writes;	   /* so far */
static int fail_at;	   /* this one fails; 0: none, negative: all do */
static int die_at;	   /* before this one, or (negative) after it, the process is killed */
static unsigned int fails; /* so many did */

static enum gs_code write_or_fail(const char *path, const void *data, size_t len, mode_t mode,
				  struct gs_error *e)
{
	writes++;
	if (writes == die_at)
		raise(SIGKILL);
	if (fail_at < 0 || writes == fail_at) {
		fails++;
		return gs_fail(e, GS_ENOSPC, "%s: No space left on device, as it were", path);
	}
	enum gs_code rc = gs_file_write_atomic(path, data, len, mode, e);
	if (writes == -die_at)
		raise(SIGKILL);
	return rc;
}

static void make(uint32_t keep, uint64_t max_bytes)
{
	const struct ctl_store_config config = {
		.path = DIR, .keep = keep, .max_bytes = max_bytes, .write = write_or_fail
	};

	ctl_store_destroy(store);
	store = NULL;
	ck_assert_int_eq(ctl_store_create(&config, &store, &err), GS_OK);
}

static void make_open(uint32_t keep, uint64_t max_bytes)
{
	make(keep, max_bytes);
	ck_assert_msg(!ctl_store_open(store, &err), "%s", err.text);
}

/* --- captures ------------------------------------------------------------------------------------
 */

#define OK(call) ck_assert_int_eq((call), KCD_OK)

/* The head of one, which is all of it. */
static size_t stream_of(uint8_t room[STREAM_MAX], uint32_t reason, uint64_t start_ns,
			uint64_t since_ns)
{
	const struct ss_reason_record r = { .reason = reason, .pid = -1, .tid = -1, .vcpu = -1 };
	const uint64_t wall_us = 1000000 + start_ns;
	struct kcd_writer w;

	OK(kcd_writer_init(&w, room, STREAM_MAX,
			   since_ns ? KCD_MAGIC_DELTA_STACKSHOT : KCD_MAGIC_STACKSHOT, 0));
	if (since_ns)
		OK(kcd_append(&w, KCD_SS_DELTA_SINCE_TIMESTAMP, &since_ns, sizeof(since_ns)));
	OK(kcd_append(&w, KCD_TYPE_MACH_ABSOLUTE_TIME, &start_ns, sizeof(start_ns)));
	OK(kcd_append(&w, KCD_TYPE_USECS_SINCE_EPOCH, &wall_us, sizeof(wall_us)));
	OK(kcd_append(&w, SS_RECORD_REASON, &r, sizeof(r)));
	return kcd_writer_used(&w);
}

static enum gs_code put_reason(uint32_t reason, uint64_t start_ns, uint64_t since_ns)
{
	static uint8_t data[STREAM_MAX];
	const size_t size = stream_of(data, reason, start_ns, since_ns);
	const struct ss_result numbers = {
		.size = size, .start_ns = start_ns, .complete = true, .threads = 3, .stopped_ns = 77
	};

	const struct ctl_store_item item = { .data = data,
					     .size = size,
					     .numbers = &numbers,
					     .reason = reason,
					     .since_ns = since_ns };
	bool is_there;

	err = (struct gs_error){ 0 };
	const enum gs_code rc = ctl_store_put(store, &item, &is_there, &err);
	ck_assert(rc || is_there);
	return rc;
}

static void put(uint64_t start_ns, uint64_t since_ns)
{
	ck_assert_msg(!put_reason(SS_REASON_SCHEDULE, start_ns, since_ns), "%s", err.text);
}

/* Their start times, "10 20<10 30 " with the base of a delta behind it. */
static const char *list(void)
{
	static char text[4096];
	uint32_t n;
	const struct ctl_store_entry *e = ctl_store_list(store, &n);
	int len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < n; i++) {
		len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%u", i ? " " : "",
				(unsigned int)e[i].start_ns);
		for (uint32_t j = 0; j < n; j++)
			if (e[i].is_delta && !strcmp(e[i].base, e[j].name))
				len += snprintf(text + len, sizeof(text) - (size_t)len, "<%u",
						(unsigned int)e[j].start_ns);
	}
	return text;
}

/* The index is JSON that lists exactly the captures in the folder, ascending, each of its size. */
static void check_folder(void)
{
	json_error_t why;
	json_t *root = json_load_file(DIR "/" CTL_STORE_INDEX, JSON_REJECT_DUPLICATES, &why);
	const json_t *captures = json_object_get(root, "captures"), *o;
	const char *before = "";
	uint32_t n;
	size_t i;

	ck_assert_msg(root, "%s", why.text);
	(void)ctl_store_list(store, &n);
	ck_assert_uint_eq(json_array_size(captures), n);
	json_array_foreach(captures, i, o)
	{
		const char *name = json_string_value(json_object_get(o, "file"));
		char path[256];
		struct stat st;

		ck_assert_int_gt(strcmp(name, before), 0);
		snprintf(path, sizeof(path), DIR "/%s", name);
		ck_assert_int_eq(stat(path, &st), 0);
		ck_assert_int_eq(st.st_size, json_integer_value(json_object_get(o, "bytes")));
		before = name;
	}
	json_decref(root);
	ck_assert_int_eq(chdir(DIR), 0);
	FILE *f = popen("ls -A | wc -l", "r");
	unsigned int names = 0;
	ck_assert_int_eq(fscanf(f, "%u", &names), 1);
	pclose(f);
	ck_assert_uint_eq(names, n + 1);
	ck_assert_int_eq(chdir(".."), 0);
}

static void setup(void)
{
	folder_enter();
	writes = fail_at = die_at = 0;
	fails = 0;
}

static void teardown(void)
{
	ctl_kept_deinit(&kept);
	ctl_store_destroy(store);
	store = NULL;
	ck_assert_int_eq(system("rm -rf " DIR), 0);
	folder_leave();
}

/* --- names ---------------------------------------------------------------------------------------
 */

START_TEST(names_are_read_back_and_sort_by_time)
{
	static const uint64_t times[] = { 0, 999999, 1000000, 1796064136123456, 4102444799999999 };
	char name[CTL_STORE_NAME_MAX], before[CTL_STORE_NAME_MAX] = "";
	uint64_t time_us;
	uint32_t reason;
	bool is_delta;

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		for (uint32_t r = SS_REASON_SCHEDULE; r <= SS_REASON_SIGNAL; r++) {
			ctl_store_name(times[i], r, i % 2, name);
			ck_assert(ctl_store_name_parse(name, &time_us, &reason, &is_delta));
			ck_assert_uint_eq(time_us, times[i]);
			ck_assert_uint_eq(reason, r);
			ck_assert_int_eq(is_delta, i % 2);
			ck_assert_int_gt(strcmp(name, before), i ? 0 : -1000);
		}
		strcpy(before, name);
	}
	ctl_store_name(1796064136123456, SS_REASON_HUNG_TASK, false, name);
	ck_assert_str_eq(name, "20261130T184216.123456Z-hung-task.kcdata");
}
END_TEST

static const char *const no_names[] = {
	"",
	"index.json",
	"20261130T184216.123456Z-hung-task.kcdata~",
	"20261130T184216.123456Z-hung-task",
	"20261130T184216.123456Z-nothing.kcdata",
	"20261130T184216.123456Z-.kcdata",
	"20261130T184216.12345Z-panic.kcdata",
	"20261130T184216.1234567Z-panic.kcdata",
	"20261130T184216.+23456Z-panic.kcdata",
	"20261130T184216,123456Z-panic.kcdata",
	"20261130T184260.123456Z-panic.kcdata",
	"20261131T184216.123456Z-panic.kcdata",
	" 20261130T184216.123456Z-panic.kcdata",
	"20261130T184216.123456Z-panic-delta-delta.kcdata",
	"../20261130T184216.123456Z-panic.kcdata",
	"99999999999999999999999999.999999Z-panic.kcdata",
};

START_TEST(other_names_are_not_ours)
{
	uint64_t time_us;
	uint32_t reason;
	bool is_delta;

	ck_assert_msg(!ctl_store_name_parse(no_names[_i], &time_us, &reason, &is_delta), "%s",
		      no_names[_i]);
}
END_TEST

/* --- what is kept --------------------------------------------------------------------------------
 */

START_TEST(captures_are_listed_in_order)
{
	make_open(10, 0);
	ck_assert_str_eq(list(), "");
	check_folder();
	put(10, 0);
	put(20, 10);
	put(30, 0);
	put(40, 30);
	ck_assert_str_eq(list(), "10 20<10 30 40<30");
	check_folder();

	struct ctl_store_stats stats;
	ctl_store_stats_get(store, &stats);
	ck_assert_uint_eq(stats.captures, 4);
	ck_assert_uint_gt(stats.bytes, 0);
	ck_assert_uint_eq(stats.removed, 0);
}
END_TEST

START_TEST(newest_are_kept)
{
	make_open(3, 0);
	for (uint64_t i = 1; i <= 60; i++)
		put(i, 0);
	ck_assert_str_eq(list(), "58 59 60");
	check_folder();

	struct ctl_store_stats stats;
	ctl_store_stats_get(store, &stats);
	ck_assert_uint_eq(stats.removed, 57);
}
END_TEST

START_TEST(base_stays_as_long_as_a_delta_of_it)
{
	static const char *const wanted[] = {
		"1",	     "1 2<1",	"1 2<1 3<1",
		"1 3<1 4",   "1 4 5<4", /* the delta of 1 goes before it */
		"4 5<4 6<4", "4 6<4 7", "4 7 8<7",
	};

	make_open(3, 0);
	for (uint64_t i = 1; i <= ARRAY_SIZE(wanted); i++) {
		put(i, i % 3 == 1 ? 0 : i - (i + 2) % 3);
		ck_assert_str_eq(list(), wanted[i - 1]);
		check_folder();
	}
}
END_TEST

START_TEST(base_that_deltas_are_still_to_follow_stays)
{
	make_open(1, 0);
	put(1, 0);
	for (uint64_t i = 2; i < 9; i++)
		put(i, 1);
	ck_assert_str_eq(list(), "1 8<1");
	put(9, 0);
	ck_assert_str_eq(list(), "9");
	check_folder();
}
END_TEST

START_TEST(triggers_and_schedule_do_not_push_each_other_out)
{
	make_open(2, 0);
	ck_assert_int_eq(put_reason(SS_REASON_PANIC, 1, 0), GS_OK);
	for (uint64_t i = 2; i < 6; i++)
		put(i, 0);
	ck_assert_str_eq(list(), "1 4 5");
	for (uint64_t i = 6; i < 10; i++)
		ck_assert_int_eq(put_reason(SS_REASON_OOPS, i, 0), GS_OK);
	ck_assert_str_eq(list(), "4 5 8 9");
	check_folder();
}
END_TEST

START_TEST(bytes_are_limited)
{
	static uint8_t data[STREAM_MAX];
	const size_t one = stream_of(data, SS_REASON_SCHEDULE, 1, 0);

	make_open(100, 3 * one);
	ck_assert_int_eq(put_reason(SS_REASON_PANIC, 1, 0), GS_OK);
	for (uint64_t i = 2; i < 9; i++)
		put(i, 0);
	ck_assert_str_eq(list(), "1 7 8"); /* the schedule's go first */
	for (uint64_t i = 10; i < 15; i++)
		ck_assert_int_eq(put_reason(SS_REASON_OOPS, i, 0), GS_OK);
	ck_assert_str_eq(list(), "8 13 14"); /* the last full one may get deltas */
	make_open(100, 1);
	put(20, 0);
	ck_assert_str_eq(list(), "20"); /* the newest stays, whatever its size */
	check_folder();
}
END_TEST

/* --- opened again --------------------------------------------------------------------------------
 */

START_TEST(folder_is_opened_again_as_it_was)
{
	make_open(10, 0);
	put(10, 0);
	put(20, 10);
	ck_assert_int_eq(put_reason(SS_REASON_PANIC, 30, 0), GS_OK);
	const uint64_t last_us = store->last_us;

	writes = 0;
	make_open(10, 0);
	ck_assert_int_eq(writes, 0); /* nothing to put right */
	ck_assert_str_eq(list(), "10 20<10 30");
	ck_assert_uint_eq(store->last_us, last_us);
	uint32_t n;
	const struct ctl_store_entry *e = ctl_store_list(store, &n);
	ck_assert(e[1].has_numbers && e[1].complete && e[1].threads == 3 && e[1].stopped_ns == 77);
	ck_assert_uint_eq(e[2].reason, SS_REASON_PANIC);
	put(40, 0);
	ck_assert_str_eq(list(), "10 20<10 30 40");
	make_open(1, 0); /* fewer are wanted now */
	put(50, 0);
	ck_assert_str_eq(list(), "30 50");
	check_folder();
}
END_TEST

START_TEST(names_go_up_although_the_clock_went_back)
{
	make_open(10, 0);
	put(10, 0);
	make(10, 0);
	ck_assert_int_eq(chdir(DIR), 0);
	ck_assert_int_eq(system("mv *-schedule.kcdata 20991231T235959.000000Z-schedule.kcdata"), 0);
	ck_assert_int_eq(chdir(".."), 0);
	make_open(10, 0);
	put(20, 0);
	put(30, 0);
	ck_assert_str_eq(list(), "10 20 30");
	ck_assert_uint_eq(store->last_us, UINT64_C(4102444799000002));
	check_folder();
}
END_TEST

static const char *const bad_indexes[] = {
	"",
	"{",
	"[]",
	"null",
	"{\"schema\": 2, \"captures\": []}",
	"{\"schema\": 1, \"captures\": {}}",
	"{\"schema\": 1, \"captures\": []}", /* knows nothing of them */
	"{\"schema\": 1, \"captures\": [1, null, {}, {\"file\": 7}, {\"file\": "
	"\"../../etc/passwd\"}]}",
	"{\"schema\": 1, \"captures\": [{\"file\": "
	"\"20261130T184216.123456Z-panic.kcdata\", \"bytes\": -1}]}", /* is not there */
};

START_TEST(index_that_is_wrong_is_made_anew)
{
	make_open(10, 0);
	put(10, 0);
	put(20, 10);
	ck_assert_int_eq(put_reason(SS_REASON_HUNG_TASK, 30, 0), GS_OK);
	make(10, 0);
	folder_put(DIR "/" CTL_STORE_INDEX, bad_indexes[_i]);
	make_open(10, 0);
	ck_assert_str_eq(list(), "10 20<10 30"); /* as the captures say themselves */
	check_folder();

	uint32_t n;
	const struct ctl_store_entry *e = ctl_store_list(store, &n);
	ck_assert(!e[0].has_numbers);
	ck_assert_uint_eq(e[1].since_ns, 10);
	ck_assert_uint_eq(e[2].reason, SS_REASON_HUNG_TASK);
	ck_assert_uint_eq(e[2].taken_us, 1000030);
}
END_TEST

START_TEST(index_cut_anywhere_is_made_anew)
{
	make_open(10, 0);
	put(10, 0);
	put(20, 10);
	const size_t size = folder_size(DIR "/" CTL_STORE_INDEX);
	make(10, 0);
	for (size_t cut = 0; cut < size; cut += 23) {
		ck_assert_int_eq(truncate(DIR "/" CTL_STORE_INDEX, (off_t)cut), 0);
		make_open(10, 0);
		ck_assert_str_eq(list(), "10 20<10");
		check_folder();
		make(10, 0);
	}
}
END_TEST

START_TEST(what_is_not_ours_stays_and_is_not_listed)
{
	make_open(10, 0);
	put(10, 0);
	make(10, 0);
	folder_put(DIR "/notes.txt", "mine");
	folder_put(DIR "/20200101T000000.000000Z-panic.kcdata", "no capture");
	ck_assert_int_eq(symlink("notes.txt", DIR "/20200101T000000.000001Z-panic.kcdata"), 0);
	ck_assert_int_eq(mkdir(DIR "/20200101T000000.000002Z-panic.kcdata", 0700), 0);
	make_open(1, 0);
	put(20, 0);
	ck_assert_str_eq(list(), "20");
	ck_assert(folder_has(DIR "/notes.txt", "mine", 4));
	ck_assert(folder_has(DIR "/20200101T000000.000000Z-panic.kcdata", "no capture", 10));
	ck_assert_int_ge(folder_mode(DIR "/20200101T000000.000001Z-panic.kcdata"), 0);
	ck_assert_int_ge(folder_mode(DIR "/20200101T000000.000002Z-panic.kcdata"), 0);
}
END_TEST

START_TEST(folder_is_one_schedules_at_a_time)
{
	struct ctl_store *other;
	const struct ctl_store_config config = { .path = DIR, .keep = 1 };

	make_open(10, 0);
	ck_assert_int_eq(ctl_store_create(&config, &other, &err), GS_OK);
	ck_assert_int_eq(ctl_store_open(other, &err), GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(err.text, "another schedule"));
	ctl_store_destroy(store);
	store = NULL;
	ck_assert_int_eq(ctl_store_open(other, &err), GS_OK);
	ctl_store_destroy(other);
}
END_TEST

/* --- killed --------------------------------------------------------------------------------------
 */

/* In a process of its own that is killed at the write of this number: before it, or (negative) after. */
static void put_until_killed(int at)
{
	const pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct rlimit none = { 0, 0 };

		(void)setrlimit(RLIMIT_CORE, &none);
		writes = 0;
		die_at = at;
		make_open(3, 0);
		for (uint64_t i = 1; i < 20; i++)
			put(i, i % 3 == 1 ? 0 : i - (i + 2) % 3);
		_exit(1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

START_TEST(killed_at_any_step_leaves_whole_files_and_a_readable_index)
{
	for (int at = 2; at < 14; at++) { /* capture, index, capture, index … */
		for (int after = 0; after < 2; after++) {
			put_until_killed(after ? -at : at);
			folder_put(DIR "/.guestshot-0123456789abcdef.tmp",
				   "half a fi"); /* of write() */
			make_open(3, 0);
			check_folder();
			put(100, 0);
			put(101, 100);
			ck_assert_ptr_nonnull(strstr(list(), "100 101<100"));
			check_folder();
			make(3, 0);
			ck_assert_int_eq(system("rm -rf " DIR), 0);
		}
	}
}
END_TEST

/* --- failures ------------------------------------------------------------------------------------
 */

START_TEST(any_write_may_fail)
{
	for (fail_at = 1; fail_at < 20; fail_at++) {
		unsigned int lost = 0;

		writes = 0;
		fails = 0;
		make(3, 0);
		lost += ctl_store_open(store, &err) != GS_OK;
		for (uint64_t i = 1; i < 10; i++)
			lost += put_reason(SS_REASON_SCHEDULE, i, 0) != GS_OK;
		ck_assert_uint_eq(fails, 1);
		ck_assert_uint_le(lost, 1); /* the second try of an index may have made it good */
		/* the first write is the index, then each capture has two */
		ck_assert_str_eq(list(), fail_at == 14	 ? "6 8 9"
					 : fail_at == 16 ? "6 7 9"
					 : fail_at == 18 ? "6 7 8"
							 : "7 8 9");
		check_folder();
		ctl_store_destroy(store);
		store = NULL;
		ck_assert_int_eq(system("rm -rf " DIR), 0);
	}
}
END_TEST

START_TEST(full_disk_is_found_out_before_the_guest_is_stopped)
{
	make_open(3, 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(1, 0);
	fail_at = -1;
	ck_assert_int_eq(put_reason(SS_REASON_SCHEDULE, 2, 0), GS_ENOSPC);
	ck_assert_str_eq(list(), "1");
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_ENOSPC);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_ENOSPC);
	fail_at = 0;
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(3, 0);
	ck_assert_str_eq(list(), "1 3");
	check_folder();
}
END_TEST

START_TEST(limit_of_file_sizes_is_like_a_full_disk)
{
	const struct rlimit small = { 100, RLIM_INFINITY },
			    large = { RLIM_INFINITY, RLIM_INFINITY };

	make_open(3, 0);
	put(1, 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(put_reason(SS_REASON_SCHEDULE, 2, 0), GS_ENOSPC);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_ENOSPC);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &large), 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(3, 0);
	ck_assert_str_eq(list(), "1 3");
	check_folder();
}
END_TEST

START_TEST(folder_that_is_gone_is_made_again)
{
	make_open(3, 0);
	put(1, 0);
	ck_assert_int_eq(rename(DIR, "moved"), 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(2, 0);
	ck_assert_str_eq(list(), "2");
	check_folder();
	ck_assert_int_eq(system("rm -rf moved"), 0);
}
END_TEST

START_TEST(delta_without_its_base_is_refused)
{
	make_open(3, 0);
	ck_assert_int_eq(put_reason(SS_REASON_SCHEDULE, 2, 1), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "full capture"));
	ck_assert_str_eq(list(), "");
	check_folder();
}
END_TEST

START_TEST(what_is_no_folder_is_refused)
{
	make(3, 0);
	folder_put(DIR, "a file");
	ck_assert_int_eq(ctl_store_open(store, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, DIR));
	ck_assert_int_eq(put_reason(SS_REASON_SCHEDULE, 1, 0), GS_ENOENT);
	ck_assert_int_eq(unlink(DIR), 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(2, 0);
	check_folder();
}
END_TEST

/* A file system in the folder, for this process only. @return false: not permitted here */
static bool mount_on(const char *options)
{
	ck_assert_int_eq(mkdir(DIR, 0700), 0);
	if (!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	    !mount("small", DIR, "tmpfs", 0, options))
		return true;
	fprintf(stderr, "SKIP a file system of its own: only root can mount one\n");
	return false;
}

START_TEST(file_system_that_was_full_has_room_again)
{
	static const char page[4096];

	if (!mount_on("size=64k"))
		return;
	make_open(2, 0);
	put(1, 0);
	const int other = open(DIR "/other", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(other, page, sizeof(page)) > 0)
		;
	ck_assert_int_eq(errno, ENOSPC);
	close(other);
	ck_assert_int_eq(put_reason(SS_REASON_SCHEDULE, 2, 0), GS_ENOSPC);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_ENOSPC);
	ck_assert_int_eq(unlink(DIR "/other"), 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(3, 0);
	check_folder();
	make(1, 0);
	ck_assert_int_eq(umount(DIR), 0);
}
END_TEST

START_TEST(read_only_file_system_is_refused_until_it_is_none)
{
	if (!mount_on("size=1m"))
		return;
	make_open(2, 0);
	put(1, 0);
	make(2, 0);
	ck_assert_int_eq(mount(NULL, DIR, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	ck_assert_int_eq(ctl_store_open(store, &err), GS_EDENIED);
	ck_assert_ptr_nonnull(strstr(err.text, "Read-only file system"));
	ck_assert_int_eq(mount(NULL, DIR, NULL, MS_REMOUNT, NULL), 0);
	ck_assert_int_eq(ctl_store_ready(store, &err), GS_OK);
	put(2, 0);
	ck_assert_str_eq(list(), "1 2");
	make(2, 0);
	ck_assert_int_eq(umount(DIR), 0);
}
END_TEST

/* --- kept in memory ------------------------------------------------------------------------------
 */

/* @return how many were lost for it; -1: it is not kept */
static int keep(uint64_t start_ns, size_t size)
{
	static uint8_t stream[STREAM_MAX];
	void *data = size ? calloc(1, size) : stream;
	const size_t len = size ? size : stream_of(stream, SS_REASON_PANIC, start_ns, 0);
	const struct ss_result numbers = { .size = len, .start_ns = start_ns };
	const struct ctl_store_item item = { .data = data,
					     .size = len,
					     .numbers = &numbers,
					     .reason = SS_REASON_PANIC,
					     .taken_us = 1000000 + start_ns };
	uint32_t lost;

	ck_assert_ptr_nonnull(data);
	const bool is_kept = ctl_kept_add(&kept, &item, &lost);
	if (size)
		free(data);
	return is_kept ? (int)lost : -1;
}

START_TEST(newest_few_are_kept_and_written_in_order)
{
	uint32_t written;

	for (uint64_t i = 1; i <= CTL_KEPT_MAX + 2; i++)
		ck_assert_int_eq(keep(i, 0), i > CTL_KEPT_MAX);
	make_open(10, 0);
	ck_assert_int_eq(ctl_kept_write(&kept, store, &written, &err), GS_OK);
	ck_assert_uint_eq(written, CTL_KEPT_MAX);
	ck_assert_str_eq(list(), "3 4 5 6");
	check_folder();
	uint32_t n;
	const struct ctl_store_entry *e = ctl_store_list(store, &n);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(e[i].taken_us, 1000000 + e[i].start_ns);
	ck_assert_int_eq(ctl_kept_write(&kept, store, &written, &err), GS_OK);
	ck_assert_uint_eq(written, 0);
	ck_assert_uint_eq(kept.bytes, 0);
}
END_TEST

// One write after the other fails; each capture is there once in the end.
START_TEST(what_is_kept_is_written_once_whichever_write_fails)
{
	uint32_t written, sum = 0;

	make_open(10, 0);
	for (uint64_t i = 1; i <= 3; i++)
		(void)keep(i, 0);
	fail_at = writes + _i;
	enum gs_code rc;
	do {
		rc = ctl_kept_write(&kept, store, &written, &err);
		sum += written;
	} while (kept.count);
	ck_assert_uint_eq(sum, 3);
	ck_assert_str_eq(list(), "1 2 3");
	if (rc) /* the index was behind the times: the next brings it up to date */
		put(4, 0);
	check_folder();
}
END_TEST

START_TEST(bytes_that_are_kept_are_limited)
{
	const size_t half = CTL_KEPT_BYTES_MAX / 2;

	ck_assert_int_eq(keep(1, CTL_KEPT_BYTES_MAX + 1), -1);
	ck_assert_int_eq(keep(2, 0), 0);
	ck_assert_int_eq(keep(3, half), 0);
	ck_assert_int_eq(keep(4, half), 1);
	ck_assert_uint_eq(kept.count, 2);
	ck_assert_uint_eq(kept.bytes, CTL_KEPT_BYTES_MAX);
	ck_assert_uint_eq(kept.capture[0].item.numbers->start_ns, 3);
	ck_assert_uint_eq(kept.capture[1].item.numbers->start_ns, 4);
}
END_TEST

Suite *suite_store(void)
{
	Suite *s = suite_create("store");
	TCase *tc = tcase_create("store");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, names_are_read_back_and_sort_by_time);
	tcase_add_loop_test(tc, other_names_are_not_ours, 0, ARRAY_SIZE(no_names));
	tcase_add_test(tc, captures_are_listed_in_order);
	tcase_add_test(tc, newest_are_kept);
	tcase_add_test(tc, base_stays_as_long_as_a_delta_of_it);
	tcase_add_test(tc, base_that_deltas_are_still_to_follow_stays);
	tcase_add_test(tc, triggers_and_schedule_do_not_push_each_other_out);
	tcase_add_test(tc, bytes_are_limited);
	tcase_add_test(tc, folder_is_opened_again_as_it_was);
	tcase_add_test(tc, names_go_up_although_the_clock_went_back);
	tcase_add_loop_test(tc, index_that_is_wrong_is_made_anew, 0, ARRAY_SIZE(bad_indexes));
	tcase_add_test(tc, index_cut_anywhere_is_made_anew);
	tcase_add_test(tc, what_is_not_ours_stays_and_is_not_listed);
	tcase_add_test(tc, folder_is_one_schedules_at_a_time);
	tcase_add_test(tc, killed_at_any_step_leaves_whole_files_and_a_readable_index);
	tcase_add_test(tc, any_write_may_fail);
	tcase_add_test(tc, full_disk_is_found_out_before_the_guest_is_stopped);
	tcase_add_test(tc, limit_of_file_sizes_is_like_a_full_disk);
	tcase_add_test(tc, folder_that_is_gone_is_made_again);
	tcase_add_test(tc, delta_without_its_base_is_refused);
	tcase_add_test(tc, what_is_no_folder_is_refused);
	tcase_add_test(tc, file_system_that_was_full_has_room_again);
	tcase_add_test(tc, newest_few_are_kept_and_written_in_order);
	tcase_add_loop_test(tc, what_is_kept_is_written_once_whichever_write_fails, 1, 8);
	tcase_add_test(tc, bytes_that_are_kept_are_limited);
	tcase_add_test(tc, read_only_file_system_is_refused_until_it_is_none);
	suite_add_tcase(s, tc);
	return s;
}
