/* sha256.h - SHA-256 (FIPS 180-4), by the processor's own instructions where it has them. */
#ifndef EXG_LIBEXPORT_WEIGHTS_SHA256_H
#define EXG_LIBEXPORT_WEIGHTS_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct exg_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
} exg_sha256;

void exg_sha256_begin(exg_sha256 *sha);
void exg_sha256_add(exg_sha256 *sha, const unsigned char *data, size_t length);
void exg_sha256_finish(exg_sha256 *sha, char text[65]); /* 64 digits and the NUL */

/* Whole blocks of 64 bytes into the state: in C alone, and as the processor does it best. */
void exg_sha256_blocks_plain(uint32_t state[8], const unsigned char *data, size_t count);
void exg_sha256_blocks(uint32_t state[8], const unsigned char *data, size_t count);

#endif
