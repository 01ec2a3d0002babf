/* convolution_bytes.c - exg.convolution_of_bytes: aten.convolution of int8 or uint8, summed in
 * int32; x, padded by its zero point p, and w with a zero q a filter:
 *
 *   y = bias + sum w x - q (sum x - depth p)       with bias = -p sum w: sum (x - p) (w - q)
 *
 * A channel is first copied into a frame, with what it is padded by around it; of a stride s as
 * s frames a dimension, of which frame p holds every s-th element from p on. What a tap reads for
 * neighbouring results is side by side there:
 *
 *   frame (phases[0], phases[1], phases[2], frame[0], frame[1], frame[2])
 *
 * Then, per image and group, result (out, positions) = weight (out, in * taps) times columns
 * (in * taps, positions), in the loops of gemm_bytes.c: a task is a tile of positions, whose
 * columns it gathers, a block of the depth after the other. Groups of one channel go tap by tap
 * over rows of the frame instead.
 */
#include "libexec/kernels/cpu/convolution.h"

#include <assert.h>

#define TILE      96   /* positions; a multiple of every panel */
#define DEPTH_MAX 1024 /* of a block */
#define ROWS_MAX  256  /* of the weight that a task goes through */
#define TASKS     8    /* so many share the work without parts of the weight */
#define CHUNK     16   /* bytes copied at a time */
#define STEP      128  /* between rows of columns: TILE and what is copied too much */
#define ROW       1024 /* sums of a groups' one channel at a time */

typedef struct bytes_convolution {
    convolution c;
    const exg_gemm_bytes_loops *loops;
    const exg_row_bytes_loops *row_loops;
    exg_matrix weight; /* of one group */
    int64_t depth;     /* in * taps */
    int32_t zero;      /* what the padding holds */
    bool is_framed, is_packed, has_zeros;
    int64_t phases[3], frame[3];
    int64_t frame_bytes;        /* of a channel, all phases */
    int64_t *taps;              /* where in it a tap reads for the first position */
    int64_t rows, parts, tiles; /* of a task; how often those and TILE make the whole */
    bool shares;                /* tasks read the same columns: they are packed before */
    uint64_t panels_offset;     /* in the workspace: the weight's panels, where it is not packed */
    uint64_t ready_offset;      /* the columns', where tasks share them */
} bytes_convolution;

typedef struct bytes_run {
    const bytes_convolution *k;
    const uint8_t *image, *weight;
    uint8_t *frames;
    const char *panels;          /* of the weight */
    char *ready;                 /* of the columns; NULL: every task packs its own */
    const int32_t *bias, *zeros; /* NULL: of 0 */
    int32_t *result;
} bytes_run;

/* Positions side by side in one row of the result: where in the columns, and in a frame. */
typedef struct stretch {
    int64_t to, from, count;
} stretch;

/* ---- frames ---------------------------------------------------------------------------- */

/* One row of a frame that holds the padding, of the last dimension's phase p, from an image row. */
static void frame_row(const bytes_convolution *k, uint8_t *to, const uint8_t *row, int64_t p)
{
    const convolution *c = &k->c;
    const int64_t step = c->stride[2];
    int64_t before = step == 1 ? c->padding[2] : exg_ceil_div(EXG_MAX(c->padding[2] - p, 0), step);
    int64_t from = before * step + p - c->padding[2];
    int64_t count = step == 1 ? c->size[2] : exg_ceil_div(c->size[2] - from, step);

    count = EXG_MIN(count, k->frame[2] - before);
    if (step == 1 && count > 0) {
        memcpy(to + before, row + from, (size_t)count);
    }
    for (int64_t x = 0; x < count && step > 1; x++) {
        to[before + x] = row[from + x * step];
    }
}

/* The frame of one phase, which holds the padding. */
static void frame_phase(const bytes_convolution *k, uint8_t *to, const uint8_t *image,
                        const int64_t *phase)
{
    const convolution *c = &k->c;

    for (int64_t z = 0; z < k->frame[0]; z++) {
        for (int64_t y = 0; y < k->frame[1]; y++, to += k->frame[2]) {
            int64_t plane = z * c->stride[0] + phase[0] - c->padding[0];
            int64_t row = y * c->stride[1] + phase[1] - c->padding[1];

            if (plane >= 0 && plane < c->size[0] && row >= 0 && row < c->size[1]) {
                frame_row(k, to, image + (plane * c->size[1] + row) * c->size[2], phase[2]);
            }
        }
    }
}

static void frame_channel(void *context, uint32_t channel)
{
    const bytes_run *r = context;
    const bytes_convolution *k = r->k;
    const uint8_t *image = r->image + channel * k->c.plane;
    uint8_t *to = r->frames + channel * k->frame_bytes;
    int64_t phase[3];

    memset(to, k->zero, (size_t)k->frame_bytes);
    for (phase[0] = 0; phase[0] < k->phases[0]; phase[0]++) {
        for (phase[1] = 0; phase[1] < k->phases[1]; phase[1]++) {
            for (phase[2] = 0; phase[2] < k->phases[2]; phase[2]++) {
                frame_phase(k, to, image, phase);
                to += k->frame[0] * k->frame[1] * k->frame[2];
            }
        }
    }
}

/* ---- tiles ------------------------------------------------------------------------------ */

/* Positions [j, j + columns) as stretches; gives their number. */
static uint32_t cut(const bytes_convolution *k, int64_t j, int64_t columns, stretch *stretches)
{
    const int64_t *result = k->c.result;
    uint32_t count = 0;

    for (int64_t at = 0; at < columns; at += stretches[count++].count) {
        int64_t x = (j + at) % result[2];
        int64_t y = (j + at) / result[2] % result[1];
        int64_t z = (j + at) / result[2] / result[1];

        stretches[count] = (stretch){at, (z * k->frame[1] + y) * k->frame[2] + x,
                                     EXG_MIN(result[2] - x, columns - at)};
    }
    return count;
}

/* `chunks` of every row, from `from` on; what they hold too many the next stretch goes over. */
static inline __attribute__((always_inline)) void copy_chunks(const int chunks, int64_t depth,
                                                              uint8_t *to,
                                                              const uint8_t *const *rows,
                                                              int64_t from)
{
    for (int64_t d = 0; d < depth; d++, to += STEP) {
        for (int i = 0; i < chunks; i++) {
            memcpy(to + i * CHUNK, rows[d] + from + i * CHUNK, CHUNK);
        }
    }
}

static void copy_stretch(const stretch *s, int64_t depth, uint8_t *columns,
                         const uint8_t *const *rows)
{
    uint8_t *to = columns + s->to;

    switch ((s->count + CHUNK - 1) / CHUNK) {
    case 1:
        copy_chunks(1, depth, to, rows, s->from);
        break;
    case 2:
        copy_chunks(2, depth, to, rows, s->from);
        break;
    case 3:
        copy_chunks(3, depth, to, rows, s->from);
        break;
    case 4:
        copy_chunks(4, depth, to, rows, s->from);
        break;
    default:
        copy_chunks(TILE / CHUNK, depth, to, rows, s->from);
    }
}

/* Rows [first, first + depth) of the columns of those stretches, STEP apart. */
static void gather(const bytes_convolution *k, const uint8_t *frames, int64_t first, int64_t depth,
                   const stretch *stretches, uint32_t count, uint8_t *columns)
{
    const uint8_t *rows[DEPTH_MAX];
    int64_t tap = first % k->c.taps;

    frames += first / k->c.taps * k->frame_bytes;
    for (int64_t d = 0; d < depth; d++) {
        rows[d] = frames + k->taps[tap];
        if (++tap == k->c.taps) {
            tap = 0;
            frames += k->frame_bytes;
        }
    }
    for (uint32_t s = 0; s < count && k->is_framed; s++) {
        copy_stretch(&stretches[s], depth, columns, rows);
    }
    for (uint32_t s = 0; s < count && !k->is_framed; s++) { /* the image has no room behind it */
        for (int64_t d = 0; d < depth; d++) {
            memcpy(columns + d * STEP + stretches[s].to, rows[d] + stretches[s].from,
                   (size_t)stretches[s].count);
        }
    }
}

/* Adds up `depth` rows of columns, `step` apart. */
static void add_rows(const bytes_convolution *k, const uint8_t *rows, int64_t step, int64_t depth,
                     int64_t columns, int32_t *sums)
{
    for (int64_t d = 0; d < depth; d++, rows += step) {
        k->row_loops->add_scaled(columns, sums, rows, k->c.dtype == EXG_DTYPE_I8, 1);
    }
}

/* Rows from `filter` on of the result; `windows` are the sums of x. */
static void put_rows(const bytes_run *r, int64_t filter, int64_t rows, int64_t at, int64_t columns,
                     const int32_t *sums, const int32_t *windows)
{
    const int32_t everywhere = (int32_t)r->k->depth * r->k->zero;

    int32_t *to = r->result + at;

    for (int64_t i = 0; i < rows; i++, sums += TILE, to += r->k->c.positions) {
        const int32_t start = r->bias == NULL ? 0 : r->bias[filter + i];
        const int32_t zero = r->zeros == NULL ? 0 : r->zeros[filter + i];

        EXG_INDEPENDENT
        for (int64_t j = 0; j < columns; j++) {
            to[j] = start + sums[j];
        }
        if (zero != 0) {
            EXG_INDEPENDENT
            for (int64_t j = 0; j < columns; j++) {
                to[j] -= zero * (windows[j] - everywhere);
            }
        }
    }
}

/* Of a tile of positions from j on, a block of the depth from `at` on as panels; adds up its
 * columns in `windows`, if there are zeros to take off the weight. */
static void pack_block(const bytes_run *r, int64_t group, int64_t j, int64_t at, char *panels,
                       int32_t *windows)
{
    const bytes_convolution *k = r->k;
    const convolution *c = &k->c;
    const uint8_t *frames = r->frames + group * c->in * k->frame_bytes;
    int64_t depth = EXG_MIN(k->depth - at, k->loops->depth);
    int64_t columns = EXG_MIN(c->positions - j, TILE);
    bool is_direct = c->taps == 1 && !k->is_framed && columns % k->loops->columns == 0;
    _Alignas(64) uint8_t gathered[STEP * DEPTH_MAX];
    const uint8_t *read = is_direct ? frames + at * k->frame_bytes + j : gathered;
    int64_t step = is_direct ? k->frame_bytes : STEP;
    stretch stretches[TILE];

    if (columns < TILE && !is_direct) {
        memset(gathered, 0, (size_t)(STEP * depth)); /* panels are filled up with those */
    }
    if (!is_direct) {
        gather(k, frames, at, depth, stretches, cut(k, j, columns, stretches), gathered);
    }
    if (r->zeros != NULL) {
        add_rows(k, read, step, depth, columns, windows);
    }
    k->loops->pack_b(exg_round_up(columns, k->loops->columns), depth, panels, read,
                     c->dtype == EXG_DTYPE_I8, 1, step);
}

/* Where those panels are in the workspace: of tile `t` of all images. */
static char *ready_block(const bytes_run *r, int64_t t, int64_t at)
{
    const bytes_convolution *k = r->k;

    return r->ready + TILE * (t * exg_gemm_bytes_row_to(k->loops, false, k->depth) +
                              exg_gemm_bytes_row_to(k->loops, false, at));
}

static void make_ready(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const bytes_convolution *k = r->k;
    int64_t blocks = exg_ceil_div(k->depth, k->loops->depth);
    int64_t t = block / blocks;
    int64_t at = block % blocks * k->loops->depth;

    pack_block(r, t / k->tiles, t % k->tiles * TILE, at, ready_block(r, t, at), NULL);
}

static void tile(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const bytes_convolution *k = r->k;
    const convolution *c = &k->c;
    const exg_gemm_bytes_loops *loops = k->loops;
    int64_t group = block / (k->parts * k->tiles); /* of all images */
    int64_t filter = group % c->groups * c->out;
    int64_t i = block % k->parts * k->rows;
    int64_t j = block / k->parts % k->tiles * TILE;
    int64_t rows = EXG_MIN(c->out - i, k->rows);
    int64_t columns = EXG_MIN(c->positions - j, TILE);
    const char *weight = r->panels + filter / c->out * exg_round_up(c->out, loops->rows) *
                                         exg_gemm_bytes_row_to(loops, true, k->depth);
    _Alignas(64) char packed[TILE * (DEPTH_MAX + sizeof(int32_t))];
    _Alignas(64) int32_t sums[ROWS_MAX * TILE];
    int32_t windows[TILE] = {0};

    for (int64_t at = 0; at < k->depth; at += loops->depth) {
        int64_t depth = EXG_MIN(k->depth - at, loops->depth);
        char *panels = r->ready != NULL ? ready_block(r, block / k->parts, at) : packed;

        if (r->ready == NULL) {
            pack_block(r, group, j, at, packed, windows);
        }
        loops->block(
            rows, columns, depth, weight + exg_gemm_bytes_a_at(loops, c->out, at, depth, i),
            k->weight.dtype == EXG_DTYPE_I8, panels, c->dtype == EXG_DTYPE_I8, sums, TILE, at > 0);
    }
    put_rows(r, filter + i, rows, (group * c->out + i) * c->positions + j, columns, sums, windows);
}

/* ---- one channel a group ------------------------------------------------------------------ */

/* Of `count` sums from `first` on, which run over whole rows of a frame, those of positions. */
static void put_positions(const bytes_convolution *k, int64_t first, int64_t count,
                          const int32_t *sums, int32_t *result)
{
    const convolution *c = &k->c;

    for (int64_t row = first / k->frame[2]; row * k->frame[2] < first + count; row++) {
        int64_t z = row / k->frame[1];
        int64_t y = row % k->frame[1];
        int64_t start = row * k->frame[2] - first; /* of the row, among the sums */
        int64_t from = EXG_MAX(0, -start);
        int64_t to = EXG_MIN(c->result[2], count - start);

        if (y < c->result[1] && from < to) {
            memcpy(result + (z * c->result[1] + y) * c->result[2] + from, sums + start + from,
                   (size_t)(to - from) * sizeof(*sums));
        }
    }
}

static int32_t weight_at(const bytes_run *r, int64_t at)
{
    return r->k->weight.dtype == EXG_DTYPE_I8 ? (int8_t)r->weight[at] : r->weight[at];
}

static void depthwise_plane(void *context, uint32_t plane)
{
    const bytes_run *r = context;
    const bytes_convolution *k = r->k;
    const convolution *c = &k->c;
    const uint8_t *frame = r->frames + plane / c->out * k->frame_bytes;
    int64_t filter = plane % (c->groups * c->out);
    int32_t zero = r->zeros == NULL ? 0 : r->zeros[filter];
    int32_t start = (r->bias == NULL ? 0 : r->bias[filter]) + zero * (int32_t)k->depth * k->zero;
    int64_t all =
        ((c->result[0] - 1) * k->frame[1] + c->result[1] - 1) * k->frame[2] + c->result[2];
    int32_t sums[ROW];

    for (int64_t at = 0; at < all; at += ROW) {
        int64_t count = EXG_MIN(all - at, ROW);

        for (int64_t x = 0; x < count; x++) {
            sums[x] = start;
        }
        for (int64_t t = 0; t < c->taps; t++) {
            k->row_loops->add_scaled(count, sums, frame + k->taps[t] + at, c->dtype == EXG_DTYPE_I8,
                                     weight_at(r, filter * c->taps + t) - zero);
        }
        put_positions(k, at, count, sums, r->result + plane * c->positions);
    }
}

/* ---- the weight's panels ------------------------------------------------------------------- */

static void pack_weight(void *context, uint32_t block)
{
    const bytes_run *r = context;
    const bytes_convolution *k = r->k;
    int64_t tiles = exg_ceil_div(k->c.out, EXG_GEMM_BYTES_ROWS);
    int64_t group = block / tiles;

    exg_gemm_bytes_pack_rows(
        k->loops, &k->weight, k->c.out, k->depth, block % tiles * EXG_GEMM_BYTES_ROWS,
        (const char *)r->weight + group * k->c.out * k->depth,
        (char *)(uintptr_t)r->panels + group * exg_round_up(k->c.out, k->loops->rows) *
                                           exg_gemm_bytes_row_to(k->loops, true, k->depth));
}

static void pack_groups(const bytes_run *r, exg_pool *pool)
{
    const convolution *c = &r->k->c;

    exg_pool_run(pool, pack_weight, (void *)(uintptr_t)r,
                 (uint32_t)(c->groups * exg_ceil_div(c->out, EXG_GEMM_BYTES_ROWS)));
}

/* What of the call depends on the weight alone. */
static void read_weight(const exg_kernel_call *call, bytes_convolution *k)
{
    const exg_tensor *weight = &call->inputs[1];
    convolution *c = &k->c;

    k->loops = EXG_LOOPS_BYTES(exg_loops_gemm_bytes);
    k->row_loops = EXG_LOOPS(exg_loops_row_bytes);
    assert(k->loops->depth <= DEPTH_MAX && TILE % k->loops->columns == 0);
    c->groups = exg_call_int(call, 8);
    c->in = weight->sizes[1];
    c->out = weight->sizes[0] / c->groups;
    c->is_depthwise = c->in == 1 && c->groups > 1 && c->out <= 4;
    k->depth = weight->sizes[0] == 0 ? 0 : exg_tensor_numel(weight) / weight->sizes[0];
    k->weight = (exg_matrix){weight->dtype, 0, k->depth, 1, 0};
}

static exg_status packer_prepare(exg_kernel_call *call, exg_error *err)
{
    bytes_convolution *k = EXG_NEW(call->arena, bytes_convolution);
    exg_tensor *packed = &call->outputs[0];

    if (k == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    read_weight(call, k);
    call->params = k;
    packed->rank = 3;
    packed->sizes[0] = k->c.is_depthwise ? 0 : k->c.groups;
    packed->sizes[1] = exg_round_up(k->c.out, k->loops->rows);
    packed->sizes[2] = exg_gemm_bytes_row_to(k->loops, true, k->depth);
    return EXG_OK;
}

static void packer_run(const exg_kernel_call *call)
{
    bytes_run r = {
        .k = call->params, .weight = call->inputs[1].data, .panels = call->outputs[0].data};

    pack_groups(&r, call->pool);
}

static const exg_kernel packer = {
    .name = "convolution_of_bytes_pack",
    .prepare = packer_prepare,
    .run = packer_run,
};

/* ---- prepare, run ---------------------------------------------------------------------------- */

/* Frames, and where taps read in them. */
static exg_status plan_frames(exg_kernel_call *call, bytes_convolution *k, exg_error *err)
{
    const convolution *c = &k->c;
    int64_t phase_bytes = 1;

    k->frame_bytes = 1;
    for (uint32_t d = 0; d < 3; d++) {
        int64_t reach = (c->kernel[d] - 1) * c->dilation[d];

        k->phases[d] = EXG_MIN(c->stride[d], reach + 1); /* the others no tap reads */
        k->frame[d] = c->result[d] + reach / c->stride[d];
        k->is_framed = k->is_framed || c->padding[d] > 0 || c->stride[d] > 1;
        phase_bytes *= k->frame[d];
        k->frame_bytes *= k->phases[d] * k->frame[d];
    }
    k->taps = EXG_NEW_ARRAY(call->arena, int64_t, (size_t)c->taps);
    if (k->taps == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (int64_t t = 0; t < c->taps; t++) {
        int64_t at[3] = {t / (c->kernel[1] * c->kernel[2]), t / c->kernel[2] % c->kernel[1],
                         t % c->kernel[2]};
        int64_t phase = 0;
        int64_t first = 0;

        for (uint32_t d = 0; d < 3; d++) {
            phase = phase * k->phases[d] + at[d] * c->dilation[d] % c->stride[d];
            first = first * k->frame[d] + at[d] * c->dilation[d] / c->stride[d];
        }
        k->taps[t] = phase * phase_bytes + first;
    }
    return EXG_OK;
}

static void plan_workspace(exg_kernel_call *call, bytes_convolution *k)
{
    const convolution *c = &k->c;
    int64_t groups = c->batch * c->groups;
    int64_t frames = k->is_framed ? groups * c->in * k->frame_bytes + TILE : 0;
    int64_t weight = c->is_depthwise || k->is_packed
                         ? 0
                         : c->groups * exg_round_up(c->out, k->loops->rows) *
                               exg_gemm_bytes_row_to(k->loops, true, k->depth);
    int64_t columns =
        k->shares ? groups * k->tiles * TILE * exg_gemm_bytes_row_to(k->loops, false, k->depth) : 0;

    k->panels_offset = (uint64_t)exg_round_up(frames, 64);
    k->ready_offset = k->panels_offset + (uint64_t)exg_round_up(weight, 64);
    call->workspace_bytes = k->ready_offset + (uint64_t)columns;
}

static exg_status prepare(exg_kernel_call *call, exg_error *err)
{
    bytes_convolution *k = EXG_NEW(call->arena, bytes_convolution);
    convolution *c;
    int64_t tasks;

    if (k == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!exg_dtype_is_byte(call->inputs[i].dtype)) {
            return exg_unsupported_dtype("convolution_of_bytes", call->inputs[i].dtype, err);
        }
    }
    if (call->inputs[1].rank < 3 || call->inputs[1].rank > 5) {
        return EXG_FAIL(err, UNSUPPORTED, "KRN-010", "a convolution over %u dimensions",
                        call->inputs[1].rank - 2);
    }
    c = &k->c;
    exg_convolution_read(call, c);
    read_weight(call, k);
    call->params = k;
    k->zero = (int32_t)exg_call_int(call, 9);
    k->is_packed = call->packed != NULL;
    k->has_zeros = call->input_count > 3 && !exg_tensor_is_absent(&call->inputs[3]);
    k->tiles = exg_ceil_div(c->positions, TILE);
    tasks = c->batch * c->groups * k->tiles;
    k->rows = tasks < TASKS ? EXG_GEMM_BYTES_ROWS : ROWS_MAX;
    k->parts = exg_ceil_div(c->out, k->rows);
    k->shares = tasks < TASKS && k->parts > 1 && !c->is_depthwise;
    EXG_TRY(plan_frames(call, k, err));
    plan_workspace(call, k);
    return EXG_OK;
}

static void run(const exg_kernel_call *call)
{
    const bytes_convolution *k = call->params;
    const convolution *c = &k->c;
    const int32_t *zeros = k->has_zeros ? call->inputs[3].data : NULL;
    bytes_run r = {.k = k,
                   .image = call->inputs[0].data,
                   .weight = call->inputs[1].data,
                   .bias = c->has_bias ? call->inputs[2].data : NULL,
                   .result = call->outputs[0].data};

    for (int64_t i = 0; k->has_zeros && i < c->groups * c->out; i++) {
        r.zeros = zeros[i] != 0 ? zeros : r.zeros; /* symmetric weights have none but 0 */
    }
    r.frames = k->is_framed ? call->workspace : call->inputs[0].data;
    if (c->positions == 0) {
        return;
    }
    if (k->is_framed) {
        exg_pool_run(call->pool, frame_channel, &r, (uint32_t)(c->batch * c->groups * c->in));
    }
    if (c->is_depthwise) {
        exg_pool_run(call->pool, depthwise_plane, &r, (uint32_t)(c->batch * c->groups * c->out));
        return;
    }
    r.panels = k->is_packed ? call->packed->data : (char *)call->workspace + k->panels_offset;
    if (!k->is_packed) {
        pack_groups(&r, call->pool);
    }
    if (k->shares && r.zeros == NULL) { /* else a task sums the columns it packs */
        r.ready = (char *)call->workspace + k->ready_offset;
        exg_pool_run(
            call->pool, make_ready, &r,
            (uint32_t)(c->batch * c->groups * k->tiles * exg_ceil_div(k->depth, k->loops->depth)));
    }
    exg_pool_run(call->pool, tile, &r, (uint32_t)(c->batch * c->groups * k->tiles * k->parts));
}

const exg_kernel exg_kernel_convolution_of_bytes = {
    .name = "convolution_of_bytes",
    .prepare = prepare,
    .run = run,
    .packer = &packer,
    .packs = 1,
};
