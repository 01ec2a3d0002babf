/* sparse.c - lowerings of sparse.def. A tensor that is made of indices and values is emitted as the
 * dense one, and has them as its parts: a product by it reads these, and then nobody the other. */
#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"

#include <math.h>

#define EXG_ROWS "libexport/operators/sparse.def"
#include "libexport/operators/rows.h"

#define SELF  exg_get_ref(&args[0])
#define OTHER exg_get_ref(&args[1])

/* The places that the k-th index of each element says. */
static exg_ref index_row(exg_builder *b, exg_ref indices, uint32_t k)
{
    return EMIT(b, select_int, indices, 0, exg_arg_int(k));
}

/* What lies at one place is added. */
static exg_ref sparse(exg_builder *b, exg_ref indices, exg_ref values, exg_argument size,
                      const exg_argument *dtype)
{
    exg_dims in = exg_lower_dims(b, indices);
    exg_ref rows[EXG_SHAPE_RANK_MAX];
    exg_ref x;

    if (in.rank != 2 || in.n[0] < 1 || in.n[0] > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "indices of a sparse tensor that are no matrix of a row a dim");
        return EXG_NO_REF;
    }
    values = exg_lower_cast(b, values, exg_dtype_argument(dtype, exg_lower_dtype(b, values)));
    for (uint32_t k = 0; k < in.n[0]; k++) {
        rows[k] = index_row(b, indices, k);
    }
    x = EMIT(b, full_default, size, 0, DTYPE(exg_lower_dtype(b, values)));
    x = EMIT(b, index_put_default, x, exg_arg_refs(b, rows, (uint32_t)in.n[0]), values, true);
    if (in.n[0] == 2 && exg_lower_dims(b, values).rank == 1 &&
        !exg_dtype_is_complex(exg_lower_dtype(b, values))) {
        exg_builder_set_parts(b, x, indices, values);
    }
    return x;
}

/* (indices, values, size, dtype?, ...) */
void exg_lower_sparse_coo_tensor(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(sparse(b, SELF, OTHER, args[2], &args[3]));
}

/* (sparse_dim, dense_dim, size, indices, values, dtype?, ...) */
void exg_lower_sparse_coo_tensor_dims(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    results[0] =
        exg_arg_ref(sparse(b, exg_get_ref(&args[3]), exg_get_ref(&args[4]), args[2], &args[5]));
}

/* One without elements: zeros. */
static void empty(exg_builder *b, exg_argument size, const exg_argument *dtype,
                  exg_argument *results)
{
    results[0] = exg_arg_ref(
        EMIT(b, full_default, size, 0, DTYPE(exg_dtype_argument(dtype, EXG_DTYPE_F32))));
}

/* (size, dtype?, ...) */
void exg_lower_sparse_empty(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    empty(b, args[0], &args[1], results);
}

/* (sparse_dim, dense_dim, size, dtype?, ...) */
void exg_lower_sparse_empty_dims(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    empty(b, args[2], &args[3], results);
}

void exg_lower_sparse_broadcast_to(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, clone_default, EMIT(b, expand_default, SELF, args[1])));
}

void exg_lower_to_dense(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[1], exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(EMIT(b, clone_default, exg_lower_cast(b, SELF, dtype)));
}

void exg_lower_to_sparse(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, clone_default, args[0]));
}

/* The same tensor: its elements are added up one way or the other. */
void exg_lower_coalesce(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)b;
    results[0] = args[0];
}

void exg_lower_sparse_mm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, mm_default, args[0], args[1]));
}

void exg_lower_sparse_addmm(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, addmm_default, args[0], args[1], args[2], args[3], args[4]));
}

void exg_lower_sparse_sum(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_default, args[0]));
}

void exg_lower_sparse_sum_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_default, args[0], args[1]));
}

void exg_lower_sparse_sum_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, args[0], args[1]));
}

void exg_lower_sparse_sum_dim_dtype(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, sum_dim_IntList, args[0], args[1], false, args[2]));
}

/* ---- which elements there are --------------------------------------------------------------- */

static void refuse(exg_builder *b, const char *what)
{
    exg_error err;

    (void)exg_error_fix(&err, EXG_FAIL(&err, UNSUPPORTED, "OPR-002", "%s", what),
                        "give indices and values as inputs of their own, make the sparse tensor of "
                        "them in the model, and read them there");
    exg_builder_fail(b, &err);
}

/* True where the tensor has one; those of an input, and of most results, nobody knows. */
static exg_ref there(exg_builder *b, exg_ref x)
{
    exg_dims dims = exg_lower_dims(b, x);
    exg_ref rows[2];
    exg_ref parts[2];
    exg_ref one;

    if (!exg_builder_parts(b, x, parts)) {
        refuse(b, "which elements a sparse tensor has that is not made of indices and values in "
                  "the program");
        return EXG_NO_REF;
    }
    rows[0] = index_row(b, parts[0], 0);
    rows[1] = index_row(b, parts[0], 1);
    one = EMIT(b, full_default, exg_arg_ints(b, NULL, 0), true, DTYPE(EXG_DTYPE_B8));
    return EMIT(b, index_put_default,
                EMIT(b, full_default, INTS_OF(b, dims.n, dims.rank), false, DTYPE(EXG_DTYPE_B8)),
                exg_arg_refs(b, rows, 2), one);
}

/* Among the elements that there are; the others stay 0. */
static exg_ref softmax(exg_builder *b, const exg_argument *args, bool is_log, exg_dtype dtype)
{
    exg_ref mask = there(b, SELF);
    exg_ref x = exg_lower_cast(b, SELF, dtype);
    exg_ref least = exg_lower_number(b, -INFINITY, dtype);

    x = EMIT(b, where_self, mask, x, least);
    x = is_log ? EMIT(b, _log_softmax_default, x, args[1], false)
               : EMIT(b, _softmax_default, x, args[1], false);
    return EMIT(b, where_self, mask, x, exg_lower_number(b, 0, dtype));
}

/* (self, dim, dtype?) */
void exg_lower_sparse_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(softmax(b, args, false, dtype));
}

void exg_lower_sparse_log_softmax(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dtype dtype = exg_dtype_argument(&args[2], exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(softmax(b, args, true, dtype));
}

/* (self, dim, half_to_float) */
static exg_dtype wide_or_own(exg_builder *b, const exg_argument *args)
{
    return exg_get_bool(&args[2]) ? EXG_DTYPE_F32 : exg_lower_dtype(b, SELF);
}

void exg_lower_sparse_softmax_wide(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(softmax(b, args, false, wide_or_own(b, args)));
}

void exg_lower_sparse_log_softmax_wide(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    results[0] = exg_arg_ref(softmax(b, args, true, wide_or_own(b, args)));
}

/* (self, mask) */
void exg_lower_sparse_mask(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref zero = exg_lower_number(b, 0, exg_lower_dtype(b, SELF));

    results[0] = exg_arg_ref(EMIT(b, where_self, there(b, OTHER), SELF, zero));
}

/* As the tensor was made; what was coalesced since has others, as the record says. */
static exg_ref part(exg_builder *b, exg_ref x, uint32_t which)
{
    const exg_tensor_meta *recorded = exg_lower_recorded(b, 0);
    exg_ref parts[2];
    exg_dims dims;

    if (exg_builder_parts(b, x, parts)) {
        dims = exg_lower_dims(b, parts[which]);
        if (recorded == NULL || (recorded->rank == dims.rank &&
                                 recorded->sizes[dims.rank - 1].value == dims.n[dims.rank - 1])) {
            return parts[which];
        }
    }
    refuse(b, "how many elements a sparse tensor has once those of one place are added, or that "
              "is an input");
    return EXG_NO_REF;
}

/* indices() and values() are of coalesced tensors alone. */
void exg_lower_sparse_coalesced(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    (void)args;
    (void)results;
    refuse(b, "indices() and values() of a sparse tensor: PyTorch exports them with no elements, "
              "and what follows for none");
}

void exg_lower_sparse_indices(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(part(b, SELF, 0));
}

void exg_lower_sparse_values(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(part(b, SELF, 1));
}

/* ---- products ------------------------------------------------------------------------------- */

/* A sparse matrix of `rows` times `other`: each element of it, times a row of the other one, goes
 * to the row it lies in. */
static exg_ref product(exg_builder *b, const exg_ref parts[2], int64_t rows, exg_ref other)
{
    exg_dims in = exg_lower_dims(b, other);
    exg_ref terms = EMIT(b, index_select_default, other, 0, index_row(b, parts[0], 1));
    exg_dims result = {.rank = 2, .n = {rows, in.rank == 2 ? in.n[1] : 0}};
    exg_ref zeros =
        EMIT(b, full_default, INTS_OF(b, result.n, 2), 0, DTYPE(exg_lower_dtype(b, other)));

    terms = EMIT(b, mul_Tensor, terms, EMIT(b, unsqueeze_default, parts[1], 1));
    return EMIT(b, index_add_default, zeros, 0, index_row(b, parts[0], 0), terms);
}

/* mm (self, mat2), addmm (self, mat1, mat2, beta, alpha), the first matrix of parts */
void exg_lower_sparse_product(exg_builder *b, exg_operator_id id, const exg_argument *args,
                              exg_argument *results)
{
    const exg_argument *matrices = id == EXG_OP_mm_default ? args : args + 1;
    exg_ref first = exg_get_ref(&matrices[0]);
    exg_dims in = exg_lower_dims(b, first);
    exg_ref parts[2];
    exg_ref x;

    if (!exg_builder_parts(b, first, parts) ||
        exg_lower_dims(b, exg_get_ref(&matrices[1])).rank != 2 ||
        exg_lower_dims(b, exg_get_ref(&matrices[1])).n[0] != in.n[1]) {
        exg_lower_refuse(b, "a product of a sparse matrix and one of other sizes");
        return;
    }
    x = product(b, parts, in.n[0], exg_get_ref(&matrices[1]));
    if (id == EXG_OP_addmm_default) {
        x = EMIT(b, mul_Scalar, x, args[4]);
        x = EMIT(b, add_Tensor, x, EMIT(b, mul_Scalar, args[0], args[3]));
    }
    results[0] = exg_arg_ref(x);
}
