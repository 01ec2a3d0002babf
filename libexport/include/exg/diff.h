/* diff.h - where two programs part.
 *
 * Graphs are compared by structure: names of nodes and values, and the order of
 * independent nodes, do not matter; symbols count by their first appearance.
 * Weights are compared by name, value by value; a weight found under another name
 * with the same dtype, shape and bytes is a rename; one whose dtype alone is another is
 * compared with what a cast gives (exg_weights_edit()). What tells nothing of meaning
 * (stack traces, versions of the writer) is left out.
 *
 * Ownership: an exg_diff owns all of its texts. Threads: both programs are only
 * read.
 */
#ifndef EXG_DIFF_H
#define EXG_DIFF_H

#include <exg/verify.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_diff_room {
    EXG_DIFF_PROGRAM,   /* dialects, size ranges, guards, calling convention */
    EXG_DIFF_SIGNATURE, /* inputs and outputs */
    EXG_DIFF_GRAPH,     /* nodes */
    EXG_DIFF_TENSOR,    /* weights */
    EXG_DIFF_ROOM_COUNT
} exg_diff_room;

typedef enum exg_diff_kind {
    EXG_DIFF_REMOVED,  /* in A alone */
    EXG_DIFF_ADDED,    /* in B alone */
    EXG_DIFF_CHANGED,  /* in both, not the same */
    EXG_DIFF_RENAMED,  /* weights: the same bytes under another name */
    EXG_DIFF_RESHAPED, /* weights: the same bytes in another shape */
    EXG_DIFF_CAST,     /* weights: what a cast to the other floating-point dtype gives */
    EXG_DIFF_KIND_COUNT
} exg_diff_kind;

const char *exg_diff_room_name(exg_diff_room room); /* "graph" */
const char *exg_diff_kind_name(exg_diff_kind kind); /* "changed" */

/* Of a weight whose values differ: over elements (both parts of a complex one). */
typedef struct exg_value_difference {
    uint64_t differing; /* beyond the tolerances; 0: nothing was compared by value */
    uint64_t total;
    double max_abs;   /* largest |a - b|; NaN where only one of a pair is NaN */
    double max_rel;   /* largest |a - b| / |a|; infinity where a is 0 */
    uint64_t max_ulp; /* steps between floats of the dtype; 0 for other dtypes */
    double cosine;    /* of the angle between a and b as vectors; NaN where one has no length, or
                         holds NaN, or is not of floats */
} exg_value_difference;

typedef struct exg_difference {
    exg_diff_room room;
    exg_diff_kind kind;
    const char *where_a; /* "nodes[12] add_3", a weight's name; NULL: not in A */
    const char *where_b;
    const char *what; /* "argument alpha: 1 -> 2" */
    exg_value_difference values;
} exg_difference;

typedef struct exg_diff_counts {
    uint32_t same, changed, removed, added; /* renamed and reshaped count as changed */
    uint32_t following; /* nodes: the same but for the dtypes and shapes they are given */
} exg_diff_counts;

typedef struct exg_diff {
    exg_arena *arena;
    exg_difference *items; /* by room, then in the order of the files */
    uint32_t count;
    exg_diff_counts counts[EXG_DIFF_ROOM_COUNT];
} exg_diff;

typedef struct exg_diff_options {
    size_t size;
    double rtol, atol; /* weights are the same where |a - b| <= atol + rtol * |a| */
    bool skip_tensors; /* read no weight */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *user;
    /* With room for A's graph->node_count: by node of it the one of B that it was compared with, or
     * UINT32_MAX; of inner graphs nothing is said. NULL: nobody asks. */
    uint32_t *partners;
} exg_diff_options;

/* Compares `a` and `b`; `options` NULL: zeros. OK also when they differ (count > 0).
 * NO_MEMORY; IO, MALFORMED from reading weights. exg_diff_free() after OK. */
EXG_NODISCARD exg_status exg_diff_programs(const exg_verified *a, const exg_verified *b,
                                           const exg_diff_options *options, exg_diff *diff,
                                           exg_error *err);

/* The same of weights alone, as exg_weights_open() gives them: by name, whatever the formats. Of
 * `counts` only EXG_DIFF_TENSOR. */
EXG_NODISCARD exg_status exg_diff_weights(exg_weights *a, exg_weights *b,
                                          const exg_diff_options *options, exg_diff *diff,
                                          exg_error *err);
void exg_diff_free(exg_diff *diff); /* NULL, all zeros are allowed */

#ifdef __cplusplus
}
#endif

#endif
