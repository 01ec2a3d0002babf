/* cmd_operators.c - exg operators [PATTERN]: what there is for each operator. */
#include "cli/cli.h"

#include <exg/device.h>
#include <exg/dispatch.h>
#include <exg/operator_id_new.h>
#include <exg/transform.h>
#include <fnmatch.h>
#include <string.h>

#define DETAILED_MAX 12 /* so many are told in detail */

/* "torch.ops.aten.add.Tensor" without the first part. */
static const char *name_of(const char *target)
{
    static const char before[] = "torch.ops.";

    return strncmp(target, before, sizeof(before) - 1) == 0 ? target + sizeof(before) - 1 : target;
}

/* A pattern of all of the name, or a part of it. */
static bool fits(const char *target, const char *pattern)
{
    return pattern == NULL || strstr(name_of(target), pattern) != NULL ||
           fnmatch(pattern, name_of(target), 0) == 0 || strcmp(target, pattern) == 0;
}

static const char *schema_of(const exg_operator *op)
{
    return op->schema == NULL || op->schema->text == NULL ? "" : op->schema->text;
}

static const char *or_none(const char *text)
{
    return text[0] == '\0' ? "-" : text;
}

static void put_dtypes(exg_text *text, uint64_t dtypes)
{
    const char *before = "";

    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT; d++) {
        if ((dtypes >> d & 1) != 0) {
            exg_text_printf(text, "%s%s", before, exg_dtype_name((exg_dtype)d));
            before = " ";
        }
    }
    exg_text_puts(text, before[0] == '\0' ? "those of what it is computed by" : "");
}

static void put_devices(exg_text *text, uint32_t devices)
{
    const char *before = "";

    for (uint32_t i = 0; exg_device_kind(i) != NULL; i++) {
        if ((devices >> i & 1) != 0) {
            exg_text_printf(text, "%s%s", before, exg_device_kind(i));
            before = " ";
        }
    }
    exg_text_puts(text, before[0] == '\0' ? "those of what it is computed by" : "");
}

static void put_lists_json(exg_text *text, const exg_operator_support *support)
{
    exg_json_member_open(text, "dtypes", '[');
    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT; d++) {
        if ((support->dtypes >> d & 1) != 0) {
            exg_json_put_text(text, exg_dtype_name((exg_dtype)d));
        }
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "devices", '[');
    for (uint32_t i = 0; exg_device_kind(i) != NULL; i++) {
        if ((support->devices >> i & 1) != 0) {
            exg_json_put_text(text, exg_device_kind(i));
        }
    }
    exg_json_put_close(text, ']');
}

typedef struct lister {
    const cli_call *call;
    const exg_operators *operators;
    const char *pattern;
    exg_text text;
    uint32_t count;
    bool details;
    exg_error *err;
} lister;

static void put_row(lister *l, const char *target, const char *schema, bool writes,
                    const exg_operator_support *support)
{
    exg_text *text = &l->text;

    if (l->call->json) {
        exg_json_put_open(text, '{');
        exg_json_member_text(text, "name", name_of(target));
        exg_json_member_text(text, "target", target);
        exg_json_member_text(text, "schema", schema);
        exg_json_member_text(text, "kernel", support->kernel);
        put_lists_json(text, support);
        exg_json_member_text(text, "sharding", support->sharding);
        exg_json_member_text(text, "derivative", support->derivative);
        exg_json_member_bool(text, "writes", writes);
        exg_json_put_close(text, '}');
    } else if (l->details) {
        exg_text_printf(text, "%s\n  schema      %s\n  kernel      %s\n  dtypes      ",
                        name_of(target), or_none(schema), or_none(support->kernel));
        put_dtypes(text, support->dtypes);
        exg_text_puts(text, "\n  devices     ");
        put_devices(text, support->devices);
        exg_text_printf(text, "\n  sharding    %s\n  derivative  %s\n", support->sharding,
                        support->derivative);
    } else {
        exg_text_printf(text, "%-52s %-28s %-25s %s\n", name_of(target), or_none(support->kernel),
                        support->sharding, support->derivative);
    }
}

/* Higher-order operators have no row: a session does what they say. */
static void visit_higher_order(lister *l, bool puts)
{
    exg_operator_support support = {.sharding = "as what it is computed by", .derivative = "none"};
    const char *target;

    for (uint32_t i = 0; (target = exg_higher_order_at(i, &support.kernel)) != NULL; i++) {
        if (fits(target, l->pattern)) {
            l->count++;
            if (puts) {
                put_row(l, target, "", false, &support);
            }
        }
    }
}

static exg_status visit(lister *l, bool puts)
{
    l->count = 0;
    for (uint32_t id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(l->operators, (exg_operator_id)id);

        if (op != NULL && op->target != NULL && fits(op->target, l->pattern)) {
            l->count++;
            if (puts) {
                exg_operator_support support = {.size = sizeof(support)};

                EXG_TRY(exg_operator_describe(op, &support, l->err));
                put_row(l, op->target, schema_of(op), op->schema != NULL && op->schema->is_mutable,
                        &support);
            }
        }
    }
    visit_higher_order(l, puts);
    return EXG_OK;
}

static exg_status none_fits(lister *l)
{
    const exg_status status = EXG_FAIL(l->err, USAGE, "CLI-014", "no operator '%s'", l->pattern);
    cli_nearest nearest;

    cli_nearest_begin(&nearest, l->pattern);
    for (uint32_t id = 0; id < EXG_OPERATOR_COUNT; id++) {
        const exg_operator *op = exg_operators_get(l->operators, (exg_operator_id)id);

        if (op != NULL && op->target != NULL) {
            cli_nearest_offer(&nearest, name_of(op->target));
        }
    }
    return nearest.name != NULL
               ? exg_error_fix(l->err, status, "did you mean %s? exg operators lists all",
                               nearest.name)
               : exg_error_fix(l->err, status,
                               "exg operators lists all; --ops adds those of a library to a run");
}

static exg_status list(lister *l)
{
    exg_status status = visit(l, false);

    if (status == EXG_OK && l->count == 0) {
        return none_fits(l);
    }
    l->details = l->count <= DETAILED_MAX;
    if (l->call->json) {
        cli_json_begin(&l->text);
        exg_json_member_open(&l->text, "operators", '[');
    } else if (!l->details) {
        exg_text_printf(&l->text, "%-52s %-28s %-25s %s\n", "operator", "kernel", "sharding",
                        "derivative");
    }
    status = status == EXG_OK ? visit(l, true) : status;
    if (l->call->json) {
        exg_json_put_close(&l->text, ']');
        cli_json_end(&l->text);
    }
    return status == EXG_OK ? cli_put(l->call->out, &l->text, l->err) : status;
}

exg_status cmd_operators(const cli_call *call, exg_error *err)
{
    lister l = {.call = call,
                .pattern = call->path_count > 0 ? call->paths[0] : NULL,
                .text = EXG_TEXT_EMPTY,
                .err = err};
    exg_operators *operators;
    exg_status status;

    EXG_TRY(exg_operators_create(&operators, err));
    l.operators = operators;
    status = list(&l);
    exg_text_free(&l.text);
    exg_operators_destroy(operators);
    return status;
}
