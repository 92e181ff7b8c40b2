/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to QEMU by way of libvirt. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/libvirt_helper.h"
#include "introspect/guest/qemu_child.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/qemu_proc.h"
#include "introspect/guest/qemu_wait.h"
#include "introspect/guest/qmp.h"

#define HELPER_END_NS	  GS_NS_PER_SEC
#define LIBVIRT_RESUME_NS (20 * GS_NS_PER_MS)

/*
 * An answer comes in one go: once its first byte is there, so is the rest, or the helper has been
 * killed in between.
 */
#define ANSWER_REST_NS (5 * GS_NS_PER_SEC)
/* Answers that nobody waits for any more. */
#define LATE_MAX 64

struct libvirt_link {
	struct guest_link link;		    /* first: they point at each other */
	struct guest_libvirt_helper helper; /* fd is -1: lost */
	uint32_t late; /* requests whose answers are still to come and to be skipped */
	bool died;     /* the helper, and not by our doing */
	bool held;     /* suspend() may have stopped the domain */
	struct guest_libvirt_domain domain;
	char *uri;
	pid_t pid; /* of QEMU */
};

static struct libvirt_link *of_link(struct guest_link *l)
{
	return (struct libvirt_link *)l;
}

/* --- talking to the helper ----------------------------------------------------------------------
 */

/* Let go: the helper resumes what is held, when it can, and ends. */
static void leave_helper(struct libvirt_link *l, bool wait)
{
	if (l->helper.fd < 0)
		return;
	close(l->helper.fd);
	munmap(l->helper.peeked, GUEST_LINK_PEEK_MAX); /* it has it mapped itself */
	l->helper.fd = -1;
	l->late = 0;
	if (wait)
		guest_child_reap(l->helper.pid, gs_clock_ns() + HELPER_END_NS);
}

static enum gs_code fail_lost(struct libvirt_link *l, struct gs_error *err)
{
	l->died = true;
	leave_helper(l, true);
	return gs_fail(err, GS_ESYS, "the process that talks to libvirt has died");
}

/* Out of step with it. */
static enum gs_code fail_stuck(struct libvirt_link *l, struct gs_error *err)
{
	leave_helper(l, false);
	return gs_fail(err, GS_ETIMEDOUT, "process %d, which talks to libvirt, does not go on",
		       (int)l->helper.pid);
}

static enum gs_code send_all(struct libvirt_link *l, const void *bytes, size_t len,
			     uint64_t deadline_ns, struct gs_error *err)
{
	const char *at = bytes;

	while (len) {
		ssize_t n = send(l->helper.fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		int e = errno;

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
		} else if (e != EAGAIN && e != EINTR) {
			return fail_lost(l, err);
		} else if (guest_wait_for(l->helper.fd, POLLOUT, deadline_ns)) {
			return fail_stuck(l, err);
		}
	}
	return GS_OK;
}

static enum gs_code receive_all(struct libvirt_link *l, void *bytes, size_t len,
				uint64_t deadline_ns, struct gs_error *err)
{
	char *at = bytes;

	while (len) {
		if (guest_wait_for(l->helper.fd, POLLIN, deadline_ns))
			return fail_stuck(l, err);
		ssize_t n = recv(l->helper.fd, at, len, MSG_DONTWAIT);
		int e = errno;
		if (n == 0 || (n < 0 && e != EAGAIN && e != EINTR))
			return fail_lost(l, err);
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return GS_OK;
}

/* The payload of the next answer, whichever request it is for; a failure's is its text. */
static enum gs_code receive_answer(struct libvirt_link *l, uint64_t deadline_ns,
				   enum gs_code *code_out, char **payload_out, size_t *len_out,
				   struct gs_error *err)
{
	struct guest_libvirt_answer a;

	if (guest_wait_for(l->helper.fd, POLLIN, deadline_ns)) {
		if (++l->late > LATE_MAX)
			return fail_stuck(l, err);
		return gs_fail(err, GS_ETIMEDOUT,
			       "libvirt does not answer: a migration, a backup or a hung QEMU may "
			       "hold the domain (virsh domjobinfo)");
	}
	const uint64_t rest_ns = gs_clock_ns() + ANSWER_REST_NS;
	enum gs_code rc = receive_all(l, &a, sizeof(a), rest_ns, err);
	if (rc)
		return rc;
	if (a.len > GUEST_LIBVIRT_ANSWER_MAX || a.code > GS_ESYS)
		return fail_lost(l, err);
	GS_FREE char *payload = malloc((size_t)a.len + 1);
	if (!payload) {
		leave_helper(l, false); /* out of step with it */
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	rc = receive_all(l, payload, a.len, rest_ns, err);
	if (rc)
		return rc;
	payload[a.len] = '\0';
	*code_out = (enum gs_code)a.code;
	*payload_out = GS_TAKE(payload);
	*len_out = a.len;
	return GS_OK;
}

/*
 * One request and its answer.
 *
 * @param request     op, at and count are the caller's
 * @param answer_out  returned: free it; NULL: not wanted
 * @return GS_ETIMEDOUT: there is none yet; it is skipped when it comes
 */
static enum gs_code ask(struct libvirt_link *l, struct guest_libvirt_request request,
			const void *payload, size_t len, uint64_t deadline_ns, void **answer_out,
			size_t *len_out, struct gs_error *err)
{
	uint64_t now = gs_clock_ns();

	if (l->helper.fd < 0)
		return gs_fail(err, GS_ESYS, "the connection to libvirt is lost");
	if (len > GUEST_LIBVIRT_REQUEST_MAX)
		return gs_fail(err, GS_ETOOBIG, "a request of %zu bytes to libvirt", len);
	request.len = (uint32_t)len;
	request.limit_s = deadline_ns > now
				  ? (uint32_t)gs_min((deadline_ns - now) / GS_NS_PER_SEC, 86400)
				  : 0;
	enum gs_code rc = send_all(l, &request, sizeof(request), deadline_ns, err);
	if (!rc)
		rc = send_all(l, payload, len, deadline_ns, err);
	while (!rc) {
		GS_FREE char *answer = NULL;
		size_t answer_len;
		enum gs_code code;

		rc = receive_answer(l, deadline_ns, &code, &answer, &answer_len, err);
		if (rc)
			break;
		if (l->late) {
			l->late--;
			continue;
		}
		if (code)
			return gs_fail(err, code, "%s", answer);
		if (answer_out) {
			*answer_out = GS_TAKE(answer);
			*len_out = answer_len;
		}
		return GS_OK;
	}
	return rc;
}

static enum gs_code ask_simple(struct libvirt_link *l, enum guest_libvirt_op op,
			       uint64_t deadline_ns, struct gs_error *err)
{
	return ask(l, (struct guest_libvirt_request){ .op = op }, "", 0, deadline_ns, NULL, NULL,
		   err);
}

/* Start a helper and open a domain in it, which is given by name or UUID. */
static enum gs_code open_in_helper(struct libvirt_link *l, const char *domain, uint64_t deadline_ns,
				   struct gs_error *err)
{
	size_t uri_len = strlen(l->uri), domain_len = strlen(domain), len;
	GS_FREE void *answer = NULL;

	if (uri_len > GUEST_LIBVIRT_REQUEST_MAX || domain_len > GUEST_LIBVIRT_REQUEST_MAX)
		return gs_fail(err, GS_EINVAL, "URI or domain: too long a name");
	GS_FREE char *names = malloc(uri_len + domain_len + 2);
	if (!names)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	memcpy(names, l->uri, uri_len + 1);
	memcpy(names + uri_len + 1, domain, domain_len + 1);
	enum gs_code rc = guest_libvirt_helper_start(&l->helper, err);
	if (!rc)
		rc = ask(l, (struct guest_libvirt_request){ .op = GUEST_LIBVIRT_OPEN }, names,
			 uri_len + domain_len + 2, deadline_ns, &answer, &len, err);
	if (rc)
		return rc;
	if (len != sizeof(l->domain))
		return fail_lost(l, err);
	memcpy(&l->domain, answer, len);
	l->domain.uuid[sizeof(l->domain.uuid) - 1] = '\0';
	l->died = false;
	return GS_OK;
}

/* --- the link's operations ----------------------------------------------------------------------
 */

static enum gs_code link_execute(struct guest_link *base, const char *command, json_t *arguments,
				 uint64_t deadline_ns, json_t **value_out, struct gs_error *err)
{
	json_t *object = json_pack("{s:s, s:o*}", "execute", command, "arguments", arguments);
	GS_FREE char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
	GS_FREE void *text = NULL;
	size_t len;
	json_error_t why;

	json_decref(object);
	if (!line)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc =
		ask(of_link(base), (struct guest_libvirt_request){ .op = GUEST_LIBVIRT_COMMAND },
		    line, strlen(line) + 1, deadline_ns, &text, &len, err);
	if (rc)
		return gs_wrap(err, rc, "%s", command);
	json_t *answer = json_loadb(text, strnlen(text, len), JSON_REJECT_DUPLICATES, &why);
	if (!answer)
		return gs_fail(err, GS_EMALFORMED, "%s: libvirt answers no JSON: %s", command,
			       why.text);
	rc = guest_qmp_answer(answer, command, value_out, err);
	json_decref(answer);
	return rc;
}

static enum gs_code ask_running(struct libvirt_link *l, uint64_t deadline_ns, bool *running_out,
				struct gs_error *err)
{
	GS_FREE void *answer = NULL;
	size_t len;
	enum gs_code rc = ask(l, (struct guest_libvirt_request){ .op = GUEST_LIBVIRT_STATE }, "", 0,
			      deadline_ns, &answer, &len, err);

	if (rc)
		return rc;
	*running_out = len == 1 && *(const char *)answer == 1;
	return GS_OK;
}

/* A new helper with a new connection, for the same run of the same domain. */
static enum gs_code open_again(struct libvirt_link *l, uint64_t deadline_ns, struct gs_error *err)
{
	const int32_t id = l->domain.id;

	leave_helper(l, true);
	enum gs_code rc = open_in_helper(l, l->domain.uuid, deadline_ns, err);
	if (!rc && l->domain.id != id) {
		l->domain.id = id;
		leave_helper(l, true);
		return gs_fail(err, GS_ENOENT, "the domain has been started again meanwhile");
	}
	return rc;
}

static enum gs_code link_is_running(struct guest_link *base, uint64_t deadline_ns,
				    bool *running_out, struct gs_error *err)
{
	struct libvirt_link *l = of_link(base);
	enum gs_code rc =
		l->helper.fd < 0 ? GS_ESYS : ask_running(l, deadline_ns, running_out, err);

	/* a daemon that was restarted: nothing is held now that a new connection could harm */
	if (rc && rc != GS_ENOENT && rc != GS_ETIMEDOUT) {
		rc = open_again(l, deadline_ns, err);
		if (!rc)
			rc = ask_running(l, deadline_ns, running_out, err);
	}
	return rc;
}

/* The helper was killed with the domain suspended: another one resumes it. */
static enum gs_code resume_by_another(struct libvirt_link *l, uint64_t deadline_ns,
				      struct gs_error *err)
{
	enum gs_code rc = open_again(l, deadline_ns, err);

	return rc ? rc : ask_simple(l, GUEST_LIBVIRT_RESUME, deadline_ns, err);
}

static enum gs_code link_suspend(struct guest_link *base, uint64_t resume_ns, uint64_t deadline_ns,
				 struct gs_error *err)
{
	struct libvirt_link *l = of_link(base);
	const struct guest_libvirt_request request = {
		.op = GUEST_LIBVIRT_SUSPEND,
		.at = resume_ns,
	};

	l->held = true;
	enum gs_code rc = ask(l, request, "", 0, deadline_ns, NULL, NULL, err);
	if (!rc || (rc == GS_ETIMEDOUT && l->helper.fd >= 0))
		return rc;
	if (l->died) /* a helper that lives sees to it; err keeps what came first */
		(void)resume_by_another(l, deadline_ns, NULL);
	l->held = false;
	return rc;
}

static enum gs_code link_resume(struct guest_link *base, uint64_t deadline_ns, struct gs_error *err)
{
	struct libvirt_link *l = of_link(base);
	enum gs_code rc = gs_fail(err, GS_ESYS, "the connection to libvirt is lost");

	if (l->helper.fd >= 0)
		rc = ask_simple(l, GUEST_LIBVIRT_RESUME, deadline_ns, err);
	if (rc && l->died)
		rc = resume_by_another(l, deadline_ns, err);
	else if (rc && rc != GS_ENOENT && l->helper.fd >= 0) {
		leave_helper(l, false); /* it goes on trying */
		gs_error_prefix(err, rc, "process %d stays to resume the domain when it can",
				(int)l->helper.pid);
	}
	l->held = false;
	return rc;
}

static pid_t link_pid(struct guest_link *base)
{
	return of_link(base)->pid;
}

static enum gs_code link_peek(struct guest_link *base, gpa_t at, void *buf, size_t len,
			      uint64_t deadline_ns, struct gs_error *err)
{
	const struct guest_libvirt_request request = {
		.op = GUEST_LIBVIRT_PEEK,
		.at = at.a,
		.count = (uint32_t)len,
	};
	struct libvirt_link *l = of_link(base);

	if (len > GUEST_LINK_PEEK_MAX)
		return gs_fail(err, GS_EINVAL, "memory peek of %zu bytes", len);
	enum gs_code rc = ask(l, request, "", 0, deadline_ns, NULL, NULL, err);
	if (!rc)
		memcpy(buf, l->helper.peeked, len);
	return rc;
}

static void link_close(struct guest_link *base)
{
	struct libvirt_link *l = of_link(base);

	if (l->held && l->died)
		(void)resume_by_another(l, gs_clock_ns() + HELPER_END_NS * 10, NULL);
	leave_helper(l, true);
	free(l->uri);
	free(l);
}

static const struct guest_link_ops libvirt_link_ops = {
	.execute = link_execute,
	.is_running = link_is_running,
	.suspend = link_suspend,
	.resume = link_resume,
	.pid = link_pid,
	.peek = link_peek,
	.close = link_close,
};

enum gs_code guest_libvirt_link_open(const char *uri, const char *domain, uint64_t deadline_ns,
				     struct guest_link **link_out, struct gs_error *err)
{
	struct libvirt_link *l = calloc(1, sizeof(*l));

	if (!l)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	l->link = (struct guest_link){
		.ops = &libvirt_link_ops,
		.name = "libvirt",
		.resume_ns = LIBVIRT_RESUME_NS,
	};
	l->helper.fd = -1;
	l->uri = strdup(uri ? uri : "");
	if (!l->uri) {
		free(l);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	enum gs_code rc = open_in_helper(l, domain, deadline_ns, err);
	if (rc) {
		link_close(&l->link);
		return rc;
	}
	/* libvirt's QEMU driver has started each QEMU with -uuid since it exists */
	if (l->domain.is_local)
		l->pid = guest_proc_find_by_argument("-uuid", l->domain.uuid);
	*link_out = &l->link;
	return GS_OK;
}
