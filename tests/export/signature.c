/* signature.c - the views of a signature, and renaming in one (seed 004).
 *
 * What they must give is written in the seed's text and was computed with its class and
 * PyTorch's; the interop tests ask PyTorch the same of every fixture. */
#include "libexport/base/arena.h"
#include "tests/export/rich.h"

#include <exg/operators.h>
#include <exg/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

typedef uint32_t targets_fn(const exg_signature *s, const char **targets, uint32_t capacity);
typedef uint32_t pairs_fn(const exg_signature *s, exg_string_pair *pairs, uint32_t capacity);

/* The items, joined by blanks. */
static void expect_targets(targets_fn *view, const exg_signature *s, const char *expected)
{
    const char *items[16] = {NULL};
    uint32_t count = view(s, NULL, 0);
    char text[256] = "";

    assert_int_equal(view(s, items, 16), count);
    for (uint32_t i = 0; i < count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, items[i]);
    }
    assert_string_equal(text, expected);
}

static void expect_pairs(pairs_fn *view, const exg_signature *s, const char *expected)
{
    exg_string_pair items[16] = {{NULL, NULL}};
    uint32_t count = view(s, NULL, 0);
    char text[256] = "";

    assert_int_equal(view(s, items, 16), count);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s->%s", i > 0 ? " " : "",
                 items[i].key, items[i].value);
    }
    assert_string_equal(text, expected);
}

static void join_leaves(const exg_signature_argument **leaves, uint32_t count, char text[256])
{
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        const exg_signature_argument *leaf = leaves[i];

        strcat(text, i > 0 ? " " : "");
        strcat(text, leaf->kind == EXG_ARGUMENT_NONE                    ? "None"
                     : leaf->kind == EXG_ARGUMENT_BOOL && leaf->as_bool ? "True"
                     : leaf->kind == EXG_ARGUMENT_BOOL                  ? "False"
                                                                        : leaf->name);
    }
}

/* ---- views ---------------------------------------------------------------------------------- */

/* S004-49, S004-52, S004-53, S004-54, S004-58, S004-59, S004-60, S004-61, S004-62, S004-63,
 * S004-64: what the seed's class gives of its docstring's signature. */
static void it_gives_the_docstring_s_properties(void **state)
{
    const exg_signature_argument *leaves[8];
    uint32_t count = 0;
    char text[256];
    rich r;

    (void)state;
    make_docstring(&r);
    expect_targets(exg_signature_parameters, &r.signature, "my_parameter");
    expect_targets(exg_signature_buffers, &r.signature, "my_buffer1 my_buffer2");
    expect_targets(exg_signature_non_persistent_buffers, &r.signature, "");
    expect_pairs(exg_signature_inputs_to_parameters, &r.signature, "arg0_1->my_parameter");
    expect_pairs(exg_signature_inputs_to_buffers, &r.signature,
                 "arg1_1->my_buffer1 arg2_1->my_buffer2");
    expect_pairs(exg_signature_buffers_to_mutate, &r.signature, "add_2->my_buffer2");
    expect_pairs(exg_signature_parameters_to_mutate, &r.signature, "");
    expect_pairs(exg_signature_user_inputs_to_mutate, &r.signature, "");
    assert_int_equal(exg_signature_user_inputs(&r.signature, leaves, 8, &count, NULL), EXG_OK);
    join_leaves(leaves, count, text);
    assert_string_equal(text, "arg3_1 arg4_1");
    assert_int_equal(
        exg_signature_user_outputs(&r.signature, EXG_WITH_LOSS, leaves, 8, &count, NULL), EXG_OK);
    join_leaves(leaves, count, text);
    assert_string_equal(text, "add_1");
}

/* S004-02, S004-03, S004-04, S004-19, S004-20, S004-25, S004-54, S004-55, S004-56, S004-58,
 * S004-59, S004-62, S004-64, S004-65, S004-66, S004-72 */
static void it_gives_every_view_of_the_rich_signature(void **state)
{
    const exg_signature_argument *leaves[8];
    const char *names[4];
    uint32_t count = 0;
    char text[256];
    rich r;

    (void)state;
    make_rich(&r);
    expect_targets(exg_signature_parameters, &r.signature, "w");
    expect_targets(exg_signature_buffers, &r.signature, "m n");
    expect_targets(exg_signature_non_persistent_buffers, &r.signature, "n");
    expect_targets(exg_signature_lifted_tensor_constants, &r.signature, "k");
    expect_targets(exg_signature_lifted_custom_objs, &r.signature, "o");
    expect_pairs(exg_signature_inputs_to_lifted_tensor_constants, &r.signature, "c_k->k");
    expect_pairs(exg_signature_inputs_to_lifted_custom_objs, &r.signature, "obj_o->o");
    expect_pairs(exg_signature_user_inputs_to_mutate, &r.signature, "add_1->x");
    expect_pairs(exg_signature_buffers_to_mutate, &r.signature, "add->m");
    assert_int_equal(exg_signature_user_inputs(&r.signature, leaves, 8, &count, NULL), EXG_OK);
    join_leaves(leaves, count, text);
    assert_string_equal(text, "x True None s0");
    assert_int_equal(
        exg_signature_user_outputs(&r.signature, EXG_WITH_LOSS, leaves, 8, &count, NULL), EXG_OK);
    join_leaves(leaves, count, text);
    assert_string_equal(text, "y None loss");
    assert_int_equal(
        exg_signature_user_outputs(&r.signature, EXG_WITHOUT_LOSS, leaves, 8, &count, NULL),
        EXG_OK);
    join_leaves(leaves, count, text);
    assert_string_equal(text, "y None");
    assert_int_equal(exg_signature_input_tokens(&r.signature, names, 4, &count, NULL), EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "token");
    assert_int_equal(exg_signature_output_tokens(&r.signature, names, 4, &count, NULL), EXG_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "token_1");
}

/* S004-15, S004-57, S004-60, S004-61, S004-62, S004-63, S004-64, S004-65, S004-66: a spec
 * without a target is in no list, nor a pair whose argument is no tensor, or of objects no
 * object; an empty target is one. */
static void it_skips_specs_without_a_target(void **state)
{
    rich r;

    (void)state;
    make_rich(&r);
    r.inputs[1].target = NULL;
    r.inputs[2].arg.kind = EXG_ARGUMENT_SYM_INT;
    r.outputs[1].target = NULL;
    expect_targets(exg_signature_parameters, &r.signature, "");
    expect_pairs(exg_signature_inputs_to_parameters, &r.signature, "");
    expect_targets(exg_signature_buffers, &r.signature, "m n");
    expect_pairs(exg_signature_inputs_to_buffers, &r.signature, "b_n->n");
    expect_pairs(exg_signature_buffers_to_mutate, &r.signature, "");
    make_rich(&r);
    r.inputs[4].arg.kind = EXG_ARGUMENT_CUSTOM_OBJ;
    r.inputs[5].arg.kind = EXG_ARGUMENT_TENSOR;
    r.outputs[1].arg.kind = EXG_ARGUMENT_SYM_INT;
    r.outputs[2].arg.kind = EXG_ARGUMENT_FLOAT;
    expect_targets(exg_signature_lifted_tensor_constants, &r.signature, "k");
    expect_targets(exg_signature_lifted_custom_objs, &r.signature, "o");
    expect_pairs(exg_signature_inputs_to_lifted_tensor_constants, &r.signature, "");
    expect_pairs(exg_signature_inputs_to_lifted_custom_objs, &r.signature, "");
    expect_pairs(exg_signature_buffers_to_mutate, &r.signature, "");
    expect_pairs(exg_signature_user_inputs_to_mutate, &r.signature, "");
    make_rich(&r);
    r.inputs[1].arg.is_token = true;
    r.outputs[2].arg.is_token = true;
    expect_pairs(exg_signature_inputs_to_parameters, &r.signature, "");
    expect_pairs(exg_signature_user_inputs_to_mutate, &r.signature, "");
    r.inputs[4].target = "";
    expect_targets(exg_signature_lifted_tensor_constants, &r.signature, "");
    expect_pairs(exg_signature_inputs_to_lifted_tensor_constants, &r.signature, "c_k->");
    r.outputs[1].kind = EXG_OUTPUT_PARAMETER_MUTATION;
    expect_pairs(exg_signature_parameters_to_mutate, &r.signature, "add->m");
    expect_pairs(exg_signature_buffers_to_mutate, &r.signature, "");
}

/* S004-72: several, in the order of the specs; no more than there is room for. */
static void it_gives_tokens_in_their_order(void **state)
{
    const char *names[4] = {"untouched", "untouched", "untouched", "untouched"};
    uint32_t count = 0;
    rich r;

    (void)state;
    make_rich(&r);
    r.inputs[3] = r.inputs[0];
    r.inputs[3].arg.name = "second";
    r.outputs[5] = r.outputs[0];
    r.outputs[5].arg.name = "token_2";
    assert_int_equal(exg_signature_input_tokens(&r.signature, names, 4, &count, NULL), EXG_OK);
    assert_int_equal(count, 2);
    assert_string_equal(names[0], "token");
    assert_string_equal(names[1], "second");
    assert_string_equal(names[2], "untouched");
    assert_int_equal(exg_signature_output_tokens(&r.signature, names, 1, &count, NULL), EXG_OK);
    assert_int_equal(count, 2);
    assert_string_equal(names[0], "token_1");
    assert_string_equal(names[1], "second");
    assert_int_equal(exg_signature_output_tokens(&r.signature, names, 2, &count, NULL), EXG_OK);
    assert_string_equal(names[1], "token_2");
}

/* A view writes no more than it may and still tells how many there are. */
static void it_writes_no_more_than_there_is_room(void **state)
{
    const char *items[2] = {"untouched", "untouched"};
    exg_string_pair pairs[2] = {{"untouched", "untouched"}, {"untouched", "untouched"}};
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_buffers(&r.signature, items, 1), 2);
    assert_string_equal(items[0], "m");
    assert_string_equal(items[1], "untouched");
    assert_int_equal(exg_signature_inputs_to_buffers(&r.signature, pairs, 1), 2);
    assert_string_equal(pairs[1].key, "untouched");
}

/* S004-58, S004-59, S004-72 */
static void it_refuses_tokens_out_of_place(void **state)
{
    const exg_signature_argument *leaves[8];
    const char *names[4];
    uint32_t count = 0;
    exg_error err;
    rich r;

    (void)state;
    make_rich(&r);
    r.inputs[6].arg.is_token = true;
    assert_int_equal(exg_signature_user_inputs(&r.signature, leaves, 8, &count, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "SIG-010");
    assert_int_equal(count, 0);
    make_rich(&r);
    r.outputs[3].arg.is_token = true;
    assert_int_equal(
        exg_signature_user_outputs(&r.signature, EXG_WITH_LOSS, leaves, 8, &count, &err),
        EXG_MALFORMED);
    make_rich(&r);
    r.inputs[0].arg.is_token = false;
    assert_int_equal(exg_signature_input_tokens(&r.signature, names, 4, &count, &err),
                     EXG_MALFORMED);
    assert_string_equal(err.code, "SIG-010");
    assert_string_equal(err.where, "input_specs[0]");
    r.outputs[0].arg.is_token = false;
    assert_int_equal(exg_signature_output_tokens(&r.signature, names, 4, &count, &err),
                     EXG_MALFORMED);
}

/* S004-01, S004-42, S004-68 */
static void it_gives_the_backward_signature(void **state)
{
    exg_backward_signature backward;
    bool exists = false;
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_backward(&r.signature, &exists, &backward, NULL), EXG_OK);
    assert_true(exists);
    assert_string_equal(backward.loss_output, "loss");
    assert_int_equal(backward.gradients_to_parameters, 1);
    assert_int_equal(backward.gradients_to_user_inputs, 1);
    expect_pairs(exg_signature_gradients_to_parameters, &r.signature, "gw->w");
    expect_pairs(exg_signature_gradients_to_user_inputs, &r.signature, "gx->x");
    r.outputs[5].kind = EXG_OUTPUT_USER;
    assert_int_equal(exg_signature_backward(&r.signature, &exists, &backward, NULL), EXG_OK);
    assert_false(exists);
}

/* S004-69 */
static void it_refuses_a_backward_signature_that_cannot_be(void **state)
{
    static const struct {
        const char *name;
        const char *code;
        uint32_t output;
        exg_output_spec spec;
    } rows[] = {
        {"two losses",
         "SIG-019",
         3,
         {.kind = EXG_OUTPUT_LOSS, .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = "y"}}},
        {"a loss that is a constant",
         "SIG-019",
         5,
         {.kind = EXG_OUTPUT_LOSS, .arg = {.kind = EXG_ARGUMENT_FLOAT, .name = ""}}},
        {"a gradient without a target",
         "SIG-020",
         6,
         {.kind = EXG_OUTPUT_GRADIENT_TO_PARAMETER,
          .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = "gw"}}},
        {"a gradient that is a number",
         "SIG-019",
         7,
         {.kind = EXG_OUTPUT_GRADIENT_TO_USER_INPUT,
          .arg = {.kind = EXG_ARGUMENT_SYM_INT, .name = "gx"},
          .target = "x"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        exg_backward_signature backward;
        bool exists = true;
        exg_error err;
        rich r;

        make_rich(&r);
        r.outputs[rows[i].output] = rows[i].spec;
        assert_int_equal(exg_signature_backward(&r.signature, &exists, &backward, &err),
                         EXG_MALFORMED);
        if (strcmp(err.code, rows[i].code) != 0) {
            fail_msg("%s: %s", rows[i].name, err.code);
        }
        assert_false(exists);
    }
}

/* S004-70 */
static void it_knows_no_assertion_token(void **state)
{
    const char *name = NULL;
    uint32_t index = 7;
    rich r;

    (void)state;
    make_rich(&r);
    assert_false(exg_signature_assertion_dep_token(&r.signature, &index, &name));
    assert_null(name);
    assert_int_equal(index, 7);
}

/* ---- kinds and specs ------------------------------------------------------------------------ */

/* S004-09, S004-10, S004-11, S004-12, S004-13, S004-14, S004-19, S004-20, S004-21, S004-22,
 * S004-23, S004-24, S004-25, S004-26: names of both ages, numbers of the current one. */
static void it_names_kinds_as_pytorch_does(void **state)
{
    static const char *const inputs[] = {"USER_INPUT",      "PARAMETER",  "BUFFER",
                                         "CONSTANT_TENSOR", "CUSTOM_OBJ", "TOKEN"};
    static const struct {
        exg_output_kind kind;
        const char *name;
        int number; /* PyTorch 2.13 */
        int seed;   /* seed 004; 0: it has none */
    } outputs[] = {
        {EXG_OUTPUT_USER, "USER_OUTPUT", 1, 1},
        {EXG_OUTPUT_LOSS, "LOSS_OUTPUT", 2, 2},
        {EXG_OUTPUT_BUFFER_MUTATION, "BUFFER_MUTATION", 3, 3},
        {EXG_OUTPUT_PARAMETER_MUTATION, "PARAMETER_MUTATION", 4, 0},
        {EXG_OUTPUT_GRADIENT_TO_PARAMETER, "GRADIENT_TO_PARAMETER", 5, 4},
        {EXG_OUTPUT_GRADIENT_TO_USER_INPUT, "GRADIENT_TO_USER_INPUT", 6, 5},
        {EXG_OUTPUT_USER_INPUT_MUTATION, "USER_INPUT_MUTATION", 7, 6},
        {EXG_OUTPUT_TOKEN, "TOKEN", 8, 7},
    };

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_string_equal(exg_input_kind_name((exg_input_kind)i), inputs[i]);
        assert_int_equal(exg_input_kind_number((exg_input_kind)i), i + 1);
    }
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        assert_string_equal(exg_output_kind_name(outputs[i].kind), outputs[i].name);
        assert_int_equal(exg_output_kind_number(outputs[i].kind), outputs[i].number);
        assert_true(outputs[i].seed == 0 || outputs[i].seed + (i > 2) == outputs[i].number);
    }
    assert_string_equal(exg_input_kind_name((exg_input_kind)6), "?");
    assert_string_equal(exg_output_kind_name((exg_output_kind)8), "?");
}

/* S004-08, S004-16, S004-17, S004-27, S004-50 */
static void it_refuses_specs_that_cannot_be_built(void **state)
{
    exg_output_spec object = {.kind = EXG_OUTPUT_USER,
                              .arg = {.kind = EXG_ARGUMENT_CUSTOM_OBJ, .name = "o"}};
    exg_error err;
    rich r;

    (void)state;
    make_docstring(&r);
    assert_int_equal(exg_input_spec_check(&r.inputs[1], &err), EXG_OK);
    r.inputs[1].persistent = EXG_UNSET; /* as the docstring prints it */
    assert_int_equal(exg_input_spec_check(&r.inputs[1], &err), EXG_MALFORMED);
    assert_string_equal(err.code, "SIG-026");
    r.inputs[3].arg.kind = EXG_ARGUMENT_INTS;
    assert_int_equal(exg_input_spec_check(&r.inputs[3], &err), EXG_MALFORMED);
    assert_non_null(strstr(err.message, "as_ints"));
    r.outputs[1].arg.kind = EXG_ARGUMENT_GRAPH;
    assert_int_equal(exg_output_spec_check(&r.outputs[1], &err), EXG_MALFORMED);
    assert_int_equal(exg_output_spec_check(&object, &err), EXG_OK);
    for (int kind = 0; kind < EXG_ARGUMENT_KIND_COUNT; kind++) {
        static const exg_argument_kind kinds[] = {EXG_ARGUMENT_NONE,     EXG_ARGUMENT_INT,
                                                  EXG_ARGUMENT_FLOAT,    EXG_ARGUMENT_STRING,
                                                  EXG_ARGUMENT_BOOL,     EXG_ARGUMENT_TENSOR,
                                                  EXG_ARGUMENT_SYM_INT,  EXG_ARGUMENT_SYM_FLOAT,
                                                  EXG_ARGUMENT_SYM_BOOL, EXG_ARGUMENT_CUSTOM_OBJ};
        bool may = false;

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            may = may || (int)kinds[i] == kind;
        }
        r.inputs[3].arg.kind = r.outputs[1].arg.kind = (exg_argument_kind)kind;
        assert_int_equal(exg_input_spec_check(&r.inputs[3], NULL), may ? EXG_OK : EXG_MALFORMED);
        assert_int_equal(exg_output_spec_check(&r.outputs[1], NULL), may ? EXG_OK : EXG_MALFORMED);
    }
    r.inputs[3].arg = (exg_signature_argument){.kind = EXG_ARGUMENT_TENSOR, .name = NULL};
    assert_int_equal(exg_input_spec_check(&r.inputs[3], &err), EXG_MALFORMED);
    assert_string_equal(err.code, "SIG-026");
    r.inputs[3].arg.kind = EXG_ARGUMENT_NONE; /* a constant needs no name */
    assert_int_equal(exg_input_spec_check(&r.inputs[3], &err), EXG_OK);
}

/* ---- renaming ------------------------------------------------------------------------------- */

/* S004-73: all of the name, in both lists; S004-74: of every kind that has a name. */
static void it_renames_arguments_in_both_lists(void **state)
{
    static const struct {
        exg_argument_kind kind;
        bool renamed;
    } kinds[] = {
        {EXG_ARGUMENT_TENSOR, true},     {EXG_ARGUMENT_SYM_INT, true},
        {EXG_ARGUMENT_SYM_FLOAT, true},  {EXG_ARGUMENT_SYM_BOOL, true},
        {EXG_ARGUMENT_CUSTOM_OBJ, true}, {EXG_ARGUMENT_NONE, false},
        {EXG_ARGUMENT_INT, false},       {EXG_ARGUMENT_FLOAT, false},
        {EXG_ARGUMENT_BOOL, false},      {EXG_ARGUMENT_STRING, false},
    };
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_rename(&r.signature, "add_1", "zz", EXG_TARGETS_STAY, NULL),
                     EXG_OK);
    assert_string_equal(r.outputs[2].arg.name, "zz");
    r.outputs[3].arg.name = "x"; /* an input that is given back, twice */
    r.outputs[5].arg.name = "x";
    assert_int_equal(exg_signature_rename(&r.signature, "x", "xx", EXG_TARGETS_STAY, NULL), EXG_OK);
    assert_string_equal(r.outputs[3].arg.name, "xx");
    assert_string_equal(r.outputs[5].arg.name, "xx");
    assert_string_equal(r.inputs[6].arg.name, "xx");
    assert_int_equal(exg_signature_rename(&r.signature, "token", "tok", EXG_TARGETS_STAY, NULL),
                     EXG_OK);
    assert_string_equal(r.inputs[0].arg.name, "tok");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        make_rich(&r);
        r.inputs[9].arg.kind = kinds[i].kind;
        r.outputs[4].arg = (exg_signature_argument){.kind = kinds[i].kind, .name = "s0"};
        assert_int_equal(exg_signature_rename(&r.signature, "s0", "s1", EXG_TARGETS_STAY, NULL),
                         EXG_OK);
        assert_string_equal(r.inputs[9].arg.name, kinds[i].renamed ? "s1" : "s0");
        assert_string_equal(r.outputs[4].arg.name, kinds[i].renamed ? "s1" : "s0");
    }
}

/* S004-75 */
static void it_lets_targets_follow_or_stay(void **state)
{
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_rename(&r.signature, "x", "xx", EXG_TARGETS_STAY, NULL), EXG_OK);
    assert_string_equal(r.outputs[2].target, "x");
    assert_string_equal(r.outputs[7].target, "x");
    make_rich(&r);
    assert_int_equal(exg_signature_rename(&r.signature, "x", "xx", EXG_TARGETS_FOLLOW, NULL),
                     EXG_OK);
    assert_string_equal(r.outputs[2].target, "xx");
    assert_string_equal(r.outputs[7].target, "xx");
    /* w is a parameter's FQN, no input's name */
    assert_int_equal(exg_signature_rename(&r.signature, "p_w", "w", EXG_TARGETS_FOLLOW, NULL),
                     EXG_OK);
    assert_string_equal(r.outputs[6].target, "w");
}

/* S004-76 */
static void it_refuses_a_name_that_is_taken(void **state)
{
    exg_error err;
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_rename(&r.signature, "x", "y", EXG_TARGETS_FOLLOW, &err),
                     EXG_USAGE);
    assert_string_equal(err.code, "BLD-002");
    assert_string_equal(r.inputs[6].arg.name, "x");
    assert_int_equal(exg_signature_rename(&r.signature, "absent", "y", EXG_TARGETS_FOLLOW, &err),
                     EXG_OK);
    assert_int_equal(exg_signature_rename(&r.signature, "x", "x", EXG_TARGETS_FOLLOW, &err),
                     EXG_OK);
}

static exg_status hook(rich *r, const char *old_name, const char *new_name, exg_use use,
                       bool old_is_input, bool replace_inputs, exg_targets targets)
{
    return exg_signature_replace_hook(&r->signature, old_name, new_name, use, old_is_input,
                                      replace_inputs, targets, NULL);
}

/* S004-77, S004-78: of a node nothing, of the output all of the name; an input when asked. */
static void it_renames_through_the_hook(void **state)
{
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(hook(&r, "add_1", "zz", EXG_USE_NODE, false, true, EXG_TARGETS_STAY), EXG_OK);
    assert_string_equal(r.outputs[2].arg.name, "add_1");
    assert_int_equal(hook(&r, "add_1", "zz", EXG_USE_OUTPUT, false, false, EXG_TARGETS_STAY),
                     EXG_OK);
    assert_string_equal(r.outputs[2].arg.name, "zz");
    make_docstring(&r);
    assert_int_equal(hook(&r, "arg3_1", "x", EXG_USE_NODE, true, false, EXG_TARGETS_STAY), EXG_OK);
    assert_string_equal(r.inputs[3].arg.name, "arg3_1");
    assert_int_equal(hook(&r, "arg3_1", "x", EXG_USE_NODE, true, true, EXG_TARGETS_STAY), EXG_OK);
    assert_string_equal(r.inputs[3].arg.name, "x");
}

/* S004-86: a mutation and a gradient of an input go on saying its old name, unless asked. */
static void it_leaves_targets_to_the_hook_s_caller(void **state)
{
    static const exg_targets ways[] = {EXG_TARGETS_STAY, EXG_TARGETS_FOLLOW};
    rich r;

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        const char *expected = ways[i] == EXG_TARGETS_STAY ? "x" : "xx";

        make_rich(&r);
        assert_int_equal(hook(&r, "x", "xx", EXG_USE_OUTPUT, true, false, ways[i]), EXG_OK);
        assert_string_equal(r.inputs[6].arg.name, "xx");
        assert_string_equal(r.outputs[2].target, expected);
        assert_string_equal(r.outputs[7].target, expected);
    }
}

/* ---- graphs --------------------------------------------------------------------------------- */

#define NAMES(...)                                                                                 \
    ((exg_name_list){(const char *const[]){__VA_ARGS__},                                           \
                     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)})
#define ONE(key, value) ((exg_string_map){(exg_string_pair[]){{key, value}}, 1})

static exg_program *build(exg_operators *operators)
{
    exg_sym_int two[1] = {exg_sym_int_of(2)};
    exg_sym_int one[1] = {exg_sym_int_of(1)};
    exg_tensor_meta meta = {EXG_DTYPE_F32, EXG_LAYOUT_STRIDED, false,      1, two,
                            one,           {NULL, 0, false},   {"cpu", -1}};
    exg_program *program = NULL;
    exg_builder *b = NULL;
    exg_argument args[2];
    exg_ref x;
    exg_ref y;

    assert_int_equal(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, NULL), EXG_OK);
    assert_int_equal(exg_builder_create(operators, program, &b, NULL), EXG_OK);
    x = exg_builder_input(b, "x", &meta, EXG_INPUT_USER, NULL, EXG_UNSET);
    args[0] = exg_arg_ref(x);
    args[1] = exg_arg_ref(x);
    y = exg_emit(b, EXG_OP_add_Tensor, args, 2);
    args[0] = exg_arg_ref(y);
    y = exg_emit(b, EXG_OP_mul_Tensor, args, 2);
    args[0] = exg_arg_ref(y);
    exg_builder_output(b, &args[0], EXG_OUTPUT_USER, NULL);
    assert_int_equal(exg_builder_finish(b, NULL), EXG_OK);
    return program;
}

static void expect_verified(const exg_program *program, const exg_operators *operators, bool good)
{
    exg_verified verified;
    exg_error err;

    if ((exg_verify(program, operators, &verified, NULL, &err) == EXG_OK) != good) {
        fail_msg("%s: %s", err.code, err.message);
    }
}

/* S004-28 from a graph: a plain one, then one whose input is a parameter. */
static void it_makes_a_signature_of_a_graph(void **state)
{
    exg_operators *operators = NULL;
    exg_signature_maps maps = {.user_outputs = NAMES("mul"), .inputs_to_parameters = ONE("x", "w")};
    exg_program *program;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = build(operators);
    program->signature = (exg_signature){0};
    assert_int_equal(exg_signature_from_graph(program, NULL, &err), EXG_OK);
    assert_int_equal(program->signature.inputs[0].kind, EXG_INPUT_USER);
    assert_string_equal(program->signature.inputs[0].arg.name, "x");
    assert_string_equal(program->signature.outputs[0].arg.name, "mul");
    expect_verified(program, operators, true);
    assert_int_equal(exg_signature_from_graph(program, &maps, &err), EXG_OK);
    assert_int_equal(program->signature.inputs[0].kind, EXG_INPUT_PARAMETER);
    assert_string_equal(program->signature.inputs[0].target, "w");
    assert_false(program->signature.inputs[0].arg.is_token);
    maps =
        (exg_signature_maps){.input_tokens = NAMES("x", "z"), .output_tokens = NAMES("w", "mul")};
    assert_int_equal(exg_signature_from_graph(program, &maps, &err), EXG_OK);
    assert_int_equal(program->signature.inputs[0].kind, EXG_INPUT_TOKEN);
    assert_true(program->signature.inputs[0].arg.is_token);
    assert_int_equal(program->signature.outputs[0].kind, EXG_OUTPUT_TOKEN);
    assert_true(program->signature.outputs[0].arg.is_token);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* S004-77: a value renamed in a graph is renamed in the signature; S004-51: not in one only. */
static void it_renames_values_in_graph_and_signature(void **state)
{
    exg_operators *operators = NULL;
    exg_program *program;
    exg_error err;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = build(operators);
    assert_int_equal(exg_program_rename_value(program, "mul", "product", &err), EXG_OK);
    assert_string_equal(program->signature.outputs[0].arg.name, "product");
    assert_string_equal(program->graph->nodes[1].name, "product");
    assert_int_equal(exg_program_rename_value(program, "x", "input", &err), EXG_OK);
    assert_string_equal(program->signature.inputs[0].arg.name, "input");
    expect_verified(program, operators, true);
    assert_int_equal(exg_program_rename_value(program, "product", "add", &err), EXG_USAGE);
    assert_int_equal(exg_program_rename_value(program, "absent", "z", &err), EXG_USAGE);
    program->signature.outputs[0].arg.name = "mul"; /* the docstring's second slip */
    expect_verified(program, operators, false);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* S004-77: a graph's output replaced by another value is another in the signature. */
static void it_replaces_uses_in_graph_and_signature(void **state)
{
    exg_operators *operators = NULL;
    exg_program *program;
    exg_value_id add;
    exg_value_id mul;

    (void)state;
    assert_int_equal(exg_operators_create(&operators, NULL), EXG_OK);
    program = build(operators);
    add = exg_graph_find_value(program->graph, "add");
    mul = exg_graph_find_value(program->graph, "mul");
    assert_int_equal(exg_program_replace_uses(program, mul, add, NULL), EXG_OK);
    assert_int_equal(program->graph->outputs[0].as_tensor, add);
    assert_string_equal(program->signature.outputs[0].arg.name, "add");
    expect_verified(program, operators, true);
    assert_int_equal(exg_program_replace_uses(program, 99, add, NULL), EXG_USAGE);
    exg_program_destroy(program);
    exg_operators_destroy(operators);
}

/* ---- printing ------------------------------------------------------------------------------- */

/* S004-79; text by str() of PyTorch's class. */
static void it_prints_the_docstring_s_signature(void **state)
{
    char *text = NULL;
    rich r;

    (void)state;
    make_docstring(&r);
    assert_int_equal(exg_signature_print(&r.signature, &text, NULL), EXG_OK);
    assert_string_equal(text, "\n# inputs\narg0_1: PARAMETER target='my_parameter'\n"
                              "arg1_1: BUFFER target='my_buffer1' persistent=True\n"
                              "arg2_1: BUFFER target='my_buffer2' persistent=True\n"
                              "arg3_1: USER_INPUT\narg4_1: USER_INPUT\n\n# outputs\n"
                              "add_2: BUFFER_MUTATION target='my_buffer2'\nadd_1: USER_OUTPUT\n");
    free(text);
}

/* S004-01, S004-02, S004-03, S004-04, S004-06, S004-07, S004-09, S004-10, S004-11, S004-12,
 * S004-13, S004-14, S004-15, S004-18, S004-80; text by repr() of PyTorch's class. */
static void it_shows_the_rich_signature_s_repr(void **state)
{
    char *text = NULL;
    rich r;

    (void)state;
    make_rich(&r);
    assert_int_equal(exg_signature_repr(&r.signature, &text, NULL), EXG_OK);
    assert_string_equal(
        text,
        "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.TOKEN: 6>, "
        "arg=TokenArgument(name='token'), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_w'), target='w', "
        "persistent=None), InputSpec(kind=<InputKind.BUFFER: 3>, arg=TensorArgument(name='b_m'), "
        "target='m', persistent=True), InputSpec(kind=<InputKind.BUFFER: 3>, "
        "arg=TensorArgument(name='b_n'), target='n', persistent=False), "
        "InputSpec(kind=<InputKind.CONSTANT_TENSOR: 4>, arg=TensorArgument(name='c_k'), "
        "target='k', persistent=None), InputSpec(kind=<InputKind.CUSTOM_OBJ: 5>, "
        "arg=CustomObjArgument(name='obj_o', class_fqn='__torch__.O', fake_val=None), target='o', "
        "persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, "
        "arg=TensorArgument(name='x'), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=ConstantArgument(name='flag', value=True), "
        "target=None, persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, "
        "arg=ConstantArgument(name='none', value=None), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=SymIntArgument(name='s0'), target=None, "
        "persistent=None)], output_specs=[OutputSpec(kind=<OutputKind.TOKEN: 8>, "
        "arg=TokenArgument(name='token_1'), target=None), "
        "OutputSpec(kind=<OutputKind.BUFFER_MUTATION: 3>, arg=TensorArgument(name='add'), "
        "target='m'), OutputSpec(kind=<OutputKind.USER_INPUT_MUTATION: 7>, "
        "arg=TensorArgument(name='add_1'), target='x'), OutputSpec(kind=<OutputKind.USER_OUTPUT: "
        "1>, arg=TensorArgument(name='y'), target=None), OutputSpec(kind=<OutputKind.USER_OUTPUT: "
        "1>, arg=ConstantArgument(name='', value=None), target=None), "
        "OutputSpec(kind=<OutputKind.LOSS_OUTPUT: 2>, arg=TensorArgument(name='loss'), "
        "target=None), OutputSpec(kind=<OutputKind.GRADIENT_TO_PARAMETER: 5>, "
        "arg=TensorArgument(name='gw'), target='w'), "
        "OutputSpec(kind=<OutputKind.GRADIENT_TO_USER_INPUT: 6>, arg=TensorArgument(name='gx'), "
        "target='x')])");
    free(text);
}

/* S004-05, S004-07, S004-15, S004-18, S004-80: constants of five kinds, a target that is empty, and
 * PyTorch's symbolic kinds; text by its repr() and str(). */
static void it_shows_constants_of_every_kind(void **state)
{
    exg_input_spec inputs[] = {
        {.arg = {.kind = EXG_ARGUMENT_INT, .name = "n", .as_int = -7}},
        {.arg = {.kind = EXG_ARGUMENT_FLOAT, .name = "", .as_float = 0.5}, .target = ""},
        {.arg = {.kind = EXG_ARGUMENT_BOOL, .name = "", .as_bool = true}},
        {.arg = {.kind = EXG_ARGUMENT_STRING, .name = "w", .as_string = "a \"word\""}},
        {.arg = {.kind = EXG_ARGUMENT_NONE, .name = ""}},
        {EXG_INPUT_CONSTANT_TENSOR, {.kind = EXG_ARGUMENT_TENSOR, .name = "c"}, "", 0, false},
    };
    exg_output_spec outputs[] = {
        {.arg = {.kind = EXG_ARGUMENT_BOOL, .name = "", .as_bool = false}},
        {.arg = {.kind = EXG_ARGUMENT_SYM_FLOAT, .name = "f"}},
        {.arg = {.kind = EXG_ARGUMENT_SYM_BOOL, .name = "b"}},
    };
    exg_signature signature = {inputs, outputs, 6, 3};
    char *text = NULL;

    (void)state;
    for (int i = 0; i < 6; i++) {
        inputs[i].persistent = EXG_UNSET;
    }
    assert_int_equal(exg_signature_repr(&signature, &text, NULL), EXG_OK);
    assert_string_equal(
        text,
        "ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.USER_INPUT: 1>, "
        "arg=ConstantArgument(name='n', value=-7), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=ConstantArgument(name='', value=0.5), "
        "target='', persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, "
        "arg=ConstantArgument(name='', value=True), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=ConstantArgument(name='w', value='a "
        "\"word\"'), target=None, persistent=None), InputSpec(kind=<InputKind.USER_INPUT: 1>, "
        "arg=ConstantArgument(name='', value=None), target=None, persistent=None), "
        "InputSpec(kind=<InputKind.CONSTANT_TENSOR: 4>, arg=TensorArgument(name='c'), "
        "target='', persistent=None)], output_specs=[OutputSpec(kind=<OutputKind.USER_OUTPUT: "
        "1>, arg=ConstantArgument(name='', value=False), target=None), "
        "OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, arg=SymFloatArgument(name='f'), "
        "target=None), OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, "
        "arg=SymBoolArgument(name='b'), target=None)])");
    free(text);
    assert_int_equal(exg_signature_print(&signature, &text, NULL), EXG_OK);
    assert_string_equal(text, "\n# inputs\nn: USER_INPUT\n: USER_INPUT target=''\n: USER_INPUT\n"
                              "w: USER_INPUT\n: USER_INPUT\nc: CONSTANT_TENSOR target=''\n\n"
                              "# outputs\n: USER_OUTPUT\nf: USER_OUTPUT\nb: USER_OUTPUT\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_gives_the_docstring_s_properties),
        cmocka_unit_test(it_gives_every_view_of_the_rich_signature),
        cmocka_unit_test(it_skips_specs_without_a_target),
        cmocka_unit_test(it_gives_tokens_in_their_order),
        cmocka_unit_test(it_writes_no_more_than_there_is_room),
        cmocka_unit_test(it_refuses_tokens_out_of_place),
        cmocka_unit_test(it_gives_the_backward_signature),
        cmocka_unit_test(it_refuses_a_backward_signature_that_cannot_be),
        cmocka_unit_test(it_knows_no_assertion_token),
        cmocka_unit_test(it_names_kinds_as_pytorch_does),
        cmocka_unit_test(it_refuses_specs_that_cannot_be_built),
        cmocka_unit_test(it_renames_arguments_in_both_lists),
        cmocka_unit_test(it_lets_targets_follow_or_stay),
        cmocka_unit_test(it_refuses_a_name_that_is_taken),
        cmocka_unit_test(it_renames_through_the_hook),
        cmocka_unit_test(it_leaves_targets_to_the_hook_s_caller),
        cmocka_unit_test(it_makes_a_signature_of_a_graph),
        cmocka_unit_test(it_renames_values_in_graph_and_signature),
        cmocka_unit_test(it_replaces_uses_in_graph_and_signature),
        cmocka_unit_test(it_prints_the_docstring_s_signature),
        cmocka_unit_test(it_shows_the_rich_signature_s_repr),
        cmocka_unit_test(it_shows_constants_of_every_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
