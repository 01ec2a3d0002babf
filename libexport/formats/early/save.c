/* save.c - early JSON written: with a carry when the program says more than the seed can.
 *
 * Whether it does is found out by reading back what would be written: no list of losses
 * can be incomplete. External bytes stay where they were (external.c), or go to one file beside,
 * named by its content; both are there before the program that names them.
 */
#include "libexport/formats/early/early.h"
#include "libexport/formats/format.h"
#include "libexport/program/equal.h"

#include "libexport/base/files.h"
#include "libexport/weights/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 64

/* ---- is a carry needed? --------------------------------------------------------------------- */

/* The early part alone, read again as a program. */
static exg_status read_back(exg_early_encoder *e, exg_program **program)
{
    exg_operators *operators = NULL;
    exg_json_doc *doc = NULL;
    exg_status status = exg_early_encode_parsed(e, &doc);

    if (status == EXG_OK) {
        status = exg_operators_create(&operators, e->err);
    }
    if (status == EXG_OK) {
        status = exg_program_create(NULL, EXG_ARENA_UNBOUNDED, program, e->err);
    }
    if (status == EXG_OK) {
        status = exg_early_decode(exg_json_root(doc), EXG_EARLY_WITH_PLACES, operators, *program,
                                  e->err);
    }
    exg_operators_destroy(operators);
    exg_json_free(doc);
    return status;
}

/* Is what is read back the program? What cannot even be read back (two values of one name, say) is
 * not. */
static exg_status says_all(exg_early_encoder *e, bool *does)
{
    exg_program *again = NULL;
    exg_status status = read_back(e, &again);

    if (status == EXG_OK) {
        status = exg_program_compare(e->program, again, false, e->err);
    }
    *does = status == EXG_OK;
    exg_program_destroy(again);
    return status == EXG_NO_MEMORY ? status : EXG_OK;
}

/* Does what is written in the program's form say the same as what is written without? */
static exg_status check_form(exg_early_encoder *e)
{
    exg_program *formed = NULL;
    exg_program *plain = NULL;
    exg_status status = read_back(e, &formed);

    e->is_plain = true;
    if (status == EXG_OK) {
        status = read_back(e, &plain);
    }
    if (status == EXG_OK) {
        e->is_plain = exg_program_compare(formed, plain, false, NULL) != EXG_OK;
    }
    exg_program_destroy(formed);
    exg_program_destroy(plain);
    return status == EXG_NO_MEMORY ? status : EXG_OK;
}

static exg_status needs_carry(exg_early_encoder *e, bool *needs)
{
    const bool has_form = e->program->early_form != NULL;
    bool says = false;

    e->to_branches = true;
    EXG_TRY(says_all(e, &says));
    if (!says && has_form) { /* of another program, or none? */
        e->is_plain = true;
        EXG_TRY(says_all(e, &says));
        e->is_plain = says;
    }
    *needs = !says;
    e->to_branches = says; /* the carry is the program, which has them lifted */
    return has_form && !says ? check_form(e) : EXG_OK;
}

static exg_status refuse_strictly(exg_early_encoder *e)
{
    exg_text losses = EXG_TEXT_EMPTY;
    exg_status status = exg_early_list_losses(e, &losses);

    if (status == EXG_OK) {
        status = exg_error_fix(
            e->err,
            EXG_FAIL(e->err, UNSUPPORTED, "EAR-005", "the early schema cannot say: %s",
                     losses.length == 0 ? "names that meet" : exg_text_string(&losses)),
            "without --strict they are carried under metadata['%s']", EXG_EARLY_CARRY);
    }
    exg_text_free(&losses);
    return status;
}

/* ---- bytes beside --------------------------------------------------------------------------- */

typedef struct beside {
    exg_early_encoder *e;
    exg_early_range *ranges; /* one a storage */
    const char *name, *path;
    exg_writer *file;
} beside;

/* A checksum that nobody knows stays with its bytes, which are those that it was made of. */
static const char *kept_checksum(const exg_weights *weights, uint32_t storage, const char *ours)
{
    const char *unknown = weights->storages[storage].byte_order == EXG_BIG_ENDIAN
                              ? exg_storage_unknown_checksum(&weights->storages[storage])
                              : NULL;

    return unknown == NULL ? ours : unknown;
}

/* Every storage of the early part once, in the order of the weights; with a file it is
 * written, without one its checksum is taken. */
static exg_status each_storage(beside *b, exg_hasher *name)
{
    const exg_weights *weights = b->e->program->weights;
    bool *seen = EXG_NEW_ARRAY(b->e->arena, bool, weights->storage_count);

    if (seen == NULL) {
        return EXG_OUT_OF_MEMORY(b->e->err);
    }
    for (uint32_t i = 0; i < weights->count; i++) {
        const exg_weight *weight = &weights->items[i];
        exg_early_range *range = &b->ranges[weight->storage];
        void *bytes = NULL;
        exg_status status;

        if (seen[weight->storage] || !exg_early_holds(weight)) {
            continue;
        }
        seen[weight->storage] = true;
        status = exg_early_big_endian(b->e, weight, &bytes);
        if (status == EXG_OK && b->file == NULL) {
            range->length = weights->storages[weight->storage].length;
            status = exg_early_checksum(b->e, bytes, range->length, &range->checksum);
            if (status == EXG_OK) {
                exg_hasher_add(name, range->checksum, strlen(range->checksum));
                range->checksum = kept_checksum(weights, weight->storage, range->checksum);
            }
        } else if (status == EXG_OK) {
            status = exg_writer_align(b->file, ALIGNMENT, b->e->err);
            range->offset = exg_writer_position(b->file);
            range->location = b->name;
            if (status == EXG_OK) {
                status = exg_writer_write(b->file, bytes, range->length, b->e->err);
            }
        }
        free(bytes);
        EXG_TRY_IN(b->e->err, status, "weights['%s']", weight->fqn);
    }
    return EXG_OK;
}

static exg_status name_beside(beside *b, const char *path, const char *wanted, const char *digits)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    char stem[EXG_STEM_MAX + 1];

    exg_path_stem(path, stem);
    b->name =
        wanted != NULL ? wanted : exg_arena_printf(b->e->arena, "%s-%s.weights", stem, digits);
    if (b->name != NULL && (!exg_location_is_plain(b->name) || strchr(b->name, '/') != NULL ||
                            strcmp(b->name, base) == 0)) {
        return EXG_FAIL(b->e->err, USAGE, "EXG-053", "'%s' cannot hold the weights of %s", b->name,
                        base);
    }
    b->path = exg_arena_printf(b->e->arena, "%.*s%s", (int)(base - path), path,
                               b->name == NULL ? "" : b->name);
    return b->name == NULL || b->path == NULL ? EXG_OUT_OF_MEMORY(b->e->err) : EXG_OK;
}

/* *fresh: its path when it was not there before; else NULL. */
static exg_status write_beside(exg_early_encoder *e, const char *path, const char *wanted,
                               const char **fresh)
{
    beside b = {.e = e};
    exg_hasher *hasher = exg_hasher_create(EXG_CHECKSUM_XXH3_64);
    char digits[EXG_CHECKSUM_TEXT_MAX] = "";
    exg_status status = hasher == NULL ? EXG_OUT_OF_MEMORY(e->err) : EXG_OK;

    b.ranges = EXG_NEW_ARRAY(e->arena, exg_early_range, e->program->weights->storage_count);
    if (b.ranges == NULL) {
        status = EXG_OUT_OF_MEMORY(e->err);
    }
    if (status == EXG_OK) {
        status = each_storage(&b, hasher);
    }
    if (hasher != NULL) {
        exg_hasher_finish(hasher, digits);
    }
    if (status == EXG_OK) {
        status = name_beside(&b, path, wanted, digits);
    }
    if (status == EXG_OK) {
        status = exg_save_open(e->options, b.path, &b.file, e->err);
    }
    if (status == EXG_OK) {
        bool is_new = access(b.path, F_OK) != 0;

        status = each_storage(&b, NULL);
        if (status == EXG_OK) {
            status = exg_writer_commit(b.file, e->err);
        } else {
            exg_writer_abort(b.file);
        }
        *fresh = status == EXG_OK && is_new && !e->options->dry_run ? b.path : NULL;
    }
    e->ranges = status == EXG_OK ? b.ranges : NULL;
    return status;
}

/* ---- saving --------------------------------------------------------------------------------- */

static exg_status write_text(const exg_early_encoder *e, const exg_text *json, const char *path)
{
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(exg_save_open(e->options, path, &writer, e->err));
    status = exg_writer_write(writer, json->data, json->length, e->err);
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    return exg_writer_commit(writer, e->err);
}

/* The files that it names are there before it. */
static exg_status write_json(exg_early_encoder *e, const char *path, bool with_carry)
{
    exg_text carry = EXG_TEXT_EMPTY;
    exg_text json = EXG_TEXT_EMPTY;
    const char **fresh = NULL;
    uint32_t count = 0;
    exg_status status = with_carry ? exg_early_put_carry(e, &carry) : EXG_OK;

    if (status == EXG_OK) {
        status = exg_early_encode(e, with_carry ? exg_text_string(&carry) : NULL, &json);
    }
    if (e->is_plain || e->program->early_form == NULL) {
        exg_text_putc(&json, '\n');
    }
    if (status == EXG_OK) {
        status = exg_json_written(&json, e->err);
    }
    if (status == EXG_OK) {
        status = exg_early_write_kept(e, path, &fresh, &count);
    }
    if (status == EXG_OK) {
        status = write_text(e, &json, path);
    }
    for (uint32_t i = 0; status != EXG_OK && i < count; i++) {
        unlink(fresh[i]); /* nothing names it */
    }
    exg_text_free(&carry);
    exg_text_free(&json);
    return status;
}

static exg_status save(exg_early_encoder *e, const char *path, const exg_save_options *options)
{
    bool with_carry = false;
    const char *fresh = NULL;
    exg_status status;

    if (options->compression == EXG_COMPRESSION_ZSTD) {
        return exg_error_fix(
            e->err,
            EXG_FAIL(e->err, UNSUPPORTED, "EAR-007", "early files hold their weights as they are"),
            "write .exg to compress weights");
    }
    e->moves_external = options->weights != EXG_WEIGHTS_KEEP;
    e->bytes = EXG_EARLY_WITHOUT_BYTES;
    EXG_TRY(needs_carry(e, &with_carry));
    e->bytes = EXG_EARLY_WITH_BYTES;
    if (with_carry && options->strict) {
        return refuse_strictly(e);
    }
    if (options->weights == EXG_WEIGHTS_EXTERNAL) {
        EXG_TRY(write_beside(e, path, options->external_name, &fresh));
    }
    status = write_json(e, path, with_carry);
    if (status != EXG_OK && fresh != NULL) {
        unlink(fresh); /* nothing names it */
    }
    return status;
}

exg_status exg_early_save(const exg_program *const *programs, uint32_t count, const char *path,
                          const exg_save_options *options, exg_error *err)
{
    exg_early_encoder e = {.program = programs[0], .options = options, .err = err};
    exg_status status;

    (void)count; /* one */
    e.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (e.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = save(&e, path, options);
    exg_arena_destroy(e.arena);
    return status;
}
