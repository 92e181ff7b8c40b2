/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's log, and what a hostile guest makes of it. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/kernel.h"
#include "introspect/linux/system.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"

#define COUNT (1u << LG_LOG_COUNT)
#define SIZE  (1u << LG_LOG_SIZE)

static struct lnx_view view;
static struct lnx_log walk;
static struct lnx_log_message message;

static void find_it(void)
{
	ck_assert_msg(!find(NULL), "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
}

static void begin_form(const struct lg_form *form)
{
	make(form);
	lg_log_create(&made.g);
	find_it();
}

static void begin(void)
{
	begin_form(&(struct lg_form){ 0 });
}

static void begin_walk(void)
{
	ck_assert_int_eq(lnx_log_begin(&walk, &view), GS_OK);
}

/* The next message back is this one. */
static void expect(uint64_t seq, uint64_t time_ns, uint8_t level, const char *text)
{
	char have[SIZE];

	ck_assert(lnx_log_previous(&walk, &message));
	ck_assert_uint_eq(message.seq, seq);
	ck_assert_uint_eq(message.time_ns, time_ns);
	ck_assert_uint_eq(message.level, level);
	ck_assert_uint_eq(message.size, strlen(text));
	ck_assert_int_eq(lnx_read(&view, message.text, have, message.size), GS_OK);
	ck_assert_mem_eq(have, text, message.size);
}

static void expect_end(uint32_t skipped)
{
	ck_assert(!lnx_log_previous(&walk, &message));
	ck_assert_uint_eq(walk.skipped, skipped);
}

static void add_three(void)
{
	lg_log_add(&made.g, 100, 6, "first");
	lg_log_add(&made.g, 200, 3, "second message\nwith a line of its own");
	lg_log_add(&made.g, 300, 7, "");
}

START_TEST(messages_come_newest_first)
{
	add_three();
	begin_walk();
	ck_assert(lnx_log_previous(&walk, &message));
	ck_assert_uint_eq(message.size, 0);
	ck_assert_uint_eq(message.seq, 2);
	ck_assert_uint_eq(message.facility, 3);
	ck_assert_uint_eq(message.flags, 2);
	ck_assert_uint_eq(message.caller, 77);
	expect(1, 200, 3, "second message\nwith a line of its own");
	expect(0, 100, 6, "first");
	expect_end(1); // the descriptor that the kernel begins with
}
END_TEST

START_TEST(log_is_found_with_and_without_symbols_of_data)
{
	for (size_t i = 0; i < ARRAY_SIZE(data_forms); i++) {
		done();
		begin_form(&data_forms[i]);
		ck_assert_uint_eq(made.k->variable[LNX_V_LOG].a, lg_image_va(&made.g, LG_PRB));
		lg_log_add(&made.g, 5, 4, "here");
		begin_walk();
		expect(0, 5, 4, "here");
	}
}
END_TEST

START_TEST(empty_log_has_no_message)
{
	begin_walk();
	expect_end(1);
}
END_TEST

static void numbered(uint32_t i, char text[static 64])
{
	snprintf(text, 64, "message %" PRIu32 " %.*s", i, (int)(i * 7 % 40),
		 "........................................");
}

// Both rings go round: what is there is whole, and what is not is gone in order.
START_TEST(rings_that_go_round_give_the_newest_messages_whole)
{
	char text[64];

	for (uint32_t n = 0; n < 200; n++) {
		uint32_t i = n;

		numbered(n, text);
		lg_log_add(&made.g, n, 6, text);
		begin_walk();
		while (i + 1 && lnx_log_previous(&walk, &message)) {
			char have[64] = "";

			ck_assert_uint_eq(message.seq, i);
			ck_assert_uint_lt(message.size, sizeof(have));
			ck_assert_int_eq(lnx_read(&view, message.text, have, message.size), GS_OK);
			numbered(i--, text);
			ck_assert_str_eq(have, text);
		}
		ck_assert_uint_ge(n - i, gs_min(n + 1, 10));
		ck_assert_uint_le(n - i, COUNT);
	}
}
END_TEST

// A text that ends where the ring does: up to 6.17 it is at the start all the same, later it is not.
START_TEST(text_that_just_fits_is_found_where_either_kernel_has_it)
{
	const uint32_t at = lg_log_add(&made.g, 1, 6, "just fits");
	const uint64_t id = made.g.log.ring->head_id, size = 24;
	struct lg_desc *d = &made.g.log.desc[at];

	d->begin = SIZE - size;
	d->next = SIZE;
	memcpy(made.g.log.data + SIZE - size, &id, 8);
	memcpy(made.g.log.data + SIZE - size + 8, "just fits", 9);
	begin_walk();
	expect(0, 1, 6, "just fits");
	d->next = SIZE + size;
	memcpy(made.g.log.data, &id, 8);
	memcpy(made.g.log.data + 8, "at start!", 9);
	begin_walk();
	expect(0, 1, 6, "at start!");
}
END_TEST

// 0: being written; 3: free for the next one; another id: it is the next one already.
START_TEST(descriptors_that_have_no_message_are_skipped)
{
	static const uint64_t changes[] = { UINT64_C(2) << 62, UINT64_C(1) << 62, 1, 1u << 20 };

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		done();
		begin();
		add_three();
		uint64_t *state =
			&made.g.log.desc[(made.g.log.ring->head_id - 1) % COUNT].state_var;
		*state ^= changes[i];
		if (i == 1)
			ck_assert_uint_eq(*state >> 62, 3);
		begin_walk();
		ck_assert(lnx_log_previous(&walk, &message));
		expect(0, 100, 6, "first");
		expect_end(2);
	}
}
END_TEST

START_TEST(committed_message_counts_while_more_may_be_added_to_it)
{
	const uint32_t at = lg_log_add(&made.g, 1, 6, "to be continued");

	made.g.log.desc[at].state_var ^= UINT64_C(3) << 62;
	ck_assert_uint_eq(made.g.log.desc[at].state_var >> 62, 1);
	begin_walk();
	expect(0, 1, 6, "to be continued");
}
END_TEST

START_TEST(text_that_belongs_to_another_message_is_skipped)
{
	add_three();
	uint64_t *owner =
		(void *)(made.g.log.data +
			 made.g.log.desc[(made.g.log.ring->head_id - 1) % COUNT].begin % SIZE);
	*owner += 1;
	begin_walk();
	ck_assert(lnx_log_previous(&walk, &message));
	expect(0, 100, 6, "first");
	expect_end(2);
}
END_TEST

START_TEST(message_that_is_not_older_than_the_one_after_it_is_skipped)
{
	add_three();
	made.g.log.info[(made.g.log.ring->head_id - 1) % COUNT].seq = 2;
	begin_walk();
	ck_assert(lnx_log_previous(&walk, &message));
	expect(0, 100, 6, "first");
	expect_end(2);
}
END_TEST

START_TEST(text_is_never_longer_than_its_block)
{
	const uint32_t at = lg_log_add(&made.g, 1, 6, "sixteen bytes !!");

	made.g.log.info[at].text_len = UINT16_MAX;
	begin_walk();
	expect(0, 1, 6, "sixteen bytes !!");
}
END_TEST

static void expect_begin(enum gs_code rc)
{
	ck_assert_int_eq(lnx_log_begin(&walk, &view), rc);
}

START_TEST(ring_that_makes_no_sense_is_refused)
{
	struct lg_ring *r = made.g.log.ring;
	const struct lg_ring good = *r;
	static const uint32_t bits[] = { 0, 3, 27, 32, 64, UINT32_MAX };
	static const uint64_t pointers[] = { 0, 8, LG_LINEAR - 8, ~UINT64_C(7), ~UINT64_C(0) };

	for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
		r->count_bits = bits[i];
		expect_begin(GS_EMALFORMED);
		r->count_bits = good.count_bits;
		r->size_bits = bits[i] == 27 ? 9 : bits[i];
		expect_begin(GS_EMALFORMED);
		*r = good;
	}
	for (size_t i = 0; i < ARRAY_SIZE(pointers); i++) {
		r->descs = pointers[i];
		expect_begin(GS_EMALFORMED);
		*r = good;
		r->infos = pointers[i];
		expect_begin(GS_EMALFORMED);
		*r = good;
		r->data = pointers[i];
		expect_begin(GS_EMALFORMED);
		*r = good;
	}
	expect_begin(GS_OK);
}
END_TEST

START_TEST(pointer_to_nothing_is_refused)
{
	uint64_t *prb = lg_image(&made.g, LG_PRB);
	const uint64_t ring = *prb;

	*prb = 0;
	expect_begin(GS_EMALFORMED);
	*prb = ring + 4;
	expect_begin(GS_EMALFORMED);
	*prb = LG_LINEAR + (UINT64_C(1) << 40); // no RAM
	expect_begin(GS_EFAULT);
	lg_unmap(&made.g, lg_image_va(&made.g, LG_PRB));
	lnx_view_init(&view, made.k, &made.g.m.guest);
	expect_begin(GS_EFAULT);
}
END_TEST

START_TEST(parts_that_are_not_mapped_leave_no_message)
{
	const uint64_t parts[] = { made.g.log.ring->descs, made.g.log.ring->infos,
				   made.g.log.ring->data };

	lg_log_add(&made.g, 1, 6, "text");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const uint64_t entry = *lg_entry(&made.g, made.g.swapper, parts[i]);

		lg_unmap(&made.g, parts[i]);
		lnx_view_init(&view, made.k, &made.g.m.guest);
		begin_walk();
		ck_assert(!lnx_log_previous(&walk, &message));
		*lg_entry(&made.g, made.g.swapper, parts[i]) = entry;
	}
}
END_TEST

// However far apart head and tail are said to be.
START_TEST(walk_ends)
{
	struct lg_ring *r = made.g.log.ring;
	uint32_t n = 0;

	r->count_bits = 26;
	r->tail_id = r->head_id + 1;
	begin_walk();
	while (lnx_log_previous(&walk, &message))
		ck_assert_uint_le(++n, LNX_LOG_MESSAGES_MAX);
	ck_assert_uint_le(n + walk.skipped, LNX_LOG_MESSAGES_MAX);
}
END_TEST

static void expect_inside(void)
{
	if (message.size)
		ck_assert_msg(
			gs_in_range(message.text.a, message.size, made.g.log.ring->data, SIZE),
			"%#" PRIx64 " + %" PRIu32, message.text.a, message.size);
}

// Whatever bytes are overwritten, no text leaves its ring, and numbers descend.
START_TEST(hostile_rings_stay_inside)
{
	uint64_t state = 42;
	char text[64];

	for (uint32_t i = 0; i < 60; i++) {
		numbered(i, text);
		lg_log_add(&made.g, i, 6, text);
	}
	for (int round = 0; round < 3000; round++) {
		struct lg_desc *d = &made.g.log.desc[prng(&state) % COUNT];
		const struct lg_desc good = *d;
		uint64_t *word = &d->state_var + prng(&state) % 3, seq = UINT64_MAX;

		*word = prng(&state) & 1 ? prng(&state) : *word ^ UINT64_C(1) << prng(&state) % 64;
		begin_walk();
		while (lnx_log_previous(&walk, &message)) {
			expect_inside();
			ck_assert_uint_lt(message.seq, seq);
			seq = message.seq;
		}
		*d = good;
	}
}
END_TEST

static const char *const members[] = {
	"printk_ringbuffer.count_bits",
	"printk_ringbuffer.descs",
	"printk_ringbuffer.infos",
	"printk_ringbuffer.head_id",
	"printk_ringbuffer.tail_id",
	"printk_ringbuffer.size_bits",
	"printk_ringbuffer.data",
	"prb_desc.state_var",
	"prb_desc.text_blk_lpos",
	"prb_desc.begin",
	"prb_desc.next",
	"printk_info.seq",
	"printk_info.ts_nsec",
	"printk_info.text_len",
	"printk_info.facility",
	"printk_info.flags",
	"printk_info.caller_id",
	"printk_info.dev_info",
	"printk_ringbuffer",
	"prb_desc",
	"printk_info",
};

START_TEST(kernel_that_lacks_a_member_has_no_log)
{
	const struct typeinfo_form types = { .omit = members[_i] };

	done();
	begin_form(&(struct lg_form){ .types = &types });
	expect_begin(GS_ENOENT);
}
END_TEST

Suite *suite_log(void)
{
	Suite *s = suite_create("log");
	TCase *tc = tcase_create("log");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, begin, done);
	tcase_add_test(tc, messages_come_newest_first);
	tcase_add_test(tc, log_is_found_with_and_without_symbols_of_data);
	tcase_add_test(tc, empty_log_has_no_message);
	tcase_add_test(tc, rings_that_go_round_give_the_newest_messages_whole);
	tcase_add_test(tc, text_that_just_fits_is_found_where_either_kernel_has_it);
	tcase_add_test(tc, descriptors_that_have_no_message_are_skipped);
	tcase_add_test(tc, committed_message_counts_while_more_may_be_added_to_it);
	tcase_add_test(tc, text_that_belongs_to_another_message_is_skipped);
	tcase_add_test(tc, message_that_is_not_older_than_the_one_after_it_is_skipped);
	tcase_add_test(tc, text_is_never_longer_than_its_block);
	tcase_add_test(tc, ring_that_makes_no_sense_is_refused);
	tcase_add_test(tc, pointer_to_nothing_is_refused);
	tcase_add_test(tc, parts_that_are_not_mapped_leave_no_message);
	tcase_add_test(tc, walk_ends);
	tcase_add_test(tc, hostile_rings_stay_inside);
	tcase_add_loop_test(tc, kernel_that_lacks_a_member_has_no_log, 0, (int)ARRAY_SIZE(members));
	suite_add_tcase(s, tc);
	return s;
}
