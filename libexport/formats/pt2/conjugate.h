/* conjugate.h - storages whose elements are conjugated or negated when they are read: views of
 * torch.conj() and of the imaginary part of such, whose files hold the elements as they were. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_CONJUGATE_H
#define EXG_LIBEXPORT_FORMATS_PT2_CONJUGATE_H

#include <exg/weights.h>
#include <stdbool.h>

/* *storage becomes one like it, of `dtype`, whose elements are conjugated, negated. */
exg_status exg_storage_conjugate(exg_weights *weights, exg_dtype dtype, bool is_conj, bool is_neg,
                                 uint32_t *storage, exg_error *err);

#endif
