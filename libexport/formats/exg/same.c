/* same.c - equal storages once. */
#include "libexport/base/map.h"
#include "libexport/base/xxh3.h"
#include "libexport/formats/exg/save.h"
#include "libexport/weights/storage.h"

#include <string.h>

static exg_status hash_bytes(void *user, const uint8_t *bytes, uint64_t length, exg_error *err)
{
    (void)err;
    XXH3_128bits_update(user, bytes, (size_t)length);
    return EXG_OK;
}

static exg_status hash_storage(exg_saver *s, uint32_t storage, XXH128_hash_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    exg_status status = state == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;

    if (status == EXG_OK) {
        XXH3_128bits_reset(state);
        status = exg_storage_stream(s->weights, storage, s->pool, hash_bytes, state, s->err);
        *hash = XXH3_128bits_digest(state);
    }
    XXH3_freeState(state);
    return status;
}

static exg_status same_bytes(exg_saver *s, uint32_t a, uint32_t b, bool *same)
{
    uint64_t length = s->weights->storages[a].length;

    *same = true;
    for (uint64_t at = 0; *same && at < length; at += EXG_FRAME_BYTES) {
        uint64_t part = length - at < EXG_FRAME_BYTES ? length - at : EXG_FRAME_BYTES;

        EXG_TRY(exg_storage_read(s->weights, a, at, part, s->plain[0], s->err));
        EXG_TRY(exg_storage_read(s->weights, b, at, part, s->packed[0], s->err));
        *same = memcmp(s->plain[0], s->packed[0], (size_t)part) == 0;
        exg_storage_forget(s->weights, a, at, at + part);
        exg_storage_forget(s->weights, b, at, at + part);
    }
    return EXG_OK;
}

/* What equal storages have in common; NULL without memory. */
static const char *key_of(exg_saver *s, uint32_t i, XXH128_hash_t hash)
{
    const exg_stored *stored = &s->stored[i];

    return exg_arena_printf(s->arena, "%llx %llx %llx %d %s", (unsigned long long)hash.high64,
                            (unsigned long long)hash.low64, (unsigned long long)stored->length,
                            (int)stored->byte_order,
                            stored->declared_checksum == NULL ? "" : stored->declared_checksum);
}

/* Two storages are one when length, byte order, hash and then the bytes are the same. */
exg_status exg_saver_deduplicate(exg_saver *s)
{
    exg_map seen;
    uint32_t *moved = EXG_NEW_ARRAY(s->arena, uint32_t, s->count);
    uint32_t kept = 0;

    exg_map_init(&seen, s->arena);
    if (moved == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        XXH128_hash_t hash;
        const char *key;
        uint32_t twin;
        bool same = false;

        EXG_TRY(hash_storage(s, s->source[i], &hash));
        key = key_of(s, i, hash);
        twin = exg_map_find(&seen, key);
        if (twin != EXG_MAP_NONE) {
            EXG_TRY(same_bytes(s, s->source[twin], s->source[i], &same));
        } else if (key == NULL || !exg_map_put(&seen, key, kept)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        moved[i] = same ? twin : kept;
        if (!same) {
            s->source[kept] = s->source[i];
            s->widths[kept] = s->widths[i];
            s->stored[kept++] = s->stored[i];
        }
    }
    for (uint32_t i = 0; i < s->weights->storage_count; i++) {
        s->map[i] = s->map[i] == UINT32_MAX ? UINT32_MAX : moved[s->map[i]];
    }
    s->count = kept;
    return EXG_OK;
}
