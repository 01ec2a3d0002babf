/* files.h - files in and out: mapping, confined opening, writing that cannot
 * leave half a file.
 *
 * A mapping is read only and private; touching what another process has cut off its
 * file since raises SIGBUS, but where it is a copy. A writer writes beside its target and renames
 * at the end: the old file or the new one is there at any moment, and an aborted writer leaves
 * nothing. Where the file system knows files without a name, neither does a process that is
 * killed, but in the moment between a name beside an old file and the old file's own.
 * Threads: one at a time each.
 */
#ifndef EXG_LIBEXPORT_BASE_FILES_H
#define EXG_LIBEXPORT_BASE_FILES_H

#include <exg/byte_source.h>
#include <exg/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- in ---------------------------------------------------------------------- */

/* A file as it was when it was opened: another one, or one that was written to since, has other
 * numbers. Times are in nanoseconds. */
typedef struct exg_file_identity {
    uint64_t device, inode, bytes, modified, changed;
} exg_file_identity;

typedef struct exg_mapping {
    const uint8_t *data; /* of an empty range: not NULL, not to be followed */
    uint64_t length;
    void *base; /* what munmap wants */
    size_t base_length;
    bool is_copy; /* of memory that no file is behind */
    exg_file_identity identity;
} exg_mapping;

/* Maps a regular file whole, or reads it into memory (`copies`). IO, UNSUPPORTED (a folder, a
 * pipe), NO_MEMORY. */
exg_status exg_file_map(const char *path, bool copies, exg_mapping *mapping, exg_error *err);

/* Maps [offset, offset + length) of an open file; the range must be inside it
 * (MALFORMED). The descriptor may be closed afterwards. */
exg_status exg_file_map_range(int descriptor, const char *name, uint64_t offset, uint64_t length,
                              bool copies, exg_mapping *mapping, exg_error *err);

/* Is `path` still the file that was mapped, as it was? IO (IO-CHANGED). */
exg_status exg_mapping_check(const exg_mapping *mapping, const char *path, exg_error *err);

/* Gives the pages that hold the bytes [first, end) back to the system; they come again when they
 * are read. A copy stays. */
void exg_mapping_forget(const exg_mapping *mapping, uint64_t first, uint64_t end);

/* Of mapped bytes single ones are read, far from each other, or from now on others again: a page
 * that is missing is brought alone, not with megabytes around it. Of other memory it means
 * nothing. */
void exg_pages_read_apart(const void *data, uint64_t length, bool apart);

/* An all-zero mapping is allowed. */
void exg_mapping_release(exg_mapping *mapping);

/* Is `location` a relative path in UTF-8 without empty, "." or ".." components and
 * without backslashes? */
bool exg_location_is_plain(const char *location);

/* MALFORMED (WGT-LOC) of one that is not. */
exg_status exg_location_refuse(const char *location, exg_error *err);

#define EXG_STEM_MAX 192 /* leaves room for a hash, numbers and an extension in a name */

/* What files beside `path` are called after: its name without the extension, as a location can
 * hold it, and a folder can be called; "_" for backslashes and what is not UTF-8, and no more
 * than EXG_STEM_MAX bytes. */
void exg_path_stem(const char *path, char stem[EXG_STEM_MAX + 1]);

/* How files are read that another one names (exg_open_options). */
typedef struct exg_reading {
    bool copies;                     /* into memory, in the place of mapping them */
    bool follow_links;               /* wherever they lead */
    exg_open_source_fn *open_source; /* asked first; NULL: all are files */
    void *source_user;
} exg_reading;

/* Opens `location` for reading below `directory` ("" is the working directory). A link may lead
 * to a file in it, and in a snapshot of huggingface_hub's cache to one in the blobs of the same
 * repository; `follow_links`: anywhere. MALFORMED (WGT-LOC: not plain), UNSUPPORTED (WGT-LINK: a
 * link that leads out), IO. */
exg_status exg_file_open_below(const char *directory, const char *location, bool follow_links,
                               int *descriptor, exg_error *err);

/* Opens it so and maps it whole. */
exg_status exg_file_map_below(const char *directory, const char *location, exg_reading reading,
                              exg_mapping *mapping, exg_error *err);

/* A part of it; of what `reading.open_source` has a copy. */
exg_status exg_file_map_part(const char *directory, const char *location, exg_reading reading,
                             uint64_t offset, uint64_t length, exg_mapping *mapping,
                             exg_error *err);

/* How many bytes it has. */
exg_status exg_file_length_below(const char *directory, const char *location, exg_reading reading,
                                 uint64_t *length, exg_error *err);

/* The name behind the last slash of `path`, in it. */
const char *exg_path_name(const char *path);

/* The folder part of `path` with its last slash ("" when it has none), malloc'ed;
 * NULL without memory. */
char *exg_path_directory(const char *path);

/* ---- out --------------------------------------------------------------------- */

/* The file that is written for `path`, malloc'ed: of a link the one that it leads to, which need
 * not be there; of anything else the path itself. IO (IO-LINK): the folder that it leads to is not
 * there, or it leads in a circle. */
exg_status exg_path_written(const char *path, char **written, exg_error *err);

typedef struct exg_writer exg_writer;

/* Is there room for `bytes` more where `path` lies? IO (IO-ROOM). OK where the system does not
 * say. */
exg_status exg_file_check_room(const char *path, uint64_t bytes, exg_error *err);

/* Starts a file that will be called `path`, or that a link of this name leads to. IO. */
exg_status exg_writer_open(const char *path, exg_writer **writer, exg_error *err);

/* The same of a file that is not written: what is appended goes nowhere, and told() hears when it
 * is committed. */
typedef exg_status exg_writer_told_fn(void *user, const char *path, uint64_t bytes, exg_error *err);
exg_status exg_writer_open_dry(const char *path, exg_writer_told_fn *told, void *user,
                               exg_writer **writer, exg_error *err);

/* The same in a file called `part`, of which the first `keep` bytes stay, and which stays
 * when the writer is aborted. IO. */
exg_status exg_writer_open_part(const char *path, const char *part, uint64_t keep,
                                exg_writer **writer, exg_error *err);

/* Goes back to the beginning of a part whose bytes are kept: what is appended to the writer is
 * dropped as long as it is there, for it is the same. */
void exg_writer_replay(exg_writer *writer);

/* How much is there of what is replayed: appending passes it without writing. */
uint64_t exg_writer_kept(const exg_writer *writer);

/* Bytes below exg_writer_kept(); from any thread. IO. */
exg_status exg_writer_read(const exg_writer *writer, uint64_t offset, void *out, uint64_t length,
                           exg_error *err);

/* Calls observe() with all that is appended from now on, but what is dropped, and before bytes are
 * patched with those: `offset` is where they go. A fault of it is one of the call. */
typedef exg_status exg_writer_observe_fn(void *user, uint64_t offset, const void *data,
                                         uint64_t length, exg_error *err);
void exg_writer_observe(exg_writer *writer, exg_writer_observe_fn *observe, void *user);

/* Opens `path` for reading and writing, made where there is none, and locks it until it is closed.
 * IO (IO-BUSY: another process has it). */
exg_status exg_file_open_alone(const char *path, int *descriptor, exg_error *err);

/* Appends. */
exg_status exg_writer_write(exg_writer *writer, const void *bytes, uint64_t all, exg_error *err);

/* Appends zeros up to a multiple of `alignment`, a power of two. */
exg_status exg_writer_align(exg_writer *writer, uint64_t alignment, exg_error *err);

/* Overwrites bytes that were written before; does not move the end. */
exg_status exg_writer_patch(exg_writer *writer, uint64_t offset, const void *data, size_t length,
                            exg_error *err);

/* Appends whole pages of another file, from `offset` on, without a copy: *cloned says how many
 * bytes of them, 0 where the file system does not share, or one of the places is within a page. */
exg_status exg_writer_clone(exg_writer *writer, int from, uint64_t offset, uint64_t length,
                            uint64_t *cloned, exg_error *err);

/* Moves the end on by `length` bytes, for exg_writer_put(). */
exg_status exg_writer_reserve(exg_writer *writer, uint64_t length, exg_error *err);

/* Writes into bytes that were reserved; from any thread. */
exg_status exg_writer_put(exg_writer *writer, uint64_t offset, const void *data, uint64_t length,
                          exg_error *err);

/* Calls the file `path` after all, in the same folder. */
exg_status exg_writer_name(exg_writer *writer, const char *path, exg_error *err);

uint64_t exg_writer_position(const exg_writer *writer);

/* Syncs, renames, syncs the folder; frees the writer whatever comes of it. On
 * failure nothing is left behind. */
exg_status exg_writer_commit(exg_writer *writer, exg_error *err);

/* Of a part: syncs and closes it as it is, under its own name, and frees the writer. */
exg_status exg_writer_suspend(exg_writer *writer, exg_error *err);

/* Removes what was written and frees the writer; NULL is allowed. */
void exg_writer_abort(exg_writer *writer);

#endif
