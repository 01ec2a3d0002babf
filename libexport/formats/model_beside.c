/* model_beside.c - files of a model that are no part of what is written now.
 *
 *   model.safetensors                          the model in one file
 *   model.safetensors.index.json               in several, which are called
 *   model-00001-of-00002.safetensors           so; those of GGUF have no index
 */
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/weights_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Behind `count` digits of the set, or NULL. */
static const char *pass(const char *at, const char *set, size_t count)
{
    return at != NULL && strspn(at, set) >= count ? at + count : NULL;
}

static const char *pass_word(const char *at, const char *word)
{
    return at != NULL && strncmp(at, word, strlen(word)) == 0 ? at + strlen(word) : NULL;
}

/* Is it called as a file of the model `base`, which is `stem` with an extension, is? */
static bool is_of_model(const char *name, const char *base, const char *stem)
{
    static const char digits[] = "0123456789";
    const char *rest = pass_word(name, base);

    if (rest != NULL && (*rest == '\0' || strcmp(rest, ".index.json") == 0)) {
        return true;
    }
    rest = pass_word(name, stem);
    rest = pass(pass_word(rest, "-"), digits, 5);
    rest = pass(pass_word(rest, "-of-"), digits, 5);
    return rest != NULL && strcmp(rest, strrchr(base, '.')) == 0;
}

/* Calls visit() with the path of each. */
static exg_status visit_all(const char *path, const exg_map *names,
                            exg_status (*visit)(const char *found, exg_error *err), exg_error *err)
{
    char *folder = exg_path_directory(path);
    DIR *directory = folder == NULL ? NULL : opendir(folder[0] == '\0' ? "." : folder);
    char stem[EXG_STEM_MAX + 1];
    exg_status status = folder == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    const struct dirent *entry;

    exg_path_stem(path, stem);
    /* A folder that cannot be listed holds nothing that others find; a new one nothing. */
    while (status == EXG_OK && directory != NULL && (entry = readdir(directory)) != NULL) {
        bool is_new = exg_map_find(names, entry->d_name) != EXG_MAP_NONE;
        char found[4096];

        if (!is_new && is_of_model(entry->d_name, exg_path_name(path), stem)) {
            snprintf(found, sizeof(found), "%s%s", folder, entry->d_name);
            status = visit(found, err);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    free(folder);
    return status;
}

static exg_status refuse(const char *found, exg_error *err)
{
    return exg_error_fix(
        err,
        EXG_FAIL(err, USAGE, "STF-BESIDE",
                 "'%s' belongs to a model of this name and would be left beside it", found),
        "remove it, give another folder, or --force to replace it");
}

static exg_status remove_file(const char *found, exg_error *err)
{
    return unlink(found) == 0 || errno == ENOENT
               ? EXG_OK
               : EXG_FAIL(err, IO, "IO-WRITE", "cannot remove %s: %s", found, strerror(errno));
}

exg_status exg_model_beside(const char *path, const exg_map *names, exg_error *err)
{
    return visit_all(path, names, refuse, err);
}

exg_status exg_model_remove_beside(const char *path, const exg_map *names, exg_error *err)
{
    return visit_all(path, names, remove_file, err);
}
