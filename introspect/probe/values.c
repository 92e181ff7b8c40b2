/* SPDX-License-Identifier: Apache-2.0 */
/* Values of terms as people see them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/util.h"
#include "introspect/probe/priv.h"

/* Kernel addresses are below (39 bits of them in the smallest kernels); negative results and offsets are not. */
#define NUMBER_MIN (-(INT64_C(1) << 32))

#define NUMBER_COST 24u
#define FRAME_MAX   (sizeof(struct btl_name) + 24)

json_t *probe_text_json(const char *text)
{
	char shown[4 * PROBE_FUNCTION_MAX];
	json_t *s = json_string(text);

	if (s)
		return s;
	gs_escape_terminal(text, strlen(text), shown, sizeof(shown));
	return json_string(shown);
}

static json_t *address_json(uint64_t value)
{
	char text[20];

	snprintf(text, sizeof(text), "%#" PRIx64, value);
	return json_string(text);
}

json_t *probe_number_json(uint64_t value)
{
	return (int64_t)value < NUMBER_MIN ? address_json(value) : json_integer((int64_t)value);
}

/* The function that an address is in. Its module is "" in the image */
static bool find_function(const struct probe_session *s, uint64_t code, struct btl_name *name_out)
{
	const struct probe_world *w = &s->e->world;
	struct lnx_symbol symbol;

	if (!w->kernel || lnx_symbol_at(w->kernel, GVA(code), &symbol))
		return w->name && w->name(w->arg, code, name_out);
	name_out->start = symbol.start;
	name_out->module[0] = '\0';
	snprintf(name_out->name, sizeof(name_out->name), "%s", symbol.name);
	return true;
}

/* "vfs_read", "vfs_read+0x1c", "vsock_accept+0x8 [vsock]", or the address. */
static void name_address(const struct probe_session *s, uint64_t address, uint64_t code,
			 bool want_offset, char text_out[static FRAME_MAX])
{
	struct btl_name found;
	int n;

	if (!find_function(s, code, &found)) {
		snprintf(text_out, FRAME_MAX, "%#" PRIx64, address);
		return;
	}
	if (address == found.start || !want_offset)
		n = snprintf(text_out, FRAME_MAX, "%s", found.name);
	else
		n = snprintf(text_out, FRAME_MAX, "%s+%#" PRIx64, found.name,
			     address - found.start);
	if (*found.module)
		snprintf(text_out + n, FRAME_MAX - (size_t)n, " [%s]", found.module);
}

static json_t *symbol_json(const struct probe_session *s, uint64_t address, size_t *cost)
{
	char text[FRAME_MAX] = "[user]";

	if (address)
		name_address(s, address, address, false, text);
	*cost += strlen(text);
	return probe_text_json(text);
}

static json_t *frame_json(const struct probe_session *s, uint64_t frame, size_t *cost)
{
	char text[FRAME_MAX];

	if (btl_frame_is_pseudo(frame))
		snprintf(text, sizeof(text), "%s", btl_pseudo_name(frame));
	else
		name_address(s, btl_frame_address(frame), btl_frame_code(frame), true, text);
	*cost += strlen(text) + 4;
	return probe_text_json(text);
}

/* Innermost first; "…" stands for outer frames that were cut. */
static json_t *stack_json(const struct probe_session *s, uint32_t ref, size_t *cost)
{
	struct btl_stack stack;

	if (!ref || !s->library || btl_stack_copy(s->library, ref, &stack))
		return json_null(); /* of a kernel that is gone */
	json_t *list = json_array();
	for (uint32_t i = 0; i < stack.count; i++) {
		if (json_array_append_new(list, frame_json(s, stack.frame[i], cost))) {
			json_decref(list);
			return NULL;
		}
	}
	if (stack.cut && json_array_append_new(list, json_string("…"))) {
		json_decref(list);
		return NULL;
	}
	return list;
}

json_t *probe_value_json(const struct probe_session *s, const struct probe_term *term,
			 const uint64_t *word, size_t *cost)
{
	char comm[PROBE_COMM_MAX + 1];

	*cost += NUMBER_COST;
	switch (term->kind) {
	case PROBE_TERM_COMM:
		memcpy(comm, word, PROBE_COMM_MAX);
		comm[PROBE_COMM_MAX] = '\0';
		*cost += 6 * PROBE_COMM_MAX;
		return probe_text_json(comm);
	case PROBE_TERM_SYMBOL: return symbol_json(s, *word, cost);
	case PROBE_TERM_STACK: return stack_json(s, (uint32_t)*word, cost);
	case PROBE_TERM_X:
	case PROBE_TERM_SP:
	case PROBE_TERM_PC:
	case PROBE_TERM_PSTATE: return address_json(*word);
	case PROBE_TERM_NUMBER:
	case PROBE_TERM_STRING:
	case PROBE_TERM_PID:
	case PROBE_TERM_TID:
	case PROBE_TERM_VCPU:
	case PROBE_TERM_TIME:
	case PROBE_TERM_ARG: return probe_number_json(*word);
	}
	return NULL;
}
