/* npz.c - arrays of NumPy in a zip: NAME.npy, stored (np.savez) or deflated. */
#include "libexport/formats/pt2/zip.h"
#include "libexport/formats/weights_file.h"

#include <stdlib.h>
#include <string.h>

/* The length of NAME in "NAME.npy", or 0. */
static size_t stem_of(const char *member, size_t length)
{
    return length > 4 && memcmp(member + length - 4, ".npy", 4) == 0 ? length - 4 : 0;
}

static bool is_npy(void *user, const char *member, size_t length)
{
    *(bool *)user = true;
    return stem_of(member, length) > 0;
}

bool exg_npz_sniff(const uint8_t *data, uint64_t length)
{
    bool any = false;

    return exg_zip_names(data, length, is_npy, &any) && any;
}

static exg_status read_member(const exg_zip *zip, const exg_zip_entry *entry, uint64_t *budget,
                              exg_weights *weights, exg_error *err)
{
    const char *name =
        exg_arena_strndup(weights->arena, entry->name, stem_of(entry->name, strlen(entry->name)));
    const uint8_t *data = NULL;
    void *owned = NULL;

    if (name == NULL) {
        return EXG_OUT_OF_MEMORY(err);
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
    return exg_npy_read_as(data, entry->bytes, name, owned == NULL ? &entry->crc : NULL, weights,
                           err);
}

exg_status exg_npz_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    exg_zip zip;
    uint64_t budget = source->budget;

    EXG_TRY(exg_zip_open(source->data, source->length, 0, weights->arena, &zip, err));
    for (uint32_t i = 0; i < zip.count; i++) {
        EXG_TRY_IN(err, read_member(&zip, &zip.entries[i], &budget, weights, err), "%s",
                   zip.entries[i].name);
    }
    return EXG_OK;
}
