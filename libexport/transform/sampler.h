/* sampler.h - numbers for a program's symbols, as they might come in a run. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SAMPLER_H
#define EXG_LIBEXPORT_TRANSFORM_SAMPLER_H

#include "libexport/base/map.h"

#include <exg/symint.h>
#include <exg/verify.h>

/* A symbol and the numbers that it may have. */
typedef struct exg_sampled {
    const char *name;
    int64_t least, most;
    bool is_real; /* with a point in a run; whole numbers stand for it here */
} exg_sampled;

typedef struct exg_sampler {
    exg_arena *arena;
    const exg_verified *root; /* whose ranges and guards count */
    const exg_node *kept;     /* those that are asserted are among them */
    uint32_t kept_count;
    const exg_graph *graph;
    exg_map by_name;
    exg_sampled *symbols;
    uint32_t count, capacity;
    int64_t *constants; /* that stand in sizes */
    uint32_t constant_count, constant_capacity;
} exg_sampler;

/* For the symbols of `graph`, which is the program's, or one within it; `kept`: nodes that were
 * taken out of it. MALFORMED SYM-001, NO_MEMORY. */
exg_status exg_sampler_begin(exg_sampler *s, const exg_verified *root, const exg_graph *graph,
                             const exg_node *kept, uint32_t kept_count, exg_arena *arena,
                             exg_error *err);

/* Numbers for all of them: the same for the same `sample` and `attempt`. The first sample has small
 * ones; later attempts have numbers that more divide. NO_MEMORY. */
exg_status exg_sampler_draw(const exg_sampler *s, uint32_t sample, uint32_t attempt,
                            exg_symbols *symbols, exg_error *err);

#define EXG_ATTEMPTS_MAX 28

/* Numbers at which a form may be another one: those of `from` with one symbol at an end of its
 * range, a little beside, or about a number that stands in the program's sizes or a multiple of it.
 * One for each `edge` from 0 on; *is_there: false past the last. NO_MEMORY. */
exg_status exg_sampler_edge(const exg_sampler *s, const exg_symbols *from, uint32_t edge,
                            exg_symbols *symbols, bool *is_there, exg_error *err);

/* Does a run take these numbers: do the assertions on sizes hold, and the program's guards? Where
 * an equality does not, a number that the data decide is changed so that it does, if that can be.
 */
bool exg_sampler_admits(const exg_sampler *s, exg_symbols *symbols);

#endif
