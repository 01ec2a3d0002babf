/* digest.c - one text for all weights: a tree of two levels over the tensors.
 *
 *   leaf = H(name NUL, dtype NUL, u64 rank, u64 sizes, elements row by row, little endian)
 *   root = H(leaves, as bytes, in the order of names)
 */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/pool.h"
#include "libexport/base/require.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES EXG_FRAME_BYTES

typedef struct leaf {
    const exg_weight *weight;
    char text[EXG_CHECKSUM_TEXT_MAX];
    exg_status status;
    exg_error err;
} leaf;

typedef struct digester {
    exg_weights *weights;
    exg_checksum_kind kind;
    leaf *leaves;
    uint32_t count;
} digester;

static void add_number(exg_hasher *hasher, uint64_t value)
{
    uint8_t bytes[8];

    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    exg_hasher_add(hasher, bytes, sizeof(bytes));
}

static void add_description(exg_hasher *hasher, const exg_weight *weight)
{
    const char *dtype = exg_dtype_name(weight->meta->dtype);

    exg_hasher_add(hasher, weight->fqn, strlen(weight->fqn) + 1);
    exg_hasher_add(hasher, dtype, strlen(dtype) + 1);
    add_number(hasher, weight->meta->rank);
    for (uint32_t d = 0; d < weight->meta->rank; d++) {
        add_number(hasher, (uint64_t)weight->meta->sizes[d].value);
    }
}

/* Gives back what was read of the elements [at, at + count) of a packed tensor. */
static void forget(exg_weights *weights, const exg_weight *weight, uint64_t at, uint64_t count)
{
    uint64_t width = exg_dtype_bytes(weight->meta->dtype);
    uint64_t from = ((uint64_t)weight->meta->storage_offset.value + at) * width;

    exg_storage_forget(weights, weight->storage, from / BLOCK_BYTES * BLOCK_BYTES,
                       from + count * width);
}

/* Elements that lie in memory as they are hashed. */
static void add_in_place(exg_weights *weights, const exg_weight *weight, const uint8_t *data,
                         uint64_t bytes, exg_hasher *hasher)
{
    uint64_t width = exg_dtype_bytes(weight->meta->dtype);
    uint64_t from = (uint64_t)weight->meta->storage_offset.value * width;

    for (uint64_t at = 0; at < bytes; at += BLOCK_BYTES) {
        uint64_t length = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;

        exg_storage_expect(weights, weight->storage, from + at, from + at + length);
        exg_hasher_add(hasher, data + from + at, (size_t)length);
        forget(weights, weight, at / width, length / width);
    }
}

/* Where the elements of a packed tensor are hashed in place; NULL: they are not there so. */
static exg_status find_in_place(exg_weights *weights, const exg_weight *weight,
                                const uint8_t **data, exg_error *err)
{
    *data = NULL;
    if (exg_host_byte_order() != EXG_LITTLE_ENDIAN || !exg_tensor_meta_is_packed(weight->meta)) {
        return EXG_OK;
    }
    EXG_TRY(exg_storage_map(weights, weight->storage, data, err));
    return *data == NULL ? EXG_OK
                         : exg_tensor_meta_check_view(
                               weight->meta, weights->storages[weight->storage].length, err);
}

static exg_status add_elements(exg_weights *weights, const exg_weight *weight, exg_hasher *hasher,
                               uint8_t *block, exg_error *err)
{
    uint64_t width = exg_dtype_bytes(weight->meta->dtype);
    uint64_t step = BLOCK_BYTES / width;
    bool packed = exg_tensor_meta_is_packed(weight->meta);
    const uint8_t *data;
    uint64_t bytes = 0;

    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &bytes, err));
    EXG_TRY(find_in_place(weights, weight, &data, err));
    if (data != NULL && bytes > 0) {
        add_in_place(weights, weight, data, bytes, hasher);
        return EXG_OK;
    }
    for (uint64_t at = 0; at < bytes / width; at += step) {
        uint64_t count = bytes / width - at < step ? bytes / width - at : step;

        EXG_TRY(exg_weight_read_range(weights, weight, at, count, block, err));
        if (exg_host_byte_order() != EXG_LITTLE_ENDIAN) {
            exg_bytes_swap(block, count * width, weight->meta->dtype);
        }
        exg_hasher_add(hasher, block, (size_t)(count * width));
        if (packed) {
            forget(weights, weight, at, count);
        }
    }
    return EXG_OK;
}

static void hash_leaf(void *context, uint32_t index)
{
    digester *d = context;
    leaf *l = &d->leaves[index];
    exg_hasher *hasher = exg_hasher_create(d->kind);
    uint8_t *block = malloc(BLOCK_BYTES);

    if (hasher == NULL || block == NULL) {
        l->status = EXG_OUT_OF_MEMORY(&l->err);
    } else {
        add_description(hasher, l->weight);
        l->status = add_elements(d->weights, l->weight, hasher, block, &l->err);
    }
    if (hasher != NULL) {
        exg_hasher_finish(hasher, l->text);
    }
    free(block);
}

static int by_name(const void *a, const void *b)
{
    const leaf *x = a;
    const leaf *y = b;
    int order = strcmp(x->weight->fqn, y->weight->fqn);

    return order != 0
               ? order
               : (x->weight->table > y->weight->table) - (x->weight->table < y->weight->table);
}

static uint8_t digit(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static exg_status hash_root(const digester *d, char *text, exg_error *err)
{
    exg_hasher *hasher = exg_hasher_create(d->kind);

    if (hasher == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < d->count; i++) {
        const char *hex = d->leaves[i].text;

        for (size_t c = 0; hex[c] != '\0'; c += 2) {
            uint8_t byte = (uint8_t)(digit(hex[c]) << 4 | digit(hex[c + 1]));

            exg_hasher_add(hasher, &byte, 1);
        }
    }
    exg_hasher_finish(hasher, text);
    return EXG_OK;
}

static exg_status hash_all(digester *d, uint32_t threads, char *text, exg_error *err)
{
    exg_pool *pool = NULL;

    for (uint32_t i = 0; i < d->weights->count; i++) {
        const exg_weight *weight = &d->weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle) {
            d->leaves[d->count++].weight = weight;
        }
    }
    qsort(d->leaves, d->count, sizeof(leaf), by_name);
    EXG_TRY(exg_pool_create(threads, &pool, err));
    exg_pool_run(pool, hash_leaf, d, d->count);
    exg_pool_destroy(pool);
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->leaves[i].status != EXG_OK) {
            if (err != NULL) {
                *err = d->leaves[i].err;
            }
            return d->leaves[i].status;
        }
    }
    return hash_root(d, text, err);
}

exg_status exg_weights_digest(exg_weights *weights, exg_checksum_kind kind, uint32_t threads,
                              char text[EXG_DIGEST_TEXT_MAX], exg_error *err)
{
    EXG_REQUIRE(err, weights, text);
    digester d = {.weights = weights, .kind = kind};
    exg_status status;

    text[0] = '\0';
    EXG_TRY(EXG_CHECK_CHOICE(kind, EXG_CHECKSUM_UNKNOWN, "the kind of checksum", err));
    if (kind == EXG_CHECKSUM_NONE || kind == EXG_CHECKSUM_UNKNOWN) {
        return EXG_FAIL(err, USAGE, "WGT-DIGEST", "a digest needs a kind of checksum");
    }
    d.leaves = calloc(weights->count + 1u, sizeof(leaf));
    status = d.leaves == NULL ? EXG_OUT_OF_MEMORY(err) : hash_all(&d, threads, text, err);
    free(d.leaves);
    return status;
}
