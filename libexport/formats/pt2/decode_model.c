/* decode_model.c - what model.def says, from JSON. */
#include "libexport/formats/pt2/decode.h"

exg_status exg_field_held(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    return exg_decode_held(d, value, field->type, field->form, (char *)base + field->offset,
                           (uint32_t *)((char *)base + field->count_offset));
}

/* Members without a place in the file have a key that is none. */
#define KEY(json)              json, sizeof(json) == 1 ? UINT32_MAX : (uint32_t)sizeof(json) - 1
#define FLAG_REQUIRED          EXG_FIELD_REQUIRED
#define FLAG_OPTIONAL          EXG_FIELD_OPTIONAL
#define FLAG_NULLABLE          EXG_FIELD_NULLABLE
#define FLAG_REQUIRED_OR_NULL  EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE
#define FLAG_KEY               EXG_FIELD_OPTIONAL
#define FLAG_BARE              EXG_FIELD_OPTIONAL
#define FLAG_COPIED            EXG_FIELD_OPTIONAL
#define EXG_STRUCT(id, c, say) static const exg_field fields_of_##id[] = {
#define EXG_MEMBER(c, member, of, form_, json, flag, said)                                         \
    {KEY(json), FLAG_##flag, exg_field_held, offsetof(c, member), 0,                               \
     0,         NULL,        NULL,           EXG_MODEL_##of,      EXG_MODEL_##form_},
#define EXG_MEMBERS(c, member, of, form_, count, json, flag, said)                                 \
    {KEY(json), FLAG_##flag, exg_field_held, offsetof(c, member), offsetof(c, count),              \
     0,         NULL,        NULL,           EXG_MODEL_##of,      EXG_MODEL_##form_},
#define EXG_WITHIN(c, of, json, flag)                                                              \
    {KEY(json), FLAG_##flag, exg_field_held, 0, 0, 0, NULL, NULL, EXG_MODEL_##of, EXG_MODEL_WITHIN},
#define EXG_END                                                                                    \
    }                                                                                              \
    ;
#include "libexport/program/model.def"

static const struct {
    const exg_field *rows;
    uint32_t count;
} fields[EXG_MODEL_TYPE_COUNT] = {
#define EXG_SCALAR(id, c, said) {NULL, 0},
#define EXG_STRUCT(id, c, said) {fields_of_##id, EXG_FIELD_COUNT(fields_of_##id)},
#include "libexport/program/model.def"
};

exg_status exg_decode_members(exg_decoder *d, exg_json value, exg_model_type type, void *at)
{
    const exg_model_member *bare = exg_model_bare(type);
    char *base = at;

    return bare == NULL ? exg_decode_struct(d, value, at, fields[type].rows, fields[type].count)
                        : exg_decode_held(d, value, bare->type, bare->form, base + bare->offset,
                                          (uint32_t *)(base + bare->count_offset));
}

/* The two lists have one count. */
static exg_status decode_meta(exg_decoder *d, exg_json value, exg_tensor_meta *meta)
{
    exg_json sizes = value;
    exg_json strides = value;

    EXG_TRY(exg_decode_members(d, value, EXG_MODEL_TENSOR_META, meta));
    if (exg_json_find(value, "sizes", &sizes) && exg_json_find(value, "strides", &strides) &&
        exg_json_count(sizes) != exg_json_count(strides)) {
        return exg_json_fault(value, d->err, EXG_MALFORMED, "WGT-011", "%u sizes and %u strides",
                              exg_json_count(sizes), exg_json_count(strides));
    }
    return EXG_OK;
}

/* Signature and module calls name values of the graph, in whatever order the keys come: one scope
 * for all three. */
static exg_status decode_module(exg_decoder *d, exg_json value, exg_program *program)
{
    d->module_graph = program->graph;
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(exg_decode_members(d, value, EXG_MODEL_GRAPH_MODULE, program));
    return exg_decoder_leave(d, program->graph);
}

exg_status exg_decode_thing(exg_decoder *d, exg_json value, exg_model_type type, void *at)
{
    exg_item_fn *own = d->own == NULL ? NULL : d->own[type];
    exg_item_fn *item = own == NULL ? exg_decode_scalars[type] : own;

    if (item != NULL) {
        return item(d, value, at);
    }
    switch (type) {
    case EXG_MODEL_TENSOR_VALUES:
    case EXG_MODEL_SYM_INT_VALUES:
    case EXG_MODEL_SYM_FLOAT_VALUES:
    case EXG_MODEL_SYM_BOOL_VALUES:
    case EXG_MODEL_CUSTOM_OBJ_VALUES:
        return exg_decode_values(d, value, type);
    case EXG_MODEL_TENSOR_META:
        return decode_meta(d, value, at);
    case EXG_MODEL_DEVICE:
        ((exg_device *)at)->index = -1;
        break;
    case EXG_MODEL_NODE:
        ((exg_node *)at)->is_hop_single_tensor_return = EXG_UNSET;
        break;
    case EXG_MODEL_CALL_SIGNATURE:
        ((exg_module_call *)at)->has_signature = true;
        break;
    case EXG_MODEL_GRAPH_MODULE:
        return decode_module(d, value, at);
    case EXG_MODEL_SCHEMA_VERSION: /* it was asked first */
        return EXG_OK;
    default:
        break;
    }
    return exg_decode_members(d, value, type, at);
}

/* ---- forms ---------------------------------------------------------------------------------- */

static exg_status decode_pointer(exg_decoder *d, exg_json value, exg_model_type type, void *at)
{
    void *block;

    memcpy(&block, at, sizeof(block));
    if (block == NULL) { /* a program comes with its graph */
        block = exg_arena_alloc(d->arena, 1, exg_models[type].size);
        if (block == NULL) {
            return exg_decoder_out_of_memory(d);
        }
        memcpy(at, &block, sizeof(block));
    }
    return exg_decode_thing(d, value, type, block);
}

static exg_status decode_list(exg_decoder *d, exg_json value, exg_model_type type, void *at,
                              uint32_t *count)
{
    exg_json_walk walk = {0};
    exg_json element;
    uint32_t made = 0;
    char *block;

    EXG_TRY(exg_json_array(value, &walk, d->err));
    block = exg_arena_alloc(d->arena, exg_json_count(value), exg_models[type].size);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    while (exg_json_next(&walk, &element)) {
        EXG_TRY_IN(d->err, exg_decode_thing(d, element, type, block + made * exg_models[type].size),
                   "[%u]", made);
        made++;
    }
    memcpy(at, &block, sizeof(block));
    *count = made;
    return EXG_OK;
}

/* The key, and what stands under it. */
static exg_status decode_entry(exg_decoder *d, exg_json value, exg_model_type type, const char *key,
                               uint32_t length, char *item)
{
    const char *kept;

    EXG_TRY(exg_decoder_keep(d, value, key, length, &kept));
    memcpy(item + exg_model_key_member(type)->offset, &kept, sizeof(kept));
    return exg_decode_thing(d, value, type, item);
}

static exg_status decode_map(exg_decoder *d, exg_json value, exg_model_type type, void *at,
                             uint32_t *count)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    uint32_t made = 0;
    char *block;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    block = exg_arena_alloc(d->arena, exg_json_count(value), exg_models[type].size);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    EXG_TRY(exg_json_check_own_keys(value, d->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        EXG_TRY_IN(
            d->err,
            decode_entry(d, element, type, key, length, block + made * exg_models[type].size),
            "['%s']", key);
        made++;
    }
    memcpy(at, &block, sizeof(block));
    *count = made;
    return EXG_OK;
}

exg_status exg_decode_held(exg_decoder *d, exg_json value, exg_model_type type, exg_model_form form,
                           void *at, uint32_t *count)
{
    switch (form) {
    case EXG_MODEL_POINTER:
        return decode_pointer(d, value, type, at);
    case EXG_MODEL_LIST:
        return decode_list(d, value, type, at, count);
    case EXG_MODEL_MAP:
        return decode_map(d, value, type, at, count);
    default:
        return exg_decode_thing(d, value, type, at);
    }
}
