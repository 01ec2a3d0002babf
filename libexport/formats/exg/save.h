/* save.h - what the parts of saving an .exg share. */
#ifndef EXG_LIBEXPORT_FORMATS_EXG_SAVE_H
#define EXG_LIBEXPORT_FORMATS_EXG_SAVE_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/pipeline.h"
#include "libexport/formats/exg/flat.h"
#include "libexport/formats/format.h"
#include "libexport/weights/frames.h"

/* A data file beside the program. */
typedef struct exg_beside {
    const char *name; /* inside the folder; once its bytes are known with their hash */
    const char *path;
    uint32_t first, end; /* storages among `stored`; those inside the program are no part */
    bool fresh;          /* was not there before, and is now */
} exg_beside;

typedef struct exg_resume exg_resume; /* resume.h */

typedef struct exg_saver {
    const exg_program *program;
    bool alone;     /* of it the weights */
    bool in_folder; /* resumed: the file is called so from the beginning, and the journal stays */
    exg_weights *weights;
    const exg_save_options *options;
    exg_arena *arena;
    exg_pool *pool;
    uint32_t *map;    /* storage -> index into stored, UINT32_MAX: not used */
    uint32_t *source; /* index into stored -> storage */
    uint8_t *widths;  /* index into stored -> bytes of an element, 0: nobody says */
    exg_stored *stored;
    uint32_t count;
    exg_beside *besides;
    uint32_t beside_count;
    exg_resume *resume;   /* NULL: a save that is stopped leaves nothing */
    exg_packer **packers; /* a worker each */
    exg_frame_reader **readers;
    uint8_t **plain;  /* EXG_FRAME_BYTES, a slot each */
    uint8_t **packed; /* the same */
    uint64_t done, total;
    exg_error *err;
} exg_saver;

/* payload.c: writes the bytes of `stored[index]` and tells where; compares the checksum the
 * source has. Blocks are read, packed and written on all cores. MALFORMED (ARC-012), IO. */
exg_status exg_payload_write(exg_saver *s, exg_writer *writer, uint32_t index);

/* same.c: storages that are equal become one. */
exg_status exg_saver_deduplicate(exg_saver *s);

/* beside.c: cuts the storages that go beside into files and gives those names, with
 * room for a hash where options do not name the file; a name after the storages of a
 * file are written. */
exg_status exg_besides_plan(exg_saver *s, const char *path);
exg_status exg_beside_name(exg_saver *s, const char *path, uint32_t beside);

#endif
