/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from the kernel's own BTF. */
#include "introspect/linux/types.h"

#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/util.h"
#include "introspect/linux/layouts.h"

/*
 * Anonymous members nest three deep at most in the kernels looked at; hostile BTF may nest in
 * itself.
 */
#define ANON_DEPTH_MAX 6
/* Steps through typedef, const, volatile … of one member. */
#define CHAIN_MAX 32
/* Members visited for one name: task_struct has some 250. */
#define MEMBER_BUDGET 65536
/* The largest blob seen is 6.6 MB (7.3); the types of the smallest one are over 1 MB. */
#define BTF_TYPES_MIN (UINT32_C(64) << 10)
#define BTF_SIZE_MAX  (UINT32_C(64) << 20)

/* One place where the names of kernel members stand; order of enum lnx_member. */
static const struct lnx_member_name places[LNX_MEMBERS] = {
	[LNX_M_TASK_STATE] = { "task_struct", "__state|state", true }, /* renamed in 5.14 */
	[LNX_M_TASK_STACK] = { "task_struct", "stack", true },
	[LNX_M_TASK_FLAGS] = { "task_struct", "flags", true },
	[LNX_M_TASK_ON_CPU] = { "task_struct", "on_cpu", false },
	[LNX_M_TASK_CPU] = { "task_struct", "thread_info.cpu|cpu", false }, /* moved in 5.16 */
	[LNX_M_TASK_PRIO] = { "task_struct", "prio", false },
	[LNX_M_TASK_STATIC_PRIO] = { "task_struct", "static_prio", false },
	[LNX_M_TASK_RT_PRIORITY] = { "task_struct", "rt_priority", false },
	[LNX_M_TASK_POLICY] = { "task_struct", "policy", false },
	[LNX_M_TASK_EXEC_START] = { "task_struct", "se.exec_start", false },
	[LNX_M_TASK_SUM_EXEC_RUNTIME] = { "task_struct", "se.sum_exec_runtime", false },
	[LNX_M_TASK_TASKS] = { "task_struct", "tasks", true },
	[LNX_M_TASK_MM] = { "task_struct", "mm", false },
	[LNX_M_TASK_EXIT_STATE] = { "task_struct", "exit_state", true },
	[LNX_M_TASK_PID] = { "task_struct", "pid", true },
	[LNX_M_TASK_TGID] = { "task_struct", "tgid", true },
	[LNX_M_TASK_REAL_PARENT] = { "task_struct", "real_parent", true },
	[LNX_M_TASK_GROUP_LEADER] = { "task_struct", "group_leader", true },
	[LNX_M_TASK_THREAD_NODE] = { "task_struct", "thread_node", true },
	[LNX_M_TASK_UTIME] = { "task_struct", "utime", false },
	[LNX_M_TASK_STIME] = { "task_struct", "stime", false },
	[LNX_M_TASK_NVCSW] = { "task_struct", "nvcsw", false },
	[LNX_M_TASK_NIVCSW] = { "task_struct", "nivcsw", false },
	[LNX_M_TASK_START_TIME] = { "task_struct", "start_time", false },
	[LNX_M_TASK_START_BOOTTIME] = { "task_struct", "start_boottime|real_start_time", false },
	[LNX_M_TASK_MIN_FLT] = { "task_struct", "min_flt", false },
	[LNX_M_TASK_MAJ_FLT] = { "task_struct", "maj_flt", false },
	[LNX_M_TASK_COMM] = { "task_struct", "comm", true },
	[LNX_M_TASK_SIGNAL] = { "task_struct", "signal", true },
	[LNX_M_TASK_CONTEXT_FP] = { "task_struct", "thread.cpu_context.fp", true },
	[LNX_M_TASK_CONTEXT_SP] = { "task_struct", "thread.cpu_context.sp", true },
	[LNX_M_TASK_CONTEXT_PC] = { "task_struct", "thread.cpu_context.pc", true },
	[LNX_M_SIGNAL_THREAD_HEAD] = { "signal_struct", "thread_head", true },
	[LNX_M_PT_REGS_REGS] = { "pt_regs", "regs", true },
	[LNX_M_PT_REGS_PC] = { "pt_regs", "pc", true },
	[LNX_M_PT_REGS_STACKFRAME] = { "pt_regs", "stackframe", true },
	[LNX_M_RQ_IDLE] = { "rq", "idle", false },
	[LNX_M_RQ_CPU] = { "rq", "cpu", false },
	[LNX_M_RQ_CURR] = { "rq", "curr", false },
	[LNX_M_MM_PGD] = { "mm_struct", "pgd", false },
	[LNX_M_MM_CONTEXT_ID] = { "mm_struct", "context.id", false },
	[LNX_M_MODULE_STATE] = { "module", "state", false },
	[LNX_M_MODULE_LIST] = { "module", "list", false },
	[LNX_M_MODULE_NAME] = { "module", "name", false },
	[LNX_M_MODULE_KALLSYMS] = { "module", "kallsyms", false },
	[LNX_M_MODULE_BUILD_ID] = { "module", "build_id", false }, /* since 5.14, if configured */
	[LNX_M_MODULE_MEM] = { "module", "mem", false },
	[LNX_M_MODULE_CORE_BASE] = { "module", "core_layout.base", false },
	[LNX_M_MODULE_CORE_TEXT_SIZE] = { "module", "core_layout.text_size", false },
	[LNX_M_MODULE_INIT_BASE] = { "module", "init_layout.base", false },
	[LNX_M_MODULE_INIT_TEXT_SIZE] = { "module", "init_layout.text_size", false },
	[LNX_M_MODULE_MEMORY_BASE] = { "module_memory", "base", false },
	[LNX_M_MODULE_MEMORY_SIZE] = { "module_memory", "size", false },
	[LNX_M_MOD_KALLSYMS_SYMTAB] = { "mod_kallsyms", "symtab", false },
	[LNX_M_MOD_KALLSYMS_NUM_SYMTAB] = { "mod_kallsyms", "num_symtab", false },
	[LNX_M_MOD_KALLSYMS_STRTAB] = { "mod_kallsyms", "strtab", false },
	[LNX_M_RQ_CLOCK] = { "rq", "clock", false },
	[LNX_M_LOG_COUNT_BITS] = { "printk_ringbuffer", "desc_ring.count_bits", false },
	[LNX_M_LOG_DESCS] = { "printk_ringbuffer", "desc_ring.descs", false },
	[LNX_M_LOG_INFOS] = { "printk_ringbuffer", "desc_ring.infos", false },
	[LNX_M_LOG_HEAD_ID] = { "printk_ringbuffer", "desc_ring.head_id", false },
	[LNX_M_LOG_TAIL_ID] = { "printk_ringbuffer", "desc_ring.tail_id", false },
	[LNX_M_LOG_SIZE_BITS] = { "printk_ringbuffer", "text_data_ring.size_bits", false },
	[LNX_M_LOG_DATA] = { "printk_ringbuffer", "text_data_ring.data", false },
	[LNX_M_LOG_DESC_STATE] = { "prb_desc", "state_var", false },
	[LNX_M_LOG_DESC_BEGIN] = { "prb_desc", "text_blk_lpos.begin", false },
	[LNX_M_LOG_DESC_NEXT] = { "prb_desc", "text_blk_lpos.next", false },
	[LNX_M_LOG_INFO_SEQ] = { "printk_info", "seq", false },
	[LNX_M_LOG_INFO_TIME] = { "printk_info", "ts_nsec", false },
	[LNX_M_LOG_INFO_LENGTH] = { "printk_info", "text_len", false },
	[LNX_M_LOG_INFO_FACILITY] = { "printk_info", "facility", false },
	[LNX_M_LOG_INFO_FLAGS] = { "printk_info", "flags", false },
	[LNX_M_LOG_INFO_CALLER] = { "printk_info", "caller_id", false },
	[LNX_M_LOG_INFO_DEVICE] = { "printk_info", "dev_info", false },
	[LNX_M_CONTEXT_ON_RQ] = { "task_struct", "on_rq", false },
	[LNX_M_CONTEXT_VRUNTIME] = { "task_struct", "se.vruntime", false },
	[LNX_M_CONTEXT_CFS_RQ] = { "task_struct", "se.cfs_rq", false },
	[LNX_M_CONTEXT_PENDING] = { "task_struct", "pending.signal", false },
	[LNX_M_CONTEXT_BLOCKED] = { "task_struct", "blocked", false },
	[LNX_M_CONTEXT_NSPROXY] = { "task_struct", "nsproxy", false },
	[LNX_M_CONTEXT_CGROUPS] = { "task_struct", "cgroups", false },
	[LNX_M_SIGNAL_PENDING] = { "signal_struct", "shared_pending.signal", false },
	[LNX_M_CSS_SET_CGROUP] = { "css_set", "dfl_cgrp", false },
	[LNX_M_CGROUP_KN] = { "cgroup", "kn", false },
	[LNX_M_KERNFS_PARENT] = { "kernfs_node", "__parent|parent", false }, /* renamed in 6.15 */
	[LNX_M_KERNFS_NAME] = { "kernfs_node", "name", false },
	[LNX_M_NSPROXY_UTS] = { "nsproxy", "uts_ns", false },
	[LNX_M_NSPROXY_IPC] = { "nsproxy", "ipc_ns", false },
	[LNX_M_NSPROXY_MNT] = { "nsproxy", "mnt_ns", false },
	[LNX_M_NSPROXY_PID] = { "nsproxy", "pid_ns_for_children", false },
	[LNX_M_NSPROXY_NET] = { "nsproxy", "net_ns", false },
	[LNX_M_NSPROXY_TIME] = { "nsproxy", "time_ns", false },
	[LNX_M_NSPROXY_CGROUP] = { "nsproxy", "cgroup_ns", false },
	[LNX_M_UTS_NUMBER] = { "uts_namespace", "ns.inum", false },
	[LNX_M_IPC_NUMBER] = { "ipc_namespace", "ns.inum", false },
	[LNX_M_MNT_NUMBER] = { "mnt_namespace", "ns.inum", false },
	[LNX_M_PID_NUMBER] = { "pid_namespace", "ns.inum", false },
	[LNX_M_NET_NUMBER] = { "net", "ns.inum", false },
	[LNX_M_TIME_NUMBER] = { "time_namespace", "ns.inum", false },
	[LNX_M_CGROUP_NUMBER] = { "cgroup_namespace", "ns.inum", false },
	[LNX_M_MM_ARG_START] = { "mm_struct", "arg_start", false },
	[LNX_M_MM_ARG_END] = { "mm_struct", "arg_end", false },
};

static const char *const counters[LNX_COUNTERS] = {
	[LNX_C_FREE_PAGES] = "NR_FREE_PAGES",
	[LNX_C_ACTIVE_ANON] = "NR_ACTIVE_ANON",
	[LNX_C_ACTIVE_FILE] = "NR_ACTIVE_FILE",
	[LNX_C_INACTIVE_ANON] = "NR_INACTIVE_ANON",
	[LNX_C_INACTIVE_FILE] = "NR_INACTIVE_FILE",
	[LNX_C_UNEVICTABLE] = "NR_UNEVICTABLE",
	[LNX_C_SLAB_UNRECLAIMABLE] =
		"NR_SLAB_UNRECLAIMABLE_B|NR_SLAB_UNRECLAIMABLE", /* renamed in 5.9 */
	[LNX_C_FILE_PAGES] = "NR_FILE_PAGES",
	[LNX_C_ZSPAGES] = "NR_ZSPAGES", /* with CONFIG_ZSMALLOC */
};

static const char *const percpu_names[LNX_PERCPUS] = {
	[LNX_P_ENTRY_TASK] = "__entry_task",
	[LNX_P_RUNQUEUES] = "runqueues",
	[LNX_P_IRQ_STACK_PTR] = "irq_stack_ptr",
	[LNX_P_OVERFLOW_STACK] = "overflow_stack",
};

struct lnx_member_name lnx_member_name(enum lnx_member m)
{
	return places[m];
}

bool lnx_next_name(const char **names, const char **name_out, size_t *len_out)
{
	if (!**names)
		return false;
	*name_out = *names;
	*len_out = strcspn(*names, "|");
	*names += *len_out + ((*names)[*len_out] == '|');
	return true;
}

const char *lnx_counter_name(enum lnx_counter c)
{
	return counters[c];
}

const char *lnx_percpu_name(enum lnx_percpu p)
{
	return percpu_names[p];
}

size_t lnx_btf_size(const uint8_t *h)
{
	uint32_t hdr_len = gs_get_u32(h + 4), type_off = gs_get_u32(h + 8),
		 type_len = gs_get_u32(h + 12);
	uint32_t str_off = gs_get_u32(h + 16), str_len = gs_get_u32(h + 20);

	if (h[0] != 0x9f || h[1] != 0xeb || h[2] != 1 || h[3] != 0)
		return 0;
	if (hdr_len != LNX_BTF_HEADER || type_off != 0 || str_off != type_len)
		return 0;
	if (type_len < BTF_TYPES_MIN || type_len > BTF_SIZE_MAX || str_len == 0 ||
	    str_len > BTF_SIZE_MAX)
		return 0;
	return (size_t)hdr_len + type_len + str_len;
}

/* Follow names and qualifiers to what a member really is; NULL for a broken chain. */
static const struct btf_type *resolve(const struct btf *btf, uint32_t id)
{
	for (int i = 0; i < CHAIN_MAX; i++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!t)
			return NULL;
		switch (btf_kind(t)) {
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_CONST:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG: id = t->type; break;
		default: return t;
		}
	}
	return NULL;
}

static uint64_t type_size(const struct btf *btf, const struct btf_type *t)
{
	uint64_t count = 1;

	for (int i = 0; t && i < CHAIN_MAX; i++) {
		switch (btf_kind(t)) {
		case BTF_KIND_INT:
		case BTF_KIND_ENUM:
		case BTF_KIND_ENUM64:
		case BTF_KIND_FLOAT:
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION: return gs_mul(count, t->size, &count) ? count : 0;
		case BTF_KIND_PTR: return gs_mul(count, 8u, &count) ? count : 0;
		case BTF_KIND_ARRAY:
			if (!gs_mul(count, btf_array(t)->nelems, &count))
				return 0;
			t = resolve(btf, btf_array(t)->type);
			break;
		default: return 0;
		}
	}
	return 0;
}

/* A place still to look into: an anonymous structure or union at a bit offset. */
struct pending {
	const struct btf_type *type;
	uint64_t bit;
	int depth;
};

#define PENDING_MAX 32

/* The member called @p name of @p type, also inside of its anonymous members. */
static const struct btf_type *find_member(const struct btf *btf, const struct btf_type *type,
					  const char *name, size_t len, uint64_t *bit_out)
{
	struct pending stack[PENDING_MAX] = { { type, 0, 0 } };
	int depth = 1, budget = MEMBER_BUDGET;

	while (depth) {
		struct pending p = stack[--depth];

		for (uint32_t i = 0; i < btf_vlen(p.type); i++) {
			const struct btf_member *m = &btf_members(p.type)[i];
			const char *have = btf__name_by_offset(btf, m->name_off);
			uint64_t bit = p.bit + btf_member_bit_offset(p.type, i);

			if (--budget < 0)
				return NULL;
			if (have && strlen(have) == len && memcmp(have, name, len) == 0) {
				*bit_out = bit;
				return resolve(btf, m->type);
			}
			if (have && *have)
				continue;
			const struct btf_type *inner = resolve(btf, m->type);
			if (inner && btf_is_composite(inner) && depth < PENDING_MAX &&
			    p.depth < ANON_DEPTH_MAX)
				stack[depth++] = (struct pending){ inner, bit, p.depth + 1 };
		}
	}
	return NULL;
}

/* One "a.b.c" path of @p len characters. */
static bool find_path(const struct btf *btf, const struct btf_type *type, const char *path,
		      size_t len, struct lnx_field *field_out)
{
	uint64_t bits = 0, whole = type->size;

	while (len) {
		const char *dot = memchr(path, '.', len);
		size_t part = dot ? (size_t)(dot - path) : len;
		uint64_t bit;

		if (!type || !btf_is_composite(type))
			return false;
		type = find_member(btf, type, path, part, &bit);
		if (!type)
			return false;
		bits += bit;
		path += dot ? part + 1 : part;
		len -= dot ? part + 1 : part;
	}

	uint64_t size = type_size(btf, type);
	if (bits % 8 || !size || !gs_in_range(bits / 8, size, 0, whole))
		return false;
	*field_out = (struct lnx_field){ true, (uint32_t)(bits / 8), (uint32_t)size };
	return true;
}

static bool find_place(const struct btf *btf, const struct btf_type *type, const char *paths,
		       struct lnx_field *field_out)
{
	const char *path;
	size_t len;

	while (lnx_next_name(&paths, &path, &len))
		if (find_path(btf, type, path, len, field_out))
			return true;
	return false;
}

static const struct btf_type *find_struct(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_STRUCT);

	return id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
}

/* The per-CPU section is the only one in the kernel's BTF, and absent before 5.11 or so. */
static bool find_percpu(const struct btf *btf, const char *wanted, struct lnx_field *field_out)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *sec = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;

	for (uint32_t i = 0; sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *info = &btf_var_secinfos(sec)[i];
		const struct btf_type *var = btf__type_by_id(btf, info->type);
		const char *name = var ? btf__name_by_offset(btf, var->name_off) : NULL;

		if (name && strcmp(name, wanted) == 0) {
			*field_out = (struct lnx_field){ true, info->offset, info->size };
			return true;
		}
	}
	return false;
}

static void read_percpu(const struct btf *btf, struct lnx_types *types)
{
	for (size_t p = 0; p < LNX_PERCPUS; p++)
		(void)find_percpu(btf, percpu_names[p], &types->percpu[p]);
}

/* Whether a name is one of those in a list that '|' separates. */
static bool is_among(const char *name, const char *names)
{
	const char *one;
	size_t len;

	while (lnx_next_name(&names, &one, &len))
		if (strlen(name) == len && memcmp(name, one, len) == 0)
			return true;
	return false;
}

static const struct btf_type *find_enum(const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);

	return id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
}

/* The name of an enumerator that can be an element of an array; NULL: it cannot. */
static const char *element_name(const struct btf *btf, const struct btf_type *type, uint32_t i,
				uint32_t *index_out)
{
	const struct btf_enum *e = &btf_enum(type)[i];

	if (e->val < 0 || e->val >= LNX_ELEMENTS_MAX)
		return NULL;
	*index_out = (uint32_t)e->val;
	return btf__name_by_offset(btf, e->name_off);
}

static void read_counters(const struct btf *btf, bool of_nodes, struct lnx_types *types)
{
	const struct btf_type *type = find_enum(btf, of_nodes ? LNX_NODE_ENUM : LNX_ZONE_ENUM);
	uint32_t index;

	for (uint32_t i = 0; type && i < btf_vlen(type); i++) {
		const char *name = element_name(btf, type, i, &index);

		for (size_t c = 0; name && c < LNX_COUNTERS; c++)
			if (is_among(name, counters[c]))
				types->counter[c] = (struct lnx_element){ true, of_nodes, index };
	}
}

static enum gs_code read_members(const struct btf *btf, struct lnx_types *types,
				 struct gs_error *err)
{
	const char *in = "";
	const struct btf_type *type = NULL;

	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name *p = &places[m];

		if (strcmp(in, p->in) != 0) {
			in = p->in;
			type = find_struct(btf, in);
		}
		if ((!type || !find_place(btf, type, p->path, &types->member[m])) && p->needed)
			return gs_fail(err, GS_ENOENT, "the kernel's type information lacks %s.%s",
				       p->in, p->path);
	}
	types->task_size = find_struct(btf, "task_struct")->size;
	types->pt_regs_size = find_struct(btf, "pt_regs")->size;
	types->has_frame_record_meta = find_struct(btf, LNX_FRAME_RECORD_META) != NULL;
	return GS_OK;
}

static int be_silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

static enum gs_code load(const void *data, size_t size, struct btf **btf_out, struct gs_error *err)
{
	if (size > 2 * (size_t)BTF_SIZE_MAX + LNX_BTF_HEADER)
		return gs_fail(err, GS_ETOOBIG, "type information of %zu bytes", size);
	libbpf_set_print(be_silent);
	*btf_out = btf__new(data, (uint32_t)size);
	return *btf_out ? GS_OK
			: gs_fail(err, GS_EMALFORMED, "the kernel's type information is broken");
}

enum gs_code lnx_types_read(const void *data, size_t size, struct lnx_types *types_out,
			    struct gs_error *err)
{
	struct lnx_types types = { 0 };
	struct btf *btf;
	enum gs_code rc = load(data, size, &btf, err);

	if (rc)
		return rc;
	read_percpu(btf, &types);
	read_counters(btf, false, &types);
	read_counters(btf, true, &types);
	rc = read_members(btf, &types, err);
	btf__free(btf);
	if (!rc)
		*types_out = types;
	return rc;
}

/* --- the same for those who ask by name: profiles --- */

static bool btf_size_of(void *priv, const char *in, uint32_t *size_out)
{
	const struct btf_type *type = find_struct(priv, in);

	if (type)
		*size_out = type->size;
	return type != NULL;
}

static bool btf_member_of(void *priv, const char *in, const char *path, struct lnx_field *field_out)
{
	const struct btf_type *type = find_struct(priv, in);

	return type && find_path(priv, type, path, strlen(path), field_out);
}

static bool btf_percpu_of(void *priv, const char *name, struct lnx_field *field_out)
{
	return find_percpu(priv, name, field_out);
}

static bool btf_enumerator_of(void *priv, const char *in, const char *name, uint32_t *value_out)
{
	const struct btf_type *type = find_enum(priv, in);
	uint32_t index;

	for (uint32_t i = 0; type && i < btf_vlen(type); i++) {
		const char *have = element_name(priv, type, i, &index);

		if (have && strcmp(have, name) == 0) {
			*value_out = index;
			return true;
		}
	}
	return false;
}

static void btf_close(void *priv)
{
	btf__free(priv);
}

enum gs_code lnx_layouts_open_btf(const void *blob, size_t size, struct lnx_layouts *layouts_out,
				  struct gs_error *err)
{
	static const struct lnx_layouts_ops ops = {
		.size = btf_size_of,
		.member = btf_member_of,
		.percpu = btf_percpu_of,
		.enumerator = btf_enumerator_of,
		.close = btf_close,
	};
	struct btf *btf;
	enum gs_code rc = load(blob, size, &btf, err);

	if (rc)
		return rc;
	layouts_out->priv = btf;
	layouts_out->ops = &ops;
	return GS_OK;
}
