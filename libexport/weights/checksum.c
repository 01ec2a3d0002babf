/* checksum.c - one face for XXH3, crc32 and the digests of blocks. */
#include "libexport/weights/checksum.h"

#include "libexport/base/arena.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/message_digest.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

struct exg_hasher {
    exg_checksum_kind kind;
    uint32_t crc;
    XXH3_state_t *xxh3;
    exg_message_digest digest;
};

exg_hasher *exg_hasher_create(exg_checksum_kind kind)
{
    exg_hasher *hasher;

    if (kind == EXG_CHECKSUM_NONE || kind == EXG_CHECKSUM_UNKNOWN) {
        return NULL;
    }
    hasher = calloc(1, sizeof(*hasher));
    if (hasher == NULL) {
        return NULL;
    }
    hasher->kind = kind;
    exg_message_digest_begin(&hasher->digest, kind);
    if (kind == EXG_CHECKSUM_XXH3_64 || kind == EXG_CHECKSUM_XXH3_128) {
        hasher->xxh3 = XXH3_createState();
        if (hasher->xxh3 == NULL) {
            free(hasher);
            return NULL;
        }
        XXH3_128bits_reset(hasher->xxh3);
        if (kind == EXG_CHECKSUM_XXH3_64) {
            XXH3_64bits_reset(hasher->xxh3);
        }
    }
    return hasher;
}

void exg_hasher_add(exg_hasher *hasher, const void *data, size_t length)
{
    if (length == 0) {
        return;
    }
    switch (hasher->kind) {
    case EXG_CHECKSUM_CRC32:
        hasher->crc = libdeflate_crc32(hasher->crc, data, length);
        break;
    case EXG_CHECKSUM_XXH3_64:
        XXH3_64bits_update(hasher->xxh3, data, length);
        break;
    case EXG_CHECKSUM_XXH3_128:
        XXH3_128bits_update(hasher->xxh3, data, length);
        break;
    case EXG_CHECKSUM_SHA256:
    case EXG_CHECKSUM_SHA1:
    case EXG_CHECKSUM_MD5:
        exg_message_digest_add(&hasher->digest, data, length);
        break;
    case EXG_CHECKSUM_NONE:
    case EXG_CHECKSUM_UNKNOWN:
        break;
    }
}

void exg_hasher_finish(exg_hasher *hasher, char *text)
{
    XXH128_hash_t wide;

    text[0] = '\0';
    switch (hasher->kind) {
    case EXG_CHECKSUM_CRC32:
        snprintf(text, EXG_CHECKSUM_TEXT_MAX, "%08x", (unsigned)hasher->crc);
        break;
    case EXG_CHECKSUM_XXH3_64:
        snprintf(text, EXG_CHECKSUM_TEXT_MAX, "%016llx",
                 (unsigned long long)XXH3_64bits_digest(hasher->xxh3));
        break;
    case EXG_CHECKSUM_XXH3_128:
        wide = XXH3_128bits_digest(hasher->xxh3);
        snprintf(text, EXG_CHECKSUM_TEXT_MAX, "%016llx%016llx", (unsigned long long)wide.high64,
                 (unsigned long long)wide.low64);
        break;
    case EXG_CHECKSUM_SHA256:
    case EXG_CHECKSUM_SHA1:
    case EXG_CHECKSUM_MD5:
        exg_message_digest_finish(&hasher->digest, text);
        break;
    case EXG_CHECKSUM_NONE:
    case EXG_CHECKSUM_UNKNOWN:
        break;
    }
    XXH3_freeState(hasher->xxh3);
    free(hasher);
}

bool exg_checksum_is_known(const exg_checksum *checksum)
{
    return checksum->kind != EXG_CHECKSUM_NONE && checksum->kind != EXG_CHECKSUM_UNKNOWN;
}

exg_status exg_checksum_compare(const exg_checksum *checksum, const char *found, exg_error *err)
{
    return strcasecmp(found, checksum->text) == 0
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, MALFORMED, "ARC-012",
                                        "checksum is %s, the file says %s: damaged bytes", found,
                                        checksum->text),
                               "the file is damaged: copy it again");
}

/* ---- all of a storage ----------------------------------------------------------------------- */

static const exg_checksum *checksum_at(const exg_storage *storage, uint32_t i)
{
    return i == 0 ? &storage->checksum : &storage->further[i - 1];
}

exg_status exg_checks_begin(exg_checks *checks, const exg_storage *storage, exg_checksum_kind but,
                            exg_error *err)
{
    checks->count = storage->further_count + 1;
    checks->hashers = calloc(checks->count, sizeof(*checks->hashers));
    for (uint32_t i = 0; checks->hashers != NULL && i < checks->count; i++) {
        const exg_checksum *checksum = checksum_at(storage, i);

        if (!exg_checksum_is_known(checksum) || checksum->kind == but) {
            continue;
        }
        checks->hashers[i] = exg_hasher_create(checksum->kind);
        if (checks->hashers[i] == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    return checks->hashers == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

void exg_checks_add(exg_checks *checks, const void *data, size_t length)
{
    for (uint32_t i = 0; i < checks->count; i++) {
        if (checks->hashers[i] != NULL) {
            exg_hasher_add(checks->hashers[i], data, length);
        }
    }
}

exg_status exg_checks_end(exg_checks *checks, const exg_storage *storage, exg_status status,
                          exg_error *err)
{
    char found[EXG_CHECKSUM_TEXT_MAX];

    for (uint32_t i = 0; checks->hashers != NULL && i < checks->count; i++) {
        if (checks->hashers[i] != NULL) {
            exg_hasher_finish(checks->hashers[i], found);
            status = status == EXG_OK ? exg_checksum_compare(checksum_at(storage, i), found, err)
                                      : status;
        }
    }
    free(checks->hashers);
    *checks = (exg_checks){0};
    return status;
}

exg_status exg_storage_compare(const exg_storage *storage, exg_checksum_kind kind,
                               const char *found, exg_error *err)
{
    for (uint32_t i = 0; i <= storage->further_count; i++) {
        if (checksum_at(storage, i)->kind == kind) {
            EXG_TRY(exg_checksum_compare(checksum_at(storage, i), found, err));
        }
    }
    return EXG_OK;
}

const char *exg_storage_unknown_checksum(const exg_storage *storage)
{
    for (uint32_t i = 0; i <= storage->further_count; i++) {
        if (checksum_at(storage, i)->kind == EXG_CHECKSUM_UNKNOWN) {
            return checksum_at(storage, i)->text;
        }
    }
    return NULL;
}

uint32_t exg_crc32_of_rest(uint32_t all, uint32_t head, uint64_t length)
{
    return all ^ (uint32_t)crc32_combine64(head, 0, (z_off64_t)length);
}
