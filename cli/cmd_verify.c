/* cmd_verify.c - exg verify FILE: every rule, all faults in one run; as text, JSON or
 * SARIF 2.1.0.
 *
 * --deny makes findings errors, --allow leaves them out of the report. Neither moves
 * the gate: what exg_verify() refuses, exg run refuses.
 */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct report {
    const char *path;
    exg_diagnostics found; /* of all programs */
    uint32_t capacity;
    uint32_t programs;
    bool weights;  /* of a file of weights */
    bool unopened; /* it is no file that can be looked into */
    bool unread;   /* no fault of the file: */
    exg_error fault;
    uint32_t allowed;        /* findings left out */
    uint32_t allowed_errors; /* of which close the gate */
} report;

/* ---- printing --------------------------------------------------------------------------- */

static void put_findings(exg_text *text, const report *r)
{
    if (r->programs > 1) {
        exg_json_member_uint(text, "programs", r->programs);
    }
    exg_json_member_uint(text, "errors", r->found.error_count);
    exg_json_member_uint(text, "warnings", r->found.warning_count);
    exg_json_member_uint(text, "notes", r->found.note_count);
    cli_json_diagnostics(text, "diagnostics", &r->found);
}

static void put_json(exg_text *text, const report *reports, uint32_t count)
{
    cli_json_begin(text);
    if (count == 1) {
        put_findings(text, reports);
    } else {
        exg_json_member_open(text, "files", '[');
        for (uint32_t i = 0; i < count; i++) {
            exg_json_put_open(text, '{');
            exg_json_member_text(text, "file", reports[i].path);
            put_findings(text, &reports[i]);
            exg_json_put_close(text, '}');
        }
        exg_json_put_close(text, ']');
    }
    cli_json_end(text);
}

/* "key": {"text": string} */
static void put_message(exg_text *text, const char *key, const char *string)
{
    exg_json_member_open(text, key, '{');
    exg_json_member_text(text, "text", string);
    exg_json_put_close(text, '}');
}

/* The codes that were found, each once, with a severity of theirs. */
typedef struct code_list {
    const exg_diagnostic **items;
    uint32_t count;
} code_list;

static uint32_t code_index(const code_list *codes, const char *code)
{
    uint32_t i = 0;

    while (i < codes->count && strcmp(codes->items[i]->code, code) != 0) {
        i++;
    }
    return i;
}

static bool list_codes(const report *reports, uint32_t count, code_list *codes)
{
    size_t findings = 1;

    for (uint32_t r = 0; r < count; r++) {
        findings += reports[r].found.count;
    }
    *codes = (code_list){calloc(findings, sizeof(exg_diagnostic *)), 0};
    for (uint32_t r = 0; codes->items != NULL && r < count; r++) {
        for (uint32_t i = 0; i < reports[r].found.count; i++) {
            const exg_diagnostic *d = &reports[r].found.items[i];

            if (code_index(codes, d->code) == codes->count) {
                codes->items[codes->count++] = d;
            }
        }
    }
    return codes->items != NULL;
}

static void put_sarif_rules(exg_text *text, const code_list *codes)
{
    for (uint32_t i = 0; i < codes->count; i++) {
        const exg_rule *rule = exg_rule_find(codes->items[i]->code);
        exg_severity severity = rule == NULL ? codes->items[i]->severity : rule->severity;
        const char *claim = "";
        const char *fix = "";

        (void)cli_find_code(codes->items[i]->code, &claim, &fix);
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "id", codes->items[i]->code);
        put_message(text, "shortDescription", claim);
        put_message(text, "help", fix[0] == '\0' ? claim : fix);
        exg_json_member_open(text, "defaultConfiguration", '{');
        exg_json_member_text(text, "level", exg_severity_name(severity));
        exg_json_put_close(text, '}');
        exg_json_put_close(text, '}');
    }
}

/* A URI of a path: what is not plain is written as %XX (RFC 3986). */
static void put_uri(exg_text *text, const char *path)
{
    exg_text uri = EXG_TEXT_EMPTY;

    exg_text_puts(&uri, path[0] == '/' ? "file://" : "");
    for (const char *c = path; *c != '\0'; c++) {
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            strchr("-._~/", *c) != NULL) {
            exg_text_putc(&uri, *c);
        } else {
            exg_text_printf(&uri, "%%%02X", (unsigned)(unsigned char)*c);
        }
    }
    exg_json_member_open(text, "artifactLocation", '{');
    exg_json_member_text(text, "uri", exg_text_part(text, &uri));
    exg_json_put_close(text, '}');
    exg_text_free(&uri);
}

/* Opens a location of the list `key`, of one. */
static void open_location(exg_text *text, const char *key, const char *path)
{
    exg_json_member_open(text, key, '[');
    exg_json_put_open(text, '{');
    exg_json_member_open(text, "physicalLocation", '{');
    put_uri(text, path);
}

static void close_location(exg_text *text)
{
    exg_json_put_close(text, '}');
    exg_json_put_close(text, ']');
}

static void put_sarif_result(exg_text *text, const report *r, const code_list *codes,
                             const exg_diagnostic *d)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "ruleId", d->code);
    exg_json_member_uint(text, "ruleIndex", code_index(codes, d->code));
    exg_json_member_text(text, "level", exg_severity_name(d->severity));
    put_message(text, "message", d->message);
    open_location(text, "locations", r->path);
    exg_json_put_close(text, '}');
    exg_json_member_open(text, "logicalLocations", '[');
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "fullyQualifiedName", d->where);
    exg_json_put_close(text, '}');
    exg_json_put_close(text, ']');
    close_location(text);
    if (d->source_file[0] != '\0') {
        open_location(text, "relatedLocations", d->source_file);
        exg_json_member_open(text, "region", '{');
        exg_json_member_uint(text, "startLine", d->source_line == 0 ? 1 : d->source_line);
        exg_json_put_close(text, '}');
        exg_json_put_close(text, '}');
        put_message(text, "message", d->source_text);
        close_location(text);
    }
    exg_json_put_close(text, '}');
}

/* What kept files from being looked at is no result, but how the run ended (3.20, 3.58). */
static void put_sarif_invocation(exg_text *text, const report *reports, uint32_t count)
{
    bool any = false;

    for (uint32_t r = 0; r < count; r++) {
        if (!reports[r].unread) {
            continue;
        }
        if (!any) {
            exg_json_member_open(text, "invocations", '[');
            exg_json_put_open(text, '{');
            exg_json_member_bool(text, "executionSuccessful", false);
            exg_json_member_open(text, "toolExecutionNotifications", '[');
        }
        any = true;
        exg_json_put_open(text, '{');
        exg_json_member_open(text, "descriptor", '{');
        exg_json_member_text(text, "id", reports[r].fault.code);
        exg_json_put_close(text, '}');
        exg_json_member_text(text, "level", "error");
        put_message(text, "message", reports[r].fault.message);
        open_location(text, "locations", reports[r].path);
        exg_json_put_close(text, '}');
        close_location(text);
        exg_json_put_close(text, '}');
    }
    if (any) {
        exg_json_put_close(text, ']');
        exg_json_put_close(text, '}');
        exg_json_put_close(text, ']');
    }
}

static void put_sarif(exg_text *text, const report *reports, uint32_t count, const code_list *codes)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    exg_json_member_text(text, "version", "2.1.0");
    exg_json_member_open(text, "runs", '[');
    exg_json_put_open(text, '{');
    exg_json_member_open(text, "tool", '{');
    exg_json_member_open(text, "driver", '{');
    exg_json_member_text(text, "name", "exg");
    exg_json_member_text(text, "version", exg_version());
    exg_json_member_open(text, "rules", '[');
    put_sarif_rules(text, codes);
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
    exg_json_put_close(text, '}');
    put_sarif_invocation(text, reports, count);
    exg_json_member_open(text, "results", '[');
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t i = 0; i < reports[r].found.count; i++) {
            put_sarif_result(text, &reports[r], codes, &reports[r].found.items[i]);
        }
    }
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
    exg_text_putc(text, '\n');
}

static cli_color color_of(exg_severity severity)
{
    return severity == EXG_SEVERITY_ERROR     ? CLI_COLOR_ERROR
           : severity == EXG_SEVERITY_WARNING ? CLI_COLOR_WARNING
                                              : CLI_COLOR_NOTE;
}

static void put_text(exg_text *text, const report *r)
{
    for (uint32_t i = 0; i < r->found.count; i++) {
        const exg_diagnostic *d = &r->found.items[i];

        exg_text_printf(text, "%s%s:%s %s: ", cli_paint(stdout, color_of(d->severity)),
                        exg_severity_name(d->severity), cli_paint(stdout, CLI_COLOR_NONE), d->code);
        exg_text_plain(text, d->message, false);
        exg_text_puts(text, "\n  where: ");
        exg_text_plain(text, d->where, false);
        if (d->source_file[0] != '\0') {
            exg_text_puts(text, "\n  source: ");
            exg_text_plain(text, d->source_file, false);
            exg_text_printf(text, ":%u: ", d->source_line);
            exg_text_plain(text, d->source_text, false);
        }
        exg_text_puts(text, "\n");
        if (d->fix[0] != '\0') {
            exg_text_printf(text, "  %sfix:%s %s\n", cli_paint(stdout, CLI_COLOR_FIX),
                            cli_paint(stdout, CLI_COLOR_NONE), d->fix);
        }
    }
    exg_text_plain(text, r->path, false);
    if (r->programs > 1) {
        exg_text_printf(text, ", %u programs", r->programs);
    }
    exg_text_puts(text, ": ");
    exg_text_count(text, r->found.error_count, "error");
    exg_text_puts(text, ", ");
    exg_text_count(text, r->found.warning_count, "warning");
    if (r->found.note_count > 0) {
        exg_text_puts(text, ", ");
        exg_text_count(text, r->found.note_count, "note");
    }
    if (r->allowed > 0) {
        exg_text_printf(text, "; %u allowed%s", r->allowed,
                        r->allowed_errors == 0 || r->weights ? ""
                                                             : ", the program still does not run");
    }
    exg_text_puts(text, "\n");
}

static exg_status print_reports(const cli_call *call, const report *reports, uint32_t count,
                                exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    code_list codes = {0};
    exg_status status;

    if (call->sarif && !list_codes(reports, count, &codes)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (call->sarif) {
        put_sarif(&text, reports, count, &codes);
    } else if (call->json) {
        put_json(&text, reports, count);
    }
    for (uint32_t i = 0; !call->sarif && !call->json && i < count; i++) {
        if (!reports[i].unopened) { /* that was told by itself */
            put_text(&text, &reports[i]);
        }
    }
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    free(codes.items);
    return status;
}

/* ---- --deny and --allow ------------------------------------------------------------------- */

/* Is `code` (or the name of its severity, in the plural) in the list "CODE,CODE,..."? */
static bool is_listed(const char *list, const exg_diagnostic *d)
{
    char plural[16];

    snprintf(plural, sizeof(plural), "%ss", exg_severity_name(d->severity));
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");

        if ((strlen(d->code) == length && memcmp(list, d->code, length) == 0) ||
            (strlen(plural) == length && memcmp(list, plural, length) == 0)) {
            return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}

static exg_status check_list(const char *option, const char *list, exg_error *err)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        char word[32];

        snprintf(word, sizeof(word), "%.*s", (int)length, list);
        if (strcmp(word, "warnings") != 0 && strcmp(word, "notes") != 0 &&
            exg_rule_find(word) == NULL) {
            return exg_error_fix(
                err, EXG_FAIL(err, USAGE, "CLI-007", "%s %s: no such rule", option, word),
                "name codes, warnings or notes; exg explain --list has the codes");
        }
        list += length + (list[length] == ',');
    }
    return EXG_OK;
}

/* Takes allowed findings out, makes denied ones errors, counts again. */
static void judge(const cli_call *call, report *r)
{
    exg_diagnostics *found = &r->found;
    uint32_t kept = 0;

    if (call->deny == NULL && call->allow == NULL) {
        return;
    }
    found->error_count = found->warning_count = found->note_count = 0;
    for (uint32_t i = 0; i < found->count; i++) {
        exg_diagnostic d = found->items[i];

        if (is_listed(call->allow, &d)) {
            r->allowed++;
            r->allowed_errors += d.severity == EXG_SEVERITY_ERROR;
            continue;
        }
        d.severity = is_listed(call->deny, &d) ? EXG_SEVERITY_ERROR : d.severity;
        found->error_count += d.severity == EXG_SEVERITY_ERROR;
        found->warning_count += d.severity == EXG_SEVERITY_WARNING;
        found->note_count += d.severity == EXG_SEVERITY_NOTE;
        found->items[kept++] = d;
    }
    found->count = kept;
}

/* How the command ends: with the first error left. */
static exg_status verdict(const report *r, exg_error *err)
{
    for (uint32_t i = 0; i < r->found.count; i++) {
        const exg_diagnostic *d = &r->found.items[i];

        if (d->severity == EXG_SEVERITY_ERROR) {
            exg_status status =
                EXG_FAIL(err, MALFORMED, d->code, "%s%s", d->message,
                         r->found.error_count > 1 ? " (the first of several faults)" : "");

            (void)exg_error_fix(err, status, "%s", d->fix);
            return exg_error_within(err, status, "%s", d->where);
        }
    }
    return EXG_OK;
}

/* ---- several programs -------------------------------------------------------------------- */

/* A finding of the program `name`, or of the only one (NULL). */
static bool add_finding(report *r, const exg_diagnostic *d, const char *name)
{
    exg_diagnostics *all = &r->found;
    exg_diagnostic *to;

    if (!exg_arena_reserve(all->arena, &all->items, all->count, &r->capacity, sizeof(*d))) {
        return false;
    }
    to = &all->items[all->count++];
    *to = *d;
    to->message = exg_arena_strdup(all->arena, d->message);
    to->where = name == NULL ? exg_arena_strdup(all->arena, d->where)
                             : exg_arena_printf(all->arena, "programs[\"%s\"].%s", name, d->where);
    to->fix = exg_arena_strdup(all->arena, d->fix);
    to->code = exg_arena_strdup(all->arena, d->code);
    to->source_file = exg_arena_strdup(all->arena, d->source_file);
    to->source_text = exg_arena_strdup(all->arena, d->source_text);
    return to->message != NULL && to->where != NULL && to->fix != NULL && to->code != NULL &&
           to->source_file != NULL && to->source_text != NULL;
}

static exg_status add_findings(report *r, const exg_diagnostics *found, const char *name,
                               exg_error *err)
{
    for (uint32_t i = 0; i < found->count; i++) {
        if (!add_finding(r, &found->items[i], name)) {
            return EXG_OUT_OF_MEMORY(err);
        }
    }
    r->found.error_count += found->error_count;
    r->found.warning_count += found->warning_count;
    r->found.note_count += found->note_count;
    return EXG_OK;
}

/* What cannot be opened breaks a rule too. false: it is no fault of the file, or there is no
 * memory for it. */
static bool note_fault(report *r, const char *name, exg_status status, const exg_error *fault)
{
    bool is_known = exg_rule_find(fault->code) != NULL || exg_code_find(fault->code) != NULL;
    exg_diagnostic only = {.severity = EXG_SEVERITY_ERROR,
                           .code = fault->code,
                           .message = fault->message,
                           .where = fault->where,
                           .fix = fault->fix,
                           .source_file = "",
                           .source_text = ""};
    exg_diagnostics found = {.items = &only, .count = 1, .error_count = 1};

    return (status == EXG_MALFORMED || status == EXG_UNSUPPORTED || status == EXG_LIMIT) &&
           is_known && add_findings(r, &found, name, NULL) == EXG_OK;
}

/* One program; what is found of the file itself only with the first. */
static exg_status find_all(const cli_call *call, cli_program *p, bool is_first,
                           exg_diagnostics *found, exg_error *err)
{
    exg_status status = exg_verify(p->program, p->operators, &p->verified, found, err);

    if (status == EXG_OK && is_first) {
        status = exg_verify_file(p->program, call->paths[0], p->info, found, err);
    }
    if (status == EXG_OK && call->data) {
        exg_check_options options = {
            .size = sizeof(options), .threads = (uint32_t)call->threads, .progress = cli_progress};

        status = exg_verify_data(p->program, found, &options, err);
        cli_progress_end();
    }
    if (status == EXG_OK && call->values) {
        status = exg_verify_values(p->program, found, (uint32_t)call->threads, err);
    }
    /* A fault that is no finding is of another file than this one. */
    return status == EXG_MALFORMED && found->error_count > 0 ? EXG_OK : status;
}

/* Would the collectives of a program that is already parallel go on this mesh? */
static exg_status check_on_mesh(const cli_call *call, const cli_program *p, exg_error *err)
{
    exg_session_options options;
    cli_placement placement;
    exg_session *session = NULL;
    exg_status status;

    status = cli_session_options(call, &options, &placement, err);
    options.plan_only = true;
    status = status == EXG_OK ? cli_parallel_options(call, &options, &placement, err) : status;
    status = status == EXG_OK ? exg_session_create(&p->verified, &options, &session, err) : status;
    exg_session_destroy(session);
    cli_placement_free(&placement);
    return status;
}

static exg_status verify_program(const cli_call *call, const cli_programs *all, uint32_t index,
                                 report *r, exg_error *err)
{
    cli_call one = cli_programs_call(call, all, index);
    const char *name = all->names == NULL ? NULL : all->names[index];
    exg_diagnostics found = {0};
    cli_program p;
    exg_status status = cli_open(&one, &p, err);

    if (status != EXG_OK && name == NULL) {
        r->unopened = true;
        (void)note_fault(r, NULL, status, err);
        return status;
    }
    if (status != EXG_OK) { /* one of several: the others are still looked at */
        return note_fault(r, name, status, err) ? EXG_OK : status;
    }
    status = find_all(&one, &p, index == 0, &found, err);
    if (found.arena != NULL) {
        exg_status added = add_findings(r, &found, name, status == EXG_OK ? err : NULL);

        status = status == EXG_OK ? added : status;
    }
    if (status == EXG_OK && found.error_count == 0 && call->mesh != NULL) {
        status = check_on_mesh(&one, &p, err);
        status = status != EXG_OK && note_fault(r, name, status, err) ? EXG_OK : status;
    }
    exg_diagnostics_free(&found);
    cli_close(&p);
    return status;
}

static exg_status verify_programs(const cli_call *call, report *r, exg_error *err)
{
    cli_programs all;
    exg_status status = cli_programs_list(call, &all, err);

    if (status != EXG_OK) {
        r->unopened = true;
        (void)note_fault(r, NULL, status, err);
        return status;
    }
    r->programs = all.count;
    for (uint32_t i = 0; i < all.count && status == EXG_OK; i++) {
        status = verify_program(call, &all, i, r, err);
    }
    cli_programs_free(&all);
    return status;
}

/* ---- weights -------------------------------------------------------------------------------- */

static exg_status find_in_weights(const cli_call *call, exg_weights *weights, report *r,
                                  exg_error *err)
{
    exg_weights_verify_options options = {.size = sizeof(options),
                                          .digest = call->expect_digest,
                                          .values = call->values,
                                          .threads = (uint32_t)call->threads};
    exg_check_options check = {
        .size = sizeof(check), .threads = (uint32_t)call->threads, .progress = cli_progress};
    exg_diagnostics found = {0};
    exg_status status = EXG_OK;

    if (call->needed_by != NULL) {
        const exg_open_options needed = cli_open_options(call);

        EXG_TRY_IN(err, exg_weights_open(call->needed_by, &needed, &options.needed, NULL, err),
                   "%s:", call->needed_by);
    }
    if (call->data) {
        status = exg_weights_check(weights, &check, err);
        cli_progress_end();
        status = status == EXG_MALFORMED && note_fault(r, NULL, status, err) ? EXG_OK : status;
    }
    if (status == EXG_OK) {
        status = exg_weights_verify(weights, &options, &found, err);
        if (status == EXG_OK || (status == EXG_MALFORMED && found.error_count > 0)) {
            status = add_findings(r, &found, NULL, err);
        } else if (status == EXG_MALFORMED) { /* a tensor that could not be read */
            status = note_fault(r, NULL, status, err) ? EXG_OK : status;
        }
        exg_diagnostics_free(&found);
    }
    exg_weights_release(options.needed);
    return status;
}

/* exg_open_options.fault */
static void take_fault(void *user, const exg_error *fault)
{
    (void)note_fault(user, NULL, fault->status, fault);
}

static exg_status verify_weights(const cli_call *call, report *r, exg_error *err)
{
    exg_open_options options = cli_open_options(call);
    exg_weights *weights;
    exg_status status;

    options.fault = take_fault;
    options.fault_user = r;
    status = exg_weights_open(call->paths[0], &options, &weights, NULL, err);
    r->weights = true;
    if (status != EXG_OK && r->found.count > 1) {
        return EXG_OK; /* the report has them */
    }
    if (status != EXG_OK) {
        r->unopened = true;
        if (r->found.count == 0) { /* else it is the first of those that were told */
            (void)note_fault(r, NULL, status, err);
        }
        return exg_error_within(err, status, "%s:", call->paths[0]);
    }
    status = find_in_weights(call, weights, r, err);
    exg_weights_release(weights);
    return status;
}

/* ---- the command ---------------------------------------------------------------------------- */

static exg_status verify_file(const cli_call *call, const char *path, report *r, exg_error *err)
{
    cli_call one = *call;

    one.paths[0] = path;
    *r = (report){.path = path, .found = {.arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED)}};
    if (r->found.arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY((cli_is_weights_file(call, path) ? verify_weights : verify_programs)(&one, r, err));
    judge(call, r);
    return EXG_OK;
}

/* All files are looked at, whatever is wrong with some; the first fault is that of the call. */
static exg_status verify_files(const cli_call *call, report *reports, exg_error *err)
{
    uint32_t count = call->files.count;
    exg_status first = EXG_OK;
    exg_status printed = EXG_OK;

    for (uint32_t i = 0; i < count; i++) {
        exg_error fault;
        exg_status status;

        exg_error_clear(&fault);
        status = verify_file(call, call->files.items[i], &reports[i], &fault);
        if (status != EXG_OK && reports[i].found.error_count == 0) {
            reports[i].unread = true;
            reports[i].fault = fault;
        }
        status = status == EXG_OK ? verdict(&reports[i], &fault) : status;
        if (status != EXG_OK && first == EXG_OK) {
            first = status;
            *err = fault;
        } else if (reports[i].unopened) { /* which no text report has */
            cli_print_error(&fault, call->json);
        }
    }
    if (count > 1 || first == EXG_OK || reports[0].found.count > 0 || call->sarif) {
        printed = print_reports(call, reports, count, first == EXG_OK ? err : NULL);
    }
    return first != EXG_OK ? first : printed;
}

exg_status cmd_verify(const cli_call *call, exg_error *err)
{
    report *reports;
    exg_status status;

    EXG_TRY(check_list("--deny", call->deny, err));
    EXG_TRY(check_list("--allow", call->allow, err));
    reports = calloc(call->files.count, sizeof(*reports));
    status = reports == NULL ? EXG_OUT_OF_MEMORY(err) : verify_files(call, reports, err);
    for (uint32_t i = 0; reports != NULL && i < call->files.count; i++) {
        exg_diagnostics_free(&reports[i].found);
    }
    free(reports);
    return status;
}
