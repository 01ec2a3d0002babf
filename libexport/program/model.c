/* model.c - model.def and argument.def as tables. */
#include "libexport/program/model.h"

#include <string.h>

#define KEY(json)                  (sizeof(json) == 1 ? NULL : json)
#define EXG_STRUCT(id, type, said) static const exg_model_member members_of_##id[] = {
#define EXG_MEMBER(type, member, of, form, json, flag, said)                                       \
    {EXG_MODEL_##of,                                                                               \
     EXG_MODEL_##form,                                                                             \
     EXG_MODEL_##flag,                                                                             \
     offsetof(type, member),                                                                       \
     0,                                                                                            \
     KEY(json),                                                                                    \
     said},
#define EXG_MEMBERS(type, member, of, form, count, json, flag, said)                               \
    {EXG_MODEL_##of,                                                                               \
     EXG_MODEL_##form,                                                                             \
     EXG_MODEL_##flag,                                                                             \
     offsetof(type, member),                                                                       \
     offsetof(type, count),                                                                        \
     KEY(json),                                                                                    \
     said},
#define EXG_WITHIN(type, of, json, flag)                                                           \
    {EXG_MODEL_##of, EXG_MODEL_WITHIN, EXG_MODEL_##flag, 0, 0, KEY(json), NULL},
#define EXG_END                                                                                    \
    }                                                                                              \
    ;
#include "libexport/program/model.def"

const exg_model exg_models[EXG_MODEL_TYPE_COUNT] = {
#define EXG_SCALAR(id, type, said) {said, sizeof(type), 0, NULL},
#define EXG_STRUCT(id, type, said)                                                                 \
    {said, sizeof(type), sizeof(members_of_##id) / sizeof(exg_model_member), members_of_##id},
#include "libexport/program/model.def"
};

exg_model_items exg_model_items_of(const exg_model_member *member, const void *base)
{
    char *at = (char *)(uintptr_t)base + member->offset;
    exg_model_items items = {member->type, member->form, 1, at};

    if (member->form == EXG_MODEL_ONE || member->form == EXG_MODEL_WITHIN) {
        items.form = EXG_MODEL_ONE;
        return items;
    }
    memcpy(&items.at, at, sizeof(items.at));
    if (member->form == EXG_MODEL_POINTER) {
        items.count = items.at != NULL;
    } else {
        memcpy(&items.count, (const char *)base + member->count_offset, sizeof(items.count));
    }
    return items;
}

const exg_model_member *exg_model_bare(exg_model_type type)
{
    const exg_model *model = &exg_models[type];
    const exg_model_member *last =
        model->member_count == 0 ? NULL : &model->members[model->member_count - 1];

    return last != NULL && last->flag == EXG_MODEL_BARE ? last : NULL;
}

const exg_model_member *exg_model_key_member(exg_model_type type)
{
    return &exg_models[type].members[0];
}

const char *exg_model_key(exg_model_items items, uint32_t i)
{
    const char *key;

    memcpy(&key, (const char *)exg_model_item(items, i) + exg_model_key_member(items.type)->offset,
           sizeof(key));
    return key;
}

/* ---- arguments ----------------------------------------------------------------------------- */

static const struct {
    const char *tag;
    exg_model_type type;
    exg_model_form form;
} contents[] = {
#define EXG_ARGUMENT(id, tag, early, number, type, form)                                           \
    [EXG_ARGUMENT_##id] = {#tag, EXG_MODEL_##type, EXG_MODEL_##form},
#include <exg/argument.def>
#undef EXG_ARGUMENT
    [EXG_ARGUMENT_KIND_COUNT] = {"?", EXG_MODEL_NOTHING, EXG_MODEL_ONE},
};

static exg_argument_kind known(exg_argument_kind kind)
{
    return (unsigned)kind < EXG_ARGUMENT_KIND_COUNT ? kind : EXG_ARGUMENT_KIND_COUNT;
}

const char *exg_argument_tag(exg_argument_kind kind)
{
    return contents[known(kind)].tag;
}

exg_model_type exg_argument_type(exg_argument_kind kind)
{
    return contents[known(kind)].type;
}

exg_model_form exg_argument_form(exg_argument_kind kind)
{
    return contents[known(kind)].form;
}

exg_model_items exg_argument_items(const exg_argument *argument)
{
    const exg_model_member content = {.type = exg_argument_type(argument->kind),
                                      .form = exg_argument_form(argument->kind),
                                      .offset = offsetof(exg_argument, as_int),
                                      .count_offset = offsetof(exg_argument, count)};

    return exg_model_items_of(&content, argument);
}

/* A union of constants begins with its number. */
static exg_model_items constant(exg_argument_kind kind, const void *at)
{
    exg_model_items items = {EXG_MODEL_NOTHING, EXG_MODEL_ONE, 1, (void *)(uintptr_t)at};

    if (kind == EXG_ARGUMENT_INT || kind == EXG_ARGUMENT_FLOAT || kind == EXG_ARGUMENT_BOOL ||
        kind == EXG_ARGUMENT_STRING) {
        items.type = exg_argument_type(kind);
    }
    return items;
}

exg_model_items exg_signature_constant(const exg_signature_argument *argument)
{
    return constant(argument->kind == EXG_ARGUMENT_CUSTOM_OBJ ? EXG_ARGUMENT_STRING
                                                              : argument->kind,
                    &argument->as_int);
}

exg_model_items exg_sample_constant(const exg_sample_input *sample)
{
    return constant(sample->kind, &sample->as_int);
}
