/* json_writer.h - JSON as Python's json.dumps writes it: ", " and ": ", ASCII, no line ends.
 *
 * A value is put behind exg_json_put_key() in an object, behind exg_json_put_item() in a
 * list; both put the comma where one is due. Memory faults stick in the text.
 */
#ifndef EXG_LIBEXPORT_FORMATS_JSON_WRITER_H
#define EXG_LIBEXPORT_FORMATS_JSON_WRITER_H

#include "libexport/base/arena.h"
#include "libexport/base/text.h"

#include <exg/status.h>
#include <inttypes.h>

/* A value never ends in an opening bracket, so what stands last tells whether it is the first. */
static inline void exg_json_put_item(exg_text *text)
{
    char last = text->length == 0 ? '[' : text->data[text->length - 1];

    if (last != '[' && last != '{') {
        exg_text_puts(text, ", ");
    }
}

static inline void exg_json_put_key(exg_text *text, const char *key)
{
    exg_json_put_item(text);
    exg_text_json_string(text, key);
    exg_text_puts(text, ": ");
}

static inline void exg_json_put_int(exg_text *text, int64_t value)
{
    exg_text_printf(text, "%" PRId64, value);
}

static inline void exg_json_put_bool(exg_text *text, bool value)
{
    exg_text_puts(text, value ? "true" : "false");
}

/* NULL becomes null. */
static inline void exg_json_put_text(exg_text *text, const char *string)
{
    if (string == NULL) {
        exg_text_puts(text, "null");
    } else {
        exg_text_json_string(text, string);
    }
}

/* How the whole went. NO_MEMORY, UNSUPPORTED. */
static inline exg_status exg_json_written(const exg_text *text, exg_error *err)
{
    if (text->failed) {
        return EXG_OUT_OF_MEMORY(err);
    }
    return text->replaced ? EXG_FAIL(err, UNSUPPORTED, "FMT-TEXT",
                                     "the program holds a text that is not UTF-8")
                          : EXG_OK;
}

#endif
