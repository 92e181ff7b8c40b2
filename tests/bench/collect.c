/* SPDX-License-Identifier: Apache-2.0 */
/* How long the collecting of a stopped guest takes, beside the latency of the memory it lies in. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/source.h"
#include "introspect/stackshot/stackshot.h"

/*
 * A dump's memory is copied to memory of our own, as a VMM's guest has it, in pages of 4 KiB. Then:
 *
 * - A capture through a guest whose reads are counted tells which cache lines one touches.
 * - The floor: so many reads a thread, each of a random line of the same memory, none begun before
 *   the last one's value is there.
 * - Captures with 1 and 2 workers. When the guest has stopped, all lines that the first capture
 *   touched are thrown out of the caches, so that nothing is found there that the counting of
 *   threads before the stop, or the last capture, had left.
 */

#define LINE	    64u
#define CHUNK	    ((size_t)1 << 20)
#define ROUNDS	    15
#define CHASE_READS 200000u

struct bench {
	struct guest_source source;
	struct guest g;
	struct guest_ops ops;
	struct guest_range *ranges; /* mapped */
	uint64_t *touched;	    /* bit for each line of all ranges, one after another */
	uint64_t lines;
	bool counting, stopped, empty_caches;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench-collect: %s: %s\n", what, why);
	exit(1);
}

/* --- the guest -------------------------------------------------------------------------------- */

/* Number of the line at an address, over all ranges. */
static uint64_t line_of(const struct bench *b, gpa_t at)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < b->g.range_count; i++) {
		const struct guest_range *r = &b->ranges[i];

		if (gs_in_range(at.a, 1, r->start.a, r->size))
			return before + (at.a - r->start.a) / LINE;
		before += r->size / LINE;
	}
	return 0;
}

static const void *place_of(const struct bench *b, uint64_t line)
{
	for (uint32_t i = 0; i < b->g.range_count; i++) {
		const struct guest_range *r = &b->ranges[i];

		if (line < r->size / LINE)
			return (const char *)r->host + line * LINE;
		line -= r->size / LINE;
	}
	return b->ranges[0].host;
}

static enum gs_code counted_read(void *priv, gpa_t at, void *buf, size_t len)
{
	struct bench *b = priv;

	if (b->stopped)
		for (uint64_t l = line_of(b, at), last = line_of(b, GPA(at.a + len - 1)); l <= last;
		     l++)
			b->touched[l / 64] |= UINT64_C(1) << l % 64;
	return guest_read(&(struct guest){ .ranges = b->ranges, .range_count = b->g.range_count },
			  at, buf, len);
}

static void flush_line(const void *at)
{
#if defined(__x86_64__)
	__builtin_ia32_clflush(at);
#elif defined(__aarch64__)
	__asm__ volatile("dc civac, %0" : : "r"(at) : "memory");
#endif
}

static void flush_touched(const struct bench *b)
{
	for (uint64_t i = 0; i < (b->lines + 63) / 64; i++)
		for (uint64_t w = b->touched[i]; w; w &= w - 1)
			flush_line(place_of(b, i * 64 + (uint64_t)__builtin_ctzll(w)));
	__sync_synchronize();
}

static enum gs_code bench_stop(void *priv, struct gs_error *err)
{
	struct bench *b = priv;

	(void)err; /* nothing runs */
	b->stopped = true;
	if (b->empty_caches)
		flush_touched(b);
	return GS_OK;
}

static enum gs_code bench_resume(void *priv, struct gs_error *err)
{
	struct bench *b = priv;

	(void)err;
	b->stopped = false;
	return GS_OK;
}

static enum gs_code bench_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct bench *b = priv;

	return guest_vcpu_regs(b->source.guest, vcpu, regs_out);
}

/* What the dump does not have stays zero. */
static void copy_range(const struct guest *from, struct guest_range *r)
{
	char *host =
		mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (host == MAP_FAILED)
		die("memory for the guest's", "not enough");
	(void)madvise(host, r->size, MADV_NOHUGEPAGE); /* as it is by default */
	for (uint64_t at = 0; at < r->size; at += CHUNK) {
		size_t n = (size_t)gs_min(CHUNK, r->size - at);

		if (guest_read(from, GPA(r->start.a + at), host + at, n))
			memset(host + at, 0, n);
	}
	r->host = host;
}

static void open_guest(struct bench *b, const char *path)
{
	struct gs_error err = { 0 };

	if (guest_source_open_dump(path, NULL, &b->source, &err))
		die("dump", err.text);
	const struct guest *from = b->source.guest;
	b->ranges = gs_array_alloc(from->range_count, sizeof(*b->ranges));
	if (!b->ranges)
		die("memory", "not enough");
	for (uint32_t i = 0; i < from->range_count; i++) {
		b->ranges[i] = from->ranges[i];
		b->lines += b->ranges[i].size / LINE;
		copy_range(from, &b->ranges[i]);
	}
	b->touched = gs_array_alloc(b->lines / 64 + 1, sizeof(*b->touched));
	if (!b->touched)
		die("memory", "not enough");
	b->g = *from;
	b->ops = (struct guest_ops){ .stop = bench_stop,
				     .resume = bench_resume,
				     .vcpu_regs = bench_regs };
	b->g.ops = &b->ops;
	b->g.priv = b;
	b->g.ranges = b->ranges;
}

/* --- measuring -------------------------------------------------------------------------------- */

static void capture(struct ss_session *s, struct ss_result *r)
{
	struct ss_request q = { .version = SS_REQUEST_VERSION,
				.size = sizeof(q),
				.pid = SS_PID_ALL };
	struct gs_error err = { 0 };

	*r = (struct ss_result){ 0 };
	if (ss_capture(s, &q, r, &err))
		die("capture", err.text);
}

static struct ss_session *session(struct bench *b, uint32_t workers)
{
	struct ss_session *s;
	struct gs_error err = { 0 };

	if (ss_session_create_with(&b->g, &(struct ss_options){ .workers = workers }, &s, &err))
		die("session", err.text);
	return s;
}

/* The lines of one capture. */
static uint64_t count_lines(struct bench *b, struct ss_result *r)
{
	struct guest_range *unmapped = gs_array_alloc(b->g.range_count, sizeof(*unmapped));
	struct ss_session *s = session(b, 1);
	uint64_t n = 0;

	if (!unmapped)
		die("memory", "not enough");
	/* search and first capture: at the speed of mapped memory, and not counted */
	capture(s, r);
	ss_result_deinit(r);
	for (uint32_t i = 0; i < b->g.range_count; i++) {
		unmapped[i] = b->ranges[i];
		unmapped[i].host = NULL;
	}
	b->g.ranges = unmapped;
	b->ops.read = counted_read;
	capture(s, r);
	b->g.ranges = b->ranges;
	b->ops.read = NULL;
	ss_session_destroy(s);
	free(unmapped);
	for (uint64_t i = 0; i < (b->lines + 63) / 64; i++)
		n += (uint64_t)__builtin_popcountll(b->touched[i]);
	return n;
}

/* Zero, which the compiler must not know. */
static volatile uint64_t zero;

/* ns for one of many reads of random lines, each one's place being known with the value of the last. */
static double chase(const struct bench *b, uint64_t *seed)
{
	const uint64_t nothing = zero;
	uint64_t x = *seed, start = gs_clock_ns();

	for (uint32_t i = 0; i < CHASE_READS; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		uint64_t line = (x >> 32) * b->lines >> 32;

		x += *(const volatile uint64_t *)place_of(b, line) & nothing;
	}
	*seed = x;
	return (double)(gs_clock_ns() - start) / CHASE_READS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct figure {
	double round[ROUNDS];
	double best, median;
};

static void sort(struct figure *f)
{
	qsort(f->round, ROUNDS, sizeof(f->round[0]), compare);
	f->best = f->round[0];
	f->median = f->round[ROUNDS / 2];
}

static double collect(struct bench *b, struct ss_session *s, bool cold)
{
	struct ss_result r;

	b->empty_caches = cold;
	capture(s, &r);
	b->empty_caches = false;
	double ns = (double)r.collect_ns / r.threads;
	ss_result_deinit(&r);
	return ns;
}

static void print_machine(void)
{
	struct utsname u;
	char line[256], *name = NULL;
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && !name && fgets(line, sizeof(line), f))
		if (strncmp(line, "model name", 10) == 0)
			name = strchr(line, ':');
	if (name)
		name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	printf("machine: %s%s%s, %ld CPUs online\n", uname(&u) ? "unknown" : u.machine,
	       name ? "," : "", name ? name + 1 : "", sysconf(_SC_NPROCESSORS_ONLN));
}

static void print(const char *name, const struct figure *f, const char *unit)
{
	printf("%-38s best %8.1f   median %8.1f %s\n", name, f->best, f->median, unit);
}

int main(int argc, char **argv)
{
	static struct bench b;
	static struct figure read_ns, one, two, warm_one, warm_two;
	struct ss_result r;
	uint64_t seed = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: bench-collect DUMP\n");
		return 2;
	}
	print_machine();
	open_guest(&b, argv[1]);
	uint64_t lines = count_lines(&b, &r);
	double per_thread = (double)lines / r.threads;
	printf("input: %s: %" PRIu32 " threads in %" PRIu32 " processes, %" PRIu64
	       " MiB of memory in pages of %ld\n",
	       argv[1], r.threads, r.tasks, b.lines * LINE >> 20, sysconf(_SC_PAGESIZE));
	ss_result_deinit(&r);

	struct ss_session *with_one = session(&b, 1), *with_two = session(&b, 2);
	for (int i = 0; i < 2; i++) {
		(void)collect(&b, with_one, false);
		(void)collect(&b, with_two, false);
	}
	for (int i = 0; i < ROUNDS; i++) {
		read_ns.round[i] = chase(&b, &seed);
		one.round[i] = collect(&b, with_one, true);
		two.round[i] = collect(&b, with_two, true);
		warm_one.round[i] = collect(&b, with_one, false);
		warm_two.round[i] = collect(&b, with_two, false);
	}
	sort(&read_ns);
	sort(&one);
	sort(&two);
	sort(&warm_one);
	sort(&warm_two);
	printf("%-38s %13.1f (%" PRIu64 " in all)\n", "distinct cache lines per thread", per_thread,
	       lines);
	print("dependent random read", &read_ns, "ns");
	print("collect, 1 worker", &one, "ns per thread");
	print("collect, 2 workers", &two, "ns per thread");
	print("collect, 1 worker, caches not emptied", &warm_one, "ns per thread");
	print("collect, 2 workers, caches not emptied", &warm_two, "ns per thread");
	printf("\n%-38s %13.1f ns per thread (lines x best read)\n", "latency floor",
	       per_thread * read_ns.best);
	printf("%-38s %13.3f best, %.3f of medians\n", "1 worker / floor",
	       one.best / (per_thread * read_ns.best), one.median / (per_thread * read_ns.median));
	printf("%-38s %13.3f best, %.3f of medians\n", "1 worker / 2 workers", one.best / two.best,
	       one.median / two.median);
	ss_session_destroy(with_one);
	ss_session_destroy(with_two);
	guest_source_close(&b.source);
	return 0;
}
