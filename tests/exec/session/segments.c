/* segments.c - programs whose sizes and branches lie in the data: alone and over ranks
 * against PyTorch's answers; plans found again; loops that do not end; assertions.
 */
#include "tests/exec/session/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROW(program, data)                                                                         \
    {                                                                                              \
        program ".pt2", data ".inputs.safetensors", data ".expected.safetensors", 1e-4, 1e-5       \
    }

static const fixture dynamic[] = {
    ROW("branch", "branch"),      ROW("branch.core", "branch"),     ROW("loops", "loops"),
    ROW("loops.core", "loops"),   ROW("places", "places"),          ROW("places.core", "places"),
    ROW("elements", "elements"),  ROW("elements.core", "elements"), ROW("slices", "slices"),
    ROW("slices.core", "slices"), ROW("slopes", "slopes"),          ROW("suppress", "suppress"),
    ROW("masks", "masks"),        ROW("examples", "examples"),
};

static const fixture *named(const char *program)
{
    return fixture_among(dynamic, sizeof(dynamic) / sizeof(dynamic[0]), program);
}

static void agrees_on_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(dynamic) / sizeof(dynamic[0]); i++) {
        for (uint32_t ranks = 1; ranks <= 3; ranks++) {
            for (int mode = EXG_PARTITION_REPLICATE; mode <= EXG_PARTITION_AUTO; mode++) {
                exg_session_options options = {.size = sizeof(options), .mesh = {1, {ranks}}};
                char what[40];
                exg_session *session;
                loaded l;

                options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                             .mode = (exg_partition_mode)mode};
                if (mode == EXG_PARTITION_PATTERNS) {
                    continue;
                }
                load_fixture(&dynamic[i], &l);
                session = open_session(&l, &options);
                snprintf(what, sizeof(what), "%u ranks, placement %d", ranks, mode);
                run_fixture(&l, session);
                compare_with_expected(&l, session, what);
                exg_session_destroy(session);
                unload_fixture(&l);
            }
        }
    }
}

/* ---- inputs of a test's own --------------------------------------------------------------- */

static exg_session_input whole(const char *name, int64_t *number)
{
    return (exg_session_input){.name = name,
                               .tensor = {.data = number, .dtype = EXG_DTYPE_I64, .rank = 0}};
}

static uint32_t plans(exg_session *session)
{
    return exg_session_statistics(session)->plan_count;
}

/* ---- torch.vmap ---------------------------------------------------------------------------- */

#define MARK(name) "torch._functorch.predispatch." name

/* With nodes[at] another mark or operator. */
static void marks_of_vmap_that_do_not_match_are_refused(void **state)
{
    static const struct {
        uint32_t at;
        const char *target, *code;
    } rows[] = {
        {4, MARK("lazy_load_decompositions"), "GRF-013"}, /* an example without a call */
        {5, MARK("lazy_load_decompositions"), "GRF-010"}, /* makes a value */
        {5, MARK("_remove_batch_dim"), "GRF-010"},
        {8, MARK("_add_batch_dim"), "GRF-010"},
        {8, "torch.ops.aten.alias.default", "GRF-010"},  /* one example as an output */
        {9, MARK("_vmap_increment_nesting"), "GRF-010"}, /* of how many? */
        {30, MARK("lazy_load_decompositions"), "GRF-010"},
        {51, "torch.ops.aten.alias.default", "GRF-010"},
    };
    float x[12] = {0};
    float y[8] = {0};
    const exg_session_input inputs[] = {floats("x", x, 3, 4), floats("y", y, 2, 4)};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_session_options options = {.size = sizeof(options), .thread_count = 1};
        exg_session *session = NULL;
        exg_status status;
        exg_error err;
        loaded l;

        load_fixture(named("examples.pt2"), &l);
        l.program->graph->nodes[rows[i].at].target = rows[i].target;
        status = exg_session_create(&l.verified, &options, &session, &err);
        if (status == EXG_OK) {
            status = exg_session_run(session, inputs, 2, &err);
        }
        assert_int_not_equal(status, EXG_OK);
        assert_string_equal(err.code, rows[i].code);
        exg_session_destroy(session);
        unload_fixture(&l);
    }
}

/* Calls in calls, which begin before the first node and end behind the last one. */
static void calls_of_vmap_are_not_nested_without_end(void **state)
{
    static exg_named_argument begin[] = {
        {"", {.kind = EXG_ARGUMENT_INT, .as_int = 3}, EXG_KIND_POSITIONAL},
        {"", {.kind = EXG_ARGUMENT_STRING, .as_string = "error"}, EXG_KIND_POSITIONAL},
    };
    enum { DEEP = 1000 };
    static exg_node nodes[2 * DEEP + 64];
    float x[12] = {0};
    float y[8] = {0};
    const exg_session_input inputs[] = {floats("x", x, 3, 4), floats("y", y, 2, 4)};
    exg_session *session = NULL;
    exg_graph *graph;
    exg_status status;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(named("examples.pt2"), &l);
    graph = l.program->graph;
    assert_true(graph->node_count < 64);
    for (uint32_t n = 0; n < DEEP; n++) {
        nodes[n] = (exg_node){
            .target = MARK("_vmap_increment_nesting"), .inputs = begin, .input_count = 2};
        nodes[DEEP + graph->node_count + n] = (exg_node){.target = MARK("_vmap_decrement_nesting")};
    }
    memcpy(nodes + DEEP, graph->nodes, graph->node_count * sizeof(*nodes));
    graph->nodes = nodes;
    graph->node_count += 2 * DEEP;
    status = exg_session_create(&l.verified, NULL, &session, &err);
    status = status == EXG_OK ? exg_session_run(session, inputs, 2, &err) : status;
    assert_int_equal(status, EXG_LIMIT);
    assert_string_equal(err.code, "LIM-001");
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* ---- plans --------------------------------------------------------------------------------- */

/* ones(k, 2) * k, x[:k] / max|x|, arange(k), x[:1] + max|x| */
static void check_elements(exg_session *session, float *x, int64_t k)
{
    const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("count", &k)};
    const exg_tensor *rows;
    float most = 0;
    exg_error err;

    for (int i = 0; i < 12; i++) {
        most = fmaxf(most, fabsf(x[i]));
    }
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_OK);
    assert_int_equal(exg_session_output_at(session, 0)->tensor.sizes[0], k);
    rows = &exg_session_output_at(session, 1)->tensor;
    assert_int_equal(rows->sizes[0], k);
    for (int64_t i = 0; i < 4 * k; i++) {
        assert_true(fabsf(((const float *)rows->data)[i] - x[i] / most) < 1e-6f);
    }
    for (int64_t i = 0; i < k; i++) {
        assert_int_equal(((const int64_t *)exg_session_output_at(session, 2)->tensor.data)[i], i);
    }
}

static void plans_are_found_again_by_the_numbers(void **state)
{
    float x[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, 12};
    exg_session *session;
    uint32_t made;
    loaded l;

    (void)state;
    load_fixture(named("elements.pt2"), &l);
    session = open_session(&l, NULL);
    check_elements(session, x, 1);
    check_elements(session, x, 2);
    check_elements(session, x, 3);
    made = plans(session);
    x[4] = 40; /* an element that is no size makes no plan */
    for (int again = 0; again < 3; again++) {
        for (int64_t k = 1; k <= 3; k++) {
            check_elements(session, x, k);
        }
    }
    assert_int_equal(plans(session), made);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void running_again_allocates_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(dynamic) / sizeof(dynamic[0]); i++) {
        const exg_session_stats *first;
        const exg_session_stats *later;
        exg_session *session;
        loaded l;

        load_fixture(&dynamic[i], &l);
        session = open_session(&l, NULL);
        run_fixture(&l, session);
        first = exg_session_statistics(session);
        for (int again = 0; again < 3; again++) {
            run_fixture(&l, session);
        }
        later = exg_session_statistics(session);
        assert_int_equal(later->plan_count, first->plan_count);
        assert_int_equal(later->memory_bytes, first->memory_bytes);
        exg_session_destroy(session);
        unload_fixture(&l);
    }
}

/* However many numbers come by, plans for a few of them are kept. */
static void plans_for_old_numbers_go(void **state)
{
    const exg_session_stats *stats;
    exg_session *session;
    uint64_t most = 0;
    loaded l;

    (void)state;
    load_fixture(named("loops.pt2"), &l); /* loops: the start is carried, not planned for */
    session = open_session(&l, NULL);
    for (int64_t start = 0; start < 200; start++) {
        float x[12] = {1, 2, 3};
        int64_t from = start - 190;
        const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("start", &from)};
        exg_error err;

        assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_OK);
        stats = exg_session_statistics(session);
        most = start == 0 ? stats->memory_bytes : most;
        assert_true(stats->memory_bytes <= 2 * most);
    }
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* What is known before a run ends where a number is needed, and says so. */
static void a_plan_tells_what_it_waits_for(void **state)
{
    static const struct {
        const char *program, *word;
    } rows[] = {{"branch.pt2", "'cond'"},
                {"loops.pt2", "the loop 'while_loop'"},
                {"places.pt2", "'nonzero'"},
                {"elements.pt2", "'item'"}};
    const fixture plain = {"mlp.pt2", "mlp.inputs.safetensors", "mlp.expected.safetensors", 1, 1};
    exg_session *session;
    loaded l;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        load_fixture(named(rows[i].program), &l);
        session = open_session(&l, NULL);
        assert_null(exg_session_break_reason(session));
        run_fixture(&l, session);
        assert_non_null(exg_session_break_reason(session));
        assert_non_null(strstr(exg_session_break_reason(session), rows[i].word));
        exg_session_destroy(session);
        unload_fixture(&l);
    }
    load_fixture(&plain, &l);
    session = open_session(&l, NULL);
    run_fixture(&l, session);
    assert_null(exg_session_break_reason(session));
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* Both sides of branches and the iterations of loops are planned ahead of a run, which then
 * makes no plan that was not among them; what is left out is told. */
static void what_a_run_plans_was_proved_before(void **state)
{
    float x[12] = {1, -2, 3};
    int64_t start = 2;
    const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("start", &start)};
    exg_session_options options = {.size = sizeof(options), .mesh = {1, {3}}};
    uint32_t ahead = 0;
    loaded l;

    (void)state;
    options.partition =
        &(exg_partition_options){.size = sizeof(exg_partition_options), .mode = EXG_PARTITION_DATA};
    load_fixture(named("loops.pt2"), &l); /* loops, one with a branch inside */
    for (int runs = 0; runs < 2; runs++) {
        const exg_session_stats *stats;
        exg_session *session;
        exg_error err;

        options.plan_only = options.check_ranks = runs == 0;
        session = open_session(&l, &options);
        assert_int_equal(runs == 0 ? exg_session_prepare(session, inputs, 2, &err)
                                   : exg_session_run(session, inputs, 2, &err),
                         EXG_OK);
        assert_null(exg_session_unchecked(session));
        stats = exg_session_statistics(session);
        assert_true(runs == 0 || (stats->plan_count > 4 && stats->plan_count <= ahead));
        ahead = stats->plan_count;
        exg_session_destroy(session);
    }
    unload_fixture(&l);
}

/* carry = carry / 2 + row, steps of 2 * carry; y = y / 2 + x three times from there: carry and
 * the sum of the steps, y * 3. */
static void check_slopes(exg_session *session, int64_t rows, uint64_t round)
{
    float x[16 * 4];
    double steps[16 * 4];
    const exg_session_input input = floats("x", x, rows, 4);
    const float *sums;
    const float *y;
    exg_error err;

    for (int64_t i = 0; i < rows * 4; i++) {
        x[i] = (float)((i * 7 + (int64_t)round * 3) % 11) - 5;
    }
    assert_int_equal(exg_session_run(session, &input, 1, &err), EXG_OK);
    sums = exg_session_output_at(session, 0)->tensor.data;
    y = exg_session_output_at(session, 1)->tensor.data;
    for (int64_t c = 0; c < 4; c++) {
        double carry = 0;
        double sum = 0;

        for (int64_t r = 0; r < rows; r++) {
            carry = carry * 0.5 + x[r * 4 + c];
            steps[r * 4 + c] = carry * 2;
            sum += carry * 2;
        }
        assert_true(fabs(sums[c] - (carry + sum)) < 1e-4);
    }
    for (int64_t i = 0; i < rows * 4; i++) {
        double want = steps[i];

        for (int again = 0; again < 3; again++) {
            want = want * 0.5 + x[i];
        }
        assert_true(fabs(y[i] - want * 3) < 1e-4);
    }
}

/* Runs of several lengths in turn, each with memory of its own: on devices too, where from the
 * third of a length on they are recorded. */
static void loops_are_as_long_as_what_they_cut(void **state)
{
    static const int64_t rows[] = {3, 3, 3, 9, 3, 3, 3, 2, 16, 9, 3, 2, 16, 3};

    (void)state;
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        exg_session_options options = {.size = sizeof(options), .mesh = {1, {ranks}}};
        exg_session *session;
        loaded l;

        load_fixture(named("slopes.pt2"), &l);
        session = open_session(&l, &options);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            check_slopes(session, rows[i], i);
        }
        exg_session_destroy(session);
        unload_fixture(&l);
    }
}

/* ---- what ends a run ------------------------------------------------------------------------ */

static void a_loop_that_goes_on_is_stopped(void **state)
{
    exg_session_options options = {.size = sizeof(options), .loop_limit = 8};
    float x[12] = {1, 2, 3};
    int64_t start = 5;
    const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("start", &start)};
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(named("loops.pt2"), &l);
    session = open_session(&l, &options);
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_OK); /* 1 + 3 + 3 */
    start = -1000000000;
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_LIMIT);
    assert_string_equal(err.code, "RUN-004");
    assert_non_null(strstr(err.where, "while_loop"));
    assert_int_equal(exg_session_output_count(session), 0);
    start = 5;
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_OK);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void check_refused(const char *code, float *x, int64_t k, uint32_t ranks,
                          const char *program)
{
    exg_session_options options = {.size = sizeof(options), .mesh = {1, {ranks}}};
    float good[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, 12};
    const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("count", &k)};
    exg_session *session;
    exg_error err;
    loaded l;

    load_fixture(named(program), &l);
    session = open_session(&l, &options);
    check_elements(session, good, 2);
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_MALFORMED);
    if (strcmp(err.code, code) != 0) {
        fail_msg("%s, not %s: %s", err.code, code, err.message);
    }
    assert_true(err.where[0] != '\0');
    assert_non_null(strstr(err.source, ".py:"));
    check_elements(session, good, 3);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void assertions_end_the_run_and_nothing_else(void **state)
{
    float good[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, 12};
    float infinite[12] = {1, 2, (float)INFINITY};

    static const char *const programs[] = {"elements.pt2", "elements.core.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        for (uint32_t ranks = 1; ranks <= 2; ranks++) {
            check_refused("RUN-007", good, 0, ranks, programs[i]);
            check_refused("RUN-007", good, 4, ranks, programs[i]);
            check_refused("RUN-007", good, -1, ranks, programs[i]);
            check_refused("RUN-007", good, INT64_MAX, ranks, programs[i]);
            check_refused("RUN-007", good, INT64_MIN, ranks, programs[i]);
            check_refused("RUN-006", infinite, 2, ranks, programs[i]);
        }
    }
}

/* Without the range that the file states, its own assertions say no. */
static void assertions_hold_without_ranges(void **state)
{
    float x[12] = {1, 2, 3};
    int64_t k = 7;
    const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("count", &k)};
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(named("elements.pt2"), &l);
    l.program->range_constraint_count = 0;
    session = open_session(&l, NULL);
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "RUN-006");
    assert_non_null(strstr(err.message, "u0 <= 3"));
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* ---- what a file may say wrongly ------------------------------------------------------------- */

static exg_node *find_node(exg_graph *graph, const char *part)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (strstr(graph->nodes[n].target, part) != NULL) {
            return &graph->nodes[n];
        }
    }
    fail_msg("no %s", part);
    return NULL;
}

static void drop_input(exg_node *node, exg_graph *graph)
{
    (void)node;
    graph->input_count--;
}

static void drop_output(exg_node *node, exg_graph *graph)
{
    (void)node;
    graph->output_count--;
}

static void drop_operands(exg_node *node, exg_graph *graph)
{
    (void)graph;
    node->input_count--;
}

static void number_among_outputs(exg_node *node, exg_graph *graph)
{
    (void)node;
    graph->outputs[0] = (exg_argument){.kind = EXG_ARGUMENT_INT, .as_int = 3};
}

static void first_operand_twice(exg_node *node, exg_graph *graph)
{
    exg_argument *list = &node->inputs[2].arg;

    (void)graph;
    if (list->kind == EXG_ARGUMENT_TENSORS && list->count > 1) {
        list->as_tensors[1] = list->as_tensors[0];
    }
}

/* The gate says no to most of these; what runs past it ends in a status, never worse. */
static void graphs_that_disagree_with_operands_are_refused(void **state)
{
    static void (*const spoil[])(exg_node * node, exg_graph * graph) = {
        drop_input, drop_output, drop_operands, number_among_outputs, first_operand_twice};
    static const char *const targets[] = {"while_loop", "scan", "map_impl"};

    (void)state;
    for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++) {
        for (size_t i = 0; i < sizeof(spoil) / sizeof(spoil[0]); i++) {
            float x[12] = {1, 2, 3};
            int64_t start = 1;
            const exg_session_input inputs[] = {floats("x", x, 3, 4), whole("start", &start)};
            exg_session *session;
            exg_error err;
            exg_verified unused;
            exg_node *node;
            uint32_t g = 0;
            loaded l;

            load_fixture(named("loops.pt2"), &l);
            node = find_node(l.program->graph, targets[t]);
            while (node->inputs[g + 1].arg.kind == EXG_ARGUMENT_GRAPH) {
                g++;
            }
            spoil[i](node, node->inputs[g].arg.as_graph->graph);
            if (exg_verify(l.program, l.operators, &unused, NULL, &err) == EXG_OK) {
                assert_true(spoil[i] == first_operand_twice || spoil[i] == number_among_outputs);
            }
            session = open_session(&l, NULL); /* as if it had passed */
            if (exg_session_run(session, inputs, 2, &err) == EXG_OK) {
                assert_true(spoil[i] == first_operand_twice);
            }
            exg_session_destroy(session);
            unload_fixture(&l);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_on_ranks),
        cmocka_unit_test(marks_of_vmap_that_do_not_match_are_refused),
        cmocka_unit_test(calls_of_vmap_are_not_nested_without_end),
        cmocka_unit_test(plans_are_found_again_by_the_numbers),
        cmocka_unit_test(running_again_allocates_nothing),
        cmocka_unit_test(plans_for_old_numbers_go),
        cmocka_unit_test(a_plan_tells_what_it_waits_for),
        cmocka_unit_test(what_a_run_plans_was_proved_before),
        cmocka_unit_test(loops_are_as_long_as_what_they_cut),
        cmocka_unit_test(a_loop_that_goes_on_is_stopped),
        cmocka_unit_test(assertions_end_the_run_and_nothing_else),
        cmocka_unit_test(assertions_hold_without_ranges),
        cmocka_unit_test(graphs_that_disagree_with_operands_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
