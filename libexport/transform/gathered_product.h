/* gathered_product.h - products by matrices that an index picks, as those of experts, found where
 * the matrices are gathered. */
#ifndef EXG_LIBEXPORT_TRANSFORM_GATHERED_PRODUCT_H
#define EXG_LIBEXPORT_TRANSFORM_GATHERED_PRODUCT_H

#include <exg/operators.h>

/* *out is NULL where there is none; else the functional program with exg.gathered_product in their
 * place, and nothing that was for them alone. */
exg_status exg_find_gathered_products(const exg_program *functional, const exg_operators *operators,
                                      exg_program **out, exg_error *err);

#endif
