/* pointwise.h - a finished pointwise program as text and parameters, for a kernel of its own or
 * inside another's.
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_POINTWISE_H
#define EXG_LIBEXEC_DEVICE_CUDA_POINTWISE_H

#include "libexec/device/cuda/kernel_table.h"
#include "libexec/kernels/pointwise_program.h"

#include <exg/text.h>

#define WORDS_MAX (EXG_CUDA_PARAMS_MAX / 8)

/* Defines struct pointwise_params and `element(params, i, &bad)`, which computes element i;
 * `bad`: an integer was divided by zero. */
void exg_cuda_write_program(exg_text *text, const exg_pointwise *p);

/* What that struct holds, but for the addresses that it begins with, which are slots. The number
 * of words; 0: more than `most`. */
uint32_t exg_cuda_program_words(const exg_pointwise *p, uint64_t *words, uint32_t most);

/* Those slots; operands that are no results are `inputs`. */
void exg_cuda_program_slots(const exg_pointwise *p, exg_cuda_slot_kind inputs,
                            exg_cuda_launch *launch);

/* Adds the program to the call's step as a launch of its own. */
exg_status exg_cuda_add_program(exg_kernel_call *call, const exg_pointwise *p,
                                exg_cuda_slot_kind inputs, exg_error *err);

#endif
