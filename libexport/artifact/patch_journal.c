/* patch_journal.c - PATH.resume:
 *
 *   'EXGPATJ1' | u64 bytes of A | u64 bytes of B | 32 SHA-256 of A | 32 of B | entries
 *   entry: u64 XXH3-64 of what follows | 64 a record, as it is in a patch */
#include "libexport/artifact/patch_journal.h"

#include "libexport/base/little.h"
#include "libexport/base/xxh3.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HEADER_BYTES 88
#define ENTRY_BYTES  (8 + EXG_PATCH_RECORD_BYTES)

struct exg_patch_journal {
    int descriptor;
    const char *path;
};

static exg_status cannot_write(const exg_patch_journal *j, exg_error *err)
{
    return EXG_FAIL(err, IO, "IO-WRITE", "cannot write %s: %s", j->path, strerror(errno));
}

static void put_header(const exg_patch_header *header, uint8_t out[HEADER_BYTES])
{
    memcpy(out, "EXGPATJ1", 8);
    exg_little_put(out + 8, header->a_bytes, 8);
    exg_little_put(out + 16, header->b_bytes, 8);
    memcpy(out + 24, header->a_sha256, 32);
    memcpy(out + 56, header->b_sha256, 32);
}

/* Is the frame of the record in the part, as it was made? */
static bool has_frame(const exg_mapping *part, const exg_patch_record *record, uint64_t at)
{
    uint64_t bytes = exg_frame_stored_bytes(&record->frame);

    return bytes <= part->length - at &&
           (bytes == 0 || XXH3_64bits(part->data + at, (size_t)bytes) == record->frame.checksum);
}

/* What is read back. */
typedef struct reader {
    const exg_patch_header *header;
    exg_patch_fits_fn *fits;
    void *user;
    exg_patch_record *records;
    uint32_t count;
    uint64_t keep;
} reader;

/* The entries up to the first that does not hold. */
static exg_status believe(reader *r, const exg_mapping *found, const exg_mapping *part,
                          exg_arena *arena, exg_error *err)
{
    uint64_t entries = (found->length - HEADER_BYTES) / ENTRY_BYTES;
    const uint8_t *entry = found->data + HEADER_BYTES;
    uint64_t at = EXG_PATCH_HEADER_BYTES;

    entries = entries < UINT32_MAX ? entries : UINT32_MAX;
    r->records = EXG_NEW_ARRAY(arena, exg_patch_record, (size_t)entries);
    if (r->records == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (; r->count < entries && part->length >= at; entry += ENTRY_BYTES) {
        exg_patch_record *record = &r->records[r->count];

        if (XXH3_64bits(entry + 8, EXG_PATCH_RECORD_BYTES) != exg_little_get(entry, 8) ||
            !exg_patch_record_read(entry + 8, r->header, record) ||
            !r->fits(r->user, r->count, record) || !has_frame(part, record, at)) {
            break;
        }
        at += exg_frame_stored_bytes(&record->frame);
        r->count++;
    }
    r->keep = r->count > 0 ? at : 0;
    return EXG_OK;
}

static exg_status read_back(reader *r, const char *journal, const char *part_path,
                            const uint8_t wanted[HEADER_BYTES], exg_arena *arena, exg_error *err)
{
    exg_mapping found = {0};
    exg_mapping part = {0};
    exg_status status = EXG_OK;

    if (exg_file_map(journal, true, &found, NULL) == EXG_OK && found.length >= HEADER_BYTES &&
        memcmp(found.data, wanted, HEADER_BYTES) == 0 &&
        exg_file_map(part_path, false, &part, NULL) == EXG_OK) {
        status = believe(r, &found, &part, arena, err);
    }
    exg_mapping_release(&part);
    exg_mapping_release(&found);
    return status;
}

exg_status exg_patch_journal_open(const char *path, const char *part,
                                  const exg_patch_header *header, exg_patch_fits_fn *fits,
                                  void *user, exg_arena *arena, exg_patch_journal **journal,
                                  exg_patch_record **records, uint32_t *count, uint64_t *keep,
                                  exg_error *err)
{
    exg_patch_journal *j = EXG_NEW(arena, exg_patch_journal);
    reader r = {.header = header, .fits = fits, .user = user};
    uint8_t wanted[HEADER_BYTES];
    off_t end;

    *journal = j;
    if (j != NULL) {
        j->descriptor = -1;
        j->path = exg_arena_printf(arena, "%s.resume", path);
    }
    if (j == NULL || j->path == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    put_header(header, wanted);
    EXG_TRY(exg_file_open_alone(j->path, &j->descriptor, err));
    EXG_TRY(read_back(&r, j->path, part, wanted, arena, err));
    *records = r.records;
    *count = r.count;
    *keep = r.keep;
    end = HEADER_BYTES + (off_t)r.count * ENTRY_BYTES;
    return pwrite(j->descriptor, wanted, HEADER_BYTES, 0) == HEADER_BYTES &&
                   ftruncate(j->descriptor, end) == 0 && lseek(j->descriptor, end, SEEK_SET) == end
               ? EXG_OK
               : cannot_write(j, err);
}

exg_status exg_patch_journal_note(exg_patch_journal *journal, const exg_patch_record *record,
                                  exg_error *err)
{
    uint8_t entry[ENTRY_BYTES];

    exg_patch_record_write(record, entry + 8);
    exg_little_put(entry, XXH3_64bits(entry + 8, EXG_PATCH_RECORD_BYTES), 8);
    return write(journal->descriptor, entry, sizeof(entry)) == (ssize_t)sizeof(entry)
               ? EXG_OK
               : cannot_write(journal, err);
}

void exg_patch_journal_close(exg_patch_journal *journal, bool done)
{
    if (journal != NULL && journal->descriptor >= 0) {
        if (done) {
            unlink(journal->path); /* before the lock goes */
        }
        close(journal->descriptor);
    }
}
