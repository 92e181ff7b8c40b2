/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of frames: the window, regions outside of it, pseudo frames, cut stacks. */
#include <string.h>

#include "introspect/btlog/priv.h"
#include "tests/unit/btlog/suites.h"

static uint32_t get_one(struct btl_library *lib, uint64_t frame)
{
	uint32_t ref;

	ck_assert_int_eq(btl_get(lib, &frame, 1, 0, &ref), GS_OK);
	return ref;
}

/* What a frame comes out as; @p word_out: its 32 bits. */
static uint64_t round_trip(struct btl_library *lib, uint64_t frame, uint32_t *word_out)
{
	uint32_t ref = get_one(lib, frame);
	struct btl_stack stack;

	ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_OK);
	ck_assert_uint_eq(stack.count, 1);
	*word_out = btl_entry_of(lib, ref)->frame0;
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	return stack.frame[0];
}

START_TEST(frames_in_the_window_are_distances)
{
	struct btl_library *lib = library(0);
	const struct {
		uint64_t frame;
		uint32_t word;
	} cases[] = {
		{ BASE, 0x00000000 },
		{ BASE + 4, 0x00000004 },
		{ BASE + 0x123454, 0x00123454 },
		{ BASE + 0x123454 + BTL_FRAME_EXACT, 0x00123456 },
		{ BASE - 4, 0xfffffffc },
		{ BASE - 0x20000000, 0xe0000000 },
		{ BASE + 0x7ffffffc, 0x7ffffffc },
		{ BASE + 0x7ffffffc + BTL_FRAME_EXACT, 0x7ffffffe },
		{ BASE - 0x80000000ull, 0x80000000 },
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t word;

		ck_assert_uint_eq(round_trip(lib, cases[i].frame, &word), cases[i].frame);
		ck_assert_uint_eq(word, cases[i].word);
	}
	ck_assert_uint_eq(stats_of(lib).regions, 0);
	close_library(lib);
}
END_TEST

START_TEST(frames_elsewhere_are_places_in_regions)
{
	struct btl_library *lib = library(0);
	const struct {
		uint64_t frame;
		uint32_t word;
		uint32_t regions;
	} cases[] = {
		{ BASE + 0x80000000ull, 0x00000001, 1 },
		{ BASE + 0x801ffffcull, 0x001ffffd, 1 },
		{ BASE + 0x801ffffcull + BTL_FRAME_EXACT, 0x001fffff, 1 },
		{ BASE + 0x80200000ull, 0x00200001, 2 },
		{ BASE - 0x80000004ull, 0x005ffffd, 3 },
		{ UINT64_C(0xffff000012345678), 3u << 21 | 0x145678 | 1, 4 },
		{ UINT64_C(0xfffffffffffffffc), 0x009ffffd, 5 },
		{ UINT64_C(0x200000), 0x00a00001, 6 },
	};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t word;

		ck_assert_uint_eq(round_trip(lib, cases[i].frame, &word), cases[i].frame);
		ck_assert_uint_eq(word, cases[i].word);
		ck_assert_uint_eq(stats_of(lib).regions, cases[i].regions);
	}
	close_library(lib);
}
END_TEST

START_TEST(pseudo_frames_keep_their_code)
{
	struct btl_library *lib = library(0);
	uint32_t word;

	const uint64_t codes[] = { BTL_PSEUDO_UNKNOWN, BTL_PSEUDO_USER, BTL_PSEUDO_BROKEN,
				   BTL_PSEUDO_CODES - 1 };
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t frame = BTL_FRAME_PSEUDO(codes[i]);

		ck_assert(btl_frame_is_pseudo(frame));
		ck_assert_uint_eq(round_trip(lib, frame, &word), frame);
		ck_assert_uint_eq(word, 2047u << 21 | codes[i] << 2 | 1);
	}
	/* what can be no instruction's address */
	ck_assert_uint_eq(round_trip(lib, BASE + 1, &word), BTL_FRAME_PSEUDO(BTL_PSEUDO_UNKNOWN));
	ck_assert_uint_eq(round_trip(lib, 0, &word), BTL_FRAME_PSEUDO(BTL_PSEUDO_UNKNOWN));
	ck_assert_uint_eq(stats_of(lib).frames_unknown, 1);
	ck_assert_str_eq(btl_pseudo_name(BTL_FRAME_PSEUDO(BTL_PSEUDO_USER)), "[user]");
	ck_assert_str_eq(btl_pseudo_name(BTL_FRAME_PSEUDO(77)), "[?]");
	ck_assert(!btl_frame_is_pseudo(BASE));
	close_library(lib);
}
END_TEST

START_TEST(regions_beyond_the_last_one_are_lost_and_counted)
{
	struct btl_library *lib = library(0);
	uint32_t word;

	for (uint64_t i = 0; i < BTL_REGIONS_MAX; i++) {
		uint64_t frame = UINT64_C(0xffff000000000000) + (i << 21) + 0x100;

		ck_assert_uint_eq(round_trip(lib, frame, &word), frame);
	}
	ck_assert_uint_eq(stats_of(lib).frames_lost, 0);
	uint64_t one_more = UINT64_C(0xffff000000000000) + ((uint64_t)BTL_REGIONS_MAX << 21);
	ck_assert_uint_eq(round_trip(lib, one_more, &word), BTL_FRAME_PSEUDO(BTL_PSEUDO_LOST));
	ck_assert_uint_eq(stats_of(lib).frames_lost, 1);
	ck_assert_uint_eq(stats_of(lib).regions, BTL_REGIONS_MAX);
	/* those that are known still work */
	ck_assert_uint_eq(round_trip(lib, UINT64_C(0xffff000000000004), &word),
			  UINT64_C(0xffff000000000004));
	close_library(lib);
}
END_TEST

/* Each position of each length: packing works in pairs. */
START_TEST(every_frame_of_every_length_counts)
{
	struct btl_library *lib = library(0);

	for (uint32_t count = 0; count <= BTL_FRAMES_MAX; count++) {
		uint64_t frames[BTL_FRAMES_MAX];
		uint32_t ref, other;
		struct btl_stack stack;

		for (uint32_t i = 0; i < BTL_FRAMES_MAX; i++)
			frames[i] = BASE + (i % 3 == 2 ? UINT64_C(1) << 33 : 0) + 0x1000 * i + 8;
		ck_assert_int_eq(btl_get(lib, frames, count, 0, &ref), GS_OK);
		ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_OK);
		ck_assert_uint_eq(stack.count, count);
		ck_assert_mem_eq(stack.frame, frames, count * sizeof(*frames));
		for (uint32_t i = 0; i < BTL_FRAMES_MAX; i++) {
			frames[i] += 4;
			ck_assert_int_eq(btl_get(lib, frames, count, 0, &other), GS_OK);
			if (i < count)
				ck_assert_uint_ne(other, ref);
			else
				ck_assert_uint_eq(other, ref);
			frames[i] -= 4;
		}
	}
	btl_library_destroy(lib);
}
END_TEST

START_TEST(a_cut_stack_is_another_one)
{
	struct btl_library *lib = library(0);
	uint64_t frames[64];
	uint32_t whole, cut, deeper, told;
	struct btl_stack stack;

	for (uint32_t i = 0; i < 64; i++)
		frames[i] = BASE + 0x100 * i;
	ck_assert_int_eq(btl_get(lib, frames, 13, 0, &whole), GS_OK);
	ck_assert_int_eq(btl_get(lib, frames, 14, 0, &cut), GS_OK);
	ck_assert_int_eq(btl_get(lib, frames, 64, 0, &deeper), GS_OK);
	ck_assert_int_eq(btl_get(lib, frames, 13, BTL_GET_CUT, &told), GS_OK);
	ck_assert_uint_ne(whole, cut);
	ck_assert_uint_eq(cut, deeper);
	ck_assert_uint_eq(cut, told);
	ck_assert_int_eq(btl_stack_copy(lib, whole, &stack), GS_OK);
	ck_assert(!stack.cut);
	ck_assert_int_eq(btl_stack_copy(lib, cut, &stack), GS_OK);
	ck_assert(stack.cut);
	ck_assert_uint_eq(stack.count, 13);
	ck_assert_mem_eq(stack.frame, frames, 13 * sizeof(*frames));
	ck_assert_uint_eq(stack.references, 3);
	btl_library_destroy(lib);
}
END_TEST

START_TEST(functions_are_looked_for_by_the_call)
{
	ck_assert_uint_eq(btl_frame_code(BASE + 0x10), BASE + 0xc);
	ck_assert_uint_eq(btl_frame_code((BASE + 0x10) | BTL_FRAME_EXACT), BASE + 0x10);
	ck_assert_uint_eq(btl_frame_address((BASE + 0x10) | BTL_FRAME_EXACT), BASE + 0x10);
}
END_TEST

Suite *suite_frames(void)
{
	Suite *s = suite_create("frames");
	TCase *tc = tcase_create("frames");

	tcase_add_test(tc, frames_in_the_window_are_distances);
	tcase_add_test(tc, frames_elsewhere_are_places_in_regions);
	tcase_add_test(tc, pseudo_frames_keep_their_code);
	tcase_add_test(tc, regions_beyond_the_last_one_are_lost_and_counted);
	tcase_add_test(tc, every_frame_of_every_length_counts);
	tcase_add_test(tc, a_cut_stack_is_another_one);
	tcase_add_test(tc, functions_are_looked_for_by_the_call);
	suite_add_tcase(s, tc);
	return s;
}
