/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of a dump with 1 to 8 workers: the same bytes, whoever does what. Prints TAP. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "introspect/guest/source.h"
#include "introspect/stackshot/capture.h"
#include "tests/unit/stackshot/picture.h"

#define ROUNDS_MAX 100000
#define RAM_BASE   GPA(0x40000000) /* of bare RAM: where QEMU's machine has it */

static const uint32_t worker_counts[] = { 1, 2, 4, 8 };

static const struct ss_request all = { .version = SS_REQUEST_VERSION,
				       .size = sizeof(all),
				       .pid = SS_PID_ALL };

struct comparison {
	const char *name;
	struct guest *guest;
	uint32_t rounds, threads;
	struct picture expected, now;
};

/* @return NULL: it is that of the first one; else what is wrong */
static const char *compare(struct comparison *c, struct ss_session *s)
{
	static struct gs_error err;
	struct ss_result r = { 0 };
	const char *wrong = NULL;

	if (ss_capture(s, &all, &r, &err))
		return err.text;
	c->threads = r.threads;
	if (!picture_take(&r, c->expected.bytes ? &c->now : &c->expected))
		wrong = "no valid stream";
	else if (!c->expected.tasks)
		wrong = "no processes";
	else if (c->now.bytes && !picture_is(&c->now, &c->expected))
		wrong = "another one than the first";
	ss_result_deinit(&r);
	return wrong;
}

/* A line of TAP for so many workers. @return whether it is a good one */
static bool check(struct comparison *c, uint32_t workers)
{
	const struct ss_options options = { .workers = workers };
	struct gs_error err = { 0 };
	struct ss_session *s = NULL;
	const char *wrong = ss_session_create_with(c->guest, &options, &s, &err) ? err.text : NULL;
	uint32_t round = 0, together = 0;

	for (; !wrong && round < c->rounds; round++) {
		uint32_t at_work = 0;

		wrong = compare(c, s);
		for (uint32_t i = 0; i < workers; i++)
			at_work += s->ordinary.worker[i]->items != 0;
		together += at_work > 1;
	}
	ss_session_destroy(s);
	printf("%s - %s: %" PRIu32 " captures with %" PRIu32 " worker%s are the same\n",
	       wrong ? "not ok" : "ok", c->name, c->rounds, workers, workers > 1 ? "s" : "");
	if (wrong)
		printf("# capture %" PRIu32 ": %s\n", round, wrong);
	else
		printf("# %" PRIu32 " threads, %zu bytes; several workers had a part in %" PRIu32
		       " captures\n",
		       c->threads, c->expected.size, together);
	fflush(stdout);
	return !wrong;
}

static uint32_t number(const char *text)
{
	char *end;

	errno = 0;
	unsigned long n = strtoul(text, &end, 10);
	return errno || *end || n > ROUNDS_MAX ? 0 : (uint32_t)n;
}

/* Bare RAM is a dump of no other kind. */
static enum gs_code open_dump(const char *path, struct guest_source *source, struct gs_error *err)
{
	const struct guest_dump_options bare = { .raw = true, .ram_base = RAM_BASE };
	enum gs_code rc = guest_source_open_dump(path, NULL, source, err);

	return rc == GS_EMALFORMED ? guest_source_open_dump(path, &bare, source, err) : rc;
}

int main(int argc, char **argv)
{
	struct comparison c = { .rounds = argc > 2 ? number(argv[1]) : 0 };
	int failed = 0;

	if (!c.rounds) {
		fprintf(stderr, "usage: dump-workers ROUNDS DUMP...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		struct guest_source source = { 0 };
		struct gs_error err = { 0 };

		c.name = argv[i];
		if (open_dump(argv[i], &source, &err)) {
			printf("not ok - %s: is opened\n# %s\n", argv[i], err.text);
			failed = 1;
			continue;
		}
		c.guest = source.guest;
		for (size_t k = 0; k < ARRAY_SIZE(worker_counts); k++)
			failed |= !check(&c, worker_counts[k]);
		guest_source_close(&source);
		picture_drop(&c.expected);
		picture_drop(&c.now);
	}
	return failed;
}
