/* Random numbers by position: bits against the generator itself; all kinds the same wherever
 * they are drawn. */
#include "tests/exec/kernels/harness.h"
#include "tests/exec/kernels/on_device.h"

#include "libexec/kernels/random.h"

#include <math.h>

#define STREAM 3
#define NUMEL  1001

static const exg_random_source source = {.seed = UINT64_C(0x123456789abcdef), .run = 5};
static exg_argument args[3];

static exg_kernel_call call_of(exg_tensor *out)
{
    args[0] = arg_none();
    args[1] = arg_int(STREAM);
    return (exg_kernel_call){
        .args = args, .arg_count = 2, .outputs = out, .output_count = 1, .random = &source};
}

static void draw_here(const exg_kernel *kernel, exg_tensor *out)
{
    exg_kernel_call call = call_of(out);

    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    assert_int_equal(kernel->prepare(&call, NULL), EXG_OK);
    kernel->run(&call);
    exg_arena_destroy(call.arena);
}

static void bits_are_two_numbers_a_block(void **state)
{
    exg_tensor out = make_tensor(EXG_DTYPE_I64, 1, SIZES(NUMEL));

    (void)state;
    draw_here(&exg_kernel_draw_bits, &out);
    for (int64_t i = 0; i < NUMEL; i++) {
        uint32_t words[4];
        uint64_t number;

        exg_random_block(&source, STREAM, (uint64_t)(i / 2), words);
        number = (uint64_t)words[2 * (i % 2) + 1] << 32 | words[2 * (i % 2)];
        assert_true(((const int64_t *)out.data)[i] == (int64_t)(number >> 1));
    }
    free_tensors();
}

static void expect_the_same_there(const exg_kernel *kernel, exg_kernel_call *call,
                                  const exg_tensor *here)
{
    const exg_tensor *there = &call->outputs[0];
    exg_fault_note fault = {0};

    if (!on_device() || !run_on_device(kernel, call, false, &fault)) {
        return;
    }
    assert_int_equal(fault.fault, EXG_FAULT_NONE);
    for (int64_t i = 0; i < NUMEL; i++) { /* a GPU's logarithm may differ in its last digit */
        double allowed = here->dtype == EXG_DTYPE_F64 ? 1e-13 * fabs(get(here, i)) : 0;

        assert_true(fabs(get(here, i) - get(there, i)) <= allowed);
    }
}

static void a_device_draws_the_hosts_numbers(void **state)
{
    static const exg_kernel *const kernels[] = {&exg_kernel_draw_uniform, &exg_kernel_draw_normal,
                                                &exg_kernel_draw_bits};

    (void)state;
    for (uint32_t k = 0; k < 3 * 5; k++) {
        const exg_kernel *kernel = kernels[k / 5];
        exg_dtype dtype = k % 5 < 4 ? float_dtypes[k % 5] : EXG_DTYPE_I64;
        exg_tensor here = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_tensor there = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_kernel_call call = call_of(&there);

        if ((kernel == &exg_kernel_draw_bits) != (dtype == EXG_DTYPE_I64)) {
            continue;
        }
        draw_here(kernel, &here);
        expect_the_same_there(kernel, &call, &here);
    }
    free_tensors();
}

/* ---- each element its own distribution --------------------------------------------------- */

typedef struct distribution {
    const exg_kernel *kernel;
    double low[2], high[2]; /* of its parameters; the second one is there where high is not 0 */
    bool is_whole;          /* the first one is a whole number */
} distribution;

static const distribution distributions[] = {
    {&exg_kernel_draw_bernoulli, {0}, {1}, false},
    {&exg_kernel_draw_gamma, {0}, {9}, false},
    {&exg_kernel_draw_poisson, {0}, {40}, false}, /* on both sides of 10 */
    {&exg_kernel_draw_binomial, {0}, {200, 1}, true},
};

/* What it gives on average; `variance` too. */
static double mean_of(const distribution *d, double a, double b, double *variance)
{
    bool is_binomial = d->kernel == &exg_kernel_draw_binomial;
    double mean = is_binomial ? a * b : a;

    *variance = is_binomial                               ? a * b * (1 - b)
                : d->kernel == &exg_kernel_draw_bernoulli ? a * (1 - a)
                                                          : a;
    return mean;
}

/* Whether it is the right one, the sessions' tests ask; here that its mean is. */
static void expect_mean(const distribution *d, const exg_tensor *in, const exg_tensor *out)
{
    double difference = 0;
    double spread = 0;

    for (int64_t i = 0; i < NUMEL; i++) {
        double variance;

        difference += get(out, i) - mean_of(d, get(&in[0], i), get(&in[1], i), &variance);
        spread += variance;
    }
    assert_true(difference * difference < 16 * spread);
}

static exg_kernel_call call_of_two(const distribution *d, exg_tensor *in, exg_tensor *out)
{
    bool is_of_two = d->high[1] != 0;

    args[0] = args[1] = arg_tensor();
    args[is_of_two ? 2 : 1] = arg_int(STREAM);
    return (exg_kernel_call){.args = args,
                             .arg_count = is_of_two ? 3 : 2,
                             .inputs = in,
                             .outputs = out,
                             .input_count = is_of_two ? 2 : 1,
                             .output_count = 1,
                             .random = &source};
}

static void run_here(const exg_kernel *kernel, exg_kernel_call call, exg_fault fault)
{
    exg_fault_note note = {0};

    call.fault = &note;
    call.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    assert_int_equal(kernel->prepare(&call, NULL), EXG_OK);
    kernel->run(&call);
    assert_int_equal(note.fault, fault);
    exg_arena_destroy(call.arena);
}

static void a_distribution_each_is_the_same_on_a_device(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 4 * COUNT(distributions); k++) {
        const distribution *d = &distributions[k / 4];
        exg_dtype dtype = float_dtypes[k % 4];
        exg_tensor in[2];
        exg_tensor here = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_tensor there = make_tensor(dtype, 1, SIZES(NUMEL));
        exg_kernel_call call = call_of_two(d, in, &here);

        for (int i = 0; i < 2; i++) {
            in[i] = make_random(dtype, 1, SIZES(NUMEL), d->low[i], d->high[i] + 1e-9);
        }
        for (int64_t i = 0; i < NUMEL && d->is_whole; i++) {
            set(&in[0], i, (double)(i % 200));
        }
        run_here(d->kernel, call, EXG_FAULT_NONE);
        if (exg_dtype_bytes(dtype) > 2) { /* else results are rounded */
            expect_mean(d, in, &here);
        }
        call.outputs = &there;
        expect_the_same_there(d->kernel, &call, &here);
    }
    free_tensors();
}

static void what_a_distribution_does_not_take_is_a_fault(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < COUNT(distributions); k++) {
        const distribution *d = &distributions[k];
        exg_tensor in[2];
        exg_tensor out = make_tensor(EXG_DTYPE_F32, 1, SIZES(NUMEL));
        exg_kernel_call call = call_of_two(d, in, &out);
        exg_fault_note fault = {0};

        in[0] = make_random(EXG_DTYPE_F32, 1, SIZES(NUMEL), 0, 1);
        in[1] = make_random(EXG_DTYPE_F32, 1, SIZES(NUMEL), 0, 1);
        set(&in[0], NUMEL - 1, -1);
        run_here(d->kernel, call, EXG_FAULT_PARAMETER);
        if (on_device() && run_on_device(d->kernel, &call, false, &fault)) {
            assert_int_equal(fault.fault, EXG_FAULT_PARAMETER);
        }
    }
    free_tensors();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_two_numbers_a_block),
        cmocka_unit_test(a_device_draws_the_hosts_numbers),
        cmocka_unit_test(a_distribution_each_is_the_same_on_a_device),
        cmocka_unit_test(what_a_distribution_does_not_take_is_a_fault),
    };

    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
