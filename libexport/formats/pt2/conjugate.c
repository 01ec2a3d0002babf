/* conjugate.c - elements that change as they are read. */
#include "libexport/formats/pt2/conjugate.h"

#include "libexport/base/arena.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

typedef struct conjugated {
    exg_weights *weights;
    uint32_t storage;
    exg_dtype dtype;
    bool is_conj, is_neg;
} conjugated;

/* One number of `width` bytes, in host order. */
static void negate(uint8_t *number, uint32_t width, bool is_whole)
{
    uint64_t value = 0;

    if (!is_whole) {
        number[exg_host_byte_order() == EXG_LITTLE_ENDIAN ? width - 1 : 0] ^= 0x80;
        return;
    }
    if (exg_host_byte_order() == EXG_LITTLE_ENDIAN) {
        memcpy(&value, number, width);
        value = -value;
        memcpy(number, &value, width);
    } else {
        memcpy((uint8_t *)&value + sizeof(value) - width, number, width);
        value = -value;
        memcpy(number, (uint8_t *)&value + sizeof(value) - width, width);
    }
}

static exg_status read_elements(void *user, uint64_t first, uint64_t count, void *out,
                                exg_error *err)
{
    const conjugated *c = user;
    bool turned = c->weights->storages[c->storage].byte_order != exg_host_byte_order();
    bool is_complex = exg_dtype_is_complex(c->dtype);
    uint32_t bytes = exg_dtype_bytes(c->dtype);
    uint32_t width = bytes / (is_complex ? 2 : 1);
    uint64_t length = count * bytes;
    uint8_t *to = out;

    EXG_TRY(exg_storage_read(c->weights, c->storage, first * bytes, length, out, err));
    if (turned) {
        exg_bytes_swap(out, length, c->dtype);
    }
    for (uint64_t i = 0; i < length / width; i++) {
        bool is_imaginary = is_complex && i % 2 == 1;

        if ((is_imaginary && c->is_conj) != c->is_neg) {
            negate(to + i * width, width, exg_dtype_is_integral(c->dtype));
        }
    }
    if (turned) {
        exg_bytes_swap(out, length, c->dtype);
    }
    return EXG_OK;
}

static exg_status read_conjugated(void *user, uint64_t offset, uint64_t length, void *out,
                                  exg_error *err)
{
    const conjugated *c = user;

    return exg_read_whole_elements(exg_dtype_bytes(c->dtype), offset, length, out, read_elements,
                                   user, err);
}

exg_status exg_storage_conjugate(exg_weights *weights, exg_dtype dtype, bool is_conj, bool is_neg,
                                 uint32_t *storage, exg_error *err)
{
    conjugated *c = EXG_NEW(weights->arena, conjugated);
    uint64_t length = weights->storages[*storage].length;
    exg_storage made = {.byte_order = weights->storages[*storage].byte_order,
                        .length = length - length % exg_dtype_bytes(dtype)};
    exg_storage_maker maker = {read_conjugated, c, "conjugated"};

    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *c = (conjugated){weights, *storage, dtype, is_conj, is_neg};
    exg_storage_make(&made, &maker);
    return exg_weights_add_storage(weights, &made, storage, err);
}
