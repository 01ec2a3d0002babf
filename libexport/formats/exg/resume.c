/* resume.c - the journal of a save, and what of it can be believed.
 *
 *   'EXGRESUM' | 16 bytes that name program, bytes and options | records
 *   record: u64 XXH3-64 of what follows | u32 storage | u32 frames | u64 offset |
 *           u64 stored bytes | u64 hash low | u64 hash high | frames
 */
#include "libexport/formats/exg/resume.h"

#include "libexport/base/checked.h"
#include "libexport/base/xxh3.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (UINT64_C(16) << 20)

static const char magic[8] = {'E', 'X', 'G', 'R', 'E', 'S', 'U', 'M'};

typedef struct header {
    char magic[8];
    uint64_t low, high;
} header;

typedef struct record {
    uint64_t checksum;
    uint32_t storage, frame_count;
    uint64_t offset, stored_length, hash_low, hash_high;
} record;

struct exg_resume {
    int descriptor;
    const char *path;
    const record **records; /* by index into stored; NULL: not written */
    exg_mapping mapping;    /* of the journal as it was found */
};

/* ---- names ---------------------------------------------------------------------------------- */

/* What the bytes are: the source's checksums say it, or where one has none, where they come from.
 */
static exg_status add_source(exg_saver *s, XXH3_state_t *state)
{
    exg_hasher *hasher;
    char digits[EXG_CHECKSUM_TEXT_MAX];
    exg_status status;
    uint32_t known = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        known += exg_checksum_is_known(&s->weights->storages[s->source[i]].checksum);
    }
    if (known == s->count) {
        return EXG_OK;
    }
    hasher = exg_hasher_create(EXG_CHECKSUM_XXH3_128);
    if (hasher == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    status = exg_weights_identify_bytes(s->weights, s->pool, hasher, s->err);
    exg_hasher_finish(hasher, digits);
    XXH3_128bits_update(state, digits, strlen(digits));
    return status;
}

/* The metadata without its numbers, how it is laid out, and what the source says of its
 * bytes. */
static exg_status name_save(exg_saver *s, const exg_flat *flat, XXH3_state_t *state, header *made)
{
    XXH128_hash_t hash;

    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, flat->data, flat->length);
    XXH3_128bits_update(state, &s->options->align, sizeof(s->options->align));
    for (uint32_t i = 0; i < s->count; i++) {
        const exg_storage *storage = &s->weights->storages[s->source[i]];

        for (uint32_t k = 0; k <= storage->further_count; k++) {
            const char *text = k == 0 ? storage->checksum.text : storage->further[k - 1].text;

            if (text != NULL) {
                XXH3_128bits_update(state, text, strlen(text) + 1);
            }
        }
    }
    EXG_TRY(add_source(s, state));
    hash = XXH3_128bits_digest(state);
    memcpy(made->magic, magic, sizeof(magic));
    made->low = hash.low64;
    made->high = hash.high64;
    return EXG_OK;
}

/* ---- the journal ------------------------------------------------------------------------------
 */

static uint64_t hash_record(const record *r, const exg_frame *frames, XXH3_state_t *state)
{
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, (const uint8_t *)r + sizeof(r->checksum),
                       sizeof(*r) - sizeof(r->checksum));
    if (r->frame_count > 0) {
        XXH3_64bits_update(state, frames, r->frame_count * sizeof(*frames));
    }
    return XXH3_64bits_digest(state);
}

static const exg_frame *frames_of(const record *r)
{
    return (const exg_frame *)(const void *)(r + 1); /* both take 48 bytes */
}

/* Keeps the records that are whole; gives where they end. */
static uint64_t read_records(exg_resume *r, const exg_saver *s, XXH3_state_t *state)
{
    uint64_t at = sizeof(header);

    while (exg_range_inside(at, sizeof(record), r->mapping.length)) {
        const record *found = (const record *)(const void *)(r->mapping.data + at);
        uint64_t bytes = sizeof(*found) + found->frame_count * (uint64_t)sizeof(exg_frame);

        if (!exg_range_inside(at, bytes, r->mapping.length) || found->storage >= s->count ||
            found->frame_count != s->stored[found->storage].frame_count ||
            hash_record(found, frames_of(found), state) != found->checksum) {
            break;
        }
        r->records[found->storage] = found;
        at += bytes;
    }
    return at;
}

/* What the journal of an earlier try says, if it is of this very save; else a new one. */
static exg_status begin(exg_resume *r, exg_saver *s, const exg_flat *flat)
{
    XXH3_state_t *state = XXH3_createState();
    header wanted;
    uint64_t end = sizeof(header);
    exg_status status =
        state == NULL ? EXG_OUT_OF_MEMORY(s->err) : name_save(s, flat, state, &wanted);
    bool good;

    if (status != EXG_OK) {
        XXH3_freeState(state);
        return status;
    }
    if (exg_file_map(r->path, false, &r->mapping, NULL) == EXG_OK &&
        r->mapping.length >= sizeof(wanted) &&
        memcmp(r->mapping.data, &wanted, sizeof(wanted)) == 0) {
        end = read_records(r, s, state);
        good = ftruncate(r->descriptor, (off_t)end) == 0;
    } else {
        exg_mapping_release(&r->mapping);
        good = ftruncate(r->descriptor, 0) == 0 &&
               pwrite(r->descriptor, &wanted, sizeof(wanted), 0) == (ssize_t)sizeof(wanted);
    }
    XXH3_freeState(state);
    return good && lseek(r->descriptor, (off_t)end, SEEK_SET) == (off_t)end
               ? EXG_OK
               : EXG_FAIL(s->err, IO, "IO-WRITE", "cannot write %s: %s", r->path, strerror(errno));
}

exg_status exg_resume_open(exg_saver *s, const char *path, const exg_flat *flat,
                           exg_resume **resume)
{
    exg_resume *r = EXG_NEW(s->arena, exg_resume);

    *resume = r;
    if (r != NULL) {
        r->descriptor = -1;
    }
    if (r == NULL || (r->path = exg_arena_printf(s->arena, "%s.resume", path)) == NULL ||
        (r->records = EXG_NEW_ARRAY(s->arena, const record *, s->count)) == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    EXG_TRY(exg_file_open_alone(r->path, &r->descriptor, s->err));
    return begin(r, s, flat);
}

void exg_resume_close(exg_resume *resume, bool done)
{
    if (resume != NULL && resume->descriptor >= 0) {
        exg_mapping_release(&resume->mapping);
        if (done) {
            unlink(resume->path); /* before the lock goes */
        }
        close(resume->descriptor);
    }
}

exg_status exg_resume_note(exg_resume *resume, exg_saver *s, uint32_t index)
{
    const exg_stored *stored = &s->stored[index];
    const exg_frame *frames = stored->frame_count == 0 ? NULL : stored->frames->items;
    size_t bytes = stored->frame_count * sizeof(*frames);
    record r = {0,
                index,
                stored->frame_count,
                stored->offset,
                stored->stored_length,
                stored->hash_low,
                stored->hash_high};
    XXH3_state_t *state = XXH3_createState();

    if (state == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    r.checksum = hash_record(&r, frames, state);
    XXH3_freeState(state);
    if (write(resume->descriptor, &r, sizeof(r)) != (ssize_t)sizeof(r) ||
        (bytes > 0 && write(resume->descriptor, frames, bytes) != (ssize_t)bytes)) {
        return EXG_FAIL(s->err, IO, "IO-WRITE", "cannot write %s: %s", resume->path,
                        strerror(errno));
    }
    return EXG_OK;
}

/* ---- belief -----------------------------------------------------------------------------------
 */

/* Plain bytes, some at a time, so that memory does not grow with them. */
static bool plain_agrees(const record *r, int descriptor)
{
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t hash = {0, 0};
    bool there = state != NULL;

    if (there) {
        XXH3_128bits_reset(state);
    }
    for (uint64_t at = 0; there && at < r->stored_length; at += PIECE_BYTES) {
        uint64_t left = r->stored_length - at;
        exg_mapping piece;

        there = r->offset <= UINT64_MAX - at &&
                exg_file_map_range(descriptor, "", r->offset + at,
                                   left < PIECE_BYTES ? left : PIECE_BYTES, false, &piece,
                                   NULL) == EXG_OK;
        if (there) {
            XXH3_128bits_update(state, piece.data, (size_t)piece.length);
            exg_mapping_release(&piece);
        }
    }
    if (there) {
        hash = XXH3_128bits_digest(state);
    }
    XXH3_freeState(state);
    return there && hash.low64 == r->hash_low && hash.high64 == r->hash_high;
}

static bool frame_agrees(const record *r, const exg_frame *frame, int descriptor)
{
    exg_mapping mapping;
    bool same;

    if (frame->offset > UINT64_MAX - r->offset ||
        exg_file_map_range(descriptor, "", r->offset + frame->offset, exg_frame_stored_bytes(frame),
                           false, &mapping, NULL) != EXG_OK) {
        return false;
    }
    same = XXH3_64bits(mapping.data, (size_t)mapping.length) == frame->checksum;
    exg_mapping_release(&mapping);
    return same;
}

/* Are the bytes of the record in the file, and are they those that were written? */
static bool agrees(const record *r, const exg_stored *stored, int descriptor)
{
    const exg_frames frames = {.items = (exg_frame *)(uintptr_t)frames_of(r),
                               .plain_length = stored->length,
                               .stored_length = r->stored_length,
                               .count = r->frame_count,
                               .element_bytes = stored->element_bytes};
    bool same = true;

    if (stored->element_bytes == 0) {
        return r->stored_length == stored->length && plain_agrees(r, descriptor);
    }
    if (exg_frames_check_index(&frames, NULL) != EXG_OK) {
        return false;
    }
    for (uint32_t i = 0; same && i < frames.count; i++) {
        same = frame_agrees(r, &frames.items[i], descriptor);
    }
    return same;
}

static void believe(const record *r, exg_stored *stored)
{
    stored->offset = r->offset;
    stored->stored_length = r->stored_length;
    stored->hash_low = r->hash_low;
    stored->hash_high = r->hash_high;
    if (r->frame_count > 0) {
        memcpy(stored->frames->items, frames_of(r), r->frame_count * sizeof(exg_frame));
    }
}

bool exg_resume_fill(exg_resume *resume, exg_saver *s, uint32_t first, uint32_t end)
{
    bool all = true;

    for (uint32_t i = first; i < end; i++) {
        if (s->stored[i].location != NULL && resume->records[i] != NULL) {
            believe(resume->records[i], &s->stored[i]);
        }
        all = all && (s->stored[i].location == NULL || resume->records[i] != NULL);
    }
    return all;
}

uint32_t exg_resume_count(exg_resume *resume, exg_saver *s, const char *path, uint32_t first,
                          uint32_t end, bool beside, uint64_t *position)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint32_t count = 0;

    *position = 0;
    for (uint32_t i = first; descriptor >= 0 && i < end; i++) {
        const record *r = resume->records[i];

        if ((s->stored[i].location != NULL) != beside) {
            continue;
        }
        if (r == NULL || r->offset < *position || !agrees(r, &s->stored[i], descriptor)) {
            break;
        }
        believe(r, &s->stored[i]);
        *position = r->offset + r->stored_length;
        s->done += s->stored[i].length;
        count++;
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
    return count;
}
