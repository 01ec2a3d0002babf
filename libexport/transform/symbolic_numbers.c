/* symbolic_numbers.c - programs of several numbers, compared: the same but for numbers, which
 * become sizes in symbols and values. */
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/origin.h"
#include "libexport/transform/symbolic_stage.h"

#include <inttypes.h>
#include <string.h>

/* ---- the same but for numbers --------------------------------------------------------------- */

exg_status exg_symbolic_refuse(exg_symbolic *s, const exg_node *node, const char *what)
{
    s->culprit = exg_node_source(node);
    return exg_error_at_node(s->err,
                             EXG_FAIL(s->err, UNSUPPORTED, "TRF-006",
                                      "what a stage makes of the program depends on its sizes: "
                                      "%s of %s",
                                      what, node->target),
                             node);
}

static bool is_same_text(const exg_symbolic *s, const exg_argument *const *args)
{
    exg_text first = EXG_TEXT_EMPTY;
    bool same = true;

    exg_print_argument(&first, s->made[0]->graph, args[0]);
    for (uint32_t k = 1; same && k < s->count; k++) {
        exg_text other = EXG_TEXT_EMPTY;

        exg_print_argument(&other, s->made[k]->graph, args[k]);
        same = !first.failed && !other.failed &&
               strcmp(exg_text_string(&first), exg_text_string(&other)) == 0;
        exg_text_free(&other);
    }
    exg_text_free(&first);
    return same;
}

/* May one stand for all, but for the numbers that they are? */
static bool is_same(const exg_symbolic *s, const exg_argument *const *args)
{
    for (uint32_t k = 1; k < s->count; k++) {
        if (args[k]->kind != args[0]->kind || args[k]->count != args[0]->count) {
            return false;
        }
    }
    switch (args[0]->kind) {
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_INTS:
    case EXG_ARGUMENT_FLOAT:
        return true;
    case EXG_ARGUMENT_TENSOR:
        for (uint32_t k = 1; k < s->count; k++) {
            if (args[k]->as_tensor != args[0]->as_tensor) {
                return false;
            }
        }
        return true;
    default:
        return s->count == 1 || is_same_text(s, args);
    }
}

static bool is_constant(const exg_symbolic *s, const int64_t *numbers)
{
    bool constant = true;

    for (uint32_t k = 1; constant && k < s->count; k++) {
        constant = numbers[k] == numbers[0];
    }
    return constant;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* The value that is `numbers`, computed where it was not yet; `number` stays where they are one. */
static exg_status put_number(exg_symbolic *s, const exg_node *node, const int64_t *numbers,
                             exg_argument *number)
{
    const char *text;

    if (is_constant(s, numbers)) {
        *number = exg_arg_int(numbers[0]);
        return EXG_OK;
    }
    EXG_TRY(exg_size_fit_find(&s->fit, numbers, &text, s->err));
    if (text == NULL) {
        return exg_symbolic_refuse(s, node, "a number");
    }
    return exg_size_nodes_put(&s->nodes, text, number);
}

static exg_status put_numbers(exg_symbolic *s, const exg_node *node,
                              const exg_argument *const *args, exg_argument *out)
{
    exg_sym_argument *items = EXG_NEW_ARRAY(s->made[0]->arena, exg_sym_argument, out->count);
    bool all_constant = true;

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        int64_t numbers[EXG_SAMPLES_MAX];
        exg_argument number;

        for (uint32_t k = 0; k < s->count; k++) {
            numbers[k] = args[k]->as_ints[i];
        }
        EXG_TRY(put_number(s, node, numbers, &number));
        if (number.kind == EXG_ARGUMENT_INT) {
            items[i] = (exg_sym_argument){.value = EXG_NO_VALUE, .as_int = number.as_int};
        } else {
            items[i] = number.as_sym;
            all_constant = false;
        }
    }
    if (!all_constant) {
        out->kind = EXG_ARGUMENT_SYM_INTS;
        out->as_syms = items;
    }
    return EXG_OK;
}

static exg_status put_real(exg_symbolic *s, const exg_node *node, const exg_argument *const *args,
                           exg_argument *out)
{
    double values[EXG_SAMPLES_MAX];
    const char *text;

    for (uint32_t k = 0; k < s->count; k++) {
        values[k] = args[k]->as_float;
    }
    EXG_TRY(exg_size_fit_find_real(&s->fit, values, &text, s->err));
    return text == NULL ? exg_symbolic_refuse(s, node, "a number")
                        : exg_size_nodes_put(&s->nodes, text, out);
}

exg_status exg_symbolic_argument(exg_symbolic *s, const exg_node *node,
                                 const exg_argument *const *args, exg_argument *out)
{
    int64_t numbers[EXG_SAMPLES_MAX];
    bool differs = false;

    if (!is_same(s, args)) {
        return exg_symbolic_refuse(s, node, "an argument");
    }
    switch (out->kind) {
    case EXG_ARGUMENT_INT:
        for (uint32_t k = 0; k < s->count; k++) {
            numbers[k] = args[k]->as_int;
        }
        return put_number(s, node, numbers, out);
    case EXG_ARGUMENT_INTS:
        return put_numbers(s, node, args, out);
    case EXG_ARGUMENT_FLOAT:
        for (uint32_t k = 1; k < s->count; k++) {
            differs = differs || memcmp(&args[k]->as_float, &args[0]->as_float,
                                        sizeof(args[0]->as_float)) != 0;
        }
        return differs ? put_real(s, node, args, out) : EXG_OK;
    default:
        return EXG_OK;
    }
}

/* ---- sizes of values ------------------------------------------------------------------------ */

typedef struct maker {
    uint32_t value;
    bool found;
} maker;

static void look_for_value(void *user, exg_value_id *id)
{
    maker *m = user;

    m->found = m->found || *id == m->value;
}

/* What the value was made of is the culprit. */
static void accuse_maker(exg_symbolic *s, uint32_t value)
{
    const exg_graph *graph = s->made[0]->graph;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        maker m = {value, false};

        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++) {
            exg_argument output = graph->nodes[n].outputs[o];

            exg_argument_visit_values(&output, look_for_value, &m);
        }
        if (m.found) {
            s->culprit = exg_node_source(&graph->nodes[n]);
            return;
        }
    }
}

/* One size of all samples: a constant, or an expression. */
static exg_status put_size(exg_symbolic *s, uint32_t value, const exg_sym_int *const *sizes,
                           exg_sym_int *out)
{
    int64_t numbers[EXG_SAMPLES_MAX];
    const char *text;

    for (uint32_t k = 0; k < s->count; k++) {
        numbers[k] = sizes[k]->value;
    }
    if (is_constant(s, numbers)) {
        return EXG_OK;
    }
    EXG_TRY(exg_size_fit_find(&s->fit, numbers, &text, s->err));
    if (text == NULL) {
        accuse_maker(s, value);
        return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006",
                        "what a stage makes of the program depends on its sizes: one of '%s' is "
                        "%" PRId64 " and %" PRId64,
                        s->made[0]->graph->values[value].name, numbers[0], numbers[1]);
    }
    *out = exg_size_nodes_size(&s->nodes, text);
    return EXG_OK;
}

/* A stride that is no expression we find is the stride of another dim times its size, as of a
 * tensor that fills its memory. Strides that are smaller are known by now. */
static exg_status note_stride(exg_symbolic *s, exg_tensor_meta *const *metas, uint32_t d)
{
    int64_t wanted[EXG_SAMPLES_MAX], strides[EXG_SAMPLES_MAX], sizes[EXG_SAMPLES_MAX];
    const char *text, *stride, *size;

    for (uint32_t k = 0; k < s->count; k++) {
        wanted[k] = metas[k]->strides[d].value;
    }
    if (is_constant(s, wanted)) {
        return EXG_OK;
    }
    EXG_TRY(exg_size_fit_find(&s->fit, wanted, &text, s->err));
    for (uint32_t j = 0; text == NULL && j < metas[0]->rank; j++) {
        bool same = j != d;

        for (uint32_t k = 0; same && k < s->count; k++) {
            strides[k] = metas[k]->strides[j].value;
            sizes[k] = metas[k]->sizes[j].value;
            same = strides[k] * sizes[k] == wanted[k];
        }
        if (!same || is_constant(s, strides) || is_constant(s, sizes)) {
            continue;
        }
        EXG_TRY(exg_size_fit_find(&s->fit, strides, &stride, s->err));
        EXG_TRY(exg_size_fit_find(&s->fit, sizes, &size, s->err));
        if (stride != NULL && size != NULL) {
            text = exg_arena_printf(s->made[0]->arena, "Mul(%s, %s)", stride, size);
            EXG_TRY(exg_size_fit_note(&s->fit, wanted, text, s->err));
        }
    }
    return EXG_OK;
}

/* From the smallest on. */
static exg_status note_strides(exg_symbolic *s, exg_tensor_meta *const *metas)
{
    const exg_tensor_meta *last = metas[s->count - 1];
    uint32_t order[EXG_SHAPE_RANK_MAX];
    uint32_t rank = last->rank < EXG_SHAPE_RANK_MAX ? last->rank : EXG_SHAPE_RANK_MAX;

    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = i;

        for (; at > 0 && last->strides[order[at - 1]].value > last->strides[i].value; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    for (uint32_t i = 0; i < rank; i++) {
        EXG_TRY(note_stride(s, metas, order[i]));
    }
    return EXG_OK;
}

static exg_status put_meta(exg_symbolic *s, uint32_t v)
{
    exg_value *value = &s->made[0]->graph->values[v];
    exg_tensor_meta *metas[EXG_SAMPLES_MAX];
    const exg_sym_int *sizes[EXG_SAMPLES_MAX];

    if (value->tensor == NULL) {
        return EXG_OK;
    }
    for (uint32_t k = 0; k < s->count; k++) {
        metas[k] = s->made[k]->graph->values[v].tensor;
        if (metas[k] == NULL || metas[k]->rank != value->tensor->rank ||
            metas[k]->dtype != value->tensor->dtype) {
            accuse_maker(s, v);
            return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006",
                            "what a stage makes of the program depends on its sizes: '%s'",
                            value->name);
        }
    }
    value->tensor = exg_meta_copy(s->made[0]->arena, value->tensor);
    if (value->tensor == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(note_strides(s, metas));
    for (uint32_t d = 0; d < value->tensor->rank; d++) {
        for (uint32_t k = 0; k < s->count; k++) {
            sizes[k] = &metas[k]->sizes[d];
        }
        EXG_TRY(put_size(s, v, sizes, &value->tensor->sizes[d]));
        for (uint32_t k = 0; k < s->count; k++) {
            sizes[k] = &metas[k]->strides[d];
        }
        EXG_TRY(put_size(s, v, sizes, &value->tensor->strides[d]));
    }
    for (uint32_t k = 0; k < s->count; k++) {
        sizes[k] = &metas[k]->storage_offset;
    }
    return put_size(s, v, sizes, &value->tensor->storage_offset);
}

/* The first node that is another one in sample k. */
static void accuse_difference(exg_symbolic *s, uint32_t k)
{
    const exg_graph *a = s->made[0]->graph;
    const exg_graph *b = s->made[k]->graph;
    uint32_t n = 0;

    while (n < a->node_count && n < b->node_count &&
           strcmp(a->nodes[n].target, b->nodes[n].target) == 0 &&
           exg_node_source(&a->nodes[n]) == exg_node_source(&b->nodes[n])) {
        n++;
    }
    if (n < a->node_count || n < b->node_count) {
        uint32_t one = n < a->node_count ? exg_node_source(&a->nodes[n]) : UINT32_MAX;
        uint32_t other = n < b->node_count ? exg_node_source(&b->nodes[n]) : UINT32_MAX;

        s->culprit = one < other ? one : other; /* the later one is of what comes after */
    }
}

exg_status exg_symbolic_metas(exg_symbolic *s)
{
    for (uint32_t k = 1; k < s->count; k++) {
        const exg_graph *graph = s->made[k]->graph;

        if (graph->value_count != s->made[0]->graph->value_count ||
            graph->node_count != s->made[0]->graph->node_count ||
            graph->output_count != s->made[0]->graph->output_count) {
            accuse_difference(s, k);
            return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006",
                            "what a stage makes of the program depends on its sizes: %u nodes or "
                            "%u",
                            s->made[0]->graph->node_count, graph->node_count);
        }
    }
    for (uint32_t v = 0; s->count > 1 && v < s->made[0]->graph->value_count; v++) {
        EXG_TRY(put_meta(s, v));
    }
    return EXG_OK;
}
