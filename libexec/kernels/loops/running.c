/* running.c - the extreme so far of lines, side by side or dense, and its place. */
#include "libexec/kernels/loops/loops.h"

#define STRETCH 32 /* elements that are looked over together: most change nothing */

#define RUNNING(name, type, OP)                                                                    \
    static inline int takes_##name(const type x, const type best)                                  \
    {                                                                                              \
        return (x OP best) | (x != x);                                                             \
    }                                                                                              \
    static void name##_across(int64_t lines, void *y_, int64_t *where, const void *x_,             \
                              void *best_, int64_t *places, int64_t at)                            \
    {                                                                                              \
        const type *x = x_;                                                                        \
        type *y = y_, *best = best_;                                                               \
                                                                                                   \
        EXG_INDEPENDENT                                                                            \
        for (int64_t k = 0; k < lines; k++) {                                                      \
            const int takes = takes_##name(x[k], best[k]);                                         \
                                                                                                   \
            best[k] = takes ? x[k] : best[k];                                                      \
            places[k] = takes ? at : places[k];                                                    \
            y[k] = best[k];                                                                        \
            where[k] = places[k];                                                                  \
        }                                                                                          \
    }                                                                                              \
    static void name##_along(int64_t count, void *y_, int64_t *where, const void *x_, void *best_, \
                             int64_t *place_, int64_t at)                                          \
    {                                                                                              \
        const type *x = x_;                                                                        \
        type *y = y_;                                                                              \
        type best = *(type *)best_;                                                                \
        int64_t place = *place_;                                                                   \
                                                                                                   \
        for (int64_t first = 0; first < count; first += STRETCH) {                                 \
            const int64_t end = count - first < STRETCH ? count : first + STRETCH;                 \
            int any = 0;                                                                           \
                                                                                                   \
            for (int64_t i = first; i < end; i++) {                                                \
                any |= takes_##name(x[i], best);                                                   \
            }                                                                                      \
            if (!any) {                                                                            \
                for (int64_t i = first; i < end; i++) {                                            \
                    y[i] = best;                                                                   \
                    where[i] = place;                                                              \
                }                                                                                  \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t i = first; i < end; i++) {                                                \
                if (takes_##name(x[i], best)) {                                                    \
                    best = x[i];                                                                   \
                    place = at + i;                                                                \
                }                                                                                  \
                y[i] = best;                                                                       \
                where[i] = place;                                                                  \
            }                                                                                      \
        }                                                                                          \
        *(type *)best_ = best;                                                                     \
        *place_ = place;                                                                           \
    }

#define ROW(name)                                                                                  \
    {                                                                                              \
        {name##_max_across, name##_max_along},                                                     \
        {                                                                                          \
            name##_min_across, name##_min_along                                                    \
        }                                                                                          \
    }

RUNNING(f32_max, float, >=)
RUNNING(f32_min, float, <=)
RUNNING(f64_max, double, >=)
RUNNING(f64_min, double, <=)
RUNNING(i32_max, int32_t, >=)
RUNNING(i32_min, int32_t, <=)
RUNNING(i64_max, int64_t, >=)
RUNNING(i64_min, int64_t, <=)

const exg_running_loops EXG_ISA_NAME(exg_loops_running) = {{
    [EXG_COMPUTE_F32] = ROW(f32),
    [EXG_COMPUTE_F64] = ROW(f64),
    [EXG_COMPUTE_I32] = ROW(i32),
    [EXG_COMPUTE_I64] = ROW(i64),
}};
