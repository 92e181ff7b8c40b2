/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a dump: opened for reading only, mapped where that works, never trusted to stay. */
#include "introspect/guest/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/dump_guard.h"

/*
 * Reads from here on go past the mapping: the kernel copies large pieces faster than it maps them
 * (a fault for each 64 KiB), and a search through all of the dump does not then count as our memory.
 */
#define DUMP_BULK_BYTES 16384

static enum gs_code check_kind(int fd, const struct stat *st, struct gs_error *err)
{
	struct statfs fs;

	if (S_ISDIR(st->st_mode))
		return gs_fail(err, GS_EINVAL, "is a folder, not a dump");
	if (!S_ISREG(st->st_mode))
		return gs_fail(err, GS_EINVAL,
			       "is a device, pipe or socket: copy the dump into a regular file");
	if (!fstatfs(fd, &fs) && (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC))
		return gs_fail(err, GS_ENOTSUP,
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

void guest_dump_file_close(struct guest_dump_file *f)
{
	if (f->map)
		munmap((void *)(uintptr_t)f->map, (size_t)f->size);
	if (f->size)
		close(f->fd);
	*f = (struct guest_dump_file){ .fd = -1 };
}

void guest_dump_file_map(struct guest_dump_file *f)
{
	void *map = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, f->fd, 0);

	if (map == MAP_FAILED)
		return; // no address space, or a file system without: read() does it
	guest_guard_install();
	(void)madvise(map, (size_t)f->size, MADV_DONTDUMP); /* a hint */
	f->map = map;
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

enum gs_code guest_dump_file_read(const struct guest_dump_file *f, uint64_t offset, void *buf,
				  size_t len)
{
	if (!gs_in_range(offset, len, 0, f->size))
		return GS_EFAULT;
	if (!f->map || len >= DUMP_BULK_BYTES)
		return read_all(f->fd, offset, buf, len);
	return guest_guard_copy(buf, (const char *)f->map + offset, len) ? GS_OK : GS_EFAULT;
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
