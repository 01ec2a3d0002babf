/* profile.c - steps of a run summed by operator and by module; as a Chrome trace. */
#include "cli/profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 20

typedef struct profile_row {
    const char *key;
    uint64_t total_ns;
    uint32_t steps;
} profile_row;

static int by_key(const void *a, const void *b)
{
    return strcmp(((const profile_row *)a)->key, ((const profile_row *)b)->key);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = ((const profile_row *)a)->total_ns;
    uint64_t y = ((const profile_row *)b)->total_ns;

    return x != y ? (x < y) - (x > y) : by_key(a, b);
}

/* Joins rows of one key, the longest first; gives how many are left. */
static uint32_t sum_up(profile_row *rows, uint32_t count)
{
    uint32_t kept = 0;

    qsort(rows, count, sizeof(*rows), by_key);
    for (uint32_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(rows[kept - 1].key, rows[i].key) == 0) {
            rows[kept - 1].total_ns += rows[i].total_ns;
            rows[kept - 1].steps += rows[i].steps;
        } else {
            rows[kept++] = rows[i];
        }
    }
    qsort(rows, kept, sizeof(*rows), by_time);
    return kept;
}

static void put_rows(exg_text *text, bool json, const char *title, const profile_row *rows,
                     uint32_t count, uint32_t runs)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < count; i++) {
        all += rows[i].total_ns;
    }
    exg_text_printf(text, json ? ", \"%ss\": [" : "%-56s %6s %12s %6s\n", title, "steps",
                    "us a run", "share");
    for (uint32_t i = 0; i < count && (json || i < ROWS_SHOWN); i++) {
        double ns = (double)rows[i].total_ns / runs;
        double share = all == 0 ? 0 : (double)rows[i].total_ns / (double)all;

        if (json) {
            exg_text_printf(text, "%s{\"%s\": ", i > 0 ? ", " : "", title);
            exg_text_json_string(text, rows[i].key);
            exg_text_printf(text, ", \"steps\": %u, \"ns\": %.0f, \"share\": %.4f}", rows[i].steps,
                            ns, share);
        } else {
            exg_text label = EXG_TEXT_EMPTY;

            exg_text_plain(&label, rows[i].key[0] == '\0' ? "(none)" : rows[i].key, false);
            exg_text_printf(text, "%-56s %6u %12.1f %5.1f%%\n", exg_text_part(text, &label),
                            rows[i].steps, ns / 1e3, share * 100);
            exg_text_free(&label);
        }
    }
    if (!json && count > ROWS_SHOWN) {
        exg_text_printf(text, "(%u more)\n", count - ROWS_SHOWN);
    }
    exg_text_puts(text, json ? "]" : "\n");
}

static void put_step(exg_text *text, const exg_step_profile *step, uint32_t runs)
{
    exg_text_puts(text, "{\"name\": ");
    exg_text_json_string(text, step->name);
    exg_text_puts(text, ", \"operator\": ");
    exg_text_json_string(text, step->target);
    exg_text_puts(text, ", \"module\": ");
    exg_text_json_string(text, step->module);
    exg_text_printf(text, ", \"kernel\": \"%s\", \"nodes\": %u, \"ns\": %.0f}", step->kernel,
                    step->fused, (double)step->total_ns / runs);
}

exg_status cli_put_profile(exg_text *text, bool json, exg_session *session, uint32_t runs,
                           exg_error *err)
{
    uint32_t count = exg_session_profile_count(session);
    profile_row *operators = calloc(count + 1, sizeof(*operators));
    profile_row *modules = calloc(count + 1, sizeof(*modules));
    exg_status status = operators == NULL || modules == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    for (uint32_t i = 0; status == EXG_OK && i < count; i++) {
        const exg_step_profile *step = exg_session_profile_at(session, i);

        operators[i] =
            (profile_row){step->target[0] == '\0' ? step->name : step->target, step->total_ns, 1};
        modules[i] = (profile_row){step->module, step->total_ns, 1};
        if (json) {
            exg_text_puts(text, i == 0 ? ", \"profile\": [" : ", ");
            put_step(text, step, runs);
        }
    }
    if (status == EXG_OK) {
        exg_text_puts(text, json && count > 0 ? "]" : "");
        put_rows(text, json, "operator", operators, sum_up(operators, count), runs);
        put_rows(text, json, "module", modules, sum_up(modules, count), runs);
    }
    free(operators);
    free(modules);
    return status;
}

exg_status cli_save_trace(const char *path, exg_session *session, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    exg_text_puts(&text, "{\"traceEvents\": [\n");
    for (uint32_t i = 0; i < exg_session_profile_count(session); i++) {
        const exg_step_profile *step = exg_session_profile_at(session, i);

        exg_text_puts(&text, i > 0 ? ",\n{\"name\": " : "{\"name\": ");
        exg_text_json_string(&text, step->name);
        exg_text_printf(&text,
                        ", \"cat\": \"%s\", \"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, "
                        "\"dur\": %.3f, \"args\": {\"operator\": ",
                        step->kernel, (double)step->start_ns / 1e3, (double)step->last_ns / 1e3);
        exg_text_json_string(&text, step->target);
        exg_text_puts(&text, ", \"module\": ");
        exg_text_json_string(&text, step->module);
        exg_text_printf(&text, ", \"nodes\": %u}}", step->fused);
    }
    exg_text_puts(&text, "\n]}\n");
    if (exg_text_string(&text) == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_file_write(path, text.data, text.length, err);
    exg_text_free(&text);
    return status;
}
