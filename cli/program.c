/* program.c - opening what the commands work on; versions; progress. */
#include "cli/cli.h"

#include <exg/http.h>
#include <exg/operator_library.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STDIN_BYTES_MAX (UINT64_C(64) << 30)

/* Of all commands one: what was read once is not asked for again. */
static exg_http *http;

/* A number of seconds from the environment; 0: none is said. */
static exg_status read_timeout(uint32_t *seconds, exg_error *err)
{
    const char *text = getenv("EXG_HTTP_TIMEOUT");
    char *end;
    unsigned long value = text == NULL ? 0 : strtoul(text, &end, 10);

    if (text != NULL && (value == 0 || value > 86400 || *end != '\0')) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "CLI-001", "EXG_HTTP_TIMEOUT is '%.40s'", text),
                             "give seconds, from 1 on");
    }
    *seconds = (uint32_t)value;
    return EXG_OK;
}

/* What comes from standard input, once it was read. */
static exg_byte_source standard_input;

static exg_status open_standard_input(exg_byte_source *source, exg_error *err)
{
    if (standard_input.data == NULL) {
        EXG_TRY(exg_byte_source_of_stream(STDIN_FILENO, STDIN_BYTES_MAX, &standard_input, err));
    }
    *source = standard_input;
    source->close = NULL;
    return EXG_OK;
}

/* An exg_open_source_fn: standard input, and addresses. */
static exg_status open_elsewhere(void *user, const char *name, exg_byte_source *source,
                                 exg_error *err)
{
    exg_http_options options = {.size = sizeof(options), .token = getenv("EXG_HTTP_TOKEN")};

    (void)user;
    if (strcmp(name, "-") == 0) {
        return open_standard_input(source, err);
    }
    if (http == NULL) {
        EXG_TRY(read_timeout(&options.timeout, err));
        EXG_TRY(exg_http_create(&options, &http, err));
    }
    return exg_http_open_source(http, name, source, err);
}

void cli_close_sources(void)
{
    exg_http_destroy(http);
    http = NULL;
    if (standard_input.close != NULL) {
        standard_input.close(standard_input.user);
        standard_input = (exg_byte_source){0};
    }
}

exg_open_options cli_open_options(const cli_call *call)
{
    return (exg_open_options){.size = sizeof(exg_open_options),
                              .program = call->program,
                              .ignore_carry = call->ignore_carry,
                              .no_check = call->no_check,
                              .strict = call->strict,
                              .follow_links = call->follow_links,
                              .open_source = open_elsewhere};
}

/* What the user names, and what comes with exg. */
static exg_status load_operators(const cli_call *call, cli_program *p, exg_error *err)
{
    for (uint32_t i = 0; i < call->ops.count; i++) {
        EXG_TRY(exg_operators_load(p->operators, call->ops.items[i], err));
    }
    return exg_operators_load_for(p->operators, p->program, err);
}

exg_status cli_open(const cli_call *call, cli_program *p, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    exg_status status;

    memset(p, 0, sizeof(*p));
    status = exg_operators_create(&p->operators, err);
    status =
        status == EXG_OK ? exg_open(call->paths[0], &options, &p->program, &p->info, err) : status;
    if (status != EXG_OK) {
        cli_close(p);
        return exg_error_within(err, status, "%s:", call->paths[0]);
    }
    status = load_operators(call, p, err);
    if (status != EXG_OK) {
        cli_close(p);
    }
    return status;
}

exg_status cli_open_verified(const cli_call *call, cli_program *p, exg_error *err)
{
    exg_status status;

    EXG_TRY(cli_open(call, p, err));
    status = exg_verify(p->program, p->operators, &p->verified, NULL, err);
    if (status != EXG_OK) {
        (void)exg_error_within(err, status, "%s:", call->paths[0]);
    }
    status = status == EXG_OK && call->precision != NULL ? cli_unwrap(call, p, err) : status;
    status = status == EXG_OK ? cli_take_precision(call, p, err) : status;
    if (status != EXG_OK) {
        cli_close(p);
    }
    return status;
}

exg_status cli_unwrap(const cli_call *call, cli_program *p, exg_error *err)
{
    exg_program *unwrapped;

    if (!exg_program_has_subclasses(p->program)) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_program_unwrap(p->program, &unwrapped, err), "%s:", call->paths[0]);
    exg_program_destroy(p->program);
    p->program = unwrapped;
    EXG_TRY_IN(err, exg_verify(p->program, p->operators, &p->verified, NULL, err),
               "%s:", call->paths[0]);
    return EXG_OK;
}

/* ---- archives of several ----------------------------------------------------------- */

exg_status cli_programs_list(const cli_call *call, cli_programs *all, exg_error *err)
{
    const exg_open_options options = cli_open_options(call);
    exg_file_info *info;

    *all = (cli_programs){.count = 1};
    if (call->program != NULL) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_file_describe(call->paths[0], &options, &info, err), "%s:", call->paths[0]);
    if (info->program_count > 1) {
        all->info = info;
        all->names = (const char *const *)info->program_names;
        all->count = info->program_count;
    } else {
        exg_file_info_free(info);
    }
    return EXG_OK;
}

void cli_programs_free(cli_programs *all)
{
    exg_file_info_free(all->info);
    *all = (cli_programs){0};
}

cli_call cli_programs_call(const cli_call *call, const cli_programs *all, uint32_t index)
{
    cli_call one = *call;

    one.program = all->names == NULL ? call->program : all->names[index];
    return one;
}

exg_status cli_programs_only(const cli_programs *all, const char *what, exg_error *err)
{
    exg_text names = EXG_TEXT_EMPTY;
    exg_status status;

    if (all->names == NULL) {
        return EXG_OK;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        exg_text_puts(&names, i > 0 ? ", " : "");
        exg_text_puts(&names, all->names[i]);
    }
    status = exg_text_string(&names) == NULL ? EXG_OUT_OF_MEMORY(err)
                                             : exg_error_fix(err,
                                                             EXG_FAIL(err, USAGE, "CLI-008",
                                                                      "%s of one program, and the "
                                                                      "archive holds %u: %s",
                                                                      what, all->count, names.data),
                                                             "name one with --program");
    exg_text_free(&names);
    return status;
}

void cli_close(cli_program *p)
{
    exg_program_destroy(p->program);
    exg_operators_destroy(p->operators);
    exg_file_info_free(p->info);
    if (p->samples != NULL) {
        exg_weights_release(p->samples);
    }
    memset(p, 0, sizeof(*p));
}

/* Optional parts: found when the build was configured. */
static const struct {
    const char *name;
    bool in;
} parts[] = {
#ifdef EXG_WITH_LAPACK
    {"lapack", true},
#else
    {"lapack", false},
#endif
#ifdef EXG_WITH_MPI
    {"mpi", true},
#else
    {"mpi", false},
#endif
#ifdef EXG_WITH_HTTP
    {"http", true},
#else
    {"http", false},
#endif
#ifdef EXG_WITH_CRYPTO /* of OpenSSL */
    {"crypto", true},
#else
    {"crypto", false},
#endif
#ifdef EXG_WITH_CUDA /* NCCL is opened with it; exg devices says what is found */
    {"cuda", true},   {"nccl", true},
#else
    {"cuda", false},   {"nccl", false},
#endif
};

exg_status cli_version(FILE *out, bool json, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    if (json) {
        cli_json_begin(&text);
        exg_json_member_text(&text, "version", exg_version());
        exg_json_member_open(&text, "parts", '{');
    } else {
        exg_text_printf(&text, "exg %s\n", exg_version());
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (json) {
            exg_json_member_bool(&text, parts[i].name, parts[i].in);
        } else {
            exg_text_printf(&text, "  %-6s %s\n", parts[i].name,
                            parts[i].in ? "in" : "not in this build");
        }
    }
    if (json) {
        exg_json_put_close(&text, '}');
        cli_json_end(&text);
    }
    status = cli_put(out, &text, err);
    exg_text_free(&text);
    return status;
}

/* ---- progress ----------------------------------------------------------------------- */

static struct {
    double start, last;
    bool shown;
} progress; /* of the one command this process runs */

/* Is a line to be shown now: on a terminal, after a second, ten times a second? */
static bool shows_progress(void)
{
    double now = (double)cli_now_ns() * 1e-9;

    if (!isatty(STDERR_FILENO) || cli_is_quiet()) {
        return false;
    }
    progress.start = progress.start == 0 ? now : progress.start;
    if (now - progress.start < 1 || now - progress.last < 0.1) {
        return false;
    }
    progress.last = now;
    progress.shown = true;
    return true;
}

void cli_progress_of(uint64_t done, uint64_t total, const char *things)
{
    if (shows_progress()) {
        fprintf(stderr, "\r%3.0f %%  %" PRIu64 " of %" PRIu64 " %s ",
                100.0 * (double)done / (double)total, done, total, things);
    }
}

void cli_progress_at(uint64_t done, const char *things)
{
    if (shows_progress()) {
        fprintf(stderr, "\r%" PRIu64 " %s ", done, things);
    }
}

void cli_progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    if (!shows_progress()) {
        return;
    }
    fprintf(stderr, "\r%3.0f %%  %.0f of %.0f MiB ",
            total == 0 ? 100.0 : 100.0 * (double)done / (double)total, (double)done / 1048576,
            (double)total / 1048576);
}

void cli_progress_end(void)
{
    if (progress.shown) {
        fputs("\r\033[K", stderr);
    }
}
