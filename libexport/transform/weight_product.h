/* weight_product.h - products by weights of fewer bits, found where a weight is dequantized. */
#ifndef EXG_LIBEXPORT_TRANSFORM_WEIGHT_PRODUCT_H
#define EXG_LIBEXPORT_TRANSFORM_WEIGHT_PRODUCT_H

#include <exg/operators.h>

/* *out is NULL where there is none; else the functional program with exg.weight_product in their
 * place, and nothing that was for them alone. */
exg_status exg_find_weight_products(const exg_program *functional, const exg_operators *operators,
                                    exg_program **out, exg_error *err);

#endif
