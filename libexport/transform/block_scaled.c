/* block_scaled.c - torchao's MXTensor and NVFP4Tensor are no part of PyTorch's way to take tensor
 * subclasses apart: programs call operators on them. What these then do, torchao's dispatch says:
 * a linear layer brings its input to blocks as well where the weight says how. */
#include "libexport/transform/block_scaled.h"
#include "libexport/base/arena.h"
#include "libexport/formats/pt2/subclass.h"
#include "libexport/transform/input_parts.h"
#include "libexport/weights/storage.h"

#include <ctype.h>
#include <exg/operators.h>
#include <exg/transform.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_MX    "torchao.prototype.mx_formats.mx_tensor.MXTensor"
#define CLASS_NVFP4 "torchao.prototype.mx_formats.nvfp4_tensor.NVFP4Tensor"
#define PARTS       4

static const char *const part_names[PARTS] = {"qdata", "scale", "per_tensor_scale",
                                              "act_per_tensor_scale"};

enum { QDATA, SCALE, WHOLE, ACT_WHOLE };

/* One weight. */
typedef struct blocks {
    const char *fqn;
    exg_value_id part[PARTS];        /* EXG_NO_VALUE: it has none */
    const char *elements, *rounding; /* rounding NULL: inputs of products stay as they are */
    int64_t block_size;
    bool is_swizzled;
} blocks;

typedef struct writing {
    exg_program *program;
    exg_weights *inside;
    blocks **of;     /* by value: what it stands for; NULL: a plain tensor */
    bool *is_turned; /* beside: transposed */
    exg_input_parts inputs;
    exg_node *nodes;
    uint32_t node_count;
    exg_error *err;
} writing;

/* ---- what the pickle says ------------------------------------------------------------------- */

static const char *attribute(const exg_string_map *attributes, const char *key)
{
    for (uint32_t i = 0; i < attributes->count; i++) {
        if (strcmp(attributes->items[i].key, key) == 0) {
            return attributes->items[i].value;
        }
    }
    return "";
}

static bool is_true(const exg_string_map *attributes, const char *key)
{
    const char *value = attribute(attributes, key);

    return strcmp(value, "True") == 0 || strcmp(value, "true") == 0;
}

/* "torch.float8_e4m3fn" is "float8_e4m3fn". */
static const char *without_torch(const char *dtype)
{
    return strncmp(dtype, "torch.", 6) == 0 ? dtype + 6 : dtype;
}

static exg_status refuse(exg_error *err, const char *name, const char *how)
{
    return exg_error_fix(
        err, EXG_FAIL(err, UNSUPPORTED, "TRF-002", "'%s' is a tensor subclass %s", name, how),
        "call its dequantize() before, or use it in linear, mm, matmul or addmm alone");
}

/* ScaleCalculationMode('rceil'): a word of block_scaled.def. */
static const char *mode_of(const char *text)
{
    static const char *const modes[] = {"rceil", "floor", "ceil", "even"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strstr(text, modes[i]) != NULL) {
            return modes[i];
        }
    }
    return NULL;
}

/* How an input is brought to blocks: act_quant_kwargs. */
static exg_status read_rounding(writing *w, blocks *b, const exg_string_map *a, bool is_mx)
{
    const char *size = attribute(a, "act_quant_kwargs.block_size");

    if (size[0] == '\0') {
        return EXG_OK;
    }
    b->rounding = !is_mx ? is_true(a, "act_quant_kwargs.use_dynamic_per_tensor_scale")
                               ? "nvfp4 dynamic"
                               : "nvfp4"
                         : mode_of(attribute(a, "act_quant_kwargs.scaling_mode"));
    if (b->rounding == NULL || strtoll(size, NULL, 10) != b->block_size ||
        (is_mx &&
         strcmp(without_torch(attribute(a, "act_quant_kwargs.elem_dtype")), b->elements) != 0)) {
        return refuse(w->err, b->fqn, "whose inputs are quantized otherwise than it is");
    }
    return EXG_OK;
}

/* *made is NULL where it is of another class. */
static exg_status describe(writing *w, const exg_weight *weight, blocks **made)
{
    exg_arena *arena = w->program->arena;
    exg_string_map attributes;
    const char *type;
    bool is_mx;

    *made = NULL;
    EXG_TRY(exg_weight_attributes(w->program->weights, weight, arena, &type, &attributes, w->err));
    is_mx = type != NULL && strcmp(type, CLASS_MX) == 0;
    if (type == NULL || (!is_mx && strcmp(type, CLASS_NVFP4) != 0)) {
        return EXG_OK;
    }
    *made = EXG_NEW(arena, blocks);
    if (*made == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    (*made)->fqn = weight->fqn;
    (*made)->elements =
        is_mx ? without_torch(attribute(&attributes, "elem_dtype")) : "float4_e2m1fn_x2";
    (*made)->block_size = strtoll(attribute(&attributes, "block_size"), NULL, 10);
    (*made)->is_swizzled = is_true(&attributes, "is_swizzled_scales");
    return read_rounding(w, *made, &attributes, is_mx);
}

/* ---- inputs --------------------------------------------------------------------------------- */

static const exg_weight *find(exg_weights *weights, const char *fqn)
{
    const exg_weight *weight = exg_weights_find(weights, EXG_TABLE_STATE, fqn);

    return weight != NULL ? weight : exg_weights_find(weights, EXG_TABLE_CONSTANTS, fqn);
}

/* The tensor inside as an input of the program. */
static exg_status add_part(writing *w, uint32_t input, const char *fqn, uint32_t part,
                           exg_value_id *id)
{
    exg_arena *arena = w->program->arena;
    const char *path = exg_arena_printf(arena, "%s.%s", fqn, part_names[part]);
    const exg_weight *weight = path == NULL ? NULL : find(w->inside, path);

    *id = EXG_NO_VALUE;
    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    if (weight == NULL) {
        return part <= SCALE ? refuse(w->err, fqn, "without qdata and scale") : EXG_OK;
    }
    return exg_input_parts_add(&w->inputs, input, part_names[part], path,
                               exg_tensor_meta_copy(arena, weight->meta), id);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static exg_argument tensor(exg_value_id id)
{
    return id == EXG_NO_VALUE ? exg_arg_none()
                              : (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
}

static exg_argument text(const char *word)
{
    return (exg_argument){.kind = EXG_ARGUMENT_STRING, .as_string = word};
}

/* A node that gives `output`, its arguments by position. */
static exg_status add_node(writing *w, const char *target, const exg_named_argument *inputs,
                           uint32_t count, exg_argument output, const exg_node *like)
{
    exg_node *node = &w->nodes[w->node_count++];

    *node = like != NULL ? *like : (exg_node){.is_hop_single_tensor_return = EXG_UNSET};
    node->target = target;
    node->inputs = exg_arena_memdup(w->program->arena, inputs, count, sizeof(*inputs));
    node->input_count = count;
    node->outputs = exg_arena_memdup(w->program->arena, &output, 1, sizeof(output));
    node->output_count = 1;
    return node->inputs == NULL || node->outputs == NULL ? EXG_OUT_OF_MEMORY(w->err) : EXG_OK;
}

#define GIVEN(key, value)                                                                          \
    (exg_named_argument)                                                                           \
    {                                                                                              \
        .name = (key), .arg = (value), .kind = EXG_KIND_POSITIONAL                                 \
    }

static exg_status dequantize(writing *w, const blocks *b, exg_value_id id)
{
    const exg_tensor_meta *meta = w->program->graph->values[id].tensor;
    const exg_named_argument inputs[] = {
        GIVEN("qdata", tensor(b->part[QDATA])),
        GIVEN("scale", tensor(b->part[SCALE])),
        GIVEN("per_tensor_scale", tensor(b->part[WHOLE])),
        GIVEN("elements", text(b->elements)),
        GIVEN("block_size", exg_arg_int(b->block_size)),
        GIVEN("is_swizzled_scales", exg_arg_bool(b->is_swizzled)),
        GIVEN("dtype", exg_arg_dtype(meta->dtype)),
    };

    return add_node(w, "torch.ops.exg.dequantize_blocks.default", inputs,
                    sizeof(inputs) / sizeof(inputs[0]), tensor(id), NULL);
}

static exg_status product(writing *w, const exg_node *node, const exg_argument *x, const blocks *b,
                          const exg_argument *bias)
{
    const exg_named_argument inputs[] = {
        GIVEN("input", *x),
        GIVEN("qdata", tensor(b->part[QDATA])),
        GIVEN("scale", tensor(b->part[SCALE])),
        GIVEN("bias", bias == NULL ? exg_arg_none() : *bias),
        GIVEN("per_tensor_scale", tensor(b->part[WHOLE])),
        GIVEN("act_per_tensor_scale", tensor(b->part[ACT_WHOLE])),
        GIVEN("elements", text(b->elements)),
        GIVEN("block_size", exg_arg_int(b->block_size)),
        GIVEN("is_swizzled_scales", exg_arg_bool(b->is_swizzled)),
        GIVEN("rounding", text(b->rounding)),
    };

    return add_node(w, "torch.ops.exg.linear_blocks.default", inputs,
                    sizeof(inputs) / sizeof(inputs[0]), node->outputs[0], node);
}

/* What operators do with such a weight. */
typedef struct form {
    const char *target;
    int weight;     /* which argument it is */
    int bias;       /* and which is added; -1: none */
    bool is_turned; /* it is taken as (in, out) */
    bool is_view;   /* the result is the weight again; is_turned: transposed */
} form;

static const form forms[] = {
    {"torch.ops.aten.linear.default", 1, 2, false, false},
    {"torch.ops.aten.mm.default", 1, -1, true, false},
    {"torch.ops.aten.matmul.default", 1, -1, true, false},
    {"torch.ops.aten.addmm.default", 2, 0, true, false},
    {"torch.ops.aten.detach.default", 0, -1, false, true},
    {"torch.ops.aten.detach_.default", 0, -1, false, true},
    {"torch.ops.aten.alias.default", 0, -1, false, true},
    {"torch.ops.aten.clone.default", 0, -1, false, true},
    {"torch.ops.aten.t.default", 0, -1, true, true},
    {"torch.ops.aten.numpy_T.default", 0, -1, true, true},
    {"torch.ops.aten.mT.default", 0, -1, true, true},
    {"torch.ops.aten.transpose.int", 0, -1, true, true},
};

typedef struct look {
    const writing *w;
    uint32_t count; /* of uses of such weights */
    const char *fqn;
} look;

static void look_for(void *user, exg_value_id *id)
{
    look *l = user;

    if (*id != EXG_NO_VALUE && l->w->of[*id] != NULL) {
        l->count++;
        l->fqn = l->w->of[*id]->fqn;
    }
}

static const form *form_of(const exg_node *node)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(node->target, forms[i].target) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

static exg_status write_node(writing *w, exg_node *node)
{
    const form *f = form_of(node);
    look l = {.w = w};
    exg_value_id weight;
    bool is_turned;

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, look_for, &l);
    }
    if (l.count == 0) {
        w->nodes[w->node_count++] = *node;
        return EXG_OK;
    }
    if (f == NULL || l.count > 1 || (uint32_t)f->weight >= node->input_count ||
        node->inputs[f->weight].arg.kind != EXG_ARGUMENT_TENSOR ||
        w->of[node->inputs[f->weight].arg.as_tensor] == NULL || node->output_count != 1 ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR) {
        return refuse(w->err, l.fqn, "with quantized inputs, and used as a whole");
    }
    weight = node->inputs[f->weight].arg.as_tensor;
    is_turned = w->is_turned[weight] != f->is_turned;
    if (f->is_view) {
        w->of[node->outputs[0].as_tensor] = w->of[weight];
        w->is_turned[node->outputs[0].as_tensor] = is_turned;
        return EXG_OK;
    }
    if (is_turned || (f->bias == 0 && node->input_count > 3)) { /* beta and alpha */
        return refuse(w->err, l.fqn, "with quantized inputs, and multiplied along its rows");
    }
    return product(
        w, node, &node->inputs[f->bias == 0 ? 1 : 0].arg, w->of[weight],
        f->bias >= 0 && (uint32_t)f->bias < node->input_count ? &node->inputs[f->bias].arg : NULL);
}

/* ---- the program ---------------------------------------------------------------------------- */

/* The pickled weight of an input of which the program asks for no tensor inside, or NULL. */
static const exg_weight *whole_weight(const exg_program *program, uint32_t input,
                                      const bool *is_accessed)
{
    const exg_input_spec *spec = &program->signature.inputs[input];
    const exg_argument *arg = &program->graph->inputs[input];
    const exg_weight *weight =
        spec->target == NULL || arg->kind != EXG_ARGUMENT_TENSOR || is_accessed[arg->as_tensor] ||
                (spec->kind != EXG_INPUT_PARAMETER && spec->kind != EXG_INPUT_BUFFER &&
                 spec->kind != EXG_INPUT_CONSTANT_TENSOR)
            ? NULL
            : find(program->weights, spec->target);

    return weight != NULL && weight->use_pickle && weight->meta != NULL &&
                   program->graph->values[arg->as_tensor].tensor != NULL
               ? weight
               : NULL;
}

static exg_status prepare(writing *w, bool **is_accessed)
{
    exg_graph *graph = w->program->graph;
    exg_arena *arena = w->program->arena;
    uint32_t values;

    EXG_TRY(exg_input_parts_begin(&w->inputs, w->program, PARTS, &values, w->err));
    *is_accessed = EXG_NEW_ARRAY(arena, bool, values);
    w->of = EXG_NEW_ARRAY(arena, blocks *, values);
    w->is_turned = EXG_NEW_ARRAY(arena, bool, values);
    w->nodes = EXG_NEW_ARRAY(arena, exg_node, graph->input_count + graph->node_count);
    if (*is_accessed == NULL || w->of == NULL || w->is_turned == NULL || w->nodes == NULL) {
        return EXG_OUT_OF_MEMORY(w->err);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (strcmp(node->target, EXG_ACCESS_SUBCLASS) == 0 && node->input_count > 0 &&
            node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR) {
            (*is_accessed)[node->inputs[0].arg.as_tensor] = true;
        }
    }
    return EXG_OK;
}

static exg_status write_input(writing *w, uint32_t input, const bool *is_accessed)
{
    const exg_weight *weight = whole_weight(w->program, input, is_accessed);
    exg_value_id id = w->program->graph->inputs[input].as_tensor;
    blocks *made = NULL;

    if (weight != NULL) {
        EXG_TRY(describe(w, weight, &made));
    }
    if (made == NULL) {
        exg_input_parts_keep(&w->inputs, input);
        return EXG_OK;
    }
    for (uint32_t part = 0; part < PARTS; part++) {
        EXG_TRY(add_part(w, input, weight->fqn, part, &made->part[part]));
    }
    if (made->rounding != NULL) {
        w->of[id] = made;
        return EXG_OK;
    }
    return dequantize(w, made, id);
}

exg_status exg_write_out_block_scaled(exg_program *program, exg_weights *inside, exg_error *err)
{
    exg_graph *graph = program->graph;
    writing w = {.program = program, .inside = inside, .err = err};
    look l = {.w = &w};
    bool *is_accessed;

    EXG_TRY(prepare(&w, &is_accessed));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        EXG_TRY(write_input(&w, i, is_accessed));
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY(write_node(&w, &graph->nodes[n]));
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], look_for, &l);
    }
    if (l.count > 0) {
        return refuse(err, l.fqn, "with quantized inputs, and a result of the program");
    }
    exg_input_parts_end(&w.inputs);
    graph->nodes = w.nodes;
    graph->node_count = w.node_count;
    return EXG_OK;
}
