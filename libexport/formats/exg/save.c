/* save.c - .exg written: metadata first, in a length that is known, then the payloads
 * block by block, then the numbers that are known only now.
 *
 * Storages are numbered by first use and unused ones are left out, so equal programs and
 * options give equal bytes. A data file beside the program is renamed into place before
 * the program is.
 */
#include "libexport/formats/exg/save.h"

#include "libexport/formats/exg/resume.h"
#include "libexport/formats/weights_file.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/storage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGN_MAX (1ull << 30) /* the largest pages there are */

#define FRAMED_BYTES_MIN 512 /* what is smaller is stored plain */

/* ---- what is stored ------------------------------------------------------------------- */

static uint8_t width_of(const exg_tensor_meta *meta)
{
    uint32_t bytes;

    if (meta == NULL) {
        return 0;
    }
    bytes = exg_dtype_bytes(meta->dtype) / (exg_dtype_is_complex(meta->dtype) ? 2 : 1);
    return (uint8_t)bytes;
}

static void use(exg_saver *s, uint32_t storage, const exg_tensor_meta *meta)
{
    if (s->map[storage] == UINT32_MAX) {
        const exg_storage *from = &s->weights->storages[storage];

        s->map[storage] = s->count;
        s->source[s->count] = storage;
        s->stored[s->count].length = from->length;
        s->stored[s->count].byte_order = from->byte_order;
        s->stored[s->count].declared_checksum = exg_storage_unknown_checksum(from);
        s->count++;
    }
    if (s->widths[s->map[storage]] == 0) {
        s->widths[s->map[storage]] = width_of(meta);
    }
}

static exg_status collect(exg_saver *s)
{
    const exg_program *p = s->program;
    uint32_t count = s->weights->storage_count;

    s->map = EXG_NEW_ARRAY(s->arena, uint32_t, count);
    s->source = EXG_NEW_ARRAY(s->arena, uint32_t, count);
    s->widths = EXG_NEW_ARRAY(s->arena, uint8_t, count);
    s->stored = EXG_NEW_ARRAY(s->arena, exg_stored, count);
    if (s->map == NULL || s->source == NULL || s->widths == NULL || s->stored == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        s->map[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < s->weights->count; i++) {
        use(s, s->weights->items[i].storage, s->weights->items[i].meta);
    }
    for (uint32_t i = 0; i < p->sample_input_count; i++) {
        if (p->sample_inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            use(s, p->sample_inputs[i].storage, p->sample_inputs[i].meta);
        }
    }
    for (uint32_t i = 0; i < p->extra_file_count; i++) {
        use(s, p->extra_files[i].storage, NULL);
    }
    return EXG_OK;
}

/* ---- how it is stored ------------------------------------------------------------------ */

/* Does the first frame get shorter by a thirtieth? If not, bytes that can be mapped are
 * worth more. */
static exg_status frames_pay(exg_saver *s, uint32_t i, uint32_t width, bool *pay)
{
    uint64_t whole = s->stored[i].length;
    uint32_t length = whole < EXG_FRAME_BYTES ? (uint32_t)whole : EXG_FRAME_BYTES;
    exg_frame frame;

    EXG_TRY(exg_storage_read_with(s->weights, s->source[i], 0, length, s->plain[0], s->readers[0],
                                  s->err)); /* all of it is compared later */
    *pay = exg_packer_pack(s->packers[0], width, s->plain[0], length, &frame, s->packed[0]) <
           length - length / 30;
    return EXG_OK;
}

static exg_status plan_frames(exg_saver *s, uint32_t i)
{
    const exg_storage *from = &s->weights->storages[s->source[i]];
    exg_stored *to = &s->stored[i];
    uint32_t width = s->widths[i] == 0 || s->widths[i] > 8 ? 1 : s->widths[i];
    bool framed = false;

    if (s->options->compression == EXG_COMPRESSION_KEEP && from->kind == EXG_STORAGE_FRAMES) {
        framed = true;
        width = from->frames->element_bytes;
    } else if (s->options->compression == EXG_COMPRESSION_ZSTD && to->length >= FRAMED_BYTES_MIN) {
        EXG_TRY(frames_pay(s, i, width, &framed));
    }
    if (!framed) {
        return EXG_OK;
    }
    if (exg_frame_count(to->length) > UINT32_MAX) {
        return EXG_FAIL(s->err, LIMIT, "EXG-052", "a storage passes 4 PiB");
    }
    to->element_bytes = width;
    to->frame_count = (uint32_t)exg_frame_count(to->length);
    to->frames = EXG_NEW(s->arena, exg_frames);
    if (to->frames == NULL ||
        (to->frames->items = EXG_NEW_ARRAY(s->arena, exg_frame, to->frame_count)) == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    return EXG_OK;
}

static exg_status plan(exg_saver *s, const char *path)
{
    for (uint32_t i = 0; i < s->count; i++) {
        EXG_TRY(plan_frames(s, i));
        s->total += s->stored[i].length;
    }
    return exg_besides_plan(s, path);
}

/* ---- writing --------------------------------------------------------------------------- */

/* A file being written: the program's, or number `beside` of those next to it. */
typedef struct output {
    exg_writer *writer;
    const char *part; /* resumed: what it is called meanwhile */
    uint32_t first, end;
    bool beside;
    uint32_t skip; /* storages that are there from an earlier try */
} output;

static exg_status open_output(exg_saver *s, const char *path, output *out)
{
    uint64_t position;
    char *written;

    if (s->resume == NULL) {
        return exg_save_open(s->options, path, &out->writer, s->err);
    }
    EXG_TRY(exg_path_written(path, &written, s->err)); /* the part is renamed to it */
    out->part = out->beside    ? exg_arena_printf(s->arena, "%s.part-%05u", path, out->first)
                : s->in_folder ? exg_arena_strdup(s->arena, written)
                               : exg_arena_printf(s->arena, "%s.part", written);
    free(written);
    if (out->part == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    out->skip =
        exg_resume_count(s->resume, s, out->part, out->first, out->end, out->beside, &position);
    return exg_writer_open_part(path, out->part, position, &out->writer, s->err);
}

static exg_status write_payloads(exg_saver *s, const output *out)
{
    uint32_t skip = out->skip;
    exg_status status;

    for (uint32_t i = out->first; i < out->end; i++) {
        if ((s->stored[i].location != NULL) != out->beside) {
            continue;
        }
        if (skip > 0) {
            skip--;
            continue;
        }
        status = exg_payload_write(s, out->writer, i);
        if (status != EXG_OK) {
            return exg_storage_within(s->weights, s->source[i], status, s->err);
        }
        if (s->resume != NULL) {
            EXG_TRY(exg_resume_note(s->resume, s, i));
        }
    }
    return EXG_OK;
}

static uint32_t count_beside(const exg_saver *s, const exg_beside *beside)
{
    uint32_t count = 0;

    for (uint32_t i = beside->first; i < beside->end; i++) {
        count += s->stored[i].location != NULL;
    }
    return count;
}

/* Did an earlier try finish this file? Its name follows from what the journal says of it. */
static bool was_finished(exg_saver *s, const char *path, uint32_t i)
{
    exg_beside *beside = &s->besides[i];
    const exg_beside before = *beside;
    uint64_t done = s->done;
    uint64_t position;

    if (s->resume == NULL || !exg_resume_fill(s->resume, s, beside->first, beside->end) ||
        exg_beside_name(s, path, i) != EXG_OK) {
        return false;
    }
    if (exg_resume_count(s->resume, s, beside->path, beside->first, beside->end, true, &position) ==
        count_beside(s, beside)) {
        return true;
    }
    *beside = before;
    s->done = done;
    return false;
}

/* Before the program is there, so that it never names bytes that are not. */
static exg_status write_beside(exg_saver *s, const char *path, uint32_t i)
{
    exg_beside *beside = &s->besides[i];
    output out = {.first = beside->first, .end = beside->end, .beside = true};
    exg_status status;

    if (was_finished(s, path, i)) {
        return EXG_OK;
    }
    EXG_TRY(open_output(s, path, &out));
    status = write_payloads(s, &out);
    if (status == EXG_OK) {
        status = exg_beside_name(s, path, i);
    }
    if (status == EXG_OK) {
        status = exg_writer_name(out.writer, beside->path, s->err);
    }
    if (status != EXG_OK) {
        exg_writer_abort(out.writer);
        return status;
    }
    beside->fresh = access(beside->path, F_OK) != 0;
    status = exg_writer_commit(out.writer, s->err);
    beside->fresh = beside->fresh && status == EXG_OK && !s->options->dry_run;
    return status;
}

static exg_status write_main(exg_saver *s, const output *out, exg_flat *flat)
{
    if (exg_writer_position(out->writer) < flat->length) {
        EXG_TRY(exg_writer_reserve(out->writer, flat->length - exg_writer_position(out->writer),
                                   s->err));
    }
    EXG_TRY(write_payloads(s, out));
    exg_flat_finish(flat, s->stored, exg_writer_position(out->writer));
    return exg_writer_patch(out->writer, 0, flat->data, flat->length, s->err);
}

static exg_status write_files(exg_saver *s, const char *path, exg_flat *flat)
{
    output out = {.end = s->count};
    exg_status status = open_output(s, path, &out); /* a bad path shows at once */

    for (uint32_t i = 0; status == EXG_OK && i < s->beside_count; i++) {
        status = write_beside(s, path, i);
    }
    if (status == EXG_OK) {
        status = write_main(s, &out, flat);
    }
    if (status == EXG_OK) {
        status = exg_writer_commit(out.writer, s->err);
    } else {
        exg_writer_abort(out.writer);
    }
    for (uint32_t i = 0; status != EXG_OK && s->resume == NULL && i < s->beside_count; i++) {
        if (s->besides[i].fresh) {
            unlink(s->besides[i].path);
        }
    }
    return status;
}

static exg_status save(exg_saver *s, const char *path)
{
    exg_flat flat = {0};
    exg_status status;

    EXG_TRY(collect(s));
    if (s->options->deduplicate) {
        EXG_TRY(exg_saver_deduplicate(s));
    }
    EXG_TRY(plan(s, path));
    EXG_TRY(exg_flat_encode(s->program, s->alone, s->map, s->stored, s->count, &flat, s->err));
    status = s->options->resume ? exg_resume_open(s, path, &flat, &s->resume) : EXG_OK;
    status = status == EXG_OK ? write_files(s, path, &flat) : status;
    exg_resume_close(s->resume, status == EXG_OK && !s->in_folder);
    exg_flat_free(&flat);
    return status;
}

/* ---- what it takes ---------------------------------------------------------------------- */

static exg_status make_room(exg_saver *s)
{
    uint32_t workers = exg_pipeline_workers(s->pool);
    uint32_t slots = exg_pipeline_slots(s->pool);

    s->packers = EXG_NEW_ARRAY(s->arena, exg_packer *, workers);
    s->plain = EXG_NEW_ARRAY(s->arena, uint8_t *, slots);
    s->packed = EXG_NEW_ARRAY(s->arena, uint8_t *, slots);
    if (s->packers == NULL || s->plain == NULL || s->packed == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(exg_frame_readers_create(workers, &s->readers, s->err));
    for (uint32_t i = 0; i < workers; i++) {
        EXG_TRY(exg_packer_create(&s->packers[i], s->err));
    }
    for (uint32_t i = 0; i < slots; i++) {
        s->plain[i] = malloc(EXG_FRAME_BYTES);
        s->packed[i] = malloc(EXG_FRAME_BYTES);
        if (s->plain[i] == NULL || s->packed[i] == NULL) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
    }
    return EXG_OK;
}

static void free_room(exg_saver *s)
{
    uint32_t workers = exg_pipeline_workers(s->pool);

    exg_frame_readers_destroy(s->readers, workers);
    for (uint32_t i = 0; s->packers != NULL && i < workers; i++) {
        exg_packer_destroy(s->packers[i]);
    }
    for (uint32_t i = 0; s->packed != NULL && i < exg_pipeline_slots(s->pool); i++) {
        free(s->plain[i]);
        free(s->packed[i]);
    }
}

static exg_status save_program(const exg_program *program, bool alone, bool in_folder,
                               const char *path, const exg_save_options *options, exg_error *err)
{
    exg_saver s = {.program = program,
                   .alone = alone,
                   .in_folder = in_folder,
                   .weights = program->weights,
                   .options = options,
                   .err = err};
    exg_status status;

    if ((options->align & (options->align - 1)) != 0 || options->align > ALIGN_MAX) {
        return EXG_FAIL(err, USAGE, "EXG-055", "%llu is not a power of two up to 1 GiB",
                        (unsigned long long)options->align);
    }
    s.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    if (s.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_pool_create(options->threads, &s.pool, err);
    status = status == EXG_OK ? make_room(&s) : status;
    status = status == EXG_OK ? save(&s, path) : status;
    free_room(&s);
    exg_pool_destroy(s.pool);
    exg_arena_destroy(s.arena);
    return status;
}

exg_status exg_exg_save(const exg_program *const *programs, uint32_t count, const char *path,
                        const exg_save_options *options, exg_error *err)
{
    (void)count; /* one */
    return save_program(programs[0], false, false, path, options, err);
}

/* As those of a program that does nothing. */
exg_status exg_container_save(exg_weights *weights, const char *path, bool in_folder,
                              const exg_save_options *options, exg_error *err)
{
    exg_program *program;
    exg_status status;

    EXG_TRY(exg_program_create(NULL, EXG_ARENA_UNBOUNDED, &program, err));
    exg_weights_release(program->weights);
    program->weights = exg_weights_retain(weights);
    status = save_program(program, true, in_folder, path, options, err);
    exg_program_destroy(program);
    return status;
}
