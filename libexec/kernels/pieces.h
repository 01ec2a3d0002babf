/* pieces.h - results that are put together of boxes of the operands' elements: cat,
 * constant_pad_nd, flip, roll, and those that replace a window of the first operand. What goes
 * where is worked out here; each device carries it out its own way.
 */
#ifndef EXG_LIBEXEC_KERNELS_PIECES_H
#define EXG_LIBEXEC_KERNELS_PIECES_H

#include "libexec/kernels/kernel.h"

/* A box, from an operand to the result. Offsets and strides count elements, of any sign. */
typedef struct exg_piece {
    uint32_t input;
    uint32_t rank;
    int64_t from, to;
    int64_t sizes[EXG_RANK_MAX];
    int64_t from_strides[EXG_RANK_MAX];
    int64_t to_strides[EXG_RANK_MAX];
} exg_piece;

typedef struct exg_pieces {
    bool fills;      /* the whole result first, with `element` */
    bool keeps_self; /* piece 0 is operand 0 as it is: nothing to do in place */
    uint64_t element[2];
    uint32_t count;
    exg_piece items[];
} exg_pieces;

/* In the call's arena. UNSUPPORTED, KRN-... for what there is no conversion for; USAGE for a
 * window that is outside. */
typedef exg_status exg_pieces_find(exg_kernel_call *call, exg_pieces **pieces, exg_error *err);

/* X(kernel, flags) */
#define EXG_KERNELS_OF_PIECES(X)                                                                   \
    X(as_strided_scatter, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE)                            \
    X(cat, EXG_KERNEL_ANY_STRIDES)                                                                 \
    X(constant_pad_nd, EXG_KERNEL_ANY_STRIDES)                                                     \
    X(diagonal_scatter, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE)                              \
    X(flip, EXG_KERNEL_ANY_STRIDES)                                                                \
    X(roll, 0)                                                                                     \
    X(select_scatter, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE)                                \
    X(slice_scatter, EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_IN_PLACE)

#define EXG_PIECES_DECLARE(kernel, flags) exg_pieces_find exg_pieces_of_##kernel;
EXG_KERNELS_OF_PIECES(EXG_PIECES_DECLARE)
#undef EXG_PIECES_DECLARE

#endif
