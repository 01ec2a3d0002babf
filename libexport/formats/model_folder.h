/* model_folder.h - a folder as a model. */
#ifndef EXG_LIBEXPORT_FORMATS_MODEL_FOLDER_H
#define EXG_LIBEXPORT_FORMATS_MODEL_FOLDER_H

#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>

/* The file that is read when `path` is given, malloc'ed: itself, or of a folder the file that
 * stands for the model in it. UNSUPPORTED (FMT-FOLDER: none, or several; FMT-FOREIGN: a model of
 * another kind), IO. */
exg_status exg_model_file(const char *path, char **file, exg_error *err);

/* Is a file called as PyTorch calls the slices that one rank saves as safetensors:
 * "shard-00001-model-00001-of-00001.safetensors"? */
bool exg_model_is_slice(const char *name);

/* How much of a name stands before the number of a part, of safetensors, torch.save or GGUF:
 * "m" of "m-00001-of-00003.safetensors". 0: it is no part. */
size_t exg_model_part_stem(const char *name);

#endif
