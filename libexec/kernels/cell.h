/* cell.h - the cells of recurrent layers: what unit `i` of `n` becomes in one step, on the host
 * and on devices.
 *
 * x, s, bias (NULL: none): what input and state give its gates, which lie n apart; h: its state
 * before. `c`: the cells of an LSTM, which are replaced.
 */
#ifndef EXG_LIBEXEC_KERNELS_CELL_H
#define EXG_LIBEXEC_KERNELS_CELL_H

#include "libexec/kernels/math_f32.h"

#include <math.h>
#include <stdint.h>

#define EXG_CELL_PARAMS(real)                                                                      \
    const real *x, const real *s, const real *bias, int64_t n, int64_t i, real h, real *c

/* What a gate gets of the state, and in all. */
#define EXG_OF_STATE(k) (s[(k)*n + i] + (bias == 0 ? 0 : bias[(k)*n + i]))
#define EXG_GATE(k)     (x[(k)*n + i] + EXG_OF_STATE(k))

#define EXG_DEFINE_CELLS(suffix, real, one_plus_exp, tanh_)                                        \
    static inline real exg_sigmoid_##suffix(real x)                                                \
    {                                                                                              \
        return 1 / one_plus_exp(-x);                                                               \
    }                                                                                              \
    static inline real exg_cell_tanh_##suffix(EXG_CELL_PARAMS(real))                               \
    {                                                                                              \
        (void)h, (void)c;                                                                          \
        return tanh_(EXG_GATE(0));                                                                 \
    }                                                                                              \
    static inline real exg_cell_relu_##suffix(EXG_CELL_PARAMS(real))                               \
    {                                                                                              \
        const real sum = EXG_GATE(0);                                                              \
                                                                                                   \
        (void)h, (void)c;                                                                          \
        return sum > 0 || sum != sum ? sum : 0;                                                    \
    }                                                                                              \
    static inline real exg_cell_lstm_##suffix(EXG_CELL_PARAMS(real))                               \
    {                                                                                              \
        const real kept = exg_sigmoid_##suffix(EXG_GATE(1)) * c[i];                                \
        const real cell = kept + exg_sigmoid_##suffix(EXG_GATE(0)) * tanh_(EXG_GATE(2));           \
                                                                                                   \
        (void)h;                                                                                   \
        c[i] = cell;                                                                               \
        return exg_sigmoid_##suffix(EXG_GATE(3)) * tanh_(cell);                                    \
    }                                                                                              \
    static inline real exg_cell_gru_##suffix(EXG_CELL_PARAMS(real))                                \
    {                                                                                              \
        const real reset = exg_sigmoid_##suffix(EXG_GATE(0));                                      \
        const real fresh = tanh_(x[2 * n + i] + reset * EXG_OF_STATE(2));                          \
                                                                                                   \
        (void)c;                                                                                   \
        return fresh + exg_sigmoid_##suffix(EXG_GATE(1)) * (h - fresh);                            \
    }

static inline double exg_f64_one_plus_exp(double x)
{
    return 1 + exp(x);
}

EXG_DEFINE_CELLS(f32, float, exg_f32_one_plus_exp, exg_f32_tanh)
EXG_DEFINE_CELLS(f64, double, exg_f64_one_plus_exp, tanh)

#endif
