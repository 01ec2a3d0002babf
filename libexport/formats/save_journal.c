/* save_journal.c - PATH.resume:
 *
 *   'EXGSAVE2' | 32 digits that name the save | records
 *   record: u64 XXH3-64 of what follows | u64 file | u64 begin | u64 end | u64 hash low | u64 hash
 * high
 *
 * A record is about the bytes [begin, end) of a file as they were appended. With a hash of zeros it
 * says that they were zeros, and are patched: they count as zeros in the hash of another record,
 * and are patched again. */
#include "libexport/formats/save_journal.h"

#include "libexport/base/xxh3.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTED_BYTES (UINT64_C(16) << 20) /* between two records */

static const char magic[8] = {'E', 'X', 'G', 'S', 'A', 'V', 'E', '2'};

typedef struct header {
    char magic[8];
    char plan[EXG_SAVE_PLAN_DIGITS];
} header;

typedef struct record {
    uint64_t checksum, file, begin, end, low, high;
} record;

struct exg_save_journal {
    int descriptor;
    const char *path;
    exg_mapping found;  /* the records of an earlier try */
    uint64_t file;      /* at hand */
    uint64_t at, noted; /* where it stands, and up to where that is noted */
    XXH3_state_t *hash; /* of what is not noted */
};

/* The records of the file at hand that are patches, in order. */
typedef struct patches {
    record *items;
    uint64_t count;
} patches;

static uint64_t checksum_of(const record *r)
{
    return XXH3_64bits((const uint8_t *)r + sizeof(r->checksum), sizeof(*r) - sizeof(r->checksum));
}

static exg_status cannot_write(const exg_save_journal *j, exg_error *err)
{
    return EXG_FAIL(err, IO, "IO-WRITE", "cannot write %s: %s", j->path, strerror(errno));
}

/* The records of this very save stay; of what was cut off in the middle of one nothing does. */
static bool begin(exg_save_journal *j, const header *wanted)
{
    uint64_t end = sizeof(*wanted);

    if (exg_file_map(j->path, true, &j->found, NULL) == EXG_OK &&
        j->found.length >= sizeof(*wanted) && memcmp(j->found.data, wanted, sizeof(*wanted)) == 0) {
        uint64_t whole = (j->found.length - sizeof(*wanted)) / sizeof(record);

        for (uint64_t i = 0; i < whole; i++) {
            record r;

            memcpy(&r, j->found.data + sizeof(*wanted) + i * sizeof(r), sizeof(r));
            if (checksum_of(&r) != r.checksum) {
                break;
            }
            end += sizeof(r);
        }
        j->found.length = end;
    } else {
        exg_mapping_release(&j->found);
        if (ftruncate(j->descriptor, 0) != 0 ||
            pwrite(j->descriptor, wanted, sizeof(*wanted), 0) != (ssize_t)sizeof(*wanted)) {
            return false;
        }
    }
    return ftruncate(j->descriptor, (off_t)end) == 0 &&
           lseek(j->descriptor, (off_t)end, SEEK_SET) == (off_t)end;
}

exg_status exg_save_journal_open(const char *path, const char plan[EXG_SAVE_PLAN_DIGITS],
                                 exg_arena *arena, exg_save_journal **journal, exg_error *err)
{
    exg_save_journal *j = EXG_NEW(arena, exg_save_journal);
    header wanted;

    *journal = j;
    if (j != NULL) {
        j->descriptor = -1;
        j->path = exg_arena_printf(arena, "%s.resume", path);
    }
    if (j == NULL || j->path == NULL || (j->hash = XXH3_createState()) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    memcpy(wanted.magic, magic, sizeof(magic));
    memcpy(wanted.plan, plan, sizeof(wanted.plan));
    EXG_TRY(exg_file_open_alone(j->path, &j->descriptor, err));
    return begin(j, &wanted) ? EXG_OK : cannot_write(j, err);
}

static uint64_t found_count(const exg_save_journal *j)
{
    return j->found.length < sizeof(header) ? 0
                                            : (j->found.length - sizeof(header)) / sizeof(record);
}

static record found_record(const exg_save_journal *j, uint64_t index)
{
    record r;

    memcpy(&r, j->found.data + sizeof(header) + index * sizeof(r), sizeof(r));
    return r;
}

static bool is_patch(const record *r)
{
    return r->low == 0 && r->high == 0;
}

static int by_begin(const void *a, const void *b)
{
    const record *x = a;
    const record *y = b;

    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* false: out of memory. */
static bool find_patches(const exg_save_journal *j, patches *found)
{
    uint64_t count = 0;

    *found = (patches){0};
    for (uint64_t i = 0; i < found_count(j); i++) {
        record r = found_record(j, i);

        count += r.file == j->file && is_patch(&r);
    }
    if (count == 0) {
        return true;
    }
    found->items = calloc((size_t)count, sizeof(record));
    for (uint64_t i = 0; found->items != NULL && i < found_count(j); i++) {
        record r = found_record(j, i);

        if (r.file == j->file && is_patch(&r)) {
            found->items[found->count++] = r;
        }
    }
    if (found->items == NULL) {
        return false;
    }
    qsort(found->items, (size_t)count, sizeof(record), by_begin);
    return true;
}

/* The first that ends behind `at`; no two of one file overlap but those that are the same. */
static uint64_t first_behind(const patches *p, uint64_t at)
{
    uint64_t low = 0;
    uint64_t high = p->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (p->items[middle].end <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Adds a piece that lies at `begin`, as it was before it was patched. */
static void add_piece(XXH3_state_t *hash, const exg_mapping *piece, uint64_t begin,
                      const patches *patched)
{
    static const uint8_t zero;
    uint64_t end = begin + piece->length;
    uint64_t at = begin;

    for (uint64_t i = first_behind(patched, begin); i < patched->count; i++) {
        const record *r = &patched->items[i];

        if (r->begin >= end) {
            break;
        }
        if (r->begin > at) {
            XXH3_128bits_update(hash, piece->data + (at - begin), (size_t)(r->begin - at));
            at = r->begin;
        }
        for (; at < r->end && at < end; at++) {
            XXH3_128bits_update(hash, &zero, 1);
        }
    }
    XXH3_128bits_update(hash, piece->data + (at - begin), (size_t)(end - at));
}

/* Is in the part what the record says? A piece at a time, so that memory does not grow
 * with it. */
static bool agrees(const exg_save_journal *j, const record *r, const patches *patched,
                   int descriptor)
{
    XXH128_hash_t hash;
    uint64_t at = r->begin;

    XXH3_128bits_reset(j->hash);
    while (at < r->end) {
        uint64_t left = r->end - at;
        exg_mapping piece;

        if (exg_file_map_range(descriptor, "", at, left < NOTED_BYTES ? left : NOTED_BYTES, false,
                               &piece, NULL) != EXG_OK) {
            return false;
        }
        add_piece(j->hash, &piece, at, patched);
        at += piece.length;
        exg_mapping_release(&piece);
    }
    hash = XXH3_128bits_digest(j->hash);
    return hash.low64 == r->low && hash.high64 == r->high;
}

/* Records of one place may be several, where it was written again: one that holds is enough. */
static uint64_t believed(const exg_save_journal *j, int descriptor)
{
    patches patched;
    uint64_t keep = 0;

    if (!find_patches(j, &patched)) {
        return 0;
    }
    for (uint64_t i = 0; i < found_count(j); i++) {
        record r = found_record(j, i);

        if (r.file == j->file && !is_patch(&r) && r.begin == keep && r.end > keep &&
            agrees(j, &r, &patched, descriptor)) {
            keep = r.end;
        }
    }
    free(patched.items);
    return keep;
}

void exg_save_journal_begin(exg_save_journal *j, uint64_t file, const char *part, uint64_t *keep)
{
    int descriptor = open(part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    *keep = 0;
    j->file = file;
    if (descriptor >= 0) {
        *keep = believed(j, descriptor);
        close(descriptor);
    }
    j->at = j->noted = *keep;
    XXH3_128bits_reset(j->hash);
}

static exg_status write_record(const exg_save_journal *j, uint64_t begin, uint64_t end,
                               XXH128_hash_t hash, exg_error *err)
{
    record r = {0, j->file, begin, end, hash.low64, hash.high64};

    r.checksum = checksum_of(&r);
    return write(j->descriptor, &r, sizeof(r)) == (ssize_t)sizeof(r) ? EXG_OK
                                                                     : cannot_write(j, err);
}

static exg_status note_appended(exg_save_journal *j, exg_error *err)
{
    EXG_TRY(write_record(j, j->noted, j->at, XXH3_128bits_digest(j->hash), err));
    j->noted = j->at;
    XXH3_128bits_reset(j->hash);
    return EXG_OK;
}

exg_status exg_save_journal_note(void *user, uint64_t offset, const void *data, uint64_t length,
                                 exg_error *err)
{
    exg_save_journal *j = user;

    if (offset < j->at) {
        return write_record(j, offset, offset + length, (XXH128_hash_t){0, 0}, err);
    }
    XXH3_128bits_update(j->hash, data, (size_t)length);
    j->at += length;
    return j->at - j->noted < NOTED_BYTES ? EXG_OK : note_appended(j, err);
}

exg_status exg_save_journal_end(exg_save_journal *j, exg_error *err)
{
    return j->at == j->noted ? EXG_OK : note_appended(j, err);
}

void exg_save_journal_close(exg_save_journal *journal, bool done)
{
    if (journal == NULL) {
        return;
    }
    exg_mapping_release(&journal->found);
    XXH3_freeState(journal->hash);
    if (journal->descriptor >= 0) {
        if (done) {
            unlink(journal->path); /* before the lock goes */
        }
        close(journal->descriptor);
    }
}
