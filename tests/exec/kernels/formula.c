/* The f32 functions of formulas stay within 2.5 units in the last place of the true value over
 * all floats, logistic ones within 3.5 (mish 4.5), where they may give 0 below 2^-118, gelu within
 * 4 of its argument. The test takes every 2039th and those where exponentials go from one power of
 * two to the next; an argument of 1 takes them all (an hour).
 */
#include "tests/exec/kernels/harness.h"

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/pointwise.h"
#include "libexport/base/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 1024

static uint32_t stride = 2039;

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Distance from `got` to `want` in units of the last place of `near`. */
static double steps(float got, double want, float near)
{
    double step;

    if (isnan(want)) {
        return isnan(got) ? 0 : INFINITY;
    }
    if (isinf(near) || isinf(got)) {
        return got == near || (double)fabsf(got) > 3.40282e38 || fabs(want) > 3.40282e38 ? 0
                                                                                         : INFINITY;
    }
    step = (double)(nextafterf(fabsf(near), INFINITY) - fabsf(near));
    return fabs((double)got - want) / step;
}

/* In those of the f32 nearest `want`. */
static double ulps(float got, double want)
{
    return steps(got, want, (float)want);
}

/* What is next to nothing may be 0. */
#define NOTHING 0x1p-118

typedef struct walk {
    exg_formula_loop *loop;
    double (*truth)(double);
    bool of_argument, may_vanish;
    double worst;
    float worst_at;
} walk;

/* BATCH floats, whose bits are `apart`. */
static void walk_on(walk *w, uint32_t first, uint32_t apart)
{
    float in[BATCH];
    float out[BATCH];
    uint64_t scalars[EXG_POINTWISE_SCALARS] = {0};
    int bad = 0;

    for (uint32_t k = 0; k < BATCH; k++) {
        in[k] = float_of(first + k * apart);
    }
    w->loop(BATCH, out, in, in, in, scalars, NULL, &bad);
    for (uint32_t k = 0; k < BATCH; k++) {
        double want = w->truth((double)in[k]);
        double e = w->of_argument ? steps(out[k], want, in[k]) : ulps(out[k], want);

        if (e > w->worst && !(w->may_vanish && fabs((double)out[k] - want) <= NOTHING)) {
            w->worst = e;
            w->worst_at = in[k];
        }
    }
}

#define LN2 0.69314718055994530942

static double worst_ulps(walk w, const char *name)
{
    for (uint64_t first = 0; first < UINT64_C(1) << 32; first += (uint64_t)stride * BATCH) {
        walk_on(&w, (uint32_t)first, stride);
    }
    for (int k = -600; k < 600; k++) { /* of e^x at halves of ln2, of e^2x at quarters */
        float border = (float)(k * LN2 / 4);
        uint32_t bits;

        memcpy(&bits, &border, sizeof(bits));
        walk_on(&w, bits - BATCH / 2, 1);
    }
    printf("%-9s %5.2f ulp at %a\n", name, w.worst, (double)w.worst_at);
    return w.worst;
}

static const exg_pointwise_loops *const tables[] = {
    &exg_loops_pointwise_generic,
#ifdef EXG_HAVE_X86_64_LOOPS
    &exg_loops_pointwise_v3,
#endif
#ifdef EXG_HAVE_V4_LOOPS
    &exg_loops_pointwise_v4,
#endif
};

static void check(exg_formula formula, double (*truth)(double), bool of_argument, bool may_vanish,
                  double bound, const char *name)
{
    for (uint32_t isa = 0; isa < COUNT(tables); isa++) {
        if ((int)isa <= (int)exg_isa_current()) {
            walk w = {.loop = tables[isa]->of[EXG_COMPUTE_F32][formula],
                      .truth = truth,
                      .of_argument = of_argument,
                      .may_vanish = may_vanish};

            assert_true(worst_ulps(w, name) <= bound);
        }
    }
}

#define CLAIM(name, formula, truth)                                                                \
    static void name##_is_within_2_5_ulp_of_the_true_value(void **state)                           \
    {                                                                                              \
        (void)state;                                                                               \
        check(EXG_FORMULA_##formula, truth, false, false, 2.5, #name);                             \
    }

CLAIM(exp, exp_default, exp)
CLAIM(exp2, exp2_default, exp2)
CLAIM(expm1, expm1_default, expm1)
CLAIM(log, log_default, log)
CLAIM(log2, log2_default, log2)
CLAIM(log10, log10_default, log10)
CLAIM(log1p, log1p_default, log1p)
CLAIM(sin, sin_default, sin)
CLAIM(cos, cos_default, cos)
CLAIM(tan, tan_default, tan)
CLAIM(tanh, tanh_default, tanh)
CLAIM(erf, erf_default, erf)
CLAIM(asin, asin_default, asin)
CLAIM(acos, acos_default, acos)
CLAIM(atan, atan_default, atan)
CLAIM(sinh, sinh_default, sinh)
CLAIM(cosh, cosh_default, cosh)
CLAIM(asinh, asinh_default, asinh)
CLAIM(acosh, acosh_default, acosh)
CLAIM(atanh, atanh_default, atanh)
CLAIM(lgamma, lgamma_default, lgamma)

static double gelu(double x)
{
    return x * 0.5 * erfc(-x * 0.70710678118654752440);
}

static double gelu_tanh(double x)
{
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void gelu_is_within_4_ulp_of_its_argument(void **state)
{
    (void)state;
    check(EXG_FORMULA_gelu_none, gelu, true, false, 4, "gelu");
    check(EXG_FORMULA_gelu_tanh, gelu_tanh, true, false, 4, "gelu_tanh");
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double log_sigmoid(double x)
{
    return fmin(x, 0) - log1p(exp(-fabs(x)));
}

static double mish(double x)
{
    return x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static void logistic_formulas_are_within_4_5_ulp_of_the_true_value(void **state)
{
    (void)state;
    check(EXG_FORMULA_sigmoid_default, sigmoid, false, true, 3.5, "sigmoid");
    check(EXG_FORMULA_silu_default, silu, false, true, 3.5, "silu");
    check(EXG_FORMULA_log_sigmoid_default, log_sigmoid, false, true, 3.5, "log_sigmoid");
    check(EXG_FORMULA_mish_default, mish, false, true, 4.5, "mish");
}

static const exg_formula_loops *const narrow[] = {
    &exg_loops_narrow_generic,
#ifdef EXG_HAVE_X86_64_LOOPS
    &exg_loops_narrow_v3,
#endif
#ifdef EXG_HAVE_V4_LOOPS
    &exg_loops_narrow_v4,
#endif
};

/* bf16's bits in the order of what they mean. */
static int place(uint16_t bits)
{
    return (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits;
}

/* Rounded to bf16, the true value or its neighbour, of every bf16; gelu far below 0 is held to its
 * f32 bound, a logistic factor below 2^-125 is 0. */
static void narrow_formulas_are_within_a_bf16_of_the_true_value(void **state)
{
    static const struct {
        exg_formula formula;
        double (*truth)(double);
    } rows[] = {
        {EXG_FORMULA_exp_default, exp},         {EXG_FORMULA_tanh_default, tanh},
        {EXG_FORMULA_sigmoid_default, sigmoid}, {EXG_FORMULA_silu_default, silu},
        {EXG_FORMULA_gelu_none, gelu},          {EXG_FORMULA_gelu_tanh, gelu_tanh},
    };
    uint64_t scalars[EXG_POINTWISE_SCALARS] = {0};
    int bad = 0;

    (void)state;
    for (uint32_t at = 0; at < COUNT(rows) * COUNT(tables); at++) {
        uint32_t isa = at % COUNT(tables);
        exg_formula formula = rows[at / COUNT(tables)].formula;
        int exact = 0;

        if ((int)isa > (int)exg_isa_current()) {
            continue;
        }
        for (uint32_t first = 0; first < 65536; first += BATCH) {
            float in[BATCH];
            uint16_t stored[BATCH];

            for (uint32_t k = 0; k < BATCH; k++) {
                stored[k] = (uint16_t)(first + k);
                in[k] = exg_bf16_to_f32(stored[k]);
            }
            narrow[isa]->of[formula](BATCH, stored, stored, stored, stored, scalars, NULL, &bad);
            for (uint32_t k = 0; k < BATCH; k++) {
                double want = rows[at / COUNT(tables)].truth((double)in[k]);
                double got = (double)exg_bf16_to_f32(stored[k]);
                int apart = abs(place(stored[k]) - place(exg_f32_to_bf16((float)want)));
                bool is_gelu = formula == EXG_FORMULA_gelu_none || formula == EXG_FORMULA_gelu_tanh;

                exact += apart == 0;
                if (isnan(want) || isnan(got)) {
                    assert_true(isnan(want) && isnan(got));
                } else if (apart > 1 &&
                           fabs(got - want) > (is_gelu ? fabs((double)in[k]) * 0x1p-22 : NOTHING)) {
                    fail_msg("row %u: %a gives %a, not %a", at, (double)in[k], got, want);
                }
            }
        }
        printf("row %u: %d of 65536 exact\n", at, exact);
    }
}

/* Formulas that go from bf16 to bf16 as pointwise.def says give what those of f32 do, rounded. */
static void formulas_of_bf16_are_those_of_f32_rounded(void **state)
{
    static const exg_formula same[] = {
#define EXG_NARROW(id, function)
#define EXG_NARROW_FORMULA(id) EXG_FORMULA_##id,
#include "libexec/kernels/narrow.def"
#undef EXG_NARROW_FORMULA
#undef EXG_NARROW
    };
    static const uint16_t edges[] = {0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x3f80, 0xbf80,
                                     0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7fff};
    static const float numbers[][EXG_POINTWISE_SCALARS] = {
        {1, 1, 1, 1}, {0.5f, 2, 3, 0}, {-1.25f, 0.375f, 0, 2}, {NAN, 1, 1, 1}};
    int bad = 0;

    (void)state;
    srand(11);
    for (uint32_t at = 0; at < COUNT(same) * COUNT(tables) * COUNT(numbers); at++) {
        exg_formula formula = same[at / COUNT(tables) / COUNT(numbers)];
        uint32_t isa = at / COUNT(numbers) % COUNT(tables);
        uint64_t scalars[EXG_POINTWISE_SCALARS];
        float wide[4][BATCH - 1]; /* a, b, c, result */
        uint16_t stored[4][BATCH - 1];

        if ((int)isa > (int)exg_isa_current()) {
            continue;
        }
        memcpy(scalars, numbers[at % COUNT(numbers)], sizeof(numbers[0]));
        for (uint32_t k = 0; k < BATCH - 1; k++) {
            for (uint32_t o = 0; o < 3; o++) {
                uint32_t any = ((uint32_t)rand() & 0x80ff) | ((uint32_t)rand() % 16 + 120) << 7;

                stored[o][k] = k < 900 ? (uint16_t)any : edges[(uint32_t)rand() % COUNT(edges)];
                wide[o][k] = exg_bf16_to_f32(stored[o][k]);
            }
        }
        narrow[isa]->of[formula](BATCH - 1, stored[3], stored[0], stored[1], stored[2], scalars,
                                 NULL, &bad);
        tables[isa]->of[EXG_COMPUTE_F32][formula](BATCH - 1, wide[3], wide[0], wide[1], wide[2],
                                                  scalars, NULL, &bad);
        for (uint32_t k = 0; k < BATCH - 1; k++) {
            double got = (double)exg_bf16_to_f32(stored[3][k]);

            if (isnan(wide[3][k]) ? !isnan(got) : stored[3][k] != exg_f32_to_bf16(wide[3][k])) {
                fail_msg("formula %d of %a, %a, %a gives %a, not %a", (int)formula,
                         (double)wide[0][k], (double)wide[1][k], (double)wide[2][k], got,
                         (double)wide[3][k]);
            }
        }
    }
}

static const exg_formula_loops *const bytes[] = {
    &exg_loops_bytes_generic,
#ifdef EXG_HAVE_X86_64_LOOPS
    &exg_loops_bytes_v3,
#endif
#ifdef EXG_HAVE_V4_LOOPS
    &exg_loops_bytes_v4,
#endif
};

/* What formulas of bytes give of all pairs is what those of int32 do, rounded to uint8; of 0 and 1
 * it is 0 or 1 where bytes.def says so. */
static void formulas_of_bytes_are_those_of_int32_rounded(void **state)
{
    static const struct {
        exg_formula formula;
        bool is_of_truth;
    } rows[] = {
#define EXG_BYTES(id)       {EXG_FORMULA_##id, false},
#define EXG_BYTES_TRUTH(id) {EXG_FORMULA_##id, true},
#include "libexec/kernels/bytes.def"
    };
    static const int32_t numbers[][EXG_POINTWISE_SCALARS] = {
        {1, 1, 1, 1}, {3, 200, 0, 0}, {255, 1, 0, 0}, {0, 1, 0, 0}};
    enum { PAIRS = 65536 };
    int32_t *const wide = malloc(4 * PAIRS * sizeof(int32_t));
    uint8_t *const near = malloc(4 * PAIRS);
    int bad = 0;

    (void)state;
    assert_true(wide != NULL && near != NULL);
    for (uint32_t k = 0; k < PAIRS; k++) {
        const uint8_t operands[] = {(uint8_t)(k >> 8), (uint8_t)k, (uint8_t)(k * 77 >> 3)};

        for (uint32_t o = 0; o < 3; o++) {
            near[o * PAIRS + k] = operands[o];
            wide[o * PAIRS + k] = operands[o];
        }
    }
    for (uint32_t at = 0; at < COUNT(rows) * COUNT(tables) * COUNT(numbers); at++) {
        const uint32_t isa = at / COUNT(numbers) % COUNT(tables);
        const exg_formula formula = rows[at / COUNT(tables) / COUNT(numbers)].formula;
        const bool is_of_truth = rows[at / COUNT(tables) / COUNT(numbers)].is_of_truth;
        uint64_t scalars[EXG_POINTWISE_SCALARS] = {0};

        if ((int)isa > (int)exg_isa_current()) {
            continue;
        }
        memcpy(scalars, numbers[at % COUNT(numbers)], sizeof(numbers[0]));
        bytes[isa]->of[formula](PAIRS - 1, near + 3 * PAIRS, near, near + PAIRS, near + 2 * PAIRS,
                                scalars, NULL, &bad);
        tables[isa]->of[EXG_COMPUTE_I32][formula](PAIRS - 1, wide + 3 * PAIRS, wide, wide + PAIRS,
                                                  wide + 2 * PAIRS, scalars, NULL, &bad);
        for (uint32_t k = 0; k < PAIRS - 1; k++) {
            const int32_t want = wide[3 * PAIRS + k];
            const bool is_bits = wide[k] < 2 && wide[PAIRS + k] < 2 && wide[2 * PAIRS + k] < 2 &&
                                 numbers[at % COUNT(numbers)][0] < 2;

            if (near[3 * PAIRS + k] != (uint8_t)want ||
                (is_of_truth && is_bits && (want < 0 || want > 1))) {
                fail_msg("formula %d of %d, %d, %d gives %d, not %d", (int)formula, wide[k],
                         wide[PAIRS + k], wide[2 * PAIRS + k], near[3 * PAIRS + k], want);
            }
        }
    }
    free(wide);
    free(near);
}

/* So that it does not depend on how a tensor is spread either. */
static void a_result_does_not_depend_on_what_lies_beside_it(void **state)
{
    static const uint32_t far[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0xff7fffff,
                                   0x42b40000, 0xc2b40000, 0x4e000000, 0xce000000, 0x00000001};
    uint64_t scalars[EXG_POINTWISE_SCALARS];
    const float numbers[EXG_POINTWISE_SCALARS] = {0.5f, 2, 3, 0};
    int bad = 0;

    (void)state;
    memcpy(scalars, numbers, sizeof(numbers));
    srand(7);
    for (uint32_t at = 0; at < EXG_FORMULA_COUNT * COUNT(tables); at++) {
        uint32_t formula = at / COUNT(tables);
        uint32_t isa = at % COUNT(tables);
        exg_formula_loop *loop = tables[isa]->of[EXG_COMPUTE_F32][formula];
        float in[2][BATCH];
        uint32_t out[2][BATCH];

        if (loop == NULL || isa > (uint32_t)exg_isa_current()) {
            continue;
        }
        for (uint32_t k = 0; k < BATCH; k++) {
            in[0][k] = (float)(rand() % 40001 - 20000) / 1000;
            in[1][k] = rand() % 9 == 0 ? float_of(far[(uint32_t)rand() % COUNT(far)]) : in[0][k];
        }
        for (uint32_t i = 0; i < 2; i++) {
            loop(BATCH, out[i], in[i], in[i], in[i], scalars, NULL, &bad);
        }
        for (uint32_t k = 0; k < BATCH; k++) {
            if (memcmp(&in[0][k], &in[1][k], sizeof(float)) == 0 && out[0][k] != out[1][k]) {
                fail_msg("formula %u of %a gives %a, and %a beside others", formula,
                         (double)in[0][k], (double)float_of(out[0][k]),
                         (double)float_of(out[1][k]));
            }
        }
    }
}

/* What a bound on the distance does not say. */
static void tanh_and_erf_keep_the_sign_of_zero_and_do_not_pass_one(void **state)
{
    static const exg_formula formulas[] = {EXG_FORMULA_tanh_default, EXG_FORMULA_erf_default};
    uint64_t scalars[EXG_POINTWISE_SCALARS] = {0};
    int bad = 0;

    (void)state;
    for (uint32_t f = 0; f < COUNT(formulas); f++) {
        exg_formula_loop *loop = EXG_LOOPS(exg_loops_pointwise)->of[EXG_COMPUTE_F32][formulas[f]];

        for (uint64_t first = 0; first < UINT64_C(1) << 32; first += (uint64_t)stride * BATCH) {
            float in[BATCH];
            float out[BATCH];

            for (uint32_t k = 0; k < BATCH; k++) {
                in[k] = float_of((uint32_t)(first + (uint64_t)k * stride));
            }
            in[1] = first == 0 ? -0.0f : in[1];
            loop(BATCH, out, in, in, in, scalars, NULL, &bad);
            for (uint32_t k = 0; k < BATCH; k++) {
                assert_true(isnan(in[k]) ||
                            (fabsf(out[k]) <= 1 && !signbit(out[k]) == !signbit(in[k])));
            }
        }
    }
}

/* Of pairs: all combinations of edges, and a grid of bit patterns. */
static void check_pairs(exg_formula formula, double (*truth)(double, double), double bound,
                        const char *name)
{
    static const float edges[] = {0.0f,        -0.0f,    1,         -1,    0.5f,        -0.5f,
                                  2,           -2,       3,         -3,    1.5f,        -2.5f,
                                  1e-38f,      1e-45f,   -1e-45f,   3e38f, -3e38f,      16777216,
                                  16777217e1f, INFINITY, -INFINITY, NAN,   0.99999994f, 1.0000001f};
    exg_formula_loop *loop = EXG_LOOPS(exg_loops_pointwise)->of[EXG_COMPUTE_F32][formula];
    double worst = 0;
    uint64_t scalars[4] = {0};
    int bad = 0;
    float z;

    for (uint32_t i = 0; i < COUNT(edges); i++) {
        for (uint32_t j = 0; j < COUNT(edges); j++) {
            double want = truth((double)edges[i], (double)edges[j]);

            loop(1, &z, &edges[i], &edges[j], &edges[i], scalars, NULL, &bad);
            if (ulps(z, want) > bound || (want == 0 && !signbit(z) != !signbit(want))) {
                fail_msg("%s(%a, %a) = %a", name, (double)edges[i], (double)edges[j], (double)z);
            }
        }
    }
    for (uint64_t a = 0; a < UINT64_C(1) << 32; a += 4194301) {
        for (uint64_t b = 0; b < UINT64_C(1) << 32; b += 8388593) {
            float x = float_of((uint32_t)a);
            float y = float_of((uint32_t)b);
            double e;

            loop(1, &z, &x, &y, &x, scalars, NULL, &bad);
            e = ulps(z, truth((double)x, (double)y));
            if (e > bound) {
                fail_msg("%s(%a, %a) = %a: %g ulp", name, (double)x, (double)y, (double)z, e);
            }
            worst = e > worst ? e : worst;
        }
    }
    printf("%-9s %5.2f ulp\n", name, worst);
}

static void pow_is_within_2_5_ulp_and_has_the_edges_of_c(void **state)
{
    (void)state;
    check_pairs(EXG_FORMULA_pow_Tensor_Tensor, pow, 2.5, "pow");
}

static void atan2_is_within_3_ulp_and_has_the_edges_of_c(void **state)
{
    (void)state;
    check_pairs(EXG_FORMULA_atan2_default, atan2, 3, "atan2");
}

static void fmod_is_exact_and_has_the_edges_of_c(void **state)
{
    (void)state;
    check_pairs(EXG_FORMULA_fmod_Tensor, fmod, 0, "fmod");
}

/* Of numbers of all sizes, and of those where it matters. */
static void f64_functions_are_within_3_ulp_of_the_true_value(void **state)
{
    static const struct {
        exg_formula formula;
        long double (*truth)(long double);
    } rows[] = {{EXG_FORMULA_exp_default, expl},
                {EXG_FORMULA_log_default, logl},
                {EXG_FORMULA_tanh_default, tanhl}};
    static const double edges[] = {0.0,    -0.0,    INFINITY, -INFINITY, NAN,
                                   5e-324, -5e-324, 709.7,    709.9,     -745.0,
                                   -745.2, -708.5,  2.3e-308, 1.7e308,   -1.7e308};
    const uint64_t scalars[EXG_POINTWISE_SCALARS] = {0};
    int bad = 0;

    (void)state;
    srand(3);
    for (uint32_t at = 0; at < 200 * COUNT(rows) * COUNT(tables); at++) {
        const uint32_t isa = at % COUNT(tables);
        const uint32_t row = at / COUNT(tables) % COUNT(rows);
        double in[BATCH];
        double out[BATCH];

        if (isa > (uint32_t)exg_isa_current()) {
            continue;
        }
        for (uint32_t k = 0; k < BATCH; k++) {
            uint64_t any = (uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand();

            memcpy(&in[k], &any, sizeof(any));
            in[k] = k % 2 == 0 ? in[k] : (double)(int64_t)any * 0x1p-53;
            in[k] = k < COUNT(edges) ? edges[k] : in[k];
        }
        tables[isa]->of[EXG_COMPUTE_F64][rows[row].formula](BATCH, out, in, in, in, scalars, NULL,
                                                            &bad);
        for (uint32_t k = 0; k < BATCH; k++) {
            const long double want = rows[row].truth((long double)in[k]);
            const double near = (double)want;
            const double step = nextafter(fabs(near), INFINITY) - fabs(near);

            if (isnan(near) ? !isnan(out[k])
                            : out[k] != near &&
                                  !(fabsl((long double)out[k] - want) <= 3 * (long double)step)) {
                fail_msg("row %u of %a gives %a, not %a", row, in[k], out[k], near);
            }
        }
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(exp2_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(expm1_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(log_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(log2_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(log10_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(log1p_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(sin_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(cos_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(tan_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(tanh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(erf_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(asin_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(acos_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(atan_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(sinh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(cosh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(asinh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(acosh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(atanh_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(lgamma_is_within_2_5_ulp_of_the_true_value),
        cmocka_unit_test(gelu_is_within_4_ulp_of_its_argument),
        cmocka_unit_test(logistic_formulas_are_within_4_5_ulp_of_the_true_value),
        cmocka_unit_test(narrow_formulas_are_within_a_bf16_of_the_true_value),
        cmocka_unit_test(formulas_of_bf16_are_those_of_f32_rounded),
        cmocka_unit_test(formulas_of_bytes_are_those_of_int32_rounded),
        cmocka_unit_test(a_result_does_not_depend_on_what_lies_beside_it),
        cmocka_unit_test(tanh_and_erf_keep_the_sign_of_zero_and_do_not_pass_one),
        cmocka_unit_test(pow_is_within_2_5_ulp_and_has_the_edges_of_c),
        cmocka_unit_test(atan2_is_within_3_ulp_and_has_the_edges_of_c),
        cmocka_unit_test(fmod_is_exact_and_has_the_edges_of_c),
        cmocka_unit_test(f64_functions_are_within_3_ulp_of_the_true_value),
    };

    if (argc > 1) {
        stride = (uint32_t)strtoul(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests_name("formula", tests, NULL, NULL);
}
