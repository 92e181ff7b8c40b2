/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the control socket: a blocking client with deadlines. */
#include "control/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/util.h"
#include "control/protocol.h"

/* Between two tries to reach a server that is not there yet. */
#define CLIENT_RETRY_MS 20
/* Descriptors taken from one message; all but the first are closed. */
#define CLIENT_FDS_MAX 8

struct ctl_client {
	int fd;
	int passed_fd; /* came along and is not given out yet; -1: none */
	json_int_t next_id;
	bool lost;  /* nothing more can be asked */
	size_t len; /* bytes in buf */
	char buf[CTL_ANSWER_MAX];
};

/* Milliseconds until a deadline for poll(): rounded up, so that it does not spin at the end. */
static int until_ms(uint64_t deadline_ns)
{
	uint64_t now = gs_clock_ns();

	if (deadline_ns == CTL_NO_DEADLINE)
		return -1;
	if (now >= deadline_ns)
		return 0;
	return (int)gs_min((deadline_ns - now + GS_NS_PER_MS - 1) / GS_NS_PER_MS, 60000);
}

/* Wait for events on the socket. */
static enum gs_code wait_for(int fd, short events, uint64_t deadline_ns, struct gs_error *err)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int n = poll(&p, 1, until_ms(deadline_ns));

		if (n > 0)
			return GS_OK;
		if (n < 0 && errno != EINTR) {
			int e = errno;
			return gs_fail_errno(err, GS_ESYS, e, "poll");
		}
		if (deadline_ns != CTL_NO_DEADLINE && gs_clock_ns() >= deadline_ns)
			return gs_fail(err, GS_ETIMEDOUT, "no answer in time");
	}
}

static void keep_fds(struct ctl_client *c, struct msghdr *msg)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
			if (c->passed_fd < 0)
				c->passed_fd = fd;
			else
				close(fd);
		}
	}
}

static enum gs_code receive_some(struct ctl_client *c, uint64_t deadline_ns, struct gs_error *err)
{
	union {
		char bytes[CMSG_SPACE(CLIENT_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = c->buf + c->len, .iov_len = sizeof(c->buf) - c->len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};

	if (c->len == sizeof(c->buf))
		return gs_fail(err, GS_EMALFORMED, "the server's line is longer than %u bytes",
			       CTL_ANSWER_MAX);
	enum gs_code rc = wait_for(c->fd, POLLIN, deadline_ns, err);
	if (rc)
		return rc;
	ssize_t n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return GS_OK;
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return gs_fail(err, GS_ENOENT, "the server has closed the connection");
	if (n < 0) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "receive");
	}
	keep_fds(c, &msg);
	c->len += (size_t)n;
	return GS_OK;
}

/* Take one line off the buffer and parse it. */
static enum gs_code receive_object(struct ctl_client *c, uint64_t deadline_ns, json_t **object_out,
				   struct gs_error *err)
{
	size_t scanned = 0;
	char *newline;

	while (!(newline = memchr(c->buf + scanned, '\n', c->len - scanned))) {
		scanned = c->len;
		enum gs_code rc = receive_some(c, deadline_ns, err);
		if (rc)
			return rc;
	}
	struct ctl_fault f;
	size_t line_len = (size_t)(newline - c->buf);
	json_t *object = ctl_json_parse(c->buf, line_len, &f);
	c->len -= line_len + 1;
	memmove(c->buf, newline + 1, c->len);
	if (!object) {
		char shown[256];
		gs_escape_terminal(f.desc, sizeof(f.desc), shown, sizeof(shown));
		return gs_fail(err, GS_EMALFORMED, "the server's line is not JSON: %s", shown);
	}
	if (!json_is_object(object)) {
		json_decref(object);
		return gs_fail(err, GS_EMALFORMED, "the server's line is not an object");
	}
	*object_out = object;
	return GS_OK;
}

static enum gs_code code_of_class(const char *class)
{
	for (int code = GS_ENOENT; code <= GS_ESYS; code++) {
		if (!strcmp(class, gs_code_name((enum gs_code)code)))
			return (enum gs_code)code;
	}
	return GS_EINVAL;
}

/* Turn {"class", "desc"} into an error of ours. */
static enum gs_code fail_as_told(const json_t *error, struct gs_error *err)
{
	const char *class = json_string_value(json_object_get(error, "class"));
	const char *desc = json_string_value(json_object_get(error, "desc"));
	char shown[GS_ERROR_TEXT_MAX];

	if (!class || !desc)
		return gs_fail(err, GS_EMALFORMED, "the server's error says nothing");
	gs_escape_terminal(desc, strlen(desc), shown, sizeof(shown));
	enum gs_code code = code_of_class(class);
	return gs_fail(err, code, "%s", shown);
}

static enum gs_code read_greeting(struct ctl_client *c, uint64_t deadline_ns, struct gs_error *err)
{
	json_t *line;
	enum gs_code rc = receive_object(c, deadline_ns, &line, err);

	if (rc)
		return rc;
	const json_t *error = json_object_get(line, "error");
	const json_t *hello = json_object_get(line, "guestshot");
	const json_t *protocol = json_object_get(hello, "protocol");
	if (error)
		rc = fail_as_told(error, err); /* too many clients, not permitted */
	else if (!json_is_object(hello) || !json_is_integer(protocol))
		rc = gs_fail(err, GS_EMALFORMED, "it is not guestshot that answers there");
	else if (json_integer_value(protocol) != CTL_PROTOCOL_VERSION)
		rc = gs_fail(err, GS_ENOTSUP,
			     "the server speaks protocol %" JSON_INTEGER_FORMAT
			     ", this guestshot %d",
			     json_integer_value(protocol), CTL_PROTOCOL_VERSION);
	json_decref(line);
	return rc;
}

static enum gs_code connect_once(const char *path, int *fd_out, struct gs_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (!*path || strlen(path) >= sizeof(addr.sun_path))
		return gs_fail(err, GS_EINVAL, "a socket's path has 1 to %zu bytes",
			       sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	GS_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "create a socket");
	}
	/* a Unix socket connects at once or not at all */
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		int e = errno;
		if (e == ENOENT)
			return gs_fail(err, GS_ENOENT,
				       "not there (is a guest running with --control?)");
		if (e == ECONNREFUSED)
			return gs_fail(err, GS_ENOENT, "nobody listens there any more");
		if (e == EAGAIN)
			return gs_fail(err, GS_EBUSY, "too many clients are waiting");
		return gs_fail_errno(err, gs_code_of_errno(e), e, "connect");
	}
	*fd_out = GS_TAKE_FD(fd);
	return GS_OK;
}

static enum gs_code connect_and_greet(struct ctl_client *c, const char *path, uint64_t deadline_ns,
				      struct gs_error *err)
{
	enum gs_code rc = connect_once(path, &c->fd, err);

	if (!rc)
		rc = read_greeting(c, deadline_ns, err);
	if (rc && c->fd >= 0) {
		close(c->fd);
		c->fd = -1;
		c->len = 0;
	}
	return rc;
}

enum gs_code ctl_client_connect(const char *path, uint64_t wait_until_ns, uint64_t deadline_ns,
				struct ctl_client **client_out, struct gs_error *err)
{
	struct ctl_client *c = malloc(sizeof(*c));

	if (!c)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	c->fd = -1;
	c->passed_fd = -1;
	c->next_id = CTL_NO_ID + 1;
	c->lost = false;
	c->len = 0;
	for (;;) {
		enum gs_code rc = connect_and_greet(c, path, deadline_ns, err);

		if (!rc) {
			*client_out = c;
			return GS_OK;
		}
		/* not there yet, or going just now, or full: may change; everything else will not
		 */
		bool may_change = rc == GS_ENOENT || rc == GS_EBUSY;
		if (!may_change || gs_clock_ns() >= wait_until_ns) {
			ctl_client_destroy(c);
			return gs_wrap(err, rc, "control socket %s", path);
		}
		(void)poll(NULL, 0, CLIENT_RETRY_MS);
	}
}

static enum gs_code send_all(struct ctl_client *c, const char *bytes, size_t len,
			     uint64_t deadline_ns, struct gs_error *err)
{
	while (len) {
		ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			enum gs_code rc = wait_for(c->fd, POLLOUT, deadline_ns, err);
			if (rc)
				return rc;
		} else if (errno == EPIPE || errno == ECONNRESET) {
			return gs_fail(err, GS_ENOENT, "the server has closed the connection");
		} else if (errno != EINTR) {
			int e = errno;
			return gs_fail_errno(err, GS_ESYS, e, "send");
		}
	}
	return GS_OK;
}

static enum gs_code send_request(struct ctl_client *c, const char *command, json_t *arguments,
				 json_int_t id, uint64_t deadline_ns, struct gs_error *err)
{
	json_t *request =
		json_pack("{s:s, s:o*, s:I}", "execute", command, "arguments", arguments, "id", id);
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
	enum gs_code rc = GS_OK;

	json_decref(request);
	if (!text)
		return gs_fail(err, GS_EINVAL, "the request cannot be written as JSON");
	rc = send_all(c, text, strlen(text), deadline_ns, err);
	if (!rc)
		rc = send_all(c, "\n", 1, deadline_ns, err);
	free(text);
	return rc;
}

/* The line that answers request @p id; events, and answers nobody waits for any more, are passed over. */
static enum gs_code receive_answer(struct ctl_client *c, json_int_t id, uint64_t deadline_ns,
				   json_t **line_out, struct gs_error *err)
{
	for (;;) {
		json_t *line;
		enum gs_code rc = receive_object(c, deadline_ns, &line, err);

		if (rc) {
			c->lost = rc != GS_ETIMEDOUT;
			return rc;
		}
		const json_t *error = json_object_get(line, "error");
		const json_t *line_id = json_object_get(line, "id");
		/* an error without id is about the connection */
		bool ours = line_id ? json_is_integer(line_id) && json_integer_value(line_id) == id
				    : error != NULL;
		if (ours && (error || json_object_get(line, "return"))) {
			c->lost = !line_id;
			*line_out = line;
			return GS_OK;
		}
		json_decref(line);
		if (gs_clock_ns() >= deadline_ns)
			return gs_fail(err, GS_ETIMEDOUT, "no answer in time");
	}
}

/* What it says, and what came along. */
static enum gs_code take_answer(struct ctl_client *c, const json_t *line, json_t **return_out,
				int *fd_out, struct gs_error *err)
{
	const json_t *error = json_object_get(line, "error");
	json_t *body = json_object_get(line, "return");
	GS_CLOSE int fd = GS_TAKE_FD(c->passed_fd);

	if (error)
		return fail_as_told(error, err);
	if (!json_is_object(body)) {
		c->lost = true;
		return gs_fail(err, GS_EMALFORMED, "the server's answer is not an object");
	}
	*return_out = json_incref(body);
	if (fd_out)
		*fd_out = GS_TAKE_FD(fd);
	return GS_OK;
}

enum gs_code ctl_client_send(struct ctl_client *c, const char *command, json_t *arguments,
			     uint64_t deadline_ns, json_int_t *id_out, struct gs_error *err)
{
	const json_int_t id = c->next_id++;
	enum gs_code rc = send_request(c, command, arguments, id, deadline_ns, err);

	if (rc) {
		c->lost = true; /* it may have half of a line */
		return gs_wrap(err, rc, "%s", command);
	}
	*id_out = id;
	return GS_OK;
}

enum gs_code ctl_client_answer(struct ctl_client *c, json_int_t id, json_t **return_out,
			       int *fd_out, struct gs_error *err)
{
	json_t *line;
	enum gs_code rc = receive_answer(c, id, 0, &line, err);

	*return_out = NULL;
	if (rc)
		return rc == GS_ETIMEDOUT ? GS_OK : rc;
	rc = take_answer(c, line, return_out, fd_out, err);
	json_decref(line);
	return rc;
}

enum gs_code ctl_client_call(struct ctl_client *c, const char *command, json_t *arguments,
			     uint64_t deadline_ns, json_t **return_out, int *fd_out,
			     struct gs_error *err)
{
	json_t *line;
	json_int_t id;
	enum gs_code rc = ctl_client_send(c, command, arguments, deadline_ns, &id, err);

	if (rc)
		return rc;
	rc = receive_answer(c, id, deadline_ns, &line, err);
	if (rc)
		return gs_wrap(err, rc, "%s", command);
	rc = take_answer(c, line, return_out, fd_out, err);
	json_decref(line);
	return rc ? gs_wrap(err, rc, "%s", command) : GS_OK;
}

int ctl_client_fd(const struct ctl_client *c)
{
	return c->fd;
}

bool ctl_client_is_lost(const struct ctl_client *c)
{
	return c->lost;
}

enum gs_code ctl_capture_map(int fd, const void **data_out, size_t *size_out, struct gs_error *err)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_WRITE;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return gs_fail(err, GS_EMALFORMED,
			       "what the server passed is no sealed memory file");
	if (st.st_size <= 0)
		return gs_fail(err, GS_EMALFORMED, "the capture is empty");
	if ((uint64_t)st.st_size > CTL_CAPTURE_MAX)
		return gs_fail(err, GS_ETOOBIG, "the capture has %llu bytes",
			       (unsigned long long)st.st_size);
	void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "map the capture");
	}
	*data_out = data;
	*size_out = (size_t)st.st_size;
	return GS_OK;
}

void ctl_client_destroy(struct ctl_client *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	if (c->passed_fd >= 0)
		close(c->passed_fd);
	free(c);
}
