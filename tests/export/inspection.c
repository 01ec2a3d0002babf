/* What a program is made of, as its Python source says it. */
#include <exg/formats.h>
#include <exg/inspection.h>
#include <exg/weights.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_operators_and_memory_are_counted),
        cmocka_unit_test(a_tensor_of_two_names_counts_once),
        cmocka_unit_test(buffers_are_not_parameters),
        cmocka_unit_test(weights_alone_are_inspected_by_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
