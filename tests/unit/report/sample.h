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
extern uint64_t sample_flags; /* of the request */

/** Fixture: the guest, a capture of it in sample, a name for a file. */
void sample_setup(void);
void sample_teardown(void);

/** Capture the guest anew, with the flags of sample_flags. */
void sample_take(void);

/**
 * Give thread 102 of the made-up guest a user stack: 0x400100, by its link register 0x400200, then
 * 0x400300 and a frame pointer that is none. In "/bin/tool", from page 2 on, lies [0x400000, 0x400300);
 * its build id has 8 bytes, b10d5eed00ff1001.
 */
void sample_give_user_stack(void);

/** Write bytes to a file and read them as a capture; capture is freed before. */
enum gs_code sample_read(const void *data, size_t size);

/** The same into a capture that holds nothing. */
enum gs_code sample_read_to(const void *data, size_t size, struct rep_capture *out);

/** Read sample, which must work. */
void sample_load(void);

/** What the views print. @return text, to be freed with free() */
char *sample_text(bool group);
char *sample_json(void);

/** The summary of a run that this capture is the last one of. */
char *sample_summary(void);

/** The document without white space. @return text, to be freed with free() */
char *sample_json_compact(void);

/** A part stands in what was printed. */
void sample_has(const char *text, const char *part);

/**
 * Print everything: text must be lines of printable ASCII, JSON a document. For captures of any
 * content.
 */
void sample_show_all(void);

/** The thread with this tid; fails the test when there is none. */
const struct rep_thread *sample_thread(int32_t tid);

#endif
