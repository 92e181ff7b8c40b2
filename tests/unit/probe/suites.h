/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file, and what they share. */
#ifndef TESTS_UNIT_PROBE_SUITES_H
#define TESTS_UNIT_PROBE_SUITES_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "introspect/guest/memory_guest.h"
#include "introspect/probe/session.h"

Suite *suite_program(void);
Suite *suite_session(void);
Suite *suite_records(void);
Suite *suite_kernel(void);
Suite *suite_fbt(void);
Suite *suite_threads(void);

#define MADE_VCPUS  3u
#define MADE_PROBES 8u

/* A guest without RAM, an engine, and a provider "made" of module "m", functions f0 … f7, name "hit". */
struct made {
	struct memory_guest memory;
	struct probe_engine *e;
	struct probe_provider *p;
	uint32_t id[MADE_PROBES];   /* of f0 …; 0: it was not provided yet */
	uint32_t there;		    /* probes that provide() may make */
	uint32_t enabled;	    /* bits by key */
	uint32_t enables, disables; /* calls */
	uint32_t refuse;	    /* bits by key: enable fails */
	_Atomic uint32_t stackshots;
};

void made_create(struct made *m, uint64_t (*clock)(void), uint64_t deadman_ns);
void made_destroy(struct made *m);

/* Fire f<n> on a vCPU with arg0 and arg1. */
void made_fire(struct made *m, uint32_t n, uint32_t vcpu, uint64_t arg0, uint64_t arg1);

struct probe_session *made_session(struct made *m);

/* Enable a text. @return the result; what was matched is in made_matched */
enum gs_code made_enable(struct probe_session *s, const char *text);
extern uint32_t made_matched;
extern struct gs_error made_error;

/* Expect GS_OK. */
void made_go(struct probe_session *s);
void made_stop(struct probe_session *s);

/* A vCPU's records or entries, all pages; returned: json_decref(). */
json_t *made_records(struct probe_session *s, uint32_t vcpu, uint64_t *drops_out,
		     uint64_t *errors_out);
json_t *made_entries(struct probe_session *s, uint32_t vcpu, uint64_t *drops_out);

/* The sum of the values of all vCPUs' entries. */
int64_t made_sum(struct probe_session *s);

#endif
