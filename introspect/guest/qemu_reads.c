/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the RAM of a QEMU guest, by the way that was chosen for it. */
#include "introspect/guest/qemu_memory_priv.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/dump_guard.h"
#include "introspect/guest/qemu_proc.h"

/* Larger reads come from a search through all memory: nothing to keep. */
#define CACHE_READ_MAX 16384
/*
 * How old what is read may be while the guest runs and anything may be old by the time that it is
 * looked at. Page tables and lists are read a word at a time.
 */
#define CACHE_RUNNING_NS (200 * GS_NS_PER_MS)

/* --- the ways -----------------------------------------------------------------------------------
 */

/* A question took so long: the estimate goes up at once, and down slowly. */
static void note_took(struct guest_qemu_memory *m, uint64_t took_ns)
{
	uint64_t old = atomic_load_explicit(&m->ask_ns, memory_order_relaxed);

	atomic_store_explicit(&m->ask_ns, took_ns > old ? took_ns : old - (old - took_ns) / 8,
			      memory_order_relaxed);
}

/* Known to be zero without a look, which would have QEMU's process map a page there. */
static bool is_untouched(const struct guest_qemu_memory *m, const struct piece *p, uint64_t hva,
			 size_t len)
{
	uint64_t start, end;

	return p->anonymous && m->pagemap_fd >= 0 && len <= CACHE_READ_MAX &&
	       !guest_proc_next_touched(m->pagemap_fd, hva, hva + len, &start, &end);
}

enum gs_code guest_qemu_read_process_vm(const struct guest_qemu_memory *m, uint64_t hva, void *buf,
					size_t len)
{
	const struct iovec local = { .iov_base = buf, .iov_len = len };
	const struct iovec remote = { .iov_base = (void *)(uintptr_t)hva, .iov_len = len };
	ssize_t n = process_vm_readv(m->pid, &local, 1, &remote, 1, 0);

	if (n == (ssize_t)len)
		return GS_OK;
	return n < 0 && (errno == EPERM || errno == ENOSYS) ? GS_EDENIED : GS_EFAULT;
}

enum gs_code guest_qemu_read_proc_mem(const struct guest_qemu_memory *m, uint64_t hva, void *buf,
				      size_t len)
{
	ssize_t n = pread(m->mem_fd, buf, len, (off_t)hva);

	return n == (ssize_t)len ? GS_OK : GS_EFAULT;
}

enum gs_code guest_qemu_read_peek(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len)
{
	struct guest_monitor *monitor = m->monitor;
	enum gs_code rc = GS_OK;

	for (size_t done = 0; !rc && done < len;) {
		size_t n = gs_min(len - done, m->peek_max);
		uint64_t start_ns = gs_clock_ns();

		pthread_mutex_lock(&monitor->lock);
		rc = monitor->link->ops->peek(monitor->link, GPA(at.a + done), (char *)buf + done,
					      n, guest_monitor_limit(monitor), NULL);
		pthread_mutex_unlock(&monitor->lock);
		note_took(m, gs_clock_ns() - start_ns);
		done += n;
	}
	return rc;
}

static enum gs_code read_pmemsave(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len)
{
	uint64_t start_ns = gs_clock_ns();
	/* a guest-physical address has 52 bits: JSON's integers hold it */
	json_t *arguments = json_pack("{s:I, s:I, s:s}", "val", (json_int_t)at.a, "size",
				      (json_int_t)len, "filename", m->save_path);
	pthread_mutex_lock(&m->save_lock);
	enum gs_code rc = guest_monitor_execute(m->monitor, "pmemsave", arguments, NULL, NULL);
	if (!rc && pread(m->save_fd, buf, len, 0) != (ssize_t)len)
		rc = GS_EFAULT;
	pthread_mutex_unlock(&m->save_lock);
	note_took(m, gs_clock_ns() - start_ns);
	return rc;
}

/* Whole words around [at, at + len), in pieces that the text of which is not long. */
static enum gs_code read_xp(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len)
{
	uint64_t words[128];

	while (len) {
		uint64_t skip = at.a % sizeof(*words);
		size_t n = gs_min(len, sizeof(words) - skip);
		size_t whole = (size_t)gs_align_up(skip + n, sizeof(*words));
		enum gs_code rc =
			guest_monitor_words(m->monitor, GPA(at.a - skip), words, whole, NULL);
		if (rc)
			return rc;
		memcpy(buf, (char *)words + skip, n);
		buf = (char *)buf + n;
		at.a += n;
		len -= n;
	}
	return GS_OK;
}

enum gs_code guest_qemu_read_way(struct guest_qemu_memory *m, enum way way, uint32_t index,
				 gpa_t at, void *buf, size_t len)
{
	const struct piece *p = &m->pieces[index];
	uint64_t hva = p->hva + (at.a - m->ranges[index].start.a);

	if ((way == WAY_PROCESS_VM || way == WAY_PROC_MEM) && is_untouched(m, p, hva, len)) {
		memset(buf, 0, len);
		return GS_OK;
	}
	switch (way) {
	case WAY_NONE: return GS_EFAULT;
	case WAY_PROCESS_VM: return guest_qemu_read_process_vm(m, hva, buf, len);
	case WAY_PROC_MEM: return guest_qemu_read_proc_mem(m, hva, buf, len);
	case WAY_PEEK: return guest_qemu_read_peek(m, at, buf, len);
	case WAY_PMEMSAVE: return read_pmemsave(m, at, buf, len);
	case WAY_XP: return read_xp(m, at, buf, len);
	}
	return GS_EFAULT;
}

enum way guest_qemu_way(const struct guest_qemu_memory *m, uint32_t index)
{
	return m->pieces[index].hva && m->process_way ? m->process_way : m->monitor_way;
}

static const struct guest_range *range_of(const struct guest_qemu_memory *m, gpa_t at)
{
	const struct guest g = { .ranges = m->ranges, .range_count = m->count };

	return guest_range_find(&g, at);
}

enum gs_code guest_qemu_fill_page(void *priv, gpa_t page, void *buf)
{
	struct guest_qemu_memory *m = priv;
	const uint64_t size = UINT64_C(1) << m->cache_shift;
	bool some = false;

	memset(buf, 0, (size_t)size);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct guest_range *r = &m->ranges[i];
		uint64_t start = gs_max(page.a, r->start.a);
		uint64_t last = gs_min(page.a + (size - 1), r->start.a + (r->size - 1));

		if (start > last || m->pieces[i].map)
			continue;
		enum gs_code rc =
			guest_qemu_read_way(m, guest_qemu_way(m, i), i, GPA(start),
					    (char *)buf + (start - page.a), last - start + 1);
		if (rc)
			return rc;
		some = true;
	}
	return some ? GS_OK : GS_EFAULT;
}

/* The oldest that may be taken from the cache. */
static uint64_t fresh_since(const struct guest_qemu_memory *m)
{
	uint64_t since = atomic_load_explicit(&m->stands_ns, memory_order_relaxed);

	return since ? since : gs_clock_ns() - CACHE_RUNNING_NS;
}

enum gs_code guest_qemu_memory_read(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len)
{
	const struct guest_range *range = range_of(m, at);

	if (!range)
		return GS_EFAULT;
	if (guest_monitor_is_over(m->monitor))
		return GS_ETIMEDOUT;
	const struct piece *p = &m->pieces[range - m->ranges];
	if (p->map)
		return guest_guard_copy(buf, p->map + (at.a - range->start.a), len) ? GS_OK
										    : GS_EFAULT;
	if (len <= CACHE_READ_MAX) {
		enum gs_code rc =
			guest_page_cache_read_since(m->cache, at, buf, len, fresh_since(m));
		/* what it cannot have, because a neighbour is unreadable, may be readable itself */
		if (rc != GS_EFAULT)
			return rc;
	}
	const uint32_t index = (uint32_t)(range - m->ranges);
	return guest_qemu_read_way(m, guest_qemu_way(m, index), index, at, buf, len);
}

/* --- what has been written ----------------------------------------------------------------------
 */

/* Data at or after @p from, offsets in the file; to its own end, wherever @p end is. */
static bool file_next_data(int fd, uint64_t from, uint64_t end, uint64_t *start_out,
			   uint64_t *end_out)
{
	off_t start = lseek(fd, (off_t)from, SEEK_DATA);

	if (start < 0 && errno == ENXIO)
		return false;
	if (start < 0) { /* a file system without holes */
		*start_out = from;
		*end_out = end;
		return true;
	}
	off_t hole = lseek(fd, start, SEEK_HOLE);
	*start_out = (uint64_t)start;
	*end_out = hole < 0 ? end : (uint64_t)hole;
	return true;
}

/* The stretch of data at or after @p from, by asking the host. */
static bool find_stretch(const struct guest_qemu_memory *m, const struct piece *p, uint64_t from,
			 uint64_t end, uint64_t *start_out, uint64_t *end_out)
{
	bool is_file = p->fd >= 0;
	uint64_t base = is_file ? p->offset : p->hva;
	bool found = true;

	*start_out = base + from;
	*end_out = base + end;
	if (is_file)
		found = file_next_data(p->fd, base + from, base + end, start_out, end_out);
	else if (p->anonymous && m->pagemap_fd >= 0)
		found = guest_proc_next_touched(m->pagemap_fd, base + from, base + end, start_out,
						end_out);
	*start_out -= base;
	*end_out -= base;
	return found;
}

bool guest_qemu_piece_next_data(struct guest_qemu_memory *m, const struct piece *p, uint64_t from,
				uint64_t end, uint64_t *start_out, uint64_t *end_out)
{
	bool found = true;

	pthread_mutex_lock(&m->stretch_lock);
	if (m->stretch_of != p || from < m->stretch_start || from >= m->stretch_end) {
		found = find_stretch(m, p, from, end, &m->stretch_start, &m->stretch_end);
		m->stretch_of = found ? p : NULL;
	}
	*start_out = gs_max(from, m->stretch_start);
	*end_out = gs_min(m->stretch_end, end);
	pthread_mutex_unlock(&m->stretch_lock);
	return found && *start_out < *end_out;
}

bool guest_qemu_memory_next_data(struct guest_qemu_memory *m, gpa_t from, gpa_t end,
				 gpa_t *start_out, gpa_t *end_out)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct guest_range *r = &m->ranges[i];
		uint64_t skip = from.a > r->start.a ? from.a - r->start.a : 0;
		uint64_t start, stop;

		if (end.a <= r->start.a)
			break;
		uint64_t limit = gs_min(r->size, end.a - r->start.a);
		if (skip >= limit ||
		    !guest_qemu_piece_next_data(m, &m->pieces[i], skip, limit, &start, &stop))
			continue;
		*start_out = GPA(r->start.a + start);
		*end_out = GPA(r->start.a + stop);
		return true;
	}
	return false;
}
