/* cmd_diff.c - exg diff A B: where two programs, or files of weights, part. */
#include "cli/cli.h"
#include "cli/inspect.h"

#include <exg/memory.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char marks[EXG_DIFF_KIND_COUNT] = {
    [EXG_DIFF_REMOVED] = '-', [EXG_DIFF_ADDED] = '+',    [EXG_DIFF_CHANGED] = '~',
    [EXG_DIFF_RENAMED] = '=', [EXG_DIFF_RESHAPED] = '=', [EXG_DIFF_CAST] = '=',
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

static void put_counts(exg_text *text, const char *key, const exg_diff_counts *counts)
{
    exg_json_member_open(text, key, '{');
    exg_json_member_uint(text, "same", counts->same);
    exg_json_member_uint(text, "changed", counts->changed);
    exg_json_member_uint(text, "removed", counts->removed);
    exg_json_member_uint(text, "added", counts->added);
    exg_json_member_uint(text, "following", counts->following);
    exg_json_put_close(text, '}');
}

static void put_difference_json(exg_text *text, const exg_difference *d)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "room", exg_diff_room_name(d->room));
    exg_json_member_text(text, "kind", exg_diff_kind_name(d->kind));
    exg_json_member_text(text, "a", d->where_a);
    exg_json_member_text(text, "b", d->where_b);
    exg_json_member_text(text, "what", d->what);
    if (d->values.differing > 0) {
        exg_json_member_uint(text, "differing", d->values.differing);
        exg_json_member_uint(text, "total", d->values.total);
        exg_json_put_key(text, "max_abs");
        cli_json_number(text, d->values.max_abs, 17);
        exg_json_put_key(text, "max_rel");
        cli_json_number(text, d->values.max_rel, 17);
        exg_json_member_uint(text, "max_ulp", d->values.max_ulp);
        exg_json_put_key(text, "cosine");
        cli_json_number(text, d->values.cosine, 17);
    }
    exg_json_put_close(text, '}');
}

/* Members of an object. */
static void print_json(const exg_diff *diff, exg_text *text)
{
    exg_json_member_bool(text, "equal", diff->count == 0);
    exg_json_member_open(text, "counts", '{');
    for (exg_diff_room room = EXG_DIFF_SIGNATURE; room < EXG_DIFF_ROOM_COUNT; room++) {
        put_counts(text, exg_diff_room_name(room), &diff->counts[room]);
    }
    exg_json_put_close(text, '}');
    exg_json_member_open(text, "differences", '[');
    for (uint32_t i = 0; i < diff->count; i++) {
        put_difference_json(text, &diff->items[i]);
    }
    exg_json_put_close(text, ']');
}

static void print_text(const cli_call *call, const exg_diff *diff, const char *program,
                       exg_text *text)
{
    if (program != NULL) {
        exg_text_puts(text, "program ");
        exg_text_plain(text, program, false);
        exg_text_puts(text, "\n");
    }
    for (exg_diff_room room = 0; room < EXG_DIFF_ROOM_COUNT; room++) {
        if (room != EXG_DIFF_TENSOR || !call->structure) {
            print_room(diff, room, text);
        }
    }
}

static exg_diff_options diff_options(const cli_call *call)
{
    return (exg_diff_options){.size = sizeof(exg_diff_options),
                              .rtol = call->has_rtol ? call->rtol : 0,
                              .atol = call->has_atol ? call->atol : 0,
                              .skip_tensors = call->structure,
                              .progress = cli_progress};
}

static void put_side(exg_text *json, const char *key, const cli_call *call, const cli_program *p)
{
    exg_json_member_open(json, key, '{');
    exg_json_member_text(json, "file", call->paths[0]);
    cli_put_nodes_json(json, p->program->graph);
    exg_json_put_close(json, '}');
}

/* --html: both graphs beside each other. */
static exg_status write_page(const cli_call *a_call, const cli_program *a, const cli_call *b_call,
                             const cli_program *b, const exg_diff *diff, const uint32_t *partners,
                             exg_error *err)
{
    exg_text json = EXG_TEXT_EMPTY;
    exg_text page = EXG_TEXT_EMPTY;
    exg_status status;

    cli_json_begin(&json);
    put_side(&json, "a", a_call, a);
    put_side(&json, "b", b_call, b);
    exg_json_member_open(&json, "partners", '[');
    for (uint32_t n = 0; n < a->program->graph->node_count; n++) {
        exg_json_put_int(&json, partners[n] == UINT32_MAX ? -1 : (int64_t)partners[n]);
    }
    exg_json_put_close(&json, ']');
    exg_json_member_open(&json, "diff", '{');
    print_json(diff, &json);
    exg_json_put_close(&json, '}');
    exg_json_put_close(&json, '}');
    cli_put_diff_page(&page, &json);
    exg_text_free(&json);
    status = page.failed ? EXG_OUT_OF_MEMORY(err)
                         : exg_file_write(a_call->html, page.data, page.length, err);
    exg_text_free(&page);
    return status;
}

/* Two programs beside each other; adds to *differences. */
static exg_status compare(const cli_call *a_call, const cli_call *b_call, const char *program,
                          exg_text *text, uint32_t *differences, exg_error *err)
{
    exg_diff_options options = diff_options(a_call);
    cli_program a;
    cli_program b;
    exg_diff diff;
    exg_status status;

    EXG_TRY(cli_open_verified(a_call, &a, err));
    status = cli_open_verified(b_call, &b, err);
    if (status == EXG_OK && a_call->html != NULL) {
        options.partners = EXG_NEW_ARRAY(a.program->arena, uint32_t, a.program->graph->node_count);
        status = options.partners == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    if (status == EXG_OK) {
        status = exg_diff_programs(&a.verified, &b.verified, &options, &diff, err);
        cli_progress_end();
        if (status == EXG_OK) {
            if (a_call->html != NULL) {
                status = write_page(a_call, &a, b_call, &b, &diff, options.partners, err);
            }
            if (a_call->json) {
                print_json(&diff, text);
            } else {
                print_text(a_call, &diff, program, text);
            }
            *differences += diff.count;
            exg_diff_free(&diff);
        }
        cli_close(&b);
    }
    cli_close(&a);
    return status;
}

static bool has_name(const cli_programs *all, const char *name)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (strcmp(all->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Programs that one archive alone has; each is a difference. */
static void print_alone(const cli_call *call, const cli_programs *of, const cli_programs *other,
                        bool is_a, exg_text *text, uint32_t *differences)
{
    if (call->json) {
        exg_json_member_open(text, is_a ? "only_a" : "only_b", '[');
    }
    for (uint32_t i = 0; i < of->count; i++) {
        if (has_name(other, of->names[i])) {
            continue;
        }
        ++*differences;
        if (call->json) {
            exg_json_put_text(text, of->names[i]);
        } else {
            exg_text_puts(text, is_a ? "- program " : "+ program ");
            exg_text_plain(text, of->names[i], false);
            exg_text_puts(text, is_a ? ": removed\n" : ": added\n");
        }
    }
    if (call->json) {
        exg_json_put_close(text, ']');
    }
}

/* By name: one of several stands beside its namesake. */
static exg_status compare_all(const cli_call *call, const cli_call *second, const cli_programs *a,
                              const cli_programs *b, exg_text *text, uint32_t *differences,
                              exg_error *err)
{
    if (call->json) {
        exg_json_member_open(text, "programs", '[');
    }
    for (uint32_t i = 0; i < a->count; i++) {
        cli_call a_call = *call;
        cli_call b_call = *second;

        if (!has_name(b, a->names[i])) {
            continue;
        }
        a_call.program = b_call.program = a->names[i];
        if (call->json) {
            exg_json_put_open(text, '{');
            exg_json_member_text(text, "program", a->names[i]);
        }
        EXG_TRY_IN(err, compare(&a_call, &b_call, a->names[i], text, differences, err), "%s",
                   a->names[i]);
        if (call->json) {
            exg_json_put_close(text, '}');
        }
    }
    if (call->json) {
        exg_json_put_close(text, ']');
    }
    print_alone(call, a, b, true, text, differences);
    print_alone(call, b, a, false, text, differences);
    if (call->json) {
        exg_json_member_bool(text, "equal", *differences == 0);
    }
    return EXG_OK;
}

/* The name of the only program of a file, beside those of an archive. */
static exg_status name_only(const cli_call *call, cli_programs *all, exg_error *err)
{
    static const char *const nameless[] = {"model"};
    cli_program p;

    if (all->names != NULL) {
        return EXG_OK;
    }
    EXG_TRY(cli_open(call, &p, err));
    all->info = p.info;
    all->names = p.info->program_count > 0 ? (const char *const *)p.info->program_names : nameless;
    p.info = NULL;
    cli_close(&p);
    return EXG_OK;
}

/* ---- weights ------------------------------------------------------------------------------ */

static exg_status open_weights(const cli_call *call, exg_weights **weights, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);

    EXG_TRY_IN(err, exg_weights_open(call->paths[0], &options, weights, NULL, err),
               "%s:", call->paths[0]);
    return EXG_OK;
}

/* Of two files one of which is no program, whatever the other is. */
static exg_status compare_weights(const cli_call *call, const cli_call *second, exg_text *text,
                                  uint32_t *differences, exg_error *err)
{
    exg_diff_options options = diff_options(call);
    exg_weights *a = NULL;
    exg_weights *b = NULL;
    exg_diff diff;
    exg_status status;

    EXG_TRY(open_weights(call, &a, err));
    status = open_weights(second, &b, err);
    if (status == EXG_OK) {
        status = exg_diff_weights(a, b, &options, &diff, err);
        cli_progress_end();
    }
    if (status == EXG_OK) {
        if (call->json) {
            print_json(&diff, text);
        } else {
            print_room(&diff, EXG_DIFF_TENSOR, text);
        }
        *differences += diff.count;
        exg_diff_free(&diff);
    }
    exg_weights_release(a);
    exg_weights_release(b);
    return status;
}

static exg_status compare_files(const cli_call *call, const cli_call *second, exg_text *text,
                                uint32_t *differences, exg_error *err)
{
    cli_programs a = {0};
    cli_programs b = {0};
    exg_status status = cli_programs_list(call, &a, err);

    status = status == EXG_OK ? cli_programs_list(second, &b, err) : status;
    if (status == EXG_OK && a.names == NULL && b.names == NULL) {
        status = compare(call, second, NULL, text, differences, err);
    } else if (status == EXG_OK && call->html != NULL) {
        status = cli_programs_only(a.names != NULL ? &a : &b, "a page is", err);
    } else if (status == EXG_OK) {
        status = name_only(call, &a, err);
        status = status == EXG_OK ? name_only(second, &b, err) : status;
        status =
            status == EXG_OK ? compare_all(call, second, &a, &b, text, differences, err) : status;
    }
    cli_programs_free(&a);
    cli_programs_free(&b);
    return status;
}

exg_status cmd_diff(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    cli_call second = *call;
    uint32_t differences = 0;
    exg_status status;

    second.paths[0] = call->paths[1];
    if (call->json) {
        cli_json_begin(&text);
    }
    status = cli_is_weights_file(call, call->paths[0]) || cli_is_weights_file(call, call->paths[1])
                 ? compare_weights(call, &second, &text, &differences, err)
                 : compare_files(call, &second, &text, &differences, err);
    if (call->json) {
        cli_json_end(&text);
    }
    status = status == EXG_OK ? cli_put(call->out, &text, err) : status;
    exg_text_free(&text);
    EXG_TRY(status);
    return differences == 0 ? EXG_OK
                            : EXG_FAIL(err, MISMATCH, "DIF-001", "%u difference%s", differences,
                                       differences == 1 ? "" : "s");
}
