/* SPDX-License-Identifier: Apache-2.0 */
/* The test program as a tool, for tests/e2e/dumps: real dumps are opened by the code under test. */
#ifndef TESTS_UNIT_GUEST_TOOL_H
#define TESTS_UNIT_GUEST_TOOL_H

/**
 * show DUMP              how it is read, its ranges and registers
 * compare DUMP RAW BASE  its memory against the bare RAM in RAW, which began at BASE
 * rewrite DUMP OUT       open it, and write it as an ELF core with a made-up VMCOREINFO
 * try DUMP...            open each and read all of it, whatever it holds: a capture of what is there,
 *                        or a clear error
 *
 * @return exit status: 0, 1: differs or cannot be opened, 2: usage
 */
int tool_run(int argc, char **argv);

#endif
