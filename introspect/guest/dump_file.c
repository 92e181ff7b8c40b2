/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a dump: opened for reading only, mapped where that works, never trusted to stay. */
#include "introspect/guest/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/dump_guard.h"
#include "introspect/guest/page_cache.h"

/*
 * Reads from here on go past the mapping: the kernel copies large pieces faster than it maps them
 * (a fault for each 64 KiB), and a search through all of the dump does not then count as our memory.
 */
#define DUMP_BULK_BYTES 16384

/*
 * A fault maps what of its neighbourhood is in the page cache: 64 KiB (fault_around_bytes), or a large
 * page of the cache, up to 2 MiB. Reads here and there would soon have mapped the whole dump, and it
 * would count as our memory. So when new places were touched, the process's mapped files are looked
 * at now and then. With more than a little, what was touched is used further, and other places are
 * read through a small cache of our own, which costs the same (10,064 threads out of 4 GiB: 0.15 s
 * either way, with 208 or with 35 MiB).
 */
#define WINDOW_SHIFT   16
#define WINDOWS_A_WORD 64
#define WINDOWS_A_LOOK 32
#define RESIDENT_MAX   (UINT64_C(4) << 20)
#define CACHE_SHIFT    12
#define CACHE_BYTES    ((size_t)4 << 20)

struct guest_dump_resident {
	struct guest_page_cache *cache;
	int fd;		/* the dump */
	int statm;	/* /proc/self/statm */
	uint64_t limit; /* bytes of mapped files */
	atomic_bool full;
	atomic_uint touched;
	_Atomic uint64_t window[]; /* a bit for each that was touched */
};

static enum gs_code check_kind(int fd, const struct stat *st, struct gs_error *err)
{
	struct statfs fs;

	if (S_ISDIR(st->st_mode))
		return gs_fail(err, GS_EINVAL, "is a folder, not a dump");
	if (!S_ISREG(st->st_mode))
		return gs_fail(err, GS_EINVAL,
			       "is a device, pipe or socket: copy the dump into a regular file");
	if (!fstatfs(fd, &fs) && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC))
		return gs_fail(
			err, GS_ENOTSUP,
			"belongs to the kernel of this machine, which is never examined: only "
			"guests are (copy /proc/vmcore to a file first)");
	if (st->st_size <= 0)
		return gs_fail(err, GS_EMALFORMED, "is empty: no dump was written, or not yet");
	return GS_OK;
}

enum gs_code guest_dump_file_adopt(int fd, struct guest_dump_file *file_out, struct gs_error *err)
{
	struct stat st;

	if (fstat(fd, &st)) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "look at it");
	}
	enum gs_code rc = check_kind(fd, &st, err);
	if (rc)
		return rc;
	*file_out = (struct guest_dump_file){ .fd = fd, .size = (uint64_t)st.st_size };
	return GS_OK;
}

enum gs_code guest_dump_file_open(const char *path, struct guest_dump_file *file_out,
				  struct gs_error *err)
{
	// Non-blocking: the open of a pipe without a writer would wait for one.
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open");
	}
	enum gs_code rc = guest_dump_file_adopt(fd, file_out, err);
	if (!rc)
		(void)GS_TAKE_FD(fd);
	return rc;
}

static size_t window_words(const struct guest_dump_file *f)
{
	return (size_t)((f->size >> WINDOW_SHIFT) / WINDOWS_A_WORD + 1);
}

/* Bytes of files that are mapped here and in memory; UINT64_MAX if that cannot be known. */
static uint64_t resident_bytes(int statm)
{
	char text[128];
	unsigned long shared; // the third: size, all of it, that of files (proc(5))
	ssize_t n = pread(statm, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	if (sscanf(text, "%*s %*s %lu", &shared) != 1)
		return UINT64_MAX;
	return (uint64_t)shared * (uint64_t)sysconf(_SC_PAGESIZE);
}

static enum gs_code read_all(int fd, uint64_t offset, char *buf, size_t len)
{
	while (len) {
		ssize_t n = pread(fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return GS_EFAULT; // 0: cut off by now
		buf += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return GS_OK;
}

/* The cache's pages are the file's: an offset takes the place of the address. */
static enum gs_code cache_fill(void *priv, gpa_t page, void *buf)
{
	const struct guest_dump_resident *r = priv;

	return read_all(r->fd, page.a, buf, (size_t)1 << CACHE_SHIFT);
}

static void resident_destroy(struct guest_dump_resident *r)
{
	if (!r)
		return;
	guest_page_cache_destroy(r->cache);
	if (r->statm >= 0)
		close(r->statm);
	free(r);
}

static struct guest_dump_resident *resident_create(const struct guest_dump_file *f)
{
	struct guest_dump_resident *r =
		calloc(1, sizeof(*r) + window_words(f) * sizeof(r->window[0]));

	if (!r)
		return NULL;
	r->fd = f->fd;
	r->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	uint64_t now = resident_bytes(r->statm);
	// Unknown (no /proc): the first look then finds too much.
	r->limit = now == UINT64_MAX ? 0 : now + RESIDENT_MAX;
	r->cache = guest_page_cache_create(CACHE_SHIFT, CACHE_BYTES, cache_fill, r);
	if (!r->cache) {
		resident_destroy(r);
		return NULL;
	}
	return r;
}

void guest_dump_file_close(struct guest_dump_file *f)
{
	if (f->map)
		munmap((void *)(uintptr_t)f->map, (size_t)f->size);
	resident_destroy(f->resident);
	if (f->size)
		close(f->fd);
	*f = (struct guest_dump_file){ .fd = -1 };
}

void guest_dump_file_map(struct guest_dump_file *f)
{
	struct guest_dump_resident *resident = resident_create(f);

	if (!resident)
		return; // no memory: read() does it
	void *map = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, f->fd, 0);
	if (map == MAP_FAILED) { // no address space, or a file system without: read() does it
		resident_destroy(resident);
		return;
	}
	guest_guard_install();
	(void)madvise(map, (size_t)f->size, MADV_DONTDUMP); /* a hint */
	f->map = map;
	f->resident = resident;
}

/* Whether the mapping may be used there. */
static bool touch(struct guest_dump_resident *r, uint64_t offset)
{
	uint64_t window = offset >> WINDOW_SHIFT;
	_Atomic uint64_t *word = &r->window[window / WINDOWS_A_WORD];
	uint64_t bit = UINT64_C(1) << (window % WINDOWS_A_WORD);

	// Relaxed throughout: counts, that publish nothing.
	if (atomic_load_explicit(word, memory_order_relaxed) & bit)
		return true;
	if (atomic_load_explicit(&r->full, memory_order_relaxed))
		return false;
	if (atomic_fetch_or_explicit(word, bit, memory_order_relaxed) & bit)
		return true;
	unsigned int before = atomic_fetch_add_explicit(&r->touched, 1, memory_order_relaxed);
	if (before % WINDOWS_A_LOOK == WINDOWS_A_LOOK - 1 && resident_bytes(r->statm) >= r->limit)
		atomic_store_explicit(&r->full, true, memory_order_relaxed);
	return true;
}

/* A page of the cache that reaches beyond the file's end could not be filled. */
static bool is_cacheable(const struct guest_dump_file *f, uint64_t offset, size_t len)
{
	return offset + len <= (f->size & ~((UINT64_C(1) << CACHE_SHIFT) - 1));
}

enum gs_code guest_dump_file_read(const struct guest_dump_file *f, uint64_t offset, void *buf,
				  size_t len)
{
	if (!gs_in_range(offset, len, 0, f->size))
		return GS_EFAULT;
	if (!f->map || len >= DUMP_BULK_BYTES)
		return read_all(f->fd, offset, buf, len);
	if (!len)
		return GS_OK;
	if (touch(f->resident, offset) && touch(f->resident, offset + len - 1))
		return guest_guard_copy(buf, (const char *)f->map + offset, len) ? GS_OK
										 : GS_EFAULT;
	if (is_cacheable(f, offset, len))
		return guest_page_cache_read(f->resident->cache, GPA(offset), buf, len);
	return read_all(f->fd, offset, buf, len);
}

bool guest_dump_file_next_data(const struct guest_dump_file *f, uint64_t from, uint64_t end,
			       uint64_t *start_out, uint64_t *end_out)
{
	end = gs_min(end, f->size);
	if (from >= end)
		return false;

	off_t data = lseek(f->fd, (off_t)from, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		return false;
	// Any other failure is a file system without holes: all of it is data.
	uint64_t start = data < 0 ? from : (uint64_t)data;
	if (start >= end)
		return false;

	off_t hole = lseek(f->fd, (off_t)start, SEEK_HOLE);
	*start_out = start;
	*end_out = hole < 0 || (uint64_t)hole <= start ? end : gs_min((uint64_t)hole, end);
	return true;
}
