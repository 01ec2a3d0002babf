/* compute.h - which compute type carries a dtype. */
#ifndef EXG_LIBEXEC_KERNELS_COMPUTE_H
#define EXG_LIBEXEC_KERNELS_COMPUTE_H

#include "libexec/kernels/loops/loops.h"

#include <stdbool.h>

/* False for complex dtypes. */
static inline bool exg_compute_of(exg_dtype dtype, exg_compute *compute)
{
    switch ((int)dtype) {
    case EXG_DTYPE_B8:
    case EXG_DTYPE_U8:
    case EXG_DTYPE_I8:
    case EXG_DTYPE_I16:
    case EXG_DTYPE_U16:
    case EXG_DTYPE_I32:
        *compute = EXG_COMPUTE_I32;
        return true;
    case EXG_DTYPE_U32:
    case EXG_DTYPE_U64:
    case EXG_DTYPE_I64:
        *compute = EXG_COMPUTE_I64;
        return true;
    case EXG_DTYPE_F16:
    case EXG_DTYPE_BF16:
    case EXG_DTYPE_F32:
    case EXG_DTYPE_F8E4M3FN:
    case EXG_DTYPE_F8E5M2:
    case EXG_DTYPE_F8E4M3FNUZ:
    case EXG_DTYPE_F8E5M2FNUZ:
    case EXG_DTYPE_F8E8M0FNU:
        *compute = EXG_COMPUTE_F32;
        return true;
    case EXG_DTYPE_F64:
        *compute = EXG_COMPUTE_F64;
        return true;
    default:
        return false;
    }
}

/* Memory of the dtype is an array of its compute type. */
static inline bool exg_compute_is_storage(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F32 || dtype == EXG_DTYPE_F64 || dtype == EXG_DTYPE_I32 ||
           dtype == EXG_DTYPE_I64;
}

#endif
