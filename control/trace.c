/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing of one guest: sessions of connections, and the operations of the protocol. */
#include "control/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "control/btlogs_code.h"
#include "control/trace_priv.h"

/* --- sessions ------------------------------------------------------------------------------------
 */

static struct trace_session *find_session(struct ctl_trace *t, uint32_t id)
{
	struct trace_session *s;

	LIST_FOREACH(s, &t->sessions, link)
	{
		if (probe_session_id(s->s) == id)
			return s;
	}
	return NULL;
}

static void end_session(struct ctl_trace *t, struct trace_session *s)
{
	pthread_mutex_lock(&t->lock);
	LIST_REMOVE(s, link);
	pthread_mutex_unlock(&t->lock);
	probe_session_destroy(s->s);
	free(s->dir);
	free(s);
}

/* A call under way. */
struct call {
	struct ctl_trace *t;
	struct ctl_trace_client *client;
	const char *command;
	const json_t *arguments;
	json_t *answer;
	struct gs_error *err;
};

static const json_t *argument(const struct call *c, const char *name)
{
	return json_object_get(c->arguments, name);
}

static enum gs_code number(const struct call *c, const char *name, uint32_t otherwise,
			   uint32_t *n_out)
{
	const json_t *value = argument(c, name);

	*n_out = value ? (uint32_t)json_integer_value(value) : otherwise;
	if (!value && otherwise == UINT32_MAX)
		return gs_fail(c->err, GS_EINVAL, "%s: \"%s\" is missing", c->command, name);
	return GS_OK;
}

static enum gs_code text(const struct call *c, const char *name, const char **text_out)
{
	*text_out = json_string_value(argument(c, name));
	return *text_out ? GS_OK
			 : gs_fail(c->err, GS_EINVAL, "%s: \"%s\" is missing", c->command, name);
}

/* The session that is meant: the connection's own, or a persistent one by its number. */
static enum gs_code session_of(const struct call *c, struct trace_session **s_out)
{
	uint32_t id;

	GS_IGNORE(number(c, "session", 0, &id)); /* may be missing */
	struct trace_session *s = find_session(c->t, id ? id : c->client->session);
	if (id && (!s || (!s->persistent && id != c->client->session)))
		return gs_fail(c->err, GS_ENOENT, "there is no session %u that is persistent", id);
	if (!s)
		return gs_fail(c->err, GS_ENOENT,
			       "this connection has no session: trace-enable makes one");
	*s_out = s;
	return GS_OK;
}

/* --- the operations ------------------------------------------------------------------------------
 */

static enum gs_code answered(struct call *c, json_t *answer)
{
	c->answer = answer;
	return answer ? GS_OK : gs_fail(c->err, GS_ENOSPC, "out of memory");
}

static enum gs_code do_conf(struct call *c)
{
	return answered(c, probe_engine_conf(c->t->e));
}

static enum gs_code do_provider(struct call *c)
{
	const char *name = NULL;
	enum gs_code rc = text(c, "provider", &name);

	return rc ? rc : probe_engine_provider(c->t->e, name, &c->answer, c->err);
}

static enum gs_code do_list(struct call *c, const struct probe_pattern *pattern)
{
	uint32_t from;

	GS_IGNORE(number(c, "from", 0, &from)); /* may be missing */
	return probe_engine_list(c->t->e, pattern, from, &c->answer, c->err);
}

static enum gs_code do_probes(struct call *c)
{
	return do_list(c, NULL);
}

static enum gs_code pattern_of(const struct call *c, const char *name,
			       struct probe_pattern *pattern_out)
{
	const char *t = NULL;
	enum gs_code rc = text(c, name, &t);

	return rc ? rc : probe_pattern_parse(t, pattern_out, c->err);
}

static enum gs_code do_match(struct call *c)
{
	struct probe_pattern pattern;
	enum gs_code rc = pattern_of(c, "probe", &pattern);

	return rc ? rc : do_list(c, &pattern);
}

static enum gs_code do_arg(struct call *c)
{
	struct probe_arg_type type;
	uint32_t id, n;
	enum gs_code rc = number(c, "id", UINT32_MAX, &id);

	if (!rc)
		rc = number(c, "n", UINT32_MAX, &n);
	if (!rc)
		rc = probe_engine_arg(c->t->e, id, n, &type, c->err);
	return rc ? rc
		  : answered(c, json_pack("{s:s, s:s}", "native", type.native, "name", type.name));
}

static enum gs_code matched(struct call *c, const struct trace_session *s, uint32_t n)
{
	return answered(c,
			json_pack("{s:I, s:I, s:b}", "session", (json_int_t)probe_session_id(s->s),
				  "matched", (json_int_t)n, "persistent", (int)s->persistent));
}

static enum gs_code options_of(const struct call *c, struct probe_options *options_out)
{
	const char *policy = json_string_value(argument(c, "policy"));

	*options_out = (struct probe_options){ 0 };
	if (policy && !probe_policy_of_name(policy, &options_out->policy))
		return gs_fail(c->err, GS_EINVAL,
			       "%s: \"policy\" is \"switch\", \"ring\" or \"fill\"", c->command);
	GS_IGNORE(number(c, "buffer_bytes", 0, &options_out->buffer_bytes)); /* may be missing */
	GS_IGNORE(number(c, "aggregation_bytes", 0, &options_out->aggregation_bytes));
	return GS_OK;
}

static enum gs_code program_of(const struct call *c, struct probe_program *program_out)
{
	const json_t *program = argument(c, "program");

	if (json_is_object(program))
		return probe_program_from_json(program, program_out, c->err);
	return probe_program_parse(json_string_value(program), json_string_length(program),
				   program_out, c->err);
}

/* What the programs' terms need; without a kernel these are errors, which are counted. */
static void find_kernel(struct ctl_trace *t)
{
	if (!t->btlogs)
		return;
	pthread_mutex_lock(&t->btlogs->lock);
	GS_IGNORE(ctl_btlogs_ready_locked(t->btlogs, NULL)); /* it may not have booted yet */
	pthread_mutex_unlock(&t->btlogs->lock);
}

static enum gs_code new_session(struct call *c, struct trace_session **s_out)
{
	struct trace_session *s = calloc(1, sizeof(*s));

	if (!s)
		return gs_fail(c->err, GS_ENOSPC, "out of memory");
	enum gs_code rc = probe_session_create(c->t->e, &s->s, c->err);
	if (rc) {
		free(s);
		return rc;
	}
	pthread_mutex_lock(&c->t->lock);
	LIST_INSERT_HEAD(&c->t->sessions, s, link);
	pthread_mutex_unlock(&c->t->lock);
	*s_out = s;
	return GS_OK;
}

static enum gs_code rematch(struct call *c)
{
	struct trace_session *s;
	uint32_t n = 0;
	enum gs_code rc = session_of(c, &s);

	if (!rc)
		rc = probe_session_rematch(s->s, &n, c->err);
	return rc ? rc : matched(c, s, n);
}

static bool wants_stackshots(const struct probe_program *program)
{
	for (uint32_t i = 0; i < program->count; i++)
		for (uint32_t a = 0; a < program->clause[i].action_count; a++)
			if (program->clause[i].action[a].kind == PROBE_ACTION_STACKSHOT)
				return true;
	return false;
}

/* Where captures go that a program wants; one folder a session, from the first one on. */
static enum gs_code folder_for(const struct call *c, const struct probe_program *program,
			       struct trace_session *s)
{
	const char *dir = json_string_value(argument(c, "stackshots"));

	if (dir && *dir != '/')
		return gs_fail(c->err, GS_EINVAL, "%s: \"stackshots\" is an absolute path",
			       c->command);
	pthread_mutex_lock(&c->t->wanted_lock);
	const bool taken = c->t->wanted;
	pthread_mutex_unlock(&c->t->wanted_lock);
	if (wants_stackshots(program) && !taken)
		return gs_fail(c->err, GS_ENOTSUP, "stackshot(): no captures are taken here");
	if (wants_stackshots(program) && !dir && !s->dir)
		return gs_fail(c->err, GS_EINVAL, "%s: stackshot() needs \"stackshots\", a folder",
			       c->command);
	if (!dir || s->dir)
		return GS_OK;
	char *copy = strdup(dir);
	pthread_mutex_lock(&c->t->lock);
	s->dir = copy;
	pthread_mutex_unlock(&c->t->lock);
	return copy ? GS_OK : gs_fail(c->err, GS_ENOSPC, "out of memory");
}

static enum gs_code enable_program(struct call *c, const struct probe_program *program,
				   const struct probe_options *options)
{
	const bool is_new = !argument(c, "session") && !c->client->session;
	struct trace_session *s;
	uint32_t n = 0;
	enum gs_code rc = is_new ? new_session(c, &s) : session_of(c, &s);

	if (rc)
		return rc;
	find_kernel(c->t);
	rc = folder_for(c, program, s);
	if (!rc)
		rc = probe_session_enable(s->s, program, options, &n, c->err);
	if (rc && is_new)
		end_session(c->t, s); /* nothing of it stays */
	if (rc)
		return rc;
	if (is_new)
		c->client->session = probe_session_id(s->s);
	s->persistent |= json_is_true(argument(c, "persistent"));
	return matched(c, s, n);
}

static enum gs_code do_enable(struct call *c)
{
	struct probe_program program;
	struct probe_options options;
	const bool has_options = argument(c, "policy") || argument(c, "buffer_bytes") ||
				 argument(c, "aggregation_bytes");

	if (!argument(c, "program")) {
		if (has_options || argument(c, "persistent") || argument(c, "stackshots"))
			return gs_fail(c->err, GS_EINVAL,
				       "trace-enable: without a \"program\" nothing is set");
		find_kernel(c->t);
		return rematch(c);
	}
	enum gs_code rc = options_of(c, &options);
	if (!rc)
		rc = program_of(c, &program);
	if (rc)
		return rc;
	rc = enable_program(c, &program, has_options ? &options : NULL);
	probe_program_deinit(&program);
	return rc;
}

static enum gs_code do_replicate(struct call *c)
{
	struct probe_pattern match, create;
	struct trace_session *s;
	uint32_t n = 0;
	enum gs_code rc = pattern_of(c, "match", &match);

	if (!rc)
		rc = pattern_of(c, "create", &create);
	if (!rc)
		rc = session_of(c, &s);
	if (!rc)
		rc = probe_session_replicate(s->s, &match, &create, &n, c->err);
	return rc ? rc : matched(c, s, n);
}

static enum gs_code do_eprobe(struct call *c)
{
	struct trace_session *s;
	uint32_t epid, room;
	enum gs_code rc = number(c, "epid", UINT32_MAX, &epid);

	GS_IGNORE(number(c, "room", 64, &room)); /* may be missing */
	if (!rc)
		rc = session_of(c, &s);
	return rc ? rc : probe_session_eprobe(s->s, epid, room, &c->answer, c->err);
}

static enum gs_code do_agg_desc(struct call *c)
{
	struct trace_session *s;
	uint32_t id, room;
	enum gs_code rc = number(c, "aggregation", UINT32_MAX, &id);

	GS_IGNORE(number(c, "room", 64, &room)); /* may be missing */
	if (!rc)
		rc = session_of(c, &s);
	return rc ? rc : probe_session_aggregation(s->s, id, room, &c->answer, c->err);
}

static enum gs_code do_enablings(struct call *c)
{
	struct trace_session *s;
	uint32_t length;
	enum gs_code rc = session_of(c, &s);

	GS_IGNORE(number(c, "length", PROBE_TEXT_MAX, &length)); /* may be missing */
	return rc ? rc : probe_session_enablings(s->s, length, &c->answer, c->err);
}

static enum gs_code do_format(struct call *c)
{
	struct trace_session *s;
	uint32_t n, length;
	enum gs_code rc = number(c, "number", UINT32_MAX, &n);

	GS_IGNORE(number(c, "length", PROBE_LABEL_MAX, &length)); /* may be missing */
	if (!rc)
		rc = session_of(c, &s);
	return rc ? rc : probe_session_format(s->s, n, length, &c->answer, c->err);
}

static enum gs_code on_vcpu(struct call *c, uint32_t vcpu)
{
	return answered(c, json_pack("{s:I}", "vcpu", (json_int_t)vcpu));
}

static enum gs_code do_go(struct call *c)
{
	struct trace_session *s;
	uint32_t vcpu = 0;
	enum gs_code rc = session_of(c, &s);

	if (!rc) {
		find_kernel(c->t);
		rc = probe_session_go(s->s, &vcpu, c->err);
	}
	return rc ? rc : on_vcpu(c, vcpu);
}

static enum gs_code do_stop(struct call *c)
{
	struct trace_session *s;
	uint32_t vcpu = 0;
	enum gs_code rc = session_of(c, &s);

	if (!rc)
		rc = probe_session_stop(s->s, &vcpu, c->err);
	return rc ? rc : on_vcpu(c, vcpu);
}

static enum gs_code do_snap(struct call *c,
			    enum gs_code (*snap)(struct probe_session *s, uint32_t vcpu,
						 json_t **json_out, struct gs_error *err))
{
	struct trace_session *s;
	uint32_t vcpu;
	enum gs_code rc = number(c, "vcpu", UINT32_MAX, &vcpu);

	if (!rc)
		rc = session_of(c, &s);
	if (rc)
		return rc;
	if (!c->t->btlogs)
		return snap(s->s, vcpu, &c->answer, c->err);
	/* of name_function() */
	pthread_mutex_lock(&c->t->btlogs->lock);
	c->t->has_looked = false;
	rc = snap(s->s, vcpu, &c->answer, c->err);
	pthread_mutex_unlock(&c->t->btlogs->lock);
	return rc;
}

static enum gs_code do_buf_snap(struct call *c)
{
	return do_snap(c, probe_session_buffer);
}

static enum gs_code do_agg_snap(struct call *c)
{
	return do_snap(c, probe_session_aggregates);
}

static enum gs_code do_status(struct call *c)
{
	struct probe_status st;
	struct trace_session *s;
	enum gs_code rc = session_of(c, &s);

	if (!rc)
		rc = probe_session_status(s->s, &st, c->err);
	if (rc)
		return rc;
	return answered(c, json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b}",
				     "session", (json_int_t)probe_session_id(s->s), "state",
				     probe_state_name(st.state), "drops", (json_int_t)st.drops,
				     "aggregation_drops", (json_int_t)st.aggregation_drops,
				     "errors", (json_int_t)st.errors, "stack_drops",
				     (json_int_t)st.stack_drops, "filled", (json_int_t)st.filled,
				     "enabled", (json_int_t)st.enabled, "gone", (json_int_t)st.gone,
				     "clauses", (json_int_t)st.clauses, "exiting", (int)st.exiting,
				     "killed", (int)st.killed));
}

static enum gs_code do_close(struct call *c)
{
	struct trace_session *s;
	enum gs_code rc = session_of(c, &s);

	if (rc)
		return rc;
	const uint32_t id = probe_session_id(s->s);
	end_session(c->t, s);
	if (c->client->session == id)
		c->client->session = 0;
	return answered(c, json_pack("{s:I}", "session", (json_int_t)id));
}

static const struct {
	const char *command;
	enum gs_code (*run)(struct call *c);
} operations[] = {
	{ "trace-conf", do_conf },
	{ "trace-provider", do_provider },
	{ "trace-probes", do_probes },
	{ "trace-probe-match", do_match },
	{ "trace-probe-arg", do_arg },
	{ "trace-enable", do_enable },
	{ "trace-eprobe", do_eprobe },
	{ "trace-replicate", do_replicate },
	{ "trace-enablings", do_enablings },
	{ "trace-format", do_format },
	{ "trace-go", do_go },
	{ "trace-stop", do_stop },
	{ "trace-buf-snap", do_buf_snap },
	{ "trace-agg-desc", do_agg_desc },
	{ "trace-agg-snap", do_agg_snap },
	{ "trace-status", do_status },
	{ "trace-close", do_close },
};

enum gs_code ctl_trace_do(struct ctl_trace *t, struct ctl_trace_client *client, const char *command,
			  const json_t *arguments, json_t **answer_out, struct gs_error *err)
{
	struct call c = { t, client, command, arguments, NULL, err };

	/* a persistent one may have been closed by another connection */
	if (client->session && !find_session(t, client->session))
		client->session = 0;
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		if (strcmp(operations[i].command, command) != 0)
			continue;
		enum gs_code rc = operations[i].run(&c);
		if (!rc)
			*answer_out = c.answer;
		return rc;
	}
	return gs_fail(err, GS_EINVAL, "%s is no operation of tracing", command);
}

void ctl_trace_client_gone(struct ctl_trace *t, struct ctl_trace_client *client)
{
	struct trace_session *s = client->session ? find_session(t, client->session) : NULL;

	if (s && !s->persistent)
		end_session(t, s);
	client->session = 0;
}

/* --- captures that programs want -----------------------------------------------------------------
 */

/* On a firing thread. */
static void on_stackshot(void *arg, uint32_t session)
{
	struct ctl_trace *t = arg;

	atomic_store(&t->wants, session);
	pthread_mutex_lock(&t->wanted_lock);
	if (t->wanted)
		t->wanted(t->wanted_arg);
	pthread_mutex_unlock(&t->wanted_lock);
}

void ctl_trace_on_stackshot(struct ctl_trace *t, void (*wanted)(void *arg), void *arg)
{
	pthread_mutex_lock(&t->wanted_lock);
	t->wanted = wanted;
	t->wanted_arg = arg;
	pthread_mutex_unlock(&t->wanted_lock);
}

char *ctl_trace_take_stackshot(struct ctl_trace *t)
{
	const uint32_t id = atomic_exchange(&t->wants, 0);
	const uint64_t now_ns = gs_clock_ns();
	char *path = NULL;

	pthread_mutex_lock(&t->lock);
	struct trace_session *s = id ? find_session(t, id) : NULL;
	if (s && s->dir && t->stackshot_ns && now_ns - t->stackshot_ns < GS_NS_PER_SEC) {
		atomic_fetch_add(&t->suppressed, 1);
	} else if (s && s->dir &&
		   asprintf(&path, "%s/trace-%u-%u.kcdata", s->dir, id, s->taken + 1) > 0) {
		s->taken++;
		t->stackshot_ns = now_ns;
	} else {
		path = NULL; /* asprintf() may leave anything there */
	}
	pthread_mutex_unlock(&t->lock);
	return path;
}

/* --- life ----------------------------------------------------------------------------------------
 */

/* Functions of modules and BPF programs, as the logs have them; the lock of the logs is held. */
static bool name_function(void *arg, uint64_t address, struct btl_name *name_out)
{
	struct ctl_trace *t = arg;

	if (!t->has_looked)
		ctl_code_look(t->code);
	t->has_looked = true;
	return ctl_code_name(t->code, address, name_out);
}

/* The kernel was found, or goes; the lock of the logs is held. */
static void on_kernel(void *arg, const struct btlogs_state *state)
{
	struct ctl_trace *t = arg;

	if (t->fbt)
		probe_fbt_kernel_set(t->fbt, state ? state->k : NULL);
	if (!state) {
		probe_engine_world_set(t->e, NULL);
		return;
	}
	t->code = state->code;
	probe_engine_world_set(t->e, &(struct probe_world){ .kernel = state->k,
							    .library = state->lib,
							    .log = state->probes,
							    .name = name_function,
							    .arg = t });
	ctl_trace_guest(t, CTL_TRACE_BOOT, 0, 0);
}

static void locks_init(struct ctl_trace *t)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->wanted_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

enum gs_code ctl_trace_create(struct guest *g, struct ctl_btlogs *btlogs, struct ctl_trace **t_out,
			      struct gs_error *err)
{
	struct ctl_trace *t = calloc(1, sizeof(*t));

	if (!t)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	t->g = g;
	t->btlogs = btlogs;
	LIST_INIT(&t->sessions);
	locks_init(t);
	enum gs_code rc = probe_engine_create(
		&(struct probe_engine_config){ .guest = g, .stackshot = on_stackshot, .arg = t },
		&t->e, err);
	if (!rc)
		rc = ctl_trace_add_profile(t, err);
	if (!rc)
		rc = ctl_trace_add_events(t, err);
	if (!rc && guest_can_break(g))
		rc = probe_fbt_create(t->e, g, &t->fbt, err);
	if (!rc)
		rc = ctl_trace_start(t, err);
	if (rc) {
		t->btlogs = NULL;
		ctl_trace_destroy(t);
		return rc;
	}
	if (btlogs)
		ctl_btlogs_observe(btlogs, on_kernel, t);
	*t_out = t;
	return GS_OK;
}

void ctl_trace_end(struct ctl_trace *t)
{
	struct trace_session *s;

	if (!t || t->ended)
		return;
	t->ended = true;
	while ((s = LIST_FIRST(&t->sessions)))
		end_session(t, s);
	ctl_trace_join(t);
	if (t->btlogs)
		ctl_btlogs_observe(t->btlogs, NULL, NULL);
}

void ctl_trace_destroy(struct ctl_trace *t)
{
	if (!t)
		return;
	ctl_trace_end(t);
	probe_fbt_destroy(t->fbt);
	probe_engine_destroy(t->e);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->wanted_lock);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
