/* signature_maps.c - a signature from what tracing knows: S004-28..41. */
#include "libexport/base/arena.h"

#include <exg/signature.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NAMES(...) ((exg_name_list){(const char *const[]){__VA_ARGS__}, \
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
    io made = {
        {tensor("t0"), tensor("p_w"), tensor("b_m"), tensor("x")},
        {tensor("t1"), tensor("nb"), tensor("nx"), tensor("y"), tensor("loss"), tensor("gp"),
         tensor("gx"), {.kind = EXG_ARGUMENT_NONE, .name = ""}}
    };

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
        {EXG_OUTPUT_TOKEN,                  NULL},
        {EXG_OUTPUT_BUFFER_MUTATION,        "m" },
        {EXG_OUTPUT_USER_INPUT_MUTATION,    "x" },
        {EXG_OUTPUT_USER,                   NULL},
        {EXG_OUTPUT_LOSS,                   NULL},
        {EXG_OUTPUT_GRADIENT_TO_PARAMETER,  "w" },
        {EXG_OUTPUT_GRADIENT_TO_USER_INPUT, "x" },
        {EXG_OUTPUT_USER,                   NULL},
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
    assert_int_equal(s.inputs[3].kind, EXG_INPUT_USER); /* never CUSTOM_OBJ here */
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
        {"x",    offsetof(exg_signature_maps, user_inputs)         },
        {"y",    offsetof(exg_signature_maps, user_outputs)        },
        {"p_w",  offsetof(exg_signature_maps, inputs_to_parameters)},
        {"b_m",  offsetof(exg_signature_maps, inputs_to_buffers)   },
        {"gp",   offsetof(exg_signature_maps, grad_params)         },
        {"gx",   offsetof(exg_signature_maps, grad_user_inputs)    },
        {"loss", offsetof(exg_signature_maps, loss_output)         },
        {"nb",   offsetof(exg_signature_maps, buffer_mutations)    },
        {"nx",   offsetof(exg_signature_maps, user_input_mutations)},
        {"nx",   offsetof(exg_signature_maps, output_tokens)       }, /* the part is one shorter */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_builds_specs_from_maps),
        cmocka_unit_test(it_prefers_the_user_where_names_meet),
        cmocka_unit_test(it_refuses_tensors_no_map_knows),
        cmocka_unit_test(it_refuses_a_result_among_mutations),
        cmocka_unit_test(it_takes_constants_from_maps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
