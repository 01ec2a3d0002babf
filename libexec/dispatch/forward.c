/* forward.c - a module's program, from what goes in to what comes out. */
#include "libexec/device/host_copy.h"
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dispatch/walk.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <exg/transform.h>
#include <stdlib.h>
#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------- */

static exg_module_value *input_called(exg_module_value *values, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(values[i].name, name) == 0) {
            return &values[i];
        }
    }
    return NULL;
}

/* Every tensor that the program takes is among them, however it was passed. */
static exg_status check_inputs(const exg_module *m, exg_module_value *values, uint32_t count,
                               exg_error *err)
{
    const exg_signature *signature = &m->verified.program->signature;

    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        if (spec->kind == EXG_INPUT_USER && spec->arg.kind == EXG_ARGUMENT_TENSOR &&
            input_called(values, count, spec->arg.name) == NULL) {
            return EXG_FAIL(err, USAGE, "DTN-017", "the input '%s' is not given", spec->arg.name);
        }
    }
    return EXG_OK;
}

/* Also of a tensor of rank 0, wherever it is. */
static exg_status whole_number(const exg_module_value *value, int64_t *number, exg_error *err)
{
    const exg_tensor *t = value->tensor;
    exg_accelerator *device = value->dtensor == NULL ? NULL : value->dtensor->mesh->device;
    exg_host_copy copy;

    *number = value->number.kind == EXG_SCALAR_INT ? value->number.as_int : 0;
    if (t == NULL || t->rank != 0 || t->dtype != EXG_DTYPE_I64 || t->data == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_host_copy_open(&copy, device, t, true, err));
    memcpy(number, copy.here.data, sizeof(*number));
    exg_host_copy_close(&copy);
    return EXG_OK;
}

#define WORDS_OF_INPUT (3 + EXG_RANK_MAX) /* which, dtype or number, rank, sizes */

/* As exg_bind_inputs takes them; in words too, for telling whether they changed. */
static exg_status describe(const exg_module_value *value, exg_input_binding *b, int64_t *words,
                           exg_error *err)
{
    const exg_dtensor *t = value->dtensor;

    *b = (exg_input_binding){.name = value->name, .kind = EXG_ARGUMENT_TENSOR};
    if (t == NULL && value->tensor == NULL) {
        b->kind = EXG_ARGUMENT_INT;
    } else {
        b->dtype = t == NULL ? value->tensor->dtype : t->local.dtype;
        b->rank = t == NULL ? value->tensor->rank : t->rank;
        b->sizes = t == NULL ? value->tensor->sizes : t->sizes;
    }
    EXG_TRY(whole_number(value, &b->as_int, err));
    words[0] = b->kind;
    words[1] = b->kind == EXG_ARGUMENT_TENSOR ? (int64_t)b->dtype : b->as_int;
    words[2] = b->kind == EXG_ARGUMENT_TENSOR && b->rank == 0 ? b->as_int : 0;
    for (uint32_t d = 0; d < b->rank && b->kind == EXG_ARGUMENT_TENSOR; d++) {
        words[3 + d] = b->sizes[d];
    }
    return EXG_OK;
}

static exg_status specialize(exg_module *m, const exg_input_binding *bindings, uint32_t count,
                             exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_symbols symbols;
    exg_status status;

    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_program_destroy(m->bound);
    m->bound = NULL;
    status = exg_bind_inputs(&m->verified, bindings, count, NULL, arena, &symbols, err);
    if (status == EXG_OK) {
        status = exg_specialize(&m->verified, &symbols, &m->bound, err);
    }
    exg_arena_destroy(arena);
    return status;
}

/* The program of these sizes: that of the last forward, or another. */
static exg_status bind(exg_module *m, const exg_module_value *values, uint32_t count,
                       exg_error *err)
{
    uint32_t words = count * WORDS_OF_INPUT;
    exg_input_binding *bindings = calloc(count + 1u, sizeof(*bindings));
    int64_t *now = calloc(words + 1u, sizeof(*now));
    exg_status status = bindings == NULL || now == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        status = describe(&values[i], &bindings[i], now + (size_t)i * WORDS_OF_INPUT, err);
    }
    if (status == EXG_OK && (m->bound == NULL || m->size_count != words ||
                             memcmp(now, m->sizes, words * sizeof(*now)) != 0)) {
        status = specialize(m, bindings, count, err);
        free(m->sizes);
        m->sizes = now;
        m->size_count = words;
        now = NULL;
    }
    free(bindings);
    free(now);
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct reader {
    exg_walk *w;
    uint32_t at;
} reader;

static void note_use(void *user, exg_value_id *id)
{
    const reader *r = user;

    if (*id != EXG_NO_VALUE) {
        r->w->slots[*id].last = r->at;
    }
}

static exg_status prepare(exg_walk *w)
{
    const exg_graph *graph = w->graph;

    w->slots = calloc(graph->value_count + 1u, sizeof(*w->slots));
    w->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (w->slots == NULL || w->arena == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        w->slots[v] = (exg_slot){.object = exg_object_none(), .owner = EXG_NO_VALUE};
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        reader r = {w, n + 1};

        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, note_use, &r);
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        reader r = {w, EXG_READ_LAST};

        exg_argument_visit_values(&graph->outputs[o], note_use, &r);
    }
    return EXG_OK;
}

/* Parameters, buffers and constants of the module, and what the caller gives; all borrowed. */
static exg_status fill_inputs(exg_walk *w, exg_module_value *values, uint32_t count)
{
    const exg_signature *signature = &w->program->signature;

    for (uint32_t i = 0; i < w->graph->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];
        const exg_module_value *value;
        exg_dtensor *t = NULL;
        exg_slot *s;

        if (w->graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        s = &w->slots[w->graph->inputs[i].as_tensor];
        s->is_state = spec->kind != EXG_INPUT_USER;
        s->is_constant = spec->kind == EXG_INPUT_CONSTANT_TENSOR;
        if (s->is_state) {
            EXG_TRY(exg_module_tensor(w->m, spec->target, w->self, &t, w->err));
            s->object = exg_object_dtensor(t);
        } else {
            value = input_called(values, count, spec->arg.name);
            s->object = value == NULL ? exg_object_none() : exg_passage_object(value);
        }
    }
    return EXG_OK;
}

static bool is_mutation(exg_output_kind kind)
{
    return kind == EXG_OUTPUT_BUFFER_MUTATION || kind == EXG_OUTPUT_PARAMETER_MUTATION ||
           kind == EXG_OUTPUT_USER_INPUT_MUTATION;
}

static bool is_given(exg_output_kind kind)
{
    return !is_mutation(kind) && kind != EXG_OUTPUT_TOKEN;
}

uint32_t exg_module_output_count(const exg_module *m)
{
    const exg_signature *signature = &m->verified.program->signature;
    uint32_t count = 0;

    for (uint32_t o = 0; o < signature->output_count; o++) {
        count += is_given(signature->outputs[o].kind);
    }
    return count;
}

/* The tensor that output `spec` writes. */
static exg_status target_of(exg_walk *w, const exg_output_spec *spec, exg_dtensor **t)
{
    const exg_signature *signature = &w->program->signature;

    *t = NULL;
    if (spec->kind != EXG_OUTPUT_USER_INPUT_MUTATION) {
        return exg_module_tensor(w->m, spec->target, w->self, t, w->err);
    }
    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_USER && signature->inputs[i].arg.name != NULL &&
            strcmp(signature->inputs[i].arg.name, spec->target) == 0) {
            *t = w->slots[w->graph->inputs[i].as_tensor].object.dtensor;
        }
    }
    return *t != NULL ? EXG_OK
                      : EXG_FAIL(w->err, USAGE, "DTN-017", "no input '%s' to write", spec->target);
}

/* What the program says it writes is written; no gradient goes that way. */
static exg_status write_back(exg_walk *w, const exg_output_spec *spec, exg_dtensor *value)
{
    bool enabled = exg_set_grad_enabled(w->d, false);
    exg_object args[2] = {exg_object_none(), exg_object_dtensor(value)};
    exg_object result = exg_object_none();
    exg_status status = target_of(w, spec, &args[0].dtensor);

    args[0].kind = EXG_OBJECT_DTENSOR;
    if (status == EXG_OK && args[0].dtensor != value) {
        status = exg_dispatch(w->d, "aten.copy_.default", args, 2, NULL, 0, &result, w->err);
    }
    (void)exg_set_grad_enabled(w->d, enabled);
    return status;
}

/* Output `o` of the graph as the caller's own. */
static exg_status hand_out(exg_walk *w, uint32_t o, exg_module_value *value)
{
    const exg_argument *out = &w->graph->outputs[o];
    exg_slot *s = out->kind == EXG_ARGUMENT_TENSOR ? &w->slots[out->as_tensor] : NULL;
    exg_dtensor *t;

    *value = (exg_module_value){.name = w->m->verified.program->signature.outputs[o].arg.name};
    if (s == NULL || s->object.kind != EXG_OBJECT_DTENSOR) {
        value->number = out->kind == EXG_ARGUMENT_INT     ? exg_scalar_int(out->as_int)
                        : out->kind == EXG_ARGUMENT_FLOAT ? exg_scalar_float(out->as_float)
                        : out->kind == EXG_ARGUMENT_BOOL  ? exg_scalar_bool(out->as_bool)
                                                          : (exg_scalar){0};
        return EXG_OK;
    }
    if (s->owner == out->as_tensor) {
        t = s->object.dtensor;
        s->owner = EXG_NO_VALUE;
    } else {
        EXG_TRY(exg_dtensor_alias(s->object.dtensor, &t, w->err));
    }
    value->dtensor = t;
    value->tensor = t->mesh == w->self ? &t->local : NULL;
    return EXG_OK;
}

static exg_status take_outputs(exg_walk *w, exg_module_value *outputs)
{
    const exg_signature *signature = &w->program->signature;
    uint32_t next = 0;

    for (uint32_t o = 0; o < signature->output_count; o++) { /* before a value is handed out */
        const exg_argument *out = &w->graph->outputs[o];

        if (is_mutation(signature->outputs[o].kind) && out->kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY(write_back(w, &signature->outputs[o], w->slots[out->as_tensor].object.dtensor));
        }
    }
    for (uint32_t o = 0; o < signature->output_count; o++) {
        if (is_given(signature->outputs[o].kind)) {
            EXG_TRY(hand_out(w, o, &outputs[next++]));
        }
    }
    return EXG_OK;
}

static exg_status walk(exg_walk *w, exg_module_value *values, uint32_t count,
                       exg_module_value *outputs)
{
    EXG_TRY(prepare(w));
    EXG_TRY(fill_inputs(w, values, count));
    EXG_TRY(exg_walk_all(w));
    return take_outputs(w, outputs);
}

static exg_status run(exg_dispatcher *d, exg_module *m, exg_device_mesh *self,
                      exg_module_value *values, uint32_t count, exg_module_value *outputs,
                      exg_error *err)
{
    exg_walk w = {
        .d = d, .m = m, .self = self, .program = m->bound, .graph = m->bound->graph, .err = err};
    exg_status status = walk(&w, values, count, outputs);

    for (uint32_t v = 0; w.slots != NULL && v < w.graph->value_count; v++) {
        exg_walk_let_go(&w, v);
    }
    free(w.slots);
    exg_arena_destroy(w.arena);
    return status;
}

/* ---- the root -------------------------------------------------------------------------------- */

/* The root's function on what the caller gave or gets: what it takes away of `owned` goes. */
static exg_status pass_root(const exg_walk *w, bool is_output, bool owned, exg_passage *p)
{
    const exg_module_entry *root = exg_module_called(w->m, "", 0);
    exg_status status = exg_passage_through(w, root, is_output, p);

    for (uint32_t i = 0; owned && i < p->count; i++) {
        if (p->values[i].dtensor != p->before[i]) {
            exg_dtensor_destroy(p->before[i]);
        }
    }
    return status;
}

static exg_status run_root(exg_walk *w, exg_passage *in, exg_passage *out)
{
    EXG_TRY(exg_dispatcher_self(w->d, &w->self, w->err));
    EXG_TRY(pass_root(w, false, false, in));
    EXG_TRY(bind(w->m, in->values, in->count, w->err));
    EXG_TRY(run(w->d, w->m, w->self, in->values, in->count, out->values, w->err));
    return pass_root(w, true, true, out);
}

static exg_status forward(exg_dispatcher *d, exg_module *m, exg_passage *in, exg_passage *out,
                          exg_error *err)
{
    exg_walk w = {.d = d, .m = m, .err = err};
    exg_status status = run_root(&w, in, out);

    for (uint32_t i = 0; i < in->count; i++) { /* what the function put there */
        if (in->values[i].dtensor != in->before[i]) {
            exg_dtensor_destroy(in->values[i].dtensor);
        }
    }
    while (status != EXG_OK && out->count > 0) {
        exg_dtensor_destroy(out->values[--out->count].dtensor);
    }
    return status;
}

/* The mesh of a module that is distributed; NULL: none is. */
static exg_device_mesh *any_mesh(const exg_module *m)
{
    for (uint32_t i = 0; i < m->module_count; i++) {
        if (m->modules[i].mesh != NULL) {
            return m->modules[i].mesh;
        }
    }
    return NULL;
}

static exg_status forward_on_its_mesh(exg_dispatcher *d, exg_module *m, exg_passage *in,
                                      exg_passage *out, exg_error *err)
{
    bool pushes = exg_current_mesh(d) == NULL && any_mesh(m) != NULL;
    exg_status status;

    if (pushes) {
        EXG_TRY(exg_dispatcher_push_mesh(d, any_mesh(m), err));
    }
    status = forward(d, m, in, out, err);
    if (pushes) {
        (void)exg_dispatcher_pop_mesh(d);
    }
    return status;
}

static exg_status open_passages(const exg_module *m, const exg_module_value *inputs,
                                uint32_t input_count, exg_passage *in, uint32_t output_count,
                                exg_passage *out, exg_error *err)
{
    EXG_TRY(exg_passage_open(in, input_count, err));
    EXG_TRY(exg_passage_open(out, output_count, err));
    if (input_count > 0) {
        memcpy(in->values, inputs, input_count * sizeof(*inputs));
    }
    in->count = input_count;
    out->count = output_count;
    return check_inputs(m, in->values, input_count, err);
}

exg_status exg_module_forward(exg_dispatcher *d, exg_module *m, const exg_module_value *inputs,
                              uint32_t input_count, exg_module_value *outputs,
                              uint32_t output_count, exg_error *err)
{
    EXG_REQUIRE(err, d, m, EXG_IF_ANY(input_count, inputs), EXG_IF_ANY(output_count, outputs));
    exg_passage in = {0}, out = {0};
    exg_status status;

    for (uint32_t i = 0; i < input_count; i++) {
        EXG_REQUIRE(err, inputs[i].name);
    }
    if (output_count != exg_module_output_count(m)) {
        return EXG_FAIL(err, USAGE, "DTN-017", "room for %u outputs of %u", output_count,
                        exg_module_output_count(m));
    }
    status = open_passages(m, inputs, input_count, &in, output_count, &out, err);
    if (status == EXG_OK) {
        status = forward_on_its_mesh(d, m, &in, &out, err);
    }
    if (status == EXG_OK && output_count > 0) {
        memcpy(outputs, out.values, output_count * sizeof(*outputs));
    }
    exg_passage_close(&in);
    exg_passage_close(&out);
    return status;
}
