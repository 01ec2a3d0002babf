/* symbolic_stage.c - a program after a stage, of symbolic sizes and with what only a run knows.
 *
 * Stages work on numbers. So the program is made with several numbers for each symbol, and the
 * programs that come out are compared: they must be the same but for numbers, and a number that
 * differs is a size, in symbols again (size_fit.h), or an argument that nodes compute
 * (size_nodes.h). Branches, loops and reads of data are taken out before (kept_nodes.h) and put
 * back after.
 */
#include "libexport/transform/symbolic_stage.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/origin.h"
#include "libexport/transform/sampler.h"

#include <exg/operator_id_new.h>
#include <string.h>

#define DEPTH_MAX 32 /* of branches and loops within each other */

static exg_status stage_of(const exg_verified *verified, const exg_symbolic *outer, uint32_t depth,
                           exg_program **out, exg_error *err);

/* ---- samples -------------------------------------------------------------------------------- */

static exg_status make_sample(exg_symbolic *s, const exg_sampler *sampler, uint32_t sample)
{
    exg_verified of = *s->verified;
    exg_status status = EXG_OK;

    of.program = &s->kept->program;
    for (uint32_t attempt = 0; attempt < EXG_ATTEMPTS_MAX; attempt++) {
        EXG_TRY(exg_sampler_draw(sampler, sample, attempt, &s->samples[sample], s->err));
        if (!exg_sampler_admits(sampler, &s->samples[sample]) && attempt + 1 < EXG_ATTEMPTS_MAX) {
            continue;
        }
        status = exg_stage_of_numbers(&of, &s->samples[sample], s->stage, &s->made[sample], s->err);
        if (status == EXG_OK || status == EXG_UNSUPPORTED || status == EXG_NO_MEMORY ||
            sampler->count == 0) {
            break;
        }
    }
    return status;
}

static bool is_drawn(const exg_symbolic *s, const exg_symbols *symbols)
{
    for (uint32_t k = 0; k < s->count; k++) {
        bool same = true;

        for (uint32_t i = 0; same && i < symbols->count; i++) {
            same = s->samples[k].items[i].value == symbols->items[i].value;
        }
        if (same) {
            return true;
        }
    }
    return false;
}

/* More samples, at the edges of what was drawn: what was fitted to few has to be right there. */
static exg_status make_edges(exg_symbolic *s, const exg_sampler *sampler)
{
    exg_verified of = *s->verified;
    bool is_there = true;

    of.program = &s->kept->program;
    for (uint32_t edge = 0; is_there && s->count < EXG_SAMPLES_MAX; edge++) {
        exg_symbols *symbols = &s->samples[s->count];
        const exg_symbols *from = &s->samples[1 + edge % (EXG_DRAWN_MAX - 1)];
        exg_error unmade;
        exg_status status;

        EXG_TRY(exg_sampler_edge(sampler, from, edge, symbols, &is_there, s->err));
        if (!is_there || is_drawn(s, symbols) || !exg_sampler_admits(sampler, symbols)) {
            continue;
        }
        status = exg_stage_of_numbers(&of, symbols, s->stage, &s->made[s->count], &unmade);
        s->count += status == EXG_OK;
        EXG_TRY(status == EXG_NO_MEMORY ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK);
    }
    return EXG_OK;
}

static exg_status make_samples(exg_symbolic *s)
{
    exg_sampler sampler;

    EXG_TRY(exg_sampler_begin(&sampler, s->root, &s->kept->graph, s->kept->nodes,
                              s->kept->node_count, s->arena, s->err));
    for (uint32_t k = 0; k < (sampler.count == 0 ? 1 : EXG_DRAWN_MAX); k++) {
        EXG_TRY(make_sample(s, &sampler, k));
        s->count++;
    }
    EXG_TRY(make_edges(s, &sampler));
    exg_size_fit_begin(&s->fit, s->made[0]->arena, s->samples, s->count);
    EXG_TRY(exg_graph_visit_reals(&s->kept->graph, exg_size_fit_add_real, &s->fit, s->err));
    return exg_graph_visit_sizes(&s->kept->graph, exg_size_fit_add, &s->fit, s->err);
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* A copy of a value that is a number, in the result. */
static exg_status copy_number(exg_symbolic *s, const exg_value *from, exg_value *out)
{
    exg_arena *arena = s->made[0]->arena;

    *out = (exg_value){.name = exg_arena_strdup(arena, from->name)};
    if (from->sym_float != NULL) {
        out->sym_float = exg_arena_memdup(arena, from->sym_float, 1, sizeof(*from->sym_float));
        if (out->sym_float != NULL) {
            out->sym_float->expr = exg_arena_strdup(arena, out->sym_float->expr);
        }
    } else {
        out->sym_int = exg_arena_memdup(arena, from->sym_int, 1, sizeof(*from->sym_int));
        if (out->sym_int != NULL) {
            out->sym_int->expr = exg_arena_strdup(arena, out->sym_int->expr);
        }
    }
    return exg_arena_is_dry(arena) ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

/* A number among the inputs is one again, and no constant. */
static exg_status put_number_input(exg_symbolic *s, uint32_t i)
{
    exg_value_id old = s->kept->graph.inputs[i].as_sym.value;
    exg_argument_kind kind = s->kept->graph.inputs[i].kind;
    exg_value value;
    exg_value_id id;

    EXG_TRY(copy_number(s, &s->kept->graph.values[old], &value));
    EXG_TRY(exg_size_nodes_value(&s->nodes, &value, &id));
    s->values[old] = id;
    if (i < s->kept->own_input_count) {
        s->made[0]->graph->inputs[i] = (exg_argument){.kind = kind, .as_sym = {.value = id}};
        s->made[0]->signature.inputs[i].arg =
            (exg_signature_argument){.kind = kind, .name = value.name};
    }
    return EXG_OK;
}

/* What the file said of a tensor among the inputs. */
static exg_status put_tensor_input(exg_symbolic *s, uint32_t i)
{
    exg_value_id old = s->kept->graph.inputs[i].as_tensor;
    exg_value_id id = s->made[0]->graph->inputs[i].as_tensor;
    exg_tensor_meta *meta = exg_meta_copy(s->made[0]->arena, s->kept->graph.values[old].tensor);

    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    meta->device.type = exg_arena_strdup(s->made[0]->arena, meta->device.type);
    meta->storage_offset.expr = exg_arena_strdup(s->made[0]->arena, meta->storage_offset.expr);
    for (uint32_t d = 0; d < meta->rank; d++) {
        meta->sizes[d].expr = exg_arena_strdup(s->made[0]->arena, meta->sizes[d].expr);
        meta->strides[d].expr = exg_arena_strdup(s->made[0]->arena, meta->strides[d].expr);
    }
    s->made[0]->graph->values[id].tensor = meta;
    s->values[old] = id;
    return EXG_OK;
}

/* From here on an input, or what a kept node gave, may be read, its sizes too. */
static exg_status read_value(exg_symbolic *s, exg_value_id old)
{
    const exg_value *from = &s->kept->graph.values[old];
    exg_value_id id = s->values[old];

    if (from->tensor == NULL) {
        return exg_size_nodes_read_number(&s->nodes, id, exg_value_expression(from));
    }
    s->is_there[id] = true;
    return exg_size_nodes_read_tensor(&s->nodes, id, from->tensor);
}

static exg_status put_inputs(exg_symbolic *s)
{
    const exg_graph *graph = &s->kept->graph;

    if (s->made[0]->graph->input_count != graph->input_count) {
        return EXG_FAIL(s->err, UNSUPPORTED, "TRF-006", "a stage leaves inputs out");
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];

        if (input->kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY(put_tensor_input(s, i));
        } else if ((input->kind == EXG_ARGUMENT_SYM_INT || input->kind == EXG_ARGUMENT_SYM_FLOAT) &&
                   input->as_sym.value != EXG_NO_VALUE) {
            EXG_TRY(put_number_input(s, i));
        } else {
            continue;
        }
        if (i < s->kept->own_input_count) {
            EXG_TRY(read_value(s, input->kind == EXG_ARGUMENT_TENSOR ? input->as_tensor
                                                                     : input->as_sym.value));
        }
    }
    return EXG_OK;
}

/* ---- kept nodes ----------------------------------------------------------------------------- */

/* The value of the result that a kept node reads. */
static exg_value_id operand_of(const exg_symbolic *s, exg_value_id old)
{
    uint32_t output = s->kept->outputs[old];
    const exg_argument *made;

    if (output == EXG_NO_VALUE) {
        return s->values[old];
    }
    made = &s->made[0]->graph->outputs[s->mutation_count + output];
    return made->kind == EXG_ARGUMENT_TENSOR ? made->as_tensor : EXG_NO_VALUE;
}

typedef struct operands {
    const exg_symbolic *s;
    bool are_there;
} operands;

static void look_for(void *user, exg_value_id *old)
{
    operands *o = user;

    if (*old != EXG_NO_VALUE && o->s->kept->graph.values[*old].tensor != NULL) {
        exg_value_id id = operand_of(o->s, *old);

        o->are_there =
            o->are_there && id != EXG_NO_VALUE && id < o->s->value_count && o->s->is_there[id];
    }
}

static bool can_be_put(const exg_symbolic *s, const exg_node *node)
{
    operands o = {s, true};

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, look_for, &o);
    }
    return o.are_there;
}

static void drop_mutations(exg_program *made)
{
    exg_graph *graph = made->graph;
    uint32_t count = 0;

    for (uint32_t o = 0; o < graph->output_count; o++) {
        if (made->signature.outputs[o].kind != EXG_OUTPUT_USER_INPUT_MUTATION) {
            graph->outputs[count] = graph->outputs[o];
            made->signature.outputs[count++] = made->signature.outputs[o];
        }
    }
    graph->output_count = count;
    made->signature.output_count = count;
}

/* Graphs of a graph have each a name of its own. */
static exg_status name_graph(exg_symbolic *s, exg_graph_argument *arg)
{
    arg->name = exg_map_free_name(&s->graph_names, s->made[0]->arena, arg->name);
    return arg->name == NULL || !exg_map_put(&s->graph_names, arg->name, 0)
               ? EXG_OUT_OF_MEMORY(s->err)
               : EXG_OK;
}

/* A graph of a branch or loop after the stage, as the program is. */
static exg_status put_graph(exg_symbolic *s, const exg_node *node, exg_graph_argument *arg)
{
    const exg_graph *graph = arg->graph;
    exg_program program = *s->verified->program;
    exg_verified of = *s->verified;
    exg_program *made = NULL;
    exg_argument copy = {.kind = EXG_ARGUMENT_GRAPH};
    exg_graph_argument staged = *arg;
    exg_status status;

    of.program = &program;
    program.graph = arg->graph;
    program.signature =
        (exg_signature){.inputs = EXG_NEW_ARRAY(s->arena, exg_input_spec, graph->input_count),
                        .outputs = EXG_NEW_ARRAY(s->arena, exg_output_spec, graph->output_count),
                        .input_count = graph->input_count,
                        .output_count = graph->output_count};
    if (program.signature.inputs == NULL || program.signature.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];
        exg_value_id id =
            input->kind == EXG_ARGUMENT_TENSOR ? input->as_tensor : input->as_sym.value;
        bool named = (input->kind == EXG_ARGUMENT_TENSOR || input->kind == EXG_ARGUMENT_SYM_INT) &&
                     id != EXG_NO_VALUE;

        program.signature.inputs[i] = (exg_input_spec){
            .kind = EXG_INPUT_USER,
            .persistent = EXG_UNSET,
            .arg = {.kind = input->kind, .name = named ? graph->values[id].name : ""}};
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        program.signature.outputs[o].kind = EXG_OUTPUT_USER;
        program.signature.outputs[o].arg.kind = graph->outputs[o].kind;
    }
    EXG_TRY(stage_of(&of, s, s->depth + 1, &made, s->err));
    if (exg_higher_order_of(node->target) == EXG_HIGHER_ORDER_MAP) {
        drop_mutations(made); /* of torch.vmap alone, which copies them back (vmap.h) */
    }
    if (made->graph->output_count != graph->output_count) {
        status = EXG_FAIL(s->err, UNSUPPORTED, "TRF-006", "graph '%s' writes what it is given",
                          arg->name);
    } else {
        made->graph->is_single_tensor_return = graph->is_single_tensor_return;
        staged.graph = made->graph;
        copy.as_graph = &staged;
        status = exg_argument_copy(s->made[0]->arena, &copy, s->err);
        *arg = status == EXG_OK ? *copy.as_graph : *arg;
        status = status == EXG_OK ? name_graph(s, arg) : status;
    }
    exg_program_destroy(made);
    return status;
}

/* The value that is the number `old` of the kept graph. */
static exg_status put_kept_number(exg_symbolic *s, exg_value_id old, exg_argument *number)
{
    const exg_value *from = &s->kept->graph.values[old];
    const char *text = exg_value_expression(from);

    if (text != NULL) {
        return exg_size_nodes_put(&s->nodes, text, number);
    }
    *number = from->sym_int != NULL     ? exg_arg_int(from->sym_int->value)
              : from->sym_bool != NULL  ? exg_arg_bool(from->sym_bool->value)
              : from->sym_float != NULL ? exg_arg_float(from->sym_float->value)
                                        : exg_arg_none();
    return EXG_OK;
}

typedef struct kept_argument {
    exg_symbolic *s;
    exg_status status;
} kept_argument;

/* A value of the kept graph that stands in a list. */
static void put_listed(void *user, exg_value_id *old)
{
    kept_argument *a = user;
    exg_argument number = exg_arg_none();

    if (a->status != EXG_OK || *old == EXG_NO_VALUE) {
        return;
    }
    if (a->s->kept->graph.values[*old].tensor != NULL) {
        *old = operand_of(a->s, *old);
        return;
    }
    a->status = put_kept_number(a->s, *old, &number);
    if (a->status == EXG_OK && number.kind != EXG_ARGUMENT_SYM_INT &&
        number.kind != EXG_ARGUMENT_SYM_FLOAT && number.kind != EXG_ARGUMENT_SYM_BOOL) {
        a->status = EXG_FAIL(a->s->err, UNSUPPORTED, "TRF-006", "a list of '%s', which is constant",
                             a->s->kept->graph.values[*old].name);
    }
    *old = number.as_sym.value;
}

static exg_status put_kept_argument(exg_symbolic *s, const exg_node *node, exg_argument *arg)
{
    kept_argument a = {s, EXG_OK};

    EXG_TRY(exg_argument_copy(s->made[0]->arena, arg, s->err));
    switch (arg->kind) {
    case EXG_ARGUMENT_GRAPH:
        return put_graph(s, node, arg->as_graph);
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return arg->as_sym.value == EXG_NO_VALUE ? EXG_OK
                                                 : put_kept_number(s, arg->as_sym.value, arg);
    default:
        exg_argument_visit_values(arg, put_listed, &a);
        return a.status;
    }
}

static void put_result(void *user, exg_value_id *old)
{
    const exg_symbolic *s = user;

    *old = *old == EXG_NO_VALUE ? *old : s->values[*old];
}

static void note_result(void *user, exg_value_id *old)
{
    kept_argument *a = user;

    if (a->status == EXG_OK && *old != EXG_NO_VALUE) {
        a->status = read_value(a->s, *old);
    }
}

/* A text of the source, or of this call, for the result. */
static exg_status keep_texts(exg_symbolic *s, exg_node *node)
{
    exg_arena *arena = s->made[0]->arena;

    node->name = exg_arena_strdup(arena, node->name);
    node->target = exg_arena_strdup(arena, node->target);
    node->metadata.items = exg_arena_memdup(arena, node->metadata.items, node->metadata.count,
                                            sizeof(*node->metadata.items));
    for (uint32_t i = 0; node->metadata.items != NULL && i < node->metadata.count; i++) {
        exg_string_pair *pair = &node->metadata.items[i];

        *pair = (exg_string_pair){exg_arena_strdup(arena, pair->key),
                                  exg_arena_strdup(arena, pair->value)};
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        node->inputs[i].name = exg_arena_strdup(arena, node->inputs[i].name);
    }
    return exg_arena_is_dry(arena) ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

/* Results of a branch or loop stand each by itself, as torch.export writes them, in no list. */
static exg_status list_results(exg_symbolic *s, exg_node *node)
{
    const exg_argument list = node->output_count == 1 ? node->outputs[0] : exg_arg_none();

    if (list.kind != EXG_ARGUMENT_TENSORS) {
        return EXG_OK;
    }
    node->outputs = EXG_NEW_ARRAY(s->made[0]->arena, exg_argument, list.count);
    node->output_count = list.count;
    node->is_hop_single_tensor_return = EXG_FALSE;
    for (uint32_t i = 0; node->outputs != NULL && i < list.count; i++) {
        node->outputs[i] =
            (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = list.as_tensors[i]};
    }
    return node->outputs == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

static exg_status put_kept(exg_symbolic *s, const exg_node *from)
{
    exg_arena *arena = s->made[0]->arena;
    exg_node node = *from;
    kept_argument results = {s, EXG_OK};

    node.inputs = exg_arena_memdup(arena, from->inputs, from->input_count, sizeof(*from->inputs));
    node.outputs =
        exg_arena_memdup(arena, from->outputs, from->output_count, sizeof(*from->outputs));
    if (node.inputs == NULL || node.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(keep_texts(s, &node));
    if (strcmp(node.target, "torch.ops.aten.item.default") == 0) {
        node.target = "torch.ops.aten._local_scalar_dense.default"; /* what core ATen calls it */
    }
    for (uint32_t i = 0; i < node.input_count; i++) {
        EXG_TRY(put_kept_argument(s, &node, &node.inputs[i].arg));
    }
    if (exg_higher_order_of(node.target) != EXG_HIGHER_ORDER_NOT) {
        EXG_TRY(list_results(s, &node));
    }
    for (uint32_t o = 0; o < node.output_count; o++) {
        EXG_TRY(exg_argument_copy(arena, &node.outputs[o], s->err));
        exg_argument_visit_values(&node.outputs[o], note_result, &results);
        exg_argument_visit_values(&node.outputs[o], put_result, s);
    }
    EXG_TRY(results.status);
    return exg_size_nodes_add(&s->nodes, &node);
}

/* Those in turn whose operands are there. */
static exg_status put_those_ready(exg_symbolic *s)
{
    while (s->next_kept < s->kept->node_count && can_be_put(s, &s->kept->nodes[s->next_kept])) {
        const exg_node *node = &s->kept->nodes[s->next_kept++];
        exg_status status = put_kept(s, node);

        if (status != EXG_OK) {
            return exg_error_at_node(s->err, status, node);
        }
    }
    return EXG_OK;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void look_for_input(void *user, exg_value_id *id)
{
    operands *o = user;

    o->are_there = o->are_there && (*id == EXG_NO_VALUE || o->s->is_there[*id]);
}

static void note_made(void *user, exg_value_id *id)
{
    if (*id != EXG_NO_VALUE) {
        ((const exg_symbolic *)user)->is_there[*id] = true;
    }
}

static exg_status put_node(exg_symbolic *s, uint32_t n)
{
    exg_node node = s->made[0]->graph->nodes[n];
    operands o = {s, true};

    for (uint32_t k = 1; k < s->count; k++) {
        const exg_node *other = &s->made[k]->graph->nodes[n];

        if (strcmp(other->target, node.target) != 0 || other->input_count != node.input_count ||
            other->output_count != node.output_count) {
            return exg_symbolic_refuse(s, &node, other->target);
        }
    }
    for (uint32_t i = 0; i < node.input_count; i++) {
        const exg_argument *args[EXG_SAMPLES_MAX];

        for (uint32_t k = 0; k < s->count; k++) {
            args[k] = &s->made[k]->graph->nodes[n].inputs[i].arg;
        }
        exg_argument_visit_values(&node.inputs[i].arg, look_for_input, &o);
        if (!o.are_there) {
            return exg_symbolic_refuse(s, &node, "the order");
        }
        EXG_TRY(exg_symbolic_argument(s, &node, args, &node.inputs[i].arg));
    }
    for (uint32_t i = 0; i < node.output_count; i++) {
        exg_argument_visit_values(&node.outputs[i], note_made, s);
    }
    EXG_TRY(exg_node_forget_source(s->made[0]->arena, &node, s->err));
    return exg_size_nodes_add(&s->nodes, &node);
}

static exg_status put_nodes(exg_symbolic *s)
{
    EXG_TRY(put_those_ready(s));
    for (uint32_t n = 0; n < s->made[0]->graph->node_count; n++) {
        EXG_TRY(put_node(s, n));
        EXG_TRY(put_those_ready(s));
    }
    return s->next_kept == s->kept->node_count
               ? EXG_OK
               : exg_symbolic_refuse(s, &s->kept->nodes[s->next_kept], "the order");
}

/* ---- outputs -------------------------------------------------------------------------------- */

static exg_status put_outputs(exg_symbolic *s)
{
    exg_graph *graph = s->made[0]->graph;
    exg_signature *signature = &s->made[0]->signature;

    for (uint32_t o = 0; o < s->kept->own_output_count; o++) {
        const exg_argument *from = &s->kept->graph.outputs[o];
        exg_argument *to = &graph->outputs[s->mutation_count + o];
        bool number = from->kind == EXG_ARGUMENT_SYM_INT || from->kind == EXG_ARGUMENT_SYM_FLOAT ||
                      from->kind == EXG_ARGUMENT_SYM_BOOL;
        bool named;

        if (!number || from->as_sym.value == EXG_NO_VALUE) {
            continue;
        }
        EXG_TRY(put_kept_number(s, from->as_sym.value, to));
        named = to->kind == EXG_ARGUMENT_SYM_INT || to->kind == EXG_ARGUMENT_SYM_FLOAT ||
                to->kind == EXG_ARGUMENT_SYM_BOOL;
        if (named) {
            signature->outputs[s->mutation_count + o].arg = (exg_signature_argument){
                .kind = to->kind, .name = graph->values[to->as_sym.value].name};
        }
    }
    graph->output_count = s->mutation_count + s->kept->own_output_count;
    graph->input_count = s->kept->own_input_count;
    signature->output_count = graph->output_count;
    signature->input_count = graph->input_count;
    return EXG_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static exg_status put_together(exg_symbolic *s)
{
    exg_graph *graph = s->made[0]->graph;

    EXG_TRY(exg_size_nodes_begin(&s->nodes, s->made[0], s->verified->operators, s->err));
    exg_map_init(&s->graph_names, s->arena);
    s->nodes.hints = s->hints;
    s->nodes.samples = s->samples;
    s->nodes.sample_count = s->count;
    s->mutation_count = graph->output_count - s->kept->graph.output_count;
    s->value_count = graph->value_count;
    s->values = EXG_NEW_ARRAY(s->arena, exg_value_id, s->kept->graph.value_count);
    s->is_there = EXG_NEW_ARRAY(s->arena, bool, s->value_count);
    if (s->values == NULL || s->is_there == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t v = 0; v < s->kept->graph.value_count; v++) {
        s->values[v] = EXG_NO_VALUE;
    }
    EXG_TRY(exg_symbolic_metas(s));
    EXG_TRY(put_inputs(s));
    EXG_TRY(put_nodes(s));
    EXG_TRY(put_outputs(s));
    graph->nodes = s->nodes.nodes;
    graph->node_count = s->nodes.node_count;
    return EXG_OK;
}

static exg_status make(exg_symbolic *s, const bool *whole)
{
    EXG_TRY(exg_kept_nodes_take(s->verified->program, s->verified->operators, s->libraries, whole,
                                s->arena, &s->kept, s->err));
    EXG_TRY(make_samples(s));
    return put_together(s);
}

static void forget(exg_symbolic *s, uint32_t from)
{
    for (uint32_t k = from; k < EXG_SAMPLES_MAX; k++) {
        exg_program_destroy(s->made[k]);
        s->made[k] = NULL;
    }
}

/* Where an operator is not written out the same for all sizes, it stays as it is. */
static exg_status make_all(exg_symbolic *s, const exg_symbolic *outer)
{
    bool *whole = NULL;
    exg_status status;

    for (;;) {
        status = make(s, whole);
        if (status != EXG_UNSUPPORTED || s->culprit == UINT32_MAX) {
            return status;
        }
        whole = whole == NULL ? EXG_NEW_ARRAY(s->arena, bool, s->kept->source_count) : whole;
        if (whole == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        if (!exg_kept_nodes_mark(s->verified->program, s->verified->operators, s->culprit, s->arena,
                                 whole)) {
            return status;
        }
        forget(s, 0);
        *s = (exg_symbolic){.verified = s->verified,
                            .root = s->root,
                            .hints = outer->hints,
                            .libraries = outer->libraries,
                            .stage = outer->stage,
                            .depth = s->depth,
                            .arena = s->arena,
                            .culprit = UINT32_MAX,
                            .err = s->err};
    }
}

static exg_status stage_of(const exg_verified *verified, const exg_symbolic *outer, uint32_t depth,
                           exg_program **out, exg_error *err)
{
    exg_symbolic s = {.verified = verified,
                      .root = outer->root,
                      .hints = outer->hints,
                      .libraries = outer->libraries,
                      .stage = outer->stage,
                      .depth = depth,
                      .culprit = UINT32_MAX,
                      .err = err};
    exg_status status;

    *out = NULL;
    if (depth == DEPTH_MAX) {
        return EXG_FAIL(err, LIMIT, "GRF-010", "graphs nest more than %d deep", DEPTH_MAX);
    }
    s.arena = exg_arena_create(exg_arena_allocator(verified->program->arena), EXG_ARENA_UNBOUNDED);
    status = s.arena == NULL ? EXG_OUT_OF_MEMORY(err) : make_all(&s, outer);
    forget(&s, status == EXG_OK ? 1 : 0);
    *out = s.made[0];
    exg_arena_destroy(s.arena);
    return status;
}

exg_status exg_stage_of_symbols(const exg_verified *verified, const exg_operators *libraries,
                                exg_stage stage, exg_program **out, exg_error *err)
{
    exg_arena *arena =
        exg_arena_create(exg_arena_allocator(verified->program->arena), EXG_ARENA_UNBOUNDED);
    exg_symbols hints;
    const exg_symbolic whole = {
        .root = verified, .hints = &hints, .libraries = libraries, .stage = stage};
    exg_status status;

    *out = NULL;
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_bind_hints(verified->program, arena, &hints, err);
    status = status == EXG_OK ? stage_of(verified, &whole, 0, out, err) : status;
    exg_arena_destroy(arena);
    return status;
}
