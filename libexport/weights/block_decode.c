/* block_decode.c - blocks of GGML as float32. The meaning is that of gguf-py's quants.py: scales
 * are float16, products are rounded to float32 one after the other. */
#include "libexport/weights/block.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- numbers, with a scale a group, and what is added ------------------------------------------
 */

/* Two numbers of 4 bits a byte: the lower halves are the first 16. */
static void split_halves(const uint8_t *packed, int8_t *numbers)
{
    for (int i = 0; i < 16; i++) {
        numbers[i] = (int8_t)(packed[i] & 15);
        numbers[i + 16] = (int8_t)(packed[i] >> 4);
    }
}

static void split_q4_0(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    split_halves(block + 2, s->numbers);
}

static void split_q4_1(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    s->offsets[0] = exg_block_half(block + 2);
    split_halves(block + 4, s->numbers);
}

/* The fifth bit of each number is in a word before them. */
static void split_fives(const uint8_t *high, const uint8_t *low, int8_t *numbers)
{
    uint32_t bits = exg_block_word(high, 4);

    split_halves(low, numbers);
    for (int i = 0; i < 32; i++) {
        numbers[i] = (int8_t)(numbers[i] | (int)(bits >> i & 1) << 4);
    }
}

static void split_q5_0(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    split_fives(block + 2, block + 6, s->numbers);
}

static void split_q5_1(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    s->offsets[0] = exg_block_half(block + 2);
    split_fives(block + 4, block + 8, s->numbers);
}

static void split_q8_0(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    memcpy(s->numbers, block + 2, 32);
}

/* 8 parts of 32; `high` holds a fifth bit of each number, or is NULL. */
static void split_k(const uint8_t *block, const uint8_t *high, const uint8_t *low,
                    exg_block_split *to)
{
    float scale = exg_block_half(block);
    float least = exg_block_half(block + 2);

    for (int part = 0; part < 8; part++) {
        int s;
        int m;

        exg_block_part_of_k(block + 4, part, &s, &m);
        to->scales[part] = scale * (float)s;
        to->offsets[part] = -(least * (float)m);
        for (int i = 0; i < 32; i++) {
            int number = low[part / 2 * 32 + i] >> (part % 2 * 4) & 15;

            number |= high == NULL ? 0 : (high[i] >> part & 1) << 4;
            to->numbers[part * 32 + i] = (int8_t)number;
        }
    }
}

static void split_q4_k(const uint8_t *block, exg_block_split *s)
{
    split_k(block, NULL, block + 16, s);
}

static void split_q5_k(const uint8_t *block, exg_block_split *s)
{
    split_k(block, block + 16, block + 48, s);
}

/* 128 bytes of lower halves, 64 of upper quarters, 16 scales, a scale of those. */
static void split_q6_k(const uint8_t *block, exg_block_split *s)
{
    float scale = exg_block_half(block + 208);

    for (int i = 0; i < 256; i++) {
        int group = i / 128;
        int within = i % 128;
        int low = block[group * 64 + within % 64] >> (within / 64 * 4) & 15;
        int high = block[128 + group * 32 + within % 32] >> (within / 32 * 2) & 3;

        s->numbers[i] = (int8_t)(low | high << 4);
        s->scales[i / 16] = scale * (float)(int8_t)block[192 + i / 16];
    }
}

/* Numbers of 2 bits: of each 32 bytes four times 32, the lowest bits first. */
static int two_bits(const uint8_t *packed, int i)
{
    return packed[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

/* 16 scales and leasts of 4 bits, 64 bytes of quarters. */
static void split_q2_k(const uint8_t *block, exg_block_split *s)
{
    float scale = exg_block_half(block + 80);
    float least = exg_block_half(block + 82);

    for (int i = 0; i < 256; i++) {
        int part = block[i / 16];

        s->numbers[i] = (int8_t)two_bits(block + 16, i);
        s->scales[i / 16] = scale * (float)(part & 15);
        s->offsets[i / 16] = -(least * (float)(part >> 4));
    }
}

/* A third bit of each number in 32 bytes, 64 of quarters, 16 scales of 6 bits: the lower four of
 * them in 8 bytes, the upper two in 4. */
static void split_q3_k(const uint8_t *block, exg_block_split *s)
{
    const uint8_t *packed = block + 96;
    float scale = exg_block_half(block + 108);

    for (int i = 0; i < 256; i++) {
        int part = i / 16;
        int low = packed[part % 8] >> (part / 8 * 4) & 15;
        int high = packed[8 + part % 4] >> (part / 4 * 2) & 3;

        s->numbers[i] = (int8_t)(two_bits(block + 32, i) | (block[i % 32] >> (i / 32) & 1 ? 4 : 0));
        s->scales[part] = scale * (float)((low | high << 4) - 32);
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
static void split_listed(const uint8_t *packed, int count, const int8_t list[16], int8_t *numbers)
{
    for (int i = 0; i < count; i++) {
        numbers[i] = list[packed[i] & 15];
        numbers[i + count] = list[packed[i] >> 4];
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

static void split_iq4_nl(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = exg_block_half(block);
    split_listed(block + 2, 16, not_linear, s->numbers);
}

/* 8 scales of 6 bits: the upper two in 2 bytes, the lower four in 4. */
static void split_iq4_xs(const uint8_t *block, exg_block_split *s)
{
    float scale = exg_block_half(block);
    uint32_t upper = exg_block_word(block + 2, 2);

    for (int part = 0; part < 8; part++) {
        int low = block[4 + part / 2] >> (part % 2 * 4) & 15;
        int number = (low | (int)(upper >> (part * 2) & 3) << 4) - 32;

        s->scales[part] = scale * (float)number;
        split_listed(block + 8 + part * 16, 16, not_linear, s->numbers + part * 32);
    }
}

/* Half of 2 to the power of (x - 127). */
static float half_power(uint8_t x)
{
    return exg_f32_of_bits(x < 2 ? 0x00200000 << x : (x - 1) << 23);
}

static void split_mxfp4(const uint8_t *block, exg_block_split *s)
{
    s->scales[0] = half_power(block[0]);
    split_listed(block + 1, 16, e2m1, s->numbers);
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

static void split_nvfp4(const uint8_t *block, exg_block_split *s)
{
    for (int part = 0; part < 4; part++) {
        s->scales[part] = half_of_e4m3(block[part]);
        split_listed(block + 4 + part * 8, 8, e2m1, s->numbers + part * 16);
    }
}

/* ---- both together ----------------------------------------------------------------------------
 */

#define EXG_BLOCK_GROUPS(id, elements, group, zero, is_packed, has_offsets, scale)                 \
    void exg_decode_##id(const uint8_t *block, float *out)                                         \
    {                                                                                              \
        exg_block_split s;                                                                         \
                                                                                                   \
        split_##id(block, &s);                                                                     \
        for (int i = 0; i < (elements); i++) {                                                     \
            float product = s.scales[i / (group)] * (float)(s.numbers[i] - (zero));                \
                                                                                                   \
            out[i] = (has_offsets) ? product + s.offsets[i / (group)] : product;                   \
        }                                                                                          \
    }
#include "libexport/weights/block_groups.def"
#undef EXG_BLOCK_GROUPS

const exg_block_groups *exg_block_groups_of(const exg_block *block)
{
    static const exg_block_groups rows[] = {
#define EXG_BLOCK_GROUPS(id, elements, group, zero, is_packed, has_offsets, scale)                 \
    {exg_decode_##id, split_##id, group, zero, is_packed, has_offsets, EXG_DTYPE_##scale},
#include "libexport/weights/block_groups.def"
#undef EXG_BLOCK_GROUPS
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].decode == block->decode) {
            return &rows[i];
        }
    }
    return NULL;
}
