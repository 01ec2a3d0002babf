/* dispatch.c - a call from key and objects to its entry: lowering, handler, cache. */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dispatch/tape.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/operators/registered.h"
#include "libexport/transform/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- operands --------------------------------- */

static exg_status other_mesh(const exg_device_mesh *a, const exg_device_mesh *b, exg_error *err)
{
    char texts[2][80];

    for (int i = 0; i < 2; i++) {
        const exg_device_mesh *mesh = i == 0 ? a : b;
        size_t at = 0;

        texts[i][0] = '\0';
        for (uint32_t r = 0; r < mesh->size && at + 16 < sizeof(texts[i]); r++) {
            at += (size_t)snprintf(texts[i] + at, sizeof(texts[i]) - at, "%s%u", r > 0 ? ", " : "",
                                   exg_device_mesh_global_rank(mesh, r));
        }
    }
    return EXG_FAIL(err, USAGE, "DSP-003", "DTensors of two meshes: {%s} and {%s}", texts[0],
                    texts[1]);
}

static exg_status find_mesh(exg_call *call, exg_device_mesh *otherwise)
{
    exg_device_mesh *mesh = NULL;

    for (uint32_t i = 0; i < call->operand_count; i++) {
        const exg_object *object = call->operands[i].object;

        if (object->kind != EXG_OBJECT_DTENSOR || object->dtensor->mesh == mesh) {
            continue;
        }
        if (mesh != NULL && !exg_device_mesh_equal(mesh, object->dtensor->mesh)) {
            return other_mesh(mesh, object->dtensor->mesh, call->err);
        }
        mesh = object->dtensor->mesh;
    }
    call->mesh = mesh == NULL ? otherwise : mesh;
    if (call->mesh == NULL) {
        return EXG_FAIL(call->err, USAGE, "DSP-008", "%s without a DTensor, and no mesh is set",
                        call->op_entry->key);
    }
    return EXG_OK;
}

static exg_status wrap_plain(exg_call *call, uint32_t i)
{
    const exg_tensor *tensor = call->operands[i].object->tensor;
    exg_dtensor *t = &call->wrapped[i];
    int64_t numel = exg_tensor_numel(tensor);

    if (numel != 1 && !call->d->options.implicit_replication) {
        return exg_error_fix(call->err,
                             EXG_FAIL(call->err, USAGE, "DSP-002",
                                      "%s of a plain tensor of %lld elements beside DTensors",
                                      call->op_entry->key, (long long)numel),
                             "distribute it, or allow implicit replication");
    }
    if (tensor->rank > 0 && numel == 1 && !call->d->options.implicit_replication) {
        exg_log_note(call->d, "%s: a plain tensor of one element counts as replicated",
                     call->op_entry->key);
    }
    *t = (exg_dtensor){.mesh = call->mesh, .local = *tensor, .rank = tensor->rank};
    memcpy(t->sizes, tensor->sizes, sizeof(t->sizes));
    memcpy(t->strides, tensor->strides, sizeof(t->strides));
    for (uint32_t m = 0; m < call->mesh->ndim; m++) {
        t->placements[m] = exg_replicate();
    }
    call->plain[i] = exg_object_dtensor(t);
    call->operands[i].object = &call->plain[i];
    return exg_dtensor_settle(t, call->err);
}

/* Plain tensors become replicated ones for the time of the call. */
static exg_status wrap_plains(exg_call *call)
{
    for (uint32_t i = 0; i < call->operand_count; i++) {
        if (call->operands[i].object->kind != EXG_OBJECT_TENSOR) {
            continue;
        }
        if (call->plain == NULL) {
            call->plain = calloc(call->operand_count, sizeof(*call->plain));
            call->wrapped = calloc(call->operand_count, sizeof(*call->wrapped));
        }
        if (call->plain == NULL || call->wrapped == NULL) {
            return EXG_OUT_OF_MEMORY(call->err);
        }
        EXG_TRY(wrap_plain(call, i));
    }
    return EXG_OK;
}

/* ---- calls --------------------------------- */

/* Are two local tensors in one piece of memory? */
static bool reach_one(const exg_tensor *a, const exg_tensor *b)
{
    const exg_tensor *both[2] = {a, b};
    const uint8_t *end[2];

    if (exg_tensor_numel(a) == 0 || exg_tensor_numel(b) == 0) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        int64_t last = 0;

        for (uint32_t k = 0; k < both[i]->rank; k++) {
            last += (both[i]->sizes[k] - 1) * both[i]->strides[k];
        }
        end[i] =
            (const uint8_t *)both[i]->data + (last + 1) * (int64_t)exg_dtype_bytes(both[i]->dtype);
    }
    return end[0] > (const uint8_t *)b->data && end[1] > (const uint8_t *)a->data;
}

/* Do two local tensors share bytes without being the same view? */
static bool overlap(const exg_tensor *a, const exg_tensor *b)
{
    return reach_one(a, b) && (a->data != b->data || !exg_tensor_is_alike(a, b) ||
                               !exg_dims_equal(a->strides, a->rank, b->strides, b->rank));
}

/* Does one plan compute the value and write it? The same on every rank. */
static bool is_one_plan(const exg_call *call, const exg_operator *functional)
{
    return functional->view == NULL && !exg_call_is_composite(functional, call) &&
           call->op_entry->registration.rule == NULL;
}

/* May it write operand 0 where that is? Of this rank's part. */
static bool writes_directly(const exg_call *call)
{
    const exg_tensor *self = &call->operands[0].object->dtensor->local;

    for (uint32_t i = 1; i < call->operand_count; i++) {
        if (call->operands[i].object->kind == EXG_OBJECT_DTENSOR &&
            overlap(self, &call->operands[i].object->dtensor->local)) {
            return false;
        }
    }
    return exg_tensor_is_contiguous(self);
}

/* The functional operator's value, written to argument 0. */
static exg_status run_written(exg_call *call, const exg_operator *functional, exg_object *result)
{
    exg_object *self = call->operands[0].object;
    exg_object made = exg_object_none();
    exg_op_entry *op_entry;
    exg_call inner;
    exg_status status;

    EXG_TRY(exg_op_entry_of_operator(call->d, functional, &op_entry, call->err));
    inner.d = call->d;
    inner.op_entry = op_entry;
    inner.op = functional;
    inner.is_inner = true;
    inner.err = call->err;
    for (uint32_t i = 0; i < functional->schema->argument_count; i++) {
        inner.at[i] = i < call->op->schema->argument_count ? call->at[i] : NULL;
    }
    EXG_TRY(exg_dispatch_call(&inner, call->mesh, &made));
    if (made.kind != EXG_OBJECT_DTENSOR) {
        exg_object_clear(&made, true);
        return EXG_FAIL(call->err, UNSUPPORTED, "DSP-006", "%s gives no tensor to write",
                        functional->target);
    }
    status = exg_dtensor_write(call->d, self->dtensor, made.dtensor, call->err);
    exg_dtensor_destroy(made.dtensor);
    *result = *self;
    return status;
}

static exg_status run_entry(exg_call *call, exg_object *result)
{
    exg_entry *entry;
    exg_status status;

    exg_call_cache_key(call, &call->d->key);
    EXG_TRY(exg_entry_find(call, exg_entry_create, NULL, &entry));
    entry->runs++;
    status = exg_entry_run(call, entry, result);
    entry->runs--;
    return status;
}

/* On a row-major copy of operand 0, which is then copied back: other ranks, whose parts lie
 * better, send and receive the same. */
static exg_status run_aside(exg_call *call, exg_object *result)
{
    exg_object *self = call->operands[0].object;
    exg_dtensor *t = self->dtensor;
    exg_object copy;
    exg_status status;

    EXG_TRY(exg_dtensor_make_owned(t->mesh, t->placements, t->local.dtype, t->rank, t->sizes,
                                   &copy.dtensor, call->err));
    copy.kind = EXG_OBJECT_DTENSOR;
    status = exg_dtensor_copy_part(t, copy.dtensor, call->err);
    if (status == EXG_OK) {
        call->operands[0].object = &copy;
        status = run_entry(call, result);
        call->operands[0].object = self;
    }
    if (status == EXG_OK) {
        status = exg_dtensor_copy_part(copy.dtensor, t, call->err);
        *result = *self;
    }
    exg_dtensor_destroy(copy.dtensor);
    return status;
}

/* Elements of a tensor, `offset` of them behind a place. */
static exg_strided strided_of(const exg_tensor *t, int64_t offset)
{
    exg_strided s = {.dtype = t->dtype, .rank = t->rank, .offset = offset};

    memcpy(s.sizes, t->sizes, t->rank * sizeof(s.sizes[0]));
    memcpy(s.strides, t->strides, t->rank * sizeof(s.strides[0]));
    return s;
}

/* Do two local tensors share an element? */
static bool share(const exg_tensor *a, const exg_tensor *b)
{
    int64_t bytes = (const uint8_t *)b->data - (const uint8_t *)a->data;
    int64_t width = (int64_t)exg_dtype_bytes(a->dtype);
    exg_strided of_a, of_b;

    if (!reach_one(a, b) || a->dtype != b->dtype || bytes % width != 0) {
        return reach_one(a, b);
    }
    of_a = strided_of(a, bytes < 0 ? -bytes / width : 0);
    of_b = strided_of(b, bytes < 0 ? 0 : bytes / width);
    return exg_share_elements(&of_a, &of_b);
}

static bool is_split(const exg_dtensor *t)
{
    bool split = false;

    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        split = split || t->placements[m].kind != EXG_REPLICATE;
    }
    return split;
}

/* What a library's kernel writes is no other tensor's, as in programs (FUN-004). A rank whose part
 * is empty finds nothing: the others tell it. */
static exg_status check_apart(const exg_call *call)
{
    const exg_function_schema *schema = call->op->schema;

    for (uint32_t i = 0; i < call->operand_count; i++) {
        const exg_operand_slot *a = &call->operands[i];
        bool is_written = schema->arguments[a->position].is_write;

        for (uint32_t j = 0; is_written && j < call->operand_count; j++) {
            const exg_operand_slot *b = &call->operands[j];

            if (i != j && a->object->kind == EXG_OBJECT_DTENSOR &&
                b->object->kind == EXG_OBJECT_DTENSOR &&
                share(&a->object->dtensor->local, &b->object->dtensor->local)) {
                if (call->mesh->communicator != NULL && is_split(a->object->dtensor)) {
                    exg_communicator_abort(call->mesh->communicator, EXG_UNSUPPORTED);
                }
                return EXG_FAIL(call->err, UNSUPPORTED, "FUN-004",
                                "%s writes tensor %u of '%s', which shares elements with tensor "
                                "%u of '%s'",
                                call->op_entry->key, a->item, schema->arguments[a->position].name,
                                b->item, schema->arguments[b->position].name);
            }
        }
    }
    return EXG_OK;
}

static exg_status run_call(exg_call *call, exg_object *result)
{
    const exg_operator *functional = exg_computed_by(call->d->operators, call->op);

    exg_log_call(call);
    if (call->op->registered != NULL && call->op->schema->is_mutable) {
        EXG_TRY(check_apart(call));
    }
    if (functional != call->op) {
        if (call->operand_count == 0 || call->operands[0].object->kind != EXG_OBJECT_DTENSOR) {
            return EXG_FAIL(call->err, USAGE, "DSP-001", "%s writes no DTensor",
                            call->op_entry->key);
        }
        if (call->operands[0].object->dtensor->detached) {
            return EXG_FAIL(call->err, UNSUPPORTED, "DSP-006",
                            "inplace_moves_self: %s of a view that had to be moved, whose base "
                            "would not see it",
                            call->op_entry->key);
        }
        if (functional->id == EXG_OP_alias_default) {
            *result = *call->operands[0].object;
            return EXG_OK;
        }
        if (!is_one_plan(call, functional)) {
            return run_written(call, functional, result);
        }
        exg_block_touch(call->operands[0].object->dtensor->owned);
        if (call->mesh->communicator != NULL && !writes_directly(call)) {
            return run_aside(call, result);
        }
    }
    return run_entry(call, result);
}

exg_status exg_dispatch_call(exg_call *call, exg_device_mesh *mesh, exg_object *result)
{
    exg_status status;

    call->plain = NULL;
    call->wrapped = NULL;
    EXG_TRY(exg_call_operands(call->op->schema, call->at, call->operands, EXG_CALL_OPERANDS_MAX,
                              &call->operand_count, call->err));
    EXG_TRY(find_mesh(call, mesh));
    status = wrap_plains(call);
    if (status == EXG_OK) {
        status = exg_tape_call(call, run_call, result);
    }
    for (uint32_t i = 0; call->wrapped != NULL && i < call->operand_count; i++) {
        exg_block_release(call->wrapped[i].owned); /* what was brought to the device */
    }
    free(call->plain);
    free(call->wrapped);
    return status;
}

exg_status exg_dispatch_by_table(exg_dispatcher *d, const char *key, const exg_object *args,
                                 uint32_t arg_count, const exg_named_object *kwargs,
                                 uint32_t kwarg_count, exg_object *result, exg_error *err)
{
    exg_op_entry *op_entry;
    exg_op_schema as_given;
    exg_call call;

    EXG_TRY(exg_op_entry_of(d, key, &op_entry, err));
    if (op_entry->op == NULL || op_entry->op->symbolic != NULL) {
        return EXG_FAIL(err, UNSUPPORTED, "OPR-003", "no operator '%s'", key);
    }
    if (op_entry->op->registered != NULL && op_entry->op->registered->definition.effect) {
        return exg_error_fix(
            err, EXG_FAIL(err, UNSUPPORTED, "OPR-002", "%s has an effect, eagerly", key),
            "call it in a program, which a session runs");
    }
    call.d = d;
    call.op_entry = op_entry;
    call.op = op_entry->op;
    call.is_inner = false;
    call.err = err;
    /* the caller's objects, which are only read */
    exg_op_schema_init(&as_given, op_entry->op->schema, (exg_object *)(uintptr_t)args, arg_count,
                       (exg_named_object *)(uintptr_t)kwargs, kwarg_count);
    EXG_TRY(exg_schema_positions(&as_given, call.at, err));
    for (uint32_t i = 0; i < op_entry->op->schema->argument_count; i++) {
        if (call.at[i] != NULL && call.at[i]->kind == EXG_OBJECT_UINT) {
            return EXG_FAIL(err, USAGE, "DSP-001", "%s of an integer above INT64_MAX", key);
        }
    }
    return exg_dispatch_call(&call, exg_current_mesh(d), result);
}

#define NESTED_MAX 8 /* lists in one another */

/* Values stand for themselves: no reference to a graph, no list without its items. */
static exg_status check_value(const exg_argument *value, exg_error *err)
{
    switch (value->kind) {
    case EXG_ARGUMENT_NONE:
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
    case EXG_ARGUMENT_SCALAR_TYPE:
    case EXG_ARGUMENT_MEMORY_FORMAT:
    case EXG_ARGUMENT_LAYOUT:
    case EXG_ARGUMENT_DEVICE:
    case EXG_ARGUMENT_COMPLEX:
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return value->as_sym.value == EXG_NO_VALUE
                   ? EXG_OK
                   : EXG_FAIL(err, USAGE, "DSP-001", "a value of a graph");
    case EXG_ARGUMENT_STRING:
        EXG_REQUIRE(err, value->as_string);
        return EXG_OK;
    case EXG_ARGUMENT_INTS:
        EXG_REQUIRE(err, EXG_IF_ANY(value->count, value->as_ints));
        return EXG_OK;
    case EXG_ARGUMENT_FLOATS:
        EXG_REQUIRE(err, EXG_IF_ANY(value->count, value->as_floats));
        return EXG_OK;
    case EXG_ARGUMENT_BOOLS:
        EXG_REQUIRE(err, EXG_IF_ANY(value->count, value->as_bools));
        return EXG_OK;
    case EXG_ARGUMENT_STRINGS:
        EXG_REQUIRE(err, EXG_IF_ANY(value->count, value->as_strings));
        return EXG_OK;
    default:
        return EXG_FAIL(err, USAGE, "DSP-001", "an argument that is not a plain value");
    }
}

/* Is there what the object speaks of? What is computed of has data, and they are here. */
static exg_status check_object(const char *key, const exg_object *object, uint32_t depth,
                               exg_error *err)
{
    EXG_TRY(EXG_CHECK_CHOICE(object->kind, EXG_OBJECT_TUPLE, "exg_object.kind", err));
    switch (object->kind) {
    case EXG_OBJECT_NONE:
    case EXG_OBJECT_UINT:
        return EXG_OK;
    case EXG_OBJECT_VALUE:
        return check_value(&object->value, err);
    case EXG_OBJECT_DTENSOR:
        EXG_REQUIRE(err, object->dtensor);
        return object->dtensor->meta
                   ? EXG_FAIL(err, USAGE, "DSP-010", "%s of a meta tensor, which has no data", key)
                   : exg_dtensor_wait(object->dtensor, err);
    case EXG_OBJECT_TENSOR:
        EXG_REQUIRE(err, object->tensor);
        return exg_tensor_is_absent(object->tensor)
                   ? EXG_OK
                   : exg_spec_sizes(object->tensor->dtype, object->tensor->rank,
                                    object->tensor->sizes, err);
    case EXG_OBJECT_SPEC:
        EXG_REQUIRE(err, object->spec);
        return EXG_OK;
    case EXG_OBJECT_LIST:
    case EXG_OBJECT_TUPLE:
        EXG_REQUIRE(err, EXG_IF_ANY(object->count, object->items));
        if (depth == NESTED_MAX) {
            return EXG_FAIL(err, USAGE, "DSP-001", "%s of lists in more than %d lists", key,
                            NESTED_MAX);
        }
        for (uint32_t i = 0; i < object->count; i++) {
            EXG_TRY(check_object(key, &object->items[i], depth + 1, err));
        }
        return EXG_OK;
    }
    return EXG_OK;
}

exg_status exg_dispatch(exg_dispatcher *d, const char *key, const exg_object *args,
                        uint32_t arg_count, const exg_named_object *kwargs, uint32_t kwarg_count,
                        exg_object *result, exg_error *err)
{
    EXG_REQUIRE(err, d, key, EXG_IF_ANY(arg_count, args), EXG_IF_ANY(kwarg_count, kwargs), result);
    exg_op_entry *op_entry;
    exg_custom_handler *handler;

    *result = exg_object_none();
    for (uint32_t i = 0; i < arg_count; i++) {
        EXG_TRY(check_object(key, &args[i], 0, err));
    }
    for (uint32_t i = 0; i < kwarg_count; i++) {
        EXG_REQUIRE(err, kwargs[i].name);
        EXG_TRY(check_object(key, &kwargs[i].object, 0, err));
    }
    EXG_TRY(exg_op_entry_of(d, key, &op_entry, err));
    handler = op_entry->registration.lowering != NULL ? op_entry->registration.lowering
                                                      : op_entry->registration.handler;
    if (handler != NULL) {
        return handler(op_entry->registration.user, d, key, args, arg_count, kwargs, kwarg_count,
                       result, err);
    }
    return exg_dispatch_by_table(d, key, args, arg_count, kwargs, kwarg_count, result, err);
}
