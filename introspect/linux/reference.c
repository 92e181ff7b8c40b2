/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel image as a file: Image, Image.gz or vmlinux. */
#include "introspect/linux/reference.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/linux/kernel.h"

/* The largest image seen has 47 MB (7.3, 16K pages). */
#define IMAGE_MAX    (UINT64_C(256) << 20)
#define SEGMENTS_MAX 256
/* Places that look like a symbol table; a kernel has one. */
#define TABLES_MAX 32
/* arm64 Image header (Documentation/arch/arm64/booting.rst) */
#define IMAGE_MAGIC_AT 56
#define ZBOOT_MAGIC_AT 4

/* --- the file --- */

static enum gs_code cut_off(struct gs_error *err)
{
	return gs_fail(err, GS_EMALFORMED, "is cut off (an incomplete copy?)");
}

static enum gs_code read_at(int fd, void *buf, size_t size, uint64_t at, struct gs_error *err)
{
	size_t done = 0;

	if (at > INT64_MAX - size)
		return cut_off(err);
	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gs_fail_errno(err, gs_code_of_errno(errno), errno, "cannot be read");
		if (!n)
			return cut_off(err);
		done += (size_t)n;
	}
	return GS_OK;
}

static enum gs_code check_vmlinux(const Elf64_Ehdr *h, struct gs_error *err)
{
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != EM_AARCH64)
		return gs_fail(err, GS_EMALFORMED, "is not for little-endian ARM64");
	if ((h->e_type != ET_EXEC && h->e_type != ET_DYN) || h->e_phentsize != sizeof(Elf64_Phdr) ||
	    !h->e_phnum || h->e_phnum > SEGMENTS_MAX)
		return gs_fail(err, GS_EMALFORMED, "is no vmlinux");
	return GS_OK;
}

/* Lay the segments out as objcopy does for the Image: by address, the lowest first. */
static enum gs_code load_segments(int fd, uint64_t size, const Elf64_Phdr *ph, size_t n,
				  struct lnx_reference *ref, struct gs_error *err)
{
	uint64_t base = UINT64_MAX, end = 0, last;

	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD || !ph[i].p_filesz)
			continue;
		if (!gs_add(ph[i].p_vaddr, ph[i].p_filesz, &last))
			return gs_fail(err, GS_EMALFORMED, "has a segment that wraps");
		if (!gs_in_range(ph[i].p_offset, ph[i].p_filesz, 0, size))
			return cut_off(err);
		base = gs_min(base, ph[i].p_vaddr);
		end = gs_max(end, last);
	}
	if (base >= end || end - base > IMAGE_MAX)
		return gs_fail(err, GS_EMALFORMED,
			       "has no segments of a kernel's size (stripped of all but debug "
			       "information?)");
	ref->size = (size_t)(end - base);
	ref->image = calloc(1, ref->size);
	if (!ref->image)
		return gs_fail(err, GS_ENOSPC, "out of memory for an image of %zu bytes",
			       ref->size);
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD || !ph[i].p_filesz)
			continue;
		enum gs_code rc = read_at(fd, ref->image + (ph[i].p_vaddr - base),
					  (size_t)ph[i].p_filesz, ph[i].p_offset, err);
		if (rc)
			return rc;
	}
	return GS_OK;
}

static enum gs_code read_vmlinux(int fd, uint64_t size, struct lnx_reference *ref,
				 struct gs_error *err)
{
	Elf64_Ehdr h;
	enum gs_code rc = read_at(fd, &h, sizeof(h), 0, err);

	if (!rc)
		rc = check_vmlinux(&h, err);
	if (rc)
		return rc;
	GS_FREE Elf64_Phdr *ph = gs_array_alloc(h.e_phnum, sizeof(*ph));
	if (!ph)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	rc = read_at(fd, ph, h.e_phnum * sizeof(*ph), h.e_phoff, err);
	return rc ? rc : load_segments(fd, size, ph, h.e_phnum, ref, err);
}

/* Plain and gzip files alike, as zlib reads them. */
static enum gs_code read_image(int fd, struct lnx_reference *ref, struct gs_error *err)
{
	size_t room = (size_t)32 << 20;
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	gzFile gz = copy < 0 ? NULL : gzdopen(copy, "rb"); /* closes what it was given */
	int n = 1;

	if (!gz) {
		if (copy >= 0)
			close(copy);
		return gs_fail(err, GS_ENOSPC, "out of memory or descriptors");
	}
	ref->image = malloc(room);
	while (ref->image && n > 0 && ref->size <= IMAGE_MAX) {
		if (ref->size == room) {
			uint8_t *more = realloc(ref->image, room * 2);

			if (!more)
				break;
			ref->image = more;
			room *= 2;
		}
		n = gzread(gz, ref->image + ref->size, (unsigned int)(room - ref->size));
		ref->size += n > 0 ? (size_t)n : 0;
	}
	/* all there is was read, and more should be */
	const bool cut = gzclose_r(gz) == Z_BUF_ERROR && !n;
	if (n < 0)
		return gs_fail(err, GS_EMALFORMED, "cannot be read as gzip data");
	if (cut)
		return cut_off(err);
	if (n && ref->size > IMAGE_MAX)
		return gs_fail(err, GS_ETOOBIG, "is larger than a kernel (over %" PRIu64 " MiB)",
			       IMAGE_MAX >> 20);
	return n ? gs_fail(err, GS_ENOSPC, "out of memory for the image") : GS_OK;
}

enum gs_code lnx_image_load(int fd, uint64_t size, struct lnx_reference *ref, struct gs_error *err)
{
	uint8_t magic[4];
	enum gs_code rc = read_at(fd, magic, sizeof(magic), 0, err);

	if (rc)
		return rc;
	if (!memcmp(magic, ELFMAG, SELFMAG))
		return read_vmlinux(fd, size, ref, err);
	rc = read_image(fd, ref, err);
	if (rc)
		return rc;
	if (ref->size > 64 && !memcmp(ref->image + ZBOOT_MAGIC_AT, "zimg", 4))
		return gs_fail(err, GS_ENOTSUP,
			       "is an EFI zboot image: give the Image or vmlinux it was made of");
	if (ref->size < 64 || memcmp(ref->image + IMAGE_MAGIC_AT, "ARM\x64", 4))
		return gs_fail(err, GS_EMALFORMED,
			       "is neither an ARM64 Image (plain or gzip) nor a vmlinux");
	return GS_OK;
}

/* --- what is in it --- */

static enum gs_code find_symbols(struct lnx_reference *ref, struct gs_error *err)
{
	uint32_t tried = 0;
	size_t at = 0;

	while (tried < TABLES_MAX &&
	       (at = kallsyms_next_candidate(ref->image, ref->size, at)) < ref->size) {
		if (kallsyms_has_tokens(ref->image, ref->size, at)) {
			tried++;
			enum gs_code rc =
				kallsyms_decode(ref->image, ref->size, at, true, &ref->ks, err);
			if (!rc || rc == GS_ENOSPC)
				return rc;
		}
		at += 2;
	}
	return gs_fail(err, GS_EMALFORMED,
		       "has no symbol table (cut off, or built without CONFIG_KALLSYMS?)");
}

size_t lnx_image_next_btf(const uint8_t *image, size_t size, size_t at, size_t *blob_out)
{
	for (size_t i = at; i + LNX_BTF_HEADER <= size; i += 4) {
		const uint8_t *p = image + i;
		size_t blob = p[0] == 0x9f && p[1] == 0xeb ? lnx_btf_size(p) : 0;

		if (blob && blob <= size - i) {
			*blob_out = blob;
			return i;
		}
	}
	*blob_out = 0;
	return size;
}

static void find_types(struct lnx_reference *ref)
{
	size_t at = 0, blob;

	for (uint32_t tried = 0; tried < LNX_BTF_TRIES_MAX && !ref->has_types; tried++, at += 4) {
		at = lnx_image_next_btf(ref->image, ref->size, at, &blob);
		if (at == ref->size)
			return;
		ref->has_types = !lnx_types_read(ref->image + at, blob, &ref->types, NULL);
	}
}

/* The names are constant, and unlike any other kernel's. */
static void choose_samples(struct lnx_reference *ref)
{
	const size_t step = ref->ks.names_size / (LNX_SAMPLES + 1);

	/* none crosses a page, nor do the bytes by which the kernel is known again */
	for (size_t i = 0; i < LNX_SAMPLES; i++)
		ref->sample[i] =
			(ref->ks.names_at + step * (i + 1)) & ~(size_t)(LNX_PROOF_BYTES - 1);
}

enum gs_code lnx_reference_open(const char *path, struct lnx_reference **ref_out,
				struct gs_error *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return gs_fail_errno(err, gs_code_of_errno(errno), errno, "kernel image %s", path);
	if (!S_ISREG(st.st_mode))
		return gs_fail(err, GS_EMALFORMED, "kernel image %s: not a regular file", path);
	struct lnx_reference *ref = calloc(1, sizeof(*ref));
	if (!ref)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = lnx_image_load(fd, (uint64_t)st.st_size, ref, err);
	if (!rc)
		rc = find_symbols(ref, err);
	if (rc) {
		lnx_reference_destroy(ref);
		return gs_wrap(err, rc, "kernel image %s", path);
	}
	find_types(ref);
	choose_samples(ref);
	*ref_out = ref;
	return GS_OK;
}

void lnx_reference_destroy(struct lnx_reference *ref)
{
	if (!ref)
		return;
	kallsyms_deinit(&ref->ks);
	free(ref->image);
	free(ref);
}

/* Whether bytes of memory are those of the image; memory that was never written is left alone. */
static bool is_sample(const struct lnx_reference *ref, const struct guest *g, size_t sample,
		      gpa_t at)
{
	uint8_t bytes[LNX_SAMPLE_BYTES];
	gpa_t data, end;

	if (g->ops->next_data &&
	    !g->ops->next_data(g->priv, at, GPA(at.a + sizeof(bytes)), &data, &end))
		return false;
	return !guest_read(g, at, bytes, sizeof(bytes)) &&
	       !memcmp(bytes, ref->image + sample, sizeof(bytes));
}

uint32_t lnx_reference_match(const struct lnx_reference *ref, const struct guest *g, gpa_t image,
			     gpa_t *proof_out)
{
	uint32_t matches = 0;

	for (size_t i = 0; i < LNX_SAMPLES; i++) {
		const gpa_t at = GPA(image.a + ref->sample[i]);

		/* more are missing than may be */
		if (i - matches > LNX_SAMPLES - LNX_SAMPLES_NEEDED)
			return 0;
		if (at.a >= image.a && is_sample(ref, g, ref->sample[i], at) && !matches++)
			*proof_out = at;
	}
	return matches;
}
