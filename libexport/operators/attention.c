/* attention.c - lowerings of attention.def; the shape is among those of matmul.c. */
#include "libexport/operators/lower.h"

#include <math.h>

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

    return EMIT(b, masked_fill_Scalar,
                EMIT(b, full_default, INTS(b, rows, keys), 0, DTYPE(dtype)), unseen, NOTHING);
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
    const attending a = {QUERY, KEY, VALUE, args[3], args[6], exg_get_bool(&args[5]),
                         exg_get_bool(&args[7])};

    results[0] = exg_arg_ref(attend(b, &a, exg_get_float(&args[4])));
}

/* (query, key, value, attn_mask?, dropout_p, is_causal, dropout_mask?, scale?, enable_gqa)
 * -> output, weights: less those dropped, and larger for it only where chance dropped them */
void exg_lower_attention_math(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {QUERY, KEY, VALUE, args[3], args[7], exg_get_bool(&args[5]),
                         exg_get_bool(&args[8])};
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

static bool is_grouped(exg_builder *b, exg_ref query, exg_ref key)
{
    exg_dims q = exg_lower_dims(b, query);
    exg_dims k = exg_lower_dims(b, key);

    return q.rank == 4 && k.rank == 4 && q.n[1] > k.n[1];
}

/* (query, key, value, dropout_p, is_causal, attn_mask?, scale?) -> output, logsumexp */
void exg_lower_flash_attention(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const attending a = {QUERY,   KEY,     VALUE,
                         args[5], args[6], exg_get_bool(&args[4]),
                         is_grouped(b, QUERY, KEY)};

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

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask?, scale?)
 * -> those of query, key and value. With w the weights, that of the scores is
 * w (g value' - sum(g out)). */
void exg_lower_flash_attention_backward(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    const attending a = {exg_get_ref(&args[1]), exg_get_ref(&args[2]), exg_get_ref(&args[3]),
                         args[8], args[9], exg_get_bool(&args[7]), true};
    exg_dtype dtype = exg_lower_dtype(b, a.query);
    uint32_t last = exg_lower_dims(b, a.query).rank - 1;
    exg_ref g = exg_lower_wide(b, exg_get_ref(&args[0]));
    exg_ref out = exg_lower_wide(b, exg_get_ref(&args[4]));
    exg_ref w, along, x;

    if (exg_get_float(&args[6]) != 0) {
        exg_lower_refuse(b, "gradients of attention that drops weights");
        return;
    }
    w = weights(b, &a);
    along = EMIT(b, sum_dim_IntList, EMIT(b, mul_Tensor, g, out), INTS(b, -1), exg_arg_bool(true));
    x = EMIT(b, matmul_default, g,
             exg_lower_swapped(b, exg_lower_wide(b, for_heads(b, &a, a.value)), last - 1, last));
    x = EMIT(b, mul_Tensor, w, EMIT(b, sub_Tensor, x, along));
    x = EMIT(b, mul_Scalar, x, scale_of(b, &a));
    results[0] = exg_arg_ref(exg_lower_cast(
        b, EMIT(b, matmul_default, x, exg_lower_wide(b, for_heads(b, &a, a.key))), dtype));
    x = exg_lower_swapped(b, x, last - 1, last);
    x = EMIT(b, matmul_default, x, exg_lower_wide(b, a.query));
    results[1] = exg_arg_ref(exg_lower_cast(b, of_groups(b, x, a.key), dtype));
    x = EMIT(b, matmul_default, exg_lower_swapped(b, w, last - 1, last), g);
    results[2] = exg_arg_ref(exg_lower_cast(b, of_groups(b, x, a.value), dtype));
}
