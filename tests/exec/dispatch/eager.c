#include "tests/exec/dispatch/eager.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static exg_operators *operators;

const exg_operators *all_operators(void)
{
    if (operators == NULL && exg_operators_create(&operators, NULL) != EXG_OK) {
        abort();
    }
    return operators;
}

void free_operators(void)
{
    exg_operators_destroy(operators);
    operators = NULL;
}

void eager_begin(eager *e, rank_context *c, const exg_dispatch_options *options)
{
    exg_dispatch_options own = {.size = sizeof(own)};

    if (options != NULL) {
        own = *options;
    }
    own.mesh = c->mesh;
    *e = (eager){.c = c, .mesh = c->mesh};
    EXPECT(c, exg_dispatcher_create(operators, &own, &e->d, &e->err) == EXG_OK, "%s",
           e->err.message);
}

void eager_end(eager *e)
{
    exg_dispatcher_destroy(e->d);
}

static exg_tensor tensor_of(exg_dtype dtype, const char *sizes)
{
    exg_tensor t = {.dtype = dtype};

    for (const char *at = sizes; *at != '\0'; at += *at == 'x') {
        t.sizes[t.rank++] = strtol(at, (char **)&at, 10);
    }
    exg_tensor_set_contiguous(&t);
    return t;
}

static void store(exg_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
        ((float *)data)[i] = (float)value;
        break;
    case EXG_DTYPE_F64:
        ((double *)data)[i] = value;
        break;
    case EXG_DTYPE_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    case EXG_DTYPE_B8:
        ((bool *)data)[i] = value != 0;
        break;
    default:
        abort();
    }
}

exg_dtensor *counted(eager *e, exg_dtype dtype, const char *sizes, const char *placements)
{
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(placements, to);
    exg_tensor t = tensor_of(dtype, sizes);
    exg_dtensor *made = NULL;

    t.data = malloc((size_t)exg_tensor_numel(&t) * exg_dtype_bytes(dtype) + 1);
    for (int64_t i = 0; i < exg_tensor_numel(&t); i++) {
        store(dtype, t.data, i, (double)i);
    }
    EXPECT(e->c,
           exg_distribute_tensor(e->mesh, &t, to, count, EXG_NO_RANK, &made, &e->err) == EXG_OK,
           "%s", e->err.message);
    free(t.data);
    return made;
}

exg_dtensor *parts(eager *e, exg_dtype dtype, const char *sizes, const char *placements,
                   const double *values)
{
    exg_tensor whole = tensor_of(dtype, sizes);
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(placements, to);
    int64_t offsets[EXG_RANK_MAX];
    exg_tensor local = whole;
    exg_dtensor_like like = {
        .size = sizeof(like), .dtype = dtype, .rank = whole.rank, .sizes = whole.sizes};
    exg_dtensor *made = NULL, *named = NULL;
    exg_from_local_options options = {
        .size = sizeof(options), .shape = whole.sizes, .strides = whole.strides};

    /* memory of a replicated one of the local sizes, kept by the test through `moved` */
    exg_local_chunk(e->mesh, exg_device_mesh_rank(e->mesh), to, whole.sizes, whole.rank, offsets,
                    local.sizes);
    exg_tensor_set_contiguous(&local);
    like.sizes = local.sizes;
    EXPECT(e->c, exg_dtensor_empty(e->mesh, &like, &made, &e->err) == EXG_OK, "%s", e->err.message);
    local = *on_host(made);
    for (int64_t i = 0; i < exg_tensor_numel(&local); i++) {
        store(dtype, local.data, i, values[i]);
    }
    EXPECT(e->c,
           exg_dtensor_from_local(e->mesh, &local, to, count, &options, &named, &e->err) == EXG_OK,
           "%s", e->err.message);
    /* a copy that owns its memory: by a shard of nothing else than itself */
    if (named != NULL) {
        exg_object args[1] = {exg_object_dtensor(named)};
        exg_object copy = call(e, "aten.clone.default", args, 1);

        exg_dtensor_destroy(named);
        named = copy.kind == EXG_OBJECT_DTENSOR ? copy.dtensor : NULL;
    }
    exg_dtensor_destroy(made);
    return named;
}

exg_object of_int(int64_t value)
{
    return exg_object_value(exg_arg_int(value));
}

exg_object of_float(double value)
{
    return exg_object_value(exg_arg_float(value));
}

exg_object of_bool(bool value)
{
    return exg_object_value(exg_arg_bool(value));
}

exg_object of_ints(int64_t *items, uint32_t count)
{
    return exg_object_value(
        (exg_argument){.kind = EXG_ARGUMENT_INTS, .count = count, .as_ints = items});
}

exg_object call(eager *e, const char *key, exg_object *args, uint32_t count)
{
    exg_object result = exg_object_none();

    EXPECT(e->c, exg_dispatch(e->d, key, args, count, NULL, 0, &result, &e->err) == EXG_OK,
           "%s: %s", key, e->err.message);
    return result;
}

exg_dtensor *call1(eager *e, const char *key, exg_object *args, uint32_t count)
{
    exg_object result = call(e, key, args, count);

    EXPECT(e->c, result.kind == EXG_OBJECT_DTENSOR, "%s gives no tensor", key);
    return result.kind == EXG_OBJECT_DTENSOR ? result.dtensor : NULL;
}

exg_status refusal(eager *e, const char *key, exg_object *args, uint32_t count)
{
    exg_object result = exg_object_none();
    exg_status status = exg_dispatch(e->d, key, args, count, NULL, 0, &result, &e->err);

    EXPECT(e->c, status != EXG_OK, "%s was to fail", key);
    EXPECT(e->c, result.kind == EXG_OBJECT_NONE, "%s failed and gave something", key);
    return status;
}

bool lies(const exg_dtensor *t, const char *placements)
{
    exg_placement to[EXG_MESH_DIMS_MAX];
    uint32_t count = placements_of(placements, to);

    for (uint32_t m = 0; m < count; m++) {
        if (!exg_placement_equal(to[m], exg_dtensor_placements(t)[m])) {
            return false;
        }
    }
    return count == exg_device_mesh_ndim(exg_dtensor_device_mesh(t));
}

void expect_values(eager *e, const exg_dtensor *t, const char *placements, const double *values,
                   uint32_t count, const char *what)
{
    exg_dtensor *whole = NULL;
    const exg_tensor *local;

    if (t == NULL) {
        return;
    }
    EXPECT(e->c, placements[0] == '\0' || lies(t, placements), "%s does not lie as %s", what,
           placements);
    EXPECT(e->c, exg_dtensor_full_tensor(t, &whole, &e->err) == EXG_OK, "%s", e->err.message);
    if (whole == NULL) {
        return;
    }
    local = on_host(whole);
    EXPECT(e->c, exg_tensor_numel(local) == count, "%s has %lld elements, not %u", what,
           (long long)exg_tensor_numel(local), count);
    for (uint32_t i = 0; i < count && exg_tensor_numel(local) == count; i++) {
        double got = exg_element_value(local->dtype, (const uint8_t *)local->data +
                                                         i * exg_dtype_bytes(local->dtype));

        EXPECT(e->c, fabs(got - values[i]) <= 1e-5 * (1 + fabs(values[i])), "%s[%u] is %g, not %g",
               what, i, got, values[i]);
    }
    exg_dtensor_destroy(whole);
}
