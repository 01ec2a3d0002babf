/* safetensors_save.c - header and data, tensors end to end; and the index of several files.
 *
 * The data begins at a multiple of 64 or of what is asked for; the format has no room for padding
 * between tensors, so what lies aligned there is a matter of their order.
 */
#include "libexport/base/map.h"
#include "libexport/formats/weights_file.h"
#include "libexport/formats/weights_save.h"

#include <exg/text.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES_MAX 100000000u
#define ALIGNMENT        64
#define ALIGNMENT_MAX    (UINT64_C(1) << 30)

/* ---- order --------------------------------------------------------------------------------- */

static uint32_t width_of(const exg_saved_tensor *tensor)
{
    return exg_dtype_bytes(tensor->item.dtype);
}

/* Wider elements first, so that every tensor lies as its elements want it. */
static int by_width(const void *a, const void *b)
{
    const exg_saved_tensor *x = a;
    const exg_saved_tensor *y = b;

    return width_of(x) != width_of(y) ? (width_of(x) < width_of(y)) - (width_of(x) > width_of(y))
                                      : (x->weight > y->weight) - (x->weight < y->weight);
}

/* The largest power of two that divides a tensor's bytes: where the one behind it may lie. */
static uint64_t step_of(const exg_saved_tensor *tensor)
{
    uint64_t bytes = tensor->item.bytes;

    return bytes == 0 ? ALIGNMENT_MAX : bytes & (~bytes + 1);
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = step_of(a);
    uint64_t y = step_of(b);

    return x != y ? (x < y) - (x > y) : by_width(a, b);
}

/* ---- metadata ------------------------------------------------------------------------------ */

/* Bits of an element of raw bytes that are a dtype of safetensors; 0: they are none. */
static uint32_t packed_bits(const exg_saved_tensor *tensor)
{
    const char *encoding = tensor->weight == NULL ? NULL : tensor->weight->encoding;
    char dtype[16];

    if (encoding == NULL) {
        return 0;
    }
    snprintf(dtype, sizeof(dtype), "%.*s", (int)strcspn(encoding, "["), encoding);
    return exg_safetensors_packed_bits(dtype);
}

/* Adds a pair, unless it is there; another value gets a name of its own. */
static exg_status keep_pair(exg_weights_saver *s, exg_map *names, const exg_string_pair *pair)
{
    exg_string_map *kept = &s->pairs;
    uint32_t at = exg_map_find(names, pair->key);
    const char *key = exg_map_free_name(names, s->arena, pair->key);

    if (at < kept->count && strcmp(kept->items[at].value, pair->value) == 0) {
        return EXG_OK;
    }
    if (key == NULL || !exg_map_put(names, key, kept->count)) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    kept->items[kept->count++] = (exg_string_pair){key, pair->value};
    return EXG_OK;
}

/* Every text of metadata, and `more`, under a key of its own. */
static exg_status keep_pairs(exg_weights_saver *s, const exg_string_map *more)
{
    uint32_t count = s->metadata == NULL ? 0 : s->metadata->count;
    exg_map names;

    exg_map_init(&names, s->arena);
    s->pairs.items = EXG_NEW_ARRAY(s->arena, exg_string_pair, count + more->count);
    /* An index has a total_size of its own. */
    if (s->pairs.items == NULL ||
        (s->options->split > 0 && !exg_map_put(&names, "total_size", UINT32_MAX - 1))) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(keep_pair(s, &names, &s->metadata->items[i]));
    }
    for (uint32_t i = 0; i < more->count; i++) {
        EXG_TRY(keep_pair(s, &names, &more->items[i]));
    }
    return EXG_OK;
}

/* The metadata, with the encodings of raw bytes and, of a model, what Hugging Face's readers ask
 * for. */
static exg_status gather_pairs(exg_weights_saver *s)
{
    exg_string_map more = {EXG_NEW_ARRAY(s->arena, exg_string_pair, (size_t)s->count + 1), 0};
    bool has_format = s->weights == NULL;

    if (more.items == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; s->metadata != NULL && i < s->metadata->count; i++) {
        has_format = has_format || strcmp(s->metadata->items[i].key, "format") == 0;
    }
    if (!has_format) {
        more.items[more.count++] = (exg_string_pair){"format", "pt"};
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_weight *weight = s->tensors[i].weight;

        if (weight != NULL && weight->encoding != NULL && packed_bits(&s->tensors[i]) == 0) {
            exg_string_pair *pair = &more.items[more.count++];

            pair->key = exg_arena_printf(s->arena, "encoding:%s", weight->fqn);
            pair->value = weight->encoding;
            if (pair->key == NULL) {
                return EXG_OUT_OF_MEMORY(s->err);
            }
        }
    }
    return keep_pairs(s, &more);
}

static exg_status prepare(exg_weights_saver *s)
{
    uint64_t align = s->options->align;

    if ((align & (align - 1)) != 0 || align > ALIGNMENT_MAX) {
        return EXG_FAIL(s->err, USAGE, "STF-ALIGN", "%" PRIu64 " is not a power of two up to 1 GiB",
                        align);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_named_tensor *item = &s->tensors[i].item;

        if (strcmp(item->name, "__metadata__") == 0) {
            return EXG_FAIL(s->err, USAGE, "STF-NAME", "the name %s is taken", item->name);
        }
        if (exg_dtype_safetensors(item->dtype)[0] == '\0') {
            return exg_error_fix(s->err,
                                 EXG_FAIL(s->err, UNSUPPORTED, "STF-DTYPE",
                                          "['%s']: safetensors has no %s", item->name,
                                          exg_dtype_name(item->dtype)),
                                 "NumPy's .npz has complex128, and complex32 as complex64");
        }
    }
    if (s->weights != NULL && s->count > 0) { /* others have the order that they were given in */
        qsort(s->tensors, s->count, sizeof(*s->tensors), align > ALIGNMENT ? by_step : by_width);
    }
    return gather_pairs(s);
}

/* ---- header -------------------------------------------------------------------------------- */

static void put_pairs(exg_text *text, const exg_string_map *pairs, const char *comma)
{
    for (uint32_t i = 0; i < pairs->count; i++) {
        exg_text_puts(text, i == 0 ? comma : ",");
        exg_text_json_string(text, pairs->items[i].key);
        exg_text_putc(text, ':');
        exg_text_json_string(text, pairs->items[i].value);
    }
}

/* Of elements narrower than a byte the shape counts elements: where rows are whole bytes the last
 * size more of them, else the encoding says it ("F4[3, 2]"). */
static void put_shape(exg_text *header, const exg_saved_tensor *tensor)
{
    const exg_named_tensor *item = &tensor->item;
    uint32_t bits = packed_bits(tensor);
    const char *sizes = bits == 0 ? NULL : strchr(tensor->weight->encoding, '[');

    if (sizes != NULL) {
        exg_text_puts(header, sizes);
        return;
    }
    exg_text_putc(header, '[');
    for (uint32_t d = 0; d < item->rank; d++) {
        int64_t size = item->shape[d];

        exg_text_printf(header, "%s%" PRId64, d == 0 ? "" : ",",
                        bits > 0 && d + 1 == item->rank ? size * 8 / (int64_t)bits : size);
    }
    exg_text_putc(header, ']');
}

static void describe(exg_text *header, const exg_saved_tensor *tensor, uint64_t *at)
{
    const exg_named_tensor *item = &tensor->item;

    exg_text_json_string(header, item->name);
    exg_text_puts(header, ":{\"dtype\":\"");
    if (packed_bits(tensor) > 0) {
        exg_text_add(header, tensor->weight->encoding, strcspn(tensor->weight->encoding, "["));
    } else {
        exg_text_puts(header, exg_dtype_safetensors(item->dtype));
    }
    exg_text_puts(header, "\",\"shape\":");
    put_shape(header, tensor);
    exg_text_printf(header, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, *at + item->bytes);
    *at += item->bytes;
}

static exg_status build_header(exg_weights_saver *s, exg_text *header, const exg_saved_file *file)
{
    uint64_t alignment = s->options->align == 0 ? ALIGNMENT : s->options->align;
    const char *comma;
    uint64_t padded;
    uint64_t at = 0;

    exg_text_puts(header, s->pairs.count > 0 ? "{\"__metadata__\":{" : "{");
    put_pairs(header, &s->pairs, "");
    exg_text_puts(header, s->pairs.count > 0 ? "}" : "");
    comma = s->pairs.count > 0 ? "," : "";
    for (uint32_t i = file->first; i < file->end; i++) {
        exg_text_puts(header, comma);
        describe(header, &s->tensors[i], &at);
        comma = ",";
    }
    exg_text_putc(header, '}');
    padded = (header->length + 8 + alignment - 1) / alignment * alignment - 8;
    if (padded > HEADER_BYTES_MAX) {
        return exg_error_fix(
            s->err,
            EXG_FAIL(s->err, LIMIT, "STF-HEADER", "the header takes %" PRIu64 " bytes", padded),
            "split the model, or align less");
    }
    while (header->length < padded && !header->failed) {
        exg_text_putc(header, ' ');
    }
    if (header->failed) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    return exg_safetensors_check(header->data, header->length, at, s->err); /* as it is read */
}

/* ---- writing ------------------------------------------------------------------------------- */

static exg_status write_file(exg_weights_saver *s, const exg_saved_file *file)
{
    exg_text header = EXG_TEXT_EMPTY;
    uint8_t length[8];
    exg_status status = build_header(s, &header, file);

    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)header.length >> (8 * i));
    }
    if (status == EXG_OK) {
        status = exg_writer_write(file->writer, length, sizeof(length), s->err);
    }
    if (status == EXG_OK) {
        status = exg_writer_write(file->writer, header.data, header.length, s->err);
    }
    for (uint32_t i = file->first; i < file->end && status == EXG_OK; i++) {
        status = exg_saver_write_tensor(s, file, &s->tensors[i]);
    }
    exg_text_free(&header);
    return status;
}

exg_status exg_safetensors_index_write(exg_weights_saver *s, exg_writer *writer,
                                       const exg_saved_file *files, uint32_t count)
{
    exg_text text = EXG_TEXT_EMPTY;
    const char *comma = "";
    exg_status status;

    exg_text_printf(&text, "{\"metadata\":{\"total_size\":%" PRIu64, s->total);
    put_pairs(&text, &s->pairs, ",");
    exg_text_puts(&text, "},\"weight_map\":{");
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t t = files[i].first; t < files[i].end; t++) {
            exg_text_puts(&text, comma);
            exg_text_json_string(&text, s->tensors[t].item.name);
            exg_text_putc(&text, ':');
            exg_text_json_string(&text, exg_path_name(files[i].path));
            comma = ",\n";
        }
    }
    exg_text_puts(&text, "}}\n");
    status = exg_text_string(&text) == NULL
                 ? EXG_OUT_OF_MEMORY(s->err)
                 : exg_writer_write(writer, text.data, text.length, s->err);
    exg_text_free(&text);
    return status;
}

const exg_weights_sink exg_safetensors_sink = {
    .format = EXG_WEIGHTS_FORMAT_SAFETENSORS,
    .extension = ".safetensors",
    .splits = true,
    .has_metadata = true,
    .prepare = prepare,
    .write = write_file,
};
