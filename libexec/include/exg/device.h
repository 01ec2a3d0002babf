/* device.h - what sessions can run on (exg_session_options.device), and what DTensors are on
 * (exg_mesh_shape.device_type).
 *
 * Kinds: "cpu", the host; "cuda", GPUs, by a library of its own (libexg_cuda.so) that is loaded
 * when asked for and opens the driver's; "strict", the host with a device's manners, where
 * addresses fault when the host follows them, work is done late and fresh memory is NaN;
 * "strict-host", the same with most kernels left to the host, between copies. The last two
 * find faults without a GPU.
 *
 * On a mesh each rank takes a device, or shares one. Collectives of sessions and moves of DTensors
 * go from device to device, beside computation:
 *
 *   ranks that are threads of one process and share one device read each other's memory and
 *   sum in the order of ranks: the same bits as on the host;
 *
 *   ranks with a GPU each, threads or processes, go through NCCL (libnccl.so.2, 2.14 or newer,
 *   opened when asked for). NCCL adds up in an order of its own, which depends on the machine:
 *   sums of floats are not the bits of other ways, while what is moved is. Largest and smallest
 *   of floats keep NaN, and dtypes and pieces that NCCL does not know are sent and summed here;
 *
 *   else, and with no NCCL, through the host (exg_session_stats.collectives_through says why).
 *
 * A collective that fails or does not end within half of exg_session_options.timeout_ns ends the
 * run on every rank (PEER COM-011, COM-012) and NCCL's communication with it; the process may go
 * on with another session, on the host too.
 *
 * Threads: any.
 */
#ifndef EXG_DEVICE_H
#define EXG_DEVICE_H

#include <exg/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_device_info {
    size_t size;                       /* that this library filled */
    char name[96];                     /* "NVIDIA H200" */
    char architecture[32];             /* "sm_90"; of the host the level of instructions in force */
    uint64_t memory_bytes, free_bytes; /* 0: not told */
    char libraries[48];                /* that compute for it: "cuBLASLt, no cuDNN"; or "" */
    char collectives[48]; /* what joins several of a kind: "NCCL 2.28.3", "no NCCL"; or "" */
    char files[1536]; /* of the libraries that were found for it, the driver's first: paths, a line
                         each, as far as there is room; or "" */
} exg_device_info;

/* Kind `index`, from 0; NULL past the last. */
const char *exg_device_kind(uint32_t index);

/* How many of a kind can be opened. USAGE DEV-001: no such kind; DEVICE DEV-...: what is missing
 * for it, and what to do. */
EXG_NODISCARD exg_status exg_device_count(const char *kind, uint32_t *count, exg_error *err);

/* The caller frees *info. The same faults, and USAGE DEV-001 for an index past the last. */
EXG_NODISCARD exg_status exg_device_describe(const char *kind, uint32_t index,
                                             exg_device_info **info, exg_error *err);

/* Instruction-set level `index` of this processor and this build, from 0, the lowest; NULL past the
 * last. Of x86-64: "generic", "v3" (AVX2, FMA), "v4" (AVX-512), "vnni", "bf16" (AVX512-BF16),
 * "amx"; each level has those before it. */
const char *exg_isa_level(uint32_t index);

/* Chooses the level that kernels of the host run by, for the whole process: before anything is
 * planned or described, for then the one that gains most is in force and stays. What is in force
 * exg_device_describe of "cpu" tells. USAGE DEV-013: no such level here, with those there are;
 * DEV-014: another is in force. */
EXG_NODISCARD exg_status exg_isa_choose(const char *level, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
