/* SPDX-License-Identifier: Apache-2.0 */
/* A finished capture read back into memory, for the views of it. */
#include "cli/report/capture_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/report/queues.h"
#include "cli/report/waits.h"
#include "introspect/linux/linux.h"
#include "introspect/linux/user.h"
#include "kcdata/compress.h"
#include "kcdata/kcdata.h"

/* --- bytes --- */

static enum gs_code open_code(int sys_errno)
{
	if (sys_errno == ENOENT || sys_errno == ENOTDIR)
		return GS_ENOENT;
	return sys_errno == EACCES || sys_errno == EPERM ? GS_EDENIED : GS_ESYS;
}

/* Grows as bytes arrive, so that a pipe works and no claimed size is believed. */
static enum gs_code read_bytes(const char *path, uint8_t **data_out, size_t *size_out,
			       struct gs_error *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	GS_CLOSE int opened = is_stdin ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	int fd = is_stdin ? STDIN_FILENO : opened;
	size_t size = 0, room = 1 << 20;
	GS_FREE uint8_t *data = malloc(room);

	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, open_code(e), e, "open %s", path);
	}
	while (data) {
		ssize_t n = read(fd, data + size, room - size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gs_fail_errno(err, GS_ESYS, errno, "read %s", path);
		if (n == 0) {
			*size_out = size;
			*data_out = GS_TAKE(data);
			return GS_OK;
		}
		size += (size_t)n;
		if (size < room)
			continue;
		if (room >= REP_FILE_MAX)
			return gs_fail(err, GS_ETOOBIG, "%s: over 4 GiB, no capture is that large",
				       path);
		uint8_t *more = realloc(data, room * 2);
		if (!more)
			break;
		data = more;
		room *= 2;
	}
	return gs_fail(err, GS_ENOSPC, "%s: out of memory", path);
}

/* --- growing arrays --- */

/* What an array of n elements has room for: a power of two, so that it need not be stored. */
static size_t room_for(size_t n)
{
	size_t room = 16;

	while (room < n)
		room *= 2;
	return room;
}

/* Room for @p more elements behind @p n. NULL: out of memory, or too many for one */
static void *grow(void *array, size_t n, size_t more, size_t elem)
{
	size_t bytes;

	if (more > SIZE_MAX / 4 - n || !gs_mul(room_for(n + more), elem, &bytes))
		return NULL;
	return array && room_for(n) == room_for(n + more) ? array : realloc(array, bytes);
}

struct loader {
	struct rep_capture *c;
	bool in_task, in_thread, out_of_memory;
};

#define APPEND(l, array, count, more)                                                              \
	({                                                                                         \
		void *grown_ = grow((l)->c->array, (l)->c->count, (more), sizeof(*(l)->c->array)); \
		__typeof__((l)->c->array) first_ = NULL;                                           \
		if (grown_) {                                                                      \
			(l)->c->array = grown_;                                                    \
			first_ = (l)->c->array + (l)->c->count;                                    \
			memset(first_, 0, (more) * sizeof(*first_));                               \
			(l)->c->count += (more);                                                   \
		} else {                                                                           \
			(l)->out_of_memory = true;                                                 \
		}                                                                                  \
		first_;                                                                            \
	})

/* A record's elements, into as many behind those of an array; each has the first @p size bytes from there. */
#define APPEND_ALL(l, array, counter, it, size)                                          \
	({                                                                               \
		__typeof__((l)->c->array) all_ = APPEND(l, array, counter, (it)->count); \
		for (uint32_t i_ = 0; all_ && i_ < (it)->count; i_++)                    \
			kcd_item_copy_elem(it, i_, &all_[i_], size);                     \
		all_;                                                                    \
	})

_Static_assert(!offsetof(struct rep_frame, address) && !offsetof(struct rep_user_frame, address) &&
		       !offsetof(struct rep_wait, record),
	       "what is copied comes first");

/* --- items --- */

static void copy_text(const struct kcd_item *it, char *out, size_t size)
{
	size_t n = gs_min(it->size, size - 1);

	if (n)
		memcpy(out, it->data, n);
	out[n] = '\0';
}

static char *take_text(struct loader *l, const struct kcd_item *it)
{
	char *text = strndup((const char *)it->data, it->size);

	if (!text)
		l->out_of_memory = true;
	return text;
}

static struct rep_task *last_task(struct loader *l)
{
	return l->in_task ? &l->c->tasks[l->c->task_count - 1] : NULL;
}

static struct rep_thread *last_thread(struct loader *l)
{
	return l->in_thread ? &l->c->threads[l->c->thread_count - 1] : NULL;
}

static void load_begin(struct loader *l, const struct kcd_item *it)
{
	if (it->container_type == KCD_SS_CONTAINER_TASK && !l->in_task) {
		struct rep_task *t = APPEND(l, tasks, task_count, 1);

		if (!t)
			return;
		t->id = it->container_id;
		t->pid = t->ppid = -1;
		t->first_thread = l->c->thread_count;
		t->first_mapping = l->c->mapping_count;
		t->first_runnable = l->c->runnable_count;
		t->first_waiting = l->c->waiting_count;
		l->in_task = true;
	} else if (it->container_type == KCD_SS_CONTAINER_THREAD && l->in_task && !l->in_thread) {
		struct rep_thread *t = APPEND(l, threads, thread_count, 1);

		if (!t)
			return;
		t->id = it->container_id;
		t->linux_facts.vcpu = -1;
		t->first_frame = l->c->frame_count;
		t->first_wait = l->c->wait_count;
		t->first_user_frame = l->c->user_frame_count;
		last_task(l)->thread_count++;
		l->in_thread = true;
	}
}

static void load_end(struct loader *l, const struct kcd_item *it)
{
	if (it->container_type == KCD_SS_CONTAINER_THREAD)
		l->in_thread = false;
	else if (it->container_type == KCD_SS_CONTAINER_TASK)
		l->in_task = l->in_thread = false;
}

static void load_process_context(struct loader *l, struct rep_task *t, const struct kcd_item *it)
{
	struct ss_process_context_record *r =
		t->context ? NULL : APPEND(l, contexts, context_count, 1);

	if (!r)
		return;
	kcd_item_copy(it, r, sizeof(*r));
	r->cgroup[sizeof(r->cgroup) - 1] = '\0';
	r->command[sizeof(r->command) - 1] = '\0';
	t->context = l->c->context_count;
}

static void load_task_record(struct loader *l, struct rep_task *t, const struct kcd_item *it)
{
	struct kcd_task_snapshot_v2 s = { 0 };

	if (it->type == KCD_SS_TASK_SNAPSHOT) {
		kcd_item_copy(it, &s, sizeof(s));
		t->pid = s.ts_pid;
		memcpy(t->comm, s.ts_p_comm, sizeof(s.ts_p_comm));
		t->has_facts = true;
	} else if (it->type == SS_RECORD_TASK) {
		kcd_item_copy(it, &t->linux_facts, sizeof(t->linux_facts));
		t->pid = t->linux_facts.pid;
		t->ppid = t->linux_facts.ppid;
		t->has_facts = true;
	} else if (it->type == SS_RECORD_PROCESS_CONTEXT) {
		load_process_context(l, t, it);
	}
}

static void load_thread_record(struct rep_thread *t, const struct kcd_item *it)
{
	if (it->type == KCD_SS_THREAD_SNAPSHOT) {
		kcd_item_copy(it, &t->stock, sizeof(t->stock));
	} else if (it->type == SS_RECORD_THREAD) {
		kcd_item_copy(it, &t->linux_facts, sizeof(t->linux_facts));
		t->has_linux = true;
	} else if (it->type == SS_RECORD_USER_STACK) {
		kcd_item_copy(it, &t->user, sizeof(t->user));
		t->has_user = true;
	} else if (it->type == SS_RECORD_THREAD_CONTEXT) {
		kcd_item_copy(it, &t->context, sizeof(t->context));
		t->has_context = true;
	} else if (it->type == KCD_SS_THREAD_NAME) {
		copy_text(it, t->comm, sizeof(t->comm));
	}
}

/* Values with a name, of the request and of what came of it. */
static void load_value(struct rep_capture *c, const struct kcd_item *it)
{
	const char *name;
	uint64_t value;

	if (kcd_item_value(it, &name, &value) && strcmp(name, "stackshot_in_pid") == 0)
		c->only_pid = (int32_t)value;
	else if (kcd_item_value(it, &name, &value) && strcmp(name, "stackshot_out_flags") == 0)
		c->has_waits = value & KCD_SS_REQ_THREAD_WAITINFO;
}

static void load_record(struct loader *l, const struct kcd_item *it)
{
	struct rep_capture *c = l->c;
	struct rep_thread *thread = last_thread(l);
	struct rep_task *task = last_task(l);

	if (thread) {
		load_thread_record(thread, it);
	} else if (task) {
		load_task_record(l, task, it);
	} else if (it->type == KCD_SS_OSVERSION && !c->banner) {
		c->banner = take_text(l, it);
	} else if (it->type == KCD_SS_OS_BUILD_VERSION && !c->release) {
		c->release = take_text(l, it);
	} else if (it->type == KCD_TYPE_MACH_ABSOLUTE_TIME) {
		kcd_item_copy(it, &c->start_ns, sizeof(c->start_ns));
	} else if (it->type == KCD_SS_DELTA_SINCE_TIMESTAMP) {
		kcd_item_copy(it, &c->since_ns, sizeof(c->since_ns));
	} else if (it->type == KCD_TYPE_USECS_SINCE_EPOCH) {
		kcd_item_copy(it, &c->wall_us, sizeof(c->wall_us));
	} else if (it->type == KCD_SS_DURATION) {
		kcd_item_copy(it, &c->duration, sizeof(c->duration));
	} else if (it->type == SS_RECORD_GUEST) {
		kcd_item_copy(it, &c->guest, sizeof(c->guest));
		c->has_guest = true;
	} else if (it->type == SS_RECORD_SYSTEM) {
		kcd_item_copy(it, &c->system, sizeof(c->system));
		c->system.panic[sizeof(c->system.panic) - 1] = '\0';
		c->has_system = true;
	} else if (it->type == SS_RECORD_TIMES) {
		kcd_item_copy(it, &c->times, sizeof(c->times));
	} else if (it->type == SS_RECORD_REASON) {
		kcd_item_copy(it, &c->reason, sizeof(c->reason));
		c->reason.text[sizeof(c->reason.text) - 1] = '\0';
	} else {
		load_value(c, it);
	}
}

/*
 * Frames of both widths, and those with stack pointers that old files have: the address comes
 * first.
 */
static void load_frames(struct loader *l, struct rep_thread *t, const struct kcd_item *it)
{
	size_t width =
		it->elem_type == KCD_SS_KERN_STACKLR || it->elem_type == KCD_SS_KERN_STACKFRAME ? 4
												: 8;

	if (APPEND_ALL(l, frames, frame_count, it, width))
		t->frame_count += it->count;
}

static void load_user_frames(struct loader *l, struct rep_thread *t, const struct kcd_item *it)
{
	if (APPEND_ALL(l, user_frames, user_frame_count, it, sizeof(uint64_t)))
		t->user_frame_count += it->count;
}

static void load_mappings(struct loader *l, struct rep_task *task, const struct kcd_item *it)
{
	struct ss_mapping_record *m = APPEND_ALL(l, mappings, mapping_count, it, sizeof(*m));

	for (uint32_t i = 0; m && i < it->count; i++) {
		m[i].file[sizeof(m[i].file) - 1] = '\0';
		if (m[i].build_id_size > sizeof(m[i].build_id))
			m[i].build_id_size = 0; /* a later form of it */
	}
	if (m)
		task->mapping_count += it->count;
}

static void load_frame_kinds(struct loader *l, struct rep_thread *t, const struct kcd_item *it)
{
	for (uint32_t i = 0; i < it->count; i++) {
		struct ss_frame_kind_record r = { 0 };

		kcd_item_copy_elem(it, i, &r, sizeof(r));
		if (r.index >= t->frame_count)
			continue;
		l->c->frames[t->first_frame + r.index].kind = r.kind;
		l->c->frames[t->first_frame + r.index].doubt = r.doubt;
	}
}

static void load_waits(struct loader *l, struct rep_thread *t, const struct kcd_item *it)
{
	if (APPEND_ALL(l, waits, wait_count, it, sizeof(struct ss_wait_record)))
		t->wait_count += it->count;
}

static void load_symbols(struct loader *l, const struct kcd_item *it)
{
	struct rep_symbol *s = APPEND(l, symbols, symbol_count, it->count);

	for (uint32_t i = 0; s && i < it->count; i++) {
		struct ss_long_symbol_record r = { 0 };

		kcd_item_copy_elem(it, i, &r, sizeof(r)); /* the short record is its beginning */
		r.name[sizeof(r.name) - 1] = '\0';
		s[i] = (struct rep_symbol){ r.start, r.size, r.flags, strdup(r.name) };
		if (!s[i].name)
			l->out_of_memory = true;
	}
}

static void load_modules(struct loader *l, const struct kcd_item *it)
{
	struct ss_module_record *m = APPEND_ALL(l, modules, module_count, it, sizeof(*m));

	for (uint32_t i = 0; m && i < it->count; i++)
		m[i].name[sizeof(m[i].name) - 1] = '\0';
}

static void load_vcpus(struct loader *l, const struct kcd_item *it)
{
	(void)APPEND_ALL(l, vcpus, vcpu_count, it, sizeof(struct ss_vcpu_record));
}

static void load_missing(struct loader *l, const struct kcd_item *it)
{
	struct ss_missing_record *m = APPEND_ALL(l, missing, missing_count, it, sizeof(*m));

	for (uint32_t i = 0; m && i < it->count; i++)
		m[i].reason[sizeof(m[i].reason) - 1] = '\0';
}

static void load_log(struct loader *l, const struct kcd_item *it)
{
	struct ss_log_record *line = APPEND_ALL(l, log, log_count, it, sizeof(*line));

	for (uint32_t i = 0; line && i < it->count; i++)
		line[i].text[sizeof(line[i].text) - 1] = '\0';
}

static void load_console(struct loader *l, const struct kcd_item *it)
{
	struct ss_console_record *line = APPEND_ALL(l, console, console_count, it, sizeof(*line));

	for (uint32_t i = 0; line && i < it->count; i++)
		line[i].text[sizeof(line[i].text) - 1] = '\0';
}

/* Threads of a task that are as they were. A task has them one behind another: none is inside of it. */
static void load_still_runnable(struct loader *l, struct rep_task *task, const struct kcd_item *it)
{
	if (APPEND_ALL(l, still_runnable, runnable_count, it,
		       sizeof(struct kcd_thread_delta_snapshot_v3)))
		task->runnable_count += it->count;
}

static void load_still_waiting(struct loader *l, struct rep_task *task, const struct kcd_item *it)
{
	if (APPEND_ALL(l, still_waiting, waiting_count, it, sizeof(uint64_t)))
		task->waiting_count += it->count;
}

static void load_still_tasks(struct loader *l, const struct kcd_item *it)
{
	(void)APPEND_ALL(l, still_tasks, still_task_count, it, sizeof(uint64_t));
}

/*
 * Bytes of an element of the first version of a type; later ones only have more. With shorter ones a
 * file could make us hold hundreds of times what it has.
 */
static size_t least_element(uint32_t type)
{
	switch (type) {
	case KCD_SS_KERN_STACKLR:
	case KCD_SS_KERN_STACKFRAME: return 4;
	case KCD_SS_KERN_STACKLR64:
	case KCD_SS_USER_STACKLR64:
	case KCD_SS_KERN_STACKFRAME64: return 8;
	case SS_RECORD_FRAME_KIND: return offsetof(struct ss_frame_kind_record, doubt);
	case SS_RECORD_MAPPING: return offsetof(struct ss_mapping_record, build_id_size);
	case SS_RECORD_SYMBOL:
	case SS_RECORD_LONG_SYMBOL: return sizeof(struct ss_symbol_record);
	case SS_RECORD_MODULE: return sizeof(struct ss_module_record);
	case SS_RECORD_VCPU: return sizeof(struct ss_vcpu_record);
	case SS_RECORD_WAIT: return offsetof(struct ss_wait_record, device);
	case SS_RECORD_MISSING: return sizeof(struct ss_missing_record);
	case SS_RECORD_LOG: return sizeof(struct ss_log_record);
	case SS_RECORD_CONSOLE: return sizeof(struct ss_console_record);
	case KCD_SS_THREAD_DELTA_SNAPSHOT: return KCD_SS_THREAD_DELTA_V2_SIZE;
	case KCD_SS_NONRUNNABLE_TIDS:
	case KCD_SS_NONRUNNABLE_TASKS: return sizeof(uint64_t);
	default: return 0;
	}
}

static bool is_array_good(struct rep_capture *c, const struct kcd_item *it)
{
	if (!it->count || it->elem_size >= least_element(it->elem_type))
		return true;
	c->damaged = true;
	snprintf(c->damage, sizeof(c->damage),
		 "the file is damaged at offset %zu, record %" PRIu64 ": elements of type %#" PRIx32
		 " with %" PRIu32 " bytes instead of %zu",
		 it->offset, it->record, it->elem_type, it->elem_size,
		 least_element(it->elem_type));
	return false;
}

static void load_thread_array(struct loader *l, struct rep_thread *thread,
			      const struct kcd_item *it)
{
	switch (it->elem_type) {
	case KCD_SS_KERN_STACKLR:
	case KCD_SS_KERN_STACKLR64:
	case KCD_SS_KERN_STACKFRAME:
	case KCD_SS_KERN_STACKFRAME64: load_frames(l, thread, it); break;
	case KCD_SS_USER_STACKLR64: load_user_frames(l, thread, it); break;
	case SS_RECORD_FRAME_KIND: load_frame_kinds(l, thread, it); break;
	case SS_RECORD_WAIT: load_waits(l, thread, it); break;
	default: break;
	}
}

static void load_task_array(struct loader *l, struct rep_task *task, const struct kcd_item *it)
{
	if (it->elem_type == KCD_SS_THREAD_DELTA_SNAPSHOT)
		load_still_runnable(l, task, it);
	else if (it->elem_type == KCD_SS_NONRUNNABLE_TIDS)
		load_still_waiting(l, task, it);
	else if (it->elem_type == SS_RECORD_MAPPING)
		load_mappings(l, task, it);
}

static void load_array(struct loader *l, const struct kcd_item *it)
{
	struct rep_thread *thread = last_thread(l);
	struct rep_task *task = last_task(l);

	if (!is_array_good(l->c, it))
		return;
	switch (it->elem_type) {
	case SS_RECORD_SYMBOL:
	case SS_RECORD_LONG_SYMBOL: load_symbols(l, it); return;
	case SS_RECORD_MODULE: load_modules(l, it); return;
	case SS_RECORD_VCPU: load_vcpus(l, it); return;
	case SS_RECORD_MISSING: load_missing(l, it); return;
	case SS_RECORD_LOG: load_log(l, it); return;
	case SS_RECORD_CONSOLE: load_console(l, it); return;
	case KCD_SS_NONRUNNABLE_TASKS: load_still_tasks(l, it); return;
	default: break;
	}
	if (thread)
		load_thread_array(l, thread, it);
	else if (task)
		load_task_array(l, task, it);
}

static void load_item(struct loader *l, const struct kcd_item *it)
{
	switch (it->kind) {
	case KCD_ITEM_RECORD: load_record(l, it); break;
	case KCD_ITEM_ARRAY: load_array(l, it); break;
	case KCD_ITEM_CONTAINER_BEGIN: load_begin(l, it); break;
	case KCD_ITEM_CONTAINER_END: load_end(l, it); break;
	case KCD_ITEM_TYPEDEF: break; /* ours are known, others are not shown here */
	}
}

/* --- symbols and modules --- */

/* What both begin with. */
struct range {
	uint64_t start, size;
};

_Static_assert(offsetof(struct rep_symbol, start) == 0 && offsetof(struct rep_symbol, size) == 8 &&
		       offsetof(struct ss_module_record, start) == 0 &&
		       offsetof(struct ss_module_record, size) == 8,
	       "symbols and modules begin as ranges");

static struct range range_of(const void *element)
{
	struct range r;

	memcpy(&r, element, sizeof(r));
	return r;
}

static int compare_starts(const void *a, const void *b)
{
	uint64_t x = range_of(a).start, y = range_of(b).start;

	return (x > y) - (x < y);
}

/* The last element that begins at or below an address, if it covers that; NULL: none. */
static const void *element_at(const void *array, size_t count, size_t size, uint64_t address)
{
	const uint8_t *element = array;
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (range_of(element + mid * size).start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return NULL;
	element += (lo - 1) * size;
	return address - range_of(element).start < range_of(element).size ? element : NULL;
}

const struct rep_symbol *rep_symbol_at(const struct rep_capture *c, uint64_t address)
{
	return element_at(c->symbols, c->symbol_count, sizeof(*c->symbols), address);
}

static void sort_names(struct rep_capture *c)
{
	if (c->symbol_count)
		qsort(c->symbols, c->symbol_count, sizeof(*c->symbols), compare_starts);
	if (c->module_count)
		qsort(c->modules, c->module_count, sizeof(*c->modules), compare_starts);
}

void rep_capture_name_frames(struct rep_capture *c)
{
	for (size_t i = 0; i < c->frame_count; i++) {
		struct rep_frame *f = &c->frames[i];
		/*
		 * a call that never returns may be its function's last instruction: look before it
		 */
		uint64_t at = lnx_frame_is_exact(f->kind) ? f->address : f->address - 1;
		const struct ss_module_record *m =
			element_at(c->modules, c->module_count, sizeof(*c->modules), at);

		f->symbol = rep_symbol_at(c, at);
		f->module = m ? m->name : NULL;
	}
}

/* --- files of user frames --- */

static int compare_mappings(const void *a, const void *b)
{
	const struct ss_mapping_record *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* From 1; 0: none. */
static size_t mapping_at(const struct rep_capture *c, const struct rep_task *t, uint64_t address)
{
	size_t lo = t->first_mapping, hi = lo + t->mapping_count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->mappings[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > t->first_mapping && address < c->mappings[lo - 1].end ? lo : 0;
}

static void find_mappings(struct rep_capture *c)
{
	for (size_t i = 0; i < c->task_count; i++) {
		const struct rep_task *t = &c->tasks[i];

		if (!t->mapping_count)
			continue;
		qsort(c->mappings + t->first_mapping, t->mapping_count, sizeof(*c->mappings),
		      compare_mappings);
		for (uint32_t k = 0; k < t->thread_count; k++) {
			const struct rep_thread *th = &c->threads[t->first_thread + k];

			for (uint32_t n = 0; n < th->user_frame_count; n++) {
				struct rep_user_frame *f =
					&c->user_frames[th->first_user_frame + n];

				/* of a return address the call before it */
				f->mapping = mapping_at(c, t, f->address - (n > 0));
			}
		}
	}
}

const struct ss_mapping_record *rep_user_frame_file(const struct rep_capture *c,
						    const struct rep_user_frame *f)
{
	const struct ss_mapping_record *m = f->mapping ? &c->mappings[f->mapping - 1] : NULL;

	return m && m->file[0] ? m : NULL;
}

/* --- all of it --- */

static void find_init(struct rep_capture *c)
{
	for (size_t i = 0; i < c->task_count; i++)
		if (c->tasks[i].pid == 1) {
			c->init_context = c->tasks[i].context;
			return;
		}
}

static enum gs_code load(struct loader *l, const char *path, const uint8_t *data, size_t size,
			 struct gs_error *err)
{
	struct kcd_reader r;
	struct kcd_error why = { 0 };
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&r, data, size, KCD_TOLERANT, &why);

	if (rc)
		return gs_fail(err, GS_EMALFORMED, "%s: %s", path, why.reason);
	if (r.magic != KCD_MAGIC_STACKSHOT && r.magic != KCD_MAGIC_DELTA_STACKSHOT)
		return gs_fail(err, GS_EMALFORMED, "%s: a kcdata file, but no stackshot", path);
	l->c->only_pid = -1;
	l->c->is_delta = r.magic == KCD_MAGIC_DELTA_STACKSHOT;
	while (!l->out_of_memory && !l->c->damaged && !(rc = kcd_reader_next(&r, &it)))
		load_item(l, &it);
	if (l->out_of_memory)
		return gs_fail(err, GS_ENOSPC, "%s: out of memory", path);
	if (rc && rc != KCD_DONE) {
		l->c->damaged = true;
		snprintf(l->c->damage, sizeof(l->c->damage),
			 "the file is damaged at offset %zu, record %" PRIu64 ": %s", why.offset,
			 why.record, why.reason);
	}
	sort_names(l->c);
	rep_capture_name_frames(l->c);
	find_init(l->c);
	find_mappings(l->c);
	return rep_queues_resolve(l->c) && rep_waits_resolve(l->c)
		       ? GS_OK
		       : gs_fail(err, GS_ENOSPC, "%s: out of memory", path);
}

/* A compressed capture, or as much of it as is sound, becomes a plain one. */
static void inflate(uint8_t **data, size_t *size, char *damage, size_t damage_size)
{
	struct kcd_error why = { 0 };
	uint8_t *plain = NULL;
	size_t plain_size = 0;
	enum kcd_code rc =
		kcd_inflate(*data, *size, NULL, KCD_INFLATE_SALVAGE, &plain, &plain_size, &why);

	if (rc == KCD_EINVAL) /* not compressed */
		return;
	if (rc)
		snprintf(damage, damage_size, "the compressed file is damaged: %s", why.reason);
	if (!plain)
		return; /* the reader says what is wrong with it */
	free(*data);
	*data = plain;
	*size = plain_size;
}

enum gs_code rep_stream_read(const char *path, uint8_t **data_out, size_t *size_out,
			     struct gs_error *err)
{
	GS_FREE uint8_t *data = NULL;
	size_t size = 0;
	char damage[GS_ERROR_TEXT_MAX] = "";
	enum gs_code rc = read_bytes(path, &data, &size, err);

	if (rc)
		return rc;
	inflate(&data, &size, damage, sizeof(damage));
	if (*damage)
		return gs_fail(err, GS_EMALFORMED, "%s: %s", path, damage);
	*data_out = GS_TAKE(data);
	*size_out = size;
	return GS_OK;
}

enum gs_code rep_capture_parse(const char *name, const void *data, size_t size,
			       struct rep_capture *out, struct gs_error *err)
{
	struct loader l = { .c = out };

	*out = (struct rep_capture){ 0 };
	enum gs_code rc = load(&l, name, data, size, err);
	if (rc)
		rep_capture_deinit(out);
	return rc;
}

enum gs_code rep_capture_read(const char *path, struct rep_capture *out, struct gs_error *err)
{
	GS_FREE uint8_t *data = NULL;
	size_t size = 0;
	char damage[sizeof(out->damage)] = "";
	enum gs_code rc = read_bytes(path, &data, &size, err);

	*out = (struct rep_capture){ 0 };
	if (rc)
		return rc;
	inflate(&data, &size, damage, sizeof(damage));
	rc = rep_capture_parse(path, data, size, out, err);
	if (rc)
		return rc;
	if (damage[0]) {
		out->damaged = true;
		memcpy(out->damage, damage, sizeof(damage));
	}
	return GS_OK;
}

void rep_capture_deinit(struct rep_capture *c)
{
	for (size_t i = 0; i < c->symbol_count; i++)
		free(c->symbols[i].name);
	free(c->banner);
	free(c->release);
	free(c->vcpus);
	free(c->tasks);
	free(c->threads);
	free(c->frames);
	free(c->user_frames);
	free(c->mappings);
	free(c->symbols);
	free(c->modules);
	free(c->missing);
	free(c->waits);
	free(c->log);
	free(c->contexts);
	free(c->console);
	free(c->still_runnable);
	free(c->still_waiting);
	free(c->still_tasks);
	*c = (struct rep_capture){ 0 };
}

struct rep_totals rep_capture_totals(const struct rep_capture *c)
{
	struct rep_totals sum = { 0 };

	for (size_t i = 0; i < c->task_count; i++) {
		if (c->tasks[i].pid == 0)
			continue;
		sum.processes++;
		sum.threads += c->tasks[i].thread_count;
	}
	return sum;
}

/* --- words --- */

const char *rep_state_text(char letter)
{
	switch (letter) {
	case 'R': return "running";
	case 'S': return "sleeping";
	case 'D': return "disk sleep";
	case 'T': return "stopped";
	case 't': return "tracing stop";
	case 'Z': return "zombie";
	case 'X': return "dead";
	case 'P': return "parked";
	case 'I': return "idle";
	default: return "unknown state";
	}
}

static const char *name_of(const char *const *names, size_t count, uint32_t i)
{
	return i < count && names[i] ? names[i] : "unknown";
}

const char *rep_vcpu_state_name(uint32_t state)
{
	static const char *const names[] = {
		[SS_VCPU_KERNEL] = "kernel",
		[SS_VCPU_USER] = "user",
		[SS_VCPU_OFF] = "off",
		[SS_VCPU_IDLE] = "idle",
	};

	return name_of(names, ARRAY_SIZE(names), state);
}

const char *rep_missing_name(uint32_t what)
{
	static const char *const names[] = {
		[SS_MISSING_KERNEL] = "kernel",	  [SS_MISSING_TASKS] = "tasks",
		[SS_MISSING_THREADS] = "threads", [SS_MISSING_TASK] = "task",
		[SS_MISSING_STACK] = "stack",	  [SS_MISSING_CURRENT] = "current",
		[SS_MISSING_IDLE] = "idle",	  [SS_MISSING_MORE] = "more",
		[SS_MISSING_LATE] = "late",	  [SS_MISSING_ROOM] = "room",
		[SS_MISSING_ASID] = "asid",	  [SS_MISSING_PAGE_TABLES] = "page-tables",
		[SS_MISSING_LOG] = "log",
	};

	return name_of(names, ARRAY_SIZE(names), what);
}

const char *rep_frame_kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[LNX_FRAME_RETURN] = "return",
		[LNX_FRAME_PC] = "pc",
		[LNX_FRAME_LR] = "lr",
		[LNX_FRAME_INTERRUPTED] = "interrupted",
	};

	return name_of(names, ARRAY_SIZE(names), kind);
}

const char *rep_doubt_name(uint32_t doubt)
{
	return doubt < LNX_DOUBTS ? lnx_doubt_name((enum lnx_doubt)doubt) : "unknown";
}

const char *rep_stack_end_name(uint32_t end)
{
	return end < LNX_ENDS ? lnx_unwind_end_name((enum lnx_unwind_end)end) : "unknown";
}

const char *rep_user_end_name(uint32_t end)
{
	return end < LNX_USER_ENDS ? lnx_user_end_name((enum lnx_user_end)end) : "unknown";
}
