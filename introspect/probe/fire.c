/* SPDX-License-Identifier: Apache-2.0 */
/* Firing: predicates and actions, on a vCPU's thread. Allocates nothing; see priv.h for locks. */
#include <string.h>

#include "base/util.h"
#include "introspect/probe/priv.h"

/* A firing, and what was found out for it so far: each thing once. */
struct firing {
	struct probe_engine *e;
	struct probe_lane *lane;
	const struct probe_context *c;
	uint64_t now_ns;
	const struct guest_vcpu_regs *regs; /* NULL: none, or not asked for yet */
	struct guest_vcpu_regs fetched;
	struct lnx_task task;
	uint32_t frames;
	bool asked_regs, asked_task, asked_stack;
	bool has_view, has_task, has_stack, is_cut;
};

/* --- what is known at a firing -------------------------------------------------------------------
 */

static const struct guest_vcpu_regs *regs_of(struct firing *f)
{
	if (!f->asked_regs) {
		f->asked_regs = true;
		f->regs = f->c->regs;
		if (!f->regs && f->c->fetch && f->c->fetch(f->c->arg, &f->fetched))
			f->regs = &f->fetched;
	}
	return f->regs;
}

/* Of the running guest: no translation is kept from one firing to the next. */
static struct lnx_view *view_of(struct firing *f)
{
	if (!f->e->world.kernel)
		return NULL;
	if (!f->has_view)
		lnx_view_init(&f->lane->view, f->e->world.kernel, f->e->config.guest);
	f->has_view = true;
	return &f->lane->view;
}

static const struct lnx_task *task_of(struct firing *f)
{
	const struct guest_vcpu_regs *regs;
	struct lnx_view *v;
	gva_t current;

	if (!f->asked_task) {
		f->asked_task = true;
		v = view_of(f);
		regs = v ? regs_of(f) : NULL;
		f->has_task = regs && !lnx_vcpu_current(v, regs, &current) &&
			      !lnx_task_read(v, current, &f->task);
	}
	return f->has_task ? &f->task : NULL;
}

static bool is_user(const struct guest_vcpu_regs *regs)
{
	return a64_pstate_el(regs->pstate) == 0;
}

static void unwind(struct firing *f, const struct guest_vcpu_regs *regs)
{
	struct probe_lane *lane = f->lane;
	struct lnx_stack stack = { .address = lane->address, .kind = lane->kind };

	if (is_user(regs)) {
		lane->address[0] = BTL_FRAME_PSEUDO(BTL_PSEUDO_USER);
		f->frames = 1;
		return;
	}
	lnx_unwind_running(view_of(f), task_of(f), regs, &stack);
	f->frames = stack.count;
	for (uint32_t i = 0; i < f->frames; i++)
		lane->address[i] = (lane->address[i] & ~UINT64_C(3)) |
				   (lnx_frame_is_exact(lane->kind[i]) ? BTL_FRAME_EXACT : 0);
}

/*
 * A reference of one's own to the stack. A new stack takes the library's lock, which is held for moments;
 * not to wait for it would lose stacks that a leak is told by. @return false: there is none to be had
 */
static bool stack_of(struct firing *f, struct btl_library *lib, uint32_t *ref_out)
{
	if (!f->asked_stack) {
		const struct guest_vcpu_regs *regs = view_of(f) ? regs_of(f) : NULL;

		f->asked_stack = true;
		f->has_stack = regs && guest_regs_have_frame(regs);
		if (f->has_stack)
			unwind(f, regs);
	}
	return f->has_stack && lib && lib == f->e->world.library &&
	       !btl_get(lib, f->lane->address, f->frames, 0, ref_out);
}

/* --- terms ---------------------------------------------------------------------------------------
 */

static bool register_value(const struct guest_vcpu_regs *regs, const struct probe_term *t,
			   uint64_t *value_out)
{
	const bool general = regs && regs->valid & GUEST_REGS_GENERAL;

	if (!regs || !guest_regs_have_frame(regs))
		return false;
	if (t->kind == PROBE_TERM_PC)
		*value_out = regs->pc;
	else if (t->kind == PROBE_TERM_PSTATE)
		*value_out = regs->pstate;
	else if (t->kind == PROBE_TERM_SP) /* SPSel is bit 0 of the mode */
		*value_out = regs->pstate & 1 ? regs->sp_el1 : regs->sp_el0;
	else if (t->n < 29 && !general)
		return false;
	else
		*value_out = regs->x[t->n];
	return true;
}

/* The start of the function, the address itself outside of the image, 0 in user mode. */
static bool symbol_value(struct firing *f, uint64_t *value_out)
{
	const struct guest_vcpu_regs *regs = view_of(f) ? regs_of(f) : NULL;
	struct lnx_symbol symbol;

	if (!regs || !guest_regs_have_frame(regs))
		return false;
	*value_out = is_user(regs) ? 0 : regs->pc;
	if (*value_out && !lnx_symbol_at(f->e->world.kernel, GVA(regs->pc), &symbol))
		*value_out = symbol.start;
	return true;
}

/* Those that are given, then those in registers. */
static bool arg_value(struct firing *f, uint32_t n, uint64_t *value_out)
{
	const uint32_t x = n - f->c->arg_count;

	if (n < f->c->arg_count) {
		*value_out = f->c->args[n];
		return true;
	}
	return x < f->c->arg_registers &&
	       register_value(regs_of(f), &(struct probe_term){ .kind = PROBE_TERM_X, .n = x },
			      value_out);
}

/* A term that is one word, but for a stack. */
static bool word_value(struct firing *f, const struct probe_term *t, uint64_t *value_out)
{
	const struct lnx_task *task;

	switch (t->kind) {
	case PROBE_TERM_NUMBER: *value_out = t->number; return true;
	case PROBE_TERM_VCPU: *value_out = f->c->vcpu; return true;
	case PROBE_TERM_TIME: *value_out = f->now_ns; return true;
	case PROBE_TERM_ARG: return arg_value(f, t->n, value_out);
	case PROBE_TERM_X:
	case PROBE_TERM_SP:
	case PROBE_TERM_PC:
	case PROBE_TERM_PSTATE: return register_value(regs_of(f), t, value_out);
	case PROBE_TERM_SYMBOL: return symbol_value(f, value_out);
	case PROBE_TERM_PID:
	case PROBE_TERM_TID:
		task = task_of(f);
		if (task)
			*value_out = (uint64_t)(t->kind == PROBE_TERM_PID ? task->tgid : task->pid);
		return task;
	case PROBE_TERM_STRING:
	case PROBE_TERM_COMM:
	case PROBE_TERM_STACK: return false;
	}
	return false;
}

/* Its bytes and zeros behind them, so that equal ones are equal as words. */
static bool comm_value(struct firing *f, const struct probe_term *t,
		       char text_out[static PROBE_COMM_MAX])
{
	const struct lnx_task *task = t->kind == PROBE_TERM_COMM ? task_of(f) : NULL;

	if (t->kind == PROBE_TERM_COMM && !task)
		return false;
	strncpy(text_out, task ? task->comm : t->text, PROBE_COMM_MAX);
	return true;
}

/*
 * Terms as words of a record or of keys. @return how many words; 0: one could not be had, and no
 * reference is held
 */
static uint32_t put_terms(struct firing *f, struct probe_session *s, struct probe_store *store,
			  const struct probe_term *term, uint32_t count, uint64_t *word_out)
{
	uint64_t *word = word_out;
	uint32_t i, ref;
	bool ok = true;

	for (i = 0; ok && i < count; i++) {
		if (term[i].kind == PROBE_TERM_STACK) {
			ok = stack_of(f, s->library, &ref);
			store->stack_drops += !ok;
			*word = ok ? ref : 0;
		} else if (term[i].kind == PROBE_TERM_COMM) {
			ok = comm_value(f, &term[i], (char *)word);
		} else {
			ok = word_value(f, &term[i], word);
		}
		word += probe_term_words(&term[i]);
	}
	if (ok)
		return (uint32_t)(word - word_out);
	/* what was taken is given back, but for the term that failed */
	for (word = word_out, count = i - 1, i = 0; i < count; i++) {
		if (term[i].kind == PROBE_TERM_STACK)
			(void)btl_put(s->library, (uint32_t)*word); /* counts misuses */
		word += probe_term_words(&term[i]);
	}
	return 0;
}

/* --- predicates ----------------------------------------------------------------------------------
 */

static bool compared(int order, enum probe_compare compare)
{
	switch (compare) {
	case PROBE_EQ: return order == 0;
	case PROBE_NE: return order != 0;
	case PROBE_LT: return order < 0;
	case PROBE_LE: return order <= 0;
	case PROBE_GT: return order > 0;
	case PROBE_GE: return order >= 0;
	}
	return false;
}

/* @return false: a term could not be had */
static bool compare(struct firing *f, const struct probe_node *node, bool *is_so_out)
{
	char l[PROBE_COMM_MAX], r[PROBE_COMM_MAX];
	uint64_t left, right;
	int order;

	if (node->left.kind == PROBE_TERM_COMM || node->left.kind == PROBE_TERM_STRING) {
		if (!comm_value(f, &node->left, l) || !comm_value(f, &node->right, r))
			return false;
		order = memcmp(l, r, sizeof(l));
	} else {
		if (!word_value(f, &node->left, &left) || !word_value(f, &node->right, &right))
			return false;
		order = ((int64_t)left > (int64_t)right) - ((int64_t)left < (int64_t)right);
	}
	*is_so_out = compared(order, node->compare);
	return true;
}

/* Recursion is as deep as the program, which was limited when it was read. */
static bool predicate(struct firing *f, const struct probe_clause *c, uint32_t at, bool *is_so_out)
{
	const struct probe_node *node = &c->node[at];
	bool is_so = true;

	if (node->kind == PROBE_NODE_COMPARE)
		return compare(f, node, is_so_out);
	for (uint32_t i = at + 1; i < node->end; i = c->node[i].end) {
		if (!predicate(f, c, i, &is_so))
			return false;
		if (node->kind != PROBE_NODE_NOT && is_so == (node->kind == PROBE_NODE_OR))
			break;
	}
	*is_so_out = is_so != (node->kind == PROBE_NODE_NOT);
	return true;
}

/* --- actions -------------------------------------------------------------------------------------
 */

static void add_value(enum probe_action_kind kind, uint64_t *value, int64_t n, bool is_new)
{
	const int64_t old = (int64_t)value[0];

	switch (kind) {
	case PROBE_ACTION_COUNT: value[0]++; return;
	case PROBE_ACTION_SUM: value[0] += (uint64_t)n; return;
	case PROBE_ACTION_MIN: value[0] = (uint64_t)(is_new || n < old ? n : old); return;
	case PROBE_ACTION_MAX: value[0] = (uint64_t)(is_new || n > old ? n : old); return;
	case PROBE_ACTION_AVG:
		value[0] += (uint64_t)n;
		value[1]++;
		return;
	case PROBE_ACTION_QUANTIZE: value[probe_quantize_bucket(n)]++; return;
	case PROBE_ACTION_TRACE:
	case PROBE_ACTION_RECORD:
	case PROBE_ACTION_ERASE:
	case PROBE_ACTION_STACKSHOT:
	case PROBE_ACTION_EXIT: return;
	}
}

static void release_keys(struct probe_session *s, const struct probe_action *a,
			 const uint64_t *keys)
{
	for (uint32_t i = 0; i < a->term_count; i++) {
		if (a->term[i].kind == PROBE_TERM_STACK)
			(void)btl_put(s->library, (uint32_t)*keys); /* counts misuses */
		keys += probe_term_words(&a->term[i]);
	}
}

static bool aggregate(struct firing *f, const struct probe_ecb *ecb, struct probe_store *store,
		      uint32_t action, uint32_t aggregation)
{
	struct probe_session *s = ecb->session;
	const struct probe_action *a = &ecb->enabling->clause.action[action];
	uint64_t keys[PROBE_KEYS_MAX * PROBE_COMM_MAX / 8], n = 0;
	bool is_new;

	if (a->kind != PROBE_ACTION_COUNT && !word_value(f, &a->of, &n))
		return false;
	if (a->term_count && !put_terms(f, s, store, a->term, a->term_count, keys))
		return false;
	uint64_t *value = probe_table_entry(s, store, aggregation, &ecb->enabling->layout[action],
					    keys, &is_new);
	if (!is_new)
		release_keys(s, a, keys); /* the entry has its own, or there is none */
	if (value)
		add_value(a->kind, value, (int64_t)n, is_new);
	return true;
}

/* Into, or out of, the log of backtraces. */
static bool log_stack(struct firing *f, const struct probe_action *a, struct probe_store *store)
{
	const struct probe_world *w = &f->e->world;
	uint64_t element;
	uint32_t ref;

	if (!w->log || !word_value(f, &a->of, &element))
		return false;
	if (a->kind == PROBE_ACTION_ERASE) {
		(void)btl_log_erase(w->log, element); /* none is fine */
		return true;
	}
	if (!stack_of(f, w->library, &ref)) {
		store->stack_drops++;
		return false;
	}
	return !btl_log_record(w->log, element, a->operation, ref, f->now_ns);
}

/* One record for all trace() actions of the clause; all terms or none. */
static bool trace(struct firing *f, const struct probe_ecb *ecb, struct probe_store *store)
{
	const struct probe_enabling *en = ecb->enabling;
	struct probe_session *s = ecb->session;
	struct probe_record *r = probe_store_reserve(s, store, en->record_size);

	if (!r)
		return true; /* a drop is no error */
	*r = (struct probe_record){ en->record_size, ecb->epid, f->now_ns };
	uint64_t *word = (uint64_t *)(r + 1);
	/* a record that ends early releases what it has: the rest is no reference */
	memset(word, 0, en->record_size - sizeof(*r));
	for (uint32_t i = 0; i < en->clause.action_count; i++) {
		const struct probe_action *a = &en->clause.action[i];
		uint32_t n;

		if (a->kind != PROBE_ACTION_TRACE || !a->term_count)
			continue;
		n = put_terms(f, s, store, a->term, a->term_count, word);
		if (!n) {
			memset(word, 0, en->record_size - (size_t)((uint8_t *)word - (uint8_t *)r));
			probe_record_release(s, r);
			probe_store_undo(s, store, en->record_size);
			return false;
		}
		word += n;
	}
	return true;
}

static void drain(struct probe_session *s)
{
	enum probe_state warm = PROBE_WARMUP, active = PROBE_ACTIVE;

	/* stop and kill may have been first */
	if (!atomic_compare_exchange_strong(&s->state, &warm, PROBE_DRAINING))
		(void)atomic_compare_exchange_strong(&s->state, &active, PROBE_DRAINING);
}

static bool act(struct firing *f, const struct probe_ecb *ecb, struct probe_store *store)
{
	const struct probe_clause *c = &ecb->enabling->clause;
	const struct probe_engine_config *config = &f->e->config;
	uint32_t aggregation = ecb->first_aggregation;
	bool ok = !ecb->enabling->record_size || trace(f, ecb, store);

	for (uint32_t i = 0; i < c->action_count; i++) {
		const struct probe_action *a = &c->action[i];

		if (probe_action_aggregates(a->kind))
			ok &= aggregate(f, ecb, store, i, aggregation++);
		else if (a->kind == PROBE_ACTION_RECORD || a->kind == PROBE_ACTION_ERASE)
			ok &= log_stack(f, a, store);
		else if (a->kind == PROBE_ACTION_STACKSHOT)
			config->stackshot(config->arg, ecb->session->id);
		else if (a->kind == PROBE_ACTION_EXIT)
			drain(ecb->session);
	}
	return ok;
}

/* --- firing --------------------------------------------------------------------------------------
 */

/* Whether a session records at this probe now; see priv.h for why relaxed is enough. */
static bool records(const struct probe_ecb *ecb)
{
	const struct probe_engine *e = ecb->session->e;

	switch (atomic_load_explicit(&ecb->session->state, memory_order_relaxed)) {
	case PROBE_WARMUP: return ecb->probe == e->begin;
	case PROBE_ACTIVE: return ecb->probe != e->begin && ecb->probe != e->end;
	case PROBE_COOLDOWN: return ecb->probe == e->end;
	case PROBE_INACTIVE:
	case PROBE_DRAINING:
	case PROBE_STOPPED:
	case PROBE_KILLED: return false;
	}
	return false;
}

static void fire_ecb(struct firing *f, const struct probe_ecb *ecb)
{
	const struct probe_clause *c = &ecb->enabling->clause;
	struct probe_store *store;
	bool is_so = true;

	if (!records(ecb))
		return;
	store = &ecb->session->store[f->c->vcpu];
	bool ok = !c->node_count || predicate(f, c, 0, &is_so);
	if (ok && is_so)
		ok = act(f, ecb, store);
	store->half[store->active].errors += !ok;
}

static void fire(struct probe_engine *e, uint32_t id, const struct probe_context *c,
		 const struct probe_session *only)
{
	if (c->vcpu >= e->vcpus)
		return;
	struct probe_lane *lane = &e->lane[c->vcpu];
	struct firing f = { .e = e, .lane = lane, .c = c };

	probe_lane_lock(lane);
	const struct probe_ecb *ecb = id && id <= e->probes ? probe_at(e, id)->ecb : NULL;
	if (ecb)
		f.now_ns = e->config.clock();
	for (; ecb; ecb = ecb->next)
		if (!only || ecb->session == only)
			fire_ecb(&f, ecb);
	pthread_mutex_unlock(&lane->lock);
}

void probe_fire(struct probe_engine *e, uint32_t id, const struct probe_context *c)
{
	if (id != e->begin && id != e->end)
		fire(e, id, c, NULL);
}

void probe_fire_for(struct probe_session *s, uint32_t id, uint32_t vcpu)
{
	fire(s->e, id, &(struct probe_context){ .vcpu = vcpu }, s);
}
