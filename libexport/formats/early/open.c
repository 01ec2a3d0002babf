/* open.c - early JSON opened: the early part, or what it carries when the two agree. */
#include "libexport/formats/early/early.h"
#include "libexport/formats/format.h"
#include "libexport/program/equal.h"

#include <string.h>

bool exg_early_sniff(const uint8_t *data, uint64_t length)
{
    uint64_t at = 0;

    while (at < length &&
           (data[at] == ' ' || data[at] == '\t' || data[at] == '\n' || data[at] == '\r')) {
        at++;
    }
    return at < length && data[at] == '{';
}

static void drop_carry(exg_string_map *metadata)
{
    for (uint32_t i = 0; i < metadata->count; i++) {
        if (strcmp(metadata->items[i].key, EXG_EARLY_CARRY) == 0) {
            memmove(&metadata->items[i], &metadata->items[i + 1],
                    (metadata->count - i - 1) * sizeof(exg_string_pair));
            metadata->count--;
            return;
        }
    }
}

/* The structure of a GraphModule, without its bytes and carry. */
static exg_status structure_of(exg_json root, uint64_t budget, exg_program **program,
                               exg_error *err)
{
    exg_status status;

    EXG_TRY(exg_program_create(NULL, budget, program, err));
    status = exg_early_decode(root, EXG_EARLY_WITHOUT_BYTES, NULL, *program, err);
    if (status == EXG_OK) {
        drop_carry(&(*program)->metadata);
    } else {
        exg_program_destroy(*program);
        *program = NULL;
    }
    return status;
}

static exg_status tell_difference(const exg_program *given, const exg_program *expected,
                                  exg_error *err)
{
    exg_error found;
    exg_status status = exg_program_compare(given, expected, false, &found);

    if (status == EXG_OK || status == EXG_NO_MEMORY) {
        return status == EXG_OK ? EXG_OK : EXG_OUT_OF_MEMORY(err);
    }
    return exg_error_fix(err,
                         EXG_FAIL(err, MALFORMED, "EAR-004",
                                  "what is carried is not what the file says: %s%s%s", found.where,
                                  found.where[0] == '\0' ? "" : ": ", found.message),
                         "open it with --ignore-carry to take what the file says");
}

/* Would `carried` be written as this early part (S002-110)? */
static exg_status check_agreement(exg_json root, const exg_program *carried, uint64_t budget,
                                  exg_error *err)
{
    exg_arena *scratch = exg_arena_create(NULL, budget);
    exg_early_encoder e = {
        .program = carried, .arena = scratch, .bytes = EXG_EARLY_WITHOUT_BYTES, .err = err};
    exg_json_doc *doc = NULL;
    exg_program *given = NULL;
    exg_program *expected = NULL;
    exg_status status =
        scratch == NULL ? EXG_OUT_OF_MEMORY(err) : exg_early_encode_parsed(&e, &doc);

    if (status == EXG_OK) {
        status = structure_of(root, budget, &given, err);
    }
    if (status == EXG_OK) {
        status = structure_of(exg_json_root(doc), budget, &expected, err);
    }
    if (status == EXG_OK) {
        status = tell_difference(given, expected, err);
    }
    status = exg_arena_settle(scratch, status, err);
    exg_program_destroy(given);
    exg_program_destroy(expected);
    exg_json_free(doc);
    exg_arena_destroy(scratch);
    return status;
}

static exg_status decode(exg_json root, const exg_source *source, const exg_open_options *options,
                         exg_program *program, exg_error *err)
{
    exg_operators *operators = NULL;
    exg_json metadata;
    exg_json carry;
    exg_status status;

    if (!options->ignore_carry && exg_json_find(root, "metadata", &metadata) &&
        exg_json_find(metadata, EXG_EARLY_CARRY, &carry)) {
        const char *text = NULL;
        size_t length = 0;

        EXG_TRY(exg_json_string(carry, &text, &length, err));
        EXG_TRY(exg_early_decode_carry(root, text, length, program, err));
        EXG_TRY(check_agreement(root, program, source->budget, err));
        return exg_early_keep_form(root, false, program, err);
    }
    EXG_TRY(exg_operators_create(&operators, err));
    status = exg_early_decode(root, EXG_EARLY_WITH_BYTES, operators, program, err);
    exg_operators_destroy(operators);
    drop_carry(&program->metadata); /* ignored, it is gone */
    return status == EXG_OK ? exg_early_keep_form(root, true, program, err) : status;
}

exg_status exg_early_open(const exg_source *source, const exg_open_options *options,
                          exg_program **program, exg_file_info *info, exg_error *err)
{
    exg_json_doc *doc = NULL;
    exg_program *made = NULL;
    exg_status status;

    if (source->length > SIZE_MAX) {
        return EXG_FAIL(err, LIMIT, "MEM-002", "the file does not fit the address space");
    }
    status = exg_json_parse(source->data, (size_t)source->length, 0, EXG_JSON_KEYS_NOW, &doc, err);
    if (status == EXG_OK) {
        status = exg_program_create(source->allocator, source->budget, &made, err);
    }
    if (status == EXG_OK) {
        status = decode(exg_json_root(doc), source, options, made, err);
        status = exg_arena_settle(made->arena, status, err);
    }
    if (status == EXG_OK && options->program != NULL && strcmp(options->program, made->name) != 0) {
        status = EXG_FAIL(err, USAGE, "EXG-006", "the file holds '%s', not '%s'", made->name,
                          options->program);
    }
    if (status == EXG_OK) {
        status = exg_file_info_add_program(info, made->name, err);
    }
    exg_json_free(doc);
    if (status != EXG_OK) {
        exg_program_destroy(made);
        return status;
    }
    *program = made;
    return EXG_OK;
}
