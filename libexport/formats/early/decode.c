/* decode.c - a GraphModule of the early schema, and its lifting into a program. */
#include "libexport/formats/early/early.h"

#include <stdlib.h>
#include <string.h>

/* ---- nodes ---------------------------------------------------------------------------------- */

/* A node on its way: args and kwargs become one list. */
typedef struct half_node {
    exg_node node;
    exg_named_argument *args, *kwargs;
    uint32_t arg_count, kwarg_count;
    exg_string_pair trace, stack; /* of the metadata */
    exg_string_map extra;
} half_node;

static exg_status item_positional(exg_decoder *d, exg_json value, void *item)
{
    exg_named_argument *named = item;

    named->name = "";
    named->kind = EXG_KIND_POSITIONAL;
    return exg_early_argument(d, value, &named->arg);
}

static exg_status member_keyword(exg_decoder *d, const char *key, uint32_t key_length,
                                 exg_json value, void *item)
{
    exg_named_argument *named = item;

    named->kind = EXG_KIND_KEYWORD;
    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &named->name));
    return exg_early_argument(d, value, &named->arg);
}

static exg_status field_metadata(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_node, trace.value, "stack_trace", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(half_node, stack.value, "nn_module_stack", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_MODEL(half_node, extra, "extra", EXG_FIELD_REQUIRED, STRING_MAP, ONE),
    };

    (void)field;
    return exg_decode_struct(d, value, base, fields, EXG_FIELD_COUNT(fields));
}

/* One map for the three; a key of `extra` that means something is set apart (S002-82). */
static exg_status join_metadata(exg_decoder *d, half_node *half)
{
    exg_string_map *map = &half->node.metadata;

    map->items = EXG_NEW_ARRAY(d->arena, exg_string_pair, half->extra.count + 2);
    if (map->items == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    map->items[0] = (exg_string_pair){"stack_trace", half->trace.value};
    map->items[1] = (exg_string_pair){"nn_module_stack", half->stack.value};
    map->count = 2;
    for (uint32_t i = 0; i < half->extra.count; i++) {
        exg_string_pair pair = half->extra.items[i];

        if (strcmp(pair.key, "stack_trace") == 0 || strcmp(pair.key, "nn_module_stack") == 0) {
            pair.key = exg_arena_printf(d->arena, EXG_EARLY_EXTRA "%s", pair.key);
            if (pair.key == NULL) {
                return exg_decoder_out_of_memory(d);
            }
        }
        map->items[map->count++] = pair;
    }
    return EXG_OK;
}

/* "aten.add.Tensor" is "torch.ops.aten.add.Tensor", "higher_order.cond" has no overload; what
 * else has fewer points is no operator of a namespace ("_operator.mul"). */
static exg_status field_target(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_node *half = base;
    const char *text = NULL;
    const char *point;

    (void)field;
    EXG_TRY(exg_decoder_text(d, value, &text));
    point = strchr(text, '.');
    if (strncmp(text, "torch.", 6) != 0 && point != NULL &&
        (strchr(point + 1, '.') != NULL || strncmp(text, "higher_order.", 13) == 0)) {
        text = exg_arena_printf(d->arena, "torch.ops.%s", text);
    }
    half->node.target = text;
    return text == NULL ? exg_decoder_out_of_memory(d) : EXG_OK;
}

static exg_status item_node(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD_OF("target", EXG_FIELD_REQUIRED, field_target),
        EXG_FIELD_LIST(half_node, args, arg_count, "args", EXG_FIELD_REQUIRED, item_positional),
        EXG_FIELD_MAP(half_node, kwargs, kwarg_count, "kwargs", EXG_FIELD_REQUIRED, member_keyword),
        EXG_FIELD_LIST(half_node, node.outputs, node.output_count, "outputs", EXG_FIELD_REQUIRED,
                       exg_early_return),
        EXG_FIELD_OF("metadata", EXG_FIELD_REQUIRED, field_metadata),
    };
    exg_node *node = item;
    half_node half = {.node = {.is_hop_single_tensor_return = EXG_UNSET}};

    EXG_TRY(exg_decode_struct(d, value, &half, fields, EXG_FIELD_COUNT(fields)));
    EXG_TRY(join_metadata(d, &half));
    half.node.input_count = half.arg_count + half.kwarg_count;
    half.node.inputs = EXG_NEW_ARRAY(d->arena, exg_named_argument, half.node.input_count);
    if (half.node.inputs == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    memcpy(half.node.inputs, half.args, half.arg_count * sizeof(*half.args));
    memcpy(half.node.inputs + half.arg_count, half.kwargs, half.kwarg_count * sizeof(*half.args));
    *node = half.node;
    return EXG_OK;
}

/* ---- graph ---------------------------------------------------------------------------------- */

/* TensorValue and SymIntValue on their way. */
typedef struct half_value {
    const char *name;
    exg_tensor_meta *meta;
    exg_sym_int *value;
} half_value;

static exg_status field_meta(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_value *half = base;

    (void)field;
    half->meta = EXG_NEW(d->arena, exg_tensor_meta);
    return half->meta == NULL ? exg_decoder_out_of_memory(d)
                              : exg_decode_thing(d, value, EXG_MODEL_TENSOR_META, half->meta);
}

static exg_status field_sym(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_value *half = base;

    (void)field;
    half->value = EXG_NEW(d->arena, exg_sym_int);
    return half->value == NULL ? exg_decoder_out_of_memory(d)
                               : exg_early_sym_int(d, value, half->value);
}

static exg_status enter_value(exg_decoder *d, exg_json value, const half_value *half)
{
    exg_value_id id = EXG_NO_VALUE;
    exg_value *known;

    EXG_TRY(exg_decoder_value(d, value, half->name, (uint32_t)strlen(half->name), &id));
    known = exg_decoder_value_at(d, id);
    if ((half->meta != NULL && known->tensor != NULL) ||
        (half->value != NULL && known->sym_int != NULL)) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-001",
                              "the value '%s' stands twice in one table", half->name);
    }
    known->tensor = half->meta != NULL ? half->meta : known->tensor;
    known->sym_int = half->value != NULL ? half->value : known->sym_int;
    return EXG_OK;
}

static exg_status item_tensor_value(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_value, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_OF("meta", EXG_FIELD_REQUIRED, field_meta),
    };
    half_value *half = item;

    EXG_TRY(exg_decode_struct(d, value, half, fields, EXG_FIELD_COUNT(fields)));
    return enter_value(d, value, half);
}

static exg_status item_sym_value(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_value, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_OF("value", EXG_FIELD_REQUIRED, field_sym),
    };
    half_value *half = item;

    EXG_TRY(exg_decode_struct(d, value, half, fields, EXG_FIELD_COUNT(fields)));
    return enter_value(d, value, half);
}

static exg_status field_tensor_values(exg_decoder *d, exg_json value, void *base,
                                      const exg_field *field)
{
    half_value *values;
    uint32_t count;

    (void)base;
    (void)field;
    return exg_decode_array(d, value, sizeof(half_value), item_tensor_value, &values, &count);
}

static exg_status field_sym_values(exg_decoder *d, exg_json value, void *base,
                                   const exg_field *field)
{
    half_value *values;
    uint32_t count;

    (void)base;
    (void)field;
    return exg_decode_array(d, value, sizeof(half_value), item_sym_value, &values, &count);
}

static exg_status decode_graph(exg_decoder *d, exg_json value, exg_graph *graph)
{
    static const exg_field fields[] = {
        EXG_FIELD_LIST(exg_graph, inputs, input_count, "inputs", EXG_FIELD_REQUIRED,
                       exg_early_tensor_name),
        EXG_FIELD_LIST(exg_graph, outputs, output_count, "outputs", EXG_FIELD_REQUIRED,
                       exg_early_tensor_name),
        EXG_FIELD_LIST(exg_graph, nodes, node_count, "nodes", EXG_FIELD_REQUIRED, item_node),
        EXG_FIELD_OF("tensor_values", EXG_FIELD_REQUIRED, field_tensor_values),
        EXG_FIELD_OF("symint_values", EXG_FIELD_REQUIRED, field_sym_values),
    };

    return exg_decode_struct(d, value, graph, fields, EXG_FIELD_COUNT(fields));
}

/* ---- graph module --------------------------------------------------------------------------- */

typedef struct half_module {
    const char *name;
    exg_graph *graph;
    exg_string_map metadata;
    exg_early_bound *parameters, *buffers;
    uint32_t parameter_count, buffer_count;
    exg_early_bound *own; /* both, and what was lifted out of branches */
    uint32_t own_count;
} half_module;

static exg_status field_graph(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    half_module *half = base;

    (void)field;
    return decode_graph(d, value, half->graph);
}

static exg_status member_bound(exg_decoder *d, const char *key, uint32_t key_length, exg_json value,
                               void *item)
{
    exg_early_bound *b = item;
    exg_json meta;

    b->tensor = value;
    EXG_TRY(exg_decoder_keep(d, value, key, key_length, &b->name));
    if (!exg_json_find(value, "meta", &meta)) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "JSN-002", "key 'meta' is missing");
    }
    b->meta = EXG_NEW(d->arena, exg_tensor_meta);
    if (b->meta == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY_IN(d->err, exg_decode_thing(d, meta, EXG_MODEL_TENSOR_META, b->meta), "meta");
    return EXG_OK;
}

/* One list: parameters, buffers, what branches have. */
static exg_status gather_own(exg_decoder *d, half_module *half)
{
    half->own_count = half->parameter_count + half->buffer_count;
    half->own = EXG_NEW_ARRAY(d->arena, exg_early_bound, half->own_count);
    if (half->own == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < half->own_count; i++) {
        bool is_param = i < half->parameter_count;

        half->own[i] = is_param ? half->parameters[i] : half->buffers[i - half->parameter_count];
        half->own[i].is_param = is_param;
    }
    return exg_early_lift_branches(d, half->graph, &half->own, &half->own_count);
}

static exg_status decode_module(exg_decoder *d, exg_json value, half_module *half)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_module, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_OF("graph", EXG_FIELD_REQUIRED, field_graph),
        EXG_FIELD_MODEL(half_module, metadata, "metadata", EXG_FIELD_REQUIRED, STRING_MAP, ONE),
        EXG_FIELD_MAP(half_module, parameters, parameter_count, "parameters", EXG_FIELD_REQUIRED,
                      member_bound),
        EXG_FIELD_MAP(half_module, buffers, buffer_count, "buffers", EXG_FIELD_REQUIRED,
                      member_bound),
    };

    EXG_TRY(exg_decode_struct(d, value, half, fields, EXG_FIELD_COUNT(fields)));
    return gather_own(d, half);
}

/* Each tensor's value, which tensor_values describes (S002-78): nothing is taken from the tensor;
 * own_of[value] is its place in half->own and one more, or 0. */
static exg_status bind_own(exg_decoder *d, exg_json value, half_module *half, uint32_t **own_of)
{
    for (uint32_t i = 0; i < half->own_count; i++) {
        exg_early_bound *b = &half->own[i];

        EXG_TRY(exg_decoder_value(d, value, b->name, (uint32_t)strlen(b->name), &b->id));
    }
    *own_of = EXG_NEW_ARRAY(d->arena, uint32_t, exg_decoder_value_count(d));
    if (*own_of == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < half->own_count; i++) {
        if ((*own_of)[half->own[i].id] != 0) {
            return exg_json_fault(value, d->err, EXG_MALFORMED, "VAL-001",
                                  "'%s' is a parameter and a buffer", half->own[i].name);
        }
        (*own_of)[half->own[i].id] = i + 1;
    }
    return EXG_OK;
}

/* The branch's tensors are values of its graph; as inputs they come with those of the node's
 * other branches. */
static exg_status bind_branch(exg_decoder *d, exg_json value, half_module *half)
{
    uint32_t *own_of = NULL;

    EXG_TRY(bind_own(d, value, half, &own_of));
    for (uint32_t i = 0; i < half->graph->input_count; i++) {
        uint32_t own = own_of[half->graph->inputs[i].as_tensor];

        if (own != 0) {
            return exg_error_fix(d->err,
                                 exg_json_fault(value, d->err, EXG_UNSUPPORTED, "EAR-003",
                                                "'%s' is an input of the branch '%s' and a "
                                                "tensor that it has",
                                                half->own[own - 1].name, half->name),
                                 "a branch's tensor is no input of it");
        }
    }
    return EXG_OK;
}

/* A branch, in a scope of its own. */
exg_status exg_early_branch(exg_decoder *d, exg_json value, void *item)
{
    exg_early_branch_argument *branch = item;
    half_module half = {.graph = EXG_NEW(d->arena, exg_graph)};

    if (half.graph == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(decode_module(d, value, &half));
    EXG_TRY(bind_branch(d, value, &half));
    EXG_TRY(exg_decoder_leave(d, half.graph));
    branch->base =
        (exg_graph_argument){.name = half.name, .graph = half.graph, .metadata = half.metadata};
    branch->own = half.own;
    branch->own_count = half.own_count;
    return EXG_OK;
}

/* ---- lifting (S002-105) -------------------------------------------------------------------- */

typedef struct lifter {
    exg_decoder *d;
    exg_program *program;
    exg_early_bytes bytes;
    exg_map *ranges;        /* of external storages */
    exg_input_spec *lifted; /* one for each tensor that the module has */
    const uint32_t *own_of; /* value -> place in `lifted` and one more */
} lifter;

/* Internal bytes are at hand; of those outside `verify --data` tells (WGT-014). */
static exg_status check_bools(lifter *l, const exg_tensor_meta *meta, const exg_storage *storage)
{
    for (uint64_t i = 0;
         meta->dtype == EXG_DTYPE_B8 && storage->kind == EXG_STORAGE_MEMORY && i < storage->length;
         i++) {
        if (storage->data[i] > 1) {
            return EXG_FAIL(l->d->err, MALFORMED, "WGT-014", "byte %llu of a bool tensor is %u",
                            (unsigned long long)i, storage->data[i]);
        }
    }
    return EXG_OK;
}

static bool is_external(exg_json tensor)
{
    exg_json at;

    return exg_json_find(tensor, "storage", &at) && exg_json_find(at, "data", &at) &&
           exg_json_find(at, "location", &at);
}

static exg_status add_weight(lifter *l, const exg_early_bound *b)
{
    exg_weight weight = {
        .fqn = b->name, .table = EXG_TABLE_STATE, .is_param = b->is_param, .meta = b->meta};
    exg_weights *weights = l->program->weights;
    uint64_t length;

    if (l->bytes == EXG_EARLY_WITHOUT_BYTES ||
        (l->bytes == EXG_EARLY_WITH_PLACES && !is_external(b->tensor))) {
        exg_storage none = {.kind = EXG_STORAGE_MEMORY, .data = (const uint8_t *)""};

        EXG_TRY(exg_weights_add_storage(weights, &none, &weight.storage, l->d->err));
        return exg_weights_add(weights, &weight, l->d->err);
    }
    EXG_TRY(exg_early_storage(l->d, b->tensor, exg_dtype_name(b->meta->dtype), weights, l->ranges,
                              &weight.storage));
    length = weights->storages[weight.storage].length;
    if (b->meta->layout != EXG_LAYOUT_STRIDED) {
        return EXG_FAIL(l->d->err, MALFORMED, "WGT-009", "bytes of a %s tensor have no meaning",
                        exg_layout_name(b->meta->layout));
    }
    if (length % exg_dtype_bytes(b->meta->dtype) != 0) {
        return EXG_FAIL(l->d->err, MALFORMED, "WGT-003", "%llu bytes are not a whole number of %s",
                        (unsigned long long)length, exg_dtype_name(b->meta->dtype));
    }
    EXG_TRY(exg_tensor_meta_check_view(b->meta, length, l->d->err));
    EXG_TRY(check_bools(l, b->meta, &weights->storages[weight.storage]));
    return exg_weights_add(weights, &weight, l->d->err);
}

/* The lifted inputs come first, those the file lists itself keep their place. */
static exg_status join_inputs(lifter *l, const half_module *half)
{
    exg_graph *graph = l->program->graph;
    exg_signature *s = &l->program->signature;
    uint32_t most = half->own_count + graph->input_count;
    exg_argument *inputs = EXG_NEW_ARRAY(l->d->arena, exg_argument, most);
    uint32_t count = 0;

    s->inputs = EXG_NEW_ARRAY(l->d->arena, exg_input_spec, most);
    if (inputs == NULL || s->inputs == NULL) {
        return exg_decoder_out_of_memory(l->d);
    }
    for (uint32_t i = 0; i < half->own_count; i++) {
        if (l->lifted[i].implicit) {
            s->inputs[count] = l->lifted[i];
            inputs[count++] =
                (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = half->own[i].id};
        }
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_value_id id = graph->inputs[i].as_tensor;

        s->inputs[count] =
            l->own_of[id] != 0
                ? l->lifted[l->own_of[id] - 1]
                : (exg_input_spec){.kind = EXG_INPUT_USER,
                                   .arg = {.kind = EXG_ARGUMENT_TENSOR,
                                           .name = exg_decoder_value_at(l->d, id)->name},
                                   .persistent = EXG_UNSET};
        inputs[count++] = graph->inputs[i];
    }
    graph->inputs = inputs;
    graph->input_count = s->input_count = count;
    return EXG_OK;
}

static exg_status make_outputs(lifter *l)
{
    const exg_graph *graph = l->program->graph;
    exg_signature *s = &l->program->signature;

    s->outputs = EXG_NEW_ARRAY(l->d->arena, exg_output_spec, graph->output_count);
    if (s->outputs == NULL) {
        return exg_decoder_out_of_memory(l->d);
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        exg_value_id id = graph->outputs[i].as_tensor;

        s->outputs[i] = (exg_output_spec){
            .kind = EXG_OUTPUT_USER,
            .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = exg_decoder_value_at(l->d, id)->name}};
    }
    s->output_count = graph->output_count;
    return EXG_OK;
}

static exg_status lift_all(lifter *l, exg_json root, half_module *half)
{
    const exg_graph *graph = l->program->graph;
    uint32_t *own_of = NULL;

    EXG_TRY(bind_own(l->d, root, half, &own_of));
    l->own_of = own_of;
    l->lifted = EXG_NEW_ARRAY(l->d->arena, exg_input_spec, half->own_count);
    if (l->lifted == NULL) {
        return exg_decoder_out_of_memory(l->d);
    }
    for (uint32_t i = 0; i < half->own_count; i++) {
        const exg_early_bound *b = &half->own[i];

        EXG_TRY_IN(l->d->err, add_weight(l, b), "%s['%s']", b->is_param ? "parameters" : "buffers",
                   b->name);
        l->lifted[i] = (exg_input_spec){
            .kind = b->is_param ? EXG_INPUT_PARAMETER : EXG_INPUT_BUFFER,
            .arg = {.kind = EXG_ARGUMENT_TENSOR, .name = b->name},
            .target = b->name,
            .persistent = b->is_param ? EXG_UNSET : EXG_TRUE,
            .implicit = true,
        };
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        uint32_t own = own_of[graph->inputs[i].as_tensor];

        if (own != 0) {
            l->lifted[own - 1].implicit = false;
        }
    }
    EXG_TRY(join_inputs(l, half));
    return make_outputs(l);
}

/* ---- names of arguments (S002-85) ----------------------------------------------------------- */

static void name_arguments(exg_graph *graph, const exg_operators *operators)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_named_argument *input = &node->inputs[i];

            if (op != NULL && input->kind == EXG_KIND_POSITIONAL &&
                i < op->schema->argument_count && !op->schema->arguments[i].keyword_only) {
                input->name = op->schema->arguments[i].name;
            }
            if (input->arg.kind == EXG_ARGUMENT_GRAPH) {
                name_arguments(input->arg.as_graph->graph, operators);
            }
        }
    }
}

/* The table of operators goes when the file is open: the program keeps its own names. */
static exg_status keep_names(exg_decoder *d, exg_json root, exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_named_argument *input = &graph->nodes[n].inputs[i];

            EXG_TRY(exg_decoder_keep(d, root, input->name, (uint32_t)strlen(input->name),
                                     &input->name));
            if (input->arg.kind == EXG_ARGUMENT_GRAPH) {
                EXG_TRY(keep_names(d, root, input->arg.as_graph->graph));
            }
        }
    }
    return EXG_OK;
}

static exg_status decode_root(exg_decoder *d, exg_json root, exg_early_bytes bytes,
                              const exg_operators *names, exg_program *program)
{
    half_module half = {.graph = program->graph};
    exg_map ranges;
    lifter l = {.d = d, .program = program, .bytes = bytes, .ranges = &ranges};

    exg_map_init(&ranges, d->arena);
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(decode_module(d, root, &half));
    EXG_TRY(lift_all(&l, root, &half));
    EXG_TRY(exg_decoder_leave(d, program->graph));
    if (names != NULL) {
        name_arguments(program->graph, names);
        EXG_TRY(keep_names(d, root, program->graph));
    }
    program->name = half.name;
    program->metadata = half.metadata;
    program->origin = EXG_ORIGIN_EARLY;
    program->schema_major = 0;
    program->schema_minor = 0;
    return EXG_OK;
}

exg_status exg_early_decode(exg_json root, exg_early_bytes bytes, const exg_operators *names,
                            exg_program *program, exg_error *err)
{
    exg_decoder d;
    exg_status status;

    exg_early_decoder(&d, program->arena, err);
    status = decode_root(&d, root, bytes, names, program);
    exg_decoder_free(&d);
    return status;
}
