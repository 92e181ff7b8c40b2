/* SPDX-License-Identifier: Apache-2.0 */
/* The device tree, read back with libfdt, and the topology it tells. */
#include "tests/unit/vmm/vmm_tests.h"

#include <libfdt.h>
#include <stdio.h>
#include <string.h>

#include "vmm/boot.h"
#include "vmm/fdt.h"

static uint8_t fdt[VMM_BOOT_DTB_MAX];

/* As KVM derives it from a vCPU id: Aff0 = id & 15, Aff1 = id >> 4; bit 31 is RES1. */
static uint64_t kvm_mpidr(uint32_t id)
{
	return (id & 15) | (uint64_t)(id >> 4) << 8 | UINT64_C(1) << 31;
}

static void build(uint32_t cpus, uint32_t clusters, const char *cmdline, uint64_t initrd_size)
{
	static struct vmm_topology t;
	uint64_t mpidr[VMM_CPUS_MAX];

	ck_assert_int_eq(vmm_topology_init(&t, cpus, clusters, NULL), GS_OK);
	for (uint32_t i = 0; i < cpus; i++)
		mpidr[i] = kvm_mpidr(i);
	struct vmm_fdt_config c = {
		.cmdline = cmdline,
		.ram_base = 0x40000000,
		.ram_size = UINT64_C(5) << 30,
		.initrd = UINT64_C(0x123456000),
		.initrd_size = initrd_size,
		.topology = &t,
		.mpidr = mpidr,
		.kaslr_seed = UINT64_C(0x1122334455667788),
		.rng_seed = { 1, 2, 3 },
	};
	ck_assert_int_eq(vmm_fdt_build(&c, fdt, sizeof(fdt), NULL), GS_OK);
	ck_assert_int_eq(fdt_check_header(fdt), 0);
	ck_assert_uint_le(fdt_totalsize(fdt), sizeof(fdt));
}

static int node(const char *path)
{
	int at = fdt_path_offset(fdt, path);

	ck_assert_msg(at >= 0, "%s: %s", path, fdt_strerror(at));
	return at;
}

static const void *prop(const char *path, const char *name, int want_len)
{
	int len;
	const void *p = fdt_getprop(fdt, node(path), name, &len);

	ck_assert_msg(p, "%s: %s: %s", path, name, fdt_strerror(len));
	if (want_len >= 0)
		ck_assert_int_eq(len, want_len);
	return p;
}

static uint32_t cell(const char *path, const char *name, int index)
{
	return fdt32_ld((const fdt32_t *)prop(path, name, -1) + index);
}

static uint64_t quad(const char *path, const char *name, int index)
{
	return fdt64_ld((const fdt64_t *)prop(path, name, -1) + index);
}

/* Every core of the cpu-map names a cpu node, once each, in the cluster where it belongs. */
static void check_map(uint32_t cpus, uint32_t clusters)
{
	uint32_t per_cluster = (cpus + clusters - 1) / clusters;
	uint32_t seen = 0;

	for (uint32_t cl = 0; cl * per_cluster < cpus; cl++) {
		for (uint32_t co = 0; co < per_cluster && seen < cpus; co++, seen++) {
			char path[64];

			snprintf(path, sizeof(path), "/cpus/cpu-map/cluster%u/core%u", cl, co);
			int cpu = fdt_node_offset_by_phandle(fdt, cell(path, "cpu", 0));
			ck_assert_int_ge(cpu, 0);
			const fdt32_t *reg = fdt_getprop(fdt, cpu, "reg", NULL);
			ck_assert_ptr_nonnull(reg);
			ck_assert_uint_eq(fdt32_ld(reg), kvm_mpidr(seen) & 0xffffff);
			ck_assert_str_eq(fdt_getprop(fdt, cpu, "enable-method", NULL), "psci");
		}
	}
	ck_assert_uint_eq(seen, cpus);

	int children = 0, at;
	fdt_for_each_subnode(at, fdt, node("/cpus")) children++;
	ck_assert_int_eq(children, (int)cpus + 1); // and the map
	int in_map = 0;
	fdt_for_each_subnode(at, fdt, node("/cpus/cpu-map")) in_map++;
	ck_assert_int_eq(in_map, (int)((cpus + per_cluster - 1) / per_cluster));
}

START_TEST(device_tree_maps_every_shape_of_cpus_and_clusters)
{
	for (uint32_t cpus = 1; cpus <= VMM_CPUS_MAX; cpus++) {
		for (uint32_t clusters = 1; clusters <= cpus; clusters += cpus > 8 ? 7 : 1) {
			build(cpus, clusters, "", 0);
			check_map(cpus, clusters);
		}
	}
	build(64, 64, "", 0);
	check_map(64, 64);
}
END_TEST

START_TEST(device_tree_describes_the_machine)
{
	build(3, 2, "console=ttyAMA0", 0x1001);
	ck_assert_str_eq(prop("/chosen", "bootargs", -1), "console=ttyAMA0");
	ck_assert_str_eq(prop("/chosen", "stdout-path", -1), "/pl011@9000000");
	ck_assert_uint_eq(quad("/chosen", "linux,initrd-start", 0), UINT64_C(0x123456000));
	ck_assert_uint_eq(quad("/chosen", "linux,initrd-end", 0), UINT64_C(0x123457001));
	ck_assert_uint_eq(quad("/chosen", "kaslr-seed", 0), UINT64_C(0x1122334455667788));
	ck_assert_int_eq(((const uint8_t *)prop("/chosen", "rng-seed", 64))[2], 3);
	ck_assert_uint_eq(quad("/memory@40000000", "reg", 0), 0x40000000);
	ck_assert_uint_eq(quad("/memory@40000000", "reg", 1), UINT64_C(5) << 30);
	ck_assert_str_eq(prop("/psci", "method", -1), "hvc");
	ck_assert_str_eq(prop("/timer", "compatible", -1), "arm,armv8-timer");
	ck_assert_uint_eq(cell("/timer", "interrupts", 7), 11); // the virtual one
	ck_assert_str_eq(prop("/intc@8000000", "compatible", -1), "arm,gic-v3");
	ck_assert_uint_eq(quad("/intc@8000000", "reg", 0), 0x08000000);
	ck_assert_uint_eq(quad("/intc@8000000", "reg", 2), 0x080a0000);
	ck_assert_uint_eq(quad("/intc@8000000", "reg", 3), 3 * 0x20000);
	ck_assert_uint_eq(quad("/pl011@9000000", "reg", 0), 0x09000000);
	ck_assert_uint_eq(cell("/pl011@9000000", "interrupts", 1), 1);
	ck_assert_int_ge(fdt_node_offset_by_phandle(fdt, cell("/pl011@9000000", "clocks", 0)), 0);
	ck_assert_int_eq(fdt_node_offset_by_phandle(fdt, cell("/", "interrupt-parent", 0)),
			 node("/intc@8000000"));
	ck_assert_int_ge(fdt_node_offset_by_compatible(fdt, -1, "arm,primecell"), 0);
}
END_TEST

START_TEST(device_tree_without_initrd_names_none)
{
	build(1, 1, "", 0);
	ck_assert_ptr_null(fdt_getprop(fdt, node("/chosen"), "linux,initrd-start", NULL));
	ck_assert_str_eq(prop("/chosen", "bootargs", 1), "");
}
END_TEST

START_TEST(device_tree_at_its_largest_fits_and_a_short_buffer_is_an_error)
{
	static char cmdline[VMM_CMDLINE_MAX];

	memset(cmdline, 'x', sizeof(cmdline) - 1);
	build(64, 64, cmdline, 1);
	ck_assert_uint_le(fdt_totalsize(fdt), VMM_BOOT_DTB_MAX / 2);

	struct vmm_topology t;
	uint64_t mpidr[1] = { 0 };
	ck_assert_int_eq(vmm_topology_init(&t, 1, 1, NULL), GS_OK);
	struct vmm_fdt_config c = { .cmdline = "", .topology = &t, .mpidr = mpidr };
	for (size_t size = 0; size < 1200; size += 13)
		ck_assert_int_eq(vmm_fdt_build(&c, fdt, size, NULL), GS_ETOOBIG);
}
END_TEST

START_TEST(topology_out_of_range_is_refused)
{
	struct vmm_topology t;
	struct gs_error err = { 0 };

	ck_assert_int_eq(vmm_topology_init(&t, 0, 0, &err), GS_EINVAL);
	ck_assert_int_eq(vmm_topology_init(&t, 65, 1, &err), GS_EINVAL);
	ck_assert_int_eq(vmm_topology_init(&t, UINT32_MAX, UINT32_MAX, &err), GS_EINVAL);
	ck_assert_int_eq(vmm_topology_init(&t, 4, 0, &err), GS_EINVAL);
	ck_assert_int_eq(vmm_topology_init(&t, 4, 5, &err), GS_EINVAL);
	ck_assert_str_eq(err.text, "5 clusters for 4 vCPUs: give 1 to 4");
	ck_assert_int_eq(vmm_topology_init(&t, 5, 4, &err), GS_OK);
	ck_assert_uint_eq(t.clusters, 3);
	ck_assert_uint_eq(t.cluster[4], 2);
}
END_TEST

TCase *fdt_case(void)
{
	TCase *c = tcase_create("fdt");

	tcase_add_test(c, device_tree_maps_every_shape_of_cpus_and_clusters);
	tcase_add_test(c, device_tree_describes_the_machine);
	tcase_add_test(c, device_tree_without_initrd_names_none);
	tcase_add_test(c, device_tree_at_its_largest_fits_and_a_short_buffer_is_an_error);
	tcase_add_test(c, topology_out_of_range_is_refused);
	return c;
}
