/* uses.c - which values a graph names, and whether they can be counted with. */
#include "libexport/program/uses.h"
#include "libexport/base/arena.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MOST (INT64_MAX / 16) /* that any product of sizes and strides stays below */

/* Numbers alone that are not below 0, and whose products are small enough. */
static void metas_are_counted_with_where_they_fit(void **state)
{
    static const struct {
        uint32_t rank;
        int64_t sizes[3], strides[3], offset;
        bool fits;
    } rows[] = {
        {0, {0}, {0}, 0, true},
        {2, {2, 3}, {3, 1}, 0, true},
        {2, {0, 3}, {3, 1}, 5, true},
        {1, {-1}, {1}, 0, false},
        {1, {1}, {-1}, 0, false},
        {1, {2}, {0}, 0, true},
        {1, {2}, {1}, -1, false},
        {1, {MOST - 1}, {1}, 0, true},
        {1, {MOST}, {1}, 0, false},
        {1, {MOST}, {0}, 0, false}, /* of no stride there are as many numbers */
        {1, {2}, {(MOST - 1) / 2}, 0, true},
        {1, {2}, {(MOST + 1) / 2}, 0, false},
        {2, {2, 2}, {1, (MOST + 3) / 4}, 0, false}, /* the widest stride, wherever it is */
        {2, {2, 2}, {(MOST + 3) / 4, 1}, 0, false},
        {2, {INT64_C(1) << 32, INT64_C(1) << 32}, {0, 0}, 0, false},
        {3, {INT64_C(1) << 32, 0, INT64_C(1) << 32}, {0, 0, 0}, 0, false}, /* a 0 counts as 1 */
        {1, {1}, {1}, MOST - 1, true},
        {1, {1}, {1}, MOST, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_sym_int sizes[3], strides[3];
        exg_tensor_meta meta = {.dtype = EXG_DTYPE_F32,
                                .rank = rows[i].rank,
                                .sizes = sizes,
                                .strides = strides,
                                .storage_offset = exg_sym_int_of(rows[i].offset)};

        for (uint32_t d = 0; d < rows[i].rank; d++) {
            sizes[d] = exg_sym_int_of(rows[i].sizes[d]);
            strides[d] = exg_sym_int_of(rows[i].strides[d]);
        }
        if (exg_meta_is_countable(&meta) != rows[i].fits) {
            fail_msg("row %zu", i);
        }
    }
}

/* x goes into a node, whose result y the graph gives; a value of `held` may be nowhere. */
typedef struct small {
    exg_value values[3];
    exg_argument x, y, none, held;
    exg_named_argument input[2];
    exg_argument outputs[2];
    exg_node node;
    exg_graph graph;
} small;

static void make(small *s, exg_tensor_meta *meta)
{
    *s = (small){.values = {{.name = "x", .tensor = meta},
                            {.name = "y", .tensor = meta},
                            {.name = "z", .tensor = meta}},
                 .x = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0},
                 .y = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 1},
                 .none = {.kind = EXG_ARGUMENT_OPTIONAL_TENSOR, .as_tensor = EXG_NO_VALUE}};
    s->input[0] = (exg_named_argument){"self", s->x, EXG_KIND_POSITIONAL};
    s->input[1] = (exg_named_argument){"other", s->none, EXG_KIND_POSITIONAL};
    s->outputs[0] = s->y;
    s->node = (exg_node){.target = "torch.ops.aten.relu.default",
                         .inputs = s->input,
                         .input_count = 2,
                         .outputs = s->outputs,
                         .output_count = 1};
    s->graph = (exg_graph){.inputs = &s->x,
                           .input_count = 1,
                           .nodes = &s->node,
                           .node_count = 1,
                           .values = s->values,
                           .value_count = 3,
                           .outputs = &s->y,
                           .output_count = 1};
}

static void expect_planned(small *s, const char *name)
{
    const exg_program program = {.graph = &s->graph};
    exg_error err;
    exg_status status = exg_check_specialized(&program, &err);

    assert_int_equal(status, name == NULL ? EXG_OK : EXG_USAGE);
    if (name != NULL) {
        char quoted[8] = "'";

        assert_string_equal(err.code, "PLN-003");
        assert_non_null(strstr(err.message, strcat(strcat(quoted, name), "'")));
        assert_non_null(strstr(err.fix, "exg_specialize"));
    }
}

static void what_is_planned_has_sizes_that_are_numbers(void **state)
{
    exg_sym_int numbers[] = {exg_sym_int_of(2)}, symbols[] = {{"s0", 2, true}};
    exg_sym_int negative[] = {exg_sym_int_of(-2)};
    exg_tensor_meta good = {.rank = 1, .sizes = numbers, .strides = numbers};
    exg_tensor_meta bad[] = {{.rank = 1, .sizes = symbols, .strides = numbers},
                             {.rank = 1, .sizes = negative, .strides = numbers}};
    small s;

    (void)state;
    make(&s, &good);
    expect_planned(&s, NULL);
    for (int i = 0; i < 3; i++) { /* of a symbol, of less than nothing, no tensor */
        exg_tensor_meta *meta = i < 2 ? &bad[i] : NULL;

        make(&s, &good);
        s.values[2].tensor = meta; /* which nothing names */
        expect_planned(&s, NULL);
        s.values[0].tensor = meta; /* that a node takes */
        expect_planned(&s, "x");
        make(&s, &good);
        s.values[1].tensor = meta; /* that it gives */
        s.graph.output_count = 0;
        expect_planned(&s, "y");
        make(&s, &good);
        s.values[2].tensor = meta; /* that the graph gives */
        s.y.as_tensor = 2;
        expect_planned(&s, "z");
    }
}

static void uses_are_counted(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_value_id list[] = {0, 2, 0};
    uint32_t *uses;
    small s;

    (void)state;
    make(&s, NULL);
    uses = exg_graph_count_uses(arena, &s.graph);
    assert_int_equal(uses[0], 1);
    assert_int_equal(uses[1], 1);
    assert_int_equal(uses[2], 0);
    s.input[1].arg = (exg_argument){.kind = EXG_ARGUMENT_TENSORS, .count = 3, .as_tensors = list};
    uses = exg_graph_count_uses(arena, &s.graph);
    assert_int_equal(uses[0], 3);
    assert_int_equal(uses[1], 1);
    assert_int_equal(uses[2], 1);
    exg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metas_are_counted_with_where_they_fit),
        cmocka_unit_test(what_is_planned_has_sizes_that_are_numbers),
        cmocka_unit_test(uses_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
