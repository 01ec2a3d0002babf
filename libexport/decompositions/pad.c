/* pad.c - lowerings of pad.def: edges filled with numbers, or with what the tensor has. */
#include "libexport/operators/lower.h"
#include "libexport/operators/shape.h"
#include <exg/operator_id_new.h>

#include <string.h>

#define EXG_ROWS "libexport/operators/index.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/pad.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

typedef enum pad_mode { PAD_REFLECT, PAD_REPLICATE, PAD_CIRCULAR } pad_mode;

/* May a dim of `size` be padded so? */
static bool is_paddable(int64_t size, const int64_t *two, pad_mode mode)
{
    int64_t most = mode == PAD_REFLECT ? size - 1 : mode == PAD_CIRCULAR ? size : INT64_MAX;

    return size > 0 && size + two[0] + two[1] >= 0 && two[0] <= most && two[1] <= most;
}

/* (self, pad, mode) */
exg_status exg_shape_edge_pad(exg_shape_call *call, exg_error *err)
{
    int64_t n[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&call->args[1], n, 2 * EXG_SHAPE_RANK_MAX) / 2;
    int64_t mode = exg_get_int(&call->args[2]);
    exg_dims in;

    EXG_TRY(exg_dims_of(exg_shape_input(call, 0), &in, err));
    for (uint32_t i = 0; i < count && i < in.rank; i++) {
        if (n[2 * i] < 0 || n[2 * i + 1] < 0 || mode < PAD_REFLECT || mode > PAD_CIRCULAR ||
            (n[2 * i] + n[2 * i + 1] > 0 &&
             !is_paddable(EXG_END(in, i + 1), &n[2 * i], (pad_mode)mode))) {
            return EXG_SHAPE_FAIL(err, "edges that the tensor has not");
        }
    }
    return exg_shape_constant_pad_nd(call, err);
}

/* x without what negative numbers of `n` cut off. */
static exg_ref cut(exg_builder *b, exg_ref x, const int64_t *n, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        exg_dims dims = exg_lower_dims(b, x);
        uint32_t dim = i < dims.rank ? dims.rank - 1 - i : 0;
        int64_t before = n[2 * i] < 0 ? -n[2 * i] : 0;
        int64_t after = n[2 * i + 1] < 0 ? -n[2 * i + 1] : 0;

        if (before > 0 || after > 0) {
            x = exg_lower_slice(b, x, dim, before, EXG_END(dims, i + 1) - before - after);
        }
    }
    return x;
}

/* x with every place beyond the last `count` dims brought inside: `n` has what comes before and
 * behind, the last dim first. */
static exg_ref padded(exg_builder *b, exg_ref x, const int64_t *n, uint32_t count, pad_mode mode)
{
    exg_dims dims = exg_lower_dims(b, x);
    int64_t added[2 * EXG_SHAPE_RANK_MAX];
    bool adds = false;

    for (uint32_t i = 0; i < count; i++) {
        int64_t size = EXG_END(dims, i + 1);
        int64_t *two = &added[2 * i];

        for (uint32_t side = 0; side < 2; side++) {
            two[side] = n[2 * i + side] > 0 ? n[2 * i + side] : 0;
            /* what is cut off does not return */
            size += mode == PAD_CIRCULAR && n[2 * i + side] < 0 ? n[2 * i + side] : 0;
        }
        if (mode == PAD_CIRCULAR && two[0] == 0 && two[1] == 0 && size >= 0) {
            continue; /* only cut off */
        }
        if ((n[2 * i] != 0 || n[2 * i + 1] != 0) &&
            !is_paddable(size, mode == PAD_CIRCULAR ? two : &n[2 * i], mode)) {
            exg_lower_refuse(b, "padding as large as the tensor, or larger");
            return x;
        }
        adds = adds || two[0] > 0 || two[1] > 0;
    }
    x = mode == PAD_CIRCULAR ? cut(b, x, n, count) : x;
    x = adds ? EMIT(b, edge_pad, x, INTS_OF(b, added, 2 * count), (int)mode) : x;
    return mode == PAD_CIRCULAR ? x : cut(b, x, n, count);
}

/* `pads` speaks of the last dim first. */
static exg_ref all_padded(exg_builder *b, exg_ref x, const exg_argument *pads, pad_mode mode)
{
    int64_t n[2 * EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(pads, n, 2 * EXG_SHAPE_RANK_MAX);
    bool is_part = true; /* of the tensor, or all of it: no memory of its own */

    if (count % 2 != 0 || count / 2 > exg_lower_dims(b, x).rank) {
        exg_lower_refuse(b, "padding wants two numbers a dim");
        return x;
    }
    for (uint32_t i = 0; i < count; i++) {
        is_part = is_part && n[i] <= 0;
    }
    x = padded(b, x, n, count / 2, mode);
    return is_part ? EMIT(b, clone_default, x) : x;
}

void exg_lower_reflection_pad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(all_padded(b, SELF, &args[1], PAD_REFLECT));
}

void exg_lower_replication_pad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(all_padded(b, SELF, &args[1], PAD_REPLICATE));
}

/* (self, pad, mode, value?) */
void exg_lower_pad(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    const char *mode = args[2].as_string;

    if (strcmp(mode, "constant") == 0) {
        results[0] = exg_arg_ref(EMIT(b, constant_pad_nd_default, SELF, args[1],
                                      exg_is_none(&args[3]) ? exg_arg_int(0) : args[3]));
    } else if (strcmp(mode, "reflect") == 0) {
        exg_lower_reflection_pad(b, args, results);
    } else if (strcmp(mode, "replicate") == 0) {
        exg_lower_replication_pad(b, args, results);
    } else if (strcmp(mode, "circular") == 0) {
        results[0] = exg_arg_ref(all_padded(b, SELF, &args[1], PAD_CIRCULAR));
    } else {
        exg_lower_refuse(b, "pad has the modes constant, reflect, replicate, circular");
    }
}

/* (sequences, batch_first, value, side): all as long as the longest. */
void exg_lower_pad_sequence(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = args[0].count;
    exg_ref *padded = exg_lower_new_refs(b, count);
    bool at_end = strcmp(args[3].as_string, "left") != 0;
    int64_t longest = 0;

    for (uint32_t k = 0; k < count; k++) {
        int64_t length = exg_lower_dims(b, exg_lower_item(&args[0], k)).n[0];

        longest = length > longest ? length : longest;
    }
    for (uint32_t k = 0; padded != NULL && k < count; k++) {
        exg_dims dims = exg_lower_dims(b, exg_lower_item(&args[0], k));
        int64_t pad[2 * EXG_SHAPE_RANK_MAX] = {0}; /* pairs from the last dim on */

        if (dims.rank == 0) {
            exg_lower_refuse(b, "a sequence has a length");
            return;
        }
        pad[2 * dims.rank - 2 + at_end] = longest - dims.n[0];
        padded[k] = EMIT(b, constant_pad_nd_default, exg_lower_item(&args[0], k),
                         INTS_OF(b, pad, 2 * dims.rank), args[2]);
    }
    if (padded != NULL) {
        results[0] = exg_arg_ref(
            EMIT(b, stack_default, exg_arg_refs(b, padded, count), exg_get_bool(&args[1]) ? 0 : 1));
    }
}

/* (grad_output, self, padding): what stands in several places comes together. */
static void pad_backward(exg_builder *b, const exg_argument *args, pad_mode mode,
                         exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, exg_get_ref(&args[1]));
    exg_ref g = exg_lower_wide(b, SELF);
    int64_t n[6];
    uint32_t count = exg_get_ints(&args[2], n, 6) / 2;

    if (count > 3 || in.rank < count || exg_lower_dims(b, SELF).rank != in.rank) {
        exg_lower_refuse(b, "padding of other dims than it says");
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        uint32_t d = in.rank - 1 - k;
        exg_ref place = exg_lower_steps(b, in.n[d], EXG_DTYPE_I64, 0, 1);

        g = exg_lower_added(b, g, d, in.n[d], padded(b, place, &n[2 * k], 1, mode));
    }
    results[0] = exg_arg_ref(exg_lower_cast(b, g, exg_lower_dtype(b, SELF)));
}

void exg_lower_reflection_pad_backward(exg_builder *b, const exg_argument *args,
                                       exg_argument *results)
{
    pad_backward(b, args, PAD_REFLECT, results);
}

void exg_lower_replication_pad_backward(exg_builder *b, const exg_argument *args,
                                        exg_argument *results)
{
    pad_backward(b, args, PAD_REPLICATE, results);
}
