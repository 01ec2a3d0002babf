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

/* ---- reading ------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* Takes `word` where *at begins with it, and blanks around it. */
static bool take(const char **at, const char *word)
{
    const char *from = skip_blanks(*at);

    if (strncmp(from, word, strlen(word)) != 0) {
        return false;
    }
    *at = skip_blanks(from + strlen(word));
    return true;
}

/* "dim=": before an argument its name may stand. */
static void take_keyword(const char **at, const char *name)
{
    const char *from = *at;

    if (!take(&from, name) || !take(&from, "=")) {
        return;
    }
    *at = from;
}

static bool take_number(const char **at, long least, long most, int32_t *number)
{
    char *end;
    long value = strtol(*at, &end, 10);
    bool taken = end > *at && value >= least && value <= most;

    *number = taken ? (int32_t)value : 0;
    *at = skip_blanks(end);
    return taken;
}

#define DIM_MAX    63
#define FACTOR_MAX 999999999

static bool take_shard(const char **at, bool strided, exg_placement *placement)
{
    int32_t dim;
    int32_t factor = 0;

    take_keyword(at, "dim");
    if (!take_number(at, -DIM_MAX, DIM_MAX, &dim)) {
        return false;
    }
    *placement = exg_shard(dim);
    if (strided) {
        if (!take(at, ",")) {
            return false;
        }
        take_keyword(at, "split_factor");
        take_keyword(at, "sf");
        if (!take_number(at, 0, FACTOR_MAX, &factor)) {
            return false;
        }
        *placement = exg_strided_shard(dim, factor);
    }
    return true;
}

static bool take_summand(const char **at, exg_placement *placement)
{
    *placement = exg_partial(EXG_REDUCE_SUM);
    if (**at == ')') {
        return true;
    }
    take_keyword(at, "reduce_op");
    (void)(take(at, "'") || take(at, "\""));
    for (int op = 0; op < EXG_REDUCE_OP_COUNT; op++) {
        if (take(at, op_names[op])) {
            *placement = exg_partial((exg_reduce_op)op);
            (void)(take(at, "'") || take(at, "\""));
            return true;
        }
    }
    return false;
}

static bool read_placement(const char *at, exg_placement *placement)
{
    bool taken;

    if (take(&at, "Replicate") || take(&at, "R")) {
        *placement = exg_replicate();
        return *at == '\0' || (take(&at, "(") && take(&at, ")") && *at == '\0');
    }
    if (take(&at, "_StridedShard") || take(&at, "_S")) {
        taken = take(&at, "(") && take_shard(&at, true, placement);
    } else if (take(&at, "Shard") || take(&at, "S")) {
        taken = take(&at, "(") && take_shard(&at, false, placement);
    } else {
        taken = (take(&at, "Partial") || take(&at, "P")) && take(&at, "(") &&
                take_summand(&at, placement);
    }
    return taken && take(&at, ")") && *at == '\0';
}

exg_status exg_placement_parse(const char *text, exg_placement *placement, exg_error *err)
{
    EXG_REQUIRE(err, text, placement);
    exg_placement read;

    if (!read_placement(text, &read)) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "PLC-001", "'%.40s' is not a placement", text),
                             "write S(dim), _S(dim, split factor), R or P(sum|avg|max|min|product|"
                             "band|bor|bxor)");
    }
    *placement = read;
    return EXG_OK;
}

void exg_chunk(int64_t length, uint32_t n, uint32_t r, int64_t *offset, int64_t *size)
{
    int64_t full = length / n + (length % n != 0);
    int64_t start = full * (int64_t)r;

    *offset = start < length ? start : length;
    *size = length - *offset < full ? length - *offset : full;
}
