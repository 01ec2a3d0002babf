/* cli.h - what the subcommands share: the call, opening, inputs, printing.
 *
 * A command writes to `out`; faults travel as statuses to main(), which prints one
 * message and turns the status into the exit code. */
#ifndef EXG_CLI_CLI_H
#define EXG_CLI_CLI_H

#include <exg/exec.h>
#include <exg/json_writer.h>
#include <exg/symint.h>
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
    const char *out_path; /* of -o, till the files are known */
    cli_words files;      /* of a command that takes several: all of them; paths[0] is the first */
    char stream[16];      /* of OUT "-" */
    char rank_path[4096]; /* of --rank-file: this rank's, or the first's, which paths[0] is */
    FILE *out;            /* NULL: nobody is told */
    bool is_quiet;        /* one of the processes of mpirun that writes no files all have alike */
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

#define EXG_COMMAND(name, letter, processes, arguments, summary, examples)                         \
    exg_status cmd_##name(const cli_call *call, exg_error *err);
#include "cli/command.def"
#undef EXG_COMMAND

/* Fills `call` from the words after the command; `room` is for CLI_LISTS times as many. USAGE. */
exg_status cli_parse(int argc, char **argv, const char **room, cli_call *call, exg_error *err);

/* The call with the options of --with in the place of its own. What is made points into `call`. */
exg_status cli_apply_with(const cli_call *call, cli_call *other, exg_error *err);

/* The words of another command, with FILE and those options of the call that it takes; room for
 * `more`, and NULL, is behind them. The caller frees the list; NULL: out of memory. */
const char **cli_words_of(const cli_call *call, const char *command, char letter, size_t more);

/* Has every option that was given a meaning in this call? `letter` is the command's in option.def.
 * USAGE (CLI-009) names the first that has none, and what it needs. */
exg_status cli_check_needs(const cli_call *call, char letter, exg_error *err);

/* Takes the options of every command (global.def) out of the words. USAGE. */
exg_status cli_take_globals(int *argc, char **argv, exg_error *err);
bool cli_is_quiet(void);
bool cli_is_verbose(void);

typedef enum cli_color {
    CLI_COLOR_NONE, /* what follows has none */
    CLI_COLOR_ERROR,
    CLI_COLOR_WARNING,
    CLI_COLOR_NOTE,
    CLI_COLOR_FIX
} cli_color;

/* What turns a colour on in what is printed there; "" where there is none. */
const char *cli_paint(FILE *out, cli_color color);

/* Columns of a terminal, by COLUMNS where that is set; 0: it is none. */
uint32_t cli_width(FILE *out);

/* Of names that are offered the one that a mistyped word may have meant; NULL: none is near. */
typedef struct cli_nearest {
    const char *word, *name;
    uint32_t distance;
} cli_nearest;
void cli_nearest_begin(cli_nearest *nearest, const char *word);
void cli_nearest_offer(cli_nearest *nearest, const char *name);

struct exg_text;

/* Of a command's option what it needs, for people: " [needs --expect; not with --json]". */
void cli_put_needs(struct exg_text *text, const char *needs, char letter);

bool cli_find_code(const char *code, const char **claim, const char **fix); /* what it means */
bool cli_is_code(const char *word);            /* of a fault ("VAL-004"), or no file and no path */
bool cli_is_tensors(const char *path);         /* named as weights are written */
bool cli_names_ranks(const char *path);        /* {rank} is in the name of the file */
bool cli_writes_weights(const cli_call *call); /* of convert: OUT has no program */
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
    exg_weights *samples; /* after --precision: what the sample inputs are read of; else NULL */
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

/* An input that nobody gave. */
typedef struct cli_made {
    uint32_t item;          /* of the inputs */
    const exg_value *value; /* NULL: the program has no such input */
    const char *how;        /* its elements, in words; NULL: it has none */
    bool is_drawn;
} cli_made;

/* User inputs from --input, else made up or the archive's sample inputs. */
typedef struct cli_inputs {
    exg_session_input *items;
    uint32_t count, capacity;
    exg_tensor_file **files;
    uint32_t file_count, file_capacity;
    void **blocks; /* owned copies: a program may write its inputs */
    uint32_t block_count, block_capacity;
    cli_made *made; /* after --shape, --size, --fill */
    uint32_t made_count;
    bool are_samples;        /* the archive's own */
    struct exg_arena *arena; /* the arrays */
} cli_inputs;

/* Of the program with what is inside of tensor subclasses, which `p` is then. */
exg_status cli_inputs_read(const cli_call *call, cli_program *p, cli_inputs *inputs,
                           exg_error *err);
void cli_inputs_free(cli_inputs *inputs);

/* The status of what was called with them: where the archive's own do not fit, the error says so.
 */
exg_status cli_inputs_told(const cli_inputs *inputs, exg_status status, exg_error *err);

/* The same, with names and bytes of their own. */
exg_status cli_inputs_copy(const cli_inputs *inputs, cli_inputs *copy, exg_error *err);

/* exg_bind_inputs() with them. */
exg_status cli_bind(const cli_call *call, const cli_program *p, const cli_inputs *inputs,
                    struct exg_arena *arena, exg_symbols *symbols, exg_error *err);

/* The program, unwrapped, in the dtype of --precision, verified; and inputs as it takes them.
 * USAGE; MALFORMED, an operator does not take that dtype. */
exg_status cli_take_precision(const cli_call *call, cli_program *p, exg_error *err);
exg_status cli_inputs_cast(const cli_program *p, cli_inputs *inputs, exg_error *err);

/* Are inputs that nobody gives to be made up, by --shape, --size or --fill? */
bool cli_makes_inputs(const cli_call *call);

/* Adds those of --shape, by the name that is given, without dtype and data. */
exg_status cli_take_shapes(const cli_call *call, cli_inputs *inputs, exg_error *err);

/* Adds those that are missing, and with `fills` makes the elements of all that have none. USAGE:
 * INP-013 and INP-014, a size; as exg_bind_asked(). */
exg_status cli_make_inputs(const cli_call *call, const cli_program *p, bool fills,
                           cli_inputs *inputs, exg_error *err);

/* What was made up: lines, or the members "seed" and "made". */
void cli_put_made(exg_text *text, const cli_call *call, const cli_inputs *inputs);
void cli_put_made_json(exg_text *text, const cli_call *call, const cli_inputs *inputs);

/* exg_tensor_file_open(), with notes of what in the file is no plain tensor. */
exg_status cli_open_tensors(const char *path, exg_tensor_file **file, exg_error *err);

/* "note: NAME is KIND: left out" */
void cli_put_left_out(exg_text *text, const char *name, const char *kind);

/* Files of named tensors without a program: what they hold, shown. */
bool cli_is_weights_file(const cli_call *call, const char *path);

/* Those of FILE and of every --merge as one: as --concat says it or the preset, or side by side. */
exg_status cli_merge_weights(const cli_call *call, exg_weights *const *all, uint32_t count,
                             exg_weights **weights, exg_error *err);

/* The weights as the options of convert change them, in the place of *weights, which are those of
 * `path`. */
exg_status cli_edit_weights(const cli_call *call, const char *path, exg_weights **weights,
                            exg_error *err);

/* USAGE (CLI-010): the path is by its name a part of a model, and what is made of it alone would
 * pass for the whole. */
exg_status cli_check_whole(const char *path, exg_error *err);

/* The weights of --weights-from, as the options of convert change them, in the place of the
 * program's; `takes_blocks`: of blocks of GGML the parts (exg_program_take_blocks()). What does not
 * fit, or stays, is told. MISMATCH (WGT-FILL). */
exg_status cli_fill_weights(const cli_call *call, exg_program *program, bool takes_blocks,
                            exg_error *err);

/* A line each, to where faults go. */
void cli_note_mismatches(const exg_mismatches *mismatches);

/* Is OUT standard output, in the format that is behind the "-": "-.safetensors"? */
bool cli_is_stream(const char *path);
/* "-" stands for FILE and OUT alone: USAGE CLI-004 where it is what an option names. */
exg_status cli_check_dash(const char *option, const char *path, exg_error *err);
/* Standard input is read once, by one process: USAGE CLI-013 where it is FILE. */
exg_status cli_check_apart(const cli_call *call, exg_error *err);

/* What write() writes as the one file OUT, to standard output. USAGE: CLI-009; CLI-015, a terminal;
 * CLI-016, several files. IO. */
exg_status cli_write_stream(const cli_call *call,
                            exg_status (*write)(const cli_call *call, exg_error *err),
                            exg_error *err);

/* Into the folder OUT, a file for each rank of --shard, as the program of --for is placed. */
exg_status cli_save_shards(const cli_call *call, exg_weights *weights,
                           const exg_weights_save_options *options, exg_error *err);

/* --shard without --for: the preset says what each rank has. Makes the weights of all, `count`, in
 * the arena; released by the caller, also after a fault. */
bool cli_shards_by_preset(const cli_call *call);
exg_status cli_edit_shards(const cli_call *call, exg_weights *of, exg_arena *arena,
                           exg_weights ***made, uint32_t *count, exg_error *err);

/* The file that is installed beside the command as `kind`/`name` with this extension; a name with a
 * / in it, or with the extension, is a path. In the arena, or `name`; NULL: there is none. */
exg_status cli_find_installed(const char *kind, const char *extension, const char *name,
                              struct exg_arena *arena, const char **path, exg_error *err);

/* The names that there are, with commas. */
void cli_put_installed(struct exg_text *text, const char *kind, const char *extension);

/* The text of --preset, and the numbers it may need: of --set, and of the configuration beside
 * `weights`, a path. In the arena. */
exg_status cli_read_preset(const char *name, exg_arena *arena, const char **text, exg_error *err);
exg_status cli_read_numbers(const cli_call *call, const char *weights, exg_arena *arena,
                            exg_string_map *map, exg_error *err);

exg_status cli_inspect_weights(const cli_call *call, exg_error *err);
exg_status cli_digest_weights(const cli_call *call, exg_error *err); /* of a program too */

/* "4096", "500M", "2G" (powers of 1024) as bytes. USAGE. */
exg_status cli_size(const char *option, const char *text, uint64_t *bytes, exg_error *err);

/* --splat, or 0. USAGE. */
exg_status cli_splat(const cli_call *call, double *value, exg_error *err);

/* How many processes mpirun started, and which of them this is; 1 and 0 without it. */
uint32_t cli_process_count(void);
uint32_t cli_process_rank(void);

#define CLI_THREADS_MAX 64 /* ranks of a run that are threads */

/* The modes taken along the mesh dims: "data,tensor". */
void cli_put_modes(exg_text *text, const cli_call *call, const exg_partition_summary *place);

/* What the plan comes to, in units for people. */
void cli_put_plan_summary(exg_text *text, const cli_call *call, exg_session *session,
                          bool processes, bool is_parallel);
void cli_note_unsplit(exg_session *session); /* a warning, where a placement splits nothing */

/* --mesh, --place, --costs, --threads, ... as session options. What they point to lives in
 * `placement`. */
typedef struct cli_placement {
    exg_partition_options place[EXG_MESH_DIMS_MAX]; /* to which a session's options point, */
    exg_partition_goal goal;                        /* as to this, */
    exg_costs costs;                                /* and this to these */
    exg_process_group *groups;                      /* of --group */
    struct exg_arena *arena;
} cli_placement;

/* The ranks of --mesh, else the processes of mpirun. USAGE. */
exg_status cli_mesh(const cli_call *call, exg_mesh_shape *mesh, exg_error *err);

/* What --sweep and --memory ask for, instead of a plan. */
exg_status cli_sweep(const cli_call *call, const cli_program *program, const cli_inputs *inputs,
                     exg_error *err);

exg_status cli_session_options(const cli_call *call, exg_session_options *options,
                               cli_placement *placement, exg_error *err);
void cli_placement_free(cli_placement *placement);

/* The same for a program that is already parallel, or one of several ranks': it is not placed.
 * UNSUPPORTED (COM-015): --place asks for it. */
exg_status cli_parallel_options(const cli_call *call, exg_session_options *options,
                                cli_placement *placement, exg_error *err);

/* Is the call to run on several ranks what each of them has by itself: a program that is already
 * parallel, or one for each? */
bool cli_is_parallel(const cli_call *call, const cli_program *p);

/* Of a program that is placed: USAGE (CLI-009), {rank} stands in the name of a file. */
exg_status cli_check_no_ranks(const cli_call *call, exg_error *err);

/* `text` with the number for each {rank}, in `room` bytes. USAGE: CLI-004, a name that long. */
exg_status cli_rank_name(const char *text, uint32_t rank, char *name, size_t room, exg_error *err);

/* Values inside of a program, which it gives behind its own outputs, before gradients; and those
 * inside of its branches and loops, which are kept while it runs (inner_nodes.h). */
typedef struct cli_inner_nodes cli_inner_nodes;
typedef struct cli_nodes {
    const char **names; /* as the graph has them, in its order; the program's */
    uint32_t count;
    uint32_t first;         /* place of the first among the outputs */
    cli_inner_nodes *inner; /* NULL: there are none */
} cli_nodes;

/* What a node gave in the last run. */
typedef struct cli_node_value {
    const char *name;
    exg_tensor tensor;
    uint32_t before; /* of cli_nodes.names: itself, or of an inner one how many come before it */
    bool is_inner;
} cli_node_value;

/* The program with the values that a pattern of --nodes fits (`by_patterns`; none: all), and those
 * that `wanted` (may be NULL) has tensors for, in the place of *p's. USAGE CLI-012. */
exg_status cli_nodes_watch(const cli_call *call, bool by_patterns, const exg_tensor_file *wanted,
                           cli_program *p, cli_nodes *nodes, exg_error *err);
void cli_nodes_begin(const cli_nodes *nodes); /* before each run */
void cli_nodes_free(cli_nodes *nodes);

/* Does it watch a node of this name, which perhaps did not run? */
bool cli_nodes_have(const cli_nodes *nodes, const char *name);

/* What nodes gave in the last run, in the order of the graph; the caller frees the list. */
exg_status cli_nodes_values(const cli_nodes *nodes, const exg_session *session,
                            cli_node_value **values, uint32_t *count, exg_error *err);

/* The program's own outputs. */
const exg_session_output *cli_own_output(const cli_nodes *nodes, const exg_session *session,
                                         uint32_t index);
/* Adds to the error just set which name of the graph may have been meant. */
exg_status cli_no_node(const exg_graph *graph, const char *name, exg_status status, exg_error *err);

uint32_t cli_own_outputs(const cli_nodes *nodes, const exg_session *session);

/* By node of A what the same is called in B, another graph, or NULL; in the arena. */
exg_status cli_match_nodes(const exg_program *a, const cli_nodes *nodes, const exg_program *b,
                           struct exg_arena *arena, const char ***names, exg_error *err);

/* The node that gives the value of this name, which may be in an inner graph, or NULL. `graph` and
 * `prefix` (may be NULL): whose node it is, and how long that graph's path in the name is. */
const exg_node *cli_node_of(const exg_program *program, const char *name, const exg_graph **graph,
                            uint32_t *prefix);

/* Puts the node, its module and the user's line into the error just set. */
exg_status cli_at_node(const exg_program *program, const char *name, exg_status status,
                       exg_error *err);

/* One rank's run: what it needs, and what it gives. */
typedef struct cli_run {
    const cli_call *call;
    cli_program program;
    cli_nodes nodes;   /* of --dump and --expect */
    char *expect_name; /* of --expect NAME=FILE; NULL: none */
    cli_inputs inputs;
    exg_session *session;
    double *times; /* by run, nanoseconds */
} cli_run;

/* With `call` and `program`: reads weights and inputs; creates the session and runs it; writes,
 * compares and tells what came of it; frees all. Begun and left by every rank's thread, where there
 * are several. */
exg_status cli_run_read(cli_run *run, exg_error *err);
exg_status cli_run_begin(cli_run *run, uint32_t place, const exg_session_options *options,
                         exg_error *err); /* `place`: of the rank among those here */
exg_status cli_run_finish(cli_run *run, exg_error *err);
void cli_run_leave(cli_run *run);
void cli_run_close(cli_run *run);
void cli_run_watch(bool begins); /* signals, around what is begun */

/* The call of one rank: {rank} in its names is its number. Names are in the arena. */
exg_status cli_rank_call(const cli_call *call, uint32_t rank, exg_arena *arena, cli_call *own,
                         exg_error *err);

/* plan_ranks.c: options for the plan of one rank; and plan --check: every rank of the mesh is
 * planned, from its own file and inputs where it has some, and what they call is compared. */
exg_status cli_rank_options(const cli_call *call, const cli_program *p, uint32_t rank,
                            exg_session_options *options, cli_placement *placement, exg_error *err);
exg_status cli_plan_check_ranks(const cli_call *call, exg_error *err);

/* The ranks of it that are threads, or this process's: each has opened its program, read its inputs
 * and run once. Whatever the outcome *ranks is to be closed. */
typedef struct cli_ranks cli_ranks;
exg_status cli_ranks_run(const cli_call *call, cli_ranks **ranks, exg_error *err);
uint32_t cli_ranks_count(const cli_ranks *ranks);
cli_run *cli_ranks_at(cli_ranks *ranks, uint32_t at);
const exg_session_options *cli_ranks_options(const cli_ranks *ranks);
void cli_ranks_close(cli_ranks *ranks); /* NULL is allowed */

/* work() by each rank at once, on a thread of its own; the fault that is the cause. */
typedef exg_status cli_rank_fn(void *user, cli_run *run, uint32_t rank, exg_error *err);
exg_status cli_ranks_each(cli_ranks *ranks, cli_rank_fn *work, void *user, exg_error *err);

/* exg run on all ranks, each with its own: threads, or this one of the processes of mpirun. */
exg_status cli_run_ranks(const cli_call *call, exg_error *err);

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
/* The same of `done` things of `total`. */
void cli_progress_of(uint64_t done, uint64_t total, const char *things);
void cli_progress_at(uint64_t done, const char *things); /* of nobody knows how many */
void cli_progress_end(void);

/* exg_session_run(), with such a line where it `shows`. */
exg_status cli_session_run(exg_session *session, const cli_inputs *inputs, bool shows,
                           exg_error *err);

#endif
