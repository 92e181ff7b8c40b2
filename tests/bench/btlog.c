/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the backtrace library finds a stack that it knows: with 100,000 stacks of 8 frames, on one and
 * on two threads, beside a hash table of uthash under one lock with the same stacks; what a stack takes of
 * memory; how long a look-up takes at worst while the table is doubled.
 *
 * All are measured by turns, in windows of a millisecond or so, because other work on the machine slows
 * all of them. A window counts only if no thread of it was put off a CPU and, with two threads, both began
 * together. What a random load from as much memory takes in the same run tells how much of a figure is the
 * machine's. Stacks are made from their number, since a table of them would be in the way in the caches;
 * the time for that is part of each look-up.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <uthash.h>

#include "introspect/btlog/btlog.h"
#include "introspect/btlog/priv.h"

#define BASE	UINT64_C(0xffff800008000000)
#define STACKS	100000u
#define FRAMES	8u
#define WINDOW	4096u	 /* look-ups */
#define ROUNDS	200u	 /* windows of each figure that count */
#define SECONDS 60	 /* to wait for so many */
#define GROWN	1600000u /* stacks at the end of the test of growing */
#define SAMPLES (8u << 20)
#define RECORDS 65536u

static struct btl_library *lib;

/* What the compiler must believe is looked at. */
static volatile uint64_t sink_value;

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "bench: %s failed\n", what);
		exit(EXIT_FAILURE);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* --- stacks ----------------------------------------------------------------------------------- */

static inline void make_stack(uint32_t number, uint64_t frames[FRAMES])
{
	/* odd, so that no two numbers give the same product */
	uint64_t h = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	for (uint32_t i = 0; i < FRAMES; i++)
		frames[i] = BASE + (h >> (40 - 5 * i) & 0xfffffc);
}

static inline uint64_t next_random(uint64_t *x)
{
	*x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return *x >> 32;
}

/* Any of them, each as often as the others: the worst case for caches. */
static inline uint32_t even_number(uint64_t *x)
{
	return (uint32_t)(next_random(x) * STACKS >> 32);
}

/* As many as stay in a processor's own caches: what is left is work. */
static inline uint32_t near_number(uint64_t *x)
{
	return even_number(x) % 1024;
}

/* Half of them one of 32, a quarter one of 1,024, the rest any: as in guests, where most threads wait in few
 * places. */
static inline uint32_t skew_number(uint64_t *x)
{
	uint32_t n = even_number(x);

	switch (next_random(x) & 3) {
	case 0: return n;
	case 1: return n % 1024;
	default: return n % 32;
	}
}

/* --- the table beside it ------------------------------------------------------------------------ */

struct peer {
	uint64_t frames[FRAMES];
	uint32_t count;
	UT_hash_handle hh;
};

static struct peer *peers;
static pthread_mutex_t peers_lock = PTHREAD_MUTEX_INITIALIZER;

/* of the macros */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wimplicit-fallthrough"
static uint32_t peer_get(const uint64_t frames[FRAMES])
{
	struct peer *p;

	pthread_mutex_lock(&peers_lock);
	HASH_FIND(hh, peers, frames, sizeof(p->frames), p);
	if (!p) {
		p = calloc(1, sizeof(*p));
		must(p != NULL, "memory");
		memcpy(p->frames, frames, sizeof(p->frames));
		HASH_ADD(hh, peers, frames, sizeof(p->frames), p);
	}
	uint32_t count = ++p->count;
	pthread_mutex_unlock(&peers_lock);
	return count;
}
#pragma GCC diagnostic pop

/* --- what is measured: a window of each ------------------------------------------------------------ */

#define WINDOW_OF(name, number, work)                                  \
	static void name(uint64_t seed)                                \
	{                                                              \
		uint64_t frames[FRAMES], sum = 0;                      \
		uint32_t ref = 0;                                      \
                                                                       \
		for (uint32_t i = 0; i < WINDOW; i++) {                \
			make_stack(number(&seed), frames);             \
			__asm__ volatile("" ::"r"(frames) : "memory"); \
			work;                                          \
			sum += ref;                                    \
		}                                                      \
		sink_value = sum;                                      \
	}

#define GET must(!btl_get(lib, frames, FRAMES, 0, &ref), "get")

WINDOW_OF(get_even, even_number, GET)
WINDOW_OF(get_near, near_number, GET)
WINDOW_OF(get_skew, skew_number, GET)
WINDOW_OF(get_put, skew_number, GET; (void)btl_put(lib, ref))
WINDOW_OF(peer_even, even_number, ref = peer_get(frames))
WINDOW_OF(peer_near, near_number, ref = peer_get(frames))
WINDOW_OF(peer_skew, skew_number, ref = peer_get(frames))
WINDOW_OF(make_only, even_number, )

/* As much memory as the stacks take, each 64 bytes leading to others. */
static uint64_t *chain;

static void load(uint64_t seed)
{
	static uint64_t at; // goes on where it was: what it met before is long gone from the caches

	(void)seed;
	for (uint32_t i = 0; i < WINDOW; i++)
		at = chain[at * 8];
	sink_value = at;
}

static void make_chain(void)
{
	uint32_t *order = calloc(STACKS, sizeof(*order));
	uint64_t x = 1;

	chain = aligned_alloc(64, STACKS * 64ull);
	must(order && chain, "memory");
	memset(chain, 0, STACKS * 64ull);
	for (uint32_t i = 1; i < STACKS; i++) {
		uint32_t k = (uint32_t)(next_random(&x) % (i + 1));

		order[i] = order[k];
		order[k] = i;
	}
	for (uint32_t i = 0; i < STACKS; i++)
		chain[order[i] * 8ull] = order[(i + 1) % STACKS];
	free(order);
}

/* --- windows of one and of two threads ------------------------------------------------------------------ */

/* One thread's part of a window. */
struct part {
	double start, end;
	bool disturbed;
};

/* How often this thread was put off a CPU. */
static long preemptions(void)
{
	struct rusage u;

	must(!getrusage(RUSAGE_THREAD, &u), "getrusage");
	return u.ru_nivcsw;
}

static void run_part(struct part *p, void (*what)(uint64_t seed), uint64_t seed)
{
	long before = preemptions();

	p->start = now();
	what(seed);
	p->end = now();
	p->disturbed = preemptions() != before;
}

/* The second thread: sleeps between windows of two. Each step waits for the other thread's. */
static struct {
	sem_t wanted;
	_Alignas(64) _Atomic uint32_t here;  /* it runs, for this window */
	_Alignas(64) _Atomic uint32_t begun; /* the first one has seen that */
	_Alignas(64) _Atomic uint32_t done;
	void (*work)(uint64_t seed);
	struct part part;
} second;

static void wait_for(_Atomic uint32_t *step, uint32_t n)
{
	for (uint32_t i = 0; atomic_load_explicit(step, memory_order_acquire) != n; i++)
		if (i > 20000)
			sched_yield(); // it is not on a CPU
}

static void *second_thread(void *arg)
{
	(void)arg;
	for (uint32_t n = 1;; n++) {
		while (sem_wait(&second.wanted))
			;
		if (!second.work)
			return NULL;
		second.work(n); // as in run_window()
		atomic_store_explicit(&second.here, n, memory_order_release);
		wait_for(&second.begun, n);
		run_part(&second.part, second.work, n * UINT64_C(0x9e3779b97f4a7c15));
		atomic_store_explicit(&second.done, n, memory_order_release);
	}
}

static void run_two(struct part *first, void (*what)(uint64_t seed))
{
	static uint32_t n;

	n++;
	second.work = what;
	sem_post(&second.wanted);
	wait_for(&second.here, n);
	atomic_store_explicit(&second.begun, n, memory_order_release);
	run_part(first, what, n * UINT64_C(0xd6e8feb86659fd93));
	wait_for(&second.done, n);
}

/* Nanoseconds for each look-up of a window, all threads together; 0: the window does not count. */
static double run_window(void (*what)(uint64_t seed), uint32_t threads)
{
	static uint64_t seed;
	struct part p;

	/* what stays in the caches is there from the start, whatever ran before */
	what(++seed);
	if (threads == 1) {
		run_part(&p, what, ++seed);
		return p.disturbed ? 0 : (p.end - p.start) / WINDOW;
	}
	run_two(&p, what);

	const struct part *q = &second.part;
	double start = p.start < q->start ? p.start : q->start;
	double end = p.end > q->end ? p.end : q->end;
	double late = p.start + q->start - 2 * start;

	if (p.disturbed || q->disturbed || late > (end - start) / 20)
		return 0;
	return (end - start) / (2 * WINDOW);
}

struct figure {
	const char *name;
	void (*work)(uint64_t seed);
	uint32_t threads;
	uint32_t windows;
	double times[ROUNDS];
	double best, median;
};

enum {
	LOAD,
	MAKE,
	EVEN_1,
	EVEN_2,
	PEER_EVEN_1,
	PEER_EVEN_2,
	NEAR_1,
	NEAR_2,
	PEER_NEAR_1,
	PEER_NEAR_2,
	SKEW_1,
	SKEW_2,
	PEER_SKEW_1,
	PEER_SKEW_2,
	PUT_1,
	PUT_2,
	FIGURES,
};

static struct figure figures[FIGURES] = {
	[LOAD] = { .name = "random load from 6.4 MB", .work = load, .threads = 1 },
	[MAKE] = { .name = "making a stack", .work = make_only, .threads = 1 },
	[EVEN_1] = { .name = "get, even, 1 thread", .work = get_even, .threads = 1 },
	[EVEN_2] = { .name = "get, even, 2 threads", .work = get_even, .threads = 2 },
	[PEER_EVEN_1] = { .name = "uthash, even, 1 thread", .work = peer_even, .threads = 1 },
	[PEER_EVEN_2] = { .name = "uthash, even, 2 threads", .work = peer_even, .threads = 2 },
	[NEAR_1] = { .name = "get, near, 1 thread", .work = get_near, .threads = 1 },
	[NEAR_2] = { .name = "get, near, 2 threads", .work = get_near, .threads = 2 },
	[PEER_NEAR_1] = { .name = "uthash, near, 1 thread", .work = peer_near, .threads = 1 },
	[PEER_NEAR_2] = { .name = "uthash, near, 2 threads", .work = peer_near, .threads = 2 },
	[SKEW_1] = { .name = "get, skewed, 1 thread", .work = get_skew, .threads = 1 },
	[SKEW_2] = { .name = "get, skewed, 2 threads", .work = get_skew, .threads = 2 },
	[PEER_SKEW_1] = { .name = "uthash, skewed, 1 thread", .work = peer_skew, .threads = 1 },
	[PEER_SKEW_2] = { .name = "uthash, skewed, 2 threads", .work = peer_skew, .threads = 2 },
	[PUT_1] = { .name = "get and put, skewed, 1 thread", .work = get_put, .threads = 1 },
	[PUT_2] = { .name = "get and put, skewed, 2 threads", .work = get_put, .threads = 2 },
};

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static bool is_done(void)
{
	for (uint32_t i = 0; i < FIGURES; i++)
		if (figures[i].windows < ROUNDS)
			return false;
	return true;
}

static void measure(void)
{
	pthread_t thread;

	must(!sem_init(&second.wanted, 0, 0), "semaphore");
	must(!pthread_create(&thread, NULL, second_thread, NULL), "thread");
	for (double end = now() + SECONDS * 1e9; now() < end && !is_done();)
		for (uint32_t i = 0; i < FIGURES; i++) {
			struct figure *f = &figures[i];
			double t = f->windows < ROUNDS ? run_window(f->work, f->threads) : 0;

			if (t > 0)
				f->times[f->windows++] = t;
		}
	second.work = NULL;
	sem_post(&second.wanted);
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < FIGURES; i++) {
		struct figure *f = &figures[i];

		if (!f->windows)
			continue;
		qsort(f->times, f->windows, sizeof(f->times[0]), compare_doubles);
		f->best = f->times[0];
		f->median = f->times[f->windows / 2];
	}
}

static void report_ratio(const char *what, uint32_t over, uint32_t under, const char *aim)
{
	if (!figures[over].windows || !figures[under].windows) {
		printf("%-40s not known\n", what);
		return;
	}
	printf("%-40s best %6.2f, median %6.2f   (aim: %s)\n", what,
	       figures[over].best / figures[under].best,
	       figures[over].median / figures[under].median, aim);
}

static void report(void)
{
	for (uint32_t i = 0; i < FIGURES; i++) {
		const struct figure *f = &figures[i];

		if (f->windows)
			printf("%-34s best %7.1f ns, median %7.1f ns of %3u windows%s\n", f->name,
			       f->best, f->median, f->windows,
			       i == EVEN_1 || i == NEAR_1 || i == SKEW_1 ? "   (aim: 60)" : "");
		else
			printf("%-34s no window without other work in %d s\n", f->name, SECONDS);
	}
	report_ratio("even: throughput of 2 threads over 1", EVEN_1, EVEN_2, "1.8");
	report_ratio("near: throughput of 2 threads over 1", NEAR_1, NEAR_2, "1.8");
	report_ratio("skewed: throughput of 2 threads over 1", SKEW_1, SKEW_2, "1.8");
	report_ratio("even: faster than uthash, 1 thread", PEER_EVEN_1, EVEN_1, "1");
	report_ratio("even: faster than uthash, 2 threads", PEER_EVEN_2, EVEN_2, "3");
	report_ratio("near: faster than uthash, 1 thread", PEER_NEAR_1, NEAR_1, "1");
	report_ratio("near: faster than uthash, 2 threads", PEER_NEAR_2, NEAR_2, "3");
	report_ratio("skewed: faster than uthash, 1 thread", PEER_SKEW_1, SKEW_1, "1");
	report_ratio("skewed: faster than uthash, 2 threads", PEER_SKEW_2, SKEW_2, "3");
}

/* --- memory -------------------------------------------------------------------------------------- */

static void fill(void)
{
	uint64_t frames[FRAMES];
	uint32_t ref;

	for (uint32_t i = 0; i < STACKS; i++) {
		make_stack(i, frames);
		must(!btl_get(lib, frames, FRAMES, 0, &ref), "get");
		(void)peer_get(frames);
	}
	btl_library_settle(lib);
}

static void report_memory(void)
{
	struct btl_library_stats s;

	btl_library_stats_get(lib, &s);
	must(s.stacks == STACKS, "all stacks unique");
	printf("%-34s %7.1f bytes: %.1f of stacks, %.1f of table   (aim: 80)\n",
	       "memory of a stack", (double)(s.stack_bytes + s.table_bytes) / s.stacks,
	       (double)s.stack_bytes / s.stacks, (double)s.table_bytes / s.stacks);
}

/* --- look-ups while the table grows ----------------------------------------------------------------- */

static _Atomic bool growing;

static void *grow(void *arg)
{
	uint64_t frames[FRAMES];
	uint32_t ref;

	(void)arg;
	for (uint32_t i = STACKS; i < GROWN; i++) {
		make_stack(i, frames);
		must(!btl_get(lib, frames, FRAMES, 0, &ref), "get");
	}
	btl_library_settle(lib);
	atomic_store(&growing, false);
	return NULL;
}

static int compare_times(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void report_times(const char *name, uint32_t *times, uint32_t n, const char *aim)
{
	must(n > 1000, "enough look-ups");
	qsort(times, n, sizeof(*times), compare_times);
	printf("%-34s %7u look-ups: median %u ns, 99 %% %u ns, 99.9 %% %u ns%s, longest %u us\n",
	       name, n, times[n / 2], times[n - n / 100], times[n - n / 1000], aim,
	       times[n - 1] / 1000);
}

static void measure_growing(void)
{
	uint32_t *times[2], n[2] = { 0 };
	uint64_t seed = 1, frames[FRAMES];
	pthread_t thread;
	uint32_t ref;

	for (uint32_t i = 0; i < 2; i++) {
		times[i] = calloc(SAMPLES, sizeof(**times));
		must(times[i] != NULL, "memory");
	}
	atomic_store(&growing, true);
	must(!pthread_create(&thread, NULL, grow, NULL), "thread");
	while (atomic_load_explicit(&growing, memory_order_relaxed)) {
		make_stack(even_number(&seed), frames);
		/* only looked at: whether a rehash was going on, give or take a look-up */
		bool before = *(volatile enum btl_rehash *)&lib->rehash != BTL_REHASH_IDLE;
		double t = now();

		must(!btl_get(lib, frames, FRAMES, 0, &ref), "get");
		t = now() - t;
		if (n[before] < SAMPLES)
			times[before][n[before]++] = (uint32_t)t;
	}
	pthread_join(thread, NULL);
	report_times("get while the table is doubled", times[1], n[1], " (aim: 20000)");
	report_times("get while stacks are added", times[0], n[0], "");
	free(times[0]);
	free(times[1]);
}

/* --- logs ------------------------------------------------------------------------------------------- */

static void measure_logs(void)
{
	const struct btl_log_options o = { .name = "bench", .capacity = RECORDS };
	double best_record = 1e30, best_groups = 1e30;
	uint64_t seed = 1, frames[FRAMES];
	struct btl_groups g = { 0 };
	struct btl_log *log;
	uint32_t ref;

	must(!btl_log_create(lib, &o, &log, NULL), "log");
	for (uint32_t round = 0; round < 100; round++) {
		double t = now();

		for (uint32_t i = 0; i < RECORDS / 16; i++) {
			make_stack(skew_number(&seed), frames);
			must(!btl_get(lib, frames, FRAMES, 0, &ref) &&
				     !btl_log_record(log, i, BTL_OP_RUNNING, ref, 0),
			     "record");
		}
		t = (now() - t) / (RECORDS / 16);
		best_record = t < best_record ? t : best_record;
	}
	for (uint32_t round = 0; round < 20; round++) {
		double t = now();

		must(!btl_log_groups(log, 0, &g, NULL), "groups");
		t = now() - t;
		best_groups = t < best_groups ? t : best_groups;
		sink_value = g.count;
		btl_groups_deinit(&g);
	}
	printf("%-34s %7.1f ns\n", "get and record, skewed", best_record);
	printf("%-34s %7.2f ms\n", "groups of 65,536 records", best_groups / 1e6);
	btl_log_destroy(log);
}

/* ----------------------------------------------------------------------------------------------------- */

static void print_machine(void)
{
	struct utsname u;
	char line[256] = "";
	double loads[1] = { 0 };
	FILE *f = fopen("/proc/cpuinfo", "re");

	must(!uname(&u), "uname");
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "model name", 10))
		;
	if (f)
		fclose(f);
	char *model = strchr(line, ':');
	if (getloadavg(loads, 1) < 1)
		loads[0] = -1;
	printf("machine: %s, load %.1f, %s", u.machine, loads[0],
	       model ? model + 2 : "model not known\n");
}

int main(void)
{
	const struct btl_library_options o = { .base = BASE, .limit = BTL_LIMIT_MAX };

	setvbuf(stdout, NULL, _IOLBF, 0);
	must(!btl_library_create(&o, &lib, NULL), "library");
	print_machine();
	printf("input: %u unique stacks of %u frames; %u windows of %u look-ups each; "
	       "\"even\": any of them, \"near\": 1,024 of them, \"skewed\": half 32 of them, a "
	       "quarter 1,024, "
	       "a quarter any\n\n",
	       STACKS, FRAMES, ROUNDS, WINDOW);
	make_chain();
	fill();
	report_memory();
	measure();
	report();
	measure_logs();
	measure_growing();
	btl_library_destroy(lib);
	free(chain);
	return EXIT_SUCCESS;
}
