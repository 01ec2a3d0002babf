/* rich.c - see rich.h. */
#include "tests/export/rich.h"

#define INPUT(kind_, arg_, target_, persistent_)                                                   \
    (exg_input_spec)                                                                               \
    {                                                                                              \
        .kind = EXG_INPUT_##kind_, .arg = arg_, .target = target_, .persistent = persistent_       \
    }
#define OUTPUT(kind_, arg_, target_)                                                               \
    (exg_output_spec)                                                                              \
    {                                                                                              \
        .kind = EXG_OUTPUT_##kind_, .arg = arg_, .target = target_                                 \
    }

static exg_signature_argument value(exg_argument_kind kind, const char *name)
{
    return (exg_signature_argument){.kind = kind, .name = name};
}

static exg_signature_argument tensor(const char *name)
{
    return value(EXG_ARGUMENT_TENSOR, name);
}

static exg_signature_argument token(const char *name)
{
    return (exg_signature_argument){.kind = EXG_ARGUMENT_TENSOR, .is_token = true, .name = name};
}

void make_rich(rich *r)
{
    exg_signature_argument object = value(EXG_ARGUMENT_CUSTOM_OBJ, "obj_o");
    exg_signature_argument flag = value(EXG_ARGUMENT_BOOL, "flag");
    const exg_input_spec inputs[] = {
        INPUT(TOKEN, token("token"), NULL, EXG_UNSET),
        INPUT(PARAMETER, tensor("p_w"), "w", EXG_UNSET),
        INPUT(BUFFER, tensor("b_m"), "m", EXG_TRUE),
        INPUT(BUFFER, tensor("b_n"), "n", EXG_FALSE),
        INPUT(CONSTANT_TENSOR, tensor("c_k"), "k", EXG_UNSET),
        INPUT(CUSTOM_OBJ, object, "o", EXG_UNSET),
        INPUT(USER, tensor("x"), NULL, EXG_UNSET),
        INPUT(USER, flag, NULL, EXG_UNSET),
        INPUT(USER, value(EXG_ARGUMENT_NONE, "none"), NULL, EXG_UNSET),
        INPUT(USER, value(EXG_ARGUMENT_SYM_INT, "s0"), NULL, EXG_UNSET),
    };
    const exg_output_spec outputs[] = {
        OUTPUT(TOKEN, token("token_1"), NULL),
        OUTPUT(BUFFER_MUTATION, tensor("add"), "m"),
        OUTPUT(USER_INPUT_MUTATION, tensor("add_1"), "x"),
        OUTPUT(USER, tensor("y"), NULL),
        OUTPUT(USER, value(EXG_ARGUMENT_NONE, ""), NULL),
        OUTPUT(LOSS, tensor("loss"), NULL),
        OUTPUT(GRADIENT_TO_PARAMETER, tensor("gw"), "w"),
        OUTPUT(GRADIENT_TO_USER_INPUT, tensor("gx"), "x"),
    };

    for (uint32_t i = 0; i < 10; i++) {
        r->inputs[i] = inputs[i];
    }
    for (uint32_t i = 0; i < 8; i++) {
        r->outputs[i] = outputs[i];
    }
    r->inputs[5].arg.as_string = "__torch__.O";
    r->inputs[7].arg.as_bool = true;
    r->signature = (exg_signature){r->inputs, r->outputs, 10, 8};
}

void make_docstring(rich *r)
{
    const exg_input_spec inputs[] = {
        INPUT(PARAMETER, tensor("arg0_1"), "my_parameter", EXG_UNSET),
        INPUT(BUFFER, tensor("arg1_1"), "my_buffer1", EXG_TRUE),
        INPUT(BUFFER, tensor("arg2_1"), "my_buffer2", EXG_TRUE),
        INPUT(USER, tensor("arg3_1"), NULL, EXG_UNSET),
        INPUT(USER, tensor("arg4_1"), NULL, EXG_UNSET),
    };

    for (uint32_t i = 0; i < 5; i++) {
        r->inputs[i] = inputs[i];
    }
    r->outputs[0] = OUTPUT(BUFFER_MUTATION, tensor("add_2"), "my_buffer2");
    r->outputs[1] = OUTPUT(USER, tensor("add_1"), NULL);
    r->signature = (exg_signature){r->inputs, r->outputs, 5, 2};
}
