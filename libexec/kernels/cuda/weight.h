/* weight.h - elements of a weight that is stored in few bits: they become numbers in registers, and
 * are never in memory as such.
 *
 * WEIGHT_BITS: 8 or 4; IS_SIGNED, IS_F8: what bytes are. HAS_LOW: a number is added to codes.
 * SCALE, ZERO, OFFSET: dtypes of those that there are (HAS_SCALE, ...). IS_GROUPED: a row has
 * several.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_WEIGHT_H
#define EXG_LIBEXEC_KERNELS_CUDA_WEIGHT_H

#include "libexec/kernels/cuda/params.h"

#if defined(HAS_ZERO) || defined(HAS_OFFSET)
#define HAS_SHIFTS
#endif

/* What the code means. A whole number becomes one of f32 as the lowest bits of 2^23. */
static inline float weight_code(const cuda_weight_params *p, uint32_t code)
{
#ifdef IS_F8
    /* exponents of f32 begin 120 lower */
    const float x =
        exg_f32_of_bits((int32_t)((code & 0x80) << 24 | (code & 0x7f) << 20)) * 0x1p120f;
    const float number = (code & 0x7f) == 0x7f ? NAN : x;
#elif defined(IS_SIGNED)
    const float number = exg_f32_of_bits((int32_t)(0x4b000000 | (code ^ 0x80))) - 8388736.0f;
#else
    const float number = exg_f32_of_bits((int32_t)(0x4b000000 | code)) - 8388608.0f;
#endif

#ifdef HAS_LOW
    return number + p->low;
#else
    (void)p;
    return number;
#endif
}

/* The group of the element at depth k. */
static inline int64_t weight_group(const cuda_weight_params *p, int64_t k)
{
#ifdef IS_GROUPED
    return (int64_t)((uint32_t)k / (uint32_t)p->group);
#else
    (void)p;
    (void)k;
    return 0;
#endif
}

static inline float weight_scale(const cuda_weight_params *p, int64_t row, int64_t group)
{
    float scale = p->factor;

#ifdef HAS_SCALE
    scale *= (float)LOAD(SCALE)(p->scale, row * p->of_scale.row + group * p->of_scale.column);
#else
    (void)row;
    (void)group;
#endif
    return scale;
}

static inline float weight_shift(const cuda_weight_params *p, int64_t row, int64_t group,
                                 float scale)
{
    float shift = 0;

#ifdef HAS_OFFSET
    shift = (float)LOAD(OFFSET)(p->offset, row * p->of_offset.row + group * p->of_offset.column);
#endif
#ifdef HAS_ZERO
    shift -= (float)LOAD(ZERO)(p->zero, row * p->of_zero.row + group * p->of_zero.column) * scale;
#endif
    (void)p;
    (void)row;
    (void)group;
    (void)scale;
    return shift;
}

/* One element. */
static inline float weight_at(const cuda_weight_params *p, int64_t row, int64_t k)
{
    const uint8_t *from = (const uint8_t *)p->b + row * p->row_bytes;
#if WEIGHT_BITS == 8
    const uint32_t code = from[k];
#else
    const uint32_t code = (uint32_t)from[k / 2] >> (k % 2 * 4) & 15;
#endif
    const int64_t group = weight_group(p, k);
    const float scale = weight_scale(p, row, group);

    return weight_code(p, code) * scale + weight_shift(p, row, group, scale);
}

#ifdef UNIT /* elements of one group that are read at once, and lie at a multiple of as many */

#define UNIT_BYTES (UNIT * WEIGHT_BITS / 8)

typedef struct weight_unit {
    ALIGNED_16 uint32_t words[UNIT_BYTES / 4];
} weight_unit;

static inline void load_unit(weight_unit *unit, const cuda_weight_params *p, int64_t row, int64_t k)
{
    move_word(unit->words, (const char *)p->b + row * p->row_bytes + k * WEIGHT_BITS / 8,
              UNIT_BYTES);
}

/* Element `e` of it, without scale and shift. */
static inline float unit_code(const weight_unit *unit, const cuda_weight_params *p, int e)
{
    const int bit = e * WEIGHT_BITS;

    return weight_code(p, unit->words[bit / 32] >> bit % 32 & ((1u << WEIGHT_BITS) - 1));
}

static inline int is_aligned(const void *memory)
{
    return (uint64_t)memory % 16 == 0;
}

#endif

#endif
