/* move.c - boxes of elements from any strides to any strides, by element size.
 *
 * Dimensions are ordered by the strides of dst and merged. When src runs along
 * another dimension than dst, those two are walked in square tiles, so that both
 * sides use whole cache lines.
 */
#include "libexec/kernels/cpu/common.h"
#include "libexec/kernels/stream.h"

#define TILE      64   /* rows of a transposed task */
#define ASKED_MAX 8192 /* bytes of a row that is asked for before it is read */

/* Of any alignment: some are several of a tensor's. */
typedef uint16_t element2 __attribute__((aligned(1), may_alias));
typedef uint32_t element4 __attribute__((aligned(1), may_alias));
typedef uint64_t element8 __attribute__((aligned(1), may_alias));
typedef struct element16 {
    element8 halves[2];
} element16;

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Moves dimension `from` in front of `to` < from. */
static void rotate_dims(exg_move *m, uint32_t from, uint32_t to)
{
    int64_t *arrays[] = {m->sizes, m->dst_strides, m->src_strides};

    for (uint32_t a = 0; a < 3; a++) {
        int64_t kept = arrays[a][from];

        memmove(&arrays[a][to + 1], &arrays[a][to], (from - to) * sizeof(int64_t));
        arrays[a][to] = kept;
    }
}

static void swap_dims(exg_move *m, uint32_t a, uint32_t b)
{
    int64_t *arrays[] = {m->sizes, m->dst_strides, m->src_strides};

    for (uint32_t k = 0; k < 3; k++) {
        int64_t kept = arrays[k][a];

        arrays[k][a] = arrays[k][b];
        arrays[k][b] = kept;
    }
}

/* Elements that are together on both sides move as one, of up to 16 bytes. */
static void widen(exg_move *m)
{
    while (m->rank > 1 && m->dst_strides[m->rank - 1] == m->element_bytes &&
           m->src_strides[m->rank - 1] == m->element_bytes && m->sizes[m->rank - 1] <= 16 &&
           16 % (m->sizes[m->rank - 1] * m->element_bytes) == 0) {
        m->element_bytes *= (uint32_t)m->sizes[--m->rank];
    }
}

static void sort_and_merge(exg_move *m)
{
    uint32_t rank = 0;

    for (uint32_t d = 1; d < m->rank; d++) {
        uint32_t to = d;

        while (to > 0 && magnitude(m->dst_strides[to - 1]) < magnitude(m->dst_strides[d])) {
            to--;
        }
        rotate_dims(m, d, to);
    }
    for (uint32_t d = 0; d < m->rank; d++) {
        if (rank > 0 && m->dst_strides[rank - 1] == m->dst_strides[d] * m->sizes[d] &&
            m->src_strides[rank - 1] == m->src_strides[d] * m->sizes[d]) {
            m->sizes[rank - 1] *= m->sizes[d];
        } else {
            m->sizes[rank] = m->sizes[d];
            rank++;
        }
        m->dst_strides[rank - 1] = m->dst_strides[d];
        m->src_strides[rank - 1] = m->src_strides[d];
    }
    m->rank = rank;
}

/* Puts the dimension src runs along next to the last one. */
static void find_transpose(exg_move *m)
{
    uint32_t last = m->rank - 1;
    uint32_t best = last;

    if (m->dst_strides[last] != m->element_bytes || m->src_strides[last] == m->element_bytes ||
        m->src_strides[last] == 0) {
        return;
    }
    for (uint32_t d = 0; d < last; d++) {
        if (m->src_strides[d] == m->element_bytes) {
            best = d;
        }
    }
    if (best != last && m->sizes[best] >= 4 && m->sizes[last] >= 4) {
        swap_dims(m, best, last - 1);
        m->is_transposed = true;
    }
}

/* How far from a row the one is that is read in a while, if dense rows do not follow one another,
 * which processors would foresee; else 0. */
static int64_t ahead_of(const exg_move *m)
{
    const uint32_t last = m->rank - 1;
    const int64_t row = m->sizes[last] * m->element_bytes;

    if (m->is_transposed || last == 0 || m->src_strides[last] != m->element_bytes ||
        m->src_strides[last - 1] == row) {
        return 0;
    }
    return m->src_strides[last - 1] * exg_ceil_div(ASKED_MAX, row);
}

void exg_move_plan(exg_move *move, uint32_t rank, const int64_t *sizes, const int64_t *dst_strides,
                   const int64_t *src_strides, uint32_t element_bytes)
{
    int64_t numel = 1;

    memset(move, 0, sizeof(*move));
    move->element_bytes = element_bytes;
    for (uint32_t d = 0; d < rank; d++) {
        numel *= sizes[d];
        if (sizes[d] != 1) {
            move->sizes[move->rank] = sizes[d];
            move->dst_strides[move->rank] = dst_strides[d] * element_bytes;
            move->src_strides[move->rank] = src_strides[d] * element_bytes;
            move->rank++;
        }
    }
    if (numel == 0) {
        return; /* no blocks */
    }
    sort_and_merge(move);
    if (move->rank == 0) {
        move->rank = 1;
        move->sizes[0] = 1;
        move->dst_strides[0] = element_bytes;
        move->src_strides[0] = element_bytes;
    }
    widen(move);
    numel = numel * element_bytes / move->element_bytes;
    find_transpose(move);
    if (move->rank == 1 && numel > 2 * EXG_GRAIN) {
        /* a line long enough for several threads: rows of a fixed length, and a rest */
        move->rows = exg_ceil_div(numel, EXG_GRAIN);
        move->rows_of_block = 1;
    } else {
        int64_t row = move->sizes[move->rank - 1];

        move->rows = numel / row;
        if (move->is_transposed) {
            row *= TILE;
            move->rows = numel / move->sizes[move->rank - 1] / move->sizes[move->rank - 2] *
                         exg_ceil_div(move->sizes[move->rank - 2], TILE);
        }
        move->rows_of_block = exg_items_per_block(row, EXG_GRAIN);
    }
    move->block_count = exg_block_count(move->rows, move->rows_of_block);
    move->asked_ahead = ahead_of(move);
}

#define DEFINE_ROW(type, name)                                                                     \
    static void row_##name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,     \
                           int64_t count)                                                          \
    {                                                                                              \
        if (src_stride == 0 && dst_stride == (int64_t)sizeof(type)) {                              \
            const type value = *(const type *)src;                                                 \
            for (int64_t i = 0; i < count; i++) {                                                  \
                ((type *)dst)[i] = value;                                                          \
            }                                                                                      \
        } else if (src_stride == -(int64_t)sizeof(type) && dst_stride == (int64_t)sizeof(type)) {  \
            const type *from = (const type *)src - (count - 1);                                    \
            type *to = (type *)dst;                                                                \
                                                                                                   \
            exg_ask(from + count, EXG_MIN(count * (int64_t)sizeof(type), ASKED_MAX));              \
            EXG_INDEPENDENT                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                  \
                to[i] = from[count - 1 - i];                                                       \
            }                                                                                      \
        } else {                                                                                   \
            int64_t i = 0;                                                                         \
                                                                                                   \
            for (; i + 4 <= count; i += 4) { /* one by one, a loop is what takes the time */       \
                const type a = *(const type *)src, b = *(const type *)(src + src_stride);          \
                const type c = *(const type *)(src + 2 * src_stride);                              \
                const type d = *(const type *)(src + 3 * src_stride);                              \
                                                                                                   \
                *(type *)dst = a;                                                                  \
                *(type *)(dst + dst_stride) = b;                                                   \
                *(type *)(dst + 2 * dst_stride) = c;                                               \
                *(type *)(dst + 3 * dst_stride) = d;                                               \
                src += 4 * src_stride;                                                             \
                dst += 4 * dst_stride;                                                             \
            }                                                                                      \
            for (; i < count; i++, src += src_stride, dst += dst_stride) {                         \
                *(type *)dst = *(const type *)src;                                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* a part of a tile that is no whole square */                                                 \
    static void part_##name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,    \
                            int64_t rows, int64_t columns)                                         \
    {                                                                                              \
        for (int64_t i = 0; i < rows; i++) {                                                       \
            type *to = (type *)(dst + i * dst_stride);                                             \
                                                                                                   \
            for (int64_t j = 0; j < columns; j++) {                                                \
                to[j] = ((const type *)(src + j * src_stride))[i];                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    /* dst (rows, columns) with columns dense, src the other way around: squares are               \
     * turned in a buffer, so that each side is read and written in whole cache lines */           \
    static void tile_##name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,    \
                            int64_t rows, int64_t columns)                                         \
    {                                                                                              \
        enum { side = 64 / sizeof(type) < 16 ? 16 : 64 / sizeof(type) };                           \
        type square[side][side];                                                                   \
                                                                                                   \
        for (int64_t j = 0; j < columns; j += side) {                                              \
            for (int64_t i = 0; i < rows; i += side) {                                             \
                char *to = dst + i * dst_stride + j * (int64_t)sizeof(type);                       \
                const char *from = src + j * src_stride + i * (int64_t)sizeof(type);               \
                                                                                                   \
                if (rows - i < side || columns - j < side) {                                       \
                    part_##name(to, dst_stride, from, src_stride, EXG_MIN(rows - i, side),         \
                                EXG_MIN(columns - j, side));                                       \
                    continue;                                                                      \
                }                                                                                  \
                turn_##name(side, square[0], from, src_stride);                                    \
                for (int64_t k = 0; k < side; k++) {                                               \
                    memcpy(to + k * dst_stride, square[k], sizeof(square[k]));                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define DEFINE_TURN(type, name)                                                                    \
    /* square[i][j] = element i of row j */                                                        \
    static void turn_##name(int64_t side, type *square, const char *src, int64_t src_stride)       \
    {                                                                                              \
        for (int64_t j = 0; j < side; j++) {                                                       \
            for (int64_t i = 0; i < side; i++) {                                                   \
                square[i * side + j] = ((const type *)(src + j * src_stride))[i];                  \
            }                                                                                      \
        }                                                                                          \
    }

typedef uint32_t four __attribute__((vector_size(16), aligned(1), may_alias));
typedef int32_t pick_four __attribute__((vector_size(16)));

#if defined(__clang__)
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE4(a, b, i, j, k, l) __builtin_shuffle(a, b, (pick_four){i, j, k, l})
#endif

/* Four by four in registers. */
static void turn_4(int64_t side, element4 *square, const char *src, int64_t src_stride)
{
    for (int64_t j = 0; j < side; j += 4) {
        const char *rows = src + j * src_stride;

        for (int64_t i = 0; i < side; i += 4) {
            four a = *(const four *)(rows + i * 4);
            four b = *(const four *)(rows + src_stride + i * 4);
            four c = *(const four *)(rows + 2 * src_stride + i * 4);
            four d = *(const four *)(rows + 3 * src_stride + i * 4);
            four ab_low = SHUFFLE4(a, b, 0, 4, 1, 5);
            four ab_high = SHUFFLE4(a, b, 2, 6, 3, 7);
            four cd_low = SHUFFLE4(c, d, 0, 4, 1, 5);
            four cd_high = SHUFFLE4(c, d, 2, 6, 3, 7);

            *(four *)(square + i * side + j) = SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5);
            *(four *)(square + (i + 1) * side + j) = SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7);
            *(four *)(square + (i + 2) * side + j) = SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5);
            *(four *)(square + (i + 3) * side + j) = SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7);
        }
    }
}

typedef uint16_t eight __attribute__((vector_size(16), aligned(1), may_alias));
typedef int16_t pick_eight __attribute__((vector_size(16)));

#if defined(__clang__)
#define SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (pick_eight){__VA_ARGS__})
#endif
#define LOW8(a, b)  SHUFFLE8(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH8(a, b) SHUFFLE8(a, b, 4, 12, 5, 13, 6, 14, 7, 15)

/* Eight by eight: three times vectors are interleaved with those four further on. */
static void turn_2(int64_t side, element2 *square, const char *src, int64_t src_stride)
{
    for (int64_t j = 0; j < side; j += 8) {
        for (int64_t i = 0; i < side; i += 8) {
            eight v[8];

            for (int64_t k = 0; k < 8; k++) {
                v[k] = *(const eight *)(src + (j + k) * src_stride + i * 2);
            }
            for (int times = 0; times < 3; times++) {
                eight from[8];

                memcpy(from, v, sizeof(v));
                for (int64_t k = 0; k < 4; k++) {
                    v[2 * k] = LOW8(from[k], from[k + 4]);
                    v[2 * k + 1] = HIGH8(from[k], from[k + 4]);
                }
            }
            for (int64_t k = 0; k < 8; k++) {
                *(eight *)(square + (i + k) * side + j) = v[k];
            }
        }
    }
}

DEFINE_TURN(uint8_t, 1)
DEFINE_TURN(element8, 8)
DEFINE_TURN(element16, 16)

DEFINE_ROW(uint8_t, 1)
DEFINE_ROW(element2, 2)
DEFINE_ROW(element4, 4)
DEFINE_ROW(element8, 8)
DEFINE_ROW(element16, 16)

static void move_row(uint32_t bytes, char *dst, int64_t dst_stride, const char *src,
                     int64_t src_stride, int64_t count)
{
    if (dst_stride == bytes && src_stride == bytes) {
        memcpy(dst, src, (size_t)count * bytes);
        return;
    }
    switch (bytes) {
    case 1:
        row_1(dst, dst_stride, src, src_stride, count);
        break;
    case 2:
        row_2(dst, dst_stride, src, src_stride, count);
        break;
    case 4:
        row_4(dst, dst_stride, src, src_stride, count);
        break;
    case 8:
        row_8(dst, dst_stride, src, src_stride, count);
        break;
    default:
        row_16(dst, dst_stride, src, src_stride, count);
    }
}

static void move_tile(uint32_t bytes, char *dst, int64_t dst_stride, const char *src,
                      int64_t src_stride, int64_t rows, int64_t columns)
{
    switch (bytes) {
    case 1:
        tile_1(dst, dst_stride, src, src_stride, rows, columns);
        break;
    case 2:
        tile_2(dst, dst_stride, src, src_stride, rows, columns);
        break;
    case 4:
        tile_4(dst, dst_stride, src, src_stride, rows, columns);
        break;
    case 8:
        tile_8(dst, dst_stride, src, src_stride, rows, columns);
        break;
    default:
        tile_16(dst, dst_stride, src, src_stride, rows, columns);
    }
}

typedef struct move_run {
    const exg_move *m;
    char *dst;
    const char *src;
} move_run;

/* A line cut into equal pieces. */
static void move_line(const move_run *r, uint32_t block)
{
    const exg_move *m = r->m;
    int64_t first = (int64_t)block * EXG_GRAIN;
    int64_t count = EXG_MIN(m->sizes[0] - first, EXG_GRAIN);

    move_row(m->element_bytes, r->dst + first * m->dst_strides[0], m->dst_strides[0],
             r->src + first * m->src_strides[0], m->src_strides[0], count);
}

static void move_block(void *context, uint32_t block)
{
    const move_run *r = context;
    const exg_move *m = r->m;
    uint32_t last = m->rank - 1;
    uint32_t walked = last - (m->is_transposed ? 1 : 0); /* dimensions walked by index */
    int64_t tiles = m->is_transposed ? exg_ceil_div(m->sizes[last - 1], TILE) : 1;
    int64_t first = (int64_t)block * m->rows_of_block;
    int64_t end = EXG_MIN(first + m->rows_of_block, m->rows);
    int64_t index[EXG_RANK_MAX];
    char *dst = r->dst;
    const char *src = r->src;
    int64_t rest = first / tiles;

    if (m->rank == 1 && m->rows > 1) {
        move_line(r, block);
        return;
    }
    for (uint32_t d = walked; d-- > 0; rest /= m->sizes[d]) {
        index[d] = rest % m->sizes[d];
        dst += index[d] * m->dst_strides[d];
        src += index[d] * m->src_strides[d];
    }
    for (int64_t row = first; row < end; row++) {
        if (m->asked_ahead != 0) {
            exg_ask_far(src + m->asked_ahead,
                        EXG_MIN(m->sizes[last] * m->element_bytes, ASKED_MAX));
        }
        if (m->is_transposed) {
            int64_t i = row % tiles * TILE;

            move_tile(m->element_bytes, dst + i * m->dst_strides[last - 1],
                      m->dst_strides[last - 1], src + i * m->element_bytes, m->src_strides[last],
                      EXG_MIN(m->sizes[last - 1] - i, TILE), m->sizes[last]);
            if (row % tiles != tiles - 1) {
                continue; /* the next tile of the same matrix */
            }
        } else {
            move_row(m->element_bytes, dst, m->dst_strides[last], src, m->src_strides[last],
                     m->sizes[last]);
        }
        for (uint32_t d = walked; d-- > 0;) {
            dst += m->dst_strides[d];
            src += m->src_strides[d];
            if (++index[d] < m->sizes[d]) {
                break;
            }
            dst -= m->sizes[d] * m->dst_strides[d];
            src -= m->sizes[d] * m->src_strides[d];
            index[d] = 0;
        }
    }
}

void exg_move_run(const exg_move *move, exg_pool *pool, void *dst, const void *src)
{
    move_run r = {move, dst, src};

    exg_pool_run(pool, move_block, &r, move->block_count);
}

void exg_fill(void *dst, const void *value, int64_t count, uint32_t bytes)
{
    move_row(bytes, dst, bytes, value, 0, count);
}

/* ---- copy ------------------------------------------------------------------------ */

static exg_status copy_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *in = &call->inputs[0];
    const exg_tensor *out = &call->outputs[0];
    exg_move *move = EXG_NEW(call->arena, exg_move);

    if (move == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_move_plan(move, in->rank, in->sizes, out->strides, in->strides, exg_dtype_bytes(in->dtype));
    call->params = move;
    return EXG_OK;
}

static void copy_run(const exg_kernel_call *call)
{
    exg_move_run(call->params, call->pool, call->outputs[0].data, call->inputs[0].data);
}

const exg_kernel exg_kernel_copy = {
    .name = "copy",
    .prepare = copy_prepare,
    .run = copy_run,
    .flags = EXG_KERNEL_ANY_STRIDES,
};
