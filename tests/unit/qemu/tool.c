/* SPDX-License-Identifier: Apache-2.0 */
/* The test program as a tool, for tests/e2e/live: deadlines of sources over running guests. */
#include "tests/unit/qemu/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "introspect/guest/source.h"

#define TOOL_ANSWER_NS (60 * GS_NS_PER_SEC)

static int fail(const char *what, const struct gs_error *err)
{
	printf("%s: %s: %s\n", what, gs_code_name(err->code), err->text);
	return 1;
}

/* One word a page, over and over, until that fails. @return by what */
static enum gs_code read_on(const struct guest *g, uint64_t *words_out)
{
	const struct guest_range *r = &g->ranges[0];

	for (*words_out = 0;; ++*words_out) {
		uint64_t word;
		enum gs_code rc = guest_read(
			g, GPA(r->start.a + *words_out * 4096 % (r->size & ~UINT64_C(4095))), &word,
			sizeof(word));
		if (rc)
			return rc;
	}
}

static int read_until_the_end(struct guest *g, uint64_t start_ns, uint64_t end_ns)
{
	struct gs_error err = { 0 };
	uint64_t words, stopped_ns = gs_clock_ns();

	if (g->ranges[0].host) {
		printf("memory is mapped here: reading it has no end\n");
		return 1;
	}
	enum gs_code rc = read_on(g, &words);
	uint64_t read_ns = gs_clock_ns();
	if (rc != GS_ETIMEDOUT) {
		printf("reading ends by %s\n", gs_code_name(rc));
		return 1;
	}
	if (guest_resume(g, &err))
		return fail("resume", &err);
	printf("stopped after %.1f ms, %" PRIu64
	       " words until %.1f ms (end: %.1f ms), resumed after "
	       "%.1f ms\n",
	       (double)(stopped_ns - start_ns) / 1e6, words, (double)(read_ns - start_ns) / 1e6,
	       (double)(end_ns - start_ns) / 1e6, (double)(gs_clock_ns() - start_ns) / 1e6);
	return 0;
}

static int with_guest(const char *what, uint64_t limit_ns, struct guest *g)
{
	struct gs_error err = { 0 };
	const uint64_t start_ns = gs_clock_ns();
	const uint64_t end_ns = guest_set_deadline(g, start_ns + limit_ns);

	if (guest_stop(g, &err))
		return fail("stop", &err);
	if (!strcmp(what, "read"))
		return read_until_the_end(g, start_ns, end_ns);
	printf("stopped\n");
	(void)fflush(stdout);
	for (;;)
		pause();
}

int tool_run(int argc, char **argv)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	const uint64_t deadline_ns = gs_clock_ns() + TOOL_ANSWER_NS;
	enum gs_code rc;

	if (argc == 5 && !strcmp(argv[3], "--qmp"))
		rc = guest_source_open_qmp(argv[4], deadline_ns, &s, &err);
	else if (argc == 6 && !strcmp(argv[3], "--domain"))
		rc = guest_source_open_libvirt(argv[5], argv[4], deadline_ns, &s, &err);
	else
		return 2;
	if (rc)
		return fail("open", &err);
	int status = with_guest(argv[1], strtoull(argv[2], NULL, 10) * GS_NS_PER_MS, s.guest);
	guest_source_close(&s);
	return status;
}
