/* block_decode.c - blocks of GGML as float32. The meaning is that of gguf-py's quants.py: scales
 * are float16, products are rounded to float32 one after the other. */
#include "libexport/weights/block.h"

#include <math.h>
#include <stddef.h>

/* Two numbers of 4 bits a byte: the lower halves are the first 16. */
void exg_decode_q4_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);

    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

void exg_decode_q4_1(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);
    float least = exg_block_half(block + 2);

    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)(block[4 + i] & 15) + least;
        out[i + 16] = scale * (float)(block[4 + i] >> 4) + least;
    }
}

/* The fifth bit of each number is in a word before them. */
static void decode_fives(const uint8_t *high, const uint8_t *low, int numbers[32])
{
    uint32_t bits = exg_block_word(high, 4);

    for (int i = 0; i < 16; i++) {
        numbers[i] = (low[i] & 15) | (int)(bits >> i & 1) << 4;
        numbers[i + 16] = (low[i] >> 4) | (int)(bits >> (i + 16) & 1) << 4;
    }
}

void exg_decode_q5_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);
    int numbers[32];

    decode_fives(block + 2, block + 6, numbers);
    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)(numbers[i] - 16);
    }
}

void exg_decode_q5_1(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);
    float least = exg_block_half(block + 2);
    int numbers[32];

    decode_fives(block + 4, block + 8, numbers);
    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)numbers[i] + least;
    }
}

void exg_decode_q8_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);

    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)(int8_t)block[2 + i];
    }
}

/* 8 parts of 32; `high` holds a fifth bit of each number, or is NULL. */
static void decode_k(const uint8_t *block, const uint8_t *high, const uint8_t *low, float *out)
{
    float scale = exg_block_half(block);
    float least = exg_block_half(block + 2);

    for (int part = 0; part < 8; part++) {
        int s;
        int m;

        exg_block_part_of_k(block + 4, part, &s, &m);
        for (int i = 0; i < 32; i++) {
            int number = low[part / 2 * 32 + i] >> (part % 2 * 4) & 15;

            number |= high == NULL ? 0 : (high[i] >> part & 1) << 4;
            out[part * 32 + i] = scale * (float)s * (float)number - least * (float)m;
        }
    }
}

void exg_decode_q4_k(const uint8_t *block, float *out)
{
    decode_k(block, NULL, block + 16, out);
}

void exg_decode_q5_k(const uint8_t *block, float *out)
{
    decode_k(block, block + 16, block + 48, out);
}

/* 128 bytes of lower halves, 64 of upper quarters, 16 scales, a scale of those. */
void exg_decode_q6_k(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block + 208);

    for (int i = 0; i < 256; i++) {
        int group = i / 128;
        int within = i % 128;
        int low = block[group * 64 + within % 64] >> (within / 64 * 4) & 15;
        int high = block[128 + group * 32 + within % 32] >> (within / 32 * 2) & 3;
        int number = (low | high << 4) - 32;

        out[i] = scale * (float)(int8_t)block[192 + i / 16] * (float)number;
    }
}

/* Numbers of 2 bits: of each 32 bytes four times 32, the lowest bits first. */
static int two_bits(const uint8_t *packed, int i)
{
    return packed[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

/* 16 scales and leasts of 4 bits, 64 bytes of quarters. */
void exg_decode_q2_k(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block + 80);
    float least = exg_block_half(block + 82);

    for (int i = 0; i < 256; i++) {
        int part = block[i / 16];

        out[i] = scale * (float)(part & 15) * (float)two_bits(block + 16, i) -
                 least * (float)(part >> 4);
    }
}

/* A third bit of each number in 32 bytes, 64 of quarters, 16 scales of 6 bits: the lower four of
 * them in 8 bytes, the upper two in 4. */
void exg_decode_q3_k(const uint8_t *block, float *out)
{
    const uint8_t *packed = block + 96;
    float scale = exg_block_half(block + 108);

    for (int i = 0; i < 256; i++) {
        int part = i / 16;
        int low = packed[part % 8] >> (part / 8 * 4) & 15;
        int high = packed[8 + part % 4] >> (part / 4 * 2) & 3;
        int number = two_bits(block + 32, i) - (block[i % 32] >> (i / 32) & 1 ? 0 : 4);

        out[i] = scale * (float)((low | high << 4) - 32) * (float)number;
    }
}

/* As llama.cpp computes with them; no file has any. */
void exg_decode_q8_k(const uint8_t *block, float *out)
{
    float scale = exg_f32_of_bits((int32_t)exg_block_word(block, 4));

    for (int i = 0; i < 256; i++) {
        out[i] = scale * (float)(int8_t)block[4 + i];
    }
}

/* A sign each. */
void exg_decode_q1_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);

    for (int i = 0; i < 128; i++) {
        out[i] = block[2 + i / 8] >> (i % 8) & 1 ? scale : -scale;
    }
}

/* ---- -1, 0 and 1 ------------------------------------------------------------------------------
 */

/* Five of them a byte, the digits of a fraction of base 3: of `width` bytes all first ones, then
 * all second ones. */
static float *decode_threes(const uint8_t *packed, int width, int digits, float scale, float *out)
{
    unsigned power = 1;

    for (int d = 0; d < digits; d++, power *= 3) {
        for (int i = 0; i < width; i++) {
            unsigned rest = packed[i] * power & 255;

            *out++ = scale * (float)((int)(rest * 3 >> 8) - 1);
        }
    }
    return out;
}

void exg_decode_tq1_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block + 52);

    out = decode_threes(block, 32, 5, scale, out);
    out = decode_threes(block + 32, 16, 5, scale, out);
    decode_threes(block + 48, 4, 4, scale, out);
}

void exg_decode_tq2_0(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block + 64);

    for (int i = 0; i < 256; i++) {
        out[i] = scale * (float)(two_bits(block, i) - 1);
    }
}

/* ---- 4 bits that stand for a value of a list --------------------------------------------------
 */

/* Of float4_e2m1, twice: whole numbers. */
static const int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static const int8_t not_linear[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* The lower halves of `count` bytes, then the upper ones. */
static void decode_listed(const uint8_t *packed, int count, const int8_t list[16], float scale,
                          float *out)
{
    for (int i = 0; i < count; i++) {
        out[i] = scale * (float)list[packed[i] & 15];
        out[i + count] = scale * (float)list[packed[i] >> 4];
    }
}

/* The lower half is the first; zero has a sign. */
void exg_decode_f4(const uint8_t *block, float *out)
{
    for (int i = 0; i < 2; i++) {
        float magnitude = 0.5f * (float)e2m1[*block >> (4 * i) & 7];

        out[i] = *block >> (4 * i) & 8 ? -magnitude : magnitude;
    }
}

/* Four in three bytes, the lowest bits first. `fraction` bits of each are the fraction; the
 * exponent of the smallest normal number is `least`. */
static void decode_sixes(const uint8_t *block, int fraction, int least, float *out)
{
    uint32_t bits = exg_block_word(block, 3);

    for (int i = 0; i < 4; i++, bits >>= 6) {
        int exponent = (int)(bits & 31) >> fraction;
        int digits = (int)(bits & ((1u << fraction) - 1)) | (exponent > 0 ? 1 << fraction : 0);
        float magnitude =
            ldexpf((float)digits, least - fraction + (exponent > 0 ? exponent - 1 : 0));

        out[i] = bits & 32 ? -magnitude : magnitude;
    }
}

void exg_decode_f6_e2m3(const uint8_t *block, float *out)
{
    decode_sixes(block, 3, 0, out);
}

void exg_decode_f6_e3m2(const uint8_t *block, float *out)
{
    decode_sixes(block, 2, -2, out);
}

void exg_decode_iq4_nl(const uint8_t *block, float *out)
{
    decode_listed(block + 2, 16, not_linear, exg_block_half(block), out);
}

/* 8 scales of 6 bits: the upper two in 2 bytes, the lower four in 4. */
void exg_decode_iq4_xs(const uint8_t *block, float *out)
{
    float scale = exg_block_half(block);
    uint32_t upper = exg_block_word(block + 2, 2);

    for (int part = 0; part < 8; part++) {
        int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
        int number = (low | (int)(upper >> (part * 2) & 3) << 4) - 32;

        decode_listed(block + 8 + part * 16, 16, not_linear, scale * (float)number,
                      out + part * 32);
    }
}

/* Half of 2 to the power of (x - 127). */
static float half_power(uint8_t x)
{
    return exg_f32_of_bits(x < 2 ? 0x00200000 << x : (x - 1) << 23);
}

void exg_decode_mxfp4(const uint8_t *block, float *out)
{
    decode_listed(block + 1, 16, e2m1, half_power(block[0]), out);
}

/* A scale of float8_e4m3 without sign, halved; what would be NaN is 0. */
static float half_of_e4m3(uint8_t x)
{
    float fraction = (float)(x & 7);
    int exponent = x >> 3 & 15;

    return x == 0x7f       ? 0
           : exponent == 0 ? fraction * 0x1p-10f
                           : (1 + fraction / 8) * exg_f32_of_bits((exponent + 119) << 23);
}

void exg_decode_nvfp4(const uint8_t *block, float *out)
{
    for (int part = 0; part < 4; part++) {
        decode_listed(block + 4 + part * 8, 8, e2m1, half_of_e4m3(block[part]), out + part * 16);
    }
}
