/* pieces.c - see pieces.h. */
#include "libexec/kernels/pieces.h"
#include "libexec/kernels/cpu/common.h"

static exg_pieces *pieces_new(exg_kernel_call *call, uint32_t count, exg_error *err)
{
    exg_pieces *p = exg_arena_alloc(call->arena, 1, sizeof(exg_pieces) + count * sizeof(exg_piece));

    if (p == NULL) {
        EXG_OUT_OF_MEMORY(err);
    }
    return p;
}

static exg_piece *add(exg_pieces *p, uint32_t input, uint32_t rank, const int64_t *sizes,
                      const int64_t *to_strides, const int64_t *from_strides)
{
    exg_piece *piece = &p->items[p->count++];

    piece->input = input;
    piece->rank = rank;
    memcpy(piece->sizes, sizes, rank * sizeof(*sizes));
    memcpy(piece->to_strides, to_strides, rank * sizeof(*sizes));
    memcpy(piece->from_strides, from_strides, rank * sizeof(*sizes));
    return piece;
}

/* ---- cat ----------------------------------------------------------------------- */

exg_status exg_pieces_of_cat(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 1, out->rank);
    exg_pieces *p = *pieces = pieces_new(call, call->input_count, err);
    int64_t at = 0;

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    for (uint32_t i = 0; i < call->input_count; i++) {
        const exg_tensor *in = &call->inputs[i];

        if (in->rank == 1 && in->sizes[0] == 0) {
            continue; /* an empty vector goes with everything */
        }
        if (in->dtype != out->dtype) {
            return EXG_FAIL(err, UNSUPPORTED, "KRN-006", "cat of %s into %s",
                            exg_dtype_name(in->dtype), exg_dtype_name(out->dtype));
        }
        add(p, i, in->rank, in->sizes, out->strides, in->strides)->to = at * out->strides[dim];
        at += in->sizes[dim];
    }
    return EXG_OK;
}

/* ---- constant_pad_nd ------------------------------------------------------------- */

exg_status exg_pieces_of_constant_pad_nd(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    int64_t pad[2 * EXG_RANK_MAX];
    uint32_t count = exg_call_ints(call, 1, pad, 2 * EXG_RANK_MAX);
    exg_pieces *p = *pieces = pieces_new(call, 1, err);
    exg_piece *piece;

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    if (!exg_call_element(call, 2, out->dtype, p->element)) {
        return exg_unsupported_dtype("constant_pad_nd", out->dtype, err);
    }
    piece = add(p, 0, in->rank, in->sizes, out->strides, in->strides);
    for (uint32_t i = 0; 2 * i + 1 < count; i++) {
        uint32_t d = in->rank - 1 - i;
        int64_t before = pad[2 * i];
        int64_t after = pad[2 * i + 1];

        p->fills = p->fills || before > 0 || after > 0;
        piece->sizes[d] += EXG_MIN(before, 0) + EXG_MIN(after, 0);
        piece->sizes[d] = EXG_MAX(piece->sizes[d], 0);
        piece->to += EXG_MAX(before, 0) * out->strides[d];
        piece->from -= EXG_MIN(before, 0) * in->strides[d];
    }
    return EXG_OK;
}

/* ---- flip, roll ------------------------------------------------------------------- */

exg_status exg_pieces_of_flip(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    int64_t dims[EXG_RANK_MAX];
    uint32_t count = exg_call_ints(call, 1, dims, EXG_RANK_MAX);
    exg_pieces *p = *pieces = pieces_new(call, 1, err);
    exg_piece *piece;

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    piece = add(p, 0, in->rank, in->sizes, call->outputs[0].strides, in->strides);
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + in->rank : dims[i];

        piece->from += (in->sizes[d] - 1) * in->strides[d];
        piece->from_strides[d] = -in->strides[d];
    }
    return EXG_OK;
}

/* One of the 2^n boxes that rolling n dimensions leaves together: bit i of `which`
 * says whether dimension i is taken from its end. */
static void roll_box(exg_piece *piece, uint32_t which, const int64_t *shifts)
{
    for (uint32_t d = 0, bit = 0; d < piece->rank; d++) {
        if (shifts[d] == 0) {
            continue;
        }
        if ((which >> bit & 1) != 0) {
            piece->from += (piece->sizes[d] - shifts[d]) * piece->from_strides[d];
            piece->sizes[d] = shifts[d];
        } else {
            piece->to += shifts[d] * piece->to_strides[d];
            piece->sizes[d] -= shifts[d];
        }
        bit++;
    }
}

exg_status exg_pieces_of_roll(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    int64_t shifts[EXG_RANK_MAX];
    int64_t dims[EXG_RANK_MAX];
    int64_t by_dim[EXG_RANK_MAX] = {0};
    int64_t flat[EXG_RANK_MAX] = {exg_tensor_numel(in)};
    int64_t one[EXG_RANK_MAX] = {1};
    uint32_t shift_count = exg_call_ints(call, 1, shifts, EXG_RANK_MAX);
    bool is_flat = exg_call_ints(call, 2, dims, EXG_RANK_MAX) == 0 || in->rank == 0;
    const int64_t *sizes = is_flat ? flat : in->sizes;
    const int64_t *strides = is_flat ? one : call->outputs[0].strides;
    uint32_t rank = is_flat ? 1 : in->rank;
    uint32_t rolled = 0;
    exg_pieces *p;

    for (uint32_t i = 0; i < shift_count; i++) {
        int64_t d = is_flat ? 0 : dims[i] < 0 ? dims[i] + in->rank : dims[i];

        if (sizes[d] > 0) {
            by_dim[d] = ((by_dim[d] + shifts[i] % sizes[d]) % sizes[d] + sizes[d]) % sizes[d];
        }
    }
    for (uint32_t d = 0; d < rank; d++) {
        rolled += by_dim[d] != 0;
    }
    p = *pieces = pieces_new(call, 1u << rolled, err);
    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    for (uint32_t which = 0; which < 1u << rolled; which++) {
        roll_box(add(p, 0, rank, sizes, strides, strides), which, by_dim);
    }
    return EXG_OK;
}

/* ---- windows replaced ---------------------------------------------------------------- */

/* A copy of self in which a window is src; the window is given by sizes, strides and offset
 * in elements of the result. */
static exg_status window(exg_kernel_call *call, uint32_t rank, const int64_t *sizes,
                         const int64_t *strides, int64_t offset, exg_pieces **pieces,
                         exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *src = &call->inputs[1];
    const exg_tensor *out = &call->outputs[0];
    exg_pieces *p = *pieces = pieces_new(call, 2, err);

    if (p == NULL) {
        return EXG_NO_MEMORY;
    }
    if (self->dtype != out->dtype || src->dtype != out->dtype) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-003", "a window of %s written with %s",
                        exg_dtype_name(self->dtype), exg_dtype_name(src->dtype));
    }
    p->keeps_self = true;
    add(p, 0, self->rank, self->sizes, out->strides, self->strides);
    add(p, 1, rank, sizes, strides, src->strides)->to = offset;
    return EXG_OK;
}

/* A bound of a slice: absent, from the end when negative, clamped. */
static int64_t slice_bound(const exg_kernel_call *call, uint32_t position, int64_t size,
                           int64_t absent)
{
    int64_t bound;

    if (exg_call_is_none(call, position)) {
        return absent;
    }
    bound = exg_call_int(call, position);
    bound = bound < 0 ? bound + size : bound;
    return bound < 0 ? 0 : EXG_MIN(bound, size);
}

exg_status exg_pieces_of_slice_scatter(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 2, out->rank);
    int64_t strides[EXG_RANK_MAX];
    int64_t start = slice_bound(call, 3, out->sizes[dim], 0);

    memcpy(strides, out->strides, sizeof(strides));
    strides[dim] *= exg_call_int(call, 5);
    return window(call, out->rank, call->inputs[1].sizes, strides, start * out->strides[dim],
                  pieces, err);
}

exg_status exg_pieces_of_select_scatter(exg_kernel_call *call, exg_pieces **pieces, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    uint32_t dim = exg_call_dim(call, 2, out->rank);
    int64_t index = exg_call_int(call, 3);
    int64_t strides[EXG_RANK_MAX];

    index = index < 0 ? index + out->sizes[dim] : index;
    if (index < 0 || index >= out->sizes[dim]) {
        return EXG_FAIL(err, USAGE, "KRN-004", "index %lld is outside a dimension of %lld",
                        (long long)index, (long long)out->sizes[dim]);
    }
    for (uint32_t d = 0, k = 0; d < out->rank; d++) {
        if (d != dim) {
            strides[k++] = out->strides[d];
        }
    }
    return window(call, out->rank - 1, call->inputs[1].sizes, strides, index * out->strides[dim],
                  pieces, err);
}

exg_status exg_pieces_of_diagonal_scatter(exg_kernel_call *call, exg_pieces **pieces,
                                          exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    int64_t offset = exg_call_int(call, 2);
    uint32_t dim1 = exg_call_dim(call, 3, out->rank);
    uint32_t dim2 = exg_call_dim(call, 4, out->rank);
    int64_t strides[EXG_RANK_MAX];
    uint32_t rank = 0;

    for (uint32_t d = 0; d < out->rank; d++) {
        if (d != dim1 && d != dim2) {
            strides[rank++] = out->strides[d];
        }
    }
    strides[rank++] = out->strides[dim1] + out->strides[dim2];
    return window(call, rank, call->inputs[1].sizes, strides,
                  offset >= 0 ? offset * out->strides[dim2] : -offset * out->strides[dim1], pieces,
                  err);
}

exg_status exg_pieces_of_as_strided_scatter(exg_kernel_call *call, exg_pieces **pieces,
                                            exg_error *err)
{
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
    uint32_t rank = exg_call_ints(call, 2, sizes, EXG_RANK_MAX);
    int64_t offset = exg_call_is_none(call, 4) ? 0 : exg_call_int(call, 4);
    int64_t last = offset;

    exg_call_ints(call, 3, strides, EXG_RANK_MAX);
    for (uint32_t d = 0; d < rank; d++) {
        last += (sizes[d] - 1) * strides[d];
    }
    if (offset < 0 || last >= exg_tensor_numel(&call->outputs[0])) {
        return EXG_FAIL(err, USAGE, "KRN-005", "the strided window ends at element %lld of %lld",
                        (long long)last, (long long)exg_tensor_numel(&call->outputs[0]));
    }
    return window(call, rank, sizes, strides, offset, pieces, err);
}
