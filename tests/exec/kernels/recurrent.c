/* A recurrent layer's steps, against plain loops over units in double. */
#include "libexec/kernels/loops/loops.h"
#include "tests/exec/kernels/harness.h"

#include <math.h>
#include <stdlib.h>

#define BATCH  3
#define HIDDEN 5

typedef struct trial {
    exg_cell cell;
    exg_dtype dtype;
    int64_t steps;
    bool has_bias, backward;
} trial;

static const int64_t gates_of[EXG_CELL_COUNT] = {1, 1, 4, 3};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* What gate `g` of unit `u` gets of the input at step `t`; of the state. */
static double of_input(const kernel_case *c, int64_t gates, int64_t t, int64_t b, int64_t g,
                       int64_t u)
{
    return get(&c->inputs[0], (t * BATCH + b) * gates * HIDDEN + g * HIDDEN + u);
}

static double of_state(const kernel_case *c, const double *h, int64_t g, int64_t u)
{
    double sum = exg_tensor_is_absent(&c->inputs[2]) ? 0 : get(&c->inputs[2], g * HIDDEN + u);

    for (int64_t k = 0; k < HIDDEN; k++) {
        sum += h[k] * get(&c->inputs[1], (g * HIDDEN + u) * HIDDEN + k);
    }
    return sum;
}

static double unit(const kernel_case *c, exg_cell cell, int64_t t, int64_t b, int64_t u,
                   const double *h, double *kept)
{
    double x[4] = {0};
    double s[4] = {0};

    for (int64_t g = 0; g < gates_of[cell]; g++) {
        x[g] = of_input(c, gates_of[cell], t, b, g, u);
        s[g] = of_state(c, h, g, u);
    }
    if (cell == EXG_CELL_LSTM) {
        *kept = sigmoid(x[1] + s[1]) * *kept + sigmoid(x[0] + s[0]) * tanh(x[2] + s[2]);
        return sigmoid(x[3] + s[3]) * tanh(*kept);
    }
    if (cell == EXG_CELL_GRU) {
        double keeps = sigmoid(x[1] + s[1]);

        return (1 - keeps) * tanh(x[2] + sigmoid(x[0] + s[0]) * s[2]) + keeps * h[u];
    }
    return cell == EXG_CELL_TANH ? tanh(x[0] + s[0]) : fmax(x[0] + s[0], 0);
}

typedef struct answer {
    double out[8 * BATCH * HIDDEN], h[BATCH * HIDDEN], c[BATCH * HIDDEN];
} answer;

static void work_out(const kernel_case *c, const trial *of, answer *a)
{
    for (int64_t i = 0; i < BATCH * HIDDEN; i++) {
        a->h[i] = get(&c->inputs[3], i);
        a->c[i] = of->cell == EXG_CELL_LSTM ? get(&c->inputs[4], i) : 0;
    }
    for (int64_t i = 0; i < of->steps; i++) {
        int64_t t = of->backward ? of->steps - 1 - i : i;

        for (int64_t b = 0; b < BATCH; b++) {
            double fresh[HIDDEN];

            for (int64_t u = 0; u < HIDDEN; u++) {
                fresh[u] = unit(c, of->cell, t, b, u, a->h + b * HIDDEN, &a->c[b * HIDDEN + u]);
            }
            for (int64_t u = 0; u < HIDDEN; u++) {
                a->h[b * HIDDEN + u] = a->out[(t * BATCH + b) * HIDDEN + u] = fresh[u];
            }
        }
    }
}

static void check(const trial *of)
{
    const exg_argument args[] = {
        arg_tensor(),
        arg_tensor(),
        of->has_bias ? arg_tensor() : arg_none(),
        arg_tensor(),
        of->cell == EXG_CELL_LSTM ? arg_tensor() : arg_none(),
        arg_int((int)of->cell),
        arg_bool(of->backward),
    };
    int64_t width = gates_of[of->cell] * HIDDEN;
    kernel_case c = {.kernel = &exg_kernel_recurrent,
                     .args = args,
                     .arg_count = COUNT(args),
                     .input_count = 5,
                     .output_count = 3};
    answer a;

    c.inputs[0] = make_random(of->dtype, 3, SIZES(of->steps, BATCH, width), -2, 2);
    c.inputs[1] = make_random(of->dtype, 2, SIZES(width, HIDDEN), -1, 1);
    c.inputs[2] = of->has_bias ? make_random(of->dtype, 1, SIZES(width), -1, 1) : absent_tensor();
    c.inputs[3] = make_random(of->dtype, 2, SIZES(BATCH, HIDDEN), -1, 1);
    c.inputs[4] = of->cell == EXG_CELL_LSTM ? make_random(of->dtype, 2, SIZES(BATCH, HIDDEN), -1, 1)
                                            : absent_tensor();
    c.outputs[0] = make_tensor(of->dtype, 3, SIZES(of->steps, BATCH, HIDDEN));
    c.outputs[1] = make_tensor(of->dtype, 2, SIZES(BATCH, HIDDEN));
    c.outputs[2] = make_tensor(of->dtype, 2, SIZES(BATCH, HIDDEN)); /* of an LSTM alone */
    work_out(&c, of, &a);
    expect_kernel(&c, 0, a.out, tolerance_of(of->dtype, 64));
    expect_values(&c, 1, a.h, tolerance_of(of->dtype, 64));
    if (of->cell == EXG_CELL_LSTM) {
        expect_values(&c, 2, a.c, tolerance_of(of->dtype, 64));
    }
    free_tensors();
}

static void every_cell_goes_its_steps(void **state)
{
    (void)state;
    for (int cell = 0; cell < EXG_CELL_COUNT; cell++) {
        for (int way = 0; way < 8; way++) {
            const trial of = {.cell = (exg_cell)cell,
                              .dtype = way % 2 == 0 ? EXG_DTYPE_F32 : EXG_DTYPE_F64,
                              .steps = way < 4 ? 6 : 1,
                              .has_bias = way / 2 % 2 == 0,
                              .backward = way % 4 == 1 || way % 4 == 2};

            check(&of);
        }
    }
}

static void no_step_leaves_the_state(void **state)
{
    const trial of = {.cell = EXG_CELL_LSTM, .dtype = EXG_DTYPE_F32};

    (void)state;
    check(&of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_goes_its_steps),
        cmocka_unit_test(no_step_leaves_the_state),
    };

    return cmocka_run_group_tests_name("recurrent", tests, NULL, NULL);
}
