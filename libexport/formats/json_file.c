/* json_file.c - a JSON text that a file, or a pipe, holds. */
#include "libexport/base/arena.h"
#include "libexport/formats/json.h"

#include <exg/text.h>
#include <stdio.h>

exg_status exg_json_open(const char *path, exg_json_doc **doc, exg_error *err)
{
    FILE *file = fopen(path, "rb");
    exg_text text = EXG_TEXT_EMPTY;
    char block[4096];
    exg_status status;

    if (file == NULL) {
        return EXG_FAIL(err, IO, "CLI-005", "cannot open '%s'", path);
    }
    for (size_t got; (got = fread(block, 1, sizeof(block), file)) > 0;) {
        exg_text_add(&text, block, got);
    }
    status = ferror(file)  ? EXG_FAIL(err, IO, "CLI-005", "cannot read '%s'", path)
             : text.failed ? EXG_OUT_OF_MEMORY(err)
                           : exg_json_parse(text.data == NULL ? "" : text.data, text.length, 0,
                                            EXG_JSON_KEYS_NOW, doc, err);
    fclose(file);
    exg_text_free(&text);
    return status == EXG_OK || status == EXG_IO ? status
                                                : exg_error_within(err, status, "%s:", path);
}
