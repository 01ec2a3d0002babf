/* inspection.c - operators by use, modules by weight, memory of activations. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/formats/encoding.h"
#include "libexport/weights/storage.h"

#include <exg/inspection.h>
#include <exg/module.h>
#include <exg/text.h>
#include <exg/weights.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct inspecting {
    const exg_program *program; /* NULL: of weights alone */
    const exg_weights *weights;
    const exg_operators *operators;
    exg_arena *arena;
    exg_inspection *made;
    uint32_t dtype_capacity;
} inspecting;

static int by_count(const void *a, const void *b)
{
    const exg_operator_count *x = a;
    const exg_operator_count *y = b;

    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->target, y->target);
}

static bool count_operators(inspecting *i)
{
    const exg_graph *graph = i->program->graph;
    exg_map map;

    exg_map_init(&map, i->arena);
    i->made->operators = EXG_NEW_ARRAY(i->arena, exg_operator_count, graph->node_count);
    for (uint32_t n = 0; i->made->operators != NULL && n < graph->node_count; n++) {
        const char *target = graph->nodes[n].target;
        uint32_t at = exg_map_find(&map, target);

        if (at == EXG_MAP_NONE) {
            at = i->made->operator_count++;
            i->made->operators[at] =
                (exg_operator_count){target, 0, exg_operators_find(i->operators, target) != NULL};
            if (!exg_map_put(&map, target, at)) {
                return false;
            }
        }
        i->made->operators[at].count++;
    }
    if (i->made->operator_count > 0) {
        qsort(i->made->operators, i->made->operator_count, sizeof(*i->made->operators), by_count);
    }
    return i->made->operators != NULL;
}

/* ---- modules --------------------------------------------------------------------------- */

static uint64_t numel_of(const exg_weight *weight)
{
    int64_t numel = 0;

    if (weight->meta == NULL || !exg_tensor_meta_numel(weight->meta, &numel)) {
        return 0;
    }
    return exg_encoded_elements(weight->encoding, (uint64_t)numel);
}

static uint64_t bytes_of(const exg_weight *weight)
{
    int64_t numel = 0;

    return weight->meta != NULL && exg_tensor_meta_numel(weight->meta, &numel)
               ? (uint64_t)numel * exg_dtype_bytes(weight->meta->dtype)
               : 0;
}

/* What torch.nn.Module says of it: buffers that are not persistent are among the constants. */
static bool note_buffers(const exg_signature *signature, exg_map *buffers)
{
    for (uint32_t i = 0; i < signature->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];

        if (spec->kind == EXG_INPUT_BUFFER && spec->target != NULL &&
            exg_map_find(buffers, spec->target) == EXG_MAP_NONE &&
            !exg_map_put(buffers, spec->target, i)) {
            return false;
        }
    }
    return true;
}

/* Of a weight without a signature. */
static exg_weight_kind kind_alone(const exg_weight *weight)
{
    bool is_number = weight->meta != NULL &&
                     (weight->encoding != NULL || exg_dtype_is_float(weight->meta->dtype) ||
                      exg_dtype_is_complex(weight->meta->dtype));

    return weight->is_param || is_number ? EXG_WEIGHT_PARAMETER : EXG_WEIGHT_BUFFER;
}

static bool find_kinds(inspecting *i)
{
    const exg_weights *weights = i->weights;
    exg_map buffers;

    exg_map_init(&buffers, i->arena);
    i->made->kinds = EXG_NEW_ARRAY(i->arena, exg_weight_kind, weights->count);
    if (i->made->kinds == NULL) {
        return false;
    }
    if (i->program == NULL) {
        for (uint32_t w = 0; w < weights->count; w++) {
            i->made->kinds[w] = kind_alone(&weights->items[w]);
        }
        return true;
    }
    if (!note_buffers(&i->program->signature, &buffers)) {
        return false;
    }
    for (uint32_t w = 0; w < weights->count; w++) {
        const exg_weight *weight = &weights->items[w];

        i->made->kinds[w] = weight->table == EXG_TABLE_STATE && weight->is_param
                                ? EXG_WEIGHT_PARAMETER
                            : weight->table == EXG_TABLE_STATE ||
                                    exg_map_find(&buffers, weight->fqn) != EXG_MAP_NONE
                                ? EXG_WEIGHT_BUFFER
                                : EXG_WEIGHT_CONSTANT;
    }
    return true;
}

/* The first weight that is the same tensor as weight `w`: the same view of the same storage,
 * as tied ones are (and equal ones in a file where those are stored once). EXG_MAP_NONE: no
 * memory. */
static uint32_t first_of(inspecting *i, exg_map *tensors, uint32_t w)
{
    const exg_weight *weight = &i->weights->items[w];
    const char *view;
    const char *kept;
    uint32_t first;

    if (weight->meta == NULL) {
        return w;
    }
    view = exg_weight_view_key(weight, i->arena);
    kept = view == NULL ? NULL : exg_arena_printf(i->arena, "%d %s", (int)i->made->kinds[w], view);
    first = kept == NULL ? EXG_MAP_NONE : exg_map_find(tensors, kept);
    return kept == NULL || first != EXG_MAP_NONE ? first
           : exg_map_put(tensors, kept, w)       ? w
                                                 : EXG_MAP_NONE;
}

/* The index of the module `path[0..length)` under `parent`, made when new. */
static uint32_t module_at(inspecting *i, exg_map *map, const char *path, size_t length,
                          uint32_t parent)
{
    char *key = exg_arena_strndup(i->arena, path, length);
    uint32_t at = key == NULL ? EXG_MAP_NONE : exg_map_find(map, key);

    if (key == NULL || at != EXG_MAP_NONE) {
        return at;
    }
    at = i->made->module_count;
    if (!exg_map_put(map, key, at)) {
        return EXG_MAP_NONE;
    }
    i->made->modules[i->made->module_count++] = (exg_module_summary){
        .path = key,
        .type = "",
        .parent = parent,
        .depth = parent == UINT32_MAX ? 0 : i->made->modules[parent].depth + 1};
    if (parent != UINT32_MAX) {
        exg_module_summary *within = &i->made->modules[parent];

        *(within->first == 0 ? &within->first : &i->made->modules[within->last].next) = at;
        within->last = at;
    }
    return at;
}

typedef struct counting {
    inspecting *i;
    exg_map modules;  /* by path */
    exg_map counted;  /* "<module> <first weight>" of tensors with several names */
    uint32_t *first;  /* by weight: the first that is the same tensor */
    bool *is_several; /* by first weight: others are the same tensor */
} counting;

static bool find_tensors(counting *c)
{
    uint32_t count = c->i->weights->count;
    exg_map tensors;

    exg_map_init(&tensors, c->i->arena);
    c->first = EXG_NEW_ARRAY(c->i->arena, uint32_t, count);
    c->is_several = EXG_NEW_ARRAY(c->i->arena, bool, count);
    for (uint32_t w = 0; c->first != NULL && c->is_several != NULL && w < count; w++) {
        c->first[w] = first_of(c->i, &tensors, w);
        if (c->first[w] == EXG_MAP_NONE) {
            return false;
        }
        c->is_several[c->first[w]] = c->first[w] != w || c->is_several[c->first[w]];
    }
    return c->first != NULL && c->is_several != NULL;
}

/* Is the tensor counted in module `at` under another name already? */
static bool is_counted(counting *c, uint32_t at, uint32_t first, bool *failed)
{
    char *key = c->is_several[first] ? exg_arena_printf(c->i->arena, "%u %u", at, first) : NULL;
    bool found = key != NULL && exg_map_find(&c->counted, key) != EXG_MAP_NONE;

    if (c->is_several[first] && !found) {
        *failed = key == NULL || !exg_map_put(&c->counted, key, at);
    }
    return found;
}

/* Counts it in its module and those around. A module counts a tensor once, whatever the number
 * of its names there, as torch.nn.Module.parameters() and buffers() give it. */
static bool add_weight(counting *c, uint32_t w)
{
    const inspecting *i = c->i;
    const exg_weight *weight = &i->weights->items[w];
    uint64_t numel = numel_of(weight);
    uint64_t bytes = bytes_of(weight);
    uint32_t at = 0;
    bool failed = false;

    for (const char *dot = weight->fqn; at != EXG_MAP_NONE; dot++) {
        exg_module_summary *m = &i->made->modules[at];

        if (!is_counted(c, at, c->first[w], &failed)) {
            m->parameters += i->made->kinds[w] == EXG_WEIGHT_PARAMETER ? numel : 0;
            m->buffers += i->made->kinds[w] == EXG_WEIGHT_BUFFER ? numel : 0;
            m->bytes += bytes;
        }
        dot = strchr(dot, '.');
        if (failed || dot == NULL || m->depth == EXG_MODULE_DEPTH_MAX) {
            return !failed;
        }
        at = module_at(c->i, &c->modules, weight->fqn, (size_t)(dot - weight->fqn), at);
    }
    return false;
}

static bool name_types(inspecting *i, const exg_map *map)
{
    static const exg_graph none;
    const exg_graph *graph = i->program == NULL ? &none : i->program->graph;
    char path[512];

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const char *stack = exg_node_metadata(&graph->nodes[n], "nn_module_stack");
        exg_module_frame frame;

        while (exg_module_stack_next(&stack, &frame)) {
            uint32_t at;

            if (frame.path_length >= sizeof(path)) {
                continue;
            }
            memcpy(path, frame.path, frame.path_length);
            path[frame.path_length] = '\0';
            at = exg_map_find(map, path);
            if (at != EXG_MAP_NONE && i->made->modules[at].type[0] == '\0') {
                i->made->modules[at].type =
                    exg_arena_strndup(i->arena, frame.type, frame.type_length);
                if (i->made->modules[at].type == NULL) {
                    return false;
                }
            }
        }
    }
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    const exg_dtype_summary *x = a;
    const exg_dtype_summary *y = b;

    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->name, y->name);
}

static bool count_dtypes(const counting *c)
{
    exg_inspection *made = c->i->made;
    const exg_weights *weights = c->i->weights;
    exg_map names;

    exg_map_init(&names, c->i->arena);
    for (uint32_t w = 0; w < weights->count; w++) {
        const exg_weight *weight = &weights->items[w];
        const char *name = weight->meta == NULL       ? "object"
                           : weight->encoding != NULL ? weight->encoding
                                                      : exg_dtype_short_name(weight->meta->dtype);
        uint32_t at = exg_map_find(&names, name);

        if (c->first[w] != w) {
            continue;
        }
        if (at == EXG_MAP_NONE) {
            if (!exg_arena_reserve(c->i->arena, &made->dtypes, made->dtype_count,
                                   &c->i->dtype_capacity, sizeof(*made->dtypes)) ||
                !exg_map_put(&names, name, made->dtype_count)) {
                return false;
            }
            at = made->dtype_count++;
            made->dtypes[at] = (exg_dtype_summary){.name = name};
        }
        made->dtypes[at].tensors++;
        made->dtypes[at].elements += numel_of(weight);
        made->dtypes[at].bytes += bytes_of(weight);
    }
    if (made->dtype_count > 0) {
        qsort(made->dtypes, made->dtype_count, sizeof(*made->dtypes), by_bytes);
    }
    return true;
}

static bool count_modules(inspecting *i)
{
    const exg_weights *weights = i->weights;
    uint64_t most = 1;
    counting c = {.i = i};

    for (uint32_t w = 0; w < weights->count; w++) {
        for (const char *at = weights->items[w].fqn; *at != '\0'; at++) {
            most += *at == '.';
        }
    }
    exg_map_init(&c.modules, i->arena);
    exg_map_init(&c.counted, i->arena);
    i->made->modules = EXG_NEW_ARRAY(i->arena, exg_module_summary, most);
    if (i->made->modules == NULL || !find_tensors(&c) ||
        module_at(i, &c.modules, "", 0, UINT32_MAX) == EXG_MAP_NONE) {
        return false;
    }
    for (uint32_t w = 0; w < weights->count; w++) {
        if (!add_weight(&c, w)) {
            return false;
        }
    }
    return count_dtypes(&c) && name_types(i, &c.modules);
}

/* ---- activations ------------------------------------------------------------------------ */

typedef struct liveness {
    const exg_graph *graph;
    exg_value_id *roots; /* whose memory a value is in */
    uint32_t *last;      /* by root: last node that reads it */
    uint64_t *bytes;     /* by root, of node results */
    uint32_t node;
    bool known;
} liveness;

static void read_value(void *user, exg_value_id *id)
{
    liveness *l = user;

    if (*id != EXG_NO_VALUE) {
        l->last[l->roots[*id]] = l->node;
    }
}

static void make_value(void *user, exg_value_id *id)
{
    liveness *l = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : l->graph->values[*id].tensor;
    uint64_t bytes = meta == NULL ? 0 : exg_dtype_bytes(meta->dtype);

    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        const exg_sym_int *size = &meta->sizes[d];

        l->known = l->known && (size->expr == NULL || size->has_hint) && size->value >= 0 &&
                   !__builtin_mul_overflow(bytes, (uint64_t)size->value, &bytes);
    }
    if (meta != NULL) {
        l->bytes[*id] = bytes;
        l->last[*id] = l->node;
    }
}

/* Views and in-place operators give what is in their first argument. */
static void share(liveness *l, const exg_operators *operators, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(operators, node->target);
    bool shares = op != NULL && (op->view != NULL || op->functional != EXG_OP_NONE) &&
                  node->input_count > 0 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR;

    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        if (shares && copy.kind == EXG_ARGUMENT_TENSOR) {
            l->roots[copy.as_tensor] = l->roots[node->inputs[0].arg.as_tensor];
        } else {
            exg_argument_visit_values(&copy, make_value, l);
        }
    }
}

static exg_status count_activations(inspecting *i, exg_error *err)
{
    const exg_graph *graph = i->program->graph;
    exg_arena *arena = i->arena;
    uint64_t *bytes = &i->made->activation_bytes;
    liveness l = {.graph = graph, .known = true};
    uint64_t *freed = EXG_NEW_ARRAY(arena, uint64_t, (size_t)graph->node_count + 1);
    uint64_t *alive = EXG_NEW_ARRAY(arena, uint64_t, (size_t)graph->node_count + 1);
    uint64_t live = 0;

    l.roots = EXG_NEW_ARRAY(arena, exg_value_id, graph->value_count);
    l.last = EXG_NEW_ARRAY(arena, uint32_t, graph->value_count);
    l.bytes = EXG_NEW_ARRAY(arena, uint64_t, graph->value_count);
    if (freed == NULL || alive == NULL || l.roots == NULL || l.last == NULL || l.bytes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        l.roots[v] = v;
    }
    for (l.node = 0; l.node < graph->node_count; l.node++) {
        const exg_node *node = &graph->nodes[l.node];

        for (uint32_t a = 0; a < node->input_count; a++) {
            exg_argument copy = node->inputs[a].arg;

            exg_argument_visit_values(&copy, read_value, &l);
        }
        share(&l, i->operators, node);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument copy = graph->outputs[o];

        exg_argument_visit_values(&copy, read_value, &l);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        freed[l.last[v]] += l.bytes[v];
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            const exg_argument *out = &graph->nodes[n].outputs[o];

            for (uint32_t k = 0; out->kind == EXG_ARGUMENT_TENSORS && k < out->count; k++) {
                live += out->as_tensors[k] == EXG_NO_VALUE ? 0 : l.bytes[out->as_tensors[k]];
            }
            live += out->kind == EXG_ARGUMENT_TENSOR ? l.bytes[out->as_tensor] : 0;
        }
        *bytes = live > *bytes ? live : *bytes;
        alive[n] = live;
        live -= freed[n];
    }
    i->made->activations_known = l.known;
    i->made->alive_bytes = alive;
    return EXG_OK;
}

/* The storages that weights are in, not those of sample inputs and extra files. Weights of
 * one storage need not stand together. */
static bool count_storages(inspecting *i)
{
    const exg_weights *weights = i->weights;
    bool *seen = EXG_NEW_ARRAY(i->arena, bool, weights->storage_count);

    for (uint32_t w = 0; seen != NULL && w < weights->count; w++) {
        uint32_t storage = weights->items[w].storage;

        if (!seen[storage]) {
            seen[storage] = true;
            i->made->storage_bytes += weights->storages[storage].length;
            i->made->storage_count++;
        }
    }
    return seen != NULL;
}

static exg_status inspect_all(inspecting *i, exg_error *err)
{
    if (i->program != NULL) {
        EXG_TRY(count_activations(i, err));
        if (!count_operators(i)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return count_storages(i) && find_kinds(i) && count_modules(i) ? EXG_OK : EXG_OUT_OF_MEMORY(err);
}

static exg_status inspect(inspecting *i, exg_inspection **inspection, exg_error *err)
{
    exg_status status;

    *inspection = NULL;
    i->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    i->made = i->arena == NULL ? NULL : EXG_NEW(i->arena, exg_inspection);
    if (i->made == NULL) {
        exg_arena_destroy(i->arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    i->made->size = sizeof(*i->made);
    i->made->arena = i->arena;
    status = inspect_all(i, err);
    if (status != EXG_OK) {
        exg_arena_destroy(i->arena);
        return status;
    }
    *inspection = i->made;
    return EXG_OK;
}

exg_status exg_program_inspect(const exg_program *program, const exg_operators *operators,
                               exg_inspection **inspection, exg_error *err)
{
    EXG_REQUIRE(err, program, operators, inspection);
    inspecting i = {.program = program, .weights = program->weights, .operators = operators};

    return inspect(&i, inspection, err);
}

exg_status exg_weights_inspect(exg_weights *weights, exg_inspection **inspection, exg_error *err)
{
    EXG_REQUIRE(err, weights, inspection);
    inspecting i = {.weights = weights};

    return inspect(&i, inspection, err);
}

void exg_inspection_free(exg_inspection *inspection)
{
    if (inspection != NULL) {
        exg_arena_destroy(inspection->arena);
    }
}
