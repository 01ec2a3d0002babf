/* digest.c - a tree of hashes over tensors and their blocks, that does not know of files. */
#include "libexport/base/arena.h"
#include "libexport/base/little.h"
#include "libexport/base/options.h"
#include "libexport/base/pool.h"
#include "libexport/base/require.h"
#include "libexport/weights/storage.h"
#include "libexport/weights/weights_tree.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES EXG_MERKLE_BLOCK_BYTES
#define RANK_MAX    64 /* as views have */

/* ---- one block ------------------------------------------------------------------------------ */

/* Where the canonical bytes of a tensor lie as they are; NULL: they must be gathered. */
static exg_status find_bytes(exg_weights *weights, const exg_tree_tensor *tensor,
                             const uint8_t **bytes, uint64_t *first, exg_error *err)
{
    const exg_weight *weight = tensor->weight;
    const exg_storage *storage = &weights->storages[weight->storage];
    const uint64_t width = exg_dtype_bytes(weight->meta->dtype);

    *bytes = NULL;
    if (exg_host_byte_order() != EXG_LITTLE_ENDIAN || !exg_tensor_meta_is_packed(weight->meta) ||
        exg_tensor_meta_check_view(weight->meta, storage->length, NULL) != EXG_OK) {
        return EXG_OK;
    }
    *first = (uint64_t)weight->meta->storage_offset.value * width;
    EXG_TRY(exg_storage_map(weights, weight->storage, bytes, err));
    *bytes = *bytes == NULL ? NULL : *bytes + *first;
    return EXG_OK;
}

exg_status exg_tree_block_hash(exg_weights *weights, exg_checksum_kind kind,
                               const exg_tree_tensor *tensor, uint64_t index, uint8_t *room,
                               exg_merkle_hash *hash, exg_error *err)
{
    const exg_weight *weight = tensor->weight;
    const uint64_t width = exg_dtype_bytes(weight->meta->dtype);
    const uint64_t at = index * BLOCK_BYTES;
    const uint64_t length = tensor->bytes - at < BLOCK_BYTES ? tensor->bytes - at : BLOCK_BYTES;
    exg_merkle_piece piece = {room, (size_t)length};
    const uint8_t *bytes;
    uint64_t first = 0;

    EXG_TRY(find_bytes(weights, tensor, &bytes, &first, err));
    if (bytes != NULL) {
        piece.data = bytes + at;
    } else {
        EXG_TRY(exg_weight_read_range(weights, weight, at / width, length / width, room, err));
        if (exg_host_byte_order() != EXG_LITTLE_ENDIAN) {
            exg_bytes_swap(room, length, weight->meta->dtype);
        }
    }
    *hash = exg_merkle_hash_of(kind, EXG_MERKLE_BLOCK, &piece, 1);
    if (exg_tensor_meta_is_packed(weight->meta)) {
        first = (uint64_t)weight->meta->storage_offset.value * width + at;
        exg_storage_forget(weights, weight->storage, first / BLOCK_BYTES * BLOCK_BYTES,
                           first + length);
    }
    return EXG_OK;
}

/* ---- what stands above blocks --------------------------------------------------------------- */

exg_merkle_hash exg_tree_tensor_hash(exg_checksum_kind kind, const exg_weight *weight,
                                     const exg_merkle_hash *blocks)
{
    const exg_tensor_meta *meta = weight->meta;
    const char *dtype = exg_dtype_name(meta->dtype);
    uint8_t numbers[3][8];
    uint8_t sizes[RANK_MAX][8];
    const exg_merkle_piece pieces[] = {{numbers[0], 8},
                                       {weight->fqn, strlen(weight->fqn)},
                                       {numbers[1], 8},
                                       {dtype, strlen(dtype)},
                                       {numbers[2], 8},
                                       {sizes, (size_t)8 * meta->rank},
                                       {blocks->bytes, exg_merkle_bytes(kind)}};

    exg_little_put(numbers[0], strlen(weight->fqn), 8);
    exg_little_put(numbers[1], strlen(dtype), 8);
    exg_little_put(numbers[2], meta->rank, 8);
    for (uint32_t d = 0; d < meta->rank; d++) {
        exg_little_put(sizes[d], (uint64_t)meta->sizes[d].value, 8);
    }
    return exg_merkle_hash_of(kind, EXG_MERKLE_TENSOR, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

exg_merkle_hash exg_tree_weights_hash(exg_checksum_kind kind, uint64_t count,
                                      const exg_merkle_hash *tensors)
{
    uint8_t number[8];
    const exg_merkle_piece pieces[] = {{number, 8}, {tensors->bytes, exg_merkle_bytes(kind)}};

    exg_little_put(number, count, 8);
    return exg_merkle_hash_of(kind, EXG_MERKLE_WEIGHTS, pieces, 2);
}

/* ---- all of them ---------------------------------------------------------------------------- */

typedef struct digester {
    exg_weights *weights;
    exg_weights_tree *tree;
    _Atomic uint32_t fault; /* the first block that failed; UINT32_MAX: none */
} digester;

static const exg_tree_tensor *tensor_of(const exg_weights_tree *tree, uint64_t block)
{
    uint32_t low = 0;
    uint32_t high = tree->count;

    while (high - low >
           1) { /* the last that begins there or before: those without blocks are not */
        const uint32_t middle = low + (high - low) / 2;

        if (tree->tensors[middle].first_block <= block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &tree->tensors[low];
}

static exg_status hash_block(const digester *d, uint32_t block, exg_error *err)
{
    const exg_tree_tensor *tensor = tensor_of(d->tree, block);
    uint8_t *room = malloc(BLOCK_BYTES);
    exg_status status = EXG_OUT_OF_MEMORY(err);

    if (room != NULL) {
        status = exg_tree_block_hash(d->weights, d->tree->kind, tensor, block - tensor->first_block,
                                     room, &d->tree->blocks[block], err);
    }
    free(room);
    return status;
}

static void work(void *context, uint32_t block)
{
    digester *d = context;
    uint32_t first = atomic_load(&d->fault);

    if (block > first || hash_block(d, block, NULL) == EXG_OK) {
        return;
    }
    while (block < first && !atomic_compare_exchange_weak(&d->fault, &first, block)) {
    }
}

static int by_name(const void *a, const void *b)
{
    const exg_weight *x = ((const exg_tree_tensor *)a)->weight;
    const exg_weight *y = ((const exg_tree_tensor *)b)->weight;
    int order = strcmp(x->fqn, y->fqn);

    return order != 0 ? order : (x->table > y->table) - (x->table < y->table);
}

static exg_status list_tensors(exg_weights *weights, exg_weights_tree *tree, exg_error *err)
{
    tree->tensors = calloc(weights->count + 1u, sizeof(*tree->tensors));
    tree->hashes = calloc(weights->count + 1u, sizeof(*tree->hashes));
    if (tree->tensors == NULL || tree->hashes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];

        if (weight->meta != NULL && !weight->use_pickle) {
            tree->tensors[tree->count++].weight = weight;
        }
    }
    qsort(tree->tensors, tree->count, sizeof(*tree->tensors), by_name);
    for (uint32_t i = 0; i < tree->count; i++) {
        exg_tree_tensor *t = &tree->tensors[i];

        if (t->weight->meta->rank > RANK_MAX) {
            return EXG_FAIL(err, LIMIT, "WGT-011", "['%s'] has %u dimensions", t->weight->fqn,
                            t->weight->meta->rank);
        }
        EXG_TRY(exg_tensor_meta_bytes(t->weight->meta, &t->bytes, err));
        t->first_block = tree->block_count;
        t->block_count = t->bytes / BLOCK_BYTES + (t->bytes % BLOCK_BYTES != 0);
        tree->block_count += t->block_count;
    }
    if (tree->block_count >= UINT32_MAX) {
        return EXG_FAIL(err, LIMIT, "WGT-DIGEST", "the tensors would pass 4 PiB");
    }
    tree->blocks = calloc(tree->block_count + 1, sizeof(*tree->blocks));
    return tree->blocks == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_weights_tree_make(exg_weights *weights, exg_checksum_kind kind, uint32_t threads,
                                 exg_weights_tree *tree, exg_error *err)
{
    digester d = {.weights = weights, .tree = tree, .fault = UINT32_MAX};
    exg_pool *pool = NULL;
    exg_merkle_hash root;

    *tree = (exg_weights_tree){.kind = kind};
    if (exg_merkle_bytes(kind) == 0) {
        return EXG_FAIL(err, USAGE, "WGT-DIGEST", "a digest is of xxh3-128 or sha256");
    }
    EXG_TRY(list_tensors(weights, tree, err));
    EXG_TRY(exg_pool_create(threads, &pool, err));
    exg_pool_run(pool, work, &d, (uint32_t)tree->block_count);
    exg_pool_destroy(pool);
    if (d.fault != UINT32_MAX) { /* the first one, told */
        EXG_TRY(hash_block(&d, d.fault, err));
    }
    for (uint32_t i = 0; i < tree->count; i++) {
        const exg_tree_tensor *t = &tree->tensors[i];

        root = exg_merkle_root(kind, tree->blocks + t->first_block, t->block_count);
        tree->hashes[i] = exg_tree_tensor_hash(kind, t->weight, &root);
    }
    root = exg_merkle_root(kind, tree->hashes, tree->count);
    tree->root = exg_tree_weights_hash(kind, tree->count, &root);
    return EXG_OK;
}

void exg_weights_tree_free(exg_weights_tree *tree)
{
    free(tree->tensors);
    free(tree->hashes);
    free(tree->blocks);
    *tree = (exg_weights_tree){0};
}

exg_status exg_weights_digest(exg_weights *weights, exg_checksum_kind kind, uint32_t threads,
                              char text[EXG_DIGEST_TEXT_MAX], exg_error *err)
{
    EXG_REQUIRE(err, weights, text);
    exg_weights_tree tree = {0};
    exg_status status;

    text[0] = '\0';
    EXG_TRY(EXG_CHECK_CHOICE(kind, EXG_CHECKSUM_UNKNOWN, "the kind of checksum", err));
    status = exg_weights_tree_make(weights, kind, threads, &tree, err);
    if (status == EXG_OK) {
        exg_merkle_put(kind, &tree.root, text);
    }
    exg_weights_tree_free(&tree);
    return status;
}
