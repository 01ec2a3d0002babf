/* weights_save.h - what a format of weights that is written gives to weights_save.c: a row; and
 * what it is given to write. */
#ifndef EXG_LIBEXPORT_FORMATS_WEIGHTS_SAVE_H
#define EXG_LIBEXPORT_FORMATS_WEIGHTS_SAVE_H

#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/pool.h"
#include "libexport/formats/save_journal.h"
#include "libexport/weights/storage.h"

#include <exg/formats.h>

/* A tensor to be written: `item.data`, or a weight to be read. */
typedef struct exg_saved_tensor {
    exg_named_tensor item;
    const exg_weight *weight; /* NULL: of `item.data` */
} exg_saved_tensor;

typedef struct exg_weights_saver {
    exg_weights *weights;                    /* of the weights among the tensors */
    const exg_weights_save_options *options; /* complete */
    exg_arena *arena;
    exg_saved_tensor *tensors;
    uint32_t count;
    const exg_string_map *metadata; /* NULL: none */
    exg_string_map pairs;           /* of safetensors: what each of its files says of itself */
    exg_pool *pool;
    uint8_t **slots; /* EXG_SAVE_BLOCK_BYTES each */
    uint64_t done, total;
    exg_save_journal *journal; /* of the folder that the file is in, or NULL */
    exg_error *err;
} exg_weights_saver;

#define EXG_SAVE_BLOCK_BYTES (UINT64_C(1) << 20)

/* One file of what is written, with tensors [first, end). */
typedef struct exg_saved_file {
    exg_writer *writer;
    const char *path;
    uint32_t first, end;
    uint32_t number, count; /* of the files of the model, from 0 on */
} exg_saved_file;

typedef struct exg_weights_sink {
    exg_weights_format format;
    const char *extension;
    bool splits;       /* into several files */
    bool has_metadata; /* other than that: what is said beside the tensors is left out */
    /* Before anything is written: can it hold these tensors and this metadata? Sorts the tensors,
     * if the format wants an order. */
    exg_status (*prepare)(exg_weights_saver *s);
    exg_status (*write)(exg_weights_saver *s, const exg_saved_file *file);
} exg_weights_sink;

extern const exg_weights_sink exg_safetensors_sink;
extern const exg_weights_sink exg_gguf_sink;
extern const exg_weights_sink exg_npy_sink;
extern const exg_weights_sink exg_npz_sink;
extern const exg_weights_sink exg_checkpoint_sink;

/* exg_weights_save() of what is no folder, as this sink; NULL: as the name says. `journal`: of the
 * folder, in which the file has its name before it is whole; or NULL. */
exg_status exg_weights_save_as(exg_weights *weights, const exg_weights_sink *sink, const char *path,
                               exg_save_journal *journal, const exg_weights_save_options *options,
                               exg_error *err);

/* The bytes of a tensor to take(), block by block and in order, in host byte order; what is in the
 * file from an earlier try is read from there. */
exg_status exg_saver_put_tensor(exg_weights_saver *s, const exg_saved_file *file,
                                const exg_saved_tensor *tensor, exg_take_fn *take, void *user);

/* The same, to the file as they are. */
exg_status exg_saver_write_tensor(exg_weights_saver *s, const exg_saved_file *file,
                                  const exg_saved_tensor *tensor);

/* The index of a model in several files of safetensors: what it says. */
exg_status exg_safetensors_index_write(exg_weights_saver *s, exg_writer *writer,
                                       const exg_saved_file *files, uint32_t count);

#endif
