/* SPDX-License-Identifier: Apache-2.0 */
/* Random registers, tables and addresses: same answer as a slow walk after the Arm pseudocode. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "introspect/guest/memory_guest.h"
#include "tests/unit/arm64/suites.h"

#define RAM_SIZE 0x100000
#define ROUNDS	 300000

static uint64_t ram[RAM_SIZE / 8];
static struct memory_guest memory;
static uint64_t ram_start;

static uint64_t random_state = 0x9e3779b97f4a7c15;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(uint64_t n)
{
	return (random64() >> 16) % n;
}

// x<hi:lo> of the pseudocode, a bit at a time; empty when hi < lo
static uint64_t slice(uint64_t x, int hi, int lo)
{
	uint64_t out = 0;

	for (int i = hi; i >= lo; i--)
		out = out << 1 | (x >> i & 1);
	return out;
}

enum tgx { TGX_4KB, TGX_16KB, TGX_64KB, TGX_RESERVED };

struct params { /* S1TTWParams */
	enum tgx tgx;
	int txsz, granulebits, stride, iasize, startlevel;
	bool ds, lpa, tbi, epd;
};

// AArch64.GetS1TTWParamsEL10, AArch64.S1StartLevel; false: no legal configuration
static bool get_params(struct params *p, uint64_t tcr, bool upper)
{
	static const enum tgx tg0[] = { TGX_4KB, TGX_64KB, TGX_16KB, TGX_RESERVED };
	static const enum tgx tg1[] = { TGX_RESERVED, TGX_16KB, TGX_4KB, TGX_64KB };

	p->tgx = upper ? tg1[slice(tcr, 31, 30)] : tg0[slice(tcr, 15, 14)];
	p->txsz = (int)(upper ? slice(tcr, 21, 16) : slice(tcr, 5, 0));
	p->epd = upper ? slice(tcr, 23, 23) : slice(tcr, 7, 7);
	p->tbi = upper ? slice(tcr, 38, 38) : slice(tcr, 37, 37);
	if (p->tgx == TGX_RESERVED)
		return false;
	p->ds = p->tgx != TGX_64KB && slice(tcr, 59, 59);
	p->lpa = p->tgx == TGX_64KB && slice(tcr, 34, 32) == 6;

	int mintxsz = p->tgx == TGX_64KB || p->ds ? 12 : 16;
	int maxtxsz = p->tgx == TGX_64KB ? 47 : 48;
	if (p->txsz < mintxsz || p->txsz > maxtxsz)
		return false;
	p->granulebits = p->tgx == TGX_4KB ? 12 : p->tgx == TGX_16KB ? 14 : 16;
	p->stride = p->granulebits - 3;
	p->iasize = 64 - p->txsz;
	p->startlevel = 3 - (p->iasize - 1 - p->granulebits) / p->stride;
	return true;
}

// AArch64.S1TTBaseAddress
static uint64_t table_base(const struct params *p, uint64_t ttbr)
{
	int levels = 3 - p->startlevel;
	int tsize = p->iasize - (levels * p->stride + p->granulebits) + 3;
	uint64_t base;

	if (p->ds || p->lpa) {
		tsize = tsize < 6 ? 6 : tsize;
		base = slice(ttbr, 5, 2) << 48 | slice(ttbr, 47, 6) << 6;
	} else {
		base = slice(ttbr, 47, 1) << 1;
	}
	return slice(base, 63, tsize) << tsize;
}

// AArch64.LeafBase; the same for the next table with the granule as @lsb
static uint64_t leaf_base(const struct params *p, uint64_t descriptor, int lsb)
{
	uint64_t base = slice(descriptor, 47, lsb) << lsb;

	if (p->lpa)
		return base | slice(descriptor, 15, 12) << 48;
	if (p->ds)
		return base | slice(descriptor, 9, 8) << 50 | slice(descriptor, 49, 48) << 48;
	return base;
}

// AArch64.BlockDescSupported
static bool block_supported(const struct params *p, int level)
{
	switch (p->tgx) {
	case TGX_4KB: return (level == 0 && p->ds) || level == 1 || level == 2;
	case TGX_16KB: return (level == 1 && p->ds) || level == 2;
	case TGX_64KB: return (level == 1 && p->lpa) || level == 2;
	case TGX_RESERVED: break;
	}
	return false;
}

static enum a64_fault reference(uint64_t tcr, const uint64_t ttbr[2], uint64_t va, uint64_t *pa,
				uint64_t *left, int *level_out)
{
	bool upper = slice(va, 55, 55);
	struct params p;

	if (!get_params(&p, tcr, upper) || p.epd)
		return A64_DISABLED;
	int top = p.tbi ? 55 : 63;
	uint64_t above = slice(va, top, p.iasize);
	if (above != (upper ? slice(~UINT64_C(0), top, p.iasize) : 0))
		return A64_NOT_CANONICAL;

	uint64_t base = table_base(&p, ttbr[upper]);
	int msb = p.iasize - 1;
	for (int level = p.startlevel; level <= 3; level++) {
		int lsb = (3 - level) * p.stride + p.granulebits;
		uint64_t at = base | slice(va, msb, lsb) << 3;

		if (at < ram_start || at - ram_start >= RAM_SIZE)
			return A64_TABLE_NOT_RAM;
		uint64_t descriptor = ram[(at - ram_start) / 8];
		uint64_t type = slice(descriptor, 1, 0);
		if (!(type & 1))
			return A64_NOT_MAPPED;
		if (level == 3 ? type == 1 : type == 1 && !block_supported(&p, level))
			return A64_RESERVED;
		if (level == 3 || type == 1) {
			*pa = leaf_base(&p, descriptor, lsb) | slice(va, lsb - 1, 0);
			*left = (UINT64_C(1) << lsb) - slice(va, lsb - 1, 0);
			*level_out = level;
			return A64_OK;
		}
		base = leaf_base(&p, descriptor, p.granulebits);
		msb = lsb - 1;
	}
	return A64_FAULTS; // the last level has returned
}

// A descriptor or TTBR that mostly leads into RAM, in whatever format the regime may have.
static uint64_t random_pointer(void)
{
	uint64_t high = ram_start >> 48, noise = random64();
	uint64_t pa = (ram_start & 0xffffffffffff) + below(RAM_SIZE / 0x1000) * 0x1000;

	switch (below(8)) {
	case 0: return noise;
	case 1: return pa | (noise & 0xfff0000000000ff0); // no bits 51:48
	case 2: return pa | high << 2;			  // TTBR
	case 3: return (pa & ~UINT64_C(0xffff)) | high << 12;
	default: return pa | (high & 3) << 48 | (high >> 2) << 8 | (noise & 0xfffc000000000cf0);
	}
}

static uint64_t random_tcr(void)
{
	static const uint64_t sizes[] = { 12, 13, 15, 16, 17, 22, 25, 28, 39, 43, 47, 48 };
	uint64_t tcr = random64();

	// few disabled halves and illegal sizes, or nothing else would be tried
	if (below(8))
		tcr &= ~UINT64_C(0x800080);
	if (below(8)) {
		tcr &= ~UINT64_C(0x3f003f);
		tcr |= sizes[below(ARRAY_SIZE(sizes))] | sizes[below(ARRAY_SIZE(sizes))] << 16;
	}
	if (below(2))
		tcr = (tcr & ~(UINT64_C(7) << 32)) | UINT64_C(6) << 32;
	return tcr;
}

static uint64_t random_va(uint64_t tcr)
{
	uint64_t va = random64();
	bool upper = below(2);
	unsigned int bits = 64 - (unsigned int)(upper ? BITS(tcr, 21, 16) : BITS(tcr, 5, 0));

	if (bits < 64 && below(16)) {
		uint64_t low = (UINT64_C(1) << bits) - 1;
		va = upper ? va | ~low : va & low;
	}
	return below(8) ? va : va ^ random64() << 56;
}

/* A walk in two parts has the answer of one in one. */
static void check_two_parts(const struct a64_regime *r, uint64_t va, enum a64_fault fault,
			    const struct a64_mapping *m)
{
	struct a64_mapping again = { 0 };
	gpa_t table;

	if (!a64_last_table(r, &memory.guest, GVA(va), &table)) {
		ck_assert(fault != A64_OK || m->level < 3 ||
			  r->half[BIT(va, 55)].va_bits < a64_last_table_bits(r, GVA(va)));
		return;
	}
	ck_assert_int_eq(a64_translate_last(r, &memory.guest, table, GVA(va), &again), fault);
	ck_assert_int_eq(memcmp(&again, m, sizeof(again)), 0);
	// the same table for its first and last byte
	unsigned int bits = a64_last_table_bits(r, GVA(va));
	uint64_t first = va >> bits << bits, last = first + (UINT64_C(1) << bits) - 1;
	gpa_t other;
	ck_assert(a64_last_table(r, &memory.guest, GVA(first), &other) && other.a == table.a);
	ck_assert(a64_last_table(r, &memory.guest, GVA(last), &other) && other.a == table.a);
	ck_assert_uint_eq(a64_last_entry(r, table, GVA(first)).a, table.a);
	gpa_t entry = a64_last_entry(r, table, GVA(last));
	// a page of 8-byte descriptors, each for a page
	ck_assert_uint_eq(entry.a - table.a, (UINT64_C(1) << (bits + 3) / 2) - 8);
}

START_TEST(random_walks_agree_with_the_pseudocode)
{
	static const uint64_t starts[] = { 0, 0x40000000, 0x0007000040000000, 0x000fffffffe00000 };
	unsigned int seen[A64_FAULTS] = { 0 };

	for (unsigned int i = 0; i < ROUNDS; i++) {
		if (i % 1000 == 0) {
			ram_start = starts[i / 1000 % ARRAY_SIZE(starts)];
			for (size_t k = 0; k < ARRAY_SIZE(ram); k++)
				ram[k] = random_pointer() | (below(8) ? 3 : below(4));
			memory_guest_init(&memory, 0);
			ck_assert_int_eq(memory_guest_add(&memory, GPA(ram_start), ram, RAM_SIZE),
					 GS_OK);
		}
		uint64_t tcr = random_tcr(), va = random_va(tcr);
		const uint64_t ttbr[2] = { random_pointer(), random_pointer() };
		struct a64_regime r;
		struct a64_mapping m = { 0 };
		uint64_t pa = 0, left = 0;
		int level = 0;

		enum gs_code rc = a64_regime_init(&r, tcr, ttbr[0], ttbr[1]);
		ck_assert_int_eq(rc,
				 r.half[0].enabled || r.half[1].enabled ? GS_OK : GS_EMALFORMED);
		enum a64_fault fault = a64_translate(&r, &memory.guest, GVA(va), &m);
		enum a64_fault expected = reference(tcr, ttbr, va, &pa, &left, &level);
		ck_assert_msg(
			fault == expected && m.pa.a == pa && m.left == left && m.level == level,
			"tcr %#" PRIx64 ", va %#" PRIx64 ", round %u: %s %#" PRIx64
			", not %s %#" PRIx64,
			tcr, va, i, a64_fault_name(fault), m.pa.a, a64_fault_name(expected), pa);
		check_two_parts(&r, va, fault, &m);
		seen[fault]++;
	}
	// the property is worth something only if all answers occur
	for (int i = 0; i < A64_NOT_RAM; i++)
		ck_assert_msg(seen[i] > ROUNDS / 200, "%s: %u", a64_fault_name((enum a64_fault)i),
			      seen[i]);
}
END_TEST

Suite *suite_reference(void)
{
	Suite *s = suite_create("reference");
	TCase *tc = tcase_create("reference");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, random_walks_agree_with_the_pseudocode);
	suite_add_tcase(s, tc);
	return s;
}
