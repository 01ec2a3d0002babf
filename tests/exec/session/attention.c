/* attention.c - attention found in softmax(q k^T * scale + mask) v, as exporters write it, compared
 * with loops over every score; what looks like it and is not stays as it is. */
#include <exg/emit.h>

#include <exg/exec.h>
#include <exg/transform.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCH 2
#define HEADS 3
#define ROWS  5
#define KEYS  7
#define DEPTH 4
#define WIDTH 6

typedef enum mask_kind { NO_MASK, FINITE, WITHOUT_KEYS } mask_kind; /* row 2: all -inf */
typedef enum scaling { BY_ROOTS, BEHIND, DIVIDED, NOT_SCALED } scaling;

typedef struct variant {
    mask_kind mask;
    bool is_left; /* mask + scores */
    scaling scaling;
    bool is_safe;
    bool shows_weights; /* an output too */
    int dim;            /* of the softmax */
    bool found;
} variant;

typedef struct made {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_ref q, k, v, mask;
} made;

static float q_data[BATCH * HEADS * ROWS * DEPTH], k_data[BATCH * HEADS * KEYS * DEPTH];
static float v_data[BATCH * HEADS * KEYS * WIDTH], mask_data[BATCH * ROWS * KEYS];

static void fill(float *data, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((int)(seed >> 24) - 128) / 64.0f;
    }
}

static exg_ref input(made *m, const char *name, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t sizes[4] = {a, b, c, d};
    exg_tensor_meta meta = exg_builder_meta(m->b, EXG_DTYPE_F32, sizes, 4);

    return exg_builder_input(m->b, name, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

/* (BATCH HEADS, rows, columns), as matmul writes it. */
static exg_ref grouped(exg_builder *b, exg_ref x, int64_t rows, int64_t columns)
{
    exg_ref expanded = EMIT(b, expand_default, x, INTS(b, BATCH, HEADS, rows, columns));

    return EMIT(b, view_default, EMIT(b, clone_default, expanded),
                INTS(b, BATCH * HEADS, rows, columns));
}

static exg_ref scaled_scores(made *m, scaling how)
{
    exg_builder *b = m->b;
    exg_ref q = m->q;
    exg_ref k = EMIT(b, permute_default, m->k, INTS(b, 0, 1, 3, 2));
    exg_ref scores;

    if (how == BY_ROOTS) {
        q = EMIT(b, mul_Scalar, q, 0.5);
        k = EMIT(b, mul_Scalar, k, 0.25);
    }
    scores = EMIT(b, bmm_default, grouped(b, q, ROWS, DEPTH), grouped(b, k, DEPTH, KEYS));
    scores = EMIT(b, view_default, scores, INTS(b, BATCH, HEADS, ROWS, KEYS));
    if (how == BEHIND) {
        exg_ref number = EMIT(b, full_default, INTS_OF(b, NULL, 0), 0.125);

        scores = EMIT(b, mul_Tensor, scores, number);
    }
    return how == DIVIDED ? EMIT(b, div_Scalar, scores, 8.0) : scores;
}

static exg_ref weights_of(made *m, const variant *t)
{
    exg_builder *b = m->b;
    exg_ref scores = scaled_scores(m, t->scaling);
    exg_ref weights;

    if (t->mask != NO_MASK) {
        scores = t->is_left ? EMIT(b, add_Tensor, m->mask, scores)
                            : EMIT(b, add_Tensor, scores, m->mask);
    }
    weights = EMIT(b, _softmax_default, scores, t->dim, false);
    if (t->is_safe) {
        exg_ref masked = EMIT(b, eq_Scalar, scores, (double)-INFINITY);
        exg_ref any = EMIT(b, any_dim, EMIT(b, logical_not_default, masked), -1, true);

        weights = EMIT(b, where_self, EMIT(b, logical_not_default, any),
                       EMIT(b, full_like_default, weights, 0), weights);
    }
    return weights;
}

static void make(made *m, const variant *t)
{
    exg_argument out;
    exg_ref weights;

    assert_int_equal(exg_operators_create(&m->operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &m->program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m->operators, m->program, &m->b, NULL), EXG_OK);
    m->q = input(m, "q", BATCH, HEADS, ROWS, DEPTH);
    m->k = input(m, "k", BATCH, HEADS, KEYS, DEPTH);
    m->v = input(m, "v", BATCH, HEADS, KEYS, WIDTH);
    m->mask = input(m, "mask", BATCH, 1, ROWS, KEYS);
    weights = weights_of(m, t);
    out = exg_arg_ref(EMIT(m->b, view_default,
                           EMIT(m->b, bmm_default, grouped(m->b, weights, ROWS, KEYS),
                                grouped(m->b, m->v, KEYS, WIDTH)),
                           INTS(m->b, BATCH, HEADS, ROWS, WIDTH)));
    exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
    if (t->shows_weights) {
        out = exg_arg_ref(weights);
        exg_builder_output(m->b, &out, EXG_OUTPUT_USER, NULL);
    }
    assert_int_equal(exg_builder_finish(m->b, NULL), EXG_OK);
}

/* Row `i` of the result, by loops in double. */
static void expect_row(const variant *t, int64_t n, int64_t h, int64_t i, double *row)
{
    double scores[KEYS];
    double sum = 0;
    double greatest = -INFINITY;

    for (int64_t j = 0; j < KEYS; j++) {
        scores[j] = 0;
        for (int64_t d = 0; d < DEPTH; d++) {
            scores[j] += (double)q_data[((n * HEADS + h) * ROWS + i) * DEPTH + d] *
                         (double)k_data[((n * HEADS + h) * KEYS + j) * DEPTH + d];
        }
        scores[j] *= t->scaling == NOT_SCALED ? 1 : 0.125;
        scores[j] += t->mask == NO_MASK ? 0 : (double)mask_data[(n * ROWS + i) * KEYS + j];
        greatest = fmax(greatest, scores[j]);
    }
    for (int64_t j = 0; j < KEYS; j++) {
        sum += scores[j] = exp(scores[j] - greatest); /* NaN where nothing is left */
    }
    for (int64_t w = 0; w < WIDTH; w++) {
        row[w] = 0;
        for (int64_t j = 0; j < KEYS; j++) {
            row[w] += scores[j] / sum * (double)v_data[((n * HEADS + h) * KEYS + j) * WIDTH + w];
        }
        row[w] = greatest == -INFINITY && t->is_safe ? 0 : row[w];
    }
}

static void compare(const variant *t, const float *got)
{
    for (int64_t r = 0; r < BATCH * HEADS * ROWS; r++) {
        double row[WIDTH];

        expect_row(t, r / (HEADS * ROWS), r / ROWS % HEADS, r % ROWS, row);
        for (int64_t w = 0; w < WIDTH; w++) {
            double value = (double)got[r * WIDTH + w];

            if (isnan(row[w]) ? !isnan(value) : !(fabs(value - row[w]) < 1e-5)) {
                fail_msg("row %d, %d is %g, not %g", (int)r, (int)w, value, row[w]);
            }
        }
    }
}

static bool is_found(const made *m)
{
    exg_program *pure = NULL;
    exg_program *simple = NULL;
    uint32_t attentions = 0;
    uint32_t softmaxes = 0;

    assert_int_equal(exg_functionalize(m->program, m->operators, &pure, NULL), EXG_OK);
    assert_int_equal(exg_simplify(pure, m->operators, &simple, NULL), EXG_OK);
    for (uint32_t n = 0; n < simple->graph->node_count; n++) {
        attentions += strstr(simple->graph->nodes[n].target, "attention") != NULL;
        softmaxes += strstr(simple->graph->nodes[n].target, "aten._softmax") != NULL;
    }
    assert_int_equal(attentions + softmaxes, 1);
    exg_program_destroy(pure);
    exg_program_destroy(simple);
    return attentions == 1;
}

static void run(made *m, const variant *t)
{
    float *const data[] = {q_data, k_data, v_data, mask_data};
    static const char *const names[] = {"q", "k", "v", "mask"};
    static const int64_t sizes[4][4] = {{BATCH, HEADS, ROWS, DEPTH},
                                        {BATCH, HEADS, KEYS, DEPTH},
                                        {BATCH, HEADS, KEYS, WIDTH},
                                        {BATCH, 1, ROWS, KEYS}};
    exg_session_options options = {
        .size = sizeof(options), .thread_count = 1, .device = getenv("EXG_TEST_DEVICE")};
    exg_session_input inputs[4];
    exg_verified verified;
    exg_session *session;
    exg_error err;

    for (int i = 0; i < 4; i++) {
        inputs[i] = (exg_session_input){
            .name = names[i], .tensor = {.data = data[i], .dtype = EXG_DTYPE_F32, .rank = 4}};
        memcpy(inputs[i].tensor.sizes, sizes[i], sizeof(sizes[i]));
        exg_tensor_set_contiguous(&inputs[i].tensor);
    }
    assert_int_equal(exg_verify(m->program, m->operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_session_create(&verified, &options, &session, &err), EXG_OK);
    if (exg_session_run(session, inputs, 4, &err) != EXG_OK) {
        fail_msg("%s %s", err.code, err.message);
    }
    compare(t, exg_session_output_at(session, 0)->tensor.data);
    exg_session_destroy(session);
}

static void check(const variant *t)
{
    made m = {0};

    fill(q_data, sizeof(q_data) / sizeof(float), 1);
    fill(k_data, sizeof(k_data) / sizeof(float), 2);
    fill(v_data, sizeof(v_data) / sizeof(float), 3);
    fill(mask_data, sizeof(mask_data) / sizeof(float), 4);
    for (int j = 0; j < KEYS && t->mask == WITHOUT_KEYS; j++) {
        mask_data[2 * KEYS + j] = -INFINITY;
    }
    make(&m, t);
    if (t->dim == -1 || t->dim == 3) {
        run(&m, t);
    }
    assert_int_equal(is_found(&m), t->found);
    exg_program_destroy(m.program);
    exg_operators_destroy(m.operators);
}

static void attention_is_found(void **state)
{
    static const variant variants[] = {
        {NO_MASK, false, BEHIND, false, false, -1, true},
        {NO_MASK, false, NOT_SCALED, false, false, 3, true},
        {FINITE, false, BY_ROOTS, false, false, -1, true},
        {FINITE, true, DIVIDED, false, false, -1, true},
        {FINITE, false, BY_ROOTS, true, false, -1, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(&variants[i]);
    }
}

/* A softmax over nothing is NaN; where the program says 0, it is 0. */
static void rows_without_keys_stay_what_they_were(void **state)
{
    static const variant variants[] = {
        {WITHOUT_KEYS, false, BEHIND, false, false, -1, true},
        {WITHOUT_KEYS, true, BY_ROOTS, true, false, -1, true},
    };

    (void)state;
    check(&variants[0]);
    check(&variants[1]);
}

static void what_is_no_attention_stays(void **state)
{
    static const variant variants[] = {
        {NO_MASK, false, BEHIND, false, true, -1, false}, /* the weights are wanted */
        {FINITE, false, BY_ROOTS, true, true, -1, false},
        {NO_MASK, false, BEHIND, false, false, 2, false}, /* another dim */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        check(&variants[i]);
    }
}

/* x (2, 3, 4) times a matrix (4, 5) that every batch shares is one product. */
static void a_shared_matrix_is_one_product(void **state)
{
    made m = {0};
    exg_program *pure = NULL;
    exg_program *simple = NULL;
    exg_argument out;
    exg_ref x, w;
    uint32_t products = 0;
    uint32_t batches = 0;

    (void)state;
    assert_int_equal(exg_operators_create(&m.operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &m.program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(m.operators, m.program, &m.b, NULL), EXG_OK);
    x = EMIT(m.b, view_default, input(&m, "x", 1, 2, 3, 4), INTS(m.b, 2, 3, 4));
    w = EMIT(m.b, view_default, input(&m, "w", 1, 1, 4, 5), INTS(m.b, 4, 5));
    out = exg_arg_ref(EMIT(m.b, bmm_default, x, EMIT(m.b, expand_default, w, INTS(m.b, 2, 4, 5))));
    exg_builder_output(m.b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(m.b, NULL), EXG_OK);
    assert_int_equal(exg_functionalize(m.program, m.operators, &pure, NULL), EXG_OK);
    assert_int_equal(exg_simplify(pure, m.operators, &simple, NULL), EXG_OK);
    for (uint32_t n = 0; n < simple->graph->node_count; n++) {
        products += strstr(simple->graph->nodes[n].target, "aten.mm.") != NULL;
        batches += strstr(simple->graph->nodes[n].target, "aten.bmm.") != NULL;
    }
    assert_int_equal(products, 1);
    assert_int_equal(batches, 0);
    exg_program_destroy(pure);
    exg_program_destroy(simple);
    exg_program_destroy(m.program);
    exg_operators_destroy(m.operators);
}

/* Heads in groups, of which there are none: nothing is counted by them. */
static void heads_may_be_missing(void **state)
{
    static const int64_t groups[] = {3, 0};

    (void)state;
    for (int g = 0; g < 2; g++) {
        exg_session_options options = {
            .size = sizeof(options), .thread_count = 1, .device = getenv("EXG_TEST_DEVICE")};
        static const char *const names[] = {"q", "k", "v"};
        exg_session_input inputs[3];
        const exg_session_output *result;
        exg_verified verified;
        exg_session *session;
        exg_argument out;
        exg_error err;
        made m = {0};

        assert_int_equal(exg_operators_create(&m.operators, NULL), EXG_OK);
        assert_int_equal(exg_program_create(NULL, UINT64_MAX, &m.program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(m.operators, m.program, &m.b, NULL), EXG_OK);
        m.q = input(&m, "q", 1, 0, 4, 8);
        m.k = input(&m, "k", 1, groups[g], 4, 8);
        m.v = input(&m, "v", 1, groups[g], 4, 8);
        out = exg_arg_ref(EMIT(m.b, scaled_dot_product_attention_default, m.q, m.k, m.v,
                               exg_arg_none(), 0.0, false, exg_arg_none(), true));
        exg_builder_output(m.b, &out, EXG_OUTPUT_USER, NULL);
        if (exg_builder_finish(m.b, &err) != EXG_OK) {
            fail_msg("%s %s", err.code, err.message);
        }
        for (int i = 0; i < 3; i++) {
            inputs[i] = (exg_session_input){.name = names[i],
                                            .tensor = {.data = k_data,
                                                       .dtype = EXG_DTYPE_F32,
                                                       .rank = 4,
                                                       .sizes = {1, i == 0 ? 0 : groups[g], 4, 8}}};
            exg_tensor_set_contiguous(&inputs[i].tensor);
        }
        assert_int_equal(exg_verify(m.program, m.operators, &verified, NULL, &err), EXG_OK);
        assert_int_equal(exg_session_create(&verified, &options, &session, &err), EXG_OK);
        if (exg_session_run(session, inputs, 3, &err) != EXG_OK) {
            fail_msg("%s %s", err.code, err.message);
        }
        result = exg_session_output_at(session, 0);
        assert_int_equal(exg_tensor_numel(&result->tensor), 0);
        assert_int_equal(result->tensor.sizes[3], 8);
        exg_session_destroy(session);
        exg_program_destroy(m.program);
        exg_operators_destroy(m.operators);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_may_be_missing),
        cmocka_unit_test(attention_is_found),
        cmocka_unit_test(rows_without_keys_stay_what_they_were),
        cmocka_unit_test(what_is_no_attention_stays),
        cmocka_unit_test(a_shared_matrix_is_one_product),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
