/* block.h - numbers in blocks that share a scale, as GGML quantises them. */
#ifndef EXG_LIBEXPORT_WEIGHTS_BLOCK_H
#define EXG_LIBEXPORT_WEIGHTS_BLOCK_H

#include "libexport/base/element.h"

#include <exg/types.h>
#include <stdbool.h>
#include <stdint.h>

#define EXG_BLOCK_ELEMENTS_MAX 256

typedef void exg_block_decode_fn(const uint8_t *block, float *out);

/* false: a number is NaN or infinite, or too large for the scale of a block (float16). */
typedef bool exg_block_encode_fn(const float *in, uint8_t *block);

/* A row of block.def: `elements` numbers in `bytes` bytes. */
typedef struct exg_block {
    const char *name; /* exg_weight.encoding */
    uint32_t elements, bytes;
    exg_block_decode_fn *decode;
    exg_block_encode_fn *encode; /* NULL: they are read alone */
} exg_block;

/* In capitals or not, with a shape behind it or not; NULL: blocks of this encoding are not known.
 */
const exg_block *exg_block_named(const char *encoding);

#define EXG_BLOCK_GROUPS_MAX 16

/* A block taken apart: what of `offsets` its row of block_groups.def says. */
typedef struct exg_block_split {
    int8_t numbers[EXG_BLOCK_ELEMENTS_MAX];
    float scales[EXG_BLOCK_GROUPS_MAX], offsets[EXG_BLOCK_GROUPS_MAX];
} exg_block_split;

/* A row of block_groups.def. */
typedef struct exg_block_groups {
    exg_block_decode_fn *decode;
    void (*split)(const uint8_t *block, exg_block_split *s);
    uint32_t group; /* elements */
    int zero;
    bool is_packed, has_offsets;
    exg_dtype scale;
} exg_block_groups;

const exg_block_groups *exg_block_groups_of(const exg_block *block); /* NULL: it has none */

#define EXG_BLOCK_RANK_MAX 64 /* as views have */

/* The shape that an encoding tells, "F4[4, 3]", of which rows are no whole blocks; false: it tells
 * none. *rank is UINT32_MAX where the text is damaged. */
bool exg_block_shape(const char *encoding, int64_t sizes[EXG_BLOCK_RANK_MAX], uint32_t *rank);

#define EXG_BLOCK(id, name, elements, bytes, encode) exg_block_decode_fn exg_decode_##id;
#include "libexport/weights/block.def"
#undef EXG_BLOCK

exg_block_encode_fn exg_encode_q4_0, exg_encode_q4_1, exg_encode_q5_0, exg_encode_q5_1;
exg_block_encode_fn exg_encode_q8_0, exg_encode_q4_k, exg_encode_q5_k, exg_encode_q6_k;

/* A number of `count` bytes, the lowest first; one of float16. */
static inline uint32_t exg_block_word(const uint8_t *at, int count)
{
    uint32_t value = 0;

    for (int i = 0; i < count; i++) {
        value |= (uint32_t)at[i] << (8 * i);
    }
    return value;
}

static inline float exg_block_half(const uint8_t *at)
{
    return exg_f16_to_f32((uint16_t)exg_block_word(at, 2));
}

/* Scale and least of part `i` of 8, in 12 bytes of 6 bits each. */
static inline void exg_block_part_of_k(const uint8_t *packed, int i, int *scale, int *least)
{
    if (i < 4) {
        *scale = packed[i] & 63;
        *least = packed[i + 4] & 63;
    } else {
        *scale = (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4;
        *least = (packed[i + 4] >> 4) | (packed[i] >> 6) << 4;
    }
}

#endif
