/* archive.h - what a .pt2 archive holds: generations, records, programs, storages.
 * Form: docs/pt2.md sections 2.1, 2.2, 2.5.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ARCHIVE_H
#define EXG_LIBEXPORT_FORMATS_PT2_ARCHIVE_H

#include "libexport/formats/json.h"
#include "libexport/formats/pt2/zip.h"

#include <exg/program.h>
#include <exg/weights.h>

typedef enum exg_generation {
    EXG_GENERATION_B = 'B', /* torch 2.2 to 2.7: no root folder, pickled weights */
    EXG_GENERATION_C = 'C', /* torch 2.8: root folder, pickled weights */
    EXG_GENERATION_D = 'D'  /* torch 2.9 and later: raw weights, configs */
} exg_generation;

typedef struct exg_archive {
    exg_arena *arena; /* names and tables; not what programs keep */
    exg_zip zip;
    const char *root; /* with its slash; "" in generation B */
    exg_generation generation;
    exg_byte_order byte_order; /* of raw records */
    const char **programs;
    uint32_t program_count;
    uint64_t *inflate_left; /* bytes that deflated members may still take; inner archives
                               draw on the outer's */
    uint64_t budget;
} exg_archive;

/* Indexes the archive and checks ARC-001 to -011, -015. UNSUPPORTED for other
 * things that PyTorch keeps in zips. */
exg_status exg_archive_open(const uint8_t *data, uint64_t length, uint64_t budget, exg_arena *arena,
                            exg_archive *archive, exg_error *err);

/* The record "<root>" + name, or NULL. */
const exg_zip_entry *exg_archive_find(const exg_archive *archive, const char *name);

/* The record "<root><folder><name><suffix>", or NULL. */
const exg_zip_entry *exg_archive_find3(const exg_archive *archive, const char *folder,
                                       const char *name, const char *suffix);

/* An entry's name without the root. */
const char *exg_archive_name(const exg_archive *archive, const exg_zip_entry *entry);

/* Parses a record. The caller frees the document. */
exg_status exg_archive_json(exg_archive *archive, const exg_zip_entry *entry, exg_json_doc **doc,
                            exg_error *err);

/* The plain bytes of a record for as long as `weights` live. */
exg_status exg_archive_keep(exg_archive *archive, const exg_zip_entry *entry, exg_weights *weights,
                            const uint8_t **data, exg_error *err);

/* Adds the record as a storage of `weights`. */
exg_status exg_archive_storage(exg_archive *archive, const exg_zip_entry *entry,
                               exg_weights *weights, exg_byte_order order, uint32_t *storage,
                               exg_error *err);

/* ARC-012 of a record's plain bytes, where it has a checksum. */
exg_status exg_archive_compare(const exg_archive *archive, const exg_zip_entry *entry,
                               const uint8_t *data, exg_error *err);

/* ARC-012 over all records. */
exg_status exg_archive_check_crc(exg_archive *archive, exg_error *err);

/* ---- payload.c, state.c ------------------------------------------------------------- */

/* Generation D: weights and constants by their configs. */
exg_status exg_payload_read(exg_archive *archive, const char *program, exg_weights *weights,
                            exg_error *err);

/* Generations B and C: pickled state and constants. */
exg_status exg_state_read(exg_archive *archive, const char *program, exg_weights *weights,
                          exg_error *err);

/* Example inputs of any generation: leaves in call order, or none when they hold
 * what is not tensor or constant. MALFORMED only for a damaged record. */
exg_status exg_samples_read(exg_archive *archive, const char *name, exg_program *program,
                            exg_error *err);

#endif
