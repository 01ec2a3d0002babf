/* session.c - what the planner saves changes no bit: memory, fusion, plans kept. */
#include "tests/exec/session/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void *run_with(const loaded *l, exg_plan_options plan, uint32_t threads, uint32_t runs,
                      uint64_t *length, exg_plan_summary *summary)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = threads};
    exg_session *session;
    void *bytes;

    plan.size = sizeof(plan);
    options.plan = &plan;
    session = open_session(l, &options);
    for (uint32_t r = 0; r < runs; r++) {
        run_fixture(l, session);
    }
    if (runs == 1) {
        compare_with_expected(l, session,
                              plan.no_fusion  ? "no fusion"
                              : plan.no_reuse ? "no reuse"
                                              : "");
    }
    bytes = result_bytes(session, length);
    *summary = *exg_session_statistics(session)->plan;
    exg_session_destroy(session);
    return bytes;
}

static void check_same(const loaded *l, const void *a, uint64_t a_length, const void *b,
                       uint64_t b_length, const char *what)
{
    if (a_length != b_length || memcmp(a, b, a_length) != 0) {
        fail_msg("%s: %s changes results", l->fixture->program, what);
    }
}

static void each_fixture(void (*check)(const loaded *l))
{
    for (uint32_t i = 0; i < fixture_count; i++) {
        loaded l;

        load_fixture(&fixtures[i], &l);
        check(&l);
        unload_fixture(&l);
    }
}

static void check_reuse(const loaded *l)
{
    exg_plan_summary with;
    exg_plan_summary without;
    uint64_t a_length;
    uint64_t b_length;
    void *a = run_with(l, (exg_plan_options){0}, 1, 1, &a_length, &with);
    void *b = run_with(l, (exg_plan_options){.no_reuse = true}, 1, 1, &b_length, &without);

    check_same(l, a, a_length, b, b_length, "reuse of memory");
    assert_int_equal(without.in_place_count, 0);
    assert_true(with.arena_bytes <= without.arena_bytes);
    free(a);
    free(b);
}

static void reuse_of_memory_changes_no_bit(void **state)
{
    (void)state;
    each_fixture(check_reuse);
}

static void check_fusion(const loaded *l)
{
    exg_plan_summary with;
    exg_plan_summary without;
    uint64_t a_length;
    uint64_t b_length;
    void *a = run_with(l, (exg_plan_options){0}, 1, 1, &a_length, &with);
    void *b = run_with(l, (exg_plan_options){.no_fusion = true, .no_reuse = true}, 1, 1, &b_length,
                       &without);

    assert_int_equal(without.fused_count, 0);
    assert_true(with.step_count <= without.step_count);
    check_same(l, a, a_length, b, b_length, "fusion");
    free(a);
    free(b);
}

static void fusion_changes_no_bit(void **state)
{
    (void)state;
    each_fixture(check_fusion);
}

static void check_threads(const loaded *l)
{
    exg_plan_summary summary;
    uint64_t a_length;
    uint64_t b_length;
    void *a = run_with(l, (exg_plan_options){0}, 1, 1, &a_length, &summary);

    for (uint32_t threads = 2; threads <= 3; threads++) {
        void *b = run_with(l, (exg_plan_options){0}, threads, 1, &b_length, &summary);

        check_same(l, a, a_length, b, b_length, "the number of threads");
        free(b);
    }
    free(a);
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    each_fixture(check_threads);
}

static void check_repeats(const loaded *l)
{
    exg_plan_summary summary;
    uint64_t a_length;
    uint64_t b_length;
    void *a = run_with(l, (exg_plan_options){0}, 2, 3, &a_length, &summary);
    void *b = run_with(l, (exg_plan_options){.no_reuse = true}, 2, 3, &b_length, &summary);

    check_same(l, a, a_length, b, b_length, "running three times"); /* state goes on alike */
    free(a);
    free(b);
}

/* S004-21 */
static void state_goes_on_from_run_to_run(void **state)
{
    (void)state;
    each_fixture(check_repeats);
}

static void record_otherwise(exg_graph *graph);

/* Graphs that the node calls, and the device of their autocast. */
static void record_calls_otherwise(exg_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument *arg = &node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_GRAPH) {
            record_otherwise(arg->as_graph->graph);
        } else if (i == 0 && strstr(node->target, "autocast") != NULL) {
            arg->as_string = "cuda";
        }
    }
}

/* What a program was recorded with: another device, matrices column by column. */
static void record_otherwise(exg_graph *graph)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        exg_tensor_meta *meta = graph->values[i].tensor;

        if (meta != NULL) {
            meta->device = (exg_device){"cuda", 3};
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_argument *out = &graph->nodes[n].outputs[0];
        exg_tensor_meta *meta =
            graph->nodes[n].output_count == 1 && out->kind == EXG_ARGUMENT_TENSOR
                ? graph->values[out->as_tensor].tensor
                : NULL;

        if (meta != NULL && meta->rank == 2) {
            exg_sym_int rows = meta->sizes[0];

            meta->strides[0] = (exg_sym_int){.value = 1};
            meta->strides[1] = rows;
        }
        record_calls_otherwise(&graph->nodes[n]);
    }
}

static void check_recorded(const loaded *l)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_session *session;

    record_otherwise(l->program->graph);
    session = open_session(l, &options);
    run_fixture(l, session);
    compare_with_expected(l, session, "recorded otherwise");
    exg_session_destroy(session);
}

/* S002-59, S002-63: the device and the strides of a value bind nobody. */
static void what_was_recorded_binds_nobody(void **state)
{
    (void)state;
    each_fixture(check_recorded);
}

/* S002-16, S002-17: what is not strided is kept and converted, not run; COO tensors run as the
 * dense ones they stand for (tests/interop/run_sparse.py). */
static void only_strided_tensors_run(void **state)
{
    static const exg_layout layouts[] = {EXG_LAYOUT_SPARSE_CSR, EXG_LAYOUT_SPARSE_CSC,
                                         EXG_LAYOUT_SPARSE_BSR, EXG_LAYOUT_SPARSE_BSC,
                                         EXG_LAYOUT_MKLDNN};

    (void)state;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        exg_session_options options = {.size = sizeof(options), .thread_count = 1};
        exg_session *session = NULL;
        exg_error err;
        loaded l;

        load_fixture(fixture_named("mlp.pt2"), &l);
        l.program->graph->values[l.program->graph->outputs[0].as_tensor].tensor->layout =
            layouts[i];
        assert_int_equal(exg_session_create(&l.verified, &options, &session, &err),
                         EXG_UNSUPPORTED);
        assert_string_equal(err.code, "OPR-006");
        unload_fixture(&l);
    }
}

static void marks_of_functorch_say_the_way_out(void **state)
{
    loaded l;
    exg_session *session;
    exg_error err;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    l.program->graph->nodes[0].target = "torch._functorch.predispatch._jvp_increment_nesting";
    assert_int_equal(exg_session_create(&l.verified, NULL, &session, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "OPR-003");
    assert_non_null(strstr(err.fix, "run_decompositions()"));
    unload_fixture(&l);
}

static void check_kept(uint32_t limit, uint32_t plans)
{
    static const char *const lengths[] = {"lm.t1", "lm.t17", "lm.t200", "lm.t17", "lm.t1"};
    exg_session_options options = {.size = sizeof(options), .thread_count = 2, .plan_limit = limit};
    const exg_session_stats *stats;
    exg_session *session = NULL;
    loaded first;

    load_fixture(&(fixture){"lm.core.dynamic.pt2", "lm.t1.inputs.safetensors",
                            "lm.t1.expected.safetensors", 1e-3, 1e-3},
                 &first);
    session = open_session(&first, &options);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char inputs[64] = "";
        char expected[64] = "";
        loaded other;

        strcat(strcat(inputs, lengths[i]), ".inputs.safetensors");
        strcat(strcat(expected, lengths[i]), ".expected.safetensors");
        load_fixture(&(fixture){"lm.core.dynamic.pt2", inputs, expected, 1e-3, 1e-3}, &other);
        run_fixture(&other, session);
        compare_with_expected(&other, session, lengths[i]);
        unload_fixture(&other);
    }
    stats = exg_session_statistics(session);
    assert_int_equal(stats->plan_count, plans);
    assert_int_equal(stats->runs, 5);
    exg_session_destroy(session);
    unload_fixture(&first);
}

static void plans_are_kept_by_size(void **state)
{
    (void)state;
    check_kept(0, 3);
    check_kept(3, 3);
    check_kept(2, 4); /* the one that was not used longest makes room */
    check_kept(1, 5);
}

/* A plan that is prepared takes nothing from the results of the last run. */
static void preparing_leaves_results(void **state)
{
    int64_t tokens[200] = {0};
    exg_session_input input = {.name = "tokens",
                               .tensor = {.data = tokens, .dtype = EXG_DTYPE_I64, .rank = 2}};
    exg_session_options options = {.size = sizeof(options), .plan_limit = 1};
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(&(fixture){"lm.core.dynamic.pt2", "lm.t1.inputs.safetensors",
                            "lm.t1.expected.safetensors", 1e-3, 1e-3},
                 &l);
    session = open_session(&l, &options);
    run_fixture(&l, session);
    input.tensor.sizes[0] = 1;
    for (input.tensor.sizes[1] = 2; input.tensor.sizes[1] < 200; input.tensor.sizes[1] += 60) {
        exg_tensor_set_contiguous(&input.tensor);
        assert_int_equal(exg_session_prepare(session, &input, 1, &err), EXG_OK);
    }
    compare_with_expected(&l, session, "after others were prepared");
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* Steps follow each other inside the run's time; each tells its operator and module. */
static void each_step_is_measured(void **state)
{
    static const fixture lm = {"lm.train-ir.static.pt2", "lm.inputs.safetensors",
                               "lm.expected.safetensors", 1e-4, 1e-5};
    exg_session_options options = {.size = sizeof(options), .thread_count = 1, .profile = true};
    const exg_session_stats *stats;
    exg_session *session;
    uint64_t end = 0;
    uint32_t in_attention = 0;
    uint32_t looked_up = 0;
    double flops = 0;
    loaded l;

    (void)state;
    load_fixture(&lm, &l);
    session = open_session(&l, &options);
    assert_int_equal(exg_session_profile_count(session), 0);
    run_fixture(&l, session);
    run_fixture(&l, session);
    stats = exg_session_statistics(session);
    assert_int_equal(exg_session_profile_count(session), stats->plan->step_count);
    for (uint32_t i = 0; i < stats->plan->step_count; i++) {
        const exg_step_profile *step = exg_session_profile_at(session, i);

        assert_true(step->start_ns >= end);
        assert_true(step->total_ns >= step->last_ns);
        end = step->start_ns + step->last_ns;
        flops += step->flops;
        assert_true(step->bytes > 0);
        if (strstr(step->target, "embedding") != NULL) { /* 64 rows of the table, not all of it */
            assert_true(step->bytes == 64 * (8 + 2 * 128 * 4));
            looked_up++;
        }
        in_attention +=
            strstr(step->module, "attention") != NULL && strstr(step->target, "linear") != NULL;
    }
    assert_null(exg_session_profile_at(session, stats->plan->step_count));
    assert_true(end > 0 && end <= stats->run_ns);
    assert_true(in_attention > 0);
    assert_int_equal(looked_up, 1);
    /* fixtures/programs/lm.py: two blocks of width 128, four heads, 64 tokens; a head */
    assert_true(flops == 2 * (2.0 * 64 * (4 * 128 * 128 + 3 * 128 * 256) + 4.0 * 64 * 64 * 128) +
                             2.0 * 64 * 128 * 128);
    assert_int_equal(exg_session_rank_count(session), 1);
    assert_int_equal(exg_session_first_rank(session), 0);
    assert_int_equal(exg_session_rank_profile_count(session, 0), stats->plan->step_count);
    assert_int_equal(exg_session_rank_profile_count(session, 1), 0);
    assert_null(exg_session_rank_profile_at(session, 1, 0));
    exg_session_destroy(session);
    session = open_session(&l, NULL);
    run_fixture(&l, session);
    assert_int_equal(exg_session_profile_count(session), 0);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void refuses(exg_session *session, const exg_session_input *input, exg_status status,
                    const char *code, const char *guard)
{
    exg_error err;

    assert_int_equal(exg_session_run(session, input, 1, &err), status);
    assert_string_equal(err.code, code);
    assert_non_null(strstr(err.message, guard));
}

/* Guards are Python; they are read, not run, and one that cannot be read may ask for anything. */
static void guards_are_asked_when_inputs_are_bound(void **state)
{
    static const char *guards[] = {"L['flat_args'][0].size()[1] % 200 == 0",
                                   "L['tokens'].size()[1] % 200 == 0 or __import__('os')"};
    const fixture row = {"lm.core.dynamic.pt2", "lm.t200.inputs.safetensors",
                         "lm.t200.expected.safetensors", 1e-3, 1e-3};
    int64_t tokens[17] = {1};
    exg_session_input input = {.name = "tokens",
                               .tensor = {.data = tokens, .dtype = EXG_DTYPE_I64, .rank = 2}};
    exg_session_options options = {.size = sizeof(options), .ignore_guards = true};
    exg_session *session;
    loaded l;

    (void)state;
    load_fixture(&row, &l);
    l.program->guards_code = guards;
    l.program->guard_count = 1;
    session = open_session(&l, NULL);
    input.tensor.sizes[0] = 1;
    input.tensor.sizes[1] = 17;
    exg_tensor_set_contiguous(&input.tensor);
    refuses(session, &input, EXG_USAGE, "INP-009", guards[0]);
    run_fixture(&l, session);
    compare_with_expected(&l, session, "after a refusal");
    l.program->guard_count = 2;
    refuses(session, &input, EXG_USAGE, "INP-009", guards[0]);
    input.tensor.sizes[1] = 1;
    l.program->guards_code = &guards[1];
    l.program->guard_count = 1;
    exg_tensor_set_contiguous(&input.tensor);
    refuses(session, &input, EXG_UNSUPPORTED, "INP-011", guards[1]);
    exg_session_destroy(session);
    session = open_session(&l, &options);
    assert_int_equal(exg_session_run(session, &input, 1, NULL), EXG_OK);
    run_fixture(&l, session);
    compare_with_expected(&l, session, "without guards");
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void check_fault(const loaded *l, const exg_session_options *options)
{
    int64_t token = 1000;
    exg_session_input input = {.name = "tokens",
                               .tensor = {.data = &token, .dtype = EXG_DTYPE_I64, .rank = 2}};
    exg_session *session = open_session(l, options);
    exg_error err;

    input.tensor.sizes[0] = input.tensor.sizes[1] = 1;
    exg_tensor_set_contiguous(&input.tensor);
    exg_error_clear(&err);
    assert_int_equal(exg_session_run(session, &input, 1, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "RUN-001");
    assert_non_null(strstr(err.message, "aten.embedding.default: index 1000 is outside"));
    assert_non_null(strstr(err.where, "node 'embedding'"));
    assert_non_null(strstr(err.source, ".py:"));
    run_fixture(l, session);
    compare_with_expected(l, session, "after a fault");
    exg_session_destroy(session);
}

/* An index that is not there: told with operator, node, index and the user's line, and the
 * session goes on; also where one rank of several finds it. */
static void a_fault_of_the_data_names_its_node(void **state)
{
    static const fixture lm = {"lm.core.dynamic.pt2", "lm.t1.inputs.safetensors",
                               "lm.t1.expected.safetensors", 1e-3, 1e-3};
    exg_session_options options = {.size = sizeof(options), .mesh = {1, {2}}};
    loaded l;

    (void)state;
    options.partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                                 .mode = EXG_PARTITION_TENSOR};
    load_fixture(&lm, &l);
    check_fault(&l, NULL);
    check_fault(&l, &options);
    unload_fixture(&l);
}

/* Options whose size is not set would all be ignored. */
static void options_without_a_size_are_refused(void **state)
{
    exg_session_options options = {.plan_only = true, .device = "bogus"};
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    assert_int_equal(exg_session_create(&l.verified, &options, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "OPT-001");
    assert_non_null(strstr(err.message, "exg_session_options.size"));
    assert_null(session);
    unload_fixture(&l);
}

/* The parts of the options, each of another layout or a number that stands for nothing. */
#define PLAN(...)                                                                                  \
    &(exg_plan_options)                                                                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define PLACE(...)                                                                                 \
    (exg_partition_options[])                                                                      \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define GOAL(...)                                                                                  \
    &(exg_partition_goal)                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define SIZE(member) .size = sizeof(*((exg_session_options *)NULL)->member)

static void options_of_parts_that_cannot_be_are_refused(void **state)
{
    exg_partition_pattern pattern = {.pattern = "*",
                                     .placement = {.kind = EXG_PLACEMENT_KIND_COUNT}};
    exg_partition_pattern reducing = {.pattern = "*", .placement = {.op = EXG_REDUCE_OP_COUNT}};
    const exg_partition_pattern unnamed = {.placement = {.kind = EXG_SHARD}};
    exg_costs costs = {.size = 7};
    exg_costs endless = {.size = sizeof(endless), .ns_per_flop = INFINITY};
    exg_costs backward = {.size = sizeof(backward), .links = {{0}, {.ns_per_byte = -1}}};
    exg_costs neither = {.size = sizeof(neither), .ns_per_touched = NAN};
    const struct {
        const char *code, *what, *where;
        exg_plan_options *plan;
        exg_partition_options *partition;
        exg_partition_goal *goal;
    } rows[] = {
        {"OPT-001", "exg_plan_options.size is not set", "plan", .plan = PLAN(0)},
        {"OPT-002", "overlap is 3", "plan", .plan = PLAN(SIZE(plan), .overlap = (exg_overlap)3)},
        {"OPT-001", "exg_partition_options.size is not set", "partition[0]",
         .partition = PLACE({0})},
        {"OPT-001", "size is 999, and ", "partition[1]",
         .partition = PLACE({SIZE(partition)}, {.size = 999})},
        {"OPT-002", "mode is 77", "partition[1]",
         .partition = PLACE({SIZE(partition)}, {SIZE(partition), .mode = (exg_partition_mode)77})},
        {"OPT-002", "placement.kind is 4", "partition[0].patterns[0]",
         .partition =
             PLACE({SIZE(partition), EXG_PARTITION_PATTERNS, &pattern, 1}, {SIZE(partition)})},
        {"OPT-002", "placement.op is 8", "partition[0].patterns[0]",
         .partition =
             PLACE({SIZE(partition), EXG_PARTITION_PATTERNS, &reducing, 1}, {SIZE(partition)})},
        {"OPT-001", "exg_partition_goal.size is not set", "goal", .goal = GOAL(.memory_limit = 1)},
        {"OPT-001", "exg_costs.size is not set", "goal.costs",
         .goal = GOAL(SIZE(goal), .costs = &costs)},
        {"PLC-010", "inf", "", .goal = GOAL(SIZE(goal), .costs = &endless)},
        {"PLC-010", "-1", "", .goal = GOAL(SIZE(goal), .costs = &backward)},
        {"PLC-010", "nan", "", .goal = GOAL(SIZE(goal), .costs = &neither)},
        {"ARG-001", "'patterns'", "partition[0]",
         .partition = PLACE({SIZE(partition), EXG_PARTITION_PATTERNS, NULL, 1}, {SIZE(partition)})},
        {"ARG-001", "'pattern'", "partition[0].patterns[0]",
         .partition =
             PLACE({SIZE(partition), EXG_PARTITION_PATTERNS, &unnamed, 1}, {SIZE(partition)})},
    };
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_session_options options = {.size = sizeof(options),
                                       .plan = rows[i].plan,
                                       .partition = rows[i].partition,
                                       .goal = rows[i].goal,
                                       .mesh = {2, {2, 1}, {NULL}}};
        exg_session *session;
        exg_error err;

        assert_int_equal(exg_session_create(&l.verified, &options, &session, &err), EXG_USAGE);
        assert_string_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.message, rows[i].what));
        assert_string_equal(err.where, rows[i].where);
        assert_null(session);
    }
    unload_fixture(&l);
}

/* What a caller built with an older header does not know of is not read. */
static void parts_of_an_older_caller_are_understood(void **state)
{
    exg_plan_options plan = {.size = offsetof(exg_plan_options, overlap),
                             .overlap = (exg_overlap)3};
    exg_costs costs = {.size = offsetof(exg_costs, links), .links = {{.ns_per_byte = -1}}};
    exg_partition_goal goal = {.size = offsetof(exg_partition_goal, overlaps), .costs = &costs};
    exg_session_options options = {.size = sizeof(options), .plan = &plan, .goal = &goal};
    exg_session *session;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    assert_int_equal(exg_session_create(&l.verified, &options, &session, NULL), EXG_OK);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void meshes_that_cannot_be_are_refused(void **state)
{
    static const struct {
        exg_mesh_shape mesh;
        bool plan_only;
        const char *code;
    } rows[] = {{{9, {1, 1, 1, 1, 1, 1, 1, 1}}, false, "DTN-001"},
                {{2, {0, 4}}, false, "COM-004"},
                {{2, {4, 0}}, true, "COM-004"},
                {{2, {0x80000001, 2}}, false, "COM-004"}, /* 2, in 32 bits */
                {{2, {0x80000001, 2}}, true, "COM-004"},
                {{1, {65}}, false, "COM-004"}};
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_session_options options = {
            .size = sizeof(options), .mesh = rows[i].mesh, .plan_only = rows[i].plan_only};
        exg_session *session;
        exg_error err;

        assert_int_not_equal(exg_session_create(&l.verified, &options, &session, &err), EXG_OK);
        assert_string_equal(err.code, rows[i].code);
        assert_null(session);
    }
    unload_fixture(&l);
}

static void inputs_that_cannot_be_are_refused(void **state)
{
    float x[24] = {0};
    exg_session_input input = {.name = "x"};
    exg_session_input twice[2];
    exg_session_options plans = {.size = sizeof(plans), .plan_only = true};
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    for (int i = 0; i < 2; i++) {
        exg_session *session = open_session(&l, i == 0 ? NULL : &plans);
        exg_status (*use)(exg_session *, const exg_session_input *, uint32_t, exg_error *) =
            i == 0 ? exg_session_run : exg_session_prepare;

        input.name = "x";
        input.tensor = (exg_tensor){.data = x, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 8}};
        exg_tensor_set_contiguous(&input.tensor);
        assert_int_equal(use(session, &input, 1, &err), EXG_OK);
        for (uint32_t rank = EXG_RANK_MAX + 1; rank < 5000; rank *= 3) {
            input.tensor.rank = rank;
            assert_int_equal(use(session, &input, 1, &err), EXG_USAGE);
            assert_string_equal(err.code, "INP-004");
        }
        input.tensor.rank = UINT32_MAX;
        assert_int_equal(use(session, &input, 1, &err), EXG_USAGE);
        input.tensor.rank = 2;
        input.tensor.data = (char *)x + 1; /* which preparing does not look at */
        exg_error_clear(&err);
        assert_int_equal(use(session, &input, 1, &err), i == 0 ? EXG_USAGE : EXG_OK);
        assert_string_equal(err.code, i == 0 ? "INP-008" : "");
        input.tensor.data = x;
        input.tensor.dtype = EXG_DTYPE_COUNT;
        assert_int_equal(use(session, &input, 1, &err), EXG_USAGE);
        assert_string_equal(err.code, "INP-003");
        input.tensor.dtype = EXG_DTYPE_F32;
        input.name = NULL;
        assert_int_equal(use(session, &input, 1, &err), EXG_USAGE);
        assert_string_equal(err.code, "INP-001");
        input.name = "x";
        twice[0] = twice[1] = input;
        assert_int_equal(use(session, twice, 2, &err), EXG_USAGE);
        assert_string_equal(err.code, "INP-010");
        assert_int_equal(use(session, &input, 1, &err), EXG_OK);
        exg_session_destroy(session);
    }
    unload_fixture(&l);
}

static void inputs_are_known_by_their_paths(void **state)
{
    static const char *path = "images.0.pixels";
    float x[24] = {0};
    exg_session_input inputs[2] = {{.name = path}, {.name = "x"}};
    exg_session_input none = {.name = "images.0"};
    const char *name;
    exg_session *session;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    l.program->module_calls[0].forward_arg_names = &path;
    session = open_session(&l, NULL);
    inputs[0].tensor = (exg_tensor){.data = x, .dtype = EXG_DTYPE_F32, .rank = 2, .sizes = {3, 8}};
    exg_tensor_set_contiguous(&inputs[0].tensor);
    inputs[1].tensor = none.tensor = inputs[0].tensor;
    assert_int_equal(exg_session_find_input(session, path, &name, &err), EXG_OK);
    assert_string_equal(name, "x");
    assert_int_equal(exg_session_run(session, inputs, 1, &err), EXG_OK);
    assert_int_equal(exg_session_prepare(session, inputs, 1, &err), EXG_OK);
    assert_int_equal(exg_session_run(session, inputs, 2, &err), EXG_USAGE);
    assert_string_equal(err.code, "INP-010"); /* it is given by both names */
    assert_int_equal(exg_session_run(session, &none, 1, &err), EXG_USAGE);
    assert_string_equal(err.code, "INP-001");
    assert_int_equal(exg_session_bind_input(session, &none, &err), EXG_USAGE);
    assert_string_equal(err.code, "INP-001");
    assert_string_equal(err.fix, "its inputs are: x");
    assert_int_equal(exg_session_bind_input(session, inputs, &err), EXG_OK);
    assert_int_equal(exg_session_run(session, NULL, 0, &err), EXG_OK);
    assert_int_equal(exg_session_run(session, inputs, 1, &err), EXG_OK);
    exg_session_destroy(session);
    unload_fixture(&l);
}

static void a_session_wants_a_verified_program(void **state)
{
    const exg_verified none = {0};
    exg_session *session = NULL;
    exg_error err;

    (void)state;
    assert_int_equal(exg_session_create(&none, NULL, &session, &err), EXG_USAGE);
    assert_string_equal(err.code, "RUN-009");
    assert_null(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_wants_a_verified_program),
        cmocka_unit_test(options_without_a_size_are_refused),
        cmocka_unit_test(options_of_parts_that_cannot_be_are_refused),
        cmocka_unit_test(inputs_that_cannot_be_are_refused),
        cmocka_unit_test(inputs_are_known_by_their_paths),
        cmocka_unit_test(parts_of_an_older_caller_are_understood),
        cmocka_unit_test(meshes_that_cannot_be_are_refused),
        cmocka_unit_test(reuse_of_memory_changes_no_bit),
        cmocka_unit_test(fusion_changes_no_bit),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(state_goes_on_from_run_to_run),
        cmocka_unit_test(what_was_recorded_binds_nobody),
        cmocka_unit_test(only_strided_tensors_run),
        cmocka_unit_test(marks_of_functorch_say_the_way_out),
        cmocka_unit_test(plans_are_kept_by_size),
        cmocka_unit_test(preparing_leaves_results),
        cmocka_unit_test(guards_are_asked_when_inputs_are_bound),
        cmocka_unit_test(a_fault_of_the_data_names_its_node),
        cmocka_unit_test(each_step_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
