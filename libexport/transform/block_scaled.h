/* block_scaled.h - torchao's MXTensor and NVFP4Tensor, which programs take as a whole. */
#ifndef EXG_LIBEXPORT_TRANSFORM_BLOCK_SCALED_H
#define EXG_LIBEXPORT_TRANSFORM_BLOCK_SCALED_H

#include <exg/program.h>

/* Parameters and buffers of these classes become the tensors inside of them, of `inside`
 * (exg_weights_unwrap()): a weight that is dequantized is a node before all others
 * (exg.dequantize_blocks); a product whose input is quantized, too, is exg.linear_blocks. Changes
 * the program; other subclasses stay. UNSUPPORTED (TRF-002): of such a weight something else than a
 * product is asked. */
exg_status exg_write_out_block_scaled(exg_program *program, exg_weights *inside, exg_error *err);

#endif
