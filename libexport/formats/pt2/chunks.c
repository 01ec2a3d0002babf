/* chunks.c - tensors put together of chunks. */
#include "libexport/formats/pt2/chunks.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#define RANK_MAX 64

exg_status exg_chunk_tensor_create(exg_weights *weights, uint32_t rank, uint32_t count,
                                   exg_chunk_tensor **tensor, exg_error *err)
{
    exg_chunk_tensor *made = EXG_NEW(weights->arena, exg_chunk_tensor);
    int64_t *numbers;

    if (rank > RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "%u dimensions, at most %d are supported", rank,
                        RANK_MAX);
    }
    numbers = EXG_NEW_ARRAY(weights->arena, int64_t, (size_t)rank * (2 * (size_t)count + 1));
    if (made == NULL || numbers == NULL ||
        (made->parts = EXG_NEW_ARRAY(weights->arena, exg_chunk_part, count)) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->weights = weights;
    made->rank = rank;
    made->count = count;
    made->sizes = numbers;
    for (uint32_t i = 0; i < count; i++) {
        made->parts[i].offsets = numbers + rank * (2 * (size_t)i + 1);
        made->parts[i].sizes = made->parts[i].offsets + rank;
    }
    *tensor = made;
    return EXG_OK;
}

/* ---- reading ----------------------------------------------------------------------------- */

static bool holds(const exg_chunk_tensor *t, const exg_chunk_part *part, const int64_t *index)
{
    for (uint32_t d = 0; d < t->rank; d++) {
        if (index[d] < part->offsets[d] || index[d] - part->offsets[d] >= part->sizes[d]) {
            return false;
        }
    }
    return true;
}

/* The part that holds the element; the one after the last that did comes first. NULL: none. */
static const exg_chunk_part *find_part(const exg_chunk_tensor *t, const int64_t *index,
                                       uint32_t *last)
{
    for (uint32_t i = 0; i < t->count; i++) {
        uint32_t at = (*last + i) % t->count;

        if (holds(t, &t->parts[at], index)) {
            *last = at;
            return &t->parts[at];
        }
    }
    return NULL;
}

/* Elements from `index` on that lie in the part one after the other, and the place of the first
 * in it. */
static uint64_t run_of(const exg_chunk_tensor *t, const exg_chunk_part *part, const int64_t *index,
                       uint64_t *local)
{
    uint64_t inner = 1; /* elements of one step in dim `outer` */
    uint64_t into = 0;  /* of which these are behind us */

    *local = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        *local = *local * (uint64_t)part->sizes[d] + (uint64_t)(index[d] - part->offsets[d]);
        if (d > part->outer) {
            inner *= (uint64_t)t->sizes[d];
            into = into * (uint64_t)t->sizes[d] + (uint64_t)index[d];
        }
    }
    return (uint64_t)(part->offsets[part->outer] + part->sizes[part->outer] - index[part->outer]) *
               inner -
           into;
}

/* Gives back what was read of a mapped file: whole mebibytes, and the rest at the chunk's end. */
static void forget(const exg_chunk_tensor *t, const exg_chunk_part *part, uint64_t local,
                   uint64_t count)
{
    const exg_weight *weight = &part->weight;
    uint64_t stored = t->weights->storages[weight->storage].length;
    uint64_t begin = ((uint64_t)weight->meta->storage_offset.value + local) * t->width;
    uint64_t end = begin + count * t->width;
    uint64_t first = begin / EXG_FRAME_BYTES * EXG_FRAME_BYTES;

    if (exg_tensor_meta_is_packed(weight->meta) &&
        (first != end / EXG_FRAME_BYTES * EXG_FRAME_BYTES || end == stored)) {
        exg_storage_forget(t->weights, weight->storage, first,
                           end == stored ? end : end / EXG_FRAME_BYTES * EXG_FRAME_BYTES);
    }
}

static exg_status read_elements(void *user, uint64_t first, uint64_t count, void *out,
                                exg_error *err)
{
    const exg_chunk_tensor *t = user;
    uint8_t *to = out;
    uint32_t last = 0;

    while (count > 0) {
        int64_t index[RANK_MAX];
        const exg_chunk_part *part;
        uint64_t rest = first;
        uint64_t local;
        uint64_t run;

        for (uint32_t d = t->rank; d-- > 0;) {
            index[d] = (int64_t)(rest % (uint64_t)t->sizes[d]);
            rest /= (uint64_t)t->sizes[d];
        }
        part = find_part(t, index, &last);
        if (part == NULL) {
            return EXG_FAIL(err, MALFORMED, "DCP-CHUNK", "no chunk holds element %llu",
                            (unsigned long long)first);
        }
        run = run_of(t, part, index, &local);
        run = run < count ? run : count;
        EXG_TRY(exg_weight_read_range(t->weights, &part->weight, local, run, to, err));
        forget(t, part, local, run);
        to += run * t->width;
        first += run;
        count -= run;
    }
    return EXG_OK;
}

static exg_status read_chunks(void *user, uint64_t offset, uint64_t length, void *out,
                              exg_error *err)
{
    const exg_chunk_tensor *t = user;

    return exg_read_whole_elements(t->width, offset, length, out, read_elements, user, err);
}

/* ---- checking ---------------------------------------------------------------------------- */

/* Elements of the box; false: more than 63 bits, or it leaves the tensor. */
static bool volume(const exg_chunk_tensor *t, const exg_chunk_part *part, uint64_t *elements)
{
    *elements = 1;
    for (uint32_t d = 0; d < t->rank; d++) {
        if (part != NULL && !exg_range_inside((uint64_t)part->offsets[d], (uint64_t)part->sizes[d],
                                              (uint64_t)t->sizes[d])) {
            return false;
        }
        if (!exg_mul_u64(*elements, (uint64_t)(part == NULL ? t->sizes[d] : part->sizes[d]),
                         elements) ||
            *elements > INT64_MAX) {
            return false;
        }
    }
    return true;
}

static bool overlap(const exg_chunk_tensor *t, const exg_chunk_part *a, const exg_chunk_part *b)
{
    for (uint32_t d = 0; d < t->rank; d++) {
        if (a->offsets[d] + a->sizes[d] <= b->offsets[d] ||
            b->offsets[d] + b->sizes[d] <= a->offsets[d]) {
            return false;
        }
    }
    return true;
}

/* As many elements as the tensor has, and none twice: then it is all of them. */
static exg_status check_parts(const exg_chunk_tensor *t, uint64_t *elements, exg_error *err)
{
    uint64_t sum = 0;
    uint64_t part = 0;

    if (!volume(t, NULL, elements)) {
        return EXG_FAIL(err, MALFORMED, "DCP-CHUNK", "the tensor has more than 2^63 elements");
    }
    for (uint32_t i = 0; i < t->count; i++) {
        if (!volume(t, &t->parts[i], &part) || !exg_add_u64(sum, part, &sum)) {
            return EXG_FAIL(err, MALFORMED, "DCP-CHUNK", "chunk %u lies outside of its tensor", i);
        }
        for (uint32_t k = 0; part > 0 && k < i; k++) {
            uint64_t other = 0;

            if (volume(t, &t->parts[k], &other) && other > 0 &&
                overlap(t, &t->parts[i], &t->parts[k])) {
                return EXG_FAIL(err, MALFORMED, "DCP-CHUNK", "chunks %u and %u lie on each other",
                                k, i);
            }
        }
    }
    if (sum != *elements) {
        return EXG_FAIL(err, MALFORMED, "DCP-CHUNK",
                        "the chunks hold %llu elements, the tensor has %llu",
                        (unsigned long long)sum, (unsigned long long)*elements);
    }
    return EXG_OK;
}

/* ---- adding ------------------------------------------------------------------------------ */

static void find_outer(const exg_chunk_tensor *t, exg_chunk_part *part)
{
    part->outer = t->rank == 0 ? 0 : t->rank - 1;
    while (part->outer > 0 && part->sizes[part->outer] == t->sizes[part->outer]) {
        part->outer--;
    }
}

static exg_status add_made(exg_chunk_tensor *t, uint64_t elements, exg_weight *weight,
                           exg_error *err)
{
    exg_storage storage = {.byte_order = exg_host_byte_order()};
    exg_storage_maker maker = {read_chunks, t, "chunks"};

    if (!exg_mul_u64(elements, t->width, &storage.length)) {
        return EXG_FAIL(err, MALFORMED, "DCP-CHUNK", "the tensor has more than 2^63 bytes");
    }
    weight->meta->storage_offset = exg_sym_int_of(0);
    exg_storage_make(&storage, &maker);
    EXG_TRY(exg_weights_add_storage(t->weights, &storage, &weight->storage, err));
    EXG_TRY(exg_weights_add(t->weights, weight, err));
    for (uint32_t i = 0; i < t->count; i++) {
        t->parts[i].weight.fqn = t->weights->items[t->weights->count - 1].fqn; /* it stays */
    }
    return EXG_OK;
}

/* Has the only part the sizes of the tensor, or elements that lie row by row? */
static bool is_in_place(const exg_chunk_tensor *t, const exg_tensor_meta *meta)
{
    const exg_tensor_meta *own = t->parts[0].weight.meta;
    bool same = own->rank == meta->rank;

    for (uint32_t d = 0; same && d < own->rank; d++) {
        same = own->sizes[d].value == meta->sizes[d].value;
    }
    return same || exg_tensor_meta_is_packed(own);
}

exg_status exg_chunk_tensor_add(exg_chunk_tensor *t, const char *fqn, const exg_tensor_meta *meta,
                                exg_error *err)
{
    exg_tensor_meta own = *meta;
    exg_sym_int strides[RANK_MAX];
    exg_weight weight = {.fqn = fqn, .meta = &own};
    uint64_t elements = 0;

    if (meta->rank > RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-011", "%u dimensions, at most %d are supported",
                        meta->rank, RANK_MAX);
    }
    t->width = exg_dtype_bytes(meta->dtype);
    EXG_TRY(check_parts(t, &elements, err));
    for (uint32_t i = 0; i < t->count; i++) {
        find_outer(t, &t->parts[i]);
        weight.encoding = t->parts[i].weight.encoding;
    }
    own.strides = strides;
    exg_tensor_meta_pack(&own);
    if (t->count != 1 || !is_in_place(t, meta)) {
        return add_made(t, elements, &weight, err);
    }
    if (!exg_tensor_meta_is_packed(t->parts[0].weight.meta)) {
        own.strides = t->parts[0].weight.meta->strides;
    }
    own.storage_offset = t->parts[0].weight.meta->storage_offset;
    own.device = t->parts[0].weight.meta->device;
    weight.storage = t->parts[0].weight.storage;
    return exg_weights_add(t->weights, &weight, err);
}
