/* params.h - the parameters of kernel texts, which the host fills. Each struct begins with
 * the addresses of operands, in the order in which the host names them.
 */
#ifndef EXG_LIBEXEC_KERNELS_CUDA_PARAMS_H
#define EXG_LIBEXEC_KERNELS_CUDA_PARAMS_H

#include <stdint.h>

#define CUDA_RANK_MAX 16

/* Elements of a view in row-major order; strides count elements. */
typedef struct cuda_view {
    int64_t sizes[CUDA_RANK_MAX];
    int64_t strides[CUDA_RANK_MAX];
    int32_t rank;
} cuda_view;

/* Of numbers that are not negative; of 32 bits it costs a fifth. */
static inline int64_t quotient(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* The element at `position` of the view, elements from its first. */
static inline int64_t view_offset(const cuda_view *w, int64_t position)
{
    int64_t offset = 0;

#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int d = w->rank - 1; d > 0; d--) {
        const int64_t rest = quotient(position, w->sizes[d]);

        offset += (position - rest * w->sizes[d]) * w->strides[d];
        position = rest;
    }
    return offset + position * w->strides[0];
}

/* ---- moving ---------------------------------------------------------------------------- */

typedef struct cuda_copy_params {
    const void *in;
    void *out;
    int64_t numel;
    cuda_view from, to;
} cuda_copy_params;

typedef struct cuda_copies_params {
    cuda_copy_params copies[2];
} cuda_copies_params;

typedef struct cuda_triangle_params {
    const void *in;
    void *out;
    int64_t numel, rows, columns, diagonal;
    int64_t is_upper;
} cuda_triangle_params;

/* ---- between ranks ------------------------------------------------------------------------ */

#define CUDA_MOVES_MAX 64  /* of a launch */
#define CUDA_PARTS_MAX 256 /* of as many ranks */

/* Runs of elements, `pitch` apart, into others of another length. */
typedef struct cuda_strips {
    const void *from;
    void *to;
    int64_t count, from_run, from_pitch, to_run, to_pitch;
} cuda_strips;

typedef struct cuda_moves_params {
    cuda_strips moves[CUDA_MOVES_MAX];
} cuda_moves_params;

/* out[i], dense, = parts[0][i] op parts[1][i] op ..., whose runs are `pitch` apart */
typedef struct cuda_combine_params {
    void *out;
    const void *parts[CUDA_PARTS_MAX];
    int64_t part_count, count, run, pitch;
} cuda_combine_params;

/* ---- from numbers ---------------------------------------------------------------------- */

typedef struct cuda_fill_params {
    void *out;
    int64_t numel;
    uint64_t element[2];
} cuda_fill_params;

typedef struct cuda_arange_params {
    void *out;
    int64_t numel;
    double start, step;
    int64_t int_start, int_step;
} cuda_arange_params;

typedef struct cuda_draw_params {
    void *out;
    const void *source; /* exg_random_source */
    int64_t numel;
    uint32_t stream, digits;
} cuda_draw_params;

/* Each element its own distribution; b may be NULL. */
typedef struct cuda_draw_each_params {
    const void *a, *b;
    void *out;
    const void *source;
    void *fault;
    int64_t numel;
    uint32_t stream;
} cuda_draw_each_params;

/* ---- reductions, rows -------------------------------------------------------------------- */

typedef struct cuda_reduce_params {
    const void *in;
    void *out;
    void *parts, *means; /* (outputs, part_count) and (outputs), where terms are split */
    int64_t outputs, terms;
    int64_t part_count, part_terms;
    cuda_view kept, walked;
    double correction; /* var */
} cuda_reduce_params;

/* A row is (size) elements `inner` apart. */
typedef struct cuda_softmax_params {
    const void *in;
    void *out;
    int64_t rows, size, inner;
} cuda_softmax_params;

typedef struct cuda_norm_params {
    const void *in, *weight, *bias;
    void *out, *mean, *factor;
    int64_t rows, size;
    int64_t channels, area, groups; /* of group norm: a row is (channels, area) */
    double eps, share;              /* share: 1 / size */
} cuda_norm_params;

/* The first extreme of each (outer, inner) of (outer, size, inner); values may be NULL. */
typedef struct cuda_extreme_params {
    const void *in;
    void *values, *places;
    int64_t rows, size, inner; /* rows: outer * inner */
} cuda_extreme_params;

/* Sums or products so far, along size of (outer, size, inner). */
typedef struct cuda_scan_params {
    const void *in;
    void *out, *totals; /* (rows, part_count), where lines are split */
    int64_t rows, size, inner;
    int64_t part_count, part_size;
} cuda_scan_params;

/* ---- in order ------------------------------------------------------------------------------ */

/* Something to be brought in order by its key, and which one of its line it is: one word. */
typedef struct __attribute__((aligned(8))) cuda_item {
    uint32_t key;
    int32_t index;
} cuda_item;

typedef struct __attribute__((aligned(16))) cuda_wide_item {
    uint64_t key;
    int64_t index;
} cuda_wide_item;

/* Lines of `size` items, in `chunks` each; the bits of keys that say their order. Of one digit,
 * from first_bit on, where items move. */
typedef struct cuda_radix_params {
    void *from, *to, *counts;
    int64_t lines, size, chunks;
    int32_t first_bit, end_bit;
} cuda_radix_params;

/* Elements of (outer, size, inner), lines along size, and `kept` of each. */
typedef struct cuda_sort_params {
    const void *in;
    void *items, *values, *indices;
    int64_t lines, size, inner, kept;
} cuda_sort_params;

/* How many of `size` edges are before each of (lines, width) values. */
typedef struct cuda_search_params {
    const void *edges, *values;
    void *out;
    int64_t lines, width, size, own_edges, is_right;
} cuda_search_params;

/* Where `mask` is set: (most, rank); `counts`: how many are, up to and with each. */
typedef struct cuda_places_params {
    const void *mask, *counts;
    void *out, *fault;
    int64_t numel, most, rank;
    int64_t sizes[CUDA_RANK_MAX];
} cuda_places_params;

typedef struct cuda_check_params {
    const void *mask;
    void *fault;
    int64_t numel;
} cuda_check_params;

/* ---- by index ------------------------------------------------------------------------------ */

/* self (outer, size, inner), index (count), out (outer, count, inner) */
typedef struct cuda_pick_params {
    const void *self, *index;
    void *out, *fault;
    int64_t numel, size, count, inner;
} cuda_pick_params;

/* out[i] = self[i with coordinate `dim` replaced by index[i]] */
typedef struct cuda_gather_params {
    const void *self, *index;
    void *out, *fault;
    int64_t numel;
    int64_t dim_size, dim_stride;
    cuda_view of_index, of_self; /* the result's sizes; of_self without `dim` */
} cuda_gather_params;

#define CUDA_INDICES_MAX 6

/* out (result's sizes) = self where indices say */
typedef struct cuda_index_params {
    const void *self;
    const void *indices[CUDA_INDICES_MAX];
    void *out, *fault;
    int64_t numel;
    int64_t sizes[CUDA_INDICES_MAX], strides[CUDA_INDICES_MAX]; /* of self, indexed dims */
    int64_t is_narrow[CUDA_INDICES_MAX];                        /* int32 */
    int64_t count;
    int64_t rank; /* of the result */
    int64_t result[CUDA_RANK_MAX];
    int64_t self_strides[CUDA_RANK_MAX];                    /* over the result; 0 along positions */
    int64_t index_strides[CUDA_INDICES_MAX][CUDA_RANK_MAX]; /* over the result */
} cuda_index_params;

/* Items of `lines` lines of `size`: the index that each stands at is its key. */
typedef struct cuda_place_params {
    const void *index;
    void *items, *fault;
    int64_t lines, size, dim_size;
    cuda_view of_line; /* of the index */
    int64_t stride;    /* of the index, along a line */
} cuda_place_params;

/* What `items`, in order, say goes into out: source (line, item, w) to (line, key, w), w in a
 * slice of the operands that an item stands for. Equal keys: one after the other.
 *
 * Where they are combined, a piece of a line at a time, what a run of equal ones comes to so far
 * that goes over the end of a piece is left as a part: two of each piece, with their keys
 * (scatter.cu). */
typedef struct cuda_scatter_params {
    const void *items, *source;
    void *out;
    void *part_keys, *parts;      /* (lines, pieces, 2), and by w */
    const void *from_keys, *from; /* the same of the pieces that this goes over */
    int64_t lines, size, slice;
    int64_t pieces;
    uint64_t element[2];               /* where there is no source */
    int64_t key_stride;                /* of out */
    cuda_view out_line, source_line;   /* their offsets, by line */
    cuda_view out_inner, source_inner; /* by w */
    cuda_view source_item;             /* by item */
} cuda_scatter_params;

/* source to the one place in out that the first element of each index says. */
typedef struct cuda_put_params {
    const void *indices[CUDA_INDICES_MAX];
    const void *source;
    void *out, *fault;
    int64_t slice;
    int64_t sizes[CUDA_INDICES_MAX], strides[CUDA_INDICES_MAX]; /* of out, indexed dims */
    int64_t is_narrow[CUDA_INDICES_MAX];                        /* int32 */
    int64_t count;
    int64_t wraps;                     /* an index below 0 counts from the end */
    cuda_view out_inner, source_inner; /* their offsets, in the slice */
} cuda_put_params;

/* ---- products --------------------------------------------------------------------------- */

typedef struct cuda_matrix {
    int64_t batch, row, column; /* strides, elements */
} cuda_matrix;

/* c (batch, m, n), dense, = alpha * a * b + beta * self */
typedef struct cuda_gemm_params {
    const void *a, *b, *self, *index; /* which matrix of b each of the batch is multiplied by */
    void *c, *fault;
    int64_t batch, m, n, k;
    cuda_matrix of_a, of_b, of_self;
    double alpha, beta;
    int64_t matrices, index_stride, wraps; /* of b */
} cuda_gemm_params;

/* The same of one batch by a weight of bytes or half bytes, (n, k), whose elements mean
 * (code + low - zero) * scale * factor + offset, with a zero, scale and offset a row and group. */
typedef struct cuda_weight_params {
    const void *a, *b, *self, *scale, *zero, *offset;
    void *c;
    int64_t batch, m, n, k;
    cuda_matrix of_a, of_b, of_self;
    cuda_matrix of_scale, of_zero, of_offset; /* column: from group to group */
    int64_t row_bytes;                        /* of b */
    int64_t group;                            /* elements */
    double alpha, beta;
    float factor, low;
} cuda_weight_params;

/* Half bytes of codes, two a byte, the first in its lower half; `row_bytes` a row. */
typedef struct cuda_weight_pack_params {
    const void *in;
    void *out;
    int64_t rows, k, row_bytes, least;
} cuda_weight_pack_params;

/* One step of a recurrent layer (cell.h): h of rows of units to out, and to last where that is
 * there; the cells of an LSTM are replaced. */
typedef struct cuda_cell_params {
    const void *x, *s, *bias, *h;
    void *c, *out, *last;
    int64_t rows, units, gates; /* gates: all numbers of a row of x and s */
} cuda_cell_params;

/* Batch dimensions in front of the heads, as strides of each operand. */
typedef struct cuda_attention_params {
    const void *query, *key, *value, *mask;
    void *out;
    void *greatest, *sums, *results; /* of parts, where keys are split */
    int64_t heads, rows, keys, depth, width, heads_of_kv, is_causal;
    int64_t splits, keys_of_split;
    int64_t all_rows; /* of the result */
    double scale, masked;
    int64_t batch_rank;
    int64_t batch_sizes[CUDA_RANK_MAX];
    int64_t batch_strides[4][CUDA_RANK_MAX]; /* query, key, value, mask */
    int64_t strides[4][3];                   /* head, row, element */
} cuda_attention_params;

typedef struct cuda_attention_parts_params {
    const void *greatest, *sums, *results; /* (splits, rows), twice, and (splits, rows, width) */
    void *out;
    int64_t rows, width, splits;
    double masked;
} cuda_attention_parts_params;

typedef struct cuda_convolution_params {
    const void *in, *weight, *bias;
    void *out;
    int64_t batch, groups, in_channels, out_channels; /* of a group */
    int64_t size[3], result[3], kernel[3], stride[3], padding[3], dilation[3];
    int64_t gap[3]; /* 1, or of a transposed one the stride */
    int64_t is_transposed;
} cuda_convolution_params;

typedef struct cuda_pool_params {
    const void *in;
    void *out, *indices;
    int64_t planes, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t counts_padding, divisor, is_adaptive;
} cuda_pool_params;

#endif
