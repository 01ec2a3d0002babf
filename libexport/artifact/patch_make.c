/* patch_make.c - what of B is in A: windows that are equal, that differ, that are new. */
#include "libexport/artifact/extents.h"
#include "libexport/artifact/file_hash.h"
#include "libexport/artifact/patch_file.h"
#include "libexport/artifact/patch_journal.h"
#include "libexport/base/map.h"
#include "libexport/base/options.h"
#include "libexport/base/pipeline.h"
#include "libexport/base/require.h"
#include "libexport/base/xxh3.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES  EXG_FRAME_BYTES /* of tensors */
#define BETWEEN_BYTES (64u << 10)     /* of what lies between them, where little changes */
#define NOWHERE       UINT64_MAX
#define NOBODY        UINT32_MAX

/* Bytes of B at `to`, and what they are compared with. */
typedef struct window {
    uint64_t to, from; /* in A, or NOWHERE */
    uint32_t length, width;
} window;

/* What became of a window, till it is written. */
typedef struct slot {
    exg_patch_record record;
    uint8_t *stored, *other; /* EXG_FRAME_BYTES each: the frame, and one that may be shorter */
    uint8_t *difference, *room;
} slot;

typedef struct maker {
    exg_extents a, b;
    uint32_t *partners; /* of the extents of B in A, or NOBODY */
    exg_arena *arena;
    window *windows;
    uint32_t window_count, window_capacity;
    exg_patch_record *records;
    uint32_t record_count, record_capacity;
    exg_pool *pool;
    exg_packer **packers; /* a worker each */
    slot *slots;
    exg_writer *writer;
    exg_patch_journal *journal; /* or NULL */
    uint32_t done;              /* windows of an earlier try */
    exg_patch_header header;
    const exg_patch_options *options;
    exg_error *err;
} maker;

/* ---- which tensor of A is compared with which of B ---------------------------------------------
 */

/* By name, where the elements are alike. */
static exg_status pair_names(maker *m, bool *taken)
{
    exg_map names;

    exg_map_init(&names, m->arena);
    for (uint32_t i = 0; i < m->a.count; i++) {
        if (m->a.items[i].name != NULL && !exg_map_put(&names, m->a.items[i].name, i)) {
            return EXG_OUT_OF_MEMORY(m->err);
        }
    }
    for (uint32_t i = 0; i < m->b.count; i++) {
        const exg_extent *b = &m->b.items[i];
        uint32_t found = b->name == NULL ? EXG_MAP_NONE : exg_map_find(&names, b->name);

        if (found != EXG_MAP_NONE && m->a.items[found].width == b->width) {
            m->partners[i] = found;
            taken[found] = true;
        }
    }
    return EXG_OK;
}

static XXH128_hash_t hash_extent(const exg_extents *of, uint32_t index)
{
    const exg_extent *e = &of->items[index];
    XXH128_hash_t hash = XXH3_128bits(of->mapping.data + e->offset, (size_t)e->length);

    exg_mapping_forget(&of->mapping, e->offset, e->offset + e->length);
    return hash;
}

typedef struct hashed {
    XXH128_hash_t hash;
    uint64_t length;
    uint32_t width, index;
} hashed;

static int by_length(const void *x, const void *y)
{
    const hashed *a = x;
    const hashed *b = y;

    return a->length != b->length ? (a->length > b->length ? 1 : -1)
           : a->width != b->width ? (a->width > b->width ? 1 : -1)
           : a->index != b->index ? (a->index > b->index ? 1 : -1)
                                  : 0;
}

/* The extents of tensors that nobody was found for, by length. */
static hashed *list_rest(maker *m, const exg_extents *of, const bool *taken, uint32_t *count)
{
    hashed *list = EXG_NEW_ARRAY(m->arena, hashed, of->count + 1);

    *count = 0;
    for (uint32_t i = 0; list != NULL && i < of->count; i++) {
        const bool has = taken != NULL ? taken[i] : m->partners[i] != NOBODY;

        if (of->items[i].name != NULL && !has) {
            list[(*count)++] =
                (hashed){.length = of->items[i].length, .width = of->items[i].width, .index = i};
        }
    }
    if (list != NULL) {
        qsort(list, *count, sizeof(*list), by_length);
    }
    return list;
}

static int by_hash(const void *x, const void *y)
{
    const hashed *a = x;
    const hashed *b = y;
    const int order = XXH128_cmp(&a->hash, &b->hash);

    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static void hash_group(const exg_extents *of, hashed *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        list[i].hash = hash_extent(of, list[i].index);
    }
    qsort(list, count, sizeof(*list), by_hash);
}

/* Extents of one length and width. */
static void pair_group(maker *m, bool *taken, hashed *a, uint32_t a_count, hashed *b,
                       uint32_t b_count)
{
    uint32_t i = 0;

    hash_group(&m->a, a, a_count);
    hash_group(&m->b, b, b_count);
    for (uint32_t j = 0; j < b_count; j++) {
        while (i < a_count && XXH128_cmp(&a[i].hash, &b[j].hash) < 0) {
            i++;
        }
        if (i < a_count && XXH128_isEqual(a[i].hash, b[j].hash)) {
            m->partners[b[j].index] = a[i].index;
            taken[a[i].index] = true;
        }
    }
    qsort(a, a_count, sizeof(*a), by_length);
    qsort(b, b_count, sizeof(*b), by_length);
    i = 0;
    for (uint32_t j = 0; j < b_count; j++) {
        while (i < a_count && taken[a[i].index]) {
            i++;
        }
        if (i < a_count && m->partners[b[j].index] == NOBODY) {
            m->partners[b[j].index] = a[i++].index;
        }
    }
}

static uint32_t group_end(const hashed *list, uint32_t count, uint32_t first)
{
    uint32_t end = first;

    while (end < count && list[end].length == list[first].length &&
           list[end].width == list[first].width) {
        end++;
    }
    return end;
}

/* Of the others those with the same bytes, then those of the same length in their order. */
static exg_status pair_rest(maker *m, bool *taken)
{
    uint32_t a_count;
    uint32_t b_count;
    hashed *a = list_rest(m, &m->a, taken, &a_count);
    hashed *b = list_rest(m, &m->b, NULL, &b_count);
    uint32_t i = 0;

    if (a == NULL || b == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t j = 0; j < b_count;) {
        const uint32_t b_end = group_end(b, b_count, j);
        uint32_t a_end;

        while (i < a_count && (a[i].length < b[j].length ||
                               (a[i].length == b[j].length && a[i].width < b[j].width))) {
            i++;
        }
        a_end = i < a_count && a[i].length == b[j].length && a[i].width == b[j].width
                    ? group_end(a, a_count, i)
                    : i;
        if (a_end > i) {
            pair_group(m, taken, a + i, a_end - i, b + j, b_end - j);
        }
        i = a_end;
        j = b_end;
    }
    return EXG_OK;
}

/* What lies between goes with what lies before the same tensor; first and last with each other. */
static uint32_t between_in_a(const maker *m, uint32_t index)
{
    const uint32_t next = index + 1 < m->b.count ? m->partners[index + 1] : NOBODY;
    uint32_t found = index == 0                   ? 0
                     : index + 1 == m->b.count    ? m->a.count - 1
                     : next != NOBODY && next > 0 ? next - 1
                                                  : NOBODY;

    return found < m->a.count && m->a.items[found].name == NULL ? found : NOBODY;
}

static exg_status pair_all(maker *m)
{
    bool *taken = EXG_NEW_ARRAY(m->arena, bool, m->a.count + 1);

    m->partners = EXG_NEW_ARRAY(m->arena, uint32_t, m->b.count + 1);
    if (taken == NULL || m->partners == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    memset(taken, 0, m->a.count * sizeof(bool));
    for (uint32_t i = 0; i < m->b.count; i++) {
        m->partners[i] = NOBODY;
    }
    EXG_TRY(pair_names(m, taken));
    EXG_TRY(pair_rest(m, taken));
    for (uint32_t i = 0; i < m->b.count; i++) {
        if (m->b.items[i].name == NULL) {
            m->partners[i] = between_in_a(m, i);
        }
    }
    return EXG_OK;
}

/* ---- windows -----------------------------------------------------------------------------------
 */

static exg_status add_windows(maker *m, uint64_t to, uint64_t from, uint64_t length, uint32_t width,
                              uint32_t step)
{
    for (uint64_t at = 0; at < length; at += step) {
        const uint64_t left = length - at;

        if (!exg_arena_reserve(m->arena, &m->windows, m->window_count, &m->window_capacity,
                               sizeof(window))) {
            return EXG_OUT_OF_MEMORY(m->err);
        }
        m->windows[m->window_count++] = (window){.to = to + at,
                                                 .from = from == NOWHERE ? NOWHERE : from + at,
                                                 .length = left < step ? (uint32_t)left : step,
                                                 .width = width};
    }
    return EXG_OK;
}

/* How many bytes are the same from the beginning on. */
static uint64_t common_prefix(const maker *m, const exg_extent *a, const exg_extent *b)
{
    const uint64_t most = a->length < b->length ? a->length : b->length;
    const uint8_t *x = m->a.mapping.data + a->offset;
    const uint8_t *y = m->b.mapping.data + b->offset;
    uint64_t at = 0;

    while (most - at >= WINDOW_BYTES && memcmp(x + at, y + at, WINDOW_BYTES) == 0) {
        at += WINDOW_BYTES;
        exg_mapping_forget(&m->a.mapping, a->offset + at - WINDOW_BYTES, a->offset + at);
        exg_mapping_forget(&m->b.mapping, b->offset + at - WINDOW_BYTES, b->offset + at);
    }
    while (at < most && x[at] == y[at]) {
        at++;
    }
    return at;
}

/* A tensor from its beginning; what lies between from both ends. */
static exg_status add_extent(maker *m, uint32_t index)
{
    const exg_extent *b = &m->b.items[index];
    const exg_extent *a = m->partners[index] == NOBODY ? NULL : &m->a.items[m->partners[index]];
    const uint32_t step = b->name == NULL ? BETWEEN_BYTES : WINDOW_BYTES;
    uint64_t first; /* what is compared from the beginning on */
    uint64_t alone; /* behind it, without anything to compare */
    uint64_t last;

    if (a == NULL) {
        return add_windows(m, b->offset, NOWHERE, b->length, b->width, step);
    }
    first = b->name == NULL         ? common_prefix(m, a, b)
            : a->length < b->length ? a->length
                                    : b->length;
    last = b->name == NULL ? b->length - first : 0;
    last = last < a->length - first ? last : a->length - first;
    alone = b->length - first - last;
    EXG_TRY(add_windows(m, b->offset, a->offset, first, b->width, step));
    EXG_TRY(add_windows(m, b->offset + first, NOWHERE, alone, b->width, step));
    return add_windows(m, b->offset + first + alone, a->offset + a->length - last, last, b->width,
                       step);
}

/* ---- the body ----------------------------------------------------------------------------------
 */

/* The frame that was made in `other` takes the place of what was. */
static void take_other(slot *s, exg_patch_kind kind, const exg_frame *frame)
{
    uint8_t *shorter = s->other;

    s->other = s->stored;
    s->stored = shorter;
    s->record.kind = kind;
    s->record.frame = *frame;
}

/* What tells the window in the least bytes. */
static void pack_window(slot *s, const window *w, const uint8_t *a, const uint8_t *b,
                        exg_packer *packer)
{
    uint32_t stored = EXG_FRAME_BYTES + 1;
    exg_frame other;
    uint32_t made;

    if (a != NULL) {
        s->record.kind = EXG_PATCH_DIFFERENCE;
        exg_patch_subtract(a, b, w->width, w->length, s->difference);
        stored = exg_packer_pack(packer, w->width, s->difference, w->length, &s->record.frame,
                                 s->stored);
        made = exg_patch_pack_sparse(packer, s->difference, w->width, w->length, s->room, &other,
                                     s->other);
        if (made > 0 && made < stored) {
            stored = made;
            take_other(s, EXG_PATCH_SPARSE, &other);
        }
    }
    if (stored > w->length / 2 && /* else nothing is won by another look */
        exg_packer_pack(packer, w->width, b, w->length, &other, s->other) < stored) {
        take_other(s, EXG_PATCH_NEW, &other);
        s->record.from = 0;
    }
}

static exg_status make_window(void *context, const exg_pipeline_block *block, exg_error *err)
{
    maker *m = context;
    slot *s = &m->slots[block->slot];
    const window *w = &m->windows[m->done + block->index];
    const uint8_t *b = m->b.mapping.data + w->to;
    const uint8_t *a = w->from == NOWHERE ? NULL : m->a.mapping.data + w->from;

    (void)err;
    s->record = (exg_patch_record){.width = w->width, .length = w->length, .from = w->from};
    if (a != NULL && memcmp(a, b, w->length) == 0) {
        s->record.kind = EXG_PATCH_COPY;
    } else {
        pack_window(s, w, a, b, m->packers[block->worker]);
    }
    exg_mapping_forget(&m->b.mapping, w->to, w->to + w->length);
    if (a != NULL) {
        exg_mapping_forget(&m->a.mapping, w->from, w->from + w->length);
    }
    return EXG_OK;
}

/* Copies that follow one another are one. */
static bool extend_copy(maker *m, const exg_patch_record *record)
{
    exg_patch_record *last = m->record_count == 0 ? NULL : &m->records[m->record_count - 1];

    if (last == NULL || record->kind != EXG_PATCH_COPY || last->kind != EXG_PATCH_COPY ||
        last->from + last->length != record->from) {
        return false;
    }
    last->length += record->length;
    return true;
}

static exg_status add_record(maker *m, const exg_patch_record *record)
{
    if (extend_copy(m, record)) {
        return EXG_OK;
    }
    if (!exg_arena_reserve(m->arena, &m->records, m->record_count, &m->record_capacity,
                           sizeof(exg_patch_record))) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    m->records[m->record_count++] = *record;
    return EXG_OK;
}

static exg_status use_window(void *context, const exg_pipeline_block *block, exg_error *err)
{
    maker *m = context;
    const slot *s = &m->slots[block->slot];
    const window *w = &m->windows[m->done + block->index];

    if (m->options->progress != NULL) {
        m->options->progress(m->options->user, w->to + w->length, m->b.mapping.length);
    }
    EXG_TRY(add_record(m, &s->record));
    EXG_TRY(exg_writer_write(m->writer, s->stored, exg_frame_stored_bytes(&s->record.frame), err));
    return m->journal == NULL ? EXG_OK : exg_patch_journal_note(m->journal, &s->record, err);
}

static exg_status write_records(maker *m)
{
    XXH3_state_t *hasher = XXH3_createState();
    exg_status status = hasher == NULL ? EXG_OUT_OF_MEMORY(m->err) : EXG_OK;

    if (status == EXG_OK) {
        XXH3_64bits_reset(hasher);
    }
    for (uint32_t r = 0; r < m->record_count && status == EXG_OK; r++) {
        uint8_t bytes[EXG_PATCH_RECORD_BYTES];

        exg_patch_record_write(&m->records[r], bytes);
        XXH3_64bits_update(hasher, bytes, sizeof(bytes));
        status = exg_writer_write(m->writer, bytes, sizeof(bytes), m->err);
    }
    if (status == EXG_OK) {
        m->header.records_checksum = XXH3_64bits_digest(hasher);
    }
    XXH3_freeState(hasher);
    return status;
}

static void hash_side(void *context, uint32_t side)
{
    maker *m = context;

    if (side == 0) {
        exg_mapping_hash(&m->a.mapping, 0, m->a.mapping.length, m->header.a_sha256);
    } else {
        exg_mapping_hash(&m->b.mapping, 0, m->b.mapping.length, m->header.b_sha256);
    }
}

static exg_status write_patch(maker *m)
{
    uint8_t header[EXG_PATCH_HEADER_BYTES] = {0};

    if (exg_writer_position(m->writer) == 0) {
        EXG_TRY(exg_writer_write(m->writer, header, sizeof(header), m->err));
    }
    EXG_TRY(
        exg_pipeline_run(m->pool, m->window_count - m->done, make_window, use_window, m, m->err));
    EXG_TRY(write_records(m));
    m->header.record_count = m->record_count;
    m->header.file_bytes = exg_writer_position(m->writer);
    exg_patch_header_write(&m->header, header);
    return exg_writer_patch(m->writer, 0, header, sizeof(header), m->err);
}

/* ---- an earlier try -----------------------------------------------------------------------------
 */

/* Windows follow from A and B alone. */
static bool is_of(void *context, uint32_t index, const exg_patch_record *record)
{
    const maker *m = context;
    const window *w = &m->windows[index];

    return index < m->window_count && record->length == w->length && record->width == w->width &&
           (record->kind == EXG_PATCH_NEW || record->from == w->from);
}

static exg_status go_on(maker *m, const char *path)
{
    exg_patch_record *records = NULL;
    char *written = NULL;
    const char *part;
    uint64_t keep = 0;

    EXG_TRY(exg_path_written(path, &written, m->err));
    part = exg_arena_printf(m->arena, "%s.part", written);
    free(written);
    if (part == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    EXG_TRY(exg_patch_journal_open(path, part, &m->header, is_of, m, m->arena, &m->journal,
                                   &records, &m->done, &keep, m->err));
    for (uint32_t i = 0; i < m->done; i++) {
        EXG_TRY(add_record(m, &records[i]));
    }
    return exg_writer_open_part(path, part, keep, &m->writer, m->err);
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static exg_status make_room(maker *m)
{
    const uint32_t workers = exg_pipeline_workers(m->pool);
    const uint32_t slots = exg_pipeline_slots(m->pool);

    m->packers = EXG_NEW_ARRAY(m->arena, exg_packer *, workers);
    m->slots = EXG_NEW_ARRAY(m->arena, slot, slots);
    if (m->packers == NULL || m->slots == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    memset(m->packers, 0, workers * sizeof(*m->packers));
    for (uint32_t i = 0; i < slots; i++) {
        m->slots[i].stored = exg_arena_alloc(m->arena, 1, EXG_FRAME_BYTES);
        m->slots[i].other = exg_arena_alloc(m->arena, 1, EXG_FRAME_BYTES);
        m->slots[i].difference = exg_arena_alloc(m->arena, 1, EXG_FRAME_BYTES);
        m->slots[i].room = exg_arena_alloc(m->arena, 1, EXG_FRAME_BYTES);
        if (m->slots[i].stored == NULL || m->slots[i].other == NULL ||
            m->slots[i].difference == NULL || m->slots[i].room == NULL) {
            return EXG_OUT_OF_MEMORY(m->err);
        }
    }
    for (uint32_t i = 0; i < workers; i++) {
        EXG_TRY(exg_packer_create(&m->packers[i], m->err));
    }
    return EXG_OK;
}

static exg_status make_patch(maker *m, const char *a, const char *b, const char *path)
{
    exg_status status;

    EXG_TRY(exg_pool_create(m->options->threads, &m->pool, m->err));
    EXG_TRY(exg_extents_read(a, &m->a, m->err));
    EXG_TRY(exg_extents_read(b, &m->b, m->err));
    EXG_TRY(make_room(m));
    m->header.a_bytes = m->a.mapping.length;
    m->header.b_bytes = m->b.mapping.length;
    exg_pool_run(m->pool, hash_side, m, 2);
    EXG_TRY(pair_all(m));
    for (uint32_t i = 0; i < m->b.count; i++) {
        EXG_TRY(add_extent(m, i));
    }
    EXG_TRY(m->options->resume ? go_on(m, path) : exg_writer_open(path, &m->writer, m->err));
    status = write_patch(m);
    status = status == EXG_OK ? exg_mapping_check(&m->a.mapping, a, m->err) : status;
    status = status == EXG_OK ? exg_mapping_check(&m->b.mapping, b, m->err) : status;
    if (status != EXG_OK) {
        exg_writer_abort(m->writer);
        return status;
    }
    return exg_writer_commit(m->writer, m->err);
}

exg_status exg_patch_make(const char *a, const char *b, const char *path,
                          const exg_patch_options *given, exg_patch_info *info, exg_error *err)
{
    EXG_REQUIRE(err, a, b, path);
    exg_patch_options options = {0};
    maker m = {.options = &options, .err = err};
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_patch_options, &options, given, err));
    m.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status = m.arena == NULL ? EXG_OUT_OF_MEMORY(err) : make_patch(&m, a, b, path);
    if (status == EXG_OK) {
        exg_patch_tell(&m.header, m.records, info);
    }
    exg_patch_journal_close(m.journal, status == EXG_OK);
    for (uint32_t i = 0; m.packers != NULL && i < exg_pipeline_workers(m.pool); i++) {
        exg_packer_destroy(m.packers[i]);
    }
    exg_extents_free(&m.a);
    exg_extents_free(&m.b);
    exg_pool_destroy(m.pool);
    exg_arena_destroy(m.arena);
    return status;
}
