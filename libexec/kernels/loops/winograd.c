/* winograd.c - the transforms of Winograd's F(2x2, 3x3) over the channels of a tile.
 *
 * Four neighbours d of a row give t = (d0 - d2, d1 + d2, d2 - d1, d1 - d3); products m of
 * those give y = (m0 + m1 + m2, m1 - m2 - m3). The same down the columns (Lavin and Gray
 * 2015, "Fast algorithms for convolutional neural networks").
 */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"

#define UNROLL _Pragma("GCC unroll 16")

/* One vector of each of the 16 pixels to one of each of the 16 factors. */
static inline __attribute__((always_inline)) void spread(const exg_vf32 *d, exg_vf32 *v)
{
    exg_vf32 t[16];

    UNROLL for (int i = 0; i < 4; i++)
    {
        t[i] = d[i] - d[8 + i];
        t[4 + i] = d[4 + i] + d[8 + i];
        t[8 + i] = d[8 + i] - d[4 + i];
        t[12 + i] = d[4 + i] - d[12 + i];
    }
    UNROLL for (int i = 0; i < 16; i += 4)
    {
        v[i] = t[i] - t[i + 2];
        v[i + 1] = t[i + 1] + t[i + 2];
        v[i + 2] = t[i + 2] - t[i + 1];
        v[i + 3] = t[i + 1] - t[i + 3];
    }
}

/* 16 products to 4 results. */
static inline __attribute__((always_inline)) void gather(const exg_vf32 *m, exg_vf32 *y)
{
    exg_vf32 t[8];

    UNROLL for (int i = 0; i < 4; i++)
    {
        t[i] = m[i] + m[4 + i] + m[8 + i];
        t[4 + i] = m[4 + i] - m[8 + i] - m[12 + i];
    }
    UNROLL for (int i = 0; i < 2; i++)
    {
        y[2 * i] = t[4 * i] + t[4 * i + 1] + t[4 * i + 2];
        y[2 * i + 1] = t[4 * i + 1] - t[4 * i + 2] - t[4 * i + 3];
    }
}

/* The last channels, fewer than a vector, through one. */
static exg_vf32 load_some(const float *from, int64_t count)
{
    exg_vf32 v = {0};

    for (int64_t i = 0; i < count; i++) {
        v[i] = from[i];
    }
    return v;
}

static void store_some(float *to, exg_vf32 v, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        to[i] = v[i];
    }
}

static void winograd_spread(int64_t count, float *factors, int64_t stride,
                            const float *const *pixels)
{
    exg_vf32 d[16];
    exg_vf32 v[16];
    int64_t k = 0;

    for (; k + EXG_VF32 <= count; k += EXG_VF32) {
        UNROLL for (int i = 0; i < 16; i++)
        {
            d[i] = *(const exg_vf32 *)(pixels[i] + k);
        }
        spread(d, v);
        UNROLL for (int i = 0; i < 16; i++)
        {
            *(exg_vf32 *)(factors + i * stride + k) = v[i];
        }
    }
    if (k < count) {
        for (int i = 0; i < 16; i++) {
            d[i] = load_some(pixels[i] + k, count - k);
        }
        spread(d, v);
        for (int i = 0; i < 16; i++) {
            store_some(factors + i * stride + k, v[i], count - k);
        }
    }
}

static bool winograd_gather(int64_t count, float *const *results, const float *products,
                            int64_t stride, const float *start)
{
    exg_vf32 m[16];
    exg_vf32 y[4];
    exg_vf32 same = {0};
    bool is_number = true;
    int64_t k = 0;

    for (; k + EXG_VF32 <= count; k += EXG_VF32) {
        UNROLL for (int i = 0; i < 16; i++)
        {
            m[i] = *(const exg_vf32 *)(products + i * stride + k);
        }
        gather(m, y);
        UNROLL for (int i = 0; i < 4; i++)
        {
            y[i] += *(const exg_vf32 *)(start + k);
            same += y[i] - y[i]; /* 0, or NaN */
            *(exg_vf32 *)(results[i] + k) = y[i];
        }
    }
    if (k < count) {
        for (int i = 0; i < 16; i++) {
            m[i] = load_some(products + i * stride + k, count - k);
        }
        gather(m, y);
        for (int i = 0; i < 4; i++) {
            y[i] += load_some(start + k, count - k);
            same += y[i] - y[i];
            store_some(results[i] + k, y[i], count - k);
        }
    }
    for (int i = 0; i < EXG_VF32; i++) {
        is_number = is_number && same[i] == 0;
    }
    return is_number;
}

const exg_winograd_loops EXG_ISA_NAME(exg_loops_winograd) = {
    .spread = winograd_spread,
    .gather = winograd_gather,
};
