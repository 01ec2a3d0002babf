/* encode_argument.c - graphs, arguments and metas in the words of the early schema.
 *
 * What it has no words for is left out of a list, or is None in a place; the carry has it
 * all (S002-109).
 */
#include "libexport/formats/early/early.h"
#include "libexport/formats/pt2/encode.h"

#include <stdlib.h>
#include <string.h>

/* ---- enums and tensors ---------------------------------------------------------------------- */

static const char *dtype_name(exg_dtype dtype)
{
    static const char *const names[] = {
        [EXG_DTYPE_UNKNOWN] = "",
#define EXG_DTYPE(id, number, early, torch, safetensors, numpy, bytes, kind)                       \
    [EXG_DTYPE_##id] = early,
#include <exg/dtype.def>
#undef EXG_DTYPE
    };

    return names[dtype];
}

bool exg_early_says_meta(const exg_tensor_meta *meta)
{
    return dtype_name(meta->dtype)[0] != '\0' && meta->layout != EXG_LAYOUT_UNKNOWN;
}

static void put_name(exg_text *out, const char *name)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", name);
    exg_json_put_close(out, '}');
}

static void put_sym_int(exg_text *out, const exg_sym_int *sym)
{
    exg_json_put_open(out, '{');
    if (sym->expr == NULL) {
        exg_json_member_int(out, "as_int", sym->value);
    } else {
        exg_json_member_text(out, "as_sym", sym->expr);
    }
    exg_json_put_close(out, '}');
}

#define AT(type) (*(const type *)at)

/* What the early schema writes otherwise; `user` has the names of values by their ids. */
static bool put_early(const exg_encoder *e, exg_model_type type, const void *at)
{
    const char *const *names = e->user;

    switch (type) {
    case EXG_MODEL_VALUE:
        put_name(e->out, names[AT(exg_value_id)]);
        return true;
    case EXG_MODEL_SYM_INT_ARGUMENT:
        put_name(e->out, names[AT(exg_sym_argument).value]);
        return true;
    case EXG_MODEL_SYM_INT:
        put_sym_int(e->out, at);
        return true;
    case EXG_MODEL_DTYPE:
        exg_json_put_text(e->out, dtype_name(AT(exg_dtype)));
        return true;
    case EXG_MODEL_LAYOUT:
        exg_json_put_text(e->out, exg_layout_name(AT(exg_layout)));
        return true;
    case EXG_MODEL_MEMORY_FORMAT:
        exg_json_put_text(e->out, exg_memory_format_name(AT(exg_memory_format)));
        return true;
    case EXG_MODEL_DEVICE_INDEX:
        exg_json_put_int(e->out, AT(int64_t));
        return true;
    default:
        return false;
    }
}

void exg_early_put_meta(exg_text *out, const exg_tensor_meta *meta)
{
    exg_ignore(exg_encode_thing(&(exg_encoder){.out = out, .put = put_early}, EXG_MODEL_TENSOR_META,
                                meta));
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* The names of all items, or the numbers: an early list has one of the two (S002-39). */
static bool all_named(const exg_argument *arg, bool named)
{
    for (uint32_t i = 0; i < arg->count; i++) {
        if ((arg->as_syms[i].value != EXG_NO_VALUE) != named) {
            return false;
        }
    }
    return true;
}

static const char *early_tag(exg_argument_kind kind)
{
    static const char *const tags[] = {
#define EXG_ARGUMENT(id, tag, early, number, type, form) [EXG_ARGUMENT_##id] = #early,
#include <exg/argument.def>
#undef EXG_ARGUMENT
    };

    return tags[kind];
}

bool exg_early_says_argument(const exg_argument *arg)
{
    switch (arg->kind) {
    case EXG_ARGUMENT_SYM_INT:
        return arg->as_sym.value != EXG_NO_VALUE;
    case EXG_ARGUMENT_SYM_INTS:
        return all_named(arg, true);
    case EXG_ARGUMENT_SCALAR_TYPE:
        return dtype_name(arg->as_scalar_type)[0] != '\0';
    case EXG_ARGUMENT_MEMORY_FORMAT:
        return arg->as_memory_format != EXG_MEMORY_FORMAT_UNKNOWN;
    case EXG_ARGUMENT_LAYOUT:
        return arg->as_layout != EXG_LAYOUT_UNKNOWN;
    default: /* those whose kind decides */
        return early_tag(arg->kind)[0] != '\0';
    }
}

static void put_argument(exg_text *out, const char *const *names, const exg_argument *arg)
{
    exg_argument plain = *arg;
    int64_t *ints = NULL;

    /* Constants among symbols are plain numbers here. */
    if (arg->kind == EXG_ARGUMENT_SYM_INT && arg->as_sym.value == EXG_NO_VALUE) {
        plain.kind = EXG_ARGUMENT_INT;
        plain.as_int = arg->as_sym.as_int;
    } else if (arg->kind == EXG_ARGUMENT_SYM_INTS && arg->count > 0 && all_named(arg, false)) {
        ints = calloc(arg->count, sizeof(*ints));
        out->failed = out->failed || ints == NULL;
        for (uint32_t i = 0; ints != NULL && i < arg->count; i++) {
            ints[i] = arg->as_syms[i].as_int;
        }
        plain.kind = EXG_ARGUMENT_INTS;
        plain.as_ints = ints;
        plain.count = ints == NULL ? 0 : arg->count;
    } else if (!exg_early_says_argument(arg)) {
        plain.kind = EXG_ARGUMENT_NONE;
    }
    exg_json_put_open(out, '{');
    exg_json_put_key(out, early_tag(plain.kind));
    exg_ignore(exg_encode_items(&(exg_encoder){.out = out, .put = put_early, .user = names},
                                exg_argument_items(&plain)));
    exg_json_put_close(out, '}');
    free(ints);
}

/* An input of a node; `lifted` of the last operands are not written. */
static exg_status put_input(const exg_early_scope *scope, exg_text *out, const exg_node *node,
                            uint32_t input, uint32_t lifted)
{
    exg_argument arg = node->inputs[input].arg;

    if (arg.kind == EXG_ARGUMENT_GRAPH) {
        exg_json_put_open(out, '{');
        exg_json_put_key(out, "as_gm");
        EXG_TRY(exg_early_put_branch(scope, out, node, input));
        exg_json_put_close(out, '}');
        return EXG_OK;
    }
    arg.count -= lifted;
    put_argument(out, scope->names, &arg);
    return EXG_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool is_own_key(const char *key)
{
    return strcmp(key, "stack_trace") == 0 || strcmp(key, "nn_module_stack") == 0;
}

static const char *find(const exg_string_map *map, const char *key)
{
    for (uint32_t i = 0; i < map->count; i++) {
        if (strcmp(map->items[i].key, key) == 0) {
            return map->items[i].value;
        }
    }
    return "";
}

static void put_metadata(exg_text *out, const exg_string_map *map)
{
    size_t prefix = strlen(EXG_EARLY_EXTRA);

    exg_json_put_open(out, '{');
    exg_json_member_text(out, "stack_trace", find(map, "stack_trace"));
    exg_json_member_text(out, "nn_module_stack", find(map, "nn_module_stack"));
    exg_json_member_open(out, "extra", '{');
    for (uint32_t i = 0; i < map->count; i++) {
        const char *key = map->items[i].key;

        if (!is_own_key(key)) {
            bool apart = strncmp(key, EXG_EARLY_EXTRA, prefix) == 0 && is_own_key(key + prefix);

            exg_json_put_key(out, apart ? key + prefix : key);
            exg_json_put_text(out, map->items[i].value);
        }
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

static exg_status put_inputs(const exg_early_scope *scope, exg_text *out, const exg_node *node)
{
    uint32_t last = 0;
    uint32_t lifted = exg_early_lifted(scope, node, &last);
    bool in_list = lifted > 0 && node->inputs[last].arg.kind == EXG_ARGUMENT_TENSORS;

    exg_json_member_open(out, "args", '[');
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool is_lifted = !in_list && lifted > 0 && i <= last && last - i < lifted;

        if (node->inputs[i].kind != EXG_KIND_KEYWORD && !is_lifted) {
            EXG_TRY(put_input(scope, out, node, i, in_list && i == last ? lifted : 0));
        }
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "kwargs", '{');
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            exg_json_put_key(out, node->inputs[i].name);
            EXG_TRY(put_input(scope, out, node, i, 0));
        }
    }
    exg_json_put_close(out, '}');
    return EXG_OK;
}

static exg_status put_node(const exg_early_scope *scope, exg_text *out, const exg_node *node)
{
    const char *target = node->target;
    size_t prefix = strlen(EXG_EARLY_LONG);

    exg_json_put_open(out, '{');
    exg_json_put_key(out, "target");
    exg_json_put_text(out, strncmp(target, EXG_EARLY_LONG, prefix) == 0 ? target + prefix : target);
    EXG_TRY(put_inputs(scope, out, node));
    exg_json_member_open(out, "outputs", '[');
    for (uint32_t i = 0; i < node->output_count; i++) {
        const exg_argument *result = &node->outputs[i];

        if (result->kind == EXG_ARGUMENT_TENSOR || result->kind == EXG_ARGUMENT_TENSORS ||
            (result->kind == EXG_ARGUMENT_SYM_INT && exg_early_says_argument(result))) {
            put_argument(out, scope->names, result);
        }
    }
    exg_json_put_close(out, ']');
    exg_json_put_key(out, "metadata");
    put_metadata(out, &node->metadata);
    exg_json_put_close(out, '}');
    return EXG_OK;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void put_values(const exg_early_scope *scope, exg_text *out, const exg_graph *graph)
{
    exg_json_member_open(out, "tensor_values", '[');
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const exg_tensor_meta *meta = graph->values[i].tensor;

        if (meta != NULL && exg_early_says_meta(meta) &&
            (scope->flags[i] & EXG_EARLY_NO_VALUE) == 0) {
            exg_json_put_open(out, '{');
            exg_json_member_text(out, "name", scope->names[i]);
            exg_json_put_key(out, "meta");
            exg_early_put_meta(out, meta);
            exg_json_put_close(out, '}');
        }
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "symint_values", '[');
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (graph->values[i].sym_int != NULL) {
            exg_json_put_open(out, '{');
            exg_json_member_text(out, "name", scope->names[i]);
            exg_json_put_key(out, "value");
            put_sym_int(out, graph->values[i].sym_int);
            exg_json_put_close(out, '}');
        }
    }
    exg_json_put_close(out, ']');
}

exg_status exg_early_put_graph(const exg_early_scope *scope, exg_text *out, const exg_graph *graph)
{
    const char *const *names = scope->names;

    exg_json_put_open(out, '{');
    exg_json_member_open(out, "inputs", '[');
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR &&
            (scope->flags[graph->inputs[i].as_tensor] & EXG_EARLY_NO_INPUT) == 0) {
            put_name(out, names[graph->inputs[i].as_tensor]);
        }
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "outputs", '[');
    for (uint32_t i = 0; i < graph->output_count; i++) {
        if (graph->outputs[i].kind == EXG_ARGUMENT_TENSOR) {
            put_name(out, names[graph->outputs[i].as_tensor]);
        }
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "nodes", '[');
    for (uint32_t i = 0; i < graph->node_count; i++) {
        EXG_TRY_IN(scope->e->err, put_node(scope, out, &graph->nodes[i]), "nodes[%u]", i);
    }
    exg_json_put_close(out, ']');
    put_values(scope, out, graph);
    exg_json_put_close(out, '}');
    return EXG_OK;
}
