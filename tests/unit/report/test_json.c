/* SPDX-License-Identifier: Apache-2.0 */
/* The view for programs: docs/json.md. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/user_memory.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

static json_t *root;

static void show(void)
{
	json_error_t why;

	json_decref(root);
	sample_take();
	sample_load();
	sample_show_all();
	char *text = sample_json();
	root = json_loads(text, JSON_REJECT_DUPLICATES, &why);
	ck_assert_msg(root, "line %d: %s", why.line, why.text);
	ck_assert_int_eq(text[strlen(text) - 1], '\n');
	free(text);
}

static void teardown(void)
{
	json_decref(root);
	root = NULL;
	sample_teardown();
}

/* "a.b.2.c" */
static const json_t *at(const json_t *from, const char *path)
{
	char part[64];

	while (*path) {
		size_t len = strcspn(path, ".");

		snprintf(part, sizeof(part), "%.*s", (int)len, path);
		from = json_is_array(from) ? json_array_get(from, strtoul(part, NULL, 10))
					   : json_object_get(from, part);
		ck_assert_msg(from, "no member %s", path);
		path += len + (path[len] == '.');
	}
	return from;
}

static void is_number(const json_t *from, const char *path, json_int_t value)
{
	ck_assert_msg(json_is_integer(at(from, path)), "%s", path);
	ck_assert_int_eq(json_integer_value(at(from, path)), value);
}

static void is_text(const json_t *from, const char *path, const char *value)
{
	ck_assert_msg(json_is_string(at(from, path)), "%s", path);
	ck_assert_str_eq(json_string_value(at(from, path)), value);
}

static void is_hex(const json_t *from, const char *path, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%#llx", (unsigned long long)value);
	is_text(from, path, value ? text : "0x0");
}

static const json_t *thread(json_int_t tid)
{
	size_t i, k;
	json_t *task, *t;

	json_array_foreach(json_object_get(root, "tasks"), i, task)
	{
		json_array_foreach(json_object_get(task, "threads"), k, t)
		{
			if (json_integer_value(json_object_get(t, "tid")) == tid)
				return t;
		}
	}
	ck_abort_msg("no thread %d", (int)tid);
	return NULL;
}

START_TEST(document_has_what_is_documented_of_the_capture)
{
	static const char *const numbers[] = {
		"usecs_since_epoch",
		"ram_bytes",
		"times.stopped_ns",
		"times.stop_ns",
		"times.collect_ns",
		"times.resume_ns",
		"times.prior_ns",
		"reading.reads",
		"reading.bytes",
		"kernel.symbols",
		"reading.faults.not-mapped",
	};

	show();
	is_number(root, "schema_version", 1);
	const json_t *c = at(root, "capture");
	ck_assert(json_is_true(at(c, "complete")));
	ck_assert_uint_eq(json_array_size(at(c, "missing")), 0);
	ck_assert_uint_eq(strlen(json_string_value(at(c, "taken"))), 20);
	is_text(c, "source", "memory");
	is_number(c, "ram_bytes", LG_RAM_DEFAULT);
	is_number(c, "vcpus", 2);
	is_number(c, "clusters", 1);
	is_number(c, "tasks", 4);
	is_number(c, "threads", 6);
	is_number(c, "tries", 1);
	is_text(c, "kernel.release", "6.1.0-made-up");
	is_text(c, "kernel.banner", "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP");
	is_number(c, "kernel.page_size", 4096);
	is_number(c, "kernel.va_bits", 48);
	is_hex(c, "kernel.text", lg_symbol(&guest, "_stext"));
	is_hex(c, "kernel.voffset", LG_VOFFSET);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		ck_assert_msg(json_is_integer(at(c, numbers[i])), "%s", numbers[i]);
}
END_TEST

START_TEST(document_has_what_is_documented_of_vcpus)
{
	static const char *const registers[] = { "pc",	      "pstate",		"sp_el0",
						 "sp_el1",    "elr_el1",	"spsr_el1",
						 "ttbr0_el1", "ttbr1_el1",	"tcr_el1",
						 "mair_el1",  "sctlr_el1",	"vbar_el1",
						 "tpidr_el1", "contextidr_el1", "mpidr_el1" };

	show();
	const json_t *v = at(root, "vcpus");
	ck_assert_uint_eq(json_array_size(v), 2);
	is_number(v, "0.vcpu", 0);
	is_number(v, "1.vcpu", 1);
	is_number(v, "0.cluster", 0);
	is_text(v, "0.state", "kernel");
	is_text(v, "1.state", "idle");
	is_number(v, "0.current.pid", 100);
	is_number(v, "0.current.tid", 101);
	is_text(v, "0.current.comm", "runner");
	is_text(v, "1.current.comm", "swapper/1");
	ck_assert_uint_eq(json_array_size(at(v, "0.registers.x")), 31);
	is_hex(v, "0.registers.x.29", guest.m.regs[0].x[29]);
	is_hex(v, "0.registers.pc", guest.m.regs[0].pc);
	is_hex(v, "0.registers.mpidr_el1", guest.m.regs[0].mpidr_el1);
	for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
		ck_assert(json_is_string(json_object_get(at(v, "1.registers"), registers[i])));
}
END_TEST

START_TEST(document_has_what_is_documented_of_threads)
{
	guest.threads[1].task->prio = 98;
	show();
	const json_t *t = thread(2);
	is_text(t, "comm", "kthreadd");
	is_text(t, "state", "I");
	is_hex(t, "raw_state", 0x402);
	is_number(t, "flags", LNX_PF_KTHREAD);
	ck_assert(json_is_true(at(t, "kernel_thread")));
	ck_assert(json_is_null(at(t, "vcpu")));
	is_number(t, "cpu", 1);
	is_number(t, "priority.prio", 98);
	is_number(t, "priority.static_prio", 120);
	is_number(t, "priority.rt_priority", 0);
	is_number(t, "priority.policy", 0);
	is_number(t, "run_time.user_ns", 7000002);
	is_number(t, "run_time.system_ns", 3000000);
	is_number(t, "run_time.sum_exec_ns", 10000000);
	is_number(t, "start_ns", 2000500);
	is_number(t, "start_boottime_ns", 2000700);
	is_number(t, "context_switches.voluntary", 5);
	is_number(t, "context_switches.involuntary", 6);
	is_number(t, "page_faults.minor", 8);
	is_number(t, "page_faults.major", 9);
	is_hex(t, "task_struct", guest.threads[1].address);
	is_text(t, "stack_end", "complete");
	ck_assert_uint_eq(json_array_size(at(t, "kernel_backtrace")), 5);
	is_text(t, "kernel_backtrace.2.symbol", "worker_thread");
	is_hex(t, "kernel_backtrace.2.address", lg_in(&guest, "worker_thread"));
	is_number(t, "kernel_backtrace.2.offset", 0x14);
	is_number(t, "kernel_backtrace.2.size", 0x200);
	is_text(t, "kernel_backtrace.2.kind", "return");
	ck_assert(json_is_null(at(t, "kernel_backtrace.2.module")));
	ck_assert_ptr_null(json_object_get(at(t, "kernel_backtrace.2"), "sched"));
	ck_assert(json_is_true(at(t, "kernel_backtrace.1.sched")));
	t = thread(101);
	is_number(t, "vcpu", 0);
	is_text(t, "kernel_backtrace.0.kind", "pc");
	t = thread(200);
	is_text(t, "stack_end", "no stack");
	ck_assert_uint_eq(json_array_size(at(t, "kernel_backtrace")), 0);
}
END_TEST

START_TEST(document_has_what_is_documented_of_tasks)
{
	show();
	const json_t *tasks = at(root, "tasks");
	ck_assert_uint_eq(json_array_size(tasks), 4);
	is_number(tasks, "2.pid", 100);
	is_number(tasks, "2.ppid", 0);
	is_text(tasks, "2.comm", "worker");
	ck_assert_uint_eq(json_array_size(at(tasks, "2.threads")), 3);
	is_number(root, "idle_task.pid", 0);
	is_text(root, "idle_task.comm", "swapper");
	ck_assert_uint_eq(json_array_size(at(root, "idle_task.threads")), 2);
	is_text(root, "idle_task.threads.1.kernel_backtrace.1.kind", "lr");
}
END_TEST

START_TEST(document_says_what_is_missing)
{
	guest.threads[4].task->pc = 0x5000;
	guest.threads[5].task->real_parent = LG_LINEAR + guest.ram_size;
	show();
	const json_t *c = at(root, "capture");
	ck_assert(json_is_false(at(c, "complete")));
	ck_assert_uint_eq(json_array_size(at(c, "missing")), 1);
	is_text(c, "missing.0.what", "stack");
	is_number(c, "missing.0.count", 1);
	is_number(c, "missing.0.pid", 100);
	is_number(c, "missing.0.tid", 102);
	is_hex(c, "missing.0.address", 0x5000);
	is_text(c, "missing.0.reason",
		"kernel stack ends after 0 frames: return address outside of kernel text");
	ck_assert(json_is_null(at(root, "tasks.3.ppid")));
	// a file that breaks off is one more
	ck_assert_int_eq(sample_read(sample, sample_size / 2), GS_OK);
	sample_show_all();
	char *text = sample_json();
	ck_assert_ptr_nonnull(strstr(text, "\"what\": \"file\""));
	free(text);
}
END_TEST

START_TEST(document_without_a_kernel_has_its_null)
{
	memset(lg_image(&guest, LG_KALLSYMS), 0, guest.symtab.size);
	show();
	ck_assert(json_is_null(at(root, "capture.kernel")));
	ck_assert(json_is_null(at(root, "idle_task")));
	ck_assert_uint_eq(json_array_size(at(root, "tasks")), 0);
	ck_assert(json_is_null(at(root, "vcpus.0.current")));
	is_text(root, "capture.missing.0.what", "kernel");
	ck_assert(json_is_null(at(root, "capture.missing.0.pid")));
}
END_TEST

START_TEST(strings_of_the_guest_are_valid_utf_8)
{
	memcpy(guest.threads[4].task->comm, "a\"\\\n\x01\xff\xc3\xa9\xe2\x82", 11);
	memcpy(lg_image(&guest, LG_BANNER + 20), "\xf0\x9f\x90\xa7\xed\xa0\x80", 7);
	show();
	is_text(thread(102), "comm", "a\"\\\n\x01\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
	ck_assert_ptr_nonnull(strstr(json_string_value(at(root, "capture.kernel.banner")),
				     "\xf0\x9f\x90\xa7\xef\xbf\xbd"));
}
END_TEST

/* The first record of a type, in sample. */
static uint8_t *find_record(uint32_t type)
{
	struct kcd_reader r;
	struct kcd_item it;

	ck_assert_int_eq(kcd_reader_init(&r, sample, sample_size, KCD_TOLERANT, NULL), KCD_OK);
	while (!kcd_reader_next(&r, &it))
		if (it.elem_type == type && it.size)
			return sample + (it.data - sample);
	ck_abort_msg("no record %#x", type);
	return NULL;
}

// X11: strings that fill their field, as no writer of ours makes them.
START_TEST(strings_without_an_end_are_cut_at_their_field)
{
	static const struct {
		uint32_t type;
		size_t offset, size;
	} strings[] = {
		{ SS_RECORD_VCPU, offsetof(struct ss_vcpu_record, comm), 16 },
		{ SS_RECORD_TASK, offsetof(struct ss_task_record, comm), 16 },
		{ SS_RECORD_THREAD, offsetof(struct ss_thread_record, comm), 16 },
		{ SS_RECORD_GUEST, offsetof(struct ss_guest_record, source), 20 },
		{ SS_RECORD_SYMBOL, offsetof(struct ss_symbol_record, name), 64 },
		{ SS_RECORD_LONG_SYMBOL, offsetof(struct ss_long_symbol_record, name), 512 },
		{ SS_RECORD_MISSING, offsetof(struct ss_missing_record, reason), 160 },
		{ KCD_SS_THREAD_NAME, 0, KCD_SS_THREAD_NAME_SIZE },
		{ KCD_SS_TASK_SNAPSHOT, offsetof(struct kcd_task_snapshot_v2, ts_p_comm), 32 },
		{ KCD_SS_OSVERSION, 0, 40 },
		{ KCD_SS_OS_BUILD_VERSION, 0, 14 },
	};

	guest.threads[4].task->pc = 0x5000; // so that something is missing
	sample_take();
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		memset(find_record(strings[i].type) + strings[i].offset, 'x', strings[i].size);
	sample_load();
	sample_show_all();
	char *text = sample_text(false);
	for (const char *x = text; (x = strchr(x, 'x')); x += strspn(x, "x"))
		ck_assert_uint_le(strspn(x, "x"), 512);
	free(text);
}
END_TEST

START_TEST(numbers_of_any_size_make_a_document)
{
	memset(find_record(SS_RECORD_THREAD), 0xff, sizeof(struct ss_thread_record));
	memset(find_record(SS_RECORD_TASK), 0xff, sizeof(struct ss_task_record));
	memset(find_record(SS_RECORD_VCPU), 0xff, sizeof(struct ss_vcpu_record));
	memset(find_record(SS_RECORD_GUEST), 0xff, sizeof(struct ss_guest_record));
	memset(find_record(SS_RECORD_TIMES), 0xff, sizeof(struct ss_times_record));
	memset(find_record(SS_RECORD_SYMBOL), 0xff, sizeof(struct ss_symbol_record));
	memset(find_record(SS_RECORD_FRAME_KIND), 0xff, sizeof(struct ss_frame_kind_record));
	memset(find_record(KCD_TYPE_USECS_SINCE_EPOCH), 0xff, 8);
	memset(find_record(KCD_SS_DURATION), 0xff, 24);
	sample_load();
	sample_show_all();
}
END_TEST

START_TEST(threads_have_their_user_stacks_when_asked_for)
{
	sample_give_user_stack();
	show();
	const json_t *t = thread(102);
	is_text(t, "user_stack_end", "bad frame pointer");
	ck_assert_uint_eq(json_array_size(at(t, "user_backtrace")), 3);
	is_hex(t, "user_backtrace.0.address", 0x400100);
	is_text(t, "user_backtrace.0.kind", "pc");
	is_text(t, "user_backtrace.0.file", "/bin/tool");
	is_number(t, "user_backtrace.0.offset", 0x2100);
	is_number(t, "user_backtrace.0.inode", 77);
	is_text(t, "user_backtrace.0.build_id", "b10d5eed00ff1001");
	is_text(t, "user_backtrace.2.build_id", "b10d5eed00ff1001");
	is_hex(t, "user_backtrace.1.address", 0x400200);
	is_text(t, "user_backtrace.1.kind", "lr");
	is_hex(t, "user_backtrace.2.address", 0x400300);
	is_text(t, "user_backtrace.2.kind", "return");
	// one that is in no file: the pc is looked up as it is, a return address before it
	um_saved(&guest, &guest.threads[4])->pc = 0x400300;
	show();
	ck_assert(json_is_null(at(thread(102), "user_backtrace.0.file")));
	ck_assert_ptr_null(json_object_get(at(thread(102), "user_backtrace.0"), "offset"));
	ck_assert_ptr_null(json_object_get(at(thread(102), "user_backtrace.0"), "build_id"));
	is_number(thread(102), "user_backtrace.2.offset", 0x2300);
	ck_assert_ptr_null(json_object_get(thread(101), "user_backtrace"));
	sample_flags = 0;
	show();
	ck_assert_ptr_null(json_object_get(thread(102), "user_backtrace"));
	ck_assert_ptr_null(json_object_get(thread(102), "user_stack_end"));
}
END_TEST

Suite *suite_json(void)
{
	Suite *s = suite_create("json");
	TCase *tc = tcase_create("json");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, sample_setup, teardown);
	tcase_add_test(tc, document_has_what_is_documented_of_the_capture);
	tcase_add_test(tc, document_has_what_is_documented_of_vcpus);
	tcase_add_test(tc, document_has_what_is_documented_of_threads);
	tcase_add_test(tc, document_has_what_is_documented_of_tasks);
	tcase_add_test(tc, document_says_what_is_missing);
	tcase_add_test(tc, document_without_a_kernel_has_its_null);
	tcase_add_test(tc, strings_of_the_guest_are_valid_utf_8);
	tcase_add_test(tc, strings_without_an_end_are_cut_at_their_field);
	tcase_add_test(tc, numbers_of_any_size_make_a_document);
	tcase_add_test(tc, threads_have_their_user_stacks_when_asked_for);
	suite_add_tcase(s, tc);
	return s;
}
