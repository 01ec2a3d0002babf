/* block.c - the table of blocks. */
#include "libexport/weights/block.h"

#include <stddef.h>
#include <strings.h>

static const exg_block blocks[] = {
#define EXG_BLOCK(id, name, elements, bytes, encode)                                               \
    {name, elements, bytes, exg_decode_##id, encode},
#include "libexport/weights/block.def"
#undef EXG_BLOCK
};

const exg_block *exg_block_named(const char *encoding)
{
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (strcasecmp(blocks[i].name, encoding) == 0) {
            return &blocks[i];
        }
    }
    return NULL;
}
