/* What follows a product or a convolution, on stand-ins: which of it the library does in the same
 * call, what is left to a kernel after it, that kernels of ours do all in one; and the numbers.
 *
 * Operands are whole quarters, few enough that every sum is exact in all dtypes.
 */
#include "libexport/base/element.h"
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define M 3
#define K 4
#define N 5

/* of the convolution: (1, IN, SIDE, SIDE) by (OUT, IN, TAPS, TAPS), padded by one */
#define IN   2
#define OUT  3
#define SIDE 4
#define TAPS 3

#define NUMBERS_MAX 64

typedef enum product_kind { LINEAR, MATRICES, CONVOLUTION } product_kind;
typedef enum then { NOTHING, RELU, GELU, SIGMOID, SQUARE } then;

typedef struct trial {
    product_kind product;
    bool has_bias; /* of its own */
    bool adds_row;
    int adds; /* so many times what is as large as the result */
    then then;
    bool adds_last; /* only now */
    exg_dtype dtype;
    const char *calls; /* of libraries, and kernels after them */
} trial;

#define BLAS           "cublasLtMatmul 5,3,4"
#define DNN            "cudnnConvolutionBiasActivationForward 1 of 1 groups"
#define GEMM           "cuLaunchKernel gemm 1,1,1 256 s1\n"
#define GEMM_OF_HALVES "cuLaunchKernel gemm_tiles 1,1,1 256 s1\n"
#define COPY           "cuLaunchKernel copy 1,1,1 256 s1\n"
#define LAST           "cuLaunchKernel pointwise 1,1,1 256 s1\n"

static const trial trials[] = {
    {LINEAR, true, false, 0, NOTHING, false, EXG_DTYPE_F32, BLAS " bias\n"},
    {LINEAR, true, false, 0, RELU, false, EXG_DTYPE_F32, BLAS " bias relu\n"},
    {LINEAR, false, false, 0, RELU, false, EXG_DTYPE_BF16, BLAS " relu\n"},
    /* it has no bias of f64 */
    {LINEAR, true, false, 0, RELU, false, EXG_DTYPE_F64, COPY BLAS " beta\n" LAST},
    {LINEAR, true, false, 1, NOTHING, false, EXG_DTYPE_BF16, BLAS " bias beta\n"},
    {LINEAR, true, false, 1, RELU, false, EXG_DTYPE_F16, BLAS " bias beta relu\n"},
    {LINEAR, true, false, 2, NOTHING, false, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {LINEAR, true, false, 0, RELU, true, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {LINEAR, true, false, 0, GELU, false, EXG_DTYPE_BF16, BLAS " bias gelu\n"},
    {LINEAR, true, false, 0, GELU, false, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {LINEAR, true, false, 0, SIGMOID, false, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {LINEAR, true, true, 0, NOTHING, false, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {LINEAR, true, false, 1, SQUARE, false, EXG_DTYPE_F32, BLAS " bias beta\n" LAST},
    {LINEAR, true, false, 0, SQUARE, false, EXG_DTYPE_F32, BLAS " bias\n" LAST},
    {MATRICES, false, true, 0, NOTHING, false, EXG_DTYPE_F32, BLAS " bias\n"},
    {MATRICES, false, true, 0, RELU, false, EXG_DTYPE_BF16, BLAS " bias relu\n"},
    {MATRICES, false, true, 1, NOTHING, false, EXG_DTYPE_F32, BLAS "\n" LAST},
    {CONVOLUTION, true, false, 0, NOTHING, false, EXG_DTYPE_BF16, DNN "\n"},
    {CONVOLUTION, true, false, 0, RELU, false, EXG_DTYPE_F32,
     "cudnnConvolutionBiasActivationForward 6 of 1 groups relu\n"},
    {CONVOLUTION, true, false, 1, RELU, false, EXG_DTYPE_F16,
     "cudnnConvolutionBiasActivationForward 6 of 1 groups relu z\n"},
    {CONVOLUTION, true, false, 1, NOTHING, false, EXG_DTYPE_F64, DNN " z\n"},
    {CONVOLUTION, false, false, 0, RELU, false, EXG_DTYPE_F32,
     "cudnnConvolutionForward 6 of 1 groups\n" LAST},
    {CONVOLUTION, true, false, 0, SIGMOID, false, EXG_DTYPE_F32, DNN "\n" LAST},
};

/* ---- operands ---------------------------------------------------------------------------- */

enum { X, WEIGHT, BIAS, ROW, ADDED, OPERANDS };

static double numbers[OPERANDS][NUMBERS_MAX];

static void make_numbers(void)
{
    uint32_t seed = 7;

    for (int o = 0; o < OPERANDS; o++) {
        for (int i = 0; i < NUMBERS_MAX; i++) {
            seed = seed * 1664525u + 1013904223u;
            numbers[o][i] = ((int)(seed >> 24) % 7 - 3) / 4.0;
        }
    }
}

static void put(exg_dtype dtype, void *data, int64_t i, double x)
{
    switch ((int)dtype) {
    case EXG_DTYPE_F64:
        ((double *)data)[i] = x;
        break;
    case EXG_DTYPE_F32:
        ((float *)data)[i] = (float)x;
        break;
    case EXG_DTYPE_F16:
        ((uint16_t *)data)[i] = exg_f32_to_f16((float)x);
        break;
    default:
        ((uint16_t *)data)[i] = exg_f32_to_bf16((float)x);
    }
}

typedef struct bench {
    const trial *of;
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_session_input inputs[OPERANDS];
    char names[OPERANDS][4];
    uint32_t input_count;
} bench;

static exg_ref input(bench *s, int operand, const int64_t *sizes, uint32_t rank)
{
    uint32_t at = s->input_count++;
    exg_tensor_meta meta = exg_builder_meta(s->b, s->of->dtype, sizes, rank);
    exg_tensor *t = &s->inputs[at].tensor;

    (void)snprintf(s->names[at], sizeof(s->names[at]), "x%d", operand);
    s->inputs[at].name = s->names[at];
    *t = (exg_tensor){.dtype = s->of->dtype, .rank = rank};
    memcpy(t->sizes, sizes, rank * sizeof(*sizes));
    exg_tensor_set_contiguous(t);
    t->data = malloc(NUMBERS_MAX * sizeof(double));
    assert_non_null(t->data);
    for (int i = 0; i < NUMBERS_MAX; i++) {
        put(t->dtype, t->data, i, numbers[operand][i]);
    }
    return exg_builder_input(s->b, s->names[at], &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

#define INPUT(s, operand, ...)                                                                     \
    input(s, operand, (const int64_t[]){__VA_ARGS__},                                              \
          (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* ---- the program --------------------------------------------------------------------------- */

static exg_argument bias_of(bench *s, int64_t count)
{
    return s->of->has_bias ? exg_arg_ref(INPUT(s, BIAS, count)) : exg_arg_none();
}

static exg_ref product_of(bench *s)
{
    exg_builder *b = s->b;
    exg_ref x;
    exg_ref w;

    switch (s->of->product) {
    case LINEAR:
        x = INPUT(s, X, M, K);
        w = INPUT(s, WEIGHT, N, K);
        return EMIT(b, linear_default, x, w, bias_of(s, N));
    case MATRICES:
        x = INPUT(s, X, M, K);
        w = INPUT(s, WEIGHT, K, N);
        return EMIT(b, mm_default, x, w);
    default:
        x = INPUT(s, X, 1, IN, SIDE, SIDE);
        w = INPUT(s, WEIGHT, OUT, IN, TAPS, TAPS);
        return EMIT(b, convolution_default, x, w, bias_of(s, OUT), INTS(b, 1, 1), INTS(b, 1, 1),
                    INTS(b, 1, 1), false, INTS(b, 0, 0), 1);
    }
}

static exg_ref added_of(bench *s)
{
    return s->of->product == CONVOLUTION ? INPUT(s, ADDED, 1, OUT, SIDE, SIDE)
                                         : INPUT(s, ADDED, M, N);
}

static void build(bench *s)
{
    exg_builder *b = s->b;
    exg_ref y = product_of(s);
    exg_argument out;

    y = s->of->adds_row ? EMIT(b, add_Tensor, y, INPUT(s, ROW, N)) : y;
    y = s->of->adds == 1   ? EMIT(b, add_Tensor, added_of(s), y)
        : s->of->adds == 2 ? EMIT(b, add_Tensor, y, added_of(s), 2)
                           : y;
    y = s->of->then == RELU      ? EMIT(b, relu_default, y)
        : s->of->then == SIGMOID ? EMIT(b, sigmoid_default, y)
        : s->of->then == SQUARE  ? EMIT(b, mul_Tensor, EMIT(b, neg_default, y), y)
        : s->of->then == GELU    ? EMIT(b, gelu_default, y, exg_arg_string("tanh"))
                                 : y;
    y = s->of->adds_last ? EMIT(b, add_Tensor, y, added_of(s)) : y;
    out = exg_arg_ref(y);
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
}

/* ---- by plain loops ---------------------------------------------------------------------- */

static double product_at(const trial *of, int i)
{
    double sum = 0;
    int y = i / SIDE % SIDE;
    int x = i % SIDE;
    int o = i / (SIDE * SIDE);

    if (of->product != CONVOLUTION) {
        for (int k = 0; k < K; k++) {
            sum += numbers[X][i / N * K + k] *
                   numbers[WEIGHT][of->product == LINEAR ? i % N * K + k : k * N + i % N];
        }
        return of->has_bias ? sum + numbers[BIAS][i % N] : sum;
    }
    for (int k = 0; k < IN * TAPS * TAPS; k++) {
        int from_y = y + k / TAPS % TAPS - 1;
        int from_x = x + k % TAPS - 1;

        if (from_y >= 0 && from_y < SIDE && from_x >= 0 && from_x < SIDE) {
            sum += numbers[X][(k / (TAPS * TAPS) * SIDE + from_y) * SIDE + from_x] *
                   numbers[WEIGHT][o * IN * TAPS * TAPS + k];
        }
    }
    return of->has_bias ? sum + numbers[BIAS][o] : sum;
}

static double expected(const trial *of, int i)
{
    double x = product_at(of, i);

    x += of->adds_row ? numbers[ROW][i % N] : 0;
    x += of->adds * numbers[ADDED][i];
    x = of->then == RELU      ? fmax(x, 0)
        : of->then == SIGMOID ? 1 / (1 + exp(-x))
        : of->then == SQUARE  ? -x * x
        : of->then == GELU
            ? 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979) * (x + 0.044715 * x * x * x)))
            : x;
    return of->adds_last ? x + numbers[ADDED][i] : x;
}

static void compare(const trial *of, size_t number, const exg_tensor *got)
{
    double part = of->then != GELU && of->then != SIGMOID ? 0
                  : of->dtype == EXG_DTYPE_BF16           ? 1.0 / 128
                                                          : 1e-6;

    for (int i = 0; i < exg_tensor_numel(got); i++) {
        double x = exg_element_value(got->dtype, (const uint8_t *)got->data +
                                                     (size_t)i * exg_dtype_bytes(got->dtype));

        if (!(fabs(x - expected(of, i)) <= part * fabs(expected(of, i)) + part / 8)) {
            fail_msg("trial %zu, element %d: %g, not %g", number, i, x, expected(of, i));
        }
    }
}

/* ---- the tests --------------------------------------------------------------------------- */

/* Of libraries that compute, and of kernels. */
static const char *const kinds[] = {"cublasLtMatmul ", "cudnnConvolution", "cudnnAdd",
                                    "cudnnActivation", "cuLaunchKernel",   NULL};

/* With a compiler for a device that is not there. */
static bool is_compiled_only(void)
{
    return getenv("EXG_KERNEL_PREPARE_ONLY") != NULL;
}

static char *run(size_t number, const trial *of)
{
    exg_session_options options = {.size = sizeof(options), .device = "cuda"};
    bench s = {.of = of};
    exg_session *session;
    exg_verified verified;
    exg_error err;
    exg_status status;
    char *calls;

    exg_error_clear(&err);
    expect_ok(exg_operators_create(&s.operators, &err), &err);
    expect_ok(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &s.program, &err), &err);
    expect_ok(exg_builder_create(s.operators, s.program, &s.b, &err), &err);
    build(&s);
    expect_ok(exg_builder_finish(s.b, &err), &err);
    expect_ok(exg_verify(s.program, s.operators, &verified, NULL, &err), &err);
    keep_calls();
    expect_ok(exg_session_create(&verified, &options, &session, &err), &err);
    status = exg_session_run(session, s.inputs, s.input_count, &err);
    if (is_compiled_only()) {
        assert_string_equal(err.code, "DEV-008"); /* no text is refused */
    } else {
        expect_ok(status, &err);
        compare(of, number, &exg_session_output_at(session, 0)->tensor);
    }
    calls = calls_among(kinds);
    drop_calls();
    exg_session_destroy(session);
    exg_program_destroy(s.program);
    exg_operators_destroy(s.operators);
    for (uint32_t i = 0; i < s.input_count; i++) {
        free(s.inputs[i].tensor.data);
    }
    return calls;
}

static bool has_libraries(void)
{
    exg_device_info info = {.name = ""};
    exg_error err;

    expect_ok(cuda_table()->describe(0, &info, &err), &err);
    return strstr(info.libraries, "no ") == NULL;
}

static void a_library_or_one_kernel_of_ours_does_what_follows(void **state)
{
    bool by_libraries = has_libraries();
    bool notes_calls = is_standin();

    (void)state;
    make_numbers();
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        const trial *of = &trials[i];
        char *calls = run(i, of);
        const char *own = of->product == CONVOLUTION ? "cuLaunchKernel convolution 1,1,1 256 s1\n"
                          : of->adds == 1 && of->then == SQUARE
                              ? GEMM LAST /* the sum is read twice */
                          : exg_dtype_bytes(of->dtype) == 2 ? GEMM_OF_HALVES
                                                            : GEMM;

        if (notes_calls && !is_compiled_only() &&
            strcmp(calls, by_libraries ? of->calls : own) != 0) {
            fail_msg("trial %zu: %s", i, calls);
        }
        free(calls);
    }
}

/* What the library does not support in one call comes part by part, the sum in the result. */
static void a_convolution_that_cannot_be_one_call_is_several(void **state)
{
    (void)state;
    if (!has_libraries() || !is_standin()) {
        skip();
    }
    make_numbers();
    assert_int_equal(setenv("EXG_STANDIN_DNN_PARTS", "1", 1), 0);
    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        const trial *of = &trials[i];
        char want[256];
        char *calls;

        if (of->product != CONVOLUTION || !of->has_bias || of->then == SIGMOID) {
            continue;
        }
        (void)snprintf(want, sizeof(want),
                       "%scudnnAddTensor\n%scudnnConvolutionForward %d of 1 groups beta\n%s",
                       of->calls, of->adds ? "cudnnAddTensor beta\n" : "", of->then == RELU ? 6 : 1,
                       of->then == RELU ? "cudnnActivationForward\n" : "");
        calls = run(i, of);
        if (strcmp(calls, want) != 0) {
            fail_msg("trial %zu: %s", i, calls);
        }
        free(calls);
    }
    assert_int_equal(unsetenv("EXG_STANDIN_DNN_PARTS"), 0);
}

/* What no algorithm has is left to a kernel, and no more: the product stays the library's. */
static void an_epilogue_that_no_algorithm_has_leaves_the_product_where_it_is(void **state)
{
    static const struct {
        const char *refused;
        trial of;
    } refusals[] = {
        {"2", {LINEAR, true, false, 0, RELU, false, EXG_DTYPE_F32, BLAS " bias\n" LAST}},
        {"32", {LINEAR, true, false, 0, GELU, false, EXG_DTYPE_BF16, BLAS " bias\n" LAST}},
        {"4", {LINEAR, true, false, 0, NOTHING, false, EXG_DTYPE_BF16, COPY BLAS " beta\n"}},
        {"4", {LINEAR, true, false, 0, RELU, false, EXG_DTYPE_F16, COPY BLAS " beta\n" LAST}},
        {"4", {LINEAR, true, false, 1, RELU, false, EXG_DTYPE_F32, COPY BLAS " beta\n" LAST}},
        {"38", {LINEAR, true, false, 0, RELU, true, EXG_DTYPE_F32, COPY BLAS " beta\n" LAST}},
        {"4", {MATRICES, false, true, 0, RELU, false, EXG_DTYPE_BF16, BLAS "\n" LAST}},
    };

    (void)state;
    if (!has_libraries() || !is_standin()) {
        skip();
    }
    make_numbers();
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char *calls;

        assert_int_equal(setenv("EXG_STANDIN_BLAS_NO", refusals[i].refused, 1), 0);
        calls = run(i, &refusals[i].of);
        if (strcmp(calls, refusals[i].of.calls) != 0) {
            fail_msg("refusal %zu: %s", i, calls);
        }
        free(calls);
    }
    assert_int_equal(unsetenv("EXG_STANDIN_BLAS_NO"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_or_one_kernel_of_ours_does_what_follows),
        cmocka_unit_test(an_epilogue_that_no_algorithm_has_leaves_the_product_where_it_is),
        cmocka_unit_test(a_convolution_that_cannot_be_one_call_is_several),
    };

    return cmocka_run_group_tests_name("epilogues", tests, NULL, NULL);
}
