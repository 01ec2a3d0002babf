/* convolution_integer.c - aten.convolution of integers, by the loops of its definition: a task
 * is one channel of one result image. Sums wrap around in the dtype, as PyTorch's do.
 */
#include "libexec/kernels/cpu/convolution.h"

typedef struct integer_run {
    const convolution *c;
    const void *input, *weight, *bias;
    void *result;
} integer_run;

bool exg_convolution_integer_suits(exg_dtype dtype)
{
    return dtype == EXG_DTYPE_I64 || dtype == EXG_DTYPE_I32 || dtype == EXG_DTYPE_I16 ||
           dtype == EXG_DTYPE_I8 || dtype == EXG_DTYPE_U8;
}

/* Unsigned: what overflows wraps. */
static uint64_t integer_at(exg_dtype dtype, const void *memory, int64_t i)
{
    switch ((int)dtype) {
    case EXG_DTYPE_I64:
        return (uint64_t)((const int64_t *)memory)[i];
    case EXG_DTYPE_I32:
        return (uint64_t)((const int32_t *)memory)[i];
    case EXG_DTYPE_I16:
        return (uint64_t)((const int16_t *)memory)[i];
    case EXG_DTYPE_I8:
        return (uint64_t)((const int8_t *)memory)[i];
    default:
        return ((const uint8_t *)memory)[i];
    }
}

static void put_integer(exg_dtype dtype, void *memory, int64_t i, uint64_t value)
{
    switch ((int)dtype) {
    case EXG_DTYPE_I64:
        ((uint64_t *)memory)[i] = value;
        break;
    case EXG_DTYPE_I32:
        ((uint32_t *)memory)[i] = (uint32_t)value;
        break;
    case EXG_DTYPE_I16:
        ((uint16_t *)memory)[i] = (uint16_t)value;
        break;
    default:
        ((uint8_t *)memory)[i] = (uint8_t)value;
    }
}

/* The products of one position's taps, over all channels of the group from `first` on. */
static uint64_t products(const integer_run *r, int64_t first, int64_t filter, int64_t position)
{
    const convolution *c = r->c;
    int64_t z = position / (c->result[1] * c->result[2]);
    int64_t y = position / c->result[2] % c->result[1];
    int64_t x = position % c->result[2];
    uint64_t sum = 0;

    for (int64_t t = 0; t < c->taps; t++) {
        int64_t iz = exg_convolution_source(c, 0, z, t / (c->kernel[1] * c->kernel[2]));
        int64_t iy = exg_convolution_source(c, 1, y, t / c->kernel[2] % c->kernel[1]);
        int64_t ix = exg_convolution_source(c, 2, x, t % c->kernel[2]);

        for (int64_t k = 0; k < c->in && iz >= 0 && iy >= 0 && ix >= 0; k++) {
            int64_t from = (first + k) * c->plane + (iz * c->size[1] + iy) * c->size[2] + ix;

            sum += integer_at(c->dtype, r->input, from) *
                   integer_at(c->dtype, r->weight, (filter * c->in + k) * c->taps + t);
        }
    }
    return sum;
}

static void integer_plane(void *context, uint32_t plane)
{
    const integer_run *r = context;
    const convolution *c = r->c;
    int64_t filter = plane % (c->groups * c->out);
    uint64_t start = r->bias == NULL ? 0 : integer_at(c->dtype, r->bias, filter);

    for (int64_t at = 0; at < c->positions; at++) {
        put_integer(c->dtype, r->result, plane * c->positions + at,
                    start + products(r, plane / c->out * c->in, filter, at));
    }
}

void exg_convolution_integer_run(const exg_kernel_call *call, const convolution *c,
                                 const void *weight)
{
    integer_run r = {c, call->inputs[0].data, weight, c->has_bias ? call->inputs[2].data : NULL,
                     call->outputs[0].data};

    exg_pool_run(call->pool, integer_plane, &r, (uint32_t)(c->batch * c->groups * c->out));
}
