/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, namespaces, signals and command lines in both views. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/stackshot.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define ARGS UINT64_C(0x0000aaaa00000000)

static char *text;

static void setup(void)
{
	struct lg_thread *init, *worker;

	sample_setup();
	init = &guest.threads[0];
	worker = &guest.threads[2];
	ck_assert(init->task->pid == 1 && worker->task->pid == 100);
	lg_set_cgroup(&guest, init, "/");
	lg_set_namespaces(&guest, init, 4000);
	lg_set_cgroup(&guest, worker, "/evil\x1b[2J");
	lg_set_namespaces(&guest, worker, 4000)->net = 0;
	struct lg_mm *mm = lg_add_mm(&guest, worker, 1);
	mm->arg_start = ARGS;
	mm->arg_end = ARGS + 9;
	memcpy(lg_user_page(&guest, mm, ARGS), "/bin/w\0-x", 9);
	worker->signal->shared_pending.signal = 1 << 14 | 1;
	worker->task->pending.signal = 1 << 9;
	worker->task->blocked = UINT64_C(1) << 63;
	worker->task->on_rq = 1;
	sample_flags = SS_CONTEXT;
}

static void teardown(void)
{
	sample_flags = 0;
	free(text);
	text = NULL;
	sample_teardown();
}

/* The document is too long for a message: only what is behind the word is shown. */
static void has_behind(const char *line, const char *word)
{
	const char *at = strstr(text, word);

	ck_assert_msg(strstr(text, line), "no \"%s\" in: %.1000s", line, at ? at : "");
}

static void has(const char *line)
{
	has_behind(line, "process 1");
}

START_TEST(text_has_lines_below_the_process)
{
	// another time namespace than init's
	struct lg_nsproxy *proxy = (void *)lg_word(&guest, guest.threads[2].task->nsproxy);
	((struct lg_namespace *)(void *)lg_word(&guest, proxy->time))->inum = 77;
	sample_take();
	sample_load();
	text = sample_text(false);
	has("  command /bin/w -x\n  cgroup /evil\\x1b[2J\n  namespaces of its own: time 77\n  "
	    "signals "
	    "pending: 1 15\n");
	has("thread 100 worker: S (sleeping), waits for CPU 1, signals pending: 10\n");
	has("process 1 init, parent 0\n  cgroup /\n  thread 1");
	sample_show_all();
}
END_TEST

START_TEST(document_has_them)
{
	sample_take();
	sample_load();
	text = sample_json_compact();
	has_behind(
		"\"context\":{\"command\":[\"/bin/w\",\"-x\"],\"cgroup\":\"/evil\\u001B[2J\","
		"\"namespaces\":{\"uts\":4000,\"ipc\":4001,\"mnt\":4002,\"pid\":4003,\"time\":4005,"
		"\"cgroup\":4006},\"pending\":[1,15]}",
		"\"command\":[\"/bin/w");
	has_behind("\"context\":{\"on_rq\":1,\"vruntime\":0,\"cfs_rq\":\"0x0\",\"pending\":[10],"
		   "\"blocked\":[64]}",
		   "\"on_rq\":1");
}
END_TEST

START_TEST(views_without_them_say_nothing)
{
	sample_flags = 0;
	sample_take();
	sample_load();
	text = sample_text(false);
	ck_assert(!strstr(text, "cgroup") && !strstr(text, "signals"));
	free(text);
	text = sample_json();
	ck_assert(!strstr(text, "context\""));
}
END_TEST

Suite *suite_linux_context(void)
{
	Suite *s = suite_create("linux_context");
	TCase *tc = tcase_create("linux_context");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_has_lines_below_the_process);
	tcase_add_test(tc, document_has_them);
	tcase_add_test(tc, views_without_them_say_nothing);
	suite_add_tcase(s, tc);
	return s;
}
