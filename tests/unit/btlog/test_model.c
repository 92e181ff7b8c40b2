/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations from several threads beside a simple model under locks. The threads meet from time to
 * time; every reference count, record and group must then be what the model says, and zero at the end.
 *
 * BTL_MODEL_OPS is the number of operations, of all numbers of threads together (make soak: 10,000,000).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"
#include "tests/unit/btlog/suites.h"

#define THREADS_MAX   8u
#define STACKS	      4096u
#define SHARDS	      64u
#define HELD_MAX      500u  /* references of one thread */
#define ELEMENTS      32u   /* of one thread in the hash log */
#define ELEMENT_MAX   40u   /* records of one element: so the log never overwrites */
#define RING	      3000u /* records of the rings */
#define HEADS_MAX     (1u << 16)
#define OPS_DEFAULT   60000u
#define OPS_A_LIFE    200000u /* of a library: it has doubled its table as often as it will by then */
#define OPS_A_MEETING 40000u

/* References that threads hold to a stack, and the reference as long as that is not 0. */
struct known {
	uint32_t count, ref;
};

struct shard {
	_Alignas(64) pthread_mutex_t lock;
};

/* What the log with the exact model holds. */
struct ring_model {
	pthread_mutex_t lock;
	uint16_t stack[RING];
	uint8_t op[RING];
	uint32_t next, held;
};

struct model {
	struct btl_library *lib;
	struct btl_log *exact, *loose, *hash;
	struct known known[STACKS];
	struct shard shard[SHARDS];
	struct ring_model ring;
	pthread_barrier_t meeting;
	uint32_t threads, rounds, ops_a_round;
	struct worker *worker;
};

struct worker {
	struct model *m;
	struct dice dice;
	uint32_t number, held;
	struct {
		uint32_t stack, ref;
	} hold[HELD_MAX];
	uint32_t records[ELEMENTS];
	uint16_t record[ELEMENTS][ELEMENT_MAX]; /* stacks */
	uint64_t done[16];			/* operations by kind */
};

/* --- the model ------------------------------------------------------------------------------------ */

static void model_got(struct model *m, uint32_t stack, uint32_t ref)
{
	struct known *k = &m->known[stack];

	pthread_mutex_lock(&m->shard[stack % SHARDS].lock);
	/* somebody holds it all the time, so it is the same one */
	if (k->count++)
		ck_assert_uint_eq(k->ref, ref);
	k->ref = ref;
	pthread_mutex_unlock(&m->shard[stack % SHARDS].lock);
}

static void model_putting(struct model *m, uint32_t stack)
{
	pthread_mutex_lock(&m->shard[stack % SHARDS].lock);
	ck_assert_uint_gt(m->known[stack].count--, 0);
	pthread_mutex_unlock(&m->shard[stack % SHARDS].lock);
}

static void ring_model_add(struct ring_model *r, uint32_t stack, uint32_t op)
{
	r->stack[r->next] = (uint16_t)stack;
	r->op[r->next] = (uint8_t)op;
	r->next = (r->next + 1) % RING;
	r->held += r->held < RING;
}

/* --- operations ----------------------------------------------------------------------------------- */

/* Few stacks are frequent, as in life. */
static uint32_t some_stack(struct worker *w)
{
	uint32_t range = 1u << (2 + roll(&w->dice, 11));

	return roll(&w->dice, range > STACKS ? STACKS : range);
}

/* A reference that the thread holds; false: nowait, and it would have had to wait. */
static bool get_some(struct worker *w, uint32_t stack, uint32_t flags, uint32_t *ref_out)
{
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count = made_stack(stack, frames);
	enum gs_code rc = btl_get(w->m->lib, frames, count, flags, ref_out);

	if (rc == GS_EBUSY && flags & BTL_GET_NOWAIT)
		return false;
	ck_assert_int_eq(rc, GS_OK);
	return true;
}

static void do_put(struct worker *w)
{
	if (!w->held)
		return;
	uint32_t i = roll(&w->dice, w->held), ref = w->hold[i].ref;

	model_putting(w->m, w->hold[i].stack);
	w->hold[i] = w->hold[--w->held];
	ck_assert_int_eq(btl_put(w->m->lib, ref), GS_OK);
}

static void do_get(struct worker *w)
{
	uint32_t stack = some_stack(w), ref;

	if (w->held == HELD_MAX)
		do_put(w);
	if (!get_some(w, stack, roll(&w->dice, 8) ? 0 : BTL_GET_NOWAIT, &ref))
		return;
	model_got(w->m, stack, ref);
	w->hold[w->held].stack = stack;
	w->hold[w->held++].ref = ref;
}

static void do_retain(struct worker *w)
{
	if (!w->held || w->held == HELD_MAX)
		return;
	uint32_t i = roll(&w->dice, w->held);

	ck_assert_int_eq(btl_retain(w->m->lib, w->hold[i].ref), GS_OK);
	model_got(w->m, w->hold[i].stack, w->hold[i].ref);
	w->hold[w->held] = w->hold[i];
	w->held++;
}

static void do_copy(struct worker *w)
{
	struct btl_stack s;
	uint64_t frames[BTL_FRAMES_MAX];

	if (!w->held)
		return;
	uint32_t i = roll(&w->dice, w->held);

	ck_assert_int_eq(btl_stack_copy(w->m->lib, w->hold[i].ref, &s), GS_OK);
	ck_assert_uint_eq(s.count, made_stack(w->hold[i].stack, frames));
	ck_assert_mem_eq(s.frame, frames, s.count * sizeof(*frames));
	ck_assert_uint_ge(s.references, 1);
}

static void do_record_exact(struct worker *w)
{
	uint32_t stack = some_stack(w), op = roll(&w->dice, BTL_OPS), ref;
	struct ring_model *r = &w->m->ring;

	(void)get_some(w, stack, 0, &ref);
	pthread_mutex_lock(&r->lock);
	if (btl_log_record(w->m->exact, stack, op, ref, gs_clock_ns()) == GS_OK)
		ring_model_add(r, stack, op);
	pthread_mutex_unlock(&r->lock);
}

static void do_record_loose(struct worker *w)
{
	uint32_t stack = some_stack(w), ref;

	(void)get_some(w, stack, 0, &ref);
	/* another thread may just have disabled it */
	(void)btl_log_record(w->m->loose, stack, stack % BTL_OPS, ref, 0);
}

static uint64_t element_of(const struct worker *w, uint32_t i)
{
	return UINT64_C(0xffff000000000000) + 64 * (i * THREADS_MAX + w->number);
}

static void do_erase(struct worker *w, uint32_t i)
{
	ck_assert_uint_eq(btl_log_erase(w->m->hash, element_of(w, i)), w->records[i]);
	w->records[i] = 0;
}

static void do_record_hash(struct worker *w)
{
	uint32_t stack = some_stack(w), i = roll(&w->dice, ELEMENTS), ref;

	if (w->records[i] == ELEMENT_MAX)
		do_erase(w, i);
	(void)get_some(w, stack, 0, &ref);
	ck_assert_int_eq(btl_log_record(w->m->hash, element_of(w, i), 1, ref, 0), GS_OK);
	w->record[i][w->records[i]++] = (uint16_t)stack;
}

/* The exact ring ends disabled half of the time, until the next one. */
static void do_switch(struct worker *w)
{
	struct ring_model *r = &w->m->ring;

	if (roll(&w->dice, 2)) {
		btl_log_disable(w->m->loose);
		ck_assert_int_eq(btl_log_enable(w->m->loose, NULL), GS_OK);
		return;
	}
	pthread_mutex_lock(&r->lock);
	if (roll(&w->dice, 2)) {
		btl_log_disable(w->m->exact);
		r->next = r->held = 0;
	} else {
		ck_assert_int_eq(btl_log_enable(w->m->exact, NULL), GS_OK);
	}
	pthread_mutex_unlock(&r->lock);
}

static void do_rehash(struct worker *w)
{
	if (stats_of(w->m->lib).heads < HEADS_MAX)
		(void)btl_test_rehash(w->m->lib);
}

static void check_groups_locked(struct model *m)
{
	struct btl_groups g = { 0 };
	uint64_t sum = 0, squares = 0, expected = 0;
	static uint16_t count[STACKS][BTL_OPS];

	enum gs_code rc = btl_log_groups(m->exact, 0, &g, NULL);
	ck_assert_int_eq(rc, m->ring.held ? GS_OK : GS_ENOENT);
	memset(count, 0, sizeof(count));
	for (uint32_t i = 0; i < m->ring.held; i++)
		/* the sum of 2n - 1 is the square */
		expected += 2u * ++count[m->ring.stack[i]][m->ring.op[i]] - 1;
	for (uint32_t i = 0; i < g.count; i++) {
		uint32_t stack = (uint32_t)((g.group[i].frame[0] - BASE) >> 2);

		ck_assert_uint_lt(stack, STACKS);
		ck_assert_uint_eq(g.group[i].count, count[stack][g.group[i].op]);
		sum += g.group[i].count;
		squares += (uint64_t)g.group[i].count * g.group[i].count;
	}
	ck_assert_uint_eq(sum, m->ring.held);
	ck_assert_uint_eq(squares, expected);
	btl_groups_deinit(&g);
}

static void do_groups(struct worker *w)
{
	pthread_mutex_lock(&w->m->ring.lock);
	check_groups_locked(w->m);
	pthread_mutex_unlock(&w->m->ring.lock);
}

static void do_one(struct worker *w)
{
	uint32_t x = roll(&w->dice, 100000);

	/* clang-format off */
	if (x < 30000) { do_get(w); w->done[0]++; }
	else if (x < 40000) { do_retain(w); w->done[1]++; }
	else if (x < 65000) { do_put(w); w->done[2]++; }
	else if (x < 70000) { do_copy(w); w->done[3]++; }
	else if (x < 78000) { do_record_exact(w); w->done[4]++; }
	else if (x < 88000) { do_record_loose(w); w->done[5]++; }
	else if (x < 97000) { do_record_hash(w); w->done[6]++; }
	else if (x < 99940) { do_erase(w, roll(&w->dice, ELEMENTS)); w->done[7]++; }
	else if (x < 99955) { do_switch(w); w->done[8]++; }
	else if (x < 99985) { do_rehash(w); w->done[9]++; }
	else { do_groups(w); w->done[10]++; }
	/* clang-format on */
}

/* --- meetings ------------------------------------------------------------------------------------- */

static void count_loose(struct model *m, uint32_t *expected)
{
	struct btl_record *r;
	uint32_t n;

	if (btl_log_records(m->loose, &r, &n, NULL))
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t ref = get(m->lib, r[i].element);

		/* the stack that was recorded with it */
		ck_assert_uint_eq(r[i].ref, ref);
		ck_assert_uint_eq(r[i].op, r[i].element % BTL_OPS);
		ck_assert_int_eq(btl_put(m->lib, ref), GS_OK);
		expected[r[i].element]++;
	}
	btl_records_release(m->loose, r, n);
}

/* Nobody else does anything now. */
static void check_all(struct model *m)
{
	static uint32_t expected[STACKS];
	uint32_t stacks = 0;

	for (uint32_t i = 0; i < STACKS; i++)
		expected[i] = m->known[i].count;
	for (uint32_t i = 0; i < m->ring.held; i++)
		expected[m->ring.stack[i]]++;
	for (uint32_t t = 0; t < m->threads; t++)
		for (uint32_t i = 0; i < ELEMENTS; i++)
			for (uint32_t k = 0; k < m->worker[t].records[i]; k++)
				expected[m->worker[t].record[i][k]]++;
	count_loose(m, expected);
	btl_library_settle(m->lib);
	for (uint32_t i = 0; i < STACKS; i++)
		stacks += expected[i] > 0;
	struct btl_library_stats s = stats_of(m->lib);
	ck_assert_uint_eq(s.stacks, stacks);
	ck_assert_uint_eq(s.waiting, 0);
	ck_assert_uint_eq(s.misuses, 0);
	ck_assert_uint_eq(s.dropped_stacks, 0);
	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t ref = get(m->lib, i);
		struct btl_stack stack;

		ck_assert_int_eq(btl_stack_copy(m->lib, ref, &stack), GS_OK);
		ck_assert_uint_eq(stack.references, expected[i] + 1);
		ck_assert_int_eq(btl_put(m->lib, ref), GS_OK);
	}
}

static void let_go(struct worker *w)
{
	while (w->held)
		do_put(w);
	for (uint32_t i = 0; i < ELEMENTS; i++)
		do_erase(w, i);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (uint32_t round = 0; round < w->m->rounds; round++) {
		for (uint32_t i = 0; i < w->m->ops_a_round; i++)
			do_one(w);
		if (pthread_barrier_wait(&w->m->meeting) == PTHREAD_BARRIER_SERIAL_THREAD)
			check_all(w->m);
		pthread_barrier_wait(&w->m->meeting);
	}
	let_go(w);
	return NULL;
}

static void model_init(struct model *m, uint32_t threads, uint32_t ops, uint64_t seed)
{
	memset(m, 0, sizeof(*m));
	m->lib = library(0);
	m->exact = ring(m->lib, RING);
	m->loose = ring(m->lib, RING);
	m->hash = hash(m->lib, THREADS_MAX * ELEMENTS * ELEMENT_MAX);
	m->threads = threads;
	m->rounds = 1 + (ops - 1) / OPS_A_MEETING;
	m->ops_a_round = 1 + (ops - 1) / m->rounds / threads;
	pthread_mutex_init(&m->ring.lock, NULL);
	for (uint32_t i = 0; i < SHARDS; i++)
		pthread_mutex_init(&m->shard[i].lock, NULL);
	pthread_barrier_init(&m->meeting, NULL, threads);
	m->worker = calloc(threads, sizeof(*m->worker));
	ck_assert_ptr_nonnull(m->worker);
	for (uint32_t i = 0; i < threads; i++) {
		m->worker[i].m = m;
		m->worker[i].number = i;
		m->worker[i].dice.state = seed * THREADS_MAX + i;
	}
}

static void model_run(struct model *m)
{
	pthread_t t[THREADS_MAX];

	for (uint32_t i = 0; i < m->threads; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, work, &m->worker[i]), 0);
	for (uint32_t i = 0; i < m->threads; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
	/* all kinds of operations happened */
	for (uint32_t k = 0; k <= 10; k++) {
		uint64_t sum = 0;

		for (uint32_t i = 0; i < m->threads; i++)
			sum += m->worker[i].done[k];
		ck_assert_uint_gt(sum, 0);
	}
}

static void model_end(struct model *m)
{
	ck_assert_uint_eq(log_stats_of(m->hash).held, 0);
	ck_assert_uint_eq(log_stats_of(m->hash).overwritten, 0);
	btl_log_destroy(m->hash);
	btl_log_destroy(m->exact);
	btl_log_destroy(m->loose);
	btl_library_settle(m->lib);
	struct btl_library_stats s = stats_of(m->lib);
	ck_assert_uint_gt(s.grace_periods, 10);
	ck_assert_uint_ge(s.rehashes, 2); // how many depends on when the library's thread runs
	close_library(m->lib);		  // no stack left
	free(m->worker);
	pthread_barrier_destroy(&m->meeting);
}

START_TEST(the_library_does_what_the_model_does)
{
	static struct model m;
	const char *env = getenv("BTL_MODEL_OPS");
	uint32_t ops = env ? 1 + (uint32_t)strtoul(env, NULL, 10) / THREADS_MAX : OPS_DEFAULT;
	uint32_t lives = 1 + (ops - 1) / OPS_A_LIFE;

	for (uint32_t life = 0; life < lives; life++) {
		model_init(&m, (uint32_t)_i, 1 + (ops - 1) / lives, 1000 * (uint64_t)_i + life);
		model_run(&m);
		model_end(&m);
	}
}
END_TEST

/* --- more stacks than fit --------------------------------------------------------------------------- */

struct flood {
	struct btl_library *lib;
	struct btl_log *log[2];
	uint32_t ops, number;
};

static void *flood(void *arg)
{
	struct flood *f = arg;
	struct dice d = { f->number };

	for (uint32_t i = 0; i < f->ops; i++) {
		uint32_t n = roll(&d, 100000), k = roll(&d, 2);

		record(f->log[k], n, n % BTL_OPS, n);
		if (n % 8 == 0)
			(void)btl_log_erase(f->log[1], n);
	}
	return NULL;
}

/* Records are dropped all the time; nothing is lost that is not counted. */
START_TEST(dropping_goes_beside_recording)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct flood f[4];
	pthread_t t[4];
	struct btl_log *log[2] = { ring(lib, 40000), hash(lib, 40000) };
	uint64_t dropped = 0;

	for (uint32_t i = 0; i < 4; i++) {
		f[i] = (struct flood){ lib, { log[0], log[1] }, OPS_DEFAULT / 2, i };
		ck_assert_int_eq(pthread_create(&t[i], NULL, flood, &f[i]), 0);
	}
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
	btl_library_settle(lib);
	for (uint32_t i = 0; i < 2; i++) {
		struct btl_log_stats s = log_stats_of(log[i]);

		ck_assert_uint_eq(s.recorded, s.held + s.overwritten + s.erased + s.dropped);
		dropped += s.dropped;
	}
	struct btl_library_stats s = stats_of(lib);
	ck_assert_uint_eq(s.dropped_records, dropped);
	ck_assert_uint_gt(s.drops, 1);
	ck_assert_uint_eq(s.lost, 0);
	btl_log_destroy(log[0]);
	btl_log_destroy(log[1]);
	close_library(lib);
}
END_TEST

Suite *suite_model(void)
{
	Suite *s = suite_create("model");
	TCase *tc = tcase_create("model");

	/* as long as the caller wants it to run */
	tcase_set_timeout(tc, getenv("BTL_MODEL_OPS") ? 0 : 60);
	tcase_add_loop_test(tc, the_library_does_what_the_model_does, 1, THREADS_MAX + 1);
	tcase_add_test(tc, dropping_goes_beside_recording);
	suite_add_tcase(s, tc);
	return s;
}
