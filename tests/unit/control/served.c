/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a thread of its own, over a guest and a capture function that a test controls. */
#include "tests/unit/control/served.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "kcdata/stackshot_types.h"

const char served_capture[] = "not really a kcdata stream, but the bytes must arrive";
const size_t served_capture_len = sizeof(served_capture);

/* Wait for a change; the caller looks whether it is the one it wants. */
static void wait_change_locked(struct served *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SERVED_DEADLINE_S;
	ck_assert_int_eq(pthread_cond_timedwait(&s->changed, &s->lock, &until), 0);
}

/* --- guest and captures --------------------------------------------------------------------------
 */

static enum gs_code counted_stop(void *priv, struct gs_error *err)
{
	struct served *s = priv;

	(void)err;
	pthread_mutex_lock(&s->lock);
	s->stops++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return GS_OK;
}

static enum gs_code counted_resume(void *priv, struct gs_error *err)
{
	struct served *s = priv;

	pthread_mutex_lock(&s->lock);
	bool ok = s->stops > 0;
	s->stops -= ok;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return ok ? GS_OK : gs_fail(err, GS_EBUSY, "resume without a stop");
}

static enum gs_code vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	const struct guest *g = &((struct served *)priv)->memory.guest;

	return g->ops->vcpu_regs(g->priv, vcpu, regs_out);
}

static const struct guest_ops counted_ops = { .stop = counted_stop,
					      .resume = counted_resume,
					      .vcpu_regs = vcpu_regs };

static bool is_about_saving(const struct ss_request *request)
{
	return request->flags & (KCD_SS_SAVE_IN_KERNEL_BUFFER | KCD_SS_RETRIEVE_EXISTING_BUFFER);
}

/* @return whether to fail */
static bool pass_gate(struct served *s, const struct ss_request *request, bool *incomplete_out)
{
	pthread_mutex_lock(&s->lock);
	s->asked = *request;
	s->entered++;
	s->inside++;
	s->inside_max = (unsigned int)gs_max(s->inside_max, s->inside);
	pthread_cond_broadcast(&s->changed);
	while (s->gate_closed)
		wait_change_locked(s);
	s->inside--;
	bool fail = s->fail;
	*incomplete_out = s->incomplete;
	pthread_mutex_unlock(&s->lock);
	return fail;
}

static enum gs_code capture(void *arg, const struct ss_request *request,
			    struct ss_result *result_out, struct gs_error *err)
{
	struct served *s = arg;
	bool incomplete;

	if (is_about_saving(request)) {
		(void)pass_gate(s, request, &incomplete);
		return ss_capture(s->session, request, result_out, err);
	}
	enum gs_code rc = guest_stop(&s->guest, err);
	ck_assert_int_eq(rc, GS_OK);
	bool fail = pass_gate(s, request, &incomplete);
	rc = guest_resume(&s->guest, err);
	ck_assert_int_eq(rc, GS_OK);
	if (fail)
		return gs_fail(err, GS_ENOENT, "no process %d", request->pid);
	*result_out = (struct ss_result){
		.data = malloc(served_capture_len),
		.size = served_capture_len,
		.complete = !incomplete,
		.tasks = 2,
		.threads = 3,
		.tries = 1,
		.stopped_ns = 1000,
		.stop_ns = 100,
		.collect_ns = 800,
		.resume_ns = 100,
		.total_ns = 2000,
		.start_ns = 12345678901,
	};
	memcpy(result_out->data, served_capture, served_capture_len);
	return GS_OK;
}

static void quit(void *arg)
{
	struct served *s = arg;

	pthread_mutex_lock(&s->lock);
	s->quits++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void machine_status(void *arg, struct vmm_status *status_out)
{
	(void)arg;
	*status_out = (struct vmm_status){ .uptime_ns = 7, .console_dropped = 5 };
}

/* --- the server ----------------------------------------------------------------------------------
 */

static const struct ctl_hooks hooks = { .machine_status = machine_status, .quit = quit };

static void on_closed(void *arg)
{
	struct served *s = arg;

	s->is_closed = true; /* the loop's thread only, until joined */
	ctl_schedules_destroy(s->schedules);
	ctl_worker_close(s->worker);
	uv_close((uv_handle_t *)&s->poke, NULL);
}

static void on_schedules_finished(void *arg)
{
	struct served *s = arg;

	ctl_server_close(s->server, on_closed, s);
}

static void on_poke(uv_async_t *handle)
{
	struct served *s = handle->data;

	pthread_mutex_lock(&s->lock);
	bool end = s->want_end, shut = s->want_close;
	s->want_end = s->want_close = false;
	pthread_mutex_unlock(&s->lock);
	if (end)
		ctl_server_guest_ended(s->server, "poweroff");
	if (shut)
		ctl_schedules_finish(s->schedules, on_schedules_finished, s);
}

static void *serve(void *arg)
{
	struct served *s = arg;

	uv_run(&s->loop, UV_RUN_DEFAULT);
	return NULL;
}

void served_start(struct served *s, uint32_t stall_ms)
{
	struct gs_error err = { 0 };

	memset(s, 0, sizeof(*s));
	memory_guest_init(&s->memory, 4);
	s->guest = s->memory.guest;
	s->guest.ops = &counted_ops;
	s->guest.priv = s;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	ck_assert_int_eq(uv_loop_init(&s->loop), 0);
	ck_assert_int_eq(uv_async_init(&s->loop, &s->poke, on_poke), 0);
	s->poke.data = s;
	ck_assert_int_eq(ss_session_create(&s->guest, &s->session, &err), GS_OK);
	ck_assert_int_eq(ctl_trace_create(&s->guest, NULL, &s->trace, &err), GS_OK);
	const struct ctl_worker_config worker = {
		.guest = &s->guest,
		.trace = s->trace,
		.capture = capture,
		.arg = s,
		.session = s->session,
	};
	ck_assert_int_eq(ctl_worker_create(&s->loop, &worker, &s->worker, &err), GS_OK);
	const struct ctl_schedules_config schedules = { .worker = s->worker };
	ck_assert_int_eq(ctl_schedules_create(&s->loop, &schedules, &s->schedules, &err), GS_OK);
	const struct ctl_server_config server = {
		.path = SERVED_PATH,
		.guest = &s->guest,
		.worker = s->worker,
		.trace = s->trace,
		.schedules = s->schedules,
		.hooks = &hooks,
		.arg = s,
		.stall_ms = stall_ms,
	};
	ck_assert_msg(!ctl_server_create(&s->loop, &server, &s->server, &err), "%s", err.text);
	ck_assert_int_eq(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void poke(struct served *s, bool end, bool shut)
{
	pthread_mutex_lock(&s->lock);
	s->want_end |= end;
	s->want_close |= shut;
	pthread_mutex_unlock(&s->lock);
	uv_async_send(&s->poke);
}

void served_close(struct served *s)
{
	s->close_asked = true;
	poke(s, false, true);
}

void served_end_guest(struct served *s)
{
	poke(s, true, false);
}

void served_stop(struct served *s)
{
	if (!s->close_asked)
		served_close(s);
	pthread_join(s->thread, NULL);
	ck_assert(s->is_closed);
	ck_assert_int_eq(uv_loop_close(&s->loop), 0);
	ctl_trace_destroy(s->trace);
	ss_session_destroy(s->session);
	ck_assert_int_eq(s->stops, 0);
	ck_assert_uint_le(s->inside_max, 1);
	ck_assert_int_ne(access(SERVED_PATH, F_OK), 0);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
}

void served_gate(struct served *s, bool closed)
{
	pthread_mutex_lock(&s->lock);
	s->gate_closed = closed;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void served_outcome(struct served *s, bool fail, bool incomplete)
{
	pthread_mutex_lock(&s->lock);
	s->fail = fail;
	s->incomplete = incomplete;
	pthread_mutex_unlock(&s->lock);
}

struct ss_request served_asked(struct served *s)
{
	pthread_mutex_lock(&s->lock);
	struct ss_request asked = s->asked;
	pthread_mutex_unlock(&s->lock);
	return asked;
}

void served_wait_stops(struct served *s, int stops)
{
	pthread_mutex_lock(&s->lock);
	while (s->stops != stops)
		wait_change_locked(s);
	pthread_mutex_unlock(&s->lock);
}

void served_wait_entered(struct served *s, unsigned int captures)
{
	pthread_mutex_lock(&s->lock);
	while (s->entered < captures)
		wait_change_locked(s);
	pthread_mutex_unlock(&s->lock);
}

void served_wait_quits(struct served *s, unsigned int quits)
{
	pthread_mutex_lock(&s->lock);
	while (s->quits < quits)
		wait_change_locked(s);
	pthread_mutex_unlock(&s->lock);
}

/* --- a plain client ------------------------------------------------------------------------------
 */

void peer_connect(struct peer *p, bool raw)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = SERVED_PATH };

	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	p->passed = -1;
	p->len = 0;
	ck_assert_int_eq(connect(p->fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	if (!raw) {
		const char *g = peer_line(p);
		ck_assert_msg(strstr(g, "\"protocol\": 1"), "%s", g);
	}
}

void peer_send(const struct peer *p, const char *text)
{
	size_t len = strlen(text);

	ck_assert_int_eq(send(p->fd, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void keep_fd(struct peer *p, struct msghdr *msg)
{
	const struct cmsghdr *h = CMSG_FIRSTHDR(msg);

	if (!h)
		return;
	ck_assert_int_eq(h->cmsg_type, SCM_RIGHTS);
	if (p->passed >= 0)
		close(p->passed);
	memcpy(&p->passed, CMSG_DATA(h), sizeof(int));
}

const char *peer_line(struct peer *p)
{
	char *newline;

	while (!(newline = memchr(p->line, '\n', p->len))) {
		union {
			char bytes[CMSG_SPACE(sizeof(int))];
			struct cmsghdr align;
		} control;
		struct iovec iov = { p->line + p->len, sizeof(p->line) - p->len };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control.bytes,
				      .msg_controllen = sizeof(control.bytes) };
		struct pollfd poll_fd = { .fd = p->fd, .events = POLLIN };

		ck_assert_int_eq(poll(&poll_fd, 1, SERVED_DEADLINE_S * 1000), 1);
		ssize_t n = recvmsg(p->fd, &msg, MSG_CMSG_CLOEXEC);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return "";
		ck_assert_int_gt(n, 0);
		keep_fd(p, &msg);
		p->len += (size_t)n;
	}
	size_t len = (size_t)(newline - p->line);
	memcpy(p->said, p->line, len);
	p->said[len] = '\0';
	p->len -= len + 1;
	memmove(p->line, newline + 1, p->len);
	return p->said;
}

const char *peer_ask(struct peer *p, const char *request)
{
	peer_send(p, request);
	peer_send(p, "\n");
	return peer_line(p);
}

void peer_wait_status(struct peer *p, const char *what)
{
	for (int i = 0; i < SERVED_DEADLINE_S * 1000; i++) {
		if (strstr(peer_ask(p, PEER_STATUS), what))
			return;
		(void)poll(NULL, 0, 1); /* lets the server come to it */
	}
	ck_abort_msg("the status never said %s", what);
}

void peer_close(struct peer *p)
{
	close(p->fd);
	if (p->passed >= 0)
		close(p->passed);
}
