/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made from the types of a made-up kernel. */
#include "tests/unit/linux/profile_json.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/image_file.h"

/* No structure of typeinfo.h that is not named below is larger. */
#define OTHER_STRUCT_MAX 256

void types_of(const struct typeinfo_form *form, struct lnx_types *types_out)
{
	size_t size;
	uint8_t *blob = typeinfo_make(form, &size);

	ck_assert_int_eq(lnx_types_read(blob, size, types_out, NULL), GS_OK);
	free(blob);
}

static json_t *json_of(const struct lnx_field *f)
{
	return json_pack("{s:I, s:I}", "offset", (json_int_t)f->offset, "size",
			 (json_int_t)f->size);
}

/* One of two names. */
static void pick_name(const char *names, bool old, char *name, size_t size)
{
	const char *bar = strchr(names, '|');

	if (old && bar)
		snprintf(name, size, "%s", bar + 1);
	else
		snprintf(name, size, "%.*s", (int)(bar ? bar - names : (ptrdiff_t)strlen(names)),
			 names);
}

void member_name(enum lnx_member m, bool old, char *name, size_t size)
{
	pick_name(lnx_member_name(m).path, old, name, size);
}

static json_t *enums_of(const struct lnx_types *types, bool old)
{
	json_t *zone = json_object(), *node = json_object();

	ck_assert(zone && node);
	for (size_t c = 0; c < LNX_COUNTERS; c++) {
		const struct lnx_element *e = &types->counter[c];
		char name[64];

		pick_name(lnx_counter_name((enum lnx_counter)c), old, name, sizeof(name));
		if (e->present)
			json_object_set_new(e->of_nodes ? node : zone, name,
					    json_integer(e->index));
	}
	return json_pack("{s:o, s:o}", LNX_ZONE_ENUM, zone, LNX_NODE_ENUM, node);
}

json_t *profile_of(const struct lnx_types *types, bool old)
{
	const struct {
		const char *name;
		json_int_t size;
	} sizes[] = {
		{ "mm_struct", sizeof(struct lg_mm) },
		{ "task_struct", types->task_size },
		{ "pt_regs", types->pt_regs_size },
		{ "signal_struct", sizeof(struct lg_signal) },
		{ "rq", sizeof(struct lg_rq) },
		{ "module", sizeof(struct lg_module) },
		{ "module_memory", sizeof(struct lg_memory) },
		{ "mod_kallsyms", sizeof(struct lg_mod_kallsyms) },
		{ "ftrace_ret_stack", sizeof(struct lg_ret_stack) },
		{ "kretprobe_instance",
		  old ? sizeof(struct lg_old_kretprobe) : sizeof(struct lg_kretprobe) },
		{ "fgraph_ops", 16 },
	};
	json_t *structs = json_object();
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		json_object_set_new(structs, sizes[i].name,
				    json_pack("{s:I, s:{}}", "size", sizes[i].size, "members"));
	json_t *percpu = json_object();

	ck_assert(structs && percpu);
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const char *struct_name = lnx_member_name((enum lnx_member)m).in;
		json_t *in = json_object_get(structs, struct_name);
		char name[64];

		if (!in) { // one of those that only some records are made of
			in = json_pack("{s:i, s:{}}", "size", OTHER_STRUCT_MAX, "members");
			json_object_set_new(structs, struct_name, in);
		}

		member_name((enum lnx_member)m, old, name, sizeof(name));
		if (!types->member[m].present)
			continue;
		if (!in) { // of those whose size does not matter
			in = json_pack("{s:i,s:{}}", "size", 4096, "members");
			json_object_set_new(structs, lnx_member_name((enum lnx_member)m).in, in);
		}
		json_object_set_new(json_object_get(in, "members"), name,
				    json_of(&types->member[m]));
	}
	for (size_t p = 0; p < LNX_PERCPUS; p++)
		if (types->percpu[p].present)
			json_object_set_new(percpu, lnx_percpu_name((enum lnx_percpu)p),
					    json_of(&types->percpu[p]));
	if (types->has_frame_record_meta)
		json_object_set_new(structs, "frame_record_meta", json_pack("{s:i}", "size", 24));
	return json_pack("{s:i, s:o, s:o, s:o}", "guestshot-profile", 1, "structs", structs,
			 "percpu", percpu, "enums", enums_of(types, old));
}

json_t *good_profile(void)
{
	static struct lnx_types types;

	types_of(&(struct typeinfo_form){ 0 }, &types);
	return profile_of(&types, false);
}

json_t *struct_in(json_t *root, const char *name)
{
	return json_object_get(json_object_get(root, "structs"), name);
}

json_t *members_in(json_t *root, const char *name)
{
	return json_object_get(struct_in(root, name), "members");
}

enum gs_code profile_open_text(const char *text, size_t size, struct lnx_profile **profile_out,
			       struct gs_error *err)
{
	struct image_file f = image_file_make(text, size);

	*err = (struct gs_error){ 0 };
	*profile_out = NULL;
	enum gs_code rc = lnx_profile_open(f.path, profile_out, err);
	if (rc)
		ck_assert_msg(!strncmp(err->text, "profile ", 8) && strstr(err->text, f.path), "%s",
			      err->text);
	image_file_close(&f);
	return rc;
}

enum gs_code profile_open_json(const json_t *root, struct lnx_profile **profile_out,
			       struct gs_error *err)
{
	char *text = json_dumps(root, JSON_INDENT(1));

	ck_assert_ptr_nonnull(text);
	enum gs_code rc = profile_open_text(text, strlen(text), profile_out, err);
	free(text);
	return rc;
}
