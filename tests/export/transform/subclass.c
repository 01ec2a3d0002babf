/* subclass.c - parameters that are tensor subclasses become the tensors inside of them. */
#include <exg/formats.h>
#include <exg/transform.h>
#include <exg/verify.h>

#include "tests/export/exg_folder.h"

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

static void inner_tensors_are_inputs(void **state)
{
    static const char *const targets[] = {"up.weight.qdata", "up.weight.scale", "down.weight.qdata",
                                          "down.weight.scale", "up.bias"};
    exg_program *program = open_program("fixtures/subclass.pt2");
    exg_program *unwrapped = NULL;
    exg_verified verified;
    const exg_weight *data;
    int8_t bytes[16 * 8];
    exg_error err;

    (void)state;
    assert_true(exg_program_has_subclasses(program));
    assert_true(exg_weights_has_subclasses(program->weights));
    assert_int_equal(exg_program_unwrap(program, &unwrapped, &err), EXG_OK);
    assert_false(exg_program_has_subclasses(unwrapped));
    assert_false(exg_weights_has_subclasses(unwrapped->weights));
    assert_int_equal(unwrapped->graph->input_count, 6);
    assert_int_equal(unwrapped->signature.input_count, 6);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(unwrapped->signature.inputs[i].target, targets[i]);
    }
    assert_string_equal(unwrapped->signature.inputs[0].arg.name, "p_up_weight_qdata");
    assert_int_equal(unwrapped->graph->node_count, program->graph->node_count - 4);
    assert_int_equal(exg_verify(unwrapped, operators, &verified, NULL, &err), EXG_OK);
    assert_int_equal(exg_verify(program, operators, &verified, NULL, &err), EXG_OK);
    exg_program_destroy(program); /* the other keeps its weights */
    data = exg_weights_find(unwrapped->weights, EXG_TABLE_STATE, "up.weight.qdata");
    assert_non_null(data);
    assert_int_equal(data->meta->dtype, EXG_DTYPE_I8);
    assert_int_equal(exg_weight_read(unwrapped->weights, data, bytes, sizeof(bytes), &err), EXG_OK);
    exg_program_destroy(unwrapped);
}

/* Packed in an .exg the pickles are inflated before they are read. */
static void they_are_found_in_every_form(void **state)
{
    static const char *const forms[] = {"p.exg", "p.pt2", "p.json"};

    (void)state;
    for (size_t f = 0; f < 3; f++) {
        exg_save_options options = {.size = sizeof(options),
                                    .compression =
                                        f == 0 ? EXG_COMPRESSION_ZSTD : EXG_COMPRESSION_NONE};
        exg_program *program = open_program("fixtures/subclass.pt2");
        exg_program *unwrapped = NULL;
        exg_error err;

        save_program(program, forms[f], &options);
        exg_program_destroy(program);
        program = open_program(in_folder(forms[f]));
        if (exg_program_unwrap(program, &unwrapped, &err) != EXG_OK) {
            fail_msg("%s: %s %s", forms[f], err.code, err.message);
        }
        assert_int_equal(unwrapped->signature.input_count, 6);
        exg_program_destroy(program);
        exg_program_destroy(unwrapped);
        empty_folder();
    }
}

static exg_node *first_access(exg_program *program)
{
    assert_string_equal(program->graph->nodes[0].target, EXG_ACCESS_SUBCLASS);
    return &program->graph->nodes[0];
}

static void what_cannot_be_taken_apart_is_refused(void **state)
{
    static const struct {
        const char *attribute, *code;
        exg_status status;
    } rows[] = {
        {"zdata", "TRF-002", EXG_UNSUPPORTED}, /* no tensor of that name */
        {NULL, "TRF-002", EXG_UNSUPPORTED},    /* the whole of it */
        {"", "TRF-002", EXG_UNSUPPORTED},      /* no pickle */
    };

    (void)state;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        exg_program *program = open_program("fixtures/subclass.pt2");
        exg_program *unwrapped = NULL;
        exg_weights *weights = NULL;
        exg_error err;

        if (rows[r].attribute == NULL) {
            exg_node *node = first_access(program);

            node->target = "torch.ops.aten.alias.default";
            node->input_count = 1;
        } else if (rows[r].attribute[0] != '\0') {
            first_access(program)->inputs[1].arg.as_string = rows[r].attribute;
        } else {
            uint32_t storage = program->weights->items[0].storage;
            static const uint8_t nothing[16] = {0};

            program->weights->storages[storage].data = nothing;
            program->weights->storages[storage].length = sizeof(nothing);
            program->weights->storages[storage].checksum.kind = EXG_CHECKSUM_NONE;
        }
        assert_int_equal(exg_program_unwrap(program, &unwrapped, &err), rows[r].status);
        assert_string_equal(err.code, rows[r].code);
        assert_null(unwrapped);
        if (rows[r].attribute != NULL && rows[r].attribute[0] == '\0') { /* that one stays */
            assert_int_equal(exg_weights_unwrap(program->weights, &weights, &err), EXG_OK);
            assert_true(exg_weights_has_subclasses(weights));
            assert_non_null(exg_weights_find(weights, EXG_TABLE_STATE, "down.weight.qdata"));
            exg_weights_release(weights);
        }
        exg_program_destroy(program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inner_tensors_are_inputs),
        cmocka_unit_test(they_are_found_in_every_form),
        cmocka_unit_test(what_cannot_be_taken_apart_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
