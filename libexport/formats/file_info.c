/* file_info.c - what is known of a file: the names of its programs. */
#include "libexport/formats/file_info.h"
#include "libexport/base/arena.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void exg_file_info_free(exg_file_info *info)
{
    if (info == NULL) {
        return;
    }
    for (uint32_t i = 0; i < info->program_count; i++) {
        free(info->program_names[i]);
    }
    free(info->program_names);
    free(info->loose_member);
    free(info);
}

exg_status exg_file_info_add_program(exg_file_info *info, const char *name, exg_error *err)
{
    char **names = realloc(info->program_names, (info->program_count + 1u) * sizeof(char *));
    char *copy = strdup(name);

    if (names != NULL) {
        info->program_names = names;
    }
    if (names == NULL || copy == NULL) {
        free(copy);
        return EXG_OUT_OF_MEMORY(err);
    }
    names[info->program_count++] = copy;
    return EXG_OK;
}
