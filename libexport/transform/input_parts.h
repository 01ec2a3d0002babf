/* input_parts.h - inputs of a program that become several: a weight its parts. */
#ifndef EXG_LIBEXPORT_TRANSFORM_INPUT_PARTS_H
#define EXG_LIBEXPORT_TRANSFORM_INPUT_PARTS_H

#include "libexport/base/map.h"

#include <exg/program.h>

/* Inputs as they will be; they are the program's from exg_input_parts_end() on. */
typedef struct exg_input_parts {
    exg_program *program;
    exg_argument *inputs;
    exg_input_spec *specs;
    uint32_t count;
    exg_map names; /* of values */
    exg_error *err;
} exg_input_parts;

/* Room for up to `most` parts of each input; *values: how many values there may be then. */
exg_status exg_input_parts_begin(exg_input_parts *p, exg_program *program, uint32_t most,
                                 uint32_t *values, exg_error *err);
/* Input `input` stays. */
void exg_input_parts_keep(exg_input_parts *p, uint32_t input);
/* A part of input `input`: the weight `target`, a value of its own. */
exg_status exg_input_parts_add(exg_input_parts *p, uint32_t input, const char *part,
                               const char *target, exg_tensor_meta *meta, exg_value_id *id);
void exg_input_parts_end(const exg_input_parts *p);

#endif
