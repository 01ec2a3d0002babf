/* auto_functionalized.c - operators that write, called on copies.
 *
 * auto_functionalized(op, **arguments) gives the results of the operator, and then copies of the
 * arguments that it writes, written. auto_functionalized_v2 has the tensors that these are views
 * of, _all_bases, and says of each written argument `x` which view it is: _x_base_index alone (the
 * base itself), with _x_alias, with _x_slice_dim, _start and _end, or with _x_size, _x_stride and
 * _x_storage_offset. For a list, _x_length and the same for _x_0, _x_1, ... It gives the bases.
 * Of what an out= operator writes, and does not read (torch.Tag.out), it says what it is like,
 * _x_size, _x_stride, _x_dtype and _x_device, and gives the operator's results alone.
 * (torch/_higher_order_ops/auto_functionalize.py)
 */
#include "libexport/transform/auto_functionalized.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/idle.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "torch.ops.higher_order.auto_functionalized";

bool exg_is_auto_functionalized(const char *target)
{
    const char *rest = target + sizeof(prefix) - 1;

    return strncmp(target, prefix, sizeof(prefix) - 1) == 0 &&
           (rest[0] == '\0' || strcmp(rest, "_v2") == 0);
}

typedef struct call {
    exg_rewrite *r;
    const exg_node *node;
    const exg_operator *op;
    const exg_argument *bases; /* of _v2: _all_bases */
    exg_ref *copies;           /* of the bases; else of what is written, in order */
    uint32_t copy_count;
} call;

static const exg_argument *find(const call *c, const char *name)
{
    for (uint32_t i = 0; i < c->node->input_count; i++) {
        if (strcmp(c->node->inputs[i].name, name) == 0) {
            return &c->node->inputs[i].arg;
        }
    }
    return NULL;
}

/* "_x_base_index" of the prefix "_x". */
static const exg_argument *find_part(const call *c, const char *of, const char *part)
{
    char name[256];

    snprintf(name, sizeof(name), "%s_%s", of, part);
    return find(c, name);
}

static exg_status malformed(const call *c, const char *what)
{
    return EXG_FAIL(c->r->err, MALFORMED, "GRF-010", "%s does not say %s of %s", c->node->target,
                    what, c->op->target);
}

static exg_status copy(call *c, exg_value_id id, exg_ref *made)
{
    exg_argument arg = {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};

    EXG_TRY(exg_rewrite_argument(c->r, &arg));
    *made = EMIT(c->r->builder, clone_default, exg_get_ref(&arg));
    return exg_builder_status(c->r->builder);
}

static exg_status copy_bases(call *c)
{
    if (c->bases->kind != EXG_ARGUMENT_TENSORS) {
        return c->bases->count == 0 ? EXG_OK : malformed(c, "the bases");
    }
    c->copy_count = c->bases->count;
    c->copies = EXG_NEW_ARRAY(c->r->out->arena, exg_ref, c->copy_count + 1);
    if (c->copies == NULL) {
        return EXG_OUT_OF_MEMORY(c->r->err);
    }
    for (uint32_t i = 0; i < c->copy_count; i++) {
        EXG_TRY(copy(c, c->bases->as_tensors[i], &c->copies[i]));
    }
    return EXG_OK;
}

/* ---- _v2: views of the copies -------------------------------------------------------------- */

static exg_status view_of_base(const call *c, const char *of, exg_argument *arg)
{
    exg_builder *b = c->r->builder;
    const exg_argument *index = find_part(c, of, "base_index");
    const exg_argument *size = find_part(c, of, "size");
    const exg_argument *stride = find_part(c, of, "stride");
    const exg_argument *offset = find_part(c, of, "storage_offset");
    const exg_argument *dim = find_part(c, of, "slice_dim");
    const exg_argument *start = find_part(c, of, "slice_start");
    const exg_argument *end = find_part(c, of, "slice_end");
    exg_ref base;

    if (index == NULL || exg_is_none(index)) {
        *arg = exg_arg_none();
        return index == NULL ? malformed(c, "the base of an argument") : EXG_OK;
    }
    if (index->kind != EXG_ARGUMENT_INT || (uint64_t)index->as_int >= c->copy_count) {
        return malformed(c, "a base that is there");
    }
    base = c->copies[index->as_int];
    if (size != NULL && stride != NULL && offset != NULL) {
        base = EMIT(b, as_strided_default, base, *size, *stride, *offset);
    } else if (dim != NULL && start != NULL && end != NULL) {
        base = EMIT(b, slice_Tensor, base, *dim, *start, *end, 1);
    }
    *arg = exg_arg_ref(base);
    return exg_builder_status(b);
}

/* A new tensor for an out= operator to write. */
static exg_status make_out(const call *c, const char *of, exg_argument *arg)
{
    const exg_argument *size = find_part(c, of, "size"), *stride = find_part(c, of, "stride");
    const exg_argument *dtype = find_part(c, of, "dtype");

    if (size == NULL || stride == NULL || dtype == NULL) {
        return malformed(c, "the base of an argument");
    }
    *arg = exg_arg_ref(EMIT(c->r->builder, empty_strided_default, *size, *stride, *dtype));
    return exg_builder_status(c->r->builder);
}

static exg_status views_of_bases(const call *c, const char *of, exg_argument *arg)
{
    const exg_argument *length = find_part(c, of, "length");
    exg_ref *refs;

    if (length == NULL || (length->kind != EXG_ARGUMENT_INT && !exg_is_none(length)) ||
        (uint64_t)exg_get_int(length) > c->node->input_count) {
        return malformed(c, "the length of a list");
    }
    *arg = exg_arg_none();
    if (exg_is_none(length)) {
        return EXG_OK;
    }
    refs = EXG_NEW_ARRAY(c->r->out->arena, exg_ref, (size_t)length->as_int + 1);
    if (refs == NULL) {
        return EXG_OUT_OF_MEMORY(c->r->err);
    }
    for (uint32_t i = 0; i < (uint32_t)length->as_int; i++) {
        exg_argument one;
        char item[256];

        snprintf(item, sizeof(item), "%s_%u", of, i);
        EXG_TRY(view_of_base(c, item, &one));
        refs[i] = exg_get_ref(&one);
    }
    *arg = exg_arg_refs(c->r->builder, refs, (uint32_t)length->as_int);
    return exg_builder_status(c->r->builder);
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* What is written, as a copy; those of a list one after another. */
static exg_status copy_written(call *c, exg_argument *arg)
{
    bool is_list = arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

    if (!is_list && exg_get_ref(arg).id != EXG_NO_VALUE) {
        exg_ref made;

        EXG_TRY(copy(c, exg_get_ref(arg).id, &made));
        *arg = exg_arg_ref(made);
    }
    if (is_list) {
        EXG_TRY(exg_argument_copy(c->r->out->arena, arg, c->r->err));
    }
    for (uint32_t i = 0; is_list && i < arg->count; i++) {
        exg_ref made;

        EXG_TRY(copy(c, arg->as_tensors[i], &made));
        arg->as_tensors[i] = made.id;
    }
    return EXG_OK;
}

static exg_status find_argument(call *c, uint32_t p, exg_argument *arg)
{
    const exg_schema_argument *parameter = &c->op->schema->arguments[p];
    const exg_argument *given = find(c, parameter->name);
    char of[256];

    if (parameter->is_write && c->bases != NULL) {
        snprintf(of, sizeof(of), "_%s", parameter->name);
        return parameter->type.is_list             ? views_of_bases(c, of, arg)
               : find_part(c, of, "dtype") != NULL ? make_out(c, of, arg)
                                                   : view_of_base(c, of, arg);
    }
    if (given == NULL && !parameter->has_default) {
        return EXG_FAIL(c->r->err, MALFORMED, "NOD-004", "%s lacks its parameter '%s'",
                        c->op->target, parameter->name);
    }
    *arg = given == NULL ? parameter->default_value : *given;
    if (!exg_argument_fits(arg, &parameter->type)) {
        return EXG_FAIL(c->r->err, MALFORMED, "NOD-006", "%s does not fit parameter '%s' of %s",
                        exg_argument_tag(arg->kind), parameter->name, c->op->target);
    }
    return parameter->is_write ? copy_written(c, arg) : exg_rewrite_argument(c->r, arg);
}

/* ---- results -------------------------------------------------------------------------------- */

/* The operator's own results, or one None; then what was written. */
static exg_status set_results(call *c, const exg_argument *args, const exg_argument *returned)
{
    uint32_t at = c->op->schema->return_count;
    uint32_t room = at + 1 + c->copy_count + c->op->schema->argument_count;
    exg_argument *results = EXG_NEW_ARRAY(c->r->out->arena, exg_argument, room);

    if (results == NULL) {
        return EXG_OUT_OF_MEMORY(c->r->err);
    }
    memcpy(results, returned, at * sizeof(*results));
    if (at == 0) {
        results[at++] = exg_arg_none();
    }
    for (uint32_t i = 0; c->bases != NULL && i < c->copy_count; i++) {
        results[at++] = exg_arg_ref(c->copies[i]);
    }
    for (uint32_t p = 0; c->bases == NULL && p < c->op->schema->argument_count; p++) {
        if (c->op->schema->arguments[p].is_write) {
            results[at++] = args[p];
        }
    }
    if (c->node->output_count > at) {
        return EXG_FAIL(c->r->err, MALFORMED, "NOD-007", "%s gives %u results, the node has %u",
                        c->node->target, at, c->node->output_count);
    }
    exg_rewrite_set(c->r, c->node, results);
    return EXG_OK;
}

exg_status exg_emit_auto_functionalized(exg_rewrite *r, const exg_node *node)
{
    const char *called = exg_node_operator(node);
    call c = {.r = r, .node = node, .op = exg_operators_find(r->operators, called)};
    exg_argument returned[EXG_RESULTS_MAX] = {{0}};
    exg_argument args[EXG_ARGUMENTS_MAX];

    if (c.op == NULL) {
        return EXG_FAIL(r->err, UNSUPPORTED, "OPR-003", "no operator '%s'", called);
    }
    exg_builder_set_origin(r->builder, &node->metadata);
    if (strcmp(node->target + sizeof(prefix) - 1, "_v2") == 0) {
        c.bases = find(&c, "_all_bases");
        if (c.bases == NULL) {
            return malformed(&c, "the bases");
        }
        EXG_TRY(copy_bases(&c));
    }
    for (uint32_t p = 0; p < c.op->schema->argument_count; p++) {
        EXG_TRY(find_argument(&c, p, &args[p]));
    }
    EXG_TRY(exg_emit_all(r->builder, c.op->id, args, c.op->schema->argument_count, returned));
    return set_results(&c, args, returned);
}
