/* SPDX-License-Identifier: Apache-2.0 */
/* The test program as a tool, for tests/e2e/live: deadlines of sources over running guests. */
#ifndef TESTS_UNIT_QEMU_TOOL_H
#define TESTS_UNIT_QEMU_TOOL_H

/**
 * hold MS GUEST   stop the guest with a deadline of MS milliseconds from now, say "stopped", and do
 *                 nothing more until killed: somebody else has to keep the deadline
 * read MS GUEST   the same, but read memory until the source ends it, resume, and say what was when
 *
 * GUEST is --qmp SOCKET or --domain NAME URI.
 *
 * @return exit status: 0, 1: something failed, 2: usage
 */
int tool_run(int argc, char **argv);

#endif
