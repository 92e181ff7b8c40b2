/* SPDX-License-Identifier: Apache-2.0 */
/* cppcheck does not read the libraries' headers: what looks like no C without them. */
#ifndef TESTS_LINT_CPPCHECK_MACROS_H
#define TESTS_LINT_CPPCHECK_MACROS_H

#define json_array_foreach(array, i, value) \
	for ((i) = 0; ((value) = json_array_get(array, i)); (i)++)
#define json_object_foreach(object, key, value) \
	while (((key) = json_key(object)) && ((value) = json_object_get(object, key)))

#endif
