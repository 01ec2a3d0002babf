/* module_call.c - the functions of modules, as their nodes begin and end.
 *
 * Nodes that stand side by side and say that they are of one module are a call of it. What they
 * take from outside goes through its input function as they begin, and is back what it was after
 * them; what others take from them through its output function as they end.
 */
#include "libexec/dispatch/walk.h"
#include "libexec/dtensor/spec.h"

#include <exg/module.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64 /* modules within modules */

/* ---- values on their way ----------------------------------------------------------------- */

exg_status exg_passage_open(exg_passage *p, uint32_t most, exg_error *err)
{
    *p = (exg_passage){.values = calloc(most + 1u, sizeof(*p->values)),
                       .before = calloc(most + 1u, sizeof(exg_dtensor *)),
                       .ids = calloc(most + 1u, sizeof(*p->ids)),
                       .kept = calloc(most + 1u, sizeof(*p->kept))};
    return p->values == NULL || p->before == NULL || p->ids == NULL || p->kept == NULL
               ? EXG_OUT_OF_MEMORY(err)
               : EXG_OK;
}

void exg_passage_close(exg_passage *p)
{
    free(p->values);
    free(p->before);
    free(p->ids);
    free(p->kept);
}

static exg_module_value value_of(const exg_walk *w, const char *name, const exg_object *object)
{
    exg_module_value value = {.name = name};

    if (object->kind == EXG_OBJECT_DTENSOR) {
        value.dtensor = object->dtensor;
        value.tensor = object->dtensor->mesh == w->self ? &object->dtensor->local : NULL;
    }
    return value;
}

exg_object exg_passage_object(const exg_module_value *value)
{
    return value->dtensor != NULL ? exg_object_dtensor(value->dtensor)
                                  : exg_object_scalar(value->number);
}

/* A plain tensor without a DTensor gets the one of this rank alone. */
static exg_status settle_plain(const exg_walk *w, exg_module_value *value)
{
    if (value->dtensor != NULL || value->tensor == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_dtensor_from_local(w->self, value->tensor, NULL, 0, NULL, &value->dtensor, w->err));
    value->tensor = &value->dtensor->local;
    return EXG_OK;
}

/* The function on the values; what it put in the place of others is told by `before`. */
exg_status exg_passage_through(const exg_walk *w, const exg_module_entry *module, bool is_output,
                               exg_passage *p)
{
    exg_status status;

    for (uint32_t i = 0; i < p->count; i++) {
        p->before[i] = p->values[i].dtensor;
    }
    status = exg_module_call_hook(w->m, module, is_output, p->values, p->count, w->err);
    for (uint32_t i = 0; status == EXG_OK && i < p->count; i++) {
        status = settle_plain(w, &p->values[i]);
    }
    return status;
}

static bool has_hook(const exg_module_entry *module, bool is_output)
{
    const exg_module_functions *f = &module->functions;

    return is_output ? f->output != NULL || f->output_of_two != NULL
                     : f->input != NULL || f->input_of_two != NULL;
}

/* A call of a module: its nodes, and the text its frames have. */
typedef struct module_call {
    const exg_module_entry *module;
    const char *path; /* "up", of a second call "up@1" */
    uint32_t path_length, first, end;
    uint32_t depth; /* of calls around it */
} module_call;

static bool same_path(const exg_module_frame *frame, const char *path, uint32_t length)
{
    return frame->path_length == length && memcmp(frame->path, path, length) == 0;
}

/* The outermost module with functions that node `n` is in, within the call `around` (NULL: the
 * root). */
static bool enters(const exg_walk *w, uint32_t n, const module_call *around, module_call *call)
{
    const char *stack = exg_node_metadata(&w->graph->nodes[n], "nn_module_stack");
    bool inside = around == NULL;
    exg_module_frame frame;

    while (exg_module_stack_next(&stack, &frame)) {
        const char *at = memchr(frame.path, '@', frame.path_length);
        uint32_t length = at == NULL ? frame.path_length : (uint32_t)(at - frame.path);
        const exg_module_entry *module =
            length == 0 || !inside ? NULL : exg_module_called(w->m, frame.path, length);

        if (module != NULL && (has_hook(module, false) || has_hook(module, true))) {
            *call = (module_call){module, frame.path, frame.path_length,
                                  n,      n + 1,      around == NULL ? 0 : around->depth + 1};
            return true;
        }
        inside = inside || same_path(&frame, around->path, around->path_length);
    }
    return false;
}

static bool is_of(const exg_walk *w, uint32_t n, const module_call *call)
{
    const char *stack = exg_node_metadata(&w->graph->nodes[n], "nn_module_stack");
    exg_module_frame frame;

    while (exg_module_stack_next(&stack, &frame)) {
        if (same_path(&frame, call->path, call->path_length)) {
            return true;
        }
    }
    return false;
}

typedef struct gathering {
    const exg_walk *w;
    const module_call *call;
    exg_passage *p;
    bool of_outputs;
} gathering;

/* Takes the value, once, when the call takes it from outside (what it makes itself is not there
 * yet) or others take it from the call. */
static void gather(void *user, exg_value_id *id)
{
    const gathering *g = user;
    exg_passage *p = g->p;
    const exg_slot *s = *id == EXG_NO_VALUE ? NULL : &g->w->slots[*id];
    bool known = s == NULL || s->object.kind == EXG_OBJECT_NONE ||
                 (g->of_outputs ? s->last <= g->call->end : s->is_state);

    for (uint32_t i = 0; i < p->count && !known; i++) {
        known = p->ids[i] == *id;
    }
    if (!known) {
        p->ids[p->count] = *id;
        p->values[p->count] = value_of(g->w, g->w->graph->values[*id].name, &s->object);
        p->count++;
    }
}

static void gather_all(gathering *g)
{
    for (uint32_t n = g->call->first; n < g->call->end; n++) {
        const exg_node *node = &g->w->graph->nodes[n];

        for (uint32_t i = 0; !g->of_outputs && i < node->input_count; i++) {
            exg_argument_visit_values(&node->inputs[i].arg, gather, g);
        }
        for (uint32_t o = 0; g->of_outputs && o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], gather, g);
        }
    }
}

/* What the input function put there holds until the end of the call. */
static exg_status enter(exg_walk *w, const module_call *call, exg_passage *p)
{
    gathering g = {w, call, p, false};
    exg_status status;

    gather_all(&g);
    status = exg_passage_through(w, call->module, false, p);
    for (uint32_t i = 0; i < p->count; i++) {
        exg_slot *s = &w->slots[p->ids[i]];

        p->kept[i] = *s;
        if (p->values[i].dtensor != p->before[i]) {
            s->object = exg_passage_object(&p->values[i]);
            s->owner = p->ids[i];
        }
    }
    return status;
}

static void come_back(exg_walk *w, const module_call *call, exg_passage *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        exg_slot *s = &w->slots[p->ids[i]];

        if (p->values[i].dtensor == p->before[i]) {
            continue;
        }
        exg_walk_let_go(w, p->ids[i]);
        s->object = p->kept[i].object;
        s->owner = p->kept[i].owner;
        if (s->last <= call->end) {
            exg_walk_let_go(w, p->ids[i]);
        }
    }
}

static exg_status leave(exg_walk *w, const module_call *call)
{
    exg_passage p;
    exg_status status = exg_passage_open(&p, w->graph->value_count, w->err);
    gathering g = {w, call, &p, true};

    if (status == EXG_OK) {
        gather_all(&g);
        status = exg_passage_through(w, call->module, true, &p);
    }
    for (uint32_t i = 0; i < p.count; i++) {
        exg_slot *s = &w->slots[p.ids[i]];

        if (p.values[i].dtensor != p.before[i]) {
            exg_walk_let_go(w, p.ids[i]);
            s->object = exg_passage_object(&p.values[i]);
            s->owner = p.ids[i];
        }
    }
    exg_passage_close(&p);
    return status;
}

static exg_status run_nodes(exg_walk *w, uint32_t first, uint32_t end, const module_call *around);

static exg_status run_module(exg_walk *w, module_call *call)
{
    exg_passage p;
    exg_status status;

    if (call->depth == DEPTH_MAX) {
        return EXG_FAIL(w->err, LIMIT, "LIM-001", "modules nested more than %d deep", DEPTH_MAX);
    }
    status = exg_passage_open(&p, w->graph->value_count, w->err);
    if (status == EXG_OK) {
        status = enter(w, call, &p);
        if (status == EXG_OK) {
            status = run_nodes(w, call->first, call->end, call);
        }
        come_back(w, call, &p);
    }
    exg_passage_close(&p);
    return status == EXG_OK ? leave(w, call) : status;
}

static exg_status run_nodes(exg_walk *w, uint32_t first, uint32_t end, const module_call *around)
{
    module_call call;

    for (uint32_t n = first; n < end; n++) {
        if (!enters(w, n, around, &call)) {
            EXG_TRY(exg_walk_node(w, n));
            continue;
        }
        while (call.end < end && is_of(w, call.end, &call)) {
            call.end++;
        }
        EXG_TRY(run_module(w, &call));
        n = call.end - 1;
    }
    return EXG_OK;
}

exg_status exg_walk_all(exg_walk *w)
{
    return run_nodes(w, 0, w->graph->node_count, NULL);
}
