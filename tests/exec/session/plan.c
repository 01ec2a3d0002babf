/* plan.c - a plan by itself: made from a functional program, printed, told from others;
 * sessions that only prepare; what a session says of its placement.
 */
#include "tests/exec/session/fixture.h"

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

static const fixture *fixture_named(const char *name)
{
    for (uint32_t i = 0; i < fixture_count; i++) {
        if (strcmp(fixtures[i].program, name) == 0) {
            return &fixtures[i];
        }
    }
    fail_msg("no fixture %s", name);
    return NULL;
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
    exg_plan_summarize(plan, &with);
    assert_int_equal(exg_plan_print(plan, &text, NULL), EXG_OK);
    assert_non_null(strstr(text, "arena"));
    free(text);
    exg_plan_destroy(plan);
    assert_int_equal(exg_plan_create(functional, l.operators, &plain, &plan, NULL), EXG_OK);
    exg_plan_summarize(plan, &without);
    exg_plan_destroy(plan);
    assert_int_equal(with.node_count, functional->graph->node_count);
    assert_true(with.step_count < without.step_count && without.fused_count == 0);
    assert_true(with.arena_bytes < without.arena_bytes);
    assert_true(with.weight_bytes == without.weight_bytes && with.weight_bytes > 0);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

static void it_places_alone(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_place_options options = {.size = sizeof(options), .mode = EXG_PLACE_TENSOR};
    exg_mesh_shape mesh = {1, {2}};
    exg_place_summary summary;
    exg_program *functional;
    exg_program *local;
    char *report;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    functional = functional_of(&l, arena);
    assert_int_equal(exg_place(functional, l.operators, &options, NULL, &mesh, 1, &local, &summary,
                               &report,
                               NULL), EXG_OK);
    assert_true(summary.split_count > 0 && summary.moved_bytes > 0);
    assert_true(report != NULL && report[0] != '\0');
    free(report);
    exg_program_destroy(local);
    exg_program_destroy(functional);
    exg_arena_destroy(arena);
    unload_fixture(&l);
}

static void it_prepares_without_running(void **state)
{
    exg_session_options options = {.size = sizeof(options), .mesh = {1, {2}},
                                   .place = {{.size = sizeof(options.place[0]),
                                             .mode = EXG_PLACE_TENSOR}}};
    exg_session_input input;
    exg_session_stats stats;
    exg_session *session;
    loaded l;

    (void)state;
    load_fixture(fixture_named("lm.core.static.pt2"), &l);
    session = open_session(&l, &options);
    assert_null(exg_session_plan(session));
    assert_null(exg_session_place_report(session));
    input = (exg_session_input){l.inputs->items[0].name,
                                {NULL, l.inputs->items[0].dtype, l.inputs->items[0].rank}};
    memcpy(input.tensor.sizes, l.inputs->items[0].shape, input.tensor.rank * sizeof(int64_t));
    exg_tensor_set_contiguous(&input.tensor);
    assert_true(exg_tensor_is_contiguous(&input.tensor));
    assert_int_equal(exg_session_prepare(session, &input, 1, NULL), EXG_OK);
    exg_session_statistics(session, &stats);
    assert_true(stats.runs == 0 && stats.plan_count == 1);
    assert_non_null(exg_session_plan(session));
    assert_non_null(exg_session_place_report(session));
    exg_session_destroy(session);
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
        cmocka_unit_test(it_places_alone),
        cmocka_unit_test(it_prepares_without_running),
        cmocka_unit_test(it_knows_strides),
        cmocka_unit_test(it_knows_what_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
