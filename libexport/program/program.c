/* program.c - creating, finding, visiting; the names of kinds. */
#include "libexport/base/given.h"
#include <exg/program.h>

#include "libexport/base/arena.h"

#include <exg/weights.h>
#include <string.h>

const char *exg_argument_tag(exg_argument_kind kind)
{
    static const char *const tags[] = {
#define EXG_ARGUMENT(id, tag, early, number) [EXG_ARGUMENT_##id] = tag,
#include <exg/argument.def>
#undef EXG_ARGUMENT
    };

    return (unsigned)kind < EXG_ARGUMENT_KIND_COUNT ? tags[kind] : "?";
}

exg_value_id exg_graph_find_value(const exg_graph *graph, const char *name)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (strcmp(graph->values[i].name, name) == 0) {
            return i;
        }
    }
    return EXG_NO_VALUE;
}

static void visit_ids(exg_value_id *ids, uint32_t count,
                      void (*visit)(void *user, exg_value_id *id), void *user)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] != EXG_NO_VALUE) {
            visit(user, &ids[i]);
        }
    }
}

void exg_argument_visit_values(exg_argument *arg, void (*visit)(void *user, exg_value_id *id),
                               void *user)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        visit_ids(&arg->as_tensor, 1, visit, user);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        visit_ids(arg->as_tensors, arg->count, visit, user);
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        visit_ids(&arg->as_sym.value, 1, visit, user);
        break;
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        for (uint32_t i = 0; i < arg->count; i++) {
            visit_ids(&arg->as_syms[i].value, 1, visit, user);
        }
        break;
    case EXG_ARGUMENT_NESTED_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            visit_ids(arg->as_nested_tensors[i].items, arg->as_nested_tensors[i].count, visit,
                      user);
        }
        break;
    case EXG_ARGUMENT_STRING_TO_ARGUMENT:
        for (uint32_t i = 0; i < arg->count; i++) {
            exg_argument_visit_values(&arg->as_string_to_argument[i].argument, visit, user);
        }
        break;
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_FLOATS:
    case EXG_ARGUMENT_STRING:
    case EXG_ARGUMENT_STRINGS:
    case EXG_ARGUMENT_SCALAR_TYPE:
    case EXG_ARGUMENT_MEMORY_FORMAT:
    case EXG_ARGUMENT_LAYOUT:
    case EXG_ARGUMENT_DEVICE:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_BOOLS:
    case EXG_ARGUMENT_GRAPH:
    case EXG_ARGUMENT_CUSTOM_OBJ:
    case EXG_ARGUMENT_OPERATOR:
    case EXG_ARGUMENT_COMPLEX:
    case EXG_ARGUMENT_INT_LISTS:
    case EXG_ARGUMENT_FLOAT_LISTS:
    case EXG_ARGUMENT_KIND_COUNT:
        break;
    }
}

exg_status exg_program_create(const exg_allocator *allocator, uint64_t budget,
                              exg_program **program, exg_error *err)
{
    EXG_GIVEN(err, program);
    exg_arena *arena = exg_arena_create(allocator, budget);
    exg_program *made;
    exg_status status;

    *program = NULL;
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made = EXG_NEW(arena, exg_program);
    if (made == NULL || (made->graph = EXG_NEW(arena, exg_graph)) == NULL) {
        status = exg_arena_fault(arena, err);
        exg_arena_destroy(arena);
        return status;
    }
    made->arena = arena;
    made->name = "model";
    made->schema_major = 8;
    made->schema_minor = 20;
    status = exg_weights_create(allocator, &made->weights, err);
    if (status != EXG_OK) {
        exg_arena_destroy(arena);
        return status;
    }
    *program = made;
    return EXG_OK;
}

void exg_program_destroy(exg_program *program)
{
    if (program != NULL) {
        exg_weights_release(program->weights);
        exg_arena_destroy(program->arena);
    }
}
