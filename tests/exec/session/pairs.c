/* Steps that are one launch of a device: those that have nothing to do with each other, and whose
 * memory is apart while both run. Expected values are plain loops'.
 */
#include "libexec/plan/plan_internal.h"
#include "tests/exec/cuda/calls.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define F32 EXG_DTYPE_F32
#define N   8

static float given[N * N], other[N * N];

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_session *session;
    exg_error err;
} made;

typedef exg_ref build(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows);

static void open_session(made *m, build *of)
{
    const exg_session_options options = {.size = sizeof(options),
                                         .device = getenv("EXG_TEST_DEVICE")};
    exg_builder *b;
    exg_tensor_meta meta;
    exg_ref x, y, rows;
    exg_argument out;
    exg_verified verified;

    memset(m, 0, sizeof(*m));
    expect_ok(exg_operators_create(&m->operators, &m->err), &m->err);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, F32, (int64_t[]){N, N}, 2);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    y = exg_builder_input(b, "y", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_I64, (int64_t[]){1}, 1);
    rows = exg_builder_input(b, "rows", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    out = exg_arg_ref(of(b, x, y, rows));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    expect_ok(exg_builder_finish(b, &m->err), &m->err);
    expect_ok(exg_verify(m->program, m->operators, &verified, NULL, &m->err), &m->err);
    expect_ok(exg_session_create(&verified, &options, &m->session, &m->err), &m->err);
}

static void close_session(made *m)
{
    exg_session_destroy(m->session);
    exg_program_destroy(m->program);
    exg_operators_destroy(m->operators);
}

static exg_session_input input_of(const char *name, void *data, exg_dtype dtype, uint32_t rank)
{
    exg_session_input input = {.name = name};

    input.tensor =
        (exg_tensor){.data = data, .dtype = dtype, .rank = rank, .sizes = {rank == 1 ? 1 : N, N}};
    exg_tensor_set_contiguous(&input.tensor);
    return input;
}

static const float *run(made *m, int64_t row)
{
    exg_session_input inputs[] = {input_of("x", given, F32, 2), input_of("y", other, F32, 2),
                                  input_of("rows", &row, EXG_DTYPE_I64, 1)};

    for (int i = 0; i < N * N; i++) {
        given[i] = (float)(i % 7 - 3);
        other[i] = (float)(i % 5 - 2);
    }
    for (int n = 0; n < 3; n++) { /* step by step, recorded, replayed */
        expect_ok(exg_session_run(m->session, inputs, 3, &m->err), &m->err);
    }
    return exg_session_output_at(m->session, 0)->tensor.data;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool share_memory(const exg_plan *plan, const exg_location *a, const exg_location *b)
{
    const exg_buffer *first = a->buffer == EXG_NO_BUFFER ? NULL : &plan->buffers[a->buffer];
    const exg_buffer *second = b->buffer == EXG_NO_BUFFER ? NULL : &plan->buffers[b->buffer];

    if (first == NULL || second == NULL || first->kind != second->kind) {
        return false;
    }
    return first->kind != EXG_BUFFER_ARENA ? first == second
                                           : first->offset < second->offset + second->bytes &&
                                                 second->offset < first->offset + first->bytes;
}

/* Does `a` write what `b` reads or writes? */
static bool disturbs(const exg_plan *plan, const exg_step *a, const exg_step *b)
{
    bool found = false;

    for (uint32_t o = 0; o < a->call.output_count; o++) {
        for (uint32_t i = 0; i < exg_step_operands(b); i++) {
            found = found || share_memory(plan, &a->outputs[o], &b->inputs[i]);
        }
        for (uint32_t i = 0; i < b->call.output_count; i++) {
            found = found || share_memory(plan, &a->outputs[o], &b->outputs[i]);
        }
    }
    return found;
}

/* How many steps are pairs; none of which disturb each other. */
static uint32_t pairs_of(const exg_session *session)
{
    const exg_plan *plan = exg_session_plan(session);
    uint32_t count = 0;

    for (uint32_t s = 0; s < plan->step_count; s++) {
        if (plan->steps[s].is_paired) {
            const exg_step *a = &plan->steps[s];

            count++;
            assert_true(s + 1 < plan->step_count);
            assert_false(plan->steps[s + 1].is_paired);
            assert_false(disturbs(plan, a, a + 1) || disturbs(plan, a + 1, a));
        }
    }
    return count;
}

/* ---- what pairs ------------------------------------------------------------------------------ */

/* Two products, upside down; they are not read after. */
static exg_ref build_flipped(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows)
{
    exg_ref first = EMIT(b, mm_default, x, y);
    exg_ref second = EMIT(b, mm_default, y, x);

    (void)rows;
    first = EMIT(b, flip_default, first, INTS(b, 0));
    second = EMIT(b, flip_default, second, INTS(b, 0));
    return EMIT(b, mm_default, first, second);
}

static void multiply(const float *x, const float *y, float *z)
{
    for (int i = 0; i < N * N; i++) {
        z[i] = 0;
        for (int k = 0; k < N; k++) {
            z[i] += x[i / N * N + k] * y[k * N + i % N];
        }
    }
}

static void flip(const float *x, float *z)
{
    for (int i = 0; i < N * N; i++) {
        z[i] = x[(N - 1 - i / N) * N + i % N];
    }
}

static void steps_that_are_apart_are_one_launch(void **state)
{
    float product[N * N], first[N * N], second[N * N], want[N * N];
    const char *device = getenv("EXG_TEST_DEVICE");
    const float *got;
    made m;

    (void)state;
    open_session(&m, build_flipped);
    got = run(&m, 0);
    multiply(given, other, product);
    flip(product, first);
    multiply(other, given, product);
    flip(product, second);
    multiply(first, second, want);
    assert_memory_equal(got, want, sizeof(want)); /* whole numbers */
    assert_int_equal(pairs_of(m.session), device != NULL && strcmp(device, "cuda") == 0);
    close_session(&m);
}

/* Two rows into one value, at one place: the second is there. */
static exg_ref build_rows(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows)
{
    exg_ref cache = EMIT(b, mm_default, x, y);
    exg_ref first = EMIT(b, slice_Tensor, x, 0, 0, 1, 1);
    exg_ref second = EMIT(b, slice_Tensor, y, 0, 0, 1, 1);

    cache = EMIT(b, index_copy_default, cache, 0, rows, first);
    return EMIT(b, index_copy_default, cache, 0, rows, second);
}

static void steps_that_write_one_value_are_not(void **state)
{
    float want[N * N];
    const float *got;
    made m;

    (void)state;
    open_session(&m, build_rows);
    got = run(&m, 3);
    multiply(given, other, want);
    memcpy(want + 3 * N, other, N * sizeof(float));
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(pairs_of(m.session), 0);
    close_session(&m);
}

/* The second reads what the first makes. */
static exg_ref build_chain(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows)
{
    (void)rows;
    x = EMIT(b, flip_default, EMIT(b, flip_default, x, INTS(b, 0)), INTS(b, 1));
    return EMIT(b, mm_default, x, y);
}

static void a_step_that_reads_anothers_result_is_not(void **state)
{
    float flipped[N * N], want[N * N];
    const float *got;
    made m;

    (void)state;
    open_session(&m, build_chain);
    got = run(&m, 0);
    for (int i = 0; i < N * N; i++) {
        flipped[i] = given[N * N - 1 - i];
    }
    multiply(flipped, other, want);
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(pairs_of(m.session), 0);
    close_session(&m);
}

/* ---- results that are joined ----------------------------------------------------------------- */

static int64_t joined_dim;
static bool reads_part; /* somebody else reads a part */

/* (-x, x * y), x turned, side by side */
static exg_ref build_joined(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows)
{
    exg_ref parts[2], whole;

    (void)rows;
    x = EMIT(b, permute_default, x, INTS(b, 1, 0));
    parts[0] = EMIT(b, neg_default, x);
    parts[1] = EMIT(b, mul_Tensor, x, y);
    whole = EMIT(b, cat_default, exg_arg_refs(b, parts, 2), joined_dim);
    whole = EMIT(b, flip_default, whole, INTS(b, 0, 1));
    if (reads_part) {
        whole = EMIT(b, cat_default, exg_arg_refs(b, (exg_ref[]){whole, parts[0]}, 2), joined_dim);
    }
    return whole;
}

static float joined_at(int64_t i, int64_t j)
{
    const int64_t rows = joined_dim == 0 ? 2 * N : N;
    const int64_t columns = joined_dim == 0 ? N : 2 * N;
    bool is_second;

    if (i >= rows || j >= columns) { /* what is read once more */
        return -given[(j % N) * N + i % N];
    }
    i = rows - 1 - i;
    j = columns - 1 - j;
    is_second = i >= N || j >= N;
    i %= N;
    j %= N;
    return given[j * N + i] * (is_second ? other[i * N + j] : -1);
}

static uint32_t steps_of(const exg_session *session, const char *kernel)
{
    const exg_plan *plan = exg_session_plan(session);
    uint32_t count = 0;

    for (uint32_t s = 0; s < plan->step_count; s++) {
        count += strcmp(plan->steps[s].kernel->name, kernel) == 0;
    }
    return count;
}

static void results_are_written_where_they_are_joined(void **state)
{
    const char *device = getenv("EXG_TEST_DEVICE");
    const bool joins = device != NULL && strcmp(device, "cuda") == 0;

    (void)state;
    for (int trial = 0; trial < 6; trial++) {
        const float *got;
        int64_t columns;
        made m;

        joined_dim = trial % 3 - 1; /* -1, 0, 1 */
        reads_part = trial >= 3;
        open_session(&m, build_joined);
        got = run(&m, 0);
        joined_dim = joined_dim == 0 ? 0 : 1;
        columns = joined_dim == 0 ? N : (reads_part ? 3 : 2) * N;
        for (int64_t i = 0; i < (reads_part ? 3 : 2) * N * N; i++) {
            assert_float_equal(got[i], joined_at(i / columns, i % columns), 0);
        }
        assert_int_equal(steps_of(m.session, "cat"), joins ? (reads_part ? 2 : 0) : 1 + reads_part);
        close_session(&m);
    }
}

static bool swaps;

/* The halves of a product, as they are or the other way round. */
static exg_ref build_halves(exg_builder *b, exg_ref x, exg_ref y, exg_ref rows)
{
    exg_ref product = EMIT(b, mm_default, x, y);
    exg_ref halves[2];

    (void)rows;
    halves[swaps] = EMIT(b, slice_Tensor, product, 0, 0, N / 2, 1);
    halves[!swaps] = EMIT(b, slice_Tensor, product, 0, N / 2, N, 1);
    return EMIT(b, mm_default, EMIT(b, cat_default, exg_arg_refs(b, halves, 2), 0), y);
}

static void parts_that_are_side_by_side_are_the_whole(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2; trial++) {
        float product[N * N], halves[N * N], want[N * N];
        const float *got;
        made m;

        swaps = trial == 1;
        open_session(&m, build_halves);
        got = run(&m, 0);
        multiply(given, other, product);
        for (int i = 0; i < N * N; i++) {
            halves[i] = product[swaps ? (i + N * N / 2) % (N * N) : i];
        }
        multiply(halves, other, want);
        assert_memory_equal(got, want, sizeof(want)); /* whole numbers */
        assert_int_equal(steps_of(m.session, "cat"), swaps);
        close_session(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_are_apart_are_one_launch),
        cmocka_unit_test(steps_that_write_one_value_are_not),
        cmocka_unit_test(a_step_that_reads_anothers_result_is_not),
        cmocka_unit_test(results_are_written_where_they_are_joined),
        cmocka_unit_test(parts_that_are_side_by_side_are_the_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
