/* decode.h - from JSON objects to plain structs, by tables.
 *
 * A struct of the schema is an array of rows: key, where it goes, who decodes it.
 * Keys come in any order; unknown ones are ignored (the schema's forward
 * compatibility rule). Errors collect their path while unwinding.
 *
 * Every string is kept once (exg_decoder_text); in the scope of a graph each name
 * of a value has one id (exg_decoder_value). Scopes nest as graphs do: inside a
 * subgraph names mean its own values, after it the outer ones again.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_DECODE_H
#define EXG_LIBEXPORT_FORMATS_PT2_DECODE_H

#include "libexport/base/arena.h"
#include "libexport/formats/json.h"
#include "libexport/program/model.h"

#include <exg/status.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* memcmp for the short keys of the schema: two overlapping words, no call. */
static inline bool exg_decode_same_bytes(const char *a, const char *b, size_t length)
{
    uint64_t x[2];
    uint64_t y[2];

    if (length > 16 || length < 4) {
        return memcmp(a, b, length) == 0;
    }
    if (length >= 8) {
        memcpy(&x[0], a, 8);
        memcpy(&y[0], b, 8);
        memcpy(&x[1], a + length - 8, 8);
        memcpy(&y[1], b + length - 8, 8);
    } else {
        x[0] = x[1] = y[0] = y[1] = 0;
        memcpy(&x[0], a, 4);
        memcpy(&y[0], b, 4);
        memcpy(&x[1], a + length - 4, 4);
        memcpy(&y[1], b + length - 4, 4);
    }
    return x[0] == y[0] && x[1] == y[1];
}

static inline bool exg_decode_key_is(const char *key, uint32_t key_length, const char *name,
                                     uint32_t length)
{
    return key_length == length && exg_decode_same_bytes(key, name, length);
}

typedef struct exg_interned exg_interned;
typedef struct exg_scope exg_scope;

typedef struct exg_decoder exg_decoder;
typedef exg_status exg_item_fn(exg_decoder *d, exg_json value, void *item);

struct exg_decoder {
    exg_arena *arena; /* what is decoded lives here */
    exg_error *err;
    exg_interned *strings; /* malloc'ed, as all below */
    uint32_t string_count;
    uint32_t string_capacity;
    uint64_t *slots; /* open addressing over strings */
    uint32_t slot_count;
    exg_scope *scope; /* innermost */
    uint32_t scope_count;
    const exg_graph *module_graph; /* in the scope of its module: no other begins for it */
    exg_item_fn *const *own;       /* by exg_model_type: what another schema writes otherwise */
};

void exg_decoder_init(exg_decoder *d, exg_arena *arena, exg_error *err);
void exg_decoder_free(exg_decoder *d); /* not what was decoded */

/* NO_MEMORY when the system refused, LIMIT when the arena's budget did. */
exg_status exg_decoder_out_of_memory(exg_decoder *d);

/* The one copy of a string value, or of a text that stands in or at `value`; a NUL in
 * it is JSN-001. */
exg_status exg_decoder_text(exg_decoder *d, exg_json value, const char **text);
exg_status exg_decoder_keep(exg_decoder *d, exg_json value, const char *text, uint32_t length,
                            const char **kept);

/* The id of the value called so in the scope at hand; made when new. */
exg_status exg_decoder_value(exg_decoder *d, exg_json value, const char *name, uint32_t length,
                             exg_value_id *id);

/* A scope begins; its values are gathered in `graph` when it ends. */
exg_status exg_decoder_enter(exg_decoder *d);
exg_status exg_decoder_leave(exg_decoder *d, exg_graph *graph);
exg_value *exg_decoder_value_at(exg_decoder *d, exg_value_id id); /* until the next new one */
uint32_t exg_decoder_value_count(const exg_decoder *d);           /* of the scope at hand */

/* ---- structs ---------------------------------------------------------------------- */

typedef struct exg_field exg_field;
typedef exg_status exg_decode_fn(exg_decoder *d, exg_json value, void *base,
                                 const exg_field *field);

enum {
    EXG_FIELD_OPTIONAL = 0,
    EXG_FIELD_REQUIRED = 1,
    EXG_FIELD_NULLABLE = 2 /* null leaves the default */
};

typedef exg_status exg_member_fn(exg_decoder *d, const char *key, uint32_t key_length,
                                 exg_json value, void *item);

struct exg_field {
    const char *key;
    uint32_t key_length;
    uint32_t flags;
    exg_decode_fn *decode;
    size_t offset;       /* of the member in the struct, for decoders that serve many */
    size_t count_offset; /* of a list or a map */
    size_t item_bytes;
    exg_item_fn *item;
    exg_member_fn *member;
    exg_model_type type; /* of a member of the model */
    exg_model_form form;
};

/* One that `decode_` finds the place of by itself. */
#define EXG_FIELD_OF(key_, flags_, decode_)                                                        \
    {                                                                                              \
        .key = key_, .key_length = sizeof(key_) - 1, .flags = flags_, .decode = decode_            \
    }
#define EXG_FIELD(type, member, key_, flags_, decode_)                                             \
    {                                                                                              \
        key_, sizeof(key_) - 1, flags_, decode_, offsetof(type, member)                            \
    }
/* A list: `member_` points to what `item_` decodes, of which there are `count_`. */
#define EXG_FIELD_LIST(type, member_, count_, key_, flags_, item_)                                 \
    {                                                                                              \
        .key = key_, .key_length = sizeof(key_) - 1, .flags = flags_, .decode = exg_field_list,    \
        .offset = offsetof(type, member_), .count_offset = offsetof(type, count_),                 \
        .item_bytes = sizeof(*((type *)NULL)->member_), .item = item_                              \
    }
/* A map: the same, of what `each_` decodes. */
#define EXG_FIELD_MAP(type, member_, count_, key_, flags_, each_)                                  \
    {                                                                                              \
        .key = key_, .key_length = sizeof(key_) - 1, .flags = flags_, .decode = exg_field_map,     \
        .offset = offsetof(type, member_), .count_offset = offsetof(type, count_),                 \
        .item_bytes = sizeof(*((type *)NULL)->member_), .member = each_                            \
    }
/* A member of another struct that is held as one of the model is: ONE or by POINTER. */
#define EXG_FIELD_MODEL(c_type, member_, key_, flags_, type_, form_)                               \
    {                                                                                              \
        .key = key_, .key_length = sizeof(key_) - 1, .flags = flags_, .decode = exg_field_held,    \
        .offset = offsetof(c_type, member_), .type = EXG_MODEL_##type_, .form = EXG_MODEL_##form_  \
    }
#define EXG_FIELD_COUNT(rows) ((uint32_t)(sizeof(rows) / sizeof((rows)[0])))

/* Decodes an object into `base`; JSN-002 for a wrong type or a missing key. */
exg_status exg_decode_struct(exg_decoder *d, exg_json value, void *base, const exg_field *fields,
                             uint32_t count);

/* ---- the model (decode_model.c) ----------------------------------------------------------- */

/* What model.def says of `type`, into `at`. */
exg_status exg_decode_thing(exg_decoder *d, exg_json value, exg_model_type type, void *at);

/* The members of a struct, whatever else there is to it. */
exg_status exg_decode_members(exg_decoder *d, exg_json value, exg_model_type type, void *at);

/* What is held at `at` in this form; `count` of a list or a map. */
exg_status exg_decode_held(exg_decoder *d, exg_json value, exg_model_type type, exg_model_form form,
                           void *at, uint32_t *count);

/* The single member of a union object: JSN-003. */
exg_status exg_decode_union(exg_decoder *d, exg_json value, const char **tag, uint32_t *tag_length,
                            exg_json *payload);
exg_status exg_decode_unknown_tag(exg_decoder *d, exg_json value, const char *of, const char *tag);

/* An array: `item` decodes each element at its place in *items. */
exg_status exg_decode_array(exg_decoder *d, exg_json value, size_t item_bytes, exg_item_fn *item,
                            void *items, uint32_t *count);

/* An object as a list of its members, in file order. */

exg_status exg_decode_map(exg_decoder *d, exg_json value, size_t item_bytes, exg_member_fn *member,
                          void *items, uint32_t *count);

/* Members of these types. */
exg_decode_fn exg_field_held; /* EXG_FIELD_MODEL */
exg_decode_fn exg_field_list; /* EXG_FIELD_LIST */
exg_decode_fn exg_field_map;  /* EXG_FIELD_MAP */
exg_decode_fn exg_field_text; /* const char * */
exg_decode_fn exg_field_int;  /* int64_t */
exg_decode_fn exg_field_bool; /* bool */
exg_decode_fn exg_field_tristate;

exg_item_fn exg_item_text; /* const char * */
exg_item_fn exg_item_int;  /* int64_t */

/* ---- scalars (argument.c), graphs (graph.c), specs (signature.c), programs (schema.c) ---------
 */

exg_item_fn exg_decode_argument;   /* exg_argument */
exg_item_fn exg_item_value_name;   /* exg_value_id: TensorArgument{name} */
exg_item_fn exg_decode_graph;      /* exg_graph, in a scope of its own */
exg_item_fn exg_decode_input_spec; /* exg_input_spec */
exg_item_fn exg_decode_output_spec;

/* By exg_model_type: scalars, and what has its own form in JSON; NULL: none of them. */
extern exg_item_fn *const exg_decode_scalars[EXG_MODEL_TYPE_COUNT];

/* A table of values, into the values of the scope at hand. */
exg_status exg_decode_values(exg_decoder *d, exg_json value, exg_model_type type);

/* Fills `program` from the JSON of a model. MALFORMED (JSN-*), UNSUPPORTED
 * (JSN-005: schema version), LIMIT. */
exg_status exg_decode_program(exg_json root, exg_program *program, exg_error *err);

#endif
