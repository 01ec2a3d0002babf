/* spec.h - what a DTensor is made of, and parts of tensors as boxes. */
#ifndef EXG_LIBEXEC_DTENSOR_SPEC_H
#define EXG_LIBEXEC_DTENSOR_SPEC_H

#include "libexec/comm/collectives.h"
#include "libexec/device/host_copy.h"
#include "libexec/dtensor/history.h"
#include "libexec/dtensor/mesh.h"

#include <exg/dtensor.h>

/* Local memory that DTensors share, as views of one another do: it goes with the last. */
typedef struct exg_block exg_block;

/* Unset, of the device (NULL: the host) of a mesh; one use. NO_MEMORY. */
exg_status exg_block_create(const exg_device_mesh *mesh, uint64_t bytes, exg_block **block,
                            exg_error *err);
exg_block *exg_block_share(exg_block *block); /* one use more; NULL gives NULL */
void exg_block_release(exg_block *block);     /* one use less; NULL is allowed */
void *exg_block_data(exg_block *block);       /* aligned to 64 bytes; an address of the device */
uint64_t exg_block_bytes(const exg_block *block);
void exg_block_touch(exg_block *block);             /* it was written again; NULL is allowed */
uint32_t exg_block_version(const exg_block *block); /* how often; 0 of NULL */

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

/* A run of each dim. */
typedef struct exg_box {
    int64_t offset[EXG_RANK_MAX];
    int64_t size[EXG_RANK_MAX];
} exg_box;

int64_t exg_box_numel(const exg_box *box, uint32_t rank);

/* What both have; false when that is nothing. */
bool exg_box_meet(const exg_box *a, const exg_box *b, uint32_t rank, exg_box *both);

/* Some of a local part that lies side by side in the whole. */
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

/* What is left of it in `window` of the local part, which is the local part then. */
void exg_region_cut(exg_region *region, uint32_t rank, const exg_box *window);

/* What a shard leaves of `length` to the rank at `place` of n. */
int64_t exg_shard_size(exg_placement p, int64_t length, uint32_t n, uint32_t place);

/* Where element `at` of the mesh rank's part lies along `dim` of the whole, `length` long; from
 * there on *run elements lie side by side. */
int64_t exg_local_place(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                        int64_t length, uint32_t dim, int64_t at, int64_t *run);

/* Copies the elements of `part`, which is in both, between tensors that begin at
 * `from_origin` and `to_origin`. */
void exg_box_copy(const exg_box *part, const exg_tensor *from, const int64_t *from_origin,
                  const exg_tensor *to, const int64_t *to_origin);

/* The row-major tensor of a box's sizes over `data`. */
exg_tensor exg_box_tensor(const exg_box *box, exg_dtype dtype, uint32_t rank, void *data);

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

/* Brings a local part that lies in the host's memory to the mesh's device, as its own; what is
 * there already stays. */
exg_status exg_dtensor_settle(exg_dtensor *t, exg_error *err);

/* The local part as the host sees it (host_copy.h). */
exg_status exg_dtensor_host_copy(const exg_dtensor *t, bool reads, exg_host_copy *m,
                                 exg_error *err);

/* A plain tensor in either's memory, the same. */
exg_status exg_mesh_host_copy(const exg_device_mesh *mesh, const exg_tensor *t, bool reads,
                              exg_host_copy *m, exg_error *err);

/* The elements of the one's part to the other's, of the same sizes and mesh. */
exg_status exg_dtensor_copy_part(const exg_dtensor *from, const exg_dtensor *to, exg_error *err);

/* Collective. A redistribution by placements that fit; no gradient is wanted of the result, which
 * with `async` may be on its way. */
exg_status exg_dtensor_move(const exg_dtensor *t, const exg_placement *to, bool async,
                            exg_dtensor **out, exg_error *err);

/* The dtype of what is made without one: the floating `otherwise`, or what PyTorch makes of the
 * value (NULL: none) beside it. */
exg_dtype exg_dtype_for(const exg_scalar *value, exg_dtype otherwise);

/* Collective: what rank p holds of `from` (held[p]) and rank q wants of `t` (wanted[q]) goes there
 * when gives(user, p, q). Nothing is sent when everyone has what it wants. Regions are a rank of
 * the mesh each; they and `from` may go when it returns. `there`, alike on all ranks: what they
 * give lies on their devices, and goes from one to the other where it can. With `async` the part
 * may be on its way (t->transit). A fault ends the mesh's exchanges on all ranks. */
typedef bool exg_sends_fn(const void *user, uint32_t giver, uint32_t taker);
exg_status exg_dtensor_receive(exg_dtensor *t, const exg_tensor *from, bool there,
                               const exg_region *held, const exg_region *wanted,
                               exg_sends_fn *gives, const void *user, bool async, exg_error *err);

/* The part is whole when it has been finished, which frees what was on its way (NULL is allowed).
 * `settles`: it also waits until all ranks have read what was sent, which they do when they finish
 * it; else that memory stays until a later exchange. */
exg_status exg_transit_finish(exg_transit *transit, bool settles, exg_error *err);
bool exg_transit_arrived(const exg_transit *transit); /* is it whole already? */

/* On the mesh's device: a copy of a tensor of any strides to one of the same sizes, which does not
 * overlap, and the tensor as it is or, where it is not row-major, as *block (else NULL) has room
 * for it and with `copies` what it is. Asked for. UNSUPPORTED, NO_MEMORY, DEVICE. */
exg_status exg_mesh_copy(const exg_device_mesh *mesh, const exg_tensor *from, const exg_tensor *to,
                         exg_error *err);
exg_status exg_mesh_row_major(const exg_device_mesh *mesh, const exg_tensor *t, bool copies,
                              exg_tensor *row_major, exg_block **block, exg_error *err);

/* `part` of a tensor that begins at `origin`. */
exg_tensor exg_box_window(const exg_box *part, const exg_tensor *t, const int64_t *origin);

/* `part` of a row-major tensor of these sizes that begins at `origin`; false: it is more than one
 * strip. */
bool exg_box_strip(const exg_box *part, const int64_t *origin, const int64_t *sizes, uint32_t rank,
                   exg_dtype dtype, exg_strip *strip);

/* A dtype that there is, as many dims as there may be, none below 0, bytes that can be counted:
 * LIMIT, USAGE DTN-009. */
exg_status exg_spec_sizes(exg_dtype dtype, uint32_t rank, const int64_t *sizes, exg_error *err);

#endif
