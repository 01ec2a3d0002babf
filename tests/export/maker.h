/* maker.h - archives made by hand, good and bad, for the tests of readers. */
#ifndef EXG_TESTS_EXPORT_MAKER_H
#define EXG_TESTS_EXPORT_MAKER_H

#include <exg/formats.h>
#include <exg/text.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- zip ----------------------------------------------------------------------------- */

typedef struct zip_member {
    char name[600];
    uint32_t crc, stored, plain, offset;
    uint16_t name_length, method, flags;
} zip_member;

typedef struct zip_maker {
    exg_text out;
    zip_member members[64];
    uint32_t count;
} zip_maker;

/* Adds a stored (or deflated) member; the header tells the truth. */
void zip_add(zip_maker *zip, const char *name, const void *data, size_t length);
void zip_add_deflated(zip_maker *zip, const char *name, const void *data, size_t length);

/* Central directory and end record. `zip->members` may be changed before, to lie. */
void zip_finish(zip_maker *zip);
void zip_free(zip_maker *zip);

/* ---- the smallest archive of a program ------------------------------------------------- */

typedef struct record {
    const char *name; /* without root */
    const char *data; /* NULL: leave the record out */
    size_t length;    /* SIZE_MAX: strlen(data) */
} record;

/* One operator, one weight "w" of two floats. `changes` (up to `count`) replace records
 * of the same name, leave them out, or are added. */
void make_program(zip_maker *zip, const record *changes, size_t count);

/* The JSON of that program with the first `from` replaced by `to` (NULL: as it is). */
const char *program_json(const char *from, const char *to);
const char *weights_json(const char *from, const char *to);

/* ---- opening ------------------------------------------------------------------------------ */

/* Opens from an exact heap copy, so that an overread is seen. On failure the error is in
 * *err and NULL comes back. */
exg_program *open_copy(const void *data, size_t length, exg_error *err);

/* Fails the test unless opening `zip` ends in `status` with `code`. */
void expect_refused(zip_maker *zip, exg_status status, const char *code);

#endif
