/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU guest over a link, as a source. */
#include "introspect/guest/qemu_source.h"

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/qemu_memory.h"
#include "introspect/guest/qemu_monitor.h"
#include "introspect/guest/qemu_text.h"

/* A deadline that has all but passed still lets QEMU answer a command. */
#define WAIT_MIN_NS (100 * GS_NS_PER_MS)

struct qemu_source {
	struct guest guest;
	struct guest_monitor monitor;
	struct guest_qemu_memory *memory;
	pthread_mutex_t lock; /* guards what follows: stops and resumes come from any thread */
	uint32_t depth;	      /* stops not yet resumed */
	bool found_paused;    /* by the first of them: then not ours to resume */
	uint64_t deadline_ns; /* of the next stop, or the one that is under way */
	uint64_t resume_ns;   /* what a resume takes, about */
	uint32_t *clusters;
	struct guest_vcpu_regs *regs; /* of the last stop */
};

uint64_t guest_qemu_wait_ns(uint64_t deadline_ns)
{
	uint64_t now = gs_clock_ns();

	return deadline_ns > now ? gs_max(deadline_ns - now, WAIT_MIN_NS) : WAIT_MIN_NS;
}

/* --- vCPUs --------------------------------------------------------------------------------------
 */

/* All registers as far as the monitor tells them. @return GS_OK also if it tells none */
static enum gs_code read_registers(struct qemu_source *s, uint32_t *complete_out,
				   struct gs_error *err)
{
	json_t *text;
	enum gs_code rc = guest_monitor_text(&s->monitor, &text, err, "info registers -a");

	*complete_out = 0;
	if (rc == GS_EBUSY || rc == GS_ENOTSUP || rc == GS_EMALFORMED) {
		/* an answer, if no good one: a capture without registers is still one */
		(void)guest_qemu_parse_registers("", 0, s->regs, s->guest.vcpu_count);
		return GS_OK;
	}
	if (rc)
		return rc;
	*complete_out = guest_qemu_parse_registers(
		json_string_value(text), json_string_length(text), s->regs, s->guest.vcpu_count);
	json_decref(text);
	return GS_OK;
}

/* A small number of an object; UINT32_MAX: it has no such one. */
static uint32_t small_number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	json_int_t n = json_integer_value(value);

	return json_is_integer(value) && n >= 0 && n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The number of a pair of socket and cluster among those seen; a new pair is added. */
static uint32_t cluster_number(struct qemu_source *s, const json_t *props, uint64_t *pairs)
{
	uint64_t pair = (uint64_t)small_number(props, "socket-id") << 32 |
			small_number(props, "cluster-id");
	uint32_t i = 0;

	while (i < s->guest.cluster_count && pairs[i] != pair)
		i++;
	if (i == s->guest.cluster_count)
		pairs[s->guest.cluster_count++] = pair;
	return i;
}

/* The answer of query-cpus-fast. CPUs may be missing in the row of their numbers (unplugged). */
static enum gs_code take_vcpus(struct qemu_source *s, const json_t *cpus, struct gs_error *err)
{
	GS_FREE uint64_t *pairs = gs_array_alloc(GUEST_VCPUS_MAX, sizeof(*pairs));
	size_t i;
	json_t *cpu;

	s->clusters = gs_array_alloc(GUEST_VCPUS_MAX, sizeof(*s->clusters));
	s->regs = gs_array_alloc(GUEST_VCPUS_MAX, sizeof(*s->regs));
	if (!pairs || !s->clusters || !s->regs)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	json_array_foreach(cpus, i, cpu)
	{
		uint32_t number = small_number(cpu, "cpu-index");
		const char *target = json_string_value(json_object_get(cpu, "target"));

		if (target && strcmp(target, "aarch64") != 0)
			return gs_fail(err, GS_ENOTSUP, "the guest is %.40s: only ARM64 is read",
				       target);
		if (number >= GUEST_VCPUS_MAX)
			return gs_fail(err, GS_ETOOBIG, "over %d vCPUs", GUEST_VCPUS_MAX);
		s->clusters[number] = cluster_number(s, json_object_get(cpu, "props"), pairs);
		s->guest.vcpu_count = (uint32_t)gs_max(s->guest.vcpu_count, number + 1);
	}
	if (s->guest.cluster_count == s->guest.vcpu_count) {
		/* a socket for each, as libvirt does it unless told otherwise: no topology at all */
		memset(s->clusters, 0, GUEST_VCPUS_MAX * sizeof(*s->clusters));
		s->guest.cluster_count = 1;
	}
	return s->guest.vcpu_count ? GS_OK : gs_fail(err, GS_EMALFORMED, "QEMU has no vCPU");
}

static enum gs_code find_vcpus(struct qemu_source *s, struct gs_error *err)
{
	json_t *cpus;
	enum gs_code rc = guest_monitor_execute(&s->monitor, "query-cpus-fast", NULL, &cpus, err);

	if (rc)
		return rc;
	rc = take_vcpus(s, cpus, err);
	json_decref(cpus);
	if (s->guest.cluster_count == 0)
		s->guest.cluster_count = 1;
	s->guest.vcpu_cluster = s->clusters;
	return rc;
}

/* --- stop and resume ----------------------------------------------------------------------------
 */

/* Ask for a resume, and note how long it takes. */
static enum gs_code resume_link(struct qemu_source *s, struct gs_error *err)
{
	struct guest_link *l = s->monitor.link;
	uint64_t start_ns = gs_clock_ns();

	pthread_mutex_lock(&s->monitor.lock);
	/* not to be left undone: it has the time that it takes */
	enum gs_code rc = l->ops->resume(l, gs_clock_ns() + s->monitor.wait_ns, err);
	pthread_mutex_unlock(&s->monitor.lock);
	s->resume_ns = gs_max(gs_clock_ns() - start_ns, s->resume_ns - s->resume_ns / 4);
	return rc;
}

static enum gs_code suspend_locked(struct qemu_source *s, struct gs_error *err)
{
	struct guest_link *l = s->monitor.link;
	struct gs_error later = { 0 };
	bool running;

	pthread_mutex_lock(&s->monitor.lock);
	enum gs_code rc = l->ops->is_running(l, guest_monitor_limit(&s->monitor), &running, err);
	bool asked = !rc && running;
	if (asked)
		rc = l->ops->suspend(l, s->deadline_ns, guest_monitor_limit(&s->monitor), err);
	pthread_mutex_unlock(&s->monitor.lock);
	if (!rc)
		s->found_paused = !running;
	/* only now it is known when the guest runs again: that is what the caller has to be told */
	if (asked && rc == GS_ETIMEDOUT && resume_link(s, &later) == GS_ETIMEDOUT && err)
		*err = later;
	return rc;
}

static void forget_deadline(struct qemu_source *s)
{
	s->deadline_ns = GUEST_NO_DEADLINE;
	atomic_store_explicit(&s->monitor.end_ns, GUEST_NO_DEADLINE, memory_order_relaxed);
}

static enum gs_code resume_locked(struct qemu_source *s, struct gs_error *err)
{
	guest_qemu_memory_stands(s->memory, false);
	return s->found_paused ? GS_OK : resume_link(s, err);
}

static enum gs_code source_stop(void *priv, struct gs_error *err)
{
	struct qemu_source *s = priv;
	enum gs_code rc = GS_OK;
	uint32_t complete;

	pthread_mutex_lock(&s->lock);
	if (s->depth == 0) {
		rc = suspend_locked(s, err);
		if (!rc) {
			rc = read_registers(s, &complete, err);
			if (rc)
				(void)resume_locked(s, NULL); /* the first error is the news */
		}
		if (!rc)
			guest_qemu_memory_stands(s->memory, true);
	}
	if (!rc)
		s->depth++;
	else
		forget_deadline(s);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum gs_code source_resume(void *priv, struct gs_error *err)
{
	struct qemu_source *s = priv;
	enum gs_code rc = GS_OK;

	pthread_mutex_lock(&s->lock);
	if (s->depth == 0)
		rc = gs_fail(err, GS_EBUSY, "resume without a stop");
	else if (--s->depth == 0) {
		rc = resume_locked(s, err); /* a failure is the link's to mend: it has let go */
		forget_deadline(s);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum gs_code source_vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct qemu_source *s = priv;

	pthread_mutex_lock(&s->lock);
	enum gs_code rc = s->depth ? GS_OK : GS_EBUSY;
	if (!rc)
		*regs_out = s->regs[vcpu];
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum gs_code source_read(void *priv, gpa_t at, void *buf, size_t len)
{
	struct qemu_source *s = priv;

	return guest_qemu_memory_read(s->memory, at, buf, len);
}

static bool source_next_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	struct qemu_source *s = priv;

	return guest_qemu_memory_next_data(s->memory, from, end, start_out, end_out);
}

static uint64_t source_set_deadline(void *priv, uint64_t deadline_ns)
{
	struct qemu_source *s = priv;
	uint64_t end_ns = deadline_ns;

	pthread_mutex_lock(&s->lock);
	s->deadline_ns = deadline_ns;
	if (deadline_ns != GUEST_NO_DEADLINE) {
		uint64_t now = gs_clock_ns();
		uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

		/* for a question that is under way, and the resume; half of it at most */
		end_ns -= gs_min(s->resume_ns + guest_qemu_memory_ask_ns(s->memory), left / 2);
	}
	atomic_store_explicit(&s->monitor.end_ns, end_ns, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	return end_ns;
}

static const struct guest_ops source_ops = {
	.stop = source_stop,
	.resume = source_resume,
	.vcpu_regs = source_vcpu_regs,
	.read = source_read,
	.next_data = source_next_data,
	.set_deadline = source_set_deadline,
};

/* --- life ---------------------------------------------------------------------------------------
 */

static void source_close(void *priv)
{
	struct qemu_source *s = priv;
	struct guest_link *l = s->monitor.link;

	if (s->depth)
		(void)resume_locked(s, NULL); /* close() is the second try */
	guest_qemu_memory_destroy(s->memory);
	l->ops->close(l);
	pthread_mutex_destroy(&s->monitor.lock);
	pthread_mutex_destroy(&s->lock);
	free(s->clusters);
	free(s->regs);
	free(s);
}

/* One line on what is missing. */
static void write_note(const struct qemu_source *s, uint32_t complete, char *note)
{
	const char *why = guest_qemu_memory_why(s->memory);

	snprintf(note, GUEST_SOURCE_NOTE_MAX, "%s%s%s",
		 complete ? "no system registers" : "no registers: QEMU's monitor gives none",
		 *why ? "; no faster way to memory: " : "", why);
}

static enum gs_code source_fill(struct qemu_source *s, struct guest_source *source_out,
				struct gs_error *err)
{
	uint32_t complete;
	enum gs_code rc = find_vcpus(s, err);

	if (!rc)
		rc = read_registers(s, &complete, err);
	if (!rc)
		rc = guest_qemu_memory_create(&s->monitor, &s->memory, err);
	if (rc)
		return rc;
	s->guest.ranges = guest_qemu_memory_ranges(s->memory, &s->guest.range_count);
	*source_out = (struct guest_source){
		.guest = &s->guest,
		.close = source_close,
		.priv = s,
		.access = guest_qemu_memory_access(s->memory),
	};
	write_note(s, complete, source_out->note);
	return GS_OK;
}

enum gs_code guest_qemu_source_create(struct guest_link *link, uint64_t wait_ns,
				      struct guest_source *source_out, struct gs_error *err)
{
	struct qemu_source *s = calloc(1, sizeof(*s));

	if (!s) {
		link->ops->close(link);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	s->monitor.link = link;
	s->monitor.wait_ns = wait_ns;
	atomic_init(&s->monitor.end_ns, GUEST_NO_DEADLINE);
	s->deadline_ns = GUEST_NO_DEADLINE;
	s->resume_ns = link->resume_ns;
	pthread_mutex_init(&s->monitor.lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	s->guest.ops = &source_ops;
	s->guest.priv = s;
	s->guest.source = link->name;
	enum gs_code rc = source_fill(s, source_out, err);
	if (rc)
		source_close(s);
	return rc;
}

enum gs_code guest_source_open_qmp(const char *socket_path, uint64_t deadline_ns,
				   struct guest_source *source_out, struct gs_error *err)
{
	struct guest_link *link;
	uint64_t wait_ns = guest_qemu_wait_ns(deadline_ns);
	enum gs_code rc = guest_qmp_link_open(socket_path, deadline_ns, &link, err);

	if (rc)
		return rc;
	rc = guest_qemu_source_create(link, wait_ns, source_out, err);
	return rc ? gs_wrap(err, rc, "%s", socket_path) : GS_OK;
}

enum gs_code guest_source_open_libvirt(const char *uri, const char *domain, uint64_t deadline_ns,
				       struct guest_source *source_out, struct gs_error *err)
{
	struct guest_link *link;
	uint64_t wait_ns = guest_qemu_wait_ns(deadline_ns);
	enum gs_code rc = guest_libvirt_link_open(uri, domain, deadline_ns, &link, err);

	if (rc)
		return rc;
	rc = guest_qemu_source_create(link, wait_ns, source_out, err);
	return rc ? gs_wrap(err, rc, "domain %s", domain) : GS_OK;
}
