/* graph_rules.c - values and graphs: every name stands for one thing, made before
 * it is used (VAL, GRF). Subgraphs have a name scope of their own. */
#include "libexport/base/checked.h"
#include "libexport/operators/bound_group.h"
#include "libexport/verify/lookup.h"
#include "libexport/verify/verifier.h"

#include "libexport/program/python.h"
#include "libexport/program/uses.h"

#include <exg/symint.h>
#include <string.h>

typedef struct scope {
    exg_verifier *v;
    const exg_graph *graph;
    const exg_graph *outer; /* NULL at the top */
    const exg_model_path *path;
    bool *defined;     /* so far, by value */
    bool *ever;        /* anywhere in the graph */
    exg_map subgraphs; /* by name: index into those seen */
    const exg_graph **seen;
    uint32_t seen_count, seen_capacity;
    bool device_told; /* that a device is of no type */
} scope;

static const char *name_of(const scope *s, exg_value_id id)
{
    return s->graph->values[id].name == NULL ? "" : s->graph->values[id].name;
}

/* ---- definitions ------------------------------------------------------------------ */

static void check_described(scope *s, exg_value_id id, exg_argument_kind kind,
                            const exg_model_path *path)
{
    const exg_value *value = &s->graph->values[id];
    bool described = kind == EXG_ARGUMENT_SYM_INT      ? value->sym_int != NULL
                     : kind == EXG_ARGUMENT_SYM_FLOAT  ? value->sym_float != NULL
                     : kind == EXG_ARGUMENT_SYM_BOOL   ? value->sym_bool != NULL
                     : kind == EXG_ARGUMENT_CUSTOM_OBJ ? true
                                                       : value->tensor != NULL;

    if (!described) {
        exg_found(s->v, "VAL-002", path, "'%s' is not described in its value table",
                  name_of(s, id));
    }
}

static void define(scope *s, exg_value_id id, exg_argument_kind kind, const exg_model_path *path)
{
    if (id == EXG_NO_VALUE) {
        return;
    }
    if (name_of(s, id)[0] == '\0') {
        exg_found(s->v, "VAL-006", path, "a value without a name");
    }
    if (s->defined[id]) {
        exg_found(s->v, "VAL-001", path, "'%s' is defined twice", name_of(s, id));
    }
    s->defined[id] = true;
    check_described(s, id, kind, path);
}

static void define_argument(scope *s, const exg_argument *arg, const exg_model_path *path)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
        define(s, arg->as_tensor, arg->kind, path);
        break;
    case EXG_ARGUMENT_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            define(s, arg->as_tensors[i], EXG_ARGUMENT_TENSOR, path);
        }
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        define(s, arg->as_sym.value, arg->kind, path);
        break;
    default:
        break;
    }
}

/* ---- uses ------------------------------------------------------------------------- */

static void tell_undefined(scope *s, exg_value_id id, exg_argument_kind kind,
                           const exg_model_path *path)
{
    const char *name = name_of(s, id);

    if (s->ever[id]) {
        exg_found(s->v, "VAL-005", path, "'%s' is used before it is defined", name);
    } else if (s->outer != NULL && exg_graph_find_value(s->outer, name) != EXG_NO_VALUE) {
        exg_found(s->v, "GRF-007", path, "'%s' is a value of the graph around this one", name);
    } else {
        exg_found(s->v, kind == EXG_ARGUMENT_TENSORS ? "VAL-011" : "VAL-004", path,
                  "'%s' is not defined", name);
    }
}

static void use(scope *s, exg_value_id id, exg_argument_kind kind, const exg_model_path *path)
{
    const exg_value *value;

    if (id == EXG_NO_VALUE) {
        return;
    }
    value = &s->graph->values[id];
    if (!s->defined[id]) {
        tell_undefined(s, id, kind, path);
        return;
    }
    if (value->tensor == NULL && value->sym_int == NULL && value->sym_float == NULL &&
        value->sym_bool == NULL) {
        return; /* VAL-002 at its definition */
    }
    /* a list of tensors may name sizes: operands of higher-order operators */
    if ((kind == EXG_ARGUMENT_TENSOR && value->tensor == NULL) ||
        (kind == EXG_ARGUMENT_SYM_INT && value->sym_int == NULL) ||
        (kind == EXG_ARGUMENT_SYM_FLOAT && value->sym_float == NULL) ||
        (kind == EXG_ARGUMENT_SYM_BOOL && value->sym_bool == NULL)) {
        exg_found(s->v, "VAL-010", path, "'%s' is not of the kind that %s says", name_of(s, id),
                  exg_argument_tag(kind));
    }
}

static void use_subgraph(scope *s, const exg_graph_argument *arg, const exg_model_path *path)
{
    const char *name = arg->name == NULL ? "" : arg->name;
    uint32_t earlier = exg_map_find(&s->subgraphs, name);

    if (name[0] == '\0' || strchr(name, '.') != NULL) {
        exg_found(s->v, "GRF-012", path, "a subgraph named '%s'", name);
    }
    if (earlier != EXG_MAP_NONE) {
        if (!exg_graph_equal(s->seen[earlier], arg->graph)) {
            exg_found(s->v, "GRF-008", path, "another subgraph is called '%s'", name);
        }
    } else if (!exg_arena_reserve(s->v->arena, &s->seen, s->seen_count, &s->seen_capacity,
                                  sizeof(*s->seen)) ||
               !exg_map_put(&s->subgraphs, name, s->seen_count)) {
        s->v->failed = true;
        return;
    } else {
        s->seen[s->seen_count++] = arg->graph;
    }
    exg_verify_graph(s->v, arg->graph, s->graph, EXG_AT(path, "as_graph.graph"));
}

/* c10::DeviceType; extensions rename privateuseone, mostly to "npu". */
static bool is_device_type(const char *type)
{
    static const char *const types[] = {
        "cpu", "cuda",   "mkldnn", "opengl", "opencl", "ideep", "hip",          "fpga",
        "ort", "maia",   "xla",    "mps",    "meta",   "hpu",   "ve",           "lazy",
        "ipu", "vulkan", "metal",  "xpu",    "mtia",   "npu",   "privateuseone"};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i], type) == 0) {
            return true;
        }
    }
    return false;
}

/* Where the value called `name` lies, or what an argument asks for (""). */
static void check_device(scope *s, const exg_device *device, const char *name,
                         const exg_model_path *path)
{
    if (s->v->tells_all && !s->device_told && device->type != NULL &&
        (!is_device_type(device->type) || device->index < -1)) {
        s->device_told = true; /* of one, where all are on it */
        exg_found(s->v, "VAL-013", path, "%s%s%sa device of type '%s'%s",
                  name[0] == '\0' ? "" : "'", name, name[0] == '\0' ? "" : "' is on ", device->type,
                  device->index < -1 ? " with an index below 0" : "");
    }
}

static void use_argument(scope *s, const exg_argument *arg, const exg_model_path *path)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_OPTIONAL_TENSOR:
        use(s, arg->as_tensor, EXG_ARGUMENT_TENSOR, path);
        break;
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            use(s, arg->as_tensors[i], EXG_ARGUMENT_TENSORS, path);
        }
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        use(s, arg->as_sym.value, arg->kind, path);
        break;
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        for (uint32_t i = 0; i < arg->count; i++) {
            use(s, arg->as_syms[i].value,
                arg->kind == EXG_ARGUMENT_SYM_INTS     ? EXG_ARGUMENT_SYM_INT
                : arg->kind == EXG_ARGUMENT_SYM_FLOATS ? EXG_ARGUMENT_SYM_FLOAT
                                                       : EXG_ARGUMENT_SYM_BOOL,
                path);
        }
        break;
    case EXG_ARGUMENT_NESTED_TENSORS:
        for (uint32_t i = 0; i < arg->count; i++) {
            for (uint32_t j = 0; j < arg->as_nested_tensors[i].count; j++) {
                use(s, arg->as_nested_tensors[i].items[j], EXG_ARGUMENT_TENSORS, path);
            }
        }
        break;
    case EXG_ARGUMENT_GRAPH:
        use_subgraph(s, arg->as_graph, path);
        break;
    case EXG_ARGUMENT_LAYOUT:
        if (arg->as_layout == EXG_LAYOUT_UNKNOWN) {
            exg_found(s->v, "VAL-014", path, "a layout that is none");
        }
        break;
    case EXG_ARGUMENT_DEVICE:
        check_device(s, &arg->as_device, "", path);
        break;
    default:
        break;
    }
}

/* ---- tables ------------------------------------------------------------------------- */

static bool is_negative(const exg_sym_int *number)
{
    return number->expr == NULL && number->value < 0;
}

static bool is_empty(const exg_tensor_meta *meta)
{
    bool empty = false;

    for (uint32_t d = 0; d < meta->rank; d++) {
        empty = empty || (meta->sizes[d].expr == NULL && meta->sizes[d].value == 0);
    }
    return empty;
}

/* The elements are less than 2^63, as far as sizes are numbers. */
static bool can_be_counted(const exg_tensor_meta *meta)
{
    int64_t numel = 1;

    for (uint32_t d = 0; d < meta->rank; d++) {
        if (meta->sizes[d].expr == NULL && !exg_mul_i64(numel, meta->sizes[d].value, &numel)) {
            return false;
        }
    }
    return true;
}

/* The offset with every stride gone its whole size is less than 2^63 likewise. */
static bool can_be_reached(const exg_tensor_meta *meta)
{
    int64_t reach = meta->storage_offset.expr == NULL ? meta->storage_offset.value : 0;

    for (uint32_t d = 0; d < meta->rank; d++) {
        int64_t span = 0;

        if (meta->sizes[d].expr == NULL && meta->strides[d].expr == NULL &&
            (!exg_mul_i64(meta->strides[d].value, meta->sizes[d].value, &span) ||
             !exg_add_i64(reach, span, &reach))) {
            return false;
        }
    }
    return true;
}

static void check_meta(scope *s, exg_value_id id, const exg_model_path *path)
{
    const exg_tensor_meta *meta = s->graph->values[id].tensor;
    bool negative = is_negative(&meta->storage_offset);

    for (uint32_t d = 0; d < meta->rank; d++) {
        negative = negative || is_negative(&meta->sizes[d]) || is_negative(&meta->strides[d]);
    }
    if (negative) {
        exg_found(s->v, "WGT-011", path, "'%s' has a negative size, stride or offset",
                  name_of(s, id));
    } else if (meta->requires_grad && exg_dtype_is_integral(meta->dtype)) {
        exg_found(s->v, "WGT-011", path, "'%s' of %s requires a gradient", name_of(s, id),
                  exg_dtype_name(meta->dtype));
    } else if (!is_empty(meta) && !can_be_counted(meta)) {
        exg_found(s->v, "SYM-010", path, "'%s' has more elements than 2^63", name_of(s, id));
    } else if (!is_empty(meta) && !can_be_reached(meta)) {
        exg_found(s->v, "SYM-010", path, "'%s' has strides that reach past 2^63 elements",
                  name_of(s, id));
    }
    if (meta->layout == EXG_LAYOUT_UNKNOWN && s->v->tells_all) {
        exg_found(s->v, "VAL-014", path, "'%s' has a layout that is none", name_of(s, id));
    }
    check_device(s, &meta->device, name_of(s, id), path);
}

static void check_tables(scope *s)
{
    exg_map names;

    exg_map_init(&names, s->v->arena);
    if (!exg_map_reserve(&names, s->graph->value_count)) {
        s->v->failed = true;
        return;
    }
    for (uint32_t id = 0; id < s->graph->value_count; id++) {
        const exg_value *value = &s->graph->values[id];
        int tables = (value->tensor != NULL) + (value->sym_int != NULL) +
                     (value->sym_float != NULL) + (value->sym_bool != NULL);
        const exg_model_path *path = EXG_AT_KEY(s->path, "values", name_of(s, id));

        if (tables > 1) {
            exg_found(s->v, "VAL-003", path, "'%s' is in %d value tables", name_of(s, id), tables);
        }
        if (value->tensor != NULL) {
            check_meta(s, id, path);
        }
        if (tables > 0 && !s->ever[id]) {
            exg_found(s->v, "VAL-007", path, "'%s' is described and never defined", name_of(s, id));
        }
        if (value->name == NULL) {
            continue;
        }
        if (!exg_is_identifier(value->name)) {
            exg_found(s->v, "VAL-008", path, "'%s' is no identifier", value->name);
        }
        if (exg_map_find(&names, value->name) != EXG_MAP_NONE) {
            exg_found(s->v, "VAL-001", path, "two values are called '%s'", value->name);
        } else if (!exg_map_put(&names, value->name, id)) {
            s->v->failed = true;
        }
    }
}

/* Marks a value in an array of flags. */
static void mark(void *user, exg_value_id *id)
{
    bool *marks = user;

    if (*id != EXG_NO_VALUE) {
        marks[*id] = true;
    }
}

/* ---- graph inputs and outputs -------------------------------------------------------- */

static void check_input(scope *s, uint32_t i)
{
    const exg_argument *input = &s->graph->inputs[i];
    const exg_model_path *path = EXG_AT_INDEX(s->path, "inputs", i);

    switch (input->kind) {
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        exg_found(s->v, "GRF-002", path, "%s as a graph input", exg_argument_tag(input->kind));
        return;
    case EXG_ARGUMENT_SYM_INT:
        if (input->as_sym.value == EXG_NO_VALUE) {
            exg_found(s->v, "GRF-001", path, "a size without a name as a graph input");
        }
        break;
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_CUSTOM_OBJ:
        break;
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_STRING:
        if (s->outer != NULL) {
            exg_found(s->v, "GRF-009", path, "%s as an input of a subgraph",
                      exg_argument_tag(input->kind));
        }
        break;
    default:
        exg_found(s->v, "GRF-001", path, "%s as a graph input", exg_argument_tag(input->kind));
        return;
    }
    define_argument(s, input, path);
}

static void check_output(scope *s, uint32_t i)
{
    const exg_argument *output = &s->graph->outputs[i];
    const exg_model_path *path = EXG_AT_INDEX(s->path, "outputs", i);

    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_BOOL:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_NONE:
        use_argument(s, output, path);
        return;
    case EXG_ARGUMENT_STRING:
        if (s->outer == NULL) {
            return;
        }
        /* fallthrough */
    default:
        exg_found(s->v, "GRF-003", path, "%s as a graph output", exg_argument_tag(output->kind));
    }
}

static void check_nodes(scope *s)
{
    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        const exg_node *node = &s->graph->nodes[n];
        const exg_model_path path = {.within = s->path, .part = "nodes", .index = n, .node = node};

        for (uint32_t i = 0; i < node->input_count; i++) {
            use_argument(s, &node->inputs[i].arg, EXG_AT(EXG_AT_INDEX(&path, "inputs", i), "arg"));
        }
        for (uint32_t o = 0; o < node->output_count; o++) {
            define_argument(s, &node->outputs[o], EXG_AT_INDEX(&path, "outputs", o));
        }
    }
}

void exg_verify_graph(exg_verifier *v, const exg_graph *graph, const exg_graph *outer,
                      const exg_model_path *path)
{
    scope s = {.v = v, .graph = graph, .outer = outer, .path = path};

    s.defined = EXG_NEW_ARRAY(v->arena, bool, graph->value_count);
    s.ever = EXG_NEW_ARRAY(v->arena, bool, graph->value_count);
    exg_map_init(&s.subgraphs, v->arena);
    if (s.defined == NULL || s.ever == NULL) {
        v->failed = true;
        return;
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_argument_visit_values(&graph->inputs[i], mark, s.ever);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            exg_argument_visit_values(&graph->nodes[n].outputs[o], mark, s.ever);
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        check_input(&s, i);
    }
    check_nodes(&s);
    for (uint32_t i = 0; i < graph->output_count; i++) {
        check_output(&s, i);
    }
    check_tables(&s);
    if (outer == NULL) {
        v->defined = s.ever;
    }
    if (graph->is_single_tensor_return && outer == NULL) {
        exg_found(v, "GRF-005", path, "the top graph returns a bare tensor");
    } else if (graph->is_single_tensor_return && graph->output_count != 1) {
        exg_found(v, "GRF-004", path, "a bare tensor is returned by %u outputs",
                  graph->output_count);
    }
}

/* ---- uses that never come ---------------------------------------------------------------- */

typedef struct use_search {
    const uint32_t *uses;
    bool found;
} use_search;

static void find_used(void *user, exg_value_id *id)
{
    use_search *search = user;

    search->found = search->found || (*id != EXG_NO_VALUE && search->uses[*id] > 0);
}

/* A node whose results nobody takes, and that does nothing else. */
static void check_node_used(exg_verifier *v, exg_node *node, const uint32_t *uses,
                            const exg_model_path *path)
{
    use_search search = {uses, false};
    const exg_target *target;

    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], find_used, &search);
    }
    if (search.found || node->output_count == 0) {
        return;
    }
    target = exg_verifier_target(v, node->target);
    if (target != NULL && target->op != NULL && !target->op->schema->is_mutable &&
        !exg_operator_meets_ranks(target->op)) {
        exg_found(v, "VAL-012", path, "nothing uses what '%s' computes",
                  node->name == NULL ? node->target : node->name);
    }
}

/* Which parameters have their bytes alone, by FQN: PyTorch lists a tied one once for each name,
 * and uses one of them. false: out of memory. */
static bool list_untied(exg_verifier *v, exg_map *untied)
{
    const exg_weights *weights = v->program->weights;
    uint32_t *users = EXG_NEW_ARRAY(v->arena, uint32_t, weights->storage_count);
    bool fine = users != NULL;

    exg_map_init(untied, v->arena);
    for (uint32_t i = 0; fine && i < weights->count; i++) {
        if (weights->items[i].storage < weights->storage_count) { /* else WGT-005 */
            users[weights->items[i].storage]++;
        }
    }
    for (uint32_t i = 0; fine && i < weights->count; i++) {
        const uint32_t storage = weights->items[i].storage;

        if (storage < weights->storage_count && users[storage] == 1) {
            fine = exg_map_put(untied, weights->items[i].fqn, i);
        }
    }
    return fine;
}

/* A parameter that the graph takes and leaves: it is loaded for nothing, or a use was lost. */
static void check_parameters_used(exg_verifier *v, const uint32_t *uses)
{
    const exg_program *program = v->program;
    const exg_signature *s = &program->signature;
    exg_map untied;

    if (!list_untied(v, &untied)) {
        v->failed = true;
        return;
    }
    for (uint32_t i = 0; i < s->input_count && i < program->graph->input_count; i++) {
        if (s->inputs[i].kind == EXG_INPUT_PARAMETER &&
            program->graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
            uses[program->graph->inputs[i].as_tensor] == 0 &&
            exg_map_find(&untied, s->inputs[i].target) != EXG_MAP_NONE) {
            exg_found(v, "SIG-027", EXG_AT_INDEX(EXG_AT(NULL, "signature"), "input_specs", i),
                      "nothing uses the parameter '%s'", s->inputs[i].target);
        }
    }
}

void exg_verify_uses(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    const uint32_t *uses = exg_graph_count_uses(v->arena, graph);

    if (uses == NULL) {
        v->failed = true;
        return;
    }
    if (graph == v->program->graph) {
        check_parameters_used(v, uses);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_model_path here = {
            .within = path, .part = "nodes", .index = n, .node = &graph->nodes[n]};

        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_argument *arg = &graph->nodes[n].inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                exg_verify_uses(v, arg->as_graph->graph,
                                EXG_AT(EXG_AT_INDEX(&here, "inputs", i), "arg.as_graph.graph"));
            }
        }
        check_node_used(v, &graph->nodes[n], uses, &here);
    }
}
