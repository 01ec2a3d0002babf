/* message_digest.c - what the digests share: whole blocks out of pieces, padding, digits. */
#include "libexport/weights/message_digest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct exg_digest_kind {
    uint32_t initial[8];
    int words;       /* of the state that are the digest */
    bool big_endian; /* the length, and the digest's words */
    void (*blocks)(uint32_t *state, const unsigned char *data, size_t count);
};

static const exg_digest_kind sha256 = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                        0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                                       8,
                                       true,
                                       exg_sha256_blocks};
static const exg_digest_kind sha1 = {
    {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, 5, true, exg_sha1_blocks};
static const exg_digest_kind md5 = {
    {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, 4, false, exg_md5_blocks};

void exg_message_digest_begin(exg_message_digest *digest, exg_checksum_kind kind)
{
    *digest = (exg_message_digest){.kind = kind == EXG_CHECKSUM_SHA1  ? &sha1
                                           : kind == EXG_CHECKSUM_MD5 ? &md5
                                                                      : &sha256};
    memcpy(digest->state, digest->kind->initial, sizeof(digest->state));
}

void exg_message_digest_add(exg_message_digest *digest, const unsigned char *data, size_t length)
{
    size_t held = (size_t)(digest->length % 64);

    digest->length += length;
    if (held > 0) {
        size_t take = 64 - held < length ? 64 - held : length;

        memcpy(digest->block + held, data, take);
        data += take;
        length -= take;
        if (held + take < 64) {
            return;
        }
        digest->kind->blocks(digest->state, digest->block, 1);
    }
    digest->kind->blocks(digest->state, data, length / 64);
    if (length % 64 > 0) {
        memcpy(digest->block, data + length / 64 * 64, length % 64);
    }
}

void exg_message_digest_finish(exg_message_digest *digest, char text[65])
{
    static const unsigned char padding[64] = {0x80};
    bool big = digest->kind->big_endian;
    uint64_t bits = digest->length * 8;
    unsigned char tail[8];

    for (int i = 0; i < 8; i++) {
        tail[i] = (unsigned char)(bits >> (big ? 56 - 8 * i : 8 * i));
    }
    exg_message_digest_add(digest, padding, 1 + (119 - (size_t)(digest->length % 64)) % 64);
    exg_message_digest_add(digest, tail, 8);
    for (int i = 0; i < digest->kind->words; i++) {
        uint32_t word = digest->state[i];

        snprintf(text + 8 * i, 9, "%08x", (unsigned)(big ? word : __builtin_bswap32(word)));
    }
}
