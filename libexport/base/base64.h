/* base64.h - bytes as text (RFC 4648, with padding). */
#ifndef EXG_LIBEXPORT_BASE_BASE64_H
#define EXG_LIBEXPORT_BASE_BASE64_H

#include <exg/text.h>

void exg_base64_encode(exg_text *out, const void *data, size_t length);

/* Bytes that `length` characters stand for, at most. */
static inline size_t exg_base64_bytes_max(size_t length)
{
    return length / 4 * 3;
}

/* Into `out` (exg_base64_bytes_max); false when the text is no canonical base64. */
bool exg_base64_decode(const char *text, size_t length, unsigned char *out, size_t *bytes);

#endif
