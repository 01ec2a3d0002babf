/* manifest.h - the files of a model with their hashes: of a folder all below it, of a file it. */
#ifndef EXG_LIBEXPORT_ARTIFACT_MANIFEST_H
#define EXG_LIBEXPORT_ARTIFACT_MANIFEST_H

#include "libexport/artifact/file_hash.h"
#include "libexport/base/arena.h"

typedef struct exg_manifest_item {
    const char *name; /* below the model, "." of a model that is a file; of a part of a file with
                         its range: "model.bin:0:1000" */
    uint8_t sha256[EXG_SHA256_BYTES];
} exg_manifest_item;

typedef struct exg_manifest_options {
    const char *const *left_out; /* names, with what is below them */
    uint32_t left_out_count;
    bool follow_links; /* to files; else a link is refused */
    uint64_t shard;    /* bytes of a part; 0: whole files */
    uint32_t threads;
} exg_manifest_options;

typedef struct exg_manifest {
    exg_manifest_item *items; /* by the parts of their names */
    uint32_t count, capacity;
    exg_arena *arena;
} exg_manifest;

/* IO, UNSUPPORTED (SGN-LINK), IO-KIND for what is neither file nor folder. exg_manifest_free() in
 * any case. */
exg_status exg_manifest_make(const char *model, const exg_manifest_options *options,
                             exg_manifest *manifest, exg_error *err);
void exg_manifest_free(exg_manifest *manifest);

#endif
