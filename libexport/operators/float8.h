/* float8.h - products of float8 numbers, which are computed in float32. */
#ifndef EXG_LIBEXPORT_OPERATORS_FLOAT8_H
#define EXG_LIBEXPORT_OPERATORS_FLOAT8_H

#include "libexport/operators/complex.h"

static inline bool exg_dtype_is_float8(exg_dtype dtype)
{
    return exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) == 1;
}

/* The greatest number of a float8 dtype. */
static inline double exg_float8_most(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F8E4M3FN     ? 448
           : dtype == EXG_DTYPE_F8E4M3FNUZ ? 240
           : dtype == EXG_DTYPE_F8E8M0FNU  ? 0x1p127
                                           : 57344;
}

/* What an operator is of float8 tensors where it is not what its kernel does, or NULL. */
exg_complex_lowering *exg_float8_lowering_of(exg_operator_id id);

#endif
