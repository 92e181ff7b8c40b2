/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in modules: named when it is sure that they are in that module, and only then. */
#include <string.h>

#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define ONE  LG_MODULE
#define TWO  (LG_MODULE + 0x10000)
#define INIT (LG_MODULE + 0x20000)

static struct lg_loaded one, two;

static void expect_frames(const char *const *names)
{
	const struct view_thread *t = view_thread(&view, 102);

	for (uint32_t i = 0; names[i]; i++) {
		ck_assert_uint_lt(i, t->frames.count);
		ck_assert_str_eq(view_name(&view, t, i), names[i]);
	}
}

#define FRAMES(...) expect_frames((const char *const[]){ __VA_ARGS__, NULL })

static void load(void)
{
	one = lg_load_module(&guest, "one", ONE);
	lg_module_symbol(&one, "one_open", ONE + 0x40);
	lg_module_symbol(&one, "one_read", ONE + 0x100);
	lg_module_symbol(&one, LG_NAME_64, ONE + 0x800);
	two = lg_load_module(&guest, "two", TWO);
	lg_module_init_text(&guest, &two, INIT);
	lg_module_symbol(&two, "two_init", INIT);
	lg_module_symbol(&two, "two_work", TWO);
}

static void setup_form(const struct lg_form *form)
{
	session_make(form);

	struct lg_thread *t = &guest.threads[4];
	const uint64_t frames[] = { INIT + 0x20, TWO + 0x10, ONE + 0x900, ONE + 0x120,
				    ONE + 0x100 };

	load();
	lg_stack_reset(&guest, t);
	lg_push(&guest, t, lg_in(&guest, "kthread"));
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		lg_push(&guest, t, frames[i]);
	t->task->fp = t->fp;
}

static void setup(void)
{
	setup_form(&(struct lg_form){ 0 });
}

static void expect_named(void)
{
	session_capture_all();
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "one_open+0xc0 [one]", "one_read+0x20 [one]",
	       LG_NAME_64 "+0x100 [one]", "two_work+0x10 [two]", "two_init+0x20 [two]",
	       "kthread+0x14");
}

START_TEST(frames_in_modules_have_their_functions)
{
	expect_named();
	// three parts, and each function once
	ck_assert_uint_eq(view.modules, 3);
	ck_assert_str_eq(view.module[0].name, "one");
	ck_assert_uint_eq(view.module[0].start, ONE);
	ck_assert_uint_eq(view.module[0].size, 0x1000);
	ck_assert_uint_eq(view.module[0].flags, 0);
	ck_assert_int_eq(view.module[0].build_id[0], 'o');
	ck_assert_uint_eq(view.module[1].start, TWO);
	ck_assert_uint_eq(view.module[1].flags, 0);
	ck_assert_uint_eq(view.module[2].start, INIT);
	ck_assert_uint_eq(view.module[2].flags, SS_MODULE_INIT);
	for (uint32_t i = 1; i < view.symbols; i++)
		ck_assert_uint_ne(view.symbol[i - 1].start, view.symbol[i].start);
}
END_TEST

START_TEST(frames_in_modules_of_all_kinds_of_kernels_have_their_functions)
{
	static const struct typeinfo_form mem = { .mem = true };
	static const struct lg_form forms[] = {
		{ .old = true },
		{ .style = 'B', .data_symbols = true, .types = &mem },
		{ .style = 'C', .meta = true, .data_symbols = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		session_end();
		setup_form(&forms[i]);
		expect_named();
	}
}
END_TEST

START_TEST(modules_without_frames_are_not_recorded)
{
	lg_load_module(&guest, "idle", LG_MODULE + 0x40000);
	expect_named();
	ck_assert_uint_eq(view.modules, 3);
	lg_block(&guest, &guest.threads[4], (const char *const[]){ "kthread", NULL });
	session_capture_all();
	ck_assert_uint_eq(view.modules, 0);
}
END_TEST

/* --- BPF programs ----------------------------------------------------------------------------- */

#define PROGRAM (LG_MODULE + 0x80000)

static struct lg_bpf_ksym *program;
static uint64_t program_at;

static void load_program(void)
{
	program = lg_load_program(&guest, "bpf_prog_6deef7357e7b4530", PROGRAM + 4, 0x400,
				  &program_at);
}

/* Its frame is the innermost one; a module's is behind it. */
static void push_program(void)
{
	lg_load_program(&guest, "bpf_prog_0123456789abcdef_idle", PROGRAM + 0x600, 0x100,
			&program_at); // no frame lies in it
	load_program();
	lg_push(&guest, &guest.threads[4], PROGRAM + 0x24);
	guest.threads[4].task->fp = guest.threads[4].fp;
}

START_TEST(frames_in_programs_have_their_names)
{
	push_program();
	session_capture_all();
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "bpf_prog_6deef7357e7b4530+0x20 [bpf]",
	       "one_open+0xc0 [one]");
	ck_assert_uint_eq(view.modules, 4);
	ck_assert_str_eq(view.module[3].name, "bpf");
	ck_assert_uint_eq(view.module[3].start, PROGRAM + 4);
	ck_assert_uint_eq(view.module[3].size, 0x400);
	ck_assert_uint_eq(view.module[3].flags, SS_MODULE_BPF);
}
END_TEST

START_TEST(programs_are_named_where_there_are_no_modules)
{
	lg_unload_module(&guest, &one);
	lg_unload_module(&guest, &two);
	push_program();
	session_capture_all();
	FRAMES("__sched_text_start+0x14", "bpf_prog_6deef7357e7b4530+0x20 [bpf]",
	       "0xffff800001000100");
}
END_TEST

START_TEST(module_without_symbols_is_named_all_the_same)
{
	one.m->kallsyms = 0;
	session_capture_all();
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "0xffff800001000100 [one]", "0xffff800001000120 [one]",
	       "0xffff800001000900 [one]", "two_work+0x10 [two]");
}
END_TEST

/* The guest's own doing while nobody looks: between the look at the list and the stop, or behind it. */
static void (*change)(void);

static enum gs_code do_change(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	if (change)
		change();
	change = NULL;
	return GS_OK;
}

static void unload_one(void)
{
	lg_unload_module(&guest, &one);
}

static void replace_one(void)
{
	lg_unload_module(&guest, &one);
	one = lg_load_module(&guest, "new", ONE);
	lg_module_symbol(&one, "new_function", ONE);
}

/* In the same memory: the structure of the new one lies where that of the old one was. */
static void replace_one_in_place(void)
{
	strcpy(one.m->name, "new");
	strcpy(one.strtab + one.symtab[1].st_name, "new_open");
}

static void take_pages_of_one(void)
{
	lg_unmap(&guest, one.address);
}

static void unload_program(void)
{
	const struct lg_list list = program->lnode;

	*lg_word(&guest, list.next + 8) = list.prev;
	*lg_word(&guest, list.prev) = list.next;
}

/* In the same memory, too. */
static void replace_program(void)
{
	program->name[strlen("bpf_prog_")] ^= 1;
}

static void take_pages_of_program(void)
{
	lg_unmap(&guest, program_at);
}

static void (*const program_changes[])(void) = { unload_program, replace_program,
						 take_pages_of_program };

static void expect_no_program(void (*what)(void))
{
	session_capture_all();
	change = what;
	session_capture_all();
	ck_assert_ptr_null(change);
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "0xffff800001080024", "one_open+0xc0 [one]");
}

START_TEST(program_that_goes_before_the_stop_has_no_name)
{
	push_program();
	guest.on_stop = do_change;
	expect_no_program(program_changes[_i]);
}
END_TEST

START_TEST(program_that_goes_after_the_stop_has_no_name)
{
	push_program();
	guest.on_resume = do_change;
	expect_no_program(program_changes[_i]);
}
END_TEST

START_TEST(program_that_comes_before_the_stop_has_no_name)
{
	push_program();
	unload_program();
	guest.on_stop = do_change;
	expect_no_program(load_program);
}
END_TEST

static void expect_none_of_one(void (*what)(void))
{
	session_capture_all(); // the kernel is found: there is one stop from here on
	change = what;
	session_capture_all();
	ck_assert_ptr_null(change);
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "0xffff800001000100", "0xffff800001000120",
	       "0xffff800001000900");
}

static void (*const changes[])(void) = { unload_one, replace_one, replace_one_in_place,
					 take_pages_of_one };

START_TEST(module_that_goes_before_the_stop_names_nothing)
{
	guest.on_stop = do_change;
	expect_none_of_one(changes[_i]);
}
END_TEST

START_TEST(module_that_goes_after_the_stop_names_nothing)
{
	guest.on_resume = do_change;
	expect_none_of_one(changes[_i]);
}
END_TEST

START_TEST(module_that_comes_before_the_stop_names_nothing)
{
	lg_unload_module(&guest, &one);
	guest.on_stop = do_change;
	expect_none_of_one(load);
}
END_TEST

START_TEST(other_modules_keep_their_names)
{
	session_capture_all();
	guest.on_resume = do_change;
	change = take_pages_of_one;
	two.m->list.prev = two.m->list.next = 0; // found through the first one, and then not
	session_capture_all();
	ck_assert_uint_eq(view.modules, 0);
	session_end();
	setup();
	lg_unload_module(&guest, &one);
	session_capture_all();
	FRAMES("__sched_text_start+0x14", "0xffff800001000100", "0xffff800001000120",
	       "0xffff800001000900", "two_work+0x10 [two]", "two_init+0x20 [two]");
}
END_TEST

START_TEST(tables_of_any_size_end)
{
	one.kallsyms->num_symtab = LNX_MODULE_SYMBOLS_MAX;
	two.kallsyms->num_symtab = UINT32_MAX;
	session_capture_all();
	ck_assert(result.complete);
	FRAMES("__sched_text_start+0x14", "0xffff800001000100 [one]", "0xffff800001000120 [one]",
	       "0xffff800001000900 [one]", "0xffff800001010010 [two]");
}
END_TEST

static bool is_right(const char *name, const char *right)
{
	return strcmp(name, right) == 0 || strncmp(name, "0x", 2) == 0;
}

START_TEST(any_read_that_fails_costs_names_and_gives_no_wrong_ones)
{
	static const char *const right[] = { "one_open+0xc0 [one]", "one_read+0x20 [one]",
					     LG_NAME_64 "+0x100 [one]", "two_work+0x10 [two]",
					     "two_init+0x20 [two]" };
	uint32_t whole = 0, named = 0;

	lg_unmap_host(&guest);
	session_capture_all();
	for (uint64_t n = 1;; n++) {
		guest.reads = 0;
		guest.fail_first = guest.fail_last = n;
		ck_assert_int_eq(session_capture(SS_PID_ALL), GS_OK);
		if (guest.reads < n)
			break;
		for (uint32_t i = 0; i < view.threads; i++) {
			const struct view_thread *t = &view.thread[i];

			if (t->r.tid != 102 || t->frames.count != ARRAY_SIZE(right) + 2)
				continue;
			whole++;
			for (uint32_t f = 0; f < ARRAY_SIZE(right); f++) {
				const char *name = view_name(&view, t, f + 1);

				ck_assert_msg(is_right(name, right[f]), "read %d: %s", (int)n,
					      name);
				named += !strcmp(name, right[f]);
			}
		}
	}
	ck_assert_uint_gt(whole, 100);
	ck_assert_uint_gt(named, whole * 2);
	ck_assert_uint_lt(named, whole * ARRAY_SIZE(right));
}
END_TEST

START_TEST(panic_capture_names_modules)
{
	struct ss_request q = session_request(SS_PID_ALL);

	session_capture_all();
	q.flags |= KCD_SS_FROM_PANIC;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	FRAMES("__sched_text_start+0x14", "one_open+0xc0 [one]");
}
END_TEST

Suite *suite_modules(void)
{
	Suite *s = suite_create("modules");
	TCase *tc = tcase_create("modules");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, session_end);
	tcase_add_test(tc, frames_in_modules_have_their_functions);
	tcase_add_test(tc, frames_in_modules_of_all_kinds_of_kernels_have_their_functions);
	tcase_add_test(tc, modules_without_frames_are_not_recorded);
	tcase_add_test(tc, frames_in_programs_have_their_names);
	tcase_add_test(tc, programs_are_named_where_there_are_no_modules);
	tcase_add_loop_test(tc, program_that_goes_before_the_stop_has_no_name, 0,
			    ARRAY_SIZE(program_changes));
	tcase_add_loop_test(tc, program_that_goes_after_the_stop_has_no_name, 0,
			    ARRAY_SIZE(program_changes));
	tcase_add_test(tc, program_that_comes_before_the_stop_has_no_name);
	tcase_add_test(tc, module_without_symbols_is_named_all_the_same);
	tcase_add_loop_test(tc, module_that_goes_before_the_stop_names_nothing, 0,
			    ARRAY_SIZE(changes));
	tcase_add_loop_test(tc, module_that_goes_after_the_stop_names_nothing, 0,
			    ARRAY_SIZE(changes));
	tcase_add_test(tc, module_that_comes_before_the_stop_names_nothing);
	tcase_add_test(tc, other_modules_keep_their_names);
	tcase_add_test(tc, tables_of_any_size_end);
	tcase_add_test(tc, any_read_that_fails_costs_names_and_gives_no_wrong_ones);
	tcase_add_test(tc, panic_capture_names_modules);
	suite_add_tcase(s, tc);
	return s;
}
