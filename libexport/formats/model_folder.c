/* model_folder.c - a folder as a model: which of its files to read, by model_folder.def. */
#include "libexport/formats/model_folder.h"

#include "libexport/base/arena.h"
#include "libexport/formats/name_list.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTED_BYTES 200 /* of names in a message */

typedef struct pattern {
    const char *text;
    bool is_other; /* stands beside the one before it */
} pattern;

static const pattern patterns[] = {
#define EXG_MODEL_NAME(text) {text, false},
#define EXG_MODEL_OR(text)   {text, true},
#include "libexport/formats/model_folder.def"
#undef EXG_MODEL_NAME
#undef EXG_MODEL_OR
};

#define PATTERN_COUNT (sizeof(patterns) / sizeof(patterns[0]))

/* Folders that are no model which is read, told by what is in them. */
static const struct {
    const char *name, *what, *fix;
} foreign[] = {
    {"saved_model.pb", "a TensorFlow SavedModel",
     "save its variables as .npz or .safetensors in TensorFlow"},
    {"_CHECKPOINT_METADATA", "an orbax checkpoint of JAX",
     "restore it with orbax, and save it with safetensors.flax.save_file"},
    {"manifest.ocdbt", "an orbax checkpoint of JAX",
     "restore it with orbax, and save it with safetensors.flax.save_file"},
    {"flax_model.msgpack", "a Flax model",
     "load it in Flax, and save it with safetensors.flax.save_file"},
    {"Manifest.json", "a Core ML package", "give the PyTorch model it was converted from"},
    {"tf_model.h5", "a Keras model", "save its weights as .npz or .safetensors in Keras"},
    {"model_index.json", "a diffusers pipeline, whose models are in folders of it",
     "give one of them: unet, transformer, vae, text_encoder"},
};

typedef struct names {
    char **items; /* in order */
    uint32_t count, capacity;
} names;

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(names *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    free(n->items);
}

static exg_status read_names(const char *folder, names *n, exg_error *err)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    exg_status status = EXG_OK;

    if (directory == NULL) {
        return EXG_FAIL(err, IO, "IO-OPEN", "cannot open folder %s: %s", folder, strerror(errno));
    }
    while (status == EXG_OK && (entry = readdir(directory)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (!exg_heap_reserve(&n->items, n->count, &n->capacity, sizeof(*n->items)) ||
            (n->items[n->count] = strdup(entry->d_name)) == NULL) {
            status = EXG_OUT_OF_MEMORY(err);
        } else {
            n->count++;
        }
    }
    closedir(directory);
    if (n->count > 0) {
        qsort(n->items, n->count, sizeof(*n->items), by_name);
    }
    return status;
}

/* Is the name of this shape, where "0" is any digit? */
static bool is_shaped(const char *name, const char *shape)
{
    size_t i = 0;

    while (shape[i] != '\0' &&
           (shape[i] == '0' ? name[i] >= '0' && name[i] <= '9' : name[i] == shape[i])) {
        i++;
    }
    return shape[i] == '\0' && name[i] == '\0';
}

bool exg_model_is_slice(const char *name)
{
    return is_shaped(name, "shard-00000-model-00000-of-00000.safetensors");
}

size_t exg_model_part_stem(const char *name)
{
    static const char *const shapes[] = {"-00000-of-00000.safetensors", "-00000-of-00000.bin",
                                         "-00000-of-00000.gguf"};
    size_t length = strlen(name);

    for (size_t i = 0; !exg_model_is_slice(name) && i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t tail = strlen(shapes[i]);

        if (length > tail && is_shaped(name + length - tail, shapes[i])) {
            return length - tail;
        }
    }
    return 0;
}

/* Are both parts of one model: "m-00001-of-00003.gguf", "__0.metadata", "shard-00001-model-..."? */
static bool are_parts(const char *a, const char *b)
{
    size_t stem = exg_model_part_stem(a);

    if ((strncmp(a, "__", 2) == 0 && strncmp(b, "__", 2) == 0) ||
        (exg_model_is_slice(a) && exg_model_is_slice(b))) {
        return true;
    }
    return stem > 0 && stem == exg_model_part_stem(b) && strncmp(a, b, stem) == 0 &&
           strcmp(a + stem + 6, b + stem + 6) == 0;
}

/* The names that fit a line of the table, or one of those beside it. NULL: none does. */
static const char *find(const names *n, size_t first, exg_name_list *all)
{
    const char *found = NULL;

    for (size_t p = first; p < PATTERN_COUNT && (p == first || patterns[p].is_other); p++) {
        for (uint32_t i = 0; i < n->count; i++) {
            if (fnmatch(patterns[p].text, n->items[i], FNM_PERIOD) != 0) {
                continue;
            }
            if (found == NULL || !are_parts(found, n->items[i])) {
                exg_name_list_add(all, n->items[i]);
            }
            found = found == NULL ? n->items[i] : found;
        }
    }
    return found;
}

static exg_status tell_none(const names *n, exg_error *err)
{
    exg_name_list all = EXG_NAME_LIST_EMPTY(LISTED_BYTES);
    exg_status status;

    for (size_t f = 0; f < sizeof(foreign) / sizeof(foreign[0]); f++) {
        for (uint32_t i = 0; i < n->count; i++) {
            if (strcmp(n->items[i], foreign[f].name) == 0) {
                return exg_error_fix(
                    err, EXG_FAIL(err, UNSUPPORTED, "FMT-FOREIGN", "this is %s", foreign[f].what),
                    "%s", foreign[f].fix);
            }
        }
    }
    for (uint32_t i = 0; i < n->count; i++) {
        exg_name_list_add(&all, n->items[i]);
    }
    status = exg_text_string(&all.text) == NULL
                 ? EXG_OUT_OF_MEMORY(err)
                 : exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "FMT-FOLDER",
                                          n->count == 0 ? "the folder is empty%s"
                                                        : "the folder holds no model: %s",
                                          all.count == 0 ? "" : all.text.data),
                                 "give a file of weights, or a folder with model.safetensors, its "
                                 ".index.json, pytorch_model.bin or a .gguf");
    exg_text_free(&all.text);
    return status;
}

static exg_status choose(const names *n, const char **name, exg_error *err)
{
    exg_name_list all = EXG_NAME_LIST_EMPTY(LISTED_BYTES);
    exg_status status = EXG_OK;

    *name = NULL;
    for (size_t p = 0; p < PATTERN_COUNT && *name == NULL; p++) {
        *name = patterns[p].is_other ? NULL : find(n, p, &all);
    }
    if (*name == NULL) {
        return tell_none(n, err);
    }
    if (all.count > 1) {
        status = exg_text_string(&all.text) == NULL
                     ? EXG_OUT_OF_MEMORY(err)
                     : exg_error_fix(err,
                                     EXG_FAIL(err, UNSUPPORTED, "FMT-FOLDER",
                                              "the folder holds %u models: %s", all.count,
                                              all.text.data),
                                     "give the one that is meant");
    }
    exg_text_free(&all.text);
    return status;
}

static exg_status find_in(const char *folder, char **path, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    names n = {0};
    const char *name = NULL;
    exg_status status = read_names(folder, &n, err);

    if (status == EXG_OK) {
        status = choose(&n, &name, err);
    }
    if (status == EXG_OK) {
        exg_text_printf(&text, "%s/%s", folder, name);
        *path = text.data;
        status = text.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    if (status != EXG_OK) {
        exg_text_free(&text);
        *path = NULL;
    }
    free_names(&n);
    return status;
}

exg_status exg_model_file(const char *path, char **file, exg_error *err)
{
    if (is_folder(path)) {
        return find_in(path, file, err);
    }
    *file = strdup(path);
    return *file == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}
