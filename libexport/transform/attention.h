/* attention.h - attention and products by one matrix, found in what exporters make of them. */
#ifndef EXG_LIBEXPORT_TRANSFORM_ATTENTION_H
#define EXG_LIBEXPORT_TRANSFORM_ATTENTION_H

#include "libexport/transform/rewrite.h"

/* The program with each pattern in place of its last product; the nodes before stay, unused,
 * for exg_simplify to drop. Pays where there is a bmm. */
exg_status exg_find_attention(const exg_program *functional, const exg_operators *operators,
                              exg_program **out, exg_error *err);

#endif
