/* windows.c - operators over a dim that is in parts, without the whole being gathered: the
 * places of convolutions and pools, the positions of attention, running sums, the largest.
 * Parts uneven and empty; compared with the same program on one rank, whose operators the
 * corpus compares with PyTorch's.
 */
#include "libexport/base/arena.h"

#include <exg/emit.h>
#include <exg/exec.h>
#include <exg/operator_id_new.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define INPUTS_MAX 4

typedef struct test_program {
    exg_operators *operators;
    exg_program *program;
    exg_builder *b;
    exg_session_input inputs[INPUTS_MAX];
    char names[INPUTS_MAX][4];
    uint32_t input_count;
} test_program;

static test_program t;

static void begin(void)
{
    memset(&t, 0, sizeof(t));
    assert_int_equal(exg_operators_create(&t.operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &t.program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(t.operators, t.program, &t.b, NULL), EXG_OK);
}

static float number(uint32_t i)
{
    return (float)((i * 2654435761u >> 12) % 2003u) / 997.0f - 1;
}

static exg_ref input(const int64_t *sizes, uint32_t rank)
{
    uint32_t at = t.input_count++;
    exg_tensor_meta meta = exg_builder_meta(t.b, EXG_DTYPE_F32, sizes, rank);
    exg_tensor *tensor = &t.inputs[at].tensor;

    snprintf(t.names[at], sizeof(t.names[at]), "x%u", at);
    t.inputs[at].name = t.names[at];
    *tensor = (exg_tensor){.dtype = EXG_DTYPE_F32, .rank = rank};
    memcpy(tensor->sizes, sizes, rank * sizeof(*sizes));
    exg_tensor_set_contiguous(tensor);
    tensor->data = malloc((size_t)exg_tensor_numel(tensor) * sizeof(float) + 1);
    assert_non_null(tensor->data);
    for (int64_t i = 0; i < exg_tensor_numel(tensor); i++) {
        ((float *)tensor->data)[i] = number((uint32_t)i + at * 7919u);
    }
    return exg_builder_input(t.b, t.names[at], &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
}

static void output(exg_argument y)
{
    exg_builder_output(t.b, &y, EXG_OUTPUT_USER, NULL);
}

static void end(void)
{
    exg_error err;

    if (exg_builder_finish(t.b, &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

/* The outputs on so many ranks, inputs along `split` (by input; -1: whole). */
static exg_session *run(uint32_t ranks, const int32_t *split, const exg_partition_summary **placed)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_partition_pattern patterns[INPUTS_MAX];
    exg_session *session = NULL;
    exg_verified verified;
    exg_error err;
    uint32_t count = 0;
    exg_costs costs;

    exg_costs_init(
        &costs, sizeof(costs)); /* messages and work for nothing: the fewest bytes are waited for */
    costs.links[0].message_ns = 0;
    costs.ns_per_touched = 0;
    options.plan = &(exg_plan_options){.size = sizeof(exg_plan_options), .overlap = EXG_OVERLAP_ON};
    options.goal = &(exg_partition_goal){.size = sizeof(exg_partition_goal), .costs = &costs};
    for (uint32_t i = 0; ranks > 1 && i < t.input_count; i++) {
        if (split[i] >= 0) {
            patterns[count++] = (exg_partition_pattern){t.names[i], exg_shard(split[i]),
                                                        EXG_PARTITION_INPUTS, NULL};
        }
    }
    options.mesh = ranks > 1 ? (exg_mesh_shape){1, {ranks}} : options.mesh;
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_PATTERNS,
                                                 .patterns = patterns,
                                                 .pattern_count = count};
    if (exg_verify(t.program, t.operators, &verified, NULL, &err) != EXG_OK ||
        exg_session_create(&verified, &options, &session, &err) != EXG_OK ||
        exg_session_run(session, t.inputs, t.input_count, &err) != EXG_OK) {
        fail_msg("%u ranks: %s: %s (%s)", ranks, err.code, err.message, err.where);
    }
    *placed = exg_session_statistics(session)->partition;
    return session;
}

static void compare(const exg_session *whole, const exg_session *parts, const char *what,
                    uint32_t ranks)
{
    for (uint32_t o = 0; o < exg_session_output_count(whole); o++) {
        const exg_tensor *a = &exg_session_output_at(whole, o)->tensor;
        const exg_tensor *b = &exg_session_output_at(parts, o)->tensor;

        for (int64_t i = 0; i < exg_tensor_numel(a); i++) {
            bool same =
                a->dtype == EXG_DTYPE_I64
                    ? ((const int64_t *)a->data)[i] == ((const int64_t *)b->data)[i]
                    : fabsf(((const float *)a->data)[i] - ((const float *)b->data)[i]) <= 1e-5f ||
                          ((const float *)a->data)[i] == ((const float *)b->data)[i];

            if (!same) {
                fail_msg("%s on %u ranks: output %u, element %lld", what, ranks, o, (long long)i);
            }
        }
    }
}

/* On 2 to 5 ranks; `windows` of moves a rank and gathers as counted, or -1. */
static void check(const char *what, const int32_t *split, bool has_windows, int gathers)
{
    const exg_partition_summary *placed;
    exg_session *whole;

    end();
    whole = run(1, split, &placed);
    for (uint32_t ranks = 2; ranks <= 5; ranks++) {
        exg_session *parts = run(ranks, split, &placed);

        compare(whole, parts, what, ranks);
        if (has_windows && placed->halo_count == 0) {
            fail_msg("%s on %u ranks: no window", what, ranks);
        }
        if (gathers >= 0 && placed->all_gather_count != (uint32_t)gathers) {
            fail_msg("%s on %u ranks: %u gathers", what, ranks, placed->all_gather_count);
        }
        exg_session_destroy(parts);
    }
    exg_session_destroy(whole);
    for (uint32_t i = 0; i < t.input_count; i++) {
        free(t.inputs[i].tensor.data);
    }
    exg_program_destroy(t.program);
    exg_operators_destroy(t.operators);
}

/* ---- places ----------------------------------------------------------------------------- */

static void convolutions_see_beyond_their_part(void **state)
{
    static const struct {
        int64_t size, kernel, stride, padding, dilation, groups;
    } rows[] = {
        {11, 3, 1, 1, 1, 1}, {11, 3, 2, 1, 1, 1}, {12, 5, 1, 0, 1, 2}, {9, 3, 1, 4, 2, 1},
        {7, 1, 1, 0, 1, 1},  {7, 2, 3, 0, 1, 1},  {16, 3, 1, 1, 1, 4}, {5, 5, 1, 2, 1, 1},
        {6, 6, 1, 0, 1, 1},  {3, 2, 1, 3, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t size = rows[i / 2].size, kernel = rows[i / 2].kernel, groups = rows[i / 2].groups;
        bool columns = i % 2 == 1;
        bool windows;
        exg_ref x, w, bias;
        char what[60];

        begin();
        x = input(columns ? (int64_t[]){1, 4, 6, size} : (int64_t[]){1, 4, size, 6}, 4);
        w = input(columns ? (int64_t[]){8, 4 / groups, 3, kernel}
                          : (int64_t[]){8, 4 / groups, kernel, 3},
                  4);
        bias = input((int64_t[]){8}, 1);
        output(exg_arg_ref(
            EMIT(t.b, convolution_default, x, w, bias,
                 columns ? INTS(t.b, 1, rows[i / 2].stride) : INTS(t.b, rows[i / 2].stride, 1),
                 columns ? INTS(t.b, 1, rows[i / 2].padding) : INTS(t.b, rows[i / 2].padding, 1),
                 columns ? INTS(t.b, 1, rows[i / 2].dilation) : INTS(t.b, rows[i / 2].dilation, 1),
                 false, INTS(t.b, 0, 0), exg_arg_int(groups))));
        snprintf(what, sizeof(what), "convolution %zu of %s", i / 2, columns ? "columns" : "rows");
        windows = i / 2 < 7 && i / 2 != 2 && i / 2 != 3; /* else channels in parts may move less */
        check(what, (int32_t[]){columns ? 3 : 2, -1, -1}, windows, windows ? 1 : -1);
    }
}

static void convolutions_of_one_and_three_dims_do_too(void **state)
{
    exg_ref x, w;

    (void)state;
    begin();
    x = input((int64_t[]){1, 3, 13}, 3);
    w = input((int64_t[]){4, 3, 4}, 3);
    output(exg_arg_ref(EMIT(t.b, convolution_default, x, w, EXG_NO_REF, INTS(t.b, 2), INTS(t.b, 3),
                            INTS(t.b, 1), false, INTS(t.b, 0), 1)));
    check("convolution of a line", (int32_t[]){2, -1}, true, 1);
    begin();
    x = input((int64_t[]){1, 2, 9, 5, 4}, 5);
    w = input((int64_t[]){3, 2, 3, 3, 3}, 5);
    output(exg_arg_ref(EMIT(t.b, convolution_default, x, w, EXG_NO_REF, INTS(t.b, 1, 1, 1),
                            INTS(t.b, 1, 1, 1), INTS(t.b, 1, 1, 1), false, INTS(t.b, 0, 0, 0), 1)));
    check("convolution of a body", (int32_t[]){2, -1}, true, 1);
}

/* Rows whose results are cut as the elements are: those of several a element, or of one. Of
 * others the whole is gathered. */
static void transposed_convolutions_spread_beyond_their_part(void **state)
{
    static const struct {
        int64_t size, kernel, stride, padding, dilation, groups, more;
        bool cut; /* on every mesh */
    } rows[] = {
        {12, 3, 1, 1, 1, 1, 0, true},  {11, 3, 1, 0, 1, 2, 0, true},  {33, 4, 1, 1, 2, 1, 0, true},
        {60, 4, 2, 1, 1, 1, 0, true},  {60, 2, 2, 0, 1, 2, 0, true},  {60, 3, 2, 1, 1, 1, 1, true},
        {60, 7, 3, 2, 1, 1, 0, true},  {60, 3, 2, 0, 1, 1, 1, false}, {7, 4, 2, 1, 1, 1, 0, false},
        {3, 4, 2, 1, 1, 1, 0, false},  {2, 1, 1, 0, 1, 1, 0, true},   {9, 3, 3, 0, 1, 1, 0, false},
        {60, 5, 2, 0, 3, 1, 2, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bool columns = i % 2 == 1;
        exg_ref x, w, bias;
        char what[60];

        begin();
        x = input(columns ? (int64_t[]){1, 4, 3, rows[i].size} : (int64_t[]){1, 4, rows[i].size, 3},
                  4);
        w = input(columns ? (int64_t[]){4, 3, 3, rows[i].kernel}
                          : (int64_t[]){4, 3, rows[i].kernel, 3},
                  4);
        bias = input((int64_t[]){3 * rows[i].groups}, 1);
        output(exg_arg_ref(
            EMIT(t.b, convolution_default, x, w, bias,
                 columns ? INTS(t.b, 1, rows[i].stride) : INTS(t.b, rows[i].stride, 1),
                 columns ? INTS(t.b, 1, rows[i].padding) : INTS(t.b, rows[i].padding, 1),
                 columns ? INTS(t.b, 1, rows[i].dilation) : INTS(t.b, rows[i].dilation, 1), true,
                 columns ? INTS(t.b, 0, rows[i].more) : INTS(t.b, rows[i].more, 0),
                 exg_arg_int(rows[i].groups))));
        snprintf(what, sizeof(what), "transposed convolution %zu of %s", i,
                 columns ? "columns" : "rows");
        check(what, (int32_t[]){columns ? 3 : 2, -1, -1}, rows[i].cut, -1);
    }
}

/* A window in which nothing is larger than the padding names its first place inside. */
static void lowest(uint32_t at)
{
    float *data = t.inputs[at].tensor.data;

    for (int64_t i = 0; i < exg_tensor_numel(&t.inputs[at].tensor) / 2; i++) {
        data[i] = -INFINITY;
    }
}

static void pools_see_beyond_their_part(void **state)
{
    static const struct {
        int64_t size, kernel, stride, padding, dilation;
        bool ceil;
    } rows[] = {
        {11, 3, 2, 1, 1, false}, {10, 2, 2, 0, 1, false}, {9, 3, 1, 1, 2, false},
        {8, 3, 3, 0, 1, true},   {7, 3, 2, 1, 1, true},   {5, 4, 1, 2, 1, false},
    };

    (void)state;
    for (size_t i = 0; i < 4 * sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t size = rows[i / 4].size;
        exg_argument kernel = exg_arg_none(), all[2];
        bool columns = i % 2 == 1;
        exg_ref x;

        begin();
        x = input(columns ? (int64_t[]){1, 1, 6, size} : (int64_t[]){1, 1, size, 6}, 4);
        if (i % 4 > 1) {
            lowest(0);
        }
        kernel = columns ? INTS(t.b, 2, rows[i / 4].kernel) : INTS(t.b, rows[i / 4].kernel, 2);
        EMIT_ALL(t.b, max_pool2d_with_indices_default, all, x, kernel,
                 columns ? INTS(t.b, 1, rows[i / 4].stride) : INTS(t.b, rows[i / 4].stride, 1),
                 columns ? INTS(t.b, 1, rows[i / 4].padding) : INTS(t.b, rows[i / 4].padding, 1),
                 columns ? INTS(t.b, 1, rows[i / 4].dilation) : INTS(t.b, rows[i / 4].dilation, 1),
                 rows[i / 4].ceil);
        output(all[0]);
        output(all[1]);
        check("max pool", (int32_t[]){columns ? 3 : 2}, true, 2);
    }
}

static void averages_see_beyond_their_part(void **state)
{
    static const struct {
        int64_t size, kernel, stride, padding;
        bool ceil, counts;
        bool gathered; /* the padding counts otherwise at the edge */
    } rows[] = {
        {11, 3, 2, 1, false, true, false},
        {10, 2, 2, 0, false, false, false},
        {9, 3, 1, 1, false, false, true},
        {8, 3, 3, 0, true, true, true},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        exg_argument divisor = i % 2 == 1 ? exg_arg_int(5) : exg_arg_none();
        exg_ref x;

        begin();
        x = input((int64_t[]){1, 1, rows[i / 2].size, 6}, 4);
        output(exg_arg_ref(EMIT(t.b, avg_pool2d_default, x, INTS(t.b, rows[i / 2].kernel, 2),
                                INTS(t.b, rows[i / 2].stride, 1), INTS(t.b, rows[i / 2].padding, 1),
                                rows[i / 2].ceil, rows[i / 2].counts, divisor)));
        check("average pool", (int32_t[]){2}, i % 2 == 1 || !rows[i / 2].gathered, 1);
    }
}

static void padding_stays_where_it_lies(void **state)
{
    static const int64_t rows[][3] = {{17, 1, 2}, {17, 3, 0}, {17, -2, 1},  {17, 0, -3},
                                      {17, 9, 9}, {5, 11, 1}, {17, -1, -1}, {2, 1, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int64_t *row = rows[i];
        bool columns = i % 2 == 1;
        exg_ref x;

        begin();
        x = input(columns ? (int64_t[]){2, 6, row[0]} : (int64_t[]){2, row[0], 6}, 3);
        output(exg_arg_ref(
            EMIT(t.b, constant_pad_nd_default, x,
                 columns ? INTS(t.b, row[1], row[2], 2, -1) : INTS(t.b, 1, 2, row[1], row[2]), 7)));
        check("padding", (int32_t[]){columns ? 2 : 1}, i < 4, -1);
    }
}

/* By reflection, by the last element, by the other end: in parts that an edge lies in, or all of,
 * or neither. The other dim is padded too, in parts of which it is not. */
static void edges_stay_where_they_lie(void **state)
{
    static const int64_t rows[][3] = {{17, 1, 2}, {17, 3, 0}, {17, 0, 4}, {17, 16, 16},
                                      {5, 4, 1},  {5, 1, 4},  {2, 1, 1},  {17, 9, 3}};

    (void)state;
    for (size_t i = 0; i < 3 * sizeof(rows) / sizeof(rows[0]); i++) {
        const int64_t *row = rows[i / 3];
        bool columns = i % 2 == 1;
        exg_ref x;
        char what[40];

        begin();
        x = input(columns ? (int64_t[]){1, 6, row[0]} : (int64_t[]){1, row[0], 6}, 3);
        output(exg_arg_ref(
            EMIT(t.b, edge_pad, x,
                 columns ? INTS(t.b, row[1], row[2], 2, 1) : INTS(t.b, 1, 2, row[1], row[2]),
                 exg_arg_int((int64_t)(i % 3)))));
        snprintf(what, sizeof(what), "edges %zu of %s", i, columns ? "columns" : "rows");
        check(what, (int32_t[]){columns ? 2 : 1}, i / 3 < 3, -1);
    }
}

/* Every rank has some of what is reduced, though not of the other dims. */
static void the_largest_is_that_of_each_part(void **state)
{
    (void)state;
    for (uint32_t least = 0; least < 2; least++) {
        exg_ref x;

        begin();
        x = input((int64_t[]){1, 2, 20}, 3);
        output(exg_arg_ref(least == 1 ? EMIT(t.b, amin_default, x, INTS(t.b, 2, 0))
                                      : EMIT(t.b, amax_default, x, INTS(t.b, 2, 0))));
        check("the largest", (int32_t[]){2}, false, 0);
    }
}

/* Where every result is of as many elements. */
static void adaptive_averages_stay_in_parts(void **state)
{
    static const int64_t rows[][2] = {{12, 6}, {15, 5}, {7, 7}, {8, 2}, {11, 4}, {3, 6}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t size = rows[i][0], parts = rows[i][1];
        bool columns = i % 2 == 1;
        exg_ref x;

        begin();
        x = input(columns ? (int64_t[]){2, 6, size} : (int64_t[]){2, size, 6}, 3);
        output(exg_arg_ref(EMIT(t.b, _adaptive_avg_pool2d_default, x,
                                columns ? INTS(t.b, 4, parts) : INTS(t.b, parts, 4))));
        check("adaptive pool", (int32_t[]){columns ? 2 : 1}, i < 3, -1);
    }
}

/* ---- positions -------------------------------------------------------------------------- */

typedef enum mask { NO_MASK, CAUSAL, ADDED, HIDING } mask;

/* `heads` of queries, a third as many of keys where that goes. */
static void attend(int64_t heads, int64_t queries, int64_t keys, mask kind, exg_argument scale)
{
    int64_t shared = heads % 3 == 0 ? heads / 3 : heads;

    exg_ref q, k, v;
    exg_argument hides = exg_arg_none();
    char what[60];

    begin();
    q = input((int64_t[]){1, heads, queries, 4}, 4);
    k = input((int64_t[]){1, shared, keys, 4}, 4);
    v = input((int64_t[]){1, shared, keys, 5}, 4);
    if (kind == ADDED || kind == HIDING) {
        exg_ref m = input((int64_t[]){queries, keys}, 2);

        hides = exg_arg_ref(kind == ADDED ? m : EMIT(t.b, gt_Scalar, m, 0.7));
    }
    output(exg_arg_ref(EMIT(t.b, scaled_dot_product_attention_default, q, k, v, hides, 0.0,
                            kind == CAUSAL, scale, shared != heads)));
    snprintf(what, sizeof(what), "attention of %d heads, %d to %d, mask %d", (int)heads,
             (int)queries, (int)keys, (int)kind);
    check(what, (int32_t[]){2, 2, 2, -1}, true, 1);
}

static void attention_goes_around_in_blocks(void **state)
{
    static const int64_t lengths[][2] = {{12, 12}, {11, 11}, {6, 6}, {5, 13}, {13, 5}, {3, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int kind = NO_MASK; kind <= HIDING; kind++) {
            for (int64_t heads = 1; heads <= 3; heads += 2) {
                attend(heads, lengths[i][0], lengths[i][1], (mask)kind,
                       i % 2 == 0 ? exg_arg_none() : exg_arg_float(0.3));
            }
        }
    }
}

/* ---- along a dim ------------------------------------------------------------------------ */

static void the_largest_of_parts_are_those_of_the_whole(void **state)
{
    exg_argument all[2];
    exg_ref x;

    (void)state;
    for (int largest = 0; largest < 2; largest++) {
        begin();
        x = input((int64_t[]){3, 17, 2}, 3);
        EMIT_ALL(t.b, topk_default, all, x, 3, 1, largest == 1, true);
        output(all[0]);
        output(all[1]);
        check("topk", (int32_t[]){1}, false, -1);
    }
    begin();
    x = input((int64_t[]){3, 19}, 2);
    output(exg_arg_ref(EMIT(t.b, argmax_default, x, 1, true)));
    output(exg_arg_ref(EMIT(t.b, argmin_default, x, 1, false)));
    EMIT_ALL(t.b, max_dim, all, x, 1, false);
    output(all[0]);
    output(all[1]);
    check("the largest", (int32_t[]){1}, false, 6); /* two each */
}

static void running_products_go_on_where_others_end(void **state)
{
    exg_ref x;

    (void)state;
    begin();
    x = input((int64_t[]){3, 13}, 2);
    output(exg_arg_ref(EMIT(t.b, cumprod_default, x, 1)));
    output(exg_arg_ref(EMIT(t.b, cumsum_default, x, 1)));
    check("running", (int32_t[]){1}, false, 4);
}

/* Rows of a table's columns lie apart, also where a rank has as few of these as an element is. */
static void rows_are_looked_up_where_they_lie(void **state)
{
    static const int64_t widths[] = {2, 4, 8, 10, 40};

    (void)state;
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        exg_ref ids, table;

        begin();
        table = input((int64_t[]){32, widths[i]}, 2);
        ids = EMIT(t.b, arange_start_step, 0, 31, 2, DTYPE(EXG_DTYPE_I64));
        output(exg_arg_ref(EMIT(t.b, embedding_default, table, ids)));
        check("rows", (int32_t[]){1}, false, -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions_see_beyond_their_part),
        cmocka_unit_test(convolutions_of_one_and_three_dims_do_too),
        cmocka_unit_test(transposed_convolutions_spread_beyond_their_part),
        cmocka_unit_test(pools_see_beyond_their_part),
        cmocka_unit_test(adaptive_averages_stay_in_parts),
        cmocka_unit_test(rows_are_looked_up_where_they_lie),
        cmocka_unit_test(padding_stays_where_it_lies),
        cmocka_unit_test(edges_stay_where_they_lie),
        cmocka_unit_test(the_largest_is_that_of_each_part),
        cmocka_unit_test(averages_see_beyond_their_part),
        cmocka_unit_test(attention_goes_around_in_blocks),
        cmocka_unit_test(the_largest_of_parts_are_those_of_the_whole),
        cmocka_unit_test(running_products_go_on_where_others_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
