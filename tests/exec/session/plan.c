/* plan.c - a plan by itself: made from a functional program, printed, told from others;
 * sessions that only prepare; what a session says of its placement.
 */
#include "libexec/comm/grid.h"
#include "libexec/plan/plan_internal.h"
#include "tests/exec/session/fixture.h"

#include <exg/emit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_program *functional_of(const loaded *l, exg_arena *arena)
{
    exg_program *stages[3];
    exg_symbols symbols;

    assert_int_equal(exg_bind_hints(l->program, arena, &symbols, NULL), EXG_OK);
    assert_int_equal(exg_specialize(&l->verified, &symbols, &stages[0], NULL), EXG_OK);
    assert_int_equal(exg_decompose(stages[0], l->operators, &stages[1], NULL), EXG_OK);
    assert_int_equal(exg_functionalize(stages[1], l->operators, &stages[2], NULL), EXG_OK);
    exg_program_destroy(stages[0]);
    exg_program_destroy(stages[1]);
    return stages[2];
}

static void it_plans_alone(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_plan_options plain = {sizeof(plain), true, true};
    exg_plan_summary with, without;
    exg_program *functional;
    exg_plan *plan;
    char *text;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(exg_plan_create(functional, l.operators, NULL, &plan, NULL), EXG_OK);
    with = *exg_plan_summarize(plan);
    assert_int_equal(exg_plan_print(plan, &text, NULL), EXG_OK);
    assert_non_null(strstr(text, "arena"));
    free(text);
    exg_plan_destroy(plan);
    assert_int_equal(exg_plan_create(functional, l.operators, &plain, &plan, NULL), EXG_OK);
    without = *exg_plan_summarize(plan);
    assert_int_equal(without.size, sizeof(without));
    exg_plan_destroy(plan);
    assert_int_equal(with.node_count, functional->graph->node_count);
    assert_true(with.step_count < without.step_count && without.fused_count == 0);
    assert_true(with.arena_bytes < without.arena_bytes);
    assert_true(with.weight_bytes == without.weight_bytes && with.weight_bytes > 0);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

/* While a weight is packed it is there twice: the largest comes first. */
static void larger_weights_are_packed_first(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    uint64_t before = UINT64_MAX;
    exg_program *functional;
    uint32_t smaller = 0;
    exg_plan *plan;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(exg_plan_create(functional, l.operators, NULL, &plan, NULL), EXG_OK);
    for (uint32_t s = 0; s < plan->folded_count; s++) {
        const exg_buffer *made = &plan->buffers[plan->steps[s].outputs[0].buffer];

        if (made->is_packed) {
            assert_true(made->bytes <= before);
            smaller += made->bytes < before;
            before = made->bytes;
        }
    }
    assert_true(smaller > 1);
    exg_plan_destroy(plan);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

/* Steps of the plan of one einsum of a (16, 256) and b. */
static uint32_t steps_of_einsum(const char *equation, const int64_t *sizes, uint32_t rank)
{
    exg_operators *operators = NULL;
    exg_program *program = NULL;
    exg_program *plain = NULL;
    exg_program *functional = NULL;
    exg_builder *b = NULL;
    exg_plan *plan = NULL;
    exg_tensor_meta meta;
    exg_ref both[2];
    exg_argument out;
    uint32_t count;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, UINT64_MAX, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){16, 256}, 2);
    both[0] = exg_builder_input(b, "a", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, sizes, rank);
    both[1] = exg_builder_input(b, "b", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    out = exg_arg_ref(EMIT(b, einsum_default, exg_arg_string(equation), exg_arg_refs(b, both, 2)));
    exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    assert_int_equal(exg_decompose(program, operators, &plain, NULL), EXG_OK);
    assert_int_equal(exg_functionalize(plain, operators, &functional, NULL), EXG_OK);
    assert_int_equal(exg_plan_create(functional, operators, NULL, &plan, NULL), EXG_OK);
    count = exg_plan_summarize(plan)->step_count;
    exg_plan_destroy(plan);
    exg_program_destroy(functional);
    exg_program_destroy(plain);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    return count;
}

/* Gathered weights of experts, the larger operand, are multiplied where they are; what comes of it
 * may be moved. */
static void an_einsum_does_not_move_its_larger_operand(void **state)
{
    (void)state;
    assert_true(steps_of_einsum("td,tkfd->tkf", (int64_t[]){16, 2, 512, 256}, 4) <= 2);
    assert_true(steps_of_einsum("td,ktdf->tkf", (int64_t[]){2, 16, 256, 512}, 4) <= 2);
    assert_int_equal(steps_of_einsum("zy,yx->zx", (int64_t[]){256, 512}, 2), 1);
}

static void it_places_alone(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_partition_options options = {.size = sizeof(options), .mode = EXG_PARTITION_TENSOR};
    exg_mesh_shape mesh = {1, {2}};
    exg_partition_summary *summary;
    exg_program *functional;
    exg_program *local;
    char *report;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(exg_partition(functional, l.operators, &options, NULL, &mesh, 1, &local,
                                   &summary, &report, NULL),
                     EXG_OK);
    assert_int_equal(summary->size, sizeof(*summary));
    assert_true(summary->split_count > 0 && summary->moved_bytes > 0);
    assert_true(report != NULL && report[0] != '\0');
    free(report);
    free(summary);
    exg_program_destroy(local);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

/* Symbols are numbers in what is planned. */
static void a_program_of_open_sizes_is_not_planned(void **state)
{
    exg_partition_options place = {.size = sizeof(place)};
    exg_mesh_shape mesh = {1, {2}, {NULL}};
    exg_program *local;
    exg_plan *plan;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.dynamic.pt2"), &l);
    assert_int_equal(exg_plan_create(l.program, l.operators, NULL, &plan, &err), EXG_USAGE);
    assert_string_equal(err.code, "PLN-003");
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &mesh, 0, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "PLN-003");
    unload_fixture(&l);
    load_fixture(fixture_named("mlp.pt2"), &l); /* where x lies in a storage nobody counts with */
    l.program->graph->values[l.program->graph->inputs[l.program->graph->input_count - 1].as_tensor]
        .tensor->storage_offset = exg_sym_int_of(INT64_MAX);
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &mesh, 0, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "PLN-003");
    unload_fixture(&l);
}

/* As callers of exg_partition and exg_plan_create alone give them. */
static void options_that_cannot_be_are_refused(void **state)
{
    exg_partition_options place = {.size = sizeof(place), .mode = (exg_partition_mode)99};
    exg_plan_options plans = {.size = sizeof(plans), .overlap = (exg_overlap)-1};
    exg_mesh_shape mesh = {1, {2}, {NULL}};
    exg_mesh_shape deep = {EXG_MESH_DIMS_MAX + 1, {2}, {NULL}};
    exg_program *local;
    exg_plan *plan;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    assert_string_equal(exg_partition_mode_name(place.mode), "?");
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &mesh, 0, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "OPT-002");
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &deep, 0, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "DTN-001");
    place = (exg_partition_options){.mode = EXG_PARTITION_DATA};
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &mesh, 0, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "OPT-001");
    assert_null(local);
    assert_int_equal(exg_plan_create(l.program, l.operators, &plans, &plan, &err), EXG_USAGE);
    assert_string_equal(err.code, "OPT-002");
    place = (exg_partition_options){.size = sizeof(place)};
    assert_int_equal(
        exg_partition(l.program, l.operators, &place, NULL, &mesh, 2, &local, NULL, NULL, &err),
        EXG_USAGE);
    assert_string_equal(err.code, "PLC-008");
    plans = (exg_plan_options){.no_fusion = true};
    assert_int_equal(exg_plan_create(l.program, l.operators, &plans, &plan, &err), EXG_USAGE);
    assert_string_equal(err.code, "OPT-001");
    assert_null(plan);
    unload_fixture(&l);
}

/* What a placement of a fixture is predicted to take, and the memory it needs. */
static exg_partition_summary summary_by(const exg_partition_goal *goal, const fixture *f,
                                        const exg_mesh_shape *mesh, const exg_partition_mode *modes)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_partition_options options[2] = {{.size = sizeof(options[0]), .mode = modes[0]},
                                        {.size = sizeof(options[0]), .mode = modes[1]}};
    exg_partition_summary *made;
    exg_partition_summary summary;
    exg_program *functional;
    exg_program *local;
    char *report = NULL;
    exg_error err;
    loaded l;

    load_fixture(f, &l);
    functional = functional_of(&l, arena);
    if (exg_partition(functional, l.operators, options, goal, mesh, 0, &local, &made, &report,
                      &err) != EXG_OK) {
        fail_msg("%s: %s", err.code, err.message);
    }
    summary = *made;
    free(made);
    free(report);
    exg_program_destroy(local);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
    return summary;
}

/* It is the least that one other word for a mesh dim gives, as placing so says. */
/* What compares hundreds of predictions of the same code is for the builds without sanitizers. */
static void skip_when_slow(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip();
#endif
}

static void the_cheaper_placement_is_one(void **state)
{
    static const exg_partition_mode given[][2] = {
        {EXG_PARTITION_DATA, EXG_PARTITION_FSDP},
        {EXG_PARTITION_TENSOR, EXG_PARTITION_REPLICATE},
        {EXG_PARTITION_SEQUENCE, EXG_PARTITION_TENSOR},
    };
    const fixture *f = fixture_named("lm.core.static.pt2");
    const exg_mesh_shape mesh = {2, {2, 2}, {NULL}};

    (void)state;
    skip_when_slow();
    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        exg_partition_goal goal = {.size = sizeof(goal), .compares = true};
        exg_partition_summary own = summary_by(&goal, f, &mesh, given[i]);
        double least = own.predicted_ns;

        goal.compares = false;
        for (uint32_t d = 0; d < 2; d++) {
            for (int m = EXG_PARTITION_REPLICATE; m < EXG_PARTITION_PIPELINE; m++) {
                exg_partition_mode modes[2] = {given[i][0], given[i][1]};
                double ns;

                modes[d] = (exg_partition_mode)m;
                ns = summary_by(&goal, f, &mesh, modes).predicted_ns;
                least = ns < least ? ns : least;
            }
        }
        assert_true(own.cheaper_ns == (least < own.predicted_ns ? least : 0));
        assert_true(own.cheaper_ns == 0 ||
                    summary_by(&goal, f, &mesh, own.cheaper_modes).predicted_ns == own.cheaper_ns);
    }
}

static exg_partition_summary summary_of(const fixture *f, const exg_mesh_shape *mesh,
                                        const exg_partition_mode *modes, uint64_t memory_limit,
                                        bool overlaps)
{
    exg_partition_goal goal = {
        .size = sizeof(goal), .memory_limit = memory_limit, .overlaps = overlaps};

    return summary_by(&goal, f, mesh, modes);
}

static void auto_is_predicted_no_worse_than_any_strategy(void **state)
{
    static const exg_mesh_shape meshes[] = {
        {1, {2}, {NULL}}, {1, {3}, {NULL}}, {2, {2, 2}, {NULL}}};
    static const char *const programs[] = {"mlp.pt2", "lm.core.static.pt2"};
    static const exg_partition_mode open[2] = {EXG_PARTITION_AUTO, EXG_PARTITION_AUTO};

    (void)state;
    skip_when_slow();
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]) * 3; i++) {
        const fixture *f = fixture_named(programs[i / 3]);
        const exg_mesh_shape *mesh = &meshes[i % 3];
        bool overlaps = i % 3 != 0;
        exg_partition_summary best = summary_of(f, mesh, open, 0, overlaps);
        exg_partition_mode modes[2];

        for (modes[0] = EXG_PARTITION_REPLICATE; modes[0] < EXG_PARTITION_PIPELINE; modes[0]++) {
            for (modes[1] = EXG_PARTITION_REPLICATE; modes[1] < EXG_PARTITION_PIPELINE;
                 modes[1]++) {
                exg_partition_summary named = summary_of(f, mesh, modes, 0, overlaps);

                assert_true(best.predicted_ns <= named.predicted_ns);
            }
        }
    }
}

/* What goes on beside computation counts once: no more than all moves, no more than all work. */
static void moves_beside_computation_are_predicted_once(void **state)
{
    static const exg_mesh_shape mesh = {1, {2}, {NULL}};

    (void)state;
    for (int m = EXG_PARTITION_REPLICATE; m < EXG_PARTITION_PIPELINE; m++) {
        const exg_partition_mode mode[2] = {(exg_partition_mode)m};
        const fixture *f = fixture_named("lm.core.static.pt2");
        exg_partition_summary apart = summary_of(f, &mesh, mode, 0, false);
        exg_partition_summary beside = summary_of(f, &mesh, mode, 0, true);
        exg_costs costs;
        double moves;

        exg_costs_init(&costs, sizeof(costs));
        moves = exg_partition_moves(&apart) * costs.links[0].message_ns +
                (double)apart.moved_bytes * costs.links[0].ns_per_byte;
        assert_true(apart.hidden_ns == 0);
        assert_true(beside.hidden_ns <= moves + 1e-3);
        assert_true(beside.hidden_ns <= apart.predicted_ns - moves + exg_partition_moves(&apart));
        assert_true(beside.predicted_ns + beside.hidden_ns - apart.predicted_ns < 1e-3 &&
                    apart.predicted_ns - beside.predicted_ns - beside.hidden_ns < 1e-3);
        assert_true(m != EXG_PARTITION_FSDP || beside.hidden_ns > 0);
    }
}

/* Four ranks on two cores take twice the time for work, stages of which one runs at once do not; on
 * four cores, or where nothing is said, each has its own. */
static void ranks_share_cores(void **state)
{
    static const exg_mesh_shape mesh = {1, {4}, {NULL}};
    static const struct {
        exg_partition_mode mode;
        double cores, times;
    } rows[] = {{EXG_PARTITION_DATA, 4, 1},
                {EXG_PARTITION_DATA, 2, 2},
                {EXG_PARTITION_DATA, 1, 4},
                {EXG_PARTITION_PIPELINE, 2, 1},
                {EXG_PARTITION_PIPELINE, 1, 1}};
    const fixture *f = fixture_named("lm.core.static.pt2");

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_costs costs;
        exg_partition_goal goal = {.size = sizeof(goal), .costs = &costs};
        double alone;
        double shared;

        exg_costs_init(&costs, sizeof(costs));
        alone = summary_by(&goal, f, &mesh, &rows[i].mode).work_ns;
        costs.cores = rows[i].cores;
        shared = summary_by(&goal, f, &mesh, &rows[i].mode).work_ns;
        assert_true(fabs(shared - rows[i].times * alone) <= 1e-6 * shared);
    }
}

/* Times that are added up in another order differ in their last bits: that hides nothing. */
static void what_is_hidden_is_never_below_nothing(void **state)
{
    static const exg_mesh_shape mesh = {1, {2}, {NULL}};
    const fixture *f = fixture_named("lm.core.static.pt2");
    const exg_partition_mode tensor[2] = {EXG_PARTITION_TENSOR};
    exg_costs costs;
    exg_partition_goal goal = {.size = sizeof(goal), .costs = &costs, .overlaps = true};

    (void)state;
    exg_costs_init(&costs, sizeof(costs));
    for (int i = 1; i < 8; i++) {
        costs.ns_per_flop = 0.01 / i;
        costs.ns_per_touched = 0.3 / i;
        costs.links[0].ns_per_byte = 0.2 / i;
        assert_false(signbit(summary_by(&goal, f, &mesh, tensor).hidden_ns));
    }
}

/* Collectives are parted where ranks do not lend their memory, as threads do, or where asked. */
static void collectives_are_parted_where_it_pays(void **state)
{
    static const struct {
        bool lends;
        exg_overlap asked;
        bool parted;
    } rows[] = {{true, EXG_OVERLAP_AUTO, false},
                {false, EXG_OVERLAP_AUTO, true},
                {true, EXG_OVERLAP_ON, true},
                {false, EXG_OVERLAP_OFF, false}};
    static const exg_mesh_shape mesh = {1, {2}, {NULL}};
    exg_partition_options place = {.size = sizeof(place), .mode = EXG_PARTITION_FSDP};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_program *functional;
    exg_program *local;
    loaded l;

    (void)state;
    load_fixture(fixture_named("mlp.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(
        exg_partition(functional, l.operators, &place, NULL, &mesh, 0, &local, NULL, NULL, NULL),
        EXG_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_plan_options options = {.size = sizeof(options), .overlap = rows[i].asked};
        exg_plan *plan;
        exg_grid grid;
        char *text;

        assert_int_equal(exg_paper_grid(&mesh, 0, rows[i].lends, &grid, NULL), EXG_OK);
        assert_int_equal(
            exg_plan_rank(local, l.operators, &options, &grid, NULL, NULL, &plan, NULL), EXG_OK);
        assert_int_equal(exg_plan_print(plan, &text, NULL), EXG_OK);
        assert_true(strstr(text, " all_gather ") != NULL);
        assert_int_equal(strstr(text, " begin ") != NULL, rows[i].parted);
        free(text);
        exg_plan_destroy(plan);
        exg_grid_close(&grid);
    }
    exg_program_destroy(local);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

/* Under a limit that the fastest passes, another is taken that keeps to it. */
static void auto_keeps_to_a_memory_limit(void **state)
{
    static const exg_mesh_shape mesh = {1, {2}, {NULL}};
    static const exg_partition_mode open[2] = {EXG_PARTITION_AUTO};
    const fixture *f = fixture_named("mlp.pt2");
    exg_partition_summary free_one;
    exg_partition_summary kept;

    (void)state;
    free_one = summary_of(f, &mesh, open, 0, false);
    kept = summary_of(f, &mesh, open, free_one.weight_bytes + free_one.value_bytes - 1, false);
    assert_true(kept.weight_bytes + kept.value_bytes <
                free_one.weight_bytes + free_one.value_bytes);
    assert_true(kept.predicted_ns >= free_one.predicted_ns);
}

static void costs_are_measured_and_used(void **state)
{
    exg_costs costs;
    exg_error err;

    (void)state;
    exg_costs_init(&costs, sizeof(costs));
    assert_true(costs.ns_per_flop > 0 && costs.links[EXG_MESH_DIMS_MAX - 1].message_ns > 0);
    assert_int_equal(exg_costs_measure(2, false, &costs, &err), EXG_OK);
    assert_true(costs.ns_per_flop > 0 && costs.ns_per_touched > 0);
    assert_true(costs.links[0].message_ns > 0 && costs.links[0].ns_per_byte >= 0);
    assert_true(costs.ns_per_batched_flop > 0 && costs.ns_per_attention_flop > 0);
    assert_true(costs.ns_per_convolution_flop > 0 && costs.ns_per_recurrent_flop > 0);
    assert_true(costs.ns_per_node > 0 && costs.cores >= 1);
    assert_int_equal(exg_costs_measure(1, false, &costs, &err), EXG_USAGE);
}

static void it_prepares_without_running(void **state)
{
    exg_session_options options = {
        .size = sizeof(options),
        .mesh = {1, {2}},
        .partition = &(exg_partition_options){.size = sizeof(exg_partition_options),
                                              .mode = EXG_PARTITION_TENSOR}};
    exg_session_input input;
    const exg_session_stats *stats;
    exg_session *session;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    session = open_session(&l, &options);
    assert_null(exg_session_plan(session));
    assert_null(exg_session_partition_report(session));
    input = (exg_session_input){l.inputs->items[0].name,
                                {NULL, l.inputs->items[0].dtype, l.inputs->items[0].rank}};
    memcpy(input.tensor.sizes, l.inputs->items[0].shape, input.tensor.rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&input.tensor);
    assert_true(exg_tensor_is_contiguous(&input.tensor));
    assert_int_equal(exg_session_prepare(session, &input, 1, NULL), EXG_OK);
    stats = exg_session_statistics(session);
    assert_true(stats->runs == 0 && stats->plan_count == 1);
    assert_non_null(exg_session_plan(session));
    assert_non_null(exg_session_partition_report(session));
    exg_session_destroy(session);
    unload_fixture(&l);
}

/* What is written into `state` has its sizes and dtype; sizes that only the run knows may say
 * otherwise than the file did. */
static void a_write_of_other_sizes_is_not_planned(void **state)
{
    static const struct {
        int64_t sizes[2];
        uint32_t rank;
        exg_dtype dtype;
        bool fits;
    } rows[] = {
        {{2, 3}, 2, EXG_DTYPE_F32, true},  {{4, 3}, 2, EXG_DTYPE_F32, false},
        {{3, 2}, 2, EXG_DTYPE_F32, false}, {{6}, 1, EXG_DTYPE_F32, false},
        {{2, 3}, 2, EXG_DTYPE_F64, false},
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const float zeros[6] = {0};
        exg_operators *operators;
        exg_program *program;
        exg_plan *plan = NULL;
        exg_tensor_meta meta;
        exg_argument out;
        exg_builder *b;
        exg_error err;

        assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
        assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
        assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
        meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){2, 3}, 2);
        (void)exg_builder_weight(b, "state", &meta, EXG_INPUT_BUFFER, zeros);
        meta = exg_builder_meta(b, rows[r].dtype, rows[r].sizes, rows[r].rank);
        out = exg_arg_ref(EMIT(b, neg_default,
                               exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET)));
        exg_builder_output(b, &out, EXG_OUTPUT_BUFFER_MUTATION, "state");
        assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
        exg_error_clear(&err);
        if ((exg_plan_create(program, operators, NULL, &plan, &err) == EXG_OK) != rows[r].fits ||
            strcmp(err.code, rows[r].fits ? "" : "SIG-024") != 0) {
            fail_msg("row %zu: '%s' %s", r, err.code, err.message);
        }
        exg_plan_destroy(plan);
        exg_program_destroy(program);
        exg_operators_destroy(operators);
    }
}

/* Bytes of a weight [12, 4] that a rank reads, by nodes that read windows of it:
 * rows [first, last), every other one turned. */
static uint64_t read_of_windows(const int64_t (*rows)[2], uint32_t count)
{
    static const float zeros[48];
    static const exg_mesh_shape mesh = {1, {2}, {NULL}};
    const exg_partition_options replicate = {.size = sizeof(replicate),
                                             .mode = EXG_PARTITION_REPLICATE};
    exg_operators *operators;
    exg_program *program;
    exg_program *local;
    exg_partition_summary *summary;
    uint64_t bytes;
    exg_tensor_meta meta;
    exg_builder *b;
    exg_ref weight;

    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){12, 4}, 2);
    weight = exg_builder_weight(b, "weight", &meta, EXG_INPUT_PARAMETER, zeros);
    for (uint32_t r = 0; r < count; r++) {
        exg_ref window = EMIT(b, slice_Tensor, weight, exg_arg_int(0), exg_arg_int(rows[r][0]),
                              exg_arg_int(rows[r][1]), exg_arg_int(1));
        exg_argument out;

        window = r % 2 == 1 ? EMIT(b, t_default, window) : window;
        out = exg_arg_ref(EMIT(b, neg_default, window));
        exg_builder_output(b, &out, EXG_OUTPUT_USER, NULL);
    }
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    assert_int_equal(
        exg_partition(program, operators, &replicate, NULL, &mesh, 0, &local, &summary, NULL, NULL),
        EXG_OK);
    exg_program_destroy(local);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
    bytes = summary->weight_bytes;
    free(summary);
    return bytes;
}

/* Parts of one weight, as attention has of its projections, are all read; none of them twice. */
static void windows_of_a_weight_are_all_counted_once(void **state)
{
    static const int64_t parts[][2] = {{0, 4}, {4, 8}, {8, 12}};
    static const int64_t again[][2] = {{0, 4}, {0, 4}, {0, 4}};
    static const int64_t overlapping[][2] = {{0, 12}, {0, 8}, {4, 12}};

    (void)state;
    assert_int_equal(read_of_windows(parts, 1), 64);
    assert_int_equal(read_of_windows(parts, 2), 128);
    assert_int_equal(read_of_windows(parts, 3), 192);
    assert_int_equal(read_of_windows(again, 3), 64);
    assert_int_equal(read_of_windows(overlapping, 3), 192); /* no more than there is */
}

static exg_status put_part(void *user, const exg_weight_part *part, exg_error *err)
{
    char *text = user;

    (void)err;
    if (strncmp(part->fqn, "blocks.0.mlp.", 13) == 0) {
        snprintf(text + strlen(text), 512 - strlen(text), "%u %s %d,%d+%d,%d\n", part->rank,
                 part->fqn + 13, (int)part->offsets[0], (int)part->offsets[1], (int)part->sizes[0],
                 (int)part->sizes[1]);
    }
    return EXG_OK;
}

static exg_status refuse_part(void *user, const exg_weight_part *part, exg_error *err)
{
    (void)user;
    (void)part;
    return EXG_FAIL(err, MISMATCH, "TST-001", "no");
}

/* By column, then by row, as Megatron has it; what all ranks need is not told. */
static void it_tells_the_parts_of_weights(void **state)
{
    static const char parts[] = "0 gate.weight 0,0+128,128\n1 gate.weight 128,0+128,128\n"
                                "0 up.weight 0,0+128,128\n1 up.weight 128,0+128,128\n"
                                "0 down.weight 0,0+128,128\n1 down.weight 0,128+128,128\n";
    exg_partition_options options = {.size = sizeof(options), .mode = EXG_PARTITION_TENSOR};
    const exg_mesh_shape mesh = {1, {2}};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_program *functional;
    char text[512] = "";
    exg_error err;
    loaded l;

    (void)state;
    exg_error_clear(&err);
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(
        exg_partition_weights(functional, l.operators, &options, NULL, &mesh, put_part, text, &err),
        EXG_OK);
    assert_string_equal(text, parts);
    assert_int_equal(exg_partition_weights(functional, l.operators, &options, NULL, &mesh,
                                           refuse_part, NULL, &err),
                     EXG_MISMATCH);
    text[0] = '\0';
    options.mode = EXG_PARTITION_REPLICATE;
    assert_int_equal(
        exg_partition_weights(functional, l.operators, &options, NULL, &mesh, put_part, text, &err),
        EXG_OK);
    assert_string_equal(text, "");
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

static exg_status add_rows(void *user, const exg_weight_part *part, exg_error *err)
{
    int64_t *rows = user;

    (void)err;
    if (strcmp(part->fqn, "0.qkv.weight") == 0) {
        rows[part->rank] = part->sizes[0];
        rows[2] += part->offsets[0] == 36 * (int64_t)part->rank;
    }
    return EXG_OK;
}

/* Each rank reads 12 rows of each of three parts: it is told as many. */
static void it_tells_as_much_as_is_read_in_parts(void **state)
{
    exg_partition_options options = {.size = sizeof(options), .mode = EXG_PARTITION_TENSOR};
    const exg_mesh_shape mesh = {1, {2}};
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    int64_t rows[3] = {0};
    exg_program *functional;
    exg_error err;
    loaded l;

    (void)state;
    load_fixture(fixture_named("joined.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(
        exg_partition_weights(functional, l.operators, &options, NULL, &mesh, add_rows, rows, &err),
        EXG_OK);
    assert_int_equal(rows[0], 36);
    assert_int_equal(rows[1], 36);
    assert_int_equal(rows[2], 2);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

static void it_knows_strides(void **state)
{
    exg_tensor t = {.dtype = EXG_DTYPE_F32, .rank = 3, .sizes = {2, 1, 3}};

    (void)state;
    exg_tensor_set_contiguous(&t);
    assert_true(t.strides[0] == 3 && t.strides[2] == 1 && exg_tensor_is_contiguous(&t));
    t.strides[1] = 77; /* of size 1: any */
    assert_true(exg_tensor_is_contiguous(&t));
    t.strides[0] = 4;
    assert_false(exg_tensor_is_contiguous(&t));
    t.sizes[2] = 0;
    assert_true(exg_tensor_is_contiguous(&t));
}

static void it_knows_what_runs(void **state)
{
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    assert_true(exg_operator_runs(exg_operators_get(operators, EXG_OP_mm_default)));
    assert_true(exg_operator_runs(exg_operators_get(operators, EXG_OP_permute_default)));
    assert_true(exg_operator_runs(exg_operators_get(operators, EXG_OP_add_Tensor)));
    exg_operators_destroy(operators);
    assert_string_equal(exg_reduce_op_name(EXG_REDUCE_PRODUCT), "product");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_plans_alone),
        cmocka_unit_test(larger_weights_are_packed_first),
        cmocka_unit_test(an_einsum_does_not_move_its_larger_operand),
        cmocka_unit_test(it_places_alone),
        cmocka_unit_test(the_cheaper_placement_is_one),
        cmocka_unit_test(a_program_of_open_sizes_is_not_planned),
        cmocka_unit_test(options_that_cannot_be_are_refused),
        cmocka_unit_test(auto_is_predicted_no_worse_than_any_strategy),
        cmocka_unit_test(moves_beside_computation_are_predicted_once),
        cmocka_unit_test(what_is_hidden_is_never_below_nothing),
        cmocka_unit_test(ranks_share_cores),
        cmocka_unit_test(collectives_are_parted_where_it_pays),
        cmocka_unit_test(auto_keeps_to_a_memory_limit),
        cmocka_unit_test(costs_are_measured_and_used),
        cmocka_unit_test(it_prepares_without_running),
        cmocka_unit_test(a_write_of_other_sizes_is_not_planned),
        cmocka_unit_test(windows_of_a_weight_are_all_counted_once),
        cmocka_unit_test(it_tells_the_parts_of_weights),
        cmocka_unit_test(it_tells_as_much_as_is_read_in_parts),
        cmocka_unit_test(it_knows_strides),
        cmocka_unit_test(it_knows_what_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
