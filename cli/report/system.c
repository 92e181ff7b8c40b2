/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's kernel as a whole: panic, state, log. */
#include "cli/report/system.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/lines.h"
#include "introspect/linux/system.h"

/* ss_log_record.caller: a CPU, where no thread wrote the message (printk_caller_id() in printk.c). */
#define CALLER_CPU UINT32_C(0x80000000)
/* Linux cuts messages at 1,024 bytes (PRINTKRB_RECORD_MAX); what a file has beyond is left out. */
#define MESSAGE_MAX 1536

static bool knows(const struct rep_capture *c, uint32_t what)
{
	return c->has_system && c->system.known & what;
}

static bool has_panicked(const struct rep_capture *c)
{
	return knows(c, LNX_SYSTEM_PANIC) && c->system.panic_cpu >= 0;
}

/* --- text --- */

void rep_put_panic(const struct rep_capture *c, FILE *to)
{
	const struct ss_system_record *s = &c->system;

	if (!has_panicked(c))
		return;
	fprintf(to, "PANIC on CPU %" PRId32 ": ", s->panic_cpu);
	if (*s->panic)
		rep_put(s->panic, strlen(s->panic), to);
	else
		fputs("the log does not tell its message", to);
	fputc('\n', to);
}

static void put_uptime(uint64_t ns, FILE *to)
{
	const uint64_t minutes = ns / 60000000000u;

	fputs("up ", to);
	if (minutes >= 1440)
		fprintf(to, "%" PRIu64 " day%s, ", minutes / 1440, minutes / 1440 == 1 ? "" : "s");
	fprintf(to, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, minutes / 60 % 24, minutes % 60,
		ns / 1000000000u % 60);
}

/* Rounded as /proc/loadavg does it. */
static uint64_t hundredths(uint64_t load)
{
	return ((load + LNX_LOAD_ONE / 200) * 100) / LNX_LOAD_ONE;
}

static void put_taint(uint64_t taint, FILE *to)
{
	char letter;
	const char *name;

	if (!taint) {
		fputs("not tainted", to);
		return;
	}
	fprintf(to, "tainted %" PRIu64 " (", taint);
	for (uint32_t bit = 0; bit < 64; bit++) {
		if (!(taint >> bit & 1))
			continue;
		if (taint & ((UINT64_C(1) << bit) - 1))
			fputs(", ", to);
		if (lnx_taint_name(bit, &letter, &name))
			fprintf(to, "%c: %s", letter, name);
		else
			fprintf(to, "bit %" PRIu32, bit);
	}
	fputc(')', to);
}

static void put_memory(const struct rep_capture *c, FILE *to)
{
	const struct ss_system_record *s = &c->system;
	char text[3][CLI_TEXT_MAX];
	uint64_t bytes[3] = { s->total_pages, s->free_pages, s->file_pages };

	for (int i = 0; i < 3; i++) {
		/* pages are those of a hostile guest: their bytes may not fit a number */
		if (!gs_mul(bytes[i], (uint64_t)c->guest.page_size, &bytes[i]))
			bytes[i] = UINT64_MAX;
		cli_format_size(bytes[i], text[i]);
	}
	fprintf(to, "memory %s, %s free, %s of files", text[0], text[1], text[2]);
}

void rep_put_system(const struct rep_capture *c, FILE *to)
{
	const struct ss_system_record *s = &c->system;
	const char *between = "";

	if (knows(c, LNX_SYSTEM_UPTIME)) {
		put_uptime(s->uptime_ns, to);
		between = "; ";
	}
	if (knows(c, LNX_SYSTEM_LOAD)) {
		fprintf(to, "%sload", between);
		for (int i = 0; i < LNX_LOADS; i++) {
			const uint64_t n = hundredths(s->load[i]);

			fprintf(to, " %" PRIu64 ".%02" PRIu64, n / 100, n % 100);
		}
		between = "; ";
	}
	if (knows(c, LNX_SYSTEM_MEMORY)) {
		fputs(between, to);
		put_memory(c, to);
		between = "; ";
	}
	if (knows(c, LNX_SYSTEM_TAINT)) {
		fputs(between, to);
		put_taint(s->taint, to);
		between = "; ";
	}
	if (*between)
		fputc('\n', to);
}

/* A message may have lines of its own: all but the first are set off by as much as it is. */
static void put_lines(const char *text, const char *indent, FILE *to)
{
	for (;;) {
		const size_t n = strcspn(text, "\n\t");

		rep_put(text, n, to);
		if (!text[n])
			return;
		if (text[n] == '\t')
			fputc('\t', to);
		else
			fprintf(to, "\n%s               ", indent);
		text += n + 1;
	}
}

void rep_put_log(const struct rep_capture *c, const char *indent, FILE *to)
{
	for (size_t i = 0; i < c->log_count; i++) {
		const struct ss_log_record *l = &c->log[i];
		const bool is_new = !i || l->seq != c->log[i - 1].seq;

		if (is_new && i)
			fputc('\n', to);
		if (is_new && i && l->seq > c->log[i - 1].seq && l->seq - c->log[i - 1].seq > 1)
			fprintf(to, "%s(%" PRIu64 " messages are not there)\n", indent,
				l->seq - c->log[i - 1].seq - 1);
		if (is_new)
			fprintf(to, "%s[%5" PRIu64 ".%06" PRIu64 "] ", indent,
				l->time_ns / 1000000000u, l->time_ns / 1000 % 1000000);
		put_lines(l->text, indent, to);
	}
	if (c->log_count)
		fputc('\n', to);
}

/* --- JSON --- */

static void write_panic(struct kcd_json *j, const struct rep_capture *c)
{
	kcd_json_key(j, "panic");
	if (!has_panicked(c)) {
		kcd_json_null(j);
		return;
	}
	kcd_json_object_begin(j);
	kcd_json_member_i64(j, "cpu", c->system.panic_cpu);
	kcd_json_key(j, "message");
	if (*c->system.panic)
		kcd_json_string(j, c->system.panic);
	else
		kcd_json_null(j);
	kcd_json_object_end(j);
}

static void write_load(struct kcd_json *j, const struct rep_capture *c)
{
	char text[32];

	kcd_json_key(j, "load");
	kcd_json_array_begin(j);
	for (int i = 0; i < LNX_LOADS; i++) {
		const uint64_t n = hundredths(c->system.load[i]);

		snprintf(text, sizeof(text), "%" PRIu64 ".%02" PRIu64, n / 100, n % 100);
		kcd_json_string(j, text);
	}
	kcd_json_array_end(j);
}

static void write_taint(struct kcd_json *j, uint64_t taint)
{
	char letter;
	const char *name;

	kcd_json_key(j, "taint");
	kcd_json_object_begin(j);
	kcd_json_member_u64(j, "value", taint);
	kcd_json_key(j, "flags");
	kcd_json_array_begin(j);
	for (uint32_t bit = 0; bit < LNX_TAINTS; bit++)
		if (taint >> bit & 1 && lnx_taint_name(bit, &letter, &name))
			kcd_json_string_n(j, &letter, 1);
	kcd_json_array_end(j);
	kcd_json_object_end(j);
}

void rep_json_system(struct kcd_json *j, const struct rep_capture *c)
{
	const struct ss_system_record *s = &c->system;

	kcd_json_key(j, "system");
	if (!c->has_system) {
		kcd_json_null(j);
		return;
	}
	kcd_json_object_begin(j);
	if (knows(c, LNX_SYSTEM_PANIC))
		write_panic(j, c);
	if (knows(c, LNX_SYSTEM_UPTIME))
		kcd_json_member_u64(j, "uptime_ns", s->uptime_ns);
	if (knows(c, LNX_SYSTEM_LOAD))
		write_load(j, c);
	if (knows(c, LNX_SYSTEM_MEMORY)) {
		kcd_json_member_u64(j, "total_pages", s->total_pages);
		kcd_json_member_u64(j, "free_pages", s->free_pages);
		kcd_json_member_u64(j, "file_pages", s->file_pages);
	}
	if (knows(c, LNX_SYSTEM_TAINT))
		write_taint(j, s->taint);
	kcd_json_object_end(j);
}

/* Parts of a long text, put together again; a hostile file may have any number. */
static size_t put_message(struct kcd_json *j, const struct rep_capture *c, size_t first)
{
	char text[MESSAGE_MAX];
	size_t n = 0, i = first;

	for (; i < c->log_count && (i == first || c->log[i].seq == c->log[first].seq); i++) {
		const size_t len = strlen(c->log[i].text);

		if (len < sizeof(text) - n) {
			memcpy(text + n, c->log[i].text, len);
			n += len;
		}
	}
	kcd_json_key(j, "text");
	kcd_json_string_n(j, text, n);
	return i;
}

void rep_json_log(struct kcd_json *j, const struct rep_capture *c)
{
	kcd_json_key(j, "log");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < c->log_count && !kcd_json_failed(j);) {
		const struct ss_log_record *l = &c->log[i];

		kcd_json_object_begin(j);
		kcd_json_member_u64(j, "seq", l->seq);
		kcd_json_member_u64(j, "time_ns", l->time_ns);
		kcd_json_member_u64(j, "level", l->level_flags & 7u);
		kcd_json_member_u64(j, "facility", l->facility);
		if (l->caller & CALLER_CPU)
			kcd_json_member_u64(j, "cpu", l->caller & ~CALLER_CPU);
		else
			kcd_json_member_u64(j, "tid", l->caller);
		i = put_message(j, c, i);
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
}
