/* signature.c - the graph signature (seed 004): views, checks, renaming. */
#include "libexport/base/require.h"
#include "libexport/program/constant.h"
#include <exg/signature.h>

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const char *name;
    int number;
} input_kinds[] =
    {
#define EXG_INPUT_KIND(id, name, number) [EXG_INPUT_##id] = {name, number},
#define EXG_OUTPUT_KIND(id, name, number)
#include <exg/signature_kind.def>
#undef EXG_INPUT_KIND
#undef EXG_OUTPUT_KIND
},
  output_kinds[] = {
#define EXG_INPUT_KIND(id, name, number)
#define EXG_OUTPUT_KIND(id, name, number) [EXG_OUTPUT_##id] = {name, number},
#include <exg/signature_kind.def>
#undef EXG_INPUT_KIND
#undef EXG_OUTPUT_KIND
};

const char *exg_input_kind_name(exg_input_kind kind)
{
    return (unsigned)kind < COUNT(input_kinds) ? input_kinds[kind].name : "?";
}

const char *exg_output_kind_name(exg_output_kind kind)
{
    return (unsigned)kind < COUNT(output_kinds) ? output_kinds[kind].name : "?";
}

int exg_input_kind_number(exg_input_kind kind)
{
    return (unsigned)kind < COUNT(input_kinds) ? input_kinds[kind].number : 0;
}

int exg_output_kind_number(exg_output_kind kind)
{
    return (unsigned)kind < COUNT(output_kinds) ? output_kinds[kind].number : 0;
}

/* ---- what an argument is -------------------------------------------------------------------- */

/* Tokens are tensors to the graph, but not to the signature. */
static bool is_tensor(const exg_signature_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSOR && !arg->is_token;
}

static bool has_kind(const exg_signature_argument *arg)
{
    return exg_is_constant(arg->kind) || arg->kind == EXG_ARGUMENT_TENSOR ||
           arg->kind == EXG_ARGUMENT_SYM_INT || arg->kind == EXG_ARGUMENT_SYM_FLOAT ||
           arg->kind == EXG_ARGUMENT_SYM_BOOL || arg->kind == EXG_ARGUMENT_CUSTOM_OBJ;
}

static exg_status check_argument(const exg_signature_argument *arg, exg_error *err)
{
    if (!has_kind(arg)) {
        return EXG_FAIL(err, MALFORMED, "SIG-026", "%s is not an argument of a signature",
                        exg_argument_tag(arg->kind));
    }
    if (!exg_is_constant(arg->kind) && arg->name == NULL) {
        return EXG_FAIL(err, MALFORMED, "SIG-026", "an argument of a signature has no name");
    }
    return EXG_OK;
}

exg_status exg_input_spec_check(const exg_input_spec *spec, exg_error *err)
{
    EXG_REQUIRE(err, spec);
    if (spec->kind == EXG_INPUT_BUFFER && spec->persistent == EXG_UNSET) {
        return EXG_FAIL(err, MALFORMED, "SIG-026",
                        "the buffer '%s' does not say whether it is persistent",
                        spec->target == NULL ? "" : spec->target);
    }
    return check_argument(&spec->arg, err);
}

exg_status exg_output_spec_check(const exg_output_spec *spec, exg_error *err)
{
    EXG_REQUIRE(err, spec);
    return check_argument(&spec->arg, err);
}

/* ---- targets and maps ----------------------------------------------------------------------- */

/* Targets of one kind; `persistent` EXG_UNSET: whatever that says. */
static uint32_t input_targets(const exg_signature *s, exg_input_kind kind, exg_tristate persistent,
                              const char **targets, uint32_t capacity)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->input_count; i++) {
        const exg_input_spec *spec = &s->inputs[i];

        if (spec->kind == kind && spec->target != NULL &&
            (persistent == EXG_UNSET || spec->persistent == persistent)) {
            if (count < capacity) {
                targets[count] = spec->target;
            }
            count++;
        }
    }
    return count;
}

static uint32_t input_pairs(const exg_signature *s, exg_input_kind kind, exg_argument_kind arg,
                            exg_string_pair *pairs, uint32_t capacity)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->input_count; i++) {
        const exg_input_spec *spec = &s->inputs[i];

        if (spec->kind == kind && spec->arg.kind == arg && !spec->arg.is_token &&
            spec->target != NULL) {
            if (count < capacity) {
                pairs[count] = (exg_string_pair){spec->arg.name, spec->target};
            }
            count++;
        }
    }
    return count;
}

static uint32_t output_pairs(const exg_signature *s, exg_output_kind kind, exg_string_pair *pairs,
                             uint32_t capacity)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->output_count; i++) {
        const exg_output_spec *spec = &s->outputs[i];

        if (spec->kind == kind && is_tensor(&spec->arg) && spec->target != NULL) {
            if (count < capacity) {
                pairs[count] = (exg_string_pair){spec->arg.name, spec->target};
            }
            count++;
        }
    }
    return count;
}

uint32_t exg_signature_parameters(const exg_signature *signature, const char **targets,
                                  uint32_t capacity)
{
    return input_targets(signature, EXG_INPUT_PARAMETER, EXG_UNSET, targets, capacity);
}

uint32_t exg_signature_buffers(const exg_signature *signature, const char **targets,
                               uint32_t capacity)
{
    return input_targets(signature, EXG_INPUT_BUFFER, EXG_UNSET, targets, capacity);
}

uint32_t exg_signature_non_persistent_buffers(const exg_signature *signature, const char **targets,
                                              uint32_t capacity)
{
    return input_targets(signature, EXG_INPUT_BUFFER, EXG_FALSE, targets, capacity);
}

uint32_t exg_signature_lifted_tensor_constants(const exg_signature *signature, const char **targets,
                                               uint32_t capacity)
{
    return input_targets(signature, EXG_INPUT_CONSTANT_TENSOR, EXG_UNSET, targets, capacity);
}

uint32_t exg_signature_lifted_custom_objs(const exg_signature *signature, const char **targets,
                                          uint32_t capacity)
{
    return input_targets(signature, EXG_INPUT_CUSTOM_OBJ, EXG_UNSET, targets, capacity);
}

uint32_t exg_signature_inputs_to_parameters(const exg_signature *signature, exg_string_pair *pairs,
                                            uint32_t capacity)
{
    return input_pairs(signature, EXG_INPUT_PARAMETER, EXG_ARGUMENT_TENSOR, pairs, capacity);
}

uint32_t exg_signature_inputs_to_buffers(const exg_signature *signature, exg_string_pair *pairs,
                                         uint32_t capacity)
{
    return input_pairs(signature, EXG_INPUT_BUFFER, EXG_ARGUMENT_TENSOR, pairs, capacity);
}

uint32_t exg_signature_inputs_to_lifted_tensor_constants(const exg_signature *signature,
                                                         exg_string_pair *pairs, uint32_t capacity)
{
    return input_pairs(signature, EXG_INPUT_CONSTANT_TENSOR, EXG_ARGUMENT_TENSOR, pairs, capacity);
}

uint32_t exg_signature_inputs_to_lifted_custom_objs(const exg_signature *signature,
                                                    exg_string_pair *pairs, uint32_t capacity)
{
    return input_pairs(signature, EXG_INPUT_CUSTOM_OBJ, EXG_ARGUMENT_CUSTOM_OBJ, pairs, capacity);
}

uint32_t exg_signature_buffers_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                         uint32_t capacity)
{
    return output_pairs(signature, EXG_OUTPUT_BUFFER_MUTATION, pairs, capacity);
}

uint32_t exg_signature_parameters_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                            uint32_t capacity)
{
    return output_pairs(signature, EXG_OUTPUT_PARAMETER_MUTATION, pairs, capacity);
}

uint32_t exg_signature_user_inputs_to_mutate(const exg_signature *signature, exg_string_pair *pairs,
                                             uint32_t capacity)
{
    return output_pairs(signature, EXG_OUTPUT_USER_INPUT_MUTATION, pairs, capacity);
}

uint32_t exg_signature_gradients_to_parameters(const exg_signature *signature,
                                               exg_string_pair *pairs, uint32_t capacity)
{
    return output_pairs(signature, EXG_OUTPUT_GRADIENT_TO_PARAMETER, pairs, capacity);
}

uint32_t exg_signature_gradients_to_user_inputs(const exg_signature *signature,
                                                exg_string_pair *pairs, uint32_t capacity)
{
    return output_pairs(signature, EXG_OUTPUT_GRADIENT_TO_USER_INPUT, pairs, capacity);
}

/* ---- leaves and tokens ---------------------------------------------------------------------- */

static exg_status no_token(const exg_signature_argument *arg, exg_error *err)
{
    return arg->is_token ? EXG_FAIL(err, MALFORMED, "SIG-010",
                                    "the token '%s' is not a user's value", arg->name)
                         : EXG_OK;
}

exg_status exg_signature_user_inputs(const exg_signature *signature,
                                     const exg_signature_argument **leaves, uint32_t capacity,
                                     uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, signature, EXG_IF_ANY(capacity, leaves), count);
    uint32_t found = 0;

    *count = 0;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        if (spec->kind == EXG_INPUT_USER) {
            EXG_TRY_IN(err, no_token(&spec->arg, err), "input_specs[%u]", i);
            if (found < capacity) {
                leaves[found] = &spec->arg;
            }
            found++;
        }
    }
    *count = found;
    return EXG_OK;
}

exg_status exg_signature_user_outputs(const exg_signature *signature, exg_loss loss,
                                      const exg_signature_argument **leaves, uint32_t capacity,
                                      uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, signature, EXG_IF_ANY(capacity, leaves), count);
    uint32_t found = 0;

    *count = 0;
    for (uint32_t i = 0; i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        if (spec->kind == EXG_OUTPUT_USER ||
            (spec->kind == EXG_OUTPUT_LOSS && loss == EXG_WITH_LOSS)) {
            EXG_TRY_IN(err, no_token(&spec->arg, err), "output_specs[%u]", i);
            if (found < capacity) {
                leaves[found] = &spec->arg;
            }
            found++;
        }
    }
    *count = found;
    return EXG_OK;
}

static exg_status add_token(const exg_signature_argument *arg, const char **names,
                            uint32_t capacity, uint32_t *count, exg_error *err)
{
    if (!arg->is_token) {
        return EXG_FAIL(err, MALFORMED, "SIG-010", "a token spec names '%s', which is not a token",
                        arg->name == NULL ? "" : arg->name);
    }
    if (*count < capacity) {
        names[*count] = arg->name;
    }
    ++*count;
    return EXG_OK;
}

exg_status exg_signature_input_tokens(const exg_signature *signature, const char **names,
                                      uint32_t capacity, uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, signature, EXG_IF_ANY(capacity, names), count);
    *count = 0;
    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_TOKEN) {
            EXG_TRY_IN(err, add_token(&signature->inputs[i].arg, names, capacity, count, err),
                       "input_specs[%u]", i);
        }
    }
    return EXG_OK;
}

exg_status exg_signature_output_tokens(const exg_signature *signature, const char **names,
                                       uint32_t capacity, uint32_t *count, exg_error *err)
{
    EXG_REQUIRE(err, signature, EXG_IF_ANY(capacity, names), count);
    *count = 0;
    for (uint32_t i = 0; i < signature->output_count; i++) {
        if (signature->outputs[i].kind == EXG_OUTPUT_TOKEN) {
            EXG_TRY_IN(err, add_token(&signature->outputs[i].arg, names, capacity, count, err),
                       "output_specs[%u]", i);
        }
    }
    return EXG_OK;
}

bool exg_signature_assertion_dep_token(const exg_signature *signature, uint32_t *index,
                                       const char **name)
{
    if (signature->assertion_dep_token == NULL) {
        return false;
    }
    *index = signature->assertion_dep_index;
    *name = signature->assertion_dep_token;
    return true;
}

/* ---- backward ------------------------------------------------------------------------------- */

static exg_status check_backward(const exg_output_spec *spec, const char *loss, exg_error *err)
{
    if (!is_tensor(&spec->arg)) {
        return EXG_FAIL(err, MALFORMED, "SIG-019", "a %s is not a tensor",
                        exg_output_kind_name(spec->kind));
    }
    if (spec->kind == EXG_OUTPUT_LOSS && loss != NULL) {
        return EXG_FAIL(err, MALFORMED, "SIG-019", "'%s' and '%s' are both the loss", loss,
                        spec->arg.name);
    }
    if (spec->kind != EXG_OUTPUT_LOSS && spec->target == NULL) {
        return EXG_FAIL(err, MALFORMED, "SIG-020", "the gradient '%s' has no target",
                        spec->arg.name);
    }
    return EXG_OK;
}

exg_status exg_signature_backward(const exg_signature *signature, bool *exists,
                                  exg_backward_signature *backward, exg_error *err)
{
    EXG_REQUIRE(err, signature, exists, backward);
    *exists = false;
    *backward = (exg_backward_signature){0};
    for (uint32_t i = 0; i < signature->output_count; i++) {
        const exg_output_spec *spec = &signature->outputs[i];

        if (spec->kind != EXG_OUTPUT_LOSS && spec->kind != EXG_OUTPUT_GRADIENT_TO_PARAMETER &&
            spec->kind != EXG_OUTPUT_GRADIENT_TO_USER_INPUT) {
            continue;
        }
        EXG_TRY_IN(err, check_backward(spec, backward->loss_output, err), "output_specs[%u]", i);
        if (spec->kind == EXG_OUTPUT_LOSS) {
            backward->loss_output = spec->arg.name;
        } else if (spec->kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER) {
            backward->gradients_to_parameters++;
        } else {
            backward->gradients_to_user_inputs++;
        }
    }
    *exists = backward->loss_output != NULL;
    return EXG_OK;
}

/* ---- renaming ------------------------------------------------------------------------------- */

static bool is_called(const exg_signature_argument *arg, const char *name)
{
    return !exg_is_constant(arg->kind) && arg->name != NULL && strcmp(arg->name, name) == 0;
}

static bool target_is_input(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_USER_INPUT_MUTATION || kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT;
}

/* How many arguments are called `name`. */
static uint32_t count_called(const exg_signature *s, const char *name)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->output_count; i++) {
        count += is_called(&s->outputs[i].arg, name);
    }
    for (uint32_t i = 0; i < s->input_count; i++) {
        count += is_called(&s->inputs[i].arg, name);
    }
    return count;
}

static void rename_all(exg_signature *s, const char *old_name, const char *new_name,
                       exg_targets targets)
{
    bool is_input = false;

    for (uint32_t i = 0; i < s->input_count; i++) {
        if (is_called(&s->inputs[i].arg, old_name)) {
            s->inputs[i].arg.name = new_name;
            is_input = true;
        }
    }
    for (uint32_t i = 0; i < s->output_count; i++) {
        exg_output_spec *spec = &s->outputs[i];

        if (is_called(&spec->arg, old_name)) {
            spec->arg.name = new_name;
        }
        if (is_input && targets == EXG_TARGETS_FOLLOW && target_is_input(spec->kind) &&
            spec->target != NULL && strcmp(spec->target, old_name) == 0) {
            spec->target = new_name;
        }
    }
    if (s->assertion_dep_token != NULL && strcmp(s->assertion_dep_token, old_name) == 0) {
        s->assertion_dep_token = new_name;
    }
}

exg_status exg_signature_rename(exg_signature *signature, const char *old_name,
                                const char *new_name, exg_targets targets, exg_error *err)
{
    EXG_REQUIRE(err, signature, old_name, new_name);
    if (strcmp(old_name, new_name) == 0 || count_called(signature, old_name) == 0) {
        return EXG_OK;
    }
    if (count_called(signature, new_name) != 0) {
        return EXG_FAIL(err, USAGE, "BLD-002",
                        "'%s' cannot be called '%s': another argument of the signature is",
                        old_name, new_name);
    }
    rename_all(signature, old_name, new_name, targets);
    return EXG_OK;
}

exg_status exg_signature_replace_hook(exg_signature *signature, const char *old_name,
                                      const char *new_name, exg_use use, bool old_is_input,
                                      bool replace_inputs, exg_targets targets, exg_error *err)
{
    EXG_REQUIRE(err, signature, old_name, new_name);
    if (use != EXG_USE_OUTPUT && !(replace_inputs && old_is_input)) {
        return EXG_OK;
    }
    return exg_signature_rename(signature, old_name, new_name, targets, err);
}
