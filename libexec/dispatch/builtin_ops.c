/* builtin_ops.c - operators that are no map of local tensors: numbers, lists, other views of
 * the object itself.
 */
#include "libexec/comm/collectives.h"
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/require.h"

#include <exg/operator_id_new.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static exg_status want(const char *key, bool fits, exg_error *err)
{
    return fits ? EXG_OK : EXG_FAIL(err, USAGE, "DSP-001", "arguments that %s does not take", key);
}

static bool is_dtensor(const exg_object *args, uint32_t count, uint32_t i)
{
    return i < count && args[i].kind == EXG_OBJECT_DTENSOR;
}

/* ---- numbers --------------------------------- */

exg_status exg_dtensor_item(const exg_dtensor *t, exg_scalar *number, exg_error *err)
{
    EXG_REQUIRE(err, t, number);
    exg_dtensor *whole;
    exg_host_copy m = {.device = NULL};
    exg_status status = EXG_OK;
    int64_t numel = 1;

    memset(number, 0, sizeof(*number)); /* all its bytes are told */
    for (uint32_t d = 0; d < t->rank; d++) {
        numel *= t->sizes[d];
    }
    if (t->meta) {
        return EXG_FAIL(err, USAGE, "DSP-010", "the number of a meta tensor, which has no data");
    }
    if (numel != 1) {
        return EXG_FAIL(err, USAGE, "DSP-001", "a tensor of %lld elements is not a number",
                        (long long)numel);
    }
    EXG_TRY(exg_dtensor_full_tensor(t, &whole, err));
    if (t->mesh->communicator != NULL) {
        status = exg_dtensor_host_copy(whole, true, &m, err);
        if (status == EXG_OK) {
            *number = exg_scalar_read(m.here.dtype, m.here.data);
        }
        exg_host_copy_close(&m);
        if (status != EXG_OK) { /* the others would wait */
            exg_communicator_abort(t->mesh->communicator, status);
        }
    }
    if (status == EXG_OK && t->mesh->communicator != NULL) {
        status = exg_broadcast_bytes(t->mesh->communicator, number, sizeof(*number), 0, err);
    }
    exg_dtensor_destroy(whole);
    return status;
}

static exg_status item(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                       uint32_t arg_count, const exg_named_object *kwargs, uint32_t kwarg_count,
                       exg_object *result, exg_error *err)
{
    exg_scalar number;

    (void)user;
    (void)d;
    (void)kwargs;
    EXG_TRY(want(key, arg_count == 1 && kwarg_count == 0 && is_dtensor(args, 1, 0), err));
    EXG_TRY(exg_dtensor_item(args[0].dtensor, &number, err));
    *result = exg_object_scalar(number);
    return EXG_OK;
}

/* Nothing comes of what holds. */
static exg_status assert_async(void *user, exg_dispatcher *d, const char *key,
                               const exg_object *args, uint32_t arg_count,
                               const exg_named_object *kwargs, uint32_t kwarg_count,
                               exg_object *result, exg_error *err)
{
    bool says = arg_count > 1 && args[1].kind == EXG_OBJECT_VALUE &&
                args[1].value.kind == EXG_ARGUMENT_STRING;
    exg_scalar number;
    bool truth = true;

    (void)user;
    (void)d;
    (void)kwargs;
    (void)kwarg_count;
    (void)result;
    EXG_TRY(want(key, is_dtensor(args, arg_count, 0), err));
    EXG_TRY(exg_dtensor_item(args[0].dtensor, &number, err));
    if (number.kind != EXG_SCALAR_NONE) {
        EXG_TRY(exg_scalar_store(EXG_DTYPE_B8, &truth, number, err));
    }
    return truth ? EXG_OK
                 : EXG_FAIL(err, MALFORMED, "RUN-006", "an assertion does not hold: %s",
                            says ? args[1].value.as_string : "");
}

/* Goes on to the next element of `t` in row-major order; false after the last. */
static bool next_element(const exg_tensor *t, int64_t *index)
{
    uint32_t d = t->rank;

    while (d-- > 0 && ++index[d] == t->sizes[d]) {
        index[d] = 0;
    }
    return d != UINT32_MAX;
}

static uint8_t *element_at(const exg_tensor *t, const int64_t *index)
{
    int64_t at = 0;

    for (uint32_t d = 0; d < t->rank; d++) {
        at += index[d] * t->strides[d];
    }
    return (uint8_t *)t->data + at * (int64_t)exg_dtype_bytes(t->dtype);
}

/* Element by element, whatever the strides. */
static bool equal_local(const exg_tensor *a, const exg_tensor *b)
{
    int64_t index[EXG_RANK_MAX] = {0};
    uint32_t bytes = exg_dtype_bytes(a->dtype);

    if (exg_tensor_numel(a) == 0) {
        return true;
    }
    do {
        const uint8_t *x = element_at(a, index);
        const uint8_t *y = element_at(b, index);

        if (exg_dtype_is_integral(a->dtype)
                ? memcmp(x, y, bytes) != 0
                : exg_element_value(a->dtype, x) != exg_element_value(b->dtype, y)) {
            return false;
        }
    } while (next_element(a, index));
    return true;
}

/* The smallest or largest of what the ranks found. */
static exg_status agree(exg_communicator *c, exg_reduce_op op, bool *truth, exg_error *err)
{
    uint8_t own = *truth;
    uint8_t all = 0;
    exg_tensor in = {.data = &own, .dtype = EXG_DTYPE_U8, .rank = 0};
    exg_tensor out = {.data = &all, .dtype = EXG_DTYPE_U8, .rank = 0};
    exg_collective what = {.kind = EXG_ALL_REDUCE, .in = &in, .out = &out, .op = op};
    void *workspace = malloc((size_t)exg_collective_workspace(c, &what) + 1);
    exg_status status;

    if (workspace == NULL) {
        exg_communicator_abort(c, EXG_NO_MEMORY);
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_collective_run(c, &what, workspace, err);
    free(workspace);
    *truth = all != 0;
    return status;
}

/* The parts of two that are placed alike. */
static exg_status compare_parts(const exg_dtensor *a, const exg_dtensor *b, bool *same,
                                exg_error *err)
{
    exg_host_copy x = {.device = NULL}, y = {.device = NULL};
    exg_status status = exg_dtensor_host_copy(a, true, &x, err);

    if (status == EXG_OK) {
        status = exg_dtensor_host_copy(b, true, &y, err);
    }
    *same = status == EXG_OK && equal_local(&x.here, &y.here);
    exg_host_copy_close(&x);
    exg_host_copy_close(&y);
    if (status != EXG_OK) {
        exg_communicator_abort(a->mesh->communicator, status);
    }
    return status;
}

/* This rank's parts, both whole where the one is Partial; else the second as the first. */
static exg_status compare(const exg_dtensor *x, const exg_dtensor *y, bool *same, exg_error *err)
{
    exg_placement to[EXG_MESH_DIMS_MAX];
    exg_dtensor *a = NULL, *b = NULL;
    exg_status status;

    for (uint32_t m = 0; m < x->mesh->ndim; m++) {
        to[m] = x->placements[m].kind == EXG_PARTIAL ? exg_replicate() : x->placements[m];
    }
    status = exg_dtensor_redistribute(x, to, x->mesh->ndim, &a, err);
    if (status == EXG_OK) {
        status = exg_dtensor_redistribute(y, to, x->mesh->ndim, &b, err);
    }
    if (status == EXG_OK) {
        status = compare_parts(a, b, same, err);
    }
    exg_dtensor_destroy(a);
    exg_dtensor_destroy(b);
    return status;
}

/* Ranks outside the mesh are told: S001-52. */
static exg_status equal(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                        uint32_t arg_count, const exg_named_object *kwargs, uint32_t kwarg_count,
                        exg_object *result, exg_error *err)
{
    const exg_dtensor *x, *y;
    exg_communicator *all;
    bool truth = true;
    exg_status status = EXG_OK;

    (void)user;
    (void)d;
    (void)kwargs;
    EXG_TRY(want(
        key, arg_count == 2 && kwarg_count == 0 && is_dtensor(args, 2, 0) && is_dtensor(args, 2, 1),
        err));
    x = args[0].dtensor;
    y = args[1].dtensor;
    EXG_TRY(want(key, exg_device_mesh_equal(x->mesh, y->mesh) && x->local.dtype == y->local.dtype,
                 err));
    if (!exg_dims_equal(x->sizes, x->rank, y->sizes, y->rank)) {
        *result = exg_object_value(exg_arg_bool(false));
        return EXG_OK;
    }
    all = x->mesh->around != NULL ? x->mesh->around : x->mesh->communicator;
    if (x->mesh->communicator != NULL) {
        status = compare(x, y, &truth, err);
    }
    if (status != EXG_OK) {
        exg_communicator_abort(all, status);
        return status;
    }
    EXG_TRY(agree(all, EXG_REDUCE_MIN, &truth, err));
    *result = exg_object_value(exg_arg_bool(truth));
    return EXG_OK;
}

/* ---- what needs no element --------------------------------- */

static exg_status is_same_size(void *user, exg_dispatcher *d, const char *key,
                               const exg_object *args, uint32_t arg_count,
                               const exg_named_object *kwargs, uint32_t kwarg_count,
                               exg_object *result, exg_error *err)
{
    const exg_dtensor *a, *b;

    (void)user;
    (void)d;
    (void)kwargs;
    EXG_TRY(want(
        key, arg_count == 2 && kwarg_count == 0 && is_dtensor(args, 2, 0) && is_dtensor(args, 2, 1),
        err));
    a = args[0].dtensor;
    b = args[1].dtensor;
    *result = exg_object_value(exg_arg_bool(exg_dims_equal(a->sizes, a->rank, b->sizes, b->rank)));
    return EXG_OK;
}

/* Memory of the host is what there is. */
static exg_status is_pinned(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                            uint32_t arg_count, const exg_named_object *kwargs,
                            uint32_t kwarg_count, exg_object *result, exg_error *err)
{
    (void)user;
    (void)d;
    (void)kwargs;
    (void)kwarg_count;
    EXG_TRY(want(key, is_dtensor(args, arg_count, 0), err));
    *result = exg_object_value(exg_arg_bool(false));
    return EXG_OK;
}

static bool is_ints(const exg_object *object, const int64_t *values, uint32_t count)
{
    return object->kind == EXG_OBJECT_VALUE && object->value.kind == EXG_ARGUMENT_INTS &&
           object->value.count == count &&
           memcmp(object->value.as_ints, values, count * sizeof(*values)) == 0;
}

/* Only what it is already: any other view has no meaning on parts. */
static exg_status as_strided(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                             uint32_t arg_count, const exg_named_object *kwargs,
                             uint32_t kwarg_count, exg_object *result, exg_error *err)
{
    const exg_dtensor *t;
    exg_dtensor *same;

    (void)user;
    EXG_TRY(want(key, arg_count >= 3 && kwarg_count == 0 && is_dtensor(args, arg_count, 0), err));
    t = args[0].dtensor;
    if (!is_ints(&args[1], t->sizes, t->rank) || !is_ints(&args[2], t->strides, t->rank) ||
        (arg_count > 3 && args[3].kind == EXG_OBJECT_VALUE && exg_get_int(&args[3].value) != 0)) {
        if (d->options.fallback == EXG_FALLBACK_REPLICATE) {
            return exg_dispatch_by_table(d, key, args, arg_count, kwargs, kwarg_count, result, err);
        }
        return EXG_FAIL(err, UNSUPPORTED, "DSP-005",
                        "%s of other sizes, strides or offset than the tensor has", key);
    }
    EXG_TRY(exg_dtensor_alias(t, &same, err));
    *result = exg_object_dtensor(same);
    return EXG_OK;
}

/* ---- gradients that are scaled --------------------------------- */

/* Times `scale`, on the host; *bad when an element was not finite. */
static void unscale_here(const exg_tensor *t, double scale, bool *bad)
{
    int64_t index[EXG_RANK_MAX] = {0};

    if (exg_tensor_numel(t) == 0) {
        return;
    }
    do {
        uint8_t *at = element_at(t, index);
        double value = exg_element_value(t->dtype, at);

        *bad = *bad || !isfinite(value);
        exg_element_store(t->dtype, at, value * scale);
    } while (next_element(t, index));
}

/* The same, where they are. */
static exg_status unscale(const exg_dtensor *t, double scale, bool *bad, exg_error *err)
{
    exg_host_copy m;
    exg_status status;

    EXG_TRY(exg_dtensor_host_copy(t, true, &m, err));
    unscale_here(&m.here, scale, bad);
    status = exg_host_copy_write(&m, err);
    exg_host_copy_close(&m);
    return status;
}

/* The number in `t`, or to it. */
static exg_status read_number(const exg_device_mesh *mesh, const exg_tensor *t, double *value,
                              exg_error *err)
{
    exg_host_copy m;

    EXG_TRY(exg_mesh_host_copy(mesh, t, true, &m, err));
    *value = exg_element_value(t->dtype, m.here.data);
    exg_host_copy_close(&m);
    return EXG_OK;
}

static exg_status write_number(const exg_device_mesh *mesh, const exg_tensor *t, double value,
                               exg_error *err)
{
    exg_host_copy m;
    exg_status status;

    EXG_TRY(exg_mesh_host_copy(mesh, t, false, &m, err));
    exg_element_store(t->dtype, m.here.data, value);
    status = exg_host_copy_write(&m, err);
    exg_host_copy_close(&m);
    return status;
}

static const exg_tensor *local_number(const exg_object *object)
{
    const exg_tensor *t = object->kind == EXG_OBJECT_DTENSOR  ? &object->dtensor->local
                          : object->kind == EXG_OBJECT_TENSOR ? object->tensor
                                                              : NULL;

    return t != NULL && t->rank < 2 && exg_dtype_is_float(t->dtype) ? t : NULL;
}

/* (Tensor(a!)[] self, Tensor(b!) found_inf, Tensor inv_scale): found on one rank is found. */
static exg_status non_finite(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                             uint32_t arg_count, const exg_named_object *kwargs,
                             uint32_t kwarg_count, exg_object *result, exg_error *err)
{
    const exg_tensor *found = arg_count == 3 ? local_number(&args[1]) : NULL;
    const exg_tensor *scale = arg_count == 3 ? local_number(&args[2]) : NULL;
    exg_device_mesh *mesh = NULL;
    bool bad = false;

    (void)user;
    (void)d;
    (void)kwargs;
    (void)kwarg_count;
    (void)result;
    EXG_TRY(want(key, found != NULL && scale != NULL && args[0].kind == EXG_OBJECT_LIST, err));
    for (uint32_t i = 0; i < args[0].count; i++) {
        double factor;

        EXG_TRY(want(key,
                     is_dtensor(args[0].items, args[0].count, i) &&
                         exg_dtype_is_float(args[0].items[i].dtensor->local.dtype),
                     err));
        mesh = args[0].items[i].dtensor->mesh;
        if (mesh->communicator == NULL) {
            return EXG_OK;
        }
        EXG_TRY(read_number(mesh, scale, &factor, err));
        EXG_TRY(unscale(args[0].items[i].dtensor, factor, &bad, err));
    }
    if (mesh != NULL) {
        EXG_TRY(agree(mesh->communicator, EXG_REDUCE_MAX, &bad, err));
    }
    return bad ? write_number(mesh, found, 1, err) : EXG_OK;
}

/* ---- views in place --------------------------------- */

/* The object becomes the view `user` of itself: no element moves. */
static exg_status view_in_place(void *user, exg_dispatcher *d, const char *key,
                                const exg_object *args, uint32_t arg_count,
                                const exg_named_object *kwargs, uint32_t kwarg_count,
                                exg_object *result, exg_error *err)
{
    exg_dtensor *self, *view;
    exg_dtensor kept;

    EXG_TRY(want(key, is_dtensor(args, arg_count, 0), err));
    self = args[0].dtensor;
    EXG_TRY(exg_dispatch(d, user, args, arg_count, kwargs, kwarg_count, result, err));
    view = result->dtensor;
    if (view->local.data != self->local.data) {
        exg_dtensor_destroy(view);
        *result = exg_object_none();
        return EXG_FAIL(err, UNSUPPORTED, "DSP-006",
                        "inplace_moves_self: %s would have to move its tensor", key);
    }
    kept = *self;
    *self = *view;
    *view = kept;
    exg_dtensor_destroy(view);
    *result = exg_object_dtensor(self);
    return EXG_OK;
}

/* ---- lists --------------------------------- */

/* Of foreach.def: `as` computes `id` for one item of each list. */
typedef struct each_row {
    exg_operator_id id, as;
} each_row;

static const each_row each_rows[] = {
#define EXG_EACH(id, schema, as) {EXG_OP_##id, EXG_OP_##as},
#include "libexport/operators/foreach.def"
#undef EXG_EACH
};

static bool is_list(const exg_object *object)
{
    return object->kind == EXG_OBJECT_LIST ||
           (object->kind == EXG_OBJECT_VALUE &&
            (object->value.kind == EXG_ARGUMENT_INTS || object->value.kind == EXG_ARGUMENT_FLOATS ||
             object->value.kind == EXG_ARGUMENT_BOOLS));
}

static uint32_t length_of(const exg_object *list)
{
    return list->kind == EXG_OBJECT_VALUE ? list->value.count : list->count;
}

/* Numbers may be a list of objects, or one value. */
static exg_object item_of(const exg_object *list, uint32_t k)
{
    const exg_argument *value = &list->value;

    if (list->kind == EXG_OBJECT_LIST) {
        return list->items[k];
    }
    return exg_object_value(value->kind == EXG_ARGUMENT_INTS ? exg_arg_int(value->as_ints[k])
                            : value->kind == EXG_ARGUMENT_FLOATS
                                ? exg_arg_float(value->as_floats[k])
                                : exg_arg_bool(value->as_bools[k]));
}

/* How long the lists are, all of them alike; false when they are not, or are none. */
static bool length_of_all(const exg_function_schema *schema, exg_object *const *at,
                          uint32_t *length)
{
    bool found = false;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (!schema->arguments[i].type.is_list || at[i] == NULL) {
            continue;
        }
        if (!is_list(at[i]) || (found && length_of(at[i]) != *length)) {
            return false;
        }
        *length = length_of(at[i]);
        found = true;
    }
    return found;
}

/* `as` of the k-th items of the lists, and of what all share; what is left out is so there. */
static exg_status call_item(exg_dispatcher *d, const each_row *row, exg_object *const *at,
                            uint32_t k, exg_object *made, exg_error *err)
{
    const exg_function_schema *schema = exg_operators_get(d->operators, row->id)->schema;
    const exg_operator *as = exg_operators_get(d->operators, row->as);
    exg_object one[EXG_ARGUMENTS_MAX];
    char key[EXG_OPERATOR_KEY_MAX];
    uint32_t count = 0;

    for (; count < schema->argument_count && at[count] != NULL; count++) {
        one[count] = schema->arguments[count].type.is_list ? item_of(at[count], k) : *at[count];
    }
    exg_operator_key(as, key, sizeof(key));
    return exg_dispatch(d, key, one, count, NULL, 0, made, err);
}

/* The row `user`, item by item. In place nothing comes back. */
static exg_status each(void *user, exg_dispatcher *d, const char *key, const exg_object *args,
                       uint32_t arg_count, const exg_named_object *kwargs, uint32_t kwarg_count,
                       exg_object *result, exg_error *err)
{
    const each_row *row = user;
    const exg_function_schema *of = exg_operators_get(d->operators, row->id)->schema;
    bool gives = of->return_count > 0;
    uint32_t count = 0;
    exg_object *at[EXG_ARGUMENTS_MAX];
    exg_status status = EXG_OK;
    exg_op_schema schema;

    /* the caller's objects, which are only read */
    exg_op_schema_init(&schema, of, (exg_object *)(uintptr_t)args, arg_count,
                       (exg_named_object *)(uintptr_t)kwargs, kwarg_count);
    EXG_TRY(exg_schema_positions(&schema, at, err));
    EXG_TRY(want(key, length_of_all(of, at, &count), err));
    if (gives) {
        *result = exg_object_list(calloc(count + 1u, sizeof(*result)), 0);
        if (result->items == NULL) {
            *result = exg_object_none();
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t k = 0; status == EXG_OK && k < count; k++) {
        exg_object made = exg_object_none();

        status = call_item(d, row, at, k, &made, err);
        if (gives && status == EXG_OK) {
            result->items[result->count++] = made;
        }
    }
    if (status != EXG_OK) {
        exg_object_clear(result, gives);
    }
    return status;
}

/* ---- the table --------------------------------- */

static const struct {
    const char *key;
    exg_custom_handler *handler;
    const char *user;
} handlers[] = {
    {"aten.item.default", item, NULL},
    {"aten._local_scalar_dense.default", item, NULL},
    {"aten.equal.default", equal, NULL},
    {"aten._assert_async.default", assert_async, NULL},
    {"aten._assert_async.msg", assert_async, NULL},
    {"aten._amp_foreach_non_finite_check_and_unscale_.default", non_finite, NULL},
    {"aten.is_same_size.default", is_same_size, NULL},
    {"aten.is_pinned.default", is_pinned, NULL},
    {"aten.as_strided.default", as_strided, NULL},
    {"aten.squeeze_.default", view_in_place, "aten.squeeze.default"},
    {"aten.squeeze_.dim", view_in_place, "aten.squeeze.dim"},
    {"aten.squeeze_.dims", view_in_place, "aten.squeeze.dims"},
    {"aten.unsqueeze_.default", view_in_place, "aten.unsqueeze.default"},
    {"aten.transpose_.default", view_in_place, "aten.transpose.int"},
    {"aten.t_.default", view_in_place, "aten.t.default"},
};

exg_status exg_register_builtin_ops(exg_dispatcher *d, exg_error *err)
{
    for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
        exg_op_registration registration = {.handler = handlers[i].handler,
                                            .user = (void *)(uintptr_t)handlers[i].user};

        EXG_TRY(exg_dispatcher_register(d, handlers[i].key, &registration, err));
    }
    for (size_t i = 0; i < sizeof(each_rows) / sizeof(each_rows[0]); i++) {
        exg_op_registration registration = {.handler = each,
                                            .user = (void *)(uintptr_t)&each_rows[i]};
        char key[EXG_OPERATOR_KEY_MAX];

        exg_operator_key(exg_operators_get(d->operators, each_rows[i].id), key, sizeof(key));
        EXG_TRY(exg_dispatcher_register(d, key, &registration, err));
    }
    return EXG_OK;
}
