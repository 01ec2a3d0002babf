/* tensors.c - files of weights: what inspect shows of them. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COLUMNS 72 /* of a metadata value in the text form */

static void put_numbers(exg_text *text, const exg_sym_int *numbers, uint32_t count)
{
    exg_text_putc(text, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(text, "%s%" PRId64, i > 0 ? ", " : "", numbers[i].value);
    }
    exg_text_putc(text, ']');
}

static void put_tensor(exg_text *text, const exg_weights *weights, const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->meta;

    exg_text_puts(text, "  ");
    exg_text_plain(text, weight->fqn, false);
    exg_text_puts(text, ": ");
    if (weight->encoding != NULL) {
        exg_text_printf(text, "%s in ", weight->encoding);
    }
    exg_text_puts(text, exg_dtype_short_name(meta->dtype));
    put_numbers(text, meta->sizes, meta->rank);
    if (!exg_tensor_meta_is_packed(meta) || meta->storage_offset.value != 0) {
        exg_text_puts(text, " strides ");
        put_numbers(text, meta->strides, meta->rank);
        exg_text_printf(text, " from %" PRId64 " of storage %u", meta->storage_offset.value,
                        weight->storage);
    }
    if (weights->storages[weight->storage].byte_order == EXG_BIG_ENDIAN) {
        exg_text_puts(text, " big endian");
    }
    exg_text_putc(text, '\n');
}

/* Storages that tensors lie in; others hold parts of them. */
typedef struct stored_sum {
    uint64_t bytes;
    uint32_t count;
} stored_sum;

/* A text in quotes, anything else as it is with its kind; of long ones the beginning. */
static void put_pair(exg_text *text, const exg_string_pair *pair, const char *kind)
{
    exg_text value = EXG_TEXT_EMPTY;

    exg_text_add(&value, pair->value, strnlen(pair->value, VALUE_COLUMNS + 1));
    if (kind == NULL) {
        exg_text quoted = EXG_TEXT_EMPTY;

        exg_text_json_string(&quoted, exg_text_part(text, &value));
        exg_text_free(&value);
        value = quoted;
    }
    exg_text_plain(text, pair->key, false);
    exg_text_printf(text, " = %.*s%s", VALUE_COLUMNS, exg_text_part(text, &value),
                    value.length > VALUE_COLUMNS ? "..." : "");
    if (kind != NULL) {
        exg_text_printf(text, " (%s)", kind);
    }
    exg_text_putc(text, '\n');
    exg_text_free(&value);
}

static stored_sum stored_of(const exg_weights *weights)
{
    bool *used = calloc(weights->storage_count + 1u, sizeof(*used));
    stored_sum sum = {0, 0};

    for (uint32_t i = 0; used != NULL && i < weights->count; i++) {
        used[weights->items[i].storage] = true;
    }
    for (uint32_t i = 0; i < weights->storage_count; i++) {
        if (used == NULL || used[i]) {
            sum.bytes += weights->storages[i].length;
            sum.count++;
        }
    }
    free(used);
    return sum;
}

/* By exg_skipped_code: what to say of Python, worst last. */
static const struct {
    const char *word; /* in JSON */
    const char *advice;
} codes[] = {
    [EXG_CODE_NONE] = {"none", NULL},
    [EXG_CODE_FOREIGN] =
        {"foreign", "note: to load this file, Python runs code that torch.load does not allow "
                    "by itself: do not load the file in Python unless you trust who made it\n"},
    [EXG_CODE_DANGEROUS] = {"dangerous",
                            "warning: to load this file, Python runs what attacks are made of: "
                            "do not load it in Python\n"},
};

static void print_skipped(exg_text *text, const exg_weights *weights)
{
    exg_skipped_code worst = EXG_CODE_NONE;

    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        const exg_skipped *skipped = &weights->skipped[i];

        exg_text_puts(text, i == 0 ? "skipped\n  " : "  ");
        exg_text_plain(text, skipped->name, false);
        exg_text_puts(text, ": ");
        exg_text_plain(text, skipped->kind, false);
        exg_text_putc(text, '\n');
        worst = skipped->code > worst ? skipped->code : worst;
    }
    exg_text_puts(text, codes[worst].advice == NULL ? "" : codes[worst].advice);
}

static void print_text(exg_text *text, const char *path, const char *format,
                       const exg_weights *weights)
{
    const stored_sum stored = stored_of(weights);

    exg_text_plain(text, path, false);
    exg_text_printf(text, ": %s\n", format);
    exg_text_count(text, weights->count, "tensor");
    exg_text_puts(text, ", ");
    exg_text_count(text, stored.bytes, "byte");
    exg_text_puts(text, " in ");
    exg_text_count(text, stored.count, "storage");
    exg_text_putc(text, '\n');
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        exg_text_puts(text, i == 0 ? "metadata\n  " : "  ");
        put_pair(text, &weights->metadata.items[i], exg_weights_metadata_kind(weights, i));
    }
    exg_text_puts(text, "tensors\n");
    for (uint32_t i = 0; i < weights->count; i++) {
        put_tensor(text, weights, &weights->items[i]);
    }
    print_skipped(text, weights);
}

static void put_json_numbers(exg_text *text, const char *key, const exg_sym_int *numbers,
                             uint32_t count)
{
    exg_json_member_open(text, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_int(text, numbers[i].value);
    }
    exg_json_put_close(text, ']');
}

static void print_json_tensor(exg_text *text, const exg_weight *weight)
{
    const exg_tensor_meta *meta = weight->meta;

    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", weight->fqn);
    exg_json_member_text(text, "dtype", exg_dtype_name(meta->dtype));
    put_json_numbers(text, "shape", meta->sizes, meta->rank);
    put_json_numbers(text, "strides", meta->strides, meta->rank);
    exg_json_member_int(text, "offset", meta->storage_offset.value);
    exg_json_member_uint(text, "storage", weight->storage);
    if (weight->encoding != NULL) {
        exg_json_member_text(text, "encoding", weight->encoding);
    }
    exg_json_put_close(text, '}');
}

static void print_json(exg_text *text, const char *path, const char *format,
                       const exg_weights *weights)
{
    const stored_sum stored = stored_of(weights);

    cli_json_begin(text);
    exg_json_member_text(text, "file", path);
    exg_json_member_text(text, "file_format", format);
    exg_json_member_uint(text, "bytes", stored.bytes);
    exg_json_member_uint(text, "storages", stored.count);
    exg_json_member_open(text, "metadata", '{');
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        exg_json_member_text(text, weights->metadata.items[i].key,
                             weights->metadata.items[i].value);
    }
    exg_json_put_close(text, '}');
    exg_json_member_open(text, "metadata_kinds", '{');
    for (uint32_t i = 0; i < weights->metadata.count; i++) {
        const char *kind = exg_weights_metadata_kind(weights, i);

        if (kind != NULL) {
            exg_json_member_text(text, weights->metadata.items[i].key, kind);
        }
    }
    exg_json_put_close(text, '}');
    exg_json_member_open(text, "tensors", '[');
    for (uint32_t i = 0; i < weights->count; i++) {
        print_json_tensor(text, &weights->items[i]);
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "skipped", '[');
    for (uint32_t i = 0; i < weights->skipped_count; i++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", weights->skipped[i].name);
        exg_json_member_text(text, "kind", weights->skipped[i].kind);
        exg_json_member_text(text, "code", codes[weights->skipped[i].code].word);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    cli_json_end(text);
}

exg_status cli_inspect_weights(const cli_call *call, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    exg_weights *weights;
    exg_weights_format format;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    EXG_TRY_IN(err, exg_weights_open(call->paths[0], &options, &weights, &format, err),
               "%s:", call->paths[0]);
    (call->json ? print_json : print_text)(&text, call->paths[0], exg_weights_format_name(format),
                                           weights);
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    exg_weights_release(weights);
    return status;
}

bool cli_is_weights_file(const char *path)
{
    exg_weights_format format;

    return exg_weights_sniff(path, &format, NULL) == EXG_OK && format != EXG_WEIGHTS_FORMAT_COUNT;
}

exg_status cli_digest_weights(const cli_call *call, exg_error *err)
{
    bool sha256 = strcmp(call->digest, "sha256") == 0;
    const char *name = sha256 ? "sha256" : "xxh3-128";
    const exg_open_options options = cli_open_options(call);
    cli_programs all = {0};
    char digest[EXG_DIGEST_TEXT_MAX];
    char value[EXG_DIGEST_TEXT_MAX + 16];
    exg_weights *weights;
    exg_status status;

    if (!sha256 && strcmp(call->digest, "xxh3") != 0) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--digest '%s': xxh3 or sha256", call->digest);
    }
    if (!cli_is_weights_file(call->paths[0])) {
        EXG_TRY(cli_programs_list(call, &all, err));
        status = cli_programs_only(&all, "a digest is", err);
        cli_programs_free(&all);
        EXG_TRY(status);
    }
    EXG_TRY_IN(err, exg_weights_open(call->paths[0], &options, &weights, NULL, err),
               "%s:", call->paths[0]);
    status = exg_weights_digest(weights, sha256 ? EXG_CHECKSUM_SHA256 : EXG_CHECKSUM_XXH3_128, 0,
                                digest, err);
    exg_weights_release(weights);
    EXG_TRY(status);
    snprintf(value, sizeof(value), "%s:%s", name, digest);
    if (call->json) {
        return cli_json_value(call->out, "digest", value, err);
    }
    fprintf(call->out, "%s\n", value);
    return EXG_OK;
}
