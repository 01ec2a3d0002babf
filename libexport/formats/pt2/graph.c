/* graph.c - graphs and the tables of their values: docs/pt2.md 1.5. */
#include "libexport/formats/pt2/decode.h"

#include <string.h>

/* A table: what its entries are, and which member of exg_value points to them. */
typedef struct table_row {
    exg_model_type of;
    size_t member;
} table_row;

static exg_status decode_table(exg_decoder *d, exg_json value, const table_row *row)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;
    char *block;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    block = exg_arena_alloc(d->arena, exg_json_count(value), exg_models[row->of].size);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (; exg_json_next_member(&walk, &key, &length, &element);
         block += exg_models[row->of].size) {
        exg_value_id id = EXG_NO_VALUE;
        char *entry;
        char *before;

        EXG_TRY(exg_decoder_value(d, element, key, length, &id));
        EXG_TRY_IN(d->err, exg_decode_thing(d, element, row->of, block), "['%s']", key);
        entry = (char *)exg_decoder_value_at(d, id) + row->member;
        memcpy(&before, entry, sizeof(before));
        if (before != NULL) {
            return exg_json_fault(element, d->err, EXG_MALFORMED, "JSN-001",
                                  "key \"%s\" appears twice in one object", key);
        }
        memcpy(entry, &block, sizeof(block));
    }
    return EXG_OK;
}

/* The object's own name repeats the key; the class is what is kept. */
static exg_status decode_objects(exg_decoder *d, exg_json value)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;

    EXG_TRY(exg_json_object(value, &walk, d->err));
    EXG_TRY(exg_json_check_own_keys(value, d->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        exg_custom_obj object = {0};
        exg_value_id id = EXG_NO_VALUE;

        EXG_TRY(exg_decoder_value(d, element, key, length, &id));
        EXG_TRY_IN(d->err, exg_decode_thing(d, element, EXG_MODEL_CUSTOM_OBJ, &object), "['%s']",
                   key);
        exg_decoder_value_at(d, id)->custom_class = object.class_fqn;
    }
    return EXG_OK;
}

exg_status exg_decode_values(exg_decoder *d, exg_json value, exg_model_type type)
{
    static const table_row tensors = {EXG_MODEL_TENSOR_META, offsetof(exg_value, tensor)};
    static const table_row ints = {EXG_MODEL_SYM_INT, offsetof(exg_value, sym_int)};
    static const table_row floats = {EXG_MODEL_SYM_FLOAT, offsetof(exg_value, sym_float)};
    static const table_row bools = {EXG_MODEL_SYM_BOOL, offsetof(exg_value, sym_bool)};

    return type == EXG_MODEL_CUSTOM_OBJ_VALUES
               ? decode_objects(d, value)
               : decode_table(d, value,
                              type == EXG_MODEL_TENSOR_VALUES      ? &tensors
                              : type == EXG_MODEL_SYM_INT_VALUES   ? &ints
                              : type == EXG_MODEL_SYM_FLOAT_VALUES ? &floats
                                                                   : &bools);
}

exg_status exg_decode_graph(exg_decoder *d, exg_json value, void *item)
{
    if (item == d->module_graph) {
        return exg_decode_members(d, value, EXG_MODEL_GRAPH, item);
    }
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(exg_decode_members(d, value, EXG_MODEL_GRAPH, item));
    return exg_decoder_leave(d, item);
}
