/* index.c - several index tensors at once: index, index_put.
 *
 * The indices are broadcast to (positions); each position names one slice of self
 * over the dimensions that are not indexed. Result dimensions: those before the
 * first index, then positions, then the rest; positions come first when the indexed
 * dimensions are not neighbours. Negative indices count from the end.
 */
#include "libexec/kernels/cpu/combine.h"

typedef struct index_params {
    uint32_t bytes;
    uint32_t indexed_count;
    struct {
        uint32_t input;
        exg_dtype dtype;
        int64_t size, stride;          /* of self along the indexed dimension */
        int64_t strides[EXG_RANK_MAX]; /* over the broadcast positions */
    } indexed[EXG_RANK_MAX];
    uint32_t position_rank;
    int64_t position_sizes[EXG_RANK_MAX];
    int64_t values_strides[EXG_RANK_MAX]; /* over positions */
    int64_t positions;
    /* dimensions in front of the positions, and behind; sizes and both strides */
    uint32_t before_rank, after_rank;
    int64_t before[3][EXG_RANK_MAX];
    int64_t after[3][EXG_RANK_MAX];
    int64_t before_count, after_count;
    int64_t run_length; /* elements that lie together on both sides */
    int64_t positions_of_block;
    bool is_of_elements; /* one a position, which are one after the other in indices and values */
    bool accumulates;
    exg_combiner adder;
} index_params;

typedef struct index_run_context {
    const exg_kernel_call *call;
    const index_params *p;
    char *self;
    char *values; /* index: the result; index_put: what is written */
    bool puts;
} index_run_context;

static exg_status broadcast_positions(exg_kernel_call *call, index_params *p, uint32_t index_count,
                                      const exg_tensor *self, exg_error *err)
{
    for (uint32_t d = 0; d < index_count; d++) {
        const exg_tensor *index = &call->inputs[1 + d];

        if (!exg_tensor_is_absent(index)) {
            EXG_TRY(exg_require_index("index", index->dtype, err));
            p->position_rank = EXG_MAX(p->position_rank, index->rank);
        }
    }
    for (uint32_t k = 0; k < p->position_rank; k++) {
        p->position_sizes[k] = 1;
    }
    for (uint32_t d = 0; d < index_count; d++) {
        const exg_tensor *index = &call->inputs[1 + d];
        uint32_t n = p->indexed_count;

        if (exg_tensor_is_absent(index)) {
            continue;
        }
        p->indexed[n].input = 1 + d;
        p->indexed[n].dtype = index->dtype;
        p->indexed[n].size = self->sizes[d];
        p->indexed[n].stride = self->strides[d];
        for (uint32_t k = 0; k < index->rank; k++) {
            uint32_t to = p->position_rank - index->rank + k;

            if (index->sizes[k] != 1) {
                p->position_sizes[to] = index->sizes[k];
                p->indexed[n].strides[to] = index->strides[k];
            }
        }
        p->indexed_count++;
    }
    p->positions = 1;
    for (uint32_t k = 0; k < p->position_rank; k++) {
        p->positions *= p->position_sizes[k];
    }
    return EXG_OK;
}

static void add_dim(int64_t list[3][EXG_RANK_MAX], uint32_t *rank, int64_t *count, int64_t size,
                    int64_t self_stride, int64_t values_stride)
{
    list[0][*rank] = size;
    list[1][*rank] = self_stride;
    list[2][*rank] = values_stride;
    *count *= size;
    (*rank)++;
}

/* `values` has the shape of the result, or broadcasts to it. */
static void plan_dims(exg_kernel_call *call, index_params *p, const exg_tensor *self,
                      uint32_t index_count, const exg_tensor *values)
{
    uint32_t before = exg_call_dims_before(call, index_count);
    uint32_t rank = self->rank - p->indexed_count + p->position_rank;
    uint32_t at = 0; /* dimension of the result */

    p->before_count = p->after_count = 1;
    for (uint32_t d = 0; d < before; d++, at++) {
        add_dim(p->before, &p->before_rank, &p->before_count, self->sizes[d], self->strides[d],
                exg_broadcast_stride(values, rank, at));
    }
    for (uint32_t k = 0; k < p->position_rank; k++, at++) {
        p->values_strides[k] = exg_broadcast_stride(values, rank, at);
    }
    for (uint32_t d = before; d < self->rank; d++) {
        if (d >= index_count || exg_tensor_is_absent(&call->inputs[1 + d])) {
            add_dim(p->after, &p->after_rank, &p->after_count, self->sizes[d], self->strides[d],
                    exg_broadcast_stride(values, rank, at));
            at++;
        }
    }
    p->run_length = 1;
    while (p->after_rank > 0 && p->after[1][p->after_rank - 1] == p->run_length &&
           p->after[2][p->after_rank - 1] == p->run_length) {
        p->run_length *= p->after[0][--p->after_rank];
    }
}

static bool is_row_major(const index_params *p, const int64_t *strides)
{
    int64_t apart = 1;

    for (uint32_t k = p->position_rank; k-- > 0; apart *= p->position_sizes[k]) {
        if (p->position_sizes[k] != 1 && strides[k] != apart) {
            return false;
        }
    }
    return true;
}

static bool is_of_elements(const index_params *p)
{
    bool all = p->before_count == 1 && p->after_count == 1 && is_row_major(p, p->values_strides);

    for (uint32_t n = 0; n < p->indexed_count; n++) {
        all = all && is_row_major(p, p->indexed[n].strides);
    }
    return all;
}

static exg_status index_plan(exg_kernel_call *call, const exg_tensor *self, uint32_t index_count,
                             const exg_tensor *values, exg_error *err)
{
    index_params *p = EXG_NEW(call->arena, index_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->bytes = exg_dtype_bytes(self->dtype);
    EXG_TRY(broadcast_positions(call, p, index_count, self, err));
    plan_dims(call, p, self, index_count, values);
    p->is_of_elements = is_of_elements(p);
    p->positions_of_block = exg_items_per_block(8 + p->after_count, EXG_GRAIN);
    call->params = p;
    return EXG_OK;
}

/* Offset in elements of a position's slice, or -1. */
static int64_t slice_of(const index_run_context *r, const int64_t *at)
{
    const index_params *p = r->p;
    int64_t offset = 0;

    for (uint32_t n = 0; n < p->indexed_count; n++) {
        int64_t where = 0;
        int64_t given;
        int64_t i;

        for (uint32_t k = 0; k < p->position_rank; k++) {
            where += at[k] * p->indexed[n].strides[k];
        }
        given = exg_index_at(r->call->inputs[p->indexed[n].input].data, p->indexed[n].dtype, where);
        i = given < 0 ? given + p->indexed[n].size : given;
        if (i < 0 || i >= p->indexed[n].size) {
            exg_raise_index(r->call, given, p->indexed[n].size);
            return -1;
        }
        offset += i * p->indexed[n].stride;
    }
    return offset;
}

/* One slice; offsets in elements, slice < 0: the index was bad. */
static void move_slice(const index_run_context *r, int64_t slice, int64_t self_offset,
                       int64_t values_offset)
{
    const index_params *p = r->p;
    size_t run_bytes = (size_t)p->run_length * p->bytes;
    int64_t runs = p->run_length > 0 ? p->after_count / p->run_length : 0;

    for (int64_t run = 0; run < runs; run++) {
        int64_t rest = run;
        int64_t self = self_offset + EXG_MAX(slice, 0);
        int64_t values = values_offset;
        char *at;

        for (uint32_t d = p->after_rank; d-- > 0; rest /= p->after[0][d]) {
            self += rest % p->after[0][d] * p->after[1][d];
            values += rest % p->after[0][d] * p->after[2][d];
        }
        at = r->values + values * p->bytes;
        if (!r->puts) {
            if (slice < 0) {
                memset(at, 0, run_bytes);
            } else if (run_bytes == 4) {
                memcpy(at, r->self + self * p->bytes, 4);
            } else if (run_bytes == 8) {
                memcpy(at, r->self + self * p->bytes, 8);
            } else {
                memcpy(at, r->self + self * p->bytes, run_bytes);
            }
        } else if (slice >= 0) {
            if (p->accumulates) {
                exg_combine(&p->adder, r->self + self * p->bytes, at, p->run_length);
            } else {
                memcpy(r->self + self * p->bytes, at, run_bytes);
            }
        }
    }
}

static void index_positions(const index_run_context *r, int64_t first, int64_t end)
{
    const index_params *p = r->p;
    int64_t at[EXG_RANK_MAX] = {0};

    for (int64_t position = first; position < end; position++) {
        int64_t rest = position;
        int64_t values = 0;
        int64_t slice;

        for (uint32_t k = p->position_rank; k-- > 0; rest /= p->position_sizes[k]) {
            at[k] = rest % p->position_sizes[k];
            values += at[k] * p->values_strides[k];
        }
        slice = slice_of(r, at);
        for (int64_t b = 0; b < p->before_count; b++) {
            int64_t self_offset = 0;
            int64_t values_offset = values;

            rest = b;
            for (uint32_t d = p->before_rank; d-- > 0; rest /= p->before[0][d]) {
                self_offset += rest % p->before[0][d] * p->before[1][d];
                values_offset += rest % p->before[0][d] * p->before[2][d];
            }
            move_slice(r, slice, self_offset, values_offset);
        }
    }
}

#define STRETCH 256

/* Adds what an index says of `count` positions from `first` on to their offsets; false where one
 * is bad. */
static bool add_offsets(const index_run_context *r, uint32_t n, int64_t first, int64_t count,
                        int64_t *offsets)
{
    const index_params *p = r->p;
    const void *data = r->call->inputs[p->indexed[n].input].data;
    const int64_t size = p->indexed[n].size, stride = p->indexed[n].stride;
    const bool is_wide = p->indexed[n].dtype == EXG_DTYPE_I64;
    int bad = 0;

    for (int64_t k = 0; k < count; k++) {
        int64_t i =
            is_wide ? ((const int64_t *)data)[first + k] : ((const int32_t *)data)[first + k];

        i += i < 0 ? size : 0;
        bad |= (i < 0) | (i >= size);
        offsets[k] += i * stride;
    }
    return bad == 0;
}

#define TAKE(type)                                                                                 \
    for (int64_t k = 0; k < count; k++) {                                                          \
        ((type *)to)[k] = ((const type *)from)[offsets[k]];                                        \
    }                                                                                              \
    break

static void take_elements(uint32_t bytes, int64_t count, void *to, const void *from,
                          const int64_t *offsets)
{
    switch (bytes) {
    case 1:
        TAKE(uint8_t);
    case 2:
        TAKE(uint16_t);
    case 4:
        TAKE(uint32_t);
    case 8:
        TAKE(uint64_t);
    default:
        for (int64_t k = 0; k < count; k++) {
            memcpy((char *)to + k * bytes, (const char *)from + offsets[k] * bytes, bytes);
        }
    }
}

/* Where is_of_elements: as index_positions, which takes stretches that have a bad index. */
static void index_elements(const index_run_context *r, int64_t first, int64_t end)
{
    const index_params *p = r->p;

    for (int64_t at = first; at < end; at += STRETCH) {
        int64_t count = EXG_MIN(end - at, STRETCH);
        int64_t offsets[STRETCH] = {0};
        bool all_good = true;

        for (uint32_t n = 0; n < p->indexed_count && all_good; n++) {
            all_good = add_offsets(r, n, at, count, offsets);
        }
        if (all_good) {
            take_elements(p->bytes, count, r->values + at * p->bytes, r->self, offsets);
        } else {
            index_positions(r, at, at + count);
        }
    }
}

static void index_block(void *context, uint32_t block)
{
    const index_run_context *r = context;
    int64_t first = (int64_t)block * r->p->positions_of_block;

    (r->p->is_of_elements && !r->puts ? index_elements : index_positions)(
        r, first, EXG_MIN(first + r->p->positions_of_block, r->p->positions));
}

static exg_status index_prepare(exg_kernel_call *call, exg_error *err)
{
    return index_plan(call, &call->inputs[0], call->input_count - 1, &call->outputs[0], err);
}

static void index_run(const exg_kernel_call *call)
{
    const index_params *p = call->params;
    index_run_context r = {call, p, call->inputs[0].data, call->outputs[0].data, false};

    exg_pool_run(call->pool, index_block, &r, exg_block_count(p->positions, p->positions_of_block));
}

const exg_kernel exg_kernel_index = {
    .name = "index",
    .prepare = index_prepare,
    .run = index_run,
    .flags = EXG_KERNEL_ANY_STRIDES | EXG_KERNEL_RAISES,
};

static exg_status index_put_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *out = &call->outputs[0];
    index_params *p;

    EXG_TRY(
        index_plan(call, out, call->input_count - 2, &call->inputs[call->input_count - 1], err));
    p = (index_params *)(uintptr_t)call->params;
    p->accumulates = exg_call_bool(call, 3);
    if (p->accumulates) {
        return exg_combiner_init(&p->adder, EXG_COMBINE_BY_ADD, out->dtype, "index_put", err);
    }
    return EXG_OK;
}

/* In order of the positions: the last of equal ones wins, sums are reproducible. */
static void index_put_run(const exg_kernel_call *call)
{
    const index_params *p = call->params;
    const exg_tensor *out = &call->outputs[0];
    index_run_context r = {call, p, out->data, call->inputs[call->input_count - 1].data, true};

    if (out->data != call->inputs[0].data) {
        memcpy(out->data, call->inputs[0].data,
               (size_t)exg_tensor_numel(out) * exg_dtype_bytes(out->dtype));
    }
    index_positions(&r, 0, p->positions);
}

const exg_kernel exg_kernel_index_put = {
    .name = "index_put",
    .prepare = index_put_prepare,
    .run = index_put_run,
    .flags = EXG_KERNEL_IN_PLACE | EXG_KERNEL_RAISES,
};
