/* recurrent.c - the cells of recurrent layers, for f32 and f64. */
#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/math_f32.h"

#include <math.h>

/* What a gate gets from input, state and bias. */
#define GATE(k) (x[(k) * n + i] + s[(k) * n + i] + bias[(k) * n + i])

#define CELLS(name, real, one_plus_exp, tanh_)                                                 \
    static inline real name##_sigmoid(real x)                                                  \
    {                                                                                          \
        return 1 / one_plus_exp(-x);                                                           \
    }                                                                                          \
    static void name##_tanh_cell(int64_t n, const void *x_, const void *s_, const void *bias_, \
                                 void *h_, void *c_)                                           \
    {                                                                                          \
        const real *x = x_, *s = s_, *bias = bias_;                                            \
        real *h = h_;                                                                          \
                                                                                               \
        (void)c_;                                                                              \
        EXG_INDEPENDENT                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                      \
            h[i] = tanh_(GATE(0));                                                             \
        }                                                                                      \
    }                                                                                          \
    static void name##_relu_cell(int64_t n, const void *x_, const void *s_, const void *bias_, \
                                 void *h_, void *c_)                                           \
    {                                                                                          \
        const real *x = x_, *s = s_, *bias = bias_;                                            \
        real *h = h_;                                                                          \
                                                                                               \
        (void)c_;                                                                              \
        EXG_INDEPENDENT                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                      \
            real sum = GATE(0);                                                                \
                                                                                               \
            h[i] = sum > 0 || sum != sum ? sum : 0;                                            \
        }                                                                                      \
    }                                                                                          \
    static void name##_lstm_cell(int64_t n, const void *x_, const void *s_, const void *bias_, \
                                 void *h_, void *c_)                                           \
    {                                                                                          \
        const real *x = x_, *s = s_, *bias = bias_;                                            \
        real *h = h_, *c = c_;                                                                 \
                                                                                               \
        EXG_INDEPENDENT                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                      \
            real kept = name##_sigmoid(GATE(1)) * c[i];                                        \
            real cell = kept + name##_sigmoid(GATE(0)) * tanh_(GATE(2));                       \
                                                                                               \
            c[i] = cell;                                                                       \
            h[i] = name##_sigmoid(GATE(3)) * tanh_(cell);                                      \
        }                                                                                      \
    }                                                                                          \
    static void name##_gru_cell(int64_t n, const void *x_, const void *s_, const void *bias_,  \
                                void *h_, void *c_)                                            \
    {                                                                                          \
        const real *x = x_, *s = s_, *bias = bias_;                                            \
        real *h = h_;                                                                          \
                                                                                               \
        (void)c_;                                                                              \
        EXG_INDEPENDENT                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                      \
            real of_state = s[2 * n + i] + bias[2 * n + i];                                    \
            real fresh = tanh_(x[2 * n + i] + name##_sigmoid(GATE(0)) * of_state);             \
                                                                                               \
            h[i] = fresh + name##_sigmoid(GATE(1)) * (h[i] - fresh);                           \
        }                                                                                      \
    }

static inline double f64_one_plus_exp(double x)
{
    return 1 + exp(x);
}

CELLS(f32, float, exg_f32_one_plus_exp, exg_f32_tanh)
CELLS(f64, double, f64_one_plus_exp, tanh)

#define TABLE(name)                                                                            \
    {                                                                                          \
        [EXG_CELL_TANH] = name##_tanh_cell, [EXG_CELL_RELU] = name##_relu_cell,                \
        [EXG_CELL_LSTM] = name##_lstm_cell, [EXG_CELL_GRU] = name##_gru_cell,                  \
    }

const exg_recurrent_loops EXG_ISA_NAME(exg_loops_recurrent) = {
    .f32 = TABLE(f32),
    .f64 = TABLE(f64),
};
