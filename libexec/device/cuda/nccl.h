/* nccl.h - NCCL, opened when devices are joined. Declarations of the entry points that are
 * used: facts of their binary interface, no header of NCCL is read.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_NCCL_H
#define EXG_LIBEXEC_DEVICE_CUDA_NCCL_H

#include "libexec/device/cuda/driver.h"

typedef int nccl_result;
typedef struct nccl_comm_handle *nccl_comm;

typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* As of 2.14; later versions read no more than `size` says. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
} nccl_config;

#define NCCL_SUCCESS      0
#define NCCL_IN_PROGRESS  7
#define NCCL_OLDEST       21400 /* major * 10000 + minor * 100 + patch */
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_NO_DTYPE     (-1)
#define NCCL_BYTES        1 /* dtype: uint8 */

/* X(name here, symbol, parameters) */
#define EXG_NCCL_CALLS(X)                                                                          \
    X(get_version, "ncclGetVersion", (int *version))                                               \
    X(get_id, "ncclGetUniqueId", (nccl_id * id))                                                   \
    X(init, "ncclCommInitRankConfig",                                                              \
      (nccl_comm * comm, int size, nccl_id id, int rank, nccl_config *config))                     \
    X(finalize, "ncclCommFinalize", (nccl_comm comm))                                              \
    X(destroy, "ncclCommDestroy", (nccl_comm comm))                                                \
    X(abort, "ncclCommAbort", (nccl_comm comm))                                                    \
    X(async_error, "ncclCommGetAsyncError", (nccl_comm comm, nccl_result * error))                 \
    X(group_start, "ncclGroupStart", (void))                                                       \
    X(group_end, "ncclGroupEnd", (void))                                                           \
    X(all_reduce, "ncclAllReduce",                                                                 \
      (uint64_t in, uint64_t out, size_t count, int dtype, int op, nccl_comm comm,                 \
       cuda_stream stream))                                                                        \
    X(all_gather, "ncclAllGather",                                                                 \
      (uint64_t in, uint64_t out, size_t count, int dtype, nccl_comm comm, cuda_stream stream))    \
    X(reduce_scatter, "ncclReduceScatter",                                                         \
      (uint64_t in, uint64_t out, size_t count, int dtype, int op, nccl_comm comm,                 \
       cuda_stream stream))                                                                        \
    X(send, "ncclSend",                                                                            \
      (uint64_t data, size_t count, int dtype, int peer, nccl_comm comm, cuda_stream stream))      \
    X(receive, "ncclRecv",                                                                         \
      (uint64_t data, size_t count, int dtype, int peer, nccl_comm comm, cuda_stream stream))

#define EXG_NCCL_MEMBER(name, symbol, params) nccl_result(*name) params;

typedef struct exg_nccl {
    EXG_NCCL_CALLS(EXG_NCCL_MEMBER)
    const char *(*error_text)(nccl_result result);
    const char *(*last_error)(nccl_comm comm);
    int version;
} exg_nccl;

/* UNSUPPORTED DEV-011: NCCL is not there, or too old. */
exg_status exg_nccl_open(exg_nccl *nccl, exg_error *err);

/* "NCCL 2.28.3" */
void exg_nccl_name(const exg_nccl *nccl, char *text, size_t size);

#endif
