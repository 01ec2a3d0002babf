/* index.c - shapes and lowerings of index.def. */
#include "libexport/base/checked.h"
#include "libexport/operators/lower.h"
#include <exg/emit.h>

#include <inttypes.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/fft.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/index.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/norm.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/view.def"
#include "libexport/operators/rows.h"

static exg_status index_dtype(const exg_tensor_meta *index, exg_error *err)
{
    if (index->dtype == EXG_DTYPE_B8) { /* its result is as long as it has trues */
        return EXG_FAIL(err, UNSUPPORTED, "OPR-002", "an index of dtype bool");
    }
    if (index->dtype != EXG_DTYPE_I64 && index->dtype != EXG_DTYPE_I32) {
        return EXG_SHAPE_FAIL(err, "an index of dtype %s", exg_dtype_name(index->dtype));
    }
    return EXG_OK;
}

/* The shape of argument 0, row-major. */
exg_status exg_shape_same(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* (self, diagonal): of matrices. */
exg_status exg_shape_triangle(exg_shape_call *call, exg_error *err)
{
    if (exg_shape_input(call, 0)->rank < 2) {
        return EXG_SHAPE_FAIL(err, "a triangle of a tensor that is no matrix");
    }
    return exg_shape_same(call, err);
}

exg_status exg_shape_clone(exg_shape_call *call, exg_error *err)
{
    return exg_shape_same(call, err);
}

exg_status exg_shape_embedding(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *weight = exg_shape_input(call, 0);
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 1), &out, err));
    EXG_TRY(index_dtype(exg_shape_input(call, 1), err));
    if (weight->rank != 2 || out.rank + 1 > EXG_SHAPE_RANK_MAX) {
        return EXG_SHAPE_FAIL(err, "an embedding table of rank %u", weight->rank);
    }
    out.n[out.rank++] = weight->sizes[1].value;
    return exg_shape_result(call, 0, weight->dtype, &out, err);
}

exg_status exg_shape_index_select(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *index = exg_shape_input(call, 2);
    exg_dims out;
    int64_t count;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
    EXG_TRY(index_dtype(index, err));
    if (index->rank > 1) {
        return EXG_SHAPE_FAIL(err, "index_select with an index of rank %u", index->rank);
    }
    count = index->rank == 0 ? 1 : index->sizes[0].value;
    if (out.rank == 0 && count != 1) {
        return EXG_SHAPE_FAIL(err, "index_select of %" PRId64 " elements of a number", count);
    }
    if (out.rank > 0) {
        out.n[dim] = count;
    }
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* Sizes of `index` may not pass those of `other`, but along `dim`. A 0-d tensor is one of a single
 * element along one dim. */
static exg_status index_inside(const exg_tensor_meta *index, const exg_tensor_meta *other,
                               uint32_t dim, exg_error *err)
{
    uint32_t rank = index->rank > 0 ? index->rank : 1;
    int64_t numel;

    if (exg_tensor_meta_numel(index, &numel) && numel == 0) {
        return EXG_OK;
    }
    if (rank != (other->rank > 0 ? other->rank : 1)) {
        return EXG_SHAPE_FAIL(err, "an index of rank %u for a tensor of rank %u", index->rank,
                              other->rank);
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size = index->rank > 0 ? index->sizes[i].value : 1;
        int64_t room = other->rank > 0 ? other->sizes[i].value : 1;

        if (i != dim && size > room) {
            return EXG_SHAPE_FAIL(err, "index size %" PRId64 " past size %" PRId64 " in dim %u",
                                  size, room, i);
        }
    }
    return EXG_OK;
}

exg_status exg_shape_gather(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *self = exg_shape_input(call, 0);
    const exg_tensor_meta *index = exg_shape_input(call, 2);
    exg_dims out;
    uint32_t dim;
    int64_t numel;

    EXG_TRY(exg_dims_of(index, &out, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), self->rank, &dim, err));
    if (!exg_tensor_meta_numel(index, &numel) || numel != 0) { /* an empty one may have any dtype */
        EXG_TRY(index_dtype(index, err));
    }
    EXG_TRY(index_inside(index, self, dim, err));
    return exg_shape_result(call, 0, self->dtype, &out, err);
}

/* (self, dim, index, src or value) */
exg_status exg_shape_scatter(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *self = exg_shape_input(call, 0);
    const exg_tensor_meta *index = exg_shape_input(call, 2);
    uint32_t dim;

    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), self->rank, &dim, err));
    EXG_TRY(index_dtype(index, err));
    EXG_TRY(index_inside(index, self, dim, err));
    if (call->args[3].kind == EXG_ARGUMENT_TENSOR) {
        const exg_tensor_meta *src = exg_shape_input(call, 3);

        EXG_TRY(index_inside(index, src, EXG_SHAPE_RANK_MAX, err));
        if (src->dtype != self->dtype) {
            return EXG_SHAPE_FAIL(err, "scatter of %s into %s", exg_dtype_name(src->dtype),
                                  exg_dtype_name(self->dtype));
        }
    }
    return exg_shape_same(call, err);
}

/* What self (position 0) has at the indices (1): those broadcast together; their dims stand
 * where the first was, when they are neighbours, else in front. */
static exg_status indexed_dims(exg_shape_call *call, exg_dims *result, exg_error *err)
{
    const exg_argument *indices = &call->args[1];
    exg_dims self;
    exg_dims joined = {.rank = 0};
    exg_dims out = {.rank = 0};
    bool indexed[EXG_SHAPE_RANK_MAX] = {false};
    int32_t first = -1;
    int32_t last = -1;
    uint32_t given = 0;
    uint32_t at;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &self, err));
    if (indices->count > self.rank) {
        return EXG_SHAPE_FAIL(err, "%u indices for a tensor of rank %u", indices->count, self.rank);
    }
    for (uint32_t i = 0; i < indices->count; i++) {
        exg_value_id id = indices->as_tensors[i];
        exg_dims dims;

        if (id == EXG_NO_VALUE) {
            continue;
        }
        EXG_TRY(index_dtype(call->graph->values[id].tensor, err));
        EXG_TRY(exg_dims_of(call->graph->values[id].tensor, &dims, err));
        EXG_TRY(exg_broadcast(&joined, &dims, &joined, err));
        indexed[i] = true;
        given++;
        first = first < 0 ? (int32_t)i : first;
        last = (int32_t)i;
    }
    if (given == 0) {
        return EXG_SHAPE_FAIL(err, "index without an index");
    }
    at = (uint32_t)(last - first) + 1 == given ? (uint32_t)first : 0;
    if (joined.rank + self.rank - given > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "the indexed tensor has too many dims");
    }
    for (uint32_t i = 0, kept = 0; i <= self.rank; i++) {
        if (kept == at && joined.rank != UINT32_MAX) {
            for (uint32_t j = 0; j < joined.rank; j++) {
                out.n[out.rank++] = joined.n[j];
            }
            joined.rank = UINT32_MAX;
        }
        if (i < self.rank && !indexed[i]) {
            out.n[out.rank++] = self.n[i];
            kept++;
        }
    }
    *result = out;
    return EXG_OK;
}

exg_status exg_shape_index(exg_shape_call *call, exg_error *err)
{
    exg_dims out;

    EXG_TRY(indexed_dims(call, &out, err));
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* (self, indices, values): values broadcast to what is indexed. */
exg_status exg_shape_index_put(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *values = exg_shape_input(call, 2);
    exg_dims out;

    EXG_TRY(indexed_dims(call, &out, err));
    if (values->dtype != exg_shape_input(call, 0)->dtype) {
        return EXG_SHAPE_FAIL(err, "values of another dtype than what is indexed");
    }
    EXG_TRY(exg_broadcasts_to(values, &out, "values of what is indexed", err));
    return exg_shape_same(call, err);
}

/* The same where some indices are masks, whose places only the data know: a mask stands for as many
 * dims as it has, of their sizes. */
exg_status exg_shape_index_put_masks(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *self = exg_shape_input(call, 0);
    const exg_argument *indices = &call->args[1];
    uint32_t next = 0;

    for (uint32_t i = 0; i < indices->count; i++) {
        exg_value_id id = indices->as_tensors[i];
        const exg_tensor_meta *index = id == EXG_NO_VALUE ? NULL : call->graph->values[id].tensor;
        bool is_mask =
            index != NULL && (index->dtype == EXG_DTYPE_B8 || index->dtype == EXG_DTYPE_U8);

        for (uint32_t d = 0; is_mask && d < index->rank && next + d < self->rank; d++) {
            if (index->sizes[d].value != self->sizes[next + d].value) {
                return EXG_SHAPE_FAIL(err, "a mask of size %" PRId64 " for dim %u of size %" PRId64,
                                      index->sizes[d].value, next + d, self->sizes[next + d].value);
            }
        }
        next += is_mask ? index->rank : 1;
    }
    return next <= self->rank
               ? exg_shape_same(call, err)
               : EXG_SHAPE_FAIL(err, "%u indices for a tensor of rank %u", next, self->rank);
}

/* The source of a *_scatter has the shape of the view it replaces; its dtype may be another. */
static exg_status scatter_over_view(exg_shape_call *call, exg_view_function *view,
                                    const exg_argument *view_args, exg_error *err)
{
    const exg_tensor_meta *src = exg_shape_input(call, 1);
    exg_strided self;
    exg_strided window = {0};

    EXG_TRY(exg_strided_of(exg_shape_input(call, 0), &self, err));
    self.offset = 0;
    EXG_TRY(view(view_args, &self, &window, err));
    if (src->rank != window.rank) {
        return EXG_SHAPE_FAIL(err, "the source does not have the window's rank");
    }
    for (uint32_t i = 0; i < window.rank; i++) {
        if (src->sizes[i].value != window.sizes[i]) {
            return EXG_SHAPE_FAIL(err, "source size %" PRId64 ", window size %" PRId64,
                                  src->sizes[i].value, window.sizes[i]);
        }
    }
    return exg_shape_same(call, err);
}

exg_status exg_shape_slice_scatter(exg_shape_call *call, exg_error *err)
{
    const exg_argument *a = call->args;

    return scatter_over_view(call, exg_view_slice,
                             (const exg_argument[]){a[0], a[2], a[3], a[4], a[5]}, err);
}

exg_status exg_shape_select_scatter(exg_shape_call *call, exg_error *err)
{
    const exg_argument *a = call->args;

    return scatter_over_view(call, exg_view_select, (const exg_argument[]){a[0], a[2], a[3]}, err);
}

exg_status exg_shape_diagonal_scatter(exg_shape_call *call, exg_error *err)
{
    const exg_argument *a = call->args;

    return scatter_over_view(call, exg_view_diagonal,
                             (const exg_argument[]){a[0], a[2], a[3], a[4]}, err);
}

/* A window on the whole of a tensor without gaps, which may not leave it. */
static exg_status view_inside(const exg_argument *args, const exg_strided *in, exg_strided *out,
                              exg_error *err)
{
    int64_t numel = 1;
    int64_t last;

    EXG_TRY(exg_view_as_strided(args, in, out, err));
    last = out->offset;
    for (uint32_t i = 0; i < in->rank; i++) {
        numel *= in->sizes[i]; /* of a tensor that there is */
    }
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t span;

        if (out->sizes[i] == 0) {
            return EXG_OK;
        }
        if (!exg_mul_i64(out->sizes[i] - 1, out->strides[i], &span) ||
            !exg_add_i64(last, span, &last)) {
            last = INT64_MAX;
            break;
        }
    }
    return last < numel ? EXG_OK : EXG_SHAPE_FAIL(err, "a window that leaves its tensor");
}

exg_status exg_shape_as_strided_scatter(exg_shape_call *call, exg_error *err)
{
    const exg_argument *a = call->args;

    return scatter_over_view(call, view_inside, (const exg_argument[]){a[0], a[2], a[3], a[4]},
                             err);
}

/* (self, dim, index, source): source is like self, and along dim as long as index. */
exg_status exg_shape_index_copy(exg_shape_call *call, exg_error *err)
{
    const exg_tensor_meta *index = exg_shape_input(call, 2);
    const exg_tensor_meta *source = exg_shape_input(call, 3);
    exg_dims self;
    uint32_t dim;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &self, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), self.rank, &dim, err));
    EXG_TRY(index_dtype(index, err));
    if (index->rank > 1 || source->rank != self.rank ||
        source->dtype != exg_shape_input(call, 0)->dtype) {
        return EXG_SHAPE_FAIL(err, "index_copy of a source of another rank or dtype");
    }
    for (uint32_t i = 0; i < self.rank; i++) {
        int64_t count = index->rank == 0 ? 1 : index->sizes[0].value;

        if (source->sizes[i].value != (i == dim ? count : self.n[i])) {
            return EXG_SHAPE_FAIL(err, "index_copy of a source of size %" PRId64 " in dim %u",
                                  source->sizes[i].value, i);
        }
    }
    return exg_shape_same(call, err);
}

exg_status exg_shape_fft(exg_shape_call *call, exg_error *err)
{
    uint32_t dim;

    EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), exg_shape_input(call, 0)->rank, &dim, err));
    return exg_shape_same(call, err);
}

exg_status exg_shape_rms_norm(exg_shape_call *call, exg_error *err)
{
    int64_t dims = exg_get_int(&call->args[1]);
    const exg_tensor_meta *in = exg_shape_input(call, 0);
    const exg_tensor_meta *weight = exg_shape_input(call, 2);

    if (dims < 0 || dims > in->rank || (weight != NULL && weight->rank != dims)) {
        return EXG_SHAPE_FAIL(err, "a norm over %" PRId64 " dims", dims);
    }
    for (uint32_t d = 0; weight != NULL && d < weight->rank; d++) {
        if (weight->sizes[d].value != in->sizes[in->rank - weight->rank + d].value) {
            return EXG_SHAPE_FAIL(err, "the weight of a norm has the normalized shape");
        }
    }
    return exg_shape_same(call, err);
}

exg_status exg_shape_flip(exg_shape_call *call, exg_error *err)
{
    bool flipped[EXG_SHAPE_RANK_MAX];

    EXG_TRY(exg_dim_set(&call->args[1], exg_shape_input(call, 0)->rank, flipped, err));
    return exg_shape_same(call, err);
}

/* (self, shifts, dims): one shift a dim, or one of the whole, row by row. */
exg_status exg_shape_roll(exg_shape_call *call, exg_error *err)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&call->args[2], dims, EXG_SHAPE_RANK_MAX);
    uint32_t dim;

    if (count > EXG_SHAPE_RANK_MAX ||
        exg_get_ints(&call->args[1], NULL, 0) != (count == 0 ? 1 : count)) {
        return EXG_SHAPE_FAIL(err, "roll by unlike many shifts and dims");
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(exg_wrap_dim(dims[i], exg_shape_input(call, 0)->rank, &dim, err));
    }
    return exg_shape_same(call, err);
}

/* Tensors of one rank, alike but along dim; a legacy empty (0) tensor is skipped. */
exg_status exg_shape_cat(exg_shape_call *call, exg_error *err)
{
    const exg_argument *list = &call->args[0];
    exg_dtype dtype = EXG_DTYPE_COUNT;
    exg_dims out = {.rank = UINT32_MAX};
    uint32_t dim = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        const exg_tensor_meta *meta = call->graph->values[list->as_tensors[i]].tensor;
        exg_dims dims;

        EXG_TRY(exg_dims_of(meta, &dims, err));
        dtype = dtype == EXG_DTYPE_COUNT ? meta->dtype : exg_promote_types(dtype, meta->dtype);
        if (dims.rank == 1 && dims.n[0] == 0) {
            continue;
        }
        if (dims.rank == 0) {
            return EXG_SHAPE_FAIL(err, "cat of a 0-d tensor");
        }
        if (out.rank == UINT32_MAX) {
            out = dims;
            EXG_TRY(exg_wrap_dim(exg_get_int(&call->args[1]), out.rank, &dim, err));
            continue;
        }
        for (uint32_t d = 0; d < dims.rank; d++) {
            if (dims.rank != out.rank || (d != dim && dims.n[d] != out.n[d])) {
                return EXG_SHAPE_FAIL(err, "tensor %u of cat does not fit the others", i);
            }
        }
        out.n[dim] += dims.n[dim];
    }
    if (dtype == EXG_DTYPE_COUNT) {
        return EXG_SHAPE_FAIL(err, "cat of no tensor");
    }
    if (out.rank == UINT32_MAX) {
        out = (exg_dims){.rank = 1, .n = {0}};
    }
    return exg_shape_result(call, 0, dtype, &out, err);
}

/* pad: (before, after) of the last dim, then of the one before, ... */
exg_status exg_shape_constant_pad_nd(exg_shape_call *call, exg_error *err)
{
    int64_t pad[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&call->args[1], pad, 2 * EXG_SHAPE_RANK_MAX);
    exg_dims out;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &out, err));
    if (count % 2 != 0 || count / 2 > out.rank) {
        return EXG_SHAPE_FAIL(err, "%u paddings for a tensor of rank %u", count, out.rank);
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        int64_t *n = &out.n[out.rank - 1 - i];

        if (!exg_add_i64(*n, pad[2 * i], n) || !exg_add_i64(*n, pad[2 * i + 1], n) || *n < 0) {
            return EXG_SHAPE_FAIL(err, "padding leaves size %" PRId64, *n);
        }
    }
    return exg_shape_result(call, 0, exg_shape_input(call, 0)->dtype, &out, err);
}

/* ---- lowerings ------------------------------------------------------------------ */

#define SELF exg_get_ref(&args[0])

void exg_lower_clone(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
}

void exg_lower_stack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = args[0].count;
    exg_ref *parts = exg_lower_new_refs(b, count);
    int64_t dim = exg_get_int(&args[1]);

    for (uint32_t i = 0; parts != NULL && i < count; i++) {
        parts[i] = EMIT(b, unsqueeze_default, (exg_ref){args[0].as_tensors[i]}, dim);
    }
    if (parts != NULL && count > 0 && dim < 0 && parts[0].id != EXG_NO_VALUE) {
        dim += exg_ref_meta(b, parts[0])->rank;
    }
    results[0] = parts == NULL
                     ? exg_arg_none()
                     : exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, parts, count), dim));
}

/* repeat: each dim becomes (times, size), expanded, copied, joined again. */
void exg_lower_repeat(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    int64_t times[EXG_SHAPE_RANK_MAX];
    int64_t split[2 * EXG_SHAPE_RANK_MAX];
    int64_t wide[2 * EXG_SHAPE_RANK_MAX];
    int64_t joined[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[1], times, EXG_SHAPE_RANK_MAX);
    exg_ref x;

    if (meta == NULL || rank < meta->rank || rank > EXG_SHAPE_RANK_MAX / 2) {
        exg_error err;

        (void)EXG_SHAPE_FAIL(&err, "repeat with %u counts", rank);
        exg_builder_fail(b, &err);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t new_dims = rank - meta->rank;
        int64_t size = i < new_dims ? 1 : meta->sizes[i - new_dims].value;

        split[2 * i] = 1;
        wide[2 * i] = times[i];
        split[2 * i + 1] = wide[2 * i + 1] = size;
        if (!exg_mul_i64(times[i], size, &joined[i])) {
            joined[i] = INT64_MAX; /* so large a copy is refused */
        }
    }
    x = EMIT(b, view_default, EMIT(b, reshape_default, SELF, INTS_OF(b, split, 2 * rank)),
             INTS_OF(b, split, 2 * rank));
    x = EMIT(b, clone_default, EMIT(b, expand_default, x, INTS_OF(b, wide, 2 * rank)));
    results[0] = exg_arg_ref(EMIT(b, view_default, x, INTS_OF(b, joined, rank)));
}

/* copy(self, src): src, broadcast and converted to self's shape and dtype. */
void exg_lower_copy(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const exg_tensor_meta *meta = exg_ref_meta(b, SELF);
    exg_ref src = exg_get_ref(&args[1]);
    const exg_tensor_meta *from = exg_ref_meta(b, src);
    exg_strided self;

    if (meta == NULL || from == NULL || exg_strided_of(meta, &self, NULL) != EXG_OK) {
        return;
    }
    if (from->dtype != meta->dtype) {
        src = EMIT(b, _to_copy_default, src, DTYPE(meta->dtype));
    }
    src = EMIT(b, expand_default, src, INTS_OF(b, self.sizes, self.rank));
    results[0] = exg_arg_ref(EMIT(b, clone_default, src));
}

/* All in the dtype of the result; then it is the operator itself. */
void exg_lower_cat(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = args[0].count;
    exg_ref *parts = exg_lower_new_refs(b, count);
    exg_dtype dtype = count == 0 ? EXG_DTYPE_F32 : exg_lower_dtype(b, exg_lower_item(args, 0));

    for (uint32_t i = 1; i < count; i++) {
        dtype = exg_promote_types(dtype, exg_lower_dtype(b, exg_lower_item(args, i)));
    }
    for (uint32_t i = 0; parts != NULL && i < count; i++) {
        parts[i] = exg_lower_cast(b, exg_lower_item(args, i), dtype);
    }
    exg_builder_set_lowering(b, false);
    if (parts != NULL) {
        results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, parts, count), args[1]));
    }
    exg_builder_set_lowering(b, true);
}

/* A window is written with what its source is in self's dtype; then it is the operator itself. */
static void over_view(exg_builder *b, exg_operator_id id, const exg_argument *args,
                      exg_argument *results)
{
    uint32_t count = exg_operators_get(exg_builder_operators(b), id)->schema->argument_count;
    exg_argument own[6];

    for (uint32_t i = 0; i < count && i < 6; i++) {
        own[i] = args[i];
    }
    own[1] = exg_arg_ref(exg_lower_cast(b, exg_get_ref(&args[1]), exg_lower_dtype(b, SELF)));
    exg_builder_set_lowering(b, false);
    results[0] = exg_arg_ref(exg_emit(b, id, own, count));
    exg_builder_set_lowering(b, true);
}

void exg_lower_slice_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    over_view(b, EXG_OP_slice_scatter_default, args, results);
}

void exg_lower_select_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    over_view(b, EXG_OP_select_scatter_default, args, results);
}

void exg_lower_diagonal_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    over_view(b, EXG_OP_diagonal_scatter_default, args, results);
}

void exg_lower_as_strided_scatter(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    over_view(b, EXG_OP_as_strided_scatter_default, args, results);
}

/* (self, dim, start, length): a copy, from where only the run knows; torch.export takes no program
 * that would write to it. */
void exg_lower_narrow_at(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[1]), in.rank);
    int64_t size = in.rank == 0 ? 1 : in.n[dim];
    int64_t length = exg_get_int(&args[3]);
    exg_ref start = exg_lower_from_start(b, exg_get_ref(&args[2]), size);

    if (length < 0 || length > size || exg_lower_numel(b, start) != 1) {
        exg_lower_refuse(b, "a part of a dim begins at one place and is no longer than the dim");
        return;
    }
    start = exg_lower_checked(b, start, EMIT(b, le_Scalar, start, exg_arg_int(size - length)),
                              "narrow: a part that ends within its dim");
    start = EMIT(b, add_Tensor, exg_lower_steps(b, length, EXG_DTYPE_I64, 0, 1),
                 EMIT(b, reshape_default, start, INTS(b, 1)));
    results[0] = exg_arg_ref(EMIT(b, index_select_default, SELF, (int)dim, start));
}
