/* frames.c - byte planes, zstd where it pays, checksums. */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode */
#include "libexport/weights/frames.h"

#include "libexport/base/checked.h"
#include "libexport/base/xxh3.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Exponents are independent draws: Huffman alone, with no look for matches (the lower the
 * level the less), packs them best and fastest: 33.9 % at -100000, 36.2 % at -20, 36.8 %
 * at 1, where order 0 allows 33.5 %. What repeats itself shows in a sample. */
#define LEVEL_HUFFMAN (-100000)
#define LEVEL_MATCHES 3
#define ENTROPY_MAX   7.8 /* bits a byte: above it no plane is tried */
#define PIECES        8
#define PIECE_BYTES   (4u << 10)  /* of a plane, whose bytes are counted */
#define SAMPLE_BYTES  (16u << 10) /* of a plane, packed both ways */
#define SAMPLE_BOUND  ZSTD_COMPRESSBOUND(SAMPLE_BYTES)

uint64_t exg_frame_count(uint64_t plain_length)
{
    return plain_length / EXG_FRAME_BYTES + (plain_length % EXG_FRAME_BYTES != 0);
}

/* Plain bytes of plane `p` in a frame of `length` bytes. */
static uint32_t plane_bytes(uint32_t length, uint32_t element_bytes, uint32_t p)
{
    return p >= length ? 0 : (length - p + element_bytes - 1) / element_bytes;
}

static uint32_t frame_length(const exg_frames *frames, uint64_t index)
{
    uint64_t left = frames->plain_length - index * EXG_FRAME_BYTES;

    return left < EXG_FRAME_BYTES ? (uint32_t)left : EXG_FRAME_BYTES;
}

uint32_t exg_frame_stored_bytes(const exg_frame *frame)
{
    uint32_t sum = 0;

    for (int p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
        sum += frame->planes[p]; /* each is at most 1 MiB: it fits */
    }
    return sum;
}

exg_status exg_frames_check_index(const exg_frames *frames, exg_error *err)
{
    uint32_t width = frames->element_bytes;
    uint64_t at = 0;

    if (width != 1 && width != 2 && width != 4 && width != 8) {
        return EXG_FAIL(err, MALFORMED, "EXG-020", "elements of %u bytes cannot be cut in planes",
                        width);
    }
    if (frames->count != exg_frame_count(frames->plain_length)) {
        return EXG_FAIL(err, MALFORMED, "EXG-020", "%u frames for %llu bytes", frames->count,
                        (unsigned long long)frames->plain_length);
    }
    for (uint32_t i = 0; i < frames->count; i++) {
        const exg_frame *frame = &frames->items[i];
        uint32_t length = frame_length(frames, i);

        for (uint32_t p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
            if (frame->planes[p] > (p < width ? plane_bytes(length, width, p) : 0)) {
                return EXG_FAIL(err, MALFORMED, "EXG-021",
                                "frame %u: plane %u has %u stored bytes, more than plain ones", i,
                                p, frame->planes[p]);
            }
        }
        if (frame->offset != at) {
            return EXG_FAIL(err, MALFORMED, "EXG-021", "frame %u is at offset %llu, not %llu", i,
                            (unsigned long long)frame->offset, (unsigned long long)at);
        }
        at += exg_frame_stored_bytes(frame);
    }
    if (at != frames->stored_length) {
        return EXG_FAIL(err, MALFORMED, "EXG-021", "the frames take %llu bytes, %llu are stored",
                        (unsigned long long)at, (unsigned long long)frames->stored_length);
    }
    return EXG_OK;
}

/* ---- reading --------------------------------------------------------------------------- */

/* plain[i * width + p] = planes[p][i], of `length` bytes in all. Loops of constant width
 * become shuffles. */
static void join_planes(uint8_t *restrict plain, uint32_t width, uint32_t length,
                        const uint8_t *const *planes)
{
    const uint8_t *restrict a = planes[0];
    const uint8_t *restrict b = planes[width > 1 ? 1 : 0];
    uint32_t whole = length / width;

    switch (width) {
    case 1:
        memcpy(plain, a, length);
        return;
    case 2:
        for (uint32_t i = 0; i < whole; i++) {
            plain[(size_t)i * 2] = a[i];
            plain[(size_t)i * 2 + 1] = b[i];
        }
        break;
    case 4: {
        const uint8_t *restrict c = planes[2];
        const uint8_t *restrict d = planes[3];

        for (uint32_t i = 0; i < whole; i++) {
            plain[(size_t)i * 4] = a[i];
            plain[(size_t)i * 4 + 1] = b[i];
            plain[(size_t)i * 4 + 2] = c[i];
            plain[(size_t)i * 4 + 3] = d[i];
        }
        break;
    }
    default:
        for (uint32_t p = 0; p < width; p++) {
            for (uint32_t i = 0; i < whole; i++) {
                plain[(size_t)i * width + p] = planes[p][i];
            }
        }
        break;
    }
    for (uint32_t p = 0; p < length % width; p++) {
        plain[(size_t)whole * width + p] = planes[p][whole];
    }
}

struct exg_frame_reader {
    ZSTD_DCtx *zstd;
    uint8_t *planes; /* EXG_FRAME_BYTES: what zstd gives */
    uint8_t *plain;  /* EXG_FRAME_BYTES, for frames read in part */
};

exg_status exg_frame_reader_create(exg_frame_reader **reader, exg_error *err)
{
    exg_frame_reader *r = calloc(1, sizeof(*r));

    *reader = r;
    if (r != NULL) {
        r->zstd = ZSTD_createDCtx();
        r->planes = malloc(EXG_FRAME_BYTES);
        r->plain = malloc(EXG_FRAME_BYTES);
    }
    if (r == NULL || r->zstd == NULL || r->planes == NULL || r->plain == NULL) {
        exg_frame_reader_destroy(r);
        *reader = NULL;
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    return EXG_OK;
}

void exg_frame_reader_destroy(exg_frame_reader *reader)
{
    if (reader != NULL) {
        ZSTD_freeDCtx(reader->zstd);
        free(reader->planes);
        free(reader->plain);
        free(reader);
    }
}

exg_status exg_frame_readers_create(uint32_t count, exg_frame_reader ***readers, exg_error *err)
{
    exg_status status = EXG_OK;

    *readers = calloc(count, sizeof(**readers));
    if (*readers == NULL) {
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    for (uint32_t i = 0; i < count && status == EXG_OK; i++) {
        status = exg_frame_reader_create(&(*readers)[i], err);
    }
    if (status != EXG_OK) {
        exg_frame_readers_destroy(*readers, count);
        *readers = NULL;
    }
    return status;
}

void exg_frame_readers_destroy(exg_frame_reader **readers, uint32_t count)
{
    for (uint32_t i = 0; readers != NULL && i < count; i++) {
        exg_frame_reader_destroy(readers[i]);
    }
    free(readers);
}

static exg_status inflate_frame(exg_frame_reader *r, const exg_frames *frames,
                                const uint8_t *stored, uint32_t index, uint8_t *plain,
                                exg_error *err)
{
    const exg_frame *frame = &frames->items[index];
    const uint8_t *from = stored + frame->offset;
    uint32_t length = frame_length(frames, index);
    uint32_t width = frames->element_bytes;
    const uint8_t *planes[EXG_FRAME_PLANES_MAX];
    uint8_t *to = r->planes;

    if (XXH3_64bits(from, exg_frame_stored_bytes(frame)) != frame->checksum) {
        return EXG_FAIL(err, MALFORMED, "EXG-022",
                        "the checksum of frame %u does not match: damaged bytes", index);
    }
    for (uint32_t p = 0; p < width; p++) {
        uint32_t bytes = plane_bytes(length, width, p);

        planes[p] = from;
        if (frame->planes[p] != bytes) {
            size_t made = ZSTD_decompressDCtx(r->zstd, to, bytes, from, frame->planes[p]);

            if (ZSTD_isError(made) || made != bytes) {
                return EXG_FAIL(err, MALFORMED, "EXG-023", "plane %u of frame %u: %s", p, index,
                                ZSTD_isError(made) ? ZSTD_getErrorName(made) : "wrong length");
            }
            planes[p] = to;
            to += bytes;
        }
        from += frame->planes[p];
    }
    join_planes(plain, width, length, planes);
    return EXG_OK;
}

static exg_status read_range(exg_frame_reader *r, const exg_frames *frames, const uint8_t *stored,
                             uint64_t offset, uint64_t length, uint8_t *out, exg_error *err)
{
    while (length > 0) {
        uint32_t index = (uint32_t)(offset / EXG_FRAME_BYTES);
        uint32_t start = (uint32_t)(offset % EXG_FRAME_BYTES);
        uint32_t whole = frame_length(frames, index);
        uint32_t part = whole - start < length ? whole - start : (uint32_t)length;

        if (part == whole) {
            EXG_TRY(inflate_frame(r, frames, stored, index, out, err));
        } else {
            EXG_TRY(inflate_frame(r, frames, stored, index, r->plain, err));
            memcpy(out, r->plain + start, part);
        }
        out += part;
        offset += part;
        length -= part;
    }
    return EXG_OK;
}

exg_status exg_frames_read(const exg_frames *frames, const uint8_t *stored, uint64_t offset,
                           uint64_t length, void *out, exg_frame_reader *reader, exg_error *err)
{
    exg_frame_reader *own = NULL;
    exg_status status;

    if (!exg_range_inside(offset, length, frames->plain_length)) {
        return EXG_FAIL(err, USAGE, "WGT-RANGE", "bytes %llu and %llu more of %llu",
                        (unsigned long long)offset, (unsigned long long)length,
                        (unsigned long long)frames->plain_length);
    }
    if (reader == NULL) {
        EXG_TRY(exg_frame_reader_create(&own, err));
    }
    status = read_range(own == NULL ? reader : own, frames, stored, offset, length, out, err);
    exg_frame_reader_destroy(own);
    return status;
}

/* ---- writing --------------------------------------------------------------------------- */

struct exg_packer {
    ZSTD_CCtx *huffman;
    ZSTD_CCtx *matches;
    uint8_t *plane;  /* EXG_FRAME_BYTES */
    uint8_t *sample; /* SAMPLE_BOUND: a sample packed, only for its length */
};

exg_status exg_packer_create(exg_packer **packer, exg_error *err)
{
    exg_packer *p = calloc(1, sizeof(*p));

    *packer = p;
    if (p != NULL) {
        p->huffman = ZSTD_createCCtx();
        p->matches = ZSTD_createCCtx();
        p->plane = malloc(EXG_FRAME_BYTES);
        p->sample = malloc(SAMPLE_BOUND);
    }
    if (p == NULL || p->huffman == NULL || p->matches == NULL || p->plane == NULL ||
        p->sample == NULL) {
        exg_packer_destroy(p);
        *packer = NULL;
        return EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory");
    }
    (void)ZSTD_CCtx_setParameter(p->huffman, ZSTD_c_compressionLevel, LEVEL_HUFFMAN);
    (void)ZSTD_CCtx_setParameter(p->huffman, ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
    (void)ZSTD_CCtx_setParameter(p->matches, ZSTD_c_compressionLevel, LEVEL_MATCHES);
    return EXG_OK;
}

void exg_packer_destroy(exg_packer *packer)
{
    if (packer != NULL) {
        ZSTD_freeCCtx(packer->huffman);
        ZSTD_freeCCtx(packer->matches);
        free(packer->plane);
        free(packer->sample);
        free(packer);
    }
}

/* `count` bytes of plane `p` from element `first` on. */
static void cut_plane(uint8_t *restrict to, const uint8_t *restrict plain, uint32_t width,
                      uint32_t p, uint32_t first, uint32_t count)
{
    const uint8_t *restrict from = plain + (size_t)first * width + p;

    switch (width) { /* constant strides become shuffles */
    case 1:
        memcpy(to, from, count);
        break;
    case 2:
        for (uint32_t i = 0; i < count; i++) {
            to[i] = from[(size_t)i * 2];
        }
        break;
    case 4:
        for (uint32_t i = 0; i < count; i++) {
            to[i] = from[(size_t)i * 4];
        }
        break;
    default:
        for (uint32_t i = 0; i < count; i++) {
            to[i] = from[(size_t)i * width];
        }
        break;
    }
}

/* Is a byte of plane `p` predictable at all? Order 0, in bits a byte, of pieces all over
 * it: of even bytes their number alone makes that 0.006 too few. */
static bool may_pay(const uint8_t *plain, uint32_t width, uint32_t p, uint32_t bytes)
{
    uint32_t counts[4][256] = {{0}};
    uint8_t piece[PIECE_BYTES];
    uint32_t step = bytes < PIECES * PIECE_BYTES ? PIECE_BYTES : bytes / PIECES;
    uint32_t total = 0;
    double bits = 0.0;

    for (uint32_t at = 0; at < bytes; at += step) {
        uint32_t count = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

        cut_plane(piece, plain, width, p, at, count);
        for (uint32_t i = 0; i < count; i++) {
            counts[i % 4][piece[i]]++;
        }
        total += count;
    }
    for (int v = 0; v < 256; v++) {
        uint32_t n = counts[0][v] + counts[1][v] + counts[2][v] + counts[3][v];

        if (n > 0) {
            bits += n * log2((double)total / n);
        }
    }
    return bits <= ENTROPY_MAX * total;
}

/* Is a sample of the plane a tenth shorter when matches are looked for? */
static bool matches_pay(exg_packer *packer, const uint8_t *plane, uint32_t bytes)
{
    uint32_t length = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;
    size_t alone = ZSTD_compress2(packer->huffman, packer->sample, SAMPLE_BOUND, plane, length);
    size_t found = ZSTD_compress2(packer->matches, packer->sample, SAMPLE_BOUND, plane, length);

    return !ZSTD_isError(found) && !ZSTD_isError(alone) && found < alone - alone / 10;
}

/* The plane packed at `to`, or as it is when that is not longer; the length stored. zstd
 * gives up where it would pass that. */
static uint32_t pack_plane(exg_packer *packer, const uint8_t *plane, uint32_t bytes, uint8_t *to)
{
    ZSTD_CCtx *zstd = matches_pay(packer, plane, bytes) ? packer->matches : packer->huffman;
    size_t made = ZSTD_compress2(zstd, to, bytes, plane, bytes);

    if (!ZSTD_isError(made) && made < bytes) {
        return (uint32_t)made;
    }
    memcpy(to, plane, bytes);
    return bytes;
}

uint32_t exg_packer_pack(exg_packer *packer, uint32_t element_bytes, const uint8_t *plain,
                         uint32_t length, exg_frame *frame, uint8_t *stored)
{
    uint32_t at = 0;

    *frame = (exg_frame){0};
    for (uint32_t p = 0; p < element_bytes; p++) {
        uint32_t bytes = plane_bytes(length, element_bytes, p);

        frame->planes[p] = bytes;
        if (bytes > 0 && may_pay(plain, element_bytes, p, bytes)) {
            cut_plane(packer->plane, plain, element_bytes, p, 0, bytes);
            frame->planes[p] = pack_plane(packer, packer->plane, bytes, stored + at);
        } else {
            cut_plane(stored + at, plain, element_bytes, p, 0, bytes);
        }
        at += frame->planes[p];
    }
    frame->checksum = XXH3_64bits(stored, at);
    return at;
}
