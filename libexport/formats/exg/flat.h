/* flat.h - the one door to FlatBuffers: a program to metadata and back.
 *
 * flat.cpp is the only C++ here. It checks that every offset stays inside the bytes,
 * then copies what it reads into the program's arenas. No C++ type and no exception gets
 * past this header, and the metadata may go away after decoding.
 * File form: schema/export.fbs, schema/README.md.
 */
#ifndef EXG_LIBEXPORT_FORMATS_EXG_FLAT_H
#define EXG_LIBEXPORT_FORMATS_EXG_FLAT_H

#include <exg/program.h>
#include <exg/weights.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EXG_FORMAT_MAJOR 1
#define EXG_FORMAT_MINOR 3

/* A storage as the file holds it. */
typedef struct exg_stored {
    uint64_t length; /* plain bytes */
    exg_byte_order byte_order;
    uint32_t element_bytes; /* of frames; 0: plain */
    uint32_t frame_count;
    exg_frames *frames;             /* with frames: filled while writing */
    const char *location;           /* NULL: in the program's own file; of one length before and
                                       after writing */
    const char *declared_checksum;  /* of an unknown kind, or NULL */
    uint64_t offset, stored_length; /* these four: known when written */
    uint64_t hash_low, hash_high;
} exg_stored;

typedef struct exg_flat {
    uint8_t *data; /* the metadata */
    size_t length;
    void *base; /* what munmap wants */
    size_t base_length;
} exg_flat;

#define EXG_WEIGHTS_IDENTIFIER "EXGW" /* in the place of "EXGP": weights without a program */

/* The metadata of `program`, numbers known when written as zeros. `alone`: of its weights.
 * `storage_map` gives for each storage of its weights the index into `stored`, or UINT32_MAX when
 * nothing names it. NO_MEMORY, LIMIT (EXG-050: past 2 GiB), UNSUPPORTED (FMT-TEXT: not UTF-8). */
exg_status exg_flat_encode(const exg_program *program, bool alone, const uint32_t *storage_map,
                           const exg_stored *stored, uint32_t stored_count, exg_flat *flat,
                           exg_error *err);

/* Puts the numbers in, then length, checksum and digest. */
void exg_flat_finish(exg_flat *flat, const exg_stored *stored, uint64_t total_length);
void exg_flat_free(exg_flat *flat); /* all zeros is allowed */

/* Length of the metadata at the start of a file of `length` bytes. MALFORMED, UNSUPPORTED. */
exg_status exg_flat_length(const uint8_t *data, uint64_t length, uint64_t *metadata_length,
                           exg_error *err);

/* Fills a program just created, its weights included, from a file whose first `length`
 * bytes are the metadata; internal storages point into the file, texts into a copy of
 * the metadata that the program keeps. */
exg_status exg_flat_decode(const uint8_t *file, uint64_t file_length, size_t length,
                           exg_program *program, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
