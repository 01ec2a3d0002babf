/* stored_blocks.c - weights that a file has in blocks of GGML, taken as these are stored: the
 * parameter becomes its numbers, and the scales and offsets of their groups, from which a node
 * makes the weight (exg.dequantize_groups). What multiplies by it reads the numbers as they are
 * (weight_product.c), and rows are looked up in the parts (exg.embedding_groups). */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"
#include "libexport/transform/input_parts.h"
#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <exg/transform.h>
#include <string.h>

#define EMBEDDING "torch.ops.aten.embedding.default"

static const char *const part_names[EXG_BLOCK_PARTS] = {"qdata", "scale", "offset"};

/* A parameter that comes in blocks. */
typedef struct stored {
    const exg_weight *giver;
    const exg_block_groups *groups;
    exg_value_id parts[EXG_BLOCK_PARTS]; /* EXG_NO_VALUE: it has none */
} stored;

typedef struct taking {
    exg_program *program;
    exg_weights *from;
    exg_weights *own;  /* the program's from then on */
    exg_weights *rest; /* and what the file has, with the parts */
    exg_map taken;     /* names of weights that are taken apart */
    stored *of;        /* by value */
    exg_input_parts inputs;
    exg_node *nodes;
    uint32_t node_count;
    exg_error *err;
} taking;

/* ---- which ---------------------------------------------------------------------------------- */

static bool is_matrix_of_blocks(const exg_tensor_meta *meta, const exg_weight *giver,
                                const exg_block *block)
{
    const exg_tensor_meta *rows = giver->meta;

    return meta->rank == 2 && rows->rank == 2 && exg_tensor_meta_is_static(meta) &&
           exg_tensor_meta_is_packed(rows) && rows->sizes[0].value == meta->sizes[0].value &&
           meta->sizes[1].value > 0 && meta->sizes[1].value % block->elements == 0 &&
           meta->sizes[1].value / block->elements * block->bytes == rows->sizes[1].value &&
           (meta->dtype == EXG_DTYPE_F32 || meta->dtype == EXG_DTYPE_F16 ||
            meta->dtype == EXG_DTYPE_BF16);
}

/* What the file has of the parameter that input `i` is, or NULL where it does not come in blocks
 * that have groups, or has another shape. */
static const exg_weight *giver_of(const taking *t, uint32_t i, const exg_block_groups **groups)
{
    const exg_input_spec *spec = &t->program->signature.inputs[i];
    const exg_argument *arg = &t->program->graph->inputs[i];
    const exg_weight *weight =
        spec->kind != EXG_INPUT_PARAMETER || spec->target == NULL ||
                arg->kind != EXG_ARGUMENT_TENSOR
            ? NULL
            : exg_weights_find(t->program->weights, EXG_TABLE_STATE, spec->target);
    const exg_weight *giver = weight == NULL || weight->use_pickle || weight->meta == NULL
                                  ? NULL
                                  : exg_weights_find(t->from, EXG_TABLE_STATE, weight->fqn);
    const exg_block *block =
        giver == NULL || giver->encoding == NULL ? NULL : exg_block_named(giver->encoding);

    *groups = block == NULL ? NULL : exg_block_groups_of(block);
    return *groups != NULL && is_matrix_of_blocks(weight->meta, giver, block) ? giver : NULL;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* (rows, bytes of them) as the part has it. */
static exg_tensor_meta *meta_of_part(const taking *t, const stored *s, exg_block_part part)
{
    const exg_block *block = exg_block_named(s->giver->encoding);
    exg_tensor_meta *meta = exg_tensor_meta_copy(t->program->arena, s->giver->meta);
    bool is_number = part == EXG_BLOCK_NUMBERS;

    if (meta != NULL) {
        meta->dtype = !is_number             ? s->groups->scale
                      : s->groups->is_packed ? EXG_DTYPE_U8
                                             : EXG_DTYPE_I8;
        meta->sizes[1].value = meta->sizes[1].value / block->bytes *
                               (is_number ? block->elements / (s->groups->is_packed ? 2 : 1)
                                          : block->elements / s->groups->group);
        exg_tensor_meta_pack(meta);
    }
    return meta;
}

static exg_status add_weight(taking *t, exg_weights *to, const stored *s, exg_block_part part,
                             const exg_weight *as)
{
    exg_weight weight = *as;

    EXG_TRY(exg_weights_add_block_part(to, t->from, s->giver, part, &weight.storage, t->err));
    return exg_weights_add(to, &weight, t->err);
}

static exg_status add_part(taking *t, uint32_t input, stored *s, exg_block_part part)
{
    const char *fqn = t->program->signature.inputs[input].target;
    exg_weight weight = {.fqn = exg_arena_printf(t->program->arena, "%s.%s", fqn, part_names[part]),
                         .table = EXG_TABLE_STATE,
                         .is_param = true,
                         .meta = meta_of_part(t, s, part)};

    if (weight.fqn == NULL) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    EXG_TRY(exg_input_parts_add(&t->inputs, input, part_names[part], weight.fqn, weight.meta,
                                &s->parts[part]));
    EXG_TRY(add_weight(t, t->own, s, part, &weight));
    return exg_map_find(&t->taken, fqn) == EXG_MAP_NONE ? add_weight(t, t->rest, s, part, &weight)
                                                        : EXG_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static exg_argument tensor_or_none(exg_value_id id)
{
    return id == EXG_NO_VALUE ? exg_arg_none()
                              : (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
}

/* A node that makes `result` of the parts, or what `indices` (NULL: all) look up in them. */
static exg_status add_node(taking *t, const stored *s, const exg_argument *indices,
                           exg_value_id result, const exg_node *like)
{
    exg_arena *arena = t->program->arena;
    exg_argument output = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = result};
    exg_named_argument inputs[7];
    uint32_t count = 0;
    exg_node *node = &t->nodes[t->node_count++];

#define GIVE(key, value)                                                                           \
    inputs[count++] = (exg_named_argument)                                                         \
    {                                                                                              \
        .name = (key), .arg = (value), .kind = EXG_KIND_POSITIONAL                                 \
    }
    for (int part = 0; part < EXG_BLOCK_PARTS; part++) {
        GIVE(part_names[part], tensor_or_none(s->parts[part]));
    }
    if (indices != NULL) {
        GIVE("indices", *indices);
    }
    GIVE("zero_point", exg_arg_int(s->groups->zero));
    GIVE("is_packed", exg_arg_bool(s->groups->is_packed));
    GIVE("dtype", exg_arg_dtype(t->program->graph->values[result].tensor->dtype));
#undef GIVE
    *node = like != NULL ? *like : (exg_node){.is_hop_single_tensor_return = EXG_UNSET};
    node->target = indices != NULL ? "torch.ops.exg.embedding_groups.default"
                                   : "torch.ops.exg.dequantize_groups.default";
    node->inputs = exg_arena_memdup(arena, inputs, count, sizeof(*inputs));
    node->input_count = count;
    node->outputs = exg_arena_memdup(arena, &output, 1, sizeof(output));
    node->output_count = 1;
    return node->inputs == NULL || node->outputs == NULL ? EXG_OUT_OF_MEMORY(t->err) : EXG_OK;
}

static exg_status write_node(taking *t, const exg_node *node)
{
    const stored *s = strcmp(node->target, EMBEDDING) == 0 && node->input_count > 1 &&
                              node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR &&
                              node->inputs[1].arg.kind == EXG_ARGUMENT_TENSOR &&
                              node->output_count == 1 &&
                              node->outputs[0].kind == EXG_ARGUMENT_TENSOR
                          ? &t->of[node->inputs[0].arg.as_tensor]
                          : NULL;

    if (s != NULL && s->giver != NULL) {
        return add_node(t, s, &node->inputs[1].arg, node->outputs[0].as_tensor, node);
    }
    t->nodes[t->node_count++] = *node;
    return EXG_OK;
}

/* ---- all ------------------------------------------------------------------------------------ */

static exg_status prepare(taking *t)
{
    const exg_graph *graph = t->program->graph;
    exg_arena *arena = t->program->arena;
    uint32_t values;

    EXG_TRY(exg_input_parts_begin(&t->inputs, t->program, EXG_BLOCK_PARTS, &values, t->err));
    t->of = EXG_NEW_ARRAY(arena, stored, values);
    t->nodes = EXG_NEW_ARRAY(arena, exg_node, graph->input_count + graph->node_count);
    exg_map_init(&t->taken, arena);
    return t->of == NULL || t->nodes == NULL ? EXG_OUT_OF_MEMORY(t->err) : EXG_OK;
}

static exg_status take_input(taking *t, uint32_t i)
{
    exg_graph *graph = t->program->graph;
    const exg_block_groups *groups;
    const exg_weight *giver = giver_of(t, i, &groups);
    stored *s;

    if (giver == NULL) {
        exg_input_parts_keep(&t->inputs, i);
        return EXG_OK;
    }
    s = &t->of[graph->inputs[i].as_tensor];
    *s = (stored){.giver = giver, .groups = groups};
    for (exg_block_part part = 0; part < EXG_BLOCK_PARTS; part++) {
        s->parts[part] = EXG_NO_VALUE;
        if (part != EXG_BLOCK_OFFSETS || groups->has_offsets) {
            EXG_TRY(add_part(t, i, s, part));
        }
    }
    if (!exg_map_put(&t->taken, t->program->signature.inputs[i].target, i)) {
        return EXG_OUT_OF_MEMORY(t->err);
    }
    return add_node(t, s, NULL, graph->inputs[i].as_tensor, NULL);
}

static exg_status keep_others(const taking *t, const exg_weights *of, exg_weights *to)
{
    for (uint32_t i = 0; i < of->count; i++) {
        if (of->items[i].table != EXG_TABLE_STATE ||
            exg_map_find(&t->taken, of->items[i].fqn) == EXG_MAP_NONE) {
            EXG_TRY(exg_weights_add(to, &of->items[i], t->err));
        }
    }
    return EXG_OK;
}

static exg_status take(taking *t)
{
    exg_graph *graph = t->program->graph;

    EXG_TRY(exg_weights_beside(t->program->weights, &t->own, t->err));
    EXG_TRY(exg_weights_beside(t->from, &t->rest, t->err));
    EXG_TRY(exg_weights_retain_in(t->own, t->from, t->err));
    EXG_TRY(prepare(t));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        EXG_TRY(take_input(t, i));
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY(write_node(t, &graph->nodes[n]));
    }
    EXG_TRY(keep_others(t, t->program->weights, t->own));
    return keep_others(t, t->from, t->rest);
}

exg_status exg_program_take_blocks(exg_program *program, exg_weights *from, exg_weights **rest,
                                   exg_error *err)
{
    EXG_REQUIRE(err, program, from, rest);
    taking t = {.program = program, .from = from, .err = err};
    exg_graph *graph = program->graph;
    exg_status status;

    *rest = NULL;
    if (program->signature.input_count != graph->input_count) {
        return EXG_FAIL(err, MALFORMED, "SIG-001", "the signature has %u inputs, the graph %u",
                        program->signature.input_count, graph->input_count);
    }
    status = take(&t);
    if (status != EXG_OK) {
        exg_weights_release(t.own);
        exg_weights_release(t.rest);
        return status;
    }
    if (t.inputs.count == graph->input_count) { /* none comes in blocks */
        exg_weights_release(t.own);
        *rest = t.rest;
        return EXG_OK;
    }
    exg_input_parts_end(&t.inputs);
    graph->nodes = t.nodes;
    graph->node_count = t.node_count;
    exg_weights_release(program->weights);
    program->weights = t.own;
    *rest = t.rest;
    return EXG_OK;
}
