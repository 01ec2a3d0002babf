/* patch_file.c - numbers of a patch file to and from bytes, and differences of elements. */
#include "libexport/artifact/patch_file.h"

#include "libexport/base/checked.h"
#include "libexport/base/hex.h"
#include "libexport/base/little.h"
#include "libexport/base/options.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/checksum.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 1

/* ---- the header and the records ---------------------------------------------------------------
 *
 *   header    8 magic, u32 version, u32 0, u64 bytes of A, u64 bytes of B, 32 SHA-256 of A, 32 of
 * B, u64 records, u64 XXH3-64 of the records, u64 bytes of the file, u64 XXH3-64 of all that record
 * u64 length, u64 from, u64 XXH3-64 of the frame, 8 u32 planes, u8 kind, u8 width, 6 0
 */

void exg_patch_header_write(const exg_patch_header *header, uint8_t out[EXG_PATCH_HEADER_BYTES])
{
    memset(out, 0, EXG_PATCH_HEADER_BYTES);
    memcpy(out, EXG_PATCH_MAGIC, 8);
    exg_little_put(out + 8, VERSION, 4);
    exg_little_put(out + 16, header->a_bytes, 8);
    exg_little_put(out + 24, header->b_bytes, 8);
    memcpy(out + 32, header->a_sha256, 32);
    memcpy(out + 64, header->b_sha256, 32);
    exg_little_put(out + 96, header->record_count, 8);
    exg_little_put(out + 104, header->records_checksum, 8);
    exg_little_put(out + 112, header->file_bytes, 8);
    exg_little_put(out + 120, XXH3_64bits(out, 120), 8);
}

exg_status exg_patch_header_read(const uint8_t *data, uint64_t length, exg_patch_header *header,
                                 exg_error *err)
{
    uint64_t records;

    *header = (exg_patch_header){0};
    if (length < EXG_PATCH_HEADER_BYTES || memcmp(data, EXG_PATCH_MAGIC, 8) != 0) {
        return EXG_FAIL(err, MALFORMED, "PAT-HEADER",
                        "this is no patch of exg, or it is cut short");
    }
    if (exg_little_get(data + 8, 4) != VERSION) {
        return EXG_FAIL(err, UNSUPPORTED, "PAT-VERSION", "a patch of version %u; this reads %d",
                        (unsigned)exg_little_get(data + 8, 4), VERSION);
    }
    if (exg_little_get(data + 120, 8) != XXH3_64bits(data, 120)) {
        return EXG_FAIL(err, MALFORMED, "PAT-HEADER", "the checksum of the header does not match");
    }
    header->a_bytes = exg_little_get(data + 16, 8);
    header->b_bytes = exg_little_get(data + 24, 8);
    memcpy(header->a_sha256, data + 32, 32);
    memcpy(header->b_sha256, data + 64, 32);
    header->record_count = exg_little_get(data + 96, 8);
    header->records_checksum = exg_little_get(data + 104, 8);
    header->file_bytes = exg_little_get(data + 112, 8);
    if (header->file_bytes != length) {
        return EXG_FAIL(err, MALFORMED, "PAT-HEADER",
                        "the patch has %llu bytes, and was written with %llu",
                        (unsigned long long)length, (unsigned long long)header->file_bytes);
    }
    if (!exg_mul_u64(header->record_count, EXG_PATCH_RECORD_BYTES, &records) ||
        records > length - EXG_PATCH_HEADER_BYTES || header->record_count > UINT32_MAX) {
        return EXG_FAIL(err, MALFORMED, "PAT-HEADER", "there is no room for its records");
    }
    return EXG_OK;
}

void exg_patch_record_write(const exg_patch_record *record, uint8_t out[EXG_PATCH_RECORD_BYTES])
{
    memset(out, 0, EXG_PATCH_RECORD_BYTES);
    exg_little_put(out, record->length, 8);
    exg_little_put(out + 8, record->from, 8);
    exg_little_put(out + 16, record->frame.checksum, 8);
    for (uint32_t p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
        exg_little_put(out + 24 + 4 * p, record->frame.planes[p], 4);
    }
    out[56] = (uint8_t)record->kind;
    out[57] = (uint8_t)record->width;
}

/* The frame of a record as a storage of one. */
static exg_frames frames_of(const exg_patch_record *record, exg_frame *frame)
{
    *frame = record->frame;
    frame->offset = 0;
    return (exg_frames){.items = frame,
                        .plain_length = record->length,
                        .stored_length = exg_frame_stored_bytes(frame),
                        .count = 1,
                        .element_bytes = record->width};
}

/* One frame of the two that a sparse record has: its planes from `first` on. */
static exg_frames part_of(const exg_patch_record *record, uint32_t first, uint32_t width,
                          uint64_t plain, exg_frame *frame)
{
    *frame = (exg_frame){0};
    for (uint32_t p = 0; p < width; p++) {
        frame->planes[p] = record->frame.planes[first + p];
    }
    return (exg_frames){.items = frame,
                        .plain_length = plain,
                        .stored_length = exg_frame_stored_bytes(frame),
                        .count = 1,
                        .element_bytes = width};
}

/* How many values there are is known when the bits are. */
static bool is_sparse_sound(const exg_patch_record *record)
{
    const uint32_t width = record->width;
    exg_frame frame;
    exg_frames bits;

    if (width == 0 || width > EXG_PATCH_SPARSE_WIDTH || (width & (width - 1)) != 0 ||
        record->length > EXG_FRAME_BYTES || record->length % width != 0) {
        return false;
    }
    for (uint32_t p = 1 + width; p < EXG_FRAME_PLANES_MAX; p++) {
        if (record->frame.planes[p] != 0) {
            return false;
        }
    }
    bits = part_of(record, 0, 1, (record->length / width + 7) / 8, &frame);
    return exg_frames_check_index(&bits, NULL) == EXG_OK;
}

static bool is_sound(const exg_patch_record *record, const exg_patch_header *header,
                     const uint8_t *zeros)
{
    exg_frame frame;
    exg_frames frames;

    if (record->length == 0 || memcmp(zeros, "\0\0\0\0\0\0", 6) != 0 ||
        (record->kind != EXG_PATCH_NEW &&
         !exg_range_inside(record->from, record->length, header->a_bytes))) {
        return false;
    }
    for (uint32_t p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
        if (record->frame.planes[p] > EXG_FRAME_BYTES) {
            return false;
        }
    }
    if (record->kind == EXG_PATCH_SPARSE) {
        return is_sparse_sound(record);
    }
    frames = frames_of(record, &frame);
    return record->kind == EXG_PATCH_COPY
               ? frames.stored_length == 0
               : record->kind <= EXG_PATCH_DIFFERENCE && record->length <= EXG_FRAME_BYTES &&
                     exg_frames_check_index(&frames, NULL) == EXG_OK;
}

bool exg_patch_record_read(const uint8_t from[EXG_PATCH_RECORD_BYTES],
                           const exg_patch_header *header, exg_patch_record *record)
{
    *record = (exg_patch_record){.kind = (exg_patch_kind)from[56],
                                 .width = from[57],
                                 .length = exg_little_get(from, 8),
                                 .from = exg_little_get(from + 8, 8)};
    record->frame.checksum = exg_little_get(from + 16, 8);
    for (uint32_t p = 0; p < EXG_FRAME_PLANES_MAX; p++) {
        record->frame.planes[p] = (uint32_t)exg_little_get(from + 24 + 4 * p, 4);
    }
    return is_sound(record, header, from + 58);
}

exg_status exg_patch_records_read(const uint8_t *data, const exg_patch_header *header,
                                  exg_patch_record *records, exg_error *err)
{
    const uint64_t bytes = header->record_count * EXG_PATCH_RECORD_BYTES;
    const uint64_t end = header->file_bytes - bytes;
    const uint8_t *from = data + end;
    uint64_t made = 0;
    uint64_t at = EXG_PATCH_HEADER_BYTES;

    if (XXH3_64bits(from, (size_t)bytes) != header->records_checksum) {
        return EXG_FAIL(err, MALFORMED, "PAT-RECORD", "the checksum of the records does not match");
    }
    for (uint64_t r = 0; r < header->record_count; r++, from += EXG_PATCH_RECORD_BYTES) {
        if (!exg_patch_record_read(from, header, &records[r]) ||
            !exg_add_u64(made, records[r].length, &made)) {
            return EXG_FAIL(err, MALFORMED, "PAT-RECORD", "record %llu makes no sense",
                            (unsigned long long)r);
        }
        records[r].frame.offset = at;
        at += exg_frame_stored_bytes(&records[r].frame);
    }
    if (at != end || made != header->b_bytes) {
        return EXG_FAIL(err, MALFORMED, "PAT-RECORD", "the records do not make up the file");
    }
    return EXG_OK;
}

/* ---- differences --------------------------------------------------------------------------------
 */

#define LOOPS(bits)                                                                                \
    static void subtract_##bits(const uint8_t *restrict a, const uint8_t *restrict b,              \
                                uint64_t count, uint8_t *restrict out)                             \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            uint##bits##_t x;                                                                      \
            uint##bits##_t y;                                                                      \
                                                                                                   \
            memcpy(&x, a + i * sizeof(x), sizeof(x));                                              \
            memcpy(&y, b + i * sizeof(y), sizeof(y));                                              \
            y = (uint##bits##_t)(y - x);                                                           \
            y = (uint##bits##_t)((uint##bits##_t)(y << 1) ^                                        \
                                 (uint##bits##_t)(0u - (y >> (bits - 1))));                        \
            memcpy(out + i * sizeof(y), &y, sizeof(y));                                            \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void add_##bits(const uint8_t *restrict a, uint64_t count, uint8_t *restrict in_out)    \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            uint##bits##_t x;                                                                      \
            uint##bits##_t y;                                                                      \
                                                                                                   \
            memcpy(&x, a + i * sizeof(x), sizeof(x));                                              \
            memcpy(&y, in_out + i * sizeof(y), sizeof(y));                                         \
            y = (uint##bits##_t)((uint##bits##_t)(y >> 1) ^ (uint##bits##_t)(0u - (y & 1u)));      \
            y = (uint##bits##_t)(y + x);                                                           \
            memcpy(in_out + i * sizeof(y), &y, sizeof(y));                                         \
        }                                                                                          \
    }

LOOPS(8)
LOOPS(16)
LOOPS(32)
LOOPS(64)

void exg_patch_subtract(const uint8_t *a, const uint8_t *b, uint32_t width, uint64_t length,
                        uint8_t *out)
{
    const uint64_t whole = length / width * width;

    if (width == 8) {
        subtract_64(a, b, length / 8, out);
    } else if (width == 4) {
        subtract_32(a, b, length / 4, out);
    } else if (width == 2) {
        subtract_16(a, b, length / 2, out);
    } else {
        subtract_8(a, b, length, out);
    }
    subtract_8(a + whole, b + whole, length - whole, out + whole);
}

void exg_patch_add(const uint8_t *a, uint32_t width, uint64_t length, uint8_t *in_out)
{
    const uint64_t whole = length / width * width;

    if (width == 8) {
        add_64(a, length / 8, in_out);
    } else if (width == 4) {
        add_32(a, length / 4, in_out);
    } else if (width == 2) {
        add_16(a, length / 2, in_out);
    } else {
        add_8(a, length, in_out);
    }
    add_8(a + whole, length - whole, in_out + whole);
}

/* ---- sparse differences
 * ---------------------------------------------------------------------------
 */

static bool is_zero(const uint8_t *element, uint32_t width)
{
    static const uint8_t zeros[EXG_PATCH_SPARSE_WIDTH];

    return memcmp(element, zeros, width) == 0;
}

uint32_t exg_patch_pack_sparse(exg_packer *packer, const uint8_t *differences, uint32_t width,
                               uint32_t length, uint8_t *room, exg_frame *frame, uint8_t *out)
{
    const uint32_t count = length / width;
    const uint32_t bytes = (count + 7) / 8;
    uint8_t *values = room + bytes;
    uint32_t found = 0;
    uint32_t made;
    exg_frame part;

    if (width > EXG_PATCH_SPARSE_WIDTH || length % width != 0) {
        return 0;
    }
    memset(room, 0, bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_zero(differences + (size_t)i * width, width)) {
            if (found > count / 2) {
                return 0;
            }
            room[i / 8] |= (uint8_t)(1u << i % 8);
            memcpy(values + (size_t)found++ * width, differences + (size_t)i * width, width);
        }
    }
    made = exg_packer_pack(packer, 1, room, bytes, &part, out);
    *frame = (exg_frame){.planes = {part.planes[0]}};
    made += exg_packer_pack(packer, width, values, found * width, &part, out + made);
    memcpy(frame->planes + 1, part.planes, width * sizeof(part.planes[0]));
    frame->checksum = XXH3_64bits(out, made);
    return made;
}

/* Each bit that is set takes the next of the values. */
static void spread(const uint8_t *bits, const uint8_t *values, uint32_t width, uint32_t count,
                   uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((bits[i / 8] >> i % 8 & 1) != 0) {
            memcpy(out + (size_t)i * width, values, width);
            values += width;
        }
    }
}

static bool read_part(exg_frames *part, const uint8_t *stored, uint8_t *out,
                      exg_frame_reader *reader)
{
    part->items->checksum = XXH3_64bits(stored, part->stored_length); /* that of both is right */
    return exg_frames_check_index(part, NULL) == EXG_OK &&
           exg_frames_read(part, stored, 0, part->plain_length, out, reader, NULL) == EXG_OK;
}

/* The differences of a sparse record; false: they are damaged. `room` is EXG_FRAME_BYTES and an
 * eighth. */
static bool expand_sparse(const uint8_t *stored, const exg_patch_record *record, uint8_t *out,
                          exg_frame_reader *reader, uint8_t *room)
{
    const uint32_t count = (uint32_t)record->length / record->width;
    const uint32_t bytes = (count + 7) / 8;
    uint32_t found = 0;
    exg_frame frame;
    exg_frames part = part_of(record, 0, 1, bytes, &frame);

    if (XXH3_64bits(stored, exg_frame_stored_bytes(&record->frame)) != record->frame.checksum ||
        !read_part(&part, stored, room, reader) ||
        (count % 8 != 0 && room[bytes - 1] >> count % 8 != 0)) {
        return false;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        found += (uint32_t)__builtin_popcount(room[i]);
    }
    stored += part.stored_length;
    part = part_of(record, 1, record->width, (uint64_t)found * record->width, &frame);
    if (found == 0 ? part.stored_length != 0 : !read_part(&part, stored, room + bytes, reader)) {
        return false;
    }
    memset(out, 0, (size_t)record->length);
    spread(room, room + bytes, record->width, count, out);
    return true;
}

static exg_status read_sparse(const uint8_t *stored, const exg_patch_record *record, uint8_t *out,
                              exg_frame_reader *reader, bool *sound, exg_error *err)
{
    uint8_t *room = malloc(EXG_FRAME_BYTES + EXG_FRAME_BYTES / 8);

    if (room == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *sound = expand_sparse(stored, record, out, reader, room);
    free(room);
    return EXG_OK;
}

exg_status exg_patch_record_expand(const uint8_t *patch, const exg_patch_record *record,
                                   const uint8_t *a, uint64_t offset, uint64_t length, uint8_t *out,
                                   exg_frame_reader *reader, exg_error *err)
{
    const uint8_t *stored = patch + record->frame.offset;
    exg_frame frame;
    exg_frames frames;
    bool sound = false;

    if (record->kind == EXG_PATCH_COPY) {
        memcpy(out, a + record->from + offset, (size_t)length);
        return EXG_OK;
    }
    if (record->kind == EXG_PATCH_SPARSE) {
        EXG_TRY(read_sparse(stored, record, out, reader, &sound, err));
    } else {
        frames = frames_of(record, &frame);
        sound = exg_frames_read(&frames, stored, 0, length, out, reader, NULL) == EXG_OK;
    }
    if (!sound) {
        return exg_error_at(err,
                            EXG_FAIL(err, MALFORMED, "PAT-DATA",
                                     "%u bytes of the patch are damaged",
                                     exg_frame_stored_bytes(&record->frame)),
                            record->frame.offset);
    }
    if (record->kind != EXG_PATCH_NEW) {
        exg_patch_add(a + record->from, record->width, length, out);
    }
    return EXG_OK;
}

void exg_patch_tell(const exg_patch_header *header, const exg_patch_record *records,
                    exg_patch_info *info)
{
    exg_patch_info own = {
        .a_bytes = header->a_bytes, .b_bytes = header->b_bytes, .patch_bytes = header->file_bytes};
    uint64_t *const sums[] = {[EXG_PATCH_COPY] = &own.equal_bytes,
                              [EXG_PATCH_NEW] = &own.new_bytes,
                              [EXG_PATCH_DIFFERENCE] = &own.changed_bytes,
                              [EXG_PATCH_SPARSE] = &own.changed_bytes};

    if (info == NULL) {
        return;
    }
    for (uint64_t r = 0; r < header->record_count; r++) {
        *sums[records[r].kind] += records[r].length;
    }
    exg_hex_put(header->a_sha256, 32, own.a_sha256);
    exg_hex_put(header->b_sha256, 32, own.b_sha256);
    exg_options_write(info, &own, sizeof(own));
}
