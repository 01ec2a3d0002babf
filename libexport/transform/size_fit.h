/* size_fit.h - sizes of which only their numbers are known, in symbols again.
 *
 * A program is made several times, each time with other numbers for its symbols. A size that
 * differs is one of the expressions that the program has itself, or is made of them by a sum, a
 * product or a quotient: the one that has the right number every time.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_SIZE_FIT_H
#define EXG_LIBEXPORT_TRANSFORM_SIZE_FIT_H

#include "libexport/program/expression.h"

/* Those drawn at random, which forms are fitted to, and those at edges with them, which they have
 * to be right for too (sampler.h). */
#define EXG_DRAWN_MAX   8
#define EXG_SAMPLES_MAX 32

typedef struct exg_known_size {
    const char *text; /* srepr */
    size_t length;
    int64_t values[EXG_SAMPLES_MAX];
} exg_known_size;

/* A number with a point that the program reads, or computes. */
typedef struct exg_known_real {
    const char *text;
    double values[EXG_SAMPLES_MAX];
} exg_known_real;

typedef struct exg_size_fit {
    exg_arena *arena;
    const exg_symbols *samples;
    uint32_t sample_count;
    exg_expressions expressions;
    exg_map texts;
    exg_known_size *known; /* the shortest first */
    exg_known_size *found; /* what was asked for before */
    exg_known_real *reals;
    uint32_t known_count, known_capacity, real_count, real_capacity;
    uint32_t found_count, found_capacity;
} exg_size_fit;

void exg_size_fit_begin(exg_size_fit *fit, exg_arena *arena, const exg_symbols *samples,
                        uint32_t count);

/* One more expression of the program, for an exg_size_fit; one that a sample has no number for is
 * left out. NO_MEMORY. */
exg_status exg_size_fit_add(void *fit, const char *text, exg_error *err);

/* Calls `visit` for each expression of a size, a stride or a number of the graph's values. */
exg_status exg_graph_visit_sizes(const exg_graph *graph,
                                 exg_status (*visit)(void *user, const char *text, exg_error *err),
                                 void *user, exg_error *err);

/* The same for numbers with a point. */
exg_status exg_graph_visit_reals(const exg_graph *graph,
                                 exg_status (*visit)(void *user, const char *text, exg_error *err),
                                 void *user, exg_error *err);

/* A number with a point of the program, for an exg_size_fit. NO_MEMORY. */
exg_status exg_size_fit_add_real(void *fit, const char *text, exg_error *err);

/* The expression with these numbers: one of the program's, n / m or m / n of a size n and a small
 * m, or n / (n - 1) as of a variance; NULL: none was found. NO_MEMORY. */
exg_status exg_size_fit_find_real(exg_size_fit *fit, const double *values, const char **text,
                                  exg_error *err);

/* The expression with these numbers; NULL: none was found. NO_MEMORY. */
exg_status exg_size_fit_find(exg_size_fit *fit, const int64_t *values, const char **text,
                             exg_error *err);

/* From here on this is the expression with these numbers. NO_MEMORY. */
exg_status exg_size_fit_note(exg_size_fit *fit, const int64_t *values, const char *text,
                             exg_error *err);

#endif
