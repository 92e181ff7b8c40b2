/* SPDX-License-Identifier: Apache-2.0 */
/* Another process's memory on this host, by way of /proc. */
#include "introspect/guest/qemu_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/util.h"

#define PROC_MAPPINGS_MAX    65536 /* vm.max_map_count's default is 65530 */
#define PROC_FDS_MAX	     65536
#define PROC_PROCESSES_MAX   4194304 /* PID_MAX_LIMIT */
#define PROC_CMDLINE_MAX     65536   /* libvirt's command lines have some thousands of bytes */
#define PROC_PAGEMAP_ENTRIES 128

/* --- what is mapped where -----------------------------------------------------------------------
 */

struct mapping {
	uint64_t start, end, offset;
	bool shared;
	dev_t dev;
	ino_t ino;
	const char *path; /* in the line */
};

/* A line of /proc/PID/maps, see proc(5). */
static bool parse_mapping(char *line, struct mapping *m)
{
	unsigned int major_no, minor_no;
	char sharing;
	unsigned long ino;
	int path_at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*1[r-]%*1[w-]%*1[x-]%c %" SCNx64 " %x:%x %lu %n",
		   &m->start, &m->end, &sharing, &m->offset, &major_no, &minor_no, &ino,
		   &path_at) != 7 ||
	    !path_at || m->end <= m->start)
		return false;
	m->shared = sharing == 's';
	m->dev = makedev(major_no, minor_no);
	m->ino = ino;
	m->path = line + path_at;
	line[path_at + strcspn(line + path_at, "\n")] = '\0';
	return true;
}

static void backing_begin(struct guest_proc_backing *b, const struct mapping *m, uint64_t address)
{
	*b = (struct guest_proc_backing){
		.shared_file = m->shared && m->ino,
		.anonymous = !m->shared && !m->ino,
		.offset = m->offset + (address - m->start),
		.first_start = m->start,
		.first_end = m->end,
		.dev = m->dev,
		.ino = m->ino,
	};
	if (strlen(m->path) < sizeof(b->path))
		strcpy(b->path, m->path);
}

/* A further mapping at @p at, @p done bytes into the stretch: the same file, going on? */
static bool goes_on(const struct guest_proc_backing *b, const struct mapping *m, uint64_t at,
		    uint64_t done)
{
	return m->shared && m->dev == b->dev && m->ino == b->ino &&
	       m->offset + (at - m->start) == b->offset + done;
}

static enum gs_code read_mappings(FILE *maps, uint64_t address, uint64_t size,
				  struct guest_proc_backing *b, struct gs_error *err)
{
	GS_FREE char *line = NULL;
	size_t room = 0;
	uint64_t done = 0;
	struct mapping m;

	for (uint32_t i = 0; i < PROC_MAPPINGS_MAX && getline(&line, &room, maps) > 0; i++) {
		uint64_t at = address + done;

		if (!parse_mapping(line, &m) || m.end <= at)
			continue;
		if (m.start > at)
			break;
		if (!done)
			backing_begin(b, &m, address);
		else if (!goes_on(b, &m, at, done))
			b->shared_file = false;
		b->anonymous = b->anonymous && !m.shared && !m.ino;
		if (m.end - at >= size - done)
			return GS_OK;
		done += m.end - at;
	}
	return gs_fail(err, GS_EFAULT, "not all of %#" PRIx64 "+%#" PRIx64 " is mapped", address,
		       size);
}

enum gs_code guest_proc_backing_find(pid_t pid, uint64_t address, uint64_t size,
				     struct guest_proc_backing *backing_out, struct gs_error *err)
{
	char path[64];

	if (!size || size - 1 > ~address)
		return gs_fail(err, GS_EFAULT, "%#" PRIx64 "+%#" PRIx64 " wraps", address, size);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	FILE *maps = fopen(path, "re");
	if (!maps) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "%s", path);
	}
	enum gs_code rc = read_mappings(maps, address, size, backing_out, err);
	if (rc && ferror(maps)) /* opened but not readable: what ptrace may not see */
		rc = gs_fail(err, GS_EDENIED, "%s cannot be read", path);
	fclose(maps);
	return rc;
}

/* --- the file behind it -------------------------------------------------------------------------
 */

static bool is_backing(int fd, const struct guest_proc_backing *b)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_ino == b->ino && st.st_dev == b->dev;
}

/* Open @p path if it is the file. */
static int open_if(const char *path, const struct guest_proc_backing *b)
{
	/* never a fifo's other end or a device that acts on being opened */
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || !is_backing(fd, b))
		return -1;
	return GS_TAKE_FD(fd);
}

/* One of its descriptors that is this file; also where the file's name is gone, as a memfd's is. */
static int open_descriptor(pid_t pid, const struct guest_proc_backing *b)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(folder);
	if (!dir)
		return -1;
	int fd = -1;
	const struct dirent *entry;
	for (uint32_t i = 0; fd < 0 && i < PROC_FDS_MAX && (entry = readdir(dir)); i++) {
		char path[sizeof(folder) + sizeof(entry->d_name) + 1];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		if (!stat(path, &st) && st.st_ino == b->ino && st.st_dev == b->dev)
			fd = open_if(path, b);
	}
	closedir(dir);
	return fd;
}

enum gs_code guest_proc_backing_open(pid_t pid, const struct guest_proc_backing *b, int *fd_out,
				     struct gs_error *err)
{
	char path[64 + sizeof(b->path)];

	/* exact, but for root only (CAP_CHECKPOINT_RESTORE): no comparison is needed */
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid,
		 b->first_start, b->first_end);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && b->path[0] == '/') {
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, b->path);
		fd = open_if(path, b);
	}
	if (fd < 0 && b->path[0] == '/')
		fd = open_if(b->path, b);
	if (fd < 0)
		fd = open_descriptor(pid, b);
	if (fd < 0)
		return gs_fail(err, GS_EDENIED, "%s cannot be opened", b->path);
	*fd_out = fd;
	return GS_OK;
}

/* --- what has been touched ----------------------------------------------------------------------
 */

/* Documentation/admin-guide/mm/pagemap.rst: 63 present, 62 swapped, 61 file or shared. */
static bool is_touched(uint64_t entry)
{
	return BITS(entry, 63, 62) != 0;
}

bool guest_proc_next_touched(int pagemap_fd, uint64_t from, uint64_t end, uint64_t *start_out,
			     uint64_t *end_out)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t entries[PROC_PAGEMAP_ENTRIES];
	bool found = false;

	for (uint64_t at = from & ~(page - 1); at < end;) {
		uint64_t wanted = gs_min((end - at + page - 1) / page, PROC_PAGEMAP_ENTRIES);
		ssize_t got = pread(pagemap_fd, entries, wanted * sizeof(*entries),
				    (off_t)(at / page * sizeof(*entries)));
		if (got < (ssize_t)sizeof(*entries)) { /* cannot tell: all of the rest */
			*start_out = found ? *start_out : gs_max(at, from);
			*end_out = end;
			return true;
		}
		for (size_t i = 0; i < (size_t)got / sizeof(*entries); i++, at += page) {
			bool touched = is_touched(entries[i]);

			if (touched && !found)
				*start_out = gs_max(at, from);
			else if (!touched && found) {
				*end_out = gs_min(at, end);
				return true;
			}
			found = touched;
		}
	}
	*end_out = end;
	return found;
}

/* --- permission ---------------------------------------------------------------------------------
 */

static int read_digit(const char *path)
{
	char c = 0;
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, &c, 1) != 1 || c < '0' || c > '9')
		return -1;
	return c - '0';
}

void guest_proc_explain_denial(pid_t pid, char *text_out, size_t size)
{
	char path[64];
	struct stat st;
	int scope = read_digit("/proc/sys/kernel/yama/ptrace_scope");

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (stat(path, &st))
		snprintf(text_out, size, "process %d is not visible here", (int)pid);
	else if (geteuid() != 0 && st.st_uid != geteuid())
		snprintf(text_out, size,
			 "QEMU's process %d belongs to user %u: run as root or as that user",
			 (int)pid, (unsigned int)st.st_uid);
	else if (scope == 3)
		snprintf(text_out, size, "sysctl kernel.yama.ptrace_scope=3 forbids it to all");
	else if (scope > 0)
		snprintf(text_out, size,
			 "sysctl kernel.yama.ptrace_scope=%d forbids it: run as root, or set it "
			 "to 0",
			 scope);
	else
		snprintf(text_out, size,
			 "not permitted: CAP_SYS_PTRACE is missing, or a security module or "
			 "container forbids it");
}

/* --- finding a process --------------------------------------------------------------------------
 */

static bool has_argument(const char *cmdline, size_t len, const char *name, const char *value)
{
	bool named = false;

	for (const char *at = cmdline; at < cmdline + len;) {
		size_t n = strnlen(at, (size_t)(cmdline + len - at));

		if (named && n == strlen(value) && !memcmp(at, value, n))
			return true;
		named = n == strlen(name) && !memcmp(at, name, n);
		at += n + 1;
	}
	return false;
}

pid_t guest_proc_find_by_argument(const char *name, const char *value)
{
	GS_FREE char *cmdline = malloc(PROC_CMDLINE_MAX);
	DIR *dir = opendir("/proc");
	pid_t found = 0;
	const struct dirent *entry;

	for (uint32_t i = 0; cmdline && dir && !found && i < PROC_PROCESSES_MAX; i++) {
		char path[sizeof(entry->d_name) + 32];

		entry = readdir(dir);
		if (!entry)
			break;
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", entry->d_name);
		GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd >= 0 ? read(fd, cmdline, PROC_CMDLINE_MAX) : -1;
		if (n > 0 && has_argument(cmdline, (size_t)n, name, value))
			found = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	if (dir)
		closedir(dir);
	return found;
}
