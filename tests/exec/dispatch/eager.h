/* eager.h - calls on DTensors in few words. */
#ifndef EXG_TESTS_EXEC_DISPATCH_EAGER_H
#define EXG_TESTS_EXEC_DISPATCH_EAGER_H

#include "tests/exec/dtensor/ranks.h"

#include <exg/dispatch.h>

/* What a rank works with. */
typedef struct eager {
    rank_context *c;
    exg_device_mesh *mesh;
    exg_dispatcher *d;
    exg_error err;
} eager;

/* Made once by the test: operators may be shared. */
const exg_operators *all_operators(void);
void free_operators(void);

void eager_begin(eager *e, rank_context *c, const exg_dispatch_options *options);
void eager_end(eager *e);

/* 0, 1, 2, ... of these sizes ("4x4", "" for a single number), placed so; of `dtype`. */
exg_dtensor *counted(eager *e, exg_dtype dtype, const char *sizes, const char *placements);
/* Each rank's part given: `values` of this rank, row-major, of these global sizes. */
exg_dtensor *parts(eager *e, exg_dtype dtype, const char *sizes, const char *placements,
                   const double *values);

exg_object of_int(int64_t value);
exg_object of_float(double value);
exg_object of_bool(bool value);
exg_object of_ints(int64_t *items, uint32_t count);

/* The call with positional arguments; notes a fault of the rank when it fails. */
exg_object call(eager *e, const char *key, exg_object *args, uint32_t count);
exg_dtensor *call1(eager *e, const char *key, exg_object *args, uint32_t count);

#define CALL(e, key, ...)                                                                          \
    call1(e, key, (exg_object[]){__VA_ARGS__},                                                     \
          (uint32_t)(sizeof((exg_object[]){__VA_ARGS__}) / sizeof(exg_object)))
#define T exg_object_dtensor

/* The status of a call that is to fail; its error is in e->err. */
exg_status refusal(eager *e, const char *key, exg_object *args, uint32_t count);

/* Does the whole value hold these numbers, and do the placements read so ("" : any)? */
void expect_values(eager *e, const exg_dtensor *t, const char *placements, const double *values,
                   uint32_t count, const char *what);
bool lies(const exg_dtensor *t, const char *placements);

#endif
