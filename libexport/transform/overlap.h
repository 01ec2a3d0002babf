/* overlap.h - do two tensors share an element? PyTorch's operators write through what they are
 * given, so where one is written the other is written too. */
#ifndef EXG_LIBEXPORT_TRANSFORM_OVERLAP_H
#define EXG_LIBEXPORT_TRANSFORM_OVERLAP_H

#include "libexport/operators/shape.h"

/* Of two tensors in one storage; true too where it would take too long to know. */
bool exg_share_elements(const exg_strided *a, const exg_strided *b);

/* Are two elements of the tensor at one place? */
bool exg_shares_elements_itself(const exg_strided *a);

#endif
