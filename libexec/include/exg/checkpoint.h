/* checkpoint.h - DTensors saved on one mesh and loaded on another, as
 * torch.distributed.checkpoint.save() and load() do it.
 *
 * Every rank reads and writes its own parts and nothing else, tensor by tensor, so it needs memory
 * for its largest part and no more. All ranks see the folder under the same path.
 *
 * Collective: every rank of the mesh calls it with the same names in the same order. A fault of one
 * rank ends it on all with that rank's status, and its message says which rank it was; nothing that
 * was written stays, unless the save can be gone on with (exg_weights_save_options.resume). Ranks
 * wait for the one that writes longest: a mesh with a timeout needs one
 * that is long enough for that. A rank that is no member of the mesh returns at once.
 * Threads: as DTensors.
 */
#ifndef EXG_CHECKPOINT_H
#define EXG_CHECKPOINT_H

#include <exg/device_mesh.h>
#include <exg/dtensor.h>
#include <exg/formats.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_checkpoint_tensor {
    const char *name;     /* of a state_dict: "layers.0.weight"; each once */
    exg_dtensor *dtensor; /* on this mesh */
} exg_checkpoint_tensor;

/* `path` is
 *   FOLDER/.metadata   a distributed checkpoint, which torch.distributed.checkpoint.load() takes on
 *                      any mesh: a file of each rank that writes something, and .metadata. The
 *                      folder is made, or is empty
 *   any other name     that exg_weights_save() takes: one model, safetensors with an index where
 *                      `options` split it. Ranks write a distributed checkpoint beside it first,
 *                      which the first rank puts together and removes
 * Of several ranks that hold the same the first writes it. `options` may be NULL; a progress is
 * each rank's own, its files in the second form are the first rank's. With resume what ranks wrote
 * stays when the save is stopped; the same call then goes on where tensors have the values that
 * they had, which each rank finds out by reading its parts once more. USAGE DTN-014: a Partial,
 * which has no parts; DTN-011: of another mesh; STF-NAME: a name twice; IO-KIND: the folder is not
 * empty. IO. */
EXG_NODISCARD exg_status exg_checkpoint_save(exg_device_mesh *mesh,
                                             const exg_checkpoint_tensor *tensors, uint32_t count,
                                             const char *path,
                                             const exg_weights_save_options *options,
                                             exg_error *err);

typedef struct exg_checkpoint_load_options {
    size_t size;                  /* sizeof(exg_checkpoint_load_options) */
    bool partial;                 /* a tensor that is not in the file stays; else MISMATCH */
    uint32_t *missing;            /* how many stayed; may be NULL */
    const exg_open_options *open; /* how the file is read; may be NULL */
} exg_checkpoint_load_options;

/* Fills the DTensors, however they are placed, from whatever exg_weights_open() opens: a
 * distributed checkpoint of any mesh, by its folder or .metadata, safetensors with or without an
 * index, a file of torch.save. MISMATCH (WGT-FILL): a tensor is not there, or has another shape or
 * dtype; then none is changed. IO, MALFORMED, and what a rank finds as it reads: some may be
 * changed then. `options` may be NULL. */
EXG_NODISCARD exg_status exg_checkpoint_load(exg_device_mesh *mesh,
                                             const exg_checkpoint_tensor *tensors, uint32_t count,
                                             const char *path,
                                             const exg_checkpoint_load_options *options,
                                             exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
