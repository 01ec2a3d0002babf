/* recurrent.c - the cells of recurrent layers (cell.h) over a row of units, for f32 and f64. */
#include "libexec/kernels/cell.h"
#include "libexec/kernels/loops/loops.h"

#define ROW(cell, suffix, real)                                                                    \
    static void cell##_row_##suffix(int64_t n, const void *x, const void *s, const void *bias,     \
                                    void *h_, void *c)                                             \
    {                                                                                              \
        real *h = h_;                                                                              \
                                                                                                   \
        EXG_INDEPENDENT                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                          \
            h[i] = exg_cell_##cell##_##suffix(x, s, bias, n, i, h[i], c);                          \
        }                                                                                          \
    }

#define ROWS(suffix, real)                                                                         \
    ROW(tanh, suffix, real)                                                                        \
    ROW(relu, suffix, real)                                                                        \
    ROW(lstm, suffix, real)                                                                        \
    ROW(gru, suffix, real)

ROWS(f32, float)
ROWS(f64, double)

#define TABLE(suffix)                                                                              \
    {                                                                                              \
        [EXG_CELL_TANH] = tanh_row_##suffix, [EXG_CELL_RELU] = relu_row_##suffix,                  \
        [EXG_CELL_LSTM] = lstm_row_##suffix, [EXG_CELL_GRU] = gru_row_##suffix,                    \
    }

const exg_recurrent_loops EXG_ISA_NAME(exg_loops_recurrent) = {
    .f32 = TABLE(f32),
    .f64 = TABLE(f64),
};
