/* reduce_columns.c - a tile of outputs that lie side by side takes one term each at a time. */
#include "libexec/kernels/cpu/reduce.h"

#include <string.h>

#define FLUSH 64 /* rows added in f32 before they go to double */

#define TOGETHER 4 /* rows that are brought in before they are taken */

static bool is_extreme(const reduce_run_context *r)
{
    return r->op == AMAX || r->op == AMIN;
}

/* Terms go to parts first. */
static bool has_parts(const reduce_run_context *r)
{
    return reduce_is_real(r->p) &&
           (r->op == SUM || r->op == SQUARES || r->op == MEAN || is_extreme(r));
}

/* What is in parts of f32 after `terms` terms is all that is to be stored. */
bool exg_reduce_is_in_parts(const reduce_run_context *r, int64_t terms)
{
    return has_parts(r) && r->op != MEAN && r->p->compute == EXG_COMPUTE_F32 && r->states == NULL &&
           r->means_out == NULL && (is_extreme(r) || terms < FLUSH); /* those are flushed */
}

void exg_reduce_flush(const reduce_run_context *r, reduce_columns *c, int64_t count)
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

/* Rows of bf16 go to parts from where they are. */
static bool is_bf16(const reduce_run_context *r)
{
    return r->op != SQUARES && has_parts(r) &&
           reduce_is_bf16_sum(r, r->p->kept.strides[r->p->kept.rank - 1]);
}

/* Takes `rows` terms each of `count` outputs, rows `stride` apart, into parts. */
static void add_to_parts(const reduce_run_context *r, reduce_columns *c, const void *x,
                         int64_t count, int64_t stride, int64_t rows)
{
    const exg_row_f32_loops *f32 = r->p->f32;
    const exg_row_f64_loops *f64 = r->p->f64;

    if (r->p->compute == EXG_COMPUTE_F64) {
        (r->op == AMAX   ? f64->max_rows
         : r->op == AMIN ? f64->min_rows
                         : f64->add_rows)(count, c->parts.f64, x, stride, rows);
    } else if (is_bf16(r)) {
        EXG_LOOPS(exg_loops_row_bf16)->add_rows(count, c->parts.f32, x, stride, rows);
    } else {
        (r->op == AMAX   ? f32->max_rows
         : r->op == AMIN ? f32->min_rows
                         : f32->add_rows)(count, c->parts.f32, x, stride, rows);
    }
    c->rows_in_parts += rows;
    if (c->rows_in_parts == FLUSH && !is_extreme(r)) {
        exg_reduce_flush(r, c, count);
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
        states[k] = reduce_combine(r->p, r->op, states[k], v);
    }
}

/* Takes `rows` terms each of `count` outputs, rows `stride` elements apart. */
static void add_columns(const reduce_run_context *r, reduce_columns *c, const void *x,
                        int64_t count, int64_t stride, int64_t rows, const reduce_state *means)
{
    const exg_integer_loops *loops = reduce_integer_loops(r->p);
    const int64_t row_bytes = stride * exg_compute_bytes(r->p->compute);

    if (has_parts(r)) {
        add_to_parts(r, c, x, count, stride, rows);
    } else if (!reduce_is_real(r->p) && (r->op == SUM || is_extreme(r))) {
        (r->op == AMAX   ? loops->max_rows
         : r->op == AMIN ? loops->min_rows
                         : loops->add_rows)(count, &c->states[0].i, x, stride, rows);
    } else {
        for (int64_t row = 0; row < rows; row++) {
            const char *at = (const char *)x + row * row_bytes;

            if (reduce_is_real(r->p)) {
                add_reals(r, c->states, at, count, means);
            } else {
                add_integers(r->p, r->op, c->states, at, count);
            }
        }
    }
}

static void start_columns(const reduce_run_context *r, reduce_columns *c, int64_t count,
                          int64_t terms)
{
    const reduce_state start = reduce_start(r->p, r->op);
    const float part = is_extreme(r) ? (float)start.f : 0;
    const int64_t states = exg_reduce_is_in_parts(r, terms) ? 0 : count;

    for (int64_t k = 0; k < states; k++) {
        c->states[k] = start;
    }
    if (has_parts(r) && r->p->compute == EXG_COMPUTE_F64) {
        for (int64_t k = 0; k < count; k++) {
            c->parts.f64[k] = is_extreme(r) ? start.f : 0;
        }
    } else if (has_parts(r)) {
        for (int64_t k = 0; k < count; k++) {
            c->parts.f32[k] = part;
        }
    }
    c->rows_in_parts = 0;
}

static void square(const reduce_params *p, const void *x, int64_t count, reduce_values *to)
{
    for (int64_t k = 0; k < count && p->compute == EXG_COMPUTE_F64; k++) {
        to->f64[k] = ((const double *)x)[k] * ((const double *)x)[k];
    }
    for (int64_t k = 0; k < count && p->compute == EXG_COMPUTE_F32; k++) {
        to->f32[k] = ((const float *)x)[k] * ((const float *)x)[k];
    }
}

/* Outputs [output, output + count) are along the last kept dimension. */
void exg_reduce_columns(const reduce_run_context *r, int64_t output, int64_t count, int64_t first,
                        int64_t end, reduce_columns *c)
{
    const reduce_params *p = r->p;
    const reduce_state *means = r->means != NULL ? r->means + output : NULL;
    const int64_t step = p->kept.strides[p->kept.rank - 1];
    const bool is_direct = (step == 1 && reduce_is_in_memory(p) && r->op != SQUARES) || is_bf16(r);
    int64_t index[EXG_RANK_MAX];
    const char *base = r->in + reduce_locate(&p->kept, output, index) * p->in_bytes;
    reduce_values to[TOGETHER];
    reduce_values scratch;

    start_columns(r, c, count, end - first);
    for (int64_t term = first; term < end;) {
        int64_t left = FLUSH - (has_parts(r) ? c->rows_in_parts % FLUSH : 0);
        int64_t rows = EXG_MIN(EXG_MIN(is_direct ? FLUSH : TOGETHER, end - term), left);
        int64_t offset = reduce_locate(&p->terms, term, index);
        const char *at = base + offset * p->in_bytes;

        rows = EXG_MIN(rows, p->terms.sizes[p->terms.rank - 1] - index[p->terms.rank - 1]);
        if (is_direct) {
            add_columns(r, c, at, count, p->terms.strides[p->terms.rank - 1], rows, means);
        } else {
            const int64_t row_bytes = p->terms.strides[p->terms.rank - 1] * p->in_bytes;

            for (int64_t k = 0; k < rows; k++) {
                const void *x = reduce_bring(p, at + k * row_bytes, count, step, &to[k], &scratch);

                if (r->op == SQUARES) {
                    square(p, x, count, &to[k]);
                }
            }
            add_columns(r, c, to, count, sizeof(reduce_values) / exg_compute_bytes(p->compute),
                        rows, means);
        }
        term += rows;
    }
}
