/* reduce.h - what reductions by rows and by columns share: the shape of one, its states. */
#ifndef EXG_LIBEXEC_KERNELS_CPU_REDUCE_H
#define EXG_LIBEXEC_KERNELS_CPU_REDUCE_H

#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define REDUCE_COLUMNS 1024 /* outputs of a tile: long stretches of memory */
#define REDUCE_CHUNK   1024 /* brought in at once, of a row or a tile */

typedef enum reduce_op { SUM, SQUARES, MEAN, PROD, AMAX, AMIN, ANY, ALL, SPREAD } reduce_op;

typedef union reduce_state {
    double f;
    int64_t i;
} reduce_state;

typedef struct reduce_dims {
    uint32_t rank;
    int64_t sizes[EXG_RANK_MAX];
    int64_t strides[EXG_RANK_MAX];
    int64_t count;
} reduce_dims;

typedef struct reduce_params {
    reduce_op op;
    reduce_dims kept, terms;
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

typedef union reduce_values {
    float f32[REDUCE_CHUNK];
    double f64[REDUCE_CHUNK];
    int32_t i32[REDUCE_CHUNK];
    int64_t i64[REDUCE_CHUNK];
} reduce_values;

typedef struct reduce_columns {
    reduce_state states[REDUCE_COLUMNS];
    union {
        float f32[REDUCE_COLUMNS];
        double f64[REDUCE_COLUMNS];
    } parts; /* sums of up to FLUSH rows, or extremes, not yet in states */
    int64_t rows_in_parts;
} reduce_columns;

static inline bool reduce_is_real(const reduce_params *p)
{
    return p->compute == EXG_COMPUTE_F32 || p->compute == EXG_COMPUTE_F64;
}

static inline reduce_state reduce_start(const reduce_params *p, reduce_op op)
{
    reduce_state s = {.i = 0};

    switch (op) {
    case PROD:
        s.i = 1;
        if (reduce_is_real(p)) {
            s.f = 1;
        }
        break;
    case AMAX:
        s.i = INT64_MIN;
        if (reduce_is_real(p)) {
            s.f = -INFINITY;
        }
        break;
    case AMIN:
        s.i = INT64_MAX;
        if (reduce_is_real(p)) {
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

static inline reduce_state reduce_combine(const reduce_params *p, reduce_op op, reduce_state a,
                                          reduce_state b)
{
    bool real = reduce_is_real(p) && op != ANY && op != ALL;

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

/* States are added up. */
static inline bool reduce_is_sum(const reduce_run_context *r)
{
    return reduce_is_real(r->p) &&
           (r->op == SUM || r->op == MEAN || r->op == SQUARES || r->op == SPREAD);
}

/* Dense bf16 is summed where it is. */
static inline bool reduce_is_bf16_sum(const reduce_run_context *r, int64_t stride)
{
    return r->p->in_dtype == EXG_DTYPE_BF16 && r->p->compute == EXG_COMPUTE_F32 && stride == 1 &&
           reduce_is_sum(r);
}

/* Dense elements are in the type they are reduced in. */
static inline bool reduce_is_in_memory(const reduce_params *p)
{
    return exg_compute_is_storage(p->in_dtype) && p->loaded == p->compute;
}

/* `count` elements in the type they are reduced in: memory itself, or in `to`. */
static inline const void *reduce_bring(const reduce_params *p, const char *memory, int64_t count,
                                       int64_t stride, reduce_values *to, reduce_values *scratch)
{
    if (stride == 1 && reduce_is_in_memory(p)) {
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

static inline const exg_integer_loops *reduce_integer_loops(const reduce_params *p)
{
    return p->compute == EXG_COMPUTE_I32 ? &p->integer->i32 : &p->integer->i64;
}

/* Offset in elements of a row-major position, and the index along each dimension. */
static inline int64_t reduce_locate(const reduce_dims *d, int64_t position, int64_t *index)
{
    int64_t offset = 0;

    for (uint32_t k = d->rank - 1; k > 0; k--) {
        index[k] = position % d->sizes[k];
        position /= d->sizes[k];
        offset += index[k] * d->strides[k];
    }
    index[0] = position;
    return offset + position * d->strides[0];
}

/* Takes terms [first, end) of outputs [output, output + count), which are along the last kept
 * dimension; what is not in states yet stays in parts. */
void exg_reduce_columns(const reduce_run_context *r, int64_t output, int64_t count, int64_t first,
                        int64_t end, reduce_columns *c);

/* What is in parts of f32 after `terms` terms is all that is to be stored. */
bool exg_reduce_is_in_parts(const reduce_run_context *r, int64_t terms);

/* From parts to states. */
void exg_reduce_flush(const reduce_run_context *r, reduce_columns *c, int64_t count);

#endif
