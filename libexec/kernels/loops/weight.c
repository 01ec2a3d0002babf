/* weight.c - rows by weights of one byte or half a byte, which become f32 in registers.
 *
 * A tile is ROWS rows at most by COLUMNS rows of the weight, whose bytes come from memory side by
 * side. The sums of a group are scaled as vectors, and their lanes are added at the end.
 */
#include "libexec/kernels/loops/weight.h"

#include <string.h>

#define LANES EXG_VF32
#ifdef EXG_COMPACT
#define ROWS 2
#else
#define ROWS 4
#endif
#define COLUMNS 4
#define LINE    64 /* bytes */
#define UNROLL  _Pragma("GCC unroll 32")
#define INLINE  static inline __attribute__((always_inline))
#define RARE    static __attribute__((noinline)) /* laid out once, not once a tile */

#define HALVES     EXG_WEIGHT_BLOCK       /* half bytes of a block */
#define HALF_BYTES (EXG_WEIGHT_BLOCK / 2) /* it takes */
#define STRIDE     EXG_WEIGHT_LANES       /* elements side by side in it */
#define PARTS      (HALVES / STRIDE)
#define HIGH_PLACE 5 /* from here on they reach into a float's exponent */

typedef exg_vf32 reals;
typedef int32_t words __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));
typedef uint32_t bits __attribute__((vector_size(EXG_VECTOR_BYTES), aligned(4), may_alias));
typedef int8_t signed_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef uint8_t unsigned_bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

/* ---- elements --------------------------------------------------------------------------- */

#if defined(__AVX2__)
/* As f16, which has one bit of the exponent more: 2^8 less than it is. */
#define FLOAT8(set1, shift_left, shift_right, and, or, is_equal, to_f32, x)                        \
    halves_of = and(shift_right(shift_left(x, 8), 1), set1((int16_t)0xbf80));                      \
    nans_of = and(is_equal(and(halves_of, set1(0x3f80)), set1(0x3f80)), set1(0x7c00));             \
    return (reals)to_f32(or (halves_of, nans_of)) * 256

INLINE reals of_float8(__m128i x)
{
#if defined(__AVX512F__)
    __m256i halves_of;
    __m256i nans_of;

    FLOAT8(_mm256_set1_epi16, _mm256_slli_epi16, _mm256_srai_epi16, _mm256_and_si256,
           _mm256_or_si256, _mm256_cmpeq_epi16, _mm512_cvtph_ps, _mm256_cvtepu8_epi16(x));
#else
    __m128i halves_of;
    __m128i nans_of;

    FLOAT8(_mm_set1_epi16, _mm_slli_epi16, _mm_srai_epi16, _mm_and_si128, _mm_or_si128,
           _mm_cmpeq_epi16, _mm256_cvtph_ps, _mm_cvtepu8_epi16(x));
#endif
}
#else
INLINE reals of_float8(bits x)
{
    bits magnitude = x & 0x7f;
    bits not_a_number = (bits)(magnitude == 0x7f) & 0x7fc00000;
    bits f = (x & 0x80) << 24 | magnitude << 20 | not_a_number;

    return (reals)f * 0x1p120f; /* exponents of four bits, as small as they go */
}
#endif

/* LANES elements of one byte, without what is added to them. */
INLINE reals widen_bytes(const exg_weight_form form, const char *at)
{
#if defined(__AVX512F__)
    __m128i x = _mm_loadu_si128((const void *)at);

    return form == EXG_WEIGHT_I8   ? (reals)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x))
           : form == EXG_WEIGHT_U8 ? (reals)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x))
                                   : of_float8(x);
#elif defined(__AVX2__)
    __m128i x = _mm_loadl_epi64((const void *)at);

    return form == EXG_WEIGHT_I8   ? (reals)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x))
           : form == EXG_WEIGHT_U8 ? (reals)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x))
                                   : of_float8(x);
#else
    return form == EXG_WEIGHT_I8
               ? __builtin_convertvector(__builtin_convertvector(*(const signed_bytes *)at, words),
                                         reals)
           : form == EXG_WEIGHT_U8
               ? __builtin_convertvector(
                     __builtin_convertvector(*(const unsigned_bytes *)at, words), reals)
               : of_float8(__builtin_convertvector(*(const unsigned_bytes *)at, bits));
#endif
}

INLINE float widen_byte(const exg_weight_form form, uint8_t x)
{
    union {
        uint32_t bits;
        float f;
    } f8 = {(x & 0x80U) << 24 | (x & 0x7fU) << 20 | ((x & 0x7fU) == 0x7f ? 0x7fc00000U : 0)};

    return form == EXG_WEIGHT_I8   ? (float)(int8_t)x
           : form == EXG_WEIGHT_U8 ? (float)x
                                   : f8.f * 0x1p120f;
}

#if defined(__AVX512F__)
typedef reals half_values; /* what each half byte means */

INLINE half_values values_from(float low)
{
    half_values values;

    UNROLL for (int i = 0; i < LANES; i++)
    {
        values[i] = low + (float)i;
    }
    return values;
}

/* The half bytes of a block's lanes from `first` on that are `part`-th in them. */
INLINE reals widen_halves(const char *block, int first, int part, half_values values)
{
    bits x = *(const bits *)(block + 4 * (int64_t)first);

    return (reals)_mm512_permutexvar_ps((__m512i)(x >> (4 * EXG_WEIGHT_PLACE(part))),
                                        (__m512)values);
}
#else
typedef float half_values; /* the least of them */

INLINE half_values values_from(float low)
{
    return low;
}

/* Bits of the fraction of a float whose last one counts 1 are added to a power of two, which is
 * taken off again: that is exact. */
INLINE reals widen_halves(const char *block, int first, int part, half_values low)
{
    const int place = EXG_WEIGHT_PLACE(part);
    const int at = place < HIGH_PLACE ? 4 * place : 4 * (place - HIGH_PLACE + 2);
    const uint32_t exponent = (uint32_t)(127 + 23 - at) << 23;
    bits x = *(const bits *)(block + 4 * (int64_t)first);

    x = place < HIGH_PLACE ? x : x >> (4 * (HIGH_PLACE - 2));
    x = (x & (uint32_t)15 << at) | exponent;
    return (reals)x - ((float)(1 << (23 - at)) - low);
}
#endif

/* ---- sums --------------------------------------------------------------------------------- */

typedef struct tile_sums {
    reals lanes[ROWS][COLUMNS];
    float rest[ROWS][COLUMNS]; /* of what is less than a vector */
} tile_sums;

RARE float shift_of(const exg_weight *w, int64_t j, const float *sums)
{
    return exg_weight_shift(w, j, sums);
}

INLINE void put_tile(const exg_weight *w, const int rows, const int columns, int64_t j,
                     const exg_weight_rows *x, const tile_sums *sums, float *c, int64_t c_stride)
{
    UNROLL for (int r = 0; r < rows; r++)
    {
        UNROLL for (int i = 0; i < columns; i++)
        {
            c[r * c_stride + i] =
                exg_weight_lanes_sum(sums->lanes[r][i]) + sums->rest[r][i] +
                (w->shifts == NULL ? 0 : shift_of(w, j + i, x->sums + r * w->groups));
        }
    }
}

/* LANES elements of `columns` rows of bytes, times those of x. */
INLINE void add_bytes(const exg_weight_form form, const bool adds, const exg_weight *w,
                      const int rows, const int columns, const char *bytes, const float *x,
                      int64_t x_stride, reals (*sums)[COLUMNS])
{
    reals y[COLUMNS];

    UNROLL for (int i = 0; i < columns; i++)
    {
        y[i] = widen_bytes(form, bytes + i * w->stride);
        if (adds) {
            y[i] = y[i] + w->low;
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        reals v = *(const reals *)(x + r * x_stride);

        UNROLL for (int i = 0; i < columns; i++)
        {
            sums[r][i] += v * y[i];
        }
    }
}

/* The last elements of groups, less than a vector of each. */
RARE void add_rests(const exg_weight_form form, const exg_weight *w, const int rows,
                    const int columns, int64_t j, const exg_weight_rows *x, float (*rest)[COLUMNS])
{
    const int64_t size = w->depth / w->groups;

    for (int64_t g = 0; g < w->groups; g++) {
        for (int i = 0; i < columns; i++) {
            const uint8_t *bytes = (const uint8_t *)w->bytes + (j + i) * w->stride;
            float scale = w->scales[(j + i) * w->groups + g];

            for (int64_t k = g * size + size / LANES * LANES; k < (g + 1) * size; k++) {
                float y = (widen_byte(form, bytes[k]) + w->low) * scale;

                for (int r = 0; r < rows; r++) {
                    rest[r][i] += x->data[r * x->stride + k] * y;
                }
            }
        }
    }
}

INLINE void ask_ahead(const exg_weight *w, const int columns, const char *bytes)
{
    UNROLL for (int i = 0; i < columns; i++)
    {
        exg_weight_ask(w, columns, bytes + i * w->stride);
    }
}

/* One group of bytes; `adds`: something to them. */
INLINE void group_of_bytes(const exg_weight_form form, const bool adds, const exg_weight *w,
                           const int rows, const int columns, int64_t j, int64_t g,
                           const exg_weight_rows *x, tile_sums *sums)
{
    const int64_t size = w->depth / w->groups;
    const char *bytes = w->bytes + j * w->stride + g * size;
    const float *row = x->data + g * size;
    reals group[ROWS][COLUMNS] = {{{0}}};
    int64_t k = 0;

    for (; k + LINE <= size; k += LINE) {
        ask_ahead(w, columns, bytes + k);
        UNROLL for (int part = 0; part < LINE; part += LANES)
        {
            add_bytes(form, adds, w, rows, columns, bytes + k + part, row + k + part, x->stride,
                      group);
        }
    }
    if (k < size) {
        ask_ahead(w, columns, bytes + k);
    }
    for (; k + LANES <= size; k += LANES) {
        add_bytes(form, adds, w, rows, columns, bytes + k, row + k, x->stride, group);
    }
    UNROLL for (int i = 0; i < columns; i++)
    {
        float scale = w->scales[(j + i) * w->groups + g];

        UNROLL for (int r = 0; r < rows; r++)
        {
            sums->lanes[r][i] += group[r][i] * scale;
        }
    }
}

/* Where half bytes are read: the group, and how many stretches of it are left. */
typedef struct halves_place {
    int64_t group, left;
} halves_place;

/* One block of half bytes, groups of which are whole stretches of the block. */
INLINE void block_of_halves(const exg_weight *w, const int rows, const int columns, int64_t j,
                            int64_t block, half_values values, const exg_weight_rows *x,
                            halves_place *place, tile_sums *sums)
{
    const float *row = x->data + block * HALVES;
    const char *at = w->bytes + j * w->stride + block * HALF_BYTES;
    reals group[ROWS][COLUMNS] = {{{0}}};

    UNROLL for (int part = 0; part < PARTS; part++)
    {
        UNROLL for (int first = 0; first < STRIDE; first += LANES)
        {
            reals y[COLUMNS];

            UNROLL for (int i = 0; i < columns; i++)
            {
                y[i] = widen_halves(at + i * w->stride, first, part, values);
            }
            UNROLL for (int r = 0; r < rows; r++)
            {
                reals v = *(const reals *)(row + r * x->stride + part * STRIDE + first);

                UNROLL for (int i = 0; i < columns; i++)
                {
                    group[r][i] += v * y[i];
                }
            }
        }
        if (--place->left > 0 && part + 1 < PARTS) {
            continue;
        }
        UNROLL for (int i = 0; i < columns; i++)
        {
            float scale = w->scales[(j + i) * w->groups + place->group];

            UNROLL for (int r = 0; r < rows; r++)
            {
                sums->lanes[r][i] += group[r][i] * scale;
                group[r][i] = (reals){0};
            }
        }
        if (place->left == 0 && place->group + 1 < w->groups) { /* past the end x is 0 */
            place->group++;
            place->left = w->depth / w->groups / STRIDE;
        }
    }
}

INLINE void tile(const exg_weight_form form, const bool adds, const exg_weight *w, const int rows,
                 const int columns, int64_t j, const exg_weight_rows *x, float *c, int64_t c_stride)
{
    tile_sums sums = {{{{0}}}, {{0}}};

    if (form == EXG_WEIGHT_HALVES) {
        const half_values values = values_from(w->low);
        halves_place place = {0, w->depth / w->groups / STRIDE};

        for (int64_t block = 0; block * HALVES < w->depth; block++) {
            ask_ahead(w, columns, w->bytes + j * w->stride + block * HALF_BYTES);
            block_of_halves(w, rows, columns, j, block, values, x, &place, &sums);
        }
    } else {
        for (int64_t g = 0; g < w->groups; g++) {
            group_of_bytes(form, adds, w, rows, columns, j, g, x, &sums);
        }
        if (w->depth / w->groups % LANES != 0) {
            add_rests(form, w, rows, columns, j, x, sums.rest);
        }
    }
    put_tile(w, rows, columns, j, x, &sums, c, c_stride);
}

INLINE void dot_rows(const exg_weight_form form, const bool adds, const exg_weight *w,
                     const int rows, int64_t n, const exg_weight_rows *x, float *c,
                     int64_t c_stride)
{
    int64_t j = 0;

    for (; j + COLUMNS <= n; j += COLUMNS) {
        tile(form, adds, w, rows, COLUMNS, j, x, c + j, c_stride);
    }
    for (; j < n; j++) {
        tile(form, adds, w, rows, 1, j, x, c + j, c_stride);
    }
}

INLINE void dot_of(const exg_weight_form form, const bool adds, const exg_weight *w, int64_t m,
                   int64_t n, const exg_weight_rows *x, float *c, int64_t c_stride)
{
    for (int64_t i = 0; i < m;) {
        exg_weight_rows rows = {x->data + i * x->stride, x->stride, NULL};
        float *at = c + i * c_stride;

        rows.sums = x->sums == NULL ? NULL : x->sums + i * w->groups;
        if (m - i >= ROWS) {
            dot_rows(form, adds, w, ROWS, n, &rows, at, c_stride);
            i += ROWS;
        } else if (m - i >= 2) {
            dot_rows(form, adds, w, 2, n, &rows, at, c_stride);
            i += 2;
        } else {
            dot_rows(form, adds, w, 1, n, &rows, at, c_stride);
            i++;
        }
    }
}

/* ---- whole rows ---------------------------------------------------------------------------- */

/* Of one group's elements. */
INLINE void scale_and_shift(int64_t count, float *y, float scale, float shift)
{
    EXG_INDEPENDENT
    for (int64_t k = 0; k < count; k++) {
        y[k] = y[k] * scale + shift;
    }
}

static void widen_row_of_halves(const exg_weight *w, const char *bytes, int64_t first, int64_t end,
                                float *y)
{
    const half_values values = values_from(w->low);
    int64_t k = first;

    for (; k % HALVES == 0 && k + HALVES <= end; k += HALVES) {
        UNROLL for (int part = 0; part < PARTS; part++)
        {
            UNROLL for (int lane = 0; lane < STRIDE; lane += LANES)
            {
                *(reals *)(y + k - first + part * STRIDE + lane) =
                    widen_halves(bytes + k / 2, lane, part, values);
            }
        }
    }
    for (; k < end; k++) {
        const uint8_t *lane = (const uint8_t *)bytes + k / HALVES * HALF_BYTES + k % STRIDE * 4;
        int64_t place = EXG_WEIGHT_PLACE(k % HALVES / STRIDE);

        y[k - first] = w->low + (float)(lane[place / 2] >> (place % 2 * 4) & 15);
    }
}

INLINE void widen_of(const exg_weight_form form, const exg_weight *w, int64_t j, int64_t first,
                     int64_t count, float *y)
{
    const int64_t size = w->depth / w->groups;
    const char *bytes = w->bytes + j * w->stride;

    if (form == EXG_WEIGHT_HALVES) {
        widen_row_of_halves(w, bytes, first, first + count, y);
    } else {
        int64_t k = 0;

        for (; k + LANES <= count; k += LANES) {
            *(reals *)(y + k) = widen_bytes(form, bytes + first + k) + w->low;
        }
        for (; k < count; k++) {
            y[k] = widen_byte(form, (uint8_t)bytes[first + k]) + w->low;
        }
    }
    for (int64_t k = first; k < first + count && (w->scales != NULL || w->shifts != NULL);) {
        int64_t g = k / size;
        int64_t end = (g + 1) * size < first + count ? (g + 1) * size : first + count;

        scale_and_shift(end - k, y + k - first,
                        w->scales == NULL ? 1 : w->scales[j * w->groups + g],
                        w->shifts == NULL ? 0 : w->shifts[j * w->groups + g]);
        k = end;
    }
}

/* As bf16, rounded to even. */
INLINE void round_to_bf16(int64_t count, uint16_t *to, const float *from)
{
    const uint32_t *bits_of = (const uint32_t *)(const void *)from;

    EXG_INDEPENDENT
    for (int64_t k = 0; k < count; k++) {
        to[k] = (uint16_t)((bits_of[k] + 0x7fff + (bits_of[k] >> 16 & 1)) >> 16);
    }
}

INLINE void widen_to_bf16(const exg_weight_form form, const exg_weight *w, int64_t j, int64_t first,
                          int64_t count, uint16_t *y)
{
    _Alignas(64) float room[HALVES];

    for (int64_t k = 0; k < count; k += HALVES) {
        int64_t some = count - k < HALVES ? count - k : HALVES;

        widen_of(form, w, j, first + k, some, room);
        round_to_bf16(some, y + k, room);
    }
}

#define FORM(form, name)                                                                           \
    static void dot_##name(const exg_weight *w, int64_t m, int64_t n, const exg_weight_rows *x,    \
                           float *c, int64_t c_stride)                                             \
    {                                                                                              \
        if (w->low == 0) {                                                                         \
            dot_of(form, false, w, m, n, x, c, c_stride);                                          \
        } else {                                                                                   \
            dot_of(form, true, w, m, n, x, c, c_stride);                                           \
        }                                                                                          \
    }                                                                                              \
    static void widen_##name(const exg_weight *w, int64_t j, int64_t first, int64_t count,         \
                             float *y)                                                             \
    {                                                                                              \
        widen_of(form, w, j, first, count, y);                                                     \
    }                                                                                              \
    static void bf16_##name(const exg_weight *w, int64_t j, int64_t first, int64_t count,          \
                            uint16_t *y)                                                           \
    {                                                                                              \
        widen_to_bf16(form, w, j, first, count, y);                                                \
    }

FORM(EXG_WEIGHT_I8, i8)
FORM(EXG_WEIGHT_U8, u8)
FORM(EXG_WEIGHT_F8, f8)

static void dot_halves(const exg_weight *w, int64_t m, int64_t n, const exg_weight_rows *x,
                       float *c, int64_t c_stride)
{
    dot_of(EXG_WEIGHT_HALVES, true, w, m, n, x, c, c_stride);
}

static void widen_some_halves(const exg_weight *w, int64_t j, int64_t first, int64_t count,
                              float *y)
{
    widen_of(EXG_WEIGHT_HALVES, w, j, first, count, y);
}

static void bf16_halves(const exg_weight *w, int64_t j, int64_t first, int64_t count, uint16_t *y)
{
    widen_to_bf16(EXG_WEIGHT_HALVES, w, j, first, count, y);
}

const exg_weight_loops EXG_ISA_NAME(exg_loops_weight) = {
    .dot = {dot_i8, dot_u8, dot_f8, dot_halves},
    .widen = {widen_i8, widen_u8, widen_f8, widen_some_halves},
    .widen_bf16 = {bf16_i8, bf16_u8, bf16_f8, bf16_halves},
};
