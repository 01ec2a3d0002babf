/* graph_segment.c - goes through a program's nodes and emits what can be emitted, until a number
 * is needed that only the run can know. */
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include "libexport/operators/symbolic.h"
#include "libexport/program/expression.h"
#include "libexport/transform/auto_functionalized.h"
#include "libexport/transform/batch.h"
#include "libexport/transform/layout.h"
#include "libexport/transform/origin.h"
#include "libexport/transform/segment_builder.h"
#include "libexport/transform/simplify.h"
#include "libexport/transform/ways_out.h"

#include <exg/emit.h>
#include <exg/module.h>
#include <exg/operator_id_new.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <string.h>

/* ---- values ----------------------------------------------------------------------------- */

static exg_status resolve_node(exg_segment_builder *m, const exg_node *node, exg_node *out)
{
    *out = *node;
    out->inputs = EXG_NEW_ARRAY(m->r.out->arena, exg_named_argument, node->input_count);
    if (out->inputs == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        out->inputs[i] = node->inputs[i];
        EXG_TRY_IN(m->err,
                   exg_segment_builder_resolve(m, &node->inputs[i].arg, &out->inputs[i].arg),
                   "inputs[%u]", i);
    }
    return EXG_OK;
}

/* Which parameters are given an element that kernels read. false: none is. */
static bool find_scalar_reads(const exg_segment_builder *m, const exg_node *node,
                              const exg_operator *op, exg_argument_kind *scalar_reads)
{
    bool any = false;

    for (uint32_t p = 0; p < op->schema->argument_count; p++) {
        scalar_reads[p] = EXG_ARGUMENT_NONE;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;
        bool slot = (arg->kind == EXG_ARGUMENT_SYM_INT || arg->kind == EXG_ARGUMENT_SYM_FLOAT ||
                     arg->kind == EXG_ARGUMENT_SYM_BOOL) &&
                    arg->as_sym.value != EXG_NO_VALUE && m->flat->scalar_reads[arg->as_sym.value];

        for (uint32_t p = 0; slot && p < op->schema->argument_count; p++) {
            const char *name = node->inputs[i].name;

            if (name[0] == '\0' ? p == i : strcmp(op->schema->arguments[p].name, name) == 0) {
                scalar_reads[p] = arg->kind == EXG_ARGUMENT_SYM_INT     ? EXG_ARGUMENT_INT
                                  : arg->kind == EXG_ARGUMENT_SYM_FLOAT ? EXG_ARGUMENT_FLOAT
                                                                        : EXG_ARGUMENT_BOOL;
                any = true;
            }
        }
    }
    return any;
}

/* A tensor of one element, as it is now and with no dims. */
static exg_status element(exg_segment_builder *m, const exg_argument *arg, exg_ref *ref)
{
    exg_ref x = arg->kind == EXG_ARGUMENT_TENSOR ? m->r.refs[arg->as_tensor] : EXG_NO_REF;
    const exg_tensor_meta *meta = exg_ref_meta(m->r.builder, x);
    int64_t numel = 0;

    if (meta == NULL || !exg_tensor_meta_numel(meta, &numel) || numel != 1) {
        return EXG_FAIL(m->err, MALFORMED, "NOD-017",
                        "a number of a tensor of %" PRId64 " elements", numel);
    }
    *ref = EMIT(m->r.builder, clone_default,
                EMIT(m->r.builder, reshape_default, x, exg_arg_ints(m->r.builder, NULL, 0)));
    return exg_builder_status(m->r.builder);
}

/* ---- graph breaks -----------------------------------------------------------------------------
 */

static exg_status wait_for_number(exg_segment_builder *m, const exg_node *node, exg_ref number)
{
    m->segment->graph_break = EXG_GRAPH_BREAK_NUMBER;
    m->segment->node = node;
    m->number = number;
    return exg_builder_status(m->r.builder);
}

/* Arrays by value id grow with the flat graph; ids stay. */
static exg_status follow(exg_segment_builder *m, exg_flat_graph *flat, uint32_t old_count)
{
    uint32_t count = flat->graph.value_count;
    exg_ref *refs = EXG_NEW_ARRAY(m->r.out->arena, exg_ref, count);
    exg_argument *numbers = EXG_NEW_ARRAY(m->r.out->arena, exg_argument, count);

    if (refs == NULL || numbers == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    memcpy(refs, m->r.refs, old_count * sizeof(*refs));
    memcpy(numbers, m->numbers, old_count * sizeof(*numbers));
    for (uint32_t v = old_count; v < count; v++) {
        refs[v] = EXG_NO_REF;
    }
    m->r.refs = refs;
    m->numbers = numbers;
    m->r.in = &flat->flat;
    m->flat = flat;
    m->segment->flat = flat;
    m->at = 0;
    return EXG_OK;
}

bool exg_is_true(const exg_argument *number)
{
    return number->kind == EXG_ARGUMENT_FLOAT ? number->as_float != 0 : exg_get_int(number) != 0;
}

/* A branch whose predicate is known stands in the cond's place. */
static exg_status do_cond(exg_segment_builder *m, const exg_node *node)
{
    exg_argument predicate;
    exg_flat_graph *flat;

    if (node->input_count < 3) {
        return EXG_FAIL(m->err, MALFORMED, "GRF-010", "cond without its branches");
    }
    EXG_TRY(exg_segment_builder_resolve(m, &node->inputs[0].arg, &predicate));
    if (predicate.kind == EXG_ARGUMENT_TENSOR) {
        exg_ref number;

        EXG_TRY(element(m, &predicate, &number));
        return wait_for_number(m, node, number);
    }
    EXG_TRY(exg_flat_graph_branch(m->flat, m->at, exg_is_true(&predicate), m->segment->arena, &flat,
                                  m->err));
    return follow(m, flat, m->flat->graph.value_count);
}

/* Its one result is no value of the file: nobody can read it. */
static bool gives_nothing(const exg_node *node)
{
    return node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_NONE;
}

static exg_status do_item(exg_segment_builder *m, const exg_node *node)
{
    exg_value_id id = node->output_count == 1 ? node->outputs[0].as_sym.value : EXG_NO_VALUE;
    exg_ref number;

    if (gives_nothing(node)) {
        return EXG_OK;
    }
    if (id == EXG_NO_VALUE || node->input_count < 1) {
        return EXG_FAIL(m->err, MALFORMED, "NOD-015", "%s gives one number", node->target);
    }
    if (m->flat->reads.last_use[id] == 0) {
        return EXG_OK;
    }
    EXG_TRY(element(m, &node->inputs[0].arg, &number));
    if (m->flat->scalar_reads[id]) {
        m->r.refs[id] = number;
        return EXG_OK;
    }
    return wait_for_number(m, node, number);
}

/* ---- nodes ------------------------------------------------------------------------------ */

static exg_status evaluate(exg_segment_builder *m, const exg_node *node, const exg_operator *op)
{
    exg_argument args[EXG_SYMBOLIC_ARGUMENTS_MAX];
    exg_argument result;
    uint32_t count;
    exg_status status;
    exg_node known;

    EXG_TRY(resolve_node(m, node, &known));
    EXG_TRY(exg_operator_operands(op, &known, args, &count, m->err));
    for (uint32_t i = 0; i < count; i++) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR) {
            args[i].as_tensor = m->r.refs[args[i].as_tensor].id;
        }
        if (args[i].kind == EXG_ARGUMENT_TENSOR && args[i].as_tensor == EXG_NO_VALUE) {
            return EXG_FAIL(m->err, UNSUPPORTED, "TRF-001", "%s of a tensor that cannot be read",
                            op->target);
        }
    }
    status =
        exg_operator_evaluate(op, args, count, exg_builder_graph(m->r.builder), &result, m->err);
    if (status == EXG_USAGE && m->segment->depth > 0) {
        return EXG_FAIL(m->err, MALFORMED, "RUN-006", "the program asserts: %s",
                        count > 1 && args[1].kind == EXG_ARGUMENT_STRING ? args[1].as_string
                                                                         : "the range of a number");
    }
    if (status != EXG_OK || op->schema->return_count == 0 || gives_nothing(node)) {
        return status;
    }
    if (node->output_count != 1 || (node->outputs[0].kind != EXG_ARGUMENT_SYM_INT &&
                                    node->outputs[0].kind != EXG_ARGUMENT_SYM_BOOL &&
                                    node->outputs[0].kind != EXG_ARGUMENT_SYM_FLOAT)) {
        return EXG_FAIL(m->err, MALFORMED, "NOD-015", "%s gives one size", op->target);
    }
    m->numbers[node->outputs[0].as_sym.value] = result;
    return EXG_OK;
}

/* An assertion on data is an output that is looked at when the segment has run. */
static exg_status add_check(exg_segment_builder *m, const exg_node *node, exg_ref value,
                            const char *message)
{
    exg_graph_segment *s = m->segment;
    uint32_t capacity = m->check_capacity;

    if (!exg_arena_reserve(s->arena, &s->checks, s->check_count, &capacity, sizeof(*s->checks)) ||
        !exg_arena_reserve(s->arena, &m->checks, s->check_count, &m->check_capacity,
                           sizeof(*m->checks))) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    m->checks[s->check_count] = value;
    s->checks[s->check_count++] = (exg_check){.node = node, .message = message};
    return EXG_OK;
}

static exg_status do_check(exg_segment_builder *m, const exg_node *node)
{
    exg_ref value;

    EXG_TRY(element(m, &node->inputs[0].arg, &value));
    return add_check(m, node, value,
                     node->input_count > 1 && node->inputs[1].arg.kind == EXG_ARGUMENT_STRING
                         ? node->inputs[1].arg.as_string
                         : "a condition on data");
}

/* What a factorisation says of each matrix is 0 where it went well. */
static exg_status do_factorisation_check(exg_segment_builder *m, const exg_node *node)
{
    exg_builder *b = m->r.builder;
    const exg_argument *info = &node->inputs[0].arg;
    exg_ref good;
    const char *message;

    if (info->kind != EXG_ARGUMENT_TENSOR || node->input_count < 2 ||
        node->inputs[1].arg.kind != EXG_ARGUMENT_STRING) {
        return EXG_FAIL(m->err, MALFORMED, "NOD-015", "%s of other arguments", node->target);
    }
    good = EMIT(b, all_default, EMIT(b, eq_Scalar, m->r.refs[info->as_tensor], 0));
    EXG_TRY(exg_builder_status(b));
    message = exg_arena_printf(m->segment->arena, "%s: a matrix has no such factorisation",
                               node->inputs[1].arg.as_string);
    return message == NULL ? EXG_OUT_OF_MEMORY(m->err) : add_check(m, node, good, message);
}

/* The operator with the number it lacked; what an in-place one makes is copied to self. */
static exg_status do_sized(exg_segment_builder *m, const exg_node *node, const exg_operator *op,
                           const exg_operator *whole, exg_argument *args)
{
    const exg_operator *sized = exg_operators_get(m->r.operators, whole->sized);
    uint32_t count = sized->schema->argument_count;
    exg_argument result;

    for (uint32_t i = op->schema->argument_count; i < count; i++) {
        args[i] = whole->schema->arguments[i < whole->schema->argument_count ? i : 0].default_value;
    }
    args[count - 1] = *m->answer;
    m->answer = NULL;
    if (op == whole) {
        return exg_rewrite_emit(&m->r, node, whole->sized, args, count);
    }
    args[1] = exg_arg_ref(exg_emit(m->r.builder, whole->sized, args, count));
    EXG_TRY(exg_emit_all(m->r.builder, EXG_OP_copy__default, args, 2, &result));
    exg_rewrite_set(&m->r, node, &result);
    return EXG_OK;
}

static exg_status do_node(exg_segment_builder *m, const exg_node *node, const exg_operator *op)
{
    const exg_operator *whole =
        op->functional == EXG_OP_NONE ? op : exg_operators_get(m->r.operators, op->functional);
    exg_argument args[EXG_ARGUMENTS_MAX + 1];
    exg_argument_kind scalar_reads[EXG_ARGUMENTS_MAX];
    exg_argument size = exg_arg_none();
    exg_node known;

    EXG_TRY(resolve_node(m, node, &known));
    EXG_TRY(exg_rewrite_args(&m->r, &known, &op, args));
    if (whole->size != EXG_OP_NONE && m->answer != NULL) {
        return do_sized(m, node, op, whole, args);
    }
    if (whole->size != EXG_OP_NONE) {
        EXG_TRY(exg_emit_all(m->r.builder, whole->size, args,
                             exg_operators_get(m->r.operators, whole->size)->schema->argument_count,
                             &size));
        if (size.kind == EXG_ARGUMENT_TENSOR) {
            return wait_for_number(m, node, exg_get_ref(&size));
        }
    }
    return exg_decompose_node(&m->r, &known, op, args,
                              find_scalar_reads(m, node, op, scalar_reads) ? scalar_reads : NULL);
}

/* One without a row: left out, or one that calls a row's. */
static exg_status do_unknown(exg_segment_builder *m, const exg_node *node)
{
    exg_node known;

    if (exg_node_is_idle(&m->flat->reads, node)) {
        return EXG_OK;
    }
    if (exg_is_auto_functionalized(node->target)) {
        EXG_TRY(resolve_node(m, node, &known));
        return exg_emit_auto_functionalized(&m->r, &known);
    }
    return exg_fail_missing(m->err, "no operator ", exg_node_operator(node));
}

static exg_status do_any(exg_segment_builder *m, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(m->r.operators, node->target);
    bool done;

    switch (exg_higher_order_of(node->target)) {
    case EXG_HIGHER_ORDER_COND:
        return do_cond(m, node);
    case EXG_HIGHER_ORDER_MAP:
        EXG_TRY(exg_batch_map(m, node, &done));
        if (done) {
            return EXG_OK;
        }
        /* fall through */
    case EXG_HIGHER_ORDER_WHILE_LOOP:
    case EXG_HIGHER_ORDER_SCAN:
        m->segment->graph_break = EXG_GRAPH_BREAK_LOOP;
        m->segment->node = node;
        return EXG_OK;
    default:
        break;
    }
    if (op == NULL) {
        return do_unknown(m, node);
    }
    if (op->id == EXG_OP_set__source_Tensor) {
        return exg_segment_builder_set(m, node);
    }
    switch (op->id) {
    case EXG_OP_item_default:
    case EXG_OP__local_scalar_dense_default:
        return do_item(m, node);
    case EXG_OP__assert_async_default:
    case EXG_OP__assert_async_msg:
        return do_check(m, node);
    case EXG_OP__linalg_check_errors_default:
        return do_factorisation_check(m, node);
    default:
        return op->symbolic != NULL ? evaluate(m, node, op) : do_node(m, node, op);
    }
}

/* What the node does besides is done when the segment has run. */
static exg_status keep_effects(exg_segment_builder *m, const exg_node *node)
{
    uint32_t count;
    const exg_ref *kept = exg_builder_take_kept(m->r.builder, &count);

    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(add_check(m, node, kept[i], "an effect"));
    }
    return EXG_OK;
}

static exg_status do_nodes(exg_segment_builder *m)
{
    while (m->at < m->flat->graph.node_count) {
        const exg_node *node = &m->flat->graph.nodes[m->at];
        const exg_flat_graph *flat = m->flat;
        exg_status status = do_any(m, node);

        status = status == EXG_OK ? keep_effects(m, node) : status;
        if (status != EXG_OK) {
            return exg_error_at_node(m->err, status, node);
        }
        if (m->segment->graph_break != EXG_GRAPH_BREAK_END) {
            return EXG_OK;
        }
        m->at += m->flat == flat;
    }
    return EXG_OK;
}

/* ---- inputs ------------------------------------------------------------------------------- */

static exg_status own_inputs(exg_segment_builder *m)
{
    const exg_graph *graph = &m->flat->graph;
    exg_builder *b = m->r.builder;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];
        const exg_input_spec *spec = &m->flat->flat.signature.inputs[i];

        if (input->kind == EXG_ARGUMENT_TENSOR) {
            m->r.refs[input->as_tensor] = exg_builder_input(
                b, graph->values[input->as_tensor].name, m->flat->metas[i], spec->kind,
                exg_rewrite_text(&m->r, spec->target), spec->persistent);
            continue;
        }
        if (m->flat->numbers[i].kind != EXG_ARGUMENT_NONE && input->as_sym.value != EXG_NO_VALUE) {
            m->numbers[input->as_sym.value] = m->flat->numbers[i];
        }
        exg_builder_constant_input(
            b, exg_rewrite_text(&m->r, spec->arg.name),
            m->flat->numbers[i].kind == EXG_ARGUMENT_NONE ? input : &m->flat->numbers[i]);
    }
    return exg_builder_status(b);
}

static exg_ref *place_of(exg_segment_builder *m, exg_value_id id)
{
    return (id & EXG_REPLAYED_VALUE) != 0 ? &m->replayed[id & ~EXG_REPLAYED_VALUE] : &m->r.refs[id];
}

/* What earlier segments made and know. */
static exg_status earlier_inputs(exg_segment_builder *m, const exg_state *state)
{
    exg_builder *b = m->r.builder;

    m->replayed = EXG_NEW_ARRAY(m->r.out->arena, exg_ref, state->replayed_count);
    if (m->replayed == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t i = 0; i < m->segment->input_count; i++) {
        const exg_live_in *live_in = &m->segment->inputs[i];

        *place_of(m, live_in->id) =
            exg_builder_input(b, live_in->name, live_in->meta, EXG_INPUT_USER, NULL, EXG_UNSET);
        if ((live_in->id & EXG_REPLAYED_VALUE) == 0) {
            EXG_TRY(exg_layout_adopt(&m->r, live_in->id));
        }
    }
    for (uint32_t i = 0; i < state->known_count; i++) {
        m->numbers[state->known[i].id] = state->known[i].number;
    }
    for (uint32_t i = 0; i < state->view_count; i++) {
        const exg_replayed_view *view = &state->views[i];
        exg_argument args[EXG_ARGUMENTS_MAX];
        uint32_t count = exg_operators_get(m->r.operators, view->op)->schema->argument_count;

        memcpy(args, view->args, count * sizeof(*args));
        args[0] = exg_arg_ref(*place_of(m, view->from));
        if (view->op == EXG_OP_view_default) {
            EXG_TRY(exg_layout_allow_view(&m->r, args));
        }
        *place_of(m, view->to) = exg_emit(b, view->op, args, count);
    }
    return exg_builder_status(b);
}

/* ---- outputs ------------------------------------------------------------------------------ */

static exg_status program_outputs(exg_segment_builder *m)
{
    exg_graph graph = m->flat->graph;
    exg_program flat = m->flat->flat;

    flat.graph = &graph;
    graph.outputs = EXG_NEW_ARRAY(m->r.out->arena, exg_argument, graph.output_count);
    if (graph.outputs == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t o = 0; o < graph.output_count; o++) {
        EXG_TRY_IN(m->err,
                   exg_segment_builder_resolve(m, &m->flat->graph.outputs[o], &graph.outputs[o]),
                   "graph.outputs[%u]", o);
    }
    m->r.in = &flat;
    EXG_TRY(exg_rewrite_outputs(&m->r));
    m->r.in = &m->flat->flat;
    m->segment->output_count = graph.output_count;
    return EXG_OK;
}

static exg_status known_numbers(exg_segment_builder *m, uint32_t next)
{
    exg_state *after = &m->segment->after;
    uint32_t capacity = 0;

    for (uint32_t v = 0; v < m->flat->graph.value_count; v++) {
        if (m->numbers[v].kind == EXG_ARGUMENT_NONE || m->flat->reads.last_use[v] <= next) {
            continue;
        }
        if (!exg_arena_reserve(m->segment->arena, &after->known, after->known_count, &capacity,
                               sizeof(exg_known_number))) {
            return EXG_OUT_OF_MEMORY(m->err);
        }
        after->known[after->known_count++] = (exg_known_number){v, m->numbers[v]};
    }
    return EXG_OK;
}

/* ---- entry --------------------------------------------------------------------------------- */

/* What the segment waits for, in words. */
static exg_status tell(exg_graph_segment *s, exg_error *err)
{
    const char *name = s->node->name == NULL ? "" : s->node->name;

    s->break_reason = s->graph_break == EXG_GRAPH_BREAK_LOOP
                          ? exg_arena_printf(s->arena,
                                             "here the loop '%s' (%s) begins: it and what "
                                             "follows are planned in a run",
                                             name, s->node->target)
                          : exg_arena_printf(s->arena,
                                             "here a number is read for '%s' (%s): what follows "
                                             "is planned in a run",
                                             name, s->node->target);
    return s->break_reason == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static exg_status finish(exg_segment_builder *m)
{
    exg_graph_segment *s = m->segment;

    if (s->graph_break == EXG_GRAPH_BREAK_END) {
        EXG_TRY(program_outputs(m));
    } else {
        /* a sized operator and a cond are looked at again; the others are done */
        bool done = s->graph_break == EXG_GRAPH_BREAK_LOOP ||
                    (exg_higher_order_of(s->node->target) == EXG_HIGHER_ORDER_NOT &&
                     exg_operators_find(m->r.operators, s->node->target)->symbolic != NULL);
        uint32_t next = m->at + done;

        EXG_TRY(tell(s, m->err));
        EXG_TRY(exg_live_out(&m->r, s, next, m->err));
        EXG_TRY(known_numbers(m, next));
        if (s->graph_break == EXG_GRAPH_BREAK_NUMBER) {
            s->number_output = exg_segment_builder_output(m, m->number);
        } else {
            exg_status status = exg_segment_builder_loop(m);

            if (status != EXG_OK) {
                return exg_error_at_node(m->err, status, s->node);
            }
        }
    }
    for (uint32_t i = 0; i < s->check_count; i++) {
        s->checks[i].output = exg_segment_builder_output(m, m->checks[i]);
    }
    return exg_builder_status(m->r.builder);
}

static exg_status build(exg_segment_builder *m, const exg_state *state)
{
    m->numbers = EXG_NEW_ARRAY(m->r.out->arena, exg_argument, m->flat->graph.value_count);
    if (m->numbers == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    EXG_TRY(own_inputs(m));
    if (state != NULL) {
        m->at = state->at;
        EXG_TRY(earlier_inputs(m, state));
    }
    EXG_TRY(do_nodes(m));
    return finish(m);
}

exg_status exg_graph_segment_make(exg_graph_segment *s, exg_flat_graph *flat,
                                  const exg_state *state, const exg_argument *answer,
                                  exg_error *err)
{
    exg_segment_builder m = {.segment = s, .flat = flat, .answer = answer, .err = err};
    exg_expressions expressions;

    s->flat = flat;
    EXG_TRY(exg_rewrite_begin(&m.r, &flat->flat, flat->operators, err));
    m.r.symbols = &flat->symbols;
    exg_expressions_init(&expressions, m.r.out->arena);
    m.r.expressions = &expressions;
    exg_builder_set_lowering(m.r.builder, true);
    return exg_rewrite_finish(&m.r, build(&m, state), &s->program);
}

exg_status exg_graph_segment_new(const exg_allocator *allocator, uint32_t depth,
                                 exg_graph_segment **segment, exg_error *err)
{
    exg_arena *arena = exg_arena_create(allocator, EXG_ARENA_UNBOUNDED);

    *segment = arena == NULL ? NULL : EXG_NEW(arena, exg_graph_segment);
    if (*segment == NULL) {
        exg_arena_destroy(arena);
        return EXG_OUT_OF_MEMORY(err);
    }
    (*segment)->arena = arena;
    (*segment)->depth = depth;
    return EXG_OK;
}

void exg_graph_segment_destroy(exg_graph_segment *segment)
{
    if (segment != NULL) {
        exg_program_destroy(segment->program);
        exg_arena_destroy(segment->arena);
    }
}

static exg_status describe_inputs(exg_flat_graph *c, const exg_symbols *symbols,
                                  const exg_tensor_meta *const *metas, const exg_argument *numbers,
                                  exg_arena *arena, exg_error *err)
{
    const exg_graph *graph = &c->graph;

    for (uint32_t i = 0; symbols != NULL && i < symbols->count; i++) {
        const exg_symbol *symbol = &symbols->items[i];

        EXG_TRY(exg_symbols_add(&c->symbols, arena, symbol->name, strlen(symbol->name),
                                symbol->value, err));
    }
    c->metas = EXG_NEW_ARRAY(arena, exg_tensor_meta *, graph->input_count);
    c->numbers = EXG_NEW_ARRAY(arena, exg_argument, graph->input_count);
    if (c->metas == NULL || c->numbers == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];

        c->numbers[i] = numbers == NULL ? exg_arg_none() : numbers[i];
        if (input->kind == EXG_ARGUMENT_TENSOR && metas != NULL && metas[i] != NULL) {
            c->metas[i] = exg_meta_copy(arena, metas[i]);
            if (c->metas[i] == NULL) {
                return EXG_OUT_OF_MEMORY(err);
            }
            exg_meta_contiguous(c->metas[i]);
        } else if (input->kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY(exg_input_meta(&c->flat, i, symbols, arena, &c->metas[i], err));
        } else if (numbers == NULL &&
                   (input->kind == EXG_ARGUMENT_SYM_INT || input->kind == EXG_ARGUMENT_SYM_FLOAT)) {
            EXG_TRY(exg_input_number(&c->flat, i, symbols, &c->numbers[i], err));
        }
    }
    return EXG_OK;
}

static exg_status make_first(exg_graph_segment *s, const exg_program *program,
                             const exg_operators *operators, const exg_symbols *symbols,
                             const exg_tensor_meta *const *metas, const exg_argument *numbers,
                             exg_error *err)
{
    exg_flat_graph *flat;

    EXG_TRY(exg_flat_graph_create(program, operators, s->arena, &flat, err));
    EXG_TRY(describe_inputs(flat, symbols, metas, numbers, s->arena, err));
    return exg_graph_segment_make(s, flat, NULL, NULL, err);
}

static exg_status begin(const exg_program *program, const exg_operators *operators,
                        const exg_symbols *symbols, const exg_tensor_meta *const *metas,
                        const exg_argument *numbers, bool notes_origins,
                        exg_graph_segment **segment, exg_error *err)
{
    exg_program noted = *program;
    exg_graph_segment *s;
    exg_status status = EXG_OK;

    *segment = NULL;
    EXG_TRY(exg_graph_segment_new(exg_arena_allocator(program->arena), 0, &s, err));
    if (notes_origins) {
        status = exg_note_origins(program->graph, s->arena, &noted.graph, err);
    }
    status =
        status == EXG_OK ? make_first(s, &noted, operators, symbols, metas, numbers, err) : status;
    if (status != EXG_OK) {
        exg_graph_segment_destroy(s);
        return status;
    }
    *segment = s;
    return EXG_OK;
}

exg_status exg_graph_segment_begin(const exg_program *program, const exg_operators *operators,
                                   const exg_symbols *symbols, const exg_tensor_meta *const *metas,
                                   const exg_argument *numbers, exg_graph_segment **segment,
                                   exg_error *err)
{
    return begin(program, operators, symbols, metas, numbers, true, segment, err);
}

/* ---- ready to be planned -------------------------------------------------------------------- */

static bool is_written(const exg_signature *signature, const char *target)
{
    for (uint32_t o = 0; o < signature->output_count; o++) {
        const exg_output_spec *spec = &signature->outputs[o];

        if ((spec->kind == EXG_OUTPUT_BUFFER_MUTATION ||
             spec->kind == EXG_OUTPUT_PARAMETER_MUTATION) &&
            spec->target != NULL && strcmp(spec->target, target) == 0) {
            return true;
        }
    }
    return false;
}

/* A buffer that is given back as it is costs nothing and is the session's own. */
static exg_status keep_state(const exg_flat_graph *flat, exg_program *p, exg_error *err)
{
    exg_graph *graph = p->graph;
    exg_signature *signature = &p->signature;
    uint32_t most = graph->output_count + graph->input_count;
    exg_argument *outputs = EXG_NEW_ARRAY(p->arena, exg_argument, most);
    exg_output_spec *specs = EXG_NEW_ARRAY(p->arena, exg_output_spec, most);

    if (outputs == NULL || specs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(outputs, graph->outputs, graph->output_count * sizeof(*outputs));
    memcpy(specs, signature->outputs, graph->output_count * sizeof(*specs));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_input_spec *spec = &signature->inputs[i];
        bool kept =
            spec->kind == EXG_INPUT_BUFFER ||
            ((spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_CONSTANT_TENSOR) &&
             i < flat->graph.input_count && flat->written[i]);

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR || !kept || spec->target == NULL ||
            is_written(signature, spec->target)) {
            continue;
        }
        outputs[graph->output_count] = graph->inputs[i];
        specs[graph->output_count++] = (exg_output_spec){.kind = spec->kind == EXG_INPUT_PARAMETER
                                                                     ? EXG_OUTPUT_PARAMETER_MUTATION
                                                                     : EXG_OUTPUT_BUFFER_MUTATION,
                                                         .arg = spec->arg,
                                                         .target = spec->target};
    }
    graph->outputs = outputs;
    signature->outputs = specs;
    signature->output_count = graph->output_count;
    return EXG_OK;
}

exg_status exg_graph_segment_functional(exg_graph_segment *segment, bool keeps, bool on_host,
                                        exg_program **functional, exg_error *err)
{
    const exg_operators *operators = segment->flat->operators;
    exg_program *pure = NULL;
    exg_status status = EXG_OK;

    *functional = NULL;
    EXG_TRY(exg_functionalize(segment->program, operators, &pure, err));
    segment->first_output = pure->graph->output_count - segment->program->graph->output_count;
    if (keeps || segment->depth > 0 || segment->graph_break != EXG_GRAPH_BREAK_END) {
        status = keep_state(segment->flat, pure, err);
    }
    if (status == EXG_OK) {
        status = exg_simplify_here(&pure, operators, on_host, err);
    }
    if (status != EXG_OK) {
        exg_program_destroy(pure);
        return status;
    }
    *functional = pure;
    return EXG_OK;
}

exg_status exg_first_segment(const exg_verified *verified, const exg_symbols *symbols,
                             exg_program **out, char **break_reason, exg_error *err)
{
    EXG_REQUIRE(err, verified, symbols, out);
    exg_graph_segment *segment;
    exg_status status = EXG_OK;

    *out = NULL;
    if (break_reason != NULL) {
        *break_reason = NULL;
    }
    EXG_REQUIRE(err, verified->program, verified->operators);
    EXG_TRY(
        begin(verified->program, verified->operators, symbols, NULL, NULL, false, &segment, err));
    if (break_reason != NULL && segment->break_reason != NULL) {
        *break_reason = strdup(segment->break_reason);
        status = *break_reason == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    if (status == EXG_OK) {
        *out = segment->program;
        segment->program = NULL;
    }
    exg_graph_segment_destroy(segment);
    return status;
}
