/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share: exit codes, arguments and values. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "control/pace.h"

enum cli_exit cli_exit_of(enum gs_code code)
{
	switch (code) {
	case GS_OK: return CLI_EXIT_OK;
	case GS_ENOENT: return CLI_EXIT_NO_INPUT;
	case GS_EFAULT:
	case GS_EMALFORMED:
	case GS_ETOOBIG:
	case GS_ELOOP: return CLI_EXIT_BAD_DATA;
	case GS_EDENIED: return CLI_EXIT_DENIED;
	case GS_EBUSY:
	case GS_EEXIST: return CLI_EXIT_BUSY;
	case GS_ENOSPC:
	case GS_ESYS: return CLI_EXIT_SYSTEM;
	case GS_ETIMEDOUT: return CLI_EXIT_TIMEOUT;
	case GS_ENOTSUP: return CLI_EXIT_UNAVAILABLE;
	case GS_EINVAL: return CLI_EXIT_USAGE;
	}
	return CLI_EXIT_FAILURE;
}

int cli_error(const struct gs_error *err)
{
	gs_log(GS_LOG_ERROR, "%s", err->text);
	return cli_exit_of(err->code);
}

int cli_output_error(const struct gs_error *err)
{
	int code = cli_error(err);

	return code == CLI_EXIT_DENIED ? code : CLI_EXIT_OUTPUT;
}

/* --- arguments ----------------------------------------------------------------------------------
 */

enum { KEY_HELP = 'h', KEY_USAGE = 0x1000 };

static const struct argp_option help_options[] = {
	{ "help", KEY_HELP, NULL, 0, "Show this help", -1 },
	{ "usage", KEY_USAGE, NULL, OPTION_HIDDEN, "Show a short usage message", -1 },
	{ 0 },
};

static error_t help_key(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != KEY_HELP && key != KEY_USAGE)
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, stdout, key == KEY_HELP ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE);
	return ECANCELED; /* shown: cli_parse() knows */
}

static const struct argp help_argp = { .options = help_options, .parser = help_key };

const struct argp_child cli_argp_children[] = { { &help_argp, 0, NULL, 0 }, { 0 } };

bool cli_parse(const struct argp *argp, int argc, char **argv, void *input, int *exit_out)
{
	error_t e = argp_parse(argp, argc, argv, ARGP_NO_EXIT | ARGP_NO_HELP, NULL, input);

	if (!e)
		return true;
	*exit_out = e == ECANCELED ? CLI_EXIT_OK : e == ENOMEM ? CLI_EXIT_SYSTEM : CLI_EXIT_USAGE;
	return false;
}

/* --- values -------------------------------------------------------------------------------------
 */

/* Digits at *text, which is moved behind them. */
static bool take_digits(const char **text, uint64_t *number_out)
{
	const char *at = *text;
	uint64_t n = 0;

	while (*at >= '0' && *at <= '9') {
		if (!gs_mul(n, 10, &n) || !gs_add(n, (uint64_t)(*at - '0'), &n))
			return false;
		at++;
	}
	if (at == *text)
		return false;
	*text = at;
	*number_out = n;
	return true;
}

bool cli_parse_percent(const char *text, uint32_t *ppm_out)
{
	uint32_t ppm = 0, digits = 0, weight = 10000;
	bool fraction = false;

	for (; *text && *text != '%'; text++) {
		if (*text == '.' && !fraction && digits) {
			fraction = true;
			continue;
		}
		if (*text < '0' || *text > '9' || (fraction && weight == 1))
			return false;
		const uint32_t digit = (uint32_t)(*text - '0');
		if (fraction)
			ppm += digit * (weight /= 10);
		else
			ppm = ppm * 10 + digit * 10000;
		digits++;
		if (ppm > CTL_PPM)
			return false;
	}
	*ppm_out = ppm;
	return ppm && (!*text || !text[1]);
}

bool cli_parse_address(const char *text, uint64_t *address_out)
{
	char *end;

	if (*text < '0' || *text > '9') /* strtoull takes signs and spaces */
		return false;
	errno = 0;
	*address_out = strtoull(text, &end, 0);
	return !errno && !*end;
}

bool cli_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *number_out)
{
	uint64_t n;

	if (!take_digits(&text, &n) || *text || n < min || n > max)
		return false;
	*number_out = n;
	return true;
}

bool cli_parse_size(const char *text, uint64_t *bytes_out)
{
	static const struct {
		const char *suffix;
		unsigned int shift;
	} units[] = { { "", 0 },   { "K", 10 }, { "k", 10 }, { "M", 20 },
		      { "m", 20 }, { "G", 30 }, { "g", 30 } };
	uint64_t n;

	if (!take_digits(&text, &n))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!strcmp(text, units[i].suffix))
			return gs_mul(n, UINT64_C(1) << units[i].shift, bytes_out);
	}
	return false;
}

bool cli_parse_duration(const char *text, uint64_t *ns_out)
{
	static const struct {
		const char *suffix;
		uint64_t ns;
	} units[] = { { "", GS_NS_PER_SEC },	   { "s", GS_NS_PER_SEC },
		      { "ms", GS_NS_PER_MS },	   { "us", GS_NS_PER_US },
		      { "m", 60 * GS_NS_PER_SEC }, { "h", 3600 * GS_NS_PER_SEC } };
	uint64_t whole, milli = 0;

	if (!take_digits(&text, &whole))
		return false;
	if (*text == '.') {
		/* up to three digits count; more than a thousandth of a unit is not worth a wish */
		uint64_t weight = 100;

		for (text++; *text >= '0' && *text <= '9'; text++, weight /= 10)
			milli += (uint64_t)(*text - '0') * weight;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		uint64_t ns;

		if (strcmp(text, units[i].suffix) != 0)
			continue;
		if (!gs_mul(whole, units[i].ns, &ns) || ns > INT64_MAX)
			return false;
		*ns_out = ns + milli * (units[i].ns / 1000);
		return true;
	}
	return false;
}

size_t cli_take_word(const char **list, const char *const *names, size_t count)
{
	const char *word = *list;
	const size_t len = strcspn(word, ",");
	size_t i = 0;

	while (i < count && (strlen(names[i]) != len || strncmp(word, names[i], len) != 0))
		i++;
	*list = word[len] ? word + len + 1 : NULL;
	return i;
}

bool cli_parse_kinds(const char *text, struct cli_kinds *kinds_out)
{
	static const char *const names[] = {
		[SS_CLUSTER_SAME] = "same", [SS_CLUSTER_LITTLE] = "little", [SS_CLUSTER_BIG] = "big"
	};

	for (kinds_out->count = 0; text; kinds_out->count++) {
		const size_t kind = cli_take_word(&text, names, ARRAY_SIZE(names));

		if (kind == ARRAY_SIZE(names) || kinds_out->count == ARRAY_SIZE(kinds_out->kind))
			return false;
		kinds_out->kind[kinds_out->count] = (enum ss_cluster_kind)kind;
	}
	return true;
}

const char *cli_format_size(uint64_t bytes, char buf[static CLI_TEXT_MAX])
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };

	if (bytes < 1024) {
		snprintf(buf, CLI_TEXT_MAX, "%" PRIu64 " bytes", bytes);
		return buf;
	}
	double value = (double)bytes / 1024;
	size_t unit = 0;
	for (; value >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
		value /= 1024;
	snprintf(buf, CLI_TEXT_MAX, "%.*f %s", value < 10 && value != (int)value ? 1 : 0, value,
		 units[unit]);
	return buf;
}

const char *cli_format_duration(uint64_t ns, char buf[static CLI_TEXT_MAX])
{
	double value = (double)ns;

	if (ns < GS_NS_PER_MS)
		snprintf(buf, CLI_TEXT_MAX, "%.0f us", value / (double)GS_NS_PER_US);
	else if (ns < GS_NS_PER_SEC)
		snprintf(buf, CLI_TEXT_MAX, "%.2f ms", value / (double)GS_NS_PER_MS);
	else
		snprintf(buf, CLI_TEXT_MAX, "%.2f s", value / (double)GS_NS_PER_SEC);
	return buf;
}
