/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: block devices, and the files that pages are of. */
#include "introspect/linux/hunt.h"

/* Words of the stack, innermost first, among which a request is looked for. */
#define WORDS_MAX 512

/* include/linux/kdev_t.h: a number of the kernel's own, 12 and 20 bits */
#define MINOR_BITS 20
#define MINOR_MAX  ((UINT32_C(1) << MINOR_BITS) - 1)
#define MAJOR_MAX  UINT32_C(4095)

#define BLOCK_EXT_MAJOR UINT32_C(259) /* include/uapi/linux/major.h */
#define DISK_NAME	32	      /* DISK_NAME_LEN, include/linux/blkdev.h */

#define S_IFMT	0170000
#define S_IFBLK 0060000

#define PAGE_MAPPING_FLAGS UINT64_C(7) /* include/linux/page-flags.h: set, it is of no file */
#define BH_LOCK		   2	       /* include/linux/buffer_head.h, enum bh_state_bits */
#define BLOCK_SIZE_MAX	   (UINT64_C(1) << 20)

/* A sbitmap_queue has so many queues (SBQ_WAIT_QUEUES), each in a cache line or two of its own. */
#define TAG_QUEUES    8
#define TAG_QUEUE_MAX UINT64_C(256)

/* --- devices --- */

/* A disk has a name, and a major number that those of its partitions are of, too, or the one for all that are many. */
static bool is_disk(const struct hunt *h, uint64_t disk, uint32_t *major_out)
{
	char name[DISK_NAME];
	size_t n = 0;

	if (!hunt_has_all(h, LNX_M_DISK_MAJOR, LNX_M_DISK_NAME) ||
	    !hunt_member_u32(h, disk, LNX_M_DISK_MAJOR, major_out) || *major_out > MAJOR_MAX ||
	    lnx_read(h->v, GVA(disk + hunt_offset(h, LNX_M_DISK_NAME)), name, sizeof(name)))
		return false;
	while (n < sizeof(name) && name[n] > ' ' && name[n] <= '~')
		n++;
	return n && n < sizeof(name) && !name[n];
}

/* The number of a block device, which belongs to a disk. */
static bool device_of(const struct hunt *h, uint64_t bdev, uint32_t *device_out)
{
	uint64_t disk;
	uint32_t major;

	return hunt_has_all(h, LNX_M_BDEV_NUMBER, LNX_M_BDEV_DISK) &&
	       hunt_member_u32(h, bdev, LNX_M_BDEV_NUMBER, device_out) && *device_out &&
	       hunt_member(h, bdev, LNX_M_BDEV_DISK, &disk) && is_disk(h, disk, &major) &&
	       (*device_out >> MINOR_BITS == major || *device_out >> MINOR_BITS == BLOCK_EXT_MAJOR);
}

/* Up to 5.11 a bio has the disk, and the number of the partition on it. */
static bool device_of_disk(const struct hunt *h, uint64_t disk, uint8_t partition,
			   uint32_t *device_out)
{
	uint32_t major, minor;

	if (!is_disk(h, disk, &major) || !major ||
	    !hunt_member_u32(h, disk, LNX_M_DISK_MINOR, &minor) || minor > MINOR_MAX - partition)
		return false;
	*device_out = major << MINOR_BITS | (minor + partition);
	return true;
}

static bool device_of_bio(const struct hunt *h, uint64_t bio, uint32_t *device_out)
{
	uint64_t of;
	uint8_t partition;

	if (hunt_has(h, LNX_M_BIO_BDEV))
		return hunt_member(h, bio, LNX_M_BIO_BDEV, &of) && device_of(h, of, device_out);
	return hunt_has_all(h, LNX_M_BIO_DISK, LNX_M_BIO_PARTITION) &&
	       hunt_member(h, bio, LNX_M_BIO_DISK, &of) &&
	       !lnx_read(h->v, GVA(bio + hunt_offset(h, LNX_M_BIO_PARTITION)), &partition, 1) &&
	       device_of_disk(h, of, partition, device_out);
}

/* --- requests --- */

/*
 * Whether a bio's end is told to what is at @p waiter: then it is added. That a function begins where its
 * end goes to is not so of return addresses, which have the saved x19 behind them.
 */
static bool add_bio(struct hunt *h, uint64_t bio, uint64_t waiter)
{
	struct lnx_symbol function;
	uint64_t private, end;
	uint32_t device;

	if (!hunt_member(h, bio, LNX_M_BIO_PRIVATE, &private) || private != waiter ||
	    !hunt_member(h, bio, LNX_M_BIO_END, &end) ||
	    lnx_symbol_at(h->v->k, GVA(end), &function) || function.start != end ||
	    !device_of_bio(h, bio, &device))
		return false;
	hunt_add_wait(h,
		      (struct lnx_wait){ .kind = LNX_WAIT_BLOCK, .object = bio, .device = device });
	return true;
}

bool hunt_block_request(struct hunt *h, uint64_t completion)
{
	static const char *const names[] = { "submit_bio_wait", "bio_await",
					     "wait_for_completion_io", NULL };
	uint64_t word;

	if (!hunt_has_all(h, LNX_M_BIO_END, LNX_M_BIO_PRIVATE) || !hunt_is_in(h, names) ||
	    !hunt_may_search(h))
		return false;
	/* who waits still has the bio's address, or has it on its stack, where it points back */
	for (uint64_t i = 0; i < WORDS_MAX && hunt_local_word(h, h->start + i * 8, &word); i++) {
		if (word == completion)
			word = h->start + i * 8 - hunt_offset(h, LNX_M_BIO_PRIVATE);
		if (lnx_is_object(h->v->k, word) && add_bio(h, word, completion))
			return true;
	}
	return false;
}

/*
 * A bio on the stack whose end wakes this thread: direct I/O in 5.10. It is there as well while the thread
 * waits for something on the way to the device.
 */
void hunt_bio(struct hunt *h, uint64_t bio)
{
	uint64_t end;

	if (!h->n && hunt_local(h, bio, LNX_M_BIO_END, &end) &&
	    hunt_is_function(h, end, "blkdev_bio_end_io_simple"))
		(void)add_bio(h, bio, h->task->address.a);
}

/* One who waits for a tag: the number that a request needs to be one. */
bool hunt_tag(struct hunt *h, uint64_t waiter, uint64_t queue)
{
	static const char *const names[] = { "blk_mq_get_tag", NULL };
	uint64_t tags, queues;

	if (!hunt_has_all(h, LNX_M_TAG_QUEUE, LNX_M_TAGS_QUEUE))
		return false;
	const uint64_t around = waiter - hunt_offset(h, LNX_M_TAG_ENTRY);
	if (!hunt_local(h, around, LNX_M_TAG_QUEUE, &tags) ||
	    !hunt_member(h, tags, LNX_M_TAGS_QUEUES, &queues) || !lnx_is_object(h->v->k, queues))
		return false;
	const uint64_t first = queues + hunt_offset(h, LNX_M_TAGS_QUEUE);
	if (queue - first >= TAG_QUEUES * TAG_QUEUE_MAX || (queue - first) % 64 ||
	    !hunt_is_in(h, names))
		return false;
	hunt_add(h, LNX_WAIT_TAG, tags, GVA(0), 0);
	return true;
}

/* --- pages and buffers --- */

/* The file that a page is of: the file's own mapping is the page's. */
void hunt_page_file(const struct hunt *h, uint64_t page, struct lnx_wait *w)
{
	uint64_t mapping, inode, sb;
	uint32_t mode, device;

	if (!hunt_has_all(h, LNX_M_PAGE_MAPPING, LNX_M_SB_DEVICE) ||
	    !hunt_has_all(h, LNX_M_INODE_NUMBER, LNX_M_INODE_MODE) ||
	    !hunt_member(h, page, LNX_M_PAGE_MAPPING, &mapping) || (mapping & PAGE_MAPPING_FLAGS) ||
	    !hunt_member(h, mapping, LNX_M_MAPPING_HOST, &inode) ||
	    mapping != inode + hunt_offset(h, LNX_M_INODE_DATA) ||
	    !hunt_member_u32(h, inode, LNX_M_INODE_MODE, &mode))
		return;
	if ((mode & S_IFMT) == S_IFBLK) {
		/* the file is the device */
		if (hunt_member_u32(h, inode, LNX_M_INODE_DEVICE, &device))
			w->device = device;
		return;
	}
	if (!hunt_member(h, inode, LNX_M_INODE_SB, &sb) ||
	    !hunt_member_u32(h, sb, LNX_M_SB_DEVICE, &device) ||
	    !hunt_member(h, inode, LNX_M_INODE_NUMBER, &w->inode))
		return;
	w->device = device;
}

bool hunt_buffer(struct hunt *h, uint64_t word, uint64_t bit)
{
	static const char *const names[] = { "__wait_on_buffer", "__lock_buffer", NULL };
	uint64_t bdev, number, size;
	uint32_t device;

	if (bit != BH_LOCK || !hunt_has_all(h, LNX_M_BUFFER_STATE, LNX_M_BUFFER_NUMBER))
		return false;
	const uint64_t buffer = word - hunt_offset(h, LNX_M_BUFFER_STATE);
	if (!hunt_member(h, buffer, LNX_M_BUFFER_BDEV, &bdev) || !device_of(h, bdev, &device) ||
	    !hunt_member(h, buffer, LNX_M_BUFFER_SIZE, &size) || !size || (size & (size - 1)) ||
	    size > BLOCK_SIZE_MAX || !hunt_member(h, buffer, LNX_M_BUFFER_NUMBER, &number) ||
	    !hunt_is_in(h, names))
		return false;
	hunt_add_wait(h, (struct lnx_wait){ .kind = LNX_WAIT_BUFFER,
					    .object = buffer,
					    .extra = number,
					    .device = device });
	return true;
}
