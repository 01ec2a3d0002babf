/* cmd_diff.c - exg diff A B: where two programs part. */
#include "cli/cli.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <math.h>

static const char marks[EXG_DIFF_KIND_COUNT] = {
    [EXG_DIFF_REMOVED] = '-', [EXG_DIFF_ADDED] = '+',    [EXG_DIFF_CHANGED] = '~',
    [EXG_DIFF_RENAMED] = '=', [EXG_DIFF_RESHAPED] = '=',
};

static const char *const titles[EXG_DIFF_ROOM_COUNT] = {
    [EXG_DIFF_PROGRAM] = "program",
    [EXG_DIFF_SIGNATURE] = "inputs and outputs",
    [EXG_DIFF_GRAPH] = "nodes",
    [EXG_DIFF_TENSOR] = "weights",
};

static void put_difference(exg_text *text, const exg_difference *d)
{
    exg_text_printf(text, "  %c ", marks[d->kind]);
    exg_text_plain(text, d->where_a != NULL ? d->where_a : d->where_b, false);
    if (d->kind == EXG_DIFF_RENAMED) {
        exg_text_puts(text, " is now ");
        exg_text_plain(text, d->where_b, false);
    }
    exg_text_puts(text, ": ");
    exg_text_plain(text, d->what, false);
    exg_text_putc(text, '\n');
}

static void print_room(const exg_diff *diff, exg_diff_room room, exg_text *text)
{
    const exg_diff_counts *counts = &diff->counts[room];
    uint32_t found = 0;

    for (uint32_t i = 0; i < diff->count; i++) {
        found += diff->items[i].room == room;
    }
    if (room == EXG_DIFF_PROGRAM) {
        exg_text_printf(text, "%s: %s\n", titles[room], found == 0 ? "the same" : "differs");
    } else {
        exg_text_printf(text, "%s: %u the same, %u changed, %u removed, %u added", titles[room],
                        counts->same, counts->changed, counts->removed, counts->added);
        if (counts->following > 0) {
            exg_text_printf(text, "; %u differ in shape as what they are given does",
                            counts->following);
        }
        exg_text_putc(text, '\n');
    }
    for (uint32_t i = 0; i < diff->count; i++) {
        if (diff->items[i].room == room) {
            put_difference(text, &diff->items[i]);
        }
    }
}

static void put_member(exg_text *text, const char *name, const char *string)
{
    exg_text_printf(text, ", \"%s\": ", name);
    if (string == NULL) {
        exg_text_puts(text, "null");
    } else {
        exg_text_json_string(text, string);
    }
}

/* JSON has no word for infinities and NaN: null. */
static void put_number(exg_text *text, const char *name, double number)
{
    exg_text_printf(text, ", \"%s\": ", name);
    if (isfinite(number)) {
        exg_text_printf(text, "%.17g", number);
    } else {
        exg_text_puts(text, "null");
    }
}

static void print_json(const exg_diff *diff, exg_text *text)
{
    exg_text_printf(text, "{\"equal\": %s, \"counts\": {", diff->count == 0 ? "true" : "false");
    for (exg_diff_room room = EXG_DIFF_SIGNATURE; room < EXG_DIFF_ROOM_COUNT; room++) {
        const exg_diff_counts *c = &diff->counts[room];

        exg_text_printf(text,
                        "%s\"%s\": {\"same\": %u, \"changed\": %u, \"removed\": %u, "
                        "\"added\": %u, \"following\": %u}",
                        room == EXG_DIFF_SIGNATURE ? "" : ", ", exg_diff_room_name(room), c->same,
                        c->changed, c->removed, c->added, c->following);
    }
    exg_text_puts(text, "}, \"differences\": [");
    for (uint32_t i = 0; i < diff->count; i++) {
        const exg_difference *d = &diff->items[i];

        exg_text_printf(text, "%s{\"room\": \"%s\", \"kind\": \"%s\"", i > 0 ? ", " : "",
                        exg_diff_room_name(d->room), exg_diff_kind_name(d->kind));
        put_member(text, "a", d->where_a);
        put_member(text, "b", d->where_b);
        put_member(text, "what", d->what);
        if (d->values.differing > 0) {
            exg_text_printf(text, ", \"differing\": %" PRIu64 ", \"total\": %" PRIu64,
                            d->values.differing, d->values.total);
            put_number(text, "max_abs", d->values.max_abs);
            put_number(text, "max_rel", d->values.max_rel);
            exg_text_printf(text, ", \"max_ulp\": %" PRIu64, d->values.max_ulp);
        }
        exg_text_puts(text, "}");
    }
    exg_text_puts(text, "]}\n");
}

static exg_status print_diff(const cli_call *call, const exg_diff *diff, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (call->json) {
        print_json(diff, &text);
    } else {
        for (exg_diff_room room = 0; room < EXG_DIFF_ROOM_COUNT; room++) {
            if (room != EXG_DIFF_TENSOR || !call->structure) {
                print_room(diff, room, &text);
            }
        }
    }
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    EXG_TRY(status);
    return diff->count == 0 ? EXG_OK
                            : EXG_FAIL(err, MISMATCH, "DIF-001", "%u difference%s", diff->count,
                                       diff->count == 1 ? "" : "s");
}

exg_status cmd_diff(const cli_call *call, exg_error *err)
{
    exg_diff_options options = {.size = sizeof(options),
                                .rtol = call->has_rtol ? call->rtol : 0,
                                .atol = call->has_atol ? call->atol : 0,
                                .skip_tensors = call->structure,
                                .progress = cli_progress};
    cli_call second = *call;
    cli_program a;
    cli_program b;
    exg_diff diff;
    exg_status status;

    second.paths[0] = call->paths[1];
    EXG_TRY(cli_open_verified(call, &a, err));
    status = cli_open_verified(&second, &b, err);
    if (status == EXG_OK) {
        status = exg_diff_programs(&a.verified, &b.verified, &options, &diff, err);
        cli_progress_end();
        if (status == EXG_OK) {
            status = print_diff(call, &diff, err);
            exg_diff_free(&diff);
        }
        cli_close(&b);
    }
    cli_close(&a);
    return status;
}
