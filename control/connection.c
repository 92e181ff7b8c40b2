/* SPDX-License-Identifier: Apache-2.0 */
/* One connected stream of lines: bounded in both directions, never blocking. */
#include "control/connection.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"

#define CONN_FINISH_MS 1000

/* A line that waits to be sent. */
struct piece {
	struct piece *next;
	char *bytes;
	size_t len;
	size_t sent;
	int fd;	       /* goes with the first byte; -1: none, or gone with it */
	uint64_t mark; /* for sent(); 0: it is not told */
};

struct ctl_conn {
	uv_poll_t poll;
	uv_timer_t timer; /* the peer's time to take something; 0 ms: give up at the next turn */
	uint32_t handles; /* of these two, not closed yet */
	int fd;
	uint32_t stall_ms;
	const struct ctl_conn_events *events;
	void *arg;

	bool paused;	/* by the owner */
	bool in_line;	/* a line() call is under way */
	bool eof;	/* the peer sends no more, but may read */
	bool finishing; /* we take no more */
	bool broken;	/* given up; the timer tells the owner */

	struct piece *first, *last;
	size_t out_bytes;

	size_t in_len;
	size_t scanned; /* bytes of in known to hold no newline */
	char in[CTL_LINE_MAX];
};

static void piece_free(struct piece *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->bytes);
	free(p);
}

static void on_closed(uv_handle_t *handle)
{
	struct ctl_conn *c = handle->data;

	if (--c->handles == 0)
		free(c);
}

void ctl_conn_close(struct ctl_conn *c)
{
	assert(!c->in_line);
	uv_close((uv_handle_t *)&c->poll, on_closed);
	uv_close((uv_handle_t *)&c->timer, on_closed);
	close(c->fd); /* the poll handle is stopped by uv_close() */
	while (c->first) {
		struct piece *p = c->first;
		c->first = p->next;
		piece_free(p);
	}
}

static void end(struct ctl_conn *c)
{
	const struct ctl_conn_events *events = c->events;
	void *arg = c->arg;

	ctl_conn_close(c);
	events->gone(arg);
}

static void on_timer(uv_timer_t *handle)
{
	end(handle->data);
}

static void on_poll(uv_poll_t *handle, int status, int events);

/* Give up, at the next turn of the loop: whoever called us still uses the connection. */
static void set_broken(struct ctl_conn *c)
{
	c->broken = true;
	uv_poll_stop(&c->poll);
	uv_timer_start(&c->timer, on_timer, 0, 0);
}

/* Ask the loop for what we can use now. */
static void update(struct ctl_conn *c)
{
	int events = 0;

	if (c->broken)
		return;
	if (!c->first && (c->finishing || (c->eof && !c->paused))) {
		set_broken(c); /* all is said; not an error, but the same way out */
		return;
	}
	if (!c->eof && !c->finishing && c->in_len < sizeof(c->in))
		events |= UV_READABLE;
	if (c->first)
		events |= UV_WRITABLE;
	else
		uv_timer_stop(&c->timer);
	if (events)
		uv_poll_start(&c->poll, events, on_poll);
	else
		uv_poll_stop(&c->poll);
}

/* @return bytes sent, 0 when the socket is full, -1 when it is of no use any more */
static ssize_t send_some(const struct ctl_conn *c, struct piece *p)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { .iov_base = p->bytes + p->sent, .iov_len = p->len - p->sent };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (p->fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &p->fd, sizeof(int));
	}
	ssize_t n;
	do {
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -1;
	if (p->fd >= 0) {
		close(p->fd);
		p->fd = -1;
	}
	return n;
}

/* The first line is with the peer. */
static void finish_first(struct ctl_conn *c)
{
	struct piece *p = c->first;
	const uint64_t mark = p->mark;

	c->first = p->next;
	if (!c->first)
		c->last = NULL;
	piece_free(p);
	if (mark)
		c->events->sent(c->arg, mark);
}

static void flush(struct ctl_conn *c)
{
	bool progress = false;

	while (c->first) {
		struct piece *p = c->first;
		ssize_t n = send_some(c, p);

		if (n < 0) {
			set_broken(c);
			return;
		}
		if (n == 0)
			break;
		progress = true;
		c->out_bytes -= (size_t)n;
		p->sent += (size_t)n;
		if (p->sent == p->len)
			finish_first(c);
	}
	if (c->first && (progress || !uv_is_active((uv_handle_t *)&c->timer)))
		uv_timer_start(&c->timer, on_timer, c->finishing ? CONN_FINISH_MS : c->stall_ms, 0);
}

void ctl_conn_send(struct ctl_conn *c, char *line, size_t len, int fd)
{
	ctl_conn_send_marked(c, line, len, fd, 0);
}

void ctl_conn_send_marked(struct ctl_conn *c, char *line, size_t len, int fd, uint64_t mark)
{
	struct piece *p = line ? malloc(sizeof(*p)) : NULL;

	if (!p || c->broken || c->out_bytes + len > CTL_OUT_MAX) {
		free(p);
		free(line);
		if (fd >= 0)
			close(fd);
		if (!c->broken)
			set_broken(c);
		return;
	}
	*p = (struct piece){ .bytes = line, .len = len, .fd = fd, .mark = mark };
	if (c->last)
		c->last->next = p;
	else
		c->first = p;
	c->last = p;
	c->out_bytes += len;
	if (c->first == p)
		flush(c);
	if (!c->in_line)
		update(c);
}

/* Hand over the lines that are there. */
static void lines(struct ctl_conn *c)
{
	size_t start = 0;

	while (!c->paused && !c->finishing && !c->broken && c->out_bytes < CTL_OUT_HIGH) {
		char *from = c->in + start + c->scanned;
		char *newline = memchr(from, '\n', c->in_len - start - c->scanned);

		if (!newline) {
			c->scanned = c->in_len - start;
			break;
		}
		size_t len = (size_t)(newline - (c->in + start));
		c->scanned = 0;
		c->in_line = true;
		c->events->line(c->arg, c->in + start, len);
		c->in_line = false;
		start += len + 1;
	}
	memmove(c->in, c->in + start, c->in_len - start);
	c->in_len -= start;
	/* full and without a newline, which is only known when nothing held us back from looking */
	if (c->in_len == sizeof(c->in) && c->scanned == c->in_len && !c->finishing && !c->broken) {
		c->in_line = true;
		c->events->overlong(c->arg);
		c->in_line = false;
	}
	update(c);
}

/* The peer has closed its sending side, or everything. */
static void on_eof(struct ctl_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = 0 };

	c->eof = true;
	if (poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)))
		set_broken(c); /* nobody is left to read an answer */
	else
		update(c);
}

static void on_readable(struct ctl_conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);

	if (n > 0) {
		c->in_len += (size_t)n;
		lines(c);
	} else if (n == 0) {
		on_eof(c);
	} else if (errno != EAGAIN && errno != EINTR) {
		set_broken(c);
	}
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct ctl_conn *c = handle->data;

	if (status < 0) {
		set_broken(c);
		return;
	}
	if ((events & UV_WRITABLE) && c->first) {
		flush(c);
		if (!c->broken)
			lines(c); /* some may have waited for the room */
	}
	if ((events & UV_READABLE) && !c->broken && !c->eof && !c->finishing &&
	    c->in_len < sizeof(c->in))
		on_readable(c);
}

enum gs_code ctl_conn_create(uv_loop_t *loop, int fd, uint32_t stall_ms,
			     const struct ctl_conn_events *events, void *arg,
			     struct ctl_conn **conn_out)
{
	struct ctl_conn *c = malloc(sizeof(*c));

	if (!c) {
		close(fd);
		return GS_ENOSPC;
	}
	memset(c, 0, offsetof(struct ctl_conn, in));
	c->fd = fd;
	c->stall_ms = stall_ms;
	c->events = events;
	c->arg = arg;
	c->poll.data = c;
	c->timer.data = c;
	if (uv_poll_init(loop, &c->poll, fd)) {
		close(fd);
		free(c);
		return GS_ENOSPC;
	}
	(void)uv_timer_init(loop, &c->timer); /* cannot fail */
	c->handles = 2;
	update(c);
	*conn_out = c;
	return GS_OK;
}

void ctl_conn_pause(struct ctl_conn *c)
{
	c->paused = true;
}

void ctl_conn_resume(struct ctl_conn *c)
{
	assert(!c->in_line);
	c->paused = false;
	lines(c);
}

void ctl_conn_finish(struct ctl_conn *c)
{
	if (c->finishing || c->broken)
		return;
	c->finishing = true;
	if (c->first)
		uv_timer_start(&c->timer, on_timer, CONN_FINISH_MS, 0);
	if (!c->in_line)
		update(c);
}
