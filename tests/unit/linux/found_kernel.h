/* SPDX-License-Identifier: Apache-2.0 */
/* One made guest and the kernel that a search finds in it, for the tests of the ways to a kernel. */
#ifndef TESTS_UNIT_LINUX_FOUND_KERNEL_H
#define TESTS_UNIT_LINUX_FOUND_KERNEL_H

#include "introspect/linux/reference.h"
#include "tests/unit/linux/linux_guest.h"

struct found_kernel {
	struct linux_guest g;
	struct lnx_kernel *k;	   /* NULL: none found */
	struct lnx_reference *ref; /* NULL: none opened */
	struct gs_error err;	   /* of the last search */
};

/* Kernels with and without symbols of data. */
extern const struct lg_form data_forms[4];

/* Check runs each test in a process of its own: what one leaves behind no other sees. */
extern struct found_kernel made;

void make(const struct lg_form *form);
void done(void);
void forget_registers(void);

/** Open the guest's own kernel image as the reference. */
void open_image(void);

/** What that image says, as hints; without one: nothing. */
const struct lnx_hints *by_image(void);

enum gs_code find(const struct lnx_hints *hints);

/** The kernel is found, it is the guest's, and these are the ways that led to it. */
void expect_found(const struct lnx_hints *hints, enum lnx_way symbols, enum lnx_way place,
		  enum lnx_way types);

/** The same for a kernel whose symbols and types were read in its own memory. */
void expect_found_alone(const struct lnx_hints *hints, enum lnx_way symbols, enum lnx_way place);

/** No kernel is found, for this reason. */
void expect_not_found(enum gs_code code, const char *text);

#endif
