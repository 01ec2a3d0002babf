/* zero_tensor.h - what the tensor-parallel ranks of a DeepSpeed checkpoint have, put together as
 * DeepSpeed's own ds_to_universal does it. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ZERO_TENSOR_H
#define EXG_LIBEXPORT_FORMATS_PT2_ZERO_TENSOR_H

#include "libexport/formats/pt2/pickle.h"

/* Adds to `weights` the whole tensors of those of each rank, which it keeps. `info` is what files
 * say of it under "universal_checkpoint_info"; NULL: nothing. UNSUPPORTED (ZERO-TENSOR): of some it
 * is not said, or in a way that is not known. MALFORMED (ZERO-STATE): the parts do not go together.
 * LIMIT. */
exg_status exg_zero_join(exg_weights *const *of, uint32_t count, const exg_pickle_value *info,
                         exg_weights *weights, exg_error *err);

#endif
