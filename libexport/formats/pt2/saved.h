/* saved.h - a torch.save file: an archive of its own, with the pickle it holds. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_SAVED_H
#define EXG_LIBEXPORT_FORMATS_PT2_SAVED_H

#include "libexport/formats/pt2/archive.h"
#include "libexport/formats/pt2/pickle.h"

typedef struct exg_saved {
    exg_archive archive;
    exg_pickle_value *object; /* NULL: an empty file */
    exg_weights *weights;     /* where its storages go */
    exg_map storages;         /* key -> storage */
} exg_saved;

/* Reads the pickle of the file, which lies at `base` of the file that holds it and stays
 * as long as the weights. The object lives in `arena`; deflated members draw on
 * *inflate_left. MALFORMED, UNSUPPORTED, LIMIT. */
exg_status exg_saved_open(const uint8_t *data, uint64_t length, uint64_t base, exg_arena *arena,
                          uint64_t *inflate_left, exg_weights *weights, exg_saved *file,
                          exg_error *err);

/* What a tensor of the pickle is, its view checked, and its storage among the weights;
 * tensors that share one there share one here. */
exg_status exg_saved_meta(exg_saved *file, const exg_pickle_tensor *tensor, exg_arena *arena,
                          exg_tensor_meta **out, uint32_t *storage, exg_error *err);

/* A text without NUL. */
bool exg_pickle_is_name(const exg_pickle_value *value);

#endif
