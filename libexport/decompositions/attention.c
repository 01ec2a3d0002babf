/* attention.c - lowerings of attention.def; the shape is among those of matmul.c. */
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/attention.def"
#include "libexport/operators/rows.h"

/* of what is not seen */
#define NOTHING (-(double)INFINITY)

#define QUERY exg_get_ref(&args[0])
#define KEY   exg_get_ref(&args[1])
#define VALUE exg_get_ref(&args[2])

/* What the operators have in common. */
typedef struct attending {
    exg_ref query, key, value;
    exg_argument mask, scale; /* or None */
    bool is_causal, enable_gqa;
} attending;

/* Each group's keys or values as often as it has heads. */
static exg_ref for_heads(exg_builder *b, const attending *a, exg_ref x)
{
    exg_dims q = exg_lower_dims(b, a->query);
    exg_dims dims = exg_lower_dims(b, x);
    int64_t groups = dims.rank < 3 ? 1 : EXG_END(dims, 3);

    if (!a->enable_gqa || q.rank < 3 || groups <= 0 || EXG_END(q, 3) == groups) {
        return x;
    }
    return EMIT(b, repeat_interleave_self_int, x, exg_arg_int(EXG_END(q, 3) / groups), -3);
}

/* 0 where a query sees a key, else -inf. */
static exg_ref causal(exg_builder *b, int64_t rows, int64_t keys, exg_dtype dtype)
{
    exg_ref unseen = EMIT(b, triu_default,
                          EMIT(b, full_default, INTS(b, rows, keys), 1, DTYPE(EXG_DTYPE_B8)), 1);

    return EMIT(b, masked_fill_Scalar, EMIT(b, full_default, INTS(b, rows, keys), 0, DTYPE(dtype)),
                unseen, NOTHING);
}

static exg_argument scale_of(exg_builder *b, const attending *a)
{
    exg_dims q = exg_lower_dims(b, a->query);

    return exg_is_none(&a->scale) ? exg_arg_float(1 / sqrt((double)EXG_END(q, 1))) : a->scale;
}

/* Query times key, scaled, with what the mask adds: (..., rows, keys), never narrow. */
static exg_ref scores(exg_builder *b, const attending *a)
{
    exg_ref query = exg_lower_wide(b, a->query);
    exg_ref key = exg_lower_wide(b, for_heads(b, a, a->key));
    exg_dims q = exg_lower_dims(b, query);
    exg_dims k = exg_lower_dims(b, key);
    exg_dtype dtype = exg_lower_dtype(b, query);
    exg_ref x;

    if (q.rank < 2 || k.rank < 2) {
        exg_lower_refuse(b, "attention of vectors");
        return EXG_NO_REF;
    }
    x = EMIT(b, matmul_default, query, exg_lower_swapped(b, key, k.rank - 2, k.rank - 1));
    x = EMIT(b, mul_Scalar, x, scale_of(b, a));
    if (a->is_causal) {
        x = EMIT(b, add_Tensor, x, causal(b, EXG_END(q, 2), EXG_END(k, 2), dtype));
    }
    if (exg_lower_given(&a->mask)) {
        exg_ref mask = exg_get_ref(&a->mask);

        x = exg_lower_dtype(b, mask) == EXG_DTYPE_B8
                ? EMIT(b, masked_fill_Scalar, x, EMIT(b, logical_not_default, mask), NOTHING)
                : EMIT(b, add_Tensor, x, exg_lower_cast(b, mask, dtype));
    }
    return x;
}

/* Softmax of the scores; a query that sees nothing weighs nothing. */
static exg_ref weights(exg_builder *b, const attending *a)
{
    return EMIT(b, _safe_softmax_default, scores(b, a), -1);
}

static exg_ref weighted(exg_builder *b, const attending *a, exg_ref by)
{
    exg_ref value = exg_lower_wide(b, for_heads(b, a, a->value));

    return exg_lower_cast(b, EMIT(b, matmul_default, by, value), exg_lower_dtype(b, a->query));
}

static exg_ref attend(exg_builder *b, const attending *a, double dropped)
{
    if (dropped == 0) {
        return EMIT(b, attention, a->query, a->key, a->value, a->mask, a->is_causal, a->scale,
                    a->enable_gqa);
    }
    return weighted(b, a, EMIT(b, dropout_default, weights(b, a), dropped, true));
}

/* (query, key, value, attn_mask?, dropout_p, is_causal, scale?, enable_gqa) */
void exg_lower_scaled_dot_product_attention(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    const attending a = {
        QUERY, KEY, VALUE, args[3], args[6], exg_get_bool(&args[5]), exg_get_bool(&args[7])};

    results[0] = exg_arg_ref(attend(b, &a, exg_get_float(&args[4])));
}

/* (query, key, value, attn_mask?, dropout_p, is_causal, dropout_mask?, scale?, enable_gqa)
 * -> output, weights: less those dropped, and larger for it only where chance dropped them */
void exg_lower_attention_math(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {
        QUERY, KEY, VALUE, args[3], args[7], exg_get_bool(&args[5]), exg_get_bool(&args[8])};
    double dropped = exg_get_float(&args[4]);
    exg_ref given = weights(b, &a);
    exg_ref by = given;

    if (dropped > 0 && exg_lower_given(&args[6])) {
        given = EMIT(b, masked_fill_Scalar, by, EMIT(b, logical_not_default, args[6]), 0);
        by = EMIT(b, mul_Scalar, given, 1 / (1 - dropped));
    } else if (dropped > 0) {
        by = given = EMIT(b, dropout_default, by, dropped, true);
    }
    results[0] = exg_arg_ref(weighted(b, &a, by));
    results[1] = exg_arg_ref(exg_lower_cast(b, given, exg_lower_dtype(b, a.query)));
}

/* In ATen: (query, key, value, attn_mask?, is_causal, scale?, enable_gqa) */
static attending own_arguments(const exg_argument *args)
{
    return (attending){
        QUERY, KEY, VALUE, args[3], args[5], exg_get_bool(&args[4]), exg_get_bool(&args[6])};
}

exg_lowering exg_spell_attention;
exg_lowering exg_spell_attention_of_softmax;

void exg_spell_attention(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = own_arguments(args);

    results[0] = exg_arg_ref(weighted(b, &a, weights(b, &a)));
}

void exg_spell_attention_of_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = own_arguments(args);
    exg_ref by = EMIT(b, _softmax_default, scores(b, &a), -1, false);

    results[0] = exg_arg_ref(weighted(b, &a, by));
}

static bool is_grouped(exg_builder *b, exg_ref query, exg_ref key)
{
    exg_dims q = exg_lower_dims(b, query);
    exg_dims k = exg_lower_dims(b, key);

    return q.rank == 4 && k.rank == 4 && q.n[1] > k.n[1];
}

/* (query, key, value, dropout_p, is_causal, attn_mask?, scale?) -> output, logsumexp */
void exg_lower_flash_attention(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {
        QUERY, KEY, VALUE, args[5], args[6], exg_get_bool(&args[4]), is_grouped(b, QUERY, KEY)};

    results[0] = exg_arg_ref(attend(b, &a, exg_get_float(&args[3])));
    results[1] = exg_arg_ref(EMIT(b, logsumexp_default, scores(b, &a), INTS(b, -1)));
}

/* What the heads of a group got, together. */
static exg_ref of_groups(exg_builder *b, exg_ref x, exg_ref group)
{
    exg_dims heads = exg_lower_dims(b, x);
    exg_dims to = exg_lower_dims(b, group);

    if (heads.rank != 4 || to.rank != 4 || to.n[1] < 1 || heads.n[1] == to.n[1]) {
        return x;
    }
    x = EMIT(b, reshape_default, x,
             INTS(b, to.n[0], to.n[1], heads.n[1] / to.n[1], to.n[2], to.n[3]));
    return EMIT(b, sum_dim_IntList, x, INTS(b, 2));
}

/* With w the weights, the gradient of the scores is w (g value' - sum(g out)); that of query, key,
 * value goes to results, that of what is added to the scores to *of_mask. */
static void go_back(exg_builder *b, const attending *a, exg_ref grad, exg_ref out, double dropped,
                    exg_argument *results, exg_ref *of_mask)
{
    exg_dtype dtype = exg_lower_dtype(b, a->query);
    uint32_t last = exg_lower_dims(b, a->query).rank - 1;
    exg_ref g = exg_lower_wide(b, grad);
    exg_ref w, along, x;

    if (dropped != 0) {
        exg_lower_refuse(b, "gradients of attention that drops weights");
        return;
    }
    w = weights(b, a);
    along = EMIT(b, mul_Tensor, g, exg_lower_wide(b, out));
    along = EMIT(b, sum_dim_IntList, along, INTS(b, -1), exg_arg_bool(true));
    x = EMIT(b, matmul_default, g,
             exg_lower_swapped(b, exg_lower_wide(b, for_heads(b, a, a->value)), last - 1, last));
    *of_mask = EMIT(b, mul_Tensor, w, EMIT(b, sub_Tensor, x, along));
    x = EMIT(b, mul_Scalar, *of_mask, scale_of(b, a));
    results[0] = exg_arg_ref(exg_lower_cast(
        b, EMIT(b, matmul_default, x, exg_lower_wide(b, for_heads(b, a, a->key))), dtype));
    x = exg_lower_swapped(b, x, last - 1, last);
    x = EMIT(b, matmul_default, x, exg_lower_wide(b, a->query));
    results[1] = exg_arg_ref(exg_lower_cast(b, of_groups(b, x, a->key), dtype));
    x = EMIT(b, matmul_default, exg_lower_swapped(b, w, last - 1, last), g);
    results[2] = exg_arg_ref(exg_lower_cast(b, of_groups(b, x, a->value), dtype));
}

/* (grad_out, query, key, value, ...) */
static attending attending_of(const exg_argument *args, exg_argument mask,
                              const exg_argument *causal_too, exg_argument scale)
{
    return (attending){exg_get_ref(&args[1]),
                       exg_get_ref(&args[2]),
                       exg_get_ref(&args[3]),
                       mask,
                       scale,
                       exg_get_bool(causal_too),
                       true};
}

/* (.., out, logsumexp, dropout_p, is_causal, attn_mask?, scale?) -> those of query, key, value */
void exg_lower_flash_attention_backward(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    const attending a = attending_of(args, args[8], &args[7], args[9]);
    exg_ref of_mask;

    go_back(b, &a, exg_get_ref(&args[0]), exg_get_ref(&args[4]), exg_get_float(&args[6]), results,
            &of_mask);
}

/* ---- as PyTorch names them on a GPU --------------------------------------------------------- */

static exg_argument zeros_of(exg_builder *b, exg_argument sizes, exg_dtype dtype)
{
    return exg_arg_ref(EMIT(b, zeros_default, sizes, DTYPE(dtype)));
}

/* Output and logsumexp; of the generator of random numbers, which is the session's, nothing. */
static void on_gpu(exg_builder *b, const attending *a, double dropped, exg_argument *results)
{
    results[0] = exg_arg_ref(attend(b, a, dropped));
    results[1] = exg_arg_ref(EMIT(b, logsumexp_default, scores(b, a), INTS(b, -1)));
}

/* Rows and keys of the scores, as numbers. */
static void lengths(exg_builder *b, const attending *a, exg_argument *results)
{
    results[0] = exg_arg_int(EXG_END(exg_lower_dims(b, a->query), 2));
    results[1] = exg_arg_int(EXG_END(exg_lower_dims(b, a->key), 2));
}

/* (query, key, value, dropout_p, is_causal, return_debug_mask, scale?) -> output, logsumexp,
 * cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused, debug_attn_mask */
void exg_lower_gpu_flash_attention(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {QUERY,
                         KEY,
                         VALUE,
                         exg_arg_none(),
                         args[6],
                         exg_get_bool(&args[4]),
                         is_grouped(b, QUERY, KEY)};

    on_gpu(b, &a, exg_get_float(&args[3]), results);
    results[2] = results[3] = exg_arg_none();
    lengths(b, &a, &results[4]);
    results[6] = zeros_of(b, INTS(b, 2), EXG_DTYPE_U64);
    results[7] = zeros_of(b, exg_arg_ints(b, NULL, 0), EXG_DTYPE_U64);
    results[8] = zeros_of(b, INTS(b, 0), exg_lower_dtype(b, QUERY));
}

/* (query, key, value, attn_bias?, compute_log_sumexp, dropout_p, is_causal, scale?) -> output,
 * logsumexp with a multiple of 32 rows, philox_seed, philox_offset */
void exg_lower_gpu_efficient_attention(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    const attending a = {
        QUERY, KEY, VALUE, args[3], args[7], exg_get_bool(&args[6]), is_grouped(b, QUERY, KEY)};
    exg_argument rows[2];

    on_gpu(b, &a, exg_get_float(&args[5]), results);
    lengths(b, &a, rows);
    results[1] =
        exg_arg_ref(exg_get_bool(&args[4])
                        ? EMIT(b, constant_pad_nd_default, results[1],
                               INTS(b, 0, (32 - exg_get_int(&rows[0]) % 32) % 32), (double)INFINITY)
                        : exg_lower_slice(b, exg_get_ref(&results[1]),
                                          exg_lower_dims(b, QUERY).rank < 2 ? 0 : 2, 0, 0));
    results[2] = results[3] = zeros_of(b, exg_arg_ints(b, NULL, 0), EXG_DTYPE_I64);
}

/* (query, key, value, attn_bias?, compute_log_sumexp, dropout_p, is_causal, return_debug_mask,
 * scale?) -> as flash attention, but logsumexp is a column */
void exg_lower_gpu_cudnn_attention(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {
        QUERY, KEY, VALUE, args[3], args[8], exg_get_bool(&args[6]), is_grouped(b, QUERY, KEY)};

    on_gpu(b, &a, exg_get_float(&args[5]), results);
    results[1] = exg_arg_ref(EMIT(b, unsqueeze_default, results[1], -1));
    results[2] = results[3] = results[8] = exg_arg_none();
    lengths(b, &a, &results[4]);
    results[6] = results[7] = zeros_of(b, exg_arg_ints(b, NULL, 0), EXG_DTYPE_I64);
}

/* (.., out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, philox_seed,
 * philox_offset, scale?) */
void exg_lower_gpu_flash_attention_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    const attending a = attending_of(args, exg_arg_none(), &args[11], args[14]);
    exg_ref of_mask;

    go_back(b, &a, exg_get_ref(&args[0]), exg_get_ref(&args[4]), exg_get_float(&args[10]), results,
            &of_mask);
}

/* (.., attn_bias?, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask,
 * is_causal, scale?) -> and that of attn_bias */
void exg_lower_gpu_efficient_attention_backward(exg_builder *b, const exg_argument *args,
                                                exg_argument *results)
{
    const attending a = attending_of(args, args[4], &args[11], args[12]);
    exg_ref of_mask = EXG_NO_REF;

    go_back(b, &a, exg_get_ref(&args[0]), exg_get_ref(&args[5]), exg_get_float(&args[9]), results,
            &of_mask);
    results[3] = exg_arg_none();
    if (exg_lower_given(&args[4]) && args[10].kind == EXG_ARGUMENT_BOOLS && args[10].count == 4 &&
        args[10].as_bools[3]) {
        exg_dims dims = exg_lower_dims(b, exg_get_ref(&args[4]));

        of_mask = EMIT(b, sum_to_size_default, of_mask, INTS_OF(b, dims.n, dims.rank));
        results[3] =
            exg_arg_ref(exg_lower_cast(b, of_mask, exg_lower_dtype(b, exg_get_ref(&args[4]))));
    }
}

/* (.., out, logsumexp, philox_seed, philox_offset, attn_bias?, cum_seq_q, cum_seq_k, max_q, max_k,
 * dropout_p, is_causal, scale?) */
void exg_lower_gpu_cudnn_attention_backward(exg_builder *b, const exg_argument *args,
                                            exg_argument *results)
{
    const attending a = attending_of(args, args[8], &args[14], args[15]);
    exg_ref of_mask;

    go_back(b, &a, exg_get_ref(&args[0]), exg_get_ref(&args[4]), exg_get_float(&args[13]), results,
            &of_mask);
}

/* ---- softmax of a mask ---------------------------------------------------------------------- */

/* How the mask is beside the scores (B, H, L, keys): 0 (L, keys), 1 (B, keys), 2 as they do. */
static exg_ref beside(exg_builder *b, const exg_argument *mask, const exg_argument *type, exg_ref x)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_dims dims = exg_lower_dims(b, exg_get_ref(mask));

    if (exg_get_int(type) == 1 && in.rank == 4 && dims.rank == 2) {
        return EMIT(b, reshape_default, *mask, INTS(b, dims.n[0], 1, 1, dims.n[1]));
    }
    return exg_get_ref(mask);
}

/* (self, mask of what is not seen, dim?, mask_type?) */
void exg_lower_masked_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument dim = exg_is_none(&args[2]) ? exg_arg_int(-1) : args[2];
    exg_ref unseen = beside(b, &args[1], &args[3], QUERY);
    exg_ref x = EMIT(b, masked_fill_Scalar, QUERY, unseen, NOTHING);

    results[0] = exg_arg_ref(EMIT(b, softmax_int, x, dim));
}

/* (grad_output, output, mask, dim?): what is not seen weighs nothing */
void exg_lower_masked_softmax_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    exg_argument dim = exg_is_none(&args[3]) ? exg_arg_int(-1) : args[3];
    exg_ref g = EMIT(b, masked_fill_Scalar, exg_get_ref(&args[0]), exg_get_ref(&args[2]), 0.);

    g = EMIT(b, _softmax_backward_data_default, g, args[1], dim,
             DTYPE(exg_lower_dtype(b, exg_get_ref(&args[1]))));
    results[0] = exg_arg_ref(EMIT(b, masked_fill_Scalar, g, exg_get_ref(&args[2]), 0.));
}
