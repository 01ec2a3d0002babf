/* frames.h - a storage cut in frames of 1 MiB that are compressed by byte planes.
 *
 * A frame of elements of w bytes is w planes: plane p holds the bytes at p, p + w,
 * p + 2w, ... of the frame. A plane is stored as it is, or, where that is shorter, as
 * one frame of zstd; which, tells its stored length alone. Of weights only the plane
 * of sign and exponent pays. Frames do not know of each other, so any range is read by
 * inflating the frames it touches.
 * Threads: reading is safe from any thread; a packer is for one at a time.
 * File form: schema/README.md, "Frames".
 */
#ifndef EXG_LIBEXPORT_WEIGHTS_FRAMES_H
#define EXG_LIBEXPORT_WEIGHTS_FRAMES_H

#include <exg/weights.h>
#include <stdbool.h>
#include <stdint.h>

#define EXG_FRAME_BYTES      (1u << 20) /* plain bytes, of the last frame less */
#define EXG_FRAME_PLANES_MAX 8

typedef struct exg_frame {
    uint64_t offset;                       /* bytes from the start of the storage's stored bytes */
    uint64_t checksum;                     /* XXH3-64 of the stored bytes of all planes */
    uint32_t planes[EXG_FRAME_PLANES_MAX]; /* stored bytes of each */
} exg_frame;

struct exg_frames {
    exg_frame *items;
    uint64_t plain_length;
    uint64_t stored_length;
    uint32_t count;
    uint32_t element_bytes; /* 1, 2, 4 or 8 */
};

uint32_t exg_frame_stored_bytes(const exg_frame *frame); /* of all planes */

/* Frames that `plain_length` bytes take. */
uint64_t exg_frame_count(uint64_t plain_length);

/* Do the frames lie one after the other, each plane no longer than its plain bytes, and
 * fill the stored length? MALFORMED (EXG-020, EXG-021). */
exg_status exg_frames_check_index(const exg_frames *frames, exg_error *err);

/* What inflating needs, kept between calls; for one thread at a time. */
typedef struct exg_frame_reader exg_frame_reader;

exg_status exg_frame_reader_create(exg_frame_reader **reader, exg_error *err);
void exg_frame_reader_destroy(exg_frame_reader *reader); /* NULL is allowed */

/* One for each of `count` threads. */
exg_status exg_frame_readers_create(uint32_t count, exg_frame_reader ***readers, exg_error *err);
void exg_frame_readers_destroy(exg_frame_reader **readers, uint32_t count); /* NULL is allowed */

/* The plain bytes [offset, offset + length), which must be inside, into `out`. `stored`
 * holds stored_length bytes; `reader` NULL: one for this call. MALFORMED: EXG-022
 * (checksum), EXG-023 (zstd). */
exg_status exg_frames_read(const exg_frames *frames, const uint8_t *stored, uint64_t offset,
                           uint64_t length, void *out, exg_frame_reader *reader, exg_error *err);

/* ---- writing --------------------------------------------------------------------------- */

typedef struct exg_packer exg_packer;

exg_status exg_packer_create(exg_packer **packer, exg_error *err);
void exg_packer_destroy(exg_packer *packer); /* NULL is allowed */

/* Packs up to EXG_FRAME_BYTES plain bytes into `stored`, which has room for as many, and
 * gives the bytes stored. `frame` gets checksum and planes (offset 0). */
uint32_t exg_packer_pack(exg_packer *packer, uint32_t element_bytes, const uint8_t *plain,
                         uint32_t length, exg_frame *frame, uint8_t *stored);

#endif
