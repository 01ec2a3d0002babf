/* gguf_value.h - values of the metadata of GGUF: their types, and how they are written. */
#ifndef EXG_LIBEXPORT_FORMATS_GGUF_VALUE_H
#define EXG_LIBEXPORT_FORMATS_GGUF_VALUE_H

#include <exg/status.h>
#include <exg/text.h>

typedef enum exg_gguf_value {
#define EXG_GGUF_VALUE(id, kind, bytes) EXG_GGUF_##id,
#include "libexport/formats/gguf_value.def"
#undef EXG_GGUF_VALUE
    EXG_GGUF_VALUE_COUNT
} exg_gguf_value;

const char *exg_gguf_value_kind(exg_gguf_value type);
uint32_t exg_gguf_value_bytes(exg_gguf_value type); /* 0: it has a length */

/* Type and value of a pair whose value is `text` of the kind `kind` (exg/weights.h), little endian.
 * USAGE (GGUF-VALUE): the text is no such value. */
exg_status exg_gguf_value_put(exg_text *out, const char *kind, const char *text, exg_error *err);

#endif
