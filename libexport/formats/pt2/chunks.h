/* chunks.h - a tensor in chunks that lie apart: in place when one chunk is all of it, else put
 * together as it is read. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_CHUNKS_H
#define EXG_LIBEXPORT_FORMATS_PT2_CHUNKS_H

#include <exg/weights.h>

typedef struct exg_chunk_part {
    int64_t *offsets, *sizes; /* in the tensor */
    exg_weight weight;        /* the chunk's own elements; no weight of the table */
    uint32_t outer;           /* dims behind it the chunk covers wholly: runs go on over them */
} exg_chunk_part;

typedef struct exg_chunk_tensor {
    exg_weights *weights;
    uint32_t rank;
    uint32_t count;
    uint32_t width;
    int64_t *sizes;
    exg_chunk_part *parts;
} exg_chunk_tensor;

/* In the arena of the weights, to be filled: sizes, and of each part all but `outer`. */
exg_status exg_chunk_tensor_create(exg_weights *weights, uint32_t rank, uint32_t count,
                                   exg_chunk_tensor **tensor, exg_error *err);

/* Adds it as a weight; `meta` is its own but for strides and offset, and may have other sizes
 * that multiply to the same. MALFORMED (DCP-CHUNK): the chunks are not all of it, or lie on each
 * other. */
exg_status exg_chunk_tensor_add(exg_chunk_tensor *tensor, const char *fqn,
                                const exg_tensor_meta *meta, exg_error *err);

#endif
