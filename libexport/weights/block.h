/* block.h - numbers in blocks that share a scale, as GGML quantises them. */
#ifndef EXG_LIBEXPORT_WEIGHTS_BLOCK_H
#define EXG_LIBEXPORT_WEIGHTS_BLOCK_H

#include <stdint.h>

#define EXG_BLOCK_ELEMENTS_MAX 256

/* How a block of `bytes` bytes becomes `elements` numbers. */
typedef struct exg_block_decoder {
    const char *name; /* exg_weight.encoding */
    uint32_t elements, bytes;
    void (*decode)(const uint8_t *block, float *out);
} exg_block_decoder;

/* NULL: blocks of this encoding are not decoded. */
const exg_block_decoder *exg_block_decoder_named(const char *encoding);

#endif
