/* packed.c - a model that lies packed in a file: compressed by gzip, zstd, bzip2 or xz, or the only
 * one in a tar or zip archive, once in the other at most twice. What is stored as it is, is used
 * where it lies; the rest goes to a file without a name. */
#include "libexport/formats/packed.h"

#include "libexport/base/arena.h"
#include "libexport/base/spool.h"
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/tar.h"
#include "libexport/formats/weights_file.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>
#ifdef EXG_BZIP2
#include <bzlib.h>
#endif
#ifdef EXG_LZMA
#include <lzma.h>
#endif

#define LAYERS_MAX  3 /* "model.tar.gz" has two, and a model */
#define CHUNK_BYTES (1u << 20)
#define WINDOW_LOG  27           /* 128 MiB: zstd --ultra takes no more */
#define XZ_BYTES    (144u << 20) /* a dictionary of 128 MiB, where xz -9 has 64, and its state */

typedef struct packed {
    const uint8_t *data;
    uint64_t length;
    exg_spool spool;
    uint8_t *chunk;
    uint32_t crc; /* of what came out, where somebody asks */
    exg_error *err;
} packed;

static exg_status damaged(const packed *p, const char *what)
{
    return exg_error_fix(p->err, EXG_FAIL(p->err, MALFORMED, "PCK-DAMAGED", "%s", what),
                         "copy the file again");
}

static exg_status put(packed *p, size_t length)
{
    exg_status status = exg_spool_write(&p->spool, p->chunk, length, p->err);

    p->crc = libdeflate_crc32(p->crc, p->chunk, length);
    return status == EXG_LIMIT
               ? exg_error_fix(p->err, status, "unpack the file, and give what is in it")
               : status;
}

/* The next piece of what is read from *at on. */
static uint32_t give(const packed *p, uint64_t at)
{
    return p->length - at < CHUNK_BYTES ? (uint32_t)(p->length - at) : CHUNK_BYTES;
}

/* What follows the last member of a compressed file may be zeros, as of tapes. */
static exg_status check_rest(const packed *p, uint64_t at)
{
    while (at < p->length && p->data[at] == 0) {
        at++;
    }
    return at == p->length ? EXG_OK : damaged(p, "bytes follow the end of what is compressed");
}

static exg_status too_large(const packed *p)
{
    return exg_error_fix(p->err,
                         EXG_FAIL(p->err, LIMIT, "PCK-WINDOW",
                                  "to unpack it takes more memory than the 128 MiB of a window"),
                         "unpack the file, and give what is in it");
}

/* ---- deflate -----------------------------------------------------------------------------------
 */

/* One stream, from *at on. */
static exg_status inflate_stream(packed *p, z_stream *stream, uint64_t *at)
{
    int code = Z_OK;

    while (code == Z_OK) {
        uint32_t given = give(p, *at);

        stream->next_in = (Bytef *)(uintptr_t)(p->data + *at);
        stream->avail_in = given;
        stream->next_out = p->chunk;
        stream->avail_out = CHUNK_BYTES;
        code = inflate(stream, Z_NO_FLUSH);
        *at += given - stream->avail_in;
        EXG_TRY(put(p, CHUNK_BYTES - stream->avail_out));
    }
    return code == Z_MEM_ERROR    ? EXG_OUT_OF_MEMORY(p->err)
           : code == Z_STREAM_END ? EXG_OK
                                  : damaged(p, "what is deflated is damaged, or cut short");
}

/* gzip: members one behind the other. `bits` as zlib has them. */
static exg_status inflate_all(packed *p, int bits)
{
    z_stream stream = {0};
    uint64_t at = 0;
    exg_status status;

    if (inflateInit2(&stream, bits) != Z_OK) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    do {
        status = inflate_stream(p, &stream, &at);
    } while (status == EXG_OK && bits > 0 && p->length - at >= 2 && p->data[at] == 0x1f &&
             p->data[at + 1] == 0x8b && inflateReset(&stream) == Z_OK);
    inflateEnd(&stream);
    return status == EXG_OK ? check_rest(p, at) : status;
}

static exg_status unpack_gzip(packed *p)
{
    return inflate_all(p, 16 + MAX_WBITS);
}

static exg_status unpack_deflated(packed *p)
{
    return inflate_all(p, -MAX_WBITS);
}

/* ---- zstd --------------------------------------------------------------------------------------
 */

static exg_status decompress_frames(packed *p, ZSTD_DCtx *context)
{
    ZSTD_inBuffer in = {p->data, (size_t)p->length, 0};
    size_t left = 0;

    do {
        ZSTD_outBuffer out = {p->chunk, CHUNK_BYTES, 0};

        left = ZSTD_decompressStream(context, &out, &in);
        if (ZSTD_isError(left)) {
            return ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge
                       ? too_large(p)
                       : damaged(p, ZSTD_getErrorName(left));
        }
        EXG_TRY(put(p, out.pos));
        if (out.pos == 0 && in.pos == in.size && left > 0) {
            return damaged(p, "what zstd compressed is cut short");
        }
    } while (left > 0 || in.pos < in.size);
    return EXG_OK;
}

static exg_status unpack_zstd(packed *p)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    exg_status status;

    if (context == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    (void)ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, WINDOW_LOG);
    status = decompress_frames(p, context);
    ZSTD_freeDCtx(context);
    return status;
}

/* ---- bzip2 -------------------------------------------------------------------------------------
 */

#ifdef EXG_BZIP2
/* One stream, from *at on. */
static exg_status bunzip_stream(packed *p, uint64_t *at)
{
    bz_stream stream = {0};
    int code = BZ2_bzDecompressInit(&stream, 0, 0);
    exg_status status = EXG_OK;

    while (code == BZ_OK && status == EXG_OK) {
        uint32_t given = give(p, *at);

        stream.next_in = (char *)(uintptr_t)(p->data + *at);
        stream.avail_in = given;
        stream.next_out = (char *)p->chunk;
        stream.avail_out = CHUNK_BYTES;
        code = BZ2_bzDecompress(&stream);
        *at += given - stream.avail_in;
        if (code == BZ_OK && given == 0 && stream.avail_out == CHUNK_BYTES) {
            code = BZ_UNEXPECTED_EOF;
        }
        status = put(p, CHUNK_BYTES - stream.avail_out);
    }
    (void)BZ2_bzDecompressEnd(&stream);
    EXG_TRY(status);
    return code == BZ_MEM_ERROR    ? EXG_OUT_OF_MEMORY(p->err)
           : code == BZ_STREAM_END ? EXG_OK
                                   : damaged(p, "what bzip2 compressed is damaged, or cut short");
}

static exg_status unpack_bzip2(packed *p)
{
    uint64_t at = 0;

    do {
        EXG_TRY(bunzip_stream(p, &at));
    } while (p->length - at >= 3 && memcmp(p->data + at, "BZh", 3) == 0);
    return check_rest(p, at);
}
#endif

/* ---- xz ----------------------------------------------------------------------------------------
 */

#ifdef EXG_LZMA
static exg_status unxz_streams(packed *p, lzma_stream *stream)
{
    uint64_t at = 0;
    lzma_ret code = LZMA_OK;

    while (code == LZMA_OK) {
        uint32_t given = give(p, at);

        stream->next_in = p->data + at;
        stream->avail_in = given;
        stream->next_out = p->chunk;
        stream->avail_out = CHUNK_BYTES;
        code = lzma_code(stream, given == p->length - at ? LZMA_FINISH : LZMA_RUN);
        at += given - stream->avail_in;
        EXG_TRY(put(p, CHUNK_BYTES - stream->avail_out));
    }
    return code == LZMA_MEM_ERROR        ? EXG_OUT_OF_MEMORY(p->err)
           : code == LZMA_MEMLIMIT_ERROR ? too_large(p)
           : code == LZMA_OPTIONS_ERROR
               ? damaged(p, "xz has it compressed in a way that is not known")
           : code == LZMA_STREAM_END ? EXG_OK
                                     : damaged(p, "what xz compressed is damaged, or cut short");
}

/* Streams one behind the other, with zeros between. */
static exg_status unpack_xz(packed *p)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    exg_status status;

    if (lzma_stream_decoder(&stream, XZ_BYTES, LZMA_CONCATENATED) != LZMA_OK) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    status = unxz_streams(p, &stream);
    lzma_end(&stream);
    return status;
}
#endif

/* ---- what is in it -----------------------------------------------------------------------------
 */

/* What unpack() makes of `length` bytes at `data`. */
static exg_status spool(const uint8_t *data, uint64_t length, uint64_t limit,
                        exg_status (*unpack)(packed *p), const uint32_t *crc, exg_mapping *mapping,
                        exg_error *err)
{
    packed p = {.data = data, .length = length, .err = err, .chunk = malloc(CHUNK_BYTES)};
    exg_status status =
        p.chunk == NULL ? EXG_OUT_OF_MEMORY(err) : exg_spool_open(&p.spool, limit, err);

    if (status == EXG_OK) {
        status = unpack(&p);
        if (status == EXG_OK && crc != NULL && *crc != p.crc) {
            status = damaged(&p, "the crc of what is deflated is another");
        }
        if (status == EXG_OK) {
            status = exg_spool_map(&p.spool, mapping, err);
        }
        exg_spool_close(&p.spool);
    }
    free(p.chunk);
    return status;
}

exg_status exg_unpack_zstd(const uint8_t *data, uint64_t length, uint64_t limit,
                           exg_mapping *mapping, exg_error *err)
{
    return spool(data, length, limit, unpack_zstd, NULL, mapping, err);
}

/* The source is that from now on. */
static exg_status replace(exg_opened *opened, const uint8_t *data, uint64_t length,
                          exg_status (*unpack)(packed *p), const uint32_t *crc, exg_error *err)
{
    exg_mapping mapping = {0};

    EXG_TRY(spool(data, length, opened->source.budget, unpack, crc, &mapping, err));
    exg_opened_replace(opened, &mapping);
    return EXG_OK;
}

/* "folder/model.npy.gz" is called "folder/model.npy" from now on, an archive as its member. */
static exg_status rename_source(exg_opened *opened, const char *member, size_t length,
                                exg_error *err)
{
    size_t folder = (size_t)(exg_path_name(opened->path) - opened->path);
    const char *slash = member == NULL ? NULL : memrchr(member, '/', length);
    const char *name = slash == NULL ? member : slash + 1;
    size_t bytes = member == NULL ? 0 : length - (size_t)(name - member);
    char *path;

    if (member == NULL) {
        char *dot = strrchr(opened->path + folder, '.');

        if (dot != NULL && dot != opened->path + folder) {
            *dot = '\0';
        }
        return EXG_OK;
    }
    path = malloc(folder + bytes + 1);
    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(path, opened->path, folder);
    memcpy(path + folder, name, bytes);
    path[folder + bytes] = '\0';
    free(opened->path);
    opened->path = path;
    opened->source.path = path;
    return EXG_OK;
}

static exg_status enter_zip(exg_opened *opened, const char *name, size_t length, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, opened->source.budget);
    exg_zip zip;
    char *copy = arena == NULL ? NULL : exg_arena_strndup(arena, name, length);
    const exg_zip_entry *entry = NULL;
    exg_status status = copy == NULL ? EXG_OUT_OF_MEMORY(err)
                                     : exg_zip_open_keys(opened->source.data, opened->source.length,
                                                         arena, &zip, err);

    if (status == EXG_OK) {
        entry = exg_zip_find(&zip, copy);
        status = rename_source(opened, copy, length, err);
    }
    if (status == EXG_OK && entry->deflated) {
        status = replace(opened, zip.data + entry->data_offset, entry->stored_bytes,
                         unpack_deflated, &entry->crc, err);
    } else if (status == EXG_OK) {
        opened->source.data += entry->data_offset;
        opened->source.length = entry->bytes;
    }
    exg_arena_destroy(arena);
    return status;
}

static exg_status enter_tar(exg_opened *opened, const char *name, size_t length, exg_error *err)
{
    const exg_source whole = opened->source;
    exg_tar_member member;
    uint64_t at = 0;

    EXG_TRY(rename_source(opened, name, length, err));
    while (exg_tar_next(whole.data, whole.length, &at, &member)) {
        if (member.is_file && member.name == name) {
            opened->source.data += member.offset;
            opened->source.length = member.bytes;
            break;
        }
    }
    return EXG_OK;
}

typedef struct packer {
    const char *magic;
    size_t magic_bytes;
    uint64_t least; /* what is shorter is none */
    exg_status (*unpack)(packed *p);
} packer;

static const packer packers[] = {
    {"\x1f\x8b\x08", 3, 18, unpack_gzip},
    {"\x28\xb5\x2f\xfd", 4, 9, unpack_zstd},
#ifdef EXG_BZIP2
    {"BZh", 3, 4, unpack_bzip2},
#endif
#ifdef EXG_LZMA
    {"\xfd\x37\x7a\x58\x5a", 6, 6, unpack_xz}, /* with its NUL */
#endif
};

static const packer *find_packer(const exg_source *source)
{
    for (size_t i = 0; i < sizeof(packers) / sizeof(packers[0]); i++) {
        if (source->length >= packers[i].least &&
            memcmp(source->data, packers[i].magic, packers[i].magic_bytes) == 0) {
            return &packers[i];
        }
    }
    return NULL;
}

/* One layer; *done: there is none. */
static exg_status unpack_layer(exg_opened *opened, bool *done, exg_error *err)
{
    exg_source *source = &opened->source;
    const packer *found = find_packer(source);
    const char *name;
    size_t length;

    *done = exg_weights_find_format(source->data, source->length) != EXG_WEIGHTS_FORMAT_COUNT;
    if (*done) {
        return EXG_OK;
    }
    if (found != NULL) {
        EXG_TRY(replace(opened, source->data, source->length, found->unpack, NULL, err));
        return rename_source(opened, NULL, 0, err);
    }
    *done = !exg_foreign_archive(source, &name, &length);
    if (*done) {
        return EXG_OK;
    }
    EXG_TRY(exg_source_need(source, 0, source->length, 0, err));
    return (exg_tar_sniff(source->data, source->length) ? enter_tar : enter_zip)(opened, name,
                                                                                 length, err);
}

exg_status exg_source_unpack(exg_opened *opened, exg_error *err)
{
    bool done = false;

    for (int i = 0; i < LAYERS_MAX && !done; i++) {
        EXG_TRY(unpack_layer(opened, &done, err));
    }
    return EXG_OK;
}
