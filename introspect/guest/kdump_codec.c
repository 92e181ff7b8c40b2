/* SPDX-License-Identifier: Apache-2.0 */
/* Decompressing the pages of kdump-compressed dumps. */
#include "introspect/guest/kdump_codec.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/util.h"

/* lzo/lzo1x.h 2.10: lzo_uint is size_t on 64-bit hosts, LZO_E_OK is 0 */
#define LZO_SONAME  "liblzo2.so.2"
#define LZO_PACKAGE "liblzo2-2"
typedef int (*lzo_fn)(const uint8_t *from, size_t from_len, uint8_t *to, size_t *to_len,
		      void *work);

/* snappy-c.h 1.1.9: SNAPPY_OK is 0 */
#define SNAPPY_SONAME  "libsnappy.so.1"
#define SNAPPY_PACKAGE "libsnappy1v5"
typedef int (*snappy_fn)(const char *from, size_t from_len, char *to, size_t *to_len);

struct kdump_codec {
	pthread_mutex_t lock; /* of the two states that are used again and again */
	z_stream zlib;
	bool has_zlib;
	ZSTD_DCtx *zstd;
	void *lzo_handle, *snappy_handle;
	lzo_fn lzo;
	snappy_fn snappy;
};

enum gs_code guest_kdump_codec_create(struct kdump_codec **codec_out, struct gs_error *err)
{
	struct kdump_codec *c = calloc(1, sizeof(*c));

	if (!c)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	pthread_mutex_init(&c->lock, NULL);
	c->has_zlib = inflateInit(&c->zlib) == Z_OK;
	c->zstd = ZSTD_createDCtx();
	if (!c->has_zlib || !c->zstd) {
		guest_kdump_codec_destroy(c);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	*codec_out = c;
	return GS_OK;
}

void guest_kdump_codec_destroy(struct kdump_codec *c)
{
	if (!c)
		return;
	if (c->has_zlib)
		(void)inflateEnd(&c->zlib);
	ZSTD_freeDCtx(c->zstd);
	if (c->lzo_handle)
		dlclose(c->lzo_handle);
	if (c->snappy_handle)
		dlclose(c->snappy_handle);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

enum gs_code guest_kdump_codec_find(const char *soname, const char *package, const char *function,
				    void **handle_out, void **fn_out, struct gs_error *err)
{
	void *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return gs_fail(err, GS_ENOTSUP,
			       "has pages that need %s: install the Debian package %s (%s)", soname,
			       package, dlerror());
	void *fn = dlsym(handle, function);
	if (!fn) {
		dlclose(handle);
		return gs_fail(err, GS_ENOTSUP, "%s has no %s: install the Debian package %s",
			       soname, function, package);
	}
	*handle_out = handle;
	*fn_out = fn;
	return GS_OK;
}

static enum gs_code load_locked(struct kdump_codec *c, uint32_t flags, struct gs_error *err)
{
	void *fn = NULL;
	enum gs_code rc = GS_OK;

	if (flags == KDUMP_LZO && !c->lzo) {
		rc = guest_kdump_codec_find(LZO_SONAME, LZO_PACKAGE, "lzo1x_decompress_safe",
					    &c->lzo_handle, &fn, err);
		memcpy(&c->lzo, &fn, sizeof(fn)); /* a function's address, as POSIX has dlsym() */
	} else if (flags == KDUMP_SNAPPY && !c->snappy) {
		rc = guest_kdump_codec_find(SNAPPY_SONAME, SNAPPY_PACKAGE, "snappy_uncompress",
					    &c->snappy_handle, &fn, err);
		memcpy(&c->snappy, &fn, sizeof(fn));
	}
	return rc;
}

enum gs_code guest_kdump_codec_load(struct kdump_codec *c, uint32_t flags, struct gs_error *err)
{
	pthread_mutex_lock(&c->lock);
	enum gs_code rc = load_locked(c, flags, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

static size_t inflate_page(struct kdump_codec *c, const uint8_t *from, size_t size, uint8_t *to,
			   size_t room)
{
	z_stream *z = &c->zlib;

	if (inflateReset(z) != Z_OK)
		return 0;
	z->next_in = (Bytef *)(uintptr_t)from; /* zlib does not write there */
	z->avail_in = (uInt)size;
	z->next_out = to;
	z->avail_out = (uInt)room;
	return inflate(z, Z_FINISH) == Z_STREAM_END ? room - z->avail_out : 0;
}

enum gs_code guest_kdump_codec_page(struct kdump_codec *c, uint32_t flags, const uint8_t *from,
				    size_t size, uint8_t *to, size_t page_size)
{
	size_t got = page_size;

	if (page_size > KDUMP_PAGE_MAX || size > page_size)
		return GS_EFAULT;
	switch (flags) {
	case KDUMP_PLAIN:
		if (size != page_size)
			return GS_EFAULT;
		memcpy(to, from, size);
		break;
	case KDUMP_ZLIB:
		pthread_mutex_lock(&c->lock);
		got = inflate_page(c, from, size, to, page_size);
		pthread_mutex_unlock(&c->lock);
		break;
	case KDUMP_ZSTD:
		pthread_mutex_lock(&c->lock);
		got = ZSTD_decompressDCtx(c->zstd, to, page_size, from, size);
		pthread_mutex_unlock(&c->lock);
		break;
	case KDUMP_LZO:
		/* loaded already, unless pages of several methods are mixed */
		if (guest_kdump_codec_load(c, flags, NULL) || c->lzo(from, size, to, &got, NULL))
			return GS_EFAULT;
		break;
	case KDUMP_SNAPPY:
		if (guest_kdump_codec_load(c, flags, NULL) ||
		    c->snappy((const char *)from, size, (char *)to, &got))
			return GS_EFAULT;
		break;
	default: return GS_EFAULT;
	}
	return got == page_size ? GS_OK : GS_EFAULT;
}
