/* SPDX-License-Identifier: Apache-2.0 */
/* The made-up guest of the tests of introspect/linux, for this program too. */
#include "tests/unit/linux/linux_context.c"
#include "tests/unit/linux/linux_guest.c"
#include "tests/unit/linux/linux_modules.c"
#include "tests/unit/linux/linux_system.c"
#include "tests/unit/linux/linux_tasks.c"
#include "tests/unit/linux/linux_waits.c"
#include "tests/unit/linux/symtab.c"
#include "tests/unit/linux/typeinfo.c"
