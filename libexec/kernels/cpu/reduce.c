/* reduce.c - sum, sums of squares, mean, prod, amax, amin, any, all, var, std over any dimensions.
 *
 * The tensor is (outputs) by (terms): kept and reduced dimensions, each walked in
 * row-major order. Where the memory runs along the terms, each output is summed as a
 * row; where it runs along the outputs, a tile of outputs takes one term each at a
 * time. Terms are cut into pieces that depend on sizes alone; pieces are combined in
 * order, so results do not depend on threads. Sums are kept in double or int64.
 * var is a second pass over the means of the first, both in double: of what is far from zero,
 * or is large, squares about a rounded mean would say nothing.
 */
#include "libexec/kernels/cpu/reduce.h"

#include <math.h>

#define PIECE_TERMS     65536     /* of all outputs of a task */
#define TASKS           64        /* enough for any number of threads */
#define PIECE_TERMS_MAX (1 << 24) /* of all outputs: between pieces a run can be stopped */
#define PIECES_MAX      (1 << 20) /* each has a state in the workspace */

/* Of outputs [output, output + count), REDUCE_COLUMNS at most. */
static void finish_outputs(const reduce_run_context *r, int64_t output, int64_t count,
                           reduce_state *s)
{
    const reduce_params *p = r->p;
    double by = r->op == SPREAD ? EXG_MAX((double)p->terms.count - p->correction, 0)
                                : (double)p->terms.count;
    exg_compute compute = EXG_COMPUTE_I64;
    reduce_values v;

    for (int64_t k = 0; k < count && (r->op == MEAN || r->op == SPREAD || r->means_out); k++) {
        s[k].f /= by;
    }
    if (r->means_out != NULL) {
        memcpy(r->means_out + output, s, (size_t)count * sizeof(*s));
        return;
    }
    for (int64_t k = 0; k < count && r->op == SPREAD && p->is_std; k++) {
        s[k].f = sqrt(s[k].f);
    }
    exg_compute_of(p->out_dtype, &compute);
    for (int64_t k = 0; k < count && compute == EXG_COMPUTE_F32; k++) {
        v.f32[k] = (float)s[k].f;
    }
    for (int64_t k = 0; k < count && compute == EXG_COMPUTE_I32; k++) {
        v.i32[k] = (int32_t)s[k].i;
    }
    p->convert->store[p->out_dtype]((uint32_t)count, r->out + output * p->out_bytes, 1,
                                    exg_compute_bytes(compute) == 8 ? (void *)s : &v);
}

/* ---- rows --------------------------------------------------------------------------- */

static reduce_state row_real(const reduce_run_context *r, const void *x, int64_t count, double mean)
{
    const reduce_params *p = r->p;
    bool is_double = p->compute == EXG_COMPUTE_F64;
    exg_ahead ahead = {{(const char *)x + count * (is_double ? 8 : 4)}, {128}};
    reduce_state s = reduce_start(p, r->op);

    switch (r->op) {
    case SUM:
    case MEAN:
        s.f = is_double ? p->f64->sum(count, x) : p->f32->sum(count, x);
        break;
    case SQUARES:
    case SPREAD:
        s.f = is_double ? p->f64->sum_squares(count, x, mean, &ahead)
                        : p->f32->sum_squares(count, x, (float)mean, &ahead);
        break;
    case AMAX:
        s.f = is_double ? p->f64->max(count, x) : (double)p->f32->max(count, x);
        break;
    case AMIN:
        s.f = is_double ? p->f64->min(count, x) : (double)p->f32->min(count, x);
        break;
    case PROD:
        s.f = is_double ? p->f64->product(count, x) : p->f32->product(count, x);
        break;
    default:
        for (int64_t k = 0; k < count; k++) {
            bool truth = is_double ? ((const double *)x)[k] != 0 : ((const float *)x)[k] != 0;

            s.i = r->op == ANY ? s.i | truth : s.i & truth;
        }
    }
    return s;
}

static reduce_state row_int(const reduce_run_context *r, const void *x, int64_t count)
{
    const exg_integer_loops *loops = reduce_integer_loops(r->p);
    bool is_narrow = r->p->compute == EXG_COMPUTE_I32;
    reduce_state s = reduce_start(r->p, r->op);

    switch (r->op) {
    case AMAX:
        s.i = loops->max(count, x);
        break;
    case AMIN:
        s.i = loops->min(count, x);
        break;
    case ANY:
    case ALL:
    case PROD:
        for (int64_t k = 0; k < count; k++) {
            int64_t v = is_narrow ? ((const int32_t *)x)[k] : ((const int64_t *)x)[k];

            s.i = r->op == ANY   ? s.i | (v != 0)
                  : r->op == ALL ? s.i & (v != 0)
                                 : (int64_t)((uint64_t)s.i * (uint64_t)v);
        }
        break;
    default:
        s.i = loops->sum(count, x);
    }
    return s;
}

#define FEW 16 /* terms of which a loop is over before a row's has begun */

/* `count` dense lines of a few terms each, one after the other. */
#define FEW_LINES(type, result, step)                                                              \
    for (int64_t k = 0; k < count; k++) {                                                          \
        reduce_state s = start;                                                                    \
                                                                                                   \
        for (int64_t i = 0; i < terms; i++) {                                                      \
            const type v = ((const type *)x)[k * terms + i];                                       \
                                                                                                   \
            s.result = step;                                                                       \
        }                                                                                          \
        states[k] = s;                                                                             \
    }                                                                                              \
    break

#define FEW_REAL(name, type)                                                                       \
    static void name(reduce_op op, const void *x, int64_t terms, int64_t count,                    \
                     reduce_state start, reduce_state *states)                                     \
    {                                                                                              \
        switch (op) {                                                                              \
        case SQUARES:                                                                              \
            FEW_LINES(type, f, s.f + (double)(v * v));                                             \
        case PROD:                                                                                 \
            FEW_LINES(type, f, s.f *(double)v);                                                    \
        case AMAX:                                                                                 \
            FEW_LINES(type, f, v > s.f || v != v ? v : s.f);                                       \
        case AMIN:                                                                                 \
            FEW_LINES(type, f, v < s.f || v != v ? v : s.f);                                       \
        case ANY:                                                                                  \
            FEW_LINES(type, i, s.i | (v != 0));                                                    \
        case ALL:                                                                                  \
            FEW_LINES(type, i, s.i &(v != 0));                                                     \
        default:                                                                                   \
            FEW_LINES(type, f, s.f + (double)v);                                                   \
        }                                                                                          \
    }

#define FEW_INTEGER(name, type)                                                                    \
    static void name(reduce_op op, const void *x, int64_t terms, int64_t count,                    \
                     reduce_state start, reduce_state *states)                                     \
    {                                                                                              \
        switch (op) {                                                                              \
        case PROD:                                                                                 \
            FEW_LINES(type, i, (int64_t)((uint64_t)s.i * (uint64_t)v));                            \
        case AMAX:                                                                                 \
            FEW_LINES(type, i, v > s.i ? v : s.i);                                                 \
        case AMIN:                                                                                 \
            FEW_LINES(type, i, v < s.i ? v : s.i);                                                 \
        case ANY:                                                                                  \
            FEW_LINES(type, i, s.i | (v != 0));                                                    \
        case ALL:                                                                                  \
            FEW_LINES(type, i, s.i &(v != 0));                                                     \
        default:                                                                                   \
            FEW_LINES(type, i, (int64_t)((uint64_t)s.i + (uint64_t)v));                            \
        }                                                                                          \
    }

FEW_REAL(few_f32, float)
FEW_REAL(few_f64, double)
FEW_INTEGER(few_i32, int32_t)
FEW_INTEGER(few_i64, int64_t)

/* Terms are few and follow one another, as outputs do. */
static bool is_few(const reduce_params *p)
{
    return p->op != SPREAD && p->terms.count > 0 && p->terms.count <= FEW && p->terms.rank == 1 &&
           p->terms.strides[0] == 1 && p->kept.rank == 1 && p->kept.strides[0] == p->terms.count;
}

/* Of as many outputs as are brought in at once, `count` at most; gives how many. */
static int64_t reduce_few(const reduce_run_context *r, int64_t output, int64_t count,
                          reduce_state *states)
{
    const reduce_params *p = r->p;
    const int64_t terms = p->terms.count;
    const int64_t lines = EXG_MIN(count, REDUCE_CHUNK / terms);
    const reduce_state start = reduce_start(p, r->op);
    reduce_values to;
    reduce_values scratch;
    const void *x =
        reduce_bring(p, r->in + output * terms * p->in_bytes, lines * terms, 1, &to, &scratch);

    (p->compute == EXG_COMPUTE_F32   ? few_f32
     : p->compute == EXG_COMPUTE_F64 ? few_f64
     : p->compute == EXG_COMPUTE_I32 ? few_i32
                                     : few_i64)(r->op, x, terms, lines, start, states);
    return lines;
}

static double row_bf16(const reduce_run_context *r, const void *x, int64_t count, double mean)
{
    const exg_row_bf16_loops *loops = EXG_LOOPS(exg_loops_row_bf16);
    double squares;

    return r->op == SUM || r->op == MEAN ? loops->sums(count, x, 0, &squares, NULL)
                                         : loops->sum_squares(count, x, (float)mean, NULL);
}

/* One output over terms [first, end). */
static reduce_state reduce_row(const reduce_run_context *r, int64_t output, int64_t first,
                               int64_t end)
{
    const reduce_params *p = r->p;
    uint32_t last = p->terms.rank - 1;
    int64_t index[EXG_RANK_MAX];
    const char *base = r->in + reduce_locate(&p->kept, output, index) * p->in_bytes;
    double mean = r->means != NULL ? r->means[output].f : 0;
    reduce_state s = reduce_start(p, r->op);
    reduce_values to;
    reduce_values scratch;

    for (int64_t term = first; term < end;) {
        const char *at = base + reduce_locate(&p->terms, term, index) * p->in_bytes;
        int64_t run = EXG_MIN(p->terms.sizes[last] - index[last], end - term);
        bool direct = p->terms.strides[last] == 1 && reduce_is_in_memory(p);
        const void *x;

        if (reduce_is_bf16_sum(r, p->terms.strides[last])) {
            s.f += row_bf16(r, at, run, mean);
            term += run;
            continue;
        }
        run = direct ? run : EXG_MIN(run, REDUCE_CHUNK);
        x = reduce_bring(p, at, run, p->terms.strides[last], &to, &scratch);
        s = reduce_combine(p, r->op, s,
                           reduce_is_real(p) ? row_real(r, x, run, mean) : row_int(r, x, run));
        term += run;
    }
    return s;
}

/* ---- tasks ------------------------------------------------------------------------------ */

static void reduce_task(void *context, uint32_t block)
{
    const reduce_run_context *r = context;
    const reduce_params *p = r->p;
    int64_t piece = block / p->tasks;
    int64_t output = block % p->tasks * p->outputs_of_task;
    int64_t end = EXG_MIN(output + p->outputs_of_task, p->kept.count);
    int64_t first_term = piece * p->terms_of_piece;
    int64_t end_term = EXG_MIN(first_term + p->terms_of_piece, p->terms.count);

    while (output < end) {
        reduce_state few[REDUCE_COLUMNS];
        reduce_state *states = few;
        int64_t count = 1;
        reduce_columns c;

        if (p->by_columns) {
            int64_t row = p->kept.sizes[p->kept.rank - 1];

            count = EXG_MIN(EXG_MIN(row - output % row, REDUCE_COLUMNS), end - output);
            exg_reduce_columns(r, output, count, first_term, end_term, &c);
            if (exg_reduce_is_in_parts(r, end_term - first_term)) {
                p->convert->store[p->out_dtype]((uint32_t)count, r->out + output * p->out_bytes, 1,
                                                c.parts.f32);
                output += count;
                continue;
            }
            if (c.rows_in_parts > 0) {
                exg_reduce_flush(r, &c, count);
            }
            states = c.states;
        } else if (is_few(p) && p->pieces == 1) {
            count = reduce_few(r, output, EXG_MIN(end - output, REDUCE_COLUMNS), states);
        } else {
            count = EXG_MIN(end - output, REDUCE_COLUMNS);
            for (int64_t k = 0; k < count; k++) {
                states[k] = reduce_row(r, output + k, first_term, end_term);
            }
        }
        if (r->states != NULL) {
            memcpy(r->states + piece * p->kept.count + output, states,
                   (size_t)count * sizeof(*states));
        } else {
            finish_outputs(r, output, count, states);
        }
        output += count;
    }
}

static void reduce_pass(const exg_kernel_call *call, reduce_run_context *r)
{
    const reduce_params *p = r->p;

    exg_pool_run(call->pool, reduce_task, r, (uint32_t)(p->tasks * p->pieces));
    for (int64_t output = 0; r->states != NULL && output < p->kept.count;
         output += REDUCE_COLUMNS) {
        int64_t count = EXG_MIN(p->kept.count - output, REDUCE_COLUMNS);
        reduce_state *s = r->states + output;

        for (int64_t piece = 1; piece < p->pieces; piece++) {
            const reduce_state *part = s + piece * p->kept.count;

            if (reduce_is_sum(r)) {
                for (int64_t k = 0; k < count; k++) {
                    s[k].f += part[k].f;
                }
                continue;
            }
            for (int64_t k = 0; k < count; k++) {
                s[k] = reduce_combine(p, r->op, s[k], part[k]);
            }
        }
        finish_outputs(r, output, count, s);
    }
}

static void reduce_run(const exg_kernel_call *call)
{
    const reduce_params *p = call->params;
    reduce_state *workspace = call->workspace;
    reduce_run_context r = {.p = p, .op = p->op};

    r.in = call->inputs[0].data;
    r.out = call->outputs[0].data;
    r.states = p->pieces > 1 ? workspace + (p->is_var ? p->kept.count : 0) : NULL;
    if (p->is_var) {
        r.op = SUM;
        r.means_out = workspace;
        reduce_pass(call, &r);
        r.op = SPREAD;
        r.means_out = NULL;
        r.means = workspace;
    }
    reduce_pass(call, &r);
}

/* ---- plan --------------------------------------------------------------------------------- */

static void add_dim(reduce_dims *d, int64_t size, int64_t stride)
{
    d->count *= size;
    if (size == 1) {
        return;
    }
    if (d->rank > 0 && d->strides[d->rank - 1] == stride * size) {
        d->sizes[d->rank - 1] *= size;
        d->strides[d->rank - 1] = stride;
        return;
    }
    d->sizes[d->rank] = size;
    d->strides[d->rank++] = stride;
}

static void split_dims(reduce_params *p, const exg_tensor *in, uint32_t mask)
{
    p->kept.count = p->terms.count = 1;
    for (uint32_t d = 0; d < in->rank; d++) {
        add_dim((mask >> d & 1) != 0 ? &p->terms : &p->kept, in->sizes[d], in->strides[d]);
    }
    /* terms in the order of memory: the greatest stride first */
    for (uint32_t d = 1; d < p->terms.rank; d++) {
        for (uint32_t k = d; k > 0 && p->terms.strides[k - 1] < p->terms.strides[k]; k--) {
            int64_t size = p->terms.sizes[k];
            int64_t stride = p->terms.strides[k];

            p->terms.sizes[k] = p->terms.sizes[k - 1];
            p->terms.strides[k] = p->terms.strides[k - 1];
            p->terms.sizes[k - 1] = size;
            p->terms.strides[k - 1] = stride;
        }
    }
    if (p->terms.rank == 0) {
        p->terms.rank = 1;
        p->terms.sizes[0] = EXG_MIN(p->terms.count, 1);
    }
    if (p->kept.rank == 0) {
        p->kept.rank = 1;
        p->kept.sizes[0] = EXG_MIN(p->kept.count, 1);
    }
}

/* Terms are few, not side by side, and of many outputs: those go together wherever they are. */
static bool has_few_apart(const reduce_params *p)
{
    return p->terms.count <= FEW && !is_few(p) && p->kept.sizes[p->kept.rank - 1] >= FEW;
}

static void cut(reduce_params *p)
{
    int64_t kept_stride = p->kept.strides[p->kept.rank - 1];
    int64_t term_stride = p->terms.strides[p->terms.rank - 1];

    p->by_columns = p->kept.count > 1 && p->kept.sizes[p->kept.rank - 1] > 1 &&
                    (kept_stride < term_stride || has_few_apart(p)) && p->terms.count > 1;
    p->outputs_of_task = EXG_MIN(exg_items_per_block(p->terms.count, EXG_GRAIN), p->kept.count);
    if (p->by_columns) { /* whole rows of outputs, where there is room for one */
        int64_t row = p->kept.sizes[p->kept.rank - 1];

        p->outputs_of_task = EXG_MAX(p->outputs_of_task, REDUCE_COLUMNS);
        p->outputs_of_task =
            row <= REDUCE_COLUMNS ? p->outputs_of_task / row * row : p->outputs_of_task;
    }
    p->outputs_of_task = EXG_MAX(p->outputs_of_task, 1);
    p->tasks = exg_ceil_div(p->kept.count, p->outputs_of_task);
    p->terms_of_piece = p->terms.count;
    if (p->tasks < 16) {
        int64_t outputs = EXG_MAX(EXG_MIN(p->outputs_of_task, p->kept.count), 1);

        p->terms_of_piece = EXG_MAX(PIECE_TERMS / outputs, 64);
        p->terms_of_piece =
            EXG_MAX(p->terms_of_piece, EXG_MIN(exg_ceil_div(p->terms.count, TASKS) * p->tasks,
                                               PIECE_TERMS_MAX / outputs));
    }
    p->terms_of_piece = EXG_MAX(p->terms_of_piece, exg_ceil_div(p->terms.count, PIECES_MAX));
    p->terms_of_piece = EXG_MAX(EXG_MIN(p->terms_of_piece, p->terms.count), 1);
    p->pieces = EXG_MAX(exg_ceil_div(p->terms.count, p->terms_of_piece), 1);
}

/* Is there an `op` from the input's dtype to the result's? */
static exg_status choose_types(reduce_params *p, exg_error *err)
{
    if (!exg_compute_of(p->in_dtype, &p->loaded) || !exg_compute_of(p->out_dtype, &p->compute)) {
        return exg_unsupported_dtype("a reduction", p->in_dtype, err);
    }
    if (p->op == ANY || p->op == ALL || p->op == AMAX || p->op == AMIN) {
        p->compute = p->loaded;
    }
    if ((p->op == MEAN || p->op == SPREAD || p->op == SQUARES) && !reduce_is_real(p)) {
        return exg_unsupported_dtype("mean, var or a norm", p->out_dtype, err);
    }
    if (p->op == SPREAD) {
        p->compute = EXG_COMPUTE_F64;
    }
    return EXG_OK;
}

static exg_status plan(exg_kernel_call *call, reduce_op op, uint32_t mask, exg_error *err)
{
    reduce_params *p = EXG_NEW(call->arena, reduce_params);

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    p->op = op;
    p->is_var = op == SPREAD;
    p->in_dtype = call->inputs[0].dtype;
    p->out_dtype = call->outputs[0].dtype;
    p->in_bytes = exg_dtype_bytes(p->in_dtype);
    p->out_bytes = exg_dtype_bytes(p->out_dtype);
    EXG_TRY(choose_types(p, err));
    split_dims(p, &call->inputs[0], mask);
    cut(p);
    p->f32 = EXG_LOOPS(exg_loops_row_f32);
    p->f64 = EXG_LOOPS(exg_loops_row_f64);
    p->integer = EXG_LOOPS(exg_loops_row_integer);
    p->convert = EXG_LOOPS(exg_loops_convert);
    if (p->pieces > 1) {
        call->workspace_bytes += (uint64_t)(p->pieces * p->kept.count) * sizeof(reduce_state);
    }
    if (p->is_var) {
        call->workspace_bytes += (uint64_t)p->kept.count * sizeof(reduce_state);
        p->correction = exg_call_is_none(call, 2) ? 1 : exg_call_float(call, 2);
    }
    call->params = p;
    return EXG_OK;
}

static exg_status plan_dims(exg_kernel_call *call, reduce_op op, exg_error *err)
{
    return plan(call, op, exg_call_dim_mask(call, 1, call->inputs[0].rank), err);
}

#define REDUCTION(kernel, op)                                                                      \
    static exg_status kernel##_prepare(exg_kernel_call *call, exg_error *err)                      \
    {                                                                                              \
        return plan_dims(call, op, err);                                                           \
    }                                                                                              \
    const exg_kernel exg_kernel_##kernel = {                                                       \
        .name = #kernel,                                                                           \
        .prepare = kernel##_prepare,                                                               \
        .run = reduce_run,                                                                         \
        .flags = EXG_KERNEL_ANY_STRIDES,                                                           \
    };

REDUCTION(sum, SUM)
REDUCTION(sum_squares, SQUARES)
REDUCTION(mean, MEAN)
REDUCTION(prod, PROD)
REDUCTION(amax, AMAX)
REDUCTION(amin, AMIN)
REDUCTION(any, ANY)
REDUCTION(all, ALL)
REDUCTION(var, SPREAD)

static exg_status std_prepare(exg_kernel_call *call, exg_error *err)
{
    EXG_TRY(plan_dims(call, SPREAD, err));
    ((reduce_params *)call->params)->is_std = true;
    return EXG_OK;
}

const exg_kernel exg_kernel_std = {
    .name = "std",
    .prepare = std_prepare,
    .run = reduce_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};
