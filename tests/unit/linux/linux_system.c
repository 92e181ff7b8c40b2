/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of a made-up Linux guest as a whole: variables, the code that uses them, the log. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <string.h>

#define INSN_RET      0xd65f03c0u
#define LOG_ID_MASK   (~UINT64_C(0) >> 2)
#define LOG_FINALIZED (UINT64_C(2) << 62)
#define LOG_REUSABLE  (UINT64_C(3) << 62)
#define LOG_MESSAGES  (1u << LG_LOG_COUNT)
#define LOG_BYTES     (UINT64_C(1) << LG_LOG_SIZE)

static uint32_t *code_of(struct linux_guest *g, const char *function, uint64_t *pc_out)
{
	*pc_out = lg_symbol(g, function);
	return lg_image(g, *pc_out - lg_image_va(g, 0));
}

/* What Debian's 6.1 does in these functions, with other variables beside. */
static void make_system_code(struct linux_guest *g)
{
	const uint64_t taint = lg_image_va(g, LG_TAINT), panic = lg_image_va(g, LG_PANIC_CPU);
	const uint64_t page = taint & ~UINT64_C(4095);
	uint64_t pc;
	uint32_t *code = code_of(g, "get_taint", &pc);

	(void)lg_put_address(code, pc, 0, page); // adrp; the add is written over
	code[1] = 0xf9400000u | (uint32_t)((taint - page) / 8) << 10; // ldr x0, [x0, #…]
	code[2] = INSN_RET;

	code = code_of(g, "nmi_panic", &pc);
	code = lg_put_address(code, pc, 2, lg_image_va(g, LG_PERCPU)); // this CPU's number
	code = lg_put_address(code, pc + 8, 3, panic - 0x10);
	*code++ = 0x91000000u | 0x10 << 10 | 3 << 5 | 0; // add x0, x3, #0x10
	*code++ = 0x88e4fc02;				 // casal w4, w2, [x0]
	*code++ = INSN_RET;
	code = lg_put_address(code, pc + 28, 4, panic);
	*code++ = 0x885f7c83; // ldxr w3, [x4]
	*code++ = INSN_RET;

	code = code_of(g, "log_buf_vmcoreinfo_setup", &pc);
	code = lg_put_address(code, pc, 20, lg_image_va(g, LG_PRB - 0x10));
	code = lg_put_address(code, pc + 8, 19, lg_image_va(g, LG_BANNER));
	*code++ = 0x91000000u | 0x10 << 10 | 20 << 5 | 2; // add x2, x20, #0x10
	*code++ = INSN_RET;
}

/* kretprobe_hash_lock() of 5.10: the table is in the middle of something, its locks are behind it. */
static void make_kretprobe_code(struct linux_guest *g)
{
	uint64_t pc;
	uint32_t *code = code_of(g, "kretprobe_hash_lock", &pc);

	code = lg_put_address(code, pc, 3, lg_image_va(g, LG_KRETPROBES - 0x208));
	*code++ = 0x91000000u | 0x208 << 10 | 3 << 5 | 3; // add x3, x3, #0x208
	code = lg_put_address(code, pc + 12, 2, lg_image_va(g, LG_KRETPROBES + 0x400));
	*code++ = 0x8b000c63; // add x3, x3, x0, lsl #3
	*code++ = 0xf9000023; // str x3, [x1]
	*code++ = 0x8b001840; // add x0, x2, x0, lsl #6
	*code++ = INSN_RET;
}

/* adrp and ldr of a variable into x16. */
static void put_load(uint32_t *code, uint64_t pc, uint64_t variable)
{
	const uint64_t page = variable & ~UINT64_C(4095);

	(void)lg_put_address(code, pc, 16, page);
	code[1] = 0xf9400210u | (uint32_t)((variable - page) / 8) << 10; // ldr x16, [x16, #…]
}

/* arch/arm64/kernel/efi-rt-wrapper.S as 6.12 has it. */
static void make_efi_code(struct linux_guest *g)
{
	static const uint32_t wrapper[] = {
		0xd503245f, // bti c
		0xa9b97bfd, // stp x29, x30, [sp, #-112]!
		0x910003fd, // mov x29, sp
		0xa9014be1, 0xa90253f3, 0xa9035bf5, 0xa90463f7, 0xa9056bf9, 0xa90673fb,
		0xd503201f, 0xd503201f, // adrp, ldr
		0x9100021f,		// mov sp, x16
		0xa9bf77f2,		// stp x18, x29, [sp, #-16]!
		0xaa0003e8, 0xaa0203e0, 0xaa0303e1, 0xaa0403e2, 0xaa0503e3, 0xaa0603e4,
		0xd63f0100, // blr x8
		0x910003f0, // mov x16, sp
		0x910003bf, // mov sp, x29
		0xf900061f, // str xzr, [x16, #8]
		0xa8c77bfd, // ldp x29, x30, [sp], #112
		INSN_RET,
	};
	static const uint32_t recover[] = {
		0x910003df,		// mov sp, x30
		0xd503201f, 0xd503201f, // adrp, ldr
		0xf81f821f,		// stur xzr, [x16, #-8]
		0xa94253f3,		// ldp x19, x20, [sp, #32]
		0xa8c77bfd,		// ldp x29, x30, [sp], #112
		INSN_RET,
	};
	const uint64_t variable = lg_image_va(g, LG_EFI_STACK);
	uint64_t pc;
	uint32_t *code = code_of(g, "__efi_rt_asm_wrapper", &pc);

	_Static_assert(LG_EFI_RETURN / 4 < ARRAY_SIZE(wrapper), "it is in there");
	memcpy(code, wrapper, sizeof(wrapper));
	put_load(code + 9, pc + 36, variable);
	code = code_of(g, "__efi_rt_asm_recover", &pc);
	memcpy(code, recover, sizeof(recover));
	put_load(code + 1, pc + 4, variable);
}

void lg_create_system(struct linux_guest *g)
{
	const uint32_t none = UINT32_MAX;

	make_system_code(g);
	make_efi_code(g);
	if (g->form.old)
		make_kretprobe_code(g);
	memcpy(lg_image(g, LG_PANIC_CPU), &none, sizeof(none));
}

void lg_log_create(struct linux_guest *g)
{
	// each in a page of its own, so that one can be taken away
	const uint64_t ring = lg_pages(g, 1), desc = lg_pages(g, 1), info = lg_pages(g, 1),
		       data = lg_pages(g, 1);
	const uint64_t pointer = lg_linear(g, ring),
		       first = (0 - (uint64_t)LOG_MESSAGES - 1) & LOG_ID_MASK;

	_Static_assert(LOG_MESSAGES * sizeof(struct lg_info) <= 4096 && LOG_BYTES <= 4096,
		       "pages are enough");
	g->log = (struct lg_log){ lg_at(g, ring), lg_at(g, desc), lg_at(g, info), lg_at(g, data),
				  0 - LOG_BYTES };
	*g->log.ring = (struct lg_ring){ .count_bits = LG_LOG_COUNT,
					 .descs = lg_linear(g, desc),
					 .infos = lg_linear(g, info),
					 .head_id = first,
					 .tail_id = first,
					 .size_bits = LG_LOG_SIZE,
					 .data = lg_linear(g, data) };
	// as the kernel begins: one descriptor, which has no message
	g->log.desc[first % LOG_MESSAGES] = (struct lg_desc){ LOG_REUSABLE | first, 1, 1 };
	memcpy(lg_image(g, LG_PRB), &pointer, sizeof(pointer));
}

/* Texts that are written over are gone. */
static void make_room(struct linux_guest *g, uint64_t lowest)
{
	struct lg_log *log = &g->log;

	for (uint32_t i = 0; i < LOG_MESSAGES; i++)
		if (log->desc[i].state_var >> 62 == 2 && !(log->desc[i].begin & 1) &&
		    (int64_t)(log->desc[i].begin - lowest) < 0)
			log->desc[i].state_var |= LOG_REUSABLE;
}

uint32_t lg_log_add(struct linux_guest *g, uint64_t time_ns, uint8_t level, const char *text)
{
	struct lg_log *log = &g->log;
	const uint64_t id = (log->ring->head_id + 1) & LOG_ID_MASK, len = strlen(text);
	const uint64_t size = gs_align_up(8 + len, 8), begin = log->next;
	const bool wraps = begin / LOG_BYTES != (begin + size - 1) / LOG_BYTES;
	const uint64_t next =
		(wraps ? (begin + LOG_BYTES - 1) / LOG_BYTES * LOG_BYTES : begin) + size;
	uint8_t *block = log->data + (wraps ? 0 : begin % LOG_BYTES);
	const uint32_t at = (uint32_t)(id % LOG_MESSAGES),
		       before = (uint32_t)((id - 1) % LOG_MESSAGES);

	make_room(g, next - LOG_BYTES);
	if (((id - log->ring->tail_id) & LOG_ID_MASK) >= LOG_MESSAGES)
		log->ring->tail_id = (log->ring->tail_id + 1) & LOG_ID_MASK;
	memcpy(block, &id, 8);
	memcpy(block + 8, text, len);
	log->desc[at] = (struct lg_desc){ LOG_FINALIZED | id, begin, next };
	log->info[at] = (struct lg_info){
		.seq = log->ring->head_id == ((0 - (uint64_t)LOG_MESSAGES - 1) & LOG_ID_MASK)
			       ? 0
			       : log->info[before].seq + 1,
		.ts_nsec = time_ns,
		.text_len = (uint16_t)len,
		.facility = 3,
		.flags = (uint8_t)(level << 5 | 2),
		.caller_id = 77
	};
	log->ring->head_id = id;
	if (len)
		log->next = next;
	else
		log->desc[at].begin = log->desc[at].next = 3; // an empty line takes no room
	return at;
}
