/* run.c - one rank's run of a program: inputs in, outputs out, compared when asked. */
#include "cli/cli.h"
#include "cli/outputs.h"
#include "cli/profile.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static exg_named_tensor named(const char *name, const exg_tensor *t)
{
    return (exg_named_tensor){.name = name,
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .shape = t->sizes,
                              .data = t->data,
                              .bytes = (uint64_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype)};
}

/* By position. */
static exg_status write_outputs(const char *path, exg_session *session, const cli_nodes *nodes,
                                exg_error *err)
{
    const uint32_t count = cli_own_outputs(nodes, session);
    exg_named_tensor *named_tensors = calloc(count + 1, sizeof(*named_tensors));
    exg_tensor *tensors = calloc(count + 1, sizeof(*tensors));
    char(*numbers)[12] = calloc(count + 1, sizeof(*numbers));
    uint32_t at = 0;
    exg_status status = EXG_OK;

    if (named_tensors == NULL || tensors == NULL || numbers == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        if (cli_output_tensor(cli_own_output(nodes, session, i), &tensors[at])) {
            snprintf(numbers[at], sizeof(numbers[at]), "%u", i);
            named_tensors[at] = named(numbers[at], &tensors[at]);
            at++;
        }
    }
    status = status == EXG_OK ? exg_tensor_file_save(path, named_tensors, at, NULL, err) : status;
    free(named_tensors);
    free(tensors);
    free(numbers);
    return status;
}

static exg_status write_nodes(const char *path, exg_session *session, const cli_nodes *nodes,
                              exg_error *err)
{
    exg_named_tensor *tensors;
    cli_node_value *values;
    uint32_t count;
    exg_status status;

    EXG_TRY(cli_nodes_values(nodes, session, &values, &count, err));
    tensors = calloc((size_t)count + 1, sizeof(*tensors));
    status = tensors == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        tensors[i] = named(values[i].name, &values[i].tensor);
    }
    status = status == EXG_OK ? exg_tensor_file_save(path, tensors, count, NULL, err) : status;
    free(tensors);
    free(values);
    return status;
}

static exg_status write_state(const cli_call *call, exg_session *session, exg_error *err)
{
    uint32_t count = exg_session_state_count(session);
    exg_named_tensor *tensors = calloc(count + 1, sizeof(*tensors));
    exg_tensor *states = calloc(count + 1, sizeof(*states));
    exg_status status;

    if (tensors == NULL || states == NULL) {
        free(tensors);
        free(states);
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *name = exg_session_state_at(session, i, &states[i]);

        tensors[i] = named(name, &states[i]);
    }
    status = exg_tensor_file_save(call->state_output, tensors, count, NULL, err);
    free(tensors);
    free(states);
    return status;
}

/* Set once the plan knows what there is. The one array of an .npy, which has no name, is the one
 * thing that the program writes. */
static exg_status read_state(const cli_call *call, exg_session *session, const cli_inputs *inputs,
                             exg_error *err)
{
    exg_mismatches mismatches = {0};
    exg_tensor_file *file;
    exg_tensor tensor;
    exg_status status;

    EXG_TRY(cli_inputs_told(inputs, exg_session_prepare(session, inputs->items, inputs->count, err),
                            err));
    EXG_TRY_IN(err, cli_open_tensors(call->state, &file, err), "%s:", call->state);
    if (file->count == 1 && file->items[0].name[0] == '\0' &&
        exg_session_state_count(session) == 1) {
        file->items[0].name = exg_session_state_at(session, 0, &tensor);
    }
    status = exg_session_state_set(session, file->items, file->count, &mismatches, err);
    cli_note_mismatches(&mismatches);
    exg_mismatches_free(&mismatches);
    exg_tensor_file_close(file);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", call->state);
}

typedef struct comparison {
    exg_session *session;
    const exg_program *program;
    const cli_inputs *inputs;
    const cli_nodes *nodes;
    const char *name; /* of --expect NAME=FILE, or NULL */
    double rtol, atol;
} comparison;

/* The result called `name`: an output by its position, what the program wrote as buffer:FQN,
 * an input after the run as input:NAME. */
static bool find_result(const comparison *c, const char *name, exg_tensor *tensor)
{
    uint32_t state_count = exg_session_state_count(c->session);
    char number[12];

    for (uint32_t i = 0; i < cli_own_outputs(c->nodes, c->session); i++) {
        snprintf(number, sizeof(number), "%u", i);
        if (strcmp(name, number) == 0) {
            return cli_output_tensor(cli_own_output(c->nodes, c->session, i), tensor);
        }
    }
    for (uint32_t i = 0; strncmp(name, "buffer:", 7) == 0 && i < state_count; i++) {
        if (strcmp(name + 7, exg_session_state_at(c->session, i, tensor)) == 0) {
            return true;
        }
    }
    for (uint32_t i = 0; strncmp(name, "input:", 6) == 0 && i < c->inputs->count; i++) {
        if (strcmp(name + 6, c->inputs->items[i].name) == 0 && !c->inputs->items[i].is_number) {
            *tensor = c->inputs->items[i].tensor;
            return true;
        }
    }
    return false;
}

/* A buffer that the program leaves as it was saved. */
static exg_status compare_unwritten(const comparison *c, const exg_weight *weight,
                                    const exg_named_tensor *want, exg_error *err)
{
    exg_tensor saved = {.dtype = weight->meta->dtype, .rank = weight->meta->rank};
    exg_status status;
    uint64_t bytes;

    if (saved.rank > EXG_RANK_MAX) {
        return EXG_FAIL(err, LIMIT, "SHP-001", "weight '%s' of rank %u", weight->fqn, saved.rank);
    }
    for (uint32_t d = 0; d < saved.rank; d++) {
        saved.sizes[d] = weight->meta->sizes[d].value;
    }
    EXG_TRY(exg_tensor_meta_bytes(weight->meta, &bytes, err));
    saved.data = malloc(bytes + 1);
    if (saved.data == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_tensor_set_contiguous(&saved);
    status = exg_weight_read(c->program->weights, weight, saved.data, bytes, err);
    status =
        status == EXG_OK ? cli_compare(want->name, &saved, want, c->rtol, c->atol, err) : status;
    free(saved.data);
    return status;
}

/* Compares one tensor of the file; `known` is left when it names no result. */
static exg_status compare_one(const comparison *c, const exg_named_tensor *want, bool *known,
                              exg_error *err)
{
    const exg_weight *weight = NULL;
    exg_tensor got;

    if (find_result(c, want->name, &got)) {
        return cli_compare(want->name, &got, want, c->rtol, c->atol, err);
    }
    if (strncmp(want->name, "buffer:", 7) == 0) {
        weight = exg_weights_find(c->program->weights, EXG_TABLE_STATE, want->name + 7);
        weight = weight != NULL
                     ? weight
                     : exg_weights_find(c->program->weights, EXG_TABLE_CONSTANTS, want->name + 7);
    }
    *known = *known && weight != NULL;
    return weight == NULL ? EXG_OK : compare_unwritten(c, weight, want, err);
}

/* FILE, or NAME=FILE of one tensor. The one array of an .npy, which has no name, is the one
 * output. */
static exg_status open_expected(const cli_call *call, const char *name, bool tells,
                                exg_tensor_file **file, exg_error *err)
{
    const char *path = name == NULL ? call->expect : call->expect + strlen(name) + 1;

    EXG_TRY_IN(err,
               tells ? cli_open_tensors(path, file, err) : exg_tensor_file_open(path, file, err),
               "%s:", path);
    if (name != NULL && (*file)->count != 1) {
        const uint32_t count = (*file)->count;

        exg_tensor_file_close(*file);
        *file = NULL;
        return EXG_FAIL(err, USAGE, "CLI-004", "'%s' holds %u tensors, one is wanted", path, count);
    }
    if (name != NULL || ((*file)->count == 1 && (*file)->items[0].name[0] == '\0')) {
        (*file)->items[0].name = name != NULL ? name : "0";
    }
    return EXG_OK;
}

/* Of a file, not one tensor, that names no nodes every tensor among the outputs is in it. */
static exg_status check_whole(const cli_call *call, const comparison *c,
                              const exg_tensor_file *file, exg_error *err)
{
    const bool has_nodes = c->nodes->count > 0 || c->nodes->inner != NULL;
    const uint32_t count = c->name == NULL && !has_nodes ? exg_session_output_count(c->session) : 0;

    for (uint32_t i = 0; i < count; i++) {
        char name[12];

        snprintf(name, sizeof(name), "%u", i);
        if (exg_session_output_at(c->session, i)->constant.kind == EXG_ARGUMENT_TENSOR &&
            exg_tensor_file_find(file, name) == NULL) {
            return EXG_FAIL(err, USAGE, "RUN-002", "%s holds no tensor \"%s\"", call->expect, name);
        }
    }
    return EXG_OK;
}

/* A node that the file has and that is watched gave nothing: the other branch was taken, or a loop
 * went on for less long. */
static exg_status check_ran(const comparison *c, const exg_tensor_file *file,
                            const cli_node_value *values, uint32_t count, exg_error *err)
{
    for (uint32_t f = 0; f < file->count; f++) {
        const char *name = file->items[f].name;
        bool ran = !cli_nodes_have(c->nodes, name);

        for (uint32_t i = 0; !ran && i < count; i++) {
            ran = strcmp(values[i].name, name) == 0;
        }
        if (!ran) {
            return exg_error_fix(
                err,
                cli_at_node(c->program, name,
                            EXG_FAIL(err, MISMATCH, "RUN-003", "node \"%s\" did not run", name),
                            err),
                "another branch was taken, or a loop ended earlier: look at what decides that");
        }
    }
    return EXG_OK;
}

/* In the order of the graph, so that the first is told that differs. */
static exg_status compare_nodes(const comparison *c, const exg_tensor_file *file, exg_error *err)
{
    cli_node_value *values;
    uint32_t count;
    exg_status status;

    EXG_TRY(cli_nodes_values(c->nodes, c->session, &values, &count, err));
    status = EXG_OK;
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        const char *name = values[i].name;
        const exg_named_tensor *want = exg_tensor_file_find(file, name);

        status = want == NULL ? EXG_OK
                              : cli_compare(name, &values[i].tensor, want, c->rtol, c->atol, err);
        status = status == EXG_OK ? EXG_OK : cli_at_node(c->program, name, status, err);
    }
    status = status == EXG_OK ? check_ran(c, file, values, count, err) : status;
    free(values);
    return status;
}

/* Every tensor of the file names a result. */
static exg_status compare_outputs(const cli_call *call, const comparison *c, exg_error *err)
{
    const char *unknown = NULL;
    exg_tensor_file *file;
    exg_status status;

    EXG_TRY(open_expected(call, c->name, true, &file, err));
    status = check_whole(call, c, file, err);
    status = status == EXG_OK ? compare_nodes(c, file, err) : status;
    for (uint32_t i = 0; status == EXG_OK && i < file->count; i++) {
        bool known = true;

        if (cli_nodes_have(c->nodes, file->items[i].name)) {
            continue;
        }
        status = compare_one(c, &file->items[i], &known, err);
        unknown = known || unknown != NULL ? unknown : file->items[i].name;
    }
    if (status == EXG_OK && unknown != NULL) {
        status = EXG_FAIL(err, USAGE, "RUN-002", "%s: \"%s\" is not an output of the program",
                          call->expect, unknown);
    }
    exg_tensor_file_close(file);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void put_stats(exg_text *text, const exg_session_stats *s, const double *times,
                      double first_ns, uint32_t timed, uint32_t count)
{
    exg_text_printf(text, "runs %u, median ", count);
    exg_text_ns(text, times[timed / 2]);
    exg_text_puts(text, ", min ");
    exg_text_ns(text, times[0]);
    exg_text_puts(text, ", first (with planning) ");
    exg_text_ns(text, first_ns);
    exg_text_puts(text, "\nplanning ");
    exg_text_ns(text, (double)s->plan_ns);
    exg_text_printf(
        text,
        ", %u steps, arena %" PRIu64 " bytes, memory %" PRIu64 " bytes, weights %" PRIu64
        " bytes\nmoved %" PRIu64 " bytes a rank in %u collectives\n",
        s->plan->step_count, s->plan->arena_bytes, s->memory_bytes, s->plan->weight_bytes,
        s->partition->moved_bytes, exg_partition_moves(s->partition));
    if (s->plan->host_count > 0) {
        exg_text_printf(text, "%u of the steps are the host's: the device has no kernel\n",
                        s->plan->host_count);
    }
    if (s->collectives_through[0] != '\0') {
        exg_text_puts(text, "collectives go through ");
        exg_text_plain(text, s->collectives_through, false);
        exg_text_putc(text, '\n');
    }
    if (s->libraries[0] != '\0') {
        exg_text_printf(text, "libraries: %s%s\n", s->libraries,
                        strstr(s->libraries, "no cuBLASLt") == NULL
                            ? ""
                            : " (products are slow: docs/devices.md says where it is "
                              "looked for)");
    }
}

static void put_stats_json(exg_text *text, const exg_session_stats *s, const double *times,
                           double first_ns, uint32_t timed, uint32_t count)
{
    exg_json_member_uint(text, "runs", count);
    exg_json_member_fixed(text, "median_ns", times[timed / 2], 0);
    exg_json_member_fixed(text, "min_ns", times[0], 0);
    exg_json_member_fixed(text, "first_ns", first_ns, 0);
    exg_json_member_uint(text, "plan_ns", s->plan_ns);
    exg_json_member_uint(text, "steps", s->plan->step_count);
    exg_json_member_uint(text, "arena_bytes", s->plan->arena_bytes);
    exg_json_member_uint(text, "memory_bytes", s->memory_bytes);
    exg_json_member_uint(text, "weight_bytes", s->plan->weight_bytes);
    exg_json_member_uint(text, "moved_bytes", s->partition->moved_bytes);
    exg_json_member_uint(text, "collectives", exg_partition_moves(s->partition));
    exg_json_member_uint(text, "host_steps", s->plan->host_count);
    if (s->collectives_through[0] != '\0') {
        exg_json_member_text(text, "collectives_through", s->collectives_through);
    }
    if (s->libraries[0] != '\0') {
        exg_json_member_text(text, "libraries", s->libraries);
    }
}

static void put_outputs_json(exg_text *text, const cli_call *call, const exg_session *session,
                             const cli_nodes *nodes)
{
    exg_json_member_open(text, "outputs", '[');
    for (uint32_t i = 0; call->output == NULL && i < cli_own_outputs(nodes, session); i++) {
        cli_put_output_json(text, i, cli_own_output(nodes, session, i));
    }
    exg_json_put_close(text, ']');
    if (call->expect != NULL) {
        exg_json_member_bool(text, "as_expected", true);
    }
}

static void put_outputs(exg_text *text, const cli_call *call, const exg_session *session,
                        const cli_nodes *nodes)
{
    for (uint32_t i = 0; call->output == NULL && i < cli_own_outputs(nodes, session); i++) {
        cli_put_output(text, i, cli_own_output(nodes, session, i));
    }
    if (call->expect != NULL) {
        exg_text_printf(text, "as expected: %s\n", call->expect);
    }
}

/* One object with --json: outputs, then what was compared and measured: of several runs the first,
 * which plans and makes what it keeps, is told beside the others. */
static exg_status put_report(exg_text *text, const cli_call *call, const comparison *results,
                             double *times, uint32_t count, exg_error *err)
{
    exg_session *session = results->session;
    const double first_ns = times[0];
    const uint32_t timed = count > 1 ? count - 1 : 1;

    times += count - timed;
    qsort(times, timed, sizeof(*times), by_value);
    if (call->json) {
        cli_json_begin(text);
    }
    (call->json ? cli_put_made_json : cli_put_made)(text, call, results->inputs);
    (call->json ? put_outputs_json : put_outputs)(text, call, session, results->nodes);
    if (call->stats) {
        (call->json ? put_stats_json : put_stats)(text, exg_session_statistics(session), times,
                                                  first_ns, timed, count);
    }
    if (call->profile) {
        EXG_TRY(cli_put_profile(text, call->json, session, count, err));
    }
    if (call->json) {
        cli_json_end(text);
    }
    return EXG_OK;
}

static exg_status finish(const cli_call *call, const comparison *results, double *times,
                         uint32_t count, exg_error *err)
{
    exg_session *session = results->session;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    cli_note_unsplit(session);
    if (call->output != NULL) {
        EXG_TRY(write_outputs(call->output, session, results->nodes, err));
    }
    if (call->dump != NULL) {
        EXG_TRY(write_nodes(call->dump, session, results->nodes, err));
    }
    if (call->state_output != NULL) {
        EXG_TRY(write_state(call, session, err));
    }
    if (call->expect != NULL) {
        EXG_TRY(compare_outputs(call, results, err));
    }
    if (call->trace != NULL) {
        EXG_TRY(cli_save_trace(call->trace, call->paths[0], session, err));
    }
    if (call->out == NULL) {
        return EXG_OK;
    }
    status = put_report(&text, call, results, times, count, err);
    status = status == EXG_OK ? cli_put(call->out, &text, err) : status;
    exg_text_free(&text);
    return status;
}

/* ---- signals ------------------------------------------------------------------------------- */

static exg_session *volatile running[CLI_THREADS_MAX]; /* by rank here */
static volatile sig_atomic_t interrupted;              /* by which signal */

static void stop_running(int signal_number)
{
    interrupted = signal_number;
    for (uint32_t r = 0; r < CLI_THREADS_MAX; r++) {
        exg_session_stop(running[r]);
    }
}

int cli_interrupted(void)
{
    return interrupted;
}

/* While there are sessions the first signal ends their runs, and a second the process. */
static void watch_signals(void (*stop)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction now;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            now = (struct sigaction){.sa_handler = stop, .sa_flags = (int)SA_RESETHAND};
            (void)sigaction(numbers[i], &now, NULL);
        }
    }
}

void cli_run_watch(bool begins)
{
    watch_signals(begins ? stop_running : SIG_DFL);
}

/* ---- a run --------------------------------------------------------------------------------- */

/* Those of --dump, or that the file of --expect has values for. */
static exg_status watch_nodes(cli_run *run, exg_error *err)
{
    const cli_call *call = run->call;
    exg_tensor_file *file = NULL;
    exg_status status;

    const bool compares = strcmp(call->command, "compare") == 0;

    if (call->expect == NULL && call->dump == NULL && !compares) {
        return EXG_OK;
    }
    if (call->expect != NULL) {
        const char *equals = strchr(call->expect, '=');

        run->expect_name =
            equals == NULL ? NULL : strndup(call->expect, (size_t)(equals - call->expect));
        EXG_TRY(equals != NULL && run->expect_name == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK);
        EXG_TRY(open_expected(call, run->expect_name, false, &file, err));
    }
    status = cli_nodes_watch(call, call->dump != NULL || compares, file, &run->program, &run->nodes,
                             err);
    exg_tensor_file_close(file);
    return status;
}

exg_status cli_run_read(cli_run *run, exg_error *err)
{
    const cli_call *call = run->call;
    exg_program *program = run->program.program;
    const exg_argument *inputs = program->graph->inputs;

    EXG_TRY(call->weights_from != NULL ? cli_fill_weights(call, program, true, err) : EXG_OK);
    if (program->graph->inputs != inputs) { /* parts of blocks have taken the place of some */
        EXG_TRY_IN(err,
                   exg_verify(program, run->program.operators, &run->program.verified, NULL, err),
                   "%s:", call->paths[0]);
    }
    EXG_TRY(watch_nodes(run, err));
    return cli_inputs_read(call, &run->program, &run->inputs, err);
}

static uint32_t repeats(const cli_call *call)
{
    return call->has_repeat ? (uint32_t)call->repeat : 1;
}

exg_status cli_run_begin(cli_run *run, uint32_t place, const exg_session_options *options,
                         exg_error *err)
{
    const cli_call *call = run->call;
    const bool shows = call->out != NULL && !call->is_quiet;
    exg_session_options own = *options;
    exg_status status;

    own.profile = call->profile || call->trace != NULL;
    run->times = calloc(repeats(call), sizeof(*run->times));
    if (run->times == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_session_create(&run->program.verified, &own, &run->session, err));
    running[place] = run->session;
    status = call->state != NULL ? read_state(call, run->session, &run->inputs, err) : EXG_OK;
    for (uint32_t i = 0; status == EXG_OK && i < repeats(call); i++) {
        uint64_t start = cli_now_ns();

        cli_nodes_begin(&run->nodes);
        status = cli_session_run(run->session, &run->inputs, place == 0 && shows, err);
        run->times[i] = (double)(cli_now_ns() - start);
        if (shows && repeats(call) > 1) {
            cli_progress_of(i + 1, repeats(call), "runs");
        }
    }
    cli_progress_end();
    running[place] = NULL;
    return status;
}

exg_status cli_run_finish(cli_run *run, exg_error *err)
{
    const cli_call *call = run->call;
    const comparison results = {.session = run->session,
                                .program = run->program.program,
                                .inputs = &run->inputs,
                                .nodes = &run->nodes,
                                .name = run->expect_name,
                                .rtol = call->has_rtol ? call->rtol : CLI_RTOL_OF_DTYPE,
                                .atol = call->has_atol ? call->atol : CLI_ATOL_OF_VALUES};

    return finish(call, &results, run->times, repeats(call), err);
}

void cli_run_leave(cli_run *run)
{
    exg_session_destroy(run->session);
    run->session = NULL;
}

void cli_run_close(cli_run *run)
{
    cli_run_leave(run);
    free(run->times);
    free(run->expect_name);
    cli_nodes_free(&run->nodes);
    cli_inputs_free(&run->inputs);
    cli_close(&run->program);
}
