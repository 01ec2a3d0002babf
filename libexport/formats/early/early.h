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

#include "libexport/base/map.h"
#include "libexport/formats/pt2/decode.h"

#include <exg/formats.h>
#include <exg/json_writer.h>
#include <exg/operators.h>
#include <exg/program.h>
#include <exg/weights.h>

#define EXG_EARLY_CARRY "exg.carry"
#define EXG_EARLY_EXTRA "exg.extra." /* before keys of `extra` that have a meaning of their own */

#define EXG_EARLY_NOTE "exg.early"  /* in a .pt2: the form */
#define EXG_EARLY_LONG "torch.ops." /* before targets, where they are spelt in full (S002-83) */

/* Which bytes a document has: when structures are compared they do not matter. */
typedef enum exg_early_bytes {
    EXG_EARLY_WITH_BYTES,
    EXG_EARLY_WITHOUT_BYTES,
    EXG_EARLY_WITH_PLACES, /* read: the same, but equal ranges of files are one storage */
    EXG_EARLY_WITH_NUMBERS /* written: the number of the weight in their place, for form.c */
} exg_early_bytes;

/* ---- reading: decode.c, argument.c, tensor.c ------------------------------------------------ */

/* Fills `program` from a GraphModule, the carry left alone. MALFORMED (JSN-*, EAR-*),
 * UNSUPPORTED (EAR-003). `names` gives positional arguments their names; NULL: none get one. */
exg_status exg_early_decode(exg_json root, exg_early_bytes bytes, const exg_operators *names,
                            exg_program *program, exg_error *err);

/* The one member of a union that is not null; members may all be present (S002-27). */
exg_status exg_early_union(exg_decoder *d, exg_json value, const char **tag, uint32_t *length,
                           exg_json *payload);

/* A tensor that a module has, bound by name to a value of its graph. */
typedef struct exg_early_bound {
    const char *name;
    exg_json tensor; /* its object, to be read once the graph is known */
    exg_tensor_meta *meta;
    bool is_param;
    exg_value_id id; /* of a branch's: in its graph */
} exg_early_bound;

/* What exg_argument.as_graph points to while a file is read. */
typedef struct exg_early_branch_argument {
    exg_graph_argument base;
    exg_early_bound *own;
    uint32_t own_count;
} exg_early_branch_argument;

/* exg_decoder_init() of one that reads scalars as the early schema writes them. */
void exg_early_decoder(exg_decoder *d, exg_arena *arena, exg_error *err);

exg_item_fn exg_early_argument;    /* exg_argument */
exg_item_fn exg_early_return;      /* exg_argument: ReturnArgument */
exg_item_fn exg_early_tensor_name; /* exg_argument: TensorArgument */
exg_item_fn exg_early_sym_int;     /* exg_sym_int */
exg_item_fn exg_early_branch;      /* exg_early_branch_argument: a GraphModule in an argument */

/* Appends what the branches of the graph's nodes have to what the module around them has; to be
 * called in the graph's scope. EAR-003. */
exg_status exg_early_lift_branches(exg_decoder *d, exg_graph *graph, exg_early_bound **own,
                                   uint32_t *own_count);

/* The storage of a Tensor, added to `weights`. Equal external ranges `of` one thing (a dtype) are
 * one: `ranges` has those that were seen, and begins empty. */
exg_status exg_early_storage(exg_decoder *d, exg_json tensor, const char *of, exg_weights *weights,
                             exg_map *ranges, uint32_t *storage);

/* Bytes in base64 as a storage; EAR-006. */
exg_status exg_early_add_base64(const char *text, size_t length, exg_byte_order order,
                                exg_weights *weights, uint32_t *storage, exg_error *err);

/* What an ExternalBuffer says, before it is looked at; strings in the decoder's arena. EAR-001. */
exg_status exg_early_place(exg_decoder *d, exg_json value, exg_storage *place,
                           const char **checksum);

/* ---- writing: encode.c, encode_argument.c, branch.c ----------------------------------------- */

/* Where a storage's bytes are put beside the program. */
typedef struct exg_early_range {
    const char *location; /* external file, or NULL */
    uint64_t offset;
    uint64_t length;
    const char *checksum;
} exg_early_range;

/* A range of a file beside the program that stays where the form has it. */
typedef struct exg_early_kept {
    const exg_weight *weight;
    const char *location;
    uint64_t offset;
} exg_early_kept;

typedef struct exg_early_encoder {
    const exg_program *program;
    exg_arena *arena;
    exg_early_bytes bytes;
    bool is_plain;                 /* the program's form does not stand */
    bool to_branches;              /* what was lifted out of a branch goes back into it */
    const char **names;            /* value id of the root graph -> early name */
    uint32_t *holders;             /* value id of the root graph -> weight and one more, or 0 */
    uint32_t *lifters;             /* weight -> input that lifts it and one more, or 0 */
    const exg_early_range *ranges; /* storage -> place, NULL: inside */
    const exg_save_options *options;
    bool moves_external; /* external bytes go where the options want all */
    exg_early_kept *kept;
    uint32_t kept_count, kept_capacity;
    exg_error *err;
} exg_early_encoder;

/* What a module's tables leave out of a value. */
#define EXG_EARLY_NO_INPUT 1u /* bound by name */
#define EXG_EARLY_NO_VALUE 2u /* in a branch, not here */

/* A module being written. */
typedef struct exg_early_scope {
    exg_early_encoder *e;
    const char *const *names; /* of the graph's values */
    const uint32_t *holders;  /* as the encoder's */
    uint8_t *flags;           /* of the values: EXG_EARLY_NO_* */
} exg_early_scope;

/* The GraphModule; `carry` may be NULL. */
exg_status exg_early_encode(exg_early_encoder *e, const char *carry, exg_text *out);

/* The GraphModule without its carry, read again. The caller frees the document. */
exg_status exg_early_encode_parsed(exg_early_encoder *e, exg_json_doc **doc);

/* Is it a tensor that the early schema can hold: dtype, layout, not pickled? */
bool exg_early_holds(const exg_weight *weight);

/* A weight's name and table in an early file; after exg_early_name_values(). */
const char *exg_early_name_of(const exg_early_encoder *e, uint32_t weight, bool *is_parameter);

exg_status exg_early_put_tensor(exg_early_encoder *e, exg_text *out, const exg_weight *weight);
exg_status exg_early_put_storage(exg_early_encoder *e, exg_text *out, const exg_weight *weight);

/* The bytes in base64 and quotes; of a NULL weight none. */
exg_status exg_early_put_buffer(exg_early_encoder *e, exg_text *out, const exg_weight *weight);

/* The bytes of a weight's storage as an early file has them: big endian, malloc'ed. */
exg_status exg_early_big_endian(exg_early_encoder *e, const exg_weight *weight, void **bytes);

/* Fills e->names, ->holders and ->lifters. NO_MEMORY. */
exg_status exg_early_name_values(exg_early_encoder *e);

exg_status exg_early_put_graph(const exg_early_scope *scope, exg_text *out, const exg_graph *graph);

/* How many of the node's last operands were tensors of its branches and are to be so again, the
 * last of them being in or at inputs[*last]. */
uint32_t exg_early_lifted(const exg_early_scope *scope, const exg_node *node, uint32_t *last);

/* Flags what goes back to the branches of the graph's nodes. */
void exg_early_put_back(exg_early_scope *scope, const exg_graph *graph);

/* The branch at inputs[input] as a GraphModule, its tensors in it. */
exg_status exg_early_put_branch(const exg_early_scope *scope, exg_text *out, const exg_node *node,
                                uint32_t input);

void exg_early_put_meta(exg_text *out, const exg_tensor_meta *meta);
bool exg_early_says_meta(const exg_tensor_meta *meta);
bool exg_early_says_argument(const exg_argument *arg);

/* ---- form.c ---------------------------------------------------------------------------------- */

/* Fills program->early_form with how `root`, which was decoded into it, is written; NULL when we
 * write it so anyway. `to_branches` as in the encoder. */
exg_status exg_early_keep_form(exg_json root, bool to_branches, exg_program *program,
                               exg_error *err);

/* The program in its form; `own` is what is written of it without, WITH_NUMBERS where bytes are
 * wanted. */
exg_status exg_early_put_form(exg_early_encoder *e, const exg_text *own, exg_text *out);

/* ---- current.c ------------------------------------------------------------------------------- */

/* A copy of an early program as a .pt2 can hold it and PyTorch load it, after
 * exg_program_suit_python(); its form goes along. UNSUPPORTED PT2-004. */
exg_status exg_early_make_current(exg_program *program, exg_error *err);

/* Is `program`, read from a .pt2, an early one made current and not changed since? Then it is that
 * one again. LIMIT, NO_MEMORY. */
exg_status exg_early_recall(exg_program *program, exg_error *err);

/* ---- external.c ------------------------------------------------------------------------------ */

/* May the bytes stay where the form has them? Of an ExternalBuffer, `data`, when they are as many
 * and as its checksum says; it is then among e->kept. */
exg_status exg_early_keeps_place(exg_early_encoder *e, const exg_weight *weight, bool is_internal,
                                 exg_json data, bool *keeps);

/* The files that e->kept names, beside `path`: those that are there must hold the bytes (EAR-008),
 * the others are written. *fresh: the paths of those, *count of them. */
exg_status exg_early_write_kept(exg_early_encoder *e, const char *path, const char ***fresh,
                                uint32_t *count);

/* "xxh3-128:<hex>" of bytes, in the encoder's arena. */
exg_status exg_early_checksum(exg_early_encoder *e, const void *bytes, uint64_t length,
                              const char **text);

/* ---- carry.c -------------------------------------------------------------------------------- */

/* The carry's text. */
exg_status exg_early_put_carry(exg_early_encoder *e, exg_text *out);

/* Fills `program` from the carry's text; storages in the early part come from `root`. */
exg_status exg_early_decode_carry(exg_json root, const char *text, size_t length,
                                  exg_program *program, exg_error *err);

/* What an early file cannot say of the program, in words, one "; " apart. */
exg_status exg_early_list_losses(exg_early_encoder *e, exg_text *out);

#endif
