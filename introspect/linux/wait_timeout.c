/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: the end of schedule_timeout(), in the kernel's ticks. */
#include "introspect/linux/finder.h"
#include "introspect/linux/hunt.h"

/* Instructions of jiffies_to_usecs() that are looked through. */
#define CODE_MAX 16
/* Kernels tick 100 to 1,000 times a second (kernel/Kconfig.hz); some more are believed. */
#define TICK_NS_MIN UINT64_C(100000)
#define TICK_NS_MAX UINT64_C(42000000)

/* MOVZ Wd, #imm16 and MUL Wd, Wn, Wm (DDI 0487J.a, C6.2) */
#define IS_MOVZ(word) (((word)&0xffe00000) == 0x52800000)
#define IS_MUL(word)  (((word)&0xffe0fc00) == 0x1b007c00)

/* The clocksource that counts ticks multiplies by their length. */
static uint64_t tick_of_clock(struct lnx_view *v)
{
	const struct lnx_kernel *k = v->k;
	uint64_t clock;
	uint32_t mult, shift;

	if (!lnx_has(k, LNX_M_CLOCK_MULT, 4) || !lnx_has(k, LNX_M_CLOCK_SHIFT, 4) ||
	    kallsyms_find(&k->ks, "clocksource_jiffies", &clock) ||
	    lnx_read_u32(v, lnx_member_of(k, GVA(clock), LNX_M_CLOCK_MULT), &mult) ||
	    lnx_read_u32(v, lnx_member_of(k, GVA(clock), LNX_M_CLOCK_SHIFT), &shift) || shift > 16)
		return 0;
	return mult >> shift;
}

/* Where data has no symbols: a function that multiplies by nothing but microseconds of a tick. */
static uint64_t tick_of_code(struct lnx_view *v)
{
	uint32_t code[CODE_MAX];
	uint64_t start, tick_us = 0;

	if (kallsyms_find(&v->k->ks, "jiffies_to_usecs", &start) ||
	    lnx_read(v, GVA(start), code, sizeof(code)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(code); i++) {
		if (IS_MOVZ(code[i])) {
			if (tick_us)
				return 0;
			tick_us = BITS(code[i], 20, 5);
		} else if (IS_MUL(code[i])) {
			return tick_us * 1000;
		} else if (a64_decode(code[i], 0).kind == A64_INSN_RET) {
			return 0;
		}
	}
	return 0;
}

void lnx_find_tick(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t tick_ns = tick_of_clock(v);

	if (!tick_ns)
		tick_ns = tick_of_code(v);
	k->tick_ns = tick_ns >= TICK_NS_MIN && tick_ns <= TICK_NS_MAX ? tick_ns : 0;
}

/* Milliseconds from now on; what is due is so by 0. */
static uint64_t left_ms(const struct hunt *h, uint64_t expires)
{
	const struct lnx_kernel *k = h->v->k;
	const gva_t at = k->variable[LNX_V_JIFFIES];
	uint64_t now, left_ns;

	if (!k->tick_ns || !at.a || lnx_read_u64(h->v, at, &now))
		return LNX_TIMEOUT_UNKNOWN;
	if ((int64_t)(expires - now) <= 0)
		return 0;
	return gs_mul(expires - now, k->tick_ns, &left_ns) ? left_ns / 1000000
							   : LNX_TIMEOUT_UNKNOWN;
}

/* Timers are in lists without a head of their own: what leads to one does so from both sides. */
static bool is_pending(const struct hunt *h, uint64_t node)
{
	uint64_t next, prev, forth, back;

	return hunt_local_word(h, node, &next) && hunt_local_word(h, node + HUNT_PREV, &prev) &&
	       hunt_remote(h, prev, &forth) && forth == node &&
	       (!next || (hunt_remote(h, next + HUNT_PREV, &back) && back == node));
}

void hunt_timeout(struct hunt *h, uint64_t timer)
{
	uint64_t function, expires;

	if (hunt_local(h, timer, LNX_M_TIMEOUT_FUNCTION, &function) &&
	    hunt_local(h, timer, LNX_M_TIMEOUT_EXPIRES, &expires) &&
	    is_pending(h, timer + hunt_offset(h, LNX_M_TIMEOUT_NODE)) &&
	    hunt_is_function(h, function, "process_timeout"))
		hunt_add(h, LNX_WAIT_TIMEOUT, timer, GVA(0), left_ms(h, expires));
}
