/* window_plan.c - what opening a file touches, by its format.
 *
 * Readers look at the bytes where they are. Here is known which those are of a file that is opened
 * and not read: a header, or the directory of an archive and its small members.
 */
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/weights_file.h"
#include "libexport/formats/window.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_UNITS  4     /* most headers end there */
#define END_BYTES   4096u /* of an archive: without a comment its directory ends there */
#define LOCAL_BYTES 1024u /* a local header and the first bytes of its member, mostly */
#define PEEK_BYTES  128u  /* of a member's own, where it is looked at what it is */
#define NPY_BYTES   4096u /* the header of an array ends there, mostly */

static uint64_t little(const uint8_t *p, int bytes)
{
    uint64_t value = 0;

    while (bytes > 0) {
        value = value << 8 | p[--bytes];
    }
    return value;
}

/* ---- archives ----------------------------------------------------------------------------------
 */

typedef struct archive {
    exg_window *window;
    uint64_t base; /* of it in the window */
    exg_zip zip;
} archive;

static exg_status plan_zip(exg_window *w, uint64_t base, uint64_t length, uint32_t depth,
                           exg_error *err);

static bool ends_in(const char *name, const char *tail)
{
    size_t length = strlen(name);
    size_t bytes = strlen(tail);

    return length >= bytes && strcmp(name + length - bytes, tail) == 0;
}

/* The name behind the root folder. */
static const char *behind_root(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash == NULL ? name : slash + 1;
}

/* Is it worth to be left where it is? */
static bool is_large(const archive *a, const exg_zip_entry *entry)
{
    return !entry->deflated && entry->stored_bytes > exg_window_unit(a->window);
}

/* Bytes of a tensor, which stay where they are: "data/0" of torch.save, "data/weights/weight_0". */
static bool is_payload(const archive *a, const exg_zip_entry *entry)
{
    const char *name = behind_root(entry->name);
    size_t folder = strncmp(name, "data/weights/", 13) == 0     ? 13
                    : strncmp(name, "data/constants/", 15) == 0 ? 15
                    : strncmp(name, "data/", 5) == 0            ? 5
                                                                : 0;

    return is_large(a, entry) && folder > 0 && strpbrk(name + folder, "/.") == NULL;
}

static bool is_array(const archive *a, const exg_zip_entry *entry)
{
    return is_large(a, entry) && ends_in(entry->name, ".npy");
}

/* A state dict: an archive in the archive. Example inputs are kept as they are. */
static bool is_state(const archive *a, const exg_zip_entry *entry)
{
    const char *name = behind_root(entry->name);

    return is_large(a, entry) && ends_in(name, ".pt") &&
           (strncmp(name, "serialized_state_dict", 21) == 0 ||
            strncmp(name, "serialized_constants", 20) == 0 ||
            strncmp(name, "data/weights/", 13) == 0 || strncmp(name, "data/constants/", 15) == 0);
}

/* Where a member's bytes begin in the window; its header is there. */
static uint64_t start_of(const archive *a, const exg_zip_entry *entry)
{
    return a->base + entry->header_offset + exg_zip_local_bytes(&a->zip, entry);
}

/* Local headers that lead out of the archive, and those whose bytes would lie out of it, are the
 * reader's to refuse. */
static bool has_header(const archive *a, const exg_zip_entry *entry)
{
    return entry->header_offset < a->zip.length &&
           a->zip.length - entry->header_offset >= EXG_ZIP_LOCAL_BYTES &&
           a->zip.length - entry->header_offset >= exg_zip_local_bytes(&a->zip, entry);
}

static void want_member(archive *a, const exg_zip_entry *entry)
{
    uint64_t start = start_of(a, entry);
    uint64_t left = a->base + a->zip.length - start;
    uint64_t bytes = entry->stored_bytes < left ? entry->stored_bytes : left;

    exg_window_want(a->window, a->base + entry->header_offset,
                    start - a->base - entry->header_offset);
    if (is_array(a, entry) || is_state(a, entry)) {
        exg_window_want(a->window, start, NPY_BYTES);
    } else if (is_payload(a, entry)) { /* a pickle is one by its last byte too */
        exg_window_want(a->window, start, PEEK_BYTES);
        exg_window_want(a->window, start + bytes - 1, 1);
    } else {
        exg_window_want(a->window, start, bytes);
    }
}

/* The second look, where the first has told how much there is. */
static exg_status plan_member(archive *a, const exg_zip_entry *entry, uint32_t depth,
                              exg_error *err)
{
    uint64_t start = start_of(a, entry);
    uint64_t left = a->base + a->zip.length - start;
    const uint8_t *data = exg_window_data(a->window) + start;

    if (is_array(a, entry) && left > 12 && exg_npy_sniff(data, left)) {
        exg_window_want(a->window, start, 12 + little(data + 8, data[6] > 1 ? 4 : 2));
    } else if (is_state(a, entry) && left >= entry->stored_bytes) {
        if (depth == 0 && exg_zip_sniff(data, 4)) {
            return plan_zip(a->window, start, entry->stored_bytes, depth + 1, err);
        }
        exg_window_want(a->window, start, entry->stored_bytes);
    }
    return EXG_OK;
}

static exg_status plan_members(archive *a, uint32_t depth, exg_error *err)
{
    const exg_zip *zip = &a->zip;

    for (uint32_t i = 0; i < zip->count; i++) {
        exg_window_want(a->window, a->base + zip->entries[i].header_offset, LOCAL_BYTES);
    }
    EXG_TRY(exg_window_fetch(a->window, err));
    for (uint32_t i = 0; i < zip->count; i++) {
        if (has_header(a, &zip->entries[i])) {
            want_member(a, &zip->entries[i]);
        }
    }
    EXG_TRY(exg_window_fetch(a->window, err));
    for (uint32_t i = 0; i < zip->count; i++) {
        if (has_header(a, &zip->entries[i])) {
            EXG_TRY(plan_member(a, &zip->entries[i], depth, err));
        }
    }
    return exg_window_fetch(a->window, err);
}

/* Behind the directory there may be a comment. */
static exg_status find_directory(exg_window *w, uint64_t base, uint64_t length, uint64_t *offset,
                                 uint64_t *bytes, bool *found, exg_error *err)
{
    static const uint64_t tails[] = {END_BYTES, EXG_ZIP_END_MAX};

    *found = false;
    for (int i = 0; i < 2 && !*found; i++) {
        uint64_t tail = length < tails[i] ? length : tails[i];

        EXG_TRY(exg_window_need(w, base + length - tail, tail, 0, err));
        *found = exg_zip_directory(exg_window_data(w) + base, length, offset, bytes);
    }
    return EXG_OK;
}

static exg_status plan_zip(exg_window *w, uint64_t base, uint64_t length, uint32_t depth,
                           exg_error *err)
{
    const uint8_t *data = exg_window_data(w) + base;
    archive a = {.window = w, .base = base};
    exg_arena *arena;
    uint64_t offset;
    uint64_t bytes;
    bool found;
    exg_status status;

    EXG_TRY(find_directory(w, base, length, &offset, &bytes, &found, err));
    if (!found) {
        return exg_window_need(w, base, length, 0,
                               err); /* what is wrong with it is told by all of it */
    }
    EXG_TRY(exg_window_need(w, base + offset, bytes, 0, err));
    arena = exg_arena_create(NULL, exg_default_budget(bytes));
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_zip_list(data, length, arena, &a.zip, NULL) == EXG_OK
                 ? plan_members(&a, depth, err)
                 : EXG_OK;
    exg_arena_destroy(arena);
    return status;
}

void exg_window_want_ends(exg_window *window, uint64_t offset, uint64_t length)
{
    uint64_t tail = length < END_BYTES ? length : END_BYTES;

    if (!exg_window_is_whole(window)) {
        exg_window_want(window, offset, tail);
        exg_window_want(window, offset + length - tail, tail);
    }
}

exg_status exg_window_plan_inside(exg_window *window, uint64_t offset, uint64_t length,
                                  exg_error *err)
{
    if (exg_window_is_whole(window)) {
        return EXG_OK;
    }
    EXG_TRY(exg_window_need(window, offset, length < END_BYTES ? length : END_BYTES, 0, err));
    return length > 4 && exg_zip_sniff(exg_window_data(window) + offset, 4)
               ? plan_zip(window, offset, length, 0, err)
               : exg_window_need(window, offset, length, 0, err);
}

/* ---- all formats -------------------------------------------------------------------------------
 */

/* What is no model is named by how it begins and ends, however large it is. */
static exg_status plan_rest(exg_window *w, exg_error *err)
{
    uint64_t length = exg_window_length(w);
    uint64_t tail = length < EXG_ZIP_END_MAX ? length : EXG_ZIP_END_MAX;
    const exg_source source = {.data = exg_window_data(w), .length = length};
    exg_error fault;
    exg_status status = exg_window_need(w, 0, length, 0, &fault);

    if (status == EXG_LIMIT) {
        EXG_TRY(exg_window_need(w, length - tail, tail, 0, err));
        EXG_TRY(exg_foreign_check(&source, err));
    }
    if (status != EXG_OK && err != NULL) {
        *err = fault;
    }
    return status;
}

exg_status exg_window_plan(exg_window *window, exg_error *err)
{
    const uint8_t *data = exg_window_data(window);
    uint64_t length = exg_window_length(window);

    uint64_t head = HEAD_UNITS * exg_window_unit(window);

    if (exg_window_is_whole(window)) {
        return EXG_OK;
    }
    EXG_TRY(exg_window_need(window, 0, head, 0, err));
    if (length <= head || exg_gguf_sniff(data, length)) { /* GGUF's reader asks itself */
        return EXG_OK;
    }
    if (exg_safetensors_sniff(data, length)) {
        return exg_window_need(window, 0, 8 + little(data, 8), 0, err);
    }
    if (exg_npy_sniff(data, length)) {
        return exg_window_need(window, 0, 12 + little(data + 8, data[6] > 1 ? 4 : 2), 0, err);
    }
    return exg_zip_sniff(data, 4) ? plan_zip(window, 0, length, 0, err) : plan_rest(window, err);
}
