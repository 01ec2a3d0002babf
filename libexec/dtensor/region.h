/* region.h - what a rank holds of a whole. */
#ifndef EXG_LIBEXEC_DTENSOR_REGION_H
#define EXG_LIBEXEC_DTENSOR_REGION_H

#include "libexec/dtensor/box.h"
#include "libexec/dtensor/mesh.h"

/* Some of a local part that is side by side in the whole. */
typedef struct exg_piece {
    exg_box box;                  /* of the whole */
    int64_t origin[EXG_RANK_MAX]; /* where the local part would begin, if all of it lay so */
} exg_piece;

/* What a rank holds: one piece, none when it is empty, of strided shards several. */
typedef struct exg_region {
    exg_piece *pieces;
    uint32_t count;
    int64_t sizes[EXG_RANK_MAX]; /* of the local part */
} exg_region;

/* Of every rank of the mesh; without placements all of them hold all. One block of memory, to
 * be freed. NULL: out of memory. */
exg_region *exg_regions_create(const exg_device_mesh *mesh, const exg_placement *placements,
                               const int64_t *sizes, uint32_t rank);

/* What is left of it in `box` of the local part, which is the local part then. */
void exg_region_cut(exg_region *region, uint32_t rank, const exg_box *box);

/* What a shard leaves of `length` to the rank at `place` of n. */
int64_t exg_shard_size(exg_placement p, int64_t length, uint32_t n, uint32_t place);

/* Where element `at` of the mesh rank's part lies along `dim` of the whole, `length` long; from
 * there on *run elements are side by side. */
int64_t exg_local_place(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                        int64_t length, uint32_t dim, int64_t at, int64_t *run);

#endif
