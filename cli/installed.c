/* installed.c - files that are installed beside the command, and are called by name there. */
#include "cli/cli.h"

#include <dirent.h>
#include <exg/memory.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_MAX 4096

/* Where they are: from the folder of the command, which may lie anywhere. */
static bool find_folder(const char *kind, char folder[FOLDER_MAX])
{
    ssize_t length = readlink("/proc/self/exe", folder, FOLDER_MAX - 1);
    char *slash;
    size_t room;

    folder[length < 0 ? 0 : length] = '\0';
    slash = strrchr(folder, '/');
    if (slash == NULL) {
        return false;
    }
    room = FOLDER_MAX - (size_t)(slash + 1 - folder);
    return (size_t)snprintf(slash + 1, room, "%s/%s", EXG_SHARE, kind) < room;
}

static bool ends_so(const char *name, const char *extension)
{
    const size_t length = strlen(name);
    const size_t end = strlen(extension);

    return length > end && strcmp(name + length - end, extension) == 0;
}

void cli_put_installed(exg_text *text, const char *kind, const char *extension)
{
    char folder[FOLDER_MAX];
    struct dirent **entries = NULL;
    int count = find_folder(kind, folder) ? scandir(folder, &entries, NULL, alphasort) : 0;
    const char *before = "";

    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;

        if (ends_so(name, extension)) {
            exg_text_printf(text, "%s%.*s", before, (int)(strlen(name) - strlen(extension)), name);
            before = ", ";
        }
        free(entries[i]);
    }
    free(entries);
}

exg_status cli_find_installed(const char *kind, const char *extension, const char *name,
                              exg_arena *arena, const char **path, exg_error *err)
{
    char folder[FOLDER_MAX];

    *path = name;
    if (strchr(name, '/') != NULL || ends_so(name, extension)) {
        return EXG_OK;
    }
    *path = find_folder(kind, folder) ? exg_arena_printf(arena, "%s/%s%s", folder, name, extension)
                                      : "";
    if (*path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    *path = access(*path, F_OK) == 0 ? *path : NULL;
    return EXG_OK;
}
