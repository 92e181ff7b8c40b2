/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made of images and symbol files, and compared with kernels. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/layouts.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/profile_json.h"
#include "tests/unit/linux/suites.h"

static struct lnx_profile *profile;
static struct gs_error err;

static enum gs_code make_of(const void *data, size_t size)
{
	struct image_file f = image_file_make(data, size);
	char *text = NULL;

	err = (struct gs_error){ 0 };
	profile = NULL;
	enum gs_code rc = lnx_profile_make(f.path, &text, &err);
	if (rc)
		ck_assert_msg(err.code == rc && strstr(err.text, f.path), "%s", err.text);
	else // what is written can be read
		ck_assert_msg(!profile_open_text(text, strlen(text), &profile, &err), "%s",
			      err.text);
	image_file_close(&f);
	free(text);
	return rc;
}

static void expect_bad(const void *data, size_t size, enum gs_code code, const char *why)
{
	enum gs_code rc = make_of(data, size);

	ck_assert_msg(rc == code, "%d: %s", rc, err.text);
	ck_assert_msg(strstr(err.text, why), "%s: not %s", err.text, why);
}

static char differences[4096];

static void note_difference(const struct lnx_difference *d, void *arg)
{
	size_t have = strlen(differences);

	(void)arg;
	snprintf(differences + have, sizeof(differences) - have, "%s: %s, %s\n", d->name,
		 d->profile ? d->profile : "-", d->kernel ? d->kernel : "-");
}

static uint32_t compare(void)
{
	*differences = '\0';
	return lnx_profile_compare(profile, made.k, note_difference, NULL);
}

/* --- images ----------------------------------------------------------------------------------- */

static const struct lg_form forms[] = {
	{ .style = 'A', .old = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
};

static void expect_profile_of_the_kernel(const char *what)
{
	ck_assert_msg(compare() == 0, "%s: %s", what, differences);
	ck_assert_int_eq(lnx_profile_match(profile, made.k), LNX_PROFILE_SAME_BUILD_ID);
	ck_assert(profile->has_build_id);
	ck_assert_mem_eq(profile->build_id, lg_build_id, LNX_BUILD_ID);
	ck_assert_str_eq(profile->banner, lnx_kernel_banner(made.k));
	lnx_profile_destroy(profile);
}

START_TEST(profile_of_an_image_is_what_the_kernel_says)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t size;

		make(&forms[i]);
		ck_assert_int_eq(find(NULL), GS_OK);
		uint8_t *image = image_make(&made.g, 0, &size);
		ck_assert_msg(make_of(image, size) == GS_OK, "%s", err.text);
		expect_profile_of_the_kernel("Image");
		free(image);
		image = image_make_vmlinux(&made.g, 0, &size);
		ck_assert_msg(make_of(image, size) == GS_OK, "%s", err.text);
		expect_profile_of_the_kernel("vmlinux");
		free(image);
		done();
	}
}
END_TEST

START_TEST(compressed_image_is_read)
{
	char *text = NULL;
	size_t size;

	make(&forms[0]);
	uint8_t *image = image_make(&made.g, 0, &size);
	struct image_file f = image_file_make_gzip(image, size);
	ck_assert_msg(lnx_profile_make(f.path, &text, &err) == GS_OK, "%s", err.text);
	ck_assert_ptr_nonnull(strstr(text, "\"task_struct\""));
	image_file_close(&f);
	free(text);
	free(image);
	done();
}
END_TEST

START_TEST(image_without_types_is_refused)
{
	size_t size;

	make(&(struct lg_form){ .no_types = true });
	uint8_t *image = image_make(&made.g, 0, &size);
	expect_bad(image, size, GS_ENOENT, "has no type information");
	free(image);
	done();
}
END_TEST

// A member is named in any form of input: by the same code.
START_TEST(image_whose_types_lack_a_member_is_refused_with_its_name)
{
	static const struct {
		const char *omit, *why;
		enum gs_code code;
	} rows[] = {
		{ "task_struct.pid", "lacks task_struct.pid", GS_EMALFORMED },
		{ "task_struct.__state", "lacks task_struct.__state|state", GS_EMALFORMED },
		{ "signal_struct", "lacks signal_struct.thread_head", GS_EMALFORMED },
		{ "task_struct", "type information without task_struct", GS_ENOENT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct typeinfo_form types = { .omit = rows[i].omit };
		size_t size;

		make(&(struct lg_form){ .types = &types });
		uint8_t *image = image_make(&made.g, 0, &size);
		expect_bad(image, size, rows[i].code, rows[i].why);
		free(image);
		done();
	}
}
END_TEST

START_TEST(images_that_are_cut_off_are_refused)
{
	size_t size;

	make(&forms[1]);
	uint8_t *image = image_make(&made.g, 0, &size);
	for (size_t cut = 0; cut < LG_BTF + 0x10000; cut += cut < 200 ? 7 : 4099) {
		ck_assert_msg(make_of(image, cut) != GS_OK, "%zu", cut);
	}
	free(image);
	image = image_make_vmlinux(&made.g, 0, &size);
	for (size_t cut = 0; cut < size; cut += cut < 400 ? 7 : 40009)
		ck_assert_msg(make_of(image, cut) != GS_OK, "%zu", cut);
	free(image);
	done();
}
END_TEST

START_TEST(what_is_no_kernel_is_refused)
{
	static const char xz[] = "\xfd"
				 "7zXZ\0\0\4";
	char *text;

	expect_bad("", 0, GS_EMALFORMED, "is cut off");
	expect_bad("hello", 5, GS_EMALFORMED, "is neither an ARM64 Image");
	expect_bad(xz, sizeof(xz), GS_ENOTSUP, "unpack it first");
	ck_assert_int_eq(lnx_profile_make("/no/such/file", &text, &err), GS_ENOENT);
	ck_assert_int_eq(lnx_profile_make("/dev/null", &text, &err), GS_EMALFORMED);
}
END_TEST

/* --- symbol files ----------------------------------------------------------------------------- */

#define PERCPU_START UINT64_C(18446603336221196288)

static json_t *bytes_type(uint32_t size)
{
	return json_pack("{s:s, s:I, s:{s:s, s:s}}", "kind", "array", "count", (json_int_t)size,
			 "subtype", "kind", "base", "name", "char");
}

/* An object below another, made when it is not there. */
static json_t *inside(json_t *object, const char *key)
{
	if (!json_object_get(object, key))
		json_object_set_new(object, key, json_object());
	return json_object_get(object, key);
}

static void add_field(json_t *user_types, const char *in, const char *name, json_int_t offset,
		      json_t *type)
{
	json_object_set_new(inside(inside(user_types, in), "fields"), name,
			    json_pack("{s:o, s:I}", "type", type, "offset", offset));
}

/*
 * "a.b.c" at an offset: a is a structure at 8, b one at the start of that, where other members of it may lie as
 * well. Names without a dot are in an anonymous union at 4, if there is room.
 */
static void add_member(json_t *user_types, const char *in, const char *path,
		       const struct lnx_field *f)
{
	char outer[64], name[64];
	uint32_t offset = f->offset;

	snprintf(outer, sizeof(outer), "%s", in);
	while (strchr(path, '.')) {
		char inner[160];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(path, "."), path);
		snprintf(inner, sizeof(inner), "%s_%s", outer, name);
		const uint32_t step = offset < 8 || strcmp(outer, in) != 0 ? 0 : 8;
		add_field(user_types, outer, name, step,
			  json_pack("{s:s, s:s}", "kind", "struct", "name", inner));
		json_object_set_new(inside(user_types, inner), "size", json_integer(100000));
		snprintf(outer, sizeof(outer), "%.63s", inner);
		offset -= step;
		path += strcspn(path, ".") + 1;
	}
	if (!strcmp(path, "pid") || !strcmp(path, "tgid")) {
		add_field(user_types, outer, "unnamed_field_0", 4,
			  json_pack("{s:s, s:s}", "kind", "union", "name", "unnamed_1"));
		json_object_set_new(json_object_get(inside(inside(user_types, outer), "fields"),
						    "unnamed_field_0"),
				    "anonymous", json_true());
		snprintf(outer, sizeof(outer), "unnamed_1");
		offset -= 4;
	}
	add_field(user_types, outer, path, offset, bytes_type(f->size));
}

/* dwarf2json's symbols, whose addresses are larger than JSON libraries like. */
static char *with_symbols(const json_t *root, const struct lnx_types *types)
{
	char *text = json_dumps(root, JSON_INDENT(1)), *whole;
	char symbols[1536];
	int n;

	ck_assert_ptr_nonnull(text);
	n = snprintf(symbols, sizeof(symbols),
		     "\"symbols\": {\"linux_banner\": {\"type\": {}, \"address\": 12, "
		     "\"constant_data\": \"TGludXggdmVyc2lvbiA2LjEuMC1tYWRlLXVwIChzb21lb25lQHNvbWV3"
		     "aGVyZSkgIzcgU01QCgA=\"}, \"__per_cpu_start\": {\"address\": %" PRIu64 "}",
		     PERCPU_START);
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		json_t *bytes = bytes_type(types->percpu[p].size);
		char *type = json_dumps(bytes, JSON_COMPACT);

		if (types->percpu[p].present)
			n += snprintf(symbols + n, sizeof(symbols) - (size_t)n,
				      ", \"%s\": {\"type\": %s, \"address\": %" PRIu64 "}",
				      lnx_percpu_name((enum lnx_percpu)p), type,
				      PERCPU_START + types->percpu[p].offset);
		free(type);
		json_decref(bytes);
	}
	ck_assert_int_lt(n, (int)sizeof(symbols));
	*strrchr(text, '}') = '\0';
	ck_assert_int_gt(asprintf(&whole, "%s, %s}}", text, symbols), 0);
	free(text);
	return whole;
}

static json_t *symbol_json(const struct lnx_types *types, bool old)
{
	json_t *profile_json = profile_of(types, old);
	json_t *user_types = json_object(), *enums = json_object(), *of;
	const char *in, *path;

	json_object_foreach(json_object_get(profile_json, "structs"), in, of)
	{
		json_t *place;

		json_object_set(inside(user_types, in), "size", json_object_get(of, "size"));
		json_object_foreach(json_object_get(of, "members"), path, place)
		{
			const struct lnx_field f = {
				.offset = (uint32_t)json_integer_value(
					json_object_get(place, "offset")),
				.size = (uint32_t)json_integer_value(
					json_object_get(place, "size")),
			};
			add_member(user_types, in, path, &f);
		}
	}
	json_object_set_new(inside(user_types, "unnamed_1"), "size", json_integer(8));
	json_object_foreach(json_object_get(profile_json, "enums"), in, of)
	{
		json_object_set_new(enums, in, json_pack("{s:i, s:O}", "size", 4, "constants", of));
	}
	json_decref(profile_json);
	return json_pack("{s:{s:s}, s:{s:{s:i}}, s:o, s:o}", "metadata", "format",
			 "6.2.0 \"99999999999999999999\"", "base_types", "char", "size", 1,
			 "user_types", user_types, "enums", enums);
}

static char *symbol_file(const struct typeinfo_form *form)
{
	const struct lnx_types types = types_of(form);
	json_t *root = symbol_json(&types, form->old);
	char *text = with_symbols(root, &types);

	json_decref(root);
	return text;
}

START_TEST(profile_of_a_symbol_file_is_what_the_kernel_says)
{
	static const struct typeinfo_form types[] = { { .old = true, .no_percpu = true },
						      { 0 },
						      { .meta = true } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		char *text = symbol_file(&types[i]);

		make(&(struct lg_form){ .old = types[i].old, .meta = types[i].meta });
		ck_assert_int_eq(find(NULL), GS_OK);
		ck_assert_msg(make_of(text, strlen(text)) == GS_OK, "%s", err.text);
		ck_assert_msg(compare() == 0, "%s", differences);
		ck_assert(!profile->has_build_id);
		// but for the number of the build
		ck_assert_str_eq(profile->banner,
				 "Linux version 6.1.0-made-up (someone@somewhere) #7 SMP");
		ck_assert_int_eq(lnx_profile_match(profile, made.k), LNX_PROFILE_SAME_BANNER);
		lnx_profile_destroy(profile);
		free(text);
		done();
	}
}
END_TEST

START_TEST(symbol_files_that_are_cut_off_are_refused)
{
	char *text = symbol_file(&(struct typeinfo_form){ 0 });
	const size_t size = strlen(text);

	for (size_t cut = 1; cut < size; cut += 53)
		expect_bad(text, cut, GS_EMALFORMED, "line ");
	expect_bad("{}", 2, GS_EMALFORMED, "no \"user_types\"");
	expect_bad("{\"user_types\": {}}", 18, GS_EMALFORMED, "lacks task_struct.");
	expect_bad("{\"guestshot-profile\": 1}", 24, GS_EMALFORMED, "is a profile already");
	free(text);
}
END_TEST

/* What @p value in place of a key of task_struct.pid's field, or of the whole field, leads to. */
static void expect_pid_refused(const char *key, const char *value)
{
	const struct lnx_types types = types_of(&(struct typeinfo_form){ 0 });
	json_t *root = symbol_json(&types, false);
	json_t *fields = json_object_get(
		json_object_get(json_object_get(root, "user_types"), "unnamed_1"), "fields");
	json_t *with = json_loads(value, JSON_DECODE_ANY, NULL);

	ck_assert_ptr_nonnull(with);
	ck_assert_ptr_nonnull(json_object_get(fields, "pid"));
	json_object_set_new(key ? json_object_get(fields, "pid") : fields, key ? key : "pid", with);
	char *text = with_symbols(root, &types);
	expect_bad(text, strlen(text), GS_EMALFORMED, "lacks task_struct.pid");
	free(text);
	json_decref(root);
}

START_TEST(members_of_symbol_files_that_make_no_sense_do_not_count)
{
	static const char *const offsets[] = {
		"-1",	"1000000", "9223372036854775807", "\"4\"", "\"9999999999999999\"", "4.5",
		"null", "{}"
	};
	static const char *const types[] = {
		"null",
		"{}",
		"[]",
		"{\"kind\": \"void\"}",
		"{\"kind\": \"base\"}",
		"{\"kind\": \"base\", \"name\": \"unknown\"}",
		"{\"kind\": \"base\", \"name\": 7}",
		"{\"kind\": \"bitfield\", \"bit_length\": 3}",
		"{\"kind\": \"struct\", \"name\": \"unknown\"}",
		"{\"kind\": \"array\", \"count\": -1, \"subtype\": {\"kind\": \"pointer\"}}",
		"{\"kind\": \"array\", \"count\": 9223372036854775807, \"subtype\": {\"kind\": "
		"\"pointer\"}}",
		"{\"kind\": \"array\", \"count\": 4}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
		expect_pid_refused("offset", offsets[i]);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		expect_pid_refused("type", types[i]);
	expect_pid_refused(NULL, "7");
}
END_TEST

// Anonymous structures in themselves and in each other, more often than there is room for.
START_TEST(structures_that_contain_themselves_end)
{
	const struct lnx_types types = types_of(&(struct typeinfo_form){ 0 });
	json_t *root = symbol_json(&types, false);
	json_t *user_types = json_object_get(root, "user_types");

	json_object_del(inside(inside(user_types, "unnamed_1"), "fields"), "pid");
	for (int i = 0; i < 60; i++) {
		char name[32];

		snprintf(name, sizeof(name), "unnamed_field_%d", i);
		for (int in = 0; in < 2; in++) {
			const char *outer = in ? "unnamed_1" : "task_struct";

			add_field(user_types, outer, name, 4,
				  json_pack("{s:s, s:s}", "kind", "struct", "name",
					    i % 2 ? "unnamed_1" : "task_struct"));
			json_object_set_new(
				json_object_get(inside(inside(user_types, outer), "fields"), name),
				"anonymous", json_true());
		}
	}
	char *text = with_symbols(root, &types);
	expect_bad(text, strlen(text), GS_EMALFORMED, "lacks task_struct.");
	free(text);
	json_decref(root);
}
END_TEST

START_TEST(mutated_symbol_files_are_refused_or_give_a_profile)
{
	char *text = symbol_file(&(struct typeinfo_form){ 0 });
	const size_t size = strlen(text);
	char *copy = malloc(size);
	uint64_t seed = 7;
	int good = 0;

	ck_assert_ptr_nonnull(copy);
	for (int round = 0; round < 2000; round++) {
		memcpy(copy, text, size);
		for (uint64_t n = 1 + prng_below(&seed, 3); n; n--) {
			static const char digits[] = "0123456789";
			const size_t at = (size_t)prng_below(&seed, size);

			copy[at] = memchr(digits, copy[at], 10) ? digits[prng_below(&seed, 10)]
				   : round % 4			? copy[at]
								: (char)prng(&seed);
		}
		if (make_of(copy, size) == GS_OK) {
			lnx_profile_destroy(profile);
			good++;
		}
	}
	ck_assert_int_gt(good, 100); // else the mutations are too wild to get anywhere
	ck_assert_int_lt(good, 2000);
	free(copy);
	free(text);
}
END_TEST

/* --- comparing -------------------------------------------------------------------------------- */

static void open_changed(void (*change)(json_t *root))
{
	json_t *root = good_profile();

	change(root);
	ck_assert_msg(profile_open_json(root, &profile, &err) == GS_OK, "%s", err.text);
	json_decref(root);
}

static void change_much(json_t *root)
{
	json_t *node = json_object_get(json_object_get(root, "enums"), "node_stat_item");

	json_integer_set(
		json_object_get(json_object_get(members_in(root, "task_struct"), "prio"), "offset"),
		4);
	json_object_del(members_in(root, "rq"), "cpu");
	json_object_del(json_object_get(root, "percpu"), "irq_stack_ptr");
	json_integer_set(json_object_get(node, "NR_FILE_PAGES"), 15);
	json_integer_set(json_object_get(struct_in(root, "pt_regs"), "size"), 400);
	json_object_set_new(json_object_get(root, "structs"), "frame_record_meta", json_object());
}

START_TEST(each_difference_is_named)
{
	static const char *const expected[] = {
		"pt_regs: 400 bytes, 336 bytes\n",
		"task_struct.prio: offset 4, size 4, offset 44, size 4\n",
		"rq.cpu: -, offset 24, size 4\n",
		"per-CPU irq_stack_ptr: -, offset 144, size 8\n",
		"NR_FILE_PAGES: node_stat_item 15, node_stat_item 14\n",
		"frame_record_meta: there, -\n",
	};

	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	open_changed(change_much);
	ck_assert_msg(compare() == ARRAY_SIZE(expected), "%s", differences);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		ck_assert_msg(strstr(differences, expected[i]), "%s: not in %s", expected[i],
			      differences);
	lnx_profile_destroy(profile);
	done();
}
END_TEST

static const char *banner, *build_id;

static void set_origin(json_t *root)
{
	if (banner)
		json_object_set_new(root, "banner", json_string(banner));
	if (build_id)
		json_object_set_new(root, "build-id", json_string(build_id));
}

START_TEST(profile_is_told_from_those_of_other_kernels)
{
	static const char own[] = "b1d0030405060708090a0b0c0d0e0f1011121314";
	static const char other[] = "b1d0030405060708090a0b0c0d0e0f1011121315";
	static const char line[] = "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP";
	const struct {
		const char *banner, *build_id;
		enum lnx_profile_match match;
	} rows[] = {
		{ NULL, NULL, LNX_PROFILE_OF_ANY },
		{ NULL, own, LNX_PROFILE_SAME_BUILD_ID },
		{ NULL, other, LNX_PROFILE_OTHER },
		{ line, NULL, LNX_PROFILE_SAME_BANNER },
		{ "Linux version 6.1.0-made-up (someone@somewhere) # SMP", NULL,
		  LNX_PROFILE_SAME_BANNER },
		{ "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP ", NULL,
		  LNX_PROFILE_OTHER },
		{ "Linux version 6.1.1-made-up (someone@somewhere) #1 SMP", NULL,
		  LNX_PROFILE_OTHER },
		{ "Linux version 6.1.0", NULL, LNX_PROFILE_OTHER },
		{ line, other, LNX_PROFILE_OTHER }, // the build id counts
		{ "another", own, LNX_PROFILE_SAME_BUILD_ID },
	};

	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	ck_assert_mem_eq(made.k->build_id, lg_build_id, LNX_BUILD_ID);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		banner = rows[i].banner;
		build_id = rows[i].build_id;
		open_changed(set_origin);
		ck_assert_msg(lnx_profile_match(profile, made.k) == rows[i].match, "row %zu", i);
		lnx_profile_destroy(profile);
	}
	done();
}
END_TEST

static void expect_origin_refused(const char *key, json_t *value)
{
	json_t *root = good_profile();

	json_object_set_new(root, key, value);
	ck_assert_int_eq(profile_open_json(root, &profile, &err), GS_EMALFORMED);
	ck_assert_msg(strstr(err.text, key), "%s", err.text);
	json_decref(root);
}

START_TEST(build_ids_and_banners_that_are_none_are_refused)
{
	char line[LNX_BANNER_MAX + 1];

	expect_origin_refused("build-id", json_integer(1));
	expect_origin_refused("build-id", json_string(""));
	expect_origin_refused("build-id", json_string("b1d0030405060708090a0b0c0d0e0f101112131"));
	expect_origin_refused("build-id", json_string("b1d0030405060708090a0b0c0d0e0f10111213145"));
	expect_origin_refused("build-id", json_string("b1d0030405060708090a0b0c0d0e0f101112131G"));
	expect_origin_refused("build-id", json_string("B1d0030405060708090a0b0c0d0e0f1011121314"));
	expect_origin_refused("banner", json_null());
	expect_origin_refused("banner", json_integer(6));
	memset(line, 'x', LNX_BANNER_MAX);
	line[LNX_BANNER_MAX] = '\0';
	expect_origin_refused("banner", json_string(line));
	line[LNX_BANNER_MAX - 1] = '\0';
	banner = line;
	build_id = NULL;
	open_changed(set_origin);
	ck_assert_str_eq(profile->banner, line);
	lnx_profile_destroy(profile);
}
END_TEST

static enum gs_code retype(void)
{
	const struct guest *g = &made.g.m.guest;

	err = (struct gs_error){ 0 };
	return lnx_kernel_retype(made.k, profile, &made.g.m.guest, made.g.m.regs, g->vcpu_count,
				 &err);
}

// The kernel has types, and was found by them: it is not searched for anew.
START_TEST(kernel_takes_the_types_of_a_profile_that_is_tried)
{
	static struct lnx_kernel before; // too large for the stack

	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	before = *made.k;
	open_changed(change_much);
	ck_assert_msg(retype() == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_kernel_found(made.k)->types_by, LNX_BY_PROFILE);
	ck_assert_int_eq(lnx_kernel_found(made.k)->profile_match, LNX_PROFILE_OF_ANY);
	ck_assert_uint_eq(compare(), 0);
	ck_assert_uint_eq(made.k->types.pt_regs_size, 400);
	ck_assert_uint_eq(made.k->init_task.a, before.init_task.a);
	ck_assert_uint_eq(made.k->runqueues_count, before.runqueues_count);
	ck_assert_uint_eq(made.k->module_lists, before.module_lists);
	ck_assert_uint_eq(made.k->entry_task.a, before.entry_task.a);
	ck_assert_uint_ne(before.stack_ptr[LNX_STACK_IRQ].a, 0);
	ck_assert_uint_eq(made.k->stack_ptr[LNX_STACK_IRQ].a, 0); // the profile has it not
	lnx_profile_destroy(profile);
	done();
}
END_TEST

static void misplace_tasks(json_t *root)
{
	json_integer_set(json_object_get(json_object_get(members_in(root, "task_struct"), "tasks"),
					 "offset"),
			 500);
}

START_TEST(kernel_with_types_that_lead_to_no_task_is_of_no_use)
{
	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	open_changed(misplace_tasks);
	ck_assert_int_eq(retype(), GS_ENOENT);
	ck_assert_msg(strstr(err.text, "no vCPU executes a task"), "%s", err.text);
	lnx_profile_destroy(profile);
	done();
}
END_TEST

Suite *suite_profile_make(void)
{
	Suite *s = suite_create("profile_make");
	TCase *tc = tcase_create("profile_make");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, profile_of_an_image_is_what_the_kernel_says);
	tcase_add_test(tc, compressed_image_is_read);
	tcase_add_test(tc, image_without_types_is_refused);
	tcase_add_test(tc, image_whose_types_lack_a_member_is_refused_with_its_name);
	tcase_add_test(tc, images_that_are_cut_off_are_refused);
	tcase_add_test(tc, what_is_no_kernel_is_refused);
	tcase_add_test(tc, profile_of_a_symbol_file_is_what_the_kernel_says);
	tcase_add_test(tc, symbol_files_that_are_cut_off_are_refused);
	tcase_add_test(tc, members_of_symbol_files_that_make_no_sense_do_not_count);
	tcase_add_test(tc, structures_that_contain_themselves_end);
	tcase_add_test(tc, mutated_symbol_files_are_refused_or_give_a_profile);
	tcase_add_test(tc, each_difference_is_named);
	tcase_add_test(tc, profile_is_told_from_those_of_other_kernels);
	tcase_add_test(tc, build_ids_and_banners_that_are_none_are_refused);
	tcase_add_test(tc, kernel_takes_the_types_of_a_profile_that_is_tried);
	tcase_add_test(tc, kernel_with_types_that_lead_to_no_task_is_of_no_use);
	suite_add_tcase(s, tc);
	return s;
}
