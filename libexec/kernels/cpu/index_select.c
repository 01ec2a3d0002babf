/* index_select.c - whole rows by index: embedding, index_select, index_copy.
 *
 *   self (outer, size, inner)   index (count)   picked (outer, count, inner)
 *
 * An index outside [0, size) raises INDEX; its row is zero, or not written.
 */
#include "libexec/kernels/cpu/gemm.h"
#include "libexec/kernels/stream.h"

#define AHEAD     8    /* rows asked for before they are copied */
#define ASKED_MAX 1024 /* bytes of one: the processor sees what follows */

typedef struct pick_params {
    int64_t outer, size, count;
    size_t row_bytes; /* inner elements */
    size_t pitch;     /* from one row to the next */
    int64_t rows_of_block;
    exg_dtype index_dtype;
    const exg_gemm_packing *packing; /* rows are columns of what it made; NULL: rows */
} pick_params;

typedef struct pick_run {
    const exg_kernel_call *call;
    const pick_params *p;
    const char *self;
    const char *index;
    char *out;
} pick_run;

static exg_status pick_plan(exg_kernel_call *call, const exg_tensor *self, uint32_t dim,
                            const exg_tensor *index, const exg_gemm_packing *packing,
                            const char *name, exg_error *err)
{
    exg_around around = exg_around_dim(self, dim);
    pick_params *p = EXG_NEW(call->arena, pick_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_index(name, index->dtype, err));
    p->outer = around.outer;
    p->size = around.size;
    p->count = exg_tensor_numel(index);
    p->row_bytes = (size_t)around.inner * exg_dtype_bytes(self->dtype);
    p->pitch = dim > 0 || self->rank == 0 || packing != NULL
                   ? p->row_bytes
                   : (size_t)self->strides[0] * exg_dtype_bytes(self->dtype);
    p->rows_of_block = exg_items_per_block((int64_t)p->row_bytes / 4, EXG_GRAIN);
    p->index_dtype = index->dtype;
    p->packing = packing;
    call->params = p;
    return EXG_OK;
}

/* Places [from, end) of the index for one of the outer; `bytes` and `dtype` may be constants. */
static inline __attribute__((always_inline)) void pick_rows(const pick_run *r, int64_t outer,
                                                            int64_t from, int64_t end, size_t bytes,
                                                            exg_dtype dtype)
{
    const pick_params *p = r->p;
    const char *self = r->self + (size_t)(outer * p->size) * bytes;
    char *out = r->out + (size_t)(outer * p->count) * bytes;

    for (int64_t at = from; at < end; at++) {
        int64_t i = exg_index_at(r->index, dtype, at);

        if (bytes >= 64 && at + AHEAD < end) { /* rows are anywhere: no processor foresees them */
            int64_t next = exg_index_at(r->index, dtype, at + AHEAD);

            exg_ask(self + (size_t)next * p->pitch, (int64_t)EXG_MIN(bytes, ASKED_MAX));
        }
        if (i < 0 || i >= p->size) {
            exg_raise_index(r->call, i, p->size);
            memset(out + (size_t)at * bytes, 0, bytes);
        } else if (p->packing != NULL) {
            exg_gemm_packing_column(p->packing, r->self, i, out + (size_t)at * bytes);
        } else {
            memcpy(out + (size_t)at * bytes, self + (size_t)i * p->pitch, bytes);
        }
    }
}

/* The same of rows of one element: groups of indices are checked at once. */
static inline __attribute__((always_inline)) void pick_elements(const pick_run *r, int64_t outer,
                                                                int64_t from, int64_t end,
                                                                size_t bytes)
{
    enum { GROUP = 8 };
    const int64_t *index = (const int64_t *)(const void *)r->index;
    const char *self = r->self + (size_t)(outer * r->p->size) * bytes;
    char *out = r->out + (size_t)(outer * r->p->count) * bytes;
    const uint64_t size = (uint64_t)r->p->size;

    for (; from + GROUP <= end; from += GROUP) {
        bool is_outside = false;

        for (int64_t k = 0; k < GROUP; k++) {
            is_outside |= (uint64_t)index[from + k] >= size;
        }
        if (is_outside) {
            pick_rows(r, outer, from, from + GROUP, bytes, EXG_DTYPE_I64);
            continue;
        }
        for (int64_t k = 0; k < GROUP; k++) {
            memcpy(out + (size_t)(from + k) * bytes, self + (size_t)index[from + k] * bytes, bytes);
        }
    }
    pick_rows(r, outer, from, end, bytes, EXG_DTYPE_I64);
}

#define PICK_ELEMENTS(bytes)                                                                       \
    if (p->packing == NULL && p->index_dtype == EXG_DTYPE_I64 && p->pitch == (bytes)) {            \
        pick_elements(r, outer, from, to, bytes);                                                  \
    } else {                                                                                       \
        pick_rows(r, outer, from, to, bytes, p->index_dtype);                                      \
    }                                                                                              \
    break

static void pick_block(void *context, uint32_t block)
{
    const pick_run *r = context;
    const pick_params *p = r->p;
    int64_t end = EXG_MIN(((int64_t)block + 1) * p->rows_of_block, p->outer * p->count);

    for (int64_t row = (int64_t)block * p->rows_of_block; row < end;) {
        int64_t outer = row / p->count;
        int64_t from = row % p->count;
        int64_t to = EXG_MIN(p->count, from + end - row);

        switch (p->row_bytes) {
        case 2:
            PICK_ELEMENTS(2);
        case 4:
            PICK_ELEMENTS(4);
        case 8:
            PICK_ELEMENTS(8);
        default:
            pick_rows(r, outer, from, to, p->row_bytes, p->index_dtype);
            break;
        }
        row += to - from;
    }
}

static void pick_run_all(const exg_kernel_call *call)
{
    const pick_params *p = call->params;
    const exg_tensor *self = p->packing != NULL ? call->packed : &call->inputs[0];
    pick_run r = {call, p, self->data, call->inputs[1].data, call->outputs[0].data};

    exg_pool_run(call->pool, pick_block, &r,
                 exg_block_count(p->outer * p->count, p->rows_of_block));
}

static exg_status embedding_prepare(exg_kernel_call *call, exg_error *err)
{
    return pick_plan(call, &call->inputs[0], 0, &call->inputs[1], NULL, "embedding", err);
}

/* The table is the weight of a product too, which has packed it (that of a language model's last
 * layer): its rows are columns there. */
static exg_status packed_embedding_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *table = &call->inputs[0];
    const exg_gemm_packing *packing = call->packing;

    if (packing->loops == NULL || table->rank != 2 || packing->n != table->sizes[0] ||
        packing->k != table->sizes[1] || packing->b.column != table->strides[0] ||
        packing->b.row != table->strides[1]) {
        return EXG_FAIL(err, UNSUPPORTED, "OPR-004", "another matrix than the table's is packed");
    }
    return pick_plan(call, table, 0, &call->inputs[1], packing, "embedding", err);
}

static const exg_kernel packed_embedding = {
    .name = "embedding",
    .prepare = packed_embedding_prepare,
    .run = pick_run_all,
    .flags = EXG_KERNEL_RAISES,
};

const exg_kernel exg_kernel_embedding = {
    .name = "embedding",
    .prepare = embedding_prepare,
    .run = pick_run_all,
    .flags = EXG_KERNEL_RAISES | EXG_KERNEL_ROWS_APART,
    .of_packed = &packed_embedding,
};

static exg_status index_select_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *self = &call->inputs[0];

    return pick_plan(call, self, exg_call_dim(call, 1, self->rank), &call->inputs[1], NULL,
                     "index_select", err);
}

const exg_kernel exg_kernel_index_select = {
    .name = "index_select",
    .prepare = index_select_prepare,
    .run = pick_run_all,
    .flags = EXG_KERNEL_RAISES,
};

/* ---- index_copy -------------------------------------------------------------------- */

static exg_status index_copy_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];

    return pick_plan(call, out, exg_call_dim(call, 1, out->rank), &call->inputs[1], NULL,
                     "index_copy", err);
}

/* In order, so that the last of equal indices wins. */
static void index_copy_run(const exg_kernel_call *call)
{
    const pick_params *p = call->params;
    const exg_tensor *self = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    const char *source = call->inputs[2].data;

    if (self->data != out->data) {
        memcpy(out->data, self->data, (size_t)(p->outer * p->size) * p->row_bytes);
    }
    for (int64_t row = 0; row < p->outer * p->count; row++) {
        int64_t i = exg_index_at(call->inputs[1].data, p->index_dtype, row % p->count);

        if (i < 0 || i >= p->size) {
            exg_raise_index(call, i, p->size);
        } else {
            memcpy((char *)out->data + (size_t)(row / p->count * p->size + i) * p->row_bytes,
                   source + (size_t)row * p->row_bytes, p->row_bytes);
        }
    }
}

const exg_kernel exg_kernel_index_copy = {
    .name = "index_copy",
    .prepare = index_copy_prepare,
    .run = index_copy_run,
    .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_RAISES,
};
