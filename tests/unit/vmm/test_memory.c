/* SPDX-License-Identifier: Apache-2.0 */
/* Guest RAM: sparse, sealed, holes found. */
#include "tests/unit/vmm/vmm_tests.h"

#include <fcntl.h>
#include <unistd.h>

#include "vmm/memory.h"

#define MIB (UINT64_C(1) << 20)

START_TEST(memory_is_sparse_and_its_holes_are_found)
{
	struct vmm_memory m;
	uint64_t start, end;

	// Far more than the machine has: only what is touched is allocated.
	ck_assert_int_eq(vmm_memory_init(&m, UINT64_C(1) << 36, NULL), GS_OK);
	ck_assert(!vmm_memory_next_data(&m, 0, m.size, &start, &end));

	m.host[600 * MIB] = 1;
	m.host[m.size - 1] = 1;
	ck_assert(vmm_memory_next_data(&m, 0, m.size, &start, &end));
	ck_assert(start <= 600 * MIB && end > 600 * MIB && end - start <= 4 * MIB);
	uint64_t first_end = end;
	ck_assert(vmm_memory_next_data(&m, end, m.size, &start, &end));
	ck_assert(start > first_end && end == m.size);
	ck_assert(!vmm_memory_next_data(&m, end, m.size, &start, &end));

	ck_assert(vmm_memory_next_data(&m, 600 * MIB, 600 * MIB + 10, &start, &end));
	ck_assert_uint_eq(start, 600 * MIB);
	ck_assert_uint_eq(end, 600 * MIB + 10);
	ck_assert(!vmm_memory_next_data(&m, 0, 500 * MIB, &start, &end));
	ck_assert(!vmm_memory_next_data(&m, UINT64_MAX, UINT64_MAX, &start, &end));
	vmm_memory_deinit(&m);
}
END_TEST

START_TEST(memory_cannot_be_cut_under_its_mapping)
{
	struct vmm_memory m;

	ck_assert_int_eq(vmm_memory_init(&m, 64 * MIB, NULL), GS_OK);
	ck_assert_int_ne(ftruncate(m.fd, 4096), 0);
	ck_assert_int_ne(ftruncate(m.fd, (off_t)(65 * MIB)), 0);
	ck_assert(fcntl(m.fd, F_GETFD) & FD_CLOEXEC);
	vmm_memory_deinit(&m);
}
END_TEST

START_TEST(memory_of_impossible_size_is_an_error)
{
	static const uint64_t sizes[] = { 0, UINT64_C(1) << 63, UINT64_MAX, INT64_MAX & ~4095 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct vmm_memory m;

		ck_assert_int_ne(vmm_memory_init(&m, sizes[i], NULL), GS_OK);
		vmm_memory_deinit(&m);
	}
}
END_TEST

TCase *memory_case(void)
{
	TCase *c = tcase_create("memory");

	tcase_add_test(c, memory_is_sparse_and_its_holes_are_found);
	tcase_add_test(c, memory_cannot_be_cut_under_its_mapping);
	tcase_add_test(c, memory_of_impossible_size_is_an_error);
	return c;
}
