/* SPDX-License-Identifier: Apache-2.0 */
/* What offers probes: how a provider makes them, is told to enable them, and fires them. */
#ifndef INTROSPECT_PROBE_PROVIDER_H
#define INTROSPECT_PROBE_PROVIDER_H

/*
 * A probe is a place or an event of a running guest, named provider:module:function:name. An engine
 * (session.h) has all probes of one guest; sessions enable some of them with actions.
 *
 *	static const struct probe_provider_ops ops = { .provide = …, .enable = …, .disable = … };
 *
 *	probe_provider_add(e, "fbt", &ops, me, &p, &err);
 *	…ops.provide(me, pattern):	probe_create(p, "vmlinux", "vfs_read", "entry", key, &id);
 *	…ops.enable(me, key, id):	plant a breakpoint, remember that it is probe id
 *	…the breakpoint is hit:		probe_fire(e, id, &(struct probe_context){ .vcpu = 2, … });
 *	…ops.disable(me, key):		take it away
 *
 * Locks: an engine has one lock for what is described (probes, sessions), and one *lane* for each
 * vCPU, which is taken by probe_fire(), by hand-overs of a vCPU's buffer, and, all of them, to link
 * or unlink actions: always for a moment. The ops below are called under the engine's lock and
 * with no lane held. They may therefore stop the guest or a vCPU and wait for it, although that
 * vCPU's thread may be on its way through probe_fire(). They must not call back into the engine but
 * for probe_create() and probe_find(). A provider's own lock that its firing threads take, too, must
 * not be held while it calls probe_create() or probe_find().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

#define PROBE_NAME_MAX	    64u	 /* of provider, module, name: bytes, NUL included */
#define PROBE_FUNCTION_MAX  256u /* longest names of kernel functions are cut, and then not probed */
#define PROBE_ARGS_MAX	    8u
#define PROBE_PROVIDERS_MAX 16u
#define PROBE_PROBES_MAX    (1u << 20)

struct probe_engine;
struct probe_provider;

/** The four parts of a probe's name. Of a pattern: globs ('*' and '?'); an empty one matches all. */
struct probe_name {
	const char *provider;
	const char *module;
	const char *function;
	const char *name;
};

/** Whether a string is matched by a glob: '*' any bytes, '?' one byte; "" matches everything. */
bool probe_glob(const char *glob, const char *text);

/** Whether a name is matched by a pattern, part by part. */
bool probe_name_matches(const struct probe_name *pattern, const struct probe_name *name);

/* --- firing ------------------------------------------------------------------------------------ */

/**
 * What is known where a probe fires. The engine reads what actions and predicates ask for and nothing
 * else: the registers once, by fetch() if there is no regs; the thread (comm, pid, tid), the stack
 * and everything else out of the guest's memory by itself, from these registers.
 *
 * For a kernel function's entry or return that is: GUEST_REGS_GENERAL (x0 to x30, sp_el0, sp_el1, pc,
 * pstate), where sp_el0 leads to the current thread, and GUEST_REGS_TPIDR. @p valid says what there
 * is; a term whose register is not valid makes the firing an error, which is counted.
 *
 * pc is the address of the probed instruction, also if the vCPU stands behind a planted BRK.
 */
struct probe_context {
	uint32_t vcpu; /* whose event it is; below the guest's vcpu_count */
	/* of that vCPU as it stands; NULL: fetch() gives them. Borrowed for the call */
	const struct guest_vcpu_regs *regs;
	/**
	 * Called at most once a firing, on the firing thread, only if a term needs a register. NULL, or
	 * false: there are none.
	 */
	bool (*fetch)(void *arg, struct guest_vcpu_regs *regs_out);
	void *arg; /* of fetch() */
	/* arg0 …: what the provider documents. fbt: entry x0 to x7; return: arg0 offset, arg1 x0 */
	uint64_t args[PROBE_ARGS_MAX];
	uint32_t arg_count;
	/* as many further arguments are x0, x1, …, which are fetched only if somebody wants them */
	uint32_t arg_registers;
};

/**
 * A probe's event took place: predicates are looked at, actions done, for each session that is active.
 *
 * @param id  of the probe; one that nobody has enabled (any more) is no error
 * Threads: any, several at once, those of vCPUs included; firings for one vCPU follow each other.
 * Takes the lane of the vCPU, which others hold for no longer than a firing takes, and for stacks the
 * lock of the library of backtraces, which is held for moments, too. Allocates nothing. The vCPU stands
 * still meanwhile, so its registers and stack do not change; other vCPUs may run. Not from within
 * probe_fire().
 */
void probe_fire(struct probe_engine *e, uint32_t id, const struct probe_context *c);

/* --- providers --------------------------------------------------------------------------------- */

/** The type of a probe's argument, for people and as far as it is known. */
struct probe_arg_type {
	char native[128]; /* "struct file *", from the guest's own types */
	char name[64];	  /* of the parameter; "" if that is not known */
};

struct probe_provider_ops {
	/**
	 * Called before probes are listed or matched, after a program was enabled, and about once a second:
	 * what the guest has may have changed since. Enabled probes whose place has gone are taken away,
	 * those whose place is there again, because provide() has found it, come into force. May stop the
	 * guest. NULL: nothing goes.
	 */
	void (*look)(void *arg);
	/** Whether what an enabled probe names was gone at the last look(), so that it does not fire. NULL: never */
	bool (*is_gone)(void *arg, uint64_t key);
	/**
	 * Probes are listed or matched: create those that the pattern can mean and that do not exist
	 * yet. One that exists already is no error. NULL: all were created at the start.
	 */
	void (*provide)(void *arg, const struct probe_name *pattern);
	/**
	 * The first session wants the probe to fire: from the return on it does. May stop the guest.
	 *
	 * @param key  as given to probe_create()
	 * @return GS_OK; else nothing is enabled, and the program that wanted it is refused with @p err
	 */
	enum gs_code (*enable)(void *arg, uint64_t key, uint32_t id, struct gs_error *err);
	/** The last session has let it go. Firings that are under way may still end. */
	void (*disable)(void *arg, uint64_t key);
	/**
	 * What was enabled and disabled since the last call comes into force together: a provider that
	 * has to stop the guest for it does so here. If it fails, what was enabled is disabled, and it is
	 * called again. NULL: enable() and disable() have done it.
	 */
	enum gs_code (*commit)(void *arg, struct gs_error *err);
	/**
	 * The type of argument @p n.
	 *
	 * @return GS_OK; GS_ENOENT: no such argument, or the types are not known. NULL: never known
	 */
	enum gs_code (*arg_type)(void *arg, uint64_t key, uint32_t n,
				 struct probe_arg_type *type_out);
};

/**
 * Add a provider; it stays for the engine's life.
 *
 * @param name  below PROBE_NAME_MAX, copied
 * @param ops   borrowed, like @p arg, for the engine's life
 * @return GS_OK; GS_EEXIST: the name is taken; GS_ETOOBIG: PROBE_PROVIDERS_MAX, or the name; GS_ENOSPC
 */
GS_MUST_USE enum gs_code probe_provider_add(struct probe_engine *e, const char *name,
					    const struct probe_provider_ops *ops, void *arg,
					    struct probe_provider **provider_out,
					    struct gs_error *err);

/**
 * Create a probe. Ids ascend from 1 and are not used again. Probes stay until the engine ends; what they
 * name may come and go.
 *
 * @param module, function, name  copied
 * @param key     the provider's own number for it
 * @param id_out  also set with GS_EEXIST
 * @return GS_OK; GS_EEXIST: there is one of this name, which keeps its key; GS_ETOOBIG: a name is too
 *         long, or PROBE_PROBES_MAX; GS_ENOSPC
 * Threads: any but a vCPU's; from within provide(), or with no lock that an op may want.
 */
GS_MUST_USE enum gs_code probe_create(struct probe_provider *p, const char *module,
				      const char *function, const char *name, uint64_t key,
				      uint32_t *id_out);

/** A probe by its name. @return false: there is none */
bool probe_find(struct probe_provider *p, const char *module, const char *function,
		const char *name, uint32_t *id_out);

#endif
