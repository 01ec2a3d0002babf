/* reduce.c - one body for every dtype: widen, combine in rank order, narrow; two parts at
 * once, more in blocks that stay in the cache. */
#include "libexec/comm/reduce.h"
#include "libexport/base/element.h"

#include <stddef.h>

#define BLOCK 1024

#define AS_IS(x) (x)

/* NaN in any part is the result, as torch's maximum and minimum say. */
#define LARGER(a, b)  ((a) != (a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))
#define PRODUCT(a, b) ((a) * (b))
#define SUM(a, b)     ((a) + (b))

/* to[i] = combine(a[i], b[i]) by op; sums and products in `whole`, where integers wrap. */
#define LOOP(combine, wide, type, first, second, narrow_to)                                        \
    for (int64_t i = 0; i < count; i++) {                                                          \
        to[i] = narrow_to((wide)combine((type)first(a[i]), (type)second(b[i])));                   \
    }
#define COMBINE(wide, whole, first, second, narrow_to)                                             \
    if (op == EXG_REDUCE_MAX) {                                                                    \
        LOOP(LARGER, wide, wide, first, second, narrow_to)                                         \
    } else if (op == EXG_REDUCE_MIN) {                                                             \
        LOOP(SMALLER, wide, wide, first, second, narrow_to)                                        \
    } else if (op == EXG_REDUCE_PRODUCT) {                                                         \
        LOOP(PRODUCT, wide, whole, first, second, narrow_to)                                       \
    } else {                                                                                       \
        LOOP(SUM, wide, whole, first, second, narrow_to)                                           \
    }

static bool is_pair(exg_reduce_op op, uint32_t n)
{
    return n == 2 && op != EXG_REDUCE_AVG;
}

#define REDUCE(name, stored, wide, whole, widen, narrow)                                           \
    static wide widen_##name(stored x)                                                             \
    {                                                                                              \
        return (wide)widen(x);                                                                     \
    }                                                                                              \
                                                                                                   \
    static stored narrow_##name(wide x)                                                            \
    {                                                                                              \
        return (stored)narrow(x);                                                                  \
    }                                                                                              \
                                                                                                   \
    static void fold_##name(exg_reduce_op op, const stored *b, int64_t count, wide *to)            \
    {                                                                                              \
        const wide *a = to;                                                                        \
                                                                                                   \
        COMBINE(wide, whole, AS_IS, widen_##name, AS_IS)                                           \
    }                                                                                              \
                                                                                                   \
    static void pair_##name(exg_reduce_op op, const stored *a, const stored *b, int64_t count,     \
                            stored *to)                                                            \
    {                                                                                              \
        COMBINE(wide, whole, widen_##name, widen_##name, narrow_##name)                            \
    }                                                                                              \
                                                                                                   \
    static void reduce_##name(exg_reduce_op op, const exg_segment *parts, uint32_t n,              \
                              int64_t first, int64_t count, void *out)                             \
    {                                                                                              \
        const stored *part = (const stored *)parts[0].data + first;                                \
        stored *to = (stored *)out + first;                                                        \
        wide sum[BLOCK];                                                                           \
                                                                                                   \
        if (is_pair(op, n)) {                                                                      \
            pair_##name(op, part, (const stored *)parts[1].data + first, count, to);               \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            sum[i] = (wide)widen(part[i]);                                                         \
        }                                                                                          \
        for (uint32_t r = 1; r < n; r++) {                                                         \
            fold_##name(op, (const stored *)parts[r].data + first, count, sum);                    \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++) {                                                      \
            to[i] = (stored)narrow(op == EXG_REDUCE_AVG ? (wide)(sum[i] / (wide)n) : sum[i]);      \
        }                                                                                          \
    }

REDUCE(f32, float, float, float, AS_IS, AS_IS)
REDUCE(f64, double, double, double, AS_IS, AS_IS)
REDUCE(f16, uint16_t, float, float, exg_f16_to_f32, exg_f32_to_f16)
REDUCE(bf16, uint16_t, float, float, exg_bf16_to_f32, exg_f32_to_bf16)
REDUCE(u8, uint8_t, uint64_t, uint64_t, AS_IS, AS_IS)
REDUCE(i8, int8_t, int64_t, uint64_t, AS_IS, AS_IS)
REDUCE(i16, int16_t, int64_t, uint64_t, AS_IS, AS_IS)
REDUCE(i32, int32_t, int64_t, uint64_t, AS_IS, AS_IS)
REDUCE(i64, int64_t, int64_t, uint64_t, AS_IS, AS_IS)

/* A sum of bools is "or", a product "and". */
static void reduce_b8(exg_reduce_op op, const exg_segment *parts, uint32_t n, int64_t first,
                      int64_t count, void *out)
{
    bool all = op == EXG_REDUCE_MIN || op == EXG_REDUCE_PRODUCT || op == EXG_REDUCE_BAND;
    uint8_t *to = (uint8_t *)out + first;

    for (int64_t i = 0; i < count; i++) {
        bool value = ((const uint8_t *)parts[0].data)[first + i] != 0;

        for (uint32_t r = 1; r < n; r++) {
            bool next = ((const uint8_t *)parts[r].data)[first + i] != 0;

            value = op == EXG_REDUCE_BXOR ? value != next : all ? value && next : value || next;
        }
        to[i] = value;
    }
}

/* Bits are the same in any integer, so bytes are taken. */
static void reduce_bits(exg_reduce_op op, const exg_segment *parts, uint32_t n, int64_t first,
                        int64_t count, void *out)
{
    uint8_t *to = (uint8_t *)out + first;

    for (int64_t i = 0; i < count; i++) {
        uint32_t value = ((const uint8_t *)parts[0].data)[first + i];

        for (uint32_t r = 1; r < n; r++) {
            uint32_t next = ((const uint8_t *)parts[r].data)[first + i];

            value = op == EXG_REDUCE_BAND  ? value & next
                    : op == EXG_REDUCE_BOR ? value | next
                                           : value ^ next;
        }
        to[i] = (uint8_t)value;
    }
}

typedef void block_reduction(exg_reduce_op op, const exg_segment *parts, uint32_t n, int64_t first,
                             int64_t count, void *out);

static block_reduction *reduction_of(exg_dtype dtype)
{
    static block_reduction *const rows[EXG_DTYPE_COUNT] = {
        [EXG_DTYPE_F32] = reduce_f32,   [EXG_DTYPE_F64] = reduce_f64, [EXG_DTYPE_F16] = reduce_f16,
        [EXG_DTYPE_BF16] = reduce_bf16, [EXG_DTYPE_U8] = reduce_u8,   [EXG_DTYPE_I8] = reduce_i8,
        [EXG_DTYPE_I16] = reduce_i16,   [EXG_DTYPE_I32] = reduce_i32, [EXG_DTYPE_I64] = reduce_i64,
        [EXG_DTYPE_B8] = reduce_b8,
    };

    return rows[dtype];
}

bool exg_can_reduce(exg_dtype dtype, exg_reduce_op op)
{
    bool is_float = exg_dtype_is_float(dtype);

    return reduction_of(dtype) != NULL && (op != EXG_REDUCE_AVG || is_float) &&
           (op < EXG_REDUCE_BAND || !is_float);
}

void exg_reduce_segments(exg_dtype dtype, exg_reduce_op op, const exg_segment *parts, uint32_t n,
                         void *out)
{
    bool by_bits = op >= EXG_REDUCE_BAND && dtype != EXG_DTYPE_B8;
    block_reduction *reduce = by_bits ? reduce_bits : reduction_of(dtype); /* can_reduce said yes */
    int64_t bytes = by_bits ? 1 : (int64_t)exg_dtype_bytes(dtype);
    uint64_t run = parts[0].bytes;
    exg_segment runs[EXG_RANKS_MAX];

    for (uint32_t r = 0; r < n; r++) {
        run = parts[r].run != 0 && parts[r].run < run ? parts[r].run : run;
    }
    for (uint64_t first = 0; first < parts[0].bytes; first += run) {
        int64_t count = (int64_t)run / bytes;
        int64_t step = is_pair(op, n) ? count : BLOCK;

        for (uint32_t r = 0; r < n; r++) {
            runs[r].data = exg_segment_at(&parts[r], first);
        }
        for (int64_t at = 0; at < count; at += step) {
            reduce(op, runs, n, at, count - at < step ? count - at : step, (char *)out + first);
        }
    }
}

void exg_reduce_parts(exg_dtype dtype, exg_reduce_op op, const void *parts, uint32_t n,
                      int64_t count, void *out)
{
    uint64_t bytes = (uint64_t)count * exg_dtype_bytes(dtype);
    exg_segment segments[EXG_RANKS_MAX];

    for (uint32_t r = 0; r < n; r++) {
        segments[r] =
            (exg_segment){.data = (uint8_t *)(uintptr_t)parts + r * bytes, .bytes = bytes};
    }
    exg_reduce_segments(dtype, op, segments, n, out);
}
