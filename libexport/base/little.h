/* little.h - numbers of files that are little endian. */
#ifndef EXG_LIBEXPORT_BASE_LITTLE_H
#define EXG_LIBEXPORT_BASE_LITTLE_H

#include <exg/text.h>
#include <stdint.h>

/* The low `bytes` bytes of a number, at the end of a text. */
static inline void exg_text_little(exg_text *out, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        exg_text_putc(out, (char)(value >> (8 * i) & 0xff));
    }
}

/* The number in the first `bytes` bytes of `from`, and back. */
static inline uint64_t exg_little_get(const uint8_t *from, uint32_t bytes)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

static inline void exg_little_put(uint8_t *to, uint64_t value, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

#endif
