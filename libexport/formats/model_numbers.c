/* model_numbers.c - what the configuration beside a file of weights says in whole numbers. */
#include "libexport/base/files.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"

#include <exg/formats.h>
#include <exg/text.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static exg_status tell(exg_json object, exg_model_number_fn *number, void *user, exg_error *err)
{
    exg_json_walk walk;
    const char *key = NULL;
    uint32_t length = 0;
    exg_json value;
    int64_t held = 0;

    EXG_TRY(exg_json_object(object, &walk, err));
    while (exg_json_next_member(&walk, &key, &length, &value)) {
        if (exg_json_type_of(value) == EXG_JSON_INT) {
            EXG_TRY(exg_json_int(value, &held, err));
            EXG_TRY(number(user, key, held, err));
        }
    }
    return EXG_OK;
}

/* Those of the object, then those of objects in it ("text_config"). */
static exg_status tell_all(exg_json root, exg_model_number_fn *number, void *user, exg_error *err)
{
    exg_json_walk walk;
    const char *key = NULL;
    uint32_t length = 0;
    exg_json value;

    EXG_TRY(tell(root, number, user, err));
    EXG_TRY(exg_json_object(root, &walk, err));
    while (exg_json_next_member(&walk, &key, &length, &value)) {
        if (exg_json_type_of(value) == EXG_JSON_OBJECT) {
            EXG_TRY(tell(value, number, user, err));
        }
    }
    return EXG_OK;
}

static exg_status read_file(const char *path, exg_model_number_fn *number, void *user,
                            exg_error *err)
{
    exg_json_doc *doc = NULL;
    exg_status status;

    if (access(path, F_OK) != 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_json_open(path, &doc, err));
    status = tell_all(exg_json_root(doc), number, user, err);
    exg_json_free(doc);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", path);
}

exg_status exg_model_numbers(const char *path, exg_model_number_fn *number, void *user,
                             exg_error *err)
{
    EXG_REQUIRE(err, path, number == NULL ? NULL : path);
    static const char *const names[] = {"config.json", "params.json"};
    struct stat st;
    bool is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    char *folder = is_folder ? NULL : exg_path_directory(path);
    exg_status status = is_folder || folder != NULL ? EXG_OK : EXG_OUT_OF_MEMORY(err);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && status == EXG_OK; i++) {
        exg_text file = EXG_TEXT_EMPTY;

        exg_text_printf(&file, "%s%s%s", is_folder ? path : folder, is_folder ? "/" : "", names[i]);
        status = exg_text_string(&file) == NULL ? EXG_OUT_OF_MEMORY(err)
                                                : read_file(file.data, number, user, err);
        exg_text_free(&file);
    }
    free(folder);
    return status;
}
