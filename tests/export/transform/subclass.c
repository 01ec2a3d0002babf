/* subclass.c - parameters that are tensor subclasses become the tensors inside of them. */
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

static void inner_tensors_are_inputs(void **state)
{
    static const char *const targets[] = {"up.weight.qdata", "up.weight.scale", "up.bias",
                                          "down.weight.qdata", "down.weight.scale"};
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

/* Every byte of what is inside is another one. */
static exg_weights *others_of(exg_weights *inner)
{
    exg_weights *others;
    uint8_t *bytes;
    exg_error err;

    assert_int_equal(exg_weights_create(NULL, &others, &err), EXG_OK);
    for (uint32_t i = 0; i < inner->count; i++) {
        exg_weight weight = inner->items[i];
        uint64_t length = inner->storages[weight.storage].length;

        bytes = malloc((size_t)length);
        assert_non_null(bytes);
        assert_int_equal(exg_storage_read(inner, weight.storage, 0, length, bytes, &err), EXG_OK);
        for (uint64_t k = 0; k < length; k++) {
            bytes[k] ^= 1;
        }
        assert_int_equal(
            exg_weights_add_bytes(others, bytes, length, EXG_LITTLE_ENDIAN, &weight.storage, &err),
            EXG_OK);
        assert_int_equal(exg_weights_add(others, &weight, &err), EXG_OK);
    }
    return others;
}

static void expect_same(exg_weights *a, exg_weights *b)
{
    exg_error err;

    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        const exg_weight *weight = &a->items[i];
        const exg_weight *other = exg_weights_find(b, weight->table, weight->fqn);
        uint64_t length = a->storages[weight->storage].length;
        uint8_t x[4096];
        uint8_t y[4096];

        assert_non_null(other);
        assert_true(length <= sizeof(x));
        assert_int_equal(exg_storage_read(a, weight->storage, 0, length, x, &err), EXG_OK);
        assert_int_equal(exg_storage_read(b, other->storage, 0, length, y, &err), EXG_OK);
        assert_memory_equal(x, y, length);
    }
}

/* Into the pickles, with checksums that hold when they are read again: run_subclasses.py has
 * PyTorch load such a file. */
static void other_values_go_back_into_the_pickles(void **state)
{
    static const char *const forms[] = {"fixtures/subclass.pt2", "p.exg"};

    (void)state;
    for (size_t f = 0; f < 2; f++) {
        exg_program *program = open_program("fixtures/subclass.pt2");
        exg_save_options options = {.size = sizeof(options), .compression = EXG_COMPRESSION_ZSTD};
        exg_mismatches mismatches;
        exg_weights *inner;
        exg_weights *filled;
        exg_weights *wrapped;
        exg_weights *read;
        exg_weights *others;
        exg_error err;

        if (f == 1) {
            save_program(program, forms[f], &options);
            exg_program_destroy(program);
            program = open_program(in_folder(forms[f]));
        }
        assert_int_equal(exg_weights_unwrap(program->weights, &inner, &err), EXG_OK);
        others = others_of(inner);
        assert_int_equal(exg_weights_fill(inner, others, false, &filled, &mismatches, &err),
                         EXG_OK);
        exg_mismatches_free(&mismatches);
        assert_int_equal(exg_weights_wrap(program->weights, filled, &wrapped, &err), EXG_OK);
        assert_true(exg_weights_has_subclasses(wrapped));
        exg_weights_release(program->weights);
        program->weights = wrapped;
        save_program(program, "q.pt2", NULL);
        exg_program_destroy(program);
        program = open_program(in_folder("q.pt2"));
        assert_int_equal(exg_weights_unwrap(program->weights, &read, &err), EXG_OK);
        assert_false(exg_weights_has_subclasses(read));
        expect_same(others, read);
        exg_weights_release(read);
        exg_program_destroy(program);
        exg_weights_release(filled);
        exg_weights_release(inner);
        exg_weights_release(others);
        empty_folder();
    }
}

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define CALL(leaves)                                                                               \
    "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": ["               \
    "{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [" leaves "]}, "     \
    "{\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]"

/* The fixture with the weight of the second layer as an input. */
static exg_program *with_an_input(void)
{
    static const char *names[] = {"w", "x"};
    exg_program *program = open_program("fixtures/subclass.pt2");
    exg_input_spec *spec = &program->signature.inputs[2];

    assert_string_equal(spec->target, "down.weight");
    spec->kind = EXG_INPUT_USER;
    spec->target = NULL;
    program->module_calls[0].in_spec = CALL(LEAF ", " LEAF);
    program->module_calls[0].forward_arg_names = names;
    program->module_calls[0].forward_arg_name_count = 2;
    program->sample_input_count = 0;
    return program;
}

static void of_an_input_what_is_asked_for(void **state)
{
    exg_program *program = with_an_input();
    exg_program *unwrapped = NULL;
    const char **paths;
    exg_verified verified;
    exg_error err;

    (void)state;
    assert_int_equal(exg_program_unwrap(program, &unwrapped, &err), EXG_OK);
    assert_int_equal(unwrapped->signature.input_count, 6);
    for (uint32_t i = 3; i < 6; i++) {
        const exg_input_spec *spec = &unwrapped->signature.inputs[i];

        assert_int_equal(spec->kind, EXG_INPUT_USER);
        assert_null(spec->target);
        assert_string_equal(spec->arg.name, i == 3   ? "p_down_weight_qdata"
                                            : i == 4 ? "p_down_weight_scale"
                                                     : "x");
    }
    assert_int_equal(exg_input_paths(unwrapped, unwrapped->arena, &paths, &err), EXG_OK);
    assert_string_equal(paths[3], "w.qdata");
    assert_string_equal(paths[4], "w.scale");
    assert_string_equal(paths[5], "x");
    assert_int_equal(exg_verify(unwrapped, operators, &verified, NULL, &err), EXG_OK);
    exg_program_destroy(unwrapped);
    exg_program_destroy(program);
}

static void an_input_that_is_used_as_a_whole_is_refused(void **state)
{
    exg_program *program = with_an_input();
    exg_value_id weight = program->graph->inputs[2].as_tensor;
    exg_program *unwrapped = NULL;
    exg_error err;

    (void)state;
    for (uint32_t n = program->graph->node_count; n-- > 0;) { /* the last that asks takes it */
        exg_node *node = &program->graph->nodes[n];

        if (strcmp(node->target, EXG_ACCESS_SUBCLASS) == 0 &&
            node->inputs[0].arg.as_tensor == weight) {
            node->target = "torch.ops.aten.alias.default";
            node->input_count = 1;
            break;
        }
    }
    assert_int_equal(exg_program_unwrap(program, &unwrapped, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "TRF-002");
    exg_program_destroy(program);
}

/* No input, and no parameter: a node gives it. */
static void one_that_the_program_makes_is_refused(void **state)
{
    exg_program *program = open_program("fixtures/subclass.pt2");
    exg_program *unwrapped = NULL;
    exg_graph *graph = program->graph;
    exg_error err;

    (void)state;
    assert_string_equal(graph->nodes[3].target, EXG_ACCESS_SUBCLASS);
    graph->nodes[3].inputs[0].arg.as_tensor = graph->nodes[4].outputs[0].as_tensor;
    assert_true(exg_program_has_subclasses(program));
    assert_int_equal(exg_program_unwrap(program, &unwrapped, &err), EXG_UNSUPPORTED);
    assert_string_equal(err.code, "TRF-002");
    assert_non_null(strstr(err.message, "that the program makes"));
    exg_program_destroy(program);
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
        cmocka_unit_test(other_values_go_back_into_the_pickles),
        cmocka_unit_test(of_an_input_what_is_asked_for),
        cmocka_unit_test(an_input_that_is_used_as_a_whole_is_refused),
        cmocka_unit_test(one_that_the_program_makes_is_refused),
        cmocka_unit_test(what_cannot_be_taken_apart_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
