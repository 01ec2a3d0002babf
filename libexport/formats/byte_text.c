/* byte_text.c - names are spelled out, values kept. */
#include "libexport/formats/byte_text.h"

#include "libexport/base/arena.h"
#include "libexport/base/base64.h"

#include <exg/text.h>
#include <string.h>

static bool is_plain(const char *bytes, uint64_t length)
{
    return memchr(bytes, '\0', (size_t)length) == NULL && exg_text_is_utf8(bytes, (size_t)length);
}

/* The bytes of the character that begins here, 0 when none does. */
static size_t character(const char *bytes, uint64_t left)
{
    size_t length = 1;

    while (length <= 4 && length <= left) {
        if (exg_text_is_utf8(bytes, length)) {
            return length;
        }
        length++;
    }
    return 0;
}

const char *exg_byte_name(exg_arena *arena, const char *bytes, uint64_t length)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *name;

    if (length == 0 || is_plain(bytes, length)) {
        return exg_arena_strndup(arena, bytes, (size_t)length);
    }
    for (uint64_t i = 0; i < length;) {
        size_t good = character(bytes + i, length - i);

        if (bytes[i] == '\0') {
            exg_text_puts(&text, "\\u0000");
        } else if (good == 0) {
            exg_text_printf(&text, "\\x%02x", (unsigned char)bytes[i]);
        } else {
            exg_text_add(&text, bytes + i, good);
        }
        i += good == 0 ? 1 : good;
    }
    name = text.failed ? NULL : exg_arena_strdup(arena, exg_text_string(&text));
    exg_text_free(&text);
    return name;
}

exg_status exg_byte_metadata(exg_weights *weights, const char *key, const char *bytes,
                             uint64_t length, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (length == 0 || is_plain(bytes, length)) {
        exg_text_add(&text, bytes, (size_t)length);
        status = exg_text_string(&text) == NULL
                     ? EXG_OUT_OF_MEMORY(err)
                     : exg_weights_add_metadata(weights, key, exg_text_string(&text), err);
    } else {
        exg_base64_encode(&text, bytes, (size_t)length);
        status = exg_text_string(&text) == NULL
                     ? EXG_OUT_OF_MEMORY(err)
                     : exg_weights_add_metadata_as(weights, key, "bytes", text.data, err);
    }
    exg_text_free(&text);
    return status;
}
