/* write_rules.c - what operators write, through views too (NOD-019, NOD-020). A result
 * that a schema says is an alias of an argument has the base of that argument.
 */
#include "libexport/verify/verifier.h"

#include <string.h>

static void note_inputs(exg_writes *w)
{
    const exg_program *p = w->v->program;

    for (uint32_t i = 0; i < w->graph->input_count && i < p->signature.input_count; i++) {
        const exg_argument *input = &w->graph->inputs[i];

        if (input->kind == EXG_ARGUMENT_TENSOR && input->as_tensor != EXG_NO_VALUE &&
            p->signature.inputs[i].kind == EXG_INPUT_CONSTANT_TENSOR) {
            w->constant[input->as_tensor] = true;
        }
    }
}

bool exg_writes_begin(exg_writes *writes, exg_verifier *v, const exg_graph *graph)
{
    *writes = (exg_writes){.v = v, .graph = graph};
    if (v->functional_dialect) { /* nothing is written: NOD-013 */
        return true;
    }
    writes->base = EXG_NEW_ARRAY(v->arena, exg_value_id, graph->value_count);
    writes->constant = EXG_NEW_ARRAY(v->arena, bool, graph->value_count);
    if (writes->base == NULL || writes->constant == NULL) {
        return false;
    }
    for (uint32_t id = 0; id < graph->value_count; id++) {
        writes->base[id] = id;
    }
    if (graph == v->program->graph) {
        note_inputs(writes);
    }
    return true;
}

static void alias(exg_writes *w, exg_value_id id, exg_value_id of)
{
    if (id != EXG_NO_VALUE && of != EXG_NO_VALUE) {
        w->base[id] = w->base[of];
    }
}

static void note_results(exg_writes *w, const exg_node *node, const exg_operator *op,
                         const exg_argument *args)
{
    const exg_function_schema *schema = op->schema;

    for (uint32_t r = 0; r < schema->return_count && r < node->output_count; r++) {
        const exg_argument *out = &node->outputs[r];
        uint32_t a = 0;

        while (schema->returns[r].alias != 0 && a < schema->argument_count &&
               schema->arguments[a].alias != schema->returns[r].alias) {
            a++;
        }
        if (schema->returns[r].alias == 0 || a == schema->argument_count ||
            args[a].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        if (out->kind == EXG_ARGUMENT_TENSOR) {
            alias(w, out->as_tensor, args[a].as_tensor);
        }
        for (uint32_t i = 0; out->kind == EXG_ARGUMENT_TENSORS && i < out->count; i++) {
            alias(w, out->as_tensors[i], args[a].as_tensor);
        }
    }
}

/* Elements that are on one place: a dimension of stride 0. */
static bool overlaps(const exg_tensor_meta *meta)
{
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        if (meta->sizes[d].expr == NULL && meta->strides[d].expr == NULL &&
            meta->sizes[d].value > 1 && meta->strides[d].value == 0) {
            return true;
        }
    }
    return false;
}

void exg_writes_check(exg_writes *w, const exg_node *node, const exg_operator *op,
                      const exg_argument *args, const exg_model_path *path)
{
    const exg_function_schema *schema = op->schema;

    if (w->base == NULL) {
        return;
    }
    for (uint32_t a = 0; schema->is_mutable && a < schema->argument_count; a++) {
        exg_value_id id;

        if (!schema->arguments[a].is_write || args[a].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        id = args[a].as_tensor;
        if (w->constant[w->base[id]]) {
            exg_found(w->v, "NOD-019", path, "%s writes to the constant '%s'", op->target,
                      w->graph->values[w->base[id]].name);
        }
        if (overlaps(w->graph->values[id].tensor)) {
            exg_found(w->v, "NOD-020", path, "%s writes to '%s', whose elements share memory",
                      op->target, w->graph->values[id].name);
        }
    }
    note_results(w, node, op, args);
}
