/* spec.h - what a DTensor is made of, and parts of tensors as boxes. */
#ifndef EXG_LIBEXEC_DTENSOR_SPEC_H
#define EXG_LIBEXEC_DTENSOR_SPEC_H

#include "libexec/dtensor/history.h"
#include "libexec/dtensor/mesh.h"
#include "libexec/dtensor/storage.h"

#include <exg/dtensor.h>

/* What of a local part is on its way. */
typedef struct exg_transit exg_transit;

struct exg_dtensor {
    exg_device_mesh *mesh;
    exg_placement placements[EXG_MESH_DIMS_MAX];
    exg_tensor local;
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];   /* global */
    int64_t strides[EXG_RANK_MAX]; /* global */
    exg_block *owned;              /* the local memory, when it is ours */
    bool detached;                 /* of a view: of moved or copied memory */
    bool meta;                     /* without data, on every rank */
    exg_transit *transit;          /* what the local part waits for; NULL: it is here */
    exg_history *history;          /* NULL: no gradient is wanted */
    uint32_t output;               /* of it */
};

/* Fills `out` with `placements` (NULL: Replicate), dims counted from the front. DTN-002, without
 * a mesh DTN-018. */
exg_status exg_spec_placements(const exg_device_mesh *mesh, const exg_placement *placements,
                               uint32_t count, uint32_t rank, exg_placement *out, exg_error *err);

/* A DTensor over `local`, one without data, and one with row-major memory of its own for this
 * rank's part. */
exg_status exg_dtensor_make(exg_device_mesh *mesh, const exg_placement *placements,
                            const exg_tensor *local, const int64_t *sizes, const int64_t *strides,
                            exg_dtensor **t, exg_error *err);
exg_status exg_dtensor_make_meta(exg_device_mesh *mesh, const exg_placement *placements,
                                 exg_dtype dtype, uint32_t rank, const int64_t *sizes,
                                 exg_dtensor **t, exg_error *err);
exg_status exg_dtensor_make_owned(exg_device_mesh *mesh, const exg_placement *placements,
                                  exg_dtype dtype, uint32_t rank, const int64_t *sizes,
                                  exg_dtensor **t, exg_error *err);

/* Brings a local part that is in the host's memory to the mesh's device, as its own; what is
 * there already stays. */
exg_status exg_dtensor_settle(exg_dtensor *t, exg_error *err);

/* The local part as the host sees it (host_copy.h). */
exg_status exg_dtensor_host_copy(const exg_dtensor *t, bool reads, exg_host_copy *m,
                                 exg_error *err);

/* The elements of the one's part to the other's, of the same sizes and mesh. */
exg_status exg_dtensor_copy_part(const exg_dtensor *from, const exg_dtensor *to, exg_error *err);

/* Collective. A redistribution by placements that fit; no gradient is wanted of the result, which
 * with `async` may be on its way. */
exg_status exg_dtensor_move(const exg_dtensor *t, const exg_placement *to, bool async,
                            exg_dtensor **out, exg_error *err);

/* The dtype of what is made without one: the floating `otherwise`, or what PyTorch makes of the
 * value (NULL: none) beside it. */
exg_dtype exg_dtype_for(const exg_scalar *value, exg_dtype otherwise);

/* A dtype that there is, as many dims as there may be, none below 0, bytes that can be counted:
 * LIMIT, USAGE DTN-009. */
exg_status exg_spec_sizes(exg_dtype dtype, uint32_t rank, const int64_t *sizes, exg_error *err);

/* Is it no Partial, which has no chunks? USAGE DTN-014. */
exg_status exg_dtensor_check_chunks(const exg_dtensor *t, exg_error *err);

/* The first of the mesh's ranks that hold the same as rank `rank`. */
uint32_t exg_dtensor_first_holder(const exg_dtensor *t, uint32_t rank);

/* Can a checkpoint (exg/checkpoint.h) have it? USAGE. */
exg_status exg_checkpoint_check(const exg_device_mesh *mesh, const char *name, const exg_dtensor *t,
                                exg_error *err);

#endif
