/* block.c - blocks of GGML as float32. The meaning is that of gguf-py's quants.py: scales are
 * float16, products are rounded to float32 one after the other. */
#include "libexport/weights/block.h"

#include "libexport/base/element.h"

#include <string.h>

static float half_at(const uint8_t *at)
{
    uint16_t bits = (uint16_t)(at[0] | at[1] << 8);

    return exg_f16_to_f32(bits);
}

/* Two numbers of 4 bits a byte: the lower halves are the first 16. */
static void decode_q4_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);

    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)((block[2 + i] & 15) - 8);
        out[i + 16] = scale * (float)((block[2 + i] >> 4) - 8);
    }
}

static void decode_q4_1(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    float least = half_at(block + 2);

    for (int i = 0; i < 16; i++) {
        out[i] = scale * (float)(block[4 + i] & 15) + least;
        out[i + 16] = scale * (float)(block[4 + i] >> 4) + least;
    }
}

/* The fifth bit of each number is in a word before them. */
static void decode_fives(const uint8_t *high, const uint8_t *low, int numbers[32])
{
    uint32_t bits = (uint32_t)high[0] | (uint32_t)high[1] << 8 | (uint32_t)high[2] << 16 |
                    (uint32_t)high[3] << 24;

    for (int i = 0; i < 16; i++) {
        numbers[i] = (low[i] & 15) | (int)(bits >> i & 1) << 4;
        numbers[i + 16] = (low[i] >> 4) | (int)(bits >> (i + 16) & 1) << 4;
    }
}

static void decode_q5_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    int numbers[32];

    decode_fives(block + 2, block + 6, numbers);
    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)(numbers[i] - 16);
    }
}

static void decode_q5_1(const uint8_t *block, float *out)
{
    float scale = half_at(block);
    float least = half_at(block + 2);
    int numbers[32];

    decode_fives(block + 4, block + 8, numbers);
    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)numbers[i] + least;
    }
}

static void decode_q8_0(const uint8_t *block, float *out)
{
    float scale = half_at(block);

    for (int i = 0; i < 32; i++) {
        out[i] = scale * (float)(int8_t)block[2 + i];
    }
}

/* Scale and least of part `i` of 8, in 12 bytes of 6 bits each. */
static void part_of_k(const uint8_t *packed, int i, int *scale, int *least)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *least = packed[i + 4] & 63;
    } else {
        *scale = (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
        *least = (packed[i + 4] >> 4) | (packed[i] >> 6) << 4;
    }
}

/* 8 parts of 32; `high` holds a fifth bit of each number, or is NULL. */
static void decode_k(const uint8_t *block, const uint8_t *high, const uint8_t *low, float *out)
{
    float scale = half_at(block);
    float least = half_at(block + 2);

    for (int part = 0; part < 8; part++) {
        int s;
        int m;

        part_of_k(block + 4, part, &s, &m);
        for (int i = 0; i < 32; i++) {
            int number = low[part / 2 * 32 + i] >> (part % 2 * 4) & 15;

            number |= high == NULL ? 0 : (high[i] >> part & 1) << 4;
            out[part * 32 + i] = scale * (float)s * (float)number - least * (float)m;
        }
    }
}

static void decode_q4_k(const uint8_t *block, float *out)
{
    decode_k(block, NULL, block + 16, out);
}

static void decode_q5_k(const uint8_t *block, float *out)
{
    decode_k(block, block + 16, block + 48, out);
}

/* 128 bytes of lower halves, 64 of upper quarters, 16 scales, a scale of those. */
static void decode_q6_k(const uint8_t *block, float *out)
{
    float scale = half_at(block + 208);

    for (int i = 0; i < 256; i++) {
        int group = i / 128;
        int within = i % 128;
        int low = block[group * 64 + within % 64] >> (within / 64 * 4) & 15;
        int high = block[128 + group * 32 + within % 32] >> (within / 32 * 2) & 3;
        int number = (low | high << 4) - 32;

        out[i] = scale * (float)(int8_t)block[192 + i / 16] * (float)number;
    }
}

static const exg_block_decoder decoders[] = {
    {"Q4_0", 32, 18, decode_q4_0},   {"Q4_1", 32, 20, decode_q4_1},
    {"Q5_0", 32, 22, decode_q5_0},   {"Q5_1", 32, 24, decode_q5_1},
    {"Q8_0", 32, 34, decode_q8_0},   {"Q4_K", 256, 144, decode_q4_k},
    {"Q5_K", 256, 176, decode_q5_k}, {"Q6_K", 256, 210, decode_q6_k},
};

const exg_block_decoder *exg_block_decoder_named(const char *encoding)
{
    for (size_t i = 0; i < sizeof(decoders) / sizeof(decoders[0]); i++) {
        if (strcmp(decoders[i].name, encoding) == 0) {
            return &decoders[i];
        }
    }
    return NULL;
}
