/* tensors.c - files of tensors: opened, and what inspect shows of weights. */
#include "cli/inspect.h"
#include "cli/outputs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COLUMNS 72 /* of a metadata value in the text form */

exg_status cli_open_tensors(const char *path, exg_tensor_file **file, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;

    EXG_TRY(exg_tensor_file_open(path, file, err));
    for (uint32_t i = 0; i < (*file)->skipped_count; i++) {
        cli_put_left_out(&text, (*file)->skipped[i].name, (*file)->skipped[i].kind);
    }
    cli_note(&text);
    exg_text_free(&text);
    return EXG_OK;
}

static void put_numbers(exg_text *text, const exg_sym_int *numbers, uint32_t count)
{
    exg_text_putc(text, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_text_printf(text, "%s%" PRId64, i > 0 ? ", " : "", numbers[i].value);
    }
    exg_text_putc(text, ']');
}

static exg_status put_tensor(exg_text *text, const cli_inspection *i, const exg_weight *weight,
                             exg_error *err)
{
    const exg_weights *weights = i->weights;
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
    EXG_TRY(cli_put_statistics(text, i, weight, err));
    exg_text_putc(text, '\n');
    return EXG_OK;
}

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

void cli_put_left_out(exg_text *text, const char *name, const char *kind)
{
    exg_text_puts(text, "note: ");
    exg_text_plain(text, name, false);
    exg_text_puts(text, " is ");
    exg_text_plain(text, kind, false);
    exg_text_puts(text, ": left out\n");
}

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

static void put_dtypes(exg_text *text, const cli_inspection *i)
{
    uint64_t bytes = i->found->modules[0].bytes;

    exg_text_puts(text, i->found->dtype_count > 0 ? "dtypes\n" : "");
    for (uint32_t d = 0; d < i->found->dtype_count; d++) {
        const exg_dtype_summary *dtype = &i->found->dtypes[d];

        exg_text_printf(text, "  %-10s ", dtype->name);
        exg_text_count(text, dtype->tensors, "tensor");
        exg_text_puts(text, ", ");
        exg_text_count(text, dtype->elements, "element");
        exg_text_puts(text, ", ");
        exg_text_bytes(text, dtype->bytes);
        exg_text_printf(text, ", %.1f %%\n",
                        bytes == 0 ? 0 : 100.0 * (double)dtype->bytes / (double)bytes);
    }
}

static exg_status put_tensors(exg_text *text, const cli_inspection *i, exg_error *err)
{
    uint32_t count = 0;
    const exg_weight **shown = cli_weights_shown(i, &count);

    if (shown == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_text_puts(text, "tensors\n");
    for (uint32_t w = 0; w < count; w++) {
        EXG_TRY_IN(err, put_tensor(text, i, shown[w], err), "['%s']", shown[w]->fqn);
    }
    return EXG_OK;
}

static exg_status print_text(exg_text *text, const cli_inspection *i, const char *format,
                             exg_error *err)
{
    const exg_weights *weights = i->weights;

    exg_text_plain(text, i->call->paths[0], false);
    exg_text_printf(text, ": %s\n", format);
    exg_text_count(text, weights->count, "tensor");
    exg_text_puts(text, ", ");
    exg_text_count(text, i->found->modules[0].parameters, "parameter");
    exg_text_puts(text, ", ");
    exg_text_count(text, i->found->storage_bytes, "byte");
    exg_text_puts(text, " in ");
    exg_text_count(text, i->found->storage_count, "storage");
    exg_text_putc(text, '\n');
    put_dtypes(text, i);
    for (uint32_t m = 0; m < weights->metadata.count; m++) {
        exg_text_puts(text, m == 0 ? "metadata\n  " : "  ");
        put_pair(text, &weights->metadata.items[m], exg_weights_metadata_kind(weights, m));
    }
    EXG_TRY(put_tensors(text, i, err));
    print_skipped(text, weights);
    return EXG_OK;
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

static exg_status print_json_tensor(exg_text *text, const cli_inspection *i,
                                    const exg_weight *weight, exg_error *err)
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
    EXG_TRY(cli_put_statistics_json(text, i, weight, err));
    exg_json_put_close(text, '}');
    return EXG_OK;
}

static exg_status print_json_tensors(exg_text *text, const cli_inspection *i, exg_error *err)
{
    uint32_t count = 0;
    const exg_weight **shown = cli_weights_shown(i, &count);

    if (shown == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_json_member_open(text, "tensors", '[');
    for (uint32_t w = 0; w < count; w++) {
        EXG_TRY_IN(err, print_json_tensor(text, i, shown[w], err), "['%s']", shown[w]->fqn);
    }
    exg_json_put_close(text, ']');
    return EXG_OK;
}

static void put_json_dtypes(exg_text *text, const cli_inspection *i)
{
    exg_json_member_open(text, "dtypes", '[');
    for (uint32_t d = 0; d < i->found->dtype_count; d++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", i->found->dtypes[d].name);
        exg_json_member_uint(text, "tensors", i->found->dtypes[d].tensors);
        exg_json_member_uint(text, "elements", i->found->dtypes[d].elements);
        exg_json_member_uint(text, "bytes", i->found->dtypes[d].bytes);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}

/* Its members, but for the first and what ends it. */
static exg_status put_json(exg_text *text, const cli_inspection *i, const char *format,
                           exg_error *err)
{
    const exg_weights *weights = i->weights;

    exg_json_member_text(text, "file", i->call->paths[0]);
    exg_json_member_text(text, "file_format", format);
    exg_json_member_uint(text, "bytes", i->found->storage_bytes);
    exg_json_member_uint(text, "storages", i->found->storage_count);
    exg_json_member_uint(text, "parameters", i->found->modules[0].parameters);
    put_json_dtypes(text, i);
    exg_json_member_open(text, "metadata", '{');
    for (uint32_t m = 0; m < weights->metadata.count; m++) {
        exg_json_member_text(text, weights->metadata.items[m].key,
                             weights->metadata.items[m].value);
    }
    exg_json_put_close(text, '}');
    exg_json_member_open(text, "metadata_kinds", '{');
    for (uint32_t m = 0; m < weights->metadata.count; m++) {
        const char *kind = exg_weights_metadata_kind(weights, m);

        if (kind != NULL) {
            exg_json_member_text(text, weights->metadata.items[m].key, kind);
        }
    }
    exg_json_put_close(text, '}');
    EXG_TRY(print_json_tensors(text, i, err));
    exg_json_member_open(text, "skipped", '[');
    for (uint32_t k = 0; k < weights->skipped_count; k++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", weights->skipped[k].name);
        exg_json_member_text(text, "kind", weights->skipped[k].kind);
        exg_json_member_text(text, "code", codes[weights->skipped[k].code].word);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    return EXG_OK;
}

static exg_status print_json(exg_text *text, const cli_inspection *i, const char *format,
                             exg_error *err)
{
    cli_json_begin(text);
    EXG_TRY(put_json(text, i, format, err));
    cli_json_end(text);
    return EXG_OK;
}

/* A page of the same, with the layers, and what verify says. */
static exg_status print_page(exg_text *text, const cli_inspection *i, const char *format,
                             exg_error *err)
{
    const exg_weights_verify_options options = {.size = sizeof(options), .values = i->call->values};
    exg_text json = EXG_TEXT_EMPTY;
    exg_diagnostics found = {0};
    exg_status status = exg_weights_verify(i->weights, &options, &found, err);

    if (status == EXG_OK || (status == EXG_MALFORMED && found.error_count > 0)) {
        cli_json_begin(&json);
        exg_json_member_open(&json, "weights", '{');
        status = put_json(&json, i, format, err);
        cli_put_modules_json(&json, i);
        exg_json_put_close(&json, '}');
        cli_json_diagnostics(&json, "diagnostics", &found);
        exg_json_put_close(&json, '}');
        cli_put_page(text, &json);
    }
    exg_text_free(&json);
    exg_diagnostics_free(&found);
    return status;
}

/* All of it, or the tables that are asked for. */
static exg_status show(exg_text *text, const cli_inspection *i, const char *format, exg_error *err)
{
    const cli_call *call = i->call;

    if (call->html != NULL) {
        return print_page(text, i, format, err);
    }
    if (!call->tree && !call->weights_list) {
        return (call->json ? print_json : print_text)(text, i, format, err);
    }
    if (call->json) {
        cli_json_begin(text);
        EXG_TRY(cli_put_tables_json(text, i, err));
        cli_json_end(text);
        return EXG_OK;
    }
    if (call->tree) {
        cli_put_tree(text, i);
    }
    return call->weights_list || call->filter != NULL || call->sort != NULL
               ? cli_put_weights(text, i, err)
               : EXG_OK;
}

exg_status cli_inspect_weights(const cli_call *call, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    cli_inspection i = {.call = call};
    exg_inspection *found = NULL;
    exg_weights_format format;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    EXG_TRY_IN(err, exg_weights_open(call->paths[0], &options, &i.weights, &format, err),
               "%s:", call->paths[0]);
    i.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = i.arena == NULL ? EXG_OUT_OF_MEMORY(err) : exg_weights_inspect(i.weights, &found, err);
    if (status == EXG_OK) {
        i.found = found;
        cli_note_filter(&i);
        status = show(&text, &i, exg_weights_format_name(format), err);
    }
    if (status == EXG_OK) {
        status = cli_deliver(call, &text, err);
    }
    exg_text_free(&text);
    exg_inspection_free(found);
    exg_arena_destroy(i.arena);
    exg_weights_release(i.weights);
    return status;
}

bool cli_is_weights_file(const cli_call *call, const char *path)
{
    const exg_open_options options = cli_open_options(call);
    exg_weights_format format;

    return exg_weights_sniff(path, &options, &format, NULL) == EXG_OK &&
           format != EXG_WEIGHTS_FORMAT_COUNT;
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
    if (!cli_is_weights_file(call, call->paths[0])) {
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
