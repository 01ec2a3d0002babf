/* bench_report.c - what exg bench measured: for people, as JSON, CSV or Markdown. */
#include "cli/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 20

/* The least time that so much of all runs took no longer than: of N the ceil(N * share)-th. */
static double percentile(const cli_bench_side *side, double share)
{
    double at = share * side->count;
    uint32_t index = (uint32_t)at;

    index -= index > 0 && (double)index == at;
    return side->count == 0 ? 0 : side->times[index < side->count ? index : side->count - 1];
}

static double mean(const cli_bench_side *side)
{
    double sum = 0;

    for (uint32_t i = 0; i < side->count; i++) {
        sum += side->times[i];
    }
    return side->count == 0 ? 0 : sum / side->count;
}

/* The columns of a side: keys in JSON and CSV, titles, and nanoseconds. */
static const struct column {
    const char *key, *title;
    double share; /* a percentile; above 1: the mean */
} columns[] = {{"min_ns", "min", 0},    {"p50_ns", "P50", 0.5}, {"p90_ns", "P90", 0.9},
               {"p99_ns", "P99", 0.99}, {"max_ns", "max", 1},   {"mean_ns", "mean", 2}};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static double column_of(const cli_bench_side *side, size_t column)
{
    return columns[column].share > 1 ? mean(side) : percentile(side, columns[column].share);
}

static double rate_of(const cli_bench_side *side)
{
    return side->seconds > 0 ? side->count / side->seconds : 0;
}

/* Of the medians of each round: B's by A's. */
typedef struct ratio {
    double median, least, most;
} ratio;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static ratio ratio_of(const cli_bench_report *r)
{
    double ratios[CLI_BENCH_ROUNDS];

    for (uint32_t i = 0; i < r->rounds; i++) {
        ratios[i] =
            r->sides[0].medians[i] > 0 ? r->sides[1].medians[i] / r->sides[0].medians[i] : 0;
    }
    qsort(ratios, r->rounds, sizeof(*ratios), by_value);
    return (ratio){ratios[r->rounds / 2], ratios[0], ratios[r->rounds - 1]};
}

/* Per second, of the time that an operator takes in a run. */
typedef struct rates {
    double ns, share, flops, bytes;
    double of_ceiling; /* the larger of both shares */
} rates;

static rates rates_of(const cli_bench_report *r, const cli_bench_side *side,
                      const cli_profile_row *row)
{
    rates found = {.ns = (double)row->total_ns};
    double all = 0;
    double of_flops;
    double of_bytes;

    for (uint32_t i = 0; i < side->operator_count; i++) {
        all += (double)side->operators[i].total_ns;
    }
    found.share = all > 0 ? (double)row->total_ns / all : 0;
    found.flops = found.ns > 0 ? row->flops / found.ns * 1e9 : 0;
    found.bytes = found.ns > 0 ? row->bytes / found.ns * 1e9 : 0;
    of_flops = r->ceilings.flops_per_s > 0 ? found.flops / r->ceilings.flops_per_s : 0;
    of_bytes = r->ceilings.bytes_per_s > 0 ? found.bytes / r->ceilings.bytes_per_s : 0;
    found.of_ceiling = of_flops > of_bytes ? of_flops : of_bytes;
    return found;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void put_side(exg_text *text, const cli_bench_side *side, bool markdown)
{
    const char *before = markdown ? "| " : "";
    const char *between = markdown ? " | " : " ";

    exg_text_printf(text, "%s%s", before, side->name);
    for (size_t c = 0; c < COUNT(columns); c++) {
        exg_text_printf(text, markdown ? "%s%.3f" : "%s%10.3f", between, column_of(side, c) / 1e6);
    }
    exg_text_printf(text, markdown ? "%s%u%s%.1f |\n" : "%s%8u%s%10.1f\n", between, side->count,
                    between, rate_of(side));
}

static void put_sides(exg_text *text, const cli_bench_report *r, bool markdown)
{
    exg_text_puts(text, markdown ? "| ms |" : " ");
    for (size_t c = 0; c < COUNT(columns); c++) {
        exg_text_printf(text, markdown ? " %s |" : " %7s ms", columns[c].title);
    }
    exg_text_puts(text, markdown ? " runs | runs/s |\n|---|" : "     runs     runs/s\n");
    for (size_t c = 0; markdown && c < COUNT(columns) + 2; c++) {
        exg_text_puts(text, "--:|");
    }
    exg_text_puts(text, markdown ? "\n" : "");
    for (uint32_t s = 0; s < r->side_count; s++) {
        put_side(text, &r->sides[s], markdown);
    }
}

static void put_operators(exg_text *text, const cli_bench_report *r, const cli_bench_side *side,
                          bool markdown)
{
    const uint32_t shown = side->operator_count < ROWS_SHOWN ? side->operator_count : ROWS_SHOWN;

    exg_text_printf(text,
                    markdown
                        ? "\n| operators of %s | steps | us at best | share | GFLOP/s | GB/s | of "
                          "the ceiling |\n|---|--:|--:|--:|--:|--:|--:|\n"
                        : "\noperators of %-40s  steps     us at best   share   GFLOP/s      GB/s  "
                          "of the ceiling\n",
                    side->name);
    for (uint32_t i = 0; i < shown; i++) {
        const cli_profile_row *row = &side->operators[i];
        const rates n = rates_of(r, side, row);
        exg_text name = EXG_TEXT_EMPTY;

        exg_text_plain(&name, row->key, false);
        exg_text_printf(text,
                        markdown ? "| %s | %u | %.1f | %.1f%% | %.2f | %.2f | %.0f%% |\n"
                                 : "%-53s %6u %12.1f %6.1f%% %9.2f %9.2f %14.0f%%\n",
                        exg_text_part(text, &name), row->steps, n.ns / 1e3, n.share * 100,
                        n.flops / 1e9, n.bytes / 1e9, n.of_ceiling * 100);
        exg_text_free(&name);
    }
    if (shown < side->operator_count) {
        exg_text_printf(text, "(%u more)\n", side->operator_count - shown);
    }
}

/* On how much of the machine. */
static void put_how(exg_text *text, const cli_bench_report *r)
{
    if (r->ranks > 1) {
        exg_text_printf(text, "a run by %u ranks at once, as long as the slowest takes\n",
                        r->ranks);
        return;
    }
    exg_text_count(text, r->sessions, "session");
    exg_text_puts(text, r->threads == 0 ? " with all cores\n" : ", threads in each: ");
    if (r->threads > 0) {
        exg_text_printf(text, "%u\n", r->threads);
    }
}

static void put_text(exg_text *text, const cli_bench_report *r)
{
    const bool markdown = r->call->markdown;

    cli_put_made(text, r->call, r->inputs);
    for (uint32_t s = 0; s < r->side_count; s++) {
        exg_text_printf(text, "%s: ", r->sides[s].name);
        exg_text_plain(text, r->sides[s].file, false);
        exg_text_putc(text, '\n');
    }
    put_how(text, r);
    exg_text_puts(text, markdown ? "\n" : "");
    put_sides(text, r, markdown);
    if (r->side_count > 1) {
        const ratio found = ratio_of(r);

        exg_text_printf(text, "%sB takes %.3f of A's time (%.3f to %.3f in %u rounds, by turns)\n",
                        markdown ? "\n" : "", found.median, found.least, found.most, r->rounds);
    }
    exg_text_printf(text, "%sceilings of this machine: %.1f GFLOP/s, %.1f GB/s (float32)\n",
                    markdown ? "\n" : "", r->ceilings.flops_per_s / 1e9,
                    r->ceilings.bytes_per_s / 1e9);
    for (uint32_t s = 0; s < r->side_count; s++) {
        put_operators(text, r, &r->sides[s], markdown);
    }
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void put_csv(exg_text *text, const cli_bench_report *r)
{
    exg_text_puts(text, "side,sessions,threads,runs,seconds");
    for (size_t c = 0; c < COUNT(columns); c++) {
        exg_text_printf(text, ",%s", columns[c].key);
    }
    exg_text_puts(text, ",runs_per_second\n");
    for (uint32_t s = 0; s < r->side_count; s++) {
        const cli_bench_side *side = &r->sides[s];

        exg_text_printf(text, "%s,%u,%u,%u,%.3f", side->name, r->sessions, r->threads, side->count,
                        side->seconds);
        for (size_t c = 0; c < COUNT(columns); c++) {
            exg_text_printf(text, ",%.0f", column_of(side, c));
        }
        exg_text_printf(text, ",%.3f\n", rate_of(side));
    }
}

static void put_operators_json(exg_text *text, const cli_bench_report *r,
                               const cli_bench_side *side)
{
    exg_json_member_open(text, "operators", '[');
    for (uint32_t i = 0; i < side->operator_count; i++) {
        const cli_profile_row *row = &side->operators[i];
        const rates n = rates_of(r, side, row);

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "operator", row->key);
        exg_json_member_uint(text, "steps", row->steps);
        exg_json_member_fixed(text, "ns", n.ns, 0);
        exg_json_member_fixed(text, "share", n.share, 4);
        exg_json_member_fixed(text, "flops", row->flops, 0);
        exg_json_member_fixed(text, "bytes", row->bytes, 0);
        exg_json_member_fixed(text, "of_ceiling", n.of_ceiling, 4);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
}

static void put_json(exg_text *text, const cli_bench_report *r)
{
    cli_json_begin(text);
    cli_put_made_json(text, r->call, r->inputs);
    exg_json_member_uint(text, "sessions", r->sessions);
    exg_json_member_uint(text, "threads", r->threads);
    exg_json_member_fixed(text, "ceiling_flops_per_s", r->ceilings.flops_per_s, 0);
    exg_json_member_fixed(text, "ceiling_bytes_per_s", r->ceilings.bytes_per_s, 0);
    exg_json_member_open(text, "sides", '[');
    for (uint32_t s = 0; s < r->side_count; s++) {
        const cli_bench_side *side = &r->sides[s];

        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", side->name);
        exg_json_member_text(text, "file", side->file);
        exg_json_member_uint(text, "runs", side->count);
        exg_json_member_fixed(text, "seconds", side->seconds, 3);
        for (size_t c = 0; c < COUNT(columns); c++) {
            exg_json_member_fixed(text, columns[c].key, column_of(side, c), 0);
        }
        exg_json_member_fixed(text, "runs_per_second", rate_of(side), 3);
        put_operators_json(text, r, side);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    if (r->side_count > 1) {
        const ratio found = ratio_of(r);

        exg_json_member_fixed(text, "ratio", found.median, 4);
        exg_json_member_fixed(text, "ratio_min", found.least, 4);
        exg_json_member_fixed(text, "ratio_max", found.most, 4);
    }
    cli_json_end(text);
}

exg_status cli_put_bench(const cli_bench_report *report, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    (report->call->json ? put_json : report->call->csv ? put_csv : put_text)(&text, report);
    status = cli_put(report->call->out, &text, err);
    exg_text_free(&text);
    return status;
}
