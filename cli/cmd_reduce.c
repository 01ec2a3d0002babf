/* cmd_reduce.c - exg reduce FILE OUT -- COMMAND: a program for which a command fails, made smaller
 * as long as the command fails in the same way. */
#include "cli/cli.h"

#include <exg/transform.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct reducer {
    const cli_call *call;
    const exg_operators *operators;
    exg_program *program; /* the smallest so far that fails */
    exg_format format;
    bool is_sound; /* the whole is, so parts must be */
    char folder[32];
    char path[64];      /* of what the command looks at */
    const char **words; /* of the command */
    char **made;        /* words with the path in them */
    int state;          /* how the command ended on the whole */
    uint32_t tries;
    double splat;
    exg_error *err;
} reducer;

/* ---- the command ----------------------------------------------------------------------------- */

/* The words of the command with the path for each {}, or at the end. */
static exg_status make_words(reducer *r)
{
    const uint32_t count = r->call->files.count - 2;
    bool placed = false;

    r->words = calloc((size_t)count + 2, sizeof(*r->words));
    r->made = calloc((size_t)count + 1, sizeof(*r->made));
    if (r->words == NULL || r->made == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *word = r->call->files.items[i + 2];
        const char *mark = strstr(word, "{}");

        r->words[i] = word;
        if (mark != NULL) {
            size_t room = strlen(word) + sizeof(r->path);

            r->made[i] = malloc(room);
            if (r->made[i] == NULL) {
                return EXG_OUT_OF_MEMORY(r->err);
            }
            snprintf(r->made[i], room, "%.*s%s%s", (int)(mark - word), word, r->path, mark + 2);
            r->words[i] = r->made[i];
            placed = true;
        }
    }
    r->words[count] = placed ? NULL : r->path;
    return EXG_OK;
}

/* Runs it, silently; *state as of waitpid(). */
static exg_status run_command(reducer *r, int *state)
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int fault;

    if (posix_spawn_file_actions_init(&actions) != 0) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    fault = posix_spawnp(&child, r->words[0], &actions, NULL, (char *const *)(uintptr_t)r->words,
                         environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    r->tries++;
    if (fault != 0 || waitpid(child, state, 0) != child) {
        return EXG_FAIL(r->err, USAGE, "CLI-004", "the command '%s' cannot be run: %s", r->words[0],
                        strerror(fault));
    }
    return EXG_OK;
}

static exg_status run_on(reducer *r, const exg_program *program, int *state)
{
    exg_save_options options = {.size = sizeof(options), .threads = 1};

    EXG_TRY(exg_save(program, r->path, r->format, &options, r->err));
    return run_command(r, state);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Takes the candidate where it still fails, else destroys it. */
static exg_status offer(reducer *r, exg_program *candidate, bool *taken)
{
    exg_verified verified;
    int state = 0;

    *taken = false;
    if (r->is_sound && exg_verify(candidate, r->operators, &verified, NULL, NULL) != EXG_OK) {
        exg_program_destroy(candidate);
        return EXG_OK;
    }
    if (run_on(r, candidate, &state) != EXG_OK || state != r->state) {
        exg_program_destroy(candidate);
        return EXG_OK; /* what cannot be saved is no candidate */
    }
    exg_program_destroy(r->program);
    r->program = candidate;
    *taken = true;
    return EXG_OK;
}

/* The part that gives `outputs`, with these values as constants, of graph `graph` as
 * exg_part_options counts. */
static exg_status offer_part(reducer *r, const exg_value_id *outputs, uint32_t count,
                             const exg_value_id *constants, uint32_t constant_count, uint32_t graph,
                             bool *taken)
{
    const exg_part_options options = {.size = sizeof(options),
                                      .constants = constants,
                                      .constant_count = constant_count,
                                      .constant = r->splat,
                                      .graph = graph};
    exg_program *part;

    *taken = false;
    if (exg_program_part(r->program, r->operators, outputs, count, &options, &part, NULL) !=
        EXG_OK) {
        return EXG_OK;
    }
    return offer(r, part, taken);
}

/* ---- weights --------------------------------------------------------------------------------- */

static exg_status reduce_weights(reducer *r)
{
    exg_program *candidate;
    exg_weights *made = NULL;
    bool taken;

    EXG_TRY(exg_program_copy(r->program, &candidate, r->err));
    if (exg_weights_splat(candidate->weights, r->splat, &made, r->err) != EXG_OK) {
        exg_program_destroy(candidate);
        return r->err == NULL ? EXG_NO_MEMORY : r->err->status;
    }
    exg_weights_release(candidate->weights);
    candidate->weights = made;
    return offer(r, candidate, &taken);
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* The tensors that the program gives; the caller frees them. NULL: out of memory. */
static exg_value_id *list_outputs(const exg_program *program, uint32_t *count)
{
    exg_value_id *ids = calloc((size_t)program->graph->output_count + 1, sizeof(*ids));

    *count = 0;
    for (uint32_t o = 0; ids != NULL && o < program->graph->output_count; o++) {
        const exg_argument *output = &program->graph->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR &&
            (program->signature.outputs[o].kind == EXG_OUTPUT_USER ||
             program->signature.outputs[o].kind == EXG_OUTPUT_LOSS)) {
            ids[(*count)++] = output->as_tensor;
        }
    }
    return ids;
}

/* Leaves out runs of outputs, half of them, a quarter, ... one. */
static exg_status reduce_outputs(reducer *r)
{
    uint32_t count;
    exg_value_id *ids = list_outputs(r->program, &count);
    exg_value_id *fewer = calloc((size_t)count + 1, sizeof(*fewer));
    exg_status status = ids == NULL || fewer == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
    bool taken = false;

    if (status == EXG_OK && count > 0) { /* without what it writes, first */
        status = offer_part(r, ids, count, NULL, 0, 0, &taken);
    }
    for (uint32_t size = count / 2 + count % 2; status == EXG_OK && size > 0 && count > 1;
         size = size == 1 ? 0 : size / 2 + size % 2) {
        for (uint32_t at = 0; status == EXG_OK && at < count && count > 1;) {
            uint32_t left = count - at < size ? count - at : size;

            memcpy(fewer, ids, at * sizeof(*ids));
            memcpy(fewer + at, ids + at + left, (count - at - left) * sizeof(*ids));
            taken = false;
            if (left < count) {
                status = offer_part(r, fewer, count - left, NULL, 0, 0, &taken);
            }
            if (taken) { /* the copy has the same numbers */
                count -= left;
                memcpy(ids, fewer, count * sizeof(*ids));
            } else {
                at += left;
            }
        }
    }
    free(ids);
    free(fewer);
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* What nodes become that are cut. */
static bool is_constant(const exg_node *node)
{
    return strcmp(node->target, "torch.ops.aten.full.default") == 0;
}

/* Nodes that compute. */
static uint32_t count_nodes(const exg_graph *graph)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        count += !is_constant(&graph->nodes[n]);
    }
    return count;
}

/* Those in graphs that nodes run. */
static uint32_t count_within(const exg_program *program)
{
    const exg_graph *graph;
    uint32_t count = 0;

    for (uint32_t k = 1; (graph = exg_graph_within(program->graph, k)) != NULL; k++) {
        count += count_nodes(graph);
    }
    return count;
}

/* What each node gives, where that is one tensor; in order. NULL: out of memory. */
static exg_value_id *list_nodes(const exg_graph *graph, uint32_t *count)
{
    exg_value_id *ids = calloc((size_t)graph->node_count + 1, sizeof(*ids));

    *count = 0;
    for (uint32_t n = 0; ids != NULL && n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
            !is_constant(node)) {
            ids[(*count)++] = node->outputs[0].as_tensor;
        }
    }
    return ids;
}

/* The program ends earlier: at the first node that fails by itself, as far as halving finds it. */
static exg_status cut_end(reducer *r)
{
    uint32_t count;
    exg_value_id *ids = list_nodes(r->program->graph, &count);
    exg_status status = ids == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
    uint32_t low = 0;

    for (uint32_t high = count; status == EXG_OK && low < high;) {
        uint32_t middle = low + (high - low) / 2;
        bool taken;

        status = offer_part(r, &ids[middle], 1, NULL, 0, 0, &taken);
        if (taken) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    free(ids);
    return status;
}

/* The program's own graph, 0, or one that a node runs. */
static const exg_graph *graph_of(const reducer *r, uint32_t number)
{
    return number == 0 ? r->program->graph : exg_graph_within(r->program->graph, number);
}

/* Runs of nodes become constants, half of all, a quarter, ... one; what only they need goes. */
static exg_status cut_nodes(reducer *r, uint32_t number)
{
    uint32_t size = graph_of(r, number)->node_count;
    exg_status status = EXG_OK;

    while (status == EXG_OK && size > 0) {
        uint32_t count;
        uint32_t output_count;
        exg_value_id *ids = list_nodes(graph_of(r, number), &count);
        exg_value_id *outputs = list_outputs(r->program, &output_count);
        bool taken = false;

        status = ids == NULL || outputs == NULL ? EXG_OUT_OF_MEMORY(r->err) : EXG_OK;
        for (uint32_t end = count; status == EXG_OK && !taken && end > 0;
             end -= end < size ? end : size) {
            uint32_t left = end < size ? end : size;

            status = offer_part(r, outputs, number == 0 ? output_count : 0, &ids[end - left], left,
                                number, &taken);
        }
        size = taken ? size : size / 2;
        free(ids);
        free(outputs);
    }
    return status;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Without those that nothing needs any more. */
static exg_status reduce_inputs(reducer *r)
{
    const exg_part_options options = {.size = sizeof(options), .drops_inputs = true};
    uint32_t count;
    exg_value_id *outputs = list_outputs(r->program, &count);
    exg_program *part;
    bool taken;

    if (outputs == NULL) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    if (count > 0 && exg_program_part(r->program, r->operators, outputs, count, &options, &part,
                                      NULL) == EXG_OK) {
        if (part->graph->input_count < r->program->graph->input_count) {
            (void)offer(r, part, &taken);
        } else {
            exg_program_destroy(part);
        }
    }
    free(outputs);
    return EXG_OK;
}

static exg_status reduce(reducer *r)
{
    uint32_t before;

    EXG_TRY(reduce_weights(r));
    EXG_TRY(reduce_outputs(r));
    do {
        before = r->program->graph->node_count;
        EXG_TRY(cut_end(r));
        EXG_TRY(cut_nodes(r, 0));
    } while (r->program->graph->node_count < before);
    for (uint32_t k = 1; graph_of(r, k) != NULL; k++) { /* a node may go with the graphs in it */
        EXG_TRY(cut_nodes(r, k));
    }
    return reduce_inputs(r);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static exg_status begin(reducer *r, const cli_program *p)
{
    exg_verified verified;
    const char *out = r->call->paths[1];

    r->format = exg_format_from_path(out);
    if (r->format == EXG_FORMAT_COUNT || r->format == EXG_FORMAT_EARLY_JSON) {
        return exg_error_fix(r->err, EXG_FAIL(r->err, USAGE, "CLI-006", "no format for '%s'", out),
                             "name the output .pt2 or .exg");
    }
    memcpy(r->folder, "/tmp/exg-reduce-XXXXXX", sizeof("/tmp/exg-reduce-XXXXXX"));
    if (mkdtemp(r->folder) == NULL) {
        r->folder[0] = '\0';
        return EXG_FAIL(r->err, IO, "CLI-003", "no folder can be made in /tmp");
    }
    snprintf(r->path, sizeof(r->path), "%s/part%s", r->folder,
             r->format == EXG_FORMAT_PT2 ? ".pt2" : ".exg");
    r->is_sound = exg_verify(p->program, p->operators, &verified, NULL, NULL) == EXG_OK;
    EXG_TRY(make_words(r));
    EXG_TRY(exg_program_copy(p->program, &r->program, r->err));
    EXG_TRY(run_on(r, r->program, &r->state));
    if (WIFEXITED(r->state) && WEXITSTATUS(r->state) == 0) {
        return exg_error_fix(
            r->err,
            EXG_FAIL(r->err, USAGE, "RDC-001", "the command does not fail on the whole program"),
            "what is kept is what makes it end with another exit code than 0, "
            "always the same");
    }
    return EXG_OK;
}

static void end(reducer *r)
{
    if (r->folder[0] != '\0') {
        (void)unlink(r->path);
        (void)rmdir(r->folder);
    }
    for (uint32_t i = 0; r->made != NULL && i + 2 < r->call->files.count; i++) {
        free(r->made[i]);
    }
    free(r->made);
    free(r->words);
    exg_program_destroy(r->program);
}

static exg_status report(const reducer *r, const exg_program *whole)
{
    const uint32_t before = count_nodes(whole->graph);
    const uint32_t within_before = count_within(whole);
    const uint32_t within = count_within(r->program);
    const uint32_t nodes = count_nodes(r->program->graph);
    const int code = WIFEXITED(r->state) ? WEXITSTATUS(r->state) : 128 + WTERMSIG(r->state);
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (r->call->json) {
        cli_json_begin(&text);
        exg_json_member_text(&text, "written", r->call->paths[1]);
        exg_json_member_uint(&text, "nodes_before", before);
        exg_json_member_uint(&text, "nodes", nodes);
        exg_json_member_uint(&text, "within_before", within_before);
        exg_json_member_uint(&text, "within", within);
        exg_json_member_int(&text, "exit_code", code);
        exg_json_member_uint(&text, "tries", r->tries);
        cli_json_end(&text);
    } else {
        exg_text_plain(&text, r->call->paths[1], false);
        exg_text_puts(&text, ": ");
        exg_text_count(&text, nodes, "node");
        exg_text_printf(&text, " of %u, the command ends with %d; ", before, code);
        exg_text_count(&text, r->tries, "run");
        exg_text_puts(&text, " of it\n");
        if (within_before > 0) {
            exg_text_puts(&text, "in graphs of branches and loops: ");
            exg_text_count(&text, within, "node");
            exg_text_printf(&text, " of %u\n", within_before);
        }
    }
    status = cli_put(r->call->out, &text, r->err);
    exg_text_free(&text);
    return status;
}

exg_status cmd_reduce(const cli_call *call, exg_error *err)
{
    const exg_save_options options = {.size = sizeof(options)};
    reducer r = {.call = call, .err = err};
    cli_program p;
    exg_status status = cli_splat(call, &r.splat, err);

    EXG_TRY(status);
    EXG_TRY(cli_open(call, &p, err));
    r.operators = p.operators;
    status = begin(&r, &p);
    status = status == EXG_OK ? reduce(&r) : status;
    status =
        status == EXG_OK ? exg_save(r.program, call->paths[1], r.format, &options, err) : status;
    status = status == EXG_OK ? report(&r, p.program) : status;
    end(&r);
    cli_close(&p);
    return status;
}
