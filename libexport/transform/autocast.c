/* autocast.c - what PyTorch converts the arguments of an operator to while autocast is on. */
#include "libexport/transform/autocast.h"

#include <exg/operators.h>
#include <string.h>

#define ATEN "torch.ops.aten."

typedef enum rule {
    RULE_NONE,
    RULE_LOWER,
    RULE_WIDER,
    RULE_PROMOTE,
    RULE_RECORD,
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
        s->is_wide = s->is_wide || meta->dtype == EXG_DTYPE_F32;
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

bool exg_autocast_dtype(const exg_autocast *mode, const exg_graph *graph, const exg_node *node,
                        exg_dtype *dtype)
{
    seen s = {.mode = mode, .graph = graph, .result = result_of(graph, node)};
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
    case RULE_LOWER:
        *dtype = s.by->dtype;
        return true;
    case RULE_WIDER:
        *dtype = EXG_DTYPE_F32;
        return true;
    case RULE_PROMOTE:
        *dtype = s.is_wide ? EXG_DTYPE_F32 : s.by->dtype;
        return true;
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
