/* call.c - the arguments of a call by position, as a schema and as values of a graph; what
 * follows from its operands alone.
 */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/propagate.h"
#include "libexport/base/arena.h"
#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"

#include <string.h>

static uint32_t parameter_called(const exg_function_schema *schema, const char *name)
{
    uint32_t i = 0;

    while (i < schema->argument_count && strcmp(schema->arguments[i].name, name) != 0) {
        i++;
    }
    return i;
}

exg_status exg_schema_positions(const exg_op_schema *schema, exg_object **at, exg_error *err)
{
    const exg_function_schema *f = schema->func_schema;

    memset(at, 0, EXG_ARGUMENTS_MAX * sizeof(*at));
    if (schema->arg_count > f->argument_count) {
        return EXG_FAIL(err, USAGE, "DSP-001", "%s takes %u arguments, %u given", f->name,
                        f->argument_count, schema->arg_count);
    }
    for (uint32_t i = 0; i < schema->arg_count; i++) {
        at[i] = &schema->args[i];
    }
    for (uint32_t k = 0; k < schema->kwarg_count; k++) {
        uint32_t i = parameter_called(f, schema->kwargs[k].name);

        if (i == f->argument_count || at[i] != NULL) {
            return EXG_FAIL(err, USAGE, "DSP-001", "%s has no parameter '%s', or has it twice",
                            f->name, schema->kwargs[k].name);
        }
        at[i] = &schema->kwargs[k].object;
    }
    for (uint32_t i = 0; i < f->argument_count; i++) {
        if (at[i] == NULL && !f->arguments[i].has_default) {
            return EXG_FAIL(err, USAGE, "DSP-001", "%s lacks its argument '%s'", f->name,
                            f->arguments[i].name);
        }
    }
    return EXG_OK;
}

static bool is_list(const exg_object *object)
{
    return object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE;
}

exg_status exg_call_operands(const exg_function_schema *schema, exg_object *const *at,
                             exg_operand_slot *operands, uint32_t max, uint32_t *count,
                             exg_error *err)
{
    static const exg_object absent = {.kind = EXG_OBJECT_NONE}; /* never written: no spec */

    *count = 0;
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        exg_object *object = at[i] == NULL ? (exg_object *)(uintptr_t)&absent : at[i];
        uint32_t items = is_list(object) ? object->count : 1;

        if (schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            continue;
        }
        if (*count + items > max) {
            return EXG_FAIL(err, LIMIT, "DSP-001", "%s of more than %u tensors", schema->name, max);
        }
        for (uint32_t t = 0; t < items; t++) {
            operands[(*count)++] =
                (exg_operand_slot){i, t, is_list(object) ? &object->items[t] : object};
        }
    }
    return EXG_OK;
}

/* ---- as a graph --------------------------------- */

static exg_tensor_meta *new_meta(exg_arena *arena, exg_dtype dtype, uint32_t rank,
                                 const int64_t *sizes, const int64_t *strides)
{
    exg_tensor_meta *meta = EXG_NEW(arena, exg_tensor_meta);

    if (meta == NULL) {
        return NULL;
    }
    meta->dtype = dtype;
    meta->layout = EXG_LAYOUT_STRIDED;
    meta->rank = rank;
    meta->device = (exg_device){"cpu", -1};
    meta->sizes = EXG_NEW_ARRAY(arena, exg_sym_int, rank);
    meta->strides = EXG_NEW_ARRAY(arena, exg_sym_int, rank);
    if (meta->sizes == NULL || meta->strides == NULL) {
        return NULL;
    }
    for (uint32_t d = 0; d < rank; d++) {
        meta->sizes[d] = exg_sym_int_of(sizes[d]);
        meta->strides[d] = exg_sym_int_of(strides[d]);
    }
    return meta;
}

/* Of the first tensor that is no number: what numbers go by. */
static exg_dtype dtype_beside(const exg_meta_call *call)
{
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (call->operands[i].object->kind == EXG_OBJECT_SPEC) {
            return call->operands[i].object->spec->dtype;
        }
    }
    return EXG_DTYPE_F32;
}

static exg_status add_values(exg_meta_call *call, exg_arena *arena, exg_error *err)
{
    exg_dtype beside = dtype_beside(call);

    call->graph.values = EXG_NEW_ARRAY(arena, exg_value, call->operand_count);
    if (call->graph.values == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const exg_object *object = call->operands[i].object;
        exg_tensor_meta *meta;

        call->ids[i] = EXG_NO_VALUE;
        if (object->kind == EXG_OBJECT_SPEC) {
            meta = new_meta(arena, object->spec->dtype, object->spec->rank, object->spec->sizes,
                            object->spec->strides);
        } else if (object->kind == EXG_OBJECT_VALUE) {
            meta = new_meta(arena, exg_number_dtype(object->value.kind, beside), 0, NULL, NULL);
        } else {
            continue;
        }
        if (meta == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        call->ids[i] = call->graph.value_count;
        call->graph.values[call->graph.value_count++] = (exg_value){.name = "", .tensor = meta};
    }
    return EXG_OK;
}

void exg_call_arguments(exg_builder *b, const exg_function_schema *schema, exg_object *const *at,
                        const exg_operand_slot *operands, uint32_t count, const exg_ref *refs,
                        exg_argument *args)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        const exg_object *object = at[i];
        uint32_t first = next;

        while (next < count && operands[next].position == i) {
            next++;
        }
        if (schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            args[i] = object == NULL                     ? schema->arguments[i].default_value
                      : object->kind == EXG_OBJECT_VALUE ? object->value
                                                         : exg_arg_none();
        } else if (object != NULL && is_list(object)) {
            args[i] = exg_arg_refs(b, &refs[first], next - first);
            if (schema->arguments[i].type.is_element_optional) {
                args[i].kind = EXG_ARGUMENT_OPTIONAL_TENSORS;
            }
        } else {
            args[i] = exg_arg_ref(refs[first]);
        }
    }
}

/* A tensor parameter's argument over the ids from *next on. */
static exg_status tensor_argument(exg_meta_call *call, const exg_object *object, bool optional,
                                  uint32_t *next, exg_arena *arena, exg_argument *arg,
                                  exg_error *err)
{
    if (object == NULL || !is_list(object)) {
        *arg = exg_arg_ref((exg_ref){call->ids[*next]});
        ++*next;
        return EXG_OK;
    }
    *arg = (exg_argument){.kind = optional ? EXG_ARGUMENT_OPTIONAL_TENSORS : EXG_ARGUMENT_TENSORS,
                          .count = object->count};
    arg->as_tensors = EXG_NEW_ARRAY(arena, exg_value_id, object->count);
    if (arg->as_tensors == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t t = 0; t < object->count; t++) {
        arg->as_tensors[t] = call->ids[*next];
        ++*next;
    }
    return EXG_OK;
}

exg_status exg_op_schema_meta_args(const exg_op_schema *schema, exg_arena *arena,
                                   exg_meta_call *call, exg_error *err)
{
    const exg_function_schema *f = schema->func_schema;
    exg_object *at[EXG_ARGUMENTS_MAX];
    uint32_t next = 0;

    call->graph = (exg_graph){0};
    EXG_TRY(exg_schema_positions(schema, at, err));
    EXG_TRY(
        exg_call_operands(f, at, call->operands, EXG_CALL_OPERANDS_MAX, &call->operand_count, err));
    EXG_TRY(add_values(call, arena, err));
    for (uint32_t i = 0; i < f->argument_count; i++) {
        const exg_schema_argument *parameter = &f->arguments[i];

        if (parameter->type.base == EXG_TYPE_TENSOR) {
            EXG_TRY(tensor_argument(call, at[i], parameter->type.is_element_optional, &next, arena,
                                    &call->args[i], err));
        } else {
            call->args[i] = at[i] == NULL                     ? parameter->default_value
                            : at[i]->kind == EXG_OBJECT_VALUE ? at[i]->value
                                                              : exg_arg_none();
        }
        if (!exg_argument_fits(&call->args[i], &parameter->type)) {
            return EXG_FAIL(err, USAGE, "DSP-001", "%s does not fit parameter '%s' of %s",
                            exg_argument_tag(call->args[i].kind), parameter->name, f->name);
        }
    }
    return EXG_OK;
}

static bool has_operand_of(const exg_call *call, bool (*is_wanted)(exg_dtype dtype))
{
    for (uint32_t i = 0; i < call->operand_count; i++) {
        const exg_object *object = call->operands[i].object;

        if (object->kind == EXG_OBJECT_DTENSOR && is_wanted(object->dtensor->local.dtype)) {
            return true;
        }
    }
    return false;
}

static bool is_complex(const exg_call *call)
{
    if (has_operand_of(call, exg_dtype_is_complex)) {
        return true;
    }
    for (uint32_t i = 0; i < call->op->schema->argument_count; i++) {
        const exg_object *object = call->at[i];

        if (object != NULL && object->kind == EXG_OBJECT_VALUE &&
            (object->value.kind == EXG_ARGUMENT_COMPLEX ||
             (object->value.kind == EXG_ARGUMENT_SCALAR_TYPE &&
              exg_dtype_is_complex(object->value.as_scalar_type)))) {
            return true;
        }
    }
    return false;
}

bool exg_call_is_composite(const exg_operator *op, const exg_call *call)
{
    const exg_dtype_lowerings *of = exg_operators_dtype_lowerings(call->d->operators, op->id);

    return op->lowering != NULL || (of->of_complex != NULL && is_complex(call)) ||
           (of->of_float8 != NULL && has_operand_of(call, exg_dtype_is_float8));
}

bool exg_call_wants_gradient(const exg_call *call)
{
    for (uint32_t i = 0; !call->d->grad_disabled && i < call->operand_count; i++) {
        const exg_object *object = call->operands[i].object;

        if (object->kind == EXG_OBJECT_DTENSOR && object->dtensor->history != NULL) {
            return true;
        }
    }
    return false;
}

exg_status exg_call_schema(const exg_call *call, exg_op_schema *schema, exg_arena *arena)
{
    const exg_function_schema *f = call->op->schema;
    exg_object args[EXG_ARGUMENTS_MAX];
    exg_named_object kwargs[EXG_ARGUMENTS_MAX];
    uint32_t given = 0, kwarg_count = 0, next = 0;
    exg_object items[EXG_CALL_OPERANDS_MAX];

    for (uint32_t i = 0; i < f->argument_count; i++) {
        given = call->at[i] != NULL && !f->arguments[i].keyword_only ? i + 1 : given;
    }
    for (uint32_t i = 0; i < f->argument_count; i++) {
        exg_object object =
            call->at[i] != NULL ? *call->at[i] : exg_object_value(f->arguments[i].default_value);

        if (f->arguments[i].type.base == EXG_TYPE_TENSOR) { /* as wrapped */
            uint32_t first = next;

            for (; next < call->operand_count && call->operands[next].position == i; next++) {
                items[next] = *call->operands[next].object;
            }
            if (object.kind == EXG_OBJECT_LIST || object.kind == EXG_OBJECT_TUPLE) {
                object.items = &items[first];
            } else {
                object = items[first];
            }
        }
        if (i < given) {
            args[i] = object;
        } else if (call->at[i] != NULL) {
            kwargs[kwarg_count++] = (exg_named_object){f->arguments[i].name, object};
        }
    }
    return exg_op_schema_from_call(schema, f, args, given, kwargs, kwarg_count, arena, call->err);
}
