/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of the made-up guest, as bytes, as files and read back. */
#ifndef TESTS_UNIT_REPORT_SAMPLE_H
#define TESTS_UNIT_REPORT_SAMPLE_H

#include "cli/report/report.h"
#include "kcdata/kcdata.h"
#include "tests/unit/linux/linux_guest.h"

extern struct linux_guest guest; /* populated; a test may change it before sample_take() */
extern uint8_t *sample;		 /* the capture's bytes */
extern size_t sample_size;
extern struct rep_capture capture;
extern struct gs_error error;
/** Flags of the requests to come. */
extern uint64_t sample_flags;

/** Fixture: the guest, a capture of it in sample, a name for a file. */
void sample_setup(void);
void sample_teardown(void);

/** Capture the guest anew. */
void sample_take(void);

/** Write bytes to a file and read them as a capture; capture is freed before. */
enum gs_code sample_read(const void *data, size_t size);

/** The same into a capture that holds nothing. */
enum gs_code sample_read_to(const void *data, size_t size, struct rep_capture *out);

/** Read sample, which must work. */
void sample_load(void);

/** What the views print. @return text, to be freed with free() */
char *sample_text(bool group);
char *sample_json(void);

/**
 * Print everything: text must be lines of printable ASCII, JSON a document. For captures of any
 * content.
 */
void sample_show_all(void);

/** The thread with this tid; fails the test when there is none. */
const struct rep_thread *sample_thread(int32_t tid);

#endif
