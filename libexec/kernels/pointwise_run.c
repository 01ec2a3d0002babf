/* pointwise_run.c - blocks of an iteration space, tile by tile. */
#include "libexec/kernels/pointwise_program.h"
#include "libexec/kernels/stream.h"

#include <stdatomic.h>
#include <string.h>

typedef struct run {
    const exg_pointwise *p;
    exg_fault_note *fault;
    bool is_near;                            /* operands and results are in a cache */
    char *data[EXG_POINTWISE_REGISTERS * 2]; /* of operands */
} run;

/* Where a tile is, and the pointers its values have. */
typedef struct tile {
    int64_t start; /* elements from the start of the iteration space */
    uint32_t count;
    bool is_run; /* inside one row */
    int64_t index[EXG_RANK_MAX];
    void *values[EXG_VALUE_MAX];
    const char *filled[EXG_VALUE_MAX]; /* from where, of values that are filled by rows */
} tile;

static char *operand_at(const run *r, uint8_t operand, const tile *t)
{
    const exg_pointwise_operand *o = &r->p->operands[operand];
    int64_t offset = 0;

    if (o->is_dense) {
        return r->data[operand] + t->start * o->element_bytes;
    }
    for (uint32_t d = 0; d < r->p->rank; d++) {
        offset += t->index[d] * o->strides[d];
    }
    return r->data[operand] + offset * o->element_bytes;
}

/* Elements lie one after the other all through the tile. */
static bool is_dense_here(const run *r, uint8_t operand, const tile *t)
{
    const exg_pointwise_operand *o = &r->p->operands[operand];

    return o->is_dense || (t->is_run && o->strides[r->p->rank - 1] == 1);
}

/* To the next element after `count` more of the innermost row. */
static void advance(const exg_pointwise *p, int64_t *index, int64_t count)
{
    index[p->rank - 1] += count;
    for (uint32_t d = p->rank - 1; d > 0 && index[d] >= p->sizes[d]; d--) {
        index[d] -= p->sizes[d];
        index[d - 1]++;
    }
}

/* Calls the loop for each stretch of the tile inside one row. */
static void for_each_run(const run *r, const exg_instruction *i, const tile *t, char *values,
                         uint32_t value_bytes)
{
    const exg_pointwise *p = r->p;
    const exg_pointwise_operand *o = &p->operands[i->operand];
    int64_t stride = o->strides[p->rank - 1];
    tile walk;

    memcpy(walk.index, t->index, p->rank * sizeof(int64_t));
    walk.start = t->start;
    for (uint32_t done = 0; done < t->count;) {
        int64_t left = p->sizes[p->rank - 1] - walk.index[p->rank - 1];
        uint32_t count = left < t->count - done ? (uint32_t)left : t->count - done;
        char *memory = operand_at(r, i->operand, &walk);

        if (i->kind == EXG_INSTRUCTION_LOAD) {
            i->load(count, values + done * value_bytes, memory, stride);
        } else {
            i->store(count, memory, stride, values + done * value_bytes);
        }
        done += count;
        walk.start += count;
        advance(p, walk.index, count);
    }
}

static void load(const run *r, const exg_instruction *i, tile *t, char *buffers)
{
    const exg_tile_value *v = &r->p->values[i->target];

    t->values[i->target] = buffers + v->offset;
    if (i->is_invariant) {
        i->load(r->p->tile, t->values[i->target], r->data[i->operand], 0);
    } else if (is_dense_here(r, i->operand, t)) {
        if (i->is_direct) {
            t->values[i->target] = operand_at(r, i->operand, t);
        } else {
            i->load(t->count, t->values[i->target], operand_at(r, i->operand, t), 1);
        }
    } else if (t->is_run && v->is_filled) {
        const char *from = operand_at(r, i->operand, t);

        if (t->filled[i->target] != from) { /* else it is there from the tile before */
            i->load(r->p->tile, t->values[i->target], from, 0);
            t->filled[i->target] = from;
        }
    } else if (t->is_run) {
        i->load(t->count, t->values[i->target], operand_at(r, i->operand, t),
                r->p->operands[i->operand].strides[r->p->rank - 1]);
    } else {
        for_each_run(r, i, t, t->values[i->target], exg_compute_bytes(v->compute));
        t->filled[i->target] = NULL;
    }
}

static void store_past_caches(const run *r, const exg_instruction *i, const tile *t)
{
    const void *values = t->values[i->target];
    _Alignas(64) char narrow[EXG_TILE_BYTES_NEAR];

    if (!exg_value_is_storage(r->p, i)) {
        i->store(t->count, narrow, 1, values);
        values = narrow;
    }
    r->p->copy(operand_at(r, i->operand, t), values,
               t->count * (size_t)r->p->operands[i->operand].element_bytes);
}

static void store(const run *r, const exg_instruction *i, tile *t)
{
    const exg_tile_value *v = &r->p->values[i->target];

    if (r->p->operands[i->operand].is_past_caches && !r->is_near) {
        if (!i->is_direct || t->values[i->target] != operand_at(r, i->operand, t)) {
            store_past_caches(r, i, t);
        }
    } else if (is_dense_here(r, i->operand, t)) {
        if (!i->is_direct) {
            i->store(t->count, operand_at(r, i->operand, t), 1, t->values[i->target]);
        }
    } else if (t->is_run) {
        i->store(t->count, operand_at(r, i->operand, t),
                 r->p->operands[i->operand].strides[r->p->rank - 1], t->values[i->target]);
    } else {
        for_each_run(r, i, t, t->values[i->target], exg_compute_bytes(v->compute));
    }
}

/* What is made straight into its output. */
static bool goes_past_caches(const run *r, const exg_instruction *i)
{
    return i->is_direct && r->p->operands[i->operand].is_past_caches && !r->is_near;
}

/* Where a value is put: in its output or its tile buffer. */
static void *target_of(const run *r, const exg_instruction *i, const tile *t, char *buffers)
{
    if (i->is_direct && is_dense_here(r, i->operand, t)) {
        void *memory = operand_at(r, i->operand, t);

        if (!goes_past_caches(r, i) || (uintptr_t)memory % 64 == 0) {
            return memory;
        }
    }
    return buffers + r->p->values[i->target].offset;
}

static int64_t asked_ahead(const exg_pointwise *p)
{
    return p->asks_far ? EXG_ASKED_AHEAD_FAR : EXG_ASKED_AHEAD;
}

/* The formula and those before it that run with it. */
static void apply_chain(const exg_instruction *i, const tile *t, uint32_t count, void *target,
                        const exg_flow *flow)
{
    const exg_instruction *first = i - i->chained;
    const void *a = t->values[first->sources[0]];
    exg_chain_step steps[EXG_CHAIN_MAX];

    for (uint32_t k = 0; k <= i->chained; k++) {
        const exg_instruction *step = &first[k];

        steps[k].formula = (exg_formula)step->formula_id;
        steps[k].b = step->source_count > 1 ? t->values[step->sources[1]] : a;
        steps[k].c = step->source_count > 2 ? t->values[step->sources[2]] : a;
        steps[k].scalars = (const float *)step->scalars;
    }
    i->chain->run(count, target, a, steps, i->chained + 1U, flow);
}

static void apply(const run *r, const exg_instruction *i, tile *t, char *buffers, int *bad)
{
    void *target = target_of(r, i, t, buffers);
    const bool is_near = r->is_near || !r->p->asks || i->is_invariant;
    const uint32_t count = i->is_invariant ? r->p->tile : t->count;
    const exg_flow *flows = NULL;
    exg_flow flow;

    /* a buffer is copied past the caches later */
    flow.is_past_caches =
        !is_near && goes_past_caches(r, i) && target == operand_at(r, i->operand, t);
    if (flow.is_past_caches || (!is_near && i->asked_count > 0)) {
        flow.count = i->asked_count;
        flow.is_asked_far = r->p->asks_far;
        for (uint32_t k = 0; k < i->asked_count; k++) {
            flow.at[k] = operand_at(r, i->asked[k], t) + asked_ahead(r->p);
            flow.bytes[k] = r->p->operands[i->asked[k]].element_bytes;
        }
        flows = &flow;
    }
    if (i->chained > 0) {
        apply_chain(i, t, count, target, flows);
    } else {
        i->formula(count, target, t->values[i->sources[0]], t->values[i->sources[1]],
                   t->values[i->sources[2]], i->scalars, flows, bad);
    }
    t->values[i->target] = target;
}

static void step(const run *r, const exg_instruction *i, tile *t, char *buffers, int *bad)
{
    uint32_t count = i->is_invariant ? r->p->tile : t->count;
    void *target;

    switch (i->kind) {
    case EXG_INSTRUCTION_LOAD:
        load(r, i, t, buffers);
        break;
    case EXG_INSTRUCTION_STORE:
        store(r, i, t);
        break;
    case EXG_INSTRUCTION_CONVERT:
        target = target_of(r, i, t, buffers);
        i->convert(count, target, t->values[i->sources[0]]);
        t->values[i->target] = target;
        break;
    case EXG_INSTRUCTION_ROUND:
        i->round(count, t->values[i->target]);
        break;
    case EXG_INSTRUCTION_FORMULA:
        if (!i->is_chained) {
            apply(r, i, t, buffers, bad);
        }
        break;
    }
}

/* Asks for a tile some way ahead. */
static void ask(const run *r, const tile *t)
{
    const exg_pointwise *p = r->p;

    for (uint8_t o = 0; o < p->operand_count; o++) {
        if (exg_is_asked_for(&p->operands[o])) {
            int64_t bytes = p->operands[o].element_bytes;

            exg_ask_as(p->asks_far, r->data[o] + t->start * bytes + asked_ahead(p),
                       t->count * bytes);
        }
    }
}

/* Elements [start, end) of the iteration space. */
static void run_range(const run *r, int64_t start, int64_t end)
{
    const exg_pointwise *p = r->p;
    int bad = 0;
    tile t;
    _Alignas(64) char buffers[EXG_TILE_BYTES_MAX];

    memset(t.filled, 0, p->value_count * sizeof(t.filled[0]));
    t.start = start;
    for (int64_t d = p->rank, rest = t.start; d-- > 0; rest /= p->sizes[d]) {
        t.index[d] = rest % p->sizes[d];
    }
    for (uint32_t k = 0; k < p->invariant_count; k++) {
        step(r, &p->instructions[k], &t, buffers, &bad);
    }
    while (t.start < end) {
        int64_t row_left = p->sizes[p->rank - 1] - t.index[p->rank - 1];
        int64_t count = end - t.start < p->tile ? end - t.start : p->tile;

        count = p->by_rows && row_left < count ? row_left : count;
        t.count = (uint32_t)count;
        t.is_run = count <= row_left;
        if (p->asks && !r->is_near) {
            ask(r, &t);
        }
        for (uint32_t k = p->invariant_count; k < p->instruction_count; k++) {
            step(r, &p->instructions[k], &t, buffers, &bad);
        }
        t.start += count;
        if (p->rank > 1) {
            int64_t rest = count;

            for (; rest >= row_left; row_left = p->sizes[p->rank - 1]) {
                advance(p, t.index, row_left);
                rest -= row_left;
            }
            t.index[p->rank - 1] += rest;
        } else {
            t.index[0] += count;
        }
    }
    if (bad != 0) {
        exg_raise_at(r->fault, EXG_FAULT_DIVIDE_BY_ZERO, 0, -1);
    }
}

static void run_block(void *context, uint32_t block)
{
    const run *r = context;
    int64_t start = (int64_t)block * r->p->block_elements;
    int64_t end = start + r->p->block_elements;

    run_range(r, start, end < r->p->numel ? end : r->p->numel);
    if (r->p->asks) { /* else nothing went past the caches */
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static void bind(run *r, const exg_tensor *inputs, const exg_tensor *outputs)
{
    for (uint8_t o = 0; o < r->p->operand_count; o++) {
        const exg_pointwise_operand *operand = &r->p->operands[o];

        r->data[o] =
            operand->is_output ? outputs[operand->index].data : inputs[operand->index].data;
    }
}

void exg_pointwise_epilogue(const exg_kernel_call *call, int64_t start, int64_t rows, int64_t count,
                            int64_t stride)
{
    run r = {.p = call->epilogue, .fault = call->fault, .is_near = true};

    bind(&r, call->epilogue_inputs, call->outputs);
    for (int64_t row = 0; row < rows; row++) {
        run_range(&r, start + row * stride, start + row * stride + count);
    }
}

void exg_pointwise_run(const exg_kernel_call *call)
{
    const exg_pointwise *p = call->params;
    run r = {.p = p, .fault = call->fault};

    bind(&r, call->inputs, call->outputs);
    if (p->numel > 0) {
        exg_pool_run(call->pool, run_block, &r, p->block_count);
    }
}
