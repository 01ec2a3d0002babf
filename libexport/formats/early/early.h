/* early.h - the first export schema (seed 002) as JSON: a GraphModule, read and written.
 *
 * Read, it is lifted: each parameter and buffer becomes a graph input of the same name with
 * a spec of its own (S002-105). Written, the lifting is undone (S002-106). What the early
 * schema cannot say goes, as one JSON text, under metadata["exg.carry"]: the program in
 * the current schema, its weight table, and the bytes that have no place in the early part
 * (S002-109). A reader that knows the carry takes the program from there, but only when
 * the early part is what that program would be written as (S002-110).
 */
#ifndef EXG_LIBEXPORT_FORMATS_EARLY_EARLY_H
#define EXG_LIBEXPORT_FORMATS_EARLY_EARLY_H

#include "libexport/formats/json_writer.h"
#include "libexport/formats/pt2/decode.h"

#include <exg/operators.h>
#include <exg/program.h>
#include <exg/weights.h>

#define EXG_EARLY_CARRY "exg.carry"
#define EXG_EARLY_EXTRA "exg.extra." /* before keys of `extra` that have a meaning of their own */

/* Which bytes a document has: when structures are compared they do not matter. */
typedef enum exg_early_bytes { EXG_EARLY_WITH_BYTES, EXG_EARLY_WITHOUT_BYTES } exg_early_bytes;

/* ---- reading: decode.c, argument.c, tensor.c ------------------------------------------------ */

/* Fills `program` from a GraphModule, the carry left alone. MALFORMED (JSN-*, EAR-*),
 * UNSUPPORTED (EAR-003). `names` gives positional arguments their names; NULL: none get one. */
exg_status exg_early_decode(exg_json root, exg_early_bytes bytes, const exg_operators *names,
                            exg_program *program, uint64_t budget, exg_error *err);

/* The one member of a union that is not null; members may all be present (S002-27). */
exg_status exg_early_union(exg_decoder *d, exg_json value, const char **tag, uint32_t *length,
                           exg_json *payload);

exg_item_fn exg_early_argument;    /* exg_argument */
exg_item_fn exg_early_return;      /* exg_argument: ReturnArgument */
exg_item_fn exg_early_tensor_name; /* exg_argument: TensorArgument */
exg_item_fn exg_early_sym_int;     /* exg_sym_int */
exg_item_fn exg_early_tensor_meta; /* exg_tensor_meta */
exg_item_fn exg_early_branch;      /* exg_graph_argument: a GraphModule inside an argument */

/* The storage of a Tensor, added to `weights`. Equal external ranges are one. */
exg_status exg_early_storage(exg_decoder *d, exg_json tensor, exg_weights *weights,
                             uint32_t *storage);

/* Bytes in base64 as a storage; EAR-006. */
exg_status exg_early_add_base64(const char *text, size_t length, exg_byte_order order,
                                exg_weights *weights, uint32_t *storage, exg_error *err);

/* ---- writing: encode.c, encode_argument.c --------------------------------------------------- */

/* Where a tensor's bytes are; both NULL: in no document (EXG_EARLY_WITHOUT_BYTES). */
typedef struct exg_early_range {
    const char *location; /* external file, or NULL */
    uint64_t offset;
    uint64_t length;
    char checksum[48];
} exg_early_range;

typedef struct exg_early_encoder {
    const exg_program *program;
    exg_arena *arena;
    exg_early_bytes bytes;
    const char **names;            /* value id of the root graph -> early name */
    const exg_early_range *ranges; /* storage -> place, NULL: inside */
    exg_error *err;
} exg_early_encoder;

/* The GraphModule; `carry` may be NULL. */
exg_status exg_early_encode(exg_early_encoder *e, const char *carry, exg_text *out);

/* Is it a tensor that the early schema can hold: dtype, layout, not pickled? */
bool exg_early_holds(const exg_weight *weight);

/* The input spec that lifts `weight`, or NULL; its name and table in an early file. */
const exg_input_spec *exg_early_spec_of(const exg_program *program, const exg_weight *weight);
const char *exg_early_name_of(const exg_early_encoder *e, const exg_weight *weight,
                              bool *is_parameter);

/* The bytes of a weight's storage as an early file has them: big endian, malloc'ed. */
exg_status exg_early_big_endian(exg_early_encoder *e, const exg_weight *weight, void **bytes);

/* Fills e->names. NO_MEMORY. */
exg_status exg_early_name_values(exg_early_encoder *e);

void exg_early_put_argument(exg_text *out, const char *const *names, const exg_argument *arg);
void exg_early_put_graph(exg_text *out, const exg_graph *graph, const char *const *names,
                         const bool *lifted);
void exg_early_put_meta(exg_text *out, const exg_tensor_meta *meta);
bool exg_early_says_meta(const exg_tensor_meta *meta);
bool exg_early_says_argument(const exg_argument *arg);

/* ---- carry.c -------------------------------------------------------------------------------- */

/* The carry's text. */
exg_status exg_early_put_carry(exg_early_encoder *e, exg_text *out);

/* Fills `program` from the carry's text; storages in the early part come from `root`. */
exg_status exg_early_decode_carry(exg_json root, const char *text, size_t length,
                                  exg_program *program, uint64_t budget, exg_error *err);

/* What an early file cannot say of the program, in words, one "; " apart. */
exg_status exg_early_list_losses(exg_early_encoder *e, exg_text *out);

#endif
