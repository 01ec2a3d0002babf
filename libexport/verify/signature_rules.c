/* signature_rules.c - the signature against graph and weights (SIG). */
#include "libexport/program/constant.h"
#include "libexport/verify/lookup.h"
#include "libexport/verify/verifier.h"

#include <exg/signature.h>
#include <string.h>

static bool same(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static const char *value_name(const exg_graph *graph, const exg_argument *arg)
{
    exg_value_id id = arg->kind == EXG_ARGUMENT_TENSOR ? arg->as_tensor : arg->as_sym.value;

    return id == EXG_NO_VALUE ? NULL : graph->values[id].name;
}

static bool same_constant(const exg_argument *arg, const exg_signature_argument *spec)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_INT:
        return arg->as_int == spec->as_int;
    case EXG_ARGUMENT_FLOAT:
        return memcmp(&arg->as_float, &spec->as_float, sizeof(double)) == 0;
    case EXG_ARGUMENT_BOOL:
        return arg->as_bool == spec->as_bool;
    case EXG_ARGUMENT_STRING:
        return same(arg->as_string, spec->as_string);
    default:
        return true;
    }
}

/* ---- inputs ----------------------------------------------------------------------- */

static void check_state(exg_verifier *v, const exg_input_spec *spec, const exg_model_path *path)
{
    const exg_weight *state = exg_verifier_weight(v, EXG_TABLE_STATE, spec->target);
    const exg_weight *constant = exg_verifier_weight(v, EXG_TABLE_CONSTANTS, spec->target);
    const char *target = spec->target == NULL ? "" : spec->target;

    switch (spec->kind) {
    case EXG_INPUT_PARAMETER:
        if (state == NULL || !state->is_param) {
            exg_found(v, "SIG-005", path, "parameter '%s' is not in the state dict", target);
        }
        break;
    case EXG_INPUT_BUFFER:
        if (spec->persistent != EXG_FALSE && state == NULL &&
            (constant == NULL || spec->persistent == EXG_TRUE)) {
            exg_found(v, "SIG-006", path, "buffer '%s' is not in the state dict", target);
        }
        if (spec->persistent == EXG_FALSE && (state != NULL || constant == NULL)) {
            exg_found(v, "SIG-007", path, "non-persistent buffer '%s' is %s", target,
                      state != NULL ? "in the state dict" : "not in the constants");
        }
        break;
    case EXG_INPUT_CONSTANT_TENSOR:
        if (constant == NULL) {
            exg_found(v, "SIG-008", path, "constant '%s' is not in the constants", target);
        }
        break;
    case EXG_INPUT_CUSTOM_OBJ:
        if (constant == NULL) {
            exg_found(v, "SIG-009", path, "custom object '%s' is not in the constants", target);
        }
        break;
    case EXG_INPUT_USER:
    case EXG_INPUT_TOKEN:
        break;
    }
}

/* Spec `i` against graph input `i`. */
static void check_input(exg_verifier *v, uint32_t i)
{
    const exg_input_spec *spec = &v->program->signature.inputs[i];
    const exg_argument *input = &v->program->graph->inputs[i];
    const exg_model_path *path = EXG_AT_INDEX(EXG_AT(NULL, "signature"), "input_specs", i);

    if (input->kind == EXG_ARGUMENT_SYM_INT && input->as_sym.value == EXG_NO_VALUE) {
        return; /* GRF-001 */
    }
    if (exg_is_constant(spec->arg.kind)) {
        if (input->kind != spec->arg.kind || !same_constant(input, &spec->arg)) {
            exg_found(v, "SIG-004", path, "the graph input is another constant");
        } else if (spec->arg.name == NULL || spec->arg.name[0] == '\0') {
            exg_found(v, "SIG-004", path, "the constant has no name");
        }
        return;
    }
    if (input->kind == EXG_ARGUMENT_TENSOR || input->kind == EXG_ARGUMENT_SYM_INT) {
        const char *name = value_name(v->program->graph, input);

        if (input->kind != spec->arg.kind || !same(name, spec->arg.name)) {
            exg_found(v, spec->kind == EXG_INPUT_TOKEN ? "SIG-010" : "SIG-003", path,
                      "it names '%s', the graph input is '%s'",
                      spec->arg.name == NULL ? "" : spec->arg.name, name == NULL ? "" : name);
        }
    }
}

/* A constant has no value in the graph, and a name in PyTorch's. */
static void check_constant_names(exg_verifier *v)
{
    const exg_program *p = v->program;
    exg_map names;
    uint32_t first = 0;

    while (first < p->signature.input_count &&
           !exg_is_constant(p->signature.inputs[first].arg.kind)) {
        first++;
    }
    if (first == p->signature.input_count) {
        return;
    }
    exg_map_init(&names, v->arena);
    for (uint32_t id = 0; id < p->graph->value_count; id++) {
        v->failed = v->failed || (p->graph->values[id].name != NULL &&
                                  !exg_map_put(&names, p->graph->values[id].name, id));
    }
    for (uint32_t i = first; i < p->signature.input_count; i++) {
        const exg_signature_argument *arg = &p->signature.inputs[i].arg;

        if (!exg_is_constant(arg->kind) || arg->name == NULL || arg->name[0] == '\0') {
            continue;
        }
        if (exg_map_find(&names, arg->name) != EXG_MAP_NONE) {
            exg_found(v, "SIG-004", EXG_AT_INDEX(EXG_AT(NULL, "signature"), "input_specs", i),
                      "another value is called '%s' too", arg->name);
        }
        v->failed = v->failed || !exg_map_put(&names, arg->name, i);
    }
}

/* Input specs by kind and by what they are for: a user input by its name, the others
 * by their targets. */
typedef struct names {
    exg_map by_kind[EXG_INPUT_TOKEN + 1];
} names;

static void check_input_order(exg_verifier *v, names *taken)
{
    const exg_signature *s = &v->program->signature;
    bool user_seen = false;

    for (int kind = 0; kind <= EXG_INPUT_TOKEN; kind++) {
        exg_map_init(&taken->by_kind[kind], v->arena);
    }
    for (uint32_t i = 0; i < s->input_count; i++) {
        const exg_input_spec *spec = &s->inputs[i];
        const exg_model_path *path = EXG_AT_INDEX(EXG_AT(NULL, "signature"), "input_specs", i);
        bool lifted = spec->kind != EXG_INPUT_USER && spec->kind != EXG_INPUT_TOKEN;
        const char *name = spec->kind == EXG_INPUT_USER ? spec->arg.name : spec->target;
        uint32_t earlier = exg_map_find(&taken->by_kind[spec->kind], name);

        if (lifted && user_seen) {
            exg_found(v, "SIG-012", path, "a lifted input after a user input");
        }
        user_seen = user_seen || spec->kind == EXG_INPUT_USER;
        if (earlier != EXG_MAP_NONE && lifted) {
            exg_found(v, "SIG-011", path, "target '%s' is taken by input_specs[%u]", name, earlier);
        } else if (earlier == EXG_MAP_NONE && name != NULL &&
                   !exg_map_put(&taken->by_kind[spec->kind], name, i)) {
            v->failed = true;
            return;
        }
    }
}

/* ---- outputs ------------------------------------------------------------------------ */

/* Order of kinds in a signature: tokens, mutations, results, gradients. */
static int rank_of(exg_output_kind kind)
{
    switch (kind) {
    case EXG_OUTPUT_TOKEN:
        return 0;
    case EXG_OUTPUT_BUFFER_MUTATION:
    case EXG_OUTPUT_PARAMETER_MUTATION:
    case EXG_OUTPUT_USER_INPUT_MUTATION:
        return 1;
    case EXG_OUTPUT_USER:
    case EXG_OUTPUT_LOSS:
        return 2;
    case EXG_OUTPUT_GRADIENT_TO_PARAMETER:
    case EXG_OUTPUT_GRADIENT_TO_USER_INPUT:
        return 3;
    }
    return 3;
}

static void check_mutated_meta(exg_verifier *v, uint32_t input, const exg_argument *output,
                               const exg_model_path *path)
{
    const exg_graph *graph = v->program->graph;
    exg_value_id id = graph->inputs[input].kind == EXG_ARGUMENT_TENSOR
                          ? graph->inputs[input].as_tensor
                          : EXG_NO_VALUE;
    const exg_tensor_meta *a = id == EXG_NO_VALUE ? NULL : graph->values[id].tensor;
    const exg_tensor_meta *b = graph->values[output->as_tensor].tensor;
    bool fits = a != NULL && b != NULL && a->dtype == b->dtype && a->rank == b->rank;

    for (uint32_t d = 0; fits && d < a->rank; d++) {
        fits = a->sizes[d].expr != NULL || b->sizes[d].expr != NULL ||
               a->sizes[d].value == b->sizes[d].value;
    }
    if (!fits) {
        exg_found(v, "SIG-024", path, "the new value of '%s' has another dtype or size",
                  v->program->signature.inputs[input].arg.name);
    }
}

/* `output`: the graph's, or NULL where it is not known which. */
static void check_target(exg_verifier *v, const names *inputs, const exg_output_spec *spec,
                         const exg_argument *output, const exg_model_path *path)
{
    static const struct {
        exg_output_kind output;
        exg_input_kind input;
        const char *code;
    } rows[] = {
        {EXG_OUTPUT_BUFFER_MUTATION, EXG_INPUT_BUFFER, "SIG-015"},
        {EXG_OUTPUT_PARAMETER_MUTATION, EXG_INPUT_PARAMETER, "SIG-016"},
        {EXG_OUTPUT_USER_INPUT_MUTATION, EXG_INPUT_USER, "SIG-017"},
        {EXG_OUTPUT_GRADIENT_TO_PARAMETER, EXG_INPUT_PARAMETER, "SIG-020"},
        {EXG_OUTPUT_GRADIENT_TO_USER_INPUT, EXG_INPUT_USER, "SIG-020"},
    };

    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        uint32_t input;

        if (rows[r].output != spec->kind) {
            continue;
        }
        input = exg_map_find(&inputs->by_kind[rows[r].input], spec->target);
        if (input == EXG_MAP_NONE) {
            exg_found(v, rows[r].code, path, "there is no %s '%s'",
                      exg_input_kind_name(rows[r].input), spec->target == NULL ? "" : spec->target);
        } else if (v->inputs_paired && output != NULL && rank_of(spec->kind) == 1 &&
                   output->kind == EXG_ARGUMENT_TENSOR) {
            check_mutated_meta(v, input, output, path);
        }
    }
}

/* The rule that an output spec breaks by naming another value. */
static const char *naming_rule(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_TOKEN ? "SIG-010" : kind == EXG_OUTPUT_USER ? "SIG-018" : "SIG-023";
}

/* A spec against its graph output; false: it speaks of another one. */
static bool check_output(exg_verifier *v, const exg_output_spec *spec, const exg_argument *output,
                         const exg_model_path *path)
{
    bool named = output->kind == EXG_ARGUMENT_TENSOR || output->kind == EXG_ARGUMENT_SYM_INT ||
                 output->kind == EXG_ARGUMENT_SYM_BOOL || output->kind == EXG_ARGUMENT_SYM_FLOAT;
    const char *name = named ? value_name(v->program->graph, output) : NULL;

    if (!named && !exg_is_constant(output->kind)) {
        return false; /* GRF-003 */
    }
    if (named && !same(name, spec->arg.name) && !exg_is_constant(spec->arg.kind)) {
        exg_found(v, naming_rule(spec->kind), path, "it names '%s', the graph output is '%s'",
                  spec->arg.name == NULL ? "" : spec->arg.name, name == NULL ? "" : name);
        return false;
    }
    if (named != !exg_is_constant(spec->arg.kind) ||
        (rank_of(spec->kind) != 2 && output->kind != EXG_ARGUMENT_TENSOR)) {
        exg_found(v, naming_rule(spec->kind), path, "the graph output is %s",
                  exg_argument_tag(output->kind));
        return false;
    }
    if (!named && (output->kind != spec->arg.kind || !same_constant(output, &spec->arg))) {
        exg_found(v, naming_rule(spec->kind), path, "the graph output is another constant");
        return false;
    }
    return true;
}

static void check_order(exg_verifier *v, uint32_t o, const exg_model_path *path)
{
    const exg_output_spec *specs = v->program->signature.outputs;

    if (o > 0 && rank_of(specs[o - 1].kind) > rank_of(specs[o].kind)) {
        exg_found(v, "SIG-013", path, "a %s after a %s", exg_output_kind_name(specs[o].kind),
                  exg_output_kind_name(specs[o - 1].kind));
    }
}

/* Maps of a signature have one target an output, and one output a target. */
static void check_mutations(exg_verifier *v)
{
    const exg_signature *s = &v->program->signature;
    exg_map targets[EXG_OUTPUT_TOKEN + 1];
    exg_map outputs[EXG_OUTPUT_TOKEN + 1];

    for (int kind = 0; kind <= EXG_OUTPUT_TOKEN; kind++) {
        exg_map_init(&targets[kind], v->arena);
        exg_map_init(&outputs[kind], v->arena);
    }
    for (uint32_t o = 0; o < s->output_count && !v->failed; o++) {
        const exg_output_spec *spec = &s->outputs[o];
        uint32_t target, name;

        if (rank_of(spec->kind) != 1 || spec->target == NULL || spec->arg.name == NULL) {
            continue;
        }
        target = exg_map_find(&targets[spec->kind], spec->target);
        name = exg_map_find(&outputs[spec->kind], spec->arg.name);
        if (target != EXG_MAP_NONE) {
            exg_found(v, "SIG-021", EXG_AT_INDEX(EXG_AT(NULL, "signature"), "output_specs", o),
                      "'%s' is mutated by output_specs[%u] too", spec->target, target);
        } else if (name != EXG_MAP_NONE) {
            exg_found(v, "SIG-021", EXG_AT_INDEX(EXG_AT(NULL, "signature"), "output_specs", o),
                      "'%s' mutates '%s' too, by output_specs[%u]", spec->arg.name,
                      s->outputs[name].target, name);
        } else {
            v->failed = !exg_map_put(&targets[spec->kind], spec->target, o) ||
                        !exg_map_put(&outputs[spec->kind], spec->arg.name, o);
        }
    }
}

static void check_outputs_together(exg_verifier *v)
{
    const exg_signature *s = &v->program->signature;
    uint32_t losses = 0;
    uint32_t gradients = 0;
    int64_t tokens = 0; /* in less out */

    for (uint32_t i = 0; i < s->input_count; i++) {
        tokens += s->inputs[i].kind == EXG_INPUT_TOKEN;
    }
    for (uint32_t o = 0; o < s->output_count; o++) {
        const exg_output_spec *spec = &s->outputs[o];

        losses += spec->kind == EXG_OUTPUT_LOSS;
        gradients += spec->kind == EXG_OUTPUT_GRADIENT_TO_PARAMETER ||
                     spec->kind == EXG_OUTPUT_GRADIENT_TO_USER_INPUT;
        tokens -= spec->kind == EXG_OUTPUT_TOKEN;
    }
    check_mutations(v);
    if (tokens != 0) {
        exg_found(v, "SIG-022", EXG_AT(NULL, "signature"), "%lld tokens more go in than come out",
                  (long long)tokens);
    }
    if (losses > 1) {
        exg_found(v, "SIG-019", EXG_AT(NULL, "signature.output_specs"), "%u losses", losses);
    }
    if (losses == 0 && gradients > 0) { /* S004-40 */
        exg_found(v, "SIG-030", EXG_AT(NULL, "signature.output_specs"), "%u gradients and no loss",
                  gradients);
    }
}

/* S004-71: described as one output, behind the updated buffers and the user's. */
static void check_assertion_token(exg_verifier *v)
{
    const exg_signature *s = &v->program->signature;
    const char *name = NULL;
    uint32_t index = 0;
    uint32_t before = 0;

    if (!exg_signature_assertion_dep_token(s, &index, &name)) {
        return;
    }
    for (uint32_t o = 0; o < s->output_count; o++) {
        before += s->outputs[o].kind == EXG_OUTPUT_USER ||
                  s->outputs[o].kind == EXG_OUTPUT_BUFFER_MUTATION;
    }
    if (index != before) {
        exg_found(v, "SIG-028", EXG_AT(NULL, "signature.assertion_dep_token"),
                  "'%s' is output %u, behind %u user outputs and mutated buffers", name, index,
                  before);
    }
}

/* S002-94 */
static void check_input_metadata(exg_verifier *v)
{
    const exg_program *p = v->program;
    exg_map inputs;
    exg_map seen;

    exg_map_init(&inputs, v->arena);
    exg_map_init(&seen, v->arena);
    for (uint32_t i = 0; i < p->signature.input_count; i++) {
        const char *name = p->signature.inputs[i].arg.name;

        v->failed |= name != NULL && !exg_map_put(&inputs, name, i);
    }
    for (uint32_t i = 0; i < p->input_metadata_count && !v->failed; i++) {
        const exg_model_path *path = EXG_AT_INDEX(NULL, "input_metadata", i);
        const char *name = p->input_metadata[i].input;
        const char *key = name == NULL ? "" : name; /* the output */

        if (name != NULL && exg_map_find(&inputs, name) == EXG_MAP_NONE) {
            exg_found(v, "SIG-029", path, "'%s' is no input", name);
        } else if (exg_map_find(&seen, key) != EXG_MAP_NONE) {
            exg_found(v, "SIG-029", path, "%s%s is there twice",
                      name == NULL ? "the output" : "the input ", key);
        }
        v->failed |= !exg_map_put(&seen, key, i);
    }
}

void exg_verify_signature(exg_verifier *v)
{
    const exg_program *p = v->program;
    names inputs;

    v->inputs_paired = p->signature.input_count == p->graph->input_count;
    v->outputs_paired = p->signature.output_count == p->graph->output_count;
    if (!v->inputs_paired) {
        exg_found(v, "SIG-001", EXG_AT(NULL, "signature.input_specs"),
                  "%u specs for %u graph inputs", p->signature.input_count, p->graph->input_count);
    }
    if (!v->outputs_paired) {
        exg_found(v, "SIG-002", EXG_AT(NULL, "signature.output_specs"),
                  "%u specs for %u graph outputs", p->signature.output_count,
                  p->graph->output_count);
    }
    for (uint32_t i = 0; i < p->signature.input_count; i++) {
        check_state(v, &p->signature.inputs[i],
                    EXG_AT_INDEX(EXG_AT(NULL, "signature"), "input_specs", i));
        if (v->inputs_paired) {
            check_input(v, i);
        }
    }
    check_constant_names(v);
    check_input_order(v, &inputs);
    for (uint32_t o = 0; o < p->signature.output_count; o++) {
        const exg_argument *output = v->outputs_paired ? &p->graph->outputs[o] : NULL;
        const exg_model_path *path = EXG_AT_INDEX(EXG_AT(NULL, "signature"), "output_specs", o);

        if (output == NULL || check_output(v, &p->signature.outputs[o], output, path)) {
            check_target(v, &inputs, &p->signature.outputs[o], output, path);
        }
        check_order(v, o, path);
    }
    check_outputs_together(v);
    check_assertion_token(v);
    check_input_metadata(v);
}
