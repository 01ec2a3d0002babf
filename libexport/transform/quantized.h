/* quantized.h - products, convolutions of numbers on grids, as quantized models are exported. */
#ifndef EXG_LIBEXPORT_TRANSFORM_QUANTIZED_H
#define EXG_LIBEXPORT_TRANSFORM_QUANTIZED_H

#include "libexport/transform/rewrite.h"

/* The program with a product, or convolution, of bytes in place of each of what was made of bytes;
 * the nodes before stay, unused, for exg_simplify to drop. */
exg_status exg_find_quantized(const exg_program *functional, const exg_operators *operators,
                              exg_program **out, exg_error *err);

#endif
