/* lower.h - what lowerings ask of the values they are given. */
#ifndef EXG_LIBEXPORT_OPERATORS_LOWER_H
#define EXG_LIBEXPORT_OPERATORS_LOWER_H

#include "libexport/operators/shape.h"

#include <exg/emit.h>
#include <string.h>

/* Sizes, dtype, number of elements, order of a value under construction; rank 0, float32, 0
 * after an error. */
exg_dims exg_lower_dims(const exg_builder *b, exg_ref x);
exg_dtype exg_lower_dtype(const exg_builder *b, exg_ref x);
int64_t exg_lower_numel(const exg_builder *b, exg_ref x);
bool exg_lower_is_contiguous(exg_builder *b, exg_ref x); /* row-major, or empty */
exg_ref exg_lower_row_major(exg_builder *b, exg_ref x);  /* a copy that is */

/* float32 of complex64, and so on; other dtypes stay. complex64 of what is not wider. */
exg_dtype exg_real_of(exg_dtype dtype);
exg_dtype exg_complex_of(exg_dtype dtype);

static inline bool exg_dtype_is_float8(exg_dtype dtype)
{
    return exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) == 1;
}

/* The greatest number of a float8 dtype. */
static inline double exg_float8_most(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_F8E4M3FN     ? 448
           : dtype == EXG_DTYPE_F8E4M3FNUZ ? 240
           : dtype == EXG_DTYPE_F8E8M0FNU  ? 0x1p127
                                           : 57344;
}

/* A bool that has to be computed in every run, since that has an effect; and those since they were
 * last taken, until the next is kept. */
void exg_builder_keep(exg_builder *b, exg_ref ref);
const exg_ref *exg_builder_take_kept(exg_builder *b, uint32_t *count);

/* The operator that is being written out: one function lowers several. */
const exg_operator *exg_lower_operator(const exg_builder *b);

/* A dim argument counted from the end when negative; a fault sticks. */
uint32_t exg_lower_dim(exg_builder *b, int64_t dim, uint32_t rank);

/* UNSUPPORTED (OPR-002), MALFORMED (NOD-017): both stick. */
void exg_lower_unsupported(exg_builder *b, const char *what);
void exg_lower_refuse(exg_builder *b, const char *what);

/* The k-th tensor of a Tensor[] argument; a list that a file made shorter has none there, which no
 * operator takes. */
static inline exg_ref exg_lower_item(const exg_argument *list, uint32_t k)
{
    return k < list->count ? (exg_ref){list->as_tensors[k]} : EXG_NO_REF;
}

/* Room for `count` tensors; NULL, and a fault that sticks, when memory ran out or there are more
 * than a node has (LIMIT OPR-008): numbers and sizes that a file states count them. */
exg_ref *exg_lower_new_refs(exg_builder *b, int64_t count);

static inline bool exg_lower_given(const exg_argument *arg)
{
    return !exg_is_none(arg) && exg_get_ref(arg).id != EXG_NO_VALUE;
}

static inline bool exg_lower_is_word(const exg_argument *arg, const char *word)
{
    return arg->kind == EXG_ARGUMENT_STRING && strcmp(arg->as_string, word) == 0;
}

/* x in float32 when its dtype is narrower; x stored as `dtype`. */
exg_ref exg_lower_wide(exg_builder *b, exg_ref x);
exg_ref exg_lower_cast(exg_builder *b, exg_ref x, exg_dtype dtype);

/* What the program that is lowered says of the next emitted node's results, and, while that is
 * lowered, of one of them: NULL where it says nothing. Borrowed. */
void exg_builder_next_recorded(exg_builder *b, const exg_tensor_meta *const *metas, uint32_t count);
const exg_tensor_meta *exg_lower_recorded(const exg_builder *b, uint32_t result);

/* [start, start + count) of one dim; x with other sizes; x as a vector; dims exchanged. */
exg_ref exg_lower_slice(exg_builder *b, exg_ref x, uint32_t dim, int64_t start, int64_t count);
exg_ref exg_lower_shaped(exg_builder *b, exg_ref x, const exg_dims *dims);
exg_ref exg_lower_flat(exg_builder *b, exg_ref x);
exg_ref exg_lower_swapped(exg_builder *b, exg_ref x, uint32_t dim0, uint32_t dim1);

/* g added where the index says: of `size` places along `dim`, zeros where nothing came. */
exg_ref exg_lower_added(exg_builder *b, exg_ref g, uint32_t dim, int64_t size, exg_ref index);

/* 0, 1, ... count - 1 along `dim` of a tensor of `rank`, ones elsewhere. */
exg_ref exg_lower_steps(exg_builder *b, int64_t count, exg_dtype dtype, uint32_t dim,
                        uint32_t rank);

/* A vector along `dim` of a tensor of `rank`, ones elsewhere. */
exg_ref exg_lower_along(exg_builder *b, exg_ref vector, uint32_t dim, uint32_t rank);

/* Weights in whole parts of so many, halves away from 0, as PyTorch weighs bytes. */
exg_ref exg_lower_whole_parts(exg_builder *b, exg_ref weights, double parts);
/* As many, a power of two, as let the greatest of the weights stay below 2^15. */
double exg_lower_part_count(double greatest);

/* An index that may count from the end of `size`, as int64. */
exg_ref exg_lower_from_start(exg_builder *b, exg_ref index, int64_t size);

/* Scales of `rows` by `columns` that lie in tiles of 128 by 4, as tensor cores read them, in plain
 * order. */
exg_ref exg_lower_from_tiles(exg_builder *b, exg_ref scale, int64_t rows, int64_t columns);

/* Adaptive pooling's parts: part i of `in` elements in `out` parts begins at
 * floor(i in / out) and ends before ceil((i + 1) in / out). (out, 1) each. */
void exg_lower_parts(exg_builder *b, int64_t in, int64_t out, exg_ref *start, exg_ref *end);

/* The dtype a number takes beside a tensor of dtype `beside`: the tensor's, unless
 * the number is of a higher category (torch.result_type). */
exg_dtype exg_number_dtype(exg_argument_kind kind, exg_dtype beside);

/* A scalar of a dtype. */
exg_ref exg_lower_number(exg_builder *b, double value, exg_dtype dtype);

/* A number of a program cast to a dtype: of an integer the low bits are left. */
exg_ref exg_lower_wrapped(exg_builder *b, const exg_argument *number, exg_dtype dtype);

/* Does PyTorch take a number where the schema says Tensor, and keep it so in its graphs? */
bool exg_operator_wraps_numbers(const exg_operator *op);

/* A number where a tensor is due becomes a 0-d tensor; one that is a 0-d tensor already,
 * of the kind in `scalar_reads`, takes the dtype a number would, or float32 to be a factor as it
 * is. */
void exg_lower_wrap_numbers(exg_builder *b, const exg_operator *op, exg_argument *args,
                            const exg_argument_kind *scalar_reads, bool is_product);

/* The operator by a number, where the first operand has floats of 16 bits; else EXG_OP_NONE.
 * Of those PyTorch multiplies and divides in float32 by the number as it is (float16 * 70000); it
 * adds what the number becomes in their dtype. */
exg_operator_id exg_lower_product_by_number(const exg_builder *b, exg_operator_id id,
                                            const exg_argument *args);

/* Kernels have tensors where the schema has: numbers that stand there, as a decomposition of a
 * library may give them (x * 1.702), become tensors, or the operator the one by a number. false:
 * there are none. */
bool exg_lower_numbers(exg_builder *b, const exg_operator **op, exg_argument *args);

/* What no number of the dtype is below; 0 of unsigned ones. */
exg_argument exg_lower_least(exg_dtype dtype);

/* Singular values of the matrices that two dims make, as the last dim; what is left when both
 * dims are kept with size 1. */
exg_ref exg_lower_singular_values(exg_builder *b, exg_ref x, int64_t dim0, int64_t dim1);
exg_ref exg_lower_kept(exg_builder *b, exg_ref x, exg_ref of, const int64_t dims[2]);

/* x as it is; a fault of the run (RUN-001) that says `claim` unless all of `holds` is true. */
exg_ref exg_lower_checked(exg_builder *b, exg_ref x, exg_ref holds, const char *claim);

/* Keys' cubic with a = -0.75: of distances up to 1, and from 1 to 2. */
exg_ref exg_lower_cubic(exg_builder *b, exg_ref t, bool near);

/* reduction of a loss: 0 none, 1 mean, 2 sum */
exg_ref exg_lower_reduced(exg_builder *b, exg_ref x, int64_t reduction);

/* Does it move bytes between ranks: a row of collective.def? All ranks call it, or some wait. */
bool exg_is_exchange(exg_operator_id id);

/* Arguments for parameters that the caller left out, into `all`; checks the types of the others.
 * USAGE BLD-001. */
exg_status exg_operator_complete(const exg_operator *op, const exg_argument *args, uint32_t count,
                                 exg_argument *all, exg_error *err);

/* The arguments of the operator that the in-place `op` is of (op->functional), from its own
 * normalized ones: what it does not take itself has its default. */
void exg_operator_functional_args(const exg_operator *op, const exg_operator *functional,
                                  const exg_argument *args, exg_argument *functional_args);

/* The two a value was joined from, as long as nothing was written since. */
bool exg_builder_parts(const exg_builder *b, exg_ref x, exg_ref parts[2]);
void exg_builder_set_parts(exg_builder *b, exg_ref x, exg_ref re, exg_ref im);

#endif
