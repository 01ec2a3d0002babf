/* program.c - creating, finding, visiting. */
#include "libexport/base/require.h"
#include <exg/program.h>

#include "libexport/base/arena.h"
#include "libexport/program/model.h"

#include <exg/weights.h>
#include <string.h>

bool exg_program_has_dialect(const exg_program *program, const char *dialect)
{
    for (uint32_t i = 0; i < program->verifier_count; i++) {
        if (strcmp(program->verifiers[i], dialect) == 0) {
            return true;
        }
    }
    return false;
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

typedef struct visitor {
    void (*visit)(void *user, exg_value_id *id);
    void *user;
} visitor;

static void visit_id(const visitor *v, exg_value_id *id)
{
    if (*id != EXG_NO_VALUE) {
        v->visit(v->user, id);
    }
}

/* Values that stand in an argument; a graph in it has a scope of its own. */
static void visit_items(const visitor *v, exg_model_items items)
{
    const exg_model *model = &exg_models[items.type];

    for (uint32_t i = 0; i < items.count; i++) {
        void *at = exg_model_item(items, i);

        switch (items.type) {
        case EXG_MODEL_VALUE:
        case EXG_MODEL_OPTIONAL_VALUE:
            visit_id(v, at);
            break;
        case EXG_MODEL_SYM_INT_ARGUMENT:
        case EXG_MODEL_SYM_FLOAT_ARGUMENT:
        case EXG_MODEL_SYM_BOOL_ARGUMENT:
            visit_id(v, &((exg_sym_argument *)at)->value);
            break;
        case EXG_MODEL_ARGUMENT:
            visit_items(v, exg_argument_items(at));
            break;
        case EXG_MODEL_GRAPH_ARGUMENT:
            break;
        default:
            for (uint32_t m = 0; m < model->member_count; m++) {
                visit_items(v, exg_model_items_of(&model->members[m], at));
            }
            break;
        }
    }
}

void exg_argument_visit_values(exg_argument *arg, void (*visit)(void *user, exg_value_id *id),
                               void *user)
{
    visit_items(&(visitor){visit, user}, exg_argument_items(arg));
}

exg_status exg_program_create(const exg_allocator *allocator, uint64_t budget,
                              exg_program **program, exg_error *err)
{
    EXG_REQUIRE(err, program);
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
