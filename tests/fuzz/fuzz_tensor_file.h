/* fuzz_tensor_file.h - any bytes as a file of named tensors, whose data is read. */
#include "tests/fuzz/fuzz.h"

#include <exg/formats.h>
#include <stdlib.h>

static int read_tensor_file(const uint8_t *data, size_t size)
{
    exg_tensor_file *file = NULL;
    exg_error err;
    size_t sum = 0;

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
