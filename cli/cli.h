/* cli.h - what the subcommands share: the call, opening, inputs, printing.
 *
 * A command writes to `out`; faults travel as statuses to main(), which prints one
 * message and turns the status into the exit code. */
#ifndef EXG_CLI_CLI_H
#define EXG_CLI_CLI_H

#include <exg/exec.h>
#include <exg/json_writer.h>
#include <exg/text.h>
#include <stdio.h>
#include <time.h>

/* Values of an option that may be given again. */
typedef struct cli_words {
    const char **items; /* room for one a word of the call */
    uint32_t count;
} cli_words;

typedef struct cli_call {
    const char *command;
    const char *paths[3];
    uint32_t path_count;
    cli_words files; /* of a command that takes several: all of them; paths[0] is the first */
    FILE *out;
#define EXG_FLAG(field, name, commands, needs, help)                  bool field;
#define EXG_TEXT_OPTION(field, name, argument, commands, needs, help) const char *field;
#define EXG_LIST_OPTION(field, name, argument, commands, needs, help) cli_words field;
#define EXG_NUMBER_OPTION(field, name, argument, commands, needs, help)                            \
    double field;                                                                                  \
    bool has_##field;
#define EXG_WHOLE_OPTION(field, name, least, most, commands, needs, help)                          \
    double field;                                                                                  \
    bool has_##field;
#include "cli/option.def"
#undef EXG_FLAG
#undef EXG_TEXT_OPTION
#undef EXG_LIST_OPTION
#undef EXG_NUMBER_OPTION
#undef EXG_WHOLE_OPTION
} cli_call;

/* How many lists of words there are: the files, and options. */
enum {
    CLI_LISTS = 1
#define EXG_FLAG(...)
#define EXG_TEXT_OPTION(...)
#define EXG_LIST_OPTION(...) +1
#define EXG_NUMBER_OPTION(...)
#define EXG_WHOLE_OPTION(...)
#include "cli/option.def"
#undef EXG_FLAG
#undef EXG_TEXT_OPTION
#undef EXG_LIST_OPTION
#undef EXG_NUMBER_OPTION
#undef EXG_WHOLE_OPTION
};

#define EXG_COMMAND(name, letter, arguments, summary, examples)                                    \
    exg_status cmd_##name(const cli_call *call, exg_error *err);
#include "cli/command.def"
#undef EXG_COMMAND

/* Fills `call` from the words after the command; `room` is for CLI_LISTS times as many. USAGE. */
exg_status cli_parse(int argc, char **argv, const char **room, cli_call *call, exg_error *err);

/* Has every option that was given a meaning in this call? `letter` is the command's in option.def.
 * USAGE (CLI-009) names the first that has none, and what it needs. */
exg_status cli_check_needs(const cli_call *call, char letter, exg_error *err);

struct exg_text;

/* Of a command's option what it needs, for people: " [needs --expect; not with --json]". */
void cli_put_needs(struct exg_text *text, const char *needs, char letter);

bool cli_find_code(const char *code, const char **claim, const char **fix); /* what it means */
bool cli_is_code(const char *word);                    /* of a fault: "VAL-004" */
bool cli_is_tensors(const char *path);                 /* named as weights are written */
bool cli_writes_weights(const cli_call *call);         /* of convert: OUT has no program */
void cli_print_error(const exg_error *err, bool json); /* to stderr */
void cli_help(FILE *out);
bool cli_command_help(FILE *out, const char *command);
exg_status cli_version(FILE *out, bool json, exg_error *err);

/* A program with its operators, opened and (but for inspect) verified. */
typedef struct cli_program {
    exg_program *program;
    exg_operators *operators;
    exg_verified verified;
    exg_file_info *info;
} cli_program;

/* What the call says of how files are opened. */
exg_open_options cli_open_options(const cli_call *call);

/* At the end, of addresses and standard input, which were opened so. */
void cli_close_sources(void);

exg_status cli_open(const cli_call *call, cli_program *p, exg_error *err);
exg_status cli_open_verified(const cli_call *call, cli_program *p, exg_error *err);

/* Inner tensors in the place of tensor subclasses, as a session runs it. */
exg_status cli_unwrap(const cli_call *call, cli_program *p, exg_error *err);
void cli_close(cli_program *p);

/* The programs of FILE: the one that --program names, else all. */
typedef struct cli_programs {
    const char *const *names; /* NULL: of a file that holds one */
    uint32_t count;
    exg_file_info *info; /* whose names they are */
} cli_programs;

exg_status cli_programs_list(const cli_call *call, cli_programs *all, exg_error *err);
void cli_programs_free(cli_programs *all);

/* The call for program `index` of them. */
cli_call cli_programs_call(const cli_call *call, const cli_programs *all, uint32_t index);

/* USAGE where there are several: of `what`, which is of one alone. */
exg_status cli_programs_only(const cli_programs *all, const char *what, exg_error *err);

/* User inputs from --input, else the archive's sample inputs. */
typedef struct cli_inputs {
    exg_session_input *items;
    uint32_t count, capacity;
    exg_tensor_file **files;
    uint32_t file_count, file_capacity;
    void **blocks; /* owned copies: a program may write its inputs */
    uint32_t block_count, block_capacity;
    struct exg_arena *arena; /* the arrays */
} cli_inputs;

exg_status cli_inputs_read(const cli_call *call, const cli_program *p, cli_inputs *inputs,
                           exg_error *err);
void cli_inputs_free(cli_inputs *inputs);

/* exg_tensor_file_open(), with notes of what in the file is no plain tensor. */
exg_status cli_open_tensors(const char *path, exg_tensor_file **file, exg_error *err);

/* "note: NAME is KIND: left out" */
void cli_put_left_out(exg_text *text, const char *name, const char *kind);

/* Files of named tensors without a program: what they hold, shown. */
bool cli_is_weights_file(const cli_call *call, const char *path);

/* The weights as the options of convert change them, in the place of *weights, which are those of
 * `path`. */
exg_status cli_edit_weights(const cli_call *call, const char *path, exg_weights **weights,
                            exg_error *err);

/* USAGE (CLI-010): the path is by its name a part of a model, and what is made of it alone would
 * pass for the whole. */
exg_status cli_check_whole(const char *path, exg_error *err);

/* The weights of --weights-from, as the options of convert change them, in the place of the
 * program's. What does not fit, or stays, is told. MISMATCH (WGT-FILL). */
exg_status cli_fill_weights(const cli_call *call, exg_program *program, exg_error *err);

/* A line each, to where faults go. */
void cli_note_mismatches(const exg_mismatches *mismatches);

/* Into the folder OUT, a file for each rank of --shard. */
exg_status cli_save_shards(const cli_call *call, exg_weights *weights,
                           const exg_weights_save_options *options, exg_error *err);

/* The text of --preset, and the numbers it may need: of --set, and of the configuration beside
 * `weights`, a path. In the arena. */
exg_status cli_read_preset(const char *name, exg_arena *arena, const char **text, exg_error *err);
exg_status cli_read_numbers(const cli_call *call, const char *weights, exg_arena *arena,
                            exg_string_map *map, exg_error *err);

exg_status cli_inspect_weights(const cli_call *call, exg_error *err);
exg_status cli_digest_weights(const cli_call *call, exg_error *err); /* of a program too */

/* "4096", "500M", "2G" (powers of 1024) as bytes. USAGE. */
exg_status cli_size(const char *option, const char *text, uint64_t *bytes, exg_error *err);

/* How many processes mpirun started, and which of them this is; 1 and 0 without it. */
uint32_t cli_process_count(void);
uint32_t cli_process_rank(void);

#define CLI_THREADS_MAX 64 /* ranks of a run that are threads */

/* The modes taken along the mesh dims: "data,tensor". */
void cli_put_modes(exg_text *text, const cli_call *call, const exg_partition_summary *place);

/* --mesh, --place, --costs, --threads, ... as session options. What they point to lives in
 * `placement`. */
typedef struct cli_placement {
    exg_partition_options place[EXG_MESH_DIMS_MAX]; /* to which a session's options point, */
    exg_partition_goal goal;                        /* as to this, */
    exg_costs costs;                                /* and this to these */
    struct exg_arena *arena;
} cli_placement;

exg_status cli_session_options(const cli_call *call, exg_session_options *options,
                               cli_placement *placement, exg_error *err);
void cli_placement_free(cli_placement *placement);

/* What a fault code means, and all of them (codes.c). */
exg_status cli_explain_code(const cli_call *call, const char *code, exg_error *err);
exg_status cli_list_codes(const cli_call *call, exg_error *err);

/* The object that a command prints with --json, from its first member on ("format", which goes up
 * when a member changes its meaning or goes away: docs/json.md) to its end. */
#define CLI_JSON_FORMAT 1
void cli_json_begin(exg_text *text);
void cli_json_end(exg_text *text);
/* A number of so many digits; null where it is not finite, for which JSON has no word. */
void cli_json_number(exg_text *text, double value, int digits);

/* An object of one member. */
exg_status cli_json_value(FILE *out, const char *key, const char *value, exg_error *err);
void cli_json_diagnostics(exg_text *text, const char *key, const exg_diagnostics *found);

/* A clock that only goes on, in nanoseconds. */
static inline uint64_t cli_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The signal that ended a run, or 0. */
int cli_interrupted(void);

/* Puts a text to where the command prints. NO_MEMORY where it could not be made. */
exg_status cli_put(FILE *out, const struct exg_text *text, exg_error *err);

/* Notes, to where faults go. */
void cli_note(const struct exg_text *text);

/* A progress line on a terminal, for work that lasts over a second; save_options.progress. */
void cli_progress(void *user, uint64_t done, uint64_t total);
void cli_progress_end(void);

void cli_put_bytes(exg_text *text, uint64_t bytes); /* 1.41 MB */

#endif
