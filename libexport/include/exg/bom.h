/* bom.h - a bill of materials of a model: CycloneDX 1.6 (ECMA-424), as JSON.
 *
 * One component of type machine-learning-model: its name, the SHA-256 of its file or of each file
 * of its folder, its licence and architecture where it says so, inputs and outputs of a program,
 * and as properties ("exg:...") its digest (exg/digest.h), format, parameters, dtypes and what
 * wrote it. There is no time and no serial number in it: one model has one bill.
 */
#ifndef EXG_BOM_H
#define EXG_BOM_H

#include <exg/formats.h>
#include <exg/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of the model is read. `options` may be NULL. The caller frees *json. As exg_weights_open(),
 * exg_open(), and exg_weight_read(). */
EXG_NODISCARD exg_status exg_model_bom(const char *path, const exg_open_options *options,
                                       uint32_t threads, char **json, exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
