/* every.c - runs a program under every sharding of its inputs. */
#include "tests/exec/sharding/every.h"

#include "libexport/base/element.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS_MAX  32
#define RESULTS_MAX 64
#define RANKS_MAX   4

/* What a run left: its outputs, then its inputs, which it may have written. */
typedef struct results {
    exg_tensor tensors[RESULTS_MAX]; /* data is ours */
    uint32_t count;
    uint32_t sharded_count, partial_count;
} results;

static void *copy_of(const exg_tensor *t)
{
    size_t bytes = (size_t)exg_tensor_numel(t) * exg_dtype_bytes(t->dtype);
    void *copy = malloc(bytes + 1);

    if (copy == NULL) {
        exit(1);
    }
    if (bytes > 0) {
        memcpy(copy, t->data, bytes);
    }
    return copy;
}

static void release(results *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        free(r->tensors[i].data);
    }
    r->count = 0;
}

static void keep(results *r, const exg_tensor *t, bool copies)
{
    if (r->count < RESULTS_MAX) {
        r->tensors[r->count] = *t;
        r->tensors[r->count++].data = copies ? copy_of(t) : t->data;
    } else if (!copies) {
        free(t->data);
    }
}

static bool run(const exg_verified *verified, const exg_session_input *inputs, uint32_t count,
                const exg_session_options *options, results *r, char *why)
{
    exg_session_input own[INPUTS_MAX];
    exg_session *session = NULL;
    exg_error err;
    exg_status status;

    memcpy(own, inputs, count * sizeof(*own));
    for (uint32_t i = 0; i < count; i++) {
        own[i].tensor.data = own[i].is_number ? NULL : copy_of(&inputs[i].tensor);
    }
    r->count = 0;
    status = exg_session_create(verified, options, &session, &err);
    status = status == EXG_OK ? exg_session_run(session, own, count, &err) : status;
    if (status != EXG_OK) {
        snprintf(why, 300, "%s %.250s", err.code, err.message);
    } else {
        const exg_session_stats *stats;

        stats = exg_session_statistics(session);
        r->sharded_count = stats->partition->sharded_count;
        r->partial_count = stats->partition->partial_count;
        for (uint32_t o = 0; o < exg_session_output_count(session); o++) {
            const exg_session_output *out = exg_session_output_at(session, o);

            if (out->constant.kind == EXG_ARGUMENT_TENSOR) {
                keep(r, &out->tensor, true);
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (status == EXG_OK && !own[i].is_number) {
            keep(r, &own[i].tensor, false);
        } else {
            free(own[i].tensor.data);
        }
    }
    exg_session_destroy(session);
    return status == EXG_OK;
}

/* ---- comparing ------------------------------------------------------------------------- */

/* Relative to an element, sums being taken in another order. Each rank rounds its part of a
 * sum once: of 16 bits that is much, and relative to the parts, which are at most a few times
 * the largest element. */
static double slack_of(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_F32:
    case EXG_DTYPE_C64:
        return 2e-4;
    case EXG_DTYPE_F64:
    case EXG_DTYPE_C128:
        return 1e-8;
    case EXG_DTYPE_F16:
        return 1.0 / 1024;
    case EXG_DTYPE_BF16:
        return 1.0 / 128;
    default:
        return 0;
    }
}

static double largest_of(const exg_tensor *t)
{
    double largest = 0;

    for (int64_t i = 0;
         exg_dtype_bytes(t->dtype) == 2 && slack_of(t->dtype) > 0 && i < exg_tensor_numel(t); i++) {
        double x = fabs(exg_element_value(t->dtype, (const uint8_t *)t->data + i * 2));

        largest = isfinite(x) && x > largest ? x : largest;
    }
    return largest;
}

static bool same_numbers(const exg_tensor *a, const exg_tensor *b, char *why)
{
    bool complex = a->dtype == EXG_DTYPE_C64 || a->dtype == EXG_DTYPE_C128;
    exg_dtype part = a->dtype == EXG_DTYPE_C64    ? EXG_DTYPE_F32
                     : a->dtype == EXG_DTYPE_C128 ? EXG_DTYPE_F64
                                                  : a->dtype;
    uint32_t item = exg_dtype_bytes(part);
    int64_t count = exg_tensor_numel(a) * (complex ? 2 : 1);
    double slack = slack_of(a->dtype);
    double floor = slack * (1 + RANKS_MAX * largest_of(a));

    if (a->dtype != b->dtype || a->rank != b->rank ||
        memcmp(a->sizes, b->sizes, a->rank * sizeof(a->sizes[0])) != 0) {
        snprintf(why, 300, "another dtype or shape");
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = exg_element_value(part, (const uint8_t *)a->data + i * item);
        double y = exg_element_value(part, (const uint8_t *)b->data + i * item);

        if (!(x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= floor + slack * fabs(x))) {
            snprintf(why, 300, "element %lld is %.9g, unsharded %.9g", (long long)i, y, x);
            return false;
        }
    }
    return true;
}

static bool same_results(const results *whole, const results *split, char *why)
{
    bool same = whole->count == split->count;

    for (uint32_t i = 0; same && i < whole->count; i++) {
        same = same_numbers(&whole->tensors[i], &split->tensors[i], why);
    }
    return same;
}

/* ---- shardings --------------------------------------------------------------------------- */

/* The next choice of a dim for each input, -1: whole; false: that was the last. */
static bool next(const exg_session_input *inputs, uint32_t count, int32_t *dims)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!inputs[i].is_number && dims[i] + 1 < (int32_t)inputs[i].tensor.rank) {
            dims[i]++;
            return true;
        }
        dims[i] = -1;
    }
    return false;
}

static uint64_t combinations(const exg_session_input *inputs, uint32_t count)
{
    uint64_t all = 1;

    for (uint32_t i = 0; i < count && all < UINT32_MAX; i++) {
        all *= inputs[i].is_number ? 1 : inputs[i].tensor.rank + 1;
    }
    return all;
}

static void describe(const exg_partition_pattern *patterns, uint32_t count, char *text, size_t room)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < room; i++) {
        char placement[EXG_PLACEMENT_TEXT];

        used += (size_t)snprintf(text + used, room - used, "%s%s %s", i > 0 ? ", " : "",
                                 patterns[i].pattern,
                                 exg_placement_print(patterns[i].placement, placement));
    }
}

static void try_one(const exg_verified *verified, const exg_session_input *inputs, uint32_t count,
                    exg_session_options *options, const results *whole, tried *t)
{
    results split = {.count = 0};
    char why[300] = "";
    bool ran = run(verified, inputs, count, options, &split, why);
    bool right = ran && same_results(whole, &split, why);
    char how[80];

    t->right += right;
    t->wrong += ran && !right;
    t->failed += !ran;
    t->kept += right && split.sharded_count > 0;
    t->summands += right && split.sharded_count == 0 && split.partial_count > 0;
    if (!right && t->why[0] == '\0') {
        describe(options->partition[0].patterns, options->partition[0].pattern_count, how,
                 sizeof(how));
        snprintf(t->why, sizeof(t->why), "%s: %s", how, why);
    }
    release(&split);
}

bool try_every_sharding(const exg_verified *verified, const exg_session_input *inputs,
                        uint32_t count, uint32_t ranks, tried *t)
{
    exg_session_options options = {.size = sizeof(options), .thread_count = 1};
    exg_costs costs;
    exg_partition_options place;
    exg_partition_pattern patterns[INPUTS_MAX];
    int32_t dims[INPUTS_MAX];
    results whole = {.count = 0};
    uint64_t all = combinations(inputs, count);
    uint64_t at = 0;

    if (count > INPUTS_MAX || !run(verified, inputs, count, &options, &whole, t->why)) {
        return false;
    }
    memset(dims, 0xff, sizeof(dims));
    options.mesh = (exg_mesh_shape){1, {ranks}, {NULL}};
    exg_costs_init(
        &costs, sizeof(costs)); /* small tensors are to be treated as large ones: by bytes alone */
    costs.links[0].message_ns = 0;
    options.goal = &(exg_partition_goal){.size = sizeof(exg_partition_goal), .costs = &costs};
    place = (exg_partition_options){
        .size = sizeof(place), .mode = EXG_PARTITION_PATTERNS, .patterns = patterns};
    options.partition = &place;
    while (next(inputs, count, dims)) {
        uint32_t *used = &place.pattern_count;

        at++;
        if (all > SHARDINGS_MAX && at * SHARDINGS_MAX / all == (at - 1) * SHARDINGS_MAX / all) {
            continue; /* of very many some, evenly */
        }
        *used = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (dims[i] >= 0) {
                patterns[(*used)++] = (exg_partition_pattern){inputs[i].name, exg_shard(dims[i]),
                                                              EXG_PARTITION_INPUTS, NULL};
            }
        }
        try_one(verified, inputs, count, &options, &whole, t);
    }
    release(&whole);
    return true;
}
