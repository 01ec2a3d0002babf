/* bom.c - what is known of a model, as CycloneDX has it. */
#include "libexport/artifact/manifest.h"
#include "libexport/base/hex.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"

#include <exg/bom.h>
#include <exg/digest.h>
#include <exg/inspection.h>
#include <exg/json_writer.h>
#include <exg/version.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
    const char *path;
    exg_program *program; /* NULL: weights alone */
    exg_weights *weights;
    exg_operators *operators;
    exg_inspection *found;
    exg_manifest manifest;
    const char *format;
    char digest[EXG_DIGEST_TEXT_MAX];
} model;

/* ---- what files say of themselves -------------------------------------------------------------
 */

/* The first of these keys that the metadata has as a plain text; NULL: none. */
static const char *said(const model *m, const char *const *keys, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        for (uint32_t i = 0; i < m->weights->metadata.count; i++) {
            const exg_string_pair *pair = &m->weights->metadata.items[i];

            if (strcmp(pair->key, keys[k]) == 0 && pair->value[0] != '\0' &&
                exg_weights_metadata_kind(m->weights, i) == NULL) {
                return pair->value;
            }
        }
    }
    return NULL;
}

#define SAID(m, ...)                                                                               \
    said((m), (const char *const[]){__VA_ARGS__},                                                  \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static const char *architecture(const model *m)
{
    const char *type = m->program == NULL ? SAID(m, "general.architecture", "architecture",
                                                 "modelspec.architecture")
                                          : m->found->modules[0].type;

    return type != NULL && type[0] != '\0' ? type : NULL;
}

/* ---- the parts ---------------------------------------------------------------------------------
 */

static void put_hash(exg_text *out, const uint8_t *sha256)
{
    char digits[2 * EXG_SHA256_BYTES + 1];

    exg_hex_put(sha256, EXG_SHA256_BYTES, digits);
    exg_json_member_open(out, "hashes", '[');
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "alg", "SHA-256");
    exg_json_member_text(out, "content", digits);
    exg_json_put_close(out, '}');
    exg_json_put_close(out, ']');
}

static void put_property(exg_text *out, const char *name, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "name", name);
        exg_json_member_text(out, "value", value);
        exg_json_put_close(out, '}');
    }
}

static void put_count(exg_text *out, const char *name, uint64_t value)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRIu64, value);
    put_property(out, name, digits);
}

static void put_properties(exg_text *out, const model *m)
{
    char name[64];
    char digest[EXG_DIGEST_TEXT_MAX + 8];

    exg_json_member_open(out, "properties", '[');
    snprintf(digest, sizeof(digest), "sha256:%s", m->digest);
    put_property(out, "exg:digest", digest);
    put_property(out, "exg:format", m->format);
    put_count(out, "exg:parameters", m->found->modules[0].parameters);
    put_count(out, "exg:bytes", m->found->storage_bytes);
    for (uint32_t d = 0; d < m->found->dtype_count; d++) {
        snprintf(name, sizeof(name), "exg:bytes:%.40s", m->found->dtypes[d].name);
        put_count(out, name, m->found->dtypes[d].bytes);
    }
    if (m->program != NULL) {
        put_property(out, "exg:torch_version", m->program->torch_version);
    }
    for (uint32_t i = 0; i < m->weights->skipped_count; i++) {
        put_property(out, "exg:skipped", m->weights->skipped[i].kind);
    }
    exg_json_put_close(out, ']');
}

/* "x: float32[3, s0]", "as_sym_int" */
static void put_argument(exg_text *out, const exg_graph *graph, const exg_argument *arg)
{
    const exg_value *value =
        arg->kind == EXG_ARGUMENT_TENSOR ? &graph->values[arg->as_tensor] : NULL;
    exg_text text = EXG_TEXT_EMPTY;

    if (value != NULL && value->tensor != NULL) {
        exg_text_printf(&text, "%s: %s[", value->name, exg_dtype_name(value->tensor->dtype));
        for (uint32_t d = 0; d < value->tensor->rank; d++) {
            const exg_sym_int *size = &value->tensor->sizes[d];

            exg_text_puts(&text, d > 0 ? ", " : "");
            if (size->expr != NULL) {
                exg_print_expression(&text, size->expr);
            } else {
                exg_text_printf(&text, "%" PRId64, size->value);
            }
        }
        exg_text_putc(&text, ']');
    } else {
        exg_text_puts(&text, exg_argument_tag(arg->kind));
    }
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "format", exg_text_part(out, &text));
    exg_json_put_close(out, '}');
    exg_text_free(&text);
}

static void put_interface(exg_text *out, const exg_program *program)
{
    const exg_graph *graph = program->graph;
    const exg_signature *signature = &program->signature;

    exg_json_member_open(out, "inputs", '[');
    for (uint32_t i = 0; i < graph->input_count && i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_USER) {
            put_argument(out, graph, &graph->inputs[i]);
        }
    }
    exg_json_put_close(out, ']');
    exg_json_member_open(out, "outputs", '[');
    for (uint32_t i = 0; i < graph->output_count && i < signature->output_count; i++) {
        if (signature->outputs[i].kind == EXG_OUTPUT_USER) {
            put_argument(out, graph, &graph->outputs[i]);
        }
    }
    exg_json_put_close(out, ']');
}

static void put_card(exg_text *out, const model *m)
{
    const char *type = architecture(m);

    exg_json_member_open(out, "modelCard", '{');
    exg_json_member_open(out, "modelParameters", '{');
    if (type != NULL) {
        exg_json_member_text(out, "modelArchitecture", type);
    }
    if (m->program != NULL) {
        put_interface(out, m->program);
    }
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

static void put_license(exg_text *out, const model *m)
{
    const char *license =
        SAID(m, "general.license", "license", "modelspec.license", "general.license.name");

    if (license != NULL) {
        exg_json_member_open(out, "licenses", '[');
        exg_json_put_open(out, '{');
        exg_json_member_open(out, "license", '{');
        exg_json_member_text(out, "name", license);
        exg_json_put_close(out, '}');
        exg_json_put_close(out, '}');
        exg_json_put_close(out, ']');
    }
}

static bool is_folder(const model *m)
{
    return m->manifest.count != 1 || strcmp(m->manifest.items[0].name, ".") != 0;
}

static void put_files(exg_text *out, const exg_manifest *manifest)
{
    exg_json_member_open(out, "components", '[');
    for (uint32_t i = 0; i < manifest->count; i++) {
        exg_json_put_open(out, '{');
        exg_json_member_text(out, "type", "file");
        exg_json_member_text(out, "name", manifest->items[i].name);
        put_hash(out, manifest->items[i].sha256);
        exg_json_put_close(out, '}');
    }
    exg_json_put_close(out, ']');
}

static void put_model(exg_text *out, const model *m)
{
    const char *name = SAID(m, "general.name", "modelspec.title", "name");
    char real[PATH_MAX];

    exg_json_put_open(out, '{');
    exg_json_member_text(out, "type", "machine-learning-model");
    exg_json_member_text(out, "bom-ref", "model");
    exg_json_member_text(
        out, "name",
        name != NULL ? name : exg_path_name(realpath(m->path, real) == NULL ? m->path : real));
    if (!is_folder(m)) {
        put_hash(out, m->manifest.items[0].sha256);
    }
    put_license(out, m);
    if (is_folder(m)) {
        put_files(out, &m->manifest);
    }
    put_card(out, m);
    put_properties(out, m);
    exg_json_put_close(out, '}');
}

static void put_bom(exg_text *out, const model *m)
{
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "$schema", "http://cyclonedx.org/schema/bom-1.6.schema.json");
    exg_json_member_text(out, "bomFormat", "CycloneDX");
    exg_json_member_text(out, "specVersion", "1.6");
    exg_json_member_int(out, "version", 1);
    exg_json_member_open(out, "metadata", '{');
    exg_json_member_open(out, "tools", '{');
    exg_json_member_open(out, "components", '[');
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "type", "application");
    exg_json_member_text(out, "name", "exg");
    exg_json_member_text(out, "version", exg_version());
    exg_json_put_close(out, '}');
    exg_json_put_close(out, ']');
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "component");
    put_model(out, m);
    exg_json_put_close(out, '}');
    exg_json_put_close(out, '}');
}

/* ---- the model ---------------------------------------------------------------------------------
 */

static exg_status open_model(model *m, const exg_open_options *options, uint32_t threads,
                             exg_error *err)
{
    const exg_manifest_options walk = {.left_out = (const char *const[]){".git"},
                                       .left_out_count = 1,
                                       .follow_links = true,
                                       .threads = threads};
    exg_program_digests digests = {.size = sizeof(digests)};
    exg_weights_format format;
    exg_file_info *info = NULL;

    EXG_TRY(exg_weights_sniff(m->path, options, &format, err));
    EXG_TRY(exg_manifest_make(m->path, &walk, &m->manifest, err));
    if (format != EXG_WEIGHTS_FORMAT_COUNT) {
        m->format = exg_weights_format_name(format);
        EXG_TRY(exg_weights_open(m->path, options, &m->weights, NULL, err));
        EXG_TRY(exg_weights_inspect(m->weights, &m->found, err));
        return exg_weights_digest(m->weights, EXG_CHECKSUM_SHA256, threads, m->digest, err);
    }
    EXG_TRY(exg_open(m->path, options, &m->program, &info, err));
    m->format = exg_format_name(info->format);
    exg_file_info_free(info);
    m->weights = exg_weights_retain(m->program->weights);
    EXG_TRY(exg_operators_create(&m->operators, err));
    EXG_TRY(exg_program_inspect(m->program, m->operators, &m->found, err));
    EXG_TRY(exg_program_digest(m->program, EXG_CHECKSUM_SHA256, threads, &digests, err));
    memcpy(m->digest, digests.root, sizeof(m->digest));
    return EXG_OK;
}

static void close_model(model *m)
{
    exg_inspection_free(m->found);
    exg_operators_destroy(m->operators);
    exg_weights_release(m->weights);
    exg_program_destroy(m->program);
    exg_manifest_free(&m->manifest);
}

exg_status exg_model_bom(const char *path, const exg_open_options *given, uint32_t threads,
                         char **json, exg_error *err)
{
    EXG_REQUIRE(err, path, json);
    exg_open_options options = {0};
    model m = {.path = path};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    *json = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_open_options, &options, given, err));
    options.size = sizeof(options);
    status = open_model(&m, &options, threads, err);
    if (status == EXG_OK) {
        put_bom(&text, &m);
        status = exg_text_string(&text) == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    close_model(&m);
    if (status == EXG_OK) {
        *json = text.data;
    } else {
        exg_text_free(&text);
        status = exg_error_within(err, status, "%s:", path);
    }
    return status;
}
