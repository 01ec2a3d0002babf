/* dnn.h - cuDNN, NVIDIA's convolutions, opened when one is first asked for. Without it, and for
 * what it does not take, convolutions are convolution.cu's. Declarations are facts of its binary
 * interface, no header of it is read.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_DNN_H
#define EXG_LIBEXEC_DEVICE_CUDA_DNN_H

#include "libexec/device/cuda/kernel_table.h"

/* Adds the convolution of operand 0 with operand 1, and operand 2 as bias where it is there, to the
 * call's step as calls of cuDNN and sets *taken. Not taken: the library is not there, or not made
 * for this (integers). */
exg_status exg_cuda_dnn_add(exg_kernel_call *call, const cuda_convolution_params *convolution,
                            bool *taken, exg_error *err);

#endif
