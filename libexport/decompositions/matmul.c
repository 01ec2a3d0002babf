/* matmul.c - shapes and lowerings of matmul.def, shape of attention. */
#include "libexport/base/checked.h"
#include "libexport/decompositions/complex.h"

#include <inttypes.h>

#define EXG_ROWS "libexport/operators/attention.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/matmul.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/quantized.def"
#include "libexport/operators/rows.h"

static exg_status dims_at(const exg_shape_call *call, uint32_t position, uint32_t rank,
                          exg_dims *dims, exg_error *err)
{
    EXG_TRY(exg_dims_of(exg_shape_input(call, position), dims, err));
    if (dims->rank != rank) {
        return EXG_SHAPE_FAIL(err, "argument '%s' has rank %u, not %u",
                              call->op->schema->arguments[position].name, dims->rank, rank);
    }
    return EXG_OK;
}

static exg_status same_size(int64_t a, int64_t b, const char *what, exg_error *err)
{
    if (a != b) {
        return EXG_SHAPE_FAIL(err, "%s: %" PRId64 " and %" PRId64, what, a, b);
    }
    return EXG_OK;
}

static exg_status same_dtype(const exg_shape_call *call, uint32_t a, uint32_t b, exg_error *err)
{
    exg_dtype in_a = exg_shape_input(call, a)->dtype;
    exg_dtype in_b = exg_shape_input(call, b)->dtype;

    if (in_a != in_b) {
        return EXG_SHAPE_FAIL(err, "a product of %s with %s", exg_dtype_name(in_a),
                              exg_dtype_name(in_b));
    }
    return EXG_OK;
}

/* The sizes of the product of the matrices at two positions; `batched` for a leading batch dim. */
static exg_status product_sizes(exg_shape_call *call, uint32_t left, uint32_t right, bool batched,
                                exg_dims *out, exg_error *err)
{
    uint32_t rank = batched ? 3 : 2;
    exg_dims a;
    exg_dims b;

    EXG_TRY(dims_at(call, left, rank, &a, err));
    EXG_TRY(dims_at(call, right, rank, &b, err));
    EXG_TRY(same_size(a.n[rank - 1], b.n[rank - 2], "inner sizes of a product", err));
    *out = a;
    out->n[rank - 1] = b.n[rank - 1];
    return batched ? same_size(a.n[0], b.n[0], "batch sizes of a product", err) : EXG_OK;
}

/* The same of matrices of one dtype. */
static exg_status product(exg_shape_call *call, uint32_t left, uint32_t right, bool batched,
                          exg_dims *out, exg_error *err)
{
    EXG_TRY(product_sizes(call, left, right, batched, out, err));
    return same_dtype(call, left, right, err);
}

exg_status exg_shape_mm(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(product(call, 0, 1, false, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* int8 or uint8 by int8, summed in int32 */
exg_status exg_shape_int_mm(exg_shape_call *call, exg_error *err)
{
    exg_dtype left = exg_shape_input(call, 0)->dtype;
    exg_dtype right = exg_shape_input(call, 1)->dtype;
    exg_dims out;

    EXG_TRY(product_sizes(call, 0, 1, false, &out, err));
    if ((left != EXG_DTYPE_I8 && left != EXG_DTYPE_U8) || right != EXG_DTYPE_I8) {
        return EXG_SHAPE_FAIL(err, "a product of %s with %s", exg_dtype_name(left),
                              exg_dtype_name(right));
    }
    return exg_shape_result(call, 0, EXG_DTYPE_I32, &out, err);
}

/* int8 or uint8, each */
exg_status exg_shape_product_of_bytes(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(product_sizes(call, 0, 1, false, &out, err));
    return exg_shape_result(call, 0, EXG_DTYPE_I32, &out, err);
}

/* A factor of a weight (rows, depth): one element a row and group, or fewer. */
static exg_status check_weight_factor(const exg_tensor_meta *factor, const exg_dims *weight,
                                      int64_t *groups, exg_error *err)
{
    exg_dims dims;

    if (factor == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_dims_of(factor, &dims, err));
    if (dims.rank != 2 || (dims.n[0] != 1 && dims.n[0] != weight->n[0]) || dims.n[1] < 1 ||
        weight->n[1] % dims.n[1] != 0 || (dims.n[1] != 1 && *groups != 1 && dims.n[1] != *groups)) {
        return EXG_SHAPE_FAIL(err, "factors that do not fit a weight");
    }
    *groups = dims.n[1] != 1 ? dims.n[1] : *groups;
    return EXG_OK;
}

/* (.., depth) by (rows, depth) transposed */
exg_status exg_shape_weight_product(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *bias = exg_shape_input(call, 5);
    int64_t groups = 1;
    exg_dims in;
    exg_dims weight;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    EXG_TRY(dims_at(call, 1, 2, &weight, err));
    if (in.rank == 0) {
        return EXG_SHAPE_FAIL(err, "a product of a 0-d tensor");
    }
    EXG_TRY(same_size(EXG_END(in, 1), weight.n[1], "inner sizes of a product", err));
    for (uint32_t i = 2; i < 5; i++) {
        EXG_TRY(check_weight_factor(exg_shape_input(call, i), &weight, &groups, err));
    }
    if (bias != NULL && (bias->rank != 1 || bias->sizes[0].value != weight.n[0])) {
        return EXG_SHAPE_FAIL(err, "a bias that does not fit a weight");
    }
    EXG_END(in, 1) = weight.n[0];
    return exg_shape_result(call, 0, exg_dtype_argument(&call->args[10], EXG_DTYPE_F32), &in, err);
}

/* (b, m, k) by b of the matrices (g, k, n) */
exg_status exg_shape_gathered_product(exg_shape_call *call, exg_error *err)
{
    exg_dims in;
    exg_dims matrices;
    exg_dims index;

    EXG_TRY(dims_at(call, 0, 3, &in, err));
    EXG_TRY(dims_at(call, 1, 3, &matrices, err));
    EXG_TRY(dims_at(call, 2, 1, &index, err));
    EXG_TRY(same_size(in.n[2], matrices.n[1], "inner sizes of a product", err));
    EXG_TRY(same_size(in.n[0], index.n[0], "indices of matrices", err));
    in.n[2] = matrices.n[2];
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &in, err);
}

exg_status exg_shape_bmm(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(product(call, 0, 1, true, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

static exg_status added_product(exg_shape_call *call, bool batched, exg_error *err)
{
    exg_dims out;
    exg_dims self;
    exg_dims both;

    EXG_TRY(product(call, 1, 2, batched, &out, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &self, err));
    EXG_TRY(exg_broadcast(&self, &out, &both, err));
    EXG_TRY(same_dtype(call, 0, 1, err));
    for (uint32_t i = 0; i < both.rank; i++) {
        if (both.rank != out.rank || both.n[i] != out.n[i]) {
            return EXG_SHAPE_FAIL(err, "the added tensor is larger than the product");
        }
    }
    return exg_shape_result(call, 0, exg_shape_input(call, 1)->dtype, &out, err);
}

exg_status exg_shape_addmm(exg_shape_call *call, exg_error *err)
{
    return added_product(call, false, err);
}

exg_status exg_shape_baddbmm(exg_shape_call *call, exg_error *err)
{
    return added_product(call, true, err);
}

exg_status exg_shape_linear(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *bias = exg_shape_input(call, 2);
    exg_dims in;
    exg_dims weight;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    EXG_TRY(dims_at(call, 1, 2, &weight, err));
    EXG_TRY(same_dtype(call, 0, 1, err));
    if (in.rank == 0) {
        return EXG_SHAPE_FAIL(err, "linear of a 0-d tensor");
    }
    EXG_TRY(same_size(EXG_END(in, 1), weight.n[1], "inner sizes of linear", err));
    if (bias != NULL) {
        if (bias->rank != 1) {
            return EXG_SHAPE_FAIL(err, "a bias of rank %u", bias->rank);
        }
        EXG_TRY(same_size(bias->sizes[0].value, weight.n[0], "bias and output size", err));
        EXG_TRY(same_dtype(call, 0, 2, err));
    }
    EXG_END(in, 1) = weight.n[0];
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &in, err);
}

/* The mask of attention, if any, is as large as the scores or broadcasts to them. */
static exg_status check_mask(const exg_shape_call *call, const exg_dims *batch, int64_t rows,
                             int64_t columns, exg_error *err)
{
    exg_dims scores = *batch;

    scores.n[scores.rank++] = rows;
    scores.n[scores.rank++] = columns;
    return exg_broadcasts_to(exg_shape_input(call, 3), &scores, "mask of attention", err);
}

/* Query [..., L, E], key [..., S, E], value [..., S, Ev] -> [..., L, Ev]. With
 * enable_gqa the heads (third dim from the end) of key and value divide query's. */
exg_status exg_shape_attention(exg_shape_call *call, exg_error *err)
{
    exg_dims q;
    exg_dims k;
    exg_dims v;
    exg_dims batch_q;
    exg_dims batch_k;
    bool gqa = exg_get_bool(&call->args[6]);

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &q, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &k, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 2), &v, err));
    if (q.rank < 2 || k.rank != v.rank || k.rank < 2) {
        return EXG_SHAPE_FAIL(err, "attention of ranks %u, %u, %u", q.rank, k.rank, v.rank);
    }
    EXG_TRY(same_dtype(call, 0, 1, err));
    EXG_TRY(same_dtype(call, 0, 2, err));
    EXG_TRY(same_size(EXG_END(q, 1), EXG_END(k, 1), "embedding of query and key", err));
    EXG_TRY(same_size(EXG_END(k, 2), EXG_END(v, 2), "length of key and value", err));
    for (uint32_t d = 0; d + 2 < k.rank; d++) {
        EXG_TRY(same_size(k.n[d], v.n[d], "batches of key and value", err));
    }
    batch_q = q;
    batch_q.rank -= 2;
    batch_k = k;
    batch_k.rank -= 2;
    if (gqa && batch_q.rank > 0 && batch_k.rank == batch_q.rank) {
        int64_t heads = EXG_END(batch_q, 1);
        int64_t groups = EXG_END(batch_k, 1);

        if (heads != groups && (groups <= 0 || heads % groups != 0)) {
            return EXG_SHAPE_FAIL(err, "%" PRId64 " heads over %" PRId64 " groups", heads, groups);
        }
        EXG_END(batch_k, 1) = heads;
    }
    EXG_TRY(exg_broadcast(&batch_q, &batch_k, &batch_q, err));
    EXG_TRY(check_mask(call, &batch_q, EXG_END(q, 2), EXG_END(k, 2), err));
    batch_q.n[batch_q.rank] = EXG_END(q, 2);
    batch_q.n[batch_q.rank + 1] = EXG_END(v, 1);
    batch_q.rank += 2;
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &batch_q, err);
}

/* One int for all spatial dims, or one each. */
static exg_status spatial(const exg_argument *arg, uint32_t count, int64_t otherwise, int64_t *out,
                          exg_error *err)
{
    uint32_t given = exg_get_ints(arg, out, EXG_SHAPE_RANK_MAX);

    if (given != count && given > 1) {
        return EXG_SHAPE_FAIL(err, "%u numbers for %u spatial dims", given, count);
    }
    for (uint32_t i = given; i < count; i++) {
        out[i] = given == 1 ? out[0] : otherwise;
    }
    return EXG_OK;
}

exg_status exg_convolution_sizes(const exg_shape_call *call, exg_dims *out, exg_error *err)
{
    exg_dims in;
    exg_dims weight;
    int64_t stride[EXG_SHAPE_RANK_MAX];
    int64_t padding[EXG_SHAPE_RANK_MAX];
    int64_t dilation[EXG_SHAPE_RANK_MAX];
    int64_t extra[EXG_SHAPE_RANK_MAX];
    bool transposed = exg_get_bool(&call->args[6]);
    int64_t groups = exg_get_int(&call->args[8]);
    int64_t grouped;
    const exg_tensor_meta *bias = exg_shape_input(call, 2);
    bool batched;
    uint32_t count;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &weight, err));
    if (weight.rank < 3 || (in.rank != weight.rank && in.rank + 1 != weight.rank) || groups < 1 ||
        !exg_mul_i64(weight.n[1], groups, &grouped)) {
        return EXG_SHAPE_FAIL(err, "convolution of ranks %u and %u in %" PRId64 " groups", in.rank,
                              weight.rank, groups);
    }
    batched = in.rank == weight.rank;
    count = weight.rank - 2;
    EXG_TRY(spatial(&call->args[3], count, 1, stride, err));
    EXG_TRY(spatial(&call->args[4], count, 0, padding, err));
    EXG_TRY(spatial(&call->args[5], count, 1, dilation, err));
    EXG_TRY(spatial(&call->args[7], count, 0, extra, err));
    EXG_TRY(same_size(in.n[batched], transposed ? weight.n[0] : grouped, "input channels", err));
    in.n[batched] = transposed ? grouped : weight.n[0];
    if (weight.n[0] % groups != 0 || exg_get_ints(&call->args[3], NULL, 0) == 0 ||
        exg_get_ints(&call->args[5], NULL, 0) == 0 ||
        (bias != NULL && (bias->rank != 1 || bias->sizes[0].value != in.n[batched]))) {
        return EXG_SHAPE_FAIL(err, "filters of other groups or bias, or without a stride");
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t *n = &in.n[batched + 1 + i];
        int64_t reach;

        if (stride[i] < 1 || dilation[i] < 1 || padding[i] < 0 || extra[i] < 0 ||
            stride[i] > INT32_MAX || dilation[i] > INT32_MAX || padding[i] > INT32_MAX ||
            weight.n[2 + i] < 1 || weight.n[2 + i] > INT32_MAX || (transposed && *n > INT32_MAX) ||
            (transposed && extra[i] >= stride[i] && extra[i] >= dilation[i])) {
            return EXG_SHAPE_FAIL(err, "stride, padding, dilation or size out of range");
        }
        reach = dilation[i] * (weight.n[2 + i] - 1);
        *n = transposed ? (*n - 1) * stride[i] - 2 * padding[i] + reach + extra[i] + 1
                        : *n + 2 * padding[i] - reach - 1;
        if (*n < 0) {
            return EXG_SHAPE_FAIL(err, "the kernel is larger than the padded input");
        }
        *n = transposed ? *n : *n / stride[i] + 1;
    }
    *out = in;
    return EXG_OK;
}

exg_status exg_shape_convolution(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_convolution_sizes(call, &out, err));
    EXG_TRY(same_dtype(call, 0, 1, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

void exg_lower_other_bias(exg_builder *b, exg_operator_id id, const exg_argument *args,
                          exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, exg_get_ref(&args[0]));
    exg_argument bias = exg_arg_ref(exg_lower_cast(b, exg_get_ref(&args[2]), dtype));

    results[0] = exg_arg_ref(EMIT(b, convolution_default, args[0], args[1], bias, args[3], args[4],
                                  args[5], args[6], args[7], args[8]));
    (void)id;
}

/* One int32 a channel of the result, or nothing. */
static exg_status int_a_channel(const exg_shape_call *call, uint32_t position, int64_t channels,
                                exg_error *err)
{
    const exg_tensor_meta *t = exg_shape_input(call, position);

    if (t != NULL && (t->rank != 1 || t->sizes[0].value != channels || t->dtype != EXG_DTYPE_I32)) {
        return EXG_SHAPE_FAIL(err, "argument '%s' is not one int32 a channel",
                              call->op->schema->arguments[position].name);
    }
    return EXG_OK;
}

/* int8 or uint8, each, summed in int32: of the input the padding holds the zero point, off the
 * weight its zeros are taken. */
exg_status exg_shape_convolution_of_bytes(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *weight = exg_shape_input(call, 1);
    exg_dims out;

    EXG_TRY(exg_convolution_sizes(call, &out, err));
    if (exg_get_bool(&call->args[6])) {
        return EXG_SHAPE_FAIL(err, "a transposed convolution of bytes");
    }
    for (uint32_t d = 1; d < weight->rank; d++) {
        if (weight->sizes[d].value == 0) {
            return EXG_SHAPE_FAIL(err, "a convolution of bytes by a weight of no element");
        }
    }
    EXG_TRY(int_a_channel(call, 2, weight->sizes[0].value, err));
    EXG_TRY(int_a_channel(call, 10, weight->sizes[0].value, err));
    return exg_shape_result(call, 0, EXG_DTYPE_I32, &out, err);
}

/* As at/native/Pool.h counts them. */
exg_status exg_pool_windows(int64_t size, const exg_pool_window *w, bool ceil_mode, int64_t *count,
                            exg_error *err)
{
    int64_t room;

    *count = 0;
    if (w->kernel < 1 || w->stride < 1 || w->dilation < 1 || w->padding < 0 ||
        w->padding > w->kernel / 2 || w->kernel > INT32_MAX || w->dilation > INT32_MAX ||
        w->stride > INT32_MAX) {
        return EXG_SHAPE_FAIL(err, "pooling window, stride or padding out of range");
    }
    room = size + 2 * w->padding - w->dilation * (w->kernel - 1) - 1;
    room += ceil_mode ? w->stride - 1 : 0;
    if (room < 0) {
        return EXG_SHAPE_FAIL(err, "the pooling window is larger than the input");
    }
    *count = room / w->stride + 1;
    *count -= ceil_mode && (*count - 1) * w->stride >= size + w->padding;
    return *count < 1 ? EXG_SHAPE_FAIL(err, "no pooling window begins in the input") : EXG_OK;
}

static exg_status pool2d(exg_shape_call *call, const exg_argument *dilations, bool ceil_mode,
                         exg_dims *out, exg_error *err)
{
    int64_t kernel[EXG_SHAPE_RANK_MAX];
    int64_t stride[EXG_SHAPE_RANK_MAX];
    int64_t padding[EXG_SHAPE_RANK_MAX];
    int64_t dilation[EXG_SHAPE_RANK_MAX] = {1, 1};

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), out, err));
    if (out->rank != 3 && out->rank != 4) {
        return EXG_SHAPE_FAIL(err, "2-d pooling of a tensor of rank %u", out->rank);
    }
    EXG_TRY(spatial(&call->args[1], 2, 1, kernel, err));
    EXG_TRY(spatial(&call->args[2], 2, 0, stride, err));
    EXG_TRY(spatial(&call->args[3], 2, 0, padding, err));
    if (dilations != NULL) {
        EXG_TRY(spatial(dilations, 2, 1, dilation, err));
    }
    for (uint32_t i = 0; i < 2; i++) {
        int64_t *n = &out->n[out->rank - 2 + i];

        if (exg_get_ints(&call->args[2], (int64_t[2]){0}, 2) == 0) {
            stride[i] = kernel[i];
        }
        EXG_TRY(exg_pool_windows(*n,
                                 &(exg_pool_window){kernel[i], stride[i], padding[i], dilation[i]},
                                 ceil_mode, n, err));
    }
    return EXG_OK;
}

exg_status exg_shape_max_pool2d(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(pool2d(call, &call->args[4], exg_get_bool(&call->args[5]), &out, err));
    EXG_TRY(exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err));
    return exg_shape_result(call, 1, EXG_DTYPE_I64, &out, err);
}

exg_status exg_shape_avg_pool2d(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(pool2d(call, NULL, exg_get_bool(&call->args[4]), &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

exg_status exg_shape_adaptive_pool2d(exg_shape_call *call, exg_error *err)
{
    int64_t size[EXG_SHAPE_RANK_MAX];
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(spatial(&call->args[1], 2, 1, size, err));
    if (out.rank != 3 && out.rank != 4) {
        return EXG_SHAPE_FAIL(err, "2-d pooling of a tensor of rank %u", out.rank);
    }
    EXG_END(out, 2) = size[0];
    EXG_END(out, 1) = size[1];
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* ---- lowerings ------------------------------------------------------------------ */

/* x with its leading dims brought to `batch` and made one. */
static exg_ref as_batch(exg_builder *b, exg_ref x, const exg_dims *batch, int64_t count)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims full = *batch;

    if (in.rank < 2) {
        return x;
    }
    full.n[full.rank++] = EXG_END(in, 2);
    full.n[full.rank++] = EXG_END(in, 1);
    x = EMIT(b, expand_default, x, INTS_OF(b, full.n, full.rank));
    return EMIT(b, reshape_default, x, INTS(b, count, EXG_END(in, 2), EXG_END(in, 1)));
}

static exg_ref batched_matmul(exg_builder *b, exg_ref x, exg_ref y)
{
    exg_dims left = exg_lower_dims(b, x);
    exg_dims right = exg_lower_dims(b, y);
    exg_dims batch;
    int64_t rows = EXG_END(left, 2);
    int64_t columns = EXG_END(right, 1);
    int64_t count = 1;
    exg_ref z;

    left.rank -= 2;
    right.rank -= 2;
    if (exg_broadcast(&left, &right, &batch, NULL) != EXG_OK) {
        exg_error err;

        (void)EXG_SHAPE_FAIL(&err, "batch sizes of matmul do not broadcast");
        exg_builder_fail(b, &err);
        return EXG_NO_REF;
    }
    for (uint32_t i = 0; i < batch.rank; i++) {
        count *= batch.n[i];
    }
    z = EMIT(b, bmm_default, as_batch(b, x, &batch, count), as_batch(b, y, &batch, count));
    batch.n[batch.rank++] = rows;
    batch.n[batch.rank++] = columns;
    return EMIT(b, view_default, z, INTS_OF(b, batch.n, batch.rank));
}

/* torch.matmul: vectors become matrices, a lone matrix on the right needs no batch. */
void exg_lower_matmul(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_get_ref(&args[0]);
    exg_ref y = exg_get_ref(&args[1]);
    uint32_t rank_x = exg_lower_dims(b, x).rank;
    uint32_t rank_y = exg_lower_dims(b, y).rank;
    exg_ref z;

    if (rank_x == 0 || rank_y == 0) {
        exg_error err;

        (void)EXG_SHAPE_FAIL(&err, "matmul of a 0-d tensor");
        exg_builder_fail(b, &err);
        return;
    }
    x = rank_x == 1 ? EMIT(b, unsqueeze_default, x, 0) : x;
    y = rank_y == 1 ? EMIT(b, unsqueeze_default, y, 1) : y;
    if (rank_x <= 2 && rank_y <= 2) {
        z = EMIT(b, mm_default, x, y);
    } else if (rank_y <= 2) {
        exg_dims in = exg_lower_dims(b, x);
        int64_t rows = 1;
        exg_ref flat;

        for (uint32_t i = 0; i + 1 < in.rank; i++) {
            rows *= in.n[i];
        }
        flat = EMIT(b, reshape_default, x, INTS(b, rows, EXG_END(in, 1)));
        z = EMIT(b, mm_default, flat, y);
        EXG_END(in, 1) = exg_lower_dims(b, y).n[1];
        z = EMIT(b, view_default, z, INTS_OF(b, in.n, in.rank));
    } else {
        z = batched_matmul(b, x, y);
    }
    if (rank_x == 1 || rank_y == 1) {
        exg_dims out = exg_lower_dims(b, z);
        int64_t dropped[2];
        uint32_t count = 0;

        if (rank_x == 1) {
            dropped[count++] = (int64_t)out.rank - 2;
        }
        if (rank_y == 1) {
            dropped[count++] = (int64_t)out.rank - 1;
        }
        z = EMIT(b, squeeze_dims, z, INTS_OF(b, dropped, count));
    }
    results[0] = exg_arg_ref(z);
}

void exg_lower_conv(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims weight = exg_lower_dims(b, exg_get_ref(&args[1]));
    uint32_t count = weight.rank > 2 ? weight.rank - 2 : 1;
    int64_t numbers[3][EXG_SHAPE_RANK_MAX];
    int64_t zeros[EXG_SHAPE_RANK_MAX] = {0};
    exg_error err;

    for (uint32_t i = 0; i < 3; i++) {
        if (spatial(&args[3 + i], count, i != 1, numbers[i], &err) != EXG_OK) {
            exg_builder_fail(b, &err);
            return;
        }
    }
    results[0] = exg_arg_ref(EMIT(b, convolution_default, args[0], args[1], args[2],
                                  INTS_OF(b, numbers[0], count), INTS_OF(b, numbers[1], count),
                                  INTS_OF(b, numbers[2], count), exg_arg_bool(false),
                                  INTS_OF(b, zeros, count), args[6]));
}

void exg_lower_max_pool2d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, max_pool2d_with_indices_default, args[0], args[1], args[2],
                                  args[3], args[4], args[5]));
}

void exg_lower_adaptive_avg_pool2d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, _adaptive_avg_pool2d_default, args[0], args[1]));
}

/* ---- products by groups of rows ------------------------------------------------------------- */

/* Rows of input up to offs[g] are of group g, those past the last of none: the group of each,
 * and 1 where there is one, as a column. */
static exg_ref groups_of(exg_builder *b, const exg_argument *args, exg_ref *has_one)
{
    exg_ref ends = exg_get_ref(&args[2]);
    int64_t count = exg_lower_numel(b, ends);
    exg_ref at =
        exg_lower_steps(b, exg_lower_dims(b, exg_get_ref(&args[0])).n[0], EXG_DTYPE_I64, 0, 2);
    exg_ref group = EMIT(b, le_Tensor, EMIT(b, unsqueeze_default, ends, 0), at);

    group = EMIT(b, sum_dim_IntList, group, INTS(b, 1));
    *has_one = EMIT(b, unsqueeze_default, EMIT(b, lt_Scalar, group, exg_arg_int(count)), 1);
    return EMIT(b, clamp_max_default, group, exg_arg_int(count - 1));
}

static bool fits_groups(exg_builder *b, const exg_argument *args)
{
    exg_dims input = exg_lower_dims(b, exg_get_ref(&args[0]));
    exg_dims weight = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_dims ends = exg_lower_dims(b, exg_get_ref(&args[2]));

    if (input.rank != 2 || weight.rank != 3 || ends.rank != 1 || ends.n[0] != weight.n[0] ||
        ends.n[0] < 1 || input.n[1] != weight.n[1]) {
        exg_lower_refuse(b, "rows by groups that do not fit their matrices");
        return false;
    }
    return true;
}

/* Each row times a matrix of its own; nothing where it has none. */
static exg_ref row_by_row(exg_builder *b, exg_ref rows, exg_ref matrices, exg_ref has_one)
{
    exg_ref x = EMIT(b, bmm_default, EMIT(b, unsqueeze_default, rows, 1), matrices);

    return EMIT(b, where_ScalarOther, has_one, EMIT(b, squeeze_dims, x, INTS(b, 1)), 0.);
}

/* (input (S, K), weight (G, K, N), offs (G)) -> (S, N) */
void exg_lower_grouped_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    if (fits_groups(b, args)) {
        exg_ref has_one;
        exg_ref group = groups_of(b, args, &has_one);
        exg_ref own = EMIT(b, index_select_default, args[1], 0, group);

        results[0] = exg_arg_ref(row_by_row(b, exg_get_ref(&args[0]), own, has_one));
    }
}

/* (input, weight, offs, grad_output (S, N)) -> of input, of weight */
void exg_lower_grouped_mm_backward(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref grad = exg_get_ref(&args[3]);
    exg_ref has_one;
    exg_ref group;
    exg_ref own;

    if (!fits_groups(b, args)) {
        return;
    }
    group = groups_of(b, args, &has_one);
    own = exg_lower_swapped(b, EMIT(b, index_select_default, args[1], 0, group), 1, 2);
    results[0] = exg_arg_ref(row_by_row(b, grad, own, has_one));
    grad = EMIT(b, where_ScalarOther, has_one, grad, 0.);
    own = EMIT(b, mul_Tensor, EMIT(b, unsqueeze_default, args[0], 2),
               EMIT(b, unsqueeze_default, grad, 1));
    results[1] = exg_arg_ref(
        EMIT(b, index_add_default, EMIT(b, zeros_like_default, args[1]), 0, group, own));
}

/* (self (M, K), mat2 (K, N), offs (G)) -> (G, M, N): each group has a part of K. */
static exg_ref products_of_parts(exg_builder *b, const exg_argument *args)
{
    exg_ref mat2 = exg_get_ref(&args[1]);
    int64_t count = exg_lower_numel(b, exg_get_ref(&args[2]));
    const exg_argument turned[3] = {exg_arg_ref(mat2), args[0], args[2]};
    exg_dims dims = exg_lower_dims(b, mat2);
    exg_ref has_one;
    exg_ref group = groups_of(b, turned, &has_one);
    exg_ref own = EMIT(b, where_ScalarOther, EMIT(b, squeeze_dims, has_one, INTS(b, 1)), group,
                       exg_arg_int(count));
    exg_ref parts = EMIT(b, eq_Tensor, EMIT(b, unsqueeze_default, own, 0),
                         exg_lower_steps(b, count, EXG_DTYPE_I64, 0, 2));

    parts = EMIT(b, where_ScalarOther, EMIT(b, unsqueeze_default, parts, 1),
                 EMIT(b, unsqueeze_default, args[0], 0), 0.);
    return EMIT(b, bmm_default, parts,
                EMIT(b, expand_default, EMIT(b, unsqueeze_default, mat2, 0),
                     INTS(b, count, dims.n[0], dims.n[1])));
}

/* What offs cuts is rows of self, columns of mat2, or, where both are matrices, what is summed. */
void exg_lower_grouped_products(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims self = exg_lower_dims(b, exg_get_ref(&args[0]));
    exg_dims mat2 = exg_lower_dims(b, exg_get_ref(&args[1]));

    if (exg_lower_given(&args[3])) {
        exg_lower_unsupported(b, "a bias of products by groups");
    } else if (!exg_lower_given(&args[2])) {
        results[0] = exg_arg_ref(EMIT(b, bmm_default, args[0], args[1]));
    } else if (self.rank == 2 && mat2.rank == 2 && self.n[1] == mat2.n[0]) {
        results[0] = exg_arg_ref(products_of_parts(b, args));
    } else if (self.rank == 3 && mat2.rank == 2) {
        const exg_argument turned[3] = {
            exg_arg_ref(exg_lower_swapped(b, exg_get_ref(&args[1]), 0, 1)),
            exg_arg_ref(exg_lower_swapped(b, exg_get_ref(&args[0]), 1, 2)), args[2]};

        exg_lower_grouped_mm(b, turned, results);
        results[0] = exg_arg_ref(exg_lower_swapped(b, exg_get_ref(&results[0]), 0, 1));
    } else {
        exg_lower_grouped_mm(b, args, results);
    }
}

/* ---- products stored wider than their operands ---- */

/* torch has out_dtype as the operands' own, or float32 of what is narrower. */
static exg_ref widened(exg_builder *b, const exg_argument *arg, exg_dtype out)
{
    exg_ref x = exg_get_ref(arg);
    exg_dtype dtype = exg_lower_dtype(b, x);

    if (out != dtype &&
        (out != EXG_DTYPE_F32 || (dtype != EXG_DTYPE_F16 && dtype != EXG_DTYPE_BF16))) {
        exg_lower_refuse(b, "out_dtype is the operands' dtype, or float32 of float16 and bfloat16");
    }
    return exg_lower_cast(b, x, out);
}

/* (self, mat2, out_dtype), of batches too */
void exg_lower_mm_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[2], EXG_DTYPE_F32);
    exg_ref x = widened(b, &args[0], out);
    exg_ref y = widened(b, &args[1], out);

    results[0] = exg_arg_ref(exg_lower_dims(b, x).rank == 3 ? EMIT(b, bmm_default, x, y)
                                                            : EMIT(b, mm_default, x, y));
}

/* (self, mat1, mat2, out_dtype, beta, alpha), of batches too */
void exg_lower_addmm_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype out = exg_dtype_argument(&args[3], EXG_DTYPE_F32);
    exg_ref self = exg_lower_cast(b, exg_get_ref(&args[0]), out);
    exg_ref x = widened(b, &args[1], out);
    exg_ref y = widened(b, &args[2], out);

    results[0] = exg_arg_ref(exg_lower_dims(b, x).rank == 3
                                 ? EMIT(b, baddbmm_default, self, x, y, args[4], args[5])
                                 : EMIT(b, addmm_default, self, x, y, args[4], args[5]));
}

/* (self, mat1, mat2, beta, alpha, use_gelu) */
void exg_lower_addmm_activation(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, addmm_default, args[0], args[1], args[2], args[3], args[4]);

    results[0] =
        exg_arg_ref(exg_get_bool(&args[5]) ? EMIT(b, gelu_default, x) : EMIT(b, relu_default, x));
}
