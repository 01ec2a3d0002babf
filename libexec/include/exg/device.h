/* device.h - what sessions can run on (exg_session_options.device).
 *
 * Kinds: "cpu", the host; "cuda", GPUs, by a library of its own (libexg_cuda.so) that is loaded
 * when asked for and opens the driver's; "strict", the host with a device's manners, where
 * addresses fault when the host follows them, work is done late and fresh memory is NaN;
 * "strict-host", the same with most kernels left to the host, between copies. The last two
 * find faults without a GPU.
 *
 * Threads: any.
 */
#ifndef EXG_DEVICE_H
#define EXG_DEVICE_H

#include <exg/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_device_info {
    char name[96];         /* "NVIDIA H200" */
    char architecture[32]; /* "sm_90"; of the host the instruction set its loops use */
    uint64_t memory_bytes, free_bytes; /* 0: not told */
} exg_device_info;

/* Kind `index`, from 0; NULL past the last. */
const char *exg_device_kind(uint32_t index);

/* How many of a kind can be opened. USAGE DEV-001: no such kind; DEVICE DEV-...: what is missing
 * for it, and what to do. */
exg_status exg_device_count(const char *kind, uint32_t *count, exg_error *err);

/* The same faults, and USAGE DEV-001 for an index past the last. */
exg_status exg_device_describe(const char *kind, uint32_t index, exg_device_info *info,
                               exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
