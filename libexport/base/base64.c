/* base64.c - see base64.h. */
#include "libexport/base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void exg_base64_encode(exg_text *out, const void *data, size_t length)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < length; i += 3) {
        size_t left = length - i;
        uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        char four[4] = {letters[group >> 18], letters[group >> 12 & 63],
                        left > 1 ? letters[group >> 6 & 63] : '=',
                        left > 2 ? letters[group & 63] : '='};

        exg_text_add(out, four, 4);
    }
}

static int value_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool exg_base64_decode(const char *text, size_t length, unsigned char *out, size_t *bytes)
{
    size_t made = 0;

    if (length % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < length; i += 4) {
        bool last = i + 4 == length;
        int pad = !last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        uint32_t group = 0;

        for (int k = 0; k < 4 - pad; k++) {
            int v = value_of(text[i + (size_t)k]);

            if (v < 0) {
                return false;
            }
            group |= (uint32_t)v << (18 - 6 * k);
        }
        if ((pad == 1 && (group & 0xff) != 0) || (pad == 2 && (group & 0xffff) != 0)) {
            return false; /* bits that stand for nothing */
        }
        for (int k = 0; k < 3 - pad; k++) {
            out[made++] = (unsigned char)(group >> (16 - 8 * k));
        }
    }
    *bytes = made;
    return true;
}
