/* merkle.c - hashes of hashes. */
#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include "libexport/weights/merkle.h"

#include "libexport/base/hex.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/message_digest.h"

#include <string.h>

#define LEVELS 64

uint32_t exg_merkle_bytes(exg_checksum_kind kind)
{
    return kind == EXG_CHECKSUM_XXH3_128 ? 16 : kind == EXG_CHECKSUM_SHA256 ? 32 : 0;
}

/* The tag is the seed: a byte in front would put all others off the boundaries of words. */
static void hash_xxh3(uint8_t tag, const exg_merkle_piece *pieces, uint32_t count, uint8_t *out)
{
    XXH3_state_t state;
    XXH128_canonical_t digits;
    XXH128_hash_t hash;

    if (count == 1) {
        hash = XXH3_128bits_withSeed(pieces[0].data, pieces[0].length, tag);
    } else {
        XXH3_INITSTATE(&state);
        XXH3_128bits_reset_withSeed(&state, tag);
        for (uint32_t i = 0; i < count; i++) {
            XXH3_128bits_update(&state, pieces[i].data, pieces[i].length);
        }
        hash = XXH3_128bits_digest(&state);
    }
    XXH128_canonicalFromHash(&digits, hash);
    memcpy(out, digits.digest, sizeof(digits.digest));
}

static void hash_sha256(uint8_t tag, const exg_merkle_piece *pieces, uint32_t count, uint8_t *out)
{
    exg_message_digest digest;
    char text[65];

    exg_message_digest_begin(&digest, EXG_CHECKSUM_SHA256);
    exg_message_digest_add(&digest, &tag, 1);
    for (uint32_t i = 0; i < count; i++) {
        exg_message_digest_add(&digest, pieces[i].data, pieces[i].length);
    }
    exg_message_digest_finish(&digest, text);
    (void)exg_hex_get(text, out, 32);
}

exg_merkle_hash exg_merkle_hash_of(exg_checksum_kind kind, exg_merkle_tag tag,
                                   const exg_merkle_piece *pieces, uint32_t count)
{
    exg_merkle_hash hash = {{0}};

    (kind == EXG_CHECKSUM_SHA256 ? hash_sha256 : hash_xxh3)((uint8_t)tag, pieces, count,
                                                            hash.bytes);
    return hash;
}

exg_merkle_hash exg_merkle_join(exg_checksum_kind kind, const exg_merkle_hash *left,
                                const exg_merkle_hash *right)
{
    const uint32_t bytes = exg_merkle_bytes(kind);
    const exg_merkle_piece both[] = {{left->bytes, bytes}, {right->bytes, bytes}};

    return exg_merkle_hash_of(kind, EXG_MERKLE_INNER, both, 2);
}

/* Whole trees of 2^n leaves, the largest first, till two are of one size. */
exg_merkle_hash exg_merkle_root(exg_checksum_kind kind, const exg_merkle_hash *leaves,
                                uint64_t count)
{
    exg_merkle_hash trees[LEVELS];
    uint32_t depth = 0;

    for (uint64_t i = 0; i < count; i++) {
        trees[depth++] = leaves[i];
        for (uint64_t made = i + 1; made % 2 == 0; made /= 2) {
            depth--;
            trees[depth - 1] = exg_merkle_join(kind, &trees[depth - 1], &trees[depth]);
        }
    }
    for (; depth > 1; depth--) {
        trees[depth - 2] = exg_merkle_join(kind, &trees[depth - 2], &trees[depth - 1]);
    }
    return count == 0 ? exg_merkle_hash_of(kind, EXG_MERKLE_INNER, NULL, 0) : trees[0];
}

uint64_t exg_merkle_left(uint64_t count)
{
    return UINT64_C(1) << (63 - __builtin_clzll(count - 1));
}

void exg_merkle_put(exg_checksum_kind kind, const exg_merkle_hash *hash,
                    char text[EXG_DIGEST_TEXT_MAX])
{
    exg_hex_put(hash->bytes, exg_merkle_bytes(kind), text);
}

bool exg_merkle_get(exg_checksum_kind kind, const char *text, exg_merkle_hash *hash)
{
    *hash = (exg_merkle_hash){{0}};
    return exg_hex_get(text, hash->bytes, exg_merkle_bytes(kind));
}

bool exg_merkle_equal(const exg_merkle_hash *a, const exg_merkle_hash *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

const char *exg_merkle_kind_name(exg_checksum_kind kind)
{
    return kind == EXG_CHECKSUM_SHA256 ? "sha256" : "xxh3-128";
}

bool exg_merkle_parse(const char *text, exg_checksum_kind *kind, exg_merkle_hash *hash)
{
    static const exg_checksum_kind kinds[] = {EXG_CHECKSUM_SHA256, EXG_CHECKSUM_XXH3_128};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const size_t length = strlen(exg_merkle_kind_name(kinds[i]));

        if (strncmp(text, exg_merkle_kind_name(kinds[i]), length) == 0 && text[length] == ':') {
            *kind = kinds[i];
            return exg_merkle_get(*kind, text + length + 1, hash);
        }
    }
    return false;
}
