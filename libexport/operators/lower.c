/* lower.c - see lower.h. */
#include "libexport/operators/lower.h"

#include <inttypes.h>

#include <math.h>

exg_dims exg_lower_dims(const exg_builder *b, exg_ref x)
{
    exg_dims dims = {.rank = 0};
    const exg_tensor_meta *meta = exg_ref_meta(b, x);

    if (meta != NULL) {
        (void)exg_dims_of(meta, &dims, NULL);
    }
    return dims;
}

exg_dtype exg_lower_dtype(const exg_builder *b, exg_ref x)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);

    return meta == NULL ? EXG_DTYPE_F32 : meta->dtype;
}

int64_t exg_lower_numel(const exg_builder *b, exg_ref x)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    int64_t numel = 0;

    return meta != NULL && exg_tensor_meta_numel(meta, &numel) ? numel : 0;
}

bool exg_lower_is_contiguous(exg_builder *b, exg_ref x)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, x);
    exg_strided s = {0};
    int64_t expected = 1;
    exg_error err;

    if (exg_lower_numel(b, x) == 0) {
        return true;
    }
    if (exg_strided_of(meta, &s, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
    }
    for (uint32_t i = s.rank; i-- > 0;) {
        if (s.sizes[i] != 1 && s.strides[i] != expected) {
            return false;
        }
        expected *= s.sizes[i];
    }
    return true;
}

exg_ref exg_lower_row_major(exg_builder *b, exg_ref x)
{
    return EMIT(b, clone_default, x,
                ((exg_argument){.kind = EXG_ARGUMENT_MEMORY_FORMAT,
                                .as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS}));
}

uint32_t exg_lower_dim(exg_builder *b, int64_t dim, uint32_t rank)
{
    uint32_t wrapped = 0;
    exg_error err;

    if (exg_wrap_dim(dim, rank, &wrapped, &err) != EXG_OK) {
        exg_builder_fail(b, &err);
        return 0;
    }
    return wrapped;
}

void exg_lower_unsupported(exg_builder *b, const char *what)
{
    exg_error err;

    (void)EXG_FAIL(&err, UNSUPPORTED, "OPR-002", "%s", what);
    exg_builder_fail(b, &err);
}

void exg_lower_refuse(exg_builder *b, const char *what)
{
    exg_error err;

    (void)EXG_SHAPE_FAIL(&err, "%s", what);
    exg_builder_fail(b, &err);
}

exg_ref exg_lower_cast(exg_builder *b, exg_ref x, exg_dtype dtype)
{
    return exg_lower_dtype(b, x) == dtype ? x : EMIT(b, _to_copy_default, x, DTYPE(dtype));
}

exg_ref exg_lower_wide(exg_builder *b, exg_ref x)
{
    exg_dtype dtype = exg_lower_dtype(b, x);

    return exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) < 4
               ? exg_lower_cast(b, x, EXG_DTYPE_F32)
               : x;
}

exg_ref exg_lower_slice(exg_builder *b, exg_ref x, uint32_t dim, int64_t start, int64_t count)
{
    return EMIT(b, slice_Tensor, x, (int)dim, exg_arg_int(start), exg_arg_int(start + count));
}

exg_ref exg_lower_shaped(exg_builder *b, exg_ref x, const exg_dims *dims)
{
    return EMIT(b, reshape_default, x, INTS_OF(b, dims->n, dims->rank));
}

exg_ref exg_lower_flat(exg_builder *b, exg_ref x)
{
    return EMIT(b, reshape_default, x, INTS(b, exg_lower_numel(b, x)));
}

exg_ref exg_lower_swapped(exg_builder *b, exg_ref x, uint32_t dim0, uint32_t dim1)
{
    return EMIT(b, transpose_int, x, (int)dim0, (int)dim1);
}

exg_ref exg_lower_added(exg_builder *b, exg_ref g, uint32_t dim, int64_t size, exg_ref index)
{
    exg_dims dims = exg_lower_dims(b, g);
    exg_ref zeros;

    dims.n[dim] = size;
    zeros = EMIT(b, full_default, INTS_OF(b, dims.n, dims.rank), 0, DTYPE(exg_lower_dtype(b, g)));
    return EMIT(b, index_add_default, zeros, (int)dim, index, g);
}

exg_ref exg_lower_steps(exg_builder *b, int64_t count, exg_dtype dtype, uint32_t dim, uint32_t rank)
{
    exg_ref steps = EMIT(b, arange_start_step, 0, exg_arg_int(count), 1, DTYPE(dtype));

    return rank <= 1 ? steps : exg_lower_along(b, steps, dim, rank);
}

exg_ref exg_lower_along(exg_builder *b, exg_ref vector, uint32_t dim, uint32_t rank)
{
    exg_dims dims = {.rank = rank};

    for (uint32_t d = 0; d < rank; d++) {
        dims.n[d] = d == dim ? exg_lower_numel(b, vector) : 1;
    }
    return exg_lower_shaped(b, vector, &dims);
}

exg_ref exg_lower_from_start(exg_builder *b, exg_ref index, int64_t size)
{
    index = exg_lower_cast(b, index, EXG_DTYPE_I64);
    return EMIT(b, where_self, EMIT(b, lt_Scalar, index, 0),
                EMIT(b, add_Scalar, index, exg_arg_int(size)), index);
}

void exg_lower_parts(exg_builder *b, int64_t in, int64_t out, exg_ref *start, exg_ref *end)
{
    exg_ref i = exg_lower_steps(b, out, EXG_DTYPE_I64, 0, 2);

    *start = EMIT(b, div_floor_Scalar, EMIT(b, mul_Scalar, i, exg_arg_int(in)), exg_arg_int(out));
    *end = EMIT(b, mul_Scalar, EMIT(b, add_Scalar, i, 1), exg_arg_int(in));
    *end = EMIT(b, div_floor_Scalar, EMIT(b, add_Scalar, *end, exg_arg_int(out - 1)),
                exg_arg_int(out));
}

exg_ref exg_lower_checked(exg_builder *b, exg_ref x, exg_ref holds, const char *claim)
{
    return EMIT(b, checked, x, holds, exg_arg_string(claim));
}

exg_ref exg_lower_number(exg_builder *b, double value, exg_dtype dtype)
{
    return EMIT(b, scalar_tensor_default, value, DTYPE(dtype));
}

exg_ref exg_lower_wrapped(exg_builder *b, const exg_argument *number, exg_dtype dtype)
{
    exg_dtype own = number->kind == EXG_ARGUMENT_FLOAT  ? EXG_DTYPE_F64
                    : number->kind == EXG_ARGUMENT_BOOL ? EXG_DTYPE_B8
                                                        : EXG_DTYPE_I64;

    return exg_lower_cast(b, EMIT(b, scalar_tensor_default, *number, DTYPE(own)), dtype);
}

/* The dtype of a number that need not be of the values of `beside`, the dtype of the tensor it
 * stands beside. An integer takes part in the computation as it is (uint8 / -1), as long as the
 * other tensor's dims keep the result in their dtype, and then its low bits are left. */
static exg_dtype dtype_of(exg_argument_kind kind, exg_dtype beside, bool has_dims)
{
    exg_dtype dtype = exg_number_dtype(kind, beside);

    return has_dims && exg_dtype_is_integral(dtype) && dtype != EXG_DTYPE_B8 ? EXG_DTYPE_I64
                                                                             : dtype;
}

static exg_ref number_tensor(exg_builder *b, const exg_argument *number, exg_dtype beside,
                             bool has_dims)
{
    exg_dtype dtype = exg_number_dtype(number->kind, beside);

    return exg_keeps_value(dtype, number)
               ? EMIT(b, full_default, exg_arg_ints(b, NULL, 0), *number, DTYPE(dtype))
               : exg_lower_wrapped(b, number, dtype_of(number->kind, beside, has_dims));
}

void exg_lower_wrap_numbers(exg_builder *b, const exg_operator *op, exg_argument *args,
                            const exg_argument_kind *scalar_reads, bool is_product)
{
    exg_dtype beside = EXG_DTYPE_B8; /* where all are numbers, each has its own dtype */
    bool has_dims = false;

    for (uint32_t i = op->schema->argument_count; i-- > 0;) {
        if (args[i].kind == EXG_ARGUMENT_TENSOR &&
            (scalar_reads == NULL || scalar_reads[i] == EXG_ARGUMENT_NONE)) {
            const exg_tensor_meta *meta = exg_ref_meta(b, exg_get_ref(&args[i]));

            beside = meta != NULL ? meta->dtype : beside;
            has_dims = meta != NULL && meta->rank > 0;
        }
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        bool number = args[i].kind == EXG_ARGUMENT_INT || args[i].kind == EXG_ARGUMENT_FLOAT ||
                      args[i].kind == EXG_ARGUMENT_BOOL || args[i].kind == EXG_ARGUMENT_COMPLEX;

        if (number && op->schema->arguments[i].type.base == EXG_TYPE_TENSOR) {
            args[i] = exg_arg_ref(number_tensor(b, &args[i], beside, has_dims));
        } else if (scalar_reads != NULL && scalar_reads[i] != EXG_ARGUMENT_NONE) {
            exg_dtype dtype = is_product && has_dims ? EXG_DTYPE_F32
                                                     : dtype_of(scalar_reads[i], beside, has_dims);

            args[i] = exg_arg_ref(EMIT(b, _to_copy_default, args[i], DTYPE(dtype)));
        }
    }
}

/* Of operators that multiply or divide: the one that takes the second operand as a number. */
static const struct {
    exg_operator_id id, by_number;
} products[] = {
#define ROW(id, by_number)                                                                         \
    {                                                                                              \
        EXG_OP_##id, EXG_OP_##by_number                                                            \
    }
    ROW(mul_Tensor, mul_Scalar),
    ROW(mul__Tensor, mul__Scalar),
    ROW(mul_out, mul_Scalar_out),
    ROW(multiply_Tensor, multiply_Scalar),
    ROW(multiply__Tensor, multiply__Scalar),
    ROW(multiply_out, mul_Scalar_out),
    ROW(div_Tensor, div_Scalar),
    ROW(div__Tensor, div__Scalar),
    ROW(div_out, div_Scalar_out),
    ROW(div_Tensor_mode, div_Scalar_mode),
    ROW(div__Tensor_mode, div__Scalar_mode),
    ROW(div_out_mode, div_Scalar_mode_out),
    ROW(divide_Tensor, divide_Scalar),
    ROW(divide__Tensor, divide__Scalar),
    ROW(divide_out, div_Scalar_out),
    ROW(divide_Tensor_mode, divide_Scalar_mode),
    ROW(divide__Tensor_mode, divide__Scalar_mode),
    ROW(divide_out_mode, div_Scalar_mode_out),
    ROW(true_divide_Tensor, true_divide_Scalar),
    ROW(true_divide__Tensor, true_divide__Scalar),
    ROW(true_divide_out, div_Scalar_out),
    ROW(floor_divide_default, floor_divide_Scalar),
    ROW(floor_divide__Tensor, floor_divide__Scalar),
    ROW(floor_divide_out, floor_divide_Scalar_out),
#undef ROW
};

exg_operator_id exg_lower_product_by_number(const exg_builder *b, exg_operator_id id,
                                            const exg_argument *args)
{
    const exg_tensor_meta *meta = NULL;

    if (args[0].kind == EXG_ARGUMENT_TENSOR) {
        meta = exg_ref_meta(b, exg_get_ref(&args[0]));
    }
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        if (products[i].id == id && meta != NULL &&
            (meta->dtype == EXG_DTYPE_F16 || meta->dtype == EXG_DTYPE_BF16)) {
            return products[i].by_number;
        }
    }
    return EXG_OP_NONE;
}

bool exg_lower_numbers(exg_builder *b, const exg_operator **op, exg_argument *args)
{
    const exg_operator *of = *op;

    for (uint32_t i = 0; i < of->schema->argument_count; i++) {
        bool number = args[i].kind == EXG_ARGUMENT_INT || args[i].kind == EXG_ARGUMENT_FLOAT ||
                      args[i].kind == EXG_ARGUMENT_BOOL || args[i].kind == EXG_ARGUMENT_COMPLEX;
        exg_operator_id by_number = EXG_OP_NONE;

        if (!number || of->schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            continue;
        }
        if (i == 1 && args[i].kind != EXG_ARGUMENT_COMPLEX) {
            by_number = exg_lower_product_by_number(b, of->id, args);
        }
        if (by_number != EXG_OP_NONE) {
            *op = exg_operators_get(exg_builder_operators(b), by_number);
        } else {
            exg_lower_wrap_numbers(b, of, args, NULL, false);
        }
        return true;
    }
    return false;
}

exg_argument exg_lower_least(exg_dtype dtype)
{
    uint32_t bits = 8 * exg_dtype_bytes(dtype);
    bool is_signed = dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_I16 || dtype == EXG_DTYPE_I32 ||
                     dtype == EXG_DTYPE_I64;

    return exg_dtype_is_float(dtype) ? exg_arg_float(-(double)INFINITY)
                                     : exg_arg_int(is_signed ? INT64_MIN >> (64 - bits) : 0);
}

exg_ref exg_lower_reduced(exg_builder *b, exg_ref x, int64_t reduction)
{
    return reduction == 1 ? EMIT(b, mean_default, x) : reduction == 2 ? EMIT(b, sum_default, x) : x;
}

#define REFS_MAX 65536

exg_ref *exg_lower_new_refs(exg_builder *b, int64_t count)
{
    exg_ref *refs = NULL;
    exg_error err;

    if (count < 0 || count > REFS_MAX) {
        (void)EXG_FAIL(&err, LIMIT, "OPR-008", "%" PRId64 " tensors, over %d", count, REFS_MAX);
        exg_builder_fail(b, &err);
        return NULL;
    }
    refs = EXG_NEW_ARRAY(exg_builder_arena(b), exg_ref, (size_t)count);
    if (refs == NULL) {
        (void)EXG_OUT_OF_MEMORY(&err);
        exg_builder_fail(b, &err);
    }
    return refs;
}
