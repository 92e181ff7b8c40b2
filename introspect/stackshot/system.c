/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's state and its log. */
#include "introspect/stackshot/system.h"

#include <string.h>

/* What a thread's messages may take from the guest's time: a look at the clock after so many. */
#define MESSAGES_AT_ONCE 64
/* Room for lines of the log: twice as many as Debian's kernels keep messages. */
#define LOG_LINES	8192u
#define LOG_LINES_PANIC 2048u
#define PART_SIZE	(SS_LOG_TEXT - 1)

_Static_assert(SS_PANIC_MESSAGE == LNX_PANIC_MESSAGE, "the message fits");

/* --- state --- */

void ss_system_read(struct ss_engine *e)
{
	lnx_system_read(&e->worker[0]->v, e->t.regs, e->s->g->vcpu_count, &e->t.system);
	e->t.has_system = !ss_is_late(e);
}

enum kcd_code ss_write_system(struct kcd_writer *out, const struct ss_engine *e)
{
	const struct lnx_system *s = &e->t.system;
	struct ss_system_record r = {
		.known = s->known,
		.panic_cpu = s->panic_cpu,
		.taint = s->taint,
		.uptime_ns = s->uptime_ns,
		.load = { s->load[0], s->load[1], s->load[2] },
		.total_pages = s->total_pages,
		.free_pages = s->free_pages,
		.file_pages = s->file_pages,
	};

	if (!e->t.has_system)
		return KCD_OK;
	memcpy(r.panic, s->panic, sizeof(r.panic));
	return kcd_append(out, SS_RECORD_SYSTEM, &r, sizeof(r));
}

/* --- log --- */

enum gs_code ss_log_reserve(struct ss_log *log, uint64_t flags)
{
	const uint32_t room = flags & KCD_SS_FROM_PANIC ? LOG_LINES_PANIC : LOG_LINES;

	if (!(flags & SS_KERNEL_LOG) || log->room >= room)
		return GS_OK;
	log->room = 0;
	enum gs_code rc = ss_pages_reserve(&log->pages, room * sizeof(*log->line));
	if (rc)
		return rc;
	log->line = log->pages.at;
	log->room = room;
	return GS_OK;
}

/*
 * The lines of a message, before those of the message after it: the array is filled from its end.
 *
 * @return false: there is no room for all of them
 */
static bool take_message(struct lnx_view *v, struct ss_log *log, const struct lnx_log_message *m)
{
	const uint32_t parts = m->size ? (m->size + PART_SIZE - 1) / PART_SIZE : 1;

	if (parts > log->room - log->used)
		return false;
	struct ss_log_record *line = log->line + (log->room - log->used - parts);
	for (uint32_t i = 0; i < parts; i++) {
		const uint32_t done = i * PART_SIZE;

		line[i] = (struct ss_log_record){
			.seq = m->seq,
			.time_ns = m->time_ns,
			.caller = m->caller,
			.part = (uint16_t)i,
			.facility = m->facility,
			.level_flags = (uint8_t)(m->level | m->flags << 3),
		};
		if (m->size && lnx_read(v, GVA(m->text.a + done), line[i].text,
					(size_t)gs_min(m->size - done, PART_SIZE)))
			return true; /* one message: what cannot be read is left out */
	}
	log->used += parts;
	return true;
}

static void note_log(struct ss_engine *e, enum gs_code rc)
{
	struct ss_note note = { .what = SS_MISSING_LOG,
				.why = rc ? SS_WHY_NO_LOG : SS_WHY_EMPTY_LOG,
				.b = rc };

	ss_note_head(e, note);
}

enum gs_code ss_log_read(struct ss_engine *e)
{
	struct lnx_view *v = &e->worker[0]->v;
	struct lnx_log_message m;
	struct lnx_log log;
	enum gs_code rc;

	if (!(e->t.request->flags & SS_KERNEL_LOG))
		return GS_OK;
	rc = lnx_log_begin(&log, v);
	if (rc) {
		note_log(e, rc);
		return GS_OK;
	}
	for (uint32_t n = 0; lnx_log_previous(&log, &m) && take_message(v, &e->log, &m); n++)
		if (n % MESSAGES_AT_ONCE == 0 && (rc = ss_context_check(&e->context)))
			break;
	/* what was read after the deadline is not to be believed */
	if (!rc)
		rc = ss_context_check(&e->context);
	if (rc)
		e->log.used = 0;
	if (!e->log.used)
		note_log(e, rc);
	return rc;
}

void ss_system_end(struct ss_engine *e)
{
	if (e->log.used)
		e->t.honoured |= SS_KERNEL_LOG;
}

size_t ss_log_size(const struct ss_engine *e)
{
	return e->log.used * sizeof(e->log.line[0]);
}

enum kcd_code ss_write_log(struct kcd_writer *out, const struct ss_engine *e)
{
	const struct ss_log *log = &e->log;

	if (!log->used)
		return KCD_OK;
	return kcd_append_array(out, SS_RECORD_LOG, log->used, sizeof(log->line[0]),
				log->line + (log->room - log->used));
}
