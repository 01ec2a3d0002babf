/* random.c - draw_uniform, draw_normal, draw_bits: tensors of random numbers (distribution.h). */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/distribution.h"

#define CHUNK 256 /* elements drawn before they are stored; even blocks of words */

typedef enum draw_kind { UNIFORM, NORMAL, BITS } draw_kind;

typedef struct draw_params {
    draw_kind kind;
    exg_dtype dtype;
    uint32_t stream;
    uint32_t digits; /* of a uniform number */
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

/* The elements of a block of words, from `at` on. */
static void draw_words(const draw_params *p, const uint32_t *words, values *v, int64_t at)
{
    bool is_wide = exg_dtype_bytes(p->dtype) == 8;

    if (p->kind == BITS) {
        exg_draw_bits(words, v->i64 + at);
    } else if (p->kind == UNIFORM && is_wide) {
        exg_draw_uniform_f64(words, v->f64 + at);
    } else if (p->kind == UNIFORM) {
        exg_draw_uniform_f32(words, p->digits, v->f32 + at);
    } else if (is_wide) {
        exg_draw_normal_f64(words, v->f64 + at);
    } else {
        exg_draw_normal_f32(words, v->f32 + at);
    }
}

static void draw_block(void *context, uint32_t block)
{
    const draw_context *r = context;
    const draw_params *p = r->p;
    int64_t first = (int64_t)block * EXG_GRAIN;
    int64_t end = EXG_MIN(first + EXG_GRAIN, p->numel);
    int step = exg_dtype_bytes(p->dtype) == 8 ? 2 : 4;
    values v;

    for (; first < end; first += CHUNK) {
        int64_t count = EXG_MIN(end - first, CHUNK);

        for (int64_t at = 0; at < count; at += step) {
            uint32_t words[4];

            exg_random_block(r->source, p->stream, (uint64_t)((first + at) / step), words);
            draw_words(p, words, &v, at);
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
    .flags = EXG_KERNEL_DRAWS,
};

const exg_kernel exg_kernel_draw_normal = {
    .name = "draw_normal",
    .prepare = normal_prepare,
    .run = draw_run,
    .flags = EXG_KERNEL_DRAWS,
};

const exg_kernel exg_kernel_draw_bits = {
    .name = "draw_bits",
    .prepare = bits_prepare,
    .run = draw_run,
    .flags = EXG_KERNEL_DRAWS,
};
