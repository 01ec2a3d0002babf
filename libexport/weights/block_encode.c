/* block_encode.c - float32 as blocks of GGML, bit for bit what its own reference makes of it: every
 * product and sum is rounded to float32, in that order. The types of 32 are what gguf-py's
 * quants.py makes too. */
#include "libexport/weights/block.h"

#include <math.h>
#include <string.h>

#define PART  32  /* numbers of Q4_K and Q5_K that share a scale */
#define PARTS 8   /* of them in a block */
#define GROUP 16  /* the same of Q6_K */
#define LARGE 256 /* numbers in a block of a K type */

#define NOTHING 1e-15f /* a group of less is of zeros */

static int clamp(int number, int least, int most)
{
    return number < least ? least : number > most ? most : number;
}

/* false: it is none of float16. */
static bool put_half(uint8_t *at, float x)
{
    uint16_t half = exg_f32_to_f16(x);

    at[0] = (uint8_t)half;
    at[1] = (uint8_t)(half >> 8);
    return (half & 0x7c00) != 0x7c00;
}

/* No NaN and no infinity among them? Else they pass for numbers, where the largest alone counts. */
static bool all_finite(const float *in, int count)
{
    uint32_t most = 0;

    for (int i = 0; i < count; i++) {
        uint32_t magnitude = (uint32_t)exg_f32_bits(in[i]) & 0x7fffffff;

        most = magnitude > most ? magnitude : most;
    }
    return most < 0x7f800000;
}

/* ---- 32 numbers --------------------------------------------------------------------------------
 */

/* The first of those that are farthest from zero. */
static float farthest(const float *in, int count)
{
    float found = in[0];

    for (int i = 1; i < count; i++) {
        found = fabsf(in[i]) > fabsf(found) ? in[i] : found;
    }
    return found;
}

/* Of one that is too small to be turned around nothing is left. */
static float inverse_of(float scale)
{
    float inverse = scale == 0 ? 0 : 1 / scale;

    return isinf(inverse) ? 0 : inverse;
}

static void put_fours(const uint8_t numbers[32], uint8_t *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)((numbers[i] & 15) | numbers[i + 16] << 4);
    }
}

static void put_fifths(const uint8_t numbers[32], uint8_t *out)
{
    memset(out, 0, 4);
    for (int i = 0; i < 32; i++) {
        out[i / 8] = (uint8_t)(out[i / 8] | (numbers[i] >> 4) << (i % 8));
    }
}

/* Whole numbers from 0 to twice `middle`, of which that is zero. */
static bool round_around(const float *in, int middle, uint8_t *half, uint8_t numbers[32])
{
    float scale = farthest(in, 32) / (float)-middle;
    float inverse = inverse_of(scale);

    for (int i = 0; i < 32; i++) {
        numbers[i] =
            (uint8_t)clamp((int)(in[i] * inverse + ((float)middle + 0.5f)), 0, 2 * middle - 1);
    }
    return put_half(half, scale);
}

/* From 0, the least number, to `most`. */
static bool round_above(const float *in, int most, uint8_t *halves, uint8_t numbers[32])
{
    float least = in[0];
    float largest = in[0];
    float scale;
    float inverse;

    for (int i = 1; i < 32; i++) {
        least = in[i] < least ? in[i] : least;
        largest = in[i] > largest ? in[i] : largest;
    }
    scale = (largest - least) / (float)most;
    inverse = isinf(scale) ? 0 : inverse_of(scale);
    for (int i = 0; i < 32; i++) {
        numbers[i] = (uint8_t)clamp((int)((in[i] - least) * inverse + 0.5f), 0, most);
    }
    return put_half(halves, scale) && put_half(halves + 2, least);
}

bool exg_encode_q4_0(const float *in, uint8_t *block)
{
    uint8_t numbers[32];

    if (!all_finite(in, 32) || !round_around(in, 8, block, numbers)) {
        return false;
    }
    put_fours(numbers, block + 2);
    return true;
}

bool exg_encode_q4_1(const float *in, uint8_t *block)
{
    uint8_t numbers[32];

    if (!all_finite(in, 32) || !round_above(in, 15, block, numbers)) {
        return false;
    }
    put_fours(numbers, block + 4);
    return true;
}

bool exg_encode_q5_0(const float *in, uint8_t *block)
{
    uint8_t numbers[32];

    if (!all_finite(in, 32) || !round_around(in, 16, block, numbers)) {
        return false;
    }
    put_fifths(numbers, block + 2);
    put_fours(numbers, block + 6);
    return true;
}

bool exg_encode_q5_1(const float *in, uint8_t *block)
{
    uint8_t numbers[32];

    if (!all_finite(in, 32) || !round_above(in, 31, block, numbers)) {
        return false;
    }
    put_fifths(numbers, block + 4);
    put_fours(numbers, block + 8);
    return true;
}

bool exg_encode_q8_0(const float *in, uint8_t *block)
{
    float scale = fabsf(farthest(in, 32)) / 127;
    float inverse = inverse_of(scale);

    if (!all_finite(in, 32) || !put_half(block, scale)) {
        return false;
    }
    for (int i = 0; i < 32; i++) { /* halves go away from zero */
        float magnitude = fabsf(in[i] * inverse);
        int number = (int)magnitude;

        number += (int)(2 * (magnitude - (float)number));
        block[2 + i] = (uint8_t)(in[i] < 0 ? -number : number);
    }
    return true;
}

/* ---- 256 numbers -------------------------------------------------------------------------------
 */

/* To the nearest, between two to the even one; of what is too far whatever clamps. */
static int nearest(float x)
{
    float held = x > 4194303.0f ? 4194303.0f : x < -4194303.0f ? -4194303.0f : x;

    return (exg_f32_bits(held + 12582912.0f) & 0x7fffff) - 0x400000;
}

/* x = scale * number + least, sought for a part. */
typedef struct fit {
    float scale, least;
    float error; /* the squares of what is missing, weighted */
} fit;

static float error_of(const float x[PART], const float weights[PART], const float numbers[PART],
                      float scale, float least)
{
    float error = 0;

    for (int i = 0; i < PART; i++) {
        float missing = scale * numbers[i] + least - x[i];

        error += weights[i] * (missing * missing);
    }
    return error;
}

static void round_part(const float x[PART], float inverse, float least, int most,
                       float numbers[PART])
{
    for (int i = 0; i < PART; i++) {
        numbers[i] = (float)clamp(nearest(inverse * (x[i] - least)), 0, most);
    }
}

/* Scale and least by least squares for these numbers; false: there is no such. */
static bool solve(const float x[PART], const float weights[PART], const float numbers[PART],
                  float sum_weights, float sum_x, fit *found)
{
    float sum = 0;
    float squares = 0;
    float products = 0;
    float determinant;

    for (int i = 0; i < PART; i++) {
        float weighted = weights[i] * numbers[i];

        sum += weighted;
        squares += weighted * numbers[i];
        products += weighted * x[i];
    }
    determinant = sum_weights * squares - sum * sum;
    if (!(determinant > 0)) {
        return false;
    }
    found->scale = (sum_weights * products - sum_x * sum) / determinant;
    found->least = (squares * sum_x - sum * products) / determinant;
    if (found->least > 0) {
        found->least = 0;
        found->scale = products / squares;
    }
    found->error = error_of(x, weights, numbers, found->scale, found->least);
    return true;
}

/* Steps of rounding that are tried for a part: (begin + i / 10 + most) over the range of x, from
 * the best least so far. */
typedef struct search {
    int most;
    float begin;
    int steps;
} search;

static const search fours = {15, -1.0f, 20};
static const search fives = {31, -0.5f, 15};

/* Numbers that are farther from zero weigh more. */
static void weigh(const float x[PART], float weights[PART])
{
    float squares = 0;
    float mean;

    for (int i = 0; i < PART; i++) {
        squares += x[i] * x[i];
    }
    mean = sqrtf(squares / PART);
    for (int i = 0; i < PART; i++) {
        weights[i] = mean + fabsf(x[i]);
    }
}

static fit fit_part(const float x[PART], const search *s, uint8_t numbers[PART])
{
    float weights[PART];
    float tried[PART];
    float best_numbers[PART];
    float least = x[0];
    float largest = x[0];
    float sum_weights;
    float sum_x;
    fit best;
    fit next;

    weigh(x, weights);
    sum_weights = weights[0];
    sum_x = weights[0] * x[0];
    for (int i = 1; i < PART; i++) {
        least = x[i] < least ? x[i] : least;
        largest = x[i] > largest ? x[i] : largest;
        sum_weights += weights[i];
        sum_x += weights[i] * x[i];
    }
    least = least > 0 ? 0 : least;
    memset(numbers, 0, PART);
    if (largest == least) {
        return (fit){0, least, 0};
    }
    best = (fit){1 / ((float)s->most / (largest - least)), least, 0};
    round_part(x, (float)s->most / (largest - least), least, s->most, best_numbers);
    best.error = error_of(x, weights, best_numbers, best.scale, best.least);
    for (int step = 0; step <= s->steps; step++) {
        float steps = s->begin + 0.1f * (float)step + (float)s->most;

        round_part(x, steps / (largest - best.least), best.least, s->most, tried);
        if (solve(x, weights, tried, sum_weights, sum_x, &next) && next.error < best.error) {
            best = next;
            memcpy(best_numbers, tried, sizeof(tried));
        }
    }
    for (int i = 0; i < PART; i++) {
        numbers[i] = (uint8_t)best_numbers[i];
    }
    return best;
}

/* To one of 64 steps, as a byte. */
static int step_of(float x)
{
    uint8_t step = (uint8_t)nearest(x);

    return step > 63 ? 63 : step;
}

/* Scales and leasts of the parts by common ones: 6 bits each. */
static bool put_parts(const fit parts[PARTS], uint8_t *block)
{
    uint8_t *packed = block + 4;
    float scale = 0;
    float least = 0;
    bool fits;

    for (int i = 0; i < PARTS; i++) {
        scale = parts[i].scale > scale ? parts[i].scale : scale;
        least = -parts[i].least > least ? -parts[i].least : least;
    }
    memset(packed, 0, 12);
    for (int i = 0; i < PARTS; i++) {
        int s = step_of((scale > 0 ? 63 / scale : 0) * parts[i].scale);
        int m = step_of((least > 0 ? 63 / least : 0) * -parts[i].least);

        if (i < 4) {
            packed[i] = (uint8_t)s;
            packed[i + 4] = (uint8_t)m;
        } else {
            packed[i + 4] = (uint8_t)((s & 15) | (m & 15) << 4);
            packed[i - 4] = (uint8_t)(packed[i - 4] | (s >> 4) << 6);
            packed[i] = (uint8_t)(packed[i] | (m >> 4) << 6);
        }
    }
    fits = put_half(block, scale / 63);
    return put_half(block + 2, least / 63) && fits;
}

/* Scales, leasts, and the numbers that are nearest by them. */
static bool round_block(const float in[LARGE], const search *s, uint8_t *block,
                        uint8_t numbers[LARGE])
{
    fit parts[PARTS];

    for (int i = 0; i < PARTS; i++) {
        parts[i] = fit_part(in + i * PART, s, numbers + i * PART);
    }
    if (!all_finite(in, LARGE) || !put_parts(parts, block)) {
        return false;
    }
    for (int i = 0; i < PARTS; i++) {
        int own = 0;
        int least = 0;
        float scale;
        float under;

        exg_block_part_of_k(block + 4, i, &own, &least);
        scale = exg_block_half(block) * (float)own;
        under = exg_block_half(block + 2) * (float)least;
        for (int k = i * PART; scale != 0 && k < (i + 1) * PART; k++) {
            numbers[k] = (uint8_t)clamp(nearest((in[k] + under) / scale), 0, s->most);
        }
    }
    return true;
}

static void put_halves(const uint8_t numbers[LARGE], uint8_t *out)
{
    for (int i = 0; i < LARGE / 2; i++) {
        const uint8_t *two = numbers + i / PART * 2 * PART + i % PART;

        out[i] = (uint8_t)((two[0] & 15) | (two[PART] & 15) << 4);
    }
}

bool exg_encode_q4_k(const float *in, uint8_t *block)
{
    uint8_t numbers[LARGE];

    if (!round_block(in, &fours, block, numbers)) {
        return false;
    }
    put_halves(numbers, block + 16);
    return true;
}

bool exg_encode_q5_k(const float *in, uint8_t *block)
{
    uint8_t numbers[LARGE];

    if (!round_block(in, &fives, block, numbers)) {
        return false;
    }
    memset(block + 16, 0, PART);
    for (int i = 0; i < LARGE; i++) {
        uint8_t *high = &block[16 + i % PART];

        *high = (uint8_t)(*high | (numbers[i] >> 4) << (i / PART));
    }
    put_halves(numbers, block + 48);
    return true;
}

/* Whole numbers from -32 to 31 times a scale, by least squares weighted with the squares of x. */
typedef struct group {
    float products, squares; /* of x and of the numbers, with the numbers */
    int numbers[GROUP];
} group;

static void round_group(const float x[GROUP], float inverse, group *made)
{
    made->products = 0;
    made->squares = 0;
    for (int i = 0; i < GROUP; i++) {
        int number = clamp(nearest(inverse * x[i]), -32, 31);
        float weight = x[i] * x[i];

        made->numbers[i] = number;
        made->products += weight * x[i] * (float)number;
        made->squares += weight * (float)number * (float)number;
    }
}

static float fit_group(const float x[GROUP], int numbers[GROUP])
{
    float most = farthest(x, GROUP);
    group tried;
    float scale;
    float best;

    if (fabsf(most) < NOTHING) {
        for (int i = 0; i < GROUP; i++) {
            numbers[i] = -32; /* the byte 0 */
        }
        return 0;
    }
    round_group(x, -32 / most, &tried);
    memcpy(numbers, tried.numbers, sizeof(tried.numbers));
    scale = tried.squares != 0 ? tried.products / tried.squares : 0;
    best = scale * tried.products;
    for (int step = -9; step <= 9; step++) {
        if (step == 0) {
            continue;
        }
        round_group(x, -(32 + 0.1f * (float)step) / most, &tried);
        if (tried.squares > 0 && tried.products * tried.products > best * tried.squares) {
            memcpy(numbers, tried.numbers, sizeof(tried.numbers));
            scale = tried.products / tried.squares;
            best = scale * tried.products;
        }
    }
    return scale;
}

/* 16 scales as bytes, by a common one; the numbers that are nearest by them, from 0 to 63. */
static bool round_groups(const float in[LARGE], uint8_t *block, int numbers[LARGE])
{
    float scales[LARGE / GROUP];
    float most = 0;
    float inverse;

    for (int i = 0; i < LARGE / GROUP; i++) {
        scales[i] = fit_group(in + i * GROUP, numbers + i * GROUP);
        most = fabsf(scales[i]) > fabsf(most) ? scales[i] : most;
    }
    if (!all_finite(in, LARGE) || !all_finite(scales, LARGE / GROUP)) {
        return false;
    }
    if (fabsf(most) < NOTHING) {
        memset(block + 192, 0, 18);
        return true; /* all numbers are the byte 0 */
    }
    inverse = -128 / most;
    if (!put_half(block + 208, 1 / inverse)) {
        return false;
    }
    for (int i = 0; i < LARGE / GROUP; i++) {
        int own = nearest(inverse * scales[i]);
        float scale;

        own = own > 127 ? 127 : own;
        block[192 + i] = (uint8_t)own;
        scale = exg_block_half(block + 208) * (float)own;
        for (int k = i * GROUP; scale != 0 && k < (i + 1) * GROUP; k++) {
            numbers[k] = clamp(nearest(in[k] / scale), -32, 31);
        }
    }
    return true;
}

bool exg_encode_q6_k(const float *in, uint8_t *block)
{
    int numbers[LARGE];

    if (!round_groups(in, block, numbers)) {
        return false;
    }
    for (int i = 0; i < LARGE / 4; i++) {
        const int *four = numbers + i / 32 * 128 + i % 32;
        uint8_t *low = block + i / 32 * 64 + i % 32;
        uint8_t parts[4];

        for (int k = 0; k < 4; k++) {
            parts[k] = (uint8_t)(four[k * 32] + 32);
        }
        low[0] = (uint8_t)((parts[0] & 15) | (parts[2] & 15) << 4);
        low[32] = (uint8_t)((parts[1] & 15) | (parts[3] & 15) << 4);
        block[128 + i] = (uint8_t)(parts[0] >> 4 | (parts[1] >> 4) << 2 | (parts[2] >> 4) << 4 |
                                   (parts[3] >> 4) << 6);
    }
    return true;
}
