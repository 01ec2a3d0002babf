/* encoding.c - the tables behind encoding.h. */
#include "libexport/formats/encoding.h"

#include "libexport/formats/weights_file.h"

#include <stdlib.h>
#include <string.h>

static const exg_gguf_type types[] = {
#define EXG_GGUF_TYPE(number, name, elements, bytes, dtype)                                        \
    {number, name, elements, bytes, EXG_DTYPE_##dtype},
#include "libexport/formats/gguf_type.def"
#undef EXG_GGUF_TYPE
};

#define TYPE_COUNT (sizeof(types) / sizeof(types[0]))

const exg_gguf_type *exg_gguf_type_numbered(uint32_t number)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (types[i].number == number) {
            return &types[i];
        }
    }
    return NULL;
}

const exg_gguf_type *exg_gguf_type_named(const char *name)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

/* Of "F4[3, 2]" the product of the sizes. */
static uint64_t product_of(const char *sizes)
{
    uint64_t product = 1;

    while (*sizes != '\0' && *sizes != ']') {
        char *end;
        uint64_t size = strtoull(sizes + 1, &end, 10);

        if (end == sizes + 1 || __builtin_mul_overflow(product, size, &product)) {
            break;
        }
        sizes = end;
    }
    return product;
}

uint64_t exg_encoded_elements(const char *encoding, uint64_t count)
{
    const exg_gguf_type *type = encoding == NULL ? NULL : exg_gguf_type_named(encoding);
    const char *sizes = encoding == NULL ? NULL : strchr(encoding, '[');
    uint32_t bits = encoding == NULL ? 0 : exg_safetensors_packed_bits(encoding);

    return type != NULL    ? count / type->bytes * type->elements
           : sizes != NULL ? product_of(sizes)
           : bits > 0      ? count * 8 / bits
                           : count;
}
