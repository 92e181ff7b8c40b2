/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to QEMU over its own QMP socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/qmp.h"
#include "introspect/guest/qmp_watch.h"

#define QMP_RESUME_NS (5 * GS_NS_PER_MS)

/* How long close() waits for the watcher's process to end; it has nothing to do but to exit. */
#define WATCH_END_NS GS_NS_PER_SEC

struct qmp_link {
	struct guest_link link; /* first: they point at each other */
	struct guest_qmp qmp;
	struct guest_watch watch;
	pid_t pid;
	bool held; /* suspend() may have stopped it */
};

static struct qmp_link *of_link(struct guest_link *l)
{
	return (struct qmp_link *)l;
}

static enum gs_code link_execute(struct guest_link *l, const char *command, json_t *arguments,
				 uint64_t deadline_ns, json_t **value_out, struct gs_error *err)
{
	return guest_qmp_execute(&of_link(l)->qmp, command, arguments, deadline_ns, value_out, err);
}

static enum gs_code link_is_running(struct guest_link *l, uint64_t deadline_ns, bool *running_out,
				    struct gs_error *err)
{
	json_t *status;
	enum gs_code rc = guest_qmp_execute(&of_link(l)->qmp, "query-status", NULL, deadline_ns,
					    &status, err);

	if (rc)
		return rc;
	const json_t *running = json_object_get(status, "running");
	bool ok = json_is_boolean(running);
	*running_out = json_is_true(running);
	json_decref(status);
	return ok ? GS_OK : gs_fail(err, GS_EMALFORMED, "query-status: no \"running\" in it");
}

/* QEMU does not answer, or not in a way we understand: the watcher gets the connection. */
static void let_go(struct qmp_link *q, struct gs_error *err)
{
	q->held = false;
	if (q->qmp.gone) { /* no QEMU, no guest */
		guest_watch_end(&q->watch, gs_clock_ns() + WATCH_END_NS);
		return;
	}
	q->qmp.broken = true;
	pid_t pid = guest_watch_let_go(&q->watch, q->qmp.fd);
	if (err && pid)
		gs_error_prefix(err, err->code,
				"process %d stays to resume the guest as soon as QEMU answers",
				(int)pid);
	else if (err)
		gs_error_prefix(err, err->code, "the guest may be paused: resume it by hand");
}

static enum gs_code link_suspend(struct guest_link *l, uint64_t resume_ns, uint64_t deadline_ns,
				 struct gs_error *err)
{
	struct qmp_link *q = of_link(l);
	enum gs_code rc = guest_watch_arm(&q->watch, q->qmp.fd, resume_ns, err);

	if (rc)
		return rc;
	q->held = true;
	rc = guest_qmp_execute(&q->qmp, "stop", NULL, deadline_ns, NULL, err);
	if (!rc && guest_watch_has_resumed(&q->watch)) /* its "cont" may have come before "stop" */
		return gs_fail(err, GS_ETIMEDOUT, "the guest did not stop in time");
	if (rc == GS_EBUSY || rc == GS_ENOTSUP) { /* an answer: it has not stopped */
		guest_watch_disarm(&q->watch);
		q->held = false;
	} else if (rc && (rc != GS_ETIMEDOUT || q->qmp.broken)) {
		let_go(q, err);
	}
	return rc;
}

static enum gs_code link_resume(struct guest_link *l, uint64_t deadline_ns, struct gs_error *err)
{
	struct qmp_link *q = of_link(l);

	if (!q->held)
		return gs_fail(err, GS_ESYS, "the connection to QEMU's monitor is lost");
	/* does no harm where the watcher has been faster */
	enum gs_code rc = guest_qmp_execute(&q->qmp, "cont", NULL, deadline_ns, NULL, err);
	if (!rc || rc == GS_EBUSY || rc == GS_ENOTSUP) {
		guest_watch_disarm(&q->watch);
		q->held = false;
	} else {
		let_go(q, err);
	}
	return rc;
}

static pid_t link_pid(struct guest_link *l)
{
	return of_link(l)->pid;
}

static void link_close(struct guest_link *l)
{
	struct qmp_link *q = of_link(l);

	if (q->held)
		let_go(q, NULL);
	else
		guest_watch_end(&q->watch, gs_clock_ns() + WATCH_END_NS);
	guest_qmp_deinit(&q->qmp);
	free(q);
}

static const struct guest_link_ops qmp_link_ops = {
	.execute = link_execute,
	.is_running = link_is_running,
	.suspend = link_suspend,
	.resume = link_resume,
	.pid = link_pid,
	.close = link_close,
};

enum gs_code guest_qmp_link_start(int fd, uint64_t deadline_ns, struct guest_link **link_out,
				  struct gs_error *err)
{
	struct qmp_link *q = calloc(1, sizeof(*q));
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (!q) {
		close(fd);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	q->link = (struct guest_link){
		.ops = &qmp_link_ops,
		.name = "qmp",
		.resume_ns = QMP_RESUME_NS,
	};
	q->watch.pipe = -1;
	/* who listened; in a user or process namespace that we do not see it is 0 */
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid > 0)
		q->pid = peer.pid;
	enum gs_code rc = guest_qmp_start(&q->qmp, fd, deadline_ns, err);
	if (!rc)
		rc = guest_watch_start(fd, &q->watch, err);
	if (rc) {
		link_close(&q->link);
		return rc;
	}
	*link_out = &q->link;
	return GS_OK;
}

enum gs_code guest_qmp_link_open(const char *socket_path, uint64_t deadline_ns,
				 struct guest_link **link_out, struct gs_error *err)
{
	int fd;
	enum gs_code rc = guest_qmp_connect(socket_path, deadline_ns, &fd, err);

	if (rc)
		return rc;
	rc = guest_qmp_link_start(fd, deadline_ns, link_out, err);
	return rc ? gs_wrap(err, rc, "%s", socket_path) : GS_OK;
}
