/* saved.h - a torch.save file: an archive of its own, or a stream, with the pickle it holds. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_SAVED_H
#define EXG_LIBEXPORT_FORMATS_PT2_SAVED_H

#include "libexport/formats/pt2/archive.h"
#include "libexport/formats/pt2/pickle.h"

typedef struct exg_saved {
    exg_archive archive; /* of a stream: the arena and the byte order alone */
    exg_pickle pickle;
    exg_pickle_value *object; /* its root; NULL: an empty file */
    exg_weights *weights;     /* where its storages go */
    exg_map storages;         /* key -> storage */
    exg_map keys;             /* of the storages that the pickle names */
    const char *records;      /* where these lie: "data/" */
    uint64_t behind;          /* bytes of the file behind its end */
    bool is_stream;           /* every storage is known when the pickle was read */
} exg_saved;

/* Reads the pickle of the file, which lies at `base` of the file that holds it and stays
 * as long as the weights. The object lives in `arena`; deflated members draw on
 * *inflate_left. `strict`: as torch.export writes it. MALFORMED, UNSUPPORTED, LIMIT. */
exg_status exg_saved_open(const uint8_t *data, uint64_t length, uint64_t base, bool strict,
                          exg_arena *arena, uint64_t *inflate_left, exg_weights *weights,
                          exg_saved *file, exg_error *err);

/* Of a TorchScript archive its constants, which are a tuple, and have storages of their own.
 * `outer` stays as long as `constants`, whose object is NULL where there are none. */
exg_status exg_saved_open_constants(const exg_saved *outer, exg_saved *constants, exg_error *err);

/* What a tensor of the pickle is, its view checked, and its storage among the weights;
 * tensors that share one there share one here. */
exg_status exg_saved_meta(exg_saved *file, const exg_pickle_tensor *tensor, exg_arena *arena,
                          exg_tensor_meta **out, uint32_t *storage, exg_error *err);

/* The storage a persistent id names. */
exg_status exg_saved_storage(exg_saved *file, const exg_pickle_storage *storage, uint32_t *index,
                             exg_error *err);

/* ---- saved_walk.c ------------------------------------------------------------------------ */

/* Adds all that is in the object to the weights, under names that begin with `prefix`: tensors,
 * numbers and texts as metadata, and lists what is neither. The work is bounded by `budget`
 * bytes. */
exg_status exg_saved_walk(exg_saved *file, const char *prefix, uint64_t budget, exg_error *err);

/* Lists the names of the pickle that loading it in Python would run, at `where`; those alone that
 * are not among `seen`, which takes them (NULL: all). */
exg_status exg_pickle_list_names(const exg_pickle *pickle, const char *where, exg_map *seen,
                                 exg_weights *weights, exg_error *err);

/* ---- stream.c: before PyTorch 1.6 -------------------------------------------------------- */

/* Is it a stream of pickles and storages, or the tar archive of 0.1? */
bool exg_stream_sniff(const uint8_t *data, uint64_t length);

/* Reads it: the storages are in place. */
exg_status exg_stream_open(const uint8_t *data, uint64_t length, exg_saved *file, exg_error *err);

#endif
