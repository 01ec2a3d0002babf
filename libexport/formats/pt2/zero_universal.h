/* zero_universal.h - a folder that DeepSpeed's ds_to_universal makes: zero/NAME/fp32.pt of each
 * parameter, whole, and beside them the files of the model. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ZERO_UNIVERSAL_H
#define EXG_LIBEXPORT_FORMATS_PT2_ZERO_UNIVERSAL_H

#include "libexport/formats/pt2/pickle.h"

#include <exg/weights.h>

/* The folder with zero/ in it: `folder`, or the one in it that its file latest_universal names,
 * with a slash at its end, in the arena, and how many bytes its parameters have; NULL: there is
 * none, or no memory. */
const char *exg_universal_find(const char *folder, exg_arena *arena, uint64_t *bytes);

/* Its parameters (`folder` is what exg_universal_find() gave), but for those that the weights have
 * already and other names of theirs; that there are moments of the optimizer is listed. `model` is
 * what the first of the model's files says; NULL: there is none. What pickles make takes `budget`
 * bytes at most. MALFORMED (ZERO-STATE), IO. */
exg_status exg_universal_read(const char *folder, const exg_pickle_value *model, uint64_t budget,
                              exg_weights *weights, exg_error *err);

/* What the file `name` in a folder says, as DeepSpeed's `latest`; "" when there is none, NULL: no
 * memory. */
const char *exg_zero_tag(const char *folder, const char *name, exg_arena *arena);

#endif
