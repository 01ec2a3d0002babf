/* rearrange.h - tensors taken apart, turned and put together, as presets say it. */
#ifndef EXG_LIBEXPORT_WEIGHTS_REARRANGE_H
#define EXG_LIBEXPORT_WEIGHTS_REARRANGE_H

#include "libexport/weights/preset.h"

#include <exg/weights.h>

/* A weight that is not in a table yet. */
typedef struct exg_piece {
    exg_weights *home; /* that have its storage */
    exg_weight weight;
} exg_piece;

/* The last two dimensions swapped: a view. Metas are made in the arena of `made`, which keeps the
 * home alive. USAGE (WGT-PATTERN): there are none. */
exg_status exg_piece_transpose(exg_piece *piece, exg_weights *made, exg_error *err);

/* The rows [first, first + count): a view. */
exg_status exg_piece_take_rows(exg_piece *piece, int64_t first, int64_t count, exg_weights *made,
                               exg_error *err);

/* The first dimension as `count` factors (at most one of them 0: what is left), which are put in
 * another order: a storage of `made`. USAGE (WGT-PRESET): rows are no such product. */
exg_status exg_piece_order_rows(exg_piece *piece, const int64_t *factors, const uint32_t *order,
                                uint32_t count, exg_weights *made, exg_error *err);

/* Pieces of `made`, row below row, as one with the name of the first: a storage of `made`. USAGE
 * (WGT-PRESET): they are of other shapes or types. */
exg_status exg_pieces_join(const exg_weight *pieces, uint32_t count, exg_weights *made,
                           exg_weight *joined, exg_error *err);

/* Of a piece of `made` the part `part` of `parts`, as the rule has it for ranks. USAGE
 * (WGT-PRESET): there are no such parts, or they are not equal. */
exg_status exg_piece_take_part(exg_piece *piece, const exg_preset_rule *rule,
                               const exg_preset_numbers *numbers, uint32_t part, uint32_t parts,
                               exg_weights *made, exg_error *err);

#endif
