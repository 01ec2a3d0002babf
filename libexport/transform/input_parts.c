/* input_parts.c - see input_parts.h. */
#include "libexport/transform/input_parts.h"
#include "libexport/base/arena.h"

exg_status exg_input_parts_begin(exg_input_parts *p, exg_program *program, uint32_t most,
                                 uint32_t *values, exg_error *err)
{
    exg_graph *graph = program->graph;
    uint32_t inputs = most * graph->input_count;
    exg_value *room;

    *p = (exg_input_parts){.program = program, .err = err};
    *values = graph->value_count + inputs;
    room = EXG_NEW_ARRAY(program->arena, exg_value, *values);
    p->inputs = EXG_NEW_ARRAY(program->arena, exg_argument, inputs);
    p->specs = EXG_NEW_ARRAY(program->arena, exg_input_spec, inputs);
    exg_map_init(&p->names, program->arena);
    if (room == NULL || p->inputs == NULL || p->specs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        room[v] = graph->values[v];
        if (room[v].name != NULL && !exg_map_put(&p->names, room[v].name, v)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    graph->values = room;
    return EXG_OK;
}

void exg_input_parts_keep(exg_input_parts *p, uint32_t input)
{
    p->inputs[p->count] = p->program->graph->inputs[input];
    p->specs[p->count++] = p->program->signature.inputs[input];
}

exg_status exg_input_parts_add(exg_input_parts *p, uint32_t input, const char *part,
                               const char *target, exg_tensor_meta *meta, exg_value_id *id)
{
    exg_arena *arena = p->program->arena;
    exg_graph *graph = p->program->graph;
    const exg_input_spec *whole = &p->program->signature.inputs[input];
    exg_value *value = &graph->values[graph->value_count];

    *id = graph->value_count++;
    value->name = exg_arena_printf(arena, "%s_%s", whole->arg.name, part);
    while (value->name != NULL && exg_map_find(&p->names, value->name) != EXG_MAP_NONE) {
        value->name = exg_arena_printf(arena, "%s_", value->name);
    }
    value->tensor = meta;
    if (value->name == NULL || meta == NULL || !exg_map_put(&p->names, value->name, *id)) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    p->inputs[p->count] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = *id};
    p->specs[p->count] = *whole;
    p->specs[p->count].target = target;
    p->specs[p->count++].arg.name = value->name;
    return EXG_OK;
}

void exg_input_parts_end(const exg_input_parts *p)
{
    p->program->graph->inputs = p->inputs;
    p->program->signature.inputs = p->specs;
    p->program->graph->input_count = p->program->signature.input_count = p->count;
}
