/* signature_maps.c - a signature from what tracing knows: S004-28..41. */
#include "libexport/base/arena.h"

#include <exg/signature.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NAMES(...)                                                                                 \
    ((exg_name_list){(const char *const[]){__VA_ARGS__},                                           \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)})
#define ONE(key, value) ((exg_string_map){(exg_string_pair[]){{key, value}}, 1})

static exg_signature_argument tensor(const char *name)
{
    return (exg_signature_argument){.kind = EXG_ARGUMENT_TENSOR, .name = name};
}

/* What S004-41 is made of; it lives as long as the block that says it. */
#define GOLDEN_MAPS                                                                                \
    {                                                                                              \
        .user_inputs = NAMES("x"), .user_outputs = NAMES("y"),                                     \
        .inputs_to_parameters = ONE("p_w", "w"), .inputs_to_buffers = ONE("b_m", "m"),             \
        .buffer_mutations = ONE("nb", "m"), .user_input_mutations = ONE("nx", "x"),                \
        .grad_params = ONE("gp", "w"), .grad_user_inputs = ONE("gx", "x"), .loss_output = "loss",  \
        .input_tokens = NAMES("t0"), .output_tokens = NAMES("t1")                                  \
    }

typedef struct io {
    exg_signature_argument inputs[4];
    exg_signature_argument outputs[8];
} io;

static io golden_io(void)
{
    io made = {{tensor("t0"), tensor("p_w"), tensor("b_m"), tensor("x")},
               {tensor("t1"),
                tensor("nb"),
                tensor("nx"),
                tensor("y"),
                tensor("loss"),
                tensor("gp"),
                tensor("gx"),
                {.kind = EXG_ARGUMENT_NONE, .name = ""}}};

    made.inputs[0].is_token = true;
    made.outputs[0].is_token = true;
    return made;
}

static exg_status from(exg_arena *arena, const exg_signature_maps *maps, const io *of,
                       exg_signature *signature, exg_error *err)
{
    return exg_signature_from_maps(arena, maps, of->inputs, 4, of->outputs, 8, signature, err);
}

/* S004-28, S004-29, S004-30, S004-33, S004-35, S004-37, S004-41: the golden. */
static void it_builds_specs_from_maps(void **state)
{
    static const struct {
        exg_output_kind kind;
        const char *target;
    } expected[] = {
        {EXG_OUTPUT_TOKEN, NULL},
        {EXG_OUTPUT_BUFFER_MUTATION, "m"},
        {EXG_OUTPUT_USER_INPUT_MUTATION, "x"},
        {EXG_OUTPUT_USER, NULL},
        {EXG_OUTPUT_LOSS, NULL},
        {EXG_OUTPUT_GRADIENT_TO_PARAMETER, "w"},
        {EXG_OUTPUT_GRADIENT_TO_USER_INPUT, "x"},
        {EXG_OUTPUT_USER, NULL},
    };
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_signature_maps maps = GOLDEN_MAPS;
    exg_signature s;
    io of = golden_io();

    (void)state;
    assert_int_equal(from(arena, &maps, &of, &s, NULL), EXG_OK);
    assert_int_equal(s.inputs[0].kind, EXG_INPUT_TOKEN);
    assert_int_equal(s.inputs[1].kind, EXG_INPUT_PARAMETER);
    assert_int_equal(s.inputs[2].kind, EXG_INPUT_BUFFER);
    assert_int_equal(s.inputs[2].persistent, EXG_TRUE);
    assert_int_equal(s.inputs[3].kind, EXG_INPUT_USER);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(s.outputs[i].kind, expected[i].kind);
        assert_true(expected[i].target == s.outputs[i].target ||
                    strcmp(expected[i].target, s.outputs[i].target) == 0);
    }
    maps.non_persistent = NAMES("m");
    assert_int_equal(from(arena, &maps, &of, &s, NULL), EXG_OK);
    assert_int_equal(s.inputs[2].persistent, EXG_FALSE);
    exg_arena_destroy(arena);
}

/* S004-30, S004-31, S004-32, S004-35, S004-36, S004-40: a token is one whatever map has its
 * name. */
static void it_prefers_the_user_where_names_meet(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_signature_maps maps = GOLDEN_MAPS;
    exg_signature s;
    io of = golden_io();

    (void)state;
    maps.user_inputs = NAMES("x", "p_w", "t0");
    maps.user_outputs = NAMES("y", "loss", "t1");
    of.inputs[3] = (exg_signature_argument){.kind = EXG_ARGUMENT_CUSTOM_OBJ, .name = "obj"};
    of.outputs[1] = (exg_signature_argument){.kind = EXG_ARGUMENT_NONE, .name = ""};
    assert_int_equal(from(arena, &maps, &of, &s, NULL), EXG_OK);
    assert_int_equal(s.inputs[0].kind, EXG_INPUT_TOKEN);
    assert_null(s.inputs[0].target);
    assert_int_equal(s.outputs[0].kind, EXG_OUTPUT_TOKEN);
    assert_int_equal(s.inputs[1].kind, EXG_INPUT_USER);
    assert_int_equal(s.inputs[3].kind, EXG_INPUT_USER);   /* never CUSTOM_OBJ here */
    assert_int_equal(s.outputs[1].kind, EXG_OUTPUT_USER); /* inside the mutations */
    assert_int_equal(s.outputs[4].kind, EXG_OUTPUT_USER); /* the loss */
    exg_arena_destroy(arena);
}

/* S004-28, S004-29, S004-34, S004-37, S004-38, S004-39: without its map every tensor is
 * unknown. */
static void it_refuses_tensors_no_map_knows(void **state)
{
    static const struct {
        const char *name; /* of the tensor that is unknown then */
        size_t map;
    } rows[] = {
        {"x", offsetof(exg_signature_maps, user_inputs)},
        {"y", offsetof(exg_signature_maps, user_outputs)},
        {"p_w", offsetof(exg_signature_maps, inputs_to_parameters)},
        {"b_m", offsetof(exg_signature_maps, inputs_to_buffers)},
        {"gp", offsetof(exg_signature_maps, grad_params)},
        {"gx", offsetof(exg_signature_maps, grad_user_inputs)},
        {"loss", offsetof(exg_signature_maps, loss_output)},
        {"nb", offsetof(exg_signature_maps, buffer_mutations)},
        {"nx", offsetof(exg_signature_maps, user_input_mutations)},
        {"nx", offsetof(exg_signature_maps, output_tokens)}, /* the part is one shorter */
    };
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_signature_maps maps = GOLDEN_MAPS;
        io of = golden_io();
        exg_signature s = {0};
        char quoted[16];
        exg_error err;

        snprintf(quoted, sizeof(quoted), "'%s'", rows[i].name);
        memset((char *)&maps + rows[i].map, 0,
               rows[i].map == offsetof(exg_signature_maps, loss_output) ? sizeof(char *)
                                                                        : sizeof(exg_name_list));
        assert_int_equal(from(arena, &maps, &of, &s, &err), EXG_MALFORMED);
        assert_string_equal(err.code, "SIG-025");
        if (strstr(err.message, quoted) == NULL) {
            fail_msg("row %zu: %s", i, err.message);
        }
        assert_null(s.inputs);
    }
    exg_arena_destroy(arena);
}

/* S004-38: y in the part of the mutations. */
static void it_refuses_a_result_among_mutations(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_signature_maps maps = GOLDEN_MAPS;
    io of = golden_io();
    exg_signature s;
    exg_error err;

    (void)state;
    of.outputs[1] = tensor("y");
    assert_int_equal(from(arena, &maps, &of, &s, &err), EXG_MALFORMED);
    assert_string_equal(err.where, "output_specs[1]");
    exg_arena_destroy(arena);
}

/* S004-34: constants, which the seed does not know. */
static void it_takes_constants_from_maps(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_signature_maps maps = GOLDEN_MAPS;
    io of = golden_io();
    exg_signature s;

    (void)state;
    maps.inputs_to_constants = ONE("c_k", "k");
    of.inputs[3] = tensor("c_k");
    assert_int_equal(from(arena, &maps, &of, &s, NULL), EXG_OK);
    assert_int_equal(s.inputs[3].kind, EXG_INPUT_CONSTANT_TENSOR);
    assert_string_equal(s.inputs[3].target, "k");
    exg_arena_destroy(arena);
}

/* S004-28: with several of each, and parameters that are mutated; the part of the mutations is as
 * long as all maps of mutations together. */
static void it_builds_specs_of_several(void **state)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_string_pair parameters[] = {{"p_v", "v"}, {"p_w", "w"}};
    exg_string_pair buffers[] = {{"b_l", "l"}, {"b_m", "m"}};
    exg_string_pair new_parameters[] = {{"nv", "v"}, {"nw", "w"}};
    exg_string_pair new_buffers[] = {{"nl", "l"}, {"nm", "m"}};
    exg_string_pair new_inputs[] = {{"nx", "x"}, {"ny", "y"}};
    exg_string_pair gradients[] = {{"gv", "v"}, {"gw", "w"}};
    exg_signature_maps maps = {.user_inputs = NAMES("x", "y"),
                               .user_outputs = NAMES("r", "s"),
                               .inputs_to_parameters = {parameters, 2},
                               .inputs_to_buffers = {buffers, 2},
                               .buffer_mutations = {new_buffers, 2},
                               .parameter_mutations = {new_parameters, 2},
                               .user_input_mutations = {new_inputs, 2},
                               .grad_params = {gradients, 2},
                               .non_persistent = NAMES("k", "m")};
    static const char *const names[] = {"p_v", "p_w", "b_l", "b_m", "x", "y"};
    static const char *const targets[] = {"v", "w", "l", "m", NULL, NULL};
    static const char *const results[] = {"nl", "nm", "nv", "nw", "nx", "ny", "r", "s", "gv", "gw"};
    static const char *const of[] = {"l", "m", "v", "w", "x", "y", NULL, NULL, "v", "w"};
    static const exg_output_kind kinds[] = {
        EXG_OUTPUT_BUFFER_MUTATION, EXG_OUTPUT_PARAMETER_MUTATION, EXG_OUTPUT_USER_INPUT_MUTATION,
        EXG_OUTPUT_USER, EXG_OUTPUT_GRADIENT_TO_PARAMETER};
    exg_signature_argument inputs[6], outputs[10];
    exg_signature s;
    exg_error err;

    (void)state;
    for (int i = 0; i < 10; i++) {
        outputs[i] = tensor(results[i]);
        inputs[i < 6 ? i : 0] = tensor(names[i < 6 ? i : 0]);
    }
    assert_int_equal(exg_signature_from_maps(arena, &maps, inputs, 6, outputs, 10, &s, &err),
                     EXG_OK);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(s.inputs[i].target == NULL ? "-" : s.inputs[i].target,
                            targets[i] == NULL ? "-" : targets[i]);
        assert_int_equal(s.inputs[i].persistent, i == 2   ? EXG_TRUE
                                                 : i == 3 ? EXG_FALSE
                                                          : EXG_UNSET);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(s.outputs[i].kind, kinds[i / 2]);
        assert_string_equal(s.outputs[i].target == NULL ? "-" : s.outputs[i].target,
                            of[i] == NULL ? "-" : of[i]);
    }
    outputs[6] = tensor("nx"); /* behind the part of the mutations it is none */
    assert_int_equal(exg_signature_from_maps(arena, &maps, inputs, 6, outputs, 10, &s, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.where, "output_specs[6]");
    exg_arena_destroy(arena);
}

/* S004-28: what the inputs of a graph are to its signature, of every kind. */
static void it_makes_a_signature_of_every_kind(void **state)
{
    exg_value values[] = {{.name = "t"}, {.name = "i"}, {.name = "f"}, {.name = "b"}};
    exg_custom_obj object = {"o", "a.B"};
    exg_argument args[] = {
        {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = 0},
        {.kind = EXG_ARGUMENT_SYM_INT, .as_sym = {1, {0}}},
        {.kind = EXG_ARGUMENT_SYM_INT, .as_sym = {EXG_NO_VALUE, {.as_int = 7}}},
        {.kind = EXG_ARGUMENT_SYM_FLOAT, .as_sym = {2, {0}}},
        {.kind = EXG_ARGUMENT_SYM_FLOAT, .as_sym = {EXG_NO_VALUE, {.as_float = 0.5}}},
        {.kind = EXG_ARGUMENT_SYM_BOOL, .as_sym = {3, {0}}},
        {.kind = EXG_ARGUMENT_SYM_BOOL, .as_sym = {EXG_NO_VALUE, {.as_bool = true}}},
        {.kind = EXG_ARGUMENT_INT, .as_int = -3},
        {.kind = EXG_ARGUMENT_FLOAT, .as_float = 1.5},
        {.kind = EXG_ARGUMENT_BOOL, .as_bool = true},
        {.kind = EXG_ARGUMENT_STRING, .as_string = "s"},
        {.kind = EXG_ARGUMENT_NONE},
        {.kind = EXG_ARGUMENT_CUSTOM_OBJ, .as_custom_obj = &object},
    };
    static const char *const shown[] = {
        "TensorArgument(name='t')",
        "SymIntArgument(name='i')",
        "ConstantArgument(name='', value=7)",
        "SymFloatArgument(name='f')",
        "ConstantArgument(name='', value=0.5)",
        "SymBoolArgument(name='b')",
        "ConstantArgument(name='', value=True)",
        "ConstantArgument(name='', value=-3)",
        "ConstantArgument(name='', value=1.5)",
        "ConstantArgument(name='', value=True)",
        "ConstantArgument(name='', value='s')",
        "ConstantArgument(name='', value=None)",
        "CustomObjArgument(name='o', class_fqn='a.B', fake_val=None)"};
    exg_program *program = NULL;
    char *text = NULL;
    const char *at;
    exg_error err;

    (void)state;
    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    program->graph->values = values;
    program->graph->value_count = 4;
    program->graph->inputs = program->graph->outputs = args;
    program->graph->input_count = program->graph->output_count = 13;
    assert_int_equal(exg_signature_from_graph(program, NULL, &err), EXG_OK);
    assert_int_equal(exg_signature_repr(&program->signature, &text, NULL), EXG_OK);
    at = text;
    for (int i = 0; i < 26; i++) { /* inputs, then outputs */
        char part[160];

        snprintf(part, sizeof(part), "%s(kind=<%sKind.USER_%sPUT: 1>, arg=%s",
                 i < 13 ? "InputSpec" : "OutputSpec", i < 13 ? "Input" : "Output",
                 i < 13 ? "IN" : "OUT", shown[i % 13]);
        at = strstr(at, part);
        if (at == NULL) {
            fail_msg("no %s in its place", part);
        }
        at += strlen(part);
    }
    free(text);
    args[3].as_sym.value = 4;
    assert_int_equal(exg_signature_from_graph(program, NULL, &err), EXG_USAGE);
    assert_string_equal(err.code, "BLD-002");
    assert_string_equal(err.where, "graph.inputs[3]");
    args[3] = (exg_argument){.kind = EXG_ARGUMENT_INTS};
    assert_int_equal(exg_signature_from_graph(program, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.code, "SIG-026");
    program->graph->input_count = 1;
    assert_int_equal(exg_signature_from_graph(program, NULL, &err), EXG_MALFORMED);
    assert_string_equal(err.where, "output_specs[3]");
    exg_program_destroy(program);
}

/* The first spec and the last, and none behind. */
static void it_looks_at_every_spec_and_no_more(void **state)
{
    exg_input_spec inputs[2] = {{.kind = EXG_INPUT_USER, .arg = {.name = "x"}},
                                {.kind = EXG_INPUT_USER, .arg = {.name = "behind"}}};
    exg_output_spec outputs[2] = {{.kind = EXG_OUTPUT_USER, .arg = {.name = "y"}},
                                  {.kind = EXG_OUTPUT_USER, .arg = {.name = "behind"}}};
    const exg_signature s = {
        .inputs = inputs, .input_count = 1, .outputs = outputs, .output_count = 1};
    const exg_signature_argument *leaves[2];
    const char *names[2];
    uint32_t count;

    (void)state;
    assert_int_equal(exg_signature_user_inputs(&s, leaves, 2, &count, NULL), EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(leaves[0]->name, "x");
    assert_int_equal(exg_signature_user_outputs(&s, EXG_WITH_LOSS, leaves, 2, &count, NULL),
                     EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(leaves[0]->name, "y");
    for (int i = 0; i < 2; i++) {
        inputs[i].kind = EXG_INPUT_TOKEN;
        outputs[i].kind = EXG_OUTPUT_TOKEN;
        inputs[i].arg.is_token = outputs[i].arg.is_token = true;
    }
    assert_int_equal(exg_signature_input_tokens(&s, names, 2, &count, NULL), EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "x");
    assert_int_equal(exg_signature_output_tokens(&s, names, 2, &count, NULL), EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_builds_specs_from_maps),
        cmocka_unit_test(it_prefers_the_user_where_names_meet),
        cmocka_unit_test(it_refuses_tensors_no_map_knows),
        cmocka_unit_test(it_refuses_a_result_among_mutations),
        cmocka_unit_test(it_takes_constants_from_maps),
        cmocka_unit_test(it_builds_specs_of_several),
        cmocka_unit_test(it_makes_a_signature_of_every_kind),
        cmocka_unit_test(it_looks_at_every_spec_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
