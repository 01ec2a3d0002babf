/* save_journal.c - PATH.resume:
 *
 *   'EXGSAVE1' | 32 digits that name the save | records
 *   record: u64 XXH3-64 of what follows | u64 file | u64 begin | u64 end | u64 hash low | u64 hash
 * high
 *
 * A record is about the bytes [begin, end) of a file as they were appended. */
#include "libexport/formats/save_journal.h"

#include "libexport/base/xxh3.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTED_BYTES (UINT64_C(16) << 20) /* between two records */

static const char magic[8] = {'E', 'X', 'G', 'S', 'A', 'V', 'E', '1'};

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

/* Is in the part what the record says? A piece at a time, so that memory does not grow
 * with it. */
static bool agrees(const exg_save_journal *j, const record *r, int descriptor)
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
        XXH3_128bits_update(j->hash, piece.data, (size_t)piece.length);
        at += piece.length;
        exg_mapping_release(&piece);
    }
    hash = XXH3_128bits_digest(j->hash);
    return hash.low64 == r->low && hash.high64 == r->high;
}

/* Records of one place may be several, where it was written again: one that holds is enough. */
static uint64_t believed(const exg_save_journal *j, int descriptor)
{
    uint64_t whole =
        j->found.length < sizeof(header) ? 0 : (j->found.length - sizeof(header)) / sizeof(record);
    uint64_t keep = 0;

    for (uint64_t i = 0; i < whole; i++) {
        record r;

        memcpy(&r, j->found.data + sizeof(header) + i * sizeof(r), sizeof(r));
        if (r.file == j->file && r.begin == keep && r.end > keep && agrees(j, &r, descriptor)) {
            keep = r.end;
        }
    }
    return keep;
}

void exg_save_journal_begin(exg_save_journal *j, uint32_t file, const char *part, uint64_t *keep)
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

static exg_status write_record(exg_save_journal *j, exg_error *err)
{
    XXH128_hash_t hash = XXH3_128bits_digest(j->hash);
    record r = {0, j->file, j->noted, j->at, hash.low64, hash.high64};

    r.checksum = checksum_of(&r);
    if (write(j->descriptor, &r, sizeof(r)) != (ssize_t)sizeof(r)) {
        return cannot_write(j, err);
    }
    j->noted = j->at;
    XXH3_128bits_reset(j->hash);
    return EXG_OK;
}

exg_status exg_save_journal_note(void *user, const void *data, uint64_t length, exg_error *err)
{
    exg_save_journal *j = user;

    XXH3_128bits_update(j->hash, data, (size_t)length);
    j->at += length;
    return j->at - j->noted < NOTED_BYTES ? EXG_OK : write_record(j, err);
}

exg_status exg_save_journal_end(exg_save_journal *j, exg_error *err)
{
    return j->at == j->noted ? EXG_OK : write_record(j, err);
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
