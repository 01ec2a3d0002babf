/* summary.c - an output in a line, or as a JSON object. */
#include "cli/outputs.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <math.h>
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

/* JSON has no word for infinities and NaN: null. */
static void put_number(exg_text *text, bool json, double value)
{
    if (json && !isfinite(value)) {
        exg_text_puts(text, "null");
    } else {
        exg_text_printf(text, "%.6g", value);
    }
}

static void put_constant(exg_text *text, bool json, const exg_argument *constant)
{
    exg_text_puts(text, json ? "\"value\": " : "");
    switch (constant->kind) {
    case EXG_ARGUMENT_INT:
        exg_text_printf(text, "%" PRId64, constant->as_int);
        break;
    case EXG_ARGUMENT_FLOAT:
        put_number(text, json, constant->as_float);
        break;
    case EXG_ARGUMENT_BOOL:
        exg_text_puts(text, constant->as_bool ? "true" : "false");
        break;
    case EXG_ARGUMENT_STRING:
        exg_text_json_string(text, constant->as_string);
        break;
    default:
        exg_text_puts(text, json ? "null" : "none");
        break;
    }
}

static void put_statistics(exg_text *text, bool json, const exg_tensor *t)
{
    int64_t numel = exg_tensor_numel(t);
    summary s = summarize(t);

    exg_text_puts(text, json ? ", \"min\": " : "  min ");
    put_number(text, json, s.low);
    exg_text_puts(text, json ? ", \"max\": " : "  max ");
    put_number(text, json, s.high);
    exg_text_puts(text, json ? ", \"mean\": " : "  mean ");
    put_number(text, json, s.sum / (double)numel);
    exg_text_puts(text, json ? ", \"first\": [" : "  first");
    for (int64_t i = 0; i < numel && i < FIRST_COUNT; i++) {
        exg_text_puts(text, json ? (i > 0 ? ", " : "") : " ");
        put_number(text, json, cli_number_at(t, i));
    }
    exg_text_puts(text, json ? "]" : "");
}

void cli_put_output(exg_text *text, bool json, uint32_t index, const exg_session_output *output)
{
    const exg_tensor *t = &output->tensor;

    exg_text_printf(text, json ? "{\"name\": \"%u\", " : "%u: ", index);
    if (output->constant.kind != EXG_ARGUMENT_TENSOR) {
        put_constant(text, json, &output->constant);
    } else {
        exg_text_printf(text, json ? "\"dtype\": \"%s\", \"shape\": [" : "%s[",
                        exg_dtype_name(t->dtype));
        for (uint32_t d = 0; d < t->rank; d++) {
            exg_text_printf(text, "%s%" PRId64, d > 0 ? ", " : "", t->sizes[d]);
        }
        exg_text_puts(text, "]");
        if (exg_tensor_numel(t) > 0) {
            put_statistics(text, json, t);
        }
    }
    exg_text_puts(text, json ? "}" : "\n");
}
