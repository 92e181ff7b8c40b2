/* SPDX-License-Identifier: Apache-2.0 */
/* VMCOREINFO: what a kernel says of itself for readers of its dumps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/finder.h"

/* The text has a page of its own and begins with this line (kernel/vmcore_info.c; 5.10 to 7.3). */
#define TEXT_START "OSRELEASE="
#define TEXT_EVERY UINT64_C(4096)

/* All of the characters are a number; what would not fit is none. */
static bool take_number(const char *from, size_t len, int base, uint64_t *value_out)
{
	char text[32], *stop;

	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, from, len);
	text[len] = '\0';
	errno = 0;
	*value_out = strtoull(text, &stop, base);
	return !errno && stop == text + len;
}

bool lnx_vmcoreinfo_number(const struct lnx_hints *hints, const char *key, uint64_t *value_out)
{
	const char *at = hints->vmcoreinfo;
	/* notes may be padded with NULs: the first one ends the text */
	const char *end = at ? at + strnlen(at, hints->vmcoreinfo_size) : NULL;
	size_t len = strlen(key);

	while (at && at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t line = (size_t)((line_end ? line_end : end) - at);

		/* SYMBOL() and KERNELOFFSET are hexadecimal without 0x, NUMBER() as it likes */
		if (line > len && !memcmp(at, key, len) && at[len] == '=')
			return take_number(at + len + 1, line - len - 1,
					   strncmp(key, "NUMBER", 6) ? 16 : 0, value_out);
		at = line_end ? line_end + 1 : NULL;
	}
	return false;
}

/* The text at @p at, if it is one that says where its kernel is. */
static bool read_text(const struct guest *g, gpa_t at, char *text, struct lnx_hints *hints_out)
{
	uint64_t voffset, directory;

	if (guest_read(g, at, text, LNX_VMCOREINFO_MAX))
		return false;
	*hints_out = (struct lnx_hints){ .vmcoreinfo = text,
					 .vmcoreinfo_size = strnlen(text, LNX_VMCOREINFO_MAX) };
	return lnx_vmcoreinfo_number(hints_out, "NUMBER(kimage_voffset)", &voffset) &&
	       lnx_vmcoreinfo_number(hints_out, "SYMBOL(swapper_pg_dir)", &directory) &&
	       guest_range_find(g, GPA(directory - voffset));
}

static bool is_of(const struct lnx_hints *hints, const struct lnx_kernel *k)
{
	uint64_t voffset, text;

	return !k ||
	       (lnx_vmcoreinfo_number(hints, "NUMBER(kimage_voffset)", &voffset) &&
		voffset == k->voffset &&
		(!lnx_vmcoreinfo_number(hints, "SYMBOL(_stext)", &text) || text == k->text.start));
}

bool lnx_vmcoreinfo_find(const struct guest *g, const struct lnx_kernel *k,
			 char text_out[static LNX_VMCOREINFO_MAX], size_t *size_out)
{
	const size_t n = strlen(TEXT_START);

	for (uint32_t i = 0; i < g->range_count; i++) {
		const struct guest_range *r = &g->ranges[i];
		const gpa_t end = GPA(r->start.a + r->size);
		gpa_t at = GPA(gs_align_up(r->start.a, TEXT_EVERY)), data_end;

		while (at.a < end.a) {
			char start[sizeof(TEXT_START)];
			gpa_t data = at;
			struct lnx_hints hints;

			if (g->ops->next_data &&
			    (!g->ops->next_data(g->priv, at, end, &data, &data_end) ||
			     data.a < at.a))
				break;
			at.a = data.a & ~(TEXT_EVERY - 1);
			if (!guest_read(g, at, start, n) && !memcmp(start, TEXT_START, n) &&
			    read_text(g, at, text_out, &hints) && is_of(&hints, k)) {
				*size_out = hints.vmcoreinfo_size;
				return true;
			}
			at.a += TEXT_EVERY;
		}
	}
	return false;
}
