/* add_rows.c - rows of a table, by index, added up in bags.
 *
 *   table (size, width)   index, into (count)   by (count) or none   result (bags, width)
 *
 * Every block has some of the bags and goes through the places that are for them, in their order:
 * through all where bags do not follow one another. What goes into none of the bags is left out. An
 * index outside the table raises INDEX.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/loops/weighted.h"
#include "libexec/kernels/stream.h"

#define AHEAD     8    /* rows asked for before they are added */
#define ASKED_MAX 1024 /* bytes of one */
#define COLUMNS   1024 /* of a row at a time */
#define TOGETHER  32   /* rows that are added at once */
#define BLOCKS    8

typedef struct add_rows_params {
    int64_t size, width, count, bags;
    int64_t bags_of_block;
    exg_dtype dtype;
    bool is_double;
    uint32_t bytes, wide_bytes;
    const exg_convert_loops *convert;
    const exg_row_f32_loops *f32;
    const exg_weighted_loops *weighted;
} add_rows_params;

/* Rows of one bag that wait to be added to it, and what they are multiplied with. */
typedef struct waiting {
    const void *rows[1 + TOGETHER]; /* the first: what the bag has */
    union {
        float f32[1 + TOGETHER];
        double f64[1 + TOGETHER];
    } factors;
    int64_t count;
} waiting;

/* (table, index, into, by?, bags) */
static exg_status add_rows_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *table = &call->inputs[0];
    const exg_tensor *by = &call->inputs[3];
    add_rows_params *p = EXG_NEW(call->arena, add_rows_params);
    int64_t blocks;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_float("add_rows", table->dtype, err));
    EXG_TRY(exg_require_index("add_rows", call->inputs[1].dtype, err));
    EXG_TRY(exg_require_index("add_rows", call->inputs[2].dtype, err));
    p->dtype = table->dtype;
    p->is_double = p->dtype == EXG_DTYPE_F64;
    if (!exg_tensor_is_absent(by) && by->dtype != call->outputs[0].dtype) {
        return exg_unsupported_dtype("add_rows by", by->dtype, err);
    }
    p->bytes = exg_dtype_bytes(p->dtype);
    p->wide_bytes = p->is_double ? sizeof(double) : sizeof(float);
    p->size = table->sizes[0];
    p->width = table->sizes[1];
    p->count = call->inputs[1].sizes[0];
    p->bags = call->outputs[0].sizes[0];
    blocks = EXG_MAX(1, EXG_MIN(p->count * p->width / EXG_GRAIN, BLOCKS));
    p->bags_of_block = EXG_MAX(1, exg_ceil_div(p->bags, blocks));
    p->convert = EXG_LOOPS(exg_loops_convert);
    p->f32 = EXG_LOOPS(exg_loops_row_f32);
    p->weighted = EXG_LOOPS(exg_loops_weighted);
    call->params = p;
    return EXG_OK;
}

/* to += factor * row, or the row, of floats narrower than f32. */
static void add_row(const add_rows_params *p, float *to, const char *row, const float *factor)
{
    float wide[COLUMNS];

    for (int64_t first = 0; first < p->width; first += COLUMNS) {
        int64_t count = EXG_MIN(p->width - first, COLUMNS);

        p->convert->load[p->dtype]((uint32_t)count, wide, row + first * p->bytes, 1);
        if (factor != NULL) {
            p->f32->scale(count, wide, wide, *factor, false);
        }
        p->f32->add(count, to + first, wide);
    }
}

static void add_waiting(const add_rows_params *p, char *to, waiting *w)
{
    w->rows[0] = to;
    if (w->count == 0) {
        return;
    }
    if (p->is_double) {
        w->factors.f64[0] = 1;
        p->weighted->rows_f64(p->width, (double *)(void *)to, 1 + w->count, w->rows,
                              w->factors.f64);
    } else {
        w->factors.f32[0] = 1;
        p->weighted->rows_f32(p->width, (float *)(void *)to, 1 + w->count, w->rows, w->factors.f32);
    }
    w->count = 0;
}

static void wait(const add_rows_params *p, waiting *w, const char *row, const void *factor)
{
    const int64_t at = 1 + w->count++;

    w->rows[at] = row;
    if (p->is_double) {
        w->factors.f64[at] = factor == NULL ? 1 : *(const double *)factor;
    } else {
        w->factors.f32[at] = factor == NULL ? 1 : *(const float *)factor;
    }
}

typedef struct add_rows_run_context {
    const exg_kernel_call *call;
    bool is_sorted; /* bags follow one another */
} add_rows_run_context;

static int64_t bag_at(const exg_kernel_call *call, int64_t at)
{
    return exg_index_at(call->inputs[2].data, call->inputs[2].dtype, at);
}

static bool is_sorted(const exg_kernel_call *call)
{
    const add_rows_params *p = call->params;
    bool falls = false;

    for (int64_t at = 1; at < p->count; at++) {
        falls |= bag_at(call, at) < bag_at(call, at - 1);
    }
    return !falls;
}

/* The first place of bag `bag` or of one that follows. */
static int64_t place_of(const add_rows_run_context *r, int64_t bag)
{
    const add_rows_params *p = r->call->params;
    int64_t low = 0;
    int64_t high = p->count;

    while (low < high) {
        int64_t middle = (low + high) / 2;

        if (bag_at(r->call, middle) < bag) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void add_rows_block(void *context, uint32_t block)
{
    const add_rows_run_context *r = context;
    const exg_kernel_call *call = r->call;
    const add_rows_params *p = call->params;
    const exg_tensor *index = &call->inputs[1];
    const exg_tensor *by = &call->inputs[3];
    const int64_t row_bytes = p->width * p->bytes;
    const int64_t out_bytes = p->width * p->wide_bytes;
    int64_t first = (int64_t)block * p->bags_of_block;
    int64_t end = EXG_MIN(first + p->bags_of_block, p->bags);
    int64_t at = r->is_sorted && block > 0 ? place_of(r, first) : 0;
    int64_t last = r->is_sorted && end < p->bags ? place_of(r, end) : p->count;
    char *out = call->outputs[0].data;
    int64_t bag_of_waiting = first;
    waiting w;

    w.count = 0;
    memset(out + first * out_bytes, 0, (size_t)((end - first) * out_bytes));
    for (; at < last; at++) {
        int64_t bag = bag_at(call, at);
        int64_t i = exg_index_at(index->data, index->dtype, at);
        const char *row;
        const void *factor;

        if (i < 0 || i >= p->size) {
            exg_raise_index(call, i, p->size);
            continue;
        }
        if (bag < first || bag >= end) {
            continue;
        }
        if (at + AHEAD < p->count) { /* rows are anywhere: no processor foresees them */
            exg_ask((const char *)call->inputs[0].data +
                        (size_t)exg_index_at(index->data, index->dtype, at + AHEAD) *
                            (size_t)row_bytes,
                    EXG_MIN(row_bytes, ASKED_MAX));
        }
        row = (const char *)call->inputs[0].data + i * row_bytes;
        factor = exg_tensor_is_absent(by) ? NULL : (const char *)by->data + at * p->wide_bytes;
        if (!exg_compute_is_storage(p->dtype)) {
            add_row(p, (float *)(void *)(out + bag * out_bytes), row, factor);
            continue;
        }
        if (bag != bag_of_waiting || w.count == TOGETHER) {
            add_waiting(p, out + bag_of_waiting * out_bytes, &w);
            bag_of_waiting = bag;
        }
        wait(p, &w, row, factor);
    }
    add_waiting(p, out + bag_of_waiting * out_bytes, &w);
}

static void add_rows_run(const exg_kernel_call *call)
{
    const add_rows_params *p = call->params;
    add_rows_run_context r = {call, is_sorted(call)};

    exg_pool_run(call->pool, add_rows_block, &r, exg_block_count(p->bags, p->bags_of_block));
}

const exg_kernel exg_kernel_add_rows = {
    .name = "add_rows",
    .prepare = add_rows_prepare,
    .run = add_rows_run,
    .flags = EXG_KERNEL_RAISES,
};
