/* block.c - the table of blocks. */
#include "libexport/weights/block.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const exg_block blocks[] = {
#define EXG_BLOCK(id, name, elements, bytes, encode)                                               \
    {name, elements, bytes, exg_decode_##id, encode},
#include "libexport/weights/block.def"
#undef EXG_BLOCK
};

const exg_block *exg_block_named(const char *encoding)
{
    size_t length = strcspn(encoding, "[");

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        if (strlen(blocks[i].name) == length &&
            strncasecmp(blocks[i].name, encoding, length) == 0) {
            return &blocks[i];
        }
    }
    return NULL;
}

bool exg_block_shape(const char *encoding, int64_t sizes[EXG_BLOCK_RANK_MAX], uint32_t *rank)
{
    const char *at = strchr(encoding, '[');
    uint32_t count = 0;

    if (at == NULL) {
        return false;
    }
    *rank = UINT32_MAX;
    while (*at != ']') {
        char *end;

        at += at[1] == ' ' ? 2 : 1;
        errno = 0;
        if (count == EXG_BLOCK_RANK_MAX || *at < '0' || *at > '9' ||
            (sizes[count++] = strtoll(at, &end, 10), errno != 0) || strchr(",]", *end) == NULL ||
            *end == '\0') {
            return true;
        }
        at = end;
    }
    *rank = at[1] == '\0' ? count : UINT32_MAX;
    return true;
}
