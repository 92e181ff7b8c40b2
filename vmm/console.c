/* SPDX-License-Identifier: Apache-2.0 */
/* The console: a PL011 whose output never makes a vCPU wait and whose input is read as needed. */
#include "vmm/console.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "vmm/pl011.h"
#include "vmm/thread.h"

/* The tap is emptied by a thread that does not block: this covers its scheduling delays. */
#define TAP_BYTES (1u << 20)
/* A pipe that polls writable has room for this much without blocking (PIPE_BUF, pipe(7)). */
#define CHUNK_BYTES 4096
#define IN_RETRY_NS GS_NS_PER_SEC
/*
 * Input comes in bursts of a FIFO, and as long as the guest has taken to read one it then gets to
 * work on it. Refilled at once, it would never come out of its interrupt handler: a real line is
 * slow.
 */
#define IN_BURST_WAIT_NS (10 * GS_NS_PER_MS)
#define IN_PAUSE_MIN_NS	 (100 * GS_NS_PER_US)

struct ring {
	char *bytes;
	size_t size; /* 0: not there, takes nothing */
	size_t head;
	size_t used;
};

struct vmm_console {
	struct vmm_console_config config;
	int close_fd; /* readable once closing */

	pthread_mutex_t lock; /* guards what follows, up to the threads */
	pthread_cond_t tap_filled;
	pthread_cond_t out_filled;
	pthread_cond_t in_wanted;
	struct vmm_pl011 uart;
	bool irq;
	uint32_t in_room; /* after the last access */
	struct ring tap;
	struct ring out;
	bool out_dead; /* its reader is gone */
	bool closing;
	uint64_t drain_until_ns; /* valid while closing */
	struct vmm_console_counts counts;

	struct vmm_thread tap_thread, out_thread, in_thread;
	char tap_chunk[CHUNK_BYTES]; /* of the tap thread */
	char out_chunk[CHUNK_BYTES]; /* of the out thread */
};

static bool ring_init(struct ring *r, size_t size)
{
	r->size = size;
	r->bytes = gs_array_alloc(size, 1);
	return r->bytes;
}

/* @return false: full */
static bool ring_put(struct ring *r, char byte)
{
	if (r->used == r->size)
		return false;
	r->bytes[(r->head + r->used) % r->size] = byte;
	r->used++;
	return true;
}

static size_t ring_take(struct ring *r, char *buf, size_t max)
{
	size_t len = gs_min(gs_min(max, r->used), r->size - r->head);

	memcpy(buf, r->bytes + r->head, len);
	r->head = (r->head + len) % r->size;
	r->used -= len;
	return len;
}

static enum gs_code console_sync_init(struct vmm_console *c, struct gs_error *err)
{
	enum gs_code rc = vmm_lock_init(&c->lock, err);

	if (!rc)
		rc = vmm_cond_init(&c->tap_filled, err);
	if (!rc)
		rc = vmm_cond_init(&c->out_filled, err);
	if (!rc)
		rc = vmm_cond_init(&c->in_wanted, err);
	return rc;
}

enum gs_code vmm_console_create(const struct vmm_console_config *config,
				struct vmm_console **console_out, struct gs_error *err)
{
	if (config->out >= 0 && (config->buffer == 0 || config->buffer > VMM_CONSOLE_BUFFER_MAX))
		return gs_fail(err, GS_EINVAL, "a console buffer of %llu bytes: give 1 to %llu",
			       (unsigned long long)config->buffer,
			       (unsigned long long)VMM_CONSOLE_BUFFER_MAX);
	struct vmm_console *c = gs_array_alloc(1, sizeof(*c));
	if (!c)
		return gs_fail(err, GS_ENOSPC, "no memory for the console");
	c->config = *config;
	vmm_pl011_init(&c->uart);
	enum gs_code rc = console_sync_init(c, err);
	if (rc) {
		free(c);
		return rc;
	}
	c->close_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->close_fd < 0)
		rc = gs_fail_errno(err, GS_ESYS, errno, "making the console's event descriptor");
	else if ((config->on_console && !ring_init(&c->tap, TAP_BYTES)) ||
		 (config->out >= 0 && !ring_init(&c->out, config->buffer)))
		rc = gs_fail(err, GS_ENOSPC, "no memory for a console buffer of %llu bytes",
			     (unsigned long long)config->buffer);
	if (rc) {
		vmm_console_destroy(c, 0);
		return rc;
	}
	*console_out = c;
	return GS_OK;
}

/* Tell interrupt controller and input thread what an access has changed. */
static void uart_changed_locked(struct vmm_console *c)
{
	bool irq = vmm_pl011_irq(&c->uart);
	uint32_t room = vmm_pl011_room(&c->uart);

	// Under the lock, so that levels arrive in the order in which they came about.
	if (irq != c->irq)
		c->config.set_irq(c->config.irq_arg, irq);
	c->irq = irq;
	if (room && (!c->in_room || !c->uart.rx_count))
		pthread_cond_signal(&c->in_wanted);
	c->in_room = room;
}

static void transmit_locked(struct vmm_console *c, char byte)
{
	bool lost = false;

	c->counts.bytes++;
	if (c->tap.size) {
		lost = !ring_put(&c->tap, byte);
		pthread_cond_signal(&c->tap_filled);
	}
	if (c->out.size) {
		lost |= c->out_dead || !ring_put(&c->out, byte);
		pthread_cond_signal(&c->out_filled);
	}
	c->counts.dropped += lost;
}

uint64_t vmm_console_read(struct vmm_console *c, uint64_t offset)
{
	pthread_mutex_lock(&c->lock);
	uint64_t value = vmm_pl011_read(&c->uart, offset);
	uart_changed_locked(c);
	pthread_mutex_unlock(&c->lock);
	return value;
}

void vmm_console_write(struct vmm_console *c, uint64_t offset, uint64_t value)
{
	uint8_t byte;

	pthread_mutex_lock(&c->lock);
	if (vmm_pl011_write(&c->uart, offset, (uint32_t)value, &byte))
		transmit_locked(c, (char)byte);
	uart_changed_locked(c);
	pthread_mutex_unlock(&c->lock);
}

void vmm_console_counts_get(struct vmm_console *c, struct vmm_console_counts *counts_out)
{
	pthread_mutex_lock(&c->lock);
	*counts_out = c->counts;
	pthread_mutex_unlock(&c->lock);
}

/* The next piece of a ring; waits for one. @return 0: the console closes and nothing is left */
static size_t next_piece(struct vmm_console *c, struct ring *r, pthread_cond_t *filled, char *buf)
{
	pthread_mutex_lock(&c->lock);
	while (r->used == 0 && !c->closing)
		pthread_cond_wait(filled, &c->lock);
	size_t len = ring_take(r, buf, CHUNK_BYTES);
	pthread_mutex_unlock(&c->lock);
	return len;
}

static void tap_main(void *arg)
{
	struct vmm_console *c = arg;
	size_t len;

	while ((len = next_piece(c, &c->tap, &c->tap_filled, c->tap_chunk)))
		c->config.on_console(c->config.arg, c->tap_chunk, len);
}

/* @return whether time is left; *closing_out: whether the console closes */
static bool may_wait(struct vmm_console *c, bool *closing_out, int *timeout_ms_out)
{
	pthread_mutex_lock(&c->lock);
	bool closing = c->closing;
	uint64_t now = gs_clock_ns(), until = c->drain_until_ns;
	pthread_mutex_unlock(&c->lock);

	*closing_out = closing;
	*timeout_ms_out = closing && until > now ? (int)((until - now) / GS_NS_PER_MS) + 1 : -1;
	return !closing || until > now;
}

/* Wait until out takes something. @return false: it will not, or not in time */
static bool out_ready(struct vmm_console *c)
{
	for (;;) {
		bool closing;
		int timeout_ms;

		if (!may_wait(c, &closing, &timeout_ms))
			return false;
		struct pollfd fds[] = { { .fd = c->config.out, .events = POLLOUT },
					{ .fd = c->close_fd, .events = POLLIN } };
		if (poll(fds, closing ? 1 : 2, timeout_ms) < 0 && errno != EINTR)
			return false;
		if (fds[0].revents & POLLNVAL)
			return false;
		// Errors included: the write then says which.
		if (fds[0].revents)
			return true;
	}
}

/* @return bytes written; fewer than @p len: out is gone, or the time is up */
static size_t out_write(struct vmm_console *c, const char *bytes, size_t len)
{
	size_t done = 0;

	while (done < len && out_ready(c)) {
		ssize_t n = write(c->config.out, bytes + done, len - done);
		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
	return done;
}

static void out_main(void *arg)
{
	struct vmm_console *c = arg;
	size_t len;

	while ((len = next_piece(c, &c->out, &c->out_filled, c->out_chunk))) {
		size_t done = out_write(c, c->out_chunk, len);

		if (done == len)
			continue;
		pthread_mutex_lock(&c->lock);
		c->out_dead = true;
		c->counts.dropped += len - done + c->out.used;
		c->out.used = 0;
		pthread_mutex_unlock(&c->lock);
	}
}

/* Wait until the guest can take input. @return how much; 0: the console closes */
static size_t in_room(struct vmm_console *c)
{
	pthread_mutex_lock(&c->lock);
	while (!c->closing && !vmm_pl011_room(&c->uart))
		pthread_cond_wait(&c->in_wanted, &c->lock);
	size_t room = c->closing ? 0 : vmm_pl011_room(&c->uart);
	pthread_mutex_unlock(&c->lock);
	return room;
}

/* Wait for input, or for the time given, or for closing. */
static void in_wait(struct vmm_console *c, bool input, int timeout_ms)
{
	struct pollfd fds[] = { { .fd = c->close_fd, .events = POLLIN },
				{ .fd = c->config.in, .events = POLLIN } };

	// A failure shows in the read that follows.
	(void)poll(fds, input ? 2 : 1, timeout_ms);
}

/* Wait for the FIFO to be read and as long again. */
static void in_pace_locked(struct vmm_console *c)
{
	uint64_t start = gs_clock_ns();

	while (!c->closing && c->uart.rx_count &&
	       vmm_cond_wait_until(&c->in_wanted, &c->lock, start + IN_BURST_WAIT_NS))
		;
	uint64_t now = gs_clock_ns();
	uint64_t until = now + gs_max(now - start, IN_PAUSE_MIN_NS);
	while (!c->closing && vmm_cond_wait_until(&c->in_wanted, &c->lock, until))
		;
}

static void in_push(struct vmm_console *c, const char *bytes, size_t len)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < len; i++)
		vmm_pl011_receive(&c->uart, (uint8_t)bytes[i]);
	uart_changed_locked(c);
	in_pace_locked(c);
	pthread_mutex_unlock(&c->lock);
}

static bool is_closing(struct vmm_console *c)
{
	pthread_mutex_lock(&c->lock);
	bool closing = c->closing;
	pthread_mutex_unlock(&c->lock);
	return closing;
}

static void in_main(void *arg)
{
	struct vmm_console *c = arg;
	char bytes[VMM_PL011_FIFO_MAX];
	size_t room;

	while ((room = in_room(c))) {
		in_wait(c, true, -1);
		if (is_closing(c))
			break;
		ssize_t n = read(c->config.in, bytes, gs_min(room, sizeof(bytes)));
		if (n > 0)
			in_push(c, bytes, (size_t)n);
		else if (n < 0 && errno == EIO && isatty(c->config.in))
			in_wait(c, false, IN_RETRY_NS / GS_NS_PER_MS); // in the background: later
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			break;
	}
}

enum gs_code vmm_console_start(struct vmm_console *c, struct gs_error *err)
{
	enum gs_code rc = GS_OK;

	if (c->tap.size)
		rc = vmm_thread_start(&c->tap_thread, "console", false, tap_main, c, err);
	if (!rc && c->out.size)
		rc = vmm_thread_start(&c->out_thread, "console-out", true, out_main, c, err);
	if (!rc && c->config.in >= 0)
		rc = vmm_thread_start(&c->in_thread, "console-in", true, in_main, c, err);
	return rc;
}

void vmm_console_destroy(struct vmm_console *c, uint64_t drain_ns)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	c->drain_until_ns = gs_clock_ns() + drain_ns;
	pthread_cond_broadcast(&c->tap_filled);
	pthread_cond_broadcast(&c->out_filled);
	pthread_cond_broadcast(&c->in_wanted);
	pthread_mutex_unlock(&c->lock);
	if (c->close_fd >= 0)
		(void)eventfd_write(c->close_fd, 1); // cannot fail: its count is 0

	// A write or read may have begun on a poll that another process has made untrue.
	vmm_thread_join(&c->in_thread, 0);
	vmm_thread_join(&c->out_thread, drain_ns);
	vmm_thread_join(&c->tap_thread, UINT64_MAX);

	if (c->close_fd >= 0)
		close(c->close_fd);
	free(c->tap.bytes);
	free(c->out.bytes);
	pthread_cond_destroy(&c->in_wanted);
	pthread_cond_destroy(&c->out_filled);
	pthread_cond_destroy(&c->tap_filled);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
