#include "libexport/program/uses.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"

static void count(void *user, exg_value_id *id)
{
    uint32_t *uses = user;

    if (*id != EXG_NO_VALUE) {
        uses[*id]++;
    }
}

uint32_t *exg_graph_count_uses(exg_arena *arena, const exg_graph *graph)
{
    uint32_t *uses = EXG_NEW_ARRAY(arena, uint32_t, graph->value_count);

    for (uint32_t n = 0; uses != NULL && n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, count, uses);
        }
    }
    for (uint32_t o = 0; uses != NULL && o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], count, uses);
    }
    return uses;
}

#define REACH_MAX (INT64_MAX / 16)

bool exg_meta_is_countable(const exg_tensor_meta *meta)
{
    int64_t numel = 1;
    int64_t stride = 1;
    int64_t reach;

    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t size = meta->sizes[d].value;

        if (size < 0 || meta->strides[d].value < 0 ||
            !exg_mul_i64(numel, size == 0 ? 1 : size, &numel)) {
            return false;
        }
        stride = meta->strides[d].value > stride ? meta->strides[d].value : stride;
    }
    return exg_mul_i64(numel, stride, &reach) && reach < REACH_MAX &&
           meta->storage_offset.value >= 0 && meta->storage_offset.value < REACH_MAX;
}

typedef struct search {
    const exg_graph *graph;
    const exg_value *found; /* no tensor of numbers */
} search;

static void look_at(void *user, exg_value_id *id)
{
    search *s = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &s->graph->values[*id];

    if (value != NULL && (value->tensor == NULL || !exg_tensor_meta_is_static(value->tensor) ||
                          !exg_meta_is_countable(value->tensor))) {
        s->found = value;
    }
}

exg_status exg_check_specialized(const exg_program *program, exg_error *err)
{
    const exg_graph *graph = program->graph;
    search s = {.graph = graph};

    for (uint32_t k = 0; k < graph->node_count; k++) {
        for (uint32_t i = 0; i < graph->nodes[k].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[k].inputs[i].arg, look_at, &s);
        }
        for (uint32_t i = 0; i < graph->nodes[k].output_count; i++) {
            exg_argument_visit_values(&graph->nodes[k].outputs[i], look_at, &s);
        }
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_argument_visit_values(&graph->outputs[i], look_at, &s);
    }
    return s.found == NULL ? EXG_OK
                           : exg_error_fix(err,
                                           EXG_FAIL(err, USAGE, "PLN-003",
                                                    "'%s' is not a tensor whose sizes are numbers",
                                                    s.found->name),
                                           "exg_specialize, exg_decompose and exg_functionalize "
                                           "make the program that is planned");
}
