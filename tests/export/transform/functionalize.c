/* functionalize.c - writes through chains of views, against memory and strides.
 *
 * Random programs take views of an input (slice, select, permute, diagonal, unsqueeze,
 * flatten), write through them, and read others in between. The model below does the
 * same on plain memory, as eager PyTorch does. Every number is a small integer, so
 * results are compared exactly.
 */
#include <exg/emit.h>

#include <exg/exec.h>
#include <exg/export.h>

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define VIEWS_MAX    64
#define STORAGES_MAX 64
#define ELEMENTS     48
#define STEPS        24
#define PROGRAMS     400
#define RANK         4

typedef struct view {
    exg_ref ref;
    int storage;
    uint32_t rank;
    int64_t sizes[8];
    int64_t strides[8];
    int64_t offset;
} view;

typedef struct model {
    float memory[STORAGES_MAX][ELEMENTS];
    view views[VIEWS_MAX];
    uint32_t view_count;
    int storage_count;
    uint64_t random;
    exg_builder *b;
} model;

static exg_operators *operators;

static uint32_t draw(model *m, uint32_t below)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(m->random >> 33) % below;
}

static int64_t numel(const view *v)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < v->rank; d++) {
        count *= v->sizes[d];
    }
    return count;
}

/* The element of `v` at row-major position i. */
static float *at(model *m, const view *v, int64_t i)
{
    int64_t offset = v->offset;

    for (uint32_t d = v->rank; d-- > 0;) {
        offset += i % v->sizes[d] * v->strides[d];
        i /= v->sizes[d];
    }
    return &m->memory[v->storage][offset];
}

static void set_contiguous(view *v)
{
    int64_t stride = 1;

    for (uint32_t d = v->rank; d-- > 0;) {
        v->strides[d] = stride;
        stride *= v->sizes[d];
    }
    v->offset = 0;
}

static bool is_contiguous(const view *v)
{
    int64_t stride = 1;

    for (uint32_t d = v->rank; d-- > 0;) {
        if (v->sizes[d] != 1 && v->strides[d] != stride) {
            return false;
        }
        stride *= v->sizes[d];
    }
    return true;
}

static void erase(view *v, uint32_t dim)
{
    for (uint32_t d = dim; d + 1 < v->rank; d++) {
        v->sizes[d] = v->sizes[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
    v->rank--;
}

/* ---- what a program does ------------------------------------------------------------- */

static void take_slice(model *m, view *v)
{
    uint32_t dim = draw(m, v->rank);
    int64_t start = draw(m, (uint32_t)v->sizes[dim]);
    int64_t end = start + 1 + draw(m, (uint32_t)(v->sizes[dim] - start));
    int64_t step = 1 + draw(m, 3);

    v->ref = EMIT(m->b, slice_Tensor, v->ref, (long)dim, start, end, step);
    v->offset += start * v->strides[dim];
    v->sizes[dim] = (end - start + step - 1) / step;
    v->strides[dim] *= step;
}

static void take_select(model *m, view *v)
{
    uint32_t dim = draw(m, v->rank);
    int64_t index = draw(m, (uint32_t)v->sizes[dim]);
    bool from_the_end = draw(m, 2) == 0;

    v->ref =
        EMIT(m->b, select_int, v->ref, (long)dim, from_the_end ? index - v->sizes[dim] : index);
    v->offset += index * v->strides[dim];
    erase(v, dim);
}

static void take_permute(model *m, view *v)
{
    int64_t dims[8];
    view old = *v;

    for (uint32_t d = 0; d < v->rank; d++) {
        dims[d] = d;
    }
    for (uint32_t d = v->rank; d-- > 1;) {
        uint32_t other = draw(m, d + 1);
        int64_t kept = dims[d];

        dims[d] = dims[other];
        dims[other] = kept;
    }
    v->ref = EMIT(m->b, permute_default, v->ref, INTS_OF(m->b, dims, v->rank));
    for (uint32_t d = 0; d < v->rank; d++) {
        v->sizes[d] = old.sizes[dims[d]];
        v->strides[d] = old.strides[dims[d]];
    }
}

static void take_diagonal(model *m, view *v)
{
    int64_t length = v->sizes[0] < v->sizes[1] ? v->sizes[0] : v->sizes[1];
    int64_t stride = v->strides[0] + v->strides[1];

    v->ref = EMIT(m->b, diagonal_default, v->ref);
    erase(v, 0);
    erase(v, 0);
    v->sizes[v->rank] = length;
    v->strides[v->rank] = stride;
    v->rank++;
}

static void take_unsqueeze(model *m, view *v)
{
    uint32_t dim = draw(m, v->rank + 1);

    v->ref = EMIT(m->b, unsqueeze_default, v->ref, (long)dim);
    for (uint32_t d = v->rank; d > dim; d--) {
        v->sizes[d] = v->sizes[d - 1];
        v->strides[d] = v->strides[d - 1];
    }
    v->sizes[dim] = 1;
    v->strides[dim] = 1;
    v->rank++;
}

static void take_flat(model *m, view *v)
{
    int64_t count = numel(v);

    v->ref = EMIT(m->b, view_default, v->ref, INTS(m->b, count));
    v->rank = 1;
    v->sizes[0] = count;
    v->strides[0] = 1;
}

static void take_view(model *m)
{
    view v = m->views[draw(m, m->view_count)];

    switch (draw(m, 7)) {
    case 0:
    case 1:
        if (v.rank > 0) {
            take_slice(m, &v);
        }
        break;
    case 2:
        if (v.rank > 0) {
            take_select(m, &v);
        }
        break;
    case 3:
        if (v.rank > 1) {
            take_permute(m, &v);
        }
        break;
    case 4:
        if (v.rank > 1) {
            take_diagonal(m, &v);
        }
        break;
    case 5:
        if (v.rank < RANK) {
            take_unsqueeze(m, &v);
        }
        break;
    default:
        /* results of neg keep the order of strides, which the model does not follow */
        if (v.rank > 1 && v.storage == 0 && is_contiguous(&v)) {
            take_flat(m, &v);
        } else {
            v.ref = EMIT(m->b, alias_default, v.ref);
        }
    }
    m->views[m->view_count++] = v;
}

/* neg of a view, into memory of its own. */
static view compute(model *m, const view *from)
{
    view made = *from;

    made.ref = EMIT(m->b, neg_default, from->ref);
    made.storage = m->storage_count++;
    set_contiguous(&made);
    for (int64_t i = 0; i < numel(from); i++) {
        *at(m, &made, i) = -*at(m, from, i);
    }
    return made;
}

static bool same_shape(const view *a, const view *b)
{
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) == 0;
}

static void write(model *m)
{
    view *v = &m->views[draw(m, m->view_count)];
    const view *other = &m->views[draw(m, m->view_count)];
    exg_ref result = EXG_NO_REF;

    switch (draw(m, 4)) {
    case 0:
        result = EMIT(m->b, neg__default, v->ref);
        for (int64_t i = 0; i < numel(v); i++) {
            *at(m, v, i) = -*at(m, v, i);
        }
        break;
    case 1: {
        int64_t value = (int64_t)draw(m, 100);

        result = EMIT(m->b, fill__Scalar, v->ref, value);
        for (int64_t i = 0; i < numel(v); i++) {
            *at(m, v, i) = (float)value;
        }
        break;
    }
    case 2:
        result = EMIT(m->b, relu__default, v->ref);
        for (int64_t i = 0; i < numel(v); i++) {
            *at(m, v, i) = *at(m, v, i) > 0 ? *at(m, v, i) : 0;
        }
        break;
    default:
        /* the same shape, or one number for all */
        if ((same_shape(v, other) || other->rank == 0) && m->storage_count < STORAGES_MAX) {
            view made = compute(m, other);

            result = EMIT(m->b, add__Tensor, v->ref, made.ref);
            for (int64_t i = 0; i < numel(v); i++) {
                *at(m, v, i) += *at(m, &made, made.rank == 0 ? 0 : i);
            }
        }
    }
    if (result.id != EXG_NO_VALUE && m->view_count < VIEWS_MAX && draw(m, 2) == 0) {
        view again = *v; /* what an in-place operator returns is its argument */

        again.ref = result;
        m->views[m->view_count++] = again;
    }
}

static exg_program *make_program(model *m)
{
    static const char *const dialects[] = {"TRAINING"};
    static exg_sym_int sizes[] = {{NULL, 2, false}, {NULL, 4, false}, {NULL, 6, false}};
    static exg_sym_int strides[] = {{NULL, 24, false}, {NULL, 6, false}, {NULL, 1, false}};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 3,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_program *program;
    exg_error err;

    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, &err), EXG_OK);
    program->verifiers = (const char **)(void *)dialects;
    program->verifier_count = 1;
    assert_int_equal(exg_builder_create(operators, program, &m->b, &err), EXG_OK);
    m->views[0] = (view){.rank = 3, .sizes = {2, 4, 6}};
    set_contiguous(&m->views[0]);
    m->views[0].ref = exg_builder_input(m->b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    m->view_count = 1;
    m->storage_count = 1;
    for (int step = 0; step < STEPS; step++) {
        if (draw(m, 2) == 0 && m->view_count < VIEWS_MAX) {
            take_view(m);
        } else if (draw(m, 4) == 0 && m->view_count < VIEWS_MAX &&
                   m->storage_count < STORAGES_MAX) {
            view made = compute(m, &m->views[draw(m, m->view_count)]);

            m->views[m->view_count++] = made;
        } else {
            write(m);
        }
    }
    for (uint32_t i = 0; i < m->view_count; i++) {
        exg_argument arg = exg_arg_ref(m->views[i].ref);

        exg_builder_output(m->b, &arg, EXG_OUTPUT_USER, NULL);
    }
    if (exg_builder_finish(m->b, &err) != EXG_OK) {
        fail_msg("building: %s", err.message);
    }
    return program;
}

/* ---- running and comparing --------------------------------------------------------------- */

static void explain_fault(const exg_program *program, uint64_t seed, const char *what)
{
    char *text = NULL;

    exg_ignore(exg_graph_print(program->graph, &text, NULL));
    fail_msg("program %llu: %s\n%s", (unsigned long long)seed, what, text == NULL ? "" : text);
}

static void run_one(uint64_t seed)
{
    static model m;
    exg_program *program;
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session *session = NULL;
    exg_verified verified;
    exg_session_input input = {.name = "x"};
    float x[ELEMENTS];
    exg_error err;

    memset(&m, 0, sizeof(m));
    m.random = seed * 7919 + 1;
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = (float)(i - 20);
    }
    memcpy(m.memory[0], x, sizeof(x));
    program = make_program(&m);
    if (exg_verify(program, operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, &options, &session, &err) != EXG_OK) {
        explain_fault(program, seed, err.message);
    }
    input.tensor = (exg_tensor){.data = x, .dtype = EXG_DTYPE_F32, .rank = 3, .sizes = {2, 4, 6}};
    exg_tensor_set_contiguous(&input.tensor);
    if (exg_session_run(session, &input, 1, &err) != EXG_OK) {
        explain_fault(program, seed, err.message);
    }
    for (uint32_t v = 0; v < m.view_count; v++) {
        const exg_session_output *out = exg_session_output_at(session, v);

        if (exg_tensor_numel(&out->tensor) != numel(&m.views[v])) {
            explain_fault(program, seed, "a result of another size");
        }
        for (int64_t i = 0; i < numel(&m.views[v]); i++) {
            if (((const float *)out->tensor.data)[i] != *at(&m, &m.views[v], i)) {
                char what[100];

                snprintf(what, sizeof(what), "output %u, element %lld is %g, eager has %g", v,
                         (long long)i, (double)((const float *)out->tensor.data)[i],
                         (double)*at(&m, &m.views[v], i));
                explain_fault(program, seed, what);
            }
        }
    }
    if (memcmp(x, m.memory[0], sizeof(x)) != 0) {
        for (int i = 0; i < ELEMENTS; i++) {
            if (x[i] != m.memory[0][i]) {
                explain_fault(program, seed, "the input was not written as eager writes it");
            }
        }
    }
    exg_session_destroy(session);
    exg_program_destroy(program);
}

static void writes_through_views_are_seen_as_eager_sees_them(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
        run_one(seed);
    }
}

static int begin(void **state)
{
    (void)state;
    return exg_operators_create(&operators, NULL) == EXG_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    exg_operators_destroy(operators);
    return 0;
}

/* A program that was not bound to inputs may say anything of their strides (seen: products
 * past 64 bits in is_dense, restride and slice, under UBSan). */
static void strides_that_64_bits_do_not_count_are_refused(void **state)
{
    static const struct {
        int64_t sizes[2], strides[2], offset;
        exg_status status;
    } cases[] = {
        {{2, 3}, {3, 1}, 0, EXG_OK},
        {{2, 0}, {INT64_MAX, 1}, 0, EXG_LIMIT}, /* two of such steps */
        {{2, 3}, {INT64_MAX / 2, INT64_MAX / 2}, 0, EXG_LIMIT},
        {{2, 3}, {3, 1}, INT64_MAX - 3, EXG_LIMIT},
        {{INT64_MAX / 2, 3}, {0, 0}, 0, EXG_LIMIT}, /* so many elements */
        {{2, 3}, {1L << 40, 1}, 1L << 40, EXG_OK},
    };

    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        exg_sym_int sizes[2], strides[2];
        exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                                .layout = EXG_LAYOUT_STRIDED,
                                .rank = 2,
                                .sizes = sizes,
                                .strides = strides,
                                .storage_offset = {NULL, cases[c].offset, false},
                                .device = {"cpu", -1}};
        exg_program *program;
        exg_builder *b;
        exg_error err = {0};
        exg_argument arg;

        for (int d = 0; d < 2; d++) {
            sizes[d] = (exg_sym_int){NULL, cases[c].sizes[d], false};
            strides[d] = (exg_sym_int){NULL, cases[c].strides[d], false};
        }
        assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, &err), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, &err), EXG_OK);
        arg = exg_arg_ref(EMIT(b, relu_default,
                               exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET)));
        exg_builder_output(b, &arg, EXG_OUTPUT_USER, NULL);
        assert_int_equal(exg_builder_finish(b, &err), cases[c].status);
        assert_string_equal(err.code, cases[c].status == EXG_OK ? "" : "SHP-002");
        exg_program_destroy(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_through_views_are_seen_as_eager_sees_them),
        cmocka_unit_test(strides_that_64_bits_do_not_count_are_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
