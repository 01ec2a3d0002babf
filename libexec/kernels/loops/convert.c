/* convert.c - between memory of any dtype and compute types. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexport/base/element.h"

#include <stdbool.h>
#include <string.h>

/* One way of a dtype: storage type, compute type, and an expression in x. */
#define LOAD(id, storage, compute, widen)                                                          \
    static void load_##id(uint32_t count, void *values, const void *memory, int64_t stride)        \
    {                                                                                              \
        const storage *from = memory;                                                              \
        compute *to = values;                                                                      \
                                                                                                   \
        if (stride == 1) {                                                                         \
            EXG_INDEPENDENT                                                                        \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                const storage x = from[i];                                                         \
                to[i] = (compute)(widen);                                                          \
            }                                                                                      \
        } else if (stride == 0) {                                                                  \
            const storage x = from[0];                                                             \
            const compute value = (compute)(widen);                                                \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                to[i] = value;                                                                     \
            }                                                                                      \
        } else if (stride == 2) {                                                                  \
            EXG_INDEPENDENT                                                                        \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                const storage x = from[2 * (size_t)i];                                             \
                to[i] = (compute)(widen);                                                          \
            }                                                                                      \
        } else {                                                                                   \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                const storage x = from[(int64_t)i * stride];                                       \
                to[i] = (compute)(widen);                                                          \
            }                                                                                      \
        }                                                                                          \
    }

#define STORE(id, storage, compute, narrow)                                                        \
    static void store_##id(uint32_t count, void *memory, int64_t stride, const void *values)       \
    {                                                                                              \
        storage *to = memory;                                                                      \
        const compute *from = values;                                                              \
                                                                                                   \
        if (stride == 1) {                                                                         \
            EXG_INDEPENDENT                                                                        \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                const compute x = from[i];                                                         \
                to[i] = (storage)(narrow);                                                         \
            }                                                                                      \
        } else {                                                                                   \
            for (uint32_t i = 0; i < count; i++) {                                                 \
                const compute x = from[i];                                                         \
                to[(int64_t)i * stride] = (storage)(narrow);                                       \
            }                                                                                      \
        }                                                                                          \
    }

#define DTYPE(id, storage, compute, widen, narrow)                                                 \
    LOAD(id, storage, compute, widen)                                                              \
    STORE(id, storage, compute, narrow)

#define ROUND(id, storage, compute, narrow, widen)                                                 \
    static void round_##id(uint32_t count, void *values)                                           \
    {                                                                                              \
        compute *v = values;                                                                       \
                                                                                                   \
        EXG_INDEPENDENT                                                                            \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            const storage x = (storage)(narrow(v[i]));                                             \
            v[i] = (compute)(widen(x));                                                            \
        }                                                                                          \
    }

#define SAME(x)     (x)
#define NOT_ZERO(x) ((x) != 0)

#define EXG_CONVERT DTYPE
#include "libexec/kernels/convert.def"
#undef EXG_CONVERT

DTYPE(halves, uint16_t, uint16_t, x, x)
DTYPE(bytes, uint8_t, uint8_t, x, x)
LOAD(truths, uint8_t, uint8_t, x != 0)

#if defined(__AVX512F__)
#define F16_AT_ONCE 16

static inline void widen_f16(float *to, const uint16_t *from)
{
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)));
}

static inline void narrow_f16(uint16_t *to, const float *from)
{
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm512_cvtps_ph(_mm512_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__F16C__)
#define F16_AT_ONCE 8

static inline void widen_f16(float *to, const uint16_t *from)
{
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

static inline void narrow_f16(uint16_t *to, const float *from)
{
    _mm_storeu_si128((__m128i *)(void *)to,
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}
#endif

#ifdef F16_AT_ONCE
/* The conversions the processor has. */
static void load_f16_fast(uint32_t count, void *values, const void *memory, int64_t stride)
{
    uint32_t whole = stride == 1 ? count - count % F16_AT_ONCE : 0;

    for (uint32_t i = 0; i < whole; i += F16_AT_ONCE) {
        widen_f16((float *)values + i, (const uint16_t *)memory + i);
    }
    load_F16(count - whole, (float *)values + whole,
             (const uint16_t *)memory + (int64_t)whole * stride, stride);
}

static void store_f16_fast(uint32_t count, void *memory, int64_t stride, const void *values)
{
    uint32_t whole = stride == 1 ? count - count % F16_AT_ONCE : 0;

    for (uint32_t i = 0; i < whole; i += F16_AT_ONCE) {
        narrow_f16((uint16_t *)memory + i, (const float *)values + i);
    }
    store_F16(count - whole, (uint16_t *)memory + (int64_t)whole * stride, stride,
              (const float *)values + whole);
}
#define LOAD_F16  load_f16_fast
#define STORE_F16 store_f16_fast
#else
#define LOAD_F16  load_F16
#define STORE_F16 store_F16
#endif

#ifdef __AVX512BW__
/* The upper halves of 16 floats, rounded as exg_f32_to_bf16 does. */
static inline __m512i rounded_to_bf16(const float *from)
{
    __m512i x = _mm512_loadu_si512(from);
    __mmask16 is_odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000));
    __m512i rounded = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
    __m512 value = _mm512_castsi512_ps(x);

    rounded = _mm512_mask_add_epi32(rounded, is_odd, x, _mm512_set1_epi32(0x8000));
    return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q),
                                 _mm512_set1_epi32(0x7fc00000));
}

/* 32 at a time, packed by one shuffle. */
static void store_bf16_fast(uint32_t count, void *memory, int64_t stride, const void *values)
{
    static const uint16_t uppers[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                        23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                        45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i pick = _mm512_loadu_si512(uppers);
    uint32_t whole = stride == 1 ? count & ~31u : 0;

    for (uint32_t i = 0; i < whole; i += 32) {
        __m512i low = rounded_to_bf16((const float *)values + i);
        __m512i high = rounded_to_bf16((const float *)values + i + 16);

        _mm512_storeu_si512((uint16_t *)memory + i, _mm512_permutex2var_epi16(low, pick, high));
    }
    store_BF16(count - whole, (uint16_t *)memory + (int64_t)whole * stride, stride,
               (const float *)values + whole);
}
#define STORE_BF16 store_bf16_fast
#else
#define STORE_BF16 store_BF16
#endif

ROUND(U8, uint8_t, int32_t, SAME, SAME)
ROUND(I8, int8_t, int32_t, SAME, SAME)
ROUND(I16, int16_t, int32_t, SAME, SAME)
ROUND(U16, uint16_t, int32_t, SAME, SAME)
ROUND(B8, uint8_t, int32_t, NOT_ZERO, SAME)
ROUND(U32, uint32_t, int64_t, SAME, SAME)
ROUND(F16, uint16_t, float, exg_f32_to_f16, exg_f16_to_f32)
ROUND(BF16, uint16_t, float, exg_f32_to_bf16, exg_bf16_to_f32)
ROUND(F8E4M3FN, uint8_t, float, exg_f32_to_f8e4m3fn, exg_f8e4m3fn_to_f32)
ROUND(F8E5M2, uint8_t, float, exg_f32_to_f8e5m2, exg_f8e5m2_to_f32)
ROUND(F8E4M3FNUZ, uint8_t, float, exg_f32_to_f8e4m3fnuz, exg_f8e4m3fnuz_to_f32)
ROUND(F8E5M2FNUZ, uint8_t, float, exg_f32_to_f8e5m2fnuz, exg_f8e5m2fnuz_to_f32)
ROUND(F8E8M0FNU, uint8_t, float, exg_f32_to_f8e8m0fnu, exg_f8e8m0fnu_to_f32)

#define CONVERT(to_name, to_type, from_name, from_type)                                            \
    static void from_name##_to_##to_name(uint32_t count, void *to, const void *from)               \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            ((to_type *)to)[i] = (to_type)((const from_type *)from)[i];                            \
        }                                                                                          \
    }

CONVERT(f32, float, f32, float)
CONVERT(f32, float, f64, double)
CONVERT(f32, float, i32, int32_t)
CONVERT(f32, float, i64, int64_t)
CONVERT(f64, double, f32, float)
CONVERT(f64, double, f64, double)
CONVERT(f64, double, i32, int32_t)
CONVERT(f64, double, i64, int64_t)
CONVERT(i32, int32_t, f32, float)
CONVERT(i32, int32_t, f64, double)
CONVERT(i32, int32_t, i32, int32_t)
CONVERT(i32, int32_t, i64, int64_t)
CONVERT(i64, int64_t, f32, float)
CONVERT(i64, int64_t, f64, double)
CONVERT(i64, int64_t, i32, int32_t)
CONVERT(i64, int64_t, i64, int64_t)

static void bf16_to_f32(uint32_t count, void *to, const void *from)
{
    load_BF16(count, to, from, 1);
}

static void f32_to_bf16(uint32_t count, void *to, const void *from)
{
    STORE_BF16(count, to, 1, from);
}

#define TRUTH(name, type)                                                                          \
    static void truth_of_##name(uint32_t count, void *to, const void *from)                        \
    {                                                                                              \
        EXG_INDEPENDENT                                                                            \
        for (uint32_t i = 0; i < count; i++) {                                                     \
            ((int32_t *)to)[i] = ((const type *)from)[i] != 0;                                     \
        }                                                                                          \
    }

TRUTH(f32, float)
TRUTH(f64, double)
TRUTH(i32, int32_t)
TRUTH(i64, int64_t)

static void copy_past_caches(void *to_, const void *from_, size_t bytes)
{
    char *to = to_;
    const char *from = from_;
    size_t head = -(uintptr_t)to & 63;
    size_t i;

    if (head > 0) {
        head = head < bytes ? head : bytes;
        memcpy(to, from, head);
    }
    for (i = head; i + 64 <= bytes; i += 64) {
        for (size_t k = i; k < i + 64; k += EXG_VECTOR_BYTES) {
            EXG_STREAM(to + k, *(const exg_vbytes *)(from + k));
        }
    }
    if (i < bytes) {
        memcpy(to + i, from + i, bytes - i);
    }
}

#define ROW(id)       [EXG_DTYPE_##id] = load_##id
#define STORE_ROW(id) [EXG_DTYPE_##id] = store_##id
#define ROUND_ROW(id) [EXG_DTYPE_##id] = round_##id
#define ALL_ROWS(R)                                                                                \
    R(U8), R(I8), R(I16), R(U16), R(I32), R(B8), R(U32), R(I64), R(F32), R(F64), R(F8E4M3FN),      \
        R(F8E5M2), R(F8E4M3FNUZ), R(F8E5M2FNUZ), R(F8E8M0FNU)

const exg_convert_loops EXG_ISA_NAME(exg_loops_convert) = {
    .load = {ALL_ROWS(ROW), ROW(BF16), [EXG_DTYPE_U64] = load_I64, [EXG_DTYPE_F16] = LOAD_F16},
    .store = {ALL_ROWS(STORE_ROW), [EXG_DTYPE_U64] = store_I64, [EXG_DTYPE_F16] = STORE_F16,
              [EXG_DTYPE_BF16] = STORE_BF16},
    .round = {ROUND_ROW(U8), ROUND_ROW(I8), ROUND_ROW(I16), ROUND_ROW(U16), ROUND_ROW(B8),
              ROUND_ROW(U32), ROUND_ROW(F16), ROUND_ROW(BF16), ROUND_ROW(F8E4M3FN),
              ROUND_ROW(F8E5M2), ROUND_ROW(F8E4M3FNUZ), ROUND_ROW(F8E5M2FNUZ),
              ROUND_ROW(F8E8M0FNU)},
    .load_as_is = load_halves,
    .store_as_is = store_halves,
    .load_bytes = load_bytes,
    .load_truths = load_truths,
    .store_bytes = store_bytes,
    .convert = {{f32_to_f32, f64_to_f32, i32_to_f32, i64_to_f32, bf16_to_f32},
                {f32_to_f64, f64_to_f64, i32_to_f64, i64_to_f64},
                {f32_to_i32, f64_to_i32, i32_to_i32, i64_to_i32},
                {f32_to_i64, f64_to_i64, i32_to_i64, i64_to_i64},
                {f32_to_bf16}},
    .truth = {truth_of_f32, truth_of_f64, truth_of_i32, truth_of_i64},
    .copy_past_caches = copy_past_caches};
