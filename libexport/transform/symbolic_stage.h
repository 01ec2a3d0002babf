/* symbolic_stage.h - what is known while programs of several numbers become one of symbols. */
#ifndef EXG_LIBEXPORT_TRANSFORM_SYMBOLIC_STAGE_H
#define EXG_LIBEXPORT_TRANSFORM_SYMBOLIC_STAGE_H

#include "libexport/transform/kept_nodes.h"
#include "libexport/transform/size_nodes.h"
#include "libexport/transform/stage.h"

typedef struct exg_symbolic {
    const exg_verified *verified, *root; /* the program, and the one that it is a branch of */
    const exg_symbols *hints;
    const exg_operators *libraries; /* the operators that are not PyTorch's are there too */
    exg_stage stage;
    uint32_t depth;
    exg_arena *arena; /* of this call */
    exg_kept_nodes *kept;
    exg_symbols samples[EXG_SAMPLES_MAX];
    exg_program *made[EXG_SAMPLES_MAX]; /* the first becomes the result */
    uint32_t count;
    exg_size_fit fit;
    exg_size_nodes nodes;
    uint32_t mutation_count;
    exg_value_id *values; /* by value id of the kept graph, what it is in the result */
    bool *is_there;       /* by value id of the result, while nodes are put in order */
    uint32_t value_count; /* of them: those before numbers were added */
    uint32_t next_kept;
    uint32_t
        culprit; /* node of the flat graph that is not the same for all samples, or UINT32_MAX */
    exg_map graph_names;
    exg_error *err;
} exg_symbolic;

/* symbolic_numbers.c: the sizes of all values of the result, in symbols. UNSUPPORTED TRF-006. */
exg_status exg_symbolic_metas(exg_symbolic *s);

/* The argument of a node of the result: `args` has it of all samples, *out of the first, in which
 * numbers that differ are replaced by values. UNSUPPORTED TRF-006. */
exg_status exg_symbolic_argument(exg_symbolic *s, const exg_node *node,
                                 const exg_argument *const *args, exg_argument *out);

/* UNSUPPORTED TRF-006 at the node, which is noted as the culprit. */
exg_status exg_symbolic_refuse(exg_symbolic *s, const exg_node *node, const char *what);

#endif
