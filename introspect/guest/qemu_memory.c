/* SPDX-License-Identifier: Apache-2.0 */
/* The RAM of a QEMU guest, read by the best way there is. */
#include "introspect/guest/qemu_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/dump_guard.h"
#include "introspect/guest/qemu_memory_priv.h"
#include "introspect/guest/qemu_proc.h"

#define WHY_MAX GUEST_QEMU_WHY_MAX

#define CACHE_SIZE	    (UINT32_C(32) << 20)
#define CACHE_PROCESS_SHIFT 12
/*
 * A question to the monitor takes a millisecond or more; half a MiB more or less hardly shows in
 * it, and what is read next is likely to lie near. Measured with guests of 80 and of 2,000 threads:
 * with 64 KiB the many ask four times as often, with 1 MiB the few take twice the time.
 */
#define CACHE_MONITOR_SHIFT 19
#define CACHE_MONITOR_SIZE  (UINT32_C(128) << 20)

/* Places compared between a fast way and the monitor, and tries at one that changes meanwhile. */
#define VERIFY_PLACES 16
#define VERIFY_TRIES  4
#define VERIFY_WORDS  2

/* Remember the first reason only: what follows from it is no news. */
__attribute__((format(printf, 2, 3))) static void note_why(struct guest_qemu_memory *m,
							   const char *fmt, ...)
{
	va_list ap;

	if (m->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(m->why, sizeof(m->why), fmt, ap);
	va_end(ap);
}

static uint32_t largest_range(const struct guest_qemu_memory *m)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < m->count; i++) {
		if (m->ranges[i].size > m->ranges[best].size)
			best = i;
	}
	return best;
}

/* --- trusting a fast way ------------------------------------------------------------------------
 */

/* As the way under test has it. */
static enum gs_code read_fast(struct guest_qemu_memory *m, uint32_t index, gpa_t at, void *buf,
			      size_t len)
{
	const struct piece *p = &m->pieces[index];

	if (!p->map)
		return guest_qemu_read_way(m, m->process_way, index, at, buf, len);
	return guest_guard_copy(buf, p->map + (at.a - m->ranges[index].start.a), len) ? GS_OK
										      : GS_EFAULT;
}

enum verdict { VERDICT_SAME, VERDICT_EMPTY, VERDICT_DIFFERENT };

/* The guest may run: a place counts as different if it never is the same within some tries. */
static enum verdict compare_place(struct guest_qemu_memory *m, uint32_t index, gpa_t at)
{
	static const uint64_t zero[VERIFY_WORDS];
	uint64_t fast[VERIFY_WORDS], slow[VERIFY_WORDS];

	for (int i = 0; i < VERIFY_TRIES; i++) {
		if (guest_monitor_words(m->monitor, at, slow, sizeof(slow), NULL))
			return VERDICT_EMPTY; /* no judge */
		if (read_fast(m, index, at, fast, sizeof(fast)))
			return VERDICT_DIFFERENT;
		if (!memcmp(fast, slow, sizeof(fast)))
			return memcmp(fast, zero, sizeof(fast)) ? VERDICT_SAME : VERDICT_EMPTY;
	}
	return VERDICT_DIFFERENT;
}

/*
 * Compare a range as the fast way has it with the monitor's words. Places are spread, and lie
 * closer together at the front, where a kernel is.
 */
static enum verdict compare_range(struct guest_qemu_memory *m, uint32_t index)
{
	const struct guest_range *r = &m->ranges[index];
	enum verdict all = VERDICT_EMPTY;

	for (uint64_t i = 0; i < VERIFY_PLACES; i++) {
		uint64_t spread = r->size / (VERIFY_PLACES * VERIFY_PLACES) * i * i;
		uint64_t at, end;

		/* whoever looks into a hole fills it */
		if (!guest_qemu_piece_next_data(m, &m->pieces[index], spread & ~UINT64_C(4095),
						r->size, &at, &end))
			break;
		at = gs_min(at, r->size - sizeof(uint64_t) * VERIFY_WORDS) & ~UINT64_C(7);
		switch (compare_place(m, index, GPA(r->start.a + at))) {
		case VERDICT_DIFFERENT: return VERDICT_DIFFERENT;
		case VERDICT_SAME: all = VERDICT_SAME; break;
		case VERDICT_EMPTY: break;
		}
	}
	return all;
}

/* --- shared files -------------------------------------------------------------------------------
 */

static void unmap(const struct guest_range *r, struct piece *p)
{
	if (p->map)
		munmap((void *)p->map, (size_t)r->size);
	p->map = NULL;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Whether no page of a file can go away or fail to come: then reads need no guard. */
static bool is_sealed(int fd)
{
	struct statfs fs;
	int seals = fcntl(fd, F_GET_SEALS);

	/* a hole of a huge page file needs a huge page to be read, and there may be none */
	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstatfs(fd, &fs) &&
	       fs.f_type != HUGETLBFS_MAGIC;
}

/* Map @p fd, taken, from @p offset on. */
static enum gs_code map_piece(const struct guest_range *r, struct piece *p, int fd, uint64_t offset,
			      struct gs_error *err)
{
	struct stat st;

	p->fd = fd;
	p->offset = offset;
	if (fstat(fd, &st) || st.st_size < 0 ||
	    !gs_in_range(offset, r->size, 0, (uint64_t)st.st_size)) {
		unmap(r, p);
		return gs_fail(err, GS_EFAULT, "the file behind guest memory is too short");
	}
	void *map = mmap(NULL, (size_t)r->size, PROT_READ, MAP_SHARED, fd, (off_t)offset);
	if (map == MAP_FAILED) {
		int e = errno;
		unmap(r, p);
		return gs_fail_errno(err, gs_code_of_errno(e), e,
				     "map the file behind guest memory");
	}
	p->map = map;
	p->sealed = is_sealed(fd);
	return GS_OK;
}

/* By the mappings of the QEMU process: exact. @return GS_OK also where it is not a shared file */
static enum gs_code map_by_process(struct guest_qemu_memory *m, uint32_t index,
				   struct gs_error *err)
{
	const struct guest_range *r = &m->ranges[index];
	struct piece *p = &m->pieces[index];
	struct guest_proc_backing backing;
	int fd;

	enum gs_code rc = guest_proc_backing_find(m->pid, p->hva, r->size, &backing, err);
	if (rc)
		return rc;
	p->anonymous = backing.anonymous;
	if (!backing.shared_file)
		return GS_OK;
	rc = guest_proc_backing_open(m->pid, &backing, &fd, err);
	return rc ? rc : map_piece(r, p, fd, backing.offset, err);
}

/* A property of a memory backend. */
static json_t *backend_property(struct guest_qemu_memory *m, const char *backend,
				const char *property)
{
	json_t *value;
	char path[96];

	snprintf(path, sizeof(path), "/objects/%s", backend);
	if (guest_monitor_execute(m->monitor, "qom-get",
				  json_pack("{s:s, s:s}", "path", path, "property", property),
				  &value, NULL))
		return NULL;
	return value;
}

/*
 * By what the memory backend says of itself, where QEMU's process is out of reach: the path may
 * lead to another file here, so that only one that is seen to be the same is taken.
 */
static enum gs_code map_by_backend(struct guest_qemu_memory *m, uint32_t index,
				   struct gs_error *err)
{
	const struct guest_range *r = &m->ranges[index];
	struct piece *p = &m->pieces[index];
	json_t *share = backend_property(m, p->block.name, "share");
	json_t *path = backend_property(m, p->block.name, "mem-path");
	enum gs_code rc = GS_ENOTSUP;

	if (p->block.name[0] && json_is_true(share) && json_is_string(path)) {
		/* nothing that acts on being opened, such as a fifo */
		int fd =
			open(json_string_value(path), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		int e = errno;
		rc = fd < 0 ? gs_fail_errno(err, gs_code_of_errno(e), e, "open %.100s",
					    json_string_value(path))
			    : map_piece(r, p, fd, p->block.offset, err);
		if (!rc && compare_range(m, index) != VERDICT_SAME) {
			unmap(r, p);
			rc = gs_fail(err, GS_EFAULT, "%.100s is not the file that QEMU has",
				     json_string_value(path));
		}
	}
	json_decref(share);
	json_decref(path);
	return rc;
}

/* --- choosing -----------------------------------------------------------------------------------
 */

/* Where QEMU has each range, and what that is. */
static void find_pieces(struct guest_qemu_memory *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct gs_error err = { 0 };
		struct piece *p = &m->pieces[i];

		if (!m->pid) {
			note_why(m, "QEMU's process is not on this host, or not visible here");
		} else if (guest_monitor_hva(m->monitor, m->ranges[i].start, &p->hva, &err)) {
			note_why(m, "%.180s", err.text);
			p->hva = 0;
		} else {
			enum gs_code rc = map_by_process(m, i, &err);
			if (rc == GS_EDENIED) {
				char why[WHY_MAX];
				guest_proc_explain_denial(m->pid, why, sizeof(why));
				note_why(m, "%.190s", why);
			} else if (rc) {
				note_why(m, "%.180s", err.text);
			}
			/* a process that has something else there is not the one */
			if (rc == GS_EFAULT || rc == GS_ENOENT)
				p->hva = 0;
		}
		if (!p->map && !p->anonymous && map_by_backend(m, i, &err) &&
		    err.code == GS_EDENIED)
			note_why(m, "%.180s", err.text);
	}
}

/* A process that is not the right one shows other bytes than the monitor. */
static void check_process(struct guest_qemu_memory *m)
{
	uint32_t main_range = largest_range(m);

	if (!m->pieces[main_range].hva || (!m->pieces[main_range].map && !m->process_way) ||
	    compare_range(m, main_range) != VERDICT_DIFFERENT)
		return;
	note_why(m, "process %d has other memory than QEMU's monitor shows", (int)m->pid);
	for (uint32_t i = 0; i < m->count; i++) {
		unmap(&m->ranges[i], &m->pieces[i]);
		m->pieces[i].hva = 0;
		m->pieces[i].anonymous = false;
	}
	m->process_way = WAY_NONE;
}

static int open_proc(const struct guest_qemu_memory *m, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)m->pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void choose_process_way(struct guest_qemu_memory *m)
{
	char byte, why[WHY_MAX];
	uint32_t i = 0;

	while (i < m->count && (!m->pieces[i].hva || m->pieces[i].map))
		i++;
	if (i == m->count)
		return;
	m->pagemap_fd = open_proc(m, "pagemap"); /* without it nothing is taken for a hole */
	uint64_t at = 0, end;
	(void)guest_qemu_piece_next_data(m, &m->pieces[i], 0, m->ranges[i].size, &at, &end);
	const uint64_t hva = m->pieces[i].hva + (at < m->ranges[i].size ? at : 0);
	enum gs_code rc = guest_qemu_read_process_vm(m, hva, &byte, 1);
	if (!rc) {
		m->process_way = WAY_PROCESS_VM;
		return;
	}
	m->mem_fd = open_proc(m, "mem");
	if (m->mem_fd >= 0 && !guest_qemu_read_proc_mem(m, hva, &byte, 1)) {
		m->process_way = WAY_PROC_MEM;
		return;
	}
	guest_proc_explain_denial(m->pid, why, sizeof(why));
	note_why(m, "%.190s", why);
}

/* A folder of our own, by a path that leads there from anywhere. */
static bool pmemsave_folder(struct guest_qemu_memory *m)
{
	const char *tmp = getenv("TMPDIR");
	GS_FREE char *parent = realpath(tmp && *tmp ? tmp : "/tmp", NULL);

	if (!parent || asprintf(&m->folder, "%s/guestshot-XXXXXX", parent) < 0) {
		m->folder = NULL;
		return false;
	}
	if (!mkdtemp(m->folder)) {
		free(GS_TAKE(m->folder));
		return false;
	}
	if (asprintf(&m->save_path, "%s/ram", m->folder) < 0)
		m->save_path = NULL;
	return m->save_path;
}

static bool pmemsave_prepare(struct guest_qemu_memory *m)
{
	char proc[32];
	struct stat st;

	if (!pmemsave_folder(m))
		return false;
	m->save_fd = open(m->save_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (m->save_fd < 0)
		return false;
	/* QEMU writes as itself; where that is another user only root can make room for it */
	snprintf(proc, sizeof(proc), "/proc/%d", (int)m->pid);
	if (geteuid() == 0 && m->pid && !stat(proc, &st) && st.st_uid != 0)
		return !fchown(m->save_fd, st.st_uid, st.st_gid) &&
		       !chown(m->folder, st.st_uid, st.st_gid);
	return true;
}

static void pmemsave_end(struct guest_qemu_memory *m)
{
	if (m->save_fd >= 0)
		close(m->save_fd);
	m->save_fd = -1;
	if (m->save_path)
		(void)unlink(m->save_path); /* may not be there */
	if (m->folder)
		(void)rmdir(m->folder);
	free(GS_TAKE(m->save_path));
	free(GS_TAKE(m->folder));
}

/* Whether libvirt peeks, and how much at once: daemons differ in what they answer. */
static bool try_peek(struct guest_qemu_memory *m, uint32_t index)
{
	static const size_t sizes[] = { GUEST_LINK_PEEK_MAX, GUEST_LINK_PEEK_MIN,
					sizeof(uint64_t) };
	const struct guest_range *r = &m->ranges[index];
	GS_FREE void *buf = malloc(GUEST_LINK_PEEK_MAX);

	if (!m->monitor->link->ops->peek || !buf)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		m->peek_max = gs_min(sizes[i], r->size);
		if (!guest_qemu_read_peek(m, r->start, buf, m->peek_max)) {
			m->peek_max = sizes[i];
			return true;
		}
	}
	return false;
}

/* The slow ways, for ranges that have no other. */
static enum gs_code choose_monitor_way(struct guest_qemu_memory *m, struct gs_error *err)
{
	uint64_t word;
	uint32_t i = 0;

	while (i < m->count && (m->pieces[i].map || (m->pieces[i].hva && m->process_way)))
		i++;
	if (i == m->count)
		return GS_OK;
	const gpa_t at = m->ranges[i].start;
	if (try_peek(m, i))
		m->monitor_way = WAY_PEEK;
	else if (pmemsave_prepare(m) &&
		 !guest_qemu_read_way(m, WAY_PMEMSAVE, i, at, &word, sizeof(word)))
		m->monitor_way = WAY_PMEMSAVE;
	else
		pmemsave_end(m);
	if (!m->monitor_way && !guest_qemu_read_way(m, WAY_XP, i, at, &word, sizeof(word)))
		m->monitor_way = WAY_XP;
	return m->monitor_way ? GS_OK
			      : gs_fail(err, GS_EDENIED, "guest memory cannot be read: %s",
					m->why[0] ? m->why : "QEMU's monitor refuses");
}

static enum gs_code make_cache(struct guest_qemu_memory *m, struct gs_error *err)
{
	/* xp costs by the word, the other slow ways by the question */
	bool slow = m->monitor_way == WAY_PEEK || m->monitor_way == WAY_PMEMSAVE;

	if (!m->monitor_way && !m->process_way)
		return GS_OK; /* all mapped */
	m->cache_shift = slow ? CACHE_MONITOR_SHIFT : CACHE_PROCESS_SHIFT;
	m->cache = guest_page_cache_create(m->cache_shift, slow ? CACHE_MONITOR_SIZE : CACHE_SIZE,
					   guest_qemu_fill_page, m);
	return m->cache ? GS_OK
			: gs_fail(err, GS_ENOSPC, "out of memory for a cache of guest memory");
}

static void publish_mappings(struct guest_qemu_memory *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		if (m->pieces[i].sealed)
			m->ranges[i].host = m->pieces[i].map;
	}
}

/* --- life ---------------------------------------------------------------------------------------
 */

static enum gs_code find_ranges(struct guest_qemu_memory *m, struct gs_error *err)
{
	json_t *text;
	GS_FREE struct guest_qemu_block *blocks = gs_array_alloc(GUEST_RANGES_MAX, sizeof(*blocks));

	m->ranges = gs_array_alloc(GUEST_RANGES_MAX, sizeof(*m->ranges));
	if (!m->ranges || !blocks)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = guest_monitor_text(m->monitor, &text, err, "info mtree -f");
	if (rc)
		return rc;
	rc = guest_qemu_parse_ram(json_string_value(text), json_string_length(text), m->ranges,
				  blocks, GUEST_RANGES_MAX, &m->count, err);
	json_decref(text);
	if (rc)
		return rc;
	m->pieces = gs_array_alloc(m->count, sizeof(*m->pieces));
	if (!m->pieces)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	for (uint32_t i = 0; i < m->count; i++)
		m->pieces[i] = (struct piece){ .block = blocks[i], .fd = -1 };
	return GS_OK;
}

enum gs_code guest_qemu_memory_create(struct guest_monitor *monitor,
				      struct guest_qemu_memory **memory_out, struct gs_error *err)
{
	struct guest_qemu_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	m->monitor = monitor;
	m->pid = monitor->link->ops->pid(monitor->link);
	m->mem_fd = m->pagemap_fd = m->save_fd = -1;
	pthread_mutex_init(&m->save_lock, NULL);
	pthread_mutex_init(&m->stretch_lock, NULL);
	guest_guard_install();
	enum gs_code rc = find_ranges(m, err);
	if (!rc) {
		find_pieces(m);
		choose_process_way(m);
		check_process(m);
		rc = choose_monitor_way(m, err);
	}
	if (!rc)
		rc = make_cache(m, err);
	if (rc) {
		guest_qemu_memory_destroy(m);
		return rc;
	}
	publish_mappings(m);
	*memory_out = m;
	return GS_OK;
}

void guest_qemu_memory_destroy(struct guest_qemu_memory *m)
{
	if (!m)
		return;
	guest_page_cache_destroy(m->cache);
	pmemsave_end(m);
	if (m->mem_fd >= 0)
		close(m->mem_fd);
	if (m->pagemap_fd >= 0)
		close(m->pagemap_fd);
	for (uint32_t i = 0; m->pieces && i < m->count; i++)
		unmap(&m->ranges[i], &m->pieces[i]);
	free(m->pieces);
	free(m->ranges);
	pthread_mutex_destroy(&m->stretch_lock);
	pthread_mutex_destroy(&m->save_lock);
	free(m);
}

const struct guest_range *guest_qemu_memory_ranges(const struct guest_qemu_memory *m,
						   uint32_t *count_out)
{
	*count_out = m->count;
	return m->ranges;
}

const char *guest_qemu_memory_access(const struct guest_qemu_memory *m)
{
	uint32_t i = largest_range(m);

	if (m->pieces[i].map)
		return "shared memory backend, mapped";
	switch (guest_qemu_way(m, i)) {
	case WAY_NONE: break;
	case WAY_PROCESS_VM: return "memory of the QEMU process (process_vm_readv)";
	case WAY_PROC_MEM: return "memory of the QEMU process (/proc/PID/mem)";
	case WAY_PEEK: return "libvirt's memory peek";
	case WAY_PMEMSAVE: return "QEMU's monitor (pmemsave)";
	case WAY_XP: return "QEMU's monitor (xp)";
	}
	return "none";
}

const char *guest_qemu_memory_why(const struct guest_qemu_memory *m)
{
	/* a reason of a small range is none for how the whole is read */
	return m->pieces[largest_range(m)].map ? "" : m->why;
}

void guest_qemu_memory_stands(struct guest_qemu_memory *m, bool stands)
{
	/* what was fetched before it stood is no longer taken from now on */
	atomic_store_explicit(&m->stands_ns, stands ? gs_clock_ns() : 0, memory_order_relaxed);
	/* what is data only grows, but for a guest that gives memory back */
	pthread_mutex_lock(&m->stretch_lock);
	m->stretch_of = NULL;
	pthread_mutex_unlock(&m->stretch_lock);
}

uint64_t guest_qemu_memory_ask_ns(const struct guest_qemu_memory *m)
{
	return atomic_load_explicit(&m->ask_ns, memory_order_relaxed);
}
