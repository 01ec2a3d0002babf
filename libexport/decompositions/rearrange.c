/* rearrange.c - lowerings of rearrange.def: elements moved, nothing computed. */
#include "libexport/operators/lower.h"

#include <string.h>

#define EXG_ROWS "libexport/operators/rearrange.def"
#include "libexport/operators/rows.h"
#define EXG_ROWS "libexport/operators/view.def"
#include "libexport/operators/rows.h"

#define SELF exg_get_ref(&args[0])

/* ---- shapes ------------------------------------------------------------------------------ */

static exg_ref at_least(exg_builder *b, exg_ref x, uint32_t rank)
{
    exg_dims in = exg_lower_dims(b, x);

    if (in.rank == 0 && rank >= 1) {
        x = EMIT(b, view_default, x, INTS(b, 1));
        in.rank = 1;
    }
    if (in.rank == 1 && rank >= 2) {
        x = EMIT(b, unsqueeze_default, x, 0);
        in.rank = 2;
    }
    return in.rank == 2 && rank >= 3 ? EMIT(b, unsqueeze_default, x, -1) : x;
}

void exg_lower_atleast_1d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(at_least(b, SELF, 1));
}

void exg_lower_atleast_2d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(at_least(b, SELF, 2));
}

void exg_lower_atleast_3d(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(at_least(b, SELF, 3));
}

static void all_at_least(exg_builder *b, const exg_argument *list, uint32_t rank,
                         exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, list->count);

    for (uint32_t i = 0; refs != NULL && i < list->count; i++) {
        refs[i] = at_least(b, exg_lower_item(list, i), rank);
    }
    results[0] = refs == NULL ? exg_arg_none() : exg_arg_refs(b, refs, list->count);
}

void exg_lower_atleast_1d_each(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    all_at_least(b, &args[0], 1, results);
}

void exg_lower_atleast_2d_each(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    all_at_least(b, &args[0], 2, results);
}

void exg_lower_atleast_3d_each(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    all_at_least(b, &args[0], 3, results);
}

void exg_lower_ravel(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(exg_lower_flat(b, SELF));
}

/* movedim.intlist: the named dims go to their places, the others keep their order. */
void exg_lower_movedims(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    int64_t from[EXG_SHAPE_RANK_MAX];
    int64_t to[EXG_SHAPE_RANK_MAX];
    int64_t order[EXG_SHAPE_RANK_MAX];
    bool moved[EXG_SHAPE_RANK_MAX] = {false};
    bool filled[EXG_SHAPE_RANK_MAX] = {false};
    uint32_t count = exg_get_ints(&args[1], from, EXG_SHAPE_RANK_MAX);
    uint32_t next = 0;

    if (exg_get_ints(&args[2], to, EXG_SHAPE_RANK_MAX) != count || count > rank) {
        exg_lower_refuse(b, "movedim names other numbers of dims");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t source = exg_lower_dim(b, from[i], rank);
        uint32_t target = exg_lower_dim(b, to[i], rank);

        if (moved[source] || filled[target]) {
            exg_lower_refuse(b, "movedim names a dim twice");
            return;
        }
        order[target] = source;
        moved[source] = filled[target] = true;
    }
    for (uint32_t d = 0; d < rank; d++) {
        if (!filled[d]) {
            while (moved[next]) {
                next++;
            }
            order[d] = next++;
        }
    }
    results[0] = exg_arg_ref(EMIT(b, permute_default, SELF, INTS_OF(b, order, rank)));
}

/* Some leading dims split, all permuted, joined again. */
static exg_ref rearranged(exg_builder *b, exg_ref x, const exg_dims *split, const int64_t *order,
                          const exg_dims *joined)
{
    x = EMIT(b, reshape_default, x, INTS_OF(b, split->n, split->rank));
    x = EMIT(b, permute_default, x, INTS_OF(b, order, split->rank));
    return exg_lower_shaped(b, x, joined);
}

/* (..., C r r, H, W) -> (..., C, H r, W r), or back. */
static exg_ref shuffled(exg_builder *b, exg_ref x, int64_t r, bool back)
{
    exg_dims in = exg_lower_dims(b, x);
    uint32_t k = in.rank - 3;
    exg_dims split = {.rank = in.rank + 2};
    exg_dims joined = in;
    int64_t order[EXG_SHAPE_RANK_MAX];

    if (in.rank < 3 || in.rank + 2 > EXG_SHAPE_RANK_MAX || r < 1 || r > INT32_MAX ||
        (back ? in.n[k + 1] % r != 0 || in.n[k + 2] % r != 0 : in.n[k] % (r * r) != 0)) {
        exg_lower_refuse(b, "sizes that the factor of a pixel shuffle does not divide");
        return x;
    }
    for (uint32_t d = 0; d < k; d++) {
        split.n[d] = in.n[d];
    }
    for (uint32_t d = 0; d < split.rank; d++) {
        order[d] = d;
    }
    if (back) {
        memcpy(&split.n[k], (int64_t[]){in.n[k], in.n[k + 1] / r, r, in.n[k + 2] / r, r},
               5 * sizeof(int64_t));
        memcpy(&order[k], (int64_t[]){k, k + 2, k + 4, k + 1, k + 3}, 5 * sizeof(int64_t));
        memcpy(&joined.n[k], (int64_t[]){in.n[k] * r * r, in.n[k + 1] / r, in.n[k + 2] / r},
               3 * sizeof(int64_t));
    } else {
        memcpy(&split.n[k], (int64_t[]){in.n[k] / (r * r), r, r, in.n[k + 1], in.n[k + 2]},
               5 * sizeof(int64_t));
        memcpy(&order[k], (int64_t[]){k, k + 3, k + 1, k + 4, k + 2}, 5 * sizeof(int64_t));
        memcpy(&joined.n[k], (int64_t[]){in.n[k] / (r * r), in.n[k + 1] * r, in.n[k + 2] * r},
               3 * sizeof(int64_t));
    }
    return rearranged(b, x, &split, order, &joined);
}

void exg_lower_pixel_shuffle(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(shuffled(b, SELF, exg_get_int(&args[1]), false));
}

void exg_lower_pixel_unshuffle(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(shuffled(b, SELF, exg_get_int(&args[1]), true));
}

void exg_lower_channel_shuffle(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t groups = exg_get_int(&args[1]);
    exg_dims split = {.rank = in.rank + 1};
    exg_ref x;

    if (in.rank < 3 || groups < 1 || in.n[1] % groups != 0) {
        exg_lower_refuse(b, "channels that the groups do not divide");
        return;
    }
    split.n[0] = in.n[0];
    split.n[1] = groups;
    split.n[2] = in.n[1] / groups;
    memcpy(&split.n[3], &in.n[2], (in.rank - 2) * sizeof(int64_t));
    x = exg_lower_swapped(b, exg_lower_shaped(b, SELF, &split), 1, 2);
    results[0] = exg_arg_ref(exg_lower_shaped(b, x, &in));
}

/* ---- repeated ------------------------------------------------------------------------------ */

void exg_lower_tile(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t times[EXG_SHAPE_RANK_MAX];
    int64_t all[EXG_SHAPE_RANK_MAX];
    uint32_t count = exg_get_ints(&args[1], times, EXG_SHAPE_RANK_MAX);
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    uint32_t wide = rank > count ? rank : count;

    for (uint32_t d = 0; d < wide; d++) {
        all[d] = d < wide - count ? 1 : times[d - (wide - count)];
    }
    results[0] = exg_arg_ref(EMIT(b, repeat_default, SELF, INTS_OF(b, all, wide)));
}

/* repeat_interleave.self_int(self, repeats, dim?, output_size?) */
void exg_lower_repeat_interleave(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool flat = exg_is_none(&args[2]);
    exg_ref x = flat ? exg_lower_flat(b, SELF) : SELF;
    exg_dims in = exg_lower_dims(b, x);
    uint32_t dim = flat ? 0 : exg_lower_dim(b, exg_get_int(&args[2]), in.rank);
    int64_t times = exg_get_int(&args[1]);
    exg_dims wide = {.rank = in.rank + 1};
    int64_t whole;

    if (in.rank == 0 || times < 0 || !exg_mul_i64(in.n[dim], times, &whole)) {
        exg_lower_refuse(b, "repeat_interleave of a 0-d tensor or a negative count");
        return;
    }
    memcpy(wide.n, in.n, (dim + 1) * sizeof(int64_t));
    wide.n[dim + 1] = times;
    memcpy(&wide.n[dim + 2], &in.n[dim + 1], (in.rank - dim - 1) * sizeof(int64_t));
    x = EMIT(b, unsqueeze_default, x, (int)dim + 1);
    x = EMIT(b, clone_default, EMIT(b, expand_default, x, INTS_OF(b, wide.n, wide.rank)));
    in.n[dim] = whole;
    results[0] = exg_arg_ref(exg_lower_shaped(b, x, &in));
}

void exg_lower_broadcast_tensors(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, args[0].count);
    exg_dims common = {.rank = 0};

    for (uint32_t i = 0; i < args[0].count; i++) {
        exg_dims in = exg_lower_dims(b, exg_lower_item(&args[0], i));
        exg_dims before = common;

        if (exg_broadcast(&before, &in, &common, NULL) != EXG_OK) {
            exg_lower_refuse(b, "shapes that do not broadcast");
            return;
        }
    }
    for (uint32_t i = 0; refs != NULL && i < args[0].count; i++) {
        refs[i] =
            EMIT(b, expand_default, exg_lower_item(&args[0], i), INTS_OF(b, common.n, common.rank));
    }
    results[0] = refs == NULL ? exg_arg_none() : exg_arg_refs(b, refs, args[0].count);
}

/* The k-th tensor lies along dim k; with "xy" the first two change places. */
static void meshgrid(exg_builder *b, const exg_argument *list, bool swap, exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, list->count);
    uint32_t count = list->count;
    exg_dims wide = {.rank = count};

    if (refs == NULL || count == 0 || count > EXG_SHAPE_RANK_MAX) {
        exg_lower_refuse(b, "meshgrid of no tensors, or too many");
        return;
    }
    swap = swap && count > 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim = swap && i < 2 ? 1 - i : i;

        wide.n[dim] = exg_lower_numel(b, exg_lower_item(list, i));
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t dim = swap && i < 2 ? 1 - i : i;
        exg_dims one = {.rank = count};

        for (uint32_t d = 0; d < count; d++) {
            one.n[d] = d == dim ? wide.n[d] : 1;
        }
        refs[i] = EMIT(b, expand_default, exg_lower_shaped(b, exg_lower_item(list, i), &one),
                       INTS_OF(b, wide.n, count));
    }
    results[0] = exg_arg_refs(b, refs, count);
}

void exg_lower_meshgrid(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    meshgrid(b, &args[0], false, results);
}

void exg_lower_meshgrid_indexing(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    meshgrid(b, &args[0], strcmp(args[1].as_string, "xy") == 0, results);
}

/* ---- joined ----------------------------------------------------------------------------- */

static void joined(exg_builder *b, const exg_argument *list, uint32_t rank, uint32_t dim,
                   exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, list->count);

    for (uint32_t i = 0; refs != NULL && i < list->count; i++) {
        refs[i] = at_least(b, exg_lower_item(list, i), rank);
    }
    if (refs != NULL && list->count > 0) {
        results[0] =
            exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, refs, list->count), (int)dim));
    }
}

void exg_lower_hstack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    bool flat = args[0].count == 0 || exg_lower_dims(b, exg_lower_item(&args[0], 0)).rank <= 1;

    joined(b, &args[0], 1, flat ? 0 : 1, results);
}

void exg_lower_vstack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    joined(b, &args[0], 2, 0, results);
}

void exg_lower_dstack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    joined(b, &args[0], 3, 2, results);
}

/* Vectors are columns. */
void exg_lower_column_stack(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, args[0].count);

    for (uint32_t i = 0; refs != NULL && i < args[0].count; i++) {
        exg_ref x = exg_lower_item(&args[0], i);

        refs[i] = exg_lower_dims(b, x).rank <= 1
                      ? EMIT(b, reshape_default, x, INTS(b, exg_lower_numel(b, x), 1))
                      : x;
    }
    if (refs != NULL) {
        results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, refs, args[0].count), 1));
    }
}

/* Rows of one block, zeros beside it. */
void exg_lower_block_diag(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref *refs = exg_lower_new_refs(b, args[0].count);
    int64_t width = 0;
    int64_t at = 0;

    for (uint32_t i = 0; refs != NULL && i < args[0].count; i++) {
        refs[i] = at_least(b, exg_lower_item(&args[0], i), 2);
        width += exg_lower_dims(b, refs[i]).n[1];
    }
    for (uint32_t i = 0; refs != NULL && i < args[0].count; i++) {
        int64_t columns = exg_lower_dims(b, refs[i]).n[1];

        refs[i] = EMIT(b, constant_pad_nd_default, refs[i], INTS(b, at, width - at - columns), 0);
        at += columns;
    }
    if (refs != NULL) {
        results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, refs, args[0].count), 0));
    }
}

void exg_lower_cartesian_prod(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_argument grid = exg_arg_none();
    uint32_t count = args[0].count;
    exg_ref *refs = exg_lower_new_refs(b, count);

    if (count == 1) {
        results[0] = exg_arg_ref(EMIT(b, alias_default, exg_lower_item(&args[0], 0)));
        return;
    }
    meshgrid(b, &args[0], false, &grid);
    for (uint32_t i = 0; refs != NULL && grid.kind == EXG_ARGUMENT_TENSORS && i < count; i++) {
        exg_ref x = exg_lower_item(&grid, i);

        refs[i] = EMIT(b, reshape_default, x, INTS(b, exg_lower_numel(b, x), 1));
    }
    if (refs != NULL) {
        results[0] = exg_arg_ref(EMIT(b, cat_default, exg_arg_refs(b, refs, count), 1));
    }
}

/* ---- parted ----------------------------------------------------------------------------- */

/* `count` parts of `size` along dim, the last as long as what is left. */
static void split_evenly(exg_builder *b, exg_ref x, uint32_t dim, int64_t size, int64_t count,
                         exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, x);
    exg_ref *parts;

    if (in.rank == 0 || size < 0 || count < 1 || (size == 0 && in.n[dim] > 0)) {
        exg_lower_refuse(b, "split of a 0-d tensor, or into no parts");
        return;
    }
    parts = exg_lower_new_refs(b, count);
    for (int64_t i = 0; parts != NULL && i < count; i++) {
        int64_t start = i * size;

        parts[i] = exg_lower_slice(b, x, dim, start, i + 1 < count ? size : in.n[dim] - start);
    }
    results[0] = parts == NULL ? exg_arg_none() : exg_arg_refs(b, parts, (uint32_t)count);
}

/* Its size, 0 of a 0-d tensor. */
static int64_t size_along(exg_builder *b, exg_ref x, const exg_argument *arg, uint32_t *dim)
{
    exg_dims in = exg_lower_dims(b, x);

    *dim = exg_lower_dim(b, exg_get_int(arg), in.rank);
    return in.rank > 0 ? in.n[*dim] : 0;
}

void exg_lower_split(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t size = exg_get_int(&args[1]);
    uint32_t dim;
    int64_t whole = size_along(b, SELF, &args[2], &dim);

    split_evenly(b, SELF, dim, size, size > 0 && whole > 0 ? (whole - 1) / size + 1 : 1, results);
}

/* Of nothing as many as asked for, else of equal size. */
void exg_lower_chunk(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t chunks = exg_get_int(&args[1]);
    uint32_t dim;
    int64_t whole = size_along(b, SELF, &args[2], &dim);
    int64_t size = whole > 0 && chunks > 0 ? (whole - 1) / chunks + 1 : 0;

    split_evenly(b, SELF, dim, size, size > 0 ? (whole - 1) / size + 1 : chunks, results);
}

void exg_lower_split_with_sizes(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t count = args[1].kind == EXG_ARGUMENT_INTS ? args[1].count : 0;
    uint32_t dim;
    int64_t whole = size_along(b, SELF, &args[2], &dim);
    exg_ref *parts = exg_lower_new_refs(b, count);
    int64_t at = 0;

    for (uint32_t i = 0; parts != NULL && i < count; i++) {
        int64_t size = args[1].as_ints[i];

        if (size < 0 || size > whole - at) {
            at = -1;
            break;
        }
        parts[i] = exg_lower_slice(b, SELF, dim, at, size);
        at += size;
    }
    if (count > 0 && at != whole) {
        exg_lower_refuse(b, "split into sizes that do not make up the dimension");
        return;
    }
    results[0] = parts == NULL ? exg_arg_none() : exg_arg_refs(b, parts, count);
}

void exg_lower_unbind(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim;
    int64_t count = size_along(b, SELF, &args[1], &dim);
    exg_ref *parts = exg_lower_new_refs(b, count);

    if (exg_lower_dims(b, SELF).rank == 0) {
        exg_lower_refuse(b, "unbind of a 0-d tensor");
        return;
    }
    for (int64_t i = 0; parts != NULL && i < count; i++) {
        parts[i] = EMIT(b, select_int, SELF, (int)dim, exg_arg_int(i));
    }
    results[0] = parts == NULL ? exg_arg_none() : exg_arg_refs(b, parts, (uint32_t)count);
}

/* Parts that begin at `starts`; each ends where the next begins, the last at the end. */
static exg_argument parted(exg_builder *b, exg_ref x, uint32_t dim, const int64_t *starts,
                           uint32_t count)
{
    int64_t size = exg_lower_dims(b, x).n[dim];
    exg_ref *refs = exg_lower_new_refs(b, count);

    for (uint32_t i = 0; refs != NULL && i < count; i++) {
        int64_t end = i + 1 < count ? starts[i + 1] : size;

        refs[i] = EMIT(b, slice_Tensor, x, (int)dim, exg_arg_int(starts[i]),
                       exg_arg_int(end > starts[i] ? end : starts[i]));
    }
    return refs == NULL ? exg_arg_none() : exg_arg_refs(b, refs, count);
}

static exg_argument in_sections(exg_builder *b, exg_ref x, uint32_t dim, int64_t sections)
{
    int64_t size = exg_lower_dims(b, x).n[dim];
    exg_ref *refs;
    int64_t at = 0;

    if (sections < 1) {
        exg_lower_refuse(b, "tensor_split in no sections");
        return exg_arg_none();
    }
    refs = exg_lower_new_refs(b, sections);
    for (int64_t i = 0; refs != NULL && i < sections; i++) {
        int64_t count = size / sections + (i < size % sections);

        refs[i] = exg_lower_slice(b, x, dim, at, count);
        at += count;
    }
    return refs == NULL ? exg_arg_none() : exg_arg_refs(b, refs, (uint32_t)sections);
}

static exg_argument at_indices(exg_builder *b, exg_ref x, uint32_t dim, const exg_argument *where)
{
    int64_t starts[257] = {0};
    uint32_t count = exg_get_ints(where, &starts[1], 256);
    int64_t size = exg_lower_dims(b, x).n[dim];

    if (count > 256) {
        exg_lower_unsupported(b, "tensor_split at more than 256 places");
        return exg_arg_none();
    }
    for (uint32_t i = 1; i <= count; i++) {
        starts[i] += starts[i] < 0 ? size : 0;
        starts[i] = starts[i] < 0 ? 0 : starts[i] > size ? size : starts[i];
    }
    return parted(b, x, dim, starts, count + 1);
}

/* In programs it is replaced before anything is lowered (transform/inline.c). */
void exg_lower_tensor_split_by_tensor(exg_builder *b, const exg_argument *args,
                                      exg_argument *results)
{
    (void)args;
    (void)results;
    exg_lower_unsupported(b, "tensor_split at places that are known only when it runs");
}

void exg_lower_tensor_split_sections(exg_builder *b, const exg_argument *args,
                                     exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);

    results[0] = in_sections(b, SELF, dim, exg_get_int(&args[1]));
}

void exg_lower_tensor_split_indices(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    uint32_t dim = exg_lower_dim(b, exg_get_int(&args[2]), exg_lower_dims(b, SELF).rank);

    results[0] = at_indices(b, SELF, dim, &args[1]);
}

/* hsplit splits columns, but elements of a vector. */
static uint32_t horizontal(exg_builder *b, exg_ref x)
{
    return exg_lower_dims(b, x).rank <= 1 ? 0 : 1;
}

void exg_lower_hsplit_int(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = in_sections(b, SELF, horizontal(b, SELF), exg_get_int(&args[1]));
}

void exg_lower_hsplit_array(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = at_indices(b, SELF, horizontal(b, SELF), &args[1]);
}

void exg_lower_vsplit_int(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = in_sections(b, SELF, 0, exg_get_int(&args[1]));
}

void exg_lower_vsplit_array(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = at_indices(b, SELF, 0, &args[1]);
}

void exg_lower_dsplit_int(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = in_sections(b, SELF, 2, exg_get_int(&args[1]));
}

void exg_lower_dsplit_array(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = at_indices(b, SELF, 2, &args[1]);
}

/* ---- turned ----------------------------------------------------------------------------- */

void exg_lower_fliplr(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, flip_default, SELF, INTS(b, 1)));
}

void exg_lower_flipud(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    results[0] = exg_arg_ref(EMIT(b, flip_default, SELF, INTS(b, 0)));
}

void exg_lower_rot90(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    int64_t dims[2] = {0, 1};
    int64_t turns = ((exg_get_int(&args[1]) % 4) + 4) % 4;
    uint32_t rank = exg_lower_dims(b, SELF).rank;
    exg_ref x = SELF;

    if (exg_get_ints(&args[2], dims, 2) != 2) {
        exg_lower_refuse(b, "rot90 turns two dims");
        return;
    }
    dims[0] = exg_lower_dim(b, dims[0], rank);
    dims[1] = exg_lower_dim(b, dims[1], rank);
    if (turns == 2) {
        x = EMIT(b, flip_default, x, INTS(b, dims[0], dims[1]));
    } else if (turns != 0) {
        x = EMIT(b, flip_default, x, INTS(b, dims[turns == 1]));
        x = exg_lower_swapped(b, x, (uint32_t)dims[0], (uint32_t)dims[1]);
    }
    results[0] = exg_arg_ref(turns == 0 ? EMIT(b, clone_default, x) : x);
}

/* Half of each dim goes to the other end: (self, dim?) */
static void shifted(exg_builder *b, const exg_argument *args, bool back, exg_argument *results)
{
    exg_dims in = exg_lower_dims(b, SELF);
    int64_t dims[EXG_SHAPE_RANK_MAX];
    int64_t shifts[EXG_SHAPE_RANK_MAX];
    uint32_t count =
        exg_is_none(&args[1]) ? in.rank : exg_get_ints(&args[1], dims, EXG_SHAPE_RANK_MAX);

    for (uint32_t i = 0; i < count; i++) {
        dims[i] = exg_is_none(&args[1]) ? i : exg_lower_dim(b, dims[i], in.rank);
        shifts[i] = back ? (in.n[dims[i]] + 1) / 2 : in.n[dims[i]] / 2;
    }
    results[0] = exg_arg_ref(
        EMIT(b, roll_default, SELF, INTS_OF(b, shifts, count), INTS_OF(b, dims, count)));
}

void exg_lower_fftshift(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    shifted(b, args, false, results);
}

void exg_lower_ifftshift(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    shifted(b, args, true, results);
}

/* (self [T, B, C], weight [K, C, out], bias, pad): time comes first. */
void exg_lower_conv_tbc(exg_builder *b, const exg_argument *args, exg_argument *results)
{
    exg_ref x = EMIT(b, permute_default, args[0], INTS(b, 1, 2, 0));
    exg_ref w = EMIT(b, permute_default, args[1], INTS(b, 2, 1, 0));

    x = EMIT(b, conv1d_default, x, w, args[2], INTS(b, 1), INTS(b, exg_get_int(&args[3])));
    results[0] = exg_arg_ref(EMIT(b, permute_default, x, INTS(b, 2, 0, 1)));
}
