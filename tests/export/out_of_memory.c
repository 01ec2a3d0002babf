/* out_of_memory.c - what is done with a program without memory: each call says so, or does all of
 * it. */
#include "tests/export/early_maker.h"
#include "tests/export/exg_folder.h"
#include "tests/export/refusal.h"

#include <exg/emit.h>
#include <exg/export.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifdef REFUSES_MEMORY

/* Each prints a text that is as long as with all memory there is, which comes first. */
static exg_status whole(char *text, exg_status status, exg_error *err)
{
    static size_t length;

    if (status == EXG_OK && !memory_is_refused()) {
        length = strlen(text);
    } else if (status == EXG_OK && strlen(text) != length) {
        status = exg_error_set(err, __FILE__, __LINE__, EXG_MISMATCH, "TXT", "%zu of %zu bytes",
                               strlen(text), length);
    }
    free(text);
    return status;
}

static exg_status print_graph(const char *name, void *user, exg_error *err)
{
    char *text = NULL;
    exg_status status = exg_program_print_graph(user, &text, err);

    (void)name;
    return whole(text, status, err);
}

static exg_status print_program(const char *name, void *user, exg_error *err)
{
    char *text = NULL;
    exg_status status = exg_program_print(user, &text, err);

    (void)name;
    return whole(text, status, err);
}

static exg_status print_signature(const char *name, void *user, exg_error *err)
{
    const exg_program *program = user;
    char *text = NULL;
    exg_status status = exg_signature_repr(&program->signature, &text, err);

    (void)name;
    return whole(text, status, err);
}

/* A copy, renamed, beside the program that it is of. */
static exg_status copy(const char *name, void *user, exg_error *err)
{
    const exg_program *program = user;
    exg_program *made = NULL;
    char difference[256];
    exg_status status = exg_program_copy(program, &made, err);

    if (status == EXG_OK && !exg_program_equal(program, made, true, difference) &&
        strstr(difference, "out of memory") == NULL) {
        status = exg_error_set(err, __FILE__, __LINE__, EXG_MISMATCH, "EQL", "%s", difference);
    }
    if (status == EXG_OK && program->graph->input_count > 0) {
        status = exg_program_rename_value(made, program->graph->values[0].name, "renamed", err);
    }
    (void)name;
    exg_program_destroy(made);
    return status;
}

/* Verified, with the findings of a program that breaks rules: all that there are with all memory.
 */
static exg_status find_all(const exg_program *program, const exg_operators *operators,
                           exg_error *err)
{
    static uint32_t count;
    exg_verified verified;
    exg_diagnostics found = {0};
    exg_status status = exg_verify(program, operators, &verified, &found, err);

    status = status == EXG_MALFORMED ? EXG_OK : status;
    if (status == EXG_OK && !memory_is_refused()) {
        count = found.count;
    } else if (status == EXG_OK && found.count != count) {
        status = exg_error_set(err, __FILE__, __LINE__, EXG_MISMATCH, "VER", "%u of %u findings",
                               found.count, count);
    }
    exg_diagnostics_free(&found);
    return status;
}

static exg_status verify(const char *name, void *user, exg_error *err)
{
    exg_operators *operators = NULL;
    exg_status status = exg_operators_create(&operators, err);

    status = status == EXG_OK ? find_all(user, operators, err) : status;
    (void)name;
    exg_operators_destroy(operators);
    return status;
}

/* Written in each form, and read again. */
static exg_status write(const char *name, void *user, exg_error *err)
{
    exg_program *read = NULL;
    const char *path = in_folder(name);
    exg_status status = exg_save(user, path, exg_format_from_path(path), NULL, err);

    status = status == EXG_OK ? exg_open(path, NULL, &read, NULL, err) : status;
    exg_program_destroy(read);
    return status;
}

static exg_status build(const char *name, void *user, exg_error *err)
{
    const float values[2] = {1, 2};
    exg_program *program = NULL;
    exg_builder *b = NULL;
    exg_status status = exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, err);

    (void)name;
    status = status == EXG_OK ? exg_builder_create(user, program, &b, err) : status;
    if (status == EXG_OK) {
        exg_tensor_meta meta = exg_builder_meta(b, EXG_DTYPE_F32, (int64_t[]){2}, 1);
        exg_ref w = exg_builder_weight(b, "w", &meta, EXG_INPUT_PARAMETER, values);
        exg_ref x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        exg_argument y = exg_arg_ref(EMIT(b, mul_Tensor, EMIT(b, add_Tensor, x, 1.5), w));

        exg_builder_set_lowering(b, true);
        EMIT(b, copy_default, x, 2);
        exg_builder_output(b, &y, EXG_OUTPUT_USER, NULL);
        exg_builder_call(b);
        status = exg_builder_finish(b, err);
        status = status == EXG_OK ? exg_signature_from_graph(program, NULL, err) : status;
    }
    exg_program_destroy(program);
    return status;
}

static void programs_survive_it(void **state)
{
    static const char *const files[] = {"fixtures/mlp.pt2",
                                        "tests/export/data/control.pt2",
                                        "tests/export/data/kinds.pt2",
                                        "tests/export/data/protocol4.pt2",
                                        "tests/export/data/symbols.pt2",
                                        "fixtures/bad/SYM-006.pt2"};
    static refused_call *const calls[] = {print_graph, print_program, print_signature, copy,
                                          verify};

    (void)state;
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        exg_program *program = NULL;

        assert_int_equal(exg_open(files[f], NULL, &program, NULL, NULL), EXG_OK);
        for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
            refuse_each(calls[c], files[f], program, 1);
        }
        exg_program_destroy(program);
    }
}

/* What is remembered of names is asked by the next of them: here each is called as the one before,
 * which is found of all or the call says that memory is short. */
static void doubles_are_all_found(void **state)
{
    static const char *const files[] = {"fixtures/mlp.pt2", "tests/export/data/control.pt2"};

    (void)state;
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        exg_program *program = NULL;
        exg_graph *graph;
        const char *branch = NULL;

        assert_int_equal(exg_open(files[f], NULL, &program, NULL, NULL), EXG_OK);
        graph = program->graph;
        for (uint32_t i = 1; i < graph->value_count; i += 2) {
            graph->values[i].name = graph->values[i - 1].name;
        }
        for (uint32_t n = 1; n < graph->node_count; n += 2) {
            graph->nodes[n].name = graph->nodes[n - 1].name;
        }
        for (uint32_t n = 0; n < graph->node_count; n++) {
            for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
                exg_argument *arg = &graph->nodes[n].inputs[i].arg;

                if (arg->kind == EXG_ARGUMENT_GRAPH) {
                    arg->as_graph->name = branch == NULL ? arg->as_graph->name : branch;
                    branch = arg->as_graph->name;
                }
            }
        }
        refuse_each(verify, files[f], program, 1);
        exg_program_destroy(program);
    }
}

static void files_are_written_or_not(void **state)
{
    static const char *const names[] = {"a.json", "a.pt2", "a.exg"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        exg_program *program = open_program("fixtures/mlp.pt2");

        refuse_each(write, names[i], program, 1);
        exg_program_destroy(program);
    }
    empty_folder();
}

/* An early file that names bytes beside it, written again where they are. */
static void files_beside_are_kept_or_not(void **state)
{
    static const char inside[] = "{\"data_location\": \"Internal\", \"data\": {\"buffer\": "
                                 "\"P4AAAMAAAAA=\"}}";
    static const char outside[] =
        "{\"data_location\": \"External\", \"data\": {\"location\": \"w.bin\", \"offset\": \"0\", "
        "\"length\": \"8\", \"checksum\": \"crc32:c7949a4c\"}}";
    const char *text = early_json(inside, outside);
    exg_program *program;

    (void)state;
    write_file("w.bin", "\x3f\x80\0\0\xc0\0\0\0", 8);
    write_file("e.json", text, strlen(text));
    program = open_program(in_folder("e.json"));
    refuse_each(write, "a.json", program, 1);
    exg_program_destroy(program);
    empty_folder();
}

static void graphs_are_built_or_not(void **state)
{
    exg_operators *operators;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    refuse_each(build, "the builder", operators, 1);
    exg_operators_destroy(operators);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_survive_it),      cmocka_unit_test(doubles_are_all_found),
        cmocka_unit_test(files_are_written_or_not), cmocka_unit_test(files_beside_are_kept_or_not),
        cmocka_unit_test(graphs_are_built_or_not),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

#else

int main(void)
{
    return 0;
}
#endif
