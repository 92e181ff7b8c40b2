/* SPDX-License-Identifier: Apache-2.0 */
/* Wrapped functions of the C library. */
#include "tests/unit/stackshot/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "tests/unit/stackshot/seam.h"

_Atomic bool trap_set;
_Atomic uint32_t trap_calls;
_Atomic(const char *) trap_first;

void trap_reset(void)
{
	trap_set = false;
	trap_calls = 0;
	trap_first = NULL;
}

static _Thread_local bool armed_here;

void trap_arm(void)
{
	armed_here = true;
	trap_set = true;
}

static bool is_to_wait(const char *name)
{
	return strncmp(name, "pthread_", 8) == 0 || strncmp(name, "sem_", 4) == 0;
}

static enum gs_code arm_at_stop(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_arm();
	return GS_OK;
}

static enum gs_code disarm_at_resume(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_set = false;
	return GS_OK;
}

void trap_while_stopped(struct linux_guest *g)
{
	g->on_stop = arm_at_stop;
	g->on_resume = disarm_at_resume;
}

static void note(const char *name)
{
	if (!atomic_load(&trap_set))
		return;
	if (is_to_wait(name) && !armed_here && !seam_is_helper())
		return;
	if (!atomic_fetch_add(&trap_calls, 1))
		atomic_store(&trap_first, name);
}

/* A wrapped function that only is not to be called. */
#define TRAP(result, name, params, args)   \
	result __real_##name params;       \
	result __wrap_##name params;       \
	result __wrap_##name params        \
	{                                  \
		note(#name);               \
		return __real_##name args; \
	}

/* One that may fail, too, with this value and errno. */
#define TRAP_FAILING(point, code, failed, result, name, params, args) \
	result __real_##name params;                                  \
	result __wrap_##name params;                                  \
	result __wrap_##name params                                   \
	{                                                             \
		note(#name);                                          \
		if (seam_fails(&(point))) {                           \
			errno = code;                                 \
			return failed;                                \
		}                                                     \
		return __real_##name args;                            \
	}
#define ALLOCATION(name, params, args) \
	TRAP_FAILING(seam_allocations, ENOMEM, NULL, void *, name, params, args)

ALLOCATION(malloc, (size_t size), (size))
ALLOCATION(calloc, (size_t n, size_t size), (n, size))
ALLOCATION(realloc, (void *p, size_t size), (p, size))
ALLOCATION(reallocarray, (void *p, size_t n, size_t size), (p, n, size))
ALLOCATION(aligned_alloc, (size_t align, size_t size), (align, size))
ALLOCATION(memalign, (size_t align, size_t size), (align, size))
TRAP_FAILING(seam_allocations, 0, ENOMEM, int, posix_memalign,
	     (void **out, size_t align, size_t size), (out, align, size))
TRAP_FAILING(seam_allocations, ENOMEM, NULL, char *, strdup, (const char *s), (s))
TRAP_FAILING(seam_allocations, ENOMEM, NULL, char *, strndup, (const char *s, size_t n), (s, n))
TRAP_FAILING(seam_allocations, ENOMEM, MAP_FAILED, void *, mmap,
	     (void *at, size_t len, int prot, int flags, int fd, off_t off),
	     (at, len, prot, flags, fd, off))
TRAP_FAILING(seam_allocations, 0, EAGAIN, int, pthread_create,
	     (pthread_t * id, const pthread_attr_t *attr, void *(*run)(void *), void *arg),
	     (id, attr, run, arg))
struct btf;
// what libbpf allocates is its own; of all that it is asked for this is where memory may be short
TRAP_FAILING(seam_allocations, ENOMEM, NULL, struct btf *, btf__new,
	     (const void *data, uint32_t size), (data, size))
TRAP_FAILING(seam_advice, ENOMEM, -1, int, madvise, (void *at, size_t len, int how), (at, len, how))
TRAP_FAILING(seam_advice, ENOMEM, -1, int, mlock, (const void *at, size_t len), (at, len))

TRAP(void, free, (void *p), (p))
TRAP(int, munmap, (void *at, size_t len), (at, len))
TRAP(int, mprotect, (void *at, size_t len, int prot), (at, len, prot))
TRAP(void *, mremap, (void *at, size_t len, size_t more, int flags), (at, len, more, flags))
TRAP(int, brk, (void *end), (end))
TRAP(void *, sbrk, (intptr_t by), (by))
// sorting in the C library may allocate
TRAP(void, qsort, (void *a, size_t n, size_t size, int (*compare)(const void *, const void *)),
     (a, n, size, compare))

TRAP(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
TRAP(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
TRAP(int, pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t), (m, t))
TRAP(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
TRAP(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
TRAP(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
TRAP(int, pthread_spin_lock, (pthread_spinlock_t * l), (l))
TRAP(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
TRAP(int, pthread_cond_timedwait,
     (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t), (c, m, t))
TRAP(int, pthread_cond_signal, (pthread_cond_t * c), (c))
TRAP(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
TRAP(int, pthread_join, (pthread_t id, void **out), (id, out))
TRAP(int, sem_wait, (sem_t * s), (s))
TRAP(int, sem_post, (sem_t * s), (s))

TRAP(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
TRAP(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
TRAP(ssize_t, pread, (int fd, void *buf, size_t n, off_t at), (fd, buf, n, at))
TRAP(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))
TRAP(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
TRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
TRAP(ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))
TRAP(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
TRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
TRAP(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
TRAP(int, close, (int fd), (fd))
TRAP(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
TRAP(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left))

TRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
TRAP(int, fclose, (FILE * f), (f))
TRAP(int, fflush, (FILE * f), (f))
TRAP(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
TRAP(size_t, fread, (void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
TRAP(int, fputs, (const char *s, FILE *f), (s, f))
TRAP(int, fputc, (int c, FILE *f), (c, f))
TRAP(int, puts, (const char *s), (s))
TRAP(int, vprintf, (const char *fmt, va_list ap), (fmt, ap))
TRAP(int, vfprintf, (FILE * f, const char *fmt, va_list ap), (f, fmt, ap))
TRAP(int, vsnprintf, (char *out, size_t size, const char *fmt, va_list ap), (out, size, fmt, ap))
TRAP(int, vasprintf, (char **out, const char *fmt, va_list ap), (out, fmt, ap))

/* Those with arguments without end. */

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;

	note("open");
	va_start(ap, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return __real_open(path, flags, mode);
}

int __wrap_ioctl(int fd, unsigned long request, ...);
int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	note("ioctl");
	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	return __real_ioctl(fd, request, arg);
}

#define FORMAT(name, at, params, real, args)                                    \
	int __wrap_##name params __attribute__((format(printf, at, (at) + 1))); \
	int __wrap_##name params                                                \
	{                                                                       \
		va_list ap;                                                     \
                                                                                \
		note(#name);                                                    \
		va_start(ap, fmt);                                              \
		int n = real args;                                              \
		va_end(ap);                                                     \
		return n;                                                       \
	}

FORMAT(printf, 1, (const char *fmt, ...), __real_vprintf, (fmt, ap))
FORMAT(fprintf, 2, (FILE * f, const char *fmt, ...), __real_vfprintf, (f, fmt, ap))
FORMAT(snprintf, 3, (char *out, size_t size, const char *fmt, ...), __real_vsnprintf,
       (out, size, fmt, ap))
FORMAT(asprintf, 2, (char **out, const char *fmt, ...), __real_vasprintf, (out, fmt, ap))
