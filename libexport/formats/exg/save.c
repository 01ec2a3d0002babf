/* save.c - .exg written: metadata first, in a length that is known, then the payloads
 * block by block, then the numbers that are known only now.
 *
 * Storages are numbered by first use and unused ones are left out, so equal programs and
 * options give equal bytes. External bytes go into one file, which is renamed into
 * place before the program is.
 */
#include "libexport/base/arena.h"
#include "libexport/base/files.h"
#include "libexport/base/map.h"
#include "libexport/formats/exg/flat.h"
#include "libexport/formats/format.h"
#include "libexport/weights/frames.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define BLOCK_BYTES      EXG_FRAME_BYTES
#define FRAMED_BYTES_MIN 512 /* what is smaller is stored plain */
#define ALIGN_SMALL      64
#define ALIGN_LARGE      4096 /* from 1 MiB up: pages of their own */

typedef struct saver {
    const exg_program *program;
    exg_weights *weights;
    const exg_save_options *options;
    exg_arena *arena;
    uint32_t *map;    /* storage -> index into stored, UINT32_MAX: not used */
    uint32_t *source; /* index into stored -> storage */
    uint8_t *widths;  /* index into stored -> bytes of an element, 0: nobody says */
    exg_stored *stored;
    uint32_t count;
    const char *external_name; /* inside the folder of the program */
    const char *external_path;
    exg_packer *packer;
    exg_writer *main;
    exg_writer *beside; /* NULL: nothing is external */
    uint8_t *block;     /* BLOCK_BYTES */
    uint8_t *other;     /* the same, to compare */
    uint64_t done, total;
    exg_error *err;
} saver;

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

static void use(saver *s, uint32_t storage, const exg_tensor_meta *meta)
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

static exg_status collect(saver *s)
{
    const exg_program *p = s->program;
    uint32_t count = s->weights->storage_count;

    s->map = EXG_NEW_ARRAY(s->arena, uint32_t, count);
    s->source = EXG_NEW_ARRAY(s->arena, uint32_t, count);
    s->widths = EXG_NEW_ARRAY(s->arena, uint8_t, count);
    s->stored = EXG_NEW_ARRAY(s->arena, exg_stored, count);
    s->block = malloc(BLOCK_BYTES);
    s->other = malloc(BLOCK_BYTES);
    if (s->map == NULL || s->source == NULL || s->widths == NULL || s->stored == NULL ||
        s->block == NULL || s->other == NULL) {
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

/* ---- equal storages once -------------------------------------------------------------- */

static uint64_t part_at(uint64_t length, uint64_t at)
{
    return length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;
}

static exg_status hash_storage(saver *s, uint32_t storage, XXH128_hash_t *hash)
{
    uint64_t length = s->weights->storages[storage].length;
    XXH3_state_t *state = XXH3_createState();
    exg_status status = state == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;

    if (status == EXG_OK) {
        XXH3_128bits_reset(state);
    }
    for (uint64_t at = 0; status == EXG_OK && at < length; at += BLOCK_BYTES) {
        status = exg_storage_read(s->weights, storage, at, part_at(length, at), s->block, s->err);
        if (status == EXG_OK) {
            XXH3_128bits_update(state, s->block, (size_t)part_at(length, at));
        }
    }
    if (status == EXG_OK) {
        *hash = XXH3_128bits_digest(state);
    }
    XXH3_freeState(state);
    return status;
}

static exg_status same_bytes(saver *s, uint32_t a, uint32_t b, bool *same)
{
    uint64_t length = s->weights->storages[a].length;

    *same = true;
    for (uint64_t at = 0; *same && at < length; at += BLOCK_BYTES) {
        uint64_t part = part_at(length, at);

        EXG_TRY(exg_storage_read(s->weights, a, at, part, s->block, s->err));
        EXG_TRY(exg_storage_read(s->weights, b, at, part, s->other, s->err));
        *same = memcmp(s->block, s->other, (size_t)part) == 0;
    }
    return EXG_OK;
}

/* Two storages are one when length, byte order, hash and then the bytes are the same. */
static exg_status deduplicate(saver *s)
{
    exg_map seen;
    uint32_t *moved = EXG_NEW_ARRAY(s->arena, uint32_t, s->count);
    uint32_t kept = 0;

    exg_map_init(&seen, s->arena);
    if (moved == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        XXH128_hash_t hash;
        const char *key;
        uint32_t twin;
        bool same = false;

        EXG_TRY(hash_storage(s, s->source[i], &hash));
        key = exg_arena_printf(
            s->arena, "%llx %llx %llx %d %s", (unsigned long long)hash.high64,
            (unsigned long long)hash.low64, (unsigned long long)s->stored[i].length,
            (int)s->stored[i].byte_order,
            s->stored[i].declared_checksum == NULL ? "" : s->stored[i].declared_checksum);
        twin = exg_map_find(&seen, key);
        if (twin != EXG_MAP_NONE) {
            EXG_TRY(same_bytes(s, s->source[twin], s->source[i], &same));
        } else if (key == NULL || !exg_map_put(&seen, key, kept)) {
            return EXG_OUT_OF_MEMORY(s->err);
        }
        moved[i] = same ? twin : kept;
        if (!same) {
            s->source[kept] = s->source[i];
            s->widths[kept] = s->widths[i];
            s->stored[kept++] = s->stored[i];
        }
    }
    for (uint32_t i = 0; i < s->weights->storage_count; i++) {
        s->map[i] = s->map[i] == UINT32_MAX ? UINT32_MAX : moved[s->map[i]];
    }
    s->count = kept;
    return EXG_OK;
}

/* ---- how it is stored ------------------------------------------------------------------ */

/* Does the first frame get shorter by a thirtieth? If not, bytes that can be mapped are
 * worth more. */
static exg_status frames_pay(saver *s, uint32_t i, uint32_t width, bool *pay)
{
    uint32_t length = (uint32_t)part_at(s->stored[i].length, 0);
    exg_frame frame;
    const uint8_t *packed;
    uint32_t bytes;

    EXG_TRY(exg_storage_read(s->weights, s->source[i], 0, length, s->block, s->err));
    exg_packer_pack(s->packer, width, s->block, length, &frame, &packed, &bytes);
    *pay = bytes < length - length / 30;
    return EXG_OK;
}

static exg_status plan_frames(saver *s, uint32_t i)
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

static bool goes_beside(const saver *s, uint32_t i)
{
    if (s->options->weights == EXG_WEIGHTS_KEEP) {
        return s->weights->storages[s->source[i]].location != NULL;
    }
    return s->options->weights == EXG_WEIGHTS_EXTERNAL;
}

/* "<stem>.weights", or what the caller wants, checked. */
static exg_status name_external(saver *s, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(base, '.');
    int stem = (int)(dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base));

    s->external_name = s->options->external_name;
    if (s->external_name == NULL) {
        s->external_name = exg_arena_printf(s->arena, "%.*s.weights", stem, base);
    }
    if (s->external_name == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    if (!exg_location_is_plain(s->external_name) || strchr(s->external_name, '/') != NULL ||
        strcmp(s->external_name, base) == 0) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, USAGE, "EXG-053",
                                      "'%s' cannot hold the weights of %s", s->external_name, base),
                             "give a file name without folders, other than the program's");
    }
    s->external_path =
        exg_arena_printf(s->arena, "%.*s%s", (int)(base - path), path, s->external_name);
    return s->external_path == NULL ? EXG_OUT_OF_MEMORY(s->err) : EXG_OK;
}

static exg_status plan(saver *s, const char *path)
{
    EXG_TRY(exg_packer_create(&s->packer, s->err));
    for (uint32_t i = 0; i < s->count; i++) {
        EXG_TRY(plan_frames(s, i));
        s->total += s->stored[i].length;
        if (goes_beside(s, i)) {
            if (s->external_name == NULL) {
                EXG_TRY(name_external(s, path));
            }
            s->stored[i].location = s->external_name;
        }
    }
    return EXG_OK;
}

/* ---- writing --------------------------------------------------------------------------- */

static exg_status write_block(saver *s, exg_writer *writer, exg_stored *to, uint64_t at)
{
    uint32_t part = (uint32_t)part_at(to->length, at);
    const uint8_t *bytes = s->block;
    uint32_t length = part;

    if (to->element_bytes != 0) {
        exg_frame *frame = &to->frames->items[at / EXG_FRAME_BYTES];

        exg_packer_pack(s->packer, to->element_bytes, s->block, part, frame, &bytes, &length);
        frame->offset = to->stored_length;
    }
    EXG_TRY(exg_writer_write(writer, bytes, length, s->err));
    to->stored_length += length;
    s->done += part;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->user, s->done, s->total);
    }
    return EXG_OK;
}

static exg_status write_storage(saver *s, uint32_t i)
{
    exg_stored *to = &s->stored[i];
    exg_writer *writer = to->location == NULL ? s->main : s->beside;
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t hash;
    exg_status status;

    if (state == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    XXH3_128bits_reset(state);
    status =
        exg_writer_align(writer, to->length >= EXG_FRAME_BYTES ? ALIGN_LARGE : ALIGN_SMALL, s->err);
    to->offset = exg_writer_position(writer);
    for (uint64_t at = 0; status == EXG_OK && at < to->length; at += BLOCK_BYTES) {
        uint64_t part = part_at(to->length, at);

        status = exg_storage_read(s->weights, s->source[i], at, part, s->block, s->err);
        if (status == EXG_OK) {
            XXH3_128bits_update(state, s->block, (size_t)part);
            status = write_block(s, writer, to, at);
        }
    }
    hash = XXH3_128bits_digest(state);
    to->hash_low = hash.low64;
    to->hash_high = hash.high64;
    XXH3_freeState(state);
    return status;
}

static exg_status write_all(saver *s, exg_flat *flat)
{
    EXG_TRY(exg_writer_write(s->main, flat->data, flat->length, s->err));
    for (uint32_t i = 0; i < s->count; i++) {
        EXG_TRY_IN(s->err, write_storage(s, i), "storages[%u]", s->source[i]);
    }
    exg_flat_finish(flat, s->stored, exg_writer_position(s->main));
    return exg_writer_patch(s->main, 0, flat->data, flat->length, s->err);
}

/* The data file first: a program never names bytes that are not there. */
static exg_status commit(saver *s)
{
    exg_writer *writer = s->beside;
    struct stat st;
    bool fresh = writer != NULL && stat(s->external_path, &st) != 0;
    exg_status status = EXG_OK;

    s->beside = NULL;
    if (writer != NULL) {
        status = exg_writer_commit(writer, s->err);
    }
    writer = s->main;
    if (status == EXG_OK) {
        s->main = NULL;
        status = exg_writer_commit(writer, s->err);
        if (status != EXG_OK && fresh) {
            unlink(s->external_path);
        }
    }
    return status;
}

static exg_status save(saver *s, const char *path)
{
    exg_flat flat = {0};
    exg_status status;

    EXG_TRY(collect(s));
    if (s->options->deduplicate) {
        EXG_TRY(deduplicate(s));
    }
    EXG_TRY(plan(s, path));
    EXG_TRY(exg_flat_encode(s->program, s->map, s->stored, s->count, &flat, s->err));
    status = exg_writer_open(path, &s->main, s->err);
    if (status == EXG_OK && s->external_path != NULL) {
        status = exg_writer_open(s->external_path, &s->beside, s->err);
    }
    if (status == EXG_OK) {
        status = write_all(s, &flat);
    }
    if (status == EXG_OK) {
        status = commit(s);
    }
    exg_writer_abort(s->main);
    exg_writer_abort(s->beside);
    exg_flat_free(&flat);
    return status;
}

exg_status exg_exg_save(const exg_program *program, const char *path,
                        const exg_save_options *options, exg_error *err)
{
    saver s = {.program = program, .weights = program->weights, .options = options, .err = err};
    exg_status status;

    s.arena = exg_arena_create(EXG_ARENA_UNBOUNDED);
    if (s.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = save(&s, path);
    exg_packer_destroy(s.packer);
    free(s.block);
    free(s.other);
    exg_arena_destroy(s.arena);
    return status;
}
