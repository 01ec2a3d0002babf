/* registered.c - what rows of libraries do: shapes by the library's function, writes as copies. */
#include "libexport/operators/registered.h"
#include "libexport/operators/lower.h"

#include <string.h>

bool exg_registered_returns_argument(const exg_function_schema *schema, uint32_t r)
{
    for (uint32_t a = 0; schema->returns[r].alias != 0 && a < schema->argument_count; a++) {
        if (schema->arguments[a].alias == schema->returns[r].alias) {
            return true;
        }
    }
    return false;
}

uint32_t exg_registered_outputs(const exg_registered *registered, uint32_t output_count,
                                uint32_t written)
{
    return registered->form == EXG_REGISTERED_LENGTH ? 0
           : registered->form == EXG_REGISTERED_FUNCTIONAL
               ? output_count - written - registered->definition.effect
               : output_count;
}

/* ---- arguments ------------------------------------------------------------------------------ */

static exg_status plain_list(exg_argument *arg, exg_arena *arena, exg_error *err)
{
    const exg_sym_argument *syms = arg->as_syms;
    exg_argument plain = {.count = arg->count};

    plain.as_ints = EXG_NEW_ARRAY(arena, int64_t, arg->count + 1); /* as wide as any */
    if (plain.as_ints == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < arg->count; i++) {
        if (arg->kind == EXG_ARGUMENT_SYM_INTS) {
            plain.as_ints[i] = syms[i].as_int;
        } else if (arg->kind == EXG_ARGUMENT_SYM_FLOATS) {
            plain.as_floats[i] = syms[i].as_float;
        } else {
            plain.as_bools[i] = syms[i].as_bool;
        }
    }
    plain.kind = arg->kind == EXG_ARGUMENT_SYM_INTS     ? EXG_ARGUMENT_INTS
                 : arg->kind == EXG_ARGUMENT_SYM_FLOATS ? EXG_ARGUMENT_FLOATS
                                                        : EXG_ARGUMENT_BOOLS;
    *arg = plain;
    return EXG_OK;
}

/* A number that may have been symbolic, as it is now. */
static exg_status plain_argument(exg_argument *arg, exg_arena *arena, exg_error *err)
{
    exg_sym_argument sym = arg->as_sym;

    switch (arg->kind) {
    case EXG_ARGUMENT_SYM_INT:
        *arg = exg_arg_int(sym.as_int);
        return EXG_OK;
    case EXG_ARGUMENT_SYM_FLOAT:
        *arg = exg_arg_float(sym.as_float);
        return EXG_OK;
    case EXG_ARGUMENT_SYM_BOOL:
        *arg = exg_arg_bool(sym.as_bool);
        return EXG_OK;
    case EXG_ARGUMENT_SYM_INTS:
    case EXG_ARGUMENT_SYM_FLOATS:
    case EXG_ARGUMENT_SYM_BOOLS:
        return plain_list(arg, arena, err);
    default:
        return exg_argument_copy(arena, arg, err);
    }
}

/* An integer where a float is due, and one integer where a list of known length is. */
static exg_status fit_argument(exg_argument *arg, const exg_schema_type *type, exg_arena *arena,
                               exg_error *err)
{
    int64_t one = exg_get_int(arg);

    if (!type->is_list && type->base == EXG_TYPE_FLOAT && arg->kind == EXG_ARGUMENT_INT) {
        *arg = exg_arg_float((double)one);
    }
    if (!type->is_list || arg->kind != EXG_ARGUMENT_INT) {
        return EXG_OK;
    }
    *arg = (exg_argument){.kind = EXG_ARGUMENT_INTS,
                          .count = type->list_length,
                          .as_ints = EXG_NEW_ARRAY(arena, int64_t, type->list_length + 1)};
    for (uint32_t i = 0; arg->as_ints != NULL && i < arg->count; i++) {
        arg->as_ints[i] = one;
    }
    return arg->as_ints == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

exg_status exg_registered_call(const exg_registered *registered, const exg_argument *args,
                               exg_arena *arena, exg_operator_call *call, exg_error *err)
{
    const exg_function_schema *schema = registered->schema;
    exg_argument *own = EXG_NEW_ARRAY(arena, exg_argument, schema->argument_count + 1);

    if (own == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < schema->argument_count; i++) {
        own[i] = args[i];
        EXG_TRY(plain_argument(&own[i], arena, err));
        EXG_TRY(fit_argument(&own[i], &schema->arguments[i].type, arena, err));
    }
    *call = (exg_operator_call){.size = sizeof(*call),
                                .args = own,
                                .arg_count = schema->argument_count,
                                .user = registered->definition.user};
    if (registered->form == EXG_REGISTERED_SIZED) {
        call->length = exg_get_int(&args[schema->argument_count]);
    }
    return EXG_OK;
}

/* ---- shapes --------------------------------------------------------------------------------- */

static exg_status view_of(const exg_shape_call *call, exg_value_id id, exg_tensor *view,
                          exg_error *err)
{
    exg_dims dims;

    *view = (exg_tensor){.dtype = EXG_DTYPE_COUNT};
    if (id == EXG_NO_VALUE) {
        return EXG_OK;
    }
    EXG_TRY(exg_dims_of(call->graph->values[id].tensor, &dims, err));
    view->dtype = call->graph->values[id].tensor->dtype;
    view->rank = dims.rank;
    memcpy(view->sizes, dims.n, dims.rank * sizeof(dims.n[0]));
    exg_tensor_set_contiguous(view);
    return EXG_OK;
}

/* The tensors of argument `a`, from `at` on. */
static exg_status view_argument(const exg_shape_call *call, uint32_t a, exg_tensor *views,
                                uint32_t *at, exg_error *err)
{
    const exg_argument *arg = &call->args[a];

    if (call->op->schema->arguments[a].type.base != EXG_TYPE_TENSOR) {
        return EXG_OK;
    }
    if (arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) {
        for (uint32_t i = 0; i < arg->count; i++) {
            EXG_TRY(view_of(call, arg->as_tensors[i], &views[(*at)++], err));
        }
        return EXG_OK;
    }
    return view_of(call, exg_get_ref(arg).id, &views[(*at)++], err);
}

static exg_status find_inputs(const exg_shape_call *call, exg_operator_call *of, exg_error *err)
{
    uint32_t room = call->op->schema->argument_count;
    exg_tensor *views;

    for (uint32_t a = 0; a < call->op->schema->argument_count; a++) {
        room += call->args[a].count; /* of lists */
    }
    views = EXG_NEW_ARRAY(call->arena, exg_tensor, room + 1);
    if (views == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    of->inputs = views;
    for (uint32_t a = 0; a < of->arg_count; a++) {
        EXG_TRY(view_argument(call, a, views, &of->input_count, err));
    }
    return EXG_OK;
}

static exg_status bad_shape(const exg_shape_call *call, const char *what, exg_error *err)
{
    return EXG_FAIL(err, UNSUPPORTED, "LIB-007", "the shape function of %s gives %s",
                    call->op->target, what);
}

/* The library's word for one output, as a result. */
static exg_status add_result(exg_shape_call *call, const exg_tensor *output, bool is_optional,
                             uint32_t at, exg_error *err)
{
    exg_dims dims = {.rank = output->rank};

    if (output->dtype == EXG_DTYPE_COUNT && is_optional) {
        return EXG_OK;
    }
    if ((uint32_t)output->dtype >= EXG_DTYPE_COUNT) {
        return bad_shape(call, "no dtype", err);
    }
    if (output->rank > EXG_RANK_MAX) {
        return bad_shape(call, "a rank above 16", err);
    }
    for (uint32_t d = 0; d < output->rank; d++) {
        if (output->sizes[d] < 0) {
            return bad_shape(call, "a negative size", err);
        }
        dims.n[d] = output->sizes[d];
    }
    return exg_shape_result(call, at, output->dtype, &dims, err);
}

/* Results as many as there are, where one is a list. */
static exg_status make_room(exg_shape_call *call, uint32_t count, exg_error *err)
{
    if (count > call->result_count || call->op->schema->returns[0].type.is_list) {
        call->results = EXG_NEW_ARRAY(call->arena, exg_tensor_meta *, count + 1);
        call->result_count = count;
    }
    return call->results == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

/* What is written has the sizes that it had; then what is kept. */
static exg_status add_written(exg_shape_call *call, const exg_operator_call *of, uint32_t at,
                              exg_error *err)
{
    const exg_tensor done = {.dtype = EXG_DTYPE_B8};
    const exg_function_schema *schema = call->op->registered->schema;
    uint32_t input = 0;

    for (uint32_t a = 0; a < schema->argument_count; a++) {
        const exg_argument *arg = &of->args[a];
        bool is_list =
            arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
        uint32_t count = schema->arguments[a].type.base != EXG_TYPE_TENSOR ? 0
                         : is_list                                         ? arg->count
                                                                           : 1;

        if (schema->arguments[a].is_write && is_list) {
            EXG_TRY(make_room(call, count, err));
        }
        for (uint32_t i = 0; i < count; i++, input++) {
            if (schema->arguments[a].is_write) {
                EXG_TRY(add_result(call, &of->inputs[input], true, at++, err));
            }
        }
    }
    return call->op->registered->definition.effect ? add_result(call, &done, false, at, err)
                                                   : EXG_OK;
}

/* A LENGTH is an integer. */
static exg_status add_length(exg_shape_call *call, exg_error *err)
{
    const exg_tensor number = {.dtype = EXG_DTYPE_I64};

    return add_result(call, &number, false, 0, err);
}

/* What `lengthen` has of the call: so many outputs there is room for. */
typedef struct outputs {
    exg_arena *arena;
    uint32_t room;
    bool is_full;
} outputs;

static exg_tensor *new_outputs(exg_arena *arena, uint32_t room)
{
    exg_tensor *made = EXG_NEW_ARRAY(arena, exg_tensor, room + 1);

    for (uint32_t r = 0; made != NULL && r < room; r++) {
        made[r].dtype = EXG_DTYPE_COUNT;
    }
    return made;
}

static bool lengthen(exg_operator_call *of, uint32_t count)
{
    outputs *o = of->arena;
    exg_tensor *made = count <= o->room ? of->outputs : new_outputs(o->arena, count);

    if (made == NULL) {
        o->is_full = true;
        return false;
    }
    o->room = count <= o->room ? o->room : count;
    of->outputs = made;
    of->output_count = count;
    return true;
}

/* A list that is longer than there is room for, and was not asked for, comes to nothing worse than
 * a fault up to this. */
#define STRAY_OUTPUTS 256

/* The library's shape function, which fills of->outputs. */
static exg_status ask_shape(const exg_shape_call *call, exg_operator_call *of, bool is_list,
                            exg_error *err)
{
    uint32_t own = of->output_count;
    exg_error told = {.status = EXG_OK};
    outputs o = {.arena = call->arena, .room = EXG_RESULTS_MAX};
    exg_status status;

    of->outputs = new_outputs(call->arena, is_list ? STRAY_OUTPUTS : EXG_RESULTS_MAX);
    if (of->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    of->lengthen = is_list ? lengthen : NULL;
    of->arena = &o;
    status = call->op->registered->definition.shape(of, &told);
    if (o.is_full) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (status != EXG_OK) {
        told.message[sizeof(told.message) - 1] = '\0';
        return EXG_SHAPE_FAIL(err, "%s",
                              told.message[0] != '\0' ? told.message
                                                      : "its shape function does not say why");
    }
    if (is_list && of->output_count > o.room) {
        return exg_error_fix(err, bad_shape(call, "a longer list than it asked room for", err),
                             "call exg_operator_lengthen() before more than %d are filled",
                             EXG_RESULTS_MAX);
    }
    if (!is_list && of->output_count != own) {
        return bad_shape(call, "another number of outputs than its schema", err);
    }
    return EXG_OK;
}

exg_status exg_shape_registered(exg_shape_call *call, exg_error *err)
{
    const exg_registered *registered = call->op->registered;
    const exg_function_schema *schema = registered->schema;
    exg_operator_call of;
    bool is_list = false;

    if (registered->form == EXG_REGISTERED_LENGTH) {
        return add_length(call, err);
    }
    EXG_TRY(exg_registered_call(registered, call->args, call->arena, &of, err));
    EXG_TRY(find_inputs(call, &of, err));
    for (uint32_t r = 0; r < schema->return_count; r++) {
        of.output_count += !exg_registered_returns_argument(schema, r);
        is_list = is_list || schema->returns[r].type.is_list;
    }
    if (of.output_count > 0) {
        EXG_TRY(ask_shape(call, &of, is_list, err));
    }
    if (is_list) {
        EXG_TRY(make_room(call, of.output_count, err));
    }
    for (uint32_t r = 0; r < of.output_count; r++) {
        bool optional = !is_list && call->op->schema->returns[r].type.is_optional;

        EXG_TRY(add_result(call, &of.outputs[r], optional, r, err));
    }
    return registered->form == EXG_REGISTERED_FUNCTIONAL
               ? add_written(call, &of, of.output_count, err)
               : EXG_OK;
}

/* ---- writes --------------------------------------------------------------------------------- */

static void write_back(exg_builder *b, const exg_argument *arg, const exg_argument *made)
{
    bool is_list = arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;

    if (!is_list && exg_lower_given(arg) && exg_lower_given(made)) {
        (void)EMIT(b, copy__default, exg_get_ref(arg), exg_get_ref(made));
    }
    for (uint32_t i = 0; is_list && i < arg->count && i < made->count; i++) {
        if (arg->as_tensors[i] != EXG_NO_VALUE) {
            (void)EMIT(b, copy__default, (exg_ref){arg->as_tensors[i]},
                       (exg_ref){made->as_tensors[i]});
        }
    }
}

/* The operator that gives what would be written, and that written. */
void exg_lower_written(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_operator *op = exg_lower_operator(b);
    const exg_function_schema *schema = op->schema;
    exg_argument made[EXG_RESULTS_MAX] = {{0}};
    uint32_t at = 0;

    if (exg_emit_all(b, op->registered->functional, args, schema->argument_count, made) != EXG_OK) {
        return;
    }
    for (uint32_t r = 0; r < schema->return_count; r++) {
        if (!exg_registered_returns_argument(schema, r)) {
            results[r] = made[at++];
        }
    }
    for (uint32_t a = 0; a < schema->argument_count; a++) {
        if (schema->arguments[a].is_write) {
            write_back(b, &args[a], &made[at++]);
        }
        for (uint32_t r = 0; r < schema->return_count; r++) {
            if (schema->returns[r].alias != 0 &&
                schema->returns[r].alias == schema->arguments[a].alias) {
                results[r] = args[a];
            }
        }
    }
    if (op->registered->definition.effect) {
        exg_builder_keep(b, exg_get_ref(&made[at]));
    }
}
