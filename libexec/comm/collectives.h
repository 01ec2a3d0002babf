/* collectives.h - collectives over exchange: row-major tensors in host memory,
 * chunks as exg_chunk cuts them, uneven and empty ones included.
 *
 * Sums are taken in rank order, so results do not depend on timing and one plan
 * gives the same bits over every communicator. `workspace` has the bytes that
 * exg_<collective>_workspace() says; nothing is allocated.
 */
#ifndef EXG_LIBEXEC_COMM_COLLECTIVES_H
#define EXG_LIBEXEC_COMM_COLLECTIVES_H

#include "libexec/comm/communicator.h"

#include <exg/placement.h>
#include <exg/tensor.h>

/* out = op over ranks of in; same shape. */
uint64_t exg_all_reduce_workspace(const exg_communicator *c, const exg_tensor *in);
exg_status exg_all_reduce(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          exg_reduce_op op, void *workspace, exg_error *err);

/* in: own chunk of `dim`; out: the whole. */
uint64_t exg_all_gather_workspace(const exg_communicator *c, const exg_tensor *out);
exg_status exg_all_gather(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          uint32_t dim, void *workspace, exg_error *err);

/* in: a summand of the whole; out: own chunk of `dim` of the sum. */
uint64_t exg_reduce_scatter_workspace(const exg_communicator *c, const exg_tensor *in, uint32_t dim);
exg_status exg_reduce_scatter(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                              uint32_t dim, exg_reduce_op op, void *workspace, exg_error *err);

/* in: own chunk of gather_dim, all of scatter_dim; out: the other way round. */
uint64_t exg_all_to_all_workspace(const exg_communicator *c, const exg_tensor *in,
                                  const exg_tensor *out);
exg_status exg_all_to_all(exg_communicator *c, const exg_tensor *in, const exg_tensor *out,
                          uint32_t gather_dim, uint32_t scatter_dim, void *workspace,
                          exg_error *err);

/* A collective by its tensors' sizes alone. */
typedef enum exg_collective_kind {
    EXG_ALL_REDUCE,
    EXG_ALL_GATHER,
    EXG_REDUCE_SCATTER,
    EXG_ALL_TO_ALL
} exg_collective_kind;

typedef struct exg_collective {
    exg_collective_kind kind;
    const exg_tensor *in, *out;
    uint32_t dim, other_dim; /* gathered or scattered; of all-to-all gathered, scattered */
} exg_collective;

/* What a step of a plan exchanges, along which mesh dim, and the name of its reduction (""
 * for none); false: nothing. */
struct exg_kernel;
struct exg_kernel_call;
bool exg_collective_of(const struct exg_kernel *kernel, const struct exg_kernel_call *call,
                       exg_collective *what, uint32_t *mesh_dim, const char **op);

/* The exchanges it takes, and the bytes of exchange `round` to and from each rank: what goes
 * over the wire, so what they say of two ranks can be compared before either sends. */
uint32_t exg_collective_rounds(const exg_collective *what);
void exg_collective_counts(const exg_communicator *c, const exg_collective *what, uint32_t round,
                           exg_segment *send, exg_segment *receive);

/* Every rank gets rank `source`'s bytes. */
exg_status exg_broadcast_bytes(exg_communicator *c, void *data, uint64_t bytes, uint32_t source,
                               exg_error *err);

/* May `op` reduce this dtype? (avg of integers, bits of floats, complex numbers: no) */
bool exg_can_reduce(exg_dtype dtype, exg_reduce_op op);

#endif
