/* stage.c - programs after a stage: valid, in PyTorch's operators, called as before. */
#include <exg/formats.h>
#include <exg/transform.h>
#include <exg/verify.h>

#include "tests/export/exg_folder.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;

static int set_up(void **state)
{
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    return make_folder(state);
}

static int tear_down(void **state)
{
    exg_operators_destroy(operators);
    return remove_folder(state);
}

static exg_status make(const char *path, exg_stage stage, exg_program **program,
                       exg_program **staged, exg_error *err)
{
    exg_verified verified;
    exg_symbols symbols;

    *program = open_program(path);
    assert_int_equal(exg_verify(*program, operators, &verified, NULL, err), EXG_OK);
    assert_int_equal(exg_bind_hints(*program, (*program)->arena, &symbols, err), EXG_OK);
    return exg_program_at_stage(&verified, &symbols, stage, staged, err);
}

static void stages_are_programs(void **state)
{
    static const char *const paths[] = {"fixtures/mlp.pt2", "fixtures/convbn.pt2",
                                        "fixtures/lm.train-ir.dynamic.pt2", "fixtures/autocast.pt2",
                                        "fixtures/inplace.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        for (int stage = 0; stage < EXG_STAGE_COUNT; stage++) {
            exg_program *program;
            exg_program *staged;
            exg_verified verified;
            exg_error err;

            assert_int_equal(make(paths[i], (exg_stage)stage, &program, &staged, &err), EXG_OK);
            assert_int_equal(exg_verify(staged, operators, &verified, NULL, &err), EXG_OK);
            assert_true(exg_program_has_dialect(staged, stage == EXG_STAGE_DECOMPOSE ? "TRAINING"
                                                                                     : "ATEN"));
            assert_string_equal(staged->module_calls[0].in_spec, program->module_calls[0].in_spec);
            assert_int_equal(staged->range_constraint_count, 0);
            for (uint32_t n = 0; n < staged->graph->node_count; n++) {
                const exg_node *node = &staged->graph->nodes[n];
                const exg_operator *op = exg_operators_find(operators, node->target);

                assert_string_equal(op->schema->name_space, "aten");
                assert_true(stage == EXG_STAGE_DECOMPOSE || !op->schema->is_mutable);
            }
            exg_program_destroy(staged);
            exg_program_destroy(program);
        }
    }
}

/* What is left out stands for its default, so one by position that is None is not. */
static void positions_are_kept(void **state)
{
    exg_program *program;
    exg_program *staged;
    exg_error err;

    (void)state;
    assert_int_equal(
        make("fixtures/lm.core.dynamic.pt2", EXG_STAGE_FUNCTIONALIZE, &program, &staged, &err),
        EXG_OK);
    for (uint32_t n = 0; n < staged->graph->node_count; n++) {
        const exg_node *node = &staged->graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);

        for (uint32_t i = 0; i < node->input_count && node->inputs[i].kind == EXG_KIND_POSITIONAL;
             i++) {
            assert_string_equal(node->inputs[i].name, op->schema->arguments[i].name);
        }
    }
    exg_program_destroy(staged);
    exg_program_destroy(program);
}

static exg_status make_symbolic(const char *path, exg_stage stage, exg_program **program,
                                exg_program **staged, exg_error *err)
{
    exg_verified verified;

    *program = open_program(path);
    assert_int_equal(exg_verify(*program, operators, &verified, NULL, err), EXG_OK);
    return exg_program_at_stage(&verified, NULL, stage, staged, err);
}

/* Sizes, branches, loops and reads of data stay, and what is called stays as it was called. */
static void symbols_stay(void **state)
{
    static const char *const paths[] = {"fixtures/lm.core.dynamic.pt2", "fixtures/loops.pt2",
                                        "fixtures/branch.pt2",          "fixtures/slices.pt2",
                                        "fixtures/integer.pt2",         "fixtures/many.pt2",
                                        "fixtures/examples.pt2",        "fixtures/masks.pt2"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        for (int stage = 0; stage < EXG_STAGE_COUNT; stage++) {
            exg_program *program;
            exg_program *staged;
            exg_verified verified;
            exg_error err;

            assert_int_equal(make_symbolic(paths[i], (exg_stage)stage, &program, &staged, &err),
                             EXG_OK);
            assert_int_equal(exg_verify(staged, operators, &verified, NULL, &err), EXG_OK);
            assert_int_equal(staged->range_constraint_count, program->range_constraint_count);
            for (uint32_t k = 0; k < program->graph->input_count; k++) {
                const exg_argument *was = &program->graph->inputs[k];
                const exg_argument *is = &staged->graph->inputs[k];

                assert_int_equal(is->kind, was->kind);
                if (was->kind == EXG_ARGUMENT_TENSOR) {
                    assert_true(
                        exg_tensor_meta_equal(staged->graph->values[is->as_tensor].tensor,
                                              program->graph->values[was->as_tensor].tensor));
                }
            }
            exg_program_destroy(staged);
            exg_program_destroy(program);
        }
    }
}

/* With numbers for its sizes a program with loops is not known as a whole. */
static void numbers_are_refused(void **state)
{
    exg_program *program;
    exg_program *staged;
    exg_error err;

    (void)state;
    assert_int_equal(make("fixtures/loops.pt2", EXG_STAGE_DECOMPOSE, &program, &staged, &err),
                     EXG_UNSUPPORTED);
    assert_string_equal(err.code, "TRF-004");
    assert_null(staged);
    exg_program_destroy(program);
}

static void names(void **state)
{
    (void)state;
    for (int stage = 0; stage < EXG_STAGE_COUNT; stage++) {
        assert_int_equal(exg_stage_from_name(exg_stage_name((exg_stage)stage)), stage);
    }
    assert_int_equal(exg_stage_from_name("place"), EXG_STAGE_COUNT);
    assert_int_equal(exg_stage_from_name(NULL), EXG_STAGE_COUNT);
    assert_null(exg_stage_name(EXG_STAGE_COUNT));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_programs),
        cmocka_unit_test(positions_are_kept),
        cmocka_unit_test(symbols_stay),
        cmocka_unit_test(numbers_are_refused),
        cmocka_unit_test(names),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
