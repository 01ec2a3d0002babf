/* fold.h - arithmetic by channel goes into the weights of the convolution before it. */
#ifndef EXG_LIBEXPORT_TRANSFORM_FOLD_H
#define EXG_LIBEXPORT_TRANSFORM_FOLD_H

#include "libexport/transform/rewrite.h"

/* The program with batch norms of stored statistics folded; the nodes they were stay,
 * unused, for exg_simplify to drop. Pays where there is a convolution. */
exg_status exg_fold(const exg_program *functional, const exg_operators *operators,
                    exg_program **out, exg_error *err);

#endif
