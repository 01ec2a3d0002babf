/* dtensor.h - one logical tensor over a mesh of ranks (seed 003).
 *
 * A mesh is seen by each of its ranks through an exg_device_mesh of its own; ranks
 * of a local mesh are threads of this process. A DTensor knows its global sizes,
 * its placement and this rank's part. Functions marked "collective" are called by
 * every rank of the mesh, in the same order. Meshes have one dimension so far.
 *
 * Errors: USAGE codes DTN-..., PEER when another rank failed or did not arrive.
 * Threads: a mesh and its DTensors belong to the rank's thread.
 * Meaning: torch.distributed.tensor; rows S003-* of the acceptance list.
 */
#ifndef EXG_DTENSOR_H
#define EXG_DTENSOR_H

#include <exg/placement.h>
#include <exg/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_device_mesh exg_device_mesh;

/* `size` meshes, one for each rank's thread; destroyed one by one. */
exg_status exg_local_mesh_create(uint32_t size, exg_device_mesh **meshes, exg_error *err);
void exg_device_mesh_destroy(exg_device_mesh *mesh); /* NULL is allowed */
uint32_t exg_device_mesh_size(const exg_device_mesh *mesh);
uint32_t exg_device_mesh_rank(const exg_device_mesh *mesh); /* this rank's coordinate */
/* How long a rank waits for the others, nanoseconds (60 s at first). */
void exg_device_mesh_set_deadline(exg_device_mesh *mesh, uint64_t ns);
/* Collectives done so far by this rank (an all_reduce is two exchanges). */
uint64_t exg_device_mesh_exchanges(const exg_device_mesh *mesh);

typedef struct exg_dtensor exg_dtensor;

void exg_dtensor_destroy(exg_dtensor *t); /* NULL is allowed */

/* A DTensor over this rank's local tensor, whose memory it borrows; no message.
 * Without `shape` even shards are assumed: the sharded dim is size times as long
 * (S003-24). With it, the local sizes must be this rank's chunk (S003-26). A
 * negative shard dim counts from the end. */
exg_status exg_dtensor_from_local(exg_device_mesh *mesh, const exg_tensor *local,
                                  exg_placement placement, const int64_t *shape, exg_dtensor **t,
                                  exg_error *err);

/* Collective. `global` of rank `source` is the truth: shards are scattered from it,
 * replicas broadcast (S003-83). Strides of the local part are row-major. */
exg_status exg_distribute_tensor(exg_device_mesh *mesh, const exg_tensor *global,
                                 exg_placement placement, uint32_t source, exg_dtensor **t,
                                 exg_error *err);

/* Collective. A new DTensor with the other placement; `t` is unchanged. To the same
 * placement: a DTensor over the same memory, no message. To Partial: refused. */
exg_status exg_dtensor_redistribute(const exg_dtensor *t, exg_placement placement,
                                    exg_dtensor **out, exg_error *err);

/* Collective. The whole value on every rank: redistribute to Replicate. */
exg_status exg_dtensor_full_tensor(const exg_dtensor *t, exg_dtensor **out, exg_error *err);

/* This rank's part; borrowed, as long as `t`. */
const exg_tensor *exg_dtensor_to_local(const exg_dtensor *t);

exg_placement exg_dtensor_placement(const exg_dtensor *t);
uint32_t exg_dtensor_rank_count(const exg_dtensor *t); /* global number of dims */
const int64_t *exg_dtensor_sizes(const exg_dtensor *t); /* global */
exg_dtype exg_dtensor_dtype(const exg_dtensor *t);

#ifdef __cplusplus
}
#endif

#endif
