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
    exg_weight weight;     /* of `of` */
    const exg_block *from; /* of its encoding; NULL: plain elements */
    exg_element_type to;
} cast;

/* Where an element is in the storage of packed ones, or its block. */
static uint64_t begin_of(const cast *c, uint64_t element)
{
    uint64_t offset = (uint64_t)c->weight.meta->storage_offset.value;

    return c->from != NULL ? offset + element / c->from->elements * c->from->bytes
                           : (offset + element) * exg_dtype_bytes(c->weight.meta->dtype);
}

/* Where the elements lie from `first` on, which are read next; NULL with OK: they are to be
 * copied. */
static exg_status find_elements(const cast *c, uint64_t first, uint64_t count, const uint8_t **data,
                                exg_error *err)
{
    *data = NULL;
    if (c->from != NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_storage_map(c->of, c->weight.storage, data, err));
    if (*data == NULL || !exg_tensor_meta_is_packed(c->weight.meta)) {
        *data = NULL;
        return EXG_OK;
    }
    exg_storage_expect(c->of, c->weight.storage, begin_of(c, first), begin_of(c, first + count));
    *data += begin_of(c, first);
    return EXG_OK;
}

static void forget_elements(const cast *c, uint64_t first, uint64_t count)
{
    if (exg_tensor_meta_is_packed(c->weight.meta)) {
        exg_storage_forget(c->of, c->weight.storage,
                           begin_of(c, first) / EXG_FRAME_BYTES * EXG_FRAME_BYTES,
                           begin_of(c, first + count));
    }
}

static exg_status cast_plain(const cast *c, const uint8_t *data, exg_dtype to, uint64_t first,
                             uint64_t count, uint8_t *out, exg_error *err)
{
    exg_dtype from = c->weight.meta->dtype;
    uint32_t step = PART_BYTES / exg_dtype_bytes(from);
    _Alignas(16) uint8_t part[PART_BYTES];

    if (from == to) { /* a view, packed: bits stay */
        return exg_weight_read_range(c->of, &c->weight, first, count, out, err);
    }
    if (data != NULL) {
        exg_elements_cast(from, data, to, out, count);
        return EXG_OK;
    }
    for (uint64_t at = 0; at < count; at += step) {
        uint64_t n = count - at < step ? count - at : step;

        EXG_TRY(exg_weight_read_range(c->of, &c->weight, first + at, n, part, err));
        exg_elements_cast(from, part, to, out + at * exg_dtype_bytes(to), n);
    }
    return EXG_OK;
}

/* Blocks that hold the elements, some at a time; of the first and the last a part. */
static exg_status cast_blocks(const cast *c, exg_dtype to, uint64_t first, uint64_t count,
                              uint8_t *out, exg_error *err)
{
    uint32_t elements = c->from->elements;
    uint32_t step = PART_BYTES / c->from->bytes;
    uint64_t end = (first + count + elements - 1) / elements;
    uint8_t part[PART_BYTES];
    float numbers[EXG_BLOCK_ELEMENTS_MAX];

    for (uint64_t block = first / elements; block < end; block += step) {
        uint64_t n = end - block < step ? end - block : step;

        EXG_TRY(exg_weight_read_range(c->of, &c->weight, block * c->from->bytes, n * c->from->bytes,
                                      part, err));
        for (uint64_t b = 0; b < n; b++) {
            uint64_t at = (block + b) * elements;
            uint64_t skip = at < first ? first - at : 0;
            uint64_t stop = at + elements > first + count ? first + count - at : elements;

            c->from->decode(part + b * c->from->bytes, numbers);
            exg_elements_cast(EXG_DTYPE_F32, numbers + skip, to, out, stop - skip);
            out += (stop - skip) * exg_dtype_bytes(to);
        }
    }
    return EXG_OK;
}

static exg_status cast_elements(const cast *c, const uint8_t *data, exg_dtype to, uint64_t first,
                                uint64_t count, void *out, exg_error *err)
{
    return c->from != NULL ? cast_blocks(c, to, first, count, out, err)
                           : cast_plain(c, data, to, first, count, out, err);
}

static exg_status read_elements(void *user, uint64_t first, uint64_t count, void *out,
                                exg_error *err)
{
    const cast *c = user;
    const uint8_t *data;

    EXG_TRY(find_elements(c, first, count, &data, err));
    EXG_TRY(cast_elements(c, data, c->to.dtype, first, count, out, err));
    forget_elements(c, first, count);
    return EXG_OK;
}

static exg_status no_block(const exg_block *block, exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "WGT-BLOCK",
                                  "an element is NaN, infinite, or too large for %s", block->name),
                         "exg verify --values finds them; give this tensor a float dtype: --dtype "
                         "'NAME=f32'");
}

static exg_status encode_blocks(const cast *c, const uint8_t *data, uint64_t first, uint64_t count,
                                uint8_t *out, exg_error *err)
{
    const exg_block *block = c->to.block;
    uint32_t width = exg_dtype_bytes(c->weight.meta->dtype);
    uint32_t step = PART_BYTES / sizeof(float) / block->elements;
    float numbers[PART_BYTES / sizeof(float)];

    for (uint64_t at = 0; at < count; at += step) {
        uint64_t n = count - at < step ? count - at : step;
        uint64_t skip = at * block->elements;

        EXG_TRY(cast_elements(c, data == NULL ? NULL : data + skip * width, EXG_DTYPE_F32,
                              first * block->elements + skip, n * block->elements, numbers, err));
        for (uint64_t b = 0; b < n; b++, out += block->bytes) {
            if (!block->encode(numbers + b * block->elements, out)) {
                return no_block(block, err);
            }
        }
    }
    return EXG_OK;
}

static exg_status read_blocks(void *user, uint64_t first, uint64_t count, void *out, exg_error *err)
{
    const cast *c = user;
    uint32_t elements = c->to.block->elements;
    const uint8_t *data;

    EXG_TRY(find_elements(c, first * elements, count * elements, &data, err));
    EXG_TRY(encode_blocks(c, data, first, count, out, err));
    forget_elements(c, first * elements, count * elements);
    return EXG_OK;
}

static exg_status read_cast(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err)
{
    const cast *c = user;

    return c->to.block != NULL ? exg_read_whole_elements(c->to.block->bytes, offset, length, out,
                                                         read_blocks, user, err)
                               : exg_read_whole_elements(exg_dtype_bytes(c->to.dtype), offset,
                                                         length, out, read_elements, user, err);
}

/* The bytes of all that a weight holds, as elements of another type. */
static exg_status measure(const cast *c, exg_weights *of, uint64_t *length, exg_error *err)
{
    const exg_block *block = c->to.block;
    uint64_t count = 0;

    EXG_TRY(
        exg_tensor_meta_check_view(c->weight.meta, of->storages[c->weight.storage].length, err));
    EXG_TRY(exg_tensor_meta_bytes(c->weight.meta, &count, err));
    count /= exg_dtype_bytes(c->weight.meta->dtype);
    if (c->from != NULL && !exg_mul_u64(count / c->from->bytes, c->from->elements, &count)) {
        count = UINT64_MAX;
    }
    if (!exg_mul_u64(block == NULL ? count : count / block->elements,
                     block == NULL ? exg_dtype_bytes(c->to.dtype) : block->bytes, length) ||
        *length > INT64_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "the sizes multiply past 63 bits");
    }
    return EXG_OK;
}

exg_status exg_weights_add_cast(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                exg_element_type to, const char *name, uint32_t *storage,
                                exg_error *err)
{
    exg_storage added = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    cast *c = EXG_NEW(made->arena, cast);
    const char *copy = exg_arena_strdup(made->arena, name);

    if (c == NULL || copy == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *c = (cast){of, *weight, weight->encoding == NULL ? NULL : exg_block_named(weight->encoding),
                to};
    EXG_TRY(measure(c, of, &added.length, err));
    added.maker = (exg_storage_maker){read_cast, c, copy};
    return exg_weights_add_storage(made, &added, storage, err);
}

/* ---- blocks taken apart -------------------------------------------------------------------- */

typedef struct apart {
    exg_weights *of;
    exg_weight weight;
    const exg_block *block;
    const exg_block_groups *groups;
    exg_block_part part;
    uint32_t width; /* bytes of the part of a block */
} apart;

static void put_part(const apart *a, const exg_block_split *s, uint8_t *out)
{
    const float *values = a->part == EXG_BLOCK_SCALES ? s->scales : s->offsets;

    if (a->part != EXG_BLOCK_NUMBERS) {
        exg_elements_cast(EXG_DTYPE_F32, values, a->groups->scale, out,
                          a->block->elements / a->groups->group);
    } else if (a->groups->is_packed) {
        for (uint32_t i = 0; i < a->width; i++) {
            out[i] = (uint8_t)(s->numbers[2 * i] | s->numbers[2 * i + 1] << 4);
        }
    } else {
        memcpy(out, s->numbers, a->width);
    }
}

static exg_status read_parts(void *user, uint64_t first, uint64_t count, void *out, exg_error *err)
{
    const apart *a = user;
    uint32_t bytes = a->block->bytes;
    uint32_t step = PART_BYTES / bytes;
    uint8_t part[PART_BYTES];
    exg_block_split split;

    for (uint64_t at = 0; at < count; at += step) {
        uint64_t n = count - at < step ? count - at : step;

        EXG_TRY(
            exg_weight_read_range(a->of, &a->weight, (first + at) * bytes, n * bytes, part, err));
        for (uint64_t b = 0; b < n; b++) {
            a->groups->split(part + b * bytes, &split);
            put_part(a, &split, (uint8_t *)out + (at + b) * a->width);
        }
    }
    return EXG_OK;
}

static exg_status read_apart(void *user, uint64_t offset, uint64_t length, void *out,
                             exg_error *err)
{
    return exg_read_whole_elements(((const apart *)user)->width, offset, length, out, read_parts,
                                   user, err);
}

exg_status exg_weights_add_block_part(exg_weights *made, exg_weights *of, const exg_weight *weight,
                                      exg_block_part part, uint32_t *storage, exg_error *err)
{
    static const char *const names[] = {"numbers", "scales", "offsets"};
    const exg_block *block = exg_block_named(weight->encoding);
    const exg_block_groups *groups = exg_block_groups_of(block);
    exg_storage added = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    const char *view = exg_weight_view_key(weight, made->arena);
    const char *name =
        view == NULL ? NULL : exg_arena_printf(made->arena, "%s of %s", names[part], view);
    apart *a = EXG_NEW(made->arena, apart);

    if (a == NULL || name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *a = (apart){of, *weight, block, groups, part, 0};
    a->width = part != EXG_BLOCK_NUMBERS
                   ? block->elements / groups->group * exg_dtype_bytes(groups->scale)
                   : block->elements / (groups->is_packed ? 2 : 1);
    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &added.length, err));
    if (!exg_mul_u64(added.length / block->bytes, a->width, &added.length) ||
        added.length > INT64_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "the sizes multiply past 63 bits");
    }
    added.maker = (exg_storage_maker){read_apart, a, name};
    return exg_weights_add_storage(made, &added, storage, err);
}

/* ---- several in one ----------------------------------------------------------------------- */

typedef struct joined {
    exg_weights *weights;
    const exg_weight *parts;
    uint64_t *ends; /* of each part, in elements of all */
    uint32_t count;
} joined;

static exg_status read_joined_elements(void *user, uint64_t first, uint64_t count, void *out,
                                       exg_error *err)
{
    const joined *j = user;
    uint32_t width = exg_dtype_bytes(j->parts[0].meta->dtype);
    uint8_t *to = out;

    for (uint32_t i = 0; i < j->count && count > 0; i++) {
        uint64_t begin = i == 0 ? 0 : j->ends[i - 1];
        uint64_t n;

        if (first >= j->ends[i]) {
            continue;
        }
        n = j->ends[i] - first < count ? j->ends[i] - first : count;
        EXG_TRY(exg_weight_read_range(j->weights, &j->parts[i], first - begin, n, to, err));
        to += n * width;
        first += n;
        count -= n;
    }
    return EXG_OK;
}

static exg_status read_joined(void *user, uint64_t offset, uint64_t length, void *out,
                              exg_error *err)
{
    const joined *j = user;

    return exg_read_whole_elements(exg_dtype_bytes(j->parts[0].meta->dtype), offset, length, out,
                                   read_joined_elements, user, err);
}

/* What is told of it: the views that it is made of. */
static const char *name_of_joined(const exg_weights *made, const exg_weight *parts, uint32_t count)
{
    const char *name = "";

    for (uint32_t i = 0; i < count && name != NULL; i++) {
        const char *view = exg_weight_view_key(&parts[i], made->arena);

        name = view == NULL ? NULL : exg_arena_printf(made->arena, "%s%s; ", name, view);
    }
    return name;
}

exg_status exg_weights_add_joined(exg_weights *made, const exg_weight *parts, uint32_t count,
                                  uint32_t *storage, exg_error *err)
{
    exg_storage added = {.kind = EXG_STORAGE_MADE, .byte_order = exg_host_byte_order()};
    joined *j = EXG_NEW(made->arena, joined);
    const char *name = name_of_joined(made, parts, count);

    if (j == NULL || name == NULL ||
        (j->ends = EXG_NEW_ARRAY(made->arena, uint64_t, count)) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    j->weights = made;
    j->parts = parts;
    j->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = 0;

        EXG_TRY(exg_tensor_meta_bytes(parts[i].meta, &bytes, err));
        if (!exg_add_u64(added.length, bytes, &added.length)) {
            return EXG_FAIL(err, LIMIT, "WGT-011", "the sizes add up past 64 bits");
        }
        j->ends[i] = added.length / exg_dtype_bytes(parts[i].meta->dtype);
    }
    added.maker = (exg_storage_maker){read_joined, j, name};
    return exg_weights_add_storage(made, &added, storage, err);
}
