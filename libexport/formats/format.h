/* format.h - what a program file format gives to open.c: a row of functions. */
#ifndef EXG_LIBEXPORT_FORMATS_FORMAT_H
#define EXG_LIBEXPORT_FORMATS_FORMAT_H

#include "libexport/base/files.h"
#include "libexport/formats/file_info.h"

#include <exg/formats.h>
#include <stdbool.h>
#include <stdint.h>

/* A file to open: mapped, or the caller's memory. The bytes stay as long as the
 * weights of the program that is made from them: open.c sees to it. */
typedef struct exg_window exg_window; /* window.h */

/* Who hears of faults that reading can go on from. */
typedef struct exg_faults {
    void (*tell)(void *user, const exg_error *fault);
    void *user;
    uint32_t count;
    exg_error first;
} exg_faults;

typedef struct exg_source {
    const uint8_t *data;
    uint64_t length;
    const char *path; /* NULL: memory */
    uint64_t budget;  /* of the decoded program, bytes */
    const exg_allocator *allocator;
    exg_window *window; /* of bytes elsewhere, which are not all there; NULL: all are */
    exg_faults *faults; /* NULL: the first ends reading */
    bool is_part;       /* a part of a model, given by its folder, that stands for all */
} exg_source;

/* A source, and who keeps its bytes: until they are given to weights, this. */
typedef struct exg_opened {
    exg_source source;
    exg_mapping mapping;
    char *path; /* of the source */
} exg_opened;

/* `options` is complete and never NULL; `info` is empty and never NULL: the format
 * fills generation and program names. On failure *program stays NULL. */
typedef exg_status exg_open_fn(const exg_source *source, const exg_open_options *options,
                               exg_program **program, exg_file_info *info, exg_error *err);

/* exg_writer_open(), or of a dry run exg_writer_open_dry(). */
exg_status exg_save_open(const exg_save_options *options, const char *path, exg_writer **writer,
                         exg_error *err);

/* `count` is 1 where a file of the format holds one program. */
typedef exg_status exg_save_fn(const exg_program *const *programs, uint32_t count, const char *path,
                               const exg_save_options *options, exg_error *err);

/* Generation and program names alone. */
typedef exg_status exg_describe_fn(const exg_source *source, exg_file_info *info, exg_error *err);

typedef struct exg_format_row {
    bool (*sniff)(const uint8_t *data, uint64_t length);
    exg_open_fn *open;
    exg_save_fn *save;         /* NULL: read only */
    exg_describe_fn *describe; /* NULL: a file holds one program */
} exg_format_row;

bool exg_pt2_sniff(const uint8_t *data, uint64_t length);
exg_open_fn exg_pt2_open;
exg_save_fn exg_pt2_save;
exg_describe_fn exg_pt2_describe;

bool exg_early_sniff(const uint8_t *data, uint64_t length);
exg_open_fn exg_early_open;
exg_save_fn exg_early_save;

bool exg_exg_sniff(const uint8_t *data, uint64_t length);
exg_open_fn exg_exg_open;
exg_save_fn exg_exg_save;

/* Bytes that what is made from a file of `length` bytes may take: 64 times the file and
 * 64 MiB. A program of honest JSON takes about its own size. */
uint64_t exg_default_budget(uint64_t length);

/* The budget and the allocator of `options` for a source. */
void exg_source_limit(exg_source *source, exg_open_options options);

/* The bytes called `path`: those that options->open_source has, a file, or that of the model in a
 * folder. `opened` may be released whatever comes of it. IO, UNSUPPORTED, LIMIT. */
exg_status exg_source_open(const char *path, const exg_open_options *options, exg_opened *opened,
                           exg_error *err);
void exg_opened_release(exg_opened *opened);

/* The one model in a file that is compressed, or an archive of files, is the source from now on; of
 * another file nothing changes (packed.c). MALFORMED, LIMIT, IO. */
exg_status exg_source_unpack(exg_opened *opened, exg_error *err);

/* The bytes of a mapping, which it takes, in the place of its own. */
void exg_opened_replace(exg_opened *opened, exg_mapping *mapping);

/* The weights keep the bytes, and read from them. Storages that lie elsewhere are added before. */
exg_status exg_opened_give(exg_opened *opened, exg_weights *weights, exg_error *err);

/* How files that the opened one names are read. */
exg_reading exg_source_reading(const exg_open_options *options);

/* The file `location` in `folder`, which another one names, as `reading` says. As
 * exg_file_open_below(). */
exg_status exg_source_open_below(const char *folder, const char *location, exg_reading reading,
                                 exg_opened *opened, exg_error *err);

/* The same of what lies elsewhere, without a look into it; *window is NULL where it is a file. */
exg_status exg_source_find_below(const char *folder, const char *location, exg_reading reading,
                                 exg_window **window, exg_error *err);

/* Is it there? */
exg_status exg_source_look_below(const char *folder, const char *location, exg_reading reading,
                                 exg_error *err);

/* Sees to it that a range that is inside is there, and up to `ahead` bytes at once. */
exg_status exg_source_need(const exg_source *source, uint64_t offset, uint64_t length,
                           uint64_t ahead, exg_error *err);

/* OK of a fault of the file after which there is more to be read, which is told where somebody
 * hears; else `status`. */
exg_status exg_source_fault(const exg_source *source, exg_status status, const exg_error *err);

/* Does the file begin like one of the formats of programs? */
bool exg_is_program(const uint8_t *data, uint64_t length);

#endif
