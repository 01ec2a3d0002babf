/* convolution_last.c - aten.convolution whose result lies channels-last.
 *
 *   result (batch, positions, out) = patches (positions, depth) times weight (depth, out)
 *
 * The weights are packed once (gemm.h); patches exist only as panels of a few positions,
 * gathered from the image where it is. The depth runs so that what is gathered is
 * side by side: channels within a tap (tap, channel) when the image is channels-last,
 * columns of the filter (channel, row, column) when it is row-major with few channels,
 * as images are.
 */
#include "libexec/kernels/cpu/convolution.h"

#define FEW_CHANNELS 8
#define POSITIONS    16 /* at most of a panel */

typedef struct last_convolution {
    convolution c;
    bool by_columns;    /* depth is (channel, row, column) */
    int64_t segment;    /* of the depth: what is side by side */
    int64_t step;       /* elements between neighbours of a segment */
    int64_t strides[4]; /* of the image: batch, channel, row, column */
    bool turns;         /* the image, so that channels are side by side, before it is read */
    exg_move turn;
    uint64_t turned_at;   /* in the workspace */
    int64_t turned_bytes; /* of one image */
    int64_t border[2];    /* zeros around it: rows, columns */
} last_convolution;

/* Where a position's filter begins. */
typedef struct corner {
    int64_t y, x;
    bool is_real;   /* panels are filled up with positions that are not */
    bool is_inside; /* the whole filter falls on the image */
} corner;

static const char zeros[EXG_GEMM_K * sizeof(double)];

/* `count` elements `step` apart, dense as panels hold them. */
static void gather(const convolution *c, int64_t count, char *to, const char *memory, int64_t step)
{
    if (c->bytes == sizeof(uint16_t) && c->gemm.loops->panel_bytes == c->bytes) {
        for (int64_t k = 0; k < count; k++) {
            ((uint16_t *)(void *)to)[k] = ((const uint16_t *)(const void *)memory)[k * step];
        }
    } else {
        c->convert->load[c->dtype]((uint32_t)count, to, memory, step);
    }
}

/* Elements [from, from + count) of segment `s` at one corner, or zeros. `room` holds
 * them where they do not lie dense as panels hold them. */
static const void *piece(const last_convolution *l, const char *image, const corner *at, int64_t s,
                         int64_t from, int64_t count, char *room)
{
    const convolution *c = &l->c;
    uint32_t bytes = c->gemm.loops->panel_bytes;
    int64_t row = l->by_columns ? s % c->kernel[1] : s / c->kernel[2];
    int64_t y = at->y + row * c->dilation[1];
    int64_t x = at->x + (l->by_columns ? from : s % c->kernel[2]) * c->dilation[2];
    int64_t channel = l->by_columns ? s / c->kernel[1] : from;
    int64_t inside = count;
    int64_t skipped = 0;
    const char *memory;

    if (!at->is_real || y < 0 || y >= c->size[1]) {
        return zeros;
    }
    if (l->by_columns) {
        while (skipped < count && x < 0) {
            skipped++;
            x += c->dilation[2];
        }
        inside = x >= c->size[2] ? 0 : (c->size[2] - x + c->dilation[2] - 1) / c->dilation[2];
        inside = EXG_MIN(inside, count - skipped);
    } else if (x < 0 || x >= c->size[2]) {
        return zeros;
    }
    if (inside <= 0) {
        return zeros;
    }
    memory = image + (channel * l->strides[1] + y * l->strides[2] + x * l->strides[3]) * c->bytes;
    if (inside == count && l->step == 1 && c->bytes == bytes) {
        return memory;
    }
    if (inside < count) {
        memset(room, 0, (size_t)count * bytes);
    }
    gather(c, inside, room + skipped * bytes, memory, l->step);
    return room;
}

static corner corner_of(const last_convolution *l, int64_t position, bool is_real)
{
    const convolution *c = &l->c;
    corner at = {.is_real = is_real};

    at.y = position / c->result[2] * c->stride[1] - c->padding[1];
    at.x = position % c->result[2] * c->stride[2] - c->padding[2];
    at.is_inside = is_real && at.y >= 0 && at.x >= 0 &&
                   at.y + (c->kernel[1] - 1) * c->dilation[1] < c->size[1] &&
                   at.x + (c->kernel[2] - 1) * c->dilation[2] < c->size[2];
    return at;
}

/* Elements from an inside corner to the first of segment `s` at `from`. */
static int64_t reach(const last_convolution *l, int64_t s, int64_t from)
{
    const convolution *c = &l->c;
    int64_t row = l->by_columns ? s % c->kernel[1] : s / c->kernel[2];

    return l->by_columns ? s / c->kernel[1] * l->strides[1] + row * c->dilation[1] * l->strides[2] +
                               from * l->step
                         : row * c->dilation[1] * l->strides[2] +
                               s % c->kernel[2] * c->dilation[2] * l->strides[3] + from * l->step;
}

/* What an inside corner is in the image. */
static const char *first_of(const last_convolution *l, const char *image, const corner *at)
{
    return image + (at->y * l->strides[2] + at->x * l->strides[3]) * l->c.bytes;
}

/* The depth of one panel of positions that are all inside and read where they are. */
static void pack_inside(const last_convolution *l, const char *image, const corner *corners,
                        int64_t k, int64_t depth, char *panel)
{
    const convolution *c = &l->c;
    const exg_gemm_loops *loops = c->gemm.loops;
    const char *first[POSITIONS];

    for (uint32_t r = 0; r < loops->rows; r++) {
        first[r] = first_of(l, image, &corners[r]);
    }
    for (int64_t done = 0; done < depth;) {
        int64_t from = (k + done) % l->segment;
        int64_t count = EXG_MIN(l->segment - from, depth - done);
        int64_t offset = reach(l, (k + done) / l->segment, from) * c->bytes;
        const void *pieces[POSITIONS];

        for (uint32_t r = 0; r < loops->rows; r++) {
            pieces[r] = first[r] + offset;
        }
        loops->pack_rows(count, panel + done * loops->rows * loops->panel_bytes, pieces);
        done += count;
    }
}

/* The same from corners anywhere, piece by piece. */
static void pack_pieces(const last_convolution *l, const char *image, const corner *corners,
                        int64_t k, int64_t depth, char *panel)
{
    const exg_gemm_loops *loops = l->c.gemm.loops;
    _Alignas(64) char room[POSITIONS][EXG_GEMM_K * sizeof(double)];

    for (int64_t done = 0; done < depth;) {
        int64_t s = (k + done) / l->segment;
        int64_t from = (k + done) % l->segment;
        int64_t count = EXG_MIN(l->segment - from, depth - done);
        const void *pieces[POSITIONS];

        for (uint32_t r = 0; r < loops->rows; r++) {
            pieces[r] = piece(l, image, &corners[r], s, from, count, room[r]);
        }
        loops->pack_rows(count, panel + done * loops->rows * loops->panel_bytes, pieces);
        done += count;
    }
}

/* The same where pieces would cut groups of the depth: they are joined before. */
static void pack_joined(const last_convolution *l, const char *image, const corner *corners,
                        int64_t k, int64_t depth, char *panel)
{
    const exg_gemm_loops *loops = l->c.gemm.loops;
    bool lies_dense = l->step == 1 && l->c.bytes == loops->panel_bytes;
    _Alignas(64) char room[POSITIONS][EXG_GEMM_K * sizeof(double)];
    const char *first[POSITIONS];
    const void *rows[POSITIONS];

    for (uint32_t r = 0; r < loops->rows; r++) {
        rows[r] = room[r];
        first[r] = lies_dense && corners[r].is_inside ? first_of(l, image, &corners[r]) : NULL;
    }
    for (int64_t done = 0; done < depth;) {
        int64_t s = (k + done) / l->segment;
        int64_t from = (k + done) % l->segment;
        int64_t count = EXG_MIN(l->segment - from, depth - done);
        int64_t offset = reach(l, s, from) * l->c.bytes;

        for (uint32_t r = 0; r < loops->rows; r++) {
            char *to = room[r] + done * loops->panel_bytes;
            const void *found = first[r] != NULL ? first[r] + offset
                                                 : piece(l, image, &corners[r], s, from, count, to);

            if (found != to) {
                memcpy(to, found, (size_t)count * loops->panel_bytes);
            }
        }
        done += count;
    }
    loops->pack_rows(depth, panel, rows);
}

/* Rows [i, i + rows) of the patches, depth [k, k + depth), as panels. */
static void pack_patches(const void *context, const void *a, int64_t batch, int64_t i, int64_t rows,
                         int64_t k, int64_t depth, void *panels)
{
    const last_convolution *l = context;
    const convolution *c = &l->c;
    const exg_gemm_loops *loops = c->gemm.loops;
    const char *image = (const char *)a + batch * l->strides[0] * c->bytes;
    bool cuts_groups = l->segment % loops->group != 0;

    for (int64_t p = 0; p < rows; p += loops->rows) {
        char *panel = (char *)panels + p * exg_gemm_panel_bytes(loops, depth);
        bool all_inside = l->step == 1 && c->bytes == loops->panel_bytes && !cuts_groups;
        corner corners[POSITIONS];

        for (uint32_t r = 0; r < loops->rows; r++) {
            corners[r] = corner_of(l, i + p + r, p + r < rows);
            all_inside = all_inside && corners[r].is_inside;
        }
        if (all_inside) {
            pack_inside(l, image, corners, k, depth, panel);
        } else if (cuts_groups) {
            pack_joined(l, image, corners, k, depth, panel);
        } else {
            pack_pieces(l, image, corners, k, depth, panel);
        }
    }
}

static bool is_row_major(const exg_tensor *t)
{
    return t->strides[3] == 1 && t->strides[1] != 1;
}

/* ---- prepare, run ---------------------------------------------------------------------- */

bool exg_convolution_last_suits(const exg_kernel_call *call)
{
    const exg_tensor *input = &call->inputs[0];
    const exg_tensor *weight = &call->inputs[1];
    bool is_narrow = weight->rank == 4 && weight->sizes[1] < FEW_CHANNELS;
    bool is_float = input->dtype == EXG_DTYPE_F32 || input->dtype == EXG_DTYPE_F64 ||
                    input->dtype == EXG_DTYPE_BF16 || input->dtype == EXG_DTYPE_F16;

    return input->rank == 4 && weight->rank == 4 && is_float && weight->dtype == input->dtype &&
           !exg_call_bool(call, 6) && exg_call_int(call, 8) == 1 &&
           (is_narrow ? is_row_major(input) : weight->sizes[0] >= FEW_CHANNELS) &&
           weight->sizes[3] <= EXG_GEMM_K;
}

static bool reads_by_columns(const exg_kernel_call *call)
{
    return call->inputs[1].sizes[1] < FEW_CHANNELS;
}

static void plan_product(exg_kernel_call *call, last_convolution *l)
{
    convolution *c = &l->c;
    exg_gemm *g = &c->gemm;
    const int64_t *s = l->strides;
    bool is_pointwise = c->taps == 1 && c->padding[1] == 0 && c->padding[2] == 0;

    g->batch = c->batch;
    g->m = c->positions;
    g->n = c->out;
    g->k = c->in * c->taps;
    g->b = (exg_matrix){c->dtype, 0, 0, 0, 1};
    g->b_is_packed = true;
    g->c_dtype = c->dtype;
    g->alpha = 1;
    if (c->has_bias) {
        g->has_self = true;
        g->beta = 1;
        g->self = (exg_matrix){c->dtype, 0, 0, call->inputs[2].strides[0], 0};
    }
    g->a = (exg_matrix){c->dtype, s[0], c->stride[2] * s[3], s[1], 0};
    if (!is_pointwise || c->stride[1] * s[2] != c->result[2] * g->a.row) {
        g->pack_a = pack_patches;
        g->pack_context = l;
    }
}

/* Patches read an element once for every tap that falls on it: of channels that are far apart, each
 * time by itself, and at the edge each time with a look. So the image is laid out before, its
 * padding around it. */
static void plan_turn(exg_kernel_call *call, last_convolution *l)
{
    convolution *c = &l->c;
    const exg_tensor *image = &call->inputs[0];
    const bool lies_apart = l->strides[1] != 1;
    const bool has_fast_products = c->dtype == EXG_DTYPE_BF16 && EXG_GEMM_PAIRS() != NULL;

    l->turns = !l->by_columns && c->in > 1 && c->taps > c->stride[1] * c->stride[2] &&
               (lies_apart || (has_fast_products && c->padding[1] + c->padding[2] > 0));
    if (!l->turns) {
        return;
    }
    for (int d = 0; d < 2; d++) {
        l->border[d] = c->padding[d + 1];
        c->size[d + 1] += 2 * c->padding[d + 1];
        c->padding[d + 1] = 0;
    }
    l->strides[1] = 1;
    l->strides[3] = c->in;
    l->strides[2] = c->size[2] * l->strides[3];
    l->strides[0] = c->size[1] * l->strides[2];
    l->turned_bytes = l->strides[0] * c->bytes;
    exg_move_plan(&l->turn, 4, image->sizes, l->strides, image->strides, c->bytes);
}

exg_status exg_convolution_last_prepare(exg_kernel_call *call, exg_error *err)
{
    last_convolution *l;

    if (call->packed->rank == EXG_WINOGRAD_RANK) {
        return exg_winograd_prepare(call, err);
    }
    l = EXG_NEW(call->arena, last_convolution);
    if (l == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_convolution_read(call, &l->c);
    memcpy(l->strides, call->inputs[0].strides, sizeof(l->strides));
    l->by_columns = reads_by_columns(call);
    plan_turn(call, l);
    l->segment = l->by_columns ? l->c.kernel[2] : l->c.in;
    l->step = l->by_columns ? l->c.dilation[2] * l->strides[3] : l->strides[1];
    plan_product(call, l);
    call->params = l;
    EXG_TRY(exg_gemm_plan(&l->c.gemm, call, err));
    if (l->turns) {
        l->turned_at = (call->workspace_bytes + 63) & ~UINT64_C(63);
        call->workspace_bytes = l->turned_at + (uint64_t)(l->c.batch * l->turned_bytes);
    }
    return EXG_OK;
}

/* The image's border, and the image into it. */
static void turn_image(const exg_kernel_call *call, const last_convolution *l, char *turned)
{
    const int64_t pixel = l->strides[3] * l->c.bytes;
    const int64_t row = l->strides[2] * l->c.bytes;
    const size_t above = (size_t)(l->border[0] * row);
    const size_t beside = (size_t)(l->border[1] * pixel);

    for (int64_t b = 0; b < l->c.batch; b++) {
        char *image = turned + b * l->turned_bytes;

        memset(image, 0, above);
        for (int64_t y = l->border[0]; y < l->c.size[1] - l->border[0]; y++) {
            memset(image + y * row, 0, beside);
            memset(image + (y + 1) * row - beside, 0, beside);
        }
        memset(image + l->turned_bytes - above, 0, above);
    }
    exg_move_run(&l->turn, call->pool, turned + above + beside, call->inputs[0].data);
}

void exg_convolution_last_run(const exg_kernel_call *call)
{
    const last_convolution *l = call->params;
    const void *image = call->inputs[0].data;

    if (call->packed->rank == EXG_WINOGRAD_RANK) {
        exg_winograd_run(call);
        return;
    }
    if (l->turns) {
        char *turned = (char *)call->workspace + l->turned_at;

        turn_image(call, l, turned);
        image = turned;
    }
    exg_gemm_run(&l->c.gemm, call, call->workspace, call->outputs[0].data, image,
                 call->packed->data, l->c.has_bias ? call->inputs[2].data : NULL);
}

/* ---- weights ----------------------------------------------------------------------------- */

/* (out, in, row, column) to (out, depth) in the workspace, then as b of a product. */
static exg_status packer_prepare(exg_kernel_call *call, exg_error *err)
{
    const exg_tensor *w = &call->inputs[1];
    int64_t depth = w->sizes[1] * w->sizes[2] * w->sizes[3];
    exg_matrix b = {w->dtype, 0, 1, depth, 0};

    if (!call->channels_last) {
        call->outputs[0].sizes[0] = 0;
        return EXG_OK;
    }
    if (exg_winograd_suits(call)) {
        return exg_winograd_packing_plan(call, err);
    }
    call->workspace_bytes = (uint64_t)exg_tensor_numel(w) * exg_dtype_bytes(w->dtype);
    return exg_gemm_packing_plan(call, &b, EXG_GEMM_MANY, w->sizes[0], depth, err);
}

static void packer_run(const exg_kernel_call *call)
{
    const exg_tensor *w = &call->inputs[1];
    const int64_t *s = w->strides;
    bool by_columns = reads_by_columns(call);
    int64_t sizes[4] = {w->sizes[0], w->sizes[2], w->sizes[3], w->sizes[1]};
    int64_t from[4] = {s[0], s[2], s[3], s[1]};
    int64_t to[4];
    exg_move move;

    if (call->outputs[0].rank == EXG_WINOGRAD_RANK) {
        exg_winograd_packing_run(call);
        return;
    }
    if (by_columns) {
        memcpy(sizes, w->sizes, sizeof(sizes));
        memcpy(from, s, sizeof(from));
    }
    to[3] = 1;
    for (int d = 3; d > 0; d--) {
        to[d - 1] = to[d] * sizes[d];
    }
    exg_move_plan(&move, 4, sizes, to, from, exg_dtype_bytes(w->dtype));
    exg_move_run(&move, call->pool, call->workspace, w->data);
    exg_gemm_packing_run(call, call->workspace);
}

const exg_kernel exg_convolution_last_packer = {
    .name = "convolution_pack",
    .prepare = packer_prepare,
    .run = packer_run,
};
