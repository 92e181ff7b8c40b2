/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that take themselves, as asked for on the command lines of run and attach. */
#include "cli/schedule_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/cli.h"

#define JITTER_DEFAULT 10
#define HUNG_DEFAULT   (10 * GS_NS_PER_SEC)
/* Linux' own watchdog says so after 20 s; a thread of its own runs on each CPU every 4. */
#define LOCKUP_DEFAULT (20 * GS_NS_PER_SEC)
/* Longest word of --trigger, NUL included. */
#define WORD_MAX 64

#define REASON_BIT(reason) (1u << (reason))
/* Triggers that are words on the console, and the one that is run's own. */
#define OF_CONSOLE \
	(REASON_BIT(SS_REASON_PANIC) | REASON_BIT(SS_REASON_OOPS) | REASON_BIT(SS_REASON_CONSOLE))

void cli_schedule_init(struct cli_schedule_options *o)
{
	*o = (struct cli_schedule_options){
		.schedule = { .dir = CLI_SCHEDULE_DIR, .max_stopped = CTL_SCHEDULE_STOPPED_DEFAULT }
	};
}

bool cli_schedule_wanted(const struct cli_schedule_options *o)
{
	return o->schedule.every_ns || o->triggers;
}

static error_t wrong(struct argp_state *state, const char *option, const char *arg,
		     const char *expected)
{
	argp_error(state, "--%s %s: %s", option, arg, expected);
	return EINVAL;
}

static error_t set_number(struct argp_state *state, const char *option, const char *arg,
			  uint32_t max, uint32_t *n_out)
{
	uint64_t n;
	char expected[CLI_TEXT_MAX];

	snprintf(expected, sizeof(expected), "not a number from 1 to %u", max);
	if (!cli_parse_number(arg, 1, max, &n))
		return wrong(state, option, arg, expected);
	*n_out = (uint32_t)n;
	return 0;
}

/* The duration of "hung-task=30s". */
static error_t set_watch(struct argp_state *state, const char *word, const char *value,
			 uint64_t fallback, uint64_t *ns_out)
{
	*ns_out = fallback;
	if (value && (!cli_parse_duration(value, ns_out) || *ns_out < CTL_SCHEDULE_WATCH_MIN_NS ||
		      *ns_out > CTL_SCHEDULE_WATCH_MAX_NS))
		return wrong(state, "trigger", word, "not a duration from 1s to 24h");
	return 0;
}

static error_t set_trigger(struct argp_state *state, struct cli_schedule_options *o,
			   const char *word)
{
	static const uint32_t reasons[] = { SS_REASON_PANIC, SS_REASON_OOPS, SS_REASON_HUNG_TASK,
					    SS_REASON_SOFT_LOCKUP, SS_REASON_TIMEOUT };
	const size_t len = strcspn(word, "=");
	const char *value = word[len] ? word + len + 1 : NULL;
	uint32_t reason = 0;

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		const char *name = ss_reason_name(reasons[i]);

		if (strlen(name) == len && !strncmp(name, word, len))
			reason = reasons[i];
	}
	o->triggers |= REASON_BIT(reason);
	if (reason == SS_REASON_HUNG_TASK)
		return set_watch(state, word, value, HUNG_DEFAULT, &o->schedule.hung_ns);
	if (reason == SS_REASON_SOFT_LOCKUP)
		return set_watch(state, word, value, LOCKUP_DEFAULT, &o->schedule.lockup_ns);
	if (!reason || value)
		return wrong(state, "trigger", word,
			     "not panic, oops, hung-task, soft-lockup, timeout or console=REGEX");
	return 0;
}

static error_t set_console(struct argp_state *state, struct cli_schedule_options *o,
			   const char *regex)
{
	regex_t re;
	char why[128];

	/* two are set aside for panic and oops */
	if (o->patterns == CLI_WATCH_PATTERNS_MAX - 2)
		return wrong(state, "trigger", regex, "too many expressions: join them with |");
	const int e = regcomp(&re, regex, REG_EXTENDED | REG_NOSUB);
	if (e) {
		regerror(e, &re, why, sizeof(why));
		return wrong(state, "trigger", regex, why);
	}
	regfree(&re);
	o->pattern[o->patterns++] = regex;
	o->triggers |= REASON_BIT(SS_REASON_CONSOLE);
	return 0;
}

static error_t set_triggers(struct argp_state *state, struct cli_schedule_options *o,
			    const char *arg)
{
	static const char console[] = "console=";
	error_t e = 0;

	o->schedule.triggers = true;
	/* an expression may have commas, so it is the whole argument */
	if (!strncmp(arg, console, sizeof(console) - 1))
		return set_console(state, o, arg + sizeof(console) - 1);
	while (!e && arg) {
		const size_t len = strcspn(arg, ",");
		char word[WORD_MAX];

		if (len >= sizeof(word))
			return wrong(state, "trigger", arg, "too long");
		snprintf(word, sizeof(word), "%.*s", (int)len, arg);
		e = set_trigger(state, o, word);
		arg = arg[len] ? arg + len + 1 : NULL;
	}
	return e;
}

static error_t set_every(struct argp_state *state, struct cli_schedule_options *o, const char *arg)
{
	uint64_t *ns = &o->schedule.every_ns;

	return cli_parse_duration(arg, ns) && *ns >= CTL_SCHEDULE_EVERY_MIN_NS &&
			       *ns <= CTL_SCHEDULE_EVERY_MAX_NS
		       ? 0
		       : wrong(state, "every", arg, "not a duration from 10ms to a week");
}

static error_t set_jitter(struct argp_state *state, struct cli_schedule_options *o, const char *arg)
{
	if (arg)
		return set_number(state, "jitter", arg, CTL_SCHEDULE_JITTER_MAX,
				  &o->schedule.jitter);
	o->schedule.jitter = JITTER_DEFAULT;
	return 0;
}

error_t cli_schedule_key(struct cli_schedule_options *o, int key, const char *arg,
			 struct argp_state *state)
{
	struct ctl_schedule_config *s = &o->schedule;

	if (key >= CLI_KEY_EVERY && key < CLI_KEY_TRIGGER)
		o->has_wish = true;
	switch (key) {
	case CLI_KEY_EVERY: return set_every(state, o, arg);
	case CLI_KEY_JITTER: return set_jitter(state, o, arg);
	case CLI_KEY_FULL_EVERY:
		return set_number(state, "full-every", arg, CTL_SCHEDULE_FULL_EVERY_MAX,
				  &s->full_every);
	case CLI_KEY_KEEP: return set_number(state, "keep", arg, CTL_SCHEDULE_KEEP_MAX, &s->keep);
	case CLI_KEY_MAX_BYTES:
		return cli_parse_size(arg, &s->max_bytes) && s->max_bytes
			       ? 0
			       : wrong(state, "max-bytes", arg, "not a size such as 512M or 2G");
	case CLI_KEY_MAX_STOPPED:
		return cli_parse_percent(arg, &s->max_stopped)
			       ? 0
			       : wrong(state, "max-stopped", arg,
				       "not a percentage from 0.0001% to 100%");
	case CLI_KEY_DIR:
		s->dir = arg;
		o->has_dir = true;
		return *arg ? 0 : wrong(state, "dir", arg, "not a folder");
	case CLI_KEY_TRIGGER: return set_triggers(state, o, arg);
	default: return ARGP_ERR_UNKNOWN;
	}
}

error_t cli_schedule_end(const struct cli_schedule_options *o, bool has_console,
			 struct argp_state *state)
{
	const char *what = NULL;

	if (o->has_wish && !cli_schedule_wanted(o))
		what = "--jitter, --full-every, --keep, --max-bytes, --max-stopped and --dir go "
		       "with --every or --trigger";
	else if (!o->schedule.every_ns && (o->schedule.jitter || o->schedule.full_every))
		what = "--jitter and --full-every go with --every";
	else if (!has_console && o->triggers & (OF_CONSOLE | REASON_BIT(SS_REASON_TIMEOUT)))
		what = "--trigger: panic, oops and console are read off the guest's console, which "
		       "is its own VMM's, and timeout is one of guestshot run: only hung-task and "
		       "soft-lockup are possible here";
	if (!what)
		return 0;
	argp_error(state, "%s", what);
	return EINVAL;
}

enum gs_code cli_schedule_watch(const struct cli_schedule_options *o, struct cli_console_watch *w,
				struct gs_error *err)
{
	/* whether anybody asks or not: a trace may, at any time */
	enum gs_code rc = cli_console_watch_add(w, cli_panic_pattern, SS_REASON_PANIC, err);

	if (!rc)
		rc = cli_console_watch_add(w, cli_oops_pattern, SS_REASON_OOPS, err);
	for (uint32_t i = 0; !rc && i < o->patterns; i++)
		rc = cli_console_watch_add(w, o->pattern[i], SS_REASON_CONSOLE, err);
	return rc;
}

enum gs_code cli_schedule_add(const struct cli_schedule_options *o, struct ctl_schedules *all,
			      struct gs_error *err)
{
	uint32_t id;

	return cli_schedule_wanted(o)
		       ? ctl_schedules_add(all, &o->schedule, CTL_SCHEDULE_OPEN_NOW, &id, err)
		       : GS_OK;
}
