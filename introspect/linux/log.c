/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's log: the ring that printk writes. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/system.h"

/*
 * A ring of descriptors, of which each has a state and says where in the ring of texts its block is, and an
 * array beside it with what else there is of a message (kernel/printk/printk_ringbuffer.h). Positions
 * in both rings only grow; what they are modulo the size is the place.
 */

/* state_var: the state in the two highest bits, the descriptor's id below. */
#define ID_MASK		(~UINT64_C(0) >> 2)
#define STATE_COMMITTED 1u
#define STATE_FINALIZED 2u

/* CONFIG_LOG_BUF_SHIFT is 12 to 25; a descriptor for each 32 bytes. log_buf_len= allows 2 GiB at most. */
#define SIZE_BITS_MIN  10
#define SIZE_BITS_MAX  31
#define COUNT_BITS_MIN 4
#define COUNT_BITS_MAX 26

/* A block begins with the id of its descriptor. */
#define BLOCK_HEAD UINT64_C(8)

/* Structures in arrays: more than any kernel's has (24 and 112), and what fits a stack frame. */
#define DESC_MAX 64
#define INFO_MAX 256

static const struct {
	enum lnx_member member;
	uint32_t size;
} needed[] = {
	{ LNX_M_LOG_COUNT_BITS, 4 },  { LNX_M_LOG_DESCS, 8 },	      { LNX_M_LOG_INFOS, 8 },
	{ LNX_M_LOG_HEAD_ID, 8 },     { LNX_M_LOG_TAIL_ID, 8 },	      { LNX_M_LOG_SIZE_BITS, 4 },
	{ LNX_M_LOG_DATA, 8 },	      { LNX_M_LOG_DESC_STATE, 8 },    { LNX_M_LOG_DESC_BEGIN, 8 },
	{ LNX_M_LOG_DESC_NEXT, 8 },   { LNX_M_LOG_INFO_SEQ, 8 },      { LNX_M_LOG_INFO_TIME, 8 },
	{ LNX_M_LOG_INFO_LENGTH, 2 }, { LNX_M_LOG_INFO_FACILITY, 1 }, { LNX_M_LOG_INFO_FLAGS, 1 },
	{ LNX_M_LOG_INFO_CALLER, 4 },
};

/*
 * The last members of both structures tell how far apart they lie. If others came after them, ids and
 * numbers would not fit, and there would be no message.
 */
static uint64_t element_size(const struct lnx_kernel *k, enum lnx_member last)
{
	const struct lnx_field *f = lnx_field_of(k, last);

	return gs_align_up((uint64_t)f->offset + f->size, 8);
}

static bool knows_log(const struct lnx_kernel *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
		if (!lnx_has(k, needed[i].member, needed[i].size))
			return false;
	return lnx_field_of(k, LNX_M_LOG_INFO_DEVICE)->present &&
	       element_size(k, LNX_M_LOG_DESC_NEXT) <= DESC_MAX &&
	       element_size(k, LNX_M_LOG_INFO_DEVICE) <= INFO_MAX && k->variable[LNX_V_LOG].a;
}

static bool read_ring(struct lnx_view *v, gva_t ring, struct lnx_log *log, uint64_t *tail_out)
{
	const struct lnx_kernel *k = v->k;

	return !lnx_read_u32(v, lnx_member_of(k, ring, LNX_M_LOG_COUNT_BITS), &log->count_bits) &&
	       !lnx_read_u32(v, lnx_member_of(k, ring, LNX_M_LOG_SIZE_BITS), &log->size_bits) &&
	       !lnx_read_u64(v, lnx_member_of(k, ring, LNX_M_LOG_DESCS), &log->descs.a) &&
	       !lnx_read_u64(v, lnx_member_of(k, ring, LNX_M_LOG_INFOS), &log->infos.a) &&
	       !lnx_read_u64(v, lnx_member_of(k, ring, LNX_M_LOG_DATA), &log->data.a) &&
	       !lnx_read_u64(v, lnx_member_of(k, ring, LNX_M_LOG_HEAD_ID), &log->id) &&
	       !lnx_read_u64(v, lnx_member_of(k, ring, LNX_M_LOG_TAIL_ID), tail_out);
}

/* An array of 1 << bits elements lies in the kernel's half as a whole. */
static bool is_array(const struct lnx_kernel *k, gva_t at, uint32_t bits, uint64_t each)
{
	return lnx_is_object(k, at.a & ~UINT64_C(7)) && at.a <= ~(each << bits);
}

enum gs_code lnx_log_begin(struct lnx_log *log, struct lnx_view *v)
{
	const struct lnx_kernel *k = v->k;
	uint64_t ring, tail;

	*log = (struct lnx_log){ .v = v, .seq = UINT64_MAX };
	if (!knows_log(k))
		return GS_ENOENT;
	if (lnx_read_u64(v, k->variable[LNX_V_LOG], &ring))
		return GS_EFAULT;
	if (!lnx_is_object(k, ring))
		return GS_EMALFORMED;
	if (!read_ring(v, GVA(ring), log, &tail))
		return GS_EFAULT;
	log->desc_size = element_size(k, LNX_M_LOG_DESC_NEXT);
	log->info_size = element_size(k, LNX_M_LOG_INFO_DEVICE);
	if (log->count_bits < COUNT_BITS_MIN || log->count_bits > COUNT_BITS_MAX ||
	    log->size_bits < SIZE_BITS_MIN || log->size_bits > SIZE_BITS_MAX ||
	    !is_array(k, log->descs, log->count_bits, log->desc_size) ||
	    !is_array(k, log->infos, log->count_bits, log->info_size) ||
	    !is_array(k, log->data, log->size_bits, 1))
		return GS_EMALFORMED;

	const uint64_t ids =
		gs_min(((log->id - tail) & ID_MASK) + 1, UINT64_C(1) << log->count_bits);
	log->left = (uint32_t)gs_min(ids, LNX_LOG_MESSAGES_MAX);
	return GS_OK;
}

static gva_t element(gva_t array, uint64_t id, uint32_t bits, uint64_t each)
{
	return GVA(array.a + (id & ((UINT64_C(1) << bits) - 1)) * each);
}

/* A number out of a copy of a structure. */
static uint64_t get(const struct lnx_kernel *k, const uint8_t *copy, enum lnx_member m)
{
	const struct lnx_field *f = lnx_field_of(k, m);
	uint64_t value = 0;

	memcpy(&value, copy + f->offset, f->size);
	return value;
}

/*
 * Where a block's text is and how much of it there can be. A block that does not fit the rest of the ring
 * is at its start; old kernels put one there, too, that would just fit, newer ones do not: both
 * show in where the last byte is.
 */
static bool find_block(const struct lnx_log *log, uint64_t id, uint64_t begin, uint64_t next,
		       gva_t *text_out, uint64_t *room_out)
{
	const uint64_t size = UINT64_C(1) << log->size_bits, in = size - 1;
	/* the first round ends where positions do: they begin at -size */
	const uint64_t wraps = (((next - 1) >> log->size_bits) - (begin >> log->size_bits)) &
			       (~UINT64_C(0) >> log->size_bits);
	const gva_t block = GVA(log->data.a + (wraps ? 0 : begin & in));
	const uint64_t bytes = wraps ? ((next - 1) & in) + 1 : next - begin;
	uint64_t owner;

	if (wraps > 1 || (begin & 7) || (next & 7) || bytes <= BLOCK_HEAD || bytes > size ||
	    lnx_read_u64(log->v, block, &owner) || (owner & ID_MASK) != id)
		return false;
	*text_out = GVA(block.a + BLOCK_HEAD);
	*room_out = bytes - BLOCK_HEAD;
	return true;
}

/* Whether a descriptor has a message, and its text if that is still there. */
static bool read_message(struct lnx_log *log, uint64_t id, struct lnx_log_message *m)
{
	const struct lnx_kernel *k = log->v->k;
	uint8_t desc[DESC_MAX], info[INFO_MAX];
	uint64_t room = 0;

	if (lnx_read(log->v, element(log->descs, id, log->count_bits, log->desc_size), desc,
		     log->desc_size))
		return false;
	const uint64_t state = get(k, desc, LNX_M_LOG_DESC_STATE);
	if ((state & ID_MASK) != id ||
	    (state >> 62 != STATE_COMMITTED && state >> 62 != STATE_FINALIZED) ||
	    lnx_read(log->v, element(log->infos, id, log->count_bits, log->info_size), info,
		     log->info_size))
		return false;

	const uint8_t flags = (uint8_t)get(k, info, LNX_M_LOG_INFO_FLAGS);
	*m = (struct lnx_log_message){
		.seq = get(k, info, LNX_M_LOG_INFO_SEQ),
		.time_ns = get(k, info, LNX_M_LOG_INFO_TIME),
		.caller = (uint32_t)get(k, info, LNX_M_LOG_INFO_CALLER),
		.facility = (uint8_t)get(k, info, LNX_M_LOG_INFO_FACILITY),
		.level = flags >> 5, /* flags:5, level:3 */
		.flags = flags & 31,
	};
	const uint64_t begin = get(k, desc, LNX_M_LOG_DESC_BEGIN);
	const uint64_t next = get(k, desc, LNX_M_LOG_DESC_NEXT);
	/* bit 0 is of positions that are none: an empty line, or a text that got no room */
	if (!(begin & 1) && !find_block(log, id, begin, next, &m->text, &room))
		return false;
	m->size = (uint32_t)gs_min(get(k, info, LNX_M_LOG_INFO_LENGTH), room);
	return true;
}

bool lnx_log_previous(struct lnx_log *log, struct lnx_log_message *message_out)
{
	while (log->left) {
		const uint64_t id = log->id & ID_MASK;

		log->left--;
		log->id--;
		/* one that is not older than the one after it is no message of this ring */
		if (read_message(log, id, message_out) && message_out->seq < log->seq) {
			log->seq = message_out->seq;
			return true;
		}
		log->skipped++;
	}
	return false;
}
