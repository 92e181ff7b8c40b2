/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas completed by the capture before them. */
#ifndef CLI_REPORT_DELTA_H
#define CLI_REPORT_DELTA_H

/*
 * A delta has the threads that ran since a time T, and names those that did not. What these were doing
 * is what they did in any capture taken at T or later, so that such a capture and the delta together
 * are the full picture of the delta's time:
 *
 *	struct rep_capture c, d;
 *	if (!rep_capture_read("base", &c, &err) && !rep_capture_read("delta", &d, &err) &&
 *	    !rep_capture_apply(&c, &d, &err))
 *		rep_text(&c, false, stdout);
 *
 * The next delta may be one since the base or since the first delta: both complete what is now in c.
 *
 * An incomplete delta leaves out what it should have: what it does not name is then not known to be
 * gone. It is not in the result, which is incomplete as well. So is one whose base was, as long as
 * threads are as they were in it.
 */

#include "cli/report/capture_file.h"

/**
 * The full picture of a delta's time.
 *
 * @param base  a full capture, or a result of this function
 * @param out   freed by rep_capture_deinit(); untouched unless GS_OK
 * @return GS_OK; GS_EINVAL: the two are none for each other (not a base and a delta, another guest,
 * other times); GS_EMALFORMED: the delta calls something unchanged that a complete base does not have,
 * or it is not of guestshot; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code rep_capture_merge(const struct rep_capture *base,
					   const struct rep_capture *delta, struct rep_capture *out,
					   struct gs_error *err);

/** Turn @p base into that picture; as it was unless GS_OK. @return as rep_capture_merge() */
GS_MUST_USE enum gs_code rep_capture_apply(struct rep_capture *base,
					   const struct rep_capture *delta, struct gs_error *err);

/**
 * Check that two captures are of one boot of one guest, as far as they tell, and of the same processes.
 *
 * @return GS_OK; GS_EINVAL
 */
GS_MUST_USE enum gs_code rep_check_same_guest(const struct rep_capture *a,
					      const struct rep_capture *b, struct gs_error *err);

/** What to do about a delta where a full capture should be. @return GS_EINVAL, GS_EMALFORMED */
enum gs_code rep_refuse_delta(const struct rep_capture *delta, const char *path,
			      struct gs_error *err);

/**
 * Read one of several files. What is damaged in it says which one it is of.
 *
 * @param i    its index
 * @return as rep_capture_read()
 */
GS_MUST_USE enum gs_code rep_file_read(char *const *paths, size_t count, size_t i,
				       struct rep_capture *out, struct gs_error *err);

/**
 * Read a full capture and the deltas after it, in the order they were taken.
 *
 * @param paths  at least one; "-", at most once: standard input
 * @param out    the picture of the last one's time; freed by rep_capture_deinit()
 * @return as rep_capture_read() and rep_capture_merge()
 */
GS_MUST_USE enum gs_code rep_files_read(char *const *paths, size_t count, struct rep_capture *out,
					struct gs_error *err);

#endif
