/* float8.h - products of float8 numbers, which are computed in float32. */
#ifndef EXG_LIBEXPORT_DECOMPOSITIONS_FLOAT8_H
#define EXG_LIBEXPORT_DECOMPOSITIONS_FLOAT8_H

#include "libexport/decompositions/complex.h"

/* The greatest number of a float8 dtype. */
static inline double exg_float8_most(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F8E4M3FN     ? 448
           : dtype == EXG_DTYPE_F8E4M3FNUZ ? 240
           : dtype == EXG_DTYPE_F8E8M0FNU  ? 0x1p127
                                           : 57344;
}

#endif
