/* carry.c - what the early schema cannot say, beside what it can (S002-109).
 *
 *   {"version": 1, "origin", "name", "program": the current schema's JSON,
 *    "bound": the inputs of an early file that are there by name alone,
 *    "weights": [{name, table, is_param, use_pickle, tensor_meta, storage}],
 *    "storages": [{"parameter": NAME} or {"buffer": NAME}: in the early part,
 *                 {byte_order, data}: here],
 *    "sample_inputs": [...], "extra_files": [{name, storage}],
 *    "input_metadata": [{input, metadata}], "assertion_dep_token", "assertion_dep_index"}
 */
#include "libexport/formats/early/early.h"
#include "libexport/formats/pt2/encode.h"

#include "libexport/base/base64.h"

#include <stdlib.h>
#include <string.h>

#define CARRY_VERSION 1

/* ---- writing -------------------------------------------------------------------------------- */

/* Bytes that the early part does not have. */
static exg_status put_bytes(exg_early_encoder *e, exg_text *out, uint32_t index)
{
    exg_weights *weights = e->program->weights;
    const exg_storage *storage = &weights->storages[index];
    void *bytes = malloc(storage->length == 0 ? 1 : (size_t)storage->length);
    exg_status status = bytes == NULL
                            ? EXG_OUT_OF_MEMORY(e->err)
                            : exg_storage_read(weights, index, 0, storage->length, bytes, e->err);

    if (status == EXG_OK) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "byte_order",
                             storage->byte_order == EXG_BIG_ENDIAN ? "big" : "little");
        exg_json_put_key(out, "data");
        exg_text_putc(out, '"');
        exg_base64_encode(out, bytes, (size_t)storage->length);
        exg_text_putc(out, '"');
        exg_json_put_close(out, '}');
    }
    free(bytes);
    return status;
}

/* For each storage: the weight whose tensor in the early part has its bytes, and one more;
 * else whether anything of the program is in it: those of other programs are left out. */
static exg_status find_users(exg_early_encoder *e, uint32_t **holders, bool **used)
{
    const exg_program *program = e->program;
    const exg_weights *weights = program->weights;

    *holders = EXG_NEW_ARRAY(e->arena, uint32_t, weights->storage_count);
    *used = EXG_NEW_ARRAY(e->arena, bool, weights->storage_count);
    if (*holders == NULL || *used == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t i = weights->count; i > 0; i--) {
        uint32_t storage = weights->items[i - 1].storage;

        (*used)[storage] = true;
        (*holders)[storage] = exg_early_holds(&weights->items[i - 1]) ? i : (*holders)[storage];
    }
    for (uint32_t i = 0; i < program->sample_input_count; i++) {
        if (program->sample_inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            (*used)[program->sample_inputs[i].storage] = true;
        }
    }
    for (uint32_t i = 0; i < program->extra_file_count; i++) {
        (*used)[program->extra_files[i].storage] = true;
    }
    return EXG_OK;
}

static exg_status put_storages(exg_early_encoder *e, exg_text *out)
{
    uint32_t *holders = NULL;
    bool *used = NULL;

    EXG_TRY(find_users(e, &holders, &used));
    exg_json_member_open(out, "storages", '[');
    for (uint32_t i = 0; i < e->program->weights->storage_count; i++) {
        bool is_parameter = false;

        if (holders[i] != 0) {
            const char *name = exg_early_name_of(e, holders[i] - 1, &is_parameter);

            exg_json_put_open(out, '{');
            exg_json_member_text(out, is_parameter ? "parameter" : "buffer", name);
            exg_json_put_close(out, '}');
        } else if (used[i]) {
            EXG_TRY_IN(e->err, put_bytes(e, out, i), "storages[%u]", i);
        } else {
            exg_json_put_open(out, '{');
            exg_json_member_text(out, "byte_order", "little");
            exg_json_member_text(out, "data", "");
            exg_json_put_close(out, '}');
        }
    }
    exg_json_put_close(out, ']');
    return EXG_OK;
}

static void put_weights(exg_early_encoder *e, exg_text *out)
{
    exg_json_member_open(out, "weights", '[');
    for (uint32_t i = 0; i < e->program->weights->count; i++) {
        const exg_weight *weight = &e->program->weights->items[i];

        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", weight->fqn);
        exg_json_member_bool(out, "is_constant", weight->table == EXG_TABLE_CONSTANTS);
        exg_json_member_bool(out, "is_param", weight->is_param);
        exg_json_member_bool(out, "use_pickle", weight->use_pickle);
        exg_json_put_key(out, "tensor_meta");
        if (weight->meta == NULL) {
            exg_json_put_null(out);
        } else {
            exg_encode_plain(out, EXG_MODEL_TENSOR_META, weight->meta);
        }
        exg_json_member_uint(out, "storage", weight->storage);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
}

static void put_sample(exg_text *out, const exg_sample_input *sample)
{
    exg_argument value = {.kind = sample->kind};

    exg_json_put_open(out, '{');
    exg_json_member_text(out, "keyword", sample->keyword);
    if (sample->kind == EXG_ARGUMENT_TENSOR) {
        exg_json_put_key(out, "tensor_meta");
        exg_encode_plain(out, EXG_MODEL_TENSOR_META, sample->meta);
        exg_json_member_uint(out, "storage", sample->storage);
        exg_json_put_close(out, '}');
        return;
    }
    memcpy(&value.as_int, &sample->as_int, sizeof(value.as_int));
    if (sample->kind == EXG_ARGUMENT_STRING) {
        value.as_string = sample->as_string;
    }
    exg_json_put_key(out, "value");
    exg_encode_plain(out, EXG_MODEL_ARGUMENT, &value);
    exg_json_put_close(out, '}');
}

exg_status exg_early_put_carry(exg_early_encoder *e, exg_text *out)
{
    const exg_program *program = e->program;

    EXG_TRY(exg_early_name_values(e));
    exg_json_put_open(out, '{');
    exg_json_member_int(out, "version", CARRY_VERSION);
    exg_json_member_bool(out, "is_early", program->origin == EXG_ORIGIN_EARLY);
    exg_json_member_text(out, "name", program->name);
    exg_json_put_key(out, "program");
    EXG_TRY(exg_encode_program(program, out, e->err));
    exg_json_member_open(out, "bound", '[');
    for (uint32_t i = 0; i < program->signature.input_count; i++) {
        if (program->signature.inputs[i].implicit) {
            exg_json_put_int(out, i);
        }
    }
    exg_json_put_close(out, ']');
    put_weights(e, out);
    EXG_TRY(put_storages(e, out));
    exg_json_member_open(out, "sample_inputs", '[');
    for (uint32_t i = 0; i < program->sample_input_count; i++) {
        put_sample(out, &program->sample_inputs[i]);
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "extra_files", '[');
    for (uint32_t i = 0; i < program->extra_file_count; i++) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", program->extra_files[i].name);
        exg_json_member_uint(out, "storage", program->extra_files[i].storage);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "input_metadata", '[');
    for (uint32_t i = 0; i < program->input_metadata_count; i++) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "input", program->input_metadata[i].input);
        exg_json_put_key(out, "metadata");
        exg_encode_plain(out, EXG_MODEL_STRING_MAP, &program->input_metadata[i].metadata);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
    exg_json_member_text(out, "assertion_dep_token", program->signature.assertion_dep_token);
    exg_json_member_uint(out, "assertion_dep_index", program->signature.assertion_dep_index);
    exg_json_put_close(out, '}');
    return exg_json_written(out, e->err);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What the carry's own members are gathered in. */
typedef struct half_storage {
    const char *parameter, *buffer, *byte_order, *data;
} half_storage;

typedef struct half_weight {
    const char *name;
    bool is_constant, is_param, use_pickle;
    exg_tensor_meta *meta;
    int64_t storage;
} half_weight;

typedef struct half_sample {
    const char *keyword;
    exg_tensor_meta *meta;
    int64_t storage;
    exg_argument value;
} half_sample;

typedef struct half_extra {
    const char *name;
    int64_t storage;
} half_extra;

typedef struct half_carry {
    int64_t version;
    bool is_early;
    const char *name;
    const char *token;
    int64_t token_index;
    exg_input_metadata *saids;
    half_weight *weights;
    half_storage *storages;
    half_sample *samples;
    half_extra *extras;
    int64_t *bounds;
    uint32_t weight_count, storage_count, sample_count, extra_count, bound_count, said_count;
} half_carry;

static exg_status item_weight(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_weight, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(half_weight, is_constant, "is_constant", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD(half_weight, is_param, "is_param", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD(half_weight, use_pickle, "use_pickle", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD_MODEL(half_weight, meta, "tensor_meta", EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE,
                        TENSOR_META, POINTER),
        EXG_FIELD(half_weight, storage, "storage", EXG_FIELD_REQUIRED, exg_field_int),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_storage(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_storage, parameter, "parameter", EXG_FIELD_OPTIONAL, exg_field_text),
        EXG_FIELD(half_storage, buffer, "buffer", EXG_FIELD_OPTIONAL, exg_field_text),
        EXG_FIELD(half_storage, byte_order, "byte_order", EXG_FIELD_OPTIONAL, exg_field_text),
        EXG_FIELD(half_storage, data, "data", EXG_FIELD_OPTIONAL, exg_field_text),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_sample(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_sample, keyword, "keyword", EXG_FIELD_REQUIRED | EXG_FIELD_NULLABLE,
                  exg_field_text),
        EXG_FIELD_MODEL(half_sample, meta, "tensor_meta", EXG_FIELD_OPTIONAL, TENSOR_META, POINTER),
        EXG_FIELD(half_sample, storage, "storage", EXG_FIELD_OPTIONAL, exg_field_int),
        EXG_FIELD_MODEL(half_sample, value, "value", EXG_FIELD_OPTIONAL, ARGUMENT, ONE),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

static exg_status item_extra(exg_decoder *d, exg_json value, void *item)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_extra, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD(half_extra, storage, "storage", EXG_FIELD_REQUIRED, exg_field_int),
    };

    return exg_decode_struct(d, value, item, fields, EXG_FIELD_COUNT(fields));
}

/* The lists of the carry: each a pointer with a count behind it in half_carry. */
#define LIST_FIELD(name, type, item_)                                                              \
    static exg_status field_##name(exg_decoder *d, exg_json value, void *base,                     \
                                   const exg_field *field)                                         \
    {                                                                                              \
        half_carry *carry = base;                                                                  \
                                                                                                   \
        (void)field;                                                                               \
        return exg_decode_array(d, value, sizeof(type), item_, &carry->name##s,                    \
                                &carry->name##_count);                                             \
    }
LIST_FIELD(weight, half_weight, item_weight)
LIST_FIELD(storage, half_storage, item_storage)
LIST_FIELD(sample, half_sample, item_sample)
LIST_FIELD(extra, half_extra, item_extra)
LIST_FIELD(bound, int64_t, exg_item_int)

/* Decoded before the rest, by exg_decode_program(). */
static exg_status field_program(exg_decoder *d, exg_json value, void *base, const exg_field *field)
{
    (void)d;
    (void)value;
    (void)base;
    (void)field;
    return EXG_OK;
}

static exg_status check_index(int64_t index, uint32_t count, exg_error *err)
{
    return index >= 0 && index < (int64_t)count
               ? EXG_OK
               : EXG_FAIL(err, MALFORMED, "EAR-004", "the carry has no storage %lld",
                          (long long)index);
}

static exg_status check_input(int64_t index, const exg_program *program, exg_error *err)
{
    return index >= 0 && index < (int64_t)program->signature.input_count
               ? EXG_OK
               : EXG_FAIL(err, MALFORMED, "EAR-004", "the carry has no input %lld",
                          (long long)index);
}

/* A storage from the early part, or from the carry itself. */
static exg_status take_storage(exg_decoder *d, exg_json root, const half_storage *half,
                               exg_weights *weights, exg_map *ranges)
{
    const char *name = half->parameter != NULL ? half->parameter : half->buffer;
    exg_json table;
    exg_json tensor;
    uint32_t index;

    if (name != NULL) {
        if (!exg_json_find(root, half->parameter != NULL ? "parameters" : "buffers", &table) ||
            !exg_json_find(table, name, &tensor)) {
            return EXG_FAIL(d->err, MALFORMED, "EAR-004", "the early part has no '%s'", name);
        }
        return exg_early_storage(d, tensor, name, weights, ranges, &index);
    }
    if (half->data == NULL || half->byte_order == NULL) {
        return EXG_FAIL(d->err, MALFORMED, "EAR-004", "a storage of the carry has no bytes");
    }
    return exg_early_add_base64(half->data, strlen(half->data),
                                strcmp(half->byte_order, "big") == 0 ? EXG_BIG_ENDIAN
                                                                     : EXG_LITTLE_ENDIAN,
                                weights, &index, d->err);
}

static exg_status take_weight(exg_decoder *d, const half_carry *carry, const half_weight *half,
                              exg_weights *weights)
{
    exg_weight weight = {half->name,     half->is_constant ? EXG_TABLE_CONSTANTS : EXG_TABLE_STATE,
                         half->is_param, half->use_pickle,
                         half->meta,     (uint32_t)half->storage};

    EXG_TRY(check_index(half->storage, carry->storage_count, d->err));
    if (half->meta == NULL && !half->use_pickle) {
        return EXG_FAIL(d->err, MALFORMED, "WGT-002", "raw bytes need a tensor_meta");
    }
    if (!half->use_pickle) {
        uint64_t length = weights->storages[half->storage].length;

        EXG_TRY(exg_tensor_meta_check_view(half->meta, length == 0 ? UINT64_MAX : length, d->err));
    }
    return exg_weights_add(weights, &weight, d->err);
}

static exg_status take_samples(exg_decoder *d, const half_carry *carry, exg_program *program)
{
    program->sample_inputs = EXG_NEW_ARRAY(d->arena, exg_sample_input, carry->sample_count);
    if (program->sample_inputs == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < carry->sample_count; i++) {
        const half_sample *half = &carry->samples[i];
        exg_sample_input *sample = &program->sample_inputs[i];

        *sample = (exg_sample_input){.keyword = half->keyword, .kind = half->value.kind};
        if (half->meta != NULL) {
            EXG_TRY(check_index(half->storage, carry->storage_count, d->err));
            sample->kind = EXG_ARGUMENT_TENSOR;
            sample->meta = half->meta;
            sample->storage = (uint32_t)half->storage;
            EXG_TRY(exg_tensor_meta_check_view(
                half->meta, program->weights->storages[sample->storage].length, d->err));
        } else if (sample->kind == EXG_ARGUMENT_STRING) {
            sample->as_string = half->value.as_string;
        } else if (sample->kind == EXG_ARGUMENT_NONE || sample->kind == EXG_ARGUMENT_INT ||
                   sample->kind == EXG_ARGUMENT_FLOAT || sample->kind == EXG_ARGUMENT_BOOL) {
            memcpy(&sample->as_int, &half->value.as_int, sizeof(sample->as_int));
        } else {
            return EXG_FAIL(d->err, MALFORMED, "EAR-004", "%s is not a sample input",
                            exg_argument_tag(sample->kind));
        }
    }
    program->sample_input_count = carry->sample_count;
    return EXG_OK;
}

static exg_status take_extras(exg_decoder *d, const half_carry *carry, exg_program *program)
{
    program->extra_files = EXG_NEW_ARRAY(d->arena, exg_extra_file, carry->extra_count);
    if (program->extra_files == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < carry->extra_count; i++) {
        EXG_TRY(check_index(carry->extras[i].storage, carry->storage_count, d->err));
        program->extra_files[i] =
            (exg_extra_file){carry->extras[i].name, (uint32_t)carry->extras[i].storage};
    }
    program->extra_file_count = carry->extra_count;
    return EXG_OK;
}

static exg_status take(exg_decoder *d, exg_json root, exg_json carried, exg_program *program)
{
    static const exg_field fields[] = {
        EXG_FIELD(half_carry, version, "version", EXG_FIELD_REQUIRED, exg_field_int),
        EXG_FIELD(half_carry, is_early, "is_early", EXG_FIELD_REQUIRED, exg_field_bool),
        EXG_FIELD(half_carry, name, "name", EXG_FIELD_REQUIRED, exg_field_text),
        EXG_FIELD_OF("program", EXG_FIELD_REQUIRED, field_program),
        EXG_FIELD_OF("bound", EXG_FIELD_OPTIONAL, field_bound),
        EXG_FIELD_OF("weights", EXG_FIELD_REQUIRED, field_weight),
        EXG_FIELD_OF("storages", EXG_FIELD_REQUIRED, field_storage),
        EXG_FIELD_OF("sample_inputs", EXG_FIELD_REQUIRED, field_sample),
        EXG_FIELD_OF("extra_files", EXG_FIELD_REQUIRED, field_extra),
        {.key = "input_metadata",
         .key_length = 14,
         .decode = exg_field_held,
         .offset = offsetof(half_carry, saids),
         .count_offset = offsetof(half_carry, said_count),
         .type = EXG_MODEL_INPUT_METADATA,
         .form = EXG_MODEL_LIST},
        EXG_FIELD(half_carry, token, "assertion_dep_token", EXG_FIELD_OPTIONAL | EXG_FIELD_NULLABLE,
                  exg_field_text),
        EXG_FIELD(half_carry, token_index, "assertion_dep_index", EXG_FIELD_OPTIONAL,
                  exg_field_int),
    };
    half_carry carry = {0};
    exg_map ranges;

    exg_map_init(&ranges, d->arena);
    EXG_TRY(exg_decode_struct(d, carried, &carry, fields, EXG_FIELD_COUNT(fields)));
    if (carry.version != CARRY_VERSION) {
        return EXG_FAIL(d->err, UNSUPPORTED, "EAR-004", "the carry has version %lld",
                        (long long)carry.version);
    }
    for (uint32_t i = 0; i < carry.storage_count; i++) {
        uint32_t before = program->weights->storage_count;

        EXG_TRY_IN(d->err, take_storage(d, root, &carry.storages[i], program->weights, &ranges),
                   "storages[%u]", i);
        if (program->weights->storage_count != before + 1) {
            return EXG_FAIL(d->err, MALFORMED, "EAR-004", "storage %u is another one again", i);
        }
    }
    for (uint32_t i = 0; i < carry.weight_count; i++) {
        EXG_TRY_IN(d->err, take_weight(d, &carry, &carry.weights[i], program->weights),
                   "weights[%u]", i);
    }
    EXG_TRY(take_samples(d, &carry, program));
    EXG_TRY(take_extras(d, &carry, program));
    for (uint32_t i = 0; i < carry.bound_count; i++) {
        EXG_TRY(check_input(carry.bounds[i], program, d->err));
        program->signature.inputs[carry.bounds[i]].implicit = true;
    }
    if (carry.token_index < 0 || carry.token_index > UINT32_MAX) {
        return EXG_FAIL(d->err, MALFORMED, "EAR-004", "there is no output %lld",
                        (long long)carry.token_index);
    }
    program->signature.assertion_dep_token = carry.token;
    program->signature.assertion_dep_index = (uint32_t)carry.token_index;
    program->input_metadata = carry.saids;
    program->input_metadata_count = carry.said_count;
    program->name = carry.name;
    program->origin = carry.is_early ? EXG_ORIGIN_EARLY : EXG_ORIGIN_CURRENT;
    return EXG_OK;
}

exg_status exg_early_decode_carry(exg_json root, const char *text, size_t length,
                                  exg_program *program, exg_error *err)
{
    exg_json_doc *doc = NULL;
    exg_decoder d;
    exg_json carried;
    exg_json inner;
    exg_status status = exg_json_parse(text, length, EXG_NO_OFFSET, EXG_JSON_KEYS_NOW, &doc, err);

    exg_decoder_init(&d, program->arena, err);
    if (status == EXG_OK) {
        carried = exg_json_root(doc);
        status = exg_json_find(carried, "program", &inner)
                     ? exg_decode_program(inner, program, err)
                     : exg_json_fault(carried, err, EXG_MALFORMED, "JSN-002",
                                      "key 'program' is missing");
    }
    if (status == EXG_OK) {
        status = take(&d, root, carried, program);
    }
    exg_decoder_free(&d);
    exg_json_free(doc);
    return status == EXG_OK ? EXG_OK
                            : exg_error_within(err, status, "metadata['" EXG_EARLY_CARRY "']");
}
