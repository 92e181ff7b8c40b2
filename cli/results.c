/* SPDX-License-Identifier: Apache-2.0 */
/* What guestshot run says and writes about how it went. */
#include "cli/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "cli/junit.h"

/* A document in memory, so that files appear whole; text is to be freed with free(). */
struct made {
	char *text; /* NULL: it was not made */
	size_t size;
};

static FILE *make_begin(struct made *m)
{
	*m = (struct made){ 0 };
	FILE *f = open_memstream(&m->text, &m->size);
	if (!f)
		m->text = NULL;
	return f;
}

/* @param ok  whether all was written to it */
static void make_end(struct made *m, FILE *f, bool ok)
{
	if (fclose(f) || !ok)
		free(GS_TAKE(m->text));
}

static struct made make(const struct rep_summary *s,
			bool (*view)(const struct rep_summary *s, FILE *to))
{
	struct made m;
	FILE *f = make_begin(&m);

	if (f)
		make_end(&m, f, view(s, f));
	return m;
}

/* What happened, and who is stuck. */
static bool message_view(const struct rep_summary *s, FILE *to)
{
	struct made stuck;
	FILE *f = s->capture ? make_begin(&stuck) : NULL;

	fputs(s->text, to);
	if (f) {
		make_end(&stuck, f, rep_put_stuck(s->capture, f));
		if (stuck.text)
			fprintf(to, "; %s", stuck.text);
		free(stuck.text);
	}
	return !fflush(to) && !ferror(to);
}

static struct made make_junit(const struct rep_summary *s, const char *text, uint64_t wall_us)
{
	struct made message = make(s, message_view), m;
	const struct cli_junit junit = {
		.name = s->name,
		.result = s->result,
		.type = s->type,
		.message = message.text ? message.text : s->text,
		.text = text ? text : "",
		.took_ns = s->took_ns,
		.wall_us = wall_us,
	};
	FILE *f = make_begin(&m);

	if (f)
		make_end(&m, f, cli_junit_write(&junit, f));
	free(message.text);
	return m;
}

/* What was made, freed, to a path; NULL: under a name in the folder. */
static bool put(struct cli_artifacts *a, const char *path, const char *name, struct made m)
{
	bool ok = false;

	if (!m.text)
		gs_log(GS_LOG_ERROR, "%s: out of memory", path ? path : name);
	else if (path)
		ok = cli_artifacts_write(a, path, m.text, m.size);
	else
		ok = cli_artifacts_put(a, name, m.text, m.size);
	free(m.text);
	return ok;
}

bool cli_results_write(struct cli_artifacts *a, const char *junit, const struct rep_summary *s,
		       uint64_t wall_us)
{
	struct made text = make(s, rep_summary_text);
	const bool has_folder = a->folder >= 0;
	bool ok = true;

	if (text.text)
		fprintf(stderr, "guestshot: %s", text.text);
	if (junit || has_folder)
		ok = put(a, junit, CLI_ARTIFACTS_JUNIT, make_junit(s, text.text, wall_us));
	if (has_folder)
		ok = put(a, NULL, CLI_ARTIFACTS_JSON, make(s, rep_summary_json)) && ok;
	if (has_folder)
		ok = put(a, NULL, CLI_ARTIFACTS_TEXT, text) && ok;
	else
		free(text.text);
	return ok;
}
