/* SPDX-License-Identifier: Apache-2.0 */
/* The device tree that tells the guest what machine it has. */
#include "vmm/fdt.h"

#include <inttypes.h>
#include <libfdt.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "vmm/pl011.h"

enum {
	PHANDLE_GIC = 1,
	PHANDLE_CLOCK = 2,
	PHANDLE_CPU0 = 16,
};

/* Interrupt cells (bindings/interrupt-controller/arm,gic-v3.yaml). */
enum {
	GIC_SPI = 0,
	GIC_PPI = 1,
	IRQ_LEVEL_HIGH = 4,
};

#define CONSOLE_NODE "pl011@9000000"
#define CONSOLE_HZ   24000000

/* Sequential writer; after the first failure nothing more is written. */
struct writer {
	void *fdt;
	int rc; /* 0 or -FDT_ERR_… */
};

static void begin(struct writer *w, const char *name)
{
	if (!w->rc)
		w->rc = fdt_begin_node(w->fdt, name);
}

static void end(struct writer *w)
{
	if (!w->rc)
		w->rc = fdt_end_node(w->fdt);
}

static void bytes(struct writer *w, const char *name, const void *value, size_t len)
{
	if (!w->rc)
		w->rc = fdt_property(w->fdt, name, value, (int)len);
}

static void flag(struct writer *w, const char *name)
{
	bytes(w, name, NULL, 0);
}

static void text(struct writer *w, const char *name, const char *value)
{
	bytes(w, name, value, strlen(value) + 1);
}

static void u32(struct writer *w, const char *name, uint32_t value)
{
	if (!w->rc)
		w->rc = fdt_property_u32(w->fdt, name, value);
}

static void u64(struct writer *w, const char *name, uint64_t value)
{
	if (!w->rc)
		w->rc = fdt_property_u64(w->fdt, name, value);
}

#define CELLS_MAX 16

static void cells(struct writer *w, const char *name, const uint32_t *values, size_t count)
{
	fdt32_t out[CELLS_MAX];

	for (size_t i = 0; i < count; i++)
		out[i] = cpu_to_fdt32(values[i]);
	bytes(w, name, out, count * sizeof(out[0]));
}

/* pairs of address and size, two cells each */
static void reg(struct writer *w, const uint64_t *values, size_t count)
{
	fdt64_t out[CELLS_MAX / 2];

	for (size_t i = 0; i < count; i++)
		out[i] = cpu_to_fdt64(values[i]);
	bytes(w, "reg", out, count * sizeof(out[0]));
}

static void node_chosen(struct writer *w, const struct vmm_fdt_config *c)
{
	begin(w, "chosen");
	text(w, "bootargs", c->cmdline);
	text(w, "stdout-path", "/" CONSOLE_NODE);
	if (c->initrd_size) {
		u64(w, "linux,initrd-start", c->initrd);
		u64(w, "linux,initrd-end", c->initrd + c->initrd_size);
	}
	u64(w, "kaslr-seed", c->kaslr_seed);
	bytes(w, "rng-seed", c->rng_seed, sizeof(c->rng_seed));
	end(w);
}

static void node_memory(struct writer *w, const struct vmm_fdt_config *c)
{
	char name[32];

	snprintf(name, sizeof(name), "memory@%" PRIx64, c->ram_base);
	begin(w, name);
	text(w, "device_type", "memory");
	reg(w, (const uint64_t[]){ c->ram_base, c->ram_size }, 2);
	end(w);
}

/*
 * bindings/cpu/cpu-topology.txt. No socket node: Linux before 5.19 does not look into one and would
 * derive clusters from MPIDR_EL1, which does not tell them (vmm/topology.h).
 */
static void node_cpu_map(struct writer *w, const struct vmm_topology *t)
{
	char name[32];

	begin(w, "cpu-map");
	for (uint32_t i = 0; i < t->cpus; i++) {
		if (t->core[i] == 0) {
			snprintf(name, sizeof(name), "cluster%" PRIu32, t->cluster[i]);
			begin(w, name);
		}
		snprintf(name, sizeof(name), "core%" PRIu32, t->core[i]);
		begin(w, name);
		u32(w, "cpu", PHANDLE_CPU0 + i);
		end(w);
		if (i + 1 == t->cpus || t->core[i + 1] == 0)
			end(w);
	}
	end(w);
}

static void node_cpus(struct writer *w, const struct vmm_fdt_config *c)
{
	char name[32];

	begin(w, "cpus");
	u32(w, "#address-cells", 1);
	u32(w, "#size-cells", 0);
	for (uint32_t i = 0; i < c->topology->cpus; i++) {
		uint32_t affinity = (uint32_t)(c->mpidr[i] & VMM_MPIDR_AFFINITY);

		snprintf(name, sizeof(name), "cpu@%" PRIx32, affinity);
		begin(w, name);
		text(w, "device_type", "cpu");
		text(w, "compatible", "arm,armv8");
		text(w, "enable-method", "psci");
		u32(w, "reg", affinity);
		u32(w, "phandle", PHANDLE_CPU0 + i);
		end(w);
	}
	node_cpu_map(w, c->topology);
	end(w);
}

static void node_psci(struct writer *w)
{
	static const char compatible[] = "arm,psci-1.0\0arm,psci-0.2";

	begin(w, "psci");
	bytes(w, "compatible", compatible, sizeof(compatible));
	text(w, "method", "hvc");
	end(w);
}

static void node_timer(struct writer *w)
{
	/* secure, non-secure, virtual, hypervisor: KVM's PPIs (Documentation/virt/kvm/arm) */
	static const uint32_t interrupts[] = {
		GIC_PPI, 13, IRQ_LEVEL_HIGH, GIC_PPI, 14, IRQ_LEVEL_HIGH,
		GIC_PPI, 11, IRQ_LEVEL_HIGH, GIC_PPI, 10, IRQ_LEVEL_HIGH,
	};

	begin(w, "timer");
	text(w, "compatible", "arm,armv8-timer");
	cells(w, "interrupts", interrupts, ARRAY_SIZE(interrupts));
	flag(w, "always-on");
	end(w);
}

static void node_gic(struct writer *w, const struct vmm_topology *t)
{
	begin(w, "intc@8000000");
	text(w, "compatible", "arm,gic-v3");
	u32(w, "#interrupt-cells", 3);
	u32(w, "#address-cells", 2);
	u32(w, "#size-cells", 2);
	flag(w, "ranges");
	flag(w, "interrupt-controller");
	reg(w,
	    (const uint64_t[]){ VMM_GICD_BASE, VMM_GICD_SIZE, VMM_GICR_BASE,
				VMM_GICR_SIZE * t->cpus },
	    4);
	u32(w, "phandle", PHANDLE_GIC);
	end(w);
}

static void node_console(struct writer *w)
{
	static const char compatible[] = "arm,pl011\0arm,primecell";
	static const char clock_names[] = "uartclk\0apb_pclk";
	static const uint32_t interrupts[] = { GIC_SPI, VMM_SPI_CONSOLE, IRQ_LEVEL_HIGH };
	static const uint32_t clocks[] = { PHANDLE_CLOCK, PHANDLE_CLOCK };

	begin(w, "apb-pclk");
	text(w, "compatible", "fixed-clock");
	u32(w, "#clock-cells", 0);
	u32(w, "clock-frequency", CONSOLE_HZ);
	text(w, "clock-output-names", "clk24mhz");
	u32(w, "phandle", PHANDLE_CLOCK);
	end(w);

	begin(w, CONSOLE_NODE);
	bytes(w, "compatible", compatible, sizeof(compatible));
	reg(w, (const uint64_t[]){ VMM_CONSOLE_BASE, VMM_PL011_SIZE }, 2);
	cells(w, "interrupts", interrupts, ARRAY_SIZE(interrupts));
	cells(w, "clocks", clocks, ARRAY_SIZE(clocks));
	bytes(w, "clock-names", clock_names, sizeof(clock_names));
	end(w);
}

enum gs_code vmm_fdt_build(const struct vmm_fdt_config *config, void *buf, size_t size,
			   struct gs_error *err)
{
	struct writer w = { .fdt = buf };

	w.rc = fdt_create(buf, (int)gs_min(size, INT32_MAX));
	if (!w.rc)
		w.rc = fdt_finish_reservemap(buf);
	begin(&w, "");
	text(&w, "compatible", "linux,dummy-virt");
	text(&w, "model", "guestshot");
	u32(&w, "#address-cells", 2);
	u32(&w, "#size-cells", 2);
	u32(&w, "interrupt-parent", PHANDLE_GIC);
	node_chosen(&w, config);
	node_memory(&w, config);
	node_cpus(&w, config);
	node_psci(&w);
	node_timer(&w);
	node_gic(&w, config->topology);
	node_console(&w);
	end(&w);
	if (!w.rc)
		w.rc = fdt_finish(buf);
	if (w.rc)
		return gs_fail(err, GS_ETOOBIG, "device tree of %zu bytes at most: %s", size,
			       fdt_strerror(w.rc));
	return GS_OK;
}
