/* hex.h - bytes as hex digits, lower case, and back. */
#ifndef EXG_LIBEXPORT_BASE_HEX_H
#define EXG_LIBEXPORT_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `text` has room for 2 * count digits and a NUL. */
static inline void exg_hex_put(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

static inline int exg_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Exactly `count` bytes; false: the text is not 2 * count digits. */
static inline bool exg_hex_get(const char *text, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int high = exg_hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : exg_hex_digit(text[2 * i + 1]);

        if (low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * count] == '\0';
}

#endif
