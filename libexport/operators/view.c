/* view.c - views as arithmetic on sizes and strides, and the lowerings that bring
 * the many spellings down to a few. Meaning: at/native TensorShape in PyTorch. */
#include "libexport/base/checked.h"
#include "libexport/operators/lower.h"

#include <inttypes.h>
#include <string.h>

#define EXG_ROWS "libexport/operators/rearrange.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/view.def"
#include "libexport/operators/rows.h"

/* ---- view functions ---------------------------------------------------------- */

exg_status exg_view_alias(const exg_argument *args, const exg_strided *in, exg_strided *out,
                          exg_error *err)
{
    (void)args;
    (void)err;
    *out = *in;
    return EXG_OK;
}

/* Strides for `out`'s sizes over the memory of `in`: runs of input dims that lie
 * end to end are cut anew; false when a new dim would cross such a border. */
static bool restride(const exg_strided *in, exg_strided *out)
{
    int64_t run = 1;    /* elements of the current run of input dims */
    int64_t filled = 1; /* of which are handed out */
    int64_t base;
    int32_t view_dim = (int32_t)out->rank - 1;

    if (in->rank == 0) {
        for (uint32_t i = 0; i < out->rank; i++) {
            out->strides[i] = 1;
        }
        return true;
    }
    base = in->strides[in->rank - 1];
    for (uint32_t d = in->rank; d-- > 0;) {
        run *= in->sizes[d];
        if (d == 0 || (in->sizes[d - 1] != 1 && in->strides[d - 1] != run * base)) {
            while (view_dim >= 0 && (filled < run || out->sizes[view_dim] == 1)) {
                out->strides[view_dim] = filled * base;
                filled *= out->sizes[view_dim];
                view_dim--;
            }
            if (filled != run) {
                return false;
            }
            if (d > 0) {
                base = in->strides[d - 1];
                run = filled = 1;
            }
        }
    }
    return view_dim == -1;
}

static exg_status view_sizes(const exg_argument *arg, const exg_strided *in, exg_strided *out,
                             exg_error *err)
{
    int64_t numel = 1;
    int64_t known = 1;
    int32_t unknown = -1;

    out->rank = exg_get_ints(arg, out->sizes, EXG_SHAPE_RANK_MAX);
    if (out->rank > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a view of rank %u", out->rank);
    }
    for (uint32_t i = 0; i < in->rank; i++) {
        numel *= in->sizes[i];
    }
    for (uint32_t i = 0; i < out->rank; i++) {
        if (out->sizes[i] == -1 && unknown < 0) {
            unknown = (int32_t)i;
        } else if (out->sizes[i] < 0 || !exg_mul_i64(known, out->sizes[i], &known)) {
            return EXG_SHAPE_FAIL(err, "size %" PRId64 " in a view", out->sizes[i]);
        }
    }
    if (unknown >= 0 && known > 0) {
        out->sizes[unknown] = numel / known;
        known *= out->sizes[unknown];
    }
    if (known != numel || (unknown >= 0 && out->sizes[unknown] < 0)) {
        return EXG_SHAPE_FAIL(err, "a view of %" PRId64 " elements on %" PRId64, known, numel);
    }
    return EXG_OK;
}

exg_status exg_view_view(const exg_argument *args, const exg_strided *in, exg_strided *out,
                         exg_error *err)
{
    int64_t stride = 1;
    bool empty = false;

    EXG_TRY(view_sizes(&args[1], in, out, err));
    out->offset = in->offset;
    for (uint32_t i = 0; i < in->rank; i++) {
        empty = empty || in->sizes[i] == 0;
    }
    if (empty) {
        for (uint32_t i = out->rank; i-- > 0;) {
            out->strides[i] = stride;
            stride *= out->sizes[i] > 1 ? out->sizes[i] : 1;
        }
        return EXG_OK;
    }
    if (!restride(in, out)) {
        return EXG_SHAPE_FAIL(err, "the view needs a copy: its sizes cross the tensor's strides");
    }
    return EXG_OK;
}

exg_status exg_view_permute(const exg_argument *args, const exg_strided *in, exg_strided *out,
                            exg_error *err)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);
    bool used[EXG_SHAPE_RANK_MAX] = {false};

    if (count != in->rank) {
        return EXG_SHAPE_FAIL(err, "permute names %u dims of %u", count, in->rank);
    }
    *out = *in;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim;

        EXG_TRY(exg_wrap_dim(dims[i], in->rank, &dim, err));
        if (used[dim]) {
            return EXG_SHAPE_FAIL(err, "permute names dim %u twice", dim);
        }
        used[dim] = true;
        out->sizes[i] = in->sizes[dim];
        out->strides[i] = in->strides[dim];
    }
    return EXG_OK;
}

exg_status exg_view_transpose(const exg_argument *args, const exg_strided *in, exg_strided *out,
                              exg_error *err)
{
    uint32_t a;
    uint32_t b;

    EXG_TRY(exg_wrap_dim(exg_get_int(&args[1]), in->rank, &a, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&args[2]), in->rank, &b, err));
    *out = *in;
    if (in->rank > 0) {
        out->sizes[a] = in->sizes[b];
        out->strides[a] = in->strides[b];
        out->sizes[b] = in->sizes[a];
        out->strides[b] = in->strides[a];
    }
    return EXG_OK;
}

exg_status exg_view_numpy_T(const exg_argument *args, const exg_strided *in, exg_strided *out,
                            exg_error *err)
{
    (void)args;
    (void)err;
    *out = *in;
    for (uint32_t i = 0; i < in->rank; i++) {
        out->sizes[i] = in->sizes[in->rank - 1 - i];
        out->strides[i] = in->strides[in->rank - 1 - i];
    }
    return EXG_OK;
}

exg_status exg_view_t(const exg_argument *args, const exg_strided *in, exg_strided *out,
                      exg_error *err)
{
    if (in->rank > 2) {
        return EXG_SHAPE_FAIL(err, "t() of a tensor of rank %u", in->rank);
    }
    return exg_view_numpy_T(args, in, out, err);
}

exg_status exg_view_mT(const exg_argument *args, const exg_strided *in, exg_strided *out,
                       exg_error *err)
{
    const exg_argument dims[] = {args[0], exg_arg_int(-2), exg_arg_int(-1)};

    if (in->rank < 2) {
        return EXG_SHAPE_FAIL(err, "mT of a tensor of rank %u", in->rank);
    }
    return exg_view_transpose(dims, in, out, err);
}

exg_status exg_view_expand(const exg_argument *args, const exg_strided *in, exg_strided *out,
                           exg_error *err)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    uint32_t rank = exg_get_ints(&args[1], sizes, EXG_SHAPE_RANK_MAX);

    if (rank < in->rank || rank > EXG_SHAPE_RANK_MAX) {
        return EXG_SHAPE_FAIL(err, "expand to %u dims of a tensor of rank %u", rank, in->rank);
    }
    out->rank = rank;
    out->offset = in->offset;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t skipped = rank - in->rank;
        int64_t size = i < skipped ? 1 : in->sizes[i - skipped];
        int64_t stride = i < skipped ? 0 : in->strides[i - skipped];

        out->sizes[i] = sizes[i] == -1 && i >= skipped ? size : sizes[i];
        out->strides[i] = size == 1 && out->sizes[i] != 1 ? 0 : stride;
        if (out->sizes[i] != size && size != 1) {
            return EXG_SHAPE_FAIL(err, "expand of size %" PRId64 " to %" PRId64 " in dim %u", size,
                                  out->sizes[i], i);
        }
    }
    return EXG_OK;
}

/* Python's slice rules: negative counts from the end, then clamped. */
static int64_t clamp_index(const exg_argument *arg, int64_t otherwise, int64_t size)
{
    int64_t index = exg_is_none(arg) ? otherwise : exg_get_int(arg);

    if (index < 0) {
        index += size;
    }
    return index < 0 ? 0 : index > size ? size : index;
}

exg_status exg_view_slice(const exg_argument *args, const exg_strided *in, exg_strided *out,
                          exg_error *err)
{
    uint32_t dim;
    int64_t step = exg_get_int(&args[4]);
    int64_t start;
    int64_t end;

    if (in->rank == 0) {
        return EXG_SHAPE_FAIL(err, "slice of a 0-d tensor");
    }
    if (step <= 0) {
        return EXG_SHAPE_FAIL(err, "slice with step %" PRId64, step);
    }
    EXG_TRY(exg_wrap_dim(exg_get_int(&args[1]), in->rank, &dim, err));
    start = clamp_index(&args[2], 0, in->sizes[dim]);
    end = clamp_index(&args[3], in->sizes[dim], in->sizes[dim]);
    end = end < start ? start : end;
    *out = *in;
    out->sizes[dim] = (end - start) / step + ((end - start) % step != 0);
    out->strides[dim] =
        out->sizes[dim] > 1 || step == 1 ? in->strides[dim] * step : in->strides[dim];
    out->offset += out->sizes[dim] > 0 ? start * in->strides[dim] : 0;
    return EXG_OK;
}

exg_status exg_view_select(const exg_argument *args, const exg_strided *in, exg_strided *out,
                           exg_error *err)
{
    uint32_t dim;
    int64_t index = exg_get_int(&args[2]);

    if (in->rank == 0) {
        return EXG_SHAPE_FAIL(err, "select of a 0-d tensor");
    }
    EXG_TRY(exg_wrap_dim(exg_get_int(&args[1]), in->rank, &dim, err));
    if (index < -in->sizes[dim] || index >= in->sizes[dim]) {
        return EXG_SHAPE_FAIL(err, "select of index %" PRId64 " in a dim of size %" PRId64, index,
                              in->sizes[dim]);
    }
    index += index < 0 ? in->sizes[dim] : 0;
    *out = *in;
    out->rank--;
    out->offset += index * in->strides[dim];
    for (uint32_t i = dim; i < out->rank; i++) {
        out->sizes[i] = in->sizes[i + 1];
        out->strides[i] = in->strides[i + 1];
    }
    return EXG_OK;
}

exg_status exg_view_unsqueeze(const exg_argument *args, const exg_strided *in, exg_strided *out,
                              exg_error *err)
{
    uint32_t dim;

    if (in->rank + 1 > EXG_SHAPE_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "a tensor of rank %u", in->rank + 1);
    }
    EXG_TRY(exg_wrap_dim(exg_get_int(&args[1]), in->rank + 1, &dim, err));
    *out = *in;
    out->rank++;
    for (uint32_t i = in->rank; i > dim; i--) {
        out->sizes[i] = in->sizes[i - 1];
        out->strides[i] = in->strides[i - 1];
    }
    out->sizes[dim] = 1;
    out->strides[dim] = dim < in->rank ? in->sizes[dim] * in->strides[dim] : 1;
    return EXG_OK;
}

static void drop_ones(const exg_strided *in, const bool *in_set, exg_strided *out)
{
    *out = *in;
    out->rank = 0;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (in->sizes[i] != 1 || !in_set[i]) {
            out->sizes[out->rank] = in->sizes[i];
            out->strides[out->rank] = in->strides[i];
            out->rank++;
        }
    }
}

exg_status exg_view_squeeze_dims(const exg_argument *args, const exg_strided *in, exg_strided *out,
                                 exg_error *err)
{
    bool in_set[EXG_SHAPE_RANK_MAX] = {false};
    bool none = args[1].kind == EXG_ARGUMENT_INTS && args[1].count == 0;

    if (!none) {
        EXG_TRY(exg_dim_set(&args[1], in->rank, in_set, err));
    }
    drop_ones(in, in_set, out);
    return EXG_OK;
}

exg_status exg_view_squeeze(const exg_argument *args, const exg_strided *in, exg_strided *out,
                            exg_error *err)
{
    bool all[EXG_SHAPE_RANK_MAX];

    (void)args;
    (void)err;
    memset(all, 1, sizeof(all));
    drop_ones(in, all, out);
    return EXG_OK;
}

exg_status exg_view_diagonal(const exg_argument *args, const exg_strided *in, exg_strided *out,
                             exg_error *err)
{
    int64_t offset = exg_get_int(&args[1]);
    uint32_t a;
    uint32_t b;
    int64_t rows;
    int64_t columns;
    uint32_t kept = 0;

    EXG_TRY(exg_wrap_dim(exg_get_int(&args[2]), in->rank, &a, err));
    EXG_TRY(exg_wrap_dim(exg_get_int(&args[3]), in->rank, &b, err));
    if (a == b || in->rank < 2) {
        return EXG_SHAPE_FAIL(err, "diagonal of one dimension");
    }
    rows = in->sizes[a] + (offset < 0 ? offset : 0);
    columns = in->sizes[b] - (offset > 0 ? offset : 0);
    *out = *in;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (i != a && i != b) {
            out->sizes[kept] = in->sizes[i];
            out->strides[kept++] = in->strides[i];
        }
    }
    out->rank = in->rank - 1;
    out->sizes[kept] = rows < columns ? rows : columns;
    out->sizes[kept] = out->sizes[kept] < 0 ? 0 : out->sizes[kept];
    out->strides[kept] = in->strides[a] + in->strides[b];
    if (out->sizes[kept] > 0) {
        out->offset += offset >= 0 ? offset * in->strides[b] : -offset * in->strides[a];
    }
    return EXG_OK;
}

/* (self, dimension, size, step): windows along a dim, their elements as the last one */
exg_status exg_view_unfold(const exg_argument *args, const exg_strided *in, exg_strided *out,
                           exg_error *err)
{
    int64_t size = exg_get_int(&args[2]);
    int64_t step = exg_get_int(&args[3]);
    int64_t stride;
    uint32_t dim = 0;

    if (in->rank > 0) {
        EXG_TRY(exg_wrap_dim(exg_get_int(&args[1]), in->rank, &dim, err));
    }
    if (in->rank + 1 > EXG_SHAPE_RANK_MAX || size < 0 || step < 1 ||
        size > (in->rank == 0 ? 1 : in->sizes[dim])) {
        return EXG_SHAPE_FAIL(err, "unfold: a window larger than the dim, or no step");
    }
    *out = *in;
    out->rank = in->rank + 1;
    out->sizes[in->rank] = size;
    out->strides[in->rank] = 1;
    if (in->rank > 0) {
        stride = in->strides[dim];
        out->strides[in->rank] = stride;
        out->sizes[dim] = (in->sizes[dim] - size) / step + 1;
        if (!exg_mul_i64(stride, out->sizes[dim] > 1 ? step : 1, &out->strides[dim])) {
            return EXG_SHAPE_FAIL(err, "unfold: a step past 2^63");
        }
    }
    return EXG_OK;
}

exg_status exg_view_as_strided(const exg_argument *args, const exg_strided *in, exg_strided *out,
                               exg_error *err)
{
    uint32_t rank = exg_get_ints(&args[1], out->sizes, EXG_SHAPE_RANK_MAX);

    if (rank > EXG_SHAPE_RANK_MAX ||
        exg_get_ints(&args[2], out->strides, EXG_SHAPE_RANK_MAX) != rank) {
        return EXG_SHAPE_FAIL(err, "as_strided with sizes and strides of unlike length");
    }
    out->rank = rank;
    out->offset = exg_is_none(&args[3]) ? 0 : exg_get_int(&args[3]);
    for (uint32_t i = 0; i < rank; i++) {
        if (out->sizes[i] < 0 || out->strides[i] < 0 || out->offset < 0) {
            return EXG_SHAPE_FAIL(err, "as_strided with a negative size, stride or offset");
        }
    }
    return exg_add_i64(out->offset, in->offset, &out->offset)
               ? EXG_OK
               : EXG_SHAPE_FAIL(err, "as_strided: an offset past 2^63");
}

/* ---- lowerings ---------------------------------------------------------------- */

#define SELF exg_get_ref(&args[0])

/* Sizes of a value; rank 0 after an earlier error. */
static exg_strided strided_of(const exg_builder *b, exg_ref ref)
{
    exg_strided s = {0};
    const exg_tensor_meta *meta = exg_ref_meta(b, ref);

    if (meta != NULL) {
        (void)exg_strided_of(meta, &s, NULL);
    }
    return s;
}

/* A dim argument in [0, rank); the emit that follows reports one out of range. */
static uint32_t dim_of(const exg_argument *arg, uint32_t rank)
{
    uint32_t dim = 0;

    (void)exg_wrap_dim(exg_get_int(arg), rank, &dim, NULL);
    return dim;
}

void exg_lower_itself(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, alias_default, SELF));
}

void exg_lower_view(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, view_default, SELF, args[1]));
}

static exg_ref permute_swapped(exg_builder *b, exg_ref x, uint32_t first, uint32_t second)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = strided_of(b, x).rank;

    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = i == first ? second : i == second ? first : i;
    }
    return EMIT(b, permute_default, x, INTS_OF(b, dims, rank));
}

void exg_lower_transpose(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = strided_of(b, SELF).rank;

    results[0] =
        exg_arg_ref(permute_swapped(b, SELF, dim_of(&args[1], rank), dim_of(&args[2], rank)));
}

void exg_lower_t(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(permute_swapped(b, SELF, 0, strided_of(b, SELF).rank == 2 ? 1 : 0));
}

void exg_lower_mT(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = strided_of(b, SELF).rank;

    results[0] = exg_arg_ref(permute_swapped(b, SELF, rank - 2, rank - 1));
}

void exg_lower_numpy_T(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = strided_of(b, SELF).rank;

    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = rank - 1 - i;
    }
    results[0] = exg_arg_ref(EMIT(b, permute_default, SELF, INTS_OF(b, dims, rank)));
}

void exg_lower_movedim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    uint32_t rank = strided_of(b, SELF).rank;
    uint32_t from = dim_of(&args[1], rank);
    uint32_t to = dim_of(&args[2], rank);
    uint32_t next = 0;

    for (uint32_t i = 0; i < rank; i++) {
        if (i == to) {
            dims[i] = from;
        } else {
            next += next == from;
            dims[i] = next++;
        }
    }
    results[0] = exg_arg_ref(EMIT(b, permute_default, SELF, INTS_OF(b, dims, rank)));
}

void exg_lower_squeeze(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t dims[EXG_SHAPE_RANK_MAX];
    exg_strided s = strided_of(b, SELF);
    uint32_t count = 0;

    for (uint32_t i = 0; i < s.rank; i++) {
        if (s.sizes[i] == 1) {
            dims[count++] = i;
        }
    }
    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, SELF, INTS_OF(b, dims, count)));
}

void exg_lower_squeeze_dim(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, SELF, INTS(b, exg_get_int(&args[1]))));
}

void exg_lower_squeeze_dims(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, squeeze_dims, SELF, args[1]));
}

void exg_lower_unsqueeze(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, unsqueeze_default, SELF, args[1]));
}

/* A view where the strides allow it, else a view of a copy. */
static exg_ref reshape(exg_builder *b, exg_ref x, exg_argument size)
{
    const exg_argument view_args[] = {exg_arg_ref(x), size};
    exg_strided in = strided_of(b, x);
    exg_strided out;

    if (exg_builder_status(b) == EXG_OK && exg_view_view(view_args, &in, &out, NULL) != EXG_OK) {
        x = exg_lower_row_major(b, x);
    }
    return EMIT(b, view_default, x, size);
}

void exg_lower_reshape(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(reshape(b, SELF, args[1]));
}

void exg_lower_flatten(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_strided s = strided_of(b, SELF);
    uint32_t first = dim_of(&args[1], s.rank);
    uint32_t last = dim_of(&args[2], s.rank);
    int64_t sizes[EXG_SHAPE_RANK_MAX + 1];
    uint32_t rank = 0;

    if (s.rank > 0 && first == last) {
        results[0] = exg_arg_ref(EMIT(b, alias_default, SELF));
        return;
    }
    for (uint32_t i = 0; i < s.rank; i++) {
        if (i > first && i <= last) {
            sizes[rank - 1] *= s.sizes[i];
        } else {
            sizes[rank++] = s.sizes[i];
        }
    }
    if (s.rank == 0) {
        sizes[rank++] = 1;
    }
    results[0] = exg_arg_ref(reshape(b, SELF, INTS_OF(b, sizes, rank)));
}

void exg_lower_unflatten(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_strided s = strided_of(b, SELF);
    uint32_t dim = dim_of(&args[1], s.rank);
    int64_t parts[EXG_SHAPE_RANK_MAX];
    int64_t sizes[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[2], parts, EXG_SHAPE_RANK_MAX);
    int64_t known = 1;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < count && i < EXG_SHAPE_RANK_MAX; i++) {
        if (parts[i] != -1 && !exg_mul_i64(known, parts[i], &known)) {
            known = 0; /* the view is refused */
        }
    }
    for (uint32_t i = 0; i < s.rank; i++) {
        if (i != dim) {
            sizes[rank++] = s.sizes[i];
            continue;
        }
        for (uint32_t p = 0; p < count && p < EXG_SHAPE_RANK_MAX; p++) {
            sizes[rank++] = parts[p] == -1 && known > 0 ? s.sizes[dim] / known : parts[p];
        }
    }
    results[0] = exg_arg_ref(EMIT(b, view_default, SELF, INTS_OF(b, sizes, rank)));
}

static exg_argument sizes_of(exg_builder *b, exg_ref x)
{
    exg_strided s = strided_of(b, x);

    return INTS_OF(b, s.sizes, s.rank);
}

void exg_lower_view_as(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(reshape(b, SELF, sizes_of(b, exg_get_ref(&args[1]))));
}

void exg_lower_expand_as(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument sizes = sizes_of(b, exg_get_ref(&args[1]));

    results[0] = exg_arg_ref(EMIT(b, expand_default, SELF, sizes));
}

void exg_lower_broadcast_to(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, expand_default, SELF, args[1]));
}

void exg_lower_narrow(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_strided s = strided_of(b, SELF);
    int64_t start = exg_get_int(&args[2]);
    uint32_t dim = dim_of(&args[1], s.rank);
    int64_t end;

    start += start < 0 && s.rank > 0 ? s.sizes[dim] : 0;
    end = exg_add_i64(start, exg_get_int(&args[3]), &end) ? end : INT64_MAX;
    results[0] = exg_arg_ref(EMIT(b, slice_Tensor, SELF, dim, start, end, 1));
}

/* ---- of complex numbers, where there are none (complex.def has the others) ------------------- */

void exg_lower_real_alias(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, alias_default, SELF));
}

void exg_lower_real_clone(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, clone_default, SELF));
}

void exg_lower_real_mT(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, mT_default, SELF));
}

void exg_lower_no_imag(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_error err;

    (void)args;
    (void)results;
    (void)EXG_SHAPE_FAIL(&err, "the imaginary part of real numbers");
    exg_builder_fail(b, &err);
}

void exg_lower_as_strided(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, as_strided_default, args[0], args[1], args[2], args[3]));
}
