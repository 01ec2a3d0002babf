/* loops.h - the inner loops, by instruction set.
 *
 * A compute type holds the values of several dtypes: f32 those of f32, f16, bf16
 * and f8; i32 those of bool, u8, i8, i16, u16, i32; i64 those of u32, u64, i64. Some formulas
 * take bf16 as it is (narrow.def), some u8 and bool (bytes.def).
 */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_LOOPS_H
#define EXG_LIBEXEC_KERNELS_LOOPS_LOOPS_H

#include "libexec/kernels/isa.h"

#include <exg/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Vectorise without asking whether arrays overlap: they do not, or are the same. */
#if defined(__clang__)
#define EXG_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EXG_INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef enum exg_compute {
    EXG_COMPUTE_F32,
    EXG_COMPUTE_F64,
    EXG_COMPUTE_I32,
    EXG_COMPUTE_I64,
    EXG_COMPUTE_BF16,
    EXG_COMPUTE_U8,
    EXG_COMPUTE_COUNT
} exg_compute;

static inline uint32_t exg_compute_bytes(exg_compute compute)
{
    return compute == EXG_COMPUTE_F64 || compute == EXG_COMPUTE_I64 ? 8
           : compute == EXG_COMPUTE_BF16                            ? 2
           : compute == EXG_COMPUTE_U8                              ? 1
                                                                    : 4;
}

/* ---- pointwise formulas ------------------------------------------------------- */

typedef enum exg_formula {
#define EXG_POINTWISE(id, schema, result, float_formula, int_formula, sharding) EXG_FORMULA_##id,
#include "libexport/operators/pointwise.def"
#undef EXG_POINTWISE
    EXG_FORMULA_COUNT
} exg_formula;

#define EXG_FLOW_ASKED_MAX 4

/* What a loop does besides where operands come from memory and results go there: asks for the
 * lines from `at` on, `bytes` with every element, as far as the first cache or the second, and lets
 * `out`, aligned to 64 bytes then, go past the caches. No address is wrong. */
typedef struct exg_flow {
    const char *at[EXG_FLOW_ASKED_MAX];
    uint32_t bytes[EXG_FLOW_ASKED_MAX];
    uint32_t count;
    bool is_past_caches;
    bool is_asked_far;
} exg_flow;

/* out[i] = formula of a[i], b[i], c[i] and four scalars, all in the compute type (scalars of bf16
 * formulas are f32); out may be one of the operands. Comparisons write int32_t, where reads its
 * condition as int32_t. Ors into `bad` what integer divisions found. A flow is for formulas
 * of f32 and bf16; NULL: all is near. */
typedef void exg_formula_loop(uint32_t count, void *out, const void *a, const void *b,
                              const void *c, const void *scalars, const exg_flow *flow, int *bad);

typedef struct exg_pointwise_loops {
    exg_formula_loop *of[EXG_COMPUTE_COUNT][EXG_FORMULA_COUNT];
} exg_pointwise_loops;

EXG_LOOPS_DECLARE(exg_pointwise_loops, exg_loops_pointwise);

typedef struct exg_formula_loops {
    exg_formula_loop *of[EXG_FORMULA_COUNT]; /* NULL: none */
} exg_formula_loops;

EXG_LOOPS_DECLARE(exg_formula_loops, exg_loops_narrow);
/* Scalars are int32_t; what compares writes bytes, and where reads its condition as such. */
EXG_LOOPS_DECLARE(exg_formula_loops, exg_loops_bytes);

/* A formula of narrow.def whose first operand is what the step before it gives. */
typedef struct exg_chain_step {
    exg_formula formula;
    const void *b; /* the others; those it has not: any */
    const void *c;
    const float *scalars;
} exg_chain_step;

#define EXG_CHAIN_MAX 8 /* steps */

typedef struct exg_chain_loops {
    /* What the steps' loops would write one after the other, the last to `out`, which may be any
     * operand; between them values stay in registers. */
    void (*run)(uint32_t count, void *out, const void *a, const exg_chain_step *steps,
                uint32_t step_count, const exg_flow *flow);
} exg_chain_loops;

EXG_LOOPS_DECLARE(exg_chain_loops, exg_loops_chain); /* of f32 */
EXG_LOOPS_DECLARE(exg_chain_loops, exg_loops_chain_bf16);

/* ---- conversions ----------------------------------------------------------------- */

/* `count` elements between memory of a dtype, `stride` elements apart, and a dense
 * array of the dtype's compute type. Stores wrap integers, round to nearest even,
 * and make bool of what is not 0. */
typedef void exg_load_loop(uint32_t count, void *values, const void *memory, int64_t stride);
typedef void exg_store_loop(uint32_t count, void *memory, int64_t stride, const void *values);
/* In place: what storing to the dtype and loading again would give. */
typedef void exg_round_loop(uint32_t count, void *values);
/* A copy past the caches: a line that is written whole is not read first. Others see it after a
 * full fence. */
typedef void exg_copy_loop(void *to, const void *from, size_t bytes);
/* Between compute types; dense arrays that do not overlap. */
typedef void exg_convert_loop(uint32_t count, void *to, const void *from);

typedef struct exg_convert_loops {
    exg_load_loop *load[EXG_DTYPE_COUNT]; /* NULL: no compute type */
    exg_store_loop *store[EXG_DTYPE_COUNT];
    exg_round_loop *round[EXG_DTYPE_COUNT]; /* NULL: the compute type is exact */
    exg_load_loop *load_as_is;              /* elements of two bytes */
    exg_store_loop *store_as_is;
    exg_load_loop *load_bytes;
    exg_load_loop *load_truths; /* bytes as 0 or 1 */
    exg_store_loop *store_bytes;
    /* [to][from]; of bf16 those from f32, which rounds, and to f32 alone */
    exg_convert_loop *convert[EXG_COMPUTE_COUNT][EXG_COMPUTE_COUNT];
    exg_convert_loop *truth[EXG_COMPUTE_COUNT]; /* to int32_t 0 or 1 */
    exg_copy_loop *copy_past_caches;
} exg_convert_loops;

EXG_LOOPS_DECLARE(exg_convert_loops, exg_loops_convert);

/* ---- rows ------------------------------------------------------------------------ */

/* What is asked for meanwhile: the next row, what it is read from and written to, a stretch of
 * so many bytes with every 128 of this row in its type. No address is wrong. */
typedef struct exg_ahead {
    const char *at[2];
    uint32_t bytes[2];
} exg_ahead;

/* Functions of a dense row. Sums run over fixed lanes, each stretch of 4096 elements
 * in the row's type and those in double. max and min give NaN when there is one.
 * ahead: NULL for nothing. What goes past the caches begins a line; others see it after a full
 * fence. */
typedef struct exg_row_f32_loops {
    double (*sum)(int64_t count, const float *x);
    double (*product)(int64_t count, const float *x);
    double (*sum_squares)(int64_t count, const float *x, float mean,
                          const exg_ahead *ahead); /* of x - mean */
    float (*max)(int64_t count, const float *x);
    float (*min)(int64_t count, const float *x);
    float (*peak)(int64_t count, const float *x); /* the greatest, NaN passed over */
    /* y = e^(x - shift), shift not below any x; gives the sum; exp_sum only that */
    double (*exp)(int64_t count, float *y, const float *x, float shift, const exg_ahead *ahead);
    double (*exp_sum)(int64_t count, const float *x, float shift, const exg_ahead *ahead);
    void (*scale)(int64_t count, float *y, const float *x, float factor, bool is_past_caches);
    /* y = (x - first) - second */
    void (*shift)(int64_t count, float *y, const float *x, float first, float second,
                  bool is_past_caches);
    /* The same of elements of rows side by side, each with its own; sums += y, y may be NULL. */
    void (*exp_across)(int64_t count, float *y, const float *x, const float *shift, float *sums);
    void (*scale_across)(int64_t count, float *y, const float *x, const float *factor);
    void (*shift_across)(int64_t count, float *y, const float *x, const float *first,
                         const float *second);
    /* y = (x - mean) * factor * weight + bias; NULL: 1, 0 */
    void (*normalize)(int64_t count, float *y, const float *x, float mean, float factor,
                      const float *weight, const float *bias, bool is_past_caches);
    void (*add)(int64_t count, float *y, const float *x); /* y += x */
    void (*max_of)(int64_t count, float *y, const float *x);
    void (*min_of)(int64_t count, float *y, const float *x);
    /* add, max_of and min_of of `rows` rows in their order, `stride` elements apart */
    void (*add_rows)(int64_t count, float *y, const float *x, int64_t stride, int64_t rows);
    void (*max_rows)(int64_t count, float *y, const float *x, int64_t stride, int64_t rows);
    void (*min_rows)(int64_t count, float *y, const float *x, int64_t stride, int64_t rows);
} exg_row_f32_loops;

typedef struct exg_row_f64_loops {
    double (*sum)(int64_t count, const double *x);
    double (*product)(int64_t count, const double *x);
    double (*sum_squares)(int64_t count, const double *x, double mean, const exg_ahead *ahead);
    double (*max)(int64_t count, const double *x);
    double (*min)(int64_t count, const double *x);
    double (*peak)(int64_t count, const double *x);
    double (*exp)(int64_t count, double *y, const double *x, double shift, const exg_ahead *ahead);
    double (*exp_sum)(int64_t count, const double *x, double shift, const exg_ahead *ahead);
    void (*scale)(int64_t count, double *y, const double *x, double factor, bool is_past_caches);
    void (*shift)(int64_t count, double *y, const double *x, double first, double second,
                  bool is_past_caches);
    void (*exp_across)(int64_t count, double *y, const double *x, const double *shift,
                       double *sums);
    void (*scale_across)(int64_t count, double *y, const double *x, const double *factor);
    void (*shift_across)(int64_t count, double *y, const double *x, const double *first,
                         const double *second);
    void (*normalize)(int64_t count, double *y, const double *x, double mean, double factor,
                      const double *weight, const double *bias, bool is_past_caches);
    void (*add)(int64_t count, double *y, const double *x);
    void (*max_of)(int64_t count, double *y, const double *x);
    void (*min_of)(int64_t count, double *y, const double *x);
    /* add, max_of and min_of of `rows` rows in their order, `stride` elements apart */
    void (*add_rows)(int64_t count, double *y, const double *x, int64_t stride, int64_t rows);
    void (*max_rows)(int64_t count, double *y, const double *x, int64_t stride, int64_t rows);
    void (*min_rows)(int64_t count, double *y, const double *x, int64_t stride, int64_t rows);
} exg_row_f64_loops;

/* Of a row of integers; y op= each of `rows` rows, `stride` elements apart. Sums wrap. */
typedef struct exg_integer_loops {
    int64_t (*sum)(int64_t count, const void *x);
    int64_t (*max)(int64_t count, const void *x);
    int64_t (*min)(int64_t count, const void *x);
    void (*add_rows)(int64_t count, int64_t *y, const void *x, int64_t stride, int64_t rows);
    void (*max_rows)(int64_t count, int64_t *y, const void *x, int64_t stride, int64_t rows);
    void (*min_rows)(int64_t count, int64_t *y, const void *x, int64_t stride, int64_t rows);
    /* y += factors[r] * row r */
    void (*add_products)(int64_t count, int64_t *y, const void *x, int64_t stride, int64_t rows,
                         const int64_t *factors);
} exg_integer_loops;

typedef struct exg_row_integer_loops {
    exg_integer_loops i32, i64;
} exg_row_integer_loops;

/* The same of bf16 where it is, computed in f32 and near enough for bf16. Rows of f32 are in
 * an order of their own, with room for a multiple of 64. */
typedef struct exg_row_bf16_loops {
    double (*sum_squares)(int64_t count, const uint16_t *x, float mean, const exg_ahead *ahead);
    /* of x - about; and their squares */
    double (*sums)(int64_t count, const uint16_t *x, float about, double *squares,
                   const exg_ahead *ahead);
    float (*peak)(int64_t count, const uint16_t *x);
    /* x may be above a shift of 0: a sum past 2^100 or NaN means nothing then */
    double (*exp)(int64_t count, float *y, const uint16_t *x, float shift, const exg_ahead *ahead);
    double (*exp_sum)(int64_t count, const uint16_t *x, float shift, const exg_ahead *ahead);
    void (*scale)(int64_t count, uint16_t *y, const float *x, float factor,
                  bool is_past_caches); /* y may begin where x does */
    void (*shift)(int64_t count, uint16_t *y, const uint16_t *x, float first, float second,
                  bool is_past_caches);
    void (*widen)(int64_t count, float *y, const uint16_t *x);
    /* y += each of the rows, in their own order */
    void (*add_rows)(int64_t count, float *y, const uint16_t *x, int64_t stride, int64_t rows);
    void (*normalize)(int64_t count, uint16_t *y, const uint16_t *x, float mean, float factor,
                      const float *weight, const float *bias, bool is_past_caches);
} exg_row_bf16_loops;

/* ---- scans ------------------------------------------------------------------------------- */

typedef enum exg_scan_type {
    EXG_SCAN_F32,
    EXG_SCAN_F32_IN_F64, /* elements of f32, added up in f64 */
    EXG_SCAN_F64,
    EXG_SCAN_I32,
    EXG_SCAN_I64,
    EXG_SCAN_COUNT
} exg_scan_type;

#define EXG_SCAN_ABREAST 4 /* sums that wait for the one before them, each of another line */

/* Cumulative sums or products of lines that go on from `running`, one value a line in the type
 * that is added in. y may be x. */
typedef struct exg_scan_loop {
    /* one element of each of `lines` lines side by side */
    void (*across)(int64_t lines, void *y, const void *x, void *running);
    /* `count` elements of each of EXG_SCAN_ABREAST dense lines; of one */
    void (*along)(int64_t count, void *const *y, const void *const *x, void *running);
    void (*one)(int64_t count, void *y, const void *x, void *running);
} exg_scan_loop;

typedef struct exg_scan_loops {
    exg_scan_loop of[EXG_SCAN_COUNT][2]; /* [1]: products */
} exg_scan_loops;

EXG_LOOPS_DECLARE(exg_scan_loops, exg_loops_scan);

/* The greatest so far, or the least, and its place: of equal ones the latest; NaN once there is
 * one. y may be x. */
typedef struct exg_running_loop {
    /* element `at` of each of `lines` lines side by side; best and places are theirs */
    void (*across)(int64_t lines, void *y, int64_t *where, const void *x, void *best,
                   int64_t *places, int64_t at);
    /* `count` elements of a dense line, from `at` on */
    void (*along)(int64_t count, void *y, int64_t *where, const void *x, void *best, int64_t *place,
                  int64_t at);
} exg_running_loop;

typedef struct exg_running_loops {
    exg_running_loop of[EXG_COMPUTE_COUNT][2]; /* [1]: the least */
} exg_running_loops;

EXG_LOOPS_DECLARE(exg_running_loops, exg_loops_running);

/* ---- pooling ----------------------------------------------------------------------------- */

/* One tap of `count` windows, whose elements are `stride` apart from x on. */
typedef struct exg_pool_loops {
    /* best = x where that is greater or NaN, and where = its place: place, place + stride, ...;
     * where may be NULL */
    void (*greatest[EXG_COMPUTE_COUNT])(int64_t count, void *best, int64_t *where, const void *x,
                                        int64_t stride, int64_t place);
    void (*add[EXG_COMPUTE_COUNT])(int64_t count, void *sum, const void *x, int64_t stride);
} exg_pool_loops;

EXG_LOOPS_DECLARE(exg_pool_loops, exg_loops_pool);

/* ---- Fourier transforms -------------------------------------------------------------- */

typedef enum exg_fft_type { EXG_FFT_F32, EXG_FFT_F64, EXG_FFT_TYPES } exg_fft_type;

#define EXG_FFT_FACTORS 64
#define EXG_FFT_RADIX   31 /* the greatest factor */
#define EXG_FFT_LINES   16 /* side by side, at most */

/* A transform of n values, a pass for each of its factors. */
typedef struct exg_fft_passes {
    int64_t n, count;
    int64_t factors[EXG_FFT_FACTORS];
    const void *w; /* e^(-2 pi i k / n), pairs of the type */
} exg_fft_passes;

/* Of value k of line i the real part is at lines[i] + k * step numbers, the imaginary one `im`
 * further on, 0: there is none. */
typedef struct exg_fft_memory {
    void *lines[EXG_FFT_LINES];
    int64_t step, im;
    int64_t apart; /* numbers from each line to the next where that is the same; 0: it is not */
} exg_fft_memory;

/* Of `lines` lines side by side, of which a value is the real part of each, then the imaginary
 * ones: pairs of vectors. */
typedef struct exg_fft_loops {
    uint32_t lines;
    /* imaginary parts times `sign`, 1 or -1 */
    void (*load)(int64_t count, const exg_fft_memory *m, double sign, void *x);
    void (*store)(int64_t count, const exg_fft_memory *m, double scale, double sign, const void *x);
    /* x and y have n values; gives the one that holds the result. */
    void *(*transform)(const exg_fft_passes *f, void *x, void *y);
    /* Real numbers, two and two as complex ones: what `half` values were transformed to becomes
     * half + 1 values of the transform, and the conjugates of the way back. `turns` are
     * e^(-2 pi i k / (2 half)), pairs of the type. */
    void (*from_half)(int64_t half, const void *turns, const void *z, void *y);
    void (*to_half)(int64_t half, const void *turns, const void *y, void *z);
} exg_fft_loops;

typedef struct exg_fft_table {
    const exg_fft_loops *of[EXG_FFT_TYPES][2]; /* [0]: of one line */
} exg_fft_table;

EXG_LOOPS_DECLARE(exg_fft_table, exg_loops_fft);

/* ---- matrix products ---------------------------------------------------------------- */

#define EXG_GEMM_K              256  /* depth of a packed block of reals */
#define EXG_GEMM_AXPY_COLUMNS   4096 /* of one row that is in the first cache while b passes */
#define EXG_GEMM_DIRECT_COLUMNS 96   /* of b: few enough not to pack A of reals for them */

/* A panel is `width` rows of A (or columns of B) over a depth, zeros where there are fewer, so many
 * elements that a width of 1 would be whole groups of the depth. B's holds cells, `cell` elements
 * of one column, `side` columns side by side:
 *
 *   [depth / group, rounded up][columns / side][group / cell][side][cell]
 *
 * Strides count elements of `dtype`. */
typedef struct exg_gemm_loops {
    uint32_t real_bytes;  /* of c */
    uint32_t panel_bytes; /* of an element in panels */
    uint32_t group;
    uint32_t depth;      /* of a packed block at most, a multiple of the group; no row of one
                          * takes more than EXG_GEMM_K doubles */
    uint32_t rows;       /* width of A's panels */
    uint32_t columns;    /* of B's */
    uint32_t side, cell; /* of B's, as above */
    uint32_t lanes;      /* reals of a vector */
    uint32_t whole;      /* rows and columns of c are best multiples of */
    /* Rows of A are read where they are by up to so many columns of B, if they are whole and of
     * whole groups and the bytes from one to the next are no multiple of the sets'; 0: never. */
    uint32_t direct_columns, direct_sets;
    /* Packs `count` rows of A (or columns of B) of depth k into panels of `width`. */
    void (*pack)(uint32_t width, int64_t count, int64_t depth, void *panels, const void *memory,
                 exg_dtype dtype, int64_t stride, int64_t depth_stride);
    /* One panel of A from `rows` dense rows of what panels hold. */
    void (*pack_rows)(int64_t depth, void *panel, const void *const *rows);
    /* c (m, n) = or += a block of A times a packed one of B; row stride of c in elements. A is
     * packed (a_stride 0), or rows dense along the depth, where they are.
     * Where it does not add, each row begins with `start`, n reals or NULL. `next`: the panel that
     * will be read after these, which are far, or NULL: they are near; where A's rows are read in
     * place, those that will be, which follow one another. */
    void (*block)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t a_stride,
                  const void *b, void *c, int64_t c_stride, bool adds, const void *start,
                  const void *next);
    /* `to` (columns, rows) = what is in `from` (rows, columns), whole tiles there, transposed;
     * strides in elements. NULL: products are not turned. */
    void (*turn)(int64_t rows, int64_t columns, const float *from, int64_t from_stride, float *to,
                 int64_t to_stride);
    /* block() of f32 with b in bf16, for few rows. */
    void (*block_bf16)(int64_t m, int64_t n, int64_t depth, const void *a, const void *b, float *c,
                       int64_t c_stride, bool adds);
    /* The same with b in memory, (depth, n) dense along n: for few rows. Panels of A are
     * `width` wide, `stream_rows` at most. */
    void (*stream)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t width, const void *b,
                   int64_t b_stride, void *c, int64_t c_stride, bool adds);
    uint32_t stream_rows;
    /* c (m, n) = a (m, depth) times b (n, depth) transposed, both dense along depth;
     * a of the real type, b of `dtype`. For few rows, which need no packing. */
    void (*dot)(int64_t m, int64_t n, int64_t depth, const void *a, int64_t a_stride, const void *b,
                exg_dtype dtype, int64_t b_stride, void *c, int64_t c_stride);
    /* c (n) = a (depth) times b (depth, n), dense along n. */
    void (*axpy)(int64_t n, int64_t depth, const void *a, const void *b, exg_dtype dtype,
                 int64_t b_stride, void *c);
} exg_gemm_loops;

EXG_LOOPS_DECLARE(exg_gemm_loops, exg_loops_gemm_f32);
EXG_LOOPS_DECLARE(exg_gemm_loops, exg_loops_gemm_f64);

/* Products of bf16 summed in f32; packs bf16, and f32 dense along the depth, which it rounds.
 * Has no loops for few rows. */
EXG_LOOPS_DECLARE_PAIRS(exg_gemm_loops, exg_loops_gemm_pairs);

/* Products of bytes, signed or not, summed in int32, which wraps. A panel holds groups of
 * the depth, [depth / group, rounded up][width][group], zeros where there are fewer, and what
 * block() may want beside them; A's and B's. */
typedef struct exg_gemm_bytes_loops {
    uint32_t rows;      /* width of A's panels */
    uint32_t columns;   /* of B's */
    uint32_t group;     /* a power of two */
    uint32_t depth;     /* of a packed block at most, a multiple of the group */
    uint32_t a_bytes;   /* of an element in A's panels; one in B's */
    uint32_t sum_bytes; /* beside the elements of one row or column */
    void (*pack_a)(int64_t count, int64_t depth, void *panels, const void *memory, bool is_signed,
                   int64_t stride, int64_t depth_stride);
    void (*pack_b)(int64_t count, int64_t depth, void *panels, const void *memory, bool is_signed,
                   int64_t stride, int64_t depth_stride);
    /* c (m, n) = or += a times b, in room for whole panels. */
    void (*block)(int64_t m, int64_t n, int64_t depth, const void *a, bool a_is_signed,
                  const void *b, bool b_is_signed, int32_t *c, int64_t c_stride, bool adds);
} exg_gemm_bytes_loops;

EXG_LOOPS_DECLARE_BYTES(exg_gemm_bytes_loops, exg_loops_gemm_bytes);

/* ---- products by weights of fewer bits ----------------------------------------------------- */

typedef enum exg_weight_form {
    EXG_WEIGHT_I8,
    EXG_WEIGHT_U8,
    EXG_WEIGHT_F8,     /* float8_e4m3fn */
    EXG_WEIGHT_HALVES, /* of a byte: 0 ... 15 */
    EXG_WEIGHT_FORMS
} exg_weight_form;

/* Half bytes come in blocks: element k of one is bits 4 EXG_WEIGHT_PLACE(k / 16) on of its 32-bit
 * word k % 16, little-endian, so that 16-bit words hold neighbours of groups of 32. A row is whole
 * blocks. */
#define EXG_WEIGHT_BLOCK       128
#define EXG_WEIGHT_LANES       16
#define EXG_WEIGHT_PLACE(part) ((part) / 2 + (part) % 2 * 4)

/* Rows of a weight, `stride` bytes apart: element k is (what is there + low) times the scale of its
 * group, plus the group's shift. */
typedef struct exg_weight {
    const char *bytes;
    int64_t stride;
    int64_t depth, groups; /* of as many elements each; of half bytes whole 16 */
    float low;             /* 0 of float8 */
    const float *scales;   /* (rows, groups); as it is widened NULL too: 1 */
    const float *shifts;   /* or NULL: 0 */
} exg_weight;

/* What is multiplied, dense along the depth; by half bytes zeros follow up to a whole block. */
typedef struct exg_weight_rows {
    const float *data;
    int64_t stride;
    const float *sums; /* (rows, groups) of the elements, where the weight has shifts */
} exg_weight_rows;

typedef struct exg_weight_loops {
    /* c (m, n) = x (m, depth) times the weight's first n rows transposed; for few rows of x */
    void (*dot[EXG_WEIGHT_FORMS])(const exg_weight *w, int64_t m, int64_t n,
                                  const exg_weight_rows *x, float *c, int64_t c_stride);
    /* `count` elements of row j from `first` on */
    void (*widen[EXG_WEIGHT_FORMS])(const exg_weight *w, int64_t j, int64_t first, int64_t count,
                                    float *y);
    void (*widen_bf16[EXG_WEIGHT_FORMS])(const exg_weight *w, int64_t j, int64_t first,
                                         int64_t count, uint16_t *y);
} exg_weight_loops;

EXG_LOOPS_DECLARE(exg_weight_loops, exg_loops_weight);

/* Rows of bf16 by half bytes that mean numbers bf16 holds. */
typedef struct exg_weight_pairs {
    /* of a block's element k: at 32 (p / 2) + 2 (k % 16) + p % 2, p = k / 16; zeros follow */
    const uint16_t *data;
    int64_t stride; /* whole blocks */
    const float *sums;
} exg_weight_pairs;

typedef struct exg_weight_pairs_loops {
    /* The same; groups are of whole 32 elements, or there is one. */
    void (*dot_halves)(const exg_weight *w, int64_t m, int64_t n, const exg_weight_pairs *x,
                       float *c, int64_t c_stride);
} exg_weight_pairs_loops;

EXG_LOOPS_DECLARE_BF16(exg_weight_pairs_loops, exg_loops_weight_pairs);

typedef struct exg_row_bytes_loops {
    /* y += factor * x, of bytes signed or not; sums wrap */
    void (*add_scaled)(int64_t count, int32_t *y, const void *x, bool is_signed, int32_t factor);
} exg_row_bytes_loops;

EXG_LOOPS_DECLARE(exg_row_bytes_loops, exg_loops_row_bytes);

EXG_LOOPS_DECLARE(exg_row_f32_loops, exg_loops_row_f32);
EXG_LOOPS_DECLARE(exg_row_f64_loops, exg_loops_row_f64);
EXG_LOOPS_DECLARE(exg_row_bf16_loops, exg_loops_row_bf16);
EXG_LOOPS_DECLARE(exg_row_integer_loops, exg_loops_row_integer);

/* ---- recurrent layers ------------------------------------------------------------------ */

typedef enum exg_cell {
    EXG_CELL_TANH,
    EXG_CELL_RELU,
    EXG_CELL_LSTM,
    EXG_CELL_GRU,
    EXG_CELL_COUNT
} exg_cell;

/* One row of a step of n units (cell.h): h and c (of an LSTM) are replaced. */
typedef void exg_cell_loop(int64_t n, const void *x, const void *s, const void *bias, void *h,
                           void *c);

typedef struct exg_recurrent_loops {
    exg_cell_loop *f32[EXG_CELL_COUNT];
    exg_cell_loop *f64[EXG_CELL_COUNT];
} exg_recurrent_loops;

EXG_LOOPS_DECLARE(exg_recurrent_loops, exg_loops_recurrent);

/* ---- convolutions of 3 by 3 ----------------------------------------------------------- */

/* Winograd's transforms of one tile, channels side by side. */
typedef struct exg_winograd_loops {
    /* Channels of 4 by 4 pixels to the 16 factors, `stride` apart. */
    void (*spread)(int64_t count, float *factors, int64_t stride, const float *const *pixels);
    /* 16 products, `stride` apart, to 2 by 2 results that begin with `start`; whether all
     * are finite. */
    bool (*gather)(int64_t count, float *const *results, const float *products, int64_t stride,
                   const float *start);
} exg_winograd_loops;

EXG_LOOPS_DECLARE(exg_winograd_loops, exg_loops_winograd);

#endif
