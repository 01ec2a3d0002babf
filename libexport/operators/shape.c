/* shape.c - the metas of results: helpers, pointwise and view rows, the entry. */
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"

#include <inttypes.h>
#include <string.h>

const exg_tensor_meta *exg_shape_input(const exg_shape_call *call, uint32_t position)
{
    exg_ref ref = exg_get_ref(&call->args[position]);

    return ref.id == EXG_NO_VALUE ? NULL : call->graph->values[ref.id].tensor;
}

/* `numel` elements of one dim more; an empty one counts as one. False where they do not fit. */
static bool count_dim(int64_t *numel, int64_t size)
{
    return exg_mul_i64(*numel, size == 0 ? 1 : size, numel);
}

/* The number of elements, and the offset with every stride gone its whole size, can be
 * counted: what then counts with parts of a tensor stays inside. */
static bool reach_fits(const exg_strided *s)
{
    int64_t numel = 1;
    int64_t reach = s->offset;

    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t span;

        if (!count_dim(&numel, s->sizes[i]) || !exg_mul_i64(s->strides[i], s->sizes[i], &span) ||
            !exg_add_i64(reach, span, &reach)) {
            return false;
        }
    }
    return true;
}

exg_status exg_strided_of(const exg_tensor_meta *meta, exg_strided *strided, exg_error *err)
{
    if (meta->rank > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a tensor of rank %u; at most %d are run",
                        meta->rank, EXG_SHAPE_RANK_MAX);
    }
    strided->dtype = meta->dtype;
    strided->rank = meta->rank;
    for (uint32_t i = 0; i < meta->rank; i++) {
        strided->sizes[i] = meta->sizes[i].value;
        strided->strides[i] = meta->strides[i].value;
    }
    strided->offset = meta->storage_offset.value;
    if (!reach_fits(strided)) {
        return EXG_FAIL(err, LIMIT, "SHP-002", "elements or strides that 64 bits do not count");
    }
    return EXG_OK;
}

exg_status exg_dims_of(const exg_tensor_meta *meta, exg_dims *dims, exg_error *err)
{
    exg_strided strided;

    EXG_TRY(exg_strided_of(meta, &strided, err));
    dims->rank = strided.rank;
    memcpy(dims->n, strided.sizes, strided.rank * sizeof(dims->n[0]));
    return EXG_OK;
}

exg_status exg_wrap_dim(int64_t dim, uint32_t rank, uint32_t *wrapped, exg_error *err)
{
    int64_t limit = rank == 0 ? 1 : (int64_t)rank;

    if (dim < -limit || dim >= limit) {
        return EXG_SHAPE_FAIL(err, "dimension %" PRId64 " of a tensor of rank %u", dim, rank);
    }
    *wrapped = (uint32_t)(dim < 0 ? dim + limit : dim);
    return EXG_OK;
}

exg_status exg_broadcast(const exg_dims *a, const exg_dims *b, exg_dims *out, exg_error *err)
{
    exg_dims result;

    result.rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t i = 0; i < result.rank; i++) {
        uint32_t from_end = result.rank - i;
        int64_t in_a = from_end <= a->rank ? a->n[a->rank - from_end] : 1;
        int64_t in_b = from_end <= b->rank ? b->n[b->rank - from_end] : 1;

        if (in_a != in_b && in_a != 1 && in_b != 1) {
            return EXG_SHAPE_FAIL(
                err, "sizes %" PRId64 " and %" PRId64 " do not broadcast (dim %u)", in_a, in_b, i);
        }
        result.n[i] = in_a == 1 ? in_b : in_a;
    }
    *out = result;
    return EXG_OK;
}

exg_status exg_broadcasts_to(const exg_tensor_meta *meta, const exg_dims *to, const char *what,
                             exg_error *err)
{
    if (meta != NULL && meta->rank > to->rank) {
        return EXG_SHAPE_FAIL(err, "%s: rank %u for rank %u", what, meta->rank, to->rank);
    }
    for (uint32_t d = 0; meta != NULL && d < meta->rank; d++) {
        int64_t size = to->n[to->rank - meta->rank + d];

        if (meta->sizes[d].value != size && meta->sizes[d].value != 1) {
            return EXG_SHAPE_FAIL(err, "%s: size %" PRId64 " for size %" PRId64 " (dim %u)", what,
                                  meta->sizes[d].value, size, d);
        }
    }
    return EXG_OK;
}

exg_status exg_dim_set(const exg_argument *arg, uint32_t rank, bool *in_set, exg_error *err)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_is_none(arg) ? 0 : exg_get_ints(arg, dims, EXG_SHAPE_RANK_MAX);

    if (count > EXG_SHAPE_RANK_MAX) {
        return EXG_SHAPE_FAIL(err, "%u dimensions to reduce", count);
    }
    memset(in_set, count == 0, EXG_SHAPE_RANK_MAX * sizeof(*in_set));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim;

        EXG_TRY(exg_wrap_dim(dims[i], rank, &dim, err));
        if (in_set[dim]) {
            return EXG_SHAPE_FAIL(err, "dimension %u appears twice in the list", dim);
        }
        in_set[dim] = true;
    }
    return EXG_OK;
}

exg_dtype exg_dtype_argument(const exg_argument *arg, exg_dtype otherwise)
{
    return arg->kind == EXG_ARGUMENT_SCALAR_TYPE ? arg->as_scalar_type : otherwise;
}

static const exg_device *device_of(const exg_shape_call *call)
{
    static const exg_device cpu = {"cpu", -1};
    const exg_function_schema *schema = call->op->schema;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        const exg_argument *arg = &call->args[i];

        if (arg->kind == EXG_ARGUMENT_DEVICE) {
            return &arg->as_device;
        }
        if (arg->kind == EXG_ARGUMENT_TENSOR) {
            return &call->graph->values[arg->as_tensor].tensor->device;
        }
        if (arg->kind == EXG_ARGUMENT_TENSORS && arg->count > 0) {
            return &call->graph->values[arg->as_tensors[0]].tensor->device;
        }
    }
    return &cpu;
}

exg_status exg_shape_result_strided(exg_shape_call *call, uint32_t index, exg_dtype dtype,
                                    const exg_strided *strided, exg_error *err)
{
    exg_tensor_meta *meta = EXG_NEW(call->arena, exg_tensor_meta);
    int64_t numel = 1;

    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *meta = (exg_tensor_meta){.dtype = dtype,
                              .layout = EXG_LAYOUT_STRIDED,
                              .rank = strided->rank,
                              .storage_offset = exg_sym_int_of(strided->offset),
                              .device = *device_of(call)};
    meta->sizes = EXG_NEW_ARRAY(call->arena, exg_sym_int, strided->rank);
    meta->strides = EXG_NEW_ARRAY(call->arena, exg_sym_int, strided->rank);
    if (meta->sizes == NULL || meta->strides == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < strided->rank; i++) {
        if (strided->sizes[i] < 0) {
            return EXG_SHAPE_FAIL(err, "the result would have size %" PRId64 " in dim %u",
                                  strided->sizes[i], i);
        }
        if (!count_dim(&numel, strided->sizes[i]) || numel > INT64_MAX / 16) {
            return EXG_FAIL(err, LIMIT, "SHP-002", "the result would have over 2^59 elements");
        }
        meta->sizes[i] = exg_sym_int_of(strided->sizes[i]);
        meta->strides[i] = exg_sym_int_of(strided->strides[i]);
    }
    call->results[index] = meta;
    return EXG_OK;
}

exg_status exg_shape_result(exg_shape_call *call, uint32_t index, exg_dtype dtype,
                            const exg_dims *dims, exg_error *err)
{
    exg_strided strided = {.rank = dims->rank};
    int64_t stride = 1;

    for (uint32_t i = dims->rank; i-- > 0;) {
        strided.sizes[i] = dims->n[i];
        strided.strides[i] = stride;
        /* wraps only where the product of sizes is refused below */
        stride = (int64_t)((uint64_t)stride * (uint64_t)(dims->n[i] > 1 ? dims->n[i] : 1));
    }
    return exg_shape_result_strided(call, index, dtype, &strided, err);
}

/* ---- pointwise rows ------------------------------------------------------------ */

/* No two elements on one place and no gap: a permutation of row-major. */
static bool is_dense(const exg_strided *s)
{
    int64_t expected = 1;
    bool used[EXG_SHAPE_RANK_MAX] = {false};

    for (uint32_t n = 0; n < s->rank; n++) {
        uint32_t found = s->rank;

        for (uint32_t d = s->rank; d-- > 0;) {
            if (!used[d] && (s->sizes[d] == 1 || s->strides[d] == expected)) {
                found = d;
                break;
            }
        }
        if (found == s->rank) {
            return false;
        }
        used[found] = true;
        expected *= s->sizes[found];
    }
    return true;
}

/* What is chosen by is a bool; of `where` also a byte, as PyTorch still takes it. */
static exg_status check_condition(const exg_shape_call *call, exg_error *err)
{
    bool where = call->op->pointwise == EXG_POINTWISE_WHERE;
    exg_dtype dtype;

    if (!where && call->op->id != EXG_OP_masked_fill_Scalar) {
        return EXG_OK;
    }
    dtype = exg_shape_input(call, where ? 0 : 1)->dtype;
    if (dtype != EXG_DTYPE_B8 && !(where && dtype == EXG_DTYPE_U8)) {
        return EXG_SHAPE_FAIL(err, "a condition of %s", exg_dtype_name(dtype));
    }
    return EXG_OK;
}

static exg_status infer_pointwise(exg_shape_call *call, exg_error *err)
{
    exg_dims dims = {.rank = 0};
    exg_strided kept;
    bool keep = false;
    bool alike = true;
    exg_dtype compute;
    exg_dtype dtype;

    EXG_TRY(check_condition(call, err));
    for (uint32_t i = 0; i < call->op->schema->argument_count; i++) {
        exg_dims more;

        if (call->args[i].kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY(exg_dims_of(exg_shape_input(call, i), &more, err));
            EXG_TRY(exg_broadcast(&dims, &more, &dims, err));
        }
    }
    /* Operands of the full shape that agree on a dense order hand it on. */
    for (uint32_t i = 0; i < call->op->schema->argument_count; i++) {
        exg_strided strided;

        if (call->args[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        EXG_TRY(exg_strided_of(exg_shape_input(call, i), &strided, err));
        if (strided.rank != dims.rank ||
            memcmp(strided.sizes, dims.n, dims.rank * sizeof(dims.n[0])) != 0) {
            continue;
        }
        if (!keep) {
            kept = strided;
            keep = true;
        } else {
            alike = alike &&
                    memcmp(kept.strides, strided.strides, dims.rank * sizeof(kept.strides[0])) == 0;
        }
    }
    exg_pointwise_dtypes(call->op, call->args, call->graph, &compute, &dtype);
    if (dtype == EXG_DTYPE_COUNT) {
        return EXG_SHAPE_FAIL(err, "%s has no operand to take a dtype from", call->op->target);
    }
    if (keep && alike && is_dense(&kept)) {
        kept.offset = 0;
        return exg_shape_result_strided(call, 0, dtype, &kept, err);
    }
    return exg_shape_result(call, 0, dtype, &dims, err);
}

/* ---- entry ----------------------------------------------------------------------- */

static exg_status infer_view(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *self = exg_shape_input(call, 0);
    exg_strided in;
    exg_strided out = {0};

    EXG_TRY(exg_strided_of(self, &in, err));
    out.dtype = in.dtype;
    EXG_TRY(call->op->view(call->args, &in, &out, err));
    return exg_shape_result_strided(call, 0, out.dtype, &out, err);
}

exg_status exg_operator_infer(const exg_operator *op, const exg_argument *args,
                              const exg_graph *graph, exg_arena *arena, exg_tensor_meta ***results,
                              uint32_t *result_count, exg_error *err)
{
    EXG_REQUIRE(err, op, args, graph, arena, results, result_count);
    EXG_TRY(exg_check_numbers(op, args, err));
    return exg_infer_checked(op, args, graph, arena, results, result_count, err);
}

exg_status exg_infer_checked(const exg_operator *op, const exg_argument *args,
                             const exg_graph *graph, exg_arena *arena, exg_tensor_meta ***results,
                             uint32_t *result_count, exg_error *err)
{
    exg_shape_call call = {.op = op, .args = args, .graph = graph, .arena = arena};

    call.result_count = op->schema->return_count;
    call.results = EXG_NEW_ARRAY(arena, exg_tensor_meta *, call.result_count);
    if (call.results == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (op->pointwise != EXG_POINTWISE_NOT) {
        EXG_TRY(infer_pointwise(&call, err));
    } else if (op->view != NULL) {
        EXG_TRY(infer_view(&call, err));
    } else if (op->shape != NULL) {
        EXG_TRY(op->shape(&call, err));
    } else {
        return EXG_FAIL(err, UNSUPPORTED, "OPR-001", "%s has no shape function", op->target);
    }
    EXG_TRY(exg_check_bools(op, args, graph, err));
    if (call.result_count > 0 && call.results[0] != NULL) {
        EXG_TRY(exg_check_held(op, args, call.results[0]->dtype, err));
    }
    *results = call.results;
    *result_count = call.result_count;
    return EXG_OK;
}
