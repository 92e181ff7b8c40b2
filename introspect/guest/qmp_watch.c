/* SPDX-License-Identifier: Apache-2.0 */
/* The process that lets a guest run again when we cannot. */
#include "introspect/guest/qmp_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/qemu_child.h"
#include "introspect/guest/qemu_wait.h"

/*
 * One word, so that the child takes a deadline and its end in one step. Armed are all other values:
 * the time at which the guest runs again at the latest, or GUEST_NO_DEADLINE.
 */
#define WATCH_OFF  UINT64_C(0)
#define WATCH_DONE UINT64_C(1) /* was armed; the deadline has passed, and "cont" is written */

struct guest_watch_shared {
	/*
	 * Parent and child. Sequentially consistent: the parent's store comes before its "stop";
	 * the child looks after the pipe has closed, which the kernel orders behind both.
	 */
	_Atomic uint64_t armed;
};

/* --- the child ----------------------------------------------------------------------------------
 *
 * Only async-signal-safe calls: the parent may have had threads.
 */

enum { WATCH_QMP = 0, WATCH_PIPE = 1 }; /* its descriptors */

#define WATCH_ID "guestshot-watch"

static bool write_all(const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(WATCH_QMP, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (errno == EAGAIN) {
			GS_IGNORE(guest_wait_for(WATCH_QMP, POLLOUT, GUEST_NO_DEADLINE));
		} else if (errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* Read until the answer with our id is among it, or QEMU has closed. */
static void await_answer(void)
{
	static const char id[] = "\"" WATCH_ID "\"";
	size_t matched = 0;
	char buf[1024];

	while (!guest_wait_for(WATCH_QMP, POLLIN, GUEST_NO_DEADLINE)) {
		ssize_t n = recv(WATCH_QMP, buf, sizeof(buf), MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
		for (ssize_t i = 0; i < n; i++) {
			/* the quote that begins it is nowhere inside of it but at the end */
			matched = buf[i] == id[matched] ? matched + 1 : buf[i] == id[0];
			if (!id[matched])
				return;
		}
	}
}

#define WATCH_CONT "{\"execute\":\"cont\",\"id\":\"" WATCH_ID "\"}\n"

static uint64_t deadline_of(uint64_t armed)
{
	return armed == WATCH_OFF || armed == WATCH_DONE ? GUEST_NO_DEADLINE : armed;
}

/* Until our parent has died; deadlines that pass meanwhile are kept. */
static void keep_deadlines(struct guest_watch_shared *shared)
{
	for (;;) {
		uint64_t armed = atomic_load(&shared->armed);
		char bytes[64];

		if (guest_wait_for(WATCH_PIPE, POLLIN, deadline_of(armed))) {
			/* fails if the parent has changed its mind just now */
			if (atomic_compare_exchange_strong(&shared->armed, &armed, WATCH_DONE))
				GS_IGNORE(write_all(WATCH_CONT, sizeof(WATCH_CONT) - 1));
			continue;
		}
		/* bytes only say that there is another deadline to look at */
		ssize_t n = read(WATCH_PIPE, bytes, sizeof(bytes));
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return;
	}
}

__attribute__((noreturn)) static void watch(struct guest_watch_shared *shared)
{
	static const char command[] = "\xff\n" WATCH_CONT;

	keep_deadlines(shared);
	/* also when that has been done once: it may have met half a command */
	if (atomic_load(&shared->armed) != WATCH_OFF && write_all(command, sizeof(command) - 1))
		await_answer();
	_exit(0);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

enum gs_code guest_watch_start(int qmp_fd, struct guest_watch *watch_out, struct gs_error *err)
{
	int ends[2];
	struct guest_watch w = { .pipe = -1 };

	/* our end must never wait for the child */
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
		int e = errno;
		return gs_fail_errno(err, GS_ENOSPC, e, "make a pipe");
	}
	GS_CLOSE int theirs = ends[0];
	GS_CLOSE int ours = ends[1];
	void *page = mmap(NULL, sizeof(*w.shared), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	w.shared = page;
	atomic_init(&w.shared->armed, WATCH_OFF);
	enum gs_code rc = guest_child_fork(qmp_fd, theirs, "gs-watch", &w.pid, err);
	if (!rc && w.pid == 0)
		watch(w.shared);
	if (rc) {
		munmap(page, sizeof(*w.shared));
		return rc;
	}
	w.pipe = GS_TAKE_FD(ours);
	*watch_out = w;
	return GS_OK;
}

/* Whether the child is there; one that has ended is reaped. */
static bool is_alive(struct guest_watch *w)
{
	return w->pid && waitpid(w->pid, NULL, WNOHANG) == 0;
}

/* Forget it; one that lives sees our end of the pipe close. */
static pid_t drop(struct guest_watch *w)
{
	pid_t pid = w->pid;

	if (!w->shared)
		return 0;
	close(w->pipe);
	munmap(w->shared, sizeof(*w->shared)); /* the child has it mapped itself */
	*w = (struct guest_watch){ .pipe = -1 };
	return pid;
}

enum gs_code guest_watch_arm(struct guest_watch *w, int qmp_fd, uint64_t deadline_ns,
			     struct gs_error *err)
{
	if (!is_alive(w)) {
		(void)drop(w); /* nobody is left to be told of */
		enum gs_code rc = guest_watch_start(qmp_fd, w, err);
		if (rc)
			return rc;
	}
	atomic_store(&w->shared->armed, gs_max(deadline_ns, WATCH_DONE + 1));
	/* it need not wake for none; a full pipe wakes it as well */
	if (deadline_ns != GUEST_NO_DEADLINE)
		GS_IGNORE(write(w->pipe, "", 1) == 1);
	return GS_OK;
}

void guest_watch_disarm(struct guest_watch *w)
{
	if (w->shared)
		atomic_store(&w->shared->armed, WATCH_OFF);
}

bool guest_watch_has_resumed(const struct guest_watch *w)
{
	return w->shared && atomic_load(&w->shared->armed) == WATCH_DONE;
}

pid_t guest_watch_let_go(struct guest_watch *w, int qmp_fd)
{
	uint64_t armed = w->shared ? atomic_load(&w->shared->armed) : WATCH_OFF;

	/* replaces one that has been killed */
	if (armed != WATCH_OFF && guest_watch_arm(w, qmp_fd, armed, NULL))
		return 0;
	return drop(w);
}

void guest_watch_end(struct guest_watch *w, uint64_t deadline_ns)
{
	guest_watch_disarm(w);
	guest_child_reap(drop(w), deadline_ns);
}
