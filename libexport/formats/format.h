/* format.h - what a program file format gives to open.c: a row of functions. */
#ifndef EXG_LIBEXPORT_FORMATS_FORMAT_H
#define EXG_LIBEXPORT_FORMATS_FORMAT_H

#include "libexport/formats/file_info.h"

#include <exg/formats.h>
#include <stdbool.h>
#include <stdint.h>

/* A file to open: mapped, or the caller's memory. The bytes stay as long as the
 * weights of the program that is made from them: open.c sees to it. */
typedef struct exg_source {
    const uint8_t *data;
    uint64_t length;
    const char *path; /* NULL: memory */
    uint64_t budget;  /* of the decoded program, bytes */
    const exg_allocator *allocator;
} exg_source;

/* `options` is complete and never NULL; `info` is empty and never NULL: the format
 * fills generation and program names. On failure *program stays NULL. */
typedef exg_status exg_open_fn(const exg_source *source, const exg_open_options *options,
                               exg_program **program, exg_file_info *info, exg_error *err);

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

/* Does the file begin like one of the formats of programs? */
bool exg_is_program(const uint8_t *data, uint64_t length);

#endif
