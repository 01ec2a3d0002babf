/* checksum.c - XXH3 and crc32 from their libraries, SHA-256 (FIPS 180-4) here. */
#include "libexport/weights/checksum.h"

#include "libexport/base/xxh3.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
} sha256;

struct exg_hasher {
    exg_checksum_kind kind;
    uint32_t crc;
    XXH3_state_t *xxh3;
    sha256 sha;
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void sha256_block(sha256 *sha, const unsigned char *block)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};
    uint32_t w[64];
    uint32_t s[8];

    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;

        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, sha->state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + sum1 + choice + k[i] + w[i];
        uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);

        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + sum0 + majority;
    }
    for (int i = 0; i < 8; i++) {
        sha->state[i] += s[i];
    }
}

static void sha256_add(sha256 *sha, const unsigned char *data, size_t length)
{
    size_t held = (size_t)(sha->length % 64);

    sha->length += length;
    while (length > 0) {
        size_t take = 64 - held < length ? 64 - held : length;

        if (take == 64) {
            sha256_block(sha, data);
        } else {
            memcpy(sha->block + held, data, take);
            if (held + take == 64) {
                sha256_block(sha, sha->block);
            }
        }
        data += take;
        length -= take;
        held = 0;
    }
}

static void sha256_finish(sha256 *sha, char *text)
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = sha->length * 8;
    unsigned char tail[8];

    for (int i = 0; i < 8; i++) {
        tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    sha256_add(sha, padding, 1 + (119 - (size_t)(sha->length % 64)) % 64);
    sha256_add(sha, tail, 8);
    for (int i = 0; i < 8; i++) {
        snprintf(text + 8 * i, 9, "%08x", (unsigned)sha->state[i]);
    }
}

exg_hasher *exg_hasher_create(exg_checksum_kind kind)
{
    static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    exg_hasher *hasher;

    if (kind == EXG_CHECKSUM_NONE || kind == EXG_CHECKSUM_UNKNOWN) {
        return NULL;
    }
    hasher = calloc(1, sizeof(*hasher));
    if (hasher == NULL) {
        return NULL;
    }
    hasher->kind = kind;
    memcpy(hasher->sha.state, initial, sizeof(initial));
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
        sha256_add(&hasher->sha, data, length);
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
        sha256_finish(&hasher->sha, text);
        break;
    case EXG_CHECKSUM_NONE:
    case EXG_CHECKSUM_UNKNOWN:
        break;
    }
    XXH3_freeState(hasher->xxh3);
    free(hasher);
}
