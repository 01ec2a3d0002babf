/* digest.h - digests that cover a whole program, and short proofs that a part belongs to one.
 *
 * A digest is the root of a tree of hashes: exg_weights_digest() (weights.h) over all tensors and
 * their blocks, exg_program_digest() over that, the graph, the signature and the rest of a program.
 * It does not depend on the format of the file, on how weights are stored, nor on threads.
 * schema/README.md, "The digest", says how it is made, for other implementations.
 * What a file holds beside (extra files and sample inputs of an archive, metadata of weights) is
 * not covered: exg/signing.h signs files, to the byte. Threads: as weights.h.
 */
#ifndef EXG_DIGEST_H
#define EXG_DIGEST_H

#include <exg/program.h>
#include <exg/status.h>
#include <exg/weights.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Hex digits of the root and of what it is made of. The caller sets `size`. */
typedef struct exg_program_digests {
    size_t size; /* sizeof(exg_program_digests); then: how much of it was filled */
    char root[EXG_DIGEST_TEXT_MAX];
    char weights[EXG_DIGEST_TEXT_MAX];   /* exg_weights_digest() */
    char graph[EXG_DIGEST_TEXT_MAX];     /* graph_module.graph of the export schema */
    char signature[EXG_DIGEST_TEXT_MAX]; /* graph_module.signature */
    char rest[EXG_DIGEST_TEXT_MAX];      /* the rest of the export schema's document */
} exg_program_digests;

/* `kind` is XXH3_128 or SHA256; `threads` 0: every core. USAGE (WGT-DIGEST), UNSUPPORTED (PT2-001:
 * what the export schema cannot say), and as exg_weight_read(). */
EXG_NODISCARD exg_status exg_program_digest(const exg_program *program, exg_checksum_kind kind,
                                            uint32_t threads, exg_program_digests *digests,
                                            exg_error *err);

/* A text of JSON which proves that the rows [first, end) of the tensor `name` belong to the digest
 * of `program`, or to that of `weights` where it is NULL: the hashes that stand beside the way to
 * the root. Rows are along the first dimension; end 0: all of it. The caller frees *json. USAGE
 * (PRF-NAME: no such tensor, PRF-ROWS: no such rows), and as above. */
EXG_NODISCARD exg_status exg_digest_prove(exg_weights *weights, const exg_program *program,
                                          exg_checksum_kind kind, const char *name, uint64_t first,
                                          uint64_t end, uint32_t threads, char **json,
                                          exg_error *err);

/* What a proof is of. The caller sets `size`. */
typedef struct exg_proved {
    size_t size;              /* sizeof(exg_proved); then: how much of it was filled */
    const exg_weight *tensor; /* of the weights that were given */
    uint64_t first, end;      /* rows of it */
} exg_proved;

/* Are the rows that the proof speaks of, as they are in `weights`, those of the digest `root`
 * ("sha256:..." or "xxh3-128:...")? Of the tensors only the blocks are read that hold these rows.
 * What the proof says is not believed. MISMATCH (PRF-ROOT: no; PRF-NAME: no such tensor, PRF-ROWS),
 * MALFORMED (PRF-FORM: no proof), USAGE (PRF-KIND: no digest, or not of the proof's kind). */
EXG_NODISCARD exg_status exg_digest_check_proof(const char *json, size_t length, const char *root,
                                                exg_weights *weights, exg_proved *proved,
                                                exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
