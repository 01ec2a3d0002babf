/* weights.h - the tensors of a program: names, descriptions, bytes.
 *
 * A weight is a view into a storage; several weights may share one (tied
 * weights, views). A storage is a run of bytes in a mapped file, in memory, in
 * compressed frames, or in an external file that is opened when first read.
 * Opening a program reads no weight byte. Before the first byte of a storage goes out, all
 * of it is compared with the checksum that the file gives, if it gives one (MALFORMED
 * ARC-012; exg_open_options.no_check). Of frames each is, whenever it is read.
 *
 * Lifetime: counted. Programs made from a program share its weights; the last
 * release unmaps the files.
 * Threads: reading is safe from any thread; exg_storage_* reading takes a lock
 * only where a file must first be opened.
 */
#ifndef EXG_WEIGHTS_H
#define EXG_WEIGHTS_H

#include <exg/program.h>
#include <exg/status.h>
#include <exg/types.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_byte_order { EXG_LITTLE_ENDIAN, EXG_BIG_ENDIAN } exg_byte_order;

typedef enum exg_checksum_kind {
    EXG_CHECKSUM_NONE,
    EXG_CHECKSUM_XXH3_64,
    EXG_CHECKSUM_XXH3_128,
    EXG_CHECKSUM_CRC32,
    EXG_CHECKSUM_SHA256,
    EXG_CHECKSUM_SHA1, /* this and MD5: of files made elsewhere, read and checked alone */
    EXG_CHECKSUM_MD5,
    EXG_CHECKSUM_UNKNOWN /* kept, reported, not checked */
} exg_checksum_kind;

typedef struct exg_checksum {
    exg_checksum_kind kind;
    const char *text; /* hex digits, or the whole text when unknown */
} exg_checksum;

typedef enum exg_storage_kind {
    EXG_STORAGE_MEMORY,   /* `data` holds the plain bytes (mapped or allocated) */
    EXG_STORAGE_FRAMES,   /* `frames` inflate to the bytes (frames.h) */
    EXG_STORAGE_EXTERNAL, /* bytes [offset, offset+length) of the file `location` */
    EXG_STORAGE_MADE      /* `maker` makes them when they are read */
} exg_storage_kind;

typedef struct exg_frames exg_frames; /* weights/frames.h */

/* Gives the plain bytes [offset, offset + length), which are inside; from any thread. */
typedef struct exg_storage_maker {
    exg_status (*read)(void *user, uint64_t offset, uint64_t length, void *out, exg_error *err);
    void *user;
    const char *name; /* what is made, the same in every process; NULL: saves of it begin anew
                         (exg_weights_save_options.resume) */
} exg_storage_maker;

typedef struct exg_storage {
    exg_storage_kind kind;
    exg_byte_order byte_order;
    uint64_t length;       /* plain bytes */
    const uint8_t *data;   /* MEMORY: the bytes; FRAMES: the stored ones; external: once mapped */
    const char *location;  /* EXTERNAL, FRAMES (NULL: in the naming file): path relative to the
                              naming file, confined to its folder */
    uint64_t offset;       /* where `location` holds the stored bytes */
    exg_checksum checksum; /* of the plain bytes */
    exg_frames *frames;
    exg_storage_maker maker;
    exg_checksum *further; /* more of the same bytes: an early file has one a tensor. Of those
                              that can be compared the first is `checksum` */
    uint32_t further_count;
} exg_storage;

typedef enum exg_weight_table { EXG_TABLE_STATE, EXG_TABLE_CONSTANTS } exg_weight_table;

typedef struct exg_weight {
    const char *fqn;
    exg_weight_table table; /* state_dict, or constants */
    bool is_param;
    bool use_pickle;       /* kept raw, never unpickled */
    exg_tensor_meta *meta; /* concrete; NULL for custom and opaque objects */
    uint32_t storage;      /* index into exg_weights.storages */
    const char *encoding;  /* "Q4_K": meta tells the bytes of its rows; NULL: plain elements */
} exg_weight;

/* What Python would run to load a thing; exg runs nothing of any file. */
typedef enum exg_skipped_code {
    EXG_CODE_NONE,     /* nothing that matters */
    EXG_CODE_FOREIGN,  /* code of a library that torch.load does not allow by itself */
    EXG_CODE_DANGEROUS /* what attacks are made of: os.system, builtins.eval */
} exg_skipped_code;

/* What is in a file of weights and is no tensor that can be given: listed, not lost. */
typedef struct exg_skipped {
    const char *name; /* where it is in the file, as the tensors are named: "args" */
    const char *kind; /* what it is: "argparse.Namespace", "F6_E2M3" */
    exg_skipped_code code;
} exg_skipped;

struct exg_weights {
    exg_arena *arena;
    exg_weight *items; /* in file order */
    exg_storage *storages;
    uint32_t count;
    uint32_t storage_count;
    uint32_t capacity, storage_capacity;
    exg_string_map metadata; /* what a weights file says of itself; of a program nothing */
    exg_skipped *skipped;    /* in file order */
    uint32_t skipped_count, skipped_capacity;
    struct exg_weights_private *private_; /* mappings, lock, reference count */
};

/* None yet, with one reference. `allocator` NULL: the system's (memory.h). */
EXG_NODISCARD exg_status exg_weights_create(const exg_allocator *allocator, exg_weights **weights,
                                            exg_error *err);
exg_weights *exg_weights_retain(exg_weights *weights);
void exg_weights_release(exg_weights *weights); /* NULL is allowed */

/* Append. Strings and metas are copied into the arena of the weights; `data` of
 * a MEMORY storage is borrowed unless exg_weights_own() took it over. MALFORMED (WGT-BLOCK): an
 * encoding that is one of blocks, of what is no rows of them. */
EXG_NODISCARD exg_status exg_weights_add_storage(exg_weights *weights, const exg_storage *storage,
                                                 uint32_t *index, exg_error *err);
EXG_NODISCARD exg_status exg_weights_add(exg_weights *weights, const exg_weight *weight,
                                         exg_error *err);

/* Keys are unique: another value of one that is there becomes "<key>_1" and so on. */
EXG_NODISCARD exg_status exg_weights_add_metadata(exg_weights *weights, const char *key,
                                                  const char *value, exg_error *err);

/* The same of a value that is no plain text (NULL), told by `kind`, which is copied:
 *   "u8" "i8" "u16" "i16" "u32" "i32" "u64" "i64" "f32" "f64" "bool"    one, as text
 *   "bytes"       a text that is not UTF-8, or holds NUL, in base64
 *   "str[2]"      a list of so many (of any kind above for "str"), as an array of JSON; a text that
 *                 is not UTF-8 is {"bytes": "<base64>"} in it, inf and nan are "Infinity", "NaN"
 *   "list[2]"     a list of lists, each as {"u8": [1, 2]} */
EXG_NODISCARD exg_status exg_weights_add_metadata_as(exg_weights *weights, const char *key,
                                                     const char *kind, const char *value,
                                                     exg_error *err);

/* The kind of a pair of the metadata; NULL of a plain text. */
const char *exg_weights_metadata_kind(const exg_weights *weights, uint32_t index);

/* Lists what is left out; both strings are copied. UNSUPPORTED (WGT-SKIP) when the weights are
 * opened with exg_open_options.strict. */
EXG_NODISCARD exg_status exg_weights_skip(exg_weights *weights, const char *name, const char *kind,
                                          exg_error *err);

/* The same of what is made by code. */
EXG_NODISCARD exg_status exg_weights_skip_code(exg_weights *weights, const char *name,
                                               const char *kind, exg_skipped_code code,
                                               exg_error *err);

/* Runs `release(user)` when the weights go; for mappings and malloc'ed bytes. */
EXG_NODISCARD exg_status exg_weights_own(exg_weights *weights, void (*release)(void *user),
                                         void *user, exg_error *err);

/* A MEMORY storage of malloc'ed bytes, which the weights free; also when this fails. */
EXG_NODISCARD exg_status exg_weights_add_bytes(exg_weights *weights, void *bytes, uint64_t length,
                                               exg_byte_order byte_order, uint32_t *storage,
                                               exg_error *err);

/* The folder external locations are relative to (copied). */
EXG_NODISCARD exg_status exg_weights_set_directory(exg_weights *weights, const char *directory,
                                                   exg_error *err);

/* The weight called `fqn` in `table`, the first of them, or NULL. */
const exg_weight *exg_weights_find(const exg_weights *weights, exg_weight_table table,
                                   const char *fqn);

/* The plain bytes [offset, offset + length) of a storage, in its byte order, into
 * `out`. Frames are inflated, only those needed, and checked; external files are
 * opened, confined, checked for length. IO, MALFORMED (checksum), USAGE (range). */
EXG_NODISCARD exg_status exg_storage_read(exg_weights *weights, uint32_t storage, uint64_t offset,
                                          uint64_t length, void *out, exg_error *err);

/* The plain bytes where they are, without a copy, when they are in memory as they
 * are (kind MEMORY or EXTERNAL, host byte order), else NULL with OK. */
EXG_NODISCARD exg_status exg_storage_map(exg_weights *weights, uint32_t storage,
                                         const uint8_t **data, exg_error *err);

/* The tensor `weight` describes, row-major and packed, in host byte order, into
 * `out` (numel times element size bytes, given as `bytes`). The view is gathered
 * from its storage, big endian storages are swapped. A storage of length 0 under
 * a tensor with elements is MALFORMED (WGT-012: the file holds no data). USAGE
 * for weights without a meta or kept raw, and for a wrong `bytes`. */
EXG_NODISCARD exg_status exg_weight_read(exg_weights *weights, const exg_weight *weight, void *out,
                                         uint64_t bytes, exg_error *err);

/* `count` elements of it from the element `first` on, in row-major order; rows follow
 * one another, so any run of rows is such a run. Of frames only those are inflated
 * that hold what is asked for. USAGE for a run that leaves the tensor. */
EXG_NODISCARD exg_status exg_weight_read_range(exg_weights *weights, const exg_weight *weight,
                                               uint64_t first, uint64_t count, void *out,
                                               exg_error *err);

/* Bytes a packed copy of a static meta takes; MALFORMED when it does not fit. */
EXG_NODISCARD exg_status exg_tensor_meta_bytes(const exg_tensor_meta *meta, uint64_t *bytes,
                                               exg_error *err);

/* Do the elements of a static meta lie one after the other, row by row? */
bool exg_tensor_meta_is_packed(const exg_tensor_meta *meta);

/* Does the view fit in a storage of `length` bytes? MALFORMED (WGT-002 not
 * concrete, WGT-011 negative, WGT-005 too short). */
EXG_NODISCARD exg_status exg_tensor_meta_check_view(const exg_tensor_meta *meta, uint64_t length,
                                                    exg_error *err);

/* What the elements of a tensor are. min and max are NaN of none, or of nothing but NaN; mean and
 * deviation are those of the finite ones. */
typedef struct exg_weight_statistics {
    uint64_t count, nan, infinite, zero;
    uint64_t denormal; /* of float16, bfloat16, float32 and float64 */
    double min, max, mean, deviation;
} exg_weight_statistics;

/* Reads it block by block. USAGE (WGT-013) of objects, encoded and complex tensors; as
 * exg_weight_read(). */
EXG_NODISCARD exg_status exg_weight_measure(exg_weights *weights, const exg_weight *weight,
                                            exg_weight_statistics *statistics, exg_error *err);

#define EXG_DIGEST_TEXT_MAX 65 /* 64 digits and the NUL */

/* One text, hex digits of `kind`, for names, dtypes, shapes and elements of all tensors:
 * the root of a tree whose leaves are the tensors. It does not depend on how they are
 * stored, so a conversion that loses nothing keeps it. Pickled objects are no part.
 * `threads` 0: every core. */
EXG_NODISCARD exg_status exg_weights_digest(exg_weights *weights, exg_checksum_kind kind,
                                            uint32_t threads, char text[EXG_DIGEST_TEXT_MAX],
                                            exg_error *err);

/* ---- weights like others, with other bytes ------------------------------------------
 * Names, descriptions and numbers of storages stay, so a program may take them instead of
 * its own. They keep `of` alive. Bytes are made when they are read. */

/* Every element of the state dict reads as `value`, as its dtype has it: the program runs, the
 * bytes are gone. Constants, pickled objects and sample inputs stay. */
EXG_NODISCARD exg_status exg_weights_splat(exg_weights *of, double value, exg_weights **made,
                                           exg_error *err);

/* The same with zeros. */
EXG_NODISCARD exg_status exg_weights_strip(exg_weights *of, exg_weights **made, exg_error *err);

/* Every tensor's storage in this byte order, complex numbers by halves.
 * UNSUPPORTED when views of different width share a storage. */
EXG_NODISCARD exg_status exg_weights_in_order(exg_weights *of, exg_byte_order order,
                                              exg_weights **made, exg_error *err);

typedef enum exg_mismatch_kind {
#define EXG_MISMATCH_KIND(id, fault, text) EXG_MISMATCH_##id,
#include <exg/mismatch.def>
#undef EXG_MISMATCH_KIND
} exg_mismatch_kind;

const char *exg_mismatch_text(exg_mismatch_kind kind);
bool exg_mismatch_is_fault(exg_mismatch_kind kind);

typedef struct exg_mismatch {
    exg_mismatch_kind kind;
    char *name;
    char detail[120]; /* "[2, 3], given [3, 2]", or "" */
} exg_mismatch;

typedef struct exg_mismatches {
    exg_mismatch *items; /* freed by exg_mismatches_free */
    uint32_t count;
    uint32_t fault_count;
} exg_mismatches;

void exg_mismatches_free(exg_mismatches *mismatches); /* NULL, all zeros are allowed */

/* The tensors of `from` under the same names, which must have the same shapes and dtypes.
 * Of the state dict all must be there, unless `partial`, where the others stay; constants may.
 * `mismatches` is filled in any case. MISMATCH (WGT-FILL) when one of them is a fault, or none of
 * several weights is there. */
EXG_NODISCARD exg_status exg_weights_fill(exg_weights *of, exg_weights *from, bool partial,
                                          exg_weights **made, exg_mismatches *mismatches,
                                          exg_error *err);

/* Turns the byte order of every element (of both halves of a complex one) around. */
void exg_bytes_swap(void *data, uint64_t bytes, exg_dtype dtype);

/* Compares the checksums, frame by frame; an external file is looked at though it has none: whether
 * it is there (IO), in the folder and long enough. MALFORMED names storage and range. */
EXG_NODISCARD exg_status exg_storage_check(exg_weights *weights, uint32_t storage, exg_error *err);

typedef struct exg_check_options {
    size_t size;                                                 /* sizeof(exg_check_options) */
    uint32_t threads;                                            /* 0: every core */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL; called
                                                                     from one thread at a time */
    void *user;
} exg_check_options;

/* The same of every storage; the first fault in their order. An external file none of
 * whose two or more checksums holds is another file, not a damaged one: WGT-CHANGED.
 * `options` may be NULL. */
EXG_NODISCARD exg_status exg_weights_check(exg_weights *weights, const exg_check_options *options,
                                           exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
