/* autocast.c - what PyTorch converts the arguments of an operator to while autocast is on. */
#include "libexport/transform/autocast.h"
#include "libexport/base/prefix.h"

#include <exg/operators.h>
#include <string.h>

#define ATEN "torch.ops.aten."

typedef enum rule {
    RULE_NONE,
    RULE_LOWER,
    RULE_WIDER,
    RULE_PROMOTE,
    RULE_PRODUCT,
    RULE_WIDENED,
    RULE_RECORD, /* of other devices */
    RULE_NEVER,
} rule;

static const struct {
    const char *target;
    rule rule;
} rows[] = {
#define EXG_AUTOCAST(rule, name) {ATEN name, RULE_##rule},
#include "libexport/transform/autocast.def"
#undef EXG_AUTOCAST
};

/* Of a device that is no CPU the rows are not told apart: the record says what they do. */
static rule rule_of(const char *target, const char *device)
{
    bool is_cpu = strcmp(device, "cpu") == 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].target, target) == 0) {
            return is_cpu || rows[i].rule == RULE_NEVER ? rows[i].rule : RULE_RECORD;
        }
    }
    return RULE_NONE;
}

exg_autocast exg_autocast_of(const exg_node *node, const exg_autocast *outer)
{
    const exg_named_argument *inputs = node->inputs;
    exg_autocast mode = {.outer = outer, .device = "cpu"};

    if (node->input_count > 0 && inputs[0].arg.kind == EXG_ARGUMENT_STRING) {
        mode.device = inputs[0].arg.as_string;
    }
    mode.dtype = strcmp(mode.device, "cuda") == 0 ? EXG_DTYPE_F16 : EXG_DTYPE_BF16;
    if (node->input_count > 1 && inputs[1].arg.kind == EXG_ARGUMENT_SCALAR_TYPE) {
        mode.dtype = inputs[1].arg.as_scalar_type;
    }
    mode.is_on = node->input_count > 2 && exg_get_bool(&inputs[2].arg);
    return mode;
}

/* The innermost mode of the tensor's device, if it is on and the tensor one to convert. */
static const exg_autocast *covering(const exg_autocast *mode, const exg_tensor_meta *meta)
{
    const char *device = meta == NULL || meta->device.type == NULL ? "cpu" : meta->device.type;

    if (meta == NULL || (meta->dtype != EXG_DTYPE_F32 && meta->dtype != EXG_DTYPE_F16 &&
                         meta->dtype != EXG_DTYPE_BF16)) {
        return NULL;
    }
    while (mode != NULL && strcmp(mode->device, device) != 0) {
        mode = mode->outer;
    }
    return mode != NULL && mode->is_on ? mode : NULL;
}

bool exg_autocast_covers(const exg_autocast *mode, const exg_tensor_meta *meta)
{
    return covering(mode, meta) != NULL;
}

/* The arguments that are covered: by which mode, and which dtypes they have. */
typedef struct seen {
    const exg_autocast *mode;
    const exg_graph *graph;
    const exg_autocast *by; /* NULL: none is covered */
    const exg_tensor_meta *result;
    const bool *narrow;
    bool is_wide;    /* one is float32 */
    bool has_result; /* one has the result's dtype */
} seen;

static void see(void *user, exg_value_id *id)
{
    seen *s = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : s->graph->values[*id].tensor;
    const exg_autocast *by = covering(s->mode, meta);

    if (by != NULL) {
        s->by = by;
        s->is_wide =
            s->is_wide || (meta->dtype == EXG_DTYPE_F32 && (s->narrow == NULL || !s->narrow[*id]));
        s->has_result = s->has_result || (s->result != NULL && s->result->dtype == meta->dtype);
    }
}

/* What is recorded of the first result. */
static const exg_tensor_meta *result_of(const exg_graph *graph, const exg_node *node)
{
    const exg_argument *out = node->outputs;
    exg_value_id id = EXG_NO_VALUE;

    if (node->output_count > 0 && out->kind == EXG_ARGUMENT_TENSOR) {
        id = out->as_tensor;
    } else if (node->output_count > 0 && out->kind == EXG_ARGUMENT_TENSORS && out->count > 0) {
        id = out->as_tensors[0];
    }
    return id == EXG_NO_VALUE ? NULL : graph->values[id].tensor;
}

/* "aten.add_.Tensor" writes to what it is given. */
static bool is_in_place(const char *target)
{
    const char *dot = strrchr(target, '.');

    return dot != NULL && dot > target && dot[-1] == '_';
}

/* ---- products ------------------------------------------------------------------------------- */

static const exg_tensor_meta *listed(const exg_graph *graph, const exg_argument *list, uint32_t i)
{
    bool is_there = i < list->count && list->as_tensors[i] != EXG_NO_VALUE;

    return is_there ? graph->values[list->as_tensors[i]].tensor : NULL;
}

/* Where the label is in one operand's letters, spaces passed over; -1: nowhere. Of labels behind an
 * ellipsis the dim counts from the end: *from_end. */
static int find_label(const char *letters, size_t length, char label, bool *from_end)
{
    int place = -1;
    int count = 0;
    bool has_dots = false;

    for (size_t i = 0; i < length; i++) {
        has_dots = has_dots || letters[i] == '.';
        if (letters[i] == label && place < 0) {
            place = count;
            *from_end = has_dots;
        }
        count += letters[i] != ' ' && letters[i] != '.';
    }
    return place >= 0 && *from_end ? count - place : place;
}

/* Has the operand more than one element along the label? */
static bool is_long(const exg_tensor_meta *meta, const char *letters, size_t length, char label)
{
    bool from_end = false;
    int place = find_label(letters, length, label, &from_end);
    uint32_t dim = from_end && meta != NULL ? meta->rank - (uint32_t)place : (uint32_t)place;

    return place >= 0 && meta != NULL && dim < meta->rank &&
           (meta->sizes[dim].expr != NULL || meta->sizes[dim].value != 1);
}

/* Does an einsum sum over a label that two operands have? Else it multiplies element by element. */
static bool contracts(const exg_graph *graph, const char *equation, const exg_argument *operands)
{
    const char *arrow = strstr(equation, "->");
    const char *end = arrow == NULL ? equation + strlen(equation) : arrow;

    for (const char *c = equation; c < end; c++) {
        uint32_t count = 0;
        uint32_t operand = 0;
        bool is_label = strchr(" ,.", *c) == NULL;

        for (const char *from = equation; is_label && from <= end;) {
            size_t length = strcspn(from, ",-");

            count += is_long(listed(graph, operands, operand++), from, length, *c);
            from += length + 1;
        }
        if (count >= 2 && (arrow == NULL || strchr(arrow, *c) == NULL)) {
            return true;
        }
    }
    return false;
}

static uint32_t rank_of(const exg_graph *graph, const exg_argument *arg)
{
    const exg_tensor_meta *meta =
        arg->kind == EXG_ARGUMENT_TENSOR ? graph->values[arg->as_tensor].tensor : NULL;

    return meta == NULL ? 0 : meta->rank;
}

/* A pad by reflected or repeated elements is computed, one by a constant copies. */
static bool is_constant_pad(const exg_node *node)
{
    bool is_constant = strstr(node->target, "aten.pad.") != NULL;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        is_constant = is_constant &&
                      (arg->kind != EXG_ARGUMENT_STRING || strcmp(arg->as_string, "constant") == 0);
    }
    return is_constant;
}

/* Does what it is made of hold a product that autocast lowers? */
static bool has_product(const exg_graph *graph, const exg_node *node, const bool *narrow)
{
    const char *name = node->target + sizeof(ATEN) - 1;
    const exg_argument *first = &node->inputs[0].arg;
    const exg_argument *second = node->input_count > 1 ? &node->inputs[1].arg : first;

    if (exg_behind(name, "einsum.") != NULL) {
        return first->kind == EXG_ARGUMENT_STRING && second->kind == EXG_ARGUMENT_TENSORS &&
               contracts(graph, first->as_string, second);
    }
    if (exg_behind(name, "inner.") != NULL) {
        uint32_t ranks[] = {rank_of(graph, first), rank_of(graph, second)};

        return ranks[0] > 0 && ranks[1] > 0 && ranks[0] + ranks[1] > 2;
    }
    if (exg_behind(name, "gru") != NULL || exg_behind(name, "lstm_cell.") != NULL) {
        /* products, and a sum with the state that goes on in its own dtype */
        exg_value_id id = second->kind == EXG_ARGUMENT_TENSOR ? second->as_tensor
                          : second->kind == EXG_ARGUMENT_TENSORS && second->count > 0
                              ? second->as_tensors[second->count - 1]
                              : EXG_NO_VALUE;
        const exg_tensor_meta *state = id == EXG_NO_VALUE ? NULL : graph->values[id].tensor;

        return state != NULL && (state->dtype != EXG_DTYPE_F32 || (narrow != NULL && narrow[id]));
    }
    if (first->kind == EXG_ARGUMENT_TENSORS) { /* of a chain */
        return first->count > 1;
    }
    if (strstr(name, "matrix_power.") != NULL) {
        return second->kind == EXG_ARGUMENT_INT && (second->as_int > 1 || second->as_int < -1);
    }
    return true;
}

/* Does the operator itself give the widest dtype of its arguments, whatever they are? */
static bool finds_widest(const char *target)
{
    return exg_behind(target, ATEN "cat.") != NULL || exg_behind(target, ATEN "stack.") != NULL;
}

bool exg_autocast_dtype(const exg_autocast *mode, const exg_graph *graph, const exg_node *node,
                        const bool *narrow, exg_dtype *dtype)
{
    seen s = {.mode = mode, .graph = graph, .result = result_of(graph, node), .narrow = narrow};
    bool is_recorded = covering(mode, s.result) != NULL;

    if (mode == NULL || strncmp(node->target, ATEN, sizeof(ATEN) - 1) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, see, &s);
    }
    if (s.by == NULL) {
        return false;
    }
    switch (rule_of(node->target, s.by->device)) {
    case RULE_PRODUCT:
        if (has_product(graph, node, narrow)) {
            *dtype = s.by->dtype;
            return true;
        }
        *dtype = narrow != NULL && !s.is_wide ? s.by->dtype
                 : is_recorded                ? s.result->dtype
                                              : EXG_DTYPE_F32;
        return is_recorded;
    case RULE_LOWER:
        *dtype = s.by->dtype;
        return true;
    case RULE_WIDENED:
        *dtype = EXG_DTYPE_F32;
        return !is_constant_pad(node);
    case RULE_WIDER:
        *dtype = EXG_DTYPE_F32;
        return true;
    case RULE_PROMOTE:
        *dtype = s.is_wide ? EXG_DTYPE_F32 : s.by->dtype;
        return narrow == NULL || !finds_widest(node->target);
    case RULE_RECORD:
        *dtype = is_recorded ? s.result->dtype : EXG_DTYPE_F32;
        return is_recorded;
    case RULE_NONE:
        *dtype = is_recorded ? s.result->dtype : EXG_DTYPE_F32;
        return is_recorded && !s.has_result && !is_in_place(node->target);
    default:
        return false;
    }
}

/* ---- what the records do not say ------------------------------------------------------------- */

typedef struct widths {
    const exg_graph *graph;
    const bool *narrow;
    bool any, all; /* floats of 16 bits */
} widths;

static void see_width(void *user, exg_value_id *id)
{
    widths *w = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : w->graph->values[*id].tensor;

    if (meta != NULL && exg_dtype_is_float(meta->dtype)) {
        bool is_narrow = exg_dtype_bytes(meta->dtype) == 2 || w->narrow[*id];

        w->any = w->any || is_narrow;
        w->all = w->all && is_narrow;
    }
}

bool exg_autocast_narrows(const exg_graph *graph, const exg_node *node, const bool *narrow,
                          exg_dtype dtype)
{
    const exg_tensor_meta *result = result_of(graph, node);
    widths w = {.graph = graph, .narrow = narrow, .all = true};

    if (result == NULL || result->dtype != EXG_DTYPE_F32) {
        return false;
    }
    if (dtype != EXG_DTYPE_COUNT || narrow == NULL) {
        return dtype != EXG_DTYPE_COUNT && exg_dtype_bytes(dtype) == 2;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_SCALAR_TYPE) {
            return false; /* it says which */
        }
        exg_argument_visit_values(&node->inputs[i].arg, see_width, &w);
    }
    return w.any && w.all && rule_of(node->target, "cpu") != RULE_NEVER;
}
