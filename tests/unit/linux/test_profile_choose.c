/* SPDX-License-Identifier: Apache-2.0 */
/* Which profile a kernel without types is read with: the one that is named, or one of a folder. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/profile_json.h"
#include "tests/unit/linux/suites.h"

#define OWN_BANNER   "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP"
#define OTHER_BANNER "Linux version 6.2.0-made-up (someone@somewhere) #1 SMP"
#define OTHER_ID     "000102030405060708090a0b0c0d0e0f10111213"

static char folder[] = "/tmp/guestshot-profiles.XXXXXX";
static char own_id[2 * LNX_BUILD_ID + 1];

/* --- the folder ------------------------------------------------------------------------------- */

static void make_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	for (size_t i = 0; i < LNX_BUILD_ID; i++)
		snprintf(own_id + 2 * i, 3, "%02x", lg_build_id[i]);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(path);
}

static void remove_folder(void)
{
	ck_assert_int_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void put_text(const char *name, const char *text)
{
	FILE *f = fopen(path_of(name), "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

/* A good profile that says of what kernel it is; NULL: does not. */
static void put_profile(const char *name, const char *id, const char *banner)
{
	json_t *root = good_profile();

	if (id)
		json_object_set_new(root, "build-id", json_string(id));
	if (banner)
		json_object_set_new(root, "banner", json_string(banner));
	char *text = json_dumps(root, 0);
	ck_assert_ptr_nonnull(text);
	put_text(name, text);
	free(text);
	json_decref(root);
}

static enum gs_code find_in_folder(void)
{
	const struct lnx_hints hints = { .profiles = folder };

	return find(&hints);
}

static void expect_chosen(const char *name, enum lnx_profile_match match)
{
	ck_assert_msg(find_in_folder() == GS_OK, "%s", made.err.text);
	const struct lnx_found *f = lnx_kernel_found(made.k);
	ck_assert_int_eq(f->types_by, LNX_BY_PROFILE);
	ck_assert_str_eq(f->profile, path_of(name));
	ck_assert_int_eq(f->profile_match, match);
	ck_assert_uint_eq(lnx_init_task(made.k).a, made.g.init.address);
	lnx_kernel_destroy(made.k);
	made.k = NULL;
}

static void expect_none(const char *why)
{
	ck_assert_int_eq(find_in_folder(), GS_ENOENT);
	ck_assert_msg(strstr(made.err.text, why), "%s: not %s", made.err.text, why);
}

/* --- the right one ---------------------------------------------------------------------------- */

START_TEST(build_id_counts_more_than_banner_and_order)
{
	make(&(struct lg_form){ .no_types = true });
	put_profile("a-any.json", NULL, NULL);
	put_profile("b-other.json", OTHER_ID, OWN_BANNER);
	expect_none("of the 2 profiles in ");
	put_profile("n-banner.json", NULL, OWN_BANNER);
	expect_chosen("n-banner.json", LNX_PROFILE_SAME_BANNER);
	put_profile("m-banner.json", NULL, OWN_BANNER);
	expect_chosen("m-banner.json", LNX_PROFILE_SAME_BANNER);
	put_profile("z-id.json", own_id, OTHER_BANNER);
	expect_chosen("z-id.json", LNX_PROFILE_SAME_BUILD_ID);
	put_profile("y-id.json", own_id, NULL);
	expect_chosen("y-id.json", LNX_PROFILE_SAME_BUILD_ID);
	done();
}
END_TEST

START_TEST(damaged_types_are_replaced)
{
	make(&(struct lg_form){ 0 });
	put_profile("own.json", own_id, NULL);
	memset(lg_image(&made.g, LG_BTF), 0, 4); // the magic, the version
	expect_chosen("own.json", LNX_PROFILE_SAME_BUILD_ID);
	done();
}
END_TEST

START_TEST(folder_is_not_looked_into_for_a_kernel_with_types)
{
	const struct lnx_hints hints = { .profiles = "/no/such/folder" };

	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(&hints), GS_OK);
	ck_assert_int_eq(lnx_kernel_found(made.k)->types_by, LNX_BY_BTF);
	ck_assert_ptr_null(lnx_kernel_found(made.k)->profile);
	done();
}
END_TEST

/* --- none, and bad ones ------------------------------------------------------------------------ */

START_TEST(without_a_profile_it_is_said_what_to_do)
{
	const struct lnx_hints hints = { .profiles = "/no/such/folder" };

	make(&(struct lg_form){ .no_types = true });
	expect_none("the kernel has no usable type information: of the 0 profiles in ");
	ck_assert_ptr_nonnull(strstr(made.err.text, "guestshot profile make"));
	ck_assert_int_eq(find(&hints), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(made.err.text, "/no/such/folder: No such file"));
	done();
}
END_TEST

START_TEST(bad_files_of_a_folder_cost_themselves_alone)
{
	static char many[300000]; // nested deeper than a parser should follow

	make(&(struct lg_form){ .no_types = true });
	put_text("a.json", "{");
	put_text("b.json", "");
	put_text("c.json", "{\"guestshot-profile\": 1, \"structs\": {}}");
	memset(many, '[', sizeof(many) - 1);
	put_text("d.json", many);
	put_text("e.json", "{\"guestshot-profile\": 1, \"banner\": 7}");
	ck_assert_int_eq(truncate(path_of("b.json"), INT64_C(1) << 40), 0);
	ck_assert_int_eq(mkfifo(path_of("f.json"), 0600), 0);
	ck_assert_int_eq(mkdir(path_of("g.json"), 0700), 0);
	ck_assert_int_eq(symlink("h.json", path_of("h.json")), 0);
	ck_assert_int_eq(symlink("/dev/zero", path_of("i.json")), 0);
	put_profile("other.txt", own_id, NULL);
	put_profile(".hidden.json", own_id, NULL);
	expect_none("of the 9 profiles in ");
	ck_assert_msg(strstr(made.err.text, "; 9 cannot be read: profile /tmp"), "%s",
		      made.err.text);
	put_profile("own.json", own_id, NULL);
	expect_chosen("own.json", LNX_PROFILE_SAME_BUILD_ID);
	done();
}
END_TEST

START_TEST(no_more_files_than_a_limit_are_read)
{
	make(&(struct lg_form){ .no_types = true });
	for (int i = 0; i < LNX_PROFILES_MAX + 10; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%d.json", i);
		put_text(name, "{}");
	}
	expect_none("of the 1024 profiles in ");
	done();
}
END_TEST

/* --- a named one ------------------------------------------------------------------------------- */

static struct lnx_profile *profile;

static void open_named(const char *id, const char *banner)
{
	struct gs_error err = { 0 };

	put_profile("named.json", id, banner);
	ck_assert_msg(!lnx_profile_open(path_of("named.json"), &profile, &err), "%s", err.text);
}

static enum gs_code find_named(void)
{
	const struct lnx_hints hints = { .profile = profile };

	return find(&hints);
}

START_TEST(named_profile_of_another_kernel_is_refused)
{
	static const struct {
		const char *id, *banner, *why;
	} rows[] = {
		{ OTHER_ID, OWN_BANNER, "as its build id says: make one" },
		{ NULL, OTHER_BANNER, "as its banner says: make one" },
	};

	make(&(struct lg_form){ .no_types = true });
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		open_named(rows[i].id, rows[i].banner);
		ck_assert_int_eq(find_named(), GS_EMALFORMED);
		ck_assert_msg(strstr(made.err.text, rows[i].why) &&
				      strstr(made.err.text, path_of("named.json")),
			      "%s", made.err.text);
		lnx_profile_destroy(profile);
	}
	done();
}
END_TEST

START_TEST(named_profile_may_leave_open_of_what_kernel_it_is)
{
	static const enum lnx_profile_match match[] = { LNX_PROFILE_OF_ANY, LNX_PROFILE_SAME_BANNER,
							LNX_PROFILE_SAME_BUILD_ID };

	make(&(struct lg_form){ .no_types = true });
	for (int i = 0; i < 3; i++) {
		open_named(i == 2 ? own_id : NULL, i == 1 ? OWN_BANNER : NULL);
		ck_assert_msg(find_named() == GS_OK, "%s", made.err.text);
		ck_assert_int_eq(lnx_kernel_found(made.k)->profile_match, match[i]);
		ck_assert_str_eq(lnx_kernel_found(made.k)->profile, path_of("named.json"));
		lnx_kernel_destroy(made.k);
		made.k = NULL;
		lnx_profile_destroy(profile);
	}
	done();
}
END_TEST

Suite *suite_profile_choose(void)
{
	Suite *s = suite_create("profile_choose");
	TCase *tc = tcase_create("profile_choose");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, make_folder, remove_folder);
	tcase_add_test(tc, build_id_counts_more_than_banner_and_order);
	tcase_add_test(tc, damaged_types_are_replaced);
	tcase_add_test(tc, folder_is_not_looked_into_for_a_kernel_with_types);
	tcase_add_test(tc, without_a_profile_it_is_said_what_to_do);
	tcase_add_test(tc, bad_files_of_a_folder_cost_themselves_alone);
	tcase_add_test(tc, no_more_files_than_a_limit_are_read);
	tcase_add_test(tc, named_profile_of_another_kernel_is_refused);
	tcase_add_test(tc, named_profile_may_leave_open_of_what_kernel_it_is);
	suite_add_tcase(s, tc);
	return s;
}
