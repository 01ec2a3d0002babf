/* common.h - what the CPU kernels share: arguments, cutting work, element sizes. */
#ifndef EXG_LIBEXEC_KERNELS_CPU_COMMON_H
#define EXG_LIBEXEC_KERNELS_CPU_COMMON_H

#include "libexec/kernels/compute.h"
#include "libexec/kernels/kernels.h"

#include <stdbool.h>
#include <string.h>

#define EXG_MIN(a, b) ((a) < (b) ? (a) : (b))
#define EXG_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Elements of simple work below which a second thread does not pay. */
#define EXG_GRAIN        32768
#define EXG_GRAIN_FENCED (8 * EXG_GRAIN) /* when a fence follows each block */

/* ---- arguments ----------------------------------------------------------------- */

/* A list of ints, or one int; gives the count (at most `max` are written). */
uint32_t exg_call_ints(const exg_kernel_call *call, uint32_t position, int64_t *items,
                       uint32_t max);
/* Two numbers of a list, or of one; of an empty list `otherwise`. */
void exg_call_pair(const exg_kernel_call *call, uint32_t position, int64_t *two,
                   const int64_t *otherwise);
bool exg_call_is_none(const exg_kernel_call *call, uint32_t position);
/* A dimension of a tensor of `rank`, from the end when negative. */
uint32_t exg_call_dim(const exg_kernel_call *call, uint32_t position, uint32_t rank);
/* A set of dimensions; none, or an empty list, means all. */
uint32_t exg_call_dim_mask(const exg_kernel_call *call, uint32_t position, uint32_t rank);

/* How many of self's dimensions come in front of the positions that index tensors name, operands 1
 * to `count`, some absent: those before the first one, when the indexed ones are neighbours;
 * else none. */
uint32_t exg_call_dims_before(const exg_kernel_call *call, uint32_t count);

exg_status exg_unsupported_dtype(const char *kernel, exg_dtype dtype, exg_error *err);
/* UNSUPPORTED unless `dtype` is f32, f64, bf16 or f16. */
exg_status exg_require_float(const char *kernel, exg_dtype dtype, exg_error *err);
/* UNSUPPORTED unless `dtype` is i64 or i32. */
exg_status exg_require_index(const char *kernel, exg_dtype dtype, exg_error *err);

/* ---- shapes --------------------------------------------------------------------- */

/* A tensor seen as (outer, size, inner) around one dimension; contiguous. */
typedef struct exg_around {
    int64_t outer, size, inner;
} exg_around;

exg_around exg_around_dim(const exg_tensor *tensor, uint32_t dim);

/* The stride along dimension `d` of a tensor broadcast to `rank`, from the right. */
int64_t exg_broadcast_stride(const exg_tensor *t, uint32_t rank, uint32_t d);

static inline int64_t exg_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t exg_round_up(int64_t x, int64_t multiple)
{
    return exg_ceil_div(x, multiple) * multiple;
}

/* Items of `cost` elements each a block should take, and the blocks that makes. */
static inline int64_t exg_items_per_block(int64_t cost, int64_t grain)
{
    return cost >= grain ? 1 : grain / EXG_MAX(cost, 1);
}

static inline uint32_t exg_block_count(int64_t items, int64_t per_block)
{
    return (uint32_t)exg_ceil_div(items, per_block);
}

/* An index at `position` of an i64 or i32 tensor's memory. */
static inline int64_t exg_index_at(const void *data, exg_dtype dtype, int64_t position)
{
    return dtype == EXG_DTYPE_I32 ? ((const int32_t *)data)[position]
                                  : ((const int64_t *)data)[position];
}

/* The element at `position` of floats in memory. */
static inline double exg_float_at(const exg_convert_loops *convert, exg_dtype dtype,
                                  const void *data, int64_t position)
{
    union {
        float f32;
        double f64;
    } v;

    convert->load[dtype](1, &v, (const char *)data + position * exg_dtype_bytes(dtype), 1);
    return dtype == EXG_DTYPE_F64 ? v.f64 : (double)v.f32;
}

/* ---- moving memory ------------------------------------------------------------------ */

/* dst[i] = src[i] over a box; strides in bytes, any sign. dst and src do not overlap. */
typedef struct exg_move {
    uint32_t rank;
    uint32_t element_bytes;
    int64_t sizes[EXG_RANK_MAX];
    int64_t dst_strides[EXG_RANK_MAX];
    int64_t src_strides[EXG_RANK_MAX];
    int64_t rows; /* product of all sizes but the last */
    int64_t rows_of_block;
    uint32_t block_count;
    bool is_transposed;  /* the last two dimensions, in tiles */
    int64_t asked_ahead; /* bytes of src */
} exg_move;

/* Strides count elements of `element_bytes`. */
void exg_move_plan(exg_move *move, uint32_t rank, const int64_t *sizes, const int64_t *dst_strides,
                   const int64_t *src_strides, uint32_t element_bytes);
void exg_move_run(const exg_move *move, exg_pool *pool, void *dst, const void *src);

/* `count` elements of `bytes` each, equal to the one at `value`. */
void exg_fill(void *dst, const void *value, int64_t count, uint32_t bytes);

/* A scalar argument as an element of `dtype`; false when there is no conversion. */
bool exg_call_element(const exg_kernel_call *call, uint32_t position, exg_dtype dtype,
                      void *element);

#endif
