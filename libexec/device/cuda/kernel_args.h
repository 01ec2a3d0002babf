/* kernel_args.h - a kernel of a text, with its options and its parameters. */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_KERNEL_ARGS_H
#define EXG_LIBEXEC_DEVICE_CUDA_KERNEL_ARGS_H

#include "libexec/device/cuda/cuda.h"

#define EXG_CUDA_WORD       16        /* bytes that a thread moves at once, where memory allows */
#define EXG_CUDA_WARP       32        /* threads */
#define EXG_CUDA_BLOCKS_MAX (1 << 20) /* of kernels whose blocks go on to the next row */

/* Adds a launch to the call's step, which it begins where there is none: kernel `entry` of
 * libexec/kernels/cuda/FILE.cu. `slots` are the addresses that the parameters begin with:
 * "i0 o0 w f r", an input, an output, workspace, the fault note, the random source; "iz" is
 * NULL; "e" says that the text has the call's epilogue in it, where there is one (tile.h).
 * `params` is a struct. The options are printf's. */
#define EXG_CUDA_ADD(call, file, entry, slots, params, launch, err, ...)                           \
    exg_cuda_add(call, "libexec/kernels/cuda/" file ".cu", entry, slots, &(params),                \
                 sizeof(params), launch, err, __VA_ARGS__)
exg_status exg_cuda_add(exg_kernel_call *call, const char *file, const char *entry,
                        const char *slots, const void *params, size_t params_bytes,
                        exg_cuda_launch **launch, exg_error *err, const char *options, ...)
    __attribute__((format(printf, 9, 10)));

/* Of those that take a row of `size` together: as many as have work, and more where there are few
 * rows to fill the device with. A power of two, a warp at least. */
uint32_t exg_cuda_threads_of_row(const exg_kernel_call *call, int64_t rows, int64_t size);

/* What a text by rows (row.h) is told: whether a warp takes a row or a block, and EACH for elements
 * of `bytes`, unless a thread would have to keep too much of the row, or `bytes` is 0. */
#define EXG_CUDA_ROW_OPTIONS 64 /* bytes of the text */
const char *exg_cuda_row_options(uint32_t threads, int64_t size, uint32_t bytes, char *text,
                                 size_t text_bytes);

/* The grid of such a kernel. */
void exg_cuda_row_grid(exg_cuda_launch *launch, uint32_t threads, int64_t rows);

#define EXG_CUDA_KERNEL(name_, flags_)                                                             \
    const exg_kernel exg_cuda_##name_ = {                                                          \
        .name = #name_,                                                                            \
        .prepare = name_##_prepare,                                                                \
        .run = exg_cuda_step_run,                                                                  \
        .flags = flags_,                                                                           \
    }

#endif
