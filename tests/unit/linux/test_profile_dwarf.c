/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made of DWARF, as the compiler at hand writes it. */
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "introspect/linux/layouts.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/profile_json.h"
#include "tests/unit/linux/suites.h"

/* Structures of a kernel: compiled here, for their offsets, and by the tests, as text. */
/* clang-format off */
#define STRUCTURES \
	struct list_head { struct list_head *next, *prev; }; \
	typedef struct list_head links; \
	typedef const volatile links more_links; \
	struct thread_info { unsigned long flags; unsigned cpu; }; \
	struct cpu_context { unsigned long x19[10], fp, sp, pc; }; \
	struct thread_struct { struct cpu_context cpu_context; unsigned long rest; }; \
	struct sched_entity { long load; unsigned long exec_start, sum_exec_runtime; }; \
	struct task_struct { \
		struct thread_info thread_info; \
		union { struct { unsigned __state; void *stack; }; long both[2]; }; \
		unsigned flags, on_cpu, bits : 3; \
		int prio, static_prio; \
		unsigned rt_priority, policy; \
		struct sched_entity se; \
		more_links tasks; \
		void *mm; \
		int exit_state; \
		struct { union { struct { int pid, tgid; }; }; }; \
		struct task_struct *real_parent, *group_leader; \
		links thread_node; \
		unsigned long utime, stime, nvcsw, nivcsw, start_time, start_boottime; \
		unsigned long min_flt, maj_flt; \
		char comm[2][8]; \
		struct signal_struct *signal; \
		struct thread_struct thread; \
	}; \
	struct signal_struct { int count; struct list_head thread_head; }; \
	struct pt_regs { unsigned long regs[31], sp, pc, pstate, stackframe[2]; }; \
	struct rq { int nr_running; struct task_struct *curr, *idle; int cpu; }; \
	struct mm_struct { \
		struct { char gap[24]; void *pgd; struct { long gap2; long id; } context; }; \
	}; \
	enum zone_stat_item { NR_FREE_PAGES = 1, NR_ZSPAGES = 7 }; \
	enum node_stat_item { NR_INACTIVE_ANON, NR_ACTIVE_ANON, NR_INACTIVE_FILE, NR_ACTIVE_FILE, \
			      NR_UNEVICTABLE, NR_SLAB_UNRECLAIMABLE_B = 6, NR_FILE_PAGES = 1023 }
/* clang-format on */

STRUCTURES;

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(x)	     TEXT_OF(x)

#define BANNER	 "Linux version 5.15.0-made-up (someone@somewhere) #1 SMP"
#define BUILD_ID "0102030405060708090a0b0c0d0e0f1011121314"

static const char source[] =
	TEXT(STRUCTURES) ";\n"
			 "struct task_struct a_task; struct signal_struct a_signal; struct pt_regs "
			 "some_regs;\n"
			 "struct rq an_rq; struct mm_struct an_mm;\n"
			 "enum zone_stat_item a_zone_item; enum node_stat_item a_node_item;\n"
			 "const char linux_banner[512] = \"" BANNER "\\n\";\n"
			 "#define VARIABLE(name, size) \".globl \" #name \"\\n.size \" #name \", "
			 "\" #size \"\\n\" "
			 "#name \": .zero \" #size \"\\n\"\n"
			 "__asm__(\".data\\n.balign 8\\n\" VARIABLE(__per_cpu_start, 40) "
			 "VARIABLE(__entry_task, 8)\n"
			 "VARIABLE(runqueues, 24) VARIABLE(irq_stack_ptr, 8) "
			 "VARIABLE(overflow_stack, 4096) VARIABLE(sdei_stack_normal_ptr, 8) "
			 "VARIABLE(sdei_stack_critical_ptr, 8));\n";

static struct lnx_profile *profile;
static struct gs_error err;

/* --- the compiler ----------------------------------------------------------------------------- */

struct object {
	uint8_t *bytes;
	size_t size;
};

static struct object read_object(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	struct object o = { malloc((size_t)st.st_size), (size_t)st.st_size };
	ck_assert_ptr_nonnull(o.bytes);
	ck_assert_int_eq(read(fd, o.bytes, o.size), (ssize_t)o.size);
	close(fd);
	return o;
}

/* Compile and link; the machine is said to be ARM64, which has the same layouts. */
static struct object compile(const char *text, const char *options)
{
	char path[] = "/tmp/guestshot-dwarf.XXXXXX", command[512];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	snprintf(command, sizeof(command),
		 "gcc -x c -w %s -fPIC -shared -nostdlib -Wl,--build-id=0x" BUILD_ID " -o %s -",
		 options, path);
	FILE *to = popen(command, "w");
	ck_assert_ptr_nonnull(to);
	ck_assert_int_ge(fputs(text, to), 0);
	ck_assert_msg(pclose(to) == 0, "%s", command);
	struct object o = read_object(path);
	unlink(path);
	((Elf64_Ehdr *)(void *)o.bytes)->e_machine = EM_AARCH64;
	return o;
}

static enum gs_code make_of(const struct object *o, size_t size)
{
	struct image_file f = image_file_make(o->bytes, size);
	char *text = NULL;

	err = (struct gs_error){ 0 };
	profile = NULL;
	enum gs_code rc = lnx_profile_make(f.path, &text, &err);
	if (!rc)
		ck_assert_msg(!profile_open_text(text, strlen(text), &profile, &err), "%s",
			      err.text);
	image_file_close(&f);
	free(text);
	return rc;
}

/* --- good ones -------------------------------------------------------------------------------- */

static void expect_member(enum lnx_member m, size_t offset, size_t size)
{
	const struct lnx_field *f = &profile->types.member[m];

	ck_assert_msg(f->present && f->offset == offset && f->size == size,
		      "%s: %d, %u not %zu, %u not %zu", lnx_member_name(m).path, f->present,
		      f->offset, offset, f->size, size);
}

#define EXPECT(m, in, path) \
	expect_member((m), offsetof(struct in, path), sizeof(((struct in *)0)->path))
#define EXPECT_TASK(m, path) EXPECT(LNX_M_TASK_##m, task_struct, path)

static void expect_tasks(void)
{
	EXPECT_TASK(STATE, __state);
	EXPECT_TASK(STACK, stack);
	EXPECT_TASK(FLAGS, flags);
	EXPECT_TASK(ON_CPU, on_cpu);
	EXPECT_TASK(CPU, thread_info.cpu);
	EXPECT_TASK(PRIO, prio);
	EXPECT_TASK(STATIC_PRIO, static_prio);
	EXPECT_TASK(RT_PRIORITY, rt_priority);
	EXPECT_TASK(POLICY, policy);
	EXPECT_TASK(EXEC_START, se.exec_start);
	EXPECT_TASK(SUM_EXEC_RUNTIME, se.sum_exec_runtime);
	EXPECT_TASK(TASKS, tasks);
	EXPECT_TASK(MM, mm);
	EXPECT_TASK(EXIT_STATE, exit_state);
	EXPECT_TASK(PID, pid);
	EXPECT_TASK(TGID, tgid);
	EXPECT_TASK(REAL_PARENT, real_parent);
	EXPECT_TASK(GROUP_LEADER, group_leader);
	EXPECT_TASK(THREAD_NODE, thread_node);
	EXPECT_TASK(UTIME, utime);
	EXPECT_TASK(STIME, stime);
	EXPECT_TASK(NVCSW, nvcsw);
	EXPECT_TASK(NIVCSW, nivcsw);
	EXPECT_TASK(START_TIME, start_time);
	EXPECT_TASK(START_BOOTTIME, start_boottime);
	EXPECT_TASK(MIN_FLT, min_flt);
	EXPECT_TASK(MAJ_FLT, maj_flt);
	EXPECT_TASK(COMM, comm);
	EXPECT_TASK(SIGNAL, signal);
	EXPECT_TASK(CONTEXT_FP, thread.cpu_context.fp);
	EXPECT_TASK(CONTEXT_SP, thread.cpu_context.sp);
	EXPECT_TASK(CONTEXT_PC, thread.cpu_context.pc);
	ck_assert_uint_eq(profile->types.task_size, sizeof(struct task_struct));
}

static void expect_others(void)
{
	EXPECT(LNX_M_SIGNAL_THREAD_HEAD, signal_struct, thread_head);
	EXPECT(LNX_M_PT_REGS_REGS, pt_regs, regs);
	EXPECT(LNX_M_PT_REGS_PC, pt_regs, pc);
	EXPECT(LNX_M_PT_REGS_STACKFRAME, pt_regs, stackframe);
	EXPECT(LNX_M_RQ_IDLE, rq, idle);
	EXPECT(LNX_M_RQ_CPU, rq, cpu);
	EXPECT(LNX_M_RQ_CURR, rq, curr);
	EXPECT(LNX_M_MM_PGD, mm_struct, pgd);
	EXPECT(LNX_M_MM_CONTEXT_ID, mm_struct, context.id);
	ck_assert_uint_eq(profile->types.pt_regs_size, sizeof(struct pt_regs));
	ck_assert(!profile->types.has_frame_record_meta);
}

static void expect_variables(void)
{
	static const struct {
		uint32_t offset, size;
	} wanted[LNX_PERCPUS] = {
		[LNX_P_ENTRY_TASK] = { 40, 8 },	   [LNX_P_RUNQUEUES] = { 48, 24 },
		[LNX_P_IRQ_STACK_PTR] = { 72, 8 }, [LNX_P_OVERFLOW_STACK] = { 80, 4096 },
		[LNX_P_SDEI_NORMAL] = { 4176, 8 }, [LNX_P_SDEI_CRITICAL] = { 4184, 8 },
	};
	static const uint32_t index[LNX_COUNTERS] = {
		[LNX_C_FREE_PAGES] = NR_FREE_PAGES,
		[LNX_C_ACTIVE_ANON] = NR_ACTIVE_ANON,
		[LNX_C_ACTIVE_FILE] = NR_ACTIVE_FILE,
		[LNX_C_INACTIVE_ANON] = NR_INACTIVE_ANON,
		[LNX_C_INACTIVE_FILE] = NR_INACTIVE_FILE,
		[LNX_C_UNEVICTABLE] = NR_UNEVICTABLE,
		[LNX_C_SLAB_UNRECLAIMABLE] = NR_SLAB_UNRECLAIMABLE_B,
		[LNX_C_FILE_PAGES] = NR_FILE_PAGES,
		[LNX_C_ZSPAGES] = NR_ZSPAGES,
	};

	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		const struct lnx_field *f = &profile->types.percpu[p];
		ck_assert_msg(
			f->present && f->offset == wanted[p].offset && f->size == wanted[p].size,
			"%s: %u, %u", lnx_percpu_name((enum lnx_percpu)p), f->offset, f->size);
	}
	for (size_t c = 0; c < LNX_COUNTERS; c++) {
		const struct lnx_element *e = &profile->types.counter[c];
		ck_assert_msg(e->present && e->index == index[c] &&
				      e->of_nodes == (c != LNX_C_FREE_PAGES && c != LNX_C_ZSPAGES),
			      "%s: %u", lnx_counter_name((enum lnx_counter)c), e->index);
	}
}

static const char *const forms[] = { "-gdwarf-5", "-gdwarf-4", "-gdwarf-5 -gz", "-gdwarf-3" };

START_TEST(profile_of_dwarf_is_what_the_compiler_made)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct object o = compile(source, forms[i]);

		ck_assert_msg(make_of(&o, o.size) == GS_OK, "%s: %s", forms[i], err.text);
		expect_tasks();
		expect_others();
		expect_variables();
		ck_assert_str_eq(profile->banner, BANNER);
		ck_assert(profile->has_build_id && profile->build_id[0] == 1 &&
			  profile->build_id[19] == 0x14);
		lnx_profile_destroy(profile);
		free(o.bytes);
	}
}
END_TEST

// Declarations, and a driver's structure of the same name, come first.
START_TEST(other_structures_of_the_same_name_are_left_alone)
{
	char *text;

	ck_assert_int_gt(asprintf(&text,
				  "void f(void) { struct rq { long head, tail; } q; }\n"
				  "struct task_struct; struct task_struct *t;\n%s",
				  source),
			 0);
	struct object o = compile(text, "-gdwarf-5");
	ck_assert_msg(make_of(&o, o.size) == GS_OK, "%s", err.text);
	expect_tasks();
	expect_others();
	lnx_profile_destroy(profile);
	free(o.bytes);
	free(text);
}
END_TEST

/* --- bad ones --------------------------------------------------------------------------------- */

static void expect_bad(const struct object *o, enum gs_code code, const char *why)
{
	enum gs_code rc = make_of(o, o->size);

	ck_assert_msg(rc == code, "%d: %s", rc, err.text);
	ck_assert_msg(strstr(err.text, why), "%s: not %s", err.text, why);
}

START_TEST(what_dwarf_lacks_is_named)
{
	struct object o = compile("struct task_struct { int __state; } a_task;", "-g");

	expect_bad(&o, GS_EMALFORMED, "lacks task_struct.stack");
	free(o.bytes);
	o = compile("int nothing;", "-g");
	expect_bad(&o, GS_EMALFORMED, "lacks task_struct.__state");
	free(o.bytes);
	o = compile(source, "-g0");
	expect_bad(&o, GS_ENOENT, "has no type information: neither DWARF nor BTF");
	free(o.bytes);
	o = compile(source, "-g");
	((Elf64_Ehdr *)(void *)o.bytes)->e_machine = EM_X86_64;
	expect_bad(&o, GS_EMALFORMED, "is not for little-endian ARM64");
	free(o.bytes);
}
END_TEST

/* The entry of a name at the top of the only unit. */
static Dwarf_Die entry_of(Dwarf *dwarf, const char *name)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die top, die;

	ck_assert_int_eq(dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &top, NULL), 0);
	ck_assert_int_eq(dwarf_child(&top, &die), 0);
	while (!dwarf_diename(&die) || strcmp(dwarf_diename(&die), name) != 0)
		ck_assert_int_eq(dwarf_siblingof(&die, &die), 0);
	return die;
}

/* The member without a name. */
static Dwarf_Die anonymous_member_of(Dwarf_Die in)
{
	Dwarf_Die die;

	ck_assert_int_eq(dwarf_child(&in, &die), 0);
	while (dwarf_diename(&die))
		ck_assert_int_eq(dwarf_siblingof(&die, &die), 0);
	return die;
}

/* Have an entry be of another type: a reference of 4 bytes, counted from the unit's start. */
static void set_type(Dwarf_Die die, Dwarf_Die type)
{
	const uint32_t to = (uint32_t)dwarf_cuoffset(&type);
	Dwarf_Attribute a;

	ck_assert_ptr_nonnull(dwarf_attr(&die, DW_AT_type, &a));
	ck_assert_int_eq(dwarf_whatform(&a), DW_FORM_ref4);
	memcpy((void *)a.valp, &to, sizeof(to));
}

/* Compile, change what is there by @p change, and make a profile of it. */
static void expect_bad_change(void (*change)(Dwarf *dwarf), const char *why)
{
	struct object o = compile(source, "-gdwarf-5");
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)o.bytes, o.size); // libdw works on these bytes
	ck_assert_ptr_nonnull(elf);
	Dwarf *dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	ck_assert_ptr_nonnull(dwarf);
	change(dwarf);
	dwarf_end(dwarf);
	elf_end(elf);
	expect_bad(&o, GS_EMALFORMED, why);
	free(o.bytes);
}

static void loop_names(Dwarf *dwarf)
{
	Dwarf_Die links_die = entry_of(dwarf, "links");

	set_type(links_die, links_die);
}

static void loop_two_names(Dwarf *dwarf)
{
	Dwarf_Die links_die = entry_of(dwarf, "links");

	set_type(links_die, entry_of(dwarf, "more_links"));
}

static void loop_structure(Dwarf *dwarf)
{
	Dwarf_Die task = entry_of(dwarf, "task_struct");

	set_type(anonymous_member_of(task), task);
}

START_TEST(types_in_a_circle_end)
{
	expect_bad_change(loop_names, "lacks task_struct.tasks");
	expect_bad_change(loop_two_names, "lacks task_struct.tasks");
	expect_bad_change(loop_structure, "lacks task_struct.__state");
}
END_TEST

START_TEST(arrays_of_huge_counts_do_not_count)
{
	static const char declarations[] =
		"struct task_struct { char __state[0x7fffffffffffffff]; } *a_task;";
	struct object o = compile(declarations, "-g");

	expect_bad(&o, GS_EMALFORMED, "lacks task_struct.__state");
	free(o.bytes);
}
END_TEST

// Units of one empty entry each: 3 MiB of them would have libdw take 60.
START_TEST(units_are_counted)
{
	static const char units[] = "__asm__(\".section .debug_abbrev\\n.byte 0\\n"
				    ".section .debug_info\\n.rept 300000\\n"
				    ".long 8\\n.short 4\\n.long 0\\n.byte 8, 0\\n.endr\");";
	struct object o = compile(units, "-g0");

	expect_bad(&o, GS_EMALFORMED, "has DWARF that does not end");
	free(o.bytes);
}
END_TEST

START_TEST(files_that_are_cut_off_are_refused)
{
	struct object o = compile(source, "-gdwarf-5");

	// the table of sections is at the end
	for (size_t cut = 0; cut < o.size; cut += 61)
		ck_assert_msg(make_of(&o, cut) != GS_OK, "%zu", cut);
	free(o.bytes);
}
END_TEST

START_TEST(mutated_files_are_refused_or_give_a_profile)
{
	struct object o = compile(source, "-gdwarf-5");
	struct object copy = { malloc(o.size), o.size };
	uint64_t seed = 11;
	int good = 0;

	ck_assert_ptr_nonnull(copy.bytes);
	for (int round = 0; round < 3000; round++) {
		memcpy(copy.bytes, o.bytes, o.size);
		for (uint64_t n = 1 + prng_below(&seed, 4); n; n--)
			copy.bytes[64 + prng_below(&seed, o.size - 64)] = (uint8_t)prng(&seed);
		if (make_of(&copy, copy.size) == GS_OK) {
			lnx_profile_destroy(profile);
			good++;
		}
	}
	ck_assert_int_gt(good, 100); // else the mutations are too wild to get anywhere
	ck_assert_int_lt(good, 3000);
	free(copy.bytes);
	free(o.bytes);
}
END_TEST

Suite *suite_profile_dwarf(void)
{
	Suite *s = suite_create("profile_dwarf");
	TCase *tc = tcase_create("profile_dwarf");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, profile_of_dwarf_is_what_the_compiler_made);
	tcase_add_test(tc, other_structures_of_the_same_name_are_left_alone);
	tcase_add_test(tc, what_dwarf_lacks_is_named);
	tcase_add_test(tc, types_in_a_circle_end);
	tcase_add_test(tc, arrays_of_huge_counts_do_not_count);
	tcase_add_test(tc, units_are_counted);
	tcase_add_test(tc, files_that_are_cut_off_are_refused);
	tcase_add_test(tc, mutated_files_are_refused_or_give_a_profile);
	suite_add_tcase(s, tc);
	return s;
}
