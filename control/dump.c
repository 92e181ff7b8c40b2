/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's memory and registers as an ELF core, in a file. */
#include "control/dump.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "introspect/guest/dump_write.h"

/* What readers of the core want to know of its kernel; a guest without Linux is dumped all the same. */
static void describe_kernel(struct guest *g, const struct lnx_hints *hints,
			    char text[static LNX_VMCOREINFO_MAX],
			    struct guest_dump_write_options *options)
{
	GS_FREE struct guest_vcpu_regs *regs = gs_array_alloc(g->vcpu_count, sizeof(*regs));
	struct lnx_kernel *k = NULL;

	if (regs)
		guest_all_vcpu_regs(g, regs);
	if (lnx_kernel_find(g, regs, regs ? g->vcpu_count : 0, hints, &k, NULL))
		k = NULL;
	if (k) {
		struct lnx_kernel_info info = lnx_kernel_info_get(k);

		if (!lnx_linear_offset(k, g, &options->linear_offset))
			options->linear_offset = 0;
		options->image = GPA(info.text - info.voffset);
		options->image_size = info.size;
		options->image_offset = info.voffset;
	}
	if (hints && hints->vmcoreinfo) {
		options->vmcoreinfo = hints->vmcoreinfo;
		options->vmcoreinfo_size = hints->vmcoreinfo_size;
	} else if (lnx_vmcoreinfo_find(g, k, text, &options->vmcoreinfo_size)) {
		options->vmcoreinfo = text;
	}
	lnx_kernel_destroy(k);
}

enum gs_code ctl_dump_write(struct guest *g, const struct lnx_hints *hints, const char *path,
			    bool (*progress)(uint64_t done, uint64_t total, void *arg), void *arg,
			    struct ctl_dump_result *result_out, struct gs_error *err)
{
	struct guest_dump_write_options options = { .progress = progress, .arg = arg };
	struct guest_dump_written written = { 0 };
	GS_FREE char *text = malloc(LNX_VMCOREINFO_MAX);
	struct gs_new_file file;

	if (!text)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = gs_new_file_create(path, &file, err);
	if (rc)
		return rc;
	uint64_t start = gs_clock_ns();
	rc = guest_stop(g, err);
	if (rc) {
		gs_new_file_discard(&file);
		return gs_wrap(err, rc, "stopping the guest");
	}
	describe_kernel(g, hints, text, &options);
	result_out->vmcoreinfo = options.vmcoreinfo != NULL;
	rc = guest_dump_write(g, file.fd, &options, &written, err);
	enum gs_code resumed = guest_resume(g, rc ? NULL : err); /* the first failure counts */
	result_out->stopped_ns = gs_clock_ns() - start;
	if (!rc)
		rc = resumed;
	if (rc) {
		gs_new_file_discard(&file);
		return gs_wrap(err, rc, "%s", path);
	}
	result_out->file_size = written.file_size;
	result_out->data = written.data;
	result_out->unreadable = written.unreadable;
	return gs_new_file_commit(&file, 0600, err);
}
