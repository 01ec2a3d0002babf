/* cmd_compare.c - exg compare A [B]: two programs, two ways to run one, or one and what was
 * recorded of it, node by node. */
#include "cli/cli.h"
#include "cli/gap.h"
#include "cli/outputs.h"

#include <exg/memory.h>
#include <exg/module.h>
#include <exg/transform.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_ROOM  4096
#define ALONE_TOLD 5

extern char **environ;

/* One of the two: a program that is run, or values in a file. */
typedef struct side {
    cli_call call;
    cli_program program;
    exg_program *whole; /* of which `program` is a stage */
    cli_nodes nodes;
    cli_node_value *values; /* what they gave */
    uint32_t value_count;
    cli_inputs inputs;
    cli_placement placement;
    exg_session *session;
    exg_tensor_file *recorded; /* NULL: it is run */
    bool is_rank;              /* of `ranks`, which has all but `values` and `recorded` */
} side;

/* Two sides, of which ranks of parallel programs have one each. */
typedef struct pair {
    side a, b;
    const char **others; /* of two graphs: by A's node what it is called in B, or NULL */
} pair;

/* A node of A, and how far B is from it. */
typedef struct row {
    const pair *of;
    uint32_t place; /* in the order of the graph */
    const char *name;
    bool is_compared; /* B has it */
    cli_gap gap;
} row;

typedef struct comparison {
    const cli_call *call;
    cli_program first; /* A as it is opened, whose inputs these are */
    cli_inputs inputs;
    cli_call a_call, b_call;
    cli_ranks *a_ranks, *b_ranks; /* of programs that are already parallel; else NULL */
    pair *pairs;
    uint32_t pair_count;
    bool is_one_graph; /* that both run */
    row *rows;         /* nodes in A's order, then outputs; of ranks side by side */
    uint32_t count;
} comparison;

/* ---- a side ---------------------------------------------------------------------------------- */

/* The program after --stage, for these inputs. */
static exg_status take_stage(side *s, exg_error *err)
{
    const exg_stage stage = exg_stage_from_name(s->call.stage);
    exg_program *staged;
    exg_symbols symbols;

    if (stage == EXG_STAGE_COUNT) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "no stage '%s'", s->call.stage),
                             "--stage takes decompose, functionalize or simplify");
    }
    EXG_TRY(cli_unwrap(&s->call, &s->program, err));
    EXG_TRY(cli_bind(&s->call, &s->program, &s->inputs, s->inputs.arena, &symbols, err));
    EXG_TRY(exg_program_at_stage(&s->program.verified, &symbols, stage, &staged, err));
    s->whole = s->program.program; /* whose texts it has */
    s->program.program = staged;
    return exg_verify(staged, s->program.operators, &s->program.verified, NULL, err);
}

/* The inputs are A's as it is opened; `has_precision`: it or B may take them in another dtype. */
static exg_status run_side(side *s, const cli_inputs *inputs, bool has_precision,
                           const exg_tensor_file *wanted, exg_error *err)
{
    exg_session_options options;

    EXG_TRY(cli_open_verified(&s->call, &s->program, err));
    EXG_TRY(cli_inputs_copy(inputs, &s->inputs, err));
    EXG_TRY(has_precision ? cli_inputs_cast(&s->program, &s->inputs, err) : EXG_OK);
    EXG_TRY(cli_session_options(&s->call, &options, &s->placement, err));
    EXG_TRY(s->call.stage == NULL ? EXG_OK : take_stage(s, err));
    EXG_TRY(cli_nodes_watch(&s->call, wanted == NULL || s->call.nodes.count > 0, wanted,
                            &s->program, &s->nodes, err));
    EXG_TRY(exg_session_create(&s->program.verified, &options, &s->session, err));
    EXG_TRY(cli_session_run(s->session, &s->inputs, true, err));
    return cli_nodes_values(&s->nodes, s->session, &s->values, &s->value_count, err);
}

static void close_side(side *s)
{
    if (s->is_rank) {
        free(s->values);
        exg_tensor_file_close(s->recorded);
        return;
    }
    exg_session_destroy(s->session);
    free(s->values);
    cli_nodes_free(&s->nodes);
    exg_tensor_file_close(s->recorded);
    cli_inputs_free(&s->inputs);
    cli_close(&s->program);
    exg_program_destroy(s->whole);
    cli_placement_free(&s->placement);
}

/* ---- in another process ---------------------------------------------------------------------- */

/* Its results are nobody's, its faults the user's. */
static exg_status spawn(char *const *words, exg_error *err)
{
    posix_spawn_file_actions_t actions;
    int state = 0;
    pid_t child = -1;
    bool ran = posix_spawn_file_actions_init(&actions) == 0;

    ran =
        ran &&
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
        posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ) == 0 &&
        waitpid(child, &state, 0) == child;
    (void)posix_spawn_file_actions_destroy(&actions);
    if (!ran) {
        return EXG_FAIL(err, IO, "CLI-003", "exg cannot be started once more");
    }
    return WIFEXITED(state) && WEXITSTATUS(state) == 0
               ? EXG_OK
               : EXG_FAIL(err, MISMATCH, "CMP-002", "the second run failed; it says why above");
}

/* What was recorded of each rank, under one name with {rank} in it. */
static exg_status open_recorded(comparison *c, const char *path, exg_error *err)
{
    for (uint32_t r = 0; r < c->pair_count; r++) {
        char name[PATH_ROOM];

        EXG_TRY(cli_rank_name(path, r, name, sizeof(name), err));
        EXG_TRY_IN(err, cli_open_tensors(name, &c->pairs[r].b.recorded, err), "%s:", name);
    }
    return EXG_OK;
}

static void remove_recorded(const comparison *c, const char *path)
{
    for (uint32_t r = 0; r < c->pair_count; r++) {
        char name[PATH_ROOM];

        if (cli_rank_name(path, r, name, sizeof(name), NULL) == EXG_OK) {
            (void)unlink(name);
        }
    }
}

/* The instruction-set level is a process's: B is run in one of its own, and recorded. */
static exg_status run_apart(comparison *c, bool is_parallel, exg_error *err)
{
    char folder[] = "/tmp/exg-compare-XXXXXX";
    char nodes[sizeof(folder) + 32];
    char output[sizeof(folder) + 32];
    cli_call call = c->b_call;
    const char **words;
    uint32_t count = 0;
    exg_status status = EXG_OK;

    EXG_TRY(cli_check_apart(&call, err));
    call.json = call.has_rtol = call.has_atol = false;
    words = cli_words_of(&call, "run", 'R', 8);
    if (words == NULL || mkdtemp(folder) == NULL) {
        free(words);
        return EXG_FAIL(err, IO, "CLI-003", "no folder can be made in /tmp");
    }
    snprintf(nodes, sizeof(nodes), "%s/nodes.{rank}.safetensors", folder);
    snprintf(output, sizeof(output), "%s/outputs.{rank}.safetensors", folder);
    if (!is_parallel) { /* {rank} is for ranks that have files of their own */
        snprintf(nodes, sizeof(nodes), "%s/nodes.safetensors", folder);
        snprintf(output, sizeof(output), "%s/outputs.safetensors", folder);
    }
    while (words[count] != NULL) {
        count++;
    }
    words[count++] = "--dump";
    words[count++] = nodes;
    words[count++] = "--output";
    words[count++] = output;
    status = spawn((char *const *)(uintptr_t)words, err);
    status = status == EXG_OK ? open_recorded(c, nodes, err) : status;
    remove_recorded(c, nodes);
    remove_recorded(c, output);
    (void)rmdir(folder);
    free(words);
    return status;
}

static bool is_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* ---- compared ---------------------------------------------------------------------------------
 */

static exg_named_tensor as_named(const exg_tensor *tensor)
{
    return (exg_named_tensor){
        .dtype = tensor->dtype, .rank = tensor->rank, .shape = tensor->sizes, .data = tensor->data};
}

/* What B has under a name of A's: a node's, or the position of an output. */
static bool find_other(const side *b, const char *name, uint32_t output, bool is_output,
                       exg_named_tensor *found)
{
    const exg_named_tensor *recorded =
        b->recorded == NULL ? NULL : exg_tensor_file_find(b->recorded, name);
    exg_tensor numbers;

    if (b->recorded != NULL) {
        *found = recorded == NULL ? (exg_named_tensor){0} : *recorded;
        return recorded != NULL;
    }
    if (is_output) {
        if (output >= cli_own_outputs(&b->nodes, b->session) ||
            !cli_output_tensor(cli_own_output(&b->nodes, b->session, output), &numbers)) {
            return false;
        }
        *found = as_named(&numbers);
        return true;
    }
    for (uint32_t i = 0; i < b->value_count; i++) {
        if (strcmp(b->values[i].name, name) == 0) {
            *found = as_named(&b->values[i].tensor);
            return true;
        }
    }
    return false;
}

/* What a node of A is called in B. Inner graphs are matched by their names. */
static const char *name_in_b(const pair *of, const cli_node_value *value)
{
    return of->others == NULL || value->is_inner ? value->name : of->others[value->before];
}

static row *add_row(comparison *c, const pair *of, const char *name, uint32_t place)
{
    c->rows[c->count] = (row){.of = of, .name = name, .place = place};
    return &c->rows[c->count++];
}

static exg_status compare_pair(comparison *c, const pair *of, exg_error *err)
{
    const side *a = &of->a;
    const uint32_t own = cli_own_outputs(&a->nodes, a->session);
    const double rtol = c->call->has_rtol ? c->call->rtol : CLI_RTOL_OF_DTYPE;
    const double atol = c->call->has_atol ? c->call->atol : CLI_ATOL_OF_VALUES;

    for (uint32_t i = 0; i < a->value_count; i++) {
        const char *other_name = name_in_b(of, &a->values[i]);
        row *r = add_row(c, of, a->values[i].name, i);
        exg_named_tensor other;

        r->is_compared = other_name != NULL && find_other(&of->b, other_name, 0, false, &other);
        if (r->is_compared) {
            r->gap = cli_find_gap(&a->values[i].tensor, &other, rtol, atol);
            r->is_compared = of->others == NULL || !r->gap.other_shape; /* else another node */
        }
    }
    for (uint32_t i = 0; i < own; i++) {
        const char *name = exg_arena_printf(c->inputs.arena, "%u", i);
        exg_tensor got;
        exg_named_tensor other;
        bool has_other;
        row *r;

        EXG_TRY(name == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK);
        if (!cli_output_tensor(cli_own_output(&a->nodes, a->session, i), &got)) {
            continue; /* the program says it, no run */
        }
        has_other = find_other(&of->b, name, i, true, &other);
        if (!has_other && of->b.recorded != NULL) {
            continue; /* it may have the node whose value this is */
        }
        r = add_row(c, of, name, a->value_count + i);
        r->is_compared = has_other;
        if (has_other) {
            r->gap = cli_find_gap(&got, &other, rtol, atol);
        }
    }
    return EXG_OK;
}

/* What is first in the graph comes first, whichever rank has it. */
static int by_place(const void *a, const void *b)
{
    const row *x = a;
    const row *y = b;

    return x->place != y->place ? (x->place > y->place) - (x->place < y->place)
                                : (x->of > y->of) - (x->of < y->of);
}

static exg_status compare_rows(comparison *c, exg_error *err)
{
    size_t count = 1;

    for (uint32_t p = 0; p < c->pair_count; p++) {
        const side *a = &c->pairs[p].a;

        count += a->value_count + cli_own_outputs(&a->nodes, a->session);
    }
    c->rows = calloc(count, sizeof(*c->rows));
    if (c->rows == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t p = 0; p < c->pair_count; p++) {
        EXG_TRY(compare_pair(c, &c->pairs[p], err));
    }
    qsort(c->rows, c->count, sizeof(*c->rows), by_place);
    return EXG_OK;
}

static bool is_wrong(const row *r)
{
    return r->is_compared && (r->gap.other_shape || r->gap.wrong > 0);
}

/* Counts of rows: compared, with different bits, wrong; and the first of each. */
typedef struct tally {
    uint32_t compared, different, wrong;
    const row *first_different, *first_wrong;
} tally;

static tally count_rows(const comparison *c)
{
    tally t = {0};

    for (uint32_t i = 0; i < c->count; i++) {
        const row *r = &c->rows[i];
        bool differs = r->is_compared && (r->gap.other_shape || r->gap.different > 0);

        t.compared += r->is_compared;
        t.different += differs;
        t.wrong += is_wrong(r);
        t.first_different = t.first_different == NULL && differs ? r : t.first_different;
        t.first_wrong = t.first_wrong == NULL && is_wrong(r) ? r : t.first_wrong;
    }
    return t;
}

/* ---- told ------------------------------------------------------------------------------------ */

/* A node's; numbers are outputs. */
static const row *find_row(const comparison *c, const pair *of, const char *name)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->rows[i].of == of && c->rows[i].place < of->a.value_count &&
            strcmp(c->rows[i].name, name) == 0) {
            return &c->rows[i];
        }
    }
    return NULL;
}

/* A value that the node of a row reads: of an inner graph in the same turn of a loop. */
static const row *find_operand(const comparison *c, const row *of, uint32_t prefix,
                               const char *name)
{
    const char *turn = prefix == 0 ? NULL : strchr(of->name + prefix, '@');
    exg_text text = EXG_TEXT_EMPTY;
    const row *found;

    exg_text_add(&text, of->name, prefix);
    exg_text_puts(&text, name);
    exg_text_puts(&text, turn == NULL ? "" : turn);
    found = text.failed ? NULL : find_row(c, of->of, exg_text_string(&text));
    exg_text_free(&text);
    return found;
}

typedef struct teller {
    const comparison *c;
    const row *of;
    const exg_graph *graph;
    uint32_t prefix; /* of the graph, in the names of rows */
    exg_text *text;
    bool json;
} teller;

/* An operand: how far it was apart already. */
static void tell_operand(void *user, exg_value_id *id)
{
    teller *t = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &t->graph->values[*id];
    const row *r = value == NULL ? NULL : find_operand(t->c, t->of, t->prefix, value->name);

    if (value == NULL || value->tensor == NULL) {
        return;
    }
    if (t->json) {
        exg_json_put_open(t->text, '{');
        exg_json_member_text(t->text, "name", value->name);
        exg_json_member_bool(t->text, "compared", r != NULL && r->is_compared);
        if (r != NULL && r->is_compared) {
            cli_put_gap_json(t->text, &r->gap);
        }
        exg_json_put_close(t->text, '}');
        return;
    }
    exg_text_puts(t->text, "  operand ");
    exg_text_plain(t->text, value->name, false);
    exg_text_puts(t->text, ": ");
    if (r != NULL && r->is_compared) {
        cli_put_gap(t->text, &r->gap);
    } else {
        exg_text_puts(t->text, r != NULL       ? "not compared: B has none"
                               : t->prefix > 0 ? "given to the graph"
                                               : "an input, or a weight");
    }
    exg_text_putc(t->text, '\n');
}

static void tell_operands(const comparison *c, exg_text *text, const row *r, bool json)
{
    teller t = {.c = c, .of = r, .text = text, .json = json};
    const exg_node *node = cli_node_of(r->of->a.program.program, r->name, &t.graph, &t.prefix);

    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_argument_visit_values(&node->inputs[i].arg, tell_operand, &t);
    }
}

static void put_place(exg_text *text, const exg_node *node)
{
    const exg_module_frame module = exg_node_module(node);
    exg_source_line source;

    exg_text_printf(text, "  operator %s\n", node->target);
    if (module.path_length > 0) {
        exg_text_printf(text, "  module %.*s\n", (int)module.path_length, module.path);
    }
    if (exg_node_source_line(node, &source)) {
        exg_text_printf(text, "  source %.*s:%u: %.*s\n", (int)source.file_length, source.file,
                        source.line, (int)source.code_length, source.code);
    }
}

static void put_name(exg_text *text, const comparison *c, const row *r)
{
    if (c->a_ranks != NULL) {
        exg_text_printf(text, "rank %u, ", (uint32_t)(r->of - c->pairs));
    }
    exg_text_puts(text, r->place >= r->of->a.value_count ? "output " : "");
    exg_text_plain(text, r->name, false);
}

static void put_first(exg_text *text, const comparison *c, const row *r, const char *title)
{
    const exg_node *node = cli_node_of(r->of->a.program.program, r->name, NULL, NULL);

    exg_text_printf(text, "%s: ", title);
    put_name(text, c, r);
    exg_text_puts(text, "\n");
    if (node != NULL) {
        exg_text place = EXG_TEXT_EMPTY;

        put_place(&place, node);
        exg_text_plain(text, exg_text_part(text, &place), true);
        exg_text_free(&place);
    }
    exg_text_puts(text, "  error ");
    cli_put_gap(text, &r->gap);
    exg_text_putc(text, '\n');
    if (node != NULL) {
        tell_operands(c, text, r, false);
    }
}

/* Values that A alone has, by name: the first, and how many more. */
static void put_alone(exg_text *text, const comparison *c, const tally *t)
{
    uint32_t told = 0;

    for (uint32_t i = 0; i < c->count && told < ALONE_TOLD; i++) {
        const row *r = &c->rows[i];

        if (!r->is_compared) {
            exg_text_puts(text, told++ == 0 ? "not in B: " : c->a_ranks != NULL ? "; " : ", ");
            put_name(text, c, r);
        }
    }
    if (told > 0) {
        const uint32_t more = c->count - t->compared - told;

        if (more > 0) {
            exg_text_printf(text, ", and %u more", more);
        }
        exg_text_putc(text, '\n');
    }
}

static void put_report(exg_text *text, const comparison *c, const tally *t)
{
    cli_put_made(text, c->call, &c->inputs);
    exg_text_printf(text, "%u of %u values compared: %u equal, %u within the tolerance, %u not\n",
                    t->compared, c->count, t->compared - t->different, t->different - t->wrong,
                    t->wrong);
    put_alone(text, c, t);
    if (t->first_wrong != NULL) {
        put_first(text, c, t->first_wrong, "first beyond the tolerance");
    } else if (t->first_different != NULL) {
        put_first(text, c, t->first_different, "first that is not equal");
    }
}

static void put_row_json(exg_text *text, const comparison *c, const row *r)
{
    const exg_node *node = cli_node_of(r->of->a.program.program, r->name, NULL, NULL);
    exg_module_frame module;
    exg_source_line source;
    exg_text part = EXG_TEXT_EMPTY;

    exg_json_put_open(text, '{');
    if (c->a_ranks != NULL) {
        exg_json_member_uint(text, "rank", (uint64_t)(r->of - c->pairs));
    }
    exg_json_member_text(text, "name", r->name);
    exg_json_member_text(text, "operator", node == NULL ? "" : node->target);
    if (node != NULL) {
        module = exg_node_module(node);
        exg_text_add(&part, module.path, module.path_length);
    }
    exg_json_member_text(text, "module", exg_text_part(text, &part));
    exg_text_free(&part);
    if (node != NULL && exg_node_source_line(node, &source)) {
        exg_text_printf(&part, "%.*s:%u: %.*s", (int)source.file_length, source.file, source.line,
                        (int)source.code_length, source.code);
    }
    exg_json_member_text(text, "source", exg_text_part(text, &part));
    exg_text_free(&part);
    cli_put_gap_json(text, &r->gap);
    exg_json_member_open(text, "operands", '[');
    if (node != NULL) {
        tell_operands(c, text, r, true);
    }
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
}

static void put_report_json(exg_text *text, const comparison *c, const tally *t)
{
    const row *first = t->first_wrong != NULL ? t->first_wrong : t->first_different;

    cli_json_begin(text);
    cli_put_made_json(text, c->call, &c->inputs);
    exg_json_member_uint(text, "values", c->count);
    exg_json_member_uint(text, "compared", t->compared);
    exg_json_member_uint(text, "equal", t->compared - t->different);
    exg_json_member_uint(text, "within_tolerance", t->different - t->wrong);
    exg_json_member_uint(text, "wrong", t->wrong);
    if (first != NULL) {
        exg_json_put_key(text, "first");
        put_row_json(text, c, first);
    }
    cli_json_end(text);
}

static exg_status report(const comparison *c, exg_error *err)
{
    const tally t = count_rows(c);
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (t.compared == 0) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CMP-003", "A and B have no value in common"),
                             "values are compared by the names that nodes have in the graph, and "
                             "outputs by position");
    }
    (c->call->json ? put_report_json : put_report)(&text, c, &t);
    status = cli_put(c->call->out, &text, err);
    exg_text_free(&text);
    EXG_TRY(status);
    return t.wrong == 0 ? EXG_OK
                        : cli_at_node(t.first_wrong->of->a.program.program, t.first_wrong->name,
                                      EXG_FAIL(err, MISMATCH, "CMP-001",
                                               "%u of %u values differ, '%s' first", t.wrong,
                                               t.compared, t.first_wrong->name),
                                      err);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

/* Where a fault is begins with the side, unless it is the file that the side is read from. */
static exg_status of_side(const cli_call *call, const char *name, exg_status status, exg_error *err)
{
    const char *path = call->paths[0];

    return status == EXG_OK || strncmp(err->where, path, strlen(path)) == 0
               ? status
               : exg_error_within(err, status, "%s", name);
}

/* A and B on one core or one mesh. */
static exg_status run_pair(comparison *c, exg_error *err)
{
    const bool has_precision = c->a_call.precision != NULL || c->b_call.precision != NULL;
    pair *of = &c->pairs[0];

    of->a.call = c->a_call;
    of->b.call = c->b_call;
    EXG_TRY(of_side(&of->a.call, "A",
                    run_side(&of->a, &c->inputs, has_precision, of->b.recorded, err), err));
    return of->b.recorded != NULL
               ? EXG_OK
               : of_side(&of->b.call, "B", run_side(&of->b, &c->inputs, has_precision, NULL, err),
                         err);
}

static exg_status take_rank(cli_ranks *ranks, uint32_t at, side *s, exg_error *err)
{
    const cli_run *run = cli_ranks_at(ranks, at);

    s->is_rank = true;
    s->program = run->program;
    s->nodes = run->nodes;
    s->session = run->session;
    return cli_nodes_values(&s->nodes, s->session, &s->values, &s->value_count, err);
}

/* Programs that are already parallel, or one for each rank. */
static exg_status run_ranks(comparison *c, exg_error *err)
{
    EXG_TRY(of_side(&c->a_call, "A", cli_ranks_run(&c->a_call, &c->a_ranks, err), err));
    if (c->pairs[0].b.recorded == NULL) {
        EXG_TRY(of_side(&c->b_call, "B", cli_ranks_run(&c->b_call, &c->b_ranks, err), err));
        if (cli_ranks_count(c->b_ranks) != c->pair_count) {
            return EXG_FAIL(err, USAGE, "CLI-013", "A has %u ranks, B %u", c->pair_count,
                            cli_ranks_count(c->b_ranks));
        }
    }
    for (uint32_t r = 0; r < c->pair_count; r++) {
        EXG_TRY(take_rank(c->a_ranks, r, &c->pairs[r].a, err));
        EXG_TRY(c->b_ranks == NULL ? EXG_OK : take_rank(c->b_ranks, r, &c->pairs[r].b, err));
    }
    return EXG_OK;
}

static exg_status run_both(comparison *c, bool is_parallel, exg_error *err)
{
    const char *b = c->call->path_count > 1 ? c->call->paths[1] : NULL;
    char first[PATH_ROOM];

    if (b != NULL) {
        EXG_TRY(cli_rank_name(b, 0, first, sizeof(first), err));
    }
    if (b != NULL && cli_is_weights_file(c->call, first)) {
        EXG_TRY(open_recorded(c, b, err));
    } else if (!is_text(c->a_call.isa, c->b_call.isa)) {
        EXG_TRY(run_apart(c, is_parallel, err));
    }
    EXG_TRY(is_parallel ? run_ranks(c, err) : run_pair(c, err));
    for (uint32_t p = 0; p < c->pair_count; p++) {
        pair *of = &c->pairs[p];

        if (of->b.recorded == NULL && !c->is_one_graph) {
            EXG_TRY(cli_match_nodes(of->a.program.program, &of->a.nodes, of->b.program.program,
                                    c->inputs.arena, &of->others, err));
        }
    }
    return compare_rows(c, err);
}

/* One, or one for each rank. */
static exg_status make_pairs(comparison *c, bool is_parallel, exg_error *err)
{
    exg_mesh_shape mesh;

    c->pair_count = 1;
    EXG_TRY(cli_mesh(&c->a_call, &mesh, err));
    for (uint32_t d = 0; is_parallel && d < mesh.ndim; d++) {
        c->pair_count *= mesh.sizes[d];
    }
    c->pairs = calloc(c->pair_count, sizeof(*c->pairs));
    return c->pairs == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
}

static void close_all(comparison *c)
{
    for (uint32_t p = 0; c->pairs != NULL && p < c->pair_count; p++) {
        close_side(&c->pairs[p].a);
        close_side(&c->pairs[p].b);
    }
    cli_ranks_close(c->a_ranks);
    cli_ranks_close(c->b_ranks);
    free(c->pairs);
    free(c->rows);
    cli_inputs_free(&c->inputs);
    cli_close(&c->first);
}

exg_status cmd_compare(const cli_call *call, exg_error *err)
{
    comparison c = {.call = call, .a_call = *call};
    bool is_parallel;
    exg_status status;

    EXG_TRY(cli_apply_with(call, &c.b_call, err));
    if (call->path_count > 1) {
        c.b_call.paths[0] = call->paths[1];
    } else if (call->with.count == 0) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "A is compared with nothing"),
                             "give B, or say by --with how A is run the second time");
    }
    c.is_one_graph = call->path_count < 2 && is_text(c.a_call.stage, c.b_call.stage) &&
                     is_text(c.a_call.rank_file, c.b_call.rank_file);
    EXG_TRY(cli_open_verified(call, &c.first, err));
    is_parallel = cli_is_parallel(call, &c.first) || cli_is_parallel(&c.b_call, &c.first);
    if (is_parallel &&
        (cli_process_count() > 1 || c.a_call.stage != NULL || c.b_call.stage != NULL)) {
        cli_close(&c.first);
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "CLI-013",
                                      "programs that are already parallel are compared on threads "
                                      "of one process, and after no stage"),
                             "exg run --dump 'nodes.{rank}.safetensors', and --expect with that");
    }
    status = make_pairs(&c, is_parallel, err);
    if (status == EXG_OK && !is_parallel) {
        status = cli_inputs_read(call, &c.first, &c.inputs, err);
    } else if (status == EXG_OK) { /* each rank reads its own */
        c.inputs.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
        status = c.inputs.arena == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    status = status == EXG_OK ? run_both(&c, is_parallel, err) : status;
    status = status == EXG_OK ? report(&c, err) : status;
    close_all(&c);
    return status;
}
