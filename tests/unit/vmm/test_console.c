/* SPDX-License-Identifier: Apache-2.0 */
/* The console's threads: nothing makes the guest wait, what is lost is counted. */
#include "tests/unit/vmm/vmm_tests.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "vmm/console.h"
#include "vmm/thread.h"

enum { DR = 0x00, FR = 0x18, LCR_H = 0x2c, CR = 0x30, IMSC = 0x38 };
#define RXFE 0x10

#define DEADLINE_NS (20 * GS_NS_PER_SEC)

/* What on_console has got, and the interrupt line. */
struct sink {
	pthread_mutex_t lock;
	char bytes[1 << 20];
	size_t len;
	_Atomic int irq;
	_Atomic int irq_changes;
};

static struct sink sink;

static void on_console(void *arg, const char *bytes, size_t len)
{
	struct sink *s = arg;

	pthread_mutex_lock(&s->lock);
	if (len <= sizeof(s->bytes) - s->len) {
		memcpy(s->bytes + s->len, bytes, len);
		s->len += len;
	}
	pthread_mutex_unlock(&s->lock);
}

static void set_irq(void *arg, bool level)
{
	struct sink *s = arg;

	atomic_store(&s->irq, level);
	atomic_fetch_add(&s->irq_changes, 1);
}

static struct vmm_console *make(int in, int out, uint64_t buffer, bool tap)
{
	struct vmm_console_config config = {
		.in = in,
		.out = out,
		.buffer = buffer,
		.on_console = tap ? on_console : NULL,
		.arg = &sink,
		.set_irq = set_irq,
		.irq_arg = &sink,
	};
	struct vmm_console *c;

	pthread_mutex_init(&sink.lock, NULL);
	ck_assert_int_eq(vmm_thread_kick_install(NULL), GS_OK);
	ck_assert_int_eq(vmm_console_create(&config, &c, NULL), GS_OK);
	ck_assert_int_eq(vmm_console_start(c, NULL), GS_OK);
	return c;
}

static void say(struct vmm_console *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		vmm_console_write(c, DR, 'a' + i % 26);
}

static size_t drain(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size && (n = read(fd, buf + len, size - len)) > 0)
		len += (size_t)n;
	return len;
}

START_TEST(console_hands_everything_on_in_order)
{
	int fds[2];
	static char got[200000];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	struct vmm_console *c = make(-1, fds[1], 1 << 20, true);
	say(c, 150000);
	vmm_console_destroy(c, GS_NS_PER_SEC);
	close(fds[1]);
	ck_assert_uint_eq(drain(fds[0], got, sizeof(got)), 150000);
	ck_assert_uint_eq(sink.len, 150000);
	ck_assert_int_eq(memcmp(got, sink.bytes, 150000), 0);
	bool same = true;
	for (size_t i = 0; i < 150000; i++)
		same &= got[i] == (char)('a' + i % 26);
	ck_assert(same);
	close(fds[0]);
}
END_TEST

START_TEST(console_never_read_drops_the_newest_and_counts_it)
{
	enum { SAID = 300000, KEPT = 2000 };
	static char got[SAID];
	struct vmm_console_counts counts;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	fcntl(fds[1], F_SETPIPE_SZ, 4096);
	int flags = fcntl(fds[1], F_GETFL);
	struct vmm_console *c = make(-1, fds[1], KEPT, true);
	uint64_t start = gs_clock_ns();
	say(c, SAID);
	ck_assert_uint_lt(gs_clock_ns() - start, DEADLINE_NS); // would be for ever
	vmm_console_counts_get(c, &counts);
	ck_assert_uint_eq(counts.bytes, SAID);
	ck_assert_uint_ge(counts.dropped, SAID - KEPT - 3 * 4096);
	ck_assert_int_eq(fcntl(fds[1], F_GETFL), flags);

	start = gs_clock_ns();
	vmm_console_destroy(c, 50 * GS_NS_PER_MS);
	ck_assert_uint_lt(gs_clock_ns() - start, DEADLINE_NS);
	ck_assert_uint_eq(sink.len, SAID); // the other reader has missed nothing
	close(fds[1]);
	size_t len = drain(fds[0], got, sizeof(got));
	ck_assert_uint_gt(len, 0);
	ck_assert_int_eq(memcmp(got, sink.bytes, len), 0); // the oldest
	close(fds[0]);
}
END_TEST

START_TEST(console_counts_make_a_whole)
{
	enum { SAID = 100000 };
	static char got[SAID];
	struct vmm_console_counts counts;
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	fcntl(fds[1], F_SETPIPE_SZ, 4096);
	struct vmm_console *c = make(-1, fds[1], 1000, false);
	say(c, SAID);
	vmm_console_counts_get(c, &counts);
	// Read until the out thread has nothing left: everything is either here or counted.
	size_t len = 0;
	struct pollfd p = { .fd = fds[0], .events = POLLIN };
	uint64_t until = gs_clock_ns() + DEADLINE_NS;
	while (len + counts.dropped < SAID && gs_clock_ns() < until) {
		if (poll(&p, 1, 100) > 0) {
			ssize_t n = read(fds[0], got + len, sizeof(got) - len);
			ck_assert_int_gt((int)n, 0);
			len += (size_t)n;
		}
	}
	ck_assert_uint_eq(len + counts.dropped, SAID);
	vmm_console_destroy(c, 0);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(console_whose_reader_has_gone_lives_on)
{
	struct vmm_console_counts counts = { 0 };
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	struct vmm_console *c = make(-1, fds[1], 1 << 16, true);
	close(fds[0]);
	uint64_t until = gs_clock_ns() + DEADLINE_NS;
	while (counts.dropped == 0 && gs_clock_ns() < until) {
		say(c, 26);
		vmm_console_counts_get(c, &counts);
	}
	ck_assert_uint_gt(counts.dropped, 0); // and no SIGPIPE
	vmm_console_destroy(c, GS_NS_PER_SEC);
	ck_assert_uint_eq(sink.len, counts.bytes);
	close(fds[1]);
}
END_TEST

/* A descriptor whose writes block although it polls writable, as a terminal's may. */
START_TEST(console_ends_in_time_though_a_write_blocks)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master), 0);
	ck_assert_int_eq(unlockpt(master), 0);
	int tty = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(tty, 0);
	struct vmm_console *c = make(tty, tty, 1 << 20, false);
	say(c, 200000);
	uint64_t start = gs_clock_ns();
	vmm_console_destroy(c, 200 * GS_NS_PER_MS);
	ck_assert_uint_lt(gs_clock_ns() - start, DEADLINE_NS);
	close(tty);
	close(master);
}
END_TEST

static void listen(struct vmm_console *c)
{
	vmm_console_write(c, LCR_H, 0x70);
	vmm_console_write(c, CR, 0x301);
	vmm_console_write(c, IMSC, 0x50);
}

START_TEST(console_input_waits_until_the_guest_takes_it)
{
	enum { SENT = 3000 };
	static char sent[SENT], got[SENT];
	int fds[2];

	for (int i = 0; i < SENT; i++)
		sent[i] = (char)('A' + i % 26);
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	struct vmm_console *c = make(fds[0], -1, 0, false);
	ck_assert_int_eq((int)write(fds[1], sent, SENT), SENT);
	ck_assert(vmm_console_read(c, FR) & RXFE); // not listening yet

	listen(c);
	uint64_t until = gs_clock_ns() + DEADLINE_NS;
	int len = 0;
	while (len < SENT && gs_clock_ns() < until) {
		if (!(vmm_console_read(c, FR) & RXFE))
			got[len++] = (char)vmm_console_read(c, DR);
	}
	ck_assert_int_eq(len, SENT);
	ck_assert_int_eq(memcmp(sent, got, SENT), 0);
	ck_assert_int_eq(atomic_load(&sink.irq), 0);
	ck_assert_int_gt(atomic_load(&sink.irq_changes), 1);
	vmm_console_destroy(c, 0);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

START_TEST(console_reads_no_more_input_than_the_guest_can_take)
{
	static char sent[60000];
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	struct vmm_console *c = make(fds[0], -1, 0, false);
	ck_assert_int_eq((int)write(fds[1], sent, sizeof(sent)), (int)sizeof(sent));
	listen(c);
	uint64_t until = gs_clock_ns() + DEADLINE_NS;
	while (!atomic_load(&sink.irq) && gs_clock_ns() < until)
		;
	ck_assert_int_eq(atomic_load(&sink.irq), 1);
	vmm_console_destroy(c, 0); // while a FIFO is full and a paste waits
	ck_assert_int_eq(read(fds[0], sent, sizeof(sent)) > 0, 1);
	close(fds[0]);
	close(fds[1]);
}
END_TEST

static void *hammer(void *arg)
{
	struct vmm_console *c = arg;

	for (uint64_t i = 0; i < 20000; i++) {
		vmm_console_write(c, DR, 'x');
		(void)vmm_console_read(c, i % 0x1100);
		vmm_console_write(c, i * 4 % 0x1000, i);
	}
	return NULL;
}

START_TEST(console_takes_accesses_from_many_vcpus)
{
	pthread_t threads[4];
	struct vmm_console_counts counts;
	int in[2], out[2];

	ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	struct vmm_console *c = make(in[0], out[1], 100, true);
	ck_assert_int_eq((int)write(in[1], "paste", 5), 5);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, hammer, c), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	vmm_console_counts_get(c, &counts);
	ck_assert_uint_gt(counts.bytes, 0);
	vmm_console_destroy(c, 10 * GS_NS_PER_MS);
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
}
END_TEST

START_TEST(console_with_nothing_attached_works)
{
	struct vmm_console_counts counts;
	struct vmm_console *c = make(-1, -1, 1, false);

	say(c, 100);
	vmm_console_counts_get(c, &counts);
	ck_assert_uint_eq(counts.bytes, 100);
	ck_assert_uint_eq(counts.dropped, 0);
	vmm_console_destroy(c, GS_NS_PER_SEC);
	vmm_console_destroy(NULL, 0);
}
END_TEST

START_TEST(console_buffer_out_of_range_is_an_error)
{
	static const uint64_t sizes[] = { 0, (UINT64_C(1) << 30) + 1, UINT64_MAX };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct vmm_console_config config = {
			.in = -1, .out = 1, .buffer = sizes[i], .set_irq = set_irq
		};
		struct vmm_console *c;

		ck_assert_int_eq(vmm_console_create(&config, &c, NULL), GS_EINVAL);
	}
}
END_TEST

TCase *console_case(void)
{
	TCase *c = tcase_create("console");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, console_hands_everything_on_in_order);
	tcase_add_test(c, console_never_read_drops_the_newest_and_counts_it);
	tcase_add_test(c, console_counts_make_a_whole);
	tcase_add_test(c, console_whose_reader_has_gone_lives_on);
	tcase_add_test(c, console_ends_in_time_though_a_write_blocks);
	tcase_add_test(c, console_input_waits_until_the_guest_takes_it);
	tcase_add_test(c, console_reads_no_more_input_than_the_guest_can_take);
	tcase_add_test(c, console_takes_accesses_from_many_vcpus);
	tcase_add_test(c, console_with_nothing_attached_works);
	tcase_add_test(c, console_buffer_out_of_range_is_an_error);
	return c;
}
