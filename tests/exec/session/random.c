/* random.c - random operators: their distributions (Kolmogorov-Smirnov and chi-square
 * against formulas written here), and that bits follow from the seed and the run alone. */
#include "libexec/kernels/random.h"
#include "libexport/base/arena.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define N 40000

typedef struct setup {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_session *session;
} setup;

static void begin(setup *s)
{
    assert_int_equal(exg_operators_create(&s->operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &s->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(s->operators, s->program, &s->b, NULL), EXG_OK);
    s->session = NULL;
}

static void output(setup *s, exg_argument arg)
{
    exg_builder_output(s->b, &arg, EXG_OUTPUT_USER, NULL);
}

static void finish(setup *s)
{
    exg_error err;

    if (exg_builder_finish(s->b, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

static void open_with(setup *s, uint64_t seed, uint32_t threads, uint32_t mesh)
{
    exg_verified verified;
    exg_session_options options = {.size = sizeof(options),
                                   .seed = seed,
                                   .thread_count = threads,
                                   .device = getenv("EXG_TEST_DEVICE"),
                                   .mesh = {mesh > 0, {mesh}}};
    exg_error err;

    exg_session_destroy(s->session);
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    if (exg_verify(s->program, s->operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, &options, &s->session, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

static const void *run(setup *s, uint32_t index)
{
    exg_error err;

    if (exg_session_run(s->session, NULL, 0, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    return exg_session_output_at(s->session, index)->tensor.data;
}

static void end(setup *s)
{
    exg_session_destroy(s->session);
    exg_program_destroy(s->program);
    exg_operators_destroy(s->operators);
}

/* N numbers of a distribution, as double, in x; the builder's expression names `b` and
 * `self`, a tensor of N zeros. */
#define DRAW(x, expression)                                                                        \
    do {                                                                                           \
        setup s;                                                                                   \
        exg_ref self;                                                                              \
        exg_builder *b;                                                                            \
                                                                                                   \
        begin(&s);                                                                                 \
        b = s.b;                                                                                   \
        self = EMIT(b, zeros_default, INTS(b, N), DTYPE(EXG_DTYPE_F32));                           \
        (void)self;                                                                                \
        output(&s, exg_arg_ref(EMIT(b, _to_copy_default, (expression), DTYPE(EXG_DTYPE_F64))));    \
        finish(&s);                                                                                \
        open_with(&s, 7, 2, 0);                                                                    \
        memcpy((x), run(&s, 0), N * sizeof(double));                                               \
        end(&s);                                                                                   \
    } while (0)

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The greatest distance of the sample's distribution from `cdf`, times the root of N:
 * above 1.95 once in a thousand samples. Steps of the dtype widen it by `grain`. */
static double distance(double *x, double (*cdf)(double), double grain)
{
    double most = 0;

    qsort(x, N, sizeof(*x), compare);
    for (int i = 0; i < N; i++) {
        double p = cdf(x[i]);

        most = fmax(most, fmax(p - (double)i / N, (double)(i + 1) / N - p) - grain);
    }
    return most * sqrt(N);
}

static double uniform_cdf(double x)
{
    return fmin(fmax(x, 0), 1);
}

static double stretched_cdf(double x)
{
    return uniform_cdf((x - 2) / 3);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double shifted_cdf(double x)
{
    return normal_cdf((x - 5) / 2);
}

static double log_normal_cdf(double x)
{
    return x <= 0 ? 0 : normal_cdf((log(x) - 0.5) / 0.25);
}

static double exponential_cdf(double x)
{
    return x <= 0 ? 0 : 1 - exp(-1.5 * x);
}

static double cauchy_cdf(double x)
{
    return 0.5 + atan((x - 1) / 2) / 3.14159265358979323846;
}

static void continuous_distributions_are_theirs(void **state)
{
    double *x = malloc(N * sizeof(*x));

    (void)state;
    assert_non_null(x);
    DRAW(x, EMIT(b, rand_default, INTS(b, N), DTYPE(EXG_DTYPE_F32)));
    assert_true(distance(x, uniform_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, rand_default, INTS(b, N), DTYPE(EXG_DTYPE_F64)));
    assert_true(distance(x, uniform_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, rand_default, INTS(b, N), DTYPE(EXG_DTYPE_BF16)));
    assert_true(distance(x, uniform_cdf, 0x1p-8) < 1.95);
    assert_true(x[N - 1] < 1);
    DRAW(x, EMIT(b, randn_default, INTS(b, N), DTYPE(EXG_DTYPE_F32)));
    assert_true(distance(x, normal_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, randn_default, INTS(b, N), DTYPE(EXG_DTYPE_F64)));
    assert_true(distance(x, normal_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, uniform_default, self, 2., 5.));
    assert_true(distance(x, stretched_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, normal_functional_default, self, 5., 2.));
    assert_true(distance(x, shifted_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, log_normal_default, self, 0.5, 0.25));
    assert_true(distance(x, log_normal_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, exponential_default, self, 1.5));
    assert_true(distance(x, exponential_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, cauchy_default, self, 1., 2.));
    assert_true(distance(x, cauchy_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, randn_default, INTS(b, N), DTYPE(EXG_DTYPE_F32)));
    assert_true(distance(x, uniform_cdf, 0) > 1.95); /* the test can fail */
    free(x);
}

/* Chi-square of counts of 0 ... n-1 against chances, less its degrees of freedom, in
 * deviations: above 4 hardly ever. Numbers outside fail. */
static double excess(const double *x, const double *chance, int n)
{
    double counts[16] = {0};
    double sum = 0;

    for (int i = 0; i < N; i++) {
        if (!(x[i] >= 0 && x[i] < n && x[i] == floor(x[i]))) {
            fail_msg("%g is not among %d", x[i], n);
        }
        counts[(int)x[i]]++;
    }
    for (int k = 0; k < n; k++) {
        double expected = chance[k] * N;

        sum += (counts[k] - expected) * (counts[k] - expected) / expected;
    }
    return (sum - (n - 1)) / sqrt(2. * (n - 1));
}

static exg_ref weights(exg_builder *b)
{
    return EMIT(b, arange_start_step, 1, 5, 1, DTYPE(EXG_DTYPE_F32));
}

static void counts_are_as_chances(void **state)
{
    static const double sevenths[] = {1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7., 1 / 7.};
    static const double coin[] = {0.7, 0.3};
    static const double tenths[] = {0.1, 0.2, 0.3, 0.4};
    static const double trials[] = {0.4, 0.24, 0.144, 0.0864, 0.1296};
    double *x = malloc(N * sizeof(*x));

    (void)state;
    assert_non_null(x);
    DRAW(x, EMIT(b, sub_Scalar, EMIT(b, randint_low, -3, 4, INTS(b, N)), -3));
    assert_true(excess(x, sevenths, 7) < 4);
    assert_true(excess(x, (const double[]){0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1}, 7) > 4);
    DRAW(x, EMIT(b, random_to, self, 7));
    assert_true(excess(x, sevenths, 7) < 4);
    DRAW(x, EMIT(b, bernoulli_p, self, 0.3));
    assert_true(excess(x, coin, 2) < 4);
    DRAW(x, EMIT(b, bernoulli_default, EMIT(b, add_Scalar, self, 0.3)));
    assert_true(excess(x, coin, 2) < 4);
    DRAW(x, EMIT(b, sub_Scalar,
                 EMIT(b, clamp_max_default, EMIT(b, geometric_default, self, 0.4), 5), 1));
    assert_true(excess(x, trials, 5) < 4);
    DRAW(x, EMIT(b, multinomial_default, weights(b), N, true));
    assert_true(excess(x, tenths, 4) < 4);
    DRAW(x, EMIT(b, reshape_default,
                 EMIT(b, multinomial_default, EMIT(b, expand_default, weights(b), INTS(b, N, 4)), 1,
                      false),
                 INTS(b, N)));
    assert_true(excess(x, tenths, 4) < 4);
    free(x);
}

/* The integral of t^(a - 1) e^-t up to x, over gamma(a): a series of positive terms. */
static double gamma_cdf(double a, double x)
{
    double term = x <= 0 ? 0 : exp(a * log(x) - x - lgamma(a + 1));
    double sum = 0;

    for (int k = 1; k < 500 && term > 0; k++) {
        sum += term;
        term *= x / (a + k);
    }
    return fmin(sum, 1);
}

static double gamma_half_cdf(double x)
{
    return gamma_cdf(0.5, x);
}

static double gamma_wide_cdf(double x)
{
    return gamma_cdf(7.5, x);
}

static double beta_cdf(double x) /* of (2, 1) */
{
    return x <= 0 ? 0 : fmin(x * x, 1);
}

static double poisson_few(int k)
{
    return exp(k * log(2.5) - 2.5 - lgamma(k + 1));
}

static double poisson_many(int k)
{
    return exp(k * log(25) - 25 - lgamma(k + 1));
}

static double out_of(int n, double p, int k)
{
    return k > n ? 0
                 : exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) +
                       (n - k) * log1p(-p));
}

static double binomial_few(int k)
{
    return out_of(30, 0.2, k);
}

static double binomial_many(int k)
{
    return out_of(100, 0.6, k);
}

/* excess() of whole numbers by their chances; those below `from` count as `from`, those from
 * there + 14 on as one. */
static double excess_from(double *x, double (*chance)(int), int from)
{
    double chances[15] = {0};
    double rest = 1;

    for (int k = 0; k < from + 14; k++) {
        chances[k < from ? 0 : k - from] += chance(k);
        rest -= chance(k);
    }
    chances[14] = rest;
    for (int i = 0; i < N; i++) {
        x[i] = fmin(fmax(x[i] - from, 0), 14);
    }
    return excess(x, chances, 15);
}

static void what_is_drawn_by_rejection_is_theirs(void **state)
{
    double *x = malloc(N * sizeof(*x));

    (void)state;
    assert_non_null(x);
    DRAW(x, EMIT(b, _standard_gamma_default, EMIT(b, add_Scalar, self, 0.5)));
    assert_true(distance(x, gamma_half_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, _standard_gamma_default, EMIT(b, add_Scalar, self, 7.5)));
    assert_true(distance(x, gamma_wide_cdf, 0) < 1.95);
    assert_true(distance(x, gamma_half_cdf, 0) > 1.95);
    DRAW(x,
         EMIT(b, select_int,
              EMIT(b, _sample_dirichlet_default,
                   EMIT(b, expand_default,
                        EMIT(b, arange_start_step, 2, 0, -1, DTYPE(EXG_DTYPE_F32)), INTS(b, N, 2))),
              1, 0));
    assert_true(distance(x, beta_cdf, 0) < 1.95);
    DRAW(x, EMIT(b, poisson_default, EMIT(b, add_Scalar, self, 2.5)));
    assert_true(excess_from(x, poisson_few, 0) < 4);
    DRAW(x, EMIT(b, poisson_default, EMIT(b, add_Scalar, self, 25.)));
    assert_true(excess_from(x, poisson_many, 18) < 4);
    DRAW(x, EMIT(b, poisson_default, EMIT(b, add_Scalar, self, 24.)));
    assert_true(excess_from(x, poisson_many, 18) > 4);
    DRAW(x,
         EMIT(b, binomial_default, EMIT(b, add_Scalar, self, 30.), EMIT(b, add_Scalar, self, 0.2)));
    assert_true(excess_from(x, binomial_few, 0) < 4);
    DRAW(x, EMIT(b, binomial_default, EMIT(b, add_Scalar, self, 100.),
                 EMIT(b, add_Scalar, self, 0.6)));
    assert_true(excess_from(x, binomial_many, 53) < 4);
    free(x);
}

static void a_permutation_has_everything_once(void **state)
{
    double *x = malloc(N * sizeof(*x));
    int moved = 0;

    (void)state;
    assert_non_null(x);
    DRAW(x, EMIT(b, randperm_default, N));
    for (int i = 0; i < N; i++) {
        moved += x[i] != i;
    }
    assert_true(moved > N - 20);
    qsort(x, N, sizeof(*x), compare);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == i);
    }
    free(x);
}

/* What one element of the data makes no distribution: told by code; the session stays. */
static void parameters_that_make_no_distribution_are_told(void **state)
{
    static const struct {
        exg_operator_id op;
        double good, bad;
    } rows[] = {
        {EXG_OP_bernoulli_default, 1, 1.5},      {EXG_OP_bernoulli_default, 0, -0.5},
        {EXG_OP_bernoulli_default, 0, NAN},      {EXG_OP_poisson_default, 3, -1},
        {EXG_OP__standard_gamma_default, 2, -2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_status want[] = {EXG_OK, EXG_MALFORMED};

        for (int bad = 0; bad < 2; bad++) {
            setup s;
            exg_argument x;
            exg_error err;

            begin(&s);
            x = exg_arg_ref(
                EMIT(s.b, add_Scalar,
                     EMIT(s.b, full_default, INTS(s.b, 5), rows[i].good, DTYPE(EXG_DTYPE_F32)),
                     bad == 0 ? 0. : rows[i].bad - rows[i].good));
            output(&s, exg_arg_ref(exg_emit(s.b, rows[i].op, &x, 1)));
            finish(&s);
            open_with(&s, 1, 2, 0);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(exg_session_run(s.session, NULL, 0, &err), want[bad]);
            }
            assert_true(bad == 0 || strcmp(err.code, "RUN-001") == 0);
            end(&s);
        }
    }
}

/* Two draws, and a matrix product that a mesh splits, of a draw. */
static void begin_pair(setup *s)
{
    exg_ref x;

    begin(s);
    x = EMIT(s->b, randn_default, INTS(s->b, 63, 40));
    output(s, exg_arg_ref(x));
    output(s, exg_arg_ref(EMIT(s->b, randn_default, INTS(s->b, 63, 40))));
    output(s, exg_arg_ref(EMIT(s->b, relu_default, x)));
    output(s, exg_arg_ref(EMIT(s->b, poisson_default, EMIT(s->b, exp_default, x))));
    finish(s);
}

#define PAIR_BYTES (63 * 40 * sizeof(float))

static void bits_follow_from_seed_and_run(void **state)
{
    setup s;
    void *first = malloc(PAIR_BYTES);
    void *second = malloc(PAIR_BYTES);
    void *counts = malloc(PAIR_BYTES);

    (void)state;
    assert_true(first != NULL && second != NULL && counts != NULL);
    begin_pair(&s);
    open_with(&s, 1, 1, 0);
    memcpy(first, run(&s, 0), PAIR_BYTES);
    memcpy(counts, exg_session_output_at(s.session, 3)->tensor.data, PAIR_BYTES);
    memcpy(second, exg_session_output_at(s.session, 1)->tensor.data, PAIR_BYTES);
    assert_memory_not_equal(first, second, PAIR_BYTES); /* two draws are not one */
    memcpy(second, run(&s, 0), PAIR_BYTES);
    assert_memory_not_equal(first, second, PAIR_BYTES); /* nor two runs */
    for (uint32_t threads = 1; threads <= 3; threads++) {
        open_with(&s, 1, threads, 0);
        assert_memory_equal(first, run(&s, 0), PAIR_BYTES);
        assert_memory_equal(counts, exg_session_output_at(s.session, 3)->tensor.data, PAIR_BYTES);
        assert_memory_equal(second, run(&s, 0), PAIR_BYTES);
    }
    for (uint32_t mesh = 2; mesh <= 4; mesh++) {
        open_with(&s, 1, 1, mesh);
        assert_memory_equal(first, run(&s, 0), PAIR_BYTES);
        assert_memory_equal(counts, exg_session_output_at(s.session, 3)->tensor.data, PAIR_BYTES);
        assert_memory_equal(second, run(&s, 0), PAIR_BYTES);
    }
    open_with(&s, 2, 1, 0);
    assert_memory_not_equal(first, run(&s, 0), PAIR_BYTES);
    end(&s);
    free(first);
    free(second);
    free(counts);
}

static void a_dropout_and_its_mask_agree(void **state)
{
    setup s;
    exg_argument both[2];
    const float *y;
    const uint8_t *mask;
    int kept = 0;

    (void)state;
    begin(&s);
    (void)EMIT_ALL(s.b, native_dropout_default, both, EMIT(s.b, ones_default, INTS(s.b, N)), 0.25,
                   true);
    output(&s, both[0]);
    output(&s, both[1]);
    finish(&s);
    open_with(&s, 0, 1, 0);
    y = run(&s, 0);
    mask = exg_session_output_at(s.session, 1)->tensor.data;
    for (int i = 0; i < N; i++) {
        kept += mask[i];
        assert_true(y[i] == (mask[i] ? 1 / 0.75f : 0));
    }
    assert_true(abs(kept - 3 * N / 4) < 350); /* four deviations */
    end(&s);
}

/* Each of N numbers is 0 or `kept`, 0 with chance 1/4. */
static void expect_a_quarter_dropped(const double *x, double kept)
{
    int dropped = 0;

    for (int i = 0; i < N; i++) {
        dropped += x[i] == 0;
        assert_true(x[i] == 0 || fabs(x[i] - kept) < 1e-6 * kept);
    }
    assert_true(abs(dropped - N / 4) < 350);
}

static exg_ref ones(exg_builder *b, int64_t n0, int64_t n1, int64_t n2)
{
    return EMIT(b, ones_default, INTS(b, n0, n1, n2), DTYPE(EXG_DTYPE_F32));
}

/* Two layers that hand on what they get. */
static exg_ref handed_on(exg_builder *b)
{
    exg_ref one = EMIT(b, ones_default, INTS(b, 1, 1), DTYPE(EXG_DTYPE_F32));
    exg_ref zero = EMIT(b, zeros_default, INTS(b, 1, 1), DTYPE(EXG_DTYPE_F32));
    exg_ref params[] = {one, zero, one, zero};
    exg_ref state = EMIT(b, zeros_default, INTS(b, 2, N, 1), DTYPE(EXG_DTYPE_F32));
    const exg_argument args[] = {exg_arg_ref(ones(b, 1, N, 1)),
                                 exg_arg_ref(state),
                                 exg_arg_refs(b, params, 4),
                                 exg_arg_bool(false),
                                 exg_arg_int(2),
                                 exg_arg_float(0.25),
                                 exg_arg_bool(true),
                                 exg_arg_bool(false),
                                 exg_arg_bool(false)};

    return exg_emit(b, EXG_OP_rnn_relu_input, args, 9);
}

static void attention_and_recurrent_layers_drop(void **state)
{
    double *x = malloc(N * sizeof(*x));

    (void)state;
    assert_non_null(x);
    /* values 1 where key and column are the same: the result is the weights */
    DRAW(x, EMIT(b, scaled_dot_product_attention_default, ones(b, 1, N / 40, 8), ones(b, 1, 40, 8),
                 EMIT(b, unsqueeze_default, EMIT(b, eye_default, 40), 0), exg_arg_none(), 0.25));
    expect_a_quarter_dropped(x, 1 / 30.);
    DRAW(x, handed_on(b));
    expect_a_quarter_dropped(x, 1 / 0.75);
    free(x);
}

/* The paper's own test vectors for ten rounds. */
static void philox_is_philox(void **state)
{
    static const uint32_t counters[3][4] = {{0, 0, 0, 0},
                                            {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                                            {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t keys[3][2] = {{0, 0}, {0xffffffff, 0xffffffff}, {0xa4093822, 0x299f31d0}};
    static const uint32_t answers[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                           {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                           {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];

        exg_philox(counters[i], keys[i], out);
        assert_memory_equal(out, answers[i], sizeof(out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_is_philox),
        cmocka_unit_test(continuous_distributions_are_theirs),
        cmocka_unit_test(counts_are_as_chances),
        cmocka_unit_test(what_is_drawn_by_rejection_is_theirs),
        cmocka_unit_test(a_permutation_has_everything_once),
        cmocka_unit_test(parameters_that_make_no_distribution_are_told),
        cmocka_unit_test(bits_follow_from_seed_and_run),
        cmocka_unit_test(a_dropout_and_its_mask_agree),
        cmocka_unit_test(attention_and_recurrent_layers_drop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
