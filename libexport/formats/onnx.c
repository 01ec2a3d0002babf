/* onnx.c - the tensors of an ONNX model: initializers, and constants of nodes.
 *
 *   ModelProto: ir_version 1, producer_name 2, producer_version 3, graph 7, metadata_props 14
 *   GraphProto: node 1, initializer 5, sparse_initializer 15
 *   NodeProto: output 2, name 3, op_type 4, attribute 5
 *   AttributeProto: name 1, t 5, g 6, tensors 10, graphs 11
 *   TensorProto: dims 1, data_type 2, float_data 4, int32_data 5, string_data 6, int64_data 7,
 *   name 8, raw_data 9, double_data 10, uint64_data 11, external_data 13, data_location 14
 *
 * A constant is called after the output of its node; what lies in the graphs of control flow has
 * the node and the attribute before it: "if_1.then_branch.w". External data is read from the
 * files beside the model when it is wanted.
 */
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/files.h"
#include "libexport/formats/byte_text.h"
#include "libexport/formats/dense_tensor.h"
#include "libexport/formats/protobuf.h"
#include "libexport/formats/weights_file.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RANK_MAX  64
#define DEPTH_MAX 32 /* of graphs in graphs */

typedef struct onnx_type {
    uint32_t number;
    const char *name;
    exg_dtype dtype;
    uint32_t bits, field, each;
} onnx_type;

static const onnx_type types[] = {
#define EXG_ONNX_TYPE(number, name, dtype, bits, field, each)                                      \
    {number, name, EXG_DTYPE_##dtype, bits, field, each},
#include "libexport/formats/onnx_type.def"
#undef EXG_ONNX_TYPE
};

typedef struct reader {
    exg_arena *arena; /* scratch */
    exg_weights *weights;
    bool has_folder;
    exg_error *err;
} reader;

/* What is said of a tensor. */
typedef struct said {
    const char *name;
    uint64_t shape[RANK_MAX];
    uint32_t rank; /* may pass RANK_MAX */
    uint64_t type;
    exg_protobuf_field raw; /* raw_data, and its number */
    const uint8_t *typed;   /* the tensor again, to look for typed data */
    uint64_t typed_length;
    bool is_external, has_segment;
    const char *location;
    uint64_t offset, length; /* UINT64_MAX: not said */
} said;

static exg_status damaged(reader *r)
{
    return exg_error_fix(
        r->err, EXG_FAIL(r->err, MALFORMED, "ONX-PROTO", "the model is no whole protocol buffer"),
        "the file may be cut short: copy it again and compare its size");
}

static exg_protobuf message_of(const exg_protobuf_field *field)
{
    return exg_protobuf_of(field->data, field->wire == EXG_PROTOBUF_BYTES ? field->length : 0);
}

static const char *name_of(reader *r, const exg_protobuf_field *field)
{
    return exg_byte_name(r->arena, (const char *)field->data, field->length);
}

/* A version or an opset, a graph, which may be cut short, and no field that a model has not. */
bool exg_onnx_sniff(const uint8_t *data, uint64_t length)
{
    static const uint32_t numbers = 1u << 5 | 1u << 1; /* fields that are numbers */
    exg_protobuf message = exg_protobuf_of(data, length);
    exg_protobuf_field field = {0};
    bool graph = false;
    bool version = false;

    while (exg_protobuf_next(&message, &field)) {
        bool is_number = field.number < 32 && (numbers >> field.number & 1u) != 0;

        if (field.number > 31 || is_number != (field.wire == EXG_PROTOBUF_VARINT) ||
            (!is_number && field.wire != EXG_PROTOBUF_BYTES)) {
            return false;
        }
        graph = graph || field.number == 7;
        version = version || field.number == 1 || field.number == 8;
    }
    graph = graph || (message.damaged && field.number == 7 && field.wire == EXG_PROTOBUF_BYTES);
    return graph && version && (!message.damaged || field.number == 7);
}

/* ---- a tensor -------------------------------------------------------------------------------- */

static const onnx_type *find_type(uint64_t number)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].number == number) {
            return &types[i];
        }
    }
    return NULL;
}

/* A dim, or several that are packed. */
static bool read_dims(const exg_protobuf_field *field, said *tensor)
{
    exg_protobuf packed = message_of(field);
    uint64_t value = field->value;

    if (field->wire == EXG_PROTOBUF_VARINT) {
        tensor->shape[tensor->rank < RANK_MAX ? tensor->rank : RANK_MAX - 1] = value;
        tensor->rank++;
    }
    while (packed.at < packed.end && exg_protobuf_varint(&packed, &value)) {
        tensor->shape[tensor->rank < RANK_MAX ? tensor->rank : RANK_MAX - 1] = value;
        tensor->rank++;
    }
    return !packed.damaged &&
           (field->wire == EXG_PROTOBUF_VARINT || field->wire == EXG_PROTOBUF_BYTES);
}

/* A pair of external_data: location, offset, length; checksum, which is of the whole file. */
static exg_status read_external(reader *r, const exg_protobuf_field *pair, said *tensor)
{
    exg_protobuf message = message_of(pair);
    exg_protobuf_field field;
    const char *key = "";
    const char *value = "";
    char *end = NULL;
    uint64_t number;

    while (exg_protobuf_next(&message, &field)) {
        const char *text = name_of(r, &field);

        if (text == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        key = field.number == 1 ? text : key;
        value = field.number == 2 ? text : value;
    }
    if (message.damaged) {
        return damaged(r);
    }
    if (strcmp(key, "location") == 0) {
        tensor->location = value;
        return EXG_OK;
    }
    if (strcmp(key, "offset") != 0 && strcmp(key, "length") != 0) {
        return EXG_OK;
    }
    number = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || number > INT64_MAX) {
        return EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR", "%s of external data is '%s'", key, value);
    }
    *(key[0] == 'o' ? &tensor->offset : &tensor->length) = number;
    return EXG_OK;
}

static exg_status read_said(reader *r, const exg_protobuf_field *of, said *tensor)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;

    tensor->typed = of->data;
    tensor->typed_length = of->length;
    tensor->length = UINT64_MAX;
    while (exg_protobuf_next(&message, &field)) {
        switch (field.number) {
        case 1:
            if (!read_dims(&field, tensor)) {
                return damaged(r);
            }
            break;
        case 2:
            tensor->type = field.value;
            break;
        case 3:
            tensor->has_segment = true;
            break;
        case 8:
            tensor->name = name_of(r, &field);
            if (tensor->name == NULL) {
                return EXG_OUT_OF_MEMORY(r->err);
            }
            break;
        case 9:
            tensor->raw = field;
            break;
        case 13:
            EXG_TRY(read_external(r, &field, tensor));
            break;
        case 14:
            tensor->is_external = field.value == 1;
            break;
        default:
            break;
        }
    }
    return message.damaged ? damaged(r) : EXG_OK;
}

/* The next number of typed data; false: none is left. */
static bool next_number(exg_protobuf *packed, uint32_t field, uint64_t *value)
{
    return packed->at < packed->end && (field == 4    ? exg_protobuf_fixed(packed, 4, value)
                                        : field == 10 ? exg_protobuf_fixed(packed, 8, value)
                                                      : exg_protobuf_varint(packed, value));
}

/* Typed data as the bytes of its elements, of which there are `bytes`; malloc'ed. */
static exg_status unpack(reader *r, const said *tensor, const onnx_type *type, uint64_t bytes,
                         uint8_t **out)
{
    uint32_t width = type->bits < 8 ? 1 : type->bits / 8 / type->each;
    exg_protobuf message = exg_protobuf_of(tensor->typed, tensor->typed_length);
    exg_protobuf_field field;
    uint64_t at = 0;
    uint64_t value = 0;

    /* an element takes a byte of the file at least, and 8 here at most */
    *out = bytes / 8 > tensor->typed_length ? NULL : malloc((size_t)bytes + 1);
    if (*out == NULL) {
        return bytes / 8 > tensor->typed_length ? EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR",
                                                           "the data of the tensor is cut short")
                                                : EXG_OUT_OF_MEMORY(r->err);
    }
    while (exg_protobuf_next(&message, &field)) {
        exg_protobuf packed = message_of(&field);
        bool alone = field.wire != EXG_PROTOBUF_BYTES;

        value = field.value;
        while (field.number == type->field &&
               (alone || next_number(&packed, type->field, &value))) {
            if (bytes - at < width) {
                at = UINT64_MAX; /* more than the shape takes */
                break;
            }
            for (uint32_t i = 0; i < width; i++) {
                (*out)[at++] = (uint8_t)(value >> 8 * i);
            }
            alone = false;
        }
        if (packed.damaged || at == UINT64_MAX) {
            break;
        }
    }
    if (at != bytes) {
        free(*out);
        *out = NULL;
        return EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR",
                        "the shape takes %" PRIu64 " bytes, and the data has %s", bytes,
                        at == UINT64_MAX ? "more" : "less");
    }
    return EXG_OK;
}

static exg_status fault(reader *r, uint64_t bytes, uint64_t given)
{
    return EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR",
                    "the shape takes %" PRIu64 " bytes, the data has %" PRIu64, bytes, given);
}

/* Where the bytes are: in raw_data, in a file beside, or typed. */
static exg_status find_data(reader *r, const said *tensor, const onnx_type *type, exg_dense *dense)
{
    uint8_t *made = NULL;
    exg_status status;

    if (tensor->is_external) {
        dense->location = tensor->location;
        dense->offset = tensor->offset;
        return tensor->length == UINT64_MAX || tensor->length == dense->bytes
                   ? EXG_OK
                   : fault(r, dense->bytes, tensor->length);
    }
    if (tensor->raw.number != 0) {
        dense->data = tensor->raw.data;
        return tensor->raw.length == dense->bytes ? EXG_OK
                                                  : fault(r, dense->bytes, tensor->raw.length);
    }
    EXG_TRY(unpack(r, tensor, type, dense->bytes, &made));
    status = exg_weights_own(r->weights, free, made, r->err);
    if (status != EXG_OK) {
        free(made);
    }
    dense->data = made;
    return status;
}

/* Can it not be given? *kind says what it is; NULL: out of memory. */
static bool is_none(reader *r, const said *tensor, const onnx_type *type, const char **kind)
{
    if (tensor->type == 8) {
        *kind = "text";
    } else if (type == NULL) {
        *kind = exg_arena_printf(r->arena, "data type %" PRIu64 " of ONNX", tensor->type);
    } else if (tensor->has_segment) {
        *kind = "a segment of a tensor";
    } else if (tensor->rank > RANK_MAX) {
        *kind =
            exg_arena_printf(r->arena, "%s of %" PRIu32 " dimensions", type->name, tensor->rank);
    } else if (tensor->is_external && tensor->location == NULL) {
        *kind = "external data without a location";
    } else if (tensor->is_external && !r->has_folder) {
        *kind = "external data, of a model in memory";
    } else {
        return false;
    }
    return true;
}

static exg_status add_tensor(reader *r, const char *name, const said *tensor)
{
    const onnx_type *type = find_type(tensor->type);
    const char *kind = NULL;
    int64_t shape[RANK_MAX + 1];
    exg_dense dense = {.name = name, .rank = tensor->rank, .shape = shape};
    uint64_t bits = 1;

    if (is_none(r, tensor, type, &kind)) {
        return kind == NULL ? EXG_OUT_OF_MEMORY(r->err)
                            : exg_weights_skip(r->weights, name, kind, r->err);
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] > INT64_MAX || !exg_mul_u64(bits, tensor->shape[d], &bits)) {
            return EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR", "the shape passes 63 bits");
        }
        shape[d] = (int64_t)tensor->shape[d];
    }
    if (!exg_mul_u64(bits, type->bits, &bits) || bits / 8 > INT64_MAX) {
        return EXG_FAIL(r->err, MALFORMED, "ONX-TENSOR", "the shape passes 63 bits");
    }
    dense.dtype = type->dtype;
    dense.bytes = bits / 8 + (bits % 8 != 0);
    EXG_TRY(find_data(r, tensor, type, &dense));
    if (type->bits < 8) {
        EXG_TRY(exg_dense_pack(&dense, shape, type->name, type->bits, r->arena, r->err));
    }
    return exg_weights_add_dense(r->weights, &dense, r->err);
}

/* `prefix` and the tensor's own name; of a constant `name` is that of its output. */
static exg_status read_tensor(reader *r, const exg_protobuf_field *field, const char *prefix,
                              const char *name)
{
    said tensor = {0};
    const char *whole;

    EXG_TRY(read_said(r, field, &tensor));
    name = name != NULL ? name : tensor.name == NULL ? "" : tensor.name;
    whole = exg_arena_printf(r->arena, "%s%s", prefix, name);
    if (whole == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    EXG_TRY_IN(r->err, add_tensor(r, whole, &tensor), "['%s']", whole);
    return EXG_OK;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static exg_status read_graph(reader *r, const exg_protobuf_field *of, const char *prefix,
                             uint32_t depth);

/* Tensors and graphs of an attribute of the node called `node`. */
static exg_status read_attribute(reader *r, const exg_protobuf_field *of, const char *prefix,
                                 const char *node, bool is_constant, uint32_t depth)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;
    const char *name = "";
    uint32_t number = 0;

    while (exg_protobuf_next(&message, &field)) {
        name = field.number == 1 ? name_of(r, &field) : name;
        if (name == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    message = message_of(of);
    while (exg_protobuf_next(&message, &field)) {
        bool is_graph = field.number == 6 || field.number == 11;
        const char *own;

        if (!is_graph && field.number != 5 && field.number != 10) {
            continue;
        }
        own = is_constant && field.number == 5
                  ? node
                  : exg_arena_printf(r->arena, field.number > 9 ? "%s.%s.%" PRIu32 : "%s.%s", node,
                                     name, number++);
        own = own == NULL || !is_graph ? own : exg_arena_printf(r->arena, "%s%s.", prefix, own);
        if (own == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
        EXG_TRY(is_graph ? read_graph(r, &field, own, depth + 1)
                         : read_tensor(r, &field, prefix, own));
    }
    return message.damaged ? damaged(r) : EXG_OK;
}

static exg_status read_node(reader *r, const exg_protobuf_field *of, const char *prefix,
                            uint32_t depth)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;
    const char *output = NULL;
    const char *name = "";
    bool is_constant = false;
    bool has_attribute = false;

    while (exg_protobuf_next(&message, &field)) {
        output = field.number == 2 && output == NULL ? name_of(r, &field) : output;
        name = field.number == 3 ? name_of(r, &field) : name;
        has_attribute = has_attribute || field.number == 5;
        is_constant = is_constant || (field.number == 4 && field.length == 8 &&
                                      memcmp(field.data, "Constant", 8) == 0);
        if (name == NULL || (field.number == 2 && output == NULL)) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    if (message.damaged) {
        return damaged(r);
    }
    name = (is_constant || name[0] == '\0') && output != NULL ? output : name;
    message = message_of(of);
    while (has_attribute && exg_protobuf_next(&message, &field)) {
        EXG_TRY(field.number == 5 ? read_attribute(r, &field, prefix, name, is_constant, depth)
                                  : EXG_OK);
    }
    return EXG_OK;
}

/* The values of a sparse tensor carry its name. */
static exg_status skip_sparse(reader *r, const exg_protobuf_field *of, const char *prefix)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;
    said values = {.name = ""};
    const char *whole;

    while (exg_protobuf_next(&message, &field)) {
        EXG_TRY(field.number == 1 ? read_said(r, &field, &values) : EXG_OK);
    }
    whole = exg_arena_printf(r->arena, "%s%s", prefix, values.name);
    return message.damaged ? damaged(r)
           : whole == NULL ? EXG_OUT_OF_MEMORY(r->err)
                           : exg_weights_skip(r->weights, whole, "a sparse tensor", r->err);
}

static exg_status read_graph(reader *r, const exg_protobuf_field *of, const char *prefix,
                             uint32_t depth)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;

    if (depth == DEPTH_MAX) {
        return EXG_FAIL(r->err, LIMIT, "ONX-DEPTH", "graphs lie in graphs deeper than %d levels",
                        DEPTH_MAX);
    }
    while (exg_protobuf_next(&message, &field)) {
        EXG_TRY(field.number == 1    ? read_node(r, &field, prefix, depth)
                : field.number == 5  ? read_tensor(r, &field, prefix, NULL)
                : field.number == 15 ? skip_sparse(r, &field, prefix)
                                     : EXG_OK);
    }
    return message.damaged ? damaged(r) : EXG_OK;
}

/* ---- the model ------------------------------------------------------------------------------ */

static exg_status read_pair(reader *r, const exg_protobuf_field *of)
{
    exg_protobuf message = message_of(of);
    exg_protobuf_field field;
    exg_protobuf_field value = {.data = (const uint8_t *)"", .length = 0};
    const char *key = "";

    while (exg_protobuf_next(&message, &field)) {
        key = field.number == 1 ? name_of(r, &field) : key;
        value = field.number == 2 ? field : value;
        if (key == NULL) {
            return EXG_OUT_OF_MEMORY(r->err);
        }
    }
    return message.damaged
               ? damaged(r)
               : exg_byte_metadata(r->weights, key, (const char *)value.data, value.length, r->err);
}

static exg_status read_model(reader *r, const exg_source *source)
{
    exg_protobuf message = exg_protobuf_of(source->data, source->length);
    exg_protobuf_field field;

    while (exg_protobuf_next(&message, &field)) {
        const char *text = (const char *)field.data;

        EXG_TRY(field.number == 7    ? read_graph(r, &field, "", 0)
                : field.number == 14 ? read_pair(r, &field)
                : field.number == 2 && field.length > 0
                    ? exg_byte_metadata(r->weights, "producer_name", text, field.length, r->err)
                : field.number == 3 && field.length > 0
                    ? exg_byte_metadata(r->weights, "producer_version", text, field.length, r->err)
                    : EXG_OK);
    }
    if (message.damaged) {
        return damaged(r);
    }
    return r->weights->count > 0 || r->weights->skipped_count > 0
               ? EXG_OK
               : exg_error_fix(r->err,
                               EXG_FAIL(r->err, UNSUPPORTED, "ONX-NONE",
                                        "this is an ONNX model without weights: it has neither "
                                        "initializers nor constants"),
                               "give the model that the weights are in");
}

exg_status exg_onnx_read(const exg_source *source, exg_weights *weights, exg_error *err)
{
    reader r = {.weights = weights, .has_folder = source->path != NULL, .err = err};
    char *folder = exg_path_directory(source->path == NULL ? "" : source->path);
    exg_status status;

    r.arena = exg_arena_create(source->allocator, source->budget);
    status = folder == NULL || r.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    if (status == EXG_OK && r.has_folder) {
        status = exg_weights_set_directory(weights, folder, err);
    }
    if (status == EXG_OK) {
        status = read_model(&r, source);
    }
    status = r.arena == NULL ? status : exg_arena_settle(r.arena, status, err);
    exg_arena_destroy(r.arena);
    free(folder);
    return status;
}
