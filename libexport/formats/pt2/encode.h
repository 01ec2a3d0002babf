/* encode.h - a program as the JSON of torch.export's schema 8.x: decode.h the other way.
 *
 * Every field is written, in the schema's order, as torch.export.save does; what the model
 * keeps of a file comes out as it went in, the value tables in the order of the ids.
 * Form: docs/pt2.md section 1.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ENCODE_H
#define EXG_LIBEXPORT_FORMATS_PT2_ENCODE_H

#include "libexport/base/json_writer.h"

#include <exg/program.h>

/* UNSUPPORTED PT2-001 for what the schema cannot say. Memory faults stick in `out`. */
exg_status exg_encode_program(const exg_program *program, exg_text *out, exg_error *err);

void exg_encode_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg);
void exg_encode_graph(exg_text *out, const exg_graph *graph);
void exg_encode_sym_int(exg_text *out, const exg_sym_int *sym);
void exg_encode_sym_float(exg_text *out, const exg_sym_float *sym);
void exg_encode_sym_bool(exg_text *out, const exg_sym_bool *sym);
void exg_encode_tensor_meta(exg_text *out, const exg_tensor_meta *meta);
exg_status exg_encode_signature(exg_text *out, const exg_signature *signature, exg_error *err);

/* {"key": "value", ...} */
void exg_encode_strings(exg_text *out, const exg_string_map *map);

#endif
