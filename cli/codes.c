/* codes.c - what every fault code means: the rules of program files and the faults of
 * everything else, one by one (exg explain CODE) or all (exg explain --list). */
#include "cli/cli.h"

#include <string.h>
#include <strings.h>

typedef struct code_row {
    const char *code, *severity, *keeper, *claim, *fix;
    bool is_rule;
} code_row;

static const struct example {
    const char *code, *command, *message;
} examples[] = {
#define EXG_EXAMPLE(code, command, message) {code, command, message},
#include "cli/example.def"
#undef EXG_EXAMPLE
};

static const struct {
    const char *code, *cause;
} causes[] = {
#define EXG_CAUSE(code, cause) {code, cause},
#include "cli/cause.def"
#undef EXG_CAUSE
};

/* NULL: the code's own words say it. */
static const char *cause_of(const char *code)
{
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        if (strcmp(causes[i].code, code) == 0) {
            return causes[i].cause;
        }
    }
    return NULL;
}

static const struct example *example_of(const char *code)
{
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        if (strcmp(examples[i].code, code) == 0) {
            return &examples[i];
        }
    }
    return NULL;
}

/* Rules first, as they stand in their tables; false past the last. */
static bool code_at(uint32_t index, code_row *row)
{
    const exg_rule *rule = exg_rule_at(index);
    const exg_code *fault;

    if (rule != NULL) {
        *row = (code_row){rule->code,
                          exg_severity_name(rule->severity),
                          exg_keeper_name(rule->keeper),
                          rule->claim,
                          rule->fix,
                          true};
        return true;
    }
    fault = exg_code_at(index - exg_rule_count());
    if (fault != NULL) {
        *row = (code_row){fault->code, "error", "running", fault->meaning, fault->fix, false};
    }
    return fault != NULL;
}

bool cli_find_code(const char *code, const char **claim, const char **fix)
{
    code_row row;

    for (uint32_t i = 0; code_at(i, &row); i++) {
        if (strcmp(row.code, code) == 0) {
            *claim = row.claim;
            *fix = row.fix;
            return true;
        }
    }
    return false;
}

static void put_json(exg_text *text, const code_row *row)
{
    exg_json_member_text(text, "code", row->code);
    exg_json_member_text(text, "severity", row->severity);
    exg_json_member_text(text, "kept_by", row->keeper);
    exg_json_member_text(text, row->is_rule ? "claim" : "meaning", row->claim);
    exg_json_member_text(text, "fix", row->fix);
}

static void put_cell(exg_text *text, const char *words)
{
    exg_text_puts(text, " ");
    for (const char *c = words; *c != '\0'; c++) {
        exg_text_puts(text, *c == '|' ? "\\" : "");
        exg_text_putc(text, *c);
    }
    exg_text_puts(text, " |");
}

/* The page schema/rules.md. */
static void put_markdown(exg_text *text)
{
    code_row row;
    bool in_rules = false;
    bool in_faults = false;

    exg_text_puts(text, "# Fault codes\n\nWritten by `exg explain --list --markdown`. A code never "
                        "changes its meaning.\n");
    for (uint32_t i = 0; code_at(i, &row); i++) {
        if (row.is_rule && !in_rules) {
            exg_text_puts(
                text,
                "\n## Rules of a program file\n\nAn error closes the gate: nothing runs that "
                "breaks one. A warning is told; so is a note, for\nthe sake of other "
                "readers. Kept by opening: the file does not open. Kept by verifying: "
                "`exg verify`\nfinds all in one run. Kept by data: `exg verify --data`, "
                "which reads the weights. Kept by file: `exg\nverify`, of how the file "
                "is made. Kept by weights: `exg\nverify` of a file of weights. Kept by nothing: "
                "no file can break it here, and the last\ncolumn says why.\n\n"
                "| code | severity | kept by | in a sound file "
                "| fix |\n|---|---|---|---|---|\n");
            in_rules = true;
        }
        if (!row.is_rule && !in_faults) {
            exg_text_puts(text,
                          "\n## Other faults\n\n| code | what it says | fix |\n|---|---|---|\n");
            in_faults = true;
        }
        exg_text_puts(text, "|");
        put_cell(text, row.code);
        if (row.is_rule) {
            put_cell(text, row.severity);
            put_cell(text, row.keeper);
        }
        put_cell(text, row.claim);
        put_cell(text, row.fix);
        exg_text_puts(text, "\n");
    }
}

static void put_list(exg_text *text)
{
    code_row row;

    for (uint32_t i = 0; code_at(i, &row); i++) {
        exg_text_printf(text, "%-12s %-8s %s\n", row.code, row.severity, row.claim);
    }
}

static void put_list_json(exg_text *text)
{
    code_row row;

    cli_json_begin(text);
    exg_json_member_open(text, "codes", '[');
    for (uint32_t i = 0; code_at(i, &row); i++) {
        exg_json_put_open(text, '{');
        put_json(text, &row);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    cli_json_end(text);
}

static exg_status print(const cli_call *call, exg_text *text, exg_error *err)
{
    exg_status status = cli_put(call->out, text, err);

    exg_text_free(text);
    return status;
}

exg_status cli_list_codes(const cli_call *call, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;

    (call->markdown ? put_markdown : call->json ? put_list_json : put_list)(&text);
    return print(call, &text, err);
}

static exg_status no_code(const char *code, exg_error *err)
{
    const exg_status status = EXG_FAIL(err, USAGE, "CLI-007", "no code and no file '%s'", code);
    cli_nearest nearest;
    code_row row;

    cli_nearest_begin(&nearest, code);
    for (uint32_t i = 0; code_at(i, &row); i++) {
        cli_nearest_offer(&nearest, row.code);
    }
    return nearest.name != NULL
               ? exg_error_fix(err, status, "did you mean %s? exg explain --list has them all",
                               nearest.name)
               : exg_error_fix(err, status, "exg explain --list has them all");
}

exg_status cli_explain_code(const cli_call *call, const char *code, exg_error *err)
{
    const struct example *example;
    const char *cause;
    exg_text text = EXG_TEXT_EMPTY;
    code_row row;
    uint32_t i = 0;
    bool known = code_at(0, &row);

    while (known && strcasecmp(row.code, code) != 0) {
        known = code_at(++i, &row);
    }
    if (!known) {
        return no_code(code, err);
    }
    example = example_of(row.code);
    cause = cause_of(row.code);
    if (call->json) {
        cli_json_begin(&text);
        put_json(&text, &row);
        if (cause != NULL) {
            exg_json_member_text(&text, "cause", cause);
        }
        if (example != NULL) {
            exg_json_member_text(&text, "example", example->command);
            exg_json_member_text(&text, "example_message", example->message);
        }
        cli_json_end(&text);
    } else {
        exg_text_printf(&text, "%s (%s%s%s): %s\n", row.code, row.severity,
                        row.is_rule ? ", kept by " : "", row.is_rule ? row.keeper : "", row.claim);
        if (cause != NULL) {
            exg_text_printf(&text, "  cause: %s\n", cause);
        }
        if (row.fix[0] != '\0') {
            exg_text_printf(&text, "  fix: %s\n", row.fix);
        }
        if (example != NULL) {
            exg_text_printf(&text, "  example: %s\n    ", example->command);
            exg_text_plain(&text, example->message, false);
            exg_text_putc(&text, '\n');
        }
    }
    return print(call, &text, err);
}
