/* npz.c - arrays of NumPy in a zip: NAME.npy, stored (np.savez) or deflated.
 *
 * The names are keys, as in NumPy: any will do. A member that is no array is listed.
 */
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/weights_file.h"

#include <exg/text.h>
#include <stdlib.h>
#include <string.h>

static bool ends_in(const char *name, size_t length, const char *tail)
{
    size_t bytes = strlen(tail);

    return length >= bytes && memcmp(name + length - bytes, tail, bytes) == 0;
}

/* An array is there, and nothing that an archive of PyTorch's has: those hold files of any kind. */
static bool is_npy(void *user, const char *member, size_t length)
{
    bool *any = user;

    *any = *any || ends_in(member, length, ".npy");
    return !ends_in(member, length, "/data.pkl") && !ends_in(member, length, "/archive_format") &&
           !ends_in(member, length, "archive_version") &&
           !ends_in(member, length, "serialized_exported_program.json");
}

/* An archive of nothing too, which numpy.savez() writes of nothing. */
bool exg_npz_sniff(const uint8_t *data, uint64_t length)
{
    bool any = false;

    if (length == 22 && memcmp(data, "PK\5\6", 4) == 0) {
        return true;
    }
    return exg_zip_names(data, length, is_npy, &any) && any;
}

/* The key: without ".npy", and as what is listed can be called. NULL: out of memory. */
static const char *key_of(const exg_zip_entry *entry, exg_arena *arena)
{
    size_t length = strlen(entry->name);
    char *key = exg_arena_strndup(arena, entry->name,
                                  ends_in(entry->name, length, ".npy") ? length - 4 : length);

    for (char *c = key; c != NULL && !exg_text_is_utf8(entry->name, length) && *c != '\0'; c++) {
        *c = (char)((unsigned char)*c < 0x80 ? *c : '?');
    }
    return key;
}

static exg_status read_member(const exg_zip *zip, const exg_zip_entry *entry, uint64_t *budget,
                              exg_weights *weights, exg_error *err)
{
    const char *key = key_of(entry, weights->arena);
    const uint8_t *data = NULL;
    void *owned = NULL;

    if (key == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (exg_zip_find(zip, entry->name) != entry) { /* as for numpy.load() */
        return exg_weights_skip(weights, key, "a name that is there again further on, which counts",
                                err);
    }
    if (!exg_text_is_utf8(entry->name, strlen(entry->name))) {
        return exg_weights_skip(weights, key, "an array whose name is not UTF-8", err);
    }
    EXG_TRY(exg_zip_read(zip, entry, *budget, &data, &owned, err));
    if (owned != NULL) {
        exg_status status = exg_weights_own(weights, free, owned, err);

        if (status != EXG_OK) {
            free(owned);
            return status;
        }
        *budget -= entry->bytes;
        EXG_TRY(exg_zip_check_crc(zip, entry, data, err)); /* the bytes are at hand */
    }
    if (!exg_npy_sniff(data, entry->bytes) && !ends_in(entry->name, strlen(entry->name), ".npy")) {
        return exg_weights_skip(weights, key, "a member that is no array", err);
    }
    return exg_npy_read_as(data, entry->bytes, key, owned == NULL ? &entry->crc : NULL, weights,
                           err);
}

exg_status exg_npz_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    exg_zip zip;
    uint64_t budget = source->budget;

    EXG_TRY(exg_zip_open_keys(source->data, source->length, weights->arena, &zip, err));
    for (uint32_t i = 0; i < zip.count; i++) {
        EXG_TRY_IN(err, read_member(&zip, &zip.entries[i], &budget, weights, err), "%s",
                   zip.entries[i].name);
    }
    return EXG_OK;
}
