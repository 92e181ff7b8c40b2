/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the control socket that are about tracing, from three clients in turn, and events in between.
 *
 * Whatever they are, each is answered or refused with a reason, and what a session says it has enabled can
 * be enabled again. An engine is made for each input, so that none depends on another.
 */
#include <string.h>

#include "base/util.h"
#include "control/protocol.h"
#include "control/trace.h"
#include "introspect/guest/memory_guest.h"
#include "introspect/probe/program.h"
#include "tests/fuzz/fuzz.h"

#define CLIENTS 3u
#define VCPUS	2u

static bool is_trace(const struct ctl_request *r)
{
	return r->command >= CTL_CMD_TRACE_CONF && r->command <= CTL_CMD_TRACE_CLOSE;
}

/* A program that was told is a program, in both of its forms. */
static void check_enablings(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "text"));
	struct probe_program p;

	if (!*text || strlen(text) != (size_t)json_integer_value(json_object_get(answer, "length")))
		return; /* nothing, or cut */
	/* several programs may be longer together than one may be */
	const enum gs_code rc = probe_program_parse(text, strlen(text), &p, NULL);
	HOLDS(!rc || rc == GS_ETOOBIG);
	probe_program_deinit(&p);
	const enum gs_code same =
		probe_program_from_json(json_object_get(answer, "program"), &p, NULL);
	HOLDS(!same || same == GS_ETOOBIG);
	probe_program_deinit(&p);
}

static void one_line(struct ctl_trace *t, struct ctl_trace_client *client, const char *line,
		     size_t len)
{
	struct ctl_request r;
	struct ctl_fault fault = { 0 };
	struct gs_error err = { 0 };
	json_t *answer = NULL;

	if (!ctl_request_parse(line, len, &r, &fault)) {
		HOLDS(fault.class && *fault.desc);
	} else if (is_trace(&r)) {
		const enum gs_code rc = ctl_trace_do(t, client, ctl_command_name(r.command),
						     r.trace, &answer, &err);

		HOLDS(rc ? !answer && *err.text : answer != NULL);
		if (!rc && r.command == CTL_CMD_TRACE_ENABLINGS)
			check_enablings(answer);
		json_decref(answer);
	}
	ctl_request_deinit(&r);
}

static void events(struct ctl_trace *t, uint32_t n)
{
	ctl_trace_guest(t, (enum ctl_trace_guest)(n % CTL_TRACE_GUEST_EVENTS), n, 1);
	ctl_trace_vcpu(t, n % VCPUS, (enum ctl_trace_vcpu)(n % CTL_TRACE_VCPU_EVENTS), n, NULL,
		       NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct memory_guest m;
	struct ctl_trace_client client[CLIENTS] = { 0 };
	struct ctl_trace *t;
	uint32_t n = 0;

	memory_guest_init(&m, VCPUS);
	HOLDS(!ctl_trace_create(&m.guest, NULL, &t, NULL));
	for (size_t at = 0; at < size; n++) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		const size_t len = end ? (size_t)(end - data) - at : size - at;

		one_line(t, &client[n % CLIENTS], (const char *)data + at, len);
		events(t, n);
		events(t, n + 3);
		at += len + 1;
	}
	for (uint32_t i = 0; i < CLIENTS; i++)
		ctl_trace_client_gone(t, &client[i]);
	ctl_trace_destroy(t);
	HOLDS(m.stop_depth == 0);
	return 0;
}
