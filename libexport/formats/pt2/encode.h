/* encode.h - a program as the JSON of torch.export's schema 8.x: decode.h the other way.
 *
 * model.def says what is written: every field, in the schema's order, as torch.export.save does;
 * what the model keeps of a file comes out as it went in, the value tables in the order of the
 * ids. Form: docs/pt2.md section 1.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_ENCODE_H
#define EXG_LIBEXPORT_FORMATS_PT2_ENCODE_H

#include "libexport/program/model.h"

#include <exg/json_writer.h>

typedef struct exg_encoder exg_encoder;

struct exg_encoder {
    exg_text *out;
    const exg_graph *graph; /* whose values are named */
    exg_error *err;
    /* Writes what another schema writes otherwise; false: it does not. NULL: schema 8.x. */
    bool (*put)(const exg_encoder *e, exg_model_type type, const void *at);
    const void *user;
};

/* UNSUPPORTED PT2-001 for what the schema cannot say. Memory faults stick in `out`. */
exg_status exg_encode_program(const exg_program *program, exg_text *out, exg_error *err);
exg_status exg_encode_thing(const exg_encoder *e, exg_model_type type, const void *at);
exg_status exg_encode_items(const exg_encoder *e, exg_model_items items);

/* What names no value and is in no signature. */
void exg_encode_plain(exg_text *out, exg_model_type type, const void *at);

#endif
