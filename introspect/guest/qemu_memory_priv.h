/* SPDX-License-Identifier: Apache-2.0 */
/* State of a QEMU guest's memory. Private to introspect/guest/qemu_memory.c and qemu_reads.c. */
#ifndef INTROSPECT_GUEST_QEMU_MEMORY_PRIV_H
#define INTROSPECT_GUEST_QEMU_MEMORY_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "introspect/guest/page_cache.h"
#include "introspect/guest/qemu_memory.h"
#include "introspect/guest/qemu_text.h"

#define GUEST_QEMU_WHY_MAX 200

/* How a range that is not mapped is read. */
enum way {
	WAY_NONE,
	WAY_PROCESS_VM,
	WAY_PROC_MEM,
	WAY_PEEK,
	WAY_PMEMSAVE,
	WAY_XP,
};

/* One range's host side. */
struct piece {
	struct guest_qemu_block block;
	uint64_t hva; /* in QEMU; 0: not known */
	bool anonymous;
	int fd;		 /* the file behind it; -1: none, or not open to us */
	uint64_t offset; /* in it */
	const char *map; /* of the file, here; NULL: not mapped */
	bool sealed;	 /* cannot be cut: reads need no guard */
};

struct guest_qemu_memory {
	struct guest_monitor *monitor;
	struct guest_range *ranges;
	struct piece *pieces; /* one a range */
	uint32_t count;
	pid_t pid; /* 0: not known, or another one's */
	int mem_fd, pagemap_fd;
	enum way process_way, monitor_way;
	struct guest_page_cache *cache; /* NULL: all is mapped */
	unsigned int cache_shift;
	/* Since when the guest stands; 0: it runs. Relaxed: stop and resume order it. */
	_Atomic uint64_t stands_ns;
	size_t peek_max;
	_Atomic uint64_t ask_ns;  /* what a question to the monitor takes; relaxed: an estimate */
	char *folder, *save_path; /* of pmemsave's file; NULL: none */
	int save_fd;
	pthread_mutex_t save_lock; /* the file, from being written to being read */
	/*
	 * The stretch of data that was found last: the host looks at every page of it to find its
	 * end, and a search asks for places in it one by one.
	 */
	pthread_mutex_t stretch_lock; /* guards what follows */
	const struct piece *stretch_of;
	uint64_t stretch_start, stretch_end;
	char why[GUEST_QEMU_WHY_MAX];
};

/** Of those of a range that is not mapped, the one that is taken. */
enum way guest_qemu_way(const struct guest_qemu_memory *m, uint32_t index);

/** QEMU's memory at host-virtual address @p hva. @return GS_OK; GS_EFAULT; GS_EDENIED */
enum gs_code guest_qemu_read_process_vm(const struct guest_qemu_memory *m, uint64_t hva, void *buf,
					size_t len);
enum gs_code guest_qemu_read_proc_mem(const struct guest_qemu_memory *m, uint64_t hva, void *buf,
				      size_t len);

/** libvirt's peek, in as large pieces as it takes. */
enum gs_code guest_qemu_read_peek(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len);

/** Read from one range by a way. @return GS_OK; GS_EFAULT; GS_ETIMEDOUT; GS_EDENIED */
enum gs_code guest_qemu_read_way(struct guest_qemu_memory *m, enum way way, uint32_t index,
				 gpa_t at, void *buf, size_t len);

/** Fill a page of the cache: as much of it as is RAM that has to be asked for. */
enum gs_code guest_qemu_fill_page(void *priv, gpa_t page, void *buf);

/** As guest_ops.next_data() inside of one piece, by offsets in it. */
bool guest_qemu_piece_next_data(struct guest_qemu_memory *m, const struct piece *p, uint64_t from,
				uint64_t end, uint64_t *start_out, uint64_t *end_out);

#endif
