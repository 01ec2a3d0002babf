/* graph.c - Graph and Node with their value tables: docs/pt2.md 1.5. */
#include "libexport/formats/pt2/decode.h"

#include <string.h>

/* ---- nodes --------------------------------------------------------------------------- */

static exg_status field_argument(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    return exg_decode_argument(d, value, (char *)base + field->offset);
}

/* Anything but 1 and 2 means that the file does not say. */
static exg_status field_kind(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    exg_named_argument *named = base;
    int64_t number = 0;

    (void)field;
    EXG_TRY(exg_json_int(value, &number, d->err));
    named->kind = number == 1   ? EXG_KIND_POSITIONAL
                  : number == 2 ? EXG_KIND_KEYWORD
                                : EXG_KIND_UNKNOWN;
    return EXG_OK;
}

static exg_status item_named_argument(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_named_argument, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(exg_named_argument, arg, "arg", EXG_FIELD_REQUIRED, field_argument),
        EXG_FIELD(exg_named_argument, kind, "kind", EXG_FIELD_NULLABLE, field_kind),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_node(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(exg_node, target, "target", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_LIST(exg_node, inputs, input_count, "inputs", EXG_FIELD_REQUIRED,
                       item_named_argument),
        EXG_FIELD_LIST(exg_node, outputs, output_count, "outputs", EXG_FIELD_REQUIRED,
                       exg_decode_argument),
        EXG_FIELD(exg_node, metadata, "metadata", EXG_FIELD_REQUIRED, exg_field_strings),
        EXG_FIELD(exg_node, is_hop_single_tensor_return, "is_hop_single_tensor_return",
                  EXG_FIELD_NULLABLE, exg_field_tristate),
        EXG_FIELD(exg_node, name, "name", EXG_FIELD_NULLABLE, exg_field_text),
    };
    exg_node *node = item;

    node->is_hop_single_tensor_return = EXG_UNSET;
    return exg_decode_struct(d, value, node, fields, EXG_FIELD_COUNT(fields));
}

/* ---- value tables ------------------------------------------------------------------------ */

/* A table: what its items are, and which member of exg_value points to them. */
typedef struct table_row {
    exg_item_fn *item;
    size_t bytes;
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
    block = exg_arena_alloc(d->arena, exg_json_count(value), row->bytes);
    if (block == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (; exg_json_next_member(&walk, &key, &length, &element); block += row->bytes) {
        exg_value_id id = EXG_NO_VALUE;
        char *entry;
        char *before;

        EXG_TRY(exg_decoder_value(d, element, key, length, &id));
        EXG_TRY_IN(d->err, row->item(d, element, block), "['%s']", key);
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

static exg_status field_tensor_values(exg_decoder *d, exg_json value, void *base,
                                      const exg_field *field)
{
    static const table_row row = {exg_decode_tensor_meta, sizeof(exg_tensor_meta),
                                  offsetof(exg_value, tensor)};

    (void)base;
    (void)field;
    return decode_table(d, value, &row);
}

static exg_status field_sym_int_values(exg_decoder *d, exg_json value, void *base,
                                       const exg_field *field)
{
    static const table_row row = {exg_decode_sym_int, sizeof(exg_sym_int),
                                  offsetof(exg_value, sym_int)};

    (void)base;
    (void)field;
    return decode_table(d, value, &row);
}

static exg_status field_sym_float_values(exg_decoder *d, exg_json value, void *base,
                                         const exg_field *field)
{
    static const table_row row = {exg_decode_sym_float, sizeof(exg_sym_float),
                                  offsetof(exg_value, sym_float)};

    (void)base;
    (void)field;
    return decode_table(d, value, &row);
}

static exg_status field_sym_bool_values(exg_decoder *d, exg_json value, void *base,
                                        const exg_field *field)
{
    static const table_row row = {exg_decode_sym_bool, sizeof(exg_sym_bool),
                                  offsetof(exg_value, sym_bool)};

    (void)base;
    (void)field;
    return decode_table(d, value, &row);
}

/* The object's own name repeats the key; the class is what is kept. */
static exg_status field_custom_obj_values(exg_decoder *d, exg_json value, void *base,
                                          const exg_field *field)
{
    exg_json_walk walk = {0};
    exg_json element;
    const char *key;
    uint32_t length;

    (void)base;
    (void)field;
    EXG_TRY(exg_json_object(value, &walk, d->err));
    EXG_TRY(exg_json_check_own_keys(value, d->err));
    while (exg_json_next_member(&walk, &key, &length, &element)) {
        exg_custom_obj object = {0};
        exg_value_id id = EXG_NO_VALUE;

        EXG_TRY(exg_decoder_value(d, element, key, length, &id));
        EXG_TRY_IN(d->err, exg_decode_custom_obj(d, element, &object), "['%s']", key);
        exg_decoder_value_at(d, id)->custom_class = object.class_fqn;
    }
    return EXG_OK;
}

/* ---- graph ---------------------------------------------------------------------------------- */

exg_status exg_decode_graph_body(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD_LIST(exg_graph, inputs, input_count, "inputs", EXG_FIELD_REQUIRED,
                       exg_decode_argument),
        EXG_FIELD_LIST(exg_graph, outputs, output_count, "outputs", EXG_FIELD_REQUIRED,
                       exg_decode_argument),
        EXG_FIELD_LIST(exg_graph, nodes, node_count, "nodes", EXG_FIELD_REQUIRED, item_node),
        {"tensor_values", 13, EXG_FIELD_REQUIRED, field_tensor_values, 0},
        {"sym_int_values", 14, EXG_FIELD_REQUIRED, field_sym_int_values, 0},
        {"sym_bool_values", 15, EXG_FIELD_REQUIRED, field_sym_bool_values, 0},
        EXG_FIELD(exg_graph, is_single_tensor_return, "is_single_tensor_return", EXG_FIELD_OPTIONAL,
                  exg_field_bool),
        {"custom_obj_values", 17, EXG_FIELD_OPTIONAL, field_custom_obj_values, 0},
        {"sym_float_values", 16, EXG_FIELD_OPTIONAL, field_sym_float_values, 0},
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

exg_status exg_decode_graph(exg_decoder *d, exg_json value, void *item)
{
    EXG_TRY(exg_decoder_enter(d));
    EXG_TRY(exg_decode_graph_body(d, value, item));
    return exg_decoder_leave(d, item);
}
