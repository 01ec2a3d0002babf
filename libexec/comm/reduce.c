/* reduce.c - one body for every dtype: widen, combine in rank order, narrow. */
#include "libexec/comm/reduce.h"
#include "libexport/base/element.h"


#define AS_IS(x) (x)

/* NaN in any part is the result, as torch's maximum and minimum say. */
#define LARGER(a, b)  ((a) != (a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

#define REDUCE(name, stored, wide, widen, narrow)                                            \
    static void reduce_##name(exg_reduce_op op, const stored *parts, uint32_t n,             \
                              int64_t count, stored *out)                                    \
    {                                                                                        \
        for (int64_t i = 0; i < count; i++) {                                                \
            wide value = widen(parts[i]);                                                    \
                                                                                             \
            for (uint32_t r = 1; r < n; r++) {                                               \
                wide next = widen(parts[(int64_t)r * count + i]);                            \
                                                                                             \
                value = op == EXG_REDUCE_MAX       ? LARGER(value, next)                     \
                        : op == EXG_REDUCE_MIN     ? SMALLER(value, next)                    \
                        : op == EXG_REDUCE_PRODUCT ? (wide)(value * next)                    \
                                                   : (wide)(value + next);                   \
            }                                                                                \
            out[i] = (stored)narrow(op == EXG_REDUCE_AVG ? (wide)(value / (wide)n) : value); \
        }                                                                                    \
    }

REDUCE(f32, float, float, AS_IS, AS_IS)
REDUCE(f64, double, double, AS_IS, AS_IS)
REDUCE(f16, uint16_t, float, exg_f16_to_f32, exg_f32_to_f16)
REDUCE(bf16, uint16_t, float, exg_bf16_to_f32, exg_f32_to_bf16)
REDUCE(u8, uint8_t, uint64_t, AS_IS, AS_IS)
REDUCE(i8, int8_t, int64_t, AS_IS, AS_IS)
REDUCE(i16, int16_t, int64_t, AS_IS, AS_IS)
REDUCE(i32, int32_t, int64_t, AS_IS, AS_IS)
REDUCE(i64, int64_t, uint64_t, (uint64_t), (int64_t))

/* Ordered comparisons of i64 need the sign that the wrapping sum gives up. */
static void reduce_i64_ordered(exg_reduce_op op, const int64_t *parts, uint32_t n, int64_t count,
                               int64_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t value = parts[i];

        for (uint32_t r = 1; r < n; r++) {
            int64_t next = parts[(int64_t)r * count + i];

            value = (op == EXG_REDUCE_MAX) == (next > value) ? next : value;
        }
        out[i] = value;
    }
}

/* A sum of bools is "or", a product "and". */
static void reduce_b8(exg_reduce_op op, const uint8_t *parts, uint32_t n, int64_t count,
                      uint8_t *out)
{
    bool all = op == EXG_REDUCE_MIN || op == EXG_REDUCE_PRODUCT || op == EXG_REDUCE_BAND;

    for (int64_t i = 0; i < count; i++) {
        bool value = parts[i] != 0;

        for (uint32_t r = 1; r < n; r++) {
            bool next = parts[(int64_t)r * count + i] != 0;

            value = op == EXG_REDUCE_BXOR ? value != next
                    : all                 ? value && next
                                          : value || next;
        }
        out[i] = value;
    }
}

/* Bits are the same in any integer, so bytes are taken. */
static void reduce_bits(exg_reduce_op op, const uint8_t *parts, uint32_t n, int64_t bytes,
                        uint8_t *out)
{
    for (int64_t i = 0; i < bytes; i++) {
        uint32_t value = parts[i];

        for (uint32_t r = 1; r < n; r++) {
            uint32_t next = parts[(int64_t)r * bytes + i];

            value = op == EXG_REDUCE_BAND  ? value & next
                    : op == EXG_REDUCE_BOR ? value | next
                                           : value ^ next;
        }
        out[i] = (uint8_t)value;
    }
}

void exg_reduce_parts(exg_dtype dtype, exg_reduce_op op, const void *parts, uint32_t n,
                      int64_t count, void *out)
{
    if (op >= EXG_REDUCE_BAND && dtype != EXG_DTYPE_B8) {
        reduce_bits(op, parts, n, count * (int64_t)exg_dtype_bytes(dtype), out);
        return;
    }
    switch (dtype) {
    case EXG_DTYPE_F32:
        reduce_f32(op, parts, n, count, out);
        return;
    case EXG_DTYPE_F64:
        reduce_f64(op, parts, n, count, out);
        return;
    case EXG_DTYPE_F16:
        reduce_f16(op, parts, n, count, out);
        return;
    case EXG_DTYPE_BF16:
        reduce_bf16(op, parts, n, count, out);
        return;
    case EXG_DTYPE_U8:
        reduce_u8(op, parts, n, count, out);
        return;
    case EXG_DTYPE_I8:
        reduce_i8(op, parts, n, count, out);
        return;
    case EXG_DTYPE_I16:
        reduce_i16(op, parts, n, count, out);
        return;
    case EXG_DTYPE_I32:
        reduce_i32(op, parts, n, count, out);
        return;
    case EXG_DTYPE_I64:
        if (op == EXG_REDUCE_MAX || op == EXG_REDUCE_MIN) {
            reduce_i64_ordered(op, parts, n, count, out);
        } else {
            reduce_i64(op, parts, n, count, out);
        }
        return;
    case EXG_DTYPE_B8:
        reduce_b8(op, parts, n, count, out);
        return;
    default:
        return; /* exg_can_reduce said no */
    }
}
