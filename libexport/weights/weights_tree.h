/* weights_tree.h - the tree of hashes over all tensors of weights and over their blocks. */
#ifndef EXG_LIBEXPORT_WEIGHTS_WEIGHTS_TREE_H
#define EXG_LIBEXPORT_WEIGHTS_WEIGHTS_TREE_H

#include "libexport/weights/merkle.h"

typedef struct exg_tree_tensor {
    const exg_weight *weight;
    uint64_t bytes;       /* row by row, packed */
    uint64_t first_block; /* in exg_weights_tree.blocks */
    uint64_t block_count;
} exg_tree_tensor;

typedef struct exg_weights_tree {
    exg_checksum_kind kind;
    exg_tree_tensor *tensors; /* by name */
    exg_merkle_hash *hashes;  /* of the tensors */
    exg_merkle_hash *blocks;
    uint32_t count;
    uint64_t block_count;
    exg_merkle_hash root;
} exg_weights_tree;

/* Reads all tensors but pickled objects. USAGE (WGT-DIGEST: a kind that no tree is made of); as
 * exg_weight_read(). exg_weights_tree_free() in any case. */
exg_status exg_weights_tree_make(exg_weights *weights, exg_checksum_kind kind, uint32_t threads,
                                 exg_weights_tree *tree, exg_error *err);
void exg_weights_tree_free(exg_weights_tree *tree);

/* The hash of a block: up to 1 MiB of the canonical bytes of a tensor, the `index`th. `room`: that
 * much, for what must be gathered. */
exg_status exg_tree_block_hash(exg_weights *weights, exg_checksum_kind kind,
                               const exg_tree_tensor *tensor, uint64_t index, uint8_t *room,
                               exg_merkle_hash *hash, exg_error *err);

/* What the tree says of a tensor, over the root of its blocks. */
exg_merkle_hash exg_tree_tensor_hash(exg_checksum_kind kind, const exg_weight *weight,
                                     const exg_merkle_hash *blocks);

/* Over the root of the tree of all tensors. */
exg_merkle_hash exg_tree_weights_hash(exg_checksum_kind kind, uint64_t count,
                                      const exg_merkle_hash *tensors);

#endif
