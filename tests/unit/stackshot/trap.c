/* SPDX-License-Identifier: Apache-2.0 */
/* Wrapped functions of the C library. */
#include "tests/unit/stackshot/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

_Atomic bool trap_set;
_Atomic uint32_t trap_calls;
_Atomic(const char *) trap_first;
_Atomic uint32_t trap_allocations;
_Atomic uint32_t trap_fail_at;

void trap_reset(void)
{
	trap_set = false;
	trap_calls = 0;
	trap_first = NULL;
	trap_allocations = 0;
	trap_fail_at = 0;
}

static _Thread_local bool armed_here;

void trap_arm(void)
{
	armed_here = true;
	trap_set = true;
}

static void note(const char *name)
{
	if (!atomic_load(&trap_set))
		return;
	if (strncmp(name, "pthread_", 8) == 0 && !armed_here)
		return;
	if (!atomic_fetch_add(&trap_calls, 1))
		atomic_store(&trap_first, name);
}

static bool fails(void)
{
	return atomic_fetch_add(&trap_allocations, 1) + 1 == atomic_load(&trap_fail_at);
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

/* An allocation, which may fail, too. */
#define ALLOCATION(name, params, args)     \
	void *__real_##name params;        \
	void *__wrap_##name params;        \
	void *__wrap_##name params         \
	{                                  \
		note(#name);               \
		if (fails()) {             \
			errno = ENOMEM;    \
			return NULL;       \
		}                          \
		return __real_##name args; \
	}

ALLOCATION(malloc, (size_t size), (size))
ALLOCATION(calloc, (size_t n, size_t size), (n, size))
ALLOCATION(realloc, (void *p, size_t size), (p, size))
ALLOCATION(reallocarray, (void *p, size_t n, size_t size), (p, n, size))
ALLOCATION(aligned_alloc, (size_t align, size_t size), (align, size))

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	note("mmap");
	if (fails()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(at, len, prot, flags, fd, off);
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	note("pthread_create");
	return fails() ? EAGAIN : __real_pthread_create(id, attr, run, arg);
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	note("free");
	__real_free(p);
}

TRAP(int, munmap, (void *at, size_t len), (at, len))
TRAP(int, madvise, (void *at, size_t len, int how), (at, len, how))
TRAP(int, mlock, (const void *at, size_t len), (at, len))
TRAP(int, mprotect, (void *at, size_t len, int prot), (at, len, prot))
TRAP(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
TRAP(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
TRAP(ssize_t, pread, (int fd, void *buf, size_t n, off_t at), (fd, buf, n, at))
TRAP(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))
TRAP(int, close, (int fd), (fd))
TRAP(int, poll, (struct pollfd * p, nfds_t n, int ms), (p, n, ms))
TRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
TRAP(int, fclose, (FILE * f), (f))
TRAP(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f), (p, size, n, f))
TRAP(int, fputs, (const char *s, FILE *f), (s, f))
TRAP(int, vsnprintf, (char *out, size_t size, const char *fmt, va_list ap), (out, size, fmt, ap))
TRAP(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
TRAP(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
TRAP(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
TRAP(int, pthread_cond_signal, (pthread_cond_t * c), (c))
TRAP(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
TRAP(int, pthread_join, (pthread_t id, void **out), (id, out))

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

int __wrap_snprintf(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int __wrap_snprintf(char *out, size_t size, const char *fmt, ...)
{
	va_list ap;

	note("snprintf");
	va_start(ap, fmt);
	int n = __real_vsnprintf(out, size, fmt, ap);
	va_end(ap);
	return n;
}

int __wrap_fprintf(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int __wrap_fprintf(FILE *f, const char *fmt, ...)
{
	va_list ap;

	note("fprintf");
	va_start(ap, fmt);
	int n = vfprintf(f, fmt, ap);
	va_end(ap);
	return n;
}
