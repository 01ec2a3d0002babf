/* saved_walk.h - the walk through a pickled object, and what it knows of objects. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_SAVED_WALK_H
#define EXG_LIBEXPORT_FORMATS_PT2_SAVED_WALK_H

#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/pt2/saved.h"

typedef enum exg_walk_keys {
    EXG_WALK_PAIRS,  /* keys and values in turn */
    EXG_WALK_PLACES, /* values, called 0, 1, 2 */
    EXG_WALK_HERE    /* a value that is called as the frame is */
} exg_walk_keys;

enum {
    EXG_WALK_OUTSIDE = 1,   /* of a module, and state_dict() leaves it out */
    EXG_WALK_QUIET = 2,     /* numbers and texts are not told */
    EXG_WALK_MODULE = 4,    /* attributes of a module */
    EXG_WALK_INSIDE = 8,    /* below a module: its modules are not listed */
    EXG_WALK_PARAMETER = 16 /* tensors are parameters */
};

typedef struct exg_walk_frame {
    const exg_pickle_items *items;
    exg_map *last;            /* key -> its last place; NULL: every key comes once */
    exg_pickle_value *closes; /* no longer open after it */
    size_t name_length;
    exg_walk_keys keys;
    unsigned flags;
    uint32_t at;
} exg_walk_frame;

typedef struct exg_walker {
    exg_saved *file;
    exg_arena *arena;
    exg_text name;
    size_t prefix; /* of the name */
    exg_walk_frame *frames;
    uint32_t depth, capacity;
    uint32_t left;   /* values that may still be visited */
    uint64_t budget; /* bytes that names and descriptions may still take */
    exg_error *err;
} exg_walker;

/* Adds what the value is under the name, or pushes frames that will. */
exg_status exg_walk_value(exg_walker *w, exg_pickle_value *value, unsigned flags);

/* What is below the name is walked next; the last that was pushed comes first. `closes` is open
 * till then; or NULL. */
exg_status exg_walk_push(exg_walker *w, const exg_pickle_items *items, exg_walk_keys keys,
                         unsigned flags, exg_pickle_value *closes);

/* Values under these names; those that are NULL are left out. */
exg_status exg_walk_push_named(exg_walker *w, const char *const *names,
                               exg_pickle_value *const *values, uint32_t count, unsigned flags);

/* The value under the name itself. */
exg_status exg_walk_push_here(exg_walker *w, exg_pickle_value *value, unsigned flags);

/* A pickled state: a dict, or (dict, slots). NULL is allowed. */
exg_status exg_walk_push_attributes(exg_walker *w, const exg_pickle_value *state, unsigned flags);

/* A tensor under the name, or one like it that is free; `weight` but for name and table. */
exg_status exg_walk_add(exg_walker *w, exg_weight *weight, unsigned flags);

/* The same of bytes, which are copied; `dense` but for the name. */
exg_status exg_walk_add_bytes(exg_walker *w, const exg_dense *dense, unsigned flags);

/* The text of the value as metadata. */
exg_status exg_walk_metadata(exg_walker *w, const exg_pickle_value *value, unsigned flags);

/* Lists the name as left out. */
exg_status exg_walk_skip(exg_walker *w, const char *kind, exg_skipped_code code);

/* Lists an object or a name of the pickle. */
exg_status exg_walk_list(exg_walker *w, const exg_pickle_value *value, unsigned flags);

/* ---- saved_forms.c: objects of PyTorch and NumPy ----------------------------------------- */

/* Walks an object whose form is known; *done: it was one. */
exg_status exg_walk_known(exg_walker *w, exg_pickle_value *value, unsigned flags, bool *done);

/* Scale and zero point of a quantised tensor. */
exg_status exg_walk_quantizer(exg_walker *w, const exg_pickle_tensor *tensor, unsigned flags);

#endif
