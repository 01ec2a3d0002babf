/* cmd_digest.c - exg digest: one number for a whole model, proofs that a part belongs to it, and
 * signatures of its files. */
#include "cli/cli.h"

#include <errno.h>
#include <exg/bom.h>
#include <exg/digest.h>
#include <exg/signing.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is digested: a program, or weights alone. */
typedef struct subject {
    cli_program p;
    exg_weights *weights; /* the program's, too */
    bool is_program;
} subject;

static exg_status open_subject(const cli_call *call, subject *s, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    cli_programs all = {0};
    exg_status status;

    *s = (subject){.is_program = !cli_is_weights_file(call, call->paths[0])};
    if (!s->is_program) {
        EXG_TRY_IN(err, exg_weights_open(call->paths[0], &options, &s->weights, NULL, err),
                   "%s:", call->paths[0]);
        return EXG_OK;
    }
    EXG_TRY(cli_programs_list(call, &all, err));
    status = cli_programs_only(&all, "a digest is", err);
    cli_programs_free(&all);
    EXG_TRY(status);
    EXG_TRY(cli_open(call, &s->p, err));
    s->weights = exg_weights_retain(s->p.program->weights);
    return EXG_OK;
}

static void close_subject(subject *s)
{
    exg_weights_release(s->weights);
    if (s->is_program) {
        cli_close(&s->p);
    }
}

static exg_status read_kind(const cli_call *call, exg_checksum_kind *kind, const char **name,
                            exg_error *err)
{
    const bool is_xxh3 = call->kind != NULL && strcmp(call->kind, "xxh3") == 0;

    if (call->kind != NULL && !is_xxh3 && strcmp(call->kind, "sha256") != 0) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--kind '%s': sha256 or xxh3", call->kind);
    }
    *kind = is_xxh3 ? EXG_CHECKSUM_XXH3_128 : EXG_CHECKSUM_SHA256;
    *name = is_xxh3 ? "xxh3-128" : "sha256";
    return EXG_OK;
}

/* "A:B", or nothing for all. */
static exg_status read_rows(const cli_call *call, uint64_t *first, uint64_t *end, exg_error *err)
{
    unsigned long long a = 0;
    unsigned long long b = 0;
    int length = 0;

    *first = *end = 0;
    if (call->rows == NULL) {
        return EXG_OK;
    }
    if (strspn(call->rows, "0123456789:") != strlen(call->rows) ||
        sscanf(call->rows, "%llu:%llu%n", &a, &b, &length) != 2 || // NOLINT(cert-err34-c)
        call->rows[length] != '\0' || a >= b) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--rows '%s': FIRST:END, as 0:16", call->rows);
    }
    *first = a;
    *end = b;
    return EXG_OK;
}

/* ---- the digest ------------------------------------------------------------------------------ */

static exg_status print_digest(const cli_call *call, const subject *s, exg_checksum_kind kind,
                               const char *kind_name, exg_text *text, exg_error *err)
{
    exg_program_digests d = {.size = sizeof(d)};
    const struct {
        const char *key, *digits;
    } parts[] = {
        {"weights", d.weights}, {"graph", d.graph}, {"signature", d.signature}, {"rest", d.rest}};
    const uint32_t threads = (uint32_t)call->threads;

    EXG_TRY(s->is_program ? exg_program_digest(s->p.program, kind, threads, &d, err)
                          : exg_weights_digest(s->weights, kind, threads, d.root, err));
    if (call->json) {
        char value[EXG_DIGEST_TEXT_MAX + 16];

        cli_json_begin(text);
        snprintf(value, sizeof(value), "%s:%s", kind_name, d.root);
        exg_json_member_text(text, "digest", value);
        for (size_t i = 0; s->is_program && i < sizeof(parts) / sizeof(parts[0]); i++) {
            snprintf(value, sizeof(value), "%s:%s", kind_name, parts[i].digits);
            exg_json_member_text(text, parts[i].key, value);
        }
        cli_json_end(text);
        return EXG_OK;
    }
    exg_text_printf(text, "%s:%s\n", kind_name, d.root);
    for (size_t i = 0; s->is_program && i < sizeof(parts) / sizeof(parts[0]); i++) {
        exg_text_printf(text, "  %-9s  %s:%s\n", parts[i].key, kind_name, parts[i].digits);
    }
    return EXG_OK;
}

/* ---- proofs -----------------------------------------------------------------------------------
 */

static exg_status print_proof(const cli_call *call, const subject *s, exg_checksum_kind kind,
                              exg_text *text, exg_error *err)
{
    uint64_t first;
    uint64_t end;
    char *json;

    EXG_TRY(read_rows(call, &first, &end, err));
    EXG_TRY(exg_digest_prove(s->weights, s->is_program ? s->p.program : NULL, kind, call->proof,
                             first, end, (uint32_t)call->threads, &json, err));
    exg_text_puts(text, json);
    exg_text_putc(text, '\n');
    free(json);
    return EXG_OK;
}

static exg_status read_text(const char *path, exg_text *text, exg_error *err)
{
    FILE *file = fopen(path, "rb");
    char block[4096];
    bool failed;

    if (file == NULL) {
        return EXG_FAIL(err, IO, "CLI-005", "cannot open '%s': %s", path, strerror(errno));
    }
    for (size_t got; (got = fread(block, 1, sizeof(block), file)) > 0;) {
        exg_text_add(text, block, got);
    }
    failed = ferror(file) != 0;
    fclose(file);
    return failed                          ? EXG_FAIL(err, IO, "CLI-005", "cannot read '%s'", path)
           : exg_text_string(text) == NULL ? EXG_OUT_OF_MEMORY(err)
                                           : EXG_OK;
}

static exg_status check_proof(const cli_call *call, const subject *s, exg_text *text,
                              exg_error *err)
{
    exg_proved proved = {.size = sizeof(proved)};
    exg_text proof = EXG_TEXT_EMPTY;
    exg_status status = read_text(call->check_proof, &proof, err);

    if (status == EXG_OK) {
        status = exg_digest_check_proof(exg_text_string(&proof), proof.length, call->root,
                                        s->weights, &proved, err);
        status = status == EXG_OK || status == EXG_USAGE || status == EXG_MISMATCH
                     ? status
                     : exg_error_within(err, status, "%s:", call->check_proof);
    }
    exg_text_free(&proof);
    EXG_TRY(status);
    if (call->json) {
        cli_json_begin(text);
        exg_json_member_text(text, "proved", call->root);
        exg_json_member_text(text, "tensor", proved.tensor->fqn);
        exg_json_member_open(text, "rows", '[');
        exg_json_put_uint(text, proved.first);
        exg_json_put_uint(text, proved.end);
        exg_json_put_close(text, ']');
        cli_json_end(text);
    } else {
        exg_text_puts(text, "proved: ");
        exg_text_plain(text, proved.tensor->fqn, false);
        exg_text_printf(text, ", rows %" PRIu64 " to %" PRIu64 ", of %s\n", proved.first,
                        proved.end, call->root);
    }
    return EXG_OK;
}

/* ---- signatures ---------------------------------------------------------------------------------
 */

static exg_status sign(const cli_call *call, exg_text *text, exg_error *err)
{
    const exg_signing_options options = {.size = sizeof(options),
                                         .threads = (uint32_t)call->threads,
                                         .follow_links = call->follow_links};
    const char *word = call->sign != NULL ? "signed" : "as_signed";
    exg_signed of = {.size = sizeof(of)};

    EXG_TRY(call->sign != NULL
                ? exg_model_sign(call->paths[0], call->sign, call->bundle, &options, &of, err)
                : exg_model_check_signature(call->paths[0], call->signed_by, call->bundle, &options,
                                            &of, err));
    if (call->json) {
        cli_json_begin(text);
        exg_json_member_uint(text, word, of.file_count);
        exg_json_member_text(text, "sha256", of.sha256);
        cli_json_end(text);
    } else {
        exg_text_puts(text, call->sign != NULL ? "signed: " : "as signed: ");
        exg_text_count(text, of.file_count, "file");
        exg_text_putc(text, '\n');
    }
    return EXG_OK;
}

/* ---- a bill of materials
 * ------------------------------------------------------------------------- */

static exg_status print_bom(const cli_call *call, exg_text *text, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    char *json;

    EXG_TRY(exg_model_bom(call->paths[0], &options, (uint32_t)call->threads, &json, err));
    exg_text_puts(text, json);
    exg_text_putc(text, '\n');
    free(json);
    return EXG_OK;
}

static exg_status digest(const cli_call *call, exg_text *text, exg_error *err)
{
    exg_checksum_kind kind = EXG_CHECKSUM_SHA256;
    const char *kind_name = NULL;
    exg_status status;
    subject s;

    EXG_TRY(read_kind(call, &kind, &kind_name, err));
    status = open_subject(call, &s, err);
    if (status == EXG_OK) {
        status = call->check_proof != NULL ? check_proof(call, &s, text, err)
                 : call->proof != NULL     ? print_proof(call, &s, kind, text, err)
                                           : print_digest(call, &s, kind, kind_name, text, err);
    }
    close_subject(&s);
    return status;
}

exg_status cmd_digest(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = call->bundle != NULL ? sign(call, &text, err)
                        : call->sbom         ? print_bom(call, &text, err)
                                             : digest(call, &text, err);

    status = status == EXG_OK ? cli_put(call->out, &text, err) : status;
    exg_text_free(&text);
    return status;
}
