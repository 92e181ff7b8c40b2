/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of probe names. */
#include "introspect/probe/provider.h"

/* fnmatch() takes time without bound for a pattern of many stars; this one length times length at most. */
bool probe_glob(const char *glob, const char *text)
{
	const char *star = NULL, *retry = NULL;

	if (!*glob)
		return true;
	while (*text) {
		if (*glob == '*') {
			star = ++glob;
			retry = text;
		} else if (*glob && (*glob == '?' || *glob == *text)) {
			glob++;
			text++;
		} else if (star) {
			glob = star;
			text = ++retry; /* the last star takes one byte more */
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

bool probe_name_matches(const struct probe_name *pattern, const struct probe_name *name)
{
	return probe_glob(pattern->provider, name->provider) &&
	       probe_glob(pattern->module, name->module) &&
	       probe_glob(pattern->function, name->function) &&
	       probe_glob(pattern->name, name->name);
}
