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
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define COLUMNS         1024      /* outputs of a tile: long stretches of memory */
#define CHUNK           1024      /* brought in at once, of a row or a tile */
#define PIECE_TERMS     65536     /* of all outputs of a task */
#define TASKS           64        /* enough for any number of threads */
#define PIECE_TERMS_MAX (1 << 24) /* of all outputs: between pieces a run can be stopped */
#define PIECES_MAX      (1 << 20) /* each has a state in the workspace */
#define FLUSH           64        /* rows added in f32 before they go to double */

typedef enum reduce_op { SUM, SQUARES, MEAN, PROD, AMAX, AMIN, ANY, ALL, SPREAD } reduce_op;

typedef union reduce_state {
    double f;
    int64_t i;
} reduce_state;

typedef struct dims {
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
    int64_t count;
} dims;

typedef struct reduce_params {
    reduce_op op;
    dims kept, terms;
    exg_dtype in_dtype, out_dtype;
    exg_compute loaded, compute; /* of the input as loaded, and as reduced */
    uint32_t in_bytes, out_bytes;
    bool by_columns;
    int64_t outputs_of_task, tasks; /* of one piece */
    int64_t terms_of_piece, pieces;
    double correction; /* var */
    bool is_var, is_std;
    const exg_row_f32_loops *f32;
    const exg_row_f64_loops *f64;
    const exg_row_integer_loops *integer;
    const exg_convert_loops *convert;
} reduce_params;

typedef struct reduce_run_context {
    const reduce_params *p;
    reduce_op op;
    const char *in;
    char *out;
    reduce_state *states;      /* [piece][output], or NULL with one piece */
    const reduce_state *means; /* [output], of SPREAD */
    reduce_state *means_out;   /* where the first pass of var leaves them */
} reduce_run_context;

typedef union values {
    float f32[CHUNK];
    double f64[CHUNK];
    int32_t i32[CHUNK];
    int64_t i64[CHUNK];
} values;

/* ---- states ------------------------------------------------------------------------ */

static bool is_real(const reduce_params *p)
{
    return p->compute == EXG_COMPUTE_F32 || p->compute == EXG_COMPUTE_F64;
}

static reduce_state start_of(const reduce_params *p, reduce_op op)
{
    reduce_state s = {.i = 0};

    switch (op) {
    case PROD:
        s.i = 1;
        if (is_real(p)) {
            s.f = 1;
        }
        break;
    case AMAX:
        s.i = INT64_MIN;
        if (is_real(p)) {
            s.f = -INFINITY;
        }
        break;
    case AMIN:
        s.i = INT64_MAX;
        if (is_real(p)) {
            s.f = INFINITY;
        }
        break;
    case ALL:
        s.i = 1;
        break;
    default:
        break;
    }
    return s;
}

static reduce_state combine(const reduce_params *p, reduce_op op, reduce_state a, reduce_state b)
{
    bool real = is_real(p) && op != ANY && op != ALL;

    switch (op) {
    case SUM:
    case SQUARES:
    case MEAN:
    case SPREAD:
        a.i = real ? a.i : (int64_t)((uint64_t)a.i + (uint64_t)b.i);
        if (real) {
            a.f += b.f;
        }
        return a;
    case PROD:
        a.i = real ? a.i : (int64_t)((uint64_t)a.i * (uint64_t)b.i);
        if (real) {
            a.f *= b.f;
        }
        return a;
    case AMAX:
        return (real ? b.f > a.f || b.f != b.f : b.i > a.i) ? b : a;
    case AMIN:
        return (real ? b.f < a.f || b.f != b.f : b.i < a.i) ? b : a;
    case ANY:
        a.i |= b.i;
        return a;
    case ALL:
        a.i &= b.i;
        return a;
    }
    return a;
}

/* Of outputs [output, output + count), COLUMNS at most. */
static void finish_outputs(const reduce_run_context *r, int64_t output, int64_t count,
                           reduce_state *s)
{
    const reduce_params *p = r->p;
    double by = r->op == SPREAD ? EXG_MAX((double)p->terms.count - p->correction, 0)
                                : (double)p->terms.count;
    exg_compute compute = EXG_COMPUTE_I64;
    values v;

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

/* Dense elements are in the type they are reduced in. */
static bool is_memory_itself(const reduce_params *p)
{
    return exg_compute_is_storage(p->in_dtype) && p->loaded == p->compute;
}

/* `count` elements in the type they are reduced in: memory itself, or in `to`. */
static const void *bring(const reduce_params *p, const char *memory, int64_t count, int64_t stride,
                         values *to, values *scratch)
{
    if (stride == 1 && is_memory_itself(p)) {
        return memory;
    }
    if (p->loaded == p->compute) {
        p->convert->load[p->in_dtype]((uint32_t)count, to, memory, stride);
    } else {
        p->convert->load[p->in_dtype]((uint32_t)count, scratch, memory, stride);
        p->convert->convert[p->compute][p->loaded]((uint32_t)count, to, scratch);
    }
    return to;
}

static reduce_state row_real(const reduce_run_context *r, const void *x, int64_t count, double mean)
{
    const reduce_params *p = r->p;
    bool is_double = p->compute == EXG_COMPUTE_F64;
    exg_ahead ahead = {{(const char *)x + count * (is_double ? 8 : 4)}, {128}};
    reduce_state s = start_of(p, r->op);

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

static const exg_integer_loops *integer_loops(const reduce_params *p)
{
    return p->compute == EXG_COMPUTE_I32 ? &p->integer->i32 : &p->integer->i64;
}

static reduce_state row_int(const reduce_run_context *r, const void *x, int64_t count)
{
    const exg_integer_loops *loops = integer_loops(r->p);
    bool is_narrow = r->p->compute == EXG_COMPUTE_I32;
    reduce_state s = start_of(r->p, r->op);

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

/* Offset in elements of a row-major position, and the index along each dimension. */
static int64_t locate(const dims *d, int64_t position, int64_t *index)
{
    int64_t offset = 0;

    for (uint32_t k = d->rank; k-- > 0; position /= d->sizes[k]) {
        index[k] = position % d->sizes[k];
        offset += index[k] * d->strides[k];
    }
    return offset;
}

#define FEW 16 /* terms of which a loop is over before a row's has begun */

/* Sums of `count` dense lines of f32, or of their squares, a few terms each, one after the other.
 */
static void sum_few(const float *x, bool squares, int64_t terms, int64_t count,
                    reduce_state *states)
{
    for (int64_t k = 0; k < count; k++) {
        double sum = 0;

        for (int64_t i = 0; i < terms; i++) {
            float term = x[k * terms + i];

            sum += (double)(squares ? term * term : term);
        }
        states[k].f = sum;
    }
}

/* Outputs that sum_few takes. */
static bool is_few(const reduce_run_context *r)
{
    const reduce_params *p = r->p;

    return (r->op == SUM || r->op == SQUARES || r->op == MEAN) && p->in_dtype == EXG_DTYPE_F32 &&
           p->compute == EXG_COMPUTE_F32 && p->terms.count <= FEW && p->pieces == 1 &&
           p->terms.rank == 1 && p->terms.strides[0] == 1 && p->kept.rank == 1 &&
           p->kept.strides[0] == p->terms.count;
}

/* One output over terms [first, end). */
static reduce_state reduce_row(const reduce_run_context *r, int64_t output, int64_t first,
                               int64_t end)
{
    const reduce_params *p = r->p;
    uint32_t last = p->terms.rank - 1;
    int64_t index[EXG_RANK_MAX];
    const char *base = r->in + locate(&p->kept, output, index) * p->in_bytes;
    double mean = r->means != NULL ? r->means[output].f : 0;
    reduce_state s = start_of(p, r->op);
    values to;
    values scratch;

    for (int64_t term = first; term < end;) {
        const char *at = base + locate(&p->terms, term, index) * p->in_bytes;
        int64_t run = EXG_MIN(p->terms.sizes[last] - index[last], end - term);
        bool direct = p->terms.strides[last] == 1 && is_memory_itself(p);
        const void *x;

        run = direct ? run : EXG_MIN(run, CHUNK);
        x = bring(p, at, run, p->terms.strides[last], &to, &scratch);
        s = combine(p, r->op, s, is_real(p) ? row_real(r, x, run, mean) : row_int(r, x, run));
        term += run;
    }
    return s;
}

/* ---- columns -------------------------------------------------------------------------- */

#define TOGETHER 4 /* rows that are brought in before they are taken */

typedef struct columns {
    reduce_state states[COLUMNS];
    union {
        float f32[COLUMNS];
        double f64[COLUMNS];
    } parts; /* sums of up to FLUSH rows, or extremes, not yet in states */
    int64_t rows_in_parts;
} columns;

static bool is_extreme(const reduce_run_context *r)
{
    return r->op == AMAX || r->op == AMIN;
}

/* Terms go to parts first. */
static bool has_parts(const reduce_run_context *r)
{
    return is_real(r->p) && (r->op == SUM || r->op == SQUARES || r->op == MEAN || is_extreme(r));
}

/* What is in parts of f32 after `terms` terms is all that is to be stored. */
static bool is_done_in_parts(const reduce_run_context *r, int64_t terms)
{
    return has_parts(r) && r->op != MEAN && r->p->compute == EXG_COMPUTE_F32 && r->states == NULL &&
           r->means_out == NULL && (is_extreme(r) || terms < FLUSH); /* those are flushed */
}

static void flush_columns(const reduce_run_context *r, columns *c, int64_t count)
{
    const bool is_double = r->p->compute == EXG_COMPUTE_F64;

    for (int64_t k = 0; k < count; k++) {
        double part = is_double ? c->parts.f64[k] : (double)c->parts.f32[k];

        c->states[k].f = is_extreme(r) ? part : c->states[k].f + part;
    }
    if (!is_extreme(r)) {
        memset(&c->parts, 0, (size_t)count * (is_double ? sizeof(double) : sizeof(float)));
    }
    c->rows_in_parts = 0;
}

/* Takes `rows` terms each of `count` outputs, rows `stride` apart, into parts. */
static void add_to_parts(const reduce_run_context *r, columns *c, const void *x, int64_t count,
                         int64_t stride, int64_t rows)
{
    const exg_row_f32_loops *f32 = r->p->f32;
    const exg_row_f64_loops *f64 = r->p->f64;

    if (r->p->compute == EXG_COMPUTE_F64) {
        (r->op == AMAX   ? f64->max_rows
         : r->op == AMIN ? f64->min_rows
                         : f64->add_rows)(count, c->parts.f64, x, stride, rows);
    } else {
        (r->op == AMAX   ? f32->max_rows
         : r->op == AMIN ? f32->min_rows
                         : f32->add_rows)(count, c->parts.f32, x, stride, rows);
    }
    c->rows_in_parts += rows;
    if (c->rows_in_parts == FLUSH && !is_extreme(r)) {
        flush_columns(r, c, count);
    }
}

#define EACH(type, expression)                                                                     \
    for (int64_t k = 0; k < count; k++) {                                                          \
        const int64_t v = ((const type *)x)[k], s = states[k].i;                                   \
                                                                                                   \
        states[k].i = expression;                                                                  \
    }                                                                                              \
    break

#define EACH_BY(type)                                                                              \
    switch (op) {                                                                                  \
    case ANY:                                                                                      \
        EACH(type, s | (v != 0));                                                                  \
    case ALL:                                                                                      \
        EACH(type, s &(v != 0));                                                                   \
    default:                                                                                       \
        EACH(type, (int64_t)((uint64_t)s * (uint64_t)v));                                          \
    }

static void add_integers(const reduce_params *p, reduce_op op, reduce_state *states, const void *x,
                         int64_t count)
{
    if (p->compute == EXG_COMPUTE_I32) {
        EACH_BY(int32_t)
    } else {
        EACH_BY(int64_t)
    }
}

static void add_reals(const reduce_run_context *r, reduce_state *states, const void *x,
                      int64_t count, const reduce_state *means)
{
    const bool is_double = r->p->compute == EXG_COMPUTE_F64;

    for (int64_t k = 0; k < count; k++) {
        reduce_state v;

        v.f = is_double ? ((const double *)x)[k] : (double)((const float *)x)[k];
        if (r->op == SPREAD) {
            v.f = (v.f - means[k].f) * (v.f - means[k].f);
        } else if (r->op == ANY || r->op == ALL) {
            v.i = v.f != 0;
        }
        states[k] = combine(r->p, r->op, states[k], v);
    }
}

/* Takes `rows` terms each of `count` outputs, rows `stride` elements apart. */
static void add_columns(const reduce_run_context *r, columns *c, const void *x, int64_t count,
                        int64_t stride, int64_t rows, const reduce_state *means)
{
    const exg_integer_loops *loops = integer_loops(r->p);
    const int64_t row_bytes = stride * exg_compute_bytes(r->p->compute);

    if (has_parts(r)) {
        add_to_parts(r, c, x, count, stride, rows);
    } else if (!is_real(r->p) && (r->op == SUM || is_extreme(r))) {
        (r->op == AMAX   ? loops->max_rows
         : r->op == AMIN ? loops->min_rows
                         : loops->add_rows)(count, &c->states[0].i, x, stride, rows);
    } else {
        for (int64_t row = 0; row < rows; row++) {
            const char *at = (const char *)x + row * row_bytes;

            if (is_real(r->p)) {
                add_reals(r, c->states, at, count, means);
            } else {
                add_integers(r->p, r->op, c->states, at, count);
            }
        }
    }
}

static void start_columns(const reduce_run_context *r, columns *c, int64_t count)
{
    const reduce_state start = start_of(r->p, r->op);

    for (int64_t k = 0; k < count; k++) {
        c->states[k] = start;
    }
    for (int64_t k = 0; k < count && has_parts(r); k++) {
        if (r->p->compute == EXG_COMPUTE_F64) {
            c->parts.f64[k] = is_extreme(r) ? start.f : 0;
        } else {
            c->parts.f32[k] = is_extreme(r) ? (float)start.f : 0;
        }
    }
    c->rows_in_parts = 0;
}

static void square(const reduce_params *p, const void *x, int64_t count, values *to)
{
    for (int64_t k = 0; k < count && p->compute == EXG_COMPUTE_F64; k++) {
        to->f64[k] = ((const double *)x)[k] * ((const double *)x)[k];
    }
    for (int64_t k = 0; k < count && p->compute == EXG_COMPUTE_F32; k++) {
        to->f32[k] = ((const float *)x)[k] * ((const float *)x)[k];
    }
}

/* Outputs [output, output + count) are along the last kept dimension. */
static void reduce_columns(const reduce_run_context *r, int64_t output, int64_t count,
                           int64_t first, int64_t end, columns *c)
{
    const reduce_params *p = r->p;
    const reduce_state *means = r->means != NULL ? r->means + output : NULL;
    const int64_t step = p->kept.strides[p->kept.rank - 1];
    const bool is_direct = step == 1 && is_memory_itself(p) && r->op != SQUARES;
    int64_t index[EXG_RANK_MAX];
    const char *base = r->in + locate(&p->kept, output, index) * p->in_bytes;
    values to[TOGETHER];
    values scratch;

    start_columns(r, c, count);
    for (int64_t term = first; term < end;) {
        int64_t left = FLUSH - (has_parts(r) ? c->rows_in_parts % FLUSH : 0);
        int64_t rows = EXG_MIN(EXG_MIN(is_direct ? FLUSH : TOGETHER, end - term), left);
        int64_t offset = locate(&p->terms, term, index);
        const char *at = base + offset * p->in_bytes;

        rows = EXG_MIN(rows, p->terms.sizes[p->terms.rank - 1] - index[p->terms.rank - 1]);
        if (is_direct) {
            add_columns(r, c, at, count, p->terms.strides[p->terms.rank - 1], rows, means);
        } else {
            const int64_t row_bytes = p->terms.strides[p->terms.rank - 1] * p->in_bytes;

            for (int64_t k = 0; k < rows; k++) {
                const void *x = bring(p, at + k * row_bytes, count, step, &to[k], &scratch);

                if (r->op == SQUARES) {
                    square(p, x, count, &to[k]);
                }
            }
            add_columns(r, c, to, count, sizeof(values) / exg_compute_bytes(p->compute), rows,
                        means);
        }
        term += rows;
    }
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
        reduce_state few[COLUMNS];
        reduce_state *states = few;
        int64_t count = 1;
        columns c;

        if (p->by_columns) {
            int64_t row = p->kept.sizes[p->kept.rank - 1];

            count = EXG_MIN(EXG_MIN(row - output % row, COLUMNS), end - output);
            reduce_columns(r, output, count, first_term, end_term, &c);
            if (is_done_in_parts(r, end_term - first_term)) {
                p->convert->store[p->out_dtype]((uint32_t)count, r->out + output * p->out_bytes, 1,
                                                c.parts.f32);
                output += count;
                continue;
            }
            if (c.rows_in_parts > 0) {
                flush_columns(r, &c, count);
            }
            states = c.states;
        } else if (is_few(r)) {
            count = EXG_MIN(end - output, COLUMNS);
            sum_few((const float *)(const void *)r->in + output * p->terms.count, r->op == SQUARES,
                    p->terms.count, count, states);
        } else {
            states[0] = reduce_row(r, output, first_term, end_term);
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
    for (int64_t output = 0; r->states != NULL && output < p->kept.count; output += COLUMNS) {
        int64_t count = EXG_MIN(p->kept.count - output, COLUMNS);
        reduce_state *s = r->states + output;

        for (int64_t piece = 1; piece < p->pieces; piece++) {
            for (int64_t k = 0; k < count; k++) {
                s[k] = combine(p, r->op, s[k], s[piece * p->kept.count + k]);
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

static void add_dim(dims *d, int64_t size, int64_t stride)
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

static void cut(reduce_params *p)
{
    int64_t kept_stride = p->kept.strides[p->kept.rank - 1];
    int64_t term_stride = p->terms.strides[p->terms.rank - 1];

    p->by_columns = p->kept.count > 1 && p->kept.sizes[p->kept.rank - 1] > 1 &&
                    kept_stride < term_stride && p->terms.count > 1;
    p->outputs_of_task = EXG_MIN(exg_items_per_block(p->terms.count, EXG_GRAIN), p->kept.count);
    if (p->by_columns) { /* whole rows of outputs, where there is room for one */
        int64_t row = p->kept.sizes[p->kept.rank - 1];

        p->outputs_of_task = EXG_MAX(p->outputs_of_task, COLUMNS);
        p->outputs_of_task = row <= COLUMNS ? p->outputs_of_task / row * row : p->outputs_of_task;
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
    if ((p->op == MEAN || p->op == SPREAD || p->op == SQUARES) && !is_real(p)) {
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
