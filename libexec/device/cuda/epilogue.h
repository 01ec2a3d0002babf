/* epilogue.h - what the planner has follow a product or a convolution (kernel.h): done by the
 * library that computes it, inside a kernel of ours, or by a launch of its own after it.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_EPILOGUE_H
#define EXG_LIBEXEC_DEVICE_CUDA_EPILOGUE_H

#include "libexec/device/cuda/kernel_table.h"

typedef enum exg_cuda_activation {
    EXG_CUDA_IDENTITY,
    EXG_CUDA_RELU,
    EXG_CUDA_GELU_TANH
} exg_cuda_activation;

/* activation(result + added), as libraries have it. */
typedef struct exg_cuda_epilogue {
    exg_cuda_activation activation;
    bool adds;
    bool adds_row; /* a vector along the result's last dimension, else as large as the result */
    exg_cuda_slot added;
} exg_cuda_epilogue;

/* The call's epilogue, where it has one of that form over rows of `width` elements. What is added
 * has the result's dtype. */
bool exg_cuda_read_epilogue(const exg_kernel_call *call, int64_t width, exg_cuda_epilogue *e);

/* Adds the call's epilogue as a launch of its own; nothing where there is none. */
exg_status exg_cuda_add_epilogue(exg_kernel_call *call, exg_error *err);

/* A kernel of file's text that finishes its elements with the epilogue (tile.h), and then, after
 * the slots of the kernel itself, those of the epilogue, whose parameters follow `own_bytes`. */
exg_status exg_cuda_add_finishing(exg_kernel_call *call, const char *file, const char *options,
                                  const char *entry, const void *params, size_t own_bytes,
                                  exg_cuda_launch **launch, exg_error *err);
void exg_cuda_add_epilogue_slots(const exg_kernel_call *call, uint32_t own_bytes,
                                 exg_cuda_launch *launch);

#endif
