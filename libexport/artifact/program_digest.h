/* program_digest.h - the hashes of a program's parts. */
#ifndef EXG_LIBEXPORT_ARTIFACT_PROGRAM_DIGEST_H
#define EXG_LIBEXPORT_ARTIFACT_PROGRAM_DIGEST_H

#include "libexport/weights/merkle.h"

#include <exg/digest.h>

#define EXG_PROGRAM_PARTS 3

/* "graph", "signature", "rest" */
extern const char *const exg_program_part_names[EXG_PROGRAM_PARTS];

exg_status exg_program_parts_hash(const exg_program *program, exg_checksum_kind kind,
                                  exg_merkle_hash parts[EXG_PROGRAM_PARTS], exg_error *err);

exg_merkle_hash exg_program_hash(exg_checksum_kind kind, const exg_merkle_hash *weights,
                                 const exg_merkle_hash parts[EXG_PROGRAM_PARTS]);

#endif
