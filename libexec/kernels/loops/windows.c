/* windows.c - windows of a row under filters, f32 and f64. */
#include "libexec/kernels/loops/windows.h"
#include "libexec/kernels/loops/row.h"

#define REAL       float
#define VECTOR     exg_vf32
#define NAME(name) f32_##name
#include "libexec/kernels/loops/windows_body.h"
#undef REAL
#undef VECTOR
#undef NAME

#define REAL       double
#define VECTOR     exg_vf64
#define NAME(name) f64_##name
#include "libexec/kernels/loops/windows_body.h"

/* ---- planes -----------------------------------------------------------------------------------
 */

#define ROWS 4 /* of y at a time */
#define WIDE 2 /* vectors of each */

/* `rows` rows by `vectors` vectors, in registers. */
static inline __attribute__((always_inline)) void plane_of(const int filter_rows, const int rows,
                                                           const int vectors, float *y,
                                                           int64_t pitch, const float *x,
                                                           int64_t width, int64_t taps,
                                                           const int64_t *offsets,
                                                           const float *weights, float start)
{
    exg_vf32 sums[ROWS][WIDE];

    EXG_UNROLL for (int i = 0; i < rows; i++)
    {
        EXG_UNROLL for (int k = 0; k < vectors; k++)
        {
            sums[i][k] = start + (exg_vf32){0};
        }
    }
    for (int64_t t = 0; t < taps; t++) {
        _Pragma("GCC unroll 16") for (int r = 0; r < rows + filter_rows - 1; r++)
        {
            const exg_vf32 *from = (const exg_vf32 *)(x + r * width + offsets[t]);

            EXG_UNROLL for (int i = 0; i < rows; i++)
            {
                if (i <= r && r - i < filter_rows) {
                    EXG_UNROLL for (int k = 0; k < vectors; k++)
                    {
                        sums[i][k] += weights[(r - i) * taps + t] * from[k];
                    }
                }
            }
        }
    }
    EXG_UNROLL for (int i = 0; i < rows; i++)
    {
        EXG_UNROLL for (int k = 0; k < vectors; k++)
        {
            ((exg_vf32 *)(y + i * pitch))[k] = sums[i][k];
        }
    }
}

static inline __attribute__((always_inline)) void rows_of_plane(
    const int filter_rows, const int rows, int64_t count, float *y, int64_t pitch, const float *x,
    int64_t width, int64_t taps, const int64_t *offsets, const float *weights, float start)
{
    int64_t i = 0;

    for (; i + EXG_VF32 < count; i += WIDE * EXG_VF32) {
        plane_of(filter_rows, rows, WIDE, y + i, pitch, x + i, width, taps, offsets, weights,
                 start);
    }
    if (i < count) {
        plane_of(filter_rows, rows, 1, y + i, pitch, x + i, width, taps, offsets, weights, start);
    }
}

#define PLANE(name, filter_rows)                                                                   \
    static void name(int64_t rows, int64_t count, float *y, int64_t pitch, const float *x,         \
                     int64_t width, int64_t taps, const int64_t *offsets, const float *weights,    \
                     float start)                                                                  \
    {                                                                                              \
        int64_t r = 0;                                                                             \
                                                                                                   \
        for (; r + ROWS <= rows; r += ROWS) {                                                      \
            rows_of_plane(filter_rows, ROWS, count, y + r * pitch, pitch, x + r * width, width,    \
                          taps, offsets, weights, start);                                          \
        }                                                                                          \
        for (; r < rows; r++) {                                                                    \
            rows_of_plane(filter_rows, 1, count, y + r * pitch, pitch, x + r * width, width, taps, \
                          offsets, weights, start);                                                \
        }                                                                                          \
    }

PLANE(plane_3, EXG_WINDOWS_PLANE(0))
PLANE(plane_5, EXG_WINDOWS_PLANE(1))
PLANE(plane_7, EXG_WINDOWS_PLANE(2))

const exg_windows_loops EXG_ISA_NAME(exg_loops_windows) = {
    .f32 = {f32_one, f32_four},
    .f64 = {f64_one, f64_four},
    .planes_f32 = {plane_3, plane_5, plane_7},
};
