/* weight_ranges.h - where the weights behind a program's inputs are in their storages, and which of
 * them are in others.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_WEIGHT_RANGES_H
#define EXG_LIBEXPORT_TRANSFORM_WEIGHT_RANGES_H

#include <exg/weights.h>

/* The bytes of its storage that an input reaches over. */
typedef struct exg_weight_range {
    const exg_weight *weight; /* NULL: no weight, an empty one, or none shares a storage */
    uint64_t first, end;
    uint32_t whole;    /* the greatest weight that it is part of, the first of equals; or itself */
    uint32_t together; /* a number of all that overlap, in steps */
} exg_weight_range;

/* By graph input, in the arena. */
exg_status exg_weight_ranges(const exg_program *program, exg_arena *arena,
                             exg_weight_range **places, exg_error *err);

#endif
