/* constraints.c - what patterns of a placement speak of: weights, tables, inputs, nodes, modules
 * and outputs. */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"

#include <exg/module.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES 1000 /* of a module, that patterns are compared with */

const char *exg_partition_input_name(const exg_input_spec *spec)
{
    return spec->kind == EXG_INPUT_USER ? spec->arg.name : spec->target;
}

static bool fits(const exg_partition_pattern *pattern, const char *name)
{
    return name != NULL && fnmatch(pattern->pattern, name, 0) == 0;
}

bool exg_pattern_of_input(const exg_partition_pattern *pattern, const exg_input_spec *spec,
                          exg_use use)
{
    bool is_user = spec->kind == EXG_INPUT_USER;
    bool speaks = pattern->of == EXG_PARTITION_INPUTS    ? is_user
                  : pattern->of == EXG_PARTITION_TABLES  ? !is_user && use == EXG_READ_AS_TABLE
                  : pattern->of == EXG_PARTITION_WEIGHTS ? !is_user
                                                         : false;

    return speaks && fits(pattern, exg_partition_input_name(spec));
}

static exg_use use_of(const exg_operator *op, uint32_t operand)
{
    switch (op == NULL ? EXG_OP_NONE : op->id) {
    case EXG_OP_embedding_default:
        return operand == 0 ? EXG_READ_AS_TABLE : EXG_READ_OTHERWISE;
    case EXG_OP_convolution_default:
        return operand == 1 ? EXG_READ_AS_FILTERS : EXG_READ_OTHERWISE;
    case EXG_OP_bmm_default:
    case EXG_OP_baddbmm_default:
    case EXG_OP_mm_default:
    case EXG_OP_addmm_default:
    case EXG_OP_linear_default:
        return EXG_READ_AS_MATRICES;
    default:
        return EXG_READ_OTHERWISE;
    }
}

exg_use *exg_find_uses(const exg_program *program, const exg_operators *operators, exg_arena *arena)
{
    const exg_graph *graph = program->graph;
    exg_use *uses = EXG_NEW_ARRAY(arena, exg_use, graph->value_count);

    for (uint32_t n = graph->node_count; uses != NULL && n-- > 0;) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);
        exg_value_id only = EXG_NO_VALUE; /* the operand, if it is the only one */
        uint32_t operands = 0;

        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_TENSOR) {
                exg_use use = use_of(op, operands++);

                only = node->inputs[i].arg.as_tensor;
                uses[only] = use != EXG_READ_OTHERWISE ? use : uses[only];
            }
        }
        if (operands == 1 && node->output_count == 1 &&
            node->outputs[0].kind == EXG_ARGUMENT_TENSOR && uses[only] == EXG_READ_OTHERWISE) {
            uses[only] = uses[node->outputs[0].as_tensor];
        }
    }
    return uses;
}

bool exg_is_of_experts(const exg_input_spec *spec, const exg_tensor_meta *meta, exg_use use)
{
    return spec->kind != EXG_INPUT_USER && meta->rank > 2 && meta->sizes[0].value > 1 &&
           use == EXG_READ_AS_MATRICES;
}

exg_status exg_find_experts(const exg_program *program, const exg_operators *operators, bool *found,
                            exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_use *uses = arena == NULL ? NULL : exg_find_uses(program, operators, arena);

    *found = false;
    for (uint32_t i = 0; uses != NULL && i < program->graph->input_count; i++) {
        const exg_argument *input = &program->graph->inputs[i];

        *found = *found || (input->kind == EXG_ARGUMENT_TENSOR &&
                            exg_is_of_experts(&program->signature.inputs[i],
                                              program->graph->values[input->as_tensor].tensor,
                                              uses[input->as_tensor]));
    }
    exg_arena_destroy(arena);
    return uses == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* ---- modules ------------------------------------------------------------------------------ */

/* The next module of a node's that fits the pattern. */
static bool next_module(const exg_partition_pattern *pattern, const char **stack,
                        exg_module_frame *frame)
{
    char path[PATH_MAX_BYTES];

    while (exg_module_stack_next(stack, frame)) {
        if (frame->path_length > 0 && frame->path_length < sizeof(path)) {
            snprintf(path, sizeof(path), "%.*s", (int)frame->path_length, frame->path);
            if (fits(pattern, path)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_inside(const exg_node *node, const exg_module_frame *module)
{
    const char *stack = exg_node_metadata(node, "nn_module_stack");
    exg_module_frame frame;

    while (exg_module_stack_next(&stack, &frame)) {
        if (frame.path_length == module->path_length &&
            memcmp(frame.path, module->path, module->path_length) == 0) {
            return true;
        }
    }
    return false;
}

/* Does somebody outside of the module read the value? */
static bool leaves(const exg_partitioner *p, exg_value_id id, const exg_module_frame *module)
{
    const exg_readers *readers = &p->readers[id];

    for (uint32_t i = 0; i < readers->count; i++) {
        uint32_t n = readers->nodes[i];

        if (n == p->r.in->graph->node_count || !is_inside(&p->r.in->graph->nodes[n], module)) {
            return true;
        }
    }
    return false;
}

const exg_partition_pattern *exg_pattern_of_result(const exg_partitioner *p, uint32_t node,
                                                   exg_value_id id)
{
    const exg_node *n = &p->r.in->graph->nodes[node];

    for (uint32_t t = 0; p->readers != NULL && t < p->options->pattern_count; t++) {
        const exg_partition_pattern *pattern = &p->options->patterns[t];
        const char *stack = exg_node_metadata(n, "nn_module_stack");
        exg_module_frame frame;

        if (pattern->of != EXG_PARTITION_ACTIVATIONS) {
            continue;
        }
        if (fits(pattern, n->name)) {
            return pattern;
        }
        while (next_module(pattern, &stack, &frame)) {
            if (leaves(p, id, &frame)) {
                return pattern;
            }
        }
    }
    return NULL;
}

const exg_partition_pattern *exg_pattern_of_output(const exg_partitioner *p, uint32_t output)
{
    exg_value_id id = p->whole->outputs[output].as_tensor;

    for (uint32_t t = 0; p->mode == EXG_PARTITION_PATTERNS && t < p->options->pattern_count; t++) {
        const exg_partition_pattern *pattern = &p->options->patterns[t];

        if (pattern->of == EXG_PARTITION_OUTPUTS && fits(pattern, p->whole->values[id].name)) {
            return pattern;
        }
    }
    return NULL;
}

typedef struct visit {
    exg_partitioner *p;
    uint32_t node;
    bool failed;
} visit;

static void note_reader(void *user, exg_value_id *id)
{
    visit *v = user;
    exg_readers *readers = &v->p->readers[*id];

    if (!exg_arena_reserve(v->p->scratch, &readers->nodes, readers->count, &readers->capacity,
                           sizeof(*readers->nodes))) {
        v->failed = true;
    } else {
        readers->nodes[readers->count++] = v->node;
    }
}

exg_status exg_find_readers(exg_partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;
    visit v = {.p = p};
    bool asked = false;

    for (uint32_t t = 0; p->mode == EXG_PARTITION_PATTERNS && t < p->options->pattern_count; t++) {
        asked = asked || p->options->patterns[t].of == EXG_PARTITION_ACTIVATIONS;
    }
    if (!asked) {
        return EXG_OK;
    }
    p->readers = EXG_NEW_ARRAY(p->scratch, exg_readers, graph->value_count);
    if (p->readers == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (v.node = 0; v.node < graph->node_count; v.node++) {
        for (uint32_t i = 0; i < graph->nodes[v.node].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[v.node].inputs[i].arg, note_reader, &v);
        }
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], note_reader, &v);
    }
    return v.failed ? EXG_OUT_OF_MEMORY(p->r.err) : EXG_OK;
}

/* ---- does each pattern speak of something? -------------------------------------------------- */

static bool names_node(const exg_partition_pattern *pattern, const exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const char *stack = exg_node_metadata(node, "nn_module_stack");
        exg_module_frame frame;

        if ((pattern->of == EXG_PARTITION_ACTIVATIONS && fits(pattern, node->name)) ||
            next_module(pattern, &stack, &frame)) {
            return true;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH && names_node(pattern, arg->as_graph->graph)) {
                return true;
            }
        }
    }
    return false;
}

static bool names_output(const exg_partition_pattern *pattern, const exg_signature *signature)
{
    for (uint32_t o = 0; o < signature->output_count; o++) {
        if (fits(pattern, signature->outputs[o].arg.name)) {
            return true;
        }
    }
    return false;
}

static bool matches(const exg_partition_pattern *pattern, const exg_program *program,
                    const exg_use *uses)
{
    switch (pattern->of) {
    case EXG_PARTITION_ACTIVATIONS:
    case EXG_PARTITION_MODULES:
        return names_node(pattern, program->graph);
    case EXG_PARTITION_OUTPUTS:
        return names_output(pattern, &program->signature);
    default:
        break;
    }
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        const exg_argument *input = &program->graph->inputs[i];
        exg_use use =
            input->kind == EXG_ARGUMENT_TENSOR ? uses[input->as_tensor] : EXG_READ_OTHERWISE;

        if (exg_pattern_of_input(pattern, &program->signature.inputs[i], use)) {
            return true;
        }
    }
    return false;
}

static exg_status refuse(const exg_partition_pattern *pattern, exg_error *err)
{
    static const char *const subjects[] = {
        [EXG_PARTITION_WEIGHTS] = "weight", [EXG_PARTITION_INPUTS] = "input",
        [EXG_PARTITION_TABLES] = "weight",  [EXG_PARTITION_ACTIVATIONS] = "node or module",
        [EXG_PARTITION_OUTPUTS] = "output", [EXG_PARTITION_MODULES] = "module",
    };
    bool is_key = pattern->key != NULL;

    return exg_error_fix(
        err,
        EXG_FAIL(err, USAGE, "PLC-005", "%s '%s' matches no %s", is_key ? "key" : "pattern",
                 is_key ? pattern->key : pattern->pattern,
                 is_key ? "module or weight" : subjects[pattern->of]),
        "exg inspect lists inputs, outputs and the names of weights; --graph nodes "
        "and modules");
}

static exg_status check_patterns(const exg_program *program, const exg_use *uses,
                                 const exg_partition_options *options, exg_error *err)
{
    const exg_partition_pattern *patterns = options->patterns;

    for (uint32_t t = 0; t < options->pattern_count;) {
        const exg_partition_pattern *first = &patterns[t];
        bool matched = false;

        do {
            matched = matched || matches(&patterns[t], program, uses);
            t++;
        } while (t < options->pattern_count && first->key != NULL && patterns[t].key == first->key);
        if (!matched) {
            return refuse(first, err);
        }
    }
    return EXG_OK;
}

exg_status exg_partition_check_patterns(const exg_program *program, const exg_operators *operators,
                                        const exg_partition_options *options, uint32_t ndim,
                                        exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_use *uses = arena == NULL ? NULL : exg_find_uses(program, operators, arena);
    exg_status status = uses == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t d = 0; status == EXG_OK && d < ndim; d++) {
        if (options[d].mode == EXG_PARTITION_PATTERNS) {
            status = check_patterns(program, uses, &options[d], err);
        }
    }
    exg_arena_destroy(arena);
    return status;
}
