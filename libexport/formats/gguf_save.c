/* gguf_save.c - GGUF 3, little endian; a model in several files as llama.cpp splits it. The layout
 * is in gguf.c. */
#include "libexport/base/checked.h"
#include "libexport/base/little.h"
#include "libexport/formats/encoding.h"
#include "libexport/formats/gguf_value.h"
#include "libexport/formats/weights_save.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VERSION       3
#define ALIGNMENT     32
#define ALIGNMENT_MAX (UINT64_C(1) << 30)
#define NAME_BYTES    64 /* of llama.cpp, with the NUL */
#define RANK_MAX      4
#define QUANTIZATION  2 /* the version of the layout of blocks */

/* Plain dtypes of GGUF are called as here, in capitals. */
static const exg_gguf_type *type_of(const exg_saved_tensor *tensor)
{
    const char *encoding = tensor->weight == NULL ? NULL : tensor->weight->encoding;
    const exg_gguf_type *type = exg_gguf_type_named(
        encoding != NULL ? encoding : exg_dtype_safetensors(tensor->item.dtype));

    return type != NULL && (encoding != NULL) == (type->elements > 1) ? type : NULL;
}

static exg_status check_tensor(exg_weights_saver *s, const exg_saved_tensor *tensor)
{
    const exg_named_tensor *item = &tensor->item;

    if (type_of(tensor) == NULL) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, UNSUPPORTED, "GGUF-TYPE", "GGUF has no %s",
                                      tensor->weight != NULL && tensor->weight->encoding != NULL
                                          ? tensor->weight->encoding
                                          : exg_dtype_name(item->dtype)),
                             "cast it with --dtype, or leave it out with --exclude");
    }
    if (strlen(item->name) >= NAME_BYTES) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, UNSUPPORTED, "GGUF-NAME",
                                      "llama.cpp reads names of at most %d bytes", NAME_BYTES - 1),
                             "shorten it with --rename");
    }
    if (item->rank > RANK_MAX) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, UNSUPPORTED, "GGUF-SHAPE",
                                      "GGUF has %d dimensions at most, here are %" PRIu32, RANK_MAX,
                                      item->rank),
                             "leave it out with --exclude");
    }
    return EXG_OK;
}

static exg_status prepare(exg_weights_saver *s)
{
    uint64_t align = s->options->align;

    if ((align & (align - 1)) != 0 || align > ALIGNMENT_MAX || (align > 0 && align < 8)) {
        return EXG_FAIL(s->err, USAGE, "STF-ALIGN",
                        "%" PRIu64 " is not a power of two from 8 to 1 GiB", align);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        EXG_TRY_IN(s->err, check_tensor(s, &s->tensors[i]), "['%s']", s->tensors[i].item.name);
    }
    return EXG_OK;
}

/* ---- header ------------------------------------------------------------------------------------
 */

static void put_text(exg_text *out, const char *text)
{
    exg_text_little(out, strlen(text), 8);
    exg_text_puts(out, text);
}

static void put_number(exg_text *out, const char *key, uint32_t type, uint64_t value,
                       uint32_t bytes)
{
    put_text(out, key);
    exg_text_little(out, type, 4);
    exg_text_little(out, value, bytes);
}

/* What is about this file is said anew. */
static bool is_of_file(const char *key)
{
    return strcmp(key, "general.alignment") == 0 || strcmp(key, "split.no") == 0 ||
           strcmp(key, "split.count") == 0 || strcmp(key, "split.tensors.count") == 0;
}

/* ---- what most elements are --------------------------------------------------------------------
 */

/* general.file_type, as llama.cpp numbers it: the row of each type, that of K types which it calls
 * small, where all is of one. */
typedef struct file_type {
    const char *type;
    uint32_t number;
} file_type;

static const file_type file_types[] = {
    {"F32", 0},      {"F16", 1},     {"Q4_0", 2},     {"Q4_1", 3},   {"Q8_0", 7},    {"Q5_0", 8},
    {"Q5_1", 9},     {"Q2_K", 10},   {"Q3_K", 11},    {"Q4_K", 14},  {"Q5_K", 16},   {"Q6_K", 18},
    {"IQ2_XXS", 19}, {"IQ2_XS", 20}, {"IQ3_XXS", 23}, {"IQ1_S", 24}, {"IQ4_NL", 25}, {"IQ3_S", 26},
    {"IQ2_S", 28},   {"IQ4_XS", 30}, {"IQ1_M", 31},   {"BF16", 32},  {"TQ1_0", 36},  {"TQ2_0", 37},
    {"MXFP4", 38},   {"NVFP4", 39},  {"Q1_0", 40},
};

#define FILE_TYPE_COUNT (sizeof(file_types) / sizeof(file_types[0]))

static const file_type *file_type_of(const exg_saved_tensor *tensor)
{
    const exg_gguf_type *type = type_of(tensor);

    for (size_t i = 0; i < FILE_TYPE_COUNT; i++) {
        if (strcmp(file_types[i].type, type->name) == 0) {
            return &file_types[i];
        }
    }
    return NULL;
}

/* Of the elements of matrices; *blocks: some are in blocks. NULL: there is no type that is counted.
 */
static const file_type *most_elements(const exg_weights_saver *s, bool *blocks)
{
    uint64_t counts[FILE_TYPE_COUNT] = {0};
    const file_type *most = NULL;

    *blocks = false;
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_saved_tensor *tensor = &s->tensors[i];
        const file_type *type = tensor->item.rank < 2 ? NULL : file_type_of(tensor);
        const char *encoding = tensor->weight == NULL ? NULL : tensor->weight->encoding;

        *blocks = *blocks || encoding != NULL;
        if (type != NULL) {
            counts[type - file_types] += exg_encoded_elements(
                encoding, tensor->item.bytes / exg_dtype_bytes(tensor->item.dtype));
            most =
                most == NULL || counts[type - file_types] > counts[most - file_types] ? type : most;
        }
    }
    return most;
}

static bool has_pair(const exg_weights_saver *s, const char *key)
{
    for (uint32_t i = 0; s->metadata != NULL && i < s->metadata->count; i++) {
        if (strcmp(s->metadata->items[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* What llama.cpp says of a quantised model, where it is not said already. Returns how many pairs.
 */
static uint64_t put_types(const exg_weights_saver *s, exg_text *out)
{
    bool blocks = false;
    const file_type *type = most_elements(s, &blocks);
    uint64_t count = 0;

    if (type != NULL && (blocks || has_pair(s, "general.architecture")) &&
        !has_pair(s, "general.file_type")) {
        put_number(out, "general.file_type", EXG_GGUF_U32, type->number, 4);
        count++;
    }
    if (blocks && !has_pair(s, "general.quantization_version")) {
        put_number(out, "general.quantization_version", EXG_GGUF_U32, QUANTIZATION, 4);
        count++;
    }
    return count;
}

static exg_status put_pairs(exg_weights_saver *s, const exg_saved_file *file, exg_text *out)
{
    const exg_string_map *pairs = s->metadata;
    size_t counted = out->length;
    uint64_t count = 0;

    exg_text_little(out, 0, 8);
    for (uint32_t i = 0; pairs != NULL && file->number == 0 && i < pairs->count; i++) {
        const exg_string_pair *pair = &pairs->items[i];

        if (!is_of_file(pair->key)) {
            put_text(out, pair->key);
            EXG_TRY_IN(s->err,
                       exg_gguf_value_put(
                           out,
                           s->weights == NULL ? NULL : exg_weights_metadata_kind(s->weights, i),
                           pair->value, s->err),
                       "metadata['%s']", pair->key);
            count++;
        }
    }
    if (file->number == 0) {
        count += put_types(s, out);
    }
    if (s->options->align > 0) {
        put_number(out, "general.alignment", EXG_GGUF_U32, s->options->align, 4);
        count++;
    }
    if (file->count > 1) {
        put_number(out, "split.no", EXG_GGUF_U16, file->number, 2);
        put_number(out, "split.count", EXG_GGUF_U16, file->count, 2);
        put_number(out, "split.tensors.count", EXG_GGUF_I32, s->count, 4);
        count += 3;
    }
    for (int i = 0; i < 8 && !out->failed; i++) {
        out->data[counted + (size_t)i] = (char)(count >> (8 * i) & 0xff);
    }
    return EXG_OK;
}

static void put_info(exg_text *out, const exg_saved_tensor *tensor, uint64_t offset)
{
    const exg_named_tensor *item = &tensor->item;
    const exg_gguf_type *type = type_of(tensor);

    put_text(out, item->name);
    exg_text_little(out, item->rank, 4);
    for (uint32_t d = item->rank; d-- > 0;) { /* of a row of blocks the number of its elements */
        uint64_t size = (uint64_t)item->shape[d];

        exg_text_little(out,
                        d + 1 == item->rank
                            ? size * exg_dtype_bytes(item->dtype) / type->bytes * type->elements
                            : size,
                        8);
    }
    exg_text_little(out, type->number, 4);
    exg_text_little(out, offset, 8);
}

static exg_status build_header(exg_weights_saver *s, const exg_saved_file *file, uint64_t align,
                               exg_text *out)
{
    uint64_t offset = 0;

    exg_text_puts(out, "GGUF");
    exg_text_little(out, VERSION, 4);
    exg_text_little(out, file->end - file->first, 8);
    EXG_TRY(put_pairs(s, file, out));
    for (uint32_t i = file->first; i < file->end; i++) {
        put_info(out, &s->tensors[i], offset);
        if (!exg_add_u64(offset, s->tensors[i].item.bytes, &offset) ||
            !exg_align_u64(offset, align, &offset)) {
            return EXG_FAIL(s->err, LIMIT, "STF-SIZE", "the data passes 64 bits");
        }
    }
    return out->failed ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

static exg_status write_file(exg_weights_saver *s, const exg_saved_file *file)
{
    uint64_t align = s->options->align == 0 ? ALIGNMENT : s->options->align;
    exg_text header = EXG_TEXT_EMPTY;
    exg_status status = build_header(s, file, align, &header);

    if (status == EXG_OK) {
        status = exg_writer_write(file->writer, header.data, header.length, s->err);
    }
    exg_text_free(&header);
    EXG_TRY(status);
    for (uint32_t i = file->first; i < file->end; i++) {
        EXG_TRY(exg_writer_align(file->writer, align, s->err));
        EXG_TRY(exg_saver_write_tensor(s, file, &s->tensors[i]));
    }
    return exg_writer_align(file->writer, align, s->err);
}

const exg_weights_sink exg_gguf_sink = {
    .format = EXG_WEIGHTS_FORMAT_GGUF,
    .extension = ".gguf",
    .splits = true,
    .has_metadata = true,
    .prepare = prepare,
    .write = write_file,
};
