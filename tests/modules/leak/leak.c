// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// A module of the test guest that leaks: objects are allocated at three places, and of those of one place one in
// 50 is never freed. It says itself how many there were (tests/guest/README.md).
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#define LEAK_ONE_IN 50
#define LIVE	    32 // objects that wait to be freed, so that another CPU may do that

enum site { SITE_REQUEST, SITE_REPLY, SITE_NOTE, SITES };

struct object {
	struct list_head link;
	enum site site;
	char payload[100];
};

static const char *const site_name[SITES] = { "leak_request", "leak_reply", "leak_note" };

static struct kmem_cache *cache;
static atomic_long_t allocated[SITES], freed[SITES], leaked[SITES];

static DEFINE_SPINLOCK(lock); // of what follows
static LIST_HEAD(live);	      // oldest first
static unsigned int live_count;
static LIST_HEAD(kept); // what was leaked: only the end of the module frees it

static noinline struct object *filled(struct object *o, enum site site)
{
	if (!o)
		return NULL;
	o->site = site;
	atomic_long_inc(&allocated[site]);
	return o;
}

// The places: not inlined, so that each is a frame of its own.
static noinline struct object *leak_request(void)
{
	return filled(kmem_cache_alloc(cache, GFP_KERNEL), SITE_REQUEST);
}

static noinline struct object *leak_reply(void)
{
	return filled(kmem_cache_alloc(cache, GFP_KERNEL), SITE_REPLY);
}

static noinline struct object *leak_note(void)
{
	return filled(kmem_cache_alloc(cache, GFP_KERNEL), SITE_NOTE);
}

static void object_free(struct object *o)
{
	atomic_long_inc(&freed[o->site]);
	kmem_cache_free(cache, o);
}

// Put an object behind the others; the oldest one goes if there are enough.
static void object_put(struct object *o)
{
	struct object *oldest = NULL;

	spin_lock(&lock);
	list_add_tail(&o->link, &live);
	if (++live_count > LIVE) {
		oldest = list_first_entry(&live, struct object, link);
		list_del(&oldest->link);
		live_count--;
	}
	spin_unlock(&lock);
	if (oldest)
		object_free(oldest);
}

static void object_leak(struct object *o)
{
	atomic_long_inc(&leaked[o->site]);
	spin_lock(&lock);
	list_add_tail(&o->link, &kept);
	spin_unlock(&lock);
}

static void objects_free(struct list_head *objects)
{
	struct object *o, *next;
	LIST_HEAD(all);

	spin_lock(&lock);
	list_splice_init(objects, &all);
	if (objects == &live)
		live_count = 0;
	spin_unlock(&lock);
	list_for_each_entry_safe(o, next, &all, link)
	{
		object_free(o);
	}
}

// Any number of processes may do this at once, each for its own objects.
static noinline int leak_round(unsigned long i)
{
	struct object *request = leak_request(), *reply = leak_reply(), *note = leak_note();

	if (reply)
		object_put(reply);
	if (note)
		object_put(note);
	if (request && i % LEAK_ONE_IN == LEAK_ONE_IN - 1)
		object_leak(request);
	else if (request)
		object_put(request);
	return request && reply && note ? 0 : -ENOMEM;
}

// A number is written: so many rounds, an object from each place in each.
static ssize_t rounds_write(struct file *file, const char __user *text, size_t size, loff_t *at)
{
	unsigned long rounds;
	int rc = kstrtoul_from_user(text, size, 0, &rounds);

	for (unsigned long i = 0; !rc && i < rounds; i++)
		rc = leak_round(i);
	objects_free(&live);
	return rc ? rc : size;
}

// A line for each place: what it is called, objects allocated, freed, leaked.
static int rounds_show(struct seq_file *to, void *unused)
{
	for (int i = 0; i < SITES; i++)
		seq_printf(to, "%s %ld %ld %ld\n", site_name[i], atomic_long_read(&allocated[i]),
			   atomic_long_read(&freed[i]), atomic_long_read(&leaked[i]));
	return 0;
}

static int rounds_open(struct inode *inode, struct file *file)
{
	return single_open(file, rounds_show, NULL);
}

static const struct proc_ops rounds_ops = {
	.proc_open = rounds_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = rounds_write,
};

static int __init leak_init(void)
{
	cache = kmem_cache_create("leak", sizeof(struct object), 0, 0, NULL);
	if (!cache)
		return -ENOMEM;
	if (proc_create("leak", 0600, NULL, &rounds_ops))
		return 0;
	kmem_cache_destroy(cache);
	return -ENOMEM;
}

static void __exit leak_exit(void)
{
	remove_proc_entry("leak", NULL);
	objects_free(&live);
	objects_free(&kept);
	kmem_cache_destroy(cache);
}

module_init(leak_init);
module_exit(leak_exit);
MODULE_DESCRIPTION("leaks one object in 50, for guestshot's tests");
MODULE_LICENSE("GPL");
