/* exg_model.c - all that a program can say, through a file and back: every argument
 * kind, every optional field there and absent, numbers that defaults could swallow. */
#include "tests/export/exg_folder.h"
#include "tests/export/whole.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What exg_program_equal() does not look at. */
static void expect_rest(const exg_program *p, const exg_program *made)
{
    double zero = -0.0;

    assert_string_equal(p->name, "m");
    assert_int_equal(p->origin, EXG_ORIGIN_EARLY);
    assert_int_equal(p->schema_major, -1);
    assert_null(p->torch_version);
    assert_int_equal(p->sample_input_count, 4);
    assert_null(p->sample_inputs[0].keyword);
    assert_true(exg_tensor_meta_equal(p->sample_inputs[0].meta, made->sample_inputs[0].meta));
    assert_string_equal(p->sample_inputs[1].keyword, "");
    assert_memory_equal(&p->sample_inputs[1].as_float, &zero, sizeof(zero));
    assert_string_equal(p->sample_inputs[2].as_string, "");
    assert_int_equal(p->extra_file_count, 1);
    assert_string_equal(p->extra_files[0].name, "extra");
    assert_int_equal(p->weights->storages[p->extra_files[0].storage].length, 0);
    assert_int_equal(p->weights->storages[p->extra_files[0].storage].checksum.kind,
                     EXG_CHECKSUM_XXH3_128);
    assert_string_equal(p->weights->storages[p->extra_files[0].storage].further[0].text, "md5:00");
    assert_int_equal(p->weights->storages[0].byte_order, EXG_BIG_ENDIAN);
    assert_true(p->weights->items[0].use_pickle);
    assert_null(p->module_calls[1].forward_arg_names);
    assert_null(p->module_calls[0].out_spec);
    assert_string_equal(p->signature.assertion_dep_token, "y");
    assert_int_equal(p->signature.assertion_dep_index, 2);
    assert_string_equal(p->input_metadata[0].input, "x");
    assert_string_equal(p->early_form, "{\"name\" :\"m\"}");
    assert_null(p->input_metadata[1].input);
    assert_string_equal(p->input_metadata[1].metadata.items[0].value,
                        made->input_metadata[1].metadata.items[0].value);
}

/* S004-05, S004-06, S004-07, S004-15, S004-18, S004-82, S004-83: signatures too, with constants of
 * five kinds, an object as an input, a target that is empty, PyTorch's symbolic kinds. */
/* S002-94, S002-107, S002-113: falsy values, absent ones, an early origin, big endian bytes,
 * metadata of inputs. */
static void it_gives_back_all_that_a_program_can_say(void **state)
{
    exg_program *p = make_whole();
    exg_program *q;
    char difference[256] = "";

    (void)state;
    save_program(p, "all.exg", NULL);
    q = open_program(in_folder("all.exg"));
    if (!exg_program_equal(p, q, true, difference)) {
        fail_msg("%s", difference);
    }
    expect_rest(q, p);
    save_program(q, "again.exg", NULL);
    assert_files_equal("all.exg", "again.exg");
    exg_program_destroy(p);
    exg_program_destroy(q);
    empty_folder();
}

/* S002-113 */
static void it_covers_every_argument_kind(void **state)
{
    exg_program *p = make_whole();
    const exg_node *node = &p->graph->nodes[0];

    (void)state;
    for (int kind = 0; kind < EXG_ARGUMENT_KIND_COUNT; kind++) {
        uint32_t i = 0;

        while (i < node->input_count && (int)node->inputs[i].arg.kind != kind) {
            i++;
        }
        if (i == node->input_count) {
            fail_msg("no %s", exg_argument_tag((exg_argument_kind)kind));
        }
    }
    exg_program_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_back_all_that_a_program_can_say),
        cmocka_unit_test(it_covers_every_argument_kind),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
