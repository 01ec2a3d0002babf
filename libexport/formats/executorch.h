/* executorch.h - what files of ExecuTorch have in common: FlatBuffers and segments behind them. */
#ifndef EXG_LIBEXPORT_FORMATS_EXECUTORCH_H
#define EXG_LIBEXPORT_FORMATS_EXECUTORCH_H

#include "libexport/base/arena.h"

#include <exg/weights.h>
#include <stdbool.h>
#include <stdint.h>

#define EXG_ET_RANK_MAX 64

typedef struct exg_et {
    const uint8_t *data;
    uint64_t length;
    uint64_t segments; /* where they begin */
    exg_arena *arena;  /* scratch */
    exg_weights *weights;
    exg_error *err;
} exg_et;

/* MALFORMED (PTD-TABLE). */
exg_status exg_et_damaged(exg_et *r, uint64_t at);

/* A number of so many bytes; false: it is outside. */
bool exg_et_number_at(const exg_et *r, uint64_t at, uint32_t bytes, uint64_t *value);

/* Of the field `index` of a table: the number in it, 0 where it is left out; the table that it
 * leads to; the vector of `count` elements of so many bytes (its first). 0: it is left out. false:
 * the table is damaged. */
bool exg_et_number(const exg_et *r, uint64_t table, uint32_t index, uint32_t bytes,
                   uint64_t *value);
bool exg_et_table(const exg_et *r, uint64_t table, uint32_t index, uint64_t *to);
bool exg_et_vector(const exg_et *r, uint64_t table, uint32_t index, uint32_t bytes, uint64_t *to,
                   uint64_t *count);

/* The dtype of a ScalarType; COUNT: none. */
exg_dtype exg_et_dtype(uint64_t number);

/* Sizes, in the field `index`, and the strides that the order of dimensions, in the next, makes of
 * them. false: they are none. */
bool exg_et_layout(const exg_et *r, uint64_t layout, uint32_t index, exg_tensor_meta *meta,
                   exg_sym_int *sizes, exg_sym_int *strides);

/* Lists; `kind` may be NULL for want of memory. */
exg_status exg_et_skip(exg_et *r, const char *name, const char *kind);

#endif
