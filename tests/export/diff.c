/* diff.c - programs built twice with one thing changed: what exg_diff_programs says. */
#include <exg/emit.h>

#include <exg/export.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BLOCKS_MAX 3000

typedef struct recipe {
    const char *weight;  /* its name */
    const float *values; /* 4 of them */
    int64_t rows;        /* of the weight: 2 or 1 */
    int64_t batch;       /* of the input */
    int alpha;
    int blocks;        /* of mm and relu */
    int changed;       /* this block has tanh, not relu; -1: none */
    int inserted;      /* before this block stands a sigmoid; -1: nowhere */
    bool swapped;      /* independent nodes in the other order */
    const char *input; /* name of the user input */
} recipe;

static const float plain[4] = {1, 2, 3, 4};
static const recipe base = {.weight = "w",
                            .values = plain,
                            .rows = 2,
                            .batch = 3,
                            .alpha = 2,
                            .blocks = 3,
                            .changed = -1,
                            .inserted = -1,
                            .input = "x"};

static exg_operators *operators;

static exg_ref body(exg_builder *b, const recipe *r, exg_ref x, exg_ref w)
{
    exg_ref y = x;
    exg_ref three[3];

    for (int i = 0; i < r->blocks; i++) {
        y = i == r->inserted ? EMIT(b, sigmoid_default, y) : y;
        y = EMIT(b, mm_default, y, w);
        y = i == r->changed ? EMIT(b, tanh_default, y) : EMIT(b, relu_default, y);
    }
    for (int k = 0; k < 3; k++) {
        int i = r->swapped ? 2 - k : k;

        three[i] = i == 0   ? EMIT(b, cos_default, y)
                   : i == 1 ? EMIT(b, sin_default, y)
                            : EMIT(b, neg_default, y);
    }
    return EMIT(b, add_Tensor, EMIT(b, mul_Tensor, three[0], three[1]), three[2], r->alpha);
}

static exg_program *make(const recipe *r)
{
    exg_sym_int sizes[2] = {exg_sym_int_of(r->batch), exg_sym_int_of(2)};
    exg_sym_int strides[2] = {exg_sym_int_of(2), exg_sym_int_of(1)};
    exg_sym_int square[2] = {exg_sym_int_of(2), exg_sym_int_of(2)};
    exg_sym_int flat[2] = {exg_sym_int_of(r->rows), exg_sym_int_of(4 / r->rows)};
    exg_sym_int flat_strides[2] = {exg_sym_int_of(4 / r->rows), exg_sym_int_of(1)};
    exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                            .layout = EXG_LAYOUT_STRIDED,
                            .rank = 2,
                            .sizes = sizes,
                            .strides = strides,
                            .device = {"cpu", -1}};
    exg_tensor_meta weight_meta = meta;
    exg_storage storage = {.kind = EXG_STORAGE_MEMORY,
                           .length = 4 * sizeof(float),
                           .data = (const uint8_t *)r->values};
    exg_weight weight = {.fqn = r->weight, .table = EXG_TABLE_STATE, .is_param = true};
    exg_program *program;
    exg_builder *b;
    exg_argument out;
    exg_error err;
    exg_ref w;
    exg_ref x;

    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, &err), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, &err), EXG_OK);
    weight_meta.sizes = r->rows == 2 ? square : flat;
    weight_meta.strides = r->rows == 2 ? strides : flat_strides;
    weight.meta = &weight_meta;
    w = exg_builder_input(b, "p_w", &weight_meta, EXG_INPUT_PARAMETER, r->weight, EXG_UNSET);
    x = exg_builder_input(b, r->input, &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    w = r->rows == 2 ? w : EMIT(b, view_default, w, INTS(b, 2, 2));
    out = exg_arg_ref(body(b, r, x, w));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, &err), EXG_OK);
    assert_int_equal(exg_weights_add_storage(program->weights, &storage, &weight.storage, &err),
                     EXG_OK);
    assert_int_equal(exg_weights_add(program->weights, &weight, &err), EXG_OK);
    return program;
}

static exg_diff diff_of(const recipe *a, const recipe *b, const exg_diff_options *options)
{
    const recipe *recipes[2] = {a, b};
    exg_program *programs[2];
    exg_verified verified[2];
    exg_diff diff;
    exg_error err;

    for (int i = 0; i < 2; i++) {
        programs[i] = make(recipes[i]);
        if (exg_verify(programs[i], operators, &verified[i], NULL, &err) != EXG_OK) {
            fail_msg("%s %s", err.code, err.message);
        }
    }
    assert_int_equal(exg_diff_programs(&verified[0], &verified[1], options, &diff, &err), EXG_OK);
    exg_program_destroy(programs[0]);
    exg_program_destroy(programs[1]);
    return diff; /* owns its texts */
}

static void expect(const exg_difference *d, exg_diff_room room, exg_diff_kind kind,
                   const char *where_a, const char *where_b, const char *what)
{
    assert_string_equal(exg_diff_room_name(d->room), exg_diff_room_name(room));
    assert_string_equal(exg_diff_kind_name(d->kind), exg_diff_kind_name(kind));
    assert_string_equal(d->where_a == NULL ? "" : d->where_a, where_a);
    assert_string_equal(d->where_b == NULL ? "" : d->where_b, where_b);
    assert_string_equal(d->what, what);
}

/* Sum of the counts of nodes. */
static uint32_t other_nodes(const exg_diff *diff)
{
    const exg_diff_counts *c = &diff->counts[EXG_DIFF_GRAPH];

    return c->changed + c->removed + c->added + c->following;
}

/* ---- graphs -------------------------------------------------------------------------------- */

static void names_and_order_do_not_matter(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.swapped = true;
    other.input = "something_else";
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.count, 0);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].same, 11);
    exg_diff_free(&diff);
}

static void a_constant_is_told_with_its_argument(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.alpha = 3;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.count, 1);
    expect(&diff.items[0], EXG_DIFF_GRAPH, EXG_DIFF_CHANGED, "nodes[10] add", "nodes[10] add",
           "argument alpha: 2 -> 3");
    exg_diff_free(&diff);
}

static void an_inserted_node_leaves_the_rest_the_same(void **state)
{
    uint32_t partners[12] = {[11] = 77};
    const exg_diff_options options = {.size = sizeof(options), .partners = partners};
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.inserted = 1;
    diff = diff_of(&base, &other, &options);
    for (uint32_t n = 0; n < 11; n++) { /* those behind it are one further on in B */
        assert_int_equal(partners[n], n < 2 ? n : n + 1);
    }
    assert_int_equal(partners[11], 77);
    assert_int_equal(diff.count, 2);
    expect(&diff.items[0], EXG_DIFF_GRAPH, EXG_DIFF_ADDED, "", "nodes[2] sigmoid",
           "aten.sigmoid.default(relu)");
    expect(&diff.items[1], EXG_DIFF_GRAPH, EXG_DIFF_CHANGED, "nodes[2] mm_1", "nodes[3] mm_1",
           "argument self: relu -> sigmoid");
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].same, 10);
    exg_diff_free(&diff);
    diff = diff_of(&other, &base, NULL);
    assert_int_equal(diff.count, 2);
    expect(&diff.items[0], EXG_DIFF_GRAPH, EXG_DIFF_REMOVED, "nodes[2] sigmoid", "",
           "aten.sigmoid.default(relu)");
    exg_diff_free(&diff);
}

static void another_operator_is_one_removed_and_one_added(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.changed = 1;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].removed, 1);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].added, 1);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].changed, 1);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].same, 9);
    exg_diff_free(&diff);
}

/* What hangs below a change is known by its uses, whatever its order. */
static void order_does_not_matter_below_a_change(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.changed = 1;
    other.swapped = true;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].removed, 1);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].added, 1);
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].changed, 1);
    exg_diff_free(&diff);
}

static void a_shape_is_told_where_it_begins(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.batch = 5;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.count, 1);
    expect(&diff.items[0], EXG_DIFF_SIGNATURE, EXG_DIFF_CHANGED, "inputs[1] x", "inputs[1] x",
           "user input 0: USER_INPUT f32[3, 2] -> USER_INPUT f32[5, 2]");
    assert_int_equal(diff.counts[EXG_DIFF_GRAPH].following, 11);
    exg_diff_free(&diff);
}

/* Past the longest edit script that is looked for: still counted right. */
static void large_graphs_that_share_little_come_to_an_end(void **state)
{
    recipe one = base;
    recipe other = base;
    exg_diff diff;
    const exg_diff_counts *c;

    (void)state;
    one.blocks = BLOCKS_MAX;
    other.blocks = 2;
    other.changed = 0;
    diff = diff_of(&one, &other, NULL);
    c = &diff.counts[EXG_DIFF_GRAPH];
    assert_int_equal(c->same + c->changed + c->following + c->removed, 2 * BLOCKS_MAX + 5);
    assert_int_equal(c->same + c->changed + c->following + c->added, 2 * 2 + 5);
    exg_diff_free(&diff);
}

/* ---- weights -------------------------------------------------------------------------------- */

static void values_are_measured(void **state)
{
    /* 2 -> 2.5: 0.5, a quarter, 2^21 steps of 2^-22; 4 and its neighbour: 1 step of 2^-21 */
    static const float changed[4] = {1, 2.5f, 3, 4.0000004768371582f};
    recipe other = base;
    exg_diff_options options = {.size = sizeof(options), .rtol = 0.25};
    exg_diff diff;

    (void)state;
    other.values = changed;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.count, 1);
    expect(&diff.items[0], EXG_DIFF_TENSOR, EXG_DIFF_CHANGED, "w", "w",
           "f32[2, 2], 2 of 4 values differ: max abs 0.5, max rel 0.25, max 2097152 ULP, "
           "cosine 0.996635168");
    assert_int_equal(diff.items[0].values.differing, 2);
    assert_int_equal(diff.items[0].values.max_ulp, 1 << 21);
    exg_diff_free(&diff);
    diff = diff_of(&base, &other, &options);
    assert_int_equal(diff.count, 0);
    exg_diff_free(&diff);
    options.rtol = 0.2;
    diff = diff_of(&base, &other, &options);
    assert_int_equal(diff.count, 1);
    assert_int_equal(diff.items[0].values.differing, 1);
    exg_diff_free(&diff);
    options.skip_tensors = true;
    diff = diff_of(&base, &other, &options);
    assert_int_equal(diff.count, 0);
    exg_diff_free(&diff);
}

static void a_step_over_zero_counts_both_sides(void **state)
{
    static const float least[4] = {1e-45f, 2, 3, 4};
    static const float negative[4] = {-1e-45f, 2, 3, 4};
    recipe a = base;
    recipe b = base;
    exg_diff diff;

    (void)state;
    a.values = least;
    b.values = negative;
    diff = diff_of(&a, &b, NULL);
    assert_int_equal(diff.items[0].values.max_ulp, 2);
    assert_true(diff.items[0].values.max_rel == 2);
    exg_diff_free(&diff);
}

static void nan_and_signed_zero_are_told_apart_from_values(void **state)
{
    float a_values[4] = {NAN, 0, 1, 2};
    float b_values[4] = {NAN, -0.0f, 1, 2};
    float c_values[4] = {NAN, NAN, 1, 2};
    recipe a = base;
    recipe b = base;
    exg_diff diff;

    (void)state;
    a.values = a_values;
    b.values = b_values;
    diff = diff_of(&a, &b, NULL);
    assert_int_equal(diff.count, 1);
    expect(&diff.items[0], EXG_DIFF_TENSOR, EXG_DIFF_CHANGED, "w", "w",
           "signs of zeros or bits of NaN alone");
    exg_diff_free(&diff);
    b.values = c_values;
    diff = diff_of(&a, &b, NULL);
    assert_int_equal(diff.items[0].values.differing, 1);
    assert_true(isnan(diff.items[0].values.max_abs));
    exg_diff_free(&diff);
}

static void a_weight_is_found_under_another_name(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.weight = "layer.w";
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.count, 1);
    expect(&diff.items[0], EXG_DIFF_TENSOR, EXG_DIFF_RENAMED, "w", "layer.w", "f32[2, 2]");
    assert_int_equal(other_nodes(&diff), 0);
    exg_diff_free(&diff);
}

static void another_name_and_values_are_two_weights(void **state)
{
    static const float changed[4] = {1, 2, 3, 5};
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.weight = "layer.w";
    other.values = changed;
    diff = diff_of(&base, &other, NULL);
    assert_int_equal(diff.counts[EXG_DIFF_TENSOR].removed, 1);
    assert_int_equal(diff.counts[EXG_DIFF_TENSOR].added, 1);
    assert_int_equal(diff.counts[EXG_DIFF_SIGNATURE].removed, 1);
    assert_int_equal(diff.counts[EXG_DIFF_SIGNATURE].added, 1);
    exg_diff_free(&diff);
}

static void the_same_bytes_in_another_shape_are_reshaped(void **state)
{
    recipe other = base;
    exg_diff diff;

    (void)state;
    other.rows = 1;
    diff = diff_of(&base, &other, NULL);
    expect(&diff.items[diff.count - 1], EXG_DIFF_TENSOR, EXG_DIFF_RESHAPED, "w", "w",
           "f32[2, 2] -> f32[1, 4], the same values");
    exg_diff_free(&diff);
}

static int set_up(void **state)
{
    (void)state;
    return exg_operators_create(&operators, NULL) == EXG_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    exg_operators_destroy(operators);
    return 0;
}

/* Of weights alone; names are the same in every table. */
static void files_of_weights_are_compared_by_name(void **state)
{
    exg_weights *of_program = NULL;
    exg_weights *of_file = NULL;
    exg_diff diff;
    exg_error err;

    (void)state;
    assert_int_equal(exg_weights_open("fixtures/weights/sharded.safetensors.index.json", NULL,
                                      &of_file, NULL, &err),
                     EXG_OK);
    assert_int_equal(exg_weights_open("fixtures/weights/sharded.expected.safetensors", NULL,
                                      &of_program, NULL, &err),
                     EXG_OK);
    assert_int_equal(exg_diff_weights(of_file, of_program, NULL, &diff, &err), EXG_OK);
    assert_int_equal(diff.count, 0);
    assert_int_equal(diff.counts[EXG_DIFF_TENSOR].same, of_file->count);
    exg_diff_free(&diff);
    exg_weights_release(of_program);
    assert_int_equal(
        exg_weights_open("fixtures/weights/later.safetensors", NULL, &of_program, NULL, &err),
        EXG_OK);
    assert_int_equal(exg_diff_weights(of_file, of_program, NULL, &diff, &err), EXG_OK);
    assert_int_equal(diff.counts[EXG_DIFF_TENSOR].removed, of_file->count);
    assert_int_equal(diff.counts[EXG_DIFF_TENSOR].added, 1);
    exg_diff_free(&diff);
    exg_weights_release(of_program);
    exg_weights_release(of_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_order_do_not_matter),
        cmocka_unit_test(a_constant_is_told_with_its_argument),
        cmocka_unit_test(an_inserted_node_leaves_the_rest_the_same),
        cmocka_unit_test(another_operator_is_one_removed_and_one_added),
        cmocka_unit_test(order_does_not_matter_below_a_change),
        cmocka_unit_test(a_shape_is_told_where_it_begins),
        cmocka_unit_test(large_graphs_that_share_little_come_to_an_end),
        cmocka_unit_test(values_are_measured),
        cmocka_unit_test(a_step_over_zero_counts_both_sides),
        cmocka_unit_test(nan_and_signed_zero_are_told_apart_from_values),
        cmocka_unit_test(a_weight_is_found_under_another_name),
        cmocka_unit_test(another_name_and_values_are_two_weights),
        cmocka_unit_test(files_of_weights_are_compared_by_name),
        cmocka_unit_test(the_same_bytes_in_another_shape_are_reshaped),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
