/* placement.h - how a tensor is placed on a device mesh: one placement a mesh
 * dimension, as PyTorch's DTensor names them.
 *
 *   Shard(d)     each rank holds a chunk of dimension d, as torch.chunk cuts it:
 *                every chunk ceil(L/n) long, the last ones shorter or empty
 *   _S(d, f)     a strided shard: dimension d is cut into f chunks and each of them as
 *                Shard cuts; a rank holds its chunk of each, one after the other. So a
 *                dimension that a later mesh dim shards first: over 2 x 2, (_S(0, 2), S(0))
 *                gives the rows 0-1, 4-5, 2-3, 6-7 of 8
 *   Replicate    each rank holds the whole
 *   Partial(op)  each rank holds a summand; `op` of all of them is the value
 *
 * Threads: pure functions. Meaning: torch/distributed/tensor/placement_types.py.
 */
#ifndef EXG_PLACEMENT_H
#define EXG_PLACEMENT_H

#include <exg/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_placement_kind {
    EXG_REPLICATE,
    EXG_SHARD,
    EXG_PARTIAL,
    EXG_STRIDED_SHARD,
    EXG_PLACEMENT_KIND_COUNT
} exg_placement_kind;

typedef enum exg_reduce_op {
    EXG_REDUCE_SUM,
    EXG_REDUCE_AVG,
    EXG_REDUCE_MAX,
    EXG_REDUCE_MIN,
    EXG_REDUCE_PRODUCT,
    EXG_REDUCE_BAND, /* bit by bit, of integers and bool */
    EXG_REDUCE_BOR,
    EXG_REDUCE_BXOR,
    EXG_REDUCE_OP_COUNT
} exg_reduce_op;

typedef struct exg_placement {
    exg_placement_kind kind;
    int32_t dim;          /* SHARD, STRIDED_SHARD; never negative once normalized */
    exg_reduce_op op;     /* PARTIAL */
    int32_t split_factor; /* STRIDED_SHARD: 1 and more */
} exg_placement;

static inline exg_placement exg_replicate(void)
{
    exg_placement p = {EXG_REPLICATE, 0, EXG_REDUCE_SUM, 0};

    return p;
}

static inline exg_placement exg_shard(int32_t dim)
{
    exg_placement p = {EXG_SHARD, dim, EXG_REDUCE_SUM, 0};

    return p;
}

static inline exg_placement exg_partial(exg_reduce_op op)
{
    exg_placement p = {EXG_PARTIAL, 0, op, 0};

    return p;
}

static inline exg_placement exg_strided_shard(int32_t dim, int32_t split_factor)
{
    exg_placement p = {EXG_STRIDED_SHARD, dim, EXG_REDUCE_SUM, split_factor};

    return p;
}

/* Does each rank hold some of a dimension? */
static inline bool exg_placement_is_shard(exg_placement p)
{
    return p.kind == EXG_SHARD || p.kind == EXG_STRIDED_SHARD;
}

bool exg_placement_equal(exg_placement a, exg_placement b);

#define EXG_PLACEMENT_TEXT 32

/* "S(0)", "R", "P(sum)", "_S(0, 2)"; `text` has room for EXG_PLACEMENT_TEXT bytes. Gives
 * `text`. */
char *exg_placement_print(exg_placement placement, char *text);

/* Reads the same, also as PyTorch writes them: "Shard(0)", "Shard(dim=0)", "Replicate()",
 * "Partial(sum)", "_StridedShard(dim=0, split_factor=2)". USAGE PLC-001. */
EXG_NODISCARD exg_status exg_placement_parse(const char *text, exg_placement *placement,
                                             exg_error *err);

const char *exg_reduce_op_name(exg_reduce_op op); /* "sum" */

/* Rank r's chunk of a dimension of `length` over `n` ranks: where it begins and how
 * long it is. An empty chunk begins at `length`. */
void exg_chunk(int64_t length, uint32_t n, uint32_t r, int64_t *offset, int64_t *size);

#ifdef __cplusplus
}
#endif

#endif
