/* weighted.c - sums of elements at places, four terms at a time. */
#include "libexec/kernels/loops/weighted.h"

#include "libexec/kernels/loops/vector.h"

#define WEIGHTED(name, type)                                                                       \
    static void name(int64_t count, type *y, const type *x, int64_t terms, const int32_t *places,  \
                     const type *weights, int64_t stride)                                          \
    {                                                                                              \
        for (int64_t k = 0; k < count; k++) {                                                      \
            y[k] = 0;                                                                              \
        }                                                                                          \
        for (; terms >= 4; terms -= 4, places += 4 * stride, weights += 4 * stride) {              \
            EXG_INDEPENDENT                                                                        \
            for (int64_t k = 0; k < count; k++) {                                                  \
                type sum = y[k] + x[places[k]] * weights[k];                                       \
                                                                                                   \
                sum += x[places[k + stride]] * weights[k + stride];                                \
                sum += x[places[k + 2 * stride]] * weights[k + 2 * stride];                        \
                y[k] = sum + x[places[k + 3 * stride]] * weights[k + 3 * stride];                  \
            }                                                                                      \
        }                                                                                          \
        for (; terms > 0; terms--, places += stride, weights += stride) {                          \
            EXG_INDEPENDENT                                                                        \
            for (int64_t k = 0; k < count; k++) {                                                  \
                y[k] += x[places[k]] * weights[k];                                                 \
            }                                                                                      \
        }                                                                                          \
    }

WEIGHTED(f32, float)
WEIGHTED(f64, double)

/* ---- places that are near each other --------------------------------------------------------- */

#if defined(__AVX512F__)
#define LANES 16
#define SPAN  32

typedef __m512 reals;
typedef struct window {
    __m512 low, high;
} window;

static inline window window_at(const float *x)
{
    return (window){_mm512_loadu_ps(x), _mm512_loadu_ps(x + LANES)};
}

static inline reals picked(window w, const int32_t *places, int32_t base)
{
    __m512i at = _mm512_sub_epi32(_mm512_loadu_si512(places), _mm512_set1_epi32(base));

    return _mm512_permutex2var_ps(w.low, at, w.high);
}
#elif defined(__AVX2__)
#define LANES 8
#define SPAN  8

typedef __m256 reals;
typedef __m256 window;

static inline window window_at(const float *x)
{
    return _mm256_loadu_ps(x);
}

static inline reals picked(window w, const int32_t *places, int32_t base)
{
    __m256i at = _mm256_loadu_si256((const __m256i *)(const void *)places);

    return _mm256_permutevar8x32_ps(w, _mm256_sub_epi32(at, _mm256_set1_epi32(base)));
}
#endif

#ifdef LANES
static void near_f32(int64_t count, float *y, const float *x, const int32_t *bases, int64_t terms,
                     const int32_t *places, const float *weights, int64_t stride)
{
    const int64_t whole = count / LANES * LANES;

    for (int64_t k = 0; k < whole; k += LANES) {
        const int32_t base = bases[k / LANES];

        if (base >= 0) {
            const window w = window_at(x + base);
            exg_vf32 sum = {0};

            for (int64_t at = k; at < k + terms * stride; at += stride) {
                sum += (exg_vf32)picked(w, places + at, base) * *(const exg_vf32 *)(weights + at);
            }
            *(exg_vf32 *)(y + k) = sum;
        } else {
            f32(LANES, y + k, x, terms, places + k, weights + k, stride);
        }
    }
    f32(count - whole, y + whole, x, terms, places + whole, weights + whole, stride);
}
#else
#define LANES 0
#define SPAN  0

static void near_f32(int64_t count, float *y, const float *x, const int32_t *bases, int64_t terms,
                     const int32_t *places, const float *weights, int64_t stride)
{
    (void)bases;
    f32(count, y, x, terms, places, weights, stride);
}
#endif

/* ---- rows -------------------------------------------------------------------------------------
 */

#define ABREAST 4 /* vectors whose sums are in registers */

#define ROWS(name, type, vector)                                                                   \
    static void name(int64_t count, type *y, int64_t terms, const void *const *rows,               \
                     const type *weights)                                                          \
    {                                                                                              \
        enum { MANY = ABREAST * sizeof(vector) / sizeof(type) };                                   \
        int64_t k = 0;                                                                             \
                                                                                                   \
        for (; k + MANY <= count; k += MANY) {                                                     \
            vector sums[ABREAST] = {{0}};                                                          \
                                                                                                   \
            for (int64_t t = 0; t < terms; t++) {                                                  \
                const vector *x = (const vector *)((const type *)rows[t] + k);                     \
                                                                                                   \
                _Pragma("GCC unroll 4") for (int j = 0; j < ABREAST; j++)                          \
                {                                                                                  \
                    sums[j] += x[j] * weights[t];                                                  \
                }                                                                                  \
            }                                                                                      \
            _Pragma("GCC unroll 4") for (int j = 0; j < ABREAST; j++)                              \
            {                                                                                      \
                ((vector *)(y + k))[j] = sums[j];                                                  \
            }                                                                                      \
        }                                                                                          \
        for (; k < count; k++) {                                                                   \
            type sum = 0;                                                                          \
                                                                                                   \
            for (int64_t t = 0; t < terms; t++) {                                                  \
                sum += ((const type *)rows[t])[k] * weights[t];                                    \
            }                                                                                      \
            y[k] = sum;                                                                            \
        }                                                                                          \
    }

ROWS(rows_f32, float, exg_vf32)
ROWS(rows_f64, double, exg_vf64)

const exg_weighted_loops EXG_ISA_NAME(exg_loops_weighted) = {
    .f32 = f32,
    .f64 = f64,
    .lanes = LANES,
    .span = SPAN,
    .near_f32 = near_f32,
    .rows_f32 = rows_f32,
    .rows_f64 = rows_f64,
};
