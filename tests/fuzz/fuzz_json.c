/* fuzz_json.c - any bytes as JSON: parse, walk, ask everything of every value. */
#include "libexport/formats/json.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void walk_value(exg_json value)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *text;
    uint32_t length;
    size_t size;
    int64_t integer;
    double number;
    bool truth;

    (void)exg_json_int(value, &integer, NULL);
    (void)exg_json_double(value, &number, NULL);
    (void)exg_json_bool(value, &truth, NULL);
    if (exg_json_string(value, &text, &size, NULL) == EXG_OK && strlen(text) != size) {
        abort();
    }
    if (exg_json_array(value, &walk, NULL) == EXG_OK) {
        uint32_t count = 0;

        while (exg_json_next(&walk, &element)) {
            walk_value(element);
            count++;
        }
        if (count != exg_json_count(value)) {
            abort();
        }
    } else if (exg_json_object(value, &walk, NULL) == EXG_OK) {
        uint32_t count = 0;

        while (exg_json_next_member(&walk, &text, &length, &element)) {
            exg_json found;

            if (!exg_json_find(value, text, &found) || found.at != element.at) {
                abort(); /* keys are unique and hold no NUL */
            }
            walk_value(element);
            count++;
        }
        if (count != exg_json_count(value)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exg_json_doc *doc = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (size < 4096 &&
        exg_json_parse(data, size, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, &err) == EXG_OK) {
        exg_json root = exg_json_root(doc);

        if (exg_json_offset(root) >= size) {
            abort();
        }
        walk_value(root);
        exg_json_free(doc);
    } else if (size < 4096 && (doc != NULL || err.code[0] == '\0')) {
        abort();
    }
    return 0;
}
