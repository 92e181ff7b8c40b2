/* SPDX-License-Identifier: Apache-2.0 */
/* The test program as a tool, for tests/e2e/dumps: real dumps are opened by the code under test. */
#include "tests/unit/guest/tool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "introspect/guest/dump.h"
#include "introspect/guest/dump_write.h"
#include "tests/unit/guest/dump_bytes.h"

#define CHUNK (1 << 20)

/* What drgn wants to see before it believes in a kernel. */
static const char vmcoreinfo[] = "OSRELEASE=6.1.0-test\nPAGESIZE=4096\n"
				 "SYMBOL(init_uts_ns)=ffff800009a00000\n"
				 "SYMBOL(swapper_pg_dir)=ffff800009b00000\n"
				 "KERNELOFFSET=0\n"
				 "NUMBER(VA_BITS)=48\n"
				 "NUMBER(kimage_voffset)=0xffff7fffc8000000\n";

static void show_regs(struct guest *g)
{
	for (uint32_t i = 0; i < g->vcpu_count; i++) {
		struct guest_vcpu_regs r;

		if (guest_vcpu_regs(g, i, &r))
			continue;
		printf("cpu %" PRIu32 " valid %#" PRIx32 " pc %#" PRIx64 " pstate %#" PRIx64
		       " sp_el0 %#" PRIx64 " sp_el1 %#" PRIx64,
		       i, r.valid, r.pc, r.pstate, r.sp_el0, r.sp_el1);
		for (int x = 0; x < 31; x++)
			printf(" x%d %#" PRIx64, x, r.x[x]);
		putchar('\n');
	}
}

static int show(const struct guest_source *s)
{
	const struct guest *g = s->guest;
	size_t size;
	const char *info = guest_dump_vmcoreinfo(s, &size);

	printf("source %s\naccess %s\nnote %s\n", g->source, s->access, s->note);
	for (uint32_t i = 0; i < g->range_count; i++)
		printf("range %#" PRIx64 " %#" PRIx64 "\n", g->ranges[i].start.a,
		       g->ranges[i].size);
	printf("vmcoreinfo %zu\n", info ? size : 0);
	show_regs(s->guest);
	return 0;
}

static int compare(const struct guest_source *s, const char *path, uint64_t base)
{
	static uint8_t want[CHUNK], got[CHUNK];
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t at = 0, bad = 0;
	ssize_t n;

	if (fd < 0)
		return 2;
	while ((n = read(fd, want, sizeof(want))) > 0) {
		if (guest_read(s->guest, GPA(base + at), got, (size_t)n) ||
		    memcmp(want, got, (size_t)n))
			bad++;
		at += (uint64_t)n;
	}
	printf("compared %" PRIu64 " bytes, %" PRIu64 " pieces differ\n", at, bad);
	return n < 0 || bad || guest_ram_size(s->guest) < at;
}

static int rewrite(const struct guest_source *s, const char *path)
{
	GS_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct guest_dump_written w;
	struct gs_error err = { 0 };

	if (fd < 0)
		return 2;
	if (guest_dump_write(
		    s->guest, fd,
		    &(struct guest_dump_write_options){ .vmcoreinfo = vmcoreinfo,
							.vmcoreinfo_size = sizeof(vmcoreinfo) - 1 },
		    &w, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	printf("data %" PRIu64 " unreadable %" PRIu64 "\n", w.data, w.unreadable);
	return 0;
}

static int try_files(char **paths)
{
	for (; *paths; paths++) {
		struct guest_source s = { 0 };
		struct gs_error err = { 0 };

		if (guest_source_open_dump(*paths, NULL, &s, &err)) {
			printf("error %s\n", err.text);
			if (!*err.text)
				return 1;
			continue;
		}
		printf("opened %s\n", s.note);
		const char *fault = use_fault(&s);
		guest_source_close(&s);
		if (fault) {
			printf("fault: %s\n", fault);
			return 1;
		}
	}
	return 0;
}

int tool_run(int argc, char **argv)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };
	int status = 2;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "try"))
		return try_files(argv + 2);
	if (guest_source_open_dump(argv[2], NULL, &s, &err)) {
		printf("error %s\n", err.text);
		return 1;
	}
	if (!strcmp(argv[1], "show"))
		status = show(&s);
	else if (!strcmp(argv[1], "compare") && argc == 5)
		status = compare(&s, argv[3], strtoull(argv[4], NULL, 0));
	else if (!strcmp(argv[1], "rewrite") && argc == 4)
		status = rewrite(&s, argv[3]);
	guest_source_close(&s);
	return status;
}
