/* patch_apply.c - a patch and the file it is for make the other one. */
#include "libexport/artifact/file_hash.h"
#include "libexport/artifact/patch_file.h"
#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/hex.h"
#include "libexport/base/options.h"
#include "libexport/base/pipeline.h"
#include "libexport/base/require.h"
#include "libexport/formats/save_journal.h"
#include "libexport/weights/message_digest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct applier {
    exg_mapping a, patch;
    exg_patch_header header;
    exg_patch_record *records;
    uint64_t *firsts; /* of each record: its first window, and at the end how many there are */
    uint64_t *starts; /* of each record: where it begins in B */
    exg_arena *arena;
    exg_pool *pool;
    exg_frame_reader **readers;
    uint8_t **slots;
    exg_message_digest hasher;
    exg_writer *writer;
    exg_save_journal *journal; /* of what is gone on with, or NULL */
    const char *part;          /* likewise */
    const exg_patch_options *options;
    exg_error *err;
} applier;

/* ---- windows: a record each, but of copies as many as it takes
 * ----------------------------------- */

typedef struct window {
    const exg_patch_record *record;
    uint64_t offset, length; /* in it */
    uint64_t at;             /* in B */
} window;

static window window_at(const applier *p, uint64_t index)
{
    uint64_t low = 0;
    uint64_t high = p->header.record_count;
    window w;

    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;

        if (p->firsts[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    w.record = &p->records[low];
    w.offset = (index - p->firsts[low]) * EXG_FRAME_BYTES;
    w.length = w.record->length - w.offset;
    w.length = w.length < EXG_FRAME_BYTES ? w.length : EXG_FRAME_BYTES;
    w.at = p->starts[low] + w.offset;
    return w;
}

static exg_status make_window(void *context, const exg_pipeline_block *block, exg_error *err)
{
    applier *p = context;
    const window w = window_at(p, block->index);
    const uint64_t from = w.record->from + w.offset;

    if (exg_range_inside(w.at, w.length, exg_writer_kept(p->writer))) { /* of an earlier try */
        return exg_writer_read(p->writer, w.at, p->slots[block->slot], w.length, err);
    }
    EXG_TRY(exg_patch_record_expand(p->patch.data, w.record, p->a.data, w.offset, w.length,
                                    p->slots[block->slot], p->readers[block->worker], err));
    if (w.record->kind != EXG_PATCH_NEW) {
        exg_mapping_forget(&p->a, from, from + w.length);
    }
    return EXG_OK;
}

static exg_status use_window(void *context, const exg_pipeline_block *block, exg_error *err)
{
    applier *p = context;
    const window w = window_at(p, block->index);

    exg_message_digest_add(&p->hasher, p->slots[block->slot], (size_t)w.length);
    EXG_TRY(exg_writer_write(p->writer, p->slots[block->slot], w.length, err));
    if (p->options->progress != NULL) {
        p->options->progress(p->options->user, exg_writer_position(p->writer), p->header.b_bytes);
    }
    return EXG_OK;
}

/* ---- before and after
 * ----------------------------------------------------------------------------- */

static exg_status read_patch(applier *p, const char *path)
{
    EXG_TRY(exg_file_map(path, false, &p->patch, p->err));
    EXG_TRY_IN(p->err, exg_patch_header_read(p->patch.data, p->patch.length, &p->header, p->err),
               "%s:", path);
    p->records = EXG_NEW_ARRAY(p->arena, exg_patch_record, p->header.record_count);
    p->firsts = EXG_NEW_ARRAY(p->arena, uint64_t, p->header.record_count + 1);
    p->starts = EXG_NEW_ARRAY(p->arena, uint64_t, p->header.record_count + 1);
    if (p->records == NULL || p->firsts == NULL || p->starts == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    EXG_TRY_IN(p->err, exg_patch_records_read(p->patch.data, &p->header, p->records, p->err),
               "%s:", path);
    p->firsts[0] = p->starts[0] = 0;
    for (uint64_t r = 0; r < p->header.record_count; r++) {
        p->firsts[r + 1] = p->firsts[r] + exg_frame_count(p->records[r].length);
        p->starts[r + 1] = p->starts[r] + p->records[r].length;
    }
    return EXG_OK;
}

static exg_status check_base(applier *p, const char *path)
{
    uint8_t digest[EXG_SHA256_BYTES];
    char wanted[2 * EXG_SHA256_BYTES + 1];
    char found[2 * EXG_SHA256_BYTES + 1];

    EXG_TRY(exg_file_map(path, false, &p->a, p->err));
    exg_hex_put(p->header.a_sha256, EXG_SHA256_BYTES, wanted);
    if (p->a.length == p->header.a_bytes) {
        exg_mapping_hash(&p->a, 0, p->a.length, digest);
        if (memcmp(digest, p->header.a_sha256, sizeof(digest)) == 0) {
            return EXG_OK;
        }
        exg_hex_put(digest, EXG_SHA256_BYTES, found);
        return EXG_FAIL(p->err, MISMATCH, "PAT-BASE",
                        "the patch is for a file with the SHA-256 %s; %s has %s", wanted, path,
                        found);
    }
    return EXG_FAIL(p->err, MISMATCH, "PAT-BASE",
                    "the patch is for a file of %llu bytes with the SHA-256 %s; %s has %llu bytes",
                    (unsigned long long)p->header.a_bytes, wanted, path,
                    (unsigned long long)p->a.length);
}

static exg_status make_room(applier *p)
{
    const uint32_t slots = exg_pipeline_slots(p->pool);

    p->slots = EXG_NEW_ARRAY(p->arena, uint8_t *, slots);
    for (uint32_t i = 0; p->slots != NULL && i < slots; i++) {
        p->slots[i] = exg_arena_alloc(p->arena, 1, EXG_FRAME_BYTES);
        if (p->slots[i] == NULL) {
            return EXG_OUT_OF_MEMORY(p->err);
        }
    }
    return p->slots == NULL
               ? EXG_OUT_OF_MEMORY(p->err)
               : exg_frame_readers_create(exg_pipeline_workers(p->pool), &p->readers, p->err);
}

static exg_status write_result(applier *p)
{
    char found[EXG_DIGEST_TEXT_MAX];
    char wanted[EXG_DIGEST_TEXT_MAX];

    exg_message_digest_begin(&p->hasher, EXG_CHECKSUM_SHA256);
    EXG_TRY(exg_pipeline_run(p->pool, p->firsts[p->header.record_count], make_window, use_window, p,
                             p->err));
    exg_message_digest_finish(&p->hasher, found);
    exg_hex_put(p->header.b_sha256, EXG_SHA256_BYTES, wanted);
    return strcmp(found, wanted) == 0
               ? EXG_OK
               : EXG_FAIL(p->err, MALFORMED, "PAT-RESULT",
                          "the patch makes a file with the SHA-256 %s, and says %s", found, wanted);
}

/* What is made depends on B alone, so its hash names what an earlier try left. */
static exg_status go_on(applier *p, const char *path)
{
    char digits[2 * EXG_SHA256_BYTES + 1];
    char *written = NULL;
    uint64_t keep = 0;

    EXG_TRY(exg_path_written(path, &written, p->err));
    p->part = exg_arena_printf(p->arena, "%s.part", written);
    free(written);
    if (p->part == NULL) {
        return EXG_OUT_OF_MEMORY(p->err);
    }
    exg_hex_put(p->header.b_sha256, EXG_SHA256_BYTES, digits);
    EXG_TRY(exg_save_journal_open(path, digits, p->arena, &p->journal, p->err));
    exg_save_journal_begin(p->journal, 0, p->part, &keep);
    keep = keep < p->header.b_bytes ? keep : p->header.b_bytes;
    EXG_TRY(exg_file_check_room(path, p->header.b_bytes - keep, p->err));
    EXG_TRY(exg_writer_open_part(path, p->part, keep, &p->writer, p->err));
    exg_writer_replay(p->writer);
    exg_writer_observe(p->writer, exg_save_journal_note, p->journal);
    return EXG_OK;
}

static exg_status open_result(applier *p, const char *path)
{
    if (p->options->resume) {
        return go_on(p, path);
    }
    EXG_TRY(exg_file_check_room(path, p->header.b_bytes, p->err));
    return exg_writer_open(path, &p->writer, p->err);
}

/* What a patch made that is no such patch is nothing to go on from. */
static void give_up(applier *p, exg_status status)
{
    exg_writer_abort(p->writer);
    if (p->journal != NULL && status == EXG_MALFORMED) {
        unlink(p->part);
        exg_save_journal_close(p->journal, true);
        p->journal = NULL;
    }
}

static exg_status apply(applier *p, const char *a, const char *patch, const char *path)
{
    exg_status status;

    EXG_TRY(exg_pool_create(p->options->threads, &p->pool, p->err));
    EXG_TRY(read_patch(p, patch));
    EXG_TRY(check_base(p, a));
    EXG_TRY(make_room(p));
    EXG_TRY(open_result(p, path));
    status = write_result(p);
    if (status == EXG_OK && p->journal != NULL) {
        status = exg_save_journal_end(p->journal, p->err);
    }
    if (status != EXG_OK) {
        give_up(p, status);
        return status;
    }
    return exg_writer_commit(p->writer, p->err);
}

static void clean_up(applier *p)
{
    if (p->readers != NULL) {
        exg_frame_readers_destroy(p->readers, exg_pipeline_workers(p->pool));
    }
    exg_mapping_release(&p->a);
    exg_mapping_release(&p->patch);
    exg_pool_destroy(p->pool);
    exg_arena_destroy(p->arena);
}

exg_status exg_patch_apply(const char *a, const char *patch, const char *path,
                           const exg_patch_options *given, exg_patch_info *info, exg_error *err)
{
    EXG_REQUIRE(err, a, patch, path);
    exg_patch_options options = {0};
    applier p = {.options = &options, .err = err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_patch_options, &options, given, err));
    p.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = p.arena == NULL ? EXG_OUT_OF_MEMORY(err) : apply(&p, a, patch, path);
    if (status == EXG_OK) {
        exg_patch_tell(&p.header, p.records, info);
    }
    exg_save_journal_close(p.journal, status == EXG_OK);
    clean_up(&p);
    return status;
}

exg_status exg_patch_describe(const char *patch, exg_patch_info *info, exg_error *err)
{
    EXG_REQUIRE(err, patch, info);
    applier p = {.err = err};
    exg_status status;

    p.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = p.arena == NULL ? EXG_OUT_OF_MEMORY(err) : read_patch(&p, patch);
    if (status == EXG_OK) {
        exg_patch_tell(&p.header, p.records, info);
    }
    clean_up(&p);
    return status;
}
