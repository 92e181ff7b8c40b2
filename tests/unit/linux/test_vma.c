/* SPDX-License-Identifier: Apache-2.0 */
/* What is mapped where, and of which file; trees that are none. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/user.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/user_memory.h"

static struct lnx_view view;
static struct lnx_mapping mapping;
static struct lg_thread *worker;
static struct lg_mm *mm;
static uint64_t root, usr, lib; /* directory entries */

static void make_form(const struct lg_form *form)
{
	make(form);
	worker = &made.g.threads[2];
	mm = lg_add_mm(&made.g, worker, 0x10001);
	root = um_dentry(&made.g, 0, "/");
	usr = um_dentry(&made.g, root, "usr");
	lib = um_dentry(&made.g, usr, "lib");
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
}

static void setup(void)
{
	make_form(&(struct lg_form){ .seqs = true });
}

static uint64_t file_in(uint64_t directory, const char *name, uint64_t inode)
{
	return um_file(&made.g, um_dentry(&made.g, directory, name), inode);
}

static enum gs_code look(uint64_t address)
{
	memset(&mapping, 0xa5, sizeof(mapping));
	return lnx_mapping_find(&view, GVA(worker->task->mm), address, &mapping);
}

static void expect(uint64_t address, const struct um_mapping *m, uint64_t inode, const char *file)
{
	ck_assert_int_eq(look(address), GS_OK);
	ck_assert_uint_eq(mapping.start, m->start);
	ck_assert_uint_eq(mapping.end, m->end);
	ck_assert_uint_eq(mapping.offset, m->file ? m->pgoff * 4096 : 0);
	ck_assert_uint_eq(mapping.inode, inode);
	ck_assert_str_eq(mapping.file, file);
}

/* --- trees ------------------------------------------------------------------------------------ */

/* Mappings with gaps, but for each third, which begins where the one before ends. */
static void expect_all_found(uint32_t n)
{
	static struct um_mapping m[UM_MAPPINGS_MAX];
	const uint64_t file = file_in(lib, "libc.so.6", 77);
	uint64_t at = 0x400000;

	for (uint32_t i = 0; i < n; i++) {
		at += i % 3 == 2 ? 0 : 0x10000;
		m[i] = (struct um_mapping){ at, at + 0x3000, i, i % 2 ? 0 : file };
		at += 0x3000;
	}
	um_map(&made.g, mm, m, n);
	for (uint32_t i = 0; i < n; i++) {
		const char *name = i % 2 ? "" : "/usr/lib/libc.so.6";

		expect(m[i].start, &m[i], i % 2 ? 0 : 77, name);
		expect(m[i].start + 0x1234, &m[i], i % 2 ? 0 : 77, name);
		expect(m[i].end - 1, &m[i], i % 2 ? 0 : 77, name);
		if (i + 1 == n || m[i + 1].start != m[i].end)
			ck_assert_int_eq(look(m[i].end), GS_ENOENT);
	}
	ck_assert_int_eq(look(m[0].start - 1), GS_ENOENT);
	ck_assert_int_eq(look(0), GS_ENOENT);
	ck_assert_int_eq(look(UINT64_MAX), GS_ENOENT);
}

START_TEST(mappings_are_found_in_a_maple_tree)
{
	ck_assert(lnx_knows_mappings(made.k));
	for (uint32_t n = 1; n <= UM_MAPPINGS_MAX; n += n < 7 ? 1 : 6)
		expect_all_found(n);
}
END_TEST

START_TEST(mappings_are_found_in_the_tree_that_was_before)
{
	done();
	make_form(&(struct lg_form){ .old = true });
	ck_assert(lnx_knows_mappings(made.k));
	for (uint32_t n = 1; n <= UM_MAPPINGS_MAX; n += n < 7 ? 1 : 6)
		expect_all_found(n);
}
END_TEST

START_TEST(address_space_without_mappings_has_none)
{
	ck_assert_int_eq(look(0x400000), GS_ENOENT);
	mm->maple[1] = lib; // the one entry, of address 0
	ck_assert_int_eq(look(0), GS_ENOENT);
	ck_assert_int_eq(lnx_mapping_find(&view, GVA(0x1234), 0, &mapping), GS_EMALFORMED);
}
END_TEST

START_TEST(maple_trees_that_are_none_end)
{
	const struct um_mapping m = { 0x400000, 0x401000, 0, 0 };
	um_map(&made.g, mm, &m, 1);
	const uint64_t good = mm->maple[1], node = good & ~UINT64_C(0xff);
	struct lg_maple_range *leaf = um_object(&made.g, node);
	const uint64_t vma = leaf->slot[1];
	const struct {
		uint64_t entry;
		enum gs_code code;
	} rows[] = {
		{ 0x402, GS_EMALFORMED },		  // no node
		{ node | 2, GS_EMALFORMED },		  // of a kind that is not used
		{ node | 4 << 3 | 2, GS_EMALFORMED },	  // ... that there is not
		{ 0x123400 | 1 << 3 | 2, GS_EMALFORMED }, // of user mode
		{ (UINT64_MAX & ~UINT64_C(0xff)) | 1 << 3 | 2, GS_EFAULT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		mm->maple[1] = rows[i].entry;
		ck_assert_int_eq(look(m.start), rows[i].code);
	}
	// a node that leads to itself
	mm->maple[1] = node | 2 << 3 | 2;
	leaf->slot[1] = node | 2 << 3 | 4;
	ck_assert_int_eq(look(m.start), GS_ELOOP);
	// a leaf that leads to what is no mapping, or to one of other addresses
	mm->maple[1] = good;
	leaf->slot[1] = 0x406;
	ck_assert_int_eq(look(m.start), GS_EMALFORMED);
	leaf->slot[1] = vma;
	((struct lg_vma *)um_object(&made.g, vma))->end = m.start;
	ck_assert_int_eq(look(m.start), GS_EMALFORMED);
}
END_TEST

START_TEST(trees_of_before_that_are_none_end)
{
	const struct um_mapping m[] = { { 0x400000, 0x401000, 0, 0 },
					{ 0x500000, 0x501000, 0, 0 } };

	done();
	make_form(&(struct lg_form){ .old = true });
	um_map(&made.g, mm, m, 2);
	const uint64_t node = mm->rb_root;
	struct lg_vma *vma = um_object(&made.g, node - offsetof(struct lg_vma, rb));

	vma->rb[1] = vma->rb[2] = node;
	ck_assert_int_eq(look(1), GS_ELOOP);
	ck_assert_int_eq(look(UINT64_MAX), GS_ELOOP);
	vma->rb[1] = 0x1234;
	ck_assert_int_eq(look(UINT64_MAX), GS_EMALFORMED);
	mm->rb_root = UINT64_MAX - 7;
	ck_assert_int_eq(look(1), GS_EFAULT);
}
END_TEST

/* --- files ------------------------------------------------------------------------------------ */

static const char *name_of(uint64_t file)
{
	const struct um_mapping m = { 0x400000, 0x401000, 3, file };

	um_map(&made.g, mm, &m, 1);
	ck_assert_int_eq(look(m.start), GS_OK);
	ck_assert_ptr_nonnull(memchr(mapping.file, 0, sizeof(mapping.file)));
	ck_assert_uint_eq(mapping.offset, 3 * 4096);
	return mapping.file;
}

START_TEST(paths_begin_at_the_root_of_their_file_system)
{
	ck_assert_str_eq(name_of(file_in(root, "init", 1)), "/init");
	ck_assert_str_eq(name_of(file_in(lib, "libm.so.6", 2)), "/usr/lib/libm.so.6");
	ck_assert_uint_eq(mapping.inode, 2);
	// of no directory
	ck_assert_str_eq(name_of(file_in(0, "memfd:code", 3)), "memfd:code");
	ck_assert_str_eq(name_of(file_in(0, "/[aio]", 4)), "/[aio]");
}
END_TEST

START_TEST(long_paths_are_cut_at_their_beginning)
{
	char name[LNX_FILE_NAME + 100];

	// "/usr/lib/" and so many characters that it is just not, and just too, long
	for (size_t len = 100; len < 200; len++) {
		memset(name, 'x', len);
		memcpy(name, "begin", 5);
		memcpy(name + len - 3, "end", 4);
		const char *got = name_of(file_in(lib, name, 1));
		const size_t most = LNX_FILE_NAME - 1;

		if (len + 9 <= most) {
			ck_assert_uint_eq(strlen(got), len + 9);
			ck_assert_int_eq(strncmp(got, "/usr/lib/begin", 14), 0);
		} else {
			ck_assert_int_ne(got[0], '/');
			ck_assert_uint_le(strlen(got), most);
			ck_assert_uint_ge(strlen(got), most - 1);
		}
		ck_assert_str_eq(got + strlen(got) - 3, "end");
	}
}
END_TEST

START_TEST(paths_without_an_end_are_cut)
{
	const uint64_t a = um_dentry(&made.g, root, "a"), b = um_dentry(&made.g, a, "");

	// each is in the other; one of them has no name, so that the path does not become longer
	((struct lg_dentry *)um_object(&made.g, a))->parent = b;
	((struct lg_dentry *)um_object(&made.g, a))->len = 0;
	const char *got = name_of(um_file(&made.g, b, 1));
	ck_assert_uint_lt(strlen(got), LNX_FILE_NAME);
}
END_TEST

START_TEST(names_that_cannot_be_read_are_left_out)
{
	const uint64_t d = um_dentry(&made.g, lib, "x.so"), file = um_file(&made.g, d, 5);
	struct lg_dentry *dentry = um_object(&made.g, d), *in = um_object(&made.g, lib);

	dentry->len = 256;
	ck_assert_str_eq(name_of(file), "");
	ck_assert_uint_eq(mapping.inode, 5);
	dentry->len = 4;
	dentry->name = 0x400000;
	ck_assert_str_eq(name_of(file), "");
	dentry->name = d + offsetof(struct lg_dentry, inline_name);
	// what was read before the part that cannot be read stays, and is no absolute path
	in->parent = 0x1234;
	ck_assert_str_eq(name_of(file), "lib/x.so");
	dentry->parent = 0;
	ck_assert_str_eq(name_of(file), "x.so");
	((struct lg_file *)um_object(&made.g, file))->dentry = 8;
	((struct lg_file *)um_object(&made.g, file))->inode = UINT64_MAX - 7;
	ck_assert_str_eq(name_of(file), "");
	ck_assert_uint_eq(mapping.inode, 0);
}
END_TEST

/* --- what a kernel does not tell -------------------------------------------------------------- */

START_TEST(kernel_that_does_not_tell_has_no_mappings)
{
	static const char *const omit[] = { "mm_struct.mm_mt",	    "maple_range_64",
					    "maple_arange_64.slot", "vm_area_struct.vm_end",
					    "file.f_path",	    "dentry",
					    "inode.i_ino" };

	for (size_t i = 0; i < ARRAY_SIZE(omit); i++) {
		const struct typeinfo_form types = { .omit = omit[i] };

		done();
		make_form(&(struct lg_form){ .seqs = true, .types = &types });
		ck_assert_msg(!lnx_knows_mappings(made.k), "%s", omit[i]);
		ck_assert_int_eq(look(0x400000), GS_ENOENT);
		ck_assert(lnx_knows_user_stacks(made.k));
	}
}
END_TEST

Suite *suite_vma(void)
{
	Suite *s = suite_create("vma");
	TCase *tc = tcase_create("vma");

	tcase_add_checked_fixture(tc, setup, done);
	tcase_add_test(tc, mappings_are_found_in_a_maple_tree);
	tcase_add_test(tc, mappings_are_found_in_the_tree_that_was_before);
	tcase_add_test(tc, address_space_without_mappings_has_none);
	tcase_add_test(tc, maple_trees_that_are_none_end);
	tcase_add_test(tc, trees_of_before_that_are_none_end);
	tcase_add_test(tc, paths_begin_at_the_root_of_their_file_system);
	tcase_add_test(tc, long_paths_are_cut_at_their_beginning);
	tcase_add_test(tc, paths_without_an_end_are_cut);
	tcase_add_test(tc, names_that_cannot_be_read_are_left_out);
	tcase_add_test(tc, kernel_that_does_not_tell_has_no_mappings);
	suite_add_tcase(s, tc);
	return s;
}
