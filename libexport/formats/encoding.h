/* encoding.h - elements that are no dtype of their own: blocks of GGUF, packed ones of safetensors.
 * exg_weight.encoding names them; the tensor's dtype tells their bytes. */
#ifndef EXG_LIBEXPORT_FORMATS_ENCODING_H
#define EXG_LIBEXPORT_FORMATS_ENCODING_H

#include <exg/types.h>

/* An element type of GGUF: a row of gguf_type.def. */
typedef struct exg_gguf_type {
    uint32_t number;
    const char *name;
    uint32_t elements, bytes; /* of a block */
    exg_dtype dtype;
} exg_gguf_type;

/* NULL: there is none. */
const exg_gguf_type *exg_gguf_type_numbered(uint32_t number);
const exg_gguf_type *exg_gguf_type_named(const char *name);

/* How many elements `count` elements of the tensor's dtype stand for: of NULL as many, of blocks
 * those in them. */
uint64_t exg_encoded_elements(const char *encoding, uint64_t count);

#endif
