/* cast.c - elements of one dtype as those of another: to float32, and from there. */
#include "libexport/weights/cast.h"

#include "libexport/base/element.h"

#define PART 1024 /* elements at a time: what is between stays in the cache */

/* The loops below once more, in instructions that twice as many elements go through; elements may
 * lie anywhere. */
#if defined(__x86_64__)
#define EXG_WIDER __attribute__((target("avx2")))
#endif
#define EXG_INSIDE static inline __attribute__((always_inline))

#define WIDEN(type, expression)                                                                    \
    do {                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            type x;                                                                                \
            memcpy(&x, in + i * sizeof(x), sizeof(x));                                             \
            float y = (expression);                                                                \
            memcpy(out + i * sizeof(y), &y, sizeof(y));                                            \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

EXG_INSIDE void widen(exg_dtype from, const uint8_t *in, uint8_t *out, uint32_t count)
{
    uint32_t width = exg_dtype_bytes(from);

    switch (from) {
    case EXG_DTYPE_BF16:
        WIDEN(uint16_t, exg_bf16_to_f32(x));
    case EXG_DTYPE_F16:
        WIDEN(uint16_t, exg_f16_to_f32(x));
    case EXG_DTYPE_F8E4M3FN:
        WIDEN(uint8_t, exg_f8e4m3fn_to_f32(x));
    case EXG_DTYPE_F8E5M2:
        WIDEN(uint8_t, exg_f8e5m2_to_f32(x));
    case EXG_DTYPE_F64:
        WIDEN(double, (float)x);
    case EXG_DTYPE_I64: /* at once: by way of float64 it would be rounded twice */
        WIDEN(int64_t, (float)x);
    case EXG_DTYPE_U64:
        WIDEN(uint64_t, (float)x);
    default:
        for (uint32_t i = 0; i < count; i++) {
            float y = (float)exg_element_value(from, in + (uint64_t)i * width);

            memcpy(out + i * sizeof(y), &y, sizeof(y));
        }
        return;
    }
}

#define NARROW(type, function)                                                                     \
    do {                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            float x;                                                                               \
            memcpy(&x, in + i * sizeof(x), sizeof(x));                                             \
            type y = function(x);                                                                  \
            memcpy(out + i * sizeof(y), &y, sizeof(y));                                            \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

EXG_INSIDE void narrow(exg_dtype to, const uint8_t *in, uint8_t *out, uint32_t count)
{
    switch (to) {
    case EXG_DTYPE_BF16:
        NARROW(uint16_t, exg_f32_to_bf16);
    case EXG_DTYPE_F16:
        NARROW(uint16_t, exg_f32_to_f16);
    case EXG_DTYPE_F8E4M3FN:
        NARROW(uint8_t, exg_f32_to_f8e4m3fn);
    case EXG_DTYPE_F8E5M2:
        NARROW(uint8_t, exg_f32_to_f8e5m2);
    default:
        for (uint32_t i = 0; i < count; i++) {
            float x;

            memcpy(&x, in + i * sizeof(x), sizeof(x));
            exg_element_store(to, out + (uint64_t)i * exg_dtype_bytes(to), (double)x);
        }
        return;
    }
}

/* At most PART elements, one of the dtypes is float32 or both are others. */
EXG_INSIDE void cast_part(exg_dtype from, const uint8_t *in, exg_dtype to, uint8_t *out,
                          uint32_t count)
{
    uint8_t part[PART * sizeof(float)];

    if (from == EXG_DTYPE_F32 && to == EXG_DTYPE_F32) {
        memcpy(out, in, count * sizeof(float));
    } else if (from == EXG_DTYPE_F32) {
        narrow(to, in, out, count);
    } else if (to == EXG_DTYPE_F32) {
        widen(from, in, out, count);
    } else {
        widen(from, in, part, count);
        narrow(to, part, out, count);
    }
}

static void cast_plain(exg_dtype from, const uint8_t *in, exg_dtype to, uint8_t *out,
                       uint32_t count)
{
    cast_part(from, in, to, out, count);
}

#ifdef EXG_WIDER
EXG_WIDER static void cast_wider(exg_dtype from, const uint8_t *in, exg_dtype to, uint8_t *out,
                                 uint32_t count)
{
    cast_part(from, in, to, out, count);
}

static bool has_wider(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define cast_wider cast_plain

static bool has_wider(void)
{
    return false;
}
#endif

/* What comes after this part is on its way meanwhile: processors look ahead within a page alone. */
static void expect(const uint8_t *next, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch(next + at);
    }
}

void exg_elements_cast(exg_dtype from, const void *in, exg_dtype to, void *out, uint64_t count)
{
    const uint8_t *read = in;
    uint8_t *written = out;
    bool wider = has_wider();

    while (count > 0) {
        uint32_t n = count < PART ? (uint32_t)count : PART;

        if (count > n) {
            uint64_t left = count - n < PART ? count - n : PART;

            expect(read + (uint64_t)n * exg_dtype_bytes(from), left * exg_dtype_bytes(from));
        }
        if (to == EXG_DTYPE_F64) {
            for (uint32_t i = 0; i < n; i++) {
                double x = exg_element_value(from, read + (uint64_t)i * exg_dtype_bytes(from));

                memcpy(written + i * sizeof(x), &x, sizeof(x));
            }
        } else {
            (wider ? cast_wider : cast_plain)(from, read, to, written, n);
        }
        read += (uint64_t)n * exg_dtype_bytes(from);
        written += (uint64_t)n * exg_dtype_bytes(to);
        count -= n;
    }
}
