/* SPDX-License-Identifier: Apache-2.0 */
/* A client of QEMU's machine protocol, QMP. */
#include "introspect/guest/qmp.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/qemu_wait.h"

#define QMP_READ_SIZE 65536

/* --- connecting ---------------------------------------------------------------------------------
 */

/* A moment, but not beyond the deadline. @return false: it has passed */
static bool wait_a_moment(uint64_t deadline_ns)
{
	const struct timespec moment = { .tv_nsec = 20 * 1000 * 1000 };

	if (gs_clock_ns() >= deadline_ns)
		return false;
	nanosleep(&moment, NULL);
	return true;
}

enum gs_code guest_qmp_connect(const char *path, uint64_t deadline_ns, int *fd_out,
			       struct gs_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(addr.sun_path))
		return gs_fail(err, GS_EINVAL, "QMP socket '%s': a path has 1 to %zu bytes", path,
			       sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, len + 1);
	GS_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "make a socket");
	}
	while (connect(fd, (const struct sockaddr *)&addr, sizeof(addr))) {
		int e = errno;

		if (e == EINTR)
			continue;
		if (e != EAGAIN) /* unix(7): the queue of those who wait is full */
			return gs_fail_errno(err,
					     e == ECONNREFUSED ? GS_ENOENT : gs_code_of_errno(e), e,
					     "connect to QMP socket %s", path);
		if (!wait_a_moment(deadline_ns))
			return gs_fail(err, GS_ETIMEDOUT,
				       "QMP socket %s: others wait for it already", path);
	}
	*fd_out = GS_TAKE_FD(fd);
	return GS_OK;
}

/* --- bytes in and out ---------------------------------------------------------------------------
 */

static enum gs_code fail_gone(struct guest_qmp *q, int e, struct gs_error *err)
{
	q->broken = true;
	q->gone = true;
	if (e)
		return gs_fail_errno(err, GS_ESYS, e, "QEMU's monitor");
	return gs_fail(err, GS_ESYS, "QEMU has closed its monitor: it has ended, or let us go");
}

static enum gs_code send_all(struct guest_qmp *q, const char *bytes, size_t len,
			     uint64_t deadline_ns, struct gs_error *err)
{
	while (len) {
		ssize_t n = send(q->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
			continue;
		}
		int e = errno;
		if (e == EINTR)
			continue;
		if (e != EAGAIN)
			return fail_gone(q, e, err);
		if (guest_wait_for(q->fd, POLLOUT, deadline_ns)) {
			q->broken = true; /* half a command is out */
			return gs_fail(err, GS_ETIMEDOUT, "QEMU's monitor takes no command");
		}
	}
	return GS_OK;
}

static bool make_room(struct guest_qmp *q)
{
	if (q->size - q->len >= QMP_READ_SIZE)
		return true;
	size_t size = gs_max(q->size * 2, 2 * QMP_READ_SIZE);
	char *buf = realloc(q->buf, size);
	if (!buf)
		return false;
	q->buf = buf;
	q->size = size;
	return true;
}

static enum gs_code receive(struct guest_qmp *q, uint64_t deadline_ns, struct gs_error *err)
{
	if (q->len > GUEST_QMP_ANSWER_MAX) {
		q->broken = true;
		return gs_fail(err, GS_ETOOBIG, "QEMU's monitor: an answer of over %u bytes",
			       GUEST_QMP_ANSWER_MAX);
	}
	if (!make_room(q))
		return gs_fail(err, GS_ENOSPC, "out of memory");
	if (guest_wait_for(q->fd, POLLIN, deadline_ns))
		return gs_fail(err, GS_ETIMEDOUT, "QEMU's monitor does not answer");
	ssize_t n = recv(q->fd, q->buf + q->len, q->size - q->len, MSG_DONTWAIT);
	int e = errno;
	if (n > 0)
		q->len += (size_t)n;
	else if (n == 0 || (e != EAGAIN && e != EINTR))
		return fail_gone(q, n ? e : 0, err);
	return GS_OK;
}

/* --- objects ------------------------------------------------------------------------------------
 */

static enum gs_code fail_malformed(struct guest_qmp *q, const char *what, struct gs_error *err)
{
	q->broken = true;
	return gs_fail(err, GS_EMALFORMED, "QEMU's monitor: %s: is this a QMP socket?", what);
}

static void drop_front(struct guest_qmp *q, size_t n)
{
	q->scanned = 0;
	if (!n)
		return;
	q->len -= n;
	memmove(q->buf, q->buf + n, q->len);
}

/* Look at one more byte of the object at the front. @return whether it ends there */
static bool scan_byte(struct guest_qmp *q, char c)
{
	if (q->in_string) {
		if (q->escaped)
			q->escaped = false;
		else if (c == '\\')
			q->escaped = true;
		else if (c == '"')
			q->in_string = false;
		return false;
	}
	if (c == '"')
		q->in_string = true;
	else if (c == '{' || c == '[')
		q->depth++;
	else if (c == '}' || c == ']')
		return --q->depth == 0;
	return false;
}

/* Length of the whole object at the front of the buffer; 0: it is not all here. */
static enum gs_code find_object(struct guest_qmp *q, size_t *len_out, struct gs_error *err)
{
	size_t blank = 0;

	*len_out = 0;
	if (!q->scanned) {
		while (blank < q->len && strchr(" \t\r\n", q->buf[blank]) && q->buf[blank])
			blank++;
		drop_front(q, blank);
		q->depth = 0;
		q->in_string = q->escaped = false;
		if (q->len && q->buf[0] != '{')
			return fail_malformed(q, "no JSON object", err);
	}
	while (q->scanned < q->len) {
		if (scan_byte(q, q->buf[q->scanned++])) {
			*len_out = q->scanned;
			return GS_OK;
		}
	}
	return GS_OK;
}

/* The next object, an event or whatever it is. @p object_out is returned: json_decref() it. */
static enum gs_code next_object(struct guest_qmp *q, uint64_t deadline_ns, json_t **object_out,
				struct gs_error *err)
{
	size_t len;

	for (;;) {
		enum gs_code rc = find_object(q, &len, err);
		if (rc)
			return rc;
		if (len)
			break;
		rc = receive(q, deadline_ns, err);
		if (rc)
			return rc;
	}
	json_error_t why;
	json_t *object = json_loadb(q->buf, len, JSON_REJECT_DUPLICATES, &why);
	drop_front(q, len);
	if (!object)
		return fail_malformed(q, why.text, err);
	*object_out = object;
	return GS_OK;
}

/* --- commands -----------------------------------------------------------------------------------
 */

enum gs_code guest_qmp_answer(const json_t *answer, const char *command, json_t **value_out,
			      struct gs_error *err)
{
	json_t *value = json_object_get(answer, "return");

	if (value) {
		if (value_out)
			*value_out = json_incref(value);
		return GS_OK;
	}
	const json_t *error = json_object_get(answer, "error");
	const char *class = json_string_value(json_object_get(error, "class"));
	const char *desc = json_string_value(json_object_get(error, "desc"));
	if (class && !strcmp(class, "CommandNotFound"))
		return gs_fail(err, GS_ENOTSUP, "QEMU does not know the command %s", command);
	return gs_fail(err, GS_EBUSY, "QEMU refuses %s: %.300s", command,
		       desc ? desc : "no reason");
}

/* The command as one line. Returned: free it. NULL: out of memory */
static char *command_line(const char *command, json_t *arguments, const char *id)
{
	json_t *object =
		json_pack("{s:s, s:o*, s:s}", "execute", command, "arguments", arguments, "id", id);
	char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	return line;
}

static enum gs_code send_command(struct guest_qmp *q, const char *command, json_t *arguments,
				 const char *id, uint64_t deadline_ns, struct gs_error *err)
{
	GS_FREE char *line = command_line(command, arguments, id);

	if (!line)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	size_t len = strlen(line);
	line[len] = '\n'; /* in place of the NUL: one send for the whole line */
	return send_all(q, line, len + 1, deadline_ns, err);
}

/* Whether an object answers the command with this id; an error without id answers the last one. */
static bool is_answer(const json_t *object, const char *id)
{
	const char *its = json_string_value(json_object_get(object, "id"));

	if (its)
		return !strcmp(its, id);
	return !json_object_get(object, "id") && json_object_get(object, "error");
}

enum gs_code guest_qmp_execute(struct guest_qmp *q, const char *command, json_t *arguments,
			       uint64_t deadline_ns, json_t **value_out, struct gs_error *err)
{
	char id[32];

	snprintf(id, sizeof(id), "guestshot-%" PRIu64, ++q->commands);
	if (q->broken) {
		json_decref(arguments);
		return gs_fail(err, GS_ESYS, "the connection to QEMU's monitor is lost");
	}
	enum gs_code rc = send_command(q, command, arguments, id, deadline_ns, err);
	if (rc)
		return gs_wrap(err, rc, "%s", command);
	for (;;) {
		json_t *object;

		/* also where more is there already: events without end are no answer */
		rc = gs_clock_ns() >= deadline_ns
			     ? gs_fail(err, GS_ETIMEDOUT, "QEMU's monitor does not answer")
			     : next_object(q, deadline_ns, &object, err);
		if (rc)
			return gs_wrap(err, rc, "%s", command);
		bool ours = is_answer(object, id);
		if (ours)
			rc = guest_qmp_answer(object, command, value_out, err);
		json_decref(object);
		if (ours)
			return rc;
	}
}

enum gs_code guest_qmp_start(struct guest_qmp *q, int fd, uint64_t deadline_ns,
			     struct gs_error *err)
{
	json_t *greeting;

	*q = (struct guest_qmp){ .fd = fd };
	enum gs_code rc = next_object(q, deadline_ns, &greeting, err);
	if (rc == GS_ETIMEDOUT)
		return gs_fail(err, rc,
			       "QMP: no greeting: another client may have this socket (it serves "
			       "one at a time; start QEMU with a second -qmp socket)");
	if (rc)
		return gs_wrap(err, rc, "QMP greeting");
	bool ok = json_is_object(json_object_get(greeting, "QMP"));
	json_decref(greeting);
	if (!ok)
		return fail_malformed(q, "another greeting than QMP's", err);
	return guest_qmp_execute(q, "qmp_capabilities", NULL, deadline_ns, NULL, err);
}

void guest_qmp_deinit(struct guest_qmp *q)
{
	if (q->fd >= 0)
		close(q->fd);
	free(q->buf);
	*q = (struct guest_qmp){ .fd = -1, .broken = true };
}
