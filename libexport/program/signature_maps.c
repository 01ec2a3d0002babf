/* signature_maps.c - a signature from what tracing knows: PyTorch's _sig_to_specs. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"

#include <exg/signature.h>
#include <string.h>

/* The maps by name; an index into their lists. */
typedef struct lookup {
    exg_map user_inputs, user_outputs, non_persistent;
    exg_map parameters, buffers, constants;
    exg_map buffer_mutations, parameter_mutations, user_input_mutations;
    exg_map grad_params, grad_user_inputs;
} lookup;

static exg_status index_names(exg_map *map, exg_arena *arena, const exg_name_list *list,
                              exg_error *err)
{
    exg_map_init(map, arena);
    for (uint32_t i = 0; i < list->count; i++) {
        if (!exg_map_put(map, list->items[i], i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

static exg_status index_pairs(exg_map *map, exg_arena *arena, const exg_string_map *pairs,
                              exg_error *err)
{
    exg_map_init(map, arena);
    for (uint32_t i = 0; i < pairs->count; i++) {
        if (!exg_map_put(map, pairs->items[i].key, i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return EXG_OK;
}

static exg_status index_maps(lookup *l, exg_arena *arena, const exg_signature_maps *maps,
                             exg_error *err)
{
    EXG_TRY(index_names(&l->user_inputs, arena, &maps->user_inputs, err));
    EXG_TRY(index_names(&l->user_outputs, arena, &maps->user_outputs, err));
    EXG_TRY(index_names(&l->non_persistent, arena, &maps->non_persistent, err));
    EXG_TRY(index_pairs(&l->parameters, arena, &maps->inputs_to_parameters, err));
    EXG_TRY(index_pairs(&l->buffers, arena, &maps->inputs_to_buffers, err));
    EXG_TRY(index_pairs(&l->constants, arena, &maps->inputs_to_constants, err));
    EXG_TRY(index_pairs(&l->buffer_mutations, arena, &maps->buffer_mutations, err));
    EXG_TRY(index_pairs(&l->parameter_mutations, arena, &maps->parameter_mutations, err));
    EXG_TRY(index_pairs(&l->user_input_mutations, arena, &maps->user_input_mutations, err));
    EXG_TRY(index_pairs(&l->grad_params, arena, &maps->grad_params, err));
    return index_pairs(&l->grad_user_inputs, arena, &maps->grad_user_inputs, err);
}

static bool is_tensor(const exg_signature_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSOR;
}

static exg_status input_spec(const exg_signature_maps *maps, const lookup *l, exg_input_spec *spec,
                             exg_error *err)
{
    const struct {
        const exg_map *map;
        const exg_string_map *pairs;
        exg_input_kind kind;
    } lifted[] = {
        {&l->parameters, &maps->inputs_to_parameters, EXG_INPUT_PARAMETER},
        {&l->buffers, &maps->inputs_to_buffers, EXG_INPUT_BUFFER},
        {&l->constants, &maps->inputs_to_constants, EXG_INPUT_CONSTANT_TENSOR},
    };
    const char *name = spec->arg.name;

    spec->kind = spec->arg.is_token ? EXG_INPUT_TOKEN : EXG_INPUT_USER;
    if (spec->arg.is_token || !is_tensor(&spec->arg) ||
        exg_map_find(&l->user_inputs, name) != EXG_MAP_NONE) {
        return EXG_OK;
    }
    for (size_t i = 0; i < sizeof(lifted) / sizeof(lifted[0]); i++) {
        uint32_t at = exg_map_find(lifted[i].map, name);

        if (at != EXG_MAP_NONE) {
            spec->kind = lifted[i].kind;
            spec->target = lifted[i].pairs->items[at].value;
            if (spec->kind == EXG_INPUT_BUFFER) {
                spec->persistent = exg_map_find(&l->non_persistent, spec->target) == EXG_MAP_NONE
                                       ? EXG_TRUE
                                       : EXG_FALSE;
            }
            return EXG_OK;
        }
    }
    return EXG_FAIL(err, MALFORMED, "SIG-025", "nothing tells what the input tensor '%s' is", name);
}

typedef struct output_row {
    const exg_map *map;
    const exg_string_map *pairs; /* NULL: of user outputs, which have no target */
    exg_output_kind kind;
} output_row;

static bool find_output(const output_row *rows, size_t count, exg_output_spec *spec)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t at = exg_map_find(rows[i].map, spec->arg.name);

        if (at != EXG_MAP_NONE) {
            spec->kind = rows[i].kind;
            spec->target = rows[i].pairs == NULL ? NULL : rows[i].pairs->items[at].value;
            return true;
        }
    }
    return false;
}

static exg_status output_spec(const exg_signature_maps *maps, const lookup *l, bool in_mutations,
                              exg_output_spec *spec, exg_error *err)
{
    const output_row mutations[] = {
        {&l->buffer_mutations, &maps->buffer_mutations, EXG_OUTPUT_BUFFER_MUTATION},
        {&l->parameter_mutations, &maps->parameter_mutations, EXG_OUTPUT_PARAMETER_MUTATION},
        {&l->user_input_mutations, &maps->user_input_mutations, EXG_OUTPUT_USER_INPUT_MUTATION},
    };
    const output_row results[] = {
        {&l->user_outputs, NULL, EXG_OUTPUT_USER},
        {&l->grad_params, &maps->grad_params, EXG_OUTPUT_GRADIENT_TO_PARAMETER},
        {&l->grad_user_inputs, &maps->grad_user_inputs, EXG_OUTPUT_GRADIENT_TO_USER_INPUT},
    };
    const char *name = spec->arg.name;

    spec->kind = spec->arg.is_token ? EXG_OUTPUT_TOKEN : EXG_OUTPUT_USER;
    if (spec->arg.is_token || !is_tensor(&spec->arg)) {
        return EXG_OK;
    }
    if (in_mutations) {
        return find_output(mutations, 3, spec)
                   ? EXG_OK
                   : EXG_FAIL(err, MALFORMED, "SIG-025",
                              "'%s' is listed among the mutations but is not one", name);
    }
    if (find_output(results, 3, spec)) {
        return EXG_OK;
    }
    if (maps->loss_output == NULL || strcmp(maps->loss_output, name) != 0) {
        return EXG_FAIL(err, MALFORMED, "SIG-025", "nothing tells what the output tensor '%s' is",
                        name);
    }
    spec->kind = EXG_OUTPUT_LOSS;
    return EXG_OK;
}

exg_status exg_signature_from_maps(exg_arena *arena, const exg_signature_maps *maps,
                                   const exg_signature_argument *inputs, uint32_t input_count,
                                   const exg_signature_argument *outputs, uint32_t output_count,
                                   exg_signature *signature, exg_error *err)
{
    EXG_REQUIRE(err, arena, EXG_IF_ANY(input_count, inputs), EXG_IF_ANY(output_count, outputs),
                signature);
    uint64_t mutations = (uint64_t)maps->buffer_mutations.count + maps->parameter_mutations.count +
                         maps->user_input_mutations.count + maps->output_tokens.count;
    exg_signature made = {EXG_NEW_ARRAY(arena, exg_input_spec, input_count),
                          EXG_NEW_ARRAY(arena, exg_output_spec, output_count), input_count,
                          output_count};
    lookup l;

    if (made.inputs == NULL || made.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(index_maps(&l, arena, maps, err));
    for (uint32_t i = 0; i < input_count; i++) {
        made.inputs[i] = (exg_input_spec){.arg = inputs[i], .persistent = EXG_UNSET};
        EXG_TRY_IN(err, input_spec(maps, &l, &made.inputs[i], err), "input_specs[%u]", i);
        EXG_TRY_IN(err, exg_input_spec_check(&made.inputs[i], err), "input_specs[%u]", i);
    }
    for (uint32_t i = 0; i < output_count; i++) {
        made.outputs[i] = (exg_output_spec){.arg = outputs[i]};
        EXG_TRY_IN(err, output_spec(maps, &l, i < mutations, &made.outputs[i], err),
                   "output_specs[%u]", i);
        EXG_TRY_IN(err, exg_output_spec_check(&made.outputs[i], err), "output_specs[%u]", i);
    }
    *signature = made;
    return EXG_OK;
}

/* ---- from a graph --------------------------------------------------------------------------- */

static bool is_in(const exg_name_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* What a graph's input or output is to a signature; `tokens` may be NULL. */
static exg_status argument_of(const exg_graph *graph, const exg_argument *arg,
                              const exg_name_list *tokens, exg_signature_argument *made,
                              exg_error *err)
{
    exg_value_id id = EXG_NO_VALUE;

    *made = (exg_signature_argument){.kind = arg->kind, .name = ""};
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
        id = arg->as_tensor;
        break;
    case EXG_ARGUMENT_SYM_INT:
        id = arg->as_sym.value;
        made->as_int = arg->as_sym.as_int;
        made->kind = id == EXG_NO_VALUE ? EXG_ARGUMENT_INT : arg->kind;
        break;
    case EXG_ARGUMENT_SYM_FLOAT:
        id = arg->as_sym.value;
        made->as_float = arg->as_sym.as_float;
        made->kind = id == EXG_NO_VALUE ? EXG_ARGUMENT_FLOAT : arg->kind;
        break;
    case EXG_ARGUMENT_SYM_BOOL:
        id = arg->as_sym.value;
        made->as_bool = arg->as_sym.as_bool;
        made->kind = id == EXG_NO_VALUE ? EXG_ARGUMENT_BOOL : arg->kind;
        break;
    case EXG_ARGUMENT_INT:
        made->as_int = arg->as_int;
        break;
    case EXG_ARGUMENT_FLOAT:
        made->as_float = arg->as_float;
        break;
    case EXG_ARGUMENT_BOOL:
        made->as_bool = arg->as_bool;
        break;
    case EXG_ARGUMENT_STRING:
        made->as_string = arg->as_string;
        break;
    case EXG_ARGUMENT_CUSTOM_OBJ:
        made->name = arg->as_custom_obj->name;
        made->as_string = arg->as_custom_obj->class_fqn;
        break;
    default: /* None; what has no place is refused by the spec's check */
        break;
    }
    if (id != EXG_NO_VALUE) {
        if (id >= graph->value_count) {
            return EXG_FAIL(err, USAGE, "BLD-002", "the graph has no value %u", id);
        }
        made->name = graph->values[id].name;
        made->is_token = tokens != NULL && is_in(tokens, made->name);
    }
    return EXG_OK;
}

/* A plain graph: all is the user's. */
static void all_user(exg_signature *s, exg_signature_argument *inputs,
                     exg_signature_argument *outputs)
{
    for (uint32_t i = 0; i < s->input_count; i++) {
        s->inputs[i] =
            (exg_input_spec){.kind = EXG_INPUT_USER, .arg = inputs[i], .persistent = EXG_UNSET};
    }
    for (uint32_t i = 0; i < s->output_count; i++) {
        s->outputs[i] = (exg_output_spec){.kind = EXG_OUTPUT_USER, .arg = outputs[i]};
    }
}

static exg_status check_all(const exg_signature *s, exg_error *err)
{
    for (uint32_t i = 0; i < s->input_count; i++) {
        EXG_TRY_IN(err, exg_input_spec_check(&s->inputs[i], err), "input_specs[%u]", i);
    }
    for (uint32_t i = 0; i < s->output_count; i++) {
        EXG_TRY_IN(err, exg_output_spec_check(&s->outputs[i], err), "output_specs[%u]", i);
    }
    return EXG_OK;
}

exg_status exg_signature_from_graph(exg_program *program, const exg_signature_maps *maps,
                                    exg_error *err)
{
    EXG_REQUIRE(err, program);
    const exg_graph *graph = program->graph;
    exg_arena *arena = program->arena;
    exg_signature_argument *inputs =
        EXG_NEW_ARRAY(arena, exg_signature_argument, graph->input_count);
    exg_signature_argument *outputs =
        EXG_NEW_ARRAY(arena, exg_signature_argument, graph->output_count);
    exg_signature made = {EXG_NEW_ARRAY(arena, exg_input_spec, graph->input_count),
                          EXG_NEW_ARRAY(arena, exg_output_spec, graph->output_count),
                          graph->input_count, graph->output_count};

    if (inputs == NULL || outputs == NULL || made.inputs == NULL || made.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        EXG_TRY_IN(err,
                   argument_of(graph, &graph->inputs[i], maps == NULL ? NULL : &maps->input_tokens,
                               &inputs[i], err),
                   "graph.inputs[%u]", i);
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        EXG_TRY_IN(err,
                   argument_of(graph, &graph->outputs[i],
                               maps == NULL ? NULL : &maps->output_tokens, &outputs[i], err),
                   "graph.outputs[%u]", i);
    }
    if (maps != NULL) {
        EXG_TRY(exg_signature_from_maps(arena, maps, inputs, graph->input_count, outputs,
                                        graph->output_count, &made, err));
    } else {
        all_user(&made, inputs, outputs);
        EXG_TRY(check_all(&made, err));
    }
    program->signature = made;
    return EXG_OK;
}
