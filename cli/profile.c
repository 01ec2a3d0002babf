/* profile.c - steps of a run summed by operator and by module; as a Chrome trace. */
#include "cli/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 20

static int by_key(const void *a, const void *b)
{
    return strcmp(((const cli_profile_row *)a)->key, ((const cli_profile_row *)b)->key);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const cli_profile_row *)a)->total_ns;
    uint64_t y = ((const cli_profile_row *)b)->total_ns;

    return x != y ? (x < y) - (x > y) : by_key(a, b);
}

/* Joins rows of one key, the longest first; gives how many are left. */
static uint32_t sum_up(cli_profile_row *rows, uint32_t count)
{
    uint32_t kept = 0;

    qsort(rows, count, sizeof(*rows), by_key);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(rows[kept - 1].key, rows[i].key) == 0) {
            rows[kept - 1].total_ns += rows[i].total_ns;
            rows[kept - 1].steps += rows[i].steps;
            rows[kept - 1].flops += rows[i].flops;
            rows[kept - 1].bytes += rows[i].bytes;
        } else {
            rows[kept++] = rows[i];
        }
    }
    qsort(rows, kept, sizeof(*rows), by_time);
    return kept;
}

static double share_of(const cli_profile_row *row, const cli_profile_row *rows, uint32_t count)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++) {
        all += rows[i].total_ns;
    }
    return all == 0 ? 0 : (double)row->total_ns / (double)all;
}

static void put_rows(exg_text *text, const char *title, const cli_profile_row *rows, uint32_t count,
                     uint32_t runs)
{
    exg_text_printf(text, "%-56s %6s %12s %6s\n", title, "steps", "us a run", "share");
    for (uint32_t i = 0; i < count && i < ROWS_SHOWN; i++) {
        exg_text label = EXG_TEXT_EMPTY;

        exg_text_plain(&label, rows[i].key[0] == '\0' ? "(none)" : rows[i].key, false);
        exg_text_printf(text, "%-56s %6u %12.1f %5.1f%%\n", exg_text_part(text, &label),
                        rows[i].steps, (double)rows[i].total_ns / runs / 1e3,
                        share_of(&rows[i], rows, count) * 100);
        exg_text_free(&label);
    }
    if (count > ROWS_SHOWN) {
        exg_text_printf(text, "(%u more)\n", count - ROWS_SHOWN);
    }
    exg_text_putc(text, '\n');
}

static void put_rows_json(exg_text *text, const char *title, const cli_profile_row *rows,
                          uint32_t count, uint32_t runs)
{
    char key[16];

    snprintf(key, sizeof(key), "%ss", title);
    exg_json_member_open(text, key, '[');
    for (uint32_t i = 0; i < count; i++) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, title, rows[i].key);
        exg_json_member_uint(text, "steps", rows[i].steps);
        exg_json_member_fixed(text, "ns", (double)rows[i].total_ns / runs, 0);
        exg_json_member_fixed(text, "share", share_of(&rows[i], rows, count), 4);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}

static void put_step(exg_text *text, const exg_step_profile *step, uint32_t runs)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", step->name);
    exg_json_member_text(text, "origin", step->origin);
    exg_json_member_text(text, "operator", step->target);
    exg_json_member_text(text, "module", step->module);
    exg_json_member_text(text, "kernel", step->kernel);
    exg_json_member_uint(text, "nodes", step->fused);
    exg_json_member_fixed(text, "ns", (double)step->total_ns / runs, 0);
    exg_json_put_close(text, '}');
}

exg_status cli_put_profile(exg_text *text, bool json, exg_session *session, uint32_t runs,
                           exg_error *err)
{
    uint32_t count = exg_session_profile_count(session);
    cli_profile_row *operators = calloc(count + 1, sizeof(*operators));
    cli_profile_row *modules = calloc(count + 1, sizeof(*modules));
    exg_status status = operators == NULL || modules == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (json) {
        exg_json_member_open(text, "profile", '[');
    }
    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        const exg_step_profile *step = exg_session_profile_at(session, i);

        operators[i] = (cli_profile_row){.key = step->target[0] == '\0' ? step->name : step->target,
                                         .total_ns = step->total_ns,
                                         .steps = 1};
        modules[i] = (cli_profile_row){.key = step->module, .total_ns = step->total_ns, .steps = 1};
        if (json) {
            put_step(text, step, runs);
        }
    }
    if (json) {
        exg_json_put_close(text, ']');
    }
    if (status == EXG_OK) {
        (json ? put_rows_json : put_rows)(text, "operator", operators, sum_up(operators, count),
                                          runs);
        (json ? put_rows_json : put_rows)(text, "module", modules, sum_up(modules, count), runs);
    }
    free(operators);
    free(modules);
    return status;
}

exg_status cli_list_operators(exg_session *session, const uint64_t *ns, cli_profile_row **rows,
                              uint32_t *count, exg_error *err)
{
    const uint32_t steps = exg_session_profile_count(session);

    *rows = calloc(steps + 1, sizeof(**rows));
    *count = 0;
    if (*rows == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < steps; i++) {
        const exg_step_profile *step = exg_session_profile_at(session, i);

        (*rows)[i] = (cli_profile_row){.key = step->target[0] == '\0' ? step->name : step->target,
                                       .total_ns = ns[i],
                                       .steps = 1,
                                       .flops = step->flops,
                                       .bytes = (double)step->bytes};
    }
    *count = sum_up(*rows, steps);
    return EXG_OK;
}

/* What a process, or a thread of it, is called. */
static void put_name(exg_text *text, const char *what, uint32_t process, uint32_t thread,
                     const char *name)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", what);
    exg_json_member_text(text, "ph", "M");
    exg_json_member_uint(text, "pid", process);
    exg_json_member_uint(text, "tid", thread);
    exg_json_member_open(text, "args", '{');
    exg_json_member_text(text, "name", name);
    exg_json_put_close(text, '}');
    exg_json_put_close(text, '}');
}

static void put_event(exg_text *text, const exg_step_profile *step, uint32_t process,
                      uint32_t thread)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", step->name);
    exg_json_member_text(text, "cat", step->kernel);
    exg_json_member_text(text, "ph", "X");
    exg_json_member_uint(text, "pid", process);
    exg_json_member_uint(text, "tid", thread);
    exg_json_member_fixed(text, "ts", (double)step->start_ns / 1e3, 3);
    exg_json_member_fixed(text, "dur", (double)step->last_ns / 1e3, 3);
    exg_json_member_open(text, "args", '{');
    exg_json_member_text(text, "origin", step->origin);
    exg_json_member_text(text, "operator", step->target);
    exg_json_member_text(text, "module", step->module);
    exg_json_member_uint(text, "nodes", step->fused);
    exg_json_member_fixed(text, "flops", step->flops, 0);
    exg_json_member_uint(text, "bytes", step->bytes);
    exg_json_put_close(text, '}');
    exg_json_put_close(text, '}');
}

/* The line of the device of a rank; 0: no step was its. */
static uint32_t put_device(exg_text *text, exg_session *session, uint32_t process, uint32_t at,
                           const char *rank)
{
    const uint32_t thread = exg_session_rank_count(session) + at + 1;

    for (uint32_t i = 0; i < exg_session_rank_profile_count(session, at); i++) {
        const exg_step_profile *step = exg_session_rank_profile_at(session, at, i);

        if (step->device[0] != '\0') {
            char name[64];

            snprintf(name, sizeof(name), "%s, %s:%u", rank, step->device, step->device_index);
            put_name(text, "thread_name", process, thread, name);
            return thread;
        }
    }
    return 0;
}

/* A process is one of mpirun's, by its rank from 1 on; its threads are the ranks in it, and behind
 * them their devices. */
static void put_ranks(exg_text *text, const char *file, exg_session *session)
{
    const uint32_t process = cli_process_rank() + 1;
    exg_text name = EXG_TEXT_EMPTY;

    exg_text_printf(&name, "exg run %s", file);
    put_name(text, "process_name", process, 1, exg_text_part(text, &name));
    exg_text_free(&name);
    for (uint32_t r = 0; r < exg_session_rank_count(session); r++) {
        char rank[24];
        uint32_t device;

        snprintf(rank, sizeof(rank), "rank %u",
                 cli_process_count() > 1 ? cli_process_rank()
                                         : r + exg_session_first_rank(session));
        put_name(text, "thread_name", process, r + 1, rank);
        device = put_device(text, session, process, r, rank);
        for (uint32_t i = 0; i < exg_session_rank_profile_count(session, r); i++) {
            const exg_step_profile *step = exg_session_rank_profile_at(session, r, i);

            put_event(text, step, process, step->device[0] == '\0' ? r + 1 : device);
        }
    }
}

exg_status cli_save_trace(const char *path, const char *file, exg_session *session, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    exg_json_put_open(&text, '{');
    exg_json_member_open(&text, "traceEvents", '[');
    put_ranks(&text, file, session);
    exg_json_put_close(&text, ']');
    exg_json_put_close(&text, '}');
    exg_text_putc(&text, '\n');
    status = exg_json_written(&text, err);
    status = status == EXG_OK ? exg_file_write(path, text.data, text.length, err) : status;
    exg_text_free(&text);
    return status;
}
