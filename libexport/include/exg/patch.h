/* patch.h - the difference of two model files as a small file.
 *
 * A patch makes B of A, to the byte: it holds the SHA-256 of both. What is in A already is referred
 * to. A tensor of B that A has too, with other values, is the differences of its elements in byte
 * planes, compressed by zstd; the rest is compressed as it is. Tensors find each other by name,
 * then by content, then by their order. Where a file's tensors cannot be found (compressed
 * archives, files of no known kind), its bytes are compared at their places. Any two files may be
 * given, also of different formats. Files are read and written window by window. The format of the
 * file: schema/README.md, "Patches". Threads: calls do not share anything; one file is written by
 * one call.
 */
#ifndef EXG_PATCH_H
#define EXG_PATCH_H

#include <exg/status.h>
#include <exg/weights.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_patch_options {
    size_t size;                                                 /* sizeof(exg_patch_options) */
    uint32_t threads;                                            /* 0: every core */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes of B; may be NULL */
    void *user;
    bool resume; /* what an earlier call left in PATH.part is gone on with, after it is compared
                  * with PATH.resume; both are there until the file is whole */
} exg_patch_options;

/* What a patch is about; in bytes. The caller sets `size`. */
typedef struct exg_patch_info {
    size_t size; /* sizeof(exg_patch_info); then: how much of it was filled */
    uint64_t a_bytes, b_bytes, patch_bytes;
    uint64_t equal_bytes;   /* of B: those that A has */
    uint64_t changed_bytes; /* those that are told by differences from A */
    uint64_t new_bytes;     /* those that A does not have */
    char a_sha256[EXG_DIGEST_TEXT_MAX], b_sha256[EXG_DIGEST_TEXT_MAX];
} exg_patch_info;

/* Writes the patch that makes B of A to `path`, atomically. `options` and `info` may be NULL. IO
 * (IO-CHANGED where a file was written to meanwhile; IO-BUSY: another call goes on with it),
 * NO_MEMORY. */
EXG_NODISCARD exg_status exg_patch_make(const char *a, const char *b, const char *path,
                                        const exg_patch_options *options, exg_patch_info *info,
                                        exg_error *err);

/* Writes B to `path`, atomically: not before its SHA-256 is right. MISMATCH (PAT-BASE: `a` is not
 * the file that the patch is for, and nothing is written), MALFORMED (PAT-HEADER: no patch, or
 * one that is cut short; PAT-RECORD, PAT-DATA: damaged; PAT-RESULT), UNSUPPORTED (PAT-VERSION), IO
 * (IO-BUSY: another call goes on with it). */
EXG_NODISCARD exg_status exg_patch_apply(const char *a, const char *patch, const char *path,
                                         const exg_patch_options *options, exg_patch_info *info,
                                         exg_error *err);

/* What a patch says of itself; its data are not looked at. As above. */
EXG_NODISCARD exg_status exg_patch_describe(const char *patch, exg_patch_info *info,
                                            exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
