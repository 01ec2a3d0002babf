/* fuzz_patch.c - any bytes as a patch for a file of 4 KiB. Checksums of header and records are made
 * right, as whoever means harm can. */
#include "libexport/artifact/patch_file.h"
#include "libexport/base/checked.h"
#include "libexport/base/little.h"
#include "libexport/base/xxh3.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define BASE_BYTES 4096

static void make_right(uint8_t *data, size_t size)
{
    uint64_t records;

    if (size < EXG_PATCH_HEADER_BYTES) {
        return;
    }
    if (exg_mul_u64(exg_little_get(data + 96, 8), EXG_PATCH_RECORD_BYTES, &records) &&
        records <= size - EXG_PATCH_HEADER_BYTES) {
        exg_little_put(data + 104, XXH3_64bits(data + size - records, (size_t)records), 8);
    }
    exg_little_put(data + 16, BASE_BYTES, 8);
    exg_little_put(data + 112, size, 8);
    exg_little_put(data + 120, XXH3_64bits(data, 120), 8);
}

static void expand(const uint8_t *patch, const exg_patch_record *record, const uint8_t *a)
{
    uint64_t length = record->length < EXG_FRAME_BYTES ? record->length : EXG_FRAME_BYTES;
    uint8_t *out = malloc((size_t)length);
    exg_error err;

    exg_error_clear(&err);
    if (out != NULL &&
        exg_patch_record_expand(patch, record, a, 0, length, out, NULL, &err) != EXG_OK &&
        err.code[0] == '\0') {
        abort();
    }
    free(out);
}

static void read_patch(const uint8_t *data, size_t size)
{
    uint8_t *a = calloc(1, BASE_BYTES);
    exg_patch_record *records = NULL;
    exg_patch_header header;
    exg_error err;
    exg_status status;

    exg_error_clear(&err);
    status = exg_patch_header_read(data, size, &header, &err);
    if (status == EXG_OK) {
        records = calloc(header.record_count + 1, sizeof(*records));
        status =
            records == NULL ? EXG_NO_MEMORY : exg_patch_records_read(data, &header, records, &err);
    }
    if (status == EXG_OK && a != NULL) {
        for (uint64_t r = 0; r < header.record_count; r++) {
            expand(data, &records[r], a);
        }
    } else if (records != NULL && err.code[0] == '\0') {
        abort();
    }
    free(records);
    free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *right = malloc(size + 1);

    if (right != NULL) {
        memcpy(right, data, size);
        make_right(right, size);
        read_patch(right, size);
    }
    free(right);
    return 0;
}
