/* sampler.h - numbers for a program's symbols, as they might come in a run. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SAMPLER_H
#define EXG_LIBEXPORT_TRANSFORM_SAMPLER_H

#include "libexport/base/map.h"

#include <exg/symint.h>

/* A symbol and the numbers that it may have. */
typedef struct exg_sampled {
    const char *name;
    int64_t least, most;
} exg_sampled;

typedef struct exg_sampler {
    exg_arena *arena;
    const exg_program *program; /* whose ranges count */
    exg_map by_name;
    exg_sampled *symbols;
    uint32_t count, capacity;
} exg_sampler;

/* For the symbols of `graph`. MALFORMED SYM-001, NO_MEMORY. */
exg_status exg_sampler_begin(exg_sampler *s, const exg_program *program, const exg_graph *graph,
                             exg_arena *arena, exg_error *err);

/* Numbers for all of them: the same for the same `sample` and `attempt`. The first sample has small
 * ones; later attempts have numbers that more divide. NO_MEMORY. */
exg_status exg_sampler_draw(const exg_sampler *s, uint32_t sample, uint32_t attempt,
                            exg_symbols *symbols, exg_error *err);

#define EXG_ATTEMPTS_MAX 28

#endif
