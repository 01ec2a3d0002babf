/* subclass.h - what a pickled tensor subclass says of itself. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_SUBCLASS_H
#define EXG_LIBEXPORT_FORMATS_PT2_SUBCLASS_H

#include "libexport/base/arena.h"

#include <exg/program.h>
#include <exg/weights.h>

/* Its class, "torchao.prototype.mx_formats.mx_tensor.MXTensor", and what it has beside tensors, as
 * text by name: "block_size" = "32"; in `arena`. *type is NULL where the pickle cannot be read. */
exg_status exg_weight_attributes(exg_weights *of, const exg_weight *weight, exg_arena *arena,
                                 const char **type, exg_string_map *attributes, exg_error *err);

#endif
