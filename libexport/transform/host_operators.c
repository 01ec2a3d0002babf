/* host_operators.c - what the host computes at once, step by step for a device. */
#include "libexport/transform/host_operators.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/finder.h"

#include <exg/emit.h>
#include <exg/operator_id_new.h>

#define SELF  exg_get_ref(&args[0])
#define OTHER exg_get_ref(&args[1])

/* ---- the largest and the smallest so far ------------------------------------------------------
 */

/* Every element with all before it, in log2(n) steps of twice the reach. */
static exg_ref scanned(exg_builder *b, exg_ref x, uint32_t dim, exg_operator_id with)
{
    exg_dims in = exg_lower_dims(b, x);
    int64_t size = in.rank == 0 ? 1 : in.n[dim];

    for (int64_t reach = 1; reach < size; reach *= 2) {
        exg_argument both[2] = {exg_arg_ref(exg_lower_slice(b, x, dim, 0, size - reach)),
                                exg_arg_ref(exg_lower_slice(b, x, dim, reach, size - reach))};
        exg_ref parts[2] = {exg_lower_slice(b, x, dim, 0, reach), exg_emit(b, with, both, 2)};

        x = EMIT(b, cat_default, exg_arg_refs(b, parts, 2), (int)dim);
    }
    return x;
}

/* (self, dim): values; places of the latest element that is as large */
static void running(exg_builder *b, const exg_argument *args, exg_operator_id with,
                    exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    exg_ref values = scanned(b, SELF, dim, with);
    exg_ref place = exg_lower_steps(b, in.rank == 0 ? 1 : in.n[dim], EXG_DTYPE_I64, dim, in.rank);
    exg_ref own = EMIT(b, eq_Tensor, SELF, values);

    if (exg_dtype_is_float(exg_lower_dtype(b, SELF))) {
        own = EMIT(b, logical_or_default, own, EMIT(b, isnan_default, SELF));
    }
    place = in.rank == 0 ? EMIT(b, view_default, place, exg_arg_ints(b, NULL, 0)) : place;
    place = EMIT(b, where_self, own, place, EMIT(b, zeros_like_default, place));
    results[0] = exg_arg_ref(values.id == SELF.id ? EMIT(b, clone_default, values) : values);
    results[1] = exg_arg_ref(scanned(b, place, dim, EXG_OP_maximum_default));
}

static void part_cummax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    running(b, args, EXG_OP_maximum_default, results);
}

static void part_cummin(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    running(b, args, EXG_OP_minimum_default, results);
}

/* ---- edges ------------------------------------------------------------------------------------
 */

/* `count` places beyond x along `dim`, before it or behind. */
static exg_ref edge(exg_builder *b, exg_ref x, uint32_t dim, int64_t count, bool is_before,
                    int64_t mode)
{
    exg_dims dims = exg_lower_dims(b, x);
    const int64_t size = dims.n[dim];

    if (mode == 1) { /* repeats */
        dims.n[dim] = count;
        x = exg_lower_slice(b, x, dim, is_before ? 0 : size - 1, 1);
        return EMIT(b, expand_default, x, INTS_OF(b, dims.n, dims.rank));
    }
    if (mode == 2) { /* goes on at the other side */
        return exg_lower_slice(b, x, dim, is_before ? size - count : 0, count);
    }
    x = exg_lower_slice(b, x, dim, is_before ? 1 : size - 1 - count, count);
    return EMIT(b, flip_default, x, INTS(b, dim));
}

/* (self, pad, mode): the last dim first */
static void part_edge_pad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t n[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[1], n, 2 * EXG_SHAPE_RANK_MAX) / 2;
    int64_t mode = exg_get_int(&args[2]);
    exg_ref x = SELF;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim = exg_lower_dims(b, x).rank - 1 - i;
        exg_ref parts[3];
        uint32_t found = 0;

        if (n[2 * i] > 0) {
            parts[found++] = edge(b, x, dim, n[2 * i], true, mode);
        }
        parts[found++] = x;
        if (n[2 * i + 1] > 0) {
            parts[found++] = edge(b, x, dim, n[2 * i + 1], false, mode);
        }
        x = found == 1 ? x : EMIT(b, cat_default, exg_arg_refs(b, parts, found), (int)dim);
    }
    results[0] = exg_arg_ref(x.id == SELF.id ? EMIT(b, clone_default, x) : x);
}

/* ---- rows and places ---------------------------------------------------------------------------
 */

/* (table, index, into, by?, bags): past `bags`: left out */
static void part_add_rows(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t bags = exg_get_int(&args[4]);
    exg_ref rows = exg_lower_wide(b, EMIT(b, index_select_default, SELF, 0, OTHER));
    exg_dtype dtype = exg_lower_dtype(b, rows);
    exg_ref into = EMIT(b, clamp_max_default, exg_get_ref(&args[2]), exg_arg_int(bags));
    int64_t width = exg_lower_dims(b, rows).n[1];
    exg_ref out;

    if (exg_lower_given(&args[3])) {
        exg_ref by = exg_lower_cast(b, exg_get_ref(&args[3]), dtype);

        rows = EMIT(b, mul_Tensor, rows, EMIT(b, unsqueeze_default, by, 1));
    }
    out = EMIT(b, full_default, INTS(b, bags + 1, width), 0, DTYPE(dtype));
    out = EMIT(b, index_add_default, out, 0, into, rows);
    results[0] = exg_arg_ref(exg_lower_slice(b, out, 0, 0, bags));
}

/* (x1 [.., P, M], x2 [.., R, M], p) -> [.., P, R] */
static void part_distances(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, sub_Tensor, EMIT(b, unsqueeze_default, SELF, -2),
                     EMIT(b, unsqueeze_default, OTHER, -3));

    results[0] = exg_arg_ref(EMIT(b, linalg_vector_norm_default, x, args[2], INTS(b, -1)));
}

/* (self (N, C, elements), places (N, terms, P), weights (N, terms, P)) -> (N, C, P); -1 has 0 */
static void part_weighted_gather(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    exg_dims places = exg_lower_dims(b, OTHER);
    exg_argument size = INTS(b, in.n[0], in.n[1], places.n[2]);
    exg_ref sum = EMIT(b, full_default, size, 0, DTYPE(exg_lower_dtype(b, SELF)));

    for (int64_t k = 0; k < places.n[1]; k++) {
        exg_ref at = exg_lower_slice(b, OTHER, 1, k, 1);
        exg_ref weight = exg_lower_slice(b, exg_get_ref(&args[2]), 1, k, 1);
        exg_ref outside = EMIT(b, lt_Scalar, at, 0);
        exg_ref taken = EMIT(b, expand_default, EMIT(b, clamp_min_default, at, 0), size);

        taken = EMIT(b, gather_default, SELF, 2, taken);
        taken = EMIT(b, masked_fill_Scalar, taken, outside, 0);
        sum = EMIT(b, add_Tensor, sum, EMIT(b, mul_Tensor, taken, weight));
    }
    results[0] = exg_arg_ref(sum);
}

exg_lowering exg_spell_resample;

/* ---- all ---------------------------------------------------------------------------------------
 */

static const struct {
    exg_operator_id op;
    void (*write)(exg_builder *b, const exg_argument *args, exg_argument *results);
} rows[] = {
    {EXG_OP_cummax_default, part_cummax},  {EXG_OP_cummin_default, part_cummin},
    {EXG_OP_edge_pad, part_edge_pad},      {EXG_OP_add_rows, part_add_rows},
    {EXG_OP_distances, part_distances},    {EXG_OP_weighted_gather, part_weighted_gather},
    {EXG_OP_resample, exg_spell_resample},
};

static exg_status part(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_argument results[EXG_RESULTS_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !*written; i++) {
        if (rows[i].op == op->id) {
            EXG_TRY(exg_rewrite_args(&f->r, node, &op, args));
            exg_builder_set_lowering(f->r.builder, true);
            rows[i].write(f->r.builder, args, results);
            exg_builder_set_lowering(f->r.builder, false);
            exg_rewrite_set(&f->r, node, results);
            *written = true;
        }
    }
    return exg_builder_status(f->r.builder);
}

exg_status exg_part_host_operators(const exg_program *functional, const exg_operators *operators,
                                   exg_program **parted, exg_error *err)
{
    return exg_find(functional, operators, part, parted, err);
}
