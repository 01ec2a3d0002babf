/* quantized.h - products of numbers on grids, as exporters of quantized models write them. */
#ifndef EXG_LIBEXPORT_TRANSFORM_QUANTIZED_H
#define EXG_LIBEXPORT_TRANSFORM_QUANTIZED_H

#include "libexport/transform/rewrite.h"

/* The program with a product of bytes in place of each product of what was made of bytes; the
 * nodes before stay, unused, for exg_simplify to drop. */
exg_status exg_find_quantized(const exg_program *functional, const exg_operators *operators,
                              exg_program **out, exg_error *err);

#endif
