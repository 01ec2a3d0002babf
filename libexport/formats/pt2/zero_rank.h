/* zero_rank.h - the files that one tensor-parallel rank of a DeepSpeed folder has, one of each
 * data-parallel rank. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ZERO_RANK_H
#define EXG_LIBEXPORT_FORMATS_PT2_ZERO_RANK_H

#include "libexport/base/map.h"
#include "libexport/formats/pt2/chunks.h"
#include "libexport/formats/pt2/saved.h"

/* What one rank saved. */
typedef struct exg_zero_file {
    char *name;
    uint64_t length;
    exg_saved saved;
    exg_weight *groups; /* flat tensors of its part of the parameters */
    uint64_t *lengths;  /* their elements */
    uint32_t group_count;
} exg_zero_file;

typedef struct exg_zero_files {
    exg_zero_file *items; /* in order of the ranks */
    uint32_t count, capacity;
} exg_zero_files;

typedef struct exg_zero_rank {
    const char *folder;
    exg_weights *weights;
    exg_arena *arena;
    exg_zero_files models;
    exg_zero_files optimizers;
    exg_map names; /* that are listed */
    int64_t stage; /* 0: the parameters are in a folder of ds_to_universal */
    uint64_t inflate_left;
    exg_error *err;
} exg_zero_rank;

/* MALFORMED (ZERO-STATE). */
exg_status exg_zero_damaged(exg_zero_rank *r, const char *what);

/* Says which of the files of `world` data-parallel ranks are not there: IO (ZERO-MISSING). */
exg_status exg_zero_tell_missing(exg_zero_rank *r, const exg_zero_files *files, const char *what,
                                 int64_t world);

/* The sizes of a parameter in float32, in the arena of `r`, and how many elements that makes. */
exg_status exg_zero_read_shape(exg_zero_rank *r, const exg_pickle_value *shape,
                               exg_tensor_meta *meta, uint64_t *elements);

/* `count` elements of a flat tensor from `first` on, at their place in a parameter. */
exg_status exg_zero_add_piece(exg_zero_rank *r, exg_chunk_tensor *tensor, const exg_weight *from,
                              uint64_t first, uint64_t count, uint64_t place);

/* Adds what is no parameter that was trained: buffers and frozen parameters. */
exg_status exg_zero_add_model(exg_zero_rank *r);

/* Adds the other names of those that have several. */
exg_status exg_zero_add_shared(exg_zero_rank *r);

#endif
