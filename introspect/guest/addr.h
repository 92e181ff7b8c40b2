/* SPDX-License-Identifier: Apache-2.0 */
/* Typed addresses: the compiler refuses to mix guest-physical and guest-virtual ones. */
#ifndef INTROSPECT_GUEST_ADDR_H
#define INTROSPECT_GUEST_ADDR_H

#include <stdint.h>

/** Guest-physical address. */
typedef struct {
	uint64_t a;
} gpa_t;

/** Guest-virtual address. */
typedef struct {
	uint64_t a;
} gva_t;

#define GPA(x) ((gpa_t){ (x) })
#define GVA(x) ((gva_t){ (x) })

#endif
