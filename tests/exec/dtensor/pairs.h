/* pairs.h - tensors of known values in parts. */
#ifndef EXG_TESTS_EXEC_DTENSOR_PAIRS_H
#define EXG_TESTS_EXEC_DTENSOR_PAIRS_H

#include "tests/exec/dtensor/ranks.h"

#define NUMEL_MAX 128

/* A tensor of these sizes; the lists hold R, every shard and P(op). */
typedef struct pairs {
    const int64_t *sizes;
    uint32_t rank;
    exg_reduce_op op;
} pairs;

/* Redistributes from each list to each it may become; `c->user` is a pairs. */
void check_pairs(rank_context *c);

/* Fills this rank's part by the place of each element in the whole. */
void fill_part(const exg_device_mesh *mesh, const exg_placement *placements, const int64_t *sizes,
               uint32_t rank, exg_tensor *local, float *data);

#endif
