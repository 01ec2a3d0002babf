/* sparse.c - lowerings of sparse.def. A tensor that is made of indices and values is emitted as the
 * dense one, and has them as its parts: a product by it reads these, and then nobody the other. */
#include "libexport/operators/dtype_lowering.h"
#include "libexport/operators/lower.h"

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
