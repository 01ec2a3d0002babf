/* zip_writer.c - see zip_writer.h. */
#include "libexport/formats/pt2/zip_writer.h"

#include "libexport/base/little.h"
#include "libexport/formats/pt2/zip.h"

#include <assert.h>
#include <libdeflate.h>
#include <string.h>

#define SIGNATURE(a, b) (0x4b50u | (uint32_t)(a) << 16 | (uint32_t)(b) << 24)
#define NAME_UTF8       0x0800
#define VERSION_ZIP64   45
#define ALIGNMENT       64
#define LOCAL_BYTES     30
#define CRC_OFFSET      14 /* in a local header */
#define LARGE           UINT32_MAX

static uint64_t at_most_32(uint64_t value)
{
    return value < LARGE ? value : LARGE;
}

/* Version, flags, method, time, date, crc: the same in both headers. */
static void put_common(exg_text *out, uint64_t length, uint32_t crc)
{
    exg_text_little(out, length >= LARGE ? VERSION_ZIP64 : 0, 2);
    exg_text_little(out, NAME_UTF8, 2);
    exg_text_little(out, 0, 2 + 2 + 2);
    exg_text_little(out, crc, 4);
    exg_text_little(out, at_most_32(length), 4);
    exg_text_little(out, at_most_32(length), 4);
}

static exg_status append(exg_zip_writer *zip, const void *data, uint64_t length, exg_error *err)
{
    zip->at += length;
    return zip->file == NULL ? EXG_OK : exg_writer_write(zip->file, data, length, err);
}

/* Padding as torch's: an extra field 'FB' of 'Z's before bytes at a multiple of 64. */
exg_status exg_zip_begin(exg_zip_writer *zip, const char *name, uint64_t length, exg_error *err)
{
    size_t name_bytes = strlen(zip->root) + strlen(name);
    const char *whole = exg_arena_printf(zip->arena, "%s%s", zip->root, name);
    uint64_t at = zip->at;
    uint32_t size_bytes = length >= LARGE ? 20 : 0;
    exg_text header = EXG_TEXT_EMPTY;
    uint64_t padding;
    exg_status status;

    if (name_bytes > 511) { /* torch reads no longer ones */
        return EXG_FAIL(err, LIMIT, "PT2-002", "the record name %.40s... is too long", name);
    }
    zip->names.arena = zip->arena;
    EXG_TRY(whole == NULL         ? EXG_OUT_OF_MEMORY(err)
            : zip->takes_any_name ? EXG_OK
                                  : exg_zip_take_name(&zip->names, whole, err));
    padding = ALIGNMENT - (at + LOCAL_BYTES + name_bytes + size_bytes + 4) % ALIGNMENT;
    padding %= ALIGNMENT;
    exg_text_little(&header, SIGNATURE(3, 4), 4);
    put_common(&header, length, 0);
    exg_text_little(&header, name_bytes, 2);
    exg_text_little(&header, size_bytes + 4 + padding, 2);
    exg_text_puts(&header, zip->root);
    exg_text_puts(&header, name);
    if (size_bytes != 0) {
        exg_text_little(&header, 1, 2);
        exg_text_little(&header, 16, 2);
        exg_text_little(&header, length, 8);
        exg_text_little(&header, length, 8);
    }
    exg_text_little(&header, 'F' | 'B' << 8, 2);
    exg_text_little(&header, padding, 2);
    for (uint64_t i = 0; i < padding; i++) {
        exg_text_putc(&header, 'Z');
    }
    status = header.failed ? EXG_OUT_OF_MEMORY(err) : append(zip, header.data, header.length, err);
    exg_text_free(&header);
    zip->header = at;
    zip->data = zip->at;
    zip->length = length;
    zip->crc = 0;
    return status;
}

exg_status exg_zip_write(exg_zip_writer *zip, const void *data, uint64_t length, exg_error *err)
{
    zip->crc = libdeflate_crc32(zip->crc, data, (size_t)length);
    return append(zip, data, length, err);
}

void exg_zip_count(exg_zip_writer *zip, uint64_t length)
{
    assert(zip->file == NULL);
    zip->at += length;
}

static void put_directory_entry(exg_zip_writer *zip, const char *name)
{
    exg_text *out = &zip->directory;
    bool large = zip->length >= LARGE;
    bool far = zip->header >= LARGE;
    uint32_t extra = (large ? 16u : 0u) + (far ? 8u : 0u);

    exg_text_little(out, SIGNATURE(1, 2), 4);
    exg_text_little(out, 0, 2);
    put_common(out, zip->length, zip->crc);
    exg_text_little(out, strlen(zip->root) + strlen(name), 2);
    exg_text_little(out, extra == 0 ? 0 : extra + 4, 2);
    exg_text_little(out, 0, 2 + 2);
    exg_text_little(out, 0, 2 + 4);
    exg_text_little(out, at_most_32(zip->header), 4);
    exg_text_puts(out, zip->root);
    exg_text_puts(out, name);
    if (extra != 0) {
        exg_text_little(out, 1, 2);
        exg_text_little(out, extra, 2);
        if (large) {
            exg_text_little(out, zip->length, 8);
            exg_text_little(out, zip->length, 8);
        }
        if (far) {
            exg_text_little(out, zip->header, 8);
        }
    }
}

exg_status exg_zip_end(exg_zip_writer *zip, const char *name, exg_error *err)
{
    uint64_t at = zip->header + CRC_OFFSET;

    assert(zip->at - zip->data == zip->length);
    put_directory_entry(zip, name);
    exg_text_add(&zip->patches, (const char *)&at, sizeof(at));
    exg_text_little(&zip->patches, zip->crc, 4);
    zip->count++;
    return zip->patches.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_zip_put(exg_zip_writer *zip, const char *name, const void *data, uint64_t length,
                       exg_error *err)
{
    EXG_TRY(exg_zip_begin(zip, name, length, err));
    EXG_TRY(exg_zip_write(zip, data, length, err));
    return exg_zip_end(zip, name, err);
}

/* Of what passes the fields of the end record. */
static void put_zip64_end(exg_text *out, uint64_t count, uint64_t start, uint64_t bytes)
{
    exg_text_little(out, SIGNATURE(6, 6), 4); /* zip64 end record */
    exg_text_little(out, 44, 8);
    exg_text_little(out, VERSION_ZIP64, 2);
    exg_text_little(out, VERSION_ZIP64, 2);
    exg_text_little(out, 0, 4 + 4);
    exg_text_little(out, count, 8);
    exg_text_little(out, count, 8);
    exg_text_little(out, bytes, 8);
    exg_text_little(out, start, 8);
    exg_text_little(out, SIGNATURE(6, 7), 4); /* and where it is */
    exg_text_little(out, 0, 4);
    exg_text_little(out, start + bytes, 8);
    exg_text_little(out, 1, 4);
}

exg_status exg_zip_finish(exg_zip_writer *zip, exg_error *err)
{
    exg_text *out = &zip->directory;
    uint64_t start = zip->at;
    uint64_t bytes = out->length;
    uint64_t count = zip->count < UINT16_MAX ? zip->count : UINT16_MAX;
    uint64_t begin;

    if (zip->count > 0) { /* an empty archive begins with its end record, by which it is told */
        put_zip64_end(out, zip->count, start, bytes);
    }
    exg_text_little(out, SIGNATURE(5, 6), 4);
    exg_text_little(out, 0, 2 + 2);
    exg_text_little(out, count, 2);
    exg_text_little(out, count, 2);
    exg_text_little(out, at_most_32(bytes), 4);
    exg_text_little(out, at_most_32(start), 4);
    exg_text_little(out, 0, 2);
    EXG_TRY(out->failed ? EXG_OUT_OF_MEMORY(err) : append(zip, out->data, out->length, err));
    begin = zip->file == NULL ? 0 : exg_writer_position(zip->file) - zip->at;
    for (size_t i = 0; zip->file != NULL && i < zip->patches.length; i += sizeof(uint64_t) + 4) {
        uint64_t at;

        memcpy(&at, zip->patches.data + i, sizeof(at));
        EXG_TRY(
            exg_writer_patch(zip->file, begin + at, zip->patches.data + i + sizeof(at), 4, err));
    }
    return EXG_OK;
}

void exg_zip_writer_free(exg_zip_writer *zip)
{
    exg_text_free(&zip->directory);
    exg_text_free(&zip->patches);
}
