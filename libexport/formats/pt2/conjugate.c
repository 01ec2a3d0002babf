/* conjugate.c - elements that change as they are read. */
#include "libexport/formats/pt2/conjugate.h"

#include "libexport/base/arena.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

typedef struct conjugated {
    exg_weights *weights;
    uint32_t storage;
    exg_dtype dtype;
    bool is_conj, is_neg;
} conjugated;

static bool is_integer(exg_dtype dtype)
{
    return !exg_dtype_is_float(dtype) && !exg_dtype_is_complex(dtype);
}

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

static exg_status read_elements(const conjugated *c, uint64_t offset, uint64_t length, uint8_t *out,
                                exg_error *err)
{
    bool turned = c->weights->storages[c->storage].byte_order != exg_host_byte_order();
    bool is_complex = exg_dtype_is_complex(c->dtype);
    uint32_t width = exg_dtype_bytes(c->dtype) / (is_complex ? 2 : 1);

    EXG_TRY(exg_storage_read(c->weights, c->storage, offset, length, out, err));
    if (turned) {
        exg_bytes_swap(out, length, c->dtype);
    }
    for (uint64_t at = 0, i = 0; at + width <= length; at += width, i++) {
        bool is_imaginary = is_complex && i % 2 == 1;

        if ((is_imaginary && c->is_conj) != c->is_neg) {
            negate(out + at, width, is_integer(c->dtype));
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
    uint64_t width = exg_dtype_bytes(c->dtype);
    uint64_t first = offset / width * width;
    uint64_t end = (offset + length + width - 1) / width * width;
    uint64_t stored = c->weights->storages[c->storage].length;
    uint8_t *whole;
    exg_status status;

    end = end > stored ? stored : end; /* a part of an element that no view reaches */
    if (first == offset && end == offset + length) {
        return read_elements(c, offset, length, out, err);
    }
    whole = malloc((size_t)(end - first));
    status =
        whole == NULL ? EXG_OUT_OF_MEMORY(err) : read_elements(c, first, end - first, whole, err);
    if (status == EXG_OK) {
        memcpy(out, whole + (offset - first), (size_t)length);
    }
    free(whole);
    return status;
}

exg_status exg_storage_conjugate(exg_weights *weights, exg_dtype dtype, bool is_conj, bool is_neg,
                                 uint32_t *storage, exg_error *err)
{
    conjugated *c = EXG_NEW(weights->arena, conjugated);
    exg_storage made = {.byte_order = weights->storages[*storage].byte_order,
                        .length = weights->storages[*storage].length};
    exg_storage_maker maker = {read_conjugated, c};

    if (c == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *c = (conjugated){weights, *storage, dtype, is_conj, is_neg};
    exg_storage_make(&made, &maker);
    return exg_weights_add_storage(weights, &made, storage, err);
}
