/* element.c - single elements as numbers, and back. */
#include "libexport/base/element.h"

#include <exg/types.h>
#include <math.h>

/* ---- floats of one and two bytes ------------------------------------------------------------- */

static double narrow(exg_dtype dtype, const void *at)
{
    uint8_t byte;
    uint16_t half;

    memcpy(&byte, at, sizeof(byte));
    switch (dtype) {
    case EXG_DTYPE_F8E5M2:
        return (double)exg_f8e5m2_to_f32(byte);
    case EXG_DTYPE_F8E4M3FN:
        return (double)exg_f8e4m3fn_to_f32(byte);
    case EXG_DTYPE_F8E4M3FNUZ:
        return (double)exg_f8e4m3fnuz_to_f32(byte);
    case EXG_DTYPE_F8E5M2FNUZ:
        return (double)exg_f8e5m2fnuz_to_f32(byte);
    case EXG_DTYPE_F8E8M0FNU:
        return (double)exg_f8e8m0fnu_to_f32(byte);
    default:
        memcpy(&half, at, sizeof(half));
        return (double)(dtype == EXG_DTYPE_BF16 ? exg_bf16_to_f32(half) : exg_f16_to_f32(half));
    }
}

static void store_narrow(exg_dtype dtype, void *at, float x)
{
    uint16_t half = dtype == EXG_DTYPE_BF16 ? exg_f32_to_bf16(x) : exg_f32_to_f16(x);
    uint8_t byte = dtype == EXG_DTYPE_F8E5M2       ? exg_f32_to_f8e5m2(x)
                   : dtype == EXG_DTYPE_F8E4M3FN   ? exg_f32_to_f8e4m3fn(x)
                   : dtype == EXG_DTYPE_F8E4M3FNUZ ? exg_f32_to_f8e4m3fnuz(x)
                   : dtype == EXG_DTYPE_F8E5M2FNUZ ? exg_f32_to_f8e5m2fnuz(x)
                                                   : exg_f32_to_f8e8m0fnu(x);

    memcpy(at, exg_dtype_bytes(dtype) == 1 ? (const void *)&byte : (const void *)&half,
           exg_dtype_bytes(dtype));
}

/* ---- all ------------------------------------------------------------------------------------- */

#define READ(type)                                                                                 \
    do {                                                                                           \
        type value;                                                                                \
        memcpy(&value, at, sizeof(value));                                                         \
        return (double)value;                                                                      \
    } while (0)

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
    case EXG_DTYPE_F8E4M3FNUZ:
    case EXG_DTYPE_F8E5M2FNUZ:
    case EXG_DTYPE_F8E8M0FNU:
        return narrow(dtype, at);
    default:
        return (double)NAN;
    }
}

/* Little endian: the low bytes of a wide integer are a narrow one. */
static void store_integer(exg_dtype dtype, void *at, double value)
{
    uint64_t bits = dtype == EXG_DTYPE_B8    ? value != 0
                    : dtype == EXG_DTYPE_U64 ? (uint64_t)value
                                             : (uint64_t)(int64_t)value;

    memcpy(at, &bits, exg_dtype_bytes(dtype));
}

void exg_element_store(exg_dtype dtype, void *at, double value)
{
    float x = (float)value;

    switch (dtype) {
    case EXG_DTYPE_F32:
        memcpy(at, &x, sizeof(x));
        return;
    case EXG_DTYPE_F64:
        memcpy(at, &value, sizeof(value));
        return;
    case EXG_DTYPE_C32:
        memset(at, 0, exg_dtype_bytes(dtype));
        store_narrow(EXG_DTYPE_F16, at, x);
        return;
    case EXG_DTYPE_C64:
        memcpy(at, (const float[2]){x, 0}, exg_dtype_bytes(dtype));
        return;
    case EXG_DTYPE_C128:
        memcpy(at, (const double[2]){value, 0}, exg_dtype_bytes(dtype));
        return;
    default:
        if (exg_dtype_is_float(dtype)) {
            store_narrow(dtype, at, x);
        } else {
            store_integer(dtype, at, value);
        }
        return;
    }
}
