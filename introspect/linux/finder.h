/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a guest's kernel, shared by its steps. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_FINDER_H
#define INTROSPECT_LINUX_FINDER_H

#include "introspect/linux/kernel.h"
#include "introspect/linux/reference.h"

/*
 * From VBAR_EL1 (in the image's text, or its trampoline page) to any of the tables: 7.3 needs 50
 * MiB.
 */
#define LNX_IMAGE_REACH (UINT64_C(96) << 20)
/*
 * Places that are looked at closely: a guest may hold copies of kernels in its page cache, but one
 * that has more of them wants to keep us busy.
 */
#define LNX_TABLES_MAX 32

#define LNX_SCAN_CHUNK (UINT64_C(1) << 20)

/* Steps that a candidate has to pass, in order. */
enum lnx_step { LNX_STEP_SYMBOLS, LNX_STEP_PLACE, LNX_STEP_LAYOUT, LNX_STEP_ROOTS, LNX_STEPS };

/* Whether the search goes on after a place was looked at. */
enum lnx_verdict { LNX_GO_ON, LNX_DONE };

struct lnx_finder {
	struct guest *g;
	const struct guest_vcpu_regs *regs;
	uint32_t vcpus;
	const struct lnx_hints *hints; /* never NULL */
	struct gs_error *err;
	struct lnx_kernel *k; /* the candidate at hand; once rc is GS_OK: the one */
	enum gs_code rc;      /* how the search ended, with LNX_DONE */

	enum lnx_way way;	       /* that leads to candidates now */
	uint64_t seen[LNX_TABLES_MAX]; /* where the tables of candidates lay */
	uint32_t tables;

	struct lnx_kernel *best; /* whole, but nothing proves that it runs */
	int best_evidence;
	enum lnx_step furthest;	    /* that a failed one got to */
	struct gs_error unfinished; /* why it failed; code GS_OK: none did */
};

/** Copy [start, start + size); what is not RAM, or was never written, reads as zero. */
void lnx_read_sparse(struct guest *g, gpa_t start, uint8_t *buf, size_t size);

/** What the search calls for each place with a symbol table: where its index lies. */
enum lnx_verdict lnx_try_tables(struct lnx_finder *f, gpa_t token_index);

/** ... for each copy of the reference: where it begins, and where its first sample lies. */
enum lnx_verdict lnx_try_reference(struct lnx_finder *f, gpa_t image, gpa_t proof);

/** End the search with a failure; the arguments are gs_fail()'s. */
#define lnx_give_up(f, code, ...) ((f)->rc = gs_fail((f)->err, (code), __VA_ARGS__), LNX_DONE)

/** Go through all ways in the order of enum lnx_way. */
enum lnx_verdict lnx_search(struct lnx_finder *f);

/* Pieces of memory that is looked through overlap: nothing of this length is cut by their ends. */
#define LNX_SCAN_OVERLAP LNX_BANNER_MAX

/** Looks at a piece of memory, at a multiple of 4. @return true: the rest need not be */
typedef bool (*lnx_look_fn)(struct lnx_finder *f, const uint8_t *piece, size_t size, gpa_t at,
			    void *arg);

/** Whether a banner begins here: at least LNX_BANNER_MAX bytes are behind @p s. */
bool lnx_is_banner(const char *s);

/** Copy a banner's line. @param banner_out room for LNX_BANNER_MAX */
void lnx_banner_take(const char *s, size_t len, char *banner_out);

/** Look through guest-physical memory, piece by piece. @return GS_OK; GS_ENOSPC, with f->err */
GS_MUST_USE enum gs_code lnx_scan(struct lnx_finder *f, gpa_t start, gpa_t end, lnx_look_fn look,
				  void *arg);

/** The image's read-only data, guest-physical: all that is between its text and its init text. */
struct lnx_range lnx_rodata(const struct lnx_kernel *k);

/* A name may be the end of others' names, of which there are few. */
#define LNX_PLACES_MAX 8

/** The search for variables, and for the build id. */
struct lnx_data_search {
	bool is_wanted[LNX_V_EXPORTED];
	uint64_t place[LNX_V_EXPORTED][LNX_PLACES_MAX]; /* guest-physical, of the name */
	uint32_t places[LNX_V_EXPORTED];
	uint64_t lowest, highest;	/* of all of these; highest 0: there are none */
	uint64_t value[LNX_V_EXPORTED]; /* 0: none yet */
	bool is_unclear[LNX_V_EXPORTED];
};

/**
 * Look for the kernel's build id. Of several the last one: .notes is behind all else that is read-only,
 * but for BTF.
 *
 * @param is_of_vdso    tells notes of other files, by the offset in @p piece
 * @param build_id_out  LNX_BUILD_ID bytes, left alone if there is none
 */
void lnx_build_id_look(const uint8_t *piece, size_t size,
		       bool (*is_of_vdso)(size_t note, const void *arg), const void *arg,
		       uint8_t *build_id_out);

/** Take what the symbol table has; what is left is to be looked for in the read-only data. */
void lnx_data_begin(struct lnx_finder *f, struct lnx_data_search *s);

/** Look at a piece of the read-only data, one after the other as lnx_scan() has them. */
void lnx_data_look(struct lnx_finder *f, struct lnx_data_search *s, const uint8_t *piece,
		   size_t size, gpa_t at);

/** Make of it what there is: what was not found is left out. @return GS_OK; GS_ENOSPC, with f->err */
GS_MUST_USE enum gs_code lnx_data_end(struct lnx_finder *f, struct lnx_data_search *s);

/**
 * Find variables that neither the symbol table nor an export names, in the functions that use them. What
 * is not found is left out.
 */
void lnx_find_variables(struct lnx_kernel *k, struct lnx_view *v);

/** How long a tick of jiffies is, if the kernel's clock or code tells. */
void lnx_find_tick(struct lnx_kernel *k, struct lnx_view *v);

/** The number in VMCOREINFO's line "@p key=". @return false: no such line, or no number */
GS_MUST_USE bool lnx_vmcoreinfo_number(const struct lnx_hints *hints, const char *key,
				       uint64_t *value_out);

/* The steps: find f->k's place, layouts and roots. @return GS_OK, or why not, with f->err */
GS_MUST_USE enum gs_code lnx_find_place(struct lnx_finder *f);
GS_MUST_USE enum gs_code lnx_find_layout(struct lnx_finder *f);
GS_MUST_USE enum gs_code lnx_find_roots(struct lnx_finder *f);

/** Have a kernel take the types of a profile. What follows of them is to be found anew. */
void lnx_take_profile(struct lnx_kernel *k, const struct lnx_profile *profile);

/** Decide in which pieces a task is read. @return GS_OK; GS_ETOOBIG, with f->err */
GS_MUST_USE enum gs_code lnx_plan_spans(struct lnx_finder *f);

/** Tables a vCPU may use for kernel addresses: its TTBR1, and what is some pages on from it. */
#define LNX_TABLES_PER_VCPU 3

/** @return false: the vCPU's registers say nothing of translation */
GS_MUST_USE bool lnx_regime_of(const struct lnx_finder *f, uint32_t vcpu, uint32_t variant,
			       struct a64_regime *r);

#endif
