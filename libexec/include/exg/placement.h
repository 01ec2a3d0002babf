/* placement.h - how a tensor lies over a device mesh: one placement a mesh
 * dimension, as PyTorch's DTensor names them.
 *
 *   Shard(d)     each rank holds a chunk of dimension d, as torch.chunk cuts it:
 *                every chunk ceil(L/n) long, the last ones shorter or empty
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

typedef enum exg_placement_kind { EXG_REPLICATE, EXG_SHARD, EXG_PARTIAL } exg_placement_kind;

typedef enum exg_reduce_op {
    EXG_REDUCE_SUM,
    EXG_REDUCE_AVG,
    EXG_REDUCE_MAX,
    EXG_REDUCE_MIN,
    EXG_REDUCE_PRODUCT,
    EXG_REDUCE_OP_COUNT
} exg_reduce_op;

typedef struct exg_placement {
    exg_placement_kind kind;
    int32_t dim;      /* SHARD; never negative once normalized */
    exg_reduce_op op; /* PARTIAL */
} exg_placement;

static inline exg_placement exg_replicate(void)
{
    exg_placement p = {EXG_REPLICATE, 0, EXG_REDUCE_SUM};

    return p;
}

static inline exg_placement exg_shard(int32_t dim)
{
    exg_placement p = {EXG_SHARD, dim, EXG_REDUCE_SUM};

    return p;
}

static inline exg_placement exg_partial(exg_reduce_op op)
{
    exg_placement p = {EXG_PARTIAL, 0, op};

    return p;
}

bool exg_placement_equal(exg_placement a, exg_placement b);

/* "S(0)", "R", "P(sum)"; `text` has room for 16 bytes. Gives `text`. */
char *exg_placement_print(exg_placement placement, char *text);

/* Reads the same, also "Shard(0)", "Replicate()", "Partial(sum)". USAGE PLC-001. */
exg_status exg_placement_parse(const char *text, exg_placement *placement, exg_error *err);

const char *exg_reduce_op_name(exg_reduce_op op); /* "sum" */

/* Rank r's chunk of a dimension of `length` over `n` ranks: where it begins and how
 * long it is. An empty chunk begins at `length`. */
void exg_chunk(int64_t length, uint32_t n, uint32_t r, int64_t *offset, int64_t *size);

#ifdef __cplusplus
}
#endif

#endif
