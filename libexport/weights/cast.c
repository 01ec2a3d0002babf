/* cast.c - elements of one dtype as those of another: to float32, and from there. */
#include "libexport/weights/cast.h"

#include "libexport/base/element.h"

#define PART 1024 /* elements at a time: what is between stays in the cache */

#define WIDEN(type, expression)                                                                    \
    do {                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            type x;                                                                                \
            memcpy(&x, in + i * sizeof(x), sizeof(x));                                             \
            out[i] = (expression);                                                                 \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

static void widen(exg_dtype from, const uint8_t *in, float *out, uint32_t count)
{
    uint32_t width = exg_dtype_bytes(from);

    switch (from) {
    case EXG_DTYPE_F32:
        memcpy(out, in, count * sizeof(*out));
        return;
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
            out[i] = (float)exg_element_value(from, in + (uint64_t)i * width);
        }
        return;
    }
}

#define NARROW(type, function)                                                                     \
    do {                                                                                           \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            type x = function(in[i]);                                                              \
            memcpy(out + i * sizeof(x), &x, sizeof(x));                                            \
        }                                                                                          \
        return;                                                                                    \
    } while (0)

static void narrow(exg_dtype to, const float *in, uint8_t *out, uint32_t count)
{
    switch (to) {
    case EXG_DTYPE_F32:
        memcpy(out, in, count * sizeof(*in));
        return;
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
            exg_element_store(to, out + (uint64_t)i * exg_dtype_bytes(to), (double)in[i]);
        }
        return;
    }
}

void exg_elements_cast(exg_dtype from, const void *in, exg_dtype to, void *out, uint64_t count)
{
    const uint8_t *read = in;
    uint8_t *written = out;
    float part[PART];

    while (count > 0) {
        uint32_t n = count < PART ? (uint32_t)count : PART;

        if (to == EXG_DTYPE_F64) {
            for (uint32_t i = 0; i < n; i++) {
                double x = exg_element_value(from, read + (uint64_t)i * exg_dtype_bytes(from));

                memcpy(written + i * sizeof(x), &x, sizeof(x));
            }
        } else {
            widen(from, read, part, n);
            narrow(to, part, written, n);
        }
        read += (uint64_t)n * exg_dtype_bytes(from);
        written += (uint64_t)n * exg_dtype_bytes(to);
        count -= n;
    }
}
