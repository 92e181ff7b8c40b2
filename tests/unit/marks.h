/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcheck writes down each assertion that holds, so that it can name the last one before a crash: a write and
 * its reading back, which took nine tenths of the time of a suite that judges a million records under a sanitizer.
 * The sanitizer names the line of a crash itself. Included before the sources of tests, in its flavours alone.
 */
#ifndef TESTS_UNIT_MARKS_H
#define TESTS_UNIT_MARKS_H

#include <check.h>

/* NOLINTNEXTLINE(bugprone-reserved-identifier): the name is libcheck's */
#define _mark_point(file, line) ((void)0)

/* the old name of ck_abort_msg(), for which sources that do not include libcheck have other uses */
#undef fail

#endif
