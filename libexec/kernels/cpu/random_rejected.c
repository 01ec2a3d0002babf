/* random_rejected.c - a distribution an element (distribution.h): draw_bernoulli, draw_gamma,
 * draw_poisson, draw_binomial.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/distribution.h"

#define CHUNK     256
#define PER_BLOCK 1024 /* elements of a block: each costs some thirty of simple work */

typedef double draw_function(exg_numbers *n, double a, double b, bool *bad);

typedef struct draw_params {
    draw_function *draw;
    exg_dtype dtype;
    uint32_t stream;
    int64_t numel;
    exg_load_loop *load;
    exg_store_loop *store;
} draw_params;

typedef struct draw_context {
    const exg_kernel_call *call;
    const draw_params *p;
} draw_context;

static void load(const draw_params *p, const exg_tensor *from, int64_t first, int64_t count,
                 double *to)
{
    float narrow[CHUNK];

    if (p->dtype == EXG_DTYPE_F64) {
        memcpy(to, (const double *)from->data + first, (size_t)count * sizeof(*to));
        return;
    }
    p->load((uint32_t)count, narrow, (const char *)from->data + first * exg_dtype_bytes(p->dtype),
            1);
    for (int64_t i = 0; i < count; i++) {
        to[i] = (double)narrow[i];
    }
}

static void store(const draw_params *p, const exg_tensor *to, int64_t first, int64_t count,
                  const double *from)
{
    float narrow[CHUNK];

    if (p->dtype == EXG_DTYPE_F64) {
        memcpy((double *)to->data + first, from, (size_t)count * sizeof(*from));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        narrow[i] = (float)from[i];
    }
    p->store((uint32_t)count, (char *)to->data + first * exg_dtype_bytes(p->dtype), 1, narrow);
}

static void draw_block(void *context, uint32_t block)
{
    const draw_context *r = context;
    const draw_params *p = r->p;
    int64_t first = (int64_t)block * PER_BLOCK;
    int64_t end = EXG_MIN(first + PER_BLOCK, p->numel);
    double a[CHUNK];
    double b[CHUNK] = {0};
    bool any = false;

    for (; first < end; first += CHUNK) {
        int64_t count = EXG_MIN(end - first, CHUNK);

        load(p, &r->call->inputs[0], first, count, a);
        if (r->call->input_count > 1) {
            load(p, &r->call->inputs[1], first, count, b);
        }
        for (int64_t i = 0; i < count; i++) {
            exg_numbers n = exg_numbers_of(r->call->random, p->stream, (uint64_t)(first + i));
            bool bad;

            a[i] = p->draw(&n, a[i], b[i], &bad);
            any = any || bad;
        }
        store(p, &r->call->outputs[0], first, count, a);
    }
    if (any) {
        exg_raise(r->call, EXG_FAULT_PARAMETER);
    }
}

static void draw_run(const exg_kernel_call *call)
{
    const draw_params *p = call->params;
    draw_context r = {call, p};

    exg_pool_run(call->pool, draw_block, &r, exg_block_count(p->numel, PER_BLOCK));
}

static exg_status prepare(exg_kernel_call *call, draw_function *draw, exg_error *err)
{
    draw_params *p = EXG_NEW(call->arena, draw_params);
    exg_dtype dtype = call->outputs[0].dtype;

    if (p == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_require_float("random numbers", dtype, err));
    p->draw = draw;
    p->dtype = dtype;
    p->stream = (uint32_t)exg_call_int(call, call->input_count);
    p->numel = exg_tensor_numel(&call->outputs[0]);
    p->load = EXG_LOOPS(exg_loops_convert)->load[dtype];
    p->store = EXG_LOOPS(exg_loops_convert)->store[dtype];
    call->params = p;
    return EXG_OK;
}

#define KERNEL(name_)                                                                              \
    static exg_status prepare_##name_(exg_kernel_call *call, exg_error *err)                       \
    {                                                                                              \
        return prepare(call, exg_draw_##name_, err);                                               \
    }                                                                                              \
    const exg_kernel exg_kernel_draw_##name_ = {                                                   \
        .name = "draw_" #name_,                                                                    \
        .prepare = prepare_##name_,                                                                \
        .run = draw_run,                                                                           \
        .flags = EXG_KERNEL_RAISES | EXG_KERNEL_DRAWS,                                             \
    };
KERNEL(bernoulli)
KERNEL(gamma)
KERNEL(poisson)
KERNEL(binomial)
