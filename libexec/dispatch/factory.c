/* factory.c - DTensors made by a dispatcher, which knows what is left out; and the operators that
 * make them, zeros and its kin, which say the same in other words. */
#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/mesh_stack.h"
#include "libexec/dtensor/spec.h"
#include "libexec/dtensor/storage.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <string.h>

#define ELEMENT_BYTES 16 /* of the widest dtype */

/* ---- what is left out --------------------------------- */

static exg_status fill_in(const exg_dispatcher *d, const exg_dtensor_like *given,
                          const exg_scalar *value, exg_device_mesh **mesh, exg_dtensor_like *like,
                          exg_error *err)
{
    bool has_default = exg_dtype_is_float(d->options.default_dtype);

    *like = (exg_dtensor_like){0};
    EXG_TRY(EXG_READ_OPTIONS(exg_dtensor_like, like, given, err));
    if (*mesh == NULL) {
        *mesh = exg_current_mesh(d);
    }
    if (*mesh == NULL) {
        return EXG_FAIL(err, USAGE, "DSP-008", "no mesh is given, and none is set");
    }
    if (like->dtype == EXG_DTYPE_UNKNOWN) {
        like->dtype = exg_dtype_for(value, has_default ? d->options.default_dtype : EXG_DTYPE_F32);
    }
    return EXG_OK;
}

typedef exg_status make_fn(exg_device_mesh *mesh, const exg_dtensor_like *like, exg_dtensor **t,
                           exg_error *err);

static exg_status make(const exg_dispatcher *d, exg_device_mesh *mesh,
                       const exg_dtensor_like *given, make_fn *made, exg_dtensor **t,
                       exg_error *err)
{
    EXG_REQUIRE(err, d, given, t);
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(fill_in(d, given, NULL, &mesh, &like, err));
    return made(mesh, &like, t, err);
}

exg_status exg_empty(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                     exg_dtensor **t, exg_error *err)
{
    return make(d, mesh, like, exg_dtensor_empty, t, err);
}

exg_status exg_zeros(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                     exg_dtensor **t, exg_error *err)
{
    return make(d, mesh, like, exg_dtensor_zeros, t, err);
}

exg_status exg_ones(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                    exg_dtensor **t, exg_error *err)
{
    return make(d, mesh, like, exg_dtensor_ones, t, err);
}

exg_status exg_full(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *given,
                    exg_scalar value, exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, d, given, t);
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(fill_in(d, given, &value, &mesh, &like, err));
    return exg_dtensor_full(mesh, &like, value, t, err);
}

typedef exg_status draw_fn(exg_device_mesh *mesh, const exg_dtensor_like *like, exg_rng *rng,
                           exg_dtensor **t, exg_error *err);

static exg_status draw(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *given,
                       draw_fn *drawn, exg_dtensor **t, exg_error *err)
{
    EXG_REQUIRE(err, d, given, t);
    exg_rng rng = {.seed = d->options.seed, .offset = d->drawn};
    exg_dtensor_like like;

    *t = NULL;
    EXG_TRY(fill_in(d, given, NULL, &mesh, &like, err));
    EXG_TRY(drawn(mesh, &like, &rng, t, err));
    d->drawn = rng.offset;
    return EXG_OK;
}

exg_status exg_rand(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                    exg_dtensor **t, exg_error *err)
{
    return draw(d, mesh, like, exg_dtensor_rand, t, err);
}

exg_status exg_randn(exg_dispatcher *d, exg_device_mesh *mesh, const exg_dtensor_like *like,
                     exg_dtensor **t, exg_error *err)
{
    return draw(d, mesh, like, exg_dtensor_randn, t, err);
}

/* ---- the operators --------------------------------- */

typedef struct request {
    exg_device_mesh *mesh; /* NULL: the current one */
    exg_dtensor_like like;
    int64_t sizes[EXG_RANK_MAX];
    exg_placement placements[EXG_MESH_DIMS_MAX];
    exg_scalar value; /* of full */
} request;

static exg_status mismatch(const char *key, const char *what, exg_error *err)
{
    return EXG_FAIL(err, USAGE, "DSP-001", "%s does not take these %s", key, what);
}

static exg_status add_sizes(request *r, const char *key, const int64_t *sizes, uint32_t count,
                            exg_error *err)
{
    if (count > EXG_RANK_MAX - r->like.rank) {
        return EXG_FAIL(err, LIMIT, "DTN-009", "%s of more than %d dims", key, EXG_RANK_MAX);
    }
    if (count > 0) {
        memcpy(r->sizes + r->like.rank, sizes, count * sizeof(*sizes));
    }
    r->like.rank += count;
    return EXG_OK;
}

/* A number is one size, a list all of them, a list in a list too. */
static exg_status read_sizes(request *r, const char *key, const exg_object *object, uint32_t depth,
                             exg_error *err)
{
    const exg_argument *value = &object->value;

    if (object->kind == EXG_OBJECT_LIST || object->kind == EXG_OBJECT_TUPLE) {
        for (uint32_t i = 0; depth < 2 && i < object->count; i++) {
            bool is_list = object->items[i].kind != EXG_OBJECT_VALUE ||
                           object->items[i].value.kind != EXG_ARGUMENT_INT;

            if (is_list && object->count > 1) {
                return mismatch(key, "sizes", err);
            }
            EXG_TRY(read_sizes(r, key, &object->items[i], depth + 1, err));
        }
        return depth < 2 ? EXG_OK : mismatch(key, "sizes", err);
    }
    if (object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_INTS) {
        return add_sizes(r, key, value->as_ints, value->count, err);
    }
    if (object->kind == EXG_OBJECT_VALUE && value->kind == EXG_ARGUMENT_INT) {
        return add_sizes(r, key, &value->as_int, 1, err);
    }
    return mismatch(key, "sizes", err);
}

static exg_status read_value(request *r, const char *key, const exg_object *object, exg_error *err)
{
    const exg_argument *value = &object->value;

    if (object->kind == EXG_OBJECT_UINT) {
        r->value = exg_scalar_uint(object->as_uint);
        return EXG_OK;
    }
    switch (object->kind == EXG_OBJECT_VALUE ? value->kind : EXG_ARGUMENT_NONE) {
    case EXG_ARGUMENT_BOOL:
        r->value = exg_scalar_bool(value->as_bool);
        return EXG_OK;
    case EXG_ARGUMENT_INT:
        r->value = exg_scalar_int(value->as_int);
        return EXG_OK;
    case EXG_ARGUMENT_FLOAT:
        r->value = exg_scalar_float(value->as_float);
        return EXG_OK;
    case EXG_ARGUMENT_COMPLEX:
        r->value = exg_scalar_complex(value->as_complex.real, value->as_complex.imag);
        return EXG_OK;
    default:
        return mismatch(key, "values", err);
    }
}

/* What is made is where the mesh says, and row-major. */
static bool changes_nothing(const char *name)
{
    return strcmp(name, "device") == 0 || strcmp(name, "pin_memory") == 0 ||
           strcmp(name, "memory_format") == 0;
}

/* Of an order of dims that is another one. */
static bool is_ordered(const exg_named_object *kwargs, uint32_t count)
{
    bool ordered = false;

    for (uint32_t k = 0; k < count; k++) {
        const exg_argument *value = &kwargs[k].object.value;

        ordered = ordered || (strcmp(kwargs[k].name, "memory_format") == 0 &&
                              kwargs[k].object.kind == EXG_OBJECT_VALUE &&
                              value->kind == EXG_ARGUMENT_MEMORY_FORMAT &&
                              value->as_memory_format != EXG_MEMORY_FORMAT_CONTIGUOUS &&
                              value->as_memory_format != EXG_MEMORY_FORMAT_PRESERVE);
    }
    return ordered;
}

/* As the tensor is, whole where it is Partial. */
static exg_status read_alike(request *r, const char *key, const exg_object *object, exg_error *err)
{
    const exg_dtensor *t = object->dtensor;

    if (object->kind != EXG_OBJECT_DTENSOR) {
        return mismatch(key, "arguments", err);
    }
    r->mesh = t->mesh;
    r->like.dtype = t->local.dtype;
    r->like.placements = r->placements;
    r->like.placement_count = t->mesh->ndim;
    for (uint32_t m = 0; m < t->mesh->ndim; m++) {
        r->placements[m] =
            t->placements[m].kind == EXG_PARTIAL ? exg_replicate() : t->placements[m];
    }
    return add_sizes(r, key, t->sizes, t->rank, err);
}

static bool is_number(const exg_object *object)
{
    return object->kind == EXG_OBJECT_VALUE && object->value.kind == EXG_ARGUMENT_INT;
}

/* What is made of a call. */
typedef struct factory {
    const char *key;
    bool is_alike, is_full; /* argument 0 is a tensor; the next one, or that after sizes, fills */
    bool is_new; /* argument 0 is a tensor, 1 sizes: those of the tensor lie as it does */
    make_fn *make;
    draw_fn *draw;
} factory;

static const factory factories[] = {
    {"aten.zeros.default", false, false, false, exg_dtensor_zeros, NULL},
    {"aten.ones.default", false, false, false, exg_dtensor_ones, NULL},
    {"aten.empty.memory_format", false, false, false, exg_dtensor_empty, NULL},
    {"aten.full.default", false, true, false, NULL, NULL},
    {"aten.rand.default", false, false, false, NULL, exg_dtensor_rand},
    {"aten.randn.default", false, false, false, NULL, exg_dtensor_randn},
    {"aten.zeros_like.default", true, false, false, exg_dtensor_zeros, NULL},
    {"aten.ones_like.default", true, false, false, exg_dtensor_ones, NULL},
    {"aten.empty_like.default", true, false, false, exg_dtensor_empty, NULL},
    {"aten.full_like.default", true, true, false, NULL, NULL},
    {"aten.rand_like.default", true, false, false, NULL, exg_dtensor_rand},
    {"aten.randn_like.default", true, false, false, NULL, exg_dtensor_randn},
    {"aten.new_zeros.default", false, false, true, exg_dtensor_zeros, NULL},
    {"aten.new_ones.default", false, false, true, exg_dtensor_ones, NULL},
    {"aten.new_empty.default", false, false, true, exg_dtensor_empty, NULL},
    {"aten.new_full.default", false, true, true, NULL, NULL},
};

static exg_status read_keyword(request *r, const factory *f, const exg_named_object *given,
                               exg_error *err)
{
    const exg_object *object = &given->object;
    exg_argument_kind kind =
        object->kind == EXG_OBJECT_VALUE ? object->value.kind : EXG_ARGUMENT_NONE;

    if (strcmp(given->name, "size") == 0 && !f->is_alike) {
        return read_sizes(r, f->key, object, 0, err);
    }
    if (strcmp(given->name, "fill_value") == 0 && f->is_full) {
        return read_value(r, f->key, object, err);
    }
    if (object->kind == EXG_OBJECT_NONE || changes_nothing(given->name)) {
        return EXG_OK;
    }
    if (strcmp(given->name, "dtype") == 0 && kind == EXG_ARGUMENT_SCALAR_TYPE) {
        r->like.dtype = object->value.as_scalar_type;
        return EXG_OK;
    }
    if (strcmp(given->name, "layout") == 0 && kind == EXG_ARGUMENT_LAYOUT) {
        r->like.layout = object->value.as_layout;
        return EXG_OK;
    }
    return EXG_FAIL(err, USAGE, "DSP-001", "%s has no parameter '%s', or not of this kind", f->key,
                    given->name);
}

static bool has_sizes_of(const request *r, const exg_dtensor *t)
{
    return r->like.rank == t->rank && memcmp(r->sizes, t->sizes, t->rank * sizeof(*r->sizes)) == 0;
}

static exg_status read_call(request *r, const factory *f, const exg_object *args,
                            uint32_t arg_count, const exg_named_object *kwargs,
                            uint32_t kwarg_count, exg_error *err)
{
    uint32_t first = 0; /* of the sizes */

    if (f->is_new) {
        EXG_TRY(arg_count > 0 ? read_alike(r, f->key, &args[0], err)
                              : mismatch(f->key, "arguments", err));
        r->like.rank = 0;
        first = 1;
    }
    for (uint32_t i = first; i < arg_count; i++) {
        if (f->is_full && i > first) {
            EXG_TRY(i == first + 1 ? read_value(r, f->key, &args[i], err)
                                   : mismatch(f->key, "arguments", err));
        } else if (i > first && !(is_number(&args[first]) && is_number(&args[i]))) {
            return mismatch(f->key, "sizes", err);
        } else {
            EXG_TRY(f->is_alike ? read_alike(r, f->key, &args[i], err)
                                : read_sizes(r, f->key, &args[i], 0, err));
        }
    }
    for (uint32_t k = 0; k < kwarg_count; k++) {
        EXG_TRY(read_keyword(r, f, &kwargs[k], err));
    }
    if (f->is_new && !has_sizes_of(r, args[0].dtensor)) {
        r->like.placements = NULL; /* whole */
        r->like.placement_count = 0;
    }
    return f->is_full && r->value.kind == EXG_SCALAR_NONE
               ? EXG_FAIL(err, USAGE, "DSP-001", "%s lacks its argument 'fill_value'", f->key)
               : EXG_OK;
}

/* What operators give a rank that is no member of a single number: zero. */
static exg_status settle_outside(exg_dtensor *t, exg_error *err)
{
    exg_block *block;

    if (t->rank > 0 || t->mesh->communicator != NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_block_create(t->mesh, ELEMENT_BYTES, &block, err));
    memset(exg_block_data(block), 0, ELEMENT_BYTES);
    exg_block_release(t->owned);
    t->owned = block;
    t->local.data = exg_block_data(block);
    t->local.rank = 0;
    return EXG_OK;
}

static exg_status factory_handler(void *user, exg_dispatcher *d, const char *key,
                                  const exg_object *args, uint32_t arg_count,
                                  const exg_named_object *kwargs, uint32_t kwarg_count,
                                  exg_object *result, exg_error *err)
{
    const factory *f = user;
    request r = {.like = {.size = sizeof(r.like)}};
    exg_dtensor *t;
    exg_status status;

    if (is_ordered(kwargs, kwarg_count)) {
        return exg_dispatch_by_table(d, key, args, arg_count, kwargs, kwarg_count, result, err);
    }
    EXG_TRY(read_call(&r, f, args, arg_count, kwargs, kwarg_count, err));
    r.like.sizes = r.sizes;
    EXG_TRY(f->is_full        ? exg_full(d, r.mesh, &r.like, r.value, &t, err)
            : f->draw != NULL ? draw(d, r.mesh, &r.like, f->draw, &t, err)
                              : make(d, r.mesh, &r.like, f->make, &t, err));
    status = settle_outside(t, err);
    if (status != EXG_OK) {
        exg_dtensor_destroy(t);
        return status;
    }
    *result = exg_object_dtensor(t);
    return EXG_OK;
}

exg_status exg_register_factories(exg_dispatcher *d, exg_error *err)
{
    for (size_t i = 0; i < sizeof(factories) / sizeof(factories[0]); i++) {
        exg_op_registration registration = {.handler = factory_handler,
                                            .user = (void *)(uintptr_t)&factories[i]};

        EXG_TRY(exg_dispatcher_register(d, factories[i].key, &registration, err));
    }
    return EXG_OK;
}
