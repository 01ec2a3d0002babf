/* box.h - boxes of elements: a run of each dim. */
#ifndef EXG_LIBEXEC_DTENSOR_BOX_H
#define EXG_LIBEXEC_DTENSOR_BOX_H

#include "libexec/comm/collectives.h"

/* A run of each dim. */
typedef struct exg_box {
    int64_t offset[EXG_RANK_MAX];
    int64_t size[EXG_RANK_MAX];
} exg_box;

int64_t exg_box_numel(const exg_box *box, uint32_t rank);

/* What both have; false when that is nothing. */
bool exg_box_meet(const exg_box *a, const exg_box *b, uint32_t rank, exg_box *both);

/* Copies the elements of `part`, which is in both, between tensors that begin at
 * `from_origin` and `to_origin`. */
void exg_box_copy(const exg_box *part, const exg_tensor *from, const int64_t *from_origin,
                  const exg_tensor *to, const int64_t *to_origin);

/* The row-major tensor of a box's sizes over `data`. */
exg_tensor exg_box_tensor(const exg_box *box, exg_dtype dtype, uint32_t rank, void *data);

/* `part` of a tensor that begins at `origin`. */
exg_tensor exg_box_view(const exg_box *part, const exg_tensor *t, const int64_t *origin);

/* `part` of a row-major tensor of these sizes that begins at `origin`; false: it is more than one
 * strip. */
bool exg_box_strip(const exg_box *part, const int64_t *origin, const int64_t *sizes, uint32_t rank,
                   exg_dtype dtype, exg_strip *strip);

#endif
