/* SPDX-License-Identifier: Apache-2.0 */
/* makedumpfile's flattened format: a dump that went through a pipe, as a list of writes. */
#include "introspect/guest/dump_flat.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"

#define FLAT_RECORDS_AT 4096
#define FLAT_COPY_BYTES (UINT64_C(1) << 20)
/*
 * A record may lie anywhere in the dump; far beyond all the data there is it is damage, and would
 * make a sparse file of any size. Zero pages are stored once, so the dump is no longer than this.
 */
#define FLAT_SLACK (UINT64_C(64) << 30)

struct flat {
	const struct guest_dump_file *in;
	int out;
	uint8_t *buf; /* FLAT_COPY_BYTES */
	struct gs_error *err;
};

static enum gs_code temporary_open(int *fd_out, struct gs_error *err)
{
	const char *folder = secure_getenv("TMPDIR");

	// Not /tmp: it is often memory, and a dump is large.
	if (!folder || !*folder)
		folder = "/var/tmp";
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e,
				     "is flattened, and is rearranged in a temporary file: %s "
				     "(makedumpfile -R rearranges it too)",
				     folder);
	}
	*fd_out = fd;
	return GS_OK;
}

static enum gs_code write_at(const struct flat *f, const uint8_t *data, size_t len, uint64_t at)
{
	while (len) {
		ssize_t n = pwrite(f->out, data, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int e = errno;
			return gs_fail_errno(
				f->err, gs_code_of_errno(e), e,
				"rearranging it in a temporary file (TMPDIR says where)");
		}
		data += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return GS_OK;
}

/* Copy what is there of one record. */
static enum gs_code copy(const struct flat *f, uint64_t from, uint64_t size, uint64_t to)
{
	while (size) {
		size_t n = (size_t)gs_min(size, FLAT_COPY_BYTES);

		if (guest_dump_file_read(f->in, from, f->buf, n))
			return gs_fail(f->err, GS_ESYS, "unreadable at byte %" PRIu64, from);
		enum gs_code rc = write_at(f, f->buf, n, to);
		if (rc)
			return rc;
		from += n;
		to += n;
		size -= n;
	}
	return GS_OK;
}

static enum gs_code copy_all(const struct flat *f, bool *complete_out)
{
	uint64_t at = FLAT_RECORDS_AT;
	uint64_t end = f->in->size + FLAT_SLACK;
	uint64_t head[2]; /* offset, size */

	*complete_out = false;
	while (!guest_dump_file_read(f->in, at, head, sizeof(head))) {
		uint64_t to = be64toh(head[0]), size = be64toh(head[1]);

		at += sizeof(head);
		if (to == UINT64_MAX && size == UINT64_MAX) {
			*complete_out = true;
			return GS_OK;
		}
		if (!gs_in_range(to, size, 0, end))
			return gs_fail(f->err, GS_EMALFORMED,
				       "flattened record at byte %" PRIu64 " belongs at %#" PRIx64
				       ", which is beyond any end",
				       at - sizeof(head), to);
		uint64_t there = gs_min(size, f->in->size - at);
		enum gs_code rc = copy(f, at, there, to);
		if (rc || there < size)
			return rc;
		at += size;
	}
	return GS_OK;
}

enum gs_code guest_dump_flat_rearrange(const struct guest_dump_file *flat,
				       struct guest_dump_file *file_out, bool *complete_out,
				       struct gs_error *err)
{
	uint64_t head[2]; /* type, version */
	GS_CLOSE int out = -1;

	if (guest_dump_file_read(flat, 16, head, sizeof(head)))
		return gs_fail(err, GS_EMALFORMED, "is cut off in its flattened header");
	if (be64toh(head[0]) != 1 || be64toh(head[1]) != 1)
		return gs_fail(err, GS_EMALFORMED,
			       "flattened format of type %" PRIu64 ", version %" PRIu64
			       ": only 1, 1 is known",
			       be64toh(head[0]), be64toh(head[1]));
	GS_FREE uint8_t *buf = malloc(FLAT_COPY_BYTES);
	if (!buf)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = temporary_open(&out, err);
	if (!rc)
		rc = copy_all(&(struct flat){ flat, out, buf, err }, complete_out);
	if (rc)
		return rc;
	rc = guest_dump_file_adopt(out, file_out, err);
	if (!rc)
		(void)GS_TAKE_FD(out);
	return rc;
}
