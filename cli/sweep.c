/* sweep.c - exg plan FILE --sweep N: every mesh of so many ranks, each with its best placement;
 * --memory SIZE: the smallest mesh on which a rank needs no more. */
#include "cli/cli.h"

#include <exg/json_writer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4096 /* that --memory looks for */

typedef struct row {
    char mesh[40], modes[80];
    bool fits;
    exg_partition_summary placed;
} row;

typedef struct sweep {
    const cli_call *call;
    const cli_program *program;
    const cli_inputs *inputs;
    row *rows;
    uint32_t count, capacity;
    exg_text ends_at; /* why all plans are of the beginning alone; empty: of the whole */
    exg_error *err;
} sweep;

static row *add_row(sweep *s)
{
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
        row *rows = realloc(s->rows, capacity * sizeof(*rows));

        if (rows == NULL) {
            return NULL;
        }
        s->rows = rows;
        s->capacity = capacity;
    }
    s->rows[s->count] = (row){.fits = false};
    return &s->rows[s->count++];
}

static exg_status plan_row(sweep *s, const cli_call *call, exg_session_options *options, row *out)
{
    exg_session *session = NULL;
    exg_status status = exg_session_create(&s->program->verified, options, &session, s->err);

    status = status == EXG_OK
                 ? exg_session_prepare(session, s->inputs->items, s->inputs->count, s->err)
                 : status;
    if (status == EXG_OK) {
        exg_text modes = EXG_TEXT_EMPTY;

        if (s->ends_at.length == 0 && exg_session_break_reason(session) != NULL) {
            exg_text_puts(&s->ends_at, exg_session_break_reason(session));
        }
        out->placed = *exg_session_statistics(session)->partition;
        out->fits = true;
        cli_put_modes(&modes, call, &out->placed);
        snprintf(out->modes, sizeof(out->modes), "%s", modes.failed ? "" : exg_text_string(&modes));
        exg_text_free(&modes);
    }
    exg_session_destroy(session);
    return status;
}

/* Of one mesh, written "2x4", the best placement; one on which nothing fits is a row too. */
static exg_status try_mesh(sweep *s, const char *mesh, row **found)
{
    cli_call call = *s->call;
    cli_placement placement;
    exg_session_options options;
    exg_status status;
    row *out = add_row(s);

    if (out == NULL) {
        return EXG_OUT_OF_MEMORY(s->err);
    }
    *found = out;
    snprintf(out->mesh, sizeof(out->mesh), "%s", mesh);
    call.mesh = out->mesh;
    call.memory_limit = call.memory == NULL ? call.memory_limit : call.memory;
    status = cli_session_options(&call, &options, &placement, s->err);
    options.processes = true;
    options.plan_only = true;
    status = status == EXG_OK ? plan_row(s, &call, &options, out) : status;
    cli_placement_free(&placement);
    if (status == EXG_LIMIT && strcmp(s->err->code, "PLC-009") == 0) {
        exg_error_clear(s->err);
        return EXG_OK;
    }
    return status;
}

/* Of one dim, two and three, each of more than one rank. */
static exg_status try_meshes(sweep *s, uint32_t ranks)
{
    char mesh[40];
    row *found;

    snprintf(mesh, sizeof(mesh), "%u", ranks);
    EXG_TRY(try_mesh(s, mesh, &found));
    for (uint32_t a = 2; a < ranks; a++) {
        if (ranks % a != 0) {
            continue;
        }
        snprintf(mesh, sizeof(mesh), "%ux%u", a, ranks / a);
        EXG_TRY(try_mesh(s, mesh, &found));
        for (uint32_t b = 2; b < ranks / a; b++) {
            if (ranks / a % b == 0) {
                snprintf(mesh, sizeof(mesh), "%ux%ux%u", a, b, ranks / a / b);
                EXG_TRY(try_mesh(s, mesh, &found));
            }
        }
    }
    return EXG_OK;
}

static int by_time(const void *a, const void *b)
{
    const row *x = a;
    const row *y = b;

    if (x->fits != y->fits) {
        return x->fits ? -1 : 1;
    }
    return x->placed.predicted_ns < y->placed.predicted_ns   ? -1
           : x->placed.predicted_ns > y->placed.predicted_ns ? 1
                                                             : strcmp(x->mesh, y->mesh);
}

/* ---- the smallest ---------------------------------------------------------------------------- */

static exg_status try_ranks(sweep *s, uint32_t ranks, row **found)
{
    char mesh[12];

    snprintf(mesh, sizeof(mesh), "%u", ranks);
    return try_mesh(s, mesh, found);
}

/* Twice as many until it fits, then between. The row that fits is the only one that is kept. */
static exg_status find_smallest(sweep *s)
{
    uint32_t low = 0; /* too few */
    uint32_t high = 1;
    row *found;
    row best;

    EXG_TRY(try_ranks(s, high, &found));
    while (!found->fits && high < RANKS_MAX) {
        low = high;
        high *= 2;
        EXG_TRY(try_ranks(s, high, &found));
    }
    if (!found->fits) {
        return exg_error_fix(s->err,
                             EXG_FAIL(s->err, LIMIT, "PLC-009",
                                      "on %u ranks one still needs more than --memory %s", high,
                                      s->call->memory),
                             "give more memory, or smaller inputs");
    }
    best = *found;
    while (high - low > 1) {
        uint32_t ranks = low + (high - low) / 2;

        EXG_TRY(try_ranks(s, ranks, &found));
        best = found->fits ? *found : best;
        low = found->fits ? low : ranks;
        high = found->fits ? ranks : high;
    }
    s->rows[0] = best;
    s->count = 1;
    return EXG_OK;
}

/* ---- told ------------------------------------------------------------------------------------ */

/* One rank is not placed, so its time is not predicted. */
static void put_row(exg_text *text, const row *r, int width)
{
    if (!r->fits) {
        exg_text_printf(text, "%-10s  more memory than the limit, however it is placed\n", r->mesh);
        return;
    }
    exg_text_printf(text, "%-10s  %-*s  ", r->mesh, width, r->modes);
    if (r->placed.predicted_ns > 0) {
        exg_text_puts(text, "predicted ");
        exg_text_ns(text, r->placed.predicted_ns);
        exg_text_puts(text, ", ");
    }
    exg_text_bytes(text, r->placed.weight_bytes + r->placed.value_bytes);
    exg_text_puts(text, " of weights and values, ");
    exg_text_bytes(text, r->placed.moved_bytes);
    exg_text_puts(text, " moved\n");
}

static void put_row_json(exg_text *text, const row *r)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "mesh", r->mesh);
    exg_json_member_bool(text, "fits", r->fits);
    exg_json_member_text(text, "placement", r->modes);
    exg_json_member_fixed(text, "predicted_ns", r->placed.predicted_ns, 0);
    exg_json_member_uint(text, "rank_weight_bytes", r->placed.weight_bytes);
    exg_json_member_uint(text, "rank_value_bytes", r->placed.value_bytes);
    exg_json_member_uint(text, "moved_bytes", r->placed.moved_bytes);
    exg_json_put_close(text, '}');
}

static exg_status put_rows(sweep *s)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;
    int width = 0;

    if (s->call->json) {
        cli_json_begin(&text);
        exg_json_member_open(&text, "meshes", '[');
    }
    for (uint32_t i = 0; i < s->count; i++) {
        const size_t length = strlen(s->rows[i].modes);

        width = (int)length > width ? (int)length : width;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->call->json) {
            put_row_json(&text, &s->rows[i]);
        } else {
            put_row(&text, &s->rows[i], width);
        }
    }
    if (s->call->json) {
        exg_json_put_close(&text, ']');
        exg_json_member_text(&text, "ends_at", exg_text_part(&text, &s->ends_at));
        cli_json_end(&text);
    } else if (s->ends_at.length > 0) {
        exg_text_printf(&text, "not whole: %s\n", exg_text_part(&text, &s->ends_at));
    }
    status = cli_put(s->call->out, &text, s->err);
    exg_text_free(&text);
    return status;
}

exg_status cli_sweep(const cli_call *call, const cli_program *program, const cli_inputs *inputs,
                     exg_error *err)
{
    sweep s = {
        .call = call, .program = program, .inputs = inputs, .ends_at = EXG_TEXT_EMPTY, .err = err};
    exg_status status;

    if (exg_program_has_collectives(program->program, program->operators)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, UNSUPPORTED, "COM-015",
                                      "the program is already parallel, it is not placed"),
                             "export the program of one rank");
    }
    status = call->memory != NULL ? find_smallest(&s) : try_meshes(&s, (uint32_t)call->sweep);
    if (status == EXG_OK) {
        qsort(s.rows, s.count, sizeof(*s.rows), by_time);
        status = put_rows(&s);
    }
    exg_text_free(&s.ends_at);
    free(s.rows);
    return status;
}
