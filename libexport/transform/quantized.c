/* quantized.c - a product, or a convolution, of dequantized bytes is one of bytes:
 *
 *   y = sum (a - p) s (b - q) t = s t (sum a b - p sum b - q (sum a - k p))
 *
 * a (rows, k) of int8 or uint8 with a scale s and a zero point p, each a number or one a row;
 * b (n, k) with t and q, each a number or one a column of y. The sum of a b is exact, in int32;
 * what depends on weights alone is worked out once. PyTorch writes it as a linear of two
 * dequantize operators, in f32: weights of four bytes an element, which are not made here.
 *
 * A convolution's input has one scale and zero point, its weight each a number or one a filter.
 */
#include "libexport/transform/quantized.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/finder.h"

#include <math.h>

#define DEPTH_MAX 32768 /* 255 * 255 of so many fit an int32 */

/* (bytes - zero) * scale; `scale` and `zero` are numbers or tensors, zero may be NONE. */
typedef struct grid {
    exg_value_id bytes;
    exg_argument scale, zero;
} grid;

typedef struct product {
    grid a, b;
    const exg_argument *bias; /* or NULL */
} product;

/* ---- what stands where ---------------------------------------------------------------------- */

static bool is_real(const exg_finder *f, exg_value_id id)
{
    return id != EXG_NO_VALUE && exg_meta_of(f, id)->dtype == EXG_DTYPE_F32;
}

static int64_t numel(const exg_tensor_meta *t)
{
    int64_t count = 0;

    return exg_tensor_meta_numel(t, &count) ? count : 0;
}

/* One number, or a tensor of one, or of one an element of the first `dims` dims of `of`. */
static bool fits(const exg_finder *f, const exg_argument *arg, exg_value_id of, uint32_t dims)
{
    const exg_tensor_meta *elements = exg_meta_of(f, of);
    const exg_tensor_meta *t;
    double number;

    if (arg->kind != EXG_ARGUMENT_TENSOR) {
        return exg_number_of(arg, &number) && isfinite(number);
    }
    t = exg_meta_of(f, arg->as_tensor);
    if (numel(t) == 1) {
        return true;
    }
    for (uint32_t d = 0; d < elements->rank && t->rank == elements->rank; d++) {
        if (t->sizes[d].value != (d < dims ? elements->sizes[d].value : 1)) {
            return false;
        }
    }
    return t->rank == elements->rank;
}

/* If `id` is `by_number` or `by_tensor` of something of its sizes in f32: that, and the other
 * operand. */
static exg_value_id taken_off(const exg_finder *f, exg_value_id id, uint32_t dims,
                              exg_operator_id by_number, exg_operator_id by_tensor,
                              exg_argument *other)
{
    const exg_node *node = exg_made_by(f, id, by_number);
    exg_value_id from;
    double alpha = 1;

    node = node != NULL ? node : exg_made_by(f, id, by_tensor);
    from = exg_operand(node, 0);
    if (!is_real(f, from) || node->input_count < 2 ||
        (node->input_count > 2 && (!exg_number_of(&node->inputs[2].arg, &alpha) || alpha != 1)) ||
        numel(exg_meta_of(f, from)) != numel(exg_meta_of(f, id))) {
        return EXG_NO_VALUE;
    }
    *other = node->inputs[1].arg;
    return fits(f, other, from, dims) ? from : EXG_NO_VALUE;
}

/* Of one step and zero point an element of the first `dims` dims, or fewer. */
static bool match_grid(const exg_finder *f, exg_value_id id, uint32_t dims, grid *g)
{
    exg_value_id steps;
    exg_value_id whole;
    exg_dtype dtype;

    g->zero = exg_arg_none();
    if (!is_real(f, id)) {
        return false;
    }
    steps = taken_off(f, id, dims, EXG_OP_mul_Scalar, EXG_OP_mul_Tensor, &g->scale);
    if (steps == EXG_NO_VALUE) {
        return false;
    }
    whole = taken_off(f, steps, dims, EXG_OP_sub_Scalar, EXG_OP_sub_Tensor, &g->zero);
    if (whole == EXG_NO_VALUE) {
        g->zero = exg_arg_none();
        whole = steps;
    }
    g->bytes = exg_operand(exg_made_by(f, whole, EXG_OP__to_copy_default), 0);
    if (g->bytes == EXG_NO_VALUE) {
        return false;
    }
    dtype = exg_meta_of(f, g->bytes)->dtype;
    return dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_U8;
}

static uint32_t rows_of(const exg_finder *f, exg_value_id id)
{
    uint32_t rank = exg_meta_of(f, id)->rank;

    return rank > 0 ? rank - 1 : 0;
}

static bool is_given(const exg_argument *zero)
{
    double number = 1;

    return !exg_is_none(zero) && !(exg_number_of(zero, &number) && number == 0);
}

/* A number on the grid, as they are: products by it stay exact. */
static bool is_step(const exg_argument *zero, int64_t *step)
{
    double number = 0.5;

    if (!exg_number_of(zero, &number) || number != rint(number) || fabs(number) > 256) {
        return false;
    }
    *step = (int64_t)number;
    return true;
}

/* What a matrix is the transpose of. */
static exg_value_id transposed(const exg_finder *f, exg_value_id id)
{
    const exg_node *node = exg_made_by(f, id, EXG_OP_permute_default);
    int64_t dims[2] = {0, 0};

    return node != NULL && exg_get_ints(&node->inputs[1].arg, dims, 2) == 2 && dims[0] == 1
               ? exg_operand(node, 0)
               : EXG_NO_VALUE;
}

/* What rows are a view of, side by side in other dims. */
static exg_value_id regrouped(const exg_finder *f, exg_value_id id)
{
    exg_value_id from = exg_operand(exg_made_by(f, id, EXG_OP_view_default), 0);
    const exg_tensor_meta *a;
    const exg_tensor_meta *b;

    if (from == EXG_NO_VALUE) {
        return id;
    }
    a = exg_meta_of(f, id);
    b = exg_meta_of(f, from);
    return a->rank > 0 && b->rank > 0 && a->sizes[a->rank - 1].value == b->sizes[b->rank - 1].value
               ? from
               : id;
}

static bool is_vector(const exg_finder *f, const exg_argument *arg, int64_t count)
{
    const exg_tensor_meta *t =
        arg->kind == EXG_ARGUMENT_TENSOR ? exg_meta_of(f, arg->as_tensor) : NULL;

    return t != NULL && t->rank == 1 && t->sizes[0].value == count && t->dtype == EXG_DTYPE_F32;
}

/* Is it `op` of two grids? The operands' places, and how b lies, are the operator's. */
static bool match(const exg_finder *f, const exg_node *node, exg_operator_id op, product *p)
{
    const uint32_t first = op == EXG_OP_addmm_default ? 1 : 0;
    exg_value_id a = exg_operand(node, first);
    exg_value_id b = exg_operand(node, first + 1);
    const exg_tensor_meta *rows;
    const exg_tensor_meta *columns;

    p->bias = NULL;
    a = regrouped(f, a);
    b = op == EXG_OP_linear_default ? b : transposed(f, b);
    if (!is_real(f, a) || !is_real(f, b) || exg_meta_of(f, b)->rank != 2 ||
        !match_grid(f, a, rows_of(f, a), &p->a) || !match_grid(f, b, 1, &p->b)) {
        return false;
    }
    rows = exg_meta_of(f, a);
    columns = exg_meta_of(f, b);
    if (op == EXG_OP_addmm_default) {
        double beta = 1;
        double alpha = 1;

        p->bias = &node->inputs[0].arg;
        if ((node->input_count > 3 && !exg_number_of(&node->inputs[3].arg, &beta)) ||
            (node->input_count > 4 && !exg_number_of(&node->inputs[4].arg, &alpha)) || beta != 1 ||
            alpha != 1) {
            return false;
        }
    } else if (op == EXG_OP_linear_default && node->input_count > 2 &&
               node->inputs[2].arg.kind == EXG_ARGUMENT_TENSOR) {
        p->bias = &node->inputs[2].arg;
    }
    return rows->rank >= 2 && rows->sizes[rows->rank - 1].value <= DEPTH_MAX && numel(rows) > 0 &&
           numel(columns) > 0 &&
           (p->bias == NULL || is_vector(f, p->bias, columns->sizes[0].value));
}

/* No zero point, or one of the dtype's whole numbers. */
static bool is_of(const exg_argument *zero, exg_dtype dtype)
{
    const int64_t low = dtype == EXG_DTYPE_I8 ? -128 : 0;
    int64_t step;

    return !is_given(zero) || (is_step(zero, &step) && step >= low && step < low + 256);
}

/* Whole numbers, one or one a filter. */
static bool are_steps(const exg_finder *f, const exg_argument *zeros)
{
    int64_t step;

    return !is_given(zeros) || is_step(zeros, &step) ||
           (zeros->kind == EXG_ARGUMENT_TENSOR &&
            exg_dtype_is_integral(exg_meta_of(f, zeros->as_tensor)->dtype));
}

static bool match_convolution(const exg_finder *f, const exg_node *node, product *p)
{
    exg_value_id x = exg_operand(node, 0);
    exg_value_id w = exg_operand(node, 1);
    const exg_tensor_meta *weight;
    int64_t filters;

    if (!match_grid(f, x, 0, &p->a) || !match_grid(f, w, 1, &p->b) || node->input_count != 9 ||
        exg_get_bool(&node->inputs[6].arg)) {
        return false;
    }
    weight = exg_meta_of(f, w);
    filters = weight->sizes[0].value;
    p->bias = node->inputs[2].arg.kind == EXG_ARGUMENT_TENSOR ? &node->inputs[2].arg : NULL;
    return numel(exg_meta_of(f, x)) > 0 && numel(weight) > 0 && weight->rank <= 5 &&
           numel(weight) / filters <= DEPTH_MAX && are_steps(f, &p->b.zero) &&
           is_of(&p->a.zero, exg_meta_of(f, p->a.bytes)->dtype) &&
           (p->bias == NULL || is_vector(f, p->bias, filters));
}

/* ---- writing it ----------------------------------------------------------------------------- */

/* x times a scale or zero point that is one number, or the elements of a tensor. */
static exg_ref times(exg_builder *b, exg_ref x, const exg_argument *factor, const exg_ref *refs,
                     exg_argument sizes)
{
    exg_ref elements;

    if (factor->kind != EXG_ARGUMENT_TENSOR) {
        return EMIT(b, mul_Scalar, x, *factor);
    }
    elements = exg_lower_cast(b, refs[factor->as_tensor], EXG_DTYPE_F32);
    return EMIT(b, mul_Tensor, x,
                exg_lower_numel(b, elements) == 1 ? EMIT(b, reshape_default, elements, INTS(b, 1))
                                                  : EMIT(b, reshape_default, elements, sizes));
}

/* The sums of a matrix of bytes along its second dim: exact in f32 too, they are below 2^24. */
static exg_ref sums_of(exg_builder *b, exg_ref bytes, bool keeps, exg_dtype dtype)
{
    return EMIT(b, sum_dim_IntList, bytes, INTS(b, 1), exg_arg_bool(keeps), DTYPE(dtype));
}

static exg_status write_product(exg_finder *f, const exg_node *node, const product *p)
{
    exg_builder *b = f->r.builder;
    const exg_ref *refs = f->r.refs;
    exg_ref weight = refs[p->b.bytes];
    const exg_tensor_meta *meta = exg_meta_of(f, p->a.bytes);
    const int64_t k = meta->sizes[meta->rank - 1].value;
    exg_ref rows = EMIT(b, reshape_default, refs[p->a.bytes], INTS(b, numel(meta) / k, k));
    exg_argument down = INTS(b, numel(meta) / k, 1);
    exg_argument across = INTS(b, exg_meta_of(f, p->b.bytes)->sizes[0].value);
    exg_ref y = EMIT(b, product_of_bytes, rows, EMIT(b, permute_default, weight, INTS(b, 1, 0)));
    int64_t step;

    if (is_given(&p->a.zero) && is_step(&p->a.zero, &step)) {
        y = EMIT(b, sub_Tensor, y,
                 EMIT(b, mul_Scalar, sums_of(b, weight, false, EXG_DTYPE_I32), exg_arg_int(step)));
        y = exg_lower_cast(b, y, EXG_DTYPE_F32);
    } else if (is_given(&p->a.zero)) {
        y = EMIT(b, sub_Tensor, exg_lower_cast(b, y, EXG_DTYPE_F32),
                 times(b, sums_of(b, weight, false, EXG_DTYPE_F32), &p->a.zero, refs, down));
    } else {
        y = exg_lower_cast(b, y, EXG_DTYPE_F32);
    }
    if (is_given(&p->b.zero)) {
        exg_ref sums = sums_of(b, rows, true, EXG_DTYPE_F32);

        if (is_given(&p->a.zero)) {
            exg_ref depth =
                EMIT(b, full_default, INTS(b, 1), exg_arg_float((double)k), DTYPE(EXG_DTYPE_F32));

            sums = EMIT(b, sub_Tensor, sums, times(b, depth, &p->a.zero, refs, down));
        }
        y = EMIT(b, sub_Tensor, y, times(b, sums, &p->b.zero, refs, across));
    }
    y = times(b, y, &p->b.scale, refs, across);
    y = times(b, y, &p->a.scale, refs, down);
    if (p->bias != NULL) {
        y = EMIT(b, add_Tensor, y, refs[p->bias->as_tensor]);
    }
    return exg_finder_set(f, node, y);
}

/* One int32 a filter. */
static exg_argument zeros_of(exg_builder *b, const exg_argument *zeros, const exg_ref *refs,
                             int64_t filters)
{
    exg_ref all;

    if (!is_given(zeros)) {
        return exg_arg_none();
    }
    all = zeros->kind == EXG_ARGUMENT_TENSOR
              ? exg_lower_cast(b, refs[zeros->as_tensor], EXG_DTYPE_I32)
              : EMIT(b, full_default, INTS(b, 1), *zeros, DTYPE(EXG_DTYPE_I32));
    all = EMIT(b, reshape_default, all, INTS(b, exg_lower_numel(b, all)));
    return exg_arg_ref(EMIT(b, expand_default, all, INTS(b, filters)));
}

static exg_status write_convolution(exg_finder *f, const exg_node *node, const product *p)
{
    exg_builder *b = f->r.builder;
    const exg_ref *refs = f->r.refs;
    exg_ref weight = refs[p->b.bytes];
    exg_dims dims = exg_lower_dims(b, weight);
    const int64_t filters = dims.n[0];
    exg_argument args[11] = {exg_arg_ref(refs[p->a.bytes]), exg_arg_ref(weight), exg_arg_none()};
    exg_argument across;
    int64_t step = 0;
    exg_ref y;

    for (uint32_t d = 1; d < dims.rank; d++) {
        dims.n[d - 1] = 1;
    }
    dims.n[0] = filters;
    across = INTS_OF(b, dims.n, dims.rank - 1);
    if (is_given(&p->a.zero) && is_step(&p->a.zero, &step)) {
        y = EMIT(b, reshape_default, weight, INTS(b, filters, -1));
        y = EMIT(b, mul_Scalar, sums_of(b, y, false, EXG_DTYPE_I32), exg_arg_int(-step));
        args[2] = exg_arg_ref(y);
    }
    for (uint32_t i = 3; i < 9; i++) {
        args[i] = node->inputs[i].arg;
    }
    args[9] = exg_arg_int(step);
    args[10] = zeros_of(b, &p->b.zero, refs, filters);
    y = exg_lower_cast(b, exg_emit(b, EXG_OP_convolution_of_bytes, args, 11), EXG_DTYPE_F32);
    y = times(b, y, &p->b.scale, refs, across);
    y = times(b, y, &p->a.scale, refs, across);
    if (p->bias != NULL) {
        y = EMIT(b, add_Tensor, y, EMIT(b, reshape_default, refs[p->bias->as_tensor], across));
    }
    return exg_finder_set(f, node, y);
}

static exg_status write(exg_finder *f, const exg_node *node, const exg_operator *op, bool *written)
{
    product p;

    *written = (op->id == EXG_OP_convolution_default && match_convolution(f, node, &p)) ||
               ((op->id == EXG_OP_linear_default || op->id == EXG_OP_mm_default ||
                 op->id == EXG_OP_addmm_default) &&
                match(f, node, op->id, &p));
    if (!*written) {
        return EXG_OK;
    }
    return op->id == EXG_OP_convolution_default ? write_convolution(f, node, &p)
                                                : write_product(f, node, &p);
}

exg_status exg_find_quantized(const exg_program *functional, const exg_operators *operators,
                              exg_program **out, exg_error *err)
{
    return exg_find(functional, operators, write, out, err);
}
