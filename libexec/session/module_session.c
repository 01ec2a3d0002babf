/* module_session.c - a session whose ranks hold what the modules hold. */
#include "libexec/dispatch/module.h"
#include "libexec/dtensor/spec.h"
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <exg/session.h>
#include <exg/transform.h>
#include <stdlib.h>
#include <string.h>

/* By mesh dim: what is not whole there. */
typedef struct placing {
    exg_module *m;
    exg_partition_pattern *patterns[EXG_MESH_DIMS_MAX];
    uint32_t counts[EXG_MESH_DIMS_MAX];
    exg_error *err;
} placing;

/* The pattern that matches the name alone; in the module's arena. */
static const char *pattern_of(placing *p, const char *name)
{
    char *text = exg_arena_alloc(p->m->arena, 2 * strlen(name) + 1, 1);
    char *to = text;

    for (const char *c = name; text != NULL && *c != '\0'; c++) {
        if (strchr("*?[]\\", *c) != NULL) {
            *to++ = '\\';
        }
        *to++ = *c;
    }
    return text;
}

static exg_status place(placing *p, const char *name, exg_partition_subject of,
                        const exg_dtensor *t)
{
    const char *pattern = NULL;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        if (t->placements[d].kind == EXG_REPLICATE) {
            continue;
        }
        pattern = pattern == NULL ? pattern_of(p, name) : pattern;
        if (pattern == NULL) {
            return EXG_OUT_OF_MEMORY(p->err);
        }
        p->patterns[d][p->counts[d]++] =
            (exg_partition_pattern){pattern, t->placements[d], of, NULL};
    }
    return EXG_OK;
}

static exg_status place_weights(placing *p)
{
    const exg_signature *signature = &p->m->verified.program->signature;

    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];
        bool held = spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_BUFFER;
        const exg_dtensor *t = held ? exg_module_find(p->m, spec->target) : NULL;

        if (t != NULL) {
            EXG_TRY(place(p, spec->target, EXG_PARTITION_WEIGHTS, t));
        }
    }
    return EXG_OK;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A user's tensor of the export, without data. */
static exg_status describe(placing *p, const exg_symbols *symbols, uint32_t i,
                           exg_module_value *value, exg_tensor *tensor)
{
    const exg_program *program = p->m->verified.program;
    const exg_value_id id = program->graph->inputs[i].as_tensor;
    const exg_tensor_meta *meta = program->graph->values[id].tensor;

    *tensor = (exg_tensor){.dtype = meta->dtype, .rank = meta->rank};
    *value = (exg_module_value){.name = program->signature.inputs[i].arg.name, .tensor = tensor};
    if (meta->rank > EXG_RANK_MAX) {
        return EXG_FAIL(p->err, LIMIT, "DTN-009", "a tensor of %u dims", meta->rank);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        tensor->sizes[d] = meta->sizes[d].value;
        if (meta->sizes[d].expr != NULL) {
            EXG_TRY(exg_symint_evaluate(meta->sizes[d].expr, symbols, &tensor->sizes[d], p->err));
        }
    }
    exg_tensor_set_contiguous(tensor);
    return EXG_OK;
}

static exg_status ask(placing *p, exg_module_value *values, exg_tensor *tensors,
                      const exg_symbols *symbols)
{
    const exg_program *program = p->m->verified.program;
    const exg_module_entry *root = exg_module_called(p->m, "", 0);
    exg_status status = EXG_OK;
    uint32_t count = 0;

    for (uint32_t i = 0; status == EXG_OK && i < program->signature.input_count; i++) {
        if (program->signature.inputs[i].kind == EXG_INPUT_USER &&
            program->graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            status = describe(p, symbols, i, &values[count], &tensors[count]);
            count++;
        }
    }
    if (status == EXG_OK) {
        status = exg_module_call_hook(p->m, root, false, values, count, p->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (status == EXG_OK && values[i].dtensor != NULL) {
            status = place(p, values[i].name, EXG_PARTITION_INPUTS, values[i].dtensor);
        }
        exg_dtensor_destroy(values[i].dtensor);
    }
    return status;
}

static exg_status place_inputs(placing *p)
{
    uint32_t most = p->m->verified.program->signature.input_count + 1;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_module_value *values = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, exg_module_value, most);
    exg_tensor *tensors = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, exg_tensor, most);
    exg_symbols symbols;
    exg_status status = values == NULL || tensors == NULL ? EXG_OUT_OF_MEMORY(p->err) : EXG_OK;

    if (status == EXG_OK) {
        status = exg_bind_hints(p->m->verified.program, arena, &symbols, p->err);
    }
    if (status == EXG_OK) {
        status = ask(p, values, tensors, &symbols);
    }
    exg_arena_destroy(arena);
    return status;
}

/* ---- the session ----------------------------------------------------------------------------- */

exg_status exg_module_session(exg_module *m, const exg_session_options *given,
                              exg_session **session, exg_error *err)
{
    EXG_REQUIRE(err, m, session);
    const exg_module_entry *root = exg_module_called(m, "", 0);
    uint32_t most = m->verified.program->signature.input_count;
    placing p = {.m = m, .err = err};
    exg_partition_options places[EXG_MESH_DIMS_MAX] = {{0}};
    exg_session_options options = {0};

    *session = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_session_options, &options, given, err));
    if (root->mesh == NULL || options.mesh.ndim > 0 || options.partition != NULL) {
        return EXG_FAIL(err, USAGE, "DTN-017",
                        root->mesh == NULL
                            ? "a session of a module that is not distributed"
                            : "the module says how a session of it lies, not its options");
    }
    for (uint32_t d = 0; d < root->mesh->ndim; d++) {
        p.patterns[d] = EXG_NEW_ARRAY(m->arena, exg_partition_pattern, most);
        if (p.patterns[d] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    EXG_TRY(place_weights(&p));
    EXG_TRY(place_inputs(&p));
    options.size = sizeof(options);
    options.mesh.ndim = root->mesh->ndim;
    for (uint32_t d = 0; d < root->mesh->ndim; d++) {
        options.mesh.sizes[d] = root->mesh->sizes[d];
        places[d] = (exg_partition_options){
            sizeof(places[d]), p.counts[d] > 0 ? EXG_PARTITION_PATTERNS : EXG_PARTITION_REPLICATE,
            p.patterns[d], p.counts[d]};
    }
    options.partition = places;
    return exg_session_create(&m->verified, &options, session, err);
}
