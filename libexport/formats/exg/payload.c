/* payload.c - the bytes of one storage: read, packed and written by all cores, hashed in
 * order, and compared with the checksum the source has. */
#include "libexport/base/xxh3.h"
#include "libexport/formats/exg/save.h"
#include "libexport/weights/checksum.h"
#include "libexport/weights/storage.h"

#include <stdio.h>

#define BLOCK_BYTES  EXG_FRAME_BYTES
#define ALIGN_SMALL  64
#define ALIGN_LARGE  4096 /* from 1 MiB up: pages of their own */
#define FORGET_BYTES (16u << 20)

typedef struct payload {
    exg_saver *saver;
    exg_writer *writer;
    exg_stored *to;
    uint32_t source;
    const uint8_t *data; /* where the plain bytes lie, or NULL */
    XXH3_state_t *hash;
    exg_checks checks; /* of what the source has, but for our own kind */
    exg_error *err;
} payload;

static uint32_t part_at(const payload *p, uint64_t at)
{
    return p->to->length - at < BLOCK_BYTES ? (uint32_t)(p->to->length - at) : BLOCK_BYTES;
}

static exg_status make_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    payload *p = context;
    exg_saver *s = p->saver;
    uint64_t at = block->index * BLOCK_BYTES;
    uint32_t part = part_at(p, at);
    const uint8_t *plain = p->data == NULL ? s->plain[block->slot] : p->data + at;

    if (p->data == NULL) {
        EXG_TRY(exg_storage_read_with(s->weights, p->source, at, part, s->plain[block->slot],
                                      s->readers[block->worker], err));
    } else {
        exg_storage_expect(s->weights, p->source, at, at + part);
    }
    if (p->to->element_bytes == 0) { /* its place is known: written in any order */
        return exg_writer_put(p->writer, p->to->offset + at, plain, part, err);
    }
    exg_packer_pack(s->packers[block->worker], p->to->element_bytes, plain, part,
                    &p->to->frames->items[block->index], s->packed[block->slot]);
    return EXG_OK;
}

static exg_status write_frame(payload *p, uint64_t index, const uint8_t *packed)
{
    exg_frame *frame = &p->to->frames->items[index];
    uint64_t length = exg_frame_stored_bytes(frame);

    frame->offset = p->to->stored_length;
    p->to->stored_length += length;
    return exg_writer_write(p->writer, packed, length, p->err);
}

static exg_status use_block(void *context, const exg_pipeline_block *block, exg_error *err)
{
    payload *p = context;
    exg_saver *s = p->saver;
    uint64_t at = block->index * BLOCK_BYTES;
    uint32_t part = part_at(p, at);
    uint64_t end = at + part;
    const uint8_t *plain = p->data == NULL ? s->plain[block->slot] : p->data + at;

    p->err = err;
    XXH3_128bits_update(p->hash, plain, part);
    exg_checks_add(&p->checks, plain, part);
    if (p->to->element_bytes != 0) {
        EXG_TRY(write_frame(p, block->index, s->packed[block->slot]));
    }
    if (end % FORGET_BYTES == 0 || end == p->to->length) {
        exg_storage_forget(s->weights, p->source, (end - 1) / FORGET_BYTES * FORGET_BYTES, end);
    }
    s->done += part;
    if (s->options->progress != NULL) {
        s->options->progress(s->options->user, s->done, s->total);
    }
    return EXG_OK;
}

/* The checksums of the source are not replaced unseen. */
static exg_status compare(payload *p, XXH128_hash_t hash, exg_error *err)
{
    const exg_storage *storage = &p->saver->weights->storages[p->source];
    char found[EXG_CHECKSUM_TEXT_MAX];

    snprintf(found, sizeof(found), "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    EXG_TRY(exg_checks_end(&p->checks, storage, EXG_OK, err));
    return exg_storage_compare(storage, EXG_CHECKSUM_XXH3_128, found, err);
}

static exg_status place(payload *p, exg_error *err)
{
    uint64_t alignment = p->to->length >= EXG_FRAME_BYTES ? ALIGN_LARGE : ALIGN_SMALL;

    if (p->saver->options->align > alignment) {
        alignment = p->saver->options->align;
    }
    EXG_TRY(exg_writer_align(p->writer, alignment, err));
    p->to->offset = exg_writer_position(p->writer);
    p->to->stored_length = 0;
    if (p->to->element_bytes == 0) {
        p->to->stored_length = p->to->length;
        return exg_writer_reserve(p->writer, p->to->length, err);
    }
    return EXG_OK;
}

static exg_status write_blocks(payload *p, exg_error *err)
{
    exg_saver *s = p->saver;
    const exg_storage *storage = &s->weights->storages[p->source];
    XXH128_hash_t hash;

    EXG_TRY(exg_storage_plain_bytes(s->weights, p->source, &p->data, err));
    EXG_TRY(exg_checks_begin(&p->checks, storage, EXG_CHECKSUM_XXH3_128, err));
    EXG_TRY(place(p, err));
    EXG_TRY(exg_pipeline_run(p->to->length > BLOCK_BYTES ? s->pool : NULL,
                             exg_frame_count(p->to->length), make_block, use_block, p, err));
    hash = XXH3_128bits_digest(p->hash);
    p->to->hash_low = hash.low64;
    p->to->hash_high = hash.high64;
    return compare(p, hash, err);
}

exg_status exg_payload_write(exg_saver *s, exg_writer *writer, uint32_t index)
{
    payload p = {.saver = s, .writer = writer, .to = &s->stored[index]};
    exg_status status;

    p.source = s->source[index];
    p.hash = XXH3_createState();
    if (p.hash == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    XXH3_128bits_reset(p.hash);
    status = write_blocks(&p, s->err);
    (void)exg_checks_end(&p.checks, &s->weights->storages[p.source], EXG_MALFORMED, NULL);
    XXH3_freeState(p.hash);
    return status;
}
