/* save.c - .exg written: metadata first, in a length that is known, then the payloads
 * block by block, then the numbers that are known only now.
 *
 * Storages are numbered by first use and unused ones are left out, so equal programs and
 * options give equal bytes. A data file beside the program is renamed into place before
 * the program is.
 */
#include "libexport/formats/exg/save.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        if (from->checksum.kind == EXG_CHECKSUM_UNKNOWN) {
            s->stored[s->count].declared_checksum = from->checksum.text;
        }
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

    EXG_TRY(exg_storage_read(s->weights, s->source[i], 0, length, s->plain[0], s->err));
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

static exg_status write_payloads(exg_saver *s, exg_writer *writer, uint32_t first, uint32_t end,
                                 bool beside)
{
    for (uint32_t i = first; i < end; i++) {
        if ((s->stored[i].location != NULL) == beside) {
            EXG_TRY_IN(s->err, exg_payload_write(s, writer, i), "storages[%u]", s->source[i]);
        }
    }
    return EXG_OK;
}

/* Before the program is there, so that it never names bytes that are not. */
static exg_status write_beside(exg_saver *s, const char *path, uint32_t i)
{
    exg_beside *beside = &s->besides[i];
    exg_writer *writer = NULL;
    exg_status status;

    EXG_TRY(exg_writer_open(path, &writer, s->err));
    status = write_payloads(s, writer, beside->first, beside->end, true);
    if (status == EXG_OK) {
        status = exg_beside_name(s, path, i);
    }
    if (status == EXG_OK) {
        status = exg_writer_name(writer, beside->path, s->err);
    }
    if (status != EXG_OK) {
        exg_writer_abort(writer);
        return status;
    }
    beside->fresh = access(beside->path, F_OK) != 0;
    status = exg_writer_commit(writer, s->err);
    beside->fresh = beside->fresh && status == EXG_OK;
    return status;
}

static exg_status write_main(exg_saver *s, exg_writer *writer, exg_flat *flat)
{
    EXG_TRY(exg_writer_reserve(writer, flat->length, s->err));
    EXG_TRY(write_payloads(s, writer, 0, s->count, false));
    exg_flat_finish(flat, s->stored, exg_writer_position(writer));
    return exg_writer_patch(writer, 0, flat->data, flat->length, s->err);
}

static exg_status write_files(exg_saver *s, const char *path, exg_flat *flat)
{
    exg_writer *writer = NULL;
    exg_status status = exg_writer_open(path, &writer, s->err); /* a bad path shows at once */

    for (uint32_t i = 0; status == EXG_OK && i < s->beside_count; i++) {
        status = write_beside(s, path, i);
    }
    if (status == EXG_OK) {
        status = write_main(s, writer, flat);
    }
    if (status == EXG_OK) {
        status = exg_writer_commit(writer, s->err);
    } else {
        exg_writer_abort(writer);
    }
    for (uint32_t i = 0; status != EXG_OK && i < s->beside_count; i++) {
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
    EXG_TRY(exg_flat_encode(s->program, s->map, s->stored, s->count, &flat, s->err));
    status = write_files(s, path, &flat);
    exg_flat_free(&flat);
    return status;
}

/* ---- what it takes ---------------------------------------------------------------------- */

static exg_status make_room(exg_saver *s)
{
    uint32_t workers = exg_pipeline_workers(s->pool);
    uint32_t slots = exg_pipeline_slots(s->pool);

    s->packers = EXG_NEW_ARRAY(s->arena, exg_packer *, workers);
    s->readers = EXG_NEW_ARRAY(s->arena, exg_frame_reader *, workers);
    s->plain = EXG_NEW_ARRAY(s->arena, uint8_t *, slots);
    s->packed = EXG_NEW_ARRAY(s->arena, uint8_t *, slots);
    if (s->packers == NULL || s->readers == NULL || s->plain == NULL || s->packed == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < workers; i++) {
        EXG_TRY(exg_packer_create(&s->packers[i], s->err));
        EXG_TRY(exg_frame_reader_create(&s->readers[i], s->err));
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
    for (uint32_t i = 0; s->readers != NULL && i < exg_pipeline_workers(s->pool); i++) {
        exg_packer_destroy(s->packers[i]);
        exg_frame_reader_destroy(s->readers[i]);
    }
    for (uint32_t i = 0; s->packed != NULL && i < exg_pipeline_slots(s->pool); i++) {
        free(s->plain[i]);
        free(s->packed[i]);
    }
}

exg_status exg_exg_save(const exg_program *program, const char *path,
                        const exg_save_options *options, exg_error *err)
{
    exg_saver s = {.program = program, .weights = program->weights, .options = options, .err = err};
    exg_status status;

    if ((options->align & (options->align - 1)) != 0) {
        return EXG_FAIL(err, USAGE, "EXG-055", "%llu is no power of two",
                        (unsigned long long)options->align);
    }
    s.arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
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
