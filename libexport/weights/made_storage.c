/* made_storage.c - storages whose bytes are made of a weight when they are read. */
#include "libexport/weights/made_storage.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/weights/block.h"
#include "libexport/weights/cast.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

/* What an element of one dtype takes of another while it is read: on the stack. */
#define PART_BYTES 16384

exg_status exg_read_whole_elements(uint32_t width, uint64_t offset, uint64_t length, void *out,
                                   exg_read_elements_fn *read, void *user, exg_error *err)
{
    uint64_t first = offset / width;
    uint64_t end = (offset + length + width - 1) / width;
    uint8_t *whole;
    exg_status status;

    if (first * width == offset && end * width == offset + length) {
        return read(user, first, end - first, out, err);
    }
    whole = malloc((size_t)((end - first) * width));
    status = whole == NULL ? EXG_OUT_OF_MEMORY(err) : read(user, first, end - first, whole, err);
    if (status == EXG_OK) {
        memcpy(out, whole + (offset - first * width), (size_t)length);
    }
    free(whole);
    return status;
}

/* ---- casts ------------------------------------------------------------------------------ */

typedef struct cast {
    exg_weights *of;
    exg_weight weight; /* of `of` */
    exg_dtype to;
} cast;

/* From where the elements lie, or by way of a copy. */
static exg_status read_cast_elements(void *user, uint64_t first, uint64_t count, void *out,
                                     exg_error *err)
{
    const cast *c = user;
    const exg_tensor_meta *meta = c->weight.meta;
    uint32_t width = exg_dtype_bytes(meta->dtype);
    uint32_t step = PART_BYTES / width;
    const uint8_t *data = NULL;
    uint8_t *to = out;
    _Alignas(16) uint8_t part[PART_BYTES];

    EXG_TRY(exg_storage_map(c->of, c->weight.storage, &data, err));
    if (data != NULL && exg_tensor_meta_is_packed(meta)) {
        uint64_t begin = ((uint64_t)meta->storage_offset.value + first) * width;

        exg_storage_expect(c->of, c->weight.storage, begin, begin + count * width);
        exg_elements_cast(meta->dtype, data + begin, c->to, out, count);
        exg_storage_forget(c->of, c->weight.storage, begin / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                           begin + count * width);
        return EXG_OK;
    }
    for (uint64_t at = 0; at < count; at += step) {
        uint64_t n = count - at < step ? count - at : step;

        EXG_TRY(exg_weight_read_range(c->of, &c->weight, first + at, n, part, err));
        exg_elements_cast(meta->dtype, part, c->to, to + at * exg_dtype_bytes(c->to), n);
    }
    return EXG_OK;
}

static exg_status read_cast(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    const cast *c = user;

    return exg_read_whole_elements(exg_dtype_bytes(c->to), offset, length, out, read_cast_elements,
                                   user, err);
}

exg_status exg_weights_add_cast(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                exg_dtype to, const char *name, uint32_t *storage, exg_error *err)
{
    exg_storage added = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    cast *c = EXG_NEW(made->arena, cast);
    const char *copy = exg_arena_strdup(made->arena, name);
    int64_t numel = 0;

    if (c == NULL || copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_tensor_meta_check_view(weight->meta, of->storages[weight->storage].length, err));
    if (!exg_tensor_meta_numel(weight->meta, &numel) ||
        numel > INT64_MAX / (int64_t)exg_dtype_bytes(to)) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "the sizes multiply past 63 bits");
    }
    *c = (cast){of, *weight, to};
    added.length = (uint64_t)numel * exg_dtype_bytes(to);
    added.maker = (exg_storage_maker){read_cast, c, copy};
    return exg_weights_add_storage(made, &added, storage, err);
}

/* ---- blocks ------------------------------------------------------------------------------ */

typedef struct decoded {
    exg_weights *of;
    exg_weight weight; /* of `of`, of bytes */
    const exg_block_decoder *decoder;
    exg_dtype to;
} decoded;

/* Blocks that hold the elements, some at a time; of the first and the last a part. */
static exg_status read_decoded_elements(void *user, uint64_t first, uint64_t count, void *out,
                                        exg_error *err)
{
    const decoded *d = user;
    uint32_t elements = d->decoder->elements;
    uint32_t step = PART_BYTES / d->decoder->bytes;
    uint32_t width = exg_dtype_bytes(d->to);
    uint64_t end = (first + count + elements - 1) / elements;
    uint8_t part[PART_BYTES];
    float numbers[EXG_BLOCK_ELEMENTS_MAX];
    uint8_t *to = out;

    for (uint64_t block = first / elements; block < end; block += step) {
        uint64_t n = end - block < step ? end - block : step;

        EXG_TRY(exg_weight_read_range(d->of, &d->weight, block * d->decoder->bytes,
                                      n * d->decoder->bytes, part, err));
        for (uint64_t b = 0; b < n; b++) {
            uint64_t at = (block + b) * elements;
            uint64_t skip = at < first ? first - at : 0;
            uint64_t stop = at + elements > first + count ? first + count - at : elements;

            d->decoder->decode(part + b * d->decoder->bytes, numbers);
            exg_elements_cast(EXG_DTYPE_F32, numbers + skip, d->to, to, stop - skip);
            to += (stop - skip) * width;
        }
    }
    return EXG_OK;
}

static exg_status read_decoded(void *user, uint64_t offset, uint64_t length, void *out,
                               exg_error *err)
{
    const decoded *d = user;

    return exg_read_whole_elements(exg_dtype_bytes(d->to), offset, length, out,
                                   read_decoded_elements, user, err);
}

exg_status exg_weights_add_decoded(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                   exg_dtype to, const char *name, uint32_t *storage,
                                   exg_error *err)
{
    exg_storage added = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    const exg_block_decoder *decoder = exg_block_decoder_named(weight->encoding);
    decoded *d = EXG_NEW(made->arena, decoded);
    const char *copy = exg_arena_strdup(made->arena, name);
    uint64_t bytes = 0;

    if (d == NULL || copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &bytes, err));
    if (!exg_mul_u64(bytes / decoder->bytes, decoder->elements * (uint64_t)exg_dtype_bytes(to),
                     &added.length)) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "the sizes multiply past 64 bits");
    }
    *d = (decoded){of, *weight, decoder, to};
    added.maker = (exg_storage_maker){read_decoded, d, copy};
    return exg_weights_add_storage(made, &added, storage, err);
}
