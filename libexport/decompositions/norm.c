/* norm.c - shapes and lowerings of norm.def. */
#include "libexport/operators/lower.h"

#include <inttypes.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/norm.def"
#include "libexport/operators/rows.h"

/* (input, normalized_shape, weight, bias, eps) -> out, mean, rstd over the outer dims. */
exg_status exg_shape_native_layer_norm(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *in = exg_shape_input(call, 0);
    int64_t normalized[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&call->args[1], normalized, EXG_SHAPE_RANK_MAX);
    const exg_tensor_meta *scale = exg_shape_input(call, 2);
    exg_dtype stats = scale == NULL ? in->dtype : scale->dtype; /* f32 weights, f32 statistics */
    exg_dims out;
    exg_dims outer;

    EXG_TRY(exg_dims_of(in, &out, err));
    if (count == 0 || count > out.rank) {
        return EXG_SHAPE_FAIL(err, "layer norm over %u dims of %u", count, out.rank);
    }
    outer = out;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim = out.rank - count + i;

        if (out.n[dim] != normalized[i]) {
            return EXG_SHAPE_FAIL(err, "layer norm over size %" PRId64 ", the input has %" PRId64,
                                  normalized[i], out.n[dim]);
        }
        outer.n[dim] = 1;
    }
    for (uint32_t position = 2; position <= 3; position++) {
        const exg_tensor_meta *weight = exg_shape_input(call, position);

        for (uint32_t i = 0; weight != NULL && i < count; i++) {
            if (weight->rank != count || weight->sizes[i].value != normalized[i]) {
                return EXG_SHAPE_FAIL(err, "weight and bias have the normalized shape");
            }
        }
    }
    EXG_TRY(exg_shape_result(call, 0, in->dtype, &out, err));
    EXG_TRY(exg_shape_result(call, 1, stats, &outer, err));
    return exg_shape_result(call, 2, stats, &outer, err);
}

bool exg_operator_result_is_statistic(const exg_operator *op, uint32_t result)
{
    return op->id == EXG_OP_native_layer_norm_default && result > 0;
}

/* (input, weight, bias, N, C, HxW, group, eps) -> out, mean [N, group], rstd */
exg_status exg_shape_native_group_norm(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *in = exg_shape_input(call, 0);
    int64_t n = exg_get_int(&call->args[3]);
    int64_t c = exg_get_int(&call->args[4]);
    int64_t group = exg_get_int(&call->args[6]);
    int64_t inner = 1;
    exg_dims out;
    exg_dims stats = {.rank = 2, .n = {n, group}};

    EXG_TRY(exg_dims_of(in, &out, err));
    for (uint32_t i = 2; i < out.rank; i++) {
        inner *= out.n[i];
    }
    if (out.rank < 2 || out.n[0] != n || out.n[1] != c || group < 1 || c % group != 0 ||
        exg_get_int(&call->args[5]) != inner) {
        return EXG_SHAPE_FAIL(err, "group norm of %" PRId64 " channels in %" PRId64 " groups", c,
                              group);
    }
    for (uint32_t position = 1; position <= 2; position++) {
        const exg_tensor_meta *weight = exg_shape_input(call, position);

        if (weight != NULL && (weight->rank != 1 || weight->sizes[0].value != c)) {
            return EXG_SHAPE_FAIL(err, "weight and bias have an element a channel");
        }
    }
    EXG_TRY(exg_shape_result(call, 0, in->dtype, &out, err));
    EXG_TRY(exg_shape_result(call, 1, in->dtype, &stats, err));
    return exg_shape_result(call, 2, in->dtype, &stats, err);
}

/* ---- lowerings ------------------------------------------------------------------ */

#define SELF exg_get_ref(&args[0])

void exg_lower_layer_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, native_layer_norm_default, args[0], args[1], args[2], args[3], args[4]));
}

/* None: the machine epsilon of what the norm is computed in. */
static double rms_eps(const exg_argument *eps, exg_dtype dtype)
{
    return !exg_is_none(eps) ? exg_get_float(eps) : dtype == EXG_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
}

void exg_lower_rms_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_lower_dtype(b, SELF);
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t normalized[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[1], normalized, EXG_SHAPE_RANK_MAX);
    exg_argument weight = args[2];

    for (uint32_t i = 0; i < count; i++) {
        if (count > in.rank || in.n[in.rank - count + i] != normalized[i]) {
            exg_lower_refuse(b, "a norm over another shape than the last dims have");
            return;
        }
    }
    if (exg_lower_given(&weight)) { /* float64 beside what is not */
        exg_ref w = exg_get_ref(&weight);
        bool fits = (dtype == EXG_DTYPE_F64) == (exg_lower_dtype(b, w) == EXG_DTYPE_F64);

        weight = exg_arg_ref(fits ? w : exg_lower_cast(b, w, dtype));
    }
    results[0] =
        exg_arg_ref(EMIT(b, exg_rms_norm, args[0], count, weight, rms_eps(&args[3], dtype)));
}

/* The last `count` dims of x. */
static exg_argument last_dims(exg_builder *b, exg_ref x, uint32_t count)
{
    uint32_t rank = exg_lower_dims(b, x).rank;
    int64_t dims[EXG_SHAPE_RANK_MAX] = {0};

    count = count < rank ? count : rank;
    for (uint32_t d = 0; d < count; d++) {
        dims[d] = rank - count + d;
    }
    return INTS_OF(b, dims, count);
}

/* (input, normalized_shape, weight?, eps?) -> and 1 / the root of the mean square */
void exg_lower_fused_rms_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);

    exg_lower_rms_norm(b, args, results);
    x = EMIT(b, mean_dim, EMIT(b, mul_Tensor, x, x), last_dims(b, x, args[1].count),
             exg_arg_bool(true));
    x = EMIT(b, add_Scalar, x, rms_eps(&args[3], exg_lower_dtype(b, SELF)));
    results[1] = exg_arg_ref(EMIT(b, rsqrt_default, x));
}

/* (grad_out, input, normalized_shape, rstd, weight?, output_mask) -> of input and weight: with x
 * the normalized input, rstd (g w - x mean(g w x)) and the sum of g x */
void exg_lower_fused_rms_norm_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    exg_ref input = exg_get_ref(&args[1]);
    exg_ref g = exg_lower_wide(b, SELF);
    exg_ref x = EMIT(b, mul_Tensor, exg_lower_wide(b, input), args[3]);
    exg_ref of_weight = EMIT(b, mul_Tensor, g, x);
    exg_ref along;

    results[0] = results[1] = exg_arg_none();
    if (exg_lower_given(&args[4])) {
        exg_ref weight = exg_get_ref(&args[4]);
        exg_dims dims = exg_lower_dims(b, weight);

        g = EMIT(b, mul_Tensor, g, exg_lower_wide(b, weight));
        of_weight = EMIT(b, sum_to_size_default, of_weight, INTS_OF(b, dims.n, dims.rank));
        results[1] = exg_arg_ref(exg_lower_cast(b, of_weight, exg_lower_dtype(b, weight)));
    }
    along = EMIT(b, mean_dim, EMIT(b, mul_Tensor, g, x), last_dims(b, x, args[2].count),
                 exg_arg_bool(true));
    x = EMIT(b, sub_Tensor, g, EMIT(b, mul_Tensor, x, along));
    results[0] =
        exg_arg_ref(exg_lower_cast(b, EMIT(b, mul_Tensor, x, args[3]), exg_lower_dtype(b, input)));
}

void exg_lower_group_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t inner = 1;

    for (uint32_t i = 2; i < in.rank; i++) {
        inner *= in.n[i];
    }
    results[0] = exg_arg_ref(EMIT(b, native_group_norm_default, args[0], args[2], args[3],
                                  exg_arg_int(in.n[0]), exg_arg_int(in.n[1]), exg_arg_int(inner),
                                  args[1], args[4]));
}

/* (x - mean) * rstd * weight + bias, computed in at least float32. */
static exg_ref normalized(exg_builder *b, exg_ref x, exg_ref mean, exg_ref rstd, exg_ref weight,
                          exg_ref bias)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    uint32_t rank = exg_lower_dims(b, x).rank;
    exg_dtype dtype = meta == NULL ? EXG_DTYPE_F32 : meta->dtype;
    uint32_t dim = rank > 1 ? 1 : 0;
    exg_ref y = EMIT(b, sub_Tensor, x, exg_lower_along(b, mean, dim, rank));

    y = EMIT(b, mul_Tensor, y, exg_lower_along(b, rstd, dim, rank));
    if (weight.id != EXG_NO_VALUE) {
        y = EMIT(b, mul_Tensor, y, exg_lower_along(b, weight, dim, rank));
    }
    if (bias.id != EXG_NO_VALUE) {
        y = EMIT(b, add_Tensor, y, exg_lower_along(b, bias, dim, rank));
    }
    return EMIT(b, to_dtype, y, DTYPE(dtype));
}

/* The same of statistics that are given, with one factor and one summand a channel, as PyTorch's
 * CPU has it. */
static exg_ref normalized_by(exg_builder *b, exg_ref x, exg_ref mean, exg_ref rstd, exg_ref weight,
                             exg_ref bias)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    uint32_t rank = exg_lower_dims(b, x).rank;
    uint32_t dim = rank > 1 ? 1 : 0;
    exg_ref factor =
        weight.id == EXG_NO_VALUE ? rstd : EMIT(b, mul_Tensor, rstd, exg_lower_wide(b, weight));
    exg_ref taken_off = EMIT(b, mul_Tensor, exg_lower_wide(b, mean), factor);
    exg_ref summand = bias.id == EXG_NO_VALUE
                          ? EMIT(b, neg_default, taken_off)
                          : EMIT(b, sub_Tensor, exg_lower_wide(b, bias), taken_off);
    exg_ref y = EMIT(b, add_Tensor, EMIT(b, mul_Tensor, x, exg_lower_along(b, factor, dim, rank)),
                     exg_lower_along(b, summand, dim, rank));

    return EMIT(b, to_dtype, y, DTYPE(meta == NULL ? EXG_DTYPE_F32 : meta->dtype));
}

typedef struct batch_stats {
    exg_ref mean, var, rstd; /* (C) */
    int64_t count;           /* elements a channel */
} batch_stats;

static batch_stats batch_statistics(exg_builder *b, exg_ref x, double eps)
{
    exg_dims in = exg_lower_dims(b, x);
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;
    batch_stats stats = {.count = 1};
    exg_argument over;

    for (uint32_t i = 0; i < in.rank; i++) {
        if (i != 1) {
            dims[count++] = i;
            stats.count *= in.n[i];
        }
    }
    over = INTS_OF(b, dims, count);
    stats.mean = EMIT(b, mean_dim, x, over);
    stats.var = EMIT(b, var_correction, x, over, 0);
    stats.rstd = EMIT(b, rsqrt_default, EMIT(b, add_Scalar, stats.var, eps));
    return stats;
}

/* Statistics as the CPU keeps them: in the input's dtype. */
static exg_argument saved(exg_builder *b, exg_ref statistic, exg_ref input)
{
    return exg_arg_ref(exg_lower_cast(b, statistic, exg_lower_dtype(b, input)));
}

/* momentum * batch + (1 - momentum) * running, as result `at` of the operator: in the dtype
 * of what is running, unless another is recorded, as programs do whose norms were traced. */
static exg_ref moved(exg_builder *b, exg_ref running, exg_ref batch, double momentum, uint32_t at)
{
    const exg_tensor_meta *recorded = exg_lower_recorded(b, at);
    const exg_tensor_meta *meta = recorded != NULL && exg_dtype_is_float(recorded->dtype)
                                      ? recorded
                                      : exg_ref_meta(b, running);
    exg_ref kept = EMIT(b, mul_Scalar, running, 1.0 - momentum);
    exg_ref sum = EMIT(b, add_Tensor, kept, EMIT(b, mul_Scalar, batch, momentum));

    return EMIT(b, to_dtype, sum, DTYPE(meta == NULL ? EXG_DTYPE_F32 : meta->dtype));
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps) ->
 * out, save_mean, save_rstd, new running_mean, new running_var. The running
 * variance is the unbiased one. */
void exg_lower_batch_norm_functional(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    exg_ref x = exg_lower_wide(b, SELF);
    exg_ref running_mean = exg_get_ref(&args[3]);
    exg_ref running_var = exg_get_ref(&args[4]);
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    exg_ref out;

    if (exg_get_bool(&args[5])) {
        batch_stats s = batch_statistics(b, x, exg_get_float(&args[7]));
        double unbias = s.count > 1 ? (double)s.count / (double)(s.count - 1) : 1.0;
        double momentum = exg_get_float(&args[6]);

        out = normalized(b, x, s.mean, s.rstd, exg_get_ref(&args[1]), exg_get_ref(&args[2]));
        results[1] = saved(b, s.mean, SELF);
        results[2] = saved(b, s.rstd, SELF);
        results[3] = exg_arg_ref(moved(b, running_mean, s.mean, momentum, 3));
        results[4] =
            exg_arg_ref(moved(b, running_var, EMIT(b, mul_Scalar, s.var, unbias), momentum, 4));
    } else {
        exg_ref rstd =
            EMIT(b, rsqrt_default,
                 EMIT(b, add_Scalar, exg_lower_wide(b, running_var), exg_get_float(&args[7])));

        out = normalized_by(b, x, running_mean, rstd, exg_get_ref(&args[1]), exg_get_ref(&args[2]));
        results[1] = results[2] =
            exg_arg_ref(EMIT(b, full_default, INTS(b, 0), 0.0, DTYPE(exg_lower_dtype(b, SELF))));
        results[3] = args[3];
        results[4] = args[4];
    }
    results[0] =
        exg_arg_ref(EMIT(b, to_dtype, out, DTYPE(meta == NULL ? EXG_DTYPE_F32 : meta->dtype)));
}

void exg_lower_batch_norm_no_training(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_argument all[5];

    exg_lower_batch_norm_functional(b,
                                    (const exg_argument[]){args[0], args[1], args[2], args[3],
                                                           args[4], exg_arg_bool(false), args[5],
                                                           args[6]},
                                    all);
    results[0] = all[0];
    results[1] = all[1];
    results[2] = all[2];
}

/* (input, weight, bias, training, momentum, eps) */
void exg_lower_batch_norm_no_stats(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    exg_ref x = exg_lower_wide(b, SELF);
    batch_stats s = batch_statistics(b, x, exg_get_float(&args[5]));
    exg_ref out = normalized(b, x, s.mean, s.rstd, exg_get_ref(&args[1]), exg_get_ref(&args[2]));

    results[0] =
        exg_arg_ref(EMIT(b, to_dtype, out, DTYPE(meta == NULL ? EXG_DTYPE_F32 : meta->dtype)));
    results[1] = saved(b, s.mean, SELF);
    results[2] = saved(b, s.rstd, SELF);
}

/* (input, weight, bias, running_mean, running_var, training, momentum, eps): the
 * statistics are written as the schema says. */
void exg_lower_batch_norm_legit(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument all[5];

    (void)EMIT_ALL(b, _native_batch_norm_legit_functional_default, all, args[0], args[1], args[2],
                   args[3], args[4], args[5], args[6], args[7]);
    if (exg_get_bool(&args[5])) {
        (void)EMIT(b, copy__default, args[3], all[3]);
        (void)EMIT(b, copy__default, args[4], all[4]);
    }
    results[0] = all[0];
    results[1] = all[1];
    results[2] = all[2];
}

/* The same, where either statistic may be missing: a norm in training needs none, and writes those
 * that there are. */
void exg_lower_native_batch_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_argument *given = exg_lower_given(&args[3])   ? &args[3]
                                : exg_lower_given(&args[4]) ? &args[4]
                                                            : NULL;
    exg_argument all[5];

    if (exg_lower_given(&args[3]) && exg_lower_given(&args[4])) {
        exg_lower_batch_norm_legit(b, args, results);
        return;
    }
    if (!exg_get_bool(&args[5])) {
        exg_lower_refuse(b, "a batch norm in evaluation takes its running mean and variance");
        return;
    }
    if (given == NULL) {
        (void)EMIT_ALL(b, _native_batch_norm_legit_no_stats, results, args[0], args[1], args[2],
                       exg_arg_bool(true), args[6], args[7]);
        return;
    }
    (void)EMIT_ALL(b, _native_batch_norm_legit_functional_default, all, args[0], args[1], args[2],
                   *given, *given, exg_arg_bool(true), args[6], args[7]);
    (void)EMIT(b, copy__default, *given, all[given == &args[3] ? 3 : 4]);
    memcpy(results, all, 3 * sizeof(*results));
}

/* The same, always training, with memory of the kernel's own at the end: none here. */
void exg_lower_batch_norm_with_update_functional(exg_builder *b, const exg_argument *args,
                                                 exg_argument *results)
{
    exg_argument all[5];

    (void)EMIT_ALL(b, _native_batch_norm_legit_functional_default, all, args[0], args[1], args[2],
                   args[3], args[4], exg_arg_bool(true), args[5], args[6]);
    memcpy(results, all, 3 * sizeof(*results));
    results[3] = exg_arg_ref(EMIT(b, zeros_default, INTS(b, 0), DTYPE(EXG_DTYPE_U8)));
    results[4] = all[3];
    results[5] = all[4];
}

void exg_lower_batch_norm_with_update(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    exg_argument all[6] = {exg_arg_none()};

    exg_lower_batch_norm_with_update_functional(b, args, all);
    (void)EMIT(b, copy__default, args[3], all[4]);
    (void)EMIT(b, copy__default, args[4], all[5]);
    memcpy(results, all, 4 * sizeof(*results));
}

/* In training mode the running statistics are written, though neither schema nor
 * signature says so (docs/pt2.md 3.7); functionalize sees the copies. */
void exg_lower_batch_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument three[3] = {exg_arg_none()};

    exg_lower_native_batch_norm(b, args, three);
    results[0] = three[0];
}

/* One per channel of every batch: (C) as (N C). */
static exg_ref repeated(exg_builder *b, const exg_argument *vector, int64_t batch)
{
    return exg_lower_given(vector) ? EMIT(b, repeat_default, exg_get_ref(vector), INTS(b, batch))
                                   : EXG_NO_REF;
}

/* The mean over the batch, written to what runs along. */
static void keep(exg_builder *b, const exg_argument *running, const exg_argument *fresh,
                 int64_t batch, int64_t channels)
{
    exg_ref x = EMIT(b, view_default, exg_get_ref(fresh), INTS(b, batch, channels));

    (void)EMIT(b, copy__default, *running, EMIT(b, mean_dim, x, INTS(b, 0)));
}

/* (input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps): a
 * batch norm of one batch, in which every channel of every batch is a channel. */
void exg_lower_instance_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_dims one = in;
    exg_argument all[5];
    exg_argument vectors[4];
    exg_ref x;

    if (in.rank < 2) {
        exg_lower_refuse(b, "instance_norm of a tensor without channels");
        return;
    }
    one.n[0] = 1;
    one.n[1] = in.n[0] * in.n[1];
    for (uint32_t k = 0; k < 4; k++) {
        exg_ref vector = repeated(b, &args[1 + k], in.n[0]);

        vectors[k] = vector.id == EXG_NO_VALUE ? exg_arg_none() : exg_arg_ref(vector);
    }
    x = exg_lower_shaped(b, SELF, &one);
    if (exg_is_none(&vectors[2])) {
        (void)EMIT_ALL(b, _native_batch_norm_legit_no_stats, all, x, vectors[0], vectors[1],
                       exg_arg_bool(true), args[6], args[7]);
    } else {
        (void)EMIT_ALL(b, _native_batch_norm_legit_functional_default, all, x, vectors[0],
                       vectors[1], vectors[2], vectors[3], args[5], args[6], args[7]);
        if (exg_get_bool(&args[5])) {
            keep(b, &args[3], &all[3], in.n[0], in.n[1]);
            keep(b, &args[4], &all[4], in.n[0], in.n[1]);
        }
    }
    results[0] = exg_arg_ref(exg_lower_shaped(b, exg_get_ref(&all[0]), &in));
}

/* (v, g, dim): v with the length g along every dim but `dim`; -1: as a whole */
void exg_lower_weight_norm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    int64_t dim = exg_get_int(&args[2]);
    int64_t others[EXG_SHAPE_RANK_MAX];
    uint32_t count = 0;
    exg_ref length;

    for (uint32_t d = 0; d < rank; d++) {
        if (dim == -1 || d != (uint32_t)dim) {
            others[count++] = d;
        }
    }
    length = EMIT(b, linalg_vector_norm_default, SELF, 2.0, INTS_OF(b, others, count),
                  exg_arg_bool(true));
    results[0] =
        exg_arg_ref(EMIT(b, mul_Tensor, SELF, EMIT(b, div_Tensor, exg_get_ref(&args[1]), length)));
}
