/* SPDX-License-Identifier: Apache-2.0 */
/* Files: which are dumps, bare RAM, holes, and what happens when one is cut while it is open. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/dump_guard.h"
#include "tests/unit/guest/dump_bytes.h"
#include "tests/unit/guest/suites.h"

/* --- kinds --- */

static void path_is_bad(const char *path, enum gs_code code, const char *text)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc = guest_source_open_dump(path, NULL, &s, &err);

	ck_assert_msg(rc == code, "%s: %s", gs_code_name(rc), err.text);
	ck_assert_msg(strstr(err.text, text) && strstr(err.text, path), "%s", err.text);
	ck_assert(!s.guest);
}

START_TEST(what_is_no_regular_file_is_refused)
{
	char path[] = "/tmp/guestshot-dump-XXXXXX";

	path_is_bad("/tmp", GS_EINVAL, "is a folder");
	path_is_bad("/dev/null", GS_EINVAL, "is a device");
	path_is_bad("/nonexistent/dump", GS_ENOENT, "No such file");
	// O15: the host is never a target, also when its memory looks like a core.
	path_is_bad("/proc/self/maps", GS_ENOTSUP, "never examined");
	if (!access("/proc/kcore", R_OK))
		path_is_bad("/proc/kcore", GS_ENOTSUP, "never examined");

	ck_assert(mkdtemp(path));
	char name[64];
	snprintf(name, sizeof(name), "%s/pipe", path);
	ck_assert_int_eq(mkfifo(name, 0600), 0);
	path_is_bad(name, GS_EINVAL, "pipe"); // and does not wait for a writer
	unlink(name);
	snprintf(name, sizeof(name), "%s/empty", path);
	close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0));
	if (geteuid())
		path_is_bad(name, GS_EDENIED, "denied");
	else
		path_is_bad(name, GS_EMALFORMED, "empty");
	unlink(name);
	rmdir(path);
}
END_TEST

START_TEST(other_kinds_of_file_are_named_with_advice)
{
	static const struct {
		size_t at;
		const char *magic;
		size_t size;
		enum gs_code code;
		const char *text;
	} kinds[] = {
		{ 0, "LibvirtQemudSave", 16, GS_ENOTSUP, "--memory-only" },
		{ 0, "LibvirtQemudPart", 16, GS_ENOTSUP, "not written to its end" },
		{ 0, "QEVM", 4, GS_ENOTSUP, "dump-guest-memory" },
		{ 0, "QFI\xfb", 4, GS_ENOTSUP, "qcow2" },
		{ 0, "EMiL", 4, GS_ENOTSUP, "LiME" },
		{ 0, "DISKDUMP", 8, GS_ENOTSUP, "makedumpfile" },
		{ 0, "PAGEDU64", 8, GS_ENOTSUP, "Windows" },
		{ 0, "\x1f\x8b\x08", 3, GS_ENOTSUP, "gunzip" },
		{ 0, "\3757zXZ\0", 6, GS_ENOTSUP, "unxz" },
		{ 0, "\x28\xb5\x2f\xfd", 4, GS_ENOTSUP, "unzstd" },
		{ 0, "\x07\x58\xa2\x59", 4, GS_ENOTSUP, "guestshot show" },
		{ 56, "ARM\x64", 4, GS_ENOTSUP, "kernel image" },
		{ 0, "hello", 5, GS_EMALFORMED, "--ram-base" },
		{ 0, "\x7f", 1, GS_EMALFORMED, "--ram-base" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bytes b = { 0 };

		bytes_put(&b, kinds[i].at, kinds[i].magic, kinds[i].size);
		open_bad(&b, kinds[i].code, kinds[i].text);
		bytes_put(&b, 4095, "", 1);
		open_bad(&b, kinds[i].code, kinds[i].text);
		bytes_free(&b);
	}
}
END_TEST

/* --- bare RAM --- */

START_TEST(raw_ram_begins_where_it_is_told)
{
	struct guest_dump_options raw = { .raw = true, .ram_base = GPA(0x80000000) };
	struct guest_source s;
	struct bytes b = { 0 };

	elf_two_ranges(&b); // what looks like a core is RAM, if the user says so
	GS_CLOSE int fd = bytes_file(&b);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_OK);
	ck_assert_uint_eq(s.guest->range_count, 1);
	ck_assert_uint_eq(s.guest->ranges[0].start.a, 0x80000000);
	ck_assert_uint_eq(s.guest->ranges[0].size, b.size);
	ck_assert_uint_eq(byte_of(&s, 0x80000001), 'E');
	ck_assert(!is_readable(&s, 0x80000000 + b.size, 1) && !is_readable(&s, 0x7fffffff, 1));
	ck_assert(strstr(s.note, "no CPU registers"));
	use_all(&s);
	guest_source_close(&s);

	raw.ram_base = GPA(0); // a place like any other
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_OK);
	ck_assert_uint_eq(byte_of(&s, 1), 'E');
	guest_source_close(&s);

	raw.ram_base = GPA(0x80000010);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_EINVAL);
	raw.ram_base = GPA(UINT64_MAX & ~UINT64_C(4095));
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_EINVAL);
	raw.ram_base = GPA((UINT64_C(1) << 56) - 0x1000);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_EINVAL);
	bytes_free(&b);
}
END_TEST

/* --- holes --- */

START_TEST(next_data_skips_the_holes_of_the_file)
{
	const uint64_t mib = 1 << 20;
	struct guest_dump_options raw = { .raw = true, .ram_base = GPA(0x40000000) };
	GS_CLOSE int fd = memfd_create("sparse", MFD_CLOEXEC);
	struct guest_source s;
	gpa_t from, to;

	ck_assert_int_eq(ftruncate(fd, (off_t)(64 * mib)), 0);
	ck_assert_int_eq(pwrite(fd, "x", 1, (off_t)(20 * mib + 5)), 1);
	ck_assert_int_eq(pwrite(fd, "y", 1, (off_t)(64 * mib - 1)), 1);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_OK);

	struct guest *g = s.guest;
	gpa_t begin = g->ranges[0].start, end = GPA(begin.a + 64 * mib);
	ck_assert(g->ops->next_data(g->priv, begin, end, &from, &to));
	ck_assert(from.a <= begin.a + 20 * mib + 5 && to.a > begin.a + 20 * mib + 5);
	ck_assert(from.a > begin.a && to.a - from.a <= 4 * mib);
	ck_assert(g->ops->next_data(g->priv, to, end, &from, &to));
	ck_assert_uint_eq(to.a, end.a);
	ck_assert(!g->ops->next_data(g->priv, end, end, &from, &to));
	ck_assert(!g->ops->next_data(g->priv, begin, GPA(begin.a + mib), &from, &to));
	ck_assert(!g->ops->next_data(g->priv, GPA(0), GPA(1), &from, &to));
	ck_assert(!g->ops->next_data(g->priv, GPA(UINT64_MAX), GPA(UINT64_MAX), &from, &to));
	ck_assert(g->ops->next_data(g->priv, GPA(begin.a + 20 * mib + 5),
				    GPA(begin.a + 20 * mib + 6), &from, &to));
	ck_assert(from.a == begin.a + 20 * mib + 5 && to.a == from.a + 1);
	ck_assert(is_readable(&s, begin.a, 100)); // a hole is zeros, for who wants them
	guest_source_close(&s);
}
END_TEST

/* --- memory --- */

/* Pages of files that are mapped into this process and in memory. */
static uint64_t resident_bytes(void)
{
	unsigned long size, all, shared;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert(f && fscanf(f, "%lu %lu %lu", &size, &all, &shared) == 3);
	fclose(f);
	return (uint64_t)shared * (uint64_t)sysconf(_SC_PAGESIZE);
}

START_TEST(reads_all_over_a_dump_do_not_fill_our_memory)
{
	const uint64_t size = (UINT64_C(512) << 20) + 100;
	struct guest_dump_options raw = { .raw = true, .ram_base = GPA(0x40000000) };
	// A real file: the kernel then reads ahead, and maps around what is touched.
	GS_CLOSE int fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct guest_source s;
	uint64_t word, most = 0, before = resident_bytes();

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	for (uint64_t at = 0; at < size - 8; at += 1 << 20) // each MiB begins with its place
		ck_assert_int_eq(pwrite(fd, &at, 8, (off_t)at), 8);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_OK);
	for (int round = 0; round < 2; round++)
		for (uint64_t at = 0; at < size - 8; at += 4096) {
			ck_assert_int_eq(guest_read_u64(s.guest, GPA(0x40000000 + at), &word),
					 GS_OK);
			ck_assert_uint_eq(word, at % (1 << 20) ? 0 : at);
			if (at % (8 << 20) == 0)
				most = gs_max(most, resident_bytes());
		}
	ck_assert_uint_lt(most, before + (UINT64_C(256) << 20));
	ck_assert(is_readable(&s, 0x40000000 + size - 50, 50)); // not a whole page of a cache
	ck_assert(is_readable(&s, 0x40000000 + size - 150, 100));
	ck_assert(!is_readable(&s, 0x40000000 + size - 50, 51));

	// Cut now, when it is read through the cache: what was not read yet is gone.
	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	int bad = 0;
	for (uint64_t at = 4096; at < size; at += 1 << 20)
		bad += !is_readable(&s, 0x40000000 + at, 1);
	ck_assert_int_gt(bad, 400); // but for the cached
	ck_assert(is_readable(&s, 0x40000000, 8));
	guest_source_close(&s);
}
END_TEST

/* --- a file that shrinks --- */

static void *read_beyond(void *arg)
{
	struct guest_source *s = arg;
	sigset_t all;
	uint8_t byte;
	int bad = 0;

	// As worker threads do: a blocked SIGBUS would be the end of the process.
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (uint64_t at = 0x10000; at < 0x100000; at += 0x1000)
		bad += guest_read(s->guest, GPA(0x40000000 + at), &byte, 1) != GS_EFAULT;
	return (void *)(intptr_t)bad;
}

START_TEST(file_cut_while_open_makes_reads_fail_not_the_process)
{
	struct guest_dump_options raw = { .raw = true, .ram_base = GPA(0x40000000) };
	GS_CLOSE int fd = memfd_create("shrinks", MFD_CLOEXEC);
	struct guest_source s;
	static uint8_t big[0x40000];
	uint64_t word;
	pthread_t threads[4];

	ck_assert_int_eq(ftruncate(fd, 0x100000), 0);
	ck_assert_int_eq(open_fd(fd, &raw, &s, NULL), GS_OK);
	ck_assert_str_eq(s.access, "mapped RAM image");
	ck_assert(is_readable(&s, 0x40000000 + 0xfffff, 1));
	ck_assert_int_eq(ftruncate(fd, 0x10000), 0);

	for (int i = 0; i < 3; i++) { // once is not enough: the signal must not stay blocked
		ck_assert(!is_readable(&s, 0x40000000 + 0x20000, 1));
		ck_assert_int_eq(guest_read_u64(s.guest, GPA(0x40000000 + 0x50000), &word),
				 GS_EFAULT);
		ck_assert_int_eq(guest_read(s.guest, GPA(0x40000000 + 0xfff0), big, 0x20),
				 GS_EFAULT);
		ck_assert_int_eq(guest_read(s.guest, GPA(0x40000000), big, sizeof(big)), GS_EFAULT);
		ck_assert(is_readable(&s, 0x40000000 + 0xffff, 1));
	}
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_beyond, &s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *bad;

		ck_assert_int_eq(pthread_join(threads[i], &bad), 0);
		ck_assert_ptr_null(bad);
	}
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert(!is_readable(&s, 0x40000000, 1));
	use_all(&s);
	guest_source_close(&s);
}
END_TEST

static sigjmp_buf foreign;

static void on_foreign(int sig)
{
	(void)sig;
	siglongjmp(foreign, 1);
}

/* Faults outside of our copies, and signals that were sent, go to whom they went before. */
START_TEST(foreign_bus_errors_are_passed_on)
{
	GS_CLOSE int fd = memfd_create("foreign", MFD_CLOEXEC);
	struct sigaction act = { .sa_handler = on_foreign };
	volatile int caught = 0;

	ck_assert_int_eq(ftruncate(fd, 4096), 0);
	char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert(map != MAP_FAILED);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	sigaction(SIGBUS, &act, NULL);
	guest_guard_install();
	guest_guard_install();

	if (!sigsetjmp(foreign, 1))
		*(volatile char *)map = 1;
	else
		caught++;
	if (!sigsetjmp(foreign, 1))
		raise(SIGBUS);
	else
		caught++;
	char here[16];
	ck_assert(!guest_guard_copy(here, map, sizeof(here)));
	// A destination that faults is the caller's mistake, not the file's.
	if (!sigsetjmp(foreign, 1))
		GS_IGNORE(guest_guard_copy(map, here, sizeof(here)));
	else
		caught++;
	ck_assert_int_eq(caught, 3);
	ck_assert(!guest_guard_copy(here, map, sizeof(here)));
	munmap(map, 4096);
}
END_TEST

START_TEST(foreign_bus_error_without_handler_ends_the_process)
{
	for (int sent = 0; sent < 2; sent++) {
		pid_t pid = fork();

		if (!pid) {
			signal(SIGBUS, SIG_DFL);
			guest_guard_install();
			int fd = memfd_create("foreign", MFD_CLOEXEC);
			char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

			if (sent)
				raise(SIGBUS);
			else
				(void)*(volatile char *)map;
			_exit(0);
		}
		int status;
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	}
}
END_TEST

Suite *suite_file(void)
{
	Suite *s = suite_create("files");
	TCase *c = tcase_create("files");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, what_is_no_regular_file_is_refused);
	tcase_add_test(c, other_kinds_of_file_are_named_with_advice);
	tcase_add_test(c, raw_ram_begins_where_it_is_told);
	tcase_add_test(c, next_data_skips_the_holes_of_the_file);
	tcase_add_test(c, reads_all_over_a_dump_do_not_fill_our_memory);
	tcase_add_test(c, file_cut_while_open_makes_reads_fail_not_the_process);
	tcase_add_test(c, foreign_bus_errors_are_passed_on);
	tcase_add_test(c, foreign_bus_error_without_handler_ends_the_process);
	suite_add_tcase(s, c);
	return s;
}
