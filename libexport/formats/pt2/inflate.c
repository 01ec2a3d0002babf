/* inflate.c - the plain bytes of a member, and their crc. */
#include "libexport/formats/pt2/zip.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <zlib.h>

#define CHUNK_BYTES (1u << 30) /* zlib counts in 32 bits */
#define RATIO_MAX   1032u      /* deflate cannot do better */

static exg_status broken(const exg_zip *zip, const exg_zip_entry *entry, const char *what,
                         exg_error *err)
{
    return exg_error_at(
        err, EXG_FAIL(err, MALFORMED, "ARC-017", "the deflated member %s %s", entry->name, what),
        zip->base + entry->data_offset);
}

/* Runs the stream into exactly `entry->bytes` bytes. */
static exg_status inflate_into(const exg_zip *zip, const exg_zip_entry *entry, uint8_t *out,
                               exg_error *err)
{
    const uint8_t *in = zip->data + entry->data_offset;
    uint64_t in_left = entry->stored_bytes;
    uint64_t out_left = entry->bytes;
    uint8_t spill; /* a place to notice that the stream goes on */
    z_stream stream = {0};
    int code = Z_OK;

    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
        return EXG_OUT_OF_MEMORY(err);
    }
    while (code == Z_OK) {
        uInt give = in_left < CHUNK_BYTES ? (uInt)in_left : CHUNK_BYTES;
        uInt take = out_left < CHUNK_BYTES ? (uInt)out_left : CHUNK_BYTES;

        stream.next_in = (Bytef *)(uintptr_t)in;
        stream.avail_in = give;
        stream.next_out = take > 0 ? out : &spill;
        stream.avail_out = take > 0 ? take : 1;
        code = inflate(&stream, Z_NO_FLUSH);
        in += give - stream.avail_in;
        in_left -= give - stream.avail_in;
        if (take == 0) {
            if (stream.avail_out == 0) {
                code = Z_BUF_ERROR; /* more bytes than the directory says */
            }
            continue;
        }
        out += take - stream.avail_out;
        out_left -= take - stream.avail_out;
    }
    inflateEnd(&stream);
    if (code == Z_MEM_ERROR) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (code != Z_STREAM_END) {
        return broken(zip, entry, "is damaged or has another size", err);
    }
    if (out_left != 0 || in_left != 0) {
        return broken(zip, entry, "ends before its size is reached", err);
    }
    return EXG_OK;
}

exg_status exg_zip_read(const exg_zip *zip, const exg_zip_entry *entry, uint64_t limit,
                        const uint8_t **data, void **owned, exg_error *err)
{
    uint8_t *out;
    exg_status status;

    *data = zip->data + entry->data_offset;
    *owned = NULL;
    if (!entry->deflated) {
        return EXG_OK;
    }
    if (entry->bytes / RATIO_MAX > entry->stored_bytes) {
        return broken(zip, entry, "claims a size that deflate cannot reach", err);
    }
    if (entry->bytes > limit || entry->bytes > SIZE_MAX) {
        return EXG_FAIL(err, LIMIT, "ZIP-LIMIT", "%s inflates to %llu bytes, the limit is %llu",
                        entry->name, (unsigned long long)entry->bytes, (unsigned long long)limit);
    }
    out = malloc(entry->bytes == 0 ? 1 : (size_t)entry->bytes);
    if (out == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = inflate_into(zip, entry, out, err);
    if (status != EXG_OK) {
        free(out);
        return status;
    }
    *data = out;
    *owned = out;
    return EXG_OK;
}

exg_status exg_zip_check_crc(const exg_zip *zip, const exg_zip_entry *entry, const uint8_t *data,
                             exg_error *err)
{
    uint32_t crc = entry->bytes == 0 ? 0 : libdeflate_crc32(0, data, (size_t)entry->bytes);

    if (crc != entry->crc) {
        return exg_error_at(err,
                            EXG_FAIL(err, MALFORMED, "ARC-012",
                                     "the crc of %s is %08x, the archive says %08x: damaged bytes",
                                     entry->name, (unsigned)crc, (unsigned)entry->crc),
                            zip->base + entry->data_offset);
    }
    return EXG_OK;
}
