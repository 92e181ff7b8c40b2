/* SPDX-License-Identifier: Apache-2.0 */
/* The process that talks to libvirt for us; the only file that knows libvirt. */
#include "introspect/guest/libvirt_helper.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/qemu_child.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/qemu_wait.h"

/* How often, and how long apart, the resume of a dead parent's domain is tried: an hour. */
#define HELPER_RESUME_TRIES 3600
#define HELPER_RESUME_S	    1
/* Beyond the time that the parent waits, before a call that holds nothing is given up. */
#define HELPER_GRACE_S 60

/* --- libvirt ------------------------------------------------------------------------------------
 *
 * As libvirt's public headers declare it; the ABI is promised to stay (libvirt.org/support.html).
 * Declared here so that the build needs no libvirt.
 */

/* virDomainState */
enum { DOMAIN_RUNNING = 1, DOMAIN_BLOCKED = 2, DOMAIN_SHUTOFF = 5, DOMAIN_CRASHED = 6 };
enum { ERROR_NO_DOMAIN = 42 };	/* virErrorNumber */
enum { MEMORY_PHYSICAL = 2 };	/* virDomainMemoryFlags */
enum { UUID_STRING_SIZE = 37 }; /* VIR_UUID_STRING_BUFLEN */

struct libvirt {
	void *(*open)(const char *uri);
	char *(*get_uri)(void *conn);
	const char *(*get_type)(void *conn);
	int (*close)(void *conn);
	void *(*lookup_name)(void *conn, const char *name);
	void *(*lookup_uuid)(void *conn, const char *uuid);
	int (*uuid_string)(void *domain, char *buf);
	unsigned int (*id)(void *domain); /* as of the look-up; -1: not running */
	int (*domain_free)(void *domain);
	int (*state)(void *domain, int *state, int *reason, unsigned int flags);
	int (*suspend)(void *domain);
	int (*resume)(void *domain);
	int (*peek)(void *domain, unsigned long long start, size_t size, void *buf,
		    unsigned int flags);
	const char *(*last_error)(void);
	int (*last_error_code)(void);
	void (*set_error_func)(void *arg, void (*func)(void *arg, void *error));
	int (*monitor)(void *domain, const char *command, char **result, unsigned int flags);
};

struct helper {
	struct libvirt lv;
	char uri[1024]; /* "": the default */
	char uuid[UUID_STRING_SIZE];
	int32_t id;
	void *conn, *domain;
	bool held;	    /* the domain is suspended by us, or may be */
	uint64_t resume_ns; /* when it is resumed unasked; GUEST_NO_DEADLINE: never */
	bool resumed;	    /* it has been, and nobody has asked yet */
	void *peeked;	    /* shared with the parent */
	char text[GS_ERROR_TEXT_MAX];
	struct gs_error err;
};

static void ignore_error(void *arg, void *error)
{
	(void)arg;
	(void)error; /* fetched by virGetLastErrorMessage(); the default prints */
}

static bool load_symbols(struct helper *h, void *libvirt, void *qemu)
{
	const struct {
		void *library;
		const char *name;
		void *place;
	} symbols[] = {
		{ libvirt, "virConnectOpen", &h->lv.open },
		{ libvirt, "virConnectGetURI", &h->lv.get_uri },
		{ libvirt, "virConnectGetType", &h->lv.get_type },
		{ libvirt, "virConnectClose", &h->lv.close },
		{ libvirt, "virDomainLookupByName", &h->lv.lookup_name },
		{ libvirt, "virDomainLookupByUUIDString", &h->lv.lookup_uuid },
		{ libvirt, "virDomainGetUUIDString", &h->lv.uuid_string },
		{ libvirt, "virDomainGetID", &h->lv.id },
		{ libvirt, "virDomainFree", &h->lv.domain_free },
		{ libvirt, "virDomainGetState", &h->lv.state },
		{ libvirt, "virDomainSuspend", &h->lv.suspend },
		{ libvirt, "virDomainResume", &h->lv.resume },
		{ libvirt, "virDomainMemoryPeek", &h->lv.peek },
		{ libvirt, "virGetLastErrorMessage", &h->lv.last_error },
		{ libvirt, "virGetLastErrorCode", &h->lv.last_error_code },
		{ libvirt, "virSetErrorFunc", &h->lv.set_error_func },
		{ qemu, "virDomainQemuMonitorCommand", &h->lv.monitor },
	};

	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *address = dlsym(symbols[i].library, symbols[i].name);
		if (!address)
			return false;
		memcpy(symbols[i].place, &address, sizeof(address));
	}
	return true;
}

static enum gs_code load(struct helper *h)
{
	void *libvirt = dlopen("libvirt.so.0", RTLD_NOW | RTLD_LOCAL);
	void *qemu = libvirt ? dlopen("libvirt-qemu.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!libvirt || !qemu)
		return gs_fail(&h->err, GS_ENOTSUP,
			       "libvirt's client library is not installed (Debian: libvirt0): %s",
			       dlerror());
	if (!load_symbols(h, libvirt, qemu))
		return gs_fail(&h->err, GS_ENOTSUP, "this libvirt lacks a function: %s", dlerror());
	h->lv.set_error_func(NULL, ignore_error);
	return GS_OK;
}

/* --- the domain ---------------------------------------------------------------------------------
 */

static enum gs_code fail_libvirt(struct helper *h, enum gs_code code, const char *what)
{
	return gs_fail(&h->err, code, "%s: %.300s", what, h->lv.last_error());
}

static enum gs_code connect_daemon(struct helper *h)
{
	h->conn = h->lv.open(h->uri[0] ? h->uri : NULL);
	if (!h->conn)
		return fail_libvirt(h, GS_EDENIED,
				    "connect to libvirt (qemu:///system needs root or the group "
				    "libvirt)");
	const char *type = h->lv.get_type(h->conn);
	if (!type || strcmp(type, "QEMU") != 0)
		return gs_fail(&h->err, GS_ENOTSUP, "libvirt drives %.40s there, not QEMU",
			       type ? type : "something");
	return GS_OK;
}

/* A URI with a host or a transport ("qemu+ssh://host/system") leads to another host, or may. */
static bool is_local_uri(const char *uri)
{
	const char *colon = strstr(uri, "://");

	return colon && colon[3] == '/' && !memchr(uri, '+', (size_t)(colon - uri));
}

static enum gs_code open_domain(struct helper *h, const char *name,
				struct guest_libvirt_domain *domain_out)
{
	int state, reason;
	enum gs_code rc = load(h);

	if (!rc)
		rc = connect_daemon(h);
	if (rc)
		return rc;
	h->domain = h->lv.lookup_name(h->conn, name);
	if (!h->domain)
		h->domain = h->lv.lookup_uuid(h->conn, name);
	if (!h->domain || h->lv.uuid_string(h->domain, h->uuid))
		return gs_fail(&h->err, GS_ENOENT, "libvirt has no domain %s", name);
	if (h->lv.state(h->domain, &state, &reason, 0))
		return fail_libvirt(h, GS_EBUSY, "state of the domain");
	if (state == DOMAIN_SHUTOFF)
		return gs_fail(&h->err, GS_ENOENT, "domain %s is shut off", name);
	h->id = (int32_t)h->lv.id(h->domain);
	memcpy(domain_out->uuid, h->uuid, sizeof(h->uuid));
	domain_out->id = h->id;
	char *uri = h->lv.get_uri(h->conn);
	domain_out->is_local = uri && is_local_uri(uri);
	free(uri);
	return GS_OK;
}

static enum gs_code is_running(struct helper *h, bool *running_out)
{
	int state, reason;

	if (h->lv.state(h->domain, &state, &reason, 0))
		return fail_libvirt(h, GS_EBUSY, "state of the domain");
	*running_out = state == DOMAIN_RUNNING || state == DOMAIN_BLOCKED;
	return GS_OK;
}

/* Whether the domain is still the one that was opened; what we have of it is as of then. */
static enum gs_code check_same(struct helper *h)
{
	void *domain = h->lv.lookup_uuid(h->conn, h->uuid);

	if (!domain)
		return fail_libvirt(
			h, h->lv.last_error_code() == ERROR_NO_DOMAIN ? GS_ENOENT : GS_EBUSY,
			"look the domain up");
	int32_t id = (int32_t)h->lv.id(domain);
	h->lv.domain_free(domain);
	return id == h->id ? GS_OK
			   : gs_fail(&h->err, GS_ENOENT,
				     "the domain has ended, or been started again meanwhile");
}

static enum gs_code suspend(struct helper *h, uint64_t resume_ns)
{
	bool running;

	h->held = true; /* from before the call: it may take effect and still fail */
	h->resumed = false;
	h->resume_ns = resume_ns;
	if (!h->lv.suspend(h->domain))
		return GS_OK;
	enum gs_code rc = fail_libvirt(h, GS_EBUSY, "suspend");
	struct gs_error first = h->err;
	if (!is_running(h, &running) && running)
		h->held = false;
	h->err = first;
	return rc;
}

/* Whether there is nothing left to be resumed. */
static bool is_gone(struct helper *h)
{
	int state, reason;

	if (check_same(h) == GS_ENOENT)
		return true;
	return !h->lv.state(h->domain, &state, &reason, 0) &&
	       (state == DOMAIN_SHUTOFF || state == DOMAIN_CRASHED);
}

static enum gs_code resume(struct helper *h)
{
	bool running = false;

	if (h->resumed) { /* somebody else may have paused it since */
		h->resumed = false;
		return GS_OK;
	}
	if (h->lv.resume(h->domain)) {
		enum gs_code rc = fail_libvirt(h, GS_EBUSY, "resume");
		struct gs_error first = h->err;
		if (is_running(h, &running) || !running) {
			h->held = !is_gone(h);
			h->err = first;
			return h->held ? rc : GS_ENOENT;
		}
	}
	h->held = false;
	return GS_OK;
}

/* --- requests -----------------------------------------------------------------------------------
 */

enum { HELPER_FD = 0 };

/* @return false: the parent has gone */
static bool read_all(void *buf, size_t len)
{
	char *at = buf;

	while (len) {
		ssize_t n = read(HELPER_FD, at, len);
		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return true;
}

static bool write_all(const void *buf, size_t len)
{
	const char *at = buf;

	while (len) {
		ssize_t n = send(HELPER_FD, at, len, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return true;
}

static bool answer(enum gs_code code, const void *payload, size_t len)
{
	const struct guest_libvirt_answer a = { .code = code, .len = (uint32_t)len };

	return write_all(&a, sizeof(a)) && write_all(payload, len);
}

static bool answer_code(struct helper *h, enum gs_code code)
{
	if (!code)
		return answer(code, "", 0);
	return answer(code, h->err.text, strlen(h->err.text) + 1);
}

static bool serve_open(struct helper *h, const char *payload, size_t len)
{
	struct guest_libvirt_domain domain = { 0 };
	size_t uri_len = strnlen(payload, len);

	if (uri_len >= sizeof(h->uri) || uri_len + 2 > len || payload[len - 1])
		return answer_code(h, gs_fail(&h->err, GS_EINVAL, "URI too long"));
	memcpy(h->uri, payload, uri_len + 1);
	enum gs_code rc = open_domain(h, payload + uri_len + 1, &domain);
	return rc ? answer_code(h, rc) : answer(GS_OK, &domain, sizeof(domain));
}

static bool serve_command(struct helper *h, const char *payload, size_t len)
{
	char *result = NULL;

	if (!len || payload[len - 1])
		return answer_code(h, gs_fail(&h->err, GS_EINVAL, "no command"));
	if (h->lv.monitor(h->domain, payload, &result, 0) || !result)
		return answer_code(h, fail_libvirt(h, GS_EBUSY, "monitor command by libvirt"));
	size_t size = strlen(result) + 1;
	bool ok = size <= GUEST_LIBVIRT_ANSWER_MAX
			  ? answer(GS_OK, result, size)
			  : answer_code(h, gs_fail(&h->err, GS_ETOOBIG, "too long an answer"));
	free(result);
	return ok;
}

static bool serve_state(struct helper *h)
{
	bool running = false;
	enum gs_code rc = check_same(h);

	if (!rc)
		rc = is_running(h, &running);
	const char byte = running;

	return rc ? answer_code(h, rc) : answer(GS_OK, &byte, 1);
}

static bool serve_peek(struct helper *h, uint64_t at, uint32_t count)
{
	if (count > GUEST_LINK_PEEK_MAX)
		return answer_code(h, gs_fail(&h->err, GS_EINVAL, "too much"));
	if (h->resumed)
		return answer_code(h, gs_fail(&h->err, GS_ETIMEDOUT, "the time is over"));
	if (h->lv.peek(h->domain, at, count, h->peeked, MEMORY_PHYSICAL))
		return answer_code(h, fail_libvirt(h, GS_EFAULT, "memory peek"));
	return answer(GS_OK, "", 0);
}

/* @return false: the parent has gone */
static bool serve(struct helper *h, const struct guest_libvirt_request *r, const char *payload)
{
	h->err = (struct gs_error){ 0 };
	if (r->op != GUEST_LIBVIRT_OPEN && !h->domain)
		return answer_code(h, gs_fail(&h->err, GS_EINVAL, "no domain is open"));
	switch ((enum guest_libvirt_op)r->op) {
	case GUEST_LIBVIRT_OPEN: return serve_open(h, payload, r->len);
	case GUEST_LIBVIRT_COMMAND: return serve_command(h, payload, r->len);
	case GUEST_LIBVIRT_STATE: return serve_state(h);
	case GUEST_LIBVIRT_SUSPEND: return answer_code(h, suspend(h, r->at));
	case GUEST_LIBVIRT_RESUME: return answer_code(h, resume(h));
	case GUEST_LIBVIRT_PEEK: return serve_peek(h, r->at, r->count);
	}
	return answer_code(h, gs_fail(&h->err, GS_EINVAL, "unknown request"));
}

/* The connection may be what is broken: a restarted daemon keeps its domains. */
static void connect_again(struct helper *h)
{
	void *conn = h->lv.open(h->uri[0] ? h->uri : NULL);
	void *domain = conn ? h->lv.lookup_uuid(conn, h->uuid) : NULL;

	if (domain) {
		h->lv.domain_free(h->domain);
		h->lv.close(h->conn);
		h->conn = conn;
		h->domain = domain;
	} else if (conn) {
		h->lv.close(conn);
	}
}

/* The parent has gone, and its domain stands: until it runs, or nobody could make it run. */
static void resume_at_last(struct helper *h)
{
	const struct timespec pause = { .tv_sec = HELPER_RESUME_S };

	for (uint32_t i = 0; h->held && i < HELPER_RESUME_TRIES; i++) {
		if (!resume(h))
			return;
		nanosleep(&pause, NULL);
		connect_again(h);
	}
}

/* Wait for a request; a domain whose deadline passes meanwhile is resumed. */
static void await_request(struct helper *h)
{
	while (guest_wait_for(HELPER_FD, POLLIN, h->held ? h->resume_ns : GUEST_NO_DEADLINE)) {
		if (!resume(h)) {
			h->resumed = true;
			return;
		}
		connect_again(h);
		h->resume_ns = gs_clock_ns() + HELPER_RESUME_S * GS_NS_PER_SEC;
	}
}

static bool next_request(struct helper *h, struct guest_libvirt_request *r, char *payload)
{
	await_request(h);
	return read_all(r, sizeof(*r)) && r->len <= GUEST_LIBVIRT_REQUEST_MAX &&
	       read_all(payload, r->len);
}

__attribute__((noreturn)) static void helper_main(void *peeked)
{
	static struct helper h;
	static char payload[GUEST_LIBVIRT_REQUEST_MAX];
	struct guest_libvirt_request r;
	sigset_t set;

	/* a call that nobody waits for any more and that holds nothing may end us */
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	h.peeked = peeked;
	while (next_request(&h, &r, payload)) {
		if (!h.held && r.op != GUEST_LIBVIRT_SUSPEND)
			alarm((unsigned int)gs_min(r.limit_s, 86400) + HELPER_GRACE_S);
		bool go_on = serve(&h, &r, payload);
		alarm(0);
		if (!go_on)
			break;
	}
	resume_at_last(&h);
	_exit(0);
}

enum gs_code guest_libvirt_helper_start(struct guest_libvirt_helper *helper_out,
					struct gs_error *err)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		int e = errno;
		return gs_fail_errno(err, GS_ENOSPC, e, "make a socket");
	}
	GS_CLOSE int ours = ends[0];
	GS_CLOSE int theirs = ends[1];
	void *peeked = mmap(NULL, GUEST_LINK_PEEK_MAX, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (peeked == MAP_FAILED)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = guest_child_fork(theirs, -1, "gs-libvirt", &pid, err);
	if (!rc && pid == 0)
		helper_main(peeked);
	if (rc) {
		munmap(peeked, GUEST_LINK_PEEK_MAX);
		return rc;
	}
	*helper_out = (struct guest_libvirt_helper){
		.fd = GS_TAKE_FD(ours),
		.pid = pid,
		.peeked = peeked,
	};
	return GS_OK;
}
