/* scan.c - cumulative sums and products of lines, side by side or dense. */
#include "libexec/kernels/loops/loops.h"

/* running = running op x, in `sum`, which wraps where it is unsigned; y = running. */
#define SCAN(name, type, sum, OP)                                                                  \
    static void name##_across(int64_t lines, void *y_, const void *x_, void *running_)             \
    {                                                                                              \
        const type *x = x_;                                                                        \
        type *y = y_;                                                                              \
        sum *running = running_;                                                                   \
                                                                                                   \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < lines; k++) {                                                      \
            running[k] = running[k] OP(sum) x[k];                                                  \
            y[k] = (type)running[k];                                                               \
        }                                                                                          \
    }                                                                                              \
    static void name##_along(int64_t count, void *const *y, const void *const *x, void *running_)  \
    {                                                                                              \
        sum *running = running_;                                                                   \
        sum a = running[0], b = running[1], c = running[2], d = running[3];                        \
                                                                                                   \
        for (int64_t k = 0; k < count; k++) {                                                      \
            a = a OP(sum)((const type *)x[0])[k];                                                  \
            b = b OP(sum)((const type *)x[1])[k];                                                  \
            c = c OP(sum)((const type *)x[2])[k];                                                  \
            d = d OP(sum)((const type *)x[3])[k];                                                  \
            ((type *)y[0])[k] = (type)a;                                                           \
            ((type *)y[1])[k] = (type)b;                                                           \
            ((type *)y[2])[k] = (type)c;                                                           \
            ((type *)y[3])[k] = (type)d;                                                           \
        }                                                                                          \
        running[0] = a;                                                                            \
        running[1] = b;                                                                            \
        running[2] = c;                                                                            \
        running[3] = d;                                                                            \
    }                                                                                              \
    static void name##_one(int64_t count, void *y_, const void *x_, void *running)                 \
    {                                                                                              \
        const type *x = x_;                                                                        \
        type *y = y_;                                                                              \
        sum a = *(sum *)running;                                                                   \
                                                                                                   \
        for (int64_t k = 0; k < count; k++) {                                                      \
            a = a OP(sum) x[k];                                                                    \
            y[k] = (type)a;                                                                        \
        }                                                                                          \
        *(sum *)running = a;                                                                       \
    }

#define SCANS(name, type, sum) SCAN(name##_sum, type, sum, +) SCAN(name##_product, type, sum, *)
#define ROW(name)                                                                                  \
    {                                                                                              \
        name##_across, name##_along, name##_one                                                    \
    }
#define TABLE(name)                                                                                \
    {                                                                                              \
        ROW(name##_sum), ROW(name##_product)                                                       \
    }

SCANS(f32, float, float)
SCANS(f32_in_f64, float, double)
SCANS(f64, double, double)
SCANS(i32, int32_t, uint32_t)
SCANS(i64, int64_t, uint64_t)

const exg_scan_loops EXG_ISA_NAME(exg_loops_scan) = {{
    [EXG_SCAN_F32] = TABLE(f32),
    [EXG_SCAN_F32_IN_F64] = TABLE(f32_in_f64),
    [EXG_SCAN_F64] = TABLE(f64),
    [EXG_SCAN_I32] = TABLE(i32),
    [EXG_SCAN_I64] = TABLE(i64),
}};
