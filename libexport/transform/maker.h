/* maker.h - a stretch while it is made. */
#ifndef EXG_LIBEXPORT_TRANSFORM_MAKER_H
#define EXG_LIBEXPORT_TRANSFORM_MAKER_H

#include "libexport/transform/course.h"

typedef struct exg_maker {
    exg_rewrite r; /* refs by value id of the course */
    exg_stretch *stretch;
    exg_course *course;
    exg_argument *numbers;  /* by value id; NONE: no number */
    exg_ref *extras;        /* of the views taken again */
    const exg_argument *answer; /* what the first node waits for, or NULL */
    uint32_t at;
    exg_ref number; /* that the stretch waits for */
    exg_ref *checks;
    uint32_t check_capacity;
    exg_error *err;
} exg_maker;

/* An argument with numbers in the place of their names. An element that kernels read
 * becomes the tensor that holds it. */
exg_status exg_maker_resolve(exg_maker *m, const exg_argument *in, exg_argument *out);

/* One more output of the stretch; gives its index. */
uint32_t exg_maker_output(exg_maker *m, exg_ref ref);

/* The loop at which the stretch ends. */
exg_status exg_maker_loop(exg_maker *m);

exg_status exg_stretch_new(const exg_allocator *allocator, uint32_t depth, exg_stretch **stretch,
                           exg_error *err);

/* The stretch from `state` (NULL: the beginning) on; `answer` is the number the first node
 * waits for, or NULL. */
exg_status exg_stretch_make(exg_stretch *s, exg_course *course, const exg_state *state,
                            const exg_argument *answer, exg_error *err);

#endif
