/* file_hash.c - the SHA-256 of files, piece by piece. */
#include "libexport/artifact/file_hash.h"

#include "libexport/base/hex.h"
#include "libexport/weights/message_digest.h"

#define PIECE_BYTES (1u << 20)

void exg_mapping_hash(const exg_mapping *mapping, uint64_t first, uint64_t end,
                      uint8_t digest[EXG_SHA256_BYTES])
{
    exg_message_digest hasher;
    char text[2 * EXG_SHA256_BYTES + 1];

    exg_message_digest_begin(&hasher, EXG_CHECKSUM_SHA256);
    for (uint64_t at = first; at < end; at += PIECE_BYTES) {
        const uint64_t left = end - at;
        const uint64_t length = left < PIECE_BYTES ? left : PIECE_BYTES;

        exg_message_digest_add(&hasher, mapping->data + at, (size_t)length);
        exg_mapping_forget(mapping, at, at + length);
    }
    exg_message_digest_finish(&hasher, text);
    (void)exg_hex_get(text, digest, EXG_SHA256_BYTES);
}
