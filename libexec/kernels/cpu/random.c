/* random.c - draw_uniform, draw_normal, draw_bits: tensors of random numbers. A block of
 * four words is four elements of 32 bits or less, or two of 64.
 */
#include "libexec/kernels/random.h"
#include "libexec/kernels/cpu/common.h"

#include <math.h>

#define CHUNK 256 /* elements drawn before they are stored; even blocks of words */

typedef enum draw_kind { UNIFORM, NORMAL, BITS } draw_kind;

typedef struct draw_params {
    draw_kind kind;
    exg_dtype dtype;
    uint32_t stream;
    uint32_t digits; /* of a uniform number: no dtype rounds it to 1 */
    int64_t numel;
    exg_store_loop *store;
} draw_params;

typedef struct draw_context {
    const draw_params *p;
    const exg_random_source *source;
    char *out;
} draw_context;

typedef union values {
    float f32[CHUNK];
    double f64[CHUNK];
    int64_t i64[CHUNK];
} values;

static exg_status draw_prepare(exg_kernel_call *call, draw_kind kind, exg_error *err)
{
    draw_params *p = EXG_NEW(call->arena, draw_params);
    exg_dtype dtype = call->outputs[0].dtype;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (kind == BITS ? dtype != EXG_DTYPE_I64
                     : exg_require_float("random", dtype, NULL) != EXG_OK) {
        return exg_unsupported_dtype("random numbers", dtype, err);
    }
    p->kind = kind;
    p->dtype = dtype;
    p->stream = (uint32_t)exg_call_int(call, 1);
    p->digits = dtype == EXG_DTYPE_F16 ? 11 : dtype == EXG_DTYPE_BF16 ? 8 : 24;
    p->numel = exg_tensor_numel(&call->outputs[0]);
    p->store = EXG_LOOPS(exg_loops_convert)->store[dtype];
    call->params = p;
    return EXG_OK;
}

static exg_status uniform_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw_prepare(call, UNIFORM, err);
}

static exg_status normal_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw_prepare(call, NORMAL, err);
}

static exg_status bits_prepare(exg_kernel_call *call, exg_error *err)
{
    return draw_prepare(call, BITS, err);
}

static uint64_t pair(const uint32_t *words, int at)
{
    return (uint64_t)words[2 * at + 1] << 32 | words[2 * at];
}

/* Two normal numbers of two uniform ones, u in (0, 1], v in [0, 1) (Box, Muller). */
static void normal_pair(double u, double v, double *z0, double *z1)
{
    double radius = sqrt(-2 * log(u));
    double angle = 6.28318530717958647693 * v;

    *z0 = radius * cos(angle);
    *z1 = radius * sin(angle);
}

/* Elements of 64 bits: `first` and the next. */
static void draw_wide(const draw_params *p, const uint32_t *words, values *v, int64_t at)
{
    double u[2] = {(double)(pair(words, 0) >> 11) * 0x1p-53,
                   (double)(pair(words, 1) >> 11) * 0x1p-53};

    if (p->kind == BITS) {
        v->i64[at] = (int64_t)(pair(words, 0) >> 1);
        v->i64[at + 1] = (int64_t)(pair(words, 1) >> 1);
    } else if (p->kind == UNIFORM) {
        v->f64[at] = u[0];
        v->f64[at + 1] = u[1];
    } else {
        normal_pair(u[0] + 0x1p-53, u[1], &v->f64[at], &v->f64[at + 1]);
    }
}

/* Elements of at most 32 bits: four. */
static void draw_narrow(const draw_params *p, const uint32_t *words, values *v, int64_t at)
{
    if (p->kind == UNIFORM) {
        for (int k = 0; k < 4; k++) {
            v->f32[at + k] = ldexpf((float)(words[k] >> (32 - p->digits)), -(int)p->digits);
        }
        return;
    }
    for (int k = 0; k < 4; k += 2) {
        double z0;
        double z1;

        normal_pair(((double)words[k] + 1) * 0x1p-32, (double)words[k + 1] * 0x1p-32, &z0, &z1);
        v->f32[at + k] = (float)z0;
        v->f32[at + k + 1] = (float)z1;
    }
}

static void draw_block(void *context, uint32_t block)
{
    const draw_context *r = context;
    const draw_params *p = r->p;
    int64_t first = (int64_t)block * EXG_GRAIN;
    int64_t end = EXG_MIN(first + EXG_GRAIN, p->numel);
    bool is_wide = exg_dtype_bytes(p->dtype) == 8;
    int step = is_wide ? 2 : 4;
    values v;

    for (; first < end; first += CHUNK) {
        int64_t count = EXG_MIN(end - first, CHUNK);

        for (int64_t at = 0; at < count; at += step) {
            uint32_t words[4];

            exg_random_block(r->source, p->stream, (uint64_t)((first + at) / step), words);
            if (is_wide) {
                draw_wide(p, words, &v, at);
            } else {
                draw_narrow(p, words, &v, at);
            }
        }
        p->store((uint32_t)count, r->out + first * exg_dtype_bytes(p->dtype), 1, &v);
    }
}

static void draw_run(const exg_kernel_call *call)
{
    const draw_params *p = call->params;
    draw_context r = {p, call->random, call->outputs[0].data};

    exg_pool_run(call->pool, draw_block, &r, exg_block_count(p->numel, EXG_GRAIN));
}

const exg_kernel exg_kernel_draw_uniform = {
    .name = "draw_uniform",
    .prepare = uniform_prepare,
    .run = draw_run,
};

const exg_kernel exg_kernel_draw_normal = {
    .name = "draw_normal",
    .prepare = normal_prepare,
    .run = draw_run,
};

const exg_kernel exg_kernel_draw_bits = {
    .name = "draw_bits",
    .prepare = bits_prepare,
    .run = draw_run,
};
