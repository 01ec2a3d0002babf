/* formats.h - files in and out.
 *
 * exg_open() looks at the content, not at the name. Whatever it gives is decoded,
 * not yet believed: exg_verify() comes next. No weight byte is read by opening.
 * A file is never changed in place: saving writes beside it, syncs, renames. A link of its name
 * stays, and the file that it leads to is replaced.
 */
#ifndef EXG_FORMATS_H
#define EXG_FORMATS_H

#include <exg/byte_source.h>
#include <exg/program.h>
#include <exg/weights.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum exg_format {
#define EXG_FORMAT(id, name, extension, summary) EXG_FORMAT_##id,
#include <exg/format.def>
#undef EXG_FORMAT
    EXG_FORMAT_COUNT
} exg_format;

const char *exg_format_name(exg_format format);
exg_format exg_format_from_name(const char *name); /* EXG_FORMAT_COUNT: none */
exg_format exg_format_from_path(const char *path); /* by extension */

typedef struct exg_open_options {
    size_t size;            /* sizeof(exg_open_options) */
    const char *program;    /* of an archive with several; NULL: "model", or the only one */
    uint64_t memory_budget; /* bytes the decoded program may take; 0: 64 times the file + 64 MiB */
    bool check_crc;         /* read and compare every record's crc (reads all bytes) */
    const exg_allocator *allocator; /* of what is opened (memory.h); NULL: the system's */
    bool ignore_carry; /* of early JSON: what its own schema says, and nothing else; of a .pt2
                          made of it: the program as PyTorch takes it */
    bool no_check;     /* checksums are not compared when tensors are first read */
    /* Read files into memory, whole, in the place of mapping them. A mapped file that another
     * process cuts short while it is open, or whose device fails, ends this process with SIGBUS
     * when it is read there (a new file under the old name, as exg and others write them, does no
     * harm): with copies that is a status, IO-CHANGED, while they are made. */
    bool copies_files;
    bool strict; /* of files of weights: refuse (UNSUPPORTED WGT-SKIP) what is listed in
                    exg_weights.skipped otherwise */
    /* Files that the opened one names (shards, external data) lie below its folder. A link there
     * may lead to another file of the folder, and in a snapshot of huggingface_hub's cache to the
     * blobs of its repository; else it is refused (UNSUPPORTED WGT-LINK), unless: */
    bool follow_links; /* links are followed wherever they lead */
    /* Asked for the bytes of every name before a file is; NULL: all are files. Of safetensors,
     * GGUF, .npy and zip archives (.pt2, .pt, .npz) that are read so no more than is needed is
     * read; of any other 256 MiB at most (LIMIT SRC-WHOLE). */
    exg_open_source_fn *open_source;
    void *source_user; /* its first argument */
    /* Called with the fault of a file of weights for which it is not opened; of safetensors and
     * GGUF also with every one that reading can go on from, 1000 at most. Opening fails with the
     * first of them in the end. NULL: it fails at the first. */
    void (*fault)(void *user, const exg_error *fault);
    void *fault_user;
} exg_open_options;

typedef struct exg_file_info {
    size_t size; /* that this library filled */
    exg_format format;
    uint64_t file_bytes;
    /* .pt2, of its archive: "B" loose members (PyTorch 2.2 to 2.7), "C" an archive folder with
     * the weights as one .pt (2.8), "D" with a file a tensor (since 2.9). */
    char generation[8];
    char **program_names; /* programs in the archive */
    uint32_t program_count;
    char *loose_member;   /* .pt2: the first member that is deflated, or begins at no
                             multiple of 64 (ARC-010); NULL: none */
    uint32_t loose_count; /* how many there are */
} exg_file_info;

void exg_file_info_free(exg_file_info *info); /* NULL is allowed */

/* Reads a program. `options` and `info` may be NULL; the caller frees *info, which is NULL
 * after a fault that left nothing to tell. The caller destroys
 * *program, which keeps the file mapped until its weights are released.
 * IO, MALFORMED (with the offset), UNSUPPORTED, LIMIT, USAGE (no such program). */
EXG_NODISCARD exg_status exg_open(const char *path, const exg_open_options *options,
                                  exg_program **program, exg_file_info **info, exg_error *err);

/* The same from memory, which must stay as long as the program's weights. */
EXG_NODISCARD exg_status exg_open_memory(const void *data, size_t length,
                                         const exg_open_options *options, exg_program **program,
                                         exg_file_info **info, exg_error *err);

/* What the file is, and which programs it holds, without opening one: of an archive all names,
 * of other formats, which hold one, none. The caller frees *info. `options` may be NULL: of them
 * counts how the file is read. IO, MALFORMED, UNSUPPORTED. */
EXG_NODISCARD exg_status exg_file_describe(const char *path, const exg_open_options *options,
                                           exg_file_info **info, exg_error *err);

/* The record of a program's example inputs, "<this><program>.pt", is kept among its extra
 * files: no other form says all that may be pickled there. */
#define EXG_SAMPLES_FOLDER "data/sample_inputs/"

typedef enum exg_compression {
    EXG_COMPRESSION_KEEP,
    EXG_COMPRESSION_NONE,
    EXG_COMPRESSION_ZSTD
} exg_compression;

typedef enum exg_placement_of_weights {
    EXG_WEIGHTS_KEEP,
    EXG_WEIGHTS_INTERNAL,
    EXG_WEIGHTS_EXTERNAL /* in a file beside the program */
} exg_placement_of_weights;

typedef struct exg_save_options {
    size_t size; /* sizeof(exg_save_options) */
    exg_compression compression;
    exg_placement_of_weights weights;
    const char *external_name; /* file name beside the program; NULL: "<stem>-<hash>.weights" */
    bool deduplicate;          /* equal storages are stored once */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *user;
    uint32_t threads; /* 0: every core */
    uint64_t align;   /* of every storage, a power of two up to 1 GiB; 0: 64, 4096 from 1 MiB up */
    uint64_t split;   /* bytes of storages in one file beside at most; 0: all in one */
    bool strict;      /* early JSON: refuse what its own schema cannot say, carry nothing */
    bool resume;      /* what is written stays when the save is stopped, and the same save goes
                         on from there; unfinished files are PATH.part and PATH.resume */
    const char *release; /* of PyTorch, that shall read a .pt2 ("2.9"); NULL: as the program says.
                            UNSUPPORTED PT2-005: it reads no such archive; PT2-006: it does not know
                            what the program says */
    bool dry_run; /* all is done but that nothing is written: file() hears of each file that would
                     be, and its bytes. No resume */
    exg_status (*file)(void *user, const char *path, uint64_t bytes, exg_error *err);
} exg_save_options;

/* Writes `program` to `path` atomically: the old file or the new one, at any moment; data
 * files beside it carry the hash of their content in their names (unless named by the
 * caller), so the old program keeps its own, which stay. Checksums of the source are
 * compared before they are replaced. Equal programs and options give equal bytes,
 * whatever the threads. UNSUPPORTED when the format cannot say something the program
 * holds; MALFORMED for damaged sources; IO. */
EXG_NODISCARD exg_status exg_save(const exg_program *program, const char *path, exg_format format,
                                  const exg_save_options *options, exg_error *err);

/* Writes bytes to `path` atomically: the old file or the new one, at any moment. IO. */
EXG_NODISCARD exg_status exg_file_write(const char *path, const void *data, size_t length,
                                        exg_error *err);

/* Several programs into one archive, in this order, each under its own name; .pt2 alone holds
 * more than one (UNSUPPORTED FMT-SEVERAL). An extra file that several of them have is written
 * once, and must be the same in all (FMT-EXTRA). */
EXG_NODISCARD exg_status exg_save_programs(const exg_program *const *programs, uint32_t count,
                                           const char *path, exg_format format,
                                           const exg_save_options *options, exg_error *err);

/* ---- files of weights ----------------------------------------------------------- */

typedef enum exg_weights_format {
#define EXG_WEIGHTS_FORMAT(id, name, files, summary, carries) EXG_WEIGHTS_FORMAT_##id,
#include <exg/weights_format.def>
#undef EXG_WEIGHTS_FORMAT
    EXG_WEIGHTS_FORMAT_COUNT
} exg_weights_format;

const char *exg_weights_format_name(exg_weights_format format); /* of COUNT: "program" */

/* Which of them a file is, by content; COUNT when it is none. `options` may be NULL: of them
 * counts where the bytes are. IO. */
EXG_NODISCARD exg_status exg_weights_sniff(const char *path, const exg_open_options *options,
                                           exg_weights_format *format, exg_error *err);

/* The tensors of a file of weights, or of a program, whose *format is COUNT. Names are
 * the file's; what a checkpoint nests is joined with dots, and what is no tensor in it
 * goes to the metadata. No tensor is read by opening but deflated ones. Every rule of
 * the formats is checked; files a sharded model names may not leave its folder.
 * `options` (budget and allocator) and `format` may be NULL. The caller releases
 * *weights. IO, MALFORMED, UNSUPPORTED, LIMIT. */
EXG_NODISCARD exg_status exg_weights_open(const char *path, const exg_open_options *options,
                                          exg_weights **weights, exg_weights_format *format,
                                          exg_error *err);

/* The same from memory, which must stay as long as the weights. No program. */
EXG_NODISCARD exg_status exg_weights_open_memory(const void *data, size_t length,
                                                 const exg_open_options *options,
                                                 exg_weights **weights, exg_weights_format *format,
                                                 exg_error *err);

/* The format of weights that exg_weights_save() writes under such a name (.safetensors, .gguf,
 * .npz, .npy, .pt, .pth, .ckpt, .bin, .exg, FOLDER/.metadata); COUNT: none. */
exg_weights_format exg_weights_format_from_path(const char *path);

/* Does a file of the format that is written hold metadata? Where not, they are left out. */
bool exg_weights_format_has_metadata(exg_weights_format format);

typedef struct exg_weights_save_options {
    size_t size;    /* sizeof(exg_weights_save_options) */
    uint64_t split; /* bytes of tensors in one file at most; 0: all in one. safetensors, GGUF */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *user;
    uint32_t threads; /* 0: every core */
    bool force;       /* files of the model that was there, in another form, are removed */
    bool expands;     /* tensors may repeat elements of a storage past 64 times its bytes and
                         1 GiB in all: else LIMIT STF-EXPAND, before anything is written */
    uint64_t align;   /* safetensors, GGUF: where tensors begin, a power of two up to 1 GiB; 0: 64,
                         of GGUF 32. safetensors has room for nothing between tensors: those begin
                         there whose bytes are a multiple of it, and they go first */
    bool resume;      /* what is written stays when the save is stopped, and the same save goes on
                         from there; unfinished files are FILE.part, and PATH.resume */
    bool dry_run;     /* everything is checked, nothing is written */
    bool deduplicate; /* .exg: equal storages are stored once */
    exg_compression compression; /* .exg: KEEP is that of frames that are read */
    /* Called for each file before any is written; may be NULL. A fault ends the save. */
    exg_status (*file)(void *user, const char *path, uint32_t tensors, uint64_t bytes,
                       exg_error *err);
} exg_weights_save_options;

/* Writes every plain tensor, and the metadata, in the format that the name of `path` says,
 * atomically: the old file or the new one, at any moment. Checksums of the source are compared
 * before they are left behind. Tensors are read block by block.
 *   .safetensors   wider elements go first, so that all of them are aligned. Metadata gets
 *                  "format": "pt", which Hugging Face's readers ask for, unless it has a format
 *   .gguf          names of less than 64 bytes and at most 4 dimensions, as llama.cpp reads them
 *   .npz, .npy     no metadata; .npy has one tensor
 *   .pt, .pth, .ckpt, .bin   a dict of tensors, which torch.load(weights_only=True) takes; no
 *                  metadata
 *   .metadata      in a folder of its own: a distributed checkpoint of one rank
 *                  (exg_weights_save_ranks)
 *   .exg           storages and views as they are, with metadata; no program. Options as in
 *                  exg_save_options
 * A split model is STEM-00001-of-00003 and so on, of safetensors with PATH.index.json. Readers
 * take what they find, so other files of a model of this name must not stay beside the new ones:
 * an index beside a model in one file, one file or other parts beside an index (USAGE STF-BESIDE,
 * and nothing is written; `force` removes them at the end). Where files of the same names are
 * replaced, there is the old model, for a moment none, then the new one; never a mixture.
 * UNSUPPORTED when the format has no such dtype, IO. */
EXG_NODISCARD exg_status exg_weights_save(exg_weights *weights, const char *path,
                                          const exg_weights_save_options *options, exg_error *err);

/* The weights of every rank of a mesh, of `count`, into a folder that is made, or is empty. The
 * folder has its name when all is whole; until then it is FOLDER.part. `path` is
 *   FOLDER             a file of safetensors for each rank that has tensors, called as PyTorch's
 *                      HuggingFaceStorageWriter does: "shard-00001-model-00001-of-00001", and
 *                      where one rank has all "model-00001-of-00001"
 *   FOLDER/.metadata   a file "__0_0.distcp" for each, and .metadata, as
 *                      torch.distributed.checkpoint.save() has them; no metadata of the weights
 *   FOLDER/m.{rank}.pt a file for each rank, with its number in two digits in the place of {rank},
 *                      in the format that the name says: as exg_weights_edit_options.shard makes
 *                      them
 * Of the first two exg_weights_slice() made the ranks: it says where in the whole they are.
 * `options`: no split. With resume FOLDER.part stays when the save is stopped, and FOLDER.resume,
 * which says what is in it. USAGE (IO-KIND): the folder is not empty; DCP-CHUNK: parts do not go
 * together. IO (IO-BUSY: another save holds it). */
EXG_NODISCARD exg_status exg_weights_save_ranks(exg_weights *const *ranks, uint32_t count,
                                                const char *path,
                                                const exg_weights_save_options *options,
                                                exg_error *err);

/* The same by several processes, each of which writes files of its own, FOLDER/.metadata alone: one
 * process begins, all write, and the one that began ends it. */
typedef struct exg_ranks_save exg_ranks_save;

/* A file of rank `rank`, its `number`-th from 0 on: a second chunk of one tensor has a second. */
typedef struct exg_rank_file {
    uint32_t rank, number;
    exg_weights *weights;
} exg_rank_file;

EXG_NODISCARD exg_status exg_ranks_save_begin(const char *path, exg_ranks_save **save,
                                              exg_error *err);

/* Begins one whose files stay in FOLDER.part when it is stopped, or given up, and goes on with what
 * such a save left there. All of its files are saved with resume. */
EXG_NODISCARD exg_status exg_ranks_save_resume(const char *path, exg_ranks_save **save,
                                               exg_error *err);

/* In any process, between begin and end. `options`: no split. With resume only what is not there
 * yet is written: the journal is beside the file until the end. IO (IO-BUSY: another process
 * writes this file). */
EXG_NODISCARD exg_status exg_ranks_save_file(const exg_rank_file *file, const char *path,
                                             const exg_weights_save_options *options,
                                             exg_error *err);

/* `files` are those of all ranks; of their tensors names, dtypes and shapes are read, no bytes. The
 * folder gets its name. Frees `save`, also when this fails: then what was written is removed,
 * unless it can be gone on with. */
EXG_NODISCARD exg_status exg_ranks_save_end(exg_ranks_save *save, const exg_rank_file *files,
                                            uint32_t count, exg_error *err);

/* Instead of it: the files of all ranks are put together and saved as one model, as
 * exg_weights_save() does, and removed, for readers that know no distributed checkpoints. Frees
 * `save`. */
EXG_NODISCARD exg_status exg_ranks_save_join(exg_ranks_save *save, const exg_rank_file *files,
                                             uint32_t count, const char *path,
                                             const exg_weights_save_options *options,
                                             exg_error *err);

/* Gives it up: what was written is removed, unless it can be gone on with. Frees `save`; NULL is
 * allowed. */
void exg_ranks_save_abort(exg_ranks_save *save);

typedef exg_status exg_model_number_fn(void *user, const char *key, int64_t value, exg_error *err);

/* Tells the whole numbers of config.json and params.json beside a file of weights, or in a folder
 * of them ("num_attention_heads"): what presets need to know (exg_weights_edit_options.numbers).
 * Files that are not there have none. A fault of number() ends it. IO, MALFORMED. */
EXG_NODISCARD exg_status exg_model_numbers(const char *path, exg_model_number_fn *number,
                                           void *user, exg_error *err);

/* ---- named tensors in memory: inputs, outputs --------------------------------------- */

/* Does the name say a form in which tensors can be written? USAGE (TNS-NAME). */
EXG_NODISCARD exg_status exg_tensor_file_check_name(const char *path, exg_error *err);

typedef struct exg_named_tensor {
    const char *name;
    exg_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    const void *data; /* row-major, contiguous, host byte order, aligned for its elements */
    uint64_t bytes;
} exg_named_tensor;

typedef struct exg_tensor_file {
    exg_named_tensor *items; /* in file order */
    uint32_t count;
    uint32_t skipped_count;
    const exg_skipped *skipped; /* what is in the file and not among them, in file order */
    exg_string_map metadata;
    struct exg_tensor_file_private *private_;
} exg_tensor_file;

/* Is one of the tensors a pickled subclass? */
bool exg_weights_has_subclasses(const exg_weights *weights);

/* The same weights with the tensors inside of pickled subclasses in their place, called
 * "w.qdata", "w.scale" for "w". They keep `of` alive. What is in a pickle is read as in a file of
 * torch.save, never run; of one that cannot be read the pickle stays. IO. */
EXG_NODISCARD exg_status exg_weights_unwrap(exg_weights *of, exg_weights **made, exg_error *err);

/* The way back: weights like `of` with the values of `inner`, which has the tensors of
 * exg_weights_unwrap(of), filled anew perhaps. Of a subclass that is its pickle with the bytes of
 * its tensors exchanged, and the checksums of their records. Both stay alive. UNSUPPORTED
 * (WGT-013): a pickle does not hold them as they are. */
EXG_NODISCARD exg_status exg_weights_wrap(exg_weights *of, exg_weights *inner, exg_weights **made,
                                          exg_error *err);

/* exg_weights_open() with every tensor in memory; of an .npy one tensor named "". What
 * is in the file as it is wanted is mapped, the rest copied. What is no plain tensor is listed. */
EXG_NODISCARD exg_status exg_tensor_file_open(const char *path, exg_tensor_file **file,
                                              exg_error *err);
EXG_NODISCARD exg_status exg_tensor_file_open_memory(const void *data, size_t length,
                                                     exg_tensor_file **file, exg_error *err);
void exg_tensor_file_close(exg_tensor_file *file); /* NULL is allowed */
const exg_named_tensor *exg_tensor_file_find(const exg_tensor_file *file, const char *name);

/* Writes what the name of the file says, as exg_weights_save() does: .safetensors (data from a
 * multiple of 64 on; between tensors the format allows no padding), .npz, .npy for one tensor,
 * whose name is not kept, .gguf or .pt. NumPy has no complex32, which is written as complex64,
 * and no bfloat16 or float8; safetensors has no complex128 and no complex32 (UNSUPPORTED). Only
 * safetensors and GGUF have metadata, which may be NULL. USAGE for another name. */
EXG_NODISCARD exg_status exg_tensor_file_save(const char *path, const exg_named_tensor *items,
                                              uint32_t count, const exg_string_map *metadata,
                                              exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
