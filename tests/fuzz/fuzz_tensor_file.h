/* fuzz_tensor_file.h - any bytes as a file of named tensors, whose data is read. */
#include "tests/fuzz/fuzz.h"

#include <exg/formats.h>
#include <stdlib.h>
#include <string.h>

/* ---- by ranges ------------------------------------------------------------------------------- */

typedef struct held {
    const uint8_t *data;
    size_t size;
} held;

static exg_status read_held(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    const held *h = user;

    (void)err;
    if (length == 0 || offset > h->size || length > h->size - offset) {
        abort();
    }
    memcpy(out, h->data + offset, (size_t)length);
    return EXG_OK;
}

static exg_status open_held(void *user, const char *name, exg_byte_source *source, exg_error *err)
{
    const held *h = user;

    if (strcmp(name, "held://file") != 0) {
        return EXG_FAIL(err, IO, "IO-OPEN", "there is no file beside");
    }
    *source = (exg_byte_source){.length = h->size, .read = read_held, .user = user, .unit = 64};
    return EXG_OK;
}

/* Of small tensors the same bytes. */
static void compare_weight(exg_weights *a, exg_weights *b, uint32_t index)
{
    const exg_weight *x = &a->items[index];
    const exg_weight *y = &b->items[index];
    uint8_t got[4096];
    uint8_t want[4096];
    uint64_t bytes = 0;
    exg_status status;

    if (x->meta == NULL || exg_tensor_meta_bytes(x->meta, &bytes, NULL) != EXG_OK ||
        bytes > sizeof(got)) {
        return;
    }
    status = exg_weight_read(a, x, got, bytes, NULL);
    if (exg_weight_read(b, y, want, bytes, NULL) != status ||
        (status == EXG_OK && memcmp(got, want, (size_t)bytes) != 0)) {
        abort();
    }
}

/* What is opened in memory is opened by ranges, and is the same. */
static void read_by_ranges(const uint8_t *data, size_t size)
{
    held h = {data, size};
    const exg_open_options options = {
        .size = sizeof(options), .open_source = open_held, .source_user = &h};
    exg_weights *memory = NULL;
    exg_weights *ranges = NULL;
    exg_error err;
    exg_status status = exg_weights_open_memory(data, size, NULL, &memory, NULL, &err);
    exg_status other = exg_weights_open("held://file", &options, &ranges, NULL, &err);

    /* What is listed in memory may be a file beside, of whose name there is more to say. */
    if (status == EXG_OK ? other != EXG_OK && memory->skipped_count == 0
                         : status == EXG_MALFORMED && other == EXG_OK) {
        abort();
    }
    if (status == EXG_OK && other == EXG_OK) {
        if (memory->count + memory->skipped_count != ranges->count + ranges->skipped_count) {
            abort();
        }
        /* With a name there may be files beside, where tensors are. */
        for (uint32_t i = 0; i < memory->count && memory->count == ranges->count; i++) {
            compare_weight(memory, ranges, i);
        }
    }
    exg_weights_release(memory);
    exg_weights_release(ranges);
}

/* ---- in memory ------------------------------------------------------------------------------- */

static int read_tensor_file(const uint8_t *data, size_t size)
{
    exg_tensor_file *file = NULL;
    exg_error err;
    size_t sum = 0;

    read_by_ranges(data, size);
    exg_error_clear(&err);
    if (exg_tensor_file_open_memory(data, size, &file, &err) != EXG_OK) {
        if (file != NULL || err.code[0] == '\0') {
            abort();
        }
        return 0;
    }
    for (uint32_t i = 0; i < file->count; i++) {
        const exg_named_tensor *t = &file->items[i];
        uint64_t numel = 1;

        for (uint32_t d = 0; d < t->rank; d++) {
            numel *= (uint64_t)t->shape[d];
        }
        if (numel * exg_dtype_bytes(t->dtype) != t->bytes ||
            exg_tensor_file_find(file, t->name) != t) {
            abort();
        }
        for (uint64_t b = 0; b < t->bytes; b++) {
            sum += ((const uint8_t *)t->data)[b];
        }
    }
    __asm__ volatile("" : : "r"(sum)); /* the bytes were read */
    exg_tensor_file_close(file);
    return 0;
}
