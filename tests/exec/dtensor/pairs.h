/* pairs.h - tensors of known values in parts. */
#ifndef EXG_TESTS_EXEC_DTENSOR_PAIRS_H
#define EXG_TESTS_EXEC_DTENSOR_PAIRS_H

#include "tests/exec/dtensor/ranks.h"

#define NUMEL_MAX 128

/* A tensor of these sizes; the lists hold R, every shard and P(op), with a split factor every
 * strided shard too. */
typedef struct pairs {
    const int64_t *sizes;
    uint32_t rank;
    exg_reduce_op op;
    int32_t split_factor; /* 0: none */
} pairs;

/* Redistributes from each list to each it may become; `c->user` is a pairs. */
void check_pairs(rank_context *c);

/* The places along `dim` of the whole that this rank holds, as chunks of lists; gives how many. */
int64_t places_of(const exg_device_mesh *mesh, const exg_placement *placements, int64_t length,
                  uint32_t dim, int64_t *places);

/* Fills this rank's part by the place of each element in the whole. */
void fill_part(const exg_device_mesh *mesh, const exg_placement *placements, const int64_t *sizes,
               uint32_t rank, exg_tensor *local, float *data);

#endif
