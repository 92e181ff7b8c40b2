/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for: ends of times in ticks, requests of block devices, pages of files, buffers. */
#include <string.h>

#include "introspect/linux/finder.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/waiting.h"

/* --- timeouts --------------------------------------------------------------------------------- */

static uint64_t timer, list;

/* a sleeps until tick 5000; it is tick 1000. */
static void make_timeout(void)
{
	place_all(LNX_M_TIMEOUT_NODE, LNX_M_TIMEOUT_TASK, 0);
	place(LNX_M_TIMEOUT_EXPIRES, 0x10);
	place(LNX_M_TIMEOUT_FUNCTION, 0x18);
	place(LNX_M_TIMEOUT_TASK, 0x28);
	lg_sleep(&made.g, a, "leaf");
	timer = lg_slot(a, 1);
	list = lg_object(&made.g);
	*word(list) = timer;
	*word(timer + 8) = list;
	*word(timer + 0x10) = 5000;
	*word(timer + 0x18) = lg_symbol(&made.g, "process_timeout");
	*word(timer + 0x28) = a->address;
	*word(lg_image_va(&made.g, LG_JIFFIES)) = 1000;
}

START_TEST(timeout_says_how_long_it_is)
{
	uint64_t *const expires = word(timer + 0x10);

	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 16000);
	*expires = 1001;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 4);
	*expires = 1000;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 0);
	*expires = 10; // overdue
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 0);
	*expires = UINT64_MAX / 4;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, LNX_TIMEOUT_UNKNOWN);
	*expires = 5000;
	made.k->tick_ns = 0;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, LNX_TIMEOUT_UNKNOWN);
	made.k->tick_ns = 1000000;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 4000);
	made.k->variable[LNX_V_JIFFIES] = GVA(0);
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, LNX_TIMEOUT_UNKNOWN);
}
END_TEST

START_TEST(timeout_that_is_not_pending_is_none)
{
	const uint64_t other = lg_object(&made.g);

	*word(timer + 0x18) = lg_symbol(&made.g, "leaf");
	expect_none(a);
	*word(timer + 0x18) = lg_symbol(&made.g, "process_timeout") + 4;
	expect_none(a);
	*word(timer + 0x18) = lg_symbol(&made.g, "process_timeout");
	*word(list) = 0; // it was taken off, and is about to go on
	expect_none(a);
	*word(list) = timer;
	*word(timer + 8) = 0;
	expect_none(a);
	*word(timer + 8) = UINT64_MAX;
	expect_none(a);
	*word(timer + 8) = list;
	*word(timer) = other; // another one is behind it
	expect_none(a);
	*word(other + 8) = timer;
	expect(a, LNX_WAIT_TIMEOUT, timer, 0, 16000);
	*word(timer) = 3;
	expect_none(a);
}
END_TEST

static uint64_t tick(void)
{
	static struct lnx_view v;

	made.k->tick_ns = 1;
	lnx_view_init(&v, made.k, &made.g.m.guest);
	lnx_find_tick(made.k, &v);
	return made.k->tick_ns;
}

START_TEST(tick_is_what_the_code_multiplies_by)
{
	uint32_t *code =
		lg_image(&made.g, lg_symbol(&made.g, "jiffies_to_usecs") - lg_image_va(&made.g, 0));

	ck_assert_uint_eq(made.k->tick_ns, 4000000);
	code[0] = 0x52800001 | 10000 << 5;
	ck_assert_uint_eq(tick(), 10000000);
	code[0] = 0x52800001 | 3 << 5; // no kernel ticks so often
	ck_assert_uint_eq(tick(), 0);
	code[0] = 0x52800001 | 60000 << 5;
	ck_assert_uint_eq(tick(), 0);
	code[0] = 0xd503201f; // nop
	ck_assert_uint_eq(tick(), 0);
	code[0] = 0x52800001 | 4000 << 5;
	const uint32_t mul = code[1];
	code[1] = code[0]; // two constants: it does something else
	ck_assert_uint_eq(tick(), 0);
	code[1] = 0xd65f03c0;
	ck_assert_uint_eq(tick(), 0);
	code[1] = mul;
	ck_assert_uint_eq(tick(), 4000000);
}
END_TEST

START_TEST(tick_is_of_the_clock_that_counts_them)
{
	done();
	make_form(&(struct lg_form){ .style = 'B', .data_symbols = true });
	uint32_t *clock = lg_image(&made.g, LG_TICK_CLOCK);
	ck_assert_uint_eq(tick(), 4000000); // by the code: the types say nothing of clocks
	made.k->types.member[LNX_M_CLOCK_MULT] = (struct lnx_field){ true, 0, 4 };
	made.k->types.member[LNX_M_CLOCK_SHIFT] = (struct lnx_field){ true, 4, 4 };
	clock[0] = 1000000u << 8;
	clock[1] = 8;
	ck_assert_uint_eq(tick(), 1000000);
	clock[1] = 33;
	ck_assert_uint_eq(tick(), 4000000);
	clock[1] = 0;
	ck_assert_uint_eq(tick(), 0);
	ck_assert_uint_eq(made.k->variable[LNX_V_JIFFIES].a, lg_image_va(&made.g, LG_JIFFIES));
}
END_TEST

/* --- requests --------------------------------------------------------------------------------- */

#define DEVICE (UINT32_C(254) << 20 | 16)

static uint64_t completion, bio, bdev, disk;

/* a waits for a completion, in a function that is called by another one. */
static void make_completion(const char *function, const char *caller)
{
	completion = lg_slot(a, 4);
	lg_sleep(&made.g, a, function);
	const uint64_t sp = a->task->sp;
	lg_block(&made.g, a,
		 (const char *const[]){ "el0t_64_sync", caller, function, "schedule", NULL });
	a->task->sp = sp;
	lg_list_init(&made.g, completion + AT(lg_completion, task_list));
	wait_at(a, 1, AT(lg_swait, task), AT(lg_swait, task_list),
		completion + AT(lg_completion, task_list));
}

static void make_device(void)
{
	place_all(LNX_M_BIO_END, LNX_M_BIO_BDEV, 0x20);
	place(LNX_M_BDEV_NUMBER, 8);
	place(LNX_M_BDEV_DISK, 0x10);
	place(LNX_M_DISK_MAJOR, 0);
	place(LNX_M_DISK_MINOR, 8);
	place(LNX_M_DISK_NAME, 0x10);
	bdev = lg_object(&made.g);
	disk = lg_object(&made.g);
	*word(bdev + 8) = DEVICE;
	*word(bdev + 0x10) = disk;
	*word(disk) = 254;
	memcpy(word(disk + 0x10), "vdb", 4);
}

/* Of the end of which that completion is told. */
static void make_bio(uint64_t at, uint64_t waiter)
{
	bio = at;
	*member(bio, LNX_M_BIO_END) = lg_symbol(&made.g, "leaf");
	*member(bio, LNX_M_BIO_PRIVATE) = waiter;
	*member(bio, LNX_M_BIO_BDEV) = bdev;
}

/* Its address is what the thread has kept. */
static void make_request(const char *function, const char *caller)
{
	make_completion(function, caller);
	*word(lg_slot(a, 0)) = lg_object(&made.g);
	make_device();
	make_bio(lg_object(&made.g), completion);
	*word(lg_slot(a, 0) + 8) = bio;
}

static void expect_block(uint64_t object, uint32_t device)
{
	expect(a, LNX_WAIT_BLOCK, object, 0, 0);
	ck_assert_uint_eq(waits[0].device, device);
	ck_assert_uint_eq(waits[0].inode, 0);
}

static void expect_completion(void)
{
	expect(a, LNX_WAIT_COMPLETION, completion, 0, 0);
}

static void wait_for_bio(void)
{
	make_request("wait_for_completion", "submit_bio_wait");
	expect_block(bio, DEVICE);
}

START_TEST(completion_of_a_request_is_of_a_device)
{
	make_request("leaf", "submit_bio_wait");
	expect_none(a); // in none of the functions of completions
	make_request("wait_for_completion", "vfs_read");
	expect_completion(); // in none of those of requests
	wait_for_bio();
	// on the stack
	make_bio(lg_slot(a, 6), completion);
	*word(lg_slot(a, 0) + 8) = 0;
	expect_block(bio, DEVICE);
	*member(bio, LNX_M_BIO_PRIVATE) = completion + 8;
	expect_completion();
	*member(bio, LNX_M_BIO_PRIVATE) = completion;
	*member(bio, LNX_M_BIO_END) += 0x14; // as return addresses are
	expect_completion();
	*member(bio, LNX_M_BIO_END) -= 0x14;
	expect_block(bio, DEVICE);
	made.k->types.member[LNX_M_BIO_END].present = false;
	expect_completion();
}
END_TEST

START_TEST(request_of_what_is_no_device_is_none)
{
	static const uint64_t bad[] = {
		0, 8, 0xdead, UINT64_MAX, LG_LINEAR + 3, LG_LINEAR + (UINT64_C(1) << 40)
	};

	wait_for_bio();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		*member(bio, LNX_M_BIO_BDEV) = bad[i];
		expect_completion();
		*member(bio, LNX_M_BIO_BDEV) = bdev;
		*word(bdev + 0x10) = bad[i];
		expect_completion();
		*word(bdev + 0x10) = disk;
		*word(lg_slot(a, 0) + 8) = bad[i];
		expect_completion();
		*word(lg_slot(a, 0) + 8) = bio;
	}
	*word(bdev + 8) = 0;
	expect_completion();
	*word(bdev + 8) = UINT32_C(253) << 20;
	expect_completion();
	*word(bdev + 8) = UINT32_C(259) << 20 | 1; // one of many partitions
	expect_block(bio, UINT32_C(259) << 20 | 1);
	memset(word(disk + 0x10), 'x', 32); // no end
	expect_completion();
	memcpy(word(disk + 0x10), "v\nb", 4);
	expect_completion();
	memcpy(word(disk + 0x10), "", 1);
	expect_completion();
}
END_TEST

START_TEST(request_of_5_10_has_a_disk_and_a_partition)
{
	wait_for_bio();
	made.k->types.member[LNX_M_BIO_BDEV].present = false;
	place(LNX_M_BIO_DISK, 0x40);
	place(LNX_M_BIO_PARTITION, 0x48);
	*word(bio + 0x40) = disk;
	*word(bio + 0x48) = 3;
	*word(disk + 8) = 16;
	expect_block(bio, UINT32_C(254) << 20 | 19);
	*word(disk + 8) = (1 << 20) - 1; // with the partition too many
	expect_completion();
	*word(disk + 8) = 16;
	*word(disk) = 0;
	expect_completion();
	*word(disk) = 4096;
	expect_completion();
}
END_TEST

START_TEST(bio_that_wakes_the_thread_itself_is_one_of_direct_io)
{
	lg_sleep(&made.g, a, "leaf");
	make_device();
	make_bio(lg_slot(a, 2), a->address);
	expect_none(a); // what its end calls might do anything
	*member(bio, LNX_M_BIO_END) = lg_symbol(&made.g, "blkdev_bio_end_io_simple");
	expect_block(bio, DEVICE);
	*word(disk) = 1;
	expect_none(a);
}
END_TEST

START_TEST(tag_is_waited_for_in_a_queue_of_the_tags)
{
	const uint64_t tags = lg_object(&made.g), queues = lg_object(&made.g);
	const uint64_t around = lg_slot(a, 2) - 0x20;

	place(LNX_M_TAG_QUEUE, 0);
	place(LNX_M_TAG_ENTRY, 0x20);
	place(LNX_M_TAGS_QUEUES, 0x28);
	place(LNX_M_TAGS_QUEUE, 8);
	*word(tags + 0x28) = queues;
	for (int i = 0; i < 2; i++) {
		lg_sleep(&made.g, a, i ? "blk_mq_get_tag" : "leaf");
		queue_at(a, 2, queues + 8 + 3 * 64, "leaf");
		*word(around) = tags;
		look(a);
		ck_assert_uint_eq(found, 1);
		ck_assert_uint_eq(waits[0].kind, i ? LNX_WAIT_TAG : LNX_WAIT_QUEUE);
	}
	expect(a, LNX_WAIT_TAG, tags, 0, 0);
	*word(tags + 0x28) = queues + 64 * 4; // it lies before them
	look(a);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_QUEUE);
	*word(tags + 0x28) = queues - 8 * 256;
	look(a);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_QUEUE);
	*word(tags + 0x28) = queues + 8;
	look(a);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_QUEUE);
	*word(around) = UINT64_MAX;
	look(a);
	ck_assert_uint_eq(waits[0].kind, LNX_WAIT_QUEUE);
}
END_TEST

/* --- pages and buffers ------------------------------------------------------------------------ */

#define I_DATA 0x40

static uint64_t page, inode, sb;

/* a waits for bit 0 of a word of an object. */
static void make_bit(enum lnx_wait_kind kind, uint64_t object, uint64_t bit)
{
	const uint64_t around = lg_slot(a, 2) - 0x20;

	place(LNX_M_PAGE_WAIT_PAGE, 0);
	place(LNX_M_PAGE_WAIT_BIT, 8);
	place(LNX_M_PAGE_WAIT_ENTRY, 0x20);
	place(LNX_M_PAGE_FLAGS, 0);
	place(LNX_M_BIT_WAIT_WORD, 0);
	place(LNX_M_BIT_WAIT_BIT, 8);
	place(LNX_M_BIT_WAIT_ENTRY, 0x20);
	lg_sleep(&made.g, a, kind == LNX_WAIT_PAGE ? "leaf" : "__wait_on_buffer");
	queue_at(a, 2, lg_object(&made.g),
		 kind == LNX_WAIT_PAGE ? "wake_page_function" : "wake_bit_function");
	*word(around) = object;
	*word(around + 8) = bit;
	*word(object) = UINT64_C(1) << bit;
}

static void expect_page(uint32_t device, uint64_t number)
{
	expect(a, LNX_WAIT_PAGE, page, 0, 0);
	ck_assert_uint_eq(waits[0].device, device);
	ck_assert_uint_eq(waits[0].inode, number);
}

static void make_page(void)
{
	page = lg_object(&made.g);
	inode = lg_object(&made.g);
	sb = lg_object(&made.g);
	make_bit(LNX_WAIT_PAGE, page, 0);
	place(LNX_M_PAGE_MAPPING, 0x18);
	place(LNX_M_MAPPING_HOST, 0);
	place(LNX_M_INODE_DATA, I_DATA);
	place(LNX_M_INODE_SB, 0x10);
	place(LNX_M_INODE_DEVICE, 0x18);
	place(LNX_M_SB_DEVICE, 8);
	place_all(LNX_M_INODE_NUMBER, LNX_M_INODE_MODE, 0x20);
	*word(page + 0x18) = inode + I_DATA;
	*word(inode + I_DATA) = inode;
	*member(inode, LNX_M_INODE_NUMBER) = 77;
	*member(inode, LNX_M_INODE_MODE) = 0100644;
	*word(inode + 0x10) = sb;
	*word(sb + 8) = DEVICE;
}

START_TEST(page_is_of_the_file_whose_mapping_it_has)
{
	make_page();
	expect_page(DEVICE, 77);
	*member(inode, LNX_M_INODE_MODE) = 060600; // the file is a device
	*word(inode + 0x18) = 5 << 20;
	expect_page(5 << 20, 0);
	*member(inode, LNX_M_INODE_MODE) = 0100644;
	*word(page + 0x18) |= 1; // of no file
	expect_page(0, 0);
	*word(page + 0x18) ^= 1;
	*word(inode + I_DATA) = inode + 8; // another one's mapping
	expect_page(0, 0);
	*word(inode + I_DATA) = UINT64_MAX;
	expect_page(0, 0);
	*word(inode + I_DATA) = inode;
	*word(inode + 0x10) = 0xdead;
	expect_page(0, 0);
	*word(page + 0x18) = LG_LINEAR + (UINT64_C(1) << 40);
	expect_page(0, 0);
	*word(page + 0x18) = 0;
	expect_page(0, 0);
}
END_TEST

START_TEST(buffer_is_a_block_of_a_device)
{
	const uint64_t buffer = lg_object(&made.g);

	make_bit(LNX_WAIT_BIT, buffer, 2);
	expect(a, LNX_WAIT_BIT, buffer, 0, 2);
	make_device();
	place_all(LNX_M_BUFFER_STATE, LNX_M_BUFFER_NUMBER, 0);
	*member(buffer, LNX_M_BUFFER_BDEV) = bdev;
	*member(buffer, LNX_M_BUFFER_SIZE) = 4096;
	*member(buffer, LNX_M_BUFFER_NUMBER) = 1234;
	expect(a, LNX_WAIT_BUFFER, buffer, 0, 1234);
	ck_assert_uint_eq(waits[0].device, DEVICE);
	*member(buffer, LNX_M_BUFFER_SIZE) = 4097;
	expect(a, LNX_WAIT_BIT, buffer, 0, 2);
	*member(buffer, LNX_M_BUFFER_SIZE) = 0;
	expect(a, LNX_WAIT_BIT, buffer, 0, 2);
	*member(buffer, LNX_M_BUFFER_SIZE) = UINT64_C(1) << 63;
	expect(a, LNX_WAIT_BIT, buffer, 0, 2);
	*member(buffer, LNX_M_BUFFER_SIZE) = 512;
	*member(buffer, LNX_M_BUFFER_BDEV) = 0;
	expect(a, LNX_WAIT_BIT, buffer, 0, 2);
	*member(buffer, LNX_M_BUFFER_BDEV) = bdev;
	make_bit(LNX_WAIT_BIT, buffer, 3); // not the one that locks it
	expect(a, LNX_WAIT_BIT, buffer, 0, 3);
}
END_TEST

Suite *suite_wait_block(void)
{
	Suite *s = suite_create("wait_block");
	TCase *tc = tcase_create("timeouts");

	tcase_add_checked_fixture(tc, waiting_setup, done);
	tcase_add_checked_fixture(tc, make_timeout, NULL);
	tcase_add_test(tc, timeout_says_how_long_it_is);
	tcase_add_test(tc, timeout_that_is_not_pending_is_none);
	tcase_add_test(tc, tick_is_what_the_code_multiplies_by);
	tcase_add_test(tc, tick_is_of_the_clock_that_counts_them);
	suite_add_tcase(s, tc);
	tc = tcase_create("block devices");
	tcase_add_checked_fixture(tc, waiting_setup, done);
	tcase_add_test(tc, completion_of_a_request_is_of_a_device);
	tcase_add_test(tc, request_of_what_is_no_device_is_none);
	tcase_add_test(tc, request_of_5_10_has_a_disk_and_a_partition);
	tcase_add_test(tc, bio_that_wakes_the_thread_itself_is_one_of_direct_io);
	tcase_add_test(tc, tag_is_waited_for_in_a_queue_of_the_tags);
	tcase_add_test(tc, page_is_of_the_file_whose_mapping_it_has);
	tcase_add_test(tc, buffer_is_a_block_of_a_device);
	suite_add_tcase(s, tc);
	return s;
}
