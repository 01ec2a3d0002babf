/* element.c - single elements as numbers. */
#include "libexport/base/element.h"

#include <exg/types.h>
#include <math.h>

#define READ(type)                         \
    do {                                   \
        type value;                        \
        memcpy(&value, at, sizeof(value)); \
        return (double)value;              \
    } while (0)

static double narrow(exg_dtype dtype, const void *at)
{
    uint16_t half;

    if (dtype == EXG_DTYPE_F8E4M3FN || dtype == EXG_DTYPE_F8E5M2) {
        uint8_t byte;

        memcpy(&byte, at, sizeof(byte));
        return (double)(dtype == EXG_DTYPE_F8E5M2 ? exg_f8e5m2_to_f32(byte)
                                                  : exg_f8e4m3fn_to_f32(byte));
    }
    memcpy(&half, at, sizeof(half));
    return (double)(dtype == EXG_DTYPE_BF16 ? exg_bf16_to_f32(half) : exg_f16_to_f32(half));
}

double exg_element_value(exg_dtype dtype, const void *at)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
    case EXG_DTYPE_C64:
        READ(float);
    case EXG_DTYPE_F64:
    case EXG_DTYPE_C128:
        READ(double);
    case EXG_DTYPE_U8:
    case EXG_DTYPE_B8:
        READ(uint8_t);
    case EXG_DTYPE_I8:
        READ(int8_t);
    case EXG_DTYPE_I16:
        READ(int16_t);
    case EXG_DTYPE_U16:
        READ(uint16_t);
    case EXG_DTYPE_I32:
        READ(int32_t);
    case EXG_DTYPE_U32:
        READ(uint32_t);
    case EXG_DTYPE_I64:
        READ(int64_t);
    case EXG_DTYPE_U64:
        READ(uint64_t);
    case EXG_DTYPE_F16:
    case EXG_DTYPE_BF16:
    case EXG_DTYPE_C32:
    case EXG_DTYPE_F8E4M3FN:
    case EXG_DTYPE_F8E5M2:
        return narrow(dtype, at);
    default:
        return (double)NAN;
    }
}
