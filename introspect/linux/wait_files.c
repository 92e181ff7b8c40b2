/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: locks of files, and files that wait queues belong to. */
#include "introspect/linux/hunt.h"

/* Descriptors of a process that are looked at, and how many of them at once. */
#define DESCRIPTORS_MAX 1024
#define BLOCK		64
/* A request may be blocked by another one that is blocked, and so on, until one that holds the lock. */
#define BLOCKERS_MAX 16
/* Namespaces of process ids in each other (MAX_PID_NS_LEVEL). */
#define SPACES_MAX 32
/* Levels of the tree of process ids: each has 6 bits of the number. */
#define LEVELS_MAX 8

/* include/linux/fs.h, include/linux/filelock.h: kinds of a file lock */
#define FL_POSIX UINT32_C(1)
#define FL_FLOCK UINT32_C(2)
#define FL_LEASE UINT32_C(32)

#define S_IFMT	0170000
#define S_IFIFO 0010000

#define FMODE_READ  UINT32_C(1)
#define FMODE_WRITE UINT32_C(2)

#define PIDTYPE_TGID 1 /* enum pid_type (include/linux/pid.h, 4.19 and later) */

/* --- descriptors --- */

typedef bool (*match_fn)(struct hunt *h, uint64_t file, void *arg);

/* The first open file of a task that matches. @return its descriptor, or -1 */
static int32_t find_open(struct hunt *h, gva_t task, match_fn match, void *arg)
{
	uint64_t files, table, array, file[BLOCK];
	uint32_t max;

	if (!hunt_has_all(h, LNX_M_TASK_FILES, LNX_M_FILE_INODE) || !hunt_may_search(h) ||
	    !hunt_member(h, task.a, LNX_M_TASK_FILES, &files) ||
	    !hunt_member(h, files, LNX_M_FILES_TABLE, &table) ||
	    !hunt_member_u32(h, table, LNX_M_TABLE_MAX, &max) ||
	    !hunt_member(h, table, LNX_M_TABLE_FILES, &array) || !lnx_is_object(h->v->k, array))
		return -1;
	max = (uint32_t)gs_min(max, DESCRIPTORS_MAX);
	for (uint32_t first = 0; first < max; first += BLOCK) {
		const uint32_t n = (uint32_t)gs_min(max - first, BLOCK);

		if (lnx_read(h->v, GVA(array + first * UINT64_C(8)), file, n * sizeof(file[0])))
			return -1;
		for (uint32_t i = 0; i < n; i++)
			if (file[i] && lnx_is_object(h->v->k, file[i]) && match(h, file[i], arg))
				return (int32_t)(first + i);
	}
	return -1;
}

static bool is_file(struct hunt *h, uint64_t file, void *arg)
{
	(void)h;
	return file == *(const uint64_t *)arg;
}

int32_t hunt_descriptor(struct hunt *h, uint64_t file)
{
	return find_open(h, h->task->address, is_file, &file);
}

/* --- what of a file a queue is --- */

static bool is_pipe_of(const struct hunt *h, uint64_t file, uint64_t pipe, uint32_t end)
{
	uint64_t inode, of_inode;
	uint32_t mode, open_for;

	return hunt_member_u32(h, file, LNX_M_FILE_MODE, &open_for) && (open_for & end) &&
	       hunt_member(h, file, LNX_M_FILE_INODE, &inode) &&
	       hunt_member_u32(h, inode, LNX_M_INODE_MODE, &mode) && (mode & S_IFMT) == S_IFIFO &&
	       hunt_member(h, inode, LNX_M_INODE_PIPE, &of_inode) && of_inode == pipe;
}

static bool is_released_by(const struct hunt *h, uint64_t file, const char *name)
{
	uint64_t ops, release;

	return hunt_member(h, file, LNX_M_FILE_OPS, &ops) &&
	       hunt_member(h, ops, LNX_M_OPS_RELEASE, &release) &&
	       hunt_is_function(h, release, name);
}

/*
 * Where the queues of files are: in what private_data points to, which leads back to the file, or else
 * is what the file's own operations say.
 */
static const struct {
	enum lnx_wait_kind kind;
	enum lnx_member queue;
	enum lnx_member back; /* the file; LNX_MEMBERS: none */
	uint32_t mode;	      /* of a pipe: of its end for those who wait there */
	const char *release;  /* NULL: it leads back, or is a pipe */
} queues[] = {
	{ LNX_WAIT_PIPE, LNX_M_PIPE_READERS, LNX_MEMBERS, FMODE_READ, NULL },
	{ LNX_WAIT_PIPE, LNX_M_PIPE_WRITERS, LNX_MEMBERS, FMODE_WRITE, NULL },
	{ LNX_WAIT_SOCKET, LNX_M_SOCKET_QUEUE, LNX_M_SOCKET_FILE, 0, NULL },
	{ LNX_WAIT_EPOLL, LNX_M_EPOLL_QUEUE, LNX_M_EPOLL_FILE, 0, NULL },
	{ LNX_WAIT_EVENTFD, LNX_M_EVENTFD_QUEUE, LNX_MEMBERS, 0, "eventfd_release" },
	{ LNX_WAIT_TIMERFD, LNX_M_TIMERFD_QUEUE, LNX_MEMBERS, 0, "timerfd_release" },
	{ LNX_WAIT_INOTIFY, LNX_M_NOTIFY_QUEUE, LNX_MEMBERS, 0, "inotify_release" },
};

/* Whether a file is what an element of the table says, with this in private_data. */
static bool is_of(const struct hunt *h, size_t i, uint64_t file, uint64_t data)
{
	uint64_t back;

	if (queues[i].release)
		return is_released_by(h, file, queues[i].release);
	if (queues[i].mode)
		return is_pipe_of(h, file, data, queues[i].mode);
	return hunt_has(h, queues[i].back) && hunt_member(h, data, queues[i].back, &back) &&
	       back == file;
}

enum lnx_wait_kind hunt_file_kind(const struct hunt *h, uint64_t file, uint64_t queue,
				  uint64_t *object_out)
{
	uint64_t data;

	*object_out = file;
	if (!hunt_has_all(h, LNX_M_FILE_INODE, LNX_M_INODE_PIPE) ||
	    !hunt_member(h, file, LNX_M_FILE_PRIVATE, &data))
		return LNX_WAIT_FILE;
	for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
		if (!hunt_has(h, queues[i].queue) ||
		    data + hunt_offset(h, queues[i].queue) != queue || !is_of(h, i, file, data))
			continue;
		*object_out = data;
		return queues[i].kind;
	}
	return LNX_WAIT_FILE;
}

struct wanted {
	uint64_t queue;
	uint64_t object;
	enum lnx_wait_kind kind;
};

static bool has_queue(struct hunt *h, uint64_t file, void *arg)
{
	struct wanted *w = arg;

	w->kind = hunt_file_kind(h, file, w->queue, &w->object);
	return w->kind != LNX_WAIT_FILE;
}

bool hunt_file(struct hunt *h, uint64_t queue)
{
	struct wanted w = { .queue = queue };
	/* kernel threads have the files of none */
	const int32_t fd =
		lnx_task_mm(h->task).a ? find_open(h, h->task->address, has_queue, &w) : -1;

	if (fd < 0)
		return false;
	hunt_add(h, w.kind, w.object, GVA(0), (uint64_t)fd);
	return true;
}

/* --- processes by their number --- */

/* An entry of a tree of numbers (include/linux/xarray.h); false: there is none. */
static bool tree_entry(const struct hunt *h, uint64_t root, uint32_t index, uint64_t *entry_out)
{
	uint64_t entry = root;

	for (uint32_t level = 0; level < LEVELS_MAX; level++) {
		uint8_t shift;

		if ((entry & 3) != 2) {
			*entry_out = entry;
			return level > 0 && lnx_is_object(h->v->k, entry);
		}
		const uint64_t node = entry - 2; /* xa_to_node() */
		if (!lnx_is_object(h->v->k, node) ||
		    lnx_read(h->v, GVA(node + hunt_offset(h, LNX_M_XA_SHIFT)), &shift, 1) ||
		    shift > 30 || (level == 0 && index >> shift > 63) ||
		    !hunt_remote(h,
				 node + hunt_offset(h, LNX_M_XA_SLOTS) +
					 (index >> shift & 63) * UINT64_C(8),
				 &entry))
			return false;
	}
	return false;
}

/* The namespace that all others are in, from the one that a child of this thread would be in. */
static bool first_space(const struct hunt *h, uint64_t *space_out)
{
	uint64_t proxy, parent;

	if (!hunt_member(h, h->task->address.a, LNX_M_TASK_NSPROXY, &proxy) ||
	    !hunt_member(h, proxy, LNX_M_NSPROXY_PID, space_out))
		return false;
	for (uint32_t i = 0; i <= SPACES_MAX; i++) {
		if (!hunt_member(h, *space_out, LNX_M_SPACE_PARENT, &parent))
			return false;
		if (!parent)
			return true;
		*space_out = parent;
	}
	return false;
}

/* The process with a number, as the first namespace has them: its first thread. */
static bool find_process(const struct hunt *h, uint32_t number, struct lnx_task *task_out)
{
	uint64_t pid, space, root, link;

	if (!hunt_has(h, LNX_M_NSPROXY_PID) ||
	    !hunt_has_all(h, LNX_M_TASK_NSPROXY, LNX_M_XA_SLOTS) || !first_space(h, &space) ||
	    !hunt_member(h, space, LNX_M_SPACE_PIDS, &root) || !tree_entry(h, root, number, &pid) ||
	    !hunt_remote(h, pid + hunt_offset(h, LNX_M_PID_TASKS) + PIDTYPE_TGID * 8, &link))
		return false;
	/* struct hlist_node has two words */
	const uint64_t task = link - hunt_offset(h, LNX_M_TASK_PID_LINKS) - PIDTYPE_TGID * 16;
	return lnx_is_object(h->v->k, task) && !lnx_task_read(h->v, GVA(task), task_out) &&
	       (uint32_t)task_out->tgid == number && task_out->pid == task_out->tgid;
}

/* --- file locks --- */

/* Whether a node is the head of what a lock blocks, or of a request on that list. */
static bool is_on_list_of(const struct hunt *h, uint64_t node, uint64_t blocker)
{
	uint64_t of;

	return node == blocker + hunt_offset(h, LNX_M_LOCK_REQUESTS) ||
	       (hunt_member(h, node - hunt_offset(h, LNX_M_LOCK_MEMBER), LNX_M_LOCK_BLOCKER, &of) &&
		of == blocker);
}

/* Whether a request is on the list of its blocker: so are its neighbours. Thousands may be. */
static bool is_blocked_by(const struct hunt *h, uint64_t lock, uint64_t blocker)
{
	const uint64_t node = lock + hunt_offset(h, LNX_M_LOCK_MEMBER);
	uint64_t next, prev;

	return lnx_is_object(h->v->k, blocker) && hunt_remote(h, node, &next) &&
	       hunt_remote(h, node + HUNT_PREV, &prev) && hunt_is_linked(h, node, next, prev) &&
	       is_on_list_of(h, next, blocker) && is_on_list_of(h, prev, blocker) &&
	       hunt_is_head(h, blocker + hunt_offset(h, LNX_M_LOCK_REQUESTS));
}

/* The inode that a lock is of; 0: it does not say, as requests that break a lease do not. */
static bool inode_of(const struct hunt *h, uint64_t lock, uint64_t *inode_out)
{
	uint64_t file;

	*inode_out = 0;
	return hunt_member(h, lock, LNX_M_LOCK_FILE, &file) &&
	       (!file || (hunt_member(h, file, LNX_M_FILE_INODE, inode_out) &&
			  lnx_is_object(h->v->k, *inode_out)));
}

/*
 * The lock at the end of what a request is blocked by, and the one before it. Requests of flock() queue up
 * one behind the other, in thousands maybe: then the way is too long.
 */
static bool follow_blockers(const struct hunt *h, uint64_t request, uint64_t *last_out,
			    uint64_t *lock_out)
{
	uint64_t blocker;

	*lock_out = request;
	for (uint32_t i = 0; i < BLOCKERS_MAX; i++) {
		if (!hunt_member(h, *lock_out, LNX_M_LOCK_BLOCKER, &blocker))
			return false;
		if (!blocker)
			return i > 0;
		*last_out = *lock_out;
		*lock_out = blocker;
	}
	return false;
}

/* A lock by flock() that is held: the first one that the file itself has on its list of these. */
static bool first_held(const struct hunt *h, uint64_t inode, uint64_t *lock_out)
{
	uint64_t context, node, blocker, of;

	if (!hunt_has_all(h, LNX_M_INODE_LOCKS, LNX_M_LOCK_LIST) ||
	    !hunt_member(h, inode, LNX_M_INODE_LOCKS, &context) ||
	    !lnx_is_object(h->v->k, context) ||
	    !hunt_is_head(h, context + hunt_offset(h, LNX_M_LOCKS_FLOCK)) ||
	    !hunt_member(h, context, LNX_M_LOCKS_FLOCK, &node))
		return false;
	*lock_out = node - hunt_offset(h, LNX_M_LOCK_LIST);
	return hunt_member(h, *lock_out, LNX_M_LOCK_BLOCKER, &blocker) && !blocker &&
	       inode_of(h, *lock_out, &of) && of == inode;
}

/*
 * The lock that a request waits for in the end, through others that wait for it, too: its own place and
 * that on the lock's list are proved.
 */
static bool holder_of(const struct hunt *h, uint64_t request, uint64_t *lock_out,
		      uint64_t *inode_out)
{
	uint64_t blocker, last, inode;
	uint32_t flags;

	if (!hunt_member(h, request, LNX_M_LOCK_BLOCKER, &blocker) ||
	    !is_blocked_by(h, request, blocker) || !inode_of(h, request, &inode))
		return false;
	if (follow_blockers(h, request, &last, lock_out))
		return is_blocked_by(h, last, *lock_out) && inode_of(h, *lock_out, inode_out) &&
		       *inode_out && (!inode || inode == *inode_out);
	*inode_out = inode;
	return inode && hunt_member_u32(h, request, LNX_M_LOCK_FLAGS, &flags) &&
	       (flags & FL_FLOCK) && first_held(h, inode, lock_out);
}

/*
 * The process that took a lock and still has it: one with its table of files, or with the open file. Its
 * number alone could be another's by now.
 */
static gva_t process_of(struct hunt *h, uint64_t lock, uint32_t flags)
{
	uint64_t owner, file, files;
	struct lnx_task t;
	uint32_t number;

	if (!hunt_member_u32(h, lock, LNX_M_LOCK_PID, &number) ||
	    !hunt_member(h, lock, LNX_M_LOCK_OWNER, &owner) ||
	    !hunt_member(h, lock, LNX_M_LOCK_FILE, &file) || !find_process(h, number, &t))
		return GVA(0);
	/* of fcntl(F_SETLK) the owner is the table, of all others the file */
	if ((flags & FL_POSIX) && owner != file) {
		if (hunt_has(h, LNX_M_TASK_FILES) &&
		    hunt_member(h, t.address.a, LNX_M_TASK_FILES, &files) && files == owner)
			return t.address;
		return GVA(0);
	}
	return find_open(h, t.address, is_file, &file) >= 0 ? t.address : GVA(0);
}

static const struct {
	uint32_t flag;
	enum lnx_wait_kind kind;
} lock_kinds[] = {
	{ FL_FLOCK, LNX_WAIT_FLOCK },
	{ FL_POSIX, LNX_WAIT_RECORD_LOCK },
	{ FL_LEASE, LNX_WAIT_LEASE },
};

bool hunt_file_lock(struct hunt *h, uint64_t queue)
{
	uint64_t lock, inode, number;
	uint32_t flags;

	if (!hunt_has_all(h, LNX_M_LOCK_BLOCKER, LNX_M_LOCK_FILE) ||
	    !hunt_has_all(h, LNX_M_FILE_INODE, LNX_M_INODE_NUMBER))
		return false;
	const uint64_t request = queue - hunt_offset(h, LNX_M_LOCK_WAIT);
	if (!lnx_is_object(h->v->k, request) || !holder_of(h, request, &lock, &inode) ||
	    !hunt_member_u32(h, lock, LNX_M_LOCK_FLAGS, &flags) ||
	    !hunt_member(h, inode, LNX_M_INODE_NUMBER, &number))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(lock_kinds); i++) {
		if (!(flags & lock_kinds[i].flag))
			continue;
		hunt_add(h, lock_kinds[i].kind, lock, process_of(h, lock, flags), number);
		return true;
	}
	return false;
}
