/* SPDX-License-Identifier: Apache-2.0 */
/* What lies where in the kernel: parts of its text, types, banner, what is read of a task. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/finder.h"

/* Banners and other strings that merely look like one. */
#define BANNER_PREFIX "Linux version "
#define TYPES_MAX     64

static struct lnx_range range_of(struct lnx_kernel *k, const char *start, const char *end)
{
	struct lnx_range r;

	if (kallsyms_find(&k->ks, start, &r.start) || kallsyms_find(&k->ks, end, &r.end) ||
	    r.end < r.start)
		return (struct lnx_range){ 0 };
	return r;
}

/* From a symbol to the next one. */
static struct lnx_range function(struct lnx_kernel *k, const char *name)
{
	uint64_t start;

	if (kallsyms_find(&k->ks, name, &start))
		return (struct lnx_range){ 0 };
	uint32_t next = kallsyms_upper_bound(&k->ks, start);
	return (struct lnx_range){ start, next < k->ks.n ? k->ks.address[next] : start };
}

static void find_entries(struct lnx_kernel *k)
{
	static const char
		*const
			names[] = {
				"el1h_64_sync",	 "el1h_64_irq",
				"el1h_64_fiq",	 "el1h_64_error", /* 5.14 and later */
				"el1t_64_sync",	 "el1t_64_irq",
				"el1t_64_fiq",	 "el1t_64_error",
				"el1_sync",	 "el1_irq",
				"el1_fiq",	 "el1_error",
				"ret_to_kernel", /* the way out, apart from the way in since 5.14 */
			};
	_Static_assert(ARRAY_SIZE(names) <= LNX_ENTRIES_MAX, "room for all entries");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct lnx_range r = function(k, names[i]);

		if (r.end != r.start)
			k->el1_entry[k->el1_entries++] = r;
	}
	k->graph_trampoline = function(k, "return_to_handler").start;
	k->probe_trampoline = function(k, "__kretprobe_trampoline").start;
	if (!k->probe_trampoline) /* up to 5.14 */
		k->probe_trampoline = function(k, "kretprobe_trampoline").start;
	k->switch_to = function(k, "cpu_switch_to");
	k->ret_from_fork = function(k, "ret_from_fork");
	k->efi_wrapper = function(k, "__efi_rt_asm_wrapper");
	k->efi_recover = function(k, "__efi_rt_asm_recover"); /* since 6.2 */
}

static enum gs_code find_text(struct lnx_finder *f)
{
	struct lnx_kernel *k = f->k;

	k->text = range_of(k, "_stext", "_etext");
	k->init_text = range_of(k, "_sinittext", "_einittext");
	k->sched_text = range_of(k, "__sched_text_start", "__sched_text_end");
	k->lock_text = range_of(k, "__lock_text_start", "__lock_text_end");
	k->entry_text = range_of(k, "__entry_text_start", "__entry_text_end");
	if (kallsyms_find(&k->ks, "vectors", &k->vectors))
		k->vectors = 0;
	if (!k->text.end || !k->init_text.end)
		return gs_fail(f->err, GS_EMALFORMED,
			       "the symbol table lacks the ends of the kernel's text");
	find_entries(k);
	if (guest_read(f->g, k->proof_pa, k->proof, sizeof(k->proof)))
		return gs_fail(f->err, GS_EFAULT, "the symbol table became unreadable");
	return GS_OK;
}

/*
 * --- types and banner: both in the read-only data between text and init text
 * ----------------------
 */

bool lnx_is_banner(const char *s)
{
	size_t n = strlen(BANNER_PREFIX);

	return strncmp(s, BANNER_PREFIX, n) == 0 && s[n] >= '0' && s[n] <= '9';
}

void lnx_banner_take(const char *s, size_t len, char *banner_out)
{
	len = strnlen(s, gs_min(len, LNX_BANNER_MAX - 1));
	memcpy(banner_out, s, len);
	banner_out[len] = '\0';
	banner_out[strcspn(banner_out, "\n")] = '\0';
}

static void take_banner(struct lnx_kernel *k, const char *s, size_t len)
{
	lnx_banner_take(s, len, k->banner);

	const char *release = k->banner + strlen(BANNER_PREFIX);
	size_t n = gs_min(strcspn(release, " "), sizeof(k->release) - 1);
	memcpy(k->release, release, n);
	k->release[n] = '\0';
}

static enum gs_code read_types(struct lnx_finder *f, gpa_t at, size_t size)
{
	uint8_t *blob = malloc(size);

	if (!blob)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for %zu bytes of type information",
			       size);
	enum gs_code rc = guest_read(f->g, at, blob, size);
	if (rc)
		(void)gs_fail(f->err, rc, "the kernel's type information reaches out of RAM");
	else
		rc = lnx_types_read(blob, size, &f->k->types, f->err);
	free(blob);
	return rc;
}

struct rodata_scan {
	struct lnx_data_search data;
	bool types, banner;
	uint32_t tried;	       /* headers that may be those of the types */
	enum gs_code types_rc; /* of the last one */
};

struct lnx_range lnx_rodata(const struct lnx_kernel *k)
{
	return (struct lnx_range){ k->text.end - k->voffset, k->init_text.start - k->voffset };
}

static bool look_at_chunk(struct lnx_finder *f, const uint8_t *chunk, size_t size, gpa_t base,
			  void *arg)
{
	const uint64_t end = lnx_rodata(f->k).end;
	struct rodata_scan *s = arg;

	lnx_data_look(f, &s->data, chunk, size, base);
	for (size_t i = 0; i + LNX_BTF_HEADER <= size && !s->types && s->tried < TYPES_MAX;
	     i += 4) {
		size_t blob =
			chunk[i] == 0x9f && chunk[i + 1] == 0xeb ? lnx_btf_size(chunk + i) : 0;

		/*
		 * The kernel keeps a copy of the header in its heap, with other bytes behind it;
		 * only what lies wholly inside of the image counts.
		 */
		if (!blob || !gs_in_range(base.a + i, blob, base.a, end - base.a))
			continue;
		s->tried++;
		s->types_rc = read_types(f, GPA(base.a + i), blob);
		s->types = s->types_rc == GS_OK || s->types_rc == GS_ENOSPC;
		if (s->types_rc == GS_OK) {
			f->k->types_at = GPA(base.a + i);
			f->k->types_size = blob;
		}
	}
	for (const uint8_t *p = chunk; !s->banner && p < chunk + size; p++) {
		p = memchr(p, 'L', (size_t)(chunk + size - p));
		if (!p || chunk + size - p < LNX_BANNER_MAX)
			break;
		if (lnx_is_banner((const char *)p)) {
			take_banner(f->k, (const char *)p, LNX_BANNER_MAX);
			s->banner = true;
		}
	}
	return s->types && s->banner;
}

enum gs_code lnx_scan(struct lnx_finder *f, gpa_t start, gpa_t end, lnx_look_fn look, void *arg)
{
	uint8_t *piece = malloc(LNX_SCAN_CHUNK + LNX_SCAN_OVERLAP);

	if (!piece)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the search");
	for (gpa_t at = GPA(start.a & ~UINT64_C(3)); at.a < end.a; at.a += LNX_SCAN_CHUNK) {
		size_t size = (size_t)gs_min(LNX_SCAN_CHUNK + LNX_SCAN_OVERLAP, end.a - at.a);

		lnx_read_sparse(f->g, at, piece, size);
		if (look(f, piece, size, at, arg))
			break;
	}
	free(piece);
	return GS_OK;
}

void lnx_take_profile(struct lnx_kernel *k, const struct lnx_profile *profile)
{
	k->types = profile->types;
	memcpy(k->profile, profile->name, sizeof(k->profile));
	k->found.types_by = LNX_BY_PROFILE;
	k->found.profile = k->profile;
	k->found.profile_match = lnx_profile_match(profile, k);
}

/* The one that was named: those of another build would be wrong without a sign. */
static enum gs_code take_named_profile(struct lnx_finder *f)
{
	const struct lnx_profile *profile = f->hints->profile;

	lnx_take_profile(f->k, profile);
	if (f->k->found.profile_match != LNX_PROFILE_OTHER)
		return GS_OK;
	return gs_fail(f->err, GS_EMALFORMED,
		       "profile %s is made for another kernel, as its %s says: make one of this "
		       "kernel's vmlinux (guestshot profile make)",
		       profile->name,
		       profile->has_build_id && lnx_is_build_id(f->k->build_id) ? "build id"
										: "banner");
}

/* One that is made for this kernel. */
static enum gs_code take_chosen_profile(struct lnx_finder *f)
{
	struct lnx_profile *profile;
	enum gs_code rc = lnx_profile_choose(f->hints->profiles, f->k, &profile, f->err);

	if (rc)
		return gs_wrap(f->err, rc, "the kernel has no usable type information");
	lnx_take_profile(f->k, profile);
	lnx_profile_destroy(profile);
	return GS_OK;
}

/* The kernel itself has none, or they cannot be read: what was given for this case. */
static enum gs_code take_given_types(struct lnx_finder *f, const struct rodata_scan *s)
{
	const struct lnx_hints *hints = f->hints;

	/* those of another build would be wrong without a sign */
	if (hints->reference && hints->reference->has_types &&
	    kallsyms_is_same(&hints->reference->ks, &f->k->ks)) {
		f->k->types = hints->reference->types;
		f->k->found.types_by = LNX_BY_REFERENCE;
	} else if (hints->profile) {
		return take_named_profile(f);
	} else if (hints->profiles) {
		return take_chosen_profile(f);
	} else if (s->tried) {
		return s->types_rc;
	} else {
		return gs_fail(f->err, GS_ENOENT,
			       "the kernel has no usable type information (built without "
			       "CONFIG_DEBUG_INFO_BTF?): give its vmlinux or a profile");
	}
	return GS_OK;
}

static enum gs_code find_types(struct lnx_finder *f)
{
	const struct lnx_range rodata = lnx_rodata(f->k);
	struct rodata_scan s = { 0 };

	f->k->found.types_by = LNX_BY_BTF;
	if (rodata.end < rodata.start || rodata.end - rodata.start > LNX_IMAGE_REACH)
		return gs_fail(f->err, GS_EMALFORMED,
			       "the kernel's text and init text are not in order");
	lnx_data_begin(f, &s.data);
	enum gs_code rc = lnx_scan(f, GPA(rodata.start), GPA(rodata.end), look_at_chunk, &s);
	if (!rc)
		rc = lnx_data_end(f, &s.data);
	if (rc)
		return rc;
	if (s.types || s.types_rc == GS_ENOSPC)
		return s.types_rc;
	return take_given_types(f, &s);
}

/* --- what is read of a task --- */

static int compare_spans(const void *a, const void *b)
{
	const struct lnx_span *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/*
 * Merge the members' places into few copies: a gap of up to a cache line costs less than another
 * one.
 */
enum gs_code lnx_plan_spans(struct lnx_finder *f)
{
	struct lnx_kernel *k = f->k;
	struct lnx_span all[LNX_M_TASK_LAST + 1];
	uint32_t n = 0;

	k->spans = 0;
	if (k->types.task_size > LNX_TASK_SIZE_MAX)
		return gs_fail(f->err, GS_ETOOBIG, "task_struct of %" PRIu32 " bytes",
			       k->types.task_size);
	for (size_t m = 0; m <= LNX_M_TASK_LAST; m++) {
		const struct lnx_field *fd = &k->types.member[m];

		if (fd->present)
			all[n++] = (struct lnx_span){ fd->offset, (uint32_t)gs_min(fd->size, 16) };
	}
	qsort(all, n, sizeof(all[0]), compare_spans);
	for (uint32_t i = 0; i < n; i++) {
		struct lnx_span *last = k->spans ? &k->span[k->spans - 1] : NULL;

		if (last && all[i].offset <= last->offset + last->size + 64)
			last->size = (uint32_t)gs_max(last->size,
						      all[i].offset + all[i].size - last->offset);
		else
			k->span[k->spans++] = all[i];
	}
	return GS_OK;
}

enum gs_code lnx_find_layout(struct lnx_finder *f)
{
	enum gs_code rc = find_text(f);

	if (!rc)
		rc = find_types(f);
	return rc ? rc : lnx_plan_spans(f);
}
