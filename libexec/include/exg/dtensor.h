/* dtensor.h - tensors that are spread over a device mesh.
 *
 * Every rank holds a DTensor object of its own: the mesh, one placement a mesh dim, the
 * global sizes and strides, and its local part. The local part of a shard is the chunk
 * that exg_chunk gives, applied mesh dim by mesh dim (chunks of chunks where several
 * shard one dim); of a strided shard it is the chunk of each of its cuts, end to end. A
 * rank that is no member of the mesh holds an empty part and sends nothing.
 *
 * Placements: `count` of them, the mesh's ndim, NULL for Replicate on every mesh dim; a
 * negative shard dim counts from the end. USAGE DTN-002 when they do not fit, DTN-018 when the
 * mesh is NULL, UNSUPPORTED DTN-019 of a strided shard with a factor below 1.
 *
 * Memory: the local part is in the memory of the rank's device of the mesh (device_mesh.h), on
 * a mesh of type "cpu" the host's. A plain tensor that comes in may be in either, which its
 * address says: what is there already is not copied, what is not is before the call returns. So
 * are parts of results there. The host may not follow a device's address: what it reads of values
 * it reads by exg_dtensor_copy_to_host, print and item, and these wait until all that was asked
 * of the device is done, as does what goes to other ranks. On a mesh of type "cpu" an address is
 * an address.
 *
 * Collective: every rank of the mesh calls it, in the same order. A fault of one rank
 * (PEER) ends the call on all.
 * Threads: a DTensor is used by its rank's thread alone.
 * Meaning: torch/distributed/tensor/_api.py.
 */
#ifndef EXG_DTENSOR_H
#define EXG_DTENSOR_H

#include <exg/device_mesh.h>
#include <exg/placement.h>
#include <exg/scalar.h>
#include <exg/tensor.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_dtensor exg_dtensor;

void exg_dtensor_destroy(exg_dtensor *t); /* NULL is allowed */

/* ---- borders ------------------------------------------------------------------------ */

typedef struct exg_from_local_options {
    size_t size; /* sizeof(exg_from_local_options) */
    /* Of the whole; without it even shards are assumed, and sizes and strides follow from
     * the local ones (exg_global_from_local). The local sizes must be this rank's chunk. */
    const int64_t *shape;
    const int64_t *strides; /* goes with `shape` */
    bool infer_shape;       /* collective: sharded dims are summed over the ranks */
    bool run_check; /* collective: dtype, rank, shape, strides and requires_grad agree on all ranks,
                       else USAGE DTN-013 on all; where it is replicated, everyone takes a copy of
                       the first's */
    bool requires_grad; /* of the local tensor: the DTensor's too. USAGE DTN-016 */
    bool meta; /* the local tensors have no data, on any rank: nor has the DTensor, nor what is
                  made of it. USAGE DTN-003 of no data otherwise */
} exg_from_local_options;

/* DTensor.from_local. A DTensor over this rank's local tensor, whose memory it borrows (not after
 * run_check made a copy, nor where it had to be brought to the mesh's device); no message without
 * an option that says so. */
EXG_NODISCARD exg_status exg_dtensor_from_local(exg_device_mesh *mesh, const exg_tensor *local,
                                                const exg_placement *placements, uint32_t count,
                                                const exg_from_local_options *options,
                                                exg_dtensor **t, exg_error *err);

/* Sizes and strides of the whole when every rank has a part like `local`: for each sharded
 * mesh dim in order, that size and the strides not below that dim's times the mesh dim. */
void exg_global_from_local(const exg_device_mesh *mesh, const exg_tensor *local,
                           const exg_placement *placements, int64_t *sizes, int64_t *strides);

/* DTensor.to_local. This rank's part, of which what comes from other ranks is waited for; borrowed,
 * as long as `t`.
 * Its data is an address of the mesh's device. */
const exg_tensor *exg_dtensor_to_local(const exg_dtensor *t);

/* This rank's part, or the `view` on it that exg_dtensor_shard_at gave (NULL: all of it),
 * row-major to `data` in the host's memory, or from there; no message. USAGE DTN-003 of meta. */
EXG_NODISCARD exg_status exg_dtensor_copy_to_host(const exg_dtensor *t, const exg_tensor *view,
                                                  void *data, exg_error *err);
EXG_NODISCARD exg_status exg_dtensor_copy_from_host(exg_dtensor *t, const exg_tensor *view,
                                                    const void *data, exg_error *err);

#define EXG_NO_RANK UINT32_MAX

/* torch.distributed.tensor.distribute_tensor. Collective. `global` of rank `source` is the truth,
 * of EXG_NO_RANK everyone's own, and then nothing is sent. To Partial: sum divides by the ranks,
 * avg, max and min keep the value, product is refused. Strides of the whole are `global`'s; the
 * parts have no gaps, and their dims the same order in memory. Of a tensor whose data is NULL on
 * every rank there are no data, and no messages. */
EXG_NODISCARD exg_status exg_distribute_tensor(exg_device_mesh *mesh, const exg_tensor *global,
                                               const exg_placement *placements, uint32_t count,
                                               uint32_t source, exg_dtensor **t, exg_error *err);

/* ---- moving --------------------------------------------------------------------------- */

/* DTensor.redistribute. Collective. A new DTensor with other placements, which must be given
 * (DTN-002); `t` is unchanged. To the same ones: over the same memory, no message. To Partial only
 * where `t` is that already. Sums are taken in the order of the ranks. At most one exchange a
 * reduction and one to move: each rank gets what it lacks from the nearest that has it, and nothing
 * else. */
EXG_NODISCARD exg_status exg_dtensor_redistribute(const exg_dtensor *t,
                                                  const exg_placement *placements, uint32_t count,
                                                  exg_dtensor **out, exg_error *err);

/* Is this rank's part here? Of what was redistributed with `async` (autograd.h) some of it may be
 * on its way; what was said to no other rank is here at once. */
bool exg_dtensor_is_ready(const exg_dtensor *t);
/* AsyncCollectiveTensor.wait. Returns when it is. Whatever uses a part waits for it. PEER. */
EXG_NODISCARD exg_status exg_dtensor_wait(const exg_dtensor *t, exg_error *err);

/* DTensor.full_tensor. Collective. The whole value on every rank: redistribute to Replicate. */
EXG_NODISCARD exg_status exg_dtensor_full_tensor(const exg_dtensor *t, exg_dtensor **out,
                                                 exg_error *err);

/* ---- gradients: what the steps above give back -------------------------------------------- */

/* Of to_local: `gradient`, this rank's part of the gradient of `t`, as a DTensor over the same
 * memory; no message. It is placed as `placements` says, when there are none as `t` is, whole where
 * that is Partial. Strides follow from the part's. USAGE DTN-015 when the part does not fit.
 * A gradient that is NULL gives NULL, here and below. */
EXG_NODISCARD exg_status exg_to_local_backward(const exg_dtensor *t, const exg_tensor *gradient,
                                               const exg_placement *placements, uint32_t count,
                                               exg_dtensor **out, exg_error *err);

/* Collective. Of from_local, which gave `t`: the gradient with the local part's as its own. It
 * is placed as `placements` says, when there are none as `t` is, whole where that is
 * Partial. Never divided. USAGE DTN-015 where that is not the part's sizes. */
EXG_NODISCARD exg_status exg_from_local_backward(const exg_dtensor *t, const exg_dtensor *gradient,
                                                 const exg_placement *placements, uint32_t count,
                                                 exg_dtensor **out, exg_error *err);

/* Collective. Of redistribute (and full_tensor) from `source`: the gradient is placed as `source`
 * is, whole where that is Partial and the gradient is not. */
EXG_NODISCARD exg_status exg_redistribute_backward(const exg_dtensor *source,
                                                   const exg_dtensor *gradient, exg_dtensor **out,
                                                   exg_error *err);

/* Collective. `t` lying as `like` does. */
EXG_NODISCARD exg_status exg_dtensor_coerce_like(const exg_dtensor *t, const exg_dtensor *like,
                                                 exg_dtensor **out, exg_error *err);

/* Collective. What a compiled backward takes as the gradient of something like `t`: whole where
 * `t` is Partial, else over the same memory and no message. */
EXG_NODISCARD exg_status exg_dtensor_coerce_tangent(const exg_dtensor *t, exg_dtensor **out,
                                                    exg_error *err);

/* ---- factories: no message ---------------------------------------------------------------- */

typedef struct exg_dtensor_like {
    size_t size;     /* sizeof(exg_dtensor_like) */
    exg_dtype dtype; /* UNKNOWN (0): float32; of full what the value is: int64, bool, complex64 */
    uint32_t rank;
    const int64_t *sizes;            /* of a single number none */
    const exg_placement *placements; /* no Partial; none at all: Replicate */
    uint32_t placement_count;
    bool requires_grad; /* USAGE DTN-016 */
    exg_layout layout;  /* UNKNOWN (0) or STRIDED: UNSUPPORTED DTN-020 of others */
    bool run_check;     /* collective: dtype, sizes, and of random numbers where they come from,
                           agree on all ranks, else USAGE DTN-013 on all */
} exg_dtensor_like;

EXG_NODISCARD exg_status exg_dtensor_empty(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                           exg_dtensor **t, exg_error *err); /* unset memory */
EXG_NODISCARD exg_status exg_dtensor_zeros(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                           exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_dtensor_ones(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                          exg_dtensor **t, exg_error *err);
/* Every element `value`, as exg_scalar_store (scalar.h) has it: USAGE DTN-022. */
EXG_NODISCARD exg_status exg_dtensor_full(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                          exg_scalar value, exg_dtensor **t, exg_error *err);
/* start, start + step, ... of rank 1; not of complex dtypes. */
EXG_NODISCARD exg_status exg_dtensor_arange(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                            double start, double step, exg_dtensor **t,
                                            exg_error *err);

/* Where random numbers come from; equal on all ranks. A draw moves `offset` on by the number
 * of elements, of complex ones twice that, rounded up to four. */
typedef struct exg_rng {
    uint64_t seed;
    uint64_t offset;
} exg_rng;

/* Uniform on [0, 1), and normal. An element's value follows from the seed, the offset and
 * its place in the whole, so placements and ranks do not change it. Of floating dtypes
 * of two bytes and more and complex ones, whose two parts are uniform each, or normal so that the
 * square of both is 1 in the mean. USAGE DTN-009 of others. */
EXG_NODISCARD exg_status exg_dtensor_rand(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                          exg_rng *rng, exg_dtensor **t, exg_error *err);
EXG_NODISCARD exg_status exg_dtensor_randn(exg_device_mesh *mesh, const exg_dtensor_like *like,
                                           exg_rng *rng, exg_dtensor **t, exg_error *err);

/* ---- asking -------------------------------------------------------------------------------- */

exg_device_mesh *exg_dtensor_device_mesh(const exg_dtensor *t);
const exg_placement *exg_dtensor_placements(const exg_dtensor *t); /* the mesh's ndim of them */
uint32_t exg_dtensor_rank_count(const exg_dtensor *t);             /* global number of dims */
const int64_t *exg_dtensor_sizes(const exg_dtensor *t);            /* global */
const int64_t *exg_dtensor_strides(const exg_dtensor *t);          /* global, elements */
exg_dtype exg_dtensor_dtype(const exg_dtensor *t);

/* Is its gradient wanted? At first as the options or the source say, of a distributed tensor
 * not; redistribute keeps it. USAGE DTN-016 of dtypes that have no gradients, and of what was
 * computed of others whose gradients are wanted (autograd.h). */
bool exg_dtensor_requires_grad(const exg_dtensor *t);
EXG_NODISCARD exg_status exg_dtensor_set_requires_grad(exg_dtensor *t, bool requires_grad,
                                                       exg_error *err);

/* Has it no data, on any rank, but all else? Operators do not take it (DSP-010). */
bool exg_dtensor_is_meta(const exg_dtensor *t);

/* Was it not computed of what has a gradient? */
bool exg_dtensor_is_leaf(const exg_dtensor *t);

/* Of a leaf: the gradients so far, summed; NULL before the first. They are placed as the leaf is,
 * whole where that is Partial. The second leaves none, and the caller destroys it. */
const exg_dtensor *exg_dtensor_grad(const exg_dtensor *t);
exg_dtensor *exg_dtensor_take_grad(exg_dtensor *t);

/* "DTensor(local_tensor=[1.0, 2.0], device_mesh=DeviceMesh(tp=2), placements=(S(0)))": this rank's
 * part, no message. Of more than 1000 elements, three from each end of a dim. The caller frees
 * the text. NO_MEMORY. */
EXG_NODISCARD exg_status exg_dtensor_print(const exg_dtensor *t, char **text, exg_error *err);

/* Collective. "DTensor(full_tensor=...", the same of the whole. */
EXG_NODISCARD exg_status exg_dtensor_print_whole(const exg_dtensor *t, char **text, exg_error *err);

/* Where this rank's part begins in the whole and how large it is, by dim. An empty part begins
 * at the end. USAGE DTN-014 of a Partial, which has none; here and below. */
EXG_NODISCARD exg_status exg_dtensor_chunk(const exg_dtensor *t, int64_t *offsets, int64_t *sizes,
                                           exg_error *err);

/* A chunk of this rank's, for saving. */
typedef struct exg_write_item {
    const char *fqn;                                    /* as given */
    uint32_t rank;                                      /* number of dims */
    int64_t offsets[EXG_RANK_MAX], sizes[EXG_RANK_MAX]; /* of the chunk, in the whole */
    int64_t global_sizes[EXG_RANK_MAX];
    exg_dtype dtype;
    exg_layout layout;
    exg_memory_format memory_format;
    bool requires_grad, pin_memory;
    uint32_t writer; /* the lowest mesh rank that holds the same */
} exg_write_item;

/* The chunks of this rank's part in their order: one, of a strided shard several, none of a rank
 * that is no member. All ranks together give each element, those that are writers of theirs
 * once. At most `room` are written, *count is how many there are. */
EXG_NODISCARD exg_status exg_dtensor_write_items(const exg_dtensor *t, const char *fqn,
                                                 exg_write_item *items, uint32_t room,
                                                 uint32_t *count, exg_error *err);

/* The view of this rank's part that is the chunk which begins there: exg_dtensor_copy_to_host
 * saves it, exg_dtensor_copy_from_host loads it. USAGE DTN-014 when none
 * does: it is another rank's then. */
EXG_NODISCARD exg_status exg_dtensor_shard_at(const exg_dtensor *t, const int64_t *offsets,
                                              exg_tensor *local, exg_error *err);

/* Mesh rank `rank`'s part of a tensor of these sizes, as above; pure. */
void exg_local_chunk(const exg_device_mesh *mesh, uint32_t rank, const exg_placement *placements,
                     const int64_t *sizes, uint32_t dims, int64_t *offsets, int64_t *local_sizes);

#ifdef __cplusplus
}
#endif

#endif
