/* rearrange.c - views of tensors, and what is put together of several. */
#include "libexport/weights/rearrange.h"

#include "libexport/weights/made_storage.h"
#include "libexport/weights/storage.h"

#include <inttypes.h>
#include <string.h>

/* A copy with room for `rank` dimensions; NULL: out of memory. */
static exg_tensor_meta *copy_meta(const exg_tensor_meta *of, uint32_t rank, exg_weights *made)
{
    exg_tensor_meta *meta = exg_arena_memdup(made->arena, of, 1, sizeof(*of));

    if (meta == NULL || (meta->sizes = EXG_NEW_ARRAY(made->arena, exg_sym_int, rank)) == NULL ||
        (meta->strides = EXG_NEW_ARRAY(made->arena, exg_sym_int, rank)) == NULL) {
        return NULL;
    }
    for (uint32_t d = 0; d < of->rank && d < rank; d++) {
        meta->sizes[d] = of->sizes[d];
        meta->strides[d] = of->strides[d];
    }
    meta->rank = rank;
    return meta;
}

exg_status exg_piece_transpose(exg_piece *piece, exg_weights *made, exg_error *err)
{
    const exg_weight *weight = &piece->weight;
    uint32_t rank = weight->meta->rank;
    exg_tensor_meta *meta;

    if (rank < 2 || weight->encoding != NULL) {
        return EXG_FAIL(err, USAGE, "WGT-PATTERN", "%s cannot be transposed: %s", weight->fqn,
                        rank < 2 ? "it has fewer than two dimensions" : weight->encoding);
    }
    meta = copy_meta(weight->meta, rank, made);
    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    meta->sizes[rank - 1] = weight->meta->sizes[rank - 2];
    meta->sizes[rank - 2] = weight->meta->sizes[rank - 1];
    meta->strides[rank - 1] = weight->meta->strides[rank - 2];
    meta->strides[rank - 2] = weight->meta->strides[rank - 1];
    piece->weight.meta = meta;
    return EXG_OK;
}

static exg_status misfit(const exg_weight *weight, const char *what, int64_t number, exg_error *err)
{
    const exg_tensor_meta *meta = weight->meta;

    return exg_error_fix(err,
                         EXG_FAIL(err, USAGE, "WGT-PRESET", "%s has %" PRId64 " rows, %s %" PRId64,
                                  weight->fqn, meta->rank == 0 ? 1 : meta->sizes[0].value, what,
                                  number),
                         "give the numbers of this model with --set, or another preset");
}

/* Of "F4[4, 3]" rows begin within a byte. */
static exg_status check_rows(const exg_weight *weight, exg_error *err)
{
    return weight->encoding == NULL || strchr(weight->encoding, '[') == NULL
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, UNSUPPORTED, "WGT-BLOCK",
                                        "%s is %s, whose rows are no whole bytes: they stay "
                                        "together",
                                        weight->fqn, weight->encoding),
                               "make it floating beforehand: exg convert --dtype");
}

exg_status exg_piece_take_rows(exg_piece *piece, int64_t first, int64_t count, exg_weights *made,
                               exg_error *err)
{
    const exg_tensor_meta *of = piece->weight.meta;
    exg_tensor_meta *meta;

    EXG_TRY(check_rows(&piece->weight, err));
    if (of->rank == 0 || first + count > of->sizes[0].value) {
        return misfit(&piece->weight, "not", first + count, err);
    }
    meta = copy_meta(of, of->rank, made);
    if (meta == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    meta->sizes[0] = exg_sym_int_of(count);
    meta->storage_offset = exg_sym_int_of(of->storage_offset.value + first * of->strides[0].value);
    piece->weight.meta = meta;
    return EXG_OK;
}

/* With the first dimension taken apart, in the new order. */
static exg_status view_of_rows(const exg_piece *piece, const int64_t *factors,
                               const uint32_t *order, uint32_t count, exg_weights *made,
                               exg_tensor_meta **view, exg_error *err)
{
    const exg_tensor_meta *of = piece->weight.meta;
    int64_t sizes[EXG_PRESET_FACTORS];
    int64_t strides[EXG_PRESET_FACTORS];
    int64_t rows = of->rank == 0 ? 0 : of->sizes[0].value;
    int64_t known = 1;
    int64_t step = of->rank == 0 ? 0 : of->strides[0].value;

    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] > 0 && __builtin_mul_overflow(known, factors[i], &known)) {
            known = INT64_MAX;
        }
    }
    if (rows == 0 || rows % known != 0) {
        return misfit(&piece->weight, "which is no multiple of", known, err);
    }
    for (uint32_t i = count; i-- > 0;) {
        sizes[i] = factors[i] > 0 ? factors[i] : rows / known;
        strides[i] = step;
        step *= sizes[i];
    }
    if (step != rows * of->strides[0].value) {
        return misfit(&piece->weight, "the factors make", known, err);
    }
    *view = copy_meta(of, of->rank + count - 1, made);
    if (*view == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t d = 1; d < of->rank; d++) {
        (*view)->sizes[count - 1 + d] = of->sizes[d];
        (*view)->strides[count - 1 + d] = of->strides[d];
    }
    for (uint32_t i = 0; i < count; i++) {
        (*view)->sizes[i] = exg_sym_int_of(sizes[order[i]]);
        (*view)->strides[i] = exg_sym_int_of(strides[order[i]]);
    }
    return EXG_OK;
}

exg_status exg_piece_order_rows(exg_piece *piece, const int64_t *factors, const uint32_t *order,
                                uint32_t count, exg_weights *made, exg_error *err)
{
    exg_weight view = piece->weight;
    exg_tensor_meta *packed = copy_meta(piece->weight.meta, piece->weight.meta->rank, made);
    const char *key;

    EXG_TRY(check_rows(&piece->weight, err));
    if (packed == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(view_of_rows(piece, factors, order, count, made, &view.meta, err));
    view.encoding = NULL; /* rows of blocks are bytes */
    key = exg_weight_view_key(&view, made->arena);
    if (key == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_tensor_meta_pack(packed);
    EXG_TRY(exg_weights_add_cast(made, piece->home, &view,
                                 (exg_element_type){view.meta->dtype, NULL}, key,
                                 &piece->weight.storage, err));
    piece->home = made;
    piece->weight.meta = packed;
    return EXG_OK;
}

/* ---- several ----------------------------------------------------------------------------------
 */

static bool can_be_joined(const exg_weight *a, const exg_weight *b)
{
    bool same =
        a->meta->rank > 0 && a->meta->rank == b->meta->rank && a->meta->dtype == b->meta->dtype &&
        (a->encoding == b->encoding ||
         (a->encoding != NULL && b->encoding != NULL && strcmp(a->encoding, b->encoding) == 0));

    for (uint32_t d = 1; same && d < a->meta->rank; d++) {
        same = a->meta->sizes[d].value == b->meta->sizes[d].value;
    }
    return same;
}

exg_status exg_pieces_join(const exg_weight *pieces, uint32_t count, exg_weights *made,
                           exg_weight *joined, exg_error *err)
{
    exg_weight *parts = exg_arena_memdup(made->arena, pieces, count, sizeof(*pieces));
    exg_tensor_meta *meta = copy_meta(pieces[0].meta, pieces[0].meta->rank, made);

    *joined = pieces[0];
    EXG_TRY(check_rows(&pieces[0], err));
    if (meta == NULL || parts == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) { /* they are read when the pieces are gone */
        parts[i].meta = copy_meta(pieces[i].meta, pieces[i].meta->rank, made);
        if (parts[i].meta == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    for (uint32_t i = 1; i < count; i++) {
        int64_t rows;

        if (!can_be_joined(&pieces[0], &pieces[i]) ||
            __builtin_add_overflow(meta->sizes[0].value, pieces[i].meta->sizes[0].value, &rows)) {
            return EXG_FAIL(err, USAGE, "WGT-PRESET",
                            "%s and %s have other shapes or dtypes, and are parts of one tensor",
                            pieces[0].fqn, pieces[i].fqn);
        }
        meta->sizes[0] = exg_sym_int_of(rows);
    }
    exg_tensor_meta_pack(meta);
    EXG_TRY(exg_weights_add_joined(made, parts, count, &joined->storage, err));
    joined->meta = meta;
    return EXG_OK;
}

/* ---- parts ------------------------------------------------------------------------------------
 */

static exg_status unequal(const exg_piece *piece, int64_t number, const char *what, uint32_t parts,
                          exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, USAGE, "WGT-PRESET",
                                  "%s has %" PRId64 " %s, which are not %u equal parts",
                                  piece->weight.fqn, number, what, parts),
                         "give it to fewer ranks");
}

/* What rows are put in order by, heads say, stays together. */
static exg_status check_groups(const exg_piece *piece, const exg_preset_rule *rule,
                               const exg_preset_numbers *numbers, uint32_t parts, exg_error *err)
{
    const exg_preset_operation *last =
        rule->operation_count == 0 ? NULL : &rule->operations[rule->operation_count - 1];
    const char *factor =
        last != NULL && last->kind == EXG_PRESET_ROWS ? last->factors[last->order[0]] : NULL;
    int64_t groups = 0;

    if (factor != NULL) {
        EXG_TRY(exg_preset_number(numbers, factor, &groups, err));
    }
    return groups % parts == 0 ? EXG_OK : unequal(piece, groups, factor, parts, err);
}

/* The last row again and again, until there are a multiple of so many in each part. */
static exg_status pad_rows(exg_piece *piece, const char *factor, const exg_preset_numbers *numbers,
                           uint32_t parts, exg_weights *made, exg_error *err)
{
    int64_t have = piece->weight.meta->sizes[0].value;
    int64_t multiple = 0;
    int64_t rows;
    exg_piece last = *piece;

    EXG_TRY(exg_preset_number(numbers, factor, &multiple, err));
    if (multiple == 0 || __builtin_mul_overflow(multiple, parts, &multiple) ||
        __builtin_add_overflow(have, multiple - 1, &rows)) {
        return EXG_FAIL(err, USAGE, "WGT-PRESET", "'%s' is no number of rows", factor);
    }
    rows = rows / multiple * multiple - have;
    if (rows == 0 || have == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_piece_take_rows(&last, have - 1, 1, made, err));
    last.weight.meta->sizes[0] = exg_sym_int_of(rows);
    last.weight.meta->strides[0] = exg_sym_int_of(0);
    return exg_pieces_join((exg_weight[]){piece->weight, last.weight}, 2, made, &piece->weight,
                           err);
}

exg_status exg_piece_take_part(exg_piece *piece, const exg_preset_rule *rule,
                               const exg_preset_numbers *numbers, uint32_t part, uint32_t parts,
                               exg_weights *made, exg_error *err)
{
    const exg_preset_parts *shard = &rule->shard;
    uint32_t rank = piece->weight.meta->rank;
    bool columns = shard->dim == 1;
    int64_t size;

    if (columns && rank == 1) { /* what is added to sums is in every rank */
        return EXG_OK;
    }
    if (shard->unless != NULL && exg_preset_has_number(numbers, shard->unless)) {
        columns = !columns;
    }
    if (rank <= columns || (columns && rank > 2)) {
        return EXG_FAIL(err, USAGE, "WGT-PRESET",
                        "the ranks' parts would go on along dim %d, which it does not have",
                        columns);
    }
    if (!columns) {
        EXG_TRY(check_groups(piece, rule, numbers, parts, err));
    }
    if (!columns && shard->pad != NULL) {
        EXG_TRY(pad_rows(piece, shard->pad, numbers, parts, made, err));
    }
    size = piece->weight.meta->sizes[columns].value;
    if (size % parts != 0) {
        return unequal(piece, size, columns ? "columns" : "rows", parts, err);
    }
    size /= parts;
    if (columns) {
        EXG_TRY(exg_piece_transpose(piece, made, err));
    }
    EXG_TRY(exg_piece_take_rows(piece, part * size, size, made, err));
    return columns ? exg_piece_transpose(piece, made, err) : EXG_OK;
}
