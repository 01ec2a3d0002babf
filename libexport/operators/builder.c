/* builder.c - adds nodes to a graph, with metas inferred and names made unique. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/operators/aten.h"
#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"

#include <assert.h>
#include <exg/operators.h>
#include <stdlib.h>
#include <string.h>

#define RETURNS_MAX 16 /* of an operator */

/* A complex value of two real ones. */
typedef struct joined {
    exg_ref value, parts[2];
} joined;

struct exg_builder {
    const exg_operators *operators;
    exg_program *program;
    exg_arena *arena;
    exg_graph *graph;
    exg_map names; /* taken name -> how often its base was asked for */
    uint32_t node_capacity, value_capacity, input_capacity, output_capacity;
    uint32_t input_spec_capacity, output_spec_capacity;
    const char *const *next_names;
    uint32_t next_name_count;
    const exg_tensor_meta *const *next_recorded; /* of the next node's results */
    const exg_tensor_meta *const *recorded;      /* of the results that are being lowered */
    uint32_t next_recorded_count, recorded_count;
    int64_t draw_count; /* draws of random numbers so far */
    joined *joins;      /* complex values and what they were joined from */
    uint32_t join_count, join_capacity;
    exg_string_map origin;       /* metadata of the nodes to come */
    const exg_operator *lowered; /* that is being written out, the innermost */
    bool lowers; /* operators with a lowering are written out, even if they have a shape */
    exg_ref *kept;
    uint32_t kept_count, kept_capacity;
    uint32_t depth; /* of operators that are being written out, one in another */
    bool is_tried;  /* what is written out is for our kernels, and will be taken back */
    exg_error error;
};

exg_status exg_builder_create(const exg_operators *operators, exg_program *program,
                              exg_builder **builder, exg_error *err)
{
    EXG_REQUIRE(err, operators, program, builder);
    exg_builder *b = calloc(1, sizeof(*b));

    *builder = NULL;
    if (b == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    b->operators = operators;
    b->program = program;
    b->arena = program->arena;
    exg_error_clear(&b->error);
    exg_map_init(&b->names, b->arena);
    if (program->graph == NULL) {
        program->graph = EXG_NEW(b->arena, exg_graph);
    }
    b->graph = program->graph;
    if (b->graph == NULL) {
        free(b);
        return EXG_OUT_OF_MEMORY(err);
    }
    *builder = b;
    return EXG_OK;
}

void exg_builder_destroy(exg_builder *builder)
{
    free(builder);
}

exg_status exg_builder_finish(exg_builder *builder, exg_error *err)
{
    EXG_REQUIRE(err, builder);
    exg_status status = builder->error.status;

    if (status != EXG_OK && err != NULL) {
        *err = builder->error;
    }
    exg_builder_destroy(builder);
    return status;
}

const exg_operators *exg_builder_operators(const exg_builder *b)
{
    return b->operators;
}

exg_arena *exg_builder_arena(const exg_builder *b)
{
    return b->arena;
}

const exg_graph *exg_builder_graph(const exg_builder *b)
{
    return b->graph;
}

exg_program *exg_builder_program(const exg_builder *b)
{
    return b->program;
}

exg_status exg_builder_status(const exg_builder *b)
{
    EXG_REQUIRE(NULL, b);
    return b->error.status;
}

void exg_builder_fail(exg_builder *b, const exg_error *err)
{
    if (b->error.status == EXG_OK) {
        b->error = *err;
    }
}

static void out_of_memory(exg_builder *b)
{
    exg_error err;

    (void)EXG_OUT_OF_MEMORY(&err);
    exg_builder_fail(b, &err);
}

/* NONE, which may be taken for an argument that was left out: what is built of it is not to be
 * believed. */
static exg_argument without_memory(exg_builder *b)
{
    out_of_memory(b);
    return exg_arg_none();
}

exg_argument exg_arg_ints(exg_builder *b, const int64_t *items, uint32_t count)
{
    exg_argument arg = {.kind = EXG_ARGUMENT_INTS, .count = count};

    arg.as_ints = exg_arena_memdup(b->arena, items, count, sizeof(items[0]));
    return arg.as_ints == NULL ? without_memory(b) : arg;
}

exg_argument exg_arg_refs(exg_builder *b, const exg_ref *items, uint32_t count)
{
    exg_argument arg = {.kind = EXG_ARGUMENT_TENSORS, .count = count};

    for (uint32_t i = 0; i < count; i++) {
        if (items[i].id == EXG_NO_VALUE) {
            arg.kind = EXG_ARGUMENT_OPTIONAL_TENSORS;
        }
    }
    arg.as_tensors = exg_arena_memdup(b->arena, items, count, sizeof(items[0]));
    return arg.as_tensors == NULL ? without_memory(b) : arg;
}

static bool reserve(exg_builder *b, void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    if (!exg_arena_reserve(b->arena, items, count, capacity, size)) {
        out_of_memory(b);
        return false;
    }
    return true;
}

static const char *unique_name(exg_builder *b, const char *base)
{
    const char *name = base;
    uint32_t asked = exg_map_find(&b->names, base);

    if (asked != EXG_MAP_NONE) {
        do {
            asked++;
            name = exg_arena_printf(b->arena, "%s_%u", base, asked);
        } while (name != NULL && exg_map_find(&b->names, name) != EXG_MAP_NONE);
        if (!exg_map_put(&b->names, base, asked)) {
            name = NULL;
        }
    } else {
        name = exg_arena_strdup(b->arena, base);
    }
    if (name == NULL || !exg_map_put(&b->names, name, 0)) {
        out_of_memory(b);
        return NULL;
    }
    return name;
}

static exg_ref add_value(exg_builder *b, const char *name, exg_tensor_meta *meta)
{
    exg_graph *graph = b->graph;

    name = unique_name(b, name);
    if (name == NULL ||
        !reserve(b, &graph->values, graph->value_count, &b->value_capacity, sizeof(exg_value))) {
        return EXG_NO_REF;
    }
    graph->values[graph->value_count] = (exg_value){.name = name, .tensor = meta};
    return (exg_ref){graph->value_count++};
}

static exg_tensor_meta *copy_meta(exg_builder *b, const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = exg_arena_memdup(b->arena, meta, 1, sizeof(*meta));

    if (copy != NULL) {
        copy->sizes = exg_arena_memdup(b->arena, meta->sizes, meta->rank, sizeof(exg_sym_int));
        copy->strides = exg_arena_memdup(b->arena, meta->strides, meta->rank, sizeof(exg_sym_int));
    }
    if (copy == NULL || copy->sizes == NULL || copy->strides == NULL) {
        out_of_memory(b);
        return NULL;
    }
    return copy;
}

exg_ref exg_builder_value(exg_builder *b, const char *name, const exg_tensor_meta *meta)
{
    exg_tensor_meta *copy = b->error.status == EXG_OK ? copy_meta(b, meta) : NULL;

    return copy == NULL ? EXG_NO_REF : add_value(b, name, copy);
}

static void add_input(exg_builder *b, const exg_argument *arg, const exg_input_spec *spec)
{
    exg_graph *graph = b->graph;
    exg_signature *signature = &b->program->signature;

    if (reserve(b, &graph->inputs, graph->input_count, &b->input_capacity, sizeof(*arg)) &&
        reserve(b, &signature->inputs, signature->input_count, &b->input_spec_capacity,
                sizeof(*spec))) {
        graph->inputs[graph->input_count++] = *arg;
        signature->inputs[signature->input_count++] = *spec;
    }
}

exg_ref exg_builder_input(exg_builder *b, const char *name, const exg_tensor_meta *meta,
                          exg_input_kind kind, const char *target, exg_tristate persistent)
{
    exg_ref ref = exg_builder_value(b, name, meta);
    exg_input_spec spec = {.kind = kind, .target = target, .persistent = persistent};
    exg_argument arg = exg_arg_ref(ref);

    if (ref.id != EXG_NO_VALUE) {
        spec.arg.kind = EXG_ARGUMENT_TENSOR;
        spec.arg.name = b->graph->values[ref.id].name;
        add_input(b, &arg, &spec);
    }
    return ref;
}

/* A constant's place in a signature. */
static exg_signature_argument constant_argument(const char *name, const exg_argument *value)
{
    exg_signature_argument arg = {.kind = value->kind, .name = name};

    switch (value->kind) {
    case EXG_ARGUMENT_INT:
        arg.as_int = value->as_int;
        break;
    case EXG_ARGUMENT_FLOAT:
        arg.as_float = value->as_float;
        break;
    case EXG_ARGUMENT_BOOL:
        arg.as_bool = value->as_bool;
        break;
    case EXG_ARGUMENT_STRING:
        arg.as_string = value->as_string;
        break;
    default:
        arg.kind = EXG_ARGUMENT_NONE;
    }
    return arg;
}

void exg_builder_constant_input(exg_builder *b, const char *name, const exg_argument *value)
{
    exg_input_spec spec = {.kind = EXG_INPUT_USER, .persistent = EXG_UNSET};

    if (b->error.status == EXG_OK) {
        spec.arg = constant_argument(name, value);
        add_input(b, value, &spec);
    }
}

void exg_builder_output(exg_builder *b, const exg_argument *arg, exg_output_kind kind,
                        const char *target)
{
    exg_graph *graph = b->graph;
    exg_signature *signature = &b->program->signature;
    exg_output_spec spec = {.kind = kind, .target = target};

    if (b->error.status != EXG_OK) {
        return;
    }
    if (arg->kind == EXG_ARGUMENT_TENSOR) {
        spec.arg.kind = arg->kind;
        spec.arg.name = graph->values[arg->as_tensor].name;
    } else {
        spec.arg = constant_argument("", arg);
    }
    if (reserve(b, &graph->outputs, graph->output_count, &b->output_capacity, sizeof(*arg)) &&
        reserve(b, &signature->outputs, signature->output_count, &b->output_spec_capacity,
                sizeof(spec))) {
        graph->outputs[graph->output_count++] = *arg;
        signature->outputs[signature->output_count++] = spec;
    }
}

void exg_builder_next_names(exg_builder *b, const char *const *names, uint32_t count)
{
    b->next_names = names;
    b->next_name_count = count;
}

void exg_builder_next_recorded(exg_builder *b, const exg_tensor_meta *const *metas, uint32_t count)
{
    b->next_recorded = metas;
    b->next_recorded_count = count;
}

const exg_tensor_meta *exg_lower_recorded(const exg_builder *b, uint32_t result)
{
    return result < b->recorded_count ? b->recorded[result] : NULL;
}

static bool is_left_out(const exg_function_schema *schema, const exg_argument *args, uint32_t i)
{
    const exg_schema_argument *parameter = &schema->arguments[i];

    return exg_is_none(&args[i]) && parameter->has_default &&
           parameter->default_value.kind == EXG_ARGUMENT_NONE;
}

/* Trailing arguments of None are left out, as torch does. */
static bool fill_inputs(exg_builder *b, const exg_operator *op, const exg_argument *args,
                        uint32_t count, exg_node *node)
{
    const exg_function_schema *schema = op->schema;
    uint32_t positional = 0;

    node->inputs = EXG_NEW_ARRAY(b->arena, exg_named_argument, count);
    if (node->inputs == NULL) {
        out_of_memory(b);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) { /* those by position are told by it */
        positional =
            is_left_out(schema, args, i) || schema->arguments[i].keyword_only ? positional : i + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        const exg_schema_argument *parameter = &schema->arguments[i];
        exg_named_argument *input = &node->inputs[node->input_count];

        if (i >= positional && is_left_out(schema, args, i)) {
            continue;
        }
        input->name = parameter->name;
        input->kind = parameter->keyword_only ? EXG_KIND_KEYWORD : EXG_KIND_POSITIONAL;
        input->arg = args[i];
        node->input_count++;
    }
    return true;
}

static exg_ref result_value(exg_builder *b, const exg_operator *op, uint32_t index,
                            exg_tensor_meta *meta)
{
    const char *name = index < b->next_name_count ? b->next_names[index] : op->schema->name;

    return add_value(b, name, meta);
}

/* The node's outputs from its result metas, by the schema's returns. */
static bool fill_outputs(exg_builder *b, const exg_operator *op, exg_node *node,
                         exg_tensor_meta **metas, uint32_t meta_count)
{
    const exg_function_schema *schema = op->schema;
    uint32_t at = 0;

    node->output_count = schema->return_count;
    node->outputs = EXG_NEW_ARRAY(b->arena, exg_argument, schema->return_count);
    if (node->outputs == NULL) {
        out_of_memory(b);
        return false;
    }
    for (uint32_t r = 0; r < schema->return_count; r++) {
        exg_argument *output = &node->outputs[r];

        if (schema->returns[r].type.is_list) {
            output->kind = EXG_ARGUMENT_TENSORS;
            output->count = meta_count - at;
            output->as_tensors = EXG_NEW_ARRAY(b->arena, exg_value_id, output->count);
            for (uint32_t i = 0; output->as_tensors != NULL && i < output->count; i++, at++) {
                output->as_tensors[i] = result_value(b, op, at, metas[at]).id;
            }
        } else if (metas[at] == NULL) {
            *output = exg_arg_none();
            at++;
        } else {
            *output = exg_arg_ref(result_value(b, op, at, metas[at]));
            at++;
        }
    }
    return b->error.status == EXG_OK;
}

void exg_builder_set_origin(exg_builder *b, const exg_string_map *metadata)
{
    b->origin = *metadata;
}

void exg_builder_keep(exg_builder *b, exg_ref ref)
{
    if (b->error.status == EXG_OK &&
        reserve(b, &b->kept, b->kept_count, &b->kept_capacity, sizeof(*b->kept))) {
        b->kept[b->kept_count++] = ref;
    }
}

const exg_ref *exg_builder_take_kept(exg_builder *b, uint32_t *count)
{
    *count = b->kept_count;
    b->kept_count = 0;
    return b->kept;
}

const exg_operator *exg_lower_operator(const exg_builder *b)
{
    return b->lowered;
}

void exg_builder_set_lowering(exg_builder *b, bool lowers)
{
    b->lowers = lowers;
}

/* NULL: what is emitted is for our kernels. */
static const exg_aten *aten_of(const exg_builder *b, exg_operator_id id)
{
    return b->is_tried ? NULL : exg_operators_aten(b->operators, id);
}

static bool has_shape(const exg_operator *op)
{
    return op->shape != NULL || op->view != NULL || op->pointwise != EXG_POINTWISE_NOT;
}

/* What was said of the next node's results is used. */
static void forget_next(exg_builder *b)
{
    b->next_name_count = 0;
    b->next_recorded_count = 0;
}

#define DEPTH_MAX 64 /* what is made of more is made of itself: no stack holds that */

/* Those of the values since `first_value` that are results get the names asked for. */
static void name_results(exg_builder *b, const exg_operator *op, const exg_argument *results,
                         const char *const *names, uint32_t name_count, uint32_t first_value)
{
    uint32_t at = 0;

    for (uint32_t r = 0; r < op->schema->return_count; r++) {
        const exg_value_id *ids =
            results[r].kind == EXG_ARGUMENT_TENSORS ? results[r].as_tensors : &results[r].as_tensor;
        uint32_t count = results[r].kind == EXG_ARGUMENT_TENSORS  ? results[r].count
                         : results[r].kind == EXG_ARGUMENT_TENSOR ? 1
                                                                  : 0;

        for (uint32_t i = 0; i < count; i++, at++) {
            if (at < name_count && ids[i] >= first_value &&
                exg_map_find(&b->names, names[at]) == EXG_MAP_NONE) {
                b->graph->values[ids[i]].name = unique_name(b, names[at]);
            }
        }
        at += count == 0;
    }
}

/* Writes out what the operator is made of; the results keep the names asked for. */
static void lower(exg_builder *b, const exg_operator *op, exg_dtype_lowering *of_kind,
                  const exg_argument *args, exg_argument *results)
{
    const char *const *names = b->next_names;
    uint32_t name_count = b->next_name_count;
    uint32_t first_value = b->graph->value_count;
    const exg_tensor_meta *const *outer = b->recorded;
    uint32_t outer_count = b->recorded_count;
    const exg_operator *outer_op = b->lowered;
    const exg_aten *aten = aten_of(b, op->id);
    exg_argument wrapped[EXG_ARGUMENTS_MAX];
    exg_error err;

    if (b->depth == DEPTH_MAX) {
        (void)EXG_FAIL(&err, UNSUPPORTED, "OPR-009", "%s is made of itself here", op->target);
        exg_builder_fail(b, &err);
        return;
    }
    b->depth++;
    b->lowered = op;
    b->recorded = b->next_recorded;
    b->recorded_count = b->next_recorded_count;
    forget_next(b);
    memcpy(wrapped, args, op->schema->argument_count * sizeof(*args));
    exg_lower_wrap_numbers(b, op, wrapped, NULL, false);
    if (of_kind != NULL) {
        of_kind(b, op->id, wrapped, results);
    } else if (aten != NULL && aten->spelling != NULL) {
        aten->spelling(b, wrapped, results);
    } else {
        op->lowering(b, wrapped, results);
    }
    b->depth--;
    b->lowered = outer_op;
    b->recorded = outer;
    b->recorded_count = outer_count;
    if (b->error.status == EXG_OK && op->schema->return_count > 0 &&
        results[0].kind == EXG_ARGUMENT_TENSOR && results[0].as_tensor != EXG_NO_VALUE &&
        exg_check_held(op, args, b->graph->values[results[0].as_tensor].tensor->dtype, &err) !=
            EXG_OK) {
        exg_builder_fail(b, &err);
    }
    if (b->error.status != EXG_OK) {
        return;
    }
    name_results(b, op, results, names, name_count, first_value);
}

bool exg_builder_parts(const exg_builder *b, exg_ref x, exg_ref parts[2])
{
    for (uint32_t i = b->join_count; i-- > 0;) {
        if (b->joins[i].value.id == x.id) {
            memcpy(parts, b->joins[i].parts, sizeof(b->joins[i].parts));
            return true;
        }
    }
    return false;
}

void exg_builder_set_parts(exg_builder *b, exg_ref x, exg_ref re, exg_ref im)
{
    if (x.id != EXG_NO_VALUE &&
        reserve(b, &b->joins, b->join_count, &b->join_capacity, sizeof(*b->joins))) {
        b->joins[b->join_count++] = (joined){x, {re, im}};
    }
}

static bool is_complex_tensor(const exg_builder *b, exg_value_id id)
{
    return id != EXG_NO_VALUE && exg_dtype_is_complex(b->graph->values[id].tensor->dtype);
}

static bool is_float8_call(const exg_builder *b, const exg_operator *op, const exg_argument *args)
{
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR &&
            exg_dtype_is_float8(b->graph->values[args[i].as_tensor].tensor->dtype)) {
            return true;
        }
    }
    return false;
}

static bool is_complex_call(const exg_builder *b, const exg_operator *op, const exg_argument *args)
{
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const exg_argument *arg = &args[i];

        if (arg->kind == EXG_ARGUMENT_COMPLEX ||
            (arg->kind == EXG_ARGUMENT_SCALAR_TYPE && exg_dtype_is_complex(arg->as_scalar_type)) ||
            (arg->kind == EXG_ARGUMENT_TENSOR && is_complex_tensor(b, arg->as_tensor))) {
            return true;
        }
    }
    return false;
}

/* A transposed convolution copies a bias of any dtype into its result. */
static bool has_other_bias(const exg_builder *b, const exg_operator *op, const exg_argument *args)
{
    const exg_value *values = b->graph->values;

    return op->id == EXG_OP_convolution_default && exg_lower_given(&args[2]) &&
           args[6].kind == EXG_ARGUMENT_BOOL && exg_get_bool(&args[6]) &&
           exg_get_ref(&args[0]).id != EXG_NO_VALUE &&
           values[args[2].as_tensor].tensor->dtype != values[args[0].as_tensor].tensor->dtype;
}

/* What the operator is of numbers like these, or NULL: it is the same of all. */
static exg_dtype_lowering *lowering_of_kind(const exg_builder *b, const exg_operator *op,
                                            const exg_argument *args)
{
    const exg_dtype_lowerings *of = exg_operators_dtype_lowerings(b->operators, op->id);
    exg_ref parts[2];

    if ((b->lowers || !has_shape(op)) && is_complex_call(b, op, args)) {
        return of->of_complex;
    }
    if (b->lowers && has_other_bias(b, op, args)) {
        return of->of_other_bias;
    }
    if (b->lowers && of->of_sparse != NULL &&
        exg_builder_parts(b, exg_get_ref(&args[op->schema->argument_count > 2]), parts)) {
        return of->of_sparse;
    }
    return b->lowers && of->of_float8 != NULL && is_float8_call(b, op, args) ? of->of_float8 : NULL;
}

/* A node with results of these metas. */
static void add_node(exg_builder *b, const exg_operator *op, const exg_argument *args,
                     uint32_t count, exg_tensor_meta **metas, uint32_t meta_count,
                     exg_argument *results)
{
    exg_node node = {.target = op->target, .is_hop_single_tensor_return = EXG_UNSET};

    if (fill_inputs(b, op, args, count, &node) && fill_outputs(b, op, &node, metas, meta_count) &&
        reserve(b, &b->graph->nodes, b->graph->node_count, &b->node_capacity, sizeof(node))) {
        node.name = node.output_count == 1 && node.outputs[0].kind == EXG_ARGUMENT_TENSOR
                        ? b->graph->values[node.outputs[0].as_tensor].name
                        : unique_name(b, op->schema->name);
        node.metadata = b->origin;
        b->graph->nodes[b->graph->node_count++] = node;
        if (results != NULL && node.output_count > 0) {
            memcpy(results, node.outputs, node.output_count * sizeof(*results));
        }
    }
    forget_next(b);
}

/* ---- in PyTorch's operators ----------------------------------------------------------------- */

static bool has_own_nodes(const exg_builder *b, uint32_t first_node)
{
    for (uint32_t n = first_node; n < b->graph->node_count; n++) {
        const exg_operator *op = exg_operators_find(b->operators, b->graph->nodes[n].target);

        if (op != NULL && exg_operator_is_own(op)) {
            return true;
        }
    }
    return false;
}

/* The metas of `results`, as a list. */
static exg_tensor_meta **metas_of(exg_builder *b, const exg_operator *op,
                                  const exg_argument *results, uint32_t *count)
{
    exg_tensor_meta **metas = NULL;
    uint32_t capacity = 0;

    *count = 0;
    for (uint32_t r = 0; r < op->schema->return_count; r++) {
        bool is_list = results[r].kind == EXG_ARGUMENT_TENSORS;
        uint32_t length = is_list ? results[r].count : 1;

        for (uint32_t i = 0; i < length; i++) {
            exg_ref ref = is_list ? (exg_ref){results[r].as_tensors[i]}
                          : results[r].kind == EXG_ARGUMENT_TENSOR ? exg_get_ref(&results[r])
                                                                   : EXG_NO_REF;

            if (!reserve(b, &metas, *count, &capacity, sizeof(exg_tensor_meta *))) {
                return NULL;
            }
            metas[(*count)++] =
                ref.id == EXG_NO_VALUE ? NULL : copy_meta(b, b->graph->values[ref.id].tensor);
        }
    }
    return metas;
}

/* Writes the operator out; where it stays, or that takes what PyTorch has not, what was written is
 * taken back, and the operator stands there by itself. */
static void emit_aten(exg_builder *b, const exg_operator *op, exg_dtype_lowering *of_kind,
                      const exg_argument *args, exg_argument *results)
{
    const exg_aten *aten = aten_of(b, op->id);
    const char *const *names = b->next_names;
    uint32_t name_count = b->next_name_count;
    uint32_t first_value = b->graph->value_count;
    uint32_t first_node = b->graph->node_count;
    uint32_t join_count = b->join_count;
    uint32_t kept_count = b->kept_count;
    int64_t draw_count = b->draw_count;
    exg_tensor_meta **metas;
    uint32_t meta_count;

    b->next_name_count = 0;
    b->is_tried = aten->stays || (!b->lowers && exg_operator_may_stay(op));
    lower(b, op, of_kind, args, results);
    b->is_tried = false;
    if (b->error.status != EXG_OK) {
        return;
    }
    if (!exg_operator_may_stay(op) ||
        (b->lowers && !aten->stays && !has_own_nodes(b, first_node))) {
        name_results(b, op, results, names, name_count, first_value);
        return;
    }
    metas = metas_of(b, op, results, &meta_count);
    b->graph->node_count = first_node;
    b->graph->value_count = first_value;
    b->join_count = join_count;
    b->kept_count = kept_count;
    b->draw_count = draw_count;
    b->next_names = names;
    b->next_name_count = name_count;
    if (b->error.status == EXG_OK) {
        add_node(b, op, args, op->schema->argument_count, metas, meta_count, results);
    }
}

/* Is the operator known by what it is made of, or shall be? */
static bool is_written_out(const exg_builder *b, const exg_operator *op)
{
    const exg_aten *aten = aten_of(b, op->id);
    bool lowers = b->lowers && !(aten != NULL && aten->stays);

    return (op->lowering != NULL && (lowers || !has_shape(op))) ||
           (lowers && aten != NULL && aten->spelling != NULL);
}

exg_status exg_emit_all(exg_builder *b, exg_operator_id id, const exg_argument *args,
                        uint32_t count, exg_argument *results)
{
    EXG_REQUIRE(NULL, b, EXG_IF_ANY(count, args));
    const exg_operator *op = exg_operators_get(b->operators, id);
    exg_argument all[EXG_ARGUMENTS_MAX];
    exg_tensor_meta **metas = NULL;
    uint32_t meta_count = 0;
    const exg_aten *aten = aten_of(b, id);
    exg_dtype_lowering *of_kind;
    exg_error err;

    for (uint32_t r = 0; results != NULL && r < op->schema->return_count; r++) {
        results[r] = exg_arg_none();
    }
    if (b->error.status != EXG_OK) {
        return b->error.status;
    }
    if (exg_operator_complete(op, args, count, all, &err) != EXG_OK ||
        exg_check_numbers(op, all, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return b->error.status;
    }
    if (b->lowers && aten == NULL && exg_lower_numbers(b, &op, all)) {
        args = all;
        count = op->schema->argument_count;
    }
    if (op->stream != EXG_NOT_DRAWN) { /* numbered anew in every graph, in its order */
        all[op->stream] = exg_arg_int(b->draw_count++);
        args = all;
        count = op->schema->argument_count;
    }
    of_kind = aten != NULL && has_shape(op) && exg_operator_may_stay(op)
                  ? NULL
                  : lowering_of_kind(b, op, all);
    if (aten == NULL && of_kind == NULL && b->lowers && op->pointwise != EXG_POINTWISE_NOT &&
        is_complex_call(b, op, all)) {
        (void)EXG_FAIL(&err, UNSUPPORTED, "OPR-005", "%s of complex numbers", op->target);
        exg_builder_fail(b, &err);
        return b->error.status;
    }
    if (of_kind != NULL || is_written_out(b, op)) {
        exg_argument unused[RETURNS_MAX];

        results = results != NULL ? results : unused;
        if (aten != NULL) {
            emit_aten(b, op, of_kind, all, results);
        } else {
            lower(b, op, of_kind, all, results);
        }
        forget_next(b);
        return b->error.status;
    }
    if (op->schema->return_count > 0 && op->functional == EXG_OP_NONE &&
        exg_infer_checked(op, all, b->graph, b->arena, &metas, &meta_count, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return b->error.status;
    }
    if (op->functional != EXG_OP_NONE) { /* in place: the result is argument 0 itself */
        b->join_count = 0;               /* whose parts may have been written */
        metas = EXG_NEW_ARRAY(b->arena, exg_tensor_meta *, 1);
        if (metas == NULL) {
            out_of_memory(b);
            return b->error.status;
        }
        metas[0] = b->graph->values[exg_get_ref(&all[0]).id].tensor;
        meta_count = 1;
    }
    add_node(b, op, args, count, metas, meta_count, results);
    return b->error.status;
}

exg_ref exg_emit(exg_builder *b, exg_operator_id id, const exg_argument *args, uint32_t count)
{
    exg_argument results[RETURNS_MAX];

    assert(exg_operators_get(b->operators, id)->schema->return_count <= RETURNS_MAX);
    if (exg_emit_all(b, id, args, count, results) != EXG_OK ||
        results[0].kind != EXG_ARGUMENT_TENSOR) {
        return EXG_NO_REF;
    }
    return exg_get_ref(&results[0]);
}

const exg_tensor_meta *exg_ref_meta(const exg_builder *b, exg_ref ref)
{
    return ref.id == EXG_NO_VALUE ? NULL : b->graph->values[ref.id].tensor;
}
