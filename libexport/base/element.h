/* element.h - single elements of narrow dtypes as values and back, branch-free. */
#ifndef EXG_LIBEXPORT_BASE_ELEMENT_H
#define EXG_LIBEXPORT_BASE_ELEMENT_H

#include <stdint.h>
#include <string.h>

static inline int32_t exg_f32_bits(float x)
{
    int32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float exg_f32_of_bits(int32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float exg_bf16_to_f32(uint16_t x)
{
    return exg_f32_of_bits((int32_t)((uint32_t)x << 16));
}

#ifndef EXG_HALVES_ELSEWHERE /* a device has instructions of its own for these three */

static inline uint16_t exg_f32_to_bf16(float x)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;

    return (uint16_t)(x != x ? 0x7fc0 : rounded);
}

static inline float exg_f16_to_f32(uint16_t x)
{
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13;
    float scaled = exg_f32_of_bits((int32_t)magnitude) * 0x1p112f;
    uint32_t bits = (uint32_t)exg_f32_bits(scaled);

    bits = magnitude >= 0x0f800000 ? bits | 0x7f800000 : bits;
    return exg_f32_of_bits((int32_t)(bits | (uint32_t)(x & 0x8000) << 16));
}

static inline uint16_t exg_f32_to_f16(float x)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    uint32_t small =
        (uint32_t)exg_f32_bits(exg_f32_of_bits((int32_t)magnitude) + 0.5f) - 0x3f000000;
    uint32_t half = magnitude < 0x38800000 ? small : normal;

    half = magnitude >= 0x47800000 ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

#endif

/* f8e5m2 is the upper half of an f16. */
static inline float exg_f8e5m2_to_f32(uint8_t x)
{
    return exg_f16_to_f32((uint16_t)(x << 8));
}

static inline uint8_t exg_f32_to_f8e5m2(float x)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - 0x38000000 + 0xfffff + ((magnitude >> 21) & 1)) >> 21;
    uint32_t small =
        (uint32_t)exg_f32_bits(exg_f32_of_bits((int32_t)magnitude) + 128.0f) - 0x43000000;
    uint32_t byte = magnitude < 0x38800000 ? small : normal;

    byte = magnitude >= 0x47800000 ? 0x7c : byte;
    byte = magnitude > 0x7f800000 ? 0x7f : byte;
    return (uint8_t)(byte | (bits >> 24 & 0x80));
}

/* f8e4m3fn: bias 7, no infinity, 0x7f is NaN, most 448. */
static inline float exg_f8e4m3fn_to_f32(uint8_t x)
{
    float scaled = exg_f32_of_bits((int32_t)((uint32_t)(x & 0x7f) << 20)) * 0x1p120f;
    uint32_t bits = (uint32_t)exg_f32_bits(scaled);

    bits = (x & 0x7f) == 0x7f ? 0x7fc00000 : bits;
    return exg_f32_of_bits((int32_t)(bits | (uint32_t)(x & 0x80) << 24));
}

static inline uint8_t exg_f32_to_f8e4m3fn(float x)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - 0x3c000000 + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
    uint32_t small =
        (uint32_t)exg_f32_bits(exg_f32_of_bits((int32_t)magnitude) + 16384.0f) - 0x46800000;
    uint32_t byte = magnitude < 0x3c800000 ? small : normal;

    byte = magnitude > 0x43e00000 ? 0x7e : byte; /* saturates at 448, infinity too */
    byte = magnitude > 0x7f800000 ? 0x7f : byte;
    return (uint8_t)(byte | (bits >> 24 & 0x80));
}

/* Kinds without infinities and -0, in whose place 0x80 is NaN: what is too large, too. */
#define EXG_FNUZ_NAN 0x80

static inline float exg_fnuz_to_f32(uint8_t x, int fraction, float scale)
{
    uint32_t magnitude = (uint32_t)(x & 0x7f) << (23 - fraction);
    uint32_t bits = (uint32_t)exg_f32_bits(exg_f32_of_bits((int32_t)magnitude) * scale);

    bits = x == EXG_FNUZ_NAN ? 0x7fc00000 : bits | (uint32_t)(x & 0x80) << 24;
    return exg_f32_of_bits((int32_t)bits);
}

/* `one`: the bits of the smallest normal number; `grid`: where steps of f32 are those below it. */
static inline uint8_t exg_f32_to_fnuz(float x, int fraction, uint32_t one, float grid)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t half = (1u << (22 - fraction)) - 1 + ((magnitude >> (23 - fraction)) & 1);
    uint32_t normal = (magnitude - (one - 0x800000) + half) >> (23 - fraction);
    uint32_t small = (uint32_t)exg_f32_bits(exg_f32_of_bits((int32_t)magnitude) + grid) -
                     (uint32_t)exg_f32_bits(grid);
    uint32_t byte = magnitude < one ? small : normal;

    return (uint8_t)(byte > 0x7f ? EXG_FNUZ_NAN : byte == 0 ? 0 : byte | (bits >> 24 & 0x80));
}

/* f8e4m3fnuz: bias 8, most 240. */
static inline float exg_f8e4m3fnuz_to_f32(uint8_t x)
{
    return exg_fnuz_to_f32(x, 3, 0x1p119f);
}

static inline uint8_t exg_f32_to_f8e4m3fnuz(float x)
{
    return exg_f32_to_fnuz(x, 3, 0x3c000000, 0x1p13f);
}

/* f8e5m2fnuz: bias 16, most 57344. */
static inline float exg_f8e5m2fnuz_to_f32(uint8_t x)
{
    return exg_fnuz_to_f32(x, 2, 0x1p111f);
}

static inline uint8_t exg_f32_to_f8e5m2fnuz(float x)
{
    return exg_f32_to_fnuz(x, 2, 0x38000000, 0x1p6f);
}

/* f8e8m0fnu: powers of two from 2^-127 on; 0xff is NaN. */
static inline float exg_f8e8m0fnu_to_f32(uint8_t x)
{
    uint32_t bits = x == 0 ? 0x400000 : x == 0xff ? 0x7fc00000 : (uint32_t)x << 23;

    return exg_f32_of_bits((int32_t)bits);
}

/* The nearest by the bits of x, without its sign; between two the larger one. */
static inline uint8_t exg_f32_to_f8e8m0fnu(float x)
{
    uint32_t bits = (uint32_t)exg_f32_bits(x);
    uint32_t exponent = bits >> 23 & 0xff;
    uint32_t fraction = bits & 0x7fffff;
    uint32_t up = fraction > 0x400000 || (fraction == 0x400000 && exponent > 0) ? 1 : 0;

    return (uint8_t)(exponent == 0xff ? 0xff : exponent + up);
}

#endif
