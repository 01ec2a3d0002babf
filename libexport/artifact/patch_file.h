/* patch_file.h - the parts of a patch file (schema/README.md, "Patches"), checked. */
#ifndef EXG_LIBEXPORT_ARTIFACT_PATCH_FILE_H
#define EXG_LIBEXPORT_ARTIFACT_PATCH_FILE_H

#include "libexport/base/files.h"
#include "libexport/weights/frames.h"

#include <exg/patch.h>

#define EXG_PATCH_MAGIC        "EXGPATCH"
#define EXG_PATCH_HEADER_BYTES 128
#define EXG_PATCH_RECORD_BYTES 64

/* How the next bytes of B are made. */
typedef enum exg_patch_kind {
    EXG_PATCH_COPY,       /* those of A at `from` */
    EXG_PATCH_NEW,        /* the frame's */
    EXG_PATCH_DIFFERENCE, /* those of A at `from`, each element plus the frame's */
    EXG_PATCH_SPARSE      /* the same of few elements: a bit for each, and those that are not 0 */
} exg_patch_kind;

#define EXG_PATCH_SPARSE_WIDTH 4 /* bytes of an element at most: one plane is that of the bits */

typedef struct exg_patch_record {
    exg_patch_kind kind;
    uint32_t width;        /* bytes of an element */
    uint64_t length, from; /* in bytes; of all but copies at most EXG_FRAME_BYTES */
    exg_frame frame;       /* offset: in the file */
} exg_patch_record;

typedef struct exg_patch_header {
    uint64_t a_bytes, b_bytes, record_count, file_bytes;
    uint64_t records_checksum; /* XXH3-64 */
    uint8_t a_sha256[32], b_sha256[32];
} exg_patch_header;

void exg_patch_header_write(const exg_patch_header *header, uint8_t out[EXG_PATCH_HEADER_BYTES]);
void exg_patch_record_write(const exg_patch_record *record, uint8_t out[EXG_PATCH_RECORD_BYTES]);

/* One record, without the place of its frame; false: it makes no sense. */
bool exg_patch_record_read(const uint8_t from[EXG_PATCH_RECORD_BYTES],
                           const exg_patch_header *header, exg_patch_record *record);

/* The header of a whole file. MALFORMED (PAT-HEADER), UNSUPPORTED (PAT-VERSION). */
exg_status exg_patch_header_read(const uint8_t *data, uint64_t length, exg_patch_header *header,
                                 exg_error *err);

/* The records that lie behind the frames, each checked; `records` has room for record_count.
 * MALFORMED (PAT-RECORD). */
exg_status exg_patch_records_read(const uint8_t *data, const exg_patch_header *header,
                                  exg_patch_record *records, exg_error *err);

/* The bytes [offset, offset + length) of what a record gives; all of it, where it is no copy.
 * `a` are the bytes of A. MALFORMED (PAT-DATA). */
exg_status exg_patch_record_expand(const uint8_t *patch, const exg_patch_record *record,
                                   const uint8_t *a, uint64_t offset, uint64_t length, uint8_t *out,
                                   exg_frame_reader *reader, exg_error *err);

/* The elements of b minus those of a, modulo 2^bits, small ones of either sign as small numbers
 * (0, -1, 1, -2, ... as 0, 1, 2, 3, ...); and back. Bytes behind the last whole element are each
 * one of a byte. */
void exg_patch_subtract(const uint8_t *a, const uint8_t *b, uint32_t width, uint64_t length,
                        uint8_t *out);
void exg_patch_add(const uint8_t *a, uint32_t width, uint64_t length, uint8_t *in_out);

/* Differences of which few are not 0, in the place of all of them: `out` has room for
 * EXG_FRAME_BYTES, and so has `room`. 0: there are too many, or elements are too wide. */
uint32_t exg_patch_pack_sparse(exg_packer *packer, const uint8_t *differences, uint32_t width,
                               uint32_t length, uint8_t *room, exg_frame *frame, uint8_t *out);

/* What a header and records say, for people; as far as info->size goes. */
void exg_patch_tell(const exg_patch_header *header, const exg_patch_record *records,
                    exg_patch_info *info);

#endif
