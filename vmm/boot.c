/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel and initrd: what kind of file it is, where it goes in guest RAM, and loading it. */
#include "vmm/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/util.h"

#define HEAD_BYTES  1024
#define INPUT_BYTES 65536
/* A branch of the kernel reaches 128 MiB; nothing near this is a kernel. */
#define KERNEL_MAX	(UINT64_C(1) << 30)
#define DTB_ALIGN	(UINT64_C(64) << 10)
#define INITRD_WINDOW	(UINT64_C(32) << 30)
#define PE_SECTIONS_MAX 64

static uint64_t le(const uint8_t *p, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | p[bytes];
	return value;
}

/* --- what kind of file --------------------------------------------------------------------- */

struct file_kind {
	uint32_t offset;
	uint32_t len;
	const char *magic;
	const char *what;
};

#define UNPACK_IT  "unpack it first"
#define GIVE_IMAGE "give arch/arm64/boot/Image, or a distribution's vmlinuz for arm64"

/* First match wins: the specific before the general. */
static const struct file_kind kinds[] = {
	{ 4, 4, "zimg",
	  "an EFI zboot image; " UNPACK_IT " (tools/unzboot, or objcopy and its "
	  "decompressor)" },
	{ 0x38, 4, "RSC\x05", "a RISC-V Image; this machine runs ARM64 guests" },
	{ 0x202, 4, "HdrS", "an x86 bzImage; this machine runs ARM64 guests" },
	{ 0x24, 4, "\x18\x28\x6f\x01", "a 32-bit ARM zImage; this machine runs ARM64 guests" },
	{ 0, 4,
	  "\x7f"
	  "ELF",
	  "an ELF file (a vmlinux with its symbols?); " GIVE_IMAGE },
	{ 0, 2, "\x1f\x8b", "gzip inside of gzip; " UNPACK_IT },
	{ 0, 3, "BZh", "compressed with bzip2; " UNPACK_IT " (bunzip2)" },
	{ 0, 6,
	  "\xfd"
	  "7zXZ\0",
	  "compressed with xz; " UNPACK_IT " (unxz)" },
	{ 0, 4, "\x28\xb5\x2f\xfd", "compressed with zstd; " UNPACK_IT " (unzstd)" },
	{ 0, 4, "\x02\x21\x4c\x18", "compressed with lz4; " UNPACK_IT " (unlz4)" },
	{ 0, 4, "\x04\x22\x4d\x18", "compressed with lz4; " UNPACK_IT " (unlz4)" },
	{ 0, 4, "\x5d\0\0\0", "compressed with lzma; " UNPACK_IT " (unlzma)" },
	{ 0, 4, "\x89LZO", "compressed with lzop; " UNPACK_IT " (lzop -d)" },
	{ 0, 4, "\x27\x05\x19\x56", "a U-Boot uImage; " GIVE_IMAGE },
	{ 0, 4, "\xd0\x0d\xfe\xed", "a device tree or FIT image; " GIVE_IMAGE },
	{ 0, 6, "070701", "a cpio archive (an initrd?); " GIVE_IMAGE },
	{ 0, 2, "MZ", "an EFI or Windows program without an ARM64 Image header; " GIVE_IMAGE },
};

static enum gs_code not_an_image(const uint8_t *head, size_t len, struct gs_error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct file_kind *k = &kinds[i];

		if (gs_in_range(k->offset, k->len, 0, len) &&
		    !memcmp(head + k->offset, k->magic, k->len))
			return gs_fail(err, GS_EMALFORMED, "this is %s", k->what);
	}
	if (len < VMM_BOOT_HEADER_SIZE)
		return gs_fail(err, GS_EMALFORMED,
			       "%zu bytes are too few for an ARM64 Image; " GIVE_IMAGE, len);
	return gs_fail(err, GS_EMALFORMED,
		       "not an ARM64 Image (no \"ARM\\x64\" at offset 0x38); " GIVE_IMAGE);
}

enum gs_code vmm_boot_image_parse(const uint8_t *head, size_t len, struct vmm_boot_image *image_out,
				  struct gs_error *err)
{
	if (len < VMM_BOOT_HEADER_SIZE || memcmp(head + 0x38, "ARM\x64", 4))
		return not_an_image(head, len, err);

	/* booting.rst section 4: text_offset, image_size, flags; all little-endian since 3.17 */
	uint64_t text_offset = le(head + 8, 8);
	uint64_t image_size = le(head + 16, 8);
	uint64_t flags = le(head + 24, 8);

	if (BIT(flags, 0))
		return gs_fail(err, GS_ENOTSUP,
			       "a big-endian kernel; use one without CONFIG_CPU_BIG_ENDIAN");
	// "Where image_size is zero, text_offset can be assumed to be 0x80000", of either
	// endianness.
	if (image_size == 0)
		text_offset = 0x80000;
	if (text_offset & 7)
		return gs_fail(err, GS_EMALFORMED,
			       "damaged ARM64 Image: text_offset %#" PRIx64 " is not aligned",
			       text_offset);
	static const uint32_t page_sizes[] = { 0, 4096, 16384, 65536 };
	*image_out = (struct vmm_boot_image){
		.text_offset = text_offset,
		.image_size = image_size,
		.page_size = page_sizes[BITS(flags, 2, 1)],
	};
	return GS_OK;
}

/* --- where it goes ------------------------------------------------------------------------- */

static uint64_t mib_up(uint64_t bytes)
{
	return (bytes >> 20) + !!(bytes & 0xfffff);
}

enum gs_code vmm_boot_place(const struct vmm_boot_image *image, uint64_t loaded,
			    uint64_t initrd_size, uint64_t ram_size,
			    struct vmm_boot_layout *layout_out, struct gs_error *err)
{
	// NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): set wherever the image was parsed
	uint64_t need = image->image_size;
	uint64_t end;

	if (need == 0 && !gs_add(loaded, VMM_BOOT_OLD_BSS, &need))
		need = UINT64_MAX;
	need = gs_max(need, loaded);
	// The device tree's room is asked for here, so that rounding below stays inside RAM.
	if (!gs_add(image->text_offset, need, &end) || end > ram_size ||
	    ram_size - end < DTB_ALIGN + VMM_BOOT_DTB_MAX)
		return gs_fail(err, GS_ETOOBIG,
			       "the kernel needs %" PRIu64 " MiB of RAM from %" PRIu64
			       " KiB on, the guest has %" PRIu64 " MiB: give it more",
			       mib_up(need), image->text_offset >> 10, ram_size >> 20);

	struct vmm_boot_layout at = {
		.kernel = image->text_offset,
		.kernel_size = need,
		.dtb = gs_align_up(end, DTB_ALIGN),
	};
	if (initrd_size) {
		at.initrd = at.dtb + VMM_BOOT_DTB_MAX;
		at.initrd_size = initrd_size;
		uint64_t room = gs_min(ram_size, INITRD_WINDOW);
		if (at.initrd > room || initrd_size > room - at.initrd)
			return gs_fail(err, GS_ETOOBIG,
				       "the initrd of %" PRIu64
				       " MiB does not fit behind the kernel (%" PRIu64
				       " MiB) into %" PRIu64 " MiB of RAM: give the guest more",
				       mib_up(initrd_size), mib_up(end), ram_size >> 20);
	}
	*layout_out = at;
	return GS_OK;
}

/* --- reading ------------------------------------------------------------------------------- */

/* A file, read once from front to end, unpacked on the way. */
struct source {
	int fd;
	uint64_t at;
	uint64_t end; /* of the part to read */
	bool packed;
	bool packed_end;
	z_stream z;
	uint8_t input[INPUT_BYTES];
};

static enum gs_code source_open(struct source *s, const char *path, struct gs_error *err)
{
	struct stat st;

	// Without O_NONBLOCK a FIFO would hold us here.
	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (s->fd < 0) {
		int e = errno;

		return gs_fail_errno(err,
				     e == ENOENT || e == ENOTDIR ? GS_ENOENT
				     : e == EACCES || e == EPERM ? GS_EDENIED
								 : GS_ESYS,
				     e, "cannot be opened");
	}
	if (fstat(s->fd, &st))
		return gs_fail_errno(err, GS_ESYS, errno, "cannot be examined");
	if (!S_ISREG(st.st_mode))
		return gs_fail(err, GS_EMALFORMED, "not a regular file%s",
			       S_ISDIR(st.st_mode) ? " but a directory" : "; copy it into one");
	if (st.st_size == 0)
		return gs_fail(err, GS_EMALFORMED, "the file is empty");
	s->end = (uint64_t)st.st_size;
	return GS_OK;
}

/* @return GS_OK with *got_out < len only at the end of the part */
static enum gs_code source_read_plain(struct source *s, uint8_t *buf, uint64_t len,
				      uint64_t *got_out, struct gs_error *err)
{
	uint64_t got = 0;

	len = gs_min(len, s->end - s->at);
	while (got < len) {
		ssize_t n = pread(s->fd, buf + got, gs_min(len - got, SSIZE_MAX), (off_t)s->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return gs_fail_errno(err, GS_ESYS, errno, "reading at offset %" PRIu64,
					     s->at);
		if (n == 0)
			return gs_fail(err, GS_EMALFORMED,
				       "the file ends at offset %" PRIu64 " and was longer before",
				       s->at);
		got += (uint64_t)n;
		s->at += (uint64_t)n;
	}
	*got_out = got;
	return GS_OK;
}

static enum gs_code source_refill(struct source *s, struct gs_error *err)
{
	uint64_t got;
	enum gs_code rc = source_read_plain(s, s->input, INPUT_BYTES, &got, err);

	if (rc)
		return rc;
	if (got == 0)
		return gs_fail(err, GS_EMALFORMED,
			       "the gzip data is cut off (incomplete download?)");
	s->z.next_in = s->input;
	s->z.avail_in = (uInt)got;
	return GS_OK;
}

static enum gs_code source_read_packed(struct source *s, uint8_t *buf, uint64_t len,
				       uint64_t *got_out, struct gs_error *err)
{
	uint64_t got = 0;

	while (got < len && !s->packed_end) {
		if (s->z.avail_in == 0) {
			enum gs_code rc = source_refill(s, err);
			if (rc)
				return rc;
		}
		uInt want = (uInt)gs_min(len - got, INT_MAX);
		s->z.next_out = buf + got;
		s->z.avail_out = want;
		int zrc = inflate(&s->z, Z_NO_FLUSH);
		got += want - s->z.avail_out;
		s->packed_end = zrc == Z_STREAM_END;
		if (zrc != Z_OK && zrc != Z_STREAM_END && zrc != Z_BUF_ERROR)
			return gs_fail(err, zrc == Z_MEM_ERROR ? GS_ENOSPC : GS_EMALFORMED,
				       "the gzip data is broken: %s",
				       s->z.msg ? s->z.msg : zError(zrc));
	}
	*got_out = got;
	return GS_OK;
}

static enum gs_code source_read(struct source *s, uint8_t *buf, uint64_t len, uint64_t *got_out,
				struct gs_error *err)
{
	return s->packed ? source_read_packed(s, buf, len, got_out, err)
			 : source_read_plain(s, buf, len, got_out, err);
}

/* Read from @p at to @p end again, as gzip. */
static enum gs_code source_unpack(struct source *s, uint64_t at, uint64_t end, struct gs_error *err)
{
	// 16: expects a gzip header and checks the trailing CRC.
	if (inflateInit2(&s->z, 16 + MAX_WBITS) != Z_OK)
		return gs_fail(err, GS_ENOSPC, "no memory to unpack it");
	s->packed = true;
	s->at = at;
	s->end = end;
	return GS_OK;
}

static void source_destroy(struct source **sp)
{
	struct source *s = *sp;

	if (!s)
		return;
	if (s->packed)
		inflateEnd(&s->z);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

static struct source *source_create(void)
{
	struct source *s = gs_array_alloc(1, sizeof(*s));

	if (s)
		s->fd = -1;
	return s;
}

/* --- loading ------------------------------------------------------------------------------- */

/* First bytes of the kernel; switches to unpacking where the file is packed. */
static enum gs_code read_head(struct source *s, uint8_t *head, uint64_t *len_out,
			      struct gs_error *err)
{
	uint64_t len;
	enum gs_code rc = source_read(s, head, HEAD_BYTES, &len, err);

	if (rc)
		return rc;
	bool gzip = len >= 2 && head[0] == 0x1f && head[1] == 0x8b;
	/* include/linux/zboot.h of 6.1 on: "MZ\0\0" "zimg" offset size 0 0 type */
	bool zboot = len >= 64 && !memcmp(head, "MZ\0\0zimg", 8) && !memcmp(head + 24, "gzip", 5);
	if (gzip || zboot) {
		uint64_t at = zboot ? le(head + 8, 4) : 0;
		uint64_t size = zboot ? le(head + 12, 4) : s->end;

		if (!gs_in_range(at, size, 0, s->end))
			return gs_fail(err, GS_EMALFORMED,
				       "the EFI zboot image is cut off (incomplete download?)");
		rc = source_unpack(s, at, at + size, err);
		if (!rc)
			rc = source_read(s, head, HEAD_BYTES, &len, err);
	}
	*len_out = len;
	return rc;
}

/*
 * An Image has no size of its file, but most are EFI programs too, and these have a section table.
 * A kernel cut short would die without a word.
 */
static enum gs_code check_complete(const uint8_t *kernel, uint64_t size, struct gs_error *err)
{
	uint64_t pe = le(kernel + 0x3c, 4);

	if (!gs_in_range(pe, 24, 0, size) || memcmp(kernel + pe, "PE\0\0", 4))
		return GS_OK;
	uint64_t sections = gs_min(le(kernel + pe + 6, 2), PE_SECTIONS_MAX);
	uint64_t table = pe + 24 + le(kernel + pe + 20, 2);

	for (uint64_t i = 0; i < sections; i++) {
		uint64_t at = table + 40 * i;

		if (!gs_in_range(at, 40, 0, size) ||
		    !gs_in_range(le(kernel + at + 20, 4), le(kernel + at + 16, 4), 0, size))
			return gs_fail(err, GS_EMALFORMED,
				       "the kernel is cut off: section %" PRIu64 " of %" PRIu64
				       " ends behind the file's %" PRIu64 " bytes",
				       i + 1, sections, size);
	}
	return GS_OK;
}

static enum gs_code load_kernel(const char *path, uint8_t *ram, uint64_t ram_size,
				struct vmm_boot_image *image_out, uint64_t *loaded_out,
				struct gs_error *err)
{
	__attribute__((cleanup(source_destroy))) struct source *s = source_create();
	uint8_t head[HEAD_BYTES];
	uint64_t len, more;

	if (!s)
		return gs_fail(err, GS_ENOSPC, "no memory to read it");
	enum gs_code rc = source_open(s, path, err);
	if (!rc)
		rc = read_head(s, head, &len, err);
	if (!rc)
		rc = vmm_boot_image_parse(head, (size_t)len, image_out, err);
	if (rc)
		return rc;
	// The smallest that it could be, before a byte of it goes into RAM.
	struct vmm_boot_layout at;
	rc = vmm_boot_place(image_out, len, 0, ram_size, &at, err);
	if (rc)
		return rc;

	uint64_t room = gs_min(ram_size - at.kernel, KERNEL_MAX);
	memcpy(ram + at.kernel, head, len);
	rc = source_read(s, ram + at.kernel + len, room - len, &more, err);
	if (rc)
		return rc;
	uint64_t rest;
	if (len + more == room && (source_read(s, head, 1, &rest, NULL) || rest))
		return gs_fail(err, GS_ETOOBIG, "the kernel is larger than %s (%" PRIu64 " MiB)%s",
			       room == KERNEL_MAX ? "any kernel" : "the guest's RAM", room >> 20,
			       room == KERNEL_MAX ? "" : ": give the guest more");
	*loaded_out = len + more;
	return check_complete(ram + at.kernel, *loaded_out, err);
}

static enum gs_code load_initrd(struct source *s, uint8_t *ram, const struct vmm_boot_layout *at,
				struct gs_error *err)
{
	uint64_t got;

	return source_read(s, ram + at->initrd, at->initrd_size, &got, err);
}

enum gs_code vmm_boot_load(const char *kernel_path, const char *initrd_path, uint8_t *ram,
			   uint64_t ram_size, struct vmm_boot *boot_out, struct gs_error *err)
{
	__attribute__((cleanup(source_destroy))) struct source *initrd = NULL;
	struct vmm_boot boot;
	uint64_t loaded;

	enum gs_code rc = load_kernel(kernel_path, ram, ram_size, &boot.image, &loaded, err);
	if (rc)
		return gs_wrap(err, rc, "kernel %s", kernel_path);

	if (initrd_path) {
		initrd = source_create();
		if (!initrd)
			return gs_fail(err, GS_ENOSPC, "initrd %s: no memory to read it",
				       initrd_path);
		rc = source_open(initrd, initrd_path, err);
		if (rc)
			return gs_wrap(err, rc, "initrd %s", initrd_path);
	}
	rc = vmm_boot_place(&boot.image, loaded, initrd ? initrd->end : 0, ram_size, &boot.at, err);
	if (!rc && initrd)
		rc = load_initrd(initrd, ram, &boot.at, err);
	if (rc)
		return gs_wrap(err, rc, "%s %s", initrd ? "initrd" : "kernel",
			       initrd ? initrd_path : kernel_path);
	*boot_out = boot;
	return GS_OK;
}
