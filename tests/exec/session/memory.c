/* memory.c - random programs of views and writes: what a session computes, with memory
 * reused and without, is bit for bit what plain strided windows on arrays give. A plan with
 * two living values in one place is found out.
 */
#include "libexec/executor/plan_executor.h"
#include "libexport/transform/graph_segment.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PROGRAMS 300
#define VALUES   48
#define ELEMENTS 256

/* ---- the reference: eager, on windows ------------------------------------------------------ */

typedef struct window {
    float *data; /* of its storage */
    uint32_t rank;
    int64_t sizes[8], strides[8], offset;
} window;

static int64_t count_of(const window *w)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < w->rank; d++) {
        count *= w->sizes[d];
    }
    return count;
}

/* Element i in row-major order. */
static float *at(const window *w, int64_t i)
{
    int64_t place = w->offset;

    for (uint32_t d = w->rank; d-- > 0;) {
        place += i % w->sizes[d] * w->strides[d];
        i /= w->sizes[d];
    }
    return w->data + place;
}

static window fresh(const window *like)
{
    window w = *like;
    int64_t stride = 1;

    w.data = calloc(ELEMENTS, sizeof(float));
    assert_non_null(w.data);
    w.offset = 0;
    for (uint32_t d = w.rank; d-- > 0;) {
        w.strides[d] = stride;
        stride *= w.sizes[d];
    }
    return w;
}

/* ---- programs --------------------- */

typedef enum step_kind {
    ADD,
    HALVE,
    RELU,
    CLONE, /* new tensors */
    SLICE,
    SELECT,
    TURN,
    UNSQUEEZE,
    DIAGONAL, /* views */
    ADD_TO,
    HALVE_IN_PLACE,
    COPY_TO,
    FILL, /* writes */
    STEP_KINDS
} step_kind;

typedef struct step {
    step_kind kind;
    uint32_t a, b; /* values; the result is the next one */
    int64_t dim, start, end, step;
} step;

typedef struct sketch {
    step steps[VALUES];
    uint32_t count;
    uint32_t shown; /* the last values are outputs */
} sketch;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static bool same_sizes(const window *a, const window *b)
{
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) == 0;
}

/* What a view gives; false: not of this value. */
static bool view_of(step *s, const window *in, window *out)
{
    *out = *in;
    switch (s->kind) {
    case SLICE:
        out->offset += s->start * in->strides[s->dim];
        out->sizes[s->dim] = (s->end - s->start + s->step - 1) / s->step;
        out->strides[s->dim] *= s->step;
        return true;
    case SELECT:
        out->offset += s->start * in->strides[s->dim];
        for (uint32_t d = (uint32_t)s->dim; d + 1 < in->rank; d++) {
            out->sizes[d] = in->sizes[d + 1];
            out->strides[d] = in->strides[d + 1];
        }
        out->rank--;
        return true;
    case TURN:
        for (uint32_t d = 0; d < in->rank; d++) {
            out->sizes[d] = in->sizes[in->rank - 1 - d];
            out->strides[d] = in->strides[in->rank - 1 - d];
        }
        return true;
    case UNSQUEEZE:
        for (uint32_t d = in->rank; d > 0; d--) {
            out->sizes[d] = in->sizes[d - 1];
            out->strides[d] = in->strides[d - 1];
        }
        out->sizes[0] = 1;
        out->rank++;
        return in->rank < 4;
    case DIAGONAL:
        out->sizes[0] = in->sizes[0] < in->sizes[1] ? in->sizes[0] : in->sizes[1];
        out->strides[0] = in->strides[0] + in->strides[1];
        out->rank = 1;
        return in->rank == 2;
    default:
        return false;
    }
}

static void write_step(const step *s, const window *a, const window *b)
{
    float values[ELEMENTS];

    for (int64_t i = 0; i < count_of(a); i++) { /* all are read before any is written */
        values[i] = s->kind == ADD_TO           ? *at(a, i) + *at(b, i)
                    : s->kind == HALVE_IN_PLACE ? *at(a, i) * 0.5f
                    : s->kind == COPY_TO        ? *at(b, i)
                                                : (float)s->start;
    }
    for (int64_t i = 0; i < count_of(a); i++) {
        *at(a, i) = values[i];
    }
}

static window compute(step *s, const window *values)
{
    const window *a = &values[s->a];
    const window *b = &values[s->b];
    window out;

    if (s->kind >= ADD_TO) {
        write_step(s, a, b);
        return *a;
    }
    if (s->kind >= SLICE) {
        assert_true(view_of(s, a, &out));
        return out;
    }
    out = fresh(a);
    for (int64_t i = 0; i < count_of(a); i++) {
        float x = *at(a, i);

        *at(&out, i) = s->kind == ADD     ? x + *at(b, i)
                       : s->kind == HALVE ? x * 0.5f
                       : s->kind == RELU  ? (x > 0 ? x : 0)
                                          : x;
    }
    return out;
}

/* A step that suits the values there are; false: try again. */
static bool draw_step(uint32_t *state, const window *values, uint32_t count, step *s)
{
    const window *a;
    window out;

    *s = (step){.kind = (step_kind)(next_random(state) % STEP_KINDS),
                .a = next_random(state) % count,
                .b = next_random(state) % count};
    a = &values[s->a];
    if ((s->kind == ADD || s->kind == ADD_TO || s->kind == COPY_TO) &&
        !same_sizes(a, &values[s->b])) {
        return false;
    }
    s->start = (int64_t)(next_random(state) % 5);
    if (s->kind == SLICE || s->kind == SELECT) {
        if (a->rank == 0) {
            return false;
        }
        s->dim = (int64_t)(next_random(state) % a->rank);
        s->start = (int64_t)(next_random(state) % (uint32_t)a->sizes[s->dim]);
        s->end =
            s->start + 1 + (int64_t)(next_random(state) % (uint32_t)(a->sizes[s->dim] - s->start));
        s->step = 1 + (int64_t)(next_random(state) % 2);
    }
    return s->kind < SLICE || s->kind >= ADD_TO || view_of(s, a, &out);
}

/* x (4, 6) of the user's, kept (4, 6) of the program's. */
static void start_values(window *values, const float *x, const float *kept)
{
    for (uint32_t i = 0; i < 2; i++) {
        const window shape = {.rank = 2, .sizes = {4, 6}};

        values[i] = fresh(&shape);
        memcpy(values[i].data, i == 0 ? x : kept, 24 * sizeof(float));
    }
}

static void release_values(window *values, const sketch *k)
{
    for (uint32_t i = 0; i < k->count + 2; i++) {
        if (i < 2 || k->steps[i - 2].kind < SLICE) {
            free(values[i].data);
        }
    }
}

static void draw(uint32_t seed, sketch *k)
{
    static const float zeros[24] = {0};
    window values[VALUES + 2];

    k->count = 8 + seed % (VALUES - 8);
    k->shown = 1 + seed % 5;
    start_values(values, zeros, zeros);
    for (uint32_t i = 0; i < k->count; i++) {
        while (!draw_step(&seed, values, i + 2, &k->steps[i])) {
        }
        values[i + 2] = compute(&k->steps[i], values);
    }
    release_values(values, k);
}

static exg_ref emit_step(exg_builder *b, const step *s, const exg_ref *refs, uint32_t rank)
{
    exg_ref a = refs[s->a];
    int64_t turned[8];

    for (uint32_t d = 0; d < rank; d++) {
        turned[d] = rank - 1 - d;
    }
    switch (s->kind) {
    case ADD:
        return EMIT(b, add_Tensor, a, refs[s->b]);
    case HALVE:
        return EMIT(b, mul_Scalar, a, 0.5);
    case RELU:
        return EMIT(b, relu_default, a);
    case CLONE:
        return EMIT(b, clone_default, a);
    case SLICE:
        return EMIT(b, slice_Tensor, a, exg_arg_int(s->dim), exg_arg_int(s->start),
                    exg_arg_int(s->end), exg_arg_int(s->step));
    case SELECT:
        return EMIT(b, select_int, a, exg_arg_int(s->dim), exg_arg_int(s->start));
    case TURN:
        return EMIT(b, permute_default, a, INTS_OF(b, turned, rank));
    case UNSQUEEZE:
        return EMIT(b, unsqueeze_default, a, 0);
    case DIAGONAL:
        return EMIT(b, diagonal_default, a);
    case ADD_TO:
        return EMIT(b, add__Tensor, a, refs[s->b]);
    case HALVE_IN_PLACE:
        return EMIT(b, mul__Scalar, a, 0.5);
    case COPY_TO:
        return EMIT(b, copy__default, a, refs[s->b]);
    default:
        return EMIT(b, fill__Scalar, a, exg_arg_int(s->start));
    }
}

static exg_program *build(const sketch *k, const exg_operators *operators, const float *kept)
{
    static const char *dialect[] = {"TRAINING"}; /* writes in place */
    exg_ref refs[VALUES + 2];
    exg_program *program;
    exg_builder *b;
    exg_tensor_meta meta;
    exg_error err;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, &err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, &err), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (const int64_t[]){4, 6}, 2);
    refs[1] = exg_builder_weight(b, "kept", &meta, EXG_INPUT_BUFFER, kept);
    refs[0] = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    for (uint32_t i = 0; i < k->count; i++) {
        const exg_tensor_meta *of = exg_ref_meta(b, refs[k->steps[i].a]);

        refs[i + 2] = emit_step(b, &k->steps[i], refs, of == NULL ? 0 : of->rank);
    }
    for (uint32_t o = 0; o < k->shown; o++) {
        exg_argument output = exg_arg_ref(refs[k->count + 1 - o]);

        exg_builder_output(b, &output, EXG_OUTPUT_USER, NULL);
    }
    exg_builder_call(b);
    program->verifiers = dialect;
    program->verifier_count = 1;
    if (exg_builder_finish(b, &err) != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    return program;
}

/* ---- running both --------------------------------------------------------------------------- */

static void compare(const window *want, const float *got, uint32_t seed, const char *what)
{
    for (int64_t i = 0; i < count_of(want); i++) {
        if (memcmp(at(want, i), &got[i], sizeof(float)) != 0) {
            fail_msg("program %u, %s: element %lld is %g, not %g", seed, what, (long long)i,
                     (double)got[i], (double)*at(want, i));
        }
    }
}

static void check_program(uint32_t seed, const exg_operators *operators, bool no_reuse,
                          bool no_fusion)
{
    static const char *const what[] = {"memory reused", "memory of its own"};
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .device = getenv("EXG_TEST_DEVICE")};
    float start[24];
    float kept[24];
    float x[24];
    window values[VALUES + 2];
    exg_program *program;
    exg_verified verified;
    exg_session *session;
    exg_error err;
    sketch k;

    options.plan = &(exg_plan_options){sizeof(exg_plan_options), no_fusion, no_reuse};
    for (int i = 0; i < 24; i++) {
        start[i] = (float)((i * 7 + (int)seed) % 23) - 11;
        kept[i] = (float)((i * 5 + (int)seed) % 19) - 9;
    }
    draw(seed, &k);
    program = build(&k, operators, kept);
    if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, &options, &session, &err) != EXG_OK) {
        fail_msg("program %u: %s %s", seed, err.code, err.message);
    }
    for (int run = 0; run < 3; run++) {
        exg_session_input input = {.name = "x",
                                   .tensor = {.data = x, .dtype = EXG_DTYPE_F32, .rank = 2}};

        input.tensor.sizes[0] = 4;
        input.tensor.sizes[1] = 6;
        exg_tensor_set_contiguous(&input.tensor);
        memcpy(x, start, sizeof(x));
        start_values(values, start, kept);
        for (uint32_t i = 0; i < k.count; i++) {
            values[i + 2] = compute(&k.steps[i], values);
        }
        if (exg_session_run(session, &input, 1, &err) != EXG_OK) {
            fail_msg("program %u: %s %s %s", seed, err.code, err.message, err.where);
        }
        for (uint32_t o = 0; o < k.shown; o++) {
            compare(&values[k.count + 1 - o], exg_session_output_at(session, o)->tensor.data, seed,
                    what[no_reuse]);
        }
        compare(&values[0], x, seed, "the input afterwards");
        memcpy(kept, values[1].data, sizeof(kept)); /* goes on from run to run */
        if (run < 2) {
            release_values(values, &k);
        }
    }
    for (uint32_t s = 0; s < exg_session_state_count(session); s++) {
        exg_tensor tensor;

        (void)exg_session_state_at(session, s, &tensor);
        compare(&values[1], tensor.data, seed, "the buffer afterwards");
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
    release_values(values, &k);
}

static void random_programs_are_what_windows_on_arrays_give(void **state)
{
    exg_operators *operators;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    for (uint32_t seed = 0; seed < PROGRAMS; seed++) {
        check_program(seed, operators, false, false);
        check_program(seed, operators, true, false);
        check_program(seed, operators, false, true);
    }
    exg_operators_destroy(operators);
}

/* ---- a planner's mistake ----------------------------------------------------------------- */

/* Puts two values that live at the same time in one place; false: there are none. */
static bool spoil(exg_plan *plan, uint32_t state)
{
    for (uint32_t tries = 0; tries < 1000 && plan->buffer_count > 1; tries++) {
        exg_buffer *a = &plan->buffers[next_random(&state) % plan->buffer_count];
        exg_buffer *b = &plan->buffers[next_random(&state) % plan->buffer_count];

        if (a != b && a->kind == EXG_BUFFER_ARENA && b->kind == EXG_BUFFER_ARENA &&
            a->bytes >= b->bytes && b->bytes > 0 && a->first_step < b->first_step &&
            b->first_step < a->last_step && a->offset != b->offset) {
            b->offset = a->offset;
            return true;
        }
    }
    return false;
}

/* Plans the program, spoilt when asked for. 1: as the reference has it, 0: not, -1: this
 * plan has nothing to spoil. */
static int run_plan(uint32_t seed, const exg_operators *operators, bool spoilt)
{
    static const float zeros[24] = {0};
    const exg_symbols none = {0};
    float x[24];
    window values[VALUES + 2];
    exg_program *program;
    exg_program *functional;
    exg_graph_segment *segment;
    exg_weight_store *memory;
    exg_plan *plan;
    exg_plan_executor *rank;
    exg_error err;
    sketch k;
    int same = 1;

    for (int i = 0; i < 24; i++) {
        x[i] = (float)((i * 7 + (int)seed) % 23) - 11;
    }
    draw(seed, &k);
    start_values(values, x, zeros);
    for (uint32_t i = 0; i < k.count; i++) {
        values[i + 2] = compute(&k.steps[i], values);
    }
    program = build(&k, operators, zeros);
    assert_int_equal(exg_graph_segment_begin(program, operators, &none, NULL, NULL, &segment, &err),
                     EXG_OK);
    assert_int_equal(exg_graph_segment_functional(segment, false, true, &functional, &err), EXG_OK);
    assert_int_equal(exg_plan_create(functional, operators, NULL, &plan, &err), EXG_OK);
    exg_program_destroy(functional);
    if (spoilt && !spoil(plan, seed)) {
        exg_plan_destroy(plan);
        exg_graph_segment_destroy(segment);
        exg_program_destroy(program);
        release_values(values, &k);
        return -1;
    }
    assert_int_equal(exg_weight_store_create(program->weights, NULL, &memory, &err), EXG_OK);
    assert_int_equal(exg_plan_executor_create(plan, memory, NULL, NULL, NULL, 0, 0, &rank, &err),
                     EXG_OK);
    exg_plan_executor_set_input(rank, 1, x, false);
    assert_int_equal(exg_plan_executor_settle(rank, &err), EXG_OK);
    assert_int_equal(exg_plan_executor_fold(rank, &err), EXG_OK);
    assert_int_equal(exg_plan_executor_run(rank, &err), EXG_OK);
    for (uint32_t o = 0; o < k.shown; o++) {
        const window *want = &values[k.count + 1 - o];
        const float *got = exg_plan_executor_output(rank, segment->first_output + o);

        for (int64_t i = 0; i < count_of(want); i++) {
            same = same && memcmp(at(want, i), &got[i], sizeof(float)) == 0;
        }
    }
    exg_plan_executor_destroy(rank);
    exg_weight_store_destroy(memory);
    exg_graph_segment_destroy(segment);
    exg_program_destroy(program);
    release_values(values, &k);
    return same;
}

static void two_living_values_in_one_place_are_found_out(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    (void)state;
    (void)run_plan; /* the sanitizer finds some of them itself, and ends the test */
    skip();
#else
    exg_operators *operators;
    uint32_t spoilt = 0;
    uint32_t found = 0;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, &err), EXG_OK);
    for (uint32_t seed = 0; seed < PROGRAMS; seed++) {
        int same = run_plan(seed, operators, true);

        assert_int_equal(run_plan(seed, operators, false), 1);
        spoilt += same >= 0;
        found += same == 0;
    }
    assert_true(spoilt > PROGRAMS / 10);
    assert_true(5 * found > 2 * spoilt); /* in the others what was lost is not read again */
    exg_operators_destroy(operators);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_are_what_windows_on_arrays_give),
        cmocka_unit_test(two_living_values_in_one_place_are_found_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
