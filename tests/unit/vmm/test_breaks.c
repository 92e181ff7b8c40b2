/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of breaks: which are hardware's, and what becomes of the guest's text. */
#include "tests/unit/vmm/vmm_tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "vmm/breaks.h"

#define RAM_BASE UINT64_C(0x40000000)
#define TEXT_VA	 UINT64_C(0xffff800008000000)
#define WORDS	 64u
#define NOP	 0xd503201fu
#define STP	 0xa9bf7bfdu /* stp x29, x30, [sp, #-16]! */
#define RET	 0xd65f03c0u
#define KPROBE	 0xd4200080u /* brk #4 */

static uint32_t text[WORDS];

static struct vmm_breaks_ram ram_make(void)
{
	for (uint32_t i = 0; i < WORDS; i++)
		text[i] = i % 8 == 0 ? STP : i % 8 == 7 ? RET : NOP;
	return (struct vmm_breaks_ram){ RAM_BASE, (uint8_t *)text, sizeof(text) };
}

static struct guest_break at(uint32_t word)
{
	return (struct guest_break){ .va = TEXT_VA + word * 4,
				     .at = GPA(RAM_BASE + word * 4),
				     .key = word };
}

static void on_hit(void *arg, const struct guest_hit *hit)
{
	(void)arg;
	(void)hit;
}

/* The set before, and a place that is there no more. */
static const struct vmm_breaks *before_set;
static uint64_t gone_va;

static bool is_there(void *arg, const struct guest_break *where)
{
	(void)arg;
	return where->va != gone_va;
}

static enum gs_code make(const struct guest_break *list, uint32_t count, uint32_t hardware,
			 struct vmm_breaks_ram *ram, struct vmm_breaks **b, struct gs_error *err)
{
	const struct guest_break_set set = {
		.list = list, .count = count, .on_hit = on_hit, .is_there = is_there
	};

	return vmm_breaks_make(&set, before_set, ram, hardware, b, err);
}

START_TEST(breaks_are_written_and_the_text_is_as_before)
{
	struct guest_break list[] = { at(7), at(2), at(9), at(1) };
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *b;
	uint32_t before[WORDS];

	memcpy(before, text, sizeof(text));
	ck_assert_int_eq(make(list, 4, 0, &ram, &b, NULL), GS_OK);
	ck_assert(!memcmp(before, text, sizeof(text)));
	vmm_breaks_plant(b, &ram);
	for (uint32_t i = 0; i < WORDS; i++) {
		bool is_break = i == 7 || i == 2 || i == 9 || i == 1;
		const struct vmm_break *found = vmm_breaks_find(b, TEXT_VA + i * 4);

		ck_assert_uint_eq(text[i], is_break ? GUEST_BREAK_INSN : before[i]);
		ck_assert_int_eq(found != NULL, is_break);
		if (found) {
			ck_assert_uint_eq(found->insn, before[i]);
			ck_assert_uint_eq(found->where.key, i);
			ck_assert_uint_eq(vmm_breaks_insn(found, &ram), before[i]);
		}
	}
	ck_assert_ptr_null(vmm_breaks_find(b, TEXT_VA + 5));
	ck_assert_uint_eq(vmm_breaks_remove(b, &ram), 0);
	ck_assert(!memcmp(before, text, sizeof(text)));
	free(b);
	ck_assert_ptr_null(vmm_breaks_find(NULL, TEXT_VA));
}
END_TEST

START_TEST(hardware_is_for_what_cannot_be_executed_first)
{
	struct guest_break list[] = { at(1), at(2), at(8), at(16), at(17) };
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *b;

	ck_assert_int_eq(make(list, 5, 3, &ram, &b, NULL), GS_OK);
	ck_assert_uint_eq(b->hardware, 3);
	ck_assert(vmm_breaks_find(b, TEXT_VA + 32)->is_hardware);
	ck_assert(vmm_breaks_find(b, TEXT_VA + 64)->is_hardware);
	ck_assert(vmm_breaks_find(b, TEXT_VA + 4)->is_hardware);
	vmm_breaks_plant(b, &ram);
	ck_assert_uint_eq(text[1], NOP);
	ck_assert_uint_eq(text[2], GUEST_BREAK_INSN);
	ck_assert_uint_eq(text[8], STP);
	ck_assert_uint_eq(text[17], GUEST_BREAK_INSN);
	// the guest may put something there: it is seen
	text[8] = KPROBE;
	ck_assert_uint_eq(vmm_breaks_insn(vmm_breaks_find(b, TEXT_VA + 32), &ram), KPROBE);
	ck_assert_uint_eq(vmm_breaks_remove(b, &ram), 0);
	ck_assert_uint_eq(text[8], KPROBE);
	free(b);

	struct gs_error err = { 0 };
	ram = ram_make();
	ck_assert_int_eq(make(list, 5, 1, &ram, &b, &err), GS_ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.text, "0xffff800008000040"));
	ck_assert_ptr_nonnull(strstr(err.text, "hardware"));
}
END_TEST

START_TEST(what_the_guest_wrote_stays)
{
	struct guest_break list[] = { at(1), at(2), at(3) };
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *b;

	ck_assert_int_eq(make(list, 3, 0, &ram, &b, NULL), GS_OK);
	vmm_breaks_plant(b, &ram);
	text[2] = KPROBE;
	ck_assert_uint_eq(vmm_breaks_remove(b, &ram), 1);
	ck_assert_uint_eq(text[1], NOP);
	ck_assert_uint_eq(text[2], KPROBE);
	ck_assert_uint_eq(text[3], NOP);
	free(b);
}
END_TEST

START_TEST(the_guest_puts_its_own_over_ours)
{
	struct guest_break list[] = { at(1), at(2), at(3) };
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *old, *b;

	ck_assert_int_eq(make(list, 3, 1, &ram, &old, NULL), GS_OK);
	vmm_breaks_plant(old, &ram);
	ck_assert(vmm_breaks_find(old, TEXT_VA + 4)->is_hardware);
	text[1] = text[2] = KPROBE;
	ck_assert_uint_eq(vmm_breaks_remove(old, &ram), 1);
	// what was there stays: in hardware, or by way of the guest's own
	before_set = old;
	ck_assert_int_eq(make(list, 3, 1, &ram, &b, NULL), GS_OK);
	ck_assert_uint_eq(b->hardware, 1);
	ck_assert(vmm_breaks_find(b, TEXT_VA + 4)->is_hardware);
	ck_assert(vmm_breaks_find(b, TEXT_VA + 8)->is_guests);
	vmm_breaks_plant(b, &ram);
	ck_assert_uint_eq(text[1], KPROBE);
	ck_assert_uint_eq(text[2], KPROBE);
	ck_assert_uint_eq(text[3], GUEST_BREAK_INSN);
	ck_assert_uint_eq(vmm_breaks_remove(b, &ram), 0);
	ck_assert_uint_eq(text[2], KPROBE);
	ck_assert_uint_eq(text[3], NOP);
	// one that is new is refused, and what was in force comes back but for where the guest wrote
	struct vmm_breaks *none;
	struct guest_break more[] = { at(3), at(4) };
	text[4] = KPROBE;
	ck_assert_int_eq(make(more, 2, 1, &ram, &none, NULL), GS_EBUSY);
	vmm_breaks_plant(old, &ram);
	ck_assert_uint_eq(text[2], KPROBE);
	ck_assert_uint_eq(text[3], GUEST_BREAK_INSN);
	free(b);
	free(old);
}
END_TEST

START_TEST(memory_that_is_somebody_elses_is_left_alone)
{
	struct guest_break list[] = { at(1), at(2) };
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *b;

	ck_assert_int_eq(make(list, 2, 0, &ram, &b, NULL), GS_OK);
	vmm_breaks_plant(b, &ram);
	gone_va = TEXT_VA + 4;
	ck_assert_uint_eq(vmm_breaks_remove(b, &ram), 0);
	ck_assert_uint_eq(text[1], GUEST_BREAK_INSN);
	ck_assert_uint_eq(text[2], NOP);
	text[1] = NOP; // whatever it holds now
	vmm_breaks_plant(b, &ram);
	ck_assert_uint_eq(text[1], NOP);
	ck_assert_uint_eq(text[2], GUEST_BREAK_INSN);
	free(b);
}
END_TEST

START_TEST(bad_places_are_refused)
{
	struct guest_break odd = at(1), outside = at(1), end = at(1);
	odd.va++;
	outside.at = GPA(RAM_BASE - 4);
	end.at = GPA(RAM_BASE + sizeof(text));
	struct guest_break twice[] = { at(1), at(2), at(1) };
	const struct {
		const struct guest_break *list;
		uint32_t count;
		enum gs_code want;
	} bad[] = {
		{ &odd, 1, GS_EINVAL },
		{ &outside, 1, GS_EFAULT },
		{ &end, 1, GS_EFAULT },
		{ twice, 3, GS_EINVAL },
		{ twice, GUEST_BREAKS_MAX + 1, GS_ETOOBIG },
	};
	struct vmm_breaks_ram ram = ram_make();

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct gs_error err = { 0 };
		struct vmm_breaks *b;

		ck_assert_int_eq(make(bad[i].list, bad[i].count, 6, &ram, &b, &err), bad[i].want);
		ck_assert_uint_ne(err.text[0], 0);
	}
}
END_TEST

START_TEST(instructions_that_cannot_be_passed_are_refused)
{
	struct guest_break one = at(1);
	struct vmm_breaks_ram ram = ram_make();
	struct vmm_breaks *b;

	text[1] = KPROBE;
	ck_assert_int_eq(make(&one, 1, 6, &ram, &b, NULL), GS_EBUSY);
	text[1] = 0xd69f03e0; // eret
	ck_assert_int_eq(make(&one, 1, 6, &ram, &b, NULL), GS_ENOTSUP);
	ck_assert(guest_insn_is_brk(GUEST_BREAK_INSN));
	ck_assert(guest_insn_is_brk(KPROBE));
	ck_assert(!guest_insn_is_brk(NOP));
}
END_TEST

TCase *breaks_case(void)
{
	TCase *c = tcase_create("breaks");

	tcase_add_test(c, breaks_are_written_and_the_text_is_as_before);
	tcase_add_test(c, hardware_is_for_what_cannot_be_executed_first);
	tcase_add_test(c, what_the_guest_wrote_stays);
	tcase_add_test(c, the_guest_puts_its_own_over_ours);
	tcase_add_test(c, memory_that_is_somebody_elses_is_left_alone);
	tcase_add_test(c, bad_places_are_refused);
	tcase_add_test(c, instructions_that_cannot_be_passed_are_refused);
	return c;
}
