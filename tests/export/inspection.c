/* What a program is made of, as its Python source says it. */
#include <exg/formats.h>
#include <exg/inspection.h>
#include <exg/transform.h>
#include <exg/weights.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef struct inspected {
    exg_program *program;
    exg_operators *operators;
    exg_inspection *found;
} inspected;

static inspected inspect(const char *path)
{
    inspected i = {0};

    assert_int_equal(exg_operators_create(&i.operators, NULL), EXG_OK);
    assert_int_equal(exg_open(path, NULL, &i.program, NULL, NULL), EXG_OK);
    assert_int_equal(exg_program_inspect(i.program, i.operators, &i.found, NULL), EXG_OK);
    assert_int_equal(i.found->size, sizeof(*i.found));
    return i;
}

static void end(inspected *i)
{
    exg_inspection_free(i->found);
    exg_program_destroy(i->program);
    exg_operators_destroy(i->operators);
}

/* Linear(8, 16), relu, Linear(16, 4) of a batch of 3: fixtures/programs/small.py. */
static void modules_operators_and_memory_are_counted(void **state)
{
    inspected i = inspect("fixtures/mlp.pt2");
    const exg_module_summary *m = i.found->modules;

    (void)state;
    assert_int_equal(i.found->module_count, 3);
    assert_int_equal(m[0].parameters, 8 * 16 + 16 + 16 * 4 + 4);
    assert_int_equal(m[0].bytes, 4 * m[0].parameters);
    assert_int_equal(m[0].parent, UINT32_MAX);
    assert_string_equal(m[m[0].first].path, "up");
    assert_int_equal(m[m[0].first].parameters, 8 * 16 + 16);
    assert_string_equal(m[m[m[0].first].next].path, "down");
    assert_string_equal(m[m[0].last].type, "torch.nn.modules.linear.Linear");
    assert_int_equal(i.found->operator_count, 2);
    assert_string_equal(i.found->operators[0].target, "torch.ops.aten.linear.default");
    assert_int_equal(i.found->operators[0].count, 2);
    assert_true(i.found->operators[0].known);
    assert_true(i.found->activations_known);
    assert_int_equal(i.found->activation_bytes, 2 * 3 * 16 * sizeof(float));
    assert_int_equal(i.found->alive_bytes[0], 3 * 16 * sizeof(float));
    assert_int_equal(i.found->alive_bytes[1], 2 * 3 * 16 * sizeof(float));
    assert_int_equal(i.found->alive_bytes[2], 3 * 16 * sizeof(float) + 3 * 4 * sizeof(float));
    assert_int_equal(i.found->storage_count, 4);
    assert_int_equal(i.found->storage_bytes, m[0].bytes);
    end(&i);
}

/* encode.weight is decode.weight: each module has it, the whole has it once. */
static void a_tensor_of_two_names_counts_once(void **state)
{
    inspected i = inspect("fixtures/tied.pt2");

    (void)state;
    assert_int_equal(i.found->module_count, 3);
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(i.found->modules[m].parameters, 6 * 6);
    }
    end(&i);
}

/* BatchNorm2d(8) has running_mean, running_var and num_batches_tracked. */
static void buffers_are_not_parameters(void **state)
{
    inspected i = inspect("fixtures/convbn.pt2");
    uint32_t buffers = 0;

    (void)state;
    assert_int_equal(i.found->modules[0].buffers, 8 + 8 + 1);
    for (uint32_t w = 0; w < i.program->weights->count; w++) {
        buffers += i.found->kinds[w] == EXG_WEIGHT_BUFFER;
    }
    assert_int_equal(buffers, 3);
    end(&i);
}

/* Of weights alone: modules by names, elements that blocks stand for. */
static void weights_alone_are_inspected_by_their_names(void **state)
{
    exg_weights *weights = NULL;
    exg_inspection *found = NULL;
    exg_error err;

    (void)state;
    exg_error_clear(&err);
    assert_int_equal(exg_weights_open("fixtures/weights/little.gguf", NULL, &weights, NULL, &err),
                     EXG_OK);
    assert_int_equal(exg_weights_inspect(weights, &found, &err), EXG_OK);
    assert_int_equal(found->modules[0].parameters, 2 * 64 + 2 * 64 + 12);
    assert_int_equal(found->modules[0].buffers, 7);
    assert_int_equal(found->dtype_count, 4);
    assert_string_equal(found->dtypes[0].name, "Q8_0");
    assert_int_equal(found->dtypes[0].elements, 128);
    assert_int_equal(found->dtypes[0].bytes, 136);
    exg_inspection_free(found);
    exg_weights_release(weights);
    assert_int_equal(exg_weights_open("fixtures/weights/nested.pt", NULL, &weights, NULL, &err),
                     EXG_OK);
    assert_int_equal(exg_weights_inspect(weights, &found, &err), EXG_OK);
    assert_int_equal(found->module_count, 3); /* the whole, model, steps */
    /* Tied ones once; views of one storage are other tensors. */
    assert_int_equal(found->modules[0].parameters, 12 + 12 + 4 + 3 + 4);
    exg_inspection_free(found);
    exg_weights_release(weights);
}

static int64_t limit_of(const char *path, const char *input)
{
    inspected i = inspect(path);
    const exg_value_id value = exg_graph_find_value(i.program->graph, input);
    exg_symbols symbols = {0};
    int64_t limit = -1;

    assert_int_not_equal(value, EXG_NO_VALUE);
    assert_int_equal(exg_bind_hints(i.program, i.program->arena, &symbols, NULL), EXG_OK);
    assert_int_equal(exg_index_limit(i.program, value, &symbols, &limit, NULL), EXG_OK);
    end(&i);
    return limit;
}

/* fixtures/programs/lm.py: 128 tokens; a cache of 64 positions, through slices and views; what
 * only counts is no index. */
static void an_input_that_indexes_has_a_limit(void **state)
{
    (void)state;
    assert_int_equal(limit_of("fixtures/lm.core.dynamic.pt2", "tokens"), 128);
    assert_int_equal(limit_of("fixtures/lm.train-ir.dynamic.pt2", "tokens"), 128);
    assert_int_equal(limit_of("fixtures/lm.decode.pt2", "tokens"), 128);
    assert_int_equal(limit_of("fixtures/lm.decode.pt2", "position"), 64);
    assert_int_equal(limit_of("fixtures/places.pt2", "repeats"), 0);
    assert_int_equal(limit_of("fixtures/mlp.pt2", "x"), 0);
}

static void sizes_that_are_asked_for_bind_the_rest(void **state)
{
    inspected i = inspect("fixtures/lm.core.dynamic.pt2");
    const int64_t sizes[] = {1, 17};
    const exg_input_binding given = {.name = "tokens",
                                     .kind = EXG_ARGUMENT_TENSOR,
                                     .dtype = EXG_DTYPE_UNKNOWN,
                                     .rank = 2,
                                     .sizes = sizes};
    exg_symbols symbols = {0};
    exg_error err;

    (void)state;
    assert_int_equal(exg_bind_asked(i.program, &given, 1, i.program->arena, &symbols, &err),
                     EXG_OK);
    assert_int_equal(exg_symbols_find(&symbols, "s27", 3)->value, 17);
    symbols = (exg_symbols){0};
    assert_int_equal(exg_symbols_add(&symbols, i.program->arena, "s27", 3, 16, &err), EXG_OK);
    assert_int_equal(exg_bind_asked(i.program, NULL, 0, i.program->arena, &symbols, &err), EXG_OK);
    assert_int_equal(exg_symbols_find(&symbols, "s27", 3)->value, 16);
    assert_int_equal(exg_bind_asked(i.program, &given, 1, i.program->arena, &symbols, &err),
                     EXG_USAGE); /* 17 here, 16 there */
    assert_string_equal(err.code, "INP-004");
    end(&i);
}

/* Rows go to nodes by the names of what they give; files of other programs and other things are
 * refused. */
static void what_a_run_says_belongs_to_nodes(void **state)
{
    static const char path[] = "annotations.test.json";
    static const char run[] =
        "{\"format\": 1, \"profile\": [{\"origin\": \"linear_1\", \"kernel\": \"linear\", "
        "\"nodes\": 1, \"ns\": 7}]}";
    static const char plan[] =
        "{\"format\": 1, \"mesh\": [{\"dim\": 0, \"nodes\": [{\"origin\": \"relu\", \"ns\": 5, "
        "\"results\": [\"S(0)\"], \"moves\": []}]}]}";
    static const char negative[] =
        "{\"format\": 1, \"profile\": [{\"origin\": \"relu\", \"kernel\": \"x\", \"nodes\": 1, "
        "\"ns\": -7}]}";
    inspected i = inspect("fixtures/mlp.pt2");
    exg_annotations *said;
    exg_error err;

    (void)state;
    assert_int_equal(exg_file_write(path, run, strlen(run), NULL), EXG_OK);
    assert_int_equal(exg_annotations_open(path, i.program, &said, NULL), EXG_OK);
    assert_string_equal(said->from, "profile");
    assert_int_equal(said->count, 1);
    assert_int_equal(said->items[0].node, 2);
    assert_int_equal(said->items[0].ns, 7);
    assert_string_equal(said->items[0].how, "kernel linear");
    exg_annotations_free(said);
    assert_int_equal(exg_file_write(path, plan, strlen(plan), NULL), EXG_OK);
    assert_int_equal(exg_annotations_open(path, i.program, &said, NULL), EXG_OK);
    assert_string_equal(said->from, "plan");
    assert_int_equal(said->items[0].node, 1);
    assert_string_equal(said->items[0].how, "dim 0: S(0)");
    exg_annotations_free(said);
    assert_int_equal(exg_file_write(path, negative, strlen(negative), NULL), EXG_OK);
    assert_int_equal(exg_annotations_open(path, i.program, &said, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "ANN-001");
    assert_int_equal(remove(path), 0);
    end(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_operators_and_memory_are_counted),
        cmocka_unit_test(a_tensor_of_two_names_counts_once),
        cmocka_unit_test(buffers_are_not_parameters),
        cmocka_unit_test(an_input_that_indexes_has_a_limit),
        cmocka_unit_test(sizes_that_are_asked_for_bind_the_rest),
        cmocka_unit_test(what_a_run_says_belongs_to_nodes),
        cmocka_unit_test(weights_alone_are_inspected_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
