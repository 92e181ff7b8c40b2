/* SPDX-License-Identifier: Apache-2.0 */
/* Guest RAM: one sparse, sealed memory file, mapped once. */
#include "vmm/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"

static enum gs_code memory_map(struct vmm_memory *m, struct gs_error *err)
{
	// Sealed: nobody who gets the descriptor can cut memory away under the mapping (SIGBUS).
	if (ftruncate(m->fd, (off_t)m->size) ||
	    fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return gs_fail_errno(err, GS_ESYS, errno, "making %" PRIu64 " MiB of guest RAM",
				     m->size >> 20);

	void *host =
		mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
	if (host == MAP_FAILED)
		return gs_fail_errno(err, errno == ENOMEM ? GS_ENOSPC : GS_ESYS, errno,
				     "mapping %" PRIu64 " MiB of guest RAM (give the guest less)",
				     m->size >> 20);
	m->host = host;
	// Hints: a refusal costs speed or a bigger core file, nothing else.
	(void)madvise(host, m->size, MADV_HUGEPAGE);
	(void)madvise(host, m->size, MADV_DONTDUMP);
	return GS_OK;
}

enum gs_code vmm_memory_init(struct vmm_memory *m, uint64_t size, struct gs_error *err)
{
	*m = (struct vmm_memory){ .fd = -1, .size = size };
	if (size == 0 || size > INT64_MAX)
		return gs_fail(err, GS_EINVAL, "guest RAM of %" PRIu64 " bytes", size);
	m->fd = memfd_create("guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (m->fd < 0)
		return gs_fail_errno(err, GS_ESYS, errno, "memory file for guest RAM");
	return memory_map(m, err);
}

void vmm_memory_deinit(struct vmm_memory *m)
{
	if (m->host)
		munmap(m->host, m->size);
	m->host = NULL;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

bool vmm_memory_next_data(const struct vmm_memory *m, uint64_t from, uint64_t end,
			  uint64_t *start_out, uint64_t *end_out)
{
	end = gs_min(end, m->size);
	if (from >= end)
		return false;

	off_t data = lseek(m->fd, (off_t)from, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		return false;
	// Any other failure is a file system without holes: all of it is data.
	uint64_t start = data < 0 ? from : (uint64_t)data;
	if (start >= end)
		return false;

	off_t hole = lseek(m->fd, (off_t)start, SEEK_HOLE);
	*start_out = start;
	*end_out = hole < 0 || (uint64_t)hole <= start ? end : gs_min((uint64_t)hole, end);
	return true;
}
