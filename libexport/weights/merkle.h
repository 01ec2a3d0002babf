/* merkle.h - trees of hashes, for digests of which parts can be proved.
 *
 * A tree over n leaves is that of RFC 6962: the left half has as many leaves as the largest power
 * of two below n. With all that is hashed goes a byte that tells what it is, so that
 * nothing passes for something else. XXH3-128 is for speed, SHA-256 against people:
 * schema/README.md, "The digest".
 */
#ifndef EXG_LIBEXPORT_WEIGHTS_MERKLE_H
#define EXG_LIBEXPORT_WEIGHTS_MERKLE_H

#include <exg/weights.h>
#include <stddef.h>
#include <stdint.h>

#define EXG_MERKLE_BLOCK_BYTES (1u << 20)
#define EXG_MERKLE_HASH_MAX    32

/* What is hashed. */
typedef enum exg_merkle_tag {
    EXG_MERKLE_BLOCK,   /* up to 1 MiB of a tensor */
    EXG_MERKLE_INNER,   /* two hashes; of a tree without leaves none */
    EXG_MERKLE_TENSOR,  /* its description, the tree of its blocks */
    EXG_MERKLE_WEIGHTS, /* how many tensors, the tree of them */
    EXG_MERKLE_PART,    /* of a program: its name, its text */
    EXG_MERKLE_PROGRAM  /* the weights, the parts */
} exg_merkle_tag;

typedef struct exg_merkle_hash {
    uint8_t bytes[EXG_MERKLE_HASH_MAX]; /* exg_merkle_bytes() of them, the rest zeros */
} exg_merkle_hash;

typedef struct exg_merkle_piece {
    const void *data;
    size_t length;
} exg_merkle_piece;

/* 16 of XXH3-128, 32 of SHA-256; 0: no tree is made of the kind. */
uint32_t exg_merkle_bytes(exg_checksum_kind kind);

/* Of the tag and the pieces, one after the other. */
exg_merkle_hash exg_merkle_hash_of(exg_checksum_kind kind, exg_merkle_tag tag,
                                   const exg_merkle_piece *pieces, uint32_t count);

exg_merkle_hash exg_merkle_join(exg_checksum_kind kind, const exg_merkle_hash *left,
                                const exg_merkle_hash *right);

/* Of a tree over `count` leaves. */
exg_merkle_hash exg_merkle_root(exg_checksum_kind kind, const exg_merkle_hash *leaves,
                                uint64_t count);

/* Leaves of the left half of a tree of two or more. */
uint64_t exg_merkle_left(uint64_t count);

/* As text: the digits of exg_weights_digest(), and back. false: not that many digits. */
void exg_merkle_put(exg_checksum_kind kind, const exg_merkle_hash *hash,
                    char text[EXG_DIGEST_TEXT_MAX]);
bool exg_merkle_get(exg_checksum_kind kind, const char *text, exg_merkle_hash *hash);

/* "sha256:<digits>", "xxh3-128:<digits>": as digests are told. false: neither. */
bool exg_merkle_parse(const char *text, exg_checksum_kind *kind, exg_merkle_hash *hash);

/* "sha256", "xxh3-128" */
const char *exg_merkle_kind_name(exg_checksum_kind kind);

bool exg_merkle_equal(const exg_merkle_hash *a, const exg_merkle_hash *b);

#endif
