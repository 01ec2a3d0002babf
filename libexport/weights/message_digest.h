/* message_digest.h - SHA-256 and SHA-1 (FIPS 180-4) and MD5 (RFC 1321): blocks of 64 bytes, a
 * padding and the length behind the last. SHA-256 by the processor's own instructions where it
 * has them; the other two only check what files made elsewhere declare.
 */
#ifndef EXG_LIBEXPORT_WEIGHTS_MESSAGE_DIGEST_H
#define EXG_LIBEXPORT_WEIGHTS_MESSAGE_DIGEST_H

#include <exg/weights.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exg_digest_kind exg_digest_kind;

typedef struct exg_message_digest {
    const exg_digest_kind *kind;
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
} exg_message_digest;

/* `kind` is SHA256, SHA1 or MD5. */
void exg_message_digest_begin(exg_message_digest *digest, exg_checksum_kind kind);
void exg_message_digest_add(exg_message_digest *digest, const unsigned char *data, size_t length);

/* The digits and a NUL: 64, 40 or 32. */
void exg_message_digest_finish(exg_message_digest *digest, char text[65]);

/* Whole blocks into the state. SHA-256 in C alone, and as the processor does it best. */
void exg_sha256_blocks_plain(uint32_t *state, const unsigned char *data, size_t count);
void exg_sha256_blocks(uint32_t *state, const unsigned char *data, size_t count);
void exg_sha1_blocks(uint32_t *state, const unsigned char *data, size_t count);
void exg_md5_blocks(uint32_t *state, const unsigned char *data, size_t count);

#endif
