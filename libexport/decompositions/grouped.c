/* grouped.c - lowerings of grouped.def. */
#include "libexport/operators/lower.h"

#include <exg/operator_id_new.h>

#define EXG_ROWS "libexport/operators/grouped.def"
#include "libexport/operators/rows.h"

#define ARG(i) exg_get_ref(&args[i])

/* Numbers and how they are scaled: qdata, scale, offset?, zero_point, is_packed, dtype. */
typedef struct groups {
    exg_ref qdata, scale;
    exg_ref offset; /* EXG_NO_REF: none */
    int64_t zero;
    bool is_packed;
    exg_dtype dtype;
} groups;

static groups groups_of(const exg_argument *args, const exg_argument *how)
{
    return (groups){.qdata = ARG(0),
                    .scale = ARG(1),
                    .offset = exg_lower_given(&args[2]) ? ARG(2) : EXG_NO_REF,
                    .zero = exg_get_int(&how[0]),
                    .is_packed = exg_get_bool(&how[1]),
                    .dtype = exg_dtype_argument(&how[2], EXG_DTYPE_F32)};
}

static exg_ref two_a_byte(exg_builder *b, exg_ref bytes)
{
    exg_dims dims = exg_lower_dims(b, bytes);
    exg_ref halves[2];

    halves[0] = EMIT(b, unsqueeze_default, EMIT(b, bitwise_and_Scalar, bytes, 15), -1);
    halves[1] =
        EMIT(b, unsqueeze_default, EMIT(b, bitwise_right_shift_Tensor_Scalar, bytes, 4), -1);
    dims.n[dims.rank - 1] *= 2;
    return exg_lower_shaped(b, EMIT(b, cat_default, exg_arg_refs(b, halves, 2), -1), &dims);
}

/* One a group, (.., groups, 1). */
static exg_ref one_a_group(exg_builder *b, exg_ref x)
{
    return EMIT(b, unsqueeze_default, exg_lower_cast(b, x, EXG_DTYPE_F32), -1);
}

/* (.., columns) as (.., groups, columns of one). */
static bool split_groups(const exg_dims *dims, const exg_dims *of_scale, exg_dims *split)
{
    uint32_t last = dims->rank - 1;

    if (dims->rank != of_scale->rank || of_scale->n[last] < 1 ||
        dims->n[last] % of_scale->n[last] != 0) {
        return false;
    }
    *split = *dims;
    split->n[last] = of_scale->n[last];
    split->n[split->rank++] = dims->n[last] / of_scale->n[last];
    return true;
}

static exg_ref dequantized(exg_builder *b, const groups *g)
{
    exg_dims dims = exg_lower_dims(b, g->qdata);
    exg_dims of_scale = exg_lower_dims(b, g->scale);
    exg_dims split;
    exg_ref x = g->qdata;

    if (dims.rank == 0 || dims.rank != of_scale.rank || dims.rank == EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "scales of other rows than the numbers");
        return EXG_NO_REF;
    }
    x = g->is_packed ? two_a_byte(b, x) : x;
    dims = exg_lower_dims(b, x); /* of none, where that is refused */
    if (!split_groups(&dims, &of_scale, &split)) {
        exg_lower_refuse(b, "a last dim that is no number of whole groups");
        return EXG_NO_REF;
    }
    x = exg_lower_shaped(b, exg_lower_cast(b, x, EXG_DTYPE_F32), &split);
    x = g->zero == 0 ? x : EMIT(b, sub_Scalar, x, g->zero);
    x = EMIT(b, mul_Tensor, x, one_a_group(b, g->scale));
    if (g->offset.id != EXG_NO_REF.id) {
        x = EMIT(b, add_Tensor, x, one_a_group(b, g->offset));
    }
    return exg_lower_cast(b, exg_lower_shaped(b, x, &dims), g->dtype);
}

void exg_lower_dequantize_groups(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    groups g = groups_of(args, &args[3]);

    results[0] = exg_arg_ref(dequantized(b, &g));
}

/* Rows are looked up before they are multiplied out. */
void exg_lower_embedding_groups(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    groups g = groups_of(args, &args[4]);
    exg_ref indices = ARG(3);

    g.qdata = EMIT(b, embedding_default, g.qdata, indices);
    g.scale = EMIT(b, embedding_default, g.scale, indices);
    if (g.offset.id != EXG_NO_REF.id) {
        g.offset = EMIT(b, embedding_default, g.offset, indices);
    }
    results[0] = exg_arg_ref(dequantized(b, &g));
}
