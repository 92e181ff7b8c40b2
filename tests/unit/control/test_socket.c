/* SPDX-License-Identifier: Apache-2.0 */
/* Making, protecting, replacing and removing the socket. */
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/socket.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/suites.h"

static int bind_plain(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, path);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

START_TEST(mode_is_0600_whatever_the_umask)
{
	static const mode_t masks[] = { 0, 022, 0777 };
	struct ctl_socket s;
	struct gs_error err;

	umask(masks[_i]);
	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_OK);
	ck_assert_int_eq(folder_mode("s"), 0600);
	ctl_socket_close(&s);
	ck_assert_uint_eq(folder_count(), 0);
	ctl_socket_close(&s);
}
END_TEST

START_TEST(second_instance_is_told_and_removes_nothing)
{
	struct ctl_socket s, second;
	struct gs_error err;

	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_OK);
	ck_assert_int_eq(ctl_socket_listen("s", &second, &err), GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(err.text, "served by another guestshot"));
	ck_assert_uint_eq(folder_count(), 2);
	ctl_socket_close(&s);
	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_OK);
	ctl_socket_close(&s);
}
END_TEST

START_TEST(stale_socket_is_replaced)
{
	struct ctl_socket s;
	struct gs_error err;

	close(bind_plain("s"));
	folder_put("s.lock", "");
	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_OK);
	ck_assert_int_eq(folder_mode("s"), 0600);
	ctl_socket_close(&s);
	ck_assert_uint_eq(folder_count(), 0);
}
END_TEST

START_TEST(live_socket_of_another_program_stays)
{
	struct ctl_socket s;
	struct gs_error err;
	int fd = bind_plain("s");

	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_EBUSY);
	ck_assert_uint_eq(folder_count(), 1);
	close(fd);
}
END_TEST

START_TEST(what_is_no_socket_stays)
{
	struct ctl_socket s;
	struct gs_error err;

	folder_put("f", "precious");
	ck_assert_int_eq(symlink("f", "l"), 0);
	ck_assert_int_eq(ctl_socket_listen("f", &s, &err), GS_EINVAL);
	ck_assert_int_eq(ctl_socket_listen("l", &s, &err), GS_EINVAL);
	ck_assert(folder_has("f", "precious", 8));
	ck_assert_uint_eq(folder_count(), 2);
}
END_TEST

START_TEST(lock_that_is_a_link_is_not_followed)
{
	struct ctl_socket s;
	struct gs_error err;

	ck_assert_int_eq(symlink("made-by-lock", "s.lock"), 0);
	ck_assert_int_ne(ctl_socket_listen("s", &s, &err), GS_OK);
	ck_assert_uint_eq(folder_count(), 1);
}
END_TEST

START_TEST(long_path_is_refused_longest_is_taken)
{
	struct ctl_socket s;
	struct gs_error err;
	char path[200] = { 0 };

	memset(path, 'x', 108);
	ck_assert_int_eq(ctl_socket_listen(path, &s, &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "108 bytes"));
	ck_assert_int_eq(ctl_socket_listen("", &s, &err), GS_EINVAL);
	path[107] = '\0';
	ck_assert_int_eq(ctl_socket_listen(path, &s, &err), GS_OK);
	ctl_socket_close(&s);
	ck_assert_int_eq(ctl_socket_listen("no/s", &s, &err), GS_ENOENT);
}
END_TEST

START_TEST(only_our_own_socket_is_removed)
{
	struct ctl_socket s;
	struct gs_error err;

	ck_assert_int_eq(ctl_socket_listen("s", &s, &err), GS_OK);
	ck_assert_int_eq(unlink("s"), 0);
	folder_put("s", "somebody else's");
	ctl_socket_close(&s);
	ck_assert(folder_has("s", "somebody else's", 15));
}
END_TEST

START_TEST(peer_with_our_user_may_talk)
{
	struct gs_error err;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(ctl_socket_check_peer(ends[0], &err), GS_OK);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

Suite *suite_socket(void)
{
	Suite *s = suite_create("control/socket");
	TCase *tc = tcase_create("socket");

	tcase_add_checked_fixture(tc, folder_enter, folder_leave);
	tcase_add_loop_test(tc, mode_is_0600_whatever_the_umask, 0, 3);
	tcase_add_test(tc, second_instance_is_told_and_removes_nothing);
	tcase_add_test(tc, stale_socket_is_replaced);
	tcase_add_test(tc, live_socket_of_another_program_stays);
	tcase_add_test(tc, what_is_no_socket_stays);
	tcase_add_test(tc, lock_that_is_a_link_is_not_followed);
	tcase_add_test(tc, long_path_is_refused_longest_is_taken);
	tcase_add_test(tc, only_our_own_socket_is_removed);
	tcase_add_test(tc, peer_with_our_user_may_talk);
	suite_add_tcase(s, tc);
	return s;
}
