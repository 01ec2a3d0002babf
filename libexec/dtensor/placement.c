/* placement.c - placements as text, and the chunk rule. */
#include "libexport/base/require.h"
#include <exg/placement.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[EXG_REDUCE_OP_COUNT] = {
    [EXG_REDUCE_SUM] = "sum", [EXG_REDUCE_AVG] = "avg",         [EXG_REDUCE_MAX] = "max",
    [EXG_REDUCE_MIN] = "min", [EXG_REDUCE_PRODUCT] = "product", [EXG_REDUCE_BAND] = "band",
    [EXG_REDUCE_BOR] = "bor", [EXG_REDUCE_BXOR] = "bxor",
};

const char *exg_reduce_op_name(exg_reduce_op op)
{
    return op < EXG_REDUCE_OP_COUNT ? op_names[op] : "?";
}

bool exg_placement_equal(exg_placement a, exg_placement b)
{
    return a.kind == b.kind && (!exg_placement_is_shard(a) || a.dim == b.dim) &&
           (a.kind != EXG_PARTIAL || a.op == b.op) &&
           (a.kind != EXG_STRIDED_SHARD || a.split_factor == b.split_factor);
}

char *exg_placement_print(exg_placement placement, char *text)
{
    switch (placement.kind) {
    case EXG_SHARD:
        snprintf(text, EXG_PLACEMENT_TEXT, "S(%d)", placement.dim);
        break;
    case EXG_STRIDED_SHARD:
        snprintf(text, EXG_PLACEMENT_TEXT, "_S(%d, %d)", placement.dim, placement.split_factor);
        break;
    case EXG_PARTIAL:
        snprintf(text, EXG_PLACEMENT_TEXT, "P(%s)", exg_reduce_op_name(placement.op));
        break;
    default:
        snprintf(text, EXG_PLACEMENT_TEXT, "R");
        break;
    }
    return text;
}

/* The text between the parentheses that follow one of two names, or NULL. */
static const char *inside(const char *text, const char *brief, const char *full, size_t *length)
{
    size_t name = 0;
    const char *end;

    if (strncmp(text, full, strlen(full)) == 0) {
        name = strlen(full);
    } else if (strncmp(text, brief, strlen(brief)) == 0) {
        name = strlen(brief);
    }
    if (name == 0 || text[name] != '(') {
        return NULL;
    }
    end = strchr(text + name, ')');
    if (end == NULL || end[1] != '\0') {
        return NULL;
    }
    *length = (size_t)(end - text) - name - 1;
    return text + name + 1;
}

/* "0, 2" or "dim=0, sf=2" and the end of the parentheses. */
static bool read_strided(const char *argument, exg_placement *placement)
{
    int dim, factor, end = 0;

    if (sscanf(argument, "dim=%3d, sf=%9d)%n", &dim, &factor, &end) != 2 &&
        sscanf(argument, "%3d ,%9d)%n", &dim, &factor, &end) != 2) {
        return false;
    }
    *placement = exg_strided_shard(dim, factor);
    return end > 0;
}

exg_status exg_placement_parse(const char *text, exg_placement *placement, exg_error *err)
{
    EXG_REQUIRE(err, text, placement);
    size_t length;
    const char *argument;

    if (strcmp(text, "R") == 0 || strcmp(text, "Replicate") == 0 ||
        strcmp(text, "Replicate()") == 0) {
        *placement = exg_replicate();
        return EXG_OK;
    }
    argument = inside(text, "S", "Shard", &length);
    if (argument != NULL) {
        const char *number = argument + (strncmp(argument, "dim=", 4) == 0 ? 4 : 0);
        char *end;
        long dim = strtol(number, &end, 10);

        if (end > number && end[0] == ')' && dim > -64 && dim < 64) {
            *placement = exg_shard((int32_t)dim);
            return EXG_OK;
        }
    }
    argument = inside(text, "_S", "_StridedShard", &length);
    if (argument != NULL && read_strided(argument, placement)) {
        return EXG_OK;
    }
    argument = inside(text, "P", "Partial", &length);
    for (int op = 0; argument != NULL && op < EXG_REDUCE_OP_COUNT; op++) {
        if ((length == 0 && op == EXG_REDUCE_SUM) ||
            (strlen(op_names[op]) == length && strncmp(op_names[op], argument, length) == 0)) {
            *placement = exg_partial((exg_reduce_op)op);
            return EXG_OK;
        }
    }
    return exg_error_fix(err, EXG_FAIL(err, USAGE, "PLC-001", "'%.40s' is not a placement", text),
                         "write S(dim), _S(dim, split factor), R or P(sum|avg|max|min|product|"
                         "band|bor|bxor)");
}

void exg_chunk(int64_t length, uint32_t n, uint32_t r, int64_t *offset, int64_t *size)
{
    int64_t full = length / n + (length % n != 0);
    int64_t start = full * (int64_t)r;

    *offset = start < length ? start : length;
    *size = length - *offset < full ? length - *offset : full;
}
