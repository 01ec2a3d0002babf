/* preset.h - rules that make the tensors of one kind of model of those of another: the text of a
 * file of presets (docs/weights.md), made ready. */
#ifndef EXG_LIBEXPORT_WEIGHTS_PRESET_H
#define EXG_LIBEXPORT_WEIGHTS_PRESET_H

#include "libexport/base/arena.h"

#include <exg/program.h>
#include <regex.h>
#include <stdbool.h>

#define EXG_PRESET_FACTORS    4 /* that rows are taken apart to */
#define EXG_PRESET_OPERATIONS 4 /* of a rule */

typedef enum exg_preset_kind {
    EXG_PRESET_TRANSPOSE, /* the last two dimensions swapped */
    EXG_PRESET_ROWS,      /* the first dimension as `factors`, which are put in another `order` */
    EXG_PRESET_FIRST,     /* so many rows */
    EXG_PRESET_SLICE,     /* the part `part` of `parts` equal ones of the rows */
    EXG_PRESET_JOIN       /* it is the part `part` of `parts` of the rows of another */
} exg_preset_kind;

typedef struct exg_preset_operation {
    exg_preset_kind kind;
    const char *factors[EXG_PRESET_FACTORS]; /* numbers, or names of them; "*" is what is left */
    uint32_t order[EXG_PRESET_FACTORS];
    uint32_t count;       /* of factors */
    uint32_t part, parts; /* from 0 on */
} exg_preset_operation;

/* How the ranks of one model have a tensor: its parts go on along `dim` (0, or of matrices 1), and
 * a vector along 1 is in every rank. */
typedef struct exg_preset_parts {
    bool given;
    uint32_t dim;
    const char *unless; /* NULL: always along `dim`; else what makes it the other one: of parts that
                           are read a tensor as long as that dim, of those that are made a number */
    const char *pad;    /* a number or its name: rows are filled up with the last one to so many, or
                           a multiple, in each part; NULL: as many as there are */
} exg_preset_parts;

/* One line. A name that several fit makes a tensor of each. */
typedef struct exg_preset_rule {
    regex_t from;   /* of a whole name */
    const char *to; /* with \1 for the first group; NULL: left out */
    exg_preset_operation operations[EXG_PRESET_OPERATIONS];
    uint32_t operation_count;
    exg_preset_parts ranks; /* that it is put together of */
    exg_preset_parts shard; /* that are made of it */
} exg_preset_rule;

typedef struct exg_preset {
    exg_preset_rule *rules;
    uint32_t count, capacity;
    exg_string_map numbers; /* name -> other names of the same, with blanks between */
    uint32_t number_capacity;
    bool has_ranks, has_shard; /* a rule has */
    exg_arena *arena;
} exg_preset;

/* In the arena; exg_preset_close() also after a fault. USAGE (WGT-PRESET) names the line. */
exg_status exg_preset_open(const char *text, exg_arena *arena, exg_preset **preset, exg_error *err);
void exg_preset_close(exg_preset *preset); /* NULL is allowed */

/* Where numbers come from: the first that says one under its name, or another of the same. */
typedef struct exg_preset_numbers {
    const exg_preset *preset; /* which names are of the same */
    const exg_string_map *given, *metadata;
} exg_preset_numbers;

bool exg_preset_has_number(const exg_preset_numbers *numbers, const char *name);

/* What a factor stands for: a number, or the name of one; 0 of "*". USAGE (WGT-PRESET). */
exg_status exg_preset_number(const exg_preset_numbers *numbers, const char *factor, int64_t *number,
                             exg_error *err);

#endif
