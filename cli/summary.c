/* summary.c - an output in a line, or as a JSON object. */
#include "cli/cli.h"
#include "cli/outputs.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_COUNT 5

typedef struct summary {
    double low, high, sum;
} summary;

static summary summarize(const exg_tensor *t)
{
    int64_t numel = exg_tensor_numel(t);
    summary s = {0, 0, 0};

    for (int64_t i = 0; i < numel; i++) {
        double value = cli_number_at(t, i);

        s.low = i == 0 || value < s.low ? value : s.low;
        s.high = i == 0 || value > s.high ? value : s.high;
        s.sum += value;
    }
    return s;
}

static void put_json_constant(exg_text *text, const exg_argument *constant)
{
    exg_json_put_key(text, "value");
    switch (constant->kind) {
    case EXG_ARGUMENT_INT:
        exg_json_put_int(text, constant->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        cli_json_number(text, constant->as_float, 6);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_json_put_bool(text, constant->as_bool);
        break;
    case EXG_ARGUMENT_STRING:
        exg_json_put_text(text, constant->as_string);
        break;
    default:
        exg_json_put_null(text);
        break;
    }
}

static void put_constant(exg_text *text, const exg_argument *constant)
{
    switch (constant->kind) {
    case EXG_ARGUMENT_INT:
        exg_text_printf(text, "%" PRId64, constant->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        exg_text_printf(text, "%.6g", constant->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_text_puts(text, constant->as_bool ? "true" : "false");
        break;
    case EXG_ARGUMENT_STRING:
        exg_text_json_string(text, constant->as_string);
        break;
    default:
        exg_text_puts(text, "none");
        break;
    }
}

static void put_json_statistics(exg_text *text, const exg_tensor *t)
{
    int64_t numel = exg_tensor_numel(t);
    summary s = summarize(t);

    exg_json_put_key(text, "min");
    cli_json_number(text, s.low, 6);
    exg_json_put_key(text, "max");
    cli_json_number(text, s.high, 6);
    exg_json_put_key(text, "mean");
    cli_json_number(text, s.sum / (double)numel, 6);
    exg_json_member_open(text, "first", '[');
    for (int64_t i = 0; i < numel && i < FIRST_COUNT; i++) {
        cli_json_number(text, cli_number_at(t, i), 6);
    }
    exg_json_put_close(text, ']');
}

static void put_statistics(exg_text *text, const exg_tensor *t)
{
    int64_t numel = exg_tensor_numel(t);
    summary s = summarize(t);

    exg_text_printf(text, "  min %.6g  max %.6g  mean %.6g  first", s.low, s.high,
                    cli_plain(s.sum / (double)numel));
    for (int64_t i = 0; i < numel && i < FIRST_COUNT; i++) {
        exg_text_printf(text, " %.6g", cli_number_at(t, i));
    }
}

void cli_put_output_json(exg_text *text, uint32_t index, const exg_session_output *output)
{
    const exg_tensor *t = &output->tensor;
    char name[12];

    snprintf(name, sizeof(name), "%u", index);
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "name", name);
    if (output->constant.kind != EXG_ARGUMENT_TENSOR) {
        put_json_constant(text, &output->constant);
    } else {
        exg_json_member_text(text, "dtype", exg_dtype_name(t->dtype));
        exg_json_member_open(text, "shape", '[');
        for (uint32_t d = 0; d < t->rank; d++) {
            exg_json_put_int(text, t->sizes[d]);
        }
        exg_json_put_close(text, ']');
        if (exg_tensor_numel(t) > 0) {
            put_json_statistics(text, t);
        }
    }
    exg_json_put_close(text, '}');
}

void cli_put_output(exg_text *text, uint32_t index, const exg_session_output *output)
{
    const exg_tensor *t = &output->tensor;

    exg_text_printf(text, "%u: ", index);
    if (output->constant.kind != EXG_ARGUMENT_TENSOR) {
        put_constant(text, &output->constant);
    } else {
        exg_text_printf(text, "%s[", exg_dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->rank; d++) {
            exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", t->sizes[d]);
        }
        exg_text_putc(text, ']');
        if (exg_tensor_numel(t) > 0) {
            put_statistics(text, t);
        }
    }
    exg_text_putc(text, '\n');
}
