/* window.c - address space for bytes that lie elsewhere; which of them are there. */
#include "libexport/formats/window.h"

#include "libexport/base/arena.h"
#include "libexport/base/checked.h"
#include "libexport/base/pool.h"
#include "libexport/weights/storage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define UNIT_BYTES  (16u << 10)
#define GAP_BLOCKS  4            /* between two wanted ones: fetched too, for one request less */
#define FETCH_MAX   (256u << 20) /* that opening may fetch */
#define THREADS     8            /* that fetch */
#define AHEAD_BYTES (4u << 20)   /* of a storage that is read from its beginning to its end */

enum { BLOCK_ABSENT, BLOCK_WANTED, BLOCK_THERE };

typedef struct run {
    uint64_t offset, length;
    exg_status status;
    exg_error fault;
} run;

struct exg_window {
    exg_byte_source source;
    char *identity;
    uint8_t *data; /* of as many bytes as the source has */
    size_t mapped;
    uint64_t unit;
    uint8_t *blocks; /* BLOCK_* each, of one unit */
    uint64_t block_count, fetched;
    run *runs;
    uint32_t run_count, run_capacity;
};

static uint8_t nothing[1];

exg_status exg_window_create(const exg_byte_source *source, exg_window **window, exg_error *err)
{
    exg_window *w = calloc(1, sizeof(*w));

    *window = NULL;
    if (w == NULL) {
        if (source->close != NULL) {
            source->close(source->user);
        }
        return EXG_OUT_OF_MEMORY(err);
    }
    w->source = *source;
    w->data = nothing;
    if (source->data != NULL) { /* all are there */
        w->data = (uint8_t *)(uintptr_t)source->data;
        *window = w;
        return EXG_OK;
    }
    w->unit = source->unit == 0 ? UNIT_BYTES : source->unit;
    w->block_count = source->length / w->unit + 1;
    w->blocks = w->block_count > SIZE_MAX ? NULL : calloc((size_t)w->block_count, 1);
    w->identity = source->identity == NULL ? NULL : strdup(source->identity);
    if (w->blocks == NULL || (source->identity != NULL && w->identity == NULL)) {
        exg_window_destroy(w);
        return EXG_OUT_OF_MEMORY(err);
    }
    if (source->length > 0) { /* no memory is taken but for what is fetched */
        void *base = source->length > SIZE_MAX
                         ? MAP_FAILED
                         : mmap(NULL, (size_t)source->length, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (base == MAP_FAILED) {
            exg_window_destroy(w);
            return EXG_FAIL(err, LIMIT, "IO-SIZE",
                            "there is no address space for the %llu bytes of the file",
                            (unsigned long long)source->length);
        }
        w->data = base;
        w->mapped = (size_t)source->length;
    }
    *window = w;
    return EXG_OK;
}

void exg_window_destroy(exg_window *window)
{
    if (window == NULL) {
        return;
    }
    if (window->mapped > 0) {
        munmap(window->data, window->mapped);
    }
    if (window->source.close != NULL) {
        window->source.close(window->source.user);
    }
    free(window->identity);
    free(window->blocks);
    free(window->runs);
    free(window);
}

const uint8_t *exg_window_data(const exg_window *window)
{
    return window->data;
}

uint64_t exg_window_length(const exg_window *window)
{
    return window->source.length;
}

bool exg_window_is_whole(const exg_window *window)
{
    return window->source.data != NULL;
}

uint64_t exg_window_unit(const exg_window *window)
{
    return window->unit;
}

/* ---- fetching ----------------------------------------------------------------------------------
 */

void exg_window_want(exg_window *window, uint64_t offset, uint64_t length)
{
    uint64_t end = window->source.length;

    if (offset >= end || length == 0) {
        return;
    }
    end = length < end - offset ? offset + length : end;
    for (uint64_t b = offset / window->unit; b <= (end - 1) / window->unit; b++) {
        window->blocks[b] = window->blocks[b] == BLOCK_ABSENT ? BLOCK_WANTED : window->blocks[b];
    }
}

static exg_status add_run(exg_window *w, uint64_t first, uint64_t end, exg_error *err)
{
    uint64_t offset = first * w->unit;
    uint64_t last = end * w->unit < w->source.length ? end * w->unit : w->source.length;

    if (last - offset > FETCH_MAX - w->fetched) {
        return exg_error_fix(err,
                             EXG_FAIL(err, LIMIT, "SRC-WHOLE",
                                      "to open this model, more than %u MiB of %llu bytes "
                                      "elsewhere are needed",
                                      FETCH_MAX >> 20, (unsigned long long)w->source.length),
                             "fetch the file, and give the copy");
    }
    if (!exg_heap_reserve(&w->runs, w->run_count, &w->run_capacity, sizeof(*w->runs))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    w->fetched += last - offset;
    w->runs[w->run_count++] = (run){.offset = offset, .length = last - offset};
    memset(w->blocks + first, BLOCK_THERE, (size_t)(end - first));
    return EXG_OK;
}

/* What is wanted, in runs of blocks that are not there. */
static exg_status find_runs(exg_window *w, exg_error *err)
{
    uint64_t first = 0;
    uint64_t end = 0; /* of the run that is open; first: none is */

    w->run_count = 0;
    for (uint64_t b = 0; b < w->block_count; b++) {
        if (w->blocks[b] == BLOCK_WANTED && end > first && b - end <= GAP_BLOCKS) {
            end = b + 1;
        } else if (w->blocks[b] == BLOCK_WANTED || w->blocks[b] == BLOCK_THERE) {
            EXG_TRY(end > first ? add_run(w, first, end, err) : EXG_OK);
            first = b;
            end = w->blocks[b] == BLOCK_WANTED ? b + 1 : b;
        }
    }
    return end > first ? add_run(w, first, end, err) : EXG_OK;
}

/* Nothing is wanted any more, and what was to be fetched is not there. */
static void forget_runs(exg_window *w)
{
    for (uint64_t b = 0; b < w->block_count; b++) {
        w->blocks[b] = w->blocks[b] == BLOCK_WANTED ? BLOCK_ABSENT : w->blocks[b];
    }
    for (uint32_t i = 0; i < w->run_count; i++) {
        w->fetched -= w->runs[i].length;
        memset(w->blocks + w->runs[i].offset / w->unit, BLOCK_ABSENT,
               (size_t)((w->runs[i].length + w->unit - 1) / w->unit));
    }
    w->run_count = 0;
}

static void fetch_run(void *context, uint32_t index)
{
    exg_window *w = context;
    run *r = &w->runs[index];

    r->status =
        w->source.read(w->source.user, r->offset, r->length, w->data + r->offset, &r->fault);
}

exg_status exg_window_fetch(exg_window *window, exg_error *err)
{
    exg_pool *pool = NULL;
    exg_status status = find_runs(window, err);

    if (status == EXG_OK && window->run_count > 2) {
        status = exg_pool_create(THREADS, &pool, err);
    }
    if (status != EXG_OK) {
        forget_runs(window);
        return status;
    }
    exg_pool_run(pool, fetch_run, window, window->run_count);
    exg_pool_destroy(pool);
    for (uint32_t i = 0; i < window->run_count && status == EXG_OK; i++) {
        status = window->runs[i].status;
        if (status != EXG_OK && err != NULL) {
            *err = window->runs[i].fault;
        }
    }
    if (status != EXG_OK) {
        forget_runs(window);
    }
    return status;
}

/* Of a range that is inside and not empty. */
static bool is_there(const exg_window *w, uint64_t offset, uint64_t length)
{
    for (uint64_t b = offset / w->unit; b <= (offset + length - 1) / w->unit; b++) {
        if (w->blocks[b] != BLOCK_THERE) {
            return false;
        }
    }
    return true;
}

exg_status exg_window_need(exg_window *window, uint64_t offset, uint64_t length, uint64_t ahead,
                           exg_error *err)
{
    uint64_t left;

    if (offset >= window->source.length || length == 0 || window->source.data != NULL) {
        return EXG_OK;
    }
    left = window->source.length - offset;
    if (is_there(window, offset, length < left ? length : left)) {
        return EXG_OK;
    }
    exg_window_want(window, offset, length > ahead ? length : ahead);
    return exg_window_fetch(window, err);
}

/* ---- storages ----------------------------------------------------------------------------------
 */

/* Bytes that were read ahead. */
typedef struct ahead {
    uint8_t *bytes; /* AHEAD_BYTES, or NULL */
    uint64_t at, end;
} ahead;

/* A storage in a window. One that is read on and on is read ahead: by several threads, whose blocks
 * come in about their order, so that what was read before stays too. */
typedef struct piece {
    exg_window *window;
    uint64_t offset, length;
    pthread_mutex_t lock; /* over the rest */
    uint64_t next;        /* where the farthest read ended */
    uint64_t taken;       /* bytes in all */
    ahead ahead[2];       /* the later one first */
} piece;

static exg_status read_source(const piece *p, uint64_t offset, uint64_t length, void *out,
                              exg_error *err)
{
    return p->window->source.read(p->window->source.user, p->offset + offset, length, out, err);
}

static exg_status fill_ahead(piece *p, uint64_t offset, exg_error *err)
{
    ahead next = p->ahead[1];
    uint64_t rest = p->length - offset;

    next.bytes = next.bytes == NULL ? malloc(AHEAD_BYTES) : next.bytes;
    if (next.bytes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    next.at = next.end = offset;
    p->ahead[1] = p->ahead[0];
    p->ahead[0] = next;
    rest = rest < AHEAD_BYTES ? rest : AHEAD_BYTES;
    EXG_TRY(read_source(p, offset, rest, next.bytes, err));
    p->ahead[0].end = offset + rest;
    return EXG_OK;
}

static const ahead *find_ahead(const piece *p, uint64_t offset, uint64_t length)
{
    for (int i = 0; i < 2; i++) {
        if (offset >= p->ahead[i].at && offset + length <= p->ahead[i].end) {
            return &p->ahead[i];
        }
    }
    return NULL;
}

static void drop_ahead(piece *p)
{
    for (int i = 0; i < 2; i++) {
        free(p->ahead[i].bytes);
        p->ahead[i] = (ahead){0};
    }
}

/* exg_storage_maker.read */
static exg_status read_piece(void *user, uint64_t offset, uint64_t length, void *out,
                             exg_error *err)
{
    piece *p = user;
    const ahead *found;
    exg_status status = EXG_OK;

    if (length >= AHEAD_BYTES) {
        return read_source(p, offset, length, out, err);
    }
    pthread_mutex_lock(&p->lock);
    if (offset > 0 && offset == p->next && find_ahead(p, offset, length) == NULL) {
        status = fill_ahead(p, offset, err);
    }
    found = find_ahead(p, offset, length);
    if (status == EXG_OK && found != NULL) {
        memcpy(out, found->bytes + (offset - found->at), (size_t)length);
    }
    p->next = offset + length > p->next ? offset + length : p->next;
    p->taken += length;
    if (p->taken >= p->length) { /* it is read, or begun anew */
        drop_ahead(p);
        p->taken = p->next = 0;
    }
    pthread_mutex_unlock(&p->lock);
    return status == EXG_OK && found == NULL ? read_source(p, offset, length, out, err) : status;
}

static void release_piece(void *user)
{
    piece *p = user;

    drop_ahead(p);
    pthread_mutex_destroy(&p->lock);
}

static void release_window(void *user)
{
    exg_window_destroy(user);
}

static exg_status give_storage(exg_window *w, exg_weights *weights, exg_storage *storage,
                               exg_error *err)
{
    uint64_t offset = (uint64_t)(storage->data - w->data);
    piece *p = EXG_NEW(weights->arena, piece);
    const char *name =
        w->identity == NULL
            ? NULL
            : exg_arena_printf(weights->arena, "%s %llu %llu", w->identity,
                               (unsigned long long)offset, (unsigned long long)storage->length);

    if (p == NULL || (name == NULL && w->identity != NULL) ||
        pthread_mutex_init(&p->lock, NULL) != 0) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->window = w;
    p->offset = offset;
    p->length = storage->length;
    if (exg_weights_own(weights, release_piece, p, err) != EXG_OK) {
        pthread_mutex_destroy(&p->lock);
        return EXG_NO_MEMORY;
    }
    storage->kind = EXG_STORAGE_MADE; /* the checksum stays */
    storage->data = NULL;
    storage->maker = (exg_storage_maker){read_piece, p, name};
    return EXG_OK;
}

exg_status exg_window_give(exg_window *window, exg_weights *weights, exg_error *err)
{
    exg_status status = exg_weights_own(weights, release_window, window, err);

    if (status != EXG_OK) {
        exg_window_destroy(window);
        return status;
    }
    for (uint32_t i = 0; window->source.data == NULL && i < weights->storage_count; i++) {
        exg_storage *s = &weights->storages[i];

        if (s->kind == EXG_STORAGE_MEMORY && s->length > 0 && s->data >= window->data &&
            s->data < window->data + window->source.length &&
            !is_there(window, (uint64_t)(s->data - window->data), s->length)) {
            EXG_TRY(give_storage(window, weights, s, err));
        }
    }
    return EXG_OK;
}
