/* weights_file.h - what a reader of named tensors gives to weights_file.c: a row. */
#ifndef EXG_LIBEXPORT_FORMATS_WEIGHTS_FILE_H
#define EXG_LIBEXPORT_FORMATS_WEIGHTS_FILE_H

#include "libexport/base/map.h"
#include "libexport/formats/format.h"

#include <exg/formats.h>
#include <stdbool.h>

/* Adds the tensors of a file to `weights`, whose storages point into the bytes of the
 * source, which stay as long as the weights. */
typedef exg_status exg_weights_read_fn(const exg_source *source, exg_weights *weights,
                                       exg_error *err);
typedef bool exg_weights_sniff_fn(const uint8_t *data, uint64_t length);

exg_weights_sniff_fn exg_safetensors_sniff;
exg_weights_read_fn exg_safetensors_read;
exg_weights_read_fn exg_safetensors_read_shard; /* never with those of other ranks beside it */
exg_weights_sniff_fn exg_weights_index_sniff;
exg_weights_read_fn exg_weights_index_read;
exg_weights_read_fn exg_weights_parts_read; /* of a file that is a part: all of them */
exg_weights_sniff_fn exg_npy_sniff;
exg_weights_read_fn exg_npy_read;
exg_weights_sniff_fn exg_npz_sniff;
exg_weights_read_fn exg_npz_read;
exg_weights_sniff_fn exg_gguf_sniff;
exg_weights_read_fn exg_gguf_read;
exg_weights_sniff_fn exg_onnx_sniff;
exg_weights_read_fn exg_onnx_read;
exg_weights_sniff_fn exg_ptd_sniff;
exg_weights_read_fn exg_ptd_read;
exg_weights_sniff_fn exg_pte_sniff;
exg_weights_read_fn exg_pte_read;
exg_weights_sniff_fn exg_checkpoint_sniff;
exg_weights_read_fn exg_checkpoint_read;
exg_weights_sniff_fn exg_dcp_sniff; /* of the file .metadata; the folder is that of its path */
exg_weights_read_fn exg_dcp_read;

exg_weights_sniff_fn exg_container_sniff; /* .exg of weights without a program */
exg_weights_read_fn exg_container_read;

/* The other way; of `options` what is about weights inside the file. `in_folder`: with resume it
 * has its name before it is whole, and PATH.resume stays: both go with the folder. */
exg_status exg_container_save(exg_weights *weights, const char *path, bool in_folder,
                              const exg_save_options *options, exg_error *err);

/* Is it a folder that DeepSpeed saved with ZeRO, or one with such a folder that its file `latest`
 * names? */
bool exg_zero_is(const char *folder);

/* The parameters of such a folder, whole; `budget` bytes, or 0: by the size of the files. */
exg_status exg_zero_read(const char *folder, uint64_t budget, exg_weights *weights, exg_error *err);

/* ---- foreign.c ------------------------------------------------------------------------------- */

/* Is the file of a kind that is known and not read? UNSUPPORTED (FMT-FOREIGN) says which, and
 * what to do; else OK. */
exg_status exg_foreign_check(const exg_source *file, exg_error *err);

/* Is it a tar archive, or a zip archive of files, with one model in it, by the names? Its name, in
 * the file. */
bool exg_foreign_archive(const exg_source *file, const char **member, size_t *length);

/* ---- weights_file.c -------------------------------------------------------------------------- */

/* Which of the formats the bytes are, by content. */
exg_weights_format exg_weights_find_format(const uint8_t *data, uint64_t length);

/* The tensors of one of the files that an index names, which is itself no index. MALFORMED
 * (STF-SHARD) when it is no file of weights. */
exg_status exg_weights_read_shard(const exg_source *source, exg_weights *weights, exg_error *err);

/* An array in .npy form of `length` bytes, under the name `name`. `crc` is that of all of
 * them; NULL: nobody knows. */
exg_status exg_npy_read_as(const uint8_t *data, uint64_t length, const char *name,
                           const uint32_t *crc, exg_weights *weights, exg_error *err);

/* The bits of an element of "F4", "F6_E2M3", "F6_E3M2", which lie packed; of others 0. Tensors of
 * them are raw bytes (U8) with the dtype as encoding: their last size counts bytes; where rows
 * are no whole bytes there is one size, and the encoding tells the shape, "F4[3, 2]". */
uint32_t exg_safetensors_packed_bits(const char *dtype);

/* One file, whatever it says of others. */
exg_weights_read_fn exg_safetensors_read_alone;

/* Is this a header that is read, before `data` bytes of tensors? The same rules. */
exg_status exg_safetensors_check(const void *header, uint64_t length, uint64_t data,
                                 exg_error *err);

/* ---- model_beside.c: other files of a model called `path` ------------------------------ */

/* Is there a file of the model, in one or in several, that is none of `names`, of files in the
 * folder? USAGE (STF-BESIDE) names it. IO. */
exg_status exg_model_beside(const char *path, const exg_map *names, exg_error *err);

/* Removes them. IO. */
exg_status exg_model_remove_beside(const char *path, const exg_map *names, exg_error *err);

#endif
