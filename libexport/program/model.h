/* model.h - the table of what a program is made of (model.def), to walk by.
 *
 * A walker asks for the items that a member or an argument holds and looks at each: a scalar it
 * knows itself, of a struct the members come next.
 */
#ifndef EXG_LIBEXPORT_PROGRAM_MODEL_H
#define EXG_LIBEXPORT_PROGRAM_MODEL_H

#include <exg/program.h>
#include <stddef.h>

typedef enum exg_model_type {
#define EXG_SCALAR(id, type, said) EXG_MODEL_##id,
#define EXG_STRUCT(id, type, said) EXG_MODEL_##id,
#include "libexport/program/model.def"
    EXG_MODEL_TYPE_COUNT
} exg_model_type;

typedef enum exg_model_form {
    EXG_MODEL_ONE,
    EXG_MODEL_WITHIN, /* the struct itself as another type; as items, ONE */
    EXG_MODEL_POINTER,
    EXG_MODEL_LIST,
    EXG_MODEL_MAP
} exg_model_form;

typedef enum exg_model_flag {
    EXG_MODEL_OPTIONAL,
    EXG_MODEL_REQUIRED,
    EXG_MODEL_NULLABLE,
    EXG_MODEL_REQUIRED_OR_NULL,
    EXG_MODEL_KEY,
    EXG_MODEL_BARE,
    EXG_MODEL_COPIED
} exg_model_flag;

typedef struct exg_model_member {
    exg_model_type type;
    exg_model_form form;
    exg_model_flag flag;
    uint32_t offset;
    uint32_t count_offset; /* of a LIST or MAP */
    const char *json;      /* NULL: none */
    const char *said;      /* NULL: the type's */
} exg_model_member;

typedef struct exg_model {
    const char *said;
    uint32_t size;
    uint32_t member_count; /* 0: a scalar */
    const exg_model_member *members;
} exg_model;

/* By exg_model_type. */
extern const exg_model exg_models[EXG_MODEL_TYPE_COUNT];

/* `count` things of one type, one behind the other. */
typedef struct exg_model_items {
    exg_model_type type;
    exg_model_form form;
    uint32_t count;
    void *at; /* NULL: absent, which is not the same as none */
} exg_model_items;

exg_model_items exg_model_items_of(const exg_model_member *member, const void *base);
exg_model_items exg_argument_items(const exg_argument *argument);

/* The constant that a signature's argument or a sample input is; NOTHING for other kinds. */
exg_model_items exg_signature_constant(const exg_signature_argument *argument);
exg_model_items exg_sample_constant(const exg_sample_input *sample);

static inline void *exg_model_item(exg_model_items items, uint32_t i)
{
    return (char *)items.at + (size_t)i * exg_models[items.type].size;
}

/* The member as which a struct is written; NULL: it is an object of all of them. */
const exg_model_member *exg_model_bare(exg_model_type type);

/* The member that is the key in a MAP, and the text of it. */
const exg_model_member *exg_model_key_member(exg_model_type type);
const char *exg_model_key(exg_model_items items, uint32_t i);

/* What an argument of `kind` holds: a type in a form. */
exg_model_type exg_argument_type(exg_argument_kind kind);
exg_model_form exg_argument_form(exg_argument_kind kind);

#endif
