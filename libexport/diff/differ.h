/* differ.h - what the files of this room share. */
#ifndef EXG_LIBEXPORT_DIFF_DIFFER_H
#define EXG_LIBEXPORT_DIFF_DIFFER_H

#include "libexport/base/arena.h"
#include "libexport/base/map.h"

#include <exg/diff.h>
#include <exg/weights.h>

#define EXG_NO_PARTNER UINT32_MAX

typedef struct exg_differ {
    const exg_program *a, *b; /* NULL: of weights alone */
    exg_weights *a_weights, *b_weights;
    bool by_name_alone; /* a name is the same in every table */
    const exg_diff_options *options;
    exg_diff *diff;
    exg_arena *scratch;
    uint32_t capacity;
    bool failed;     /* memory ran out */
    exg_map renamed; /* name in A -> index of the weight in B, of renamed weights */
} exg_differ;

/* Pairs equal tokens of two sequences so that pairs do not cross and as many as
 * possible are found (when more than a few thousand differ: fewer, k-th with k-th).
 * `partner` gets for each of a's the index in b, or EXG_NO_PARTNER. */
void exg_align(exg_differ *d, const uint64_t *a, uint32_t count_a, const uint64_t *b,
               uint32_t count_b, uint32_t *partner);

/* Pairs equal tokens, the k-th of one sequence with the k-th of the other, in any
 * order. Entries of `partner` without one are left as they are. */
void exg_pair_equal(exg_differ *d, const uint64_t *a, uint32_t count_a, const uint64_t *b,
                    uint32_t count_b, uint32_t *partner);

/* The room of weights. Fills d->renamed. */
exg_status exg_diff_tensors(exg_differ *d, exg_error *err);

/* ---- value.c: weights of floats of one number of elements -------------------------------------
 */

/* Is `b` what a cast of `a` to its dtype gives, and where not, how far is it from that? */
exg_status exg_diff_cast(exg_differ *d, const exg_weight *a, const exg_weight *b,
                         exg_value_difference *v, exg_error *err);

/* Fills v->cosine. */
exg_status exg_diff_cosine(exg_differ *d, const exg_weight *a, const exg_weight *b,
                           exg_value_difference *v, exg_error *err);

typedef struct exg_side exg_side; /* side.h */

/* Inputs, outputs, and what else the program says of its calls. */
void exg_diff_signatures(exg_differ *d, exg_side *a, exg_side *b);

/* Nodes, subgraphs included. */
void exg_diff_graphs(exg_differ *d, exg_side *a, exg_side *b);

#endif
