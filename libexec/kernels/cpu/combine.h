/* combine.h - elements into those that are there: scatter_add and its kin, index_put that adds. */
#ifndef EXG_LIBEXEC_KERNELS_CPU_COMBINE_H
#define EXG_LIBEXEC_KERNELS_CPU_COMBINE_H

#include "libexec/kernels/cpu/common.h"

typedef enum exg_combination {
    EXG_COMBINE_BY_ADD,
    EXG_COMBINE_BY_PROD,
    EXG_COMBINE_BY_AMAX,
    EXG_COMBINE_BY_AMIN
} exg_combination;

typedef struct exg_combiner {
    exg_combination kind;
    exg_compute compute;
    uint32_t bytes;
    bool is_storage;
    exg_load_loop *load;
    exg_store_loop *store;
} exg_combiner;

/* The larger, or what is no number. */
#define EXG_COMBINE_ADD(a, b)  ((a) + (b))
#define EXG_COMBINE_PROD(a, b) ((a) * (b))
#define EXG_COMBINE_AMAX(a, b) ((a) != (a) || (a) > (b) ? (a) : (b))
#define EXG_COMBINE_AMIN(a, b) ((a) != (a) || (a) < (b) ? (a) : (b))

/* UNSUPPORTED, in the name of `kernel`, where there is no arithmetic of the dtype. */
exg_status exg_combiner_init(exg_combiner *c, exg_combination kind, exg_dtype dtype,
                             const char *kernel, exg_error *err);

/* `count` elements that lie close into as many. */
void exg_combine(const exg_combiner *c, char *self, const char *src, int64_t count);

#endif
